"""What a network's outputs say of a picture: the best classes, or boxes with names in its own pixels, and a drawing of it.

What cannot be told is said, not guessed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from triune._depth import eight_bits
from triune._detector import SUPPRESSED_OVERLAP, Detector
from triune._model_info import other_count
from triune._text import short
from triune.batch import Preprocess
from triune.batch._pictures import Frame
from triune.errors import ArgumentError

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["Answer", "Reader", "draw"]

Array = npt.NDArray[Any]


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
        iou: float = SUPPRESSED_OVERLAP,
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
        self._detector = Detector(outputs, frame, len(labels), boxes)
        self._classes = None if self._detector.detects or self._detector.undecoded else _classes(outputs)
        count = self._detector.classes if self._classes is None else outputs[self._classes].shape[1]
        if labels and count is not None and len(labels) != count:
            what = self._classes or self._detector.names[0]
            told = other_count(count, len(labels))
            raise ArgumentError(short(f"labels: expected {count}, one per class of {what!r}, {told}"))

    @property
    def known(self) -> bool:
        """Whether the outputs are of a form that is known."""
        return self._detector.detects or self._classes is not None

    @property
    def boxes(self) -> bool:
        """Whether they are boxes, or should be."""
        return self._detector.detects or self._detector.undecoded != ""

    @property
    def said(self) -> str:
        """What the outputs were taken for, in words."""
        if self._detector.detects:
            return f"boxes: {self._detector.said}"
        if self._classes is not None:
            return f"classes: scores in {self._classes!r}"
        if self._detector.undecoded:
            return self._detector.said
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
        if not self._detector.detects:
            return []
        found = self._detector.detect(outputs, row, score=self._score, overlap=self._iou)
        frame = self._frame
        boxes = found.boxes
        if frame is not None:
            # As parts of the sides, if all are within them.
            if self._detector.relative(outputs):
                boxes = boxes * [frame.width, frame.height, frame.width, frame.height]
            if size is not None:
                fx, fy, ox, oy = how.place(size, (frame.width, frame.height))
                boxes = boxes * [fx, fy, fx, fy] + [ox, oy, ox, oy]
                boxes = np.clip(boxes, 0, [*size, *size])
        return [
            Answer(int(number), self._name(int(number)), float(score), tuple(map(float, box)))  # type: ignore[arg-type]
            for number, score, box in zip(found.classes, found.scores, boxes, strict=True)
        ]

    def _name(self, number: int) -> str:
        return self._labels[number] if 0 <= number < len(self._labels) else str(number)


def _classes(outputs: Mapping[str, Array]) -> str | None:
    """Return the first output with a score for each of some classes: (N, C), further extents 1."""
    for name, array in outputs.items():
        if array.ndim >= 2 and array.shape[1] > 1 and array.size == array.shape[0] * array.shape[1]:
            return name
    return None


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
