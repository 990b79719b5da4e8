"""One program on many devices that differ in some numbers: throughput, bottleneck, and which designs nothing beats."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import product
from pathlib import Path
from typing import Any

from triune import _native
from triune._files import write_text
from triune._targets import target_of
from triune._text import short
from triune.errors import ArgumentError
from triune.profiling import _cores
from triune.profiling._energy import of_row, scaled
from triune.profiling._table import compact, size, write_rows
from triune.profiling._timeline import bottleneck

__all__ = ["Design", "Exploration", "explore"]

MOST_POINTS = 10_000
"""Most designs of one exploration."""

COSTS = {
    "area": "the array's and the on-chip memories' area",
    "macs": "multiply-accumulates of the arrays per cycle",
    "bytes": "on-chip bytes",
    "bandwidth": "bandwidth of the first memory's port",
    "traffic": "bytes to and from the first memory per image",
    "energy": "joules per image on the device",
}
"""What designs can cost."""

MODES = ("side-by-side", *_cores.MODES)
"""How all cores of a design can work."""

MAC_AREA, CELL_AREA = 419.0, 0.346
"""Square micrometres of 45 nm: an 8-bit multiplier (282) with a 32-bit adder (137), as synthesized for TSMC's process (the table
in Dally, *High-Performance Hardware for Machine Learning*, NIPS 2015); a six-transistor cell of SRAM (Mistry et al., IEDM 2007),
without what stands around cells. They say what a multiplier is worth in bytes, not how large a chip is."""

FACTORS = ((1, 4), (1, 2), (1, 1), (2, 1), (4, 1))
"""What an ellipsis alone stands for: these multiples of what the device has."""


@dataclass(frozen=True)
class Design:
    """A device, and what the program costs there."""

    settings: dict[str, str]
    """What differs from the device: each key with its value."""
    clock_mhz: int
    """The core's clock."""
    cycles: int
    """Of one run, from the launch to the last store; of one image where all cores work."""
    images_per_second: float
    """Of one run after the other, a batch per run; of all cores where all work."""
    utilization: float
    """Cycles that the arrays at work would take if all of them worked all the time, over those that there are."""
    bottleneck: str
    """What most of the cycles of one core go to: ``compute``, ``control``, or a memory with ``load`` or ``store``."""
    peak_macs_per_cycle: float
    """Multiply-accumulates of the arrays of `cores` cores per cycle: what the arrays cost."""
    on_chip_bytes: int
    """Bytes of all memories but the first, those of each of `cores` cores once: what they cost."""
    external_bytes_per_second: float
    """Bandwidth of the first memory's port: what that costs."""
    traffic_bytes: int = 0
    """Bytes read from and written to the first memory per image."""
    joules: float | None = None
    """Energy per image on the device; None where its description has none, or cores share images."""
    cores: int = 1
    """Cores that costs are of: all that there are where all work."""
    cores_at_work: int = 1
    """Cores that have something to do."""
    pareto: bool = False
    """Whether no other design is as fast, but for a margin, for no more of any cost, and less of one."""

    @property
    def microseconds(self) -> float:
        """`cycles` at `clock_mhz`, in µs: the time of one run."""
        return self.cycles / self.clock_mhz

    @property
    def area(self) -> float:
        """A proxy for the area of the arrays of `cores` cores and all on-chip memories, in mm² of 45 nm: a
        multiply-accumulate per cycle counts as 419 µm², a byte as eight cells of 0.346 µm².
        """
        return (self.peak_macs_per_cycle * MAC_AREA + self.on_chip_bytes * 8 * CELL_AREA) / 1e6

    def cost(self, name: str) -> float:
        """Return one of the costs. Less is better of all.

        ``area`` is in mm² (`area`), ``macs`` per cycle of `cores` cores, ``bytes`` on chip, ``bandwidth`` of the first memory in
        bytes per second, ``traffic`` with it in bytes per image, ``energy`` in joules per image, 0.0 where the device's
        description has none.

        Raises KeyError for another.
        """
        return {
            "area": self.area,
            "macs": self.peak_macs_per_cycle,
            "bytes": self.on_chip_bytes,
            "bandwidth": self.external_bytes_per_second,
            "traffic": self.traffic_bytes,
            "energy": self.joules or 0.0,
        }[name]


