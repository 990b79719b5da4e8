"""Pictures scaled with Pillow's bits: by the core where it is known to have them, by Pillow itself where not."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from triune import _native
from triune.errors import ArgumentError

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["Scaling", "extents_of"]

Pixels = npt.NDArray[np.uint8]
Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Scaling:
    """What of a picture is scaled to what, and where it lies in the input."""

    filter: str
    """Pillow's name, in small letters."""
    box: Box
    """Left, top, right and bottom of what is shown."""
    size: tuple[int, int]
    """Width and height of the result."""
    tables: npt.NDArray[Any]
    """What each channel's bytes become: (C, 256)."""
    last: bool
    """Whether channels are the input's last axis."""
    reverse: bool
    """Whether they are in the other order than the picture's."""
    origin: tuple[int, int] = (0, 0)
    """Row and column of the input that the result begins at."""

    def write(self, picture: Image.Image | Pixels, out: npt.NDArray[Any]) -> None:
        """Write a picture of mode L or RGB, or an array (H, W, 1, 3 or 4), to an input."""
        if not self._written(picture, out):
            self._write_bytes(_resized(picture, self.size, self.filter, self.box), out)

    def _written(self, picture: Image.Image | Pixels, out: npt.NDArray[Any]) -> bool:
        """Scale by the core; return whether it did."""
        if self.filter == "nearest" or (order := pass_order()) is None:
            return False
        width, height = extents_of(picture)
        down_first = order == "by extents" and _down_first((width, height), self.size)
        if order == "columns first" and height > 100 * width:
            # Some of those versions resize such pictures in two steps.
            return False
        try:
            given = picture if isinstance(picture, np.ndarray) else _bytes_of(picture)
            self._call(given, (height, width), self.box, self.filter, out, down_first)
        except (ArgumentError, MemoryError):
            # What Pillow refuses, too, it says in its own words.
            return False
        return True

    def _write_bytes(self, pixels: Pixels, out: npt.NDArray[Any]) -> None:
        """Write what is scaled already."""
        height, width, _ = pixels.shape
        self._call(pixels, (height, width), (0, 0, width, height), "box", out, False)

    def _call(
        self, picture: Any, extents: tuple[int, int], box: Box, how: str, out: npt.NDArray[Any], down_first: bool
    ) -> None:
        _native.scale_pixels(
            picture,
            extents,
            box,
            self.size[::-1],
            how,
            self.tables,
            out,
            last=self.last,
            reverse=self.reverse,
            origin=self.origin,
            down_first=down_first,
        )


def extents_of(picture: Image.Image | Pixels) -> tuple[int, int]:
    """Return width and height."""
    if isinstance(picture, np.ndarray):
        height, width, _ = picture.shape
        return width, height
    return picture.size


def _bytes_of(picture: Image.Image) -> Any:
    """Return what the core reads a picture's bytes of: where they lie, or a copy where that is not known for certain."""
    from PIL import _imaging

    picture.load()
    # Pictures that lie in a file or in somebody else's buffer have rows anywhere, and those with an alignment have gaps between
    # them, of which versions before 13 say nothing.
    if not picture.readonly and _imaging.get_alignment() == 1:
        try:
            return picture.__arrow_c_array__()
        except (AttributeError, ValueError):
            # An old Pillow, or a picture of more than 16 MB, which lies in several pieces.
            pass
    return np.asarray(picture).reshape(picture.height, picture.width, -1)


def _resized(picture: Image.Image | Pixels, size: tuple[int, int], how: str, box: Box) -> Pixels:
    """Scale by Pillow."""
    from PIL import Image

    if isinstance(picture, np.ndarray):
        picture = Image.fromarray(picture[..., 0] if picture.shape[2] == 1 else np.ascontiguousarray(picture[..., :3]))
    scaled = picture.resize(size, getattr(Image.Resampling, how.upper()), box=box)
    return np.asarray(scaled, np.uint8).reshape(size[1], size[0], -1)


def _down_first(extents: tuple[int, int], size: tuple[int, int]) -> bool:
    """Return whether Pillow, from version 13 on, sums up rows before columns: where height shrinks by much more than width.

    All are (W, H), those of the whole picture, whatever of it is shown.
    """
    return extents[1] > size[1] and extents[1] - size[1] > 2 * (extents[0] - size[0])


_PROBES: tuple[tuple[str, tuple[int, int], tuple[int, int], Box], ...] = (
    ("bilinear", (40, 30), (17, 11), (0, 0, 40, 30)),
    ("bicubic", (40, 30), (17, 11), (1.25, 2.5, 39.0, 28.75)),
    ("lanczos", (21, 33), (30, 20), (0.5, 0, 21, 33)),
    ("bilinear", (20, 40), (10, 20), (0, 0, 20, 40)),
    ("bilinear", (20, 40), (10, 19), (0, 0, 20, 40)),
    ("bicubic", (20, 60), (18, 3), (2.5, 31.5, 9.75, 40.25)),
    ("bilinear", (9, 11), (40, 12), (0, 0, 9, 11)),
    ("lanczos", (30, 50), (29, 40), (0, 0, 30, 50)),
)
"""Filters, extents, results' sizes and boxes that tell the orders apart, on either side of the rule."""


@lru_cache(maxsize=1)
def pass_order() -> str | None:
    """Return in which order this Pillow sums up columns and rows, None if its bits are not the core's.

    Bytes are made in between, so that the order shows. It is found out by scaling a few small pictures: versions before 13 take
    columns first, later ones `_down_first`, and nothing is known of those to come, or of those that others have changed.
    """
    found = [_order_of(*probe) for probe in _PROBES]
    for name, expected in (
        ("columns first", [False] * len(_PROBES)),
        ("by extents", [_down_first(extents, size) for _, extents, size, _ in _PROBES]),
    ):
        if all(wanted in orders for wanted, orders in zip(expected, found, strict=True)):
            return name
    return None


def _order_of(how: str, extents: tuple[int, int], size: tuple[int, int], box: Box) -> list[bool]:
    """Return the values of `down_first` that give Pillow's bits for a picture of black and white."""
    width, height = extents
    noise = np.arange(width * height, dtype=np.uint32) * np.uint32(2_654_435_761)
    picture = np.where(noise >> np.uint32(31), 255, 0).astype(np.uint8).reshape(height, width, 1)
    expected = _resized(picture, size, how, box)
    identity = np.arange(256, dtype=np.uint8)[None]
    good = []
    for down_first in (False, True):
        out = np.empty_like(expected)
        _native.scale_pixels(
            picture, (height, width), box, size[::-1], how, identity, out, last=True, down_first=down_first
        )
        if np.array_equal(out, expected):
            good.append(down_first)
    return good
