"""Backends: what computes the operations of a network, each on a device.

A kind of backend derives from `Backend` and says what the methods with an underscore do; what programs register
(`registry`) comes before what a kind has.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar, Self

from triune.icraft._xir.objects import ObjectRef
from triune.icraft._xrt.device import Device
from triune.icraft._xrt.errors import BACKEND, ORDER, TYPE, expect, failure, virtual
from triune.icraft._xrt.registry import FForwardOp, FInitOp, registered
from triune.icraft._xrt.tensor import Tensor

if TYPE_CHECKING:
    from triune.icraft._xir.operation import Operation
    from triune.icraft._xir.types import TensorType
    from triune.icraft._xir.values import Value
    from triune.icraft._xir.view import NetworkView

__all__ = ["Backend", "as_results", "made", "operands", "operation_name", "view_of"]


class Backend(ObjectRef):
    """What computes operations; without arguments a null handle. `HostBackend.Init()` makes one for the host."""

    type_key: ClassVar[str] = "icraft::xrt::BackendNode"

    _view: NetworkView | None
    _on: Device | None
    _profiles: bool
    _applied: bool
    _times: dict[int, tuple[float, float]]
    _snapshot: bool
    _turn: AbstractContextManager[Any] = nullcontext()
    """Held by a session as long as it runs: a device's memory has one run's values at a time."""

    @classmethod
    def Init(cls) -> Self:
        """Return a backend without network and device: `init`, or a session that it is given to, binds them."""
        backend = cls._new()
        backend._set_up()
        return backend

    def _set_up(self) -> None:
        self._view, self._on = None, None
        self._profiles, self._applied, self._times, self._snapshot = False, False, {}, False

    @staticmethod
    def Create(backend_type: type, network_view: NetworkView, device: Device) -> Any:
        """Return a backend of a class, bound to operations and a device.

        Raises InternalError if it is no class of backends, or does not work with the device.
        """
        backend = made(backend_type)
        backend.init(network_view, device)
        return backend

    # ---- binding

    def init(self, network_view: NetworkView, device: Device) -> None:
        """Bind the operations and the device.

        Raises InternalError if the backend does not work with the device.
        """
        self.setDevice(device)
        self._view = view_of(network_view)
        self._applied = False
        self._init()

    def setDevice(self, device: Device) -> Self:
        """Bind the device.

        Raises InternalError if the backend does not work with it.
        """
        expect(type(self).__name__, device, Device, "a device")
        self._accept(device)
        self._on = device
        return self

    def deinit(self) -> None:
        """Let go of the network, the device and everything that was made for them. `init` binds again."""
        self._deinit()
        self._set_up()

    def apply(self) -> None:
        """Put the options in force, and get operations ready to run. `Session.apply` calls it.

        Raises InternalError as the kind of backend does, such as for memory of a device that is exhausted.
        """
        self._apply()
        self._applied = True

    def fork(self) -> Self:
        """Return a backend with the same network, device and options, for another thread.

        What was compiled and uploaded is shared where the kind of backend can share it; times are its own.
        """
        twin = type(self).Init()
        twin._view, twin._on, twin._profiles = self._view, self._on, self._profiles
        self._fork_into(twin)
        return twin

    @property
    def network_view(self) -> NetworkView:
        """The operations that are bound, in execution order. Raises InternalError ([11012]) if none are."""
        if self._view is None:
            raise failure(ORDER, f"{type(self).__name__} has no network yet: init(network_view, device) binds one")
        return self._view

    @property
    def device(self) -> Device:
        """The device that is bound, a null handle if none is."""
        return Device() if self._on is None else self._on

    @property
    def snapshot(self) -> bool:
        """Whether the backend was made of a snapshot (`Session.CreateWithSnapshot`)."""
        return self._snapshot

    @property
    def time_profile(self) -> bool:
        """Whether times are taken: `enableTimeProfile` was called with True."""
        return self._profiles

    # ---- operations

    def getInitFunc(self, op: Operation) -> FInitOp | None:
        """Return what gets an operation ready, None if nothing does.

        It is called once, with the operation and the backend, when the backend is applied.
        """
        entry = registered(self, op)
        if entry is not None:
            return entry._init
        return self._init_func(op)

    def getForwardFunc(self, op: Operation) -> FForwardOp | None:
        """Return what computes an operation, None if nothing does.

        It is called with the operation, a list of input tensors, in which parameters are left out, a list of the outputs to write
        into, or an empty one, and the backend; it returns the list of outputs.
        """
        if not self.defined():
            raise virtual(self, "getForwardFunc")
        entry = registered(self, op)
        if entry is not None:
            return entry._forward
        return self._forward_func(op)

    def isOpSupported(self, op: Operation) -> bool:
        """Return whether the backend computes the operation.

        What is registered (`BackendOpRegistry`) for the pair of classes is asked first, its constraint included, then the
        backend itself. Raises InternalError of a null handle.
        """
        if self.getForwardFunc(op) is None:
            return False
        entry = registered(self, op)
        if entry is not None:
            return entry._constraint is None or bool(entry._constraint(op, self))
        return self._takes(op)

    def initOp(self, op: Operation) -> None:
        """Get an operation ready to run.

        Raises InternalError if it is not supported.
        """
        self._forward_of(op)
        function = self.getInitFunc(op)
        if function is not None:
            function(op, self)

    def forwardOp(self, op: Operation, inputs: Sequence[Tensor], outputs: Sequence[Tensor] = ()) -> list[Tensor]:
        """Compute an operation and return its outputs; with `outputs` the results are in those.

        `inputs` are those of the operation that are no parameters, in order.

        Raises InternalError if it is not supported, or tensors do not fit.
        """
        function = self._forward_of(op)
        results = function(op, list(inputs), list(outputs), self)
        return as_results(op, results)

    def _forward_of(self, op: Operation) -> FForwardOp:
        function = self.getForwardFunc(op)
        if function is None:
            raise failure(BACKEND, f"{operation_name(op)}: {type(self).__name__} does not compute it")
        return function

    # ---- times

    def enableTimeProfile(self, enable: bool) -> None:
        """Take times from now on, or stop. Off at first; `Session.enableTimeProfile` calls it of each of its backends."""
        self._profiles = bool(enable)

    def setTimeElapses(self, op_id: int, memcpy_time: float, hard_time: float) -> None:
        """Note how long copies for an operation took and its computation, both in milliseconds; forward functions call it.

        `Session.timeProfileResults` has them under the operation's number. They stay until they are noted again, or `deinit`.
        """
        self._times[int(op_id)] = (float(memcpy_time), float(hard_time))

    # ---- what a kind of backend does

    def _accept(self, device: Device) -> None:
        """Raise InternalError if the backend does not work with the device."""

    def _init(self) -> None:
        """Note the network and the device that were bound."""

    def _deinit(self) -> None:
        """Let go of everything."""

    def _apply(self) -> None:
        """Put options in force."""

    def _fork_into(self, twin: Self) -> None:
        """Give a new backend the options of this one."""

    def _saved(self) -> dict[str, Any]:
        """Return the options as JSON has them, for a snapshot."""
        return {}

    def _restore(self, options: dict[str, Any]) -> None:
        """Set the options of a snapshot. Raises KeyError, TypeError or ValueError if they are none."""

    def _wall(self, op_id: int, measured: float) -> float:
        """Return the milliseconds that an operation is said to have taken, of which so many passed here."""
        return measured

    def _takes(self, op: Operation) -> bool:
        """Return whether the backend takes an operation that it has a forward function for."""
        return True

    def _row(self, op: Operation) -> object:
        """Return what operations have in common that the backend runs as one, None for one that runs by itself."""
        return None

    def _merge(self, op_ids: Sequence[int]) -> Operation:
        """Return an operation of the backend's that stands for several in a row."""
        raise virtual(self, "merge")

    def _merges(self, op: Operation) -> bool:
        """Return whether the operation can be computed together with others."""
        return False

    def _prepare_merged(self, ops: Sequence[Operation], inputs: Sequence[Value], outputs: Sequence[Value]) -> None:
        """Get operations ready to be computed together. Raises InternalError if they cannot."""
        raise virtual(self, "prepare_merged")

    def _forward_merged(
        self,
        ops: Sequence[Operation],
        values: Sequence[Value],
        tensors: Sequence[Tensor],
        outputs: Sequence[Value],
        places: Sequence[Tensor],
        times: dict[int, float] | None = None,
    ) -> list[Tensor]:
        """Compute operations together: `values` from elsewhere, what stands for them, the values to return, and tensors to
        put them in or none. `times` gets the milliseconds of each operation by its number.

        Raises InternalError if they cannot be computed so.
        """
        raise virtual(self, "forward_merged")

    def _type_before(self, value: Value) -> TensorType | None:
        """Return the type that a result will have, None if that shows when it is computed only."""
        return None

    def _init_func(self, op: Operation) -> FInitOp | None:
        return None

    def _forward_func(self, op: Operation) -> FForwardOp | None:
        return None

    def _equals(self, other: Any) -> bool:
        return self is other

    def _clone(self, depth: int) -> Self:
        return self.fork()

    def _json(self) -> Any:
        return {"_type_key": self._json_key()}


