"""Networks of one or a few operations, as the document that the core reads: what a plan is made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from triune.icraft._xir.objects import compact, plain

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from triune.icraft._xir.operation import Operation
    from triune.icraft._xir.values import Params, Value

__all__ = ["document", "parameters"]

_BLANK = {
    "_type_key": "icraft::xir::Network",
    "ai_target": "@hostt",
    "framework_kind": "PYTORCH",
    "framework_version": "",
    "icraft_version": "v3.33.1",
    "icraft_xir_version": "3.33.1.0",
    "name": "part",
    "params_bytes": 0,
    "params_md5": "d41d8cd98f00b204e9800998ecf8427e",
    "tags": {},
}


def document(
    ops: Sequence[Operation],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    shapes: Mapping[int, Sequence[int]],
) -> bytes:
    """Return a network's JSON text: an `Input` of some values, the operations, an `Output` of others.

    `shapes` are extents, by a value's number, that the values themselves leave open.
    """
    first = max((op.op_id for op in ops), default=0) + 1
    blank: dict[str, Any] = dict(_BLANK)
    network = ops[0]._network if ops and ops[0].isBoundToNetwork() else None
    if network is not None:
        blank["ai_target"] = plain(network.ai_target)
        blank["framework_kind"] = plain(network._framework_kind)
        blank["icraft_version"], blank["icraft_xir_version"] = network.icraft_version, network.icraft_xir_version
    blank["ops"] = [
        _border("Input", first, "outputs", inputs),
        *(plain(op) for op in ops),
        _border("Output", first + 1, "inputs", outputs),
    ]
    if shapes:
        _set_shapes(blank["ops"], shapes)
    return compact(blank).encode()


def _border(kind: str, op_id: int, side: str, values: Sequence[Value]) -> dict[str, Any]:
    op: dict[str, Any] = {
        "_type_key": f"icraft::xir::{kind}",
        "compile_target": "@hostt",
        "inputs": [],
        "name": "",
        "op_id": op_id,
        "outputs": [],
        "tags": {},
    }
    op[side] = [plain(value) for value in values]
    return op


def _set_shapes(ops: Iterable[Any], shapes: Mapping[int, Sequence[int]]) -> None:
    for op in ops:
        for value in (*op["inputs"], *op["outputs"]):
            if value is not None and value["v_id"] in shapes:
                value["dtype"]["shape"] = list(shapes[value["v_id"]])


def parameters(ops: Iterable[Operation]) -> dict[int, npt.NDArray[np.uint8]]:
    """Return the bytes of all parameters of some operations, by their values' numbers, without a copy.

    Raises Error if a file that they are in is not what it was.
    """
    found: dict[int, Any] = {}
    for op in ops:
        every: list[Params] = [*op.paramsInputs(), *op.paramsAttrs(True)]
        for params in every:
            if params.defined() and params.hasData() and params.v_id not in found:
                assert params._source is not None
                found[params.v_id] = params._source.view()
    return found
