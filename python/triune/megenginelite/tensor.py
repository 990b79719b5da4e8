"""Tensors: a layout, a place, and memory that is there once it is needed.

Memory is numpy's, aligned to 64 bytes. What a device other than the host holds lies in host memory, too, but host
functions refuse to touch it, as the vendor documents: `LiteTensor.copy_from` and `LiteTensor.to_numpy` move it.
"""

from __future__ import annotations

import ctypes
import math
import operator
import threading
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, SupportsIndex, TypeGuard

from triune import _fork
from triune._masked import MASKED, is_masked
from triune._text import short
from triune.megenginelite import _devices
from triune.megenginelite._addresses import address_of, aligned, pointer
from triune.megenginelite._arguments import integer, integers
from triune.megenginelite._elements import from_list, overlaps_itself
from triune.megenginelite._errors import failure, mistyped
from triune.megenginelite._layout import (
    CTYPES,
    ITEM_SIZES,
    MAX_DIM,
    NAMES,
    LiteLayout,
    Shape,
    ctype_to_lite_dtypes,
    dtype_of,
    extents,
    kind_of,
    lite_dtype_2_numpy,
    longer_axes,
)
from triune.megenginelite.base import LOG
from triune.megenginelite.struct import LiteDataType, LiteDeviceType

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
else:
    from triune.megenginelite._numpy import np

__all__ = [
    "MAX_DIM",
    "LiteLayout",
    "LiteTensor",
    "LiteTensorConcat",
    "ctype_to_lite_dtypes",
    "lite_dtype_2_numpy",
]

_ALLOCATING = threading.RLock()
"""So that two threads that touch a tensor first get the same memory."""

_fork.keep_free(_ALLOCATING)


class _Binding(Protocol):
    """What wants to know that a tensor's memory or layout is another than it was."""

    dirty: bool


