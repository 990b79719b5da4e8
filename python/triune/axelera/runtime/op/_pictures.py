"""What is done to pictures before a model sees them."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from triune.axelera._image import ColorFormat
from triune.axelera.runtime._arguments import shown, whole_number
from triune.axelera.runtime._errors import InvalidArgument
from triune.axelera.runtime._images import Image
from triune.axelera.runtime.op._objects import CoordFormat, nearest
from triune.axelera.runtime.op._operators import FRAME, Array, FrameContext, Operator, array_of, numbers


class InterpolationMode(enum.Enum):
    """How pixels between pixels are made; `bilinear` is there."""

    nearest = "nearest"
    bilinear = "bilinear"
    bicubic = "bicubic"
    lanczos = "lanczos"


class TensorLayout(enum.Enum):
    """Whether channels come first or last."""

    CHW = "CHW"
    HWC = "HWC"


def _resized(image: Array, width: int, height: int) -> Array:
    """Return a picture in another size, bilinear between centres of pixels."""
    rows, columns = image.shape[:2]
    if (rows, columns) == (height, width):
        return image

    # What 32-bit floats do not hold, 64-bit ones do.
    real = np.float64 if image.dtype.itemsize > 2 and image.dtype != np.float32 else np.float32

    def along(count: int, wanted: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], Array]:
        at = np.clip((np.arange(wanted) + 0.5) * (count / wanted) - 0.5, 0, count - 1)
        first = np.floor(at).astype(np.intp)
        return first, np.minimum(first + 1, count - 1), (at - first).astype(real)

    top, bottom, down = along(rows, height)
    left, right, over = along(columns, width)
    over, down = (over[:, None], down[:, None, None]) if image.ndim == 3 else (over, down[:, None])
    values: Array = image.astype(real)
    wide = values[:, left] * (1 - over) + values[:, right] * over
    found: Array = wide[top] * (1 - down) + wide[bottom] * down
    return np.rint(found).astype(image.dtype) if image.dtype.kind in "iu" else found.astype(image.dtype)


def _extent(what: str, value: Any) -> int:
    """Return a count of pixels. Raises InvalidArgument for anything else."""
    number = None if isinstance(value, bool) else whole_number(value)
    if number is None or number < 1:
        raise InvalidArgument(f"{what}: expected a whole number of pixels, 1 or more, got {shown(value)}")
    return number


def _extents(what: str, size: Any) -> tuple[int, int]:
    """Return height and width: those given, or one number for both."""
    if isinstance(size, tuple | list | np.ndarray) and np.shape(size) == (2,):
        return _extent(f"{what}: height", size[0]), _extent(f"{what}: width", size[1])
    both = _extent(f"{what}: size", size)
    return both, both


def _color(what: str, color: Any, image: Array) -> Array:
    """Return a color as a picture has it: a number for each channel; of RGB the first one for gray, and again for alpha."""
    given, channels = numbers(what, color).reshape(-1), image.shape[2] if image.ndim == 3 else 1
    if given.size not in (1, 3, channels):
        raise InvalidArgument(f"{what}: expected a number or one for each of {channels} channels, got {given.size}")
    if image.dtype.kind in "biu":
        limits = (0, 1) if image.dtype == bool else (np.iinfo(image.dtype).min, np.iinfo(image.dtype).max)
        if not ((given >= limits[0]) & (given <= limits[1]) & (given == np.rint(given))).all():
            raise InvalidArgument(f"{what}: expected whole numbers from {limits[0]} to {limits[1]}, got {shown(color)}")
    return np.resize(given, image.shape[2:] or ()).astype(image.dtype)


def _picture(what: str, image: Any) -> Array:
    array = array_of(image)
    if isinstance(array, np.ndarray):
        array = numbers(what, array)
    if not isinstance(array, np.ndarray) or array.ndim not in (2, 3) or 0 in array.shape:
        shape = getattr(array, "shape", type(array).__name__)
        raise InvalidArgument(f"{what}: expected a picture, height by width by channels, got {shape}")
    return array


def _place(given: Array, made: Array, across: float, down: float, left: float, top: float) -> None:
    """Remember where a picture's pixels went, for the way back of boxes.

    A picture that another such operator made goes on from where that put it; any other one is the first.
    """
    frame = FRAME.get()
    if frame is None:
        return
    before = frame.saved.get("place")
    if before is not None and before.made is given:
        across, left = before.across * across, before.left * across + left
        down, top = before.down * down, before.top * down + top
        columns, rows = before.columns, before.rows
    else:
        rows, columns = given.shape[:2]
    frame.saved["place"] = Place(across, down, left, top, columns, rows, made)


class Place:
    """Where the pixels of a picture of `columns` by `rows` are in what was made of it: x·across + left, y·down + top."""

    def __init__(
        self, across: float, down: float, left: float, top: float, columns: int, rows: int, made: Array
    ) -> None:
        """Take all of it."""
        self.across, self.down, self.left, self.top = across, down, left, top
        self.columns, self.rows, self.made = columns, rows, made


class ColorConvert(Operator):
    """Brings a picture from one order of colors to another.

    `src` is what an array has; a picture that knows its own, an `Image` or Pillow's, is converted from that.
    """

    dst: Any
    src: Any = None

    def __call__(self, image: Any) -> Image:
        """Return the picture in the other order. Raises InvalidArgument if the order that it has is not known."""
        try:
            after = ColorFormat.parse(self.dst)
            found = Image.from_any(image, None if self.src is None else ColorFormat.parse(self.src))
            if found.color_format is ColorFormat.PACKED:
                raise InvalidArgument(
                    f"color_convert({after.name!r}): an array says no order of colors: give src, such as 'BGR'"
                )
            return found.convert(after)
        except (TypeError, ValueError) as error:
            raise InvalidArgument(f"color_convert: {error}") from None


class Resize(Operator):
    """Brings a picture to a size, or its smaller edge to one."""

    width: int = 0
    height: int = 0
    size: Any = 0
    half_pixel_centers: bool = True
    interpolation: Any = InterpolationMode.bilinear

    def __call__(self, image: Any) -> Array:
        """Return the picture. Raises InvalidArgument for another interpolation than bilinear, or without a size."""
        array = _picture("resize", image)
        if str(getattr(self.interpolation, "name", self.interpolation)) != "bilinear":
            raise InvalidArgument(f"resize: interpolation {self.interpolation!r}: bilinear is there")
        rows, columns = array.shape[:2]
        if isinstance(self.size, tuple | list | np.ndarray):
            height, width = _extents("resize", self.size)
        elif isinstance(self.size, bool) or self.size:
            size = _extent("resize: size", self.size)
            ratio = size / min(rows, columns)
            width, height = max(int(columns * ratio), size), max(int(rows * ratio), size)
        elif not self.width or not self.height:
            raise InvalidArgument("resize: expected width and height, or size")
        else:
            width, height = _extent("resize: width", self.width), _extent("resize: height", self.height)
        found = _resized(array, width, height)
        _place(array, found, width / columns, height / rows, 0, 0)
        return found


class CenterCrop(Operator):
    """Cuts out the middle of a picture."""

    size: Any

    def __call__(self, image: Any) -> Array:
        """Return the middle. Raises ValueError if it is larger than the picture, InvalidArgument for a size below 1."""
        array = _picture("center_crop", image)
        height, width = _extents("center_crop", self.size)
        rows, columns = array.shape[:2]
        if height > rows or width > columns:
            raise ValueError(f"center_crop: {height} by {width} of a picture of {rows} by {columns}")
        top, left = (rows - height) // 2, (columns - width) // 2
        found = array[top : top + height, left : left + width]
        _place(array, found, 1, 1, -left, -top)
        return found


class Letterbox(Operator):
    """Brings a picture into a size without changing its proportions, with a border where it does not fill it."""

    width: int
    height: int
    fill_color: Any = (114, 114, 114)

    def __call__(self, image: Any) -> Array:
        """Return the picture with its border; `ToImageSpace` takes boxes back.

        Raises InvalidArgument for a size below 1, and a color that the picture's dtype does not hold.
        """
        array = _picture("letterbox", image)
        across, down = _extent("letterbox: width", self.width), _extent("letterbox: height", self.height)
        rows, columns = array.shape[:2]
        ratio = min(across / columns, down / rows)
        width, height = max(round(columns * ratio), 1), max(round(rows * ratio), 1)
        left, top = (across - width) // 2, (down - height) // 2
        found = np.empty((down, across, *array.shape[2:]), array.dtype)
        found[...] = _color("letterbox: fill_color", self.fill_color, array)
        found[top : top + height, left : left + width] = _resized(array, width, height)
        _place(array, found, width / columns, height / rows, left, top)
        return found


def _source(what: str) -> tuple[FrameContext, Array]:
    """Return what is known of the picture under way, and its pixels."""
    frame = FRAME.get()
    if frame is None or frame.input is None:
        raise TypeError(f"{what}: no picture is known; call it within a pipeline or op.frame_context(image)")
    return frame, _picture(what, frame.input)


class CropRoi(Operator):
    """Cuts a box out of the picture under way: an object's, or of numbers in a row.

    The picture is the one that the pipeline, or `frame_context`, got, in the order of colors that it has there. What comes
    behind, within `ForEach`, works on the part: boxes that are found in it know where they are in the whole picture, too.
    A part has one pixel at least, as the vendor's stream operators have it, whose boxes hold the pixel of their last corner:
    of a box that lies on the picture's edge, or is smaller than a pixel, it is the nearest one.
    """

    property: str | None = None
    indices: Any = None
    format: Any = CoordFormat.XYXY

    def __call__(self, item: Any) -> Array:
        """Return the part, height by width by channels.

        Raises ValueError for a box whose last corner comes before its first or is no number, InvalidArgument for a format
        that is none, or indices that a row does not have, TypeError if there is no picture.
        """
        frame, array = _source("crop_roi")
        rows, columns = array.shape[:2]
        if self.indices is not None:
            left, top, right, bottom = self._numbers(np.asarray(array_of(item), np.float64), frame)
        elif self.property is not None:
            x0, y0, x1, y1 = getattr(item, self.property)
            # Up to the edge behind the last pixel, which no pixel's number says.
            left, right = (nearest(x * columns, columns + 1) for x in (x0, x1))
            top, bottom = (nearest(y * rows, rows + 1) for y in (y0, y1))
        else:
            raise InvalidArgument("crop_roi: expected property='bbox', or indices")
        if left > right or top > bottom:
            raise ValueError(f"crop_roi: a box from {left}, {top} to {right}, {bottom} ends before it begins")
        left, top = min(left, columns - 1), min(top, rows - 1)
        part = array[top : max(bottom, top + 1), left : max(right, left + 1)]
        frame.input, frame.saved = part, {}
        return part

    def _numbers(self, row: Array, frame: FrameContext) -> tuple[int, int, int, int]:
        """Return pixels of the picture for numbers in pixels of the model's input."""
        place = frame.saved.get("place")
        if place is None:
            raise InvalidArgument("crop_roi: no letterbox or resize was there before")
        kind = str(getattr(self.format, "name", self.format)).upper()
        if kind not in CoordFormat.__members__:
            raise InvalidArgument(
                f"crop_roi: format {shown(self.format)} is none of {', '.join(CoordFormat.__members__)}"
            )
        try:
            one, two, three, four = row[list(self.indices)]
        except (IndexError, TypeError, ValueError):
            raise InvalidArgument(
                f"crop_roi: indices {shown(self.indices)} are not four places of a row of shape {row.shape}"
            ) from None
        if kind != "XYXY":
            half = (three / 2, four / 2) if kind == "XYWH" else (0, 0)
            one, two = one - half[0], two - half[1]
            three, four = one + three, two + four
        left, right = (nearest((x - place.left) / place.across, place.columns + 1) for x in (one, three))
        top, bottom = (nearest((y - place.top) / place.down, place.rows + 1) for y in (two, four))
        return left, top, right, bottom


