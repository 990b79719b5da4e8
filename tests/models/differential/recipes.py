"""How each operator's operands and attributes are drawn: a recipe per family, for all versions of its operators."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from drawing import Array, Draw, Drawn, Recipe, Refused, Type
from onnx import TensorProto, helper, numpy_helper

RECIPES: dict[str, Recipe] = {}

# What is not drawn, and why.
NOT_DRAWN = {
    "ImageDecoder": "decodes files of pictures",
    "RegexFullMatch": "regular expressions over strings",
    "StringConcat": "strings",
    "StringNormalizer": "strings and locales",
    "StringSplit": "strings",
}
DOMAINS_NOT_DRAWN = {
    "ai.onnx.ml": "trees and encoders of classical learning",
    "ai.onnx.preview.training": "training",
    "ai.onnx.preview": "operators that ONNX has not settled",
}


def recipe(*operators: str) -> Callable[[Recipe], Recipe]:
    """Register a recipe under these operators."""

    def register(function: Recipe) -> Recipe:
        for operator in operators:
            assert operator not in RECIPES, operator
            RECIPES[operator] = function
        return function

    return register


def ints(*values: int) -> Array:
    """Return them as int64."""
    return np.array(values, np.int64)


UNARY: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("Abs", "Ceil", "Celu", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish"), (-4, 4)),
    **dict.fromkeys(("IsInf", "IsNaN", "LeakyRelu", "Mish", "Neg", "Not", "BitwiseNot", "Relu", "Selu"), (-4, 4)),
    **dict.fromkeys(("Shrink", "Sigmoid", "Sign", "Softplus", "Softsign", "Swish", "Tanh"), (-6, 6)),
    **dict.fromkeys(("ThresholdedRelu", "Round", "Cosh", "Sinh", "Asinh", "Atan"), (-4, 4)),
    "Acos": (-1, 1), "Asin": (-1, 1), "Atanh": (-0.95, 0.95), "Acosh": (1, 5), "Cos": (-30, 30), "Sin": (-30, 30),
    "Tan": (-1.4, 1.4), "Log": (0.05, 9), "Sqrt": (0, 9), "Reciprocal": (0.3, 4),
}  # fmt: skip


@recipe(*UNARY)
def unary(d: Draw) -> Drawn:
    low, high = UNARY[d.op]
    attributes = d.some(alpha=d.real(0.1, 2), beta=d.real(0, 1), gamma=d.real(0.5, 2), approximate=d.pick("none", "tanh"),
                        detect_negative=d.between(0, 1), detect_positive=d.between(0, 1), bias=d.real(-1, 1),
                        lambd=d.real(0, 1))  # fmt: skip
    return Drawn([d.tensor(0, d.shape(d.between(0, 4)), low, high)], attributes, bound=2)


def old_broadcast(d: Draw, low: float = -3, high: float = 3, *, nonzero: bool = False) -> Drawn:
    """Return two operands as before set 7: of one shape, or the second placed by `axis`."""
    rank = d.between(1, 4)
    shape = d.shape(rank)
    first = d.tensor(0, shape, low, high)
    kind = d.pick("same", "suffix", "axis")
    if kind == "same":
        return Drawn([first, d.tensor(1, shape, low, high, nonzero=nonzero)])
    start = d.between(0, rank - 1)
    stop = rank if kind == "suffix" else d.between(start + 1, rank)
    attributes: dict[str, Any] = {"broadcast": 1}
    if kind == "axis":
        attributes["axis"] = start
    return Drawn([first, d.tensor(1, shape[start:stop], low, high, nonzero=nonzero)], attributes)


@recipe("Add", "Sub", "Mul", "Div", "And", "Or", "Xor", "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual",
        "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Mod", "BitShift", "Pow")  # fmt: skip
def binary(d: Draw) -> Drawn:
    whole = d.dtype(1).kind in "iu"
    low, high = (-20.0, 20.0) if d.op in ("Div", "Mod") else (-3.0, 3.0)
    nonzero = whole and d.op in ("Div", "Mod")
    if d.op == "Pow":
        low, high = (0, 4) if whole or d.dtype(0).kind in "iu" else (0.2, 3)
    if d.has("broadcast"):
        drawn = old_broadcast(d, low, high, nonzero=nonzero)
    else:
        a, b = d.together(2)
        drawn = Drawn([d.tensor(0, a, low, high), d.tensor(1, b, low, high, nonzero=nonzero)])
    if d.op in ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual") and d.dtype(0).kind == "f":
        drawn.inputs = [np.round(np.asarray(value, np.float64)).astype(d.dtype(0)) for value in drawn.inputs]
    if d.op == "BitShift":
        bits = d.dtype(0).itemsize * 8
        assert isinstance(drawn.inputs[1], np.ndarray)
        drawn.inputs[1] = d.whole(0, bits - 1, drawn.inputs[1].shape, d.dtype(1))
        drawn.attributes["direction"] = d.pick("LEFT", "RIGHT")
    if d.op == "Mod":
        # The standard asks for fmod where numbers are not whole.
        drawn.attributes["fmod"] = d.between(0, 1) if whole else 1
        if whole:
            # The least number by -1 has no quotient.
            drawn.inputs = [d.tensor(place, np.shape(value), low, high, special=False, nonzero=place == 1)
                            for place, value in enumerate(drawn.inputs)]  # fmt: skip
    if d.op == "Div" and whole:
        drawn.inputs[0] = d.tensor(0, np.shape(drawn.inputs[0]), low, high, special=False)
    drawn.bound = 2 if d.op == "Pow" else 1
    return drawn


@recipe("Max", "Min", "Mean", "Sum")
def several(d: Draw) -> Drawn:
    count = d.between(1, 4)
    shapes = d.together(count) if d.since >= 8 else [d.shape(d.between(0, 4))] * count
    return Drawn([d.tensor(0, shape) for shape in shapes], bound=2)


@recipe("Where")
def where(d: Draw) -> Drawn:
    return Drawn([d.tensor(place, shape) for place, shape in enumerate(d.together(3))])


@recipe("PRelu")
def prelu(d: Draw) -> Drawn:
    shape = d.shape(d.between(1, 4))
    if d.since < 7:
        slope: tuple[int, ...] = (1,) if len(shape) < 2 or d.maybe() else (shape[1],)
    else:
        start = d.between(0, len(shape))
        slope = tuple(1 if d.maybe(0.3) else extent for extent in shape[start:])
    return Drawn([d.tensor(0, shape), d.tensor(1, slope)])


@recipe("Clip")
def clip(d: Draw) -> Drawn:
    x = d.tensor(0, d.shape(d.between(0, 4)), -5, 5)
    if d.has("min"):
        return Drawn([x], d.some(min=d.real(-3, 0), max=d.real(0, 3)))
    low, high = (
        d.tensor(place, (), 0 if place == 2 else -3, 3 if place == 2 else 0, special=False) for place in (1, 2)
    )
    return Drawn([x, low if d.maybe(0.8) else None, high if d.maybe(0.8) else None])


@recipe("SwiGLU")
def swiglu(d: Draw) -> Drawn:
    shape = d.shape(d.between(1, 4))
    return Drawn([d.tensor(0, shape), d.tensor(1, shape)], d.some(alpha=d.real(0.5, 2)), bound=3)


@recipe("Softmax", "LogSoftmax", "Hardmax")
def softmax(d: Draw) -> Drawn:
    rank = d.between(1, 4)
    x = d.tensor(0, d.shape(rank), -4, 4, special=d.op != "Hardmax")
    if d.op == "Hardmax":
        x = np.round(x.astype(np.float32)).astype(x.dtype)
    return Drawn([x], d.some(axis=d.axis(rank)), bound=2)


REDUCTIONS = ("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin",
              "ReduceProd", "ReduceSum", "ReduceSumSquare")  # fmt: skip


@recipe(*REDUCTIONS)
def reduction(d: Draw) -> Drawn:
    rank = d.between(0, 4)
    low = 0.3 if d.op in ("ReduceLogSum", "ReduceProd") else -3
    x = d.tensor(0, d.shape(rank), low, 2, special=d.op in ("ReduceMax", "ReduceMin"))
    attributes = d.some(keepdims=d.between(0, 1), noop_with_empty_axes=d.between(0, 1))
    axes = d.axes(rank)
    if d.has("axes"):
        if axes:
            attributes |= d.some(axes=axes)
        return Drawn([x], attributes, bound=4)
    return Drawn([x, ints(*axes) if d.maybe(0.7) else None], attributes, bound=4)


@recipe("ArgMax", "ArgMin")
def place_of(d: Draw) -> Drawn:
    rank = d.between(1, 4)
    x = d.tensor(0, d.shape(rank), special=False)
    if x.dtype.kind == "f":
        x = np.round(x)
    return Drawn([x], d.some(axis=d.axis(rank), keepdims=d.between(0, 1), select_last_index=d.between(0, 1)))


@recipe("MatMul")
def matmul(d: Draw) -> Drawn:
    m, k, n = d.extent(1, 6), d.extent(1, 9), d.extent(1, 6)
    batch = d.together(2, 2)
    left, right = (*batch[0], m, k), (*batch[1], k, n)
    if d.maybe(0.15):
        left = (k,)
    if d.maybe(0.15):
        right = (k,)
    return Drawn([d.tensor(0, left), d.tensor(1, right)], bound=4)


@recipe("Gemm")
def gemm(d: Draw) -> Drawn:
    m, k, n = d.extent(1, 6), d.extent(1, 9), d.extent(1, 6)
    attributes = d.some(transA=d.between(0, 1), transB=d.between(0, 1))
    # float16 and whole numbers keep such factors.
    attributes |= d.some(alpha=float(d.pick(0.5, 1, 2)), beta=float(d.pick(0.25, 1, 3)))
    if d.dtype(0).kind in "iu":
        attributes |= {name: float(round(attributes[name] + 0.5)) for name in ("alpha", "beta") if name in attributes}
    a = d.tensor(0, (k, m) if attributes.get("transA") else (m, k))
    b = d.tensor(1, (n, k) if attributes.get("transB") else (k, n))
    shape = d.pick((m, n), (n,), (1, n), (m, 1), (), (1,), (1, 1))
    if d.since < 7:
        shape = d.pick((m, n), (n,), (1, n))
        if shape != (m, n):
            attributes["broadcast"] = 1
    c = d.tensor(2, shape) if d.since < 11 or d.maybe(0.7) else None
    return Drawn([a, b, c], attributes, bound=4)


@recipe("Einsum")
def einsum(d: Draw) -> Drawn:
    letters = "abcdef"
    extents = {letter: d.extent(1, 4) for letter in letters}
    terms = ["".join(letters[at] for at in d.order(6)[: d.between(0, 3)]) for _ in range(d.between(1, 3))]
    seen = sorted(set("".join(terms)))
    equation = ",".join(terms)
    if d.maybe(0.75):
        equation += "->" + "".join(seen[at] for at in d.order(len(seen))[: d.between(0, len(seen))])
    return Drawn([d.tensor(0, [extents[letter] for letter in term]) for term in terms], {"equation": equation}, bound=4)


@recipe("Det")
def det(d: Draw) -> Drawn:
    side = d.between(1, 5)
    return Drawn([d.tensor(0, (*d.shape(d.between(0, 2)), side, side), special=False)], bound=20)


def windows(
    d: Draw, dims: int, *, pads: bool = True, dilations: bool = True
) -> tuple[dict[str, Any], list[int], list[int]]:
    """Return attributes of windows, their extents, and the least extents of a map for them."""
    kernel = [d.between(1, 3) for _ in range(dims)]
    attributes: dict[str, Any] = {}
    if d.maybe(0.6) and d.has("strides"):
        attributes["strides"] = [d.between(1, 3) for _ in range(dims)]
    if dilations and d.maybe(0.4) and d.has("dilations"):
        attributes["dilations"] = [d.between(1, 3) for _ in range(dims)]
    how = d.pick("none", "pads", "auto") if pads else "none"
    if how == "pads":
        # No side is padded by a whole window.
        attributes["pads"] = [d.between(0, size - 1) for size in kernel * 2]
    elif how == "auto" and d.has("auto_pad"):
        attributes["auto_pad"] = d.pick("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET")
    spread = attributes.get("dilations", [1] * dims)
    return attributes, kernel, [(size - 1) * by + 1 for size, by in zip(kernel, spread, strict=True)]


def spatial(d: Draw, least: list[int], more: int = 5) -> tuple[int, ...]:
    """Return extents of a map in which each window fits."""
    return tuple(d.extent(low, low + more) for low in least)


@recipe("Conv")
def conv(d: Draw) -> Drawn:
    dims = d.pick(1, 2, 2, 2, 3)
    attributes, kernel, least = windows(d, dims)
    group = d.pick(1, 1, 2, 3)
    each, outs = d.between(1, 3), d.between(1, 3)
    attributes |= d.some(kernel_shape=kernel)
    if group > 1 or d.maybe(0.3):
        attributes["group"] = group
    x = d.tensor(0, (d.extent(1, 2), group * each, *spatial(d, least)))
    w = d.tensor(1, (group * outs, each, *kernel))
    return Drawn([x, w, d.tensor(2, (group * outs,)) if d.maybe() else None], attributes, bound=6)


@recipe("ConvTranspose")
def conv_transpose(d: Draw) -> Drawn:
    dims = d.pick(1, 2, 2, 2, 3)
    attributes, kernel, _ = windows(d, dims)
    attributes.pop("auto_pad", None)
    group = d.pick(1, 1, 2, 3)
    each, outs = d.between(1, 3), d.between(1, 3)
    if group > 1:
        attributes["group"] = group
    strides = attributes.get("strides", [1] * dims)
    spread = attributes.get("dilations", [1] * dims)
    attributes |= d.some(kernel_shape=kernel)
    if d.maybe(0.3):
        attributes["output_padding"] = [
            d.between(0, max(by, wide) - 1) for by, wide in zip(strides, spread, strict=True)
        ]
    size = spatial(d, [1] * dims)
    if d.maybe(0.15) and "output_padding" not in attributes:
        attributes.pop("pads", None)
        attributes["auto_pad"] = d.pick("SAME_UPPER", "SAME_LOWER", "VALID")
    x = d.tensor(0, (d.extent(1, 2), group * each, *size))
    w = d.tensor(1, (group * each, outs, *kernel))
    return Drawn([x, w, d.tensor(2, (group * outs,)) if d.maybe() else None], attributes, bound=6)


@recipe("MaxPool", "AveragePool", "LpPool")
def pool(d: Draw) -> Drawn:
    dims = d.pick(1, 2, 2, 2, 3)
    attributes, kernel, least = windows(d, dims)
    attributes["kernel_shape"] = kernel
    attributes |= d.some(ceil_mode=d.between(0, 1), count_include_pad=d.between(0, 1))
    if d.op == "LpPool":
        attributes |= {"p": float(d.between(1, 3))} if d.since == 1 else d.some(p=d.between(1, 3))
        if d.since == 1:
            attributes["kernel_shape"] = kernel
    outputs = 1
    if d.op == "MaxPool" and d.since >= 8 and d.maybe(0.4):
        outputs = 2
        attributes |= d.some(storage_order=d.between(0, 1))
    x = d.tensor(0, (d.extent(1, 2), d.extent(1, 3), *spatial(d, least)), special=d.op == "MaxPool")
    if d.op == "MaxPool" and x.dtype.kind == "f":
        x = np.nan_to_num(x, nan=1.0)
    return Drawn([x], attributes, outputs, bound=4)


@recipe("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def whole_pool(d: Draw) -> Drawn:
    attributes: dict[str, Any] = {}
    if d.op == "GlobalLpPool" and d.maybe():
        attributes["p"] = float(d.between(1, 3)) if d.since == 1 else d.between(1, 3)
    return Drawn([d.tensor(0, d.shape(d.between(3, 5)), special=False)], attributes, bound=4)


@recipe("MaxUnpool")
def unpool(d: Draw) -> Drawn:
    dims = d.pick(1, 2, 3)
    kernel = [d.between(1, 3) for _ in range(dims)]
    strides = [d.between(1, 3) for _ in range(dims)]
    shape = (d.extent(1, 2), d.extent(1, 2), *d.shape(dims, 1, 4))
    room = [(extent - 1) * by + size for extent, by, size in zip(shape[2:], strides, kernel, strict=True)]
    count, least = math.prod(shape), math.prod(shape[:2]) * math.prod(room)
    if count > least:
        raise Refused("more places than there are")
    places = d.shuffled(least)[:count].reshape(shape)
    attributes = {"kernel_shape": kernel, "strides": strides}
    size = ints(*shape[:2], *(extent + d.between(0, 2) for extent in room)) if d.maybe(0.3) else None
    return Drawn([d.tensor(0, shape, special=False), places, size], attributes)


@recipe("MaxRoiPool")
def max_roi_pool(d: Draw) -> Drawn:
    images, side = d.extent(1, 2), d.extent(4, 7)
    count = d.extent(1, 3)
    low = d.whole(0, side // 2, (count, 2))
    corners = np.concatenate(
        [d.whole(0, max(images - 1, 0), (count, 1)), low, low + d.whole(0, side - 1, (count, 2))], 1
    )
    attributes = {"pooled_shape": [d.between(1, 3), d.between(1, 3)], **d.some(spatial_scale=d.pick(0.5, 1.0))}
    return Drawn(
        [d.tensor(0, (images, d.extent(1, 3), side, side), special=False), corners.astype(d.dtype(1))], attributes
    )


@recipe("RoiAlign")
def roi_align(d: Draw) -> Drawn:
    images, count = d.extent(1, 2), d.extent(1, 4)
    corners = d.array(d.type(1), (count, 4), -1, 9, special=False)
    attributes = d.some(mode=d.pick("avg", "max"), output_height=d.between(1, 3), output_width=d.between(1, 3),
                        sampling_ratio=d.between(0, 3), spatial_scale=d.pick(0.5, 1.0, 0.75),
                        coordinate_transformation_mode=d.pick("half_pixel", "output_half_pixel"))  # fmt: skip
    x = d.tensor(0, (images, d.extent(1, 3), d.extent(3, 7), d.extent(3, 7)), special=False)
    return Drawn([x, corners, d.whole(0, max(images - 1, 0), (count,))], attributes, bound=4)


@recipe("BatchNormalization")
def batch_normalization(d: Draw) -> Drawn:
    shape = d.shape(d.between(2, 5))
    channels = shape[1]
    attributes = d.some(epsilon=d.pick(1e-5, 0.01), momentum=d.pick(0.9, 0.5))
    outputs = 1
    if d.has("is_test"):
        attributes["is_test"] = 1
    if d.since == 1:
        attributes["consumed_inputs"] = [0, 0, 0, 1, 1]
    if d.since >= 14 and d.maybe(0.3):
        attributes["training_mode"] = 1
        outputs = 3
    vectors = [d.tensor(place, (channels,), 0.3, 2, special=False) for place in (1, 2, 3, 4)]
    return Drawn([d.tensor(0, shape), *vectors], attributes, outputs, bound=8)


@recipe("InstanceNormalization")
def instance_normalization(d: Draw) -> Drawn:
    shape = d.shape(d.between(3, 5))
    x = d.tensor(0, shape, special=False)
    attributes = d.some(epsilon=d.pick(1e-5, 0.01))
    return Drawn([x, *(d.tensor(place, (shape[1],), special=False) for place in (1, 2))], attributes, bound=100)


@recipe("GroupNormalization")
def group_normalization(d: Draw) -> Drawn:
    groups, each = d.between(1, 3), d.between(1, 3)
    x = d.tensor(0, (d.extent(1, 3), groups * each, *d.shape(d.between(1, 3))), special=False)
    size = groups if d.since < 21 else groups * each
    attributes = {"num_groups": groups, **d.some(epsilon=d.pick(1e-5, 0.01))}
    return Drawn([x, *(d.tensor(place, (size,), special=False) for place in (1, 2))], attributes, bound=100)


@recipe("LayerNormalization", "RMSNormalization")
def layer_normalization(d: Draw) -> Drawn:
    rank = d.between(1, 4)
    shape = d.shape(rank)
    axis = d.axis(rank)
    inner = shape[axis % rank :]
    attributes = {"axis": axis} if axis != -1 or d.maybe() else {}
    attributes |= d.some(epsilon=d.pick(1e-5, 0.01))
    inputs: list[Any] = [d.tensor(0, shape, special=False), d.tensor(1, inner, special=False)]
    outputs = 1
    if d.op == "LayerNormalization":
        inputs.append(d.tensor(2, inner, special=False) if d.maybe(0.7) else None)
        outputs = d.pick(1, 1, 2, 3)
    return Drawn(inputs, attributes, outputs, bound=100)


@recipe("LRN")
def lrn(d: Draw) -> Drawn:
    attributes = {
        "size": d.between(1, 5),
        **d.some(alpha=d.pick(0.1, 0.5), beta=d.pick(0.5, 0.75), bias=d.pick(1.0, 2.0)),
    }
    return Drawn([d.tensor(0, d.shape(4), special=False)], attributes, bound=8)


@recipe("MeanVarianceNormalization")
def mean_variance(d: Draw) -> Drawn:
    rank = d.between(1, 4)
    attributes = {"axes": d.axes(rank, 1)} if rank < 4 or d.maybe() else {}
    return Drawn([d.tensor(0, d.shape(rank, 2), special=False)], attributes, bound=200)


@recipe("LpNormalization")
def lp_normalization(d: Draw) -> Drawn:
    rank = d.between(1, 4)
    return Drawn([d.tensor(0, d.shape(rank), special=False)], d.some(axis=d.axis(rank, 1), p=d.between(1, 2)), bound=4)


@recipe("Dropout")
def dropout(d: Draw) -> Drawn:
    attributes: dict[str, Any] = {"is_test": 1} if d.has("is_test") else {}
    if d.since == 1:
        attributes["consumed_inputs"] = [0]
    attributes |= d.some(seed=3)
    inputs: list[Any] = [d.tensor(0, d.shape(d.between(0, 4)))]
    if d.since >= 12:
        inputs.append(d.array(d.type(1), (), 0, 0.9, special=False) if d.maybe() else None)
        inputs.append(np.array(False) if d.maybe(0.3) else None)
    elif d.has("ratio"):
        attributes |= d.some(ratio=0.3)
    return Drawn(inputs, attributes, d.pick(1, 2) if d.since >= 10 else 1)


@recipe("Identity", "Shape", "Size", "Flatten", "Transpose", "NonZero")
def of_any(d: Draw) -> Drawn:
    if d.type(0).kind != "tensor":
        if d.type(0).kind == "seq":
            return Drawn([[d.tensor(0, d.shape(d.between(0, 3))) for _ in range(d.between(1, 3))]])
        raise Refused("optionals are drawn with their own operators")
    rank = d.between(0 if d.op != "NonZero" else 1, 4)
    attributes: dict[str, Any] = {}
    if d.op == "Transpose":
        attributes = d.some(perm=d.order(rank))
    elif d.op == "Flatten":
        rank = max(rank, 1 if d.since < 9 else 0)
        attributes = d.some(axis=d.between(-rank if d.since >= 11 else 0, rank))
    elif d.op == "Shape":
        attributes = d.some(start=d.between(-5, 5), end=d.between(-5, 5))
    x = d.tensor(0, d.shape(rank))
    return Drawn([np.round(x) if d.op == "NonZero" and x.dtype.kind == "f" else x], attributes)


@recipe("Reshape")
def reshape(d: Draw) -> Drawn:
    shape = d.shape(d.between(0, 4))
    target = list(shape)
    kind = d.pick("flat", "merge", "split", "same", "zero")
    if kind == "flat":
        target = [-1] if math.prod(shape) else [0] if shape and shape[0] == 0 else [math.prod(shape)]
    elif kind == "merge" and len(shape) > 1:
        target = [shape[0] * shape[1], *shape[2:]]
    elif kind == "split":
        target = [*shape, 1]
    elif kind == "zero" and shape and math.prod(shape):
        target = [0, -1] if len(shape) > 1 else [0]
    attributes = d.some(allowzero=d.between(0, 1)) if kind != "zero" else {}
    if d.has("shape"):
        return Drawn([d.tensor(0, shape)], {"shape": target})
    return Drawn([d.tensor(0, shape), ints(*target)], attributes)


@recipe("Squeeze", "Unsqueeze")
def squeeze(d: Draw) -> Drawn:
    rank = d.between(1, 4)
    shape = list(d.shape(rank))
    axes = d.axes(rank, 1)
    if d.op == "Squeeze":
        for axis in axes:
            shape[axis] = 1
        if d.maybe(0.2):
            axes = []
    else:
        shape = [extent for at, extent in enumerate(shape) if at not in [axis % rank for axis in axes]]
    if d.has("axes"):
        return Drawn([d.tensor(0, shape)], {"axes": axes} if axes else {})
    return Drawn([d.tensor(0, shape), ints(*axes) if axes else None])


@recipe("Concat")
def concat(d: Draw) -> Drawn:
    rank = d.between(1, 4)
    axis = d.axis(rank)
    shape = list(d.shape(rank))
    parts = []
    for _ in range(d.between(1, 4)):
        shape[axis] = d.extent()
        parts.append(d.tensor(0, shape))
    return Drawn([*parts], {} if d.since == 1 and axis == 1 else {"axis": axis})


@recipe("Split")
def split(d: Draw) -> Drawn:
    rank = d.between(1, 4)
    axis = d.axis(rank)
    shape = list(d.shape(rank))
    count = d.between(1, 3)
    even = d.maybe()
    sizes = [d.extent()] * count if even else [d.extent() for _ in range(count)]
    shape[axis] = sum(sizes)
    attributes: dict[str, Any] = {"axis": axis}
    x = d.tensor(0, shape)
    if d.has("split"):
        if not even or d.maybe():
            attributes["split"] = sizes
        return Drawn([x], attributes, count)
    if even and d.maybe():
        if d.has("num_outputs"):
            attributes["num_outputs"] = count
        return Drawn([x], attributes, count)
    operand: Any = ints(*sizes)
    if d.since == 1:
        operand = operand.astype(d.dtype(1))
    return Drawn([x, operand], attributes, count)


@recipe("Slice")
def slices(d: Draw) -> Drawn:
    rank = d.between(1, 4)
    shape = d.shape(rank)
    axes = d.axes(rank, 1)
    with_axes = d.maybe(0.7)
    if not with_axes:
        axes = list(range(len(axes)))
    big = d.pick(9, 2**31 - 1, 2**40) if d.dtype(1).itemsize == 8 or d.since < 10 else d.pick(9, 2**31 - 1)
    starts = [d.pick(0, 1, 2, -1, -2, -9, 9) for _ in axes]
    ends = [d.pick(1, 2, 3, -1, big, -big) for _ in axes]
    x = d.tensor(0, shape)
    if d.since < 10:
        return Drawn([x], {"starts": starts, "ends": ends, **({"axes": axes} if with_axes else {})})
    of = d.dtype(1)
    operands: list[Any] = [np.array(starts, of), np.array(ends, of), np.array(axes, of) if with_axes else None]
    if d.maybe():
        operands.append(np.array([d.pick(1, 2, 3, -1, -2) for _ in axes], of))
    return Drawn([x, *operands])


@recipe("Pad")
def pad(d: Draw) -> Drawn:
    rank = d.between(1, 4)
    shape = d.shape(rank, 3, 6)
    mode = d.pick("constant", "constant", "edge", "reflect", *(["wrap"] if d.since >= 19 else []))
    low = 0 if d.maybe(0.8) else -1
    pads = [d.between(low, 2) for _ in range(2 * rank)]
    attributes: dict[str, Any] = {} if mode == "constant" and d.maybe() else {"mode": mode}
    x = d.tensor(0, shape)
    if d.has("pads") or d.has("paddings"):
        attributes["pads" if d.has("pads") else "paddings"] = pads
        return Drawn([x], attributes | d.some(value=d.real(-1, 1)))
    inputs: list[Any] = [x, ints(*pads)]
    inputs.append(d.tensor(2, (), special=False) if mode == "constant" and d.maybe() else None)
    if d.since >= 18 and d.maybe(0.4):
        axes = d.axes(rank, 1)
        inputs[1] = ints(*pads[: 2 * len(axes)])
        inputs.append(np.array(axes, d.dtype(3)))
    return Drawn(inputs, attributes)


@recipe("Tile", "Expand")
def repeated(d: Draw) -> Drawn:
    rank = d.between(0, 3)
    if d.op == "Expand":
        shape, target = d.together(2, 4)
        return Drawn([d.tensor(0, shape), ints(*target)])
    if d.since == 1:
        rank = max(rank, 1)
        count, axis = d.between(1, 3), d.between(0, rank - 1)
        return Drawn([d.tensor(0, d.shape(rank)), np.array([count], d.dtype(1)), np.array([axis], d.dtype(2))])
    return Drawn([d.tensor(0, d.shape(rank)), ints(*(d.between(0 if d.empty else 1, 3) for _ in range(rank)))])


def indices(d: Draw, place: int, extent: int, shape: tuple[int, ...]) -> Array:
    """Return places on an axis, from the end at times."""
    if extent == 0 and math.prod(shape):
        raise Refused("nothing to take")
    low = -extent if d.since >= 11 and d.maybe(0.4) else 0
    return d.whole(low, max(extent - 1, low), shape, d.dtype(place))


@recipe("Gather")
def gather(d: Draw) -> Drawn:
    rank = d.between(1, 4)
    axis = d.axis(rank)
    shape = d.shape(rank)
    where = indices(d, 1, shape[axis], d.shape(d.between(0, 3)))
    return Drawn([d.tensor(0, shape), where], {"axis": axis} if axis or d.maybe() else {})


@recipe("GatherElements")
def gather_elements(d: Draw) -> Drawn:
    rank = d.between(1, 4)
    axis = d.axis(rank)
    shape = d.shape(rank)
    inner = [d.extent(1, max(extent, 1)) if extent else 0 for extent in shape]
    inner[axis] = d.extent(1, 6)
    return Drawn([d.tensor(0, shape), indices(d, 1, shape[axis], tuple(inner))], {"axis": axis})


@recipe("GatherND")
def gather_nd(d: Draw) -> Drawn:
    rank = d.between(1, 4)
    shape = d.shape(rank, 1, 4)
    batch = d.between(0, rank - 1) if d.has("batch_dims") and d.maybe(0.4) else 0
    depth = d.between(1, rank - batch)
    outer = (*shape[:batch], *d.shape(d.between(0, 2)))
    parts = [indices(d, 1, shape[batch + at], outer) for at in range(depth)]
    return Drawn([d.tensor(0, shape), np.stack(parts, -1)], {"batch_dims": batch} if batch else {})


def spread(d: Draw, attributes: dict[str, Any]) -> bool:
    """Draw what scattered elements do to those that are there; return whether places have to differ."""
    options = ["none", *(["add", "mul"] if d.since >= 16 else []), *(["max", "min"] if d.since >= 18 else [])]
    kind = d.pick(*options) if d.has("reduction") else "none"
    if kind != "none":
        attributes["reduction"] = kind
    return bool(kind == "none")


@recipe("Scatter", "ScatterElements")
def scatter_elements(d: Draw) -> Drawn:
    rank = d.between(1, 3)
    axis = d.axis(rank)
    shape = d.shape(rank)
    inner = [d.extent(1, max(extent, 1)) if extent else 0 for extent in shape]
    attributes: dict[str, Any] = {"axis": axis}
    if spread(d, attributes):
        extent, count = shape[axis], inner[axis]
        lines = math.prod(inner) // count if count else 0
        rows = (
            np.stack([d.shuffled(extent)[:count] for _ in range(lines)])
            if lines
            else np.zeros((lines, count), np.int64)
        )
        others = [size for at, size in enumerate(inner) if at != axis % rank]
        where = np.moveaxis(rows.reshape(*others, count), -1, axis).astype(d.dtype(1))
    else:
        where = indices(d, 1, shape[axis], tuple(inner))
    return Drawn([d.tensor(0, shape, special=False), where, d.tensor(2, inner, special=False)], attributes, bound=3)


@recipe("ScatterND")
def scatter_nd(d: Draw) -> Drawn:
    rank = d.between(1, 4)
    shape = d.shape(rank, 1, 4)
    depth = d.between(1, rank)
    attributes: dict[str, Any] = {}
    room = math.prod(shape[:depth])
    if spread(d, attributes):
        count = d.extent(1, 4)
        flat = d.shuffled(room)[: min(count, room)]
    else:
        flat = d.whole(0, max(room - 1, 0), (d.extent(1, 5) if room else 0,))
    where = np.stack(np.unravel_index(flat, shape[:depth]), -1) if room else np.zeros((0, depth))
    x, updates = d.tensor(0, shape, special=False), d.tensor(2, (len(flat), *shape[depth:]), special=False)
    return Drawn([x, where.astype(np.int64), updates], attributes, bound=3)


@recipe("TensorScatter")
def tensor_scatter(d: Draw) -> Drawn:
    batch, room, inner = d.extent(1, 3), d.extent(3, 6), d.extent()
    rank = d.between(3, 4)
    shape = [batch, *d.shape(rank - 3), room, inner]
    update = [*shape]
    update[-2] = d.extent(1, max(room, 1))
    mode = d.pick("linear", "circular")
    top = room - 1 if mode == "circular" else room - update[-2]
    where = d.whole(0, max(top, 0), (batch,)) if d.maybe(0.8) else None
    attributes = {**d.some(axis=-2), "mode": mode}
    return Drawn([d.tensor(0, shape), d.tensor(1, update), where], attributes)


@recipe("Compress")
def compress(d: Draw) -> Drawn:
    rank = d.between(1, 4)
    shape = d.shape(rank)
    axis = d.axis(rank)
    attributes = d.some(axis=axis)
    room = shape[axis] if attributes else math.prod(shape)
    return Drawn([d.tensor(0, shape), d.array(Type("", TensorProto.BOOL), (d.extent(1, max(room, 1)),))], attributes)


@recipe("OneHot")
def one_hot(d: Draw) -> Drawn:
    rank = d.between(0, 3)
    depth = d.extent(1, 5)
    where = np.asarray(d.array(d.type(0), d.shape(rank), -depth if d.since >= 11 else 0, depth + 1, special=False))
    if where.dtype.kind not in "iu":
        where = np.round(where.astype(np.float64)).astype(where.dtype)
    count = np.array([depth] if d.maybe() else depth).astype(d.dtype(1))
    return Drawn([where, count, d.tensor(2, (2,), special=False)], d.some(axis=d.axis(rank + 1)))


@recipe("EyeLike")
def eye_like(d: Draw) -> Drawn:
    attributes = {"dtype": d.result().element, **d.some(k=d.between(-4, 4))}
    return Drawn([d.tensor(0, d.shape(2))], attributes)


@recipe("ReverseSequence")
def reverse_sequence(d: Draw) -> Drawn:
    shape = d.shape(d.between(2, 4))
    time = d.between(0, 1)
    lengths = d.whole(0 if d.maybe(0.3) else 1, max(shape[time], 1), (shape[1 - time],))
    return Drawn([d.tensor(0, shape), np.minimum(lengths, shape[time])], {"time_axis": time, "batch_axis": 1 - time})


@recipe("DepthToSpace", "SpaceToDepth")
def blocks(d: Draw) -> Drawn:
    size = d.between(1, 3)
    shape = [d.extent(1, 3), d.extent(1, 3), *d.shape(2, 1, 3)]
    if d.op == "DepthToSpace":
        shape[1] *= size * size
    else:
        shape[2:] = [size * extent for extent in shape[2:]]
    return Drawn([d.tensor(0, shape)], {"blocksize": size, **d.some(mode=d.pick("DCR", "CRD"))})


@recipe("Trilu")
def trilu(d: Draw) -> Drawn:
    k = np.array(d.between(-5, 5)) if d.maybe(0.7) else None
    return Drawn([d.tensor(0, d.shape(d.between(2, 4))), k], d.some(upper=d.between(0, 1)))


@recipe("CumSum", "CumProd")
def running(d: Draw) -> Drawn:
    rank = d.between(1, 4)
    attributes = d.some(exclusive=d.between(0, 1), reverse=d.between(0, 1))
    return Drawn([d.tensor(0, d.shape(rank), special=False), np.array(d.axis(rank), d.dtype(1))], attributes, bound=6)


@recipe("TopK")
def top_k(d: Draw) -> Drawn:
    rank = d.between(1, 4)
    shape = d.shape(rank)
    axis = d.axis(rank, 10)
    x = d.tensor(0, shape, special=False)
    if x.dtype.kind == "f" and d.maybe():
        x = np.round(x)
    attributes = d.some(axis=axis, largest=d.between(0, 1))
    k = d.extent(1, max(shape[attributes.get("axis", -1)], 1)) if shape[attributes.get("axis", -1)] else 0
    if d.has("k"):
        return Drawn([x], {**attributes, "k": k}, 2)
    return Drawn([x, ints(k)], attributes, 2)


@recipe("Unique")
def unique(d: Draw) -> Drawn:
    rank = d.between(1, 3)
    x = d.tensor(0, d.shape(rank), special=False)
    if x.dtype.kind == "f":
        x = np.round(x)
    return Drawn([x], d.some(axis=d.axis(rank), sorted=d.between(0, 1)), d.between(1, 4))


@recipe("Range")
def ranges(d: Draw) -> Drawn:
    delta = d.pick(1, 2, -1, -3)
    if d.dtype(0).kind == "u":
        delta = abs(delta)
    start, limit = d.whole(0, 9), d.whole(0, 20)
    values = [np.asarray(value).astype(d.dtype(0)) for value in (start, limit, delta)]
    if d.dtype(0).kind == "f" and d.maybe():
        values[2] = np.asarray(d.real(0.3, 1.5) * np.sign(delta)).astype(d.dtype(0))
    return Drawn([*values], bound=2)


def filling(of: Type, value: Array) -> Any:
    """Return a tensor for an attribute."""
    return numpy_helper.from_array(value, "value")


@recipe("ConstantOfShape")
def constant_of_shape(d: Draw) -> Drawn:
    shape = d.shape(d.between(0, 4))
    attributes: dict[str, Any] = {}
    if d.result().name != "FLOAT" or d.maybe():
        attributes["value"] = filling(d.result(), d.array(d.result(), (1,), special=False))
    return Drawn([ints(*shape)], attributes)


@recipe("Constant")
def constant(d: Draw) -> Drawn:
    value = d.array(d.result(), d.shape(d.between(0, 3)))
    if d.since >= 12 and d.maybe(0.4):
        return Drawn(
            [], d.pick({"value_float": 1.5}, {"value_int": 3}, {"value_floats": [1.0, 2.5]}, {"value_ints": [1, 2]})
        )
    return Drawn([], {"value": filling(d.result(), value)})


def castable(d: Draw, source: Type, target: Type, shape: tuple[int, ...]) -> Array:
    """Return values that the target has a conversion for: beyond its range every runtime has another result."""
    if "STRING" in (source.name, target.name):
        if source.name != "STRING":
            return np.round(d.array(source, shape, 0, 9, special=False).astype(np.float64)).astype(source.dtype)
        words = np.array(["1", "2.5", "-3", "7"] if target.dtype.kind == "f" else ["1", "2", "7"], object)
        return np.asarray(words[d.whole(0, len(words) - 1, shape)], object)
    small = target.name.startswith(("FLOAT4", "INT4", "UINT4", "INT2", "UINT2"))
    unsigned = target.name.startswith("UINT") or target.name == "FLOAT8E8M0"
    high = {"INT2": 1.0, "UINT2": 3.0, "INT4": 7.0}.get(target.name, 6.0 if small else 100.0)
    whole = target.dtype.kind in "iu" or target.name in NARROW_INTEGERS
    low = 0.0 if unsigned else -high
    reals = source.name not in NARROW_INTEGERS and source.dtype.kind not in "iub"
    special = not whole and reals and not small
    values = d.array(source, shape, low, high, special=special)
    return values


NARROW_INTEGERS = {"INT4", "UINT4", "INT2", "UINT2"}


@recipe("Cast", "CastLike")
def cast(d: Draw) -> Drawn:
    shape = d.shape(d.between(0, 3))
    to = d.result() if d.op == "Cast" else d.type(1)
    x = castable(d, d.type(0), to, shape)
    attributes = d.some(saturate=d.between(0, 1)) if to.name.startswith("FLOAT8") and to.name != "FLOAT8E8M0" else {}
    if d.op == "CastLike":
        return Drawn([x, d.tensor(1, (1,), special=False)], attributes)
    return Drawn([x], {**attributes, "to": to.name if d.since < 6 else to.element})


@recipe("BitCast")
def bit_cast(d: Draw) -> Drawn:
    a, b = d.type(0), d.result()
    if "STRING" in (a.name, b.name) or a.dtype.itemsize != b.dtype.itemsize:
        raise Refused("other widths")
    return Drawn([d.tensor(0, d.shape(d.between(0, 3)))], {"to": b.element})


@recipe("CenterCropPad")
def center_crop_pad(d: Draw) -> Drawn:
    rank = d.between(1, 4)
    shape = d.shape(rank)
    axes = d.axes(rank, 1) if d.maybe() else None
    count = len(axes) if axes is not None else rank
    attributes = {"axes": axes} if axes is not None else {}
    return Drawn([d.tensor(0, shape), np.array([d.extent(1, 8) for _ in range(count)], d.dtype(1))], attributes)


@recipe("Col2Im")
def col2im(d: Draw) -> Drawn:
    dims = d.pick(1, 2, 2, 3)
    attributes, kernel, least = windows(d, dims)
    attributes.pop("auto_pad", None)
    image = [low + d.extent(0, 3) for low in least]
    pads = attributes.get("pads", [0] * 2 * dims)
    strides = attributes.get("strides", [1] * dims)
    places = [(image[at] + pads[at] + pads[at + dims] - least[at]) // strides[at] + 1 for at in range(dims)]
    columns = (d.extent(1, 2), d.extent(1, 2) * math.prod(kernel), math.prod(places))
    return Drawn([d.tensor(0, columns, special=False), ints(*image), ints(*kernel)], attributes, bound=6)


@recipe("DeformConv")
def deform_conv(d: Draw) -> Drawn:
    attributes, kernel, least = windows(d, 2)
    attributes.pop("auto_pad", None)
    groups, own = d.pick(1, 2), d.pick(1, 2)
    channels = groups * own * d.between(1, 2)
    outs = groups * d.between(1, 2)
    size = spatial(d, least, 3)
    pads, strides = attributes.get("pads", [0] * 4), attributes.get("strides", [1, 1])
    places = [(size[at] + pads[at] + pads[at + 2] - least[at]) // strides[at] + 1 for at in (0, 1)]
    batch = d.extent(1, 2)
    x = d.tensor(0, (batch, channels, *size), special=False)
    w = d.tensor(1, (outs, channels // groups, *kernel), special=False)
    offset = d.array(d.type(2), (batch, own * 2 * math.prod(kernel), *places), -2, 2, special=False)
    bias = d.tensor(3, (outs,), special=False) if d.maybe() else None
    mask = d.array(d.type(4), (batch, own * math.prod(kernel), *places), 0, 1, special=False) if d.maybe() else None
    return Drawn([x, w, offset, bias, mask], {**attributes, "group": groups, "offset_group": own}, bound=20)


@recipe("GridSample")
def grid_sample(d: Draw) -> Drawn:
    dims = 2 if d.since < 20 else d.pick(2, 2, 3)
    cubic, linear = ("bicubic", "bilinear") if d.since < 20 else ("cubic", "linear")
    attributes = d.some(mode=d.pick(linear, "nearest", *([cubic] if dims == 2 else [])), align_corners=d.between(0, 1),
                        padding_mode=d.pick("zeros", "border", "reflection"))  # fmt: skip
    batch = d.extent(1, 2)
    x = d.tensor(0, (batch, d.extent(1, 3), *d.shape(dims, 2, 6)), special=False)
    return Drawn(
        [x, d.array(d.type(1), (batch, *d.shape(dims, 1, 4), dims), -1.3, 1.3, special=False)], attributes, bound=40
    )


@recipe("AffineGrid")
def affine_grid(d: Draw) -> Drawn:
    dims, batch = d.pick(2, 3), d.extent(1, 3)
    attributes = d.some(align_corners=d.between(0, 1))
    return Drawn(
        [d.tensor(0, (batch, dims, dims + 1), special=False), ints(batch, 2, *d.shape(dims))], attributes, bound=4
    )


def scaled(d: Draw, rank: int) -> tuple[list[int], list[float]]:
    """Return the axes of an image and exact factors for them."""
    return list(range(2, rank)), [d.pick(0.5, 1.0, 1.5, 2.0, 3.0, 0.75) for _ in range(rank - 2)]


@recipe("Upsample")
def upsample(d: Draw) -> Drawn:
    mode = d.pick("nearest", "linear") if d.since > 1 else d.pick("nearest", "bilinear")
    x = d.tensor(0, d.shape(4, 1, 4), special=False)
    if d.since == 1:
        return Drawn([x], {"mode": mode, "height_scale": float(d.between(1, 3)), "width_scale": float(d.between(1, 3))})
    scales = [1.0, 1.0, float(d.between(1, 3)), float(d.between(1, 3))]
    if d.since == 7:
        return Drawn([x], {"mode": mode, "scales": scales}, bound=8)
    return Drawn([x, np.array(scales, np.float32)], {"mode": mode}, bound=8)


@recipe("Resize")
def resize(d: Draw) -> Drawn:
    dims = d.pick(1, 2, 2, 2, 3)
    rank = dims + 2
    mode = d.pick("nearest", "linear", "cubic") if d.since > 10 and dims == 2 else d.pick("nearest", "linear")
    attributes: dict[str, Any] = {"mode": mode}
    where = ["half_pixel", "asymmetric", "pytorch_half_pixel", "align_corners"]
    where += ["half_pixel_symmetric"] if d.since >= 19 else []
    attributes |= d.some(coordinate_transformation_mode=d.pick(*where))
    if mode == "nearest":
        attributes |= d.some(nearest_mode=d.pick("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"))
    if mode == "cubic":
        attributes |= d.some(cubic_coeff_a=d.pick(-0.5, -0.75), exclude_outside=d.between(0, 1))
    if mode != "nearest" and d.maybe(0.2):
        attributes |= d.some(antialias=1)
    shape = (d.extent(1, 2), d.extent(1, 2), *d.shape(dims, 2, 6))
    x = d.tensor(0, shape, special=False)
    _, factors = scaled(d, rank)
    scales = np.array([1.0, 1.0, *factors], np.float32)
    bound, steps = 40, 1 if x.dtype.kind in "iu" else 0
    if d.since == 10:
        return Drawn([x, scales], attributes, bound=bound, steps=steps)
    none: Any = None if d.since >= 13 else np.zeros(0, d.dtype(1))
    nothing: Any = None if d.since >= 13 else np.zeros(0, np.float32)
    if d.maybe():
        return Drawn([x, none, scales], attributes, known=(1,) if none is not None else (), bound=bound, steps=steps)
    sizes = ints(*shape[:2], *(max(1, int(extent * by)) for extent, by in zip(shape[2:], factors, strict=True)))
    if d.since >= 18 and d.maybe(0.4):
        attributes["axes"] = list(range(2, rank))
        sizes = sizes[2:]
        attributes |= d.some(keep_aspect_ratio_policy=d.pick("stretch", "not_larger", "not_smaller"))
    return Drawn(
        [x, none, nothing, sizes], attributes, known=(1, 2) if none is not None else (), bound=bound, steps=steps
    )


@recipe("NonMaxSuppression")
def suppression(d: Draw) -> Drawn:
    batch, classes, count = d.extent(1, 2), d.extent(1, 3), d.extent(1, 8)
    center = d.between(0, 1)
    first = d.array(Type("", TensorProto.FLOAT), (batch, count, 2), 0, 1, special=False)
    size = d.array(Type("", TensorProto.FLOAT), (batch, count, 2), 0.1, 0.6, special=False)
    boxes = np.concatenate([first, size if center else first + size], 2)
    scores = d.array(Type("", TensorProto.FLOAT), (batch, classes, count), 0, 1, special=False)
    limits = [ints(d.between(0, 4)), np.array([d.real(0, 0.9)], np.float32), np.array([d.real(0, 0.5)], np.float32)]
    given = d.between(0, 3)
    return Drawn(
        [boxes, scores, *limits[:given]], d.some(center_point_box=center) or ({"center_point_box": 1} if center else {})
    )


@recipe("DFT")
def dft(d: Draw) -> Drawn:
    rank = d.between(2, 4)
    parts = d.pick(1, 2)
    onesided = d.between(0, 1)
    inverse = 0 if onesided and parts == 1 else d.between(0, 1)
    if onesided and parts == 2 and not inverse:
        onesided = 0
    shape = (*d.shape(rank - 1, 2, 7), parts)
    axis = d.between(0, rank - 2)
    attributes: dict[str, Any] = {"onesided": onesided, "inverse": inverse}
    length = np.asarray(d.between(2, 9)).astype(d.dtype(1)) if d.maybe(0.3) else None
    x = d.tensor(0, shape, special=False)
    if d.has("axis"):
        return Drawn([x, length], {**attributes, "axis": axis}, bound=20)
    return Drawn([x, length, np.array(axis)], attributes, bound=20)


@recipe("STFT")
def stft(d: Draw) -> Drawn:
    parts = d.pick(1, 1, 2)
    frame = d.between(2, 8)
    length = frame + d.extent(0, 20)
    x = d.tensor(0, (d.extent(1, 2), length, parts), special=False)
    kind = d.pick("window", "length", "both")
    window = d.tensor(2, (frame,), 0, 1, special=False) if kind != "length" else None
    size = np.asarray(frame).astype(d.dtype(3)) if kind != "window" else None
    step = np.asarray(d.between(1, 5)).astype(d.dtype(1))
    return Drawn([x, step, window, size], {"onesided": d.between(0, 1) if parts == 1 else 0}, bound=20)


@recipe("HannWindow", "HammingWindow", "BlackmanWindow")
def window(d: Draw) -> Drawn:
    attributes = {"output_datatype": d.result().element, **d.some(periodic=d.between(0, 1))}
    return Drawn([np.asarray(d.extent(1, 12)).astype(d.dtype(0))], attributes, bound=4, steps=1)


@recipe("MelWeightMatrix")
def mel(d: Draw) -> Drawn:
    values = [np.asarray(value).astype(d.dtype(0)) for value in (d.between(1, 8), d.pick(16, 32, 64), d.pick(100, 120))]
    edges = [np.asarray(value).astype(d.dtype(3)) for value in (d.pick(0, 5), d.pick(30, 48))]
    return Drawn([*values, *edges], {"output_datatype": d.result().element}, bound=8, steps=1)


@recipe("TfIdfVectorizer")
def tf_idf(d: Draw) -> Drawn:
    shape = d.shape(d.between(1, 2), 2, 8)
    grams = [d.between(0, 4) for _ in range(8)]
    attributes: dict[str, Any] = {
        "mode": d.pick("TF", "IDF", "TFIDF"), "min_gram_length": 1, "max_gram_length": d.between(1, 2),
        "max_skip_count": d.between(0, 3), "ngram_counts": [0, 3], "ngram_indexes": d.order(5),
    }  # fmt: skip
    if d.type(0).name == "STRING":
        attributes["pool_strings"] = ["a", "b", "xyz", "a", "b", "b", "a"]
    else:
        attributes["pool_int64s"] = [0, 1, 2, *grams[:4]]
    attributes |= d.some(weights=[0.5, 1.0, 2.0, 3.0, 4.0])
    return Drawn([d.tensor(0, shape, 0, 4, special=False)], attributes)


@recipe("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def loss(d: Draw) -> Drawn:
    classes, batch = d.between(2, 5), d.extent(1, 4)
    rest = d.shape(d.between(0, 2))
    scores = d.tensor(0, (batch, classes, *rest), special=False)
    labels = d.whole(0, classes - 1, (batch, *rest), d.dtype(1))
    weights = d.tensor(2, (classes,), 0.1, 2, special=False) if d.maybe() else None
    attributes = d.some(reduction=d.pick("none", "mean", "sum"), ignore_index=d.pick(0, 1, -1, 9))
    outputs = 2 if d.op == "SoftmaxCrossEntropyLoss" and d.maybe() else 1
    return Drawn([scores, labels, weights], attributes, outputs, bound=8)


@recipe("Attention")
def attention(d: Draw) -> Drawn:
    batch, kv_heads, size, values = d.extent(1, 2), d.between(1, 2), d.pick(2, 4), d.pick(2, 3)
    heads = kv_heads * d.pick(1, 1, 2)
    queries, keys = d.extent(1, 4), d.extent(1, 5)
    attributes = d.some(scale=d.real(0.2, 1), softcap=d.pick(0.0, 1.5), is_causal=d.between(0, 1),
                        left_window_size=d.pick(-1, 1, 2), right_window_size=d.pick(-1, 0, 1))  # fmt: skip
    if d.maybe(0.4):
        shapes = [(batch, queries, heads * size), (batch, keys, kv_heads * size), (batch, keys, kv_heads * values)]
        attributes |= {"q_num_heads": heads, "kv_num_heads": kv_heads}
    else:
        shapes = [(batch, heads, queries, size), (batch, kv_heads, keys, size), (batch, kv_heads, keys, values)]
    inputs: list[Any] = [d.tensor(place, shape, special=False) for place, shape in enumerate(shapes)]
    outputs = 1
    past = d.extent(1, 3) if d.maybe(0.3) else 0
    if d.maybe(0.4):
        full = d.pick((queries, keys + past), (1, 1, queries, keys + past), (batch, heads, queries, keys + past))
        inputs.append(d.array(d.type(3), full, -2, 2, special=False))
    else:
        inputs.append(None)
    if past:
        inputs += [d.tensor(4, (batch, kv_heads, past, size), special=False)]
        inputs += [d.tensor(5, (batch, kv_heads, past, values), special=False)]
        outputs = 3
    return Drawn(inputs, attributes, outputs, bound=8)


@recipe("RotaryEmbedding")
def rotary(d: Draw) -> Drawn:
    batch, heads, length, size = d.extent(1, 2), d.between(1, 3), d.extent(1, 4), d.pick(4, 8)
    partial = d.pick(0, 0, size // 2)
    half = (partial or size) // 2
    attributes = d.some(interleaved=d.between(0, 1))
    if partial:
        attributes["rotary_embedding_dim"] = partial
    flat = d.maybe()
    if flat:
        attributes["num_heads"] = heads
    x = d.tensor(0, (batch, length, heads * size) if flat else (batch, heads, length, size), special=False)
    if d.maybe():
        caches = [d.tensor(place, (8, half), -1, 1, special=False) for place in (1, 2)]
        return Drawn([x, *caches, d.whole(0, 7, (batch, length))], attributes, bound=3)
    return Drawn(
        [x, *(d.tensor(place, (batch, length, half), -1, 1, special=False) for place in (1, 2))], attributes, bound=3
    )


@recipe("LinearAttention")
def linear_attention(d: Draw) -> Drawn:
    batch, length, kv, size, values = d.extent(1, 2), d.extent(1, 4), d.between(1, 2), d.pick(2, 4), d.pick(2, 3)
    heads = kv * d.pick(1, 2)
    rule = d.pick("linear", "gated", "delta", "gated_delta")
    x = [d.tensor(place, (batch, length, width), -1, 1, special=False)
         for place, width in enumerate((heads * size, kv * size, kv * values))]  # fmt: skip
    state = d.array(d.type(3), (batch, kv, size, values), -1, 1, special=False) if d.maybe() else None
    decay = d.tensor(4, (batch, length, kv), -2, 0, special=False) if rule.startswith("gated") else None
    rate = d.tensor(5, (batch, length, kv), 0, 1, special=False) if rule.endswith("delta") else None
    attributes = {"q_num_heads": heads, "kv_num_heads": kv, "update_rule": rule, **d.some(scale=d.real(0.2, 1))}
    return Drawn([*x, state, decay, rate], attributes, 2, bound=20)


@recipe("CausalConvWithState")
def causal_conv(d: Draw) -> Drawn:
    batch, channels, length, size = d.extent(1, 2), d.between(1, 3), d.extent(1, 6), d.between(2, 4)
    bias = d.tensor(2, (channels,), special=False) if d.maybe() else None
    state = d.tensor(3, (batch, channels, size - 1), special=False) if d.maybe() else None
    attributes = d.some(activation=d.pick("none", "silu"))
    x = d.tensor(0, (batch, channels, length), special=False)
    return Drawn([x, d.tensor(1, (channels, 1, size), special=False), bias, state], attributes, 2, bound=6)


def levels(d: Draw, of: Type, shape: tuple[int, ...]) -> Array:
    """Return zero points: any for 8 bits, 0 for what has none."""
    if of.name in ("INT8", "UINT8", "INT4", "UINT4"):
        return d.array(of, shape, -5, 9, special=False)
    return np.zeros(shape, of.dtype)


def granularity(d: Draw, shape: tuple[int, ...], attributes: dict[str, Any]) -> tuple[int, ...]:
    """Draw for what scales are; return their shape."""
    if not shape or d.since < 13 or d.maybe(0.4):
        return ()
    axis = d.axis(len(shape))
    attributes["axis"] = axis
    if d.has("block_size") and d.maybe(0.4):
        block = d.pick(1, 2)
        if shape[axis] % block or not shape[axis]:
            raise Refused("no whole blocks")
        attributes["block_size"] = block
        each = list(shape)
        each[axis] //= block
        return tuple(each)
    return (shape[axis],)


@recipe("QuantizeLinear", "DequantizeLinear")
def quantize(d: Draw) -> Drawn:
    shape = d.shape(d.between(0, 3), 1, 4)
    attributes: dict[str, Any] = {}
    own = granularity(d, shape, attributes)
    step = d.array(d.type(1), own, 0.05, 0.4, special=False)
    if d.type(1).name == "FLOAT8E8M0":
        step = np.full(own, 0.5).astype(d.dtype(1))
    elif d.dtype(1).kind in "iu":
        step = d.array(d.type(1), own, 1, 4, special=False)
    if d.op == "QuantizeLinear":
        zero = levels(d, d.result(), own) if d.since < 21 or d.maybe(0.8) else None
        if zero is None:
            attributes["output_dtype"] = d.result().element
        return Drawn([d.tensor(0, shape, -20, 20, special=False), step, zero], attributes, bound=2)
    if d.has("output_dtype") and d.result().name != d.type(1).name:
        attributes["output_dtype"] = d.result().element
    zero = levels(d, d.type(0), own) if d.maybe(0.7) and d.type(0).name != "INT32" else None
    return Drawn([d.tensor(0, shape, -100, 100), step, zero], attributes, bound=2)


@recipe("DynamicQuantizeLinear")
def dynamic_quantize(d: Draw) -> Drawn:
    return Drawn([d.tensor(0, d.shape(d.between(1, 4)), *d.pick((-3, 3), (0.5, 3), (-3, -1)), special=False)], {}, 3)


def octets(d: Draw, place: int, shape: tuple[int, ...]) -> Array:
    """Return whole bytes; weights of 8 bits with a sign in half their range, as ONNX Runtime's saturating products ask."""
    signed = d.type(place).name == "INT8"
    return d.array(d.type(place), shape, -63 if signed else 0, 63 if signed else 255, special=False)


