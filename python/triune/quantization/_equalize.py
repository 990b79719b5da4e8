"""Cross-layer equalization: channels between convolutions that use one range alike, so that one scale fits all of them.

Multiplying a channel by s and the weights that read it by 1 / s changes nothing in float, as long as what is between the two
passes a positive factor on (Relu, LeakyRelu, pools, sums, joints). Which channels have to share a factor, because they are added
up, is found channel by channel. As products' weights have a scale per output channel, multiplying costs the ones that make a
channel nothing; those that read it become less even. s = 1 / sqrt(a / w), with a the channel's largest value and w the largest
weight that reads it, lets both sides have a part of the difference (after Nagel et al., "Data-Free Quantization Through Weight
Equalization and Bias Correction", 2019, and Xiao et al., "SmoothQuant", 2023).
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from triune.quantization._model import Array, Network, attribute

__all__ = ["channels_of", "equalize_layers", "note_factors", "noted_factors", "peaks_of"]

Floats = npt.NDArray[np.float64]

_HOMOGENEOUS = {"AveragePool", "GlobalAveragePool", "GlobalMaxPool", "LeakyRelu", "MaxPool", "PRelu", "Relu"}
"""What passes a positive factor per channel on."""

_MOST = 32.0
"""No channel is scaled by more, or by less than its inverse: beyond it, the weights that read it would suffer."""

_TINY = 1e-30

_FROZEN = 0
"""The factor that stays 1."""


class _Factors:
    """Factors by number, some of which have turned out to be the same."""

    def __init__(self) -> None:
        self._same = np.zeros(1, np.int64)

    def more(self, count: int) -> npt.NDArray[np.int64]:
        """Return numbers of factors of their own."""
        first = len(self._same)
        fresh = np.arange(first, first + count)
        self._same = np.concatenate([self._same, fresh])
        return fresh

    def resolve(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the numbers that stand for these."""
        while True:
            above = self._same[numbers]
            if np.array_equal(above, numbers):
                return numbers
            numbers = above

    def join(self, some: npt.NDArray[np.int64], others: npt.NDArray[np.int64]) -> None:
        """Make factors the same, one by one. What is joined with one that is frozen is so, too."""
        for a, b in zip(self.resolve(some), self.resolve(others), strict=True):
            a, b = self.resolve(np.array([a, b]))
            self._same[max(a, b)] = min(a, b)

    def __len__(self) -> int:
        return len(self._same)


def channels_of(network: Network) -> dict[str, npt.NDArray[np.int64]]:
    """Return for each tensor whose channels can be scaled the number of each channel's factor; 0 is the factor 1."""
    factors = _Factors()
    numbers: dict[str, npt.NDArray[np.int64]] = {}
    for node in network.nodes:
        if node.op_type == "Conv" and _is_plain(network, node):
            weights = network.weights(node)
            assert weights is not None
            numbers[node.output[0]] = factors.more(weights.shape[0])
        elif node.op_type in _HOMOGENEOUS and node.input[0] in numbers:
            numbers[node.output[0]] = numbers[node.input[0]]
        elif node.op_type in ("Add", "Concat") and all(name in numbers for name in node.input):
            parts = [numbers[name] for name in node.input]
            if node.op_type == "Concat":
                if attribute(node, "axis", 1) == 1:
                    numbers[node.output[0]] = np.concatenate(parts)
            elif len(parts[0]) == len(parts[1]):
                factors.join(*parts)
                numbers[node.output[0]] = parts[0]
    for name, own in numbers.items():
        kept = name in network.outputs or any(
            not _passes_on(network, network.nodes[reader], name, numbers) for reader in network.readers.get(name, [])
        )
        if kept:
            factors.join(own, np.full(len(own), _FROZEN))
    return {name: factors.resolve(own) for name, own in numbers.items()}


def _passes_on(network: Network, node: Any, name: str, numbers: Mapping[str, Array]) -> bool:
    """Return whether a reader either takes a factor into its weights, or gives it to what follows."""
    if node.op_type == "Conv":
        own = network.is_constant(node.input[1]) and len(network.readers[node.input[1]]) == 1
        return own and node.input[0] == name and node.input[1] != name
    return all(output in numbers for output in node.output if output)


