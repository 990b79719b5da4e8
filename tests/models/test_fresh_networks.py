"""Networks of families that no test was written around: nearly all that they multiply is on the device, in one segment.

The table: python tests/models/fresh_networks.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from beside import load

import triune
from triune.axelera.runtime.op import Load

onnx = pytest.importorskip("onnx")

networks = load(__file__, "fresh_networks")


@pytest.mark.parametrize("target", networks.whole.FORMATS)
@pytest.mark.parametrize("name", networks.FRESH)
def test_whole_on_the_device(name: str, target: str, tmp_path: Path) -> None:
    file = tmp_path / "net.onnx"
    onnx.save(networks.whole.in_qdq_form(networks.FRESH[name]()), file)
    report = networks.whole.measured(file, target, tmp_path / "out")
    assert report.share >= 0.99, report
    assert report.segments == 1


@pytest.mark.parametrize("name", networks.FRESH)
def test_a_package_has_a_sessions_bits(name: str, tmp_path: Path) -> None:
    model = networks.whole.in_qdq_form(networks.FRESH[name]())
    onnx.save(model, tmp_path / "net.onnx")
    triune.compile(tmp_path / "net.onnx", output=tmp_path / "out")
    shape = [extent.dim_value for extent in model.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(4).standard_normal(shape).astype(np.float32)
    expected = triune.Session(tmp_path / "net.onnx").run({"x": x})
    package = Load(tmp_path / "out")
    found = package(x)
    for own, values in zip([found] if len(expected) == 1 else list(found), expected, strict=True):
        np.testing.assert_array_equal(own, values)
    package.release()
