"""`triune device`, and device files as targets: what they say, what they refuse, what packages carry."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import triune
from triune import _native
from triune.axelera.runtime import Context, IncompatibleDevice
from triune.cli import main
from triune.errors import ArgumentError, FileError
from triune.models import DIGITS_INT8
from triune.profiling import Workload, compose, explore, profile


@pytest.fixture
def device(tmp_path: Path) -> Path:
    """Return a device file."""
    path = tmp_path / "small.toml"
    path.write_text(_native.device_begin("small"))
    return path


@pytest.fixture
def package(device: Path, tmp_path: Path) -> Path:
    """Return a package for the device, whose file is gone."""
    package = triune.compile(DIGITS_INT8, target=device, output=tmp_path / "digits")
    device.rename(tmp_path / "gone.toml")
    return Path(package)


def changed(device: Path, *pairs: tuple[str, str]) -> Path:
    """Return another file with some words exchanged."""
    text = device.read_text()
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new, 1)
    path = device.with_name(f"changed-{abs(hash(pairs))}.toml")
    path.write_text(text)
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Return the exit code, and what went to either stream."""
    code = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_new_check_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(capsys, "device", "new", "mine") == (0, "mine.toml\n", "")
    code, _, err = run(capsys, "device", "new", "mine")
    assert code == 1
    assert "mine.toml" in err
    assert "-o" in err
    assert run(capsys, "device", "new", "card", "--like", "metis", "-o", "cards.toml")[0] == 0
    assert "ISSCC24" in Path("cards.toml").read_text(), "figures keep their sources"
    assert run(capsys, "device", "new", "grid", "--like", "scalesim-ws-8x16")[0] == 0
    for name in ("metis", "../up", "", "a b"):
        assert run(capsys, "device", "new", name)[0] == 1
        assert not Path(f"{name}.toml").exists()
    assert "abacus" in run(capsys, "device", "new", "x", "--like", "abacus")[2]
    for file in ("mine.toml", "cards.toml", "grid.toml"):
        code, out, err = run(capsys, "device", "check", file)
        assert (code, err) == (0, "")
        assert "is in order" in out
    code, out, _ = run(capsys, "device", "show", "mine.toml")
    assert code == 0
    assert "memory[1].bytes" in out
    assert "262_144" in out
    assert "16x16 ws array" in out
    told = json.loads(run(capsys, "device", "show", "mine.toml", "--json")[1])
    assert told["device"] == tomllib.loads(_native.device_of("mine.toml")[1])
    assert told["derived"]["peak_macs_per_cycle"] == 256
    assert told["derived"]["peak_tops"] == pytest.approx(2 * 256 * 500e6 / 1e12)
    rows = {row["key"]: row for row in told["keys"]}
    assert rows["array.rows"]["value"] == 16
    assert rows["launch.program_ns"]["unit"] == "ns"
    text = run(capsys, "device", "show", "mine.toml", "--toml")[1]
    assert tomllib.loads(text) == told["device"]
    assert "comes with Triune" in run(capsys, "device", "show", "metis", "--json")[1]


