"""A deployment in the memory of a board: chunks, what is uploaded to them, where each value is, what a run is told."""

from __future__ import annotations

import hashlib
import sys
import weakref
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from triune import _native
from triune.icraft._npu.chunks import address
from triune.icraft._xrt.errors import ORDER, RANGE, failure
from triune.icraft._xrt.memory import MemChunk

if TYPE_CHECKING:
    from triune.icraft._npu.port import Port
    from triune.icraft._xrt.tensor import Tensor

__all__ = ["Content", "Fault", "Placement", "Requests", "Spot", "share_chip", "uploaded"]


@dataclass
class Requests:
    """Chunks that the program gave."""

    segments: dict[str, MemChunk] = field(default_factory=dict)
    """Chunks for ``weight``, ``instr`` and ``ftmp``."""
    values: dict[int, MemChunk] = field(default_factory=dict)
    edges: dict[str, tuple[MemChunk, int]] = field(default_factory=dict)
    """Chunks for all of ``input`` or ``output``, and where in them these begin."""

    def chunks(self) -> list[MemChunk]:
        """Return all of them."""
        return [*self.segments.values(), *self.values.values(), *(chunk for chunk, _ in self.edges.values())]


@dataclass(frozen=True)
class Spot:
    """Where a value begins: chunk, and bytes from the chunk's beginning."""

    chunk: MemChunk
    offset: int

    @property
    def address(self) -> int:
        """The address of its first byte."""
        return address(self.chunk) + self.offset


@dataclass(frozen=True)
class Fault:
    """A byte in memory that is not what was put there."""

    segment: str
    op_id: int | None
    offset: int
    address: int
    wanted: int
    found: int

    def __str__(self) -> str:
        """Say where it is."""
        owner = "no operation" if self.op_id is None else f"operation {self.op_id}"
        return (
            f"segment {self.segment}, {owner}, byte {self.offset} (address {self.address:#x}): "
            f"{self.found:#04x} instead of {self.wanted:#04x}"
        )


@dataclass(eq=False)
class Content:
    """What a chunk holds, as long as somebody needs it."""

    segment: str
    digest: bytes


_SEGMENTS: Final = ("INSTR", "WEIGHT", "FTMP", "OCM")
"""The vendor's names of the segments that are no areas, by their numbers."""
_UPLOADED: dict[int, tuple[weakref.ref[MemChunk], weakref.ref[Content]]] = {}
"""What chunks hold, by identity."""


def uploaded(chunk: MemChunk) -> Content | None:
    """Return what a chunk holds that a placement needs."""
    known = _UPLOADED.get(id(chunk))
    return None if known is None or known[0]() is not chunk else known[1]()


def _note(chunk: MemChunk, content: Content) -> None:
    key = id(chunk)

    def forget(_: object) -> None:
        _UPLOADED.pop(key, None)

    _UPLOADED[key] = (weakref.ref(chunk, forget), weakref.ref(content))


def share_chip(port: Port, size: int) -> MemChunk | None:
    """Let what is placed on a board take turns on the chip, in one chunk of at least `size` bytes; return that.

    Left out is what has values there that somebody holds. Returns None if there is no room even so.
    """
    with ExitStack() as turns:
        placed = sorted((one for one in port.placements if one.on_chip is not None), key=id)
        for one in placed:
            turns.enter_context(one.turn)
        placed = [one for one in placed if one.on_chip is not None and (one.shares_chip or not one.is_held)]
        whole = max([size, *(one.chip_bytes for one in placed)])
        if port.near_free([one.on_chip for one in placed]) < whole:
            return None
        for one in placed:
            one.on_chip, one.shares_chip = None, True
        try:
            chunk = port.share_near(whole)
        except Exception:
            # Somebody else, in another process, was faster.
            for one in placed:
                one.lie_on_chip(port.near(one.chip_bytes, True))
            return None
        for one in placed:
            one.lie_on_chip(chunk)
        return chunk


