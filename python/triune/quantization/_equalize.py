"""Cross-layer equalization: channels between convolutions that use one range alike, so that one scale fits all of them.

Multiplying a channel by s and the weights that read it by 1 / s changes nothing in float, as long as what is between the two
passes a positive factor on (Relu, LeakyRelu, pools, sums, joints). Which channels have to share a factor, because they are added
up, is found channel by channel. As products' weights have a scale per output channel, multiplying costs the ones that make a
channel nothing; those that read it become less even. s = 1 / sqrt(a / w), with a the channel's largest value and w the largest
weight that reads it, lets both sides have a part of the difference (after Nagel et al., "Data-Free Quantization Through Weight
Equalization and Bias Correction", 2019, and Xiao et al., "SmoothQuant", 2023).

A function that is bent (SiLU, HardSwish, Sigmoid) passes no factor on. Between two convolutions it takes f(x / t) · s in its
place, with a row of each, where channels are far enough apart: of bytes that is a table per channel, which accelerators make no
more of than of one table.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Container, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from triune.quantization._channels import Channels, steps_of
from triune.quantization._model import FUNCTION, Array, ByChannel, Floats, Function, Network, Part, attribute
from triune.quantization._scales import Integers

__all__ = ["channels_of", "curves_of", "equalize_layers", "note_factors", "noted_factors"]

_HOMOGENEOUS = {"AveragePool", "GlobalAveragePool", "GlobalMaxPool", "LeakyRelu", "MaxPool", "PRelu", "Relu"}
"""What passes a positive factor per channel on."""

_MOST = 32.0
"""No channel is scaled by more, or by less than its inverse: beyond it, the weights that read it would suffer."""

_FREE = 1024.0
"""The same where each channel has weights of its own, which suffer nothing: what is as small as that says little."""

_TINY = 1e-30

_REACH = 20.0
"""How far from 0 functions are looked at."""

_FROZEN = 0
"""The factor that stays 1."""

_BENT = {"Celu", "Elu", "Gelu", "HardSigmoid", "HardSwish", "Mish", "Selu", "Sigmoid", "Softplus", "Tanh"}
"""Functions of one value, besides those that several operators spell out."""

_EVEN = {"AveragePool", "GlobalAveragePool"}
"""What passes a negative factor on, too."""

_APART = 1.5
"""How far the factors round a function have to be from each other, as a mean ratio, for a table per channel."""

_FLAT = 0.05
"""Where a function is less steep than this much of its steepest, what it takes is no reason for a range."""

_GROUPS = 8
"""Groups of channels with factors near each other that a tensor has when its range is chosen."""

_HEAVY = 10.0
"""So many times as much as a usual channel's a channel's error counts at most."""

_LIKELY = 3
"""So many of the curves of a group's channels stand for all of them."""


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


class Curve:
    """A bent function of one value between two tensors whose channels can be scaled."""

    def __init__(self, index: int, evaluate: Function) -> None:
        self.index = index
        self._places = places = np.linspace(-_REACH, _REACH, 4001)
        self._results = evaluate(places)
        self._steps = np.diff(self._results) / np.diff(places)
        slopes = np.abs(self._steps)
        steep = np.flatnonzero(slopes >= _FLAT * slopes.max(initial=_TINY))
        first, last = (int(steep[0]), int(steep[-1])) if len(steep) else (0, len(slopes) - 1)
        self.low = -np.inf if first == 0 else float(places[first])
        self.high = np.inf if last == len(slopes) - 1 else float(places[last + 1])

    def evaluate(self, values: Floats) -> Floats:
        """Return about what the function makes of values: straight lines between places, and beyond them."""
        inside = np.interp(values, self._places, self._results)
        beyond = np.minimum(values + _REACH, 0) * self._steps[0] + np.maximum(values - _REACH, 0) * self._steps[-1]
        return np.asarray(inside + beyond)

    @property
    def is_bounded(self) -> bool:
        """Whether the results end at either side."""
        return bool(np.isfinite([self.low, self.high]).all())

    def felt(self, values: Floats) -> Floats:
        """Return the mean square of the function's slope over each row of values."""
        places = ((values + _REACH) / (self._places[1] - self._places[0])).astype(np.intp)
        return np.asarray((self._steps[np.clip(places, 0, len(self._steps) - 1)] ** 2).mean(axis=1))


