"""What many elements become one of."""

from __future__ import annotations

from typing import Any

from triune.icraft._xir import rules
from triune.icraft._xir.attributes import attr, kinds
from triune.icraft._xir.operation import Operation
from triune.icraft._xir.table import define
from triune.icraft._xir.types import TensorType

__all__ = ["Argmax", "Argmin", "Max", "Mean", "Min", "Sum"]


def _reduced(of: TensorType, axes: list[int], keep: bool) -> list[TensorType]:
    rank = len(of._shape)
    return [rules.without(of, rules.normal(axes, rank, "dim") if axes else list(range(rank)), keep)]


def _over_axes(op: Operation) -> list[TensorType]:
    return _reduced(rules.tensor(op, 0), op._attributes["dim"], op._attributes["keepdim"])


def _over_axis(op: Operation) -> list[TensorType]:
    dim = op._attributes["dim"]
    return _reduced(rules.tensor(op, 0), [] if dim is None else [dim.value], op._attributes["keepdim"])


_KEEP = attr("keepdim", kinds.truth, "Whether the axes stay, with an extent of 1.", False)
_AXES = attr("dim", kinds.one_or_wholes, "The axes; negative numbers count from the last, none are all.", list)
_AXIS = attr("dim", kinds.maybe_imm, "The axis; negative numbers count from the last, None is all of them.", None)


def _of_axes(name: str, doc: str) -> Any:
    forms = ["input", "input dim / keepdim", "inputs=input dim / keepdim"]
    return define(name, f"{doc} over some axes.", "input", [_AXES, _KEEP], forms, rule=_over_axes)


def _of_axis(name: str, doc: str, rule: Any = _over_axis) -> Any:
    return define(name, f"{doc} along an axis.", "input", [_AXIS, _KEEP], rule=rule)


Mean = _of_axes("Mean", "The average")
Sum = _of_axes("Sum", "The sum")
Max = _of_axis("Max", "The largest")
Min = _of_axis("Min", "The smallest")
Argmax = _of_axis("Argmax", "The place of the largest", rules.indices(_over_axis))
Argmin = _of_axis("Argmin", "The place of the smallest", rules.indices(_over_axis))
