"""Bindings: which backend computes each operation of a session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from triune.icraft._xrt.backend import Backend, operands, operation_name
from triune.icraft._xrt.errors import BACKEND, RANGE, expect, failure

if TYPE_CHECKING:
    from triune.icraft._xir.operation import Operation
    from triune.icraft._xir.view import NetworkView
    from triune.icraft._xrt.device import Device
    from triune.icraft._xrt.registry import FForwardOp

__all__ = ["Step", "bound_already", "bound_by_order", "joined"]


@dataclass(eq=False)
class Step:
    """An operation, what computes it, and the numbers of the values that it reads and makes."""

    op: Operation
    backend: Backend
    function: FForwardOp
    inputs: list[int]
    outputs: list[int]
    is_input: bool
    """Whether it is an `Input`, which hands on what the caller gives."""
    merged: tuple[Step, ...] = ()
    """The steps that it stands for, if there are several."""


def bound_by_order(view: NetworkView, backends: Sequence[Backend], devices: Sequence[Device]) -> list[Step]:
    """Bind every operation to the first backend that supports it, and the backends to devices.

    Raises InternalError if an operation is supported by none, a backend is there twice, or there are not as many devices as
    backends.
    """
    backends = _backends(backends)
    if len(backends) != len(devices):
        raise failure(RANGE, f"Session: {len(backends)} backends and {len(devices)} devices; each backend has one")
    if len(set(map(id, backends))) < len(backends):
        raise failure(RANGE, "Session: a backend is there twice; it is bound once")
    for backend, device in zip(backends, devices, strict=True):
        backend.setDevice(device)
    bound: list[list[int]] = [[] for _ in backends]
    steps, unsupported = [], []
    for op in view.ops:
        place = next((index for index, backend in enumerate(backends) if backend.isOpSupported(op)), None)
        if place is None:
            unsupported.append(op)
            continue
        bound[place].append(op.op_id)
        steps.append(_step(op, backends[place]))
    _refuse(unsupported, backends)
    for backend, device, op_ids in zip(backends, devices, bound, strict=True):
        backend.init(view.view(op_ids), device)
    return steps


def bound_already(view: NetworkView, backends: Sequence[Backend]) -> list[Step]:
    """Take the bindings that backends have. An operation that several are bound to is the first one's that supports it.

    Raises InternalError if an operation is bound to no backend that supports it.
    """
    backends = _backends(backends)
    owners: dict[int, list[Backend]] = {}
    for backend in backends:
        for op in backend.network_view.ops:
            owners.setdefault(op.op_id, []).append(backend)
    steps, unsupported = [], []
    for op in view.ops:
        owner = next((backend for backend in owners.get(op.op_id, ()) if backend.isOpSupported(op)), None)
        if owner is None:
            unsupported.append(op)
        else:
            steps.append(_step(op, owner))
    _refuse(unsupported, backends)
    return steps


def _step(op: Operation, backend: Backend, merged: Sequence[Step] = ()) -> Step:
    return Step(
        op,
        backend,
        backend._forward_of(op),
        [value.v_id for value in operands(op)],
        [value.v_id for value in op.outputs],
        op.typeKey() == "icraft::xir::InputNode",
        tuple(merged),
    )


def joined(steps: Sequence[Step]) -> list[Step]:
    """Return the steps with those in a row that their backend runs as one put together."""

    def row(step: Step) -> tuple[int, object]:
        # What runs by itself has no row.
        return id(step.backend), step.backend._row(step.op)

    found: list[Step] = []
    for (_, kind), group in groupby(steps, row):
        own = list(group)
        if kind is None or len(own) == 1:
            found += own
            continue
        op = own[0].backend._merge([step.op.op_id for step in own])
        found += [_step(op, own[0].backend, own)] if op.outputs else own
    return found


def _backends(backends: Sequence[Backend]) -> list[Backend]:
    for backend in backends:
        expect("Session", backend, Backend, "backends such as HostBackend.Init()")
    return list(backends)


def _refuse(unsupported: Sequence[Operation], backends: Sequence[Backend]) -> None:
    if unsupported:
        names = ", ".join(operation_name(op) for op in unsupported[:10])
        more = f" and {len(unsupported) - 10} more" if len(unsupported) > 10 else ""
        kinds = ", ".join(type(backend).__name__ for backend in backends)
        lack = f"{kinds} cannot compute" if kinds else "there are no backends to compute"
        raise failure(
            BACKEND,
            f"Session: {lack} {names}{more}; BackendOpRegistry.Register adds operators to a backend"
            + _opaque(unsupported[0]),
        )


def _opaque(op: Operation) -> str:
    """Return what stands in the way besides, if the network's instructions are those of the vendor's compiler."""
    network = op._network
    if network is None or network.getTag("triune") is not None:
        return ""
    if all(each.typeKey() != "icraft::xir::HardOpNode" for each in network.ops):
        return ""
    return (
        "; and the instructions of its HardOps are the vendor's machine code, which only the chip runs: "
        "triune compile MODEL.onnx --format icraft makes a network that runs here"
    )
