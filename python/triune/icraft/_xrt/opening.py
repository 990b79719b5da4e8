"""From a URL to a device."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING, Final

from triune import _native
from triune.icraft._xrt.board import BoardDevice
from triune.icraft._xrt.buyi_device import BuyiDevice
from triune.icraft._xrt.errors import DEVICE, failure
from triune.icraft._xrt.remote import connect
from triune.icraft._xrt.url import parse
from triune.icraft._xrt.zg330_device import ZG330Device

if TYPE_CHECKING:
    from triune.icraft._xrt.url import DeviceUrl

__all__ = ["open_device"]

_FEW: Final = 8
"""Simulated boards that may be alive before those that nobody has are looked for."""
_looked_at = _FEW
_ALIVE: Final[weakref.WeakSet[_native.Board]] = weakref.WeakSet()

_KINDS: Final[dict[str, type[BoardDevice]]] = {kind._target: kind for kind in (BuyiDevice, ZG330Device)}


def open_device(url: str) -> BoardDevice:
    """Open the device behind a URL; see `Device.Open`."""
    parts = parse(url)
    try:
        board = _connected(parts) if parts.protocol == "socket" else _simulated(parts)
    except _native.Error as error:
        raise failure(DEVICE, f"Device.Open({url!r}): {error}") from error
    # buyi-RxC is a BUYI with fewer engines.
    if board.device.partition("-")[0] != parts.target:
        found = board.device
        board.close()
        raise failure(DEVICE, f"Device.Open({url!r}): the board there is a {found}, not a {parts.target}")
    return _KINDS[parts.target]._of(parts, board)


def _simulated(parts: DeviceUrl) -> _native.Board:
    """Return a new board; those that refer to nothing but themselves, as devices and sessions do, do not add up."""
    global _looked_at
    if len(_ALIVE) >= _looked_at:
        gc.collect()
        # So that a program with many boards pays for looking as often as their number doubles.
        _looked_at = max(_FEW, 2 * len(_ALIVE))
    try:
        board = _native.Board.local(parts.target, parts.protocol != "mock")
    except MemoryError:
        if not gc.collect():
            raise
        board = _native.Board.local(parts.target, parts.protocol != "mock")
    _ALIVE.add(board)
    return board


def _connected(parts: DeviceUrl) -> _native.Board:
    try:
        return connect(parts)
    except _native.BoardInUseError:
        # What refers to itself, as sessions do, keeps its board until it is looked for.
        if not gc.collect():
            raise
        return connect(parts)
