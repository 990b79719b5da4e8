"""What each channel of a tensor holds, and how coarse its steps may be beside those of the others.

Channels that can be scaled on their own still have one scale and one zero point between them. So what is looked for is one zero
point, and for each channel the step with which it loses least of its own power to rounding and clipping.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from triune.quantization._model import Array, Floats
from triune.quantization._scales import Integers

__all__ = ["Channels", "steps_of"]

_SEEN = 128
"""Values of a channel that are kept of one sample, besides its least and its largest."""

_ZEROS = 17
"""Zero points that are tried."""

_KEPT = np.geomspace(0.1, 1.0, 15)
"""Parts of a channel's range that are tried: what is beyond is clipped."""

_TINY = 1e-30


class Channels:
    """Some values of each channel of a tensor."""

    def __init__(self) -> None:
        self._values: list[Array] = []
        self._random = np.random.default_rng(0)

    def add(self, values: Array) -> None:
        """Take the values of another sample, channels along axis 1."""
        rows = np.moveaxis(values, 1, 0).reshape(values.shape[1], -1)
        if rows.shape[1] == 0:
            return
        step = -(-rows.shape[1] // _SEEN)
        some = rows[:, int(self._random.integers(step)) :: step]
        ends = [np.asarray(end(axis=1, keepdims=True)) for end in (rows.min, rows.max)]
        self._values.append(np.concatenate([some, *ends], axis=1))

    @property
    def values(self) -> Floats:
        """The values that are kept, a row for each channel."""
        return np.concatenate(self._values, axis=1).astype(np.float64) if self._values else np.zeros((0, 0))


def steps_of(values: Floats, integers: Integers, weights: Floats, felt: Floats, *, clips: bool) -> Floats:
    """Return for each row of `values` the step that it wants, with the zero point that is best for all of them.

    `weights` are what a row's squared errors count. With `clips`, steps may leave out what is rare. `felt` is the part of
    rounding, unlike clipping, that reaches the result. A row of zeros wants no step: 0.
    """
    alive = values.any(axis=1)
    if not alive.any():
        return np.zeros(len(values))
    held, felt, weights = values[alive], felt[alive], weights[alive]
    sides = [_Side(-held, clips=clips), _Side(held, clips=clips)]
    best, least = np.zeros(0), np.inf
    for zero in [0.0] if integers.symmetric else np.linspace(integers.low, integers.high, _ZEROS).tolist():
        room = [zero - integers.low, integers.high - zero]
        steps, lost = _finest(sides, room, felt)
        cost = float(np.where(weights > 0, lost, 0) @ weights)
        if cost < least:
            best, least = steps, cost
    found = np.zeros(len(values))
    found[alive] = best
    return found


class _Side:
    """What clipping one side of each channel costs: the mean square of what is beyond parts of its range."""

    def __init__(self, values: Floats, *, clips: bool) -> None:
        self.ends = np.maximum(values.max(axis=1), 0.0)
        self.parts = _KEPT if clips else _KEPT[-1:]
        self._places = np.concatenate([[0.0], self.parts])
        beyond = [np.maximum(values - part * self.ends[:, None], 0.0) for part in self._places]
        self._lost = np.stack([np.einsum("ij,ij->i", each, each) for each in beyond]) / values.shape[1]

    def lost(self, bounds: Floats) -> Floats:
        """Return what bounds cost, one for each channel."""
        parts = bounds / np.maximum(self.ends, _TINY)
        if len(self.parts) == 1:
            return np.where(parts < 1 - 1e-9, np.inf, 0.0)
        below = np.clip(np.searchsorted(self._places, parts, side="right") - 1, 0, len(self._places) - 2)
        width = self._places[below + 1] - self._places[below]
        rest, along = np.clip((parts - self._places[below]) / width, 0, 1), np.arange(len(bounds))
        return np.asarray(self._lost[below, along] * (1 - rest) + self._lost[below + 1, along] * rest)


def _finest(sides: Sequence[_Side], room: Sequence[float], felt: Floats) -> tuple[Floats, Floats]:
    """Return the step of each channel that costs least, and what it costs, with so many steps below 0 and above it."""
    best, least = np.zeros(len(felt)), np.full(len(felt), np.inf)
    for side, steps in zip(sides, room, strict=True):
        if steps == 0:
            continue
        for part in side.parts:
            tried = part * side.ends / steps
            lost = felt * tried**2 / 12
            for other, count in zip(sides, room, strict=True):
                lost = lost + other.lost(tried * count)
            better = (lost < least) & (tried > 0)
            best, least = np.where(better, tried, best), np.where(better, lost, least)
    return best, least
