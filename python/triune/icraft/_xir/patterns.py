"""Patterns: what a part of a network is to look like, and finding it.

A pattern is an operation's (`OpPattern`), with patterns of its inputs: the output of an operation that matches another
pattern, any value (`Wildcard`), or any number of values (`Anycards`). The search starts from each operation in execution
order and goes to what made its inputs. A match says which operation each pattern stands for; a pattern that occurs
twice stands for one operation.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self, overload

from triune.icraft._xir.conversions import bound
from triune.icraft._xir.errors import Error
from triune.icraft._xir.objects import Concrete, ObjectRef
from triune.icraft._xir.operation import Operation
from triune.icraft._xir.places import CompileTarget
from triune.icraft._xir.types import TensorType
from triune.icraft._xir.values import Value

__all__ = [
    "PATTERN_REQUIRE",
    "Anycards",
    "AnycardsPattern",
    "AttrPattern",
    "IsOp",
    "IsOptionalOp",
    "Match",
    "OpPattern",
    "OptionalOpPattern",
    "OrPattern",
    "Pattern",
    "ValuePattern",
    "Wildcard",
    "matches",
]

Match = dict["OpPattern", Operation]
"""Which operation each pattern stands for."""


class Pattern(ObjectRef):
    """The base of all patterns."""

    type_key = "icraft::xir::PatternNode"


class AnycardsPattern(Pattern, Concrete):
    """Any number of inputs, none included."""

    type_key = "icraft::xir::AnycardsPatternNode"


class AttrPattern(Pattern, Concrete):
    """An attribute, and the value that it has to have, if that matters."""

    type_key = "icraft::xir::AttrPatternNode"
    _fields = ("_key", "_value")
    _defaults: ClassVar[Mapping[str, Any]] = {"_key": "", "_value": None}
    _key: str
    _value: Any

    def __init__(self, arg0: str | ObjectRef, arg1: Any = None) -> None:
        """Take the attribute's name, and a value unless any will do."""
        if not isinstance(arg0, str):
            raise TypeError(f"AttrPattern() takes an attribute's name, not {type(arg0).__name__}")
        self._key, self._value = arg0, arg1

    @property
    def key(self) -> str:
        """The attribute's name."""
        return self._key

    @property
    def value(self) -> Any:
        """The value, None if any will do. It is compared as `Operation.hasAttr` does."""
        return self._value

    def _fits(self, op: Operation) -> bool:
        return op.hasAttr(self._key) if self._value is None else op.hasAttr(self._key, self._value)


