"""A program's cost as plain data: commands, operators, memories, the plan of feature maps, and the sums over them."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

from triune import _native

__all__ = ["Command", "FeatureMap", "Memory", "Operator", "Profile", "Segment", "profile"]

Span = tuple[int, int]
"""First cycle, one past the last."""


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
    """``instructions``, ``constants``, ``scratch`` (feature maps), ``input`` or ``output``."""
    memory: str
    """The memory's name."""
    base: int
    """The first byte's address there."""
    bytes: int
    """Size."""


@dataclass(frozen=True)
class FeatureMap:
    """A feature map's place in the scratch segment and in time."""

    operator: str
    """The operator that writes it."""
    offset: int
    """First byte in the scratch segment."""
    bytes: int
    """Size."""
    start: int
    """The cycle that its producer starts to compute in."""
    end: int
    """The cycle that the first command after its last reader starts to compute in."""


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
    """Cycles that the array or vector unit waits for its loads or for room for its results."""
    control: int
    """Fixed cycles before it starts."""
    macs: int
    """Multiply-accumulates."""
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

    @property
    def held(self) -> int:
        """Cycles that it holds the execute queue: control, stall and compute, nobody else's among them."""
        return self.control + self.stall + self.compute

    def causes(self, memories: tuple[Memory, ...]) -> dict[str, int]:
        """Return how many of the held cycles each cause accounts for at most: what the bottleneck is chosen from.

        A transfer explains a stall as far as it is that long; ``wait`` is what no transfer of its own explains: results
        that the command before still has to store, and latencies.
        """
        found = {"compute": self.compute, "control": self.control}
        explained = 0
        for memory in memories:
            for verb, bytes_ in (("load", self.read[memory.name]), ("store", self.written[memory.name])):
                if bytes_ and memory.bytes_per_cycle:
                    busy = min(self.stall, math.ceil(bytes_ / memory.bytes_per_cycle))
                    found[f"{memory.name} {verb}"] = busy
                    explained = max(explained, busy)
        return found | {"wait": self.stall - explained}


@dataclass(frozen=True)
class Operator:
    """What one operator of the model costs: its commands together. Neighbours overlap between start and end."""

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
    control: int
    """Fixed cycles before its commands."""
    macs: int
    """Multiply-accumulates."""
    read: dict[str, int]
    """Bytes read, by memory."""
    written: dict[str, int]
    """Bytes written, by memory."""
    share: float
    """Part of the program's cycles that it holds the execute queue for, 0 to 1; adds up over operators."""
    utilization: float
    """Multiply-accumulates over what the array could do in the cycles held, 0 to 1."""
    bottleneck: str
    """What it spends most of them on: ``compute``, ``control``, ``wait``, or a memory with ``load`` or ``store``."""

    @property
    def held(self) -> int:
        """Cycles that it holds the execute queue: control, stall and compute."""
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
    scratch_bytes: int
    """Peak of the memory plan: size of the scratch segment."""
    scratch_lower_bound: int
    """What no plan can do without: the most bytes that are alive at once."""

    @property
    def microseconds(self) -> float:
        """`cycles` at `clock_mhz`."""
        return self.cycles / self.clock_mhz

    @cached_property
    def macs(self) -> int:
        """Multiply-accumulates of one image."""
        return sum(operator.macs for operator in self.operators)

    @property
    def macs_per_second(self) -> float:
        """Multiply-accumulates of one core per second."""
        return self.macs / self.cycles * self.clock_mhz * 1e6

    @property
    def utilization(self) -> float:
        """`macs` over what the core could do in `cycles`, 0 to 1."""
        peak = self.cycles * self.peak_macs_per_cycle
        return self.macs / peak if peak else 0.0

    @cached_property
    def causes(self) -> dict[str, int]:
        """Cycles by cause; they add up to `cycles`.

        ``launch``, ``control``, ``compute``, ``stall``, and ``last store``: what follows the last computation.
        """
        found = {"launch": self.launch}
        for cause in ("control", "compute", "stall"):
            found[cause] = sum(getattr(operator, cause) for operator in self.operators)
        return found | {"last store": self.cycles - sum(found.values())}

    def segment(self, kind: str) -> Segment:
        """Return the first segment of a kind."""
        return next(segment for segment in self.segments if segment.kind == kind)

    def memory(self, name: str) -> Memory:
        """Return the memory of that name."""
        return next(memory for memory in self.memories if memory.name == name)

    def live_bytes(self) -> list[tuple[int, int]]:
        """Return the bytes of feature maps that are alive: the cycle of each change, and the bytes from then on."""
        events: dict[int, int] = {}
        for buffer in self.feature_maps:
            events[buffer.start] = events.get(buffer.start, 0) + buffer.bytes
            events[buffer.end] = events.get(buffer.end, 0) - buffer.bytes
        live, found = 0, []
        for cycle in sorted(events):
            live += events[cycle]
            found.append((cycle, live))
        return found

    def bandwidth(self, memory: str) -> list[tuple[int, float, float]]:
        """Return bytes per cycle read from and written to a memory: the cycle of each change, and the rates from then on.

        A command's bytes are spread evenly over the cycles that it loads or stores in.
        """
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

    def table(self, width: int = 100) -> str:
        """Return operators and totals as text of at most `width` columns (at least 100)."""
        from triune.profiling._table import table

        return table(self, width)

    def write_csv(self, path: str | os.PathLike[str]) -> None:
        """Write a line per operator, exact, with a header."""
        from triune.profiling._files import write_csv

        write_csv(self, Path(path))

    def write_json(self, path: str | os.PathLike[str]) -> None:
        """Write totals, operators, memories and the memory plan."""
        from triune.profiling._files import write_json

        write_json(self, Path(path))

    def write_trace(self, path: str | os.PathLike[str]) -> None:
        """Write Chrome trace JSON, which ui.perfetto.dev and chrome://tracing open."""
        from triune.profiling._trace import write_trace

        write_trace(self, Path(path))

    def write_report(self, path: str | os.PathLike[str]) -> None:
        """Write one self-contained HTML page with pictures and the table.

        Raises ImportError if the extra ``report`` is not installed.
        """
        from triune.profiling._report import write_report

        write_report(self, Path(path))


