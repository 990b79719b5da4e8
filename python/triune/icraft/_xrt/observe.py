"""What is done round every operation of a session: callbacks, logs and dumps."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from triune._files import replaced
from triune.errors import FileError
from triune.icraft._xrt.dump import check_format
from triune.icraft._xrt.errors import FILE, failure
from triune.icraft._xrt.tensor import Tensor

if TYPE_CHECKING:
    from triune.icraft._xrt.binding import Step
    from triune.icraft._xrt.session import CallBack, Session

__all__ = ["Observers"]


@dataclasses.dataclass
class Observers:
    """A session's callbacks, and what it logs and dumps."""

    before: CallBack | None = None
    after: CallBack | None = None
    log_io: bool = False
    log_time: bool = False
    dump_to: Path | None = None
    dump_format: str = ""

    def copy(self) -> Observers:
        """Return the same for another session."""
        return dataclasses.replace(self)

    def any(self) -> bool:
        """Return whether there is something to do at all."""
        return bool(self.before or self.after or self.log_io or self.log_time or self.dump_to is not None)

    def reads(self) -> bool:
        """Return whether every value is looked into."""
        return self.dump_to is not None

    def set_dump(self, path: str | os.PathLike[str] | None, form: str) -> None:
        """Write outputs into a folder, or stop.

        Raises InternalError if there is no such format, or the folder cannot be made.
        """
        check_format(form)
        self.dump_to, self.dump_format = None if path is None else Path(path), form

    def pre(self, session: Session, step: Step, outputs: list[Tensor]) -> None:
        """Do what comes before an operation."""
        if self.before is not None:
            self.before(session, step.op, step.backend, outputs)

    def post(self, session: Session, step: Step, inputs: Sequence[Tensor], outputs: list[Tensor], wall: float) -> None:
        """Do what comes after an operation that took `wall` milliseconds."""
        if self.after is not None:
            self.after(session, step.op, step.backend, outputs)
        if self.log_io:
            head = _head(step)
            print(f"{head}Inputs: {_shapes(inputs)}   Outputs: {_shapes(outputs)}", flush=True)
        if self.log_time:
            copies, computation = step.backend._times.get(step.op.op_id, (0.0, 0.0))
            print(
                f"{_head(step)}wall: {wall:.4f} ms   memcpy: {copies:.4f} ms   hard: {computation:.4f} ms   "
                f"other: {wall - copies - computation:.4f} ms",
                flush=True,
            )
        if self.dump_to is not None:
            self._dump(step, outputs)

    def done(self, total: float) -> None:
        """Do what comes after a whole run that took `total` milliseconds."""
        if self.log_io:
            print(f"[I] network wall: {total:.4f} ms", flush=True)

    def _dump(self, step: Step, outputs: Sequence[Tensor]) -> None:
        assert self.dump_to is not None
        try:
            self.dump_to.mkdir(parents=True, exist_ok=True)
            for v_id, tensor in zip(step.outputs, outputs, strict=False):
                with replaced(self.dump_to / f"{v_id}.ftmp", sync=False) as file:
                    tensor.dump(file, _suited(self.dump_format, tensor))
        except (OSError, FileError) as error:
            raise failure(FILE, f"setDumpOutputs: {error}") from None


def _suited(form: str, tensor: Tensor) -> str:
    """Return the format, with reals where there are no stored integers."""
    stored = tensor.dtype().element_dtype
    plain_integer = np.issubdtype(stored._numpy(), np.integer) and not (
        stored._storage().isBF16() or stored._storage().isFPE6M9() or stored._storage().isFPE7M8()
    )
    return form if plain_integer or "Q" not in form else form.replace("Q", "F")


def _head(step: Step) -> str:
    kind = step.op.typeKey().removesuffix("Node").rsplit("::", 1)[-1] + ("(Merged)" if step.merged else "")
    return f"opId: {step.op.op_id}  opType: {kind}     "


def _shapes(tensors: Sequence[Tensor]) -> str:
    return "".join(f"({','.join(map(str, tensor.dtype().shape))})" for tensor in tensors)
