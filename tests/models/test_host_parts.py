"""What the host computes beside a card: the bits of a session, every input of the model, and a reason that people can read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import triune
from triune import _native
from triune.axelera.runtime.op import Load
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


def save(
    path: Path, nodes: list[Any], inputs: dict[str, list[int]], outputs: dict[str, list[int]], known: dict[str, Any]
) -> Path:
    """Write a model as it is."""
    from onnx import TensorProto, helper, numpy_helper

    ends = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in values.items()]
        for values in (inputs, outputs)
    ]
    constants = [numpy_helper.from_array(np.asarray(array), name) for name, array in known.items()]
    graph = helper.make_graph(nodes, "net", *ends, constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9), path)
    return path


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
    assert rows["u"].reason.startswith(
        "it computes on float32, as what it makes is not quantized for all who read it: "
    )


def test_reasons_say_which_side_is_not_quantized(tmp_path: Path) -> None:
    """Each of four products of reals has another cause, and another cure."""
    nodes = [
        node("Conv", ["x", "w"], "a", pads=[1] * 4),
        node("Relu", ["a"], "b"),
        node("QuantizeLinear", ["b", "s", "z"], "bq"),
        node("DequantizeLinear", ["bq", "s", "z"], "bd"),
        node("Conv", ["bd", "w2"], "c", pads=[1] * 4),
        node("Conv", ["c", "w3"], "d", pads=[1] * 4),
        node("Conv", ["d", "w3"], "e", pads=[1] * 4),
        node("QuantizeLinear", ["e", "s", "z"], "eq"),
        node("DequantizeLinear", ["eq", "s", "z"], "ed"),
        node("DequantizeLinear", ["wq", "s", "z"], "wd"),
        node("Conv", ["ed", "wd"], "f", pads=[1] * 4),
        node("QuantizeLinear", ["f", "s", "z"], "fq"),
        node("DequantizeLinear", ["fq", "s", "z"], "fd"),
        node("Conv", ["fd", "w3"], "g", pads=[1] * 4),
        node("QuantizeLinear", ["g", "s", "z"], "gq"),
        node("DequantizeLinear", ["gq", "s", "z"], "y"),
    ]
    known = {name: reals(4, 4, 3, 3) / 9 for name in ("w", "w2", "w3")}
    known |= {"s": np.float32(0.05), "z": np.int8(0), "wq": np.ones((4, 4, 3, 3), np.int8)}
    model = save(tmp_path / "mixed.onnx", nodes, {"x": [1, 4, 8, 8]}, {"y": [1, 4, 8, 8]}, known)
    report = triune.compile(model, output=tmp_path / "package").report
    reasons = {each.node: each.reason for each in report.stayed}
    assert "what it makes is not quantized" in reasons["c"]
    assert "not all that it reads is quantized" in reasons["e"]
    assert "neither what it reads nor what it makes is quantized" in reasons["d"]
    assert "between quantizers" in reasons["g"]
    assert "f" not in reasons


def test_what_the_host_computes_has_the_devices_factors(tmp_path: Path) -> None:
    """An integer operator behind one that stays on the host gives what it would on a device whose factors are m·2⁻ⁿ."""
    nodes = [
        node("Conv", ["x", "w"], "c", pads=[1] * 4),
        node("Conv", ["x", "v"], "e", pads=[1] * 4),
        node("Exp", ["e"], "p"),
        node("Div", ["c", "p"], "d"),
        node("Mul", ["d", "c"], "m"),
        node("Conv", ["m", "u"], "y"),
    ]
    known = {"w": reals(8, 4, 3, 3) / 9, "v": reals(8, 4, 3, 3, seed=1) / 20, "u": reals(3, 8, 1, 1, seed=2)}
    model, feeds = quantized(tmp_path, nodes, {"x": [1, 4, 8, 8]}, ["y"], known)
    package = triune.compile(model, target="buyi", output=tmp_path / "package")
    assert {"m", "y"} <= {each.node for each in package.report.stayed}, str(package.report)
    (found,) = run(tmp_path / "package", feeds, tmp_path).values()
    triune.compile(model, target="buyi", format="icraft", output=tmp_path / "icraft")
    (document,) = (tmp_path / "icraft").glob("*_quantized.json")
    network = triune.Session(document)
    (image,) = feeds.values()
    (expected,) = network.run({network.inputs[0].name: np.ascontiguousarray(image.transpose(0, 2, 3, 1))})
    np.testing.assert_array_equal(found.transpose(0, 2, 3, 1), expected)
    other = triune.Session(model).run(feeds)[0]
    assert (found != other).any(), "factors that are m·2⁻ⁿ already tell nothing"


@pytest.mark.parametrize("target", ["metis", "zg330", "buyi"])
@pytest.mark.parametrize("spared", [["a0", "a1"], ["a1", "a2"], ["a0", "a1", "a2"]])
def test_a_stream_in_reals_leaves_the_rest_to_the_card(spared: list[str], target: str, tmp_path: Path) -> None:
    """Sums of residuals in reals that reach past a segment: the host keeps them, and the card computes all products."""
    nodes, known, stream = [], {}, "x"
    for block in range(4):
        known |= {f"u{block}": reals(24, 96, seed=block) / 5, f"d{block}": reals(96, 24, seed=9 + block) / 10}
        nodes += [
            node("MatMul", [stream, f"u{block}"], f"m{block}"),
            node("Relu", [f"m{block}"], f"r{block}"),
            node("MatMul", [f"r{block}", f"d{block}"], f"p{block}"),
            node("Add", [stream, f"p{block}"], f"a{block}"),
        ]
        stream = f"a{block}"
    nodes.append(node("MatMul", [stream, "h"], "y"))
    path = save(tmp_path / "float.onnx", nodes, {"x": [1, 64, 24]}, {"y": [1, 64, 8]}, known | {"h": reals(24, 8) / 5})
    samples = [{"x": reals(1, 64, 24, seed=seed)} for seed in range(4)]
    triune.quantize(path, calibration=samples, output=tmp_path / "int8.onnx", keep_float=spared)
    package = triune.compile(tmp_path / "int8.onnx", target=target, output=tmp_path / "package")
    assert (package.report.share, package.report.segments) == (1.0, 1 + len(spared)), str(package.report)
    assert {each.node for each in package.report.stayed} == set(spared)
    # What waits on the host does not cross; a sum of the card's that it begins with does, once.
    given = {"a1": 1}.get(spared[0], 0)
    assert len(package.report.crossings) == 2 + 2 * len(spared) + given
    session = _native.Session(tmp_path / "int8.onnx", device=target)
    feeds = {"x": reals(1, 64, 24, seed=77)}
    wanted = session.run(feeds)[0]
    np.testing.assert_array_equal(run(tmp_path / "package", feeds, tmp_path)["y"], wanted)
    if target != "metis":
        # The cards that are there by default are of that one; networks of Icraft's say the same in steps.
        report = triune.compile(
            tmp_path / "int8.onnx", target=target, format="icraft", output=tmp_path / "icraft"
        ).report
        assert (report.share, report.segments) == (1.0, 1 + len(spared)), str(report)
        (document,) = (tmp_path / "icraft").glob("*_quantized.json")
        network = triune.Session(document)
        (found,) = network.run({network.inputs[0].name: feeds["x"].reshape(network.inputs[0].shape)})
        np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)
        return
    load = Load(tmp_path / "package")
    np.testing.assert_array_equal(load(feeds["x"]), wanted)
    load.release()
