"""Batch inference on clusters by Ray Data. Needs the extra ``ray``.

```
import ray
from triune.batch import Preprocess
from triune.ray import Predictor

pictures = ray.data.read_binary_files("photographs", include_paths=True)
results = pictures.map_batches(
    Predictor,
    fn_constructor_kwargs={"model": "model.onnx", "preprocess": Preprocess.imagenet(), "top_k": 5},
    compute=ray.data.ActorPoolStrategy(min_size=1, max_size=8),
    batch_size=64,
)
results.write_parquet("results")
```

`remaining` tells what a job that was stopped has yet to do.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from triune._session import ModelSource, Session
from triune._text import nearest, short
from triune.batch import Preprocess
from triune.batch._predict import Failure, Plan, labels_of
from triune.errors import ArgumentError

if TYPE_CHECKING:
    from triune.batch import Prediction

__all__ = ["Predictor", "remaining"]

_LOG = logging.getLogger("triune.ray")

_COLUMNS = ("bytes", "image", "path")
"""Where pictures are if nobody says: what Ray's `read_binary_files` and `read_images` call them, and their paths."""

Columns = dict[str, npt.NDArray[Any]]


class Predictor:
    """What `ray.data.Dataset.map_batches` takes to run a model over a dataset's rows: a class, made once per worker.

    `model` is what `triune.Session` takes: a path that every node has, or bytes. Each worker opens it once. The column
    `column` has the items (default: ``bytes``, ``image`` or ``path``, the first that there is): bytes of picture files,
    pictures (H, W, C) as uint8, paths, or arrays as the model takes them without the batch's axis. For models with several
    inputs, `column` is a dict from input name to column.

    `preprocess`, `outputs`, `top_k` and `labels` are those of `triune.batch.predict`, and so are the results. Rows get the
    outputs as columns, or with `top_k` ``classes``, ``scores`` and ``labels``; their other columns stay. `on_error` says what
    happens with a row that cannot be used: ``raise``, or ``skip`` it and log it.

    `threads` compute a run; by default as many as Ray reserves CPUs for a worker (``num_cpus=`` of `map_batches`, 1).

    Raises `triune.errors.ArgumentError` if an argument or a row does not fit, and what `triune.Session` raises.
    """

    def __init__(
        self,
        model: ModelSource,
        *,
        column: str | Mapping[str, str] | None = None,
        preprocess: Preprocess | Callable[[Any], Any] | None = None,
        outputs: Sequence[str] | None = None,
        top_k: int | None = None,
        labels: str | os.PathLike[str] | Sequence[str] | None = None,
        on_error: Literal["raise", "skip"] = "raise",
        threads: int | None = None,
    ) -> None:
        """Open the model."""
        if on_error not in ("raise", "skip"):
            raise ArgumentError(f"on_error: expected raise or skip, got {on_error!r}")
        count = _slots() if threads is None else threads
        self._column = column
        self._on_error = on_error
        self._labelled = labels is not None
        self._top = top_k
        self._plan = Plan(Session(model), count, None, preprocess, outputs, top_k, labels_of(labels))

    def __call__(self, batch: Columns) -> Columns:
        """Return the rows of a batch, a dict of columns, with what the model gives for them."""
        column = self._column if self._column is not None else next((each for each in _COLUMNS if each in batch), None)
        wanted = list(column.values()) if isinstance(column, Mapping) else [column]
        for name in wanted:
            if name not in batch:
                asked = "column: name the one with the items" if name is None else f"column: unknown {name!r}"
                raise ArgumentError(f"{asked}{nearest(name or '', batch, 'the dataset has')}")
        rows = len(next(iter(batch.values())))
        results: list[Prediction | Failure] = []
        for first in range(0, rows, self._plan.batch):
            chunk = [
                (index, _name(batch, index), _item(batch, column, index))
                for index in range(first, min(first + self._plan.batch, rows))
            ]
            results += self._plan.run(chunk)[1]
        good: list[Prediction] = []
        for each in results:
            if not isinstance(each, Failure):
                good.append(each)
            elif self._on_error == "raise":
                raise each.error
            else:
                _LOG.warning("left out %s: %s", short(each.source), each.error)
        made = self._columns(good)
        # The items themselves would be carried along for nothing; paths are no items but names.
        dropped = {name for name in wanted if name != "path"}
        kept = [each.index for each in good]
        rest = {name: values[kept] for name, values in batch.items() if name not in dropped}
        clash = next((name for name in made if name in rest), None)
        if clash is not None:
            raise ArgumentError(
                f"outputs: the dataset has a column {clash!r} already; rename it, or name other outputs"
            )
        return rest | made

    def _columns(self, found: Sequence[Prediction]) -> Columns:
        if not self._top:
            names = self._plan.columns.outputs
            return {name: _stacked([each.outputs[name] for each in found], dtype) for name, dtype, *_ in names}
        made = {
            "classes": _stacked([[top.number for top in each.top] for each in found], "int64"),
            "scores": _stacked([[top.score for top in each.top] for each in found], "float64"),
        }
        if self._labelled:
            made["labels"] = _objects([[top.label for top in each.top] for each in found])
        return made


