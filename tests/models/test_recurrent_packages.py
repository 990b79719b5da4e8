"""Models that end in recurrent cells: the host's part of a package has ONNX's own operators, for any runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import triune
from triune.cli.pipeline import Pipeline

STEPS, WIDTH, HIDDEN, BATCH = 6, 16, 5, 1
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def network(cell: str, direction: str, operands: dict[str, npt.NDArray[Any]], **attributes: Any) -> onnx.ModelProto:
    """Return a quantized convolution whose columns are the steps of a recurrent cell, with every result an output."""
    rng = np.random.default_rng(3)
    directions, rows = (2 if direction == "bidirectional" else 1), GATES[cell] * HIDDEN
    constants = {
        "scale": np.float32(0.05),
        "zero": np.int8(3),
        "w8": rng.integers(-90, 90, (WIDTH, 3, 3, 3)).astype(np.int8),
        "ws": np.float32(0.01),
        "wz": np.int8(0),
        "rows": np.array([BATCH, WIDTH, STEPS], np.int64),
        "w": rng.normal(0, 0.3, (directions, rows, WIDTH)).astype(np.float32),
        "r": rng.normal(0, 0.3, (directions, rows, HIDDEN)).astype(np.float32),
        **operands,
    }
    names = ["x_", "w", "r", "b", "lengths", "h", "c", "p"][: 8 if cell == "LSTM" else 6]
    given = [name if name in constants or name == "x_" else "" for name in names]
    while not given[-1]:
        given.pop()
    results = ["y", "y_h", "y_c"][: 3 if cell == "LSTM" else 2]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "scale", "zero"], ["xd"]),
        helper.make_node("DequantizeLinear", ["w8", "ws", "wz"], ["wd"]),
        helper.make_node("Conv", ["xd", "wd"], ["conv"], pads=[0, 1, 0, 1]),
        helper.make_node("QuantizeLinear", ["conv", "scale", "zero"], ["cq"]),
        helper.make_node("DequantizeLinear", ["cq", "scale", "zero"], ["cd"]),
        helper.make_node("Reshape", ["cd", "rows"], ["columns"]),
        helper.make_node("Transpose", ["columns"], ["x_"], perm=[2, 0, 1]),
        helper.make_node(cell, given, results, hidden_size=HIDDEN, direction=direction, **attributes),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [BATCH, 3, 3, STEPS])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in results],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model)


def some(*shape: int) -> npt.NDArray[np.float32]:
    """Return small numbers."""
    return np.random.default_rng(5).normal(0, 0.5, shape).astype(np.float32)


CASES: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    "lstm": ("LSTM", "forward", {"b": some(1, 8 * HIDDEN)}, {}),
    "lstm without biases, backwards": ("LSTM", "reverse", {}, {}),
    "lstm with everything": (
        "LSTM",
        "bidirectional",
        {
            "b": some(2, 8 * HIDDEN),
            "lengths": np.array([STEPS - 2], np.int32),
            "h": some(2, BATCH, HIDDEN),
            "c": some(2, BATCH, HIDDEN),
            "p": some(2, 3 * HIDDEN),
        },
        {"clip": 2.5, "input_forget": 1},
    ),
    "gru": ("GRU", "bidirectional", {"b": some(2, 6 * HIDDEN)}, {}),
    "gru that resets behind the product": (
        "GRU",
        "forward",
        {"b": some(1, 6 * HIDDEN), "h": some(1, BATCH, HIDDEN)},
        {"linear_before_reset": 1},
    ),
    "rnn with another function": (
        "RNN",
        "forward",
        {"b": some(1, 2 * HIDDEN)},
        {"activations": ["ScaledTanh"], "activation_alpha": [0.5], "activation_beta": [0.75]},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_cells_run_behind_the_card(tmp_path: Path, case: str) -> None:
    cell, direction, operands, attributes = CASES[case]
    model = network(cell, direction, operands, **attributes)
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    package = triune.compile(tmp_path / "model.onnx", target="metis", output=tmp_path / "package")
    # Reasons are of operators, not of each one's tensors or steps: a table of them stays short.
    assert all("'" not in each.reason for each in package.report.stayed)
    assert [each.op for each in package.report.stayed] == [cell]
    behind = onnx.load(tmp_path / "package" / "postprocess_graph.onnx")
    assert cell in {node.op_type for node in behind.graph.node}
    assert sum(node.op_type in ("Gemm", "MatMul") for node in behind.graph.node) == 0
    onnx.checker.check_model(behind, full_check=True)

    x = np.random.default_rng(7).uniform(-3, 3, (BATCH, 3, 3, STEPS)).astype(np.float32)
    wanted = triune.Session(model).run({"x": x})
    with Pipeline(Path(package) / "model.json", None, 1) as pipeline:
        found = pipeline.run({"x": x}, lambda done, of: None)
    other = onnxruntime.InferenceSession(behind.SerializeToString())
    fed = {info.name: np.zeros([*info.shape], np.float32) + np.float32(0.25) for info in other.get_inputs()}
    ours = triune.Session(behind)
    for one, two in zip(other.run(None, fed), ours.run(fed), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-6)
    for info, array in zip(triune.Session(model).outputs, wanted, strict=True):
        np.testing.assert_array_equal(found[info.name].reshape(array.shape), array)
