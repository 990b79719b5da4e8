"""`triune profile --trace`: slices of commands, arrows from who writes a feature map to who reads it, counters."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from triune.profiling import Command, FeatureMap, Profile, TileTimes, profile
from triune.profiling._trace import QUEUES, _pairs

Event = dict[str, Any]


@pytest.fixture
def events(found: Profile, tmp_path: Path) -> list[Event]:
    return written(found, tmp_path)


def written(found: Profile, folder: Path) -> list[Event]:
    found.write_trace(folder / "trace.json")
    events: list[Event] = json.loads((folder / "trace.json").read_text())["traceEvents"]
    return events


def spans(times: Command | TileTimes) -> tuple[tuple[int, int], ...]:
    return times.loading, times.computing, times.storing


def holds(outer: Event, inner: Event) -> bool:
    """Whether a slice lies in another one of its track."""
    (start, end), (first, last) = ((e["args"]["start_cycle"], e["args"]["end_cycle"]) for e in (outer, inner))
    return outer["tid"] == inner["tid"] and start <= first and last <= end


def test_slices_and_counters(found: Profile, events: list[Event]) -> None:
    tracks = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert {"load", "execute", "store"} <= set(tracks.values())
    slices = [e for e in events if e["ph"] == "X"]
    assert {e["tid"] for e in slices} == set(tracks)
    for event in slices:
        cycles = event["args"]
        assert all(isinstance(cycles[key], int) for key in ("start_cycle", "end_cycle", "cycles"))
        assert event["ts"] == cycles["start_cycle"] / found.clock_mhz
        assert event["dur"] == cycles["cycles"] / found.clock_mhz > 0
    for track in tracks:
        # Viewers nest what overlaps on a track, and drop what does not nest.
        open_: list[Event] = []
        own = [e for e in slices if e["tid"] == track]
        assert own == sorted(own, key=lambda e: e["ts"]), "outer ones before those in them"
        for event in own:
            while open_ and open_[-1]["args"]["end_cycle"] <= event["args"]["start_cycle"]:
                open_.pop()
            assert all(holds(outer, event) for outer in open_)
            open_.append(event)
    for name, queue in (("load", "load"), ("store", "store")):
        busy = sum(e["args"]["busy_cycles"] for e in slices if e["cat"] == queue)
        assert busy == sum(getattr(o, name) for o in found.operators)
    counters = {
        name: [e for e in events if e["ph"] == "C" and e["name"] == name] for name in {e["name"] for e in events}
    }
    live = [e["args"]["bytes"] for e in counters["live feature maps, bytes"]]
    assert max(live) == found.plans[0].lower_bound
    assert live[0] == live[-1] == 0
    rates = counters["l2 GB/s"]
    moved = sum(e["args"]["read"] * (after["ts"] - e["ts"]) for e, after in pairwise(rates)) * 1000
    assert moved == pytest.approx(sum(o.read["l2"] for o in found.operators), rel=1e-3)


def test_tiles_are_their_commands(found: Profile) -> None:
    """They cover its time in each queue, one after the other in the array, and compute for as long."""
    assert len(found.tile_times) == len(found.commands)
    for command, tiles in zip(found.commands, found.tile_times, strict=True):
        assert len(tiles) == command.tiles
        assert sum(end - start for _, (start, end), _ in tiles) == command.compute
        for queue, whole in enumerate(spans(command)):
            own = [spans(tile)[queue] for tile in tiles if spans(tile)[queue][0] < spans(tile)[queue][1]]
            assert (min((start for start, _ in own), default=0), max((end for _, end in own), default=0)) == (
                whole if whole[0] < whole[1] else (0, 0)
            )
            assert [start for start, _ in own] == sorted(start for start, _ in own), "in order"
        assert all(end <= start for (_, end), (start, _) in pairwise(tile.computing for tile in tiles))
        for tile in tiles:
            reached = [span for span in tile if span[0] < span[1]]
            assert all(before[1] <= after[0] for before, after in pairwise(reached)), "loaded, computed, stored"


def test_every_tile_has_its_slices(found: Profile, events: list[Event]) -> None:
    tracks = {e["tid"]: e["args"]["name"].split()[0] for e in events if e["name"] == "thread_name"}
    slices = [e for e in events if e["ph"] == "X"]
    shown = sorted(
        (tracks[e["tid"]], e["args"]["command"], e["args"]["tile"], e["args"]["start_cycle"], e["args"]["end_cycle"])
        for e in slices
        if e["cat"] == "tile"
    )
    expected = [
        (queue, command.index, number, *spans(tile)[at])
        for command, tiles in zip(found.commands, found.tile_times, strict=True)
        for number, tile in enumerate(tiles)
        for at, queue in enumerate(QUEUES)
        if len(tiles) > 1 and spans(tile)[at][0] < spans(tile)[at][1]
    ]
    assert shown == sorted(expected)
    assert shown
    commands = {(e["cat"], e["args"].get("command")): e for e in slices if e["cat"] in QUEUES}
    inside = [e for e in slices if e["cat"] == "tile" and holds(commands[tracks[e["tid"]], e["args"]["command"]], e)]
    beside = len(shown) - len(inside)
    assert beside < len(inside)
    assert all(tracks[e["tid"]] == e["name"] or e["cat"] != "tile" or "tile" in e["name"] for e in slices)
    # What the array computes never overlaps, so nothing of it lies beside its command.
    assert sum(tracks[e["tid"]] == "execute" for e in inside) == sum(row[0] == "execute" for row in shown)


def test_arrows_join_who_writes_a_map_with_who_reads_it(found: Profile, events: list[Event]) -> None:
    slices = [e for e in events if e["ph"] == "X"]
    begins, ends = ([e for e in events if e["ph"] == phase] for phase in ("s", "f"))
    assert len({e["id"] for e in begins}) == len(begins)
    assert {e["id"] for e in begins} == {e["id"] for e in ends}
    assert len(begins) == len(ends) > 0
    assert all(e["bp"] == "e" for e in ends), "the slice around it, not the next one"
    finish = {e["id"]: e for e in ends}

    def around(event: Event) -> Event:
        """Return the slice of a command that an arrow's end lies in."""
        return next(
            e
            for e in slices
            if e["cat"] in QUEUES and e["tid"] == event["tid"] and e["ts"] <= event["ts"] < e["ts"] + e["dur"]
        )

    shown = set()
    for begin in begins:
        end = finish[begin["id"]]
        assert (begin["name"], begin["cat"], begin["args"]) == (end["name"], end["cat"], end["args"])
        assert begin["ts"] <= end["ts"]
        from_, to = around(begin), around(end)
        assert (from_["cat"], to["cat"]) == ("store", "load")
        about = begin["args"]
        shown.add((from_["args"]["command"], to["args"]["command"], about["segment"], about["offset"], about["bytes"]))
    for buffer in found.feature_maps:
        own = {row[:2] for row in shown if row[2:] == (buffer.segment, buffer.offset, buffer.bytes)}
        own = {(writer, reader) for writer, reader in own if buffer.first <= writer < reader < buffer.last}
        assert {writer for writer, _ in own} <= set(buffer.writers)
        assert {reader for _, reader in own} == {r for r in buffer.readers if r > buffer.first}, "each of them"
        if len(buffer.writers) == 1:
            assert len(own) == len(buffer.readers)


