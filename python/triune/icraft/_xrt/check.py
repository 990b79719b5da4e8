"""Checks of tensors against the values that they stand for, before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from triune.icraft._xrt.elements import described
from triune.icraft._xrt.errors import ORDER, RANGE, TYPE, expect, failure
from triune.icraft._xrt.tensor import Tensor

if TYPE_CHECKING:
    from triune.icraft._xir.types import TensorType
    from triune.icraft._xir.values import Value

__all__ = ["check_inputs", "check_outputs", "check_tensor"]


def check_inputs(values: Sequence[Value], tensors: Sequence[Tensor]) -> dict[int, Tensor]:
    """Return the tensors by the numbers of their values.

    Raises InternalError if there are more or fewer, or one does not fit.
    """
    return _checked("input", values, tensors)


def check_outputs(values: Sequence[Value], tensors: Sequence[Tensor]) -> dict[int, Tensor]:
    """Return the tensors to write into by the numbers of their values.

    Raises InternalError if there are more or fewer, one has no memory, or does not fit.
    """
    return _checked("output", values, tensors)


def _checked(what: str, values: Sequence[Value], tensors: Sequence[Tensor]) -> dict[int, Tensor]:
    if len(tensors) != len(values):
        raise failure(RANGE, f"{what}s: expected {len(values)} tensors{_of(values)}, got {len(tensors)}")
    found = {}
    for index, (value, tensor) in enumerate(zip(values, tensors, strict=True)):
        check_tensor(f"{what} {index} (value {value.v_id})", value.tensorType(), tensor)
        found[value.v_id] = tensor
    return found


def _of(values: Sequence[Value]) -> str:
    """The numbers of the values, as far as a message has room."""
    numbers = ", ".join(str(value.v_id) for value in values[:8])
    return f" (of values {numbers}{', ...' if len(values) > 8 else ''})" if len(values) > 1 else ""


def check_tensor(what: str, wanted: TensorType, tensor: Tensor) -> None:
    """Raise InternalError unless a tensor has memory that is still its own, and shape and stored type are those that are wanted.

    An extent that the network does not know fits any; the meaning of axes and the scales are not compared.
    """
    expect(what, tensor, Tensor, "a tensor")
    if not tensor.hasData():
        raise failure(
            ORDER, f"{what}: the tensor has no chunk allocated; mallocOn(region) or copyData(buffer) gives it one"
        )
    chunk = tensor.chunk()
    if chunk._gone:
        # Says why.
        chunk._part(what, 0, 0)
    got = tensor.dtype()
    if got is wanted:
        return
    if len(got.shape) != len(wanted.shape):
        raise failure(RANGE, f"{_unlike(what, wanted, got)}: {len(wanted.shape)} axes are needed, not {len(got.shape)}")
    if any(extent not in (there, -1) for extent, there in zip(wanted.shape, got.shape, strict=True)):
        raise failure(RANGE, _unlike(what, wanted, got))
    if got.element_dtype._numpy() != wanted.element_dtype._numpy():
        raise failure(TYPE, _unlike(what, wanted, got))


def _unlike(what: str, wanted: TensorType, got: TensorType) -> str:
    return f"{what}: expected {described(wanted)}, got {described(got)}"
