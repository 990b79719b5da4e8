"""The vendor's objects: `Context`, `Connection`, `Model`, `ModelInstance`.

A child keeps its parent alive, and no parent its children: what a program still holds goes on working, and what it lets
go of is freed by garbage collection, in any order. `release` frees an object and its children at once.
"""

from __future__ import annotations

import logging
import operator
import os
import shlex
import sys
import weakref
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self, SupportsIndex

import numpy as np
import numpy.typing as npt

from triune import _native
from triune._files import folder_lock
from triune._kinds import ARRAYS, AXM, kind_of
from triune._targets import runs_on

from . import _dmabuf, _manifest, axruntime
from ._arguments import shown, whole_number
from ._errors import (
    ConnectionError,
    DeviceInUse,
    IncompatibleDevice,
    InvalidArgument,
    InvalidConfiguration,
    Pending,
    UnknownError,
    vendor,
)
from ._profile import HostProfile, OperatorProfile, Profile
from ._types import DeviceInfo, TensorInfo

__all__ = ["Connection", "Context", "Model", "ModelInstance", "Object"]

LOG = logging.getLogger("axelera.runtime")

Device = DeviceInfo | str | SupportsIndex
"""What names a device: what `Context.list_devices` returned, its name, or its number in that list."""

_BOARDS = {
    "alpha_pcie": axruntime.BoardType.ALPHA_PCIE,
    "alpha_m2": axruntime.BoardType.ALPHA_M2,
    "pcie": axruntime.BoardType.OMEGA_PCIE,
    "m2": axruntime.BoardType.OMEGA_M2,
    "devboard": axruntime.BoardType.OMEGA_DEVBOARD,
    "sbc": axruntime.BoardType.OMEGA_SBC,
}

_MEMORY = {
    "pcie": 4 << 30,
    "alpha_pcie": 4 << 30,
    "m2": 1 << 30,
    "alpha_m2": 1 << 30,
    "sbc": 1 << 30,
    "devboard": 4 << 30,
}
"""Bytes of memory on each form of board, unless its description says another size; from the SDK."""


class Object:
    """Abstract base class of all objects of the runtime.

    Objects belong to the `Context` that made them, directly or through another object. Every object is a context
    manager that releases it in the end, which the vendor documents for `Context` only.
    """

    def __init__(self, parent: Object | None) -> None:
        """Belong to `parent`."""
        if type(self) is Object:
            raise TypeError("Object is abstract: make a Context")
        self._parent = parent
        self._released = False
        self._children: weakref.WeakSet[Object] = weakref.WeakSet()
        # One lock for the family, so that a release sees no half-made child.
        self._lock: _native.Turn = parent._lock if parent else _native.Turn(UnknownError)
        if parent:
            with self._lock:
                parent._live()
                parent._children.add(self)

    def __reduce__(self) -> NoReturn:
        """Raise TypeError: a card is held by a process."""
        raise TypeError(
            f"{type(self).__name__} cannot be pickled or copied, as it is of this process alone: make a Context in each process"
        )

    @property
    def context(self) -> Context:
        """The `Context` that owns this object, directly or by what it was made of; of a context itself."""
        top: Object = self
        while top._parent is not None:
            top = top._parent
        assert isinstance(top, Context)
        return top

    def release(self) -> None:
        """Release the object and all its children, which raise afterwards. Releasing twice, in whatever order, is harmless."""
        with self._lock:
            if self._released:
                return
            self._released = True
            children = list(self._children)
        for child in children:
            child.release()
        self._free()

    def _free(self) -> None:
        """Give back what the object itself holds."""

    def _live(self) -> None:
        """Raise `InvalidArgument` if the object has been released."""
        if self._released:
            raise InvalidArgument(f"{self} has been released")

    def __enter__(self) -> Self:
        """Return the object itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Release the object."""
        self.release()

    def __repr__(self) -> str:
        """Return the class's name and what tells the object apart."""
        return f"<{type(self).__name__}{self._describe()}>"

    def _describe(self) -> str:
        return ""


