"""BUYI's backend: the vendor's options and structures on `NpuBackend`."""

from __future__ import annotations

from typing import Any, ClassVar, Final

import numpy as np

from triune.icraft._npu import structures
from triune.icraft._npu.backend import NpuBackend
from triune.icraft._npu.chunks import BURST, check_chunk
from triune.icraft._npu.report import Kinds, Report
from triune.icraft._xir.enums import VendorEnum
from triune.icraft._xir.objects import plain
from triune.icraft._xir.values import Value
from triune.icraft._xrt.errors import ORDER, RANGE, failure
from triune.icraft._xrt.logic import DET_POST, IMAGE_MAKE
from triune.icraft._xrt.memory import MemChunk

__all__ = ["BuyiBackend", "ForwardInfo", "HardOpInfo", "LogicSegment", "PhySegment", "Segment", "ValueInfo"]


class Segment(VendorEnum):
    """The segments of a deployment."""

    WEIGHT = 0
    INSTR = 1
    INPUT = 2
    OUTPUT = 3
    FTMP = 4


class ValueInfo(structures.ValueInfo):
    """Where a value lies."""

    type_key: ClassVar[str] = "icraft::xrt::ValueInfoNode"

    @property
    def user_used(self) -> bool:
        """Whether it lies in a chunk of the program's."""
        return bool(self._fact("user_used"))


class HardOpInfo(structures.HardOpInfo):
    """Where an operation's instructions and weights lie."""

    type_key: ClassVar[str] = "icraft::xrt::HardOpInfoNode"

    @property
    def instr_logic_size(self) -> int:
        """Bytes of the instructions: `instr_size` by the manual's name for this device."""
        return int(self._fact("instr_size"))

    @property
    def instr_data(self) -> list[int]:
        """The instructions as numbers of 64 bits without sign, `instr_size` / 8 of them."""
        words: list[int] = np.frombuffer(self._fact("instr_data"), np.uint64).tolist()
        return words

    @property
    def user_used(self) -> bool:
        """Whether the instructions lie in a chunk of the program's."""
        return bool(self._fact("user_used"))


class LogicSegment(structures.LogicSegment):
    """A segment by logical addresses."""

    type_key: ClassVar[str] = "icraft::xrt::LogicSegmentNode"


class PhySegment(structures.PhySegment):
    """A segment by addresses in the device's memory."""

    type_key: ClassVar[str] = "icraft::xrt::PhySegmentNode"

    @property
    def memchunk(self) -> MemChunk:
        """The chunk, a null handle if the segment has no bytes."""
        found: MemChunk = self._fact("memchunk")
        return found

    @property
    def user_used(self) -> bool:
        """Whether the chunk is the program's."""
        return bool(self._fact("user_used"))


class ForwardInfo(structures.ForwardInfo):
    """What running needs to know."""

    type_key: ClassVar[str] = "icraft::xrt::ForwardInfoNode"


_KINDS: Final = Kinds(ValueInfo, HardOpInfo, LogicSegment, PhySegment, ForwardInfo, Segment)


