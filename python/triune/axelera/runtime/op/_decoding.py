"""From what detectors give to boxes and points in the picture."""

from __future__ import annotations

from typing import Any

import numpy as np

from triune.axelera.runtime._errors import InvalidArgument
from triune.axelera.runtime.op._operators import FRAME, Array, Operator, array_of


def _rows(what: str, raw: Any, columns: int) -> Array:
    """Return a detector's output as a row for each candidate."""
    array = np.asarray(array_of(raw), np.float32)
    array = array[0] if array.ndim == 3 else array
    if array.ndim != 2 or columns not in array.shape:
        raise InvalidArgument(
            f"{what}: expected an output with {columns} numbers for each box, got shape {array.shape}"
        )
    return array if array.shape[1] == columns else array.T


def _corners(boxes: Array) -> Array:
    centre, half = boxes[:, :2], boxes[:, 2:4] / 2
    return np.concatenate([centre - half, centre + half], 1)


_ANCHOR_FREE = ("yolov8", "yolov9", "yolo11", "yolov11")


def _best(rows: Array, scores: Array, threshold: float, most: int, rest: Array) -> Array:
    """Return the rows above a threshold: corners, score, class, what else there is; the best first if there are too many."""
    best = scores.argmax(1)
    score = scores[np.arange(len(scores)), best]
    kept = np.flatnonzero(score >= threshold)
    if len(kept) > most:
        kept = np.sort(kept[np.argsort(-score[kept], kind="stable")[:most]])
    columns = [_corners(rows[kept]), score[kept, None], best[kept, None].astype(np.float32), rest[kept]]
    return np.concatenate(columns, 1).astype(np.float32)


class DecodeDetections(Operator):
    """Makes boxes of a YOLO detector's output: corners, score and class, in pixels of the model's input."""

    algo: str
    num_classes: int
    confidence_threshold: float = 0.25
    max_boxes_pre_nms: int = 30000
    input_format: str = "auto"

    def __call__(self, raw: Any) -> Array:
        """Return a row for each box above the threshold. Raises InvalidArgument for another algorithm or shape."""
        algo, what = self.algo.lower(), "decode_detections"
        if algo in ("yolov10", "yolo26", "yolov26"):
            rows = _rows(what, raw, 6)
            return rows[rows[:, 4] >= self.confidence_threshold][: self.max_boxes_pre_nms]
        if algo in _ANCHOR_FREE:
            rows = _rows(what, raw, 4 + self.num_classes)
            scores = rows[:, 4:]
        elif algo in ("yolov5", "yolov7"):
            rows = _rows(what, raw, 5 + self.num_classes)
            scores = rows[:, 5:] * rows[:, 4:5]
        else:
            raise InvalidArgument(
                f"{what}: algo {self.algo!r} is none of yolov5, yolov7, yolov8, yolov9, yolov10, yolo11, yolo26"
            )
        return _best(rows, scores, self.confidence_threshold, self.max_boxes_pre_nms, rows[:, :0])


class DecodePose(Operator):
    """Makes boxes with points of a YOLO pose model's output."""

    algo: str
    num_keypoints: int
    confidence_threshold: float = 0.25
    max_boxes_pre_nms: int = 30000
    input_format: str = "auto"

    def __call__(self, raw: Any) -> Array:
        """Return a row for each box above the threshold: corners, score, class, and x, y and confidence of each point."""
        if self.algo.lower() not in _ANCHOR_FREE:
            raise InvalidArgument(f"decode_pose: algo {self.algo!r} is none of yolov8, yolo11")
        rows = _rows("decode_pose", raw, 5 + 3 * self.num_keypoints)
        return _best(rows, rows[:, 4:5], self.confidence_threshold, self.max_boxes_pre_nms, rows[:, 5:])


class Nms(Operator):
    """Leaves of boxes that overlap the one with the best score."""

    iou_threshold: float = 0.45
    class_agnostic: bool = False
    max_boxes: int = 300
    backend: str = "opencv"

    def __call__(self, detections: Any) -> Array:
        """Return the rows that stay, the best first. Columns behind the score come along."""
        rows = np.asarray(array_of(detections), np.float32)
        rows = rows[np.argsort(-rows[:, 4], kind="stable")]
        classes = rows[:, 5] if rows.shape[1] > 5 and not self.class_agnostic else np.zeros(len(rows), np.float32)
        areas = np.maximum(rows[:, 2] - rows[:, 0], 0) * np.maximum(rows[:, 3] - rows[:, 1], 0)
        alive, kept = np.ones(len(rows), bool), []
        for index in range(len(rows)):
            if not alive[index]:
                continue
            kept.append(index)
            if len(kept) >= self.max_boxes:
                break
            others = np.flatnonzero(alive[index + 1 :] & (classes[index + 1 :] == classes[index])) + index + 1
            corner = np.maximum(rows[others, :2], rows[index, :2]), np.minimum(rows[others, 2:4], rows[index, 2:4])
            shared = np.maximum(corner[1] - corner[0], 0).prod(1)
            union = areas[others] + areas[index] - shared
            alive[others[shared > self.iou_threshold * union]] = False
        return rows[kept]


class ToImageSpace(Operator):
    """Takes boxes, and points, from the model's input back to the picture, before `Letterbox`."""

    box_cols: Any = (0, 4)
    keypoint_cols: Any = None

    def __call__(self, detections: Any) -> Array:
        """Return rows in pixels of the picture. Raises InvalidArgument if no letterbox was there before."""
        frame = FRAME.get()
        if frame is None or "letterbox" not in frame.saved:
            raise InvalidArgument("to_image_space: no letterbox was there before, in this pipeline or op.frame_context")
        across, down, left, top, columns, rows = frame.saved["letterbox"]
        found = np.array(array_of(detections), np.float32)
        places = list(range(*self.box_cols))[::2] if self.box_cols else []
        for place in places:
            found[:, place] = np.clip((found[:, place] - left) / across, 0, columns)
            found[:, place + 1] = np.clip((found[:, place + 1] - top) / down, 0, rows)
        for place in self.keypoint_cols or ():
            found[:, place] = (found[:, place] - left) / across
            found[:, place + 1] = (found[:, place + 1] - top) / down
        return found


class TopK(Operator):
    """Takes the largest: of an array values and places, of classifications those."""

    k: int
    dim: int | None = None
    largest: bool = True
    sorted: bool = True

    def __call__(self, scores: Any) -> Any:
        """Return them, the first the best."""
        if isinstance(scores, list):
            return sorted(scores, key=lambda one: one.score, reverse=self.largest)[: self.k]
        array = np.asarray(array_of(scores))
        array, axis = (array.reshape(-1), 0) if self.dim is None else (array, self.dim)
        order = np.argsort(-array if self.largest else array, axis, kind="stable").take(
            range(min(self.k, array.shape[axis])), axis
        )
        return np.take_along_axis(array, order, axis), order
