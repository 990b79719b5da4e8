"""ZG330's backend: the vendor's options and structures on `NpuBackend`."""

from __future__ import annotations

import weakref
from typing import Any, ClassVar, Final

from triune.icraft._npu import structures
from triune.icraft._npu.backend import NpuBackend
from triune.icraft._npu.chunks import check_chunk
from triune.icraft._npu.placement import Content, uploaded
from triune.icraft._npu.report import Kinds, Report
from triune.icraft._xir.enums import VendorEnum
from triune.icraft._xrt.errors import ORDER, RANGE, TYPE, failure
from triune.icraft._xrt.logic import DET_POST
from triune.icraft._xrt.memory import MemChunk

__all__ = [
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


class SegmentType(VendorEnum):
    """The segments of a deployment."""

    INPUT = 0
    OUTPUT = 1
    WEIGHT = 2
    FTMP = 3
    INSTR = 4


class OcmOpt(VendorEnum):
    """How the feature maps that stay on the chip are chosen."""

    BEST_SCORE = -1
    NONE = 0
    OPTION1 = 1
    OPTION2 = 2
    OPTION3 = 3


class ValueInfo(structures.ValueInfo):
    """Where a value lies."""

    type_key: ClassVar[str] = "icraft::xrt::zg330::ValueInfoNode"


class HardOpInfo(structures.HardOpInfo):
    """Where an operation's instructions and weights lie."""

    type_key: ClassVar[str] = "icraft::xrt::zg330::HardOpInfoNode"


class LogicSegment(structures.LogicSegment):
    """A segment by logical addresses."""

    type_key: ClassVar[str] = "icraft::xrt::zg330::LogicSegmentNode"


class MemChunkInfo(structures.MemChunkInfo):
    """A chunk of memory that a segment, or a value at the border, lies in."""

    type_key: ClassVar[str] = "icraft::xrt::zg330::MemChunkInfoNode"


class PhySegment(structures.PhySegment):
    """A segment by addresses in the device's memory."""

    type_key: ClassVar[str] = "icraft::xrt::zg330::PhySegmentNode"

    @property
    def multi_chunk(self) -> dict[int, MemChunkInfo]:
        """The chunk of each value of the segments of inputs and outputs, by its number; empty of any other segment."""
        return dict(self._fact("multi_chunk"))

    @property
    def single_chunk(self) -> MemChunkInfo:
        """The chunk of a segment of weights, feature maps or instructions; a null handle of inputs and outputs."""
        found: MemChunkInfo = self._fact("single_chunk")
        return found


class ForwardInfo(structures.ForwardInfo):
    """What running needs to know."""

    type_key: ClassVar[str] = "icraft::xrt::zg330::ForwardInfoNode"

    @property
    def memchunk_map(self) -> dict[int, MemChunkInfo]:
        """The chunk that each value lies in, by its number; empty before `apply`."""
        return dict(self._fact("memchunk_map"))


_KINDS: Final = Kinds(ValueInfo, HardOpInfo, LogicSegment, PhySegment, ForwardInfo, SegmentType)


class ZG330Backend(NpuBackend):
    """What computes operations with commands on a ZG330 device; without arguments a null handle.

    Operations in a row run as one, feature maps share memory in turn, and those that are worth it stay on the chip, unless it
    is told otherwise before `apply`.
    """

    type_key: ClassVar[str] = "icraft::xrt::zg330::ZG330BackendNode"
    _accelerator = "zg330"
    _det_post = DET_POST[1]
    _target = "zhuget"
    _kinds = _KINDS
    _leases: list[Content]
    """What the program's chunks are for, which they are as long as a backend needs it."""

    def _init(self) -> None:
        leases = self._leases
        super()._init()
        self._leases = leases

    def _forget(self) -> None:
        super()._forget()
        self._leases = []

    # ---- options, before apply

    def userReuseSegment(self, memchunk: MemChunk, segment_type: SegmentType) -> None:
        """Let a segment lie in a chunk of the program's, which other backends may be given, too.

        Backends of one network with equal options can share weights, instructions and feature maps; backends of different
        networks feature maps alone, in a chunk that is large enough for each. Who shares feature maps does not run at once.

        Raises InternalError after `apply`, for inputs and outputs (`userConnectNetwork` is for those), and for a chunk that is
        not in the device's memory, does not begin at a multiple of 4096, is too small, or holds another network's segment.
        """
        what = "userReuseSegment"
        self._before_apply(what)
        if segment_type in (SegmentType.INPUT, SegmentType.OUTPUT):
            raise failure(
                TYPE,
                f"{what}: weights, instructions and feature maps can be shared; userConnectNetwork is for {segment_type.name}",
            )
        name = segment_type.name.lower()
        need = self._deployment.segments[name][1]
        chunk = check_chunk(f"{what}({segment_type})", memchunk, self._port, need)
        self._check_sharing(what, segment_type, chunk)
        self._requests.segments[name] = chunk

    def _check_sharing(self, what: str, segment: SegmentType, chunk: MemChunk) -> None:
        """Raise InternalError if a chunk is another segment's, or its network is another one and it is not for feature maps."""
        assert self._hard is not None
        name = segment.name
        digest = b"" if segment is SegmentType.FTMP else self._hard.digest(self._deployment)
        reference: weakref.ref[Content] | None = chunk.__dict__.get("_lent")
        lent = None if reference is None else reference()
        if lent is None:
            lent = Content(name, digest)
            chunk.__dict__["_lent"] = weakref.ref(lent)
        if lent.segment != name:
            raise failure(ORDER, f"{what}({segment}): the memory chunk is for {lent.segment} already")
        known = uploaded(chunk)
        if lent.digest != digest or (known is not None and known.segment != name.lower()):
            raise failure(
                ORDER,
                f"{what}({segment}): the memory chunk is for another network; different networks can share FTMP only",
            )
        self._leases.append(lent)

    def userConnectNetwork(self, memchunk: MemChunk, v_id: int) -> None:
        """Let an input or output lie in a chunk of the program's: what one network puts there another reads.

        Raises InternalError after `apply`, if the value is neither an input nor an output of the backend's operations, and for
        a chunk that is not in the device's memory, does not begin at a multiple of 4096, or is too small.
        """
        what = "userConnectNetwork"
        self._before_apply(what)
        value = self._deployment.values.get(v_id)
        if value is None or value.area is None:
            edges = sorted(number for number, other in self._deployment.values.items() if other.area is not None)
            raise failure(
                RANGE,
                f"{what}: value {v_id} is no input or output of the operations on the accelerator, which are {edges}",
            )
        self._requests.values[v_id] = check_chunk(f"{what}(value {v_id})", memchunk, self._port, value.nbytes)

    def disableMergeHardOp(self) -> None:
        """Run every operation by itself, each with a launch of its own. Raises InternalError ([11012]) after `apply`."""
        self._before_apply("disableMergeHardOp")
        self._merging = False

    def disableEtmOptimize(self) -> None:
        """Give every feature map memory of its own: they take more bytes, and stay readable. Raises InternalError ([11012])
        after `apply`."""
        self._before_apply("disableEtmOptimize")
        self._reuse = False

    def ocmOptimize(self, option: OcmOpt) -> None:
        """Say how the feature maps that stay on the chip are chosen.

        ``NONE``: none do. ``OPTION1``: all by falling score, each that fits. ``OPTION2``: the best that fit at each step, the
        fullest steps first. ``OPTION3``: in order of time, lower scores make room. ``BEST_SCORE``: of these the one that
        avoids the most traffic. The score is the traffic to the far memory that is avoided.

        Raises InternalError after `apply`.
        """
        self._before_apply("ocmOptimize")
        self._on_chip = option.name.lower()

    # ---- what it is

    @property
    def zg330backend_id(self) -> int:
        """The backend's number in this process, which the file of `log` has in its name."""
        return self._id

    @property
    def is_applied(self) -> bool:
        """Whether `apply` was called."""
        return self._applied

    @property
    def is_applied_(self) -> bool:
        """The same as `is_applied`, by the manual's name."""
        return self._applied

    @property
    def is_mergeHardop(self) -> bool:
        """Whether operations in a row run as one: True unless `disableMergeHardOp` was called."""
        return self._merging

    @property
    def is_etmOptimize(self) -> bool:
        """Whether feature maps share memory in turn: True unless `disableEtmOptimize` was called."""
        return self._reuse

    @property
    def ocmopt(self) -> OcmOpt:
        """How what stays on the chip is chosen; after `apply`, which of the options ``BEST_SCORE`` came to."""
        name = self._on_chip if self._placed is None else self._placed.deployment.on_chip[0]
        return OcmOpt[name.upper()]

    # ---- what is deployed

    @property
    def value_info(self) -> dict[int, ValueInfo]:
        """The values that the operations read and make, a `ValueInfo` by the value's number (`Value.v_id`). A new dictionary."""
        return dict(self._report.values)

    @property
    def logic_segment_map(self) -> dict[SegmentType, LogicSegment]:
        """The segments by logical addresses, as the options have them now; after `apply` as they were applied."""
        return self._report.logic_segments()

    @property
    def phy_segment_map(self) -> dict[SegmentType, PhySegment]:
        """The segments by addresses in the device's memory; none before `apply`."""
        report = self._report
        return report.physical_segments(lambda name: self._chunks(report, name))

    @property
    def forward_info(self) -> ForwardInfo:
        """What running needs to know: values, operations and their order, by their numbers; after `apply` the chunks, too."""
        placed = self._placed
        chunks = {}
        if placed is not None:
            chunks = {v_id: self._chunk_of(v_id) for v_id in placed.values}
        found: ForwardInfo = self._report.forward_info(memchunk_map=chunks)
        return found

    def _chunk_of(self, v_id: int) -> MemChunkInfo:
        placed = self._placement
        staged = placed.staged.get(v_id)
        given = self._requests.values.get(v_id)
        user = given is not None or (placed.values[v_id].segment == "ftmp" and "ftmp" in self._requests.segments)
        return MemChunkInfo._of(
            memChunk=placed.spot(v_id).chunk if staged is None else staged,
            user_used=user,
            staged_chunk={} if staged is None else {v_id: placed.spot(v_id).chunk},
        )

    def _chunks(self, report: Report, name: str) -> dict[str, Any]:
        placed = self._placement
        if name in ("input", "output"):
            own = [v_id for v_id, value in placed.values.items() if value.segment == name]
            return {"multi_chunk": {v_id: self._chunk_of(v_id) for v_id in own}, "single_chunk": MemChunkInfo()}
        (chunk,) = report.chunks(name)
        info = MemChunkInfo._of(memChunk=chunk, user_used=report.user_used(name), staged_chunk={})
        return {"multi_chunk": {}, "single_chunk": info}
