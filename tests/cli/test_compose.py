"""`triune profile A B`: several programs on one device, and what really ran on the virtual cards."""

from __future__ import annotations

import csv
import json
import threading
import time
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import triune
from triune.axelera.runtime import Context, InvalidConfiguration
from triune.cli import main
from triune.models import DIGITS_INT8
from triune.profiling import Composition, Workload, activity, compose, profile


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the digits network for single images."""
    return triune.compile(DIGITS_INT8, target="metis", output=tmp_path_factory.mktemp("compose") / "single")


@pytest.fixture(scope="module")
def both(single: Path, digits: Path) -> Composition:
    """Return two single-image instances and two of a batch of 2 on four cores: more than there are."""
    return compose([Workload(single, 2), Workload(digits, 2)], seconds=0.05)


def test_one_instance_takes_its_timeline(single: Path) -> None:
    found = compose([Workload(single)])
    alone = profile(single)
    assert {run.compute[1] - run.compute[0] for run in found.runs} == {-(-alone.cycles * 1000 // alone.clock_mhz)}
    assert found.instances[0].min == found.instances[0].max
    assert found.instances[0].images_per_second == pytest.approx(1e6 / found.instances[0].p50)
    assert found.core_busy[1:] == (0, 0, 0)


def test_instances_scale_and_share(single: Path) -> None:
    rates = [compose([Workload(single, count)]).images_per_second for count in (1, 2, 4, 8)]
    assert rates[0] < rates[1] < rates[2] * 1.001
    for count, rate in zip((1, 2, 4, 8), rates, strict=True):
        assert rate <= min(count, 4) * rates[0] * 8 / min(count, 4)
    four, eight = compose([Workload(single, 4)]), compose([Workload(single, 8)])
    assert [instance.cores for instance in eight.instances] == [(core % 4,) for core in range(8)]
    assert sum(eight.core_busy) >= sum(four.core_busy)
    assert compose([Workload(single, depth=3)]).images_per_second > rates[0]


def test_calls_at_a_rate(single: Path) -> None:
    found = compose([Workload(single, rate=1000)], seconds=0.1)
    assert found.instances[0].images_per_second == pytest.approx(1000, rel=0.01)
    queued = [run.queued for run in found.runs]
    assert all(after - before == 1_000_000 for before, after in pairwise(queued))
    # More than the device can do: it does what it can, and calls wait ever longer.
    late = compose([Workload(single, rate=100_000)], seconds=0.02)
    assert late.instances[0].max > 10 * late.instances[0].min
    assert late.core_busy[0] > 0.5


def test_what_is_shared_is_used_by_one_at_a_time(both: Composition) -> None:
    for core in range(4):
        spans = sorted(run.compute for run in both.runs if core in both.instances[run.instance].cores)
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))
        done = sum(end - start for start, end in spans)
        # A share is a float: half a nanosecond for its rounding.
        assert -0.5 <= both.core_busy[core] * both.nanoseconds - done <= 1e6
    for side in ("input", "output"):
        spans = sorted(getattr(run, side) for run in both.runs)
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    assert [instance.cores for instance in both.instances] == [(0,), (1,), (2, 3), (0, 1)]
    assert [instance.name for instance in both.instances] == ["single 1", "single 2", "digits 1", "digits 2"]


def test_table_and_files(
    both: Composition, single: Path, digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = {kind: tmp_path / f"out.{kind}" for kind in ("csv", "json", "trace")}
    options = [text for kind, path in paths.items() for text in (f"--{kind}", str(path))]
    arguments = ["profile", str(single), str(digits), "--instances", "2,2", "--time", "50", *options]
    assert main(arguments) == 0
    table = capsys.readouterr().out
    assert table == both.table() + "\n"
    assert max(map(len, table.splitlines())) <= 100
    with paths["csv"].open(newline="") as file:
        rows = list(csv.DictReader(file))
    told = json.loads(paths["json"].read_text())
    for row, entry, instance in zip(rows, told["instances"], both.instances, strict=True):
        assert row["name"] == entry["name"] == instance.name
        assert float(row["p99"]) == entry["p99"] == instance.p99
        assert row["cores"].split() == list(map(str, instance.cores))
    assert told["core_busy"] == list(both.core_busy)
    events = json.loads(paths["trace"].read_text())["traceEvents"]
    tracks = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert list(tracks.values()) == ["core 0", "core 1", "core 2", "core 3", "link in", "link out"]
    slices = [e for e in events if e["ph"] == "X"]
    images = sum(2 * len(both.instances[run.instance].cores) for run in both.runs)
    links = 2 * len(both.runs)
    assert len(slices) == images / 2 + links
    for track in tracks:
        spans = sorted((e["args"]["start_ns"], e["args"]["end_ns"]) for e in slices if e["tid"] == track)
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))
        assert all(e["ts"] * 1000 == pytest.approx(e["args"]["start_ns"]) for e in slices if e["tid"] == track)


def counters(composition: Composition, folder: Path) -> dict[str, list[tuple[float, float]]]:
    """Return the steps of each counter in a composition's trace: times in nanoseconds, and values."""
    composition.write_trace(folder / "trace.json")
    found: dict[str, list[tuple[float, float]]] = {}
    for event in json.loads((folder / "trace.json").read_text())["traceEvents"]:
        if event["ph"] == "C":
            ((_, value),) = event["args"].items()
            found.setdefault(event["name"], []).append((event["ts"] * 1000, value))
    return found


