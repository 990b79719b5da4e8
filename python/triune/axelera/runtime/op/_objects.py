"""Objects of results: boxes, points, masks, classes, tracks. Places are fractions of the picture's width and height."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Point = tuple[int, int]


class CoordFormat(enum.Enum):
    """What the numbers of a box are."""

    XYXY = "xyxy"
    XYWH = "xywh"
    LTWH = "ltwh"


class CoordSpace(enum.Enum):
    """What places are counted in: fractions of a picture, pixels of a model's input, or pixels of a picture."""

    NORMALIZED = "normalized"
    MODEL_PIXEL = "model_pixel"
    IMAGE_PIXEL = "image_pixel"


def _pixel(fraction: float, extent: int) -> int:
    return nearest(fraction * extent, extent)


def nearest(at: float, extent: int) -> int:
    """Return the whole number nearest to a place, from 0 to below an extent. Raises ValueError for what is no number."""
    if math.isnan(at):
        raise ValueError("a place that is no number (NaN) is nowhere in a picture")
    return round(min(max(at, 0), extent - 1))


@dataclass
class BBox:
    """A box by its corners, as fractions of the picture that it was found in.

    ``_frame`` is the same box in the whole picture, if it was found in a part that `CropRoi` cut out.
    """

    x0: float
    y0: float
    x1: float
    y1: float
    _frame: BBox | None = field(default=None, repr=False, compare=False, kw_only=True)

    def __iter__(self) -> Iterator[float]:
        """Yield the four numbers."""
        return iter((self.x0, self.y0, self.x1, self.y1))

    @property
    def width(self) -> float:
        """The width as a fraction of the picture's: x1 − x0."""
        return self.x1 - self.x0

    @property
    def height(self) -> float:
        """The height as a fraction of the picture's: y1 − y0."""
        return self.y1 - self.y0

    def in_frame_of(self, parent: BBox) -> BBox:
        """Return the box as fractions of the picture that `parent`, within which it lies, is a box of."""
        x, y, width, height = parent.x0, parent.y0, parent.width, parent.height
        return BBox(x + self.x0 * width, y + self.y0 * height, x + self.x1 * width, y + self.y1 * height)

    def to_pixels(self, w: int, h: int) -> tuple[int, int, int, int]:
        """Return the corners x0, y0, x1, y1 in pixels of a picture of that size: the nearest ones, from 0 to below width and
        height.

        Raises ValueError for NaN.
        """
        return _pixel(self.x0, w), _pixel(self.y0, h), _pixel(self.x1, w), _pixel(self.y1, h)

    def frame_pixels(self, w: int, h: int) -> tuple[int, int, int, int]:
        """Return the corners in pixels of the whole picture, whose size is given, as `to_pixels` does: of a box in a part of
        it, there."""
        return (self._frame or self).to_pixels(w, h)

    def _frame_edges(self, w: int, h: int) -> tuple[int, int, int, int]:
        """Return the first column and row in the whole picture, whose size is given, and the ones behind the last, up to width
        and height: what a slice takes.

        Raises ValueError for NaN.
        """
        box = self._frame or self
        x0, x1 = (nearest(x * w, w + 1) for x in (box.x0, box.x1))
        y0, y1 = (nearest(y * h, h + 1) for y in (box.y0, box.y1))
        return x0, y0, x1, y1

    def xyxy(self) -> tuple[float, float, float, float]:
        """Return the corners x0, y0, x1, y1, as fractions of the picture."""
        return self.x0, self.y0, self.x1, self.y1

    def xywh(self) -> tuple[float, float, float, float]:
        """Return centre, width and height, as fractions of the picture."""
        return (self.x0 + self.x1) / 2, (self.y0 + self.y1) / 2, self.width, self.height

    def ltwh(self) -> tuple[float, float, float, float]:
        """Return the first corner, width and height, as fractions of the picture."""
        return self.x0, self.y0, self.width, self.height

    @classmethod
    def from_xywh(cls, cx: float, cy: float, w: float, h: float) -> Self:
        """Return a box by its centre, width and height, as fractions of the picture."""
        return cls(cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2)

    @classmethod
    def from_ltwh(cls, left: float, top: float, w: float, h: float) -> Self:
        """Return a box by its first corner, width and height, as fractions of the picture."""
        return cls(left, top, left + w, top + h)


