"""From what a tensor holds to scale and zero point: ranges by several measures, weights per channel by search.

A range always holds 0, which has to be exact: it pads convolutions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from triune.quantization._model import Array
from triune.quantization._statistics import Distribution

__all__ = ["METHODS", "Integers", "Parameters", "find_parameters", "find_weight_scales", "parameters_of"]

Floats = npt.NDArray[np.float64]

METHODS = ("mse", "minmax", "percentile", "entropy")
"""How ranges can be found."""

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
    return Parameters(float(np.float32(scale)), int(np.clip(zero_point, integers.low, integers.high)), integers)


def find_parameters(
    seen: Distribution, integers: Integers, method: str, function: Callable[[Floats], Floats] | None = None
) -> Parameters:
    """Return the parameters for what was seen, by one of `METHODS`.

    If only `function` reads the tensor, it is the error of its results that counts: far below 0 nothing of a SiLU changes.
    """
    if not np.isfinite(seen.low):
        return parameters_of(0, 0, integers)
    low, high = min(seen.low, 0.0), max(seen.high, 0.0)
    if method == "percentile":
        low, high = _percentile(seen, low, high)
    elif method == "mse" and integers.steps < 1 << 12:
        middles, _ = seen.histogram()
        wanted = middles if function is None else function(middles)
        low, high = _search(
            seen, low, high, partial(_squared_error, integers=integers, function=function, wanted=wanted)
        )
    elif method == "entropy":
        low, high = _search(seen, low, high, partial(_divergence, levels=min(integers.steps, 255) + 1))
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


def _search(
    seen: Distribution, low: float, high: float, cost: Callable[[Floats, Floats, float, float], float]
) -> tuple[float, float]:
    """Return the part of the range that costs least, one end after the other until neither moves."""
    middles, shares = seen.histogram()
    if not len(middles):
        return low, high
    factors = _FACTORS
    best = [1.0, 1.0]
    for _ in range(3):
        before = list(best)
        for end in (0, 1):
            tried = []
            for factor in factors:
                case = [*best]
                case[end] = factor
                tried.append(cost(middles, shares, low * case[0], high * case[1]))
            best[end] = float(factors[int(np.argmin(tried))])
        if best == before:
            break
    return low * best[0], high * best[1]


def _squared_error(
    middles: Floats,
    shares: Floats,
    low: float,
    high: float,
    integers: Integers,
    function: Callable[[Floats], Floats] | None,
    wanted: Floats,
) -> float:
    """Return the mean square of what rounding and clipping change of what is `wanted`, the function's results or the values.

    What a function makes may be several results for each value, which count alike.
    """
    found = parameters_of(low, high, integers)
    steps = np.clip(np.rint(middles / found.scale) + found.zero_point, integers.low, integers.high)
    if function is None:
        results = (steps - found.zero_point) * found.scale
    else:
        # There are few steps beside the values.
        levels = function((np.arange(integers.low, integers.high + 1.0) - found.zero_point) * found.scale)
        results = levels[..., steps.astype(np.intp) - integers.low]
    return float(((wanted - results) ** 2 * shares).sum())


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
