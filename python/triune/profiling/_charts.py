"""The pictures of the report as plotly figures: timeline, roofline, memory map, operators. They draw, and compute nothing."""

from __future__ import annotations

import math
from html import escape
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from triune.profiling._model import Command, Operator, Plan, Profile
from triune.profiling._table import compact, shorten, size
from triune.profiling._trace import QUEUES, lanes, span

PALETTE = ("#2f6fb7", "#e0812b", "#3c9a5f", "#c8505a", "#8566ad", "#8a6a55", "#cf79b0", "#6f7a86", "#a8a52f", "#35a7b8")
"""Colours of operator kinds."""

PORTS = ("#0b7285", "#d6336c", "#e8a100", "#5f3dc4", "#2b8a3e", "#862e9c", "#364fc7", "#5c940d")
"""Colours of memories; a device has eight at most."""

CAUSES = {"compute": "#3c9a5f", "stall": "#c8505a", "control": "#9aa5b1"}

INK, GRID = "#1f2933", "#e4e7eb"

NAME = 34
"""Longest operator name beside an axis."""


def figures(profile: Profile) -> list[tuple[str, str, go.Figure]]:
    """Return each picture with its heading and a sentence on how to read it."""
    return [
        ("Timeline", _timeline_text(profile), timeline(profile)),
        ("Roofline", _roofline_text(profile), roofline(profile)),
        *(
            (f"Memory map of {plan.memory}", _memory_text(profile, plan), memory_map(profile, plan))
            for plan in profile.plans
        ),
        ("Operators", _operators_text(profile), operators(profile)),
    ]


_TIMELINE = (
    "What each queue of one core works on, and the bytes per cycle at each memory's port. Bars reach from an operator's "
    "first block to its last and may hold gaps; its bytes are spread evenly over it, so that ports can seem to pass 100 % "
    "where bars overlap. A second load or store track holds what moves beside another on the port of another memory. "
    "Drag to zoom, double-click to come back."
)
_ROOFLINE = (
    "Each point is an operator at one memory: multiply-accumulates per byte moved there against the rate that it reaches "
    "while it holds the execute queue. The lines are what port and array allow. Click a memory in the legend to hide it."
)
_OPERATORS = (
    "Cycles that each operator holds the execute queue: computing, waiting for loads or for room for results (stall), and "
    "the fixed cost of its commands (control). They add up to the whole but for the launch and the last store."
)


def _timeline_text(profile: Profile) -> str:
    parts = ", ".join(f"{cause} {cycles / profile.cycles:.0%}" for cause, cycles in profile.causes.items() if cycles)
    return f"{profile.cycles:,} cycles: {parts}. {_TIMELINE}"


def _roofline_text(profile: Profile) -> str:
    found = [operator for operator in profile.operators if operator.macs]
    if not found:
        return f"No operator multiplies. {_ROOFLINE}"
    fastest = max(found, key=lambda operator: operator.macs / operator.held)
    rate, peak = (
        value * profile.clock_mhz * 1e6 for value in (fastest.macs / fastest.held, profile.peak_macs_per_cycle)
    )
    return (
        f"{len(found)} operators multiply; {shorten(fastest.name, NAME)} is the fastest, with {compact(rate)} of the core's "
        f"{compact(peak)} multiply-accumulates a second. {_ROOFLINE}"
    )


def _operators_text(profile: Profile) -> str:
    most = sorted(profile.operators, key=lambda operator: -operator.share)[:3]
    named = ", ".join(f"{shorten(operator.name, NAME)} {operator.share:.1%}" for operator in most)
    return f"Of {len(profile.operators)} operators these take most: {named}. {_OPERATORS}"