class Context(Object):
    """The root of all objects of the runtime: finds devices, sets them, connects to them, loads models.

    Examples:
        >>> import triune
        >>> from triune.axelera.runtime import Context
        >>> from triune.models import DIGITS_INT8
        >>> package = triune.compile(DIGITS_INT8, target="metis", output="digits")
        >>> with Context() as context:
        ...     model = context.load_model(package / "model.json")
        ...     print([device.board_type.name for device in context.list_devices()], model.inputs()[0].shape)
        ['pcie'] (1, 10, 16, 4)
    """

    def __init__(self) -> None:
        """Open the runtime."""
        super().__init__(None)

    def list_devices(self) -> list[DeviceInfo]:
        """List all devices on the system.

        Raises `InvalidConfiguration` if the description of the virtual cards is wrong.

        Examples:
            >>> from triune.axelera.runtime import Context
            >>> with Context() as context:
            ...     for device in context.list_devices():
            ...         print(device.name, device.subdevice_count)
            metis-0:1:0 4
        """
        self._live()
        return [_device_info(card) for card in _cards()]

    def configure_device(self, device: Device, **kwargs: int | str) -> bool:
        """Change properties of a device; returns True if they are in force, False if that is pending.

        Poll `device_ready` until it is. A changed clock takes 100 ms to lock (``settle_ms`` of the card's description).

        =========================== ======= =============================================================
        property                    default
        =========================== ======= =============================================================
        ``clock_profile``           800     clock of every core in MHz, 20 to 1000
        ``clock_profile_core_0-3``  800     clock of one core in MHz
        ``mvm_utilisation_core_0-3``   100  share of its time that a core's array may work, 1 to 100 %
        ``ddr_size``                        memory in bytes; kept, without effect on the model
        ``device_firmware``                 firmware to load; kept, without effect on the model
        =========================== ======= =============================================================

        Raises `InvalidConfiguration` if a name is unknown or a value out of range; then nothing has changed.
        """
        self._live()
        card = _find(device)
        for name in kwargs:
            if not name.isprintable():
                raise InvalidConfiguration(f"unknown property {name!r}")
        changes = [(name, _setting(name, value)) for name, value in kwargs.items()]
        try:
            done = card.configure(changes)
        except _native.Error as error:
            raise vendor(error) from None
        LOG.debug("%s: configured %s%s", card.name, dict(changes), "" if done else " (pending)")
        return done

    def device_ready(self, device: Device) -> bool:
        """Return True if every changed property is in force, False if that is pending."""
        self._live()
        try:
            return _find(device).ready()
        except _native.Error as error:
            raise vendor(error) from None

    def read_device_configuration(self, device: Device) -> dict[str, str]:
        """Read all properties of a device.

        ``clock_profile`` follows the cores: it is the clock of the fastest of them.
        """
        self._live()
        card = _find(device)
        try:
            settings = card.settings()
        except _native.Error as error:
            raise vendor(error) from None
        clocks = [int(settings[f"clock_profile_core_{core}"]) for core in range(card.sub_devices)]
        return settings | {"clock_profile": str(max(clocks))}

    def device_connect(self, device: Device | None = None, num_sub_devices: int = 1, **kwargs: object) -> Connection:
        """Reserve sub-devices, so that nobody else, in this process or another, can use them.

        `device` is None for the first device with enough free sub-devices, or a number, name or `DeviceInfo`. A
        ``batch_size`` is another name for `num_sub_devices`, which programs give. No further property is documented: others are
        ignored, with a warning in the log ``axelera.runtime``.

        Raises `DeviceInUse` if too few sub-devices are free, `ConnectionError` if there is no device at all,
        `InvalidArgument` if there is no such device or it has too few sub-devices.

        Examples:
            >>> from triune.axelera.runtime import Context
            >>> with Context() as context, context.device_connect(None, 2) as connection:
            ...     print(len(context.list_devices()))
            1
        """
        self._live()
        count = _integer("num_sub_devices", num_sub_devices)
        if "batch_size" in kwargs:
            batch = _integer("batch_size", kwargs.pop("batch_size"))
            if count not in (1, batch):
                raise InvalidArgument(f"batch_size: expected {count}, as num_sub_devices says, got {batch}")
            count = batch
        for name in kwargs:
            LOG.warning("device_connect: unknown property %r is ignored", name)
        cards = _cards() if device is None else [_find(device)]
        if not cards:
            raise ConnectionError("device_connect: there is no device (TRIUNE_CARDS describes none)")
        most = max(card.sub_devices for card in cards)
        if not 1 <= count <= most:
            raise InvalidArgument(f"num_sub_devices: expected 1 to {most}, got {count}")
        busy: list[str] = []
        for card in cards:
            if card.sub_devices < count:
                continue
            try:
                reservation = card.reserve(count)
            except _native.InUseError as error:
                busy.append(str(error))
                continue
            except _native.Error as error:
                raise vendor(error) from None
            try:
                return Connection(self, card, reservation)
            except BaseException:
                reservation.release()
                raise
        raise DeviceInUse("; ".join(busy))

    def load_model(self, path: str | os.PathLike[str]) -> Model:
        """Load a model from its ``model.json``, for any number of connections.

        Raises `InvalidArgument` if the file is missing or damaged, or the ``manifest.json`` beside it says something else than
        it; `IncompatibleDevice` if the vendor's compiler wrote it: such models hold machine code that only the chip runs.

        Examples:
            >>> import triune
            >>> from triune.axelera.runtime import Context
            >>> from triune.models import DIGITS_INT8
            >>> package = triune.compile(DIGITS_INT8, target="metis", output="digits")
            >>> with Context() as context:
            ...     info = context.load_model(package / "model.json").outputs()[0]
            ...     print(info.name, info.dtype, info.unpadded_shape)
            logits int8 (1, 1, 1, 10)
        """
        self._live()
        try:
            file = Path(os.fspath(path))
        except TypeError:
            raise InvalidArgument(f"path: expected str or Path, got {type(path).__name__}") from None
        try:
            there = file.exists()
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise InvalidArgument(f"path: expected a model.json file, got {str(file)!r}: {why}") from None
        if file.is_dir():
            raise InvalidArgument(
                f"path: expected a model.json file, got the directory {str(file)!r}; try {str(file / 'model.json')!r}"
            )
        if file.suffix.lower() == ".onnx":
            raise InvalidArgument(
                f"path: expected a model.json file, got the ONNX file {str(file)!r}; compile it with "
                f"`triune compile {shlex.quote(str(file))} --target metis -o DIR` and load DIR/model.json"
            )
        if not there:
            raise InvalidArgument(f"path: expected a model.json file, got {str(file)!r}, which does not exist")
        if kind_of(file) in (ARRAYS, AXM):
            raise InvalidArgument(
                f"path: expected a model.json file, got the archive {str(file)!r}; axelera.runtime.op.load takes archives"
            )
        try:
            # One compiler's files, and not some of the next one's.
            with folder_lock(file.parent, to_write=False):
                return Model(self, file, _native.Package(file))
        except _native.Error as error:
            raise vendor(error) from None


