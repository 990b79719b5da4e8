"""Models that take bytes, or give integers: what every target takes and gives is what a session does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import triune
from triune._picture_input import put_picture_input
from triune.axelera.runtime import InvalidArgument
from triune.axelera.runtime.op import Load
from triune.batch import Preprocess
from triune.cli import main
from triune.icraft.buyibackend import BuyiBackend
from triune.icraft.host_backend import HostBackend
from triune.icraft.xir import Layout, Network
from triune.icraft.xrt import Device, HostDevice, Session, Tensor
from triune.icraft.zg330backend import ZG330Backend

onnx = pytest.importorskip("onnx")

Array = np.ndarray[Any, Any]
SHAPE, RESULT = (1, 3, 7, 6), (1, 5, 7, 6)
TAKEN = ["bytes", "signed", "cast", "cast of images", "reals"]
GIVEN = ["reals", "uint8", "int8"]


def network(taken: str, given: str) -> tuple[Any, Array]:
    """Return a quantized convolution that takes and gives these, and its input."""
    from onnx import TensorProto, helper, numpy_helper

    nodes: list[Any] = []
    constants: list[Any] = []
    rng = np.random.default_rng(1)

    def constant(value: Any) -> str:
        constants.append(numpy_helper.from_array(np.asarray(value), f"c{len(constants)}"))
        return str(constants[-1].name)

    def op(kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"{kind}{len(nodes)}"
        nodes.append(helper.make_node(kind, list(inputs), [f"{name}:0"], name, **attributes))
        return f"{name}:0"

    def quantizer(scale: float, zero: Any) -> list[str]:
        return [constant(np.float32(scale)), constant(zero)]

    dtypes = {"signed": TensorProto.INT8, "reals": TensorProto.FLOAT}
    if taken in ("bytes", "signed"):
        zero = np.uint8(121) if taken == "bytes" else np.int8(-9)
        x = op("DequantizeLinear", "x", *quantizer(0.02, zero))
    else:
        own, x = quantizer(1 / 255 if taken == "cast of images" else 1.0, np.uint8(0)), "x"
        x = op("Cast", "x", to=TensorProto.FLOAT) if taken != "reals" else x
        x = op("Mul", x, constant(np.float32(1 / 255))) if taken == "cast of images" else x
        x = op("DequantizeLinear", op("QuantizeLinear", x, *own), *own)
    weights = constant(rng.integers(-100, 100, (RESULT[1], SHAPE[1], 3, 3)).astype(np.int8))
    weights = op("DequantizeLinear", weights, *quantizer(0.0103, np.int8(0)))
    y = op("Conv", x, weights, pads=[1] * 4)
    own = quantizer(1.7 if taken in ("cast", "reals") else 0.043, np.int8(4) if given == "int8" else np.uint8(125))
    y = op("QuantizeLinear", y, *own)
    y = op("DequantizeLinear", y, *own) if given == "reals" else y
    results = {"reals": TensorProto.FLOAT, "uint8": TensorProto.UINT8, "int8": TensorProto.INT8}
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", dtypes.get(taken, TensorProto.UINT8), SHAPE)],
        [helper.make_tensor_value_info(y, results[given], RESULT)],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    if taken == "reals":
        return model, rng.uniform(0, 255, SHAPE).astype(np.float32)
    low, high = (-128, 128) if taken == "signed" else (0, 256)
    return model, rng.integers(low, high, SHAPE).astype(np.int8 if taken == "signed" else np.uint8)


@pytest.fixture(params=[(taken, given) for taken in TAKEN for given in GIVEN], ids=lambda pair: " to ".join(pair))
def case(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Array, Array]:
    """Return a model's file, its input, and what a session makes of it."""
    model, x = network(*request.param)
    onnx.save(model, tmp_path / "net.onnx")
    (expected,) = triune.Session(tmp_path / "net.onnx").run({"x": x})
    return tmp_path / "net.onnx", x, expected


def test_packages(case: tuple[Path, Array, Array], tmp_path: Path) -> None:
    file, x, expected = case
    folder = tmp_path / "out"
    triune.compile(file, output=folder)
    np.savez(tmp_path / "in.npz", x=x)
    command = ["run", str(folder), "--input", str(tmp_path / "in.npz"), "--output", str(tmp_path / "out.npz")]
    assert main(command) == 0
    (found,) = np.load(tmp_path / "out.npz").values()
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    load = Load(folder)
    found = load(x)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    if x.dtype != np.float32:
        # Integers whatever they come in, and no reals, whatever they are.
        np.testing.assert_array_equal(load(x.astype(np.int64)), expected)
        with pytest.raises(InvalidArgument, match=f"input 'x': expected dtype {x.dtype}, got float32: the model takes"):
            load(x.astype(np.float32))
        with pytest.raises(InvalidArgument, match="input 'x'"):
            load(x.astype(np.int64) + 256)
    load.release()


