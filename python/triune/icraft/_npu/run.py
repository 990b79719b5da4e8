"""Runs of operations on a device: operands to their places, commands, results where they lie."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from triune import _native
from triune.icraft._npu.chunks import address
from triune.icraft._npu.placement import Placement, Spot
from triune.icraft._npu.times import modelled
from triune.icraft._xrt.backend import operands, operation_name
from triune.icraft._xrt.check import check_tensor
from triune.icraft._xrt.device import HostDevice
from triune.icraft._xrt.elements import storage
from triune.icraft._xrt.errors import BACKEND, RANGE, failure
from triune.icraft._xrt.tensor import Tensor, on_host

if TYPE_CHECKING:
    from triune.icraft._npu.backend import NpuBackend
    from triune.icraft._xir.operation import Operation
    from triune.icraft._xir.values import Value

__all__ = ["run_operations"]


class _Layers:
    """Whether a device has done so many layers: the readiness of a result."""

    def __init__(self, wanted: int, seen: int) -> None:
        self._wanted, self._seen = wanted, seen

    def __call__(self, device: Any) -> bool:
        """Return whether the device is there; what was seen once is not asked for again."""
        if self._seen < self._wanted:
            self._seen = int(device.layerCount())
        return self._seen >= self._wanted


def run_operations(
    backend: NpuBackend, op: Operation, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> list[Tensor]:
    """Run one operation or those that a merged one stands for; results lie on the device, or in `outputs`.

    Raises InternalError if tensors do not fit, the device cannot compute, or as its commands have it.
    """
    placement = backend._placement
    first, last = backend._span(op)
    name = operation_name(op)
    values, made = operands(op), op.outputs
    if len(inputs) != len(values):
        raise failure(RANGE, f"{name}: expected {len(values)} inputs (without parameters), got {len(inputs)}")
    if outputs and len(outputs) != len(made):
        raise failure(RANGE, f"{name}: {len(made)} outputs, {len(outputs)} tensors for them")
    for index, (value, tensor) in enumerate(zip(values, inputs, strict=True)):
        check_tensor(f"{name}: input {index}", value.tensorType(), tensor)
    for index, (value, tensor) in enumerate(zip(made, outputs, strict=False)):
        check_tensor(f"{name}: output {index}", value.tensorType(), tensor)
    backend._refuse_to_run(op)
    placement.check_chunks(name)
    for index, tensor in enumerate(outputs):
        placement.check_target(f"{name}: output {index}", tensor)
    near = placement.shares_chip and any(placement.values[value.v_id].on_chip for value in (*values, *made))
    with backend._turn, backend._port.core if near else nullcontext():
        run = _Run(backend, placement, first, last)
        for value, tensor in zip(values, inputs, strict=True):
            run.put(value, tensor)
        run.move(made, outputs)
        run.compute(name)
        results = [run.result(value, outputs[index] if outputs else None) for index, value in enumerate(made)]
        backend._note_times(op.op_id, run.copies * 1e3, run.nanoseconds / 1e6, run.launch / 1e6)
    return results


class _Run:
    """One run: the seconds that copies took, the board's nanoseconds, and those of them that it took to launch."""

    def __init__(self, backend: NpuBackend, placement: Placement, first: int, last: int) -> None:
        self._backend, self._placement, self._span = backend, placement, (first, last)
        self._native, self._moved = placement.native, dict[int, Spot]()
        self._layers = (0, 0)
        self.copies, self.nanoseconds, self.launch = 0.0, 0, 0.0

    def put(self, value: Value, tensor: Tensor) -> None:
        """Bring an operand to its place, unless it lies there."""
        spot, dense = self._placement.spot(value.v_id), self._placement.values[value.v_id].dense
        tensor._await("forward")
        if dense and _lies_at(tensor, spot):
            return
        start = time.perf_counter()
        if dense:
            spot.chunk.copyFrom(spot.offset, tensor.chunk(), tensor.offset(), tensor._bytes())
        else:
            self._scatter(value.v_id, on_host(tensor.to(HostDevice.MemRegion()), "forward"))
        self.copies += time.perf_counter() - start

    def move(self, made: Sequence[Value], places: Sequence[Tensor]) -> None:
        """Let results be made right where they are wanted, as far as that can be."""
        far = self._backend._port.far_region
        spots = [
            (value.v_id, Spot(place.chunk(), place.offset()))
            for value, place in zip(made, places, strict=False)
            if place.isOn(far)
        ]
        wanted = [(v_id, spot.address, spot.chunk.byte_size - spot.offset) for v_id, spot in spots]
        by_address = {spot.address: spot for _, spot in spots}
        moves = self._native.moves(*self._span, wanted) if wanted else {}
        if moves:
            self._native = self._native.moved(moves)
            self._moved = {area: by_address[first] for area, first in moves.items()}

    def compute(self, name: str) -> None:
        """Run the commands."""
        if self._placement.deployment.stream(*self._span)[1] == 0:
            # The core is not waited for.
            return
        port = self._backend._port
        try:
            with port.core:
                report = self._native.run(port.board, *self._span)
        except _native.Error as error:
            raise failure(BACKEND, f"{self._blamed(name, error)}: {error}") from error
        assert report is not None
        self.nanoseconds = report.nanoseconds
        if modelled() and report.layers and report.cycles:
            # Until the first operator begins.
            self.launch = report.layers[0][0] / report.cycles * report.nanoseconds
        self._layers = (report.layer_count, report.layer_count)

    def _blamed(self, name: str, error: _native.Error) -> str:
        """Return the name of the operation whose commands an error is about: of a merged one, the one that was merged."""
        layer = error.layer
        blamed = None if layer is None else self._placement.deployment.layer(*self._span, layer)
        ops = self._backend.network_view.network().ops
        return next((operation_name(op) for op in ops if op.op_id == blamed), name)

    def result(self, value: Value, place: Tensor | None) -> Tensor:
        """Return a result where it lies, or in the tensor that it is wanted in."""
        info, spot = self._placement.values[value.v_id], self._placement.spot(value.v_id)
        if info.area in self._moved:
            moved = self._moved[info.area]
            spot = Spot(moved.chunk, moved.offset + info.offset)
        if place is not None and info.dense and _lies_at(place, spot):
            return place
        start, staged = time.perf_counter(), self._placement.staged.get(value.v_id)
        if info.dense:
            found = Tensor(value.tensorType(), spot.chunk, spot.offset, _Layers(*self._layers))
        else:
            found = Tensor._of(value.tensorType(), self._gather(value))
        if place is None and staged is not None:
            place = Tensor(value.tensorType(), staged, 0)
        if place is None and info.on_chip and self._placement.shares_chip:
            place = Tensor(value.tensorType(), self._backend._port.far(info.nbytes), 0)
        if place is not None:
            place.copyFrom(0, found, 0, found._bytes())
        if place is not None or not info.dense:
            self.copies += time.perf_counter() - start
        return place if place is not None else found

    # ---- values with gaps between their elements

    def _gather(self, value: Value) -> npt.NDArray[Any]:
        elements = np.empty(self._placement.values[value.v_id].nbytes, np.uint8)
        self._backend._port.device._native(lambda board: self._native.read(board, value.v_id, elements))
        shape, element = storage(value.tensorType())
        return elements.view(element).reshape(shape)

    def _scatter(self, v_id: int, array: npt.NDArray[Any]) -> None:
        elements = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self._backend._port.device._native(lambda board: self._native.write(board, v_id, elements))


def _lies_at(tensor: Tensor, spot: Spot) -> bool:
    chunk = tensor.chunk()
    return chunk.region.same_as(spot.chunk.region) and address(chunk) + tensor.offset() == spot.address
