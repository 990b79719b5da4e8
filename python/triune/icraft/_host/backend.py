"""The host's backend: every operation compiled by the core for the shapes that it meets, and run on the processor."""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from triune import _native
from triune.icraft._host.custom import CUSTOM
from triune.icraft._host.hard import HardPlan, simulated
from triune.icraft._host.logic import logic_forward
from triune.icraft._host.plan import Plan
from triune.icraft._xir.scalars import FloatType
from triune.icraft._xir.types import QuantizedType, TensorType
from triune.icraft._xrt.backend import Backend, operands, operation_name
from triune.icraft._xrt.check import check_tensor
from triune.icraft._xrt.device import Device, HostDevice
from triune.icraft._xrt.dump import reals
from triune.icraft._xrt.errors import BACKEND, DEVICE, RANGE, TYPE, NotSupported, expect, failure
from triune.icraft._xrt.tensor import Tensor, on_host
from triune.icraft._xrt.turn import turn

if TYPE_CHECKING:
    from triune.icraft._xir.network import Network
    from triune.icraft._xir.operation import Operation
    from triune.icraft._xir.values import Value
    from triune.icraft._xrt.registry import FForwardOp, FInitOp

__all__ = ["HostBackend"]

_BORDERS = ("icraft::xir::InputNode", "icraft::xir::OutputNode")
_HARD_OP = "icraft::xir::HardOpNode"
_MOST_PLANS = 4
"""How many shapes of one operation are kept compiled."""
_MOST_THREADS = 1024
_PROCESSORS = os.cpu_count() or 1

Key = tuple[int, tuple[tuple[int, ...], ...], int, bool]
"""What a plan is for: the network's version, shapes of the inputs, threads, whether numbers are kept real."""