def _label(one: Any) -> str:
    kind = getattr(one, "class_id", None)
    name = getattr(kind, "name", None) or ("" if kind is None else str(kind))
    score = getattr(one, "score", None)
    return name if score is None else f"{name} {score:.2f}".strip()


def _number(one: Any) -> int:
    kind = getattr(one, "class_id", None)
    return int(getattr(kind, "value", kind) or 0)


@dataclass
class DetectedObject:
    """What a detector found."""

    index: int = 0
    class_id: Any = None
    bbox: BBox | None = None
    score: float | None = None

    def draw(self, draw: Any) -> None:
        """Draw box and label."""
        if self.bbox is not None:
            draw.labelled_box(self.bbox, _label(self), _number(self))


@dataclass
class Keypoint:
    """A point of a pose."""

    x: float
    y: float
    confidence: float
    name: str | None = None
    _frame_x: float | None = field(default=None, repr=False, compare=False, kw_only=True)
    _frame_y: float | None = field(default=None, repr=False, compare=False, kw_only=True)

    def frame_x(self, w: int) -> int:
        """Return the nearest column in the whole picture, `w` pixels wide, from 0 to below `w`. Raises ValueError for NaN."""
        return _pixel(self.x if self._frame_x is None else self._frame_x, w)

    def frame_y(self, h: int) -> int:
        """Return the nearest row in the whole picture, `h` pixels high, from 0 to below `h`. Raises ValueError for NaN."""
        return _pixel(self.y if self._frame_y is None else self._frame_y, h)


@dataclass
class PoseObject:
    """A pose: its points, and the box round it."""

    index: int = 0
    keypoints: list[Keypoint] = field(default_factory=list)
    bbox: BBox | None = None
    score: float | None = None
    class_id: Any = None

    def draw(self, draw: Any) -> None:
        """Draw the box, and the points whose confidence is above 0.5, in the class's color."""
        if self.bbox is not None:
            draw.labelled_box(self.bbox, _label(self), _number(self))
        for point in self.keypoints:
            if point.confidence > 0.5:
                draw.keypoint((point.frame_x(draw.width), point.frame_y(draw.height)), _number(self))


@dataclass
class SegmentedObject:
    """What was found, with its mask: (H, W) over the box, 255 where the object is, 0 elsewhere."""

    index: int = 0
    class_id: Any = None
    mask: Array | None = None
    bbox: BBox | None = None
    score: float | None = None

    def draw(self, draw: Any) -> None:
        """Draw mask, box and label."""
        if self.bbox is not None:
            if self.mask is not None and self.mask.size:
                draw.segmentation_mask(self.mask, self.bbox, _number(self))
            draw.labelled_box(self.bbox, _label(self), _number(self))


