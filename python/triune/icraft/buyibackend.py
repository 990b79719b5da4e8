"""The vendor's module `buyibackend`: the backend of BUYI devices, and what it tells about a deployment.

Names, signatures and error classes are the vendor's; docs/icraft.md says what differs.
"""

from __future__ import annotations

from triune.icraft._npu.buyi import (
    BuyiBackend,
    ForwardInfo,
    HardOpInfo,
    LogicSegment,
    PhySegment,
    Segment,
    ValueInfo,
)
from triune.icraft._xrt.buyi_device import BuyiDevice as BuyiDevice  # Programs take it from here, too.

__all__ = [
    "FTMP",
    "INPUT",
    "INSTR",
    "OUTPUT",
    "WEIGHT",
    "BuyiBackend",
    "ForwardInfo",
    "HardOpInfo",
    "LogicSegment",
    "PhySegment",
    "Segment",
    "ValueInfo",
]

WEIGHT = Segment.WEIGHT
INSTR = Segment.INSTR
INPUT = Segment.INPUT
OUTPUT = Segment.OUTPUT
FTMP = Segment.FTMP
