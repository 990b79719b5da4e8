"""Operators that are made of others, each against ONNX Runtime, or ONNX's reference where that has none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest

import triune

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
reference = pytest.importorskip("onnx.reference")

Array = np.ndarray[Any, Any]


def reals(*shape: int, low: float = -3, high: float = 3, dtype: Any = np.float32) -> Array:
    rng = np.random.default_rng(sum(shape) + len(shape))
    return np.asarray(rng.uniform(low, high, shape), dtype=dtype)


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


class Case(NamedTuple):
    """One node: operands by name, those in `constants` known beforehand."""

    op: str
    opset: int
    inputs: list[Array | None]
    attributes: Mapping[str, Any] = MappingProxyType({})
    outputs: int = 1
    constants: tuple[int, ...] = ()

    def model(self) -> bytes:
        """Return the file."""
        helper = onnx.helper
        names = ["" if array is None else f"x{index}" for index, array in enumerate(self.inputs)]
        given = [(name, array) for name, array in zip(names, self.inputs, strict=True) if array is not None]
        fixed = {f"x{index}" for index in self.constants}
        results = [f"y{index}" for index in range(self.outputs)]
        graph = helper.make_graph(
            [helper.make_node(self.op, names, results, name="it", **self.attributes)],
            "case",
            [
                helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
                for name, array in given
                if name not in fixed
            ],
            [onnx.ValueInfoProto(name=name) for name in results],
            [onnx.numpy_helper.from_array(array, name) for name, array in given if name in fixed],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        return bytes(onnx.shape_inference.infer_shapes(model).SerializeToString())

    def feeds(self) -> dict[str, Array]:
        """Return what a run is given."""
        given = enumerate(self.inputs)
        return {f"x{index}": np.asarray(x) for index, x in given if x is not None and index not in self.constants}


def departs(case: Case) -> bool:
    """Return whether ONNX Runtime has the operator, but not as the standard's reference has it, or refuses some when they run."""
    attributes = case.attributes
    return (
        # It takes other neighbours.
        attributes.get("coordinate_transformation_mode") == "half_pixel_symmetric"
        # Nor is its side of a spectrum cut off where the result's is shorter.
        or (case.op == "DFT" and case.inputs[1] is not None)
        # It has no dilations beside SAME, and cubic sampling of the last two axes alone.
        or (case.op == "Conv" and "dilations" in attributes and "auto_pad" in attributes)
        or (case.op == "Resize" and attributes.get("axes") == [1, 3])
    )


def expected(case: Case) -> tuple[str, list[Array]]:
    """Return who judges, and its results: ONNX Runtime, or ONNX's reference where that has no such operator, version or type."""
    file = case.model()
    state = onnxruntime.capi.onnxruntime_pybind11_state
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if not departs(case):
        try:
            session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        except (state.NotImplemented, state.InvalidGraph, state.Fail):
            # Fail is what it says of operator sets that are newer than its own; what a run ends in is never taken for a refusal.
            pass
        else:
            return "ONNX Runtime", list(session.run(None, case.feeds()))
    return "onnx.reference", list(reference.ReferenceEvaluator(onnx.load_from_string(file)).run(None, case.feeds()))


X = reals(2, 3, 4, 5)
ROWS = reals(3, 6)
ODD = np.array([-np.inf, -100, -1.5, -0.5, -0.0, 0.0, 1e-30, 0.5, 1.5, 100, np.inf], np.float32)
MATRIX = np.arange(20, dtype=np.float32).reshape(4, 5)

