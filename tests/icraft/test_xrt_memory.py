"""Pointers, chunks, regions and devices of `triune.icraft.xrt`."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import numpy as np
import pytest

from triune.icraft.xir import InternalError, IntImm, ObjectRef
from triune.icraft.xrt import (
    ADDR,
    BOTH,
    CPTR,
    Device,
    HostDevice,
    HostMemRegion,
    MemChunk,
    MemManager,
    MemPtr,
    MemRegion,
    PtrType,
    RegRegion,
)

ADDRESS = 0x4000_0000


# ---- pointers: the vendor's documented example, line by line


def test_null_pointers_are_null() -> None:
    for pointer in (MemPtr.Init(), MemPtr.NullPtr()):
        assert pointer.isNull()
        assert pointer.ptype() == PtrType.CPTR
        assert pointer.cptr() == 0
        assert pointer.defined()
    assert not MemPtr().defined()


def test_a_pointer_knows_what_it_was_made_of() -> None:
    buffer = np.zeros(8, np.uint8)
    c_pointer, address, both = MemPtr(buffer), MemPtr(ADDRESS), MemPtr(buffer, ADDRESS)
    assert [pointer.ptype() for pointer in (c_pointer, address, both)] == [CPTR, ADDR, BOTH]
    assert not any(pointer.isNull() for pointer in (c_pointer, address, both))
    assert c_pointer.cptr() == both.cptr() == buffer.ctypes.data
    assert address.addr() == both.addr() == ADDRESS
    with pytest.raises(InternalError, match="The MemPtr is of ADDR type!"):
        address.cptr()
    with pytest.raises(InternalError, match="The MemPtr is of CPTR type!"):
        c_pointer.addr()


def test_pointers_are_moved_and_compared() -> None:
    one = MemPtr(bytearray(64), ADDRESS)
    two = 40 + one
    assert two - one == 40
    assert one - two == -40
    assert two - 40 == one
    assert one + 40 == two
    assert one < two
    assert one <= two
    assert two > one
    assert two >= one
    assert not one > two
    assert one != two
    assert MemPtr(ADDRESS) != MemPtr(bytearray(64))


def test_a_pointer_stays_within_64_bits() -> None:
    for wrong in (
        lambda: MemPtr(-1),
        lambda: MemPtr(0) - 1,
        lambda: MemPtr((1 << 64) - 1) + 1,
    ):
        with pytest.raises(InternalError, match="no address"):
            wrong()
    with pytest.raises(InternalError, match="cannot be compared"):
        _ = MemPtr(4) < MemPtr(bytearray(4))
    with pytest.raises(TypeError, match="64 bits"):
        MemPtr(1 << 64)
    with pytest.raises(TypeError, match="text"):
        MemPtr("text")  # type: ignore[call-overload]


def test_the_enumeration_is_the_vendors() -> None:
    assert PtrType(2) is PtrType.BOTH is BOTH
    assert PtrType(BOTH) is BOTH
    assert (str(CPTR), CPTR.name, CPTR.value, int(ADDR)) == ("PtrType.CPTR", "CPTR", 0, 1)


# ---- chunks


def region() -> HostMemRegion:
    return HostDevice.MemRegion()


def test_a_chunk_is_read_and_written() -> None:
    chunk = region().malloc(16)
    assert chunk.byte_size == 16
    assert chunk.isOn(region())
    assert chunk.region.same_as(region())
    chunk.write(4, b"abcdefgh", 6)
    target = bytearray(8)
    chunk.read(target, 2, 8)
    assert target == b"\0\0abcdef"
    other = region().malloc(8)
    other.copyFrom(1, chunk, 4, 6)
    whole = np.zeros(8, np.uint8)
    other.read(whole, 0, 8)
    assert whole.tobytes() == b"\0abcdef\0"


def test_a_chunk_may_be_copied_onto_itself() -> None:
    chunk = region().malloc(8)
    chunk.write(0, b"12345678", 8)
    chunk.copyFrom(2, chunk, 0, 6)
    target = bytearray(8)
    chunk.read(target, 0, 8)
    assert target == b"12123456"


@pytest.mark.parametrize(
    "reach",
    [
        lambda chunk: chunk.read(bytearray(99), 0, 17),
        lambda chunk: chunk.read(bytearray(99), 16, 1),
        lambda chunk: chunk.read(bytearray(99), -1, 4),
        lambda chunk: chunk.read(bytearray(99), 0, -1),
        lambda chunk: chunk.read(bytearray(3), 0, 4),
        lambda chunk: chunk.read(bytes(4), 0, 4),
        lambda chunk: chunk.write(14, b"abc", 3),
        lambda chunk: chunk.write(0, b"abc", 4),
        lambda chunk: chunk.write(1 << 63, b"abc", 3),
        lambda chunk: chunk.write(0, np.zeros((4, 4))[:, 0], 4),
        lambda chunk: chunk.copyFrom(0, chunk, 10, 7),
        lambda chunk: chunk.copyFrom(10, chunk, 0, 7),
        lambda chunk: region().malloc(chunk.begin + 8, 9),
        lambda chunk: region().malloc(MemPtr(ADDRESS), 8),
        lambda chunk: region().malloc(MemPtr.NullPtr(), 8),
    ],
)
def test_nothing_outside_a_chunk_is_reached(reach: Callable[[MemChunk], object]) -> None:
    chunk = region().malloc(16)
    with pytest.raises(InternalError):
        reach(chunk)


@pytest.mark.parametrize("size", [-1, 1 << 48, (1 << 64) - 1])
def test_a_size_fits_an_address_space(size: int) -> None:
    with pytest.raises(InternalError, match="byte_size"):
        region().malloc(size)


@pytest.mark.parametrize("size", [1 << 200, 1.5, "8", None])
def test_a_size_is_a_number_of_bytes(size: object) -> None:
    with pytest.raises(TypeError, match="byte_size"):
        region().malloc(size)  # type: ignore[call-overload]


def test_memory_that_there_is_not_is_an_error() -> None:
    with pytest.raises(InternalError, match="11014"):
        region().malloc((1 << 48) - 1)


@pytest.mark.parametrize("alignment", [1, 2, 64, 4096, 1 << 20])
def test_chunks_are_aligned(alignment: int) -> None:
    assert region().malloc(10, True, alignment).begin.cptr() % alignment == 0


@pytest.mark.parametrize("alignment", [0, 3, -4, 1 << 40])
def test_an_alignment_is_a_power_of_two(alignment: int) -> None:
    with pytest.raises(InternalError, match="power of two"):
        region().malloc(8, True, alignment)


def test_an_empty_chunk_is_a_chunk() -> None:
    chunk = region().malloc(0)
    chunk.write(0, b"", 0)
    chunk.read(bytearray(), 0, 0)
    assert chunk.byte_size == 0


# ---- who frees it, and when


def test_a_deleter_is_called_when_the_last_reference_goes() -> None:
    calls: list[int] = []
    buffer = bytearray(8)
    chunk = region().malloc(MemPtr(buffer), 8, lambda begin: calls.append(begin.cptr()))
    place = chunk.begin.cptr()
    second = chunk
    del chunk
    gc.collect()
    assert calls == []
    del second
    gc.collect()
    assert calls == [place]


def test_a_deleter_is_called_once_by_free() -> None:
    calls: list[MemPtr] = []
    chunk = region().malloc(MemPtr(bytearray(8)), 8, calls.append)
    chunk.free()
    chunk.free()
    del chunk
    gc.collect()
    assert len(calls) == 1


def test_without_auto_free_only_free_frees() -> None:
    calls: list[MemPtr] = []
    buffer = bytearray(8)
    chunk = region().malloc(MemPtr(buffer), 8, calls.append, False)
    begin = chunk.begin
    del chunk
    gc.collect()
    assert calls == []
    found = region().memManager().getMemChunk(begin, 8)
    assert found is not None
    found.free()
    assert len(calls) == 1
    assert region().memManager().getMemChunk(begin, 8) is None


def test_a_chunk_that_was_freed_is_not_touched() -> None:
    chunk = region().malloc(8)
    twin = chunk.clone()
    chunk.free()
    for wrong in (lambda: chunk.read(bytearray(1), 0, 1), lambda: twin.write(0, b"a", 1)):
        with pytest.raises(InternalError, match="freed"):
            wrong()


def test_a_clone_is_the_same_memory() -> None:
    calls: list[MemPtr] = []
    chunk = region().malloc(MemPtr(bytearray(4)), 4, calls.append)
    twin = chunk.clone()
    assert twin == chunk
    assert not twin.same_as(chunk)
    chunk.write(0, b"ab", 2)
    del chunk
    gc.collect()
    assert calls == []
    target = bytearray(2)
    twin.read(target, 0, 2)
    assert target == b"ab"
    del twin
    gc.collect()
    assert len(calls) == 1


def test_the_manager_knows_what_is_allocated() -> None:
    own = HostMemRegion()
    manager = own.memManager()
    assert isinstance(manager, MemManager)
    assert manager.getAllMemChunk() == []
    one, two = own.malloc(10), own.malloc(20)
    assert [chunk.byte_size for chunk in manager.getAllMemChunk()] == [10, 20]
    assert manager.getMemChunk(two.begin, 20) is two
    assert manager.getMemChunk(two.begin, 19) is None
    info = manager.getMemRegionInfo()
    assert (int(IntImm(info["chunks"])), int(IntImm(info["byte_size"]))) == (2, 30)
    del one
    gc.collect()
    assert manager.getAllMemChunk() == [two]
    two.free()
    assert manager.getAllMemChunk() == []


def test_memory_goes_with_the_chunk() -> None:
    chunk = region().malloc(1 << 20)
    base = chunk.begin._base
    assert base is not None
    alive = weakref.ref(base)
    del base, chunk
    gc.collect()
    assert alive() is None


# ---- devices


def test_the_host_device_is_one_object() -> None:
    device = HostDevice.Default()
    assert device.same_as(HostDevice.Default())
    assert HostDevice.MemRegion().same_as(device.defaultMemRegion())
    assert device.getMemRegion("host").device().same_as(device)
    assert device.typeKey() == "icraft::xrt::HostDeviceNode"
    assert device.check(0)
    assert "triune" in device.version()
    device.reset(1)
    Device.Close(device)
    assert not HostDevice().same_as(device)


def test_a_device_allocates_in_a_region() -> None:
    device = HostDevice()
    assert device.malloc(8).isOn(device.defaultMemRegion())
    assert device.malloc("host", 9).byte_size == 9
    assert device.setDefaultMemRegion("host").same_as(device)
    assert not device.malloc(8).isOn(HostDevice.MemRegion())


def test_what_a_device_lacks_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    device = HostDevice.Default()
    with pytest.raises(InternalError, match="no memory region 'plddr'; there are: 'host'"):
        device.getMemRegion("plddr")
    with pytest.raises(InternalError, match="plddr"):
        device.malloc("plddr", 8)
    for wrong in (
        device.defaultRegRegion,
        lambda: device.getRegRegion("npu"),
        lambda: device.readReg(0x18),
        lambda: device.readReg("npu", 0x18),
        lambda: device.writeReg(0x18, 1),
        lambda: device.writeReg("npu", 0x18, 1, True),
        lambda: device.setDefaultRegRegion("npu"),
    ):
        with pytest.raises(InternalError, match="no register region"):
            wrong()
    with pytest.raises(InternalError, match="11003"):
        device.setWaitTime(-1)
    device.showStatus(0)
    assert "host" in capsys.readouterr().out


@pytest.mark.parametrize("kind", [Device, MemRegion, RegRegion, MemChunk, MemPtr, MemManager])
def test_null_handles_say_so(kind: type[ObjectRef]) -> None:
    handle = kind()
    assert not handle.defined()
    assert handle.same_as(kind())
    method = {
        Device: lambda: handle.defaultMemRegion(),
        MemRegion: lambda: handle.malloc(8),
        RegRegion: lambda: handle.read(0),
        MemChunk: lambda: handle.read(bytearray(1), 0, 1),
        MemPtr: lambda: handle.isNull(),
        MemManager: lambda: handle.getAllMemChunk(),
    }[kind]
    with pytest.raises(InternalError, match="null handle"):
        method()  # type: ignore[no-untyped-call]


def test_handles_are_cast() -> None:
    device = HostDevice.Default()
    assert Device(device).same_as(device)
    assert HostDevice.MemRegion().same_as(MemRegion(HostDevice.MemRegion()))
    chunk = region().malloc(1)
    assert MemChunk(chunk).same_as(chunk)
    with pytest.raises(TypeError, match="MemManager"):
        MemManager(device)
