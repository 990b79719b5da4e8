"""Pictures as tensors, read with Pillow and resized as OpenCV does it."""

from __future__ import annotations

import os
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from triune._depth import eight_bits
from triune._files import opened
from triune.errors import ArgumentError, FileError
from triune.icraft._xir.conversions import bound
from triune.icraft._xir.layout import Layout
from triune.icraft._xir.values import Value
from triune.icraft._xrt.elements import described
from triune.icraft._xrt.errors import FILE, LOAD, RANGE, TYPE, expect, failure
from triune.icraft._xrt.tensor import Tensor

__all__ = ["Image2Tensor", "resized"]

Pixels = npt.NDArray[Any]

_UNCHANGED = {"L", "RGB", "RGBA"}


@overload
def Image2Tensor(img_path: str | os.PathLike[str], height: int = -1, width: int = -1) -> Tensor: ...
@overload
def Image2Tensor(img_path: str | os.PathLike[str], value: Value, bgr_order: bool = True) -> Tensor: ...
@bound
def Image2Tensor(img_path: str | os.PathLike[str], *args: Any, **keywords: Any) -> Tensor:
    """Read a picture: ``(path, height, width)``, where -1 keeps an extent, or ``(path, value, bgr_order)``.

    The first form gives uint8 in ``NHWC``, with as many channels as the picture has: 1 (grey), 3 (RGB) or 4 (RGBA). The
    second gives a tensor of the value's type, extents and channels, blue first if `bgr_order`. Pictures are resized
    bilinearly, with OpenCV's numbers.

    Raises ImportError without Pillow, InternalError if the file is not there or no picture, or if the value's type is
    no picture's.
    """
    for_value = "value" in keywords or bool(args and isinstance(args[0], Value))
    names = ("value", "bgr_order") if for_value else ("height", "width")
    first, second = ({names[0]: -1, names[1]: -1} | dict(zip(names, args, strict=False)) | keywords).values()
    if for_value:
        return _for_value(img_path, first, second)
    pixels = resized(_read(img_path, None), _extent("height", first), _extent("width", second))
    return Tensor(pixels[np.newaxis], Layout("NHWC"))


def _extent(what: str, extent: int) -> int:
    expect(f"Image2Tensor: {what}", extent, int, "a number of pixels")
    if extent != -1 and not 0 < extent <= 1 << 16:
        raise failure(RANGE, f"Image2Tensor: {what} {extent}; -1 keeps it, 1 to 65536 can be")
    return extent


def _for_value(path: str | os.PathLike[str], value: Value, bgr_order: bool) -> Tensor:
    dtype = value.tensorType()
    layout = dtype.layout
    shape = dtype.shape
    names = [axis.name for axis in layout.axis_names]
    if sorted(names) != sorted("NHWC") or len(shape) != 4 or shape[names.index("N")] not in (1, -1):
        raise failure(
            TYPE, f"Image2Tensor: value {value.v_id} is {described(dtype)} in {layout.toString()}, which is no picture"
        )
    height, width, channels = (shape[names.index(axis)] for axis in "HWC")
    if channels not in (1, 3, 4, -1):
        raise failure(TYPE, f"Image2Tensor: value {value.v_id} has {channels} channels; pictures have 1, 3 or 4")
    pixels = resized(
        _read(path, None if channels == -1 else channels), _extent("height", height), _extent("width", width)
    )
    if bgr_order and pixels.shape[2] >= 3:
        pixels = pixels[..., [2, 1, 0, *range(3, pixels.shape[2])]]
    array = pixels[np.newaxis].transpose([("NHWC").index(name) for name in names])
    element = dtype.element_dtype._numpy()
    if element.kind not in "iuf" or dtype.element_dtype._storage().isBF16():
        raise failure(TYPE, f"Image2Tensor: value {value.v_id} is {described(dtype)}, which holds no pixels")
    if element.kind == "i" and element.itemsize == 1:
        raise failure(TYPE, f"Image2Tensor: pixels of 0 to 255 do not fit {described(dtype)}; Cast quantizes a tensor")
    if dtype.hasNegativeDim():
        dtype = dtype.clone().setShape(array.shape)
    return Tensor(np.ascontiguousarray(array, element), dtype)


