"""Networks from their papers, compiled for every target: nearly all that they multiply is on the device, in one segment.

The table: python tests/models/whole_networks.py
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

import triune

onnx = pytest.importorskip("onnx")


def _networks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("whole_networks", Path(__file__).with_name("whole_networks.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


networks = _networks()
NO_NAME = {("unet-asymmetric", "zg330"), ("unet-asymmetric", "buyi")}
"""What Icraft's networks have no operator for: linear resampling at asymmetric coordinates."""


@pytest.mark.parametrize("target", networks.FORMATS)
@pytest.mark.parametrize("name", networks.NETWORKS)
def test_whole_on_the_device(name: str, target: str, tmp_path: Path) -> None:
    file = tmp_path / "net.onnx"
    onnx.save(networks.in_qdq_form(networks.NETWORKS[name]()), file)
    if (name, target) in NO_NAME:
        with pytest.raises(triune.errors.UnsupportedError, match="Resize"):
            networks.measured(file, target, tmp_path / "out")
        return
    report = networks.measured(file, target, tmp_path / "out")
    assert report.share >= 0.99, report
    assert report.segments == 1
