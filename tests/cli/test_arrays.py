"""Files of arrays that the command line takes: each wrong one is refused with the file or the input that is wrong."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from triune.batch import Preprocess
from triune.cli import data, main
from triune.cli.data import Input, feeds, load
from triune.models import DIGITS_F32, DIGITS_INT8

X, Y = Input("x", (1, 2)), Input("y", (1, 3))
PIXELS = Preprocess(scale=1.0)


def saved(path: Path, **arrays: object) -> Path:
    np.savez(path, **arrays)
    return path


def truncated(path: Path) -> Path:
    saved(path, x=np.zeros((4, 2), np.float32))
    path.write_bytes(path.read_bytes()[:-40])
    return path


def corrupt(path: Path) -> Path:
    """Return an archive whose member has another checksum."""
    saved(path, x=np.zeros((4, 2), np.float32))
    data = bytearray(path.read_bytes())
    data[data.index(b"NUMPY") + 130] ^= 1
    path.write_bytes(data)
    return path


def member(content: bytes) -> Callable[[Path], Path]:
    """Return what writes an archive with these bytes as the array x."""

    def write(path: Path) -> Path:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x.npy", content)
        return path

    return write


def header(text: str) -> bytes:
    line = text.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(line).to_bytes(2, "little") + line


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda path: path, "there is no such file"),
        (lambda path: saved(path, z=np.zeros((1, 2))), "unknown input 'z'; the model has x, y"),
        (lambda path: saved(path, x=np.zeros((1, 2))), "input 'y': expected an array, got none"),
        (lambda path: saved(path, x=np.array([{}]), y=np.zeros((1, 3))), "not an array file that can be read"),
        (truncated, "not an array file that can be read"),
        (corrupt, "not an array file that can be read"),
        (member(b""), "not an array file that can be read"),
        (member(b"nonsense that is no array"), "not an array file that can be read"),
        (member(header("{'descr': '<f4', 'fortran_order': False, 'shape': (1, -2), }")), "not an array file"),
        (member(header("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }") + b"123"), "not an array file"),
        (
            member(header("{'descr': 'soon', 'fortran_order': False, 'shape': (1, 2), }") + bytes(8)),
            "not an array file",
        ),
        (lambda path: (path.write_bytes(b"") and None) or path, "not an array file that can be read"),
        (lambda path: path.write_bytes(b"PK\x03\x04 and no more") and path, "not an array file that can be read"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, write: Callable[[Path], Path], words: str) -> None:
    path = write(tmp_path / "arrays.npz")
    with pytest.raises((ValueError, FileNotFoundError)) as raised:
        load(path, [X, Y], PIXELS)
    assert words in str(raised.value)
    assert "arrays.npz" in str(raised.value)


@pytest.mark.parametrize(
    ("name", "inputs", "words"),
    [
        ("one.npy", [X, Y], "expected a .npz file with the arrays x, y, got .npy"),
        ("one", [X, Y], "expected a .npz file with the arrays x, y, got no extension"),
        ("one.txt", [X], "expected .npy, .npz, an image or a video, got .txt"),
        ("one.npy", [X], "not an array file that can be read"),
    ],
)
def test_other_files(tmp_path: Path, name: str, inputs: list[Input], words: str) -> None:
    (tmp_path / name).write_bytes(b"nothing")
    with pytest.raises(ValueError, match="one") as raised:
        load(tmp_path / name, inputs, PIXELS)
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"x": np.zeros(2), "y": np.zeros((1, 3))}, "input 'x': expected shape (N, 2), got (2,)"),
        ({"x": np.zeros((1, 3)), "y": np.zeros((1, 3))}, "input 'x': expected shape (N, 2), got (1, 3)"),
        ({"x": np.zeros((1, 2)), "y": np.zeros((1, 3, 1))}, "input 'y': expected shape (N, 3), got (1, 3, 1)"),
        ({"x": np.zeros((1, 2), complex), "y": np.zeros((1, 3))}, "input 'x': expected dtype float32, got complex128"),
        ({"x": np.array([["a", "b"]]), "y": np.zeros((1, 3))}, "input 'x': expected dtype float32, got <U1"),
        ({"x": np.array([[np.nan, 0]]), "y": np.zeros((1, 3))}, "input 'x': expected finite values"),
        ({"x": np.array([[1e300, 0]]), "y": np.zeros((1, 3))}, "input 'x': expected finite values"),
    ],
)
def test_arrays_that_do_not_fit(arrays: dict[str, np.ndarray], words: str) -> None:
    with pytest.raises(ValueError, match="input") as raised:
        feeds(arrays, [X, Y])
    assert words in str(raised.value)


def test_a_folder_with_too_much_below_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for index in range(4):
        (tmp_path / f"{index}.npy").touch()
    assert data.files_below(tmp_path, {".npy"}, "arrays") == [tmp_path / f"{index}.npy" for index in range(4)]
    monkeypatch.setattr(data, "MOST_PLACES", 3)
    with pytest.raises(ValueError, match=r"more than 3 files below it; name the folder of the arrays"):
        data.files_below(tmp_path, {".npy"}, "arrays")


def test_arrays_that_fit(tmp_path: Path) -> None:
    arrays = {"x": np.ones((3, 2), np.int8), "y": np.zeros((3, 3))}
    found = feeds(load(saved(tmp_path / "arrays.npz", **arrays), [X, Y], PIXELS), [X, Y])
    assert {name: (array.dtype, array.shape) for name, array in found.items()} == {
        "x": (np.float32, (3, 2)),
        "y": (np.float32, (3, 3)),
    }


def archive(path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file, x=np.zeros((1, 1, 8, 8), np.float32))


def cut(path: Path) -> None:
    np.save(path, np.zeros((1, 1, 8, 8), np.float32))
    path.write_bytes(path.read_bytes()[:-1])


UNREADABLE: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty": (lambda path: path.write_bytes(b""), "it is empty"),
    "an archive": (archive, "it is an archive, which files named .npz are"),
    "one byte": (lambda path: path.write_bytes(b"P"), "not an array file that can be read: "),
    "cut": (cut, "it states shape (1, 1, 8, 8) of float32, 256 bytes, and has 255"),
    "more than there is": (
        lambda path: path.write_bytes(
            header("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 99999), }")
        ),
        "39999599999600004 bytes, and has 0",
    ),
    "objects": (lambda path: np.save(path, np.array([{}, None], dtype=object)), "allow_pickle=False"),
}


@pytest.mark.parametrize("verb", ["run", "predict", "compare", "compile", "quantize"])
@pytest.mark.parametrize("kind", UNREADABLE)
def test_every_verb_says_what_is_wrong_with_a_file(
    verb: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.npy"
    write, words = UNREADABLE[kind]
    write(path)
    arguments = {
        "run": [DIGITS_INT8, "--input", path],
        "predict": [DIGITS_INT8, path, "-o", tmp_path / "found.csv"],
        "compare": [DIGITS_F32, DIGITS_INT8, "--inputs", path],
        "compile": [DIGITS_F32, "--target", "metis", "--calibrate", path, "-o", tmp_path / "folder"],
        "quantize": [DIGITS_F32, "--calibrate", path, "-o", tmp_path / "model.onnx"],
    }[verb]
    assert main([verb, *map(str, arguments)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"triune: error: {path}: not an array file that can be read: ")
    assert words in line


def test_an_array_named_as_an_archive(tmp_path: Path) -> None:
    with (tmp_path / "x.npz").open("wb") as file:
        np.save(file, np.zeros((1, 2), np.float32))
    with pytest.raises(ValueError, match=r"x\.npz: not an array file that can be read: it is no archive of arrays"):
        load(tmp_path / "x.npz", [X], PIXELS)


def test_memory_for_an_archive_that_there_is_not_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path / "x.npz", x=np.zeros((1, 2), np.float32))

    def fail(*_: object, **__: object) -> None:
        raise MemoryError("Unable to allocate 35.5 PiB")

    monkeypatch.setattr(np, "load", fail)
    with pytest.raises(MemoryError, match=r"x\.npz: Unable to allocate 35\.5 PiB"):
        load(path, [X], PIXELS)


def test_arrays_that_cannot_be_read_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "arrays"
    folder.mkdir()
    for number, (write, _) in enumerate(UNREADABLE.values()):
        np.save(folder / f"{number}a.npy", np.full((1, 8, 8), number / 8, np.float32))
        write(folder / f"{number}b.npy")
    table = tmp_path / "found.csv"
    assert main(["predict", str(DIGITS_INT8), str(folder), "-o", str(table), "--on-error", "skip"]) == 0
    rows = [line.partition(",")[0] for line in table.read_text().splitlines()[1:]]
    assert rows == [str(folder / f"{number}a.npy") for number in range(len(UNREADABLE))]
    told = capsys.readouterr().err
    for number, (_, words) in enumerate(UNREADABLE.values()):
        assert f"{number}b.npy: not an array file that can be read: " in told
        assert words in told
