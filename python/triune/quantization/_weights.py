"""Constant weights of products as rows of one output channel each, and as integers again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from triune.quantization._grams import Gram, round_together
from triune.quantization._model import Array, Network, attribute
from triune.quantization._scales import find_weight_scales
from triune.quantization._statistics import Moments

__all__ = ["QuantizedWeights", "channel_axis", "quantize_weights", "rows_of"]

Floats = npt.NDArray[np.float64]

_MOST_BIAS = 2.0**30
"""Steps of the largest bias: half of what 32 bits hold is left to the sum."""


@dataclass(frozen=True)
class QuantizedWeights:
    """Integers of a product's weights and bias."""

    values: Array
    scales: npt.NDArray[np.float32]
    """One, or one per channel."""
    axis: int
    """The axis of the channels."""
    bias: npt.NDArray[np.int32] | None
    bias_scales: npt.NDArray[np.float32]
    real: Array
    """What `values` stand for, before rounding."""
    real_bias: Floats | None


def channel_axis(node: Any) -> int:
    """Return which axis of a product's weights the output channels run along."""
    if node.op_type == "Conv" or (node.op_type == "Gemm" and attribute(node, "transB", 0)):
        return 0
    return 1


def rows_of(node: Any, weights: Array) -> tuple[Floats, Callable[[Floats], Array]]:
    """Return weights as a matrix with a row per output channel, and the way back."""
    axis = channel_axis(node) if weights.ndim == 2 or node.op_type in ("Conv", "ConvTranspose") else 0
    moved = np.moveaxis(weights, axis, 0)

    def back(rows: Floats) -> Array:
        return np.ascontiguousarray(np.moveaxis(rows.reshape(moved.shape), 0, axis))

    return moved.reshape(moved.shape[0], -1).astype(np.float64), back


def _per_weight(node: Any, weights: Array, channels: Floats, count: int) -> Floats:
    """Return for each element of `rows_of` what is said of the input channel that it is multiplied with."""
    if node.op_type not in ("Conv", "ConvTranspose"):
        return np.broadcast_to(channels, (count, len(channels)))
    taps = int(np.prod(weights.shape[2:]))
    groups = attribute(node, "group", 1)
    if node.op_type == "ConvTranspose" or groups == 1:
        return np.broadcast_to(np.repeat(channels, taps), (count, len(channels) * taps))
    of_group = np.repeat(channels.reshape(groups, -1), taps, axis=1)
    return np.repeat(of_group, count // groups, axis=0)


def quantize_weights(
    network: Network,
    node: Any,
    x_scale: float,
    moments: Moments | None,
    gram: Gram | None,
    *,
    bits: int,
    per_channel: bool,
    search: bool,
    correct: bool,
) -> QuantizedWeights:
    """Return a product's constants as integers of `bits` bits, the bias of 32 on the products' scale.

    With `search`, scales are those of the least error on the operand's values, and weights are rounded together by `gram`, if
    there is one; with `correct`, the bias makes up for what rounding the weights adds on average. All need `moments`.
    """
    weights = network.weights(node)
    assert weights is not None
    matrix = weights.ndim == 2 or node.op_type in ("Conv", "ConvTranspose")
    rows, back = rows_of(node, weights)
    # The channels of a transposed convolution in groups run along two axes.
    each = per_channel and matrix and not (node.op_type == "ConvTranspose" and attribute(node, "group", 1) > 1)
    told = moments is not None and moments.count > 0 and matrix
    power = _per_weight(node, weights, moments.power, len(rows)) if told and moments else None
    flat_power = power if each or power is None else power.reshape(1, -1)
    scales = find_weight_scales(rows if each else rows.reshape(1, -1), flat_power, bits, search=search)
    name = node.input[2] if len(node.input) > 2 else ""
    given = network.constant(name) if name else None
    real_bias = None if given is None else given.astype(np.float64).reshape(-1)
    if real_bias is not None and real_bias.size:
        least = np.abs(real_bias) / (x_scale * _MOST_BIAS)
        scales = np.maximum(scales, least if each else least.max()).astype(np.float32)
    most = 2 ** (bits - 1) - 1
    along = scales.astype(np.float64)[:, None]
    corrected = correct and told and node.op_type in ("Conv", "Gemm")
    # What rounding adds on average is the bias's to take off.
    products = None if gram is None or not (search and told and bits == 8) else gram.mean(centred=corrected)
    if products is None:
        integers = np.clip(np.rint(rows / along), -most, most)
    else:
        integers = round_together(rows, np.broadcast_to(along[:, 0], len(rows)), products, most)
    if corrected and moments:
        mean = _per_weight(node, weights, moments.mean, len(rows))
        missing = ((rows - integers * along) * mean).sum(axis=1)
        if real_bias is not None or np.abs(missing).max(initial=0.0) > 0:
            real_bias = missing if real_bias is None else real_bias + missing
    # As the runtimes multiply the two: in 32 bits.
    bias_scales = np.float32(x_scale) * scales
    bias = None
    if real_bias is not None:
        steps = np.rint(real_bias / bias_scales.astype(np.float64))
        bias = np.clip(steps, -(2**31), 2**31 - 1).astype(np.int32)
    values = back(integers).astype(np.int16 if bits == 16 else np.int8)
    return QuantizedWeights(values, scales, channel_axis(node), bias, bias_scales, weights, real_bias)
