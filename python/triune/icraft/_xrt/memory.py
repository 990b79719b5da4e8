"""Chunks of memory, the regions that they lie in, and the regions' managers.

A kind of region says how its bytes are reached (the methods with an underscore); bounds, ownership and deleters are
checked here once for all kinds. It knows neither tensors nor backends.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Self, overload

import numpy as np
import numpy.typing as npt

from triune.icraft._xir.immediates import IntImm
from triune.icraft._xir.objects import ObjectRef
from triune.icraft._xrt.errors import DEVICE, ORDER, RANGE, TYPE, expect, failure, virtual
from triune.icraft._xrt.pointer import MemPtr, as_bytes

if TYPE_CHECKING:
    from triune.icraft._xrt.device import Device
    from triune.icraft._xrt.pointer import Buffer

__all__ = ["Deleter", "HostMemRegion", "MemChunk", "MemManager", "MemRegion"]

Bytes = npt.NDArray[np.uint8]
Deleter = Callable[[MemPtr], None]
"""What is called with a chunk's begin instead of freeing its memory, once."""

_PIECE = 1 << 24
"""Bytes that are copied at a time where the host stands between two devices."""
_MOST = 1 << 48
"""More bytes than any machine has: the bound that keeps a mistyped size from overflowing anything."""


class MemRegion(ObjectRef):
    """A memory that chunks are allocated in, such as the host's; without arguments a null handle."""

    type_key: ClassVar[str] = "icraft::xrt::MemRegionNode"

    _name: str
    _device: Device | None
    _manager: MemManager

    def _set_up(self, name: str) -> None:
        self._name, self._device, self._manager = name, None, MemManager._of(self)

    def device(self) -> Device:
        """Return the device that it belongs to.

        Raises InternalError if there is none.
        """
        if self._device is None:
            raise failure(DEVICE, f"memory region {self._name!r} belongs to no device")
        return self._device

    def memManager(self) -> MemManager:
        """Return what knows the chunks that are allocated in the region: the same object every time."""
        return self._manager

    @overload
    def malloc(self, byte_size: int, auto_free: bool = True, alignment: int = 1) -> MemChunk: ...
    @overload
    def malloc(
        self, begin: MemPtr, byte_size: int, deleter: Deleter | None = None, auto_free: bool = True
    ) -> MemChunk: ...
    def malloc(self, *args: Any, **keywords: Any) -> MemChunk:
        """Allocate `byte_size` bytes, or take those that `begin` points to.

        With `auto_free` the memory is let go when nothing refers to the chunk any more; without, when `MemChunk.free` is
        called. A `deleter` is called with `begin` instead, exactly once: the memory is the caller's then. Without one, memory
        of a device is allocated at `begin`. New memory of the host is zero; that of devices lies at multiples of 64 bytes at
        least, which is a burst.

        Raises InternalError if a size is negative, `alignment` no power of two, memory is exhausted, or `begin` does not
        point to so many bytes of this region.
        """
        first = args[0] if args else keywords.get("begin")
        if isinstance(first, MemPtr):
            return self._take(*args, **keywords)
        return self._allocated(*args, **keywords)

    def _allocated(self, byte_size: int, auto_free: bool = True, alignment: int = 1) -> MemChunk:
        size = _size("byte_size", byte_size)
        if alignment < 1 or alignment & (alignment - 1) or alignment > 1 << 30:
            raise failure(RANGE, f"malloc: alignment {alignment!r} is no power of two (up to 2^30)")
        return MemChunk._of(self, self._malloc(size, int(alignment)), size, None, bool(auto_free))

    def _take(self, begin: MemPtr, byte_size: int, deleter: Deleter | None = None, auto_free: bool = True) -> MemChunk:
        size = _size("byte_size", byte_size)
        if deleter is not None and not callable(deleter):
            raise failure(TYPE, f"malloc: the deleter is a {type(deleter).__name__}, which cannot be called")
        self._adopt(begin, size, deleter is None)
        return MemChunk._of(self, begin, size, deleter, bool(auto_free))

    # ---- what a kind of region does

    def _malloc(self, byte_size: int, alignment: int) -> MemPtr:
        """Return new memory. Raises InternalError if there is not enough."""
        raise virtual(self, "malloc")

    def _adopt(self, begin: MemPtr, byte_size: int, owned: bool) -> None:
        """Note that the memory at `begin` is in use, by the region if `owned`; else somebody else's `deleter` frees it.

        Raises InternalError if it is not there, or is to be `owned` and taken.
        """
        raise virtual(self, "adopt")

    def _free(self, begin: MemPtr) -> None:
        """Let go of memory that `_malloc` returned or `_adopt` took."""
        raise virtual(self, "free")

    def _host_view(self, begin: MemPtr, byte_size: int) -> Bytes | None:
        """Return the bytes without a copy, None if the host cannot reach them."""
        raise virtual(self, "host_view")

    def _read(self, begin: MemPtr, target: Bytes) -> None:
        """Copy as many bytes as `target` has to it."""
        raise virtual(self, "read")

    def _write(self, begin: MemPtr, data: Bytes) -> None:
        """Set bytes."""
        raise virtual(self, "write")

    def _copy(self, begin: MemPtr, source: MemRegion, source_begin: MemPtr, byte_size: int) -> None:
        """Copy bytes of any region, this one even."""
        data = source._host_view(source_begin, byte_size)
        if data is not None:
            self._write(begin, data)
            return
        target = self._host_view(begin, byte_size)
        if target is not None:
            source._read(source_begin, target)
            return
        # From one device to another, by way of the host.
        buffer = np.empty(min(byte_size, _PIECE), np.uint8)
        for done in range(0, byte_size, _PIECE):
            piece = buffer[: min(_PIECE, byte_size - done)]
            source._read(source_begin + done, piece)
            self._write(begin + done, piece)

    def _information(self) -> dict[str, int]:
        """Return what is known of the region beside its chunks."""
        return {}

    def _check_open(self, what: str) -> None:
        """Raise InternalError if the device has been closed."""

    def _equals(self, other: Any) -> bool:
        return self is other

    def _clone(self, depth: int) -> Self:
        raise failure(TYPE, f"{type(self).__name__}.clone: a region of memory is a thing that there is once")

    def _json(self) -> Any:
        return {"_type_key": self._json_key(), "name": self._name}


