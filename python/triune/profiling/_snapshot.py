"""The memory plan as a snapshot of PyTorch's allocator, which pytorch.org/memory_viz and torch.cuda._memory_viz draw.

The format is that of `torch.cuda.memory._snapshot()`: plain dicts and lists, pickled. A device of it is a memory here, so that
an address means one byte.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

from triune._files import write_bytes
from triune.profiling._model import MAPS, FeatureMap, Profile, Segment

PROTOCOL = 4
"""The viewer's own reader knows protocols 2 to 4."""


def write_memory_snapshot(profile: Profile, path: Path) -> None:
    """Write the snapshot. Raises ValueError if the package does not hold its plan."""
    write_bytes(path, pickle.dumps(snapshot(profile), protocol=PROTOCOL))


def snapshot(profile: Profile) -> dict[str, Any]:
    """Return the snapshot: what is left when a run has ended, and all that happened before."""
    if not profile.feature_maps and any(plan.bytes for plan in profile.plans):
        raise ValueError(
            f"{profile.name}: the package was compiled before the memory plan was kept in it; compile the model again"
        )
    devices = {memory.name: number for number, memory in enumerate(profile.memories)}
    segments = [segment for segment in profile.segments if segment.bytes]
    traces: list[list[dict[str, Any]]] = [[] for _ in devices]
    for segment in segments:
        trace, frames = traces[devices[segment.memory]], _place(segment)
        trace.append(_event(profile, "segment_alloc", 0, segment.base, segment.bytes, frames))
    for segment in segments:
        # These hold the same all the time.
        if segment.kind not in MAPS:
            trace, frames = traces[devices[segment.memory]], _place(segment)
            trace.append(_event(profile, "alloc", 0, segment.base, segment.bytes, frames))
    for cycle, action, buffer in _changes(profile):
        segment = profile.segment(buffer.segment)
        frames = [_frame(profile, buffer), *_place(segment)]
        event = _event(profile, action, cycle, segment.base + buffer.offset, buffer.bytes, frames)
        traces[devices[segment.memory]].append(event)
    return {
        "segments": [_segment(segment, devices[segment.memory]) for segment in segments],
        "device_traces": traces,
        "allocator_settings": {},
        "external_annotations": [],
    }


def _changes(profile: Profile) -> list[tuple[int, str, FeatureMap]]:
    """Return what happens to feature maps, in order: before a command, room is made and then taken."""
    found = []
    for number, buffer in enumerate(profile.feature_maps):
        # The two halves of a free follow each other: the viewer takes them as one then.
        for half, action in enumerate(("free_requested", "free_completed")):
            found.append(((buffer.end, buffer.last, 0, number, half), action, buffer))
        found.append(((buffer.start, buffer.first, 1, number, 0), "alloc", buffer))
    return [(key[0], action, buffer) for key, action, buffer in sorted(found, key=lambda change: change[0])]


def _event(
    profile: Profile, action: str, cycle: int, address: int, size: int, frames: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "action": action,
        "addr": address,
        "size": size,
        "stream": 0,
        "time_us": cycle // profile.clock_mhz,
        "cycle": cycle,
        "frames": frames,
    }


def _segment(segment: Segment, device: int) -> dict[str, Any]:
    """Return a segment as it is at the end: feature maps are gone."""
    used = 0 if segment.kind in MAPS else segment.bytes
    block = {
        "address": segment.base,
        "size": segment.bytes,
        "requested_size": segment.bytes,
        "state": "active_allocated" if used else "inactive",
        "frames": _place(segment) if used else [],
    }
    return {
        "device": device,
        "address": segment.base,
        "total_size": segment.bytes,
        "allocated_size": used,
        "active_size": used,
        "requested_size": used,
        "stream": 0,
        # PyTorch's word for what has more than 1 MiB.
        "segment_type": "large" if segment.bytes > 1 << 20 else "small",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": _place(segment),
        "blocks": [block],
    }


def _frame(profile: Profile, buffer: FeatureMap) -> dict[str, Any]:
    """Return what stands for the line of code that allocates: the operator, its kind, and the number of its command."""
    kind = profile.commands[buffer.first].kind if buffer.first < len(profile.commands) else ""
    return {"filename": kind, "line": buffer.first, "name": buffer.operator}


def _place(segment: Segment) -> list[dict[str, Any]]:
    """Return what stands for its caller: the memory, and what the segment holds."""
    return [{"filename": segment.memory, "line": 0, "name": segment.kind}]
