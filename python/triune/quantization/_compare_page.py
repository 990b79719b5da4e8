"""A comparison as one HTML page that needs nothing else: totals, the ratio along the network, tables."""

from __future__ import annotations

import math
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from triune._files import write_text
from triune.profiling._marks import Axis, Chart, Panel, Series, colour, linear
from triune.profiling._page import Figure, cards, compose_page, head_cells

if TYPE_CHECKING:
    from triune.quantization._compare import Comparison, Difference

__all__ = ["write_page"]

_MOST = 200.0
"""dB at which what does not differ is drawn and sorted."""


def write_page(comparison: Comparison, path: Path) -> None:
    """Write the page."""
    reference, *others = comparison.models
    title = f"{escape(', '.join(others))} against {escape(reference)}"
    intro = (
        f"{comparison.samples} samples. ONNX files run as they stand, without a runtime's optimizations. "
        + " ".join(f"<br>{escape(note)}." for note in comparison.notes)
    )
    hint = "Signal to noise in dB; tensors have the names that both models give them. Click a heading to sort."
    write_text(path, compose_page(title, intro, _cards(comparison), _figures(comparison), hint, _table(comparison)))


def _cards(comparison: Comparison) -> str:
    rows = []
    for difference in comparison.differences:
        pair = f"{difference.other} against {difference.reference}"
        for output in difference.outputs:
            if output.strings:
                rows.append((f"{output.name}: {pair}", f"{output.equal:.1%}", "of the strings are the same"))
                continue
            small = f"cosine {output.cosine:.5f}, error up to {output.max_error:.4g}"
            if output.top1 is not None:
                small = f"top-1 the same in {output.top1:.1%}; {small}"
            rows.append((f"{output.name}: {pair}", f"{output.sqnr:.1f} dB", small))
        found = difference.detections
        if found is not None:
            small = f"IoU {found.least_iou:.3f} at least, scores within {found.most_score_error:.3f}"
            rows.append((f"boxes: {pair}", f"{found.matched} of {found.reference}", small))
    return cards(rows)


def _figures(comparison: Comparison) -> list[Figure]:
    series, worst = [], []
    for at, difference in enumerate(comparison.differences):
        rows = sorted(difference.layers, key=lambda layer: layer.sqnr)
        if not rows:
            continue
        pair = f"{difference.other} against {difference.reference}"
        levels = [_level(layer.sqnr) for layer in rows]
        texts = [f"{layer.name} ({layer.kind})\n{layer.sqnr:.1f} dB, cosine {layer.cosine:.5f}" for layer in rows]
        series.append(Series(pair, colour(at), "line", list(enumerate(levels, 1)), faint=True))
        dots = [(place, level, 7.0) for place, level in enumerate(levels, 1)]
        series.append(Series(pair, colour(at), "dots", dots, texts, legend=False))
        worst.append(f"{pair}: {rows[0].name} at {rows[0].sqnr:.1f} dB")
    if not series:
        return []
    every = [level for each in series for _, level, *_ in each.points]
    count = max(len(each.points) for each in series)
    across = linear("tensors, the worst first", 0.5, count + 0.5)
    across = Axis(across.title, 0.5, count + 0.5, tuple((v, label) for v, label in across.ticks if v == int(v)))
    low, high = min(every, default=0.0), max(every, default=0.0)
    room = max((high - low) * 0.06, 1.0)
    text = f"Tensors that the models have in common, the worst first. {'; '.join(worst)}. Without any difference: {_MOST:.0f} dB."
    return [
        ("Tensors", text, Chart(across, [Panel(linear("signal to noise in dB", low - room, high + room), series, 340)]))
    ]


def _level(sqnr: float) -> float:
    """Return what is drawn and sorted: dB within the page's limits, the least for what has none."""
    return -_MOST if math.isnan(sqnr) else max(-_MOST, min(sqnr, _MOST))


def _table(comparison: Comparison) -> str:
    head = ["models", "tensor", "made by", "dB", "cosine", "max error", "equal", "top-1"]
    rows = [row for difference in comparison.differences for row in _rows(difference)]
    return (
        f"<table><caption>{len(rows)} tensors</caption><thead><tr>{head_cells(head, range(3))}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def _rows(difference: Difference) -> list[str]:
    pair = f"{difference.other} against {difference.reference}"
    rows = []
    for output in difference.outputs:
        best = "" if output.top1 is None else f"{output.top1:.1%}"
        more = [f"<td data-value={output.equal:.6f}>{output.equal:.1%}</td>", f"<td>{best}</td>"]
        rows.append(_row(pair, output.name, "output", output.sqnr, output.cosine, output.max_error, more))
    for layer in difference.layers:
        none = ["<td></td>"] * 2
        rows.append(_row(pair, layer.name, layer.kind, layer.sqnr, layer.cosine, layer.max_error, none))
    return rows


def _row(pair: str, name: str, kind: str, level: float, angle: float, most: float, more: list[str]) -> str:
    cells = [f"<td class=text>{escape(text)}</td>" for text in (pair, name, kind)]
    cells += [
        f"<td data-value={_level(level):.3f}>{level:.1f}</td>",
        f"<td>{angle:.5f}</td>",
        f"<td data-value={most:.9g}>{most:.4g}</td>",
        *more,
    ]
    return f"<tr>{''.join(cells)}</tr>"
