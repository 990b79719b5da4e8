"""Networks: operations that are added, taken out, replaced and connected; validation; what they are called and come from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self, overload

from triune.icraft._xir.base import NetworkBase, is_input, is_output
from triune.icraft._xir.enums import Framework
from triune.icraft._xir.errors import Error
from triune.icraft._xir.files import FileForms
from triune.icraft._xir.objects import ObjectRef, needed, plain
from triune.icraft._xir.operation import OPERATORS, Operation
from triune.icraft._xir.places import BuyiTarget, CompileTarget
from triune.icraft._xir.rewriting import Rewriting
from triune.icraft._xir.values import Params, Tagged, Value
from triune.icraft._xir.versions import EMPTY_MD5, FULL_VERSION, MAIN_VERSION

if TYPE_CHECKING:
    from triune.icraft._xir.patterns import OpPattern

__all__ = ["Network", "ValueUsesInfo", "copied"]

_DEEP = 1 << 10

ValueUsesInfo = list[tuple[Operation, set[int]]]
"""Operations that take a value, and which of their inputs it is."""


class Network(Tagged, FileForms, Rewriting, NetworkBase):
    """A network: an `Input`, operations in execution order, an `Output`.

    Examples:
        >>> from triune.icraft import xir
        >>> network = xir.Network("halves", xir.Framework.PYTORCH, "2.9")
        >>> image = xir.Input(xir.TensorType(xir.FloatType.FP32(), [1, 8, 8, 3], "NHWC"))
        >>> half = xir.AvgPool2d(image[0], 2, 2, 0)
        >>> for op in (image, half, xir.Output(half[0])):
        ...     _ = network.addOp(op)
        >>> network.outputs()[0].tensorType().shape
        [1, 4, 4, 3]
    """

    type_key = "icraft::xir::NetworkNode"
    _fields: ClassVar[tuple[str, ...]] = (
        "_ops",
        "_ai_target",
        "_framework_kind",
        "_framework_version",
        "_icraft_version",
        "_icraft_xir_version",
        "_name",
        "_tags",
    )
    _defaults: ClassVar[Mapping[str, Any]] = {
        **NetworkBase._defaults,
        "_framework_kind": Framework.PYTORCH,
        "_framework_version": "",
        "_icraft_version": f"v{MAIN_VERSION}",
        "_icraft_xir_version": FULL_VERSION,
        "_name": "",
        "_params_bytes": 0,
        "_params_md5": EMPTY_MD5,
        "_tags": dict,
        "_extra": dict,
    }
    _framework_kind: Framework | str
    _framework_version: str
    _icraft_version: str
    _icraft_xir_version: str
    _name: str
    _params_bytes: int
    _params_md5: str
    # Keys of a file that this version does not name.
    _extra: dict[str, Any]
    # Files before 3.7 do not say what accelerator they are for.
    _says_target = True
    _next_op = 0
    _next_value = 0
    _version = 0

    def __init__(
        self,
        name: str | ObjectRef,
        framework_kind: Framework | None = None,
        framework_version: str | None = None,
        ai_target: CompileTarget | None = None,
    ) -> None:
        """Take the network's name, what it comes from, and the accelerator that it is for (Buyi's unless it is given)."""
        if not isinstance(name, str) or framework_kind is None or framework_version is None:
            raise TypeError("Network() takes a name, a Framework, its version and a target")
        self._set_defaults()
        self._name = name
        self._framework_kind, self._framework_version = Framework(framework_kind), framework_version
        self._ai_target = BuyiTarget() if ai_target is None else ai_target

    def _whole(self) -> Network:
        return self

    def _named(self) -> str:
        return f"network {self._name!r}" if self._name else "the network"

    # ---- what it is called and comes from

    @property
    def name(self) -> str:
        """The name, as in the file's ``name``. It need not be the file's own."""
        return self._name

    def setName(self, name: str) -> Self:
        """Set the name. Returns the network itself, as all setters do."""
        self._name = name
        return self

    @property
    def framework_kind(self) -> Framework:
        """What it comes from, a `Framework`. Raises Error if a file names something unknown, which is written again as it is."""
        if not isinstance(self._framework_kind, Framework):
            raise Error(
                f"{self._named()}: framework_kind {self._framework_kind!r} is none of {list(Framework.__members__)}"
            )
        return self._framework_kind

    @property
    def framework_version(self) -> str:
        """The version of what it comes from, as a text: ``2.9``."""
        return self._framework_version

    @property
    def icraft_version(self) -> str:
        """The version of the tools that wrote it, as a text; of a new one ``v3.33.1``."""
        return self._icraft_version

    @property
    def icraft_xir_version(self) -> str:
        """The version of the format, as a text; of a new one ``3.33.1.0``."""
        return self._icraft_xir_version

    @property
    def params_bytes(self) -> int:
        """The size of the file of parameters in bytes, as of the last time it was read or written; 0 of a new network."""
        return self._params_bytes

    @property
    def params_md5(self) -> str:
        """The MD5 digest of the file of parameters, 32 hexadecimal digits, as of the last time it was read or written.

        Empty if it was left out (`calc_md5`); of a new network that of no bytes, ``d41d8cd98f00b204e9800998ecf8427e``.
        """
        return self._params_md5

    # ---- numbers

    def _touch(self) -> None:
        self._cached = None
        self._version += 1

    def _check_op_id(self, op_id: int) -> None:
        if op_id < 0:
            raise Error(f"{self._named()}: {op_id} is no number for an operation; it starts at 0")
        if op_id in self._index().place:
            raise Error(f"{self._named()} has an operation of number {op_id} already; {self._next_op} is free")
        self._next_op = max(self._next_op, op_id + 1)

    def _check_value_id(self, value: Value, v_id: int) -> None:
        if v_id < 0:
            raise Error(f"{self._named()}: {v_id} is no number for a value; it starts at 0")
        found = self._index().values.get(v_id)
        if found is not None and found is not value:
            raise Error(f"{self._named()} has a value of number {v_id} already; {self._next_value} is free")
        self._next_value = max(self._next_value, v_id + 1)

    def _number(self, values: Iterable[Value]) -> None:
        """Give numbers to values that have none."""
        for value in values:
            if value._v_id >= 0:
                self._check_value_id(value, value._v_id)
            else:
                value._v_id = self._next_value
                self._next_value += 1
            if self._cached is not None:
                self._cached.values[value._v_id] = value

    def _admit(self, value: Value) -> None:
        """Number parameters that come in as somebody's input or attribute."""
        if isinstance(value, Params) and value.defined():
            self._number([value])
            value._network = self

    # ---- operations come and go

    def addOp(self, op: Operation) -> Self:
        """Add an operation behind the others, and infer its outputs if it has none and the operator has a rule.

        It and its values get numbers unless they have some, as copies do (`clone`); of ``setId(-1)`` they have none. Returns the
        network itself, as all that change it do.

        Raises Error if it is null, in a network already, an `Input` that is not the first or something else that is, without
        inputs, if a number is taken, or its inputs and attributes do not fit; TypeError if it is no operation.
        """
        return self.insertOp(len(self._ops), op)

    def insertOpById(self, op_id: int, op: Operation) -> Self:
        """Insert an operation before the one of that number. Raises Error as `addOp` does, or if there is none of that
        number."""
        return self.insertOp(self.getOpIndexById(op_id), op)

    def insertOp(self, op_index: int, op: Operation) -> Self:
        """Insert an operation so that it becomes number `op_index` in execution order; the number of operations adds it
        behind them.

        Raises Error as `addOp` does, or if the place is out of range, as a negative one is.
        """
        if not 0 <= op_index <= len(self._ops):
            raise Error(f"{self._named()} has {len(self._ops)} operations: none can be inserted at {op_index}")
        self._check_free(op)
        if is_input(op) and (op_index or (self._ops and is_input(self._ops[0]))):
            raise Error(f"{self._named()}: {op._called()} is an Input, which is only ever the first")
        if not is_input(op) and not op_index:
            raise Error(f"{self._named()}: the first operation is an Input, not {op._called()}")
        if not is_input(op) and not op._inputs:
            raise Error(f"{self._named()}: {op._called()} has no inputs")
        if op._op_id >= 0:
            self._check_op_id(op._op_id)
        if not op._outputs and op._rule is not None:
            op.inferResults()
        for value in op._outputs:
            if value._v_id >= 0:
                self._check_value_id(value, value._v_id)
        if op._op_id < 0:
            op._op_id = self._next_op
            self._next_op += 1
        for value in (*op._inputs, *op._constants()):
            self._admit(value)
        self._number(op._outputs)
        op._network = self
        self._ops.insert(op_index, op)
        index = self._cached
        self._touch()
        if index is not None and op_index == len(self._ops) - 1:
            # Networks are mostly built from front to back: the index grows with them.
            index.append(op)
            self._cached = index
        return self

    def _check_free(self, op: Operation) -> None:
        """Raise TypeError unless it is an operation, Error if it is null or in a network."""
        if not needed(Operation, op, self._named()).defined():
            raise Error(f"{self._named()}: a null operation cannot be added")
        if op._network is not None:
            where = "it already" if op._network is self else f"{op._network._named()}, take it out first"
            raise Error(f"{self._named()}: {op._called()} is in {where}")

    def removeOpById(self, op_id: int) -> Self:
        """Take out an operation by its number. What it made stays an input of whoever takes it: `validate` refuses that until
        it is replaced.

        Raises Error if there is none of that number.
        """
        op = self._ops.pop(self.getOpIndexById(op_id))
        op._network = None
        self._touch()
        return self

    def removeOpsById(self, op_ids: Iterable[int]) -> Self:
        """Take out operations by their numbers, as `removeOpById` does. If one number is of none, Error is raised and nothing
        is taken out."""
        for op in self.getOpsById(op_ids):
            self.removeOpById(op._op_id)
        return self

    def removeOp(self, f: Callable[[Operation], bool]) -> Self:
        """Take out all operations of which a function says so, as `removeOpById` does. It is asked once of each, before the
        first goes."""
        for op in [op for op in self._ops if f(op)]:
            self.removeOpById(op._op_id)
        return self

    def replaceOp(self, src: Operation, dest: Operation) -> Self:
        """Put an operation in the place of another, whose connections stay as they are: who took its outputs still does.

        `replaceOpKeepUses` moves them. Raises Error as `insertOp` does, or if `src` is not of this network; the network stays
        as it was then.
        """
        return self.replaceOpById(self._own(src)._op_id, dest)

    def replaceOpById(self, op_id: int, op: Operation) -> Self:
        """Put an operation in the place of the one of that number, as `replaceOp` does; that one itself changes nothing."""
        place = self.getOpIndexById(op_id)
        gone = self._ops[place]
        if op is gone:
            return self
        self._check_free(op)
        # The place is empty for a moment, so that an Input can replace an Input.
        self.removeOpById(op_id)
        try:
            return self.insertOp(place, op)
        except Exception:
            self._ops.insert(place, gone)
            gone._network = self
            self._touch()
            raise

    def replaceOpKeepUses(self, src: Operation, dest: Operation) -> Self:
        """Put an operation in the place of another, and its outputs where that one's were taken.

        If it has no inputs it takes the other's; if it has no outputs and no rule for them, the other's become its own.
        Raises Error as `insertOp` does, or if it has fewer outputs than are taken.
        """
        return self.replaceOpByIdKeepUses(self._own(src)._op_id, dest)

    def replaceOpByIdKeepUses(self, op_id: int, op: Operation) -> Self:
        """Put an operation in the place of the one of that number, as `replaceOpKeepUses` does; that one itself changes
        nothing."""
        gone = self.getOpById(op_id)
        if op is gone:
            return self
        self._check_free(op)
        if not op._inputs:
            op.setInputs(gone._inputs)
        if not op._outputs and not is_output(op):
            if op._rule is None:
                return self._hand_over(gone, op)
            op.inferResults()
        uses = [(index, self.getUsesInfo(value)) for index, value in enumerate(gone._outputs)]
        self._check_outputs(op, [index for index, taken in uses if taken])
        self.replaceOpById(op_id, op)
        for index, taken in uses:
            if taken:
                self.connect(op._outputs[index], [use for use in taken if use[0] is not op and use[0] is not gone])
        return self

    def _hand_over(self, gone: Operation, op: Operation) -> Self:
        """Put an operation in the place of another, and make that one's outputs its own."""
        op._bind_outputs(list(gone._outputs))
        try:
            return self.replaceOpById(gone._op_id, op)
        except Exception:
            gone._bind_outputs(list(op._outputs))
            raise

    def _check_outputs(self, op: Operation, taken: Sequence[int]) -> None:
        if taken and max(taken) >= len(op._outputs):
            raise Error(f"{self._named()}: {op._called()} has {len(op._outputs)} outputs, output {max(taken)} is taken")

    def _own(self, op: Operation) -> Operation:
        if needed(Operation, op, self._named())._network is not self:
            raise Error(f"{op._called()} is not of {self._named()}")
        return op

    # ---- connections

    def getUsesInfo(self, v: Value) -> ValueUsesInfo:
        """Return the operations that take a value, in execution order, each with a set of its inputs (from 0) that it is.

        The value is known by its number; one that nobody takes, or that is of no network, has an empty list.
        """
        return [(op, set(places)) for op, places in self._index().uses.get(v._v_id, ())]

    def getUsesInfoExceptMatch(self, v: Value, match: Mapping[OpPattern, Operation]) -> ValueUsesInfo:
        """Return the same as `getUsesInfo`, without the operations of a match (`search`)."""
        matched = {id(op) for op in match.values()}
        return [use for use in self.getUsesInfo(v) if id(use[0]) not in matched]

    @overload
    def connect(self, from_: Value, to: Operation, index: int) -> Self: ...
    @overload
    def connect(self, from_: Value, to: Operation | Iterable[tuple[Operation, Iterable[int]]]) -> Self: ...
    def connect(
        self, from_: Value, to: Operation | Iterable[tuple[Operation, Iterable[int]]], index: int | None = None
    ) -> Self:
        """Make a value an operation's input: the one of that number, or without a number one behind the others.

        Or several operations' inputs, each given with the numbers. Raises Error if there are no such inputs.
        """
        if isinstance(to, Operation):
            self._own(to).connectInput(len(to._inputs) if index is None else index, from_)
            return self
        uses: Any = to
        for op, places in uses:
            for place in places:
                self._own(op).connectInput(place, from_)
        return self

    # ---- rules

    def validate(self) -> None:
        """Raise Error unless the network is as the rules have it.

        First an `Input`, last an `Output`; each input is made by an operation before it, or known beforehand; numbers are
        there once; attributes, types and layouts fit; a hardware operation is for the network's accelerator.
        """
        if not self._ops or not is_input(self._ops[0]):
            raise Error(f"{self._named()}: the first operation is not an Input")
        if not is_output(self._ops[-1]):
            raise Error(f"{self._named()}: the last operation is not an Output but {self._ops[-1]._called()}")
        made: dict[int, Value] = {}
        numbers: set[int] = set()
        for op in self._ops:
            where = f"{self._named()}, {op._called()}"
            if op._op_id in numbers:
                raise Error(f"{where}: its number is another operation's, too")
            numbers.add(op._op_id)
            if (is_input(op) and op is not self._ops[0]) or (is_output(op) and op is not self._ops[-1]):
                raise Error(f"{where}: it stands in the middle")
            try:
                op.validate()
            except Error as error:
                raise Error(f"{self._named()}, {error}") from None
            for index, value in enumerate(op._inputs):
                if value.defined() and not isinstance(value, Params) and made.get(value._v_id) is not value:
                    raise Error(f"{where}: no operation before it makes its input {index}, value {value.v_id}")
            for value in (*op._outputs, *op.paramsInputs(), *op._constants()):
                if made.setdefault(value._v_id, value) is not value:
                    raise Error(f"{where}: the number {value.v_id} is of two values")
            hardware = isinstance(op, OPERATORS["icraft::xir::HardOp"])
            if hardware and type(op.compile_target) is not type(self._ai_target):
                raise Error(f"{where}: it is for {op.compile_target}, the network for {self._ai_target}")

    # ---- copies and text

    def _clone(self, depth: int) -> Self:
        # Operations are of one network: at any depth a copy has its own.
        copies = _Copies()
        for op in self._ops:
            copies.operation(op)
        copy = self._without_operations()
        copy._take(copies.operations)
        return copy

    def _without_operations(self) -> Self:
        copy = type(self)._new()
        copy.__dict__.update(self.__dict__, _ops=[], _cached=None, _version=0)
        copy._tags, copy._extra = dict(self._tags), dict(self._extra)
        copy.__dict__.pop("_rewriter", None)
        return copy

    def _take(self, ops: list[Operation]) -> None:
        """Make operations, numbered or not, those of this network, which has none."""
        self._ops = ops
        values = [value for op in ops for value in (*op._inputs, *op._constants(), *op._outputs)]
        self._next_op = max((op._op_id for op in ops), default=-1) + 1
        self._next_value = max((value._v_id for value in values if value.defined()), default=-1) + 1
        for op in ops:
            op._network = self
            if op._op_id < 0:
                op._op_id, self._next_op = self._next_op, self._next_op + 1
        for value in values:
            if value.defined():
                if value._v_id < 0:
                    value._v_id, self._next_value = self._next_value, self._next_value + 1
                if isinstance(value, Params):
                    value._network = self
        self._touch()

    def _json(self) -> Any:
        return {
            **plain(self._extra),
            "_type_key": self._json_key(),
            **({"ai_target": plain(self._ai_target)} if self._says_target else {}),
            "framework_kind": plain(self._framework_kind),
            "framework_version": self._framework_version,
            "icraft_version": self._icraft_version,
            "icraft_xir_version": self._icraft_xir_version,
            "name": self._name,
            "ops": [op._json() for op in self._ops],
            "params_bytes": self._params_bytes,
            "params_md5": self._params_md5,
            "tags": plain(self._tags),
        }


