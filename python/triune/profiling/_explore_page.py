"""An exploration as one HTML page: throughput over the parameters, throughput over each cost, and the table of designs."""

from __future__ import annotations

from dataclasses import replace
from html import escape
from itertools import groupby
from pathlib import Path

from triune._files import write_text
from triune.profiling._explore import Design, Exploration
from triune.profiling._marks import Axis, Chart, Note, Panel, Series, colour, decades, linear
from triune.profiling._page import cards, compose_page, head_cells
from triune.profiling._table import compact, size

MOST_NAMED = 16
"""Most lines that the legend names."""

COSTS = {
    "area": ("a proxy for the area of array and on-chip memories", "mm² of 45 nm", 1.0),
    "macs": ("multiply-accumulates of the arrays per cycle", "MACs per cycle", 1.0),
    "bytes": ("memory on the chip", "KiB", 1 / 1024),
    "bandwidth": ("bandwidth of the memory outside", "GB/s", 1e-9),
    "traffic": ("bytes moved to and from the memory outside", "MB per image", 1e-6),
    "energy": ("energy on the device", "µJ per image", 1e6),
}
"""What designs cost: in words, the unit that the page shows, and how many of it come to one of `Design.cost`."""


def write_page(found: Exploration, path: Path) -> None:
    """Write the page."""
    title = f"{escape(found.name)} on {len(found.designs)} designs of {escape(found.device)}"
    batch = f" A run is {found.batch} images, each on a core of its own." if found.batch > 1 else ""
    intro = f"Modelled throughput of one run after the other.{batch} Nothing was run."
    figures = [("Throughput", _throughput_text(found), _throughput(found))]
    figures += [(name.capitalize(), _cost_text(found, name), _cost(found, name)) for name in found.costs]
    hint = f"A star marks the designs to choose from: {escape(found.rule)}. A heading sorts by its column."
    write_text(path, compose_page(title, intro, _cards(found), figures, hint, _table(found)))


def _throughput_text(found: Exploration) -> str:
    slow, fast = (pick(found.designs, key=lambda design: design.images_per_second) for pick in (min, max))
    return (
        f"From {slow.images_per_second:,.1f} images per second ({_setting(slow)}) to {fast.images_per_second:,.1f} "
        f"({_setting(fast)}). The first parameter goes across, a line for each setting of the others; colours of the points say "
        "what most cycles go to. Point at a design for its numbers, or step through them with the arrow keys."
    )


def _cost_text(found: Exploration, name: str) -> str:
    words, unit, factor = COSTS[name]
    best = ", ".join(
        f"{design.images_per_second:,.1f} images per second for {design.cost(name) * factor:.3g} {unit}"
        for design in found.front[:3]
    )
    return (
        f"Images per second over {words}; points grow with on-chip memory. Stars mark the designs to choose from: {found.rule}. "
        f"The fastest of them: {best}."
    )


def _setting(design: Design) -> str:
    return ", ".join(f"{key} {value}" for key, value in design.settings.items())


def _text(design: Design) -> str:
    return (
        f"{_setting(design)}\n{design.images_per_second:,.1f} images/s, {design.microseconds:,.1f} µs"
        f"\nbound by {design.bottleneck}, utilization {design.utilization:.1%}"
        f"\n{compact(design.peak_macs_per_cycle)} MACs per cycle, {size(design.on_chip_bytes)} on chip, "
        f"{design.area:.3g} mm², {design.external_bytes_per_second / 1e9:.1f} GB/s, {size(design.traffic_bytes)} per image"
        + ("" if design.joules is None else f", {design.joules * 1e6:.4g} µJ")
    )


def _points(found: Exploration, x: list[float], marks: list[float]) -> list[Series]:
    """Return the designs, a series per bottleneck."""
    series = []
    for number, cause in enumerate(dict.fromkeys(design.bottleneck for design in found.designs)):
        own = [at for at, design in enumerate(found.designs) if design.bottleneck == cause]
        # Small ones are drawn over large ones.
        own.sort(key=lambda at: -marks[at])
        places = [(x[at], found.designs[at].images_per_second, marks[at]) for at in own]
        texts = [_text(found.designs[at]) for at in own]
        series.append(Series(f"bound by {cause}", colour(number), "dots", places, texts))
    return series


def _rates(found: Exploration) -> Axis:
    return linear("images per second", 0, 1.06 * max(design.images_per_second for design in found.designs))