def curves_of(
    network: Network, floats: Container[int], evaluator: Callable[[int], Function | None]
) -> dict[str, Curve]:
    """Return the functions that factors per channel can be put round, by what they read; not those that are in `floats`.

    `evaluator` returns what a node makes of values, None if it is no function of one.
    """
    found = {}
    for index, node in enumerate(network.nodes):
        if index in floats or (node.op_type not in _BENT and node.op_type != FUNCTION):
            continue
        evaluate = evaluator(index) if network.readers.get(node.input[0]) == [index] else None
        if evaluate is not None and (network.rank(node.input[0]) or 0) >= 3:
            found[node.input[0]] = Curve(index, evaluate)
    return found


def channels_of(network: Network, curves: Container[str] = ()) -> dict[str, npt.NDArray[np.int64]]:
    """Return for each tensor whose channels can be scaled the number of each channel's factor; 0 is the factor 1.

    `curves` are tensors that functions read which can have factors round them.
    """
    factors = _Factors()
    numbers: dict[str, npt.NDArray[np.int64]] = {}
    for node in network.nodes:
        if node.op_type == "Conv" and _is_plain(network, node):
            weights = network.weights(node)
            assert weights is not None
            numbers[node.output[0]] = factors.more(weights.shape[0])
        elif node.op_type in _HOMOGENEOUS and node.input[0] in numbers:
            numbers[node.output[0]] = numbers[node.input[0]]
        elif node.input and node.input[0] in curves and node.input[0] in numbers:
            numbers[node.output[0]] = factors.more(len(numbers[node.input[0]]))
        elif node.op_type in ("Add", "Concat") and all(name in numbers for name in node.input):
            parts = [numbers[name] for name in node.input]
            ranks = {network.rank(name) for name in node.input}
            if None in ranks or len(ranks) > 1:
                # Channels of the one lie along another axis of the other.
                continue
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
    if node.op_type not in ("Add", "Concat") and (node.input[:1] != [name] or name in node.input[1:]):
        # Slopes that are computed, say.
        return False
    if node.op_type == "Conv":
        return network.is_constant(node.input[1]) and len(network.readers[node.input[1]]) == 1
    return all(output in numbers for output in node.output if output)


def _is_plain(network: Network, node: Any) -> bool:
    """Return whether a node is a convolution with constants of its own."""
    constants = [name for name in node.input[1:] if name]
    return all(network.is_constant(name) and len(network.readers[name]) == 1 for name in constants)


def equalize_layers(
    network: Network,
    held: Mapping[str, Channels],
    integers: Integers,
    curves: Mapping[str, Curve] | None = None,
    *,
    clips: bool = True,
) -> dict[str, Floats]:
    """Scale channels in the network's own constants, by what each tensor has held, for activations of these integers.

    Puts factors round those of `curves` whose channels are far apart. With `clips`, ranges will leave out what is rare, and what
    a function makes nothing of. Returns the factors of each tensor whose channels were scaled.
    """
    taken = dict(curves or {})
    needs = _Needs(network, held, integers, taken, clips=clips)
    while True:
        numbers = channels_of(network, taken)
        factors = _factors(network, numbers, needs, taken)
        close = [name for name, curve in taken.items() if not _gains(network, curve, name, numbers, factors)]
        if not close:
            break
        for name in close:
            del taken[name]
    scaled = {name: factors[own] for name, own in numbers.items() if (factors[own] != 1).any()}
    for node in network.nodes:
        if node.op_type == "Conv" and node.output[0] in numbers:
            _multiply(network, node, factors[numbers[node.output[0]]])
    for node in _readers(network, numbers):
        grouped = _by_group(network, node)
        by = factors[numbers[node.input[0]]].reshape(grouped.shape[0], 1, -1, *[1] * (grouped.ndim - 3))
        weights = network.weights(node)
        assert weights is not None
        network.put(node.input[1], (grouped / by).reshape(weights.shape).astype(weights.dtype))
    rows = {}
    for name, curve in taken.items():
        result = network.nodes[curve.index].output[0]
        before, after = factors[numbers[name]], factors[numbers[result]]
        network.by_channel[name] = _scaled_curves(curve, before, after, needs.weights(name))
        rows[curve.index] = (1 / before, after)
    if rows:
        network.enclose(rows)
    return scaled


