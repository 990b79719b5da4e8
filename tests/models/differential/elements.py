"""Recipes of what works element by element, along axes, over windows, or by statistics."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from book import ints, recipe
from drawing import Draw, Drawn, Refused

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
        [d.whole(0, max(images - 1, 0), (count, 1)), low, low + d.whole(-2, side - 1, (count, 2))], 1
    )
    attributes = {"pooled_shape": [d.between(1, 3), d.between(1, 3)], **d.some(spatial_scale=d.pick(0.5, 1.0, 0.75))}
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
