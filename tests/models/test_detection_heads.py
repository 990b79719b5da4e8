"""Detectors with their decoding inside, and other tensors of one, five and six axes at a card's border: they compile for every
target, nearly all that they multiply is on the device, and results have the host's bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from beside import load

import triune
from triune.cli import main

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

Array = np.ndarray[Any, Any]
heads = load(__file__, "detection_heads")
deployed = load(__file__, "test_deployable_networks")

NETWORKS = {
    "YOLOv5": lambda: heads.detector("v5"),
    "YOLOv5, one small head": lambda: heads.detector("v5", heads=1, classes=1, anchors=1),
    "YOLOv7": lambda: heads.detector("v7", classes=2),
    "YOLOv3": lambda: heads.detector("v3", heads=2),
    "ShuffleNet": heads.shuffled,
    "ShuffleNet that gives the shuffle": lambda: heads.shuffled(ends=True),
    "one axis": lambda: heads.of_rank(1),
    "five axes": lambda: heads.of_rank(5),
    "six axes": lambda: heads.of_rank(6),
}


def samples(model: Any, count: int) -> list[dict[str, Array]]:
    """Return inputs of noise."""
    rng = np.random.default_rng(1)
    (x,) = model.graph.input
    shape = [dim.dim_value for dim in x.type.tensor_type.shape.dim]
    return [{x.name: rng.standard_normal(shape).astype(np.float32)} for _ in range(count)]


def by_onnxruntime(model: Any, folder: Path) -> Path:
    """Quantize as ONNX Runtime's quantizer does it: what there is an integer form of, of every rank."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._samples = iter(samples(model, 4))

        def get_next(self) -> dict[str, Array] | None:
            return next(self._samples, None)

    onnx.save(model, folder / "float.onnx")
    made = folder / "net.onnx"
    quantize_static(
        folder / "float.onnx",
        made,
        Reader(),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )
    return made


def by_triune(model: Any, folder: Path) -> Path:
    """Quantize as `triune quantize` does it: what a product follows."""
    onnx.save(model, folder / "float.onnx")
    (folder / "samples").mkdir()
    for index, sample in enumerate(samples(model, 4)):
        np.save(folder / "samples" / f"{index}.npy", sample["x"])
    made = folder / "net.onnx"
    command = ["quantize", folder / "float.onnx", "--calibrate", folder / "samples", "-o", made]
    assert main([str(each) for each in command]) == 0
    return made


def fused(file: Path, feeds: dict[str, Array]) -> list[Array]:
    """Return what ONNX Runtime makes of a model of int8, over integers where it has forms over these."""
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.qdqisint8allowed", "1")
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    return [np.asarray(result) for result in session.run(None, feeds)]


@pytest.mark.parametrize("quantizer", [by_onnxruntime, by_triune])
@pytest.mark.parametrize("name", NETWORKS)
def test_every_target_runs_it(name: str, quantizer: Any, tmp_path: Path) -> None:
    file = quantizer(NETWORKS[name](), tmp_path)
    for target in ("metis", "metis-m2", "zg330", "buyi"):
        made = triune.compile(file, target=target, output=tmp_path / target)
        assert made.report.share >= 0.99, (target, str(made.report))
    targets = ["metis"]
    for target in deployed.BOARDS:
        made = triune.compile(file, target=target, output=tmp_path / f"{target}_documents", format="icraft")
        assert made.report.share >= 0.99, (target, str(made.report))
        targets.append(target)
    (feeds,) = samples(onnx.load(file), 1)
    found = deployed.differences(file.read_bytes(), feeds, tmp_path, tuple(targets))
    if quantizer is by_triune:
        # Boxes are decoded in reals, whose functions have last bits of their own.
        found = [each for each in found if not each.startswith("ONNX Runtime")]
        for one, other in zip(triune.Session(file).run(feeds), fused(file, feeds), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    assert found == []
