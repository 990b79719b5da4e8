"""The command line on models that give strings, sequences and maps, and take them."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from triune import compare
from triune.cli import main

ML = "ai.onnx.ml"
X = np.float32([[0, 1], [2, 0], [0.5, 0.25]])


def save(path: Path, nodes: list[Any], outputs: list[Any], inputs: list[Any] | None = None) -> Path:
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 2])] if inputs is None else inputs
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(ML, 3)]
    model = helper.make_model(helper.make_graph(nodes, "g", inputs, outputs), opset_imports=imports, ir_version=8)
    onnx.save(model, path)
    return path


def classifier(path: Path, labels: tuple[str, str] = ("cat", "dog"), weight: float = 1.0) -> Path:
    """Save a linear model with labels, and a map of scores for each row, as scikit-learn's classifiers are exported."""
    score = helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    nodes = [
        helper.make_node(
            "LinearClassifier",
            ["x"],
            ["label", "scores"],
            domain=ML,
            coefficients=[weight, 0.0, 0.0, 1.0],
            intercepts=[0.0, 0.0],
            classlabels_strings=list(labels),
        ),
        helper.make_node("ZipMap", ["scores"], ["odds"], domain=ML, classlabels_strings=list(labels)),
    ]
    outputs = [
        helper.make_tensor_value_info("label", TensorProto.STRING, ["N"]),
        helper.make_value_info("odds", helper.make_sequence_type_proto(score)),
    ]
    return save(path, nodes, outputs)


def sequence(path: Path) -> Path:
    parts = helper.make_tensor_sequence_value_info("parts", TensorProto.FLOAT, None)
    return save(path, [helper.make_node("SplitToSequence", ["x"], ["parts"], axis=0)], [parts])


def vectorizer(path: Path) -> Path:
    kind = helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    node = helper.make_node("DictVectorizer", ["d"], ["y"], domain=ML, string_vocabulary=["a", "b"])
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2])]
    return save(path, [node], outputs, [helper.make_value_info("d", kind)])


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    np.savez(tmp_path / "x.npz", x=X)
    return tmp_path / "x.npz"


def run(*arguments: object) -> None:
    assert main([str(each) for each in arguments]) == 0


def test_labels_and_maps_are_printed(tmp_path: Path, samples: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("run", classifier(tmp_path / "m.onnx"), "--input", samples)
    assert capsys.readouterr().out.splitlines() == [
        "label: strings (3,) 2 different: 'cat' (2), 'dog' (1)",
        "  image 0: 'dog'",
        "  image 1: 'cat'",
        "  image 2: 'cat'",
        "odds: 3 maps of 2 keys: 'cat', 'dog'",
        "  image 0: best 'dog' (1), 'cat' (0)",
        "  image 1: best 'cat' (2), 'dog' (0)",
        "  image 2: best 'cat' (0.5), 'dog' (0.25)",
    ]
    run("run", sequence(tmp_path / "s.onnx"), "--input", samples)
    told = "parts: sequence of 3: float32 (1, 2), float32 (1, 2), float32 (1, 2)\n"
    assert capsys.readouterr().out == told


def test_they_are_saved_without_objects(tmp_path: Path, samples: Path) -> None:
    model = classifier(tmp_path / "m.onnx")
    run("run", model, "--input", samples, "--output", tmp_path / "r.npz")
    command = [sys.executable, "-m", "triune", "run", str(model), "--input", str(samples), "--output", "-"]
    piped = subprocess.run(command, capture_output=True, check=True).stdout
    for source in (tmp_path / "r.npz", io.BytesIO(piped)):
        saved = np.load(source, allow_pickle=False)
        assert set(saved) == {"label", "odds.keys", "odds.values"}
        assert saved["label"].tolist() == ["dog", "cat", "cat"]
        assert saved["odds.keys"].tolist() == ["cat", "dog"]
        assert saved["odds.values"].tolist() == [[0, 1], [2, 0], [0.5, 0.25]]
    run("run", sequence(tmp_path / "s.onnx"), "--input", samples, "--output", tmp_path / "r.npz")
    saved = np.load(tmp_path / "r.npz", allow_pickle=False)
    assert int(saved["parts.length"]) == 3
    assert saved["parts.1"].tolist() == [[2, 0]]


def test_what_no_file_keeps_leaves_none(
    tmp_path: Path, samples: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    model = classifier(tmp_path / "m.onnx", ("cat\0", "dog"))
    assert main(["run", str(model), "--input", str(samples), "--output", "-"]) == 1
    found = capsysbinary.readouterr()
    assert found.out == b""
    assert found.err == b"triune: error: output 'label': a string ends in NUL, which no array of text in a file keeps\n"


def test_maps_and_words_come_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "d.npz", **{"d.keys": np.array(["b", "a"]), "d.values": np.float32([3, 4])})
    run("run", vectorizer(tmp_path / "m.onnx"), "--input", tmp_path / "d.npz", "--output", tmp_path / "r.npz")
    assert np.load(tmp_path / "r.npz")["y"].tolist() == [[4, 3]]
    np.savez(tmp_path / "d.npz", d=np.float32([3]))
    assert main(["run", str(tmp_path / "m.onnx"), "--input", str(tmp_path / "d.npz")]) == 1
    assert "input 'd' is a map: expected the arrays d.keys and d.values, got no d.keys" in capsys.readouterr().err
    node = helper.make_node("LabelEncoder", ["w"], ["y"], domain=ML, keys_strings=["a", "b"], values_int64s=[5, 6])
    words = helper.make_tensor_value_info("w", TensorProto.STRING, ["N"])
    numbers = helper.make_tensor_value_info("y", TensorProto.INT64, ["N"])
    model = save(tmp_path / "w.onnx", [node], [numbers], [words])
    np.savez(tmp_path / "w.npz", w=np.array(["b", "a", "c"]))
    run("run", model, "--input", tmp_path / "w.npz", "--output", tmp_path / "r.npz")
    assert np.load(tmp_path / "r.npz")["y"].tolist() == [6, 5, -1]
    np.savez(tmp_path / "w.npz", w=np.float32([1]))
    assert main(["run", str(model), "--input", str(tmp_path / "w.npz")]) == 1
    assert "input 'w': expected strings, got float32" in capsys.readouterr().err


def test_features_that_are_missing_come_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nan = float("nan")
    node = helper.make_node("Imputer", ["x"], ["y"], domain=ML, imputed_value_floats=[7.0], replaced_value_float=nan)
    model = save(tmp_path / "m.onnx", [node], [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 2])])
    np.savez(tmp_path / "x.npz", x=np.float32([[nan, 1]]))
    run("run", model, "--input", tmp_path / "x.npz")
    assert "max 7" in capsys.readouterr().out


