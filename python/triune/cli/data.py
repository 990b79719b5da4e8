"""Arrays from files: .npy, .npz, images."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt

from triune._arrays import array_of_file, arrays_of_file
from triune._values import are_strings, given, has_rows
from triune._video import SUFFIXES as VIDEOS
from triune._video import Video, is_video
from triune.batch._pictures import ANIMATIONS, SUFFIXES, Preprocess, frames_of, left_open
from triune.errors import ArgumentError

__all__ = ["Input", "feeds", "files_below", "load", "load_all", "pictures_of"]

IMAGES = SUFFIXES

MOST = 4 << 30
"""Bytes of inputs that the pictures of one file become at most: a video has no end that its first picture shows."""

MOST_PLACES = 1 << 20
"""Files and folders that are looked at below one: who names a whole disk meant something else."""

Tensor = npt.NDArray[Any]
_T = TypeVar("_T")


@dataclass(frozen=True)
class Input:
    """A model's input: name, and shape for one image, channels in front (N, C, H, W) if it is one."""

    name: str
    shape: tuple[int | str, ...] | None
    """None: any number of axes. An extent that is open in front is 1; others have names, and are as the arrays have them."""
    dtype: str = "float32"
    kind: str = "tensor"
    """As `ValueInfo.kind` has it."""
    finite: bool = True
    """Whether infinity and NaN are refused."""

    @classmethod
    def of(
        cls, name: str, dtype: str, shape: Sequence[int | str], kind: str = "tensor", *, finite: bool = True
    ) -> Self:
        """Return a model's input by what the model says of it."""
        extents = tuple(1 if axis == 0 and isinstance(each, str) else each for axis, each in enumerate(shape))
        return cls(name, None if tuple(shape) == ("...",) else extents, dtype, kind, finite)

    @property
    def is_array(self) -> bool:
        """Whether it is an array at all."""
        return self.kind in ("tensor", "strings")

    @property
    def has_rows(self) -> bool:
        """Whether it is an array whose first axis is that of the images."""
        return self.is_array and (self.shape is None or has_rows(self.shape))

    @property
    def step(self) -> int:
        """How many rows one run takes."""
        front = self.shape[0] if self.shape else 1
        return front if isinstance(front, int) else 1

    def fits(self, extents: tuple[int, ...]) -> bool:
        """Return whether an array has these behind its axis of images, or without one all of them."""
        own = (self.shape or ())[self.has_rows :]
        return len(own) == len(extents) and all(
            isinstance(wanted, str) or wanted == extent for wanted, extent in zip(own, extents, strict=True)
        )

    def is_stack(self, array: Any) -> bool:
        """Whether an array for an input without rows has one for each of several runs."""
        return self.is_array and not self.has_rows and bool(array.ndim > len(self.shape or ()))

    def stacked(self, array: Tensor) -> Tensor:
        """Return an array for an input without rows as a stack of one, unless it is a stack."""
        return array if self.has_rows or self.is_stack(array) else array[None]


def load(path: Path, inputs: Sequence[Input], how: Preprocess) -> dict[str, Tensor]:
    """Return an array per input from a .npz (by name), or from a .npy, image or video if there is one input.

    Images are scaled to the input's size and turned into numbers as `how` says.

    Raises ValueError if the file is of another kind or does not hold the inputs.
    """
    kind = path.suffix.lower()
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file")
    if kind == ".npz":
        arrays = _of(path, arrays_of_file)
        found: dict[str, Any] = {}
        used: set[str] = set()
        faults = []
        for item in inputs:
            try:
                found[item.name], own = given(item.name, item.kind, arrays)
                used |= own
            except ValueError as error:
                faults.append(str(error))
        for name in arrays:
            if name not in used and name not in {item.name for item in inputs}:
                raise ValueError(
                    f"{path}: unknown input {name!r}; the model has {', '.join(item.name for item in inputs)}"
                )
        if faults:
            raise ValueError(f"{path}: {faults[0]}")
        return found
    if len(inputs) != 1:
        names = ", ".join(item.name for item in inputs)
        raise ValueError(f"{path}: expected a .npz file with the arrays {names}, got {kind or 'no extension'}")
    if not inputs[0].has_rows and inputs[0].kind not in ("tensor", "optional"):
        raise ValueError(f"{path}: input {inputs[0].name!r} is of kind {inputs[0].kind!r}; expected a .npz file")
    if kind == ".npy":
        return {inputs[0].name: _of(path, array_of_file)}
    if kind in IMAGES | VIDEOS:
        return {inputs[0].name: image(path, inputs[0], how)}
    raise ValueError(f"{path}: expected .npy, .npz, an image or a video, got {kind or 'no extension'}")


def _of(path: Path, read: Callable[[Path], _T]) -> _T:
    try:
        return read(path)
    except ArgumentError as error:
        raise ValueError(str(error)) from None


def pictures_of(path: Path) -> Iterator[Any]:
    """Yield the pictures of an image, an animation or a video, as Pillow's. Raises as `frames_of` and `Video` do."""
    if not is_video(path):
        yield from (picture for _, picture in frames_of(path))
        return
    try:
        from PIL import Image
    except ImportError:
        raise ImportError("images need the extra 'images': pip install 'triune[images]'") from None
    with Video(path) as video:
        for each in video:
            yield Image.fromarray(each.pixels)