def test_users_of_feature_maps_are_those_of_the_plan(found: Profile) -> None:
    for buffer in found.feature_maps:
        users = {*buffer.writers, *buffer.readers}
        assert (buffer.first, buffer.last) == (min(users), max(users) + 1)
        assert buffer.first in buffer.writers
        memory = found.segment(buffer.segment).memory
        # A map that no command reads in full is read in parts: `reads` is rounded up.
        assert bool(buffer.reads) == bool(buffer.readers)
        assert all(found.commands[index].read[memory] > 0 for index in buffer.readers)
        assert all(found.commands[index].written[memory] > 0 for index in buffer.writers)


@pytest.mark.parametrize(
    ("writers", "readers", "pairs"),
    [
        ((0,), (), []),
        ((0,), (1, 4), [(0, 1), (0, 4)]),
        ((0, 1, 2), (5, 6), [(0, 5), (1, 5), (2, 5), (2, 6)]),
        # Stripes: each reader takes what the last writer before it made.
        ((0, 2, 4), (1, 3, 5), [(0, 1), (2, 3), (4, 5)]),
        # In place: the reader's result has the same bytes.
        ((0, 1), (1, 2), [(0, 1), (1, 2)]),
    ],
)
def test_who_hands_a_map_to_whom(
    found: Profile, writers: tuple[int, ...], readers: tuple[int, ...], pairs: list[tuple[int, int]]
) -> None:
    buffer: FeatureMap = replace(found.feature_maps[0], writers=writers, readers=readers)
    assert _pairs(buffer) == pairs


def test_arrows_where_nothing_is_stored(digits: Path, tmp_path: Path) -> None:
    """A memory without a port moves in no time: the arrow begins and ends at the computations."""
    found = profile(digits)
    still = tuple(replace(command, loading=(0, 0), storing=(0, 0)) for command in found.commands)
    events = written(replace(found, commands=still), tmp_path)
    (execute,) = {e["tid"] for e in events if e["name"] == "thread_name" and e["args"]["name"] == "execute"}
    ends = [e for e in events if e["ph"] in ("s", "f")]
    assert ends
    assert {e["tid"] for e in ends} == {execute}


def test_copies_have_the_tiles(found: Profile, tmp_path: Path) -> None:
    """Also those that go to another process, where the core's timeline does not."""
    assert found.timeline is not None
    expected = written(found, tmp_path)
    # One that nobody asked for tiles yet.
    fresh = replace(found)
    assert "tile_times" not in vars(fresh)
    for twin in (pickle.loads(pickle.dumps(fresh)), copy.deepcopy(replace(found)), fresh):
        assert twin == found
        assert twin.tile_times == found.tile_times
        assert written(twin, tmp_path) == expected


def test_a_line_for_each_event(digits: Path, tmp_path: Path, edited: Callable[..., Path]) -> None:
    """So that tools of lines can look at a trace, whatever is in names."""
    hostile = edited(lambda model: model["operators"][0].update(name='a"\nb</script>\u2028'))
    events = written(profile(hostile), tmp_path)
    lines = (tmp_path / "trace.json").read_text().split("\n")
    assert len(lines) == len(events) + 3
    assert any(e["name"] == 'a"\nb</script>\u2028' for e in events)
    assert len(written(profile(digits), tmp_path)) == len(events)
