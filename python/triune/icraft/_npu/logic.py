"""Operators in programmable logic on a board: its registers are set as programs for the vendor's boards set them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from triune.icraft._npu.chunks import address
from triune.icraft._xir.errors import InternalError
from triune.icraft._xrt.backend import operands, operation_name
from triune.icraft._xrt.check import check_tensor
from triune.icraft._xrt.errors import BACKEND, DEVICE, ORDER, RANGE, NotSupported, failure
from triune.icraft._xrt.logic import WARP_AFFINE, Candidates, Picture, rows_type
from triune.icraft._xrt.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from triune.icraft._npu.backend import NpuBackend
    from triune.icraft._xir.operation import Operation
    from triune.icraft._xrt.memory import MemChunk

__all__ = ["beside", "det_post", "image_make", "set_up_image_make"]

_FEED: Final = 0x1_000C_0000
_IMAGE: Final = 0x1_0000_0400
_POST: Final = 0x1_0000_0800
_ARRANGEMENTS: Final = {"int8": 0, "int16": 1, "uint8": 2}
_IMAGE_MS: Final = 1e-5
"""Milliseconds of a cycle of `ImageMake`, as programs convert its counter."""
_POST_MS: Final = 5e-6
"""The same of `DetPost`."""
_WORD: Final = 0xFFFFFFFF
_BLOCK_BYTES: Final = 32


class _Registers:
    """Registers of a board from a base on."""

    def __init__(self, backend: NpuBackend, op: Operation, base: int) -> None:
        self._device, self._base, self._name = backend._port.device, base, operation_name(op)

    def read(self, offset: int) -> int:
        return int(self._device._native(lambda board: board.read_register(self._base + offset)))

    def write(self, offset: int, value: int) -> None:
        try:
            self._device._native(lambda board: board.write_register(self._base + offset, int(value) & _WORD))
        except InternalError as error:
            raise failure(DEVICE, f"{self._name}: {error}") from error


def _ready(backend: NpuBackend, op: Operation) -> None:
    """Raise InternalError if the device has no logic that could run."""
    port = backend._port
    if not port.computes:
        raise failure(
            DEVICE,
            f"{operation_name(op)}: {port.url!r} has memory only and cannot forward; open a board, or dump a snapshot here and "
            "run that on a board",
        )


def beside(op: Operation, inputs: list[Tensor], outputs: list[Tensor], backend: Any) -> list[Tensor]:
    """Compute `WarpAffine` or `SegPost` as the host does: the board has no model of their logic's time."""
    from triune.icraft._host.logic import seg_post, warp_affine

    _ready(backend, op)
    return (warp_affine if op.typeKey() == WARP_AFFINE else seg_post)(op, inputs, outputs, backend)


def _operands(op: Operation, inputs: Sequence[Tensor]) -> None:
    values, name = operands(op), operation_name(op)
    if len(inputs) != len(values):
        raise failure(RANGE, f"{name}: expected {len(values)} inputs (without parameters), got {len(inputs)}")
    for index, (value, tensor) in enumerate(zip(values, inputs, strict=True)):
        check_tensor(f"{name}: input {index}", value.tensorType(), tensor)


def _target(backend: NpuBackend, op: Operation) -> tuple[MemChunk, int]:
    """Return where the feature map goes: to where the accelerator takes it, or a chunk of its own."""
    value, placement = op.outputs[0], backend._placed
    kept: Any = backend.__dict__.setdefault("_pictures", {})
    if op.op_id not in kept:
        if backend._image_chunk is not None:
            kept[op.op_id] = backend._image_chunk
        elif placement is not None and value.v_id in placement.values and not placement.values[value.v_id].on_chip:
            spot = placement.spot(value.v_id)
            kept[op.op_id] = (spot.chunk, spot.offset)
        else:
            kept[op.op_id] = (backend._port.far(value.storageBytes()), 0)
    found: tuple[MemChunk, int] = kept[op.op_id]
    return found


def set_up_image_make(op: Operation, backend: Any) -> None:
    """Set `ImageMake`'s registers: what is fed from now on becomes the operation's result."""
    what, (chunk, offset) = Picture.of(op), _target(backend, op)
    if what.port or what.base not in (0, _IMAGE):
        raise NotSupported(
            f"[{BACKEND}] {operation_name(op)}: input_port {what.port}, reg_base {what.base:#x}: the board has the ImageMake "
            "of port 0, which a DMA feeds; the others are fed by cameras, which are not modelled"
        )
    registers = _Registers(backend, op, _IMAGE)
    above, below, left, right = what.pads
    registers.write(0x04, 0)
    for index, (mean, scale) in enumerate(zip(what.mean, what.scale, strict=True)):
        registers.write(0x14 + 4 * index, scale & 0xFFFF | (mean & 0xFFFF) << 16)
        registers.write(0x128 + 4 * index, 0)
    registers.write(0x114, address(chunk) + offset)
    registers.write(0x118, what.width)
    registers.write(0x11C, what.height)
    registers.write(0x124, above + (below << 8) + (left << 16) + (right << 24))
    registers.write(0x240, what.channels)
    registers.write(0x244, 1)
    registers.write(0x254, _ARRANGEMENTS[what.arrangement])