@dataclass(frozen=True)
class Exploration:
    """All designs, in the order of the sweep: the last key changes fastest."""

    name: str
    """The model's or the package's name."""
    device: str
    """The device that they vary."""
    batch: int
    """Images per run, each on a core of its own."""
    keys: tuple[str, ...]
    """What was varied."""
    designs: tuple[Design, ...]
    """What came out."""
    costs: tuple[str, ...] = ("area", "bandwidth")
    """What designs cost, when it is said which no other beats."""
    margin: float = 0.01
    """How much slower, in parts, a cheaper design may be that beats another."""
    mode: str | None = None
    """How all cores of each design work; None: a run on its own cores."""

    @property
    def front(self) -> tuple[Design, ...]:
        """The designs that no other beats (`Design.pareto`), by images per second, the fastest first."""
        best = [design for design in self.designs if design.pareto]
        return tuple(sorted(best, key=lambda design: -design.images_per_second))

    @property
    def has_energy(self) -> bool:
        """Whether the device's description says what work costs in energy."""
        return self.designs[0].joules is not None

    @property
    def rule(self) -> str:
        """What a star stands for, in words."""
        rate = f"at least {1 - self.margin:.0%} as fast" if self.margin else "as fast"
        return f"no other is {rate} for no more of {', '.join(self.costs)}, and less of one"

    def table(self, width: int = 100) -> str:
        """Return a line per design as text; a star marks those that no other beats. `width` is not looked at: columns are
        as wide as they must be.
        """
        head = [
            *self.keys,
            "images/s",
            "µs",
            "utilization",
            "bound by",
            "MACs/cycle",
            "on chip",
            "mm²",
            "GB/s",
            "traffic",
            *(["energy"] if self.has_energy else []),
            *(["at work"] if self.mode else []),
            "",
        ]
        rows = [
            [
                *design.settings.values(),
                f"{design.images_per_second:,.1f}",
                f"{design.microseconds:,.1f}",
                f"{design.utilization:.1%}",
                design.bottleneck,
                compact(design.peak_macs_per_cycle),
                size(design.on_chip_bytes),
                f"{design.area:.3g}",
                f"{design.external_bytes_per_second / 1e9:.1f}",
                size(design.traffic_bytes),
                *([] if design.joules is None else [scaled(round(design.joules * 1e15), "J")]),
                *([f"{design.cores_at_work}/{design.cores}"] if self.mode else []),
                "*" if design.pareto else "",
            ]
            for design in self.designs
        ]
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        left = len(self.keys) + 3
        lines = [
            " ".join(
                f"{cell:<{size}}" if at == left else f"{cell:>{size}}"
                for at, (cell, size) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in [head, *rows]
        ]
        best = max(self.designs, key=lambda design: design.images_per_second)
        setting = ", ".join(f"{key} {value}" for key, value in best.settings.items())
        return "\n".join(
            [
                *lines,
                "",
                f"{len(self.designs)} designs of {self.device}; fastest: {best.images_per_second:,.1f} images/s with {setting}",
                f"* {len(self.front)} {'design' if len(self.front) == 1 else 'designs'}, the choice there is: {self.rule}",
            ]
        )

    def write_csv(self, path: str | os.PathLike[str]) -> None:
        """Write a line per design, exact, with a header. Raises `triune.errors.FileError` if the file cannot be written."""
        write_rows(path, [_flat(design) for design in self.designs])

    def write_json(self, path: str | os.PathLike[str]) -> None:
        """Write all designs, exact: an object with ``"schema": "triune-exploration"``.

        Raises `triune.errors.FileError` if the file cannot be written.
        """
        content = {
            "schema": "triune-exploration",
            "schema_version": 1,
            "name": self.name,
            "device": self.device,
            "batch": self.batch,
            "keys": self.keys,
            "costs": self.costs,
            "margin": self.margin,
            "mode": self.mode,
            "designs": [_flat(design) | {"settings": design.settings} for design in self.designs],
        }
        write_text(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")

    def write_report(self, path: str | os.PathLike[str]) -> None:
        """Write one self-contained HTML page with pictures and the table. Raises `triune.errors.FileError` if the file cannot
        be written."""
        from triune.profiling._explore_page import write_page

        write_page(self, Path(path))


def _flat(design: Design) -> dict[str, Any]:
    names = ("clock_mhz", "cycles", "microseconds", "images_per_second", "utilization", "bottleneck")
    costs = ("peak_macs_per_cycle", "on_chip_bytes", "area", "external_bytes_per_second", "traffic_bytes")
    cores = ("cores", "cores_at_work")
    found = {**design.settings, **{name: getattr(design, name) for name in (*names, *costs, *cores)}}
    return found | ({} if design.joules is None else {"joules": design.joules}) | {"pareto": design.pareto}


def explore(
    model: str | os.PathLike[str],
    sweep: Mapping[str, Sequence[str | int]],
    *,
    device: str | os.PathLike[str] | None = None,
    batch: int | None = None,
    costs: Sequence[str] = ("area", "bandwidth"),
    margin: float = 0.01,
    mode: str | None = None,
) -> Exploration:
    """Say what a program costs on devices that differ from one in some numbers. Nothing is deployed or run.

    `model` is a package (its directory or ``model.json``) or a quantized ONNX file, which is compiled for `device`, by
    default ``metis``, or the path of a device file, in batches of `batch`, by default 1; and again for every border and every
    size of memory that the sweep asks for. `sweep` has
    the values of each key: a path into the device's description, such as ``queues.buffers`` or ``memory.l2.ports``, or
    ``array`` (``"32x64"``), ``clock`` (MHz), the name of the first memory (its bytes per second), the name of another
    memory (its size). Values may end in K, M, G, T: powers of 1024 for sizes, of 1000 for others. ``"..."`` between values
    goes on as they began, doubling or adding; alone it stands for a quarter to four times of what the device has.

    `costs` says what designs cost when those are marked that no other beats: ``area`` (a proxy for the area of array and
    on-chip memories, `Design.area`), ``macs``, ``bytes``, ``bandwidth`` (of the first memory's port), ``traffic`` (bytes to and
    from it per image), ``energy`` (joules per image, `Design.joules`). A design is beaten by one that costs no more of any of
    them, less of one, and is slower by no more than `margin` of its throughput. With every number of a sweep as a cost
    of its own, all designs are the best at something.

    With `mode` all cores of each design work, and costs are of all of them: ``side-by-side``, an image on each; ``pipelined`` or
    ``split``, on images together (`on_cores`). `Design.cycles` is one image's latency then. So ``cores`` can be swept.

    Raises ValueError if the sweep is empty or too large, there is no such cost, ``energy`` is one and the device's description
    has none, an ellipsis leads nowhere, or the device's time is not modelled; subclasses of RuntimeError if the model
    or a device file cannot be read, the model cannot be compiled, a key
    or value is wrong, or a package does not fit.

    Examples:
        >>> from triune.models import DIGITS_INT8
        >>> from triune.profiling import explore
        >>> designs = explore(DIGITS_INT8, {"array": ["16x16", "32x32"]}, device="zg330")
        >>> len(designs.designs)
        2
    """
    path = Path(model)
    if not costs or len(set(costs)) < len(costs) or not set(costs) <= set(COSTS):
        raise ValueError(
            f"costs: expected some of {', '.join(COSTS)}, each once, got {', '.join(map(str, costs)) or 'none'}"
        )
    if mode is not None:
        _cores.check_mode(mode, MODES)
        if batch not in (None, 1):
            raise ValueError("batch: with a mode, the cores of each design say how many images there are")
    if not 0 <= margin < 1:
        raise ValueError(f"margin: expected a part of the throughput from 0 to below 1, got {margin}")
    if path.is_dir() or path.name == "model.json":
        file = path / "model.json" if path.is_dir() else path
        package = _native.Package(file)
        name = file.resolve().parent.name
        if device is not None and not package.is_for(target_of(device, "device")):
            raise ValueError(f"{file}: compiled for {package.target}, not {device}; give the ONNX file instead")
        if batch is not None and package.batch != batch:
            raise ValueError(f"{file}: compiled for batches of {package.batch}; give the ONNX file instead")
        estimate = _native.Estimate(package)
    else:
        name = path.stem
        estimate = _native.Estimate.compile(path, target=target_of(device or "metis", "device"), batch=batch or 1)
    if not sweep:
        raise ValueError("sweep: expected at least one key with its values")
    points: list[list[tuple[str, str]]] = []
    many = 1
    for key, values in sweep.items():
        _check_key(estimate, key)
        found = _values(estimate, key, [str(value).strip() for value in values])
        many *= len(found)
        if many > MOST_POINTS:
            raise ValueError(f"sweep: more than {MOST_POINTS:,} designs")
        points.append([(key, value) for value in found])
    designs = [_design(estimate, list(point), mode) for point in product(*points)]
    if "energy" in costs and designs[0].joules is None:
        raise ValueError(
            f"costs: the description of '{estimate.target}' has no energy; add [energy] (docs/device-spec.md), or leave it out"
        )
    return Exploration(
        name,
        estimate.target,
        estimate.batch,
        tuple(sweep),
        tuple(_marked(designs, costs, margin)),
        tuple(costs),
        margin,
        mode,
    )


def _design(estimate: _native.Estimate, changes: list[tuple[str, str]], mode: str | None) -> Design:
    timeline = estimate.timeline(changes)
    if not timeline.clock_mhz:
        raise ValueError(f"the time of '{estimate.target}' is not modelled; choose a device, such as metis")
    totals = timeline.totals()
    outer, *inner = timeline.memories()
    hertz = timeline.clock_mhz * 1e6
    spent = of_row(totals["energy"], [memory["name"] for memory in (outer, *inner)])
    design = Design(
        settings=dict(changes),
        clock_mhz=timeline.clock_mhz,
        cycles=timeline.cycles,
        images_per_second=estimate.batch * hertz / timeline.cycles,
        utilization=totals["utilization"],
        bottleneck=bottleneck(totals),
        peak_macs_per_cycle=timeline.peak_macs_per_cycle,
        on_chip_bytes=sum(memory["bytes"] for memory in inner),
        external_bytes_per_second=outer["bytes_per_cycle"] * hertz,
        traffic_bytes=totals["read"][0] + totals["written"][0],
        joules=None if spent is None else spent.joules,
    )
    return design if mode is None else _of_all_cores(estimate, design, mode, totals["ideal"])


def _of_all_cores(estimate: _native.Estimate, design: Design, mode: str, ideal: int) -> Design:
    side_by_side = mode == "side-by-side"
    found = estimate.on_cores(list(design.settings.items()), mode="pipelined" if side_by_side else mode)
    cores: int = found["given"]
    at_work, images = (cores, cores) if side_by_side else (found["cores"], 1)
    interval = found["abreast"] if side_by_side else found["interval"]
    spent = of_row(found["abreast_energy" if side_by_side else "energy"], found["memories"])
    return replace(
        design,
        cycles=found["abreast"] if side_by_side else found["latency"],
        images_per_second=images * design.clock_mhz * 1e6 / interval,
        utilization=images * ideal / (interval * cores),
        peak_macs_per_cycle=design.peak_macs_per_cycle * cores,
        on_chip_bytes=design.on_chip_bytes + found["own_bytes"] * (cores - 1),
        traffic_bytes=found["abreast_traffic"]
        if side_by_side
        else sum(task["read"][0] + task["written"][0] for task in found["tasks"]),
        joules=None if spent is None else spent.joules,
        cores=cores,
        cores_at_work=at_work,
    )


def _marked(designs: list[Design], costs: Sequence[str], margin: float) -> Iterable[Design]:
    import numpy as np

    rates = np.array([design.images_per_second for design in designs])
    # Less is better in every column.
    columns = np.array([[design.cost(name) for name in costs] for design in designs])
    # What beats a design costs no more, so it comes before. Only what is kept beats: else a chain of designs, each a little
    # faster than the one before, would lose its end to its beginning.
    order = sorted(range(len(designs)), key=lambda at: (*columns[at], -rates[at]))
    kept: list[int] = []
    for at in order:
        cheaper = (columns[kept] <= columns[at]).all(axis=1)
        same = (columns[kept] == columns[at]).all(axis=1) & (rates[kept] == rates[at])
        if not (cheaper & (rates[kept] >= rates[at] * (1 - margin)) & ~same).any():
            kept.append(at)
    front = set(kept)
    return [replace(design, pareto=at in front) for at, design in enumerate(designs)]


def _check_key(estimate: _native.Estimate, key: str) -> None:
    """Raise ArgumentError for what is no key of a description, before anything is said of its values."""
    try:
        estimate.number(key)
    except ArgumentError:
        # No number, or none now: the description may have the key.
        pass
    else:
        return
    memories = [memory["name"] for memory in estimate.timeline([]).memories()]
    brief = ["array", "clock", *memories]
    known = list(brief)
    for row in _native.device_schema():
        tables = [row["table"]]
        if row["table"] == "memory":
            tables = [*(f"memory.{name}" for name in memories), *(f"memory[{index}]" for index in range(len(memories)))]
        known += [f"{table}.{row['name']}".lstrip(".") for table in tables]
    # Where a list stands, its elements are numbers.
    if re.sub(r"\[\d+\]$", "", key) not in known:
        close = get_close_matches(key, known, 1)
        others = f"there are {', '.join(brief)}, and those that `triune device show` shows"
        meant = f"did you mean {close[0]!r}?" if close else others
        raise ArgumentError(short(f"sweep: {estimate.target!r} has no key {key!r}; {meant}"))


def _values(estimate: _native.Estimate, key: str, texts: list[str]) -> list[str]:
    """Return the values of a key, ellipses filled in, none twice."""
    texts = ["..." if text == "…" else text for text in texts]
    if texts == ["..."]:
        return [value for factor in FACTORS if (value := _times(estimate.number(key), factor))]
    found: list[str] = []
    for at, text in enumerate(texts):
        if text == "...":
            if at < 2 or at + 1 == len(texts):
                raise ValueError(f"{key}: '...' needs two values before it and one behind")
            found += _between(key, texts[at - 2], texts[at - 1], texts[at + 1])
        else:
            found.append(text)
    if not found or "" in found:
        raise ValueError(f"{key}: expected values such as 1,2,4")
    return list(dict.fromkeys(found))


def _times(value: str, factor: tuple[int, int]) -> str | None:
    numbers = [int(number) * factor[0] for number in value.split("x")]
    if any(number % factor[1] for number in numbers):
        return None
    return "x".join(str(number // factor[1]) for number in numbers)


def _between(key: str, first: str, second: str, last: str) -> list[str]:
    """Return what lies between `second` and `last`: doubling, or whatever factor, if that leads there, else adding."""
    suffix = second.lstrip("0123456789x")
    if any(text.lstrip("0123456789x") != suffix for text in (first, last)):
        raise ValueError(f"{key}: values around '...' end in the same unit, such as 1M,2M,...,8M")
    (a, b, end) = (tuple(map(int, text.removesuffix(suffix).split("x"))) for text in (first, second, last))
    if not len(a) == len(b) == len(end):
        raise ValueError(f"{key}: values around '...' are of one form")

    def text(numbers: tuple[int, ...]) -> str:
        return "x".join(map(str, numbers)) + suffix

    for step in (_multiplied, _added):
        found: list[tuple[int, ...]] = []
        here, before = b, a
        while len(found) < 10_000:
            following = step(before, here)
            if following == end:
                return [text(numbers) for numbers in found]
            if following is None or any(f > e for f, e in zip(following, end, strict=True)) or following == here:
                break
            found.append(following)
            before, here = here, following
    raise ValueError(f"{key}: {first},{second},... does not lead to {last}")


def _multiplied(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    if any(one == 0 or two * two % one for one, two in zip(a, b, strict=True)):
        return None
    return tuple(two * two // one for one, two in zip(a, b, strict=True))


def _added(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(2 * two - one for one, two in zip(a, b, strict=True))
