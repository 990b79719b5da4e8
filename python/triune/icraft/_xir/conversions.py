"""Arguments as the vendor's bindings take them: which Python objects stand for a truth value, a number, a text, a list.

The published modules are made with pybind11, whose rules these are: https://pybind11.readthedocs.io, "Type conversions" and
"Function overloading". A call is bound by the annotations of what is called, or by its overloads, in their order: first the
one that takes the arguments as they are, then the one that takes them converted.
"""

from __future__ import annotations

import enum
import functools
import inspect
import operator
import os
import re
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from triune._text import short

__all__ = [
    "Unpicklable",
    "bind_members",
    "bound",
    "digits",
    "each",
    "is_sequence",
    "member",
    "number",
    "optional",
    "placed",
    "real",
    "text",
    "truth",
    "whole",
]

_F = TypeVar("_F", bound=Callable[..., Any])
_K = TypeVar("_K", bound=type)

Conversion = Callable[..., Any]
"""Takes a value, and whether it may be converted; returns what it stands for, or raises TypeError."""

_LEAST, _MOST = -(1 << 63), 1 << 64
_UNFIT = " does not fit 64 bits"


class Unpicklable:
    """What neither `pickle` nor `copy` takes, like objects of pybind11's modules: launchers pass it on by proxy."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Raise TypeError."""
        raise TypeError(short(f"cannot pickle {type(self).__name__!r} object"))


def digits(number: float) -> str:
    """Return a number for messages. Python makes no decimal digits of very long ones."""
    return hex(number)[:40] if isinstance(number, int) and number.bit_length() >= 256 else repr(number)


def _refused(kind: str, value: object) -> TypeError:
    # What others show may be long, and take as long to make.
    called = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
    if isinstance(value, int | float):
        shown = digits(value)
    else:
        shown = f"{value!r:.60}" if isinstance(value, str | bytes | complex | None) else ""
    return TypeError(f"{kind} is needed, not {f'{shown} ({called})' if shown else called}")


def _one(name: str) -> str:
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def truth(value: Any, convert: bool = True) -> bool:
    """Return a truth value. Converted are None, and what says itself whether it is true, such as numbers; no text, no list."""
    if value is True or value is False:
        return bool(value)
    # The one class beside Python's that is never a conversion.
    numpy = sys.modules.get("numpy")
    if convert or (numpy is not None and isinstance(value, numpy.bool_)):
        if value is None:
            return False
        if hasattr(type(value), "__bool__"):
            try:
                return bool(value)
            except Exception:
                # As an array of several numbers has it.
                raise _refused("True or False", value) from None
    raise _refused("True or False", value)


def whole(value: Any, convert: bool = True) -> int:
    """Return a whole number of 64 bits, with or without a sign; never of a float. What is no number but has one is converted."""
    if isinstance(value, int):
        number = int(value)
    elif isinstance(value, float):
        raise _refused("a whole number", value)
    else:
        number = _whole(value, convert)
    if not _LEAST <= number < _MOST:
        raise TypeError(f"{digits(number)}{_UNFIT}")
    return number


def _whole(value: Any, convert: bool) -> int:
    try:
        return operator.index(value)
    except Exception:
        if convert and hasattr(type(value), "__int__"):
            try:
                return int(value)
            except Exception:
                raise _refused("a whole number", value) from None
    raise _refused("a whole number", value)


def real(value: Any, convert: bool = True) -> float:
    """Return a floating point number. Whatever has one is converted; no text."""
    if isinstance(value, float):
        return float(value)
    if convert and (hasattr(type(value), "__float__") or hasattr(type(value), "__index__")):
        try:
            return float(value)
        except Exception:
            raise _refused("a number", value) from None
    raise _refused("a number", value)