@dataclass
class OrientedObject:
    """What was found, in a box that is turned: centre, extents along its own sides, and the angle in radians."""

    index: int = 0
    class_id: Any = None
    cx: float = 0.0
    cy: float = 0.0
    w: float = 0.0
    h: float = 0.0
    angle: float = 0.0
    score: float | None = None
    _frame_bbox: BBox | None = field(default=None, repr=False, compare=False, kw_only=True)

    @property
    def xywhr(self) -> tuple[float, float, float, float, float]:
        """Centre and extents as fractions of the picture, and the angle in radians."""
        return self.cx, self.cy, self.w, self.h, self.angle

    def _turned(self, cx: float, cy: float, w: float, h: float) -> list[tuple[float, float]]:
        cos, sin = math.cos(self.angle), math.sin(self.angle)
        halves = ((-w / 2, -h / 2), (w / 2, -h / 2), (w / 2, h / 2), (-w / 2, h / 2))
        return [(cx + x * cos - y * sin, cy + x * sin + y * cos) for x, y in halves]

    @property
    def corners(self) -> list[tuple[float, float]]:
        """The four corners (x, y), as fractions of a square picture, in the order in which they lie round the box."""
        return self._turned(self.cx, self.cy, self.w, self.h)

    @property
    def bbox(self) -> BBox:
        """The upright box round it, as fractions of a square picture."""
        across, down = zip(*self.corners, strict=True)
        return BBox(min(across), min(down), max(across), max(down))

    def _pixels(self, box: BBox, w: int, h: int) -> list[Point]:
        cx, cy, width, height = box.xywh()
        found = self._turned(cx * w, cy * h, width * w, height * h)
        return [(nearest(x, w), nearest(y, h)) for x, y in found]

    def to_corners_pixels(self, w: int, h: int) -> list[Point]:
        """Return the four corners in pixels of a picture of that size: the nearest ones, none outside.

        The box is turned in pixels, so that it stays a rectangle. Raises ValueError for NaN.
        """
        return self._pixels(BBox.from_xywh(self.cx, self.cy, self.w, self.h), w, h)

    def frame_corners(self, w: int, h: int) -> list[Point]:
        """Return the four corners in pixels of the whole picture, whose size is given: the nearest ones, none outside.

        Raises ValueError for NaN.
        """
        return self.to_corners_pixels(w, h) if self._frame_bbox is None else self._pixels(self._frame_bbox, w, h)

    def draw(self, draw: Any) -> None:
        """Draw the box and the label."""
        points = self.frame_corners(draw.width, draw.height)
        draw.polylines([*points, points[0]], _number(self))
        draw.text(points[0], _label(self), _number(self))


@dataclass
class Classification:
    """A class and its score."""

    class_id: Any
    score: float


@dataclass
class DepthMap:
    """How far away each place is: (H, W), in the model's resolution."""

    depth: Array = field(default_factory=lambda: np.empty(0, np.float32))

    def draw(self, draw: Any) -> None:
        """Lay the map over the picture, its smallest numbers in dark and its largest in light (`Draw.heatmap`)."""
        draw.heatmap(self.depth)


@dataclass
class SemanticMap:
    """The class of each place: (H, W), in the model's resolution."""

    classes: Array = field(default_factory=lambda: np.empty((0, 0), np.int64))
    class_id_type: Any = int

    def draw(self, draw: Any) -> None:
        """Lay the classes over the picture, each in its color."""
        draw.class_map(self.classes)


class TrackedObjectState(enum.Enum):
    """Where a track is in its life."""

    new = 0
    tracked = 1
    lost = 2
    removed = 3


@dataclass
class TrackedObject:
    """An object that was found in several pictures: its number, where it is expected, and what was found last."""

    track_id: int
    predicted_bbox: BBox
    state: TrackedObjectState
    tracked: Any
    latest_det_id: int = -1

    @property
    def bbox(self) -> BBox:
        """Where it is expected: `predicted_bbox`."""
        return self.predicted_bbox

    @property
    def class_id(self) -> Any:
        """The class of what was found last."""
        return getattr(self.tracked, "class_id", None)

    @property
    def score(self) -> float | None:
        """The score of what was found last."""
        return getattr(self.tracked, "score", None)

    def draw(self, draw: Any) -> None:
        """Draw the box in the track's color with number and label, opaque while it is tracked, fainter if it is new (0.7) or
        lost (0.4)."""
        alpha = {"new": 0.7, "tracked": 1.0, "lost": 0.4, "removed": 0.2}[self.state.name]
        draw.labelled_box(self.predicted_bbox, f"#{self.track_id} {_label(self)}".strip(), self.track_id, alpha)
