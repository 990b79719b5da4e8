"""Boards under the sanitizer: networks are clean in every way to run them, and what a run leaves out is not given out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from npu_networks import BACKENDS, compiled, expected, image, on_host, session

from triune.errors import SanitizerError
from triune.icraft.xir import InternalError
from triune.icraft.xrt import Session

Folders = dict[str, Path]


@pytest.fixture(autouse=True)
def watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIUNE_SANITIZE", "1")


def applied(folders: Folders, target: str, alone: bool = False) -> tuple[Session, Any]:
    """Return a session that is ready to run, and its backend's own handle."""
    made = session(target, compiled(folders, target).view(0))
    backend = BACKENDS[target](made.backends[0])
    if alone:
        backend.disableMergeHardOp()
    made.apply()
    return made, backend


@pytest.mark.parametrize(
    ("target", "alone"), [("zg330", False), ("zg330", True), ("buyi", False)], ids=["zg330", "zg330-alone", "buyi"]
)
@pytest.mark.parametrize("folders", ["digits", "convolutions"])
def test_runs_are_clean(folders: str, target: str, alone: bool, request: pytest.FixtureRequest) -> None:
    folder: Folders = request.getfixturevalue(folders)
    made, _ = applied(folder, target, alone)
    for seed in (1, 2):
        given = image(compiled(folder, target), seed)
        for got, wanted in zip(on_host(made.forward([given])), expected(folder, target, given), strict=True):
            np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(
    ("target", "alone"), [("zg330", False), ("zg330", True), ("buyi", False)], ids=["zg330", "zg330-alone", "buyi"]
)
@pytest.mark.parametrize("which", [0, -1], ids=["first", "last"])
def test_what_a_run_leaves_out_is_not_given_out(digits: Folders, target: str, alone: bool, which: int) -> None:
    made, backend = applied(digits, target, alone)
    given = image(compiled(digits, target))
    wanted = on_host(made.forward([given]))
    placement = backend._placement
    # Without its commands, an operation does nothing: zeros between streams are skipped.
    start, size = [op.instructions for op in placement.ops if op.instructions[1]][which]
    own = np.empty(size, np.uint8)
    placement.instructions.read(own, start, size)
    placement.instructions.write(start, np.zeros(size, np.uint8), size)
    with pytest.raises(InternalError, match="never-written"):
        on_host(made.forward([given]))
    placement.instructions.write(start, own, size)
    for got, before in zip(on_host(made.forward([given])), wanted, strict=True):
        np.testing.assert_array_equal(got, before)


def test_a_damaged_layer_is_blamed_by_its_operation(digits: Folders) -> None:
    made, backend = applied(digits, "zg330")
    given = image(compiled(digits, "zg330"))
    made.forward([given])
    placement = backend._placement
    ops = [op for op in placement.ops if op.instructions[1]]
    assert len(ops) > 2, "of one, nobody could tell which"
    for op in ops[1:]:
        start, size = op.instructions
        own = np.empty(size, np.uint8)
        placement.instructions.read(own, start, size)
        broken = own.copy()
        broken[:4].view(np.uint32)[0] = 0xEE
        placement.instructions.write(start, broken, size)
        with pytest.raises(InternalError) as raised:
            made.forward([given])
        assert f"operation {op.op_id} (HardOp" in str(raised.value)
        placement.instructions.write(start, own, size)
    assert not isinstance(raised.value.__cause__, SanitizerError)
    made.forward([given])
