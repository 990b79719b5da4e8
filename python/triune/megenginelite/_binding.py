"""A loaded model and the tensors of its inputs and outputs: which memory the native module computes on."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from triune.megenginelite import _devices
from triune.megenginelite._config import LiteIO, Settings
from triune.megenginelite._errors import failure
from triune.megenginelite._layout import NAMES, LiteLayout, Shape
from triune.megenginelite.base import LOG
from triune.megenginelite.struct import LiteDataType, LiteDeviceType, LiteIOType
from triune.megenginelite.tensor import LiteTensor

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from triune import _native
    from triune.megenginelite._load import Stated
else:
    from triune.megenginelite._numpy import np

__all__ = ["Binding", "Flag", "Port"]

_SMALL = 1 << 20
"""Bytes of weights and feature maps up to which a run takes about as long as loading a model does anyway."""

_AT_ONCE = 64 << 20
"""Bytes of an output that are there before the first run. A larger one comes as it is touched: a small file can ask for any."""

_KINDS = {name: kind for kind, name in NAMES.items()}
_KINDS["bool"] = LiteDataType.LITE_UINT8


class Flag:
    """Whether the next run needs more than one native call. Tensors set it when they change.

    It is an object of its own so that tensors keep no network alive, nor itself through them.
    """

    __slots__ = ("dirty",)

    def __init__(self) -> None:
        """Be set, as nothing is bound yet."""
        self.dirty = True


class Port:
    """An input or output: its tensor, and how the model wants it."""

    def __init__(
        self, index: int, planned: tuple[str, str, list[int] | None], declared: list[int | str], what: str
    ) -> None:
        """Take what the native module says of it: as it is planned for, and the extents as the model gives them.

        Raises RuntimeError if no tensor can be of its element type.
        """
        name, dtype, shape = planned
        if dtype not in _KINDS:
            raise failure(f"{what} {name!r} is of {dtype}, which no tensor can have; there are {', '.join(_KINDS)}")
        self.index = index
        self.name = name
        self.dtype = dtype
        self.kind = int(_KINDS[dtype])
        self.io: LiteIO = LiteIO(name)
        self.tensor: LiteTensor
        # The model's own idea of the shape: () for a scalar, which is a tensor of one element here.
        self.shape: Shape | None = None if shape is None else tuple(shape)
        self._declared: Shape = tuple(-1 if isinstance(extent, str) else extent for extent in declared)
        self.staged: npt.NDArray[Any] | None = None

    @property
    def declared(self) -> Shape:
        """The extents as the model gives them, -1 for one that it leaves open; none if it does not even say how many."""
        if self.shape is None or len(self._declared) == len(self.shape):
            return self._declared if self.shape is None else _tensor_shape(self._declared)
        # MegEngine's files give no extents of outputs.
        return (-1,) * len(self.shape)

    def native(self, array: npt.NDArray[Any], shape: Shape) -> npt.NDArray[Any]:
        """Return elements as the native module knows them."""
        if self.dtype == "bool":
            array = array.view(np.bool_)
        if array.shape != shape:
            if array.size != math.prod(shape):
                raise self.moved()
            return array.reshape(shape)
        # A tensor has a view of an array that it shares: of the array itself the native module sees if it is resized.
        owner = array.base
        if type(owner) is np.ndarray and (owner.shape, owner.dtype) == (shape, array.dtype) and _plain(owner):
            return owner
        return array

    def moved(self) -> RuntimeError:
        """Return the error of a tensor that is not as it was when a run began."""
        return failure(
            f"{self.name!r}: its tensor got another layout, or memory, while a run was under way: wait for the run first; "
            "threads that share a network need a lock around setting inputs, forward and reading outputs"
        )

    def layout(self) -> LiteLayout:
        """Return the model's layout; an empty shape if it is not known."""
        return LiteLayout(_tensor_shape(self.shape) if self.shape is not None else (), LiteDataType(self.kind))


