"""Arguments of any kind that turn out to be of another: errors that name the argument."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable
from typing import SupportsIndex

from triune.megenginelite._errors import mistyped

__all__ = ["integer", "integers", "path"]


def integer(argument: str, value: object) -> int:
    """Return an int. Raises TypeError, which names the argument, if it is none."""
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise mistyped(f"{argument}: expected an int, got {value!r}") from None


def integers(argument: str, values: Iterable[SupportsIndex]) -> list[int]:
    """Return a sequence of ints as a list. Raises TypeError, which names the argument, if it is none."""
    try:
        return [operator.index(value) for value in values]
    except TypeError:
        raise mistyped(f"{argument}: expected a sequence of ints, got {values!r}") from None


def path(function: str, value: str | os.PathLike[str]) -> str:
    """Return a path as text. Raises TypeError, which names the function, if it is none."""
    try:
        return os.fspath(value)
    except TypeError:
        raise mistyped(f"{function}: expected a path, got {type(value).__name__}") from None
