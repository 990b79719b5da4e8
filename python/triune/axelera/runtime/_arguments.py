"""What programs give, as numbers, and as messages show it."""

from __future__ import annotations

import operator
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from triune._masked import MASKED, is_masked

from ._errors import InvalidArgument

__all__ = ["array_of_numbers", "shown", "whole_number"]

_MOST_BITS = 128
"""No number that means anything here has more, and Python writes none of some thousand digits."""


def array_of_numbers(what: str, value: object) -> npt.NDArray[Any]:
    """Return an array of numbers. Raises `InvalidArgument`, which begins with `what`, for anything else."""
    if is_masked(value):
        raise InvalidArgument(f"{what}: {MASKED}")
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgument(f"{what}: expected an array of numbers, got {type(value).__name__} ({error})") from None
    if array.dtype.kind not in "biuf":
        raise InvalidArgument(f"{what}: expected an array of numbers, got {type(value).__name__} of {array.dtype}")
    return array


def whole_number(value: object) -> int | None:
    """Return an integer of any library's, None for anything else, an array, or a number that is out of all proportion."""
    if isinstance(value, np.ndarray) or not isinstance(value, SupportsIndex):
        return None
    number = operator.index(value)
    return number if number.bit_length() <= _MOST_BITS else None


def shown(value: object) -> str:
    """Return a value as a message shows it: as Python does, or its type where that fails."""
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return f"a number of {value.bit_length()} bits"
    try:
        return repr(value)
    except Exception:
        # A class of a program's own, whose fault is not what the message is about.
        return type(value).__name__
