"""Networks with a PRelu behind each convolution, as face recognition has them: integers throughout, whole on every card."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from beside import load

import triune

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

deployed = load(__file__, "test_deployable_networks")

WIDTH = 40


def network(path: Path) -> None:
    """Write a stem, two residual blocks and a product: each convolution with its own slopes."""
    rng = np.random.default_rng(0)
    nodes, constants = [], []

    def constant(values: object) -> str:
        constants.append(onnx.numpy_helper.from_array(np.asarray(values, np.float32), f"c{len(constants)}"))
        return str(constants[-1].name)

    def node(kind: str, *inputs: str, **attributes: object) -> str:
        result = f"v{len(nodes)}"
        nodes.append(onnx.helper.make_node(kind, list(inputs), [result], f"{kind}_{len(nodes)}", **attributes))
        return result

    def layer(x: str, inputs: int, outputs: int, group: int = 1) -> str:
        weights = rng.normal(0, 1 / np.sqrt(9 * inputs / group), (outputs, inputs // group, 3, 3))
        x = node("Conv", x, constant(weights), pads=[1] * 4, group=group)
        return node("PRelu", x, constant(rng.uniform(0.1, 0.4, (outputs, 1, 1))))

    x = layer("x", 3, WIDTH)
    for _ in range(2):
        x = node("Add", x, layer(layer(x, WIDTH, WIDTH, WIDTH), WIDTH, WIDTH))
    x = node("Flatten", node("GlobalAveragePool", x))
    x = node("Gemm", x, constant(rng.normal(0, 0.2, (WIDTH, WIDTH))))
    x = node("PRelu", x, constant(rng.uniform(0.1, 0.4, WIDTH)))
    y = node("Gemm", x, constant(rng.normal(0, 0.2, (WIDTH, 16))))
    value = onnx.helper.make_tensor_value_info
    inputs, outputs = [value("x", 1, [1, 3, 12, 10])], [value(y, 1, [1, 16])]
    graph = onnx.helper.make_graph(nodes, "faces", inputs, outputs, constants)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)


def test_it_is_whole_on_every_card(tmp_path: Path) -> None:
    network(tmp_path / "faces.onnx")
    rng = np.random.default_rng(1)
    samples = [{"x": rng.normal(0, 1, (1, 3, 12, 10)).astype(np.float32)} for _ in range(16)]
    file = tmp_path / "q.onnx"
    result = triune.quantize(tmp_path / "faces.onnx", calibration=samples, output=file)
    assert not result.kept_float
    assert result.checks[0].sqnr > 25
    (name, *_), *_ = triune.Session(file).outputs
    (expected,) = triune.Session(file).run(samples[0])
    package = triune.compile(file, target="metis", output=tmp_path / "card")
    assert package.report.host.operators == 0
    np.testing.assert_array_equal(deployed.card(file, samples[0], [name])[0], expected)
    for target in ("zg330", "buyi"):
        (found,), (adapted,) = deployed.boards(file, target, samples[0], [2])
        np.testing.assert_array_equal(found, adapted)
        if target == "zg330":
            np.testing.assert_array_equal(found, expected)
