"""Operators that make objects of numbers, and choose among objects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from triune.axelera.runtime._errors import InvalidArgument
from triune.axelera.runtime.op._objects import (
    Array,
    BBox,
    Classification,
    DepthMap,
    DetectedObject,
    Keypoint,
    OrientedObject,
    PoseObject,
    SegmentedObject,
    SemanticMap,
)
from triune.axelera.runtime.op._operators import PARENT, Operator, numbers, ordered, table


def _class(kind: Any, number: Any) -> Any:
    if not np.isfinite(number):
        raise InvalidArgument(f"expected the number of a class, got {float(number)}")
    return kind(int(number))


def _box(row: Array) -> BBox:
    """Return a row's box, with its place in the whole picture."""
    box, parent = BBox(*map(float, row[:4])), PARENT.get()
    if parent is not None:
        box._frame = box.in_frame_of(parent)
    return box


class AxDetection(Operator):
    """Makes objects of boxes."""

    class_id_type: Any = int

    def __call__(self, detections: Any) -> list[DetectedObject]:
        """Return an object for each row: corners, score and class."""
        return [
            DetectedObject(index, _class(self.class_id_type, row[5]), _box(row), float(row[4]))
            for index, row in enumerate(table("ax_detection", detections, 6))
        ]


class AxPose(Operator):
    """Makes objects of boxes with points."""

    num_keypoints: int = 17
    keypoint_names: Any = None
    class_id_type: Any = int

    def __call__(self, poses: Any) -> list[PoseObject]:
        """Return an object for each row: corners, score, class, and x, y and confidence of each point."""
        names = self.keypoint_names or [None] * self.num_keypoints
        found = []
        for index, row in enumerate(table("ax_pose", poses, 6 + 3 * self.num_keypoints)):
            points = row[6 : 6 + 3 * self.num_keypoints].reshape(-1, 3)
            named = zip(points.tolist(), names, strict=True)
            keypoints = [self._point(x, y, confidence, name) for (x, y, confidence), name in named]
            kind = _class(self.class_id_type, row[5])
            found.append(PoseObject(index, keypoints, _box(row), float(row[4]), kind))
        return found

    def _point(self, x: float, y: float, confidence: float, name: str | None) -> Keypoint:
        point, parent = Keypoint(x, y, confidence, name), PARENT.get()
        if parent is not None:
            point._frame_x = parent.x0 + x * parent.width
            point._frame_y = parent.y0 + y * parent.height
        return point


class AxSegmentation(Operator):
    """Makes objects of boxes and masks."""

    class_id_type: Any = int

    def __call__(self, *inputs: Any) -> list[SegmentedObject]:
        """Return an object for each row. `inputs` are boxes and masks, or one tuple of both."""
        detections, masks = inputs[0] if len(inputs) == 1 else inputs
        rows = table("ax_segmentation", detections, 6)
        if len(rows) != len(masks):
            raise InvalidArgument(f"ax_segmentation: {len(rows)} boxes and {len(masks)} masks")
        return [
            SegmentedObject(index, _class(self.class_id_type, row[5]), mask, _box(row), float(row[4]))
            for index, (row, mask) in enumerate(zip(rows, masks, strict=True))
        ]


class AxObb(Operator):
    """Makes objects of turned boxes."""

    class_id_type: Any = int

    def __call__(self, detections: Any) -> list[OrientedObject]:
        """Return an object for each row: centre, extents, score, class and angle."""
        found, parent = [], PARENT.get()
        for index, row in enumerate(table("ax_obb", detections, 7)):
            cx, cy, width, height, score, _, angle = row[:7].tolist()
            one = OrientedObject(index, _class(self.class_id_type, row[5]), cx, cy, width, height, angle, score)
            if parent is not None:
                one._frame_bbox = BBox.from_xywh(cx, cy, width, height).in_frame_of(parent)
            found.append(one)
        return found


class AxClassification(Operator):
    """Makes objects of scores, or of what `TopK` gave."""

    class_id_type: Any = int

    def __call__(self, *scores: Any) -> list[Classification]:
        """Return an object for each class."""
        given = scores[0] if len(scores) == 1 else scores
        if isinstance(given, tuple):
            values, places = (numbers("ax_classification", one).reshape(-1) for one in given)
        else:
            values = numbers("ax_classification", given).reshape(-1)
            places = np.arange(values.size)
        return [
            Classification(_class(self.class_id_type, at), float(one)) for one, at in zip(values, places, strict=True)
        ]


class AxDepthMap(Operator):
    """Makes an object of a model's depths."""

    def __call__(self, depths: Any) -> DepthMap:
        """Return the map, without extents of 1. Raises ValueError if it has not two axes then."""
        array = np.squeeze(numbers("ax_depth_map", depths, np.float32))
        if array.ndim != 2:
            raise ValueError(f"ax_depth_map: expected one map of depths, got shape {np.shape(depths)}")
        return DepthMap(array)


class AxSemanticSegmentation(Operator):
    """Makes an object of the classes of all places."""

    class_id_type: Any = int

    def __call__(self, classes: Any) -> SemanticMap:
        """Return the map, without extents of 1. Raises ValueError if it has not two axes then."""
        array = np.squeeze(numbers("ax_semantic_segmentation", classes))
        if array.dtype.kind == "f" and not (np.isfinite(array) & (array == np.rint(array))).all():
            raise InvalidArgument("ax_semantic_segmentation: expected the numbers of classes, got other floats")
        if array.ndim != 2:
            raise ValueError(f"ax_semantic_segmentation: expected one map of classes, got shape {np.shape(classes)}")
        return SemanticMap(array.astype(np.int64), self.class_id_type)


class Filter(Operator):
    """Keeps the objects of some classes, scores, or of which a function says so."""

    class_ids: Any = None
    min_score: float | None = None
    fn: Any = None

    def __call__(self, objects: Iterable[Any]) -> Any:
        """Return those of which all holds that was given."""
        return [one for one in objects if self._holds(one)]

    def _holds(self, one: Any) -> bool:
        return (
            (self.class_ids is None or one.class_id in self.class_ids)
            and (self.min_score is None or one.score >= self.min_score)
            and (self.fn is None or bool(self.fn(one)))
        )


class Split(Filter):
    """Parts objects: those that `Filter` would keep, and the others."""

    def __call__(self, objects: Iterable[Any]) -> Any:
        """Return both lists."""
        several = list(objects)
        return [one for one in several if self._holds(one)], [one for one in several if not self._holds(one)]


class SortBy(Operator):
    """Orders objects by score, by area, or by how far they are from the middle of the picture."""

    by: Any = "score"
    descending: bool = True
    top: int | None = None

    def __call__(self, objects: Iterable[Any]) -> list[Any]:
        """Return them, the `top` first ones if that is given. Raises InvalidArgument for another order."""
        keys: dict[str, Any] = {
            "score": lambda one: one.score,
            "area": lambda one: one.bbox.width * one.bbox.height,
            "center_distance": lambda one: sum((at - 0.5) ** 2 for at in one.bbox.xywh()[:2]),
        }
        key = self.by if callable(self.by) else keys.get(str(self.by))
        if key is None:
            raise InvalidArgument(f"sort_by: {self.by!r} is none of {', '.join(keys)}, nor a function")
        if self.top is not None and self.top < 0:
            raise InvalidArgument(f"sort_by: expected top of 0 or more, got {self.top}")
        return ordered("sort_by", objects, key, self.descending)[: self.top]
