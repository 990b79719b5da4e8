"""One simulated CUDA device, whatever the environment says, and some small models."""

from __future__ import annotations

from pathlib import Path

import pytest
from beside import load

models = load(__file__, "lite_models")
load(__file__, "mge_files")


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
