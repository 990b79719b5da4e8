"""What a network's outputs say of a picture: the best classes, or boxes with names in its own pixels, and a drawing of it.

Detectors' outputs are told by their shapes, as families of networks have them; what cannot be told is said, not guessed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from triune._depth import eight_bits
from triune._detections import BoxOutputs, Detections, find_box_outputs, rows_of
from triune._text import short
from triune.batch import Preprocess
from triune.batch._pictures import Frame
from triune.errors import ArgumentError

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["Answer", "Reader", "draw"]

Array = npt.NDArray[Any]

_COLUMNS = 6
"""Of results that have been through suppression: left, top, right, bottom, score, class."""


@dataclass(frozen=True)
class Answer:
    """One thing that is said of a picture."""

    number: int
    """The class, from 0."""
    name: str
    """Its name, or its number."""
    score: float
    box: tuple[float, float, float, float] | None = None
    """Left, top, right, bottom in the picture's pixels; None for a class of the whole."""

    def __str__(self) -> str:
        """Return name, score and box."""
        where = "" if self.box is None else f" at {', '.join(f'{each:.0f}' for each in self.box)}"
        return f"{self.name} ({self.score:.4g}){where}"


class _Family(NamedTuple):
    """A form of detectors' outputs."""

    said: str
    """What it is called, for people."""
    outputs: BoxOutputs | None
    """None: rows of box, score and class that are left after suppression."""
    name: str


