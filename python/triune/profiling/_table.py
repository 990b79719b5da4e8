"""The profile as text: an operator per line in 100 columns, then the sums."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from typing import Any

from triune._files import replaced_text
from triune.profiling._energy import scaled
from triune.profiling._model import Profile

LEAST_WIDTH = 100
"""Columns that the table may always use."""

LEAST_NAME, LEAST_KIND = 8, 9

LISTED = 3
"""Operators that are named for what they read again."""


def write_rows(path: str | os.PathLike[str], rows: Sequence[dict[str, Any]]) -> None:
    """Write rows with a header as CSV; all have the first one's columns."""
    with replaced_text(path) as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def compact(number: float) -> str:
    """Return a number in at most five characters: exact below 100 000, else three digits and k, M, G, T or P."""
    if number < 100_000:
        return f"{number:.0f}"
    units = iter("kMGTP")
    value, unit = number / 1000, next(units)
    # Three digits: 999.5 would round to four.
    while value >= 999.5 and unit != "P":
        value, unit = value / 1000, next(units)
    digits = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{digits}f}{unit}"


def duration(time: float, unit: str) -> str:
    """Return a time in at most five characters: four digits of microseconds and milliseconds."""
    if unit == "cycles" or time >= 999.95:
        return compact(time)
    return f"{time:.{1 if time >= 99.995 else 2 if time >= 9.9995 else 3}f}" if time else "0"


def size(count: int) -> str:
    """Return bytes in binary units."""
    units = iter(("B", "KiB", "MiB", "GiB"))
    value, unit = float(count), next(units)
    while value >= 1024 and unit != "GiB":
        value, unit = value / 1024, next(units)
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"


def shorten(text: str, width: int) -> str:
    """Cut a name to `width` columns; its end tells more than its start."""
    return text if len(text) <= width else "…" + text[1 - width :]


def table(profile: Profile, width: int, unit: str) -> str:
    """Return operators and totals as text of at most `width` columns, or `LEAST_WIDTH`; times in `unit`."""
    memories = [memory.name for memory in profile.memories]
    head = [
        "operator",
        "kind",
        "start",
        "end",
        "comp.",
        "load",
        "store",
        "stall",
        *memories,
        "tiles",
        "MACs",
        "share",
        "bound by",
    ]
    rows = []
    for operator in profile.operators:
        cycles = (operator.start, operator.end, operator.compute, operator.load, operator.store, operator.stall)
        moved = [operator.read[name] + operator.written[name] for name in memories]
        times = [duration(profile.time(count, unit), unit) for count in cycles]
        numbers = [*times, *(compact(number) for number in (*moved, operator.tiles, operator.macs))]
        rows.append([operator.name, operator.kind, *numbers, f"{operator.share:.1%}", operator.bottleneck])
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    room = max(width, LEAST_WIDTH) - sum(widths[2:]) - len(widths) + 1
    # Kinds give way first, then names.
    widths[1] = min(widths[1], max(LEAST_KIND, room - widths[0]))
    widths[0] = min(widths[0], max(LEAST_NAME, room - widths[1]))
    left = {0, 1, len(head) - 1}

    def line(cells: list[str]) -> str:
        # The end of a name, the start of a kind tell most.
        cells[0] = shorten(cells[0], widths[0])
        cells[1] = cells[1] if len(cells[1]) <= widths[1] else cells[1][: widths[1] - 1] + "…"
        columns = enumerate(zip(cells, widths, strict=True))
        text = " ".join(f"{cell:<{size}}" if at in left else f"{cell:>{size}}" for at, (cell, size) in columns)
        return text.rstrip()

    return "\n".join([line(head), *map(line, rows), "", *_totals(profile)])


