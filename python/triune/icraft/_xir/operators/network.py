"""The network's ends, and operations that were compiled for hardware."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from triune.icraft._xir.attributes import attr, kinds, objects_of
from triune.icraft._xir.objects import Concrete, ObjectRef
from triune.icraft._xir.operation import Operation
from triune.icraft._xir.table import define
from triune.icraft._xir.types import TensorType

__all__ = ["AlignedUnit", "HardOp", "Input", "Output"]


Input = define("Input", "A network's inputs: its outputs are what a program gives.", "*dtypes", rule=None)
Output = define("Output", "A network's outputs: its inputs are what a program gets.", "*values", rule=None)


def _construct_input(op: Operation, found: dict[str, Any]) -> None:
    (types,) = found.values()
    types = types[0] if len(types) == 1 and isinstance(types[0], list | tuple) else types
    if not types or not all(isinstance(one, TensorType) for one in types):
        raise TypeError("the types of the inputs are needed, as TensorType")
    op.inferResults(list(types))


Input._construct = _construct_input

HardOp: Any = define(
    "HardOp",
    "Operations compiled for an accelerator: instructions and parameters in the accelerator's own form.",
    "inputs*",
    [
        attr("instr", kinds.many_params, "The instructions, 64-bit words.", list),
        attr("params", kinds.many_params, "The parameters.", list),
        attr("origin_ops_id", kinds.wholes, "The numbers of the operations that it was made of.", list),
        attr("device_info", kinds.dictionary, "What the device's tools noted.", dict),
        attr("layer_count", kinds.whole, "How many layers of the device's count it takes.", 0),
        attr(
            "sub_hard_ops",
            objects_of("HardOp", lambda: HardOp, lambda document, reader: reader.operation(document)),
            "The operations that it was merged from.",
            list,
        ),
    ],
    ["inputs* instr params origin_ops_id device_info / layer_count sub_hard_ops"],
    rule=None,
)


class AlignedUnit(Concrete):
    """Axes, and for each what its extent is to be a multiple of."""

    type_key = "icraft::xir::AlignedUnitNode"
    _fields = ("_index", "_unit")
    _defaults: ClassVar[Mapping[str, Any]] = {"_index": list, "_unit": list}
    _index: list[int]
    _unit: list[int]

    def __init__(self, index: list[int] | int | ObjectRef, unit: list[int] | int | None = None) -> None:
        """Take the axes and the multiples."""
        if isinstance(index, ObjectRef) or unit is None:
            raise TypeError("AlignedUnit() takes axes and what their extents are to be multiples of")
        self._index, self._unit = kinds.one_or_wholes.convert(index), kinds.one_or_wholes.convert(unit)

    @property
    def index(self) -> list[int]:
        """The axes, numbers of stored extents; as many as `unit` has. A new list."""
        return list(self._index)

    @property
    def unit(self) -> list[int]:
        """What the extents are to be multiples of, in elements, one for each axis. A new list."""
        return list(self._unit)
