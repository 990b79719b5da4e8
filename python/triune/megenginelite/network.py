"""Networks: a model, tensors for its inputs and outputs, and what runs it."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn, Self, SupportsIndex

from triune import _fork, _native
from triune._files import write_bytes
from triune.errors import FileError, ReleasedError
from triune.megenginelite import _devices
from triune.megenginelite._arguments import integer, path
from triune.megenginelite._binding import Binding, Flag, Port
from triune.megenginelite._config import (
    IO_POINTER,
    LiteConfig,
    LiteExtraConfig,
    LiteIO,
    LiteNetworkIO,
    LiteOptions,
    Settings,
)
from triune.megenginelite._configured import Configured
from triune.megenginelite._errors import failure, mistyped
from triune.megenginelite._load import Model, open_model
from triune.megenginelite.base import LOG
from triune.megenginelite.struct import LiteDeviceType, LiteIOType, LiteTensorPhase
from triune.megenginelite.tensor import LiteTensor

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    from triune.megenginelite._dumps import Dump


__all__ = [
    "LiteAsyncCallback",
    "LiteConfig",
    "LiteExtraConfig",
    "LiteFinishCallback",
    "LiteIO",
    "LiteNetwork",
    "LiteNetworkIO",
    "LiteOptions",
    "LiteStartCallback",
    "get_model_io_info",
    "start_finish_callback",
    "wrap_async_callback",
]

LiteAsyncCallback = ctypes.CFUNCTYPE(ctypes.c_int)
"""The C type of a callback without arguments."""
LiteStartCallback = ctypes.CFUNCTYPE(ctypes.c_int, IO_POINTER, ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t)
"""The vendor's C type of a callback over tensors. Here callbacks are Python functions, which is what methods take."""
LiteFinishCallback = LiteStartCallback

Ios = dict[LiteIO, LiteTensor]
"""What a start callback gets of the inputs, and a finish callback of the outputs."""
TensorCallback = Callable[[Ios], Any]
AsyncCallback = Callable[[], Any]


def wrap_async_callback(func: AsyncCallback) -> AsyncCallback:
    """Return a function of no arguments that calls `func`, as `LiteNetwork.async_with_callback` takes it.

    The vendor's makes C functions of Python's; here it changes nothing.
    """

    @functools.wraps(func)
    def wrapper() -> Any:
        return func()

    return wrapper


def start_finish_callback(func: TensorCallback) -> TensorCallback:
    """Return a function over tensors that calls `func`, as `LiteNetwork.set_start_callback` and `set_finish_callback` take
    it.

    The vendor's makes C functions of Python's; here it changes nothing.
    """

    @functools.wraps(func)
    def wrapper(ios: Ios) -> Any:
        return func(ios)

    return wrapper


