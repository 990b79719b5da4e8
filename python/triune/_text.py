"""Messages as people get them."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["nearest", "short"]


def short(text: str) -> str:
    """Return a message of less than 2 kB: long words, which are names and paths, and long texts lose their middle."""
    from triune import _native

    return _native.message(text.encode("utf-8", "backslashreplace").decode())


def nearest(name: object, names: Iterable[str], has: str) -> str:
    """Return what to say behind an unknown name: which of the `names` was likely meant, and what there `has` to choose from."""
    from difflib import get_close_matches

    known = list(names)
    close = get_close_matches(str(name), known, 1)
    meant = f"; did you mean {close[0]!r}?" if close else ""
    return f"{meant or ';'} {has} {', '.join(known)}"
