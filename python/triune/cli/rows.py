"""Arrays with more than one run takes, cut into what each takes: which axis is that of images is what the model's shapes say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from triune._text import short
from triune.cli.data import Input

__all__ = ["Run", "runs"]


@dataclass(frozen=True)
class Run:
    """What one run takes."""

    feed: dict[str, Any]
    kept: int
    """How many of its rows are the caller's; others repeat the last, so that it is full."""
    step: int
    """How many rows it has."""
    done: int
    """How many of the caller's rows there are up to its end."""
    of: int
    """And in all runs."""


def runs(
    arrays: Mapping[str, Any], inputs: Sequence[Input], steps: Mapping[str, int] | None = None, *, what: str = "images"
) -> Iterator[Run]:
    """Yield the runs that arrays are for, `steps` rows of each input that has rows (default: as many as the model has there).

    An input without rows is the same in each run, or one of a stack of as many as there are runs. The last run repeats the last
    row of all if it is not full; samples have to be full.

    Raises ValueError if arrays are for different numbers of runs, or for none, or the model takes no rows.
    """
    rows = {item.name: item.step if steps is None else steps[item.name] for item in inputs if item.has_rows}
    empty = next((item for item in inputs if rows.get(item.name) == 0), None)
    if empty is not None:
        shape = ", ".join(map(str, empty.shape or ()))
        raise ValueError(
            short(
                f"input {empty.name!r}: its shape in the model is ({shape}), a batch of 0, which takes none of the {what}; "
                "export the model with a batch of 1, or an open one"
            )
        )
    stacks = {item.name for item in inputs if item.is_stack(arrays[item.name])}
    lengths = {name: len(arrays[name]) if arrays[name].ndim else 0 for name in (*rows, *stacks)}
    counts = {name: -(-length // rows.get(name, 1)) for name, length in lengths.items()}
    uneven = {name for name, step in rows.items() if lengths[name] % step}
    even = what == "images" and len(set(rows.values())) == 1
    if len(set(counts.values())) > 1 or (uneven and not even):
        per = {name: f" of {step} a run" for name, step in rows.items() if step > 1}
        told = ", ".join(f"{length} in {name!r}{per.get(name, '')}" for name, length in lengths.items())
        raise ValueError(short(f"expected the same number of {what} in each array, got {told}"))
    if 0 in counts.values():
        raise ValueError(f"expected at least one of the {what}, got none")
    return _runs(arrays, rows, stacks, next(iter(counts.values()), 1))


def _runs(arrays: Mapping[str, Any], rows: Mapping[str, int], stacks: set[str], count: int) -> Iterator[Run]:
    step = next(iter(rows.values()), 1)
    of = next((len(arrays[name]) for name in rows), count)
    for run in range(count):
        done = min((run + 1) * step, of)

        def part(name: str, array: Any, run: int = run) -> Any:
            if name in rows:
                first = run * rows[name]
                return array[np.minimum(np.arange(first, first + rows[name]), len(array) - 1)]
            # An array of a number, too, not the number itself.
            return array[run, ...] if name in stacks else array

        yield Run({name: part(name, array) for name, array in arrays.items()}, done - run * step, step, done, of)
