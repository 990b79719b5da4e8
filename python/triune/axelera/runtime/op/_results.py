"""Objects of results, and the operators that make them."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from triune.axelera.runtime.op._operators import Operator, array_of

_COCO = """person bicycle car motorcycle airplane bus train truck boat traffic_light fire_hydrant stop_sign parking_meter bench
bird cat dog horse sheep cow elephant bear zebra giraffe backpack umbrella handbag tie suitcase frisbee skis snowboard
sports_ball kite baseball_bat baseball_glove skateboard surfboard tennis_racket bottle wine_glass cup fork knife spoon
bowl banana apple sandwich orange broccoli carrot hot_dog pizza donut cake chair couch potted_plant bed dining_table
toilet tv laptop mouse remote keyboard cell_phone microwave oven toaster sink refrigerator book clock vase scissors
teddy_bear hair_drier toothbrush"""

CocoClasses = enum.IntEnum("CocoClasses", {name: number for number, name in enumerate(_COCO.split())})  # type: ignore[misc]
"""The 80 classes of COCO, in the order that detectors number them."""


@dataclass
class BBox:
    """A box by its corners, the second one exclusive."""

    x0: float
    y0: float
    x1: float
    y1: float

    def __iter__(self) -> Iterator[float]:
        """Yield the four numbers."""
        return iter((self.x0, self.y0, self.x1, self.y1))


@dataclass
class DetectedObject:
    """What a detector found: a box in pixels of the picture."""

    index: int = 0
    class_id: Any = None
    bbox: BBox | None = None
    score: float | None = None


@dataclass
class Keypoint:
    """A point of a pose, in pixels of the picture."""

    x: float
    y: float
    confidence: float
    name: str | None = None


@dataclass
class PoseObject:
    """A pose: its points, and the box round it, in pixels of the picture."""

    index: int = 0
    keypoints: list[Keypoint] = field(default_factory=list)
    bbox: BBox | None = None
    score: float | None = None
    class_id: Any = None


@dataclass
class Classification:
    """A class and its score."""

    class_id: Any
    score: float


def _class(kind: Any, number: Any) -> Any:
    return kind(int(number))


class AxDetection(Operator):
    """Makes objects of boxes."""

    class_id_type: Any = int

    def __call__(self, detections: Any) -> list[DetectedObject]:
        """Return an object for each row."""
        return [
            DetectedObject(index, _class(self.class_id_type, row[5]), BBox(*map(float, row[:4])), float(row[4]))
            for index, row in enumerate(array_of(detections))
        ]


class AxPose(Operator):
    """Makes objects of boxes with points."""

    num_keypoints: int = 17
    keypoint_names: Any = None
    class_id_type: Any = int

    def __call__(self, poses: Any) -> list[PoseObject]:
        """Return an object for each row."""
        names = self.keypoint_names or [None] * self.num_keypoints
        found = []
        for index, row in enumerate(array_of(poses)):
            points = row[6 : 6 + 3 * self.num_keypoints].reshape(-1, 3)
            named = zip(points.tolist(), names, strict=True)
            keypoints = [Keypoint(x, y, confidence, name) for (x, y, confidence), name in named]
            box = BBox(*map(float, row[:4]))
            found.append(PoseObject(index, keypoints, box, float(row[4]), _class(self.class_id_type, row[5])))
        return found


class AxClassification(Operator):
    """Makes objects of scores, or of what `TopK` gave."""

    class_id_type: Any = int

    def __call__(self, *scores: Any) -> list[Classification]:
        """Return an object for each class."""
        given = scores[0] if len(scores) == 1 else scores
        if isinstance(given, tuple):
            values, places = (np.asarray(one).reshape(-1) for one in given)
        else:
            values = np.asarray(array_of(given)).reshape(-1)
            places = np.arange(values.size)
        return [
            Classification(_class(self.class_id_type, at), float(one)) for one, at in zip(values, places, strict=True)
        ]


class Filter(Operator):
    """Keeps the objects of some classes, scores, or of which a function says so."""

    class_ids: Any = None
    min_score: float | None = None
    fn: Any = None

    def __call__(self, objects: Iterable[Any]) -> list[Any]:
        """Return those of which all holds that was given."""
        return [
            one
            for one in objects
            if (self.class_ids is None or one.class_id in self.class_ids)
            and (self.min_score is None or one.score >= self.min_score)
            and (self.fn is None or self.fn(one))
        ]
