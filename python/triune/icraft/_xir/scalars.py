"""Data types of one element: integers, floating point formats, booleans; and the base of all data types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from triune.icraft._xir.conversions import Unpicklable, bind_members
from triune.icraft._xir.errors import Error, native_errors
from triune.icraft._xir.objects import Concrete, ObjectRef, needed

if TYPE_CHECKING:
    import numpy as np

    from triune.icraft._xir.arrays import NormratioArray, QuantizedScaleArray

__all__ = ["BoolType", "DataType", "FloatType", "IntegerType", "ScalarType", "Semantics", "scalar_type"]


class DataType(ObjectRef):
    """What data is: the base of scalars' and tensors' types."""

    type_key = "icraft::xir::DataTypeNode"

    def _element(self) -> ScalarType:
        """Return the type of one element."""
        raise NotImplementedError

    def numElements(self) -> int:
        """Return the number of elements: 1 for a scalar, the product of the stored extents for a tensor.

        Raises Error if an extent is not known.
        """
        return 1

    def bits(self) -> int:
        """Return the size of all elements in bits, as packed as can be: 96 for eight elements of 12 bits.

        `Data.storageBits` says what they take in memory. Raises Error if an extent is not known.
        """
        return self.numElements() * self._element()._bits()

    def bytes(self) -> int:
        """Return the size of all elements in bytes, as packed as can be, rounded up: 5 for three elements of 12 bits.

        `Data.storageBytes` says what they take in memory. Raises Error if an extent is not known.
        """
        return -(-self.bits() // 8)

    def getStorageType(self) -> ScalarType:
        """Return the type that elements are stored as: of a quantized or normalized type that one's, of any other itself.

        Of a calibrated type it is what they will be stored as once they are quantized: until then they are what they stand
        for.
        """
        return self._element()._storage()

    def setStorageType(self, type: ScalarType) -> None:
        """Set the type that elements are stored as; scales and zero points stay.

        Raises Error if elements are neither quantized nor normalized nor calibrated.
        """
        self._element()._set_storage(type)

    def getNormratio(self) -> NormratioArray | None:
        """Return the normalization ratios, None unless elements are normalized. They are the type's own."""
        found: NormratioArray | None = getattr(self._element(), "_normratio", None)
        return found

    def setNormratio(self, normratio: Sequence[float] | NormratioArray) -> bool:
        """Set the normalization ratios, one or one for each element along an axis.

        Returns whether the type has any; False means that nothing was set.
        """
        from triune.icraft._xir.arrays import NormratioArray

        element: Any = self._element()
        if not hasattr(element, "_normratio"):
            return False
        element._normratio = normratio if isinstance(normratio, NormratioArray) else NormratioArray(normratio)
        return True

    def getScale(self) -> QuantizedScaleArray | None:
        """Return the scales, None unless elements are quantized: real = (q − zero point) · scale. They are the type's own."""
        found: QuantizedScaleArray | None = getattr(self._element(), "_scale", None)
        return found

    def setScale(self, scale: QuantizedScaleArray) -> bool:
        """Set the scales.

        Returns whether the type has any; False means that it is not quantized, and nothing was set.
        """
        from triune.icraft._xir.arrays import QuantizedScaleArray

        element: Any = self._element()
        needed(QuantizedScaleArray, scale, "setScale")
        if not hasattr(element, "_scale"):
            return False
        element._scale = scale
        return True

    def getZeroPoints(self) -> list[int] | None:
        """Return the zero points in a new list, which is empty where all are 0; None unless elements are quantized."""
        found: list[int] | None = getattr(self._element(), "_zero_points", None)
        return None if found is None else list(found)

    def setZeroPoints(self, zero_points: Sequence[int]) -> bool:
        """Set the zero points, integers; an empty list is 0.

        Returns whether the type has any; False means that it is not quantized, and nothing was set.
        """
        element: Any = self._element()
        if not hasattr(element, "_zero_points"):
            return False
        element._zero_points = [int(point) for point in zero_points]
        return True


