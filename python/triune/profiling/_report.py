"""A profile as one HTML page that needs nothing else: totals, pictures, and the table of operators."""

from __future__ import annotations

from html import escape
from pathlib import Path

from triune._files import write_text
from triune.profiling._charts import figures
from triune.profiling._model import Profile
from triune.profiling._page import cards, compose_page, head_cells
from triune.profiling._table import compact, size


def write_report(profile: Profile, path: Path) -> None:
    """Write the page."""
    title = f"{escape(profile.name)} on {escape(profile.device)}"
    batch = f" A run is {profile.batch} images, each on a core of its own." if profile.batch > 1 else ""
    model = f" The model's fingerprint (SHA-256) is <code>{profile.digest[:16]}</code>." if profile.digest else ""
    guessed = " The commands are estimates from shapes: the vendor's own are not known." if profile.estimated else ""
    times = "once" if profile.waits == 1 else f"{profile.waits} times"
    waits = f" In a run the device waits for the host {times}, whose time is no part of this." if profile.waits else ""
    intro = f"""Modelled cost of one image on one core of {escape(profile.device)} at {profile.clock_mhz} MHz.{batch} Nothing was
run: cycles come from shapes and the device's description.{guessed}{waits}{model} Utilization is how much of the array's peak the
multiply-accumulates come to; what a model is bound by is where most cycles go (control is the fixed cost
of its commands). Bound by compute at a low utilization means that
products keep the array busy without filling it."""
    hint = "Cycles count from the launch; bytes are read + written. A heading sorts by its column."
    page = compose_page(title, intro, _cards(profile), figures(profile), hint, _table(profile))
    write_text(path, page)


def _cards(profile: Profile) -> str:
    constants, plans = profile.segment("constants"), profile.plans
    causes = sorted(profile.causes.items(), key=lambda item: -item[1])[:2]
    most = ", ".join(f"{cause} {cycles / profile.cycles:.0%}" for cause, cycles in causes)
    rows = [
        ("Time", f"{profile.microseconds:,.1f} µs", f"{profile.cycles:,} cycles"),
        (
            "Images a second",
            f"{1e6 * profile.batch / profile.microseconds:,.0f}" if profile.microseconds else "–",
            f"on {profile.batch} cores, one run after the other"
            if profile.batch > 1
            else "on one core, one after the other",
        ),
        ("Goes to", most.partition(", ")[0], most.partition(", ")[2]),
        ("Work", f"{compact(profile.macs)} MACs", f"{compact(profile.macs_per_second)} MACs/s"),
        (
            "Utilization",
            f"{profile.utilization:.{1 if profile.utilization >= 0.001 else 2}%}",
            f"of the array's peak; bound by {profile.bottleneck}",
        ),
        (
            "Feature maps",
            " + ".join(size(plan.bytes) for plan in plans),
            "in " + " and ".join(plan.memory for plan in plans),
        ),
        ("Constants", size(constants.bytes), f"in {constants.memory}"),
    ]
    if profile.energy:
        part, spent = max(profile.energy.parts().items(), key=lambda part: part[1])
        share = f", {spent / profile.energy.total:.0%} of it {part}" if spent else ""
        rows.append(("Energy", str(profile.energy), f"an image on the device{share}"))
    if profile.host_operators:
        macs = f"{compact(profile.host_macs or 0)} MACs, not in this time"
        rows.append(("On the host besides", f"{profile.host_operators} operators", macs))
    return cards(rows)


def _table(profile: Profile) -> str:
    memories = [memory.name for memory in profile.memories]
    # What is asked first comes first: a small screen shows the left.
    head = [
        "operator",
        "kind",
        "bound by",
        "share",
        "utilization",
        "compute",
        "stall",
        "of it load",
        "control",
        "load",
        "store",
    ]
    head += [f"{name} bytes" for name in memories] + ["read again", "MACs", "start", "end", "tiles"]
    head += (["energy in nJ"] if profile.energy else []) + ["cut into"]
    rows = []
    for operator in profile.operators:
        numbers = [
            operator.compute,
            operator.stall,
            operator.load_stall,
            operator.control,
            operator.load,
            operator.store,
        ]
        numbers += [operator.read[name] + operator.written[name] for name in memories]
        numbers += [operator.reread, operator.macs, operator.start, operator.end, operator.tiles]
        cells = [f'<th scope="row" class=text>{escape(operator.name)}</th>']
        cells += [f"<td class=text>{escape(value)}</td>" for value in (operator.kind, operator.bottleneck)]
        cells += [f"<td data-value={part:.6f}>{part:.1%}</td>" for part in (operator.share, operator.utilization)]
        cells += [f"<td data-value={number}>{number:,}</td>" for number in numbers]
        if operator.energy:
            spent = operator.energy.total
            cells.append(f"<td data-value={spent}>{spent / 1e6:,.1f}</td>")
        cells.append(f"<td class=text>{escape(str(operator.tiling))}</td>")
        rows.append(f"<tr>{''.join(cells)}</tr>")
    caption = f"<caption>{len(profile.operators)} operators; cycles of one core</caption>"
    heads = head_cells(head, {0, 1, 2, len(head) - 1})
    return f"<table>{caption}<thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
