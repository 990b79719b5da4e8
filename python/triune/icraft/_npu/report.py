"""A backend's deployment as the structures that programs look at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from triune.icraft._npu.chunks import address
from triune.icraft._npu.structures import (
    ForwardInfo,
    HardOpInfo,
    LogicSegment,
    PhySegment,
    ValueInfo,
)
from triune.icraft._xir.enums import VendorEnum
from triune.icraft._xir.values import Value
from triune.icraft._xrt.memory import MemChunk

if TYPE_CHECKING:
    from triune.icraft._npu.backend import NpuBackend
    from triune.icraft._npu.placement import Placement

__all__ = ["Kinds", "Report"]


@dataclass(frozen=True)
class Kinds:
    """The classes of one kind of backend."""

    value: type[ValueInfo]
    operation: type[HardOpInfo]
    logic: type[LogicSegment]
    physical: type[PhySegment]
    forward: type[ForwardInfo]
    segment: type[VendorEnum]


class Report:
    """The structures of one deployment, before `apply` without addresses in memory."""

    def __init__(self, backend: NpuBackend, kinds: Kinds) -> None:
        self._backend, self._kinds = backend, kinds
        self._placed: Placement | None = backend._placed
        self._deployment = backend._deployment if self._placed is None else self._placed.deployment
        self._instructions = self._deployment.instructions
        self.values = self._values()
        self.operations = self._operations()

    def segment(self, name: str) -> Any:
        """Return the member for a segment's name."""
        return self._kinds.segment[name.upper()]

    def user_used(self, name: str) -> bool:
        """Return whether the program gave the chunk of a segment."""
        requests = self._backend._requests
        if name in ("input", "output"):
            return name in requests.edges
        return name in requests.segments

    def _values(self) -> dict[int, Any]:
        network = self._backend.network_view.network()
        deployed = self._deployment.values
        sharing: dict[int, list[Value]] = {}
        for v_id, value in deployed.items():
            if value.shares is not None:
                sharing.setdefault(value.shares, []).append(network.getValueById(v_id))
        return {
            v_id: self._kinds.value._of(
                value=network.getValueById(v_id),
                real=value.shares is None,
                is_ocm=value.on_chip,
                is_host=False,
                real_to=sharing.get(v_id, []),
                fake_from=Value() if value.shares is None else network.getValueById(value.shares),
                logic_addr=value.logic,
                phy_addr=0 if self._placed is None else self._placed.address(v_id),
                byte_size=value.nbytes,
                segment=self.segment(value.segment),
                user_used=self._given(v_id, value.segment),
            )
            for v_id, value in deployed.items()
        }

    def _given(self, v_id: int, segment: str) -> bool:
        return v_id in self._backend._requests.values or self.user_used(segment)

    def _operations(self) -> dict[int, Any]:
        backend, ops = self._backend, self._deployment.ops
        found = {
            op.op_id: self._operation(own, ops, (index, index + 1), [])
            for index, (own, op) in enumerate(zip(backend._hard_ops, ops, strict=True))
        }
        for number, (merged, first, last) in backend._merged.items():
            found[number] = self._operation(merged, ops, (first, last), [op.op_id for op in ops[first:last]])
        return found

    def _operation(self, own: Any, ops: list[Any], span: tuple[int, int], merge_from: list[int]) -> Any:
        logic = {name: first for name, (first, _) in self._deployment.segments.items()}
        first, size = self._deployment.stream(*span)
        first_weight, weights = self._deployment.constants(*span)
        placed = self._placed
        return self._kinds.operation._of(
            net_hardop=own,
            instr_logic_addr=logic["instr"] + first,
            instr_size=size,
            instr_phy_addr=0 if placed is None else address(placed.instructions) + first,
            weights_logic_addr=logic["weight"] + first_weight if weights else 0,
            weights_size=weights,
            weight_phy_addr=0 if placed is None or not weights else address(placed.weights) + first_weight,
            sync_idx=(span[0], ops[span[1] - 1].layers),
            merge_from=merge_from,
            instr_data=self._instructions[first : first + size],
            user_used=self.user_used("instr"),
        )

    def _members(self, name: str) -> dict[str, dict[int, Any]]:
        """Return the values in a segment, and the operations that have something in it."""
        kind = self.segment(name)
        values = {v_id: info for v_id, info in self.values.items() if info.segment == kind}
        size = {"weight": "weights_size", "instr": "instr_size"}.get(name)
        ops = {op_id: info for op_id, info in self.operations.items() if size and getattr(info, size)}
        return {"info_map": values, "hardop_map": ops}

    def logic_segments(self) -> dict[Any, Any]:
        """Return the segments by logical addresses."""
        return {
            self.segment(name): self._kinds.logic._of(
                segment_type=self.segment(name), logic_addr=logic, byte_size=size, **self._members(name)
            )
            for name, (logic, size) in self._deployment.segments.items()
        }

    def physical_segments(self, describe: Any) -> dict[Any, Any]:
        """Return the segments by addresses in memory, none before `apply`; `describe` adds what a kind of backend has."""
        if self._placed is None:
            return {}
        found = {}
        for name, (_, size) in self._deployment.segments.items():
            found[self.segment(name)] = self._kinds.physical._of(
                segment_type=self.segment(name),
                byte_size=size,
                phy_addr=self.first(name),
                **self._members(name),
                **describe(name),
            )
        return found

    def first(self, name: str) -> int:
        """Return the address of a segment's first byte, 0 if it has none."""
        placed = self._placed
        assert placed is not None
        if name not in ("input", "output"):
            return address(self.chunks(name)[0])
        areas = zip(self._deployment.areas, placed.spots, strict=True)
        return min((spot.address for (role, _), spot in areas if role == name), default=0)

    def chunks(self, name: str) -> list[MemChunk]:
        """Return the chunks of a segment."""
        placed = self._placed
        assert placed is not None
        single = {"weight": placed.weights, "instr": placed.instructions, "ftmp": placed.maps}.get(name)
        if single is not None:
            return [single]
        areas = zip(self._deployment.areas, placed.spots, strict=True)
        return [spot.chunk for (role, _), spot in areas if role == name]

    def forward_info(self, **more: Any) -> Any:
        """Return what running needs to know."""
        return self._kinds.forward._of(
            value_map=self.values,
            hardop_map=self.operations,
            idx_map={op_id: info.sync_idx for op_id, info in self.operations.items()},
            **more,
        )