class ScalarType(DataType):
    """The type of one element."""

    type_key = "icraft::xir::ScalarTypeNode"

    def _element(self) -> ScalarType:
        return self

    def _bits(self) -> int:
        raise NotImplementedError

    def _storage(self) -> ScalarType:
        return self

    def _held(self) -> ScalarType:
        """Return the plain type that elements lie in memory as."""
        return self

    def _set_storage(self, storage: ScalarType) -> None:
        raise Error(f"{self}: a type that is not quantized has no storage type to set")

    def _numpy(self) -> np.dtype[Any]:
        """Return numpy's type for one stored element; formats that numpy lacks are unsigned integers of their size."""
        import numpy as np

        return np.dtype(f"u{self._stored_bytes()}")

    def _stored_bytes(self) -> int:
        """Return the bytes that one stored element takes: the next power of two."""
        size = 1
        while size * 8 < self._bits():
            size *= 2
        return size

    def _is(self, kind: str, bits: int | None = None) -> bool:
        return False

    def isSigned(self) -> bool:
        """Return whether there are negative numbers of the type; of a quantized one, of what it is stored as."""
        return self._storage()._signed()

    def _signed(self) -> bool:
        raise NotImplementedError

    def isBool(self) -> bool:
        """Return whether it is `BoolType`."""
        return self._is("bool")

    def isSInt(self, N: int) -> bool:
        """Return whether it is a signed integer of `N` bits; False of a quantized type, as of those below: `getStorageType`
        has its integer."""
        return self._is("sint", N)

    def isUInt(self, N: int) -> bool:
        """Return whether it is an unsigned integer of `N` bits."""
        return self._is("uint", N)

    def isSInt8(self) -> bool:
        """Return whether it is a signed integer of 8 bits."""
        return self._is("sint", 8)

    def isSInt16(self) -> bool:
        """Return whether it is a signed integer of 16 bits."""
        return self._is("sint", 16)

    def isSInt32(self) -> bool:
        """Return whether it is a signed integer of 32 bits."""
        return self._is("sint", 32)

    def isSInt64(self) -> bool:
        """Return whether it is a signed integer of 64 bits."""
        return self._is("sint", 64)

    def isUInt8(self) -> bool:
        """Return whether it is an unsigned integer of 8 bits."""
        return self._is("uint", 8)

    def isUInt16(self) -> bool:
        """Return whether it is an unsigned integer of 16 bits."""
        return self._is("uint", 16)

    def isUInt32(self) -> bool:
        """Return whether it is an unsigned integer of 32 bits."""
        return self._is("uint", 32)

    def isUInt64(self) -> bool:
        """Return whether it is an unsigned integer of 64 bits."""
        return self._is("uint", 64)

    def isFP16(self) -> bool:
        """Return whether it is IEEE 754's binary16."""
        return self._is("fp", 16)

    def isFP32(self) -> bool:
        """Return whether it is IEEE 754's binary32."""
        return self._is("fp", 32)

    def isFP64(self) -> bool:
        """Return whether it is IEEE 754's binary64."""
        return self._is("fp", 64)

    def isBF16(self) -> bool:
        """Return whether it is bfloat16."""
        return self._is("bf", 16)

    def isTF32(self) -> bool:
        """Return whether it is TF32, 8 bits of exponent and 10 of mantissa, stored in 32."""
        return self._is("tf")

    def isFPE6M9(self) -> bool:
        """Return whether it is the 16-bit format with 6 bits of exponent and 9 of mantissa."""
        return self._is("fpe6m9")

    def isFPE7M8(self) -> bool:
        """Return whether it is the 16-bit format with 7 bits of exponent and 8 of mantissa."""
        return self._is("fpe7m8")


class _Plain(ScalarType, Concrete):
    """A scalar type whose JSON is a string."""

    _is_mixin = True
    _null_by_default = True

    def _kind(self) -> str:
        raise NotImplementedError

    def _is(self, kind: str, bits: int | None = None) -> bool:
        return self._kind() == kind and bits in (None, self._bits())

    def _json(self) -> str:
        return f"@{self._kind()}({self._bits()})"


class BoolType(_Plain):
    """Truth values, ``@bool``, stored in a byte each."""

    type_key = "icraft::xir::BoolTypeNode"
    _null_by_default = False

    def __init__(self, arg0: ObjectRef | None = None, /) -> None:
        """Make one; there is nothing to say about it."""
        if arg0 is not None:
            super().__init__(arg0)

    def _kind(self) -> str:
        return "bool"

    def _bits(self) -> int:
        return 8

    def _signed(self) -> bool:
        return False

    def _numpy(self) -> np.dtype[Any]:
        import numpy as np

        return np.dtype(np.bool_)

    def _json(self) -> str:
        return "@bool"