class HostBackend(Backend):
    """What computes every operation of Icraft's on the host; without arguments a null handle.

    Floating point and quantized operations are compiled by the core once for every shape of their inputs. Operators of the
    user's own are added with `BackendOpRegistry`.
    """

    type_key: ClassVar[str] = "icraft::xrt::HostBackendNode"

    _threads: ClassVar[int] = 4

    _fake_qf: bool
    _plans: dict[tuple[int, ...], OrderedDict[Key, Plan]]
    _keeps: dict[tuple[int, ...], Sequence[Operation]]
    _cast_ops: dict[tuple[str, str], Operation]
    _owner: HostBackend | None
    _lock: _native.Turn
    _hard: tuple[int, int, Network, _native.HardOps | _native.Error] | None

    def _set_up(self) -> None:
        super()._set_up()
        self._fake_qf, self._plans, self._keeps, self._cast_ops = False, {}, {}, {}
        self._owner, self._lock, self._hard = None, turn(), None

    # ---- options

    @staticmethod
    def setThreadsNum(num_threads: int) -> None:
        """Set how many threads compute an operation, 4 at first; no more than the machine's processors are used.

        Raises InternalError if it is not 1 to 1024.
        """
        if not 1 <= num_threads <= _MOST_THREADS:
            raise failure(RANGE, f"setThreadsNum: {num_threads} threads; 1 to {_MOST_THREADS} can be")
        HostBackend._threads = num_threads

    @staticmethod
    def getThreadsNum() -> int:
        """Return how many threads compute an operation of any `HostBackend` of the process, 4 at first; see `setThreadsNum`."""
        return HostBackend._threads

    def setFakeQf(self, fakeQF: bool) -> None:
        """Compute quantized operations without rounding and saturation, or as they are, which is the default.

        A `HardOp` cannot: its instructions compute on integers, and a session says so when it comes to one.
        """
        self._fake_qf = bool(fakeQF)

    def getFakeQf(self) -> bool:
        """Return whether quantized operations are computed without rounding and saturation, False at first; see `setFakeQf`."""
        return self._fake_qf

    # ---- what a backend does

    def setDevice(self, device: Device) -> Self:
        """Bind the host; a null handle stands for it.

        Raises InternalError if it is another device.
        """
        null = getattr(device, "_undefined", False)
        return super().setDevice(HostDevice.Default() if null else device)

    def _accept(self, device: Device) -> None:
        if not isinstance(device, HostDevice):
            raise failure(DEVICE, f"HostBackend computes on the host, not on a {type(device).__name__}")

    def _init(self) -> None:
        self._plans, self._keeps = {}, {}

    def _deinit(self) -> None:
        self._plans, self._keeps, self._owner, self._hard = {}, {}, None, None

    def _fork_into(self, twin: Self) -> None:
        twin._fake_qf, twin._owner = self._fake_qf, self

    def _saved(self) -> dict[str, Any]:
        return {"fakeQf": self._fake_qf}

    def _restore(self, options: dict[str, Any]) -> None:
        self._fake_qf = bool(options["fakeQf"])

    def _forward_func(self, op: Operation) -> FForwardOp | None:
        key = op.typeKey()
        if key in _BORDERS:
            return _hand_on
        return _compute if key.startswith("icraft::xir::") or key in CUSTOM else logic_forward(key)

    def _init_func(self, op: Operation) -> FInitOp | None:
        return _prepare if self._forward_func(op) is _compute else None

    def _merges(self, op: Operation) -> bool:
        return self.getForwardFunc(op) is _compute and op.typeKey() != _HARD_OP

    def _prepare_merged(self, ops: Sequence[Operation], inputs: Sequence[Value], outputs: Sequence[Value]) -> None:
        if not any(value.tensorType().hasNegativeDim() for value in inputs):
            self._plan(ops, inputs, outputs, [tuple(value.tensorType().shape) for value in inputs])

    def _forward_merged(
        self,
        ops: Sequence[Operation],
        values: Sequence[Value],
        tensors: Sequence[Tensor],
        outputs: Sequence[Value],
        places: Sequence[Tensor],
        times: dict[int, float] | None = None,
    ) -> list[Tensor]:
        for value, tensor in zip(values, tensors, strict=True):
            self._check(f"value {value.v_id}", value, tensor)
        return self._run(ops, values, tensors, outputs, places, times)

    def _type_before(self, value: Value) -> TensorType | None:
        dtype = value.tensorType()
        return None if dtype.hasNegativeDim() or self._is_real(value) else dtype

    # ---- numbers without rounding

    def _is_real(self, value: Value) -> bool:
        """Return whether a value is real numbers here although it is quantized."""
        return self._fake_qf and isinstance(value.tensorType().element_dtype, QuantizedType)

    def _check(self, what: str, value: Value, tensor: Tensor) -> None:
        """Raise InternalError unless a tensor fits a value, or has the reals of it where those are computed with."""
        expect(what, tensor, Tensor, "a tensor")
        wanted = value.tensorType()
        real = self._is_real(value) and tensor.dtype().element_dtype.isFP32()
        check_tensor(what, _in_reals(wanted) if real else wanted, tensor)

    def _elements(self, value: Value, tensor: Tensor) -> npt.NDArray[Any]:
        """Return the elements to compute with.

        Raises InternalError if they are not ready in the device's wait time.
        """
        tensor._await("forward")
        array = on_host(tensor.to(HostDevice.MemRegion()), "forward")
        if self._is_real(value) and not tensor.dtype().element_dtype.isFP32():
            return reals(array, value.tensorType())
        return array

    def _type_of(self, value: Value, array: npt.NDArray[Any]) -> TensorType:
        """Return a result's type, with the extents that the run gave where the value leaves some open."""
        dtype = value.tensorType()
        if self._is_real(value):
            dtype = _in_reals(dtype)
        return dtype.clone().setShape(array.shape) if dtype.hasNegativeDim() else dtype

    # ---- plans

    def _plan(
        self,
        ops: Sequence[Operation],
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        shapes: Sequence[tuple[int, ...]],
    ) -> Plan:
        """Return the plan of some operations for shapes of their inputs, made if need be."""
        threads = min(HostBackend._threads, _PROCESSORS)
        family = tuple(id(op) for op in ops)
        network = ops[0]._network
        key = (0 if network is None else network._version, tuple(shapes), threads, self._fake_qf)
        with self._lock:
            plans = self._plans.setdefault(family, OrderedDict())
            # The objects must live on, or their identities could come back as others.
            self._keeps[family] = ops
            plan = plans.get(key)
            if plan is not None and plan.forked():
                # This process makes one of its own.
                del plans[key]
                plan = None
            if plan is None and network is not None and ops[0].typeKey() == _HARD_OP:
                name = operation_name(ops[0])
                if self._fake_qf:
                    raise NotSupported(
                        f"[{BACKEND}] {name}: its instructions compute on integers, setFakeQf(True) is for the stages before"
                    )
                plan = plans[key] = HardPlan(name, ops[0], inputs, outputs, self._simulated(name, network, threads))
            elif plan is None:
                name = (
                    operation_name(ops[0])
                    if len(ops) == 1
                    else f"{operation_name(ops[0])} to {operation_name(ops[-1])}"
                )
                plan = plans[key] = Plan(
                    name,
                    ops,
                    inputs,
                    outputs,
                    shapes=shapes,
                    threads=threads,
                    fake_qf=self._fake_qf,
                    sharing=self._relative(family, key),
                )
                if len(plans) > _MOST_PLANS:
                    plans.popitem(last=False)
            else:
                plans.move_to_end(key)
        return plan

    def _simulated(self, name: str, network: Network, threads: int) -> _native.HardOps:
        """Return the operations with instructions of a network, loaded once.

        Raises InternalError that names the operation: NotSupported if the instructions are another compiler's.
        """
        version = network._version
        found = self._hard
        if found is None or found[:2] != (id(network), version):
            found = self._hard = (id(network), version, network, simulated(network, threads))
        hard = found[3]
        if isinstance(hard, _native.HardOps):
            return hard
        if isinstance(hard, _native.ForeignError | _native.UnsupportedError):
            raise NotSupported(f"[{BACKEND}] {name}: {hard}")
        raise failure(BACKEND, f"{name}: {hard}")

    def _relative(self, family: tuple[int, ...], key: Key) -> Plan | None:
        """Return a plan that has the same weights, of this backend or the one that it was forked from."""
        for backend in (self, self._owner):
            for other, plan in list((backend._plans.get(family) or {}).items()) if backend is not None else ():
                if (other[0], other[1], other[3]) == (key[0], key[1], key[3]):
                    return plan
        return None

    def _run(
        self,
        ops: Sequence[Operation],
        values: Sequence[Value],
        tensors: Sequence[Tensor],
        outputs: Sequence[Value],
        places: Sequence[Tensor],
        times: dict[int, float] | None = None,
    ) -> list[Tensor]:
        """Compute operations together: `values` from outside, what stands for them, and the wanted values.

        `times` gets the milliseconds of each operation by its number.
        """
        copies, arrays = 0.0, []
        for value, tensor in zip(values, tensors, strict=True):
            start = time.perf_counter()
            arrays.append(self._elements(value, tensor))
            if not tensor.isOn(HostDevice.MemRegion()):
                copies += time.perf_counter() - start
        wanted = [_place(place, arrays) for place in places] or [None] * len(outputs)
        plan = self._plan(ops, values, outputs, [array.shape for array in arrays])
        found = plan.run(arrays, wanted, times)
        done = time.perf_counter()
        if places:
            results = [_stored(place, array) for place, array in zip(places, found, strict=True)]
            if any(place is None for place in wanted):
                copies += time.perf_counter() - done
        else:
            results = [
                Tensor._of(self._type_of(value, array), array) for value, array in zip(outputs, found, strict=True)
            ]
        # The host is no hardware of the vendor's: what it computes is in the rest.
        self.setTimeElapses(ops[0].op_id, copies * 1e3, 0.0)
        for op in ops[1:]:
            self.setTimeElapses(op.op_id, 0.0, 0.0)
        return results

    def _cast(self, tensor: Tensor, input_type: TensorType, output_type: TensorType) -> Tensor:
        """Compute a `Cast` that is in no network."""
        from triune.icraft import xir

        key = (str(input_type), str(output_type))
        op = self._cast_ops.get(key)
        if op is None:
            value = xir.Value(input_type.clone(2)).setId(0)
            op = xir.Cast(value, output_type.clone(2)).setId(1)
            op.setOutputs([xir.Value(output_type).setId(1)])
            self._cast_ops[key] = op
        return _compute(op, [tensor], [], self)[0]


