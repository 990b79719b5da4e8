"""Chrome trace JSON: a track per queue, counters for bandwidth and live feature maps; ui.perfetto.dev opens it.

Time stamps are microseconds, as the format wants; `args` hold the cycles.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from triune._files import write_text
from triune.profiling._model import Command, Profile, Span

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
    content = {
        "displayTimeUnit": "ns",
        "otherData": {
            "name": profile.name,
            "device": profile.device,
            "clock_mhz": profile.clock_mhz,
            "cycles": profile.cycles,
        },
        "traceEvents": [*_names(profile), *_slices(profile), *_counters(profile)],
    }
    write_text(path, json.dumps(content, ensure_ascii=False) + "\n")


def _threads(profile: Profile) -> list[tuple[int, str, str, list[Command]]]:
    """Return track number, name, queue and commands of every track."""
    found = []
    for number, queue in enumerate(QUEUES):
        # The execute queue has a track even if nothing is computed: the launch lies there.
        for lane, commands in enumerate(lanes(profile, queue) or [[]]):
            name = queue if lane == 0 else f"{queue} {lane + 1}"
            found.append((100 * number + lane + 1, name, queue, commands))
    return found


def _names(profile: Profile) -> list[dict[str, Any]]:
    process = {"name": f"{profile.name} on {profile.device}, {profile.clock_mhz} MHz"}
    found: list[dict[str, Any]] = [{"ph": "M", "name": "process_name", "pid": PROCESS, "args": process}]
    for thread, name, *_ in _threads(profile):
        for key, value in (("thread_name", {"name": name}), ("thread_sort_index", {"sort_index": thread})):
            found.append({"ph": "M", "name": key, "pid": PROCESS, "tid": thread, "args": value})
    return found


def _slices(profile: Profile) -> list[dict[str, Any]]:
    found = []

    def add(thread: int, name: str, category: str, cycles: Span, arguments: dict[str, Any]) -> None:
        start, end = cycles
        found.append(
            {
                "ph": "X",
                "pid": PROCESS,
                "tid": thread,
                "name": name,
                "cat": category,
                "ts": start / profile.clock_mhz,
                "dur": (end - start) / profile.clock_mhz,
                "args": {"start_cycle": start, "end_cycle": end, "cycles": end - start} | arguments,
            }
        )

    for thread, name, queue, commands in _threads(profile):
        if name == "execute" and profile.launch:
            add(thread, "launch", "launch", (0, profile.launch), {})
        for command in commands:
            arguments = {"command": command.index, "opcode": command.opcode, "kind": command.kind}
            add(thread, command.operator, queue, span(command, queue), arguments | _details(command, queue))
    return found


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
