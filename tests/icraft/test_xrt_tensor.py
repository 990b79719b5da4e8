"""Tensors of `triune.icraft.xrt`: where they lie, when they are ready, what they write."""

from __future__ import annotations

import datetime
import io
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from triune.icraft.xir import (
    BoolType,
    CalibratedType,
    Error,
    ExpQuantizedScaleArray,
    FloatType,
    IntegerType,
    InternalError,
    Layout,
    MergedAxisDistr,
    NormalizedQuantizedType,
    NormalizedType,
    Params,
    QuantizedScaleArray,
    QuantizedType,
    ScalarType,
    TensorType,
    Value,
)
from triune.icraft.xrt import HostDevice, HostMemRegion, MemChunk, MemPtr, Tensor

FP32 = FloatType.FP32()
SINT8 = IntegerType.SInt8()
MS = datetime.timedelta(milliseconds=1)


def region() -> HostMemRegion:
    return HostDevice.MemRegion()


# ---- the vendor's documented example, step by step


def test_a_tensor_in_a_chunk() -> None:
    ttype = TensorType(FP32, [1, 416, 416, 3], Layout("NHWC"))
    chunk = region().malloc(ttype.bytes())
    tensor = Tensor(ttype, chunk)
    assert tensor.data() == chunk.begin
    assert tensor.isReady()
    assert tensor.isOn(region())
    assert tensor.memRegion().same_as(region())
    assert tensor.to(region()).same_as(tensor)
    assert tensor.chunk().same_as(chunk)
    assert tensor.offset() == 0

    weight = Params(ttype).fill(lambda i: float(i))
    copy = Tensor(weight)
    assert copy.dtype() == weight.dtype
    tensor.fill(lambda i: float(i))
    assert np.array_equal(np.asarray(tensor), np.asarray(copy))


def test_a_tensor_keeps_its_chunk() -> None:
    deleted: list[MemPtr] = []
    ttype = TensorType(SINT8, [8], Layout("*"))
    one, two = Tensor(ttype), Tensor(ttype)
    assert not one.hasData()
    chunk = region().malloc(MemPtr(bytearray(8)), 8, deleted.append)
    one.setData(chunk)
    two.setData(chunk)
    del chunk
    assert one.hasData()
    del one
    assert not deleted
    del two
    assert len(deleted) == 1


def test_a_tensor_waits_to_be_ready() -> None:
    ready = False
    asked: list[object] = []

    def check(device: object) -> bool:
        asked.append(device)
        return ready

    tensor = Tensor(TensorType(FloatType.FP16(), [1, 2, 3, 4], Layout("NHWC")), check).mallocOn(region())
    assert not tensor.isReady()
    assert not tensor.waitForReady(20 * MS, MS)
    assert asked[0] is HostDevice.Default()
    ready = True
    assert tensor.waitForReady(20 * MS)
    assert tensor.isReady()
    ready = False
    assert tensor.isReady()
    tensor.setReady(False)
    assert not tensor.isReady()
    tensor.setCheckFunc(lambda device: True)
    assert tensor.isReady()


# ---- waiting


def test_other_threads_run_while_one_waits() -> None:
    flag = threading.Event()
    tensor = Tensor(TensorType(FP32, [1], Layout("*")), lambda device: flag.is_set()).mallocOn(region())
    timer = threading.Timer(0.05, flag.set)
    timer.start()
    patience = datetime.timedelta(seconds=20)
    start = time.monotonic()
    assert tensor.waitForReady(patience)
    assert time.monotonic() - start < patience.total_seconds() / 2, "it was told, it did not give up"
    timer.join()


@pytest.mark.parametrize("use", [np.asarray, lambda tensor: tensor.dump(io.BytesIO(), "")])
def test_what_is_not_ready_in_time_is_an_error(use: Callable[[Tensor], object]) -> None:
    own = HostDevice()
    own.setWaitTime(20)
    memory = own.defaultMemRegion()
    tensor = Tensor(TensorType(FP32, [4], Layout("*")), lambda device: False).mallocOn(memory)
    with pytest.raises(InternalError, match=r"\[11015\].*not ready after 20 ms"):
        use(tensor)
    with pytest.raises(InternalError, match=r"\[11015\]"):
        tensor.to(region())