@pytest.mark.parametrize("depth", [1, 3])
def test_counters_say_what_the_runs_do(single: Path, digits: Path, tmp_path: Path, depth: int) -> None:
    """Equal to the definition at every step; sums over time are those of all runs."""
    found = compose([Workload(single, 3, depth=depth), Workload(digits, 2, rate=900)], seconds=0.02)
    steps = counters(found, tmp_path)
    assert list(steps) == [
        "cores at work",
        "runs waiting",
        "link in GB/s",
        "link out GB/s",
        "images done: single",
        "images done: digits",
    ]
    for name, own in steps.items():
        times = [time for time, _ in own]
        assert times[0] == 0, name
        assert all(before < after for before, after in pairwise(times)), name
        assert all(before[1] != after[1] for before, after in pairwise(own)) or name.startswith("link"), name

    def at(span: tuple[int, int], time: float) -> bool:
        return span[0] <= round(time) < span[1]

    for moment, value in steps["cores at work"]:
        assert value == sum(len(found.instances[run.instance].cores) for run in found.runs if at(run.compute, moment))
        assert 0 <= value <= len(found.core_busy)
    for moment, value in steps["runs waiting"]:
        under_way = [run for run in found.runs if at((run.queued, run.output[1]), moment)]
        assert value == sum(not any(at(s, moment) for s in (run.input, run.compute, run.output)) for run in under_way)
    for name in ("cores at work", "runs waiting", "link in GB/s", "link out GB/s"):
        assert max(value for _, value in steps[name]) > 0
        assert steps[name][-1][1] == 0, "all that is told of has ended"
    for name in ("single", "digits"):
        ended = [run for run in found.runs if found.instances[run.instance].program == name]
        images = sum(found.instances[run.instance].images for run in ended)
        assert steps[f"images done: {name}"][-1] == (pytest.approx(max(run.output[1] for run in ended)), images)
        assert steps[f"images done: {name}"][0] == (0, 0)
    for side, name in (("input", "link in GB/s"), ("output", "link out GB/s")):
        moved = sum(value * (after - time) for (time, value), (after, _) in pairwise(steps[name]))
        whole = sum(getattr(found.instances[run.instance], f"{side}_bytes") for run in found.runs)
        assert moved == pytest.approx(whole, rel=1e-5)


def test_bytes_on_the_link_pass_at_its_rate(single: Path, digits: Path, tmp_path: Path, root: Path) -> None:
    link = tomllib.loads((root / "crates/triune-device/specs/metis.toml").read_text())["link"]
    found = compose([Workload(single), Workload(digits)], seconds=0.01)
    for run in found.runs:
        instance = found.instances[run.instance]
        for (start, end), size in ((run.input, instance.input_bytes), (run.output, instance.output_bytes)):
            assert size is not None
            assert end - start == -(-size * 10**9 // link["bytes_per_second"])
    assert found.instances[1].input_bytes == 2 * (found.instances[0].input_bytes or 0), "a batch of 2"
    rates = {value for _, value in counters(found, tmp_path)["link in GB/s"]}
    assert max(rates) == pytest.approx(link["bytes_per_second"] / 1e9, rel=0.01)


def test_programs_of_one_name_count_together(single: Path, tmp_path: Path) -> None:
    found = compose([Workload(single), Workload(single, 2)], seconds=0.01)
    steps = counters(found, tmp_path)
    done = [name for name in steps if name.startswith("images done")]
    assert done == ["images done: single"]
    assert steps[done[0]][-1][1] == len(found.runs)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{single}", "{single}", "--instances", "1,2,3"], "expected 1 or 2 values"),
        (["{single}", "--instances", "1,2"], "--instances: expected 1 value, got 2"),
        (["{single}", "--instances", "2000"], "1024"),
        (["{single}", "{single}", "--unit", "us"], "--unit"),
        (["{single}", "{other}"], "is for zg330"),
        (["{single}", "{tmp}"], "model.json"),
        (["{single}", "--instances", "4", "--time", "3600001"], "seconds"),
        (["{single}", "--rate", "1e9"], "shorter time"),
        (["{single}", "--instances", "2", "--clock", "9999"], "9999 MHz"),
    ],
)
def test_errors(
    single: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    other = triune.compile(DIGITS_INT8, target="zg330", output=tmp_path / "other")
    names = {"single": single, "other": other, "tmp": tmp_path}
    assert main(["profile", *(argument.format(**names) for argument in arguments)]) == 1
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert message in captured.err


@pytest.mark.parametrize(
    ("workload", "options", "message"),
    [
        ({}, {"seconds": 0}, "seconds: expected more than 0 and at most 3600, got 0"),
        ({}, {"seconds": "x"}, "seconds: expected a number, got 'x'"),
        ({}, {"clock_mhz": "400"}, "clock_mhz: expected a number, got '400'"),
        ({"instances": 1.5}, {}, "instances: expected an integer, got 1.5"),
        ({"depth": "2"}, {}, "depth: expected an integer, got '2'"),
        ({"rate": "x"}, {}, "rate: expected a number, got 'x'"),
    ],
)
def test_what_is_no_number(single: Path, workload: dict[str, Any], options: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, triune.errors.ArgumentError), match=message):
        compose([Workload(single, **workload)], **options)


