"""What networks and views of them have in common: operations in execution order, and questions about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self, overload

from triune.icraft._xir.errors import Error
from triune.icraft._xir.objects import Concrete, needed
from triune.icraft._xir.operation import Operation
from triune.icraft._xir.places import BuyiTarget, CompileTarget
from triune.icraft._xir.values import Params, Value

if TYPE_CHECKING:
    from triune.icraft._xir.network import Network
    from triune.icraft._xir.view import NetworkView

__all__ = ["Index", "NetworkBase", "is_input", "is_output"]


def is_input(op: Operation) -> bool:
    """Return whether it is the operation that stands for a network's inputs."""
    return op.typeKey() == "icraft::xir::InputNode"


def is_output(op: Operation) -> bool:
    """Return whether it is the operation that stands for a network's outputs."""
    return op.typeKey() == "icraft::xir::OutputNode"


class Index:
    """Operations and values by number, and who takes which value. Made anew when the network changed."""

    def __init__(self, ops: Sequence[Operation]) -> None:
        """Walk the operations."""
        self.place: dict[int, int] = {}
        self.values: dict[int, Value] = {}
        self.uses: dict[int, list[tuple[Operation, set[int]]]] = {}
        for op in ops:
            self.append(op)

    def append(self, op: Operation) -> None:
        """Add an operation behind the others."""
        self.place[op._op_id] = len(self.place)
        taken: dict[int, set[int]] = {}
        for index, value in enumerate(op._inputs):
            if value.defined():
                self.values[value._v_id] = value
                taken.setdefault(value._v_id, set()).add(index)
        for number, places in taken.items():
            self.uses.setdefault(number, []).append((op, places))
        for value in (*op._outputs, *op._constants()):
            self.values[value._v_id] = value


