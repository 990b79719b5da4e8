"""`triune profile --memory-snapshot`: an allocator that replays it is where the memory plan says, at every step."""

from __future__ import annotations

import pickle
import pickletools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import triune
from triune.cli import main
from triune.models import DIGITS_INT8
from triune.profiling import Profile, profile

Snapshot = dict[str, Any]

READ_BY_THE_VIEWER = """
    PROTO FRAME STOP MARK MEMOIZE BINPUT LONG_BINPUT BINGET LONG_BINGET APPEND APPENDS LIST DICT EMPTY_LIST EMPTY_DICT SETITEM
    SETITEMS TUPLE EMPTY_TUPLE TUPLE1 TUPLE2 TUPLE3 NEWTRUE NEWFALSE NONE BININT BININT1 BININT2 LONG1 BINFLOAT
    SHORT_BINUNICODE BINUNICODE
"""
"""What the viewer's own reader of pickles knows (pytorch/torch/utils/viz/MemoryViz.js)."""


@pytest.fixture
def snapshot(found: Profile, tmp_path: Path) -> Snapshot:
    found.write_memory_snapshot(tmp_path / "snapshot.pickle")
    return load(tmp_path / "snapshot.pickle")


def load(path: Path) -> Snapshot:
    snapshot: Snapshot = pickle.loads(path.read_bytes())
    return snapshot


def replay(snapshot: Snapshot) -> tuple[list[dict[int, int]], list[tuple[int, int, int, int, int]], list[int]]:
    """Follow the events. Return the blocks that are left by device, what was allocated and freed (device, address, size, cycle
    of both), and the most bytes at once by device; every event has to be possible."""
    left: list[dict[int, int]] = []
    freed: list[tuple[int, int, int, int, int]] = []
    most: list[int] = []
    for device, trace in enumerate(snapshot["device_traces"]):
        segments: list[range] = []
        blocks: dict[int, range] = {}
        since: dict[int, int] = {}
        peak, requested = 0, None
        times = [event["cycle"] for event in trace]
        assert times == sorted(times)
        for event in trace:
            start = event["addr"]
            place = range(start, start + event["size"])
            assert len(place) > 0
            assert isinstance(event["time_us"], int)
            assert (requested is not None) == (event["action"] == "free_completed"), "they follow each other"
            match event["action"]:
                case "segment_alloc":
                    assert not any(overlap(place, segment) for segment in segments)
                    segments.append(place)
                case "alloc":
                    assert any(place[0] in segment and place[-1] in segment for segment in segments)
                    assert not any(overlap(place, block) for block in blocks.values())
                    blocks[start], since[start] = place, event["cycle"]
                    peak = max(peak, sum(map(len, blocks.values())))
                case "free_requested":
                    assert blocks[start] == place
                    requested = place
                case "free_completed":
                    assert blocks.pop(start) == place == requested
                    requested = None
                    freed.append((device, start, event["size"], since[start], event["cycle"]))
                case other:
                    raise AssertionError(other)
        left.append({start: len(block) for start, block in blocks.items()})
        most.append(peak)
    return left, freed, most


def overlap(one: range, other: range) -> bool:
    return one.start < other.stop and other.start < one.stop


def test_every_feature_map_comes_and_goes_once(found: Profile, snapshot: Snapshot) -> None:
    _, freed, _ = replay(snapshot)
    names = [memory.name for memory in found.memories]
    planned = []
    for buffer in found.feature_maps:
        segment = found.segment(buffer.segment)
        place = (names.index(segment.memory), segment.base + buffer.offset)
        planned.append((*place, buffer.bytes, buffer.start, buffer.end))
    assert sorted(freed) == sorted(planned)
    assert planned


def test_the_most_at_once_is_the_lower_bound(found: Profile, snapshot: Snapshot) -> None:
    _, _, most = replay(snapshot)
    for memory, peak in zip(found.memories, most, strict=True):
        fixed = sum(
            s.bytes for s in found.segments if s.memory == memory.name and s.kind not in ("scratch", "resident")
        )
        assert peak == fixed + sum(plan.lower_bound for plan in found.plans if plan.memory == memory.name)


