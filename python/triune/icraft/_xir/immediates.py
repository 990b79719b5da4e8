"""Data that is one number: `IntImm`, `FloatImm`, `Bool`; and the base of all data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from triune._text import short
from triune.icraft._xir.conversions import number
from triune.icraft._xir.errors import Error
from triune.icraft._xir.objects import Concrete, ObjectRef, needed, plain, plain_float
from triune.icraft._xir.places import HostMem, MemType
from triune.icraft._xir.scalars import BoolType, DataType, FloatType, IntegerType, ScalarType

__all__ = ["Bool", "Data", "FloatImm", "IntImm", "ScalarImm"]


class Data(ObjectRef):
    """Something of a type, at a place."""

    type_key = "icraft::xir::DataNode"
    _fields: ClassVar[tuple[str, ...]] = ("_dtype", "_mtype")
    _dtype: DataType
    _mtype: MemType

    @property
    def dtype(self) -> DataType:
        """What it is: of a value mostly a `TensorType`, of a number a scalar's type."""
        return self._dtype

    def setDType(self, arg0: DataType) -> Self:
        """Set what it is. Numbers and data stay: nothing is converted or checked."""
        self._dtype = needed(DataType, arg0, "setDType")
        return self

    @property
    def mtype(self) -> MemType:
        """Where it lies: in the host's memory unless something else is said."""
        return self._mtype

    def setMType(self, arg0: MemType) -> Self:
        """Set where it lies. Nothing is moved."""
        self._mtype = needed(MemType, arg0, "setMType")
        return self

    def storageBytes(self) -> int:
        """Return the bytes that it takes in memory, each element the next power of two of them: 4 for two elements of 12
        bits.

        `DataType.bytes` says how few they could be. Raises Error if an extent is not known.
        """
        return self._dtype.numElements() * self._dtype._element()._stored_bytes()

    def storageBits(self) -> int:
        """Return the bits that it takes in memory: 8 · `storageBytes`. Raises Error if an extent is not known."""
        return self.storageBytes() * 8


class ScalarImm(Data):
    """One number of any kind: ``ScalarImm(3)`` is an `IntImm`, ``ScalarImm(3.0)`` a `FloatImm`."""

    type_key = "icraft::xir::ScalarImmNode"
    _fields = ("_dtype", "_mtype", "_value")
    _value: Any

    def __new__(cls, arg0: Any = None, *others: Any, **keywords: Any) -> Self:
        """Choose the class for the number."""
        if cls is not ScalarImm:
            return object.__new__(cls)
        kind: Any = Bool if isinstance(arg0, bool) else IntImm if isinstance(number(arg0), int) else FloatImm
        made: Self = object.__new__(kind)
        return made

    def __init__(self, arg0: float | ObjectRef, /) -> None:
        """Take the number."""
        raise TypeError(f"ScalarImm() takes a number, not {type(arg0).__name__}")

    def scalarType(self) -> ScalarType:
        """Return the number's type: ``@sint(64)``, ``@fp(64)`` or ``@bool`` unless another was given."""
        return self._dtype._element()

    def _set(self, value: Any, dtype: ScalarType | MemType | None, mtype: MemType | None, default: ScalarType) -> None:
        if isinstance(dtype, MemType):
            dtype, mtype = None, dtype
        self._value = value
        what = type(self).__name__
        self._dtype = default if dtype is None else needed(ScalarType, dtype, what)
        self._mtype = HostMem() if mtype is None else needed(MemType, mtype, what)

    def _default_dtype(self) -> ScalarType:
        raise NotImplementedError

    def _json(self) -> Any:
        value = plain_float(self._value) if isinstance(self._value, float) else self._value
        if self._dtype == self._default_dtype():
            return value
        return {"_type_key": self._json_key(), "dtype": plain(self._dtype), "mtype": plain(self._mtype), "value": value}


