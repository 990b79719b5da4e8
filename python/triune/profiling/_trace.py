"""Chrome trace JSON: a track per queue, arrows for feature maps, counters for bandwidth and live bytes; ui.perfetto.dev opens it.

Time stamps are microseconds, as the format wants; `args` hold the cycles.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from triune._files import replaced_text
from triune.profiling._model import Command, FeatureMap, Profile, Span

Event = dict[str, Any]

QUEUES = ("load", "execute", "store")
"""The queues of a core, in the order that work passes them."""

PROCESS = 1


def span(command: Command, queue: str) -> Span:
    """Return when a command is in a queue."""
    return {"load": command.loading, "execute": command.computing, "store": command.storing}[queue]


def lanes(profile: Profile, queue: str) -> list[list[Command]]:
    """Return a queue's commands, those that overlap (on ports of different memories) in lanes of their own."""
    found: list[list[Command]] = []
    for command in profile.commands:
        start, end = span(command, queue)
        if start == end:
            continue
        free = (lane for lane in found if span(lane[-1], queue)[1] <= start)
        lane = next(free, None)
        if lane is None:
            found.append([command])
        else:
            lane.append(command)
    return found


def write_trace(profile: Profile, path: Path) -> None:
    """Write the trace."""
    about = {
        "name": profile.name,
        "device": profile.device,
        "clock_mhz": profile.clock_mhz,
        "cycles": profile.cycles,
    }
    tracks = _tracks(profile)
    write_events(
        path,
        about,
        itertools.chain(_names(profile, tracks), _slices(profile, tracks), _flows(profile, tracks), _counters(profile)),
    )


def write_events(path: Path, about: dict[str, Any], events: Iterable[Event]) -> None:
    """Write a trace, a line per event: there may be many, and none has to wait for another."""
    encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
    with replaced_text(path) as file:
        file.write(f'{{"displayTimeUnit":"ns","otherData":{encode(about)},"traceEvents":[')
        for number, event in enumerate(events):
            file.write(f"{',' if number else ''}\n{encode(event)}")
        file.write("\n]}\n")


def names(process: str, tracks: Iterable[tuple[int, str]]) -> Iterator[Event]:
    """Name a trace's process and its tracks, which lie in the order of their numbers."""
    yield {"ph": "M", "name": "process_name", "pid": PROCESS, "args": {"name": process}}
    for thread, name in tracks:
        for key, value in (("thread_name", {"name": name}), ("thread_sort_index", {"sort_index": thread})):
            yield {"ph": "M", "name": key, "pid": PROCESS, "tid": thread, "args": value}


@dataclass
class _Slice:
    """A command in a queue, or one of its tiles."""

    command: Command
    cycles: Span
    tile: int | None = None


@dataclass
class _Track:
    """What a row of the trace shows. Slices on it follow each other, but that tiles may lie in their command."""

    thread: int
    name: str
    queue: str
    slices: list[_Slice] = field(default_factory=list)
    free: int = 0
    """When its last slice ends, those inside of it apart."""
    inside: int = 0
    """When the last tile inside of its last slice ends."""


def _tracks(profile: Profile) -> list[_Track]:
    """Return the tracks of all queues with their slices, outer ones before those in them."""
    found = []
    for number, queue in enumerate(QUEUES):
        own: list[_Track] = []

        def track(start: int, own: list[_Track] = own, number: int = number, queue: str = queue) -> _Track:
            """Return the first track that is free."""
            free = next((each for each in own if each.free <= start), None)
            if free is None:
                lane = len(own) + 1
                free = _Track(100 * number + lane, queue if lane == 1 else f"{queue} {lane}", queue)
                own.append(free)
            return free

        if queue == "execute":
            track(0)  # Even if nothing is computed: the launch lies there.
        for command, tiles in zip(profile.commands, profile.tile_times, strict=True):
            start, end = span(command, queue)
            if start == end:
                continue
            home = track(start)
            home.free, home.inside = end, start
            home.slices.append(_Slice(command, (start, end)))
            for tile, times in enumerate(tiles if len(tiles) > 1 else ()):
                start, end = times[number]
                if start == end:
                    continue
                # What moves beside the tile before, on another memory's port, does not lie in the command's slice.
                place = home if home.inside <= start else track(start)
                if place is home:
                    home.inside = end
                else:
                    place.free = place.inside = end
                place.slices.append(_Slice(command, (start, end), tile))
        found += own
    return found


def _names(profile: Profile, tracks: list[_Track]) -> Iterator[Event]:
    process = f"{profile.name} on {profile.device}, {profile.clock_mhz} MHz"
    return names(process, ((track.thread, track.name) for track in tracks))


