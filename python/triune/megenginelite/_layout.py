"""Element types by their many names, and `LiteLayout`. Nothing here loads numpy before it has to."""

from __future__ import annotations

import ctypes
import operator
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

from triune._text import short
from triune.megenginelite._errors import failure
from triune.megenginelite._structure import Structure
from triune.megenginelite.struct import LiteDataType

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
else:
    from triune.megenginelite._numpy import np

__all__ = [
    "CTYPES",
    "ITEM_SIZES",
    "MAX_DIM",
    "NAMES",
    "LiteLayout",
    "Shape",
    "ctype_to_lite_dtypes",
    "dtype_of",
    "extents",
    "kind_of",
    "lite_dtype_2_numpy",
    "longer_axes",
]

MAX_DIM = 7
"""The most axes that a layout has."""

Shape = tuple[int, ...]

NAMES: dict[int, str] = {
    LiteDataType.LITE_FLOAT: "float32",
    LiteDataType.LITE_HALF: "float16",
    LiteDataType.LITE_INT: "int32",
    LiteDataType.LITE_INT16: "int16",
    LiteDataType.LITE_INT8: "int8",
    LiteDataType.LITE_UINT8: "uint8",
    LiteDataType.LITE_UINT16: "uint16",
    LiteDataType.LITE_INT64: "int64",
}
"""numpy's names of the element types."""

_KINDS = {name: LiteDataType(kind) for kind, name in NAMES.items()}
# What numpy's dtypes are, and the other way round; filled as they come, as looking names up is slow.
_OF_DTYPES: dict[Any, LiteDataType] = {}
_DTYPES: dict[int, Any] = {}

CTYPES: dict[LiteDataType, Any] = {
    LiteDataType.LITE_FLOAT: ctypes.c_float,
    LiteDataType.LITE_HALF: ctypes.c_ushort,  # ctypes has no half: the bits
    LiteDataType.LITE_INT: ctypes.c_int,
    LiteDataType.LITE_INT16: ctypes.c_short,
    LiteDataType.LITE_INT8: ctypes.c_byte,
    LiteDataType.LITE_UINT8: ctypes.c_ubyte,
    LiteDataType.LITE_UINT16: ctypes.c_ushort,
    LiteDataType.LITE_INT64: ctypes.c_int64,
}
"""The C types of the element types."""

ITEM_SIZES: dict[int, int] = {int(kind): ctypes.sizeof(ctype) for kind, ctype in CTYPES.items()}
"""Bytes of an element."""

ctype_to_lite_dtypes: dict[Any, LiteDataType] = {
    ctypes.c_int: LiteDataType.LITE_INT,
    ctypes.c_uint: LiteDataType.LITE_INT,
    ctypes.c_float: LiteDataType.LITE_FLOAT,
    ctypes.c_ubyte: LiteDataType.LITE_UINT8,
    ctypes.c_byte: LiteDataType.LITE_INT8,
    ctypes.c_short: LiteDataType.LITE_INT16,
    ctypes.c_ushort: LiteDataType.LITE_UINT16,
    ctypes.c_int64: LiteDataType.LITE_INT64,
}
"""The element type of each C type."""


def kind_of(dtype: Any) -> LiteDataType:
    """Return the element type that `dtype` names: a `LiteDataType`, a string, a numpy dtype or scalar type; None is float.

    Raises KeyError if there is no such element type, RuntimeError if `dtype` is nothing of these.
    """
    if dtype is None:
        return LiteDataType.LITE_FLOAT
    if isinstance(dtype, LiteDataType):
        return dtype
    if type(dtype).__hash__ is not None and (known := _OF_DTYPES.get(dtype)) is not None:
        return known
    if isinstance(dtype, str):
        found = _KINDS.get(dtype)
        if found is not None:
            return found
        try:
            dtype = np.dtype(dtype)
        except TypeError:
            raise _unknown(dtype) from None
    if isinstance(dtype, type):
        numpy = sys.modules.get("numpy")
        if numpy is None or not issubclass(dtype, numpy.generic):
            raise _unknown(dtype)
        name = dtype.__name__
        # Of two C types of one size, numpy's names mean one: np.longlong beside np.int64.
        dtype = numpy.dtype(dtype) if name not in _KINDS else name
        if isinstance(dtype, str):
            return _KINDS[dtype]
    if "numpy" in sys.modules and isinstance(dtype, np.dtype):
        found = _KINDS.get(dtype.name) if dtype.isnative else None
        if found is None:
            raise _unknown(dtype)
        if dtype.metadata is None:
            _OF_DTYPES[dtype] = found
        return found
    raise failure(f"unknown data type {dtype!r}: expected a LiteDataType, a name or a numpy dtype")


