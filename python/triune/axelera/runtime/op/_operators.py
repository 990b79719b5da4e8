"""Operators as such: their fields, sequences and branches of them, and the picture that is under way."""

from __future__ import annotations

import contextvars
import inspect
import os
import typing
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from triune.axelera._image import Picture
from triune.axelera.runtime._arguments import array_of_numbers
from triune.axelera.runtime._errors import InvalidArgument

if TYPE_CHECKING:
    from triune.axelera.runtime.op._objects import BBox

Array = npt.NDArray[Any]


@dataclass
class FrameContext:
    """What operators know of the picture that is under way."""

    input: Any
    saved: dict[str, Any] = field(default_factory=dict)


FRAME: contextvars.ContextVar[FrameContext | None] = contextvars.ContextVar("frame", default=None)
PARENT: contextvars.ContextVar[BBox | None] = contextvars.ContextVar("parent", default=None)
"""The box of the whole picture that the one under way was cut out of."""


@contextmanager
def frame_context(image: Any) -> Iterator[FrameContext]:
    """Let operators that are called one by one know the picture that they work on."""
    frame = FrameContext(image)
    token = FRAME.set(frame)
    try:
        yield frame
    finally:
        FRAME.reset(token)


class Operator:
    """One step of a pipeline. A class of a program's own has annotated fields, with or without defaults, and ``__call__``.

    Its constructor takes the fields by place or name, and a `name`.
    """

    name: str | None = None

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Make a constructor of the fields, unless the class has one."""
        super().__init_subclass__(**keywords)
        if "__init__" not in vars(cls):
            cls.__signature__ = inspect.Signature(list(_fields(cls)))  # type: ignore[attr-defined]

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        """Take the fields. Raises TypeError if they do not fit."""
        parameters = list(_fields(type(self)))
        try:
            bound = inspect.Signature(parameters).bind(*arguments, **keywords)
        except TypeError as error:
            raise TypeError(f"{type(self).__name__}: {error}") from None
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            setattr(self, name, value)

    def __call__(self, *inputs: Any) -> Any:
        """Compute."""
        raise NotImplementedError(f"{type(self).__name__} has no __call__")

    def optimized(self) -> Self:
        """Return the operator itself: there is nothing to fuse."""
        return self

    def save_axe(self, path: str | os.PathLike[str]) -> None:
        """Refuse: how the vendor's ``.axe`` files describe a pipeline is not public. Raises NotImplementedError."""
        raise NotImplementedError(
            f"{os.fspath(path)}: .axe files are not written, as their description of a pipeline is not public; keep the program "
            "that puts it together with op.seq"
        )

    def batch(self, *inputs: Any) -> list[Any]:
        """Return the results of several inputs, in their order.

        There is an argument for each input that the operator takes: an array whose first axis counts them, or an iterable. Raises
        InvalidArgument if they are not as many as each other.
        """
        if not inputs or not all(isinstance(several, Iterable) for several in inputs):
            raise InvalidArgument(
                "batch: expected arrays or lists of inputs, one for each input that the operator takes"
            )
        try:
            together = list(zip(*inputs, strict=True))
        except ValueError:
            raise InvalidArgument("batch: the inputs are not as many as each other") from None
        return [self(*values) for values in together]

    def stream(self, source: Any, *, max_in_flight: int | None = None) -> Iterator[tuple[Any, Any]]:
        """Yield each picture of a source, and its result, in the calling thread; `max_in_flight` changes nothing.

        A source is what `cv.create_source` takes, or anything that pictures come out of.
        """
        if isinstance(source, str | os.PathLike):
            from triune.axelera.runtime.cv.source import create_source

            with create_source(os.fspath(source)) as opened:
                for image in opened:
                    yield image, self(image)
            return
        for image in source:
            yield image, self(image)

    def nodes(self) -> Iterator[Operator]:
        """Yield the operator, then those in it, depth first."""
        yield self
        for inner in getattr(self, "operators", ()):
            if isinstance(inner, Operator):
                yield from inner.nodes()

    def node(self, name: str | None = None, *, cls: type[Operator] | None = None) -> Any:
        """Return the first operator within this one, itself included, of a name and class; either may be left out.

        Raises KeyError if there is none.
        """
        for one in self.nodes():
            if (name is None or one.name == name) and (cls is None or isinstance(one, cls)):
                return one
        raise KeyError(name if cls is None else cls.__name__)