def test_a_copy_goes_to_another_region() -> None:
    memory = HostDevice().defaultMemRegion()
    tensor = Tensor(np.arange(6, dtype=np.int16), Layout("*"))
    copy = tensor.to(memory)
    assert copy.isOn(memory)
    assert not copy.isOn(region())
    assert np.asarray(copy).tolist() == [0, 1, 2, 3, 4, 5]
    np.asarray(copy)[0] = 9
    assert np.asarray(tensor)[0] == 0


# ---- what it is made of


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"])
def test_the_type_comes_from_the_buffer(dtype: str) -> None:
    array = np.array([[0, 1, 1]], dtype)
    tensor = Tensor(array, Layout("NC"))
    assert tensor.dtype().shape == [1, 3]
    assert tensor.dtype().layout.toString() == "NC"
    back = np.asarray(tensor)
    assert back.dtype == array.dtype
    assert np.array_equal(back, array)
    array[0, 0] = 1
    assert back[0, 0] == 0


def test_buffers_of_all_kinds_are_copied_in_c_order() -> None:
    strided = np.arange(24, dtype=np.float32).reshape(2, 3, 4).transpose(2, 0, 1)
    assert np.array_equal(np.asarray(Tensor(strided, Layout("***"))), strided)
    assert np.asarray(Tensor(memoryview(b"abc"))).tobytes() == b"abc"
    assert np.asarray(Tensor(bytearray(b"abc"), Layout("*"))).tobytes() == b"abc"
    assert bytes(Tensor(b"abc")) == b"abc"
    assert Tensor(np.float32(3)).dtype().shape == []


def test_a_type_says_what_a_buffer_is() -> None:
    ttype = TensorType(IntegerType.UInt16(), [2, 3], Layout("HW"))
    tensor = Tensor(np.arange(12, dtype=np.uint8), ttype)
    assert tensor.dtype().same_as(ttype)
    assert np.asarray(tensor)[0, 0] == 0x0100
    assert Tensor(b=np.zeros(12, np.uint8), dtype=ttype).hasData()
    with pytest.raises(InternalError, match=r"11 bytes for uint\(16\) \(2,3\)"):
        Tensor(np.zeros(11, np.uint8), ttype)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Tensor(np.zeros(3, np.complex64), Layout("*")),
        lambda: Tensor(np.zeros(3, ">f4"), Layout("*")),
        lambda: Tensor(np.zeros(3, np.float32), Layout("NHWC")),
        lambda: Tensor(3.0, Layout("*")),
        lambda: Tensor([1, 2], Layout("*")),
        lambda: Tensor(np.zeros(3, np.float32), "NHWC"),
        lambda: Tensor(Layout("NHWC")),
        lambda: Tensor(TensorType(FP32, [4], Layout("*")), region().malloc(15)),
        lambda: Tensor(TensorType(FP32, [4], Layout("*")), region().malloc(16), 1),
        lambda: Tensor(TensorType(FP32, [4], Layout("*")), region().malloc(16), -4),
        lambda: Tensor(TensorType(FP32, [-1], Layout("*")), region().malloc(16)),
        lambda: Tensor(TensorType(FP32, [-1], Layout("*"))).mallocOn(region()),
        lambda: Tensor(TensorType(FP32, [1 << 60], Layout("*"))).mallocOn(region()),
        lambda: Tensor(TensorType(FP32, [1], Layout("*")), region().malloc(4), 0, 3),
        lambda: Tensor(TensorType(FP32, [1], Layout("*")), MemChunk()),
    ],
)
def test_what_makes_no_tensor_is_an_error(make: Callable[[], Tensor]) -> None:
    with pytest.raises((InternalError, TypeError)):
        make()


def test_masked_arrays_are_refused() -> None:
    masked = np.ma.masked_equal(np.arange(4, dtype=np.float32), 2)
    chunk = region().malloc(16)
    takes: list[Callable[[], object]] = [
        lambda: Tensor(masked, Layout("*")),
        lambda: Params(masked, "p", Layout("*")),
        lambda: Params(np.zeros(4, np.float32), "p", Layout("*")).copyData(masked),
        lambda: chunk.write(0, masked, 16),
        lambda: chunk.read(masked, 0, 16),
    ]
    for take in takes:
        with pytest.raises(Error, match=r"a masked array .*filled"):
            take()


def test_parameters_are_shared_and_kept_from_writing() -> None:
    weight = Params(np.arange(4, dtype=np.float32), "w", Layout("O"))
    tensor = Tensor(weight)
    assert tensor.data().cptr() == weight.data().ctypes.data
    assert not np.asarray(tensor).flags.writeable
    with pytest.raises(InternalError, match="read-only"):
        tensor.write(0, b"0000", 4)
    assert not Tensor(Params(TensorType(FP32, [4], Layout("O")))).hasData()
    assert not Tensor(Value(TensorType(FP32, [4], Layout("O")))).hasData()