class Connection(Object):
    """A connection to one or more sub-devices."""

    def __init__(self, parent: Context, card: _native.Card, reservation: _native.Reservation) -> None:
        """Hold the reservation. Programs call `Context.device_connect`."""
        self._card = card
        self._reservation = reservation
        super().__init__(parent)

    def load_model_instance(self, model: Model, **kwargs: int) -> ModelInstance:
        """Load a model onto sub-devices of the connection, which it holds until it is released.

        ===================== ======= ====================================================================
        property              default
        ===================== ======= ====================================================================
        ``aipu_cores``        0       quarters of the L2 memory, 1 to 4; 0: the model's batch size. No effect on time yet
        ``num_sub_devices``   0       sub-devices to use; 0: the model's batch size
        ``input_dmabuf``      0       1 if the inputs of `run` are dma-buf file descriptors
        ``output_dmabuf``     0       1 if the outputs of `run` are dma-buf file descriptors
        ``double_buffer``     0       1 if a result is to arrive two calls late
        ``device_profiling``  0       1 to get modelled cycles per operator from `ModelInstance.profile`
        ``host_profiling``    0       1 to get measured times from `ModelInstance.profile`
        ``elf_in_ddr``        1       accepted; Triune's programs hold no ELF files
        ===================== ======= ====================================================================

        Raises `InvalidArgument` if a property is unknown or out of range, or too few sub-devices of the connection are
        free; `Pending` while a changed clock has not locked; `IncompatibleDevice` if the model is for another device or
        does not fit its memory.

        Examples:
            >>> import numpy as np, triune
            >>> from triune.axelera.runtime import Context
            >>> from triune.models import DIGITS_INT8
            >>> package = triune.compile(DIGITS_INT8, target="metis", output="digits")
            >>> with Context() as context:
            ...     model = context.load_model(package / "model.json")
            ...     instance = context.device_connect().load_model_instance(model, device_profiling=True)
        """
        self._live()
        if not isinstance(model, Model):
            raise InvalidArgument(f"model: expected a Model, got {type(model).__name__}")
        model._live()
        if model.context is not self.context:
            raise InvalidArgument("model: expected a Model of this connection's Context, got another context's")
        properties = _load_properties(kwargs)
        count = properties["num_sub_devices"] or model._package.batch
        shares = properties["aipu_cores"] or min(count, _L2_SHARES)
        if not 1 <= shares <= _L2_SHARES:
            raise InvalidArgument(f"aipu_cores: expected 0 to {_L2_SHARES}, got {shares}")
        if count < model._package.batch:
            raise InvalidArgument(
                f"num_sub_devices: expected at least {model._package.batch}, the model's batch size, got {count}"
            )
        if not runs_on(model._package.target, self._card.device):
            raise IncompatibleDevice(
                f"{model} is compiled for {model._package.target}, {self._card.name} is a {self._card.device}"
                + ("; TRIUNE_CARDS=FILE.toml makes a card of its device file" if model._package.device else "")
            )
        with self._lock:
            free = self._free_sub_devices()
            if count > len(free):
                total = len(self._reservation.sub_devices)
                raise InvalidArgument(
                    f"num_sub_devices: expected at most {len(free)} (the connection has {total}, its other instances "
                    f"hold {total - len(free)}; release them or connect to more), got {count}"
                )
            try:
                if not self._card.ready():
                    raise Pending(f"{self._card.name}: a changed clock has not locked yet; poll Context.device_ready")
                return ModelInstance(self, model, free[:count], properties)
            except _native.Error as error:
                raise vendor(error) from None

    def _free_sub_devices(self) -> list[int]:
        held = {index for child in self._children if isinstance(child, ModelInstance) for index in child._held()}
        return [index for index in self._reservation.sub_devices if index not in held]

    def _free(self) -> None:
        self._reservation.release()

    def _describe(self) -> str:
        return f" to {self._card.name}, sub-devices {self._reservation.sub_devices}"


