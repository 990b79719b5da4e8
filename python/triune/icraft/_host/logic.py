"""Operators in programmable logic on the host: the bits of the logic on a board."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from triune import _native
from triune.icraft._xrt.backend import operands, operation_name
from triune.icraft._xrt.check import check_tensor
from triune.icraft._xrt.device import HostDevice
from triune.icraft._xrt.elements import storage
from triune.icraft._xrt.errors import BACKEND, RANGE, NotSupported, failure
from triune.icraft._xrt.logic import DET_POST, IMAGE_MAKE, Candidates, Picture, rows_type
from triune.icraft._xrt.tensor import Tensor, on_host

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from triune.icraft._xir.operation import Operation
    from triune.icraft._xrt.registry import FForwardOp

__all__ = ["logic_forward"]


def logic_forward(key: str) -> FForwardOp | None:
    """Return what computes a class of operators in logic, None if it is none of them."""
    if key == IMAGE_MAKE:
        return _image_make
    return _det_post if key in DET_POST else None


def _arrays(op: Operation, inputs: Sequence[Tensor], backend: Any) -> list[npt.NDArray[Any]]:
    """Return the operands' bytes."""
    values, name = operands(op), operation_name(op)
    if len(inputs) != len(values):
        raise failure(RANGE, f"{name}: expected {len(values)} inputs (without parameters), got {len(inputs)}")
    if backend.getFakeQf():
        raise NotSupported(f"[{BACKEND}] {name}: logic computes on integers, setFakeQf(True) is without")
    arrays = []
    for index, (value, tensor) in enumerate(zip(values, inputs, strict=True)):
        check_tensor(f"{name}: input {index}", value.tensorType(), tensor)
        tensor._await("forward")
        array = on_host(tensor.to(HostDevice.MemRegion()), "forward")
        arrays.append(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
    return arrays


def _image_make(op: Operation, inputs: list[Tensor], outputs: list[Tensor], backend: Any) -> list[Tensor]:
    (picture,) = _arrays(op, inputs, backend)
    what = Picture.of(op)
    try:
        made = _native.image_make(
            picture,
            width=what.width,
            height=what.height,
            channels=what.channels,
            mean=what.mean,
            scale=what.scale,
            pads=what.pads,
            wide=what.wide,
            arrangement=what.arrangement,
        )
    except _native.Error as error:
        raise failure(BACKEND, f"{operation_name(op)}: {error}") from None
    dtype = op.outputs[0].tensorType()
    shape, element = storage(dtype)
    result = Tensor._of(dtype, np.frombuffer(bytearray(made), element).reshape(shape))
    if outputs:
        check_tensor(f"{operation_name(op)}: output 0", dtype, outputs[0])
        outputs[0].copyFrom(0, result, 0, result._bytes())
    backend.setTimeElapses(op.op_id, 0.0, 0.0)
    return outputs or [result]


def _det_post(op: Operation, inputs: list[Tensor], outputs: list[Tensor], backend: Any) -> list[Tensor]:
    if outputs:
        raise failure(
            RANGE,
            f"{operation_name(op)}: how many candidates there are shows when it has run: they go into no given tensors",
        )
    maps = _arrays(op, inputs, backend)
    what, results = Candidates.of(op), []
    for group, value in zip(what.groups, op.outputs, strict=True):
        compare = (what.compared, what.mask[0] | what.mask[1] << 32, group.threshold) if what.compares else None
        try:
            rows, length = _native.det_post(
                [maps[index] for index in group.operands],
                width=group.width,
                height=group.height,
                anchors=what.anchors,
                parts=what.parts,
                valid=what.valid,
                compare=compare,
                wide=what.wide,
            )
        except _native.Error as error:
            raise failure(BACKEND, f"{operation_name(op)}: {error}") from None
        element = np.dtype(np.int16 if what.wide else np.int8)
        found = np.frombuffer(bytearray(rows), element).reshape(1, 1, -1, length // element.itemsize)
        results.append(Tensor._of(rows_type(value.tensorType(), found.shape[2], found.shape[3]), found))
    backend.setTimeElapses(op.op_id, 0.0, 0.0)
    return results
