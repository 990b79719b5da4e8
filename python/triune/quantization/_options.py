"""How a model is quantized, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from triune.errors import ArgumentError
from triune.quantization._agreement import Agreement
from triune.quantization._check import OutputCheck
from triune.quantization._mixed import Bound
from triune.quantization._scales import METHODS
from triune.quantization._statistics import HeldOut
from triune.quantization._write import INTEGERS

__all__ = ["QuantizationOptions", "QuantizationResult"]


@dataclass(frozen=True)
class QuantizationOptions:
    """How a model is quantized, as `triune.quantize` documents it.

    Raises `triune.errors.ArgumentError` for what there is not.
    """

    method: str = "mse"
    act: str = "s8"
    per_channel: bool = True
    bias_correction: bool = True
    equalize: bool = True
    mixed: str | None = None
    bound: float | str = 34.0
    float_from: Sequence[str] | None = None
    keep_float: Sequence[str] = ()
    outputs: Sequence[str] = ()
    fixed: bool = False
    """For devices with multipliers m·2⁻ⁿ."""

    def __post_init__(self) -> None:
        """Check what can be checked without a model."""
        if isinstance(self.mixed, str) and self.mixed.endswith("%"):
            if self.bound != QuantizationOptions.bound:
                raise ArgumentError(
                    f"mixed: {self.mixed!r} is a bound, and {self.bound!r} is another: give one of them"
                )
            object.__setattr__(self, "bound", self.mixed)
            object.__setattr__(self, "mixed", "float")
        for name, known in (("method", METHODS), ("act", tuple(INTEGERS)), ("mixed", (None, "float", "16"))):
            value = getattr(self, name)
            if value not in known:
                more = " or a share such as 98%" if name == "mixed" else ""
                raise ArgumentError(f"{name}: expected one of {', '.join(map(str, known))}{more}, got {value!r}")
        for name in ("float_from", "keep_float", "outputs"):
            names = getattr(self, name)
            if isinstance(names, str):
                raise ArgumentError(f"{name}: expected a sequence of names, got the str {names!r}")
        try:
            Bound.of(self.bound)
        except ValueError:
            raise ArgumentError(
                f"bound: expected a number of dB, or a share of answers such as 98% (over 0%, at most 100%), got {self.bound}"
            ) from None
        if self.mixed == "16" and self.act == "s16":
            raise ArgumentError("mixed: with act 's16' all integers have 16 bits already; 'float' is left")


@dataclass(frozen=True)
class QuantizationResult:
    """What `triune.quantize` did."""

    path: Path
    """The file that was written."""
    samples: int
    """How many samples the ranges come from."""
    held_out: int
    """How many samples were kept from that, and the checks are on; 0 of fewer than 20, of which some serve for both."""
    kept_float: dict[str, str]
    """Why, for each operator over floats that stays in float, by its name in the file."""
    wide: tuple[str, ...]
    """The operators that `mixed` gave 16 bits, the worst first."""
    ranges: dict[str, tuple[float, float]]
    """The smallest and largest real that each quantized tensor can have, by the float tensor's name."""
    checks: tuple[OutputCheck, ...]
    """How each output compares with the float model's on `checked_on` samples."""
    checked_on: int
    """How many samples the checks are on: those that `held_out` counts, or some of all."""
    agreements: tuple[Agreement, ...]
    """How many best classes, and boxes, are float's on these samples: boxes at an intersection over union of 0.5, or where
    `bound` is a share of answers, of 0.9 and with scores within 0.05."""
    macs: dict[str, int]
    """Multiply-accumulates of the products of a sample, by what computes them: ``float``, and integers of ``8`` and ``16``
    bits. Products whose extents are not known beforehand are not counted."""
    notes: tuple[str, ...] = field(default=())
    """What stays in float and why, in words."""
    warnings: tuple[str, ...] = field(default=())
    """Which outputs are spoiled, or give other answers than float more often than 2 in 100, and the cure; issued as
    `triune.errors.QuantizationWarning`, too."""
    advice: tuple[str, ...] = field(default=())
    """Which outputs are not spoiled, but noisy, and whether there were few samples, and what helps."""

    @property
    def checked(self) -> str:
        """What the checks are on, in words."""
        if self.held_out:
            return f"on {self.held_out} samples that the ranges do not come from; these come from {self.samples}"
        which = "the one sample" if self.samples == 1 else f"{self.checked_on} of the {self.samples} samples"
        return f"on {which} that the ranges come from, which flatters; of {HeldOut.ENOUGH} and more, some are held out"