def _unknown(dtype: object) -> KeyError:
    return KeyError(short(f"{dtype} is no element type of a tensor, which are {', '.join(_KINDS)}"))


def dtype_of(kind: int) -> np.dtype[Any]:
    """Return numpy's dtype of an element type."""
    found = _DTYPES.get(kind)
    if found is None:
        found = _DTYPES[kind] = np.dtype(NAMES[kind])
    return found


def lite_dtype_2_numpy(dtype: LiteDataType) -> type[np.generic]:
    """Return numpy's scalar type of an element type.

    Raises AssertionError if `dtype` is no `LiteDataType`.
    """
    assert isinstance(dtype, LiteDataType), short(f"expected a LiteDataType, got {dtype!r}")
    found: type[np.generic] = getattr(np, NAMES[dtype])
    return found


def extents(shape: Iterable[SupportsIndex]) -> Shape:
    """Return a shape as a tuple of ints.

    Raises AssertionError if it has too many axes, RuntimeError if an extent is no int, or negative.
    """
    try:
        found = tuple([operator.index(extent) for extent in shape])
    except TypeError:
        raise failure(f"expected a shape, a sequence of ints, got {shape!r}") from None
    assert len(found) <= MAX_DIM, f"a layout has at most {MAX_DIM} axes, got {list(found)}"
    if found and (min(found) < 0 or max(found) > sys.maxsize):
        raise failure(f"expected extents from 0 to {sys.maxsize}, got {list(found)}")
    return found


def longer_axes(shape: Iterable[int]) -> list[int]:
    """Return the extents that say where elements lie: those other than 1."""
    return [extent for extent in shape if extent != 1]


class LiteLayout(Structure):
    """A shape and an element type, in the C structure of the vendor's library.

    `shape` is a sequence of at most 7 extents; without one the layout is empty. `dtype` is a `LiteDataType`, a name such
    as ``"float32"``, a numpy dtype or scalar type; float32 if it is None.

    Two layouts are equal if their shapes and element types are, which the vendor's are not.

    Raises AssertionError if there are too many axes, KeyError if there is no such element type.
    """

    _fields_ = (
        ("_shapes", ctypes.c_size_t * MAX_DIM),
        ("ndim", ctypes.c_size_t),
        ("data_type", ctypes.c_int),
    )

    if TYPE_CHECKING:
        _shapes: Any
        ndim: int
        data_type: int

    def __init__(
        self, shape: Iterable[SupportsIndex] | None = None, dtype: LiteDataType | npt.DTypeLike | None = None
    ) -> None:
        """Fill in the structure."""
        if shape is not None:
            self.shapes = shape  # type: ignore[assignment]
        self.data_type = kind_of(dtype)

    @property
    def dtype(self) -> type[np.generic]:
        """numpy's scalar type of the elements.

        Raises RuntimeError if `data_type` was set to what is none.
        """
        try:
            return lite_dtype_2_numpy(LiteDataType(self.data_type))
        except ValueError:
            raise failure(f"layout: {self.data_type} is no LiteDataType") from None

    @property
    def shapes(self) -> list[int]:
        """The shape, a new list of `ndim` extents; set one, of at most 7, to change it.

        Raises RuntimeError if it is set to an extent below 0, AssertionError to more than 7.
        """
        return list(self._shapes[: self.ndim])

    @shapes.setter
    def shapes(self, shape: Sequence[SupportsIndex]) -> None:
        found = extents(shape)
        self._shapes = (ctypes.c_size_t * MAX_DIM)(*found)
        self.ndim = len(found)

    def __eq__(self, other: object) -> bool:
        """Compare shapes and element types."""
        if not isinstance(other, LiteLayout):
            return NotImplemented
        return self.data_type == other.data_type and self.shapes == other.shapes

    def __hash__(self) -> int:
        """Return the same for all layouts: they can change while a dict holds them."""
        return hash(LiteLayout)

    def __repr__(self) -> str:
        """Return shape, number of axes and element type, as the vendor shows them."""
        kind = self.dtype if self.data_type in NAMES else self.data_type
        return repr({"shapes": self.shapes, "ndim": self.ndim, "data_type": kind})
