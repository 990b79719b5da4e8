"""Of boxes that overlap, the best one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from triune.axelera.runtime._errors import InvalidArgument
from triune.axelera.runtime.op._operators import Array, Operator, table

Corners = list[tuple[float, float]]


class Nms(Operator):
    """Leaves of boxes that overlap the one with the best score."""

    iou_threshold: float = 0.45
    class_agnostic: bool = False
    max_boxes: int = 300
    backend: str = "opencv"
    box_format: str = "xyxy"

    def __call__(self, detections: Any) -> Array:
        """Return the rows that stay, the best first. Columns behind the score come along; turned boxes have the angle seventh.

        Raises InvalidArgument for another format than xyxy and xywhr, rows without a score or an angle, and negative limits.
        """
        turned = self.box_format == "xywhr"
        if not turned and self.box_format != "xyxy":
            raise InvalidArgument(f"nms: box_format {self.box_format!r} is none of xyxy, xywhr")
        if not self.iou_threshold >= 0 or self.max_boxes < 0:
            raise InvalidArgument(
                f"nms: expected iou_threshold and max_boxes of 0 or more, got {self.iou_threshold!r} and {self.max_boxes!r}"
            )
        rows = table("nms", detections, 7 if turned else 5, np.float32)
        rows = rows[np.argsort(-rows[:, 4], kind="stable")]
        if turned:
            return self._turned(rows)
        classes = rows[:, 5] if rows.shape[1] > 5 and not self.class_agnostic else np.zeros(len(rows), np.float32)
        areas = np.maximum(rows[:, 2] - rows[:, 0], 0) * np.maximum(rows[:, 3] - rows[:, 1], 0)
        alive = np.ones(len(rows), bool)
        kept: list[int] = []
        for index in range(len(rows)):
            if len(kept) >= self.max_boxes:
                break
            if not alive[index]:
                continue
            kept.append(index)
            others = np.flatnonzero(alive[index + 1 :] & (classes[index + 1 :] == classes[index])) + index + 1
            corner = np.maximum(rows[others, :2], rows[index, :2]), np.minimum(rows[others, 2:4], rows[index, 2:4])
            shared = np.maximum(corner[1] - corner[0], 0).prod(1)
            union = areas[others] + areas[index] - shared
            alive[others[shared > self.iou_threshold * union]] = False
        return rows[kept]

    def _turned(self, rows: Array) -> Array:
        """Return the turned boxes that stay, compared by the areas of their polygons."""
        corners = [_corners(row) for row in rows.astype(np.float64)]
        reach = np.hypot(rows[:, 2], rows[:, 3]) / 2
        kept: list[int] = []
        for index, row in enumerate(rows):
            if len(kept) >= self.max_boxes:
                break
            for other in kept:
                apart = math.hypot(*(rows[other, :2] - row[:2]))
                if (self.class_agnostic or rows[other, 5] == row[5]) and apart < reach[other] + reach[index]:
                    shared = _area(_clipped(corners[index], corners[other]))
                    both = float(row[2] * row[3] + rows[other, 2] * rows[other, 3]) - shared
                    if shared > self.iou_threshold * both:
                        break
            else:
                kept.append(index)
        return rows[kept]


def _corners(row: Array) -> Corners:
    """Return the corners of a turned box, in one sense of rotation."""
    cx, cy, width, height, angle = (float(row[column]) for column in (0, 1, 2, 3, 6))
    cos, sin = math.cos(angle), math.sin(angle)
    halves = ((-width / 2, -height / 2), (width / 2, -height / 2), (width / 2, height / 2), (-width / 2, height / 2))
    return [(cx + x * cos - y * sin, cy + x * sin + y * cos) for x, y in halves]


def _clipped(polygon: Corners, by: Corners) -> Corners:
    """Return what of a polygon lies in a convex one, edge by edge (Sutherland and Hodgman)."""
    for (ax, ay), (bx, by_) in zip(by, by[1:] + by[:1], strict=True):
        inside = [(bx - ax) * (y - ay) - (by_ - ay) * (x - ax) for x, y in polygon]
        found: Corners = []
        for at, (point, side) in enumerate(zip(polygon, inside, strict=True)):
            before, other = polygon[at - 1], inside[at - 1]
            if (side >= 0) != (other >= 0):
                part = other / (other - side)
                found.append((before[0] + part * (point[0] - before[0]), before[1] + part * (point[1] - before[1])))
            if side >= 0:
                found.append(point)
        polygon = found
    return polygon


def _area(polygon: Corners) -> float:
    following = polygon[1:] + polygon[:1]
    return abs(sum(x * v - u * y for (x, y), (u, v) in zip(polygon, following, strict=True))) / 2
