"""Products whose weights have a zero point that is the middle of no type, as asymmetric quantizers give them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from beside import load

import triune

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
helper = onnx.helper

Array = np.ndarray[Any, Any]
deployed = load(__file__, "test_deployable_networks")
SHAPES: dict[str, tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "convolution": ("Conv", (1, 5, 7, 9), (6, 5, 3, 3), {"pads": [1, 1, 1, 1]}),
    "picture": ("Conv", (1, 3, 8, 8), (8, 3, 3, 3), {"strides": [2, 2], "pads": [0, 0, 1, 1]}),
    "points": ("Conv", (1, 16, 4, 4), (32, 16, 1, 1), {}),
    "single channels": ("Conv", (1, 8, 7, 6), (8, 1, 3, 3), {"group": 8, "pads": [1, 1, 1, 1]}),
    "single channels by steps": (
        "Conv",
        (1, 4, 9, 11),
        (4, 1, 5, 3),
        {"group": 4, "pads": [2, 1, 0, 2], "strides": [1, 2], "dilations": [1, 2]},
    ),
    "groups": ("Conv", (1, 12, 5, 5), (6, 4, 3, 2), {"group": 3, "strides": [2, 1]}),
    "matrix": ("MatMul", (1, 6, 33), (33, 10), {}),
    "layer": ("Gemm", (1, 40), (40, 7), {}),
    "turned layer": ("Gemm", (1, 40), (7, 40), {"transB": 1}),
}


def network(
    name: str, weights: Array, zero_points: Array, axis: int | None, biased: bool = True
) -> tuple[bytes, dict[str, Array]]:
    """Return a product between quantizers, of reals, and what it is fed."""
    op, shape, taps, attributes = SHAPES[name]
    rng = np.random.default_rng(7)
    axis_of_results = 1 if op == "MatMul" or (op == "Gemm" and "transB" not in attributes) else 0
    results = taps[axis_of_results]
    scales = rng.uniform(0.01, 0.03, zero_points.shape).astype(np.float32)
    summed = weights.size // results
    constants = {
        "scale": np.float32(0.04),
        "zero": np.uint8(121),
        "w": weights,
        "w_scale": scales,
        "w_zero": zero_points,
        "y_scale": np.float32(0.04 * 0.02 * 60 * summed**0.5),
        "y_zero": np.uint8(117),
    }
    along = {} if axis is None else {"axis": axis}
    operands = ["x_real", "w_real"]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["x_bytes"]),
        helper.make_node("DequantizeLinear", ["x_bytes", "scale", "zero"], ["x_real"]),
        helper.make_node("DequantizeLinear", ["w", "w_scale", "w_zero"], ["w_real"], **along),
    ]
    if biased and op != "MatMul":
        constants |= {"b": rng.integers(-500, 500, results).astype(np.int32), "b_scale": np.float32(0.04) * scales}
        constants["b_zero"] = np.zeros(scales.shape, np.int32)
        nodes.append(helper.make_node("DequantizeLinear", ["b", "b_scale", "b_zero"], ["b_real"], axis=0))
        operands.append("b_real")
    nodes += [
        helper.make_node(op, operands, ["y_real"], name="product", **attributes),
        helper.make_node("QuantizeLinear", ["y_real", "y_scale", "y_zero"], ["y_bytes"]),
        helper.make_node("DequantizeLinear", ["y_bytes", "y_scale", "y_zero"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "product",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [onnx.ValueInfoProto(name="y")],
        [onnx.numpy_helper.from_array(np.asarray(array), key) for key, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=10)
    model = onnx.shape_inference.infer_shapes(model)
    return model.SerializeToString(), {"x": rng.uniform(-5, 5, shape).astype(np.float32)}


def bytes_of(dtype: Any, shape: tuple[int, ...], share: float = 1) -> Array:
    """Return numbers over that share of a type's range."""
    info = np.iinfo(dtype)
    rng = np.random.default_rng(3)
    middle, reach = (int(info.min) + int(info.max)) / 2, (int(info.max) - int(info.min)) / 2 * share
    return rng.integers(round(middle - reach), round(middle + reach), shape, endpoint=True).astype(dtype)


