"""What backends of accelerators need of a device that is a board: its regions of memory, and a way to run commands."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from triune import _native
from triune.icraft._npu.chunks import PAGE, address
from triune.icraft._xrt.board import BoardDevice, BoardMemRegion
from triune.icraft._xrt.device import Device
from triune.icraft._xrt.url import DEVICES

if TYPE_CHECKING:
    from triune.icraft._xrt.memory import MemChunk

__all__ = ["Port"]


class Port:
    """A board as backends see it."""

    def __init__(self, device: BoardDevice, *, stands_in: bool = False) -> None:
        self.device = device
        self.stands_in = stands_in
        """Whether it is there because the program gave no board: what is deployed can be looked at, and does not run."""
        self.accelerator = device._target
        self.url = device._url
        self.far_region = _region(device, "plddr")
        self.near_region = _region(device, "ocm")

    @staticmethod
    def of(device: Any) -> Port | None:
        """Return the port of a device, None if it is no board."""
        return Port(device) if isinstance(device, BoardDevice) and device.defined() else None

    @staticmethod
    def standing_in(accelerator: str) -> Port:
        """Return memory and registers like an accelerator's, for a program that gave no board."""
        device = Device.Open(f"mock://{next(name for name, target in DEVICES.items() if target == accelerator)}")
        assert isinstance(device, BoardDevice)
        return Port(device, stands_in=True)

    @property
    def core(self) -> AbstractContextManager[Any]:
        """Hold it while commands run, and as long as what others may overwrite on the chip is needed."""
        return self.device._core

    @property
    def computes(self) -> bool:
        """Whether it runs commands."""
        return self.device._computes()

    def far(self, size: int) -> MemChunk:
        """Allocate bytes in the far memory, at a page. Raises InternalError if there is no room."""
        return self.far_region.malloc(max(size, 1), True, PAGE)

    def near(self, size: int, shared: bool) -> MemChunk:
        """Return bytes on the chip; `shared` with others whose values lie there no longer than a run of commands.

        Raises InternalError if there is no room.
        """
        known = self._shared_near() if shared else None
        if known is not None and known.byte_size >= size:
            return known
        if shared:
            return self.share_near(size)
        return self.near_region.malloc(size, True, PAGE)

    def share_near(self, size: int) -> MemChunk:
        """Return new bytes on the chip, which `near` shares from now on. Raises InternalError if there is no room."""
        chunk = self.near_region.malloc(size, True, PAGE)
        self.device.__dict__["_shared_near"] = weakref.ref(chunk)
        return chunk

    def near_room(self, shared: bool) -> int:
        """Return how many bytes `near` has at most."""
        known = self._shared_near() if shared else None
        return max(self.near_free(), 0 if known is None else known.byte_size)

    def _shared_near(self) -> MemChunk | None:
        found: weakref.ref[MemChunk] | None = self.device.__dict__.get("_shared_near")
        return None if found is None else found()

    def near_free(self, without: Iterable[MemChunk] = ()) -> int:
        """Return how many bytes lie free together on the chip, or would without some chunks."""
        region, gone = self.near_region._on_board, [address(chunk) for chunk in without]
        return self.device._native(lambda board: board.room(region, PAGE, gone))

    @property
    def placements(self) -> weakref.WeakSet[Any]:
        """What this process has placed on the board."""
        found: weakref.WeakSet[Any] = self.device.__dict__.setdefault("_placements", weakref.WeakSet())
        return found

    @property
    def board(self) -> _native.Board:
        """The board itself. Raises InternalError once the device is closed."""
        board = self.device._board
        if board is None:
            self.device._check_open("forward")
            raise AssertionError
        return board


def _region(device: BoardDevice, name: str) -> BoardMemRegion:
    region = device.getMemRegion(name)
    assert isinstance(region, BoardMemRegion)
    return region
