"""One simulated CUDA device, whatever the environment says, and some small models."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest


def _module(name: str) -> Any:
    """Load a file of this folder for the tests to import: test folders are no packages here."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


models = _module("lite_models")
_module("mge_files")


@pytest.fixture(autouse=True)
def default_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate one CUDA device, whatever the environment says."""
    monkeypatch.setenv("TRIUNE_LITE_DEVICES", "cuda=1")


@pytest.fixture(scope="session")
def adder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return c = a + b on (2, 3)."""
    return models.add(tmp_path_factory.mktemp("adder") / "add.onnx", [2, 3])


@pytest.fixture(scope="session")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return ``data`` (1, 3, 16, 16) to ``prob`` (1, 10)."""
    return models.classifier(tmp_path_factory.mktemp("classifier") / "net.onnx")


@pytest.fixture(scope="session")
def flexible(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the classifier for any batch and size."""
    return models.classifier(tmp_path_factory.mktemp("flexible") / "net.onnx", "N", "S")
