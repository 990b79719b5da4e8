"""Virtual cards that nobody else uses, and a small compiled network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import triune
from triune.axelera.runtime import Context, Model
from triune.models import DIGITS_INT8, digits_held_out

Tensor = npt.NDArray[Any]


@pytest.fixture(autouse=True)
def own_cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test cards of its own: the default ones, in a fresh runtime directory."""
    monkeypatch.setenv("TRIUNE_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.delenv("TRIUNE_CARDS", raising=False)


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the model.json of the digits network, batch 1."""
    return triune.compile(DIGITS_INT8, target="metis", output=tmp_path_factory.mktemp("digits")) / "model.json"


@pytest.fixture(scope="session")
def package_of_two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the model.json of the digits network, batch 2."""
    folder = tmp_path_factory.mktemp("digits2")
    return triune.compile(DIGITS_INT8, target="metis", output=folder, batch=2) / "model.json"


@pytest.fixture
def context() -> Iterator[Context]:
    """Return a context that is released in the end."""
    with Context() as context:
        yield context


@pytest.fixture
def model(context: Context, package: Path) -> Model:
    """Return the digits network."""
    return context.load_model(package)


@pytest.fixture(scope="session")
def images() -> npt.NDArray[np.float32]:
    """Return 24 scans that the network was not trained on, NHWC."""
    return digits_held_out()[0][:24]


@pytest.fixture
def frames(model: Model, images: npt.NDArray[np.float32]) -> list[Tensor]:
    """Return the scans as the card takes them."""
    info = model.inputs()[0]
    return [info.quantize(image[None]) for image in images]


@pytest.fixture
def results(context: Context, model: Model, frames: list[Tensor]) -> list[Tensor]:
    """Return what the card makes of them, computed one by one."""
    with context.device_connect() as connection, connection.load_model_instance(model) as instance:
        outputs = [np.zeros(model.outputs()[0].shape, np.int8) for _ in frames]
        for frame, output in zip(frames, outputs, strict=True):
            instance.run([frame], [output])
    assert len({output.tobytes() for output in outputs}) > len(outputs) // 2, "frames must be told apart"
    return outputs


@pytest.fixture
def output(model: Model) -> Callable[[], Tensor]:
    """Return what makes an output array, filled with a value that no test expects."""
    shape = model.outputs()[0].shape
    return lambda: np.full(shape, 77, np.int8)