@recipe("QLinearMatMul")
def q_matmul(d: Draw) -> Drawn:
    m, k, n = d.extent(1, 5), d.extent(1, 9), d.extent(1, 5)
    a, b = octets(d, 0, (m, k)), octets(d, 3, (k, n))

    def scale(place: int) -> Array:
        return d.array(d.type(place), (), 0.02, 0.2, special=False)

    def zero(place: int) -> Array:
        return np.asarray(d.array(d.type(place), (), -5, 9, special=False))

    inputs: list[Any] = [a, scale(1), zero(2), b, scale(4), zero(5), scale(6), zero(7)]
    return Drawn(inputs, known=tuple(range(1, 8)), steps=1)


@recipe("MatMulInteger")
def matmul_integer(d: Draw) -> Drawn:
    m, k, n = d.extent(1, 5), d.extent(1, 9), d.extent(1, 5)
    batch = d.together(2, 1)
    a, b = octets(d, 0, (*batch[0], m, k)), octets(d, 1, (*batch[1], k, n))
    zeros = [
        d.array(d.type(place), d.pick((), (1,)), -5, 9, special=False) if d.maybe(0.7) else None for place in (2, 3)
    ]
    return Drawn([a, b, *zeros])


@recipe("ConvInteger", "QLinearConv")
def q_conv(d: Draw) -> Drawn:
    attributes, kernel, least = windows(d, 2)
    group, each, outs = d.pick(1, 1, 2), d.between(1, 3), d.between(1, 3)
    attributes |= d.some(kernel_shape=kernel)
    attributes["group"] = group
    place = 1 if d.op == "ConvInteger" else 3
    x = octets(d, 0, (d.extent(1, 2), group * each, *spatial(d, least)))
    w = octets(d, place, (group * outs, each, *kernel))
    if d.op == "ConvInteger":
        zeros = [d.array(d.type(at), (), -5, 9, special=False) if d.maybe(0.7) else None for at in (2, 3)]
        return Drawn([x, w, *zeros], attributes)
    own = d.pick((), (group * outs,))

    def scale(shape: tuple[int, ...] = ()) -> Array:
        return d.array(Type("", TensorProto.FLOAT), shape, 0.02, 0.2, special=False)

    def zero(at: int, shape: tuple[int, ...] = ()) -> Array:
        return d.array(d.type(at), shape, -5, 9, special=False)

    w_zero = zero(5) if own == () else np.full(own, int(zero(5)), d.dtype(5))
    bias = d.whole(-300, 300, (group * outs,), np.int32) if d.maybe() else None
    inputs: list[Any] = [x, scale(), zero(2), w, scale(own), w_zero, scale(), zero(7), bias]
    return Drawn(inputs, attributes, known=tuple(range(1, 9)) if bias is not None else tuple(range(1, 8)), steps=1)


GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


@recipe(*GATES)
def recurrent(d: Draw) -> Drawn:
    steps, batch, inputs, hidden = d.extent(1, 4), d.extent(1, 3), d.extent(1, 4), d.between(1, 5)
    direction = d.pick("forward", "reverse", "bidirectional")
    two = 2 if direction == "bidirectional" else 1
    rows = GATES[d.op] * hidden
    attributes: dict[str, Any] = {"hidden_size": hidden, **({"direction": direction} if direction != "forward" else {})}
    attributes |= d.some(clip=d.pick(None, 0.7), linear_before_reset=d.between(0, 1), input_forget=d.pick(None, 1))
    layout = d.between(0, 1) if d.has("layout") and d.maybe(0.2) else 0
    if layout:
        attributes["layout"] = 1
    if d.since == 1 and d.has("output_sequence"):
        attributes["output_sequence"] = 1
    if d.maybe(0.3):
        names = {"RNN": ["Relu"], "GRU": ["HardSigmoid", "Softsign"], "LSTM": ["Sigmoid", "Tanh", "Relu"]}[d.op]
        attributes["activations"] = names * two

    def turned(*shape: int) -> tuple[int, ...]:
        return (shape[1], shape[0], *shape[2:]) if layout else shape

    def real(place: int, *shape: int) -> Array:
        return d.tensor(place, shape, -1, 1, special=False)

    x = real(0, *turned(steps, batch, inputs))
    operands: list[Any] = [x, real(1, two, rows, inputs), real(2, two, rows, hidden)]
    operands.append(real(3, two, 2 * rows) if d.maybe(0.7) else None)
    operands.append(d.whole(1, max(steps, 1), (batch,), np.int32) if d.maybe(0.3) and steps else None)
    operands.append(real(5, *turned(two, batch, hidden)) if d.maybe() else None)
    if d.op == "LSTM":
        operands.append(real(6, *turned(two, batch, hidden)) if d.maybe() else None)
        operands.append(real(7, two, 3 * hidden) if d.maybe(0.3) else None)
    return Drawn(operands, attributes, d.between(1, 3 if d.op == "LSTM" else 2), bound=20)


