"""What a network shows of its inside: intermediate results, times, and its memory plan, in the vendor's formats."""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from triune import _native
else:
    from triune.megenginelite._numpy import np

__all__ = ["binary", "enable_profile", "text", "write_memory", "write_profile"]

_SHOWN = 5
"""How many elements of a result a text shows."""

_DTYPES = {
    "float32": (0, "Float32"),
    "uint8": (1, "Uint8"),
    "int8": (2, "Int8"),
    "int16": (3, "Int16"),
    "int32": (4, "Int32"),
    "float16": (9, "Float16"),
    "bool": (18, "Bool"),
    "uint16": (19, "Uint16"),
}
"""MegEngine's numbers and names of element types."""

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


def _trace(native: _native.Network) -> list[_Variable]:
    found = []
    for index, (name, kind, operands, value) in enumerate(_method(native, "trace", "a dump")()):
        # MegEngine has no tensors without axes.
        array = value.reshape(value.shape or (1,))
        found.append(_Variable(2 * index + 1, 2 * index, name, kind, list(operands), array))
    return found


def text(native: _native.Network, file: str) -> Callable[[], None]:
    """Open a text file, and return what appends all results of a run to it.

    Raises RuntimeError if the file cannot be written.
    """
    _method(native, "trace", "io_txt_dump")
    try:
        with open(file, "w", encoding="utf-8"):
            pass
    except OSError as error:
        raise RuntimeError(f"io_txt_dump: {error}") from None

    def dump() -> None:
        variables = _trace(native)
        by_name = {variable.name: variable for variable in variables}
        with open(file, "a", encoding="utf-8") as opened:
            for variable in variables:
                opened.write(_block(variable, by_name))

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
    name = _DTYPES.get(array.dtype.name, (0, array.dtype.name))[1]
    return f"{{{axes} {name}}}"


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


def binary(native: _native.Network, folder: str) -> Callable[[], None]:
    """Return what writes all results of a run to a directory, a file for each, named by its number in hexadecimal.

    Raises RuntimeError if there is no such directory.
    """
    _method(native, "trace", "io_bin_dump")
    if not os.path.isdir(folder):
        raise RuntimeError(f"io_bin_dump: there is no directory {folder!r}")

    def dump() -> None:
        variables = _trace(native)
        try:
            for variable in variables:
                Path(folder, f"{variable.number:06x}").write_bytes(_record(variable))
        except OSError as error:
            raise RuntimeError(f"io_bin_dump: {error}") from None

    return dump


def _record(variable: _Variable) -> bytes:
    """Return a result as MegEngine's tools read it: sizes, element type, extents, name, elements."""
    array = variable.value
    name = f"var={variable.name} owner_opr={variable.kind} owner_opr_inputs={','.join(variable.operands)}".encode()
    if array.dtype.name not in _DTYPES:
        # int64 and others that MegEngine has no number for: what comes closest.
        array = array.astype(np.int32 if array.dtype.kind in "iu" else np.float32)
    shape = list(array.shape) + [0] * (_MAX_DIM - array.ndim)
    header = struct.pack("<3I7I", len(name), _DTYPES[array.dtype.name][0], _MAX_DIM, *shape[:_MAX_DIM])
    return header + name + array.tobytes()


def enable_profile(native: _native.Network) -> None:
    """Have the operators of every run measured."""
    _method(native, "profile", "enable_profile_performance")(True)


def write_profile(native: _native.Network, file: str) -> None:
    """Write the times of the last run as JSON.

    Raises RuntimeError if the file cannot be written.
    """
    _write_json(file, _profile(native), "enable_profile_performance")


def _profile(native: _native.Network) -> dict[str, Any]:
    raise NotImplementedError("enable_profile_performance: this core measures no operators of networks")


def write_memory(native: _native.Network, folder: str) -> None:
    """Write the memory plan as JSON and as a picture.

    Raises RuntimeError if the files cannot be written.
    """
    raise NotImplementedError("get_static_memory_alloc_info: this core shows no memory plan of networks")


def _method(native: _native.Network, method: str, what: str) -> Callable[..., Any]:
    found: Callable[..., Any] | None = getattr(native, method, None)
    if found is None:
        raise NotImplementedError(f"{what}: this core has no {method} of networks")
    return found


def _write_json(file: str | Path, content: Any, what: str) -> None:
    try:
        with open(file, "w", encoding="utf-8") as opened:
            json.dump(content, opened, indent=1)
    except OSError as error:
        raise RuntimeError(f"{what}: {error}") from None
