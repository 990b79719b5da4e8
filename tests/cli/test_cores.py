"""`triune profile --cores`: what images cost on several cores adds up, is the same in table and files, and never grows."""

from __future__ import annotations

import csv
import json
from itertools import pairwise
from pathlib import Path

import pytest

import triune
from triune import _native
from triune.cli import main
from triune.errors import ArgumentError
from triune.models import DIGITS_INT8
from triune.profiling import OnCores, explore, on_cores, profile
from triune.profiling._cores import MODES


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(triune.compile(DIGITS_INT8, target="metis", output=tmp_path_factory.mktemp("cores") / "digits"))


@pytest.fixture(scope="module")
def found(package: Path) -> dict[str, OnCores]:
    return {mode: on_cores(package, 4, mode=mode) for mode in MODES}


def test_one_core_is_the_profile(package: Path) -> None:
    one = profile(package)
    for mode in MODES:
        alone = on_cores(package, 1, mode=mode)
        assert (alone.latency, alone.interval, alone.alone, alone.abreast) == (one.cycles,) * 4
        ends = [task.end for task in alone.tasks if task.what == "command"]
        assert ends == [command.end for command in one.commands]
        assert (alone.exchanges, alone.core_busy, alone.balance) == ((), (1.0,), 1)


def test_times_add_up(found: dict[str, OnCores]) -> None:
    pipeline, split = found["pipelined"], found["split"]
    busy = [round(share * pipeline.interval) for share in pipeline.core_busy]
    assert (max(busy), sum(busy)) == (pipeline.interval, pipeline.latency)
    assert [task.command for task in pipeline.tasks if task.what == "command"] == list(range(len(pipeline.alone_each)))
    assert pipeline.balance == pytest.approx(sum(busy) / 4 / max(busy))
    assert split.interval == split.latency < split.alone
    for command in range(len(split.alone_each)):
        parts = [task for task in split.tasks if task.what == "command" and task.command == command]
        assert [task.part for task in parts] == [task.core for task in parts] == list(range(parts[0].parts))
        assert max(task.end - task.start for task in parts) <= split.alone_each[command]
        assert len({task.start for task in parts}) == 1
    assert {each.command for each in split.exchanges} == {t.command for t in split.tasks if t.parts > 1}


def test_energy_adds_up(package: Path, found: dict[str, OnCores]) -> None:
    one = profile(package).energy
    assert one
    for mode in MODES:
        alone = on_cores(package, 1, mode=mode)
        assert alone.energy == alone.alone_energy == alone.abreast_energy == one
        shared = found[mode]
        assert shared.energy
        assert shared.alone_energy == one
        # What cores compute is the same; what they move is not less.
        assert (shared.energy.macs, shared.energy.idle) == (one.macs, 0)
        assert all(shared.energy.memories[name] >= spent for name, spent in one.memories.items() if name != "l1")
        tasks = [task.energy for task in shared.tasks if task.energy]
        assert len(tasks) == len(shared.tasks)
        assert sum(task.total for task in tasks) == shared.energy.total
        assert all(task.energy and not task.energy.total for task in shared.tasks if task.what == "launch")
        assert str(shared.energy) in shared.table()


def device_of(tmp_path: Path, *changes: tuple[str, str]) -> Path:
    """A device file that differs from Metis in some lines."""
    text = _native.device_begin("mine", "metis")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    file = tmp_path / "mine.toml"
    file.write_text(text)
    return file


def test_cores_draw_for_as_long_as_they_work(tmp_path: Path) -> None:
    device = device_of(tmp_path, ("static_mw = 0", "static_mw = 100"))
    package = Path(triune.compile(DIGITS_INT8, target=device, output=tmp_path / "digits"))
    for mode in MODES:
        shared = on_cores(package, 4, mode=mode)
        assert shared.energy
        assert shared.alone_energy
        assert shared.abreast_energy
        # 100 mW are 10⁵ fJ a nanosecond, of each core at work.
        for energy, cycles in (
            (shared.energy, shared.interval * shared.cores),
            (shared.alone_energy, shared.alone),
            (shared.abreast_energy, shared.abreast),
        ):
            assert energy.idle == cycles * 10**8 // shared.clock_mhz


def test_the_link_holds_back_what_it_cannot_carry(tmp_path: Path, found: dict[str, OnCores]) -> None:
    for shared in found.values():
        assert shared.link
        assert shared.images_per_second == pytest.approx(shared.clock_mhz * 1e6 / shared.interval)
        moving = max(shared.link.input, shared.link.output)
        assert shared.link_busy == pytest.approx(moving * shared.images_per_second * 1e-9)
        assert shared.link_busy < 1
        call = shared.link.call + shared.link.input + shared.link.output
        assert shared.call_microseconds == pytest.approx(shared.microseconds + call / 1000)
    device = device_of(tmp_path, ("bytes_per_second = 2_570_000_000", "bytes_per_second = 1_000_000"))
    package = Path(triune.compile(DIGITS_INT8, target=device, output=tmp_path / "digits"))
    for mode in MODES:
        slow = on_cores(package, 4, mode=mode)
        assert slow.link
        assert slow.link.input > found[mode].link.input  # type: ignore[union-attr]
        assert slow.interval == found[mode].interval
        assert slow.images_per_second == pytest.approx(1e9 / slow.link.input)
        assert slow.link_busy == pytest.approx(1)
        assert "busy beside the cores, which it holds back" in slow.table()


