"""Pointers: host memory with its bounds, physical addresses, or both.

A pointer into host memory remembers the buffer that it was made of, so that what is read through it can be checked. One
may point anywhere; only reaching for memory is checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self, overload

import numpy as np
import numpy.typing as npt

from triune._masked import MASKED, is_masked
from triune.icraft._xir.conversions import whole
from triune.icraft._xir.enums import VendorEnum
from triune.icraft._xir.objects import ObjectRef
from triune.icraft._xrt.errors import RANGE, TYPE, failure

if TYPE_CHECKING:
    from typing_extensions import Buffer as _Buffer

    Buffer = _Buffer | npt.NDArray[Any]
    """Numpy's types say that arrays are buffers only from Python 3.12 on."""

__all__ = ["MemPtr", "PtrType", "as_bytes"]

Bytes = npt.NDArray[np.uint8]
_ADDRESSES = 1 << 64


class PtrType(VendorEnum):
    """What a pointer holds."""

    CPTR = 0
    ADDR = 1
    BOTH = 2


def as_bytes(buffer: Buffer, what: str, *, writable: bool = False) -> Bytes:
    """Return the bytes of a contiguous buffer as an array that shares its memory.

    Raises InternalError if it is no buffer, has gaps, is a masked array, or cannot be written although `writable`.
    """
    if is_masked(buffer):
        raise failure(TYPE, f"{what}: {MASKED}")
    # What has an array but no buffer, as Tensor in Python 3.11.
    source: Any = buffer if not hasattr(buffer, "__array__") else np.asarray(buffer)
    try:
        view = memoryview(source)
    except TypeError:
        raise failure(TYPE, f"{what}: expected a buffer, got {type(buffer).__name__}") from None
    if not view.c_contiguous:
        raise failure(RANGE, f"{what}: expected a buffer in C order without gaps")
    copied = source is not buffer and writable and not np.may_share_memory(source, np.asarray(buffer))
    if writable and (view.readonly or copied):
        raise failure(TYPE, f"{what}: expected a buffer that can be written to")
    return np.frombuffer(view, np.uint8) if view.nbytes else np.empty(0, np.uint8)


