"""Does the quantized network still answer? Output by output, and channel by channel, on some of the samples.

What is looked for is what nobody would accept: an output that says the same whatever comes in, scores that are all 0 beside
boxes in pixels, noise as loud as the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from triune._values import as_array, keys_of
from triune.quantization._model import Array

__all__ = ["OutputCheck", "check_outputs", "sqnr"]

_LEAST_SQNR = 10.0
"""dB: below it, a third of what an output says is noise."""

_LEAST_VARIED = 3.0
"""dB: below it, what an output says beside what it says always is noise for the greater part, near enough."""

_NOTHING = 1e-6
"""Variation against the whole that is rounding."""

_LEAST_SEEN = 8
"""Values of a channel from which on they show how it varies."""

_LEAST_AGREEMENT = 0.9
"""Of an output of integers: the share that is to be the same."""

_NOTICED = 0.02
"""A channel that varies by this much, or by this part of what the liveliest does, says something."""

_ALIVE = 0.05
"""A channel that varies by this part of its own largest value is alive, however small that is."""

_MOST_CHANNELS = 4096
"""Axes with more entries are places, not channels."""


@dataclass(frozen=True)
class OutputCheck:
    """How one output of the quantized model compares with the float model's."""

    name: str
    sqnr: float
    """Signal to quantization noise in dB, over all samples; infinite if nothing differs, NaN for integers and strings."""
    channel_sqnr: float
    """The same, each channel's noise against its own signal, over the channels that say something; as `sqnr` where an output
    has no channels. Pixels do not drown scores here."""
    varied_sqnr: float
    """As `sqnr`, with the signal about each channel's mean over samples and places: what an output says always, an offset, is
    no signal here. As `sqnr` where too few samples show how channels vary."""
    cosine: float
    """Cosine of the angle between the two."""
    max_error: float
    """The largest absolute difference; NaN for strings."""
    equal: float
    """The share of values that are the same, which is what counts for integers and strings; NaN if the extents differ."""
    fault: str
    """What is wrong, in words; empty if nothing is."""
    faint: str = ""
    """Which channels have little left of how they vary, in words, where half of them and more have; empty else."""

    def __str__(self) -> str:
        """Return a line on it; ratios say nothing of integers."""
        if np.isnan(self.equal):
            return f"{self.name}: {self.fault or 'it has another shape than in float with some of the samples'}"
        if np.isnan(self.sqnr):
            return f"{self.name}: {self.equal:.1%} of the values are the same"
        level = f"{self.sqnr:.1f} dB"
        if self.varied_sqnr < self.sqnr - _LEAST_VARIED:
            level += f" ({self.varied_sqnr:.1f} dB of what varies)"
        return f"{self.name}: {level}, cosine {self.cosine:.5f}, largest error {self.max_error:.4g}"


def sqnr(reference: Array, other: Array) -> float:
    """Return the signal to noise ratio of `other` in dB, infinite if the two are equal."""
    signal = np.square(reference, dtype=np.float64).sum()
    noise = np.square(reference.astype(np.float64) - other).sum()
    if noise == 0:
        return float("inf")
    return float(10 * np.log10(signal / noise)) if signal > 0 else float("-inf")


def cosine(reference: Array, other: Array) -> float:
    """Return the cosine between two arrays, 1 if both are 0."""
    a, b = reference.reshape(-1).astype(np.float64), other.reshape(-1).astype(np.float64)
    length = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / length if length > 0 else float(not a.any() and not b.any())


def check_outputs(
    reference: Iterable[Mapping[str, Any]], other: Iterable[Mapping[str, Any]], names: Sequence[str]
) -> list[OutputCheck]:
    """Compare results of the two models, a dict of outputs per sample; what is no array is compared as `as_array` has it."""
    mine, theirs = list(other), list(reference)
    checks = []
    for name in names:
        values = [(a[name], b[name]) for a, b in zip(theirs, mine, strict=True)]
        none = float("nan")
        try:
            pairs = [(as_array(a), as_array(b)) for a, b in values]
            same_keys = all(keys_of(a) == keys_of(b) for a, b in values)
        except ValueError as error:
            checks.append(OutputCheck(name, none, none, none, none, none, none, str(error)))
            continue
        if not same_keys:
            checks.append(
                OutputCheck(name, none, none, none, none, none, 0.0, "its maps have other keys than in float")
            )
            continue
        if any(a.shape != b.shape for a, b in pairs):
            # How many boxes are left, say: that may differ, but not be none where there were some.
            empty = any(a.size for a, _ in pairs) and not any(b.size for _, b in pairs)
            fault = "it is empty, where float has values" if empty else ""
            checks.append(OutputCheck(name, none, none, none, none, none, none, fault))
            continue
        if len({a.shape for a, _ in pairs}) == 1:
            reals, found = (np.stack([pair[at] for pair in pairs]) for at in (0, 1))
        else:
            # Samples of several sizes have no places or channels in common.
            reals, found = (np.concatenate([pair[at].reshape(-1) for pair in pairs]) for at in (0, 1))
        if found.dtype.kind == "f" and not np.isfinite(found).all() and np.isfinite(reals).all():
            checks.append(
                OutputCheck(name, none, none, none, none, none, 0.0, "it has values that are infinite or NaN")
            )
            continue
        same = float((reals == found).mean()) if reals.size else 1.0
        most = none if reals.dtype == object else float(np.abs(reals.astype(np.float64) - found).max(initial=0))
        if reals.dtype.kind != "f":
            fault = f"{1 - same:.0%} of its values are others than in float" if same < _LEAST_AGREEMENT else ""
            checks.append(OutputCheck(name, none, none, none, none, most, same, fault))
            continue
        level = sqnr(reals, found)
        channels, varied = _channel_sqnr(reals, found, level), _varied_sqnr(reals, found, level)
        fault, faint = _fault(reals, found, level, varied), _faint_channels(reals, found)
        checks.append(OutputCheck(name, level, channels, varied, cosine(reals, found), most, same, fault, faint))
    return checks