class HostMemRegion(MemRegion):
    """The host's memory: pointers to it are C pointers, and data moves without a copy."""

    type_key: ClassVar[str] = "icraft::xrt::HostMemRegionNode"
    _null_by_default = False

    def __init__(self) -> None:
        """Make a region apart from the device's own (`HostDevice.MemRegion`)."""
        self._set_up("host")

    def _malloc(self, byte_size: int, alignment: int) -> MemPtr:
        try:
            block = np.zeros(byte_size + alignment - 1, np.uint8)
        except (MemoryError, ValueError):
            raise failure(DEVICE, f"malloc: the host has no {byte_size} bytes left") from None
        return MemPtr._at(block, -block.ctypes.data % alignment, None)

    def _adopt(self, begin: MemPtr, byte_size: int, owned: bool) -> None:
        begin._view(byte_size, "malloc")

    def _free(self, begin: MemPtr) -> None:
        """Do nothing: the memory goes with the last array that shares it."""

    def _host_view(self, begin: MemPtr, byte_size: int) -> Bytes:
        return begin._view(byte_size, "memory chunk")

    def _read(self, begin: MemPtr, target: Bytes) -> None:
        target[:] = self._host_view(begin, target.size)

    def _write(self, begin: MemPtr, data: Bytes) -> None:
        view = self._host_view(begin, data.size)
        if not view.flags.writeable:
            raise failure(TYPE, "memory chunk: its memory is read-only, such as that of parameters mapped from a file")
        view[:] = data


