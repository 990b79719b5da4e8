"""What moves, repeats, joins and cuts elements, or stores them as another type."""

from __future__ import annotations

import math

from triune.icraft._xir import rules
from triune.icraft._xir.attributes import attr, enumeration, kinds, objects_of
from triune.icraft._xir.distribution import MergedAxisDistr
from triune.icraft._xir.enums import Interpolation, Mode, ResizeInterpolation
from triune.icraft._xir.errors import Error
from triune.icraft._xir.immediates import IntImm
from triune.icraft._xir.layout import AxisName, AxisUnit, Layout
from triune.icraft._xir.operation import Operation
from triune.icraft._xir.operators.network import AlignedUnit
from triune.icraft._xir.table import define
from triune.icraft._xir.types import TensorType

__all__ = [
    "AlignAxis",
    "Cast",
    "ChannelShuffle",
    "Concat",
    "Expand",
    "Pad",
    "PixelShuffle",
    "PruneAxis",
    "Reshape",
    "Resize",
    "Roll",
    "Slice",
    "Split",
    "Squeeze",
    "Stack",
    "SwapOrder",
    "Transpose",
    "Unstack",
    "Upsample",
]


def _types(op: Operation) -> list[TensorType]:
    if not op._inputs:
        raise Error("input 0 is missing")
    return [rules.tensor(op, index) for index in range(len(op._inputs))]


# ---- types and shapes


def _cast(op: Operation) -> list[TensorType]:
    of, target = rules.tensor(op, 0), op._attributes["target_dtype"]
    if target.numElements() != of.numElements():
        raise Error(f"the input {of.shape} and the target {target.shape} have not as many elements")
    return [target.clone(8)]


Cast = define(
    "Cast",
    "The same real values as another type, at another place or in another layout.",
    "input",
    [attr("target_dtype", kinds.dtype, "The type of the output.", TensorType.Init)],
    ["input target_dtype"],
    rule=_cast,
)


def _reshape(op: Operation) -> list[TensorType]:
    of, layout = rules.tensor(op, 0), op._attributes["layout"]
    shape = list(op._attributes["shape"])
    count = rules.product(of._shape)
    if shape.count(-1) > 1 or any(extent < -1 for extent in shape):
        raise Error(f"shape {shape} leaves more than one extent open")
    known = math.prod(extent for extent in shape if extent >= 0)
    if -1 in shape and count >= 0:
        if known == 0 or count % known:
            raise Error(f"{of._shape} cannot be put into shape {shape}")
        shape[shape.index(-1)] = count // known
    elif count >= 0 and known != count:
        raise Error(f"{of._shape} has {count} elements, shape {shape} {known}")
    if layout.numAxis() == 0:
        layout = Layout.Default(len(shape))
    if layout.numAxis() != len(shape):
        raise Error(f"layout {layout.toString()} is not one of shape {shape}")
    return [rules.like(of, shape, layout)]


Reshape = define(
    "Reshape",
    "The same elements in the same order, with other extents.",
    "input",
    [
        attr("shape", kinds.wholes, "The extents; one may be -1: what is left.", list),
        attr("layout", kinds.layout, "What they mean.", Layout.Default),
    ],
    ["input shape layout"],
    rule=_reshape,
)


def _transpose(op: Operation) -> list[TensorType]:
    of, layout = rules.tensor(op, 0), op._attributes["layout"]
    rank = len(of._shape)
    dims = [rules.axis(place, rank, "dim") for place in op._attributes["dims"]]
    if sorted(dims) != list(range(rank)):
        raise Error(f"dims {op._attributes['dims']} is no order of {rank} axes")
    if layout.numAxis() == 0 and of.layout.numAxis() == rank:
        layout = Layout([of.layout.axis_names[place].clone() for place in dims])
    return [rules.like(of, [of._shape[place] for place in dims], layout)]


