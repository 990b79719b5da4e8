"""Tables of predictions: what is in them, and that they are whole or not there."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx.parser
import pytest

from triune import errors
from triune.batch import Prediction, Predictions, predict


def inputs() -> npt.NDArray[np.float32]:
    values = np.random.default_rng(8).normal(size=(5, 3, 12, 16)).astype(np.float32)
    # Scores without infinities and nan, but for one row.
    values[3, 0, 6, 4:9] = [np.inf, np.nan, 1, -np.inf, 2]
    return values


def predictions(model: onnx.ModelProto, **options: Any) -> Predictions:
    return predict(model, inputs(), batch=2, **options)


def test_csv(tmp_path: Path, scores: onnx.ModelProto) -> None:
    expected: list[Prediction] = list(predictions(scores, top_k=2))
    assert predictions(scores, top_k=2, labels=["a, b", 'c"', "ü", "d", "e"]).write(tmp_path / "t.csv") == 5
    rows = list(csv.DictReader((tmp_path / "t.csv").read_text(encoding="utf-8").splitlines()))
    assert list(rows[0]) == ["source", "class_1", "label_1", "score_1", "class_2", "label_2", "score_2"]
    for row, each in zip(rows, expected, strict=True):
        assert row["source"] == str(each.index)
        for rank, top in enumerate(each.top, 1):
            assert int(row[f"class_{rank}"]) == top.number
            assert row[f"label_{rank}"] == ["a, b", 'c"', "ü", "d", "e"][top.number]
            assert float(row[f"score_{rank}"]) == top.score
    assert predictions(scores).write(tmp_path / "t.csv") == 5
    rows = list(csv.DictReader((tmp_path / "t.csv").read_text().splitlines()))
    assert json.loads(rows[0]["scores"]) == expected[0].outputs["scores"].tolist()
    assert json.loads(rows[3]["scores"])[:2] == [None, None]


def test_json_lines(tmp_path: Path, scores: onnx.ModelProto) -> None:
    expected = list(predictions(scores, top_k=2))
    predictions(scores).write(tmp_path / "t.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    assert [row["mean"] for row in rows][:3] == [float(each.outputs["mean"]) for each in expected[:3]]
    predictions(scores, top_k=2).write(tmp_path / "t.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    assert [row["classes"] for row in rows] == [[top.number for top in each.top] for each in expected]
    assert list(rows[0]) == ["source", "classes", "scores"]


def test_parquet(tmp_path: Path, scores: onnx.ModelProto) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    expected = list(predictions(scores, top_k=2))
    assert predictions(scores).write(tmp_path / "t.parquet") == 5
    for table in (parquet.read_table(tmp_path / "t.parquet"), predictions(scores).to_arrow()):
        assert table.column_names == ["source", "scores", "mean"]
        assert str(table.schema.field("scores").type) == "list<item: float>" or "float" in str(
            table.schema.field("scores").type
        )
        found = np.array(table["scores"].to_pylist(), np.float32)
        assert np.array_equal(found, [each.outputs["scores"] for each in expected], equal_nan=True)
    predictions(scores, top_k=2, labels=list("abcde")).write(tmp_path / "t.parquet")
    table = parquet.read_table(tmp_path / "t.parquet")
    assert table["classes"].to_pylist() == [[top.number for top in each.top] for each in expected]
    assert table["labels"].to_pylist() == [["abcde"[top.number] for top in each.top] for each in expected]


def test_without_pyarrow(tmp_path: Path, scores: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for use in (lambda: predictions(scores).to_arrow(), lambda: predictions(scores).write(tmp_path / "t.parquet")):
        with pytest.raises(ImportError, match=r"need the extra 'arrow': pip install 'triune\[arrow\]'"):
            use()
    assert list(tmp_path.iterdir()) == []


def test_a_table_is_whole_or_not_there(tmp_path: Path, scores: onnx.ModelProto) -> None:
    file = tmp_path / "t.csv"
    file.write_text("before")
    with pytest.raises(errors.ArgumentError, match="5: "):
        predict(scores, [*inputs(), np.zeros(3)], batch=2).write(file)
    assert file.read_text() == "before"
    assert list(tmp_path.iterdir()) == [file]


def test_what_is_no_table(tmp_path: Path, scores: onnx.ModelProto) -> None:
    with pytest.raises(
        errors.ArgumentError, match=r"expected a name that ends in \.parquet, \.csv, \.jsonl, got \.xls"
    ):
        predictions(scores).write(tmp_path / "t.xls")
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[n] x) => (float[n] source) { source = Add (x, x) }'
    )
    with pytest.raises(errors.ArgumentError, match="a table has a column 'source' of its own"):
        predict(model, [1.0]).write(tmp_path / "t.csv")
