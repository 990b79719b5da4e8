"""Packages that were damaged: the cure that an error gives is one, whatever is wrong, and leaves nothing of the damage."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import triune
from triune.axelera.runtime import Context, IncompatibleDevice, InvalidArgument
from triune.cli import main
from triune.models import DIGITS_INT8

Change = Callable[[Path], None]
CURE = re.compile("compile the (ONNX )?model( again)?")


def edited(file: str, change: Callable[[dict[str, Any]], object]) -> Change:
    """Return a damage of one of the package's JSON files."""

    def damage(folder: Path) -> None:
        found = json.loads((folder / file).read_text())
        change(found)
        (folder / file).write_text(json.dumps(found))

    return damage


def truncated(file: str, part: float = 0.5) -> Change:
    """Return a damage that leaves the first part of a file."""

    def damage(folder: Path) -> None:
        data = (folder / file).read_bytes()
        (folder / file).write_bytes(data[: int(len(data) * part)])

    return damage


def removed(file: str) -> Change:
    """Return a damage that takes a file away."""
    return lambda folder: (folder / file).unlink()


def flipped(file: str) -> Change:
    """Return a damage of one bit."""

    def damage(folder: Path) -> None:
        data = bytearray((folder / file).read_bytes())
        data[len(data) // 2] ^= 1
        (folder / file).write_bytes(data)

    return damage


def without(file: str, *keys: str) -> Change:
    """Return a damage that drops a key."""

    def drop(found: dict[str, Any]) -> None:
        for key in keys[:-1]:
            found = found[key][0] if isinstance(found[key], list) else found[key]
        del found[keys[-1]]

    return edited(file, drop)


def setting(file: str, value: Any, *keys: str) -> Change:
    """Return a damage that changes a value."""

    def put(found: dict[str, Any]) -> None:
        for key in keys[:-1]:
            found = found[key][0] if isinstance(found[key], list) else found[key]
        found[keys[-1]] = value

    return edited(file, put)


MODEL, MANIFEST = "model.json", "manifest.json"
DAMAGES: dict[str, Change] = {
    **{f"{name} cut": truncated(name) for name in (MODEL, MANIFEST, "constants.bin", "instructions.bin")},
    **{f"{name} gone": removed(name) for name in (MANIFEST, "constants.bin", "instructions.bin")},
    **{f"{name} empty": truncated(name, 0) for name in (MODEL, MANIFEST, "constants.bin")},
    **{f"{name} flipped": flipped(name) for name in ("constants.bin", "instructions.bin")},
    **{
        f"model.json without {key}": without(MODEL, key)
        for key in ("schema", "schema_version", "target", "batch", "inputs", "outputs", "instructions", "constants")
    },
    **{
        f"model.json's input without {key}": without(MODEL, "inputs", key)
        for key in ("name", "dtype", "shape", "padding", "scale", "zero_point", "model_shape")
    },
    **{
        f"model.json's {'.'.join(keys)} as {value}": setting(MODEL, value, *keys)
        for value, *keys in (
            (1, "schema_version"),
            ("7", "schema_version"),
            ("other", "schema"),
            ("pluto", "target"),
            (0, "batch"),
            (99, "batch"),
            ("../x", "constants", "file"),
            (3, "constants", "bytes"),
            ([1, 2], "inputs", "shape"),
            ([1, 10, 10], "inputs", "shape"),
            ([1, 2, 8, 8], "inputs", "model_shape"),
            ([1, 1, 8, 8, 2], "inputs", "model_shape"),
            ([[0, 0], [0, 0], [0, 0], [0, 0]], "inputs", "padding"),
            ([[0, 99], [0, 0], [0, 0], [0, 0]], "inputs", "padding"),
            ("int3", "inputs", "dtype"),
            (0.0, "inputs", "scale"),
            (999, "outputs", "zero_point"),
        )
    },
    **{
        f"manifest.json without {key}": without(MANIFEST, key)
        for key in ("input_shapes", "quantize_params", "dequantize_params", "n_padded_ch_inputs", "input_names")
    },
    **{
        f"manifest.json's {key} as {value}": setting(MANIFEST, value, key)
        for key, value in (
            ("quantize_params", []),
            ("dequantize_params", [[1.0, 0]]),
            ("input_shapes", 5),
            ("postprocess_graph", "other.onnx"),
            ("model_metadata", []),
        )
    },
}


@pytest.mark.parametrize("name", DAMAGES)
def test_the_cure_leads_to_a_package_that_runs(
    name: str, package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(package.parent, folder)
    DAMAGES[name](folder)
    np.save(tmp_path / "x.npy", np.zeros((1, 1, 8, 8), np.float32))
    run = ["run", str(folder), "--input", str(tmp_path / "x.npy")]
    capsys.readouterr()
    assert main(run) == 1
    said = capsys.readouterr().err
    # One cure, and nothing besides that another command would complain of.
    assert CURE.search(said), said
    assert "Traceback" not in said
    assert "take the file away" not in said
    if name != "manifest.json gone":
        with Context() as context, pytest.raises((InvalidArgument, IncompatibleDevice), match=CURE):
            context.load_model(folder / MODEL)
    triune.compile(DIGITS_INT8, target="metis", output=folder)
    assert main(run) == 0, capsys.readouterr().err
    fresh = {file.name: file.read_bytes() for file in package.parent.iterdir()}
    assert {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()} == fresh


def test_a_newer_package_wants_a_newer_triune(package: Path, tmp_path: Path) -> None:
    folder = tmp_path / "newer"
    shutil.copytree(package.parent, folder)
    setting(MODEL, 99, "schema_version")(folder)
    with Context() as context, pytest.raises(InvalidArgument, match=r"newer than .*; upgrade it"):
        context.load_model(folder / MODEL)