def test_a_tensor_lies_at_an_offset() -> None:
    chunk = region().malloc(16)
    tensor = Tensor(TensorType(IntegerType.SInt32(), [2], Layout("*")), chunk, 8)
    tensor.fill(lambda i: i + 1)
    target = np.zeros(4, np.int32)
    chunk.read(target, 0, 16)
    assert target.tolist() == [0, 0, 1, 2]
    assert tensor.data() - chunk.begin == 8
    tensor.setData(chunk, 4)
    assert np.asarray(tensor).tolist() == [0, 1]
    assert tensor.clone() == tensor
    assert tensor.clone().chunk().same_as(chunk)
    assert Tensor(TensorType(IntegerType.SInt32(), [2], Layout("*")), chunk) != tensor


def test_a_tensor_may_lie_at_any_byte() -> None:
    chunk = region().malloc(9)
    tensor = Tensor(TensorType(FP32, [2], Layout("*")), chunk, 1)
    tensor.fill(lambda i: i + 0.5)
    np.asarray(tensor)[1] = 7
    target = np.zeros(2, np.float32)
    chunk.read(target, 1, 8)
    assert target.tolist() == [0.5, 7]


def test_the_type_can_be_set_if_the_memory_suffices() -> None:
    tensor = Tensor(np.zeros(6, np.float32), Layout("*"))
    tensor.setDType(TensorType(FP32, [2, 3], Layout("HW")))
    assert np.asarray(tensor).shape == (2, 3)
    with pytest.raises(InternalError, match=r"fp\(32\) \(7\)"):
        tensor.setDType(TensorType(FP32, [7], Layout("*")))
    assert tensor.dtype().shape == [2, 3]


def test_bytes_are_read_and_written_within_bounds() -> None:
    tensor = Tensor(np.arange(4, dtype=np.uint8), Layout("*"))
    target = bytearray(4)
    tensor.read(target, 1, 3)
    assert target == b"\1\2\3\0"
    tensor.write(2, b"ab", 2)
    assert bytes(tensor) == b"\0\1ab"
    other = Tensor(np.zeros(4, np.uint8), Layout("*"))
    other.copyFrom(1, tensor, 0, 3)
    assert bytes(other) == b"\0\0\1a"
    other.copyData(np.arange(4, dtype=np.uint8))
    assert bytes(other) == b"\0\1\2\3"
    fresh = Tensor(TensorType(IntegerType.UInt8(), [2], Layout("*")))
    fresh.copyData(b"xy")
    assert bytes(fresh) == b"xy"
    for wrong in (
        lambda: tensor.read(bytearray(9), 0, 5),
        lambda: tensor.write(3, b"ab", 2),
        lambda: tensor.copyFrom(2, other, 0, 3),
        lambda: tensor.copyFrom(0, other, 3, 2),
        lambda: tensor.copyData(b"abc"),
    ):
        with pytest.raises(InternalError, match="11003"):
            wrong()


def test_what_needs_data_says_so() -> None:
    tensor = Tensor(TensorType(FP32, [4], Layout("*")))
    assert not tensor.chunk().defined()
    assert not tensor.isOn(region())
    for use in (
        tensor.data,
        tensor.memRegion,
        lambda: tensor.read(bytearray(4), 0, 4),
        lambda: tensor.fill(float),
        lambda: tensor.to(region()),
        lambda: tensor.waitForReady(MS),
        lambda: np.asarray(tensor),
        lambda: tensor.dump(io.BytesIO()),
    ):
        with pytest.raises(InternalError, match="no chunk allocated"):
            use()
    assert not Tensor().defined()
    assert Tensor.Init().defined()


@pytest.mark.parametrize(
    ("element", "value"),
    [(SINT8, 128), (SINT8, 1.5), (IntegerType.UInt8(), -1), (FP32, 1e39), (FP32, "x"), (SINT8, None)],
)
def test_filling_takes_what_fits(element: ScalarType, value: Any) -> None:
    tensor = Tensor(TensorType(element, [2], Layout("*"))).mallocOn(region())
    with pytest.raises(InternalError, match=r"Tensor\.fill"):
        tensor.fill(lambda i: value)


# ---- dumps


def dumped(tensor: Tensor, form: str) -> bytes:
    stream = io.BytesIO()
    tensor.dump(stream, form)
    return stream.getvalue()