def text(value: Any, convert: bool = True) -> str:
    """Return a text, of bytes as UTF-8 has them. What is none of UTF-8 stays as `os.fsdecode` has it."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bytes | bytearray):
        return value.decode("utf-8", "surrogateescape")
    raise _refused("a str", value)


_EXACT: dict[Any, type] = {truth: bool, whole: int, real: float, text: str}
"""The type that each takes as it is."""


def member(kind: enum.EnumMeta) -> Conversion:
    """Return what takes the members of an enumeration, and nothing else."""

    return _Instance(kind, f"a member of {kind.__name__}")


def is_sequence(value: object) -> bool:
    """Return whether a list may be made of something: it has items by number. No text, no bytes, no dictionary."""
    if isinstance(value, list | tuple):
        return True
    kind = type(value)
    if isinstance(value, str | bytes | Mapping) or issubclass(kind, type):
        return False
    return hasattr(kind, "__getitem__") and hasattr(kind, "__len__")


def _fit(numbers: Sequence[int]) -> bool:
    """Return whether whole numbers fit 64 bits, with or without a sign."""
    return not numbers or (min(numbers) >= _LEAST and max(numbers) < _MOST)


_LONGEST = 1 << 28
"""Items of what is made a list: an object may say that it has any number of them, and make each when it is asked for it."""


def each(item: Conversion) -> Conversion:
    """Return what takes a sequence, each item by `item`."""

    exact = _EXACT.get(item)

    def convert(value: Any, convert: bool = True) -> list[Any]:
        if type(value) in (list, tuple) and {exact}.issuperset(map(type, value)) and (exact is not int or _fit(value)):
            return list(value)
        if not is_sequence(value):
            raise _refused("a list", value)
        if len(value) > _LONGEST:
            raise MemoryError(f"a list of {len(value)} items; a network has at most {_LONGEST} in one")
        found = []
        for index in range(len(value)):
            try:
                found.append(item(value[index], convert))
            except TypeError as error:
                raise TypeError(f"item {index}: {error}") from None
        return found

    return convert


def optional(conversion: Conversion) -> Conversion:
    """Return what takes None, too."""

    def convert(value: Any, convert: bool = True) -> Any:
        return None if value is None else conversion(value, convert)

    return convert


class _Instance:
    """Takes the objects of a class as they are, and nothing else."""

    def __init__(self, kind: type, called: str) -> None:
        self.classes, self._called = (kind,), called

    def __call__(self, value: Any, convert: bool = True) -> Any:
        if not isinstance(value, self.classes):
            raise _refused(self._called, value)
        return value


def _instance(kind: type) -> Conversion:
    return _Instance(kind, _one(kind.__name__))


class _Any:
    """Takes several kinds: the first that a value is, then the first that it can be converted to.

    A kind that is not known here, None, takes what is left. What is of one of the `classes` is taken as it is.
    """

    def __init__(
        self, annotation: str, conversions: Sequence[Conversion | None], classes: tuple[type, ...] = ()
    ) -> None:
        self._annotation, self.classes = annotation, classes
        self._known = [conversion for conversion in conversions if conversion is not None]
        self._leaves = len(self._known) < len(conversions)
        self.exact = frozenset(_EXACT[one] for one in self._known if one in _EXACT)

    def __call__(self, value: Any, convert: bool = True) -> Any:
        if isinstance(value, self.classes):
            return value
        # What keeps an exception keeps what its frames have.
        reasons: list[str] = []
        for converting in (False, True)[: 1 + convert]:
            for conversion in self._known:
                try:
                    return conversion(value, converting)
                except TypeError as error:
                    reasons.append(str(error))
            if self._leaves:
                return value
        # Of a kind that would be taken, what is wrong with it says more than which kinds are.
        wrong = [reason for reason in reasons if reason.startswith("item ") or reason.endswith(_UNFIT)]
        raise TypeError(wrong[-1]) if wrong else _refused(self._annotation, value)


number = _Any("a number", [whole, real])
"""Takes a whole number or a floating point one, where both have a form of a call."""


# ---- of annotations

_PLAIN: dict[str, Conversion] = {
    "bool": truth,
    "int": whole,
    "float": real,
    "str": text,
    "None": _instance(types.NoneType),
}
_LIST = re.compile(r"(?:list|Sequence|Iterable)\[(.*)\]")


def _conversion(annotation: str, names: Mapping[str, Any]) -> Conversion | None:
    """Return how the arguments of an annotated parameter are taken, None if they are as they are."""
    parts = _parts(annotation)
    if len(parts) > 1:
        conversions = [_conversion(part, names) for part in parts]
        if all(conversion is None or part == "None" for part, conversion in zip(parts, conversions, strict=True)):
            return None
        found = [names.get(part) for part in parts]
        classes = tuple(kind for kind in found if isinstance(kind, type) and not isinstance(kind, enum.EnumMeta))
        taken = [one or _class(part, names) for part, one in zip(parts, conversions, strict=True)]
        called = "a path" if set(parts) == {"str", "os.PathLike[str]"} else annotation
        return _Any(called, taken, (*classes, types.NoneType) if "None" in parts else classes)
    (part,) = parts
    if part in _PLAIN:
        return _PLAIN[part]
    if listed := _LIST.fullmatch(part):
        item = _conversion(listed[1], names)
        if item is not None:
            return each(item)
        return _iterable if part.startswith("Iterable") else _sequence
    if part.startswith("Callable"):
        return _callable
    kind = names.get(part)
    return member(kind) if isinstance(kind, enum.EnumMeta) else None


def _class(annotation: str, names: Mapping[str, Any]) -> Conversion | None:
    """Return what takes the objects of a class, or a list of them, and nothing else; None if the annotation is neither's."""
    found = _LIST.fullmatch(annotation)
    if found and not annotation.startswith("Iterable"):
        item = _class(found[1], names)
        return item and each(item)
    if annotation.startswith("Callable"):
        return _callable
    if annotation == "os.PathLike[str]":
        return _instance(os.PathLike)
    if annotation in ("Any", "Buffer"):
        return None
    kind = names.get(annotation)
    if isinstance(kind, type):
        return _instance(kind)
    return _named(annotation) if annotation.isidentifier() else None


