"""`triune.Session` from Python: what it says of a model, takes and refuses."""

from __future__ import annotations

import pickle
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import triune
from triune import errors
from triune.models import DIGITS_INT8, digits_held_out


@pytest.fixture
def images() -> npt.NDArray[np.float32]:
    """Return some scans, NCHW."""
    return np.ascontiguousarray(digits_held_out()[0][:7].transpose(0, 3, 1, 2))


def test_inputs_and_outputs() -> None:
    session = triune.Session(DIGITS_INT8)
    (source,), (result,) = session.inputs, session.outputs
    assert source == ("image", "float32", ("N", 1, 8, 8))
    assert (result.name, result.dtype, result.shape) == ("logits", "float32", ("N", 10))
    assert pickle.loads(pickle.dumps(source)) == source
    assert isinstance(source, triune.ValueInfo)


def test_repr() -> None:
    sides = "image float32 (N, 1, 8, 8) -> logits float32 (N, 10)"
    assert repr(triune.Session(DIGITS_INT8)) == f"<triune.Session {str(DIGITS_INT8)!r}: {sides}>"
    content = DIGITS_INT8.read_bytes()
    assert repr(triune.Session(content)) == f"<triune.Session {len(content)} bytes: {sides}>"


@pytest.mark.parametrize("threads", [0, 1, 2, np.int64(3)])
def test_sources_and_threads_do_not_matter(images: npt.NDArray[np.float32], threads: int) -> None:
    (expected,) = triune.Session(DIGITS_INT8).run({"image": images})
    for source in (DIGITS_INT8, str(DIGITS_INT8), DIGITS_INT8.read_bytes()):
        (found,) = triune.Session(source, threads=threads).run(MappingProxyType({"image": images}))
        assert np.array_equal(found, expected)


def test_any_batch(images: npt.NDArray[np.float32]) -> None:
    session = triune.Session(DIGITS_INT8)
    (expected,) = session.run({"image": images})
    for count in (1, 3, 7, 3):
        (found,) = session.run({"image": images[:count]})
        assert np.array_equal(found, expected[:count])


@pytest.mark.parametrize("threads", [-1, 1 << 40, 1.0, "2", None, True])
def test_wrong_threads(threads: Any) -> None:
    with pytest.raises(errors.ArgumentError, match="threads: expected"):
        triune.Session(DIGITS_INT8, threads=threads)


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        ([], "feeds: expected a dict of arrays by input name, got list"),
        ({}, "input 'image': expected an array, got none"),
        ({"x": np.zeros(1)}, "unknown input 'x'; the model has image"),
        ({"image": np.zeros((1, 1, 8, 8))}, "input 'image': expected dtype float32, got float64"),
        ({"image": np.zeros((8, 8), np.float32)}, r"input 'image': expected shape \(N, 1, 8, 8\), got \(8, 8\)"),
    ],
)
def test_wrong_feeds(feeds: Any, message: str) -> None:
    with pytest.raises(errors.ArgumentError, match=message):
        triune.Session(DIGITS_INT8).run(feeds)


def test_wrong_files(tmp_path: Path) -> None:
    (tmp_path / "text.onnx").write_text("no model")
    with pytest.raises(errors.ArgumentError, match=r"text\.onnx is a text, not an ONNX model: models are"):
        triune.Session(tmp_path / "text.onnx")
    with pytest.raises(errors.FileError, match=r"no\.onnx"):
        triune.Session(tmp_path / "no.onnx")


def test_errors_are_public() -> None:
    for name in errors.__all__:
        error = getattr(errors, name)
        if issubclass(error, Warning):
            assert issubclass(error, UserWarning)
        else:
            assert issubclass(error, RuntimeError)
            assert issubclass(error, errors.Error)
        assert error.__module__ == "triune.errors"
        assert error.__doc__
