"""Data types: quantized elements, and tensors.

What a stored number means: of `QuantizedType` real = (q - zero point) · scale; of `NormalizedType` real = q · ratio; of
`NormalizedQuantizedType` real = (q - zero point) · scale · ratio. `CalibratedType` are real numbers whose range was recorded.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from triune.icraft._xir.arrays import NormratioArray, QuantizedScaleArray
from triune.icraft._xir.distribution import MergedAxisDistr
from triune.icraft._xir.errors import Error
from triune.icraft._xir.layout import AxisUnit, Layout
from triune.icraft._xir.objects import Concrete, ObjectRef, needed, whole_number
from triune.icraft._xir.scalars import DataType, FloatType, IntegerType, ScalarType

__all__ = [
    "BaseQuantizedType",
    "CalibratedType",
    "NormalizedQuantizedType",
    "NormalizedType",
    "QuantizedType",
    "TensorType",
]


class BaseQuantizedType(ScalarType, Concrete):
    """An element that is stored as one type and stands for another."""

    type_key = "icraft::xir::BaseQuantizedTypeNode"
    _fields: ClassVar[tuple[str, ...]] = ("_storage_dtype", "_expressed_dtype")
    _defaults: ClassVar[Mapping[str, Any]] = {
        "_storage_dtype": IntegerType.SInt8,
        "_expressed_dtype": FloatType.FP32,
    }
    _storage_dtype: ScalarType
    _expressed_dtype: ScalarType

    @property
    def storage_dtype(self) -> ScalarType:
        """What elements are stored as, ``@sint(8)`` at first; of a `CalibratedType` what they will be stored as once they are
        quantized."""
        return self._storage_dtype

    @property
    def expressed_dtype(self) -> ScalarType:
        """What elements stand for, ``@fp(32)`` unless another is given."""
        return self._expressed_dtype

    def _types(self, storage: ScalarType, expressed: ScalarType | None) -> None:
        if not isinstance(storage, ScalarType):
            raise TypeError(f"{type(self).__name__}: the storage type is a {type(storage).__name__}")
        self._storage_dtype = storage
        self._expressed_dtype = FloatType.FP32() if expressed is None else expressed

    def _held(self) -> ScalarType:
        return self._storage_dtype._held()

    def _bits(self) -> int:
        return self._held()._bits()

    def _storage(self) -> ScalarType:
        return self._storage_dtype

    def _set_storage(self, storage: ScalarType) -> None:
        self._storage_dtype = storage

    def _numpy(self) -> Any:
        return self._held()._numpy()

    def _stored_bytes(self) -> int:
        return self._held()._stored_bytes()


class CalibratedType(BaseQuantizedType):
    """Real numbers with the range that calibration saw, per tensor or per channel."""

    type_key = "icraft::xir::CalibratedTypeNode"
    _fields: ClassVar[tuple[str, ...]] = ("_storage_dtype", "_expressed_dtype", "_min", "_max", "_sat")
    _defaults: ClassVar[Mapping[str, Any]] = {**BaseQuantizedType._defaults, "_min": list, "_max": list, "_sat": list}
    _min: list[float]
    _max: list[float]
    _sat: list[float]

    def __init__(
        self,
        min: float | Sequence[float] | ObjectRef,
        max: float | Sequence[float] | None = None,
        sat: float | Sequence[float] | None = None,
        storage_dtype: ScalarType | None = None,
        expressed_dtype: ScalarType | None = None,
    ) -> None:
        """Take the lowest and highest values, the ones to saturate at, and what they will be stored as.

        Raises Error if there is not the same number of each.
        """
        if isinstance(min, ObjectRef) or max is None or sat is None or storage_dtype is None:
            raise TypeError("CalibratedType() takes min, max, sat and a storage type")
        self._min, self._max, self._sat = map(_numbers, (min, max, sat))
        if not len(self._min) == len(self._max) == len(self._sat):
            raise Error(f"CalibratedType: {len(self._min)} min, {len(self._max)} max, {len(self._sat)} sat")
        self._types(storage_dtype, expressed_dtype)

    @property
    def min(self) -> list[float]:
        """The lowest values that were seen, one or one for each channel, as real numbers."""
        return list(self._min)

    @property
    def max(self) -> list[float]:
        """The highest values that were seen, one or one for each channel, as real numbers."""
        return list(self._max)

    @property
    def sat(self) -> list[float]:
        """The values to saturate at, one or one for each channel, as real numbers."""
        return list(self._sat)

    def _held(self) -> ScalarType:
        # Calibrated data are still what they stand for.
        return self._expressed_dtype._held()


def _numbers(value: float | Sequence[float]) -> list[float]:
    return [float(one) for one in (value if isinstance(value, Sequence) else (value,))]


class NormalizedType(BaseQuantizedType):
    """Elements that were divided by a ratio."""

    type_key = "icraft::xir::NormalizedTypeNode"
    _fields: ClassVar[tuple[str, ...]] = ("_storage_dtype", "_expressed_dtype", "_normratio")
    _defaults: ClassVar[Mapping[str, Any]] = {**BaseQuantizedType._defaults, "_normratio": NormratioArray}
    _normratio: NormratioArray
    # Some files have the key; there is no member for it.
    _zero_points_of_file: list[int] | None = None

    def __init__(
        self,
        normratio: Sequence[float] | NormratioArray | ObjectRef,
        storage_dtype: ScalarType | None = None,
        expressed_dtype: ScalarType | None = None,
    ) -> None:
        """Take the ratios and what elements are stored as."""
        if storage_dtype is None:
            raise TypeError("NormalizedType() takes ratios and a storage type")
        self._normratio = _ratios(normratio)
        self._types(storage_dtype, expressed_dtype)

    @property
    def normratio(self) -> NormratioArray:
        """The ratios: real = q · ratio."""
        return self._normratio

    def _json(self) -> Any:
        document = super()._json()
        if self._zero_points_of_file is not None:
            document["zero_points"] = self._zero_points_of_file
        return document


def _ratios(value: Sequence[float] | NormratioArray | ObjectRef) -> NormratioArray:
    if isinstance(value, NormratioArray):
        return value
    if isinstance(value, ObjectRef):
        raise TypeError(f"normalization ratios are a list of numbers, not {type(value).__name__}")
    return NormratioArray(value)


class QuantizedType(BaseQuantizedType):
    """Elements that are integers times a scale."""

    type_key = "icraft::xir::QuantizedTypeNode"
    _fields: ClassVar[tuple[str, ...]] = ("_storage_dtype", "_expressed_dtype", "_scale", "_zero_points")
    _defaults: ClassVar[Mapping[str, Any]] = {
        **BaseQuantizedType._defaults,
        "_scale": QuantizedScaleArray,
        "_zero_points": list,
    }
    _scale: QuantizedScaleArray
    _zero_points: list[int]

    def __init__(
        self,
        scale: QuantizedScaleArray | ObjectRef,
        zero_points: Sequence[int] | ScalarType | None = None,
        storage_dtype: ScalarType | None = None,
        expressed_dtype: ScalarType | None = None,
    ) -> None:
        """Take the scales, the zero points (leave them out for none) and what elements are stored as."""
        points: Sequence[int] = ()
        if isinstance(zero_points, ScalarType):
            # The form without zero points: everything is one place earlier.
            expressed_dtype = expressed_dtype if storage_dtype is None else storage_dtype
            storage_dtype = zero_points
        elif zero_points is not None:
            points = zero_points
        if not isinstance(scale, QuantizedScaleArray) or storage_dtype is None:
            raise TypeError("QuantizedType() takes scales, zero points if there are any, and a storage type")
        self._scale = scale
        self._zero_points = [int(point) for point in points]
        self._types(storage_dtype, expressed_dtype)

    @property
    def scale(self) -> QuantizedScaleArray:
        """The scales: real = (q − zero point) · scale. One for all elements, or one for each along their axis."""
        return self._scale

    @property
    def zero_points(self) -> list[int]:
        """The zero points, integers along the scales' axis: real = (q − zero point) · scale. An empty list stands for 0."""
        return list(self._zero_points)


