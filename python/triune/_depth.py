"""Pictures of more than eight bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .errors import ArgumentError

if TYPE_CHECKING:
    from PIL.Image import Image


def eight_bits(picture: Image) -> Image:
    """Return a picture whose elements are bytes: one of 16 bits is scaled, 65,535 to 255, rounded; others are left as they are.

    Pillow cuts off what is above 255 where it converts such a picture.

    Raises: `ArgumentError` for 32-bit integers and reals, of which nothing says what is white.
    """
    if picture.mode.startswith("I;16"):
        from PIL import Image

        return Image.fromarray(((np.asarray(picture).astype(np.uint32) + 128) // 257).astype(np.uint8))
    if picture.mode in ("I", "F"):
        kind = "32-bit integers" if picture.mode == "I" else "reals"
        raise ArgumentError(
            f"a picture of {kind}, which do not say what is white: save it with 8 or 16 bits, or give its numbers as an array"
        )
    return picture