def _memory_text(profile: Profile, plan: Plan) -> str:
    if not profile.feature_maps:
        return "The package holds no memory plan: compile the model again to see it."
    near = profile.residency
    chosen = ""
    if near and plan.kind == "resident":
        chosen = (
            f" Chosen by the policy {near.policy} to stay: {size(near.value)} are not moved elsewhere, at most "
            f"{near.gap:.1%} below the optimum."
        )
    return (
        f"Feature maps in {plan.memory}, where and when. The plan needs {size(plan.bytes)}, {plan.excess:.1%} above "
        f"the lower bound, and fills {plan.bytes / plan.capacity:.1%} of the capacity of {size(plan.capacity)}.{chosen}"
    )


def _label(text: str) -> str:
    # Plotly reads tags and entities in names; a model's names are no markup.
    return escape(text)


def _colours(profile: Profile) -> dict[str, str]:
    kinds = list(dict.fromkeys(operator.kind for operator in profile.operators))
    return {kind: PALETTE[at % len(PALETTE)] for at, kind in enumerate(kinds)}


def style(figure: go.Figure, height: int) -> go.Figure:
    """Give a figure the looks of all, and return it."""
    figure.update_layout(
        template="plotly_white",
        height=height,
        margin={"l": 90, "r": 56, "t": 40, "b": 60},
        font={"family": "system-ui, sans-serif", "size": 13, "color": INK},
        legend={"orientation": "h", "x": 0, "xanchor": "left", "y": 1, "yanchor": "bottom"},
        hoverlabel={"font": {"family": "system-ui, sans-serif"}, "align": "left"},
        hovermode="closest",
        # Beside the plot: above it the legend may need several lines.
        modebar={"orientation": "v"},
    )
    axes = {"gridcolor": GRID, "linecolor": "#9aa5b1", "zeroline": False, "ticks": "outside", "tickcolor": GRID}
    figure.update_xaxes(automargin=True, **axes)
    figure.update_yaxes(automargin=True, **axes)
    return figure


def timeline(profile: Profile) -> go.Figure:
    """Draw the queues over time, and the ports' bandwidth under them."""
    tracks = []
    for queue in QUEUES:
        # The first lane takes nearly all; more appear where ports of different memories overlap.
        for lane, commands in enumerate(lanes(profile, queue)):
            tracks.append((queue if lane == 0 else f"{queue} {lane + 1}", queue, commands))
    rows: dict[str, list[tuple[str, str, Command]]] = {}
    for track, queue, commands in tracks:
        for command in commands:
            rows.setdefault(command.kind, []).append((track, queue, command))
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, row_heights=[0.5, 0.5], vertical_spacing=0.1)
    if profile.launch:
        hover = f"<b>launch</b><br>{profile.launch:,} cycles<extra></extra>"
        bar = go.Bar(name="launch", orientation="h", base=[0], x=[profile.launch], y=["execute"], hovertemplate=hover)
        bar.update(marker={"color": "#cbd2d9"}, width=0.7)
        figure.add_trace(bar, row=1, col=1)
    for kind, colour in _colours(profile).items():
        found = rows.get(kind, [])
        spans = [span(command, queue) for _, queue, command in found]
        figure.add_trace(
            go.Bar(
                name=_label(kind),
                orientation="h",
                base=[start for start, _ in spans],
                x=[end - start for start, end in spans],
                y=[track for track, *_ in found],
                width=0.7,
                # A dark edge: a white one hides bars of a few cycles.
                marker={"color": colour, "line": {"color": "rgba(0, 0, 0, 0.3)", "width": 0.5}},
                customdata=[_slice_text(command, queue, profile) for _, queue, command in found],
                hovertemplate="%{customdata}<extra></extra>",
            ),
            row=1,
            col=1,
        )
    for at, memory in enumerate(profile.memories):
        steps = profile.bandwidth(memory.name)
        if not steps:
            continue
        share = [100 * (read + written) / memory.bytes_per_cycle for _, read, written in steps]
        detail = [[read + written, (read + written) * profile.clock_mhz / 1000] for _, read, written in steps]
        figure.add_trace(
            go.Scatter(
                name=f"{_label(memory.name)} port",
                x=[0, *(cycle for cycle, *_ in steps), profile.cycles],
                y=[0, *share, 0],
                customdata=[[0, 0], *detail, [0, 0]],
                mode="lines",
                line={"shape": "hv", "width": 1.5, "color": PORTS[at]},
                fill="tozeroy",
                hovertemplate=f"<b>{_label(memory.name)}</b> from cycle %{{x:,}}<br>%{{customdata[0]:.1f}} bytes per cycle"
                "<br>%{customdata[1]:.2f} GB/s, %{y:.0f} % of the port<extra></extra>",
            ),
            row=2,
            col=1,
        )
    style(figure, 300 + 34 * len(tracks))
    figure.update_layout(barmode="overlay", bargap=0.2)
    order = [track for track, *_ in tracks]
    figure.update_yaxes(categoryorder="array", categoryarray=order[::-1], title="queue", row=1, col=1)
    figure.update_yaxes(title="port, % of rate", rangemode="tozero", row=2, col=1)
    figure.add_hline(y=100, line={"color": "#9aa5b1", "dash": "dot", "width": 1}, row=2, col=1)
    figure.update_xaxes(tickformat=",", range=_window(profile))
    figure.update_xaxes(title=_cycles(profile), row=2, col=1)
    return figure


