"""The BUYI board: its clock, its engines, and its MMU."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np

from triune.icraft._xir.objects import ObjectRef
from triune.icraft._xrt.board import BoardDevice
from triune.icraft._xrt.errors import RANGE, TYPE, expect, failure
from triune.icraft._xrt.registers import BUYI

__all__ = ["BuyiDevice", "SegTable"]

_ENTRIES: Final = 32
_MMU: Final = BUYI["mmu"][0]
_START: Final = _MMU + 0x04
_MODE: Final = _MMU + 0x1C
_LOGICAL: Final = _MMU + 0x20
_DIFFERENCE: Final = _MMU + 0x120
_UNUSED: Final = (1 << 32) - 1
_NOT_GIVEN: Any = object()
_BITS: Final = {8: 8, 16: 16, 0: 8, 1: 16}


class SegTable(ObjectRef):
    """What the MMU does with addresses: logical bases, and physical minus logical addresses from each of them on.

    Both are up to 32 numbers of 32 bits, the bases in ascending order; differences count modulo 2^32, so that negative
    ones can be given, too. The first `size` are used.
    """

    type_key: ClassVar[str] = "icraft::xrt::SegTableNode"
    _fields = ("logic_bases_", "phy_bases_", "size")

    logic_bases_: list[int]
    phy_bases_: list[int]
    size: int

    def __init__(self, logi_bases: Sequence[int], phy_bases: Sequence[int], size: int | None = None) -> None:
        """Make a table of `size` entries, of all that are given without.

        Raises InternalError if there are more than 32, fewer than `size`, a number has more than 32 bits, or bases descend.
        """
        bases = [_word("logi_bases", value) for value in logi_bases]
        differences = [_word("phy_bases", value) for value in phy_bases]
        used = min(len(bases), len(differences)) if size is None else size
        if max(len(bases), len(differences)) > _ENTRIES or not 0 <= used <= min(len(bases), len(differences)):
            raise failure(
                RANGE,
                f"SegTable: size {used} of {len(bases)} logical and {len(differences)} physical bases; there can be {_ENTRIES}",
            )
        if any(low >= high for low, high in itertools.pairwise(bases[:used])):
            raise failure(RANGE, f"SegTable: the logical bases {bases[:used]} do not ascend")
        self.logic_bases_, self.phy_bases_, self.size = bases, differences, int(used)

    def _json(self) -> Any:
        return {
            "_type_key": self._json_key(),
            "logic_bases_": self.logic_bases_,
            "phy_bases_": self.phy_bases_,
            "size": self.size,
        }


class BuyiDevice(BoardDevice):
    """A BUYI board; ``BuyiDevice(device)`` is `device` if that is one. Without arguments a null handle."""

    type_key: ClassVar[str] = "icraft::xrt::BuyiDeviceNode"
    _other_names: ClassVar[dict[str, str]] = {}
    _target = "buyi"
    _register_regions = BUYI
    _counters: ClassVar[dict[str, int]] = {
        "state": 0x08,
        "layers": 0x0C,
        "tiles written": 0x10,
        "tiles read": 0x14,
        "cycles": 0x18,
        "mmu": _MODE,
    }

    def clkFreq(self) -> float:
        """Return the core's clock in Hz, 860e6 at first. Raises InternalError if the device has been closed."""
        return float(self._setting("core_hz"))

    def setClkFreq(self, clk_freq: float) -> None:
        """Set the core's clock in Hz, a whole number of MHz from 100e6 to 860e6. Times change, results do not.

        Raises InternalError naming the clocks that can be set.
        """
        expect("setClkFreq", clk_freq, (int, float, np.integer, np.floating), "a number of Hz")
        if not 0 <= clk_freq < 1 << 60:
            raise failure(RANGE, f"setClkFreq: {clk_freq} Hz is no clock")
        self._configure(core_hz=round(clk_freq))

    def setEnabledMPE(self, rows: int, cols: int) -> None:
        """Set how many rows and columns of engines work; times change, results do not.

        Raises InternalError if there are fewer.
        """
        for name, value in (("rows", rows), ("cols", cols)):
            if not 1 <= value < 1 << 32:
                raise failure(RANGE, f"setEnabledMPE: {name} {value} cannot be switched on")
        self._configure(engines=(int(rows), int(cols)))

    def setDType(self, dtype: int) -> None:
        """Set how many bits the core is timed at: 8 (0 is the same) or 16 (or 1). Results do not change.

        Raises InternalError for another number.
        """
        if isinstance(dtype, bool) or dtype not in _BITS:
            raise failure(RANGE, f"setDType: {dtype!r}; there are 8 and 16 bits")
        self._configure(bits=_BITS[dtype])

    def mmuModeSwitch(self, is_on: bool = _NOT_GIVEN, **keywords: bool) -> None:
        """Switch the MMU on, as it is at first, or off. On, addresses in ``plddr`` go through the table of `updateBuffer`.

        The published signature gives its parameter another name, which is taken, too.
        """
        if is_on is _NOT_GIVEN and len(keywords) == 1:
            ((name, is_on),) = keywords.items()
            if not name.startswith("is_on"):
                raise failure(TYPE, f"mmuModeSwitch: there is no parameter {name!r}")
        elif is_on is _NOT_GIVEN or keywords:
            raise failure(TYPE, "mmuModeSwitch: expected one argument, whether the MMU is on")
        mode = int(is_on)
        self._native(lambda board: board.write_register(_MODE, mode))

    def modeInfo(self) -> int:
        """Return 1 if the MMU is on, as it is at first, else 0: the register 0x1C of the region ``mmu``.

        Raises InternalError if the device has been closed.
        """
        return self._register(_MODE)

    def updateBuffer(self, seg_table: SegTable | None = None, **keywords: SegTable) -> None:
        """Put a table in force: from now on a logical address goes to it plus the difference of the last base that is not
        above it. Addresses of instructions, and of their segments in ``plddr``, are logical while the MMU is on; without a
        table, logical and physical addresses are the same.

        The published signature gives its parameter another name, which is taken, too.
        """
        if seg_table is None and len(keywords) == 1:
            ((name, seg_table),) = keywords.items()
            if not name.startswith("seg_table"):
                raise failure(TYPE, f"updateBuffer: there is no parameter {name!r}")
        table: Any = seg_table
        expect("updateBuffer", table, SegTable, "a SegTable")
        entries = list(zip(table.logic_bases_, table.phy_bases_, strict=False))[: table.size]
        if table.size == 0:
            entries = [(0, 0)]
        entries += [(_UNUSED, 0)] * (_ENTRIES - len(entries))

        def load(board: Any) -> None:
            for index, (logical, difference) in enumerate(entries):
                board.write_register(_LOGICAL + 4 * index, logical)
                board.write_register(_DIFFERENCE + 4 * index, difference)
            board.write_register(_START, 1)

        self._native(load)


def _word(what: str, value: Any) -> int:
    if not -(1 << 31) <= value < 1 << 32:
        raise failure(RANGE, f"SegTable: {what}: {value} has more than 32 bits")
    return int(value) % (1 << 32)
