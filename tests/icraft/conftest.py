"""Networks that several tests use."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

import triune
from triune.models import DIGITS_INT8


def _importable(name: str) -> None:
    """Let tests import a module beside them: test folders are no packages here."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


_importable("xir_networks")
_importable("npu_networks")


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
