"""The WL170, of which nothing is published that it could be built from: what asks for it is told so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from triune.icraft._xir.enums import VendorEnum
from triune.icraft._xrt.backend import Backend
from triune.icraft._xrt.errors import BACKEND, NotSupported

if TYPE_CHECKING:
    from typing import NoReturn

__all__ = ["WHY", "OcmOptMethod", "WL170Backend"]

WHY = (
    "there is no WL170 (Wolong): its operators, memories, registers and timing are not published. HostBackend computes "
    "networks of the steps before generate; for an accelerator, compile for zg330 or buyi"
)


class WL170Backend(Backend):
    """The backend of WL170 devices, which cannot be made: programs that can do without it import its module."""

    type_key = "icraft::xrt::WL170BackendNode"
    _null_by_default = False

    def __init__(self, *given: Any) -> None:
        """Raise NotSupported: there is no WL170."""
        self.Init()

    @classmethod
    def Init(cls) -> NoReturn:
        """Raise NotSupported: there is no WL170."""
        raise NotSupported(f"[{BACKEND}] WL170Backend: {WHY}")


class OcmOptMethod(VendorEnum):
    """How the on-chip memory is shared out."""

    Option1 = 1
    Option2 = 2
    Option3 = 3
    Option4 = 4
