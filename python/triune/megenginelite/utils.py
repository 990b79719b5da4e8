"""`TensorBatchCollector`: samples that come one by one, and leave as a batch."""

from __future__ import annotations

import ctypes
import operator
import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

from triune import _native
from triune.megenginelite._arguments import integer
from triune.megenginelite._errors import mistyped
from triune.megenginelite._layout import LiteLayout, kind_of
from triune.megenginelite.struct import LiteDataType, LiteDeviceType
from triune.megenginelite.tensor import LiteTensor, _exported, _tensor

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
else:
    from triune.megenginelite._numpy import np

__all__ = ["TensorBatchCollector"]


class TensorBatchCollector:
    """Collects samples into the batches of one tensor. Several threads may collect at once.

    `shape` is that of the tensor, the number of batches first. It lies on CUDA device 0 and is int8, unless said
    otherwise; or it is `tensor`, whose element type and place count then, or the memory of an array.

    Raises AssertionError if `tensor` has another shape, RuntimeError if there is no such device.
    """

    def __init__(
        self,
        shape: Sequence[SupportsIndex],
        dtype: LiteDataType | npt.DTypeLike = LiteDataType.LITE_INT8,
        device_type: LiteDeviceType | int = LiteDeviceType.LITE_CUDA,
        device_id: int = 0,
        is_pinned_host: bool = False,
        tensor: LiteTensor | npt.NDArray[Any] | None = None,
    ) -> None:
        """Make the tensor, or take the given one."""
        try:
            self.shape = [operator.index(extent) for extent in shape]
        except TypeError:
            raise mistyped(f"TensorBatchCollector: shape: expected a sequence of ints, got {shape!r}") from None
        assert self.shape, "shape: expected at least the number of batches"
        if tensor is None:
            tensor = LiteTensor(LiteLayout(self.shape, kind_of(dtype)), device_type, device_id, is_pinned_host)
        tensor = _tensor(tensor, "TensorBatchCollector")
        assert tensor.layout.shapes == self.shape, (
            f"tensor: expected the shape {self.shape}, got {tensor.layout.shapes}"
        )
        self.dtype = LiteDataType(tensor.layout.data_type)
        self.device_type = self.dev_type = tensor.device_type
        self.device_id = self.dev_id = tensor.device_id
        self.is_pinned_host = tensor.is_pinned_host
        self._tensor = tensor
        self._mutex = _native.Turn()
        self._free_list = list(range(self.shape[0]))

    def collect_id(self, array: npt.NDArray[Any] | LiteTensor, batch_id: int) -> int:
        """Store `array` as batch `batch_id`, with a warning if there is one already; return the number.

        Raises AssertionError if the number is out of range, or shape or element type do not fit.
        """
        self._in_range(batch_id)
        sample = self._sample(array)
        with self._mutex:
            if batch_id in self._free_list:
                self._free_list.remove(batch_id)
            else:
                warnings.warn(f"batch {batch_id} is collected already; free it before", stacklevel=2)
        return self._store(sample, batch_id)

    def collect(self, array: npt.NDArray[Any] | LiteTensor) -> int:
        """Store `array` in the first free batch and return its number; if there is none, warn and return -1.

        Raises AssertionError if shape or element type do not fit.
        """
        sample = self._sample(array)
        batch_id = self._next()
        return batch_id if batch_id < 0 else self._store(sample, batch_id)

    def collect_by_ctypes(self, data: ctypes.c_void_p | int, length: int) -> int:
        """Store `length` bytes at an address in the first free batch, return its number; if there is none, warn, return -1.

        Raises AssertionError if a batch has another number of bytes.
        """
        sample = LiteTensor(LiteLayout(self.shape[1:] or [1], self.dtype))
        assert length == sample.nbytes, f"collect_by_ctypes: a batch has {sample.nbytes} bytes, not {length}"
        sample.set_data_by_share(data, length)
        batch_id = self._next()
        return batch_id if batch_id < 0 else self._store(sample, batch_id)

    def free(self, indexes: Iterable[int]) -> None:
        """Let the batches of these numbers be collected again; warn of those that were not collected.

        Raises AssertionError if a number is out of range.
        """
        if not isinstance(indexes, Iterable):
            raise mistyped(f"free: indexes: expected a list of ints, got {indexes!r}")
        numbers = list(indexes)
        for number in numbers:
            self._in_range(number)
        with self._mutex:
            for number in numbers:
                if number in self._free_list:
                    warnings.warn(f"batch {number} is not collected; there is nothing to free", stacklevel=2)
                    self._free_list.remove(number)
                self._free_list.append(number)

    def get_tensor_at(self, idx: int) -> LiteTensor:
        """Return one batch, with a leading extent of 1, over the memory of the whole; warn if it is not collected.

        Raises AssertionError if the number is out of range.
        """
        self._in_range(idx)
        if idx in self._free_list:
            warnings.warn(f"batch {idx} is not collected", stacklevel=2)
        return self._tensor.slice([idx], [idx + 1])

    def get(self) -> LiteTensor:
        """Return the tensor of all batches, the collector's own, collected or not."""
        return self._tensor

    def to_numpy(self) -> npt.NDArray[Any]:
        """Return a copy of all batches, collected or not, with the collector's shape, batches first, and dtype."""
        return self._tensor.to_numpy()

    def _in_range(self, number: int) -> None:
        number = integer("the number of a batch", number)
        assert 0 <= number < self.shape[0], f"there is no batch {number} of {self.shape[0]}"

    def _next(self) -> int:
        with self._mutex:
            if self._free_list:
                return self._free_list.pop(0)
        warnings.warn("all batches are collected; free some before", stacklevel=3)
        return -1

    def _sample(self, array: npt.NDArray[Any] | LiteTensor) -> LiteTensor:
        """Return a sample as a tensor, once it is known to fit."""
        if isinstance(array, LiteTensor):
            sample = array
            shape, kind = sample.layout.shapes, LiteDataType(sample.layout.data_type)
        else:
            exported = _exported(array, "collect")
            assert exported is not None, f"expected an array or a LiteTensor, got {type(array).__name__}"
            shape, kind = list(exported.shape), kind_of(exported.dtype)
            sample = LiteTensor(LiteLayout(shape or [1], kind))
        wanted = self.shape[1:] or [1]
        # A batch on its own, as get_tensor_at gives it, is welcome, too.
        assert (shape or [1]) in (wanted, [1, *self.shape[1:]]), f"expected a sample of shape {wanted}, got {shape}"
        assert kind == self.dtype, f"expected a sample of {self.dtype.name}, got {kind.name}"
        if not isinstance(array, LiteTensor):
            assert exported is not None
            sample._take(exported.reshape(sample._shape), None)
        return sample

    def _store(self, sample: LiteTensor, number: int) -> int:
        # What copy_from does for a part of the tensor, from and to any device.
        np.copyto(self._tensor._writable()[number : number + 1], sample._elements().reshape(1, *self.shape[1:]))
        return number

    def _collect_with_id(self, array: npt.NDArray[Any] | LiteTensor, batch_id: int) -> int:
        return self._store(self._sample(array), batch_id)