def _fields(kind: type) -> Iterator[inspect.Parameter]:
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        for name in vars(base).get("__annotations__", {}):
            if not name.startswith("_"):
                found[name] = getattr(kind, name, inspect.Parameter.empty)
    found["name"] = found.pop("name", None)
    for name, default in found.items():
        how = inspect.Parameter.KEYWORD_ONLY if name == "name" else inspect.Parameter.POSITIONAL_OR_KEYWORD
        yield inspect.Parameter(name, how, default=default)


class Unpacked(tuple[Any, ...]):
    """Results that the next operator takes one by one."""


def of_torch(value: Any) -> Any:
    """Return arrays of what torch made."""
    return value.detach().cpu().numpy() if hasattr(value, "detach") else value


def array_of(value: Any) -> Any:
    """Return arrays of pictures, and of what torch or Pillow made."""
    if isinstance(value, np.ndarray | tuple | list):
        return value
    if isinstance(value, Picture):
        return value.__array__()
    value = of_torch(value)
    return np.asarray(value) if hasattr(value, "__array__") or hasattr(value, "__array_interface__") else value


def numbers(what: str, value: Any, dtype: type[np.generic] | None = None) -> Array:
    """Return an array of numbers, of a dtype if one is given. Raises InvalidArgument, which begins with `what`, for others."""
    array: Array = array_of_numbers(what, array_of(value))
    return array if dtype is None else array.astype(dtype, copy=False)


def table(what: str, value: Any, columns: int, dtype: type[np.generic] | None = None) -> Array:
    """Return rows of numbers, such as boxes, of a dtype if one is given. Raises InvalidArgument if they have fewer columns."""
    array = numbers(what, value, dtype)
    if array.ndim == 1 and not array.size:
        return np.zeros((0, columns), np.float32)
    if array.ndim != 2 or array.shape[1] < columns:
        raise InvalidArgument(f"{what}: expected rows of at least {columns} numbers, got shape {array.shape}")
    return array


def ordered(what: str, several: Iterable[Any], key: Callable[[Any], Any], descending: bool) -> list[Any]:
    """Return objects by a number of each; those without one (NaN), last. Raises InvalidArgument for an object that has None."""
    given = [(key(one), one) for one in several]
    for place, (value, _) in enumerate(given):
        if value is None:
            raise InvalidArgument(f"{what}: object {place} has nothing to order it by")
    known = sorted((pair for pair in given if pair[0] == pair[0]), key=lambda pair: pair[0], reverse=descending)
    return [one for _, one in known] + [one for value, one in given if value != value]


def _reduced(operators: Iterable[Callable[..., Any]], inputs: Iterable[Any]) -> Any:
    """Call operators one behind the other."""
    result: Any = Unpacked(map(of_torch, inputs))
    for operator in operators:
        result = operator(*result) if isinstance(result, Unpacked) else operator(result)
    return result


class Seq(Operator):
    """Operators one behind the other."""

    def __init__(self, *operators: Callable[..., Any], name: str | None = None) -> None:
        """Take them in order."""
        self.operators, self.name = operators, name

    def __call__(self, *inputs: Any) -> Any:
        """Compute; a picture that comes first is the one that boxes are mapped to."""
        if FRAME.get() is None:
            with frame_context(inputs[0] if inputs else None):
                return self(*inputs)
        result = _reduced(self.operators, inputs)
        return tuple(result) if isinstance(result, Unpacked) and len(result) != 1 else result


