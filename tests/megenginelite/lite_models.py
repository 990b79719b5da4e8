"""Small ONNX models, made where they are needed; and what the vendor's examples call their context."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(20160701)
TYPES = {
    "float32": TensorProto.FLOAT,
    "int64": TensorProto.INT64,
    "int32": TensorProto.INT32,
    "bool": TensorProto.BOOL,
    "float64": TensorProto.DOUBLE,
    "int8": TensorProto.INT8,
}

Value = tuple[str, str, list[int | str | None]]


def write(path: Path, nodes: list[Any], inputs: list[Value], outputs: list[Value], weights: Any = ()) -> Path:
    """Write a model: nodes as (operator, inputs, outputs, attributes)."""
    made = [helper.make_node(kind, ins, outs, **attributes) for kind, ins, outs, attributes in nodes]
    graph = helper.make_graph(
        made,
        "small",
        [helper.make_tensor_value_info(name, TYPES[dtype], shape) for name, dtype, shape in inputs],
        [helper.make_tensor_value_info(name, TYPES[dtype], shape) for name, dtype, shape in outputs],
        [numpy_helper.from_array(array, name) for name, array in weights],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString())
    return path


def add(path: Path, shape: list[int | str | None], count: int = 1) -> Path:
    """Write c = a + b, and for a larger count the sum with b so many times."""
    names = ["a", *(f"s{i}" for i in range(count - 1)), "c"]
    nodes = [("Add", [names[i], "b"], [names[i + 1]], {}) for i in range(count)]
    return write(path, nodes, [("a", "float32", shape), ("b", "float32", shape)], [("c", "float32", shape)])


def classifier(path: Path, batch: int | str = 1, size: int | str = 16, width: int = 8) -> Path:
    """Write a small image classifier: ``data`` (N, 3, H, W) to ``prob`` (N, 10)."""
    rng = np.random.default_rng(7)
    weights = [
        ("w1", rng.standard_normal((width, 3, 3, 3)).astype("float32") / 5),
        ("b1", rng.standard_normal(width).astype("float32")),
        ("w2", rng.standard_normal((width, 10)).astype("float32")),
    ]
    nodes = [
        ("Conv", ["data", "w1", "b1"], ["conv"], {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
        ("Relu", ["conv"], ["relu"], {}),
        ("GlobalAveragePool", ["relu"], ["pool"], {}),
        ("Flatten", ["pool"], ["flat"], {}),
        ("MatMul", ["flat", "w2"], ["logits"], {}),
        ("Softmax", ["logits"], ["prob"], {"axis": 1}),
    ]
    inputs: list[Value] = [("data", "float32", [batch, 3, size, size])]
    return write(path, nodes, inputs, [("prob", "float32", [batch, 10])], weights)


def expected(path: Path, **feeds: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
    """Return what the core's session says of an ONNX model."""
    import triune

    return triune.Session(path).run(feeds)


def image(batch: int = 1, size: int = 16) -> npt.NDArray[np.float32]:
    """Return random images."""
    return RNG.random((batch, 3, size, size), np.float32)