def copied(network: Network, ops: Sequence[Operation], inputs: list[Value], outputs: list[Value]) -> Network:
    """Return a network of copies of some operations, with `Input` and `Output` added where they are not among them."""
    copies = _Copies()
    copy = network._without_operations()
    for op in ops:
        copies.operation(op)
    made = copies.operations
    if not made or not is_input(made[0]):
        made.insert(0, OPERATORS["icraft::xir::Input"].Init())
    made[0]._bind_outputs([copies.value(value) for value in inputs])
    if not is_output(made[-1]):
        made.append(OPERATORS["icraft::xir::Output"].Init())
    # An Output that is there keeps its order, and may take a value twice.
    taken = {id(value) for value in made[-1]._inputs}
    made[-1]._inputs += [copy for copy in map(copies.value, outputs) if id(copy) not in taken]
    copy._take(made)
    return copy


class _Copies:
    """Copies of operations and values, each made once."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self._values: dict[int, Value] = {}

    def value(self, value: Value) -> Value:
        """Return the copy of a value; its data are shared."""
        if not value.defined():
            return value
        if id(value) not in self._values:
            self._values[id(value)] = value._clone(_DEEP)
        return self._values[id(value)]

    def operation(self, op: Operation) -> Operation:
        """Add the copy of an operation."""
        copy = self._operation(op)
        self.operations.append(copy)
        return copy

    def _operation(self, op: Operation) -> Operation:
        copy = op._clone(0)
        copy._tags = {key: tag.clone(_DEEP) if tag.defined() else tag for key, tag in op._tags.items()}
        copy._attributes = {key: self._attribute(value) for key, value in op._attributes.items()}
        copy._inputs = [self.value(value) for value in op._inputs]
        copy._bind_outputs([self.value(value) for value in op._outputs])
        return copy

    def _attribute(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._attribute(item) for item in value]
        if isinstance(value, Operation):
            return self._operation(value)
        if isinstance(value, Value):
            return self.value(value)
        return value.clone(_DEEP) if isinstance(value, ObjectRef) and value.defined() else value