def _buffers(profile: Profile) -> list[str]:
    """Say what passes the buffers, and which operators read most of it again."""
    most = max((operator.buffered for operator in profile.operators), default=0)
    tiles = sum(operator.tiles for operator in profile.operators)
    room = "" if profile.buffer_bytes is None else f" of {size(profile.buffer_bytes)}"
    again = sorted((each for each in profile.operators if each.reread), key=lambda each: -each.reread)
    total = f", {size(sum(each.reread for each in again))} read again" if again else ""
    lines = [f"{'buffers':<12} {tiles} tiles, at most {size(most)}{room} at once{total}"]
    lines += [f"{'':<12} {size(each.reread)} of {shorten(each.name, 24)}: {each.tiling}" for each in again[:LISTED]]
    if len(again) > LISTED:
        lines.append(f"{'':<12} and {len(again) - LISTED} more operators")
    return lines


def _energy(profile: Profile) -> list[str]:
    """Say what an image costs in energy and what most of it goes to."""
    spent = profile.energy
    if spent is None:
        return []
    total = spent.total
    parts = sorted(spent.parts().items(), key=lambda part: -part[1])
    shares = ", ".join(f"{name} {part / total:.1%}" for name, part in parts if part and total)
    watts = scaled(round(total / (profile.microseconds * 1e-6)), "W") if profile.cycles else "0 W"
    return [f"{'energy':<12} {spent} an image on the device, {watts} while it runs", f"{'':<12} {shares}"]


def _totals(profile: Profile) -> list[str]:
    causes = ", ".join(f"{cause} {cycles / profile.cycles:.1%}" for cause, cycles in profile.causes.items() if cycles)
    lines = [
        f"time         {profile.cycles:,} cycles = {profile.microseconds:,.1f} µs on one core of {profile.device} at "
        f"{profile.clock_mhz} MHz",
        f"             {causes}",
        f"bound by     {profile.bottleneck}",
        f"work         {profile.macs:,} MACs, {compact(profile.macs_per_second)} MACs/s, "
        f"{profile.utilization:.1%} of the array's peak",
    ]
    if profile.host_operators:
        all_macs = profile.macs + (profile.host_macs or 0)
        share = f" ({(profile.host_macs or 0) / all_macs:.1%})" if all_macs else ""
        times = {0: "", 1: "; the device waits for it once"}.get(
            profile.waits, f"; the device waits for it {profile.waits} times"
        )
        lines.append(
            f"host         {profile.host_operators} more operators with {compact(profile.host_macs or 0)} MACs{share}{times}: "
            "not in this time"
        )
    lines.extend(f"{'assumed':<12} {each}" for each in profile.assumptions)
    if profile.estimated:
        lines.append(
            "origin       estimate from operators' shapes: what another compiler's instructions do is not known"
        )
    if profile.batch > 1:
        lines.append(f"batch        {profile.batch} images, each on a core of its own at the same time")
    label = "traffic"
    for memory in profile.memories:
        read = sum(operator.read[memory.name] for operator in profile.operators)
        written = sum(operator.written[memory.name] for operator in profile.operators)
        if read or written:
            lines.append(f"{label:<12} {memory.name}: {size(read)} read, {size(written)} written")
            label = ""
    lines.extend(_energy(profile))
    lines.extend(_buffers(profile))
    constants = profile.segment("constants")
    capacity = profile.memory(constants.memory).bytes
    lines.append(f"{'constants':<12} {size(constants.bytes)} of {constants.memory}'s {size(capacity)}")
    home, own = profile.constants_share
    if own and constants.memory != home:
        cure = "; a larger batch shares one copy between more cores" if own < profile.memory(home).bytes else ""
        lines.append(f"{'':<12} they stream: {home} has {size(own)} for this program{cure}")
    label = "feature maps"
    for plan in profile.plans:
        bound = f", lower bound {size(plan.lower_bound)} (+{plan.excess:.1%})" if plan.lower_bound else ""
        lines.append(f"{label:<12} {size(plan.bytes)} of {plan.memory}'s {size(plan.capacity)}{bound}")
        label = ""
        if plan.kind == "spilled":
            lines.append(f"{'':<12} they spill: {profile.segment('scratch').memory} has no more room for this program")
    if profile.residency:
        near = profile.residency
        lines.append(
            f"{'':<12} policy {near.policy}: {size(near.value)} of traffic avoided, {near.gap:.1%} from the optimum"
        )
    return lines
