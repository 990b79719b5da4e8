"""A network as it runs, and how long that took, in the vendor's formats."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triune._files import write_text
from triune.errors import FileError

if TYPE_CHECKING:
    import numpy as np

    from triune import _native
else:
    from triune.megenginelite._numpy import np

__all__ = ["DTYPES", "Drawing", "write", "write_profile"]

DTYPES = {
    "float32": (0, "Float32"),
    "uint8": (1, "Uint8"),
    "int8": (2, "Int8"),
    "int16": (3, "Int16"),
    "int32": (4, "Int32"),
    "float16": (9, "Float16"),
    "bool": (12, "Bool"),
    "uint16": (13, "Uint16"),
}
"""MegEngine's numbers and names of element types; the numbers are the library's own, other ones than in model files."""

_HOST = "cpu0:0"
"""MegEngine's name for the host."""

_NANOSECOND = 1e-9


class Drawing:
    """The operators of the last run, with what flows between them.

    MegEngine numbers operators and their results together. Operators have Triune's names; the network's inputs and constants
    are operators, too, with MegEngine's.
    """

    def __init__(self, native: _native.Session, npu: str) -> None:
        """Look at a network that has a plan. `npu` is MegEngine's name for the device, where there is one."""
        nodes, self._values = native.outline()
        timeline = native.timeline()
        on_npu = set() if timeline is None else {row["name"] for row in timeline.operators()}
        self._operators: dict[str, Any] = {}
        self._variables: dict[str, Any] = {}
        self._chunks: dict[str, Any] = {}
        self._sequence: list[str] = []
        self._footprints: dict[str, Any] = {}
        # Operators by name, results by the value's name.
        self._numbers: dict[str, str] = {}
        self._makers: dict[str, str] = {}
        made = {name for *_, results, _ in nodes for name in results}
        for name, (_, _, constant) in self._values.items():
            if name not in made:
                kind = "ImmutableTensor" if constant else "Host2DeviceCopy"
                self._add(name, kind, [], [name], None, _HOST)
        for name, kind, operands, results, operations in nodes:
            self._numbers[name] = self._add(name, kind, operands, results, operations, npu if name in on_npu else _HOST)

    def _add(
        self, name: str, kind: str, operands: list[str], results: list[str], operations: int | None, place: str
    ) -> str:
        number = str(len(self._operators) + len(self._variables))
        operator = {"node_type": "operator", "id": number, "name": name, "type": kind, "extra": {}, "param": {}}
        operator["input"] = [self._makers[operand] for operand in operands]
        self._operators[number] = operator
        operator["output"] = [
            self._variable(result, number, place, constant=kind == "ImmutableTensor") for result in results
        ]
        if kind != "ImmutableTensor":
            self._sequence.append(number)
        shapes = [[self._values[value][1] for value in values] for values in (operands, results)]
        self._footprints[number] = {
            "param": {},
            "in_shapes": shapes[0],
            "out_shapes": shapes[1],
            "memory": sum(self._bytes(value) for value in (*operands, *results)),
            "computation": operations,
        }
        return number

    def _bytes(self, value: str) -> int:
        dtype, shape, _ = self._values[value]
        return math.prod(shape) * np.dtype(dtype).itemsize

    def _variable(self, name: str, owner: str, place: str, *, constant: bool) -> str:
        number = str(len(self._operators) + len(self._variables))
        dtype, shape, _ = self._values[name]
        chunk = f"chk{number}"
        self._makers[name] = number
        self._chunks[chunk] = {
            "node_type": "mem_chunk",
            "id": chunk,
            "size": self._bytes(name),
            "owner_var": number,
            "dev_ptr": None,
        }
        layout = {
            "shape": shape,
            "stride": [math.prod(shape[axis + 1 :]) for axis in range(len(shape))],
            "dtype": DTYPES.get(dtype, (0, dtype.capitalize()))[1],
        }
        self._variables[number] = {
            "node_type": "var",
            "id": number,
            "name": name,
            "comp_node": place,
            "owner_opr": owner,
            "mem_plan": {"mem_chunk_id": chunk, "layout": layout, "offset_byte": 0},
            "dev_ptr": None,
            "flag": ["PERSISTENT_DEVICE_VALUE"] if constant else [],
        }
        return number

    def number(self, name: str, kind: str) -> str:
        """Return the number of an operator by its name; one that moves results behind the last operator is added."""
        if name not in self._numbers:
            self._numbers[name] = self._add(name, kind, [], [], None, _HOST)
        return self._numbers[name]

    @property
    def footprints(self) -> dict[str, Any]:
        """What each operator reads, makes and computes."""
        return self._footprints

    def content(self) -> dict[str, Any]:
        """Return what MegEngine's tools read of a network."""
        return {
            "operator": self._operators,
            "var": self._variables,
            "mem_chunk": self._chunks,
            "comp_seq": self._sequence,
        }


@dataclass(frozen=True)
class _Time:
    """When an operator ran, in seconds."""

    name: str
    kind: str
    place: str
    start: float
    end: float

    def entry(self) -> dict[str, float]:
        # Tools divide by the time from the start to either.
        end = max(self.end, self.start + 2 * _NANOSECOND)
        return {"start": self.start, "kern": self.start + _NANOSECOND, "end": end}


def _operator_times(native: _native.Session, npu: str) -> list[_Time]:
    """Return the times of all operators of the last run.

    On an NPU they are modelled, and operators that follow each other may overlap.
    """
    found = []
    now = 0.0
    timeline = native.timeline()
    for name, kind, seconds in native.operator_times():
        if kind != "Device" or timeline is None or not timeline.clock_mhz:
            found.append(_Time(name, kind, _HOST, now, now + seconds))
            now += max(seconds, 2 * _NANOSECOND)
            continue
        # The time that simulating the device took tells nobody anything.
        second = timeline.clock_mhz * 1e6
        for row in timeline.operators():
            start, end = (now + row[which] / second for which in ("start", "end"))
            found.append(_Time(row["name"], row["kind"], npu, start, end))
        now += timeline.cycles / second
    return found


def write_profile(native: _native.Session, file: str, npu: str, notes: list[str]) -> None:
    """Write the times of the last run as JSON; `npu` is MegEngine's name for the device, where there is one.

    Operators that only change how their operand is seen take no time, and have none. The host's times of operators on an
    NPU are left out: the host is not busy then. Raises RuntimeError if the file cannot be written.
    """
    drawing = Drawing(native, npu)
    device: dict[str, Any] = {}
    host: dict[str, Any] = {}
    for time in _operator_times(native, npu):
        number = drawing.number(time.name, time.kind)
        device[number] = {time.place: time.entry()}
        if time.place == _HOST:
            host[number] = {"main": time.entry()}
    timed = {number: drawing.footprints[number] for number in device}
    content: dict[str, Any] = {
        "profiler": {"opr_internal_pf": {}, "host": host, "opr_footprint": timed, "device": device},
        "graph_exec": drawing.content(),
    }
    if notes:
        content["notes"] = notes
    write(file, json.dumps(content, indent=1), "enable_profile_performance")


def write(file: str | Path, content: str, what: str) -> None:
    """Write a text file.

    Raises RuntimeError, which names `what` was asked for, if it cannot be written.
    """
    try:
        write_text(file, content)
    except FileError as error:
        raise FileError(f"{what}: {error}") from None