class CropRotatedRoi(Operator):
    """Cuts an `OrientedObject` out of the picture under way, turned upright."""

    def __call__(self, item: Any) -> Array:
        """Return the part, bilinear between pixels; zeros where the box leaves the picture.

        A part has one pixel at least. Raises ValueError for a box of less than no extent, TypeError if there is no picture.
        """
        frame, array = _source("crop_rotated_roi")
        rows, columns = array.shape[:2]
        if item.w < 0 or item.h < 0:
            raise ValueError(f"crop_rotated_roi: a box of {item.w} by {item.h} has less than no extent")
        width, height = max(round(item.w * columns), 1), max(round(item.h * rows), 1)
        cos, sin = math.cos(item.angle), math.sin(item.angle)
        x = (np.arange(width) + 0.5 - width / 2)[None, :]
        y = (np.arange(height) + 0.5 - height / 2)[:, None]
        across = item.cx * columns + x * cos - y * sin - 0.5
        down = item.cy * rows + x * sin + y * cos - 0.5
        left, top = np.floor(across).astype(np.intp), np.floor(down).astype(np.intp)
        tail = (1,) * (array.ndim - 2)
        over, under = (across - left).reshape(height, width, *tail), (down - top).reshape(height, width, *tail)
        found: Array = np.zeros((height, width, *array.shape[2:]), np.float32)
        for dy, dx in ((0, 0), (0, 1), (1, 0), (1, 1)):
            share = (over if dx else 1 - over) * (under if dy else 1 - under)
            at_y, at_x = top + dy, left + dx
            inside = ((at_y >= 0) & (at_y < rows) & (at_x >= 0) & (at_x < columns)).reshape(height, width, *tail)
            pixels = array[np.clip(at_y, 0, rows - 1), np.clip(at_x, 0, columns - 1)]
            found += np.where(inside, pixels * share, 0).astype(np.float32)
        part = np.rint(found).astype(array.dtype) if array.dtype.kind in "iu" else found.astype(array.dtype)
        frame.input, frame.saved = part, {}
        return part