def made(backend_type: Any) -> Backend:
    """Return a new backend of a class.

    Raises InternalError if it is no class of backends.
    """
    if not isinstance(backend_type, type) or not issubclass(backend_type, Backend):
        raise failure(TYPE, f"expected a class of backends such as HostBackend, got {backend_type!r}")
    return backend_type.Init()


def operation_name(op: Operation) -> str:
    """Return an operation's class and number for messages."""
    kind = op.typeKey().removesuffix("Node").rsplit("::", 1)[-1]
    named = f" {op.name!r}" if op.name else ""
    return f"operation {op.op_id} ({kind}{named})"


def as_results(op: Operation, results: object) -> list[Tensor]:
    """Return what a forward function returned.

    Raises InternalError unless it is a list with a tensor for each output.
    """
    tensors = list(results) if isinstance(results, list | tuple) else []
    if len(tensors) < len(op.outputs) or not all(isinstance(tensor, Tensor) for tensor in tensors):
        raise failure(
            BACKEND,
            f"{operation_name(op)}: its forward function gave no list of {len(op.outputs)} tensors but {results!r:.100}",
        )
    return tensors


def operands(op: Operation) -> list[Value]:
    """Return an operation's inputs that are made at run time: neither parameters nor left out."""
    return [value for value in op.nonParamsInputs() if value.defined()]


def view_of(network: Any) -> NetworkView:
    """Return the view itself, or of a network the view of all operations.

    Raises InternalError if it is neither.
    """
    from triune.icraft._xir.network import Network
    from triune.icraft._xir.view import NetworkView

    if isinstance(network, Network):
        return network.view(0)
    if isinstance(network, NetworkView):
        return network
    raise failure(TYPE, f"expected a network view, got {type(network).__name__}")