def _cycles(profile: Profile) -> str:
    return f"cycles since the launch, {profile.clock_mhz:,} per µs"


def _window(profile: Profile) -> list[float]:
    """Return the cycles to show at first: all, but for a launch that would crowd out the program."""
    rest = profile.cycles - profile.launch
    return [max(0.0, profile.launch - 0.25 * rest) if profile.launch > rest else 0, profile.cycles]


def _slice_text(command: Command, queue: str, profile: Profile) -> str:
    start, end = span(command, queue)
    lines = [
        f"<b>{_label(shorten(command.operator, 60))}</b> ({_label(command.kind)}), {queue}",
        f"cycles {start:,} – {end:,}: {end - start:,} = {(end - start) / profile.clock_mhz:,.2f} µs",
    ]
    if queue == "execute":
        lines.append(
            f"computing {command.compute:,}, stalled {command.stall:,} ({command.load_stall:,} for loads), "
            f"{compact(command.macs)} MACs, bound by {_label(command.bottleneck)}"
        )
    else:
        moved, busy = (command.read, command.load) if queue == "load" else (command.written, command.store)
        lines.append(f"port busy {busy:,}: " + ", ".join(f"{_label(n)} {size(b)}" for n, b in moved.items() if b))
    return "<br>".join(lines)