class IntegerType(_Plain):
    """Integers of any number of bits, ``@sint(8)`` or ``@uint(12)``."""

    type_key = "icraft::xir::IntegerTypeNode"
    _fields = ("_sign", "_width")
    _defaults: ClassVar[Mapping[str, Any]] = {"_sign": True, "_width": 8}
    _sign: bool
    _width: int

    def __init__(self, sign: bool | ObjectRef, bits: int | None = None) -> None:
        """Take whether there are negative numbers, and the bits. Raises Error unless there are 1 to 64."""
        if isinstance(sign, ObjectRef) or bits is None:
            raise TypeError("IntegerType() takes a sign and a number of bits")
        if not 1 <= bits <= 64:
            raise Error(f"IntegerType: {bits} bits; 1 to 64 can be")
        self._sign, self._width = bool(sign), bits

    @staticmethod
    def SInt(N: int) -> IntegerType:
        """Return the signed type of `N` bits, ``@sint(N)``, stored in the next power of two of bytes. Raises Error unless
        there are 1 to 64."""
        return IntegerType(True, N)

    @staticmethod
    def UInt(N: int) -> IntegerType:
        """Return the unsigned type of `N` bits, ``@uint(N)``, stored in the next power of two of bytes. Raises Error unless
        there are 1 to 64."""
        return IntegerType(False, N)

    @staticmethod
    def SInt8() -> IntegerType:
        """Return the signed type of 8 bits."""
        return IntegerType(True, 8)

    @staticmethod
    def SInt16() -> IntegerType:
        """Return the signed type of 16 bits."""
        return IntegerType(True, 16)

    @staticmethod
    def SInt32() -> IntegerType:
        """Return the signed type of 32 bits."""
        return IntegerType(True, 32)

    @staticmethod
    def SInt64() -> IntegerType:
        """Return the signed type of 64 bits."""
        return IntegerType(True, 64)

    @staticmethod
    def UInt8() -> IntegerType:
        """Return the unsigned type of 8 bits."""
        return IntegerType(False, 8)

    @staticmethod
    def UInt16() -> IntegerType:
        """Return the unsigned type of 16 bits."""
        return IntegerType(False, 16)

    @staticmethod
    def UInt32() -> IntegerType:
        """Return the unsigned type of 32 bits."""
        return IntegerType(False, 32)

    @staticmethod
    def UInt64() -> IntegerType:
        """Return the unsigned type of 64 bits."""
        return IntegerType(False, 64)

    def _kind(self) -> str:
        return "sint" if self._sign else "uint"

    def _bits(self) -> int:
        return self._width

    def _signed(self) -> bool:
        return self._sign

    def _numpy(self) -> np.dtype[Any]:
        import numpy as np

        return np.dtype(f"{'i' if self._sign else 'u'}{self._stored_bytes()}")


@bind_members
class Semantics(Unpicklable):
    """What a floating point format can hold: exponents from `emin` to `emax`, `precision` bits of mantissa, `bits` in all."""

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __init__(self, emax: int, emin: int, precision: int, bits: int) -> None:
        """Take the four numbers."""
        self._numbers = (emax, emin, precision, bits)

    @property
    def emax(self) -> int:
        """The largest exponent, as a power of two: 127 of FP32."""
        return self._numbers[0]

    @property
    def emin(self) -> int:
        """The smallest exponent of a normal number, as a power of two: -126 of FP32."""
        return self._numbers[1]

    @property
    def precision(self) -> int:
        """The bits of the mantissa, the hidden one included: 24 of FP32."""
        return self._numbers[2]

    @property
    def bits(self) -> int:
        """All bits, sign included: 32 of FP32, 19 of TF32."""
        return self._numbers[3]

    def __eq__(self, other: object) -> bool:
        """Compare all four numbers."""
        return self._numbers == other._numbers if isinstance(other, Semantics) else NotImplemented

    def __repr__(self) -> str:
        """Return the four numbers."""
        return "Semantics(emax={}, emin={}, precision={}, bits={})".format(*self._numbers)


# Kind and bits of the text, to the numbers that the vendor's headers give.
_FORMATS: dict[tuple[str, int], tuple[int, int, int, int]] = {
    ("fp", 16): (15, -14, 11, 16),
    ("fp", 32): (127, -126, 24, 32),
    ("fp", 64): (1023, -1022, 53, 64),
    ("bf", 16): (127, -126, 8, 16),
    ("tf", 32): (127, -126, 11, 19),
    ("fpe7m8", 16): (63, -64, 9, 16),
    ("fpe6m9", 16): (31, -32, 10, 16),
}
_NAMES = {numbers: name for name, numbers in _FORMATS.items()}


