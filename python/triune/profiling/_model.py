"""A program's cost as plain data: commands, operators, memories, the plan of feature maps, and the sums over them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from triune import _native
from triune._text import html_table, short
from triune.profiling._energy import Energy

__all__ = [
    "MAPS",
    "UNITS",
    "Command",
    "FeatureMap",
    "Memory",
    "Operator",
    "Plan",
    "Profile",
    "Residency",
    "Segment",
    "Span",
    "TileTimes",
    "Tiling",
]

MAPS = ("scratch", "resident", "spilled")
"""Kinds of segments that feature maps come and go in."""
UNITS = ("cycles", "us", "ms")
"""What times can be given in."""

Span = tuple[int, int]
"""First cycle, one past the last."""

_T = TypeVar("_T")


def _first(what: str, name: str, things: Iterable[tuple[str, _T]]) -> _T:
    """Return the first thing of a name. Raises ValueError with the names that there are."""
    known: list[str] = []
    for each, thing in things:
        if each == name:
            return thing
        known.append(each)
    raise _unknown(what, name, known)


def _unknown(what: str, name: object, known: Iterable[str]) -> ValueError:
    return ValueError(short(f"{what}: expected one of {', '.join(dict.fromkeys(known))}, got {name!r}"))


@dataclass(frozen=True)
class Memory:
    """One memory of the device, as a core sees it."""

    name: str
    """Its name in the device's description."""
    bytes: int
    """What programs can use."""
    bytes_per_cycle: float
    """Bandwidth of one core's port at the profile's clock."""


@dataclass(frozen=True)
class Segment:
    """Where a part of the program lies; for a batch, that of the first image."""

    kind: str
    """``instructions``, ``constants``, ``scratch``, ``resident``, ``spilled`` (feature maps far, near, and what near ones have no
    room for), ``input`` or ``output``."""
    memory: str
    """The memory's name."""
    base: int
    """The first byte's address there."""
    bytes: int
    """Size."""


@dataclass(frozen=True)
class FeatureMap:
    """A feature map's place in its segment and in time."""

    operator: str
    """The operator that writes it; of an input in an estimate, which the host writes, the one that reads it first."""
    segment: str
    """``scratch``, ``resident`` or ``spilled``."""
    offset: int
    """First byte in the segment."""
    bytes: int
    """Size."""
    reads: int
    """How often all of it is read."""
    start: int
    """The cycle that its producer starts to compute in."""
    end: int
    """The cycle that the first command after its last reader starts to compute in."""
    first: int
    """Index of the first command that uses it."""
    last: int
    """One past the index of the last command that uses it."""
    writers: tuple[int, ...]
    """Indices of the commands that write it, or a part of it; none for what the host writes."""
    readers: tuple[int, ...]
    """Indices of the commands that read it, or a part of it."""


@dataclass(frozen=True)
class Residency:
    """What stays in the near memory: for each feature map, bytes that are not moved to and from the far one."""

    policy: str
    """How the feature maps were chosen: ``none``, ``option1`` to ``option3``, ``best_score`` or ``exact``."""
    capacity: int
    """Bytes of the near memory that they could take."""
    value: int
    """Bytes not moved, per image."""
    bound: int
    """No choice avoids more."""
    gap: float
    """How far `value` may be below the optimum, 0 to 1."""
    peak: int
    """Bytes that their placement takes."""
    lower_bound: int
    """What no placement of this choice can do without."""


@dataclass(frozen=True)
class Plan:
    """Where the feature maps of one segment lie."""

    kind: str
    """``scratch``, ``resident`` or ``spilled``."""
    memory: str
    """The memory's name."""
    capacity: int
    """What programs can use of it."""
    bytes: int
    """Peak: size of the segment."""
    lower_bound: int
    """What no placement of these feature maps can do without."""
    feature_maps: tuple[FeatureMap, ...]
    """What lies there."""

    @property
    def excess(self) -> float:
        """How far `bytes` lie above `lower_bound`, as a part of it."""
        return self.bytes / self.lower_bound - 1 if self.lower_bound else 0.0