def remaining(
    items: Iterable[str | os.PathLike[str]], written: str | os.PathLike[str], *, column: str = "path"
) -> list[str]:
    """Return those of `items`, paths, that have no row in the Parquet files of a folder yet: what a stopped job left.

    `written` is the local folder that `write_parquet` wrote to, with the paths in `column`; there may be none yet. Give the
    result to Ray's reader, and let it write into the same folder again: its files have names of their own. Two texts of a path
    are the same if they are so made absolute. A file that a killed writer left without its end gets the ending ``.broken``,
    which readers pass by, and its rows count as left. Rows that were left out for an error are left, too.

    Raises `triune.errors.ArgumentError` if a table has no such column, ImportError without the extra ``arrow``.
    """
    try:
        from pyarrow import ArrowInvalid, parquet
    except ImportError:
        raise ImportError("remaining needs the extra 'arrow': pip install 'triune[arrow]'") from None
    done: set[str] = set()
    for file in sorted(Path(written).rglob("*.parquet")):
        try:
            table = parquet.ParquetFile(file)
        except ArrowInvalid as error:
            aside = file.with_name(f"{file.name}.broken")
            file.replace(aside)
            _LOG.warning("%s has no end, as of a writer that was killed; it is %s now (%s)", file, aside.name, error)
            continue
        with table:
            if column not in table.schema_arrow.names:
                known = table.schema_arrow.names
                raise ArgumentError(f"{file}: column: unknown {column!r}{nearest(column, known, 'the table has')}")
            for batch in table.iter_batches(columns=[column]):
                done.update(os.path.abspath(path) for path in batch.column(0).to_pylist() if path is not None)
    return [path for path in map(os.fsdecode, items) if os.path.abspath(path) not in done]


def _slots() -> int:
    """Return how many CPUs Ray reserved for this worker, 1 outside of one and where it is a part."""
    try:
        import ray
    except ImportError:
        raise ImportError("Predictor needs the extra 'ray': pip install 'triune[ray]', or threads=") from None
    if not ray.is_initialized():
        return 1
    context: Any = ray.get_runtime_context()
    return max(1, int(context.get_assigned_resources().get("CPU", 1)))


def _name(batch: Columns, index: int) -> str:
    return str(batch["path"][index]) if "path" in batch else f"row {index} of a batch"


def _item(batch: Columns, column: str | Mapping[str, str] | None, index: int) -> Any:
    if isinstance(column, Mapping):
        return {name: batch[each][index] for name, each in column.items()}
    value = batch[str(column)][index]
    # What numpy makes of texts and bytes in arrays of their own dtypes.
    return value.item() if isinstance(value, np.str_ | np.bytes_) else value


def _stacked(rows: Sequence[Any], dtype: str) -> npt.NDArray[Any]:
    """Return rows as one array; where their shapes differ, as an array of arrays."""
    if len({np.shape(row) for row in rows}) <= 1:
        return np.array(rows, dtype)
    return _objects(rows)


def _objects(rows: Sequence[Any]) -> npt.NDArray[Any]:
    found = np.empty(len(rows), object)
    for index, row in enumerate(rows):
        found[index] = row
    return found