class BuyiBackend(NpuBackend):
    """What computes operations with commands on a BUYI device; without arguments a null handle.

    Every operation runs by itself, and every feature map has memory of its own, unless it is told otherwise before `apply`.
    What stays on the chip is what the network was compiled for.
    """

    type_key: ClassVar[str] = "icraft::xrt::BuyiBackendNode"
    _accelerator = "buyi"
    _target = "buyit"
    _steps = BURST
    _packed = True
    _image_make = IMAGE_MAKE
    _det_post = DET_POST[0]
    _kinds = _KINDS

    def _defaults(self) -> None:
        super()._defaults()
        self._merging, self._reuse, self._on_chip = False, False, "compiled"

    # ---- options, before apply

    def speedMode(self) -> None:
        """Run operations in a row as one. Off at first. Raises InternalError as `compressFtmp` does."""
        self._without_mmu("speedMode")
        self._merging = True

    def compressFtmp(self) -> None:
        """Let feature maps share memory in turn.

        Raises InternalError after `apply`, with the device's MMU on (``BuyiDevice.mmuModeSwitch(False)``), and if the network
        was compiled with operators merged or feature maps compressed.
        """
        self._without_mmu("compressFtmp")
        self._reuse = True

    def userSetSegment(self, memchunk: MemChunk, segment_type: Segment, offset: int = 0) -> None:
        """Let a segment lie in a chunk of the program's, from `offset` on.

        Backends of one network can share weights and, if they do not run at once, feature maps; an output of one network can
        be the input of another.

        Raises InternalError as `compressFtmp` does, and for a chunk that is not in the device's memory, or where the segment
        would not begin at a multiple of 64, or that is too small.
        """
        what = "userSetSegment"
        self._without_mmu(what)
        if offset < 0:
            raise failure(RANGE, f"{what}: offset {offset}")
        name = segment_type.name.lower()
        made = [op for op in self.network_view.ops if op.typeKey() == IMAGE_MAKE and self._is_logic(op)]
        if name == "output" and made and not self._hard_ops:
            # A session of the picture's logic alone: its result is the other's input.
            need = made[0].outputs[0].storageBytes()
            self._image_chunk = (
                check_chunk(f"{what}({segment_type})", memchunk, self._port, need, offset, self._steps),
                offset,
            )
            return
        need = self._deployment.segments[name][1]
        chunk = check_chunk(f"{what}({segment_type})", memchunk, self._port, need, offset, self._steps)
        if name in ("input", "output"):
            self._requests.edges[name] = (chunk, offset)
            return
        if offset:
            chunk = _part(chunk, offset)
        self._requests.segments[name] = chunk

    setUserSegment = userSetSegment

    def _mmu_mode(self) -> int:
        device: Any = self._port.device
        return int(device.modeInfo())

    def _without_mmu(self, what: str) -> None:
        self._before_apply(what)
        if self._mmu_mode():
            raise failure(
                ORDER, f"{what}: the device's MMU is on: BuyiDevice(device).mmuModeSwitch(False) switches it off"
            )
        tags = self.network_view.network().tags
        for tag in ("speedmode", "compressFtmp"):
            if tag in tags and plain(tags[tag]):
                raise failure(ORDER, f"{what}: the network was compiled with {tag}; compile it without")

    # ---- what it is

    @property
    def buyibackend_id(self) -> int:
        """The backend's number in this process, which the file of `log` has in its name."""
        return self._id

    @property
    def is_applied_(self) -> bool:
        """Whether `apply` was called."""
        return self._applied

    @property
    def is_speedmode_(self) -> bool:
        """Whether operations in a row run as one: False unless `speedMode` was called."""
        return self._merging

    @property
    def is_compressftmp_(self) -> bool:
        """Whether feature maps share memory in turn: False unless `compressFtmp` was called."""
        return self._reuse

    @property
    def is_mmu(self) -> bool:
        """Whether the device's MMU is on, asked anew of the device each time.

        Raises InternalError if the device has been closed.
        """
        return bool(self._mmu_mode())

    def getDeploySize(self) -> int:
        """Return the bytes of all segments together by the options as they are, before `apply`, too.

        Raises InternalError if no network is bound.
        """
        return sum(size for _, size in self._deployment.segments.values())

    getDepolySize = getDeploySize

    # ---- what is deployed

    @property
    def value_info(self) -> dict[int, ValueInfo]:
        """The values that the operations read and make, a `ValueInfo` by the value's number (`Value.v_id`). A new dictionary."""
        return dict(self._report.values)

    @property
    def value_list(self) -> list[Value]:
        """The values that have memory of their own (`ValueInfo.real`). A new list."""
        return [info.value for info in self._report.values.values() if info.real]

    @property
    def logic_segment_map(self) -> dict[Segment, LogicSegment]:
        """The segments by logical addresses, as the options have them now; after `apply` as they were applied."""
        return self._report.logic_segments()

    @property
    def phy_segment_map(self) -> dict[Segment, PhySegment]:
        """The segments by addresses in the device's memory; none before `apply`."""
        report = self._report
        return report.physical_segments(lambda name: self._chunk(report, name))

    @property
    def forward_info(self) -> ForwardInfo:
        """What running needs to know: values, operations and their order, by their numbers."""
        found: ForwardInfo = self._report.forward_info()
        return found

    def _chunk(self, report: Report, name: str) -> dict[str, Any]:
        chunks = report.chunks(name)
        return {"memchunk": chunks[0] if chunks else MemChunk(), "user_used": report.user_used(name)}


def _part(chunk: MemChunk, offset: int) -> MemChunk:
    """Return what lies from an offset on, in the memory of a chunk that stays its owner."""
    part = MemChunk._raw(chunk.region, chunk.begin + offset, chunk.byte_size - offset)
    part._owner = chunk
    return part