@dataclass(frozen=True)
class Tiling:
    """How a command's work is cut into tiles that fit the device's buffers."""

    order: str
    """Which loop is the outer one: ``bands`` of maps (each is read once, the weights pass it), ``panels`` of weights (each is
    read once, the maps pass it), or ``even``: equal parts of everything."""
    bands: int
    """Bands of rows of results; tiles, when cut evenly."""
    panels: int
    """Panels of outputs that weights are cut into."""
    chunks: int
    """Pieces of each panel's inner products."""
    kept: int
    """Tiles of the inner loop's operand that stay in the buffers."""
    depth: int
    """Tiles under way at once."""

    @property
    def tiles(self) -> int:
        """Tiles in all: `bands` · `panels` · `chunks`."""
        return self.bands * self.panels * self.chunks

    def __str__(self) -> str:
        """Return it in words."""

        def of(count: int, one: str, many: str) -> str:
            return f"{count} {one if count == 1 else many}"

        if self.tiles == 1:
            return "one tile"
        if self.order == "even":
            return f"{self.tiles} equal tiles"
        bands = of(self.bands, "band of rows", "bands of rows")
        panels = of(self.panels, "panel of weights", "panels of weights")
        if self.chunks > 1:
            panels += f" in {self.chunks} pieces"
        if self.bands == 1:
            return f"{panels}, the map stays"
        if self.panels * self.chunks == 1:
            return (
                f"{bands}, the weights stay" if self.order == "panels" or self.kept else f"{bands}, weights pass each"
            )
        outer, inner, passing = (bands, panels, "weights") if self.order == "bands" else (panels, bands, "maps")
        count = self.panels * self.chunks if self.order == "bands" else self.bands
        if self.kept == count:
            return f"{outer}, {inner}, all {passing} stay"
        kept = f", {self.kept} of {count} stay" if self.kept else ""
        return f"{outer}, {inner} pass each{kept}"


class TileTimes(NamedTuple):
    """When one tile of a command is in each queue; (0, 0) where it is not."""

    loading: Span
    """From its first loaded byte to its last."""
    computing: Span
    """In the array or vector unit."""
    storing: Span
    """From its first stored byte to its last."""


@dataclass(frozen=True)
class Command:
    """What one command of the program costs. Cycles count from the launch."""

    index: int
    """Position in the stream."""
    opcode: str
    """Which command."""
    operator: str
    """Name of the model's node that it came from."""
    kind: str
    """The node's operator, such as ``Conv``."""
    start: int
    """When its first load, or failing that its computation, starts."""
    end: int
    """When its last result is stored."""
    compute: int
    """Cycles that the array or vector unit is busy."""
    load: int
    """Cycles that its loads keep the memory ports busy."""
    store: int
    """Cycles that its stores keep the memory ports busy."""
    stall: int
    """Cycles that the array or vector unit waits for its loads, for room for its results, and until the last are stored."""
    load_stall: int
    """Those in which loads are missing."""
    control: int
    """Fixed cycles before it starts."""
    ideal: int
    """Cycles that the array would take if all of it worked all the time; 0 for what runs on the vector unit."""
    sram: tuple[int, int, int]
    """Elements that the array's operand buffers give as inputs and as weights, and take as results."""
    macs: int
    """Multiply-accumulates."""
    bottleneck: str
    """What most of the cycles held go to: ``compute``, ``control``, or a memory with ``load`` or ``store``."""
    utilization: float
    """`ideal` over the cycles held, 0 to 1."""
    loading: Span
    """From its first loaded byte to its last; may hold gaps."""
    computing: Span
    """From its first block in the array or vector unit to its last; may hold gaps."""
    storing: Span
    """From its first stored byte to its last; may hold gaps."""
    read: dict[str, int]
    """Bytes read, by memory."""
    written: dict[str, int]
    """Bytes written, by memory."""
    tiles: int
    """Tiles that its work is cut into."""
    tiling: Tiling
    """How."""
    buffered: int
    """Most bytes that lie in the core's buffers at once."""
    reread: int
    """Of the bytes read, those that were read before, because the buffers did not hold them."""
    energy: Energy | None = None
    """What it costs in energy; None where the device's description has none."""

    @property
    def held(self) -> int:
        """Cycles that it holds the execute queue: `control` + `stall` + `compute`, nobody else's among them."""
        return self.control + self.stall + self.compute