class FloatType(_Plain):
    """A floating point format, such as ``@fp(32)``."""

    type_key = "icraft::xir::FloatTypeNode"
    _fields = ("_numbers",)
    _other_names: ClassVar[Mapping[str, str]] = {"sem": "emax"}
    _defaults: ClassVar[Mapping[str, Any]] = {"_numbers": _FORMATS["fp", 32]}
    _numbers: tuple[int, int, int, int]

    def __init__(
        self,
        emax: int | Semantics | ObjectRef,
        emin: int | None = None,
        precision: int | None = None,
        bits: int | None = None,
    ) -> None:
        """Take the largest and the smallest exponent, the bits of the mantissa and all bits, or a `Semantics` of them.

        Raises Error if they are no format that has a text.
        """
        if isinstance(emax, Semantics):
            numbers = emax._numbers
        elif isinstance(emax, int) and emin is not None and precision is not None and bits is not None:
            numbers = (emax, emin, precision, bits)
        else:
            raise TypeError("FloatType() takes emax, emin, precision and bits, or a Semantics")
        if numbers not in _FORMATS.values():
            raise Error(
                "FloatType: emax {}, emin {}, precision {}, bits {}: no format of networks is like that".format(
                    *numbers
                )
            )
        self._numbers = numbers

    def semantics(self) -> Semantics:
        """Return what the format can hold: exponents and bits, as the vendor's headers give them."""
        return Semantics(*self._numbers)

    @staticmethod
    def _of(kind: str, bits: int) -> FloatType:
        made = FloatType._new()
        made._numbers = _FORMATS[kind, bits]
        return made

    @staticmethod
    def FP16() -> FloatType:
        """Return IEEE 754's binary16, ``@fp(16)``; numpy's float16."""
        return FloatType._of("fp", 16)

    @staticmethod
    def FP32() -> FloatType:
        """Return IEEE 754's binary32, ``@fp(32)``; numpy's float32."""
        return FloatType._of("fp", 32)

    @staticmethod
    def FP64() -> FloatType:
        """Return IEEE 754's binary64, ``@fp(64)``; numpy's float64."""
        return FloatType._of("fp", 64)

    @staticmethod
    def BF16() -> FloatType:
        """Return bfloat16, ``@bf(16)``: 8 bits of exponent and 7 of mantissa. Arrays of it are uint16."""
        return FloatType._of("bf", 16)

    @staticmethod
    def TF32() -> FloatType:
        """Return TF32, ``@tf(32)``: 19 bits, stored in 32. Arrays of it are float32."""
        return FloatType._of("tf", 32)

    @staticmethod
    def FPE6M9() -> FloatType:
        """Return the 16-bit format with 6 bits of exponent and 9 of mantissa, ``@fpe6m9(16)``. Arrays of it are uint16."""
        return FloatType._of("fpe6m9", 16)

    @staticmethod
    def FPE7M8() -> FloatType:
        """Return the 16-bit format with 7 bits of exponent and 8 of mantissa, ``@fpe7m8(16)``. Arrays of it are uint16."""
        return FloatType._of("fpe7m8", 16)

    def _named(self) -> tuple[str, int]:
        return _NAMES[self._numbers]

    def _kind(self) -> str:
        return self._named()[0]

    def _bits(self) -> int:
        return self._numbers[3]

    def _signed(self) -> bool:
        return True

    def _numpy(self) -> np.dtype[Any]:
        import numpy as np

        kind, bits = self._named()
        # TF32 is a binary32 of which fewer bits count.
        return np.dtype(f"f{bits // 8}") if kind in ("fp", "tf") else np.dtype(np.uint16)

    def _json(self) -> str:
        return "@{}({})".format(*self._named())


def scalar_type(text: str) -> ScalarType:
    """Return the scalar type of a text such as ``@fp(32)``. Raises Error if it is none."""
    from triune._native import xir_parse_scalar

    with native_errors(""):
        kind, bits = xir_parse_scalar(text)
    if kind in ("sint", "uint"):
        return IntegerType(kind == "sint", bits)
    if kind == "bool":
        return BoolType()
    if (kind, bits) not in _FORMATS:
        raise Error(f"{text!r}: no floating point format of that name and size is known")
    return FloatType._of(kind, bits)
