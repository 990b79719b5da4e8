"""Networks that `triune.compile` writes: every stage runs on the host's backend and gives what the ONNX model gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import triune
from triune import _native
from triune.icraft.host_backend import HostBackend
from triune.icraft.xir import Layout, Network
from triune.icraft.xrt import HostDevice, Session, Tensor
from triune.profiling import profile

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
        session.setPostCallBack(lambda *_: None)
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
    assert {op.name for op in hard} >= {"icraft::xir::Conv2dNode", "icraft::xir::AddNode"} or target
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
    with pytest.raises(_native.UnsupportedError, match="no HardOp"):
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
    with pytest.raises(_native.UnsupportedError, match="metis"):
        triune.compile(model, target="metis", output=tmp_path, format="icraft")
