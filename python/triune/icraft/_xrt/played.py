"""Operations that were computed together, shown one by one: their tensors get their values when somebody looks into one."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from triune.icraft._xrt.tensor import Tensor

if TYPE_CHECKING:
    from triune.icraft._xir.types import TensorType
    from triune.icraft._xrt.binding import Step
    from triune.icraft._xrt.memory import MemChunk
    from triune.icraft._xrt.sections import Section

__all__ = ["Played"]

Tensors = dict[int, Tensor]


class _Unread(Tensor):
    """A tensor whose values nobody has looked at. With the first look it becomes what it stands for."""

    _read: Callable[[], None]

    @classmethod
    def _awaiting(cls, dtype: TensorType, read: Callable[[], None]) -> _Unread:
        tensor = cls._new()
        tensor.__dict__.update(_dtype=dtype, _offset=0, _check=None, _ready=True, _read=read)
        return tensor

    @property
    def _chunk(self) -> MemChunk | None:  # type: ignore[override]
        self._read()
        # By now it is of another class.
        chunk: MemChunk | None = self.__dict__["_chunk"]
        return chunk

    def _become(self, tensor: Tensor) -> None:
        self.__dict__.clear()
        self.__dict__.update(tensor.__dict__)
        self.__class__ = Tensor  # type: ignore[assignment]


class Played:
    """The operations of a section after it was computed, in order.

    `tensors` has all values as soon as somebody has looked into one: those up to the operation that is shown then are computed
    one by one, from the inputs.
    """

    def __init__(
        self,
        section: Section,
        inputs: Tensors,
        results: Tensors,
        types: dict[int, TensorType],
        run: Callable[[Step, Tensors], Sequence[Tensor]],
    ) -> None:
        """Take what was read from elsewhere, what came out, all values' types, and what runs an operation by itself."""
        self.steps, self._types, self._run, self._at = section.steps, types, run, 0
        self.tensors, self.opened = dict(inputs), False
        read = {v_id for step in section.steps for v_id in step.inputs}
        # What nobody in the section reads may be had, and changed, as it is.
        self._shown: Tensors = {v_id: tensor for v_id, tensor in results.items() if v_id not in read}
        self._unread: dict[int, weakref.ref[_Unread]] = {}

    @staticmethod
    def types(section: Section) -> dict[int, TensorType] | None:
        """Return the types of all values, None if some show when they are computed only."""
        found = {}
        for step in section.steps:
            for value in step.op._outputs:
                dtype = section.backend._type_before(value)
                if dtype is None:
                    return None
                found[value.v_id] = dtype
        return found

    def at(self, index: int) -> tuple[list[Tensor], list[Tensor]]:
        """Return what an operation reads and what it makes."""
        self._at = index
        step = self.steps[index]
        return [self._tensor(v_id) for v_id in step.inputs], [self._tensor(v_id) for v_id in step.outputs]

    def _tensor(self, v_id: int) -> Tensor:
        for there in (self.tensors, self._shown):
            if v_id in there:
                return there[v_id]
        found = self._unread.get(v_id, _nothing)()
        if found is None:
            found = _Unread._awaiting(self._types[v_id], self._open)
            self._unread[v_id] = weakref.ref(found)
        return found

    def _open(self) -> None:
        """Compute all values up to the operation that is shown, and give them to the tensors that stand for them."""
        self.opened = True
        for step in self.steps[: self._at + 1]:
            made = self._run(step, self.tensors)
            for v_id, tensor in zip(step.outputs, made, strict=False):
                if v_id in self._shown:
                    # It may have been changed.
                    self.tensors[v_id] = self._shown[v_id]
                    continue
                unread = self._unread.pop(v_id, _nothing)()
                if unread is not None:
                    unread._become(tensor)
                    tensor = unread
                self.tensors[v_id] = tensor

    def close(self) -> None:
        """Give their values to the tensors that somebody kept: what they are made of may change from now on."""
        if not self.opened and any(reference() is not None for reference in self._unread.values()):
            self._open()


def _nothing() -> None:
    return None
