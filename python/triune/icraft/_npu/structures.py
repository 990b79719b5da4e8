"""What backends of accelerators tell about a deployment: values, operators, segments, chunks of memory.

Each kind of backend has classes of its own that derive from these. Objects show a deployment as it was when they were asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

from triune.icraft._xir.enums import VendorEnum
from triune.icraft._xir.errors import InternalError
from triune.icraft._xir.objects import ObjectRef
from triune.icraft._xir.values import Value
from triune.icraft._xrt.memory import MemChunk

if TYPE_CHECKING:
    from triune.icraft._xir.operation import Operation

__all__ = ["ForwardInfo", "HardOpInfo", "LogicSegment", "MemChunkInfo", "PhySegment", "Record", "ValueInfo"]


class Record(ObjectRef):
    """Facts by name, not to be changed; without arguments a null handle."""

    _names: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def _of(cls, **facts: Any) -> Self:
        record = cls._new()
        record.__dict__["_facts"] = facts
        return record

    _facts: dict[str, Any]

    def _fact(self, name: str) -> Any:
        if not self.defined():
            raise InternalError(f"null handle: {type(self).__name__}.{name} has no object behind it")
        return self._facts[name]

    def _equals(self, other: Any) -> bool:
        return bool(self._facts == other._facts)

    def _clone(self, depth: int) -> Self:
        return type(self)._of(**self._facts)

    def _json(self) -> Any:
        facts = {name: _shown(fact) for name, fact in self._facts.items()}
        return {"_type_key": self._json_key(), **facts}


def _shown(fact: Any) -> Any:
    if isinstance(fact, Value):
        return fact.v_id if fact.defined() else None
    if isinstance(fact, VendorEnum):
        return fact.name
    if isinstance(fact, bytes):
        return f"{len(fact)} bytes"
    if isinstance(fact, MemChunk | Record):
        return fact._json() if fact.defined() else None
    if isinstance(fact, dict):
        return {str(key): _shown(item) for key, item in fact.items()}
    if isinstance(fact, list | tuple):
        return [_shown(item) for item in fact]
    if isinstance(fact, ObjectRef):
        return getattr(fact, "op_id", None) if fact.defined() else None
    return fact


class ValueInfo(Record):
    """Where a value lies."""

    @property
    def value(self) -> Value:
        """The network's value, the network's own object."""
        found: Value = self._fact("value")
        return found

    @property
    def real(self) -> bool:
        """Whether the memory is the value's own; otherwise it is that of `fake_from`."""
        return bool(self._fact("real"))

    @property
    def is_ocm(self) -> bool:
        """Whether it lies in the memory on the chip."""
        return bool(self._fact("is_ocm"))

    @property
    def is_host(self) -> bool:
        """Whether it lies in the host's memory: False, as values of the accelerator do not."""
        return bool(self._fact("is_host"))

    @property
    def real_to(self) -> list[Value]:
        """The values that lie in this one's memory. A new list."""
        return list(self._fact("real_to"))

    @property
    def fake_from(self) -> Value:
        """The value whose memory this one lies in, a null handle if the memory is its own."""
        found: Value = self._fact("fake_from")
        return found

    @property
    def logic_addr(self) -> int:
        """Logical address in bytes; on the chip, the address there."""
        return int(self._fact("logic_addr"))

    @property
    def phy_addr(self) -> int:
        """Address in the device's memory in bytes; 0 before `apply`."""
        return int(self._fact("phy_addr"))

    @property
    def byte_size(self) -> int:
        """Bytes of its elements, padding of blocks included."""
        return int(self._fact("byte_size"))

    @property
    def segment(self) -> Any:
        """Its segment: a `SegmentType` of ZG330, a `Segment` of BUYI."""
        return self._fact("segment")


