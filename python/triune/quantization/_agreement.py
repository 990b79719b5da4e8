"""How often the quantized model gives the float one's answer: the best class, the boxes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from triune._detections import Detections, close_to, match
from triune._detector import SUPPRESSED_OVERLAP, Detector
from triune.batch._pictures import Frame
from triune.quantization._model import Array

__all__ = ["CLOSE_IOU", "CLOSE_SCORE", "Agreement", "agreements", "scores_classes"]

_SCORE = 0.25
"""Of boxes that count."""

CLOSE_IOU = 0.9
"""Intersection over union of boxes that are kept, where that is asked for."""

CLOSE_SCORE = 0.05
"""How far their scores may differ."""

_ENOUGH_ROWS = 8
"""Rows of scores that show how loud noise is."""

_NEARLY = 0.02
"""How far the sum of probabilities may be from 1."""

_LEAST_SHARE = 1e-6
"""Below it a probability is as good as 0."""

_DOUBT = 0.05
"""How likely the share among all inputs is outside what is said of it."""


@dataclass(frozen=True)
class Agreement:
    """How many of a model's answers are the same in two runs."""

    output: str
    """The output that says so, or those, with a comma between."""
    what: str
    """The answers, in words."""
    same: int
    of: int
    expected: float = float("nan")
    """Of best classes: the share to be expected where scores are as close as on these samples, and noise is as loud; NaN where
    that is not known. Few samples show it better than a count: of 34 that all agree, one may be as close as noise goes."""

    @property
    def share(self) -> float:
        """The part that is the same; 1 where there are none."""
        return self.same / self.of if self.of else 1.0

    def __str__(self) -> str:
        """Return a line on it, with what it means for others."""
        least, most = self.limits
        return (
            f"{self.output}: {self.same} of {self.of} {self.what} are the same ({self.share:.1%}; of others {least:.1%} to "
            f"{most:.1%}, with 95 % confidence)"
            + ("" if math.isnan(self.expected) else f", {self.expected:.1%} to be expected by how close they are")
        )

    @property
    def limits(self) -> tuple[float, float]:
        """Between which shares the one among all inputs is, with 95 % confidence (after Clopper and Pearson, 1934).

        As if each answer were drawn by itself, which boxes of one picture are not: for these it is wider.
        """
        least = _share_with(self.same, self.of, _DOUBT / 2) if self.same else 0.0
        most = _share_with(self.same + 1, self.of, 1 - _DOUBT / 2) if self.same < self.of else 1.0
        return least, most


def _share_with(least: int, of: int, chance: float) -> float:
    """Return the share at which `least` of `of` or more agree with this chance."""
    low, high = 0.0, 1.0
    for _ in range(50):
        share = (low + high) / 2
        fewer = sum(math.exp(_log_chance(count, of, share)) for count in range(least))
        low, high = (share, high) if 1 - fewer < chance else (low, share)
    return (low + high) / 2


def _log_chance(count: int, of: int, share: float) -> float:
    ways = math.lgamma(of + 1) - math.lgamma(count + 1) - math.lgamma(of - count + 1)
    return ways + count * math.log(share) + (of - count) * math.log1p(-share)


def agreements(
    samples: Sequence[Mapping[str, Array]],
    reference: Sequence[Mapping[str, Any]],
    other: Sequence[Mapping[str, Any]],
    labels: int,
    *,
    closely: bool = False,
) -> list[Agreement]:
    """Compare the answers of two models, a dict of outputs per sample: best classes, and boxes, of which those that one alone
    has are not the same. `labels` is how many classes are known.

    With `closely`, boxes are to have nearly the same place (`CLOSE_IOU`) and score (`CLOSE_SCORE`), and there are two counts:
    those of the first model that the second has, and those of the second that the first has.
    """
    found = []
    for name, first in reference[0].items():
        if not isinstance(first, np.ndarray) or not scores_classes(first, samples[0]):
            continue
        pairs = [(a[name], b[name]) for a, b in zip(reference, other, strict=True)]
        same = [
            a.reshape(a.shape[:2]).argmax(axis=1) == b.reshape(b.shape[:2]).argmax(axis=1)
            for (a, b), sample in zip(pairs, samples, strict=True)
            if a.shape == b.shape and scores_classes(a, sample)
        ]
        rows = np.concatenate([np.zeros(0, bool), *same])
        expected = _expected(pairs) if len(rows) == sum(len(a) for a, _ in pairs) else float("nan")
        found.append(Agreement(name, "best classes", int(rows.sum()), len(rows), expected))
    return [*found, *_boxes(samples, reference, other, labels, closely=closely)]