def _sequence(value: Any, convert: bool = True) -> Any:
    if not is_sequence(value):
        raise _refused("a list", value)
    return value


def _iterable(value: Any, convert: bool = True) -> Any:
    if not is_sequence(value) and not hasattr(type(value), "__iter__"):
        raise _refused("a list", value)
    return value


def _callable(value: Any, convert: bool = True) -> Any:
    if not callable(value):
        raise _refused("a function", value)
    return value


def _named(name: str) -> Conversion:
    # Of classes that only type checkers import.
    def convert(value: Any, convert: bool = True) -> Any:
        if all(base.__name__ != name for base in type(value).__mro__):
            raise _refused(_one(name), value)
        return value

    return convert


def _parts(annotation: str) -> list[str]:
    """Return what stands between the bars of an annotation, outside of brackets."""
    parts, depth = [""], 0
    for character in annotation:
        depth += (character in "[(") - (character in ")]")
        if character == "|" and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def _as_it_is(conversion: Conversion | None, kind: type) -> bool:
    """Return whether all objects of a very type are taken as they are, numbers beyond 64 bits aside."""
    if conversion is None or _EXACT.get(conversion) is kind:
        return True
    if isinstance(conversion, _Any):
        return kind in conversion.exact or issubclass(kind, conversion.classes)
    return isinstance(conversion, _Instance) and issubclass(kind, conversion.classes)


def _never(conversion: Conversion | None, value: Any) -> bool:
    """Return whether nothing of a value's very type is taken without conversion; False where that is not known."""
    if type(value) not in _TOLD and not isinstance(value, Unpicklable):
        return False
    if conversion not in _EXACT and not isinstance(conversion, _Instance):
        return False
    try:
        assert conversion is not None
        conversion(value, False)
    except TypeError:
        return True
    return False


_TOLD = frozenset((bool, int, float, str, bytes, list, tuple, dict, types.NoneType, types.FunctionType))
"""Types whose objects are all alike to what takes no list, beside this package's own."""