class Model(Object):
    """A model that can be loaded onto connections."""

    def __init__(self, parent: Context, path: Path, package: _native.Package) -> None:
        """Hold the opened package. Programs call `Context.load_model`."""
        self._path = path
        self._package = package
        self._manifest = _manifest.check(path, package)
        super().__init__(parent)

    @property
    def properties(self) -> dict[str, str]:
        """The model's properties.

        ``preamble_graph`` and ``postamble_graph`` are the paths, relative to the model's directory, of ONNX files with
        the first and last nodes of the network, which the host has to run; empty if there are none.
        ``input_tensor_layout`` is always ``NHWC``.
        """
        self._live()
        return {
            "preamble_graph": self._package.preprocess or "",
            "postamble_graph": self._package.postprocess or "",
            "input_tensor_layout": "NHWC",
        }

    def inputs(self) -> list[TensorInfo]:
        """Return information about the input tensors.

        As the vendor documents, quantization and padding are there if the model has a manifest.json beside it. They come in the
        order of the inputs of the graph that was compiled, what the host makes of one in its place. Behind them come those that
        the host reads while the card waits for it, which `quantize` gives as they are.
        """
        self._live()
        return [self._tensor_info(io) for io in self._package.inputs]

    def outputs(self) -> list[TensorInfo]:
        """Return information about the output tensors, as `inputs` does.

        They come in the order of the outputs of the graph that was compiled, also where the host computes some of them in
        the end; `ModelInstance.run` takes arrays in that order.
        """
        self._live()
        return [self._tensor_info(io) for io in self._package.outputs]

    def _tensor_info(self, io: _native.TensorIo) -> TensorInfo:
        info = TensorInfo(tuple(io.shape), np.dtype(io.dtype), io.name)
        if self._manifest:
            info.padding, info.scale, info.zero_point = list(io.padding), io.scale, io.zero_point
        return info

    def _describe(self) -> str:
        return f" {str(self._path)!r}"


