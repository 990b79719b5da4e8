"""What form a detector's outputs have, told by their shapes and values, as families of networks have them, and what they detect.

A decode that such a network is known to lack is made up for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from triune._detections import BoxOutputs, Detections, find_box_outputs, rows_of
from triune.batch._pictures import Frame

__all__ = ["SUPPRESSED_OVERLAP", "Detector"]

Array = npt.NDArray[Any]

SUPPRESSED_OVERLAP = 0.45
"""Boxes of a class that share more than this are one, if nobody says otherwise."""

_COLUMNS = 6
"""Of results that have been through suppression: left, top, right, bottom, score, class."""

_NEAR_ONE = 2.0
"""Boxes as parts of the sides may reach over them, but not by a side."""


class _Family(NamedTuple):
    """A form of detectors' outputs."""

    said: str
    """What it is called, for people."""
    outputs: BoxOutputs | None
    """None: rows of box, score and class that are left after suppression."""
    name: str


class Detector:
    """Detects with the outputs of one model."""

    def __init__(self, outputs: Mapping[str, Array], frame: Frame | None, labels: int, spec: str | None) -> None:
        """Find out what the outputs are; `frame` is what the input takes, if it is a picture's, `labels` their number.

        `spec` names the outputs with boxes and scores, as in `find_box_outputs`, which raises ArgumentError if it names none.
        """
        self._grid: Array | None = None
        self._family = _family(outputs, labels, spec)
        self.undecoded = ""
        """The output that holds what boxes are made of, in a way that is not known."""
        self.classes: int | None = None
        """How many classes there are, if that is known."""
        if self._family is not None and self._family.outputs is not None:
            self._check_decoded(outputs, self._family.outputs, frame)
        if self._family is not None and self._family.outputs is not None:
            self.classes = _class_count(outputs, self._family.outputs)

    def _check_decoded(self, outputs: Mapping[str, Array], found: BoxOutputs, frame: Frame | None) -> None:
        """Tell boxes from what boxes are made of, and find out how, if that is of a form that is known."""
        rows = rows_of(outputs[found.boxes])
        corners = bool((rows[..., 2:4] >= rows[..., :2]).all())
        if corners or rows[..., 2:4].min(initial=0) >= 0:
            return
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
        self.undecoded = found.boxes

    @property
    def detects(self) -> bool:
        """Whether the outputs are of a form that is known."""
        return self._family is not None

    @property
    def decodes(self) -> bool:
        """Whether it makes up for a decode that the network lacks."""
        return self._grid is not None

    @property
    def names(self) -> tuple[str, ...]:
        """The outputs that it reads."""
        if self._family is None:
            return ()
        found = self._family.outputs
        return (self._family.name,) if found is None else tuple(dict.fromkeys((found.boxes, found.scores)))

    @property
    def said(self) -> str:
        """What the outputs were taken for, in words."""
        if self._family is not None:
            return self._family.said
        if self.undecoded:
            return (
                f"no boxes: {self.undecoded!r} has extents below 0, so it holds what boxes are made of (offsets, logits); "
                "export the model with its decode in the graph"
            )
        return ""

    def detect(self, outputs: Mapping[str, Array], row: int, *, score: float, overlap: float) -> Detections:
        """Return what is found in the picture in a row of the batch, in the input's pixels or parts of its sides."""
        family = self._family
        assert family is not None
        if family.outputs is not None:
            own = {
                name: outputs[name] if outputs[name].ndim == 2 else outputs[name][row : row + 1] for name in self.names
            }
            if self._grid is not None:
                own = {name: _decoded(array, self._grid) for name, array in own.items()}
            return family.outputs.detect(own, score=score, overlap=overlap)[0]
        array = outputs[family.name]
        rows = (array if array.ndim == 2 else array[row]).astype(np.float64)
        rows = rows[rows[:, 4] >= score]
        rows = rows[np.argsort(-rows[:, 4], kind="stable")]
        return Detections(rows[:, :4], rows[:, 4], rows[:, 5].astype(np.int64))

    def pictures(self, outputs: Mapping[str, Array]) -> int:
        """Return how many pictures the outputs are of."""
        array = outputs[self.names[0]]
        return 1 if array.ndim == 2 else len(array)

    def relative(self, outputs: Mapping[str, Array]) -> bool:
        """Return whether boxes are parts of the input's sides."""
        family = self._family
        assert family is not None
        name = family.outputs.boxes if family.outputs is not None else family.name
        rows = outputs[name] if family.outputs is None else rows_of(outputs[name])
        return self._grid is None and bool(np.abs(rows[..., :4]).max(initial=0) <= _NEAR_ONE)


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
    for name, array in outputs.items():
        if spec in (None, name) and _is_suppressed(array):
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
