"""Arrays from files: .npy, .npz, images."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from triune._files import opened
from triune.batch._pictures import SUFFIXES, Frame, Preprocess
from triune.errors import ArgumentError, FileError

__all__ = ["Input", "Pixels", "feeds", "load", "load_all", "samples"]

IMAGES = SUFFIXES

Tensor = npt.NDArray[Any]


@dataclass(frozen=True)
class Input:
    """A model's input: name, and shape for one image, channels in front (N, C, H, W) if it is one."""

    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"


@dataclass(frozen=True)
class Pixels:
    """How an image file becomes numbers: (x / scale − mean) / std, channels in the order `color`."""

    color: str
    scale: float
    mean: Sequence[float]
    std: Sequence[float]

    @classmethod
    def of(cls, options: argparse.Namespace) -> Self:
        """Take them from the command line."""
        return cls(options.color, options.scale, options.mean, options.std)


def load(path: Path, inputs: Sequence[Input], pixels: Pixels) -> dict[str, Tensor]:
    """Return an array per input from a .npz (by name), or from a .npy or image if there is one input.

    Images are scaled to the input's size and turned into numbers as `pixels` says.

    Raises ValueError if the file is of another kind or does not hold the inputs.
    """
    kind = path.suffix.lower()
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file")
    if kind == ".npz":
        arrays = _arrays(path)
        for name in arrays:
            if name not in {item.name for item in inputs}:
                raise ValueError(
                    f"{path}: unknown input {name!r}; the model has {', '.join(item.name for item in inputs)}"
                )
        for item in inputs:
            if item.name not in arrays:
                raise ValueError(f"{path}: input {item.name!r}: expected an array, got none")
        return {item.name: arrays[item.name] for item in inputs}
    if len(inputs) != 1:
        names = ", ".join(item.name for item in inputs)
        raise ValueError(f"{path}: expected a .npz file with the arrays {names}, got {kind or 'no extension'}")
    if kind == ".npy":
        return {inputs[0].name: _arrays(path)[""]}
    if kind in IMAGES:
        return {inputs[0].name: image(path, inputs[0], pixels)}
    raise ValueError(f"{path}: expected .npy, .npz or an image, got {kind or 'no extension'}")


def _arrays(path: Path) -> dict[str, Tensor]:
    """Return what a .npz holds, or a .npy under the empty name."""
    try:
        with opened(path) as file:
            found = np.load(file, allow_pickle=False)
            arrays = {"": found} if isinstance(found, np.ndarray) else {name: found[name] for name in found.files}
            for name, array in arrays.items():
                # NumPy gives the bytes of a member that does not begin as arrays do.
                if not isinstance(array, np.ndarray):
                    raise ValueError(f"{name!r} is no array")
            return arrays
    except FileError:
        raise
    except Exception as error:
        # Whatever unpickling, inflating or parsing a damaged file raises.
        raise ValueError(f"{path}: not an array file that can be read: {error}") from None


def load_all(paths: Sequence[Path], inputs: Sequence[Input], pixels: Pixels) -> tuple[dict[str, Tensor], list[str]]:
    """Return what `load` does of several files, and of all in a folder, one behind the other; and a name for each row.

    Several rows of one file have its name and their number.
    """
    files = [file for path in paths for file in ([path] if not path.is_dir() else _inside(path))]
    if len(files) == 1:
        return load(files[0], inputs, pixels), []
    found = [load(file, inputs, pixels) for file in files]
    counts = [_count(arrays, str(file)) for file, arrays in zip(files, found, strict=True)]
    names = [
        str(file) if count == 1 else f"{file}[{index}]"
        for file, count in zip(files, counts, strict=True)
        for index in range(count)
    ]
    for item in inputs:
        shapes = {arrays[item.name].shape[1:]: file for file, arrays in zip(files, found, strict=True)}
        if len(shapes) > 1:
            told = ", ".join(f"{shape} in {file}" for shape, file in list(shapes.items())[:2])
            raise ValueError(f"input {item.name!r}: expected files of one shape, got {told}")
    return {item.name: np.concatenate([arrays[item.name] for arrays in found]) for item in inputs}, names


def _inside(folder: Path) -> list[Path]:
    files = sorted(file for file in folder.rglob("*") if file.suffix.lower() in IMAGES | {".npy", ".npz"})
    if not files:
        raise ValueError(f"{folder}: expected images or arrays (.npy, .npz), got none")
    return files


def image(path: Path, item: Input, pixels: Pixels) -> npt.NDArray[np.float32]:
    """Return an image file as the float32 array of an input, batch 1."""
    if len(item.shape) != 4 or item.shape[1] not in (1, 3):
        raise ValueError(f"input {item.name!r}: expected shape (N, 1 or 3, H, W) for an image, got {item.shape}")
    _, channels, height, width = item.shape
    for option, given in (("--mean", pixels.mean), ("--std", pixels.std)):
        if len(given) not in (1, channels):
            counts = "1 value" if channels == 1 else f"1 or {channels} values"
            raise ValueError(f"{option}: expected {counts} for input {item.name!r}, got {len(given)}")
    how = Preprocess(
        scale=pixels.scale,
        mean=tuple(pixels.mean),
        std=tuple(pixels.std),
        color="bgr" if pixels.color == "bgr" else "rgb",
    )
    result = np.empty((1, channels, height, width), np.float32)
    try:
        how.write(path, Frame(item.name, channels, height, width, "float32", False), result[0])
    except ArgumentError as error:
        raise ValueError(str(error)) from None
    return result


def samples(path: Path, inputs: Sequence[Input], pixels: Pixels) -> Iterator[dict[str, Tensor]]:
    """Return calibration samples of batch 1: from a .npz or .npy with many, from an image, or a directory of images."""
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.suffix.lower() in IMAGES)
        if not files:
            raise ValueError(f"{path}: expected images, got none")
        return (load(file, inputs, pixels) for file in files)
    arrays = load(path, inputs, pixels)
    count = _count(arrays, str(path))
    return ({name: array[index : index + 1] for name, array in arrays.items()} for index in range(count))


def feeds(arrays: Mapping[str, Tensor], inputs: Sequence[Input]) -> dict[str, Tensor]:
    """Check arrays against the inputs: real numbers, all finite, the shape behind the batch; return the inputs' dtypes."""
    checked: dict[str, Tensor] = {}
    for item in inputs:
        array = arrays[item.name]
        where = f"input {item.name!r}"
        if array.ndim != len(item.shape) or array.shape[1:] != item.shape[1:]:
            expected = ", ".join(["N", *map(str, item.shape[1:])])
            raise ValueError(f"{where}: expected shape ({expected}), got {array.shape}")
        if array.dtype != item.dtype and not (array.dtype.kind in "buif" and np.dtype(item.dtype).kind == "f"):
            raise ValueError(f"{where}: expected dtype {item.dtype}, got {array.dtype}")
        with np.errstate(over="ignore"):
            checked[item.name] = np.ascontiguousarray(array, item.dtype)
        if not np.isfinite(checked[item.name]).all():
            raise ValueError(f"{where}: expected finite values ({item.dtype}), got NaN or infinity")
    _count(checked, "inputs")
    return checked


def _count(arrays: Mapping[str, Tensor], where: str) -> int:
    """Return how many images there are in each of the arrays."""
    counts = {len(array) if array.ndim else 0 for array in arrays.values()}
    if len(counts) != 1:
        raise ValueError(f"{where}: expected the same number of images in each array, got {sorted(counts)}")
    (count,) = counts
    if count == 0:
        raise ValueError(f"{where}: expected at least one image, got none")
    return count
