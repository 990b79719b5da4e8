"""What a Softmax makes nothing of: values far below the largest of their row, and masks that make such values of scores.

A mask is 0 or −10,000, −3e38 or −∞. One scale for that and for scores leaves scores no steps. And what a maximum over all places
makes nothing of: everything but the largest, for which the range has to be.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from triune.quantization._model import Array, Network, attribute
from triune.quantization._statistics import Distribution

__all__ = ["FAR", "Shares", "lost_to_rounding"]

FAR = 12.0
"""So far below the largest of a row a value's share is less than 1e-5, whatever the value."""

_SAME_ROWS = {"Identity", "Reshape", "Squeeze", "Unsqueeze"}
"""Operators whose results may have the rows of their operands."""


def lost_to_rounding(seen: Distribution, step: float) -> float:
    """Return the part of a tensor's sum that is of values under half a step, which become 0; 0 where no histogram was kept.

    The tensor holds nothing below 0.
    """
    middles, shares = seen.histogram()
    whole = float(middles @ shares)
    small = middles < step / 2
    return float(middles[small] @ shares[small]) / whole if whole > 0 else 0.0


class Shares:
    """The tensors of a network that are read by a Softmax alone, and those that only sums among these read."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self.axes: dict[str, int] = {}
        """Of tensors that a Softmax alone reads, the axis of the rows."""
        for index, node in enumerate(network.nodes):
            if node.op_type == "Softmax" and node.domain in ("", "ai.onnx"):
                self._follow(node.input[0], index, int(attribute(node, "axis", -1)))
        self.maxima: dict[str, tuple[int, ...]] = {}
        """Of tensors that a maximum over axes alone reads, these."""
        for index, node in enumerate(network.nodes):
            if node.op_type in ("GlobalMaxPool", "ReduceMax") and network.readers.get(node.input[0]) == [index]:
                axes = self._axes(node)
                if axes and node.input[0] not in network.outputs:
                    self.maxima[node.input[0]] = axes

    def _axes(self, node: Any) -> tuple[int, ...]:
        """Return the axes that a maximum is over; none where they are not known."""
        rank = self._network.rank(node.input[0])
        if rank is None:
            return ()
        if node.op_type == "GlobalMaxPool":
            return tuple(range(2, rank))
        axes = attribute(node, "axes", None)
        if axes is None and len(node.input) > 1 and node.input[1]:
            axes = self._network.constant(node.input[1])
            return () if axes is None else tuple(int(axis) for axis in axes.reshape(-1))
        return tuple(range(rank)) if axes is None else tuple(axes)

    def _follow(self, name: str, reader: int, axis: int) -> None:
        network = self._network
        while network.readers.get(name) == [reader] and name not in network.outputs and not network.is_constant(name):
            self.axes[name] = axis
            maker = network.makers.get(name)
            if maker is None or network.nodes[maker].op_type not in _SAME_ROWS:
                return
            before = network.nodes[maker].input[0]
            shapes = [network.shape(each) for each in (before, name)]
            if not all(shape and isinstance(shape[-1], int) and shape[-1] > 0 for shape in shapes):
                return
            ends = {shape[-1] for shape in shapes if shape}
            if len(ends) > 1 or axis not in (-1, len(shapes[1] or ()) - 1):
                return
            name, reader, axis = before, maker, -1

    def counted(self, name: str, values: Array) -> Array:
        """Return what of a tensor counts for its range: what is too far below as far as it does, a mask's −∞ as a number."""
        if name in self.axes:
            largest = values.max(axis=self.axes[name], keepdims=True)
            raised: Array = np.maximum(values, largest - np.float32(FAR))
            return raised
        if name in self.maxima:
            most: Array = values.max(axis=self.maxima[name])
            return most
        return np.maximum(values, np.finfo(np.float32).min) if name in self.addends else values

    @cached_property
    def addends(self) -> dict[str, list[str]]:
        """Of tensors, and of those that they are moved from, that only sums for a Softmax read: what they are added to."""
        network = self._network
        sums = {
            index for index, node in enumerate(network.nodes) if node.op_type == "Add" and node.output[0] in self.axes
        }
        found: dict[str, list[str]] = {}
        for index in sums:
            first, second = network.nodes[index].input
            for name, other in ((first, second), (second, first)):
                while name not in network.outputs and self._is_read_by(name, sums):
                    found.setdefault(name, []).append(other)
                    maker = network.makers.get(name)
                    if maker is None or not network.moves(network.nodes[maker]):
                        break
                    name = network.nodes[maker].input[0]
        return found

    def _is_read_by(self, name: str, sums: set[int]) -> bool:
        """Return whether nothing but these sums reads a tensor, or what is moved from it."""
        network = self._network
        return all(
            index in sums
            or (
                network.moves(network.nodes[index])
                and all(
                    each not in network.outputs and self._is_read_by(each, sums) for each in network.nodes[index].output
                )
            )
            for index in network.readers.get(name, [])
        )
