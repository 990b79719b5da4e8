"""The vendor's value types: `BoardType`, `DeviceInfo`, `TensorInfo`."""

from __future__ import annotations

import enum
import math
import operator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from triune import _native

from . import axruntime
from ._arguments import array_of_numbers, shown, whole_number
from ._errors import InvalidArgument, vendor

__all__ = ["BoardType", "DeviceInfo", "TensorInfo"]

_INT8 = np.dtype(np.int8)


class BoardType(enum.Enum):
    """The form of a board."""

    alpha_pcie = 0
    alpha_m2 = 1
    pcie = 2
    m2 = 3
    devboard = 4
    sbc = 5
    unknown = 6


def _text(value: bytes | str) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


@dataclass(frozen=True, init=False)
class DeviceInfo:
    """A device as `Context.list_devices` found it; also names the device to configure or connect to."""

    name: str
    """The name, such as ``metis-0:1:0``."""
    subdevice_count: int
    """How many sub-devices it has: 4 on metis."""
    max_memory: int
    """Memory in bytes: of the form of the board, unless the description of the virtual card says otherwise."""
    in_use: bool
    """Whether sub-devices were in use when the devices were listed."""
    in_use_by: str
    """Who used them, as ``user:pid``, comma separated."""
    board_type: BoardType
    """The form of the board."""
    firmware_version: str
    """The version of the firmware."""
    board_revision: int
    """The revision of the board."""
    flashed_firmware_version: str
    """The version of the firmware in flash memory."""
    board_controller_firmware_version: str
    """The version of the board controller's firmware."""
    board_controller_board_type: str
    """The board controller's name for the board."""

    def __init__(self, raw: axruntime.DeviceInfo) -> None:
        """Wrap the C API's record: bytes become str."""
        values = {
            "name": _text(raw.name),
            "subdevice_count": int(raw.subdevice_count),
            "max_memory": int(raw.max_memory),
            "in_use": bool(raw.in_use),
            "in_use_by": _text(raw.in_use_by),
            "board_type": BoardType(int(raw.board_type)),
            "firmware_version": _text(raw.firmware_version),
            "board_revision": int(raw.board_revision),
            "flashed_firmware_version": _text(raw.flashed_firmware_version),
            "board_controller_firmware_version": _text(raw.board_controller_firmware_version),
            "board_controller_board_type": _text(raw.board_controller_board_type),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)


