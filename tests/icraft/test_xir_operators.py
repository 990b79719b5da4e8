"""What operators take, and the rules for their outputs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xir_networks import f32, weights

from triune.icraft import xir
from triune.icraft.xir import (
    AlignedUnit,
    Error,
    FloatImm,
    FloatType,
    Input,
    IntegerType,
    IntImm,
    Layout,
    MergedAxisDistr,
    Operation,
    Params,
    TensorType,
    Value,
)

UNARY = [
    "ACos",
    "ACosh",
    "ASin",
    "ASinh",
    "ATan",
    "ATanh",
    "Abs",
    "Copy",
    "Cos",
    "Cosh",
    "Log",
    "Neg",
    "Sin",
    "Sinh",
    "Sqrt",
    "Tan",
    "ClampScalar",
    "ReLU",
    "ELU",
    "GELU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LogSigmoid",
    "Mish",
    "Sigmoid",
    "SiLU",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Softmax",
    "LogSoftmax",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
]
ACTIVATIONS = [
    "ReLU",
    "ELU",
    "GELU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LogSigmoid",
    "Mish",
    "Sigmoid",
    "SiLU",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Softmax",
    "LogSoftmax",
    "PReLU",
]


def val(*shape: int, layout: str | None = None, element: Any = None) -> Value:
    """Return a value that some operation makes."""
    kind = f32(*shape, layout=layout or "*" * len(shape))
    if element is not None:
        kind.setElementDtype(element)
    return Input(kind)[0]


def outcome(op: Operation) -> list[tuple[list[int], str]]:
    """Return shapes and layouts of the outputs."""
    return [(value.tensorType().shape, value.tensorType().layout.toString()) for value in op.inferResults()]


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_each_element(name: str) -> None:
    kind = TensorType(IntegerType.SInt8(), [1, 2, 3, 32], Layout("NHWC"), [MergedAxisDistr([3], 32).setUnvalid(4, 32)])
    op = getattr(xir, name)(Input(kind)[0])
    assert op[0].tensorType() == kind, "type, layout and padding are the input's"
    assert op[0].tensorType() is not kind
    assert op.isActivate() == (name in ACTIVATIONS)


# The operator, what it is made of, and the shapes and layouts of its outputs.
CASES: list[tuple[Callable[[], Operation], list[tuple[list[int], str]]]] = [
    # Windows. The vendor's own example: 416 by a pool of 3 with stride 2 and padding 1 is 208.
    (lambda: xir.MaxPool2d(val(1, 416, 416, 3, layout="NHWC"), 3, 2, 1, 1), [([1, 208, 208, 3], "NHWC")]),
    (lambda: xir.MaxPool2d(val(1, 9, 8, 3), 2, 3, 1, 2, 0, 0, 1, 0, 1, 1), [([1, 4, 8, 3], "****")]),
    (lambda: xir.MaxPool2d(val(1, 8, 8, 3), 3, 1, 1, 0, 2), [([1, 6, 4, 3], "****")]),
    (lambda: xir.MaxPool1d(val(1, 10, 3), 3, 2, 0, 1, 1), [([1, 5, 3], "***")]),
    (lambda: xir.MaxPool3d(val(1, 8, 8, 8, 3), 2, 2, 0, 1), [([1, 4, 4, 4, 3], "*****")]),
    (lambda: xir.AvgPool2d(val(1, 3, 7, 8, layout="NCHW"), 2, 2, 0), [([1, 3, 3, 4], "NCHW")]),
    (lambda: xir.AvgPool2d(val(1, 7, 8, 3), 2, 2, 0, 1, True), [([1, 3, 5, 3], "****")]),
    (lambda: xir.AvgPool2d(val(1, 2, 7, 8, 32, layout="NCHWc32"), 7, 1, 0), [([1, 2, 1, 2, 32], "NCHWc32")]),
    (lambda: xir.AvgPool1d(val(1, 10, 3, layout="NLC"), 5, 5, 0, 0), [([1, 2, 3], "NLC")]),
    (lambda: xir.AvgPool3d(val(1, 4, 6, 8, 3, layout="NDHWC"), 2, 2, 0), [([1, 2, 3, 4, 3], "NDHWC")]),
    (lambda: xir.Conv2d(val(1, 8, 9, 3, layout="NHWC"), weights(3, 3, 3, 5), None, 2, 1, 1), [([1, 4, 5, 5], "NHWC")]),
    (
        lambda: xir.Conv2d(
            val(1, 3, 8, 9, layout="NCHW"), weights(5, 3, 2, 4, layout="OIHW"), None, 1, 3, 0, 1, 2, 0, 1, 2
        ),
        [([1, 5, 3, 8], "NCHW")],
    ),
    (
        lambda: xir.Conv2d(val(1, 8, 8, 6), weights(3, 3, 1, 6), weights(6, layout="C"), 1, 1, 1, 6),
        [([1, 8, 8, 6], "****")],
    ),
    (
        lambda: xir.Conv2d(
            val(1, 1, 8, 8, 32, layout="NCHWc32"), weights(2, 1, 3, 3, 32, 32, layout="OIHWo32i32"), None, 1, 1, 1
        ),
        [([1, 2, 8, 8, 32], "NCHWc32")],
    ),
    (
        lambda: xir.Conv2d(
            val(1, 1, 8, 8, 4, layout="NCHWc4"), weights(1, 1, 3, 3, 32, 4, layout="OIHWo32i4"), None, 2, 1, 1
        ),
        [([1, 1, 4, 4, 32], "NCHWc32")],
    ),
    (
        lambda: xir.Conv2d(val(-1, -1, 8, 3, layout="NHWC"), weights(3, 3, 3, 5), None, 1, 0, 1),
        [([-1, -1, 6, 5], "NHWC")],
    ),
    (
        lambda: xir.Conv1d(val(1, 9, 3, layout="NWC"), weights(3, 3, 5, layout="WIO"), None, 2, 1, 1, 1),
        [([1, 5, 5], "NWC")],
    ),
    (
        lambda: xir.Conv3d(val(1, 4, 6, 8, 3, layout="NDHWC"), weights(3, 3, 3, 3, 5, layout="DHWIO"), None, 1, 0, 1),
        [([1, 2, 4, 6, 5], "NDHWC")],
    ),
    (
        lambda: xir.ConvTranspose2d(val(1, 4, 5, 3, layout="NHWC"), weights(3, 3, 3, 7), None, 2, 1, 1, 1),
        [([1, 8, 10, 7], "NHWC")],
    ),
    (
        lambda: xir.ConvTranspose1d(val(1, 4, 3, layout="NWC"), weights(4, 3, 7, layout="WIO"), None, 2, 1, 1, 1, 0),
        [([1, 8, 7], "NWC")],
    ),
    (
        lambda: xir.ConvTranspose3d(
            val(1, 2, 2, 2, 3, layout="NDHWC"), weights(2, 2, 2, 3, 7, layout="DHWIO"), None, 2, 0, 1, 0
        ),
        [([1, 4, 4, 4, 7], "NDHWC")],
    ),
    (lambda: xir.Matmul(val(2, 3, 4), val(4, 5), None), [([2, 3, 5], "***")]),
    (lambda: xir.Matmul(val(3, 1, 2, 4), val(7, 4, 5), val(5)), [([3, 7, 2, 5], "****")]),
    (lambda: xir.Matmul(val(3, 4), val(4), None), [([3], "*")]),
    # Two tensors.
    (lambda: xir.Add(val(1, 4, 4, 3, layout="NHWC"), val(3)), [([1, 4, 4, 3], "NHWC")]),
    (lambda: xir.Multiply(val(4, 1), val(2, 1, 3)), [([2, 4, 3], "***")]),
    (lambda: xir.Div(val(2, 3), val(3)), [([2, 3], "**")]),
    (lambda: xir.DivideScalar(val(2, 3), 2.0, xir.FLOOR), [([2, 3], "**")]),
    (lambda: xir.Maximum(val(-1, 3), val(1, 1)), [([-1, 3], "**")]),
    (lambda: xir.Minimum(val(2), val(2)), [([2], "*")]),
    (lambda: xir.Where(val(2, 3), val(3), val(1)), [([2, 3], "**")]),
    (lambda: xir.Einsum([val(2, 3, 4), val(2, 4, 5)], "bij,bjk->bik"), [([2, 3, 5], "***")]),
    (lambda: xir.Einsum([val(3, 4), val(4, 5)], "ij, jk"), [([3, 5], "**")]),
    (lambda: xir.Einsum([val(3, 3)], "ii->"), [([], "")]),
    # Reductions.
    (lambda: xir.Mean(val(1, 4, 5, 3, layout="NHWC"), [1, 2]), [([1, 3], "NC")]),
    (lambda: xir.Mean(val(1, 4, 5, 3, layout="NHWC"), [1, 2], True), [([1, 1, 1, 3], "NHWC")]),
    (lambda: xir.Sum(val(2, 3), -1), [([2], "*")]),
    (lambda: xir.Sum(val(2, 3)), [([], "")]),
    (lambda: xir.Max(val(2, 3), IntImm(0), True), [([1, 3], "**")]),
    (lambda: xir.Min(val(2, 3)), [([], "")]),
    (lambda: xir.Argmax(val(1, 4, 5, 3, layout="NHWC"), -1), [([1, 4, 5], "NHW")]),
    (lambda: xir.Argmin(val(2, 3), 0), [([3], "*")]),
    # Normalization.
    (
        lambda: xir.BatchNorm2d(val(1, 4, 4, 3), weights(3, layout="C"), weights(3, layout="C")),
        [([1, 4, 4, 3], "****")],
    ),
    (lambda: xir.LayerNorm(val(1, 4, 8), [-1], 1e-6, weights(8, layout="C")), [([1, 4, 8], "***")]),
    (lambda: xir.Normalize(val(1, 4), [1], 2, 1e-9), [([1, 4], "**")]),
    (lambda: xir.PReLU(val(1, 4, 4, 3), weights(3, layout="C")), [([1, 4, 4, 3], "****")]),
    # Movement.
    (lambda: xir.Reshape(val(1, 4, 4, 3), [1, -1], Layout("NC")), [([1, 48], "NC")]),
    (lambda: xir.Reshape(val(2, 3), [3, 2], "**"), [([3, 2], "**")]),
    (lambda: xir.Transpose(val(1, 4, 5, 3, layout="NHWC"), [0, 3, 1, 2]), [([1, 3, 4, 5], "NCHW")]),
    (lambda: xir.Transpose(val(1, 4), [1, -2], Layout("CN")), [([4, 1], "CN")]),
    (lambda: xir.Squeeze(val(1, 4, 1, 3, layout="NHWC"), [2]), [([1, 4, 3], "NHC")]),
    (lambda: xir.Squeeze(val(1, 4, 1), []), [([4], "*")]),
    (lambda: xir.Expand(val(1, 3), [2, 4, -1]), [([2, 4, 3], "***")]),
    (lambda: xir.Concat([val(1, 2, layout="NC"), val(1, 3), val(1, 4)], -1), [([1, 9], "NC")]),
    (lambda: xir.Split(val(1, 6), [1, 2, 3]), [([1, 1], "**"), ([1, 2], "**"), ([1, 3], "**")]),
    (lambda: xir.Stack([val(2, 3), val(2, 3)], 1), [([2, 2, 3], "***")]),
    (lambda: xir.Stack([val(2, 3), val(2, 3)]), [([2, 2, 3], "***")]),
    (lambda: xir.Unstack(val(2, 3, layout="NC")), [([3], "C"), ([3], "C")]),
    (lambda: xir.Slice(val(5, 6), [1, 0], [4, 6], [2, 3]), [([2, 2], "**")]),
    (lambda: xir.Slice(val(5, 6), [-2, 0], [99, -1], [1, 1]), [([2, 5], "**")]),
    (lambda: xir.SwapOrder(val(1, 3), [2, 1, 0]), [([1, 3], "**")]),
    (lambda: xir.SwapOrder(val(1, 3), [0, 0, 1, 2]), [([1, 4], "**")]),
    (lambda: xir.Roll(val(2, 3), 1, 0), [([2, 3], "**")]),
    (lambda: xir.Roll(val(2, 3), [1, 2], [0, 1]), [([2, 3], "**")]),
    (lambda: xir.Roll(val(2, 3), 1, None), [([2, 3], "**")]),
    (lambda: xir.ChannelShuffle(val(1, 2, 2, 6), 3), [([1, 2, 2, 6], "****")]),
    (lambda: xir.PixelShuffle(val(1, 2, 3, 8, layout="NHWC"), 2), [([1, 4, 6, 2], "NHWC")]),
    (lambda: xir.Upsample(val(1, 2, 3, 8, layout="NHWC"), 4, 9), [([1, 4, 9, 8], "NHWC")]),
    (lambda: xir.Resize(val(1, 8, 2, 3, layout="NCHW"), [5, 7]), [([1, 8, 5, 7], "NCHW")]),
    (lambda: xir.Pad(val(1, 2), [1, 3, 0, 0]), [([1, 6], "**")]),
    (lambda: xir.Pad(val(1, 2), [1, 3]), [([1, 6], "**")]),
    (lambda: xir.Pad(val(4, 2), [0, 0, -1, 0], xir.REFLECTION, 3.5), [([3, 2], "**")]),
    (lambda: xir.Cast(val(2, 3), TensorType(IntegerType.SInt8(), [3, 2], Layout("NC"))), [([3, 2], "NC")]),
    (lambda: xir.AlignAxis(val(1, 4, 4, 3, layout="NHWC"), [AlignedUnit([3], [32])]), [([1, 4, 4, 32], "NHWC")]),
]


@pytest.mark.parametrize(("make", "expected"), CASES)
def test_outputs(make: Callable[[], Operation], expected: list[tuple[list[int], str]]) -> None:
    op = make()
    assert outcome(op) == expected
    for value in op.outputs:
        value.tensorType().validate()


def test_there_is_a_case_for_every_rule() -> None:
    tried = {type(make()).__name__ for make, _ in CASES} | set(UNARY)
    compared = {"Equal", "NotEqual", "Greater", "GreaterEqual", "Less", "LessEqual"}
    others = {"BatchNorm1d", "BatchNorm3d", "PruneAxis"}
    with_rules = {name for name in xir.__all__ if getattr(getattr(xir, name), "_rule", None) and name in vars(xir)}
    named = {getattr(xir, name).__name__ for name in with_rules}
    assert named - tried - compared - others == set()


FAILURES: list[tuple[Callable[[], Operation], str]] = [
    (lambda: xir.MaxPool2d(val(1, 2, 2, 3), 3, 1, 0, 1), "a window of 3 does not fit the height of 2"),
    (lambda: xir.MaxPool2d(val(1, 2, 3), 3, 1, 0, 1), r"shape \[1, 2, 3\] should have 4 extents"),
    (lambda: xir.MaxPool2d(val(1, 2, 3, layout="NLC"), 3, 1, 0, 1), "layout NLC has no axes H, W"),
    (
        lambda: xir.MaxPool2d(val(1, 2, 3, layout="NHWC"), 3, 1, 0, 1),
        r"layout NHWC has 4 axes, but shape \[1, 2, 3\] has 3",
    ),
    (lambda: xir.MaxPool2d(val(1, 8, 8, 3), 2, 0, 0, 1), "stride_width: 0 is below 1"),
    (lambda: xir.Conv2d(val(1, 8, 8, 4), weights(3, 3, 3, 5), None, 1, 1, 1), "4 input channels, and weights for 3"),
    (
        lambda: xir.Conv2d(val(1, 8, 8, 3), weights(3, 3, 5, layout="WIO"), None, 1, 1, 1),
        "is not that of a convolution over 2",
    ),
    (lambda: xir.Conv2d(val(1, 8, 8, 3), weights(3, 3, 3, 5, layout="NHWC"), None, 1, 1, 1), "has no axis"),
    (lambda: xir.ConvTranspose2d(val(1, 1, 1, 3), weights(1, 1, 3, 7), None, 1, 1, 1, 0), "the height would be -1"),
    (lambda: xir.Matmul(val(2, 3), val(4, 5), None), "are no product of matrices"),
    (lambda: xir.Add(val(2, 3), val(4, 3)), r"the shapes \[2, 3\], \[4, 3\] do not fit together"),
    (lambda: xir.Softmax(val(2, 3), 2), "axis 2 is none of the 2 axes"),
    (lambda: xir.Mean(val(2, 3), [0, -2]), "names one twice"),
    (lambda: xir.Max(val(2, 3), 5), "dim 5 is none of the 2 axes"),
    (lambda: xir.PReLU(val(1, 4, 4, 3), weights(2, layout="C")), "alpha has 2 elements, the input 3 channels"),
    (lambda: xir.BatchNorm2d(val(1, 4, 4, 3), weights(3, layout="C"), weights(2, layout="C")), "mean has 2 elements"),
    (lambda: xir.Reshape(val(2, 3), [4], "*"), r"\[2, 3\] has 6 elements, shape \[4\] 4"),
    (lambda: xir.Reshape(val(2, 3), [4, -1], "**"), "cannot be put into shape"),
    (lambda: xir.Reshape(val(2, 3), [-1, -1], "**"), "more than one extent open"),
    (lambda: xir.Reshape(val(2, 3), [6], "NC"), r"layout NC is not one of shape \[6\]"),
    (lambda: xir.Transpose(val(2, 3), [0, 0]), "is no order of 2 axes"),
    (lambda: xir.Squeeze(val(2, 3), [0]), "are not all of extent 1"),
    (lambda: xir.Expand(val(2, 3), [3]), "less than the axes"),
    (lambda: xir.Expand(val(2, 3), [4, 3]), "cannot be repeated"),
    (lambda: xir.Concat([val(2, 3), val(3, 3)], 1), "differ along other axes than 1"),
    (lambda: xir.Concat([], 1), "input 0 is missing"),
    (lambda: xir.Split(val(2, 6), [1, 2], 1), "are not the 6 elements of axis 1"),
    (lambda: xir.Stack([val(2), val(3)]), "differ"),
    (lambda: xir.Slice(val(2, 3), [0], [1], [1]), "should have one number for each axis"),
    (lambda: xir.Slice(val(2), [0], [1], [0]), "has a 0"),
    (lambda: xir.SwapOrder(val(1, 3), [3]), "an axis of 3 has not"),
    (lambda: xir.Roll(val(2, 3), [1, 2], [0]), "are not one for each"),
    (lambda: xir.ChannelShuffle(val(1, 5), 2), "5 channels cannot be in 2 groups"),
    (lambda: xir.PixelShuffle(val(1, 2, 2, 6), 2), "no multiple of 2²"),
    (lambda: xir.Resize(val(1, 2, 2, 3), [1]), "is not a height and a width"),
    (lambda: xir.Resize(val(1, 2, 2, 3), [0, 3]), "is no size"),
    (lambda: xir.Pad(val(1, 2), [1, 1, 1]), "two numbers for each axis"),
    (lambda: xir.Pad(val(1, 2), [1] * 6), "two numbers for each axis"),
    (lambda: xir.Pad(val(1, 2), [0, 0, -2, 0]), "takes away more"),
    (lambda: xir.Cast(val(2, 3), f32(5)), "have not as many elements"),
    (lambda: xir.AlignAxis(val(3), [AlignedUnit([0], [0])]), "at least 1"),
    (lambda: xir.AlignAxis(val(3), [AlignedUnit([4], [2])]), "axis 4 is none"),
    (lambda: xir.Einsum([val(2)], "ij->i"), "has not the axes 'ij'"),
    (lambda: xir.Einsum([val(2), val(3)], "i,i->i"), "axis 'i' is 2 and 3"),
    (lambda: xir.Einsum([val(2)], "i->ii"), "names an axis twice"),
    (lambda: xir.Einsum([val(2)], "...->..."), "ellipsis"),
    (lambda: xir.Unstack(val(-1, 2)), "cannot become as many outputs"),
]


@pytest.mark.parametrize(("make", "message"), FAILURES)
def test_what_does_not_fit(make: Callable[[], Operation], message: str) -> None:
    op = make()
    with pytest.raises(Error, match=message) as caught:
        op.inferResults()
    name = type(op).__name__
    assert name in str(caught.value), "the operator is named"


def test_hostile_extents_allocate_nothing() -> None:
    huge = (1 << 62, 1 << 62, 1 << 62)
    with pytest.raises(Error, match="64 bits"):
        xir.Concat([val(*huge), val(*huge)], 0).inferResults()
    with pytest.raises(Error, match="as many outputs"):
        xir.Unstack(val(*huge)).inferResults()
    with pytest.raises(Error, match="too long to note"):
        xir.AlignAxis(val(1 << 40, 1 << 40), [AlignedUnit([0, 1], [3, 7])]).inferResults()


def test_types_of_elements() -> None:
    pair = val(2, 3), val(2, 3)
    for name in ("Equal", "NotEqual", "Greater", "GreaterEqual", "Less", "LessEqual"):
        assert getattr(xir, name)(*pair)[0].tensorType().element_dtype.isBool()
    assert xir.Argmax(pair[0])[0].tensorType().element_dtype.isSInt64()
    assert xir.Cast(pair[0], TensorType(FloatType.BF16(), [2, 3], Layout("NC")))[0].tensorType().element_dtype.isBF16()
    half = val(2, 3, element=FloatType.FP16())
    assert xir.Where(half, half, pair[0])[0].tensorType().element_dtype.isFP16()
    assert (
        xir.Conv2d(val(1, 4, 4, 3, element=IntegerType.SInt8()), weights(1, 1, 3, 2), None, 1, 0, 1)[0]
        .tensorType()
        .element_dtype.isSInt8()
    )


def test_alignment_notes_where_padding_is_and_pruning_takes_it_away() -> None:
    aligned = xir.AlignAxis(val(1, 4, 4, 3, layout="NHWC"), [AlignedUnit([3], [32])])
    (distribution,) = aligned[0].tensorType().merged_distrs
    assert (distribution.merged_axis, distribution.allSections()) == ([3], [(0, 3, True), (3, 32, False)])
    pruned = xir.PruneAxis(aligned[0], [0])
    assert pruned[0].tensorType() == f32(1, 4, 4, 3)
    even = xir.AlignAxis(val(1, 4, 4, 32, layout="NHWC"), [AlignedUnit(3, 32)])
    assert even[0].tensorType().merged_distrs == []
    both = xir.AlignAxis(val(2, 3), [AlignedUnit([0, 1], [4, 4])])[0].tensorType()
    assert both.shape == [4, 4]
    mask = np.array(both.merged_distrs[0].valid_mask).reshape(4, 4)
    assert mask[:2, :3].all()
    assert mask.sum() == 6
    with pytest.raises(Error, match="no shape of its own"):
        xir.PruneAxis(Input(both)[0], [0]).inferResults()
    with pytest.raises(Error, match="index 0 is none of the 0 axes"):
        xir.PruneAxis(val(3), [0]).inferResults()


def test_constructors_accept_every_published_form() -> None:
    given = val(1, 8, 8, 3)
    conv = xir.Conv2d(given, weights(3, 3, 3, 5), None, 1, 2, 3, 4, 5, 6, 7, 8, 1, xir.CIRCULAR)
    assert (conv.stride_width, conv.stride_height) == (1, 2)
    assert (conv.pad_top, conv.pad_bottom, conv.pad_left, conv.pad_right) == (3, 4, 5, 6)
    assert (conv.dilation_width, conv.dilation_height, conv.padding_mode) == (7, 8, xir.CIRCULAR)
    short = xir.Conv2d(input=given, weights=weights(3, 3, 3, 5), bias=None, stride=2, pad=1, dilation=3, groups=1)
    assert (short.stride_width, short.stride_height, short.pad_left, short.dilation_height) == (2, 2, 1, 3)
    assert len(xir.Conv2d(given, weights(3, 3, 3, 5), Value(), 2, 1, 3).inputs) == 2, "a null bias is none"
    pool = xir.AvgPool3d(val(1, 8, 8, 8, 3), 2, 2, 1, 0, True, 5)
    pads = [getattr(pool, f"pad_{side}") for side in ("front", "top", "bottom", "back", "left", "right")]
    assert (pads, pool.count_include_pad, pool.divisor_override) == ([1, 1, 1, 0, 0, 0], True, 5)
    assert xir.ReLU(given).alpha == 0.0
    leaky = xir.ReLU(given, 0.1)
    assert (leaky.alpha, leaky.max_value, leaky.threshold) == (0.1, math.inf, 0.0)
    assert xir.ReLU(given, 0.0, max_value=6).max_value == 6.0
    scaled = xir.Add(given, given, 2.0, FloatImm(3.0))
    assert (scaled.alpha, scaled.beta) == ([FloatImm(2.0)], [FloatImm(3.0)])
    assert xir.Add(given, given, [1.0, 2.0, 3.0], [1])
    hard = xir.HardOp([given], Params(f32(1)), [Params(f32(1))], [1, 2], {"a": 1}, layer_count=2)
    assert (len(hard.instr), len(hard.params), hard.layer_count, hard.sub_hard_ops) == (1, 1, 2, [])
    assert xir.Roll(given, shift=1, dim=2).dims == [2]
    with pytest.raises(TypeError, match=r"fit none of Conv2d\(input, weights, bias, stride_width"):
        xir.Conv2d(given, weights(3, 3, 3, 5), None, 1)
    with pytest.raises(TypeError, match=r"stride: a whole number is needed, not 1\.5"):
        xir.Conv2d(given, weights(3, 3, 3, 5), None, 1.5, 1, 1)
    with pytest.raises(TypeError, match="a Value is needed, not int"):
        xir.ReLU(3, 0.5)
    with pytest.raises(TypeError, match="a list of values is needed"):
        xir.Concat(given)
    with pytest.raises(TypeError, match="a member of PaddingMode is needed"):
        xir.Conv2d(given, weights(3, 3, 3, 5), None, 1, 1, 1, 1, 8)
    with pytest.raises(TypeError, match=r"Operation\.Create"):
        Operation(given, given)
