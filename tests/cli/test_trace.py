"""`triune profile --trace`: slices of commands, arrows from who writes a feature map to who reads it, counters."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from triune.profiling import Profile


def test_trace(found: Profile, tmp_path: Path) -> None:
    found.write_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
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
        spans = [(e["args"]["start_cycle"], e["args"]["end_cycle"]) for e in slices if e["tid"] == track]
        assert all(end <= start for (_, end), (start, _) in pairwise(sorted(spans)))
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