@pytest.mark.parametrize("wrong", [["--instances", "0"], ["--rate", "-1"], ["--rate", "nan"], ["--depth", "x"]])
def test_wrong_arguments(single: Path, wrong: list[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        main(["profile", str(single), *wrong])
    assert exited.value.code == 2


def run(package: Path, instances: int, runs: int) -> tuple[float, dict[str, Composition]]:
    """Run instances in threads of their own; return how long that took, and what ran."""
    with Context() as context, context.device_connect(None, instances) as connection:
        model = context.load_model(package / "model.json")
        loaded = [connection.load_model_instance(model) for _ in range(instances)]
        infos = model.inputs(), model.outputs()

        def work(index: int) -> None:
            inputs, outputs = ([np.zeros(info.shape, info.dtype) for info in side] for side in infos)
            for _ in range(runs):
                loaded[index].run(inputs, outputs)

        threads = [threading.Thread(target=work, args=(index,)) for index in range(instances)]
        start = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return time.perf_counter() - start, activity()


def test_what_ran_is_what_was_planned(single: Path, tmp_path: Path) -> None:
    """However slow this machine is: times are the device's."""
    _, found = run(single, 1, 20)
    (card,) = found.values()
    planned = compose([Workload(single)])
    assert [each.runs for each in card.instances] == [20]
    assert card.instances[0].p50 == planned.instances[0].p50
    assert card.instances[0].images_per_second == pytest.approx(planned.instances[0].images_per_second)
    _, found = run(single, 4, 20)
    (card,) = found.values()
    assert [each.runs for each in card.instances] == [20] * 4
    assert {each.cores for each in card.instances} == {(core,) for core in range(4)}
    alone = 20 * planned.instances[0].p50 * 1000
    assert alone <= card.nanoseconds < 3 * alone, "side by side"
    assert {(each.program, each.input_bytes) for each in card.instances} == {
        (each.name, None) for each in card.instances
    }
    steps = counters(card, tmp_path)
    assert not any(name.startswith("link") for name in steps), "the bytes of what ran are not known"
    assert max(value for _, value in steps["cores at work"]) > 1
    assert activity() == {}, "nothing is on the card"


def test_pacing(single: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs last as long as on the board (here one that is 200 times slower), and four instances overlap."""
    seconds = compose([Workload(single)]).instances[0].p50 / 1e6
    monkeypatch.setenv("TRIUNE_REALTIME", "0.005")
    one, found = run(single, 1, 5)
    assert one >= 5 * seconds * 200
    (card,) = found.values()
    assert card.instances[0].min == pytest.approx(seconds * 1e6)
    four, _ = run(single, 4, 5)
    assert four >= 5 * seconds * 200
    # One after the other would take four times as long; this machine may be busy with something else.
    assert four < 3 * one
    monkeypatch.setenv("TRIUNE_REALTIME", "0")
    free, _ = run(single, 1, 5)
    assert free < one


def test_a_wrong_factor_is_named(single: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in ("fast", "-1", "1e9", "nan"):
        monkeypatch.setenv("TRIUNE_REALTIME", wrong)
        with pytest.raises(InvalidConfiguration, match=f"TRIUNE_REALTIME.*{wrong}"):
            run(single, 1, 1)


def test_limits_of_the_array_take_time(single: Path) -> None:
    with Context() as context:
        model = context.load_model(single / "model.json")

        def compute(limit: int) -> tuple[int, int]:
            context.configure_device(0, mvm_utilisation_core_0=limit)
            with context.device_connect(0, 1) as connection:
                found = connection.load_model_instance(model, device_profiling=True).profile()
            return found.cycles, sum(each.compute for each in found.operators)

        try:
            all_cycles, all_compute = compute(100)
            cycles, computed = compute(10)
        finally:
            context.configure_device(0, mvm_utilisation_core_0=100)
        assert computed > 2 * all_compute
        assert cycles > all_cycles
