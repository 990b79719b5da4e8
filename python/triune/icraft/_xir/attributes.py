"""Attributes of operations: their kinds, with what a program may give, and what a file has.

Each kind knows the type that stubs show, how to take an argument (`convert`) and how to read a file's value (`read`).
Writing is the same for all: `objects.plain`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from triune._text import short
from triune.icraft._xir import conversions
from triune.icraft._xir.arrays import QuantizedScaleArray, f32, scale_array
from triune.icraft._xir.enums import VendorEnum
from triune.icraft._xir.errors import Error
from triune.icraft._xir.immediates import FloatImm, IntImm, ScalarImm
from triune.icraft._xir.layout import Layout
from triune.icraft._xir.objects import ObjectRef, whole_number
from triune.icraft._xir.types import TensorType
from triune.icraft._xir.values import Params

if TYPE_CHECKING:
    from triune.icraft._xir.codec import Reader

__all__ = ["Attr", "Kind", "attr", "json_name", "kinds"]


@dataclass(frozen=True)
class Kind:
    """A kind of attribute."""

    shown: str
    """The type as stubs show it."""
    convert: Callable[[Any], Any]
    """Take what a program gives; raises TypeError or ValueError if it is something else."""
    read: Callable[[Any, Reader], Any]
    """Take what a file has; raises TypeError or ValueError if it is something else, Error if it is broken."""
    accepted: str = ""
    """The type that setters and constructors take, if it is another than `shown`."""


# ---- as a file has them


def _real(value: Any) -> float:
    if isinstance(value, str):
        if value not in ("inf", "-inf", "nan"):
            raise TypeError(short(f"a number is needed, not {value!r}"))
        return float(value)
    if isinstance(value, bool):
        raise TypeError(short(f"a number is needed, not {value!r}"))
    try:
        return float(value)
    except OverflowError:
        raise ValueError("a number is beyond what a float can hold") from None


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(short(f"True or False is needed, not {value!r}"))
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(short(f"a str is needed, not {value!r}"))
    return value


# ---- as a program gives them


def _signed(value: Any, convert: bool = True) -> int:
    number = conversions.whole(value, convert)
    if number >= 1 << 63:
        raise TypeError(f"{number} does not fit 64 bits")
    return number


def _single(value: Any) -> float:
    return f32(conversions.real(value))


def _each(one: Callable[[Any], Any]) -> Callable[[Any], list[Any]]:
    """Return what takes a list, or a single value."""

    def convert(value: Any) -> list[Any]:
        if conversions.is_sequence(value):
            return [one(value[index]) for index in range(len(value))]
        if isinstance(value, str | bytes | Mapping):
            raise TypeError(f"a list is needed, not {value!r:.60}")
        return [one(value)]

    return convert


def _instance(kind: type) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if not isinstance(value, kind):
            raise TypeError(f"a {kind.__name__} is needed, not {type(value).__name__}")
        return value

    return convert


def _number(value: Any) -> ScalarImm:
    return value if isinstance(value, ScalarImm) else ScalarImm(value)


def _optional(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def convert_or_none(value: Any) -> Any:
        null = value is None or (isinstance(value, ObjectRef) and not value.defined())
        return None if null else convert(value)

    return convert_or_none


def _optional_read(read: Callable[[Any, Reader], Any]) -> Callable[[Any, Reader], Any]:
    return lambda document, reader: None if document is None else read(document, reader)


def _each_read(read: Callable[[Any, Reader], Any]) -> Callable[[Any, Reader], list[Any]]:
    def each(document: Any, reader: Reader) -> list[Any]:
        if not isinstance(document, list):
            raise TypeError(f"a list is needed, not {document!r:.60}")
        return [read(item, reader) for item in document]

    return each


def _dictionary(value: Any) -> dict[str, int]:
    if not isinstance(value, Mapping):
        raise TypeError(f"a dict is needed, not {value!r:.60}")
    return {conversions.text(key): _signed(item) for key, item in value.items()}


def _layout(value: Any) -> Layout:
    return Layout(value) if isinstance(value, str) else _instance(Layout)(value)


def _params_read(document: Any, reader: Reader) -> Params:
    value = reader.value(document)
    if not isinstance(value, Params):
        raise TypeError(f"value {value.v_id} is not known beforehand")
    return value


def _scalar_read(document: Any, reader: Reader) -> ScalarImm:
    if isinstance(document, str):
        return FloatImm(_real(document))
    return reader.immediate(document) if isinstance(document, dict) else _number(document)


def _plainly(convert: Callable[[Any], Any]) -> Callable[[Any, Reader], Any]:
    """Return what reads a file's value as if a program had given it."""
    return lambda document, reader: convert(document)


