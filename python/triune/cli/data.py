"""Arrays from files: .npy, .npz, images."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Input", "feeds", "load", "samples"]

IMAGES = {".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"}

Tensor = npt.NDArray[Any]


@dataclass(frozen=True)
class Input:
    """A model's input: name, and shape for one image, channels in front (N, C, H, W) if it is one."""

    name: str
    shape: tuple[int, ...]


def load(path: Path, inputs: Sequence[Input], mean: Sequence[float], std: Sequence[float]) -> dict[str, Tensor]:
    """Return an array per input from a .npz (by name), or from a .npy or image if there is one input.

    Images are scaled to the input's size, divided by 255 and normalised: (x − mean) / std.

    Raises ValueError if the file is of another kind or does not hold the inputs.
    """
    kind = path.suffix.lower()
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file")
    if kind == ".npz":
        with np.load(path) as file:
            arrays = {name: file[name] for name in file.files}
        if len(inputs) == 1 and len(arrays) == 1:
            return {inputs[0].name: next(iter(arrays.values()))}
        missing = [item.name for item in inputs if item.name not in arrays]
        if missing:
            raise ValueError(f"{path}: expected arrays {', '.join(missing)}, got {', '.join(arrays)}")
        return {item.name: arrays[item.name] for item in inputs}
    if len(inputs) != 1:
        names = ", ".join(item.name for item in inputs)
        raise ValueError(f"{path}: expected a .npz file with the arrays {names}, got {kind or 'no extension'}")
    if kind == ".npy":
        return {inputs[0].name: np.load(path)}
    if kind in IMAGES:
        return {inputs[0].name: image(path, inputs[0], mean, std)}
    raise ValueError(f"{path}: expected .npy, .npz or an image, got {kind or 'no extension'}")


def image(path: Path, item: Input, mean: Sequence[float], std: Sequence[float]) -> npt.NDArray[np.float32]:
    """Return an image file as the float32 array of an input, batch 1, values (x / 255 − mean) / std."""
    try:
        from PIL import Image
    except ImportError:
        raise ImportError(f"{path}: images need the extra 'cli': pip install 'triune[cli]'") from None
    if len(item.shape) != 4 or item.shape[1] not in (1, 3):
        raise ValueError(f"input {item.name!r}: expected shape (N, 1 or 3, H, W) for an image, got {item.shape}")
    _, channels, height, width = item.shape
    with Image.open(path) as picture:
        sized = picture.convert("L" if channels == 1 else "RGB").resize((width, height), Image.Resampling.BILINEAR)
    pixels = np.asarray(sized, np.float32).reshape(height, width, channels) / np.float32(255)
    normal = (pixels - np.asarray(mean, np.float32)) / np.asarray(std, np.float32)
    return np.ascontiguousarray(normal.transpose(2, 0, 1)[None], np.float32)


def samples(
    path: Path, inputs: Sequence[Input], mean: Sequence[float], std: Sequence[float]
) -> Iterator[dict[str, Tensor]]:
    """Yield calibration samples of batch 1: from a .npz or .npy with many, from an image, or a directory of images."""
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.suffix.lower() in IMAGES)
        if not files:
            raise ValueError(f"{path}: expected images, got none")
        for file in files:
            yield load(file, inputs, mean, std)
        return
    arrays = load(path, inputs, mean, std)
    counts = {len(array) for array in arrays.values()}
    if len(counts) != 1:
        raise ValueError(f"{path}: expected arrays with the same number of samples, got {sorted(counts)}")
    for index in range(counts.pop()):
        yield {name: array[index : index + 1] for name, array in arrays.items()}


def feeds(arrays: dict[str, Tensor], inputs: Sequence[Input]) -> dict[str, Tensor]:
    """Check arrays against the inputs: float32, the shape behind the batch."""
    checked: dict[str, Tensor] = {}
    for item in inputs:
        array = arrays[item.name]
        if array.ndim != len(item.shape) or array.shape[1:] != item.shape[1:]:
            expected = ", ".join(["N", *map(str, item.shape[1:])])
            raise ValueError(f"input {item.name!r}: expected shape ({expected}), got {array.shape}")
        checked[item.name] = np.ascontiguousarray(array)
    if len({len(array) for array in checked.values()}) > 1:
        raise ValueError("inputs: expected the same number of images in each")
    return checked