class IntImm(ScalarImm, Concrete):
    """A whole number of 64 bits, or of a type of its own."""

    type_key = "icraft::xir::IntImmNode"
    _defaults: ClassVar[Mapping[str, Any]] = {"_value": 0, "_dtype": IntegerType.SInt64, "_mtype": HostMem}

    def __init__(
        self, value: int | ObjectRef, dtype: ScalarType | MemType | None = None, mtype: MemType | None = None
    ) -> None:
        """Take the number, its type and where it lies. Raises TypeError unless it is from -2^63 to 2^64-1."""
        if isinstance(value, ObjectRef) or int(value) != value:
            raise TypeError(short(f"IntImm() takes a whole number, not {value!r}"))
        if not -(1 << 63) <= value < 1 << 64:
            raise Error(f"IntImm: {value} does not fit 64 bits")
        self._set(int(value), dtype, mtype, self._default_dtype())

    def _default_dtype(self) -> ScalarType:
        return IntegerType.SInt64()

    @property
    def value(self) -> int:
        """The number, from -2^63 to 2^64-1, whatever type was given with it."""
        return int(self._value)

    def __int__(self) -> int:
        """Return the number."""
        return self.value

    def __index__(self) -> int:
        """Return the number."""
        return self.value

    def __float__(self) -> float:
        """Return the number."""
        return float(self.value)

    def __eq__(self, other: object) -> bool:
        """Compare with numbers of both kinds."""
        return self.value == other if isinstance(other, int | float) else super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]


class FloatImm(ScalarImm, Concrete):
    """A floating point number."""

    type_key = "icraft::xir::FloatImmNode"
    _defaults: ClassVar[Mapping[str, Any]] = {"_value": 0.0, "_dtype": FloatType.FP64, "_mtype": HostMem}

    def __init__(
        self, value: float | ObjectRef, dtype: ScalarType | MemType | None = None, mtype: MemType | None = None
    ) -> None:
        """Take the number, its type and where it lies."""
        if isinstance(value, ObjectRef):
            raise TypeError(f"FloatImm() takes a number, not {type(value).__name__}")
        self._set(float(value), dtype, mtype, self._default_dtype())

    def _default_dtype(self) -> ScalarType:
        return FloatType.FP64()

    @property
    def value(self) -> float:
        """The number, in double precision, whatever type was given with it."""
        return float(self._value)

    def __float__(self) -> float:
        """Return the number."""
        return self.value

    def __eq__(self, other: object) -> bool:
        """Compare with numbers of both kinds."""
        return self.value == other if isinstance(other, int | float) else super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]


class Bool(ScalarImm, Concrete):
    """A truth value."""

    type_key = "icraft::xir::BoolNode"
    _defaults: ClassVar[Mapping[str, Any]] = {"_value": False, "_dtype": BoolType, "_mtype": HostMem}

    def __init__(self, arg0: bool | ObjectRef, /) -> None:
        """Take the value."""
        if isinstance(arg0, ObjectRef) or not isinstance(arg0, int):
            raise TypeError(f"Bool() takes a bool, not {type(arg0).__name__}")
        self._set(bool(arg0), None, None, self._default_dtype())

    def _default_dtype(self) -> ScalarType:
        return BoolType()

    @property
    def value(self) -> bool:
        """The value."""
        return bool(self._value)

    def __bool__(self) -> bool:
        """Return the value."""
        return self.value

    def __and__(self, arg0: bool | Bool) -> Bool:
        """Return whether both are true."""
        return Bool(self.value and bool(arg0))

    __rand__ = __and__

    def __or__(self, arg0: bool | Bool) -> Bool:
        """Return whether one is true."""
        return Bool(self.value or bool(arg0))

    __ror__ = __or__

    def __not__(self) -> Bool:
        """Return the opposite."""
        return Bool(not self.value)

    def __eq__(self, other: object) -> bool:
        """Compare with truth values of both kinds."""
        return self.value == other if isinstance(other, bool) else super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]
