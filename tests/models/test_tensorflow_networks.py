"""Networks as tf2onnx writes them: whole on every device, whichever side of a transposition a mean is on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from beside import load

import triune

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from triune.quantization._layout import join_orders  # noqa: E402

networks = load(__file__, "tensorflow_networks")
deployed = load(__file__, "test_deployable_networks")

BORDER = {"Softmax", "Sub", "Mul"}
"""What makes the answer stays in float; a picture is scaled before it is quantized."""


@pytest.mark.parametrize("name", networks.NETWORKS)
def test_every_target_computes_all_of_it(name: str, tmp_path: Path) -> None:
    model = networks.NETWORKS[name]()
    onnx.save(model, tmp_path / "float.onnx")
    file = tmp_path / "int8.onnx"
    result = triune.quantize(tmp_path / "float.onnx", calibration=networks.samples(model, 4), output=file)
    assert all(check.sqnr > 20 for check in result.checks)
    for target in ("metis", "metis-m2", "zg330", "buyi"):
        report = triune.compile(file, target=target, output=tmp_path / target).report
        assert (report.share, report.segments) == (1.0, 1), (target, str(report))
        assert {each.op for each in report.stayed} <= BORDER, (target, str(report))
    for target in deployed.BOARDS:
        report = triune.compile(file, target=target, output=tmp_path / f"{target}_icraft", format="icraft").report
        assert report.share == 1.0, (target, str(report))


@pytest.mark.parametrize("name", ["ConvNeXt, moments in front", "ViT, by the mean square"])
def test_devices_have_the_bits_of_the_host(name: str, tmp_path: Path) -> None:
    model = networks.NETWORKS[name]()
    onnx.save(model, tmp_path / "float.onnx")
    file = tmp_path / "int8.onnx"
    triune.quantize(tmp_path / "float.onnx", calibration=networks.samples(model, 4), output=file)
    (feeds,) = networks.samples(model, 1)
    session = triune.Session(file)
    expected, names = session.run(feeds), [name for name, *_ in session.outputs]
    for got, wanted in zip(deployed.card(file, feeds, names), expected, strict=True):
        np.testing.assert_array_equal(got, wanted)
    # They have a model's own input, if that has its channels last.
    moved = {name: x.transpose(0, 3, 1, 2) for name, x in feeds.items()}
    for target in deployed.BOARDS:
        boards, hosts = deployed.boards(file, target, moved, [each.ndim for each in expected])
        for board, host, wanted in zip(boards, hosts, expected, strict=True):
            np.testing.assert_array_equal(board, host)
            # BUYI's factors are m·2⁻ⁿ.
            np.testing.assert_allclose(board, wanted, atol=0.0 if target == "zg330" else 0.1)


def evaluated(model: Any, feeds: dict[str, Any]) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)[0]


ORDERS = ["ConvNeXt", "ConvNeXt, moments last", "ConvNeXt, moments in front", "EfficientNet, functions last"]


@pytest.mark.parametrize("name", ORDERS)
def test_orders_that_are_joined_mean_the_same(name: str) -> None:
    model = networks.NETWORKS[name]()
    (feeds,) = networks.samples(model, 1)
    wanted = evaluated(model, feeds)
    before = sum(node.op_type == "Transpose" for node in model.graph.node)
    join_orders(model)
    onnx.checker.check_model(onnx.shape_inference.infer_shapes(model, strict_mode=True))
    after = sum(node.op_type == "Transpose" for node in model.graph.node)
    assert after < before if "moments" in name else after <= before
    np.testing.assert_allclose(evaluated(model, feeds), wanted, rtol=1e-4, atol=1e-5)


def test_what_somebody_else_reads_stays() -> None:
    """A mean that is an output too, and one that is read in its own order."""
    for kind in ("output", "reader", "output behind"):
        net = networks.Net(1, 4, 4, 3)
        x = net.conv(net.front("x"), 8)
        last = net.last(x)
        mean = net.mean(x, 1)
        moved = net.last(mean)
        y = net.op("Mul", last, moved)
        if kind == "reader":
            y = net.op("Add", y, net.reshape(net.op("Mul", mean, net.number(2)), 1, 4, 4, 1))
        model = net.classes(net.mean(y, 1, 2, keep=False))
        for name in {"output": [mean], "output behind": [moved], "reader": []}[kind]:
            model.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
        (feeds,) = networks.samples(model, 1)
        wanted = evaluated(model, feeds)
        count = sum(node.op_type == "Transpose" for node in model.graph.node)
        join_orders(model)
        assert sum(node.op_type == "Transpose" for node in model.graph.node) == count, kind
        np.testing.assert_allclose(evaluated(model, feeds), wanted, rtol=1e-5, atol=1e-6)
