"""Arrays of scales and normalization ratios, and which elements of merged axes are padding.

All of them are kept as runs of equal neighbours, as files write them, so that a long one costs no more than its text.
Numbers are rounded to binary32, as the vendor keeps them. Texts are read and written by the core.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic, Self, TypeVar

from triune.icraft._xir.errors import Error, native_errors
from triune.icraft._xir.objects import Concrete, ObjectRef

__all__ = [
    "ExpQuantizedScale",
    "ExpQuantizedScaleArray",
    "NormratioArray",
    "QuantizedScale",
    "QuantizedScaleArray",
    "scale_array",
]

LONGEST = 1 << 24
"""The longest array that is given out element by element. Counts of a file are only believed up to it."""

V = TypeVar("V")


def f32(value: float) -> float:
    """Return a number rounded to binary32. Raises Error if it is too large for that."""
    try:
        (rounded,) = struct.unpack("<f", struct.pack("<f", value))
    except OverflowError:
        raise Error(f"{value} is too large for a 32-bit float") from None
    return float(rounded)


class Runs(Generic[V]):
    """Values with equal neighbours counted; never changed in place."""

    def __init__(self, pairs: Iterable[tuple[int, V]] = ()) -> None:
        """Take (how many, value)."""
        runs: list[tuple[int, V]] = []
        for count, value in pairs:
            if runs and runs[-1][1] == value:
                runs[-1] = (runs[-1][0] + count, value)
            elif count:
                runs.append((count, value))
        self.pairs = tuple(runs)
        # Not `__len__`, which cannot say more than an address can: a file's count can be any.
        self.total = sum(count for count, _ in runs)

    @classmethod
    def of(cls, values: Iterable[V]) -> Runs[V]:
        """Take values one by one."""
        return cls((1, value) for value in values)

    def __eq__(self, other: object) -> bool:
        """Compare the values."""
        return self.pairs == other.pairs if isinstance(other, Runs) else NotImplemented

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[V]:
        """Walk the values. Raises Error if there are more than `LONGEST`."""
        if self.total > LONGEST:
            raise Error(f"an array of {self.total} values is given out in no list; at most {LONGEST} are")
        return (value for count, value in self.pairs for _ in range(count))

    def at(self, index: int) -> V:
        """Return one value; negative numbers count from the end. Raises Error if there is none."""
        place = index + self.total if index < 0 else index
        for count, value in self.pairs:
            if 0 <= place < count:
                return value
            place -= count
        raise Error(f"the array has {self.total} values, none is number {index}")


def _parsed(text: str) -> tuple[str, int, list[Any]]:
    from triune._native import xir_parse_array

    with native_errors(""):
        kind, axis, runs = xir_parse_array(text)
    return kind, axis, runs


def _text(kind: str, axis: int, runs: Runs[Any]) -> str:
    from triune._native import xir_format_array

    with native_errors(""):
        return xir_format_array(kind, axis, list(runs.pairs))


class NormratioArray(Concrete):
    """Normalization ratios along an axis; a single one is for all elements."""

    type_key = "icraft::xir::NormratioArrayNode"
    _null_by_default = False
    _fields = ("_runs", "_axis")
    _defaults: ClassVar[Mapping[str, Any]] = {"_runs": Runs, "_axis": -1}
    _runs: Runs[float]
    _axis: int

    def __init__(self, data: Iterable[float] | ObjectRef = (), axis: int = -1) -> None:
        """Take the ratios and the axis that they run along (negative counts from the end)."""
        if isinstance(data, ObjectRef):
            raise TypeError(f"NormratioArray() takes a list of numbers, not {type(data).__name__}")
        self._runs, self._axis = Runs.of(map(f32, data)), axis

    @classmethod
    def _read(cls, text: str) -> NormratioArray:
        kind, axis, runs = _parsed(text)
        if kind != "norm_ratios":
            raise Error(f"{text[:60]!r} holds no normalization ratios")
        array = cls.Init()
        array._runs, array._axis = Runs(runs), axis
        return array

    @property
    def data(self) -> list[float]:
        """The ratios, each rounded to binary32, in a new list. Raises Error if there are more than 2^24."""
        return list(self._runs)

    @property
    def axis(self) -> int:
        """The stored extent that they run along, counted from the end if negative; -1 unless another is given."""
        return self._axis

    def setAxis(self, axis: int) -> Self:
        """Set the stored extent that they run along; negative numbers count from the end. It is not checked here."""
        self._axis = axis
        return self

    def __len__(self) -> int:
        """Return how many there are."""
        return self._runs.total

    def __getitem__(self, index: int) -> float:
        """Return one ratio. Raises Error if there is none of that number."""
        return self._runs.at(index)

    def _json(self) -> str:
        return _text("norm_ratios", self._axis, self._runs)


class QuantizedScale(Concrete):
    """One scale, a plain number."""

    type_key = "icraft::xir::QuantizedScaleNode"
    _fields: ClassVar[tuple[str, ...]] = ("_origin",)
    _defaults: ClassVar[Mapping[str, Any]] = {"_origin": 1.0}
    _origin: float

    def __init__(self, origin_scale: float | ObjectRef) -> None:
        """Take the number."""
        if isinstance(origin_scale, ObjectRef):
            raise TypeError(f"QuantizedScale() takes a number, not {type(origin_scale).__name__}")
        self._origin = f32(origin_scale)

    @property
    def origin_scale(self) -> float:
        """The number, rounded to binary32; of a scale in fixed point the one that m · 2^-exp is near to."""
        return self._origin

    def _json(self) -> Any:
        return self._origin


class ExpQuantizedScale(QuantizedScale):
    """One scale in fixed point: m · 2^-exp."""

    type_key = "icraft::xir::ExpQuantizedScaleNode"
    _fields = ("_m", "_exp", "_origin")
    _defaults: ClassVar[Mapping[str, Any]] = {"_m": 1, "_exp": 0, "_origin": 1.0}
    _m: int
    _exp: int

    def __init__(self, m: int | ObjectRef, exp: int | None = None, origin_scale: float | None = None) -> None:
        """Take the factor, the shift, and the number that m · 2^-exp is near to."""
        if isinstance(m, ObjectRef) or exp is None or origin_scale is None:
            raise TypeError("ExpQuantizedScale() takes m, exp and origin_scale")
        self._m, self._exp, self._origin = int(m), int(exp), f32(origin_scale)

    @property
    def m(self) -> int:
        """The factor of m · 2^-exp, an integer; 1 at first."""
        return self._m

    @property
    def exp(self) -> int:
        """The shift of m · 2^-exp, an integer; 0 at first."""
        return self._exp

    def _json(self) -> str:
        return f"@exp_scale(<{self._m}, {self._exp}>, {self._origin:.9g})"


class QuantizedScaleArray(Concrete):
    """Scales along an axis, plain numbers; a single one is for all elements."""

    type_key = "icraft::xir::QuantizedScaleArrayNode"
    _null_by_default = False
    _fields = ("_runs", "_axis")
    _defaults: ClassVar[Mapping[str, Any]] = {"_runs": Runs, "_axis": -1}
    _runs: Runs[Any]
    _axis: int
    _kind: ClassVar[str] = "scales"
    _other_names: ClassVar[Mapping[str, str]] = {
        "lhs": "origin_scale",
        "rhs": "axis",
        "n": "origin_scale",
        "val": "axis",
    }

    def __init__(
        self,
        origin_scale: Iterable[float] | QuantizedScaleArray | int | ObjectRef = (),
        axis: int | QuantizedScaleArray | QuantizedScale = -1,
    ) -> None:
        """Take the scales and the axis that they run along; or two arrays to join; or a number and the scale to repeat."""
        if not self._joined(origin_scale, axis):
            if isinstance(origin_scale, ObjectRef | int) or not isinstance(axis, int):
                raise TypeError(
                    f"{type(self).__name__}() takes numbers and an axis, two arrays, or a number and a scale"
                )
            self._runs, self._axis = Runs.of(map(f32, origin_scale)), axis

    def _joined(self, left: object, right: object) -> bool:
        if isinstance(left, QuantizedScaleArray) and isinstance(right, QuantizedScaleArray):
            if left._kind != self._kind or right._kind != self._kind:
                raise Error(f"{type(self).__name__}: only arrays of its own kind can be joined")
            self._runs, self._axis = Runs((*left._runs.pairs, *right._runs.pairs)), left._axis
            return True
        if isinstance(left, int) and isinstance(right, QuantizedScale):
            if left < 0:
                raise Error(f"{type(self).__name__}: {left} scales")
            self._runs, self._axis = Runs([(left, self._packed(right))]), -1
            return True
        return False

    def _packed(self, scale: QuantizedScale) -> Any:
        return scale.origin_scale

    def _scale_of(self, value: Any) -> QuantizedScale:
        return QuantizedScale(value)

    @property
    def origin_scale(self) -> list[float]:
        """The scales, each rounded to binary32, in a new list; of fixed point the numbers that they are near to.

        Raises Error if there are more than 2^24.
        """
        return list(self._runs)

    @property
    def axis(self) -> int:
        """The stored extent that they run along, counted from the end if negative; -1 unless another is given."""
        return self._axis

    def setAxis(self, axis: int) -> Self:
        """Set the stored extent that they run along; negative numbers count from the end. It is not checked here."""
        self._axis = axis
        return self

    def size(self) -> int:
        """Return how many there are: 1 is for all elements."""
        return self._runs.total

    def __len__(self) -> int:
        """Return how many there are."""
        return self._runs.total

    def empty(self) -> bool:
        """Return whether there are none, as of ``QuantizedScaleArray()``."""
        return not self._runs.pairs

    def __getitem__(self, index: int) -> QuantizedScale:
        """Return one scale. Raises Error if there is none of that number."""
        return self._scale_of(self._runs.at(index))

    def front(self) -> QuantizedScale:
        """Return the first scale. Raises Error if there is none."""
        return self[0]

    def back(self) -> QuantizedScale:
        """Return the last scale. Raises Error if there is none."""
        return self[-1]

    def split(self, begin: int, end: int, stride: int = 1) -> Self:
        """Return every `stride`-th scale from `begin` up to, not including, `end`, as an array along the same axis.

        Raises Error unless 0 ≤ `begin` ≤ `end` ≤ `size` and `stride` is at least 1, or if there are more than 2^24.
        """
        if not 0 <= begin <= end <= self._runs.total or stride < 1:
            raise Error(f"of {self._runs.total} scales none from {begin} to {end} by {stride} can be taken")
        part = type(self).Init()
        part._runs, part._axis = Runs.of(list(self._runs)[begin:end:stride]), self._axis
        return part

    def _json(self) -> str:
        return _text(self._kind, self._axis, self._runs)


class ExpQuantizedScaleArray(QuantizedScaleArray):
    """Scales in fixed point along an axis: m · 2^-exp."""

    type_key = "icraft::xir::ExpQuantizedScaleArrayNode"
    _kind = "exp_scales"
    _other_names: ClassVar[Mapping[str, str]] = {"lhs": "m", "rhs": "exp", "n": "m", "val": "exp"}

    def __init__(
        self,
        m: Sequence[int] | QuantizedScaleArray | int | ObjectRef = (),
        exp: Sequence[int] | QuantizedScaleArray | QuantizedScale = (),
        origin_scale: Sequence[float] = (),
        axis: int = -1,
    ) -> None:
        """Take factors, shifts, the numbers that they are near to, and the axis; or two arrays; or a number and a scale.

        Raises Error if there is not the same number of each.
        """
        if self._joined(m, exp):
            return
        if isinstance(m, ObjectRef | int) or isinstance(exp, ObjectRef):
            raise TypeError(
                "ExpQuantizedScaleArray() takes three lists and an axis, two arrays, or a number and a scale"
            )
        if not len(m) == len(exp) == len(origin_scale):
            raise Error(f"ExpQuantizedScaleArray: {len(m)} factors, {len(exp)} shifts, {len(origin_scale)} numbers")
        values = ((int(a), int(b), f32(c)) for a, b, c in zip(m, exp, origin_scale, strict=True))
        self._runs, self._axis = Runs.of(values), axis

    def _packed(self, scale: QuantizedScale) -> Any:
        if not isinstance(scale, ExpQuantizedScale):
            raise Error("ExpQuantizedScaleArray: the scale is a plain number, not m and exp")
        return (scale.m, scale.exp, scale.origin_scale)

    def _scale_of(self, value: Any) -> ExpQuantizedScale:
        return ExpQuantizedScale(*value)

    @property
    def m(self) -> list[int]:
        """The factors of m · 2^-exp, integers, in a new list. Raises Error if there are more than 2^24."""
        return [value[0] for value in self._runs]

    @property
    def exp(self) -> list[int]:
        """The shifts of m · 2^-exp, integers, in a new list. Raises Error if there are more than 2^24."""
        return [value[1] for value in self._runs]

    @property
    def origin_scale(self) -> list[float]:
        """The numbers that the scales are near to, each rounded to binary32, in a new list. Raises Error if there are more
        than 2^24."""
        return [value[2] for value in self._runs]


def scale_array(text: str) -> QuantizedScaleArray:
    """Return the scales of a text, plain or in fixed point. Raises Error if it is neither."""
    kind, axis, runs = _parsed(text)
    kinds: dict[str, type[QuantizedScaleArray]] = {"scales": QuantizedScaleArray, "exp_scales": ExpQuantizedScaleArray}
    if kind not in kinds:
        raise Error(f"{text[:60]!r} holds no scales")
    array = kinds[kind].Init()
    array._runs, array._axis = Runs(runs), axis
    return array
