"""Masked arrays, which no function here takes: their memory holds numbers that their owner has struck out."""

from __future__ import annotations

import sys

__all__ = ["MASKED", "is_masked"]

MASKED = "a masked array has elements without a value: pass array.filled(value)"
"""What is said to one, behind the name of the function or argument."""


def is_masked(value: object) -> bool:
    """Return whether `value` is a masked array of numpy's; numpy is not imported for it."""
    module = sys.modules.get("numpy.ma")
    return module is not None and isinstance(value, module.MaskedArray)
