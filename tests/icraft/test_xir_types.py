"""Layouts, scalars, scales, distributions and tensors' types."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from triune.icraft.xir import (
    AxisName,
    AxisUnit,
    BoolType,
    CalibratedType,
    DataType,
    DistrUnvalidValue,
    Error,
    ExpQuantizedScale,
    ExpQuantizedScaleArray,
    FloatType,
    IntegerType,
    Layout,
    MergedAxisDistr,
    NormalizedQuantizedType,
    NormalizedType,
    NormratioArray,
    OnChipMem,
    QuantizedScale,
    QuantizedScaleArray,
    QuantizedType,
    Semantics,
    TensorType,
    Value,
)

SINT8, FP32 = IntegerType.SInt8(), FloatType.FP32()


# ---- layouts


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        (Layout.NCHW(), "NCHW"),
        (Layout.OIHW(), "OIHW"),
        (Layout.Init().N().H().C().D(), "NHCD"),
        (Layout.Init().N().X().X().D(), "N**D"),
        (Layout.Init().N().X(2).D().d(32).n(4), "N**Dd32n4"),
        (Layout("NC**c32"), "NC**c32"),
        (Layout("@layout(OIHWo32i4)"), "OIHWo32i4"),
        (Layout([AxisName("C"), AxisUnit("c", 16)]), "Cc16"),
        (Layout.Default(3), "***"),
        (Layout.Init().O().I().L().W().o(2).i(3).w(4).h(5).l(6).c(7), "OILWo2i3w4h5l6c7"),
    ],
)
def test_layouts(layout: Layout, text: str) -> None:
    assert layout.toString() == text
    assert str(layout) == f'"@layout({text})"'
    assert Layout(text) == layout


def test_questions_to_layouts() -> None:
    layout = Layout("NC**c32")
    assert (Layout.NHWC().getIndexOf("C"), layout.getIndexOf("c"), layout.c()) == (3, 4, 32)
    assert (layout.numAxis(), layout.has("c"), layout.has("H")) == (5, True, False)
    assert layout[-1] == AxisUnit("c", 32) != AxisUnit("c", 16)
    assert layout.getAxisCharName(2) == "*"
    assert layout.get("H") is None
    assert [axis.name for axis in layout.axis_names] == list("NC**c")
    assert Layout.Default(2).isDefault()
    assert not layout.isDefault()
    assert (Layout.CheckAxisNameUpper("C"), Layout.CheckAxisNameUpper("c")) == (True, False)
    changed = Layout.NHWC().swapAxis(1, 3).eraseAxis(0).insertAxis(0, AxisUnit("h", 2))
    assert changed.toString() == "h2CWH"
    for wrong in (lambda: layout[5], lambda: layout.h(), lambda: layout.swapAxis(0, 9), lambda: layout.getIndexOf("H")):
        with pytest.raises(Error, match=r"NC\*\*c32"):
            wrong()


@pytest.mark.parametrize("text", ["NQ", "Nc", "c0", "N4", "@layout(NHWC", "C-1", "c99999999999999999999", "é"])
def test_what_is_no_layout(text: str) -> None:
    with pytest.raises(Error):
        Layout(text)


def test_what_is_no_axis() -> None:
    for wrong in (lambda: AxisName("c"), lambda: AxisName("NH"), lambda: AxisUnit("C", 3), lambda: AxisUnit("c", -1)):
        with pytest.raises(Error, match=r"axis|negative"):
            wrong()
    with pytest.raises(Error, match="1024 at most"):
        Layout.Init().X(1 << 62)


# ---- scalars


@pytest.mark.parametrize(
    ("scalar", "text", "bits", "stored", "numpy"),
    [
        (IntegerType.SInt8(), "@sint(8)", 8, 8, "i1"),
        (IntegerType.SInt64(), "@sint(64)", 64, 64, "i8"),
        (IntegerType.UInt(12), "@uint(12)", 12, 16, "u2"),
        (IntegerType.SInt(4), "@sint(4)", 4, 8, "i1"),
        (FloatType.FP16(), "@fp(16)", 16, 16, "f2"),
        (FloatType.FP32(), "@fp(32)", 32, 32, "f4"),
        (FloatType.FP64(), "@fp(64)", 64, 64, "f8"),
        (FloatType.BF16(), "@bf(16)", 16, 16, "u2"),
        (FloatType.TF32(), "@tf(32)", 19, 32, "f4"),
        (FloatType.FPE6M9(), "@fpe6m9(16)", 16, 16, "u2"),
        (FloatType.FPE7M8(), "@fpe7m8(16)", 16, 16, "u2"),
        (BoolType(), "@bool", 8, 8, "?"),
    ],
)
def test_scalars(scalar: DataType, text: str, bits: int, stored: int, numpy: str) -> None:
    from triune.icraft._xir.scalars import scalar_type

    assert str(scalar) == f'"{text}"'
    assert scalar_type(text) == scalar
    assert (scalar.bits(), scalar.bytes(), scalar.numElements()) == (bits, -(-bits // 8), 1)
    assert scalar._element()._stored_bytes() * 8 == stored
    assert scalar._element()._numpy() == np.dtype(numpy)
    assert scalar.getStorageType() is scalar
    assert scalar.getScale() is scalar.getNormratio() is scalar.getZeroPoints() is None
    assert not scalar.setZeroPoints([1])
    assert not scalar.setNormratio([1.0])
    assert not scalar.setScale(QuantizedScaleArray())
    with pytest.raises(Error, match="not quantized"):
        scalar.setStorageType(SINT8)


def test_predicates_hold_for_one_type_each() -> None:
    made = {
        "isSInt8": IntegerType.SInt8(),
        "isSInt16": IntegerType.SInt16(),
        "isSInt32": IntegerType.SInt32(),
        "isSInt64": IntegerType.SInt64(),
        "isUInt8": IntegerType.UInt8(),
        "isUInt16": IntegerType.UInt16(),
        "isUInt32": IntegerType.UInt32(),
        "isUInt64": IntegerType.UInt64(),
        "isFP16": FloatType.FP16(),
        "isFP32": FloatType.FP32(),
        "isFP64": FloatType.FP64(),
        "isBF16": FloatType.BF16(),
        "isTF32": FloatType.TF32(),
        "isFPE6M9": FloatType.FPE6M9(),
        "isFPE7M8": FloatType.FPE7M8(),
        "isBool": BoolType(),
    }
    for name in made:
        assert {other for other, scalar in made.items() if getattr(scalar, name)()} == {name}
    assert IntegerType.SInt(4).isSInt(4)
    assert not IntegerType.SInt(4).isUInt(4)
    assert [one.isSigned() for one in (SINT8, IntegerType.UInt8(), FP32, BoolType())] == [True, False, True, False]


def test_semantics() -> None:
    tf32 = FloatType.TF32().semantics()
    assert (tf32.emax, tf32.emin, tf32.precision, tf32.bits) == (127, -126, 11, 19)
    assert FloatType(Semantics(127, -126, 24, 32)) == FloatType(127, -126, 24, 32) == FP32
    assert tf32 != FP32.semantics()
    with pytest.raises(Error, match="no format"):
        FloatType(1, 2, 3, 4)
    for bits in (0, 65):
        with pytest.raises(Error, match="1 to 64"):
            IntegerType.UInt(bits)


# ---- scales


def test_ratios() -> None:
    ratios = NormratioArray([0.2] * 32 + [0.5])
    assert str(ratios) == '"@norm_ratios([axis=-1]32*0.2,0.5)"'
    assert ratios.data == [float(np.float32(0.2))] * 32 + [0.5]
    assert (ratios.axis, ratios.setAxis(1).axis, len(ratios), ratios[-1]) == (-1, 1, 33, 0.5)
    assert NormratioArray([1.0]) == NormratioArray([1]) != NormratioArray([1.0], 0)
    with pytest.raises(Error, match="too large"):
        NormratioArray([1e39])
    with pytest.raises(Error, match="none is number 33"):
        _ = ratios[33]


def test_plain_scales() -> None:
    scales = QuantizedScaleArray([2.007629] * 3)
    assert str(scales) == '"@scales([axis=-1]3*2.007629)"'
    assert str(QuantizedScaleArray()) == '"@scales([axis=-1])"'
    assert QuantizedScaleArray().empty()
    joined = QuantizedScaleArray(scales, QuantizedScaleArray([1.0, 2.0]))
    assert (joined.size(), joined.front().origin_scale, joined.back().origin_scale) == (5, np.float32(2.007629), 2.0)
    assert joined.split(1, 5, 2).origin_scale == [np.float32(2.007629), 1.0]
    assert QuantizedScaleArray(4, QuantizedScale(0.5)).origin_scale == [0.5] * 4
    assert joined[-1] == QuantizedScale(2.0)
    with pytest.raises(Error, match="5 scales"):
        joined.split(0, 6)
    with pytest.raises(Error):
        QuantizedScaleArray().front()


def test_scales_in_fixed_point() -> None:
    scales = ExpQuantizedScaleArray([3, 4], [3, 4], [0.377, 0.27])
    assert str(scales) == '"@exp_scales([axis=-1]3/3/0.377,4/4/0.27)"'
    assert (scales.m, scales.exp, scales.size()) == ([3, 4], [3, 4], 2)
    assert scales.origin_scale == [float(np.float32(0.377)), float(np.float32(0.27))]
    assert scales[1] == ExpQuantizedScale(4, 4, 0.27)
    assert isinstance(scales.split(0, 1), ExpQuantizedScaleArray)
    assert str(ExpQuantizedScaleArray(64, ExpQuantizedScale(1, 0, 1.0))) == '"@exp_scales([axis=-1]64*1/0/1)"'
    assert ExpQuantizedScaleArray(scales, scales).size() == 4
    with pytest.raises(Error, match="own kind"):
        QuantizedScaleArray(scales, scales)
    with pytest.raises(Error, match="1 factors, 2 shifts"):
        ExpQuantizedScaleArray([1], [2, 3], [4.0])
    with pytest.raises(Error, match="plain number"):
        ExpQuantizedScaleArray(2, QuantizedScale(1.0))


def test_hostile_counts_cost_nothing() -> None:
    from triune.icraft._xir.arrays import scale_array

    scales = scale_array("@scales([axis=-1]18446744073709551614*0.5)")
    assert scales.size() == 18446744073709551614
    assert scales[-1].origin_scale == 0.5
    with pytest.raises(Error, match="given out in no list"):
        _ = scales.origin_scale
    assert str(scales) == '"@scales([axis=-1]18446744073709551614*0.5)"'


# ---- quantized types


def test_quantized_types_as_documented() -> None:
    calibrated = CalibratedType(-3.6, 4.8, 4.7, FloatType.BF16())
    assert json.loads(str(calibrated)) == {
        "_type_key": "icraft::xir::CalibratedType",
        "expressed_dtype": "@fp(32)",
        "max": [4.8],
        "min": [-3.6],
        "sat": [4.7],
        "storage_dtype": "@bf(16)",
    }
    assert (calibrated.min, calibrated.max, calibrated.sat, calibrated.bits()) == ([-3.6], [4.8], [4.7], 32)
    normalized = NormalizedType([1.1, 2.2, 3.3], IntegerType.SInt16())
    assert json.loads(str(normalized)) == {
        "_type_key": "icraft::xir::NormalizedType",
        "expressed_dtype": "@fp(32)",
        "normratio": "@norm_ratios([axis=-1]1.1,2.2,3.3)",
        "storage_dtype": "@sint(16)",
    }
    both = NormalizedQuantizedType(normalized, ExpQuantizedScaleArray([3, 4], [3, 4], [0.377, 0.27]))
    assert json.loads(str(both)) == {
        "_type_key": "icraft::xir::NormalizedQuantizedType",
        "expressed_dtype": "@fp(32)",
        "normratio": "@norm_ratios([axis=-1]1.1,2.2,3.3)",
        "scale": "@exp_scales([axis=-1]3/3/0.377,4/4/0.27)",
        "storage_dtype": "@sint(16)",
        "zero_points": [],
    }
    assert both.normratio.data[0] == np.float32(1.1)
    assert both.isSigned()
    with pytest.raises(Error, match="1 min, 2 max"):
        CalibratedType([1.0], [1.0, 2.0], [1.0], SINT8)


def test_quantized_types_can_be_asked_and_changed_through_tensors() -> None:
    element = QuantizedType(QuantizedScaleArray([0.5]), [3], IntegerType.UInt8(), FloatType.FP16())
    assert QuantizedType(QuantizedScaleArray([0.5]), SINT8, FloatType.FP16()).expressed_dtype.isFP16()
    tensor = TensorType(element, [1, 4], Layout("NC"))
    assert (tensor.getZeroPoints(), tensor.getScale().front().origin_scale, tensor.getNormratio()) == ([3], 0.5, None)
    assert tensor.getStorageType().isUInt8()
    assert tensor.setZeroPoints([5])
    assert tensor.setScale(QuantizedScaleArray([0.25]))
    assert not tensor.setNormratio([1.0])
    tensor.setStorageType(SINT8)
    assert (element.zero_points, element.scale.origin_scale, element.storage_dtype) == ([5], [0.25], SINT8)
    normalized = NormalizedType([0.5], SINT8)
    assert normalized.setNormratio([0.75])
    assert normalized.getNormratio().data == [0.75]


def test_every_form_can_be_named() -> None:
    scales = QuantizedScaleArray([1.0])
    assert QuantizedScaleArray(lhs=scales, rhs=scales).size() == 2  # type: ignore[call-arg]
    assert QuantizedScaleArray(n=3, val=QuantizedScale(2.0)).size() == 3  # type: ignore[call-arg]
    assert ExpQuantizedScaleArray(n=3, val=ExpQuantizedScale(1, 2, 3.0)).m == [1, 1, 1]  # type: ignore[call-arg]
    assert Layout(axis=[AxisName(name="N")]) == Layout(layout="N")  # type: ignore[call-arg]
    assert FloatType(sem=FP32.semantics()) == FP32  # type: ignore[call-arg]
    normalized = NormalizedType([0.5], SINT8)
    assert NormalizedQuantizedType(nomalized=normalized, scale=scales).normratio.data == [0.5]  # type: ignore[call-arg]
    assert MergedAxisDistr([0]).append(other_valid_mask=[True, False]).valid_mask == [True, False]
    assert Value(dtype=TensorType(SINT8, [1], Layout("C"))).name == ""
    assert Value(dtype=TensorType(SINT8, [1], Layout("C")), mtype=OnChipMem(addr=3)).mtype == OnChipMem(3)


# ---- distributions


def test_distributions_as_documented() -> None:
    distribution = MergedAxisDistr([2, 3], 1024)
    distribution.setUnvalid(0, 100)
    assert str(distribution) == '"@merged_distr([2, 3]^ZERO:{u:[0, 100), v:[100, 1024)})"'
    distribution.setUnvalid(1000, 1023)
    distribution.setUnvalid(888, 888)
    distribution.append(256, False)
    distribution.append([True] * 128)
    assert distribution.allSections() == [
        (0, 100, False),
        (100, 1000, True),
        (1000, 1023, False),
        (1023, 1024, True),
        (1024, 1280, False),
        (1280, 1408, True),
    ]
    assert distribution.validSections() == [(100, 1000), (1023, 1024), (1280, 1408)]
    assert distribution.unvalidSections() == [(0, 100), (1000, 1023), (1024, 1280)]
    assert distribution.totalNum() == 1408 == distribution.totalValidNum() + distribution.totalUnvalidNum()
    assert (distribution.isValid(99), distribution.isValid(100)) == (False, True)
    assert sum(distribution.valid_mask) == distribution.totalValidNum()
    assert distribution.setValid(0, 1408).allSections() == [(0, 1408, True)]
    assert distribution.setUValue(DistrUnvalidValue.NONE).uvalue is DistrUnvalidValue.NONE
    assert distribution.setMergedAxis([1]).merged_axis == [1]
    for wrong in (lambda: distribution.setValid(5, 4), lambda: distribution.setUnvalid(0, 1409)):
        with pytest.raises(Error, match="1408 elements"):
            wrong()


def test_distributions_of_tensors_as_documented() -> None:
    tensor = TensorType(FP32, [1, 2, 416, 416, 32], Layout("NCHWc32"))
    assert tensor.merged_distrs == []
    made = tensor.createAddMergedDistr([1, 4])
    assert made.isValid(31)
    made.setUnvalid(2, 3)
    assert tensor.getMergedDistr([1, 4]) is made, "changed in place"
    assert tensor.getMergedDistr([2, 3]) is None
    tensor.mutateMergedDistr([1, 4], 0, 32, False)
    assert not made.isValid(31)
    assert tensor.createAddMergedDistr([2, 3]).totalNum() == 173056
    assert len(tensor.merged_distrs) == 2
    with pytest.raises(Error, match="already"):
        tensor.createAddMergedDistr([1, 4])
    with pytest.raises(Error, match="no distribution"):
        tensor.mutateMergedDistr([0], 0, 1, True)
    tensor.validate()
    assert tensor.setMergedDistrs([]).merged_distrs == []


# ---- tensors


def test_extents() -> None:
    tensor = TensorType(SINT8, [1, 2, 8, 9, 32], Layout("NCHWc32"))
    assert (tensor.dimSize(), tensor.dimSize(True)) == (5, 4)
    assert (tensor.getDim(1), tensor.getDim(1, True), tensor.getDim(-1)) == (2, 64, 32)
    assert (tensor.getDimByAxis("C"), tensor.getDimByAxis("C", True), tensor.getChannel()) == (2, 64, 64)
    assert (tensor.numElements(), tensor.bits(), tensor.bytes()) == (4608, 36864, 4608)
    assert tensor.isLayouted()
    assert not TensorType(SINT8, [3], Layout("C")).isLayouted()
    assert tensor.setDimByAxis("H", 4).shape == [1, 2, 4, 9, 32]
    shape = tensor.shape
    shape[0] = 7
    assert tensor.shape[0] == 1, "a copy"
    for wrong in (lambda: tensor.getDim(5), lambda: tensor.getDimByAxis("O"), lambda: tensor.getDimByAxis("*")):
        with pytest.raises(Error):
            wrong()
    assert tensor.setShape([1024]).setLayout(Layout.NHWC()).layout == Layout.NHWC()
    with pytest.raises(Error, match="4 axes"):
        tensor.getDimByAxis("N")
    assert TensorType(SINT8, [-1, 3], Layout("NC")).hasNegativeDim()
    with pytest.raises(Error, match="not known yet"):
        TensorType(SINT8, [-1, 3], Layout("NC")).bits()
    with pytest.raises(Error, match="64 bits"):
        TensorType(SINT8, [1 << 63], Layout("C"))
    for layout, shape, said in (
        ("C", [1, 2], "1 axis, but shape [1, 2] has 2"),
        ("NC", [1], "2 axes, but shape [1] has 1"),
    ):
        with pytest.raises(Error, match=re.escape(f"layout {layout} has {said}") + "$"):
            TensorType(FloatType.FP32(), shape, Layout(layout)).dimSize(True)


@pytest.mark.parametrize(
    ("shape", "layout", "message"),
    [
        ([1, 2, 3], "NHWC", "4 axes"),
        ([1, 4, 4, 32], "NHWc32", "part of 'C'"),
        ([1, 2, 4, 4, 16], "NCHWc32", "32 long"),
    ],
)
def test_rules_of_layouts(shape: list[int], layout: str, message: str) -> None:
    with pytest.raises(Error, match=message):
        TensorType(SINT8, shape, Layout(layout)).validate()


def test_rules_of_distributions() -> None:
    tensor = TensorType(SINT8, [2, 3], Layout("NC"), [MergedAxisDistr([1], 4)])
    with pytest.raises(Error, match="3 elements"):
        tensor.validate()
    tensor.setMergedDistrs([MergedAxisDistr([2], 4)])
    with pytest.raises(Error, match="no such axes"):
        tensor.validate()
    tensor.setMergedDistrs([MergedAxisDistr([0, 1], 6)]).validate()
