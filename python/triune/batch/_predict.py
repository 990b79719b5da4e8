"""Batches through a model in worker threads, in order and in bounded memory."""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from triune._arrays import array_of_file, arrays_of_file, operand
from triune._files import UnreadableItem
from triune._session import ModelSource, Session, ValueInfo
from triune._text import nearest, short
from triune._values import are_strings, has_rows
from triune.batch._pictures import Preprocess, left_open
from triune.batch._sources import ARRAYS, Broken, Row, files_of, items_of
from triune.errors import ArgumentError, Error, FileError, ForkedError

if TYPE_CHECKING:
    import pyarrow

__all__ = ["Columns", "Failure", "Plan", "Prediction", "Predictions", "Top", "files_of", "labels_of", "predict"]

_LOG = logging.getLogger("triune.batch")

Array = npt.NDArray[Any]

_MOST_CLASSES = 1 << 16
"""Columns of a table that nobody reads."""

_BATCH = 4
"""Images per run where the model leaves it open: more gain little on a CPU, and wait for each other."""


class Top(NamedTuple):
    """One of the best classes."""

    number: int
    """The class's number, from 0."""
    score: float
    """What the model gave for it."""
    label: str
    """Its name, empty without `labels`."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a model gave for one item."""

    index: int
    """The item's place in the source, from 0; items that failed count."""
    source: str
    """The item's path; its place where it has none."""
    outputs: dict[str, Any]
    """The outputs by name, without the batch's axis; a row of strings may be a str, and one of a sequence of maps is a dict."""
    top: tuple[Top, ...] = ()
    """The best classes, best first, with `top_k`; the first of those that are equal."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An item that could not be used."""

    index: int
    """Its place in the source, from 0."""
    source: str
    """Its path; its place where it has none."""
    error: Exception = field(compare=False)
    """What was wrong with it."""


Item = tuple[int, str, Any]