class LiteTensor:
    """A tensor of a layout, on a device. Its memory is allocated, and zero, once something touches it.

    `layout` is a `LiteLayout`; `shapes` and `dtype` make one instead. `is_pinned_host` is page-locked host memory, that
    host functions may touch whatever the device. With `physic_construct` False it never allocates memory of its own: it
    has to share some.

    Raises RuntimeError if there is no such device.

    Examples:
        >>> import numpy as np
        >>> from triune.megenginelite import LiteLayout, LiteTensor
        >>> tensor = LiteTensor(LiteLayout([2, 3], "float32"))
        >>> tensor.set_data_by_copy(np.ones((2, 3), np.float32))
        >>> float(tensor.to_numpy().sum())
        6.0
    """

    # What most tensors have, or start with.
    _kind: int = LiteDataType.LITE_FLOAT
    _physic = True
    # The elements, in this tensor's layout; None until they are needed. In a slice a view into the parent's.
    _array: npt.NDArray[Any] | None = None
    # All bytes that a layout may use before there must be new memory; None: those of _array.
    _block: npt.NDArray[np.uint8] | None = None
    _layout: LiteLayout | None = None
    _binding: _Binding | None = None
    # Whether anybody may have put data there, and whether it is in memory of the program's.
    _written = False
    _user_memory = False
    # Of a network's: what messages call it, what its shape is while that is open, and what is to be said, once, when
    # somebody writes or reads it.
    _title = ""
    _open = ""
    _on_write: str | None = None
    _on_read: str | None = None
    _reinterpreted = False

    def __init__(
        self,
        layout: LiteLayout | None = None,
        device_type: LiteDeviceType | int = LiteDeviceType.LITE_CPU,
        device_id: int = 0,
        is_pinned_host: bool | int = False,
        shapes: Iterable[SupportsIndex] | None = None,
        dtype: LiteDataType | npt.DTypeLike | None = None,
        physic_construct: bool = True,
    ) -> None:
        """Note layout and place; allocate nothing."""
        if device_type is not LiteDeviceType.LITE_CPU:
            device_type = _devices.device_type(device_type)
            device_id = integer("device_id", device_id)
            _devices.check(device_type, device_id)
        self._device_type: LiteDeviceType = device_type
        self._device_id = device_id
        self._is_pinned_host = bool(is_pinned_host)
        self._on_host = self._is_pinned_host or device_type in _devices.HOSTS
        self._shape: Shape = ()
        if not physic_construct:
            self._physic = False
        if layout is not None:
            self._shape, self._kind = _parts(layout)
        elif shapes is not None:
            self._shape, self._kind = extents(shapes), kind_of(dtype)
        elif dtype is not None:
            self._kind = kind_of(dtype)

    # ---- what it is

    @property
    def layout(self) -> LiteLayout:
        """The layout, one object for the life of the tensor; set one, or a shape, to change it.

        Another layout keeps the memory if its bytes suffice, and loses it otherwise, as an empty one does.

        Raises AssertionError if it is set to something else, RuntimeError if the tensor is a slice with gaps.
        """
        if self._layout is None:
            self._layout = LiteLayout()
        self.update()
        return self._layout

    @layout.setter
    def layout(self, layout: LiteLayout | Sequence[SupportsIndex]) -> None:
        if isinstance(layout, LiteLayout):
            self._relayout(*_parts(layout))
        else:
            assert _is_shape(layout), short(f"layout: expected a LiteLayout or a shape, got {layout!r}")
            self._relayout(extents(layout), self._kind)

    @property
    def is_pinned_host(self) -> bool:
        """Whether the memory is page-locked host memory, as it was asked for; host functions may touch it whatever the
        device."""
        return self._is_pinned_host

    @property
    def device_type(self) -> LiteDeviceType:
        """The type of the device that the tensor is on."""
        return self._device_type

    @property
    def device_id(self) -> int:
        """The number of the device that the tensor is on, from 0."""
        return self._device_id

    @property
    def is_continue(self) -> bool:
        """Whether the elements lie one after the other. Those of a slice may not."""
        return self._array is None or bool(self._array.flags.c_contiguous)

    @property
    def nbytes(self) -> int:
        """The bytes of the elements: extents times element size. An empty layout has none."""
        return _size(self._shape, self._kind)

    @property
    def np_array_type(self) -> Any:
        """The ctypes array type of the elements, with an array for each axis; of float16, of their bits (``c_uint16``)."""
        found: Any = CTYPES[LiteDataType(self._kind)]
        for extent in reversed(self._shape):
            found = found * extent
        return found

    def update(self) -> None:
        """Bring the object that `layout` returned up to date with shape and element type; reading `layout` does so, too."""
        if self._layout is not None:
            self._layout.shapes = self._shape
            self._layout.data_type = self._kind

    # ---- memory

    def _elements(self) -> npt.NDArray[Any]:
        """Return the elements, allocated if need be."""
        array = self._array
        return self._allocate() if array is None else array

    def _allocate(self) -> npt.NDArray[Any]:
        if not self._shape:
            raise failure(self._open or "the tensor's layout is empty: set a layout or data first")
        if not self._physic:
            raise failure("the tensor was made with physic_construct=False: share memory with it first")
        with _ALLOCATING:
            if self._array is None:
                block, start = aligned(self.nbytes)
                self._array = np.ndarray(self._shape, dtype_of(self._kind), block, start)
                self._user_memory = False
                self._changed()
            return self._array

    def _changed(self) -> None:
        """Tell the network that this tensor belongs to."""
        if self._binding is not None:
            self._binding.dirty = True

    def _relayout(self, shape: Shape, kind: int) -> None:
        """Take a layout: in the memory there is if it suffices, else in memory still to be allocated."""
        if shape == self._shape and kind == self._kind:
            return
        array = self._array
        if array is not None:
            if not array.flags.c_contiguous:
                raise failure(
                    f"the tensor is a slice with gaps: it cannot take the layout {list(shape)} {NAMES[kind]}; "
                    "copy it to a tensor of its own first"
                )
            block = array.reshape(-1).view(np.uint8) if self._block is None else self._block
            size = math.prod(shape) * ITEM_SIZES[kind]
            if shape and size <= block.size:
                self._block = block
                self._array = block[:size].view(dtype_of(kind)).reshape(shape)
            else:
                self._array = self._block = None
                self._user_memory = False
        self._shape, self._kind = shape, kind
        self._changed()

    def _take(self, array: npt.NDArray[Any], block: npt.NDArray[np.uint8] | None) -> None:
        """Use memory that others own, whose layout is that of the tensor."""
        if self._on_write is not None:
            self._tell_writing()
        self._array, self._block = array, block
        self._physic = self._written = self._user_memory = True
        self._changed()

    def _tell_writing(self) -> None:
        LOG.warning("%s", self._on_write)
        self._on_write = None

    def _tell_reading(self) -> None:
        LOG.warning("%s", self._on_read)
        self._on_read = None

    def _writable(self) -> npt.NDArray[Any]:
        if self._on_write is not None:
            self._tell_writing()
        array = self._elements()
        if not array.flags.writeable:
            raise failure("the tensor shares memory that is read-only")
        if not array.flags.c_contiguous and overlaps_itself(array):
            raise failure(
                "the tensor shares an array of which several elements are in one place: it is only for reading"
            )
        self._written = True
        return array

    def _room(self, shape: Shape, kind: int) -> npt.NDArray[Any]:
        """Take a layout and return the elements to write; what cannot be leaves the tensor as it is."""
        before = self._shape, self._kind, self._array, self._block, self._user_memory
        try:
            self._relayout(shape, kind)
            return self._writable()
        except BaseException:
            self._shape, self._kind, self._array, self._block, self._user_memory = before
            raise

    def get_ctypes_memory(self) -> ctypes.c_void_p:
        """Return the address of the elements, allocated if need be: aligned to 64 bytes unless shared or sliced.

        Raises RuntimeError if the layout is empty.
        """
        # Who has the address may write there.
        self._written = True
        if self._on_write is not None:
            self._tell_writing()
        return ctypes.c_void_p(address_of(self._elements()))

    def fill_zero(self) -> None:
        """Set all elements to zero, on any device.

        Raises RuntimeError if the layout is empty.
        """
        self._writable().fill(0)

    # ---- layouts over the same memory

    def reshape(self, shape: Iterable[SupportsIndex]) -> None:
        """Take another shape of as many elements. One extent may be -1: it follows from the others.

        Raises RuntimeError if the number of elements is another, there are 7 axes or more, or the tensor is a slice whose
        gaps do not allow the shape: then copy it to a tensor of its own first.
        """
        try:
            wanted = [operator.index(extent) for extent in shape]
        except TypeError:
            raise failure(f"reshape: expected a sequence of ints, got {shape!r}") from None
        count = math.prod(self._shape) if self._shape else 0
        if not wanted or len(wanted) >= MAX_DIM or 0 in wanted or min(wanted) < -1 or wanted.count(-1) > 1:
            raise failure(
                f"reshape: expected 1 to {MAX_DIM - 1} extents of at least 1, of which one may be -1, got {wanted}"
            )
        if -1 in wanted:
            known = -math.prod(wanted)
            if count % known == 0:
                wanted[wanted.index(-1)] = count // known
        if math.prod(wanted) != count:
            raise failure(f"reshape: {wanted} has another number of elements than {list(self._shape)}")
        new = tuple(wanted)
        if self._array is not None:
            view = self._array.reshape(new)
            # A copy lies elsewhere, so the bounds tell.
            if not np.may_share_memory(view, self._array) and count:
                raise failure(
                    f"reshape: the tensor is a slice with gaps that cannot have the shape {wanted} in place; "
                    "copy it to a tensor of its own first"
                )
            self._array = view
        self._shape = new
        self._changed()

    def slice(
        self,
        start: Sequence[SupportsIndex],
        end: Sequence[SupportsIndex],
        step: Sequence[SupportsIndex] | None = None,
    ) -> LiteTensor:
        """Return a part of the tensor: a tensor over the same memory, which it keeps alive, and often with gaps.

        `start`, `end` and `step` (1 unless given) are for the first axes, as in Python's slices: negative ones count from
        the end, those beyond an axis end there.

        Raises AssertionError if their numbers differ, RuntimeError if there are more than axes, or a step is 0.
        """
        first, last = integers("slice: start", start), integers("slice: end", end)
        assert len(first) == len(last), f"slice: start has {len(first)} numbers, end {len(last)}"
        steps = [1] * len(first) if step is None or len(step) == 0 else integers("slice: step", step)
        assert len(steps) == len(first), f"slice: start has {len(first)} numbers, step {len(steps)}"
        if len(first) > len(self._shape):
            raise failure(f"slice: {len(first)} axes of a tensor that has {len(self._shape)}")
        if 0 in steps:
            raise failure("slice: a step is 0")
        array = self._elements()
        part = array[tuple(slice(a, b, c) for a, b, c in zip(first, last, steps, strict=True))]
        return self._view(part)

    def _view(self, part: npt.NDArray[Any]) -> LiteTensor:
        found = LiteTensor.__new__(type(self))
        found._device_type, found._device_id = self._device_type, self._device_id
        found._is_pinned_host, found._on_host = self._is_pinned_host, self._on_host
        found._shape, found._kind = part.shape, self._kind
        found._array = part
        # Whether and what is written there, nobody can say.
        found._written = self._written = True
        return found

    # ---- data in

    def copy_from(self, src_tensor: LiteTensor | npt.NDArray[Any]) -> None:
        """Copy a tensor, from whatever device to whatever device, and take its layout.

        A slice with gaps keeps its layout, which must be that of the source. A numpy array is as good as a tensor.

        Raises AssertionError if `src_tensor` is neither, RuntimeError if its layout is empty or does not fit.
        """
        source = _tensor(src_tensor, "copy_from")
        elements = source._elements()
        if not self.is_continue and (source._shape != self._shape or source._kind != self._kind):
            raise failure(
                f"copy_from: the tensor is a slice with gaps, of layout {list(self._shape)} {self._name}; "
                f"the source has {list(source._shape)} {source._name}"
            )
        np.copyto(self._room(source._shape, source._kind), elements)

    @property
    def _name(self) -> str:
        return NAMES[self._kind]

    def share_memory_with(self, src_tensor: LiteTensor | npt.NDArray[Any]) -> None:
        """Use the memory of another tensor, or of an array, and take its layout and place.

        Raises AssertionError if `src_tensor` is neither, RuntimeError if its layout is empty, or one of the two is in host
        memory and the other is not.
        """
        source = _tensor(src_tensor, "share_memory_with")
        elements = source._elements()
        if source._on_host != self._on_host:
            raise failure(
                f"share_memory_with: {self._device_type.name} and {source._device_type.name} have no memory in common; "
                "use copy_from"
            )
        # From now on both may write.
        source._written = True
        self._shape, self._kind = source._shape, source._kind
        self._device_type, self._device_id = source._device_type, source._device_id
        self._is_pinned_host, self._on_host = source._is_pinned_host, source._on_host
        self._take(elements, source._block)

    def set_data_by_copy(
        self,
        data: list[Any] | npt.NDArray[Any] | LiteTensor | ctypes.c_void_p | int,
        data_length: int = 0,
        layout: LiteLayout | None = None,
    ) -> None:
        """Copy `data` into the tensor.

        A list fills the first elements and leaves the others as they are. The layout becomes that of an array (or a
        tensor, or what exports DLPack), in other memory if there is too little. At an address, `data_length` bytes are
        read, which must be those of the tensor, or those of `layout`.

        Raises AssertionError if the tensor has gaps, a list is too long, an
        array is not C-contiguous, or an address comes without its length; KeyError if there is no such element type,
        RuntimeError for an array without axes, TypeError if an element of a list is no number of the tensor's kind. Numbers of
        a list that are out of the element type's range wrap, or become infinite, as in C; the log says so.
        """
        assert self.is_continue, "set_data_by_copy: the tensor is a slice with gaps; use copy_from"
        if layout is None and self._is_like(data):
            np.copyto(self._writable(), data)
            return
        shape, kind = (self._shape, self._kind) if layout is None else _parts(layout)
        if isinstance(data, list):
            self._copy_list(data, shape, kind)
            return
        array = _exported(data, "set_data_by_copy")
        if array is not None:
            self._copy_array(array, kind)
            return
        address = pointer(data, "set_data_by_copy")
        size = _size(shape, kind)
        assert data_length == size or (layout is not None and data_length == 0), (
            f"set_data_by_copy: an address needs data_length, of the tensor's {size} bytes, or a layout"
        )
        ctypes.memmove(address_of(self._room(shape, kind)), address, size)

    def _is_like(self, data: Any) -> TypeGuard[npt.NDArray[Any]]:
        """Return whether `data` is an array that goes with the tensor as it is: the quick way for what is done often."""
        array = self._array
        return (
            array is not None
            and type(data) is np.ndarray
            and data.shape == self._shape
            and data.dtype == array.dtype
            and bool(data.flags.c_contiguous)
        )

    def _copy_list(self, data: list[Any], shape: Shape, kind: int) -> None:
        count = math.prod(shape) if shape else 0
        assert len(data) <= count, f"set_data_by_copy: {len(data)} numbers for a tensor of {count}"
        values = from_list(data, LiteDataType(kind))
        if data:
            self._room(shape, kind).reshape(-1)[: len(data)] = values
        else:
            self._relayout(shape, kind)

    def _copy_array(self, array: npt.NDArray[Any], kind: int) -> None:
        if not array.ndim:
            raise self._without_axes("set_data_by_copy")
        assert array.flags.c_contiguous, (
            "set_data_by_copy: the array is not contiguous: pass np.ascontiguousarray(array)"
        )
        if array.dtype.char == "l" and kind != LiteDataType.LITE_INT64 and array.dtype.itemsize == 8:
            # What Python's ints become in numpy, most often by mistake; tensors of ONNX models that want it have it.
            raise KeyError("int64 is the element type of tensors that have it already: pass array.astype('int32')")
        np.copyto(self._room(extents(array.shape), kind_of(array.dtype)), array)

    def _without_axes(self, function: str) -> RuntimeError:
        cure = "reshape it to [1]"
        if self._open and not self._shape:
            cure = f"{self._open} (np.zeros(tensor.layout.shapes) has none then)"
        return failure(f"{function}: an array without axes has no layout here: {cure}")

    def set_data_by_share(
        self,
        data: npt.NDArray[Any] | LiteTensor | ctypes.c_void_p | int,
        length: int = 0,
        layout: LiteLayout | None = None,
    ) -> None:
        """Use the memory of `data` instead of its own; an array is kept alive by the tensor, an address is not.

        An array (or what exports DLPack) of as many bytes as the tensor has leaves the layout as it is, with a warning in the
        log if a network's tensor has another element type or shape than the array; otherwise the layout becomes that of
        the array. At an address lie the bytes of the tensor, or those of `layout`.

        Raises AssertionError if `length` is not the tensor's, if an array comes for a tensor with gaps or on a device, or
        is not C-contiguous, or is smaller than `layout`; KeyError if there is no such element type;
        ctypes.ArgumentError for a list.
        """
        if isinstance(data, list | tuple | bytes):
            raise ctypes.ArgumentError(
                f"set_data_by_share: a {type(data).__name__} has no memory to share: pass an array, or use set_data_by_copy"
            )
        assert self.is_continue, "set_data_by_share: the tensor is a slice with gaps"
        if layout is None and not length and self._on_host and self._is_like(data):
            # A view: what the program does to its array's shape or flags later is no concern of the tensor's.
            self._take(data.view(), None)
            return
        array = _exported(data, "set_data_by_share")
        if array is not None:
            assert self._on_host, "set_data_by_share: the tensor is on a device and not pinned; use copy_from"
            assert array.flags.c_contiguous, (
                "set_data_by_share: the array is not contiguous: pass np.ascontiguousarray(array)"
            )
            self._share_array(array, length, layout)
            return
        address = pointer(data, "set_data_by_share")
        shape, kind = (self._shape, self._kind) if layout is None else _parts(layout)
        size = _size(shape, kind)
        assert length in (0, size), f"set_data_by_share: the layout has {size} bytes, not {length}"
        if not size:
            raise failure("set_data_by_share: the layout is empty: pass one")
        block = np.frombuffer(memoryview((ctypes.c_ubyte * size).from_address(address)), np.uint8)
        self._shape, self._kind = shape, kind
        self._take(block.view(dtype_of(self._kind)).reshape(shape), block)

    def _share_array(self, array: npt.NDArray[Any], length: int, layout: LiteLayout | None) -> None:
        kind = kind_of(array.dtype) if array.dtype != np.bool_ else LiteDataType.LITE_UINT8
        if layout is not None:
            shape, wanted = _parts(layout)
        elif array.nbytes == self.nbytes and self._shape:
            shape, wanted = self._shape, self._kind
            self._check_meaning(array, kind)
        elif not array.ndim:
            raise self._without_axes("set_data_by_share")
        else:
            shape, wanted = extents(array.shape), kind
        size = _size(shape, wanted)
        assert size <= array.nbytes, f"set_data_by_share: the layout has {size} bytes, the array {array.nbytes}"
        assert length in (0, size), f"set_data_by_share: the tensor has {size} bytes, not {length}"
        if shape != array.shape or wanted != kind or array.dtype == np.bool_:
            block = array.reshape(-1).view(np.uint8)
            array = block[:size].view(dtype_of(wanted)).reshape(shape)
        self._shape, self._kind = shape, wanted
        self._take(array.view(), None)

    def _check_meaning(self, array: npt.NDArray[Any], kind: int) -> None:
        """Say once if a network will take an array's elements for others: by type, or by their places."""
        if not self._title or self._reinterpreted:
            return
        # Flat memory is meant as the tensor has it; flat bytes are of any type.
        as_meant = kind == self._kind or (array.ndim == 1 and array.itemsize == 1)
        in_place = array.ndim == 1 or longer_axes(array.shape) == longer_axes(self._shape)
        if as_meant and in_place:
            return
        self._reinterpreted = True
        LOG.warning(
            "%s: set_data_by_share of an array %s %s keeps the layout %s %s, as the bytes are as many: its elements are "
            "taken as they lie; pass layout=, or use set_data_by_copy, which takes the array's",
            self._title,
            list(array.shape),
            array.dtype,
            list(self._shape),
            self._name,
        )

    # ---- data out

    def get_data_by_share(self) -> npt.NDArray[Any]:
        """Return an array over the tensor's memory, of the layout's shape and dtype: what is written there later, the array
        has, too.

        Raises RuntimeError if the layout is empty, AssertionError if the tensor is on a device and not pinned.
        """
        assert self._on_host, "get_data_by_share: the tensor is on a device and not pinned; use to_numpy"
        if self._on_read is not None:
            self._tell_reading()
        self._written = True
        return self._elements().view()

    def to_numpy(self) -> npt.NDArray[Any]:
        """Return a copy of the elements with the layout's shape and dtype, from any device.

        Gaps of a slice are not in it. An empty layout gives an array of shape (0,).
        """
        if not self._shape:
            return np.zeros(0, self._name)
        if self._on_read is not None:
            self._tell_reading()
        return self._elements().copy()

    # ---- Triune's: what numpy and others take an array from

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Return the elements for numpy: shared if possible, else a copy.

        Raises ValueError if `copy` is False and they have to be copied.
        """
        array = self.get_data_by_share() if self._on_host and self._shape else None
        if array is not None and (dtype is None or array.dtype == dtype):
            return array.copy() if copy else array
        if copy is False:
            raise ValueError("the tensor cannot be an array of this type without a copy")
        return self.to_numpy() if dtype is None else self.to_numpy().astype(dtype)

    def __buffer__(self, flags: int) -> memoryview:
        """Return the elements as a buffer (Python 3.12 and newer; before, ``memoryview(tensor.get_data_by_share())``).

        Raises BufferError if the tensor is on a device, or its layout is empty.
        """
        if not self._on_host or not self._shape:
            raise BufferError("the tensor has no elements in host memory")
        return self.get_data_by_share().data

    def __dlpack__(self, **options: Any) -> Any:
        """Return a DLPack capsule over the tensor's memory.

        Raises BufferError if the tensor is on a device, or its layout is empty.
        """
        if not self._on_host or not self._shape:
            raise BufferError("the tensor has no elements in host memory")
        return self.get_data_by_share().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return DLPack's device: the CPU.

        Raises BufferError if the tensor is on a device.
        """
        if not self._on_host:
            raise BufferError("the tensor has no elements in host memory")
        return (1, 0)

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy of the tensor has: layout, place and elements, but neither a network nor others' memory."""
        state = {name: value for name, value in vars(self).items() if name not in ("_binding", "_layout", "_block")}
        return state | {"_user_memory": False}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take what `__getstate__` returned; the elements go to memory of this tensor, aligned as any."""
        vars(self).update(state)
        array = vars(self).pop("_array", None)
        if array is not None:
            self._physic = True
            np.copyto(self._allocate(), array)

    def __copy__(self) -> Self:
        """Return a tensor of the same layout over the same memory, allocated if need be, that is no network's."""
        found = type(self).__new__(type(self))
        if self._shape and self._physic:
            self._elements()
        vars(found).update(vars(self))
        vars(found).pop("_binding", None)
        vars(found).pop("_layout", None)
        found._written = self._written = True
        return found

    def __enter__(self) -> Self:
        """Return the tensor."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Let go of the memory; the layout stays."""
        if self._array is not None:
            self._array = self._block = None
            self._changed()

    def __repr__(self) -> str:
        """Return layout and place, as the vendor shows them."""
        return repr(
            {
                "layout": self.layout,
                "device_type": self._device_type,
                "device_id": self._device_id,
                "is_pinned_host": self._is_pinned_host,
            }
        )