class ModelInstance(Object):
    """A model on sub-devices of a connection."""

    def __init__(self, parent: Connection, model: Model, sub_devices: list[int], properties: dict[str, int]) -> None:
        """Put the model on the sub-devices. Programs call `Connection.load_model_instance`."""
        self._model = model
        self._sub_devices = sub_devices
        self._device_profiling = bool(properties["device_profiling"])
        self._inputs = _Border("inputs", model.inputs(), dmabuf=bool(properties["input_dmabuf"]), write=False)
        self._outputs = _Border("outputs", model.outputs(), dmabuf=bool(properties["output_dmabuf"]), write=True)
        # Reentrant: a signal handler may release the instance while this thread is between two steps of a run.
        self._buffers_lock = _native.Turn(UnknownError)
        self._native = _native.Instance(
            model._package,
            parent._card,
            sub_devices,
            double_buffer=bool(properties["double_buffer"]),
            constants_percent=100 * (properties["aipu_cores"] or min(len(sub_devices), _L2_SHARES)) // _L2_SHARES,
            host_profiling=bool(properties["host_profiling"]),
        )
        super().__init__(parent)

    def run(self, inputs: list[npt.NDArray[Any]] | list[int], outputs: list[npt.NDArray[Any]] | list[int]) -> None:
        """Run the model: read `inputs`, write `outputs`.

        Each is a list of C-contiguous numpy arrays of the tensors' types and padded shapes or, for a model loaded
        with ``input_dmabuf`` or ``output_dmabuf``, of file descriptors of buffers at least as large. With
        ``double_buffer`` call n writes the results of call n − 2; the first two calls leave `outputs` as they are. Paced runs
        (``TRIUNE_REALTIME``) write them when the card would have, not before. A call has counted if it was computed, even where a
        signal's handler raises in place of its return.

        Other Python threads go on meanwhile. Calls from several threads run one after the other.

        Raises `InvalidArgument` if an array or descriptor does not fit, naming it, what was expected and what came.

        Examples:
            >>> import numpy as np, triune
            >>> from triune.axelera.runtime import Context
            >>> from triune.models import DIGITS_INT8
            >>> package = triune.compile(DIGITS_INT8, target="metis", output="digits")
            >>> with Context() as context:
            ...     model = context.load_model(package / "model.json")
            ...     instance = context.device_connect().load_model_instance(model)
            ...     inputs = [np.zeros(info.shape, info.dtype) for info in model.inputs()]
            ...     outputs = [np.empty(info.shape, info.dtype) for info in model.outputs()]
            ...     instance.run(inputs, outputs)
            ...     print(outputs[0].dtype, outputs[0].shape)
            int8 (1, 1, 1, 64)
        """
        if self._released:
            self._live()
        try:
            if self._inputs.dmabuf or self._outputs.dmabuf:
                self._run_mapped(inputs, outputs)
            else:
                self._native.run(inputs, outputs)
        except _native.ReleasedError:
            raise InvalidArgument(f"{self} has been released") from None
        except _native.Error as error:
            raise vendor(error) from None

    def _run_mapped(self, inputs: object, outputs: object) -> None:
        with self._buffers_lock:
            ran = False
            try:
                given, wanted = self._inputs.open(inputs), self._outputs.open(outputs)
                self._check_apart(inputs, outputs)
                self._native.run(given, wanted)
                ran = True
            finally:
                self._outputs.buffers.put_back(ran=ran)
            self._inputs.close(inputs)
            self._outputs.close(outputs)

    def _check_apart(self, inputs: Any, outputs: Any) -> None:
        """Raise `InvalidArgument` if an output's buffer is an input's or another output's; the core looks at arrays."""
        taken = {_dmabuf.identity(fd) for fd in inputs} if self._inputs.dmabuf else set()
        for index, fd in enumerate(outputs if self._outputs.dmabuf else ()):
            if (found := _dmabuf.identity(fd)) in taken:
                raise InvalidArgument(
                    f"outputs[{index}]: expected a descriptor of a buffer that nobody else uses, got {operator.index(fd)}, "
                    "whose buffer is given twice"
                )
            taken.add(found)

    def profile(self) -> Profile:
        """Return modelled cycles and measured times. An addition to the vendor's class.

        Cycles of the whole run are always there, those per operator with ``device_profiling``, times with
        ``host_profiling``. ``print(instance.profile())`` shows a table.

        Examples:
            >>> import numpy as np, triune
            >>> from triune.axelera.runtime import Context
            >>> from triune.models import DIGITS_INT8
            >>> package = triune.compile(DIGITS_INT8, target="metis", output="digits")
            >>> with Context() as context:
            ...     model = context.load_model(package / "model.json")
            ...     print(context.device_connect().load_model_instance(model).profile())
            one run: ... cycles = ... µs at 800 MHz (modelled)
        """
        self._live()
        try:
            timeline = self._native.timeline()
            times = self._native.host_times()
        except _native.Error as error:
            raise vendor(error) from None
        rows = timeline.operators() if self._device_profiling else []
        names = [field.name for field in fields(OperatorProfile)]
        operators = [OperatorProfile(**{name: row[name] for name in names}) for row in rows]
        return Profile(timeline.cycles, timeline.clock_mhz, operators, HostProfile(*times) if times else None)

    def _held(self) -> list[int]:
        return [] if self._released else self._sub_devices

    def _free(self) -> None:
        self._native.release()
        with self._buffers_lock:
            self._inputs.buffers.clear()
            self._outputs.buffers.clear()

    def _describe(self) -> str:
        return f" of {self._model}"


