"""Devices: regions of memory and of registers under one name, and the host, which is one too.

A kind of device derives from `Device`, makes its regions and says what the methods with an underscore do.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self, overload

from triune.icraft._xir.objects import ObjectRef
from triune.icraft._xrt.errors import DEVICE, RANGE, TYPE, expect, failure, virtual
from triune.icraft._xrt.memory import HostMemRegion, MemChunk, MemRegion

__all__ = ["Device", "HostDevice", "RegRegion"]

_WAIT_TIME = 10000


class RegRegion(ObjectRef):
    """Registers of a device; without arguments a null handle. The host has none."""

    type_key: ClassVar[str] = "icraft::xrt::RegRegionNode"

    _name: str
    _device: Device | None

    def _set_up(self, name: str) -> None:
        self._name, self._device = name, None

    def device(self) -> Device:
        """Return the device that it belongs to.

        Raises InternalError if there is none.
        """
        if self._device is None:
            raise failure(DEVICE, f"register region {self._name!r} belongs to no device")
        return self._device

    def read(self, addr: int, relative: bool = False) -> int:
        """Return the 32 bits that a register holds. `addr` is in bytes and counts from the region's base if `relative`; else
        it is absolute.

        Raises InternalError if the address is outside of the region ([11003]), there is no register at it, or the device has
        been closed.
        """
        return self._read(addr, relative)

    def write(self, addr: int, data: int, relative: bool = False) -> None:
        """Set the 32 bits of a register. `addr` is in bytes and counts from the region's base if `relative`; else it is
        absolute.

        Raises InternalError if the address is outside of the region ([11003]), there is no register at it or it only counts,
        `data` has more than 32 bits, or the device has been closed.
        """
        self._write(addr, data, relative)

    def _read(self, addr: int, relative: bool) -> int:
        raise virtual(self, "read")

    def _write(self, addr: int, data: int, relative: bool) -> None:
        raise virtual(self, "write")

    def _equals(self, other: Any) -> bool:
        return self is other

    def _clone(self, depth: int) -> Self:
        raise failure(TYPE, f"{type(self).__name__}.clone: a region of registers is a thing that there is once")

    def _json(self) -> Any:
        return {"_type_key": self._json_key(), "name": self._name}


class Device(ObjectRef):
    """Something with memory, that backends compute on; without arguments a null handle."""

    type_key: ClassVar[str] = "icraft::xrt::DeviceNode"

    _url: str
    _wait_time: int
    _mem_regions: dict[str, MemRegion]
    _reg_regions: dict[str, RegRegion]
    _default_mem: str
    _default_reg: str

    def _set_up(self, url: str, memories: dict[str, MemRegion], registers: dict[str, RegRegion]) -> None:
        """Take the regions; the first of each kind is the default."""
        self._url, self._wait_time = url, _WAIT_TIME
        self._mem_regions, self._reg_regions = memories, registers
        self._default_mem, self._default_reg = next(iter(memories), ""), next(iter(registers), "")
        for memory in memories.values():
            memory._device = self
        for register in registers.values():
            register._device = self

    @staticmethod
    def Open(url: str) -> Device:
        """Open the device behind a URL ``protocol://device[@site][?name=value&...]``.

        ``axi://zg330aiu`` (or ``sim://``) is a simulated board in this process, a new one each time; ``mock://zg330`` one that
        has memory and registers, and cannot forward; ``socket://zg330aiu@host:9981`` one behind ``triune serve`` (parameters
        ``board``, ``share``, ``tls``, ``ca``, ``token_file``, ``insecure``, ``timeout``, ``patience``). ``ql100aiu`` is BUYI. The
        empty URL is ``axi://zg330``, or what the environment variable TRIUNE_ICRAFT_DEVICE names.

        Raises InternalError naming the protocol, device or parameter that there is not, or why there is no connection.

        Examples:
            >>> from triune.icraft.xrt import Device
            >>> board = Device.Open("axi://zg330aiu")  # or socket://zg330aiu@127.0.0.1:9981, behind triune serve
        """
        from triune.icraft._xrt.opening import open_device

        return open_device(url)

    @staticmethod
    def Close(device: Device) -> None:
        """Let go of a device and of all memory on it: nothing of it can be used any more. The host stays.

        What is closed may be closed again.
        """
        expect("Device.Close", device, Device, "a device")
        device._close()

    # ---- memory

    def defaultMemRegion(self) -> MemRegion:
        """Return the region that `malloc` without a name uses.

        Raises InternalError if the device has no memory.
        """
        return self.getMemRegion(self._default_mem)

    def setDefaultMemRegion(self, region_name: str) -> Self:
        """Set the region that `malloc` without a name uses.

        Raises InternalError if there is none of that name.
        """
        self.getMemRegion(region_name)
        self._default_mem = region_name
        return self

    def getMemRegion(self, name: str) -> MemRegion:
        """Return a region of memory.

        Raises InternalError if there is none of that name.
        """
        found: MemRegion = _named(self, "memory", self._mem_regions, name)
        return found

    @overload
    def malloc(self, byte_size: int) -> MemChunk: ...
    @overload
    def malloc(self, mem_region: str, byte_size: int) -> MemChunk: ...
    def malloc(self, *args: Any, **keywords: Any) -> MemChunk:
        """Allocate `byte_size` bytes in the default region, or in one by name.

        The memory is let go when nothing refers to the chunk any more; `MemRegion.malloc` has other ways.

        Raises InternalError as `getMemRegion` and `MemRegion.malloc` do.
        """
        return self._malloc(*args, **keywords)

    def _malloc(self, mem_region: str | int | None = None, byte_size: int | None = None) -> MemChunk:
        if isinstance(mem_region, str):
            region = self.getMemRegion(mem_region)
        else:
            region, byte_size = self.defaultMemRegion(), mem_region if byte_size is None else byte_size
        return region.malloc(byte_size)  # type: ignore[arg-type]  # None is refused there.

    # ---- registers

    def defaultRegRegion(self) -> RegRegion:
        """Return the region that `readReg` and `writeReg` without a name use.

        Raises InternalError if the device has no registers, as the host.
        """
        return self.getRegRegion(self._default_reg)

    def setDefaultRegRegion(self, region_name: str) -> Self:
        """Set the region that `readReg` and `writeReg` without a name use.

        Raises InternalError if there is none of that name.
        """
        self.getRegRegion(region_name)
        self._default_reg = region_name
        return self

    def getRegRegion(self, name: str) -> RegRegion:
        """Return a region of registers.

        Raises InternalError if there is none of that name.
        """
        found: RegRegion = _named(self, "register", self._reg_regions, name)
        return found

    @overload
    def readReg(self, addr: int, relative: bool = False) -> int: ...
    @overload
    def readReg(self, region_name: str, addr: int, relative: bool = False) -> int: ...
    @overload
    def readReg(self, *, byte_size: int, relative: bool = False) -> int: ...
    @overload
    def readReg(self, region_name: str, *, byte_size: int, relative: bool = False) -> int: ...
    def readReg(self, *args: Any, **keywords: Any) -> int:
        """Return the 32 bits that a register holds, of the default region or one by name.

        `addr` is in bytes: absolute, as the URL's ``npu`` and ``dma`` say where the window lies, or from the region's base if
        `relative`.

        Raises InternalError as `getRegRegion` and `RegRegion.read` do.
        """
        region, args, keywords = self._registers(args, keywords)
        return region.read(*args, **keywords)

    @overload
    def writeReg(self, addr: int, data: int, relative: bool = False) -> None: ...
    @overload
    def writeReg(self, region_name: str, addr: int, data: int, relative: bool = False) -> None: ...
    def writeReg(self, *args: Any, **keywords: Any) -> None:
        """Set the 32 bits of a register, of the default region or one by name.

        `addr` is as for `readReg`. Raises InternalError as `getRegRegion` and `RegRegion.write` do.
        """
        region, args, keywords = self._registers(args, keywords)
        region.write(*args, **keywords)

    def _registers(
        self, args: tuple[Any, ...], keywords: dict[str, Any]
    ) -> tuple[RegRegion, tuple[Any, ...], dict[str, Any]]:
        # The published signature of readReg calls the address so.
        keywords = {("addr" if name == "byte_size" else name): value for name, value in keywords.items()}
        if args and isinstance(args[0], str):
            return self.getRegRegion(args[0]), args[1:], keywords
        if "region_name" in keywords:
            return self.getRegRegion(keywords.pop("region_name")), args, keywords
        return self.defaultRegRegion(), args, keywords

    # ---- the device

    def reset(self, level: int) -> None:
        """Reset it. The host does nothing.

        Of a board, level 0 resets everything but memory, settings included, and level 1 counters and timers.

        Raises InternalError ([11003]) for another level of a board, or if the device has been closed.
        """
        self._reset(level)

    def check(self, level: int) -> bool:
        """Return whether it works; the host always does.

        Of a board, level 0 asks its state, level 1 also copies 64 KiB to each memory and back and compares them.

        Raises InternalError ([11003]) for another level of a board, if it has been closed or there is no connection to it.
        """
        return self._check(level)

    def showStatus(self, level: int) -> None:
        """Print its state: of the host the bytes that chunks have.

        Of a board, level 0 is one line; level 1 has the clock in MHz, the engines, the bytes in use of each memory, and
        counters, too.

        Raises InternalError ([11003]) for another level of a board, or if the device has been closed.
        """
        print(self._status(level))

    def version(self) -> dict[str, str]:
        """Return the versions of its parts by name: ``device``, ``icore`` and ``simulator`` of a board, ``triune`` of the
        host.

        Raises InternalError if the device has been closed or there is no connection to it.
        """
        return self._version()

    def setWaitTime(self, wait_time: int) -> None:
        """Set how many milliseconds a copy waits for a tensor to be ready, 10000 at first.

        Raises InternalError if it is negative.
        """
        if not 0 <= wait_time < 1 << 63:
            raise failure(RANGE, f"setWaitTime: {wait_time} milliseconds; 0 to 2^63-1 can be")
        self._wait_time = int(wait_time)

    def _reset(self, level: int) -> None:
        raise virtual(self, "reset")

    def _check(self, level: int) -> bool:
        raise virtual(self, "check")

    def _status(self, level: int) -> str:
        raise virtual(self, "status")

    def _version(self) -> dict[str, str]:
        raise virtual(self, "version")

    def _close(self) -> None:
        raise virtual(self, "close")

    def _equals(self, other: Any) -> bool:
        return self.__dict__ is other.__dict__

    def _clone(self, depth: int) -> Self:
        # Another handle: what is done to one is done to both.
        twin = type(self)._new()
        twin.__dict__ = self.__dict__
        return twin

    def _json(self) -> Any:
        return {"_type_key": self._json_key(), "url": self._url}


def _named(device: Device, what: str, regions: Any, name: str) -> Any:
    region = regions.get(name)
    if region is None:
        there = ", ".join(repr(known) for known in regions) or "none"
        asked = f"no {what} region {name!r}" if name else f"no {what} regions"
        raise failure(DEVICE, f"{type(device).__name__} has {asked}; there are: {there}")
    return region


class HostDevice(Device):
    """The host: its memory, and the processor that `HostBackend` computes on."""

    type_key: ClassVar[str] = "icraft::xrt::HostDeviceNode"
    _null_by_default = False

    def __init__(self) -> None:
        """Make one with a region of memory of its own; programs take `HostDevice.Default()`."""
        self._set_up("host", {"host": HostMemRegion()}, {})

    @staticmethod
    def Default() -> HostDevice:
        """Return the host device of the process, the same object every time. `Device.Close` does nothing to it."""
        return _HOST

    @staticmethod
    def MemRegion() -> HostMemRegion:
        """Return the memory of `Default`, the same object every time: tensors of buffers lie there."""
        return _HOST_MEMORY

    def _reset(self, level: int) -> None:
        pass

    def _check(self, level: int) -> bool:
        return True

    def _status(self, level: int) -> str:
        info = self.defaultMemRegion().memManager().getMemRegionInfo()
        return f"host: {info['byte_size']} bytes in {info['chunks']} memory chunks"

    def _version(self) -> dict[str, str]:
        from triune import __version__

        return {"triune": __version__}

    def _close(self) -> None:
        pass


_HOST = HostDevice()
_HOST_MEMORY: HostMemRegion = _HOST._mem_regions["host"]  # type: ignore[assignment]