class Binding:
    """A loaded model, its tensors, and what the native module was told of them."""

    def __init__(
        self,
        native: _native.Session,
        settings: Settings,
        packed: tuple[list[LiteIO], list[LiteIO]],
        asked: tuple[list[LiteIO], list[LiteIO]],
        title: str,
        stated: list[Stated],
    ) -> None:
        """Make the tensors, where and as the program (`asked`) wants them, or a packed model, which counts more; `title` is
        what messages call the model.

        Raises RuntimeError if a tensor cannot be of an element type, the discrete input is not there, or what a packed model
        states of inputs and outputs is not so.
        """
        self.flag = Flag()
        self.native = native
        self.title = title
        self.inputs, self.outputs = (
            [
                Port(index, planned, extents, what)
                for index, (planned, (_, _, extents)) in enumerate(zip(ports, declared, strict=True))
            ]
            for what, ports, declared in zip(
                ("input", "output"), native.planned, (native.inputs, native.outputs), strict=True
            )
        )
        self.computed = False
        """Whether there was any run."""
        self._settings = settings
        self._warned = False
        known = [port.shape for port in self.inputs]
        # What the native module plans for.
        self._shapes = None if None in known else [shape for shape in known if shape is not None]
        self._check(stated)
        self._place(self.inputs, [*asked[0], *packed[0]], "input")
        self._place(self.outputs, [*asked[1], *packed[1]], "output")
        places = {name: place for place, name in enumerate(dict.fromkeys(io.name for io in [*asked[1], *packed[1]]))}
        once: dict[str, Port] = {}
        for port in self.outputs:
            once.setdefault(port.name, port)
        self.listed = sorted(once.values(), key=lambda port: places.get(port.name, len(places)))
        """The outputs as programs count them: those that a `LiteIO` configures first, in that order, then the model's others.
        What a model has twice is there once."""
        self.discrete = self._make_discrete()
        """The samples of the discrete input, by its name."""

    def _check(self, stated: list[Stated]) -> None:
        """Compare a packed model's information with the model. Other extents are a wish for an input, no contradiction."""
        ports = {("input", port.name): port for port in self.inputs}
        ports |= {("output", port.name): port for port in self.outputs}
        for said in stated:
            port = ports.get((said.what, said.name))
            if port is None:
                continue
            shape = None if port.shape is None else list(_tensor_shape(port.shape))
            wrong_rank = bool(said.shape) and shape is not None and len(said.shape) != len(shape)
            if wrong_rank or (said.kind is not None and said.kind != port.kind):
                kind = "" if said.kind is None else f" {NAMES[said.kind]}"
                raise failure(
                    f"packed model: its information has {said.what} {said.name!r} as {said.shape}{kind}, the model as "
                    f"{'a shape that is open' if shape is None else shape} {port.dtype}; "
                    "LiteExtraConfig(True) leaves the information aside"
                )
            if said.what == "output" and said.shape and shape is not None and said.shape != shape:
                LOG.warning(
                    "packed model: its information has output %r as %s, the model as %s", said.name, said.shape, shape
                )

    def _place(self, ports: list[Port], requested: list[LiteIO], what: str) -> None:
        by_name = {port.name: port for port in ports}
        for io in requested:
            port = by_name.get(io.name)
            if port is None:
                LOG.warning(
                    "%s has no %s %r, which a LiteIO configures: it is ignored; there are %s",
                    self.title,
                    what,
                    io.name,
                    ", ".join(repr(port.name) for port in ports) or "none",
                )
                continue
            port.io = LiteIO(io.name, io.is_host, io.io_type, io.config_layout)
        settings = self._settings
        on_host = settings.device_type in _devices.HOSTS
        for port in ports:
            if on_host:
                port.io.is_host = True
            layout = port.layout()
            if what == "input" and port.io.config_layout.ndim:
                layout.shapes = port.io.config_layout.shapes
            if port.io.is_host:
                port.tensor = LiteTensor(layout, device_id=settings.device_id, is_pinned_host=not on_host)
            else:
                port.tensor = LiteTensor(layout, settings.device_type, settings.device_id)
            port.tensor._binding = self.flag
            port.tensor._title = f"{self.title}: {what} {port.name!r}"
            if port.shape is None:
                port.tensor._open = self._why_open(port, what)
            if what == "output" and port.io.io_type == LiteIOType.LITE_IO_SHAPE:
                port.tensor._on_read = (
                    f"{port.tensor._title} is LITE_IO_SHAPE: only its layout is set, its values are not copied and read "
                    "as zero"
                )

    def _why_open(self, port: Port, what: str) -> str:
        shape = f"the shape of {what} {port.name!r} is open in {self.title}: {list(port.declared)}"
        if what == "output":
            return f"{shape}; a run sets it"
        return f"{shape}; set data, tensor.layout, or a LiteIO's layout"

    def release(self) -> None:
        """Note that the tensors are no longer a network's: who writes them is told."""
        for port in [*self.inputs, *self.outputs]:
            port.tensor._on_write = (
                f"{port.tensor._title}: the tensor is written, but no network reads it any more: the model was loaded "
                "anew, or let go; get_io_tensor has the tensors of the model that is loaded"
            )

    def _make_discrete(self) -> dict[str, list[LiteTensor]]:
        name = self._settings.discrete_input
        if not name:
            return {}
        port = next((port for port in self.inputs if port.name == name), None)
        if port is None:
            raise failure(f"discrete_input_name: the model has no input {name!r}")
        shape = port.tensor._shape
        if not shape:
            raise failure(f"discrete_input_name: the shape of {name!r} is open; configure its layout with a LiteIO")
        layout = LiteLayout([1, *shape[1:]], LiteDataType(port.kind))
        tensors = [
            LiteTensor(layout, port.tensor._device_type, port.tensor._device_id, port.tensor._is_pinned_host)
            for _ in range(shape[0])
        ]
        for tensor in tensors:
            tensor._binding = self.flag
        return {name: tensors}

    def busy(self) -> bool:
        """Return whether every run needs more than the native call."""
        return bool(
            self.discrete
            or self._settings.options["force_output_dynamic_alloc"]
            or any(port.staged is not None for port in [*self.inputs, *self.outputs])
            or any(port.shape is None for port in self.outputs)
        )

    def make_ready(self) -> bool:
        """Do what the first run would do beyond computing, while a model is loaded; return whether it could be done.

        It cannot while shapes are open, or differ from the model's, nor with options that look at every run. A small network runs
        once, so that its first run finds code and data in the caches.
        """
        known = self._shapes is not None and all(port.shape is not None for port in self.outputs)
        options = self._settings.options
        if (
            not known
            or self.busy()
            or options["force_output_use_user_specified_memory"]
            or [port.tensor._shape for port in self.inputs] != [_tensor_shape(shape) for shape in self._shapes or []]
        ):
            return False
        self._bind(check=False)
        if self._settings.device_type != LiteDeviceType.LITE_NPU and self.native.run_bytes <= _SMALL:
            try:
                self.native.forward()
            except Exception as error:
                # On zeros, which may be nothing that the model takes; what else it is, the first run raises.
                LOG.debug("a trial run failed: %s", error)
        for port in self.outputs:
            # All of its memory is there now, and holds nothing yet.
            if port.tensor.nbytes <= _AT_ONCE:
                port.tensor._elements().fill(0)
        self.flag.dirty = False
        return True

    def first(self) -> None:
        """Do the first run behind `make_ready`."""
        for port in self.inputs:
            if not port.tensor._written:
                self._check_set(port)
        self.native.forward()
        self.computed = True

    def plan(self) -> None:
        """Plan for the layouts that the inputs have now, without a run.

        Raises RuntimeError if one is open, or the model does not take them.
        """
        shapes = [self._shape_of(port) for port in self.inputs]
        if shapes != self._shapes:
            # Arrays that are bound do not fit the new plan.
            self.flag.dirty = True
            self._replan(shapes)

    def prepare(self) -> None:
        """See to it that the native module knows of the tensors as they are.

        Raises RuntimeError if they are not as the model, or an option, needs them.
        """
        if self._settings.options["force_output_dynamic_alloc"]:
            for port in self.outputs:
                port.tensor._array = port.tensor._block = None
                self.flag.dirty = True
        if self.discrete:
            self._gather()
        if self.flag.dirty:
            self._bind()
            self.flag.dirty = False

    def _bind(self, check: bool = True) -> None:
        shapes = [self._shape_of(port) for port in self.inputs]
        if shapes != self._shapes or any(port.shape is None for port in self.inputs):
            self._replan(shapes)
        for port in self.outputs:
            if port.shape is not None:
                self._fit(port, port.shape)
        if self._settings.options["force_output_use_user_specified_memory"]:
            for port in self.outputs:
                self._check_memory(port)
        bound: list[npt.NDArray[Any]] = []
        for port, shape in zip(self.inputs, shapes, strict=True):
            if check:
                self._check_set(port)
            array = port.tensor._elements()
            port.staged = None if _plain(array) else np.empty(array.shape, array.dtype)
            bound.append(port.native(array if port.staged is None else port.staged, shape))
        results: list[npt.NDArray[Any] | None] = []
        for port in self.outputs:
            port.staged = None
            if port.shape is None:
                results.append(None)
                continue
            if port.io.io_type == LiteIOType.LITE_IO_SHAPE:
                # Only the shape is wanted: the values go nowhere.
                array = np.empty(port.tensor._shape, NAMES[port.kind])
            else:
                array = port.tensor._elements()
                shared = [*bound, *(result for result in results if result is not None)]
                if (
                    not _plain(array)
                    or not array.flags.writeable
                    or any(np.may_share_memory(array, other) for other in shared)
                ):
                    port.tensor._writable()
                    array = port.staged = np.empty(array.shape, array.dtype)
            results.append(port.native(array, port.shape))
        self.native.bind(bound, results)

    def _fit(self, port: Port, shape: Shape) -> None:
        """Give an output's tensor the layout of the results, in memory of the program's if they fit there.

        Raises RuntimeError if that is of another element type.
        """
        tensor = port.tensor
        shared, there = tensor._user_memory, tensor.nbytes
        if shared and tensor._kind != port.kind:
            raise failure(
                f"output {port.name!r}: the model gives {port.dtype}, the memory that was shared is of {NAMES[tensor._kind]}"
            )
        tensor._relayout(_tensor_shape(shape), port.kind)
        if shared and not tensor._user_memory and not self._settings.options["force_output_use_user_specified_memory"]:
            LOG.warning(
                "%s: the memory that was shared has %d bytes, the results %d: they go into new memory, and what was shared "
                "is not written",
                tensor._title,
                there,
                tensor.nbytes,
            )

    def _check_memory(self, port: Port) -> None:
        if not port.tensor._user_memory:
            raise failure(
                f"force_output_use_user_specified_memory: output {port.name!r} has no memory of the program's, or "
                f"too little of it: give it {port.tensor.nbytes} bytes with set_data_by_share"
            )

    def _shape_of(self, port: Port) -> Shape:
        tensor = port.tensor
        if tensor._kind != port.kind:
            raise failure(f"input {port.name!r}: the model takes {port.dtype}, the tensor is of {NAMES[tensor._kind]}")
        if not tensor._shape:
            raise failure(tensor._open or f"input {port.name!r} has no layout: set data, or tensor.layout")
        return () if port.shape == () and tensor._shape == (1,) else tensor._shape

    def _replan(self, shapes: list[Shape]) -> None:
        options = self._settings.options
        if self.computed and self._shapes is not None and shapes != self._shapes:
            names = [
                f"{port.name!r} from {list(old)} to {list(new)}"
                for port, old, new in zip(self.inputs, self._shapes, shapes, strict=True)
                if old != new
            ]
            if options["const_shape"]:
                raise failure(f"const_shape: the shapes of inputs changed: {', '.join(names)}")
            if options["comp_node_seq_record_level"] == 2:
                raise failure(f"comp_node_seq_record_level=2: the shapes of inputs changed: {', '.join(names)}")
        self._shapes = None
        try:
            found = self.native.prepare(shapes)
        except RuntimeError as error:
            if (cured := without_device_part(error, self.title)) is not None:
                raise cured from None
            wanted = ", ".join(f"{port.name!r} {list(shape)}" for port, shape in zip(self.inputs, shapes, strict=True))
            raise failure(f"the model does not take inputs {wanted}: {error}") from None
        self._shapes = shapes
        for port, shape in zip(self.inputs, shapes, strict=True):
            port.shape = shape
        for port, result in zip(self.outputs, found, strict=True):
            port.shape = None if result is None else tuple(result)

    def _check_set(self, port: Port) -> None:
        if self._warned or port.tensor._written or port.io.io_type == LiteIOType.LITE_IO_SHAPE:
            return
        self._warned = True
        LOG.warning("%s was never set: it is zero", port.tensor._title)

    def _gather(self) -> None:
        """Bring the samples of a discrete input together."""
        for name, tensors in self.discrete.items():
            whole = next(port.tensor for port in self.inputs if port.name == name)
            if not any(tensor._written for tensor in tensors) and whole._written:
                # The program set the input as a whole.
                continue
            first = tensors[0]
            for number, tensor in enumerate(tensors):
                if tensor._shape != first._shape or tensor._kind != first._kind or tensor._shape[:1] != (1,):
                    raise failure(
                        f"discrete input {name!r}: sample {number} has the layout {list(tensor._shape)} {tensor._name}, "
                        f"sample 0 {list(first._shape)} {first._name}; each has a leading extent of 1"
                    )
            whole._relayout((len(tensors), *first._shape[1:]), first._kind)
            np.concatenate([tensor._elements() for tensor in tensors], out=whole._writable())

    def compute(self) -> None:
        """Run, in whatever thread, and put the results where nothing else could."""
        for port in self.inputs:
            if port.staged is not None:
                _move(port, port.staged, port.tensor._elements())
        self.native.forward()
        for port in self.outputs:
            if port.staged is not None:
                _move(port, port.tensor._writable(), port.staged)
            elif port.shape is None:
                result = self.native.output(port.index)
                self._fit(port, result.shape)
                if self._settings.options["force_output_use_user_specified_memory"]:
                    self._check_memory(port)
                if port.io.io_type == LiteIOType.LITE_IO_VALUE:
                    array = port.tensor._writable()
                    _move(port, array, result.reshape(_tensor_shape(result.shape)))
        if not self.computed:
            self.computed = True
            for note in self.notes():
                LOG.warning("%s", note)

    def notes(self) -> list[str]:
        """Return what there is to say about how the last run went."""
        # A model whose shapes depend on data is planned part by part, so that this shows after a run.
        if self._settings.device_type != LiteDeviceType.LITE_NPU or self.native.timeline() is not None:
            return []
        return [f"LITE_NPU: no part of {self.title} has 8-bit operators for the device; all of it ran on the host"]


def without_device_part(error: RuntimeError, title: str) -> RuntimeError | None:
    """Return the error of a model that has nothing for an NPU, with the cure; None if `error` says something else."""
    from triune.errors import NotQuantizedError

    if not isinstance(error, NotQuantizedError):
        return None
    return failure(
        f"LITE_NPU: {title} has no 8-bit operators for the device: it computes in floats. Quantize it (in MegEngine before "
        "it is dumped; an ONNX model with onnxruntime's quantize_static), or load it on LITE_CPU"
    )


def _tensor_shape(shape: Shape) -> Shape:
    return shape or (1,)


def _move(port: Port, target: npt.NDArray[Any], source: npt.NDArray[Any]) -> None:
    """Copy elements between a tensor of `port` and the native module. Raises RuntimeError if the tensor has changed."""
    # Truth values are bytes in tensors.
    if target.shape != source.shape or (target.dtype != source.dtype and source.dtype != np.bool_):
        raise port.moved()
    np.copyto(target, source, casting="unsafe")


def _plain(array: npt.NDArray[Any]) -> bool:
    """Return whether the native module can use the array where it lies."""
    return bool(array.flags.c_contiguous and array.flags.aligned)
