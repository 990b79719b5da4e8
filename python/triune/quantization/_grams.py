"""What a product's weights are multiplied with together, and weights rounded by it.

Rounded to the nearest, each weight errs by itself. With the mean products of any two inputs, what rounding one weight adds to
the results can be taken off again by those that are rounded after it: the error of the layer's results is what becomes small
(after Frantar et al., "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers", 2022).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from triune.quantization._model import Array, Network, attribute

__all__ = ["Gram", "gram_of", "round_together"]

Floats = npt.NDArray[np.float64]

_PLACES = 32
"""Of one sample's results, so many say what the inputs are like."""

_MOST = 2304
"""Inputs of one result above which their products take too much memory and time."""

_LEAST_SAMPLES = 32
"""What fewer have in common is what they happen to show, and weights that are rounded by it fit nothing else."""

_DAMPING = 0.01
"""What is added to each input's power, as a part of their mean: samples do not show all."""


_LEAST = 1e-30
"""What is added besides, for inputs that are 0."""


class Gram:
    """Mean products of any two inputs of a product's results, for each group of channels."""

    def __init__(self, node: Any, weights: Array) -> None:
        self._count = self._samples = 0
        self._start: Floats = np.zeros(0)
        # Of what is besides the start: sums of squares lose what is small beside a mean.
        self._totals: Floats = np.zeros(0)
        self._products: Floats = np.zeros(0)
        self._random = np.random.default_rng(0)
        self._groups = attribute(node, "group", 1) if node.op_type == "Conv" else 1
        self._taps = weights.shape[2:] if node.op_type == "Conv" else None
        axes = weights.ndim - 2
        self._strides = attribute(node, "strides", [1] * axes)
        self._dilations = attribute(node, "dilations", [1] * axes)
        self._pads = attribute(node, "pads", [0] * 2 * axes)
        self._same = attribute(node, "auto_pad", "NOTSET")

    def add(self, values: Array) -> None:
        """Take the operand of another sample."""
        rows = self._rows(values) if self._taps is None else self._windows(values)
        # Of its own: the operand is others' to see as well, and a sample's.
        rows = np.array(rows.transpose(1, 0, 2), np.float32, order="C")
        if not self._count:
            self._start = rows.mean(axis=1, keepdims=True, dtype=np.float64)
            self._totals, self._products = np.zeros((2, 1))
        rows -= self._start.astype(np.float32)
        self._totals = self._totals + rows.sum(axis=1, dtype=np.float64)
        self._products = self._products + rows.transpose(0, 2, 1) @ rows
        self._count += rows.shape[1]
        # Rows may be a sample's as well as samples.
        self._samples += 1 if self._taps is None else len(values)

    def mean(self, *, centred: bool) -> Floats | None:
        """Return group, input, input; None if too little was seen. Centred: of what inputs are besides their means."""
        if self._samples < _LEAST_SAMPLES:
            return None
        middle = self._totals / self._count
        found = self._products / self._count - middle[:, :, None] * middle[:, None, :]
        if centred:
            return found
        middle = middle + self._start[:, 0]
        return found + middle[:, :, None] * middle[:, None, :]

    def _rows(self, values: Array) -> Array:
        rows = values.reshape(-1, values.shape[-1])
        chosen = self._random.choice(len(rows), _PLACES, replace=False) if len(rows) > _PLACES else slice(None)
        return rows[chosen][:, None]

    def _windows(self, values: Array) -> Array:
        """Return what some results are made of: result, group, input."""
        assert self._taps is not None
        counts, before = self._extents(values.shape[2:])
        total = values.shape[0] * int(np.prod(counts))
        places = self._random.choice(total, _PLACES, replace=False) if total > _PLACES else np.arange(total)
        sample, *result = np.unravel_index(places, (values.shape[0], *counts))
        flat = np.zeros((len(places), 1), np.int64)
        inside = np.ones((len(places), 1), bool)
        for axis, taps in enumerate(self._taps):
            extent = values.shape[2 + axis]
            at = (result[axis] * self._strides[axis] - before[axis])[:, None] + np.arange(taps) * self._dilations[axis]
            inside = (inside[:, :, None] & ((at >= 0) & (at < extent))[:, None]).reshape(len(places), -1)
            flat = (flat[:, :, None] * extent + at.clip(0, extent - 1)[:, None]).reshape(len(places), -1)
        taken = values.reshape(*values.shape[:2], -1)[sample[:, None], :, flat] * inside[:, :, None]
        return taken.transpose(0, 2, 1).reshape(len(places), self._groups, -1)

    def _extents(self, extents: tuple[int, ...]) -> tuple[list[int], list[int]]:
        """Return how many results there are along each axis, and what is padded in front."""
        assert self._taps is not None
        counts, before = [], []
        for axis, extent in enumerate(extents):
            reach = (self._taps[axis] - 1) * self._dilations[axis] + 1
            pads = [self._pads[axis], self._pads[axis + len(extents)]]
            if self._same in ("SAME_UPPER", "SAME_LOWER"):
                stride = self._strides[axis]
                missing = max(0, (-(-extent // stride) - 1) * stride + reach - extent)
                less, more = missing // 2, missing - missing // 2
                pads = [less, more] if self._same == "SAME_UPPER" else [more, less]
            elif self._same == "VALID":
                pads = [0, 0]
            counts.append((extent + sum(pads) - reach) // self._strides[axis] + 1)
            before.append(pads[0])
        return counts, before


def gram_of(network: Network, node: Any) -> Gram | None:
    """Return what is to see a product's operand; None if the product has too many inputs, or none of its own."""
    weights = network.weights(node)
    if weights is None or node.op_type == "ConvTranspose" or (node.op_type != "Conv" and weights.ndim != 2):
        return None
    if node.op_type == "Gemm" and attribute(node, "transA", 0):
        return None
    count = int(np.prod(weights.shape[1:])) if node.op_type == "Conv" else weights.size // _results(node, weights)
    return Gram(node, weights) if count <= _MOST else None


def _results(node: Any, weights: Array) -> int:
    return int(weights.shape[0 if node.op_type == "Gemm" and attribute(node, "transB", 0) else 1])


def round_together(rows: Floats, scales: Floats, gram: Floats, most: int) -> Floats:
    """Return integers for weights, a row per result, with a scale for each row.

    `gram` has the mean products of inputs for each of the groups that the rows are in.
    """
    groups, count = gram.shape[:2]
    power = np.diagonal(gram, axis1=1, axis2=2)
    damping = _DAMPING * power.mean(axis=1) + _LEAST
    # From the end, where the loudest are: those after them make up for them.
    order = np.argsort(power, axis=1, kind="stable")
    known = np.take_along_axis(np.take_along_axis(gram, order[:, :, None], 1), order[:, None, :], 2)
    lower = np.linalg.cholesky(known + damping[:, None, None] * np.eye(count))
    reals = np.take_along_axis(rows.reshape(groups, -1, count), order[:, None, :], 2)
    steps = scales.reshape(groups, -1)
    integers, errors = np.empty_like(reals), np.empty_like(reals)
    for at in reversed(range(count)):
        # What the rest has to add so that the errors so far do least.
        column = lower[:, at + 1 :, at, None] / lower[:, at, at, None, None]
        wanted = reals[:, :, at] + (errors[:, :, at + 1 :] @ column)[:, :, 0]
        integers[:, :, at] = np.clip(np.rint(wanted / steps), -most, most)
        errors[:, :, at] = reals[:, :, at] - integers[:, :, at] * steps
    back = np.argsort(order, axis=1)
    return np.take_along_axis(integers, back[:, None, :], 2).reshape(rows.shape)
