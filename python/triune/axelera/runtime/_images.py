"""`axelera.runtime.Image`: pictures as pipelines take and make them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from triune.axelera._image import ColorFormat, Picture, converted, is_convertible, no_gst

if TYPE_CHECKING:
    from PIL import Image as Pillow

__all__ = ["ColorFormat", "Image"]

Array = npt.NDArray[Any]


class Image(Picture):
    """A picture that knows the order of its colors, where it comes from, and when it is to be shown (µs).

    Made by `from_array`, `from_pil` or `from_any`.
    """

    @classmethod
    def from_array(
        cls,
        array: Any,
        fallback_color_format: ColorFormat | str | None = None,
        source: str = "",
        like: Image | None = None,
    ) -> Self:
        """Take an array or tensor: (H, W) or (H, W, 1) is gray, three or four channels what `fallback_color_format` says.

        Without it they are PACKED: an order that is not known. Origin and time are `like`'s. Raises ValueError for another shape.
        """
        return cls._of_array(array, fallback_color_format, source, like)

    @classmethod
    def from_pil(cls, pil: Pillow.Image, source: str = "", like: Image | None = None) -> Self:
        """Take one of Pillow's pictures, eight bits a channel: L is GRAY, RGB and RGBA are themselves, others become RGB or
        RGBA.

        Origin and time are `like`'s, unless `source` is given. Raises TypeError if it is none of Pillow's.
        """
        return cls._of_pil(pil, None, source, like)

    @classmethod
    def from_any(
        cls,
        i: Any,
        fallback_color_format: ColorFormat | str | None = None,
        source: str = "",
        like: Image | None = None,
    ) -> Self:
        """Take an array, a tensor, one of Pillow's pictures or an Image, which is returned as it is. Raises TypeError for
        anything else.

        `fallback_color_format` is for arrays, as in `from_array`, which raises ValueError for a shape of no picture.
        """
        return cls._of_any(i, fallback_color_format, source, like)

    @classmethod
    def from_gst(cls, sample: Any, source: str = "", like: Image | None = None) -> Self:
        """Raise NotImplementedError: there is no GStreamer here."""
        raise no_gst("Image.from_gst")

    @property
    def has_videobuffer(self) -> bool:
        """False: decoders give arrays here."""
        return False

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels: 1 of GRAY, 4 of RGBA and BGRA, 3 of pixels whose colors are shared; of PACKED, the
        array's."""
        channels = {ColorFormat.GRAY: 1, ColorFormat.RGBA: 4, ColorFormat.BGRA: 4}.get(self._color, 3)
        if self._color is ColorFormat.PACKED:
            channels = self._view().shape[2]
        return self.height, self.width, channels

    @property
    def ndim(self) -> int:
        """3, as `shape` has three extents, whatever the array has."""
        return 3

    @property
    def nbytes(self) -> int:
        """Bytes of the pixels, of planes all of them."""
        return int(self._view().nbytes)

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from row to row, pixel to pixel and channel to channel; of gray, the last is an element's."""
        array = self._view()
        return (*array.strides, array.itemsize)[:3]

    @property
    def offsets(self) -> tuple[int, ...]:
        """Where the planes begin, in bytes: three of I420 (Y, U, V), two of NV12 and NV16 (Y, UV), 0 alone of all others."""
        first = self.height * self.width
        if self._color is ColorFormat.I420:
            return 0, first, first * 5 // 4
        return (0, first) if self._color in (ColorFormat.NV12, ColorFormat.NV16) else (0,)

    def to_numpy(self) -> Array:
        """Return the pixels without a copy, read-only: (H, W) of gray, else (H, W, C), in the array's dtype, uint8 mostly.

        Planes lie one below the other: I420 and NV12 are (H · 3/2, W), NV16 (H · 2, W).
        """
        return self._view()

    def is_convert_available(self, color: ColorFormat | str) -> bool:
        """Say whether `convert` makes that format of this one. Raises ValueError for the name of none."""
        return is_convertible(self._color, ColorFormat.parse(color))

    def convert(self, color: ColorFormat | str) -> Image:
        """Return the picture in another order of colors: itself if it has that.

        RGB, BGR, RGBA, BGRA and GRAY are made of all but PACKED. Raises ValueError for other conversions.
        """
        after = ColorFormat.parse(color)
        if after is self._color:
            return self
        return Image(
            np.asarray(converted(self._view(), self._color, after)), after, self.source, self.presentation_timestamp
        )
