"""Sections: operations in a row that one backend computes together, when nobody looks at what is between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from triune.icraft._xir.errors import InternalError
from triune.icraft._xrt.backend import Backend, operands

if TYPE_CHECKING:
    from triune.icraft._xir.values import Value
    from triune.icraft._xrt.binding import Step
    from triune.icraft._xrt.tensor import Tensor

__all__ = ["Section", "sections"]


@dataclass(eq=False)
class Section:
    """Operations in a row, the values that they read from elsewhere, and those that are read elsewhere."""

    steps: Sequence[Step]
    inputs: Sequence[Value]
    outputs: Sequence[Value]
    merges: bool
    """Whether the backend computes them together. False once it turned out that it cannot."""

    @property
    def backend(self) -> Backend:
        """What computes them."""
        return self.steps[0].backend

    def prepare(self) -> None:
        """Get the operations ready to run; what cannot be compiled together is got ready one by one."""
        if self.merges:
            try:
                self.backend._prepare_merged([step.op for step in self.steps], self.inputs, self.outputs)
            except InternalError:
                self.merges = False
        if not self.merges:
            for step in self.steps:
                step.backend.initOp(step.op)

    def run(
        self, tensors: Mapping[int, Tensor], wanted: Mapping[int, Tensor], times: dict[int, float] | None = None
    ) -> dict[int, Tensor] | None:
        """Return what is read elsewhere, by number of the value; None if the operations have to be run one by one.

        That also finds the operation that an error is about. `times` gets the milliseconds of each operation.
        """
        if not self.merges:
            return None
        places = [wanted[value.v_id] for value in self.outputs if value.v_id in wanted]
        try:
            results = self.backend._forward_merged(
                [step.op for step in self.steps],
                self.inputs,
                [tensors[value.v_id] for value in self.inputs],
                self.outputs,
                places if len(places) == len(self.outputs) else [],
                times,
            )
        except InternalError:
            self.merges = False
            return None
        return {value.v_id: tensor for value, tensor in zip(self.outputs, results, strict=True)}


def sections(steps: Sequence[Step], outputs: Sequence[Value]) -> list[Section]:
    """Return all operations, cut into sections; `outputs` are read from outside."""
    uses: dict[int, int] = {value.v_id: 1 for value in outputs}
    for step in steps:
        for v_id in step.inputs:
            uses[v_id] = uses.get(v_id, 0) + 1
    return [_section(group, uses) for group in _groups(steps)]


def _groups(steps: Sequence[Step]) -> Iterator[list[Step]]:
    def kind(step: Step) -> int:
        return id(step.backend) if step.backend._merges(step.op) else 0

    for key, group in groupby(steps, kind):
        if key:
            yield list(group)
        else:
            yield from ([step] for step in group)


def _section(steps: list[Step], uses: Mapping[int, int]) -> Section:
    made = {value.v_id: value for step in steps for value in step.op.outputs}
    read: dict[int, Value] = {}
    within: dict[int, int] = {}
    for step in steps:
        for value in operands(step.op):
            within[value.v_id] = within.get(value.v_id, 0) + 1
            if value.v_id not in made:
                read.setdefault(value.v_id, value)
    outputs = [value for v_id, value in made.items() if uses.get(v_id, 0) > within.get(v_id, 0)]
    return Section(steps, list(read.values()), outputs, len(steps) > 1 and bool(outputs))
