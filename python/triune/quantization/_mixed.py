"""Which layers cost an answer most, and how many of them have to be spared until it is good enough.

A layer here is a product with what follows it up to the next ones. Each is tried alone, all others in float: what the outputs
lose then is its part. Then the worst ones are spared, as few as do; of layers that lose alike, those with the least work first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from triune.quantization._agreement import Agreement
from triune.quantization._check import OutputCheck
from triune.quantization._model import PRODUCTS, Refused
from triune.quantization._write import Layout

__all__ = ["Bound", "Trial", "layers_of", "mix", "shown_by"]


_CHANNELS_LESS = 10.0
"""dB that the ratio over channels may be under the bound."""


@dataclass(frozen=True)
class Trial:
    """What a way of quantizing gives."""

    checks: Sequence[OutputCheck]
    agreements: Sequence[Agreement] = ()

    @property
    def spoiled(self) -> bool:
        """Whether an output says nothing."""
        return any(check.fault for check in self.checks)

    @property
    def level(self) -> float:
        """The least signal to noise ratio of the outputs, in dB; none where one is spoiled.

        Over channels it may be less: most of what a detector's classes say is what is not there.
        """
        if self.spoiled:
            return float("-inf")
        levels = [min(check.sqnr, check.channel_sqnr + _CHANNELS_LESS) for check in self.checks]
        # Of integers there is no ratio, but they are wrong or not.
        return min((level for level in levels if not np.isnan(level)), default=float("inf"))

    @property
    def counted(self) -> float:
        """The least share of answers that are float's; 0 where an output is spoiled."""
        return 0.0 if self.spoiled else min((each.share for each in self.agreements), default=1.0)

    @property
    def share(self) -> float:
        """The same, or the share that is to be expected, if that is less."""
        expected = (each.expected for each in self.agreements if not np.isnan(each.expected))
        return min(self.counted, *expected, 1.0)

    @property
    def noise(self) -> float:
        """The noise of all outputs, each against its signal, of channels each against their own."""
        ratios = [level for check in self.checks for level in (check.sqnr, check.channel_sqnr)]
        known = sum(10 ** (-level / 10) for level in ratios if not np.isnan(level))
        return known + sum(1 - check.equal for check in self.checks if np.isnan(check.sqnr) and check.equal < 1)


@dataclass(frozen=True)
class Bound:
    """How good a mixture has to be: a ratio in dB of every output's values, or a share of answers that are float's."""

    least: float
    of_answers: bool

    @classmethod
    def of(cls, given: float | str) -> Bound:
        """Return what a number of dB stands for, or a share spelled as ``98%``.

        Raises ValueError for what is neither.
        """
        if isinstance(given, str) and given.strip().endswith("%"):
            share = float(given.strip()[:-1]) / 100
            if not 0 < share <= 1:
                raise ValueError(given)
            return cls(share, True)
        level = float(given)
        if math.isnan(level):
            raise ValueError(given)
        return cls(level, False)

    def met(self, trial: Trial) -> bool:
        """Return whether a trial is good enough."""
        return self.reached(trial) >= self.least

    def reached(self, trial: Trial) -> float:
        """Return how good a trial is, as `least` counts."""
        if not self.of_answers:
            return trial.level
        # Of all answers no margin is wide enough for certain: the count is what there is.
        return trial.counted if self.least == 1 else trial.share

    def spelled(self, reached: float) -> str:
        """Return a figure as `least` counts."""
        return f"{100 * reached:.4g}%" if self.of_answers else f"{reached:g} dB"

    def __str__(self) -> str:
        """Return it as it is given."""
        return self.spelled(self.least)


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
    bound: Bound,
    say: Callable[[str], None],
    *,
    whole: bool,
    work: Mapping[int, int],
) -> list[int]:
    """Return the operators to spare, those that hurt most for their work first, so that a bound is met.

    `trial` quantizes with these in float, or with the second ones spared besides those that are in float anyway. `whole` says
    whether all may be spared. `work` is the multiply-accumulates of products.

    Raises `Refused` if that is not enough.
    """
    say("mixing: all layers")
    best, best_count = trial(None, ()), 0
    if bound.met(best):
        return []
    layers = layers_of(layout)
    everything = {index for layer in layers for index in layer} | set(floats)
    all_work = max(1, sum(work.get(index, 0) for layer in layers for index in layer))
    # The way to the host and back, besides its work: as much as an average layer's.
    crossing = 1 / len(layers)
    weights = []
    for number, layer in enumerate(layers, 1):
        say(f"mixing: layer {number} of {len(layers)}")
        cost = crossing + sum(work.get(index, 0) for index in layer) / all_work
        weights.append(trial(everything - set(layer), ()).noise / cost)
    worst = sorted(range(len(layers)), key=lambda at: -weights[at])

    def spared(count: int) -> list[int]:
        return [index for at in worst[:count] for index in layers[at]]

    def good(count: int) -> bool:
        nonlocal best, best_count
        say(f"mixing: {count} layers spared")
        found = trial(None, spared(count))
        if bound.reached(found) > bound.reached(best):
            best, best_count = found, count
        return bound.met(found)

    # The fewest that do: twice as many until it is enough, then halving what is between.
    most = len(layers) if whole else len(layers) - 1
    enough, few = min(1, most), 0
    while not good(enough):
        if enough == most:
            raise Refused(_unmet(bound, best, best_count))
        few, enough = enough, min(2 * enough, most)
    while enough - few > 1:
        middle = (few + enough) // 2
        if good(middle):
            enough = middle
        else:
            few = middle
    return spared(enough)


def _unmet(bound: Bound, best: Trial, count: int) -> str:
    """Say that no mixture was good enough, and how good the best was, with so many layers spared."""
    reached = bound.reached(best)
    if reached <= 0:
        none = f"keeps {bound} of the answers" if bound.of_answers else f"reaches {bound} at every output"
        return f"no mixture of widths {none}, and none has what answers: --keep-float and --outputs say what is to be left out"
    cure = "a lower --bound (bound= in Python) can be met"
    if not bound.of_answers:
        return f"no mixture of widths reaches {bound} at every output, the best has {reached:.1f}: {cure}"
    said = " and ".join(map(str, best.agreements))
    return (
        f"no mixture of widths keeps {bound} of the answers; the best, with {count} layer{'s' * (count != 1)} spared, keeps "
        f"{bound.spelled(reached)} ({said}): {cure}"
    )


def shown_by(found: Agreement, bound: Bound, held_out: int) -> str:
    """Say where so many answers cannot show a share; nothing where they can. `held_out` samples were, of three times as many."""
    if found.of * (1 - bound.least) >= 1:
        return ""
    least, most = found.limits
    said = f"{found.output}: {found.of} {found.what} are few to show {bound}"
    one = f"one that differs is {1 / found.of:.1%} of them" if found.of else "they show nothing"
    cure = ""
    if found.of and held_out and bound.least < 1:
        wanted = math.ceil(3 * held_out / (found.of * (1 - bound.least)))
        cure = f"; of {wanted} samples and more enough are held out"
    elif not held_out:
        cure = "; of 20 samples and more some are held out from the ranges"
    return f"{said}, as {one}: of others {least:.1%} to {most:.1%} are the same, with 95 % confidence{cure}"