def enumeration(members: type[VendorEnum]) -> Kind:
    """Return the kind of an enumeration's members, whose names or numbers files have."""

    def read(value: Any) -> VendorEnum:
        if isinstance(value, str):
            if value not in members.__members__:
                raise ValueError(short(f"{value!r} is none of {', '.join(members.__members__)}"))
            return members[value]
        return members(value)

    return Kind(members.__name__, conversions.member(members), _plainly(read))


def objects_of(shown: str, kind: Callable[[], type], read: Callable[[Any, Reader], Any]) -> Kind:
    """Return the kind of a list of objects of a class."""
    return Kind(f"list[{shown}]", lambda value: _each(_instance(kind()))(value), _each_read(read))


class kinds:
    """The kinds."""

    whole = Kind("int", _signed, _plainly(whole_number))
    real = Kind("float", conversions.real, _plainly(_real))
    # What the vendor keeps in 32 bits where a default would show it.
    single = Kind("float", _single, _plainly(_real))
    truth = Kind("bool", conversions.truth, _plainly(_truth))
    text = Kind("str", conversions.text, _plainly(_text))
    wholes = Kind("list[int]", conversions.each(_signed), _plainly(_each(whole_number)))
    reals = Kind("list[float]", conversions.each(conversions.real), _plainly(_each(_real)))
    # Where one of the constructors takes a number.
    one_or_wholes = Kind("list[int]", _each(_signed), _plainly(_each(whole_number)), "list[int] | int")
    maybe_wholes = Kind(
        "list[int] | None",
        _optional(_each(_signed)),
        _optional_read(_plainly(_each(whole_number))),
        "list[int] | int | None",
    )
    maybe_imm = Kind(
        "IntImm | None",
        _optional(lambda value: value if isinstance(value, IntImm) else IntImm(_signed(value))),
        _optional_read(lambda document, reader: _instance(IntImm)(_scalar_read(document, reader))),
        "IntImm | int | None",
    )
    number = Kind("ScalarImm", _number, _scalar_read, "ScalarImm | float")
    numbers = Kind(
        "list[ScalarImm]", _each(_number), _each_read(_scalar_read), "list[ScalarImm] | list[float] | ScalarImm | float"
    )
    layout = Kind("Layout", _layout, _plainly(_layout), "Layout | str")
    dtype = Kind("TensorType", _instance(TensorType), lambda document, reader: reader.tensor_type(document))
    scales = Kind(
        "QuantizedScaleArray", _instance(QuantizedScaleArray), lambda document, reader: scale_array(_text(document))
    )
    params = Kind("Params", _instance(Params), _params_read)
    maybe_params = Kind("Params | None", _optional(_instance(Params)), _optional_read(_params_read))
    many_params = Kind("list[Params]", _each(_instance(Params)), _each_read(_params_read), "list[Params] | Params")
    dictionary = Kind("dict[str, int]", _dictionary, _plainly(_dictionary))


@dataclass(frozen=True)
class Attr:
    """An attribute of an operator."""

    name: str
    kind: Kind
    default: Any
    """What an operation has that nobody gave one; called if it can be."""
    doc: str
    low: float | None = None
    high: float | None = None

    def initial(self) -> Any:
        """Return the default."""
        return self.default() if callable(self.default) else self.default

    def check(self, owner: str, value: Any) -> None:
        """Raise Error if the value is out of bounds."""
        for one in value if isinstance(value, list) else (value,):
            if self.low is not None and one < self.low:
                raise Error(f"{owner}.{self.name}: {one} is below {self.low}")
            if self.high is not None and one > self.high:
                raise Error(f"{owner}.{self.name}: {one} is above {self.high}")


def json_name(name: str) -> str:
    """Return what a file calls an attribute: the vendor's class has ``lambda``, which is no name in Python."""
    return "lambda" if name == "lambda_" else name


def attr(name: str, kind: Kind, doc: str, default: Any, low: float | None = None, high: float | None = None) -> Attr:
    """Return an attribute. Its docstring says the default that is a plain value, and the bounds."""
    said = [f"at {word} {bound}" for word, bound in (("least", low), ("most", high)) if bound is not None]
    if isinstance(default, bool | int | float | VendorEnum):
        said.insert(0, f"{default.name if isinstance(default, VendorEnum) else default} unless it is given")
    return Attr(name, kind, default, f"{doc} {', '.join(said)}." if said else doc, low, high)