@dataclass(frozen=True)
class Operator:
    """What one operator of the model costs: its commands together."""

    name: str
    """The node's name in the model."""
    kind: str
    """The operator, such as ``Conv``."""
    start: int
    """When its first load, or failing that its computation, starts."""
    end: int
    """When its last result is stored."""
    compute: int
    """Cycles that the array or vector unit is busy."""
    load: int
    """Cycles that its loads keep the memory ports busy."""
    store: int
    """Cycles that its stores keep the memory ports busy."""
    stall: int
    """Cycles that the array or vector unit waits."""
    load_stall: int
    """Those in which loads are missing; in the others, room for results, or the last ones are stored."""
    control: int
    """Fixed cycles before its commands."""
    ideal: int
    """Cycles that the array would take if all of it worked all the time; 0 for what runs on the vector unit."""
    sram: tuple[int, int, int]
    """Elements that the array's operand buffers give as inputs and as weights, and take as results."""
    macs: int
    """Multiply-accumulates."""
    read: dict[str, int]
    """Bytes read, by memory."""
    written: dict[str, int]
    """Bytes written, by memory."""
    tiles: int
    """Tiles that its work is cut into."""
    tiling: Tiling
    """How; of several commands, the longest one's."""
    buffered: int
    """Most bytes that lie in the core's buffers at once."""
    reread: int
    """Of the bytes read, those that were read before, because the buffers did not hold them."""
    share: float
    """Part of the program's cycles that it holds the execute queue for, 0 to 1; adds up over operators."""
    utilization: float
    """`ideal` over the cycles held, 0 to 1."""
    array_utilization: float
    """`ideal` over the cycles that it computes in, 0 to 1: how well its shape fits the array."""
    bottleneck: str
    """What most of the cycles held go to: ``compute``, ``control``, or ``load`` or ``store`` with the memory that takes
    longest; ``store`` alone when results of the command before are what it waits for."""
    energy: Energy | None = None
    """What it costs in energy; None where the device's description has none."""

    @property
    def held(self) -> int:
        """Cycles that it holds the execute queue: `control` + `stall` + `compute`, of all its commands."""
        return self.control + self.stall + self.compute