def _hand_on(op: Operation, inputs: list[Tensor], outputs: list[Tensor], backend: Backend) -> list[Tensor]:
    """Give an `Input`'s or `Output`'s tensors to whoever is next, wherever they lie."""
    for target, tensor in zip(outputs, inputs, strict=False):
        target.copyFrom(0, tensor, 0, tensor._bytes())
    return outputs or list(inputs)


def _compute(op: Operation, inputs: list[Tensor], outputs: list[Tensor], backend: Any) -> list[Tensor]:
    """Compute an operation on the host."""
    values, tensors = _operands(op, inputs, backend)
    made = op.outputs
    if outputs and len(outputs) != len(made):
        raise failure(RANGE, f"{operation_name(op)}: {len(made)} outputs, {len(outputs)} tensors for them")
    for index, (value, tensor) in enumerate(zip(made, outputs, strict=False)):
        if backend._is_real(value):
            raise failure(
                TYPE, f"{operation_name(op)}: output {index}: with fakeQf results cannot be put into given tensors"
            )
        check_tensor(f"{operation_name(op)}: output {index}", value.tensorType(), tensor)
    results: list[Tensor] = backend._run([op], values, tensors, made, outputs)
    return results


def _operands(op: Operation, inputs: list[Tensor], backend: HostBackend) -> tuple[list[Value], list[Tensor]]:
    """Return the values that tensors stand for, each once, with the tensors."""
    values = operands(op)
    if len(inputs) != len(values):
        raise failure(
            RANGE, f"{operation_name(op)}: expected {len(values)} inputs (without parameters), got {len(inputs)}"
        )
    once: dict[int, tuple[Value, Tensor]] = {}
    for index, (value, tensor) in enumerate(zip(values, inputs, strict=True)):
        backend._check(f"{operation_name(op)}: input {index}", value, tensor)
        once.setdefault(value.v_id, (value, tensor))
    return [value for value, _ in once.values()], [tensor for _, tensor in once.values()]