ACTIVATIONS = [
    Case("Celu", 12, [ODD], {"alpha": 0.7}),
    Case("Gelu", 20, [reals(7, 9)], {"approximate": "tanh"}),
    Case("Gelu", 20, [reals(7, 9)]),
    Case("Hardmax", 13, [np.round(X)], {"axis": 1}),
    Case("Hardmax", 11, [np.round(X)]),
    Case("LogSoftmax", 13, [X], {"axis": 2}),
    Case("LogSoftmax", 11, [X], {"axis": 2}),
    Case("LogSoftmax", 1, [X]),
    Case("LogSoftmax", 13, [X * 1000]),
    Case("Mean", 13, [reals(2, 3), reals(1, 3), reals(2, 1)]),
    Case("Mish", 18, [ODD[1:-1]]),
    Case("Selu", 6, [ODD]),
    Case("Selu", 6, [ODD], {"alpha": 2.0, "gamma": 3.0}),
    Case("Shrink", 9, [ODD], {"bias": 0.25, "lambd": 1.0}),
    Case("Softsign", 1, [ODD[1:-1]]),
    Case("SwiGLU", 28, [reals(3, 4), reals(4, 3).T.copy()], {"alpha": 1.25}),
    Case("Swish", 24, [ROWS]),
    Case("Swish", 24, [ROWS], {"alpha": 0.5}),
    Case("ThresholdedRelu", 10, [ODD], {"alpha": 0.5}),
]
NORMALIZATIONS = [
    Case("GroupNormalization", 18, [reals(2, 4, 3, 5), reals(2), reals(2)], {"num_groups": 2}),
    Case("GroupNormalization", 21, [reals(2, 4, 3, 5), reals(4), reals(4)], {"num_groups": 2, "epsilon": 0.01}),
    Case("InstanceNormalization", 6, [X, reals(3), reals(3)], {"epsilon": 0.01}),
    Case("InstanceNormalization", 6, [reals(2, 3, 7), reals(3), reals(3)]),
    Case("LRN", 13, [reals(2, 7, 3, 4)], {"size": 3}),
    Case("LRN", 13, [reals(2, 7, 3, 4)], {"size": 5, "alpha": 0.5, "beta": 0.25, "bias": 2.0}),
    Case("LayerNormalization", 17, [X, reals(5), reals(5)]),
    Case("LayerNormalization", 17, [X, reals(4, 5)], {"axis": 2, "epsilon": 0.1}),
    Case("LayerNormalization", 17, [X, reals(3, 4, 5), reals(3, 4, 5)], {"axis": -3}, 3),
    Case("LpNormalization", 1, [X], {"axis": 1, "p": 1}),
    Case("LpNormalization", 22, [np.concatenate([X, 0 * X])], {"axis": 3, "p": 2}),
    Case("MeanVarianceNormalization", 13, [X]),
    Case("MeanVarianceNormalization", 9, [X], {"axes": [1, -1]}),
    Case("RMSNormalization", 23, [X, reals(5)]),
    Case("RMSNormalization", 23, [X, reals(4, 5)], {"axis": -2, "epsilon": 0.5}),
]
LAYOUT = [
    Case("CastLike", 19, [ROWS, ints(1)]),
    *[Case("DepthToSpace", 13, [reals(2, 12, 2, 3)], {"blocksize": 2, "mode": mode}) for mode in ("DCR", "CRD")],
    Case("DepthToSpace", 1, [reals(2, 12, 2, 3)], {"blocksize": 2}),
    *[Case("SpaceToDepth", 28, [reals(2, 3, 4, 6)], {"blocksize": 2, "mode": mode}) for mode in ("DCR", "CRD")],
    *[Case("EyeLike", 9, [MATRIX], {"k": k, "dtype": 6}) for k in (-5, -1, 0, 2, 9)],
    *[Case("OneHot", 11, [ints(0, 3, -1, -5, 9), ints(4), reals(2)], {"axis": axis}) for axis in (-1, 0, 1)],
    Case("OneHot", 11, [np.array([[0, 2], [1, -2]], np.int32), np.float32(3), ints(5, 7)], {"axis": 1}, 1, (1,)),
    Case("Range", 11, [np.int32(10), np.int32(-3), np.int32(-4)]),
    Case("Range", 11, [np.float32(0.5), np.float32(2.1), np.float32(0.4)], {}, 1, (0, 1, 2)),
    Case("Range", 11, [np.int64(3), np.int64(3), np.int64(1)]),
    Case("Size", 13, [X]),
    Case("Tile", 13, [reals(2, 3), ints(2, 3)]),
    Case("Tile", 6, [reals(2, 3, 1), ints(1, 0, 4)], {}, 1, (1,)),
    *[Case("Trilu", 14, [MATRIX, np.int64(k)], {"upper": upper}) for k in (-7, -1, 0, 2, 7) for upper in (0, 1)],
    Case("Trilu", 14, [np.arange(24).reshape(2, 3, 4)]),
]
REDUCTIONS = [
    Case(op, 18, [reals(2, 3, 4, low=0.5), ints(*axes)], {"keepdims": keep}, 1, known)
    for op in ("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceSumSquare")
    for axes, keep in (((1,), 0), ((-1, 0), 1), ((), 1))
    for known in ((), (1,))
] + [
    Case("ReduceLogSumExp", 13, [np.array([[np.inf, 1], [-np.inf, -np.inf], [1e4, 1]], np.float32)], {"axes": [1]}),
    Case("ReduceMax", 20, [np.zeros((2, 0, 3), np.float32), ints(1)]),
    Case("ReduceMin", 20, [np.zeros((2, 0, 3), np.int32), ints(1)], {"keepdims": 0}),
    Case("ReduceLogSumExp", 18, [np.zeros((2, 0, 3), np.float32), ints(1)]),
]
ARITHMETIC = [
    Case("BitwiseNot", 18, [np.array([0, 1, 200], np.uint8)]),
    Case("BitwiseXor", 18, [np.array([0, -1, 77], np.int32), np.array([5, 5, 5], np.int32)]),
    Case("Pow", 15, [np.array([1, 2, 3], np.float32), np.array([4, 5, 6], np.int64)]),
    Case("Pow", 15, [np.array([1, 2, 3], np.int32), np.array([4, 5, 6], np.uint32)]),
]
SUMS = [
    *[
        Case("CumSum", 14, [x, np.int64(axis)], {"exclusive": exclusive, "reverse": reverse})
        for x in (reals(3, 7), np.arange(12, dtype=np.int32).reshape(4, 3), reals(2, 1, 3), reals(0, 2))
        for axis in (0, -1)
        for exclusive in (0, 1)
        for reverse in (0, 1)
    ],
    Case("CumProd", 26, [reals(3, 5), np.int64(1)], {"exclusive": 1}),
    Case("CumProd", 26, [np.arange(1, 7).reshape(2, 3), np.int64(0)], {"reverse": 1}),
    Case("Einsum", 12, [reals(3, 4), reals(4, 5)], {"equation": "ij, jk -> ik"}),
    Case("Einsum", 12, [reals(3, 4)], {"equation": "ij->ji"}),
    Case("Einsum", 12, [reals(3, 4)], {"equation": "ba"}),
    Case("Einsum", 12, [reals(3, 3)], {"equation": "ii->i"}),
    Case("Einsum", 12, [reals(2, 3, 3)], {"equation": "...ii->...i"}),
    Case("Einsum", 12, [reals(3, 3)], {"equation": "ii"}),
    Case("Einsum", 12, [reals(2, 3), reals(3), reals(3, 4)], {"equation": "ij,j,jk->ki"}),
    Case("Einsum", 12, [reals(2, 1, 3, 4), reals(5, 4, 2)], {"equation": "...ij,...jk->...ik"}),
    Case("Einsum", 12, [reals(2, 3, 4), reals(4, 5)], {"equation": "...j,jk"}),
    Case("Einsum", 12, [reals(2, 3, 4, 5), reals(5, 3, 6)], {"equation": "bhqd,dhk->hbqk"}),
    Case("Einsum", 12, [reals(2, 3, dtype=np.float64), reals(3, 2, dtype=np.float64)], {"equation": "ij,jk->"}),
    Case("MatMul", 13, [np.arange(6).reshape(2, 3), np.arange(3)]),
    *[
        Case("MatMul", 13, [reals(*a), reals(*b)])
        for a, b in (
            ((3,), (3,)),
            ((3,), (3, 4)),
            ((2, 3), (3,)),
            ((3,), (2, 3, 4)),
            ((2, 5, 3), (3,)),
            ((5, 1, 2, 3), (4, 3, 2)),
            ((2, 3), (4, 3, 2)),
            ((1, 2, 3), (4, 3, 2)),
            ((4, 2, 3), (1, 3, 2)),
        )
    ],
    Case("MatMul", 13, [np.arange(3), np.arange(24).reshape(2, 3, 4)]),
    Case("MatMul", 13, [reals(2, 3, 4, dtype=np.float64), reals(4, 2, dtype=np.float64)]),
]
CLASSES = np.array([[0, 2, 1], [1, 1, 2]])
LOSSES = [
    Case(op, 13, [reals(2, 3, 3), classes, *weights], attributes, outputs)
    for op, outputs in (("NegativeLogLikelihoodLoss", 1), ("SoftmaxCrossEntropyLoss", 2))
    for classes in (CLASSES, CLASSES.astype(np.int32))
    for weights in ([], [reals(3, low=0.1)])
    for attributes in ({}, {"reduction": "sum"}, {"reduction": "none", "ignore_index": 1}, {"ignore_index": 2})
]
IMAGE = reals(2, 3, 7, 9)
VOLUME = reals(2, 4, 6, 5, 7)
WINDOWS = [
    Case("Conv", 11, [VOLUME, reals(6, 4, 3, 2, 3), reals(6)], {}, 1, (1, 2)),
    Case(
        "Conv",
        11,
        [VOLUME, reals(6, 2, 3, 3, 3)],
        {"group": 2, "strides": [2, 1, 2], "pads": [1, 0, 2, 0, 1, 1]},
        1,
        (1,),
    ),
    Case("Conv", 11, [VOLUME, reals(2, 4, 2, 2, 2)], {"dilations": [2, 1, 3], "auto_pad": "SAME_UPPER"}, 1, (1,)),
    Case("Conv", 11, [reals(1, 2, 1, 5, 5), reals(3, 2, 3, 3, 3)], {"pads": [1] * 6}, 1, (1,)),
    *[
        Case(op, 12 if op == "MaxPool" else 19, [VOLUME], {"kernel_shape": [2, 3, 2], **attributes})
        for op in ("MaxPool", "AveragePool")
        for attributes in (
            {},
            {"strides": [2, 2, 3], "pads": [1, 1, 0, 0, 1, 1]},
            {"strides": [3, 2, 2], "ceil_mode": 1},
            {"dilations": [1, 2, 1]},
            {"auto_pad": "SAME_LOWER", "strides": [1, 2, 2]},
        )
    ],
    Case("AveragePool", 11, [VOLUME], {"kernel_shape": [3, 3, 3], "pads": [1] * 6, "count_include_pad": 1}),
    *[
        Case("LpPool", 18, [x], {"kernel_shape": [3, 2][: x.ndim - 2], "p": p, **attributes})
        for x in (IMAGE, reals(2, 3, 9))
        for p in (1, 2, 3)
        for attributes in ({}, {"auto_pad": "SAME_UPPER"})
    ],
    Case("Conv", 11, [IMAGE, reals(4, 3, 3, 2), reals(4)], {"strides": [2, 1], "pads": [1, 0, 2, 1]}),
    Case("Conv", 11, [IMAGE, reals(6, 1, 2, 2)], {"group": 3, "dilations": [2, 3], "auto_pad": "SAME_UPPER"}),
    Case("ConvTranspose", 11, [IMAGE, reals(3, 4, 3, 2)], {"strides": [2, 3]}),
    Case("LpPool", 18, [IMAGE], {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    Case("GlobalLpPool", 2, [IMAGE], {"p": 1}),
    Case("GlobalLpPool", 2, [IMAGE], {"p": 3}),
    *[
        Case("ConvTranspose", 11, [IMAGE, reals(3, 4, 3, 2), reals(4)], attributes, 1, (1, 2))
        for attributes in (
            {},
            {"strides": [2, 3]},
            {"strides": [3, 2], "pads": [1, 0, 2, 1], "output_padding": [2, 1]},
            {"strides": [2, 2], "dilations": [2, 3]},
            {"strides": [2, 2], "output_shape": [14, 17]},
            {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
            {"strides": [1, 1], "pads": [2, 1, 2, 1]},
        )
    ],
    *[  # Each phase by its own taps.
        Case("ConvTranspose", 11, [IMAGE, reals(3, 16, *kernel), reals(16)], attributes, 1, (1, 2))
        for kernel, attributes in (
            ((3, 3), {"strides": [2, 2]}),
            ((3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}),
            ((3, 5), {"strides": [2, 4], "pads": [2, 3, 0, 1]}),
            ((5, 1), {"strides": [3, 1], "pads": [4, 0, 1, 0], "output_padding": [2, 0]}),
        )
    ],
    *[  # A convolution for each plane.
        Case("Conv", 11, [reals(2, 1, 47, 53), reals(3, 1, *kernel), reals(3)], attributes, 1, (1, 2))
        for kernel, attributes in (
            ((3, 3), {"pads": [1, 1, 1, 1]}),
            ((2, 7), {"pads": [0, 3, 2, 3], "dilations": [1, 2]}),
            ((5, 4), {"dilations": [2, 1]}),
        )
    ],
    Case("ConvTranspose", 11, [reals(2, 4, 3, 3), reals(4, 2, 3, 3)], {"group": 2, "strides": [2, 2]}, 1, (1,)),
    Case("ConvTranspose", 11, [reals(2, 3, 8), reals(3, 2, 4)], {"strides": [3], "pads": [1, 2]}, 1, (1,)),
    Case("ConvTranspose", 11, [reals(1, 2, 3, 4, 3), reals(2, 3, 2, 3, 2)], {"strides": [2, 1, 2]}, 1, (1,)),
]
HALF = np.array([1, 1, 0.6, 1.7], np.float32)
RESIZES = [
    *[
        Case("Resize", 19, [IMAGE, None, HALF], {"mode": mode, "coordinate_transformation_mode": where, **more}, 1, (2,))
        for mode in ("nearest", "linear", "cubic")
        for where in ("half_pixel", "asymmetric", "pytorch_half_pixel", "half_pixel_symmetric")
        for more in ({}, {"antialias": 1}, {"exclude_outside": 1})
        if mode != "nearest" or not more
        if mode != "linear" or "exclude_outside" not in more
    ],
    *[
        Case("Resize", 18, [reals(5, 6), None, None, ints(*sizes)], {"mode": mode, "keep_aspect_ratio_policy": policy})
        for mode in ("linear", "cubic")
        for policy in ("not_larger", "not_smaller", "stretch")
        for sizes in ((7, 4), (3, 9))
    ],
    Case("Resize", 18, [IMAGE, None, None, ints(4, 13)], {"axes": [1, 3], "mode": "cubic"}, 1, (3,)),
    *[
        Case("Resize", 19, [reals(2, 6, 8, 3), None, *extents],
             {"mode": mode, "coordinate_transformation_mode": where}, 1, (len(extents) + 1,))
        for mode in ("nearest", "linear")
        for where in ("half_pixel", "asymmetric", "align_corners")
        for extents in ([np.array([1, 1.5, 0.75, 1], np.float32)], [None, ints(2, 4, 15, 3)])
    ],
    Case("Resize", 13, [reals(2, 3, 8), None, None, ints(2, 3, 5)], {"mode": "linear"}, 1, (3,)),
    Case("Resize", 13, [VOLUME, None, None, ints(2, 4, 3, 7, 7)], {"mode": "linear"}, 1, (3,)),
    *[
        Case("Resize", 13, [IMAGE, np.array([0, 0, *low, 1, 1, *high], np.float32), None, ints(2, 3, 5, 6)],
             {"mode": mode, "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 9.0})
        for mode in ("nearest", "linear", "cubic")
        for low, high in (((0.2, 0.1), (0.7, 0.9)), ((0.5, -0.2), (1.3, 0.8)))
    ],
]  # fmt: skip
TRAINED = [
    Case("BatchNormalization", 15, [IMAGE, *(reals(3, low=low) for low in (-1, -2, -3, 0.5))]),
    Case("BatchNormalization", 15, [IMAGE, *(reals(3, low=low) for low in (-1, -2, -3, 0.5))], {"training_mode": 1}, 3),
    Case("Dropout", 13, [ROWS], {}, 2),
    Case("Dropout", 13, [ROWS, np.float32(0), np.array(True)], {}, 2),
    Case("Dropout", 13, [ROWS, np.float32(0.3), np.array(False)], {}, 2),
    Case("DynamicQuantizeLinear", 11, [reals(3, 50)], {}, 3),
    Case("DynamicQuantizeLinear", 11, [reals(3, 50, low=1)], {}, 3),
    Case("TopK", 11, [ROWS, ints(2)], {"axis": 0}, 2),
    Case("CenterCropPad", 18, [MATRIX, ints(7, 2)]),
    Case("Slice", 13, [MATRIX, ints(-1, 4), ints(-9, 0), ints(0, 1), ints(-2, -3)], {}, 1, (1, 2, 3, 4)),
    Case("Slice", 13, [MATRIX, ints(3, 1), ints(0, 9), ints(0, 1), ints(-1, 2)]),
    Case("Pad", 13, [MATRIX, ints(-1, 2, 1, -3), np.float32(7)]),
    Case("CenterCropPad", 18, [IMAGE, ints(4, 10)], {"axes": [-1, 2]}),
    *[
        Case("ReverseSequence", 10, [reals(4, 3, 2), ints(*lengths)], {"batch_axis": batch, "time_axis": 1 - batch})
        for batch, lengths in ((1, (4, 2, 1)), (0, (3, 1, 2, 0)))
    ],
    *[
        Case("TensorScatter", 24, [reals(2, 3, 4, 5), reals(2, 3, 2, 5), ints(*at)], {"mode": mode})
        for mode, at in (("linear", (1, 2)), ("circular", (3, 0)))
    ],
]
GRIDS = [
    *[
        Case("GridSample", 20, [IMAGE, reals(2, 4, 5, 2, low=-1.6, high=1.6)],
             {"mode": mode, "padding_mode": outside, "align_corners": corners})
        for mode in ("nearest", "linear", "cubic")
        for outside in ("zeros", "border", "reflection")
        for corners in (0, 1)
    ],
    Case("GridSample", 16, [IMAGE, reals(2, 4, 5, 2)]),
    Case("GridSample", 20, [VOLUME, reals(2, 3, 2, 4, 3, low=-1.2, high=1.2)], {"align_corners": 1}),
    *[
        Case("AffineGrid", 20, [reals(2, axes, axes + 1), ints(2, 3, 4, 5, 6)[: axes + 2]], {"align_corners": corners})
        for axes in (2, 3)
        for corners in (0, 1)
    ],
]  # fmt: skip
HEADS = [reals(2, 3, 4, 8), reals(2, 3, 6, 8), reals(2, 3, 6, 10)]
ATTENTION = [
    Case("Attention", 23, HEADS),
    Case("Attention", 23, HEADS, {"is_causal": 1, "scale": 0.3}),
    Case("Attention", 23, HEADS, {"softcap": 2.0}),
    Case("Attention", 23, [*HEADS, reals(4, 6)], {}),
    Case("Attention", 23, [*HEADS, reals(2, 1, 4, 6) > 0], {}),
    Case("Attention", 23, [*HEADS, reals(2, 3, 4, 6), reals(2, 3, 5, 8), reals(2, 3, 5, 10)][:3], {"is_causal": 1}),
    Case("Attention", 23, [*HEADS, reals(4, 11), reals(2, 3, 5, 8), reals(2, 3, 5, 10)], {"is_causal": 1}, 4),
    Case("Attention", 23, [reals(2, 4, 24), reals(2, 6, 8), reals(2, 6, 10)], {"q_num_heads": 6, "kv_num_heads": 2}),
    Case("Attention", 24, [*HEADS, None, None, None, ints(2, 5)], {"is_causal": 1}),
    Case("Attention", 25, HEADS, {"left_window_size": 2, "right_window_size": 1}),
    *[Case("Attention", 23, HEADS, {"qk_matmul_output_mode": mode}, 4) for mode in (0, 1, 2, 3)],
    Case("RotaryEmbedding", 23, [reals(2, 3, 4, 8), reals(9, 4), reals(9, 4), ints(*range(8)).reshape(2, 4)]),
    Case("RotaryEmbedding", 23, [reals(2, 4, 24), reals(2, 4, 2), reals(2, 4, 2)],
         {"num_heads": 3, "rotary_embedding_dim": 4, "interleaved": 1}),
]  # fmt: skip
REGIONS = np.array([[0, 0, 4, 5], [1.3, 2.1, 4.9, 3.2], [-3, -2, 9, 20], [2, 2, 2, 2], [5, 4, 1, 1]], np.float32)
WHICH = ints(0, 1, 1, 0, 1)
HOSTED = [
    *[
        Case("RoiAlign", opset, [reals(2, 3, 7, 6), REGIONS, WHICH],
             {"mode": mode, "sampling_ratio": ratio, "output_height": 2, "output_width": 3, "spatial_scale": 0.75})
        for opset in (10, 16, 22)
        for mode in ("avg", "max")
        for ratio in (0, 2)
    ],
    Case("RoiAlign", 16, [reals(2, 3, 7, 6), REGIONS, WHICH], {"coordinate_transformation_mode": "output_half_pixel"}),
    Case("RoiAlign", 16, [reals(2, 3, 7, 6), REGIONS[:0], WHICH[:0]], {"output_width": 3}),
    *[
        Case("MaxRoiPool", 1, [reals(2, 3, 7, 6), np.column_stack([WHICH, REGIONS]).astype(np.float32)],
             {"pooled_shape": [2, 3], "spatial_scale": scale})
        for scale in (1.0, 0.75)
    ],
    Case("MaxRoiPool", 1, [reals(2, 3, 7, 6), reals(0, 5)], {"pooled_shape": [1, 1]}),
    *[Case("Det", 11, [reals(*shape)]) for shape in ((1, 1), (3, 3), (2, 0, 4, 4), (2, 3, 5, 5))],
    Case("Det", 11, [np.array([[0, 2, 1], [0, 4, 3], [0, 0, 7]], np.float32)]),
    Case("Det", 11, [np.array([[0, 2, 1], [3, 0, 3], [1, 5, 0]], np.float32)]),
    *[
        Case("TfIdfVectorizer", 9, [np.array([[1, 1, 3, 3, 3, 7, 8], [8, 6, 7, 5, 6, 8, 7]], dtype)[rows]],
             {"mode": mode, "min_gram_length": least, "max_gram_length": 2, "max_skip_count": skips,
              "ngram_counts": [0, 4], "ngram_indexes": [0, 1, 2, 3, 4, 6, 5],
              "pool_int64s": [2, 3, 5, 4, 5, 6, 7, 8, 6, 7], **weights})
        for dtype in (np.int32, np.int64)
        for rows in (slice(None), 0)
        for mode, weights in (("TF", {}), ("IDF", {"weights": [0.5, 1, 2, 3, 4, 5, 6.5]}),
                              ("TFIDF", {"weights": [0.5, 1, 2, 3, 4, 5, 6.5]}))
        for least, skips in ((1, 0), (2, 0), (1, 5), (2, 3))
    ],
]  # fmt: skip
COLUMNS = [
    Case("Col2Im", 18, [reals(2, 12, 20), ints(5, 6), ints(2, 2)]),
    Case("Col2Im", 18, [reals(1, 6, 15), ints(5, 5), ints(1, 3)],
         {"pads": [0, 1, 0, 2], "strides": [1, 2], "dilations": [1, 1]}, 1, (1, 2)),
    Case("Col2Im", 18, [reals(2, 8, 12), ints(6, 6), ints(2, 2)], {"dilations": [2, 3]}),
    Case("Col2Im", 18, [reals(1, 10, 12), ints(3, 4, 5), ints(1, 1, 5)]),
    Case("Col2Im", 18, [reals(2, 8, 12, dtype=np.float64), ints(6, 6), ints(2, 2)], {"dilations": [2, 3]}),
    *[
        Case("DeformConv", 19, [reals(2, 4, 6, 7), reals(4, 4 // groups, 3, 2), reals(2, 12 * own, *outs), *more],
             {"group": groups, "offset_group": own, **window})
        for groups, own, outs, window in (
            (1, 1, (4, 6), {}),
            (2, 1, (3, 3), {"strides": [2, 3], "pads": [1, 0, 0, 2]}),
            (2, 2, (4, 6), {"pads": [2, 1, 0, 1], "dilations": [2, 3], "kernel_shape": [3, 2]}),
        )
        for more in ([], [reals(4)], [reals(4), reals(2, 6 * own, *outs)])
    ],
    *[
        Case("MaxPool", 12, [x], {"kernel_shape": [3, 2, 2][: x.ndim - 2], "storage_order": order, **window}, 2)
        for x in (np.round(IMAGE), np.round(VOLUME), np.round(reals(2, 3, 9)), np.arange(60, dtype=np.int8).reshape(1, 2, 5, 6))
        for order in (0, 1)
        for window in ({}, {"auto_pad": "SAME_LOWER"}, {"strides": [2, 3, 1][: x.ndim - 2]})
        if x.ndim == 4 or not order
    ],
    Case("MaxPool", 12, [IMAGE - 99], {"kernel_shape": [2, 3], "pads": [1, 2, 0, 1], "ceil_mode": 1, "strides": [2, 2]}, 2),
    Case("MaxPool", 12, [IMAGE], {"kernel_shape": [2, 2], "dilations": [2, 3]}, 2),
    *[
        Case("Pad", 19, [MATRIX, ints(*pads), *more], {"mode": "wrap"}, 1, constants)
        for constants in ((), (1,))
        for pads, more in (((1, 2, 3, 0), []), ((0, 0, 0, 11), []), ((2, 1), [None, ints(-1)]), ((9, 0, 9, 0), []))
    ],
    Case("Pad", 19, [MATRIX, ints(-1, 2, 2, -3)], {"mode": "wrap"}),
]  # fmt: skip
SIGNALS = [
    *[
        Case("STFT", 17, [reals(2, 23, parts), np.int64(step), *more], {"onesided": onesided})
        for parts, onesided in ((1, 1), (1, 0), (2, 0))
        for step, more in ((4, [reals(7)]), (3, [None, np.int64(6)]), (5, [reals(8), np.int64(8)]))
    ],
    *[
        Case("DFT", 20, [reals(2, 6, 3, 2), *more], {"inverse": 1, "onesided": 1})
        for more in ([None, np.int64(1)], [np.int64(11), np.int64(1)], [np.int64(7), np.int64(1)])
    ],
    Case("STFT", 17, [reals(2, 300, 1), np.int64(40), reals(64)], {"onesided": 1}),
    *[
        Case("MelWeightMatrix", 17, [np.int64(8), np.int64(64), np.int64(8192), np.float32(low), np.float32(high)])
        for low, high in ((0, 4096), (120.5, 3000))
    ],
]
MIXED = [
    *[
        Case("Pow", 15, [np.array(base, dtype), np.array(exponent, other)])
        for dtype in (np.int32, np.int64)
        for other in (np.float32, np.float64)
        for base, exponent in (([2, 3, -2, 10, 7, 0], [3, 0.5, 2, 9, -1, 2]), ([[4], [9]], [0.5, 1.5, 2]))
    ],
    Case("Pow", 15, [reals(7, low=0, dtype=np.float64), reals(7)]),
    *[Case(op, 22, [reals(3, 5, low=0.05, high=0.95, dtype=np.float64)])
      for op in ("Exp", "Log", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Atanh",
                 "Tanh", "Sigmoid", "Softplus", "Erf", "Sqrt", "Reciprocal", "Softsign", "Ceil", "Floor", "Round")],
    *[Case("Exp", 13, [np.array([-800, -745, -701, 701, 709, 800, np.inf, -np.inf, np.nan], np.float64)])],
    *[Case("Softmax", 13, [reals(2, 3, 4, dtype=np.float64) * 50], {"axis": axis}) for axis in (0, 1, -1)],
    Case("Softmax", 11, [reals(2, 3, 4, dtype=np.float64)], {"axis": 1}),
]  # fmt: skip
STATEFUL = [
    *[
        Case(
            "LinearAttention",
            27,
            [reals(2, 5, 6 * 4), reals(2, 5, 3 * 4), reals(2, 5, 3 * 5), state, decay, rate],
            {"q_num_heads": 6, "kv_num_heads": 3, "update_rule": rule, "scale": scale},
            2,
        )
        for state, scale in ((None, 0.0), (reals(2, 3, 4, 5), 0.3))
        for rule, decay, rate in (
            ("linear", None, None),
            ("gated", reals(2, 5, 3, high=0), None),
            ("delta", None, reals(2, 5, 3, low=0, high=1)),
            ("gated_delta", reals(2, 5, 12, high=0), reals(2, 5, 1, low=0, high=1)),
        )
    ],
    *[
        Case("CausalConvWithState", 27, [reals(2, 3, length), reals(3, 1, 4), bias, state], {"activation": name}, 2)
        for length in (1, 7)
        for bias in (None, reals(3))
        for state in (None, reals(2, 3, 3))
        for name in ("none", "silu")
    ],
    *[
        Case("BitCast", 26, [x], {"to": to})
        for x, to in ((ODD, 6), (ints(1, -1), 11), (np.array([1, -1], np.int16), 4), (np.array([200], np.uint8), 3))
    ],
]
CASES = (
    HOSTED
    + COLUMNS
    + SIGNALS
    + MIXED
    + STATEFUL
    + WINDOWS
    + RESIZES
    + GRIDS
    + TRAINED
    + ATTENTION
    + SUMS
    + LOSSES
    + ACTIVATIONS
    + NORMALIZATIONS
    + LAYOUT
    + REDUCTIONS
    + ARITHMETIC
)


def title(case: Case) -> str:
    return f"{case.op}-{case.opset}-" + "-".join(str(value) for value in case.attributes.values())


@pytest.mark.parametrize("case", CASES, ids=title)
@pytest.mark.filterwarnings("ignore")
def test_composites_are_those_of_the_reference(case: Case) -> None:
    results = triune.Session(case.model()).run(case.feeds())
    judge, wanted = expected(case)
    for mine, theirs in zip(results, wanted, strict=True):
        assert mine.dtype == theirs.dtype, judge
        assert mine.shape == theirs.shape, judge
        if mine.dtype.kind == "f":
            bound = 3e-6 * max(1.0, float(np.abs(theirs[np.isfinite(theirs)]).max(initial=0)))
            np.testing.assert_allclose(mine, theirs, rtol=3e-6, atol=bound, err_msg=f"as {judge} has it")
        else:
            np.testing.assert_array_equal(mine, theirs, err_msg=f"as {judge} has it")


@pytest.mark.parametrize(("length", "size"), [(64, 64), (90, 90), (80, 96), (200, 144), (1024, 1024), (8192, 8192)])
@pytest.mark.parametrize(("parts", "inverse", "onesided"), [(1, 0, 0), (1, 0, 1), (2, 0, 0), (2, 1, 0), (1, 1, 0)])
def test_transforms_of_many_elements(length: int, size: int, parts: int, inverse: int, onesided: int) -> None:
    x = reals(2, length, 3, parts)
    case = Case("DFT", 20, [x, np.int64(size), np.int64(1)], {"inverse": inverse, "onesided": onesided})
    (mine,) = triune.Session(case.model()).run(case.feeds())
    signal = x[..., 0] + 1j * (x[..., 1] if parts == 2 else np.zeros(()))
    wanted = (np.fft.ifft if inverse else np.fft.fft)(signal.astype(np.complex128), size, axis=1)
    wanted = wanted[:, : size // 2 + 1] if onesided else wanted
    wanted = np.stack([wanted.real, wanted.imag], axis=-1)
    assert mine.shape == wanted.shape
    # Of single precision, whose factors are rounded; ONNX Runtime is up to a hundred times as far from it.
    np.testing.assert_allclose(mine, wanted, rtol=0, atol=1.5e-6 * float(np.abs(wanted).max()))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32])
@pytest.mark.parametrize("extents", [(1, 1, 1.5, 0.6), (1, 1, 0.5, 2)])
def test_means_of_integers_are_cut_off(dtype: Any, extents: tuple[float, ...]) -> None:
    scales = np.array(extents, np.float32)
    case = Case(
        "Resize", 19, [reals(2, 3, 10, 10, low=-99, high=99).astype(dtype), None, scales], {"mode": "linear"}, 1, (2,)
    )
    (mine,), (_, (theirs,)) = triune.Session(case.model()).run(case.feeds()), expected(case)
    assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
    # A mean that is an integer in one order of additions lies just below it in another.
    assert np.abs(mine.astype(np.int64) - theirs).max() <= 1
    assert (mine == theirs).mean() > 0.9


def neighbours(x: Array, size: int) -> Array:
    """Return x normalized over this many channels, as its text says it."""
    squares = np.pad(x.astype(np.float64) ** 2, ((0, 0), ((size - 1) // 2, size // 2), (0, 0), (0, 0)))
    sums = sum(squares[:, shift : shift + x.shape[1]] for shift in range(size))
    return np.asarray(x / (1 + 1e-4 / size * sums) ** 0.75, np.float32)


# ONNX Runtime has none of these: what their text says, in numpy.
BY_TEXT: list[tuple[Case, Callable[[], Array]]] = [
    (Case("LRN", 13, [9 * reals(2, 7, 3, 4)], {"size": 4}), lambda: neighbours(9 * reals(2, 7, 3, 4), 4)),
    (Case("Add", 6, [X, reals(4, 5)], {"broadcast": 1}), lambda: X + reals(4, 5)),
    (Case("Sub", 6, [X, reals(3, 4)], {"broadcast": 1, "axis": 1}), lambda: X - reals(3, 4)[:, :, None]),
    (Case("Mul", 1, [X, reals(2)], {"broadcast": 1, "axis": 0, "consumed_inputs": [0, 1]}),
     lambda: X * reals(2)[:, None, None, None]),
    (Case("Div", 6, [X, X + 9]), lambda: X / (X + 9)),
    (Case("Pow", 1, [np.abs(X), reals(4, low=0)], {"broadcast": 1, "axis": 2}),
     lambda: np.abs(X) ** reals(4, low=0)[:, None]),
    (Case("Greater", 1, [X, reals(5)], {"broadcast": 1}), lambda: reals(5) < X),
    (Case("PRelu", 6, [X, reals(3)]), lambda: np.where(X < 0, X * reals(3)[:, None, None], X)),
    (Case("PRelu", 1, [X, reals(1)]), lambda: np.where(X < 0, X * reals(1), X)),
    (Case("Selu", 1, [X]), lambda: np.where(X > 0, 1.0507 * X, 1.0507 * 1.6732 * np.expm1(X)).astype(np.float32)),
    (Case("Tile", 1, [X, ints(3), ints(2)]), lambda: np.tile(X, (1, 1, 3, 1))),
    (Case("Clip", 1, [X], {"min": -1.0, "max": 0.5}), lambda: X.clip(-1, 0.5)),
    (Case("Concat", 1, [X, X]), lambda: np.concatenate([X, X], 1)),
    (Case("Reshape", 1, [X], {"shape": [0, -1]}), lambda: X.reshape(2, -1)),
    (Case("Pad", 1, [ROWS], {"paddings": [1, 0, 0, 2]}), lambda: np.pad(ROWS, ((1, 0), (0, 2)))),
]  # fmt: skip


@pytest.mark.parametrize(("case", "result"), BY_TEXT, ids=[title(case) for case, _ in BY_TEXT])
def test_what_no_other_has_means_what_their_text_says(case: Case, result: Callable[[], Array]) -> None:
    (mine,) = triune.Session(case.model()).run(case.feeds())
    np.testing.assert_allclose(mine, result(), rtol=2e-6, atol=2e-6)


WRONG = [
    (Case("Add", 6, [X, reals(4, 5)]), r"node 'it' \(Add\).*inputs"),
    (Case("Add", 6, [X, reals(3)], {"broadcast": 1, "axis": 2}), r"node 'it' \(Add\).*inputs"),
    (Case("LayerNormalization", 17, [X, reals(5)], {"axis": 4}), r"node 'it' \(LayerNormalization\).*axis 4"),
    (Case("LayerNormalization", 17, [X, reals(7)]), r"node 'it' \(LayerNormalization\).*broadcast"),
    (Case("GroupNormalization", 21, [X, reals(3), reals(3)], {"num_groups": 2}), r"\(GroupNormalization\).*2 groups"),
    (Case("Range", 11, [np.int64(0), np.int64(2**40), np.int64(1)]), r"\(Range\).*elements"),
    (Case("Range", 11, [np.int64(0), np.int64(4), np.int64(0)]), r"\(Range\).*step of 0"),
    (Case("Tile", 13, [ROWS, ints(2)]), r"\(Tile\).*1 repeats"),
    (Case("DepthToSpace", 13, [X], {"blocksize": 2}), r"\(DepthToSpace\).*blocks of 2"),
    (Case("BatchNormalization", 6, [X, *[reals(3, low=0.1)] * 4]), r"is_test"),
    (Case("BitCast", 26, [ODD], {"to": 7}), r"\(BitCast\).*float32 as int64"),
    (Case("Col2Im", 18, [reals(2, 12, 21), ints(5, 6), ints(2, 2)]), r"\(Col2Im\).*columns \(2, 12, 21\)"),
    (Case("Det", 11, [ROWS]), r"\(Det\).*square"),
    (Case("Pad", 19, [MATRIX[:0], ints(1, 0, 0, 0)], {"mode": "wrap"}), r"\(Pad\).*axis 0 has no elements"),
    (Case("RoiAlign", 16, [IMAGE, REGIONS, ints(0, 1, 2, 0, 1)]), r"\(RoiAlign\).*region 2 is of no image"),
    (
        Case("MaxRoiPool", 22, [IMAGE, reals(1, 5) - 9], {"pooled_shape": [1, 1]}),
        r"\(MaxRoiPool\).*region 0 is of no image",
    ),
    (Case("MaxRoiPool", 22, [IMAGE, reals(1, 5)], {"pooled_shape": [1]}), r"\(MaxRoiPool\).*'pooled_shape'"),
    (Case("STFT", 17, [reals(2, 23, 1), np.int64(4), reals(24)]), r"\(STFT\).*24 by steps of 4"),
    (Case("RandomUniform", 22, [], {"shape": [4], "dtype": 7}), r"\(RandomUniform\).*int64"),
]


@pytest.mark.parametrize(("case", "words"), WRONG, ids=[title(case) for case, _ in WRONG])
def test_errors_name_the_networks_node(case: Case, words: str) -> None:
    def load_and_run() -> None:
        triune.Session(case.model()).run(case.feeds())

    with pytest.raises(triune.errors.Error, match=words):
        load_and_run()


def test_random_numbers_follow_from_their_seed() -> None:
    def numbers(op: str, *inputs: Array, **attributes: Any) -> Array:
        return np.asarray(triune.Session(Case(op, 22, [*inputs], attributes).model()).run(
            Case(op, 22, [*inputs]).feeds())[0])  # fmt: skip

    uniform = numbers("RandomUniform", shape=[100, 1000], low=-2.0, high=4.0, seed=7.0)
    np.testing.assert_array_equal(uniform, numbers("RandomUniform", shape=[100, 1000], low=-2.0, high=4.0, seed=7.0))
    assert -2 <= uniform.min() < -1.99
    assert 3.99 < uniform.max() <= 4
    assert abs(uniform.mean() - 1) < 0.03
    assert (numbers("RandomUniform", shape=[9]) == numbers("RandomUniform", shape=[9])).all()
    assert (numbers("RandomUniform", shape=[9], seed=1.0) != numbers("RandomUniform", shape=[9], seed=2.0)).any()
    normal = numbers("RandomNormal", shape=[100_000], mean=3.0, scale=2.0, dtype=11)
    assert normal.dtype == np.float64
    assert abs(normal.mean() - 3) < 0.03
    assert abs(normal.std() - 2) < 0.03
    like = numbers("RandomNormalLike", np.zeros((3, 0, 2), np.float16))
    assert (like.dtype, like.shape) == (np.float16, (3, 0, 2))
    chance = np.repeat(np.array([[0], [0.25], [1]], np.float32), 40_000, axis=1)
    np.testing.assert_allclose(numbers("Bernoulli", chance, dtype=7).mean(axis=1), [0, 0.25, 1], atol=0.01)
    shares = np.log(np.array([[0.5, 0.1, 0.4], [1e-30, 1, 1e-30]], np.float32))
    drawn = numbers("Multinomial", shares, sample_size=50_000)
    assert drawn.dtype == np.int32
    counted = [[(row == each).mean() for each in range(3)] for row in drawn]
    np.testing.assert_allclose(counted, [[0.5, 0.1, 0.4], [0, 1, 0]], atol=0.01)


def norm(shape: tuple[int, ...], *rows: int) -> Case:
    """Layer normalization with factors and addends that are known."""
    return Case("LayerNormalization", 17, [reals(*shape), reals(*rows), reals(*rows)], {"axis": -len(rows)}, 1, (1, 2))


@pytest.mark.parametrize(
    ("case", "operators"),
    [
        (norm((3, 5, 40), 40), ["LayerNormalization"]),
        (norm((2, 3, 4, 5), 4, 5), ["LayerNormalization"]),
        (norm((1, 1, 1, 7), 7), ["LayerNormalization"]),
        (norm((4, 2, 3, 1), 3, 1), ["LayerNormalization"]),
        # Factors per channel stay operators of their own, as do those that come with a run.
        (Case("InstanceNormalization", 22, [reals(1, 2, 1, 30), reals(2), reals(2)], {}, 1, (1, 2)),
         ["LayerNormalization", "Add"]),
        (Case("LayerNormalization", 17, [reals(2, 6), reals(6)], {}), ["LayerNormalization", "Mul"]),
        (Case("InstanceNormalization", 22, [reals(4, 2, 2, 1), reals(2), reals(2)], {}, 1, (1, 2)),
         ["LayerNormalization", "Add"]),
    ],
)  # fmt: skip
def test_normalizations_of_rows_run_as_one_operator(case: Case, operators: list[str]) -> None:
    model = case.model()
    (expected,) = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, case.feeds())
    session = triune.Session(model)
    np.testing.assert_allclose(session.run(case.feeds())[0], expected, rtol=2e-6, atol=1e-5)
    kinds = [operator.kind for operator in session.profile(case.feeds(), runs=1).operators]
    assert [kind for kind in kinds if kind != "Copy"] == operators


@pytest.mark.parametrize("group", [1, 2, 4])
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize(("kernel", "stride"), [((1, 1), (2, 3)), ((2, 3), (3, 2)), ((4, 5), (2, 2)), ((3, 2), (1, 4))])
@pytest.mark.parametrize("pads", [(0, 0, 0, 0), (1, 0, 0, 1), (2, 3, 1, 0)])
@pytest.mark.parametrize("known", [(1, 2), ()])
def test_transposed_convolutions_by_phases(
    group: int,
    batch: int,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    pads: tuple[int, int, int, int],
    known: tuple[int, ...],
) -> None:
    case = Case(
        "ConvTranspose",
        22,
        [reals(batch, 4, 5, 6), reals(4, 3, *kernel), reals(3 * group)],
        {"group": group, "strides": list(stride), "pads": list(pads)},
        1,
        known,
    )
    model = case.model()
    (expected,) = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, case.feeds())
    (got,) = triune.Session(model).run(case.feeds())
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)