Transpose = define(
    "Transpose",
    "The axes in another order.",
    "input",
    [
        attr("dims", kinds.wholes, "Which axis of the input each one of the output is.", list),
        attr("layout", kinds.layout, "The output's layout; without it, the input's in that order.", Layout.Default),
    ],
    ["input dims layout", "input dims"],
    rule=_transpose,
)


def _squeeze(op: Operation) -> list[TensorType]:
    of = rules.tensor(op, 0)
    places = rules.normal(op._attributes["axis"], len(of._shape))
    if not places:
        places = [place for place, extent in enumerate(of._shape) if extent == 1]
    if any(of._shape[place] not in (1, rules.UNKNOWN) for place in places):
        raise Error(f"axes {op._attributes['axis']} of shape {of._shape} are not all of extent 1")
    return [rules.without(of, places, False)]


Squeeze = define(
    "Squeeze",
    "The input without axes of extent 1.",
    "input",
    [attr("axis", kinds.wholes, "The axes; negative numbers count from the last, none are all of extent 1.", list)],
    ["input axis"],
    rule=_squeeze,
)


def _expand(op: Operation) -> list[TensorType]:
    of, sizes = rules.tensor(op, 0), op._attributes["sizes"]
    more = len(sizes) - len(of._shape)
    if more < 0:
        raise Error(f"sizes {sizes} are less than the axes of shape {of._shape}")
    shape = []
    for place, size in enumerate(sizes):
        extent = of._shape[place - more] if place >= more else 1
        if size not in (-1, extent) and extent not in (1, rules.UNKNOWN):
            raise Error(f"shape {of._shape} cannot be repeated to {sizes}")
        if size == -1 and place < more:
            raise Error(f"sizes {sizes}: a new axis needs an extent")
        shape.append(extent if size == -1 else size)
    return [rules.like(of, shape, Layout([*Layout.Default(more)._axes, *of.layout.clone()._axes]) if more else None)]


Expand = define(
    "Expand",
    "The input repeated along axes of extent 1, and along new ones before them.",
    "input",
    [attr("sizes", kinds.wholes, "The extents; -1 is the input's.", list)],
    ["input sizes"],
    rule=_expand,
)


# ---- joining and cutting


def _concat(op: Operation) -> list[TensorType]:
    types = _types(op)
    of = types[0]
    place = rules.axis(op._attributes["axis"], len(of._shape))
    shape = of.shape
    for other in types[1:]:
        if len(other._shape) != len(shape) or any(
            left != right and place != at and min(left, right) >= 0
            for at, (left, right) in enumerate(zip(shape, other._shape, strict=True))
        ):
            raise Error(
                f"the shapes {', '.join(str(one._shape) for one in types)} differ along other axes than {place}"
            )
    extents = [one._shape[place] for one in types]
    shape[place] = rules.UNKNOWN if min(extents) < 0 else sum(extents)
    return [rules.like(of, shape)]


Concat = define(
    "Concat",
    "The inputs one after the other along an axis.",
    "inputs*",
    [attr("axis", kinds.whole, "The axis; negative numbers count from the last.", -1)],
    rule=_concat,
)


def _split(op: Operation) -> list[TensorType]:
    of, sections = rules.tensor(op, 0), op._attributes["sections"]
    place = rules.axis(op._attributes["axis"], len(of._shape))
    if any(section < 1 for section in sections) or of._shape[place] not in (sum(sections), rules.UNKNOWN):
        raise Error(f"sections {sections} are not the {of._shape[place]} elements of axis {place}")
    return [rules.like(of, [*of._shape[:place], section, *of._shape[place + 1 :]]) for section in sections]


Split = define(
    "Split",
    "The input in sections along an axis, one output each.",
    "input",
    [
        attr("sections", kinds.wholes, "How long the sections are.", list),
        attr("axis", kinds.whole, "The axis; negative numbers count from the last.", -1),
    ],
    ["input sections / axis"],
    rule=_split,
)


