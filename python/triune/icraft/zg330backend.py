"""The vendor's module `zg330backend`: the backend of ZG330 devices, and what it tells about a deployment.

Names, signatures and error classes are the vendor's; docs/icraft.md says what differs.
"""

from __future__ import annotations

from triune.icraft._npu.zg330 import (
    ForwardInfo,
    HardOpInfo,
    LogicSegment,
    MemChunkInfo,
    OcmOpt,
    PhySegment,
    SegmentType,
    ValueInfo,
    ZG330Backend,
)
from triune.icraft._xrt.zg330_device import ZG330Device as ZG330Device  # Programs take it from here, too.

__all__ = [
    "BEST_SCORE",
    "FTMP",
    "INPUT",
    "INSTR",
    "NONE",
    "OPTION1",
    "OPTION2",
    "OPTION3",
    "OUTPUT",
    "WEIGHT",
    "ForwardInfo",
    "HardOpInfo",
    "LogicSegment",
    "MemChunkInfo",
    "OcmOpt",
    "PhySegment",
    "SegmentType",
    "ValueInfo",
    "ZG330Backend",
]

INPUT = SegmentType.INPUT
OUTPUT = SegmentType.OUTPUT
WEIGHT = SegmentType.WEIGHT
FTMP = SegmentType.FTMP
INSTR = SegmentType.INSTR
NONE = OcmOpt.NONE
OPTION1 = OcmOpt.OPTION1
OPTION2 = OcmOpt.OPTION2
OPTION3 = OcmOpt.OPTION3
BEST_SCORE = OcmOpt.BEST_SCORE
