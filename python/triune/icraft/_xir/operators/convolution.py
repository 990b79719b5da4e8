"""Convolutions, transposed convolutions and products of matrices."""

from __future__ import annotations

from typing import Any

from triune.icraft._xir import rules
from triune.icraft._xir.arrays import QuantizedScaleArray
from triune.icraft._xir.attributes import Attr, attr, enumeration, kinds
from triune.icraft._xir.enums import PaddingMode
from triune.icraft._xir.errors import Error
from triune.icraft._xir.layout import AxisUnit, Layout
from triune.icraft._xir.operation import Operation, Rule
from triune.icraft._xir.table import define
from triune.icraft._xir.types import TensorType

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "Matmul",
]

# In the order of the published constructors: width before height, but depth first.
_SIDES = {1: ("width",), 2: ("width", "height"), 3: ("depth", "width", "height")}
_PADS = {
    1: ("left", "right"),
    2: ("top", "bottom", "left", "right"),
    3: ("front", "back", "top", "bottom", "left", "right"),
}


def windows(count: int, *, pool: bool = False, dilation: bool = True, output_pad: bool = False) -> list[Attr]:
    """Return the attributes of a window over `count` axes."""
    sides = _SIDES[count]
    found = (
        [attr(f"pool_{side}", kinds.whole, f"The window's {side} in elements.", 1, 1) for side in sides] if pool else []
    )
    found += [attr(f"stride_{side}", kinds.whole, f"The step along the {side} in elements.", 1, 1) for side in sides]
    found += [
        attr(f"pad_{side}", kinds.whole, f"The elements of padding at the {side}.", 0, 0) for side in _PADS[count]
    ]
    if dilation:
        text = "The distance in elements of neighbours in the window along the"
        found += [attr(f"dilation_{side}", kinds.whole, f"{text} {side}.", 1, 1) for side in sides]
    if output_pad:
        found += [
            attr(f"output_pad_{side}", kinds.whole, f"How many elements the {side} is longer.", 0, 0) for side in sides
        ]
    return found


def cut_scale() -> Attr:
    """Return the attribute of operators whose sums a device scales before it cuts them."""
    return attr(
        "cut_scale", kinds.scales, "What the device multiplies sums with before it cuts them.", QuantizedScaleArray
    )


def _groups() -> Attr:
    return attr("groups", kinds.whole, "How many groups channels are in.", 1, 1)


def _sizes(weights: TensorType, count: int) -> list[int]:
    letters = {1: "W", 2: "HW", 3: "DHW"}[count]
    if count == 1 and not weights.layout.has("W"):
        letters = "L" if weights.layout.has("L") else "H"
    return [weights._shape[rules.outer(weights, letter)] for letter in letters]


def _weights(op: Operation, count: int) -> TensorType:
    weights = rules.tensor(op, 1)
    if weights.layout.numAxis() != len(weights._shape):
        raise Error(f"the weights' layout {weights.layout.toString()} and shape {weights._shape} do not fit")
    if weights.dimSize(True) != count + 2:
        raise Error(f"the weights' shape {weights._shape} is not that of a convolution over {count} axes")
    return weights


def _with_channels(of: TensorType, shape: list[int], channels: int, weights: TensorType) -> TensorType:
    """Return the output: `channels` of them, in the blocks of the layout."""
    place = rules.channel_axis(of)
    if of.layout.has("c"):
        block = of.layout.getIndexOf("c")
        unit = weights._shape[weights.layout.getIndexOf("o")] if weights.layout.has("o") else shape[block]
        if channels % unit:
            raise Error(f"{channels} output channels are no whole blocks of {unit}")
        shape[place], shape[block] = channels // unit, unit
        layout = of.layout.clone(2)
        layout._axes[block] = AxisUnit("c", unit)
        return rules.like(of, shape, layout)
    shape[place] = channels
    return rules.like(of, shape)


