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

MODELS = [
    "mlperftiny_resnet8_int8_qdq",
    "mobilenetv2_int8_qdq",
    "squeezenet_u8s8_qdq",
    "ultraface_s8s8_qdq",
    "ultraface_u8s8_qdq",
    "yolox_nano_u8s8_qdq",
]


def loaded(folder: Path, name: str, stage: str) -> Session:
    network = Network.CreateFromJsonFile(str(folder / f"{name}_{stage}.json"))
    network.lazyLoadParamsFromFile(str(folder / f"{name}_{stage}.raw"))
    session = Session.Create([HostBackend], network.view(0), [HostDevice.Default()])
    session.apply()
    return session


def image_for(reference: triune.Session) -> npt.NDArray[np.float32]:
    ((_, dtype, shape),) = [(one.name, one.dtype, one.shape) for one in reference.inputs]
    assert np.dtype(dtype) == np.float32
    extents = [extent if isinstance(extent, int) else 1 for extent in shape]
    return np.random.default_rng(5).uniform(0, 255, extents).astype(np.float32)


@pytest.mark.parametrize("name", ["mlperftiny_resnet8_int8_qdq", "ultraface_s8s8_qdq"])
def test_operations_have_the_same_bits_one_by_one(name: str, test_data: Path, tmp_path: Path) -> None:
    model = test_data / "models" / "onnx" / f"{name}.onnx"
    image = np.ascontiguousarray(image_for(triune.Session(model)).transpose(0, 2, 3, 1))
    triune.compile(model, target="zg330", output=tmp_path, format="icraft")
    for stage in ("parsed", "quantized", "adapted"):
        together, apart = loaded(tmp_path, name, stage), loaded(tmp_path, name, stage)
        seen: list[int] = []
        apart.setPostCallBack(lambda sess, op, backend, outputs, seen=seen: seen.append(op.op_id))
        tensor = Tensor(image, Layout("NHWC"))
        for one, other in zip(together.forward([tensor]), apart.forward([tensor]), strict=True):
            if stage == "parsed":
                np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-4, atol=1e-4)
            else:
                assert np.array_equal(np.asarray(one), np.asarray(other)), stage
        assert seen == [op.op_id for op in apart.network_view.ops]


@pytest.mark.parametrize("name", MODELS)
def test_real_models_have_their_bits(name: str, test_data: Path, tmp_path: Path) -> None:
    model = test_data / "models" / "onnx" / f"{name}.onnx"
    reference = triune.Session(model)
    image = image_for(reference)
    expected = reference.run({reference.inputs[0].name: image})
    triune.compile(model, target="zg330", output=tmp_path, format="icraft")
    pixels = np.ascontiguousarray(image.transpose(0, 2, 3, 1))
    for stage in ("quantized", "adapted", "ZG"):
        session = loaded(tmp_path, name, stage)
        results = session.forward([Tensor(pixels, Layout("NHWC"))])
        assert all(stretch.merges or len(stretch.steps) == 1 for stretch in session._stretches)
        for result, wanted in zip(results, expected, strict=True):
            found = np.asarray(result)
            assert np.array_equal(found, wanted) or np.array_equal(found.transpose(0, 3, 1, 2), wanted), stage