def floats(tensor: Tensor, form: str) -> npt.NDArray[np.float32]:
    return np.frombuffer(dumped(tensor, form), np.float32)


def test_plain_numbers_in_every_format() -> None:
    array = np.array([[1, -2], [3, 4]], np.float32) / 3
    tensor = Tensor(array, Layout("HW"))
    for form in ("", "HFB", "SFB"):
        assert dumped(tensor, form) == array.tobytes()
    text = dumped(tensor, "SFT").decode().split()
    assert text == ["0.333333343", "-0.666666687", "1", "1.33333337"]
    assert np.array_equal(np.array(text, np.float32), array.reshape(-1))
    for form in ("HQB", "SQT"):
        with pytest.raises(InternalError, match="not quantized"):
            dumped(tensor, form)
    whole = Tensor(np.array([1, -2], np.int8), Layout("*"))
    assert dumped(whole, "HQB") == b"\x01\xfe"
    assert dumped(whole, "HQT") == b"1\n-2\n"
    assert floats(whole, "HFB").tolist() == [1, -2]


@pytest.mark.parametrize("form", ["X", "SFX", "sfb", "SF", "SFBB", "FSB", "\n"])
def test_formats_that_there_are_not(form: str) -> None:
    with pytest.raises(InternalError, match="no format"):
        dumped(Tensor(np.zeros(1, np.float32)), form)


def test_quantized_numbers_become_reals() -> None:
    stored = np.array([[-128, 0], [5, 127]], np.int8)

    def tensor(element: ScalarType) -> Tensor:
        return Tensor(stored, TensorType(element, [2, 2], Layout("NC")))

    scale = np.float32(0.1)
    one = tensor(QuantizedType(QuantizedScaleArray([0.1], -1), [3], SINT8))
    assert np.array_equal(floats(one, "SFB").reshape(2, 2), (stored.astype(np.float32) - 3) * scale)
    assert dumped(one, "SQB") == stored.tobytes()
    each = tensor(QuantizedType(QuantizedScaleArray([0.5, 2.0], -1), [1, -1], SINT8))
    assert floats(each, "HFB").tolist() == [-64.5, 2, 2, 256]
    outer = tensor(QuantizedType(QuantizedScaleArray([0.5, 2.0], 0), SINT8))
    assert floats(outer, "HFB").tolist() == [-64, 0, 10, 254]
    fixed = tensor(QuantizedType(ExpQuantizedScaleArray([3], [1], [1.4999], -1), SINT8))
    assert floats(fixed, "HFB").tolist() == [-192, 0, 7.5, 190.5]
    normal = tensor(NormalizedQuantizedType([0.25, 0.5], QuantizedScaleArray([2.0], -1), SINT8))
    assert floats(normal, "HFB").tolist() == [-64, 0, 2.5, 127]
    wrong = tensor(QuantizedType(QuantizedScaleArray([0.5, 2.0, 1.0], -1), SINT8))
    with pytest.raises(InternalError, match="3 scales along axis -1"):
        dumped(wrong, "SFB")


def test_formats_that_numpy_lacks() -> None:
    values = np.array([0.0, -1.5, 3e38, 2.0**-130], np.float32)
    brain = Tensor((values.view(np.uint32) >> 16).astype(np.uint16), TensorType(FloatType.BF16(), [4], Layout("*")))
    assert np.asarray(brain).dtype == np.uint16
    assert np.array_equal(floats(brain, "SFB"), (values.view(np.uint32) & 0xFFFF0000).view(np.float32))
    with pytest.raises(InternalError, match="not quantized"):
        dumped(brain, "SQB")
    # 6 bits of exponent (bias 31), 9 of mantissa: 1.5, -2, the smallest number.
    small = np.array([31 << 9 | 256, 1 << 15 | 32 << 9, 1], np.uint16)
    tensor = Tensor(small, TensorType(FloatType.FPE6M9(), [3], Layout("*")))
    assert floats(tensor, "SFB").tolist() == [1.5, -2, 2.0**-39]
    # 7 bits (bias 63) and 8.
    small = np.array([63 << 8 | 128, 1 << 15 | 64 << 8, 1], np.uint16)
    tensor = Tensor(small, TensorType(FloatType.FPE7M8(), [3], Layout("*")))
    assert floats(tensor, "SFB").tolist() == [1.5, -2, 2.0**-70]
    half = Tensor(np.array([1.5], np.float16), Layout("*"))
    assert floats(half, "SFB").tolist() == [1.5]
    truth = Tensor(np.array([True, False]), TensorType(BoolType(), [2], Layout("*")))
    assert floats(truth, "SFB").tolist() == [1, 0]


