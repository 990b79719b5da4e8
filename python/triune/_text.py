"""Messages as people get them."""

from __future__ import annotations

__all__ = ["short"]


def short(text: str) -> str:
    """Return a message of less than 2 kB: long words, which are names and paths, and long texts lose their middle."""
    from triune import _native

    return _native.message(text.encode("utf-8", "backslashreplace").decode())