class _Needs:
    """The steps that tensors' channels want."""

    def __init__(
        self,
        network: Network,
        held: Mapping[str, Channels],
        integers: Integers,
        curves: Mapping[str, Curve],
        *,
        clips: bool,
    ) -> None:
        self._network = network
        self._held = {name: each.values for name, each in held.items()}
        self._integers = integers
        self._curves = dict(curves) if clips else {}
        self._clips = clips
        self._known: dict[tuple[str, bytes], Floats] = {}
        for name, curve in self._curves.items():
            if name in self._held:
                np.clip(self._held[name], curve.low, curve.high, out=self._held[name])

    def __contains__(self, name: str) -> bool:
        return name in self._held and self._held[name].size > 0

    def ends(self, name: str) -> tuple[Floats, Floats]:
        """Return how far each channel reaches below 0 and above it, as parts of the farthest."""
        low, high = -self._held[name].min(axis=1), self._held[name].max(axis=1)
        farthest = max(float(low.max()), float(high.max()), _TINY)
        return np.maximum(low, 0) / farthest, np.maximum(high, 0) / farthest

    def weights(self, name: str) -> Floats:
        """Return what a squared error in each channel of a tensor, or of what a function makes of it, counts."""
        curve = self._curves.get(name)
        if curve is not None:
            # What it makes has no weights where it was not looked at.
            result = self._network.nodes[curve.index].output[0]
            return self.weights(result) if result in self else _weights(curve.evaluate(self._held[name]))
        return _weights(self._held[name])

    def steps(self, name: str, signs: Floats) -> Floats:
        """Return each channel's step, as a part of the largest, if the channels are multiplied with signs."""
        key = name, signs.tobytes()
        if key not in self._known:
            values, curve = self._held[name], self._curves.get(name)
            felt = np.ones(len(values)) if curve is None else curve.felt(values)
            weights = self.weights(name)
            found = steps_of(values * signs[:, None], self._integers, weights, felt, clips=self._clips)
            self._known[key] = found / max(float(found.max(initial=0)), _TINY)
        return self._known[key]


def _powers(values: Floats) -> Floats:
    """Return how much each row varies, as a square; how large it is, where it does not.

    Of the mean distance from the median: a channel that is near one value nearly everywhere, and far from it at edges, is to be
    as exact there as others are.
    """
    found: Floats = np.abs(values - np.median(values, axis=1, keepdims=True)).mean(axis=1) ** 2
    found = np.where(found > 0, found, (values**2).mean(axis=1))
    return np.asarray(np.maximum(found, max(1e-6 * float(found.max(initial=0)), _TINY)))


def _weights(values: Floats) -> Floats:
    """Return what a squared error in each row counts: beside how much the row varies; nothing in a row of zeros."""
    return np.where(values.any(axis=1), 1 / _powers(values), 0.0)