class ToTensor(Operator):
    """Brings the channels of a picture to the front, and bytes to 0 to 1."""

    def __call__(self, image: Any) -> Array:
        """Return 32-bit floats, channels first."""
        array = ToImageTensor()(image)
        scale = np.float32(255) if array.dtype == np.uint8 else np.float32(1)
        return array.astype(np.float32) / scale


class ToImageTensor(Operator):
    """Brings the channels of a picture to the front."""

    def __call__(self, image: Any) -> Array:
        """Return the same numbers, channels first."""
        array = _picture("to_image_tensor", image)
        array = array[..., None] if array.ndim == 2 else array
        return np.ascontiguousarray(array.transpose(2, 0, 1))


class ToDtype(Operator):
    """Makes numbers of another dtype; with `scale`, the range of integers becomes that of 0 to 1, or −1 to 1."""

    dtype: Any = np.float32
    scale: bool = False

    def __call__(self, tensor: Any) -> Array:
        """Return the numbers: with `scale`, bytes by 255, 16-bit integers by 32768.

        Raises InvalidArgument for numbers that the dtype does not hold; with `scale`, for another dtype than floats', and for
        integers whose range is not known.
        """
        array = numbers("to_dtype", tensor)
        try:
            dtype = np.dtype(self.dtype)
        except TypeError:
            raise InvalidArgument(f"to_dtype: {shown(self.dtype)} is no dtype") from None
        if not self.scale:
            return _fitting(array, dtype)
        if dtype.kind != "f":
            raise InvalidArgument(f"to_dtype: scale=True makes floats, not {dtype}")
        divisors = {np.dtype(np.uint8): 255, np.dtype(np.int16): 32768}
        if array.dtype.kind in "iu" and array.dtype not in divisors:
            raise InvalidArgument(f"to_dtype: scale=True takes uint8, int16 and floats, not {array.dtype}")
        found: Array = array.astype(dtype) / dtype.type(divisors.get(array.dtype, 1))
        return found


