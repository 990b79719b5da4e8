"""An exploration as one HTML page: throughput over the parameters, throughput over cost, and the table of designs."""

from __future__ import annotations

from html import escape
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from triune._files import write_text
from triune.profiling._explore import Design, Exploration
from triune.profiling._report import check_extra, compose_page, head_cells
from triune.profiling._table import compact, size

if TYPE_CHECKING:
    import plotly.graph_objects as go

MOST_NAMED = 16
"""Most lines that the legend names."""


def write_page(found: Exploration, path: Path) -> None:
    """Write the page. Raises ImportError if plotly is not installed."""
    check_extra()
    title = f"{escape(found.name)} on {len(found.designs)} designs of {escape(found.device)}"
    batch = f" A run is {found.batch} images, each on a core of its own." if found.batch > 1 else ""
    intro = f"Modelled throughput of one run after the other.{batch} Nothing was run."
    figures = [
        ("Throughput", _THROUGHPUT, _throughput(found)),
        ("Cost", _COST + escape(f"{found.rule}."), _cost(found)),
    ]
    hint = f"A star marks the designs to choose from: {escape(found.rule)}. A heading sorts by its column."
    write_text(path, compose_page(title, intro, _cards(found), figures, hint, _table(found)))


_THROUGHPUT = (
    "Images per second over the first parameter, a line for each setting of the others; colours of the points say what most "
    "cycles go to. Hover for the design."
)
_COST = (
    "Images per second over a proxy for the area of array and on-chip memories; points grow with on-chip memory. Stars mark the "
    "designs to choose from: "
)


def _setting(design: Design) -> str:
    return ", ".join(f"{key} {value}" for key, value in design.settings.items())


def _text(design: Design) -> str:
    return (
        f"<b>{escape(_setting(design))}</b><br>{design.images_per_second:,.1f} images/s, {design.microseconds:,.1f} µs"
        f"<br>bound by {escape(design.bottleneck)}, utilization {design.utilization:.1%}"
        f"<br>{compact(design.peak_macs_per_cycle)} MACs per cycle, {size(design.on_chip_bytes)} on chip, "
        f"{design.area:.3g} mm², {design.external_bytes_per_second / 1e9:.1f} GB/s, {size(design.traffic_bytes)} per image"
    )


def _colours(found: Exploration) -> dict[str, str]:
    from triune.profiling._charts import PALETTE

    causes = list(dict.fromkeys(design.bottleneck for design in found.designs))
    return {cause: PALETTE[at % len(PALETTE)] for at, cause in enumerate(causes)}


def _points(found: Exploration, figure: go.Figure, x: list[object], marks: list[float]) -> None:
    """Add the designs, a trace per bottleneck."""
    import plotly.graph_objects as go

    for cause, colour in _colours(found).items():
        own = [at for at, design in enumerate(found.designs) if design.bottleneck == cause]
        figure.add_trace(
            go.Scatter(
                name=f"bound by {escape(cause)}",
                x=[x[at] for at in own],
                y=[found.designs[at].images_per_second for at in own],
                mode="markers",
                marker={
                    "color": colour,
                    "size": [marks[at] for at in own],
                    "opacity": 0.85,
                    "line": {"color": "white", "width": 1},
                },
                customdata=[_text(found.designs[at]) for at in own],
                hovertemplate="%{customdata}<extra></extra>",
            )
        )


def _throughput(found: Exploration) -> go.Figure:
    import plotly.graph_objects as go

    from triune.profiling._charts import PALETTE, style

    first, *others = found.keys

    def rest(design: Design) -> str:
        return ", ".join(f"{key} {design.settings[key]}" for key in others)

    lines = [(name, list(group)) for name, group in groupby(sorted(found.designs, key=rest), key=rest)]
    figure = go.Figure()
    order = list(dict.fromkeys(design.settings[first] for design in found.designs))
    for at, (name, designs) in enumerate(lines):
        designs.sort(key=lambda design: order.index(design.settings[first]))
        figure.add_trace(
            go.Scatter(
                name=escape(name) or "images/s",
                x=[design.settings[first] for design in designs],
                y=[design.images_per_second for design in designs],
                mode="lines",
                line={"color": PALETTE[at % len(PALETTE)], "width": 1.5},
                opacity=0.6,
                showlegend=bool(name) and len(lines) <= MOST_NAMED,
                hoverinfo="skip",
            )
        )
    _points(found, figure, [design.settings[first] for design in found.designs], [9.0] * len(found.designs))
    # A legend below: with many lines it is tall.
    style(figure, 480 + 10 * min(len(lines), MOST_NAMED))
    figure.update_layout(legend={"y": -0.16, "yanchor": "top"})
    figure.update_xaxes(title=escape(first), type="category", categoryorder="array", categoryarray=order)
    figure.update_yaxes(title="images per second", rangemode="tozero")
    return figure


def _cost(found: Exploration) -> go.Figure:
    import plotly.graph_objects as go

    from triune.profiling._charts import INK, style

    most = max(design.on_chip_bytes for design in found.designs) or 1
    marks = [7 + 15 * (design.on_chip_bytes / most) ** 0.5 for design in found.designs]
    figure = go.Figure()
    _points(found, figure, [design.area for design in found.designs], marks)
    best = [design for design in found.designs if design.pareto]
    figure.add_trace(
        go.Scatter(
            name="not beaten",
            x=[design.area for design in best],
            y=[design.images_per_second for design in best],
            mode="markers",
            marker={"symbol": "star", "size": 8, "color": INK},
            hoverinfo="skip",
        )
    )
    style(figure, 500)
    figure.update_layout(legend={"y": -0.16, "yanchor": "top"})
    figure.update_xaxes(title="area proxy, mm² of 45 nm", type="log", tickformat="~g")
    figure.update_yaxes(title="images per second", rangemode="tozero")
    return figure


def _cards(found: Exploration) -> str:
    best = max(found.designs, key=lambda design: design.images_per_second)
    causes: dict[str, int] = {}
    for design in found.designs:
        causes[design.bottleneck] = causes.get(design.bottleneck, 0) + 1
    cause = max(causes, key=lambda each: causes[each])
    cards = [
        ("Fastest", f"{best.images_per_second:,.1f} images/s", _setting(best)),
        ("Not beaten", f"{sum(design.pareto for design in found.designs)}", f"of {len(found.designs)} designs"),
        ("Most often bound by", cause, f"{causes[cause]} of {len(found.designs)} designs"),
    ]
    each = (
        f"<div><dt>{name}</dt><dd>{escape(big)}<small>{escape(small)}</small></dd></div>" for name, big, small in cards
    )
    return f"<dl>{''.join(each)}</dl>"


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
            )
        ]
        cells.append(f"<td class=text>{'★' if design.pareto else ''}</td>")
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return (
        f"<table><caption>{len(found.designs)} designs</caption><thead><tr>{head_cells(head, text)}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table>"
    )
