"""Logs of deployments: what lies where, as text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from triune._files import write_text
from triune.errors import FileError
from triune.icraft._npu.chunks import address
from triune.icraft._xrt.errors import FILE, failure

if TYPE_CHECKING:
    from triune.icraft._npu.backend import NpuBackend
    from triune.icraft._npu.placement import Placement

__all__ = ["write_log"]


def write_log(backend: NpuBackend, placement: Placement) -> Path:
    """Write the log of a deployment, ``.icraft/logs/<network>_<backend>_<id>.log``; return its path.

    Raises InternalError if it cannot be written.
    """
    name = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in _name(backend))
    path = Path(".icraft", "logs", f"{name}_{type(backend).__name__.lower()}_{backend._id}.log")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, "\n".join(_lines(backend, placement)) + "\n")
    except (OSError, FileError) as error:
        raise failure(FILE, f"{type(backend).__name__}.log: {error}") from None
    return path


def _name(backend: NpuBackend) -> str:
    return backend.network_view.network().name or "network"


def _lines(backend: NpuBackend, placement: Placement) -> list[str]:
    deployment = placement.deployment
    option, avoided = deployment.on_chip
    lines = [
        f"network {_name(backend)} on {backend._port.url}",
        f"merged operations: {'yes' if backend._merging else 'no'}",
        f"feature maps share memory in turn: {'yes' if backend._reuse else 'no'}",
        f"on the chip: {option}, {deployment.on_chip_bytes} bytes, {avoided} bytes of traffic avoided",
        "",
        "segments        logical address   bytes        physical address",
    ]
    chunks = {"weight": placement.weights, "ftmp": placement.maps, "instr": placement.instructions}
    for name, (logic, size) in deployment.segments.items():
        chunk = chunks.get(name)
        place = "" if chunk is None else f"{address(chunk):#x}"
        lines.append(f"{name.upper():15} {logic:<#17x} {size:<12} {place}")
    lines += ["", "values   segment  logical address   physical address  bytes        memory"]
    for v_id, value in placement.values.items():
        owner = "own" if value.shares is None else f"of {value.shares}"
        where = "on chip, " if value.on_chip else ""
        lines.append(
            f"{v_id:<8} {value.segment.upper():8} {value.logic:<#17x} {placement.address(v_id):<#17x} {value.nbytes:<12} "
            f"{where}{owner}"
        )
    lines += ["", "operations  instructions              bytes     weights   layers  merged into"]
    merged = {
        op.op_id: number for number, (_, first, last) in backend._merged.items() for op in backend._hard_ops[first:last]
    }
    base = address(placement.instructions)
    for op in placement.ops:
        first, size = op.instructions
        weights = sum(piece for _, piece in op.weights)
        lines.append(
            f"{op.op_id:<11} {base + first:<#25x} {size:<9} {weights:<9} {op.layers:<7} {merged.get(op.op_id, '')}"
        )
    return lines