class OpPattern(Pattern, Concrete):
    """An operation of some types, with some attributes, inputs and a target."""

    type_key = "icraft::xir::OpPatternNode"
    _fields: ClassVar[tuple[str, ...]] = ("_op_type", "_attrs", "_inputs", "_target_type")
    _defaults: ClassVar[Mapping[str, Any]] = {
        "_op_type": list,
        "_attrs": list,
        "_inputs": list,
        "_target_type": "",
        "_cfunc": None,
    }
    _op_type: list[str]
    _attrs: list[AttrPattern]
    _inputs: list[ValuePattern | OrPattern]
    _target_type: str
    _cfunc: Callable[[Operation], bool] | None

    def __init__(self, op_type: Sequence[str] | ObjectRef) -> None:
        """Take the type keys that will do, with ``Node`` at their end or without; none is any."""
        if isinstance(op_type, str | ObjectRef):
            raise TypeError("OpPattern() takes a list of type keys")
        self._set_defaults()
        self._op_type = list(op_type)

    # A match has patterns as keys: they are the same only if they are one.
    def __eq__(self, other: object) -> bool:
        """Return whether both are one pattern."""
        return self.same_as(other) if isinstance(other, ObjectRef) else NotImplemented

    def __hash__(self) -> int:  # type: ignore[override]
        """Hash by identity."""
        return id(self)

    def __call__(self, *one_by_one: Any, inputs: Sequence[Any] = ()) -> Self:
        """Set the patterns of the inputs, given one by one or as a list; return the pattern itself."""
        if len(one_by_one) == 1 and isinstance(one_by_one[0], list | tuple):
            (one_by_one,) = one_by_one
        self._inputs = [_input(pattern) for pattern in (*one_by_one, *inputs)]
        return self

    def __getitem__(self, arg0: int) -> ValuePattern:
        """Return the pattern of an output."""
        return ValuePattern(self, arg0)

    # There are as many outputs as anybody asks for: a pattern is no list of them.
    __iter__ = None

    def __or__(self, arg0: OpPattern | OrPattern) -> OrPattern:
        """Return the pattern that one of both matches; the left one is tried first."""
        return OrPattern(self, arg0)

    def hasAttr(self, key: str, value: Any = None) -> Self:
        """Ask for an attribute, and for its value unless any will do; return the pattern itself. Several are all asked for."""
        self._attrs.append(AttrPattern(key, value))
        return self

    def onTarget(self, arg0: type[CompileTarget] | str) -> Self:
        """Ask for what runs the operation: a class such as `BuyiTarget`, or its type key. Returns the pattern itself; the
        last one counts."""
        self._target_type = arg0 if isinstance(arg0, str) else arg0.type_key
        return self

    def setConstraint(self, cfunc: Callable[[Operation], bool]) -> Self:
        """Ask a function about the operation, after all else but before its inputs; return the pattern itself. The last one
        counts."""
        self._cfunc = cfunc
        return self

    @property
    def op_type(self) -> list[str]:
        """The type keys that will do, with ``Node`` at their end or without; none is any. A new list."""
        return list(self._op_type)

    @property
    def attrs(self) -> list[AttrPattern]:
        """The attributes that are asked for."""
        return list(self._attrs)

    @property
    def inputs(self) -> list[ValuePattern | OrPattern]:
        """The patterns of the inputs, in order, for all of them; none are any. A new list."""
        return list(self._inputs)

    @property
    def target_type(self) -> str:
        """The type key of what runs the operation, empty if that does not matter."""
        return self._target_type

    @property
    def cfunc(self) -> Callable[[Operation], bool] | None:
        """The function that is asked, of the operation; it returns a bool. None if none is."""
        return self._cfunc

    def _fits(self, op: Operation) -> bool:
        """Return whether the operation itself will do, its inputs aside."""
        return (
            (not self._op_type or any(_is_key(key, op) for key in self._op_type))
            and (not self._target_type or _is_key(self._target_type, op.compile_target))
            and all(attribute._fits(op) for attribute in self._attrs)
            and (self._cfunc is None or bool(self._cfunc(op)))
        )


class OptionalOpPattern(OpPattern):
    """An operation that may be left out: then its first input stands in its place."""

    type_key = "icraft::xir::OptionalOpPatternNode"


class ValuePattern(Pattern, Concrete):
    """An output of an operation; without one, any value."""

    type_key = "icraft::xir::ValuePatternNode"
    _fields = ("_op_pattern", "_index", "_uses", "_dtype", "_any_number")
    _defaults: ClassVar[Mapping[str, Any]] = {
        "_op_pattern": None,
        "_index": -1,
        "_uses": -1,
        "_dtype": None,
        "_any_number": False,
    }
    _op_pattern: OpPattern | None
    _index: int
    _uses: int
    _dtype: TensorType | None
    _any_number: bool

    def __init__(
        self,
        op_pattern: OpPattern | AnycardsPattern | ObjectRef,
        index: int = -1,
        uses: int = -1,
        dtype: TensorType | None = None,
    ) -> None:
        """Take the operation's pattern, the output (-1: any), how many take it (-1: any number) and its type (None: any).

        Or what `Anycards` returns.
        """
        self._set_defaults()
        if isinstance(op_pattern, AnycardsPattern):
            self._any_number = True
            return
        if not isinstance(op_pattern, OpPattern):
            raise TypeError(f"ValuePattern() takes an operation's pattern, not {type(op_pattern).__name__}")
        self._op_pattern, self._index, self._uses = op_pattern, index, uses
        self._dtype = None if dtype is None or not dtype.defined() else dtype

    @classmethod
    def _casts(cls, argument: ObjectRef) -> bool:
        return not isinstance(argument, OpPattern | AnycardsPattern)

    @property
    def op_pattern(self) -> OpPattern:
        """The operation's pattern, null if any value will do."""
        return OpPattern._null() if self._op_pattern is None else self._op_pattern

    @property
    def index(self) -> int:
        """Which output of its operation it is, from 0; -1 for any."""
        return self._index

    @property
    def uses(self) -> int:
        """How many operations have to take it, each counted once; -1 for any number."""
        return self._uses

    @property
    def dtype(self) -> TensorType:
        """Its type, null if that does not matter."""
        return TensorType._null() if self._dtype is None else self._dtype

    def hasUses(self, uses: int) -> ValuePattern:
        """Return a copy of the pattern that asks for the number of operations that take it, too."""
        pattern = self.clone()
        pattern._uses = uses
        return pattern

    def hasDtype(self, dtype: TensorType) -> ValuePattern:
        """Return a copy of the pattern that asks for the type, too: shape, layout, elements and their scales are all
        compared."""
        pattern = self.clone()
        pattern._dtype = dtype
        return pattern

    def isWildcard(self) -> bool:
        """Return whether it is any one value."""
        return self._op_pattern is None and not self._any_number

    def isAnycards(self) -> bool:
        """Return whether it is any number of values."""
        return self._any_number

    def _fits(self, value: Value) -> bool:
        """Return whether the value itself will do, what makes it aside."""
        uses = self._uses < 0 or (value.isBoundToNetwork() and value.getUsesNum() == self._uses)
        return uses and (self._dtype is None or value.dtype == self._dtype)


