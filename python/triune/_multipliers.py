"""Quantized models for devices that multiply with m·2⁻ⁿ: weights on scales whose products have such multipliers.

A product's integers become its result's by the factor x scale · weight scale / y scale. Rounding that factor to eight
significant bits would change every channel's gain by up to 0.4 %; weights quantized on a scale that makes the factor one of
m·2⁻ⁿ lose nothing but a little of their range.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["use_fixed_multipliers"]

_LIMITS = ("Relu", "Clip")
"""What may stand between a product and its quantization."""


def use_fixed_multipliers(model: Any, reals: Mapping[str, npt.NDArray[Any]], bits: int) -> None:
    """Put the weights of a QDQ model on such scales, with the reals of its constants of integers by their names.

    `bits` are those of activations and weights. What shares its weights with others, or is not quantized on all sides, stays.
    """
    network = _Network(model, reals)
    for node in model.graph.node:
        if node.op_type in ("Conv", "Gemm", "MatMul"):
            network.rescale(node, bits)


def next_multipliers(factors: npt.NDArray[np.float64], bits: int) -> npt.NDArray[np.float64]:
    """Return for each factor the smallest m·2⁻ⁿ from it on, m of 128 to 255, or less with the longest shift.

    n is at most 2 · `bits` + 5; factors beyond the largest multiplier come back as they are.
    """
    longest = 2 * bits + 5
    shifts = np.clip(7 - np.floor(np.log2(factors)), 0, longest)
    found = np.ceil(factors * 2.0**shifts) * 2.0**-shifts
    return np.where(found <= 255, found, factors)


class _Network:
    def __init__(self, model: Any, reals: Mapping[str, npt.NDArray[Any]]) -> None:
        graph = model.graph
        self.constants = {tensor.name: tensor for tensor in graph.initializer}
        self.reals = reals
        self.makers = {name: node for node in graph.node for name in node.output}
        self.readers: dict[str, list[Any]] = {}
        for node in graph.node:
            for name in node.input:
                self.readers.setdefault(name, []).append(node)

    def rescale(self, node: Any, bits: int) -> None:
        """Put a product's weights and bias on other scales, if they are its own."""
        source, weights = (self._dequantizer(name) for name in node.input[:2])
        result = self._scale_behind(node)
        bias = self._dequantizer(node.input[2]) if len(node.input) > 2 and node.input[2] else None
        parts = [weights] if bias is None else [weights, bias]
        if source is None or weights is None or result is None or (len(node.input) > 2 and bias is None):
            return
        x_scale = self._value(source.input[1])
        if x_scale is None or x_scale.size != 1 or not all(self._own(part) for part in parts):
            return
        integers, scales = (self._value(name) for name in weights.input[:2])
        if integers is None or scales is None:
            return
        kept = scales.reshape(-1).astype(np.float64)
        ratio = float(x_scale.reshape(())) / result
        fresh = next_multipliers(kept * ratio, bits) / ratio
        axis = next((attribute.i for attribute in weights.attribute if attribute.name == "axis"), 1)
        along = [1] * integers.ndim
        if kept.size > 1:
            along[axis] = kept.size
        real = self._real(weights.input[0], integers * kept.reshape(along))
        most = 2 ** (bits - 1) - 1
        self._put(weights.input[0], np.clip(np.rint(real / fresh.reshape(along)), -most - 1, most))
        self._put(weights.input[1], fresh.reshape(scales.shape))
        if bias is not None:
            integers, steps = (self._value(name) for name in bias.input[:2])
            assert integers is not None
            assert steps is not None
            reals = self._real(bias.input[0], integers * steps.astype(np.float64))
            step = fresh * float(x_scale.reshape(()))
            self._put(bias.input[0], np.clip(np.rint(reals / step), -(2**31), 2**31 - 1))
            self._put(
                bias.input[1], np.broadcast_to(step, steps.shape) if step.size == 1 else step.reshape(steps.shape)
            )

    def _dequantizer(self, name: str) -> Any | None:
        node = self.makers.get(name)
        return node if node is not None and node.op_type == "DequantizeLinear" else None

    def _scale_behind(self, node: Any) -> float | None:
        """Return the scale that a product's result is quantized with, if that is all that reads it."""
        while len(readers := self.readers.get(node.output[0], [])) == 1 and readers[0].op_type in _LIMITS:
            node = readers[0]
        scales = {reader.input[1] if reader.op_type == "QuantizeLinear" else "" for reader in readers}
        scale = self._value(scales.pop()) if len(scales) == 1 else None
        return None if scale is None or scale.size != 1 else float(scale.reshape(()))

    def _own(self, dequantizer: Any) -> bool:
        """Return whether a dequantized constant and its scale serve one reader only, and there is no zero point."""
        names = [*dequantizer.input[:2], dequantizer.output[0]]
        zero = self._value(dequantizer.input[2]) if len(dequantizer.input) > 2 else None
        alone = all(len(self.readers.get(name, [])) == 1 for name in names)
        return alone and all(name in self.constants for name in names[:2]) and (zero is None or not zero.any())

    def _value(self, name: str) -> npt.NDArray[Any] | None:
        from onnx import numpy_helper

        tensor = self.constants.get(name)
        return None if tensor is None else numpy_helper.to_array(tensor)

    def _real(self, name: str, otherwise: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the reals that the constant `name` was quantized from, where they are known."""
        found = self.reals.get(name)
        return otherwise if found is None or found.shape != otherwise.shape else found.astype(np.float64)

    def _put(self, name: str, values: npt.NDArray[np.float64]) -> None:
        from onnx import numpy_helper

        tensor = self.constants[name]
        tensor.CopyFrom(numpy_helper.from_array(values.astype(numpy_helper.to_array(tensor).dtype), name))
