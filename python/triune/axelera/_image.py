"""Pictures that know the order of their colors: what `axelera.types.Image` and `axelera.runtime.Image` share."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from triune._depth import eight_bits
from triune._masked import MASKED, is_masked
from triune._text import short

if TYPE_CHECKING:
    from PIL import Image as Pillow

__all__ = ["ColorFormat", "Named", "Picture", "converted", "is_convertible"]

Array = npt.NDArray[Any]


class Named(enum.Enum):
    """An enumeration whose members are found by name, in either case."""

    @classmethod
    def parse(cls, value: Any) -> Self:
        """Return the member of a name, in either case, or the member itself. Raises ValueError for another name, TypeError
        for no string."""
        if isinstance(value, cls):
            return value
        if not isinstance(value, str):
            raise TypeError(f"Invalid type for {cls.__name__} `{type(value).__name__}`, use str")
        for name, member in cls.__members__.items():
            if name.upper() == value.strip().upper():
                return member
        raise ValueError(short(f"Unknown {cls.__name__} {value}, valid options are {' '.join(cls.__members__)}"))


class ColorFormat(Named):
    """How the pixels of a picture lie in memory: interleaved, or in planes (I420, NV12, NV16), with colors shared by pairs."""

    RGB = 0
    BGR = 1
    RGBA = 2
    BGRA = 3
    GRAY = 4
    I420 = 5
    NV12 = 6
    NV16 = 7
    YUY2 = 8
    PACKED = 9
    """Interleaved in an order that is not known."""


_LETTERS = {ColorFormat.RGB: "RGB", ColorFormat.BGR: "BGR", ColorFormat.RGBA: "RGBA", ColorFormat.BGRA: "BGRA"}
_SHARED = (ColorFormat.I420, ColorFormat.NV12, ColorFormat.NV16, ColorFormat.YUY2)
_ROWS = {ColorFormat.I420: (3, 2), ColorFormat.NV12: (3, 2), ColorFormat.NV16: (2, 1)}
"""Rows of the array for rows of the picture."""

# R, G and B of Y, U and V of limited range: ITU-R BT.601, as OpenCV decodes.
_BT601 = np.array([[1.164, 0.0, 1.596], [1.164, -0.391, -0.813], [1.164, 2.018, 0.0]], np.float32)
_GRAY = np.array([0.299, 0.587, 0.114], np.float32)


def is_convertible(before: ColorFormat, after: ColorFormat) -> bool:
    """Say whether pixels of one format can become another's: interleaved ones and gray from all but PACKED."""
    known = before is not ColorFormat.PACKED and (after in _LETTERS or after is ColorFormat.GRAY)
    return before is after or known


def converted(array: Array, before: ColorFormat, after: ColorFormat) -> Array:
    """Return pixels in another format; gray is (H, W), the others (H, W, channels).

    Grays have the weights of ITU-R BT.601, and are rounded. Raises ValueError if that conversion is not there, or the array
    is none of the format.
    """
    if before is after:
        return array
    if not is_convertible(before, after):
        raise ValueError(f"cannot convert {before.name} to {after.name}: expected RGB, BGR, RGBA, BGRA or GRAY")
    if before is ColorFormat.GRAY:
        planes = dict.fromkeys("RGB", array if array.ndim == 2 else array[..., 0])
    elif before in _SHARED:
        colors = _decoded(array, before)
        planes = {letter: colors[..., place] for place, letter in enumerate("RGB")}
    else:
        letters = _LETTERS[before]
        if array.ndim != 3 or array.shape[2] != len(letters):
            raise ValueError(f"{letters} has {len(letters)} channels, the picture {array.shape}")
        planes = {letter: array[..., place] for place, letter in enumerate(letters)}
    if after is ColorFormat.GRAY:
        gray = sum(planes[letter] * weight for letter, weight in zip("RGB", _GRAY, strict=True))
        return np.asarray(np.rint(gray) if array.dtype.kind in "iu" else gray).astype(array.dtype)
    opaque = np.full(planes["R"].shape, 255 if array.dtype == np.uint8 else 1, array.dtype)
    return np.stack([planes.get(letter, opaque) for letter in _LETTERS[after]], -1)