class MemPtr(ObjectRef):
    """A place in memory: ``MemPtr(buffer)``, ``MemPtr(address)`` or ``MemPtr(buffer, address)``."""

    type_key: ClassVar[str] = "icraft::xrt::MemPtrNode"

    _base: Bytes | None
    _offset: int
    _addr: int | None

    @overload
    def __init__(self, arg0: ObjectRef, /) -> None: ...
    @overload
    def __init__(self, cptr: Buffer, addr: int = ...) -> None: ...
    @overload
    def __init__(self, *, addr: int) -> None: ...
    @overload
    def __init__(self, addr: int, /) -> None: ...
    @overload
    def __init__(self) -> None: ...
    def __init__(self, cptr: Any = None, addr: Any = None) -> None:
        """Point to a buffer's first byte, to a physical address, or to one place known as both.

        Raises InternalError if an argument is neither, or the address is negative or beyond 64 bits.
        """
        if addr is None and not _is_buffer(cptr):
            cptr, addr = None, None if cptr is None else whole(cptr)
        self._base = None if cptr is None else as_bytes(cptr, "MemPtr")
        self._offset = 0
        self._addr = None if addr is None else _address(addr)

    @classmethod
    def Init(cls) -> Self:
        """Return a pointer to nothing, which is not a null handle: `cptr` is 0, and arithmetic with it raises InternalError."""
        return cls._at(None, 0, None)

    @staticmethod
    def NullPtr() -> MemPtr:
        """Return a pointer to nothing, as `Init` does."""
        return MemPtr.Init()

    @classmethod
    def _at(cls, base: Bytes | None, offset: int, addr: int | None) -> Self:
        pointer = cls._new()
        pointer._base, pointer._offset, pointer._addr = base, offset, addr
        return pointer

    # ---- what it is

    def ptype(self) -> PtrType:
        """Return what it holds: ``PtrType.CPTR`` on the host (of a pointer to nothing, too), ``ADDR`` on a device, or
        ``BOTH``."""
        if self._addr is None:
            return PtrType.CPTR
        return PtrType.ADDR if self._base is None else PtrType.BOTH

    def isNull(self) -> bool:
        """Return whether it points to nothing: a C pointer without a buffer. The physical address 0 is a place."""
        return self._base is None and self._addr is None

    def addr(self) -> int:
        """Return the physical address.

        Raises InternalError if it holds only a C pointer.
        """
        if self._addr is None:
            raise failure(TYPE, "The MemPtr is of CPTR type! It has no physical address; memory on a device has one")
        return self._addr

    def cptr(self) -> int:
        """Return the C pointer as a number, as ctypes takes it; 0 of a pointer to nothing.

        The vendor's stub says str, which is what its binding makes of a ``char*``.

        Raises InternalError if it holds only a physical address.
        """
        if self._base is None:
            if self._addr is not None:
                raise failure(
                    TYPE,
                    "The MemPtr is of ADDR type! Its data is on a device: Tensor.to(HostDevice.MemRegion()) fetches it",
                )
            return 0
        return int(self._base.ctypes.data) + self._offset

    def _view(self, byte_size: int, what: str) -> Bytes:
        """Return `byte_size` bytes of host memory from here on, without a copy.

        Raises InternalError if there are not so many in the buffer, or there is none.
        """
        if self._base is None:
            self.cptr()
            raise failure(RANGE, f"{what}: a pointer to nothing")
        end = self._offset + byte_size
        if self._offset < 0 or byte_size < 0 or end > self._base.size:
            raise failure(RANGE, f"{what}: bytes {self._offset} to {end} of a buffer of {self._base.size} bytes")
        return self._base[self._offset : end]

    # ---- arithmetic

    def _moved(self, by: int) -> MemPtr:
        if self.isNull():
            raise failure(RANGE, "MemPtr: arithmetic with a pointer to nothing")
        addr = None if self._addr is None else _address(self._addr + by)
        if self._base is not None:
            _address(self._base.ctypes.data + self._offset + by)
        return MemPtr._at(self._base, self._offset + by, addr)

    def _place(self, other: MemPtr) -> tuple[int, int]:
        """Return both as numbers of one kind."""
        if self._addr is not None and other._addr is not None:
            return self._addr, other._addr
        if PtrType.ADDR not in (self.ptype(), other.ptype()):
            return self.cptr(), other.cptr()
        raise failure(TYPE, f"MemPtr: {self.ptype().name} and {other.ptype().name} pointers cannot be compared")

    def __add__(self, arg0: int) -> MemPtr:
        """Move by bytes. Raises InternalError if the address leaves 64 bits."""
        return self._moved(arg0)

    __radd__ = __add__

    @overload
    def __sub__(self, arg0: int) -> MemPtr: ...
    @overload
    def __sub__(self, arg0: MemPtr) -> int: ...
    def __sub__(self, arg0: int | MemPtr) -> MemPtr | int:
        """Move back by bytes, or count the bytes between two.

        Raises InternalError if the address leaves 64 bits, or one is a C pointer and the other an address.
        """
        if isinstance(arg0, MemPtr):
            left, right = self._place(arg0)
            return left - right
        return self._moved(-arg0)

    def __lt__(self, arg0: MemPtr) -> bool:
        """Compare places. Raises InternalError if one is a C pointer and the other an address."""
        left, right = self._place(arg0)
        return left < right

    def __le__(self, arg0: MemPtr) -> bool:
        """Compare places. Raises InternalError if one is a C pointer and the other an address."""
        left, right = self._place(arg0)
        return left <= right

    def __gt__(self, arg0: MemPtr) -> bool:
        """Compare places. Raises InternalError if one is a C pointer and the other an address."""
        return not self <= arg0

    def __ge__(self, arg0: MemPtr) -> bool:
        """Compare places. Raises InternalError if one is a C pointer and the other an address."""
        return not self < arg0

    def _equals(self, other: Any) -> bool:
        return self.ptype() == other.ptype() and self._place(other)[0] == self._place(other)[1]

    def _json(self) -> Any:
        known = {} if self._addr is None else {"addr": self._addr}
        return {"_type_key": self._json_key(), "ptype": self.ptype().name, **known}


def _is_buffer(value: object) -> bool:
    # What has an array but no buffer is Tensor in Python 3.11; so do numpy's numbers.
    if isinstance(value, np.generic):
        return False
    try:
        memoryview(value)  # type: ignore[arg-type]
    except TypeError:
        return hasattr(value, "__array__")
    return True


def _address(value: int) -> int:
    if not 0 <= value < _ADDRESSES:
        raise failure(RANGE, f"MemPtr: {value} is no address; 0 to 2^64-1 are")
    return value
