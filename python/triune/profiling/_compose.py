"""Several programs on one device: throughput, latency and busy shares of instances that share cores, memories and link.

The core composes (`_native.compose`, `Card.composition`); this names things and writes table, CSV, JSON and trace.
"""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from triune import _native
from triune._files import replaced_text, write_text
from triune._text import short
from triune.errors import ArgumentError
from triune.profiling._model import Span
from triune.profiling._table import LEAST_WIDTH, shorten
from triune.profiling._timeline import check_clock, check_number

__all__ = ["Composition", "InstanceTimes", "Run", "Workload", "activity", "compose"]


@dataclass(frozen=True)
class Workload:
    """Instances of one program that all do the same."""

    package: str | os.PathLike[str]
    """The package's directory, or its ``model.json``."""
    instances: int = 1
    """How many, each on cores of its own as far as there are."""
    rate: float | None = None
    """Calls per second of each instance, as a camera makes them; None: the next call when a run has ended."""
    depth: int = 1
    """Runs of an instance under way at once when there is no rate: 3 for double buffering."""


@dataclass(frozen=True)
class InstanceTimes:
    """What one instance got done. Latencies are microseconds from the call to the result."""

    name: str
    """The package's name and a number."""
    cores: tuple[int, ...]
    """The device's cores that it runs on."""
    program: str
    """The package's name; of what ran, the instance's."""
    images: int
    """Images per run."""
    input_bytes: int | None
    """What a run moves to the device over the host link; None for what ran."""
    output_bytes: int | None
    """What it moves back; None for what ran."""
    runs: int
    """Runs that ended."""
    images_per_second: float
    """By the time between its first result and its last."""
    min: float
    """The shortest latency."""
    p50: float
    """The median."""
    p90: float
    """Nine runs of ten take no longer."""
    p99: float
    """99 runs of 100 take no longer."""
    max: float
    """The longest latency."""
    mean: float
    """The average."""


@dataclass(frozen=True)
class Run:
    """One run, in nanoseconds of the device's clock. A stage that takes nothing is empty."""

    instance: int
    """Index of the instance."""
    queued: int
    """When it was called."""
    input: Span
    """Its inputs on the host link."""
    compute: Span
    """On its cores."""
    output: Span
    """Its outputs on the host link; the end is the run's."""


