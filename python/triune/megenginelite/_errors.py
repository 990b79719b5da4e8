"""The exceptions of the vendor's API, with messages that are short, whatever they show."""

from __future__ import annotations

from triune._text import short

__all__ = ["failure", "mistyped"]


def failure(text: str) -> RuntimeError:
    """Return the exception with a message of less than 2 kB, whatever names and paths it has."""
    return RuntimeError(short(text))


def mistyped(text: str) -> TypeError:
    """Return the exception for an argument of another type, the same way."""
    return TypeError(short(text))