def test_they_are_compared(tmp_path: Path, samples: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = classifier(tmp_path / "a.onnx"), classifier(tmp_path / "b.onnx", weight=0.25)
    run("compare", one, other, "--inputs", samples, "--json", tmp_path / "c.json", "--html", tmp_path / "c.html")
    text = capsys.readouterr().out
    assert "  label          -         -           -    66.7%\n" in text
    label, odds = json.loads((tmp_path / "c.json").read_text())["differences"][0]["outputs"]
    assert (label["name"], label["strings"], label["sqnr"]) == ("label", True, None)
    assert label["equal"] == pytest.approx(2 / 3)
    assert (odds["name"], odds["max_error"], odds["top1"]) == ("odds", 1.5, pytest.approx(2 / 3))
    assert "of the strings are the same" in (tmp_path / "c.html").read_text()
    assert (
        main(["compare", str(one), str(classifier(tmp_path / "k.onnx", ("cat", "cow"))), "--inputs", str(samples)]) == 1
    )
    error = capsys.readouterr().err
    assert "output 'odds' has the keys ['cat', 'cow'], in a.onnx ['cat', 'dog']" in error
    parts = sequence(tmp_path / "s.onnx")
    (difference,) = compare(parts, parts, inputs=[{"x": X[:1]}]).differences
    assert [each.equal for each in difference.outputs] == [1.0]


def test_feature_vectors_are_predicted_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Arrays without pictures: files of one row each."""
    model = classifier(tmp_path / "m.onnx")
    folder = tmp_path / "rows"
    folder.mkdir()
    for index, row in enumerate(X):
        np.save(folder / f"{index}.npy", row)
    run("predict", model, folder, "--top", 0, "--format", "jsonl")
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["label"], row["odds"]) for row in rows] == [
        ("dog", {"cat": 0, "dog": 1}),
        ("cat", {"cat": 2, "dog": 0}),
        ("cat", {"cat": 0.5, "dog": 0.25}),
    ]
    run("predict", model, folder, "--top", 0, "--outputs", "label")
    assert capsys.readouterr().out.splitlines()[1] == f"{folder}/0.npy,dog"
    run("predict", model, folder, "--top", 0, "--outputs", "label", "-o", tmp_path / "t.parquet")
    assert main(["predict", str(model), str(folder), "--top", "0", "-o", str(tmp_path / "t.parquet")]) == 1
    assert (
        "output 'odds' is of kind 'sequence of maps', for which these tables have no column" in capsys.readouterr().err
    )
    # Who says how pictures become inputs meant another model.
    assert main(["predict", str(model), str(folder), "--mean", "3"]) == 1
    assert "--mean: the model takes no images: input 'x' is float32 (N, 2)" in capsys.readouterr().err
    assert main(["predict", str(vectorizer(tmp_path / "d.onnx")), str(folder)]) == 1
    assert "model: input 'd' is of kind 'map', which has no batch" in capsys.readouterr().err


def test_what_they_are_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("inspect", classifier(tmp_path / "m.onnx"))
    text = capsys.readouterr().out
    assert "outputs        label strings (N)\n               odds sequence of maps to float32\n" in text
    assert "ZipMap" in text
    run("inspect", vectorizer(tmp_path / "d.onnx"))
    text = capsys.readouterr().out
    assert "inputs         d map to float32\n" in text
    assert "operators      1: 1 DictVectorizer\n" in text
    node = helper.make_node("LabelEncoder", ["w"], ["y"], domain=ML, keys_strings=["a", "b"], values_int64s=[5, 6])
    words = helper.make_tensor_value_info("w", TensorProto.STRING, ["N"])
    model = save(tmp_path / "w.onnx", [node], [helper.make_tensor_value_info("y", TensorProto.INT64, ["N"])], [words])
    run("inspect", model, "--json")
    found = json.loads(capsys.readouterr().out)
    assert (found["inputs"][0]["kind"], found["operators"], found["parameters"]) == ("strings", {"LabelEncoder": 1}, 4)


def test_they_are_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("bench", classifier(tmp_path / "m.onnx"), "--seconds", "0.01")
    assert main(["bench", str(vectorizer(tmp_path / "d.onnx"))]) == 1
    assert "input 'd' is of kind 'map', for which there is nothing random" in capsys.readouterr().err
