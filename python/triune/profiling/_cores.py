"""One image on several cores: pipelined, each core runs some of the commands; or split, cores share each command.

The core computes (`_native.Estimate.on_cores`); this names things and writes table, CSV, JSON and trace.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from triune import _native
from triune._files import write_text
from triune.errors import ArgumentError
from triune.profiling._energy import Energy, of_row, scaled
from triune.profiling._table import LEAST_WIDTH, shorten, size, write_rows
from triune.profiling._timeline import check_clock
from triune.profiling._trace import PROCESS, Event, names, write_events

__all__ = ["MODES", "CoreTask", "Exchange", "HostLink", "OnCores", "on_cores"]

MODES = ("pipelined", "split")
"""How cores can work on images together."""


@dataclass(frozen=True)
class CoreTask:
    """What one core does for one image. Cycles count from the launch of the image's first core."""

    core: int
    """The core."""
    what: str
    """``launch``, ``command``, or ``send`` and ``receive``, which copy feature maps from core to core."""
    command: int
    """Index of the command; for others of the one that comes next."""
    operator: str
    """The command's operator."""
    kind: str
    """What that does, such as ``Conv``."""
    axis: str | None
    """What the command is split along: ``rows`` of results, or output ``channels``; None if it is whole."""
    part: int
    """Which of the command's parts, from 0."""
    parts: int
    """Parts that the command is split into."""
    start: int
    """The first cycle."""
    end: int
    """One past the last."""
    read: dict[str, int]
    """Bytes read from each memory."""
    written: dict[str, int]
    """Bytes written to each."""
    energy: Energy | None
    """What it costs in energy, but for what the core draws whatever it does; None where the device's description has none."""


@dataclass(frozen=True)
class HostLink:
    """What an image needs of the host and of the link to it, in nanoseconds. Both directions work beside the cores."""

    call: int
    """The host's part of a call, before the inputs move."""
    input: int
    """Inputs on the link."""
    output: int
    """Outputs on the link."""


@dataclass(frozen=True)
class Exchange:
    """What moves because there are several cores: between two pipeline stages, or for the parts of a command."""

    command: int
    """The first command of the later stage, or the one that is split."""
    operator: str
    """Its operator."""
    shared: int
    """Bytes of feature maps that one core makes and another reads where both reach them: written and read anyway."""
    copied: int
    """Bytes of feature maps that are copied from a core's own memory to another's, by the tasks ``send`` and ``receive``."""
    maps_again: int
    """Bytes of feature maps that more than one part reads: halos of rows, inputs of parts by channels."""
    weights_again: int
    """Bytes of weights that more than one part reads."""


