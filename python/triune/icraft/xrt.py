"""The vendor's module `xrt`: devices, memory, tensors, backends and sessions.

Names, signatures and error classes are the vendor's; docs/icraft.md says what differs, and what is not there yet.
"""

from __future__ import annotations

from triune.icraft._xir.layout import Layout as Layout  # Programs take it from here, too.
from triune.icraft._xrt.backend import Backend
from triune.icraft._xrt.buyi_device import BuyiDevice, SegTable
from triune.icraft._xrt.device import Device, HostDevice, RegRegion
from triune.icraft._xrt.memory import HostMemRegion, MemChunk, MemManager, MemRegion
from triune.icraft._xrt.pointer import MemPtr, PtrType
from triune.icraft._xrt.registry import ICRAFT_ADD_OP_TO_BACKEND, BackendOpRegistry
from triune.icraft._xrt.session import Session
from triune.icraft._xrt.tensor import Tensor
from triune.icraft._xrt.zg330_device import ZG330Device

__all__ = [
    "ADDR",
    "BOTH",
    "CPTR",
    "ICRAFT_ADD_OP_TO_BACKEND",
    "Backend",
    "BackendOpRegistry",
    "BuyiDevice",
    "Device",
    "HostDevice",
    "HostMemRegion",
    "MemChunk",
    "MemManager",
    "MemPtr",
    "MemRegion",
    "PtrType",
    "RegRegion",
    "SegTable",
    "Session",
    "Tensor",
    "ZG330Device",
]

ADDR = PtrType.ADDR
BOTH = PtrType.BOTH
CPTR = PtrType.CPTR


def __getattr__(name: str) -> object:
    """Say why a device is not there that programs for newer tools ask for."""
    text = f"module {__name__!r} has no attribute {name!r}"
    if name == "WL170Device":
        from triune.icraft._xrt.wl170 import WHY

        text = f"{text}: {WHY}"
    raise AttributeError(text, name=name)