def _read(path: str | os.PathLike[str], channels: int | None) -> Pixels:
    """Return the pixels, height by width by channels; as many channels as there are if None."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise ImportError(
            "Image2Tensor reads pictures with Pillow: pip install 'triune[images]'", name=error.name
        ) from error
    try:
        if not os.path.lexists(path):
            raise failure(FILE, f"Image2Tensor: there is no file {path}")
        with opened(path) as file, Image.open(file) as opened_image:
            image: Image.Image = eight_bits(opened_image)
            mode = {1: "L", 3: "RGB", 4: "RGBA"}[channels] if channels else image.mode
            if mode not in _UNCHANGED:
                mode = "RGBA" if "A" in mode or "transparency" in image.info else "L" if mode == "1" else "RGB"
            pixels = np.asarray(image if image.mode == mode else image.convert(mode))
    except UnidentifiedImageError:
        raise failure(LOAD, f"Image2Tensor: {path} is no picture that Pillow knows") from None
    except ArgumentError as error:
        raise failure(LOAD, f"Image2Tensor: {path}: {error}") from None
    except FileError as error:
        raise failure(LOAD, f"Image2Tensor: {error}") from None
    except (OSError, Image.DecompressionBombError) as error:
        raise failure(LOAD, f"Image2Tensor: {path}: {error}") from None
    return pixels if pixels.ndim == 3 else pixels[..., np.newaxis]


# ---- resizing

_ONE = 1 << 11
"""The fixed-point unit of OpenCV's coefficients for pixels of 8 bits."""


def resized(pixels: Pixels, height: int, width: int) -> Pixels:
    """Return uint8 pixels bilinearly resized (-1 keeps an extent), with the numbers of OpenCV's INTER_LINEAR.

    Centres of pixels are aligned and edges repeated; coefficients have 11 bits. Exactly half in both directions is the mean
    of 4 pixels, rounded half up.
    """
    old_height, old_width, _ = pixels.shape
    height = old_height if height == -1 else height
    width = old_width if width == -1 else width
    if (height, width) == (old_height, old_width):
        return pixels
    if (height * 2, width * 2) == (old_height, old_width):
        four: Pixels = pixels.astype(np.int32).reshape(height, 2, width, 2, -1).sum((1, 3))
        mean: Pixels = ((four + 2) >> 2).astype(np.uint8)
        return mean
    left, right, near, far = _coefficients(old_width, width, edges_alone=True)
    top, bottom, upper, lower = _coefficients(old_height, height, edges_alone=False)
    source = pixels.astype(np.int32)
    rows = source[:, left] * near[:, np.newaxis] + source[:, right] * far[:, np.newaxis]
    over, under = (rows[places] >> 4 for places in (top, bottom))
    above = (over * upper[:, np.newaxis, np.newaxis]) >> 16
    below = (under * lower[:, np.newaxis, np.newaxis]) >> 16
    result: Pixels = np.clip((above + below + 2) >> 2, 0, 255).astype(np.uint8)
    return result


def _coefficients(old: int, new: int, *, edges_alone: bool) -> tuple[Pixels, Pixels, Pixels, Pixels]:
    """Return, for each new place, the two old ones and their weights.

    At the edges the two are the same; with `edges_alone` one of them has all the weight, which rounds differently.
    """
    place = ((np.arange(new) + 0.5) * (old / new) - 0.5).astype(np.float32)
    first = np.floor(place).astype(np.int64)
    fraction = place - first.astype(np.float32)
    if edges_alone:
        fraction = np.where((first < 0) | (first >= old - 1), np.float32(0), fraction)
    weight = np.rint(fraction * np.float32(_ONE)).astype(np.int32)
    other = np.rint((np.float32(1) - fraction) * np.float32(_ONE)).astype(np.int32)
    return np.clip(first, 0, old - 1), np.clip(first + 1, 0, old - 1), other, weight