def _prepare(op: Operation, backend: Any) -> None:
    """Compile an operation whose shapes are known. One that the core does not compute says so when it is run."""
    from triune.icraft._xrt.errors import NotSupported

    values = list({value.v_id: value for value in operands(op)}.values())
    if any(value.tensorType().hasNegativeDim() for value in values):
        return
    try:
        backend._plan([op], values, op.outputs, [tuple(value.tensorType().shape) for value in values])
    except NotSupported:
        return


def _place(tensor: Tensor, inputs: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any] | None:
    """Return the memory to compute into, None if a copy has to be made in the end."""
    if not tensor.isOn(HostDevice.MemRegion()):
        return None
    array = on_host(tensor, "forward")
    apart = not any(np.may_share_memory(array, other) for other in inputs)
    return array if apart and array.flags.writeable and array.flags.aligned else None


def _stored(tensor: Tensor, array: npt.NDArray[Any]) -> Tensor:
    if not tensor.isOn(HostDevice.MemRegion()) or not np.may_share_memory(on_host(tensor, "forward"), array):
        tensor.write(0, np.ascontiguousarray(array), array.nbytes)
    return tensor


def _in_reals(dtype: TensorType) -> TensorType:
    """Return a type with elements of 32-bit floats."""
    return dtype.clone().setElementDtype(FloatType.FP32())
