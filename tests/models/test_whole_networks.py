"""Networks from their papers, compiled for every target: nearly all that they multiply is on the device, in one segment.

The table: python tests/models/whole_networks.py
"""

from __future__ import annotations

from pathlib import Path

import pytest
from beside import load

onnx = pytest.importorskip("onnx")


networks = load(__file__, "whole_networks")


@pytest.mark.parametrize("target", networks.FORMATS)
@pytest.mark.parametrize("name", networks.NETWORKS)
def test_whole_on_the_device(name: str, target: str, tmp_path: Path) -> None:
    file = tmp_path / "net.onnx"
    onnx.save(networks.in_qdq_form(networks.NETWORKS[name]()), file)
    report = networks.measured(file, target, tmp_path / "out")
    assert report.share >= 0.99, report
    assert report.segments == 1