def _stack(op: Operation) -> list[TensorType]:
    types = _types(op)
    of = types[0]
    if any(one._shape != of._shape for one in types):
        raise Error(f"the shapes {', '.join(str(one._shape) for one in types)} differ")
    place = rules.axis(op._attributes["dim"], len(of._shape) + 1, "dim")
    layout = of.layout.clone()
    if layout.numAxis() == len(of._shape):
        layout.insertAxis(place, AxisName("*"))
    return [rules.like(of, [*of._shape[:place], len(types), *of._shape[place:]], layout)]


_DIM = attr("dim", kinds.whole, "The axis; negative numbers count from the last.", 0)

Stack = define("Stack", "The inputs one after the other along a new axis.", "inputs*", [_DIM], rule=_stack)


def _unstack(op: Operation) -> list[TensorType]:
    of = rules.tensor(op, 0)
    place = rules.axis(op._attributes["dim"], len(of._shape), "dim")
    if not 0 <= of._shape[place] <= 1 << 16:
        raise Error(f"an axis of {of._shape[place]} elements cannot become as many outputs")
    return [rules.without(of, [place], False) for _ in range(of._shape[place])]


Unstack = define("Unstack", "The input cut along an axis, an output for each element.", "input", [_DIM], rule=_unstack)


def _slice(op: Operation) -> list[TensorType]:
    of = rules.tensor(op, 0)
    begin, end, stride = (op._attributes[name] for name in ("begin", "end", "stride"))
    if not len(begin) == len(end) == len(stride) == len(of._shape):
        raise Error(f"begin {begin}, end {end} and stride {stride} should have one number for each axis of {of._shape}")
    shape = []
    for extent, first, last, step in zip(of._shape, begin, end, stride, strict=True):
        if step == 0:
            raise Error(f"stride {stride} has a 0")
        shape.append(rules.UNKNOWN if extent < 0 else len(range(*slice(first, last, step).indices(extent))))
    return [rules.like(of, shape)]


Slice = define(
    "Slice",
    "Every stride-th element from begin up to, not including, end, along each axis.",
    "input",
    [
        attr("begin", kinds.wholes, "The first element along each axis; negative numbers count from the end.", list),
        attr("end", kinds.wholes, "The first one behind along each axis; negative numbers count from the end.", list),
        attr("stride", kinds.wholes, "The step along each axis.", list),
    ],
    ["input begin end stride"],
    rule=_slice,
)


# ---- moving


def _ordered(op: Operation) -> list[TensorType]:
    of, order = rules.tensor(op, 0), op._attributes["order"]
    place = rules.axis(op._attributes["axis"], len(of._shape))
    extent = of._shape[place]
    if any(not 0 <= one < max(extent, 0) for one in order if extent >= 0):
        raise Error(f"order {order} names elements that an axis of {extent} has not")
    return [rules.like(of, [*of._shape[:place], len(order), *of._shape[place + 1 :]])]


SwapOrder = define(
    "SwapOrder",
    "The elements along an axis in another order.",
    "input",
    [
        attr("order", kinds.wholes, "Which element of the input each one of the output is.", list),
        attr("axis", kinds.whole, "The axis; negative numbers count from the last.", -1),
    ],
    ["input order / axis"],
    rule=_ordered,
)


def _rolled(op: Operation) -> list[TensorType]:
    of, shifts, dims = rules.tensor(op, 0), op._attributes["shifts"], op._attributes["dims"]
    if len(shifts) != (1 if dims is None else len(dims)):
        raise Error(f"shifts {shifts} are not one for each of the axes {dims}")
    rules.normal(dims or [], len(of._shape), "dims")
    return rules.same(op)


Roll = define(
    "Roll",
    "The elements moved along axes; what leaves at one end comes in at the other.",
    "input",
    [
        attr("shifts", kinds.one_or_wholes, "How far, along each axis.", list),
        attr("dims", kinds.maybe_wholes, "The axes; None: all, as if they were one.", None),
    ],
    ["input shift=shifts dim=dims", "input shifts dims", "input dsize=shifts interpolation=dims"],
    rule=_rolled,
)


