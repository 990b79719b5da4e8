"""Float models of many families through every stage: reals as ONNX Runtime's, integers with the same bits from stage to stage."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from float_networks import FAMILIES, Builder, transposed, vit

import triune
from triune.icraft._host.custom import CUSTOM
from triune.icraft.host_backend import HostBackend
from triune.icraft.xir import Layout, Network
from triune.icraft.xrt import HostDevice, Session, Tensor

onnxruntime = pytest.importorskip("onnxruntime")

SUFFIX = {"zg330": "ZG", "buyi": "BY"}
Array = npt.NDArray[Any]


def samples(name: str, shape: list[int], count: int = 8) -> Iterator[dict[str, Array]]:
    """Yield samples to calibrate with."""
    rng = np.random.default_rng(5)
    for _ in range(count):
        yield {name: rng.normal(size=shape).astype(np.float32)}


def run(path: Path, x: Array) -> list[Array]:
    """Return what a stage's network gives on the host."""
    network = Network.CreateFromJsonFile(path)
    network.loadParamsFromFile(path.with_suffix(".raw"))
    network.validate()
    session = Session.Create([HostBackend], network.view(0), [HostDevice.Default()])
    session.apply()
    layout = Layout({4: "NHWC", 3: "**C", 2: "*C"}[x.ndim])
    return [np.array(tensor) for tensor in session.forward([Tensor(x, layout)])]


def in_order(found: Array, wanted: Array) -> Array:
    """Return a result with the model's axes: images have channels last at the border."""
    moved = found.transpose(0, 3, 1, 2) if found.ndim == 4 else found
    return (moved if moved.shape == wanted.shape else found).reshape(wanted.shape)


def through_stages(
    model: Path, target: str, folder: Path, *, calibrate: bool = True
) -> tuple[list[Array], list[Array]]:
    """Compile a model and compare its stages; return the reals and what the integers stand for."""
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    given = session.get_inputs()[0]
    options: dict[str, Any] = {"calibration": samples(given.name, given.shape)} if calibrate else {}
    triune.compile(model, target=target, output=folder, format="icraft", **options)
    x = np.random.default_rng(9).normal(size=given.shape).astype(np.float32)
    wanted = session.run(None, {given.name: x})
    pixels = np.ascontiguousarray(x.transpose(0, 2, 3, 1)) if x.ndim == 4 else x

    def stage(name: str) -> list[Array]:
        found = run(folder / f"{model.stem}_{name}.json", pixels)
        return [in_order(one, real) for one, real in zip(found, wanted, strict=True)]

    for name in ("parsed", "optimized"):
        for found, real in zip(stage(name), wanted, strict=True):
            np.testing.assert_allclose(found, real, rtol=1e-4, atol=1e-4 * np.abs(real).max(), err_msg=name)
    quantized = stage("quantized")
    for name in ("adapted", SUFFIX[target]):
        for found, integers in zip(stage(name), quantized, strict=True):
            np.testing.assert_array_equal(found, integers, err_msg=name)
    return wanted, quantized


def decibels(wanted: Array, found: Array) -> float:
    """Return the signal to quantization noise ratio."""
    return float(10 * np.log10((wanted**2).sum() / max(float(((found - wanted) ** 2).sum()), 1e-30)))


def operators(folder: Path, stage: str) -> set[str]:
    """Return the classes of a stage's operators."""
    (path,) = folder.glob(f"*_{stage}.json")
    return {op["_type_key"] for op in json.loads(path.read_text())["ops"]}


@pytest.mark.parametrize("target", sorted(SUFFIX))
@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_families_go_through_every_stage(family: str, target: str, tmp_path: Path) -> None:
    model = FAMILIES[family](tmp_path / f"{family}.onnx")
    for real, found in zip(*through_stages(model, target, tmp_path / "stages"), strict=True):
        assert decibels(real, found) > 12


TRANSPOSED: dict[str, dict[str, Any]] = {
    "k3s2": {"more": (1, 1)},
    "k3s2 groups": {"more": (1, 1), "groups": 4},
    "k5s2": {"kernel": (5, 5), "pads": (2, 2, 2, 2), "more": (1, 1)},
    "k3s3": {"stride": (3, 3), "pads": (0, 0, 0, 0)},
    "k2s3": {"kernel": (2, 2), "stride": (3, 3), "pads": (0, 0, 0, 0), "more": (1, 0)},
    "k3s2 uneven": {"pads": (1, 0, 0, 1)},
    "k4s2": {"kernel": (4, 4)},
    "k3x5 s2x1": {"kernel": (3, 5), "stride": (2, 1), "pads": (1, 2, 1, 2), "more": (1, 0)},
    "k3s2 dilated": {"dilation": (2, 2)},
    "1d k3s2": {"kernel": (3,), "stride": (2,), "pads": (1, 1), "more": (1,), "dilation": (1,)},
}


@pytest.mark.parametrize("target", sorted(SUFFIX))
@pytest.mark.parametrize("case", sorted(TRANSPOSED))
def test_transposed_convolutions_of_any_kernel(case: str, target: str, tmp_path: Path) -> None:
    """Neither the kernel need be a multiple of the stride, nor the border even."""
    model = transposed(tmp_path / "transposed.onnx", **TRANSPOSED[case])
    ((real,), (found,)) = through_stages(model, target, tmp_path / "stages")
    assert decibels(real, found) > 20
    assert "customop" not in " ".join(operators(tmp_path / "stages", "parsed"))


