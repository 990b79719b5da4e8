"""Any model file on this machine's CPU. The public names are those of `triune`."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping
from typing import Any, NamedTuple, SupportsIndex

import numpy.typing as npt

from triune import _native
from triune.errors import ArgumentError

__all__ = ["Feeds", "Session", "ValueInfo"]

Feeds = Mapping[str, npt.NDArray[Any]]
"""An array per input of a model, batch included, by the input's name: what `Session.run` takes, and one sample of
`triune.compile`'s calibration."""


class ValueInfo(NamedTuple):
    """An input or output of a model."""

    name: str
    """Its name, the key in `Session.run`'s feeds."""
    dtype: str
    """The element type by numpy's name, such as ``float32``."""
    shape: tuple[int | str, ...]
    """An int per axis, or a name where the model leaves the extent open; ``("...",)`` where it leaves the number of axes open."""


class Session:
    """A model, int8 or float, on this machine's CPU.

    `model` is a path or the bytes of an ONNX file (int8 networks in QDQ form) or of a bare MegEngine model, told apart by
    their content; bytes cannot refer to external data. `threads` compute one run: 1 by
    default, 0 for every CPU. Results do not depend on their number.

    A model without open extents is planned at once. Where it leaves an extent open, such as the batch, a run with other
    extents than before takes the time to plan for them; some plans are kept. So it is with extents that depend on data, as
    behind ONNX's NonZero and NonMaxSuppression: what follows is planned when they are known.

    Raises `triune.errors.FileError` if the file cannot be read, `ArgumentError` if it is no such model, is damaged, or
    `threads` is negative, `UnsupportedError` if it holds an operator that does not run here.
    """

    def __init__(self, model: str | os.PathLike[str] | bytes, *, threads: int = 1) -> None:
        """Open the model."""
        if isinstance(threads, bool) or not isinstance(threads, SupportsIndex):
            raise ArgumentError(f"threads: expected an int, got {threads!r}")
        count = operator.index(threads)
        if not 0 <= count <= _MOST_THREADS:
            raise ArgumentError(f"threads: expected 0 (every CPU) to {_MOST_THREADS}, got {count}")
        self._native = _native.Session(model, threads=count)
        self._source = f"{len(model)} bytes" if isinstance(model, bytes) else repr(os.fspath(model))
        self._inputs = [ValueInfo(name, dtype, tuple(shape)) for name, dtype, shape in self._native.inputs]
        self._outputs = [ValueInfo(name, dtype, tuple(shape)) for name, dtype, shape in self._native.outputs]

    @property
    def inputs(self) -> list[ValueInfo]:
        """Name, dtype and shape of each input, in the model's order."""
        return list(self._inputs)

    @property
    def outputs(self) -> list[ValueInfo]:
        """Name, dtype and shape of each output, in the order of `run`'s results."""
        return list(self._outputs)

    def run(self, feeds: Feeds) -> list[npt.NDArray[Any]]:
        """Compute every output from an array per input, given by name; return them in the order of `outputs`.

        Arrays are C-contiguous, of exactly the inputs' dtypes, and of their shapes with any extent, 0 included, where
        that is open. Results are new arrays of the outputs' dtypes. Other Python threads go on meanwhile; calls from
        several threads run one after the other.

        Raises `triune.errors.ArgumentError` if a name is unknown or missing, or an array does not fit: it names the
        input, what was expected and what came; `UnsupportedError` if the model does not run with such extents.
        """
        if not isinstance(feeds, dict):
            if not isinstance(feeds, Mapping):
                raise ArgumentError(f"feeds: expected a dict of arrays by input name, got {type(feeds).__name__}")
            feeds = dict(feeds)
        return self._native.run(feeds)

    def __repr__(self) -> str:
        """Return the source, inputs and outputs."""
        inputs, outputs = (", ".join(map(_text, infos)) for infos in (self._inputs, self._outputs))
        return f"<triune.Session {self._source}: {inputs} -> {outputs}>"


_MOST_THREADS = 1024
"""More are a mistake."""


def _text(info: ValueInfo) -> str:
    return f"{info.name} {info.dtype} ({', '.join(map(str, info.shape))})"


# Where users find them.
for _public in (Session, ValueInfo):
    _public.__module__ = "triune"