class HardOpInfo(Record):
    """Where an operation's instructions and weights lie."""

    @property
    def weights_logic_addr(self) -> int:
        """Logical address of the weights in bytes; 0 without weights."""
        return int(self._fact("weights_logic_addr"))

    @property
    def weights_size(self) -> int:
        """Bytes from the first of its weights to the end of the last; 0 without weights."""
        return int(self._fact("weights_size"))

    @property
    def instr_logic_addr(self) -> int:
        """Logical address of the instructions in bytes."""
        return int(self._fact("instr_logic_addr"))

    @property
    def instr_size(self) -> int:
        """Bytes of the instructions, a multiple of 8; of merged operations of all together."""
        return int(self._fact("instr_size"))

    @property
    def instr_phy_addr(self) -> int:
        """Address of the instructions in the device's memory in bytes; 0 before `apply`."""
        return int(self._fact("instr_phy_addr"))

    @property
    def weight_phy_addr(self) -> int:
        """Address of the weights in the device's memory in bytes; 0 before `apply`, and without weights."""
        return int(self._fact("weight_phy_addr"))

    @property
    def net_hardop(self) -> Operation:
        """The operation; of merged ones the one that stands for them."""
        found: Operation = self._fact("net_hardop")
        return found

    @property
    def sync_idx(self) -> tuple[int, int]:
        """Its place among the backend's operations, and the layers that are done when it is (`layerCount`)."""
        found: tuple[int, int] = self._fact("sync_idx")
        return found

    @property
    def merge_from(self) -> list[int]:
        """Numbers (`Operation.op_id`) of the operations that were merged into it; empty if none were."""
        return list(self._fact("merge_from"))


class _Segment(Record):
    """A segment, and what is in it."""

    @property
    def segment_type(self) -> Any:
        """Which segment it is: a `SegmentType` of ZG330, a `Segment` of BUYI."""
        return self._fact("segment_type")

    @property
    def byte_size(self) -> int:
        """Its size in bytes, what lies between its values included."""
        return int(self._fact("byte_size"))

    @property
    def info_map(self) -> dict[int, Any]:
        """The values in it, a `ValueInfo` by the value's number (`Value.v_id`). A new dictionary."""
        return dict(self._fact("info_map"))

    @property
    def hardop_map(self) -> dict[int, Any]:
        """The operations that have something in it, a `HardOpInfo` by the operation's number (`Operation.op_id`). A new
        dictionary."""
        return dict(self._fact("hardop_map"))


class LogicSegment(_Segment):
    """A segment by logical addresses."""

    @property
    def logic_addr(self) -> int:
        """Its first byte's logical address, in bytes."""
        return int(self._fact("logic_addr"))


class MemChunkInfo(Record):
    """A chunk of memory that a segment lies in."""

    @property
    def memChunk(self) -> MemChunk:
        """The chunk."""
        found: MemChunk = self._fact("memChunk")
        return found

    @property
    def user_used(self) -> bool:
        """Whether the program allocated it, and not the backend."""
        return bool(self._fact("user_used"))

    @property
    def staged_chunk(self) -> dict[int, MemChunk]:
        """Chunks that values are brought to or from because they cannot lie in the program's chunk, by number of the value."""
        return dict(self._fact("staged_chunk"))


class PhySegment(_Segment):
    """A segment by addresses in the device's memory."""

    @property
    def phy_addr(self) -> int:
        """Its first byte's address in the device's memory, in bytes."""
        return int(self._fact("phy_addr"))


class ForwardInfo(Record):
    """What running needs to know."""

    @property
    def value_map(self) -> dict[int, Any]:
        """All values, a `ValueInfo` by the value's number (`Value.v_id`). A new dictionary."""
        return dict(self._fact("value_map"))

    @property
    def hardop_map(self) -> dict[int, Any]:
        """All operations, merged ones included, a `HardOpInfo` by the operation's number (`Operation.op_id`). A new
        dictionary."""
        return dict(self._fact("hardop_map"))

    @property
    def idx_map(self) -> dict[int, tuple[int, int]]:
        """`HardOpInfo.sync_idx` of each operation, place and layers, by the operation's number. A new dictionary."""
        return dict(self._fact("idx_map"))
