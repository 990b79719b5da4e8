"""Elements of tensors as arrays of numpy: their types, and buffers of all kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from triune._masked import MASKED, is_masked
from triune.icraft._xir.errors import Error
from triune.icraft._xir.layout import Layout
from triune.icraft._xir.types import TensorType
from triune.icraft._xir.values import _scalar_of as scalar_of
from triune.icraft._xrt.device import HostDevice
from triune.icraft._xrt.errors import RANGE, TYPE, failure
from triune.icraft._xrt.pointer import MemPtr

if TYPE_CHECKING:
    from triune.icraft._xrt.memory import MemChunk

__all__ = ["contiguous", "described", "storage", "type_of", "wrapped"]


def storage(dtype: TensorType) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return shape and numpy's element type of a tensor as it lies in memory.

    Raises InternalError if an extent is negative, which stands for one that is not known.
    """
    shape = tuple(dtype.shape)
    if any(extent < 0 for extent in shape):
        raise failure(RANGE, f"shape {shape}: an extent is not known, so there can be no memory for it")
    return shape, dtype.element_dtype._numpy()


def described(dtype: TensorType) -> str:
    """Return a type for messages, such as ``sint(8) (1,224,224,3)``."""
    return f"{str(dtype.getStorageType()).strip(chr(34)).lstrip('@')} ({','.join(map(str, dtype.shape))})"


def type_of(array: npt.NDArray[Any], layout: Layout | None) -> TensorType:
    """Return the type that is like an array's. Raises InternalError if none is, or the layout has other axes."""
    if layout is None or layout.numAxis() == 0:
        layout = Layout.Default(array.ndim)
    if layout.numAxis() != array.ndim:
        raise failure(RANGE, f"Tensor: layout {layout.toString()} has {layout.numAxis()} axes, the buffer {array.ndim}")
    try:
        element = scalar_of(array.dtype)
    except Error as error:
        raise failure(TYPE, f"Tensor: {error}") from None
    return TensorType(element, array.shape, layout)


def contiguous(buffer: Any) -> npt.NDArray[Any]:
    """Return a buffer as an array in C order, without a copy if it can be.

    Raises InternalError if it is no buffer, or a masked array.
    """
    if is_masked(buffer):
        raise failure(TYPE, f"Tensor: {MASKED}")
    try:
        array = np.asarray(buffer if hasattr(buffer, "__array__") else memoryview(buffer))
    except TypeError:
        raise failure(TYPE, f"Tensor: expected a buffer, got {type(buffer).__name__}") from None
    # ascontiguousarray would make one axis of none.
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def wrapped(array: npt.NDArray[Any]) -> MemChunk:
    """Return a chunk of host memory that is an array's."""
    flat = array.reshape(-1).view(np.uint8)
    return HostDevice.MemRegion().malloc(MemPtr._at(flat, 0, None), flat.size)