def _feed(backend: NpuBackend, op: Operation, what: Picture, picture: Tensor) -> float:
    """Feed a picture as programs do, and return the seconds that its copy to ``udma`` took."""
    start = time.perf_counter()
    in_udma = picture.to(backend._port.device.getMemRegion("udma"))
    copied = time.perf_counter() - start
    pixels, each = what.width * what.height, what.channels * (2 if what.wide else 1)
    whole = 24 // each
    groups = (pixels - 1) // whole
    feed = _Registers(backend, op, _FEED)
    feed.write(0x04, in_udma.data().addr())
    feed.write(0x08, 3 * (groups + 1))
    feed.write(0x0C, pixels - groups * whole)
    feed.write(0x10, what.channels)
    feed.write(0x1C, 1)
    feed.write(0x20, 2 if what.wide else 0)
    feed.write(0x00, 1)
    return copied


def image_make(op: Operation, inputs: list[Tensor], outputs: list[Tensor], backend: Any) -> list[Tensor]:
    """Take the feature map of the picture that was fed, or feed the operand.

    Raises InternalError if a picture was fed while the logic was set up for another session's operation.
    """
    _operands(op, inputs)
    _ready(backend, op)
    what, (chunk, offset) = Picture.of(op), _target(backend, op)
    registers, copied = _Registers(backend, op, _IMAGE), 0.0
    with backend._port.core:
        if registers.read(0x228):
            where = registers.read(0x114)
            if where != address(chunk) + offset:
                registers.write(0x228, 1)
                raise failure(
                    ORDER,
                    f"{operation_name(op)}: the picture that was fed went to {where:#x}, where another session's ImageMake has "
                    "its result, as that was set up last: backend.initOp(operation) before the picture is fed sets up this one",
                )
        else:
            set_up_image_make(op, backend)
            copied = _feed(backend, op, what, inputs[0])
        cycles = registers.read(0x238)
        registers.write(0x22C, cycles)
        registers.write(0x228, 1)
    result = Tensor(op.outputs[0].tensorType(), chunk, offset)
    backend._note_times(op.op_id, copied * 1e3, cycles * _IMAGE_MS, 0.0)
    if outputs:
        check_tensor(f"{operation_name(op)}: output 0", op.outputs[0].tensorType(), outputs[0])
        outputs[0].copyFrom(0, result, 0, result._bytes())
    return outputs or [result]


def det_post(op: Operation, inputs: list[Tensor], outputs: list[Tensor], backend: Any) -> list[Tensor]:
    """Gather the candidates of feature maps in the accelerator's memory; rows lie in ``udma``."""
    _operands(op, inputs)
    _ready(backend, op)
    if outputs:
        raise failure(
            RANGE,
            f"{operation_name(op)}: how many candidates there are shows when it has run: they go into no given tensors",
        )
    what, port = Candidates.of(op), backend._port
    if what.base not in (0, _POST):
        raise NotSupported(
            f"[{BACKEND}] {operation_name(op)}: reg_base {what.base:#x}: the board has DetPost at {_POST:#x}"
        )
    start, maps = time.perf_counter(), []
    for tensor in inputs:
        tensor._await("forward")
        if not tensor.isOn(port.far_region) or (address(tensor.chunk()) + tensor.offset()) % _BLOCK_BYTES:
            there = Tensor(tensor.dtype(), port.far(tensor._bytes()), 0)
            there.copyFrom(0, tensor, 0, tensor._bytes())
            tensor = there
        maps.append(tensor)
    copied = time.perf_counter() - start
    most = sum(group.width * group.height * what.anchors * what.row_bytes for group in what.groups)
    rows = port.device.getMemRegion("udma").malloc(most, True, 64)
    registers, results, cycles, offset = _Registers(backend, op, _POST), [], 0, 0
    bytes_each = 2 if what.wide else 1
    with port.core:
        registers.write(0x04, 1)
        registers.write(0x04, 0)
        registers.write(0x10, what.layers)
        units = [*what.parts, 0, 0]
        for part in range(3):
            registers.write(0x28 + 4 * part, units[part] - 1)
        registers.write(0x38, what.anchors - 1)
        registers.write(0x48, int(what.compares))
        registers.write(0x50, what.mask[0])
        registers.write(0x54, what.mask[1])
        registers.write(0x5C, what.valid - 1)
        registers.write(0x74, max(what.compared, 1) - 1)
        for group, value in zip(what.groups, op.outputs, strict=True):
            positions = group.width * group.height
            for part, index in enumerate(group.operands):
                place = address(maps[index].chunk()) + maps[index].offset()
                registers.write(0x14 + 4 * part, place // _BLOCK_BYTES)
                registers.write(0x3C + 4 * part, positions * units[part] * 2)
            registers.write(0x20, group.width - 1)
            registers.write(0x24, group.height - 1)
            registers.write(0x34, positions * 2)
            registers.write(0x4C, group.threshold)
            registers.write(0x58, (address(rows) + offset) // 8)
            registers.write(0x80, positions * 4 + int(what.wide))
            registers.write(0x08, 1)
            found = registers.read(0x70)
            cycles += registers.read(0x60)
            registers.write(0x0C, 1)
            dtype = rows_type(value.tensorType(), found, what.row_bytes // bytes_each)
            results.append(Tensor(dtype, rows, offset))
            offset += found * what.row_bytes
    backend._note_times(op.op_id, copied * 1e3, cycles * _POST_MS, 0.0)
    return results
