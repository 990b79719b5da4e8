"""Operations of the accelerator on the host: their instructions are simulated, in a memory like the accelerator's."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from triune import _native
from triune.icraft._host.document import parameters
from triune.icraft._host.plan import Elements, Plan
from triune.icraft._xir.objects import compact, plain
from triune.icraft._xrt.elements import storage

if TYPE_CHECKING:
    from triune.icraft._xir.network import Network
    from triune.icraft._xir.operation import Operation
    from triune.icraft._xir.values import Value

__all__ = ["HardPlan", "simulated"]


def simulated(network: Network, threads: int) -> _native.HardOps | _native.Error:
    """Return all operations of a network that have instructions, in a device's memory, or why there are none to run."""
    try:
        return _native.HardOps(compact(plain(network)).encode(), parameters(network.ops), threads=threads)
    except _native.Error as error:
        return error


class HardPlan(Plan):
    """One operation with instructions: arrays in, arrays out."""

    def __init__(
        self, name: str, op: Operation, inputs: Sequence[Value], outputs: Sequence[Value], hard: _native.HardOps
    ) -> None:
        self._name = name
        self._hard = hard
        self._op_id = op.op_id
        self._given = [value.v_id for value in inputs]
        self._made = [(value.v_id, *storage(value.tensorType())) for value in outputs]

    def forked(self) -> bool:
        """As `Plan.forked`: it has no state of its own."""
        return False

    def run(
        self,
        inputs: Sequence[Elements],
        places: Sequence[Elements | None],
        times: dict[int, float] | None = None,
    ) -> list[Elements]:
        """As `Plan.run`; the inputs are put where the network has them, the outputs taken from there."""
        given: dict[int, Any] = {
            v_id: np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            for v_id, array in zip(self._given, inputs, strict=True)
        }
        made, start = [v_id for v_id, _, _ in self._made], time.perf_counter()
        found = self._call(lambda: self._hard.forward(self._op_id, self._op_id, given, made))
        if times is not None:
            times[self._op_id] = (time.perf_counter() - start) * 1e3
        results: list[Elements] = []
        for (_, shape, dtype), data, place in zip(self._made, found, places, strict=True):
            array = np.frombuffer(data, dtype).reshape(shape)
            fits = place is not None and place.dtype == dtype and place.shape == shape
            result = place if place is not None and fits else np.empty(shape, dtype)
            np.copyto(result, array)
            results.append(result)
        return results
