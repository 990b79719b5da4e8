"""From what detectors give to boxes and points in the picture."""

from __future__ import annotations

from typing import Any

import numpy as np

from triune.axelera.runtime._errors import InvalidArgument
from triune.axelera.runtime.op._heads import rows_of_heads
from triune.axelera.runtime.op._operators import FRAME, Array, Operator, numbers, ordered, table


def rows_of(what: str, raw: Any, columns: int) -> Array:
    """Return a detector's output as a row for each candidate."""
    array = numbers(what, raw, np.float32)
    if array.ndim == 3 and len(array) != 1:
        raise InvalidArgument(f"{what}: expected the output for one picture, got {len(array)} of them")
    array = array[0] if array.ndim == 3 else array
    if array.ndim != 2 or columns not in array.shape:
        raise InvalidArgument(
            f"{what}: expected an output with {columns} numbers for each box, got shape {array.shape}"
        )
    return array if array.shape[1] == columns else array.T


def _corners(boxes: Array) -> Array:
    centre, half = boxes[:, :2], boxes[:, 2:4] / 2
    return np.concatenate([centre - half, centre + half], 1)


ANCHOR_FREE = ("yolov8", "yolov9", "yolo11", "yolov11")


def _above(scores: Array, threshold: float, most: int) -> tuple[Array, Array, Array]:
    """Return the rows whose best score is above a threshold, so many of the best; the best scores and classes of all."""
    best = scores.argmax(1)
    score = scores[np.arange(len(scores)), best]
    kept = np.flatnonzero(score >= threshold)
    if len(kept) > most:
        kept = np.sort(kept[np.argsort(-score[kept], kind="stable")[:most]])
    return kept, score, best


def best_rows(rows: Array, scores: Array, threshold: float, most: int, rest: Array) -> Array:
    """Return the rows above a threshold, most of the best: corners, score, class, and what else there is."""
    kept, score, best = _above(scores, threshold, most)
    columns = [_corners(rows[kept]), score[kept, None], best[kept, None].astype(np.float32), rest[kept]]
    return np.concatenate(columns, 1).astype(np.float32)


class DecodeDetections(Operator):
    """Makes boxes of a YOLO detector's output: corners, score and class, in pixels of the model's input.

    Of an anchor-free detector, that may be what its last convolutions give, two maps for each stride.
    """

    algo: str
    num_classes: int
    confidence_threshold: float = 0.25
    max_boxes_pre_nms: int = 30000
    input_format: str = "auto"

    def __call__(self, *outputs: Any) -> Array:
        """Return a row for each box above the threshold. Raises InvalidArgument for another algorithm or shape."""
        algo, what = str(self.algo).lower(), "decode_detections"
        if len(outputs) != 1 and algo not in ANCHOR_FREE:
            raise InvalidArgument(f"{what}: expected one output for algo {self.algo!r}, got {len(outputs)}")
        raw = outputs[0] if len(outputs) == 1 else rows_of_heads(what, outputs, self.num_classes)
        if algo in ("yolov10", "yolo26", "yolov26"):
            rows = rows_of(what, raw, 6)
            return rows[rows[:, 4] >= self.confidence_threshold][: self.max_boxes_pre_nms]
        if algo in ANCHOR_FREE:
            rows = rows_of(what, raw, 4 + self.num_classes)
            scores = rows[:, 4:]
        elif algo in ("yolov5", "yolov7"):
            rows = rows_of(what, raw, 5 + self.num_classes)
            scores = rows[:, 5:] * rows[:, 4:5]
        else:
            raise InvalidArgument(
                f"{what}: algo {self.algo!r} is none of yolov5, yolov7, yolov8, yolov9, yolov10, yolo11, yolo26"
            )
        return best_rows(rows, scores, self.confidence_threshold, self.max_boxes_pre_nms, rows[:, :0])


class DecodePose(Operator):
    """Makes boxes with points of a YOLO pose model's output."""

    algo: str
    num_keypoints: int
    confidence_threshold: float = 0.25
    max_boxes_pre_nms: int = 30000
    input_format: str = "auto"

    def __call__(self, raw: Any) -> Array:
        """Return a row for each box above the threshold: corners, score, class, and x, y and confidence of each point."""
        if str(self.algo).lower() not in ANCHOR_FREE:
            raise InvalidArgument(f"decode_pose: algo {self.algo!r} is none of yolov8, yolo11")
        rows = rows_of("decode_pose", raw, 5 + 3 * self.num_keypoints)
        return best_rows(rows, rows[:, 4:5], self.confidence_threshold, self.max_boxes_pre_nms, rows[:, 5:])