def LiteTensorConcat(  # noqa: N802, RUF100 (the vendor's name)
    tensors: Sequence[LiteTensor | npt.NDArray[Any]],
    dim: int,
    device_type: LiteDeviceType | int = LiteDeviceType.LITE_DEVICE_DEFAULT,
    device_id: int = -1,
) -> LiteTensor:
    """Return the tensors one after the other along the axis `dim`, which counts from the end if it is negative.

    The result is on the given device, or by default on that of the first tensor. No tensors give an empty one.

    Raises RuntimeError if there is no such axis, or shapes or element types do not fit.
    """
    if isinstance(tensors, LiteTensor) or not isinstance(tensors, Iterable):
        raise mistyped(f"LiteTensorConcat: tensors: expected a list of tensors, got {type(tensors).__name__}")
    sources = [_tensor(tensor, "LiteTensorConcat") for tensor in tensors]
    dim = integer("LiteTensorConcat: dim", dim)
    if not sources:
        return LiteTensor()
    first = sources[0]
    kind = _devices.device_type(device_type)
    number = device_id
    if kind == LiteDeviceType.LITE_DEVICE_DEFAULT:
        kind = first._device_type
    if number == -1:
        number = first._device_id
    parts = [tensor._elements() for tensor in sources]
    if not -len(first._shape) <= dim < len(first._shape):
        raise failure(f"LiteTensorConcat: axis {dim} of tensors that have {len(first._shape)}")
    if any(tensor._kind != first._kind for tensor in sources):
        raise failure(f"LiteTensorConcat: element types differ: {', '.join(tensor._name for tensor in sources)}")
    shape = list(first._shape)
    shape[dim] = sum(tensor._shape[dim] if len(tensor._shape) == len(shape) else 0 for tensor in sources)
    found = LiteTensor(LiteLayout(shape, LiteDataType(first._kind)), kind, number)
    try:
        np.concatenate(parts, dim, out=found._writable())
    except ValueError:
        shapes = ", ".join(str(list(tensor._shape)) for tensor in sources)
        raise failure(f"LiteTensorConcat: shapes do not fit along axis {dim}: {shapes}") from None
    return found


