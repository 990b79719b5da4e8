"""Operations: inputs, outputs, attributes, tags, and their place in a network.

Operators that the vendor names are subclasses, made of tables in the `operators` package; an operation of any other type key
is an `Operation` with free attributes. What an operator may be given, its attributes and the rule for its outputs
are class variables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self, overload

from triune._text import short
from triune.icraft._xir.attributes import Attr, json_name
from triune.icraft._xir.binding import Form, fits, shown
from triune.icraft._xir.enums import VendorEnum
from triune.icraft._xir.errors import Error, InternalError
from triune.icraft._xir.objects import Concrete, ObjectRef, held, needed, plain, whole_number
from triune.icraft._xir.places import CompileTarget, HostTarget
from triune.icraft._xir.types import TensorType
from triune.icraft._xir.values import Params, Tagged, Value

if TYPE_CHECKING:
    from triune.icraft._xir.network import Network

__all__ = ["OPERATORS", "Operation", "as_value"]

OPERATORS: dict[str, type[Operation]] = {}
"""The operators by type key, as files have it: without ``Node``."""

Rule = Callable[["Operation"], list[TensorType]]
"""What makes the types of the outputs of an operation; raises Error if its inputs or attributes cannot be."""


def as_value(given: object) -> Value:
    """Return a value; an operation with one output stands for it. Raises TypeError of anything else."""
    if isinstance(given, Value):
        return given
    if isinstance(given, Operation):
        outputs = given.inferResults() if not given._outputs and given._rule else given._outputs
        if len(outputs) == 1:
            return outputs[0]
        raise TypeError(short(f"{given._called()} has {len(outputs)} outputs: say which one"))
    raise TypeError(f"a Value is needed, not {type(given).__name__}")


class Operation(Tagged, Concrete):
    """One operation of a network."""

    type_key = "icraft::xir::OperationNode"
    _fields = ("_attributes", "_compile_target", "_inputs", "_name", "_op_id", "_outputs", "_tags", "_key")
    _defaults: ClassVar[Mapping[str, Any]] = {
        "_compile_target": HostTarget,
        "_inputs": list,
        "_name": "",
        "_op_id": -1,
        "_outputs": list,
        "_tags": dict,
    }
    _bonds = frozenset(("_network", "_outputs"))
    # What an operator's table says.
    _table: ClassVar[Mapping[str, Attr]] = {}
    _forms: ClassVar[Sequence[Form]] = ()
    _rule: ClassVar[Rule | None] = None
    _activation: ClassVar[bool] = False
    _params_names: ClassVar[Sequence[str]] = ()
    _construct: ClassVar[Callable[[Any, dict[str, Any]], None]]

    _key: str = ""
    _attributes: dict[str, Any]
    _compile_target: CompileTarget
    _inputs: list[Value]
    _name: str
    _op_id: int
    _outputs: list[Value]
    _network: Network | None = None

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        """Take what the operator's forms say; `Operation` itself is made by `Operation.Create`."""
        if not self._forms:
            kinds = ", ".join(type(argument).__name__ for argument in arguments)
            raise TypeError(f"Operation() casts; Operation.Create() makes operations of any type; given: {kinds}")
        reasons = []
        for found in fits(self._forms, arguments, keywords):
            self._set_defaults()
            try:
                type(self)._construct(self, found)
            except (TypeError, ValueError) as error:
                reasons.append(str(error))
            else:
                return
        why = f": {'; '.join(dict.fromkeys(reasons))}" if reasons else ""
        raise TypeError(short(f"the arguments fit none of {shown(type(self).__name__, self._forms)}{why}"))

    def _set_defaults(self, **given: Any) -> None:
        super()._set_defaults(**given)
        self._attributes = {name: attribute.initial() for name, attribute in self._table.items()}

    @staticmethod
    def Create(arg0: str, arg1: str = "") -> Operation:
        """Return an operation of a type key, such as ``icraft::xir::ReLU`` or ``customop::ImageMake``, with no inputs yet.

        A ``Node`` at the key's end may be left out. Of Icraft's own operators the class with its attributes' defaults comes
        back, of any other an `Operation` with none. The vendor loads a custom operator's library, `arg1`, for its rules;
        nothing here needs it, and it is not opened.

        Raises Error if the key is empty.
        """
        key = arg0.removesuffix("Node")
        operator = OPERATORS.get(key, Operation)
        operation = operator.Init()
        if operator is Operation:
            if not key:
                raise Error("Operation.Create: the type key is empty")
            operation._key = key
        return operation

    def typeKey(self) -> str:
        """Return the type key, ``Node`` at its end: ``icraft::xir::Conv2dNode`` or ``customop::ImageMakeNode``."""
        return f"{self._key}Node" if self._key else super().typeKey()

    def _called(self) -> str:
        return f"operation {self._op_id} ({self._json_key()}{f' {self._name}' if self._name else ''})"

    def _json(self) -> Any:
        return {
            **{json_name(name): plain(value) for name, value in self._attributes.items()},
            "_type_key": self._json_key(),
            "compile_target": plain(self._compile_target),
            "inputs": [plain(value) for value in self._inputs],
            "name": self._name,
            "op_id": self._op_id,
            "outputs": [plain(value) for value in self._outputs],
            "tags": plain(self._tags),
        }

    def _clone(self, depth: int) -> Self:
        copy = super()._clone(depth)
        # Outputs belong to one operation: a copy has its own.
        copy._outputs = []
        copy._bind_outputs([value._clone(max(depth - 1, 0)) for value in self._outputs])
        return copy

    def _touch(self) -> None:
        if self._network is not None:
            self._network._touch()

    # ---- name, number, target

    @property
    def name(self) -> str:
        """The name, often empty; of a hardware operation the type that it was made of."""
        return self._name

    def setName(self, name: str) -> Self:
        """Set the name, which need not be unique. Returns the operation itself, as all setters do that return one."""
        self._name = name
        return self

    @property
    def op_id(self) -> int:
        """The number: 0 or more and unique in a network, -1 before a network gives one."""
        return self._op_id

    def setId(self, op_id: int) -> Self:
        """Set the number, 64 bits; outside of a network any. Networks give later operations numbers above it.

        Raises Error if the operation is in a network and the number negative or another operation's, TypeError if it does not
        fit 64 bits.
        """
        op_id = whole_number(op_id)
        if self._network is not None and op_id != self._op_id:
            self._network._check_op_id(op_id)
        self._op_id = op_id
        self._touch()
        return self

    @property
    def compile_target(self) -> CompileTarget:
        """What runs it: a `HostTarget` at first."""
        return self._compile_target

    def setCompileTarget(self, target: CompileTarget) -> Self:
        """Set what runs it: the host, an accelerator, an FPGA, or something of the user's.

        `Network.validate` asks that hardware operations be for the network's accelerator. Raises TypeError if it is no
        `CompileTarget`.
        """
        self._compile_target = needed(CompileTarget, target, "Operation.setCompileTarget")
        return self

    def isActivate(self) -> bool:
        """Return whether it is an activation function, such as ReLU or Sigmoid: it says so of its class, of custom operators
        False."""
        return self._activation

    # ---- attributes

    def attrs(self) -> dict[str, Any]:
        """Return all attributes by name, in a new dictionary: `setAttr` changes one. Values in it are the operation's own."""
        return dict(self._attributes)

    def hasAttr(self, arg0: str, *value: Any) -> bool:
        """Return whether there is an attribute of that name; with a value, whether it is equal to that.

        A member of an enumeration is equal to its name, too.
        """
        if arg0 not in self._attributes or not value:
            return arg0 in self._attributes
        found, given = self._attributes[arg0], value[0]
        attribute = self._table.get(arg0)
        if attribute is not None:
            try:
                given = attribute.kind.convert(given)
            except (TypeError, ValueError):
                # Members of enumerations are known by their names, too.
                return isinstance(found, VendorEnum) and found.name == given
        return bool(found == given)

    def getAttr(self, arg0: str) -> Any:
        """Return an attribute, of the type that the class's docstring says. Raises Error, with those that there are, if it
        has none of that name."""
        if arg0 not in self._attributes:
            raise Error(
                f"{self._called()} has no attribute {arg0!r}; it has {', '.join(sorted(self._attributes)) or 'none'}"
            )
        return self._attributes[arg0]

    def setAttr(self, key: str, value: Any) -> None:
        """Set an attribute, converted as an argument of the operator's class would be.

        Raises Error if the operator has none of that name, TypeError if the value is of another kind. An operation of a class
        that is not known takes numbers, strings, lists, dictionaries and objects; numpy's become Python's.
        """
        attribute = self._table.get(key)
        if attribute is None and type(self) is not Operation and key not in self._attributes:
            raise Error(f"{self._called()} has no attribute {key!r}; it has {', '.join(sorted(self._table)) or 'none'}")
        try:
            value = held(value) if attribute is None else attribute.kind.convert(value)
        except (TypeError, ValueError) as error:
            raise TypeError(short(f"{self._called()}.{key}: {error}")) from None
        self._attributes[key] = value
        if self._network is not None:
            for params in self._constants():
                self._network._admit(params)
            self._touch()

    def setAttrs(self, attrs: Mapping[str, Any]) -> None:
        """Set attributes one after the other, as `setAttr` does: those before one that is refused stay set."""
        for key, value in attrs.items():
            self.setAttr(key, value)

    def paramsAttrs(self, is_defined: bool = False) -> list[Params]:
        """Return the parameters among the attributes, those in lists included; with `is_defined` only those that are not
        null.

        Inputs are not among them: `paramsInputs` has those.
        """
        values: Iterable[Any] = self._attributes.values()
        if self._table and len(self._attributes) == len(self._table):
            # Nothing but what the table has: it says where parameters can be.
            values = [self._attributes[name] for name in self._params_names]
        found = []
        for value in values:
            found += [one for one in (value if isinstance(value, list) else (value,)) if isinstance(one, Params)]
        return [params for params in found if params.defined() or not is_defined]

    def _constants(self) -> list[Params]:
        """Return the parameters among the attributes, with those of the operations that this one was merged from."""
        found = self.paramsAttrs(True)
        for op in self._attributes.get("sub_hard_ops", ()):
            found += [*(params for params in op.paramsInputs() if params.defined()), *op._constants()]
        return found

    def checkBound(self) -> None:
        """Raise Error if an attribute is out of its bounds, such as a stride below 1; attributes of custom operators have
        none."""
        for name, attribute in self._table.items():
            attribute.check(self._json_key(), self._attributes[name])

    def checkNull(self) -> None:
        """Raise Error if an attribute is null that may not be: those whose type does not end in ``| None``."""
        for name, value in self._attributes.items():
            attribute = self._table.get(name)
            null = value is None or (isinstance(value, ObjectRef) and not value.defined())
            if null and attribute is not None and not attribute.kind.shown.endswith("| None"):
                raise Error(f"{self._called()}: attribute {name!r} is null")

    # ---- inputs

    @property
    def inputs(self) -> list[Value]:
        """The inputs in their order; one that is left out is missing at the end, or a null handle. A new list: `setInput`
        changes one."""
        return list(self._inputs)

    def nonParamsInputs(self) -> list[Value]:
        """Return the inputs that are made at run time, in their order; a null `Value` that stands for one left out is among
        them."""
        return [value for value in self._inputs if not isinstance(value, Params)]

    def paramsInputs(self) -> list[Params]:
        """Return the inputs that are known beforehand, such as weights, in their order."""
        return [value for value in self._inputs if isinstance(value, Params)]

    def _admit(self, value: object) -> Value:
        given = as_value(value)
        if self._network is not None:
            self._network._admit(given)
        return given

    def _place(self, index: int, what: str, values: list[Value]) -> int:
        if not -len(values) <= index < len(values):
            raise Error(f"{self._called()} has {len(values)} {what}, none is number {index}")
        return index % len(values)

    def setInputs(self, inputs: Iterable[Value]) -> Self:
        """Set all inputs. An operation with one output stands for that.

        In a network, parameters get numbers unless they have some. Raises TypeError of anything but values, Error if a
        parameter's number is another value's in the network.
        """
        self._inputs = [self._admit(value) for value in inputs]
        self._touch()
        return self

    def addInput(self, v: Value) -> Self:
        """Add an input behind the others, as `insertInput` does."""
        return self.insertInput(len(self._inputs), v)

    def insertInput(self, index: int, v: Value) -> Self:
        """Put in an input so that it becomes number `index`; those from there on move back by one.

        Raises Error unless `index` is from 0 to the number of inputs, TypeError if `v` is no value.
        """
        if not 0 <= index <= len(self._inputs):
            raise Error(f"{self._called()} has {len(self._inputs)} inputs: none can be put in at {index}")
        self._inputs.insert(index, self._admit(v))
        self._touch()
        return self

    def setInput(self, index: int, v: Value) -> Self:
        """Put a value in the place of an input; negative numbers count from the end. Raises Error if there is none of that
        number."""
        self._inputs[self._place(index, "inputs", self._inputs)] = self._admit(v)
        self._touch()
        return self

    def connectInput(self, index: int, v: Value) -> None:
        """Make a value input number `index`, a new one if that is the number behind the last; negative numbers count from the
        end.

        Raises Error beyond that.
        """
        if index == len(self._inputs):
            self.addInput(v)
        else:
            self.setInput(index, v)

    def replaceInput(self, old_input: Value, new_input: Value) -> Self:
        """Put a value in the place of another, everywhere among the inputs. Raises Error if the other is none of them."""
        for index in self.getInputIndex(old_input):
            self.setInput(index, new_input)
        return self

    def removeInputById(self, v_id: int) -> Self:
        """Take out an input by its value's number (`Value.v_id`), everywhere it is; those behind it move up.

        Raises Error if no input has that number.
        """
        gone = self.getInputIndex(v_id)
        self._inputs = [value for index, value in enumerate(self._inputs) if index not in gone]
        self._touch()
        return self

    def clearInputs(self) -> Self:
        """Take out all inputs. The values stay what they are for others."""
        self._inputs = []
        self._touch()
        return self

    def getInputIndex(self, v: Value | int | None = None, v_id: int | None = None) -> set[int]:
        """Return which inputs a value is, counted from 0, given itself or by its number; a set, as it may be several.

        A value is compared by identity, a number with `Value.v_id`. Raises Error if it is none of the inputs.
        """
        v = v_id if v is None else v
        if not isinstance(v, Value | int):
            raise TypeError("getInputIndex() takes a value or its number")
        number = v if isinstance(v, int) else v.v_id
        found = {
            index
            for index, value in enumerate(self._inputs)
            if value.defined() and (value is v if isinstance(v, Value) else value._v_id == number)
        }
        if not found:
            raise Error(f"{self._called()}: value {number} is none of its inputs")
        return found

    # ---- outputs

    @property
    def outputs(self) -> list[Value]:
        """The outputs in their order; empty until they are inferred or set. A new list: `setOutput` changes one."""
        return list(self._outputs)

    def __getitem__(self, arg0: int) -> Value:
        """Return an output; negative numbers count from the end. Outputs that are not there yet are inferred.

        Raises Error if there is none of that number.
        """
        if not self._outputs and self._rule:
            self.inferResults()
        return self._outputs[self._place(arg0, "outputs", self._outputs)]

    def _bind_outputs(self, outputs: list[Value]) -> None:
        for value in outputs:
            if isinstance(needed(Value, value, f"{self._called()}, an output"), Params):
                raise Error(f"{self._called()}: parameters cannot be an output")
        for value in self._outputs:
            if value._op is self:
                value._op, value._index = None, 0
        for index, value in enumerate(outputs):
            if value._op is not None and value._op is not self and any(value is made for made in value._op._outputs):
                value._op._outputs = [made for made in value._op._outputs if made is not value]
                value._op._touch()
            value._op, value._index = self, index
        self._outputs = outputs
        if self._network is not None:
            self._network._number(outputs)
        self._touch()

    def setOutputs(self, outputs: Iterable[Value]) -> Self:
        """Set all outputs. What another operation makes so far is taken from it; in a network they get numbers unless they
        have some.

        Raises Error if one is a `Params` or its number is another value's in the network, TypeError if one is no value.
        """
        self._bind_outputs(list(outputs))
        return self

    def setOutput(self, index: int, v: Value) -> Self:
        """Put a value in the place of an output, as `setOutputs` does; negative numbers count from the end.

        Raises Error if there is none of that number.
        """
        outputs = list(self._outputs)
        outputs[self._place(index, "outputs", outputs)] = v
        self._bind_outputs(outputs)
        return self

    @overload
    def inferResults(self, override: bool = False) -> list[Value]: ...
    @overload
    def inferResults(self, dtypes: Sequence[TensorType], override: bool = False) -> list[Value]: ...
    @overload
    def inferResults(self, dtypes: TensorType, override: bool = False) -> list[Value]: ...
    def inferResults(self, *args: Any, **keywords: Any) -> list[Value]:
        """Make the outputs, unless there are some, by the operator's rule or of the types given; return them.

        With `override` those that are there get the new types, and keep their numbers and names.

        Raises Error if the operator has no rule and no types are given, or if its inputs and attributes do not fit.
        """
        names = ("override",) if args and isinstance(args[0], bool) else ("dtypes", "override")
        given = dict(zip(names, args, strict=False)) | keywords
        dtypes, override = given.get("dtypes", ()), given.get("override", False)
        types = [dtypes] if isinstance(dtypes, TensorType) else list(dtypes)
        if self._outputs and not override:
            return self.outputs
        if not types:
            types = self._inferred()
        outputs = []
        for index, dtype in enumerate(types):
            if index < len(self._outputs):
                outputs.append(self._outputs[index].setDType(dtype))
            else:
                value = Value._new()
                value._set_defaults(_dtype=dtype)
                outputs.append(value)
        self._bind_outputs(outputs)
        return self.outputs

    def _inferred(self) -> list[TensorType]:
        if self._rule is None:
            raise Error(f"{self._called()} has no rule for its outputs: give their types to inferResults()")
        self.checkNull()
        self.checkBound()
        try:
            return type(self)._rule(self)  # type: ignore[misc]
        except Error as error:
            raise Error(f"{self._called()}: {error}") from None

    # ---- its place in a network

    def isBoundToNetwork(self) -> bool:
        """Return whether it is in a network: `network` returns it then."""
        return self._network is not None

    def network(self) -> Network:
        """Return its network. Raises Error if it is in none."""
        if self._network is None:
            raise Error(f"{self._called()}: it is in no network")
        return self._network

    def preOp(self) -> Operation:
        """Return the operation that runs before it, whether or not it makes any of its inputs.

        Raises Error if it is the network's first, or in no network.
        """
        return self.network().getPreOpById(self._op_id)

    def nextOp(self) -> Operation:
        """Return the operation that runs after it, whether or not it takes any of its outputs.

        Raises Error if it is the network's last, or in no network.
        """
        return self.network().getNextOpById(self._op_id)

    def producers(self, sorted: bool = False) -> list[Operation]:
        """Return the operations that make its inputs, each once: in the inputs' order, with `sorted` in execution order.

        Raises Error if it is in no network.
        """
        return self.network().getProducersByOpId(self._op_id, sorted)

    def consumers(self, sorted: bool = False) -> list[Operation]:
        """Return the operations that take its outputs, each once: in the outputs' order, with `sorted` in execution order.

        Raises Error if it is in no network.
        """
        return self.network().getConsumersByOpId(self._op_id, sorted)

    def validate(self) -> None:
        """Raise Error unless attributes are within bounds and not null, and the types of all values fit their layouts.

        That is `checkNull`, `checkBound`, and `TensorType.validate` of inputs, outputs and parameters; optional inputs at the
        end may be left out. Raises InternalError if another value is a null handle.
        """
        self.checkNull()
        self.checkBound()
        # Operands at the end may be left out, as a bias is.
        given = next((count for count in range(len(self._inputs), 0, -1) if self._inputs[count - 1].defined()), 0)
        for value in (*self._inputs[:given], *self._outputs, *self.paramsAttrs()):
            if not value.defined():
                raise InternalError(f"{self._called()}: a null handle is among its values")
            try:
                value._tensor().validate()
            except Error as error:
                raise Error(f"{self._called()}, value {value.v_id}: {error}") from None
