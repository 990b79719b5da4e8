"""Operators in programmable logic on the host: the bits of the logic on a board.

`WarpAffine` and `SegPost` are inferred in what their registers leave open: what is behind the last bit is cut off, which
rounds down; of equal classes the first is taken; and all channels of the operand's blocks are classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from triune import _native
from triune.icraft._xrt.backend import operands, operation_name
from triune.icraft._xrt.check import check_tensor
from triune.icraft._xrt.device import HostDevice
from triune.icraft._xrt.elements import storage
from triune.icraft._xrt.errors import BACKEND, RANGE, NotSupported, failure
from triune.icraft._xrt.logic import (
    DET_POST,
    IMAGE_MAKE,
    SEG_POST,
    WARP_AFFINE,
    Candidates,
    Classes,
    Picture,
    Warp,
    rows_type,
)
from triune.icraft._xrt.tensor import Tensor, on_host

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from triune.icraft._xir.operation import Operation
    from triune.icraft._xrt.registry import FForwardOp

__all__ = ["logic_forward", "seg_post", "warp_affine"]


_BAND: Final = 1 << 20
"""Numbers of a feature map that are 64 bits wide at a time."""


def logic_forward(key: str) -> FForwardOp | None:
    """Return what computes a class of operators in logic, None if it is none of them."""
    return _FORWARDS.get(key)


def _arrays(op: Operation, inputs: Sequence[Tensor], backend: Any) -> list[npt.NDArray[Any]]:
    """Return the operands' bytes."""
    values, name = operands(op), operation_name(op)
    if len(inputs) != len(values):
        raise failure(RANGE, f"{name}: expected {len(values)} inputs (without parameters), got {len(inputs)}")
    if getattr(backend, "getFakeQf", bool)():
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
    return _given(op, bytearray(made), outputs, backend)


def _given(op: Operation, made: Any, outputs: list[Tensor], backend: Any) -> list[Tensor]:
    """Return the bytes of an operation's result as its tensor, or put them into the one that was given."""
    dtype = op.outputs[0].tensorType()
    shape, element = storage(dtype)
    result = Tensor._of(dtype, np.frombuffer(made, element).reshape(shape))
    if outputs:
        check_tensor(f"{operation_name(op)}: output 0", dtype, outputs[0])
        outputs[0].copyFrom(0, result, 0, result._bytes())
    backend.setTimeElapses(op.op_id, 0.0, 0.0)
    return outputs or [result]


def warp_affine(op: Operation, inputs: list[Tensor], outputs: list[Tensor], backend: Any) -> list[Tensor]:
    """Compute a `WarpAffine`: places in 1/32768 of a pixel, the sum of four products cut off."""
    (given,) = _arrays(op, inputs, backend)
    what = Warp.of(op)
    rows, columns, _ = what.shape
    pixels = given.view(np.int16 if what.wide else np.int8).reshape(what.shape)
    i, j = np.arange(what.made[1], dtype=np.int64)[None, :], np.arange(what.made[0], dtype=np.int64)[:, None]
    x, y = (a * i + b * j + (c << 14) for a, b, c in what.coefficients)

    def taken(row: npt.NDArray[Any], column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        found: npt.NDArray[Any] = pixels[np.clip(row, 0, rows - 1), np.clip(column, 0, columns - 1)]
        if not what.replicate:
            found[(row < 0) | (row >= rows) | (column < 0) | (column >= columns)] = what.border
        return found

    if what.linear:
        across, under = (x & 0x7FFF)[..., None], (y & 0x7FFF)[..., None]
        x, y = x >> 15, y >> 15
        total = np.zeros((*what.made, what.shape[2]), np.int64)
        for below in (0, 1):
            for right in (0, 1):
                share = (across if right else (1 << 15) - across) * (under if below else (1 << 15) - under)
                total += taken(y + below, x + right) * share
        made = (total >> 30).astype(pixels.dtype)
    else:
        made = taken((y + (1 << 14)) >> 15, (x + (1 << 14)) >> 15)
    return _given(op, bytearray(made.tobytes()), outputs, backend)


def seg_post(op: Operation, inputs: list[Tensor], outputs: list[Tensor], backend: Any) -> list[Tensor]:
    """Compute a `SegPost`: of every pixel the class in 8 bits, and its value in 24, with 4 bits of fraction if it resizes."""
    (given,) = _arrays(op, inputs, backend)
    what = Classes.of(op)
    blocks, rows, columns, block = what.shape
    stored = given.view(np.int16 if what.wide else np.int8).reshape(what.shape)
    pixels: npt.NDArray[Any] = stored.transpose(1, 2, 0, 3).reshape(rows, columns, blocks * block)
    made = np.empty(what.made, "<u4")
    band = max(_BAND // (max(columns, what.made[1]) * blocks * block), 1)
    for top in range(0, what.made[0], band):
        lines = np.arange(top, min(top + band, what.made[0]), dtype=np.int64)
        values = pixels
        if what.resizes:
            for axis, (extent, at) in enumerate(((rows, lines), (columns, np.arange(what.made[1], dtype=np.int64)))):
                place = np.clip(what.first[axis] + what.step[axis] * at, 0, (extent - 1) << 16)
                before = place >> 16
                share = (place & 0xFFFF).reshape([-1 if each == axis else 1 for each in range(3)])
                behind = np.minimum(before + 1, extent - 1)
                values = values.take(before, axis) * ((1 << 16) - share) + values.take(behind, axis) * share
            values >>= 28
        else:
            values = pixels[lines].astype(np.int64)
        values[:, :, list(what.padding)] = np.iinfo(np.int64).min
        kind = values.argmax(2)
        value = np.take_along_axis(values, kind[..., None], 2)[..., 0]
        made[lines] = kind | (value & 0xFFFFFF) << 8
    return _given(op, bytearray(made.tobytes()), outputs, backend)


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


_FORWARDS: dict[str, FForwardOp] = {
    IMAGE_MAKE: _image_make,
    **dict.fromkeys(DET_POST, _det_post),
    WARP_AFFINE: warp_affine,
    SEG_POST: seg_post,
}
