"""`axelera.types.img`: pictures as the vendor's application framework hands them on."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from triune.axelera._image import ColorFormat, Picture, converted, no_gst

if TYPE_CHECKING:
    from PIL import Image as Pillow

__all__ = ["Image", "fromany", "fromarray", "frompil"]

Array = npt.NDArray[Any]


class Image(Picture):
    """A picture, and the order of its colors. Made by `fromarray`, `frompil` or `fromany`."""

    _guess = ColorFormat.RGB

    @classmethod
    def fromarray(cls, array: Any, color_format: ColorFormat | str | None = None) -> Self:
        """Take an array: (H, W) or (H, W, 1) is gray; three or four channels are RGB or RGBA unless `color_format` says BGR.

        Raises ValueError for another shape.
        """
        return cls._of_array(array, color_format, "", None)

    @classmethod
    def frompil(cls, pil: Pillow.Image, color_format: ColorFormat | str | None = None) -> Self:
        """Take one of Pillow's pictures; `color_format` is the order of its channels if it is not what Pillow says.

        Raises TypeError if it is none of Pillow's, ValueError for the name of no format.
        """
        return cls._of_pil(pil, color_format, "", None)

    @classmethod
    def fromgst(cls, sample: Any) -> Self:
        """Raise NotImplementedError: there is no GStreamer here."""
        raise no_gst("Image.fromgst")

    @classmethod
    def fromany(cls, given: Any, color_format: ColorFormat | str | None = None) -> Self:
        """Take an array, a tensor, one of Pillow's pictures or an Image, which is returned as it is. Raises TypeError for
        anything else.

        `color_format` is for arrays, as in `fromarray`, which raises ValueError for a shape of no picture.
        """
        return cls._of_any(given, color_format, "", None)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return self.width, self.height

    def asarray(self, format: ColorFormat | str | None = None) -> Array:
        """Return the pixels, (H, W) of gray or (H, W, channels), in the array's dtype, in another order of colors if one is
        given.

        Without a conversion they are the picture's own, and read-only if they come from Pillow. Raises ValueError for a
        conversion that is not there: RGB, BGR, RGBA, BGRA and GRAY are.
        """
        array = self._view() if self.has_pil else self._pixels
        found: Array = array if format is None else converted(array, self._color, ColorFormat.parse(format))
        return found

    def aspil(self) -> Pillow.Image:
        """Return one of Pillow's pictures: of mode L, RGB or RGBA, with the colors in that order; itself if it is made of
        one.

        Pixels are uint8; gray ones of other dtypes have the mode that Pillow has for them, such as F of float32. Raises
        TypeError of what Pillow has no mode for, such as colors in float32.
        """
        return self._pil()

    def tobytes(self) -> bytes:
        """Return a copy of the pixels' bytes, row by row, in their own order of colors."""
        return self._view().tobytes()

    @contextmanager
    def as_ndarray_view(self) -> Iterator[Array]:
        """Give the pixels without a copy as an array that cannot be written to: (H, W) of gray or (H, W, channels)."""
        yield self._view()

    @contextmanager
    def as_c_void_p(self) -> Iterator[ctypes.c_void_p]:
        """Give the address of the first pixel, valid within the ``with``."""
        array = np.ascontiguousarray(self._view())
        yield ctypes.c_void_p(array.ctypes.data)
        del array


fromarray, frompil, fromany = Image.fromarray, Image.frompil, Image.fromany
