"""Predictions as tables: Parquet and Arrow by pyarrow, CSV and JSON lines by the standard library."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from triune._files import replaced, replaced_text
from triune.errors import ArgumentError

if TYPE_CHECKING:
    import pyarrow

    from triune.batch._predict import Columns, Prediction

__all__ = ["KINDS", "arrow_table", "write", "write_text"]

_ROWS = 1024
"""Rows that are in memory at a time."""

KINDS = (".parquet", ".csv", ".jsonl")
"""Endings of tables."""


def write(predictions: Iterable[Prediction], path: Path, columns: Columns) -> int:
    """Write a table of the kind that the path's ending says; return its rows."""
    kind = path.suffix.lower()
    if kind not in KINDS:
        raise ArgumentError(f"{path}: expected a name that ends in {', '.join(KINDS)}, got {kind or 'no ending'}")
    if kind == ".parquet":
        return _parquet(predictions, path, columns)
    with replaced_text(path) as file:
        return write_text(predictions, file, kind, columns)


def write_text(predictions: Iterable[Prediction], file: TextIO, kind: str, columns: Columns) -> int:
    """Write CSV or JSON lines to an open file; return the rows."""
    count = 0
    if kind == ".jsonl":
        for prediction in predictions:
            row = {name: _json(value) for name, value in _row(prediction, columns).items()}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            count += 1
        return count
    writer = csv.writer(file, lineterminator="\n")
    head = ["class", "label", "score"] if columns.labelled else ["class", "score"]
    ranks = [f"{name}_{rank}" for rank in range(1, columns.top + 1) for name in head]
    writer.writerow(["source", *(ranks if columns.top else (name for name, *_ in columns.outputs))])
    for prediction in predictions:
        cells: list[Any] = []
        for top in prediction.top:
            cells += [top.number, top.label, top.score] if columns.labelled else [top.number, top.score]
        if not columns.top:
            cells = [
                value if isinstance(value, str) else json.dumps(_json(value), ensure_ascii=False)
                for value in prediction.outputs.values()
            ]
        writer.writerow([prediction.source, *cells])
        count += 1
    return count


def arrow_table(predictions: Iterable[Prediction], columns: Columns) -> pyarrow.Table:
    """Return a table in memory."""
    arrow = _arrow()
    schema = _schema(arrow, columns)
    return arrow.Table.from_batches(_batches(arrow, predictions, columns, schema), schema)


def _parquet(predictions: Iterable[Prediction], path: Path, columns: Columns) -> int:
    arrow = _arrow()
    from pyarrow import parquet

    schema, count = _schema(arrow, columns), 0
    with replaced(path) as file, parquet.ParquetWriter(file, schema) as writer:
        for batch in _batches(arrow, predictions, columns, schema):
            writer.write_batch(batch)
            count += batch.num_rows
    return count


def _arrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise ImportError("tables of Arrow and Parquet need the extra 'arrow': pip install 'triune[arrow]'") from None
    return pyarrow


def _batches(arrow: Any, predictions: Iterable[Prediction], columns: Columns, schema: Any) -> Iterator[Any]:
    rest = iter(predictions)
    while rows := [_row(prediction, columns) for prediction in islice(rest, _ROWS)]:
        lists = [
            {name: value.tolist() if hasattr(value, "tolist") else value for name, value in row.items()} for row in rows
        ]
        yield arrow.RecordBatch.from_pylist(lists, schema)


def _schema(arrow: Any, columns: Columns) -> Any:
    fields: list[tuple[str, Any]] = [("source", arrow.string())]
    if columns.top:
        fields.append(("classes", arrow.list_(arrow.int64())))
        fields += [("labels", arrow.list_(arrow.string()))] if columns.labelled else []
        fields.append(("scores", arrow.list_(arrow.float64())))
    for name, dtype, axes, what in () if columns.top else columns.outputs:
        if what not in ("tensor", "strings"):
            raise ArgumentError(
                f"output {name!r} is of kind {what!r}, for which these tables have no column; write .jsonl or .csv, or name "
                "other outputs"
            )
        if axes is None:
            raise ArgumentError(
                f"output {name!r}: expected a known number of axes for a column, got any; name other outputs"
            )
        kind = arrow.string() if what == "strings" else arrow.from_numpy_dtype(np.dtype(dtype))
        for _ in range(axes):
            kind = arrow.list_(kind)
        fields.append((name, kind))
    return arrow.schema(fields)


def _row(prediction: Prediction, columns: Columns) -> dict[str, Any]:
    row: dict[str, Any] = {"source": prediction.source}
    if not columns.top:
        return row | prediction.outputs
    row["classes"] = [top.number for top in prediction.top]
    if columns.labelled:
        row["labels"] = [top.label for top in prediction.top]
    row["scores"] = [top.score for top in prediction.top]
    return row


def _json(value: Any) -> Any:
    """Return what JSON has for a value; it has no infinities, and nothing that is no number."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_json(each) for each in value]
    if isinstance(value, dict):
        return {str(key): _json(each) for key, each in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
