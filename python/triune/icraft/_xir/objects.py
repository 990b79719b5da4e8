"""Handles: the base of every class, with identity, casts, structural equality, clones and the JSON text.

The vendor's objects are handles on counted nodes. Here a handle and its node are one Python object, so `x is y` is the
vendor's `x.same_as(y)`, and a cast, `Conv2d(op)`, returns `op` itself. A class called without arguments gives a null
handle, as the vendor's default constructors do; classes without state say otherwise with `_null_by_default`.
"""

from __future__ import annotations

import json
import math
import operator
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from triune._masked import MASKED, is_masked
from triune._text import short
from triune.icraft._xir.conversions import Unpicklable, bind_members, placed
from triune.icraft._xir.errors import InternalError

__all__ = [
    "Array",
    "Concrete",
    "Map",
    "ObjectRef",
    "String",
    "compact",
    "from_plain",
    "needed",
    "plain",
    "plain_float",
    "whole_number",
]

_T = TypeVar("_T")


def needed(kind: type[_T], value: object, what: str) -> _T:
    """Return a value. Raises TypeError naming `what` it was given as, unless it is of a class."""
    if not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise TypeError(short(f"{what}: {article} {kind.__name__} is needed, not {type(value).__name__}"))
    return value


def whole_number(value: Any) -> int:
    """Return a whole number of 64 bits. Raises TypeError if it is something else, ValueError if it does not fit."""
    if isinstance(value, str | bool | float):
        raise TypeError(short(f"a whole number is needed, not {value!r}"))
    number = operator.index(value)
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError(f"{number} does not fit 64 bits")
    return number


class _Handle(type):
    """Makes casts and null handles of constructor calls."""

    if not TYPE_CHECKING:  # Type checkers read the constructors instead.

        def __call__(cls, *args: Any, **keywords: Any) -> Any:
            if "arg0" in keywords:
                args, keywords = placed(args, keywords)
            if not args and not keywords and cls._null_by_default:
                return cls._null()
            if keywords and cls._other_names:
                keywords = {cls._other_names.get(name, name): value for name, value in keywords.items()}
            if len(args) == 1 and not keywords:
                (argument,) = args
                if isinstance(argument, cls) and not cls._is_constructible_from(argument):
                    return argument
                if isinstance(argument, ObjectRef):
                    if not argument.defined() and issubclass(cls, type(argument)):
                        return cls._null()
                    if argument.defined() and _family(type(argument)) is _family(cls) and cls._casts(argument):
                        raise InternalError(f"{argument.typeKey()} is not a {cls.type_key}: the cast is refused")
            return super().__call__(*args, **keywords)


def _family(kind: type) -> type:
    """Return the class right below `ObjectRef` that `kind` derives from, mixins aside."""
    above = [base for base in kind.__mro__ if issubclass(base, ObjectRef) and "_is_mixin" not in base.__dict__]
    return above[-2] if len(above) > 1 else ObjectRef