@recipe("RandomNormal", "RandomUniform")
def random_shape(d: Draw) -> Drawn:
    attributes = {"shape": list(d.shape(d.between(1, 3))), "dtype": d.result().element, "seed": 3.0}
    return Drawn([], attributes, loose=True)


@recipe("RandomNormalLike", "RandomUniformLike", "Bernoulli")
def random_like(d: Draw) -> Drawn:
    x = d.tensor(0, d.shape(d.between(0, 3)), 0, 1, special=False)
    return Drawn([x], {"dtype": d.result().element, "seed": 3.0}, loose=True)


@recipe("Multinomial")
def multinomial(d: Draw) -> Drawn:
    attributes = {"dtype": d.result().element, "seed": 3.0, "sample_size": d.between(1, 4)}
    return Drawn([d.tensor(0, d.shape(2), -2, 0, special=False)], attributes, loose=True)


def info(name: str, of: Type, shape: Any = None) -> Any:
    """Return the declaration of a value in a network within."""
    return helper.make_tensor_value_info(name, of.element, shape)


@recipe("If")
def if_(d: Draw) -> Drawn:
    of = d.result()
    if of.kind != "tensor" or of.name in ("STRING",) or of.name.startswith("COMPLEX"):
        raise Refused("networks of tensors of numbers")
    shape = d.shape(d.between(0, 3))
    seen = d.array(of, shape)
    branches = {}
    for name in ("then_branch", "else_branch"):
        nodes = [helper.make_node("Identity", ["seen"], [f"{name}_0"])]
        if name == "else_branch":
            nodes.append(helper.make_node("Identity", [f"{name}_0"], [f"{name}_1"]))
        end = nodes[-1].output[0]
        branches[name] = helper.make_graph(nodes, name, [], [info(end, of, [None] * len(shape))])
    return Drawn([np.array(d.whole(0, 1) == 1)], branches, inside=(("seen", seen),))


