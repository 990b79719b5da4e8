"""Attention whose scores have masks: a number far below all scores, which takes no steps from them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import triune

WIDTH, TOKENS = 16, 12
LEAST = float(np.finfo(np.float32).min)


def attention(path: Path, kind: str, far: float) -> Path:
    """Write a network of two blocks of attention over the tokens of which `keep` has a 1, and a product behind them."""
    random = np.random.default_rng(3)
    nodes: list[Any] = []
    constants: list[Any] = []

    def constant(values: Any) -> str:
        array = np.asarray(values)
        constants.append(
            numpy_helper.from_array(array.astype(np.float32) if array.dtype == float else array, f"c{len(constants)}")
        )
        return constants[-1].name

    def node(operator: str, *inputs: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(operator, list(inputs), [f"{operator}{len(nodes)}"], **attributes))
        return str(nodes[-1].output[0])

    def weights(*shape: int, gain: float = 1.0) -> str:
        return constant(random.normal(0, gain / np.sqrt(shape[0]), shape))

    kept = node("Unsqueeze", node("Cast", "keep", to=TensorProto.FLOAT), constant([1]))
    if kind == "constant":
        causal = constant(np.where(np.tri(TOKENS), 0.0, far))
    elif kind == "sum":
        mask = node("Mul", node("Sub", constant(1.0), kept), constant(far))
    else:
        hidden = node("Not", node("Cast", kept, to=TensorProto.BOOL))
    x = "x"
    for _ in range(2):
        q, k, v = (node("MatMul", x, weights(WIDTH, WIDTH, gain=1.5)) for _ in range(3))
        scores = node("MatMul", q, node("Transpose", k, perm=[0, 2, 1]))
        scores = node("Mul", scores, constant(WIDTH**-0.5))
        if kind == "where":
            scores = node("Where", hidden, constant(far), scores)
        elif kind == "constant":
            # As windows have it: a reshape between the sum and the shares.
            scores = node("Reshape", node("Add", scores, causal), constant([1, 1, TOKENS, TOKENS]))
        else:
            scores = node("Add", scores, mask)
        shares = node("Softmax", scores, axis=-1)
        if kind == "constant":
            shares = node("Reshape", shares, constant([1, TOKENS, TOKENS]))
        x = node("Add", x, node("MatMul", node("MatMul", shares, v), weights(WIDTH, WIDTH)))
    nodes.append(helper.make_node("MatMul", [x, weights(WIDTH, 8)], ["y"]))
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, TOKENS, WIDTH]),
        helper.make_tensor_value_info("keep", TensorProto.INT64, [1, TOKENS]),
    ]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, TOKENS, 8])
    graph = helper.make_graph(nodes, "attention", inputs, [result], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def samples(count: int, seed: int) -> list[dict[str, Any]]:
    random = np.random.default_rng(seed)
    lengths = random.integers(4, TOKENS + 1, count)
    return [
        {
            "x": random.standard_normal((1, TOKENS, WIDTH)).astype(np.float32),
            "keep": (np.arange(TOKENS)[None] < length).astype(np.int64),
        }
        for length in lengths
    ]


@pytest.mark.parametrize("options", [{}, {"method": "minmax"}, {"mixed": "float", "bound": 25.0}])
@pytest.mark.parametrize(
    ("kind", "far"),
    [("sum", -1e4), ("sum", LEAST), ("where", -1e9), ("where", -np.inf), ("constant", -100.0), ("constant", -np.inf)],
)
def test_a_mask_takes_no_steps_from_scores(tmp_path: Path, kind: str, far: float, options: dict[str, Any]) -> None:
    model = attention(tmp_path / "float.onnx", kind, far)
    result = triune.quantize(model, calibration=samples(24, 1), output=tmp_path / "q.onnx", **options)
    assert result.checks[0].sqnr > 18
    exact, session = onnxruntime.InferenceSession(model), triune.Session(result.path)
    for sample in samples(8, 2):
        (wanted,), (found,) = exact.run(None, sample), session.run(None, sample)
        assert np.corrcoef(wanted.ravel(), found.ravel())[0, 1] > 0.98
        # What is masked has no part in the answers for the other tokens.
        if kind != "constant" and not sample["keep"].all():
            hidden = sample["keep"][..., None] == 0
            other = sample | {"x": np.where(hidden, -sample["x"], sample["x"])}
            (same,) = session.run(None, other)
            np.testing.assert_array_equal(same[~hidden[..., 0]], found[~hidden[..., 0]])


def test_a_mask_that_others_read_keeps_its_range(tmp_path: Path) -> None:
    """The model's output is the sum itself: nothing of it is cut off."""
    model = onnx.load(attention(tmp_path / "float.onnx", "sum", -1e4))
    mask = next(node.output[0] for node in model.graph.node if node.op_type == "Mul")
    model.graph.output.append(helper.make_tensor_value_info(mask, TensorProto.FLOAT, None))
    onnx.save(model, tmp_path / "float.onnx")
    result = triune.quantize(tmp_path / "float.onnx", calibration=samples(24, 1), output=tmp_path / "q.onnx")
    assert result.ranges[mask][0] == pytest.approx(-1e4, rel=0.01)


