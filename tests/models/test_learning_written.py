"""Classical learning behind what a device computes, and in files that Triune writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import triune
from triune.cli import main

ML = "ai.onnx.ml"
RANDOM = np.random.default_rng(6)
X = RANDOM.normal(size=(6, 1, 8, 8)).astype(np.float32)


def learned(kind: str, **attributes: Any) -> Any:
    results = ["label", "scores"] if kind.endswith("Classifier") else ["scores"]
    return helper.make_node(kind, ["features"], results, domain=ML, **attributes)


def trees(of: str) -> dict[str, Any]:
    """Return the attributes of five trees over six features, three levels deep, and of what their leaves say."""
    names = ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
    found: dict[str, Any] = {f"nodes_{name}": [] for name in names}
    found |= {f"{of}_{name}": [] for name in ("treeids", "nodeids", "ids", "weights")}
    for tree in range(5):
        for node in range(15):
            leaf = node >= 7
            row = (tree, node, int(RANDOM.integers(6)), float(np.float32(RANDOM.normal(0, 0.3))))
            row += ("LEAF", 0, 0) if leaf else ("BRANCH_LEQ", 2 * node + 1, 2 * node + 2)
            for name, value in zip(names, row, strict=True):
                found[f"nodes_{name}"].append(value)
            if leaf:
                said = (tree, node, int(RANDOM.integers(3)), float(np.float32(RANDOM.normal())))
                for name, value in zip(("treeids", "nodeids", "ids", "weights"), said, strict=True):
                    found[f"{of}_{name}"].append(value)
    return found


def floats(count: int) -> list[float]:
    return [float(np.float32(value)) for value in RANDOM.normal(size=count)]


SCORES = helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
HEADS: dict[str, list[Any]] = {
    "trees": [learned("TreeEnsembleClassifier", classlabels_int64s=[5, 6, 7], **trees("class"))],
    "trees of words": [learned("TreeEnsembleClassifier", classlabels_strings=["a", "b", "c"], **trees("class"))],
    "maps": [
        learned("TreeEnsembleClassifier", classlabels_strings=["c", "b", "a"], **trees("class")),
        helper.make_node("ZipMap", ["scores"], ["maps"], domain=ML, classlabels_strings=["c", "a", "b"]),
    ],
    "regression": [learned("TreeEnsembleRegressor", n_targets=3, **trees("target"))],
    "linear words": [
        learned(
            "LinearClassifier",
            coefficients=floats(18),
            intercepts=floats(3),
            classlabels_strings=["a", "b", "c"],
            post_transform="SOFTMAX",
        )
    ],
    "vectors": [
        learned(
            "SVMClassifier",
            kernel_type="RBF",
            kernel_params=[0.3, 0.0, 3.0],
            support_vectors=floats(24),
            vectors_per_class=[2, 2],
            coefficients=floats(4),
            rho=floats(1),
            classlabels_strings=["no", "yes"],
        )
    ],
    "table": [
        helper.make_node("ArgMax", ["features"], ["best"], axis=1, keepdims=0),
        helper.make_node(
            "LabelEncoder", ["best"], ["label"], domain=ML, keys_int64s=list(range(6)), values_strings=list("abcdef")
        ),
    ],
}


def save(path: Path, head: list[Any]) -> Path:
    """Save a small convolutional network with a head behind its six features."""
    weights = {"w1": (8, 1, 3, 3), "w2": (16, 8, 3, 3), "w3": (16, 6)}
    constants = [
        numpy_helper.from_array((RANDOM.normal(size=shape) * 0.3).astype(np.float32), name)
        for name, shape in weights.items()
    ]
    body = [
        helper.make_node("Conv", ["x", "w1"], ["c1"], pads=[1] * 4),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], pads=[1] * 4, strides=[2, 2]),
        helper.make_node("Relu", ["c2"], ["r2"]),
        helper.make_node("GlobalAveragePool", ["r2"], ["g"]),
        helper.make_node("Flatten", ["g"], ["flat"]),
        helper.make_node("MatMul", ["flat", "w3"], ["features"]),
    ]
    outputs = []
    for name in [name for node in head for name in node.output if name != "best"]:
        if name == "maps":
            outputs.append(helper.make_value_info(name, helper.make_sequence_type_proto(SCORES)))
        elif name == "label":
            numbers = any(each.name == "classlabels_int64s" for node in head for each in node.attribute)
            outputs.append(
                helper.make_tensor_value_info(name, TensorProto.INT64 if numbers else TensorProto.STRING, ["N"])
            )
        else:
            outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", None]))
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 1, 8, 8])]
    graph = helper.make_graph([*body, *head], "g", inputs, outputs, constants)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(ML, 3)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), path)
    return path


def plain(values: list[Any]) -> list[Any]:
    return [value.tolist() if isinstance(value, np.ndarray) else value for value in values]


@pytest.mark.parametrize("head", HEADS)
def test_a_package_has_it_on_the_host(tmp_path: Path, head: str) -> None:
    """The answers are those of a session over the quantized file, to the bit."""
    from triune.cli.pipeline import Pipeline

    model = save(tmp_path / "float.onnx", HEADS[head])
    quantized = tmp_path / "q.onnx"
    triune.quantize(model, calibration=[{"x": X[at : at + 1]} for at in range(4)], output=quantized)
    package = triune.compile(quantized, target="metis", output=tmp_path / "package")
    with Pipeline(package / "model.json", None, 1) as pipeline:
        found = pipeline.run({"x": X}, lambda done, of: None)
    session = triune.Session(quantized)
    rows = [session.run({"x": X[at : at + 1]}) for at in range(len(X))]
    for place, info in enumerate(session.outputs):
        expected = [each for row in rows for each in plain([row[place]])[0]]
        assert plain([found[info.name]])[0] == expected


@pytest.mark.parametrize("head", HEADS)
def test_a_file_is_written_again(tmp_path: Path, head: str) -> None:
    """With the same answers, here and in ONNX Runtime."""
    model, again = save(tmp_path / "a.onnx", HEADS[head]), tmp_path / "b.onnx"
    # What is made of other operators is written as those, which needs fixed extents.
    fixed = ["--shape", "x=6,1,8,8"] if head == "linear words" else []
    assert main(["convert", str(model), str(again), *fixed]) == 0
    onnx.checker.check_model(onnx.load(again))
    assert plain(triune.Session(model).run({"x": X})) == plain(triune.Session(again).run({"x": X}))
    before, after = (onnxruntime.InferenceSession(path).run(None, {"x": X}) for path in (model, again))
    for one, other in zip(before, after, strict=True):
        if isinstance(one, np.ndarray) and one.dtype.kind == "f":
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
        else:
            assert plain([one])[0] == plain([other])[0] or head == "maps"


def test_what_comes_in_is_of_numbers(tmp_path: Path) -> None:
    node = helper.make_node("LabelEncoder", ["w"], ["y"], domain=ML, keys_strings=["a"], values_int64s=[1])
    words = helper.make_tensor_value_info("w", TensorProto.STRING, [1])
    graph = helper.make_graph([node], "g", [words], [helper.make_tensor_value_info("y", TensorProto.INT64, [1])])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(ML, 3)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), tmp_path / "m.onnx")
    with pytest.raises(
        triune.errors.Error, match="input 'w' is of kind 'strings', and packages take tensors of numbers"
    ):
        triune.compile(tmp_path / "m.onnx", target="metis", output=tmp_path / "package")
