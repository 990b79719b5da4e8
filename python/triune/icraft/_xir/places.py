"""Where values lie (`MemType`) and what runs an operation (`CompileTarget`), with their texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from triune.icraft._xir.enums import ZhugeTarget_Chips
from triune.icraft._xir.errors import Error
from triune.icraft._xir.objects import Concrete, ObjectRef

__all__ = [
    "BuyiTarget",
    "ChunkMem",
    "CompileTarget",
    "CustomTarget",
    "ExternalMem",
    "FPGATarget",
    "HostMem",
    "HostTarget",
    "MemType",
    "OnChipMem",
    "WolongTarget",
    "ZhugeTarget",
]


class _Textual(Concrete):
    """An object whose JSON is a string."""

    _is_mixin = True

    def _json(self) -> Any:
        return self._text()

    def _text(self) -> str:
        raise NotImplementedError


class MemType(ObjectRef):
    """Where a value lies."""

    type_key = "icraft::xir::MemTypeNode"


def _address(value: int, what: str) -> int:
    if not 0 <= value < 1 << 64:
        raise Error(f"{what}: {value} is no address; 0 to 2^64-1 are")
    return value


class HostMem(MemType, _Textual):
    """The host's memory, ``@hostm``."""

    type_key = "icraft::xir::HostMemNode"
    _null_by_default = False

    def __init__(self, arg0: ObjectRef | None = None, /) -> None:
        """Make one; there is nothing to say about it."""
        if arg0 is not None:
            super().__init__(arg0)

    def _text(self) -> str:
        return "@hostm"


class _Addressed(MemType, _Textual):
    """A memory with addresses."""

    _fields = ("_addr",)
    _defaults: ClassVar[Mapping[str, Any]] = {"_addr": 0}
    _word = ""
    _addr: int

    def __init__(self, addr: int | ObjectRef) -> None:
        """Take an address in bytes. Raises Error if it is negative or beyond 64 bits."""
        if not isinstance(addr, int):
            raise TypeError(f"{type(self).__name__}() takes an address, not {type(addr).__name__}")
        self.setAddr(addr)

    def setAddr(self, addr: int) -> Self:
        """Set the address in bytes, from the memory's beginning. Raises Error if it is negative or beyond 64 bits."""
        self._addr = _address(addr, type(self).__name__)
        return self

    @property
    def addr(self) -> int:
        """The address in bytes, from the memory's beginning; 0 at first."""
        return self._addr

    def _text(self) -> str:
        return f"@{self._word}({self._addr})"


class OnChipMem(_Addressed):
    """On-chip memory, ``@ocm(address)``."""

    type_key = "icraft::xir::OnChipMemNode"
    _word = "ocm"


class ExternalMem(_Addressed):
    """The accelerator's external memory, ``@etm(address)``."""

    type_key = "icraft::xir::ExternalMemNode"
    _word = "etm"


class ChunkMem(MemType, _Textual):
    """A place in a chunk whose address is found at run time, ``@chunk(id@offset)``."""

    type_key = "icraft::xir::ChunkMemNode"
    _fields = ("_chunk_id", "_offset")
    _defaults: ClassVar[Mapping[str, Any]] = {"_chunk_id": 0, "_offset": 0}
    _chunk_id: int
    _offset: int

    def __init__(self, chunk_id: int | ObjectRef, offset: int | None = None) -> None:
        """Take the chunk's number (16 bits) and an offset in bytes. Raises Error if they are out of range."""
        if not isinstance(chunk_id, int) or offset is None:
            raise TypeError("ChunkMem() takes the chunk's number and an offset")
        self.setAddr(chunk_id, offset)

    def setAddr(self, chunk_id: int, offset: int) -> Self:
        """Set the chunk's number, 0 to 65535, and the offset in bytes, 0 to 2^64-1. Raises Error if they are out of range."""
        if not 0 <= chunk_id < 1 << 16:
            raise Error(f"ChunkMem: {chunk_id} is no number of a chunk; 0 to 65535 are")
        self._chunk_id, self._offset = chunk_id, _address(offset, "ChunkMem")
        return self

    @property
    def chunk_id(self) -> int:
        """The chunk's number, 0 to 65535."""
        return self._chunk_id

    @property
    def offset(self) -> int:
        """The offset from the chunk's beginning in bytes."""
        return self._offset

    def _text(self) -> str:
        return f"@chunk({self._chunk_id}@{self._offset})"


class CompileTarget(ObjectRef):
    """What runs an operation."""

    type_key = "icraft::xir::CompileTargetNode"


class _Target(CompileTarget, _Textual):
    _null_by_default = False
    _word = ""

    def __init__(self, arg0: ObjectRef | None = None, /) -> None:
        """Make one; there is nothing to say about it."""
        if arg0 is not None:
            super().__init__(arg0)

    def _text(self) -> str:
        return f"@{self._word}"


class HostTarget(_Target):
    """The host's processor, ``@hostt``."""

    type_key = "icraft::xir::HostTargetNode"
    _word = "hostt"


class FPGATarget(_Target):
    """An operator in programmable logic, ``@fpgat``."""

    type_key = "icraft::xir::FPGATargetNode"
    _word = "fpgat"


class CustomTarget(_Target):
    """Something of the user's, ``@customt``."""

    type_key = "icraft::xir::CustomTargetNode"
    _word = "customt"


class BuyiTarget(_Target):
    """A Buyi accelerator, ``@buyit``."""

    type_key = "icraft::xir::BuyiTargetNode"
    _word = "buyit"


class WolongTarget(_Target):
    """A Wolong accelerator, ``@wolongt``."""

    type_key = "icraft::xir::WolongTargetNode"
    _word = "wolongt"


class ZhugeTarget(CompileTarget, _Textual):
    """A Zhuge accelerator, ``@zhuget(330)``."""

    type_key = "icraft::xir::ZhugeTargetNode"
    _null_by_default = False
    _fields = ("_core",)
    _defaults: ClassVar[Mapping[str, Any]] = {"_core": ZhugeTarget_Chips.ZG330}
    _core: ZhugeTarget_Chips

    def __init__(self, core: ZhugeTarget_Chips | ObjectRef = ZhugeTarget_Chips.ZG330) -> None:
        """Take the chip."""
        if isinstance(core, ObjectRef):
            raise TypeError(f"ZhugeTarget() takes a chip, not {type(core).__name__}")
        self._core = ZhugeTarget_Chips(core)

    @property
    def Core(self) -> ZhugeTarget_Chips:
        """The chip, ``ZG330`` at first."""
        return self._core

    def _text(self) -> str:
        return f"@zhuget({self._core.name.removeprefix('ZG')})"