class _Border:
    """The inputs or the outputs of an instance: arrays as they are, or descriptors as arrays."""

    def __init__(self, what: str, infos: list[TensorInfo], *, dmabuf: bool, write: bool) -> None:
        if dmabuf and sys.platform == "win32":
            raise InvalidArgument(f"{what.removesuffix('s')}_dmabuf: Windows has no buffers behind descriptors")
        self.what = what
        self.infos = infos
        self.dmabuf = dmabuf
        self.write = write
        self.buffers = _dmabuf.Buffers()

    def open(self, items: object) -> object:
        if not self.dmabuf:
            return items
        if not isinstance(items, list | tuple):
            raise InvalidArgument(f"{self.what}: expected a list of file descriptors, got {type(items).__name__}")
        if len(items) != len(self.infos):
            raise InvalidArgument(f"{self.what}: expected {len(self.infos)} file descriptors, got {len(items)}")
        named = zip(items, self.infos, strict=True)
        arrays = [
            self.buffers.tensor(f"{self.what}[{index}]", fd, info, write=self.write)
            for index, (fd, info) in enumerate(named)
        ]
        self._sync(items, end=False)
        return arrays

    def close(self, items: object) -> None:
        if self.dmabuf and isinstance(items, list | tuple):
            self._sync(items, end=True)

    def _sync(self, items: Iterable[SupportsIndex], *, end: bool) -> None:
        _dmabuf.sync([operator.index(fd) for fd in items], write=self.write, end=end)