@dataclass(frozen=True)
class OnCores:
    """What images cost that several cores work on together."""

    name: str
    """The package's name."""
    device: str
    """Its device."""
    mode: str
    """``pipelined`` or ``split``."""
    clock_mhz: int
    """The cores' clock."""
    given: int
    """Cores that there were."""
    cores: int
    """Cores at work: fewer, where more are no faster."""
    latency: int
    """Cycles of one image, from the first launch to the last store, others before and behind it."""
    interval: int
    """Cycles between two results: the slowest stage's, or the latency where images are split."""
    alone: int
    """Cycles of an image on one core, the others idle."""
    abreast: int
    """Cycles of an image on one core beside an image on each of the others (a batch)."""
    alone_each: tuple[int, ...]
    """Of `alone`, those of each command."""
    energy: Energy | None
    """What one image costs in energy on the device, with what each core at work draws from one result to the next; None where the
    device's description has none."""
    alone_energy: Energy | None
    """The same of an image on one core."""
    abreast_energy: Energy | None
    """The same of an image on one core beside an image on each of the others."""
    link: HostLink | None
    """The way to the host; None where the device's description has none."""
    tasks: tuple[CoreTask, ...]
    """What cores do for one image, in the order of its commands."""
    exchanges: tuple[Exchange, ...]
    """What goes from core to core."""

    @property
    def images_per_second(self) -> float:
        """Of images that follow each other: as fast as the cores, or as the host link where that is slower."""
        return self._rate(1, self.interval)

    @property
    def microseconds(self) -> float:
        """`latency` in µs: of the cores alone."""
        return self.latency / self.clock_mhz

    @property
    def call_microseconds(self) -> float:
        """From an image's call to its result with the host in µs: the host's part of the call, inputs, cores, outputs."""
        link = self.link or HostLink(0, 0, 0)
        return self.microseconds + (link.call + link.input + link.output) / 1000

    @property
    def link_busy(self) -> float:
        """Part of the time that the busier direction of the host link moves something, while images follow each other, 0 to 1."""
        return self._moving * self.images_per_second * 1e-9

    @property
    def _moving(self) -> int:
        """Nanoseconds of an image on the link's busier direction."""
        return max(self.link.input, self.link.output) if self.link else 0

    def _rate(self, images: int, cycles: int) -> float:
        """Images per second of cores that give `images` in so many cycles, as far as the link keeps up."""
        return 1e9 / max(cycles * 1e3 / self.clock_mhz / images, self._moving)

    @property
    def core_busy(self) -> tuple[float, ...]:
        """Part of the time that each core at work is busy, while images follow each other as fast as the cores can, 0 to 1."""
        busy = [0] * self.cores
        for task in self.tasks:
            busy[task.core] += task.end - task.start
        return tuple(cycles / self.interval for cycles in busy)

    @property
    def balance(self) -> float:
        """The mean of `core_busy` over its largest: 1 if all have as much to do."""
        return sum(self.core_busy) / len(self.core_busy) / max(self.core_busy)

    def table(self, width: int = 100) -> str:
        """Return a line per pipeline stage, or per operator that is split, and the sums; `width` columns at most, or 100."""
        rows = _stages(self) if self.mode == "pipelined" else _operators(self)
        head = STAGE_HEAD if self.mode == "pipelined" else OPERATOR_HEAD
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        widths[1] = max(8, min(widths[1], max(width, LEAST_WIDTH) - sum(widths) + widths[1] - len(widths) + 1))

        def line(cells: Sequence[str]) -> str:
            cells = [cells[0], shorten(cells[1], widths[1]), *cells[2:]]
            columns = enumerate(zip(cells, widths, strict=True))
            return " ".join(f"{cell:<{size}}" if at < 2 else f"{cell:>{size}}" for at, (cell, size) in columns).rstrip()

        return "\n".join([line(head), *map(line, rows), "", *_totals(self)])

    def write_csv(self, path: str | os.PathLike[str]) -> None:
        """Write a line per task, exact. Raises `triune.errors.FileError` if the file cannot be written."""
        write_rows(path, [_flat(task) for task in self.tasks])

    def write_json(self, path: str | os.PathLike[str]) -> None:
        """Write everything, exact: an object with ``"schema": "triune-cores"``.

        Raises `triune.errors.FileError` if the file cannot be written.
        """
        sums = {name: getattr(self, name) for name in SUMS}
        content = {"schema": "triune-cores", "schema_version": 1, **asdict(self), **sums}
        write_text(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")

    def write_trace(self, path: str | os.PathLike[str]) -> None:
        """Write Chrome trace JSON: a track per core, and images that follow each other until the pipeline has been full.

        Raises `triune.errors.FileError` if the file cannot be written.
        """
        about = {"device": self.device, "mode": self.mode, "interval_cycles": self.interval}
        tracks = names(self.device, ((core + 1, f"core {core}") for core in range(self.cores)))
        write_events(Path(path), about, [*tracks, *_slices(self)])


SUMS = ("images_per_second", "microseconds", "call_microseconds", "core_busy", "link_busy", "balance")
STAGE_HEAD = ("core", "operators", "commands", "µs", "busy", "shared", "copied")
OPERATOR_HEAD = ("kind", "operator", "split", "µs", "one core", "maps again", "weights again")


def _stages(found: OnCores) -> list[list[str]]:
    rows = []
    given = {each.command: each for each in found.exchanges}
    for core, group in groupby(found.tasks, lambda task: task.core):
        tasks = list(group)
        commands = [task for task in tasks if task.what == "command"]
        first, last = commands[0].operator, commands[-1].operator
        moved = given.get(commands[0].command)
        rows.append(
            [
                str(core),
                first if first == last else f"{first} … {last}",
                str(len(commands)),
                f"{(tasks[-1].end - tasks[0].start) / found.clock_mhz:,.1f}",
                f"{found.core_busy[core]:.1%}",
                size(moved.shared) if moved else "",
                size(moved.copied) if moved else "",
            ]
        )
    return rows


def _operators(found: OnCores) -> list[list[str]]:
    rows = []
    again = {each.command: each for each in found.exchanges}
    commands = (task for task in found.tasks if task.what == "command")
    for (operator, kind), group in groupby(commands, lambda task: (task.operator, task.kind)):
        tasks = list(group)
        numbers = sorted({task.command for task in tasks})
        ways = {(task.parts, task.axis) for task in tasks}
        way = "parts" if len(ways) > 1 else "".join(f"{parts} by {axis}" if axis else "" for parts, axis in ways)
        moved = [again[number] for number in numbers if number in again]
        rows.append(
            [
                kind,
                operator,
                way,
                f"{(max(task.end for task in tasks) - min(task.start for task in tasks)) / found.clock_mhz:,.1f}",
                f"{sum(found.alone_each[number] for number in numbers) / found.clock_mhz:,.1f}",
                size(sum(each.maps_again for each in moved)) if moved else "",
                size(sum(each.weights_again for each in moved)) if moved else "",
            ]
        )
    return rows


def _totals(found: OnCores) -> list[str]:
    def us(cycles: int) -> str:
        return f"{cycles / found.clock_mhz:,.1f} µs"

    def rate(images: int, cycles: int) -> str:
        return f"{found._rate(images, cycles):,.1f} images/s"

    cores = f"{found.cores} of {found.given} cores" if found.cores < found.given else f"{found.cores} cores"
    cores = "1 core" if found.given == 1 else cores
    lines = [
        f"{found.mode:<12} {rate(1, found.interval)} on {cores} of {found.device} at {found.clock_mhz} MHz, "
        f"{us(found.latency)} an image",
        f"one core     {rate(1, found.alone)}, {us(found.alone)} an image",
        f"side by side {rate(found.given, found.abreast)} with an image on each of {found.given}, {us(found.abreast)} an image",
        f"balance      {found.balance:.1%}: cores busy "
        + ", ".join(f"{core}: {share:.1%}" for core, share in enumerate(found.core_busy)),
    ]
    if found.energy and found.alone_energy and found.abreast_energy:
        watts = scaled(round(found.energy.total * found.images_per_second), "W")
        lines.append(
            f"energy       {found.energy} an image on the device, {watts} while it runs; one core {found.alone_energy}, "
            f"side by side {found.abreast_energy}"
        )
    if found.link:
        call, moved, back = (nanos / 1000 for nanos in (found.link.call, found.link.input, found.link.output))
        held = ", which it holds back" if found.link_busy > 0.9999 else ""
        lines.append(
            f"link         {moved:,.1f} µs in, {back:,.1f} µs out an image, {found.link_busy:.1%} busy beside the cores{held}; "
            f"{found.call_microseconds:,.1f} µs from call to result, {call:,.1f} of them the call"
        )
    if found.cores < found.given:
        better = "throughput" if found.mode == "pipelined" else "latency"
        lines.append(f"idle         {found.given - found.cores}: no {better} would be gained with them")
    return lines


def _flat(task: CoreTask) -> dict[str, Any]:
    row = asdict(task)
    del row["energy"]
    for side in ("read", "written"):
        row |= {f"{memory}_{side}": count for memory, count in row.pop(side).items()}
    if task.energy:
        row["energy_fj"] = task.energy.total
    return row


def _slices(found: OnCores) -> Iterator[Event]:
    images = found.cores + 1 if found.mode == "pipelined" else 2
    for image in range(images):
        for task in found.tasks:
            start = task.start + image * found.interval
            if task.end == task.start:
                continue
            part = f" ({task.axis} {task.part + 1}/{task.parts})" if task.axis else ""
            yield {
                "ph": "X",
                "pid": PROCESS,
                "tid": task.core + 1,
                "name": f"{task.operator or task.kind}{part}" if task.what == "command" else task.what,
                "cat": task.what,
                "ts": start / found.clock_mhz,
                "dur": (task.end - task.start) / found.clock_mhz,
                "args": {
                    "image": image,
                    "command": task.command,
                    "start_cycle": start,
                    "end_cycle": start + task.end - task.start,
                    "read": task.read,
                    "written": task.written,
                },
            }


def check_mode(mode: str, modes: Sequence[str] = MODES) -> None:
    """Raise ArgumentError for another mode."""
    if mode not in modes:
        raise ArgumentError(f"mode: expected {' or '.join(modes)}, got {mode!r}")


def on_cores(
    package: str | os.PathLike[str],
    cores: int | None = None,
    *,
    mode: str = "pipelined",
    clock_mhz: int | None = None,
) -> OnCores:
    """Say what images of a package cost that several cores of its device work on together. Nothing is run.

    `package` is its directory or its ``model.json``, `cores` how many cores there are for it, by default all. With `mode`
    ``pipelined`` each core has consecutive commands and hands images on, cut so that the slowest core is as fast as can be; with
    ``split`` cores share every command of one image, by rows of its results or by output channels, whichever takes least, or
    leave it to one. Fewer cores are used where more are no faster.

    Raises `triune.errors.ArgumentError` if there is no such mode, the device has fewer cores, its time is not modelled, or
    the program waits for operators on the host between its commands; other subclasses of RuntimeError as `profile`.

    Examples:
        >>> import triune
        >>> from triune.models import DIGITS_INT8
        >>> from triune.profiling import on_cores
        >>> package = triune.compile(DIGITS_INT8, target="metis", output="package")
        >>> found = on_cores(package, 4)
        >>> found.cores > 1, found.interval < found.alone < found.latency
        (True, True)
    """
    check_mode(mode)
    check_clock(clock_mhz)
    if cores is not None and not 1 <= cores < 1 << 32:
        raise ArgumentError(f"cores: expected 1 or more, got {cores}")
    path = Path(package)
    file = path / "model.json" if path.is_dir() else path
    if file.suffix == ".json" and file.name != "model.json":
        raise ArgumentError(
            f"{file}: a network document, for devices of one core; give a package that triune compile made"
        )
    estimate = _native.Estimate(_native.Package(file))
    found = estimate.on_cores([], mode=mode, cores=cores, clock_mhz=clock_mhz)
    memories = found.pop("memories")
    for name in ("own_bytes", "abreast_traffic"):
        found.pop(name)

    def task(row: dict[str, Any]) -> CoreTask:
        sides = {side: dict(zip(memories, row[side], strict=True)) for side in ("read", "written")}
        return CoreTask(**row | sides | {"energy": of_row(row["energy"], memories)})

    return OnCores(
        name=file.resolve().parent.name,
        **found
        | {
            "tasks": tuple(map(task, found["tasks"])),
            "exchanges": tuple(Exchange(**row) for row in found["exchanges"]),
            "alone_each": tuple(found["alone_each"]),
            "link": HostLink(*found["link"]) if found["link"] else None,
            **{name: of_row(found[name], memories) for name in ("energy", "alone_energy", "abreast_energy")},
        },
    )
