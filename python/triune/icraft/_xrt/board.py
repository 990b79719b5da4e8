"""Devices that are boards, and their memory: what the kinds of boards share. It knows no kind's registers.

The vendor's names of regions live here: ``plddr`` (and ``etm``) is a board's far memory.
"""

from __future__ import annotations

import contextlib
import gc
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypeVar, overload

import numpy as np

from triune import _native
from triune.icraft._xir.errors import InternalError
from triune.icraft._xrt.device import Device
from triune.icraft._xrt.errors import DEVICE, ORDER, RANGE, TYPE, NotSupported, expect, failure
from triune.icraft._xrt.memory import Bytes, MemChunk, MemRegion
from triune.icraft._xrt.pointer import MemPtr
from triune.icraft._xrt.registers import BoardRegRegion, engine
from triune.icraft._xrt.turn import turn

if TYPE_CHECKING:
    from triune.icraft._xrt.device import RegRegion
    from triune.icraft._xrt.url import DeviceUrl

__all__ = ["BoardDevice", "BoardMemRegion"]

_LOG = logging.getLogger("triune.icraft")
_BURST: Final = 64
"""Bytes that memory is addressed in: chunks lie at multiples of so many."""
_FAR: Final = "ddr"
_T = TypeVar("_T")


class BoardMemRegion(MemRegion):
    """Memory of a board. Pointers to it are physical addresses."""

    type_key: ClassVar[str] = "icraft::xrt::MemRegionNode"

    _on_board: str
    _region_bytes: int
    _reserved: int
    _owner: BoardDevice

    @classmethod
    def _of(cls, name: str, on_board: str, region_bytes: int, reserved: int, owner: BoardDevice) -> BoardMemRegion:
        region = cls._new()
        region._set_up(name)
        region._on_board, region._region_bytes, region._reserved = on_board, region_bytes, reserved
        region._owner = owner
        return region

    def _malloc(self, byte_size: int, alignment: int) -> MemPtr:
        # A chunk of no bytes has a place of its own, too.
        size, steps = max(byte_size, 1), max(alignment, _BURST)

        def allocate() -> MemPtr:
            return MemPtr(self._taken(lambda board: board.allocate(self._on_board, size, steps)))

        try:
            return allocate()
        except InternalError as error:
            if not isinstance(error.__cause__, _native.UnsupportedError):
                raise
            # What refers to itself, as sessions do, keeps its memory until it is looked for.
            gc.collect()
            return allocate()

    def _adopt(self, begin: MemPtr, byte_size: int, owned: bool) -> None:
        self._check_open("malloc")
        start, end = begin.addr(), begin.addr() + byte_size
        if not self._reserved <= start <= end <= self._region_bytes:
            raise failure(
                RANGE,
                f"malloc: bytes {start:#x} to {end:#x} are not all in the region {self._name!r}, where"
                f" {self._reserved:#x} to {self._region_bytes:#x} can be had",
            )
        if owned:
            try:
                self._owner._native(lambda board: board.allocate_at(self._on_board, start, max(byte_size, 1)))
            except InternalError as error:
                if not isinstance(error.__cause__, _native.UnsupportedError):
                    raise
                raise failure(
                    DEVICE,
                    f"malloc: bytes {start:#x} to {end:#x} of the region {self._name!r} are not all free:"
                    " something is in the way",
                ) from error

    def _taken(self, call: Callable[[_native.Board], _T]) -> _T:
        """Return what an allocation returns; that there is no room is said by the region's name here."""
        try:
            return self._owner._native(call)
        except InternalError as error:
            cause = error.__cause__
            if not isinstance(cause, _native.UnsupportedError):
                raise
            said = str(cause).replace(f"region {self._on_board} ", f"region {self._name!r} ")
            raise failure(DEVICE, said) from cause

    def _free(self, begin: MemPtr) -> None:
        # A closed device has let go of everything, and so has one whose connection is lost.
        if self._owner._is_open():
            with contextlib.suppress(_native.LinkError):
                self._owner._on_native(lambda board: board.free(self._on_board, begin.addr()))

    def _host_view(self, begin: MemPtr, byte_size: int) -> Bytes | None:
        return None

    def _read(self, begin: MemPtr, target: Bytes) -> None:
        self._owner._native(lambda board: board.read(self._on_board, begin.addr(), target))

    def _write(self, begin: MemPtr, data: Bytes) -> None:
        self._owner._native(lambda board: board.write(self._on_board, begin.addr(), data))

    def _copy(self, begin: MemPtr, source: MemRegion, source_begin: MemPtr, byte_size: int) -> None:
        if isinstance(source, BoardMemRegion) and source._owner is self._owner:
            ours, theirs = self._on_board, source._on_board
            self._owner._native(lambda board: board.copy(theirs, source_begin.addr(), ours, begin.addr(), byte_size))
            return
        super()._copy(begin, source, source_begin, byte_size)

    def _information(self) -> dict[str, int]:
        used = self._owner._native(lambda board: board.live(self._on_board))
        return {
            "region_byte_size": self._region_bytes,
            "reserved_byte_size": self._reserved,
            "used_byte_size": sum(size for _, size in used),
        }

    def _check_open(self, what: str) -> None:
        self._owner._check_open(what)


