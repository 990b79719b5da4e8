"""Profiles, made of the core's timelines of programs."""

from __future__ import annotations

import os
from dataclasses import replace
from hashlib import sha256
from numbers import Real
from pathlib import Path
from typing import Any

from triune import _native
from triune._text import short
from triune.errors import ArgumentError
from triune.profiling._energy import of_row
from triune.profiling._model import Command, FeatureMap, Memory, Operator, Profile, Residency, Segment, Tiling

__all__ = ["bottleneck", "check_clock", "check_number", "of_timeline", "profile"]


def check_number(what: str, value: object) -> None:
    """Raise ArgumentError, which begins with `what`, for what is no number."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise ArgumentError(f"{what}: expected a number, got {short(repr(value))}")


def check_clock(clock_mhz: int | None) -> None:
    """Raise ArgumentError for a number that is no clock of anything."""
    if clock_mhz is None:
        return
    check_number("clock_mhz", clock_mhz)
    if not 1 <= clock_mhz < 1 << 32:
        raise ArgumentError(f"clock_mhz: expected a clock in MHz, 1 to {(1 << 32) - 1}, got {clock_mhz}")


def profile(package: str | os.PathLike[str], *, clock_mhz: int | None = None) -> Profile:
    """Deploy a package (its directory or its ``model.json``) to an empty device of its kind, and say what it costs.

    Another ``.json`` file is a network document with commands, such as ``net_BY.json``; of one that another compiler wrote,
    the commands are guessed from its operators' shapes (`Profile.estimated`).

    Nothing is run. `clock_mhz` defaults to the device's. Raises a subclass of RuntimeError if the package cannot be read,
    the device has no such clock, or its memory does not hold the program; ValueError if its time is not modelled.

    Examples:
        >>> import triune
        >>> from triune.models import DIGITS_INT8
        >>> from triune.profiling import profile
        >>> times = profile(triune.compile(DIGITS_INT8, target="zg330", output="package"))
        >>> len(times.operators), times.cycles > 100_000
        (7, True)
    """
    check_clock(clock_mhz)
    path = Path(package)
    file = path / "model.json" if path.is_dir() else path
    if file.suffix == ".json" and file.name != "model.json":
        timeline, exact = _native.document_timeline(file, clock_mhz=clock_mhz)
        return replace(of_timeline(timeline, file.stem, 1), estimated=not exact)
    opened = _native.Package(file)
    timeline = opened.timeline(clock_mhz=clock_mhz)
    if not timeline.clock_mhz:
        raise ValueError(f"{file}: the time of '{opened.target}' is not modelled; compile for a device, such as metis")
    found = replace(of_timeline(timeline, file.resolve().parent.name, opened.batch), digest=_digest(file))
    if opened.shares is None:
        return found
    _, (operators, macs) = opened.shares
    return replace(found, host_operators=operators, host_macs=macs, waits=len(opened.between))


def _digest(file: Path) -> str:
    found = sha256()
    for name in (file.name, "instructions.bin", "constants.bin"):
        part = file.parent / name
        if part.is_file():
            found.update(f"{name} {part.stat().st_size}\n".encode())
            with part.open("rb") as opened:
                while block := opened.read(1 << 20):
                    found.update(block)
    return found.hexdigest()


def of_timeline(timeline: _native.Timeline, name: str, batch: int) -> Profile:
    """Return the profile of a program whose time is modelled."""
    memories = tuple(Memory(**row) for row in timeline.memories())
    names = [memory.name for memory in memories]
    cycles = timeline.cycles
    commands = tuple(
        Command(
            index=row["index"],
            opcode=row["opcode"],
            **{span: row[span] for span in ("loading", "computing", "storing")},
            **_cost(row, names),
        )
        for row in timeline.commands()
    )
    operators = tuple(
        Operator(
            name=row["name"],
            share=(row["launch"] + row["stall"] + row["compute"]) / cycles,
            array_utilization=row["array_utilization"],
            **_cost(row, names, operator=False),
        )
        for row in timeline.operators()
    )
    totals = timeline.totals()
    return Profile(
        name=name,
        device=timeline.device,
        clock_mhz=timeline.clock_mhz,
        batch=batch,
        cycles=cycles,
        launch=timeline.launch_cycles,
        peak_macs_per_cycle=timeline.peak_macs_per_cycle,
        utilization=totals["utilization"],
        bottleneck=bottleneck(totals),
        commands=commands,
        operators=operators,
        memories=memories,
        segments=tuple(Segment(**row) for row in timeline.segments()),
        feature_maps=_feature_maps(timeline, commands),
        residency=_residency(timeline),
        scratch_bytes=timeline.scratch_bytes,
        scratch_lower_bound=timeline.scratch_lower_bound,
        spilled_bytes=timeline.spilled_bytes,
        buffer_bytes=timeline.buffer_bytes,
        energy=of_row(totals["energy"], names),
        constants_share=timeline.constants_share,
        assumptions=tuple(timeline.assumptions),
        timeline=timeline,
    )


def _residency(timeline: _native.Timeline) -> Residency | None:
    found = timeline.residency()
    return Residency(**found) if found else None


def _cost(row: dict[str, Any], memories: list[str], *, operator: bool = True) -> dict[str, Any]:
    """Return what commands and operators have alike."""
    same = ("kind", "start", "end", "compute", "load", "store", "stall", "load_stall", "ideal", "sram", "macs")
    found = {name: row[name] for name in (*same, "utilization", "tiles", "buffered", "reread")}
    found["tiling"] = Tiling(**row["tiling"])
    found["energy"] = of_row(row["energy"], memories)
    found |= {side: dict(zip(memories, row[side], strict=True)) for side in ("read", "written")}
    found |= {"control": row["launch"], "bottleneck": bottleneck(row)}
    return found | {"operator": row["name"]} if operator else found


def bottleneck(row: dict[str, Any]) -> str:
    bound = "control" if row["bound_by"] == "launch" else row["bound_by"]
    return f"{row['bound_memory']} {bound}" if row["bound_memory"] else bound


def _feature_maps(timeline: _native.Timeline, commands: tuple[Command, ...]) -> tuple[FeatureMap, ...]:
    def at(index: int) -> int:
        return commands[index].computing[0] if index < len(commands) else timeline.cycles

    buffers = timeline.buffers()
    readers: list[list[int]] = [[] for _ in buffers]
    writers: list[list[int]] = [[] for _ in buffers]
    for index, sides in enumerate(timeline.feature_maps()):
        for users, own in zip((readers, writers), sides, strict=True):
            for buffer in own:
                users[buffer].append(index)

    return tuple(
        FeatureMap(
            operator=commands[row["first"]].operator if row["first"] < len(commands) else "",
            segment=row["segment"],
            offset=row["offset"],
            bytes=row["bytes"],
            reads=row["reads"],
            start=at(row["first"]),
            end=at(row["last"]),
            first=row["first"],
            last=row["last"],
            writers=tuple(writers[number]),
            readers=tuple(readers[number]),
        )
        for number, row in enumerate(buffers)
    )