@dataclass(frozen=True)
class Composition:
    """What instances did to each other on a device."""

    device: str
    """The device, or the card."""
    nanoseconds: int
    """How long: of the device's clock."""
    instances: tuple[InstanceTimes, ...]
    """In the order in which they were given or made."""
    core_busy: tuple[float, ...]
    """Part of the time that each core was at work, 0 to 1."""
    link_busy: tuple[float, float]
    """Part of the time that the host link moved inputs, and outputs."""
    runs: tuple[Run, ...]
    """Every run that ended, in the order in which they did."""
    forgotten: int = 0
    """Older runs that a card no longer remembers."""

    @property
    def images_per_second(self) -> float:
        """Images per second of the device's clock, of all instances together: the sum of theirs."""
        return sum(instance.images_per_second for instance in self.instances)

    def table(self, width: int = 100) -> str:
        """Return instances and busy shares as text of at most `width` columns (at least 100); latencies are in µs."""
        head = ["instance", "cores", "images/s", "runs", "latency µs: min", "p50", "p90", "p99", "max"]
        rows = []
        for each in self.instances:
            latencies = [f"{value:,.1f}" for value in (each.min, each.p50, each.p90, each.p99, each.max)]
            cores = ",".join(map(str, each.cores))
            rows.append([each.name, cores, f"{each.images_per_second:,.1f}", f"{each.runs:,}", *latencies])
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        widths[0] = max(8, min(widths[0], max(width, LEAST_WIDTH) - sum(widths[1:]) - len(widths) + 1))

        def line(cells: list[str]) -> str:
            cells = [shorten(cells[0], widths[0]), *cells[1:]]
            return " ".join(
                f"{cell:<{size}}" if at < 2 else f"{cell:>{size}}"
                for at, (cell, size) in enumerate(zip(cells, widths, strict=True))
            ).rstrip()

        cores = ", ".join(f"{core}: {share:.1%}" for core, share in enumerate(self.core_busy))
        totals = [
            f"together     {self.images_per_second:,.1f} images/s in {self.nanoseconds / 1e6:,.1f} ms on {self.device}",
            f"cores busy   {cores}",
            f"link busy    in {self.link_busy[0]:.1%}, out {self.link_busy[1]:.1%}",
        ]
        if self.forgotten:
            totals.append(f"forgotten    {self.forgotten:,} older runs")
        return "\n".join([line(head), *map(line, rows), "", *totals])

    def write_csv(self, path: str | os.PathLike[str]) -> None:
        """Write a line per instance, exact, with a header; latencies are in µs, cores are joined by blanks.

        Raises `triune.errors.FileError` if the file cannot be written; it is replaced in one step.
        """
        with replaced_text(path) as file:
            writer = csv.writer(file)
            writer.writerow(InstanceTimes.__dataclass_fields__)
            for each in self.instances:
                row = asdict(each) | {"cores": " ".join(map(str, each.cores))}
                writer.writerow(row.values())

    def write_json(self, path: str | os.PathLike[str]) -> None:
        """Write totals and instances, exact: an object with ``"schema": "triune-composition"``. Single runs are not in it.

        Raises `triune.errors.FileError` if the file cannot be written.
        """
        content = {
            "schema": "triune-composition",
            "schema_version": 1,
            "device": self.device,
            "nanoseconds": self.nanoseconds,
            "images_per_second": self.images_per_second,
            "core_busy": self.core_busy,
            "link_busy": {"in": self.link_busy[0], "out": self.link_busy[1]},
            "forgotten": self.forgotten,
            "instances": [asdict(each) for each in self.instances],
        }
        write_text(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")

    def write_trace(self, path: str | os.PathLike[str]) -> None:
        """Write Chrome trace JSON, which ui.perfetto.dev opens: a track per core and per direction of the link, and counters
        of cores at work, GB/s on the link, runs that wait, and images done.
        """
        from triune.profiling._compose_trace import write_trace

        write_trace(self, Path(path))


def compose(workloads: Sequence[Workload], *, seconds: float = 0.1, clock_mhz: int | None = None) -> Composition:
    """Say what instances of programs do to each other on one device, without running them.

    All packages are for the same device. Instances take cores in turn, as many as their batch has images; when all are
    taken, they share them. Nothing else is at work. `seconds` of the device's time are looked at; `clock_mhz` is the
    clock of all cores.

    Raises ValueError if a number is not positive or there is nothing to compose, a subclass of RuntimeError if a package
    cannot be read, they are for different devices, or the time holds more than 262 144 runs.

    Examples:
        >>> import triune
        >>> from triune.models import DIGITS_INT8
        >>> from triune.profiling import Workload, compose
        >>> package = triune.compile(DIGITS_INT8, target="metis", output="digits")
        >>> both = compose([Workload(package, instances=2)], seconds=0.01)
        >>> [times.name for times in both.instances]
        ['digits 1', 'digits 2']
    """
    if not workloads:
        raise ValueError("workloads: expected at least one")
    check_number("seconds", seconds)
    if not 0 < seconds <= 3600:
        raise ValueError(f"seconds: expected more than 0 and at most 3600, got {seconds}")
    rows: list[tuple[str, _native.Estimate, list[int], int, int, int]] = []
    programs: list[tuple[str, tuple[int, int]]] = []
    core = 0
    for workload in workloads:
        path = Path(workload.package)
        file = path / "model.json" if path.is_dir() else path
        package = _native.Package(file)
        estimate = _native.Estimate(package)
        name = file.resolve().parent.name
        counts: list[tuple[str, object]] = [("instances", workload.instances), ("depth", workload.depth)]
        for what, value in counts:
            if not isinstance(value, int) or isinstance(value, bool):
                raise ArgumentError(f"{name}: {what}: expected an integer, got {short(repr(value))}")
        if workload.rate is not None:
            check_number(f"{name}: rate", workload.rate)
        if not 1 <= workload.instances <= MOST_INSTANCES:
            raise ValueError(f"{name}: expected 1 to {MOST_INSTANCES} instances, got {workload.instances}")
        if not 1 <= workload.depth <= MOST_INSTANCES:
            raise ValueError(f"{name}: expected a depth of 1 to {MOST_INSTANCES}, got {workload.depth}")
        depth, period = workload.depth, 0
        if workload.rate is not None:
            if not 1e-3 <= workload.rate <= 1e9:
                raise ValueError(f"{name}: expected a rate of 0.001 to 1e9 calls per second, got {workload.rate}")
            depth, period = 0, max(1, round(1e9 / workload.rate))
        for number in range(workload.instances):
            cores = [(core + at) % estimate.cores for at in range(estimate.batch)]
            core = (core + estimate.batch) % estimate.cores
            label = f"{name} {number + 1}" if workload.instances > 1 else name
            rows.append((label, estimate, cores, depth, period, 0))
            programs.append((name, (_moved(package.inputs), _moved(package.outputs))))
    check_clock(clock_mhz)
    found = _native.compose(rows, horizon=round(seconds * 1e9), clock_mhz=clock_mhz)
    return _composition(found, rows[0][1].target, programs)


MOST_INSTANCES = 1024
"""Most instances of a workload, and most runs of one under way at once."""


def _moved(tensors: Sequence[_native.TensorIo]) -> int:
    """Return the bytes of tensors as they lie on the device, padding included: that is how they pass the link."""
    import numpy as np

    return sum(math.prod(tensor.shape) * np.dtype(tensor.dtype).itemsize for tensor in tensors)


def activity() -> dict[str, Composition]:
    """Return what this process ran on its virtual cards, by the card's name.

    Times are those of the cards' own clocks: how fast this machine is does not matter, unless runs are paced. The last
    65 536 runs of a card are remembered, as long as an instance is on it.
    """
    found = {}
    for card in _native.cards():
        composition = card.composition()
        if composition is not None:
            found[card.name] = _composition(composition, card.name)
    return found


def _composition(
    found: _native.Composition, device: str, programs: Sequence[tuple[str, tuple[int, int]]] | None = None
) -> Composition:
    """Name what the core found. `programs` has, for each instance, its package and the bytes of its inputs and outputs."""
    horizon = found.horizon
    rows = found.instances()
    known: Sequence[tuple[str, tuple[int | None, int | None]]]
    known = programs if programs is not None else [(row["name"], (None, None)) for row in rows]

    def share(busy: int) -> float:
        return busy / horizon if horizon else 0.0

    latencies = ("min", "p50", "p90", "p99", "max", "mean")
    instances = tuple(
        InstanceTimes(
            name=row["name"],
            cores=tuple(row["cores"]),
            program=program,
            images=row["images"],
            input_bytes=input_bytes,
            output_bytes=output_bytes,
            runs=row["runs"],
            images_per_second=row["images_per_second"],
            **{name: row[name] / 1000 for name in latencies},
        )
        for row, (program, (input_bytes, output_bytes)) in zip(rows, known, strict=True)
    )
    inputs, outputs = found.link_busy
    return Composition(
        device=device,
        nanoseconds=horizon,
        instances=instances,
        core_busy=tuple(map(share, found.core_busy)),
        link_busy=(share(inputs), share(outputs)),
        runs=tuple(Run(*row) for row in found.runs()),
        forgotten=found.forgotten,
    )