def test_what_is_left_are_the_parts_that_stay(found: Profile, snapshot: Snapshot) -> None:
    left, _, _ = replay(snapshot)
    expected = [(segment.memory, segment.base, segment.bytes) for segment in found.segments if segment.bytes]
    seen = []
    for segment in snapshot["segments"]:
        device, (block,) = segment["device"], segment["blocks"]
        seen.append((found.memories[device].name, segment["address"], segment["total_size"]))
        assert (block["address"], block["size"]) == (segment["address"], segment["total_size"])
        used = left[device].pop(segment["address"], 0)
        assert used == segment["allocated_size"] == segment["active_size"]
        assert used in (0, segment["total_size"])
        assert block["state"] == ("active_allocated" if used else "inactive")
        assert (used == 0) == (segment["frames"][0]["name"] in ("scratch", "resident"))
    assert not any(left)
    assert sorted(seen) == sorted(expected)


def test_frames_name_operator_and_kind(found: Profile, snapshot: Snapshot) -> None:
    kinds = {(command.index, command.operator): command.kind for command in found.commands}
    allocated = [event for trace in snapshot["device_traces"] for event in trace if len(event["frames"]) == 2]
    assert len(allocated) == 3 * len(found.feature_maps)
    for event in allocated:
        operator, place = event["frames"]
        assert operator["filename"] == kinds[operator["line"], operator["name"]]
        assert place["name"] in ("scratch", "resident")
        assert found.segment(place["name"]).memory == place["filename"]


def test_the_viewer_can_read_it(found: Profile, tmp_path: Path) -> None:
    """It reads few of pickle's codes, and none that calls anything."""
    long = replace(found, commands=tuple(replace(command, kind="K" * 300) for command in found.commands))
    long.write_memory_snapshot(tmp_path / "snapshot.pickle")
    written = (tmp_path / "snapshot.pickle").read_bytes()
    assert 2 <= written[1] <= 4, "the protocol"
    codes = {code.name for code, *_ in pickletools.genops(written)}
    assert codes <= set(READ_BY_THE_VIEWER.split())
    assert "BINUNICODE" in codes, "the long name"


def test_maps_in_two_memories(tmp_path: Path) -> None:
    """Little room near: some maps are far, next to weights, and have that memory's addresses."""
    source = triune.compile(DIGITS_INT8, target="zg330", output=tmp_path / "digits")
    whole = profile(source)
    # The plan is kept as it is; two of its maps change their place.
    far = [replace(buffer, segment="scratch", offset=at * 4096) for at, buffer in enumerate(whole.feature_maps[:2])]
    segments = tuple(
        replace(segment, base=1 << 33, bytes=8192) if segment.kind == "scratch" else segment
        for segment in whole.segments
    )
    moved = replace(whole, feature_maps=(*far, *whole.feature_maps[2:]), segments=segments)
    moved.write_memory_snapshot(tmp_path / "snapshot.pickle")
    _, freed, _ = replay(load(tmp_path / "snapshot.pickle"))
    names = [memory.name for memory in whole.memories]
    ((device, near),) = {(names.index(s.memory), s.base) for s in whole.segments if s.kind == "resident"}
    expected = {(names.index(moved.segment("scratch").memory), (1 << 33) + at * 4096) for at in range(2)}
    expected |= {(device, near + buffer.offset) for buffer in whole.feature_maps[2:]}
    assert {row[:2] for row in freed} == expected


def test_maps_that_follow_each_other_at_once(found: Profile, tmp_path: Path) -> None:
    """Commands that take no time: what a command needs is still there for it, and goes before the next one's."""
    still = tuple(replace(buffer, start=5, end=5) for buffer in found.feature_maps)
    replace(found, feature_maps=still).write_memory_snapshot(tmp_path / "snapshot.pickle")
    _, freed, _ = replay(load(tmp_path / "snapshot.pickle"))
    assert len(freed) == len(still)


def test_a_package_of_before_the_plan_was_kept(edited: Callable[..., Path], tmp_path: Path) -> None:
    package = edited(lambda model: model.pop("feature_maps"))
    with pytest.raises(ValueError, match=r"edited: .*compile the model again"):
        profile(package).write_memory_snapshot(tmp_path / "snapshot.pickle")
    assert not (tmp_path / "snapshot.pickle").exists()


def test_the_command(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = tmp_path / "one.pickle", tmp_path / "other.pickle"
    assert main(["profile", str(digits), "--clock", "400", "--memory-snapshot", str(one)]) == 0
    profile(digits, clock_mhz=400).write_memory_snapshot(other)
    assert one.read_bytes() == other.read_bytes()
    capsys.readouterr()
    assert main(["profile", str(digits), str(digits), "--memory-snapshot", str(tmp_path / "none")]) == 1
    assert "--memory-snapshot is for a single package" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
