"""What trackers are made of: filters that expect where a box will be, and the cheapest pairs of boxes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Boxes = npt.NDArray[np.float64]
"""(N, 4): corners."""


def overlaps(some: Boxes, others: Boxes) -> Array:
    """Return the share of each box with each other: (N, M), the area of both over that of either."""
    some, others = some.reshape(-1, 4), others.reshape(-1, 4)
    first = np.maximum(some[:, None, :2], others[None, :, :2])
    last = np.minimum(some[:, None, 2:], others[None, :, 2:])
    shared = np.maximum(last - first, 0).prod(2)
    areas = [np.maximum(boxes[:, 2:] - boxes[:, :2], 0).prod(1) for boxes in (some, others)]
    either = areas[0][:, None] + areas[1][None] - shared
    found: Array = np.divide(shared, either, out=np.zeros_like(shared), where=either > 0)
    return found


def heights(some: Boxes, others: Boxes) -> Array:
    """Return the share of heights of each box with each other: (N, M)."""
    some, others = some.reshape(-1, 4), others.reshape(-1, 4)
    shared = np.minimum(some[:, None, 3], others[None, :, 3]) - np.maximum(some[:, None, 1], others[None, :, 1])
    either = np.maximum(some[:, None, 3], others[None, :, 3]) - np.minimum(some[:, None, 1], others[None, :, 1])
    found: Array = np.divide(np.maximum(shared, 0), either, out=np.zeros_like(shared), where=either > 0)
    return found


def cheapest(cost: Array) -> list[tuple[int, int]]:
    """Return the pairs (row, column) of the least sum, as many as the shorter side has: Kuhn's method by shortest paths."""
    if 0 in cost.shape:
        return []
    if cost.shape[0] > cost.shape[1]:
        return sorted((row, column) for column, row in cheapest(cost.T))
    rows, columns = cost.shape
    # Prices of rows and columns; column 0 is where each row begins.
    high, wide = np.zeros(rows + 1), np.zeros(columns + 1)
    owner, before = np.zeros(columns + 1, np.intp), np.zeros(columns + 1, np.intp)
    for row in range(1, rows + 1):
        owner[0], at = row, 0
        least, seen = np.full(columns + 1, np.inf), np.zeros(columns + 1, bool)
        while owner[at]:
            seen[at] = True
            reduced = cost[owner[at] - 1] - high[owner[at]] - wide[1:]
            better = ~seen[1:] & (reduced < least[1:])
            least[1:][better], before[1:][better] = reduced[better], at
            open_ = np.where(seen, np.inf, least)
            open_[0] = np.inf
            following = int(open_.argmin())
            step = open_[following]
            high[owner[seen]] += step
            wide[seen] -= step
            least[~seen] -= step
            at = following
        while at:
            owner[at] = owner[before[at]]
            at = int(before[at])
    return sorted((int(owner[column]) - 1, column - 1) for column in range(1, columns + 1) if owner[column])


def matched(cost: Array, most: float) -> tuple[list[tuple[int, int]], list[int], list[int]]:
    """Return the cheapest pairs that cost no more than `most`, the rows that are left, and the columns that are left."""
    pairs = [(row, column) for row, column in cheapest(cost) if cost[row, column] <= most]
    rows, columns = {row for row, _ in pairs}, {column for _, column in pairs}
    return (
        pairs,
        [row for row in range(cost.shape[0]) if row not in rows],
        [column for column in range(cost.shape[1]) if column not in columns],
    )


class Expectation:
    """A Kalman filter of a box: where it is, how fast it moves, and how sure that is.

    `kind` "height" (ByteTrack's) follows centre, width over height and height, with noise in proportion to the height; "area"
    (SORT's) follows centre, area and width over height, the last without speed.
    """

    def __init__(self, box: Array, kind: str) -> None:
        """Begin at a box, in pixels."""
        self.kind = kind
        places, speeds = 4, 4 if kind == "height" else 3
        seen = self._seen(box)
        self.mean = np.concatenate([seen, np.zeros(speeds)])
        self._step = np.eye(places + speeds)
        self._step[np.arange(speeds), places + np.arange(speeds)] = 1
        self._look = np.eye(places, places + speeds)
        if kind == "height":
            scale = seen[3]
            deviations = [scale / 10, scale / 10, 1e-2, scale / 10, scale / 16, scale / 16, 1e-5, scale / 16]
            self.spread = np.diag(np.square(deviations))
        else:
            self.spread = np.diag([10.0] * 4 + [1e4] * 3)

    def _seen(self, box: Array) -> Array:
        left, top, right, bottom = box
        width, height = max(right - left, 1e-6), max(bottom - top, 1e-6)
        last = (width / height, height) if self.kind == "height" else (width * height, width / height)
        return np.array([(left + right) / 2, (top + bottom) / 2, *last])

    def predict(self) -> None:
        """Go on to the next picture."""
        if self.kind == "height":
            scale = self.mean[3]
            deviations = [scale / 20, scale / 20, 1e-2, scale / 20, scale / 160, scale / 160, 1e-5, scale / 160]
            noise = np.diag(np.square(deviations))
        else:
            noise = np.diag([1.0, 1.0, 1.0, 1.0, 0.01, 0.01, 1e-4])
            if self.mean[2] + self.mean[6] <= 0:
                self.mean[6] = 0
        self.mean = self._step @ self.mean
        self.spread = self._step @ self.spread @ self._step.T + noise

    def update(self, box: Array) -> None:
        """Take what was found in this picture."""
        if self.kind == "height":
            scale = self.mean[3]
            noise = np.diag(np.square([scale / 20, scale / 20, 1e-1, scale / 20]))
        else:
            noise = np.diag([1.0, 1.0, 10.0, 10.0])
        sure = self._look @ self.spread @ self._look.T + noise
        gain = np.linalg.solve(sure, self._look @ self.spread).T
        self.mean = self.mean + gain @ (self._seen(box) - self._look @ self.mean)
        self.spread = self.spread - gain @ sure @ gain.T

    @property
    def box(self) -> Array:
        """Where the box is, or is expected: corners."""
        x, y, third, fourth = self.mean[:4]
        if self.kind == "height":
            height = fourth
            width = third * height
        else:
            width = np.sqrt(max(third * fourth, 0))
            height = third / width if width > 0 else 0.0
        return np.array([x - width / 2, y - height / 2, x + width / 2, y + height / 2])

    def state(self) -> tuple[Any, Any]:
        """Return what `restore` goes back to."""
        return self.mean.copy(), self.spread.copy()

    def restore(self, state: tuple[Any, Any]) -> None:
        """Go back."""
        self.mean, self.spread = state[0].copy(), state[1].copy()