class NetworkBase(Concrete):
    """Operations in execution order."""

    type_key = "icraft::xir::NetworkBaseNode"
    _fields: ClassVar[tuple[str, ...]] = ("_ops", "_ai_target")
    _defaults: ClassVar[Mapping[str, Any]] = {"_ops": list, "_ai_target": BuyiTarget}
    _ops: list[Operation]
    _ai_target: CompileTarget
    _cached: Index | None = None

    def _index(self) -> Index:
        if self._cached is None:
            self._cached = Index(self._ops)
        return self._cached

    def _whole(self) -> Network:
        """Return the network that this is, or is a view of."""
        raise Error("it is neither a network nor a view of one")

    def _named(self) -> str:
        return "the network"

    # ---- operations

    @property
    def ops(self) -> list[Operation]:
        """The operations in execution order. A new list: `Network.insertOp` and its siblings change the network's."""
        return list(self._ops)

    def __len__(self) -> int:
        """Return the number of operations."""
        return len(self._ops)

    def __bool__(self) -> bool:
        """Return whether there is something behind the handle, operations or not."""
        return self.defined()

    def __getitem__(self, arg0: int) -> Operation:
        """Return an operation by place; negative numbers count from the end. Raises Error if there is none."""
        if not -len(self._ops) <= arg0 < len(self._ops):
            raise Error(f"{self._named()} has {len(self._ops)} operations, none at place {arg0}")
        return self._ops[arg0]

    def getOpIndexById(self, op_id: int) -> int:
        """Return an operation's place in execution order, from 0. Raises Error if there is none of that number."""
        place = self._index().place.get(op_id)
        if place is None:
            raise Error(f"{self._named()} has no operation of number {op_id}")
        return place

    def getOpById(self, op_id: int) -> Operation:
        """Return the operation of a number (`Operation.op_id`). Raises Error if there is none."""
        return self._ops[self.getOpIndexById(op_id)]

    def getOpsById(self, op_ids: Iterable[int]) -> list[Operation]:
        """Return operations in the order of the numbers. Raises Error if there is none of one of the numbers."""
        return [self.getOpById(number) for number in op_ids]

    def getPreOpById(self, op_id: int) -> Operation:
        """Return the operation that runs before another. Raises Error if there is none of that number, or it is the first."""
        place = self.getOpIndexById(op_id)
        if place == 0:
            raise Error(f"operation {op_id} is the first of {self._named()}")
        return self._ops[place - 1]

    def getNextOpById(self, op_id: int) -> Operation:
        """Return the operation that runs after another. Raises Error if there is none of that number, or it is the last."""
        place = self.getOpIndexById(op_id)
        if place + 1 == len(self._ops):
            raise Error(f"operation {op_id} is the last of {self._named()}")
        return self._ops[place + 1]

    def _sorted(self, ops: Iterable[Operation], by_place: bool) -> list[Operation]:
        unique = list({op._op_id: op for op in ops}.values())
        return sorted(unique, key=lambda op: self.getOpIndexById(op._op_id)) if by_place else unique

    def getProducersByOpId(self, op_id: int, sorted: bool = False) -> list[Operation]:
        """Return the operations that make an operation's inputs, each once; with `sorted` in execution order.

        Raises Error if there is none of that number.
        """
        places = self._index().place
        makers = [value._op for value in self.getOpById(op_id)._inputs if value.defined()]
        return self._sorted((op for op in makers if op is not None and op._op_id in places), sorted)

    def getConsumersByOpId(self, op_id: int, sorted: bool = False) -> list[Operation]:
        """Return the operations that take an operation's outputs, each once; with `sorted` in execution order.

        Raises Error if there is none of that number.
        """
        uses = self._index().uses
        outputs = self.getOpById(op_id)._outputs
        return self._sorted((op for value in outputs for op, _ in uses.get(value._v_id, ())), sorted)

    # ---- values

    def inputs(self) -> list[Value]:
        """Return the inputs: what the `Input` operation makes, in its order.

        `Value.tensorType` has the shape, layout and elements of each.
        """
        return [value for op in self._ops if is_input(op) for value in op._outputs]

    def outputs(self) -> list[Value]:
        """Return the outputs: what the `Output` operation takes, in its order.

        `Value.tensorType` has the shape, layout and elements of each.
        """
        return [value for op in self._ops if is_output(op) for value in op._inputs]

    def getValueById(self, v_id: int) -> Value:
        """Return the value of a number (`Value.v_id`), parameters included. Raises Error if no operation takes or makes it."""
        value = self._index().values.get(v_id)
        if value is None:
            raise Error(f"{self._named()} has no value of number {v_id}")
        return value

    def getValuesById(self, value_ids: Iterable[int]) -> list[Value]:
        """Return values in the order of the numbers. Raises Error if there is none of one of the numbers."""
        return [self.getValueById(number) for number in value_ids]

    def getUsesOpByValueId(self, v_id: int) -> list[Operation]:
        """Return the operations that take a value, in execution order, each once. Raises Error if there is none of that
        number."""
        self.getValueById(v_id)
        return [op for op, _ in self._index().uses.get(v_id, ())]

    def getUsesNumByValueId(self, v_id: int) -> int:
        """Return how many operations take a value; one that takes it twice counts once. Raises Error if there is none of that
        number."""
        return len(self.getUsesOpByValueId(v_id))

    def _params(self) -> list[Params]:
        """Return all parameters, each once, in the order of first use."""
        found: dict[int, Params] = {}
        for op in self._ops:
            for value in (*op._inputs, *op._constants()):
                if isinstance(value, Params) and value.defined():
                    found.setdefault(value._v_id, value)
        return list(found.values())

    def allParams(self) -> list[Params]:
        """Return all parameters, inputs and attributes, each once, in the order of first use: that of the data in a ``.raw``
        file."""
        return self._params()

    # ---- the accelerator

    @property
    def ai_target(self) -> CompileTarget:
        """The accelerator that the network is for, a `BuyiTarget` at first. `validate` compares hardware operations with it."""
        return self._ai_target

    def setAITarget(self, ai_target: CompileTarget) -> Self:
        """Set the accelerator that the network is for; operations stay as they are. Raises TypeError if it is no
        `CompileTarget`."""
        self._ai_target = needed(CompileTarget, ai_target, "setAITarget")
        return self

    # ---- views

    @overload
    def view(self, op_ids: Sequence[int]) -> NetworkView: ...
    @overload
    def view(self, start_index: int, end_index: int) -> NetworkView: ...
    @overload
    def view(self, start_index: int = 0) -> NetworkView: ...
    @overload
    def view(self, ops: Sequence[Operation]) -> NetworkView: ...
    @overload
    def view(self, judge: Callable[[Operation], bool]) -> NetworkView: ...
    def view(self, *args: Any, **keywords: Any) -> NetworkView:
        """Return a view of some operations, in their order in the network.

        They are given as the first place and the one behind the last (negative ones count from the end; without it all to
        the end), as numbers, as a list of operations, or as a function that says of each whether it is in.

        Raises Error if there are no such operations.
        """
        from triune.icraft._xir.view import NetworkView

        end_index = keywords.pop("end_index", args[1] if len(args) > 1 else len(self._ops))
        ops = next(iter(keywords.values())) if keywords else args[0] if args else 0
        if isinstance(ops, int):
            start, end = self._bound(ops), self._bound(end_index)
            return NetworkView._make(self._whole(), self._ops[start:end])
        if callable(ops):
            return NetworkView._make(self._whole(), [op for op in self._ops if ops(op)])
        chosen = {op._op_id if isinstance(op, Operation) else int(op) for op in ops}
        for op in ops:
            number = op._op_id if isinstance(op, Operation) else int(op)
            if isinstance(op, Operation) and self._ops[self.getOpIndexById(number)] is not op:
                raise Error(f"{op._called()} is not of {self._named()}")
            self.getOpIndexById(number)
        return NetworkView._make(self._whole(), [op for op in self._ops if op._op_id in chosen])

    def _bound(self, place: int) -> int:
        if not -len(self._ops) <= place <= len(self._ops):
            raise Error(f"{self._named()} has {len(self._ops)} operations: place {place} is out of range")
        return place + len(self._ops) if place < 0 else place

    def viewByOpId(self, start_op_id: int, end_op_id: int) -> NetworkView:
        """Return a view of the operations from one number to another, both in, by their places in execution order.

        It is empty if the second runs before the first. Raises Error if there is none of one of the numbers.
        """
        return self.view(self.getOpIndexById(start_op_id), self.getOpIndexById(end_op_id) + 1)

    def viewExcept(self, op_ids: Iterable[int]) -> NetworkView:
        """Return a view of all operations except those of some numbers. Raises Error if there is none of one of the numbers."""
        gone = {self.getOpById(number)._op_id for number in op_ids}
        return self.view(lambda op: op._op_id not in gone)
