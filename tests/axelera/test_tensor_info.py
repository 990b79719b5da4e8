"""`TensorInfo`: the documented lines, and the native helpers that equal them bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triune.axelera.runtime import InvalidArgument, TensorInfo

Tensor = npt.NDArray[Any]


def quantize_as_documented(info: TensorInfo, src: Tensor) -> Tensor:
    quant = np.round((src / info.scale) + info.zero_point).clip(-128, 127).astype(np.int8)
    return np.pad(quant, info.padding, constant_values=info.zero_point)


def dequantize_as_documented(info: TensorInfo, out: Tensor) -> Tensor:
    depadded = out[tuple(slice(b, -e if e else None) for b, e in info.padding)]
    real: Tensor = (depadded.astype(np.float32) - info.zero_point) * info.scale
    return real


def test_documented_input() -> None:
    info = TensorInfo((1, 230, 240, 3), padding=[(0, 0), (3, 3), (3, 13), (0, 1)])
    assert info.unpadded_shape == (1, 224, 224, 2)
    assert info.size == 230 * 240 * 3
    src = np.zeros(info.unpadded_shape, dtype=np.float32)
    assert (info.quantize(src) == quantize_as_documented(info, src)).all()
    assert info.quantize(src).shape == info.shape


def test_documented_output() -> None:
    info = TensorInfo((1, 1, 1, 1024), padding=[(0, 0), (0, 0), (0, 0), (0, 24)])
    out = np.zeros(info.shape, dtype=np.int8)
    assert info.dequantize(out).shape == info.unpadded_shape == (1, 1, 1, 1000)
    assert (info.dequantize(out) == dequantize_as_documented(info, out)).all()


def test_size_counts_bytes() -> None:
    assert TensorInfo((2, 3), np.dtype(np.float32)).size == 24


def test_padding_can_be_hashed_and_taken_apart() -> None:
    info = TensorInfo((1, 4, 4, 4), padding=[(0, 0), (1, 0), (0, 1), (0, 2)])
    hash(tuple(info.padding))
    (a, b), (c, d), (e, f), (g, h) = info.padding
    assert (a, b, c, d, e, f, g, h) == (0, 0, 1, 0, 0, 1, 0, 2)
    assert isinstance(info.shape, tuple)


@st.composite
def layouts(draw: st.DrawFn) -> TensorInfo:
    rank = draw(st.integers(1, 5))
    padding = [(draw(st.integers(0, 3)), draw(st.integers(0, 3))) for _ in range(rank)]
    shape = tuple(draw(st.integers(0 if rank > 2 else 1, 7)) + before + after for before, after in padding)
    scale = draw(st.floats(2.0**-20, 2.0**14, width=32))
    return TensorInfo(shape, padding=padding, scale=scale, zero_point=draw(st.integers(-128, 127)))


@settings(max_examples=300, deadline=None)
@given(layouts(), st.integers(0, 2**32 - 1))
def test_f32_equals_the_documented_lines(info: TensorInfo, seed: int) -> None:
    rng = np.random.default_rng(seed)
    src = (rng.normal(0, 100, info.unpadded_shape) * info.scale).astype(np.float32)
    # Ties, where the order of rounding and adding the zero point shows.
    ties = (rng.integers(-300, 300, src.shape) * 0.5).astype(np.float32) * np.float32(info.scale)
    for source in (src, ties):
        assert np.array_equal(info.quantize(source), quantize_as_documented(info, source))


@settings(max_examples=200, deadline=None)
@given(layouts(), st.integers(0, 2**32 - 1))
def test_u8_equals_the_documented_lines(info: TensorInfo, seed: int) -> None:
    src = np.random.default_rng(seed).integers(0, 256, info.unpadded_shape, np.uint8)
    assert np.array_equal(info.quantize(src), quantize_as_documented(info, src))


def test_u8_equals_the_documented_lines_for_every_byte() -> None:
    rng = np.random.default_rng(7)
    src = np.arange(256, dtype=np.uint8).reshape(1, 16, 16, 1)
    for scale in np.exp(rng.uniform(-6, 3, 2000)):
        info = TensorInfo((1, 16, 16, 4), padding=[(0, 0), (0, 0), (0, 0), (0, 3)], scale=float(scale), zero_point=-11)
        assert np.array_equal(info.quantize(src), quantize_as_documented(info, src))


@settings(max_examples=200, deadline=None)
@given(layouts(), st.integers(0, 2**32 - 1))
def test_dequantize_equals_the_documented_lines(info: TensorInfo, seed: int) -> None:
    out = np.random.default_rng(seed).integers(-128, 128, info.shape, np.int8)
    found, expected = info.dequantize(out), dequantize_as_documented(info, out)
    assert found.dtype == expected.dtype == np.float32
    assert np.array_equal(found.view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.float16])
def test_other_sources_take_the_documented_lines(dtype: npt.DTypeLike) -> None:
    info = TensorInfo((2, 4, 4), padding=[(0, 0), (1, 0), (0, 1)], scale=0.3, zero_point=5)
    src = np.arange(2 * 3 * 3).reshape(2, 3, 3).astype(dtype)
    assert np.array_equal(info.quantize(src), quantize_as_documented(info, src))


def test_sources_need_not_be_contiguous() -> None:
    info = TensorInfo((1, 4, 6, 3), scale=0.5)
    planes = np.random.default_rng(1).normal(size=(1, 3, 4, 6)).astype(np.float32)
    src = planes.transpose(0, 2, 3, 1)
    assert np.array_equal(info.quantize(src), quantize_as_documented(info, src))
    out = info.quantize(src)[:, ::-1]
    assert np.array_equal(info.dequantize(out), dequantize_as_documented(info, out))


def test_sources_may_begin_within_an_element() -> None:
    info = TensorInfo((1, 4, 6, 3), scale=0.5)
    src = np.random.default_rng(2).normal(size=info.shape).astype(np.float32)
    moved = np.frombuffer(b"x" + src.tobytes(), np.uint8)[1:].view(np.float32).reshape(src.shape)
    assert not moved.flags.aligned
    assert np.array_equal(info.quantize(moved), info.quantize(src))


def test_float_tensors_are_padded_only() -> None:
    info = TensorInfo((1, 4), np.dtype(np.float32), padding=[(0, 0), (1, 1)])
    src = np.array([[2.5, -1.5]], np.float32)
    assert info.quantize(src).tolist() == [[0, 2.5, -1.5, 0]]
    assert info.dequantize(info.quantize(src)).tolist() == src.tolist()


def test_wrong_arrays_are_named() -> None:
    info = TensorInfo((1, 4, 4, 4), name="image", padding=[(0, 0), (0, 0), (0, 0), (0, 1)])
    with pytest.raises(
        InvalidArgument, match=r"src: expected shape \(1, 4, 4, 3\) for tensor 'image', got \(4, 4, 3\)"
    ):
        info.quantize(np.zeros((4, 4, 3), np.float32))
    with pytest.raises(InvalidArgument, match=r"out: expected shape \(1, 4, 4, 4\) .* got \(1, 4, 4, 3\)"):
        info.dequantize(np.zeros((1, 4, 4, 3), np.int8))
    with pytest.raises(InvalidArgument, match=r"out: expected int8 .* got uint8"):
        info.dequantize(np.zeros(info.shape, np.uint8))
    with pytest.raises(InvalidArgument, match="scales must be positive"):
        TensorInfo((1, 4), scale=0.0).quantize(np.zeros((1, 4), np.float32))


@pytest.mark.parametrize("padding", [[(0, 0)], [(0, 0), (3, 3)], [(0, 0), (-1, 0)]])
def test_padding_must_fit_the_shape(padding: list[tuple[int, int]]) -> None:
    with pytest.raises(InvalidArgument, match="padding"):
        TensorInfo((1, 4), padding=padding)
