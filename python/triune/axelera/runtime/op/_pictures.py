"""What is done to pictures before a model sees them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from triune.axelera.runtime._errors import InvalidArgument
from triune.axelera.runtime.op._operators import FRAME, Array, Operator, array_of


def _resized(image: Array, width: int, height: int) -> Array:
    """Return a picture in another size, bilinear between centres of pixels."""
    rows, columns = image.shape[:2]
    if (rows, columns) == (height, width):
        return image

    def along(count: int, wanted: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], npt.NDArray[np.float32]]:
        at = np.clip((np.arange(wanted) + 0.5) * (count / wanted) - 0.5, 0, count - 1)
        first = np.floor(at).astype(np.intp)
        return first, np.minimum(first + 1, count - 1), (at - first).astype(np.float32)

    top, bottom, down = along(rows, height)
    left, right, over = along(columns, width)
    over, down = (over[:, None], down[:, None, None]) if image.ndim == 3 else (over, down[:, None])
    values = image.astype(np.float32)
    wide = values[:, left] * (1 - over) + values[:, right] * over
    found = wide[top] * (1 - down) + wide[bottom] * down
    return np.rint(found).astype(image.dtype) if image.dtype.kind in "iu" else found.astype(image.dtype)


def _picture(what: str, image: Any) -> Array:
    array = array_of(image)
    if not isinstance(array, np.ndarray) or array.ndim not in (2, 3) or 0 in array.shape:
        shape = getattr(array, "shape", type(array).__name__)
        raise InvalidArgument(f"{what}: expected a picture, height by width by channels, got {shape}")
    return array


class ColorConvert(Operator):
    """Brings a picture from one order of colors to another."""

    dst: str
    src: str | None = None

    def __call__(self, image: Any) -> Array:
        """Return the picture in the other order. Raises InvalidArgument if the order that it has is not known."""
        source = self.src or getattr(image, "mode", None)
        if source is None:
            raise InvalidArgument(
                f"color_convert({self.dst!r}): an array says no order of colors: give src, such as 'BGR'"
            )
        before, after = source.upper(), self.dst.upper()
        known = {"RGB", "BGR", "RGBA", "BGRA", "GRAY", "L"}
        for one in (before, after):
            if one not in known:
                raise InvalidArgument(f"color_convert: expected one of BGR, RGB, GRAY, BGRA, RGBA, got {one!r}")
        array = _picture("color_convert", image)
        if before in ("GRAY", "L"):
            planes = dict.fromkeys("RGB", array if array.ndim == 2 else array[..., 0])
        else:
            if array.ndim != 3 or array.shape[2] != len(before):
                raise InvalidArgument(f"color_convert: {before} has {len(before)} channels, the picture {array.shape}")
            planes = {letter: array[..., place] for place, letter in enumerate(before)}
        if after in ("GRAY", "L"):
            # The weights of BT.601, as OpenCV has them.
            grey = planes["R"] * np.float32(0.299) + planes["G"] * np.float32(0.587) + planes["B"] * np.float32(0.114)
            return np.rint(grey).astype(array.dtype)
        opaque = np.full(array.shape[:2], 255 if array.dtype == np.uint8 else 1, array.dtype)
        return np.stack([planes.get(letter, opaque) for letter in after], -1)


class Resize(Operator):
    """Brings a picture to a size, or its smaller edge to one."""

    width: int = 0
    height: int = 0
    size: int = 0
    half_pixel_centers: bool = False
    interpolation: Any = "bilinear"

    def __call__(self, image: Any) -> Array:
        """Return the picture. Raises InvalidArgument for another interpolation than bilinear."""
        array = _picture("resize", image)
        if str(getattr(self.interpolation, "name", self.interpolation)) != "bilinear":
            raise InvalidArgument(f"resize: interpolation {self.interpolation!r}: bilinear is there")
        width, height = self.width, self.height
        if self.size:
            rows, columns = array.shape[:2]
            ratio = self.size / min(rows, columns)
            width, height = max(int(columns * ratio), self.size), max(int(rows * ratio), self.size)
        if width < 1 or height < 1:
            raise InvalidArgument("resize: expected width and height, or size")
        return _resized(array, width, height)


class CenterCrop(Operator):
    """Cuts out the middle of a picture."""

    size: Any

    def __call__(self, image: Any) -> Array:
        """Return the middle. Raises ValueError if it is larger than the picture."""
        array = _picture("center_crop", image)
        height, width = (self.size, self.size) if isinstance(self.size, int) else tuple(self.size)
        rows, columns = array.shape[:2]
        if height > rows or width > columns:
            raise ValueError(f"center_crop: {height} by {width} of a picture of {rows} by {columns}")
        top, left = (rows - height) // 2, (columns - width) // 2
        return array[top : top + height, left : left + width]


class Letterbox(Operator):
    """Brings a picture into a size without changing its proportions, with a border where it does not fill it."""

    width: int
    height: int
    fill_color: Any = (114, 114, 114)

    def __call__(self, image: Any) -> Array:
        """Return the picture with its border; `ToImageSpace` takes boxes back."""
        array = _picture("letterbox", image)
        rows, columns = array.shape[:2]
        ratio = min(self.width / columns, self.height / rows)
        width, height = max(round(columns * ratio), 1), max(round(rows * ratio), 1)
        left, top = (self.width - width) // 2, (self.height - height) // 2
        color = np.resize(np.asarray(self.fill_color), array.shape[2:] or ()).astype(array.dtype)
        found = np.empty((self.height, self.width, *array.shape[2:]), array.dtype)
        found[...] = color
        found[top : top + height, left : left + width] = _resized(array, width, height)
        frame = FRAME.get()
        if frame is not None:
            frame.saved["letterbox"] = (width / columns, height / rows, left, top, columns, rows)
        return found


class ToTensor(Operator):
    """Brings the channels of a picture to the front, and bytes to 0 to 1."""

    def __call__(self, image: Any) -> Array:
        """Return 32-bit floats, channels first."""
        array = _picture("to_tensor", image)
        array = array[..., None] if array.ndim == 2 else array
        scale = np.float32(255) if array.dtype == np.uint8 else np.float32(1)
        return np.ascontiguousarray(array.transpose(2, 0, 1).astype(np.float32) / scale)


class Normalize(Operator):
    """Takes a mean off each channel, and divides by a deviation."""

    mean: Sequence[float]
    std: Sequence[float]

    def __call__(self, tensor: Any) -> Array:
        """Return (x − mean) / std, channels first."""
        mean, std = (np.asarray(one, np.float32)[:, None, None] for one in (self.mean, self.std))
        found: Array = (array_of(tensor) - mean) / std
        return found