@recipe("Loop")
def loop(d: Draw) -> Drawn:
    of = d.types["V"]
    if of.kind != "tensor" or of.name in ("STRING",) or of.name.startswith("COMPLEX"):
        raise Refused("networks of tensors of numbers")
    shape = d.shape(d.between(0, 2))
    state = d.array(of, shape)
    grows = d.maybe(0.3) and len(shape) > 0
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["before"], ["after"]),
            helper.make_node("Concat", ["state", "state"], ["next"], axis=0) if grows
            else helper.make_node("Identity", ["state"], ["next"]),
            helper.make_node("Identity", ["state"], ["kept"]),
        ],
        "body",
        [info("i", Type("", TensorProto.INT64), []), info("before", Type("", TensorProto.BOOL), []),
         info("state", of, None if grows else shape)],
        [info("after", Type("", TensorProto.BOOL), []), info("next", of, None if grows else shape),
         info("kept", of, None if grows else shape)],
    )  # fmt: skip
    rounds = np.array(d.between(1, 1 if grows else 4))
    return Drawn([rounds, np.array(True) if d.maybe() else None, state], {"body": body}, 2)


@recipe("Scan")
def scan(d: Draw) -> Drawn:
    of = d.types["V"]
    if of.kind != "tensor" or of.name in ("STRING",) or of.name.startswith("COMPLEX"):
        raise Refused("networks of tensors of numbers")
    inner, steps = d.shape(d.between(0, 2)), d.extent(1, 4)
    state, parts = d.array(of, inner), d.array(of, (steps, *inner))
    body = helper.make_graph(
        [helper.make_node("Identity", ["part"], ["next"]), helper.make_node("Identity", ["state"], ["seen"])],
        "body",
        [info("state", of, inner), info("part", of, inner)],
        [info("next", of, inner), info("seen", of, inner)],
    )
    attributes: dict[str, Any] = {"num_scan_inputs": 1, "body": body}
    if d.since == 8:
        return Drawn([None, state[None], parts[None]], attributes, 2)
    attributes |= d.some(scan_input_directions=[d.between(0, 1)], scan_output_directions=[d.between(0, 1)])
    return Drawn([state, parts], attributes, 2)


