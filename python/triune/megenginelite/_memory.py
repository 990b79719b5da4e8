"""A network's memory plan, in the vendor's format and as a picture."""

from __future__ import annotations

import json
import os
from bisect import bisect_right
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triune.megenginelite._errors import failure
from triune.megenginelite._graph import Drawing, write

if TYPE_CHECKING:
    from triune import _native

__all__ = ["write_memory"]


_VIEWS = {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"}
"""Operators that only change how memory is seen: they run nowhere."""


def write_memory(native: _native.Session, folder: str, npu: str) -> None:
    """Write the memory plan: as the vendor's tools read it (``StaticMemoryInfo.json``, with the network in ``graph.json``),
    with what else there is to say (``memory.json``), and as a picture (``memory.svg``).

    `npu` is MegEngine's name for the device, where there is one. Where part of the model runs on one, the plan is the
    device's; ``memory.json`` says what lies where there, and which operators are left to the host.

    Raises RuntimeError if the files cannot be written.
    """
    what = "get_static_memory_alloc_info"
    plan = native.memory_plan()
    timeline = native.timeline()
    drawing = Drawing(native, npu)
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise failure(f"{what}: {error}") from None
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
    if timeline is not None:
        planned = {name for name, *_ in plan["operators"]}
        described["device"] = {
            "name": timeline.device,
            "place": npu,
            "near_bytes": plan["near"],
            "segments": timeline.segments(),
        }
        # Their memory is the host's, and not in the plan.
        described["host_operators"] = [
            name for name, kind, *_ in native.outline()[0] if name not in planned and kind not in _VIEWS
        ]
    write(Path(folder, "memory.json"), json.dumps(described, indent=1), what)
    write(Path(folder, "memory.svg"), _picture(described), what)
    write(Path(folder, "StaticMemoryInfo.json"), json.dumps(_static_memory(described), indent=1), what)
    write(Path(folder, "graph.json"), json.dumps(drawing.content(), indent=1), what)


def _static_memory(plan: dict[str, Any]) -> dict[str, Any]:
    """Return the plan in MegEngine's terms: all text, times counted in operators, weights behind the rest."""
    operators, peak = plan["operators"], plan["peak_memory_size"]
    starts = [operator["time_begin"] for operator in operators]

    def chunk(number: int, kind: str, times: tuple[int, int], addresses: tuple[int, int]) -> dict[str, str]:
        return {
            "id": str(number),
            "type": kind,
            "time_begin": str(times[0]),
            "time_end": str(times[1]),
            "logic_addr_begin": str(addresses[0]),
            "logic_addr_end": str(addresses[1]),
            # No result is written over another operand's place.
            "overwrite_dest_id": "-1",
        }

    chunks = []
    for found in plan["chunks"]:
        first, last = (max(bisect_right(starts, at) - 1, 0) for at in (found["time_begin"], found["time_end"] - 1))
        chunks.append(chunk(found["id"], "static_mem", (first, last + 1), (found["addr_begin"], found["addr_end"])))
    if plan["weights"]:
        ends = (peak, peak + plan["weights"])
        chunks.append(chunk(len(chunks), "weight_mem", (0, len(operators)), ends))
    return {
        "chunk": {chunk["id"]: chunk for chunk in chunks},
        "opr": {str(index): {"id": str(index), "name": item["name"]} for index, item in enumerate(operators)},
    }


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
