"""The examples of the vendor's documentation for tensors and the collector, as they stand there."""

from __future__ import annotations

import numpy as np

from triune.megenginelite import *  # noqa: F403
from triune.megenginelite import LiteDataType, LiteDeviceType, LiteIOType, LiteLayout, LiteTensor, TensorBatchCollector

# ruff: noqa: B007, C416, E712


def test_construction() -> None:
    # 直接从 shapes 创建 LiteTensor
    tensor_cuda2 = LiteTensor(shapes=[4,16], dtype="float32", device_type=LiteDeviceType.LITE_CUDA)  # fmt: skip
    # 从 layout 创建 LiteTensor
    layout = LiteLayout([4, 16], "float32")
    tensor = LiteTensor(layout, LiteDeviceType.LITE_CPU)
    tensor_cuda = LiteTensor(layout=layout, device_type=LiteDeviceType.LITE_CUDA)

    assert tensor_cuda2.layout == tensor.layout == tensor_cuda.layout == layout
    assert tensor_cuda2.device_type == tensor_cuda.device_type == LiteDeviceType.LITE_CUDA


def test_slice() -> None:
    layout = LiteLayout([4, 8], "int32")
    tensor1 = LiteTensor(layout)

    tensor1.set_data_by_copy([i for i in range(32)])
    real_data_org = tensor1.to_numpy()

    tensor2 = tensor1.slice([1, 4], [3, 8])
    assert tensor2.layout.shapes[0] == 2
    assert tensor2.layout.shapes[1] == 4
    assert tensor2.is_continue == False

    real_data = tensor2.to_numpy()
    for i in range(8):
        row = i // 4
        col = i % 4
        assert real_data[row][col] == real_data_org[row + 1][col + 4]


def test_share_memory_with() -> None:
    layout = LiteLayout([4, 8], "int16")
    tensor1 = LiteTensor(layout)
    tensor2 = LiteTensor(layout)

    tensor1.set_data_by_copy([i for i in range(32)])
    tensor2.share_memory_with(tensor1)
    real_data = tensor2.to_numpy()
    for i in range(32):
        assert real_data[i // 8][i % 8] == i


def test_set_data_by_copy() -> None:
    layout = LiteLayout([2, 16], "int8")
    tensor = LiteTensor(layout)

    data = [i for i in range(32)]
    tensor.set_data_by_copy(data)
    real_data = tensor.to_numpy()
    for i in range(32):
        assert real_data[i // 16][i % 16] == i


def test_set_data_by_share() -> None:
    layout = LiteLayout([2, 16], "int8")
    tensor = LiteTensor(layout)
    arr = np.ones([2, 16], "int8")
    for i in range(32):
        arr[i // 16][i % 16] = i
    tensor.set_data_by_share(arr)
    real_data = tensor.to_numpy()
    for i in range(32):
        assert real_data[i // 16][i % 16] == i


def test_get_data_by_share() -> None:
    layout = LiteLayout([4, 32], "int16")
    tensor = LiteTensor(layout)
    assert tensor.nbytes == 4 * 32 * 2

    arr = np.ones([4, 32], "int16")
    for i in range(128):
        arr[i // 32][i % 32] = i
    tensor.set_data_by_copy(arr)
    test_data = tensor.get_data_by_share()

    for i in range(128):
        assert test_data[i // 32][i % 32] == i

    arr[1][18] = 5
    arr[3][7] = 345
    tensor.set_data_by_copy(arr)
    assert test_data[1][18] == 5
    assert test_data[3][7] == 345


def test_collect_in_order() -> None:
    batch_tensor = TensorBatchCollector(
        [4, 8, 8], dtype=LiteDataType.LITE_INT, device_type=LiteDeviceType.LITE_CUDA
    )  # fmt: skip
    arr = np.ones([8, 8], "int32")
    for j in range(2):
        for i in range(4):
            batch_tensor.collect(arr)
            arr += 1
        batch_tensor.free(range(4))
    data = batch_tensor.to_numpy()
    assert data.shape[0] == 4
    assert data.shape[1] == 8
    assert data.shape[2] == 8
    for i in range(4):
        for j in range(64):
            assert data[i][j // 8][j % 8] == i + 4 + 1


def test_collect_by_id() -> None:
    batch_tensor = TensorBatchCollector(
        [4, 8, 8], dtype=LiteDataType.LITE_INT, device_type=LiteDeviceType.LITE_CUDA
    )  # fmt: skip
    arr = np.ones([8, 8], "int32")
    arr += 1  # ==2
    batch_tensor.collect_id(arr, 1)
    arr -= 1  # ==1
    batch_tensor.collect_id(arr, 0)
    arr += 2  # ==3
    batch_tensor.collect_id(arr, 2)
    arr += 1  # ==4
    batch_tensor.collect_id(arr, 3)

    data = batch_tensor.to_numpy()
    batch_tensor.free(range(4))
    assert data.shape[0] == 4
    assert data.shape[1] == 8
    assert data.shape[2] == 8
    for i in range(4):
        for j in range(64):
            assert data[i][j // 8][j % 8] == i + 1


def test_collect_into_a_tensor() -> None:
    all_tensor = LiteTensor(
        LiteLayout([4, 6, 8], dtype=LiteDataType.LITE_INT),
        device_type=LiteDeviceType.LITE_CUDA,
    )
    batch_tensor = TensorBatchCollector([4, 6, 8], tensor=all_tensor)
    nparr = np.ones([6, 8], "int32")
    for j in range(2):
        for i in range(4):
            batch_tensor.collect(nparr)
            nparr += 1
        batch_tensor.free(range(4))
    data = batch_tensor.to_numpy()
    assert data.shape[0] == 4
    assert data.shape[1] == 6
    assert data.shape[2] == 8
    for i in range(4):
        for j in range(48):
            assert data[i][j // 8][j % 8] == i + 4 + 1


def test_collect_tensors() -> None:
    batch_tensor = TensorBatchCollector(
        [4, 6, 8], dtype=LiteDataType.LITE_INT, device_type=LiteDeviceType.LITE_CPU
    )  # fmt: skip
    nparr = np.ones([6, 8], "int32")
    tensor = LiteTensor(LiteLayout([6, 8], LiteDataType.LITE_INT))
    for j in range(2):
        for i in range(4):
            tensor.set_data_by_share(nparr)
            batch_tensor.collect(tensor)
            nparr += 1
        batch_tensor.free(range(4))
    data = batch_tensor.to_numpy()
    assert data.shape[0] == 4
    assert data.shape[1] == 6
    assert data.shape[2] == 8
    for i in range(4):
        for j in range(48):
            assert data[i][j // 8][j % 8] == i + 4 + 1


def test_the_documented_values() -> None:
    assert {kind.name: kind.value for kind in LiteDeviceType if kind.name != "LITE_CAMBRICON"} == {
        "LITE_CPU": 0,
        "LITE_CUDA": 1,
        "LITE_ATLAS": 3,
        "LITE_NPU": 4,
        "LITE_DEVICE_DEFAULT": 5,
    }
    assert LiteDeviceType(7) is LiteDeviceType.LITE_DEVICE_DEFAULT, "the value of the vendor's last package"
    assert LiteIOType.LITE_IO_SHAPE == 1
