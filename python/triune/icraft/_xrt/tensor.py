"""Tensors: a data type, a place in a chunk of memory, and whether what lies there is ready."""

from __future__ import annotations

import datetime
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Self, overload

import numpy as np
import numpy.typing as npt

from triune.icraft._xir.errors import Error
from triune.icraft._xir.filling import filled
from triune.icraft._xir.layout import Layout
from triune.icraft._xir.objects import ObjectRef
from triune.icraft._xir.types import TensorType
from triune.icraft._xir.values import Params, Value
from triune.icraft._xrt.device import HostDevice
from triune.icraft._xrt.dump import dumped
from triune.icraft._xrt.elements import contiguous, described, storage, type_of, wrapped
from triune.icraft._xrt.errors import ORDER, RANGE, TIMEOUT, TYPE, expect, failure
from triune.icraft._xrt.memory import MemChunk, MemRegion
from triune.icraft._xrt.pointer import MemPtr, as_bytes

if TYPE_CHECKING:
    from triune.icraft._xrt.device import Device
    from triune.icraft._xrt.pointer import Buffer

__all__ = ["CheckFunc", "Tensor", "fetched", "on_host"]

_FIRST_PAUSE = 50e-6
_LONGEST_PAUSE = 2e-3

CheckFunc = Callable[["Device"], bool]
"""Says whether a tensor's data is ready; it is given the device that the data lies on."""


