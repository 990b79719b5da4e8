"""From a picture's file to a network's input: decode, cut out, scale, and the numbers, the latter in one pass by the core."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import numpy.typing as npt

from triune import _native
from triune._files import opened
from triune.errors import ArgumentError, FileError

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["SUFFIXES", "Frame", "Preprocess"]

SUFFIXES = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"})
"""Endings of files that are taken for pictures."""

_TABLED = ("float32", "int8", "uint8")
"""Dtypes that pixels become."""

Fit = Literal["stretch", "crop", "pad"]


@dataclass(frozen=True)
class Frame:
    """What a network takes of one picture."""

    name: str
    """The input's name, for errors."""
    channels: int
    """1 or 3."""
    height: int
    width: int
    dtype: str
    last: bool
    """Whether channels are the last axis, as in pictures; else they are the first."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """The extents, without the batch."""
        size = (self.height, self.width)
        return (*size, self.channels) if self.last else (self.channels, *size)

    @classmethod
    def of(cls, name: str, dtype: str, shape: Sequence[int | str], size: tuple[int, int] | None) -> Self | None:
        """Return the frame of an input (N, C, H, W) or (N, H, W, C), None if it is no picture's.

        Open heights and widths are those of `size`, (H, W); without one, the input is no picture's.
        """
        if len(shape) != 4 or dtype not in _TABLED:
            return None
        for last in (False, True):
            channels, *sides = (shape[3], *shape[1:3]) if last else shape[1:]
            height, width = (
                side if isinstance(side, int) else size[axis] if size else 0 for axis, side in enumerate(sides)
            )
            if channels in (1, 3) and height and width and size in (None, (height, width)):
                return cls(name, int(channels), height, width, dtype, last)
        return None


@dataclass(frozen=True)
class Preprocess:
    """How a picture becomes a network's input.

    It is scaled to the input's size, and its pixels p of 0 to 255 become (p / scale − mean) / std, in float32 and this order. For
    inputs of int8 and uint8 that is rounded, and has to fit. Pictures lie as their pixels do: an orientation that a camera noted
    in the file is not applied.
    """

    fit: Fit = "stretch"
    """How a picture of other proportions fits: it is stretched, or its middle is cut out, or it is padded with `fill`."""
    part: float = 1.0
    """With ``crop``: how much of the largest middle that fits is cut out, by its sides; 0.875 is 224 of 256."""
    fill: int = 0
    """With ``pad``: the pixels around the picture, which lies in the middle."""
    scale: float = 255.0
    """Divides pixels first."""
    mean: float | tuple[float, ...] = 0.0
    """Is subtracted then: one for all channels, or one each, in the order of `color`."""
    std: float | tuple[float, ...] = 1.0
    """Divides then, as `mean`."""
    color: Literal["rgb", "bgr"] = "rgb"
    """The order of the network's channels."""
    filter: Literal["nearest", "bilinear", "bicubic", "lanczos"] = "bilinear"
    """How pixels are interpolated, by Pillow, which takes all pixels into account when a picture shrinks."""
    reducing_gap: float | None = None
    """Decode JPEGs at a half, quarter or eighth as long as they stay so many times as large as the result. Faster, and with 2 or
    more hard to tell from all pixels; None decodes all."""
    size: tuple[int, int] | None = None
    """(H, W), where the model leaves them open."""

    def __post_init__(self) -> None:
        """Check what no model is needed for. Raises ArgumentError."""
        for name, choices in (
            ("fit", ("stretch", "crop", "pad")),
            ("color", ("rgb", "bgr")),
            ("filter", ("nearest", "bilinear", "bicubic", "lanczos")),
        ):
            if (value := getattr(self, name)) not in choices:
                raise ArgumentError(f"{name}: expected one of {', '.join(choices)}, got {value!r}")
        if not 0 < self.part <= 1:
            raise ArgumentError(f"part: expected more than 0 and at most 1, got {self.part}")
        if not 0 <= self.fill <= 255:
            raise ArgumentError(f"fill: expected 0 to 255, got {self.fill}")
        if self.reducing_gap is not None and not self.reducing_gap >= 1:
            raise ArgumentError(f"reducing_gap: expected at least 1 or None, got {self.reducing_gap}")
        for name in ("scale", "mean", "std"):
            value = getattr(self, name)
            values = value if isinstance(value, tuple) else (value,)
            if not all(math.isfinite(each) and (name == "mean" or each != 0) for each in values):
                other = "" if name == "mean" else " other than 0"
                raise ArgumentError(f"{name}: expected finite numbers{other}, got {value}")

    @classmethod
    def imagenet(cls, **changes: Any) -> Self:
        """Return what networks trained on ImageNet take: the middle 224 of 256, and its mean and deviation."""
        usual: dict[str, Any] = {
            "fit": "crop",
            "part": 0.875,
            "mean": (0.485, 0.456, 0.406),
            "std": (0.229, 0.224, 0.225),
        }
        return cls(**(usual | changes))

    @classmethod
    def default(cls, dtype: str) -> Self:
        """Return what is taken where nothing is said: pixels from 0 to 1, as they are for uint8, less 128 for int8."""
        return {"uint8": cls(scale=1.0), "int8": cls(scale=1.0, mean=128.0)}.get(dtype, cls())

    def write(self, source: Any, frame: Frame, out: npt.NDArray[Any]) -> None:
        """Write the input for a picture to `out`, a C-contiguous array of `frame`'s dtype and shape.

        `source` is a path, the bytes of a file, a `PIL.Image.Image` or a uint8 array (H, W) or (H, W, 1, 3 or 4).

        Raises ArgumentError if it is no picture that can be read, FileError if there is no such file, ImportError without
        Pillow where it is needed.
        """
        try:
            self.fill_in(source, frame, out)
        except ArgumentError as error:
            named = f"{os.fsdecode(source)}: " if isinstance(source, str | os.PathLike) else ""
            raise ArgumentError(f"{named}{error}") from None

    def fill_in(self, source: Any, frame: Frame, out: npt.NDArray[Any]) -> None:
        """Do what `write` does, with errors that do not name the picture."""
        pixels = self._exact(source, frame)
        if pixels is None:
            pixels = self._pixels(source, frame)
        if self.color == "bgr" and frame.channels == 3:
            pixels = np.ascontiguousarray(pixels[..., ::-1])
        _native.spread_pixels(pixels, _tables(self, frame), out, frame.last)

    def check(self, frame: Frame) -> None:
        """Check that there are as many means as channels, and the numbers fit the input. Raises ArgumentError."""
        _tables(self, frame)

    def _exact(self, source: Any, frame: Frame) -> npt.NDArray[np.uint8] | None:
        """Return an array that needs no scaling as it is."""
        if not isinstance(source, np.ndarray) or source.dtype != np.uint8 or (self.fit == "crop" and self.part < 1):
            return None
        if source.ndim == 2 and frame.channels == 1:
            source = source[..., None]
        wanted = (frame.height, frame.width, frame.channels)
        return np.ascontiguousarray(source) if source.shape == wanted else None

    def _pixels(self, source: Any, frame: Frame) -> npt.NDArray[np.uint8]:
        """Return the picture at its size: uint8, (H, W, C)."""
        try:
            from PIL import Image
        except ImportError:
            raise ImportError("images need the extra 'images': pip install 'triune[images]'") from None
        mode = "L" if frame.channels == 1 else "RGB"
        try:
            if isinstance(source, Image.Image):
                scaled = self._scaled(source, mode, frame)
            elif isinstance(source, bytes | bytearray | memoryview):
                with Image.open(io.BytesIO(source)) as picture:
                    scaled = self._scaled(picture, mode, frame)
            elif isinstance(source, np.ndarray):
                array = source[..., 0] if source.ndim == 3 and source.shape[2] == 1 else source
                scaled = self._scaled(Image.fromarray(array), mode, frame)
            else:
                with opened(source) as file, Image.open(file) as picture:
                    scaled = self._scaled(picture, mode, frame)
        except FileError:
            raise
        except Exception as error:
            # Decoders raise OSError, SyntaxError, ValueError and their own, and seldom name the file.
            raise ArgumentError(f"not an image that can be read: {error}") from None
        return np.asarray(scaled, np.uint8).reshape(frame.height, frame.width, frame.channels)

    def _scaled(self, picture: Image.Image, mode: str, frame: Frame) -> Image.Image:
        from PIL import Image

        size = (frame.width, frame.height)
        if self.reducing_gap is not None:
            # Of the whole picture, so that what is cut out of it is large enough.
            box = self._box(picture.size, size)
            factors = (picture.size[0] / (box[2] - box[0]), picture.size[1] / (box[3] - box[1]))
            gap = self.reducing_gap
            picture.draft(mode, (math.ceil(size[0] * factors[0] * gap), math.ceil(size[1] * factors[1] * gap)))
        if picture.mode != mode:
            picture = picture.convert(mode)
        how = getattr(Image.Resampling, self.filter.upper())
        if self.fit != "pad":
            return picture.resize(size, how, box=self._box(picture.size, size))
        ratio = min(size[0] / picture.size[0], size[1] / picture.size[1])
        inner = (max(1, round(picture.size[0] * ratio)), max(1, round(picture.size[1] * ratio)))
        whole = Image.new(mode, size, self.fill if mode == "L" else (self.fill,) * 3)
        whole.paste(picture.resize(inner, how), ((size[0] - inner[0]) // 2, (size[1] - inner[1]) // 2))
        return whole

    def _box(self, size: tuple[int, int], target: tuple[int, int]) -> tuple[float, float, float, float]:
        """Return what of a picture is shown: left, top, right, bottom."""
        width, height = size
        if self.fit != "crop":
            return (0, 0, width, height)
        ratio = min(width / target[0], height / target[1]) * self.part
        inner = (target[0] * ratio, target[1] * ratio)
        left, top = (width - inner[0]) / 2, (height - inner[1]) / 2
        # Rounding must not lead outside.
        return (max(0.0, left), max(0.0, top), min(float(width), left + inner[0]), min(float(height), top + inner[1]))


@lru_cache(maxsize=64)
def _tables(how: Preprocess, frame: Frame) -> npt.NDArray[Any]:
    """Return what each channel's pixels become: (C, 256)."""

    def values(name: str, value: float | tuple[float, ...]) -> npt.NDArray[np.float32]:
        count = len(value) if isinstance(value, tuple) else 1
        if count not in (1, frame.channels):
            counts = "1 value" if frame.channels == 1 else f"1 or {frame.channels} values"
            raise ArgumentError(f"{name}: expected {counts} for input {frame.name!r}, got {count}")
        return np.broadcast_to(np.asarray(value, np.float32).reshape(-1, 1), (frame.channels, 1))

    pixels = np.arange(256, dtype=np.float32) / np.float32(how.scale)
    tables = (pixels - values("mean", how.mean)) / values("std", how.std)
    if frame.dtype != "float32":
        tables = np.rint(tables)
        limits = np.iinfo(frame.dtype)
        if tables.min() < limits.min or tables.max() > limits.max:
            raise ArgumentError(
                f"preprocess: pixels become {tables.min():g} to {tables.max():g}, but input {frame.name!r} has {frame.dtype}; "
                "change scale, mean or std"
            )
    result = np.ascontiguousarray(tables.astype(frame.dtype))
    result.flags.writeable = False
    return result