class Par(Operator):
    """Operators beside each other, each on the same inputs; the next one takes their results one by one."""

    def __init__(self, *operators: Callable[..., Any], name: str | None = None) -> None:
        """Take them in order."""
        self.operators, self.name = operators, name

    def __call__(self, *inputs: Any) -> Any:
        """Return all results; of operators that all have names, by name."""
        results = [operator(*inputs) for operator in self.operators]
        names = [getattr(operator, "name", None) for operator in self.operators]
        if names and all(names):
            kind = typing.NamedTuple("Results", [(str(name), Any) for name in names])  # type: ignore[misc]
            return kind(*results)
        return Unpacked(results)


class ForEach(Operator):
    """Operators on each of several, for example on what was found in a picture; `CropRoi` cuts it out."""

    def __init__(self, *operators: Any, iter: str = "input", name: str | None = None, save: Any = None) -> None:
        """Take the name of the results, which may come first, and the operators in order.

        `iter` names what is gone through in the result. Raises NotImplementedError for `save`.
        """
        if save is not None:
            raise NotImplementedError("for_each: results in between are not saved; return them from the pipeline")
        named = bool(operators) and isinstance(operators[0], str)
        self.name = operators[0] if named else name
        self.operators: tuple[Callable[..., Any], ...] = operators[1:] if named else operators
        self.iter = iter

    def __call__(self, items: Iterable[Any]) -> Any:
        """Return what was gone through, and the list of results."""
        several = list(items)
        frame = FRAME.get()
        results = []
        for item in several:
            box = getattr(item, "bbox", None)
            outer = PARENT.set(None if box is None else getattr(box, "_frame", None) or box)
            try:
                with frame_context(None if frame is None else frame.input) as inner:
                    inner.saved = {} if frame is None else dict(frame.saved)
                    result = _reduced(self.operators, (item,))
                    results.append(tuple(result) if isinstance(result, Unpacked) and len(result) != 1 else result)
            finally:
                PARENT.reset(outer)
        make: Any = typing.NamedTuple
        return make("Each", [(self.iter, Any), (self.name or "results", Any)])(several, results)


class Pack(Operator):
    """Makes a tuple of what comes one by one."""

    def __call__(self, *inputs: Any) -> Any:
        """Return the inputs."""
        return inputs


class Unpack(Operator):
    """Lets the next operator take the elements of a tuple or list one by one."""

    def __call__(self, value: Any) -> Any:
        """Return the elements; anything else as it is."""
        return Unpacked(value) if isinstance(value, tuple | list) else value


class Itemgetter(Operator):
    """Takes one of several."""

    index: int

    def __call__(self, *inputs: Any) -> Any:
        """Return that one."""
        whole = inputs[0] if len(inputs) == 1 else inputs
        return whole[self.index]


class Identity(Operator):
    """Changes nothing: ``identity(x)`` is x, and ``identity()`` the operator."""

    def __call__(self, *inputs: Any) -> Any:
        """Return the input."""
        if not inputs:
            return self
        return inputs[0] if len(inputs) == 1 else Unpacked(inputs)


class Constant(Operator):
    """Gives a value, whatever comes."""

    def __init__(self, *, value: Any, name: str | None = None) -> None:
        """Take the value."""
        self.value, self.name = value, name

    def __call__(self, *inputs: Any) -> Any:
        """Return the value."""
        return self.value


class OperatorRegistry:
    """Names of a program's own operators, for ``.axe`` files. Those are not there, so names are kept, and no more."""

    _registered: ClassVar[dict[str, type[Operator]]] = {}

    @classmethod
    def register(cls, name: str, operator: Any) -> None:
        """Keep a name. Raises TypeError if `operator` is no class of operators, InvalidArgument if another one has the name."""
        if not isinstance(operator, type) or not issubclass(operator, Operator):
            raise TypeError(f"register: expected a class of op.Operator, got {operator!r:.60}")
        if cls._registered.setdefault(name, operator) is not operator:
            raise InvalidArgument(f"register: {name!r} is {cls._registered[name].__name__} already")
