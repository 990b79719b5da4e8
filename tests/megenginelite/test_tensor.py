"""What a tensor does at its edges: as the vendor's does, except where the vendor's is wrong."""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
import weakref
from typing import Any

import numpy as np
import pytest

from triune.megenginelite import (
    LiteDataType,
    LiteDeviceType,
    LiteLayout,
    LiteTensor,
    LiteTensorConcat,
    lite_dtype_2_numpy,
)

DTYPES = ["float32", "float16", "int32", "int16", "int8", "uint8", "uint16"]
CUDA = LiteDeviceType.LITE_CUDA


def filled(shape: list[int], dtype: str = "int32", **place: Any) -> LiteTensor:
    """Return a tensor of 0, 1, 2, …"""
    tensor = LiteTensor(LiteLayout(shape, dtype), **place)
    tensor.copy_from(np.arange(np.prod(shape)).reshape(shape).astype(dtype))
    return tensor


# ---- layouts


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_dtype_by_its_four_names(dtype: str) -> None:
    kind = LiteLayout([2], dtype).data_type
    assert LiteLayout([2], np.dtype(dtype)).data_type == kind
    assert LiteLayout([2], getattr(np, dtype)).data_type == kind
    assert LiteLayout([2], LiteDataType(kind)).data_type == kind
    assert LiteLayout([2], dtype).dtype is getattr(np, dtype) is lite_dtype_2_numpy(LiteDataType(kind))


@pytest.mark.parametrize("dtype", ["float64", "bool", "nonsense", np.float64, np.dtype("bool"), float, int, ">i4"])
def test_an_unknown_dtype(dtype: Any) -> None:
    with pytest.raises(KeyError):
        LiteLayout([2], dtype)


@pytest.mark.parametrize("dtype", [3, 2.0, b"int8", [1]])
def test_what_is_no_dtype(dtype: Any) -> None:
    with pytest.raises(RuntimeError, match="unknown data type"):
        LiteLayout([2], dtype)


def test_layout_is_the_vendors_structure() -> None:
    layout = LiteLayout((4, np.int64(8)), "int16")
    assert isinstance(layout, ctypes.Structure)
    assert [name for name, _ in LiteLayout._fields_] == ["_shapes", "ndim", "data_type"]
    assert ctypes.sizeof(layout) == 8 * ctypes.sizeof(ctypes.c_size_t) + 8
    assert (layout.ndim, layout.shapes, layout.data_type) == (2, [4, 8], LiteDataType.LITE_INT16)
    layout.shapes = [1, 2, 3]
    assert (layout.ndim, layout.shapes) == (3, [1, 2, 3])
    assert repr(layout) == f"{{'shapes': [1, 2, 3], 'ndim': 3, 'data_type': {np.int16}}}"
    empty = LiteLayout()
    assert (empty.ndim, empty.shapes, empty.data_type, empty.dtype) == (0, [], 0, np.float32)


def test_layouts_compare_by_what_they_say() -> None:
    assert LiteLayout([1, 2]) == LiteLayout((1, 2), np.float32)
    assert LiteLayout([1, 2]) != LiteLayout([1, 2], "int8")
    assert LiteLayout([1, 2]) != LiteLayout([1, 2, 1])
    assert LiteLayout([1, 2]) != [1, 2]
    assert len({LiteLayout([1]), LiteLayout([1]), LiteLayout([2])}) == 2


def test_a_layout_has_seven_axes_at_most() -> None:
    assert LiteLayout([1] * 7).ndim == 7
    with pytest.raises(AssertionError, match="at most 7"):
        LiteLayout([1] * 8)
    for wrong in ([-1], [2**64], [1.5], 3, "ab"):
        with pytest.raises(RuntimeError):
            LiteLayout(wrong)  # type: ignore[arg-type]


def test_the_layout_of_a_tensor_is_one_object() -> None:
    layout = LiteLayout([4, 8])
    tensor, other = LiteTensor(layout), LiteTensor(layout)
    held = tensor.layout
    assert held == layout
    tensor.set_data_by_copy(np.zeros([2, 2], "int8"))
    tensor.update()
    assert held == LiteLayout([2, 2], "int8")
    assert held is tensor.layout
    assert layout == other.layout == LiteLayout([4, 8]), "what was passed stays the caller's"


