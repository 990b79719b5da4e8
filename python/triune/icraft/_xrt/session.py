"""Sessions: operations of a network bound to backends, and run in order."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, overload

from triune.icraft._xir.objects import ObjectRef
from triune.icraft._xrt.backend import Backend, as_results, made, view_of
from triune.icraft._xrt.binding import Step, bound_already, bound_by_order, joined
from triune.icraft._xrt.check import check_inputs, check_outputs
from triune.icraft._xrt.errors import ORDER, RANGE, TYPE, failure
from triune.icraft._xrt.observe import Observers
from triune.icraft._xrt.played import Played
from triune.icraft._xrt.sections import Section, sections
from triune.icraft._xrt.snapshot import read_snapshot, write_snapshot
from triune.icraft._xrt.tensor import Tensor
from triune.icraft._xrt.turn import turn

if TYPE_CHECKING:
    from triune.icraft._xir.network import Network
    from triune.icraft._xir.operation import Operation
    from triune.icraft._xir.values import Value
    from triune.icraft._xir.view import NetworkView
    from triune.icraft._xrt.device import Device
    from triune.icraft._xrt.registry import FForwardOp

__all__ = ["CallBack", "Session"]

_T = TypeVar("_T")

CallBack = Callable[["Session", "Operation", Backend, list[Tensor]], None]
"""Called round every operation: session, operation, backend, output tensors (none yet before)."""

Tensors = dict[int, Tensor]
"""Tensors by the number of their value."""


@dataclass
class _Position:
    """How far `stepTo` came."""

    index: int = 0
    tensors: Tensors = field(default_factory=dict)


class Session(ObjectRef):
    """Operations bound to backends; without arguments a null handle.

    `Create` and its siblings bind, `apply` gets everything ready, `forward` and `stepTo` run.
    """

    type_key: ClassVar[str] = "icraft::xrt::SessionNode"

    _backends: list[Backend]
    _view: NetworkView | None
    _plain: list[Step]
    """The operations as they are in the network."""
    _steps: list[Step]
    """The operations as they run: those that a backend runs as one put together."""
    _inputs: list[Value]
    _outputs: list[Value]
    _sections: list[Section]
    _applied: bool
    _profiles: bool
    _observers: Observers
    _walls: dict[int, float]
    _total: float
    _excess: float
    """The milliseconds that operations of a run took longer than they are said to have."""
    _position: _Position
    _stepping: AbstractContextManager[Any]
    """The turn of the thread that steps."""

    @classmethod
    def Init(cls) -> Self:
        """Return a session without operations: it has no backends, `network_view` and `apply` raise InternalError."""
        session = cls._new()
        session._set_up(None, [], [])
        return session

    def _set_up(self, view: NetworkView | None, backends: list[Backend], steps: list[Step]) -> None:
        self._view, self._backends, self._plain = view, backends, steps
        self._inputs, self._outputs = _border(view)
        self._arrange(steps)
        self._applied, self._profiles, self._observers = False, False, Observers()
        self._walls, self._total, self._excess, self._position = {}, 0.0, 0.0, _Position()
        self._stepping = turn()

    def _arrange(self, steps: list[Step]) -> None:
        self._steps, self._sections = steps, sections(steps, self._outputs)

    # ---- making one

    @staticmethod
    def Create(backend_types: Sequence[type], network: Network | NetworkView, devices: Sequence[Device]) -> Session:
        """Bind every operation to the first class of backends that supports it.

        `devices` has one for each class. A `Network` stands for the view of all its operations.

        Raises InternalError if an operation is supported by none (all of them are named), or the lists' lengths differ.

        Examples:
            >>> import numpy as np, triune
            >>> from triune.icraft import xir
            >>> from triune.icraft.host_backend import HostBackend
            >>> from triune.icraft.xrt import Device, HostDevice, Session, Tensor
            >>> from triune.icraft.zg330backend import ZG330Backend
            >>> from triune.models import DIGITS_INT8, digits_held_out
            >>> package = triune.compile(DIGITS_INT8, target="zg330", format="icraft", output="networks")
            >>> network = xir.Network.CreateFromJsonFile("networks/digits_int8_ZG.json")
            >>> network.loadParamsFromFile("networks/digits_int8_ZG.raw")
            >>> devices = [Device.Open("axi://zg330aiu"), HostDevice.Default()]
            >>> session = Session.Create([ZG330Backend, HostBackend], network, devices)
            >>> session.apply()
        """
        return Session.CreateByOrder(network, [made(backend_type) for backend_type in backend_types], devices)

    @staticmethod
    def CreateByOrder(
        network: Network | NetworkView, backends: Sequence[Backend], devices: Sequence[Device]
    ) -> Session:
        """Bind every operation to the first backend that supports it.

        `backends` are the program's own, with the options that it set, each there once; `devices` has one for each. Each
        backend is bound (`Backend.init`) to its operations and device.

        Raises InternalError as `Create` does, or if a backend is there twice or does not work with its device.
        """
        view = view_of(network)
        return Session._of(view, list(backends), bound_by_order(view, backends, devices))

    @staticmethod
    def CreateWithBackends(network: Network | NetworkView, backends: Sequence[Backend]) -> Session:
        """Take the bindings that backends have, each to its operations and device.

        An operation that several are bound to is the first one's that supports it. Raises InternalError if an operation is
        bound to no backend that supports it.
        """
        view = view_of(network)
        return Session._of(view, list(backends), bound_already(view, backends))

    @staticmethod
    def CreateWithSnapshot(
        filePath: str | os.PathLike[str], backends: Sequence[type], devices: Sequence[Device]
    ) -> Session:
        """Make a session of a file that `dumpSnapshot` wrote, with the options that it had, and apply it.

        `backends` are the classes of its backends, in their order, `devices` one for each; they may be others than those that
        the session had, of the same kinds. The file is mapped, and has to stay as it is.

        Raises InternalError if the file cannot be read, is no snapshot, damaged, or of another version or other backends.
        """
        network, ops, given = read_snapshot(filePath, backends, devices)
        view = network.view(ops)
        session = Session._of(view, given, bound_already(view, given))
        session.apply()
        return session

    def dumpSnapshot(self, filePath: str | os.PathLike[str]) -> None:
        """Write the network, with its parameters, the bindings and the backends' options to a file.

        Memory that the program gave to backends is not among the options. Raises InternalError if parameters have no data, or
        the file cannot be written.
        """
        write_snapshot(filePath, self.network_view, self._backends)

    @staticmethod
    def _of(view: NetworkView, backends: list[Backend], steps: list[Step]) -> Session:
        session = Session.Init()
        session._set_up(view, backends, steps)
        return session

    @overload
    def sub(self, start_index: int, end_index: int) -> Session: ...
    @overload
    def sub(self, start_index: int) -> Session: ...
    def sub(self, start_index: int, end_index: int | None = None) -> Session:
        """Return a session of some of the operations, ready to run, on the same backends.

        Indices count the session's operations; negative ones count from the end, and the end is not included.

        Raises InternalError before `apply`, and if an index is out of range.
        """
        self._ready("sub")
        count = len(self._plain)
        start = _index("start_index", start_index, count)
        end = count if end_index is None else _index("end_index", end_index, count)
        steps = self._plain[start : max(start, end)]
        part = Session._of(self.network_view.view([step.op.op_id for step in steps]), self._backends, steps)
        part._arrange(joined(steps))
        part._applied, part._profiles = True, self._profiles
        part._observers = self._observers.copy()
        return part

    # ---- what it is

    @property
    def backends(self) -> list[Backend]:
        """The backends, by priority: an operation runs on the first one that supports it. A new list; the backends are the
        session's."""
        return list(self._backends)

    @property
    def network_view(self) -> NetworkView:
        """The operations of the session, in execution order.

        Raises InternalError ([11012]) if the session has none (`Session.Init`).
        """
        if self._view is None:
            raise failure(ORDER, "the session has no network: Session.Create binds one")
        return self._view

    def backendBindings(self) -> dict[int, Backend]:
        """Return which backend each operation is bound to, by the operation's number (`Operation.op_id`).

        Operations are those of the network, whether or not some are run as one; their order is that of execution.
        """
        return {step.op.op_id: step.backend for step in self._plain}

    def getForwards(self) -> list[tuple[Operation, Backend, FForwardOp, list[int], list[int]]]:
        """Return the operations in the order in which they run.

        Each comes with its backend, its forward function (operation, inputs, outputs, backend) and the numbers of the values
        that it reads, parameters left out, and makes. After `apply`, operations that a backend runs as one are one, with a number
        above all others.
        """
        return [(step.op, step.backend, step.function, list(step.inputs), list(step.outputs)) for step in self._steps]

    # ---- options

    def apply(self) -> None:
        """Get everything ready to run, once: options are put in force, instructions and weights uploaded, operations
        compiled.

        Raises InternalError ([11012]) if it was called before or the session has no network, and what backends raise.
        """
        if self._view is None:
            raise failure(ORDER, "Session.apply: the session has no network: Session.Create binds one")
        if self._applied:
            raise failure(ORDER, "Session.apply was called before: a session is applied once")
        for backend in self._backends:
            backend.apply()
        self._arrange(joined(self._plain))
        if self._observers.reads():
            for step in self._steps:
                step.backend.initOp(step.op)
        else:
            for section in self._sections:
                section.prepare()
        self._applied = True

    def enableTimeProfile(self, enable: bool) -> None:
        """Take the time of every operation from now on, or stop. Off at first; may be called before or after `apply`.

        `timeProfileResults` has the times of the last run, in milliseconds.
        """
        self._profiles = bool(enable)
        for backend in self._backends:
            backend.enableTimeProfile(enable)

    def setLogIO(self, flag: bool) -> None:
        """Print every operation with the shapes of its inputs and outputs once it has run, or stop. Off at first.

        After each `forward` a line has the total time in milliseconds.
        """
        self._observers.log_io = bool(flag)

    def setLogTime(self, flag: bool) -> None:
        """Print every operation with its time in milliseconds once it has run, or stop. Off at first.

        They are ``wall``, ``memcpy``, ``hard`` and ``other``: in all, copies, computation and the rest, as
        `timeProfileResults` has them.
        """
        self._observers.log_time = bool(flag)

    def setDumpOutputs(self, flag: bool, path: str | os.PathLike[str], format: str) -> None:
        """Write every output as ``<v_id>.ftmp`` into a folder once its operation has run, or stop. The folder is made if it
        is not there.

        The format is that of `Tensor.dump`; what is not quantized is written as reals even if it says ``Q``.

        Raises InternalError ([11003]) if there is no such format; runs raise it ([11002]) if a file cannot be written.
        """
        self._observers.set_dump(path if flag else None, format)

    def setPreCallBack(self, func: CallBack | None) -> None:
        """Call `func` before every operation; None: nothing any more.

        It gets the session, the operation, its backend and an empty list, as there are no outputs yet.

        Raises InternalError if it cannot be called.
        """
        self._observers.before = _callback(func)

    def setPostCallBack(self, func: CallBack | None) -> None:
        """Call `func` after every operation; None: nothing any more.

        It gets the session, the operation, its backend and the tensors that the operation made. Who looks into one has the
        operations up to it run one by one (`forward`).

        Raises InternalError if it cannot be called.
        """
        self._observers.after = _callback(func)

    # ---- running

    @overload
    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]: ...
    @overload
    def forward(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None: ...
    def forward(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor] | None = None) -> list[Tensor] | None:
        """Run all operations and return the outputs; or have them written into `outputs`, which have memory.

        Inputs and outputs are checked before anything runs. Several threads may call it at once. Operations in a row that a
        backend can compute together are, unless dumps are asked for; what they compute is the same. Callbacks are called when
        they have been: who looks into a value, or writes into one, has the operations up to it, and those after it, run one by
        one.

        Raises InternalError before `apply`, if a tensor's shape or type is not the network's, and what operations raise.

        Examples:
            >>> import numpy as np, triune
            >>> from triune.icraft import xir
            >>> from triune.icraft.host_backend import HostBackend
            >>> from triune.icraft.xrt import Device, HostDevice, Session, Tensor
            >>> from triune.icraft.zg330backend import ZG330Backend
            >>> from triune.models import DIGITS_INT8, digits_held_out
            >>> package = triune.compile(DIGITS_INT8, target="zg330", format="icraft", output="networks")
            >>> network = xir.Network.CreateFromJsonFile("networks/digits_int8_ZG.json")
            >>> network.loadParamsFromFile("networks/digits_int8_ZG.raw")
            >>> devices = [Device.Open("axi://zg330aiu"), HostDevice.Default()]
            >>> session = Session.Create([ZG330Backend, HostBackend], network, devices)
            >>> session.apply()
            >>> (logits,) = session.forward([Tensor(digits_held_out()[0][:1], xir.Layout("NHWC"))])
            >>> int(np.array(logits).argmax())
            7
        """
        self._ready("forward")
        self._walls, self._excess = {}, 0.0
        given = check_inputs(self._inputs, inputs)
        wanted = {} if outputs is None else check_outputs(self._outputs, outputs)
        start = time.perf_counter()
        tensors: Tensors = {}
        uses = self._uses()
        merging = not self._observers.reads()

        def run() -> list[Tensor]:
            for section in self._sections:
                self._run_section(section, given, tensors, wanted, merging)
                for step in section.steps:
                    for v_id in step.inputs:
                        uses[v_id] -= 1
                        if uses[v_id] == 0:
                            tensors.pop(v_id, None)
            results = [self._found(value.v_id, tensors, given) for value in self._outputs]
            for target, result in zip(outputs or (), results, strict=outputs is not None):
                if result is not target:
                    target.copyFrom(0, result, 0, result._bytes())
            return results

        results = self._in_turn(run)
        self._total = time.perf_counter() - start - self._excess / 1e3
        self._observers.done(self._total * 1e3)
        return results if outputs is None else None

    def _in_turn(self, call: Callable[[], _T]) -> _T:
        """Return what a call returns, other threads being kept from the memory of the backends' devices meanwhile."""
        return _holding([backend._turn for backend in sorted(self._backends, key=id)], call)

    def _run_section(self, section: Section, given: Tensors, tensors: Tensors, wanted: Tensors, merging: bool) -> None:
        if merging and section.merges:
            inputs = {value.v_id: self._found(value.v_id, tensors, given) for value in section.inputs}
            start = time.perf_counter()
            types = Played.types(section) if self._observers.any() else {}
            walls: dict[int, float] | None = {} if self._profiles or self._observers.log_time else None
            results = None
            if types is not None:
                results = section.run(inputs, wanted, walls)
            if results is not None:
                if walls:
                    # The whole is what the parts took: what is between them goes to the first.
                    first = section.steps[0].op.op_id
                    walls[first] += max((time.perf_counter() - start) * 1e3 - sum(walls.values()), 0.0)
                if self._profiles:
                    self._walls.update(walls or {})
                if types:
                    self._show(
                        Played(section, inputs, results, types, self._bare(wanted)), results, wanted, walls or {}
                    )
                tensors.update(results)
                return
        for step in section.steps:
            self._run(step, given, tensors, wanted)

    def _show(self, played: Played, results: Tensors, wanted: Tensors, walls: Mapping[int, float]) -> None:
        """Tell callbacks and logs of operations that were computed together; `results` are replaced if one is changed."""
        for index, step in enumerate(played.steps):
            if played.opened:
                # Somebody looked into a value, and may have changed it: from here on they run one by one.
                self._run(step, {}, played.tensors, wanted)
                continue
            self._observers.pre(self, step, [])
            if played.opened:
                self._run(step, {}, played.tensors, wanted, announced=True)
                continue
            # No name here keeps the tensors: those that somebody else keeps are given their values in the end.
            self._observers.post(self, step, *played.at(index), walls.get(step.op.op_id, 0.0))
        played.close()
        if played.opened:
            results.update({v_id: played.tensors[v_id] for v_id in results})

    def _bare(self, wanted: Tensors) -> Callable[[Step, Tensors], list[Tensor]]:
        """Return what runs an operation by itself, with nobody told of it, and returns what it makes."""

        def run(step: Step, tensors: Tensors) -> list[Tensor]:
            places = [wanted[v_id] for v_id in step.outputs if v_id in wanted]
            inputs = [self._found(v_id, tensors, {}) for v_id in step.inputs]
            found = step.function(step.op, inputs, places if len(places) == len(step.outputs) else [], step.backend)
            return as_results(step.op, found)

        return run

    def stepTo(self, op_id: int, inputs: Sequence[Tensor] = ()) -> list[Tensor]:
        """Run up to and with an operation, and return its outputs; of an `Output` the network's.

        It goes on where the last call stopped; a call for an operation before that begins anew. `inputs` are the session's,
        in order; they can be left out as soon as no operation still needs them.

        Raises InternalError before `apply`, if there is no such operation, if inputs are missing or do not fit, and what
        operations raise.

        Operations that a backend runs as one are run one by one here.
        """
        self._ready("stepTo")
        merged = next((step.merged for step in self._steps if step.merged and step.op.op_id == op_id), ())
        last = merged[-1].op.op_id if merged else op_id
        target = next((index for index, step in enumerate(self._plain) if step.op.op_id == last), None)
        if target is None:
            raise failure(RANGE, f"Session.stepTo: the session has no operation {op_id}")
        given = check_inputs(self._inputs, inputs) if inputs or not self._inputs else {}
        self._walls, self._excess = {}, 0.0
        step, start = self._plain[target], time.perf_counter()

        def run() -> list[Tensor]:
            # Behind the devices' turns, which callbacks of other threads may have while they step.
            with self._stepping:
                if target + 1 < self._position.index:
                    self._position = _Position()
                position = self._position
                while position.index <= target:
                    self._run(self._plain[position.index], given, position.tensors, {})
                    position.index += 1
                return [position.tensors[v_id] for v_id in step.outputs or step.inputs]

        results = self._in_turn(run)
        self._total = time.perf_counter() - start - self._excess / 1e3
        return results

    def _run(self, step: Step, given: Tensors, tensors: Tensors, wanted: Tensors, announced: bool = False) -> None:
        """Run one operation: `given` from outside, `tensors` from other operations, where its outputs go too.

        `announced`: who wants to be told before has been.
        """
        inputs = [self._found(v_id, tensors, given) for v_id in (step.outputs if step.is_input else step.inputs)]
        places = [wanted[v_id] for v_id in step.outputs if v_id in wanted]
        if not announced:
            self._observers.pre(self, step, [])
        start = time.perf_counter()
        # With some outputs asked for and others not, the results are copied in the end.
        found = step.function(step.op, inputs, places if len(places) == len(step.outputs) else [], step.backend)
        passed = (time.perf_counter() - start) * 1e3
        results = as_results(step.op, found)
        wall = step.backend._wall(step.op.op_id, passed)
        self._excess += passed - wall
        if self._profiles:
            self._walls[step.op.op_id] = wall
        tensors.update(zip(step.outputs, results, strict=False))
        self._observers.post(self, step, inputs, results, wall)

    def _found(self, v_id: int, tensors: Tensors, given: Tensors) -> Tensor:
        tensor = tensors.get(v_id)
        if tensor is None:
            tensor = given.get(v_id)
        if tensor is None:
            why = (
                "is made neither by an operation before the one that takes it nor outside the session"
                if given
                else "comes from outside the session, and no inputs are given"
            )
            raise failure(ORDER, f"value {v_id} {why}")
        return tensor

    def _uses(self) -> dict[int, int]:
        """Return how many operations read each value; the session's outputs have one reader more."""
        uses: dict[int, int] = {value.v_id: 1 for value in self._outputs}
        for step in self._steps:
            for v_id in step.inputs:
                uses[v_id] = uses.get(v_id, 0) + 1
        return uses

    def _ready(self, what: str) -> None:
        if not self._applied:
            raise failure(ORDER, f"Session.{what} comes after Session.apply, which was not called")

    # ---- times

    def timeProfileResults(self) -> dict[int, tuple[float, float, float, float]]:
        """Return the times of the last run by the operation's number, in milliseconds: in all, copies, computation, the rest.

        Four floats each, of which the first is the sum of the others. Copies are those between regions of memory; computation
        is the device's own account (cycles at its clock), 0 on the host, where the rest is what was computed. An operation
        that was computed with another has 0; those that an accelerator ran as one have one entry, under the merged
        operation's number.

        It is empty unless `enableTimeProfile` was called before the run.
        """
        found: dict[int, tuple[float, float, float, float]] = {}
        for step in (*self._steps, *self._plain):
            op_id = step.op.op_id
            if op_id in self._walls:
                wall = self._walls[op_id]
                copies, computation = step.backend._times.get(op_id, (0.0, 0.0))
                found[op_id] = (wall, copies, computation, wall - copies - computation)
        return found

    def totalTime(self) -> float:
        """Return how long the last `forward` or `stepTo` took, in milliseconds: wall time of the call, 0.0 before the first
        one.

        It is taken whether or not `enableTimeProfile` was called. With TRIUNE_MODELLED_TIME=1 in the environment the time of
        operations on an accelerator is the board's instead of the simulation's.
        """
        return self._total * 1e3

    def _equals(self, other: Any) -> bool:
        return self is other

    def _clone(self, depth: int) -> Self:
        copy = type(self).Init()
        copy._set_up(self._view, list(self._backends), list(self._plain))
        copy._arrange(list(self._steps))
        copy._applied, copy._profiles, copy._observers = self._applied, self._profiles, self._observers.copy()
        return copy

    def _json(self) -> Any:
        return {"_type_key": self._json_key(), "backends": [backend._json() for backend in self._backends]}


def _border(view: NetworkView | None) -> tuple[list[Value], list[Value]]:
    """Return the values that come from outside, and the view's outputs."""
    if view is None:
        return [], []
    return list(view.inputs()), list(view.outputs())


def _holding(turns: Sequence[AbstractContextManager[Any]], call: Callable[[], _T]) -> _T:
    # Each lock is entered by a with statement of its own: an interrupt finds it either not taken, or let go on the way out.
    if not turns:
        return call()
    with turns[0]:
        return _holding(turns[1:], call)


def _index(what: str, index: int, count: int) -> int:
    place = index + count if index < 0 else index
    if not 0 <= place <= count:
        raise failure(RANGE, f"Session.sub: {what} {index} of {count} operations")
    return place


def _callback(function: Any) -> Any:
    if function is not None and not callable(function):
        raise failure(TYPE, f"a callback is something to call, not {type(function).__name__}")
    return function
