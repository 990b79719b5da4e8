"""Which layers cost an answer most, and how many of them have to be spared until it is good enough.

A layer here is a product with what follows it up to the next ones. Each is tried alone, all others in float: what the outputs
lose then is its part. Then the worst ones are spared, as few as do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from triune.quantization._check import OutputCheck
from triune.quantization._model import PRODUCTS, Refused
from triune.quantization._write import Layout

__all__ = ["Trial", "layers_of", "mix"]


_CHANNELS_LESS = 10.0
"""dB that the ratio over channels may be under the bound."""


@dataclass(frozen=True)
class Trial:
    """What a way of quantizing gives."""

    checks: list[OutputCheck]

    @property
    def level(self) -> float:
        """The least signal to noise ratio of the outputs, in dB; none where one is spoiled.

        Over channels it may be less: most of what a detector's classes say is what is not there.
        """
        if any(check.fault for check in self.checks):
            return float("-inf")
        levels = [min(check.sqnr, check.channel_sqnr + _CHANNELS_LESS) for check in self.checks]
        # Of integers there is no ratio, but they are wrong or not.
        return min((level for level in levels if not np.isnan(level)), default=float("inf"))

    @property
    def noise(self) -> float:
        """The noise of all outputs, each against its signal, of channels each against their own."""
        ratios = [level for check in self.checks for level in (check.sqnr, check.channel_sqnr)]
        known = sum(10 ** (-level / 10) for level in ratios if not np.isnan(level))
        return known + sum(1 - check.equal for check in self.checks if np.isnan(check.sqnr) and check.equal < 1)


def layers_of(layout: Layout) -> list[list[int]]:
    """Return the integer operators in layers, in the order of the graph."""
    layers: dict[int, list[int]] = {}
    layer_of: dict[int, int] = {}
    network = layout.network
    for index, node in enumerate(network.nodes):
        if layout.width(index) is None:
            continue
        makers = [network.makers.get(node.input[at]) for at in network.data(node)]
        before = [layer_of[maker] for maker in makers if maker is not None and maker in layer_of]
        layer_of[index] = index if node.op_type in PRODUCTS or not before else max(before)
        layers.setdefault(layer_of[index], []).append(index)
    return list(layers.values())


def mix(
    layout: Layout,
    floats: Iterable[int],
    trial: Callable[[Iterable[int] | None, Iterable[int]], Trial],
    bound: float,
    say: Callable[[str], None],
    *,
    whole: bool,
) -> list[int]:
    """Return the operators to spare, the worst layers first, so that each output has `bound` dB.

    `trial` quantizes with these in float, or with the second ones spared besides those that are in float anyway. `whole` says
    whether all may be spared.

    Raises `Refused` if that is not enough.
    """
    say("mixing: all layers")
    if trial(None, ()).level >= bound:
        return []
    layers = layers_of(layout)
    everything = {index for layer in layers for index in layer} | set(floats)
    noises = []
    for number, layer in enumerate(layers, 1):
        say(f"mixing: layer {number} of {len(layers)}")
        noises.append(trial(everything - set(layer), ()).noise)
    worst = sorted(range(len(layers)), key=lambda at: -noises[at])

    def spared(count: int) -> list[int]:
        return [index for at in worst[:count] for index in layers[at]]

    # The fewest that do: twice as many until it is enough, then halving what is between.
    most = len(layers) if whole else len(layers) - 1
    enough, few = min(1, most), 0
    while (reached := trial(None, spared(enough)).level) < bound:
        say(f"mixing: {enough} layers spared")
        if enough == most:
            raise Refused(
                f"no mixture of widths reaches {bound:g} dB at every output, the best has {reached:.1f}: a lower --bound "
                "(bound= in Python) can be met"
                if reached > 0
                else f"no mixture of widths reaches {bound:g} dB at every output, and none has what answers: --keep-float and "
                "--outputs say what is to be left out"
            )
        few, enough = enough, min(2 * enough, most)
    while enough - few > 1:
        middle = (few + enough) // 2
        say(f"mixing: {middle} layers spared")
        if trial(None, spared(middle)).level >= bound:
            enough = middle
        else:
            few = middle
    return spared(enough)
