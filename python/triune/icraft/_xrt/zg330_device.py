"""The ZG330 board: its clocks, and the records of layers' times that it writes."""

from __future__ import annotations

from typing import ClassVar, Final

import numpy as np

from triune.icraft._xrt.board import BoardDevice
from triune.icraft._xrt.errors import ORDER, RANGE, TYPE, expect, failure
from triune.icraft._xrt.memory import MemChunk
from triune.icraft._xrt.registers import ENGINE_READ_TILES, ENGINE_WRITTEN_TILES, ZG330

__all__ = ["ZG330Device"]

_TIMER_RECORD: Final = 16
"""Bytes of a layer's record: first and last cycle, 64 bits each."""


class ZG330Device(BoardDevice):
    """A ZG330 board; ``ZG330Device(device)`` is `device` if that is one. Without arguments a null handle."""

    type_key: ClassVar[str] = "icraft::xrt::ZG330DeviceNode"
    _target = "zg330"
    _register_regions = ZG330
    _counters: ClassVar[dict[str, int]] = {
        "state": 0x08,
        "layers": 0x0C,
        "tiles written": 0x10,
        "tiles read": 0x14,
        "cycles": 0x18,
    }

    _master_cid: int = 1

    def setIcoreClkFreq(self, freq_hz: int) -> None:
        """Set the core's clock in Hz, a whole number of MHz; 1000e6 at first.

        Raises InternalError naming the clocks that can be set.
        """
        self._configure(core_hz=_hertz("setIcoreClkFreq", freq_hz))

    def setDDRClkFreq(self, freq_hz: int) -> None:
        """Set the clock of ``plddr`` in Hz, 333e6 at first; its bandwidth is proportional to it.

        Raises InternalError naming the clocks that can be set.
        """
        self._configure(memory_hz=_hertz("setDDRClkFreq", freq_hz))

    def setMasterCID(self, master_cid: int) -> None:
        """Set the column that leads the others, 1 at first; nothing that is modelled depends on it.

        Raises InternalError if there is no such column.
        """
        _, columns = self.getRowsCols()
        if not 0 <= master_cid < columns:
            raise failure(RANGE, f"setMasterCID: there is no column {master_cid}; there are 0 to {columns - 1}")
        self._master_cid = int(master_cid)

    def rTileCount(self, cid: int) -> int:
        """Return how many tiles the engines of a column have read from ``plddr`` since the last reset.

        What a command moves is counted in tiles of 4096 bytes, the last of which may be smaller, and spread over the engines.

        Raises InternalError if there is no such column.
        """
        return self._engine_tiles(cid, ENGINE_READ_TILES)

    def wTileCount(self, cid: int) -> int:
        """Return how many tiles the engines of a column have written to ``plddr`` since the last reset, counted as
        `rTileCount` does.

        Raises InternalError if there is no such column.
        """
        return self._engine_tiles(cid, ENGINE_WRITTEN_TILES)

    def configTimer(self, chunk: MemChunk) -> None:
        """Let every run write into a chunk of this device when its layers started and ended.

        The n-th layer since the last reset writes the n-th 16 bytes: first and last cycle, 64 bits each, little endian, counted
        from the last reset without the time between runs. Layers beyond the chunk write nothing. A chunk without bytes, or
        freeing the chunk, ends it.

        Raises InternalError if the chunk is not on this device.
        """
        self._record("timer", "configTimer", chunk)

    def configProfiler(self, chunk: MemChunk) -> None:
        """Let every run write into a chunk of this device what its layers did.

        As `configTimer`, with 64 bytes per layer: first and last cycle, cycles computed, cycles waited for loads, cycles waited
        for stores, bytes read from ``plddr``, bytes written to it, multiply-accumulates.

        Raises InternalError if the chunk is not on this device.
        """
        self._record("profiler", "configProfiler", chunk)

    def showLayerTime(self, from_idx: int, op_cnt: int) -> None:
        """Print what the timer wrote of `op_cnt` layers from number `from_idx` on, in microseconds at the clock that is set.

        Raises InternalError if no timer is configured, or its chunk has no room for so many.
        """
        timer = self._setting("timer")
        if timer is None:
            raise failure(ORDER, "showLayerTime: there is no timer; configTimer(chunk) sets it up")
        region, start, byte_size = timer
        room = byte_size // _TIMER_RECORD
        if not 0 <= from_idx <= room or not 0 <= op_cnt <= room - from_idx:
            raise failure(
                RANGE, f"showLayerTime: layers {from_idx} to {from_idx + op_cnt}; the timer's chunk has room for {room}"
            )
        records = np.empty((int(op_cnt), 2), np.uint64)
        place = start + int(from_idx) * _TIMER_RECORD
        self._native(lambda board: board.read(region, place, records))
        microseconds = 1e6 / self._setting("core_hz")
        for index, (first, last) in enumerate(records.tolist(), int(from_idx)):
            print(f"layer {index}: {(last - first) * microseconds:.3f} us, cycles {first} to {last}")


def _hertz(what: str, value: object) -> int:
    expect(what, value, (int, float, np.integer), "a number of Hz")
    number: float = value  # type: ignore[assignment]
    if not 0 <= number < 1 << 60:
        raise failure(RANGE, f"{what}: {value} Hz is no clock")
    if number != int(number):
        raise failure(TYPE, f"{what}: {value} Hz is no whole number")
    return int(number)