def _shuffled(op: Operation) -> list[TensorType]:
    of, groups = rules.tensor(op, 0), op._attributes["groups"]
    channels = of._shape[rules.channel_axis(of)]
    if channels >= 0 and channels % groups:
        raise Error(f"{channels} channels cannot be in {groups} groups")
    return rules.same(op)


ChannelShuffle = define(
    "ChannelShuffle",
    "The channels of all groups in turn.",
    "input",
    [attr("groups", kinds.whole, "How many groups channels are in.", 1, 1)],
    ["input groups"],
    rule=_shuffled,
)


def _pixels(op: Operation) -> list[TensorType]:
    of, factor = rules.tensor(op, 0), op._attributes["upscale_factor"]
    shape, place = of.shape, rules.channel_axis(of)
    if shape[place] >= 0:
        if shape[place] % (factor * factor):
            raise Error(f"{shape[place]} channels are no multiple of {factor}²")
        shape[place] //= factor * factor
    for side in rules.spatial_axes(of, 2):
        shape[side] = shape[side] * factor if shape[side] >= 0 else rules.UNKNOWN
    return [rules.like(of, shape)]


PixelShuffle = define(
    "PixelShuffle",
    "Channels become rows and columns.",
    "input",
    [attr("upscale_factor", kinds.whole, "How often height and width become larger.", 1, 1)],
    ["input upscale_factor"],
    rule=_pixels,
)


def _resized(height: int, width: int, of: TensorType) -> list[TensorType]:
    shape = of.shape
    for place, extent in zip(rules.spatial_axes(of, 2), (height, width), strict=True):
        if extent < 1:
            raise Error(f"{height} x {width} is no size")
        shape[place] = extent
    return [rules.like(of, shape)]


Upsample = define(
    "Upsample",
    "The input with another height and width.",
    "input",
    [
        attr("height", kinds.whole, "The output's height.", 1, 1),
        attr("width", kinds.whole, "The output's width.", 1, 1),
        attr("interpolation", enumeration(Interpolation), "How what lies between is computed.", Interpolation.NEAREST),
        attr("align_corners", kinds.truth, "Whether the corners' centres meet.", False),
    ],
    ["input height width / interpolation align_corners"],
    rule=lambda op: _resized(op._attributes["height"], op._attributes["width"], rules.tensor(op, 0)),
)


def _to_size(op: Operation) -> list[TensorType]:
    size = op._attributes["dsize"]
    if len(size) != 2:
        raise Error(f"dsize {size} is not a height and a width")
    return _resized(size[0], size[1], rules.tensor(op, 0))


Resize = define(
    "Resize",
    "An image with another height and width.",
    "input",
    [
        attr("dsize", kinds.wholes, "The output's height and width.", list),
        attr(
            "interpolation",
            enumeration(ResizeInterpolation),
            "How what lies between is computed.",
            ResizeInterpolation.INTER_LINEAR,
        ),
    ],
    ["input dsize / interpolation"],
    rule=_to_size,
)


# ---- padding


def _padded(op: Operation) -> list[TensorType]:
    of, padding = rules.tensor(op, 0), op._attributes["padding"]
    if len(padding) % 2 or len(padding) > 2 * len(of._shape):
        raise Error(f"padding {padding} should have two numbers for each axis of {of._shape}, the last axis first")
    pairs = [*zip(padding[::2], padding[1::2], strict=True)]
    pairs += [(0, 0)] * (len(of._shape) - len(pairs))
    shape = []
    for extent, (before, behind) in zip(of._shape, reversed(pairs), strict=True):
        made = extent + before + behind
        if extent >= 0 and made < 0:
            raise Error(f"padding {padding} takes away more than {of._shape} has")
        shape.append(made if extent >= 0 else rules.UNKNOWN)
    return [rules.like(of, shape)]


def _zero() -> IntImm:
    return IntImm(0)