class DecodeObb(Operator):
    """Makes turned boxes of a YOLO detector's output: centre, extents, score, class and angle, in pixels of the model's input."""

    num_classes: int
    confidence_threshold: float = 0.25
    max_boxes_pre_nms: int = 30000

    def __call__(self, raw: Any) -> Array:
        """Return a row for each box above the threshold; the model's end with the angle. Raises InvalidArgument for others."""
        rows = rows_of("decode_obb", raw, 5 + self.num_classes)
        kept, score, best = _above(rows[:, 4:-1], self.confidence_threshold, self.max_boxes_pre_nms)
        columns = [rows[kept, :4], score[kept, None], best[kept, None].astype(np.float32), rows[kept, -1:]]
        return np.concatenate(columns, 1).astype(np.float32)


class ToImageSpace(Operator):
    """Takes boxes, and points, from pixels of the model's input to fractions of the picture before `Letterbox` or `Resize`."""

    box_cols: Any = (0, 4)
    box_format: str = "xyxy"
    keypoint_cols: Any = None

    def __call__(self, detections: Any) -> Array:
        """Return rows whose places are fractions of the picture's width and height; boxes end at its edges.

        Raises InvalidArgument if no operator was there before that brought a picture to the model's size.
        """
        frame = FRAME.get()
        place = None if frame is None else frame.saved.get("place")
        if place is None:
            raise InvalidArgument(
                "to_image_space: no letterbox or resize was there before, in this pipeline or op.frame_context"
            )
        last = max([self.box_cols[0] + 3] if self.box_cols else [0], default=0)
        last = max([last, *(column + 1 for column in self.keypoint_cols or ())])
        found = table("to_image_space", detections, last + 1, np.float32).copy()

        def back(column: int, axis: int) -> Array:
            off, by, extent = ((place.left, place.across, place.columns), (place.top, place.down, place.rows))[axis]
            return (found[:, column] - np.float32(off)) / np.float32(by * extent)

        first = self.box_cols[0] if self.box_cols else 0
        if self.box_cols and self.box_format == "xywhr":
            found[:, first], found[:, first + 1] = back(first, 0), back(first + 1, 1)
            found[:, first + 2] /= np.float32(place.across * place.columns)
            found[:, first + 3] /= np.float32(place.down * place.rows)
        elif self.box_cols and self.box_format == "xyxy":
            for column in range(*self.box_cols):
                found[:, column] = np.clip(back(column, (column - first) % 2), 0, 1)
        elif self.box_cols:
            raise InvalidArgument(f"to_image_space: box_format {self.box_format!r} is none of xyxy, xywhr")
        for column in self.keypoint_cols or ():
            found[:, column], found[:, column + 1] = back(column, 0), back(column + 1, 1)
        return found


class Softmax(Operator):
    """Makes probabilities of scores."""

    dim: int = -1

    def __call__(self, scores: Any) -> Array:
        """Return numbers of the sum 1 along an axis, as 32-bit floats."""
        array = numbers("softmax", scores, np.float32)
        powers = np.exp(array - array.max(self.dim, keepdims=True))
        found: Array = powers / powers.sum(self.dim, keepdims=True)
        return found


class TopK(Operator):
    """Takes the largest: of an array values and places, of classifications those."""

    k: int
    dim: int | None = None
    largest: bool = True
    sorted: bool = True

    def __call__(self, scores: Any) -> Any:
        """Return them, the first the best; what has no number (NaN) comes last. Raises InvalidArgument for a negative `k`."""
        if self.k < 0:
            raise InvalidArgument(f"top_k: expected k of 0 or more, got {self.k}")
        if isinstance(scores, list):
            return ordered("top_k", scores, lambda one: one.score, self.largest)[: self.k]
        array = numbers("top_k", scores)
        array, axis = (array.reshape(-1), 0) if self.dim is None else (array, self.dim)
        # Turned round without a sign, which not all integers have.
        keys = array if not self.largest else -array if array.dtype.kind == "f" else ~array
        order = np.argsort(keys, axis, kind="stable").take(range(min(self.k, array.shape[axis])), axis)
        return np.take_along_axis(array, order, axis), order


class Top1(TopK):
    """Takes the best one."""

    k: int = 1