class ObjectRef(Unpicklable, metaclass=_Handle):
    """A handle on an object of a network; without arguments a null handle."""

    type_key: ClassVar[str] = "Object"

    _null_by_default: ClassVar[bool] = True
    _fields: ClassVar[tuple[str, ...]] = ()
    """The attributes that equality and clones look at."""

    _bonds: ClassVar[frozenset[str]] = frozenset()
    """What ties an object to others, which its clones are not tied to."""

    _other_names: ClassVar[Mapping[str, str]] = {}
    """Parameters of the constructor's other forms, to those of the signature that stand for them."""

    _undefined = False

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Bind what programs call, of this package's classes."""
        super().__init_subclass__(**keywords)
        if cls.__module__.startswith("triune.icraft."):
            bind_members(cls)

    def __init__(self, arg0: ObjectRef | None = None, /) -> None:
        """Cast: `arg0` itself if it is of this class; without it a null handle.

        Raises InternalError if it is of another class.
        """
        raise TypeError(f"{type(self).__name__}() cannot be made of {type(arg0).__name__}")

    @classmethod
    def _null(cls) -> Self:
        handle = object.__new__(cls)
        handle._undefined = True
        return handle

    @classmethod
    def _new(cls) -> Self:
        """Return an object whose fields are still to be set."""
        return object.__new__(cls)

    @classmethod
    def _is_constructible_from(cls, argument: ObjectRef) -> bool:
        """Return whether ``cls(argument)`` wraps an argument of the very class instead of casting it."""
        return False

    @classmethod
    def _casts(cls, argument: ObjectRef) -> bool:
        """Return whether ``cls(argument)`` with an argument of the same family can only be a cast."""
        return True

    # To type checkers, a class with this method has every name.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Say that the handle is null, if it is."""
            if self.__dict__.get("_undefined") and not name.startswith("__"):
                raise InternalError(f"null handle: {type(self).__name__}.{name.lstrip('_')} has no object behind it")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    # ---- identity

    def defined(self) -> bool:
        """Return whether there is an object behind the handle. Anything else that is asked of a null handle raises
        InternalError."""
        return not self._undefined

    def same_as(self, arg0: ObjectRef) -> bool:
        """Return whether both are handles on one object; all null handles are the same. ``==`` compares structure instead."""
        return self is arg0 or (not self.defined() and not arg0.defined())

    def use_count(self) -> int:
        """Return how many references to the object Python counts, the caller's included; 0 of a null handle."""
        # One is the argument's.
        return sys.getrefcount(self) - 1 if self.defined() else 0

    def unique(self) -> bool:
        """Return whether the caller's is the only reference, as `use_count` has it; False of a null handle."""
        # A method's own `self` is a reference more than the caller sees.
        return self.defined() and sys.getrefcount(self) <= 3

    def typeKey(self) -> str:
        """Return the name of the object's class as the vendor has it, such as ``icraft::xir::InputNode``; ``Object`` of a
        null handle."""
        return self.type_key if self.defined() else ObjectRef.type_key

    def type_is(self, arg0: type) -> bool:
        """Return whether the object is of the class, or of one that derives from it; False of a null handle."""
        return self.defined() and isinstance(self, arg0)

    def is_type(self, arg0: type) -> bool:
        """Return the same as `type_is`, which some of the vendor's documents call so."""
        return self.type_is(arg0)

    # ---- values

    def __eq__(self, other: object) -> bool:
        """Compare by structure: the same class, and equal fields."""
        if not isinstance(other, ObjectRef):
            return NotImplemented
        if self is other:
            return True
        if not self.defined() or not other.defined():
            return self.defined() == other.defined()
        return type(self) is type(other) and self._equals(other)

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def _equals(self, other: Any) -> bool:
        return all(_equal(getattr(self, name), getattr(other, name)) for name in self._fields)

    def clone(self, depth: int = 1) -> Self:
        """Return a copy; its own parts are copied `depth` levels down, and shared below.

        A copy is in no network. It keeps its number, and an operation's those of its outputs: to add it beside the original,
        ``setId(-1)`` of each lets the network give free ones.

        Raises InternalError of a null handle.
        """
        if not self.defined():
            raise InternalError(f"null handle: {type(self).__name__}.clone has no object to copy")
        return self._clone(max(depth, 1) - 1)

    def _clone(self, depth: int) -> Self:
        copy = type(self)._new()
        copy.__dict__.update(
            {name: _copied(value, depth) for name, value in self.__dict__.items() if name not in self._bonds}
        )
        return copy

    # ---- text

    def _json(self) -> Any:
        """Return what the object is in a file: dictionaries, lists, strings, numbers."""
        members = {name.lstrip("_"): plain(getattr(self, name)) for name in self._fields}
        return {"_type_key": self._json_key(), **members}

    def _json_key(self) -> str:
        return self.typeKey().removesuffix("Node")

    def __str__(self) -> str:
        """Return the object as compact JSON; what is a string there keeps its quotes."""
        return compact(plain(self))

    def __repr__(self) -> str:
        """Return class and JSON text, cut if it is long."""
        text = str(self) if self.defined() else "null"
        return f"<{type(self).__name__} {text if len(text) <= 200 else f'{text[:197]}...'}>"


bind_members(ObjectRef)


class Concrete(ObjectRef):
    """What classes have that are not only a base: `Init`."""

    _is_mixin: ClassVar[bool] = True
    _defaults: ClassVar[Mapping[str, Any]] = {}
    """The fields of a new object; what can be called is, so that lists are not shared."""

    @classmethod
    def Init(cls) -> Self:
        """Return a new object, not null, with the class's defaults. ``Class()`` without arguments is a null handle instead."""
        handle = cls._new()
        handle._set_defaults()
        return handle

    def _set_defaults(self, **given: Any) -> None:
        """Set the fields, those that are given to that."""
        fields = self.__dict__
        fields.update(given)
        for name, value in self._defaults.items():
            if name not in given:
                fields[name] = value() if callable(value) else value


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(_equal, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(value, right[key]) for key, value in left.items())
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (math.isnan(left) and math.isnan(right))
    return bool(left == right)


def _copied(value: Any, depth: int) -> Any:
    if isinstance(value, list):
        return [_copied(item, depth) for item in value]
    if isinstance(value, dict):
        return {key: _copied(item, depth) for key, item in value.items()}
    if depth and isinstance(value, ObjectRef) and value.defined():
        return value._clone(depth - 1)
    return value


def plain_float(value: float) -> float | str:
    """Return a number as files have it: what JSON has no number for is a string."""
    if math.isfinite(value):
        return value
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"


def plain(value: Any) -> Any:
    """Return a value in the types of JSON."""
    if isinstance(value, ObjectRef):
        return value._json() if value.defined() else None
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, float):
        return plain_float(value)
    name = getattr(value, "_json_name", None)
    return name if name is not None else operator.index(value)