def test_more_cores_are_never_slower(package: Path) -> None:
    for mode in MODES:
        intervals = [on_cores(package, cores, mode=mode).interval for cores in (1, 2, 3, 4)]
        assert intervals == sorted(intervals, reverse=True)
        assert intervals[-1] < intervals[0]


def test_a_batch_is_asked_image_by_image(package: Path, tmp_path: Path, found: dict[str, OnCores]) -> None:
    batch = triune.compile(DIGITS_INT8, target="metis", batch=3, output=tmp_path / "digits")
    for mode in MODES:
        of_batch = on_cores(batch, 4, mode=mode)
        assert of_batch.tasks == found[mode].tasks
        assert (of_batch.alone, of_batch.abreast) == (found[mode].alone, found[mode].abreast)


def test_files_and_table(package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {name: tmp_path / f"found.{name}" for name in ("csv", "json", "trace")}
    for mode in MODES:
        options = [text for name, path in files.items() for text in (f"--{name}", str(path))]
        assert main(["profile", str(package), "--cores", "4", "--mode", mode, *options]) == 0
        table = capsys.readouterr().out
        expected = on_cores(package, 4, mode=mode)
        assert table == expected.table() + "\n"
        assert f"{expected.images_per_second:,.1f} images/s on 4 cores of metis" in table
        with files["csv"].open(newline="") as opened:
            rows = list(csv.DictReader(opened))
        assert [(int(row["core"]), int(row["end"])) for row in rows] == [(t.core, t.end) for t in expected.tasks]
        assert sum(int(row["ddr_read"]) for row in rows) == sum(task.read["ddr"] for task in expected.tasks)
        assert expected.energy
        assert sum(int(row["energy_fj"]) for row in rows) == expected.energy.total - expected.energy.idle
        content = json.loads(files["json"].read_text())
        assert (content["schema"], content["interval"]) == ("triune-cores", expected.interval)
        assert (content["energy"]["macs"], content["link"]["input"]) == (
            expected.energy.macs,
            expected.link and expected.link.input,
        )
        assert len(content["tasks"]) == len(expected.tasks)
        events = json.loads(files["trace"].read_text())["traceEvents"]
        slices = [event for event in events if event["ph"] == "X"]
        images = {event["args"]["image"] for event in slices}
        assert len(slices) == len(images) * len([task for task in expected.tasks if task.end > task.start])
        # Images follow each other, and no core does two things at once.
        for core in range(4):
            spans = sorted(
                (event["args"]["start_cycle"], event["args"]["end_cycle"])
                for event in slices
                if event["tid"] == core + 1
            )
            assert all(end <= start for (_, end), (start, _) in pairwise(spans))


def test_both_ways_without_a_mode(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", str(package), "--cores", "2"]) == 0
    assert capsys.readouterr().out == "\n\n".join(on_cores(package, 2, mode=mode).table() for mode in MODES) + "\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--cores", "5"], "cores: expected 1 to the 4 of 'metis', got 5"),
        (["--cores", "2", "--csv", "-"], "add --mode pipelined or --mode split"),
        (["--cores", "2", "--instances", "2"], "--cores and --mode are for a single package"),
        (["--mode", "split", "--unit", "ms"], "--cores and --mode are for a single package"),
    ],
)
def test_refusals(package: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str) -> None:
    assert main(["profile", str(package), *options]) == 1
    assert message in capsys.readouterr().err


def test_wrong_arguments(package: Path) -> None:
    with pytest.raises(ArgumentError, match="mode: expected pipelined or split, got 'both'"):
        on_cores(package, mode="both")
    with pytest.raises(ArgumentError, match="cores: expected 1 or more, got 0"):
        on_cores(package, 0)
    with pytest.raises(ArgumentError, match="a network document"):
        on_cores("net_BY.json")


def test_explore_over_cores() -> None:
    """Designs of one number of cores are what `on_cores` says; costs are of all cores."""
    sweep = {"cores": [1, 2, 4]}
    plain = explore(DIGITS_INT8, sweep, device="metis").designs
    for mode in ("side-by-side", *MODES):
        designs = explore(DIGITS_INT8, sweep, device="metis", mode=mode).designs
        assert [design.cores for design in designs] == [1, 2, 4]
        assert [design.peak_macs_per_cycle for design in designs] == [
            design.peak_macs_per_cycle * cores for design, cores in zip(plain, (1, 2, 4), strict=True)
        ]
        # L2 is there once, L1 for each core.
        first, second, _ = (design.on_chip_bytes for design in designs)
        assert second - first == (4_194_304 - 524_288)
        assert designs[0].images_per_second == pytest.approx(plain[0].images_per_second)
        assert designs[2].images_per_second > designs[0].images_per_second
        # An image on one core costs what it does; cores that share one move more.
        assert designs[0].joules == pytest.approx(plain[0].joules)
        assert all(design.joules and design.joules >= plain[0].joules * 0.999 for design in designs)  # type: ignore[operator]
    front = explore(DIGITS_INT8, sweep, device="metis", mode="split", costs=["energy"]).front
    assert front
    with pytest.raises(ArgumentError, match="mode: expected side-by-side or pipelined or split"):
        explore(DIGITS_INT8, sweep, device="metis", mode="all")
