"""From a picture's file to a network's input: decode, cut out, scale, and the numbers, the latter in one pass by the core."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import numpy.typing as npt

from triune import _native
from triune._depth import eight_bits
from triune._files import UnreadableItem, opened
from triune._text import short
from triune.errors import ArgumentError, FileError

from ._scaling import Scaling, extents_of

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["ANIMATIONS", "FORMATS", "SUFFIXES", "Format", "Frame", "Preprocess", "frames_of", "left_open"]

SUFFIXES = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"})
"""Endings of files that are taken for pictures."""

ANIMATIONS = frozenset({".gif", ".tif", ".tiff", ".webp"})
"""Those that may hold several."""

_TABLED = ("float32", "int8", "uint8")
"""Dtypes that pixels become."""

FORMATS = ("rgb8", "bgr8", "gray8", "yuyv")
"""How pixels may lie in bytes."""

# Y in front of it, then R, G and B of a pair of pixels from Y0, U, Y1, V, all less their offsets: ITU-R BT.601, of limited range.
_YUYV_OFFSETS = np.array([16, 128, 16, 128], np.float32)
_TO_RGB = np.zeros((4, 6), np.float32)
_TO_RGB[0, :3] = _TO_RGB[2, 3:] = 255 / 219
_TO_RGB[1, [1, 4]], _TO_RGB[1, [2, 5]] = -0.391762, 2.017232
_TO_RGB[3, [0, 3]], _TO_RGB[3, [1, 4]] = 1.596027, -0.812968
_FROM_RGB = np.array(
    [[65.481, 128.553, 24.966], [-37.797, -74.203, 112.0], [112.0, -93.786, -18.214]], np.float32
).T / np.float32(255)

Format = Literal["rgb8", "bgr8", "gray8", "yuyv"]
Fit = Literal["stretch", "crop", "pad"]


@dataclass(frozen=True)
class Frame:
    """What a network takes of one picture."""

    name: str
    """The input's name, for errors."""
    channels: int
    """1 or 3; 2 for pairs of pixels in four bytes, Y0 U Y1 V."""
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
    def of(
        cls, name: str, dtype: str, shape: Sequence[int | str], size: tuple[int, int] | None, *, pairs: bool = False
    ) -> Self | None:
        """Return the frame of an input (N, C, H, W) or (N, H, W, C), None if it is no picture's.

        Open heights and widths are those of `size`, (H, W); without one, the input is no picture's. With `pairs` it takes
        (N, H, W, 2), pixels in pairs.
        """
        if len(shape) != 4 or dtype not in _TABLED:
            return None
        for last in (False, True):
            channels, *sides = (shape[3], *shape[1:3]) if last else shape[1:]
            height, width = (
                side if isinstance(side, int) else size[axis] if size else 0 for axis, side in enumerate(sides)
            )
            counts = ((2,) if last else ()) if pairs else (1, 3)
            if channels in counts and height and width and size in (None, (height, width)):
                return cls(name, int(channels), height, width, dtype, last)
        return None