def test_types_that_keep_their_numbers() -> None:
    array = np.array([1.0, -2.0], np.float32)
    calibrated = TensorType(CalibratedType(-2.0, 1.0, 2.0, SINT8), [2], Layout("*"))
    assert np.asarray(Tensor(array, calibrated)).dtype == np.float32
    assert floats(Tensor(array, calibrated), "SFB").tolist() == [1, -2]
    normalized = TensorType(NormalizedType([0.5], FP32), [2], Layout("*"))
    assert floats(Tensor(array, normalized), "SFB").tolist() == [0.5, -1]


def blocked(array: npt.NDArray[Any], block: int) -> npt.NDArray[Any]:
    """Return NHWC as NCHWc with `block` channels to a block, the rest filled with 99."""
    n, h, w, c = array.shape
    blocks = -(-c // block)
    padded = np.full((n, h, w, blocks * block), 99, array.dtype)
    padded[..., :c] = array
    return np.ascontiguousarray(padded.reshape(n, h, w, blocks, block).transpose(0, 3, 1, 2, 4))


def distribution(axes: list[int], sections: list[tuple[int, bool]]) -> MergedAxisDistr:
    found = MergedAxisDistr(axes)
    for count, valid in sections:
        found.append(count, valid)
    return found


def test_software_sees_blocked_feature_maps_channels_last() -> None:
    array = np.arange(2 * 3 * 4 * 10, dtype=np.int8).reshape(2, 3, 4, 10)
    hardware = blocked(array, 4)
    element = QuantizedType(QuantizedScaleArray([0.5] * 6 + [2.0] * 6, -1), SINT8)
    distr = distribution([1, 4], [(10, True), (2, False)])
    tensor = Tensor(hardware, TensorType(element, list(hardware.shape), Layout("NCHWc4"), [distr]))
    assert dumped(tensor, "HQB") == hardware.tobytes() == dumped(tensor, "")
    assert dumped(tensor, "SQB") == array.tobytes()
    reals = array * np.array([0.5] * 6 + [2.0] * 4, np.float32)
    assert np.array_equal(floats(tensor, "SFB").reshape(array.shape), reals)
    assert dumped(tensor, "SQT").split()[:3] == [b"0", b"1", b"2"]


def test_software_drops_every_invalid_channel() -> None:
    array = np.arange(8, dtype=np.int8).reshape(1, 1, 1, 8)
    split = distribution([1, 4], [(1, False), (3, True), (2, False), (2, True)])
    tensor = Tensor(blocked(array, 4), TensorType(SINT8, [1, 2, 1, 1, 4], Layout("NCHWc4"), [split]))
    assert np.frombuffer(dumped(tensor, "SQB"), np.int8).tolist() == [1, 2, 3, 6, 7]
    whole = distribution([3], [(5, True), (3, False)])
    padded = Tensor(array, TensorType(SINT8, [1, 1, 1, 8], Layout("NHWC"), [whole]))
    assert np.frombuffer(dumped(padded, "SQB"), np.int8).tolist() == [0, 1, 2, 3, 4]
    wrong = distribution([3], [(9, True)])
    with pytest.raises(InternalError, match="9 channels"):
        dumped(Tensor(array, TensorType(SINT8, [1, 1, 1, 8], Layout("NHWC"), [wrong])), "SQB")


def test_software_puts_blocked_weights_together() -> None:
    weights = np.arange(4 * 6 * 1 * 2, dtype=np.int8).reshape(4, 6, 1, 2)
    hardware = np.ascontiguousarray(weights.reshape(2, 2, 3, 2, 1, 2).transpose(0, 2, 4, 5, 1, 3))
    # Scales of all 4 output channels, along the inner part of their axis as the vendor's files have them.
    element = QuantizedType(QuantizedScaleArray([1.0, 2.0, 3.0, 4.0], 4), SINT8)
    tensor = Tensor(hardware, TensorType(element, list(hardware.shape), Layout("OIHWo2i2")))
    assert dumped(tensor, "SQB") == weights.tobytes()
    reals = weights * np.arange(1, 5, dtype=np.float32).reshape(4, 1, 1, 1)
    assert np.array_equal(floats(tensor, "SFB").reshape(weights.shape), reals)
