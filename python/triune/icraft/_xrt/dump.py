"""What `Tensor.dump` writes: the elements as they lie in memory, or as software sees them, as stored or as reals."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from triune.icraft._xir.arrays import ExpQuantizedScaleArray, NormratioArray
from triune.icraft._xrt.errors import RANGE, TYPE, failure

if TYPE_CHECKING:
    from triune.icraft._xir.types import TensorType

__all__ = ["check_format", "dumped", "reals", "software"]

Elements = npt.NDArray[Any]


def check_format(name: str) -> None:
    """Raise InternalError unless `name` is empty or names a format: ``[HS][FQ][BT]``."""
    if name and not re.fullmatch("[HS][FQ][BT]", name):
        raise failure(RANGE, f"dump: {name!r} is no format; [H|S][F|Q][B|T] is, such as SFB, and nothing")


def dumped(elements: Elements, dtype: TensorType, name: str) -> bytes:
    """Return the bytes of a dump.

    Raises InternalError if `name` is no format, or asks for stored integers where there are none.
    """
    check_format(name)
    if not name:
        return elements.tobytes()
    arrangement, numbers, form = tuple(name)
    if numbers == "F":
        elements = reals(elements, dtype)
    elif not np.issubdtype(elements.dtype, np.integer) or _is_float_format(dtype):
        raise failure(TYPE, f"dump {name}: elements of {dtype.element_dtype} are not quantized; F writes them as reals")
    if arrangement == "S":
        elements = software(elements, dtype)
    if form == "B":
        return elements.tobytes()
    pattern = "%d" if np.issubdtype(elements.dtype, np.integer) else "%.9g" if elements.itemsize < 8 else "%.17g"
    return "".join(f"{pattern}\n" % value for value in elements.reshape(-1).tolist()).encode()


def _is_float_format(dtype: TensorType) -> bool:
    stored = dtype.getStorageType()
    return stored.isBF16() or stored.isFPE6M9() or stored.isFPE7M8()


# ---- numbers


def reals(elements: Elements, dtype: TensorType) -> Elements:
    """Return what stored elements stand for, as float32, or float64 where they are.

    A quantized element q of scale s, zero point z and, if there is one, normalization ratio r is (q - z) * s * r, with s * r
    rounded to float32 first.
    """
    stored = dtype.getStorageType()
    if stored.isBF16():
        wide: Elements = (elements.astype(np.uint32) << 16).view(np.float32)
        return wide
    if stored.isFPE6M9():
        return _small_float(elements, exponent=6, mantissa=9)
    if stored.isFPE7M8():
        return _small_float(elements, exponent=7, mantissa=8)
    if elements.dtype == np.float64:
        return elements
    scale, zero_points, ratio = dtype.getScale(), dtype.getZeroPoints(), dtype.getNormratio()
    if scale is None and ratio is None:
        return elements.astype(np.float32)
    factor = np.ones((), np.float64)
    for found in (scale, ratio):
        if found is not None:
            factor = factor * _along(_numbers(found), found.axis, dtype)
    shifted = elements
    if zero_points:
        shifted = elements.astype(np.int64) - _along(np.array(zero_points, np.int64), _scale_axis(scale), dtype)
    product: Elements = shifted.astype(np.float32) * factor.astype(np.float32)
    return product


def _numbers(array: Any) -> Elements:
    if isinstance(array, ExpQuantizedScaleArray):
        scaled: Elements = np.ldexp(np.array(array.m, np.float64), -np.array(array.exp, np.int64))
        return scaled
    return np.array(array.data if isinstance(array, NormratioArray) else array.origin_scale, np.float64)


def _small_float(elements: Elements, exponent: int, mantissa: int) -> Elements:
    """Return the reals of 16-bit formats with a sign bit, an exponent with the usual bias, and subnormals."""
    bits = elements.astype(np.int64)
    bias = (1 << (exponent - 1)) - 1
    power = (bits >> mantissa) & ((1 << exponent) - 1)
    fraction = bits & ((1 << mantissa) - 1)
    significand = np.where(power == 0, fraction, fraction | (1 << mantissa))
    sign = np.where(bits >> 15 & 1, -1.0, 1.0)
    value: Elements = sign * np.ldexp(significand.astype(np.float64), np.maximum(power, 1) - bias - mantissa)
    return value.astype(np.float32)


def _scale_axis(scale: Any) -> int:
    return -1 if scale is None else int(scale.axis)


def _along(values: Elements, axis: int, dtype: TensorType) -> Elements:
    """Return per-channel values in a shape that spreads over the tensor: one for all, or along `axis`.

    Where the axis is the inner part of a split one, values run over both parts.
    """
    if values.size == 0:
        return np.ones((), values.dtype)
    if (values == values.flat[0]).all():
        return values.reshape(-1)[:1].reshape(())
    shape, rank = dtype.shape, len(dtype.shape)
    place = axis % rank if -rank <= axis < rank else rank
    spread = [1] * rank
    if place < rank and values.size == shape[place]:
        spread[place] = values.size
        return values.reshape(spread)
    outer = _outer(dtype, place)
    if outer is not None and values.size == shape[outer] * shape[place]:
        spread[outer], spread[place] = shape[outer], shape[place]
        return values.reshape(spread)
    raise failure(RANGE, f"{values.size} scales along axis {axis} of shape {tuple(shape)}")


def _outer(dtype: TensorType, place: int) -> int | None:
    """Return the axis that is the outer part of the one at `place`, if that is an inner one."""
    names = [axis.name for axis in dtype.layout.axis_names]
    if place < len(names) and names[place].islower() and names[place].upper() in names:
        return names.index(names[place].upper())
    return None


# ---- arrangement


def software(elements: Elements, dtype: TensorType) -> Elements:
    """Return elements as software has them: split axes together, no invalid channels, channels of blocked feature maps last.

    What is neither split nor padded stays as it is.
    """
    names = [axis.name for axis in dtype.layout.axis_names]
    shape = list(elements.shape)
    if len(names) != len(shape):
        return elements
    valid = {tuple(distr.merged_axis): distr for distr in dtype.merged_distrs}
    was_split = any(name.islower() for name in names)
    # Innermost first, so that the places of those still to come do not move.
    for inner in reversed(range(len(names))):
        if not names[inner].islower():
            continue
        outer = _outer(dtype, inner)
        if outer is None or outer > inner:
            raise failure(RANGE, f"layout {dtype.layout.toString()}: axis {names[inner]!r} has no outer part before it")
        elements = np.moveaxis(elements, inner, outer + 1)
        merged = (*elements.shape[:outer], -1, *elements.shape[outer + 2 :])
        elements = elements.reshape(merged)
        distr = valid.pop((outer, inner), None)
        if distr is not None:
            elements = _without_invalid(elements, outer, distr)
    names = [name for name in names if not name.islower()]
    if not was_split:
        for axes, distr in valid.items():
            if len(axes) == 1:
                elements = _without_invalid(elements, axes[0], distr)
    if was_split and "C" in names and "O" not in names:
        elements = np.moveaxis(elements, names.index("C"), -1)
    return np.ascontiguousarray(elements)


def _without_invalid(elements: Elements, axis: int, distr: Any) -> Elements:
    if distr.totalNum() != elements.shape[axis]:
        raise failure(RANGE, f"a distribution of {distr.totalNum()} channels for an axis of {elements.shape[axis]}")
    kept = np.concatenate([np.arange(start, end) for start, end in distr.validSections()] or [np.arange(0)])
    return elements.take(kept, axis)