class Placement:
    """Chunks for all segments of a deployment."""

    def __init__(
        self,
        deployment: _native.Deployment,
        port: Port,
        requests: Requests,
        owner: Placement | None,
        *,
        packed: bool,
        shares_chip: bool,
        turn: AbstractContextManager[Any],
    ) -> None:
        """Allocate what was not given, and upload instructions and weights.

        `owner` has the same weights in memory, and perhaps the same instructions; with `packed`, all inputs lie in one chunk
        and all outputs in one, else each in its own; with `shares_chip`, others may use the memory on the chip between runs;
        `turn` is held by whoever runs.

        Raises InternalError if a chunk is too small, holds something else, or the memory is full.
        """
        self.deployment, self._port, self.requests = deployment, port, requests
        self.values = deployment.values
        self.ops = deployment.ops
        self.areas = deployment.areas
        sizes = self.deployment.sizes
        # Another plan has other instructions, not other weights.
        same = owner is not None and owner.deployment.instructions == deployment.instructions
        theirs = owner if same else None
        self.weights: MemChunk = requests.segments.get("weight") or (
            owner.weights if owner else port.far(sizes["constants"])
        )
        self.instructions: MemChunk = requests.segments.get("instr") or (
            theirs.instructions if theirs else port.far(sizes["instructions"])
        )
        self.maps = requests.segments.get("ftmp") or port.far(sizes["scratch"])
        self.shares_chip, self.turn = shares_chip, turn
        self.on_chip = port.near(sizes["resident"], shares_chip) if sizes["resident"] else None
        self._contents: list[Content] = []
        self._place_areas(packed)
        self.lie_on_chip(self.on_chip)
        self._check_overlap()
        self._upload("weight", self.weights, deployment.weights)
        self._upload("instr", self.instructions, deployment.instructions)
        port.placements.add(self)

    @property
    def chip_bytes(self) -> int:
        """The bytes on the chip that runs need."""
        return self.deployment.sizes["resident"]

    @property
    def is_held(self) -> bool:
        """Whether somebody has a tensor, or the like, in the chunk on the chip."""
        # One reference is the placement's, one the argument's.
        return self.on_chip is not None and sys.getrefcount(self.on_chip) > 2

    def _place_areas(self, packed: bool) -> None:
        given, edges = self.requests.values, dict(self.requests.edges)
        seats = self.deployment.seats([(v_id, chunk.byte_size) for v_id, chunk in given.items()], packed)
        self.spots: list[Spot] = []
        for (role, bytes_), (v_id, offset) in zip(self.areas, seats, strict=True):
            if v_id is not None:
                self.spots.append(Spot(given[v_id], 0))
            elif offset is not None:
                if role not in edges:
                    edges[role] = self._port.far(self.deployment.segments[role][1]), 0
                chunk, shift = edges[role]
                self.spots.append(Spot(chunk, offset + shift))
            else:
                self.spots.append(Spot(self._port.far(bytes_), 0))
        whole = {v_id for v_id, _ in seats}
        self.staged = {v_id: chunk for v_id, chunk in given.items() if v_id not in whole}

    def lie_on_chip(self, chunk: MemChunk | None) -> None:
        """Let what is on the chip lie in a chunk, the rest where it does."""
        self.on_chip = chunk
        self.native = _native.Placement(
            self.deployment,
            self._port.board,
            instructions=address(self.instructions),
            constants=address(self.weights),
            scratch=address(self.maps),
            resident=0 if chunk is None else address(chunk),
            areas=[spot.address for spot in self.spots],
        )

    def _chunks(self) -> list[tuple[str, MemChunk]]:
        """Return the chunks of all segments, by name."""
        near = [] if self.on_chip is None else [("OCM", self.on_chip)]
        areas = [(role.upper(), spot.chunk) for (role, _), spot in zip(self.areas, self.spots, strict=True)]
        staged = [(f"value {v_id}", chunk) for v_id, chunk in self.staged.items()]
        return [
            ("INSTR", self.instructions),
            ("WEIGHT", self.weights),
            ("FTMP", self.maps),
            *near,
            *areas,
            *staged,
        ]

    def check_chunks(self, what: str) -> None:
        """Raise InternalError if the device was closed, or a chunk let go: others may have its memory by now."""
        self._port.device._check_open(what)
        for name, chunk in self._chunks():
            if chunk._gone:
                # Closing a device, by another thread maybe, frees all of its memory.
                chunk._chunk_region._check_open(what)
                raise failure(
                    ORDER,
                    f"{what}: the memory chunk of {name} at {address(chunk):#x} was freed; it has to stay as long as its "
                    "network runs",
                )

    def check_target(self, what: str, tensor: Tensor) -> None:
        """Raise InternalError if a tensor for a result lies on instructions or weights."""
        if not tensor.isOn(self._port.far_region):
            return
        first = address(tensor.chunk()) + tensor.offset()
        number = self.native.damaged(first, tensor._bytes())
        if number is not None:
            start = self.native.segments[number][1]
            raise failure(
                RANGE,
                f"{what}: the tensor at {first:#x} lies on {_SEGMENTS[number]} at {start:#x}, which it would overwrite",
            )

    def _check_overlap(self) -> None:
        """Raise InternalError if instructions or weights share bytes with each other or with what runs write."""
        found = self.native.collision()
        if found is not None:
            names, segments = [*_SEGMENTS, *(role.upper() for role, _ in self.areas)], self.native.segments
            places = ((names[number], *segments[number][1:3]) for number in found)
            one, other = (f"{name}, bytes {first:#x} to {first + size:#x}, " for name, first, size in places)
            raise failure(RANGE, f"{one}and {other}overlap: each segment needs memory of its own")

    def _upload(self, segment: str, chunk: MemChunk, data: bytes) -> None:
        if not data:
            return
        if chunk.byte_size < len(data):
            raise failure(RANGE, f"segment {segment}: {len(data)} bytes in a memory chunk of {chunk.byte_size}")
        digest = hashlib.sha256(data).digest()
        known = uploaded(chunk)
        if known is not None and (known.segment, known.digest) == (segment, digest):
            self._contents.append(known)
            return
        if known is not None:
            raise failure(
                ORDER,
                f"segment {segment}: the memory chunk at {address(chunk):#x} holds the {known.segment} segment of another "
                "network, or of this one with other options; weights and instructions are shared by backends of one network "
                "with equal options",
            )
        chunk.write(0, data, len(data))
        content = Content(segment, digest)
        self._contents.append(content)
        _note(chunk, content)

    # ---- where things are

    def spot(self, v_id: int) -> Spot:
        """Return where a value is."""
        value = self.values[v_id]
        if value.area is not None:
            spot = self.spots[value.area]
            return Spot(spot.chunk, spot.offset + value.offset)
        if value.on_chip:
            assert self.on_chip is not None
            return Spot(self.on_chip, value.offset)
        return Spot(self.weights if value.segment == "weight" else self.maps, value.offset)

    def address(self, v_id: int) -> int:
        """Return a value's address."""
        return self.native.address(v_id)

    # ---- checks

    def faults(self) -> list[Fault]:
        """Compare instructions and weights in memory with what was put there: the first wrong byte of each segment."""
        found = []
        for segment, kind, chunk in (
            ("WEIGHT", "constants", self.weights),
            ("INSTR", "instructions", self.instructions),
        ):
            there = np.empty(self.deployment.sizes[kind], np.uint8)
            if there.size:
                chunk.read(there, 0, there.size)
            fault = self.deployment.fault(kind, there)
            if fault is not None:
                op_id, offset, wanted, byte = fault
                found.append(Fault(segment, op_id, offset, address(chunk) + offset, wanted, byte))
        return found