def test_a_choice_that_hides_scores_is_a_sum_on_the_device(tmp_path: Path) -> None:
    """The choice is between numbers then, for the mask alone, and none of the scores cross to the host."""
    model = attention(tmp_path / "float.onnx", "where", -np.inf)
    result = triune.quantize(model, calibration=samples(24, 1), output=tmp_path / "q.onnx")
    operators = [node.op_type for node in onnx.load(result.path).graph.node]
    assert (operators.count("Where"), operators.count("Softmax")) == (2, 2)
    report = triune.compile(result.path, output=tmp_path / "package").report
    assert (report.share, report.segments) == (1, 1)

    known = onnx.load(model)
    hidden = next(node.input[0] for node in known.graph.node if node.op_type == "Where")
    kept = [node for node in known.graph.node if node.op_type not in ("Cast", "Unsqueeze", "Not")]
    del known.graph.node[:]
    known.graph.node.extend(kept)
    known.graph.initializer.append(numpy_helper.from_array(~np.tri(TOKENS, dtype=bool)[None], hidden))
    onnx.save(known, tmp_path / "float.onnx")
    result = triune.quantize(tmp_path / "float.onnx", calibration=samples(24, 1), output=tmp_path / "q.onnx")
    assert "Where" not in {node.op_type for node in onnx.load(result.path).graph.node}
    assert triune.compile(result.path, output=tmp_path / "package").report.host.operators <= 1


@pytest.mark.parametrize("gain", [0.0, 30.0], ids=["all look everywhere", "one looks at few"])
def test_shares_that_are_rounded_away_are_told(tmp_path: Path, gain: float) -> None:
    """Two heads over 600 tokens: where the first looks at few, half steps of its range are more than the other's shares."""
    random = np.random.default_rng(4)
    values = [np.array([gain, 0.1]).reshape(1, 2, 1, 1), random.normal(0, 0.5, (8, 8)), random.normal(0, 0.5, (8, 8))]
    constants = [
        numpy_helper.from_array(each.astype(np.float32), name) for each, name in zip(values, "gqv", strict=True)
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "q"], ["queries"]),
        helper.make_node("Mul", ["queries", "g"], ["scaled"]),
        helper.make_node("Transpose", ["x"], ["keys"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["scaled", "keys"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["shares"], "softmax", axis=-1),
        helper.make_node("MatMul", ["x", "v"], ["values"]),
        helper.make_node("MatMul", ["shares", "values"], ["y"]),
    ]
    shape = [1, 2, 600, 8]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy"]
    graph = helper.make_graph(nodes, "heads", ends[:1], ends[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(onnx.shape_inference.infer_shapes(model), tmp_path / "heads.onnx")
    held = [{"x": random.normal(0, 1, shape).astype(np.float32)} for _ in range(4)]
    options: dict[str, Any] = {"calibration": held, "output": tmp_path / "q.onnx"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", triune.errors.QuantizationWarning)
        told = [line for line in triune.quantize(tmp_path / "heads.onnx", **options).advice if "Softmax" in line]
        kept = triune.quantize(tmp_path / "heads.onnx", **options, keep_float=["softmax"])
    assert len(told) == (gain > 0)
    assert all("node 'softmax' (Softmax): " in line and "--keep-float softmax" in line for line in told)
    assert not any("Softmax" in line for line in kept.advice)
