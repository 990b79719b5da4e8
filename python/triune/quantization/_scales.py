"""From what a tensor holds to scale and zero point: ranges by several measures, weights per channel by search.

A range always holds 0, which has to be exact: it pads convolutions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from triune.quantization._model import Array, ByChannel, Floats, Function
from triune.quantization._statistics import Distribution

__all__ = ["METHODS", "Integers", "Parameters", "find_parameters", "find_weight_scales", "parameters_of"]

METHODS = ("mse", "minmax", "percentile", "entropy")
"""How ranges can be found."""

_MANY = 1 << 12
"""Steps above which what a range leaves out costs more than what it rounds."""

_ROOM = 2.0
"""How much wider than what was seen ranges of so many steps are: a bit that they can spare, where samples do not show all."""

_PERCENTILE = 99.99
_TINY = float(np.finfo(np.float32).tiny) * 1e4
"""No scale is smaller, so that products of two are normal numbers or nearly."""


@dataclass(frozen=True)
class Integers:
    """A type of activations."""

    low: int
    high: int
    symmetric: bool
    dtype: type[np.generic]

    @property
    def steps(self) -> int:
        """How many steps there are between the smallest and the largest integer."""
        return self.high - self.low


@dataclass(frozen=True)
class Parameters:
    """What the integers of a tensor stand for: (q − zero point) × scale."""

    scale: float
    zero_point: int
    integers: Integers

    @property
    def low(self) -> float:
        """The smallest real."""
        return (self.integers.low - self.zero_point) * self.scale

    @property
    def high(self) -> float:
        """The largest real."""
        return (self.integers.high - self.zero_point) * self.scale

    def round(self, values: Array) -> Array:
        """Return the reals that the values' integers stand for."""
        steps = np.rint(values / np.float32(self.scale)) + np.float32(self.zero_point)
        kept = np.clip(steps, self.integers.low, self.integers.high)
        rounded: Array = (kept - np.float32(self.zero_point)) * np.float32(self.scale)
        return rounded


def parameters_of(low: float, high: float, integers: Integers) -> Parameters:
    """Return the parameters whose reals reach from `low` to `high`, and over 0."""
    low, high = min(low, 0.0), max(high, 0.0)
    if integers.symmetric:
        scale = max(-low, high) / integers.high
        zero_point = 0
    else:
        scale = (high - low) / integers.steps
        zero_point = integers.low if scale == 0 else round(integers.low - low / scale)
    if scale < _TINY:
        # Nothing but zeros: any scale does.
        return Parameters(1.0, 0, integers)
    return Parameters(float(np.float32(scale)), min(max(int(zero_point), integers.low), integers.high), integers)


def find_parameters(
    seen: Distribution, integers: Integers, method: str, function: Function | ByChannel | None = None
) -> Parameters:
    """Return the parameters for what was seen, by one of `METHODS`.

    If only `function` reads the tensor, it is the error of its results that counts: far below 0 nothing of a SiLU changes.
    """
    if not np.isfinite(seen.low):
        return parameters_of(0, 0, integers)
    low, high = min(seen.low, 0.0), max(seen.high, 0.0)
    if method == "percentile":
        low, high = _percentile(seen, low, high)
    elif method == "mse" and integers.steps <= _MANY:
        low, high = _search(seen, low, high, _errors_of(seen, integers, function))
    elif method == "entropy":
        low, high = _search(seen, low, high, partial(_divergences, seen, levels=min(integers.steps, 255) + 1))
    if integers.steps > _MANY:
        low, high = low * _ROOM, high * _ROOM
    return parameters_of(low, high, integers)


def _percentile(seen: Distribution, low: float, high: float) -> tuple[float, float]:
    middles, shares = seen.histogram()
    if not len(middles):
        return low, high
    below = np.cumsum(shares)
    tail = 1 - _PERCENTILE / 100
    first = middles[np.searchsorted(below, tail)]
    last = middles[min(int(np.searchsorted(below, 1 - tail)), len(middles) - 1)]
    return max(low, min(float(first), 0.0)), min(high, max(float(last), 0.0))


_FACTORS = np.concatenate([[1.0], np.linspace(1.012, 0.988, 13), np.geomspace(0.98, 0.01, 60)])
"""Parts of a range that are tried. Those close to all of it, and beyond, are for what lies on a lattice itself, as pixels do:
steps that fall between its points would round each by half a step."""

_TOGETHER = 16
"""Ranges whose errors are computed at once: more fill a core's cache, fewer take as long for what is between the arrays."""


def _search(
    seen: Distribution, low: float, high: float, costs: Callable[[Sequence[tuple[float, float]]], Sequence[float]]
) -> tuple[float, float]:
    """Return the part of the range that costs least, one end after the other until neither moves."""
    if not seen.counts.any():
        return low, high
    best = [1.0, 1.0]
    for _ in range(3):
        before = list(best)
        for end in (0, 1):
            cases = [(factor, best[1]) if end == 0 else (best[0], factor) for factor in _FACTORS.tolist()]
            tried = costs([(low * below, high * above) for below, above in cases])
            best[end] = cases[int(np.argmin(tried))][end]
        if best == before:
            break
    return low * best[0], high * best[1]