class NormalizedQuantizedType(QuantizedType):
    """Elements that were divided by a ratio, then quantized."""

    type_key = "icraft::xir::NormalizedQuantizedTypeNode"
    _fields: ClassVar[tuple[str, ...]] = ("_storage_dtype", "_expressed_dtype", "_scale", "_zero_points", "_normratio")
    _defaults: ClassVar[Mapping[str, Any]] = {**QuantizedType._defaults, "_normratio": NormratioArray}
    # As the vendor spells it.
    _other_names: ClassVar[Mapping[str, str]] = {"nomalized": "normratio"}
    _normratio: NormratioArray

    def __init__(
        self,
        normratio: Sequence[float] | NormratioArray | NormalizedType | ObjectRef,
        scale: QuantizedScaleArray | None = None,
        storage_dtype: ScalarType | None = None,
        expressed_dtype: ScalarType | None = None,
    ) -> None:
        """Take the ratios, the scales and what elements are stored as; or a `NormalizedType` and the scales."""
        if isinstance(normratio, NormalizedType):
            storage_dtype = storage_dtype or normratio.storage_dtype
            expressed_dtype = expressed_dtype or normratio.expressed_dtype
            normratio = normratio.normratio
        if scale is None or storage_dtype is None:
            raise TypeError("NormalizedQuantizedType() takes ratios, scales and a storage type")
        super().__init__(scale, [], storage_dtype, expressed_dtype)
        self._normratio = _ratios(normratio)

    @property
    def normratio(self) -> NormratioArray:
        """The ratios: real = (q − zero point) · scale · ratio."""
        return self._normratio


