"""Recipes of what moves, picks, puts, makes, converts and resamples elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from book import ints, recipe
from drawing import Array, Draw, Drawn, Refused, Type
from elements import spatial, windows
from onnx import TensorProto, numpy_helper


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
