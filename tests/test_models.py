"""The embedded network: the committed files do what the training script said of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

MODELS = Path(__file__).resolve().parent.parent / "python" / "triune" / "models"
REPORT = json.loads((MODELS / "digits.json").read_text())


@pytest.fixture(scope="module")
def held_out() -> tuple[np.ndarray, np.ndarray]:
    with np.load(MODELS / "digits_heldout.npz") as data:
        return data["images"], data["labels"]


def test_files_are_small() -> None:
    assert sum(path.stat().st_size for path in MODELS.glob("*.onnx")) <= 200_000


def test_held_out_images_are_a_quarter_at_least_and_of_every_class(held_out: tuple[np.ndarray, np.ndarray]) -> None:
    images, labels = held_out
    assert images.shape == (REPORT["held_out_images"], 8, 8)
    assert images.dtype == np.uint8
    assert images.max() == 16
    assert np.bincount(labels, minlength=10).min() > 40
    assert len(images) >= 0.25 * (len(images) + REPORT["training_images"])


def test_held_out_images_were_not_trained_on(held_out: tuple[np.ndarray, np.ndarray]) -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    every = datasets.load_digits().images.astype(np.uint8).reshape(-1, 64)
    mine = {image.tobytes() for image in held_out[0]}
    assert len(mine) == len(held_out[0])
    rest = {image.tobytes() for image in every} - mine
    assert len(rest) == REPORT["training_images"]


@pytest.mark.parametrize("kind", ["f32", "int8"])
def test_accuracy_is_the_reported_one(held_out: tuple[np.ndarray, np.ndarray], kind: str) -> None:
    ort = pytest.importorskip("onnxruntime")
    images, labels = held_out
    session = ort.InferenceSession(MODELS / f"digits_{kind}.onnx", providers=["CPUExecutionProvider"])
    (logits,) = session.run(["logits"], {"image": (images / 16).astype(np.float32)[:, None]})
    right = float((logits.argmax(1) == labels).mean())
    assert right >= 0.97
    # Another CPU may round a float network differently, and so turn an image or two.
    assert right == pytest.approx(REPORT[f"{kind}_accuracy"], abs=2.5 / len(labels))
