"""What is told of outputs: noise, however an offset hides it, with what helps, and answers that are none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from quantization_networks import Builder, samples

import triune
from triune import errors
from triune.quantization._agreement import agreements
from triune.quantization._check import check_outputs
from triune.quantization._quantize import advice_on


def test_noise_is_told_with_what_helps() -> None:
    random = np.random.default_rng(11)
    reals = [{"y": random.normal(0, 1, (1, 400)).astype(np.float32)} for _ in range(8)]

    def advice(noise: float, mixed: str | None = None) -> tuple[str, ...]:
        other = [{"y": each["y"] + noise * random.normal(0, 1, (1, 400)).astype(np.float32)} for each in reals]
        return advice_on(check_outputs(reals, other, ["y"]), mixed, lambda _: None)

    # 26 dB, 14 dB, and 4 dB, which is spoiled and told as such.
    assert advice(0.05) == ()
    assert advice(0.6) == ()
    (said,) = advice(0.2)
    assert said.startswith("output 'y' has 14.")
    assert "--mixed" in said
    assert advice(0.2, "float") == ()
    assert advice(0) == ()


def test_offsets_hide_no_noise(tmp_path: Path) -> None:
    """Beside 300, noise as large as what varies is nothing; beside pixels, logits are small."""
    b = Builder(21)
    x = b.node("Flatten", b.node("GlobalAveragePool", b.act(b.conv("image", 16), "relu")))
    weights, offset = b.constant(b.random.normal(0, 2, (16, 1))), b.constant(np.array([300.0]))
    y = b.node("Gemm", x, weights, offset, name="last")
    model = b.save(tmp_path / "offset.onnx", y=y)
    with pytest.warns(errors.QuantizationWarning, match="about what it says always.*--keep-float last"):
        spoiled = triune.quantize(model, calibration=samples(40), output=tmp_path / "q.onnx")
    check = spoiled.checks[0]
    assert check.sqnr > 40 > 3 > check.varied_sqnr
    assert "of what varies" in str(check)
    cured = triune.quantize(model, calibration=samples(40), keep_float=["last"], output=tmp_path / "q.onnx")
    assert cured.checks[0].varied_sqnr > 20

    b = Builder(22)
    x = b.act(b.conv("image", 16), "relu")
    weights = b.random.normal(0, 0.2, (6, 16, 1, 1))
    weights[:2] *= 100
    y = b.node("Conv", x, b.constant(weights), name="head")
    model = b.save(tmp_path / "pixels.onnx", y=y)
    result = triune.quantize(model, calibration=samples(40), output=tmp_path / "q.onnx")
    assert any("4 of 6 channels (axis 1)" in line and "--keep-float head" in line for line in result.advice)
    cured = triune.quantize(model, calibration=samples(40), keep_float=["head"], output=tmp_path / "q.onnx")
    assert not cured.advice


def test_rows_of_places_have_no_classes() -> None:
    """As detectors give them that flatten all places of an image."""
    random = np.random.default_rng(5)
    rows = [random.normal(0, 1, (128, 4)).astype(np.float32) for _ in range(2)]
    sides = ([{"y": values}] for values in rows)
    assert agreements([{"image": np.zeros((1, 3, 8, 8), np.float32)}], *sides, labels=0) == []
    sides = ([{"y": values}] for values in rows)
    (found,) = agreements([{"image": np.zeros((128, 3, 8, 8), np.float32)}], *sides, labels=0)
    assert found.of == 128
