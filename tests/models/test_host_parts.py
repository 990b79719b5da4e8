"""What the host computes beside a card: the bits of a session, every input of the model, and a reason that people can read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import triune
from triune.cli import main

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


def reals(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def quantized(
    folder: Path, nodes: list[Any], inputs: dict[str, list[int]], outputs: list[str], known: dict[str, Any]
) -> tuple[Path, dict[str, Any]]:
    """Return a quantized model, and inputs of it."""
    from onnx import TensorProto, helper, numpy_helper

    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in known.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    onnx.save(model, folder / "float.onnx")
    feeds = {name: reals(*shape, seed=7) for name, shape in inputs.items()}
    triune.quantize(folder / "float.onnx", calibration=[feeds], output=folder / "int8.onnx")
    return folder / "int8.onnx", feeds


def run(path: Path, feeds: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return what ``triune run`` writes."""
    np.savez(folder / "in.npz", **feeds)
    assert main(["run", str(path), "--input", str(folder / "in.npz"), "--output", str(folder / "out.npz")]) == 0
    with np.load(folder / "out.npz") as found:
        return dict(found)


def node(kind: str, inputs: list[str], output: str, **attributes: Any) -> Any:
    return onnx.helper.make_node(kind, inputs, [output], output, **attributes)


RESIZES = [
    ("cubic", "half_pixel", (2, 2), "x", 48),
    ("cubic", "half_pixel", (2, 2), "c", 48),
    ("linear", "half_pixel_symmetric", (2, 2), "c", 16),
    ("linear", "align_corners", (1.7, 1.3), "c", 16),
]


@pytest.mark.parametrize(("mode", "coordinates", "scales", "source", "size"), RESIZES)
def test_float_resizes_have_the_bits_of_a_session(
    mode: str, coordinates: str, scales: tuple[float, float], source: str, size: int, tmp_path: Path
) -> None:
    resize = {"mode": mode, "coordinate_transformation_mode": coordinates}
    nodes = [node("Conv", ["x", "w"], "c", pads=[1] * 4), node("Resize", [source, "", "s"], "u", **resize)]
    known = {"w": reals(3, 3, 3, 3), "s": np.array([1, 1, *scales], np.float32)}
    model, feeds = quantized(tmp_path, nodes, {"x": [1, 3, size, size]}, ["c", "u"], known)
    triune.compile(model, output=tmp_path / "package")
    found = run(tmp_path / "package", feeds, tmp_path)
    wanted = triune.Session(model).run(["c", "u"], feeds)
    for name, array in zip(["c", "u"], wanted, strict=True):
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize("ends", ["card", "host", "both"])
def test_an_input_that_nothing_reads_is_one_of_the_package(ends: str, tmp_path: Path) -> None:
    nodes = [] if ends != "both" else [node("Exp", ["x"], "e")]
    nodes.append(node("Conv", ["e" if ends == "both" else "x", "w"], "c", pads=[1] * 4))
    nodes += [] if ends == "card" else [node("Exp", ["c"], "y")]
    inputs = {"x": [1, 4, 9, 9], "idle": [1, 4]}
    output = "c" if ends == "card" else "y"
    model, feeds = quantized(tmp_path, nodes, inputs, [output], {"w": reals(4, 4, 3, 3) / 9})
    triune.compile(model, output=tmp_path / "package")
    found = run(tmp_path / "package", feeds, tmp_path)
    np.testing.assert_array_equal(found[output], triune.Session(model).run(feeds)[0])


def test_reasons_speak_of_the_models_nodes(tmp_path: Path) -> None:
    nodes = [
        node("Conv", ["x", "w"], "c", pads=[1] * 4),
        node("Resize", ["c", "", "s"], "u", mode="cubic"),
        node("Reshape", ["u", "rows"], "r"),
        node("LSTM", ["r", "lw", "lr"], "l", hidden_size=8),
        node("Mul", ["l", "l"], "m"),
    ]
    known = {
        "w": reals(8, 4, 3, 3) / 9,
        "s": np.array([1, 1, 2, 2], np.float32),
        "rows": np.array([32, -1, 8]),
        "lw": reals(1, 32, 8) / 9,
        "lr": reals(1, 32, 8) / 9,
    }
    model, _ = quantized(tmp_path, nodes, {"x": [1, 4, 8, 8]}, ["m"], known)
    report = triune.compile(model, output=tmp_path / "package").report
    rows = {each.node: each for each in report.stayed}
    assert len(rows) == len(report.stayed) == report.host.operators, str(report)
    assert (rows["l"].op, rows["l"].reason) == ("LSTM", "the device has no LSTM, and it computes on float32")
    assert rows["l"].macs > 0
    assert (rows["u"].op, rows["u"].macs) == ("Resize", 0)
    others = "it computes on float32: no quantizer on both sides, or no form over integers"
    assert {each.reason for each in report.stayed if each.op != "LSTM"} == {others}, str(report)