class OrPattern(Pattern, Concrete):
    """One of two patterns; the left one is tried first."""

    type_key = "icraft::xir::OrPatternNode"
    _fields = ("_left", "_right")
    # As the vendor spells it.
    _other_names: ClassVar[Mapping[str, str]] = {"letf": "left"}
    _left: Pattern
    _right: Pattern

    def __init__(self, left: Pattern | ObjectRef, right: Pattern | None = None) -> None:
        """Take both."""
        if not isinstance(left, Pattern) or not isinstance(right, Pattern):
            raise TypeError("OrPattern() takes two patterns")
        self._left, self._right = left, right

    @classmethod
    def _casts(cls, argument: ObjectRef) -> bool:
        return not isinstance(argument, OpPattern)

    @property
    def left(self) -> Pattern:
        """The one that is tried first; what both match is matched as this."""
        return self._left

    @property
    def right(self) -> Pattern:
        """The other one."""
        return self._right

    def __or__(self, arg0: OpPattern | OrPattern) -> OrPattern:
        """Return the pattern that one of both matches."""
        return OrPattern(self, arg0)


def _input(pattern: Any) -> ValuePattern | OrPattern:
    if isinstance(pattern, ValuePattern | OrPattern):
        return pattern
    if isinstance(pattern, OpPattern | AnycardsPattern):
        return ValuePattern(pattern)
    raise TypeError(f"an input's pattern is a pattern, not {type(pattern).__name__}")


def Wildcard() -> ValuePattern:
    """Return the pattern of any one input."""
    return ValuePattern.Init()


def Anycards() -> AnycardsPattern:
    """Return the pattern of any number of inputs, none included; patterns behind it are those of the last inputs."""
    return AnycardsPattern.Init()


def _is_key(key: str, handle: ObjectRef) -> bool:
    own = handle.typeKey()
    return own in (key, f"{key}Node")


def _keys(given: Any) -> list[str]:
    if isinstance(given, str):
        return [given]
    if isinstance(given, type):
        return [given.type_key]  # type: ignore[attr-defined]
    return [key for one in given for key in _keys(one)]


def _is_type(given: Any) -> bool:
    if isinstance(given, list | tuple):
        return bool(given) and all(map(_is_type, given))
    return isinstance(given, str | type)


def _made(kind: type[OpPattern], arguments: tuple[Any, ...], given: Any) -> Any:
    if given is not None:
        arguments = (given, *arguments)
    if arguments and _is_type(arguments[0]):
        pattern, inputs = kind(_keys(arguments[0])), arguments[1:]
    else:
        pattern, inputs = kind([]), arguments
    return pattern(*inputs) if inputs else pattern