def _errors_of(
    seen: Distribution, integers: Integers, function: Function | ByChannel | None
) -> Callable[[Sequence[tuple[float, float]]], Sequence[float]]:
    """Return what finds the error of ranges."""
    if not isinstance(function, ByChannel):
        return _SquaredErrors(seen, integers, function)
    every = [
        _SquaredErrors(held, integers, part.function) for held, part in zip(seen.parts, function.parts, strict=True)
    ]
    weights = np.array([part.weight for part in function.parts])

    def errors(ranges: Sequence[tuple[float, float]]) -> list[float]:
        found: list[float] = (weights @ np.array([each(ranges) for each in every])).tolist()
        return found

    return errors


class _SquaredErrors:
    """The mean square of what rounding and clipping to a range change of a function's results, or of the values.

    What a function makes may be several results for each value, which count alike. Many ranges have the same parameters: one end
    may be 0, and the last round of a search repeats the one before.
    """

    def __init__(self, seen: Distribution, integers: Integers, function: Function | None) -> None:
        self._middles, self._shares = seen.histogram()
        self._integers, self._function = integers, function
        self._wanted = self._middles if function is None else function(self._middles)
        self._known: dict[tuple[float, int], float] = {}

    def __call__(self, ranges: Sequence[tuple[float, float]]) -> list[float]:
        """Return the error of each range."""
        found = [parameters_of(low, high, self._integers) for low, high in ranges]
        keys = [(each.scale, each.zero_point) for each in found]
        new = [key for key in dict.fromkeys(keys) if key not in self._known]
        for first in range(0, len(new), _TOGETHER):
            some = new[first : first + _TOGETHER]
            self._known |= zip(some, self._errors(some).tolist(), strict=True)
        return [self._known[key] for key in keys]

    def _errors(self, cases: Sequence[tuple[float, int]]) -> Floats:
        """Return the errors of some scales and zero points."""
        scales, zeros = (np.array(each, np.float64)[:, None] for each in zip(*cases, strict=True))
        low, high = self._integers.low, self._integers.high
        steps = self._middles / scales
        np.rint(steps, out=steps)
        steps += zeros
        np.clip(steps, low, high, out=steps)
        if self._function is None:
            results = (steps - zeros) * scales
        else:
            # There are few steps beside the values.
            levels = self._function((np.arange(low, high + 1.0) - zeros) * scales)
            places = steps.astype(np.intp) + (np.arange(len(cases))[:, None] * levels.shape[-1] - low)
            results = np.take(levels.reshape(*levels.shape[:-2], -1), places, axis=-1)
        errors = np.subtract(self._wanted[..., None, :], results, out=results)
        errors *= errors
        errors *= self._shares
        return np.asarray(np.moveaxis(errors, -2, 0).reshape(len(cases), -1).sum(1))


def _divergences(seen: Distribution, ranges: Sequence[tuple[float, float]], levels: int) -> list[float]:
    """Return the divergence of each range."""
    middles, shares = seen.histogram()
    return [_divergence(middles, shares, low, high, levels) for low, high in ranges]


def _divergence(middles: Floats, shares: Floats, low: float, high: float, levels: int) -> float:
    """Return how far the distribution over `levels` equal steps is from the one that was seen, in nats."""
    if high <= low:
        return np.inf
    # Zeros are exact whatever the range, and in networks with Relu they would outweigh all that is not.
    counted = np.abs(middles) > np.abs(middles).max() * 2.0**-12
    middles, shares = middles[counted], shares[counted]
    inside = (middles >= low) & (middles <= high)
    if not inside.any():
        return np.inf
    width = (high - low) / levels
    places = np.clip(((middles[inside] - low) / width).astype(np.int64), 0, levels - 1)
    reference = shares[inside].copy()
    reference[0] += shares[middles < low].sum()
    reference[-1] += shares[middles > high].sum()
    sums = np.bincount(places, shares[inside], levels)
    members = np.bincount(places, minlength=levels)
    spread = sums[places] / members[places]
    spread = spread / spread.sum()
    return float((reference * np.log(reference / spread)).sum())


def find_weight_scales(weights: Floats, power: Floats | None, bits: int, *, search: bool) -> npt.NDArray[np.float32]:
    """Return a scale for each row of `weights`, symmetric, from the row's largest weight.

    With `search`, the one below that with the least error, which is weighted by `power`, the mean square of what each weight
    is multiplied with.
    """
    most = 2 ** (bits - 1) - 1
    peaks = np.abs(weights).max(axis=1, initial=0.0)
    best = np.where(peaks > _TINY * most, peaks / most, 1.0)
    if search and bits == 8:
        importance = np.ones(weights.shape) if power is None else np.broadcast_to(power, weights.shape)
        full = best
        least = np.full(len(weights), np.inf)
        for factor in np.linspace(1.0, 0.7, 31):
            scales = full * factor
            rounded = np.clip(np.rint(weights / scales[:, None]), -most, most) * scales[:, None]
            errors = (importance * (weights - rounded) ** 2).sum(axis=1)
            # Among equals the one that clips nothing.
            better = errors < least * (1 - 1e-9)
            best, least = np.where(better, scales, best), np.where(better, errors, least)
    return best.astype(np.float32)