def test_reals_are_no_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, x = network("bytes", "reals")
    onnx.save(model, tmp_path / "net.onnx")
    folder = tmp_path / "out"
    triune.compile(tmp_path / "net.onnx", output=folder)
    np.savez(tmp_path / "in.npz", x=x.astype(np.float32))
    assert main(["run", str(folder), "--input", str(tmp_path / "in.npz")]) == 1
    assert "input 'x': expected dtype uint8, got float32" in capsys.readouterr().err


def on_board(folder: Path, target: str, x: Array) -> Array:
    """Return what a board gives, as the host does for the stages before, channels in front; of an image with channels last."""

    def run(stage: str, *backends: Any) -> Array:
        (text,) = folder.glob(f"*_{stage}.json")
        network = Network.CreateFromJsonFile(text)
        network.loadParamsFromFile(text.with_suffix(".raw"))
        devices = [Device.Open(URLS[backend]) for backend in backends] + [HostDevice.Default()]
        session = Session.Create([*backends, HostBackend], network.view(0), devices)
        session.apply()
        (result,) = session.forward([Tensor(np.ascontiguousarray(x), Layout("NHWC"))])
        return np.array(result.to(HostDevice.MemRegion())).transpose(0, 3, 1, 2)

    backend, suffix = {"zg330": (ZG330Backend, "ZG"), "buyi": (BuyiBackend, "BY")}[target]
    found = run(suffix, backend)
    for stage in ("quantized", "adapted"):
        np.testing.assert_array_equal(found, run(stage))
    return found


def check_on_board(found: Array, expected: Array, target: str) -> None:
    """Compare with a session: BUYI's factors are m·2⁻ⁿ, so that a step may be the next one there."""
    assert found.dtype == expected.dtype
    if target == "zg330":
        np.testing.assert_array_equal(found, expected)
    step = 1 if expected.dtype != np.float32 else np.diff(np.unique(expected)).min()
    assert np.abs(found.astype(np.float64) - expected).max() <= step * 1.01


@pytest.mark.parametrize("target", ["zg330", "buyi"])
def test_boards(case: tuple[Path, Array, Array], target: str, tmp_path: Path) -> None:
    file, x, expected = case
    triune.compile(file, target=target, output=tmp_path / "out", format="icraft")
    check_on_board(on_board(tmp_path / "out", target, x.transpose(0, 2, 3, 1)), expected, target)


@pytest.mark.parametrize("target", ["zg330", "buyi"])
@pytest.mark.parametrize("format", ["rgb8", "bgr8", "gray8"])
@pytest.mark.parametrize("last", [False, True], ids=["channels in front", "channels last"])
def test_pictures_on_boards(format: Any, target: str, last: bool, tmp_path: Path) -> None:
    """The input is uint8 (1, rows, columns, channels), whichever order of axes the network has."""
    from onnx import helper

    model, _ = network("reals", "reals")
    if last:
        model.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (1, 7, 6, 3)))
        for node in model.graph.node:
            node.input[:] = ["moved" if name == "x" else name for name in node.input]
        model.graph.node.insert(0, helper.make_node("Transpose", ["x"], ["moved"], "first", perm=[0, 3, 1, 2]))
    how = Preprocess(scale=2, mean=(3, 4.5, 6), std=(0.7, 0.8, 0.9))
    onnx.save(model, tmp_path / "net.onnx")
    put_picture_input(model, format, how)
    onnx.save(model, tmp_path / "bytes.onnx")
    session = triune.Session(tmp_path / "bytes.onnx")
    shape = (1, 7, 6, 1 if format == "gray8" else 3)
    assert session.inputs == [("x", "uint8", shape)]
    x = np.random.default_rng(2).integers(0, 256, shape).astype(np.uint8)
    (expected,) = session.run({"x": x})
    folder = tmp_path / "out"
    options = {"target": target, "output": folder, "format": "icraft"}
    triune.compile(tmp_path / "net.onnx", input_format=format, preprocess=how, **options)
    check_on_board(on_board(folder, target, x), expected, target)


@pytest.mark.parametrize("target", ["zg330", "buyi"])
def test_channels_last_of_the_model_on_boards(target: str, tmp_path: Path) -> None:
    """A model that takes channels last itself has its input as it is."""
    from onnx import helper

    model, x = network("reals", "reals")
    model.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (1, 7, 6, 3)))
    for node in model.graph.node:
        node.input[:] = ["moved" if name == "x" else name for name in node.input]
    model.graph.node.insert(0, helper.make_node("Transpose", ["x"], ["moved"], "first", perm=[0, 3, 1, 2]))
    onnx.save(model, tmp_path / "net.onnx")
    x = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    (expected,) = triune.Session(tmp_path / "net.onnx").run({"x": x})
    triune.compile(tmp_path / "net.onnx", target=target, output=tmp_path / "out", format="icraft")
    check_on_board(on_board(tmp_path / "out", target, x), expected, target)


URLS = {ZG330Backend: "axi://zg330aiu", BuyiBackend: "axi://ql100aiu"}
