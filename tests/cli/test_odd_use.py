"""What clumsy users type, and where they let the output go: every mistake is named in one line."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import triune
from triune.cli import main
from triune.errors import ArgumentError
from triune.models import DIGITS_INT8, digits_held_out
from triune.profiling import profile
from triune.quantization import QuantizationOptions


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of the digits network."""
    return triune.compile(DIGITS_INT8, target="metis", output=tmp_path_factory.mktemp("digits"))


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Return a file with five scans, NCHW."""
    np.save(tmp_path / "images.npy", digits_held_out()[0][:5].transpose(0, 3, 1, 2))
    return tmp_path / "images.npy"


def triune_into(output: str, *arguments: str, **environment: str) -> tuple[int, str]:
    """Run the command line, its output into a file; return the exit code and what is said."""
    with open(output, "w") as file:
        done = subprocess.run(
            [sys.executable, "-m", "triune", *arguments],
            stdout=file,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
            check=False,
        )
    return done.returncode, done.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["compile", "--help"], ["inspect", str(DIGITS_INT8)]])
def test_a_full_standard_output_is_said(arguments: list[str], unbuffered: str) -> None:
    said = "triune: error: cannot write to standard output: No space left on device\n"
    assert triune_into("/dev/full", *arguments, PYTHONUNBUFFERED=unbuffered) == (1, said)


def test_streams_without_all_letters_have_escapes(package: Path, tmp_path: Path) -> None:
    output = tmp_path / "output"
    assert triune_into(str(output), "profile", str(package), PYTHONIOENCODING="ascii") == (0, "")
    told = output.read_bytes().decode("ascii").encode().decode("unicode_escape")
    assert triune_into(str(output), "profile", str(package), PYTHONIOENCODING="utf-8") == (0, "")
    assert output.read_text() == told
    assert "µs" in told


def test_an_archive_goes_into_any_device(images: Path) -> None:
    for device in ("/dev/null", "/dev/full"):
        code, said = triune_into(device, "run", str(DIGITS_INT8), "--input", str(images), "--output", "-")
        assert (code, "standard output" in said) == ((0, False) if device == "/dev/null" else (1, True))


@pytest.mark.parametrize("option", ["--output", "--batch", "--residency", "--on-chip", "--scale", "--part"])
def test_two_dashes_are_no_value_of_nothing(
    option: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["compile", str(DIGITS_INT8), "-o", str(tmp_path / "out"), f"{option}=--"]
    if option == "--output":
        # As a name it is as good as any.
        monkeypatch.chdir(tmp_path)
        assert main(arguments) == 0
        assert (tmp_path / "--" / "model.json").is_file()
        return
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert f"argument {option}: " in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["compile", str(DIGITS_INT8), "-o", ""],
        ["compile", "", "-o", "out"],
        ["run", str(DIGITS_INT8), "--input", "x.npy", "--output", ""],
        ["quantize", str(DIGITS_INT8), "-o", "q.onnx", "--calibrate", ""],
    ],
)
def test_nothing_is_no_path(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "expected a path, got an empty text" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--batch", "--format", "--scale", "--no-such"])
def test_long_arguments_are_shortened(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["compile", str(DIGITS_INT8), "-o", "out", option, "9" * 5000])
    _, _, said = capsys.readouterr().err.partition("error: ")
    assert 20 < len(said) < 2000


def test_a_module_that_was_interrupted_is_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules in C that are loaded when somebody presses Ctrl-C say that they cannot be."""

    def fail(*_: object, **__: object) -> None:
        try:
            try:
                raise KeyboardInterrupt
            except KeyboardInterrupt as interrupt:
                raise ImportError("initialization failed") from interrupt
        except ImportError as error:
            raise ImportError(f"that needs an extra ({error})") from None

    monkeypatch.setattr(triune.Session, "__init__", fail)
    assert main(["bench", str(DIGITS_INT8), "--seconds", "0.01"]) == 130


def test_tables_have_no_more_columns_than_classes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, table = tmp_path / "scans", tmp_path / "table.csv"
    folder.mkdir()
    for index, scan in enumerate(digits_held_out()[0][:3]):
        np.save(folder / f"{index}.npy", scan.transpose(2, 0, 1))
    assert main(["predict", str(DIGITS_INT8), str(folder), "--top", "60000", "-o", str(table)]) == 0
    rows = list(csv.reader(table.read_text().splitlines()))
    assert {len(row) for row in rows} == {1 + 2 * 10}
    assert main(["predict", str(DIGITS_INT8), str(folder), "--top", "99999999", "-o", str(table)]) == 1
    assert "top_k: expected at most 65536, got 99999999" in capsys.readouterr().err


@pytest.mark.parametrize("clock", [0, -1, 1 << 32, 1 << 63, 1 << 70])
def test_clocks_are_clocks(package: Path, clock: int) -> None:
    with pytest.raises(ArgumentError, match="clock_mhz: expected a clock in MHz"):
        profile(package, clock_mhz=clock)


def test_what_only_calibration_heeds_is_not_ignored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["compile", str(DIGITS_INT8), "-o", str(tmp_path / "out"), "--keep-float", "no such node"]
    assert main(arguments) == 1
    assert "there are none to calibrate with" in capsys.readouterr().err
    with pytest.raises(ArgumentError, match="no samples to calibrate with"):
        triune.compile(
            DIGITS_INT8, target="metis", output=tmp_path / "out", quantization=QuantizationOptions(equalize=False)
        )
    triune.compile(DIGITS_INT8, target="metis", output=tmp_path / "out", quantization=QuantizationOptions())


def test_an_output_without_axes_has_one_of_each_batch(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0)],
        "most",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info("most", TensorProto.FLOAT, [])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "most.onnx").write_bytes(model.SerializeToString())
    np.save(tmp_path / "x.npy", np.arange(12, dtype=np.float32).reshape(4, 3))
    found = tmp_path / "found.npz"
    assert main(["run", str(tmp_path / "most.onnx"), "--input", str(tmp_path / "x.npy"), "--output", str(found)]) == 0
    with np.load(found) as results:
        assert results["most"].tolist() == [5, 11]


@pytest.mark.parametrize("time", ["0", "nan", "1e300", "-1"])
def test_a_server_waits_for_a_time(time: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--device", "zg330", "--bind", "127.0.0.1:0", "--timeout", time]) == 1
    said = capsys.readouterr().err
    assert "--timeout" in said
    assert len(said) < 200
