"""The pictures of the report: timeline, roofline, memory map, operators. They draw, and compute nothing."""

from __future__ import annotations

import math

from triune.profiling._marks import Axis, Chart, Note, Panel, Series, colour, decades, linear, port, rows
from triune.profiling._model import Command, FeatureMap, Operator, Plan, Profile
from triune.profiling._page import Figure
from triune.profiling._table import compact, shorten, size
from triune.profiling._trace import QUEUES, lanes, span

CAUSES = {"compute": "var(--good)", "stall": "var(--bad)", "control": "var(--still)"}

NAME = 34
"""Longest operator name beside an axis."""


def figures(profile: Profile) -> list[Figure]:
    """Return each chart with its heading and a sentence on how to read it."""
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
    "Drag to zoom, double-click to come back; the arrow keys step through the bars, plus, minus and 0 zoom."
)
_ROOFLINE = (
    "Each point is an operator at one memory: multiply-accumulates per byte moved there against the rate that it reaches "
    "while it holds the execute queue. The lines are what port and array allow. A memory in the legend hides its line and points."
)
_OPERATORS = (
    "Cycles that each operator holds the execute queue: computing, waiting for loads or for room for results (stall), and "
    "the fixed cost of its commands (control). They add up to the whole but for the launch."
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
    if not plan.bytes:
        return f"No feature map lies in {plan.memory}: what is computed goes from the inputs to the outputs."
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


def _colours(profile: Profile) -> dict[str, str]:
    kinds = dict.fromkeys(operator.kind for operator in profile.operators)
    return {kind: colour(at) for at, kind in enumerate(kinds)}


def timeline(profile: Profile) -> Chart:
    """Draw the queues over time, and the ports' bandwidth under them."""
    tracks: list[str] = []
    placed: dict[str, list[tuple[int, str, Command]]] = {}
    for queue in QUEUES:
        # The first lane takes nearly all; more appear where ports of different memories overlap.
        for lane, commands in enumerate(lanes(profile, queue) or ([[]] if queue == "execute" else [])):
            for command in commands:
                placed.setdefault(command.kind, []).append((len(tracks), queue, command))
            tracks.append(queue if lane == 0 else f"{queue} {lane + 1}")
    queues = rows("queue", tracks)

    def bar(track: int, start: float, end: float) -> tuple[float, ...]:
        bottom = len(tracks) - 1 - track
        return start, end, bottom + 0.15, bottom + 0.85

    series = []
    if profile.launch:
        launch = [bar(tracks.index("execute"), 0, profile.launch)]
        series.append(Series("launch", "var(--still)", "bars", launch, [f"launch\n{profile.launch:,} cycles"]))
    for kind, own in _colours(profile).items():
        found = placed.get(kind, [])
        bars = [bar(track, *span(command, queue)) for track, queue, command in found]
        series.append(Series(kind, own, "bars", bars, [_slice_text(c, queue, profile) for _, queue, c in found]))
    lines, most = [], 100.0
    for at, memory in enumerate(profile.memories):
        steps = profile.bandwidth(memory.name)
        if not steps:
            continue
        points, texts = [(0.0, 0.0)], [""]
        for cycle, read, written in steps:
            rate = read + written
            points.append((cycle, 100 * rate / memory.bytes_per_cycle))
            texts.append(
                f"{memory.name} port\nfrom cycle {cycle:,} on\n{rate:.1f} bytes per cycle, "
                f"{rate * profile.clock_mhz / 1000:.2f} GB/s, {points[-1][1]:.0f} % of the port"
                if rate
                else ""
            )
        most = max(most, *(up for _, up in points))
        points.append((profile.cycles, 0.0))
        lines.append(Series(f"{memory.name} port", port(at), "steps", points, texts, filled=True))
    share = linear("port, % of rate", 0, 1.05 * most)
    panels = [Panel(queues, series, 34 * len(tracks) + 16), Panel(share, lines, 170, level=100)]
    return Chart(_time(profile), panels, whole=(0, max(profile.cycles, 1)))


def _time(profile: Profile) -> Axis:
    """Return the axis of cycles: all that there are at first, but for a launch that would crowd out the program."""
    rest = profile.cycles - profile.launch
    begin = max(0.0, profile.launch - 0.25 * rest) if profile.launch > rest else 0
    return linear(f"cycles since the launch, {profile.clock_mhz:,} per µs", begin, max(profile.cycles, begin + 1))


def _slice_text(command: Command, queue: str, profile: Profile) -> str:
    start, end = span(command, queue)
    lines = [
        f"{shorten(command.operator, 60)} ({command.kind})",
        f"{queue}, cycles {start:,} – {end:,}: {end - start:,} = {(end - start) / profile.clock_mhz:,.2f} µs",
    ]
    if queue == "execute":
        lines.append(
            f"computing {command.compute:,}, stalled {command.stall:,} ({command.load_stall:,} for loads), "
            f"{compact(command.macs)} MACs, bound by {command.bottleneck}"
        )
    else:
        moved, busy = (command.read, command.load) if queue == "load" else (command.written, command.store)
        lines.append(
            f"port busy {busy:,}: " + ", ".join(f"{name} {size(count)}" for name, count in moved.items() if count)
        )
    return "\n".join(lines)


def roofline(profile: Profile) -> Chart:
    """Draw attained against allowed rates, log-log, with a roof per memory."""
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
    reached = [operator.macs / operator.held * gigas for operator in profile.operators if operator.macs]
    floor, top = min([*reached, peak * gigas]) / 4, peak * gigas * 2.5
    roofs, dots = [], []
    for at, memory in enumerate(profile.memories):
        found = points.get(memory.name, [])
        if not found:
            continue
        rate = memory.bytes_per_cycle * gigas
        name = f"{memory.name}, {rate:,.1f} GB/s"
        # What lies under the window is not drawn: a line begins where it comes in.
        roof = [
            (x, min(x * memory.bytes_per_cycle, peak) * gigas)
            for x in (max(low, floor / rate), peak * gigas / rate, high)
        ]
        says = f"{name}\npeak {compact(peak * gigas * 1e9)} MACs/s, reached from {peak * gigas / rate:,.0f} MACs per byte on"
        roofs.append(Series(name, port(at), "line", roof, [says]))
        places = [(x, o.macs / o.held * gigas, 7 + 30 * math.sqrt(o.share)) for x, o in found]
        texts = [
            _roof_text(operator, memory.name, x, y) for (x, operator), (_, y, _) in zip(found, places, strict=True)
        ]
        dots.append(Series(name, port(at), "dots", places, texts, legend=False))
    label = f"{compact(peak * gigas * 1e9)} MACs/s, the core's peak"
    note = Note(high, peak * gigas, label, "left")
    if not points:
        note = Note(math.sqrt(low * high), math.sqrt(floor * top), "no operator multiplies")
    intensity = decades("MACs per byte moved", low, high, _plain)
    return Chart(intensity, [Panel(decades("GMACs/s", floor, top, _plain), [*roofs, *dots], 380, [note])])


def _plain(value: float) -> str:
    return compact(value) if value >= 10 else f"{value:.3g}"


def _roof_text(operator: Operator, memory: str, intensity: float, rate: float) -> str:
    moved = operator.read[memory] + operator.written[memory]
    return (
        f"{shorten(operator.name, 60)} ({operator.kind})"
        f"\n{compact(operator.macs)} MACs, {operator.share:.1%} of the time"
        f"\nbound by {operator.bottleneck}, utilization {operator.utilization:.1%}"
        f"\nat {memory} {size(moved)}: {intensity:,.3g} MACs per byte, {rate:,.4g} GMACs/s"
    )


def memory_map(profile: Profile, plan: Plan) -> Chart:
    """Draw the feature maps' places over time, the live bytes, the lower bound and the capacity."""
    kinds = {operator.name: operator.kind for operator in profile.operators}
    series = []
    for kind, own in _colours(profile).items():
        found = [buffer for buffer in plan.feature_maps if kinds.get(buffer.operator) == kind]
        if found:
            bars = [(b.start, max(b.end, b.start + 1), b.offset, b.offset + b.bytes) for b in found]
            series.append(Series(kind, own, "bars", bars, [_buffer_text(buffer, kind) for buffer in found]))
    live = profile.live_bytes(plan.kind)
    if live:
        texts = [f"{count:,} bytes alive\nfrom cycle {cycle:,} on" for cycle, count in live[:-1]]
        series.append(Series("live bytes", "var(--ink)", "steps", live, texts))
    for name, value, dashed, own in (
        ("lower bound", plan.lower_bound, True, "var(--bad)"),
        ("capacity", plan.capacity, False, "var(--c4)"),
    ):
        across = [(0, value), (max(profile.cycles, 1), value)]
        says = [f"{name}\n{value:,} bytes"]
        series.append(Series(f"{name} {size(value)}", own, "line", across, says, dashed=dashed))
    views = []
    for label, most in (("up to the capacity", plan.capacity), ("the plan alone", max(plan.bytes, 1))):
        # Binary steps, some five.
        step = 1 << max(0, math.ceil(math.log2(most * 1.08 / 6)))
        axis = linear(
            f"address in {plan.memory}", 0, most * 1.08, lambda count: size(int(count)) if count else "0", step
        )
        views.append((label, axis))
    if not plan.feature_maps:
        # Nothing to come closer to.
        views = views[:1]
    first = views[0 if len(views) == 1 or plan.capacity <= 4 * plan.bytes else 1][1]
    return Chart(
        _time(profile),
        [Panel(first, series, 360, views=views if len(views) > 1 else ())],
        whole=(0, max(profile.cycles, 1)),
    )


def _buffer_text(buffer: FeatureMap, kind: str) -> str:
    return (
        f"{shorten(buffer.operator, 60)} ({kind})\noffset {buffer.offset:,}, {buffer.bytes:,} bytes ({size(buffer.bytes)})"
        f"\ncycles {buffer.start:,} – {buffer.end:,}"
    )


def operators(profile: Profile) -> Chart:
    """Draw the cycles that each operator holds the execute queue, by what they go to."""
    found = profile.operators
    bars: dict[str, list[tuple[float, ...]]] = {cause: [] for cause in CAUSES}
    texts: dict[str, list[str]] = {cause: [] for cause in CAUSES}
    for at, operator in enumerate(found):
        end, bottom = 0, len(found) - 1 - at
        for cause in CAUSES:
            cycles = getattr(operator, cause)
            # An edge alone would look like some.
            if cycles:
                bars[cause].append((end, end + cycles, bottom + 0.12, bottom + 0.88))
                texts[cause].append(f"{_operator_text(operator, profile)}\n{cause} {cycles:,}")
            end += cycles
    series = [Series(cause, own, "bars", bars[cause], texts[cause]) for cause, own in CAUSES.items()]
    most = max((operator.held for operator in found), default=1)
    names = rows("operator", [shorten(operator.name, NAME) for operator in found])
    return Chart(linear("cycles", 0, 1.04 * max(most, 1)), [Panel(names, series, max(120, 20 * len(found)))])


def _operator_text(operator: Operator, profile: Profile) -> str:
    return (
        f"{shorten(operator.name, 60)} ({operator.kind})"
        f"\n{operator.held:,} cycles = {operator.held / profile.clock_mhz:,.2f} µs, {operator.share:.1%} of the time"
        f"\nbound by {operator.bottleneck}, utilization {operator.utilization:.1%}"
    )
