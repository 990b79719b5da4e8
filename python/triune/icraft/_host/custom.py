"""Operators that networks have under names of Triune's own, since the vendor's intermediate representation has none such.

`triune compile` writes them where a model has one; the core computes them on the host.
"""

from __future__ import annotations

from typing import Final

__all__ = ["CUSTOM"]

_NAMES = (
    "Affine And Atan2 Ceil Erf ErfInv Erfc ErfcInv Exp Expm1 FastTanh Floor Gate Log1p LogAddExp Mod MulHigh Or Pow RMSNorm "
    "Rem Resize Round RoundHalfAway Rsqrt ScaledTanh ShiftLeft ShiftRight Sign ThresholdedRelu Xor"
)

CUSTOM: Final = frozenset(f"customop::{name}Node" for name in _NAMES.split())
"""Their type keys."""