def _factors(network: Network, numbers: Mapping[str, Array], needs: _Needs, curves: Mapping[str, Curve]) -> Floats:
    """Return each factor by its number."""
    count = 1 + max((int(own.max(initial=0)) for own in numbers.values()), default=0)
    signs = _signs(network, numbers, needs, curves, count)
    largest, reading = np.zeros(count), np.zeros(count)
    for name, own in numbers.items():
        if name in needs:
            # Each tensor against its own range: that is what its scale comes from.
            np.maximum.at(largest, own, needs.steps(name, signs[own]))
    for node in _readers(network, numbers):
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
    factors[uneven] = np.clip(np.sqrt(reading[uneven] / largest[uneven]), 1 / _MOST, _MOST)
    free = (largest > 0) & (reading == 0)
    factors[free] = np.minimum(1 / largest[free], _FREE)
    factors[_FROZEN] = 1
    return factors * signs


def _signs(
    network: Network, numbers: Mapping[str, Array], needs: _Needs, curves: Mapping[str, Curve], count: int
) -> Floats:
    """Return −1 for channels that reach farther below 0 than above it, so that all have their longer side above.

    One zero point serves longer sides on one side better, where functions end them at different places. Elsewhere channels reach
    about as far to both sides. Only where nothing but sums and products see them besides.
    """
    below, above, fixed = np.zeros(count), np.zeros(count), np.ones(count, bool)
    for name, curve in curves.items():
        for around in {name, network.nodes[curve.index].output[0]} & {*numbers}:
            fixed[numbers[around]] = False
    fixed[_FROZEN] = True
    for name, own in numbers.items():
        nodes = [network.nodes[reader] for reader in network.readers.get(name, [])]
        nodes += [network.nodes[network.makers[name]]] if name in network.makers else []
        if any(node.op_type in _HOMOGENEOUS - _EVEN for node in nodes):
            fixed[own] = True
        if name in needs:
            low, high = needs.ends(name)
            np.maximum.at(below, own, low)
            np.maximum.at(above, own, high)
    return np.where((below > above) & ~fixed, -1.0, 1.0)


def _readers(network: Network, numbers: Container[str]) -> list[Any]:
    """Return the convolutions that read what can be scaled, but for those with computed weights, which keep it as it is."""
    return [
        node
        for node in network.nodes
        if node.op_type == "Conv" and node.input[0] in numbers and network.is_constant(node.input[1])
    ]


def _gains(network: Network, curve: Curve, name: str, numbers: Mapping[str, Array], factors: Floats) -> bool:
    """Return whether factors round a function are worth a table per channel.

    What keeps one range for its results, because of who reads them, loses as much there, unless they are bounded.
    """
    if name not in numbers:
        return False
    both = [numbers[name], numbers[network.nodes[curve.index].output[0]]]
    if not curve.is_bounded and (both[1] == _FROZEN).all():
        return False
    return max(_apart(factors[own]) for own in both) >= _APART


def _apart(factors: Floats) -> float:
    """Return how far factors are from their smallest, as a geometric mean."""
    logs = np.log(np.abs(factors))
    return float(np.exp((logs - logs.min()).mean()))


def _scaled_curves(curve: Curve, before: Floats, after: Floats, weights: Floats) -> ByChannel:
    """Return what a function makes of a scaled tensor's values, by groups of channels whose factors are near each other."""
    signed = [np.flatnonzero(before < 0), np.flatnonzero(before > 0)]
    ordered = [side[np.argsort(before[side])] for side in signed if len(side)]
    groups = [part for side in ordered for part in np.array_split(side, min(_GROUPS // len(ordered), len(side)))]

    def of(channels: npt.NDArray[np.intp]) -> Function:
        likely = channels[np.linspace(0, len(channels) - 1, min(_LIKELY, len(channels))).round().astype(int)]

        def evaluate(values: Floats) -> Floats:
            results = [curve.evaluate(values / before[at]) * after[at] for at in likely]
            return np.asarray(np.stack(results) / len(likely) ** 0.5)

        return evaluate

    # Scaled, channels that say something weigh about alike; what is next to nothing is not to outweigh them.
    felt = weights / after**2
    felt = np.minimum(felt, _HEAVY * float(np.median(felt[felt > 0]))) if felt.any() else felt
    return ByChannel(tuple(Part(channels, of(channels), float(felt[channels].sum())) for channels in groups))


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