def _convolution(count: int) -> Rule:
    def rule(op: Operation) -> list[TensorType]:
        of, weights = rules.tensor(op, 0), _weights(op, count)
        shape = of.shape
        sides = zip(rules.spatial_axes(of, count), rules.SPATIAL[count], _sizes(weights, count), strict=True)
        for place, side, size in sides:
            shape[place] = rules.window(op, shape[place], side, size)
        channels = of.getDim(rules.channel_axis(of), not of.layout.isDefault())
        given = weights.getDimByAxis("I", True) * op._attributes["groups"]
        if not rules.blocked(of) and channels >= 0 and given != channels:
            raise Error(f"{channels} input channels, and weights for {given}")
        return [_with_channels(of, shape, weights.getDimByAxis("O", True), weights)]

    return rule


def _transposed(count: int) -> Rule:
    def rule(op: Operation) -> list[TensorType]:
        of, weights = rules.tensor(op, 0), _weights(op, count)
        shape = of.shape
        sides = zip(rules.spatial_axes(of, count), rules.SPATIAL[count], _sizes(weights, count), strict=True)
        for place, side, size in sides:
            shape[place] = rules.spread(op, shape[place], side, size)
        return [_with_channels(of, shape, weights.getDimByAxis("O", True), weights)]

    return rule


def _forms(count: int, output_pad: bool, padding_mode: bool) -> list[str]:
    table = [one.name for one in windows(count, output_pad=output_pad)]
    tail = "/ groups padding_mode" if padding_mode else "/ groups"
    extra = " output_pad" if output_pad else ""
    long = f"input weights bias? {' '.join(table)} {tail}"
    return [long] if count == 1 else [long, f"input weights bias? stride pad dilation{extra} {tail}"]


def _conv(count: int) -> Any:
    return define(
        f"Conv{count}d",
        f"A convolution over {count} ax{'is' if count == 1 else 'es'}.",
        "input weights bias?",
        [
            *windows(count),
            _groups(),
            attr("padding_mode", enumeration(PaddingMode), "What lies outside of the input.", PaddingMode.ZEROS),
            cut_scale(),
        ],
        _forms(count, False, True),
        rule=_convolution(count),
    )


def _conv_transpose(count: int) -> Any:
    return define(
        f"ConvTranspose{count}d",
        f"A transposed convolution over {count} ax{'is' if count == 1 else 'es'}.",
        "input weights bias?",
        [*windows(count, output_pad=True), _groups()],
        _forms(count, True, False),
        rule=_transposed(count),
        aliases=[f"Conv{count}dTranspose"],
    )


Conv1d = _conv(1)
Conv2d = _conv(2)
Conv3d = _conv(3)
ConvTranspose1d = _conv_transpose(1)
ConvTranspose2d = _conv_transpose(2)
ConvTranspose3d = _conv_transpose(3)


def _product(op: Operation) -> list[TensorType]:
    left, right = rules.tensor(op, 0), rules.tensor(op, 1)
    if not left._shape or not right._shape:
        raise Error("a product of matrices needs axes")
    rows, columns = left._shape[-2:-1], right._shape[-1:] if len(right._shape) > 1 else []
    inner = right._shape[-2] if len(right._shape) > 1 else right._shape[-1]
    if inner >= 0 and left._shape[-1] >= 0 and inner != left._shape[-1]:
        raise Error(f"shapes {left._shape} and {right._shape} are no product of matrices")
    batch = rules.broadcast_shapes(left._shape[:-2], right._shape[:-2])
    shape = [*batch, *rows, *columns]
    of = left if len(left._shape) >= len(right._shape) else right
    layout = of.layout if len(shape) == len(of._shape) else Layout.Default(len(shape))
    return [rules.like(left, shape, layout)]


Matmul = define(
    "Matmul",
    "A product of matrices: x · k + b, over the last two axes.",
    "x k b?",
    [cut_scale()],
    ["x k b?"],
    rule=_product,
)
