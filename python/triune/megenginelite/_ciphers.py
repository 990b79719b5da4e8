"""Ciphers by name: the three that the vendor's library has, and those that programs register."""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, SupportsIndex

from triune.megenginelite._errors import failure

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
else:
    from triune.megenginelite._numpy import np

__all__ = ["LiteDecryptionFunc", "decrypt", "decryption_func", "register", "update"]

LiteDecryptionFunc = ctypes.CFUNCTYPE(
    ctypes.c_size_t,
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.POINTER(ctypes.c_uint8),
    ctypes.c_size_t,
    ctypes.c_void_p,
)
"""The C type of a decryption: bytes and their number, key and its size, where to write (null: only say how much)."""

Bytes = "npt.NDArray[np.uint8]"
Function = Callable[[Any, Any, Any], SupportsIndex]
"""Takes bytes, key and result as arrays of uint8 and returns the size of the result; without one (None) only that."""

_BUILT_IN = {"AES_default": 32, "RC4_default": 16, "SIMPLE_FAST_RC4_default": 16}
"""The vendor's ciphers and the sizes of their keys."""

_keys: dict[str, bytes] = {}
_functions: dict[str, Function] = {}


def decryption_func(func: Function) -> Function:
    """Mark `func` as a decryption, for `LiteGlobal.register_decryption_and_key`.

    It is called as ``func(in_arr, key_arr, None)`` for the size of the result, then as ``func(in_arr, key_arr,
    out_arr)`` to fill `out_arr`, which is true as long as it is there; the arrays are of uint8.
    """
    if not callable(func):
        raise failure(f"decryption_func: expected a function, got {type(func).__name__}")
    return func


def _key(key: Iterable[SupportsIndex]) -> bytes:
    try:
        return bytes(operator.index(byte) for byte in key)
    except (TypeError, ValueError):
        raise failure(f"key: expected bytes, or ints from 0 to 255, got {key!r}") from None


def _check_size(name: str, key: bytes) -> None:
    size = _BUILT_IN.get(name, len(key))
    if len(key) != size:
        raise failure(f"the key of {name} has {size} bytes, got {len(key)}")


def register(name: str, func: Function, key: Iterable[SupportsIndex]) -> None:
    """Add a cipher.

    Raises RuntimeError if there is one of that name, or the key is no bytes.
    """
    if name in _BUILT_IN or name in _functions:
        raise failure(f"there is a decryption {name!r} already")
    if not callable(func):
        raise failure(f"decryption {name!r}: expected a function, got {type(func).__name__}")
    _functions[name], _keys[name] = func, _key(key)


def update(name: str, key: Iterable[SupportsIndex]) -> None:
    """Change the key of a cipher; an empty one leaves it as it is.

    Raises RuntimeError if there is no such cipher, or the key is not of its size.
    """
    if name not in _BUILT_IN and name not in _functions:
        raise _unknown(name)
    new = _key(key)
    if new:
        _check_size(name, new)
        _keys[name] = new


def _unknown(name: str) -> RuntimeError:
    known = ", ".join([*_BUILT_IN, *_functions])
    return failure(
        f"there is no decryption {name!r}; there are {known}; LiteGlobal.register_decryption_and_key adds one"
    )


def decrypt(name: str, data: bytes) -> bytes:
    """Return `data` decrypted.

    Raises RuntimeError if there is no such cipher, the data cannot be its output, or a registered function returns no size.
    """
    if name in _BUILT_IN:
        from triune import _native

        return _native.decrypt(name, data, _keys.get(name))
    function = _functions.get(name)
    if function is None:
        raise _unknown(name)
    return _call(name, function, data)


def _call(name: str, function: Function, data: bytes) -> bytes:
    if isinstance(function, LiteDecryptionFunc):
        return _call_c(name, function, data)
    source, key = _view(np.frombuffer(data, np.uint8)), _view(np.frombuffer(_keys[name], np.uint8))
    size = _size(name, function(source, key, None), len(data))
    result = _view(np.zeros(size, np.uint8))
    return result[: _size(name, function(source, key, result), len(data), size)].tobytes()


def _call_c(name: str, function: Any, data: bytes) -> bytes:
    source = (ctypes.c_uint8 * max(len(data), 1)).from_buffer_copy(data or b"\0")
    key = (ctypes.c_uint8 * max(len(_keys[name]), 1)).from_buffer_copy(_keys[name] or b"\0")
    size = _size(name, function(source, len(data), key, len(_keys[name]), None), len(data))
    result = (ctypes.c_uint8 * max(size, 1))()
    return bytes(result[: _size(name, function(source, len(data), key, len(_keys[name]), result), len(data), size)])


def _size(name: str, value: SupportsIndex, there: int, most: int | None = None) -> int:
    """Return the size that a decryption said: not more than it was given room for, nor far more than it was given."""
    try:
        size = operator.index(value)
    except TypeError:
        raise failure(f"decryption {name!r}: expected the size of the result, got {value!r}") from None
    limit = max(16 * there, 1 << 20) if most is None else most
    if not 0 <= size <= limit:
        raise failure(f"decryption {name!r}: expected a size from 0 to {limit}, got {size}")
    return size


_Truthful: Any = None


def _view(array: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return an array for which ``if not array`` asks whether it is there, as the documented programs do."""
    global _Truthful
    if _Truthful is None:

        class Truthful(np.ndarray):
            """An array that is true."""

            def __bool__(self) -> bool:
                return True

        _Truthful = Truthful
    found: npt.NDArray[np.uint8] = array.view(_Truthful)
    return found
