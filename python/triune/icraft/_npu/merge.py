"""Operations that run as one: the operation that stands for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from triune.icraft._xir.values import Params

if TYPE_CHECKING:
    from triune.icraft._xir.network import Network
    from triune.icraft._xir.operation import Operation

__all__ = ["merged_operation"]


def merged_operation(network: Network, op_ids: Sequence[int], number: int) -> Operation:
    """Return a `HardOp` with the inputs and outputs that operations have together. It is in no network."""
    from triune.icraft.xir import HardOp

    view = network.view(list(op_ids))
    ops: list[Any] = list(view.ops)
    merged: Any = HardOp.Init()
    merged.setInputs([value._clone(0) for value in view.inputs() if not isinstance(value, Params)])
    merged.setOutputs([value._clone(0) for value in view.outputs()])
    merged.setName("HardOp(Merged)").setCompileTarget(ops[0].compile_target).setId(number)
    merged.setAttr("origin_ops_id", list(op_ids))
    merged.setAttr("layer_count", sum(int(op.getAttr("layer_count")) for op in ops))
    return merged  # type: ignore[no-any-return]
