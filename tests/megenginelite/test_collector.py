"""`TensorBatchCollector` at its edges."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from triune.megenginelite import LiteDataType, LiteDeviceType, LiteLayout, LiteTensor, TensorBatchCollector

CPU = LiteDeviceType.LITE_CPU


@pytest.mark.parametrize("place", [CPU, LiteDeviceType.LITE_CUDA])
@pytest.mark.parametrize("shape", [[3, 2, 4], (3, 2, 4)])
@pytest.mark.parametrize("dtype", ["float16", "uint16", "float32", LiteDataType.LITE_INT])
def test_collect(place: LiteDeviceType, shape: Any, dtype: Any) -> None:
    """Tuples are shapes, too, which the vendor's class refuses when it collects."""
    collector = TensorBatchCollector(shape, dtype, place)
    sample = np.arange(8).reshape(2, 4).astype(LiteLayout([1], dtype).dtype)
    assert [collector.collect(sample + i) for i in range(3)] == [0, 1, 2]
    assert np.array_equal(collector.to_numpy(), np.stack([sample, sample + 1, sample + 2]))
    assert collector.get().device_type == place


def test_full_and_again() -> None:
    collector = TensorBatchCollector([2, 1], "int8", CPU)
    one = np.ones(1, "int8")
    assert (collector.collect(one), collector.collect(one)) == (0, 1)
    with pytest.warns(UserWarning, match="all batches are collected"):
        assert collector.collect(one) == -1
    with pytest.warns(UserWarning, match="all batches are collected"):
        assert collector.collect_by_ctypes(one.ctypes.data, 1) == -1
    with pytest.warns(UserWarning, match="batch 1 is collected already"):
        collector.collect_id(one * 5, 1)
    assert collector.to_numpy().tolist() == [[1], [5]]
    collector.free([1])
    with pytest.warns(UserWarning, match="batch 1 is not collected"):
        collector.free([1])
    with pytest.warns(UserWarning, match="batch 1 is not collected"):
        collector.get_tensor_at(1)
    assert collector.collect(one) == 1
    with pytest.warns(UserWarning, match="all batches"):
        assert collector.collect(one) == -1, "freeing twice adds no batch"


def test_by_number_and_in_order() -> None:
    collector = TensorBatchCollector([4, 1], "int8", CPU)
    for number in (1, 0):
        assert collector.collect_id(np.full(1, number, "int8"), number) == number
    assert [collector.collect(np.full(1, number, "int8")) for number in (2, 3)] == [2, 3]
    collector.free([3, 1])
    assert [collector.collect(np.full(1, number, "int8")) for number in (3, 1)] == [3, 1], "as they were freed"
    assert collector.to_numpy().ravel().tolist() == [0, 1, 2, 3]


def test_by_ctypes() -> None:
    for place in (CPU, LiteDeviceType.LITE_CUDA):
        collector = TensorBatchCollector([2, 3], LiteDataType.LITE_INT16, place)
        for value in (3, 4):
            sample = np.full(3, value, "int16")
            collector.collect_by_ctypes(sample.ctypes.data, 6)
        assert collector.to_numpy().tolist() == [[3] * 3, [4] * 3]
        with pytest.raises(AssertionError, match="6 bytes"):
            collector.collect_by_ctypes(sample.ctypes.data, 5)


def test_what_does_not_fit_takes_no_batch() -> None:
    collector = TensorBatchCollector([2, 3], "int16", CPU)
    for wrong in (np.zeros(4, "int16"), np.zeros(3, "int8"), LiteTensor(LiteLayout([3], "int8")), [1, 2, 3]):
        with pytest.raises(AssertionError):
            collector.collect(wrong)  # type: ignore[arg-type]
    for number in (-1, 2):
        with pytest.raises(AssertionError, match="no batch"):
            collector.collect_id(np.zeros(3, "int16"), number)
        with pytest.raises(AssertionError, match="no batch"):
            collector.free([number])
        with pytest.raises(AssertionError, match="no batch"):
            collector.get_tensor_at(number)
    assert collector.collect(np.zeros(3, "int16")) == 0
    with pytest.raises(AssertionError, match="shape"):
        TensorBatchCollector([2, 3], tensor=LiteTensor(LiteLayout([3, 2])))


def test_a_batch_is_part_of_the_whole() -> None:
    collector = TensorBatchCollector([2, 3], "int16", CPU)
    collector.collect(np.ones([1, 3], "int16"))
    batch = collector.get_tensor_at(0)
    assert batch.layout.shapes == [1, 3]
    batch.fill_zero()
    assert not collector.to_numpy().any()


def test_from_any_device_and_any_strides() -> None:
    collector = TensorBatchCollector([3, 2], "int32", LiteDeviceType.LITE_CUDA)
    device = LiteTensor(device_type=LiteDeviceType.LITE_CUDA)
    device.copy_from(np.array([1, 2], "int32"))
    collector.collect(device)
    collector.collect(np.arange(8, dtype="int32")[3::4])
    strided = LiteTensor(LiteLayout([2, 2], "int32"))
    strided.set_data_by_copy([5, 0, 6, 0])
    collector.collect(strided.slice([0, 0], [2, 1]).to_numpy().reshape(2))
    assert collector.to_numpy().tolist() == [[1, 2], [3, 7], [5, 6]]


def test_many_threads_collect() -> None:
    count = 64
    collector = TensorBatchCollector([count, 100], "int32", CPU)
    numbers: list[int] = []

    def work(value: int) -> None:
        numbers.append(collector.collect(np.full(100, value, "int32")))

    threads = [threading.Thread(target=work, args=(value,)) for value in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(numbers) == list(range(count))
    found = collector.to_numpy()
    assert sorted(found[:, 0].tolist()) == list(range(count))
    assert (found == found[:, :1]).all()


def test_an_array_is_collected_into() -> None:
    whole = np.zeros((3, 4), "float32")
    collector = TensorBatchCollector([3, 4], tensor=whole)
    for number in range(3):
        assert collector.collect(np.full(4, number, "float32")) == number
    assert whole.tolist() == [[0] * 4, [1] * 4, [2] * 4]
    with pytest.raises(AssertionError, match="TensorBatchCollector"):
        TensorBatchCollector([3, 4], tensor="text")  # type: ignore[arg-type]
