"""Detectors with their decoding inside, and other tensors of one, five and six axes at a card's border: they compile for every
target, nearly all that they multiply is on the device, and results have the host's bits."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from beside import load

import triune

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
    np.savez(folder / "samples.npz", x=np.stack([each["x"] for each in samples(model, 4)]))
    made = folder / "net.onnx"
    command = ["quantize", folder / "float.onnx", "--calibrate", folder / "samples.npz", "-o", made]
    subprocess.run([sys.executable, "-m", "triune", *map(str, command)], check=True, capture_output=True)
    return made


@pytest.mark.parametrize("quantizer", [by_onnxruntime, by_triune])
@pytest.mark.parametrize("name", NETWORKS)
def test_every_target_runs_it(name: str, quantizer: Any, tmp_path: Path) -> None:
    file = quantizer(NETWORKS[name](), tmp_path)
    for target in ("metis", "metis-m2", "zg330", "buyi"):
        form = "icraft" if target in deployed.BOARDS else "package"
        for format in {form, "package"}:
            made = triune.compile(file, target=target, output=tmp_path / f"{target}_{format}", format=format)
            assert made.report.share >= 0.99, (target, format, str(made.report))
    (feeds,) = samples(onnx.load(file), 1)
    assert deployed.differences(file.read_bytes(), feeds, tmp_path, deployed.TARGETS) == []
