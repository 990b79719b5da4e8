"""Numbers on the command line."""

from __future__ import annotations

import argparse
import math

__all__ = ["byte_count", "finite", "nonzero", "positive"]


def finite(text: str) -> float:
    """Read a finite number."""
    number = float(text)
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"expected a finite number, got {text}")
    return number


def nonzero(text: str) -> float:
    """Read a finite number other than 0."""
    number = finite(text)
    if number == 0:
        raise argparse.ArgumentTypeError("expected a number other than 0, got 0")
    return number


def positive(text: str) -> int:
    """Read a whole number of at least 1 that 63 bits hold."""
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a whole number, got '{text}'") from None
    if not 1 <= number < 1 << 63:
        raise argparse.ArgumentTypeError(f"expected 1 to {(1 << 63) - 1}, got {number}")
    return number


def byte_count(text: str) -> int:
    """Read a number of bytes of at least 1; K, M, G and T at its end stand for powers of 1024, as in `triune explore`."""
    power = "KMGT".find(text[-1:].upper()) + 1 if text else 0
    number = positive(text[:-1] if power else text) << 10 * power
    if number >= 1 << 63:
        raise argparse.ArgumentTypeError(f"expected fewer than 2^63 bytes, got {text}")
    return number