class LiteNetwork(Configured):
    """A network: configured, loaded, and run on what its input tensors hold.

    `config` says how to load a model, `io` how its inputs and outputs are wanted; both are read when the network is made.
    It is a context manager, which lets go of the model in the end.

    Raises RuntimeError if the configuration names what there is not.

    Examples:
        >>> import numpy as np
        >>> from triune.megenginelite import LiteNetwork
        >>> from triune.models import DIGITS_F32
        >>> network = LiteNetwork()
        >>> network.load(DIGITS_F32)  # or a .mge, a .lite
        >>> network.get_all_input_name(), network.get_all_output_name()
        (['image'], ['logits'])
    """

    def __init__(self, config: LiteConfig | None = None, io: LiteNetworkIO | None = None) -> None:
        """Keep the configuration; nothing is loaded."""
        super().__init__(config, io)
        self.model_bytes: bytes | None = None
        self._model: Model | None = None
        self._flag = Flag()
        # The native call, which is all of a forward unless the flag is set.
        self._run: Callable[[], None] = _nothing
        # Whether wait() has more to do than return.
        self._waits = True
        self._lock = _native.Turn()
        self._start: TensorCallback | None = None
        self._finish: TensorCallback | None = None
        # Whether there was a run that nobody waited for.
        self._ran = False
        self._pool: ThreadPoolExecutor | None = None
        self._pending: Future[None] | None = None
        self._worker = 0
        # As many as there are runs under way in the network's own thread.
        self._under_way: list[None] = []
        # Whether the run under way was stopped.
        self._stopping = False
        self._memory_of: LiteNetwork | None = None
        self._dumps: list[Dump] = []
        self._profile_file: str | None = None
        _fork.watch(self)

    # ---- loading

    def __reduce__(self) -> NoReturn:
        """Raise TypeError: a network is a process's own."""
        raise mistyped(
            "LiteNetwork cannot be pickled or copied: load the model in each process, or share its weights by "
            "LiteNetwork.share_weights_with"
        )

    def load(self, file: str | os.PathLike[str] | BinaryIO) -> None:
        """Load a model: MegEngine's, bare, encrypted or packed, or ONNX; from a path or a file open for reading bytes.

        The tensors of an earlier model are no longer this network's, and what a packed one configured no longer counts.
        A load that fails changes nothing.

        Raises FileNotFoundError, AssertionError if `file` is neither, RuntimeError if the model is damaged, encrypted by
        other means, holds an operator that does not run here (it is named), or the configuration does not fit; for
        LITE_NPU, if no operators of the model are of 8 bits; MemoryError if it needs more memory at once than there is.

        Examples:
            >>> import numpy as np
            >>> from triune.megenginelite import LiteNetwork
            >>> from triune.models import DIGITS_F32
            >>> network = LiteNetwork()
            >>> network.load(DIGITS_F32)  # or a .mge, a .lite
            >>> network.get_all_output_name()
            ['logits']
        """
        self._settle()
        with self._lock:
            settings = self._own_settings.copy()
            model = open_model(file, settings, self.network_io, configure=self._configure_by_model)
            self._open(model, None, settings)
            self.model_bytes = model.source if isinstance(model.source, bytes) else None

    def share_runtime_memroy(self, src_network: LiteNetwork) -> None:
        """Use the memory for intermediate results of a network that is loaded, once this one is. (The name is the vendor's.)

        The two must not run at the same time: a run while the other's is under way is a RuntimeError, and computes nothing.

        Raises AssertionError if `src_network` is no network, RuntimeError if it has no model or this one has.
        """
        assert isinstance(src_network, LiteNetwork), "share_runtime_memroy: expected a LiteNetwork"
        self._settable("shared memory")
        if src_network is self:
            raise failure("share_runtime_memroy: a network cannot share with itself")
        src_network._loaded()
        self._memory_of = src_network

    def share_weights_with(self, src_network: LiteNetwork) -> None:
        """Load the model of another network, with one copy of the weights for both. Either may run, or go, at any time.

        Raises AssertionError if `src_network` is no network, RuntimeError if it has no model or this one has.
        """
        assert isinstance(src_network, LiteNetwork), "share_weights_with: expected a LiteNetwork"
        with self._lock:
            settings = self._settable("shared weights").copy()
            native = src_network._loaded().native
            assert src_network._model is not None
            settings.compressed = src_network._settings.compressed
            self._open(src_network._model, native, settings)

    def _open(self, model: Model, weights_of: _native.Session | None, settings: Settings) -> None:
        settings.check_levels()
        self._report(model.title, settings)
        _devices.check(settings.device_type, settings.device_id)
        options: dict[str, Any] = {"threads": 1 if settings.inplace else settings.threads}
        if settings.compressed:
            options["compressed"] = True
        if not settings.options["graph_opt_level"]:
            options["fusion"] = False
        if settings.device_type == LiteDeviceType.LITE_NPU:
            options["device"] = _devices.npu_names()[settings.device_id]
        if weights_of is not None:
            options["sharing_weights"] = weights_of
        if self._memory_of is not None:
            options["sharing_scratch"] = self._memory_of._loaded().native
        try:
            native = _native.Session(model.source, **options)
        except RuntimeError as error:
            raise model.explained(error) from None
        packed, asked = model.ios, self.network_io
        requested = (packed.inputs, packed.outputs), (asked.inputs, asked.outputs)
        binding = Binding(native, settings, *requested, model.title, model.stated)
        if self._binding is not None:
            self._binding.release()
        if self._profile_file is not None:
            native.profile(True)
        self._binding, self._flag, self._run = binding, binding.flag, native.forward
        self._model, self._settings = model, settings
        self._lost = False
        self._ran = False
        self._waits = self._must_wait()
        # numpy is slow to load: a program that has not loaded it yet waits for it when it first has data.
        if "numpy" in sys.modules and self._memory_of is None and binding.make_ready():
            self._run = self._first
            self._flag.dirty = self._has_more()

    # ---- names and tensors

    def get_io_tensor(self, name: str | bytes, phase: LiteTensorPhase | int = LiteTensorPhase.LITE_IO) -> LiteTensor:
        """Return the tensor of an input or output, the same object every time; `phase` tells two of one name apart.

        Raises RuntimeError if there is none of that name, or no model is loaded.
        """
        return self._port(name, phase).tensor

    def get_model_shape(self, name: str | bytes, phase: LiteTensorPhase | int = LiteTensorPhase.LITE_IO) -> list[int]:
        """Return the shape of an input or output as the model gives it, -1 for an extent that it leaves open or that depends
        on data; empty if even the number of axes is not known yet. An addition to the vendor's class: `layout.shapes` of such a
        tensor is empty until its shape is known.

        Raises RuntimeError if there is none of that name, or no model is loaded.
        """
        return list(self._port(name, phase).declared)

    def _port(self, name: str | bytes, phase: LiteTensorPhase | int) -> Port:
        binding = self._loaded()
        name = name.decode(errors="backslashreplace") if isinstance(name, bytes) else name
        try:
            wanted = LiteTensorPhase(phase)
        except ValueError:
            raise failure(f"phase: expected a LiteTensorPhase, got {phase!r}") from None
        ports = {
            LiteTensorPhase.LITE_INPUT: binding.inputs,
            LiteTensorPhase.LITE_OUTPUT: binding.outputs,
        }.get(wanted, [*binding.inputs, *binding.outputs])
        for port in ports:
            if port.name == name:
                return port
        raise failure(
            f"there is no tensor {name!r} in {binding.title}; there are {', '.join(repr(port.name) for port in ports)}"
        )

    def get_discrete_tensor(
        self, name: str | bytes, n_idx: int, phase: LiteTensorPhase | int = LiteTensorPhase.LITE_INPUT
    ) -> LiteTensor:
        """Return sample `n_idx` of the input that `LiteConfig.discrete_input_name` names: a tensor of its own.

        Raises RuntimeError if the input is not named there, or has no such sample.
        """
        name = name.decode(errors="backslashreplace") if isinstance(name, bytes) else name
        tensors = self._loaded().discrete.get(name)
        if tensors is None or phase == LiteTensorPhase.LITE_OUTPUT:
            raise failure(f"{name!r} is no discrete input: name it in LiteConfig.discrete_input_name")
        n_idx = integer("get_discrete_tensor: n_idx", n_idx)
        if not 0 <= n_idx < len(tensors):
            raise failure(f"{name!r} has {len(tensors)} discrete tensors, there is no {n_idx}")
        return tensors[n_idx]

    def get_input_name(self, index: SupportsIndex) -> str:
        """Return the name of input `index`.

        Raises RuntimeError if there is no such input, or no model is loaded.
        """
        return _name(self._loaded().inputs, index, "input")

    def get_output_name(self, index: SupportsIndex) -> str:
        """Return the name of output `index`.

        Raises RuntimeError if there is no such output, or no model is loaded.
        """
        return _name(self._loaded().listed, index, "output")

    def get_all_input_name(self) -> list[str] | None:
        """Return the names of all inputs, in the order of `get_input_name`; None if there are none, as before a model is
        loaded."""
        return None if self._binding is None else [port.name for port in self._binding.inputs] or None

    def get_all_output_name(self) -> list[str] | None:
        """Return the names of all outputs, in the order of `get_output_name`; None if there are none, as before a model is
        loaded."""
        return None if self._binding is None else [port.name for port in self._binding.listed] or None

    # ---- running

    def forward(self) -> None:
        """Compute the outputs from the inputs; in async mode, have it done, and return at once.

        Raises RuntimeError if no model is loaded, an input has another element type than the model's, or a shape that the
        model does not take; and what a start callback raises.

        Examples:
            >>> import numpy as np
            >>> from triune.megenginelite import LiteNetwork
            >>> from triune.models import DIGITS_F32
            >>> network = LiteNetwork()
            >>> network.load(DIGITS_F32)  # or a .mge, a .lite
            >>> network.get_io_tensor("image").set_data_by_copy(np.zeros((1, 1, 8, 8), np.float32))
            >>> network.forward()
            >>> network.wait()
            >>> network.get_io_tensor("logits").to_numpy().shape
            (1, 10)
        """
        if self._flag.dirty:
            self._forward()
        else:
            self._run()

    def wait(self) -> None:
        """Wait until the last `forward` is done, and call the finish callback, here, if there was a run since the last
        `wait`.

        Raises what the run or an async callback raised, and what the finish callback raises. A signal's handler that raises,
        such as Ctrl-C's, stops the run under way.
        """
        if self._waits:
            self._wait()

    async def forward_async(self) -> None:
        """Compute the outputs while other tasks go on. An addition to the vendor's class.

        The start callback is called before, the finish callback after, both in the event loop's thread.

        A task that is cancelled meanwhile stops the run. Raises what `forward` and `wait` raise.
        """
        # Slow to load, and few programs need it.
        import asyncio

        with self._lock:
            self._begin()
            self._under_way.append(None)
        computing = asyncio.get_running_loop().run_in_executor(self._workers(), self._compute_apart)
        try:
            await asyncio.shield(computing)
        except asyncio.CancelledError:
            self._stop()
            with contextlib.suppress(ReleasedError):
                await computing
            raise
        self._finished()

    def _forward(self) -> None:
        """Do what a forward is beyond the native call."""
        while not self._started():
            # Not with the lock: the callback of the run under way may call this, too.
            self._settle()

    def _started(self) -> bool:
        """Do what a forward is, or return False if there is a run under way to wait for before."""
        with self._lock:
            self._loaded()
            if self._to_settle() is not None:
                return False
            if self._settings.options["fake_next_exec"]:
                # All but the computing; the next one is real.
                self._begin()
                self._settings.options["fake_next_exec"] = self._own_settings.options["fake_next_exec"] = 0
                self.config.options.fake_next_exec = 0
                self._ran = True
                return True
            self._begin()
            if self._async is None:
                self._compute()
                return True
            self._under_way.append(None)
            try:
                self._pending = self._workers().submit(self._compute_async, self._async)
            except RuntimeError as error:
                self._under_way.pop()
                # No thread starts while the interpreter ends.
                raise failure(
                    f"an asynchronous forward cannot start: {error}; async_with_callback(None) makes forward compute here"
                ) from None
            return True

    def _begin(self) -> None:
        """Call the start callback, and see to it that the native module knows of the tensors as they are."""
        if self._start is not None:
            self._start({port.io: port.tensor for port in self._loaded().inputs})
        self._stopping = False
        # The callback may have loaded another model.
        binding = self._loaded()
        binding.prepare()
        self._run = binding.native.forward
        binding.flag.dirty = self._has_more() or binding.busy()

    def _has_more(self) -> bool:
        """Return whether the next run is more than computing, whatever the tensors are."""
        return bool(
            self._start is not None
            or self._finish is not None
            or self._async is not None
            or self._profile_file is not None
            or self._dumps
            or self._settings.options["fake_next_exec"]
        )

    def _first(self) -> None:
        """Run for the first time, on tensors that were made ready when the model was loaded."""
        binding = self._loaded()
        self._run = binding.native.forward
        binding.first()
        self._ran = True

    def _compute(self) -> None:
        """Run, in whatever thread."""
        binding = self._loaded()
        binding.compute()
        for dump in self._dumps:
            dump(binding.native)
        self._ran = True

    # ---- async mode

    def _workers(self) -> ThreadPoolExecutor:
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor

            # One thread, which the interpreter joins when it exits and which ends when the network goes.
            self._pool = ThreadPoolExecutor(1, "megenginelite")
        return self._pool

    def _compute_apart(self) -> None:
        """Run, in the network's own thread."""
        try:
            self._compute()
        finally:
            self._under_way.pop()

    def _compute_async(self, callback: AsyncCallback) -> None:
        self._worker = threading.get_ident()
        try:
            self._compute_apart()
            callback()
        except BaseException as error:
            if self._stopping and isinstance(error, ReleasedError):
                raise
            # Whether anybody waits, nobody knows.
            LOG.exception("%s: an asynchronous forward failed", self._model.title if self._model else "no model")
            raise

    def _to_settle(self) -> Future[None] | None:
        """Return the run that `_settle` waits for, if there is one."""
        return None if threading.get_ident() == self._worker else self._pending

    def _settle(self) -> None:
        """Wait for a run under way, unless this is its own callback. Raises what it raised, once for each who waits."""
        pending = self._to_settle()
        if pending is None:
            return
        try:
            error = pending.exception()
        except BaseException:
            # A signal's handler, such as Ctrl-C's: the run is not to go on for hours behind it.
            self._stop()
            raise
        if self._pending is pending:
            self._pending = None
        if error is not None and not (self._stopping and isinstance(error, ReleasedError)):
            raise error

    def _stop(self) -> None:
        """Stop the run under way; who waits for it next does not hear of it again."""
        self._stopping = True
        if self._binding is not None:
            self._binding.native.stop()

    def _forked(self) -> None:
        """Go on in a child: without the thread that was the network's, and without the model if a thread had it."""
        inside = threading.get_ident() == self._worker
        lost = self._lock.forked() or (bool(self._under_way) and not inside)
        lost = lost or (self._binding is not None and self._binding.native.forked())
        self._pool = self._pending = None
        self._under_way = []
        if not inside:
            self._worker = 0
        if lost:
            self._lock = _native.Turn()
            self._lost = True
            self._let_go()

    def _wait(self) -> None:
        self._loaded()
        self._settle()
        self._finished()

    def _finished(self) -> None:
        if not self._ran:
            return
        self._ran = False
        if self._profile_file is not None:
            self._write_profile()
        if self._finish is not None:
            self._finish({port.io: port.tensor for port in self._loaded().listed})

    def _must_wait(self) -> bool:
        return bool(
            self._binding is None
            or self._finish is not None
            or self._async is not None
            or self._pending is not None
            or self._profile_file is not None
        )

    def _changed(self) -> None:
        self._flag.dirty = True
        self._waits = self._must_wait()

    def async_with_callback(self, async_callback: AsyncCallback | None) -> None:
        """Run asynchronously from now on: `forward` returns at once, and `async_callback` is called from the thread that
        computed, once the outputs are there. None: no longer.

        What it raises comes out of the next `wait` or `forward`, and is logged.

        Raises RuntimeError in inplace mode, or with `force_output_use_user_specified_memory`.
        """
        if async_callback is not None:
            if self._settings.inplace:
                raise failure("an async callback and inplace mode exclude each other")
            if self._settings.options["force_output_use_user_specified_memory"]:
                raise failure("an async callback and force_output_use_user_specified_memory exclude each other")
        self._async = _callback("async_with_callback", async_callback)
        self._changed()

    def set_start_callback(self, start_callback: TensorCallback | None) -> None:
        """Call a function with the inputs, a dict of tensors by `LiteIO`, within `forward` before it computes. None: no longer.

        What it raises comes out of `forward`, and nothing is computed.
        """
        self._start = _callback("set_start_callback", start_callback)
        self._changed()

    def set_finish_callback(self, finish_callback: TensorCallback | None) -> None:
        """Call a function with the outputs, a dict of tensors by `LiteIO`, within the first `wait` behind a run, or behind
        several. None: no longer.

        What it raises comes out of `wait`.
        """
        self._finish = _callback("set_finish_callback", finish_callback)
        self._changed()

    # ---- looking inside

    def enable_profile_performance(self, profile_file: str | os.PathLike[str]) -> None:
        """Measure every operator from now on, and write the times to a JSON file at each `wait`: seconds of wall time for
        those on the host, of modelled time for those on an NPU. It counts for models that are loaded later, too.
        """
        file = path("enable_profile_performance", profile_file)
        if self._binding is not None:
            self._binding.native.profile(True)
        self._profile_file = file
        self._changed()

    def _write_profile(self) -> None:
        from triune.megenginelite import _graph

        assert self._profile_file is not None
        binding = self._loaded()
        _graph.write_profile(binding.native, self._profile_file, self._npu(), binding.notes())

    def _npu(self) -> str:
        """Return MegEngine's name for the NPU, were there one."""
        return f"npu{self._settings.device_id}:0"

    def io_txt_dump(self, txt_file: str | os.PathLike[str]) -> None:
        """Write every intermediate result of each `forward` from now on to a text file, as the vendor's tools read it.

        Raises RuntimeError if the file cannot be written.
        """
        from triune.megenginelite import _dumps

        self._dumps.append(_dumps.text(path("io_txt_dump", txt_file)))
        self._changed()

    def io_bin_dump(self, bin_dir: str | os.PathLike[str]) -> None:
        """Write every intermediate result of each `forward` from now on to a file of its own in a directory that is there.

        Raises RuntimeError if there is no such directory.
        """
        from triune.megenginelite import _dumps

        self._dumps.append(_dumps.binary(path("io_bin_dump", bin_dir)))
        self._changed()

    def get_static_memory_alloc_info(self, log_dir: str | os.PathLike[str] = "logs/test") -> None:
        """Write the plan of the memory for intermediate results to a directory, made if need be: as the vendor's tools read
        it, with the network, and as a picture. It is the plan for the layouts that the inputs have now.

        Raises RuntimeError if no model is loaded, an input has no layout yet (the model leaves its shape open, and neither
        data nor a layout was set), the model does not take them, or the files cannot be written.
        """
        from triune.megenginelite import _memory

        folder = path("get_static_memory_alloc_info", log_dir)
        self._settle()
        with self._lock:
            binding = self._loaded()
            binding.plan()
            _memory.write_memory(binding.native, folder, self._npu())

    def dump_layout_transform_model(self, model_file: str | os.PathLike[str]) -> None:
        """Write the model as it was loaded, which `load` takes again.

        Raises RuntimeError if no model is loaded, `enable_global_layout_transform` was not called, or it cannot be written; for
        a network that shares the weights of one for which it was not called, if the file has changed since.
        """
        self._loaded()
        assert self._model is not None
        if not self._settings.layout_transform:
            raise failure("dump_layout_transform_model: call enable_global_layout_transform before loading")
        try:
            content = self._model.content()
            write_bytes(model_file, content)
        except (OSError, FileError) as error:
            raise FileError(f"dump_layout_transform_model: {error}") from None

    def __enter__(self) -> Self:
        """Return the network."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Wait for a run under way, and let go of the model."""
        try:
            self._settle()
        finally:
            with self._lock:
                self._let_go()

    def _let_go(self) -> None:
        if self._binding is not None:
            self._binding.release()
        self._binding, self._model, self.model_bytes = None, None, None
        self._settings = self._own_settings
        self._flag, self._run = Flag(), _nothing
        self._dumps, self._profile_file = [], None
        self._changed()

    def __repr__(self) -> str:
        """Return configuration, inputs and outputs, as the vendor shows them."""
        return repr({"config": self.config, "IOs": self.network_io})


def get_model_io_info(model_path: str | os.PathLike[str] | BinaryIO, config: LiteConfig | None = None) -> LiteNetworkIO:
    """Return the names and layouts of a model's inputs and outputs, packed ones included.

    A layout that is open, or depends on data, has no axes. Raises what `LiteNetwork.load` raises.
    """
    network = LiteNetwork(config)
    network.load(model_path)
    found = LiteNetworkIO()
    binding = network._loaded()
    for ports, add in ((binding.inputs, found.add_input), (binding.outputs, found.add_output)):
        for port in ports:
            add(LiteIO(port.name, True, LiteIOType.LITE_IO_VALUE, port.layout()))
    return found


def _nothing() -> None:
    """Stand for the native call while there is none."""


def _name(ports: list[Port], index: SupportsIndex, what: str) -> str:
    number = integer(f"get_{what}_name: index", index)
    if not 0 <= number < len(ports):
        raise failure(f"there is no {what} {number}: the model has {len(ports)}")
    return ports[number].name


def _callback(argument: str, value: Any) -> Any:
    if value is not None and not callable(value):
        raise failure(f"{argument}: expected a function, got {type(value).__name__}")
    return value
