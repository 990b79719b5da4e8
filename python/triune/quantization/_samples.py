"""Samples, each checked against the model's inputs before anything sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from triune._session import Feeds
from triune._text import short
from triune.quantization._model import Array

__all__ = ["Expected", "Samples", "uniform"]


@dataclass(frozen=True)
class Expected:
    """What an input takes."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int | str, ...] | None
    """Extents, or names of those that are open; None: the model says nothing of the rank."""

    @classmethod
    def of(cls, value: Any) -> Self:
        """Take it from a model's description of an input."""
        import onnx

        tensor = value.type.tensor_type
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type))
        if not tensor.HasField("shape"):
            return cls(value.name, dtype, None)
        return cls(value.name, dtype, tuple(dim.dim_value or dim.dim_param or "?" for dim in tensor.shape.dim))

    def check(self, where: str, array: object) -> Array:
        """Return `array` if it fits, else raise ValueError."""
        where = f"{where}input {self.name!r}: "
        if not isinstance(array, np.ndarray):
            raise ValueError(f"{where}expected a numpy array, got {type(array).__name__}")
        if array.dtype != self.dtype:
            raise ValueError(f"{where}expected dtype {self.dtype}, got {array.dtype}")
        if self.shape is not None and (
            array.ndim != len(self.shape)
            or any(isinstance(n, int) and n != m for n, m in zip(self.shape, array.shape, strict=True))
        ):
            raise ValueError(f"{where}expected shape ({', '.join(map(str, self.shape))}), got {array.shape}")
        if array.size == 0:
            raise ValueError(f"{where}expected no empty axis, got shape {array.shape}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"{where}expected finite values, got NaN or infinity")
        return array


def uniform(arrays: Mapping[str, Array]) -> tuple[str, Any] | None:
    """Return the first of a sample's inputs of floats and its value, if they all have one value everywhere.

    One input among others may well be so, and a number by itself is.
    """
    floats = {name: array for name, array in arrays.items() if array.dtype.kind == "f" and array.size > 1}
    if not floats or not all((array == array.flat[0]).all() for array in floats.values()):
        return None
    name, array = next(iter(floats.items()))
    return name, array.flat[0]


class Samples:
    """The samples, checked one by one as they are taken; it remembers how that failed."""

    def __init__(self, samples: Iterable[Feeds], inputs: Mapping[str, Expected], say: Callable[[str], None]) -> None:
        if not isinstance(samples, Iterable):
            raise ValueError(f"calibration: expected an iterable of samples, got {type(samples).__name__}")
        if isinstance(samples, Mapping):
            raise ValueError(
                "calibration: expected an iterable of samples, each a dict of arrays by input name, got one dict"
            )
        self.failure: BaseException | None = None
        self._samples = samples
        self._inputs = inputs
        self._say = say

    def __iter__(self) -> Iterator[dict[str, Array]]:
        try:
            yield from self._checked()
        except GeneratorExit:
            raise
        except BaseException as error:
            self.failure = error
            raise

    def _checked(self) -> Iterator[dict[str, Array]]:
        count = 0
        # What all samples are everywhere, until one is not.
        same: set[tuple[str, Any] | None] = set()
        for count, sample in enumerate(self._samples, 1):
            self._say(f"calibrating: sample {count}")
            where = f"calibration: sample {count}: "
            if not isinstance(sample, Mapping):
                raise ValueError(f"{where}expected a dict of arrays by input name, got {type(sample).__name__}")
            if set(sample) != set(self._inputs):
                names = ", ".join(map(str, sample)) or "none"
                raise ValueError(f"{where}expected the inputs {', '.join(self._inputs)}, got {names}")
            checked = {name: expected.check(where, sample[name]) for name, expected in self._inputs.items()}
            same.add(uniform(checked))
            yield checked
        if count == 0:
            raise ValueError("calibration: expected at least one sample, got none")
        if len(same) == 1 and (found := same.pop()) is not None:
            raise ValueError(
                short(
                    f"calibration: input {found[0]!r}: every sample has the value {found[1]} everywhere, which says nothing of "
                    "the network's ranges; give samples like its real inputs"
                )
            )
