"""Where memory lies: addresses that callers pass, those of arrays, and memory that is aligned."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from triune.megenginelite._errors import failure

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
else:
    from triune.megenginelite._numpy import np

__all__ = ["address_of", "aligned", "pointer"]

_ALIGNMENT = 64


def pointer(value: Any, function: str) -> int:
    """Return the address that an int or a ctypes pointer is.

    Raises AssertionError if it is something else, RuntimeError if it is null.
    """
    if isinstance(value, ctypes._Pointer):
        value = ctypes.cast(value, ctypes.c_void_p)
    elif isinstance(value, ctypes.Array):
        value = ctypes.addressof(value)
    address = value.value if isinstance(value, ctypes.c_void_p) else value
    assert address is None or type(address) is int, (
        f"{function}: expected an array or an address, got {type(value).__name__}"
    )
    if not address or address < 0:
        raise failure(f"{function}: the address is null")
    return address


def address_of(array: npt.NDArray[Any]) -> int:
    """Return the address of an array's first element."""
    address: int = array.__array_interface__["data"][0]
    return address


def aligned(size: int) -> tuple[npt.NDArray[np.uint8], int]:
    """Return zero bytes, and where so many of them are aligned."""
    try:
        block = np.zeros(size + _ALIGNMENT, np.uint8)
    except ValueError as error:
        raise MemoryError(f"{size} bytes: {error}") from None
    return block, -address_of(block) % _ALIGNMENT