@pytest.mark.parametrize("shape", [[2, 3], (2, 3), np.array([2, 3])])
def test_a_layout_is_set_by_a_shape(shape: Any) -> None:
    tensor = LiteTensor(LiteLayout([4], "int16"))
    tensor.layout = shape
    assert tensor.layout == LiteLayout([2, 3], "int16")


@pytest.mark.parametrize("wrong", [None, 3, "ab"])
def test_what_is_no_layout(wrong: Any) -> None:
    with pytest.raises(AssertionError, match="LiteLayout"):
        LiteTensor().layout = wrong


# ---- memory


def test_memory_is_allocated_late_aligned_and_zero() -> None:
    tensor = LiteTensor(LiteLayout([2**40], "float32"))
    assert tensor.nbytes == 2**42
    for size in range(1, 70):
        tensor = LiteTensor(LiteLayout([size], "int8"))
        address = tensor.get_ctypes_memory()
        assert isinstance(address, ctypes.c_void_p)
        assert address.value is not None
        assert address.value % 64 == 0
        assert tensor.get_ctypes_memory().value == address.value
        assert not tensor.to_numpy().any()


def test_threads_that_touch_a_tensor_first_get_the_same_memory() -> None:
    for _ in range(100):
        tensor, found = LiteTensor(LiteLayout([4])), set()
        barrier = threading.Barrier(4)

        def touch(tensor: LiteTensor = tensor, barrier: Any = barrier, found: set[Any] = found) -> None:
            barrier.wait()
            found.add(tensor.get_ctypes_memory().value)

        threads = [threading.Thread(target=touch) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 1


def test_more_than_there_is() -> None:
    with pytest.raises(MemoryError):
        LiteTensor(LiteLayout([2**62, 2], "int8")).fill_zero()
    with pytest.raises(MemoryError):
        LiteTensor(LiteLayout([2**46], "int8")).fill_zero()


def test_an_empty_layout() -> None:
    tensor = LiteTensor()
    assert (tensor.nbytes, tensor.is_continue, tensor.layout.ndim) == (0, True, 0)
    assert tensor.to_numpy().shape == (0,)
    assert tensor.to_numpy().dtype == np.float32
    for use in (
        tensor.get_ctypes_memory,
        tensor.get_data_by_share,
        tensor.fill_zero,
        lambda: LiteTensor().copy_from(tensor),
        lambda: LiteTensor().share_memory_with(tensor),
    ):
        with pytest.raises(RuntimeError, match="layout is empty"):
            use()


def test_a_smaller_layout_keeps_the_memory_and_a_larger_does_not() -> None:
    tensor = filled([4, 8])
    address = tensor.get_ctypes_memory().value
    tensor.layout = [2, 4]
    assert tensor.get_ctypes_memory().value == address
    assert np.array_equal(tensor.to_numpy(), np.arange(8).reshape(2, 4))
    tensor.layout = [4, 8]
    assert tensor.get_ctypes_memory().value == address, "the bytes are still there"
    before = tensor.get_data_by_share()
    tensor.layout = [5, 8]
    assert not tensor.to_numpy().any()
    tensor.copy_from(np.ones([5, 8], "int32"))
    assert np.array_equal(before, np.arange(32).reshape(4, 8)), "the old array is detached, not written"


def test_without_memory_of_its_own() -> None:
    tensor = LiteTensor(LiteLayout([2]), physic_construct=False)
    with pytest.raises(RuntimeError, match="physic_construct"):
        tensor.fill_zero()
    tensor.share_memory_with(filled([3]))
    assert tensor.to_numpy().tolist() == [0, 1, 2]


def test_pinned_reads_back() -> None:
    assert LiteTensor(is_pinned_host=True).is_pinned_host is True
    assert LiteTensor().is_pinned_host is False
    assert LiteTensor(device_id=1).device_id == 1


def test_np_array_type() -> None:
    tensor = LiteTensor(LiteLayout([2, 3], "int16"))
    assert ctypes.sizeof(tensor.np_array_type) == tensor.nbytes
    values = tensor.np_array_type.from_address(tensor.get_ctypes_memory().value)
    values[1][2] = 7
    assert tensor.to_numpy()[1, 2] == 7


def test_repr() -> None:
    text = repr(LiteTensor(LiteLayout([2], "int8")))
    assert "'shapes': [2]" in text
    assert "LITE_CPU" in text


# ---- slices


@pytest.mark.parametrize(
    ("start", "end", "step", "expected"),
    [
        ([1], [3], None, np.s_[1:3]),
        ([0], [99], None, np.s_[0:99]),
        ([-2], [99], None, np.s_[-2:99]),
        ([2], [2], None, np.s_[2:2]),
        ([3], [1], None, np.s_[3:1]),
        ([0, 1], [4, 8], [2, 3], np.s_[0:4:2, 1:8:3]),
        ((1, 1), (3, 3), (1, 1), np.s_[1:3, 1:3]),
        ([], [], None, np.s_[:]),
    ],
)
def test_slice(start: Any, end: Any, step: Any, expected: Any) -> None:
    tensor = filled([4, 8])
    part = tensor.slice(start, end, step)
    wanted = tensor.get_data_by_share()[expected]
    assert part.layout.shapes == list(wanted.shape)
    assert part.nbytes == wanted.nbytes
    assert np.array_equal(part.to_numpy(), wanted)


def test_slice_errors() -> None:
    tensor = filled([4, 8])
    with pytest.raises(RuntimeError, match="step is 0"):
        tensor.slice([0], [1], [0])
    with pytest.raises(RuntimeError, match="3 axes"):
        tensor.slice([0] * 3, [1] * 3)
    with pytest.raises(AssertionError):
        tensor.slice([0, 0], [1])
    with pytest.raises(AssertionError):
        tensor.slice([0, 0], [1, 1], [1])
    with pytest.raises(RuntimeError, match="1 axes of a tensor that has 0"):
        LiteTensor().slice([0], [1])


def test_a_slice_is_part_of_its_parent() -> None:
    tensor = filled([4, 8])
    rows = tensor.slice([1], [3])
    assert rows.is_continue
    rows.set_data_by_copy(np.full([2, 8], 7, "int32"))
    block = tensor.slice([0, 6], [4, 8])
    assert not block.is_continue
    block.fill_zero()
    expected = np.arange(32).reshape(4, 8)
    expected[1:3] = 7
    expected[:, 6:] = 0
    assert np.array_equal(tensor.to_numpy(), expected)
    block.copy_from(filled([4, 2]))
    expected[:, 6:] = np.arange(8).reshape(4, 2)
    assert np.array_equal(tensor.to_numpy(), expected)


def test_a_slice_keeps_the_memory_alive() -> None:
    array = np.arange(32, dtype="int32").reshape(4, 8)
    tensor = LiteTensor()
    tensor.set_data_by_share(array)
    gone = weakref.ref(tensor)
    part = tensor.slice([1, 1], [3, 3])
    expected = array[1:3, 1:3].copy()
    del tensor, array
    gc.collect()
    assert gone() is None
    assert np.array_equal(part.to_numpy(), expected)


def test_data_of_a_slice_with_gaps_is_shared_as_it_lies() -> None:
    """The vendor's library gives the elements that follow the first one in memory."""
    tensor = filled([4, 8])
    part = tensor.slice([1, 4], [3, 8]).get_data_by_share()
    assert np.array_equal(part, np.arange(32).reshape(4, 8)[1:3, 4:8])
    part[:] = -1
    assert (tensor.to_numpy()[1:3, 4:8] == -1).all()


def test_a_slice_with_gaps_takes_no_other_layout() -> None:
    part = filled([4, 8]).slice([0, 0], [4, 2])
    with pytest.raises(AssertionError, match="gaps"):
        part.set_data_by_copy(np.zeros([4, 2], "int32"))
    with pytest.raises(AssertionError, match="gaps"):
        part.set_data_by_share(np.zeros([4, 2], "int32"))
    with pytest.raises(RuntimeError, match="gaps"):
        part.layout = [2, 2]
    with pytest.raises(RuntimeError, match="gaps"):
        part.copy_from(np.zeros([2, 2], "int32"))
    with pytest.raises(RuntimeError, match="gaps"):
        part.copy_from(np.zeros([4, 2], "int8"))


def test_reshape_of_a_slice_with_gaps() -> None:
    """The vendor's library silently takes other elements."""
    tensor = filled([4, 2, 8])
    part = tensor.slice([0, 0, 0], [4, 2, 4])
    part.reshape([8, 4])
    assert np.array_equal(part.to_numpy(), tensor.to_numpy()[:, :, :4].reshape(8, 4))
    part.fill_zero()
    assert not tensor.to_numpy()[:, :, :4].any(), "still the parent's"
    with pytest.raises(RuntimeError, match="gaps"):
        part.reshape([32])
    assert part.layout.shapes == [8, 4]


# ---- reshape


def test_reshape() -> None:
    tensor = filled([4, 8])
    for shape in ([32], [2, -1], (8, 2, 2), [-1, 1]):
        tensor.reshape(shape)
        assert np.array_equal(tensor.to_numpy(), np.arange(32).reshape(shape))


@pytest.mark.parametrize("shape", [[0], [0, -1], [-1, -1], [31], [5, -1], [], [1] * 6 + [32], [-2, -16], [1.5], 32])
def test_reshape_errors(shape: Any) -> None:
    tensor = filled([4, 8])
    with pytest.raises(RuntimeError, match="reshape"):
        tensor.reshape(shape)
    assert tensor.layout.shapes == [4, 8]


# ---- copies


def test_copy_from_takes_the_layout_dtype_included() -> None:
    """The vendor's library raises for another dtype, though it documents this."""
    target = filled([2], "float32")
    target.copy_from(filled([4, 8], "int8"))
    assert target.layout == LiteLayout([4, 8], "int8")
    assert np.array_equal(target.to_numpy(), np.arange(32, dtype="int8").reshape(4, 8))
    with pytest.raises(AssertionError, match="LiteTensor"):
        target.copy_from([1, 2])  # type: ignore[arg-type]


def test_copy_from_itself_shifted() -> None:
    tensor = filled([8])
    tensor.slice([1], [8]).copy_from(tensor.slice([0], [7]))
    assert tensor.to_numpy().tolist() == [0, 0, 1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_goes_in_and_out(dtype: str) -> None:
    """float16 and uint16 included, which the vendor's library documents and refuses."""
    values = np.array([[1, 2], [3, 100]], dtype)
    tensor = LiteTensor(LiteLayout([2, 2], dtype))
    tensor.set_data_by_copy(values)
    assert tensor.to_numpy().dtype == dtype
    assert np.array_equal(tensor.to_numpy(), values)
    tensor.set_data_by_copy([4, 5, 6])
    assert tensor.to_numpy().tolist() == [[4, 5], [6, 100]]
    tensor.set_data_by_share(values)
    assert np.shares_memory(tensor.get_data_by_share(), values)
    assert tensor.slice([0, 1], [2, 2]).to_numpy().tolist() == [[2], [100]]
    assert LiteTensorConcat([tensor, tensor], 1).to_numpy().shape == (2, 4)


def test_a_list_shorter_than_the_tensor_leaves_the_rest() -> None:
    """The vendor's library reads past the end of the list."""
    tensor = filled([6])
    tensor.set_data_by_copy([9, 9])
    tensor.set_data_by_copy([])
    assert tensor.to_numpy().tolist() == [9, 9, 2, 3, 4, 5]
    with pytest.raises(AssertionError, match="7 numbers for a tensor of 6"):
        tensor.set_data_by_copy([0] * 7)


def test_lists_convert_as_in_c() -> None:
    tensor = LiteTensor(LiteLayout([2], "int8"))
    tensor.set_data_by_copy([300, -129])
    assert tensor.to_numpy().tolist() == [44, 127]
    with pytest.raises(TypeError):
        tensor.set_data_by_copy([1.5])
    tensor = LiteTensor(LiteLayout([2]))
    tensor.set_data_by_copy([1, 2.5])
    assert tensor.to_numpy().tolist() == [1, 2.5]


def test_an_array_brings_its_layout() -> None:
    tensor = filled([4])
    tensor.set_data_by_copy(np.ones([2, 3], "uint8"))
    assert tensor.layout == LiteLayout([2, 3], "uint8")
    for dtype in ("float64", "int64", "bool"):
        with pytest.raises(KeyError):
            tensor.set_data_by_copy(np.ones(2, dtype))
    with pytest.raises(RuntimeError, match="without axes"):
        tensor.set_data_by_copy(np.array(1, "int8"))
    with pytest.raises(AssertionError, match="contiguous"):
        tensor.set_data_by_copy(np.ones([4, 4], "int8").T[1:])
    assert tensor.layout == LiteLayout([2, 3], "uint8"), "a refused array changes nothing"


@pytest.mark.parametrize("data", [b"1234", (1, 2), np.int32(1), "12", None, 1.5, True])
def test_what_cannot_be_copied(data: Any) -> None:
    with pytest.raises((AssertionError, RuntimeError)):
        LiteTensor(LiteLayout([2], "int8")).set_data_by_copy(data)


def test_copy_from_an_address() -> None:
    source = np.arange(6, dtype="int16")
    for address in (ctypes.c_void_p(source.ctypes.data), source.ctypes.data):
        tensor = LiteTensor(LiteLayout([6], "int16"))
        with pytest.raises(AssertionError, match="data_length"):
            tensor.set_data_by_copy(address)
        with pytest.raises(AssertionError, match="data_length"):
            tensor.set_data_by_copy(address, 11)
        tensor.set_data_by_copy(address, 12)
        assert np.array_equal(tensor.to_numpy(), source)
        tensor.set_data_by_copy(address, layout=LiteLayout([2, 2], "int16"))
        assert tensor.to_numpy().tolist() == [[0, 1], [2, 3]]
    for null in (0, ctypes.c_void_p(), ctypes.c_void_p(0)):
        with pytest.raises(RuntimeError, match="null"):
            LiteTensor(LiteLayout([1])).set_data_by_copy(null, 4)


def test_to_numpy_is_a_copy() -> None:
    tensor = filled([4])
    tensor.to_numpy()[:] = 9
    assert tensor.to_numpy().tolist() == [0, 1, 2, 3]


def test_int64_is_for_tensors_that_have_it() -> None:
    tensor = LiteTensor(LiteLayout([2], "int64"))
    tensor.set_data_by_copy(np.array([1, 2**40]))
    assert tensor.to_numpy().tolist() == [1, 2**40]


# ---- shared data


def test_a_shared_array_is_the_tensors_memory_and_stays_alive() -> None:
    array = np.arange(6, dtype="int32")
    held = sys.getrefcount(array)
    tensor = LiteTensor(LiteLayout([6], "int32"))
    tensor.set_data_by_share(array)
    assert sys.getrefcount(array) > held
    assert tensor.get_ctypes_memory().value == array.ctypes.data
    tensor.set_data_by_copy([7])
    assert array[0] == 7, "a copy into shared memory writes there"
    tensor.layout = [99]
    assert sys.getrefcount(array) == held


def test_sharing_as_many_bytes_keeps_the_layout() -> None:
    tensor = LiteTensor(LiteLayout([2, 2], "int8"))
    tensor.set_data_by_share(np.array([258], "int32"))
    assert tensor.to_numpy().tolist() == [[2, 1], [0, 0]]


def test_sharing_other_bytes_takes_the_arrays_layout() -> None:
    """The vendor's library takes the shape and forgets the dtype."""
    tensor = LiteTensor(LiteLayout([2, 2], "int8"))
    tensor.set_data_by_share(np.arange(6, dtype="float32").reshape(2, 3))
    assert tensor.layout == LiteLayout([2, 3], "float32")
    assert tensor.to_numpy().tolist() == [[0, 1, 2], [3, 4, 5]]


def test_sharing_errors() -> None:
    tensor = filled([4])
    with pytest.raises(ctypes.ArgumentError):
        tensor.set_data_by_share([1, 2, 3, 4])  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match="contiguous"):
        tensor.set_data_by_share(np.zeros([4, 4], "int32")[:, 1])
    with pytest.raises(AssertionError, match="bytes"):
        tensor.set_data_by_share(np.zeros(4, "int32"), 99)
    with pytest.raises(AssertionError, match="the layout has 64 bytes, the array 16"):
        tensor.set_data_by_share(np.zeros(4, "int32"), layout=LiteLayout([16], "int32"))
    with pytest.raises(KeyError):
        tensor.set_data_by_share(np.zeros(4, "float64"))


def test_sharing_an_address() -> None:
    array = np.arange(8, dtype="int16")
    tensor = LiteTensor(LiteLayout([4], "int16"))
    tensor.set_data_by_share(array.ctypes.data)
    tensor.fill_zero()
    assert array.tolist() == [0, 0, 0, 0, 4, 5, 6, 7]
    tensor.set_data_by_share(ctypes.c_void_p(array.ctypes.data), 8 * 2, LiteLayout([2, 4], "int16"))
    assert tensor.to_numpy().tolist() == [[0, 0, 0, 0], [4, 5, 6, 7]]
    with pytest.raises(AssertionError, match="16 bytes, not 3"):
        tensor.set_data_by_share(array.ctypes.data, 3)
    with pytest.raises(RuntimeError, match="null"):
        tensor.set_data_by_share(0, 16)


def test_read_only_memory_is_not_written() -> None:
    array = np.arange(4, dtype="int32")
    array.flags.writeable = False
    tensor = LiteTensor()
    tensor.set_data_by_share(array)
    assert tensor.to_numpy().tolist() == [0, 1, 2, 3]
    for write in (tensor.fill_zero, lambda: tensor.set_data_by_copy([1]), lambda: tensor.copy_from(filled([4]))):
        with pytest.raises(RuntimeError, match="read-only"):
            write()


def test_share_memory_with() -> None:
    source = filled([4, 8], "int16")
    other = LiteTensor(LiteLayout([3]), is_pinned_host=True, device_id=3)
    other.share_memory_with(source)
    assert other.layout == source.layout
    assert (other.is_pinned_host, other.device_id) == (False, 0)
    other.fill_zero()
    assert not source.to_numpy().any()
    with pytest.raises(AssertionError):
        other.share_memory_with([1])  # type: ignore[arg-type]


# ---- concatenation


@pytest.mark.parametrize("dim", [0, 1, -1, -2])
def test_concat(dim: int) -> None:
    """The vendor's library crashes for a negative axis."""
    parts = [filled([2, 3]), filled([2, 3])]
    found = LiteTensorConcat(parts, dim)
    assert np.array_equal(found.to_numpy(), np.concatenate([part.to_numpy() for part in parts], dim))


def test_concat_edges() -> None:
    assert LiteTensorConcat([], 0).layout.ndim == 0
    assert LiteTensorConcat([filled([2], device_type=CUDA)], 0).device_type == CUDA
    assert LiteTensorConcat([filled([2])], 0, CUDA, 0).device_type == CUDA
    assert LiteTensorConcat([np.ones(2, "int8"), filled([1], "int8")], 0).to_numpy().tolist() == [1, 1, 0]
    for parts, dim in (
        ([filled([2, 3])], 2),
        ([filled([2, 3])], -3),
        ([filled([2, 3]), filled([2, 4])], 0),
        ([filled([2, 3]), filled([2])], 0),
        ([filled([2]), filled([2], "int8")], 0),
        ([LiteTensor()], 0),
    ):
        with pytest.raises(RuntimeError):
            LiteTensorConcat(parts, dim)


# ---- devices


def test_a_device_has_memory_of_its_own() -> None:
    host, device = filled([2, 3]), LiteTensor(LiteLayout([2, 3], "int32"), CUDA)
    device.copy_from(host)
    host.fill_zero()
    assert np.array_equal(device.to_numpy(), np.arange(6).reshape(2, 3))
    host.copy_from(device)
    assert host.to_numpy()[1, 2] == 5
    for touch in (
        device.get_data_by_share,
        lambda: device.set_data_by_share(np.zeros(6, "int32")),
    ):
        with pytest.raises(AssertionError, match="device"):
            touch()
    # As the vendor's own tests do.
    device.set_data_by_copy([7])
    assert device.to_numpy().tolist() == [[7, 1, 2], [3, 4, 5]]
    device.set_data_by_copy(np.arange(6, 0, -1, dtype="int32").reshape(2, 3))
    assert device.to_numpy().tolist() == [[6, 5, 4], [3, 2, 1]]
    for tensor, other in ((device, host), (host, device)):
        with pytest.raises(RuntimeError, match="no memory in common"):
            tensor.share_memory_with(other)
    device.fill_zero()
    assert not device.to_numpy().any()
    part = filled([2, 3], device_type=CUDA).slice([0, 1], [2, 3])
    assert part.device_type == CUDA
    assert part.to_numpy().tolist() == [[1, 2], [4, 5]]
    twin = LiteTensor(device_type=CUDA)
    twin.share_memory_with(part)
    twin.fill_zero()
    assert not part.to_numpy().any()


def test_pinned_memory_is_for_both_sides() -> None:
    pinned = LiteTensor(LiteLayout([4], "int32"), CUDA, 0, True)
    pinned.set_data_by_copy([1, 2, 3, 4])
    pinned.set_data_by_share(np.array([4, 3, 2, 1], "int32"))
    assert pinned.get_data_by_share().tolist() == [4, 3, 2, 1]
    device = LiteTensor(device_type=CUDA)
    device.copy_from(pinned)
    assert device.to_numpy().tolist() == [4, 3, 2, 1]


def test_an_address_on_a_device_is_the_users_business() -> None:
    array = np.arange(4, dtype="int32")
    device = LiteTensor(LiteLayout([4], "int32"), CUDA)
    device.set_data_by_share(ctypes.c_void_p(array.ctypes.data), 16)
    assert device.get_ctypes_memory().value == array.ctypes.data


def test_devices_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRIUNE_LITE_DEVICES")
    with pytest.raises(RuntimeError, match="TRIUNE_LITE_DEVICES=cuda=1"):
        LiteTensor(device_type=CUDA)
    monkeypatch.setenv("TRIUNE_LITE_DEVICES", "cuda=1")
    LiteTensor(device_type=LiteDeviceType.LITE_NPU)
    for kind, number in ((CUDA, 1), (CUDA, -1), (LiteDeviceType.LITE_ATLAS, 0), (LiteDeviceType.LITE_CAMBRICON, 0)):
        with pytest.raises(RuntimeError, match="no device"):
            LiteTensor(device_type=kind, device_id=number)
    monkeypatch.setenv("TRIUNE_LITE_DEVICES", "cuda=2 atlas=1")
    LiteTensor(device_type=CUDA, device_id=1)
    LiteTensor(device_type=LiteDeviceType.LITE_ATLAS)
    monkeypatch.setenv("TRIUNE_LITE_DEVICES", "cuda=many")
    with pytest.raises(RuntimeError, match="TRIUNE_LITE_DEVICES"):
        LiteTensor(device_type=CUDA)
    with pytest.raises(RuntimeError, match="LiteDeviceType"):
        LiteTensor(device_type=99)


# ---- numpy and friends


def test_numpy_takes_tensors() -> None:
    tensor = filled([2, 3])
    assert np.shares_memory(np.asarray(tensor), tensor.get_data_by_share())
    assert np.asarray(tensor, "float64").dtype == np.float64
    assert not np.shares_memory(np.array(tensor, copy=True), tensor.get_data_by_share())
    assert np.asarray(filled([2], device_type=CUDA)).tolist() == [0, 1]
    assert np.add(tensor, 1).sum() == 21


@pytest.mark.skipif(sys.version_info < (3, 12), reason="buffers of Python classes came with 3.12")
def test_memoryview() -> None:
    tensor = filled([2, 3])
    view = memoryview(tensor)  # type: ignore[arg-type, unused-ignore]
    assert view.shape == (2, 3)
    with pytest.raises(BufferError):
        memoryview(filled([2], device_type=CUDA))  # type: ignore[arg-type, unused-ignore]


def test_dlpack() -> None:
    tensor = filled([2, 3], "float32")
    array = np.from_dlpack(tensor)
    assert np.shares_memory(array, tensor.get_data_by_share())
    other = LiteTensor()
    other.set_data_by_share(tensor)
    assert np.shares_memory(other.get_data_by_share(), array)
    other.set_data_by_copy(filled([3], "int8"))
    assert other.layout == LiteLayout([3], "int8")

    class Exporter:
        """What another library hands over."""

        def __dlpack__(self, **options: Any) -> Any:
            return array.__dlpack__(**options)

        def __dlpack_device__(self) -> tuple[int, int]:
            return array.__dlpack_device__()

    third = LiteTensor()
    third.set_data_by_share(Exporter())  # type: ignore[arg-type]
    assert third.get_ctypes_memory().value == array.ctypes.data
    third.copy_from(Exporter())  # type: ignore[arg-type]
    for device in (filled([2], device_type=CUDA), LiteTensor(device_type=CUDA)):
        with pytest.raises(BufferError):
            device.__dlpack__()
        with pytest.raises(BufferError):
            device.__dlpack_device__()


def test_a_tensor_is_a_context_manager() -> None:
    with filled([2]) as tensor:
        gone = weakref.ref(tensor.get_data_by_share().base)  # type: ignore[arg-type]
    assert tensor.layout.shapes == [2]
    gc.collect()
    assert gone() is None
