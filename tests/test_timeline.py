"""`triune._native.Timeline`: totals, nodes, commands, segments and feature maps tell the same story."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import triune
from triune import _native, errors
from triune._native import Package, Timeline
from triune.models import DIGITS_INT8

SUMS = ["compute", "load", "store", "stall", "load_stall", "launch", "ideal", "macs", "bytes_read", "bytes_written"]


@pytest.fixture(scope="module", params=["metis", "zg330"])
def package(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Package:
    """Return the embedded network, compiled for a device."""
    folder = tmp_path_factory.mktemp(request.param) / "digits"
    triune.compile(DIGITS_INT8, target=request.param, output=folder)
    return Package(folder / "model.json")


@pytest.fixture(scope="module")
def timeline(package: Package) -> Timeline:
    return package.timeline()


def _each_sum(row: dict[str, Any]) -> list[int]:
    return [row[name] for name in SUMS] + [*row["sram"], *row["read"], *row["written"]]


def _sums(rows: list[dict[str, Any]]) -> list[int]:
    return [sum(column) for column in zip(*map(_each_sum, rows), strict=True)]


def test_totals_are_the_sums_of_commands(timeline: Timeline) -> None:
    totals, commands = timeline.totals(), timeline.commands()
    assert _each_sum(totals) == _sums(commands)
    assert (totals["start"], totals["end"], totals["cycles"]) == (0, timeline.cycles, timeline.cycles)
    assert totals["utilization"] == pytest.approx(totals["ideal"] / timeline.cycles)
    assert totals["array_utilization"] == pytest.approx(totals["ideal"] / totals["compute"])
    assert totals["macs"] == timeline.macs > 0
    assert timeline.micros == pytest.approx(timeline.cycles / timeline.clock_mhz, abs=1e-3), "in whole nanoseconds"
    assert max(command["end"] for command in commands) == timeline.cycles
    assert 0 < min(command["start"] for command in commands) == timeline.launch_cycles


def test_nodes_are_their_commands(timeline: Timeline) -> None:
    commands = timeline.commands()
    assert [command["index"] for command in commands] == list(range(len(commands)))
    assert sum(node["compute"] for node in timeline.operators()) == timeline.totals()["compute"]
    at = 0
    for node in timeline.operators():
        own = []
        while at < len(commands) and (commands[at]["name"], commands[at]["kind"]) == (node["name"], node["kind"]):
            own.append(commands[at])
            at += 1
        assert _each_sum(node) == _sums(own), node["name"]
        assert (node["start"], node["end"]) == (min(c["start"] for c in own), max(c["end"] for c in own))
        assert node["cycles"] == node["end"] - node["start"]
    assert at == len(commands)


def test_commands_load_compute_and_store_in_order(timeline: Timeline) -> None:
    memories = [memory["name"] for memory in timeline.memories()]
    for command in timeline.commands():
        (loading, _), (computing, computed), (storing, stored) = (
            command[phase] for phase in ("loading", "computing", "storing")
        )
        assert command["start"] <= loading <= computing <= computed <= stored <= command["end"]
        assert storing <= stored
        assert command["bytes_read"] == sum(command["read"]), "of each memory"
        assert command["bytes_written"] == sum(command["written"])
        assert 0 <= command["utilization"] <= command["array_utilization"] <= 1 or command["compute"] == 0
        assert command["bound_by"] in {"compute", "load", "store", "launch"}
        moved = {"load": command["read"], "store": command["written"]}.get(command["bound_by"])
        assert (command["bound_memory"] is None) == (moved is None), "whose port, where a port it is"
        if moved is not None:
            assert moved[memories.index(command["bound_memory"])] > 0


def test_segments_hold_what_the_package_says(package: Package, timeline: Timeline) -> None:
    places: dict[str, list[dict[str, Any]]] = {}
    for segment in timeline.segments():
        places.setdefault(segment["kind"], []).append(segment)
    assert list(places) == ["instructions", "constants", "scratch", "resident", "input", "output"]
    assert len(places["input"]) == len(package.inputs)
    assert len(places["output"]) == len(package.outputs)
    assert places["scratch"][0]["bytes"] == timeline.scratch_bytes >= timeline.scratch_lower_bound
    rooms = {memory["name"]: memory["bytes"] for memory in timeline.memories()}
    for segment in timeline.segments():
        assert segment["base"] + segment["bytes"] <= rooms[segment["memory"]]
    ends = dict.fromkeys(["scratch", "resident"], 0)
    for buffer in timeline.buffers():
        ends[buffer["segment"]] = max(ends[buffer["segment"]], buffer["offset"] + buffer["bytes"])
        assert 0 <= buffer["first"] < buffer["last"] <= len(timeline.commands())
    assert all(end <= places[kind][0]["bytes"] for kind, end in ends.items())
    assert (ends["scratch"] > 0) == (timeline.scratch_bytes > 0)


def test_what_stays_near_is_said_alike(package: Package, timeline: Timeline) -> None:
    residency = timeline.residency()
    assert residency is not None
    assert package.residency() == residency
    assert residency["policy"] == "exact"
    assert residency["gap"] == 0
    assert residency["lower_bound"] <= residency["peak"] <= residency["capacity"]
    near = [buffer for buffer in timeline.buffers() if buffer["segment"] == "resident"]
    assert max((buffer["offset"] + buffer["bytes"] for buffer in near), default=0) == residency["peak"]
    # Metis' L1 keeps bands of cascades alone.
    keeps = timeline.device != "metis"
    assert (residency["value"] > 0) == (len(near) > 0) == keeps
    assert residency["value"] <= residency["bound"]
    none = package.timeline(policy="none").residency()
    assert none is not None
    assert (none["policy"], none["value"], none["peak"]) == ("none", 0, 0)
    assert none["gap"] == pytest.approx(1 if none["bound"] else 0)
    little = package.timeline(on_chip_bytes=100).residency()
    assert little is not None
    assert little["capacity"] == 64, "in whole lines"


def test_clocks_are_those_of_the_device(package: Package, timeline: Timeline) -> None:
    for megahertz in (1, 10**6):
        with pytest.raises(errors.ArgumentError, match="clock"):
            package.timeline(clock_mhz=megahertz)
    again = package.timeline(clock_mhz=timeline.clock_mhz)
    assert again.commands() == timeline.commands()
    assert isinstance(again, _native.Timeline)


def test_the_host_has_none() -> None:
    network = _native.Session(DIGITS_INT8, device="host")
    network.prepare([(1, 1, 8, 8)])
    assert network.timeline() is None


def test_a_package_of_nothing(tmp_path: Path) -> None:
    with pytest.raises(errors.FileError):
        Package(tmp_path / "none")
