"""Layouts: the meaning of every stored axis, such as ``NHWC`` or ``NCHWc32``.

An axis is one of ``N L H W D C I O``, or ``*`` for one that nobody cares about. In lower case, with a length, it is the
inner part of a split axis: in ``NCHWc32`` channels lie in blocks of 32.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self, overload

from triune.icraft._xir.errors import Error, native_errors
from triune.icraft._xir.objects import Concrete, ObjectRef

__all__ = ["AxisName", "AxisUnit", "Layout"]

_NAMES = "NLHWDCIO*"
_OUTER = frozenset(_NAMES)
_INNER = frozenset(_NAMES[:-1].lower())
_MOST_AXES = 1 << 10


class AxisName(Concrete):
    """One axis that is not split, or the outer part of one that is: an upper-case letter or ``*``."""

    type_key = "icraft::xir::AxisNameNode"
    _fields: ClassVar[tuple[str, ...]] = ("_name",)
    _defaults: ClassVar[Mapping[str, Any]] = {"_name": "*"}
    _name: str

    def __init__(self, name: str | ObjectRef) -> None:
        """Take one character. Raises Error if it is no axis."""
        if not isinstance(name, str):
            raise TypeError(f"AxisName() takes a character, not {type(name).__name__}")
        if name not in _OUTER:
            raise Error(f"AxisName: {name!r} is no axis; {', '.join(_NAMES)} are")
        self._name = name

    @property
    def name(self) -> str:
        """The character: N, L, H, W, D, C, I, O or ``*``, in lower case that of an `AxisUnit`."""
        return self._name

    def _text(self) -> str:
        return self._name


class AxisUnit(AxisName):
    """The inner part of a split axis: a lower-case letter and its length."""

    type_key = "icraft::xir::AxisUnitNode"
    _fields = ("_name", "_unit")
    _defaults: ClassVar[Mapping[str, Any]] = {"_name": "c", "_unit": 0}
    _unit: int

    def __init__(self, name: str | ObjectRef, unit: int = 0) -> None:
        """Take one character and the length. Raises Error if it is no axis, or the length negative."""
        if not isinstance(name, str):
            raise TypeError(f"AxisUnit() takes a character, not {type(name).__name__}")
        if name not in _INNER:
            raise Error(f"AxisUnit: {name!r} is no inner axis; {', '.join(_NAMES[:-1].lower())} are")
        self._name = name
        self.setUnit(unit)

    def setUnit(self, unit: int) -> Self:
        """Set the length, in elements. Raises Error if it is negative."""
        if unit < 0:
            raise Error(f"AxisUnit {self._name!r}: the length {unit} is negative")
        self._unit = unit
        return self

    @property
    def unit(self) -> int:
        """The length in elements: 32 of ``c32``."""
        return self._unit

    def _text(self) -> str:
        return f"{self._name}{self._unit}"


def _axis(name: str, unit: int) -> AxisName:
    """Return an axis of a layout that was read, which is one."""
    if name.islower():
        inner = AxisUnit._new()
        inner._name, inner._unit = name, unit
        return inner
    outer = AxisName._new()
    outer._name = name
    return outer


def _parsed(text: str) -> list[AxisName]:
    """Return the axes of a text such as ``NCHWc32``. Raises Error if it is no layout."""
    from triune._native import xir_parse_layout

    with native_errors(""):
        return [_axis(name, unit) for name, unit in xir_parse_layout(text)]


class Layout(Concrete):
    """The meaning of a tensor's axes, from the outermost in.

    An axis in lower case is the inner part of the one in upper case, with its length: ``NHWCc32`` are channels in blocks of 32.

    Examples:
        >>> from triune.icraft import xir
        >>> layout = xir.Layout("NHWCc32")
        >>> layout.numAxis(), layout.getIndexOf("C"), layout.c()
        (5, 3, 32)
        >>> xir.Layout.NCHW().toString()
        'NCHW'
    """

    type_key = "icraft::xir::LayoutNode"
    _fields = ("_axes",)
    _other_names: ClassVar[Mapping[str, str]] = {"axis": "layout"}
    _defaults: ClassVar[Mapping[str, Any]] = {"_axes": list}
    _axes: list[AxisName]

    def __init__(self, layout: str | Iterable[AxisName] | ObjectRef) -> None:
        """Take a text such as ``NCHWc32``, or the axes. Raises Error if the text is no layout."""
        if isinstance(layout, ObjectRef):
            raise TypeError(f"Layout() takes a text or axes, not {type(layout).__name__}")
        if not isinstance(layout, str):
            self._axes = list(layout)
            return
        self._axes = _parsed(layout)

    @staticmethod
    def _read(text: str) -> Layout:
        """Return the layout of a text. Raises Error if it is none."""
        made = Layout._new()
        made._axes = _parsed(text)
        return made

    # ---- layouts that have names

    @staticmethod
    def Default(size: int = 0) -> Layout:
        """Return a layout of `size` axes that nobody cares about: ``***`` of 3."""
        made = Layout._new()
        made._axes = [_axis("*", 0) for _ in range(size)]
        return made

    @staticmethod
    def NHWC() -> Layout:
        """Return ``NHWC``; a new object each time."""
        return _of("NHWC")

    @staticmethod
    def NCHW() -> Layout:
        """Return ``NCHW``; a new object each time."""
        return _of("NCHW")

    @staticmethod
    def HWIO() -> Layout:
        """Return ``HWIO``, the layout of weights of convolutions; a new object each time."""
        return _of("HWIO")

    @staticmethod
    def OIHW() -> Layout:
        """Return ``OIHW``, the layout of weights as ONNX and PyTorch have it; a new object each time."""
        return _of("OIHW")

    @staticmethod
    def CheckAxisNameUpper(c: str) -> bool:
        """Return whether a character is an axis in upper case: one of N, L, H, W, D, C, I and O. ``*`` is none."""
        return c in _OUTER and c != "*"

    # ---- the builder: each adds an axis, except a lower-case one without a length, which returns the length

    def _add(self, axis: AxisName) -> Self:
        self._axes.append(axis)
        return self

    def N(self) -> Self:
        """Add the batch, behind the other axes. Returns the layout itself, as all that add do: ``Layout.Default().N().C()``
        is ``NC``."""
        return self._add(AxisName("N"))

    def L(self) -> Self:
        """Add the length of a sequence."""
        return self._add(AxisName("L"))

    def H(self) -> Self:
        """Add the height."""
        return self._add(AxisName("H"))

    def W(self) -> Self:
        """Add the width."""
        return self._add(AxisName("W"))

    def D(self) -> Self:
        """Add the depth."""
        return self._add(AxisName("D"))

    def C(self) -> Self:
        """Add the channels."""
        return self._add(AxisName("C"))

    def I(self) -> Self:  # noqa: E743 - the vendor's name
        """Add the input channels of weights."""
        return self._add(AxisName("I"))

    def O(self) -> Self:  # noqa: E743 - the vendor's name
        """Add the output channels of weights."""
        return self._add(AxisName("O"))

    def X(self, num: int = 1) -> Self:
        """Add `num` axes that nobody cares about. Raises Error for more than anything has."""
        if num > _MOST_AXES:
            raise Error(f"Layout.X: {num} axes; {_MOST_AXES} at most can be added")
        for _ in range(num):
            self._add(AxisName("*"))
        return self

    def _inner(self, name: str, unit: int | None) -> Self | int:
        if unit is not None:
            return self._add(AxisUnit(name, unit))
        axis = self.get(name)
        if not isinstance(axis, AxisUnit):
            raise Error(f"layout {self.toString()} has no axis {name!r}")
        return axis.unit

    @overload
    def n(self, unit: int) -> Self: ...
    @overload
    def n(self) -> int: ...
    def n(self, unit: int | None = None) -> Self | int:
        """Add the inner part of the batch, `unit` elements long; without `unit` return its length.

        Raises Error without `unit` if there is none, with it if it is negative.
        """
        return self._inner("n", unit)

    @overload
    def l(self, unit: int) -> Self: ...  # noqa: E743
    @overload
    def l(self) -> int: ...  # noqa: E743
    def l(self, unit: int | None = None) -> Self | int:  # noqa: E743 - the vendor's name
        """Add the inner part of the sequence, `unit` elements long; without `unit` return its length. Raises as `n` does."""
        return self._inner("l", unit)

    @overload
    def h(self, unit: int) -> Self: ...
    @overload
    def h(self) -> int: ...
    def h(self, unit: int | None = None) -> Self | int:
        """Add the inner part of the height, `unit` elements long; without `unit` return its length. Raises as `n` does."""
        return self._inner("h", unit)

    @overload
    def w(self, unit: int) -> Self: ...
    @overload
    def w(self) -> int: ...
    def w(self, unit: int | None = None) -> Self | int:
        """Add the inner part of the width, `unit` elements long; without `unit` return its length. Raises as `n` does."""
        return self._inner("w", unit)

    @overload
    def d(self, unit: int) -> Self: ...
    @overload
    def d(self) -> int: ...
    def d(self, unit: int | None = None) -> Self | int:
        """Add the inner part of the depth, `unit` elements long; without `unit` return its length. Raises as `n` does."""
        return self._inner("d", unit)

    @overload
    def c(self, unit: int) -> Self: ...
    @overload
    def c(self) -> int: ...
    def c(self, unit: int | None = None) -> Self | int:
        """Add the inner part of the channels, `unit` elements long; without `unit` return its length. Raises as `n` does."""
        return self._inner("c", unit)

    @overload
    def i(self, unit: int) -> Self: ...
    @overload
    def i(self) -> int: ...
    def i(self, unit: int | None = None) -> Self | int:
        """Add the inner part of the input channels, `unit` elements long; without `unit` return its length. Raises as `n`
        does."""
        return self._inner("i", unit)

    @overload
    def o(self, unit: int) -> Self: ...
    @overload
    def o(self) -> int: ...
    def o(self, unit: int | None = None) -> Self | int:
        """Add the inner part of the output channels, `unit` elements long; without `unit` return its length. Raises as `n`
        does."""
        return self._inner("o", unit)

    # ---- questions and changes

    @property
    def axis_names(self) -> list[AxisName]:
        """The axes from the outermost in, `AxisUnit` those that are inner parts. A new list; the axes are the layout's own."""
        return list(self._axes)

    def numAxis(self) -> int:
        """Return the number of axes, inner parts counted: 5 of ``NHWCc32``."""
        return len(self._axes)

    def isDefault(self) -> bool:
        """Return whether nobody cares about any axis: all are ``*``, or there are none."""
        return all(axis.name == "*" for axis in self._axes)

    def has(self, c: str) -> bool:
        """Return whether there is such an axis; ``c``, the inner part of ``C``, is one of its own."""
        return self._found(c) is not None

    def get(self, c: str) -> AxisName | None:
        """Return the first axis of that name, None if there is none."""
        return next((axis for axis in self._axes if axis.name == c), None)

    def getIndexOf(self, c: str) -> int:
        """Return which axis has that name, counted from the outermost: 1 for ``C`` of ``NCHW``.

        Upper and lower case are names of their own: ``c`` is the inner part of ``C``. Raises Error if there is none.
        """
        index = self._found(c)
        if index is None:
            raise Error(f"layout {self.toString()} has no axis {c!r}")
        return index

    def _found(self, c: str) -> int | None:
        """Return which axis has that name, None if there is none."""
        for index, axis in enumerate(self._axes):
            if axis._name == c:
                return index
        return None

    def getAxisCharName(self, index: int) -> str:
        """Return the character of an axis, in lower case that of an inner part; negative numbers count from the innermost.

        Raises Error if there is none of that number.
        """
        return self._axes[self._place(index)]._name

    def __getitem__(self, index: int) -> AxisName:
        """Return an axis; negative numbers count from the innermost. Raises Error if there is none."""
        return self._axes[self._place(index)]

    def _place(self, index: int) -> int:
        if not -len(self._axes) <= index < len(self._axes):
            raise Error(f"layout {self.toString()} has {len(self._axes)} axes, none is number {index}")
        return index % len(self._axes)

    def swapAxis(self, left_index: int, right_index: int) -> Self:
        """Exchange two axes in place; negative numbers count from the innermost. Raises Error if there is none of that
        number."""
        left, right = self._place(left_index), self._place(right_index)
        self._axes[left], self._axes[right] = self._axes[right], self._axes[left]
        return self

    def eraseAxis(self, index: int) -> Self:
        """Take out an axis in place; negative numbers count from the innermost. Raises Error if there is none of that number."""
        del self._axes[self._place(index)]
        return self

    def insertAxis(self, index: int, axis_name: AxisName) -> Self:
        """Put in an axis before number `index`, which may be the number behind the last; negative numbers count from the
        innermost.

        Raises Error if the number is out of range.
        """
        if not -len(self._axes) <= index <= len(self._axes):
            raise Error(f"layout {self.toString()} has {len(self._axes)} axes: none can be put in at {index}")
        self._axes.insert(index, axis_name)
        return self

    def toString(self) -> str:
        """Return the text, such as ``NCHWc32``: what the constructor takes; empty without axes."""
        return "".join(axis._text() for axis in self._axes)

    def _json(self) -> str:
        return f"@layout({self.toString()})"


def _of(names: str) -> Layout:
    made = Layout._new()
    made._axes = [_axis(name, 0) for name in names]
    return made
