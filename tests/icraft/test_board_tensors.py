"""Tensors on devices: there and back, readiness, dumps, numpy."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Iterator
from datetime import timedelta

import numpy as np
import pytest

from triune.icraft.host_backend import HostBackend
from triune.icraft.xir import (
    FloatType,
    Framework,
    Input,
    IntegerType,
    InternalError,
    Layout,
    Network,
    Output,
    ReLU,
    TensorType,
)
from triune.icraft.xrt import ADDR, Device, HostDevice, Session, Tensor


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    device = Device.Open("axi://zg330aiu")
    yield device
    Device.Close(device)


def numbers() -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)


def test_there_and_back(device: Device) -> None:
    host = Tensor(numbers(), Layout("NHWC"))
    for name in ("plddr", "ocm", "udma"):
        region = device.getMemRegion(name)
        there = host.to(region)
        assert there.isOn(region)
        assert there.memRegion().same_as(region)
        assert there.to(region) is there
        assert there.dtype() == host.dtype()
        assert there.data().ptype() == ADDR
        back = there.to(HostDevice.MemRegion())
        assert np.array_equal(np.asarray(back), numbers())
    moved = host.to(device.defaultMemRegion()).to(device.getMemRegion("udma"))
    assert np.array_equal(np.array(moved), numbers())


def test_numpy_gets_a_copy(device: Device) -> None:
    there = Tensor(numbers(), Layout("NHWC")).to(device.defaultMemRegion())
    copy = np.array(there)
    copy[:] = 0
    assert np.array_equal(np.asarray(there), numbers())
    assert np.asarray(there, dtype=np.float64).dtype == np.float64
    assert bytes(there) == numbers().tobytes()
    with pytest.raises(ValueError, match="without a copy"):
        there.__array__(copy=False)
    with pytest.raises(BufferError, match="on a device"):
        there.__buffer__(0)
    with pytest.raises(InternalError, match="The MemPtr is of ADDR type!"):
        there.data().cptr()


def test_a_device_tensor_is_no_buffer_to_write_to(device: Device) -> None:
    there = Tensor(numbers(), Layout("NHWC")).to(device.defaultMemRegion())
    chunk = HostDevice.MemRegion().malloc(96)
    with pytest.raises(InternalError, match="can be written to"):
        chunk.read(there, 0, 96)
    chunk.write(0, there, 96)
    back = np.empty(24, np.float32)
    chunk.read(back, 0, 96)
    assert np.array_equal(back, numbers().ravel())
    chunk.read(Tensor(numbers(), Layout("NHWC")), 0, 96)


def test_reading_writing_and_filling(device: Device) -> None:
    dtype = TensorType(IntegerType.SInt8(), [1, 8], Layout("NC"))
    there = Tensor(dtype).mallocOn(device.getMemRegion("ocm")).fill(lambda index: index - 4)
    there.write(2, b"\x07", 1)
    got = bytearray(3)
    there.read(got, 1, 3)
    assert np.frombuffer(got, np.int8).tolist() == [-3, 7, -1]
    host = Tensor(np.full((1, 8), 9, np.int8), dtype)
    there.copyFrom(4, host, 0, 4)
    host.copyFrom(0, there, 0, 8)
    assert np.asarray(host).tolist() == [[-4, -3, 7, -1, 9, 9, 9, 9]]
    there.copyData(np.zeros((1, 8), np.int8))
    assert not np.array(there).any()
    with pytest.raises(InternalError, match="bytes 6 to 9 of 8"):
        there.read(got, 6, 3)


def test_a_place_in_a_chunk(device: Device) -> None:
    chunk = device.malloc(256)
    dtype = TensorType(FloatType.FP32(), [8], Layout("C"))
    there = Tensor(dtype, chunk, 64)
    there.write(0, np.arange(8, dtype=np.float32), 32)
    assert there.data() - chunk.begin == 64
    assert np.array(there).tolist() == list(range(8))
    with pytest.raises(InternalError, match="bytes 240 to 272"):
        Tensor(dtype, chunk, 240)


def test_dumps_are_those_of_the_host(device: Device) -> None:
    host = Tensor(numbers(), Layout("NHWC"))
    there = host.to(device.defaultMemRegion())
    for form in ("", "HFB", "SFB", "HFT", "SFT"):
        streams = [io.BytesIO(), io.BytesIO()]
        for tensor, stream in zip((host, there), streams, strict=True):
            tensor.dump(stream, form)
        assert streams[0].getvalue() == streams[1].getvalue() != b""


def test_check_functions_get_the_device(device: Device) -> None:
    dtype = TensorType(FloatType.FP32(), [8], Layout("C"))
    asked: list[Device] = []
    layers = device.readReg(0x0C, True)

    def check(given: Device) -> bool:
        asked.append(given)
        return given.readReg(0x0C, True) == layers and len(asked) > 2

    tensor = Tensor(dtype, device.malloc(32), 0, check)
    assert not tensor.isReady()
    assert tensor.waitForReady(timedelta(seconds=5))
    assert len(asked) == 3
    assert all(each is device for each in asked)
    assert tensor.isReady()
    assert len(asked) == 3


def test_waiting_is_cheap_and_ends_in_time(device: Device) -> None:
    tensor = Tensor(TensorType(FloatType.FP32(), [8], Layout("C")), device.malloc(32), 0, lambda _: False)
    wall, cpu = time.monotonic(), time.thread_time()
    assert tensor.waitForReady(timedelta(milliseconds=300)) is False
    wall, cpu = time.monotonic() - wall, time.thread_time() - cpu
    assert wall >= 0.3
    assert cpu < wall / 2, "half of the time at most, by far"
    calls = [0]

    def count(_: Device) -> bool:
        calls[0] += 1
        return False

    tensor.setCheckFunc(count)
    assert not tensor.waitForReady(timedelta(milliseconds=100), timedelta(milliseconds=20))
    assert 2 <= calls[0] <= 7
    assert not tensor.waitForReady(timedelta(0))


def test_a_tensor_gets_ready_while_it_is_waited_for(device: Device) -> None:
    ready = threading.Event()
    tensor = Tensor(TensorType(FloatType.FP32(), [8], Layout("C")), device.malloc(32), 0, lambda _: ready.is_set())
    timer = threading.Timer(0.1, ready.set)
    timer.start()
    assert tensor.waitForReady(timedelta(seconds=10))
    timer.join()
    assert tensor.isReady()


def test_copies_wait_as_long_as_the_device_says() -> None:
    device = Device.Open("sim://zg330")
    tensor = Tensor(TensorType(FloatType.FP32(), [8], Layout("C")), device.malloc(32), 0, lambda _: False)
    device.setWaitTime(30)
    for call in (
        lambda: tensor.to(HostDevice.MemRegion()),
        lambda: np.array(tensor),
        lambda: tensor.dump(io.BytesIO()),
    ):
        with pytest.raises(InternalError, match=r"\[11015\].*not ready after 30 ms"):
            call()
    with pytest.raises(InternalError, match="-1 milliseconds"):
        device.setWaitTime(-1)
    Device.Close(device)
    with pytest.raises(InternalError, match="has been closed"):
        tensor.setReady(True).to(HostDevice.MemRegion())


def test_sessions_on_the_host_read_and_write_device_tensors(device: Device) -> None:
    image = TensorType(FloatType.FP32(), [1, 2, 3, 4], Layout("NHWC"))
    network = Network("tiny", Framework.ONNX, "1.0")
    start = Input(image)
    relu = ReLU(start[0])
    for op in (start, relu, Output(relu[0])):
        network.addOp(op)
    session = Session.Create([HostBackend], network.view(0), [HostDevice.Default()])
    session.apply()
    data = numbers() - 12
    expected = np.maximum(data, 0)
    given = Tensor(data, Layout("NHWC")).to(device.getMemRegion("udma"))
    (result,) = session.forward([given])
    assert np.array_equal(np.asarray(result), expected)
    target = Tensor(image).mallocOn(device.defaultMemRegion())
    session.forward([given], [target])
    assert np.array_equal(np.array(target), expected)
    # The next one reads what this one left on the device.
    (again,) = session.forward([target])
    assert np.array_equal(np.asarray(again), expected)