class TensorType(DataType, Concrete):
    """What a tensor is: the type of its elements, its stored extents and what they mean.

    Examples:
        >>> from triune.icraft import xir
        >>> image = xir.TensorType(xir.IntegerType.SInt8(), [1, 224, 224, 3], xir.Layout("NHWC"))
        >>> image.shape, image.numElements(), image.bytes()
        ([1, 224, 224, 3], 150528, 150528)
    """

    type_key = "icraft::xir::TensorTypeNode"
    _fields: ClassVar[tuple[str, ...]] = ("_element_dtype", "_shape", "_layout", "_merged_distrs")
    _defaults: ClassVar[Mapping[str, Any]] = {
        "_element_dtype": FloatType.FP32,
        "_shape": list,
        "_layout": Layout.Default,
        "_merged_distrs": list,
    }
    _element_dtype: ScalarType
    _shape: list[int]
    _layout: Layout
    _merged_distrs: list[MergedAxisDistr]

    def __init__(
        self,
        element_type: ScalarType | ObjectRef,
        shape: Sequence[int] | None = None,
        layout: Layout | str | None = None,
        merged_distrs: Sequence[MergedAxisDistr] = (),
    ) -> None:
        """Take the type of an element, the stored extents (negative: not known), their layout, and where padding is."""
        if not isinstance(element_type, ScalarType) or shape is None or layout is None:
            raise TypeError("TensorType() takes an element type, a shape and a layout")
        self._element_dtype = element_type
        self._shape = _extents(shape)
        self._layout = Layout(layout) if isinstance(layout, str) else needed(Layout, layout, "TensorType")
        self._merged_distrs = list(merged_distrs)

    @classmethod
    def _of(cls, element: ScalarType, shape: Sequence[int], layout: Layout) -> Self:
        """Return the type of parts that are already what they have to be."""
        made = cls._new()
        made._element_dtype, made._shape, made._layout, made._merged_distrs = element, _extents(shape), layout, []
        return made

    def _element(self) -> ScalarType:
        return self._element_dtype

    # ---- its parts

    @property
    def element_dtype(self) -> ScalarType:
        """The type of an element, with the scales of a quantized one."""
        return self._element_dtype

    def setElementDtype(self, dtype: ScalarType) -> Self:
        """Set the type of an element. Shape and layout stay. Returns the type itself, as all setters do."""
        self._element_dtype = needed(ScalarType, dtype, "setElementDtype")
        return self

    @property
    def shape(self) -> list[int]:
        """The stored extents, from the outermost in; padding of blocks is included, and a negative one is not known. A new
        list."""
        return list(self._shape)

    def setShape(self, arg0: Sequence[int]) -> Self:
        """Set the stored extents; negative: not known. The layout stays: `validate` says whether they fit.

        Raises TypeError if one does not fit 64 bits.
        """
        self._shape = _extents(arg0)
        return self

    @property
    def layout(self) -> Layout:
        """The meaning of the extents, the type's own: what is changed in it is changed in the type."""
        return self._layout

    def setLayout(self, layout: Layout | str) -> Self:
        """Set the meaning of the extents, which stay: `validate` says whether they fit."""
        self._layout = Layout(layout) if isinstance(layout, str) else needed(Layout, layout, "setLayout")
        return self

    @property
    def merged_distrs(self) -> list[MergedAxisDistr]:
        """Where padding is: for each group of axes that something is said of, which elements are valid. Without one, all are.
        A new list."""
        return list(self._merged_distrs)

    def setMergedDistrs(self, arg0: Sequence[MergedAxisDistr]) -> Self:
        """Set where padding is. `validate` says whether it fits the shape."""
        self._merged_distrs = list(arg0)
        return self

    # ---- extents

    def numElements(self) -> int:
        """Return the product of the stored extents, padding included; 1 without extents. Raises Error if one is not known."""
        if self.hasNegativeDim():
            raise Error(f"shape {self._shape}: an extent is not known yet, so there is no number of elements")
        return math.prod(self._shape)

    def dimSize(self, combine: bool = False) -> int:
        """Return the number of stored extents; with `combine` the parts of a split axis count as one: 4 of ``NHWCc32``.

        Raises Error with `combine` if layout and shape have not as many axes.
        """
        if not combine:
            return len(self._shape)
        self._check_layout()
        return sum(not isinstance(axis, AxisUnit) for axis in self._layout.axis_names)

    def hasNegativeDim(self) -> bool:
        """Return whether an extent is not known, which is to say negative."""
        return any(extent < 0 for extent in self._shape)

    def isLayouted(self) -> bool:
        """Return whether axes are split (``NHWCc32``), as they are after adaptation to a device."""
        return any(isinstance(axis, AxisUnit) for axis in self._layout.axis_names)

    def _check_layout(self) -> None:
        named, there = self._layout.numAxis(), len(self._shape)
        if named != there:
            axes = "axis" if named == 1 else "axes"
            raise Error(f"layout {self._layout.toString()} has {named} {axes}, but shape {self._shape} has {there}")

    def getDim(self, index: int, combine: bool = False) -> int:
        """Return a stored extent; negative numbers count from the end. With `combine` that of a split axis' both parts
        together.

        Raises Error if there is none of that number, or with `combine` if layout and shape have not as many axes.
        """
        if not -len(self._shape) <= index < len(self._shape):
            raise Error(f"shape {self._shape} has no extent {index}")
        extent = self._shape[index]
        if combine:
            self._check_layout()
            name = self._layout.getAxisCharName(index)
            other = name.lower() if name.isupper() else name.upper()
            place = None if name == "*" else self._layout._found(other)
            if place is not None:
                extent *= self._shape[place]
        return extent

    def getDimByAxis(self, c: str, combine: bool = False) -> int:
        """Return the extent of an axis. With `combine` a split axis is put together.

        Raises Error if there is no such axis, if it is ``*``, or if layout and shape do not fit.
        """
        return self.getDim(self._axis(c), combine)

    def setDimByAxis(self, c: str, dim: int) -> Self:
        """Set the stored extent of an axis, in place; that of a split axis' other part stays. Raises Error as `getDimByAxis`
        does."""
        self._shape[self._axis(c)] = int(dim)
        return self

    def _axis(self, c: str) -> int:
        if c == "*":
            raise Error("axis '*' names no single axis")
        self._check_layout()
        return self._layout.getIndexOf(c)

    def getChannel(self) -> int:
        """Return the number of stored channels, padding included: 64 of ``NHWCc32`` with extents 2 and 32.

        Raises Error if there is no axis ``C``, or layout and shape have not as many axes.
        """
        return self.getDimByAxis("C", True)

    # ---- padding

    def getMergedDistr(self, arg0: Sequence[int]) -> MergedAxisDistr | None:
        """Return where padding is along these axes, numbers of stored extents in this order; None if nothing is said of them.

        It is the type's own: what is marked in it is marked in the type.
        """
        return next((found for found in self._merged_distrs if found.merged_axis == list(arg0)), None)

    def createAddMergedDistr(self, arg0: Sequence[int]) -> MergedAxisDistr:
        """Add, and return, a note that all elements along these axes are valid; to be changed in place.

        Raises Error if there is one already, or there are no such axes.
        """
        if self.getMergedDistr(arg0) is not None:
            raise Error(f"there is a distribution over the axes {list(arg0)} already")
        distribution = MergedAxisDistr(arg0, math.prod(self.getDim(axis) for axis in arg0))
        self._merged_distrs.append(distribution)
        return distribution

    def mutateMergedDistr(self, arg0: Sequence[int], arg1: int, arg2: int, arg3: bool) -> Self:
        """Mark the elements from `arg1` up to, not including, `arg2` along the axes `arg0` as valid or as padding.

        Raises Error if nothing is said of these axes.
        """
        distribution = self.getMergedDistr(arg0)
        if distribution is None:
            raise Error(f"there is no distribution over the axes {list(arg0)}")
        distribution._mark(arg1, arg2, arg3)
        return self

    # ---- rules

    def validate(self) -> None:
        """Raise Error unless layout and shape fit: an axis each, inner parts beside outer ones, and of the stated length.

        What is said of padding has to be of axes that there are, and of as many elements as they have together.
        """
        self._check_layout()
        names = self._layout.toString()
        for index, axis in enumerate(self._layout.axis_names):
            if isinstance(axis, AxisUnit):
                if not self._layout.has(axis.name.upper()):
                    raise Error(
                        f"layout {names}: axis {axis.name!r} is part of {axis.name.upper()!r}, which is not there"
                    )
                if axis.unit != self._shape[index]:
                    raise Error(
                        f"layout {names}: axis {axis.name!r} is {axis.unit} long, its extent in {self._shape} not"
                    )
        for distribution in self._merged_distrs:
            if any(not 0 <= axis < len(self._shape) for axis in distribution.merged_axis):
                raise Error(f"{distribution}: shape {self._shape} has no such axes")
            extent = math.prod(self._shape[axis] for axis in distribution.merged_axis)
            if extent >= 0 and distribution.totalNum() != extent:
                raise Error(f"{distribution}: the axes of shape {self._shape} have {extent} elements")


def _extents(shape: Sequence[int]) -> list[int]:
    try:
        return [whole_number(extent) for extent in shape]
    except ValueError as error:
        raise Error(f"shape {list(shape)}: {error}") from None