@dataclass(frozen=True)
class Preprocess:
    """How a picture becomes a network's input.

    It is scaled to the input's size, and its pixels p of 0 to 255 become (p / scale − mean) / std, in float32 and this order. For
    inputs of int8 and uint8 that is rounded, and has to fit. Pictures lie as their pixels do: an orientation that a camera noted
    in the file is not applied.

    Examples:
        >>> import numpy as np
        >>> from triune.batch import Preprocess
        >>> how = Preprocess(fit="pad", fill=114, mean=0.5, std=0.25)
        >>> out = np.empty((3, 32, 32), np.float32)
        >>> how.write(np.zeros((60, 80, 3), np.uint8), how.frame("x", "float32", (1, 3, 32, 32)), out)
        >>> float(out[0, 16, 16]), round(float(out[0, 0, 0]), 4)
        (-2.0, -0.2118)
    """

    fit: Fit = "stretch"
    """How a picture of other proportions fits: it is stretched, or its middle is cut out, or it is padded with `fill`."""
    part: float = 1.0
    """With ``crop``: how much of the largest middle that fits is cut out, by its sides; 0.875 is 224 of 256."""
    fill: int = 0
    """With ``pad``: the pixels around the picture."""
    corner: bool = False
    """With ``pad``: whether the picture lies in the upper left corner; else in the middle."""
    scale: float = 255.0
    """Divides pixels first."""
    mean: float | tuple[float, ...] = 0.0
    """Is subtracted then: one for all channels, or one each, in the order of `color`."""
    std: float | tuple[float, ...] = 1.0
    """Divides then, as `mean`."""
    color: Literal["rgb", "bgr", "yuyv"] = "rgb"
    """The order of the network's channels; ``yuyv`` for one that takes pairs of pixels as Y0 U Y1 V, uint8 (N, H, W, 2)."""
    format: Format = "rgb8"
    """How pixels lie in arrays of uint8: (H, W, 3), for ``gray8`` (H, W) or (H, W, 1), for ``yuyv`` (H, W, 2). Files say it
    themselves."""
    filter: Literal["nearest", "bilinear", "bicubic", "lanczos"] = "bilinear"
    """How pixels are interpolated, with Pillow's bits: all pixels are taken into account when a picture shrinks."""
    reducing_gap: float | None = None
    """Decode JPEGs at a half, quarter or eighth as long as they stay so many times as large as the result. Faster, and with 2 or
    more hard to tell from all pixels; None decodes all."""
    size: tuple[int, int] | None = None
    """(H, W), where the model leaves them open."""

    def __post_init__(self) -> None:
        """Check what no model is needed for. Raises ArgumentError."""
        for name, choices in (
            ("fit", ("stretch", "crop", "pad")),
            ("color", ("rgb", "bgr", "yuyv")),
            ("format", FORMATS),
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
        """Return what networks trained on ImageNet take: the middle 224 of 256, and its mean and deviation.

        Examples:
            >>> from triune.batch import Preprocess
            >>> how = Preprocess.imagenet(reducing_gap=2.0)
            >>> how.fit, how.part, how.reducing_gap
            ('crop', 0.875, 2.0)
        """
        usual: dict[str, Any] = {
            "fit": "crop",
            "part": 0.875,
            "mean": (0.485, 0.456, 0.406),
            "std": (0.229, 0.224, 0.225),
        }
        return cls(**(usual | changes))

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that differ from the defaults by name, as JSON has them: what `from_dict` takes."""
        plain = Preprocess()
        return {name: value for name, value in asdict(self).items() if value != getattr(plain, name)}

    @classmethod
    def from_dict(cls, values: object) -> Self:
        """Return what `to_dict` was made of; lists become tuples, and what is left out is the default.

        Raises ArgumentError if it is no mapping, a name is unknown, or a value is of a wrong kind or out of its range.
        """
        if not isinstance(values, Mapping):
            raise ArgumentError(f"preprocess: expected an object, got {type(values).__name__}")
        kinds = {field.name: type(field.default) for field in fields(cls)}
        given: dict[str, Any] = {}
        for name, value in values.items():
            if name not in kinds:
                raise ArgumentError(f"preprocess: unknown {name!r}; it is of a newer Triune, or damaged")
            numbers = isinstance(value, list) and all(_is_number(each) for each in value)
            good: bool
            if name in ("mean", "std"):
                good = numbers or _is_number(value)
            elif name == "size":
                good = value is None or (numbers and len(value) == 2 and all(isinstance(each, int) for each in value))
            elif name in ("part", "scale", "reducing_gap"):
                good = _is_number(value) or (name == "reducing_gap" and value is None)
            else:
                good = type(value) is kinds[name]
            if not good:
                raise ArgumentError(f"preprocess: {name}: got {value!r}")
            given[name] = tuple(value) if isinstance(value, list) else value
        return cls(**given)

    def frame(self, name: str, dtype: str, shape: Sequence[int | str]) -> Frame | None:
        """Return what an input takes of a picture, None if it is no picture's.

        Pictures' are float32, int8 or uint8, (N, C, H, W) or (N, H, W, C) with one or three channels, or with ``yuyv`` (N, H,
        W, 2). An open height or width is that of `size`.
        """
        return Frame.of(name, dtype, shape, self.size, pairs=self.color == "yuyv")

    def place(self, size: tuple[int, int], target: tuple[int, int]) -> tuple[float, float, float, float]:
        """Return how places in the input are places in the picture: factors and offsets, x · fx + ox and y · fy + oy.

        `size` and `target` are the extents of the two, (W, H).
        """
        if self.fit == "pad":
            inner, (left, top) = self._inner(size, target)
            fx, fy = size[0] / inner[0], size[1] / inner[1]
            return fx, fy, -left * fx, -top * fy
        x, y, right, bottom = self._box(size, target)
        return (right - x) / target[0], (bottom - y) / target[1], x, y

    @classmethod
    def default(cls, dtype: str) -> Self:
        """Return what is taken where nothing is said: pixels from 0 to 1 for float32, 0 to 255 for uint8, less 128 for int8."""
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
        """Do what `write` does, with errors that do not name the picture. Raises as `write` does."""
        pixels = self._exact(source, frame)
        if frame.channels == 2:
            if pixels is None:
                whole = Frame(frame.name, 3, frame.height, frame.width, "uint8", True)
                pixels = np.empty(whole.shape, np.uint8)
                self._draw(source, whole, np.tile(np.arange(256, dtype=np.uint8), (3, 1)), pixels)
            # Four bytes for two pixels: what the core spreads has one or three channels.
            out[...] = _tables(self, frame)[0][_pairs(pixels)]
        elif pixels is None:
            self._draw(source, frame, _tables(self, frame), out)
        else:
            if self.color == "bgr" and frame.channels == 3:
                pixels = np.ascontiguousarray(pixels[..., ::-1])
            _native.spread_pixels(pixels, _tables(self, frame), out, frame.last)

    def check(self, frame: Frame) -> None:
        """Check that means and deviations are one or as many as channels, and that the numbers fit the input's dtype. Raises
        ArgumentError."""
        _tables(self, frame)

    def _exact(self, source: Any, frame: Frame) -> npt.NDArray[np.uint8] | None:
        """Return an array that needs no scaling as it is."""
        if not isinstance(source, np.ndarray) or source.dtype != np.uint8 or (self.fit == "crop" and self.part < 1):
            return None
        source = self._unpacked(source)
        if source.ndim == 2 and frame.channels == 1:
            source = source[..., None]
        wanted = (frame.height, frame.width, 3 if frame.channels == 2 else frame.channels)
        return np.ascontiguousarray(source) if source.shape == wanted else None

    def _unpacked(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return an array of pixels as RGB, or gray."""
        if self.format == "rgb8":
            return array
        channels = {"bgr8": 3, "gray8": 1, "yuyv": 2}[self.format]
        if array.dtype != np.uint8 or not (
            (array.ndim == 3 and array.shape[2] == channels) or (array.ndim == 2 and channels == 1)
        ):
            raise ArgumentError(f"expected {self.format}, uint8 (H, W, {channels}), got {array.dtype} {array.shape}")
        if self.format == "yuyv":
            return _unpaired(array)
        return array[..., ::-1] if channels == 3 else array

    def _draw(self, source: Any, frame: Frame, tables: npt.NDArray[Any], out: npt.NDArray[Any]) -> None:
        """Write the picture at its size, through the tables."""
        try:
            from PIL import Image
        except ImportError:
            raise ImportError("images need the extra 'images': pip install 'triune[images]'") from None
        array = self._direct(source, frame)
        if array is not None:
            self._scale(array, frame, tables, out)
            return
        try:
            if isinstance(source, Image.Image):
                self._convert(source, frame, tables, out)
            elif isinstance(source, bytes | bytearray | memoryview):
                with Image.open(io.BytesIO(source)) as picture:
                    self._convert(picture, frame, tables, out)
            elif isinstance(source, np.ndarray):
                array = self._unpacked(source)
                array = array[..., 0] if array.ndim == 3 and array.shape[2] == 1 else np.ascontiguousarray(array)
                self._convert(Image.fromarray(array), frame, tables, out)
            else:
                with opened(source) as file, Image.open(file) as picture:
                    self._convert(picture, frame, tables, out)
        except (ArgumentError, FileError):
            raise
        except Exception as error:
            # Decoders raise OSError, SyntaxError, ValueError and their own, and seldom name the file.
            raise ArgumentError(f"not an image that can be read: {_reason(error, source)}") from None

    def _direct(self, source: Any, frame: Frame) -> npt.NDArray[np.uint8] | None:
        """Return an array whose channels are the input's as it is."""
        if type(source) is not np.ndarray or source.dtype != np.uint8 or not source.size:
            return None
        array = self._unpacked(source)
        if array.ndim == 2:
            array = array[..., None]
        if array.ndim != 3 or array.shape[2] not in ((1,) if frame.channels == 1 else (3, 4)):
            return None
        return np.ascontiguousarray(array)

    def _convert(self, picture: Image.Image, frame: Frame, tables: npt.NDArray[Any], out: npt.NDArray[Any]) -> None:
        mode = "L" if frame.channels == 1 else "RGB"
        size = (frame.width, frame.height)
        if self.reducing_gap is not None:
            # Of the whole picture, so that what is cut out of it is large enough.
            box = self._box(picture.size, size)
            factors = (picture.size[0] / (box[2] - box[0]), picture.size[1] / (box[3] - box[1]))
            gap = self.reducing_gap
            picture.draft(mode, (math.ceil(size[0] * factors[0] * gap), math.ceil(size[1] * factors[1] * gap)))
        picture = eight_bits(picture)
        self._scale(picture if picture.mode == mode else picture.convert(mode), frame, tables, out)

    def _scale(
        self,
        picture: Image.Image | npt.NDArray[np.uint8],
        frame: Frame,
        tables: npt.NDArray[Any],
        out: npt.NDArray[Any],
    ) -> None:
        extents = extents_of(picture)
        size = (frame.width, frame.height)
        inner, (left, top) = size, (0, 0)
        if self.fit == "pad":
            inner, (left, top) = self._inner(extents, size)
            around = tables[:, self.fill]
            if inner != size:
                out[...] = around if frame.last else around[:, None, None]
        box = self._box(extents, size)
        reverse = self.color == "bgr" and frame.channels == 3
        Scaling(self.filter, box, inner, tables, frame.last, reverse, (top, left)).write(picture, out)

    def _inner(self, size: tuple[int, int], target: tuple[int, int]) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return how large a padded picture becomes, and where it lies."""
        ratio = min(target[0] / size[0], target[1] / size[1])
        inner = (max(1, round(size[0] * ratio)), max(1, round(size[1] * ratio)))
        return inner, (0, 0) if self.corner else ((target[0] - inner[0]) // 2, (target[1] - inner[1]) // 2)

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


def left_open(name: str, dtype: str, shape: Sequence[int | str]) -> str:
    """Return what is wrong with an input that takes images of any height or width, and the cure; nothing of another."""
    if Frame.of(name, dtype, [each if isinstance(each, int) else 8 for each in shape], None) is None:
        return ""
    return short(
        f"input {name!r}: the model leaves open how large an image is ({', '.join(map(str, shape))}); state its extents: triune "
        f"convert MODEL.onnx FIXED.onnx --shape {name}=N,N,N,N"
    )


def frames_of(path: str | os.PathLike[str]) -> Iterator[tuple[int, Image.Image]]:
    """Yield the pictures of a file with their numbers, several from an animation.

    Raises ArgumentError if it is no picture that can be read, FileError if there is no such file.
    """
    try:
        from PIL import Image, ImageSequence
    except ImportError:
        raise ImportError("images need the extra 'images': pip install 'triune[images]'") from None
    with opened(path) as file:
        try:
            with Image.open(file) as picture:
                for number, frame in enumerate(ImageSequence.Iterator(picture)):
                    yield number, frame.copy()
        except Exception as error:
            # As above: whatever decoders raise.
            raise UnreadableItem(
                f"{os.fsdecode(path)}: not an image that can be read: {_reason(error, path)}"
            ) from None


def _reason(error: Exception, source: object) -> str:
    """Return what a decoder says, without the name that Python gives the open file; what the file is, if that is known."""
    from PIL import UnidentifiedImageError

    from triune._kinds import PICTURE, TEXT, UNKNOWN, kind_of

    if not isinstance(error, UnidentifiedImageError):
        return str(error)
    path = os.fsdecode(source) if isinstance(source, str | os.PathLike) else ""
    kind = kind_of(Path(path)) if path else None
    if kind is None or kind in (PICTURE, TEXT, UNKNOWN):
        return "no picture of a kind that is known"
    return f"it is {kind.what}: {kind.cure.format(path=path)}"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _unpaired(array: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return pairs of pixels, (H, W, 2), as RGB."""
    height, width, _ = array.shape
    if width % 2:
        raise ArgumentError(f"yuyv: expected an even width, as two pixels share their colors, got {width}")
    four = array.reshape(height, width // 2, 4).astype(np.float32) - _YUYV_OFFSETS
    six = np.clip(np.rint(four @ _TO_RGB), 0, 255).astype(np.uint8)
    return np.ascontiguousarray(six).reshape(height, width, 3)


def _pairs(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return RGB, (H, W, 3), as pairs of pixels, (H, W, 2)."""
    height, width, _ = pixels.shape
    if width % 2:
        raise ArgumentError(f"yuyv: expected an even width, as two pixels share their colors, got {width}")
    bright, blue, red = np.moveaxis(pixels.astype(np.float32) @ _FROM_RGB, 2, 0)
    packed = np.empty((height, width // 2, 4), np.float32)
    packed[..., 0::2] = bright.reshape(height, -1, 2) + 16
    packed[..., 1] = blue.reshape(height, -1, 2).mean(2) + 128
    packed[..., 3] = red.reshape(height, -1, 2).mean(2) + 128
    return np.clip(np.rint(packed), 0, 255).astype(np.uint8).reshape(height, width, 2)


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
                f"scale: pixels become {tables.min():g} to {tables.max():g}, but input {frame.name!r} has {frame.dtype}; "
                "change scale, mean or std"
            )
    result = np.ascontiguousarray(tables.astype(frame.dtype))
    result.flags.writeable = False
    return result