_Plan = tuple[tuple[int, ...], tuple[tuple[int, str, Conversion], ...]]
"""The places whose numbers have to fit 64 bits, and those that are converted, with name and conversion."""

_MOST_PLANS = 1024
"""So many combinations of types are kept for each function; beyond, they begin anew."""


class _Form:
    """One way to call something."""

    def __init__(self, function: Any, strict: bool) -> None:
        self.parameters = list(inspect.signature(function).parameters.values())
        names = function.__globals__
        self.conversions: dict[str, Conversion] = {}
        for parameter in self.parameters:
            annotation = parameter.annotation
            if not isinstance(annotation, str):
                continue
            conversion = _conversion(annotation, names)
            if conversion is None and strict:
                conversion = _class(annotation, names)
            if conversion is not None:
                self.conversions[parameter.name] = conversion
        positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        self.places = [parameter.name for parameter in self.parameters if parameter.kind in positional]
        self.rest = next((one.name for one in self.parameters if one.kind is inspect.Parameter.VAR_POSITIONAL), None)
        self.signature = inspect.Signature(self.parameters)
        # Whether nothing but the object itself need be given.
        needed = [one for one in self.parameters if one.default is inspect.Parameter.empty]
        self.is_empty = [one.name for one in needed] == ["self"]

    def __str__(self) -> str:
        """Return the parameters without the object itself."""
        return f"({', '.join(str(one).replace(chr(39), '') for one in self.parameters if one.name != 'self')})"

    def fits(self, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> bool:
        """Return whether arguments are of the number and the names."""
        try:
            self.signature.bind(*arguments, **keywords)
        except TypeError:
            return False
        return True

    def taken(
        self, arguments: tuple[Any, ...], keywords: dict[str, Any], convert: bool
    ) -> tuple[Sequence[Any], dict[str, Any]]:
        """Return the arguments as they are taken. Raises TypeError with the name of one that is of a wrong kind."""
        conversions = self.conversions
        found = list(arguments)
        for index, (name, value) in enumerate(zip(self.places, arguments, strict=False)):
            conversion = conversions.get(name)
            if conversion is not None:
                found[index] = self._one(name, conversion, value, convert)
        if self.rest in conversions:
            for index in range(len(self.places), len(arguments)):
                found[index] = self._one(str(self.rest), conversions[self.rest], arguments[index], convert)
        if keywords:
            keywords = {
                name: self._one(name, conversions[name], value, convert) if name in conversions else value
                for name, value in keywords.items()
            }
        return found, keywords

    def plan(self, arguments: tuple[Any, ...]) -> _Plan | None:
        """Return how all arguments of these very types are taken, None if that depends on what they are."""
        if self.rest is not None or len(arguments) > len(self.places):
            return None
        conversions = [self.conversions.get(name) for name in self.places[: len(arguments)]]
        kinds = [type(argument) for argument in arguments]
        pairs = list(enumerate(zip(conversions, kinds, strict=True)))
        numbers = tuple(place for place, (conversion, kind) in pairs if conversion is not None and kind is int)
        others = tuple(
            (place, self.places[place], conversion)
            for place, (conversion, kind) in pairs
            if conversion is not None and not _as_it_is(conversion, kind)
        )
        return numbers, others

    @staticmethod
    def _one(name: str, conversion: Conversion, value: Any, convert: bool) -> Any:
        try:
            return conversion(value, convert)
        except TypeError as error:
            raise TypeError(f"{name}: {error}") from None


def placed(
    arguments: tuple[Any, ...], keywords: dict[str, Any], names: Sequence[str] = ()
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a call with ``arg0``, ``arg1`` and so on, as published signatures name places, in their places.

    `names` are the parameters' own, which may be such.
    """
    before = 1 if names[:1] == ["self"] else 0
    while (name := f"arg{len(arguments) - before}") in keywords and name not in names[: len(arguments)]:
        keywords = dict(keywords)
        arguments = (*arguments, keywords.pop(name))
    return arguments, keywords


def bound(function: _F) -> _F:
    """Return a function whose arguments are taken as its annotations, or those of its overloads, say."""
    overloads = typing.get_overloads(function)
    forms: list[_Form] = []

    plans: dict[tuple[type, ...], _Plan | None] = {}

    def planned(arguments: tuple[Any, ...]) -> _Plan | None:
        """Return what the types of arguments alone decide: the form, and which arguments are taken as they are."""
        if len(forms) == 1:
            return forms[0].plan(arguments)
        for form in forms:
            if not form.fits(arguments, {}):
                continue
            plan = form.plan(arguments)
            if plan is None or not plan[1]:
                return plan
            if not any(_never(conversion, arguments[place]) for place, _, conversion in plan[1]):
                return None
        return None

    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        if not keywords:
            kinds = tuple(map(type, arguments))
            plan = plans.get(kinds)
            if plan is not None:
                numbers, others = plan
                for place in numbers:
                    if not _LEAST <= arguments[place] < _MOST:
                        break
                else:
                    if not others:
                        return function(*arguments)
                    taken = list(arguments)
                    try:
                        for place, name, conversion in others:
                            taken[place] = _Form._one(name, conversion, arguments[place], True)
                    except TypeError as error:
                        raise TypeError(short(f"{function.__qualname__}(): {error}")) from None
                    return function(*taken)
        if not forms:
            # At the first call, when every name is there.
            forms.extend([_Form(one, True) for one in overloads] or [_Form(function, False)])
        if not keywords and kinds not in plans:
            if len(plans) >= _MOST_PLANS:
                plans.clear()
            plans[kinds] = planned(arguments)
        if keywords:
            arguments, keywords = placed(arguments, keywords, forms[0].places)
        if len(forms) == 1:
            try:
                found, named = forms[0].taken(arguments, keywords, True)
            except TypeError as error:
                raise TypeError(short(f"{function.__qualname__}(): {error}")) from None
            return function(*found, **named)
        if len(arguments) == 1 and not keywords and any(form.is_empty for form in forms):
            return function(*arguments)
        fitting = [form for form in forms if form.fits(arguments, keywords)]
        reasons: list[str] = []
        for convert in (False, True):
            for form in fitting:
                try:
                    found, named = form.taken(arguments, keywords, convert)
                except TypeError as error:
                    reasons.append(str(error))
                    continue
                return function(*found, **named)
        if not fitting:
            raise TypeError(short(f"{function.__qualname__}() takes {' or '.join(map(str, forms))}"))
        raise TypeError(short(f"{function.__qualname__}(): {' or '.join(dict.fromkeys(reasons[-len(fitting) :]))}"))

    return typing.cast(_F, call)


def bind_members(kind: _K) -> _K:
    """Bind the methods, static methods and setters of a class that Python programs call; return the class."""
    for name, value in list(vars(kind).items()):
        if name.startswith("_") and not (name.startswith("__") and name.endswith("__")):
            continue
        if isinstance(value, types.FunctionType) and _takes_something(value):
            setattr(kind, name, bound(value))
        elif isinstance(value, staticmethod | classmethod) and _takes_something(value.__func__):
            setattr(kind, name, type(value)(bound(value.__func__)))
        elif isinstance(value, property) and value.fset is not None and _takes_something(value.fset):
            setattr(kind, name, property(value.fget, bound(value.fset), value.fdel, value.__doc__))
    return kind


def _takes_something(function: Any) -> bool:
    words: set[str] = set()
    for one in (*typing.get_overloads(function), function):
        for name, annotation in one.__annotations__.items():
            if name != "return" and isinstance(annotation, str):
                words.update(re.findall(r"\w+", annotation))
    names = function.__globals__
    checked = _PLAIN.keys() | {"list", "Sequence", "Iterable", "Callable"}
    return any(word in checked or isinstance(names.get(word), enum.EnumMeta) for word in words - {"None"})