class Predictions(Iterator[Prediction]):
    """The predictions for a source, in its order, as they are made; by `predict`.

    Iterate once, or let `write` or `to_arrow` do it. Only a few batches per worker are under way at any time: they go on when
    the next prediction is asked for. `close`, or the end of a `with` block, drops the rest.
    """

    def __init__(self, plan: Plan, source: Iterator[tuple[str, Any]], total: int | None, options: _Options) -> None:
        """Start nothing yet."""
        self.failures: list[Failure] = []
        """Items that were left out so far, in their order."""
        self.total = total
        """How many items there are, None where only the end of the source will tell."""
        self.done = 0
        """How many items have been used or left out."""
        self._plan = plan
        self._options = options
        self._items: Iterator[Item] = ((index, *item) for index, item in enumerate(source))
        self._ready: deque[Prediction] = deque()
        self._running: deque[Future[tuple[int, list[Prediction | Failure]]]] = deque()
        self._executor: ThreadPoolExecutor | None = ThreadPoolExecutor(options.workers, "triune-batch")
        self._process = os.getpid()

    def __iter__(self) -> Self:
        """Return the iterator itself."""
        return self

    def __next__(self) -> Prediction:
        """Return the next prediction.

        Raises what is wrong with an item where it would stand, unless bad ones are skipped; `triune.errors.ForkedError` in a
        forked child, which the workers are not in.
        """
        while not self._ready:
            if self._executor is None:
                raise StopIteration
            if os.getpid() != self._process:
                raise ForkedError("the workers are not in this forked process; call predict again")
            try:
                self._fill(self._executor)
                if not self._running:
                    self.close()
                    continue
                count, results = self._running.popleft().result()
            except BaseException:
                self.close()
                raise
            self._take(count, results)
        return self._ready.popleft()

    def _fill(self, executor: ThreadPoolExecutor) -> None:
        while len(self._running) < 2 * self._options.workers:
            chunk = list(islice(self._items, self._plan.batch))
            if not chunk:
                return
            self._running.append(executor.submit(self._plan.run, chunk))

    def _take(self, count: int, results: list[Prediction | Failure]) -> None:
        for result in results:
            if isinstance(result, Prediction):
                self._ready.append(result)
                continue
            if self._options.on_error == "raise":
                # What stands before it is given first; it is raised when it is next.
                self._running.clear()
                self._running.append(_failed(result.error))
                break
            self.failures.append(result)
            _LOG.warning("left out %s: %s", short(result.source), result.error)
        self.done += count
        if self._options.progress is not None:
            self._options.progress(self.done, self.total)

    def close(self) -> None:
        """Drop what is left: going on ends. Workers end after the batch that they have. A second call does nothing."""
        executor, self._executor = self._executor, None
        self._running.clear()
        self._ready.clear()
        if executor is not None and os.getpid() == self._process:
            executor.shutdown(wait=False, cancel_futures=True)

    def __enter__(self) -> Self:
        """Return the iterator itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def write(self, path: str | os.PathLike[str]) -> int:
        """Write what is left to a table, whose ending says which: ``.parquet``, ``.csv`` or ``.jsonl``. Returns its rows.

        With `top_k` a row has the source and the best classes, else the outputs. The file is whole or not there.

        Raises `triune.errors.ArgumentError` for another ending, ImportError without pyarrow for parquet, and what iterating
        raises.

        Examples:
            >>> from triune.batch import predict
            >>> from triune.models import DIGITS_INT8, digits_held_out
            >>> predict(DIGITS_INT8, digits_held_out()[0][:9].transpose(0, 3, 1, 2), top_k=3).write("digits.csv")
            9
        """
        from triune.batch._tables import write

        return write(self, Path(path), self.columns)

    def to_arrow(self) -> pyarrow.Table:
        """Return what is left as a `pyarrow.Table` in memory, with the columns of `write`. Raises ImportError without pyarrow.

        Examples:
            >>> from triune.batch import predict
            >>> from triune.models import DIGITS_INT8, digits_held_out
            >>> predict(DIGITS_INT8, digits_held_out()[0][:9].transpose(0, 3, 1, 2), top_k=1).to_arrow().num_rows
            9
        """
        from triune.batch._tables import arrow_table

        return arrow_table(self, self.columns)

    @property
    def columns(self) -> Columns:
        """What tables show: the columns of `write` and `to_arrow`."""
        return self._plan.columns


class _Options(NamedTuple):
    workers: int
    on_error: str
    progress: Callable[[int, int | None], object] | None


def predict(
    model: Session | ModelSource,
    source: str | os.PathLike[str] | Array | Iterable[Any],
    *,
    batch: int | None = None,
    workers: int | None = None,
    threads: int = 1,
    preprocess: Preprocess | Callable[[Any], Any] | None = None,
    outputs: Sequence[str] | None = None,
    top_k: int | None = None,
    labels: str | os.PathLike[str] | Sequence[str] | None = None,
    column: str | Mapping[str, str] | None = None,
    on_error: Literal["raise", "skip"] = "raise",
    progress: Callable[[int, int | None], object] | None = None,
) -> Predictions:
    """Run a model over many pictures or arrays; return an iterator over the predictions, in the source's order.

    `model` is a `triune.Session`, whose weights are shared, or what one is made of. `source` is a folder (all pictures and files
    of arrays, ``.npy`` and ``.npz``, below it, by name), a file, a glob pattern, an array (its first axis is gone along), or any
    iterable, a generator too: of paths, bytes of picture files, `PIL.Image.Image`, arrays without the batch's axis (uint8
    pictures (H, W, C), or what the model takes), or for several inputs dicts of arrays by name. An input that is a number, or a
    vector whose length the model states, has no batch: items are the whole of it, one to a run.

    A file of arrays has those of one item, or with an axis in front of several, named ``FILE#NUMBER``; a ``.npz`` has them by the
    inputs' names. A file or path that is a video (extra ``video``) gives its pictures, named so, too; one that is a ``.parquet``
    table its rows, of `column` (default: ``bytes``, ``image`` or ``path``, the first that there is; a dict from input to column
    for several inputs): bytes of pictures, paths, or lists of numbers, named by the column ``path`` or their number.

    `workers` threads (default: one per CPU that this process may use) each take batches from the file to the result, with a
    session of their own on `threads`. `batch` items make a run (default: what the model fixes, else 4; 1 where shapes
    differ). A last batch is filled up, so that the model is planned once; results do not depend on `batch` or `workers`.

    `preprocess` says how pictures become inputs (default: as the model says, else stretched, pixels from 0 to 1), or is a
    function from an item to an array, or to a dict of arrays by input name, without the batch's axis; the workers call it.

    `outputs` names those to keep (default: all). With `top_k`, predictions have the best classes of the first of them, (N, C)
    with any further extents 1, with names from `labels`: a list, or a text file with a line per class (default: what the
    model says).

    `on_error` says what happens with an item that cannot be used: ``raise`` where it stands, or ``skip`` it, log it and list it
    in `Predictions.failures`. `progress` is called in the iterating thread with items done and their number, if it is known.

    Raises `triune.errors.FileError` if there are no such files, `ArgumentError` if an argument or item does not fit the model,
    and what `triune.Session` raises.

    Examples:
        >>> from triune.batch import predict
        >>> from triune.models import DIGITS_INT8, digits_held_out
        >>> scans, digits = digits_held_out()
        >>> for each in predict(DIGITS_INT8, scans[:3].transpose(0, 3, 1, 2), top_k=1):
        ...     print(each.index, each.top[0].number, digits[each.index])
        0 7 7
        1 1 1
        2 5 5
    """
    if on_error not in ("raise", "skip"):
        raise ArgumentError(f"on_error: expected raise or skip, got {on_error!r}")
    count = _count("workers", workers, _cpus())
    session = model if isinstance(model, Session) else Session(model, threads=threads)
    plan = Plan(session, threads, batch, preprocess, outputs, top_k, labels_of(labels))
    items, total = items_of(source, plan.takes_pictures, column, plan.items_in)
    return Predictions(plan, items, total, _Options(count, on_error, progress))


class Plan:
    """What every batch goes through. Used by all workers at once."""

    def __init__(
        self,
        session: Session,
        threads: int,
        batch: int | None,
        preprocess: Preprocess | Callable[[Any], Any] | None,
        outputs: Sequence[str] | None,
        top_k: int | None,
        labels: Sequence[str] | None,
    ) -> None:
        inputs = session.inputs
        if not inputs:
            raise ArgumentError("model: expected one with inputs, got one that takes nothing")
        for given in inputs:
            if given.kind not in ("tensor", "strings"):
                raise ArgumentError(
                    f"model: input {given.name!r} is of kind {given.kind!r}, which has no batch; call triune.Session.run for each"
                )
        self._session = session
        self._threads = threads
        self._inputs = inputs
        self._rows = [has_rows(given.shape) for given in inputs]
        self._own = None if isinstance(preprocess, Preprocess) or preprocess is None else preprocess
        info = session.info
        usual = info.preprocess or Preprocess.default(inputs[0].dtype)
        how = preprocess if isinstance(preprocess, Preprocess) else usual
        self._how = how
        self._frame = how.frame(*inputs[0]) if len(inputs) == 1 and self._own is None else None
        origin = "as given" if how is preprocess else "of the model" if info.preprocess else "by default"
        _LOG.debug("pictures become inputs %s", "by a function" if self._own else f"{origin}: {how}")
        if self._frame is not None:
            how.check(self._frame)
        elif isinstance(preprocess, Preprocess):
            raise ArgumentError(
                f"preprocess: no picture fits the model's inputs {', '.join(map(_described, inputs))}; expected one, "
                "(N, C, H, W) or (N, H, W, C) with 1 or 3 channels; give Preprocess.size where H and W are open, or a function"
            )
        self._shapes: list[tuple[int, ...]] | None = self._fixed_shapes()
        self.batch = self._batch_size(batch)
        self._names = [info.name for info in session.outputs] if outputs is None else list(outputs)
        known = {info.name: info for info in session.outputs}
        for name in self._names:
            if name not in known:
                raise ArgumentError(f"outputs: unknown {name!r}{nearest(name, known, 'the model has')}")
        self._infos = [known[name] for name in self._names]
        self._top = 0 if top_k is None else _count("top_k", top_k, 1)
        if self._top > _MOST_CLASSES:
            raise ArgumentError(f"top_k: expected at most {_MOST_CLASSES}, got {self._top}")
        if self._top and not self._names:
            raise ArgumentError("top_k: expected an output to look at, got outputs=[]")
        if labels is not None and not self._top:
            raise ArgumentError("labels: expected top_k beside them")
        self._labels = labels if labels is not None or not self._top else info.labels or None
        self._check_labels(self._known_classes())
        self._local = threading.local()

    def _known_classes(self) -> int | None:
        """Return how many classes there are, if the model says so."""
        if not self._infos or self._infos[0].kind != "tensor" or self._infos[0].shape == ("...",):
            return None
        scores = self._infos[0]
        own = scores.shape[1:] if self.batch > 1 or self._is_batched(scores) else scores.shape
        return own[0] if own and isinstance(own[0], int) and all(each == 1 for each in own[1:]) else None

    def _check_labels(self, classes: int | None) -> None:
        """Raise ArgumentError if the labels are not as many as the classes."""
        if self._labels is not None and classes is not None and len(self._labels) != classes:
            from triune._model_info import other_count

            given = other_count(classes, len(self._labels))
            raise ArgumentError(f"labels: expected {classes}, one per class, {given}")

    @property
    def takes_pictures(self) -> bool:
        """Whether files of pictures are looked for in a folder."""
        return self._frame is not None or self._own is not None

    @property
    def columns(self) -> Columns:
        """What tables show."""
        if any(info.name == "source" for info in self._infos) and not self._top:
            raise ArgumentError("outputs: a table has a column 'source' of its own; name other outputs")
        axes = [
            None if info.shape == ("...",) else len(info.shape) - (self.batch > 1 or self._is_batched(info))
            for info in self._infos
        ]
        columns = [(info.name, info.dtype, each, info.kind) for info, each in zip(self._infos, axes, strict=True)]
        # No more than there are classes, where the model says so.
        axes_known = self._infos[0].shape[-1:] if self._infos and self._infos[0].shape != ("...",) else ()
        classes = axes_known[0] if axes_known and isinstance(axes_known[0], int) else self._top
        return Columns(min(self._top, classes), self._labels is not None, columns)

    def _is_batched(self, info: ValueInfo) -> bool:
        """Return whether an output's first axis is the batch, by what the model says: a lone 1 may be anything.

        Where no input has that axis, 1 is a batch, as it is where results of several runs are put together.
        """
        first = next((given.shape[:1] for given, rows in zip(self._inputs, self._rows, strict=True) if rows), (1,))
        return info.shape[:1] == first

    def _fixed_shapes(self) -> list[tuple[int, ...]] | None:
        """Return the extents of every input but the batch's, None where some are open."""
        if self._frame is not None:
            return [self._frame.shape]
        own = [info.shape[rows:] for info, rows in zip(self._inputs, self._rows, strict=True)]
        shapes = [tuple(each for each in shape if isinstance(each, int)) for shape in own]
        known = all(info.shape != ("...",) for info in self._inputs)
        return shapes if known and list(map(len, shapes)) == list(map(len, own)) else None

    def _batch_size(self, asked: int | None) -> int:
        of_rows = [info for info, rows in zip(self._inputs, self._rows, strict=True) if rows]
        whole = next((info for info, rows in zip(self._inputs, self._rows, strict=True) if not rows), None)
        fixed = {info.shape[0] for info in of_rows if isinstance(info.shape[0], int)}
        if len(fixed) > 1:
            raise ArgumentError(f"model: its inputs {', '.join(map(_described, self._inputs))} have no batch in common")
        size = int(fixed.pop()) if fixed else None
        if size == 0:
            raise ArgumentError(
                f"model: its inputs {', '.join(map(_described, self._inputs))} have a batch of 0, which takes no items; export "
                "the model with a batch of 1, or an open one"
            )
        if whole is not None:
            if size is not None and size > 1:
                raise ArgumentError(
                    f"model: input {_described(whole)} is one for all {size} items of a run; call triune.Session.run for each"
                )
            if asked is not None and _count("batch", asked, 1) > 1:
                raise ArgumentError(
                    f"batch: expected 1, as input {_described(whole)} has no axis of items, got {asked}"
                )
            return 1
        if asked is None:
            return size or (1 if self._shapes is None else _BATCH)
        count = _count("batch", asked, 1)
        if size is not None and count != size:
            raise ArgumentError(f"batch: expected {size}, which the model fixes, got {count}")
        if count > 1 and self._shapes is None:
            raise ArgumentError(
                f"batch: expected 1 for inputs with open extents, {', '.join(map(_described, self._inputs))}, got {count}"
            )
        return count

    def run(self, chunk: Sequence[Item]) -> tuple[int, list[Prediction | Failure]]:
        """Take a batch from its items to its results, in the worker's thread. Returns the number of items, too."""
        if not hasattr(self._local, "session"):
            self._local.session = self._session.clone(threads=self._threads)
            self._local.buffers = None
        session: Session = self._local.session
        results: list[Prediction | Failure] = []
        good: list[Item] = []
        for item in chunk:
            try:
                feeds = self._load(item[2], len(good))
            except (Error, OSError, ValueError, TypeError, ImportError, MemoryError) as error:
                if isinstance(error, ImportError | MemoryError):
                    # About the machine, not the item.
                    raise
                results.append(Failure(item[0], item[1], _named(error, item[1])))
                continue
            good.append(item)
        if good:
            # Rows behind the last one are of other batches, and nobody looks at them.
            found = session.run(self._names, feeds if self._shapes is None else self._local.buffers)
            results += self._split(good, found)
            results.sort(key=lambda result: result.index)
        return len(chunk), results

    def _load(self, item: Any, row: int) -> dict[str, Array]:
        """Write an item to a row of the worker's arrays, or return arrays of its own where extents are open."""
        if isinstance(item, Broken):
            raise item.error
        value = item if self._own is None else self._own(item)
        if self._shapes is not None and self._local.buffers is None:
            shapes = zip(self._inputs, self._rows, self._shapes, strict=True)
            self._local.buffers = {
                info.name: np.full(
                    (self.batch, *shape) if rows else shape, "" if info.kind == "strings" else 0, info.dtype
                )
                for info, rows, shape in shapes
            }
        if self._frame is not None and self._is_picture(value):
            self._how.fill_in(value, self._frame, self._local.buffers[self._frame.name][row])
            return {}
        of_file = isinstance(value, str | os.PathLike | Row)
        if isinstance(value, Row):
            value = value.value
        elif isinstance(value, str | os.PathLike):
            value = self._of_file(Path(value))
        given = value if isinstance(value, Mapping) else {self._inputs[0].name: value}
        if set(given) != {info.name for info in self._inputs}:
            names = ", ".join(repr(info.name) for info in self._inputs)
            raise ArgumentError(f"expected an array for each of the inputs {names}, got {', '.join(map(repr, given))}")
        feeds = {}
        for index, info in enumerate(self._inputs):
            array = given[info.name]
            if info.kind == "strings" and are_strings(array):
                array = array.astype(object)
            # What wrote a file had its own idea of floats; a program says what it means.
            array = operand(f"input {info.name!r}", array, np.dtype(info.dtype), of_file)
            if of_file and array.shape[:1] == (1,) and array.ndim - 1 == self._rank(index):
                array = array[0, ...]
            rows = self._rows[index]
            if self._shapes is None:
                feeds[info.name] = array[None] if rows else array
                continue
            if array.shape != self._shapes[index]:
                expected = f"shape {self._shapes[index]}{' without the batch' if rows else ''}"
                raise ArgumentError(f"input {info.name!r}: expected {expected}, got {array.shape}")
            self._local.buffers[info.name][row if rows else ...] = array
        return feeds

    def _rank(self, index: int) -> int | None:
        """Return how many axes an item has of an input, None where the model leaves that open."""
        if self._frame is not None:
            return len(self._frame.shape)
        shape = self._inputs[index].shape
        return None if shape == ("...",) else len(shape) - self._rows[index]

    def items_in(self, shapes: Mapping[str, tuple[int, ...]]) -> tuple[int, set[str]] | None:
        """Return how many items arrays of a file hold, by their shapes, and which arrays have one for each; None for one item.

        An array may have an axis in front of an item's own. One of an input without a batch may be the same for all.

        Raises ArgumentError if they hold none, or different numbers.
        """
        if self._own is not None or ("" in shapes and len(self._inputs) > 1):
            # Files are what its function takes; one array is none of several inputs.
            return None
        stacks: dict[str, int] = {}
        for index, (info, rows) in enumerate(zip(self._inputs, self._rows, strict=True)):
            name = info.name if info.name in shapes else ""
            more = len(shapes[name]) - rank if name in shapes and (rank := self._rank(index)) is not None else -1
            if more == 1:
                stacks[name] = shapes[name][0]
            elif more or rows:
                # One item, or something that reading it says what is wrong with.
                return None
        counts = set(stacks.values())
        if len(counts) > 1:
            told = ", ".join(f"{count} in {name!r}" for name, count in stacks.items())
            raise ArgumentError(f"expected the same number of items in each array, got {told}")
        if counts == {0}:
            raise ArgumentError("expected at least one item, got none")
        return None if counts <= {1} else (counts.pop(), set(stacks))

    def _of_file(self, path: Path) -> Array | dict[str, Array]:
        """Return what a file of arrays holds."""
        kind = path.suffix.lower()
        if kind not in ARRAYS:
            # Of those with a size, pictures were taken.
            if len(self._inputs) == 1 and (fault := left_open(*self._inputs[0])):
                raise ArgumentError(f"{fault}, or give a Preprocess with a size")
            raise ArgumentError(f"expected a {' or '.join(sorted(ARRAYS))} file, as the model takes no pictures")
        if kind == ".npz":
            return arrays_of_file(path)
        if len(self._inputs) > 1:
            names = ", ".join(info.name for info in self._inputs)
            raise ArgumentError(f"expected a .npz file with the arrays {names}, got .npy")
        return array_of_file(path)

    def _is_picture(self, value: Any) -> bool:
        """Tell pictures from arrays that are what the model takes already."""
        if isinstance(value, str | os.PathLike):
            return Path(value).suffix.lower() not in ARRAYS
        if isinstance(value, np.ndarray):
            frame = self._frame
            exact = frame is not None and value.dtype == frame.dtype and value.shape == frame.shape
            color = value.ndim == 2 or (value.ndim == 3 and value.shape[2] in (1, 3, 4))
            return not exact and value.dtype == np.uint8 and color
        return not isinstance(value, Mapping | Row)

    def _split(self, good: Sequence[Item], found: Sequence[Any]) -> Iterator[Prediction]:
        """Yield each item's part of a batch's results."""
        rows: list[Sequence[Any] | Array] = []
        for info, value in zip(self._infos, found, strict=True):
            shown = value.shape if isinstance(value, np.ndarray) else None
            if info.kind == "sequence of maps" and len(value) == self.batch:
                rows.append(value)
            elif self.batch == 1 and not self._is_batched(info):
                rows.append([value])
            elif shown and shown[0] == self.batch:
                rows.append(value)
            else:
                got = f"a {info.kind}" if shown is None else f"shape {shown}"
                raise ArgumentError(
                    f"output {info.name!r}: expected a batch of {self.batch} in front, got {got}; "
                    "use batch=1, or name other outputs"
                )
        for place, (index, source, _) in enumerate(good):
            outputs = {name: each[place] for name, each in zip(self._names, rows, strict=True)}
            yield Prediction(index, source, outputs, self._best(outputs[self._names[0]]) if self._top else ())

    def _best(self, scores: Array) -> tuple[Top, ...]:
        scores = np.asarray(scores)
        if scores.ndim == 0 or scores.size != scores.shape[0]:
            raise ArgumentError(
                f"top_k: expected scores (N, C) in output {self._names[0]!r}, got {scores.shape} without the batch; "
                "name the output that has them first in outputs (--outputs), or have outputs as they are, by top_k=None (--top 0)"
            )
        flat = scores.reshape(-1)
        if flat.dtype.kind == "f":
            flat = np.where(np.isnan(flat), -np.inf, flat)
        # Backwards twice, so that of equal ones the first comes first.
        order = (flat.size - 1 - np.argsort(flat[::-1], kind="stable")[::-1])[: self._top]
        labels = self._labels
        self._check_labels(flat.size)
        values = scores.reshape(-1)
        return tuple(Top(int(at), float(values[at]), "" if labels is None else labels[at]) for at in order)


class Columns(NamedTuple):
    """What a table of predictions shows."""

    top: int
    labelled: bool
    outputs: list[tuple[str, str, int | None, str]]
    """Name, dtype, number of axes, None where it is not known, and kind."""


def labels_of(labels: str | os.PathLike[str] | Sequence[str] | None) -> Sequence[str] | None:
    if isinstance(labels, str | os.PathLike):
        from triune._model_info import labels_of as read

        return read(Path(labels))
    return labels


def _named(error: Exception, source: str) -> Exception:
    """Return the error with the item's name in its text."""
    if isinstance(error, FileError | UnreadableItem):
        # It has the item's name already.
        return error
    kind = type(error) if isinstance(error, Error) else ArgumentError
    return kind(short(f"{source}: {error}")).with_traceback(error.__traceback__)


def _failed(error: Exception) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_exception(error)
    return future


def _cpus() -> int:
    """Return how many CPUs this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _count(name: str, value: object, default: int) -> int:
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ArgumentError(f"{name}: expected a number of at least 1, got {value!r}")
    return int(value)


def _described(info: ValueInfo) -> str:
    return f"{info.name} {info.dtype} ({', '.join(map(str, info.shape))})"
