"""How often the quantized model gives the float one's answer: the best class, the boxes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from triune._detections import Detections, match
from triune._detector import SUPPRESSED_OVERLAP, Detector
from triune.batch._pictures import Frame
from triune.quantization._model import Array

__all__ = ["Agreement", "agreements", "scores_classes"]

_SCORE = 0.25
"""Of boxes that count."""


@dataclass(frozen=True)
class Agreement:
    """How many of a model's answers are the same in two runs."""

    output: str
    """The output that says so, or those, with a comma between."""
    what: str
    """The answers, in words."""
    same: int
    of: int

    @property
    def share(self) -> float:
        """The part that is the same; 1 where there are none."""
        return self.same / self.of if self.of else 1.0


def agreements(
    samples: Sequence[Mapping[str, Array]],
    reference: Sequence[Mapping[str, Any]],
    other: Sequence[Mapping[str, Any]],
    labels: int,
) -> list[Agreement]:
    """Compare the answers of two models, a dict of outputs per sample: best classes, and boxes, of which those that one alone
    has are not the same. `labels` is how many classes are known.
    """
    found = []
    for name, first in reference[0].items():
        if not isinstance(first, np.ndarray) or not scores_classes(first):
            continue
        pairs = [(a[name], b[name]) for a, b in zip(reference, other, strict=True)]
        same = [
            a.reshape(a.shape[:2]).argmax(axis=1) == b.reshape(b.shape[:2]).argmax(axis=1)
            for a, b in pairs
            if a.shape == b.shape and scores_classes(a)
        ]
        rows = np.concatenate([np.zeros(0, bool), *same])
        found.append(Agreement(name, "best classes", int(rows.sum()), len(rows)))
    boxes = _boxes(samples, reference, other, labels)
    return found if boxes is None else [*found, boxes]


def _boxes(
    samples: Sequence[Mapping[str, Array]],
    reference: Sequence[Mapping[str, Any]],
    other: Sequence[Mapping[str, Any]],
    labels: int,
) -> Agreement | None:
    plain = all(isinstance(value, np.ndarray) for outputs in (*reference, *other) for value in outputs.values())
    if not plain or not all(value.size for value in reference[0].values()):
        return None
    frame = None
    if len(samples[0]) == 1:
        ((name, array),) = samples[0].items()
        frame = Frame.of(name, array.dtype.name, array.shape, None)
    detector = Detector(reference[0], frame, labels, None)
    if not detector.detects:
        return None

    def detected(outputs: Mapping[str, Array], row: int) -> Detections:
        return detector.detect(outputs, row, score=_SCORE, overlap=SUPPRESSED_OVERLAP)

    pairs = [
        (detected(mine, row), detected(theirs, row))
        for mine, theirs in zip(reference, other, strict=True)
        for row in range(detector.pictures(mine))
    ]
    found = match(pairs, iou=0.5)
    return Agreement(",".join(detector.names), "boxes", found.matched, found.reference + found.other - found.matched)


def scores_classes(array: Array) -> bool:
    """Return whether an output looks like scores of classes, (N, C) or (N, C, 1, 1)."""
    return array.ndim >= 2 and array.shape[1] > 1 and array.dtype.kind == "f" and array[0].size == array.shape[1]