def _fault(reals: Array, found: Array, level: float, varied: float) -> str:
    """Say what is wrong with an output, `reals` and `found` with the samples along the first axis."""
    if not reals.size or not np.isfinite(reals).all():
        return ""
    spread = float(np.ptp(reals))
    if spread > 0 and np.ptp(found) == 0:
        return f"every value is {found.flat[0] + 0:g}, where float has {reals.min():g} to {reals.max():g}"
    for axis, own, others in _by_channel(reals, found):
        fault = _silent_channels(own, others)
        if fault:
            return f"{fault} (axis {axis})"
    if level < _LEAST_SQNR:
        return f"its signal to noise ratio is {level:.1f} dB"
    if varied < _LEAST_VARIED:
        return (
            f"about what it says always its signal to noise ratio is {varied:.1f} dB: of how it varies, little is left"
        )
    return ""


def _varied_sqnr(reals: Array, found: Array, level: float) -> float:
    """Return the ratio with the signal about each channel's mean, of the axis with the fewest channels."""
    if not reals.size or not np.isfinite(reals).all():
        return level
    axes = _channel_axes(reals)
    channels = min((reals.shape[axis] for axis in axes), default=1)
    if reals.size < _LEAST_SEEN * channels or len(reals) < _LEAST_SEEN:
        return level
    own, noise = reals.astype(np.float64), np.square(reals.astype(np.float64) - found).sum()
    if axes:
        axis = min(axes, key=lambda each: reals.shape[each])
        own = own - own.mean(axis=tuple(each for each in range(own.ndim) if each != axis), keepdims=True)
    else:
        own = own - own.mean()
    values = reals.size / channels
    # As their variance would be over all inputs.
    signal = np.square(own).sum() * values / (values - 1)
    # What says the same always is judged by what it says.
    if noise == 0 or signal <= np.square(_NOTHING) * np.square(reals, dtype=np.float64).sum():
        return level
    return float(10 * np.log10(signal / noise))


def _channel_axes(reals: Array) -> list[int]:
    """Return the axes that may be of channels: the first behind the batch and the last, with samples along the first."""
    axes = sorted({2, reals.ndim - 1} & set(range(2, reals.ndim)))
    return [axis for axis in axes if 1 < reals.shape[axis] <= _MOST_CHANNELS]


def _by_channel(reals: Array, found: Array) -> Iterator[tuple[int, Array, Array]]:
    """Yield what may be channels: an axis of the output, and the values of both as a row per channel."""
    for axis in _channel_axes(reals):
        channels = reals.shape[axis]
        # With fewer values than that, a channel may well be the same in all samples.
        if reals.size >= 16 * channels:
            mine, theirs = (np.moveaxis(array, axis, 0).reshape(channels, -1) for array in (reals, found))
            yield axis - 1, mine, theirs


def _loud(spread: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Return which channels vary enough to say something."""
    return (spread > 0) & (spread >= min(_NOTICED, _NOTICED * float(spread.max())))


def _channel_sqnr(reals: Array, found: Array, level: float) -> float:
    """Return the ratio over the channels, each against itself, of the axis with the fewest."""
    axes = sorted(_by_channel(reals, found), key=lambda each: len(each[1]))
    if not axes:
        return level
    _, own, others = axes[0]
    loud = _loud(np.ptp(own, axis=1).astype(np.float64))
    signal = np.square(own[loud], dtype=np.float64).sum(axis=1)
    noise = np.square(own[loud].astype(np.float64) - others[loud]).sum(axis=1)
    if not loud.any() or not noise.any():
        return level
    return float(-10 * np.log10((noise / signal).mean()))


def _faint_channels(reals: Array, found: Array) -> str:
    """Say how many channels of an axis have little left of how they vary about their means, if half of them have."""
    if not np.isfinite(reals).all():
        return ""
    for axis, own, others in _by_channel(reals, found):
        loud = np.flatnonzero(_loud(np.ptp(own, axis=1).astype(np.float64)))
        values = own[loud].astype(np.float64)
        noise = np.square(values - others[loud]).mean(axis=1)
        levels = 10 * np.log10(values.var(axis=1) / np.maximum(noise, np.finfo(np.float64).tiny))
        faint = int((levels < _LEAST_SQNR).sum())
        if 0 < len(loud) <= 2 * faint:
            worst = int(np.argmin(levels))
            return (
                f"{faint} of {len(loud)} channels (axis {axis}) have less than {_LEAST_SQNR:g} dB about their means, channel "
                f"{loud[worst]} {levels[worst]:.1f}"
            )
    return ""


def _silent_channels(reals: Array, found: Array) -> str:
    channels = len(reals)
    spread: npt.NDArray[np.float64] = np.ptp(reals, axis=1).astype(np.float64)
    still = np.ptp(found, axis=1) == 0
    loud = _loud(spread)
    alive = spread >= _ALIVE * np.abs(reals).max(axis=1)
    # Many that are still are too many, however quiet they were.
    silent = still & alive if int((still & alive).sum()) * 2 >= channels else still & loud
    if not silent.any():
        return ""
    worst = int(np.argmax(np.where(silent, spread, -1)))
    return (
        f"{int(silent.sum())} of {channels} channels say the same everywhere: channel {worst} is {found[worst, 0] + 0:g}, where "
        f"float has {reals[worst].min():g} to {reals[worst].max():g}"
    )