def load_all(
    paths: Sequence[Path], inputs: Sequence[Input], how: Preprocess
) -> tuple[dict[str, Tensor], list[tuple[Path, int]], list[str]]:
    """Return what `load` does of several files, and of all in a folder, one behind the other.

    And of each row the file and its number in there; and a name, unless there is one file: its own, with the number if it has
    several.
    """
    files = [file for path in paths for file in ([path] if not path.is_dir() else _inside(path))]
    if len(files) == 1:
        arrays = load(files[0], inputs, how)
        first = next((item for item in inputs if hasattr(arrays[item.name], "ndim")), None)
        array = first.stacked(arrays[first.name]) if first and first.is_array else arrays[first.name] if first else None
        rows = len(array) if array is not None and array.ndim else 0
        return arrays, [(files[0], row) for row in range(rows)], []
    for item in inputs:
        if not item.is_array:
            raise ValueError(f"input {item.name!r} has no rows that several files could give; expected one file")
    found = []
    counts = []
    for file in files:
        arrays = load(file, inputs, how)
        found.append({item.name: item.stacked(arrays[item.name]) for item in inputs})
        counts.append(_count(_with_rows(found[-1], inputs) or found[-1], str(file)))
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
    places = [(file, index) for file, count in zip(files, counts, strict=True) for index in range(count)]
    return {item.name: np.concatenate([arrays[item.name] for arrays in found]) for item in inputs}, places, names


def _with_rows(arrays: Mapping[str, Tensor], inputs: Sequence[Input]) -> dict[str, Tensor]:
    return {item.name: arrays[item.name] for item in inputs if item.has_rows}


def _inside(folder: Path) -> list[Path]:
    return files_below(folder, IMAGES | VIDEOS | {".npy", ".npz"}, "images, videos or arrays (.npy, .npz)")


def files_below(folder: Path, suffixes: Set[str], what: str) -> list[Path]:
    """Return the files with these endings in a folder and all below it, in order.

    Raises ValueError if there are none, or there is more below the folder than `MOST_PLACES`.
    """
    files = []
    for place, file in enumerate(folder.rglob("*")):
        if place == MOST_PLACES:
            raise ValueError(
                f"{folder}: there are more than {MOST_PLACES} files below it; name the folder of the {what}"
            )
        if file.suffix.lower() in suffixes:
            files.append(file)
    if not files:
        raise ValueError(f"{folder}: expected {what}, got none")
    return sorted(files)


def image(path: Path, item: Input, how: Preprocess) -> Tensor:
    """Return an image file as the array of an input; a batch of 1, of an animation or video as many as it has pictures."""
    frame = how.frame(item.name, item.dtype, item.shape or ())
    if frame is None:
        if fault := left_open(item.name, item.dtype, item.shape or ()):
            raise ValueError(fault)
        wanted = "(N, H, W, 2)" if how.color == "yuyv" else "(N, 1 or 3, H, W)"
        raise ValueError(f"input {item.name!r}: expected shape {wanted} for an image, got {item.shape}")
    try:
        how.check(frame)
    except ArgumentError as error:
        raise ValueError(f"--{error}") from None
    parts: list[Tensor] = []
    several = path.suffix.lower() in ANIMATIONS or is_video(path)
    try:
        # The pictures of an animation one by one.
        for picture in pictures_of(path) if several else [path]:
            if parts and (len(parts) + 1) * parts[0].nbytes > MOST:
                raise ValueError(
                    f"{path}: more than {len(parts)} pictures, which are {MOST >> 30} GiB of inputs; triune predict takes a "
                    "video of any length, a few pictures at a time"
                )
            parts.append(np.empty((1, *frame.shape), frame.dtype))
            how.write(picture, frame, parts[-1][0])
    except ArgumentError as error:
        raise ValueError(str(error)) from None
    if not parts:
        raise ValueError(f"{path}: there are no pictures in it")
    return np.concatenate(parts)


def feeds(arrays: Mapping[str, Any], inputs: Sequence[Input]) -> dict[str, Any]:
    """Check arrays against the inputs: real numbers, finite if need be, the shape behind the batch; return the inputs' dtypes."""
    checked: dict[str, Any] = {}
    for item in inputs:
        array = arrays[item.name]
        where = f"input {item.name!r}"
        if not isinstance(array, np.ndarray):
            checked[item.name] = array
            continue
        if item.shape is None or item.kind not in ("tensor", "strings"):
            pass
        elif not item.has_rows:
            if not item.fits(array.shape) and not item.fits(array.shape[1:]):
                one = ", ".join(map(str, item.shape))
                several = ", ".join(["N", *map(str, item.shape)])
                raise ValueError(f"{where}: expected shape ({one}), or ({several}) for N runs, got {array.shape}")
        elif not array.ndim or not item.fits(array.shape[1:]):
            expected = ", ".join(["N", *map(str, item.shape[1:])])
            raise ValueError(f"{where}: expected shape ({expected}), got {array.shape}")
        if item.kind == "strings":
            if not are_strings(array):
                raise ValueError(f"{where}: expected strings, got {array.dtype}")
            checked[item.name] = array.astype(object)
            continue
        if array.dtype != item.dtype and not (array.dtype.kind in "buif" and np.dtype(item.dtype).kind == "f"):
            raise ValueError(f"{where}: expected dtype {item.dtype}, got {array.dtype}")
        with np.errstate(over="ignore"):
            # What is a number stays one.
            checked[item.name] = np.asarray(array, item.dtype, order="C")
        if item.finite and not np.isfinite(checked[item.name]).all():
            raise ValueError(f"{where}: expected finite values ({item.dtype}), got NaN or infinity")
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
