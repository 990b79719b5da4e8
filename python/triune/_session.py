"""Any model file on this machine's CPU. The public names are those of `triune`."""

from __future__ import annotations

import logging
import operator
import os
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from pathlib import Path
from threading import Condition, Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, SupportsIndex, overload

import numpy as np
import numpy.typing as npt

from triune import _fork, _native
from triune._arrays import operand, target
from triune._files import MODEL_LIMIT
from triune._kinds import UNKNOWN, kind_of, misread, no_model
from triune._model_info import ModelInfo
from triune._native import Cancel
from triune._session_info import Metadata, ValueInfo
from triune._session_plan import SessionPlan, plan_of
from triune._session_profile import OperatorTime, SessionProfile
from triune._text import html_table, nearest, short
from triune.errors import ArgumentError, FileError, ForkedError, FormatError, ReleasedError

if TYPE_CHECKING:
    from triune.batch import Preprocess

__all__ = [
    "Feeds",
    "Metadata",
    "ModelSource",
    "OperatorTime",
    "Run",
    "Session",
    "SessionPlan",
    "SessionProfile",
    "ValueInfo",
]

_LOG = logging.getLogger("triune.session")

Feeds = Mapping[str, npt.NDArray[Any]]
"""An array per input of a model, batch included, by the input's name: what `Session.run` takes, and one sample of
`triune.compile`'s calibration."""

Results = list[npt.NDArray[Any]]


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _Message(Protocol):
    def SerializeToString(self) -> bytes: ...


ModelSource = str | os.PathLike[str] | bytes | bytearray | memoryview | _Readable | _Message
"""Where a model comes from: a path, its bytes, a binary file that is open, or an `onnx.ModelProto`."""


class Run(Future[Results]):
    """A run under way, or one that waits for its turn, by `Session.run_async`: a `concurrent.futures.Future` that can be
    awaited, too, and cancelled at any time."""

    def __init__(self) -> None:
        """Make one that has not begun."""
        super().__init__()
        self._token = Cancel()
        self._wanted = True
        self._stopped = False
        _fork.watch(self)

    def _forked(self) -> None:
        # What computes it is in the parent, which may have held the lock.
        self._condition = Condition()
        if not self.done():
            # Threads that wait for it are in the parent, too.
            self._waiters: list[Any] = []
            self._done_callbacks: list[Any] = []
            self.set_exception(ForkedError("the run goes on in the process that started it; start another one here"))

    def cancel(self) -> bool:
        """Stop the run, within some 50 ms where it is under way: its result raises `concurrent.futures.CancelledError`. Returns
        whether there was something to stop: False once it is done."""
        if super().cancel():
            return True
        if self.done():
            return False
        self._wanted = False
        self._token.cancel()
        return True

    def cancelled(self) -> bool:
        """Return whether `cancel` kept it from giving results; False as long as a run that was asked to stop is still under
        way."""
        return self._stopped or super().cancelled()

    def result(self, timeout: float | None = None) -> Results:
        """Wait for the results, `timeout` seconds at most if there is one. An interrupt (Ctrl-C) stops the run.

        Raises what `Session.run` raises, `TimeoutError` behind the timeout, `concurrent.futures.CancelledError` behind `cancel`.
        """
        try:
            return super().result(timeout)
        except KeyboardInterrupt:
            self.cancel()
            raise

    def _compute(self, compute: Callable[[Cancel], Results]) -> None:
        if not self.set_running_or_notify_cancel():
            return
        try:
            results = compute(self._token)
        except BaseException as error:
            self._stopped = not self._wanted and isinstance(error, ReleasedError)
            self.set_exception(CancelledError() if self._stopped else error)
        else:
            self.set_result(results)

    def __await__(self) -> Generator[Any, None, Results]:
        """Wait for the results in an event loop, which goes on meanwhile."""
        import asyncio

        return asyncio.wrap_future(self).__await__()


