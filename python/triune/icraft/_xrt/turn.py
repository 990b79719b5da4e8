"""Turns that raise Icraft's errors."""

from __future__ import annotations

from triune import _native
from triune.icraft._xrt.errors import ORDER, failure

__all__ = ["turn"]


def turn() -> _native.Turn:
    """Return a turn that nobody has.

    Taking it raises InternalError in a child of a fork that came upon another thread with it.
    """
    return _native.Turn(lambda text: failure(ORDER, text))