class Reader:
    """Reads the outputs of one model."""

    def __init__(
        self,
        outputs: Mapping[str, Array],
        frame: Frame | None,
        labels: Sequence[str],
        *,
        boxes: str | None = None,
        score: float = 0.25,
        iou: float = 0.45,
        top: int = 5,
    ) -> None:
        """Find out what the outputs are by their shapes and values.

        `boxes` names the outputs with boxes and scores, as in `find_box_outputs`. Of boxes that overlap by more than `iou`, those
        of a class with a score below another's are dropped; `score` is the least, and `top` how many classes are told.

        Raises ArgumentError if `boxes` names none, or the labels are not as many as the classes.
        """
        self._labels = labels
        self._frame = frame
        self._score, self._iou, self._top = score, iou, top
        self._grid: Array | None = None
        self._family = _family(outputs, len(labels), boxes)
        self._undecoded = ""
        if self._family is not None and self._family.outputs is not None:
            self._check_decoded(outputs, self._family.outputs)
        self._classes = None if self._family or self._undecoded else _classes(outputs)
        count = None
        if self._classes is not None:
            count = outputs[self._classes].shape[1]
        elif self._family is not None and self._family.outputs is not None:
            count = _class_count(outputs, self._family.outputs)
        if labels and count is not None and len(labels) != count:
            what = self._classes or (self._family.name if self._family else "")
            raise ArgumentError(short(f"labels: expected {count} lines, one per class of {what!r}, got {len(labels)}"))

    def _check_decoded(self, outputs: Mapping[str, Array], found: BoxOutputs) -> None:
        """Tell boxes from what boxes are made of, and find out how, if that is of a form that is known."""
        rows = rows_of(outputs[found.boxes])
        corners = bool((rows[..., 2:4] >= rows[..., :2]).all())
        if corners or rows[..., 2:4].min(initial=0) >= 0:
            return
        frame = self._frame
        grid = _grid(frame) if frame is not None else None
        if found.boxes == found.scores and grid is not None and rows.shape[1] == len(grid):
            self._grid = grid
            assert self._family is not None
            self._family = self._family._replace(
                said=f"offsets in cells of 8, 16 and 32 pixels, objectness and {rows.shape[2] - 5} classes in {found.boxes!r}, "
                "as YOLOX without its decode",
                outputs=replace(found, centred=True, objectness=True),
            )
            return
        self._family = None
        self._undecoded = found.boxes

    @property
    def known(self) -> bool:
        """Whether the outputs are of a form that is known."""
        return self._family is not None or self._classes is not None

    @property
    def boxes(self) -> bool:
        """Whether they are boxes, or should be."""
        return self._family is not None or self._undecoded != ""

    @property
    def said(self) -> str:
        """What the outputs were taken for, in words."""
        if self._family is not None:
            return f"boxes: {self._family.said}"
        if self._classes is not None:
            return f"classes: scores in {self._classes!r}"
        if self._undecoded:
            return (
                f"no boxes: {self._undecoded!r} has extents below 0, so it holds what boxes are made of (offsets, logits); "
                "export the model with its decode in the graph"
            )
        return (
            "no form of classes or boxes that is known: classes are (N, C); boxes with their decode in the graph are one output "
            "(N, boxes, 5 + C), (N, 4 + C, boxes) or (N, boxes, 6), or two, (N, boxes, 4) and (N, boxes, C); name them with "
            "--boxes OUTPUT or --boxes BOXES,SCORES"
        )

    def read(
        self, outputs: Mapping[str, Array], row: int, size: tuple[int, int] | None, how: Preprocess
    ) -> list[Answer]:
        """Return what is said of the picture in a row of the batch, the best first.

        `size` is the picture's (W, H), `how` the way it became the input; without a size boxes are in the input's pixels.
        """
        if self._classes is not None:
            scores = np.asarray(outputs[self._classes][row], np.float64).reshape(-1)
            best = (-np.where(np.isnan(scores), -np.inf, scores)).argsort(kind="stable")[: self._top]
            return [Answer(int(at), self._name(int(at)), float(scores[at])) for at in best]
        if self._family is None:
            return []
        found = self._detect(outputs, row)
        frame = self._frame
        boxes = found.boxes
        if frame is not None:
            # As parts of the sides, if all are within them.
            if self._relative(outputs):
                boxes = boxes * [frame.width, frame.height, frame.width, frame.height]
            if size is not None:
                fx, fy, ox, oy = how.place(size, (frame.width, frame.height))
                boxes = boxes * [fx, fy, fx, fy] + [ox, oy, ox, oy]
                boxes = np.clip(boxes, 0, [*size, *size])
        return [
            Answer(int(number), self._name(int(number)), float(score), tuple(map(float, box)))  # type: ignore[arg-type]
            for number, score, box in zip(found.classes, found.scores, boxes, strict=True)
        ]

    def _detect(self, outputs: Mapping[str, Array], row: int) -> Detections:
        family = self._family
        assert family is not None
        if family.outputs is not None:
            names = {family.outputs.boxes, family.outputs.scores}
            own = {name: outputs[name] if outputs[name].ndim == 2 else outputs[name][row : row + 1] for name in names}
            if self._grid is not None:
                own = {name: _decoded(array, self._grid) for name, array in own.items()}
            return family.outputs.detect(own, score=self._score, overlap=self._iou)[0]
        array = outputs[family.name]
        rows = (array if array.ndim == 2 else array[row]).astype(np.float64)
        rows = rows[rows[:, 4] >= self._score]
        rows = rows[np.argsort(-rows[:, 4], kind="stable")]
        return Detections(rows[:, :4], rows[:, 4], rows[:, 5].astype(np.int64))

    def _relative(self, outputs: Mapping[str, Array]) -> bool:
        family = self._family
        assert family is not None
        name = family.outputs.boxes if family.outputs is not None else family.name
        rows = outputs[name] if family.outputs is None else rows_of(outputs[name])
        return self._grid is None and bool(np.abs(rows[..., :4]).max(initial=0) <= _NEAR_ONE)

    def _name(self, number: int) -> str:
        return self._labels[number] if 0 <= number < len(self._labels) else str(number)


_NEAR_ONE = 2.0
"""Boxes as parts of the sides may reach over them, but not by a side."""


def _classes(outputs: Mapping[str, Array]) -> str | None:
    """Return the first output with a score for each of some classes: (N, C), further extents 1."""
    for name, array in outputs.items():
        if array.ndim >= 2 and array.shape[1] > 1 and array.size == array.shape[0] * array.shape[1]:
            return name
    return None


