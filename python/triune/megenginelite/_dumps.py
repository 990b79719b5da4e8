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

_PLACE = "cpu0:0"
"""MegEngine's name for the host."""


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
    for index, (name, kind, operands, value) in enumerate(native.trace()):
        # MegEngine has no tensors without axes.
        array = value.reshape(value.shape or (1,))
        kind = "Host2DeviceCopy" if kind == "Input" else kind
        found.append(_Variable(2 * index + 1, 2 * index, name, kind, operands, array))
    return found


def text(native: _native.Network, file: str) -> Callable[[], None]:
    """Open a text file, and return what appends all results of a run to it.

    Raises RuntimeError if the file cannot be written.
    """
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
    if array.ndim > _MAX_DIM:
        array = array.reshape(-1, *array.shape[array.ndim - _MAX_DIM + 1 :])
    shape = list(array.shape) + [0] * (_MAX_DIM - array.ndim)
    header = struct.pack("<3I7I", len(name), _DTYPES[array.dtype.name][0], _MAX_DIM, *shape)
    return header + name + array.tobytes()


def enable_profile(native: _native.Network) -> None:
    """Have the operators of every run measured."""
    native.profile(True)


def _operator_times(native: _native.Network, npu: str) -> list[tuple[str, str, str, float, float]]:
    """Return name, operator, place, start and end in seconds of each operator of the last run.

    On an NPU the times are modelled, and operators that follow each other may overlap.
    """
    found = []
    now = 0.0
    timeline = native.timeline()
    for name, kind, seconds in native.operator_times():
        if kind != "Device" or timeline is None or not timeline.clock_mhz:
            found.append((name, kind, _PLACE, now, now + seconds))
            now += seconds
            continue
        # The time that simulating the device took tells nobody anything.
        second = timeline.clock_mhz * 1e6
        for row in timeline.operators():
            found.append((row["name"], row["kind"], npu, now + row["start"] / second, now + row["end"] / second))
        now += timeline.cycles / second
    return found


def write_profile(native: _native.Network, file: str, npu: str) -> None:
    """Write the times of the last run as JSON; `npu` is MegEngine's name for the device, where there is one.

    Raises RuntimeError if the file cannot be written.
    """
    operators: dict[str, Any] = {}
    variables: dict[str, Any] = {}
    device: dict[str, Any] = {}
    host: dict[str, Any] = {}
    for index, (name, kind, place, start, end) in enumerate(_operator_times(native, npu)):
        # MegEngine counts operators and results together.
        number, result = str(2 * index), str(2 * index + 1)
        operators[number] = {
            "id": number,
            "name": name,
            "type": kind,
            "input": [],
            "output": [result],
            "param": {},
        }
        variables[result] = {"id": result, "name": name, "comp_node": place, "owner_opr": number}
        device[number] = {place: {"start": start, "kern": start, "end": end}}
        # The host is not busy while the device works.
        host[number] = {"main": {"start": start, "kern": start, "end": end if place == _PLACE else start}}
    plan = native.memory_plan()
    chunks = {
        str(index): {"id": str(index), "type": "static", "size": size, "addr": offset, "time": [first, last]}
        for index, (offset, size, first, last) in enumerate(plan["buffers"])
    }
    content = {
        "profiler": {"opr_internal_pf": {}, "host": host, "opr_footprint": {}, "device": device},
        "graph_exec": {
            "comp_seq": list(operators),
            "mem_chunk": chunks,
            "var": variables,
            "operator": operators,
        },
    }
    _write(file, json.dumps(content, indent=1), "enable_profile_performance")


def write_memory(native: _native.Network, folder: str) -> None:
    """Write the memory plan as JSON and as a picture, ``memory.json`` and ``memory.svg``.

    Raises RuntimeError if the files cannot be written.
    """
    what = "get_static_memory_alloc_info"
    plan = native.memory_plan()
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise RuntimeError(f"{what}: {error}") from None
    described = {
        "peak_memory_size": plan["bytes"],
        "lower_bound": plan["lower_bound"],
        "weights": plan["weights"],
        "inputs": dict(plan["inputs"]),
        "outputs": dict(plan["outputs"]),
        "operators": [
            {"id": index, "name": name, "type": kind, "time_begin": first, "time_end": last}
            for index, (name, kind, first, last) in enumerate(plan["operators"])
        ],
        "chunks": [
            {"id": index, "addr_begin": offset, "addr_end": offset + size, "time_begin": first, "time_end": last}
            for index, (offset, size, first, last) in enumerate(plan["buffers"])
        ],
    }
    _write(Path(folder, "memory.json"), json.dumps(described, indent=1), what)
    _write(Path(folder, "memory.svg"), _picture(described), what)


_WIDTH, _HEIGHT, _MARGIN = 1200.0, 600.0, 20.0


def _picture(plan: dict[str, Any]) -> str:
    """Draw the chunks: from left to right the commands, from the bottom up the addresses."""
    chunks = plan["chunks"]
    wide = _WIDTH / max([chunk["time_end"] for chunk in chunks], default=1)
    high = _HEIGHT / max([plan["peak_memory_size"], 1])
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH + 2 * _MARGIN:g}" height="{_HEIGHT + 2 * _MARGIN:g}">',
        f'<text x="{_MARGIN:g}" y="{_MARGIN - 5:g}" font-size="12">peak_memory_size: {plan["peak_memory_size"]} bytes</text>',
        f'<rect x="{_MARGIN:g}" y="{_MARGIN:g}" width="{_WIDTH:g}" height="{_HEIGHT:g}" fill="none" stroke="gray"/>',
    ]
    for chunk in chunks:
        size = chunk["addr_end"] - chunk["addr_begin"]
        lines.append(
            f'<rect x="{_MARGIN + chunk["time_begin"] * wide:.2f}" '
            f'y="{_MARGIN + _HEIGHT - chunk["addr_end"] * high:.2f}" '
            f'width="{(chunk["time_end"] - chunk["time_begin"]) * wide:.2f}" height="{size * high:.2f}" '
            f'fill="silver" stroke="black"><title>chunk {chunk["id"]}: {size} bytes at {chunk["addr_begin"]}, '
            f"commands {chunk['time_begin']} to {chunk['time_end']}</title></rect>"
        )
    return "\n".join([*lines, "</svg>", ""])


def _write(file: str | Path, content: str, what: str) -> None:
    try:
        Path(file).write_text(content, encoding="utf-8")
    except OSError as error:
        raise RuntimeError(f"{what}: {error}") from None