def _expected(pairs: Sequence[tuple[Array, Array]]) -> float:
    """Return the share of best classes that stay the best, from scores of classes in two runs: rows of (N, C), or (N, C, 1, 1).

    The best is ahead of the next one by a margin, and noise moves margins, as normally distributed: by as much as a root of the
    mean square of the closer half of the rows, as there it decides. Margins of probabilities are of their logarithms, which
    are moved alike whether near 0 or 1. NaN of fewer rows than tell how loud noise is.
    """
    first, second = (
        np.concatenate([pair[at].reshape(pair[at].shape[:2]) for pair in pairs]).astype(np.float64) for at in (0, 1)
    )
    if len(first) < _ENOUGH_ROWS or not np.isfinite(first).all() or not np.isfinite(second).all():
        return float("nan")
    if first.min() >= 0 and np.abs(first.sum(axis=1) - 1).max() < _NEARLY:
        first, second = (np.log(np.maximum(each, _LEAST_SHARE)) for each in (first, second))
    best, following = np.argsort(-first, axis=1)[:, :2].T
    rows = np.arange(len(first))
    margins, moved = (each[rows, best] - each[rows, following] for each in (first, second))
    closer = np.argsort(margins)[: max(_ENOUGH_ROWS, len(rows) // 2)]
    noise = float(np.sqrt(np.square(moved - margins)[closer].mean()))
    if noise == 0:
        return 1.0
    return float(np.mean([0.5 + 0.5 * math.erf(margin / (noise * math.sqrt(2))) for margin in margins]))


def _boxes(
    samples: Sequence[Mapping[str, Array]],
    reference: Sequence[Mapping[str, Any]],
    other: Sequence[Mapping[str, Any]],
    labels: int,
    *,
    closely: bool,
) -> list[Agreement]:
    plain = all(isinstance(value, np.ndarray) for outputs in (*reference, *other) for value in outputs.values())
    if not plain or not all(value.size for value in reference[0].values()):
        return []
    frame = None
    if len(samples[0]) == 1:
        ((name, array),) = samples[0].items()
        frame = Frame.of(name, array.dtype.name, array.shape, None)
    detector = Detector(reference[0], frame, labels, None)
    if not detector.detects:
        return []

    # What is a little under the limit is a match of what is a little over it.
    least = _SCORE - CLOSE_SCORE if closely else _SCORE

    def detected(outputs: Mapping[str, Array], row: int) -> Detections:
        return detector.detect(outputs, row, score=least, overlap=SUPPRESSED_OVERLAP)

    pairs = [
        (detected(mine, row), detected(theirs, row))
        for mine, theirs in zip(reference, other, strict=True)
        for row in range(detector.pictures(mine))
    ]
    name = ",".join(detector.names)
    if closely:
        turned = [(theirs, mine) for mine, theirs in pairs]
        return [_kept(name, "boxes of float", pairs), _kept(name, "boxes of integers", turned)]
    found = match(pairs, iou=0.5)
    return [Agreement(name, "boxes", found.matched, found.reference + found.other - found.matched)]


def _kept(name: str, what: str, pairs: Sequence[tuple[Detections, Detections]]) -> Agreement:
    """Count the boxes of the first ones that the others have nearly the same."""
    same = of = 0
    for some, others in pairs:
        counted = some.scores >= _SCORE
        same += int((close_to(some, others, iou=CLOSE_IOU, scores=CLOSE_SCORE) & counted).sum())
        of += int(counted.sum())
    return Agreement(name, what, same, of)


def scores_classes(array: Array, sample: Mapping[str, Any]) -> bool:
    """Return whether an output looks like scores of classes, (N, C) or (N, C, 1, 1), of the N images of a sample."""
    rows = array.ndim >= 2 and array.shape[1] > 1 and array.dtype.kind == "f" and array[0].size == array.shape[1]
    # Rows of what is no image's are places.
    return rows and len(array) in {np.shape(value)[0] for value in sample.values() if np.ndim(value) > 0}
