"""Networks that `triune.compile` writes: every stage runs on the host's backend and gives what the ONNX model gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from beside import load as load_beside

import triune
from triune import _native
from triune.cli import main
from triune.icraft.host_backend import HostBackend
from triune.icraft.xir import Layout, Network
from triune.icraft.xrt import HostDevice, Session, Tensor
from triune.profiling import profile

onnx = pytest.importorskip("onnx")

STAGES = ["parsed", "optimized", "quantized", "adapted"]
SUFFIX = {"zg330": "ZG", "buyi": "BY"}


@pytest.fixture(scope="module")
def model(test_data: Path) -> Path:
    return test_data / "models/onnx/mlperftiny_resnet8_int8_qdq.onnx"


@pytest.fixture(scope="module", params=sorted(SUFFIX))
def compiled(request: pytest.FixtureRequest, model: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp(request.param)
    assert triune.compile(model, target=request.param, output=folder, format="icraft") == folder
    return request.param, folder


def load(path: Path) -> Network:
    network = Network.CreateFromJsonFile(path)
    network.loadParamsFromFile(path.with_suffix(".raw"))
    return network


def run(network: Network, image: npt.NDArray[Any], *, one_by_one: bool = False) -> npt.NDArray[Any]:
    session = Session.Create([HostBackend], network.view(0), [HostDevice.Default()])
    session.apply()
    if one_by_one:
        session.setPostCallBack(lambda _session, _op, _backend, outputs: [one.hasData() for one in outputs])
    (result,) = session.forward([Tensor(image, Layout("NHWC"))])
    return np.array(result)


def test_every_stage_is_there_and_valid(compiled: tuple[str, Path], model: Path) -> None:
    target, folder = compiled
    stages = [*STAGES, SUFFIX[target]]
    expected = {f"{model.stem}_{stage}{suffix}" for stage in stages for suffix in (".json", ".raw")}
    assert {path.name for path in folder.iterdir()} == expected
    for stage in stages:
        network = load(folder / f"{model.stem}_{stage}.json")
        network.validate()
        assert network.name == model.stem
        text = json.loads((folder / f"{model.stem}_{stage}.json").read_text())
        assert text["params_bytes"] == (folder / f"{model.stem}_{stage}.raw").stat().st_size


def test_stages_give_the_bits_of_the_model(compiled: tuple[str, Path], model: Path) -> None:
    target, folder = compiled
    image = np.random.default_rng(3).uniform(0, 255, (1, 3, 32, 32)).astype(np.float32)
    session = triune.Session(model)
    (expected,) = session.run({session.inputs[0][0]: image})
    pixels = np.ascontiguousarray(image.transpose(0, 2, 3, 1))
    quantized = run(load(folder / f"{model.stem}_quantized.json"), pixels)
    if target == "zg330":
        np.testing.assert_array_equal(quantized, expected)
    for stage in ("quantized", "adapted", SUFFIX[target]):
        network = load(folder / f"{model.stem}_{stage}.json")
        np.testing.assert_array_equal(run(network, pixels, one_by_one=True), quantized, err_msg=stage)
    parsed = run(load(folder / f"{model.stem}_parsed.json"), pixels)
    np.testing.assert_allclose(run(load(folder / f"{model.stem}_optimized.json"), pixels), parsed, rtol=1e-4, atol=1e-5)
    assert np.abs(parsed - quantized).max() < 0.1


def test_hard_ops_have_the_vendors_form(compiled: tuple[str, Path], model: Path) -> None:
    target, folder = compiled
    network = load(folder / f"{model.stem}_{SUFFIX[target]}.json")
    adapted = {op.op_id for op in load(folder / f"{model.stem}_adapted.json").ops}
    hard = [op for op in network.ops if op.typeKey() == "icraft::xir::HardOpNode"]
    assert len(hard) > 9
    assert {op.name for op in hard} >= {"icraft::xir::Conv2dNode", "icraft::xir::MatmulNode"}
    for op in hard:
        assert set(op.origin_ops_id) <= adapted
        (instr,) = op.instr
        assert (instr.tensorType().shape == [0]) == (op.getAttr("layer_count") == 0)
    first = hard[0]
    assert str(first.inputs[0].tensorType().layout) == '"@layout(NCHWc4)"'
    assert str(first.params[0].tensorType().layout) == '"@layout(OIHWo32i4)"'
    assert str(first.outputs[0].tensorType().layout) == '"@layout(NCHWc32)"'
    keys = {"params_segment_addr", "ftmp_segment_bytesize", "rows"} if target == "buyi" else set()
    assert keys <= set(network.tags)


def test_numbers_and_places_hold(compiled: tuple[str, Path], model: Path) -> None:
    target, folder = compiled
    networks = {stage: load(folder / f"{model.stem}_{stage}.json") for stage in (*STAGES, SUFFIX[target])}
    kinds: dict[int, str] = {}
    names: dict[int, str] = {}
    for stage, network in networks.items():
        for op in network.ops:
            if op.typeKey() != "icraft::xir::HardOpNode":
                assert kinds.setdefault(op.op_id, op.typeKey()) == op.typeKey(), stage
            for value in op.outputs:
                assert names.setdefault(value.v_id, value.name) == value.name, stage
    network = networks[SUFFIX[target]]
    hard = [op for op in network.ops if op.typeKey() == "icraft::xir::HardOpNode"]
    # Every operation on the accelerator is in one HardOp, but for those that only lay values out.
    stood = [op_id for op in hard for op_id in op.origin_ops_id]
    marked = [op for op in networks["adapted"].ops if str(op.compile_target) != '"@hostt"']
    assert len(stood) == len(set(stood))
    assert set(stood) <= {op.op_id for op in marked}
    layout = {"AlignAxis", "PruneAxis", "Reshape", "Transpose", "Cast"}
    left = {op.typeKey().removeprefix("icraft::xir::").removesuffix("Node") for op in marked if op.op_id not in stood}
    assert left <= layout
    instructions = sum(np.asarray(one).nbytes for op in hard for one in op.instr)
    if target == "buyi":
        number = {key: int(str(tag)) for key, tag in network.tags.items() if "_segment_" in key}
        ends = 4096
        for name in ("params", "input", "output", "ftmp", "instr"):
            assert number[f"{name}_segment_addr"] >= ends
            ends = number[f"{name}_segment_addr"] + number[f"{name}_segment_bytesize"]
        assert number["params_segment_addr"] == 4096
        assert number["instr_segment_bytesize"] == instructions
    else:
        chunks = [{str(one.mtype).split("(")[1].split("@")[0] for one in op.params} for op in hard]
        assert all(len(own) <= 1 for own in chunks)
        assert len({str(one.mtype).split("(")[1].split("@")[0] for op in hard for one in op.instr}) == 1
        assert all(op.getTag("ReadState") is not None for op in hard)


def test_stages_stand_for_the_reals_of_the_first(compiled: tuple[str, Path], model: Path) -> None:
    """Without rounding, what is left between stages is that of weights, and on buyi of their multipliers."""
    target, folder = compiled
    image = np.random.default_rng(3).random((1, 32, 32, 3), np.float32) * 255
    reals = run(load(folder / f"{model.stem}_parsed.json"), image)
    for stage in ("quantized", "adapted", SUFFIX[target]):
        network = load(folder / f"{model.stem}_{stage}.json")
        session = Session.Create([HostBackend], network.view(0), [HostDevice.Default()])
        HostBackend(session.backends[0]).setFakeQf(True)
        session.apply()
        if stage == SUFFIX[target]:
            with pytest.raises(NotImplementedError, match=r"operation \d+ .*its instructions compute on integers"):
                session.forward([Tensor(image, Layout("NHWC"))])
            continue
        (found,) = session.forward([Tensor(image, Layout("NHWC"))])
        np.testing.assert_allclose(np.asarray(found), reals, atol={"zg330": 1e-4, "buyi": 0.02}[target])


def test_damaged_instructions_are_named(compiled: tuple[str, Path], model: Path) -> None:
    target, folder = compiled
    network = load(folder / f"{model.stem}_{SUFFIX[target]}.json")
    hard = [op for op in network.ops if op.typeKey() == "icraft::xir::HardOpNode"]
    text = str(network).encode()
    params = {one.v_id: np.asarray(one).reshape(-1).view(np.uint8) for op in hard for one in (*op.instr, *op.params)}
    operators = _native.HardOps(text, params)
    assert operators.op_ids == [op.op_id for op in hard]
    broken = {**params, hard[0].instr[0].v_id: np.full_like(params[hard[0].instr[0].v_id], 0xEE)}
    with pytest.raises(_native.ArgumentError, match=rf"HardOp {hard[0].op_id}"):
        _native.HardOps(text, broken)
    with pytest.raises(_native.ArgumentError, match="no HardOp"):
        operators.run(0, 10**6)


def test_profiles_tell_estimates_from_times(compiled: tuple[str, Path], model: Path, test_data: Path) -> None:
    target, folder = compiled
    own = profile(folder / f"{model.stem}_{SUFFIX[target]}.json")
    assert not own.estimated
    assert own.macs > 12_000_000
    vendor = profile(test_data / "models/xir/yolov5s_plin_BY.json")
    assert vendor.estimated
    assert len(vendor.operators) == 72
    assert 4.5e9 < vendor.macs < 4.9e9
    assert "estimate" in vendor.table()


def test_arguments_are_checked(model: Path, tmp_path: Path) -> None:
    with pytest.raises(_native.ArgumentError, match="format"):
        triune.compile(model, target="buyi", output=tmp_path, format="xml")
    with pytest.raises(_native.ArgumentError, match="batch"):
        triune.compile(model, target="buyi", output=tmp_path, format="icraft", batch=2)
    with pytest.raises(_native.ArgumentError, match="metis"):
        triune.compile(model, target="metis", output=tmp_path, format="icraft")
    with pytest.raises(_native.ArgumentError, match="bits: integers have 8 or 16, got 4"):
        triune.compile(model, target="buyi", output=tmp_path, format="icraft", bits=4)
    with pytest.raises(_native.ArgumentError, match="bits: only buyi"):
        triune.compile(model, target="zg330", output=tmp_path, format="icraft", bits=16)
    with pytest.raises(_native.ArgumentError, match="bits: only buyi"):
        triune.compile(model, target="buyi", output=tmp_path, bits=16)
    with pytest.raises(_native.ArgumentError, match="no samples"):
        triune.compile(model, target="buyi", output=tmp_path, format="icraft", bits=16)


def int16_model(path: Path) -> None:
    """Write a QDQ model of int16: convolution and Relu, a sigmoid gate, a joint of two scales, a mean."""
    onnx = pytest.importorskip("onnx")
    helper, rng = onnx.helper, np.random.default_rng(7)
    constants = {
        "w": rng.integers(-32000, 32000, (20, 3, 3, 3)).astype(np.int16),
        "ws": rng.uniform(1e-6, 9e-6, 20).astype(np.float32),
        "b": rng.integers(-(10**6), 10**6, 20).astype(np.int32),
        "zero": np.int16(0),
        "zeros": np.zeros(20, np.int16),
        "zeros32": np.zeros(20, np.int32),
        **{name: np.float32(scale) for name, scale in SCALES.items()},
    }
    constants["bs"] = constants["ws"] * constants["xs"]
    nodes: list[Any] = []

    def node(kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(kind, inputs, [output], name=f"{kind}_{output}", **attributes))
        return output

    def rounded(name: str, scale: str) -> str:
        integers = node("QuantizeLinear", [name, scale, "zero"], f"{name}_q")
        return node("DequantizeLinear", [integers, scale, "zero"], f"{name}_r")

    x = rounded("x", "xs")
    w = node("DequantizeLinear", ["w", "ws", "zeros"], "wr", axis=0)
    b = node("DequantizeLinear", ["b", "bs", "zeros32"], "br", axis=0)
    conv = node("Conv", [x, w, b], "conv", pads=[1, 1, 1, 1])
    conv = rounded(node("Relu", [conv], "relu"), "ys")
    gate = rounded(node("Sigmoid", [conv], "gate"), "gs")
    gated = rounded(node("Mul", [conv, gate], "gated"), "ms")
    joined = rounded(node("Concat", [gated, conv], "joined", axis=1), "js")
    mean = rounded(node("GlobalAveragePool", [joined], "mean"), "os")
    node("Identity", [mean], "y")
    graph = helper.make_graph(
        nodes,
        "wide",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 3, 9, 8])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 40, 1, 1])],
        [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)


SCALES = {"xs": 3.1e-5, "ys": 6e-5, "gs": 3.05e-5, "ms": 5.5e-5, "js": 6e-5, "os": 4.3e-5}


def test_models_of_int16_are_compiled_as_they_are(tmp_path: Path) -> None:
    int16_model(tmp_path / "wide.onnx")
    triune.compile(tmp_path / "wide.onnx", target="buyi", output=tmp_path, format="icraft")
    pixels = np.random.default_rng(3).uniform(-1, 1, (1, 9, 8, 3)).astype(np.float32)
    results = {stage: run(load(tmp_path / f"wide_{stage}.json"), pixels) for stage in (*STAGES, "BY")}
    for stage in ("adapted", "BY"):
        np.testing.assert_array_equal(results[stage], results["quantized"], err_msg=stage)
    (exact,) = triune.Session(tmp_path / "wide.onnx").run({"x": np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))})
    assert np.abs(results["parsed"]).max() > 0.1
    np.testing.assert_allclose(results["parsed"].reshape(-1), exact.reshape(-1), atol=2e-4)
    # Factors of eight bits: what a convolution, a product, and a mean may lose.
    np.testing.assert_allclose(results["quantized"], results["parsed"], rtol=0.02, atol=1e-3)
    network = load(tmp_path / "wide_BY.json")
    kinds = [op.name for op in network.ops if op.typeKey() == "icraft::xir::HardOpNode"]
    assert {f"icraft::xir::{kind}Node" for kind in ("Conv2d", "Sigmoid", "Multiply", "Concat")} <= set(kinds)
    first = next(op for op in network.ops if op.typeKey() == "icraft::xir::HardOpNode")
    assert str(first.params[0].tensorType().layout) == '"@layout(OIHWo16i4)"'
    scale = str(first.params[0].tensorType().element_dtype)
    assert '"storage_dtype":"@sint(16)"' in scale
    assert "@exp_scales" in scale
    with pytest.raises(_native.UnsupportedError, match="16-bit integers only"):
        triune.compile(tmp_path / "wide.onnx", target="zg330", output=tmp_path, format="icraft")


def test_places_outside_of_the_memory_are_refused(compiled: tuple[str, Path], model: Path) -> None:
    target, folder = compiled
    network = load(folder / f"{model.stem}_{SUFFIX[target]}.json")
    hard = [op for op in network.ops if op.typeKey() == "icraft::xir::HardOpNode"]
    params = {one.v_id: np.asarray(one).reshape(-1).view(np.uint8) for op in hard for one in (*op.instr, *op.params)}
    whole = json.loads(str(network))
    v_id = hard[1].outputs[0].v_id

    def changed(change: Any) -> bytes:
        text = json.loads(json.dumps(whole))
        for op in text["ops"]:
            for value in (*op["inputs"], *op["outputs"]):
                if value["v_id"] == v_id:
                    change(value)
        return json.dumps(text).encode()

    def everywhere(value: Any) -> None:
        value["dtype"]["shape"] = [1, 2**40, 1, 1, 1]
        value["tags"]["strides"] = [0, 0, 0, 0, 0]

    def far(value: Any) -> None:
        place = {"buyi": f"@etm({2**64 - 8})", "zg330": f"@chunk(0@{2**64 - 8})"}
        value["mtype"] = place[target]

    def beyond(value: Any) -> None:
        value["dtype"]["shape"][2] *= 10**6

    for change in (everywhere, far, beyond):
        with pytest.raises(_native.Error, match="memory"):
            _native.HardOps(changed(change), params)
    whole["tags"]["triune"]["constants"] = 10**15
    with pytest.raises(_native.Error, match="constants"):
        _native.HardOps(json.dumps(whole).encode(), params)


@pytest.mark.parametrize("target", sorted(SUFFIX))
def test_what_is_no_tensor_is_said(target: str, tmp_path: Path) -> None:
    """A classifier as scikit-learn's exporters end it: a map of scores for each row."""
    helper = onnx.helper
    net = load_beside(str(Path(__file__).parents[1] / "models" / "networks"), "deployable_networks").Net(4)
    scores = net.gemm(net.input(1, 24), 3)
    model = onnx.load_from_string(net.model(scores))
    node = helper.make_node(
        "ZipMap", [scores.name], ["odds"], "zip", domain="ai.onnx.ml", classlabels_strings=["a", "b", "c"]
    )
    model.graph.node.append(node)
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    kind = helper.make_map_type_proto(
        onnx.TensorProto.STRING, helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, [])
    )
    del model.graph.output[:]
    model.graph.output.append(helper.make_value_info("odds", helper.make_sequence_type_proto(kind)))
    onnx.save(model, tmp_path / "net.onnx")
    with pytest.raises(triune.errors.UnsupportedError) as caught:
        triune.compile(tmp_path / "net.onnx", target=target, output=tmp_path / "out", format="icraft")
    said = str(caught.value)
    assert "'zip' (ZipMap): it makes or takes maps, which are no tensors" in said
    assert f"--outputs {scores.name}" in said
    assert "--format package" in said
    assert "stages" not in said
    # Either cure is one.
    arguments = [str(tmp_path / "net.onnx"), "--target", target, "-o"]
    assert main(["compile", *arguments, str(tmp_path / "front"), "--format", "icraft", "--outputs", scores.name]) == 0
    assert main(["compile", *arguments, str(tmp_path / "package"), "--format", "package"]) == 0