_L2_SHARES = 4
"""The L2 memory is given out in quarters."""

_LOAD_DEFAULTS = {
    "aipu_cores": 0,
    "num_sub_devices": 0,
    "input_dmabuf": 0,
    "device_profiling": 0,
    "host_profiling": 0,
    "output_dmabuf": 0,
    "double_buffer": 0,
    "elf_in_ddr": 1,
}
_COUNTS = {"aipu_cores", "num_sub_devices"}


def _load_properties(kwargs: dict[str, Any]) -> dict[str, int]:
    properties = dict(_LOAD_DEFAULTS)
    for name, value in kwargs.items():
        if name not in properties:
            raise InvalidArgument(f"unknown property {name!r}; valid are {', '.join(properties)}")
        expected = "a number of at least 0" if name in _COUNTS else "0, 1, False or True"
        number = whole_number(int(value) if isinstance(value, bool | np.bool_) else value)
        if number is None or number < 0 or (name not in _COUNTS and number > 1):
            raise InvalidArgument(f"{name}: expected {expected}, got {shown(value)}")
        properties[name] = number
    return properties


def _integer(name: str, value: object) -> int:
    number = None if isinstance(value, bool) else whole_number(value)
    if number is None:
        raise InvalidArgument(f"{name}: expected an int, got {shown(value)}")
    return number


def _setting(name: str, value: object) -> str:
    if isinstance(value, str):
        if not value.isprintable():
            raise InvalidConfiguration(f"{name}: expected a short printable text, got {value!r}")
        return value
    number = None if isinstance(value, bool) else whole_number(value)
    if number is None:
        raise InvalidConfiguration(f"{name}: expected an int or str, got {shown(value)}")
    return str(number)


def _cards() -> list[_native.Card]:
    try:
        return _native.cards()
    except _native.Error as error:
        raise vendor(error) from None


def _find(device: object) -> _native.Card:
    cards = _cards()
    names = [card.name for card in cards]
    there = f"the devices are {', '.join(names)}" if names else "there is no device"
    if isinstance(device, DeviceInfo | str):
        name = device if isinstance(device, str) else device.name
        if name not in names:
            raise InvalidArgument(f"device: no device named {name!r}; {there}")
        return cards[names.index(name)]
    number = None if isinstance(device, bool) else whole_number(device)
    if number is None:
        raise InvalidArgument(f"device: expected a DeviceInfo, name or number, got {shown(device)}")
    if not 0 <= number < len(cards):
        raise InvalidArgument(f"device: no device number {number}; {there}")
    return cards[number]


def _user(holder: str) -> str:
    """Return ``user:pid`` with the user's name where the environment of the holder had only a number for it."""
    user, _, process = holder.partition(":")
    if sys.platform == "win32":
        return holder
    import pwd

    try:
        return f"{pwd.getpwuid(int(user)).pw_name}:{process}"
    except (ValueError, KeyError, OverflowError):
        return holder


def _device_info(card: _native.Card) -> DeviceInfo:
    try:
        users = card.users()
    except _native.Error as error:
        raise vendor(error) from None
    return DeviceInfo(
        axruntime.DeviceInfo(
            name=card.name.encode(),
            subdevice_count=card.sub_devices,
            max_memory=card.max_memory or _MEMORY.get(card.board_type, _MEMORY["pcie"]),
            in_use=len(users),
            in_use_by=",".join(sorted({_user(holder) for _, holder in users})).encode(),
            board_type=_BOARDS.get(card.board_type, axruntime.BoardType.UNKNOWN),
            firmware_version=card.firmware_version.encode(),
            board_revision=card.board_revision,
            flashed_firmware_version=card.flashed_firmware_version.encode(),
            board_controller_firmware_version=card.board_controller_firmware_version.encode(),
            board_controller_board_type=card.board_controller_board_type.encode(),
        )
    )