def held(value: Any) -> Any:
    """Return a value as an attribute holds it: Python's own numbers, lists and dictionaries, enumerations and objects.

    Raises TypeError of anything else.
    """
    if value is None or isinstance(value, str | bool | int | float | ObjectRef) or hasattr(value, "_json_name"):
        return value
    if isinstance(value, list | tuple):
        return [held(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): held(item) for key, item in value.items()}
    if is_masked(value):
        raise TypeError(MASKED)
    if hasattr(value, "tolist"):  # numpy's arrays and scalars, and what is like them
        return held(value.tolist())
    raise TypeError(f"give a number, str, list, dict or ObjectRef, not {type(value).__name__}")


def compact(document: Any) -> str:
    """Return JSON without spaces, keys in alphabetical order, as the vendor prints it."""
    return json.dumps(document, separators=(",", ":"), sort_keys=True, ensure_ascii=False, allow_nan=False)


class String(ObjectRef):
    """A string among objects, such as a tag's value."""

    type_key = "Object"
    _null_by_default = False
    _fields = ("_text",)

    def __init__(self, arg0: str | ObjectRef = "") -> None:
        """Wrap a string."""
        if not isinstance(arg0, str):
            raise TypeError(f"String() takes a str, not {type(arg0).__name__}")
        self._text = arg0

    def empty(self) -> bool:
        """Return whether there is nothing in it."""
        return not self._text

    def _json(self) -> str:
        return self._text

    def __eq__(self, other: object) -> bool:
        """Compare with strings of both kinds."""
        return self._text == other if isinstance(other, str) else super().__eq__(other)

    def __hash__(self) -> int:  # type: ignore[override]
        """Hash as the string does: strings are keys of tags."""
        return hash(self._text)

    def __len__(self) -> int:
        """Return the number of characters."""
        return len(self._text)


class Array(ObjectRef):
    """A list among objects, such as a tag's value."""

    type_key = "icraft::xir::ArrayNode"
    _null_by_default = False
    _fields = ("_items",)

    def __init__(self, items: Iterable[Any] = ()) -> None:
        """Hold the items as objects."""
        if isinstance(items, str) or not hasattr(items, "__iter__"):
            raise TypeError(f"Array() takes a list, not {type(items).__name__}")
        self._items: list[ObjectRef] = list(map(from_plain, items))

    def _json(self) -> list[Any]:
        return [plain(item) for item in self._items]

    def __len__(self) -> int:
        """Return the number of items."""
        return len(self._items)

    def __getitem__(self, index: int) -> ObjectRef:
        """Return one item."""
        return self._items[index]

    def __iter__(self) -> Iterator[ObjectRef]:
        """Walk the items."""
        return iter(self._items)


class Map(ObjectRef):
    """A dictionary with string keys among objects, such as a tag's value."""

    type_key = "icraft::xir::MapNode"
    _null_by_default = False
    _fields = ("_items",)

    def __init__(self, items: Mapping[str, Any] | ObjectRef | None = None) -> None:
        """Hold the items as objects."""
        if isinstance(items, ObjectRef):
            raise TypeError(f"Map() takes a dict, not {type(items).__name__}")
        self._items: dict[str, ObjectRef] = {str(key): from_plain(item) for key, item in (items or {}).items()}

    def _json(self) -> dict[str, Any]:
        return {key: plain(item) for key, item in self._items.items()}

    def __len__(self) -> int:
        """Return the number of items."""
        return len(self._items)

    def __getitem__(self, key: str) -> ObjectRef:
        """Return one item."""
        return self._items[key]

    def __contains__(self, key: str) -> bool:
        """Return whether there is such a key."""
        return key in self._items

    def keys(self) -> Iterable[str]:
        """Return the keys, which are str, in the order in which they were given."""
        return self._items.keys()


def from_plain(value: Any) -> ObjectRef:
    """Return a Python value as an object: numbers as immediates, strings, lists and dictionaries as theirs, None as null.

    Raises TypeError of anything else.
    """
    from triune.icraft._xir.immediates import Bool, FloatImm, IntImm

    if isinstance(value, ObjectRef):
        return value
    if value is None:
        return ObjectRef._null()
    if isinstance(value, bool):
        return Bool(value)
    if isinstance(value, str):
        return String(value)
    if isinstance(value, int):
        return IntImm(value)
    if isinstance(value, float):
        return FloatImm(value)
    if isinstance(value, list | tuple):
        return Array(value)
    if isinstance(value, Mapping):
        return Map(value)
    if is_masked(value):
        raise TypeError(MASKED)
    if hasattr(value, "tolist"):
        return from_plain(value.tolist())
    raise TypeError(
        f"{type(value).__name__} cannot be an object of a network: give a number, str, list, dict or ObjectRef"
    )