def _slices(profile: Profile, tracks: list[_Track]) -> Iterator[Event]:
    def event(thread: int, name: str, category: str, cycles: Span, arguments: dict[str, Any]) -> Event:
        start, end = cycles
        return {
            "ph": "X",
            "pid": PROCESS,
            "tid": thread,
            "name": name,
            "cat": category,
            "ts": start / profile.clock_mhz,
            "dur": (end - start) / profile.clock_mhz,
            "args": {"start_cycle": start, "end_cycle": end, "cycles": end - start} | arguments,
        }

    for track in tracks:
        if track.name == "execute" and profile.launch:
            yield event(track.thread, "launch", "launch", (0, profile.launch), {})
        for each in track.slices:
            command = each.command
            if each.tile is None:
                arguments = {"command": command.index, "opcode": command.opcode, "kind": command.kind}
                arguments |= _details(command, track.queue)
                yield event(track.thread, command.operator, track.queue, each.cycles, arguments)
            else:
                arguments = {"command": command.index, "tile": each.tile}
                yield event(track.thread, f"tile {each.tile}", "tile", each.cycles, arguments)


def _flows(profile: Profile, tracks: list[_Track]) -> Iterator[Event]:
    """Give the arrows of feature maps: from the last cycle in which a command stores to the first in which another loads.

    Each that writes has one to the first that reads after it, each that reads one from the last that wrote before it: those
    of all pairs would be too many where a map is written and read in stripes.
    """
    threads = {
        (track.queue, each.command.index): track.thread
        for track in tracks
        for each in track.slices
        if each.tile is None
    }

    def end(command: Command, queues: tuple[str, ...], *, first: bool) -> Event | None:
        """Return one end of an arrow: at the command's slice in the first of the queues that has one."""
        for queue in queues:
            if thread := threads.get((queue, command.index)):
                start, end = span(command, queue)
                cycle = start if first else end - 1
                return {"pid": PROCESS, "tid": thread, "ts": cycle / profile.clock_mhz}
        return None

    numbers = itertools.count(1)
    for buffer in profile.feature_maps:
        for writer, reader in _pairs(buffer):
            begin = end(profile.commands[writer], ("store", "execute", "load"), first=False)
            finish = end(profile.commands[reader], ("load", "execute", "store"), first=True)
            if begin and finish:
                arrow = {"name": "feature map", "cat": "feature map", "id": next(numbers)}
                about = {"bytes": buffer.bytes, "segment": buffer.segment, "offset": buffer.offset}
                yield {"ph": "s"} | arrow | begin | {"args": about}
                yield {"ph": "f", "bp": "e"} | arrow | finish | {"args": about}


def _pairs(buffer: FeatureMap) -> list[tuple[int, int]]:
    """Return who hands a feature map to whom, in order."""
    found: set[tuple[int, int]] = set()
    for writer in buffer.writers:
        found.update((writer, reader) for reader in [r for r in buffer.readers if r > writer][:1])
    for reader in buffer.readers:
        found.update((writer, reader) for writer in [w for w in buffer.writers if w < reader][-1:])
    return sorted(found)


def _details(command: Command, queue: str) -> dict[str, int | str]:
    if queue == "execute":
        return {
            "compute_cycles": command.compute,
            "stall_cycles": command.stall,
            "load_stall_cycles": command.load_stall,
            "control_cycles": command.control,
            "ideal_cycles": command.ideal,
            "macs": command.macs,
            "tiles": command.tiles,
            "tiling": str(command.tiling),
            "bound_by": command.bottleneck,
        }
    busy, moved = (command.load, command.read) if queue == "load" else (command.store, command.written)
    found: dict[str, int | str] = {"busy_cycles": busy}
    return found | {f"{name}_bytes": count for name, count in moved.items() if count}


def _counters(profile: Profile) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []

    def add(name: str, cycle: int, values: dict[str, float]) -> None:
        found.append({"ph": "C", "pid": PROCESS, "name": name, "ts": cycle / profile.clock_mhz, "args": values})

    gigabytes = profile.clock_mhz / 1000
    for memory in profile.memories:
        steps = profile.bandwidth(memory.name)
        for cycle, read, written in [(0, 0.0, 0.0), *steps] if steps else []:
            values = {"read": round(read * gigabytes, 6), "write": round(written * gigabytes, 6)}
            add(f"{memory.name} GB/s", cycle, values)
    live = profile.live_bytes()
    for cycle, count in [(0, 0), *live] if live else []:
        add("live feature maps, bytes", cycle, {"bytes": count})
    return found
