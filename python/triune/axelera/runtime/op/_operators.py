"""Operators as such: their fields, sequences and branches of them, and the picture that is under way."""

from __future__ import annotations

import contextvars
import inspect
import typing
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass
class FrameContext:
    """What operators know of the picture that is under way."""

    input: Any
    saved: dict[str, Any] = field(default_factory=dict)


FRAME: contextvars.ContextVar[FrameContext | None] = contextvars.ContextVar("frame", default=None)


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

    def batch(self, inputs: Iterable[Any]) -> list[Any]:
        """Return the results of several inputs, in their order."""
        return [self(one) for one in inputs]

    def stream(self, source: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        """Yield each picture of a source, and its result."""
        for image in source:
            yield image, self(image)


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


def array_of(value: Any) -> Any:
    """Return arrays of what torch or Pillow made."""
    if isinstance(value, np.ndarray | tuple | list):
        return value
    if hasattr(value, "detach"):
        return value.detach().cpu().numpy()
    return np.asarray(value) if hasattr(value, "__array__") or hasattr(value, "__array_interface__") else value


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
        result: Any = Unpacked(map(array_of, inputs))
        for operator in self.operators:
            result = operator(*result) if isinstance(result, Unpacked) else operator(result)
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


class Pack(Operator):
    """Makes a tuple of what comes one by one."""

    def __call__(self, *inputs: Any) -> Any:
        """Return the inputs."""
        return inputs


class Itemgetter(Operator):
    """Takes one of several."""

    index: int

    def __call__(self, *inputs: Any) -> Any:
        """Return that one."""
        whole = inputs[0] if len(inputs) == 1 else inputs
        return whole[self.index]


class Identity(Operator):
    """Changes nothing."""

    def __call__(self, *inputs: Any) -> Any:
        """Return the input."""
        return inputs[0] if len(inputs) == 1 else Unpacked(inputs)
