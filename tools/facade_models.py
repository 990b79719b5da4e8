"""Writes the models of the crate's examples, some hundred bytes each: ``python tools/facade_models.py``.

They lie inside the crate, so that its documentation runs from its package, too.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

FOLDER = Path(__file__).parents[1] / "crates" / "triune" / "models"


def save(
    name: str,
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    constants: dict[str, NDArray[np.generic]],
) -> None:
    graph = helper.make_graph(
        nodes, name, inputs, outputs, [numpy_helper.from_array(array, key) for key, array in constants.items()]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    model.producer_name = "triune"
    onnx.checker.check_model(model, full_check=True)
    (FOLDER / f"{name}.onnx").write_bytes(model.SerializeToString(deterministic=True))


def sums() -> None:
    """Write (N, 4) floats into (N, 2): the sum of the first two and of the last two, none below 0."""
    weights = np.array([[1, 0], [1, 0], [0, 1], [0, 1]], np.float32)
    save(
        "sums",
        [helper.make_node("MatMul", ["x", "weights"], ["all"]), helper.make_node("Relu", ["all"], ["sums"])],
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])],
        [helper.make_tensor_value_info("sums", TensorProto.FLOAT, ["N", 2])],
        {"weights": weights},
    )


def edges() -> None:
    """Write a quantized convolution: (1, 1, 8, 8) floats into (1, 4, 8, 8)."""
    kernel = np.array([[1, 0, -1], [2, 0, -2], [1, 0, -1]], np.int8)
    kernels = np.stack([kernel, -kernel, kernel.T, -kernel.T])[:, None]
    save(
        "edges",
        [
            helper.make_node("QuantizeLinear", ["image", "fine", "zero"], ["image_q"]),
            helper.make_node("DequantizeLinear", ["image_q", "fine", "zero"], ["image_dq"]),
            helper.make_node("DequantizeLinear", ["kernels", "one", "zero"], ["kernels_dq"]),
            helper.make_node("Conv", ["image_dq", "kernels_dq"], ["conv"], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["conv"], ["relu"]),
            helper.make_node("QuantizeLinear", ["relu", "coarse", "zero"], ["relu_q"]),
            helper.make_node("DequantizeLinear", ["relu_q", "coarse", "zero"], ["edges"]),
        ],
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 8, 8])],
        [helper.make_tensor_value_info("edges", TensorProto.FLOAT, [1, 4, 8, 8])],
        {
            "kernels": kernels,
            "fine": np.array(1 / 64, np.float32),
            "coarse": np.array(1 / 16, np.float32),
            "one": np.array(1, np.float32),
            "zero": np.array(0, np.int8),
        },
    )


def greeting() -> None:
    """Write strings into longer ones."""
    save(
        "greeting",
        [helper.make_node("StringConcat", ["hello", "name"], ["greeting"])],
        [helper.make_tensor_value_info("name", TensorProto.STRING, ["N"])],
        [helper.make_tensor_value_info("greeting", TensorProto.STRING, ["N"])],
        {"hello": np.array(["hello, "], object)},
    )


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    sums()
    edges()
    greeting()
