"""Boxes and scores in a detector's outputs, and which boxes of two runs are the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from triune.errors import ArgumentError

__all__ = ["BoxOutputs", "Detections", "Matches", "close_to", "find_box_outputs", "match", "overlaps", "rows_of"]

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]

_COCO = 85
"""Numbers per box of detectors with four for the place, one for whether there is something, and COCO's 80 classes."""

_ONE = 1e-2
"""How far probabilities' sum may be from 1."""

_MOST = 300
"""Boxes of an image at most, the ones with the best scores."""


@dataclass(frozen=True)
class Detections:
    """What a detector found in one image, the best first."""

    boxes: Floats
    """(n, 4): left, top, right, bottom."""
    scores: Floats
    """(n,)"""
    classes: npt.NDArray[np.int64]
    """(n,)"""

    def __len__(self) -> int:
        return len(self.scores)


@dataclass(frozen=True)
class BoxOutputs:
    """Which outputs hold boxes and scores, and how."""

    boxes: str
    """The output with four numbers per box, (N, boxes, 4…) or (N, 4…, boxes)."""
    scores: str
    """The output with scores per box; the same one, if they follow the four numbers."""
    centred: bool | None = None
    """Whether the four are centre and extents, else corners; None: as they look."""
    objectness: bool = False
    """Whether the first score is that there is something at all, which the others are multiplied with."""
    background: bool = False
    """Whether the first score is that there is nothing."""

    def detect(self, outputs: Mapping[str, Array], *, score: float, overlap: float = 0.5) -> list[Detections]:
        """Return what is found in each image: boxes of at least `score`, the best of those that overlap in a class."""
        places = rows_of(outputs[self.boxes])
        scores = rows_of(outputs[self.scores])
        if self.boxes == self.scores:
            places, scores = places[..., :4], scores[..., 4:]
        if self.objectness:
            scores = scores[..., :1] * scores[..., 1:]
        if self.background:
            scores = scores[..., 1:]
        return [self._image(own[..., :4], marks, score, overlap) for own, marks in zip(places, scores, strict=True)]

    def _image(self, places: Floats, scores: Floats, score: float, overlap: float) -> Detections:
        best, classes = scores.max(axis=1), scores.argmax(axis=1)
        chosen = np.flatnonzero(best >= score)
        chosen = chosen[np.argsort(-best[chosen], kind="stable")][:_MOST]
        boxes, best, classes = places[chosen], best[chosen], classes[chosen]
        centred = self.centred
        if centred is None:
            # Corners are in order, all of them; of centres and extents only boxes in the upper left look so.
            everywhere = places[:: max(1, len(places) // 1000)]
            centred = not bool((everywhere[:, 2:] >= everywhere[:, :2]).all())
        if centred:
            half = boxes[:, 2:] / 2
            boxes = np.concatenate([boxes[:, :2] - half, boxes[:, :2] + half], axis=1)
        kept: list[int] = []
        for index in range(len(boxes)):
            rivals = [other for other in kept if classes[other] == classes[index]]
            if not rivals or overlaps(boxes[index : index + 1], boxes[rivals]).max() <= overlap:
                kept.append(index)
        return Detections(boxes[kept], best[kept], classes[kept].astype(np.int64))


def rows_of(array: Array) -> Floats:
    """Return an output as image, box, number."""
    if array.ndim == 2:
        array = array[None]
    # Boxes are many, what each has is few.
    rows = array if array.shape[1] >= array.shape[2] else array.transpose(0, 2, 1)
    return rows.astype(np.float64)


def overlaps(some: Floats, others: Floats) -> Floats:
    """Return intersection over union of each of `some` with each of `others`."""
    low = np.maximum(some[:, None, :2], others[None, :, :2])
    high = np.minimum(some[:, None, 2:], others[None, :, 2:])
    common = np.clip(high - low, 0, None).prod(axis=2)
    areas = [np.clip(boxes[:, 2:] - boxes[:, :2], 0, None).prod(axis=1) for boxes in (some, others)]
    union = areas[0][:, None] + areas[1][None] - common
    return np.where(union > 0, common / np.where(union > 0, union, 1), 0.0)


def find_box_outputs(outputs: Mapping[str, Array], spec: str | None = None) -> BoxOutputs | None:
    """Return which outputs are boxes and scores: those that `spec` names, or look so; None if none do.

    `spec` is the name of one output with both, or those of two, with a comma between: boxes, scores; or ``none``.

    Raises ArgumentError if there is no such output, or it is of another form.
    """
    if spec == "none":
        return None
    if spec:
        names = spec.split(",")
        unknown = [name for name in names if name not in outputs]
        if unknown or len(names) > 2:
            raise ArgumentError(f"boxes: expected one or two of the outputs {', '.join(outputs)}, got {spec!r}")
        _check_forms(names[0], names[-1], outputs)
        return _described(names[0], names[-1], outputs)
    wide = {name: array for name, array in outputs.items() if array.dtype.kind == "f" and array.ndim == 3}
    rows = {name: rows_of(array) for name, array in wide.items()}
    if len(wide) == 2:
        (one, first), (two, second) = rows.items()
        if first.shape[1] == second.shape[1] and first.shape[2] == second.shape[2] == 4:
            # Three classes and background: those whose sum is 1 are the scores.
            are_shares = [_are_shares(each) for each in (first, second)]
            if any(are_shares) and not all(are_shares):
                return _described(*((one, two) if are_shares[1] else (two, one)), outputs)
        if first.shape[1] == second.shape[1] and (first.shape[2] == 4) != (second.shape[2] == 4):
            return _described(*((one, two) if first.shape[2] == 4 else (two, one)), outputs)
    if len(wide) == 1:
        ((name, found),) = rows.items()
        # Four numbers of any size, then probabilities. Rows that sum to 1 are probabilities altogether: a text's characters.
        if _are_shares(wide[name]):
            return None
        if found.shape[2] > 4 and found.shape[1] > 4 * found.shape[2] and _probabilities(found[..., 4:]):
            return _described(name, name, outputs)
    return None


def _are_shares(rows: Array) -> bool:
    """Return whether the elements of each row sum to 1."""
    return float(np.abs(rows.sum(axis=2) - 1).max(initial=0)) < _ONE


def _check_forms(boxes: str, scores: str, outputs: Mapping[str, Array]) -> None:
    for name in (boxes, scores):
        shape = outputs[name].shape
        # Of two axes one may be that of images, and then there are no boxes.
        if len(shape) not in (2, 3) or (len(shape) == 2 and 1 in shape) or outputs[name].dtype.kind not in "fiu":
            raise ArgumentError(
                f"boxes: expected {name!r} to have an axis of boxes and one of what each has, got shape {shape}"
            )
    sizes = [rows_of(outputs[name]).shape[1:] for name in (boxes, scores)]
    if boxes == scores and sizes[0][1] < 5:
        raise ArgumentError(
            f"boxes: expected four numbers and scores for each box in {boxes!r}, got shape {outputs[boxes].shape}"
        )
    if boxes != scores and (sizes[0][1] != 4 or sizes[0][0] != sizes[1][0]):
        shapes = " and ".join(str(outputs[name].shape) for name in (boxes, scores))
        raise ArgumentError(
            f"boxes: expected four numbers for each box in {boxes!r}, and scores in {scores!r}, got shapes {shapes}"
        )


def _described(boxes: str, scores: str, outputs: Mapping[str, Array]) -> BoxOutputs:
    found = rows_of(outputs[scores])
    objectness = boxes == scores and found.shape[2] == _COCO
    # Of a softmax over background and classes the sum is 1.
    sums = found.sum(axis=2)
    background = boxes != scores and found.shape[2] > 1 and bool(np.abs(sums - 1).max(initial=0) < _ONE)
    return BoxOutputs(boxes, scores, None, objectness, background)


def _probabilities(values: Floats) -> bool:
    return bool(values.min(initial=0) >= -1e-3 and values.max(initial=0) <= 1 + 1e-3)


@dataclass(frozen=True)
class Matches:
    """Which boxes of two runs are the same."""

    reference: int
    """Boxes of the first."""
    other: int
    """Boxes of the second."""
    matched: int
    """Boxes of one class in both whose intersection over union is at least what was asked for."""
    least_iou: float
    """Of those that match, the least intersection over union; 1 if there are none."""
    most_score_error: float
    """Of those that match, the largest difference of scores."""

    @property
    def same(self) -> bool:
        """Whether each box has its match: as many matched as either has."""
        return self.matched == self.reference == self.other


def match(pairs: Iterable[tuple[Detections, Detections]], *, iou: float = 0.5) -> Matches:
    """Match the boxes of images, the best first, each with the one of its class that it shares most with."""
    reference = other = matched = 0
    least, most = 1.0, 0.0
    for mine, theirs in pairs:
        reference, other = reference + len(mine), other + len(theirs)
        if not len(mine) or not len(theirs):
            continue
        shared = overlaps(mine.boxes, theirs.boxes)
        shared[mine.classes[:, None] != theirs.classes[None]] = -1
        for index in range(len(mine)):
            best = int(shared[index].argmax())
            if shared[index, best] < iou:
                continue
            matched += 1
            least = min(least, float(shared[index, best]))
            most = max(most, abs(float(mine.scores[index] - theirs.scores[best])))
            shared[:, best] = -1
    return Matches(reference, other, matched, least, most)


def close_to(some: Detections, others: Detections, *, iou: float, scores: float) -> npt.NDArray[np.bool_]:
    """Return which of `some` have one of their class among `others` that is nearly the same, as an array of bool.

    The intersection over union is at least `iou` then, and the scores differ by at most `scores`.
    """
    near = np.abs(some.scores[:, None] - others.scores[None]) <= scores
    same = some.classes[:, None] == others.classes[None]
    found: npt.NDArray[np.bool_] = (near & same & (overlaps(some.boxes, others.boxes) >= iou)).any(axis=1)
    return found