def items(d: Draw, of: Type, count: int, rank: int) -> list[Array]:
    """Return the tensors of a list."""
    return [d.array(of, d.shape(rank)) for _ in range(count)]


def place(d: Draw, count: int, at: int) -> Array:
    """Return a place in a list, from its end at times."""
    return np.array(d.between(-count, count - 1), d.dtype(at))


@recipe("SequenceConstruct", "SequenceEmpty", "SequenceAt", "SequenceInsert", "SequenceErase", "SequenceLength",
        "ConcatFromSequence", "SplitToSequence")  # fmt: skip
def sequences(d: Draw) -> Drawn:
    if d.op == "SequenceEmpty":
        return Drawn([], {"dtype": d.result().element})
    if d.op == "SequenceConstruct":
        return Drawn([d.tensor(0, d.shape(d.between(0, 3))) for _ in range(d.between(1, 3))])
    count, rank = d.between(1, 3), d.between(1, 3)
    if d.op == "SplitToSequence":
        axis = d.axis(rank)
        shape = list(d.shape(rank))
        sizes = [d.extent() for _ in range(count)]
        shape[axis] = sum(sizes)
        operand = np.array(sizes, d.dtype(1)) if d.maybe() else np.array(2, d.dtype(1)) if d.maybe() else None
        return Drawn([d.tensor(0, shape), operand], {"axis": axis, **d.some(keepdims=d.between(0, 1))})
    values = items(d, d.type(0), count, rank)
    if d.op == "SequenceLength":
        return Drawn([values])
    if d.op == "SequenceInsert":
        where = place(d, count, 2) if d.maybe() else None
        return Drawn([values, d.array(d.type(0), d.shape(rank)), where])
    if d.op == "ConcatFromSequence":
        new = d.between(0, 1)
        shape = d.shape(rank)
        return Drawn(
            [[d.array(d.type(0), shape) for _ in range(count)]], {"axis": d.axis(rank + new), **d.some(new_axis=new)}
        )
    where = place(d, count, 1) if d.op == "SequenceAt" or d.maybe() else None
    return Drawn([values, where])


@recipe("SequenceMap")
def sequence_map(d: Draw) -> Drawn:
    of = d.type(0)
    body = helper.make_graph(
        [helper.make_node("Identity", ["part"], ["same"])], "body", [info("part", of)], [info("same", of)]
    )
    return Drawn([items(d, of, d.between(1, 3), 2)], {"body": body})


@recipe("Optional", "OptionalGetElement", "OptionalHasElement")
def optionals(d: Draw) -> Drawn:
    of = d.type(0)
    if of.kind == "tensor":
        return Drawn([d.array(of, d.shape(d.between(0, 3)))])
    if of.kind == "seq":
        return Drawn([items(d, of, d.between(1, 3), 2)])
    raise Refused("optionals as a model's inputs")