def _grid(frame: Frame) -> Array:
    """Return left, top and side of each of YOLOX's cells: (cells, 3)."""
    parts = []
    for stride in (8, 16, 32):
        y, x = np.mgrid[: frame.height // stride, : frame.width // stride]
        parts.append(np.stack([x.ravel(), y.ravel(), np.full(x.size, stride)], axis=1))
    return np.concatenate(parts).astype(np.float64)


def _decoded(array: Array, grid: Array) -> Array:
    """Return rows with boxes in pixels, as centre and extents."""
    rows = rows_of(array).copy()
    rows[..., :2] = (rows[..., :2] + grid[:, :2]) * grid[:, 2:]
    rows[..., 2:4] = np.exp(np.minimum(rows[..., 2:4], 20)) * grid[:, 2:]
    return rows


def _class_count(outputs: Mapping[str, Array], found: BoxOutputs) -> int:
    sides: list[int] = sorted(outputs[found.scores].shape[-2:])
    return sides[0] - (4 if found.boxes == found.scores else 0) - found.objectness - found.background


def _family(outputs: Mapping[str, Array], labels: int, spec: str | None) -> _Family | None:
    if spec is None:
        for name, array in outputs.items():
            if _is_suppressed(array):
                return _Family(f"left, top, right, bottom, score and class in {name!r}", None, name)
    found = find_box_outputs(outputs, spec)
    if found is None:
        return None
    name = found.boxes
    if found.boxes != found.scores:
        first = ", the first class being background" if found.background else ""
        return _Family(f"boxes in {found.boxes!r}, scores in {found.scores!r}{first}, as of SSD", found, name)
    array = outputs[name]
    columns = min(array.shape[-2:])
    across = array.shape[-1] > array.shape[-2]
    # One for whether there is something at all, by the number of names, else by which axis boxes run along.
    objectness = columns == 5 + labels if labels and columns - labels in (4, 5) else not across
    found = replace(found, objectness=objectness and columns > 5)
    if found.objectness:
        return _Family(f"box, objectness and {columns - 5} classes in {name!r}, as of YOLOv5 and YOLOX", found, name)
    return _Family(f"box and {columns - 4} classes in {name!r}, as of YOLOv8", found, name)


def _is_suppressed(array: Array) -> bool:
    """Return whether an output has rows of a box, a score and a class."""
    if array.dtype.kind != "f" or array.ndim not in (2, 3) or array.shape[-1] != _COLUMNS or not array.size:
        return False
    if array.ndim == 2 and array.shape[0] < 2:
        return False
    rows = array.reshape(-1, _COLUMNS)
    scores, classes = rows[:, 4], rows[:, 5]
    whole = np.array_equal(classes, np.rint(classes)) and classes.min() >= -1
    return bool(whole and scores.min() >= -1e-6 and scores.max() <= 1 + 1e-6 and (rows[:, 2:4] >= rows[:, :2]).all())


def draw(picture: Image.Image, answers: Sequence[Answer]) -> Image.Image:
    """Return the picture with boxes and names in it, or the best class in its corner."""
    from PIL import ImageDraw

    result = eight_bits(picture).convert("RGB")
    pen = ImageDraw.Draw(result)
    width = max(1, round(min(result.size) / 200))
    shown = answers if any(each.box for each in answers) else answers[:1]
    # The best ones last, so that they lie on top.
    for each in reversed(shown):
        color = _COLORS[each.number % len(_COLORS)]
        left, top, right, bottom = each.box or (0.0, 0.0, 0.0, 0.0)
        if each.box is not None and right > left and bottom > top:
            pen.rectangle((left, top, right, bottom), outline=color, width=width)
        text = f"{each.name} {each.score:.2f}"
        place = pen.textbbox((left, top), text)
        pen.rectangle(place, fill=color)
        pen.text((left, top), text, fill=(0, 0, 0))
    return result


_COLORS = (
    (255, 196, 0),
    (0, 200, 255),
    (120, 230, 80),
    (255, 120, 160),
    (200, 160, 255),
    (255, 150, 60),
    (90, 220, 190),
    (240, 240, 120),
)
