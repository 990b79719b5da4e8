"""Rules for the outputs of operators: shapes, element types and layouts from those of the inputs.

Axes are found by their letters. A tensor whose layout says nothing (``*``) is taken as batch first, channels last.
An extent that is not known (negative) makes those that depend on it unknown: -1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from triune.icraft._xir.errors import Error
from triune.icraft._xir.layout import AxisUnit, Layout
from triune.icraft._xir.operation import Operation, Rule
from triune.icraft._xir.scalars import BoolType, IntegerType, ScalarType
from triune.icraft._xir.types import TensorType

__all__ = ["axis", "broadcast", "channel_axis", "like", "normal", "outer", "same", "spatial_axes", "tensor", "window"]

SPATIAL = {1: ("width",), 2: ("height", "width"), 3: ("depth", "height", "width")}
_PADS = {"width": ("pad_left", "pad_right"), "height": ("pad_top", "pad_bottom"), "depth": ("pad_front", "pad_back")}
UNKNOWN = -1


def tensor(op: Operation, index: int) -> TensorType:
    """Return the type of an input. Raises Error if there is none of that number, or it is null."""
    if index >= len(op._inputs) or not op._inputs[index].defined():
        raise Error(f"input {index} is missing")
    return op._inputs[index]._tensor()


def like(
    of: TensorType, shape: Sequence[int], layout: Layout | None = None, element: ScalarType | None = None
) -> TensorType:
    """Return a type with another shape; where padding is, is kept if the shape is the same."""
    made = TensorType._of(
        (of.element_dtype if element is None else element)._clone(0),
        shape,
        (of.layout if layout is None else layout)._clone(0),
    )
    if list(shape) == of._shape and layout is None:
        made._merged_distrs = [distribution._clone(0) for distribution in of._merged_distrs]
    return made


def same(op: Operation) -> list[TensorType]:
    """Return the type of the only, or first, input."""
    of = tensor(op, 0)
    return [like(of, of._shape)]


def of_type(element: Callable[[], ScalarType], rule: Rule) -> Rule:
    """Return a rule with another type of elements."""
    return lambda op: [made.setElementDtype(element()) for made in rule(op)]


def boolean(rule: Rule) -> Rule:
    """Return a rule whose elements are truth values."""
    return of_type(BoolType, rule)


def indices(rule: Rule) -> Rule:
    """Return a rule whose elements are places."""
    return of_type(IntegerType.SInt64, rule)


def axis(value: int, rank: int, what: str = "axis") -> int:
    """Return an axis counted from the outermost. Raises Error if there is none."""
    if not -rank <= value < rank:
        raise Error(f"{what} {value} is none of the {rank} axes")
    return value % rank


def broadcast_shapes(*shapes: Sequence[int]) -> list[int]:
    """Return the shape of tensors put together as numpy would. Raises Error if they do not fit."""
    shape: list[int] = []
    for place in range(-max(map(len, shapes), default=0), 0):
        extents = {one[place] for one in shapes if len(one) >= -place} - {1}
        if len(extents - {UNKNOWN}) > 1:
            raise Error(f"the shapes {', '.join(str(list(one)) for one in shapes)} do not fit together")
        shape.append(max(extents, default=1))
    return shape


def broadcast(op: Operation, count: int) -> list[TensorType]:
    """Return the type of the first `count` inputs put together as numpy would. Raises Error if they do not fit."""
    types = [tensor(op, index) for index in range(count)]
    of = max(types, key=lambda one: len(one._shape))
    return [like(of, broadcast_shapes(*(one._shape for one in types)))]


# ---- axes


def channel_axis(of: TensorType) -> int:
    """Return the axis of channels: ``C``, or the last one where the layout says nothing."""
    place = of.layout._found("C")
    return len(of._shape) - 1 if place is None else place


def outer(of: TensorType, letter: str) -> int:
    """Return an axis of weights by its letter. Raises Error if there is none."""
    place = of.layout._found(letter)
    if place is None:
        raise Error(f"the weights' layout {of.layout.toString()} has no axis {letter}")
    return place


def spatial_axes(of: TensorType, count: int) -> list[int]:
    """Return the axes of depth, height and width: by letters, or those before the last where the layout says nothing.

    Raises Error if there are not as many.
    """
    letters = {1: "W", 2: "HW", 3: "DHW"}[count]
    if count == 1 and not of.layout.has("W"):
        letters = "L" if of.layout.has("L") else "H" if of.layout.has("H") else "W"
    places = [place for letter in letters if (place := of.layout._found(letter)) is not None]
    if len(places) == len(letters):
        of._check_layout()
        return places
    if not of.layout.isDefault():
        raise Error(f"layout {of.layout.toString()} has no axes {', '.join(letters)}")
    if len(of._shape) != count + 2:
        raise Error(f"shape {of._shape} should have {count + 2} extents")
    return list(range(1, count + 1))


def blocked(of: TensorType) -> bool:
    """Return whether axes are split."""
    return any(isinstance(one, AxisUnit) for one in of.layout.axis_names)


# ---- windows


def window(op: Operation, extent: int, side: str, size: int) -> int:
    """Return how often a window of `size` fits along a side: stride, padding and dilation are attributes of `op`.

    Raises Error if it does not fit once.
    """
    attributes = op._attributes
    if extent < 0:
        return UNKNOWN
    before, after = (attributes[name] for name in _PADS[side])
    reach = attributes.get(f"dilation_{side}", 1) * (size - 1) + 1
    room = extent + before + after - reach
    if room < 0:
        raise Error(f"a window of {reach} does not fit the {side} of {extent} with {before} and {after} of padding")
    return int(room // attributes[f"stride_{side}"]) + 1


def spread(op: Operation, extent: int, side: str, size: int) -> int:
    """Return the extent that a transposed window makes. Raises Error if it is not positive."""
    attributes = op._attributes
    if extent < 0:
        return UNKNOWN
    before, after = (attributes[name] for name in _PADS[side])
    made = (extent - 1) * attributes[f"stride_{side}"] - before - after
    made += attributes[f"dilation_{side}"] * (size - 1) + attributes[f"output_pad_{side}"] + 1
    if made < 1:
        raise Error(f"the {side} would be {made}")
    return int(made)


# ---- shapes


def normal(axes: Sequence[int], rank: int, what: str = "axis") -> list[int]:
    """Return axes counted from the outermost, in order. Raises Error if there is none such, or one is there twice."""
    places = sorted(axis(value, rank, what) for value in axes)
    if len(set(places)) != len(places):
        raise Error(f"{what} {list(axes)} names one twice")
    return places


def without(of: TensorType, places: Sequence[int], keep: bool) -> TensorType:
    """Return a type without some axes, or with an extent of 1 along them."""
    if keep:
        return like(of, [1 if place in places else extent for place, extent in enumerate(of._shape)])
    shape = [extent for place, extent in enumerate(of._shape) if place not in places]
    return like(of, shape, layout_without(of, places))


def layout_without(of: TensorType, places: Sequence[int]) -> Layout:
    """Return a layout without some axes."""
    if of.layout.numAxis() != len(of._shape):
        return Layout.Default(len(of._shape) - len(places))
    return Layout([one.clone() for place, one in enumerate(of.layout.axis_names) if place not in places])


def product(shape: Sequence[int]) -> int:
    """Return the number of elements, -1 if an extent is not known."""
    return UNKNOWN if any(extent < 0 for extent in shape) else math.prod(shape)


def first(made: Any) -> list[TensorType]:
    """Return a list of one type."""
    return [made]
