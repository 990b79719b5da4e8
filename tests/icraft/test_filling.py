"""Parameters and tensors that a function fills: what fits is stored alike, what does not is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from xir_networks import f32

from triune.icraft.xir import (
    BoolType,
    CalibratedType,
    Error,
    FloatType,
    IntegerType,
    InternalError,
    Layout,
    Params,
    QuantizedScaleArray,
    QuantizedType,
    ScalarType,
    TensorType,
)
from triune.icraft.xrt import HostDevice, Tensor


@pytest.mark.parametrize(
    ("element", "number", "why"),
    [
        (IntegerType.SInt8(), 128, r"element 0: 128 does not fit sint\(8\)"),
        (IntegerType.SInt(4), 100, r"element 0: 100 does not fit sint\(4\)"),
        (IntegerType.SInt(4), -9, r"-9 does not fit sint\(4\)"),
        (IntegerType.UInt(12), 4096, r"4096 does not fit uint\(12\)"),
        (IntegerType.UInt8(), -1, r"-1 does not fit uint\(8\)"),
        (IntegerType.UInt64(), 1 << 64, r"18446744073709551616 does not fit uint\(64\)"),
        (IntegerType.SInt8(), 1.5, r"sint\(8\) holds whole numbers, not 1\.5"),
        (IntegerType.SInt8(), np.float32(1.5), r"sint\(8\) holds whole numbers, not 1\.5"),
        (IntegerType.SInt8(), math.nan, "holds whole numbers, not nan"),
        (QuantizedType(QuantizedScaleArray([0.5]), IntegerType.SInt8()), 200, r"200 does not fit sint\(8\)"),
        (BoolType(), 2, "2 does not fit bool"),
        (FloatType.FP16(), 1e9, r"1000000000\.0 does not fit fp\(16\)"),
        (FloatType.FP32(), 1e39, r"1e\+39 does not fit fp\(32\)"),
        (FloatType.BF16(), 3.4e38, r"3\.4e\+38 does not fit bf\(16\)"),
        (FloatType.FP64(), 1 << 2000, r"0x1000+ does not fit fp\(64\)"),
        (IntegerType.SInt8(), 1 << 2000, r"0x1000+ does not fit sint\(8\)"),
        (FloatType.FP32(), "1", r"element 0: a number is needed, not '1' \(str\)"),
        (IntegerType.SInt8(), None, "element 0: a number is needed, not None"),
    ],
)
def test_parameters_and_tensors_are_filled_with_what_fits(element: ScalarType, number: Any, why: str) -> None:
    dtype = TensorType(element, [2], Layout("*"))
    with pytest.raises(Error, match=why):
        Params(dtype).fill(lambda index: number)
    with pytest.raises(InternalError, match=rf"\[11003\].*Tensor\.fill.*{why}"):
        Tensor(dtype).mallocOn(HostDevice.MemRegion()).fill(lambda index: number)


@pytest.mark.parametrize(
    ("element", "numbers"),
    [
        (CalibratedType([-1], [1], [1], IntegerType.SInt8()), [0.5, -2.25]),
        (IntegerType.SInt(4), [-8, 7]),
        (IntegerType.UInt(12), [4095, 0]),
        (IntegerType.UInt64(), [(1 << 64) - 1, 3.0]),
        (QuantizedType(QuantizedScaleArray([0.5]), IntegerType.SInt8()), [-128, np.int64(127)]),
        (BoolType(), [True, 0]),
        (FloatType.FP16(), [65504.0, math.inf]),
    ],
)
def test_parameters_and_tensors_are_filled_alike(element: ScalarType, numbers: list[float]) -> None:
    dtype = TensorType(element, [2], Layout("*"))
    params = Params(dtype).fill(numbers.__getitem__)
    assert params.data().tolist() == numbers
    assert params.data().nbytes == params.storageBytes()
    tensor = Tensor(dtype).mallocOn(HostDevice.MemRegion()).fill(numbers.__getitem__)
    np.testing.assert_array_equal(np.asarray(tensor), params.data())


def test_tensors_of_bfloat16_are_filled_with_numbers() -> None:
    tensor = Tensor(TensorType(FloatType.BF16(), [2], Layout("*"))).mallocOn(HostDevice.MemRegion())
    assert np.asarray(tensor.fill(lambda index: index + 1.5)).tolist() == [0x3FC0, 0x4020]


def test_what_a_filling_function_raises_is_raised() -> None:
    with pytest.raises(KeyError):
        Params(f32(2)).fill({}.__getitem__)