@dataclass
class TensorInfo:
    """A model's input or output: the buffer on the card, and how reals lie in it."""

    shape: tuple[int, ...]
    """The buffer's shape, padding included."""
    dtype: np.dtype[Any] = _INT8
    """The buffer's element type."""
    name: str = ""
    """The tensor's name."""
    padding: list[tuple[int, int]] = field(default_factory=list)
    """Elements before and after the data along each axis, as `numpy.pad` takes them. None at all by default."""
    scale: float = 1.0
    """The real value of one step."""
    zero_point: int = 0
    """The integer that stands for 0."""

    def __post_init__(self) -> None:
        """Bring the fields to their types, and check that they fit together."""
        try:
            self.shape = tuple(operator.index(extent) for extent in self.shape)
            self.dtype = np.dtype(self.dtype)
            pairs = self.padding or [(0, 0)] * len(self.shape)
            self.padding = [(operator.index(before), operator.index(after)) for before, after in pairs]
        except (TypeError, ValueError) as error:
            raise InvalidArgument(f"TensorInfo: expected a shape, a dtype and pairs of padding: {error}") from None
        self._expect_quantization()
        if len(self.padding) != len(self.shape):
            raise InvalidArgument(
                f"padding: expected {len(self.shape)} pairs for shape {self.shape}, got {self.padding}"
            )
        if any(b < 0 or a < 0 or b + a > n for n, (b, a) in zip(self.shape, self.padding, strict=True)):
            raise InvalidArgument(f"padding: expected pairs within shape {self.shape}, got {self.padding}")

    def _expect_quantization(self) -> None:
        """Check what can be set at any time."""
        real = isinstance(self.scale, float | np.floating) or not (
            isinstance(self.scale, bool) or whole_number(self.scale) is None
        )
        if not real:
            raise InvalidArgument(f"scale: expected a number, got {shown(self.scale)}")
        zero = None if isinstance(self.zero_point, bool) else whole_number(self.zero_point)
        if zero is None or not -(1 << 31) <= zero < 1 << 31:
            raise InvalidArgument(f"zero_point: expected an integer of 32 bits, got {shown(self.zero_point)}")
        self.zero_point = zero

    @property
    def size(self) -> int:
        """The buffer's size in bytes, padding included: the product of `shape` times the element's bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def unpadded_shape(self) -> tuple[int, ...]:
        """The extents without padding, axis by axis: those of the array that `quantize` takes and `dequantize` returns."""
        return tuple(extent - before - after for extent, (before, after) in zip(self.shape, self.padding, strict=True))

    def quantize(self, src: npt.ArrayLike) -> npt.NDArray[Any]:
        """Turn reals of `unpadded_shape` into the padded buffer. An addition to the vendor's class.

        The result has the bits of the documented lines
        ``np.pad(np.round((src / scale) + zero_point).clip(-128, 127).astype(np.int8), padding,
        constant_values=zero_point)``, in one native pass for float32 and uint8 (for a uint8 buffer with its limits).

        Raises `InvalidArgument` if the shape is another, or there is no quantization to this dtype.
        """
        array = np.require(array_of_numbers("src", src), requirements=("C", "A"))
        self._expect("src", array.shape, self.unpadded_shape)
        if self.dtype not in (np.int8, np.uint8):
            if array.dtype != self.dtype:
                raise InvalidArgument(f"src: expected {self.dtype} for tensor {self.name!r}, got {array.dtype}")
            return np.pad(array, self.padding)
        limits = np.iinfo(self.dtype)
        self._expect_quantization()
        if not limits.min <= self.zero_point <= limits.max:
            raise InvalidArgument(f"zero_point: expected one that {self.dtype} holds, got {self.zero_point}")
        try:
            if array.dtype == np.uint8:
                return _native.look_up_pad(array, self.padding, self._table(), self.zero_point, self.dtype.name)
            if array.dtype == np.float32:
                return _native.quantize_pad(array, self.padding, self.scale, self.zero_point, self.dtype.name)
        except _native.Error as error:
            raise vendor(error) from None
        return np.pad(self._quantized(array), self.padding, constant_values=self.zero_point)

    def _quantized(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        limits = np.iinfo(self.dtype)
        return np.round((array / self.scale) + self.zero_point).clip(limits.min, limits.max).astype(self.dtype)

    def _table(self) -> bytes:
        # numpy divides bytes in float64: the 256 results of its own lines are the specification.
        return self._quantized(np.arange(256, dtype=np.uint8)).tobytes()

    def dequantize(self, out: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Turn the padded buffer into reals of `unpadded_shape`. An addition to the vendor's class.

        The result has the bits of the documented lines, ``(depadded.astype(np.float32) - zero_point) * scale``.

        Raises `InvalidArgument` if `out` is not an array of `shape` and `dtype`.
        """
        array = array_of_numbers("out", out)
        self._expect("out", array.shape, self.shape)
        self._expect_quantization()
        if array.dtype != self.dtype:
            raise InvalidArgument(f"out: expected {self.dtype} for tensor {self.name!r}, got {array.dtype}")
        if self.dtype in (np.int8, np.uint8):
            try:
                return _native.depad_dequantize(np.ascontiguousarray(array), self.padding, self.scale, self.zero_point)
            except _native.Error as error:
                raise vendor(error) from None
        return (self.depadded(array).astype(np.float32) - np.float32(self.zero_point)) * np.float32(self.scale)

    def depadded(self, out: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the part of the padded buffer that is data, as it is: of `unpadded_shape`. An addition to the vendor's class.

        Raises `InvalidArgument` if `out` is not an array of `shape`.
        """
        array = array_of_numbers("out", out)
        self._expect("out", array.shape, self.shape)
        return array[tuple(slice(before, -after or None) for before, after in self.padding)]

    def _expect(self, argument: str, got: tuple[int, ...], expected: tuple[int, ...]) -> None:
        if got != expected:
            raise InvalidArgument(f"{argument}: expected shape {expected} for tensor {self.name!r}, got {got}")