class MemManager(ObjectRef):
    """What knows the chunks of a region. It comes from `MemRegion.memManager`."""

    type_key: ClassVar[str] = "icraft::xrt::MemManagerNode"

    @classmethod
    def _of(cls, region: MemRegion) -> Self:
        manager = cls._new()
        manager._region = weakref.ref(region)
        manager._chunks = {}
        manager._kept = {}
        return manager

    _region: weakref.ref[MemRegion]
    # Both change one entry at a time, which needs no lock.
    _chunks: dict[int, weakref.ref[MemChunk]]
    _kept: dict[int, MemChunk]
    """Chunks that nothing frees but `MemChunk.free`."""

    def getAllMemChunk(self) -> list[MemChunk]:
        """Return the chunks that are allocated, the oldest first. Those of a device that has been closed are none."""
        return [chunk for chunk in (reference() for reference in list(self._chunks.values())) if chunk is not None]

    def getMemChunk(self, ptr: MemPtr, byte_size: int) -> MemChunk | None:
        """Return the chunk that begins at `ptr` and has `byte_size` bytes, None if there is none just so."""
        for chunk in self.getAllMemChunk():
            if chunk.byte_size == byte_size and chunk.begin == ptr:
                return chunk
        return None

    def getMemRegionInfo(self) -> dict[str, ObjectRef]:
        """Return ``chunks``, how many are allocated, and ``byte_size``, their bytes together.

        Of a device's region also ``region_byte_size``, all that it has, ``reserved_byte_size``, those at its beginning that
        nobody gets, and ``used_byte_size``, those that anybody has allocated.
        """
        chunks = self.getAllMemChunk()
        region = self._region()
        more = {} if region is None else region._information()
        sizes = {"chunks": len(chunks), "byte_size": sum(chunk.byte_size for chunk in chunks), **more}
        return {name: IntImm(size) for name, size in sizes.items()}

    def _add(self, chunk: MemChunk, *, kept: bool) -> None:
        number = id(chunk)
        # No function of Python's, in which an interrupt would get lost.
        forget = functools.partial(self._chunks.pop, number)
        self._chunks[number] = weakref.ref(chunk, forget)
        if kept:
            self._kept[number] = chunk

    def _remove(self, chunk: MemChunk) -> None:
        self._chunks.pop(id(chunk), None)
        self._kept.pop(id(chunk), None)

    def _equals(self, other: Any) -> bool:
        return self is other

    def _clone(self, depth: int) -> Self:
        raise failure(TYPE, "MemManager.clone: a region has one manager")

    def _json(self) -> Any:
        return {"_type_key": self._json_key()}


