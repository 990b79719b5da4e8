"""Every intermediate result of a network's runs, as text and as files, in the vendor's formats."""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triune._files import append, write_bytes
from triune.errors import FileError
from triune.megenginelite._errors import failure
from triune.megenginelite._graph import DTYPES

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from triune import _native
else:
    from triune.megenginelite._numpy import np

__all__ = ["Dump", "binary", "text"]

_SHOWN = 5
"""How many elements of a result a text shows."""

_MAX_DIM = 7


@dataclass(frozen=True)
class _Variable:
    """A result: numbers of it and of the operator that gave it, as MegEngine counts them, from 0 through both kinds."""

    number: int
    owner: int
    name: str
    kind: str
    operands: list[str]
    value: npt.NDArray[Any]


def _trace(native: _native.Session) -> list[_Variable]:
    found = []
    for index, (name, kind, operands, value) in enumerate(native.trace()):
        # MegEngine has no tensors without axes.
        array = value.reshape(value.shape or (1,))
        kind = "Host2DeviceCopy" if kind == "Input" else kind
        found.append(_Variable(2 * index + 1, 2 * index, name, kind, operands, array))
    return found


@contextmanager
def _named(what: str) -> Iterator[None]:
    """Say what was asked for when a file cannot be written."""
    try:
        yield
    except FileError as error:
        raise FileError(f"{what}: {error}") from None


Dump = Callable[["_native.Session"], None]
"""What writes all results of a session's last run."""


def text(file: str) -> Dump:
    """Open a text file, and return what appends all results of a run to it.

    Raises RuntimeError if the file cannot be written.
    """
    with _named("io_txt_dump"):
        write_bytes(file, b"")

    def dump(native: _native.Session) -> None:
        variables = _trace(native)
        by_name = {variable.name: variable for variable in variables}
        with _named("io_txt_dump"):
            append(file, "".join(_block(variable, by_name) for variable in variables).encode())

    return dump


def _block(variable: _Variable, by_name: dict[str, _Variable]) -> str:
    lines = [
        f"var{variable.number} produced: name={variable.name} layout={_layout(variable.value)} "
        f"owner_opr={variable.name}{{{variable.kind}}} opr{variable.owner}",
        " deps:",
    ]
    for index, name in enumerate(variable.operands):
        operand = by_name.get(name)
        # A constant is no result of the run.
        shown = f"var: <{name}>" if operand is None else f"var{operand.number}: {_elements(operand.value)}"
        lines.append(f"  [i{index}]{shown} s")
    lines.append(f" val: {_elements(variable.value)}{_statistics(variable.value)} s")
    return "\n".join(lines) + "\n"


def _layout(array: npt.NDArray[Any]) -> str:
    strides = [math.prod(array.shape[axis + 1 :]) for axis in range(array.ndim)]
    axes = ",".join(f"{extent}({stride})" for extent, stride in zip(array.shape, strides, strict=True))
    return f"{{{axes} {DTYPES.get(array.dtype.name, (0, array.dtype.name))[1]}}}"


def _elements(array: npt.NDArray[Any]) -> str:
    shown = [f"{float(value):.4g}" for value in array.reshape(-1)[:_SHOWN]]
    return f"[{', '.join(shown + ['...'] * (array.size > _SHOWN))}]"


def _statistics(array: npt.NDArray[Any]) -> str:
    if not array.size:
        return ""
    values = array.reshape(-1).astype(np.float64)
    count = values.size
    total, squares = float(values.sum()), float((values * values).sum())
    found = (
        f"min={values.min():.3g} max={values.max():.3g} mean={total / count:.3g} l2={math.sqrt(squares / count):.3g}"
        if math.isfinite(squares)
        else f"min={values.min():.3g} max={values.max():.3g} mean={total / count:.3g} l2={squares:.3g}"
    )
    if count == 1:
        return f"{found} sd=N/A"
    variance = (squares * count - total * total) / (count * (count - 1))
    return f"{found} sd={math.sqrt(max(variance, 0)) if math.isfinite(variance) else variance:.3g}"


def binary(folder: str) -> Dump:
    """Return what writes all results of a run to a directory, a file for each, named by its number in hexadecimal.

    Raises RuntimeError if there is no such directory.
    """
    if not os.path.isdir(folder):
        raise failure(f"io_bin_dump: there is no directory {folder!r}")

    def dump(native: _native.Session) -> None:
        variables = _trace(native)
        with _named("io_bin_dump"):
            for variable in variables:
                write_bytes(Path(folder, f"{variable.number:06x}"), _record(variable), sync=False)

    return dump


def _record(variable: _Variable) -> bytes:
    """Return a result as MegEngine's tools read it: sizes, element type, extents, name, elements."""
    array = variable.value
    name = f"var={variable.name} owner_opr={variable.kind} owner_opr_inputs={','.join(variable.operands)}"
    # The tools read ASCII.
    encoded = name.encode("ascii", "backslashreplace")
    if array.dtype.name not in DTYPES:
        # int64 and others that MegEngine has no number for: what comes closest.
        array = array.astype(np.int32 if array.dtype.kind in "iu" else np.float32)
    if array.ndim > _MAX_DIM:
        array = array.reshape(-1, *array.shape[array.ndim - _MAX_DIM + 1 :])
    shape = list(array.shape) + [0] * (_MAX_DIM - array.ndim)
    header = struct.pack("<3I7I", len(encoded), DTYPES[array.dtype.name][0], _MAX_DIM, *shape)
    return header + encoded + array.tobytes()