def _throughput(found: Exploration) -> Chart:
    first, *others = found.keys

    def rest(design: Design) -> str:
        return ", ".join(f"{key} {design.settings[key]}" for key in others)

    order = list(dict.fromkeys(design.settings[first] for design in found.designs))
    groups = [(name, list(group)) for name, group in groupby(sorted(found.designs, key=rest), key=rest)]
    lines = []
    for at, (name, designs) in enumerate(groups):
        designs.sort(key=lambda design: order.index(design.settings[first]))
        way = [(order.index(design.settings[first]), design.images_per_second) for design in designs]
        named = bool(name) and len(groups) <= MOST_NAMED
        lines.append(Series(name or "images/s", colour(at), "line", way, legend=named, faint=True))
    points = _points(
        found, [order.index(design.settings[first]) for design in found.designs], [9.0] * len(found.designs)
    )
    across = Axis(first, -0.4, len(order) - 0.6, tuple(enumerate(order)))
    return Chart(across, [Panel(_rates(found), [*lines, *points], 380)])


def _cost(found: Exploration, name: str) -> Chart:
    words, unit, factor = COSTS[name]
    most = max(design.on_chip_bytes for design in found.designs) or 1
    marks = [8 + 15 * (design.on_chip_bytes / most) ** 0.5 for design in found.designs]
    # A logarithm has no place for what costs nothing.
    costs = [max(design.cost(name) * factor, 1e-6) for design in found.designs]
    stars = [
        Note(cost, design.images_per_second, "★")
        for design, cost in zip(found.designs, costs, strict=True)
        if design.pareto
    ]
    across = decades(f"{words}, {unit}", min(costs) / 1.25, max(costs) * 1.25, lambda value: f"{value:,.12g}")
    few = sorted(set(costs))
    if len(few) <= 5:
        across = replace(across, ticks=tuple((cost, f"{cost:,.4g}") for cost in few))
    return Chart(across, [Panel(_rates(found), _points(found, costs, marks), 400, stars)])


def _cards(found: Exploration) -> str:
    best = max(found.designs, key=lambda design: design.images_per_second)
    causes: dict[str, int] = {}
    for design in found.designs:
        causes[design.bottleneck] = causes.get(design.bottleneck, 0) + 1
    cause = max(causes, key=lambda each: causes[each])
    rows = [
        ("Fastest", f"{best.images_per_second:,.1f} images/s", _setting(best)),
        ("Not beaten", f"{sum(design.pareto for design in found.designs)}", f"of {len(found.designs)} designs"),
        ("Most often bound by", cause, f"{causes[cause]} of {len(found.designs)} designs"),
    ]
    return cards(rows)


def _table(found: Exploration) -> str:
    head = [
        *found.keys,
        "bound by",
        "images/s",
        "µs",
        "cycles",
        "utilization",
        "MACs/cycle",
        "on chip",
        "mm²",
        "GB/s",
        "traffic",
        *(["µJ"] if found.has_energy else []),
        "best",
    ]
    text = {*range(len(found.keys) + 1), len(head) - 1}
    rows = []
    for design in found.designs:
        cells = [f"<td class=text>{escape(value)}</td>" for value in (*design.settings.values(), design.bottleneck)]
        cells += [
            f"<td data-value={value}>{shown}</td>"
            for value, shown in (
                (design.images_per_second, f"{design.images_per_second:,.1f}"),
                (design.microseconds, f"{design.microseconds:,.1f}"),
                (design.cycles, f"{design.cycles:,}"),
                (design.utilization, f"{design.utilization:.1%}"),
                (design.peak_macs_per_cycle, f"{design.peak_macs_per_cycle:,.0f}"),
                (design.on_chip_bytes, size(design.on_chip_bytes)),
                (design.area, f"{design.area:.3g}"),
                (design.external_bytes_per_second, f"{design.external_bytes_per_second / 1e9:.1f}"),
                (design.traffic_bytes, size(design.traffic_bytes)),
                *(() if design.joules is None else ((design.joules, f"{design.joules * 1e6:.4g}"),)),
            )
        ]
        cells.append(f"<td class=text>{'★' if design.pareto else ''}</td>")
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return (
        f"<table><caption>{len(found.designs)} designs</caption><thead><tr>{head_cells(head, text)}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table>"
    )
