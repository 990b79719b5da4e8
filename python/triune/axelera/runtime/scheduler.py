"""Who has the cores that the models of pipelines run on: `Scheduler`, `create` and `current`, as the vendor documents them.

A model gets cores when it first runs. Where none are free, the model of the same scheduler that has not run for the longest time
gives up its own, and gets others when it runs again. Threads that run one model on several cores have one each; a pipeline itself
runs in the thread that calls it.
"""

from __future__ import annotations

import contextvars
import os
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from triune import _native

from ._arguments import shown, whole_number
from ._errors import DeviceInUse, InvalidArgument, UnknownError
from ._types import DeviceInfo
from .objects import Connection, Context, Model, ModelInstance

__all__ = ["Scheduler", "create", "current"]

_PAUSE = 0.001
"""Seconds until a thread that found every core at work looks again."""


class Wanted:
    """A model that wants cores: its package as a context's, and how many it is to have."""

    def __init__(self, model: Model, cores: int | float | None) -> None:
        """Want a whole number of cores, a share of those that nobody wants a number of, or as few as the model takes."""
        self.model, self.cores = model, cores

    @property
    def batch(self) -> int:
        """The cores of one run."""
        return self.model._package.batch


def allocation(value: object) -> int | float | None:
    """Return ``core_allocation`` as a number of cores, a share between 0 and 1, or None. Raises InvalidArgument for others."""
    if value is None:
        return None
    if isinstance(value, str) and value.endswith("%"):
        try:
            share = float(value[:-1]) / 100
        except ValueError:
            share = 0
        if 0 < share <= 1:
            return share
    elif not isinstance(value, bool) and (cores := whole_number(value)) is not None and cores > 0:
        return cores
    raise InvalidArgument(
        f"core_allocation: expected a number of cores, a percentage such as '50%', or None, got {shown(value)}"
    )


@dataclass
class _Core:
    """A run's cores, with the model on them."""

    connection: Connection
    instance: ModelInstance
    users: int = 0


@dataclass
class _Resident:
    """A model that has cores, and when it was asked for last."""

    cores: list[_Core] = field(default_factory=list)
    last: int = 0

    @property
    def idle(self) -> bool:
        return not any(core.users for core in self.cores)

    @property
    def there(self) -> bool:
        return bool(self.cores) and not any(core.instance._released for core in self.cores)

    def release(self) -> None:
        for core in self.cores:
            core.connection.release()
        self.cores = []


