"""Detectors that end in a suppression of boxes: it ends the host's last part, and runs wherever that does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import triune
from triune.axelera.runtime.op import Load
from triune.cli import main

onnx = pytest.importorskip("onnx")


def detector(decode: bool, direct: bool) -> Any:
    """Return a quantized convolution to boxes and scores, a suppression, and the boxes that it leaves.

    With `decode`, boxes are made in float before it; with `direct`, the model also gives what the card computes.
    """
    from onnx import TensorProto, helper, numpy_helper

    nodes: list[Any] = []
    constants: list[Any] = []
    rng = np.random.default_rng(0)

    def constant(name: str, value: Any) -> str:
        constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def op(kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        name = f"{kind}{len(nodes)}"
        made = [f"{name}:{at}" for at in range(outputs)]
        nodes.append(helper.make_node(kind, list(inputs), made, name, **attributes))
        return made[0] if outputs == 1 else made

    def rounded(x: str, scale: float) -> str:
        own = [constant(f"{x}:s", np.float32(scale)), constant(f"{x}:z", np.int8(0))]
        return str(op("DequantizeLinear", op("QuantizeLinear", x, *own), *own))

    weights = constant("w", rng.integers(-100, 100, (7, 3, 3, 3)).astype(np.int8))
    weights = op("DequantizeLinear", weights, constant("ws", np.float32(0.01)), constant("wz", np.int8(0)))
    y = rounded(op("Conv", rounded("x", 0.02), weights, pads=[1] * 4), 0.1)
    rows = op("Transpose", op("Reshape", y, constant("rows", np.array([1, 7, 64]))), perm=[0, 2, 1])
    boxes, scores = op("Split", rows, constant("parts", np.array([4, 3])), outputs=2, axis=2)
    if decode:
        boxes = op("Exp", op("Mul", boxes, constant("tenth", np.float32(0.1))))
    scores = op("Transpose", scores, perm=[0, 2, 1])
    limits = [constant("most", np.int64(9)), constant("iou", np.float32(0.4)), constant("score", np.float32(0.5))]
    chosen = op("NonMaxSuppression", boxes, scores, *limits)
    index = op("Squeeze", op("Gather", chosen, constant("two", np.array([2])), axis=1), constant("one", np.array([1])))
    outputs = [op("Gather", boxes, index, axis=1), chosen, *([y] if direct else [])]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model, strict_mode=True)


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("decode", [False, True])
def test_a_package_suppresses(tmp_path: Path, decode: bool, direct: bool) -> None:
    """By the command line, the vendor's pipelines and the lines that the vendor documents, with a session's bits."""
    onnx.save(detector(decode, direct), tmp_path / "net.onnx")
    package = triune.compile(tmp_path / "net.onnx", output=tmp_path / "out")
    assert package.report.share == 1.0
    reasons = {each.op: each.reason for each in package.report.stayed}
    assert reasons["NonMaxSuppression"] == "the extents of its result depend on data"
    assert reasons["Squeeze"] == "it comes behind extents that depend on data"
    session = triune.Session(tmp_path / "net.onnx")
    names = [info.name for info in session.outputs]
    counts = set()
    for seed in range(3):
        x = np.random.default_rng(seed).normal(0, 1, (1, 3, 8, 8)).astype(np.float32) * (1 + seed)
        expected = session.run({"x": x})
        counts.add(len(expected[1]))
        np.savez(tmp_path / "in.npz", x=x)
        folder, result = str(tmp_path / "out"), str(tmp_path / "out.npz")
        assert main(["run", folder, "--input", str(tmp_path / "in.npz"), "--output", result]) == 0
        found = np.load(result)
        load = Load(tmp_path / "out")
        results = dict(zip(load_names(tmp_path / "out"), load(x), strict=True))
        load.release()
        for name, values in zip(names, expected, strict=True):
            np.testing.assert_array_equal(found[name], values, err_msg=name)
            np.testing.assert_array_equal(results[name], values, err_msg=name)
    assert min(counts) > 3


def load_names(folder: Path) -> list[str]:
    """Return what the host's last part gives, in its order."""
    return [info.name for info in triune.Session(folder / "postprocess_graph.onnx").outputs]


def test_nothing_before_it_is_refused_as_before(tmp_path: Path) -> None:
    from onnx import TensorProto, helper

    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("NonZero", ["x"], ["y"], "nonzero")],
        "net",
        [info("x", TensorProto.FLOAT, [2, 3])],
        [info("y", TensorProto.INT64, None)],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), tmp_path / "net.onnx"
    )
    with pytest.raises(triune.errors.ArgumentError, match="depend on data"):
        triune.compile(tmp_path / "net.onnx", output=tmp_path / "out")
