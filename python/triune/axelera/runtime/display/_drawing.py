"""What was found, drawn over the picture that it was found in."""

from __future__ import annotations

import colorsys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from triune.axelera.runtime._images import Image
from triune.axelera.runtime.op._objects import BBox, Classification

if TYPE_CHECKING:
    from PIL import Image as Pillow

__all__ = ["Draw", "draw", "track_color"]

Pixels = npt.NDArray[np.uint8]
Color = tuple[int, int, int]


def track_color(number: int) -> Color:
    """Return a color for a number, RGB from 0 to 255: numbers that follow each other are far apart, a golden section of the
    hues."""
    red, green, blue = colorsys.hsv_to_rgb(number * 0.618033988749895 % 1.0, 0.8, 0.95)
    return round(red * 255), round(green * 255), round(blue * 255)


class Draw:
    """A picture that is drawn on. Objects with a method ``draw(draw)`` draw themselves; boxes are fractions of the picture.

    Numbers in place of colors give each class or track its own.
    """

    def __init__(self, image: Any) -> None:
        """Take what `Image.from_any` takes, of uint8; an array of three channels is RGB. Raises TypeError for anything else."""
        found = Image.from_any(image, "RGB")
        self._picture: Pillow.Image = found._pil().convert("RGB")
        if self._picture is found._pixels:
            self._picture = self._picture.copy()
        self.width, self.height = self._picture.size

    @property
    def canvas_size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return self.width, self.height

    @property
    def pixels(self) -> Pixels:
        """The picture as it is now: RGB, uint8 (H, W, 3), read-only."""
        return np.asarray(self._picture)

    def _over(self, layer: Pillow.Image) -> None:
        from PIL import Image as Pillow

        self._picture = Pillow.alpha_composite(self._picture.convert("RGBA"), layer).convert("RGB")

    def _color(self, color: int | Color, alpha: float = 1.0) -> tuple[int, int, int, int]:
        return (*(track_color(color) if isinstance(color, int) else color), round(alpha * 255))

    def _layer(self) -> tuple[Any, Any]:
        from PIL import Image as Pillow
        from PIL import ImageDraw

        layer = Pillow.new("RGBA", (self.width, self.height), (0, 0, 0, 0))
        return layer, ImageDraw.Draw(layer)

    def rectangle(self, p1: Sequence[int], p2: Sequence[int], color: int | Color, width: int = 2) -> None:
        """Draw a rectangle by two corners (x, y) in pixels, with lines `width` pixels wide."""
        layer, pen = self._layer()
        pen.rectangle((*p1, *p2), outline=self._color(color), width=width)
        self._over(layer)

    def polylines(self, points: Sequence[Sequence[int]], color: int | Color, width: int = 2) -> None:
        """Draw lines from point (x, y) to point, `width` pixels wide. The last is not joined to the first."""
        layer, pen = self._layer()
        pen.line([tuple(point) for point in points], fill=self._color(color), width=width)
        self._over(layer)

    def keypoint(self, point: Sequence[int], color: int | Color, size: int = 3) -> None:
        """Draw a dot round a point (x, y), `size` pixels in radius."""
        layer, pen = self._layer()
        x, y = point
        pen.ellipse((x - size, y - size, x + size, y + size), fill=self._color(color))
        self._over(layer)

    def textsize(self, text: str, font_size: int = 12) -> tuple[int, int]:
        """Return width and height of a text in pixels, of several lines all of them; `font_size` is in pixels."""
        _, pen = self._layer()
        left, top, right, bottom = pen.multiline_textbbox((0, 0), text, font=_font(font_size))
        return round(right - left), round(bottom - top)

    def text(
        self, point: Sequence[float], text: str, color: int | Color = (255, 255, 255), font_size: int = 12
    ) -> None:
        """Write a text on a dark ground, its upper left corner at a point (x, y) in pixels, moved into the picture."""
        layer, pen = self._layer()
        font = _font(font_size)
        box = pen.multiline_textbbox((0, 0), text, font=font)
        x = min(max(point[0], 0), max(self.width - box[2] - 4, 0))
        y = min(max(point[1], 0), max(self.height - box[3] - 4, 0))
        pen.rectangle((x, y, x + box[2] + 4, y + box[3] + 4), fill=(0, 0, 0, 190))
        pen.multiline_text((x + 2, y + 2), text, fill=self._color(color), font=font)
        self._over(layer)

    def labelled_box(self, box: BBox, label: str, color: int | Color, alpha: float = 1.0) -> None:
        """Draw a box, as fractions of the picture, and its label above it; `alpha` is the lines' opacity, 0 to 1."""
        x0, y0, x1, y1 = box.frame_pixels(self.width, self.height)
        layer, pen = self._layer()
        pen.rectangle((x0, y0, max(x0, x1), max(y0, y1)), outline=self._color(color, alpha), width=2)
        self._over(layer)
        if label:
            self.text((x0, y0 - 18), label, color)

    def segmentation_mask(self, mask: Any, box: BBox, color: int | Color, alpha: float = 0.5) -> None:
        """Lay a mask, (H, W) of any dtype, over its box: what is above 0 is colored, with opacity `alpha`, 0 to 1.

        It is scaled to the box; pixels that are half covered or more are colored. A box without pixels draws nothing.
        """
        from PIL import Image as Pillow

        x0, y0, x1, y1 = box._frame_edges(self.width, self.height)
        if x1 <= x0 or y1 <= y0:
            return
        layer, _ = self._layer()
        pixels = Pillow.fromarray(np.where(np.asarray(mask) > 0, 255, 0).astype(np.uint8)).resize((x1 - x0, y1 - y0))
        cover = pixels.point(lambda value: round(alpha * 255) if value > 127 else 0)
        layer.paste(Pillow.new("RGBA", pixels.size, self._color(color)), (x0, y0))
        whole = Pillow.new("L", layer.size, 0)
        whole.paste(cover, (x0, y0))
        layer.putalpha(whole)
        self._over(layer)

    def heatmap(self, values: Any, alpha: float = 0.6) -> None:
        """Lay numbers, (H, W), over the picture: the smallest, and what is none (NaN, infinity), dark violet, the largest
        light yellow.

        They are scaled to the picture, and cover it with opacity `alpha`, 0 to 1. Nothing is drawn if there is no number.
        """
        array = np.asarray(values, np.float32)
        known = np.isfinite(array)
        if not known.any():
            return
        low, high = float(array[known].min()), float(array[known].max())
        share = np.where(known, (np.where(known, array, low) - low) / (high - low or 1), 0)
        stops = np.array([[0, 0, 4], [87, 16, 110], [188, 55, 84], [249, 142, 9], [252, 255, 164]], np.float32)
        at = np.linspace(0, 1, len(stops))
        colors = np.stack([np.interp(share, at, stops[:, channel]) for channel in range(3)], -1)
        self._overlay(np.rint(colors).astype(np.uint8), alpha)

    def class_map(self, classes: Any, alpha: float = 0.5) -> None:
        """Lay the color of each place's class, (H, W) of integers, over the picture, with opacity `alpha`, 0 to 1.

        They are scaled to the picture without new classes between. Nothing is drawn of an empty map.
        """
        array = np.asarray(classes)
        if not array.size:
            return
        # Of the classes that there are, however they are numbered.
        there, places = np.unique(array, return_inverse=True)
        palette = np.array([track_color(int(number)) for number in there], np.uint8)
        self._overlay(palette[places.reshape(array.shape)], alpha)

    def _overlay(self, colors: Pixels, alpha: float) -> None:
        from PIL import Image as Pillow

        layer = Pillow.fromarray(colors).resize((self.width, self.height), Pillow.Resampling.NEAREST)
        self._picture = Pillow.blend(self._picture, layer, alpha)

    def found(self, results: Any) -> None:
        """Draw results: objects that draw themselves, classes as lines of text, and whatever holds such; nothing of others."""
        if hasattr(results, "draw"):
            results.draw(self)
        elif isinstance(results, list | tuple) and results and all(isinstance(one, Classification) for one in results):
            names = [getattr(one.class_id, "name", str(one.class_id)) for one in results]
            lines = [f"{name} {one.score:.1%}" for name, one in zip(names, results, strict=True)]
            self.text((4, 4), "\n".join(lines))
        elif isinstance(results, list | tuple):
            for one in results:
                self.found(one)


def _font(size: int) -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(size)


def draw(image: Any, results: Any) -> Pixels:
    """Return a picture with results drawn over it: RGB, (H, W, 3). Raises TypeError for what is no picture of uint8.

    An array of three channels is taken for RGB; `Image` and Pillow's pictures know their order.
    """
    canvas = Draw(image)
    canvas.found(results)
    return canvas.pixels
