"""The vendor's numbers for what goes wrong at run time, and the one way to raise them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from triune.icraft._xir.errors import InternalError

if TYPE_CHECKING:
    from triune.icraft._xir.objects import ObjectRef

__all__ = [
    "BACKEND",
    "DEVICE",
    "FILE",
    "LOAD",
    "ORDER",
    "RANGE",
    "TIMEOUT",
    "TYPE",
    "NotSupported",
    "expect",
    "failure",
    "virtual",
]

FILE: Final = 11002
"""A file or a folder that is not there."""
RANGE: Final = 11003
"""An argument out of range, or of a wrong form."""
TYPE: Final = 11010
"""An argument of a wrong type or value."""
LOAD: Final = 11011
"""A file that cannot be loaded."""
ORDER: Final = 11012
"""A call at the wrong time."""
BACKEND: Final = 11013
"""Something went wrong within a backend."""
DEVICE: Final = 11014
"""Something went wrong within a device."""
TIMEOUT: Final = 11015
"""It took too long."""


class NotSupported(InternalError, NotImplementedError):
    """What is asked for is described well, but not there: the text names it."""


def failure(code: int, text: str) -> InternalError:
    """Return the exception for `code`, to be raised: the number stands before the text, as in the vendor's logs."""
    return InternalError(f"[{code}] {text}")


def virtual(handle: ObjectRef, what: str) -> Exception:
    """Return the exception for a method that only kinds of a class have: the handle is null, or its kind lacks it."""
    if not handle.defined():
        return InternalError(f"null handle: {type(handle).__name__}.{what} has no object behind it")
    return NotImplementedError(f"{type(handle).__name__}.{what}")


def expect(what: str, value: object, kind: type | tuple[type, ...], shown: str) -> None:
    """Raise InternalError unless a value is of a class, and no null handle; `shown` says what is expected."""
    null = getattr(value, "_undefined", False)
    if null or not isinstance(value, kind):
        got = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
        got = "a null handle" if null else got
        raise failure(TYPE, f"{what}: expected {shown}, got {got}")
