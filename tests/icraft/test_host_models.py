"""Real quantized models, compiled to Icraft's networks: the host's backend gives the bits that the ONNX file gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import triune
from triune.icraft.host_backend import HostBackend
from triune.icraft.xir import Layout, Network
from triune.icraft.xrt import HostDevice, Session, Tensor

MODELS = {
    "mlperftiny_resnet8_int8_qdq": (127, 0.25),
    "mobilenetv2_int8_qdq": (1, 0.05),
    "squeezenet_u8s8_qdq": (127, 0.15),
    "ultraface_s8s8_qdq": (1, 0.1),
    "ultraface_u8s8_qdq": (1, 0.1),
    "yolox_nano_u8s8_qdq": (255, 0.6),
}
"""Real models, the largest number in an image of theirs, and how far quantization moves their results at most."""


def loaded(folder: Path, name: str, stage: str) -> Session:
    network = Network.CreateFromJsonFile(str(folder / f"{name}_{stage}.json"))
    network.lazyLoadParamsFromFile(str(folder / f"{name}_{stage}.raw"))
    session = Session.Create([HostBackend], network.view(0), [HostDevice.Default()])
    session.apply()
    return session


def image_for(reference: triune.Session, largest: float = 255) -> npt.NDArray[np.float32]:
    ((_, dtype, shape),) = [(one.name, one.dtype, one.shape) for one in reference.inputs]
    assert np.dtype(dtype) == np.float32
    extents = [extent if isinstance(extent, int) else 1 for extent in shape]
    return np.random.default_rng(5).uniform(0, largest, extents).astype(np.float32)


@pytest.mark.parametrize("name", ["mlperftiny_resnet8_int8_qdq", "ultraface_s8s8_qdq"])
def test_operations_have_the_same_bits_one_by_one(name: str, test_data: Path, tmp_path: Path) -> None:
    model = test_data / "models" / "onnx" / f"{name}.onnx"
    image = np.ascontiguousarray(image_for(triune.Session(model)).transpose(0, 2, 3, 1))
    triune.compile(model, target="zg330", output=tmp_path, format="icraft")
    for stage in ("parsed", "quantized", "adapted"):
        together, apart = loaded(tmp_path, name, stage), loaded(tmp_path, name, stage)
        seen: list[int] = []
        apart.setPostCallBack(
            lambda sess, op, backend, outputs, seen=seen: seen.append((op.op_id, [one.hasData() for one in outputs])[0])
        )
        tensor = Tensor(image, Layout("NHWC"))
        for one, other in zip(together.forward([tensor]), apart.forward([tensor]), strict=True):
            if stage == "parsed":
                np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-4, atol=1e-4)
            else:
                assert np.array_equal(np.asarray(one), np.asarray(other)), stage
        assert seen == [op.op_id for op in apart.network_view.ops]


@pytest.mark.parametrize("target", ["zg330", "buyi"])
@pytest.mark.parametrize("name", MODELS)
def test_real_models_have_their_bits(name: str, target: str, test_data: Path, tmp_path: Path) -> None:
    model = test_data / "models" / "onnx" / f"{name}.onnx"
    reference = triune.Session(model)
    image = image_for(reference, MODELS[name][0])
    expected = reference.run({reference.inputs[0].name: image})
    triune.compile(model, target=target, output=tmp_path, format="icraft")
    pixels = np.ascontiguousarray(image.transpose(0, 2, 3, 1))
    stages = ("parsed", "optimized", "quantized", "adapted", "ZG" if target == "zg330" else "BY")
    results = {stage: run(tmp_path, name, stage, pixels) for stage in stages}
    for found, wanted in zip(results["quantized"], expected, strict=True):
        # The order of axes is the network's, not the file's; buyi multiplies with m·2⁻ⁿ, which is not ONNX's arithmetic.
        if target == "zg330":
            assert np.array_equal(found, wanted) or np.array_equal(found.transpose(0, 3, 1, 2), wanted)
    for stage in stages[3:]:
        for found, wanted in zip(results[stage], results["quantized"], strict=True):
            assert np.array_equal(found, wanted), stage
    assert distance(results["optimized"], results["parsed"]) < 1e-4
    assert 0 < distance(results["quantized"], results["parsed"]) < MODELS[name][1]


def run(folder: Path, name: str, stage: str, pixels: npt.NDArray[np.float32]) -> list[npt.NDArray[np.float32]]:
    session = loaded(folder, name, stage)
    results = [np.array(result) for result in session.forward([Tensor(pixels, Layout("NHWC"))])]
    assert all(section.merges or len(section.steps) == 1 for section in session._sections)
    return results


def distance(found: list[npt.NDArray[np.float32]], wanted: list[npt.NDArray[np.float32]]) -> float:
    """The root of the mean square of differences, in units of that of the numbers; the worst of all results."""
    pairs = zip(found, wanted, strict=True)
    return max(float(np.sqrt(np.mean((one - other) ** 2) / np.mean(other**2))) for one, other in pairs)


@pytest.mark.parametrize("name", ["squeezenet_f32", "ultraface_f32"])
def test_models_have_16_bits_on_buyi(name: str, test_data: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    model = test_data / "models" / "onnx" / f"{name}.onnx"
    reference = triune.Session(model)
    image = image_for(reference)
    image = (image - 127) / 128 if "ultraface" in name else image - 127
    feeds = {reference.inputs[0].name: image}
    expected = reference.run(feeds)
    folders = {bits: tmp_path / str(bits) for bits in (8, 16)}
    for bits, folder in folders.items():
        triune.compile(model, target="buyi", output=folder, format="icraft", calibration=[feeds], bits=bits)
    pixels = np.ascontiguousarray(image.transpose(0, 2, 3, 1))
    stages = ("parsed", "quantized", "adapted", "BY")
    results = {stage: run(folders[16], name, stage, pixels) for stage in stages}
    assert distance(results["parsed"], expected) < 1e-4
    for stage in stages[2:]:
        for found, wanted in zip(results[stage], results["quantized"], strict=True):
            assert np.array_equal(found, wanted), stage
    far = {bits: distance(run(folders[bits], name, "quantized", pixels), expected) for bits in (8, 16)}
    # Means and additions still multiply with eight significant bits.
    assert far[16] < far[8] / 4
    network = Network.CreateFromJsonFile(str(folders[16] / f"{name}_BY.json"))
    hard = [op for op in network.ops if op.typeKey() == "icraft::xir::HardOpNode"]
    narrow = Network.CreateFromJsonFile(str(folders[8] / f"{name}_BY.json"))
    # What the accelerator runs does not depend on the width.
    assert len(hard) >= sum(op.typeKey() == "icraft::xir::HardOpNode" for op in narrow.ops)
    types = {str(value.tensorType().layout) for op in hard for value in op.outputs}
    assert '"@layout(NCHWc16)"' in types
    assert all("@sint(16)" in str(value.tensorType()) for op in hard for value in (*op.inputs, *op.outputs))