def _decoded(array: Array, before: ColorFormat) -> Array:
    """Return RGB of pixels that share colors, each pair (YUY2, NV16) or each four (I420, NV12)."""
    if before is ColorFormat.YUY2:
        light = array[..., 0]
        pairs = array[..., 1].reshape(len(array), -1, 2)
        first, second, down = pairs[..., 0], pairs[..., 1], 1
    else:
        over, under = _ROWS[before]
        rows, columns = len(array) * under // over, array.shape[1]
        light, rest = array[:rows], array[rows:]
        down = 1 if before is ColorFormat.NV16 else 2
        if before is ColorFormat.I420:
            halves = rest.reshape(2, rows // 2, columns // 2)
            first, second = halves[0], halves[1]
        else:
            first, second = rest[:, 0::2], rest[:, 1::2]
    spread = [np.repeat(np.repeat(one, down, 0), 2, 1).astype(np.float32) - 128 for one in (first, second)]
    parts = np.stack([light.astype(np.float32) - 16, *spread], -1)
    return np.clip(np.rint(parts @ _BT601.T), 0, 255).astype(np.uint8)


def _extents(array: Array, color: ColorFormat) -> tuple[int, int]:
    rows, columns = array.shape[:2]
    if color in _ROWS:
        over, under = _ROWS[color]
        if rows % over or array.ndim != 2 or columns % 2:
            raise ValueError(f"{color.name}: expected rows in multiples of {over} and even columns, got {array.shape}")
        return rows * under // over, columns
    return rows, columns


class Picture:
    """A picture: an array or one of Pillow's pictures, the order of its colors, and where it comes from."""

    _guess: ColorFormat | None = None
    """What three channels are if nobody says."""

    def __init__(self, pixels: Any, color: ColorFormat, source: str = "", timestamp: int | None = None) -> None:
        """Take pixels of a format; the class methods find it out."""
        self._pixels, self._color, self.source, self.presentation_timestamp = pixels, color, source, timestamp
        self._array: Array | None = pixels if isinstance(pixels, np.ndarray) else None
        self._extents = _extents(pixels, color) if self._array is not None else (pixels.height, pixels.width)

    @classmethod
    def _of_array(cls, array: Any, color: Any, source: str, like: Picture | None) -> Self:
        if is_masked(array):
            raise ValueError(MASKED)
        array = array.detach().cpu().numpy() if hasattr(array, "detach") else np.asarray(array)
        if array.ndim == 3 and array.shape[2] == 1:
            array = array[..., 0]
        found = cls._format(array, None if color is None else ColorFormat.parse(color))
        return cls(array, found, source or getattr(like, "source", ""), getattr(like, "presentation_timestamp", None))

    @classmethod
    def _format(cls, array: Array, said: ColorFormat | None) -> ColorFormat:
        """Return what an array's shape and what was said of it make its format."""
        if array.ndim == 2:
            return said if said is not None and said in _ROWS else ColorFormat.GRAY
        channels = array.shape[2] if array.ndim == 3 else 0
        if channels == 3:
            fitting = said if said in (ColorFormat.RGB, ColorFormat.BGR) else None
            return fitting or cls._guess or ColorFormat.PACKED
        if channels == 4:
            if said in (ColorFormat.RGBA, ColorFormat.BGRA):
                return said
            wider = {ColorFormat.RGB: ColorFormat.RGBA, ColorFormat.BGR: ColorFormat.BGRA}
            base = said if said in wider else cls._guess
            return ColorFormat.PACKED if base is None else wider[base]
        if channels == 2 and said is ColorFormat.YUY2:
            return said
        if channels and cls._guess is not None:
            return ColorFormat.PACKED
        raise ValueError(f"no color format is known for an array of shape {array.shape}: give it")

    @classmethod
    def _of_pil(cls, pil: Any, color: Any, source: str, like: Picture | None) -> Self:
        if not (hasattr(pil, "getbands") and hasattr(pil, "convert")):
            raise TypeError(f"expected one of Pillow's pictures, got {type(pil).__name__}")
        pil = eight_bits(pil)
        if pil.mode not in ("RGB", "RGBA", "L"):
            pil = pil.convert("RGBA" if "A" in pil.mode or "transparency" in pil.info else "RGB")
        found = ColorFormat.GRAY if pil.mode == "L" else ColorFormat.parse(color or pil.mode)
        return cls(pil, found, source or getattr(like, "source", ""), getattr(like, "presentation_timestamp", None))

    @classmethod
    def _of_any(cls, given: Any, color: Any, source: str, like: Picture | None) -> Self:
        if isinstance(given, cls):
            return given
        if isinstance(given, Picture):
            return cls(given._pixels, given._color, source or given.source, given.presentation_timestamp)
        if isinstance(given, np.ndarray) or (hasattr(given, "detach") and hasattr(given, "cpu")):
            return cls._of_array(given, color, source, like)
        if hasattr(given, "getbands") and hasattr(given, "convert"):
            return cls._of_pil(given, None, source, like)
        raise TypeError(f"expected an array, a tensor, a PIL image or an Image, got {type(given).__name__}")

    def _view(self) -> Array:
        if self._array is None:
            self._array = np.asarray(self._pixels)
        view = self._array.view()
        view.flags.writeable = False
        return view

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Return the pixels."""
        array = self._view()
        if copy or (dtype is not None and array.dtype != dtype):
            return array.astype(dtype or array.dtype)
        return array

    def __repr__(self) -> str:
        """Return format, size and origin."""
        origin = f", {self.source!r}" if self.source else ""
        return f"{type(self).__name__}({self._color.name}, {self.width}×{self.height}{origin})"

    @property
    def color_format(self) -> ColorFormat:
        """The order of the colors, ``PACKED`` if it is not known."""
        return self._color

    @property
    def width(self) -> int:
        """Pixels a row, of the picture and not of its array's planes."""
        return int(self._extents[1])

    @property
    def height(self) -> int:
        """Rows of pixels; an array of planes (I420, NV12, NV16) has more."""
        return int(self._extents[0])

    @property
    def pixel_stride(self) -> int:
        """Bytes from one pixel to the next; of planes, of the first one."""
        array = self._view()
        return int(array.strides[1])

    @property
    def pitch(self) -> int:
        """Bytes from one row to the next; of planes, of the first one."""
        return int(self._view().strides[0])

    @property
    def has_pil(self) -> bool:
        """Whether the pixels are a `PIL.Image.Image`'s."""
        return not isinstance(self._pixels, np.ndarray)

    @property
    def has_array(self) -> bool:
        """Whether there is an array of the pixels already: False of one of Pillow's pictures until something asks for them."""
        return self._array is not None

    @property
    def has_gst(self) -> bool:
        """False: pictures of GStreamer's are not taken."""
        return False

    def _pil(self) -> Pillow.Image:
        from PIL import Image

        if self.has_pil:
            found: Pillow.Image = self._pixels
            return found
        array = self._view()
        if self._color is not ColorFormat.GRAY:
            after = ColorFormat.RGBA if self._color in (ColorFormat.RGBA, ColorFormat.BGRA) else ColorFormat.RGB
            array = converted(array, ColorFormat.RGB if self._color is ColorFormat.PACKED else self._color, after)
        try:
            return Image.fromarray(np.ascontiguousarray(array))
        except TypeError:
            # Pillow's own words are of its modes.
            raise TypeError(
                f"Pillow has no pictures of {array.dtype} in shape {array.shape}: {_needed(array.dtype)}"
            ) from None


def _needed(dtype: np.dtype[Any]) -> str:
    needed = "expected uint8 of 1, 3 or 4 channels"
    if dtype == np.uint8:
        return needed
    cure = (
        "(pixels * 255).round().astype('uint8') of 0 to 1"
        if dtype.kind == "f"
        else "pixels.astype('uint8') of 0 to 255"
    )
    return f"{needed}, such as {cure}"


def no_gst(what: str) -> NotImplementedError:
    """Return what says that pictures of GStreamer's are not taken."""
    return NotImplementedError(f"{what}: there is no GStreamer here; take the buffer's bytes as an array")


def joined(members: Iterable[Any]) -> str:
    """Return the names of an enumeration's members."""
    return " ".join(member.name for member in members)