def test_peaks_are_the_cores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What `show` derives is what timelines use."""
    for name in ("metis", "buyi", "buyi-2x3", "zg330", "scalesim-os-8x16"):
        told = json.loads(run(capsys, "device", "show", name, "--json")[1])
        timeline = _native.Estimate.compile(DIGITS_INT8, target=name).timeline([])
        assert told["derived"]["peak_macs_per_cycle"] == timeline.peak_macs_per_cycle
        hertz = timeline.clock_mhz * 1e6
        for mine, theirs in zip(told["derived"]["memories"], timeline.memories(), strict=True):
            assert mine["usable_bytes"] == theirs["bytes"]
            assert mine["bytes_per_second"] == pytest.approx(theirs["bytes_per_cycle"] * hertz)


def test_check_names_everything(device: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = changed(device, ("columns = 16 ", "colums = 16 "), ("cores = 1 ", "cores = 0 "), ("[32, 1]", "32"))
    code, out, err = run(capsys, "device", "check", wrong)
    assert (code, out) == (1, "")
    assert f"{wrong}:13: array.colums: there is no such key in [array]; did you mean columns?" in err
    assert "cores: expected a whole number from 1 to 64, got 0" in err
    assert "write [32, 1]" in err
    assert err.rstrip().endswith("4 problems")
    told = json.loads(run(capsys, "device", "check", wrong, "--json")[1])
    assert not told["ok"]
    assert [each["line"] for each in told["problems"]][:2] == [6, 11]


def test_conformance(device: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "device", "check", device, "--conformance")
    assert (code, err) == (0, "")
    assert "ok     depthwise convolution" in out
    assert "failed" not in out
    tight = changed(device, ("bytes = 1_073_741_824", "bytes = 2_048"))
    code, out, err = run(capsys, "device", "check", tight, "--conformance")
    assert code == 1
    assert "failed" in out
    assert "programs failed" in err
    told = json.loads(run(capsys, "device", "check", tight, "--conformance", "--json")[1])
    assert not told["ok"]
    assert any(each["failed"] for each in told["conformance"])


@pytest.mark.parametrize("text", ["", "x", "[[card]]", "\0", "name = 1", "memory = 3", "[memory]", "a" * (1 << 17)])
def test_what_is_no_description(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(text)
    for arguments in (
        ("device", "check", path),
        ("device", "show", path),
        ("compile", DIGITS_INT8, "--target", path, "-o", tmp_path / "out"),
        ("explore", DIGITS_INT8, "--target", path, "--sweep", "array=8x8"),
    ):
        code, out, err = run(capsys, *arguments)
        assert (code, out) == (1, ""), arguments
        assert "wrong.toml" in err
        assert len(err) < 6000
    assert not (tmp_path / "out").exists()


def test_files_that_are_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, pipe, large = tmp_path / "folder.toml", tmp_path / "pipe.toml", tmp_path / "large.toml"
    folder.mkdir()
    os.mkfifo(pipe)
    large.write_bytes(b"#" * 10_000_000)
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b'name = "\xff"')
    for path, said in (
        (folder, "folder"),
        (pipe, "a pipe"),
        (large, "10000000 bytes"),
        (binary, "UTF-8"),
        (tmp_path / "none.toml", "No such file"),
    ):
        with pytest.raises(FileError, match=said):
            triune.compile(DIGITS_INT8, target=path, output=tmp_path / "out")
        assert run(capsys, "device", "check", path)[0] == 1
    for target in (b"x.toml", 3, None):
        with pytest.raises(ArgumentError, match="target: expected"):
            triune.compile(DIGITS_INT8, target=target, output=tmp_path / "out")  # type: ignore[arg-type]


def test_a_name_is_no_file(device: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    device.rename("mine")
    with pytest.raises(ArgumentError, match=r"say \./mine"):
        triune.compile(DIGITS_INT8, target="mine", output="out")
    with pytest.raises(ArgumentError, match=r"such as \./abacus\.toml"):
        triune.compile(DIGITS_INT8, target="abacus", output="out")
    for number, target in enumerate(("./mine", Path("mine"))):
        report = triune.compile(DIGITS_INT8, target=target, output=f"out{number}").report
        assert report is not None
        assert report.target == "small"


def test_a_taken_name_is_refused(device: Path, tmp_path: Path) -> None:
    for name in ("metis", "metis-pcie", "buyi-2x3", "scalesim-os-8x8", "host"):
        with pytest.raises(ArgumentError, match="a name of its own"):
            triune.compile(DIGITS_INT8, target=changed(device, ('"small"', f'"{name}"')), output=tmp_path / "out")
    same = tmp_path / "same.toml"
    same.write_text(_native.device_of("metis")[1])
    package = _native.Package(triune.compile(DIGITS_INT8, target=same, output=tmp_path / "same") / "model.json")
    assert package.device is None
    assert package.target == "metis"


def test_icraft_and_boards_say_no(device: Path, tmp_path: Path) -> None:
    like = tmp_path / "buyi-mine.toml"
    like.write_text(_native.device_begin("buyi-mine", "buyi"))
    for path in (device, like):
        with pytest.raises(ArgumentError, match="leave format out"):
            triune.compile(DIGITS_INT8, target=path, output=tmp_path / "out", format="icraft")
        with pytest.raises(_native.Error, match="triune run"):
            _native.BoardServer(str(path), "127.0.0.1:0")
    with pytest.raises(ArgumentError, match="buyi and zg330"):
        _native.compile_documents(DIGITS_INT8, target=like, output=tmp_path / "out", name="x")


def outputs(package: Path, out: Path, *options: str) -> dict[str, Any]:
    """Return what the command line's `run` makes of fixed pictures."""
    pictures = out.with_name("pictures.npy")
    rng = np.random.default_rng(1)
    np.save(pictures, rng.random((3, 1, 8, 8), np.float32))
    assert main(["run", str(package), "--input", str(pictures), "--output", str(out), *options]) == 0
    with np.load(out) as found:
        return {name: found[name] for name in found.files}