def _is_plain(network: Network, node: Any) -> bool:
    """Return whether a node is a convolution with constants of its own."""
    constants = [name for name in node.input[1:] if name]
    return all(network.is_constant(name) and len(network.readers[name]) == 1 for name in constants)


def peaks_of(values: Array) -> Floats:
    """Return the largest magnitude in each channel."""
    return np.asarray(np.abs(values).max(axis=tuple(at for at in range(values.ndim) if at != 1)), np.float64)


def equalize_layers(network: Network, peaks: Mapping[str, Floats]) -> dict[str, Floats]:
    """Scale channels in the network's own constants, by the largest value of each in each tensor.

    Returns the factors of each tensor whose channels were scaled.
    """
    numbers = channels_of(network)
    count = 1 + max((int(own.max(initial=0)) for own in numbers.values()), default=0)
    largest, reading = np.zeros(count), np.zeros(count)
    for name, own in numbers.items():
        if name in peaks:
            # Each tensor against its own range: that is what its scale comes from.
            np.maximum.at(largest, own, peaks[name] / max(float(peaks[name].max(initial=0)), _TINY))
    readers = [node for node in network.nodes if node.op_type == "Conv" and node.input[0] in numbers]
    for node in readers:
        grouped = _by_group(network, node)
        if grouped.shape[2] == 1:
            # A row of one channel takes its factor into its own scale.
            continue
        # A row's scale follows its largest weight.
        rows = np.abs(grouped).reshape(*grouped.shape[:3], -1).max(axis=3)
        share = rows / np.maximum(rows.max(axis=2, keepdims=True), _TINY)
        np.maximum.at(reading, numbers[node.input[0]], share.max(axis=1).reshape(-1))
    factors = np.ones(count)
    uneven = (largest > 0) & (reading > 0)
    factors[uneven] = np.sqrt(reading[uneven] / largest[uneven])
    free = (largest > 0) & (reading == 0)
    factors[free] = 1 / largest[free]
    factors = np.clip(factors, 1 / _MOST, _MOST)
    factors[_FROZEN] = 1
    for node in network.nodes:
        if node.op_type == "Conv" and node.output[0] in numbers:
            _multiply(network, node, factors[numbers[node.output[0]]])
    for node in readers:
        grouped = _by_group(network, node)
        by = factors[numbers[node.input[0]]].reshape(grouped.shape[0], 1, -1, *[1] * (grouped.ndim - 3))
        weights = network.weights(node)
        assert weights is not None
        network.put(node.input[1], (grouped / by).reshape(weights.shape).astype(weights.dtype))
    return {name: factors[own] for name, own in numbers.items() if (factors[own] != 1).any()}


_KEY = "triune.channel_factors"
"""Where a model says which channels were scaled, for those who compare its tensors with the float model's."""


def note_factors(model: Any, factors: Mapping[str, Floats]) -> None:
    """Write down in a model what its tensors' channels were multiplied with."""
    if factors:
        entry = model.metadata_props.add()
        entry.key = _KEY
        texts = {name: b64encode(own.astype("<f4").tobytes()).decode() for name, own in factors.items()}
        entry.value = json.dumps(texts)


def noted_factors(model: Any) -> dict[str, npt.NDArray[np.float32]]:
    """Return what `note_factors` wrote down; nothing, if that is not what it says."""
    for entry in model.metadata_props:
        if entry.key == _KEY:
            try:
                return {name: np.frombuffer(b64decode(text), "<f4") for name, text in json.loads(entry.value).items()}
            except (ValueError, TypeError, AttributeError):
                return {}
    return {}


def _by_group(network: Network, node: Any) -> Array:
    """Return a convolution's weights as group, output channel, input channel, taps."""
    weights = network.weights(node)
    assert weights is not None
    groups = attribute(node, "group", 1)
    return weights.reshape(groups, weights.shape[0] // groups, *weights.shape[1:])


def _multiply(network: Network, node: Any, factors: Floats) -> None:
    weights = network.weights(node)
    assert weights is not None
    shaped = factors.reshape(-1, *[1] * (weights.ndim - 1))
    network.put(node.input[1], (weights * shaped).astype(weights.dtype))
    if len(node.input) > 2 and node.input[2]:
        bias = network.constant(node.input[2])
        assert bias is not None
        network.put(node.input[2], (bias * factors).astype(bias.dtype))
