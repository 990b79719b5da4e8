"""Outputs that the host makes of the model's inputs, past the card, with a session's bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import triune
from triune.axelera.runtime.op import Load
from triune.cli import main

onnx = pytest.importorskip("onnx")

SHAPE = [1, 3, 8, 8]


def network(kind: str) -> Any:
    """Return a quantized convolution of x, and what the host makes of x, of its integers, or of another input."""
    from onnx import TensorProto, helper, numpy_helper

    nodes: list[Any] = []
    constants: list[Any] = []
    rng = np.random.default_rng(0)
    integers = kind == "integers given"

    def constant(name: str, value: Any) -> str:
        constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def op(kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"{kind}{len(nodes)}"
        nodes.append(helper.make_node(kind, list(inputs), [f"{name}:0"], name, **attributes))
        return f"{name}:0"

    def rounded(x: str, scale: float, quantized: str = "") -> tuple[str, str]:
        zero = np.uint8(120) if integers else np.int8(-3)
        own = [constant(f"{x}:s", np.float32(scale)), constant(f"{x}:z", zero)]
        quantized = quantized or op("QuantizeLinear", x, *own)
        return quantized, op("DequantizeLinear", quantized, *own)

    source = "x"
    if kind == "float before":
        source = op("Mul", "x", constant("half", np.float32(0.5)))
    bytes_, x = rounded(source, 0.02, "x" if integers else "")
    weights = constant("w", rng.integers(-100, 100, (8, 3, 3, 3)).astype(np.int8))
    weights = op("DequantizeLinear", weights, constant("ws", np.float32(0.01)), constant("wz", np.int8(0)))
    given, y = rounded(op("Conv", x, weights, pads=[1] * 4), 0.1)
    inputs = [helper.make_tensor_value_info("x", TensorProto.UINT8 if integers else TensorProto.FLOAT, SHAPE)]
    if kind == "other input":
        inputs.append(helper.make_tensor_value_info("other", TensorProto.FLOAT, [1, 8, 8, 8]))
    most = op("ReduceMax", y, axes=[1])
    outputs = {
        "the input": [y, x],
        "its integers": [y, bytes_],
        "of the input": [y, op("Exp", x)],
        "integers given": [y, op("Exp", x)],
        "joined": [op("Sub", most, op("Exp", x))],
        "float joined": [op("Sub", most, op("Exp", "x"))],
        "float before": [op("Sub", most, op("Exp", source))],
        "other input": [op("Sub", y, op("Exp", "other"))] if kind == "other input" else [],
        "extents": [y, op("Shape", "x")],
        "given and read": [y, given],
        "given, read and joined": [op("Sub", most, op("Exp", x)), given, op("Exp", y)],
    }[kind]
    needed = set(outputs)
    for node in reversed(nodes):
        if needed & set(node.output):
            needed |= set(node.input)
    graph = helper.make_graph(
        [node for node in nodes if needed & set(node.output)],
        "net",
        inputs,
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [tensor for tensor in constants if tensor.name in needed],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model, strict_mode=True)


KINDS = [
    "the input",
    "its integers",
    "of the input",
    "integers given",
    "joined",
    "float joined",
    "float before",
    "other input",
    "extents",
    "given and read",
    "given, read and joined",
]


@pytest.mark.parametrize("kind", KINDS)
def test_what_goes_past_the_card(tmp_path: Path, kind: str) -> None:
    model = tmp_path / "net.onnx"
    onnx.save(network(kind), model)
    session = triune.Session(model)
    rng = np.random.default_rng(3)
    feeds: dict[str, Any] = {}
    for info in session.inputs:
        shape = [int(extent) for extent in info.shape]
        integers = kind == "integers given"
        real = rng.normal(0, 1, shape).astype(np.float32)
        feeds[info.name] = rng.integers(0, 256, shape).astype(np.uint8) if integers else real
    expected = session.run(feeds)
    package = triune.compile(model, output=tmp_path / "out")
    assert package.report.share == 1.0
    np.savez(tmp_path / "in.npz", **feeds)
    command = ["run", str(tmp_path / "out"), "--input", str(tmp_path / "in.npz"), "--output", str(tmp_path / "out.npz")]
    assert main(command) == 0
    found = np.load(tmp_path / "out.npz")
    for info, values in zip(session.outputs, expected, strict=True):
        np.testing.assert_array_equal(found[info.name], values, err_msg=info.name)
    load = Load(tmp_path / "out")
    results = load(*feeds.values())
    results = [results] if len(expected) == 1 else list(results)
    for values, result in zip(expected, results, strict=True):
        np.testing.assert_array_equal(result, values)
    load.release()


@pytest.mark.parametrize("kind", ["given and read", "given, read and joined"])
def test_nothing_is_computed_twice(kind: str, tmp_path: Path) -> None:
    """Integers of the card's that an output and an operator read come from what crosses, not from the convolution again."""
    onnx.save(network(kind), tmp_path / "net.onnx")
    triune.compile(tmp_path / "net.onnx", output=tmp_path / "out")
    behind = onnx.load(tmp_path / "out" / "postprocess_graph.onnx")
    assert "Conv" not in {node.op_type for node in behind.graph.node}