def _parts(layout: LiteLayout) -> tuple[Shape, int]:
    assert isinstance(layout, LiteLayout), short(f"layout: expected a LiteLayout, got {layout!r}")
    if layout.ndim > MAX_DIM:
        raise failure(f"layout: at most {MAX_DIM} axes, got {layout.ndim}")
    try:
        kind = LiteDataType(layout.data_type)
    except ValueError:
        raise failure(f"layout: {layout.data_type} is no LiteDataType") from None
    return tuple(layout._shapes[: layout.ndim]), int(kind)


def _size(shape: Shape, kind: int) -> int:
    """Return the bytes of a layout; an empty one has none."""
    return math.prod(shape) * ITEM_SIZES[kind] if shape else 0


def _is_shape(value: object) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes)


def _tensor(value: Any, function: str) -> LiteTensor:
    """Return a tensor as it is, and one over the memory of an array."""
    if isinstance(value, LiteTensor):
        return value
    array = _exported(value, function)
    assert array is not None, f"{function}: expected a LiteTensor or an array, got {type(value).__name__}"
    if not array.ndim:
        raise failure(f"{function}: an array without axes has no layout here: reshape it to [1]")
    found = LiteTensor(shapes=array.shape, dtype=array.dtype)
    found._take(array.view(), None)
    return found


def _exported(value: Any, function: str) -> npt.NDArray[Any] | None:
    """Return what `value` exports as an array: numpy's, a tensor's, DLPack's; None if it is something else.

    Subclasses of numpy's array, such as matrices, are seen as the array that they are.

    Raises RuntimeError for a masked array: there is nothing here that a mask could mean.
    """
    if isinstance(value, int | ctypes.c_void_p):
        return None
    if isinstance(value, np.ndarray):
        if type(value) is not np.ndarray and is_masked(value):
            raise failure(f"{function}: {MASKED}")
        return np.asarray(value)
    if isinstance(value, LiteTensor):
        return value.get_data_by_share()
    if isinstance(value, np.generic):
        return None
    if hasattr(type(value), "__dlpack__"):
        found: npt.NDArray[Any] = np.from_dlpack(value)
        return found
    if hasattr(type(value), "__array__"):
        return np.asarray(value)
    return None