class BoardDevice(Device):
    """A device that is a board. `BuyiDevice` and `ZG330Device` are its kinds."""

    _target: ClassVar[str] = ""
    """The simulated device that it is."""
    _register_regions: ClassVar[dict[str, tuple[int, int]]] = {}
    """Base and bytes of its regions of registers."""
    _counters: ClassVar[dict[str, int]] = {}
    """Addresses of the counters that ``showStatus`` shows."""

    _board: _native.Board | None
    _core: _native.Turn
    """Held while commands run, and as long as what others may overwrite on the chip is needed."""
    _device_url: DeviceUrl
    _recorded: dict[str, MemChunk]
    """The chunks that runs write records of their layers into."""

    @classmethod
    def _of(cls, url: DeviceUrl, board: _native.Board) -> Self:
        """Return the device of a URL; `board` is its own from now on."""
        device = cls._new()
        device._board, device._device_url = board, url
        device._core = turn()
        device._recorded = {}
        memories: dict[str, MemRegion] = {}
        for name, size, reserved in board.regions:
            names = ["plddr", "etm"] if name == _FAR else [name]
            region = BoardMemRegion._of(names[0], name, size, reserved, device)
            memories.update(dict.fromkeys(names, region))
        # The first is the default.
        memories = {"plddr": memories["plddr"], **memories}
        windows = url.params["npu"], url.params["dma"]
        registers: dict[str, RegRegion] = {
            name: BoardRegRegion._of(name, base, size, *windows) for name, (base, size) in cls._register_regions.items()
        }
        # The empty URL stands for one.
        device._set_up(url.url or f"{url.protocol}://{url.device}", memories, registers)
        versions = ", ".join(f"{name}: {version}" for name, version in board.versions.items())
        _LOG.info("opened %s://%s: %s", url.protocol, url.device, versions)
        return device

    # ---- the board

    def _is_open(self) -> bool:
        return self._board is not None

    def _check_open(self, what: str) -> None:
        if self._board is None:
            raise failure(ORDER, f"{what}: the device {self._url!r} has been closed")

    def _on_native(self, call: Callable[[_native.Board], _T]) -> _T:
        """Return what a call of the board returns, as `_native` does, but leave LinkError as it is."""
        board = self._board
        if board is None:
            self._check_open(type(self).__name__)
            raise AssertionError
        try:
            return call(board)
        except _native.ReleasedError:
            self._check_open(type(self).__name__)
            raise failure(DEVICE, f"the board of the device {self._url!r} has been closed") from None
        except _native.LinkError:
            raise
        except _native.Error as error:
            raise failure(DEVICE, str(error)) from error

    def _native(self, call: Callable[[_native.Board], _T]) -> _T:
        """Return what a call of the board returns, errors as the vendor's.

        Raises InternalError once the device is closed, and for what the board refuses.
        """
        try:
            return self._on_native(call)
        except _native.LinkError as error:
            raise failure(DEVICE, str(error)) from error

    def _close(self) -> None:
        board = self._board
        if board is None:
            return
        regions = {id(region): region for region in self._mem_regions.values()}
        with contextlib.ExitStack() as stack:
            # Whatever deleters raise, the others are called and the board is let go.
            stack.callback(board.close)
            stack.callback(setattr, self, "_board", None)
            for region in regions.values():
                for chunk in reversed(region.memManager().getAllMemChunk()):
                    stack.callback(chunk.free)

    def _computes(self) -> bool:
        """Return whether it can run instructions; ``mock://`` cannot."""
        return self._native(lambda board: board.computes)

    # ---- what every kind has

    def getMemRegion(self, name: str) -> MemRegion:
        """Return a region of memory: ``plddr`` (``etm`` is the same), ``ocm`` or ``udma``.

        Raises InternalError if there is none of that name, or the device has been closed.
        """
        self._check_open("getMemRegion")
        return super().getMemRegion(name)

    def getRegRegion(self, name: str) -> RegRegion:
        """Return a region of registers.

        Raises InternalError if there is none of that name, or the device has been closed.
        """
        self._check_open("getRegRegion")
        return super().getRegRegion(name)

    def setWaitTime(self, wait_time: int) -> None:
        """Set how many milliseconds a copy waits for a tensor to be ready, 10000 at first.

        Raises InternalError if it is negative, or the device has been closed.
        """
        self._check_open("setWaitTime")
        super().setWaitTime(wait_time)

    def icoreCalc(self, addr: int, size: int) -> None:
        """Run the instructions in `size` bytes at `addr` of ``plddr``, and return when they are done.

        They name segments; these lie where they did when a session ran the same instructions last.

        Raises InternalError if they are no instructions or nothing says where their segments lie; NotSupported if the device
        is a mock.
        """
        for name, value in (("addr", addr), ("size", size)):
            if not 0 <= value < 1 << 64:
                raise failure(RANGE, f"icoreCalc: {name} {value} is no number of bytes")
        if not self._computes():
            raise NotSupported(
                f"[{DEVICE}] icoreCalc: the device {self._url!r} has memory and registers only and cannot forward; axi://"
                f"{self._device_url.device} can"
            )
        self._native(lambda board: board.run(int(addr), int(size)))

    def layerCount(self) -> int:
        """Return how many layers have run since the last reset: a layer is a stream of commands, and merged ones count each.

        It is the register 0x0C. Raises InternalError if the device has been closed.
        """
        return self._counter("layers")

    def calcTime(self) -> float:
        """Return how many milliseconds the last run took: its modelled cycles at the core's clock as it is set now.

        The cycles are those of the register 0x18, the launch included; 0.0 before the first run. Raises InternalError if the
        device has been closed.
        """
        cycles = self._counter("cycles")
        hertz: int = self._setting("core_hz")
        return cycles * 1000 / hertz

    def getRowsCols(self) -> tuple[int, int]:
        """Return how many rows and columns of engines work: (4, 4) of BUYI and (2, 2) of ZG330 at first.

        Raises InternalError if the device has been closed.
        """
        rows, columns = self._setting("engines")
        return rows, columns

    def _engine_tiles(self, cid: int, offset: int) -> int:
        rows, _ = self.getRowsCols()
        return sum(self._register(engine(cid, row, offset)) for row in range(rows))

    def _counter(self, name: str) -> int:
        return self._register(self._counters[name])

    def _register(self, address: int) -> int:
        return self._native(lambda board: board.read_register(address))

    def _setting(self, name: str) -> Any:
        return self._native(lambda board: board.settings())[name]

    def _configure(self, **settings: Any) -> None:
        self._native(lambda board: board.configure(**settings))

    def _record(self, setting: str, what: str, chunk: MemChunk) -> None:
        """Let runs write records of layers into a chunk, which stays until another one takes its place."""
        self._configure(**{setting: self._records(what, chunk)})
        self._recorded[setting] = chunk

    def _records(self, what: str, chunk: MemChunk) -> tuple[str, int, int]:
        """Return where a chunk lies, for records of layers."""
        expect(what, chunk, MemChunk, "a memory chunk")
        region = chunk.region
        if not isinstance(region, BoardMemRegion) or region._owner != self:
            raise failure(TYPE, f"{what}: the memory chunk is not on this device")
        return region._on_board, chunk._part(what, 0, chunk.byte_size).addr(), chunk.byte_size

    # ---- engines' registers beside the device's

    @overload
    def readReg(self, addr: int, relative: bool = False) -> int: ...
    @overload
    def readReg(self, region_name: str, addr: int, relative: bool = False) -> int: ...
    @overload
    def readReg(self, *, byte_size: int, relative: bool = False) -> int: ...
    @overload
    def readReg(self, region_name: str, *, byte_size: int, relative: bool = False) -> int: ...
    @overload
    def readReg(self, cid: int, rid: int, offset: int) -> int: ...
    def readReg(self, *args: Any, **keywords: Any) -> int:
        """Return what a register holds: ``(addr, relative=False)`` of the default region, ``(region_name, addr, relative)`` of
        another, ``(cid, rid, offset)`` of the engine in column `cid` and row `rid`, both counted from 0.

        Engines have 0x00 (whether it works), 0x10 and 0x14 (its share of the tiles written and read) and 0x3c.

        Raises InternalError if there is no such register.
        """
        if "cid" in keywords or (len(args) + len(keywords) == 3 and not _names_region(args, keywords)):
            return self._register(_engine(*args, **keywords)[0])
        return super().readReg(*args, **keywords)

    @overload
    def writeReg(self, addr: int, data: int, relative: bool = False) -> None: ...
    @overload
    def writeReg(self, region_name: str, addr: int, data: int, relative: bool = False) -> None: ...
    @overload
    def writeReg(self, cid: int, rid: int, offset: int, data: int) -> None: ...
    def writeReg(self, *args: Any, **keywords: Any) -> None:
        """Set a register: ``(addr, data, relative=False)`` of the default region, ``(region_name, addr, data, relative)`` of
        another, ``(cid, rid, offset, data)`` of an engine, which has one that can be set, 0x3c.

        Raises InternalError if there is no such register, or it cannot be set.
        """
        if "cid" in keywords or (len(args) + len(keywords) == 4 and not _names_region(args, keywords)):
            address, data = _engine(*args, **keywords)
            if not 0 <= data < 1 << 32:
                raise failure(TYPE, f"writeReg: {data} does not fit into 32 bits")
            self._native(lambda board: board.write_register(address, int(data)))
            return
        super().writeReg(*args, **keywords)

    # ---- the device

    def _reset(self, level: int) -> None:
        """Level 0 resets everything but memory, level 1 counters and timers."""
        self._native(lambda board: board.reset(_level("reset", level, 1)))

    def _check(self, level: int) -> bool:
        """Level 0 asks the board's state, level 1 also copies bytes to each memory and back."""
        self._register(self._counters["state"])
        if _level("check", level, 1) == 0:
            return True
        data = np.random.default_rng(level).integers(0, 256, 1 << 16, np.uint8)
        for name in ("plddr", "ocm", "udma"):
            chunk = self.getMemRegion(name).malloc(data.size)
            back = np.empty_like(data)
            chunk.write(0, data, data.size)
            chunk.read(back, 0, data.size)
            chunk.free()
            if not np.array_equal(back, data):
                return False
        return True

    def _status(self, level: int) -> str:
        """Level 0 is one line; level 1 has memory and counters, too."""
        parts = self._device_url
        kind = "" if self._computes() else " (memory and registers only)"
        lines = [f"{parts.protocol}://{parts.device}: {self._target}, open{kind}"]
        if _level("showStatus", level, 1) == 1:
            rows, columns = self.getRowsCols()
            lines.append(f"core: {self._setting('core_hz') / 1e6:g} MHz, {rows}x{columns} engines")
            for name in ("plddr", "ocm", "udma"):
                info = self.getMemRegion(name).memManager().getMemRegionInfo()
                lines.append(f"{name}: {info['used_byte_size']} of {info['region_byte_size']} bytes in use")
            lines += [f"{name}: {self._register(address)}" for name, address in self._counters.items()]
        return "\n".join(lines)

    def _version(self) -> dict[str, str]:
        # They came with the board; whether it is still there has to be asked.
        self._register(self._counters["state"])
        return self._native(lambda board: board.versions)

    def _json(self) -> Any:
        return {"_type_key": self._json_key(), "url": self._url}


def _names_region(args: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
    """Return whether the arguments of a call for a register begin with a region's name."""
    return isinstance(args[0], str) if args else "region_name" in keywords


def _engine(cid: Any, rid: Any, offset: Any, data: Any = None) -> tuple[int, Any]:
    return engine(cid, rid, offset), data


def _level(what: str, level: Any, most: int) -> int:
    if not 0 <= level <= most:
        raise failure(RANGE, f"{what}: there is no level {level}; there are 0 to {most}")
    return int(level)
