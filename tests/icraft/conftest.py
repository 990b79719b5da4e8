"""Networks that several tests use."""

from __future__ import annotations

from pathlib import Path

import pytest
from beside import load

import triune
from triune.models import DIGITS_INT8

load(__file__, "xir_networks")
load(__file__, "npu_networks")
load(__file__, "float_networks")


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return folders with the embedded network compiled for ``zg330`` and ``buyi``."""
    folders = {}
    for target in ("zg330", "buyi"):
        folders[target] = tmp_path_factory.mktemp(target)
        triune.compile(DIGITS_INT8, target=target, output=folders[target], format="icraft")
    return folders


@pytest.fixture(scope="session")
def convolutions(test_data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return folders with SqueezeNet, whose joints are written in place, compiled for ``zg330`` and ``buyi``."""
    folders = {}
    for target in ("zg330", "buyi"):
        folders[target] = tmp_path_factory.mktemp(target)
        model = test_data / "models/onnx/squeezenet_u8s8_qdq.onnx"
        triune.compile(model, target=target, output=folders[target], format="icraft")
    return folders