def roofline(profile: Profile) -> go.Figure:
    """Draw attained against allowed rates, log-log, with a roof per memory."""
    figure = go.Figure()
    gigas = profile.clock_mhz / 1000
    peak = profile.peak_macs_per_cycle
    points: dict[str, list[tuple[float, Operator]]] = {}
    for operator in profile.operators:
        for memory in profile.memories:
            moved = operator.read[memory.name] + operator.written[memory.name]
            if operator.macs and moved:
                points.setdefault(memory.name, []).append((operator.macs / moved, operator))
    every = [intensity for found in points.values() for intensity, _ in found]
    ridges = [peak / memory.bytes_per_cycle for memory in profile.memories if memory.name in points]
    low, high = min([*every, *ridges], default=1.0) / 3, max([*every, *ridges], default=100.0) * 3
    for at, memory in enumerate(profile.memories):
        found = points.get(memory.name, [])
        if not found:
            continue
        colour = PORTS[at]
        ridge = peak / memory.bytes_per_cycle
        roof = [low, ridge, high]
        rate = memory.bytes_per_cycle * gigas
        figure.add_trace(
            go.Scatter(
                name=f"{_label(memory.name)}, {rate:,.1f} GB/s",
                legendgroup=memory.name,
                x=roof,
                y=[min(x * memory.bytes_per_cycle, peak) * gigas for x in roof],
                mode="lines",
                line={"color": colour, "width": 2},
                hovertemplate=f"<b>{_label(memory.name)}</b>: {rate:,.1f} GB/s, peak {compact(peak * gigas * 1e9)} MACs/s"
                f"<br>flat from {ridge:,.0f} MACs per byte<extra></extra>",
            )
        )
        figure.add_trace(
            go.Scatter(
                legendgroup=memory.name,
                showlegend=False,
                x=[intensity for intensity, _ in found],
                y=[operator.macs / operator.held * gigas for _, operator in found],
                mode="markers",
                marker={
                    "color": colour,
                    "opacity": 0.7,
                    "size": [6 + 30 * math.sqrt(operator.share) for _, operator in found],
                    "line": {"color": "white", "width": 1},
                },
                customdata=[_roof_text(operator, memory.name) for _, operator in found],
                hovertemplate="%{customdata}<br>%{x:,.3g} MACs per byte, %{y:,.4g} GMACs/s<extra></extra>",
            )
        )
    if points:
        label = f"{compact(peak * gigas * 1e9)} MACs/s, the core's peak"
        at_peak = {"x": math.log10(high), "xanchor": "right", "y": math.log10(peak * gigas), "yanchor": "bottom"}
        figure.add_annotation(text=label, showarrow=False, font={"size": 12}, **at_peak)
    else:
        figure.add_annotation(text="no operator multiplies", showarrow=False, xref="paper", yref="paper", x=0.5, y=0.5)
    style(figure, 480)
    reached = [operator.macs / operator.held * gigas for operator in profile.operators if operator.macs]
    floor = min([*reached, peak * gigas]) / 4
    axis: dict[str, Any] = {"type": "log", "exponentformat": "SI", "minor": {"showgrid": False}, "dtick": 1}
    figure.update_xaxes(title="MACs per byte moved", range=[math.log10(low), math.log10(high)], **axis)
    figure.update_yaxes(
        title="GMACs/s", range=[math.log10(floor), math.log10(peak * gigas * 2.5)], **(axis | {"tickformat": "~r"})
    )
    figure.update_xaxes(tickformat="~r")
    return figure


def _roof_text(operator: Operator, memory: str) -> str:
    moved = operator.read[memory] + operator.written[memory]
    return (
        f"<b>{_label(shorten(operator.name, 60))}</b> ({_label(operator.kind)}) at {_label(memory)}"
        f"<br>{compact(operator.macs)} MACs, {size(moved)}, {operator.share:.1%} of the time"
        f"<br>bound by {_label(operator.bottleneck)}, utilization {operator.utilization:.1%}"
    )


