"""Charts as HTML that needs no library: marks are SVG in the units of the axes, ticks and names are text beside it.

The SVG stretches to the width that there is, strokes do not: a chart fits any screen without a script. `page/page.js` adds what
answers to mouse and keys: the text of a mark, the window of the x axis, series that are hidden.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from typing import Literal

COLOURS = 10
"""Colours of kinds that pages define, ``--c0`` on, for light and dark grounds."""

PORTS = 8
"""Colours of memories, ``--p0`` on; a device has eight memories at most."""

NARROW = 16
"""Letters of a row's name where there is little room."""

Point = tuple[float, float]


class Lines:
    """The lines of a page's texts, each once: what marks say is mostly what others say, too."""

    def __init__(self) -> None:
        """Begin without any."""
        self._numbers: dict[str, int] = {}

    def key(self, text: str) -> str:
        """Return what stands for a text: the numbers of its lines."""
        return " ".join(str(self._numbers.setdefault(line, len(self._numbers))) for line in text.split("\n"))

    def json(self) -> str:
        """Return the lines by their numbers, for a script element."""
        return json.dumps(list(self._numbers), ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def colour(at: int) -> str:
    """Return the colour of the kind with a number."""
    return f"var(--c{at % COLOURS})"


def port(at: int) -> str:
    """Return the colour of the memory with a number."""
    return f"var(--p{at % PORTS})"


@dataclass(frozen=True)
class Axis:
    """What a direction of a chart means: a window of values, and the values that are named."""

    title: str
    low: float
    """The window's first value: left, or at the bottom."""
    high: float
    """Its last."""
    ticks: tuple[tuple[float, str], ...] = ()
    """Values and what to write beside them."""
    log: bool = False
    """Whether equal ways are equal ratios; values are positive, then."""

    def at(self, value: float) -> float:
        """Return where a value lies, in the units that the marks are drawn in."""
        return math.log10(value) if self.log else value

    def part(self, value: float) -> float:
        """Return where a value lies in the window, 0 to 1."""
        low, high = self.at(self.low), self.at(self.high)
        return (self.at(value) - low) / (high - low)


def thousands(value: float) -> str:
    """Return a number as people write it: with commas, and no more digits than it has."""
    return f"{value:,.6f}".rstrip("0").rstrip(".") if value % 1 else f"{value:,.0f}"


def linear(
    title: str, low: float, high: float, label: Callable[[float], str] = thousands, step: float | None = None
) -> Axis:
    """Return an axis with some six ticks at round values, or one at every `step`."""
    if step is None:
        raw = (high - low) / 6 or 1
        ten = 10.0 ** math.floor(math.log10(raw))
        step = next(k * ten for k in (1, 2, 5, 10) if k * ten >= raw)
    values = (at * step for at in range(math.ceil(low / step), math.floor(high / step) + 1))
    return Axis(title, low, high, tuple((value, label(round(value, 9))) for value in values))


def decades(title: str, low: float, high: float, label: Callable[[float], str]) -> Axis:
    """Return a logarithmic axis with ticks at powers of ten, and between them where few lie in the window."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = (1,) if math.log10(high / low) >= 2.5 else (1, 2, 5)
    values = (k * 10.0**exponent for exponent in range(first, last + 1) for k in steps)
    return Axis(title, low, high, tuple((value, label(value)) for value in values if low <= value <= high), log=True)


def rows(title: str, names: Sequence[str]) -> Axis:
    """Return an axis of names, the first at the top; the row with number `at` reaches from ``len(names) - 1 - at`` on."""
    return Axis(title, 0, len(names), tuple((len(names) - 0.5 - at, name) for at, name in enumerate(names)))


@dataclass(frozen=True)
class Series:
    """Marks of one meaning: a colour, a name in the legend, and a text for each mark."""

    name: str
    colour: str
    shape: Literal["bars", "steps", "line", "dots"]
    points: Sequence[tuple[float, ...]]
    """Bars: left, right, bottom, top. Dots: x, y, width in pixels. Lines and steps, which stay until the next: x, y."""
    texts: Sequence[str] = ()
    """What marks say: one for each, or one for a line; steps have one less than points. A mark without one is not
    met by the pointer."""
    legend: bool = True
    """Whether the legend names it; what has the same name is hidden along."""
    filled: bool = False
    """Whether the ground under steps is."""
    dashed: bool = False
    faint: bool = False


@dataclass(frozen=True)
class Note:
    """A text in the plot."""

    x: float
    y: float
    text: str
    side: Literal["left", "middle", "above"] = "middle"


@dataclass(frozen=True)
class Panel:
    """A plot over the chart's x axis."""

    y: Axis
    series: Sequence[Series]
    height: int
    """Pixels."""
    notes: Sequence[Note] = ()
    level: float | None = None
    """A value that a line marks across."""
    views: Sequence[tuple[str, Axis]] = ()
    """Other windows of the y axis, and what the buttons for them say; `y` is the one that is shown at first."""


@dataclass(frozen=True)
class Chart:
    """Panels over one x axis."""

    x: Axis
    panels: Sequence[Panel]
    whole: tuple[float, float] | None = None
    """The widest window of the x axis, for charts that can be zoomed."""
    legend: Sequence[str] = field(default=())
    """Names of series in the legend's order; theirs, if empty."""

    def html(self, name: str, what: str, lines: Lines) -> str:
        """Return the chart as an element of id `name`, whose marks' texts go into `lines`. What it is called (`what`) and every
        name are escaped here.
        """
        head = _legend(self) + _views(self)
        keys = "Arrow keys step through the marks"
        if self.whole:
            head += (
                '<div class="tools"><button type="button" data-zoom="2" aria-label="Zoom in">+</button>'
                '<button type="button" data-zoom="0.5" aria-label="Zoom out">−</button>'
                '<button type="button" data-zoom="0" aria-label="Show all">all</button></div>'
            )
            keys += ", plus and minus zoom, 0 shows all"
        labels = [label for panel in self.panels for _, axis in _windows(panel) for _, label in axis.ticks]
        most = max(map(len, labels), default=0)
        room = f"--wide:{_room(most)};--narrow:{_room(min(most, NARROW))}"
        last = len(self.panels) - 1
        plots = "".join(
            _plot(self, panel, f"{what}, {panel.y.title}. {keys}.", at == last, lines)
            for at, panel in enumerate(self.panels)
        )
        window = f' data-whole="{_n(self.whole[0])} {_n(self.whole[1])}"' if self.whole else ""
        return (
            f'<div class="chart" id="{name}" role="figure" aria-labelledby="{name}-head" aria-describedby="{name}-text" '
            f'style="{room}"{window}><div class="head">{head}</div>{plots}'
            f'<div class="title x-title">{escape(self.x.title)}</div></div>'
        )


def _room(letters: int) -> str:
    """Return how many digits are as wide as a label: one that is long has letters narrower than digits, too."""
    return f"{min(letters, 10) + 0.85 * max(letters - 10, 0):g}"


def _n(value: float) -> str:
    """Write a coordinate: whole numbers exactly, others to what a screen shows."""
    return str(int(value)) if value == int(value) else f"{value:.4f}".rstrip("0")


def _windows(panel: Panel) -> list[tuple[str, Axis]]:
    return list(panel.views) or [("", panel.y)]


def _legend(chart: Chart) -> str:
    found: dict[str, Series] = {}
    for panel in chart.panels:
        for series in panel.series:
            if series.legend:
                found.setdefault(series.name, series)
    if not found:
        return ""
    items = []
    for name in chart.legend or found:
        series = found[name]
        shape = "line" if series.shape in ("line", "steps") and not series.filled else "box"
        sign = f'<i class="{shape}{" dashed" if series.dashed else ""}" style="--own:{series.colour}"></i>'
        items.append(f'<li><button type="button" aria-pressed="true">{sign}<span>{escape(name)}</span></button></li>')
    return f'<ul class="legend" aria-label="Series, which buttons hide and show">{"".join(items)}</ul>'


def _views(chart: Chart) -> str:
    buttons = [
        f'<button type="button" data-view="{at}" aria-pressed="{str(axis is panel.y).lower()}">{escape(label)}</button>'
        for panel in chart.panels
        for at, (label, axis) in enumerate(panel.views)
    ]
    return f'<div class="tools views">{"".join(buttons)}</div>' if buttons else ""


def _plot(chart: Chart, panel: Panel, says: str, last: bool, lines: Lines) -> str:
    x, y = chart.x, panel.y
    left, right = x.at(x.low), x.at(x.high)
    # More than some five do not fit where there is little room.
    crowded = " crowded" if len(x.ticks) > 5 else ""
    ticks = "".join(f'<span style="left:{100 * x.part(value):.3f}%"><b>{label}</b></span>' for value, label in _text(x))
    windows = "".join(_y_ticks(axis, axis is y) for _, axis in _windows(panel))
    box = f"{_n(left)} {_n(-y.at(y.high))} {_n(right - left)} {_n(y.at(y.high) - y.at(y.low))}"
    level = ""
    if panel.level is not None:
        begin, end = chart.whole or (left, right)
        level = f'<path class="level" d="M{_n(begin)} {_n(panel.level)}H{_n(end)}"/>'
    marks = "".join(_series(series, x, y, lines) for series in panel.series)
    notes = "".join(
        f'<span class="note {note.side}" style="left:{100 * x.part(note.x):.2f}%;bottom:{100 * y.part(note.y):.2f}%">'
        f"{escape(note.text)}</span>"
        for note in panel.notes
    )
    return (
        f'<div class="title">{escape(y.title)}</div>'
        f'<div class="panel{"" if last else " upper"}" style="height:{panel.height}px" tabindex="0" role="group" '
        f'aria-label="{escape(says)}"><div class="x{crowded}">{ticks}</div>{windows}'
        f'<svg viewBox="{box}" preserveAspectRatio="none" aria-hidden="true"><g transform="scale(1,-1)">{level}{marks}</g></svg>'
        f"{notes}</div>"
    )


def _text(axis: Axis) -> Iterable[tuple[float, str]]:
    return ((value, escape(label)) for value, label in axis.ticks)


def _y_ticks(axis: Axis, shown: bool) -> str:
    spans = []
    for value, label in axis.ticks:
        short = escape("…" + label[1 - NARROW :]) if len(label) > NARROW else ""
        less = f' data-short="{short}"' if short else ""
        spans.append(f'<span style="bottom:{100 * axis.part(value):.3f}%"><b{less}>{escape(label)}</b></span>')
    window = f"{_n(axis.at(axis.low))} {_n(axis.at(axis.high))}"
    return f'<div class="y" data-window="{window}"{"" if shown else " hidden"}>{"".join(spans)}</div>'


def _series(series: Series, x: Axis, y: Axis, lines: Lines) -> str:
    paths = []
    if series.shape == "bars":
        for (left, right, bottom, top), text in zip(series.points, series.texts, strict=True):
            a, b, c, d = x.at(left), x.at(right), y.at(bottom), y.at(top)
            shape = f"M{_n(a)} {_n(c)}h{_n(b - a)}v{_n(d - c)}h{_n(a - b)}z"
            paths.append(f'<path d="{shape}" data-t="{lines.key(text)}"/>')
    elif series.shape == "dots":
        for (across, up, width), text in zip(series.points, series.texts, strict=True):
            shape = f"M{_n(x.at(across))} {_n(y.at(up))}h0"
            paths.append(f'<path d="{shape}" stroke-width="{_n(round(width, 1))}" data-t="{lines.key(text)}"/>')
    else:
        found = [(x.at(a), y.at(b)) for a, b in series.points]
        if series.shape == "line":
            text = f' data-t="{lines.key(series.texts[0])}"' if series.texts else ""
            paths.append(f'<path d="M{"L".join(f"{_n(a)} {_n(b)}" for a, b in found)}"{text}/>')
        else:
            paths += _steps(series, found, lines)
    kind = series.shape + (" dashed" if series.dashed else "") + (" faint" if series.faint else "")
    return f'<g class="{kind}" data-name="{escape(series.name)}" style="--own:{series.colour}">{"".join(paths)}</g>'


def _steps(series: Series, points: Sequence[Point], lines: Lines) -> list[str]:
    """Return the ground under steps, and each step with its text."""
    paths = []
    if series.filled:
        ground = "".join(f"V{_n(b)}H{_n(end)}" for (_, b), (end, _) in pairwise(points))
        paths.append(f'<path class="ground" d="M{_n(points[0][0])} 0{ground}V0z"/>')
    before = points[0][1]
    for ((a, b), (end, _)), text in zip(pairwise(points), series.texts, strict=True):
        told = f' data-t="{lines.key(text)}"' if text else ""
        paths.append(f'<path d="M{_n(a)} {_n(before)}V{_n(b)}H{_n(end)}"{told}/>')
        before = b
    return paths