class MemChunk(ObjectRef):
    """Bytes of a region that lie together. It comes from `MemRegion.malloc`; without arguments a null handle."""

    type_key: ClassVar[str] = "icraft::xrt::MemChunkNode"

    _begin: MemPtr
    _byte_size: int
    _chunk_region: MemRegion
    _release: Callable[[], object] | None
    """Lets go of the memory; None once that is done, and where another chunk does it."""
    _freed: bool

    @classmethod
    def Init(cls) -> Self:
        """Return a chunk without memory, not null: it has 0 bytes, no region (a null handle), and begins at a pointer to
        nothing."""
        return cls._raw(MemRegion(), MemPtr.Init(), 0)

    @classmethod
    def _raw(cls, region: MemRegion, begin: MemPtr, byte_size: int) -> Self:
        chunk = cls._new()
        chunk._begin, chunk._byte_size, chunk._chunk_region = begin, byte_size, region
        chunk._release, chunk._freed = None, False
        return chunk

    @classmethod
    def _of(cls, region: MemRegion, begin: MemPtr, byte_size: int, deleter: Deleter | None, auto_free: bool) -> Self:
        chunk = cls._raw(region, begin, byte_size)
        release: Callable[[MemPtr], None] = region._free if deleter is None else deleter
        if auto_free and (deleter is not None or type(region) is not HostMemRegion):
            chunk._release = weakref.finalize(chunk, release, begin)
        else:
            chunk._release = _Once(release, begin)
        region._manager._add(chunk, kept=not auto_free)
        return chunk

    @property
    def begin(self) -> MemPtr:
        """Where it begins: on the host a C pointer, on a board a physical address that counts from the region's beginning."""
        return self._begin

    @property
    def byte_size(self) -> int:
        """Its size in bytes, as it was asked for."""
        return self._byte_size

    @property
    def region(self) -> MemRegion:
        """The region that it lies in; a null handle of `MemChunk.Init()`."""
        return self._chunk_region

    def isOn(self, arg0: MemRegion) -> bool:
        """Return whether it lies in the region, by identity."""
        return self._chunk_region.same_as(arg0)

    def free(self) -> None:
        """Let go of the memory, or call the deleter, unless that was done. A second call does nothing.

        The chunk cannot be used any more: reading, writing and copying raise InternalError ([11012]). Raises what the deleter
        raises.
        """
        release, self._release, self._freed = self._release, None, True
        if self._chunk_region.defined():
            self._chunk_region._manager._remove(self)
        if release is not None:
            release()

    def read(self, dest: Buffer, src_offset: int, byte_size: int) -> None:
        """Copy `byte_size` bytes from `src_offset` on to the beginning of a buffer.

        Raises InternalError if they are not all in the chunk and in the buffer ([11003]), the buffer cannot be written
        ([11010]), or the chunk was freed or its device closed ([11012]).
        """
        target = as_bytes(dest, "MemChunk.read", writable=True)
        source = self._part("MemChunk.read", src_offset, byte_size)
        if byte_size > target.size:
            raise failure(RANGE, f"MemChunk.read: {byte_size} bytes into a buffer of {target.size}")
        self._chunk_region._read(source, target[: int(byte_size)])

    def write(self, dest_offset: int, src: Buffer, byte_size: int) -> None:
        """Copy `byte_size` bytes from the beginning of a buffer to `dest_offset`.

        Raises InternalError if they are not all in the chunk and in the buffer ([11003]), the memory cannot be written
        ([11010]), or the chunk was freed or its device closed ([11012]).
        """
        source = as_bytes(src, "MemChunk.write")
        target = self._part("MemChunk.write", dest_offset, byte_size)
        if byte_size > source.size:
            raise failure(RANGE, f"MemChunk.write: {byte_size} bytes of a buffer of {source.size}")
        self._chunk_region._write(target, source[: int(byte_size)])

    def copyFrom(self, dest_offset: int, src_chunk: MemChunk, src_offset: int, byte_size: int) -> None:
        """Copy `byte_size` bytes of a chunk, of any region, the same chunk even, from `src_offset` on to `dest_offset`.

        Within a board no byte goes by way of the host; from one board to another they do, 16 MiB at a time.

        Raises InternalError if they are not all in both chunks, the memory cannot be written, or a chunk was freed.
        """
        expect("MemChunk.copyFrom: src_chunk", src_chunk, MemChunk, "a memory chunk")
        source = src_chunk._part("MemChunk.copyFrom (source)", src_offset, byte_size)
        target = self._part("MemChunk.copyFrom", dest_offset, byte_size)
        byte_size = int(byte_size)
        self._chunk_region._copy(target, src_chunk._chunk_region, source, byte_size)

    @property
    def _gone(self) -> bool:
        """Whether the memory was let go."""
        return self._freed or (self._owner is not None and self._owner._freed)

    def _part(self, what: str, offset: int, byte_size: int) -> MemPtr:
        """Return where `byte_size` bytes from `offset` on begin."""
        self._chunk_region._check_open(what)
        if self._gone:
            # Another thread may have closed the device just now, which frees all of its memory.
            self._chunk_region._check_open(what)
            raise failure(ORDER, f"{what}: the memory chunk was freed")
        if not 0 <= offset <= self._byte_size or not 0 <= byte_size <= self._byte_size - offset:
            end = offset + byte_size
            raise failure(RANGE, f"{what}: bytes {offset} to {end} of a memory chunk of {self._byte_size} bytes")
        return self._begin if offset == 0 else self._begin + offset

    def _equals(self, other: Any) -> bool:
        return (
            self._byte_size == other._byte_size
            and self._chunk_region.same_as(other._chunk_region)
            and self._begin == other._begin
        )

    def _clone(self, depth: int) -> Self:
        """Return a chunk of the same memory, which this one, or its own last copy, still owns."""
        copy = type(self)._raw(self._chunk_region, self._begin, self._byte_size)
        copy._freed = self._freed
        copy._owner = self
        return copy

    _owner: MemChunk | None = None

    def _json(self) -> Any:
        return {
            "_type_key": self._json_key(),
            "begin": self._begin._json(),
            "byte_size": self._byte_size,
            "region": self._chunk_region._json() if self._chunk_region.defined() else None,
        }


class _Once:
    """A call that nothing but the first caller makes."""

    def __init__(self, release: Callable[[MemPtr], None], begin: MemPtr) -> None:
        self._call: tuple[Callable[[MemPtr], None], MemPtr] | None = (release, begin)

    def __call__(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call[0](call[1])


def _size(what: str, value: int) -> int:
    if not 0 <= value < _MOST:
        raise failure(RANGE, f"{what}: {value} bytes; 0 to 2^48-1 can be asked for")
    return value
