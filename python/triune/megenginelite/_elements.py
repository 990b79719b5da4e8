"""Elements of tensors: what a list's numbers become, and how arrays lie in memory."""

from __future__ import annotations

import ctypes
import math
from typing import TYPE_CHECKING, Any

from triune.megenginelite._errors import mistyped
from triune.megenginelite._layout import CTYPES, NAMES
from triune.megenginelite.base import LOG
from triune.megenginelite.struct import LiteDataType

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
else:
    from triune.megenginelite._numpy import np

__all__ = ["from_list", "overlaps_itself"]


def from_list(data: list[Any], kind: LiteDataType) -> npt.NDArray[Any]:
    """Return a list's numbers as elements of a type; the log says which of them that changes.

    Raises TypeError if one is no number, or a fraction for integers.
    """
    # As C does: integers wrap, a float is no integer. C has no halves.
    is_half = kind == LiteDataType.LITE_HALF
    ctype = ctypes.c_double if is_half else CTYPES[kind]
    try:
        values = np.array((ctype * len(data))(*data), None if is_half else NAMES[kind])
    except (TypeError, OverflowError) as error:
        raise mistyped(f"set_data_by_copy: a list of numbers for a tensor of {NAMES[kind]}: {error}") from None
    if is_half:
        with np.errstate(over="ignore"):
            values = values.astype(np.float16)
    _say_changed(data, values)
    return values


def _say_changed(data: list[Any], values: npt.NDArray[Any]) -> None:
    """Warn if a list's numbers have become others in a tensor's element type: the library takes them, and so does C."""
    # Most lists stay as they are, which is seen without a step of Python's for each number.
    if values.dtype.kind == "f":
        changed = np.isinf(values)
        changed[changed] = [not math.isinf(data[at]) for at in np.flatnonzero(changed)]
    elif values.tolist() == data:
        return
    else:
        changed = values != np.array(data, object)
    if changed.any():
        at = int(changed.argmax())
        LOG.warning(
            "set_data_by_copy: element %d, %s, is out of the range of %s and becomes %s, as in C (%d of %d elements do so)",
            at,
            f"{data[at]!r:.40}",
            values.dtype,
            values[at],
            int(changed.sum()),
            values.size,
        )


def overlaps_itself(array: npt.NDArray[Any]) -> bool:
    """Return whether elements of an array may lie over each other, as a broadcast one's do: from the closest axis outwards,
    each step must lead beyond all that the axes before reach.
    """
    reach = array.itemsize
    for step, extent in sorted((abs(step), extent) for step, extent in zip(array.strides, array.shape, strict=True)):
        if extent > 1:
            if step < reach:
                return True
            reach += step * (extent - 1)
    return False
