"""A comparison as one HTML page that needs nothing else: totals, the ratio along the network, tables."""

from __future__ import annotations

import math
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triune._files import write_text
from triune.profiling._report import check_extra, compose_page, head_cells

if TYPE_CHECKING:
    from triune.quantization._compare import Comparison, Difference

__all__ = ["write_page"]

_MOST = 200.0
"""dB at which what does not differ is drawn and sorted."""


def write_page(comparison: Comparison, path: Path) -> None:
    """Write the page. Raises ImportError if plotly is not installed."""
    check_extra()
    reference, *others = comparison.models
    title = f"{escape(', '.join(others))} against {escape(reference)}"
    intro = (
        f"{comparison.samples} samples. ONNX files run as they stand, without a runtime's optimizations. "
        + " ".join(f"<br>{escape(note)}." for note in comparison.notes)
    )
    hint = "Signal to noise in dB; tensors have the names that both models give them. Click a heading to sort."
    write_text(path, compose_page(title, intro, _cards(comparison), _figures(comparison), hint, _table(comparison)))


def _cards(comparison: Comparison) -> str:
    cards = []
    for difference in comparison.differences:
        pair = f"{difference.other} against {difference.reference}"
        for output in difference.outputs:
            small = f"cosine {output.cosine:.5f}, error up to {output.max_error:.4g}"
            if output.top1 is not None:
                small = f"top-1 the same in {output.top1:.1%}; {small}"
            cards.append((f"{output.name}: {pair}", f"{output.sqnr:.1f} dB", small))
        found = difference.detections
        if found is not None:
            small = f"IoU {found.least_iou:.3f} at least, scores within {found.most_score_error:.3f}"
            cards.append((f"boxes: {pair}", f"{found.matched} of {found.reference}", small))
    each = (
        f"<div><dt>{escape(name)}</dt><dd>{escape(big)}<small>{escape(small)}</small></dd></div>"
        for name, big, small in cards
    )
    return f"<dl>{''.join(each)}</dl>"


def _figures(comparison: Comparison) -> list[tuple[str, str, Any]]:
    import plotly.graph_objects as go

    figure = go.Figure()
    for difference in comparison.differences:
        rows = sorted(difference.layers, key=lambda layer: layer.sqnr)
        if rows:
            figure.add_trace(
                go.Scatter(
                    name=f"{difference.other} against {difference.reference}",
                    x=list(range(1, len(rows) + 1)),
                    y=[min(layer.sqnr, _MOST) for layer in rows],
                    text=[f"{escape(layer.name)} ({escape(layer.kind)})" for layer in rows],
                    hovertemplate="%{text}<br>%{y:.1f} dB<extra></extra>",
                    mode="lines+markers",
                )
            )
    if not figure.data:
        return []
    figure.update_layout(
        template="plotly_white",
        height=420,
        margin={"t": 20, "r": 20},
        xaxis_title="tensors, the worst first",
        yaxis_title="signal to noise in dB",
        showlegend=True,
        legend={"orientation": "h", "y": 1.12},
    )
    return [("Tensors", "Tensors that the models have in common, the worst first.", figure)]


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
    drawn = max(-_MOST, min(level, _MOST)) if not math.isnan(level) else -_MOST
    cells += [
        f"<td data-value={drawn:.3f}>{level:.1f}</td>",
        f"<td>{angle:.5f}</td>",
        f"<td data-value={most:.9g}>{most:.4g}</td>",
        *more,
    ]
    return f"<tr>{''.join(cells)}</tr>"