@overload
def IsOp(type_key: str, *args: Any) -> OpPattern: ...
@overload
def IsOp(type: builtins.type | Sequence[builtins.type] | ObjectRef | None = None, *args: Any) -> OpPattern: ...
@bound
def IsOp(*args: Any, type_key: str | None = None, type: Any = None) -> OpPattern:
    """Return the pattern of an operation: a type key, a class or a list of classes (none is any), then its inputs' patterns.

    Without inputs' patterns any inputs will do; with some, there have to be as many, except for `Anycards`. Inputs that are
    null handles do not count. Raises TypeError if an input's pattern is none.
    """
    pattern: OpPattern = _made(OpPattern, args, type if type_key is None else type_key)
    return pattern


@overload
def IsOptionalOp(type_key: str, *args: Any) -> OptionalOpPattern: ...
@overload
def IsOptionalOp(
    type: builtins.type | Sequence[builtins.type] | ObjectRef | None = None, *args: Any
) -> OptionalOpPattern: ...
@bound
def IsOptionalOp(*args: Any, type_key: str | None = None, type: Any = None) -> OptionalOpPattern:
    """Return the pattern of an operation that may be left out, of the same arguments as `IsOp`.

    Where it is left out, its first input's pattern stands in its place, and the match has no operation for it.
    """
    pattern: OptionalOpPattern = _made(OptionalOpPattern, args, type if type_key is None else type_key)
    return pattern


@bound
def PATTERN_REQUIRE(expr: bool) -> bool:
    """Return the truth of an expression: what a constraint's function is written with. Raises TypeError of a text or a list."""
    return bool(expr)


# ---- the search

_Bound = dict[OpPattern, Operation]


def matches(pattern: Pattern, op: Operation) -> Iterator[Match]:
    """Yield the matches of a pattern that starts from an operation.

    Raises Error if the pattern is a value's, or null.
    """
    return _start(pattern, op, {})


def _start(pattern: Pattern, op: Operation, bound: _Bound) -> Iterator[_Bound]:
    if not pattern.defined():
        raise Error("a null pattern cannot be searched for")
    if isinstance(pattern, OrPattern):
        yield from _start(pattern.left, op, bound)
        yield from _start(pattern.right, op, bound)
    elif isinstance(pattern, OpPattern):
        yield from _operation(pattern, op, bound)
    else:
        raise Error(f"a search starts from an operation's pattern, not from a {type(pattern).__name__}")


def _operation(pattern: OpPattern, op: Operation, bound: _Bound) -> Iterator[_Bound]:
    if pattern in bound:
        if bound[pattern] is op:
            yield bound
        return
    if not pattern._fits(op):
        return
    bound = {**bound, pattern: op}
    if not pattern._inputs:
        yield bound
    else:
        yield from _inputs(pattern._inputs, [value for value in op._inputs if value.defined()], bound)


def _inputs(patterns: Sequence[ValuePattern | OrPattern], values: Sequence[Value], bound: _Bound) -> Iterator[_Bound]:
    if not patterns:
        if not values:
            yield bound
        return
    first, others = patterns[0], patterns[1:]
    if isinstance(first, ValuePattern) and first.isAnycards():
        for taken in range(len(values) + 1):
            yield from _inputs(others, values[taken:], bound)
    elif values:
        for found in _value(first, values[0], bound):
            yield from _inputs(others, values[1:], found)


def _value(pattern: ValuePattern | OrPattern, value: Value, bound: _Bound) -> Iterator[_Bound]:
    if isinstance(pattern, OrPattern):
        for side in (pattern.left, pattern.right):
            yield from _value(_input(side), value, bound)
        return
    inner = pattern._op_pattern
    if inner is None:
        if pattern._fits(value):
            yield bound
        return
    found = False
    if value._op is not None and pattern._index in (-1, value._index) and pattern._fits(value):
        for match in _operation(inner, value._op, bound):
            found = True
            yield match
    if not found and isinstance(inner, OptionalOpPattern) and inner not in bound:
        # Left out: its first input is here instead. Without one, anything is.
        if not inner._inputs:
            yield bound
        else:
            yield from _value(inner._inputs[0], value, bound)