class Session:
    """A model, int8 or float, on this machine's CPU.

    `model` is a path, or the bytes, an open binary file or an `onnx.ModelProto` of an ONNX model (int8 networks in QDQ form), or
    the former of a bare MegEngine model, told apart by their content. External data of an ONNX model lies beside its file; for
    one that is in memory it is looked for below the folder `external_data`. `threads` compute one run: 1 by
    default, 0 for every CPU. Results do not depend on their number.

    A model without open extents is planned at once. Where it leaves an extent open, such as the batch, a run with other
    extents than before takes the time to plan for them, unless `prepare` did; some plans are kept. So it is with extents that
    depend on data, as behind ONNX's NonZero and NonMaxSuppression: what follows is planned when they are known.

    Calls from several threads run one after the other; `clone` gives each thread a session of its own over the same weights.
    `with` closes it at the end. It can be pickled, by its path or bytes, and copied, which shares the weights.

    Raises `triune.errors.FileError` if the file cannot be read, `ArgumentError` if it is no such model, is damaged, or
    `threads` is negative, `UnsupportedError` if it holds an operator that does not run here.

    ```
    with triune.Session("model.onnx", threads=2) as session:
        (scores,) = session.run({"image": image})
    ```

    Examples:
        >>> import triune
        >>> from triune.models import DIGITS_INT8
        >>> with triune.Session(DIGITS_INT8, threads=2) as session:
        ...     print(session.inputs[0].name, session.inputs[0].shape)
        image ('N', 1, 8, 8)
    """

    def __init__(
        self, model: ModelSource, *, threads: int = 1, external_data: str | os.PathLike[str] | None = None
    ) -> None:
        """Open the model."""
        count = _thread_count(threads)
        source = _source(model)
        if external_data is not None and not isinstance(source, bytes):
            raise ArgumentError("external_data: expected none beside a path, whose folder it is looked for in")
        folder = None if external_data is None else os.path.abspath(external_data)
        start = time.perf_counter()
        try:
            native = _native.Session(source, threads=count, folder=folder)
        except FormatError as error:
            raise misread(error, source, "the model" if isinstance(source, bytes) else source) from None
        except FileError:
            if isinstance(source, bytes) or not os.path.isdir(source):
                raise
            raise FileError(no_model(kind_of(Path(source)) or UNKNOWN, source)) from None
        self._set(native, source, count, folder)
        _LOG.debug("opened %s in %.1f ms", self, (time.perf_counter() - start) * 1e3)

    def _set(self, native: _native.Session, source: str | bytes, threads: int, folder: str | None) -> None:
        self._open: _native.Session | None = native
        # A path as it was given, for people; other processes may have other working directories.
        self._source = source
        self._path = source if isinstance(source, bytes) else os.path.abspath(source)
        self._threads = threads
        self._folder = folder
        described = zip((native.inputs, native.outputs, native.defaults), native.kinds, strict=True)
        self._inputs, self._outputs, self._defaults = (_infos(*each) for each in described)
        self._dtypes = {info.name: _dtype(info.dtype) for info in (*self._inputs, *self._defaults)}
        self._kinds = {info.name: info.kind for info in (*self._inputs, *self._defaults)}
        self._places = {info.name: index for index, info in enumerate(self._outputs)}
        self._metadata = Metadata(**native.metadata)
        # For `run_async`: one thread, as runs take turns.
        self._executor: ThreadPoolExecutor | None = None
        self._starting = Lock()
        _fork.watch(self)

    @property
    def _native(self) -> _native.Session:
        native = self._open
        if native is None:
            raise _closed()
        return native

    @property
    def inputs(self) -> list[ValueInfo]:
        """Name, dtype and shape of each input, in the model's order: what `run` has to be fed.

        A new list each time. Constants that feeds may replace are in `defaults`. Stays readable after `close`.
        """
        return list(self._inputs)

    @property
    def outputs(self) -> list[ValueInfo]:
        """Name, dtype and shape of each output, in the order of `run`'s results. A new list each time; stays readable after
        `close`."""
        return list(self._outputs)

    @property
    def defaults(self) -> list[ValueInfo]:
        """Inputs that may be left out, as the model has constants for them; a first run with others takes the time to plan."""
        return list(self._defaults)

    @property
    def metadata(self) -> Metadata:
        """What the file says of itself: who wrote it, opsets, its own properties. Read when the session opens; stays after
        `close`."""
        return self._metadata

    @property
    def info(self) -> ModelInfo:
        """What the file says of its pictures and classes; nothing (None and no labels) where it does not.

        Read from the properties ``triune.preprocess`` and ``triune.labels`` each time. Raises ArgumentError, with the key, if
        one of them is damaged.
        """
        return ModelInfo.of_properties(self._metadata.properties)

    @property
    def preprocess(self) -> Preprocess | None:
        """How pictures become its input, None unless the file says so: one that `triune quantize` wrote with pictures does.
        Raises as `info` does."""
        return self.info.preprocess

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the classes, the one of index 0 first; empty unless the file says them. Raises as `info` does."""
        return self.info.labels

    def feeds(self, *pictures: Any, preprocess: Preprocess | None = None) -> dict[str, npt.NDArray[Any]]:
        """Return what `run` takes for pictures: paths, bytes of files, `PIL.Image.Image`, or uint8 arrays (H, W, C).

        They become inputs as `preprocess` says, else as the file does, else stretched, with pixels from 0 to 1 (0 to 255 for
        uint8).

        Raises ArgumentError if the model takes no pictures or one cannot be read, FileError if there is no such file.

        Examples:
            >>> import numpy as np, triune
            >>> from triune.models import DIGITS_INT8
            >>> session = triune.Session(DIGITS_INT8)
            >>> gray = np.full((30, 40), 128, np.uint8)  # or "picture.jpg", its bytes, a PIL.Image.Image
            >>> session.feeds(gray, gray)["image"].shape
            (2, 1, 8, 8)
        """
        from triune.batch import Preprocess as Usual

        if not pictures:
            raise ArgumentError("pictures: expected at least one, got none")
        first = self._inputs[0] if self._inputs else None
        how = preprocess or self.preprocess or Usual.default(first.dtype if first else "float32")
        frame = how.frame(*first) if first is not None and len(self._inputs) == 1 else None
        if frame is None:
            raise ArgumentError(f"the model takes no pictures, but {_texts(self._inputs)}")
        array = np.empty((len(pictures), *frame.shape), frame.dtype)
        for picture, place in zip(pictures, array, strict=True):
            how.write(picture, frame, place)
        return {frame.name: array}

    @property
    def threads(self) -> int:
        """How many threads compute a run: 1 by default, 1024 at most; 0 stands for every CPU."""
        return self._threads

    @property
    def closed(self) -> bool:
        """Whether `close` was called: what computes raises `triune.errors.ReleasedError` then."""
        return self._open is None

    @overload
    def run(
        self,
        feeds: Mapping[str, Any],
        /,
        *,
        out: Mapping[str, Any] | Sequence[Any] | None = None,
        convert: bool = False,
    ) -> Results: ...
    @overload
    def run(
        self,
        outputs: Sequence[str] | None,
        feeds: Mapping[str, Any],
        /,
        *,
        out: Mapping[str, Any] | Sequence[Any] | None = None,
        convert: bool = False,
    ) -> Results: ...
    def run(
        self,
        first: Any,
        second: Any = None,
        /,
        *,
        out: Mapping[str, Any] | Sequence[Any] | None = None,
        convert: bool = False,
    ) -> Results:
        """Compute the model from an array per input by name: ``run(feeds)``, or ``run(outputs, feeds)`` for outputs by name.

        Returns every output in the order of `outputs`, or with a list of names those, in the list's order; None stands for all.

        Feeds are of exactly the inputs' dtypes, and of their shapes with any extent, 0 included, where that is open: numpy
        arrays, or whatever has the array interface, the buffer protocol or DLPack in the host's memory, such as torch's
        tensors, or lists of numbers. What is not C-contiguous is copied. With `convert`, elements of other dtypes are
        converted as far as each is kept: integers exactly, floats to the nearest one, floats that are integers as such.

        Strings are an array of str or of their UTF-8 in bytes, of objects or of numpy's own types for them, or a list of str;
        returned are arrays of objects, which are str. A sequence is a list of arrays, a map is a dict, several maps are a list of
        dicts, and an optional without content is None, given and returned. Elements of types that numpy does not have are those
        of ml_dtypes, if that is installed; without it results are arrays of their patterns, uint16 for bfloat16 and uint8 for the
        others, which are taken in either case.

        `out` has C-contiguous arrays that results are written to without a copy, by output name, or in the order of the
        results with None for a new one. They are returned in their places. Only results whose extents depend on data are copied.

        Other results are new arrays of the outputs' dtypes. Other Python threads go on meanwhile; calls from several threads
        run one after the other.

        Raises `triune.errors.ArgumentError` if a name is unknown or missing, or an array does not fit: it names the
        input, what was expected and what came; `UnsupportedError` if the model does not run with such extents;
        `ReleasedError` if the session is closed, before or meanwhile.

        Examples:
            >>> import numpy as np, triune
            >>> from triune.models import DIGITS_INT8
            >>> session = triune.Session(DIGITS_INT8)
            >>> (logits,) = session.run(None, {"image": np.zeros((3, 1, 8, 8), np.float32)})
            >>> logits.shape
            (3, 10)
            >>> session.run(["logits"], {"image": np.zeros((3, 1, 8, 8))}, out=[logits], convert=True)[0] is logits
            True
        """
        return self._run(first, second, out=out, convert=convert)

    def _run(
        self,
        first: Any,
        second: Any = None,
        /,
        *,
        out: Mapping[str, Any] | Sequence[Any] | None = None,
        convert: bool = False,
        cancel: Cancel | None = None,
    ) -> Results:
        names, feeds = (None, first) if second is None else (first, second)
        native = self._native
        # Whether something is a mapping takes longer to find out than most steps here.
        if type(feeds) is not dict and not isinstance(feeds, Mapping):
            raise ArgumentError(f"feeds: expected a dict of arrays by input name, got {type(feeds).__name__}")
        arrays = {}
        for name, value in feeds.items():
            # An unknown name is the core's to refuse.
            dtype = self._dtypes.get(name)
            arrays[name] = value if dtype is None else self._fed(name, value, dtype, convert)
        places = None if names is None else [self._place(name) for name in _names(names)]
        try:
            results = native.run(arrays, None if out is None else self._targets(out, places), cancel)
        except UnicodeEncodeError as error:
            # Half of a surrogate pair, which no model's name has.
            raise ArgumentError(
                f"unknown input {error.object!r}{nearest(error.object, self._dtypes, 'the model has')}"
            ) from None
        return results if places is None else [results[place] for place in places]

    def _fed(self, name: str, value: Any, dtype: np.dtype[Any], convert: bool) -> Any:
        kind = self._kinds.get(name, "tensor")
        if kind == "tensor" and type(value) is np.ndarray and value.dtype == dtype and value.flags.carray:
            # It is what the core takes.
            return value
        if "sequence" in kind:
            # What is no list is the core's to refuse.
            if not isinstance(value, list):
                return value
            return [_array(f"input {name!r}[{index}]", each, dtype, convert) for index, each in enumerate(value)]
        if kind == "map":
            # A dict; what it is of is the core's to check.
            return value
        if kind == "strings":
            return _strings(f"input {name!r}", value)
        return None if value is None and kind == "optional" else _array(f"input {name!r}", value, dtype, convert)

    def _place(self, name: str) -> int:
        place = self._places.get(name)
        if place is None:
            raise ArgumentError(f"unknown output {name!r}{nearest(name, self._places, 'the model has')}")
        return place

    def _targets(
        self, out: Mapping[str, Any] | Sequence[Any], places: list[int] | None
    ) -> list[npt.NDArray[Any] | None]:
        chosen = range(len(self._outputs)) if places is None else places
        if isinstance(out, Mapping):
            pairs = [(self._place(name), value) for name, value in out.items()]
            unused = [self._outputs[place].name for place, _ in pairs if place not in chosen]
            if unused:
                raise ArgumentError(f"out: expected arrays of outputs that are asked for, got one for {unused[0]!r}")
        else:
            given: object = out
            if not isinstance(given, Sequence) or len(out) != len(chosen):
                got = len(out) if isinstance(given, Sequence) else type(out).__name__
                raise ArgumentError(f"out: expected {len(chosen)} arrays, one per result, or a dict by name, got {got}")
            pairs = list(zip(chosen, out, strict=True))
        targets: list[npt.NDArray[Any] | None] = [None] * len(self._outputs)
        for place, value in pairs:
            if value is not None:
                targets[place] = target(f"out for {self._outputs[place].name!r}", value)
        return targets

    @overload
    def run_async(
        self,
        feeds: Mapping[str, Any],
        /,
        *,
        out: Mapping[str, Any] | Sequence[Any] | None = None,
        convert: bool = False,
    ) -> Run: ...
    @overload
    def run_async(
        self,
        outputs: Sequence[str] | None,
        feeds: Mapping[str, Any],
        /,
        *,
        out: Mapping[str, Any] | Sequence[Any] | None = None,
        convert: bool = False,
    ) -> Run: ...
    def run_async(self, *arguments: Any, **options: Any) -> Run:
        """Start a run as `run` does and return at once: ``.result()`` waits for the results, ``await`` does in an event loop.

        Runs take turns in the order of the calls, on a thread of the session's own. What `run` raises, the result raises.
        ``.cancel()``, an interrupt (Ctrl-C) while ``.result()`` waits, and an event loop that cancels its task stop the run.

        Examples:
            >>> import numpy as np, triune
            >>> from triune.models import DIGITS_INT8
            >>> runs = [triune.Session(DIGITS_INT8).run_async({"image": np.zeros((1, 1, 8, 8), np.float32)}) for _ in range(2)]
            >>> [run.result()[0].shape for run in runs]  # or await run
            [(1, 10), (1, 10)]
        """
        if self._open is None:
            raise _closed()
        run = Run()

        def compute(token: Cancel) -> Results:
            return self._run(*arguments, **options, cancel=token)

        with self._starting:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(1, "triune-session")
            turn = self._executor.submit(run._compute, compute)
        # By `close`, before its turn.
        turn.add_done_callback(lambda turn: turn.cancelled() and run.cancel())
        return run

    def prepare(self, shapes: Mapping[str, Sequence[int]]) -> dict[str, tuple[int, ...] | None]:
        """Plan for inputs of these shapes, by name, so that the first run with them starts at once.

        Returns the shape of each output by name, None where it depends on data. Inputs whose extents the model fixes can be
        left out. Raises `triune.errors.ArgumentError` if a name is unknown or missing, or the model does not take such shapes.

        Examples:
            >>> import triune
            >>> from triune.models import DIGITS_INT8
            >>> triune.Session(DIGITS_INT8).prepare({"image": (8, 1, 8, 8)})
            {'logits': (8, 10)}
        """
        ordered = self._ordered(shapes)
        known = self._native.prepare(ordered)
        pairs = zip(self._outputs, known, strict=True)
        return {info.name: None if shape is None else tuple(shape) for info, shape in pairs}

    def _ordered(self, shapes: Mapping[str, Sequence[int]]) -> list[list[int]]:
        given = dict(shapes)
        ordered: list[list[int]] = []
        for info in self._inputs:
            shape = given.pop(info.name, info.shape)
            if not all(isinstance(extent, SupportsIndex) for extent in shape):
                raise ArgumentError(f"input {info.name!r}: expected an extent for each axis, got {tuple(shape)}")
            extents = [operator.index(extent) for extent in shape if not isinstance(extent, str)]
            if any(not 0 <= extent <= sys.maxsize for extent in extents):
                raise ArgumentError(
                    f"input {info.name!r}: expected extents of 0 or more that memory can have, got {tuple(shape)}"
                )
            ordered.append(extents)
        if given:
            name = next(iter(given))
            raise ArgumentError(f"unknown input {name!r}{nearest(name, self._dtypes, 'the model has')}")
        return ordered

    def plan(self, shapes: Mapping[str, Sequence[int]] | None = None) -> SessionPlan:
        """Return what a run does on this machine: commands in order, with what is fused into each, its kernel, and where its
        output lies and for how long; memory, threads, and which commands run strip by strip.

        `shapes` are as for `prepare`, which is done where it was not; None stands for those that were prepared last, or that
        the model fixes, or else for those that ran last. Where extents depend on data, stages that have run are told, as they
        ran last. Text of it is a table, ``to_dict()`` is for JSON.

        Raises `triune.errors.ArgumentError` as `prepare` does, and without `shapes` where none are known.

        Examples:
            >>> import triune
            >>> from triune.models import DIGITS_INT8
            >>> plan = triune.Session(DIGITS_INT8).plan({"image": (8, 1, 8, 8)})
            >>> [command.name for command in plan.parts[0].commands][:3]
            ['quantize', 'qconv', 'qconv']
            >>> plan.parts[0].operators[1].made_of[1]
            ('stem', 'Conv')
        """
        if shapes is not None:
            self.prepare(shapes)
        return plan_of(self._native.plan())

    def profile(self, feeds: Mapping[str, Any], *, runs: int = 10, convert: bool = False) -> SessionProfile:
        """Run the model `runs` times, after one that is not counted, and return what each operator took on this machine.

        Feeds are as for `run`. The session itself stays as it is. Where extents depend on data, times are those of the
        last run. Raises what `run` raises.

        Examples:
            >>> import numpy as np, triune
            >>> from triune.models import DIGITS_INT8
            >>> profile = triune.Session(DIGITS_INT8).profile({"image": np.zeros((1, 1, 8, 8), np.float32)})
            >>> profile.seconds < 1
            True
        """
        if runs < 1:
            raise ArgumentError(f"runs: expected at least 1, got {runs}")
        with self.clone() as session:
            native = session._native
            session.run(feeds, convert=convert)
            native.profile(True)
            times: list[list[tuple[str, str, float]]] = []
            for _ in range(runs):
                session.run(feeds, convert=convert)
                times.append(native.operator_times())
        same = [each for each in times if [row[:2] for row in each] == [row[:2] for row in times[-1]]]
        means = [sum(row[2] for row in rows) / len(same) for rows in zip(*same, strict=True)]
        rows = zip(times[-1], means, strict=True)
        return SessionProfile(tuple(OperatorTime(name, kind, mean) for (name, kind, _), mean in rows), len(same))

    def clone(self, *, threads: int | None = None) -> Self:
        """Return another session over the same weights, which are in memory once: the two can run at the same time.

        It has plans and memory for feature maps of its own, and `threads` of its own: as many by default. It stays open when
        this one is closed. Raises `triune.errors.ReleasedError` if this one is.

        Examples:
            >>> import numpy as np, triune
            >>> from concurrent.futures import ThreadPoolExecutor
            >>> from triune.models import DIGITS_INT8
            >>> sessions = [triune.Session(DIGITS_INT8)]
            >>> sessions.append(sessions[0].clone())
            >>> image = {"image": np.zeros((1, 1, 8, 8), np.float32)}
            >>> with ThreadPoolExecutor(2) as pool:
            ...     print([logits.shape for (logits,) in pool.map(lambda session: session.run(image), sessions)])
            [(1, 10), (1, 10)]
        """
        count = self._threads if threads is None else _thread_count(threads)
        other = type(self).__new__(type(self))
        other._set(_native.Session(sharing_weights=self._native, threads=count), self._source, count, self._folder)
        other._path = self._path
        return other

    def close(self) -> None:
        """Let go of the model. Runs under way are stopped, within some 50 ms, and raise `triune.errors.ReleasedError`; those that
        `run_async` has not begun are cancelled. A second call does nothing."""
        native, self._open = self._open, None
        if native is not None:
            native.stop()
        with self._starting:
            executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=False, cancel_futures=True)

    def __enter__(self) -> Self:
        """Return the session itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def __copy__(self) -> Self:
        """Return a clone."""
        return self.clone()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return a clone: what is shared never changes."""
        return self.clone()

    def __reduce__(self) -> tuple[Any, ...]:
        """Open the same model where it is unpickled: its file again, or its bytes."""
        if self._open is None:
            raise _closed()
        return _opened, (type(self), self._path, self._threads, self._folder)

    def _forked(self) -> None:
        # The thread is not in the child.
        self._executor = None
        self._starting = Lock()

    def __repr__(self) -> str:
        """Return the source, inputs and outputs, shortened where there are many."""
        source = f"{len(self._source)} bytes" if isinstance(self._source, bytes) else repr(short(self._source))
        state = " (closed)" if self._open is None else ""
        return f"<triune.Session {source}{state}: {_texts(self._inputs)} -> {_texts(self._outputs)}>"

    def _repr_html_(self) -> str:
        rows = [
            (side, short(info.name), info.dtype, ", ".join(map(str, info.shape)))
            for side, infos in (("input", self._inputs), ("output", self._outputs))
            for info in infos[:_SHOWN]
        ]
        return html_table(("", "name", "dtype", "shape"), rows, repr(self))


_MOST_THREADS = 1024
"""More are a mistake."""

_SHOWN = 20
"""Inputs or outputs that a page shows; a line shows the first few."""

_IN_LINE = 4


def _infos(described: list[tuple[str, str, list[int | str]]], kinds: list[str]) -> list[ValueInfo]:
    return [
        ValueInfo(name, dtype, tuple(shape), kind) for (name, dtype, shape), kind in zip(described, kinds, strict=True)
    ]


def _dtype(name: str) -> np.dtype[Any]:
    """Return numpy's type, that of ml_dtypes, or that of an element's pattern."""
    try:
        return np.dtype(name)
    except TypeError:
        pass
    try:
        import ml_dtypes
    except ImportError:
        return _patterns(name)
    extended: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return extended


def _patterns(name: str) -> np.dtype[Any]:
    return np.dtype(np.uint16 if name == "bfloat16" else np.uint8)


def _array(what: str, value: Any, dtype: np.dtype[Any], convert: bool) -> npt.NDArray[Any]:
    stored = dtype.kind not in "biuf" or dtype.name not in np.sctypeDict
    if stored and isinstance(value, np.ndarray) and value.dtype == _patterns(dtype.name):
        return np.asarray(value, order="C")
    return operand(what, value, dtype, convert)


def _strings(what: str, value: Any) -> npt.NDArray[Any]:
    if isinstance(value, np.ndarray):
        return value
    if not isinstance(value, str | bytes | list | tuple):
        raise ArgumentError(f"{what}: expected an array of strings, got {type(value).__name__}")
    # What its elements are is the core's to check.
    return np.array(value, object)


def _thread_count(threads: int) -> int:
    if isinstance(threads, bool) or not isinstance(threads, SupportsIndex):
        raise ArgumentError(f"threads: expected an int, got {threads!r}")
    count = operator.index(threads)
    if not 0 <= count <= _MOST_THREADS:
        raise ArgumentError(f"threads: expected 0 (every CPU) to {_MOST_THREADS}, got {count}")
    return count


def _source(model: ModelSource) -> str | bytes:
    """Return the path or bytes of a model."""
    if isinstance(model, bytes):
        return model
    if isinstance(model, str | os.PathLike):
        return os.fsdecode(model)
    if isinstance(model, bytearray | memoryview):
        return bytes(model)
    if hasattr(model, "SerializeToString"):
        try:
            return model.SerializeToString()
        except Exception as error:
            # Messages end at 2 GiB.
            text = str(error).partition("\n")[0]
            raise ArgumentError(
                f"model: {type(model).__name__} cannot be serialized: {text}; save it to a file"
            ) from error
    if hasattr(model, "read"):
        content = model.read(MODEL_LIMIT + 1)
        if not isinstance(content, bytes):
            raise ArgumentError(
                f"model: expected a file that is open in binary mode, got {type(content).__name__} of it"
            )
        if len(content) > MODEL_LIMIT:
            raise ArgumentError(f"model: expected at most {MODEL_LIMIT} bytes, got more")
        return content
    raise ArgumentError(f"model: expected a path, bytes, an open file or a ModelProto, got {type(model).__name__}")


def _closed() -> ReleasedError:
    return ReleasedError("the session is closed; open another one")


def _opened(kind: type[Session], source: str | bytes, threads: int, folder: str | None) -> Session:
    return kind(source, threads=threads, external_data=folder)


def _names(names: Any) -> Sequence[str]:
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise ArgumentError(f"outputs: expected a list of names or None, got {names!r}")
    return names


def _texts(infos: list[ValueInfo]) -> str:
    shown = [_text(info) for info in infos[:_IN_LINE]]
    more = [f"… {len(infos) - _IN_LINE} more"] if len(infos) > _IN_LINE else []
    return ", ".join(shown + more)


def _text(info: ValueInfo) -> str:
    kind = "" if info.kind == "tensor" else f" {info.kind}"
    return f"{short(info.name)} {info.dtype}{kind} ({', '.join(map(str, info.shape))})"


# Where users find them.
for _public in (Metadata, OperatorTime, Run, Session, SessionProfile, ValueInfo):
    _public.__module__ = "triune"