def _fitting(array: Array, dtype: np.dtype[Any]) -> Array:
    """Return numbers of another dtype, floats without their fractions. Raises InvalidArgument for what it does not hold."""
    if dtype.kind in "iu" and array.size and array.dtype != dtype:
        limits, least, most = np.iinfo(dtype), array.min(), array.max()
        if not (np.trunc(least) >= limits.min and np.trunc(most) <= limits.max):
            raise InvalidArgument(
                f"to_dtype: {dtype} holds {limits.min} to {limits.max}, and there are {least} to {most}"
            )
    return array.astype(dtype)


def _channels(what: str, values: Sequence[float], layout: Any, tensor: Array) -> Array:
    """Return a number for each channel, in the shape that goes with pictures."""
    order = str(getattr(layout, "name", layout)).upper()
    if order not in TensorLayout.__members__:
        raise InvalidArgument(f"{what}: layout {shown(layout)} is none of {', '.join(TensorLayout.__members__)}")
    array = numbers(what, values, np.float32).reshape(-1)
    axis, least = (-3, 3) if order == "CHW" else (-1, 1)
    if array.size != 1 and (tensor.ndim < least or tensor.shape[axis] != array.size):
        raise InvalidArgument(
            f"{what}: {array.size} numbers for the channels of {tensor.shape}, whose order is {order}"
        )
    if not np.isfinite(array).all():
        raise InvalidArgument(f"{what}: expected finite numbers, got {shown(values)}")
    return array[:, None, None] if order == "CHW" else array


