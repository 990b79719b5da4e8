"""Elements that a function makes, as they are stored. It must not know what they are parameters or tensors of."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from triune.icraft._xir.conversions import digits, real
from triune.icraft._xir.errors import Error
from triune.icraft._xir.scalars import FloatType, ScalarType

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from triune.icraft._xir.types import TensorType

__all__ = ["filled"]


def filled(of: TensorType, function: Callable[[int], float]) -> npt.NDArray[Any]:
    """Return a tensor's elements in the order of memory, of numpy's type for them: each what the function makes of its number.

    Floats are rounded to the nearest, halves to even. Raises Error if a number does not fit the element type or is no number,
    the elements are of a format that is not made here, an extent is not known, or there is no memory for them.
    """
    import numpy as np

    element, count = of.element_dtype._held(), of.numElements()
    if not isinstance(element, FloatType):
        return _integers(element, count, function)
    if element._numpy().kind == "u" and not element.isBF16():
        raise Error(f"numbers of {_named(element)} are not made here; give copyData() their bits")
    numbers = _empty(count, np.dtype(np.float64))
    for index in range(count):
        number = _number(index, function(index))
        try:
            numbers[index] = float(number)
        except OverflowError:
            raise _unfit(element, index, number) from None
    with np.errstate(over="ignore"):
        found = numbers.astype(np.float32 if element.isBF16() else element._numpy())
    if element.isBF16():
        found = _bfloat16(found)
        infinite = (found & 0x7FFF) == 0x7F80
    else:
        infinite = np.isinf(found)
    lost = np.flatnonzero(infinite & ~np.isinf(numbers))
    if lost.size:
        raise _unfit(element, int(lost[0]), float(numbers[lost[0]]))
    return found


def _integers(element: ScalarType, count: int, function: Callable[[int], float]) -> npt.NDArray[Any]:
    bits = 1 if element.isBool() else element._bits()
    low, high = (-(1 << bits - 1), 1 << bits - 1) if element.isSigned() else (0, 1 << bits)
    found = _empty(count, element._numpy())
    for index in range(count):
        number = _number(index, function(index))
        if number % 1:
            raise Error(f"element {index}: {_named(element)} holds whole numbers, not {number}")
        if not low <= number < high:
            raise _unfit(element, index, number)
        found[index] = int(number)
    return found


def _empty(count: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    import numpy as np

    try:
        return np.empty(count, dtype)
    except (MemoryError, ValueError) as error:
        raise Error(f"it cannot be filled: {error}") from None


def _number(index: int, value: Any) -> float:
    try:
        return operator.index(value)
    except TypeError:
        try:
            return real(value)
        except TypeError as error:
            raise Error(f"element {index}: {error}") from None


def _unfit(element: ScalarType, index: int, number: float) -> Error:
    return Error(f"element {index}: {digits(number)} does not fit {_named(element)}")


def _named(element: ScalarType) -> str:
    return str(element).strip('"@')


def _bfloat16(data: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return 32-bit floats as the upper halves of the nearest ones that have no other bits, halves to even."""
    import numpy as np

    bits = data.view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> np.uint64(16)) & np.uint64(1))) >> np.uint64(16)
    # What is no number must not become infinite.
    return np.where(np.isnan(data), (bits >> np.uint64(16)) | np.uint64(0x40), rounded).astype(np.uint16)