SPELLINGS = [("torch", "torch", 11), ("torch", "tanh", 13), ("tensorflow", "tensorflow", 15), ("fused", "torch", 17)]


@pytest.mark.parametrize("target", sorted(SUFFIX))
@pytest.mark.parametrize(("norm", "gelu", "opset"), SPELLINGS)
def test_vision_transformers_in_every_spelling(norm: str, gelu: str, opset: int, target: str, tmp_path: Path) -> None:
    model = vit(tmp_path / "vit.onnx", norm=norm, gelu=gelu, opset=opset)
    ((real,), (found,)) = through_stages(model, target, tmp_path / "stages")
    assert decibels(real, found) > 12
    named = operators(tmp_path / "stages", "parsed")
    assert "icraft::xir::LayerNorm" in named
    # By tanh it has no name; what it is spelled with has.
    assert ("icraft::xir::GELU" in named) == (gelu != "tanh")


@pytest.mark.parametrize("target", sorted(SUFFIX))
def test_quantized_vision_transformers(target: str, tmp_path: Path) -> None:
    model = vit(tmp_path / "vit.onnx")
    quantized = tmp_path / "vit_int8.onnx"
    triune.quantize(model, calibration=samples("x", [1, 3, 16, 16]), output=quantized)
    through_float = through_stages(model, target, tmp_path / "float")[1]
    triune.compile(quantized, target=target, output=tmp_path / "quantized", format="icraft")
    x = np.random.default_rng(9).normal(size=(1, 3, 16, 16)).astype(np.float32)
    pixels = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    for stage in ("quantized", "adapted", SUFFIX[target]):
        (found,) = run(tmp_path / f"quantized/vit_int8_{stage}.json", pixels)
        np.testing.assert_array_equal(found.reshape(through_float[0].shape), through_float[0], err_msg=stage)


@pytest.mark.parametrize("target", sorted(SUFFIX))
def test_what_has_no_name_stays_on_the_host_and_says_why(target: str, tmp_path: Path) -> None:
    """Functions by themselves, where no pattern knows them: each is an operator of its own, with a reason."""
    b = Builder(21)
    x = b.conv(b.input("x", (1, 4, 8, 8)), 4, 8)
    x = b.node("Erf", [x])
    x = b.conv(x, 8, 8)
    x = b.node("Exp", [b.node("Neg", [b.node("Abs", [x])])])
    x = b.conv(x, 8, 8)
    x = b.binary("Pow", x, 3.0)
    x = b.conv(b.node("Tanh", [x]), 8, 8)
    x = b.node("Sqrt", [b.binary("Add", b.binary("Pow", x, 2.0), 1.0)])
    x = b.conv(b.binary("Pow", x, 0.5), 8, 4)
    x = b.node("Resize", [x, "", b.constant([1, 1, 2, 2])], mode="linear", coordinate_transformation_mode="asymmetric")
    model = b.save(tmp_path / "functions.onnx", b.conv(b.node("Floor", [x]), 4, 4))
    through_stages(model, target, tmp_path / "stages")
    ops = json.loads((tmp_path / "stages/functions_parsed.json").read_text())["ops"]
    own = {op["_type_key"]: op["tags"] for op in ops if op["_type_key"].startswith("customop::")}
    assert set(own) == {f"customop::{name}" for name in ("Erf", "Exp", "Pow", "Floor", "Resize")}
    assert own["customop::Erf"] == {"reason": "the vendor's intermediate representation has no Erf"}
    assert {f"{key}Node" for key in own} <= CUSTOM


@pytest.mark.parametrize("target", sorted(SUFFIX))
def test_movements_in_other_words(target: str, tmp_path: Path) -> None:
    """Slices that run backwards, indices here and there, expansions to more axes, constants joined to images."""
    b = Builder(22)
    x = b.conv(b.input("x", (1, 4, 8, 8)), 4, 8)
    x = b.node("Slice", [x, b.ints(-1, 6), b.ints(-(2**31), 0), b.ints(3, 2), b.ints(-1, -2)])
    x = b.node("Gather", [x, b.ints(0, 5, 2, 4, 7, 1)], axis=1)
    x = b.conv(x, 6, 6)
    x = b.node("Concat", [b.random(1, 5, 3, 8, scale=0.5), x, b.random(1, 3, 3, 8, scale=0.5)], axis=1)
    x = b.node("Relu", [b.conv(x, 14, 8)])
    x = b.node("Concat", [x, b.random(1, 8, 1, 8, scale=0.5)], axis=2)
    x = b.conv(x, 8, 8)
    pooled = b.node("ReduceMax", [x], axes=[1, 2], keepdims=0)
    spread = b.node("Expand", [pooled, b.ints(1, 8, 4, 8)])
    model = b.save(tmp_path / "moved.onnx", b.conv(b.node("Sub", [x, spread]), 8, 4))
    ((real,), (found,)) = through_stages(model, target, tmp_path / "stages")
    assert decibels(real, found) > 20