def profile(package: str | os.PathLike[str], *, clock_mhz: int | None = None) -> Profile:
    """Deploy a package (its directory or its ``model.json``) to an empty device of its kind, and say what it costs.

    Nothing is run. `clock_mhz` defaults to the device's. Raises a subclass of RuntimeError if the package cannot be read,
    the device has no such clock, or its memory does not hold the program; ValueError if its time is not modelled.
    """
    path = Path(package)
    file = path / "model.json" if path.is_dir() else path
    opened = _native.Package(file)
    timeline = opened.timeline(clock_mhz=clock_mhz)
    if not timeline.clock_mhz:
        raise ValueError(f"{file}: the time of '{opened.target}' is not modelled; compile for a device, such as metis")
    memories = tuple(Memory(**row) for row in timeline.memories())
    commands = _commands(timeline, memories)
    cycles = timeline.cycles
    operators = tuple(
        _operator(list(group), memories, cycles, timeline.peak_macs_per_cycle)
        for _, group in groupby(commands, key=lambda command: (command.operator, command.kind))
    )
    return Profile(
        name=file.resolve().parent.name,
        device=timeline.device,
        clock_mhz=timeline.clock_mhz,
        batch=opened.batch,
        cycles=cycles,
        launch=timeline.launch_cycles,
        peak_macs_per_cycle=timeline.peak_macs_per_cycle,
        commands=commands,
        operators=operators,
        memories=memories,
        segments=tuple(Segment(**row) for row in timeline.segments()),
        feature_maps=_feature_maps(timeline, commands),
        scratch_bytes=timeline.scratch_bytes,
        scratch_lower_bound=timeline.scratch_lower_bound,
    )


def _commands(timeline: _native.Timeline, memories: tuple[Memory, ...]) -> tuple[Command, ...]:
    names = [memory.name for memory in memories]
    found: list[Command] = []
    free = timeline.launch_cycles
    for row in timeline.commands():
        # The execute queue is in order: what is neither stall nor computing since the command before is fixed cost.
        computed = row["computing"][1]
        control = computed - free - row["stall"] - row["compute"]
        free = computed
        same = ("index", "opcode", "kind", "start", "end", "compute", "load", "store", "stall", "macs")
        spans = ("loading", "computing", "storing")
        fields: dict[str, Any] = {name: row[name] for name in (*same, *spans)}
        for side in ("read", "written"):
            fields[side] = dict(zip(names, row[side], strict=True))
        found.append(Command(operator=row["name"], control=control, **fields))
    return tuple(found)


def _operator(commands: list[Command], memories: tuple[Memory, ...], cycles: int, peak: float) -> Operator:
    sums = {
        name: sum(getattr(command, name) for command in commands)
        for name in ("compute", "load", "store", "stall", "control", "macs")
    }
    causes: dict[str, int] = {}
    for command in commands:
        for cause, count in command.causes(memories).items():
            causes[cause] = causes.get(cause, 0) + count
    held = sums["compute"] + sums["stall"] + sums["control"]
    names = [memory.name for memory in memories]
    return Operator(
        name=commands[0].operator,
        kind=commands[0].kind,
        start=min(command.start for command in commands),
        end=max(command.end for command in commands),
        read={name: sum(command.read[name] for command in commands) for name in names},
        written={name: sum(command.written[name] for command in commands) for name in names},
        share=held / cycles if cycles else 0.0,
        utilization=sums["macs"] / (held * peak) if held and peak else 0.0,
        bottleneck=max(causes, key=lambda cause: causes[cause]),
        **sums,
    )


def _feature_maps(timeline: _native.Timeline, commands: tuple[Command, ...]) -> tuple[FeatureMap, ...]:
    def at(index: int) -> int:
        return commands[index].computing[0] if index < len(commands) else timeline.cycles

    return tuple(
        FeatureMap(
            operator=commands[row["first"]].operator if row["first"] < len(commands) else "",
            offset=row["offset"],
            bytes=row["bytes"],
            start=at(row["first"]),
            end=at(row["last"]),
        )
        for row in timeline.buffers()
    )
