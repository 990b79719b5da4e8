"""The messages that docs/troubleshooting.md explains are those that users meet, and each of its rows is one of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import triune
from triune.axelera.runtime import Context
from triune.models import DIGITS_F32, DIGITS_INT8, digits_held_out

PAGE = Path(__file__).resolve().parents[2] / "docs" / "troubleshooting.md"
SCANS = digits_held_out()[0][:2]
IMAGES = np.ascontiguousarray(SCANS.transpose(0, 3, 1, 2))


def rows() -> list[str]:
    """Return the messages of the page's tables."""
    return re.findall(r"^\| `([^`]+)` \|", PAGE.read_text(), re.MULTILINE)


def matches(row: str, message: str) -> bool:
    """Say whether a message has a row's words, with anything where the row has dots."""
    return re.search(".+".join(map(re.escape, row.removesuffix(" …").split("…"))), message, re.DOTALL) is not None


def open_damaged(folder: Path) -> None:
    path = folder / "half.onnx"
    path.write_bytes(DIGITS_INT8.read_bytes()[:10_000])
    triune.Session(path)


def one_node(folder: Path, operator: str, extents: list[str | int], **more: object) -> Path:
    onnx = pytest.importorskip("onnx")
    helper, path = onnx.helper, folder / "one.onnx"
    domain = str(more.get("domain", ""))
    graph = helper.make_graph(
        [helper.make_node(operator, ["x"], ["y"], **more)],
        "one",
        [helper.make_tensor_value_info("x", 1, extents)],
        [helper.make_tensor_value_info("y", 1, None)],
    )
    opsets = [helper.make_opsetid("", 17), *([helper.make_opsetid(domain, 1)] if domain else [])]
    onnx.save(helper.make_model(graph, opset_imports=opsets), path)
    return path


def closed() -> None:
    session = triune.Session(DIGITS_INT8)
    session.close()
    session.run(None, {"image": IMAGES})


def card(folder: Path, *, directory: bool) -> None:
    package = triune.compile(DIGITS_INT8, target="metis", output=folder / "digits")
    with Context() as context:
        model = context.load_model(package if directory else package / "model.json")
        instance = context.device_connect().load_model_instance(model)
        instance.run([np.zeros((1, 2, 3), np.int8)], [np.zeros(4, np.int8)])


def session_of_a_package(folder: Path) -> None:
    triune.Session(triune.compile(DIGITS_INT8, target="metis", output=folder / "digits"))


def with_result(folder: Path, operator: str) -> Path:
    """Return the digits network with a result more, which an operator makes of its own."""
    onnx = pytest.importorskip("onnx")
    helper, model = onnx.helper, onnx.load(DIGITS_INT8)
    graph = model.graph
    graph.node.append(helper.make_node(operator, [graph.output[0].name], ["more"], "more"))
    graph.output.append(helper.make_tensor_value_info("more", 7, None))
    onnx.save(model, folder / "more.onnx")
    return folder / "more.onnx"


def recurrent(folder: Path) -> Path:
    """Return the digits network with a recurrent layer behind it."""
    onnx = pytest.importorskip("onnx")
    helper, model = onnx.helper, onnx.load(DIGITS_INT8)
    graph, rng = model.graph, np.random.default_rng(0)
    for name, extents in {"w": (1, 12, 10), "r": (1, 12, 4)}.items():
        graph.initializer.append(onnx.numpy_helper.from_array(rng.normal(size=extents).astype(np.float32), name))
    graph.initializer.append(onnx.numpy_helper.from_array(np.array([1, -1, 10]), "steps"))
    graph.node.append(helper.make_node("Reshape", [graph.output[0].name, "steps"], ["rows"], "rows"))
    graph.node.append(helper.make_node("GRU", ["rows", "w", "r"], ["more"], "gru", hidden_size=4))
    graph.output.append(helper.make_tensor_value_info("more", 1, None))
    onnx.save(model, folder / "recurrent.onnx")
    return folder / "recurrent.onnx"


def of_16_bits(folder: Path) -> Path:
    pytest.importorskip("onnxruntime")
    triune.quantize(
        DIGITS_F32, calibration=({"image": each[None]} for each in IMAGES), output=folder / "q.onnx", act="s16"
    )
    return folder / "q.onnx"


def summed(folder: Path) -> Path:
    """Write a quantized model of an operator that no card has."""
    onnx = pytest.importorskip("onnx")
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 19]>
        one (float[1, 4] x) => (float[1, 4] y) <float s = {0.1}, int8 z = {0}, int64 axis = {1}> {
            a = QuantizeLinear(x, s, z)
            b = DequantizeLinear(a, s, z)
            c = CumSum(b, axis)
            d = QuantizeLinear(c, s, z)
            y = DequantizeLinear(d, s, z)
        }""")
    onnx.save(model, folder / "summed.onnx")
    return folder / "summed.onnx"


def another_manifest(folder: Path) -> None:
    package = triune.compile(DIGITS_INT8, target="metis", output=folder / "digits")
    manifest = json.loads((package / "manifest.json").read_text())
    (package / "manifest.json").write_text(json.dumps(manifest | {"quantize_params": [[0.5, 0]]}))
    Context().load_model(package / "model.json")


MISTAKES: list[Callable[[Path], object]] = [
    lambda folder: triune.Session(folder / "nothing.onnx"),
    open_damaged,
    session_of_a_package,
    lambda folder: triune.Session(one_node(folder, "Own", [1], domain="my.operators")),
    lambda folder: triune.Session(one_node(folder, "AveragePool", [1, 1, 4, 4, 2, 2], kernel_shape=[2] * 4)),
    lambda _: triune.Session(DIGITS_INT8).run(None, {"image": IMAGES.astype(np.float64)}),
    lambda _: triune.Session(DIGITS_INT8).run(None, {"image": SCANS}),
    lambda _: triune.Session(DIGITS_INT8).run(None, {"picture": IMAGES}),
    lambda _: closed(),
    lambda folder: card(folder, directory=False),
    lambda folder: triune.compile(DIGITS_F32, target="metis", output=folder / "float"),
    lambda folder: triune.compile(one_node(folder, "Relu", ["N", "C"]), target="metis", output=folder / "open"),
    lambda folder: triune.compile(DIGITS_INT8, target="meits", output=folder / "target"),
    lambda folder: card(folder, directory=True),
    lambda folder: triune.compile(with_result(folder, "NonZero"), target="zg330", output=folder / "r", format="icraft"),
    lambda folder: triune.compile(one_node(folder, "NonZero", [2, 3]), target="metis", output=folder / "host"),
    another_manifest,
    lambda folder: triune.compile(of_16_bits(folder), target="metis", output=folder / "wide"),
    lambda folder: triune.compile(summed(folder), target="metis", output=folder / "summed"),
    lambda folder: triune.compile(recurrent(folder), target="zg330", output=folder / "gru", format="icraft"),
]


def test_every_mistake_is_explained_and_every_row_is_one(tmp_path: Path) -> None:
    explained = set()
    for number, mistake in enumerate(MISTAKES):
        folder = tmp_path / str(number)
        folder.mkdir()
        with pytest.raises(RuntimeError) as caught:
            mistake(folder)
        found = [row for row in rows() if matches(row, str(caught.value))]
        assert found, f"the page does not have: {caught.value}"
        explained.update(found)
    assert set(rows()) - explained == set()
