"""Real networks on the host and through `axelera.runtime`, against ONNX Runtime: equal bits for quantized ones."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import triune
from triune.axelera import runtime as axr

pytest.importorskip("onnxruntime")


def _reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("onnxruntime_reference", Path(__file__).with_name("reference.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


reference = _reference()

# ONNX Runtime leaves these pieces in float: file → largest difference and share of elements that differ.
FLOAT_PIECES = {
    # The last sigmoids have no QuantizeLinear behind them.
    "yolox_nano_u8s8_qdq.onnx": (1e-6, 1.0),
}


def cases(networks: list) -> list:
    return [pytest.param(net, batch, id=f"{net.file}-{batch}") for net in networks for batch in net.batches]


def assert_equal_bits(file: str, got: list, expected: list) -> None:
    """Compare outputs; where ONNX Runtime computes a piece in float, by the bound stated for it."""
    assert len(got) == len(expected)
    for index, (mine, theirs) in enumerate(zip(got, expected, strict=True)):
        assert mine.dtype == theirs.dtype
        assert mine.shape == theirs.shape
        largest, share = FLOAT_PIECES.get(file, (0.0, 0.0))
        difference = np.abs(mine - theirs)
        assert difference.max() <= largest, f"output {index}"
        assert (difference > 0).mean() <= share, f"output {index}"


@pytest.mark.parametrize(("network", "batch"), cases(reference.INTEGER))
def test_quantized_on_the_host(network, batch, test_data):
    path = test_data / "models" / "onnx" / network.file
    inputs = network.batch(test_data / "models" / "images", batch)
    session = triune.Session(path)
    got = session.run({session.inputs[0][0]: inputs})
    assert_equal_bits(network.file, got, reference.run_reference(reference.reference_model(path), inputs))
    threaded = triune.Session(path, threads=2).run({session.inputs[0][0]: inputs})
    for one, two in zip(got, threaded, strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(("network", "batch"), cases(reference.FLOAT))
def test_float_on_the_host(network, batch, test_data):
    path = test_data / "models" / "onnx" / network.file
    inputs = network.batch(test_data / "models" / "images", batch)
    session = triune.Session(path)
    got = session.run({session.inputs[0][0]: inputs})
    for mine, theirs in zip(got, reference.run_reference(path.read_bytes(), inputs), strict=True):
        assert mine.shape == theirs.shape
        difference = np.abs(mine - theirs)
        # Near zero, sums of many large products cancel, and no order of adding is right to the last digits: against
        # float64, ONNX Runtime itself misses the first bound at 2 elements in 301,665 of yolox_nano.
        assert (difference > 1e-5 + 1e-4 * np.abs(theirs)).mean() <= 5e-5
        assert difference.max() <= 2e-5 * max(1.0, np.abs(theirs).max())


def run_on_card(package: Path, inputs: np.ndarray) -> list[np.ndarray]:
    """Run one image as a client does: host graph, quantize and pad, card, depad and dequantize, host graph."""
    manifest = json.loads((package / "manifest.json").read_text())

    def host(graph: str | None, tensors: list[np.ndarray]) -> list[np.ndarray]:
        if graph is None:
            return tensors
        session = triune.Session(package / graph)
        return session.run({info[0]: tensor for info, tensor in zip(session.inputs, tensors, strict=True)})

    with axr.Context() as context:
        model = context.load_model(package / "model.json")
        connection = context.device_connect(None, 1)
        instance = connection.load_model_instance(model)
        sources = []
        for info, real in zip(model.inputs(), host(manifest["preprocess_graph"], [inputs]), strict=True):
            source = real.transpose(0, 2, 3, 1)
            # QuantizeLinear's order: the zero point is added after rounding.
            quantized = (np.round(source / np.float32(info.scale)) + info.zero_point).clip(-128, 127).astype(np.int8)
            sources.append(np.pad(quantized, info.padding, constant_values=info.zero_point))
        results = [np.zeros(info.shape, info.dtype) for info in model.outputs()]
        instance.run(sources, results)
        reals = []
        for info, result, shape in zip(model.outputs(), results, manifest["output_shapes_original"], strict=True):
            depadded = result[tuple(slice(b, -e if e else None) for b, e in info.padding)]
            real = (depadded.astype(np.float32) - info.zero_point) * np.float32(info.scale)
            reals.append(np.ascontiguousarray(real.transpose(0, 3, 1, 2) if len(shape) == 4 else real.reshape(shape)))
    return host(manifest["postprocess_graph"], reals)


@pytest.mark.parametrize("network", [pytest.param(net, id=net.file) for net in reference.INTEGER])
def test_quantized_on_the_card(network, test_data, tmp_path):
    path = test_data / "models" / "onnx" / network.file
    inputs = network.batch(test_data / "models" / "images", 1)
    package = triune.compile(path, target="metis", output=tmp_path / "package")
    on_card = run_on_card(Path(package), inputs)
    session = triune.Session(path)
    for mine, host in zip(on_card, session.run({session.inputs[0][0]: inputs}), strict=True):
        np.testing.assert_array_equal(mine, host)