def _divisors(what: str, values: Sequence[float], layout: Any, tensor: Array) -> Array:
    array = _channels(what, values, layout, tensor)
    if not array.all():
        raise InvalidArgument(f"{what}: expected numbers other than 0, got {shown(values)}")
    return array


class Normalize(Operator):
    """Takes a mean off each channel, and divides by a deviation."""

    mean: Sequence[float]
    std: Sequence[float]
    layout: Any = TensorLayout.CHW

    def __call__(self, tensor: Any) -> Array:
        """Return (x − mean) / std, channels first, or last for the layout HWC.

        Raises InvalidArgument if there is neither one number nor one for each channel, and for a deviation of 0.
        """
        array = numbers("normalize", tensor)
        mean = _channels("normalize: mean", self.mean, self.layout, array)
        found: Array = (array - mean) / _divisors("normalize: std", self.std, self.layout, array)
        return found


class LinearScaling(Operator):
    """Divides each channel by a number, and adds one."""

    scale: Sequence[float]
    shift: Sequence[float] = (0.0,)
    layout: Any = TensorLayout.CHW

    def __call__(self, tensor: Any) -> Array:
        """Return x / scale + shift as 32-bit floats, channels first, or last for the layout HWC.

        Raises InvalidArgument if there is neither one number nor one for each channel, and for a scale of 0.
        """
        array = numbers("linear_scaling", tensor, np.float32)
        scale = _divisors("linear_scaling: scale", self.scale, self.layout, array)
        found: Array = array / scale + _channels("linear_scaling: shift", self.shift, self.layout, array)
        return found


class ContrastNormalize(Operator):
    """Stretches a picture so that its smallest number is 0 and its largest 1."""

    def __call__(self, tensor: Any) -> Array:
        """Return 32-bit floats; zeros of a picture that is the same everywhere. Raises InvalidArgument for NaN and infinity."""
        array = numbers("contrast_normalize", tensor, np.float32)
        if not array.size or not np.isfinite(array).all():
            raise InvalidArgument("contrast_normalize: expected finite numbers, one at least")
        low, high = array.min(), array.max()
        found: Array = (array - low) / (high - low) if high > low else np.zeros_like(array)
        return found
