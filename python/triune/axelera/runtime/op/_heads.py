"""Detectors' outputs as their convolutions leave them: a box's sides as distributions, and classes, for each stride."""

from __future__ import annotations

from typing import Any

import numpy as np

from triune.axelera.runtime._errors import InvalidArgument
from triune.axelera.runtime.op._operators import FRAME, Array, numbers

__all__ = ["rows_of_heads"]

_FINEST = 8
"""The least stride of these detectors' maps, where no picture says which it is."""


def rows_of_heads(what: str, outputs: tuple[Any, ...], classes: int) -> Array:
    """Return a row for each place of anchor-free heads: centre, extents, and a score for each class.

    Outputs are maps with channels before places, two for each extent: four distributions over distances, and the classes'
    logits; in any order. Raises InvalidArgument for others.
    """
    maps = [_map(what, output) for output in outputs]
    found: dict[tuple[int, int], list[Array]] = {}
    for one in maps:
        found.setdefault((one.shape[1], one.shape[2]), []).append(one)
    pairs = []
    for of_extent in found.values():
        scores = [one for one in of_extent if len(one) == classes]
        sides = [one for one in of_extent if len(one) != classes and len(one) % 4 == 0]
        if len(of_extent) == 2 and len(scores) == 2 and classes % 4 == 0:
            # As many bins for the sides as there are classes: the first one is the sides', as the heads give them.
            sides, scores = scores[:1], scores[1:]
        if len(of_extent) != 2 or len(sides) != 1 or len(scores) != 1:
            shapes = ", ".join(str(one.shape) for one in maps)
            raise InvalidArgument(
                f"{what}: expected one output with {classes} classes, or for each stride a map of the boxes' sides and one of "
                f"{classes} classes, got maps {shapes}"
            )
        pairs.append((sides[0], scores[0]))
    pairs.sort(key=lambda pair: -pair[1].shape[2])
    frame = FRAME.get()
    place = None if frame is None else frame.saved.get("place")
    width = _FINEST * pairs[0][1].shape[2] if place is None else place.made.shape[1]
    return np.concatenate([_rows(sides, scores, width / scores.shape[2]) for sides, scores in pairs])


def _map(what: str, output: Any) -> Array:
    array = numbers(what, output, np.float32)
    if array.ndim == 4 and len(array) == 1:
        array = array[0]
    if array.ndim != 3:
        raise InvalidArgument(f"{what}: expected maps of one picture, channels before places, got shape {array.shape}")
    return array


def _rows(sides: Array, scores: Array, stride: float) -> Array:
    _, height, width = scores.shape
    bins = len(sides) // 4
    # The mean of each side's distribution.
    each = sides.reshape(4, bins, -1)
    likely = np.exp(each - each.max(1, keepdims=True))
    left, top, right, bottom = (likely * np.arange(bins, dtype=np.float32)[:, None]).sum(1) / likely.sum(1)
    y, x = (axis.reshape(-1) + 0.5 for axis in np.mgrid[:height, :width].astype(np.float32))
    centre = [x + (right - left) / 2, y + (bottom - top) / 2]
    boxes = np.stack([*centre, left + right, top + bottom], 1) * np.float32(stride)
    logits = scores.reshape(len(scores), -1).T
    return np.concatenate([boxes, 1 / (1 + np.exp(-logits))], 1).astype(np.float32)