class Scheduler:
    """Owns the cores that models run on. `create` makes one for a block; without one, the process has its own."""

    def __init__(self, devices: str | None = None, num_workers: int = 4) -> None:
        """Take the devices, by numbers or names with commas between them, or all. `num_workers` changes nothing.

        Raises InvalidArgument if there is no such device.
        """
        if devices is not None and not isinstance(devices, str):
            raise InvalidArgument(f"devices: expected a text such as '0,1', or None, got {shown(devices)}")
        self.num_workers = max(1, num_workers)
        self._chosen = devices
        self._devices()
        self._residents: weakref.WeakKeyDictionary[Wanted, _Resident] = weakref.WeakKeyDictionary()
        self._files: dict[Path, Wanted] = {}
        self._turn = _native.Turn(UnknownError)
        self._asked = 0
        self._closed = False
        self._process = os.getpid()

    def close(self) -> None:
        """Give back all cores. Models that run again get others, of another scheduler. Closing twice is harmless."""
        global _default
        with self._turn:
            self._closed = True
            residents = list(self._residents.values())
            self._residents.clear()
            self._files.clear()
        for resident in residents:
            resident.release()
        if _default is self:
            _default = None

    def exec_model(self, model: str | os.PathLike[str], inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Run a package, by the path of its ``model.json``, as `ModelInstance.run` does; it stays on its cores.

        Arrays are of the buffers' shapes and dtypes (`TensorInfo`); results are written into `outputs`. Raises what `run`
        raises.
        """
        path = Path(model)
        with self._turn:
            self._open()
            wanted = self._files.get(path)
            if wanted is None:
                wanted = self._files[path] = Wanted(Context().load_model(path), None)
        self.run(wanted, list(inputs), list(outputs))

    def batch(self, seq: Callable[..., Any], inputs: tuple[Any, ...]) -> list[Any]:
        """Return the results of several inputs, in their order, of `seq.batch` with the models on this scheduler's cores."""
        with self._bound():
            return seq.batch(*inputs)  # type: ignore[attr-defined,no-any-return]

    def stream(self, source: Any, pipeline: Any, *, max_in_flight: int | None = None) -> Iterator[tuple[Any, Any]]:
        """Yield each picture of a source, and its result, as `Operator.stream` does, with the models on this scheduler's
        cores."""
        results = pipeline.stream(source, max_in_flight=max_in_flight)
        while True:
            with self._bound():
                try:
                    one = next(results)
                except StopIteration:
                    return
            yield one

    def run(self, wanted: Wanted, inputs: list[Any], outputs: list[Any]) -> None:
        """Run a model on cores of this scheduler's. Triune's operators call it.

        Raises DeviceInUse if none can be had: others have them.
        """
        core = self._taken(wanted)
        try:
            core.instance.run(inputs, outputs)
        finally:
            with self._turn:
                core.users = max(0, core.users - 1)

    def _open(self) -> None:
        """Raise InvalidArgument if the scheduler has been closed."""
        if self._closed:
            raise InvalidArgument("the scheduler has been closed: make another with scheduler.create")
        if self._process != os.getpid():
            # Threads that ran a model in the parent are not here to end that.
            self._process = os.getpid()
            for resident in self._residents.values():
                for core in resident.cores:
                    core.users = 0

    def _taken(self, wanted: Wanted) -> _Core:
        """Return cores with the model on them, which the caller uses until it says otherwise."""
        wanted.model._live()
        while True:
            with self._turn:
                self._open()
                resident = self._residents.get(wanted)
                if resident is None or not resident.there:
                    resident = self._place(wanted)
                if resident is not None:
                    self._asked += 1
                    resident.last = self._asked
                    core = min(resident.cores, key=lambda core: core.users)
                    core.users += 1
                    return core
            time.sleep(_PAUSE)

    def _place(self, wanted: Wanted) -> _Resident | None:
        """Put a model on cores; nothing if those that it could have are at work for models of this scheduler."""
        resident = _Resident()
        try:
            for _ in range(self._runs(wanted)):
                while True:
                    try:
                        connection = self._connected(wanted)
                        break
                    except DeviceInUse:
                        others = [one for one in self._residents.values() if one.cores]
                        oldest = min((one for one in others if one.idle), key=lambda one: one.last, default=None)
                        if oldest is None:
                            if others:
                                resident.release()
                                return None
                            raise
                        oldest.release()
                instance = connection.load_model_instance(wanted.model)
                resident.cores.append(_Core(connection, instance))
        except BaseException:
            resident.release()
            raise
        self._residents[wanted] = resident
        return resident

    def _devices(self) -> list[DeviceInfo]:
        with Context() as context:
            return _selected(self._chosen, context.list_devices())

    def _connected(self, wanted: Wanted) -> Connection:
        busy, devices = [], self._devices()
        fitting = [device for device in devices if device.subdevice_count >= wanted.batch]
        if not fitting:
            # Which says what there is.
            return wanted.model.context.device_connect(devices[0] if devices else None, wanted.batch)
        for device in fitting:
            try:
                return wanted.model.context.device_connect(device, wanted.batch)
            except DeviceInUse as error:
                busy.append(str(error))
        raise DeviceInUse("; ".join(busy))

    def _runs(self, wanted: Wanted) -> int:
        """Return how many runs of the model may go on at the same time."""
        cores = wanted.cores
        if cores is None:
            return 1
        if isinstance(cores, float):
            told = [one.cores for one in list(self._residents) if one is not wanted and isinstance(one.cores, int)]
            free = sum(device.subdevice_count for device in self._devices()) - sum(told)
            cores = int(cores * max(0, free))
        return max(1, cores // wanted.batch)

    @contextmanager
    def _bound(self) -> Iterator[None]:
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)

    def __enter__(self) -> Self:
        """Return the scheduler itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()


_CURRENT: contextvars.ContextVar[Scheduler | None] = contextvars.ContextVar("scheduler", default=None)
_default: Scheduler | None = None


@contextmanager
def create(devices: str | None = None, num_workers: int = 4) -> Iterator[Scheduler]:
    """Make a scheduler, which pipelines that run in the block use, and close it in the end.

    Raises InvalidArgument if there is no such device.
    """
    with Scheduler(devices, num_workers) as scheduler, scheduler._bound():
        yield scheduler


def current() -> Scheduler:
    """Return the scheduler of the block under way, or the process's own, which is made when it is first needed."""
    global _default
    scheduler = _CURRENT.get()
    if scheduler is None:
        if _default is None:
            _default = Scheduler()
        scheduler = _default
    return scheduler


def _selected(devices: str | None, there: list[DeviceInfo]) -> list[DeviceInfo]:
    if not devices:
        return there
    found = []
    for part in (part.strip() for part in devices.split(",")):
        one = next((device for number, device in enumerate(there) if part in (device.name, str(number))), None)
        if one is None:
            names = ", ".join(device.name for device in there) or "none"
            raise InvalidArgument(f"devices: no device {part!r}; there is {names}")
        found.append(one)
    return found
