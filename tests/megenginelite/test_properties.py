"""Slices and copies against numpy, on random shapes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hypothesis import given, settings
from hypothesis import strategies as st

from triune.megenginelite import LiteDeviceType, LiteLayout, LiteTensor, LiteTensorConcat

Array = npt.NDArray[np.generic]
DTYPES = ["float32", "float16", "int32", "int16", "int8", "uint8", "uint16"]
PLACES = [LiteDeviceType.LITE_CPU, LiteDeviceType.LITE_CUDA]


@st.composite
def arrays(draw: st.DrawFn) -> Array:
    """Return an array of 1 to 5 axes with distinct neighbours."""
    shape = draw(st.lists(st.integers(1, 5), min_size=1, max_size=5))
    dtype = draw(st.sampled_from(DTYPES))
    return (np.arange(np.prod(shape)) % 100).reshape(shape).astype(dtype)


@st.composite
def parts(draw: st.DrawFn, axes: int) -> tuple[list[int], list[int], list[int]]:
    """Return start, end and step for some of the axes."""
    count = draw(st.integers(0, axes))
    numbers = st.lists(st.integers(-7, 7), min_size=count, max_size=count)
    step = st.lists(st.integers(-3, 3).filter(bool), min_size=count, max_size=count)
    return draw(numbers), draw(numbers), draw(step)


def on(place: LiteDeviceType, array: Array) -> LiteTensor:
    """Return a tensor of these values."""
    tensor = LiteTensor(device_type=place)
    tensor.copy_from(array)
    return tensor


@settings(deadline=None)
@given(st.data(), st.sampled_from(PLACES))
def test_a_slice_of_a_slice_is_numpys(data: st.DataObject, place: LiteDeviceType) -> None:
    expected = data.draw(arrays())
    root, whole = on(place, expected), expected.copy()
    expected = whole
    tensor = root
    for _ in range(data.draw(st.integers(1, 3))):
        start, end, step = data.draw(parts(expected.ndim))
        tensor = tensor.slice(start, end, step)
        expected = expected[tuple(map(slice, start, end, step))]
        assert tensor.layout.shapes == list(expected.shape)
        assert tensor.is_continue == expected.flags.c_contiguous
        assert np.array_equal(tensor.to_numpy(), expected)
    # Written into the slice, found in the whole.
    tensor.copy_from(np.full(expected.shape, 111, expected.dtype))
    expected[...] = 111
    assert np.array_equal(tensor.to_numpy(), expected)
    assert np.array_equal(root.to_numpy(), whole)


@settings(deadline=None)
@given(st.lists(st.tuples(arrays(), st.sampled_from(["copy", "share", "from", "with"])), min_size=1, max_size=6))
def test_a_tensor_is_what_was_put_last(steps: list[tuple[Array, str]]) -> None:
    tensor = LiteTensor()
    for array, how in steps:
        before = None if tensor.nbytes == 0 else tensor.get_data_by_share()
        match how:
            case "copy":
                tensor.set_data_by_copy(array)
            case "share":
                tensor.set_data_by_share(array, layout=LiteLayout(array.shape, array.dtype))
            case "from":
                tensor.copy_from(array)
            case _:
                tensor.share_memory_with(array)
        assert tensor.layout == LiteLayout(array.shape, array.dtype)
        assert np.array_equal(tensor.to_numpy(), array)
        shares = np.shares_memory(tensor.get_data_by_share(), array)
        assert shares == (how in ("share", "with"))
        if before is not None and how in ("copy", "from") and array.nbytes <= before.nbytes:
            assert np.may_share_memory(before, tensor.get_data_by_share()), "memory that suffices is kept"


@settings(deadline=None)
@given(st.data())
def test_concat_is_numpys(data: st.DataObject) -> None:
    first = data.draw(arrays())
    dim = data.draw(st.integers(-first.ndim, first.ndim - 1))
    expected = [first]
    for _ in range(data.draw(st.integers(0, 3))):
        shape = list(first.shape)
        shape[dim] = data.draw(st.integers(1, 4))
        expected.append(np.full(shape, len(expected), first.dtype))
    places = [data.draw(st.sampled_from(PLACES)) for _ in expected]
    found = LiteTensorConcat([on(*pair) for pair in zip(places, expected, strict=True)], dim)
    assert found.device_type == places[0]
    assert np.array_equal(found.to_numpy(), np.concatenate(expected, dim))


@settings(deadline=None)
@given(arrays(), st.data())
def test_reshape_is_numpys(array: Array, data: st.DataObject) -> None:
    tensor = on(LiteDeviceType.LITE_CPU, array)
    shape = data.draw(st.permutations(array.shape))
    if data.draw(st.booleans()):
        shape[data.draw(st.integers(0, len(shape) - 1))] = -1
    tensor.reshape(shape)
    assert np.array_equal(tensor.to_numpy(), array.reshape(shape))
