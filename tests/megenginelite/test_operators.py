"""Every dump of operators and small networks that the vendor's library made, with its results: type, shape, order and values."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from triune.megenginelite import LiteLayout, LiteNetwork

FOLDER = Path(os.environ.get("TRIUNE_TEST_DATA", Path(__file__).parents[3] / "shared")) / "models" / "mge_operators"
DUMPS = sorted(FOLDER.glob("*.mge")) if FOLDER.is_dir() else []
# What is refused: the format of one GPU's images, which the vendor's library refuses on a CPU, too.
REFUSED = ("layout.convnet.hwcd4",)


def outcome(path: Path) -> str:
    """Return what differs from the vendor's results; an empty text where nothing does."""
    network = LiteNetwork()
    network.load(path)
    with np.load(path.with_suffix(".npz")) as data:
        given = {name[3:]: data[name] for name in data.files if name.startswith("in:")}
        expected = {name[4:]: data[name] for name in data.files if name.startswith("out:")}
    for name, array in given.items():
        tensor = network.get_io_tensor(name)
        if tuple(tensor.layout.shapes[: tensor.layout.ndim]) != array.shape:
            tensor.layout = LiteLayout(array.shape, array.dtype)
        tensor.set_data_by_copy(np.ascontiguousarray(array))
    network.forward()
    network.wait()
    if network.get_all_output_name()[: len(expected)] != list(expected):
        return f"outputs {network.get_all_output_name()}, not {list(expected)}"
    for name, want in expected.items():
        found = network.get_io_tensor(name).to_numpy()
        # There are no tensors without axes.
        if (found.dtype, found.shape) != (want.dtype, want.shape or (1,)):
            return f"{name}: {found.dtype} {found.shape}, not {want.dtype} {want.shape}"
        want = want.reshape(found.shape)
        if want.dtype.kind != "f":
            if not np.array_equal(found, want):
                return f"{name}: {np.count_nonzero(found != want)} of {want.size} integers differ"
            continue
        if not np.array_equal(np.isnan(found), np.isnan(want)):
            return f"{name}: other elements are no numbers"
        finite = np.isfinite(want)
        largest = np.abs(want[finite]).max(initial=0.0)
        error = np.abs(found[finite] - want[finite]).max(initial=0.0)
        if error > 1e-4 * largest or not np.array_equal(found[~finite], want[~finite], equal_nan=True):
            return f"{name}: off by {error} of {largest}"
    return ""


@pytest.mark.skipif(not DUMPS, reason="no dumps of the vendor's library (models/mge_operators of TRIUNE_TEST_DATA)")
@pytest.mark.parametrize("group", sorted({path.name.split(".")[0] for path in DUMPS}))
def test_dumps_of_the_library(group: str) -> None:
    wrong = {}
    for path in DUMPS:
        if path.name.split(".")[0] == group and not path.stem.startswith(REFUSED):
            try:
                difference = outcome(path)
            except RuntimeError as error:
                difference = str(error)
            if difference:
                wrong[path.stem] = difference
    assert not wrong


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_says_so(name: str) -> None:
    dumps = [path for path in DUMPS if path.stem.startswith(name)]
    if not dumps:
        pytest.skip("no dumps of the vendor's library")
    for path in dumps:
        with pytest.raises(RuntimeError, match=r"RelayoutFormatV1\): mode 4"):
            LiteNetwork().load(path)