Pad = define(
    "Pad",
    "The input with more elements around it.",
    "input",
    [
        attr(
            "padding",
            kinds.wholes,
            "How many before and behind, for each axis, the last one first; those left out get none.",
            list,
        ),
        attr("mode", enumeration(Mode), "What they are.", Mode.CONSTANT),
        attr("value", kinds.number, "What they are if constant.", _zero),
    ],
    ["input padding / mode value"],
    rule=_padded,
)


def _aligned(op: Operation) -> list[TensorType]:
    of = rules.tensor(op, 0)
    shape = of.shape
    noted: list[tuple[list[int], list[int]]] = []
    for unit in op._attributes["aligned_units"]:
        if len(unit.index) != len(unit.unit) or any(one < 1 for one in unit.unit):
            raise Error(f"{unit}: each axis needs a multiple of at least 1")
        places = [rules.axis(place, len(shape)) for place in unit.index]
        before = [shape[place] for place in places]
        for place, multiple in zip(places, unit.unit, strict=True):
            if shape[place] >= 0:
                shape[place] = -(-shape[place] // multiple) * multiple
        noted.append((places, before))
    made = rules.like(of, shape)
    made._merged_distrs = [
        one.clone() for one in of._merged_distrs if not any(one.merged_axis == axes for axes, _ in noted)
    ]
    for places, before in noted:
        after = [shape[place] for place in places]
        if before != after and min(before) >= 0:
            made._merged_distrs.append(_valid_corner(places, before, after))
    return [made]


def _valid_corner(places: list[int], before: list[int], after: list[int]) -> MergedAxisDistr:
    """Return the distribution of a tensor's elements in a larger one's: each axis' first elements are valid."""
    distribution = MergedAxisDistr(places)

    def rows(depth: int) -> None:
        inner = math.prod(after[depth + 1 :])
        if depth == len(after) - 1 or before[depth + 1 :] == after[depth + 1 :]:
            distribution.append(before[depth] * inner, True)
        else:
            for _ in range(before[depth]):
                rows(depth + 1)
        distribution.append((after[depth] - before[depth]) * inner, False)

    if math.prod(before[:-1]) > 1 << 16:
        raise Error(f"axes {places} are too long to note their padding")
    rows(0)
    return distribution


AlignAxis = define(
    "AlignAxis",
    "The input with padding behind, so that extents are multiples of what a device wants.",
    "input",
    [
        attr(
            "aligned_units",
            objects_of("AlignedUnit", lambda: AlignedUnit, lambda document, reader: reader.aligned_unit(document)),
            "The axes and the multiples.",
            list,
        )
    ],
    ["input aligned_units"],
    rule=_aligned,
)


def _pruned(op: Operation) -> list[TensorType]:
    of = rules.tensor(op, 0)
    shape = of.shape
    gone = [rules.axis(place, len(of._merged_distrs), "index") for place in op._attributes["index"]]
    for place in gone:
        distribution = of._merged_distrs[place]
        # Merged axes can be cut as one only if the outer ones are 1 long.
        *outer, inner = distribution.merged_axis
        if any(shape[axis] != 1 for axis in outer):
            raise Error(
                f"{distribution}: what is left has no shape of its own; give the output's type to inferResults()"
            )
        shape[inner] = distribution.totalValidNum()
    made = rules.like(of, shape, _unsplit(of.layout, shape))
    made._merged_distrs = [one.clone() for place, one in enumerate(of._merged_distrs) if place not in gone]
    return [made]


def _unsplit(layout: Layout, shape: list[int]) -> Layout:
    copy = layout.clone(2)
    for place, one in enumerate(copy._axes):
        if isinstance(one, AxisUnit) and copy.numAxis() == len(shape):
            one.setUnit(shape[place])
    return copy


PruneAxis = define(
    "PruneAxis",
    "The input without its padding.",
    "input",
    [attr("index", kinds.wholes, "Which of the input's merged distributions.", list)],
    ["input index"],
    rule=_pruned,
)
