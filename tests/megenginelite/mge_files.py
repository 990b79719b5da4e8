"""MegEngine model files of version 2 made by hand, with an encoder that shares nothing with the reader."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

# What a slot of a table holds: one byte, text, elements, a table, tables, or anything of four bytes.
Slots = dict[int, Any]

FLOAT32, INT32 = 0, 4


@dataclass(frozen=True)
class Byte:
    """A field of one byte."""

    value: int


def _point(out: bytearray, position: int) -> None:
    """Let the reference at `position` point to the end."""
    struct.pack_into("<I", out, position, len(out) - position)


def _align(out: bytearray) -> None:
    out.extend(bytes(-len(out) % 4))


def _put(out: bytearray, table: Slots) -> None:
    """Append a table, its directory behind it, then what it refers to; every field takes four bytes."""
    _align(out)
    start = len(out)
    out.extend(bytes(4 + 4 * len(table)))
    directory = len(out)
    count = max(table, default=-1) + 1
    struct.pack_into("<i", out, start, start - directory)
    places = {slot: 4 + 4 * index for index, slot in enumerate(table)}
    out.extend(struct.pack("<2H", 4 + 2 * count, 4 + 4 * len(table)))
    out.extend(struct.pack(f"<{count}H", *(places.get(slot, 0) for slot in range(count))))
    for slot, value in table.items():
        position = start + places[slot]
        match value:
            case Byte(byte):
                out[position] = byte
            case int():
                struct.pack_into("<I", out, position, value)
            case float():
                struct.pack_into("<f", out, position, value)
            case _:
                _align(out)
                _point(out, position)
                _put_value(out, value)


def _put_value(out: bytearray, value: Any) -> None:
    match value:
        case str():
            out.extend(struct.pack("<I", len(value)) + value.encode() + b"\0")
        case dict():
            _put(out, value)
        case np.ndarray():
            out.extend(struct.pack("<I", len(value)) + value.tobytes())
        case [*tables]:
            first = len(out) + 4
            out.extend(struct.pack("<I", len(tables)) + bytes(4 * len(tables)))
            for index, table in enumerate(tables):
                _align(out)
                _point(out, first + 4 * index)
                _put(out, table)
        case _:
            raise TypeError(f"no field can be {value!r}")


def _numbers(values: Sequence[int]) -> npt.NDArray[np.uint32]:
    return np.array(values, np.uint32)


@dataclass
class File:
    """A file while operators are added; results go by their numbers."""

    operators: list[Slots] = field(default_factory=list)
    count: int = 0

    def add(self, kind: str, inputs: Sequence[int] = (), results: int = 1, **more: Any) -> list[int]:
        """Add an operator; `param` is its parameters' number in the schema's union and their table."""
        outputs = list(range(self.count, self.count + results))
        self.count += results
        table: Slots = {0: kind, 2: f"{kind}_{len(self.operators)}", 7: _numbers(inputs), 8: _numbers(outputs)}
        if "param" in more:
            number, params = more["param"]
            table |= {3: Byte(number), 4: params}
        if "tensor" in more:
            table[11] = [more["tensor"]]
        self.operators.append(table)
        return outputs

    def input(self, name: str, shape: Sequence[int], dtype: int = FLOAT32) -> int:
        """Add an input with its default shape."""
        tensor = {0: name, 1: _numbers(shape), 3: {0: Byte(dtype)}, 4: Byte(1), 5: {}}
        return self.add("Host2DeviceCopy", param=(63, {}), tensor=tensor)[0]

    def constant(self, array: npt.NDArray[np.float32] | npt.NDArray[np.int32]) -> int:
        """Add a constant."""
        dtype = {"float32": FLOAT32, "int32": INT32}[array.dtype.name]
        data = np.frombuffer(array.tobytes(), np.uint8)
        tensor = {0: "", 1: _numbers(array.shape), 3: {0: Byte(dtype)}, 4: Byte(1), 5: {}, 6: data}
        return self.add("SharedDeviceTensor", tensor=tensor)[0]

    def write(self, path: Path, outputs: dict[str, int], listed: Sequence[int] = ()) -> Path:
        """Write the file, with these outputs by name, in their order or as `listed`."""
        names = {number: name for name, number in outputs.items()}
        out = bytearray(12)
        out[8:] = b"mgv2"
        _point(out, 4)
        root = {
            0: 101_300,
            1: 2,
            2: self.operators,
            3: [{0: names.get(number, f"v{number}")} for number in range(self.count)],
            4: [{0: number, 1: number} for number in listed or outputs.values()],
        }
        _put(out, root)
        struct.pack_into("<I", out, 0, len(out) - 4)
        path.write_bytes(out)
        return path