def test_a_package_carries_its_device(package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = profile(package)
    assert found.device == "small"
    assert found.cycles > 0
    mine = outputs(package, tmp_path / "mine.npz")
    metis = outputs(triune.compile(DIGITS_INT8, target="metis", output=tmp_path / "metis"), tmp_path / "metis.npz")
    assert mine.keys() == metis.keys()
    assert all(np.array_equal(mine[name], metis[name]) for name in mine), "the same bits"
    assert "small" in run(capsys, "inspect", package)[1]
    assert "carried by" in run(capsys, "device", "show", package, "--json")[1]
    designs = explore(package, {"pad": ["4K", "256K"]})
    assert designs.device == "small"
    assert designs.designs[1].cycles == found.cycles
    assert compose([Workload(package)], seconds=0.01).instances


def test_explore_takes_files(device: Path, package: Path, tmp_path: Path) -> None:
    gone = tmp_path / "gone.toml"
    designs = explore(DIGITS_INT8, {"array": ["8x8", "16x16"]}, device=gone)
    assert designs.designs[1].cycles == profile(package).cycles
    assert explore(package, {"array": ["8x8"]}, device=gone).device == "small"
    other = changed(gone, ("command_cycles = 100", "command_cycles = 200"))
    with pytest.raises(ValueError, match="compiled for small"):
        explore(package, {"array": ["8x8"]}, device=other)


def test_two_devices_of_one_name(package: Path, tmp_path: Path) -> None:
    slow = changed(tmp_path / "gone.toml", ("command_cycles = 100", "command_cycles = 5_000"))
    other = triune.compile(DIGITS_INT8, target=slow, output=tmp_path / "other")
    assert profile(other).cycles > profile(package).cycles, "each as it was compiled"
    with pytest.raises(RuntimeError, match="another device of the name"):
        compose([Workload(package), Workload(other)], seconds=0.01)
    # Both run, each on a card of its own device.
    first, second = outputs(package, tmp_path / "a.npz"), outputs(other, tmp_path / "b.npz")
    assert all(np.array_equal(first[name], second[name]) for name in first)


def test_cards(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = tmp_path / "gone.toml"
    with Context() as context:
        model = context.load_model(package / "model.json")
        with pytest.raises(IncompatibleDevice, match=r"TRIUNE_CARDS=FILE\.toml"):
            context.device_connect().load_model_instance(model)
    monkeypatch.setenv("TRIUNE_CARDS", str(gone))
    (card,) = _native.cards()
    assert (card.device, card.sub_devices, card.clock_mhz(0)) == ("small", 1, 500)
    with Context() as context:
        model = context.load_model(package / "model.json")
        instance = context.device_connect().load_model_instance(model, device_profiling=True)
        assert instance.profile().cycles == profile(package).cycles
    assert "small-0:1:0" in run(capsys, "devices")[1]
    cards = tmp_path / "cards.toml"
    cards.write_text('[[card]]\n[[card]]\ndevice = "./gone.toml"\nboard = "m2"\n')
    monkeypatch.setenv("TRIUNE_CARDS", str(cards))
    assert [(card.device, card.board_type) for card in _native.cards()] == [("metis", "pcie"), ("small", "m2")]
    outputs(package, tmp_path / "out.npz", "--device", "1")
    # Another description of the same name: the package's is not taken for it.
    cards.write_text(f'[[card]]\ndevice = "{changed(gone, ("rows = 16", "rows = 8"))}"\n')
    with Context() as context:
        model = context.load_model(package / "model.json")
        with pytest.raises(Exception, match="another device of the name"):
            context.device_connect().load_model_instance(model)
    for text, said in (
        ('[[card]]\ndevice = "./none.toml"\n', "none.toml"),
        ('[[card]]\ndevice = "abacus"\n', "path of a device file"),
        ('[[card]]\ndevice = "./gone.toml"\nsub_devices = 2\n', "1 to 1"),
        (gone.read_text().replace("cores = 1 ", "cores = 0 "), "cores: expected"),
    ):
        cards.write_text(text)
        with pytest.raises((_native.SettingError, FileError), match=said):
            _native.cards()


def test_packages_are_not_trusted(package: Path) -> None:
    file = package / "model.json"
    told = json.loads(file.read_text())
    good = told["device"]
    for text, said in (
        (good.replace("cores = 1", "cores = 65"), "cores"),
        (good.replace('name = "small"', 'name = "large"'), "description of 'large'"),
        (good.replace('name = "small"', 'name = "metis"'), "name of its own"),
        (good + "#" * (1 << 17), "at most 65536"),
        ("x = " + "[" * 50_000, "not valid"),
        (good.replace("bytes = 1073741824", f"bytes = {1 << 41}"), "memory"),
        ("", "missing"),
        (3, "expected a string"),
        (None, "unknown target 'small'"),
    ):
        file.write_text(json.dumps(told | {"device": text}))
        with pytest.raises(ArgumentError, match=said) as raised:
            _native.Package(file)
        assert "compile the model again" in str(raised.value)


@pytest.mark.parametrize(
    "pairs",
    [
        (("clock_mhz = 500 ", "clock_mhz = 100_000 "), ("[100, 500]", "[1, 100_000]")),
        (("bytes_per_second = 3_200_000_000", "bytes_per_second = 1"),),
        (("bytes_per_second = 3_200_000_000", "bytes_per_second = 1_000_000_000_000_000"),),
        (
            ("latency_cycles = 50 ", "latency_cycles = 4_294_967_295 "),
            ("latency_cycles = 2 ", "latency_cycles = 4_294_967_295 "),
        ),
        (
            ("command_cycles = 100 ", "command_cycles = 4_294_967_295 "),
            ("program_ns = 10_000 ", "program_ns = 1_000_000_000 "),
        ),
        (("[32, 1]", "[1, 4_294_967_295]"),),
        (("rows = 16 ", "rows = 65_536 "), ("columns = 16 ", "columns = 65_536 ")),
        (
            ("rows = 16 ", "rows = 1 "),
            ("columns = 16 ", "columns = 1 "),
            ("elements_per_cycle = 16 ", "elements_per_cycle = 1 "),
        ),
        (("bytes = 262_144 ", "bytes = 1 "),),
        (("bytes = 1_073_741_824 ", "bytes = 1_099_511_627_776 "),),
        (("alignment = 64 ", "alignment = 1_048_576 "),),
        (("cores = 1 ", "cores = 64 "),),
    ],
)
def test_extremes_are_computed(pairs: tuple[tuple[str, str], ...], device: Path, tmp_path: Path) -> None:
    """The largest and smallest numbers that a file can have end in a time, or in an error that says why not."""
    extreme = changed(device, *pairs)
    found = profile(triune.compile(DIGITS_INT8, target=extreme, output=tmp_path / "extreme"))
    assert found.cycles > 0
    assert found.table()
    assert outputs(tmp_path / "extreme", tmp_path / "out.npz")
    checks = _native.device_conformance(extreme)
    assert [failed for _, failed in checks if failed] == []


def _cycles(package: str) -> int:
    return profile(package).cycles


def test_workers_and_pickles(package: Path, device: Path, tmp_path: Path) -> None:
    found = profile(package)
    assert pickle.loads(pickle.dumps(found)) == found
    designs = explore(package, {"pad": ["4K", "256K"]})
    assert pickle.loads(pickle.dumps(designs)) == designs
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(_cycles, [str(package)]) == [found.cycles]


def test_time_is_not_modelled(device: Path, tmp_path: Path) -> None:
    text = device.read_text().replace("cores = 1 ", 'timing = "none"\ncores = 1 ')
    lines = [line for line in text.splitlines() if not line.startswith("clock")]
    device.write_text("\n".join(lines))
    package = triune.compile(DIGITS_INT8, target=device, output=tmp_path / "untimed")
    assert outputs(package, tmp_path / "out.npz")
    with pytest.raises(ValueError, match="not modelled"):
        profile(package)
    assert [failed for _, failed in _native.device_conformance(device) if failed] == []