def check(model: bytes, feeds: dict[str, Array], folder: Path) -> None:
    """All of it is integers, with ONNX Runtime's bits, on the CPU and on each device."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    (theirs,) = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, feeds)
    file = folder / "net.onnx"
    file.write_bytes(model)
    (mine,) = triune.Session(file).run(feeds)
    assert np.array_equal(mine, theirs)
    package = triune.compile(file, target="metis", output=folder / "metis")
    assert package.report.host.operators == 0
    assert all(np.array_equal(a, b) for a, b in zip(deployed.card(file, feeds, ["y"]), [mine], strict=True))
    assert deployed.differences(model, feeds, folder, ("zg330", "buyi")) == []


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("share", [1, 0.4], ids=["nine bits", "eight bits"])
@pytest.mark.parametrize("name", SHAPES)
def test_they_are_integers(name: str, share: float, dtype: Any, tmp_path: Path) -> None:
    zero = np.asarray(np.iinfo(dtype).min + 97, dtype)
    check(*network(name, bytes_of(dtype, SHAPES[name][2], share), zero, None), tmp_path)


@pytest.mark.parametrize("name", ["convolution", "single channels", "turned layer"])
def test_each_channel_may_have_its_own(name: str, tmp_path: Path) -> None:
    taps = SHAPES[name][2]
    zeros = np.random.default_rng(5).integers(60, 200, taps[0]).astype(np.uint8)
    check(*network(name, bytes_of(np.uint8, taps), zeros, 0), tmp_path)


def test_what_reaches_further_than_two_bytes_stays_real() -> None:
    # 255 above the zero point is more than 127 + 127.
    weights = bytes_of(np.uint8, (6, 5, 3, 3))
    weights[0, 0] = 255
    model, feeds = network("convolution", weights, np.asarray(0, np.uint8), None)
    (theirs,) = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, feeds)
    (mine,) = triune.Session(model).run(feeds)
    step = float(0.04 * 0.02 * 60 * 45**0.5)
    assert float(np.abs(mine - theirs).max()) <= 1.01 * step


def test_groups_that_reach_further_stay_on_the_host_and_say_why(tmp_path: Path) -> None:
    weights = bytes_of(np.uint8, (8, 1, 3, 3))
    weights[0, 0] = 255
    model, _ = network("single channels", weights, np.asarray(0, np.uint8), None)
    file = tmp_path / "net.onnx"
    file.write_bytes(model)
    with pytest.raises(triune.errors.UnsupportedError, match=r"zero point.*symmetric"):
        triune.compile(file, target="metis", output=tmp_path / "metis")


def test_a_normalization_whose_addend_was_taken_for_a_bias_is_a_table(tmp_path: Path) -> None:
    rng = np.random.default_rng(11)
    constants: dict[str, Any] = {
        "scale": np.float32(0.05),
        "zero": np.uint8(120),
        "factor": rng.integers(0, 255, 6).astype(np.uint8),
        "factor_scale": np.float32(0.003),
        "factor_zero": np.uint8(0),
        "addend": rng.integers(-2000, 2000, 6).astype(np.int32),
        "addend_scale": np.float32(0.0003),
        "addend_zero": np.int32(0),
        "mean": rng.normal(size=6).astype(np.float32),
        "variance": rng.uniform(0.5, 2, 6).astype(np.float32),
        "y_scale": np.float32(0.07),
        "y_zero": np.uint8(117),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["x_bytes"]),
        helper.make_node("DequantizeLinear", ["x_bytes", "scale", "zero"], ["x_real"]),
        helper.make_node("DequantizeLinear", ["factor", "factor_scale", "factor_zero"], ["factors"]),
        helper.make_node("DequantizeLinear", ["addend", "addend_scale", "addend_zero"], ["addends"]),
        helper.make_node("BatchNormalization", ["x_real", "factors", "addends", "mean", "variance"], ["y_real"]),
        helper.make_node("QuantizeLinear", ["y_real", "y_scale", "y_zero"], ["y_bytes"]),
        helper.make_node("DequantizeLinear", ["y_bytes", "y_scale", "y_zero"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "normalization",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 6, 5, 5])],
        [onnx.ValueInfoProto(name="y")],
        [onnx.numpy_helper.from_array(np.asarray(array), key) for key, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=10)
    model = onnx.shape_inference.infer_shapes(model)
    check(model.SerializeToString(), {"x": rng.uniform(-6, 6, (1, 6, 5, 5)).astype(np.float32)}, tmp_path)