@dataclass(frozen=True)
class Profile:
    """What one image of a program costs on one core of its device. A batch is that many cores side by side."""

    name: str
    """The package's name: that of its directory."""
    device: str
    """The device that it was compiled for."""
    clock_mhz: int
    """The clock that cycles were computed for."""
    batch: int
    """Images per run, each on a core of its own."""
    cycles: int
    """From the launch to the last store."""
    launch: int
    """Cycles from the launch to the first command."""
    peak_macs_per_cycle: float
    """Most multiply-accumulates per cycle and core."""
    utilization: float
    """Cycles that the array would take if all of it worked all the time, over `cycles`: 0 to 1."""
    bottleneck: str
    """What most of the cycles that commands hold the execute queue go to, as that of an operator."""
    commands: tuple[Command, ...]
    """What the device executes, in order."""
    operators: tuple[Operator, ...]
    """The same by the model's nodes."""
    memories: tuple[Memory, ...]
    """The device's."""
    segments: tuple[Segment, ...]
    """Where the program's parts lie."""
    feature_maps: tuple[FeatureMap, ...]
    """The memory plan; empty for packages that were compiled before it was kept."""
    residency: Residency | None
    """What stays in the near memory; None when the device has no such memory."""
    scratch_bytes: int
    """Size of the segment of feature maps in the far memory."""
    scratch_lower_bound: int
    """What no placement of those can do without: the most bytes of them that are alive at once."""
    spilled_bytes: int = 0
    """Size of the segment of feature maps that the far memory has no room for: they lie in the one that the host reaches."""
    buffer_bytes: int | None = None
    """Bytes of a core's buffers, with what the feature maps leave of the near memory; None where the device's description gives
    no size."""
    estimated: bool = False
    """Whether the commands are guesses from shapes: another compiler's machine code is not known."""
    host_operators: int | None = None
    """Operators of the model that run on the host, before, between and behind those here, quantizers apart; None where nobody
    says. Their time is not modelled: `cycles` are the device's part of the model."""
    host_macs: int | None = None
    """Their multiply-accumulates per image."""
    waits: int = 0
    """How often the program waits for the host in a run."""
    constants_share: tuple[str, int] = ("", 0)
    """The memory that the device's description places constants in, and the bytes of it that are the program's: what its images
    are of the cores that share it. Constants that need more stream from the memory that the host reaches, as a whole."""
    assumptions: tuple[str, ...] = ()
    """What the device's description takes for granted of every program: sparse or compressed weights."""
    energy: Energy | None = None
    """What an image costs in energy on the device, the host's part not counted; None where the device's description has none."""
    digest: str = ""
    """The SHA-256, in hexadecimal, of the package's files that make its program: model.json, instructions and constants."""
    timeline: _native.Timeline | None = field(default=None, repr=False, compare=False)
    """The core's own, for what is computed when it is asked for."""

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy has: the core's timeline stays here, what it knows more goes along."""
        return {**self.__dict__, "tile_times": self.tile_times, "timeline": None}

    @cached_property
    def tile_times(self) -> tuple[tuple[TileTimes, ...], ...]:
        """For each of `commands`, when each of its tiles is in each queue."""
        tiles = self.timeline.tiles() if self.timeline else [[] for _ in self.commands]
        return tuple(tuple(TileTimes(*spans) for spans in own) for own in tiles)

    @property
    def microseconds(self) -> float:
        """`cycles` at `clock_mhz`, in µs: an image's time on one core, launch included."""
        return self.time(self.cycles, "us")

    @property
    def milliseconds(self) -> float:
        """`cycles` at `clock_mhz`, in ms: an image's time on one core, launch included."""
        return self.time(self.cycles, "ms")

    def time(self, cycles: int, unit: str = "us") -> float:
        """Return cycles in a unit: ``us`` (microseconds), ``ms`` or ``cycles``. Raises ValueError for another."""
        if unit not in UNITS:
            raise _unknown("unit", unit, UNITS)
        return cycles if unit == "cycles" else cycles / self.clock_mhz / (1000 if unit == "ms" else 1)

    @cached_property
    def macs(self) -> int:
        """Multiply-accumulates of one image."""
        return sum(operator.macs for operator in self.operators)

    @property
    def macs_per_second(self) -> float:
        """Multiply-accumulates of one core per second: `macs` of an image over its time."""
        return self.macs / self.cycles * self.clock_mhz * 1e6

    @cached_property
    def causes(self) -> dict[str, int]:
        """Cycles by cause; they add up to `cycles`.

        ``launch``, ``control``, ``compute`` and ``stall``.
        """
        found = {"launch": self.launch}
        for cause in ("control", "compute", "stall"):
            found[cause] = sum(getattr(operator, cause) for operator in self.operators)
        return found

    def segment(self, kind: str) -> Segment:
        """Return the first segment of a kind (`Segment.kind`). Raises ValueError if the program has none."""
        return _first("kind", kind, [(segment.kind, segment) for segment in self.segments])

    def __repr__(self) -> str:
        """Return name, device, time and what bounds it; `operators` and `commands` have the rest."""
        return (
            f"<triune.profiling.Profile {short(self.name)} on {self.device}: {self.cycles:,} cycles = "
            f"{self.microseconds:,.1f} µs at {self.clock_mhz} MHz, {len(self.operators)} operators, bound by {self.bottleneck}>"
        )

    def _repr_html_(self) -> str:
        rows = [
            (
                short(each.name),
                each.kind,
                f"{each.share:.1%}",
                each.bottleneck,
                f"{each.utilization:.1%}",
                f"{each.macs:,}",
            )
            for each in self.operators
        ]
        return html_table(("operator", "kind", "share", "bound by", "utilization", "MACs"), rows, repr(self)[1:-1])

    @property
    def plans(self) -> list[Plan]:
        """The near and the far part of the memory plan, and what spilled; one that holds nothing is left out if another does."""

        def plan(kind: str, bytes_: int, lower_bound: int) -> Plan:
            memory = self.segment(kind).memory
            own = tuple(buffer for buffer in self.feature_maps if buffer.segment == kind)
            return Plan(kind, memory, self.memory(memory).bytes, bytes_, lower_bound, own)

        found = [plan("scratch", self.scratch_bytes, self.scratch_lower_bound)]
        if self.residency:
            near = self.residency
            found = [plan("resident", near.peak, near.lower_bound), *found]
        if self.spilled_bytes:
            most = max(live for _, live in self.live_bytes("spilled"))
            found.append(plan("spilled", self.spilled_bytes, most))
        return [plan for plan in found if plan.bytes] or found[-1:]

    def memory(self, name: str) -> Memory:
        """Return the memory of that name, as `memories` have it. Raises ValueError if the device has none."""
        return _first("name", name, [(memory.name, memory) for memory in self.memories])

    def live_bytes(self, segment: str | None = None) -> list[tuple[int, int]]:
        """Return the bytes of feature maps that are alive: the cycle of each change, and the bytes from then on.

        Those of all segments, or of one: ``scratch``, ``resident`` or ``spilled``. Raises ValueError for another.
        """
        if segment not in (None, *MAPS):
            raise _unknown("segment", segment, MAPS)
        events: dict[int, int] = {}
        for buffer in self.feature_maps:
            if segment not in (None, buffer.segment):
                continue
            events[buffer.start] = events.get(buffer.start, 0) + buffer.bytes
            events[buffer.end] = events.get(buffer.end, 0) - buffer.bytes
        live, found = 0, []
        for cycle in sorted(events):
            live += events[cycle]
            found.append((cycle, live))
        return found

    def bandwidth(self, memory: str) -> list[tuple[int, float, float]]:
        """Return bytes per cycle read from and written to a memory: the cycle of each change, and the rates from then on.

        A command's bytes are spread evenly over the cycles that it loads or stores in. Raises ValueError if the device has no
        memory of that name.
        """
        _first("memory", memory, [(one.name, one) for one in self.memories])
        events: dict[int, list[tuple[int, int, float]]] = {}
        for command in self.commands:
            for side, (start, end), moved in (
                (0, command.loading, command.read[memory]),
                (1, command.storing, command.written[memory]),
            ):
                if moved and end > start:
                    rate = moved / (end - start)
                    events.setdefault(start, []).append((side, 1, rate))
                    events.setdefault(end, []).append((side, -1, -rate))
        rates, active, found = [0.0, 0.0], [0, 0], []
        for cycle in sorted(events):
            for side, change, rate in events[cycle]:
                active[side] += change
                # What rounding leaves must not outlive the last transfer.
                rates[side] = rates[side] + rate if active[side] else 0.0
            found.append((cycle, rates[0], rates[1]))
        return found

    def table(self, width: int = 100, unit: str = "cycles") -> str:
        """Return operators and totals as text of at most `width` columns (at least 100), times in `unit` (see `time`).

        Raises ValueError for an unknown unit.
        """
        from triune.profiling._table import table

        return table(self, width, unit)

    def write_csv(self, path: str | os.PathLike[str]) -> None:
        """Write a line per operator, exact, with a header: cycles, bytes by memory, tiles, shares from 0 to 1, femtojoules
        where known.

        Raises `triune.errors.FileError` if the file cannot be written; it is replaced in one step.
        """
        from triune.profiling._files import write_csv

        write_csv(self, Path(path))

    def write_json(self, path: str | os.PathLike[str]) -> None:
        """Write totals, operators, memories and the memory plan, exact: an object with ``"schema": "triune-profile"``.

        Raises `triune.errors.FileError` if the file cannot be written; it is replaced in one step.
        """
        from triune.profiling._files import write_json

        write_json(self, Path(path))

    def write_trace(self, path: str | os.PathLike[str]) -> None:
        """Write Chrome trace JSON with slices of commands and their tiles, which ui.perfetto.dev and chrome://tracing open.

        Raises `triune.errors.FileError` if the file cannot be written.
        """
        from triune.profiling._trace import write_trace

        write_trace(self, Path(path))

    def write_memory_snapshot(self, path: str | os.PathLike[str]) -> None:
        """Write the memory plan as a pickled snapshot of PyTorch's allocator, which pytorch.org/memory_viz draws.

        Its devices are the device's memories, numbered in the order of `memories`. Raises ValueError if the package was
        compiled before the memory plan was kept in it.
        """
        from triune.profiling._snapshot import write_memory_snapshot

        write_memory_snapshot(self, Path(path))

    def write_report(self, path: str | os.PathLike[str]) -> None:
        """Write one self-contained HTML page with pictures and the table: it loads nothing else.

        Raises `triune.errors.FileError` if the file cannot be written.
        """
        from triune.profiling._report import write_report

        write_report(self, Path(path))