class Tensor(ObjectRef):
    """What goes into and comes out of operators; without arguments a null handle.

    ``Tensor(array, layout)`` and ``Tensor(array, type)`` copy a buffer to the host, ``Tensor(type)`` has no data yet,
    ``Tensor(type, chunk, offset, check)`` lies in memory that is there. ``Tensor(value)`` has the value's type, and of
    parameters the data, without a copy.

    ``numpy.asarray(tensor)`` is a view of a tensor on the host in its stored type; formats that numpy lacks (bf16) are
    unsigned integers of their size.

    Examples:
        >>> import numpy as np
        >>> from triune.icraft import xir
        >>> from triune.icraft.xrt import Tensor
        >>> tensor = Tensor(np.zeros((1, 8, 8, 3), np.float32), xir.Layout("NHWC"))
        >>> tensor.dtype().shape, np.array(tensor).shape
        ([1, 8, 8, 3], (1, 8, 8, 3))
    """

    type_key: ClassVar[str] = "icraft::xrt::TensorNode"

    _dtype: TensorType
    _chunk: MemChunk | None
    _offset: int
    _check: CheckFunc | None
    _ready: bool

    @overload
    def __init__(self) -> None: ...
    @overload
    def __init__(
        self, dtype: TensorType, chunk: MemChunk, offset: int = 0, check_func: CheckFunc | None = None
    ) -> None: ...
    @overload
    def __init__(self, dtype: TensorType, check_func: CheckFunc | None = None) -> None: ...
    @overload
    def __init__(self, value: Value) -> None: ...
    @overload
    def __init__(self, b: Buffer, layout: Layout = ...) -> None: ...
    @overload
    def __init__(self, b: Buffer, dtype: TensorType) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef, /) -> None: ...
    def __init__(self, *args: Any, **keywords: Any) -> None:
        """Make a tensor; see the class.

        Raises InternalError if the arguments do not fit together, such as a buffer of another size than the type's.
        """
        first = args[0] if args else next((keywords[name] for name in ("b", "value") if name in keywords), None)
        if isinstance(first, Value):
            self._of_value(*args, **keywords)
        elif isinstance(first, TensorType) or (first is None and isinstance(keywords.get("dtype"), TensorType)):
            self._of_type(*args, **keywords)
        elif isinstance(first, ObjectRef):
            raise failure(TYPE, f"Tensor: expected a buffer, a type or a value, got {type(first).__name__}")
        else:
            self._of_buffer(*args, **keywords)

    def _set_up(self, dtype: TensorType, chunk: MemChunk | None, offset: int, check: CheckFunc | None) -> None:
        self._dtype, self._chunk, self._offset = dtype, None, 0
        self._check, self._ready = check, check is None
        if chunk is not None:
            self._place(chunk, offset)

    def _of_value(self, value: Value) -> None:
        dtype = value.tensorType()
        data = value.data() if isinstance(value, Params) and value.hasData() else None
        if data is None:
            self._set_up(dtype, None, 0, None)
        else:
            self._set_up(dtype, wrapped(np.ascontiguousarray(data)), 0, None)

    def _of_type(self, dtype: TensorType, *args: Any, **keywords: Any) -> None:
        if args and not isinstance(args[0], MemChunk):
            self._without_data(dtype, *args, **keywords)
        elif args or "chunk" in keywords:
            self._in_chunk(dtype, *args, **keywords)
        else:
            self._without_data(dtype, **keywords)

    def _in_chunk(
        self, dtype: TensorType, chunk: MemChunk, offset: int = 0, check_func: CheckFunc | None = None
    ) -> None:
        self._set_up(dtype, chunk, offset, _checked(check_func))

    def _without_data(self, dtype: TensorType, check_func: CheckFunc | None = None) -> None:
        self._set_up(dtype, None, 0, _checked(check_func))

    def _of_buffer(self, b: Buffer, layout: Layout | TensorType | None = None, dtype: TensorType | None = None) -> None:
        kind = dtype if dtype is not None else layout
        if isinstance(kind, TensorType):
            shape, element = storage(kind)
            data = contiguous(b)
            if data.nbytes != math.prod(shape) * element.itemsize:
                raise failure(RANGE, f"Tensor: a buffer of {data.nbytes} bytes for {described(kind)}")
            self._set_up(kind, wrapped(data.copy()), 0, None)
            return
        if kind is not None and not isinstance(kind, Layout):
            raise failure(TYPE, f"Tensor: expected a layout or a type, got {type(kind).__name__}")
        data = contiguous(b)
        self._set_up(type_of(data, kind), wrapped(data.copy()), 0, None)

    @classmethod
    def Init(cls) -> Self:
        """Return a tensor of no type and without data, not null: its type is 32-bit floats of no extents."""
        tensor = cls._new()
        tensor._set_up(TensorType.Init(), None, 0, None)
        return tensor

    @classmethod
    def _of(cls, dtype: TensorType, array: npt.NDArray[Any]) -> Self:
        """Return a tensor that shares the memory of a contiguous array."""
        tensor = cls._new()
        tensor._set_up(dtype, wrapped(array), 0, None)
        return tensor

    # ---- what it is

    def dtype(self) -> TensorType:
        """Return the type: that of the elements, with the scales of quantized ones, the shape and the layout.

        It is the tensor's own: what is changed in it is changed in the tensor, while `setDType` checks that the memory is
        enough.
        """
        return self._dtype

    def chunk(self) -> MemChunk:
        """Return the chunk that the data lies in, a null handle if there is none. Others may share the chunk: `offset` says
        where it begins."""
        return MemChunk() if self._chunk is None else self._chunk

    def offset(self) -> int:
        """Return where the data begins in its chunk, in bytes; 0 without data."""
        return self._offset

    def hasData(self) -> bool:
        """Return whether there is memory for the data, whatever it holds.

        A tensor of nothing but a type has none until `mallocOn` or `setData`.
        """
        return self._chunk is not None

    def data(self) -> MemPtr:
        """Return where the data begins: a C pointer on the host, a physical address on a device.

        Raises InternalError ([11012]) if there is none.
        """
        chunk = self._memory("data")
        return chunk.begin + self._offset if self._offset else chunk.begin

    def memRegion(self) -> MemRegion:
        """Return the region that the data lies in.

        Raises InternalError ([11012]) if there is no data.
        """
        return self._memory("memRegion").region

    def isOn(self, mregion: MemRegion) -> bool:
        """Return whether the data lies in a region, by identity: False of a tensor without data, too."""
        return self._chunk is not None and self._chunk.isOn(mregion)

    def _memory(self, what: str) -> MemChunk:
        if self._chunk is None:
            raise failure(ORDER, f"Tensor.{what}: The tensor has no chunk allocated! mallocOn(region) gives it one")
        return self._chunk

    def _bytes(self) -> int:
        shape, element = storage(self._dtype)
        return math.prod(shape) * element.itemsize

    # ---- changes

    def setDType(self, dtype: TensorType) -> Self:
        """Set the type.

        Raises InternalError if the memory is too small for it.
        """
        expect("Tensor.setDType: dtype", dtype, TensorType, "a type")
        old, self._dtype = self._dtype, dtype
        if self._chunk is not None:
            try:
                self._place(self._chunk, self._offset)
            except Exception:
                self._dtype = old
                raise
        return self

    def setData(self, chunk: MemChunk, offset: int = 0) -> Self:
        """Let the data lie in a chunk, `offset` bytes from its beginning.

        Raises InternalError if it is not all within the chunk.
        """
        expect("Tensor.setData: chunk", chunk, MemChunk, "a memory chunk")
        self._place(chunk, offset)
        return self

    def _place(self, chunk: MemChunk, offset: int) -> None:
        need = self._bytes()
        if chunk._freed or not 0 <= offset <= chunk._byte_size - need:
            # Says what is wrong; the text is not made unless something is.
            chunk._part(f"Tensor: {described(self._dtype)} at offset {offset}", offset, need)
        self._chunk, self._offset = chunk, offset

    def mallocOn(self, mregion: MemRegion) -> Self:
        """Allocate memory in a region, as many bytes as the stored elements take; the chunk that the tensor had is let go.

        Raises InternalError if there is not enough, or an extent is not known.
        """
        expect("Tensor.mallocOn: mregion", mregion, MemRegion, "a memory region")
        self._place(mregion.malloc(self._bytes()), 0)
        return self

    def setCheckFunc(self, check_func: CheckFunc) -> Self:
        """Set what says whether the data is ready: until it does, the tensor is not.

        `check_func` is given the device that the data lies on, and returns a bool. With None there is nothing to ask, and the
        tensor is ready.

        Raises InternalError if it cannot be called.
        """
        self._check = _checked(check_func)
        self._ready = self._check is None
        return self

    def setReady(self, ready: bool) -> Self:
        """Set whether the data is ready.

        Once True, the function of `setCheckFunc` is asked no more.
        """
        self._ready = bool(ready)
        return self

    # ---- readiness

    def isReady(self) -> bool:
        """Return whether the data is ready.

        The function of `setCheckFunc` is asked until it says yes, and no more then; `waitForReady` asks again and again.
        """
        if not self._ready and self._check is not None and self._chunk is not None:
            self._ready = bool(self._check(self._device()))
        return self._ready

    def waitForReady(self, timeout: datetime.timedelta, sleep: datetime.timedelta = datetime.timedelta(0)) -> bool:
        """Ask until the data is ready, pausing for `sleep` in between; return False if it is not after `timeout`.

        Without `sleep`, the pauses grow from 50 microseconds to 2 milliseconds. Other threads run meanwhile.

        Raises InternalError if there is no memory for the data.
        """
        self._memory("waitForReady")
        for name, value in (("timeout", timeout), ("sleep", sleep)):
            expect(f"Tensor.waitForReady: {name}", value, datetime.timedelta, "a datetime.timedelta")
        return self._wait(timeout.total_seconds(), sleep.total_seconds())

    def _wait(self, timeout: float, sleep: float) -> bool:
        end = time.monotonic() + timeout
        pause = sleep if sleep > 0 else _FIRST_PAUSE
        while not self.isReady():
            left = end - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(pause, left))
            if sleep <= 0:
                pause = min(pause * 1.5, _LONGEST_PAUSE)
        return True

    def _device(self) -> Device:
        region = self._memory("isReady").region
        return region.device() if region._device is not None else HostDevice.Default()

    def _await(self, what: str) -> None:
        """Wait as long as the device says."""
        if self._ready:
            return
        milliseconds = self._device()._wait_time
        if not self._wait(milliseconds / 1000, 0):
            raise failure(TIMEOUT, f"Tensor.{what}: {described(self._dtype)} is not ready after {milliseconds} ms")

    # ---- data

    def read(self, dest: Buffer, src_offset: int, byte_size: int) -> None:
        """Copy `byte_size` bytes from `src_offset` on, counted from the data's beginning, to the beginning of a buffer.

        It does not wait for the data to be ready. The buffer is any of Python's or numpy's in C order that can be written to.

        Raises InternalError if they are not all in the tensor and in the buffer, or there is no data.
        """
        self._within("read", src_offset, byte_size).read(dest, self._offset + src_offset, byte_size)

    def write(self, dest_offset: int, src: Buffer, byte_size: int) -> None:
        """Copy `byte_size` bytes from the beginning of a buffer to `dest_offset`, counted from the data's beginning.

        Raises InternalError if they are not all in the tensor and in the buffer, there is no data, or the memory is
        read-only, as that of parameters is.
        """
        self._within("write", dest_offset, byte_size).write(self._offset + dest_offset, src, byte_size)

    def copyFrom(self, dest_offset: int, src_tensor: Tensor, src_offset: int, byte_size: int) -> None:
        """Copy `byte_size` bytes of another tensor, of any region, from `src_offset` on to `dest_offset`, once that one's
        data is ready.

        Raises InternalError if they are not all in both tensors, one has no data, or it is not ready within its device's wait
        time.
        """
        expect("Tensor.copyFrom: src_tensor", src_tensor, Tensor, "a tensor")
        source = src_tensor._within("copyFrom", src_offset, byte_size)
        target = self._within("copyFrom", dest_offset, byte_size)
        src_tensor._await("copyFrom")
        target.copyFrom(self._offset + dest_offset, source, src_tensor._offset + src_offset, byte_size)

    def copyData(self, b: Buffer) -> None:
        """Copy a buffer of the tensor's size in bytes, of elements of any type; memory of the host is allocated if there is
        none.

        Raises InternalError ([11003]) if the size is another.
        """
        data = as_bytes(contiguous(b), "Tensor.copyData")
        if data.size != self._bytes():
            raise failure(RANGE, f"Tensor.copyData: a buffer of {data.size} bytes for {described(self._dtype)}")
        if self._chunk is None:
            self.mallocOn(HostDevice.MemRegion())
        self.write(0, data, data.size)

    def _within(self, what: str, offset: int, byte_size: int) -> MemChunk:
        chunk, size = self._memory(what), self._bytes()
        if not 0 <= offset <= size or not 0 <= byte_size <= size - offset:
            raise failure(RANGE, f"Tensor.{what}: bytes {offset} to {offset + byte_size} of {size}")
        return chunk

    def fill(self, f: Callable[[int], float] | Callable[[int], int]) -> Self:
        """Set element by element to what `f` returns for its index in memory, as `Params.fill` does.

        Floats are rounded to the nearest, halves to even; of a calibrated type they are the real numbers.

        Raises InternalError if there is no memory for the data, a number does not fit the element type, of which integers hold
        no fractions and no more than their bits can, or the elements are ``fpe6m9`` or ``fpe7m8``.
        """
        self._memory("fill")
        try:
            data = filled(self._dtype, f)
        except Error as error:
            raise failure(RANGE, f"Tensor.fill: {described(self._dtype)}: {error}") from None
        self.write(0, data, data.nbytes)
        return self

    def to(self, mregion: MemRegion) -> Tensor:
        """Return the tensor in a region: itself if it lies there, else a copy, made once the data is ready.

        Raises InternalError if it is not ready within the device's wait time, or has no data.
        """
        expect("Tensor.to: mregion", mregion, MemRegion, "a memory region")
        if self.isOn(mregion):
            return self
        chunk = self._memory("to")
        self._await("to")
        size = self._bytes()
        target = mregion.malloc(size)
        target.copyFrom(0, chunk, self._offset, size)
        return Tensor(self._dtype, target)

    def dump(self, os: BinaryIO, format: str = "") -> None:
        """Write the data to a stream: the bytes as they lie in memory, or in a format of three letters.

        ``H`` leaves the axes as they lie, ``S`` puts split axes together, drops invalid channels and has channels last;
        ``F`` gives real numbers, ``Q`` the stored ones; ``B`` writes bytes, ``T`` one number per line. docs/icraft.md has
        the details.

        Raises InternalError for an unknown format, for ``Q`` of numbers that are not stored as integers, if there is no
        data, or it is not ready within the device's wait time.
        """
        self._await("dump")
        os.write(dumped(fetched(self, "dump"), self._dtype, format))

    # ---- as an array

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Return the elements as an array of numpy: of a tensor on the host a view, of one on a device a copy.

        Raises InternalError if it has no data, or is not ready within the wait time; ValueError if it is on a device and
        `copy` is False.
        """
        self._await("__array__")
        array = fetched(self, "__array__")
        if not self._on_host():
            if copy is False:
                raise ValueError("a tensor on a device cannot be seen by the host without a copy")
            return array if dtype is None else array.astype(dtype, copy=False)
        if dtype is not None and np.dtype(dtype) != array.dtype:
            if copy is False:
                raise ValueError(f"a tensor of {array.dtype} cannot be seen as {np.dtype(dtype)} without a copy")
            return array.astype(dtype)
        return array.copy() if copy else array

    def _on_host(self) -> bool:
        chunk = self._memory("__array__")
        return chunk.region._host_view(chunk.begin, 0) is not None

    def __buffer__(self, flags: int) -> memoryview:
        """Return the elements as a buffer that shares their memory (from Python 3.12 on).

        Raises BufferError if it is on a device.
        """
        if not self._on_host():
            raise BufferError("a tensor on a device has no buffer on the host; numpy.array(tensor) is a copy of it")
        return memoryview(np.asarray(self).data)

    def __bytes__(self) -> bytes:
        """Return a copy of the bytes."""
        return np.asarray(self).tobytes()

    def __len__(self) -> int:
        """Return the first extent."""
        shape = self._dtype.shape
        if not shape:
            raise TypeError("len() of a tensor without axes")
        return int(shape[0])

    # ---- as an object

    def _equals(self, other: Any) -> bool:
        if self._dtype != other._dtype or (self._chunk is None) != (other._chunk is None):
            return False
        return self._chunk is None or (self._chunk == other._chunk and self._offset == other._offset)

    def _json(self) -> Any:
        return {
            "_type_key": self._json_key(),
            "chunk": None if self._chunk is None else self._chunk._json(),
            "dtype": self._dtype._json(),
        }


def fetched(tensor: Tensor, what: str) -> npt.NDArray[Any]:
    """Return the elements of a tensor: sharing its memory if that is the host's, else a copy.

    Raises InternalError if it has no data.
    """
    if tensor._on_host():
        return on_host(tensor, what)
    shape, element = storage(tensor._dtype)
    array = np.empty(shape, element)
    tensor._memory(what).read(array.reshape(-1).view(np.uint8), tensor._offset, array.nbytes)
    return array


def on_host(tensor: Tensor, what: str) -> npt.NDArray[Any]:
    """Return the elements of a tensor on the host, sharing its memory.

    Raises InternalError if it has no data, or lies where the host cannot reach it.
    """
    chunk = tensor._memory(what)
    shape, element = storage(tensor._dtype)
    size = math.prod(shape) * element.itemsize
    begin = chunk._part(f"Tensor.{what}", tensor._offset, size)
    view = chunk.region._host_view(begin, size)
    if view is None:
        # The vendor's words: it has a physical address and nothing that the host could follow.
        begin.cptr()
        raise failure(
            TYPE, f"Tensor.{what}: its memory is not the host's; Tensor.to(HostDevice.MemRegion()) fetches it"
        )
    return view.view(element).reshape(shape)


def _checked(check: Any) -> CheckFunc | None:
    if check is not None and not callable(check):
        raise failure(TYPE, f"Tensor: the check function is a {type(check).__name__}, which cannot be called")
    function: CheckFunc | None = check
    return function
