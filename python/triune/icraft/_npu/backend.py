"""The backend of an accelerator: its options, what `apply` does, how operations are run.

A kind of accelerator derives from `NpuBackend`, says which devices and operations are its own, and names the options as the
vendor does.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from triune import _fork, _native
from triune._text import short
from triune.icraft._npu.chunks import PAGE, check_chunk
from triune.icraft._npu.log import write_log
from triune.icraft._npu.logic import beside, det_post, image_make, set_up_image_make
from triune.icraft._npu.merge import merged_operation
from triune.icraft._npu.network import Hard, hard_network
from triune.icraft._npu.placement import Fault, Placement, Requests, share_chip
from triune.icraft._npu.port import Port
from triune.icraft._npu.report import Kinds, Report
from triune.icraft._npu.run import run_operations
from triune.icraft._npu.times import modelled
from triune.icraft._xir.objects import ObjectRef
from triune.icraft._xrt.backend import Backend, operation_name, view_of
from triune.icraft._xrt.device import Device, HostDevice
from triune.icraft._xrt.errors import BACKEND, DEVICE, ORDER, RANGE, NotSupported, failure
from triune.icraft._xrt.logic import SEG_POST, WARP_AFFINE, unknown_logic
from triune.icraft._xrt.turn import turn

if TYPE_CHECKING:
    from triune.icraft._xir.operation import Operation
    from triune.icraft._xir.view import NetworkView
    from triune.icraft._xrt.memory import MemChunk
    from triune.icraft._xrt.registry import FForwardOp, FInitOp
    from triune.icraft._xrt.tensor import Tensor

__all__ = ["NpuBackend"]

_HARD_OP = "icraft::xir::HardOpNode"
_COUNTING = threading.RLock()
_fork.keep_free(_COUNTING)


class NpuBackend(Backend):
    """What computes operations with commands on a device; without arguments a null handle."""

    _accelerator: ClassVar[str] = ""
    """The device's name in the core."""
    _target: ClassVar[str] = ""
    """How networks name the accelerator."""
    _steps: ClassVar[int] = PAGE
    """Chunks of the program's begin at multiples of so many bytes."""
    _packed: ClassVar[bool] = False
    """Whether all inputs lie in one chunk, and all outputs in one."""
    _image_make: ClassVar[str] = ""
    """The class of operators that make feature maps of pictures, if its boards have such logic."""
    _det_post: ClassVar[str] = ""
    """The class of those that gather a detector's candidates."""
    _kinds: ClassVar[Kinds]
    """The classes that tell what is deployed."""
    _count: ClassVar[int] = 0

    _id: int
    _at: Port | None
    _merging: bool
    _reuse: bool
    _on_chip: str
    _near_limit: int | None
    _hard_ops: list[Operation]
    _index: dict[int, int]
    _hard: Hard | None
    _laid_out: tuple[object, _native.Deployment] | None
    _placed: Placement | None
    _requests: Requests
    _owner: NpuBackend | None
    _merged: dict[int, tuple[Operation, int, int]]
    _image_chunk: tuple[MemChunk, int] | None
    """Where the program wants a picture's feature map."""
    _modelled: dict[int, float]
    """The milliseconds that operations take on a board, by number, as far as that is asked for."""

    def _set_up(self) -> None:
        super()._set_up()
        with _COUNTING:
            self._id = type(self)._count
            type(self)._count += 1
        self._turn, self._at, self._modelled = turn(), None, {}
        self._defaults()
        self._forget()

    def _defaults(self) -> None:
        """Set the options to what they are at first."""
        self._merging, self._reuse, self._on_chip, self._near_limit = True, True, "best_score", None

    def _forget(self) -> None:
        self._hard_ops, self._index, self._hard = [], {}, None
        self._laid_out, self._placed, self._requests, self._owner, self._merged = None, None, Requests(), None, {}
        self._image_chunk = None
        self.__dict__.pop("_pictures", None)

    # ---- what a backend does

    def setDevice(self, device: Device) -> Self:
        """Bind a board. The host, and a null handle, stand for one that has memory and registers, and computes nothing.

        Raises InternalError if it is another device.
        """
        null = getattr(device, "_undefined", False)
        return super().setDevice(HostDevice.Default() if null else device)

    def _accept(self, device: Device) -> None:
        port = Port.of(device)
        if port is None and isinstance(device, HostDevice):
            # The manual's own samples bind and apply without a board.
            port = self._at if self._at is not None and self._at.stands_in else Port.standing_in(self._accelerator)
        if port is None or port.accelerator != self._accelerator:
            found = type(device).__name__ if port is None else f"a device {port.accelerator!r}"
            raise failure(
                DEVICE, f"{type(self).__name__} computes on devices of {self._accelerator}, not on {found}: Device.Open"
            )
        self._at = port

    def init(self, network_view: NetworkView, device: Device) -> None:
        """Bind the operations and the device. Options stay, and so do chunks that the program gave.

        Raises InternalError if the backend does not work with the device, or there are chunks of the program's and the
        operations on the accelerator or the device are others than those that they are for.
        """
        self.setDevice(device)
        chunks = self._requests.chunks()
        if chunks:
            own = [op for op in view_of(network_view).ops if self._is_own(op)]
            same = len(own) == len(self._hard_ops) and all(map(ObjectRef.same_as, own, self._hard_ops))
            if not same or not all(chunk.isOn(self._port.far_region) for chunk in chunks):
                raise failure(
                    ORDER,
                    f"{type(self).__name__}.init: it was given memory chunks for other operations or another device; deinit "
                    "lets go of them",
                )
        super().init(network_view, device)

    def _init(self) -> None:
        requests, chunk = self._requests, self._image_chunk
        self._forget()
        self._requests, self._image_chunk = requests, chunk
        self._hard_ops = [op for op in self.network_view.ops if self._is_own(op)]
        if self._hard_ops:
            self._hard = hard_network(self.network_view.network())
            self._index = {op.op_id: index for index, op in enumerate(self._hard_ops)}

    def _deinit(self) -> None:
        self._forget()

    def _fork_into(self, twin: Self) -> None:
        twin._at = self._at
        twin._init()
        twin._merging, twin._reuse, twin._on_chip = self._merging, self._reuse, self._on_chip
        twin._owner = self
        # Feature maps are a fork's own.
        twin._requests.segments = {name: chunk for name, chunk in self._requests.segments.items() if name != "ftmp"}

    def _apply(self) -> None:
        if self._applied or not self._hard_ops:
            return
        assert self._hard is not None
        if not self._hard.native.is_complete:
            raise failure(
                ORDER,
                f"{type(self).__name__}.apply: parameters of {self._hard.name!r} have no data: loadParamsFromFile",
            )
        port, deployment = self._port, self._deployment
        shares, room = self._merging, port.near_room(self._merging)
        shared = share_chip(port, deployment.on_chip_bytes) if deployment.on_chip_bytes > room else None
        if shared is not None:
            shares = True
        elif deployment.on_chip_bytes > room:
            self._near_limit = room
            deployment = self._deployment
        self._check_requests(deployment)
        owner = self._owner._placed if self._owner is not None else None
        try:
            self._placed = Placement(
                deployment, port, self._requests, owner, packed=self._packed, shares_chip=shares, turn=self._turn
            )
        except _native.Error as error:
            raise failure(DEVICE, f"{type(self).__name__}.apply: {error}") from None
        if self._merging:
            for first, last in deployment.runs:
                if last - first > 1:
                    self._merge([op.op_id for op in self._hard_ops[first:last]])

    def _saved(self) -> dict[str, Any]:
        return {"merge": self._merging, "reuse": self._reuse, "onChip": self._on_chip}

    def _restore(self, options: dict[str, Any]) -> None:
        on_chip = options["onChip"]
        if on_chip not in ("compiled", "none", "option1", "option2", "option3", "best_score"):
            raise ValueError(short(f"onChip: {on_chip!r}"))
        self._merging, self._reuse, self._on_chip = bool(options["merge"]), bool(options["reuse"]), on_chip

    def _check_requests(self, deployment: _native.Deployment) -> None:
        """Raise InternalError if a chunk of the program's does not do for what is deployed in the end."""
        whole = {name: (chunk, 0) for name, chunk in self._requests.segments.items()}
        for name, (chunk, offset) in (whole | self._requests.edges).items():
            need = deployment.segments[name][1]
            if self._near_limit is not None and chunk.byte_size < offset + need:
                raise failure(
                    RANGE,
                    f"apply: {name.upper()}: {need} bytes are needed, the memory chunk has {chunk.byte_size - offset}: others "
                    f"hold the memory on the chip, of which {self._near_limit} bytes are left; let go of their tensors there, or "
                    "ask logic_segment_map anew for the size",
                )
            check_chunk(f"apply: {name.upper()}", chunk, self._port, need, offset, self._steps)

    def _note_times(self, op_id: int, copies: float, board: float, launch: float) -> None:
        """Note the milliseconds of copies and of the board, of which it takes `launch` to begin."""
        if modelled():
            self.setTimeElapses(op_id, copies, board - launch)
            self._modelled[op_id] = copies + board
        else:
            self.setTimeElapses(op_id, copies, board)
            self._modelled.pop(op_id, None)

    def _wall(self, op_id: int, measured: float) -> float:
        return self._modelled.get(op_id, measured)

    def _is_own(self, op: Operation) -> bool:
        return op.typeKey() == _HARD_OP and self._target in str(op.compile_target)

    def _forward_func(self, op: Operation) -> FForwardOp | None:
        if self._is_logic(op):
            key = op.typeKey()
            if key in (WARP_AFFINE, SEG_POST):
                return beside
            return image_make if key == self._image_make else det_post if key == self._det_post else _explain
        return _forward if self._is_own(op) else None

    def _init_func(self, op: Operation) -> FInitOp | None:
        return _set_up_logic if self._is_logic(op) and op.typeKey() == self._image_make else None

    def _is_logic(self, op: Operation) -> bool:
        """Return whether an operation is done by logic of the vendor's beside the accelerator, such as `ImageMake`."""
        return op.typeKey().startswith("customop::") and "fpgat" in str(op.compile_target)

    # ---- deployment

    @property
    def _port(self) -> Port:
        if self._at is None:
            raise failure(ORDER, f"{type(self).__name__} has no device yet: init(network_view, device) binds one")
        return self._at

    @property
    def _hard_network(self) -> Hard:
        if self._hard is None:
            name = self.network_view.network().name
            raise failure(ORDER, f"{type(self).__name__} has no operations of network {name!r} for the accelerator")
        return self._hard

    @property
    def _deployment(self) -> _native.Deployment:
        """The operations laid out by the options as they are."""
        hard = self._hard_network
        key = (self._reuse, self._on_chip, self._near_limit)
        if self._laid_out is None or self._laid_out[0] != key:
            wanted = self.network_view.view([op.op_id for op in self._hard_ops]).outputs()
            try:
                made = hard.native.deploy(
                    [op.op_id for op in self._hard_ops],
                    [value.v_id for value in wanted],
                    reuse=self._reuse,
                    on_chip=self._on_chip,
                    on_chip_bytes=self._near_limit,
                )
            except _native.Error as error:
                raise failure(BACKEND, f"network {hard.name!r}: {error}") from None
            self._laid_out = (key, made)
        return self._laid_out[1]

    @property
    def _report(self) -> Report:
        return Report(self, self._kinds)

    @property
    def _placement(self) -> Placement:
        _ = self._hard_network
        if self._placed is None:
            raise failure(ORDER, f"{type(self).__name__}: this comes after apply, which was not called")
        return self._placed

    def _before_apply(self, what: str) -> None:
        if self._applied:
            raise failure(ORDER, f"{type(self).__name__}.{what} comes before apply, which was called")

    # ---- merged operations

    def _row(self, op: Operation) -> object:
        """Return what operations have in common that run as one, None for one that runs by itself."""
        if not self._merging or op.op_id not in self._index or self._placed is None:
            return None
        index = self._index[op.op_id]
        return next(first for first, last in self._placed.deployment.runs if first <= index < last)

    def _merge(self, op_ids: Sequence[int]) -> Operation:
        """Return the operation that stands for several in a row."""
        first, last = self._index[op_ids[0]], self._index[op_ids[-1]] + 1
        for op, *span in self._merged.values():
            if span == [first, last]:
                return op
        assert self._hard is not None
        number = self._hard.native.last_op + 1 + self._hard.native.op_ids.index(op_ids[0])
        if number in self._merged:
            number = max(self._hard.native.last_op + len(self._hard.native.op_ids), *self._merged) + 1
        op = merged_operation(self.network_view.network(), op_ids, number)
        self._merged[number] = (op, first, last)
        return op

    def _span(self, op: Operation) -> tuple[int, int]:
        """Return which of the backend's operations one is, or stands for."""
        found = self._merged.get(op.op_id)
        if found is not None:
            return found[1:]
        index = self._index.get(op.op_id)
        if index is None:
            raise failure(BACKEND, f"{operation_name(op)} is none of the backend's operations")
        return index, index + 1

    # ---- running

    def _refuse_to_run(self, op: Operation) -> None:
        """Raise InternalError if nothing can be run."""
        if self._hard is not None and self._hard.native.is_foreign:
            raise NotSupported(
                f"[{BACKEND}] {operation_name(op)}: its instructions are the vendor's machine code, whose meaning only the "
                "chip knows; the network can be deployed, inspected and timed. To run it, compile the model that it came "
                f"from: triune compile MODEL.onnx --target {self._accelerator} --format icraft -o DIR"
            )
        if self._port.stands_in:
            raise failure(
                DEVICE,
                f"{operation_name(op)}: {type(self).__name__} was given no board, so that the session can be applied and looked "
                f"at, and cannot forward; give it Device.Open({self._port.url.replace('mock', 'axi', 1)!r})",
            )
        if not self._port.computes:
            raise failure(
                DEVICE,
                f"{operation_name(op)}: {self._port.url!r} has memory only and cannot forward; open a board, or dump a snapshot "
                "here and run that on a board",
            )

    # ---- checks

    def _check_memory(self) -> list[Fault]:
        """Return the first wrong byte of the segments that have some."""
        with self._turn:
            return self._placement.faults()

    def precheck(self) -> bool:
        """Compare instructions and weights in the device's memory with what was put there; print what is wrong.

        Raises InternalError before `apply`.
        """
        found = self._check_memory() if self._hard_ops else []
        for fault in found:
            print(f"[E] {type(self).__name__} precheck: {fault}", flush=True)
        return not found

    def log(self) -> None:
        """Write what is deployed where to a file in ``.icraft/logs``.

        Raises InternalError before `apply`, or if the file cannot be written.
        """
        write_log(self, self._placement)

    def _json(self) -> Any:
        return {"_type_key": self._json_key(), "id": self._id, "ops": [op.op_id for op in self._hard_ops]}


def _explain(op: Operation, inputs: list[Tensor], outputs: list[Tensor], backend: Any) -> list[Tensor]:
    """Raise InternalError: what the vendor's logic computes is not known here."""
    raise unknown_logic(op, type(backend).__name__)


def _set_up_logic(op: Operation, backend: Any) -> None:
    """Set logic up, if the device has any that runs; else running it says so."""
    if backend._port.computes:
        set_up_image_make(op, backend)


def _forward(op: Operation, inputs: list[Tensor], outputs: list[Tensor], backend: Any) -> list[Tensor]:
    """Run an operation, or those that it stands for, on the device."""
    return run_operations(backend, op, inputs, outputs)