def memory_map(profile: Profile, plan: Plan) -> go.Figure:
    """Draw the feature maps' places over time, the live bytes, the lower bound and the capacity."""
    figure = go.Figure()
    kinds = {operator.name: operator.kind for operator in profile.operators}
    colours = _colours(profile)
    for kind, colour in colours.items():
        found = [buffer for buffer in plan.feature_maps if kinds.get(buffer.operator) == kind]
        if not found:
            continue
        figure.add_trace(
            go.Bar(
                name=_label(kind),
                x=[(buffer.start + buffer.end) / 2 for buffer in found],
                width=[max(buffer.end - buffer.start, 1) for buffer in found],
                base=[buffer.offset for buffer in found],
                y=[buffer.bytes for buffer in found],
                marker={"color": colour, "opacity": 0.85, "line": {"color": "white", "width": 1}},
                customdata=[
                    f"<b>{_label(shorten(buffer.operator, 60))}</b> ({_label(kind)})"
                    f"<br>offset {buffer.offset:,}, {buffer.bytes:,} bytes ({size(buffer.bytes)})"
                    f"<br>cycles {buffer.start:,} – {buffer.end:,}"
                    for buffer in found
                ],
                hovertemplate="%{customdata}<extra></extra>",
            )
        )
    live = profile.live_bytes(plan.kind)
    if live:
        figure.add_trace(
            go.Scatter(
                name="live bytes",
                x=[cycle for cycle, _ in live],
                y=[count for _, count in live],
                mode="lines",
                line={"shape": "hv", "color": INK, "width": 1.5},
                hovertemplate="%{y:,} bytes alive from cycle %{x:,}<extra></extra>",
            )
        )
    for name, value, dash, colour in (
        ("lower bound", plan.lower_bound, "dash", "#c8505a"),
        ("capacity", plan.capacity, "solid", "#8566ad"),
    ):
        figure.add_trace(
            go.Scatter(
                name=f"{name} {size(value)}",
                x=[0, profile.cycles],
                y=[value, value],
                mode="lines",
                line={"dash": dash, "color": colour, "width": 2},
                hovertemplate=f"{name}: {value:,} bytes<extra></extra>",
            )
        )
    style(figure, 480)
    figure.update_layout(barmode="overlay", margin={"b": 100})
    used, whole = [0, max(plan.bytes, 1) * 1.08], [0, plan.capacity * 1.08]
    fits = plan.capacity <= 4 * plan.bytes

    def button(label: str, limits: list[float]) -> dict[str, Any]:
        steps = _ticks(limits[1])
        texts = [size(step) if step else "0" for step in steps]
        change = {"yaxis.range": limits, "yaxis.tickvals": steps, "yaxis.ticktext": texts}
        return {"label": label, "method": "relayout", "args": [change]}

    buttons = [button("up to the capacity", whole), button("the plan alone", used)]
    active = 0 if fits else 1
    first = buttons[active]["args"][0]
    figure.update_layout(
        updatemenus=[
            {
                "type": "buttons",
                "direction": "right",
                "buttons": buttons,
                "active": active,
                "x": 1,
                "xanchor": "right",
                # Under the axis and its title: the legend and the tool bar share the space above.
                "y": 0,
                "yanchor": "top",
                "pad": {"t": 60},
                "font": {"size": 12},
            }
        ],
    )
    figure.update_xaxes(title=_cycles(profile), tickformat=",", range=_window(profile))
    figure.update_yaxes(
        title=f"address in {_label(plan.memory)}",
        range=first["yaxis.range"],
        tickvals=first["yaxis.tickvals"],
        ticktext=first["yaxis.ticktext"],
    )
    return figure


def _ticks(high: float) -> list[int]:
    """Return some five round binary steps from 0 to `high`."""
    step = 1 << max(0, math.ceil(math.log2(high / 6)))
    return list(range(0, int(high) + 1, step))


def operators(profile: Profile) -> go.Figure:
    """Draw the cycles that each operator holds the execute queue, by what they go to."""
    figure = go.Figure()
    rows = list(range(len(profile.operators)))
    text = [_operator_text(operator, profile) for operator in profile.operators]
    for cause, colour in CAUSES.items():
        figure.add_trace(
            go.Bar(
                name=cause,
                orientation="h",
                x=[getattr(operator, cause) for operator in profile.operators],
                y=rows,
                marker={"color": colour},
                customdata=text,
                hovertemplate=f"%{{customdata}}<br><b>{cause} %{{x:,}}</b><extra></extra>",
            )
        )
    style(figure, max(240, 20 * len(rows) + 100))
    names = [_label(shorten(operator.name, NAME)) for operator in profile.operators]
    figure.update_layout(barmode="stack", bargap=0.25, legend={"traceorder": "normal"})
    figure.update_yaxes(tickvals=rows, ticktext=names, range=[len(rows) - 0.4, -0.6], tickfont={"size": 11})
    figure.update_xaxes(title="cycles", tickformat=",")
    return figure


def _operator_text(operator: Operator, profile: Profile) -> str:
    return (
        f"<b>{_label(shorten(operator.name, 60))}</b> ({_label(operator.kind)})"
        f"<br>{operator.held:,} cycles = {operator.held / profile.clock_mhz:,.2f} µs, {operator.share:.1%} of the time"
        f"<br>bound by {_label(operator.bottleneck)}, utilization {operator.utilization:.1%}"
    )
