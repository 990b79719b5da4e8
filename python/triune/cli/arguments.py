"""Numbers on the command line."""

from __future__ import annotations

import argparse
import math

__all__ = ["byte_count", "finite", "named_shape", "nonnegative", "nonzero", "positive", "ratio", "seconds"]


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


def ratio(text: str) -> float:
    """Read a number above 0 and of at most 1."""
    number = finite(text)
    if not 0 < number <= 1:
        raise argparse.ArgumentTypeError(f"expected more than 0 and at most 1, got {text}")
    return number


def seconds(text: str) -> float:
    """Read a time above 0 and of at most a day."""
    number = finite(text)
    if not 0 < number <= 86400:
        raise argparse.ArgumentTypeError(f"expected more than 0 and at most 86400 seconds, got {text}")
    return number


def positive(text: str) -> int:
    """Read a whole number of at least 1 that 63 bits hold."""
    return _whole(text, 1)


def nonnegative(text: str) -> int:
    """Read a whole number of at least 0 that 63 bits hold."""
    return _whole(text, 0)


def _whole(text: str, least: int) -> int:
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a whole number, got '{text}'") from None
    if not least <= number < 1 << 63:
        raise argparse.ArgumentTypeError(f"expected {least} to {(1 << 63) - 1}, got {number}")
    return number


def named_shape(text: str) -> tuple[str, list[int]]:
    """Read a name and extents: NAME=N,N,..."""
    name, separator, extents = text.rpartition("=")
    try:
        dims = [int(extent) for extent in extents.split(",")]
    except ValueError:
        dims = [-1]
    if not separator or not name or min(dims) < 0:
        raise argparse.ArgumentTypeError(f"expected NAME=N,N,..., got {text!r}")
    return name, dims


def byte_count(text: str) -> int:
    """Read a number of bytes of at least 1; K, M, G and T at its end stand for powers of 1024, as in `triune explore`."""
    power = "KMGT".find(text[-1:].upper()) + 1 if text else 0
    number = positive(text[:-1] if power else text) << 10 * power
    if number >= 1 << 63:
        raise argparse.ArgumentTypeError(f"expected fewer than 2^63 bytes, got {text}")
    return number
