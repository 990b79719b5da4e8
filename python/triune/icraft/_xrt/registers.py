"""Registers of boards: regions of them, by the addresses that the vendor's headers give."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Final

from triune.icraft._xrt.device import RegRegion
from triune.icraft._xrt.errors import RANGE, TYPE, failure

if TYPE_CHECKING:
    from triune.icraft._xrt.board import BoardDevice

__all__ = ["BUYI", "ENGINE_READ_TILES", "ENGINE_WRITTEN_TILES", "ZG330", "BoardRegRegion", "engine"]

BUYI: Final = {
    "npu": (0, 1 << 33),
    "icore": (0x40000, 0x1000),
    "mmu": (0x1_0000_2000, 0x1000),
    "pldma": (0x1_0004_1000, 0x1000),
    "imagemake": (0x1_000C_0000, 0x1000),
}
"""Regions of a BUYI board's registers: base in the board's window, and bytes. ``npu`` is all of the window."""
ZG330: Final = {"npu": (0, 1 << 33), "icore": (0x40000, 0x1000)}
"""The same for ZG330."""

_UPPER: Final = 1 << 32

ENGINE_WRITTEN_TILES: Final = 0x10
"""Where an engine's register for the tiles that it wrote lies."""
ENGINE_READ_TILES: Final = 0x14
"""The same for those that it read."""


def engine(cid: int, rid: int, offset: int) -> int:
    """Return the address of the register of the engine in column `cid` and row `rid`.

    Raises InternalError if a number cannot be one.
    """
    for name, value, most in (("cid", cid, 127), ("rid", rid, 255), ("offset", offset, 0xFFFF)):
        if not 0 <= value <= most:
            raise failure(RANGE, f"{name} {value}: 0 to {most} can be")
    return 0x2_0000_0000 + (int(cid) << 24) + (int(rid) << 16) + int(offset)


class BoardRegRegion(RegRegion):
    """Registers of a board."""

    type_key: ClassVar[str] = "icraft::xrt::RegRegionNode"

    _base: int
    _bytes: int
    _windows: dict[int, int]

    @classmethod
    def _of(cls, name: str, base: int, byte_size: int, npu: int, dma: int) -> BoardRegRegion:
        """Return the region at `base` of a board's window.

        Absolute addresses from `npu` on lie at the window's beginning, those from `dma` on at its upper half.
        """
        region = cls._new()
        region._set_up(name)
        region._base, region._bytes, region._windows = base, byte_size, {npu: 0, dma: _UPPER}
        return region

    def _board_device(self) -> BoardDevice:
        device: BoardDevice = self.device()  # type: ignore[assignment]  # set up by it
        return device

    def _place(self, addr: int, relative: bool) -> int:
        place = int(addr) + self._base
        if not relative:
            below = max((start for start in self._windows if start <= addr), default=None)
            place = -1 if below is None else int(addr) - below + self._windows[below]
        within = place - self._base
        if not 0 <= within < self._bytes:
            ends = f"relative=True takes 0x0 to {self._bytes - 1:#x}"
            if not relative:
                spans = [f"{first:#x} to {last:#x}" for first, last in self._absolute()]
                ends = f"absolute addresses are {' and '.join(spans)}; {ends}"
            kind = "relative" if relative else "absolute"
            raise failure(
                RANGE, f"register region {self._name!r}: the {kind} address {int(addr):#x} is outside of it: {ends}"
            )
        return self._base + within

    def _absolute(self) -> Iterator[tuple[int, int]]:
        """Yield the first and the last absolute address of each window's part that lies in the region."""
        starts = sorted(self._windows)
        for start, behind in itertools.zip_longest(starts, starts[1:]):
            first = start + max(self._base - self._windows[start], 0)
            end = start + self._base + self._bytes - self._windows[start]
            end = end if behind is None else min(end, behind)
            if first < end:
                yield first, end - 1

    def _read(self, addr: int, relative: bool) -> int:
        place, device = self._place(addr, relative), self._board_device()
        return device._native(lambda board: board.read_register(place))

    def _write(self, addr: int, data: int, relative: bool) -> None:
        place, device = self._place(addr, relative), self._board_device()
        if not 0 <= data < 1 << 32:
            raise failure(TYPE, f"register region {self._name!r}: {data} does not fit into 32 bits")
        device._native(lambda board: board.write_register(place, int(data)))
