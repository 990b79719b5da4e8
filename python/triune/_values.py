"""What models give besides arrays of numbers: strings, sequences of arrays, optionals, maps. As arrays, and as words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from triune._text import short

__all__ = [
    "are_strings",
    "as_array",
    "first_rows",
    "given",
    "has_rows",
    "joined",
    "keys_of",
    "maps_of",
    "named_arrays",
    "numbers_of",
    "summary",
]

Array = npt.NDArray[Any]

_SHOWN = 5
"""How many of a value's parts are told."""


def are_strings(value: object) -> TypeGuard[Array]:
    """Return whether this is an array of strings."""
    return isinstance(value, np.ndarray) and value.dtype.kind in "OSUT"


def numbers_of(values: Mapping[str, Any]) -> dict[str, Array]:
    """Return the values that are arrays of numbers."""
    return {name: value for name, value in values.items() if isinstance(value, np.ndarray) and not are_strings(value)}


def maps_of(value: object) -> list[dict[Any, Any]] | None:
    """Return a map as a list of one, and a sequence of maps as it is; None for anything else."""
    if isinstance(value, dict):
        return [value]
    if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
        return value
    return None


def keys_of(value: object) -> list[Any] | None:
    """Return the keys of a map, or those that all maps of a sequence have; None for anything else.

    Raises ValueError if maps of a sequence have other keys than the first.
    """
    maps = maps_of(value)
    if maps is None:
        return None
    keys = list(maps[0])
    for index, each in enumerate(maps):
        if each.keys() != maps[0].keys():
            raise _wrong(f"map {index} has other keys than map 0")
    return keys


def as_array(value: Any) -> Array:
    """Return a value as one array to compare it by.

    The values of maps, a row for each map, in the order of the first one's keys; all elements of a sequence's arrays, one behind
    the other; nothing of an optional without content. Strings have dtype object.

    Raises ValueError if maps of a sequence have different keys.
    """
    if value is None:
        return np.zeros(0)
    maps = maps_of(value)
    if maps is not None:
        keys = keys_of(value)
        assert keys is not None
        rows = [[each[key] for key in keys] for each in maps]
        texts = any(isinstance(each, str) for row in rows for each in row)
        array = np.array(rows, object if texts else None)
        return array[0] if isinstance(value, dict) else array
    if isinstance(value, list):
        parts = [as_array(each).reshape(-1) for each in value]
        return np.concatenate(parts) if parts else np.zeros(0)
    array = np.asarray(value)
    return array.astype(object) if are_strings(array) else array


def named_arrays(name: str, value: Any) -> Iterator[tuple[str, Array]]:
    """Yield the arrays that a value is in a file, with their names there; none is of objects.

    An array of numbers or strings is itself; a map is ``NAME.keys`` and ``NAME.values``, a sequence of maps the same with a row
    of values for each; a sequence of arrays ``NAME.length``, ``NAME.0``, ``NAME.1`` and so on; an optional without content
    nothing.

    Raises ValueError, with the name, if strings end in NUL, which arrays of text do not keep, or maps have different keys.
    """
    if value is None:
        return
    if maps_of(value) is not None:
        try:
            keys = keys_of(value)
        except ValueError as error:
            raise _wrong(f"output {name!r}: {error}") from None
        yield f"{name}.keys", _plain(f"{name}.keys", np.array(keys))
        yield f"{name}.values", _plain(f"{name}.values", as_array(value))
    elif isinstance(value, list):
        yield f"{name}.length", np.array(len(value))
        for index, each in enumerate(value):
            yield f"{name}.{index}", _plain(f"{name}.{index}", each)
    else:
        yield name, _plain(name, value)


def _plain(name: str, array: Array) -> Array:
    if not are_strings(array):
        return array
    texts = [str(each) for each in array.reshape(-1)]
    if any(text.endswith("\0") for text in texts):
        raise _wrong(f"output {name!r}: a string ends in NUL, which no array of text in a file keeps")
    return np.array(texts, np.str_).reshape(array.shape)


def summary(value: Any) -> str:
    """Return a line on what a value is: of an array dtype, shape and range, of strings those that there are most of."""
    if value is None:
        return "nothing (an optional without content)"
    maps = maps_of(value)
    if maps is not None:
        keys = list(dict.fromkeys(key for each in maps for key in each))
        named = _list([repr(key) if isinstance(key, str) else str(key) for key in keys])
        return f"{'map' if isinstance(value, dict) else f'{len(maps)} maps'} of {len(keys)} keys: {named}"
    if isinstance(value, list):
        return f"sequence of {len(value)}" + (f": {_list([_brief(each) for each in value])}" if value else "")
    if not value.size:
        return f"{_brief(value)} empty"
    if are_strings(value):
        texts, counts = np.unique(value.reshape(-1).astype(object), return_counts=True)
        order = np.argsort(-counts, kind="stable")
        told = [f"{short(repr(str(texts[at])))} ({counts[at]})" for at in order[: _SHOWN + 1]]
        return f"{_brief(value)} {len(texts)} different: {_list(told, len(texts))}"
    return f"{_brief(value)} min {value.min():g} max {value.max():g}"


def _wrong(text: str) -> ValueError:
    return ValueError(short(text))


def _brief(array: Array) -> str:
    return f"{'strings' if are_strings(array) else array.dtype} {array.shape}"


def _list(parts: list[str], count: int | None = None) -> str:
    count = len(parts) if count is None else count
    return ", ".join(parts[:_SHOWN]) + (f" and {count - _SHOWN} more" if count > _SHOWN else "")


def first_rows(value: Any, kept: int, step: int) -> Any:
    """Return what of a run's result is of its first `kept` rows: the result itself where `step` rows do not show in it."""
    rows = (isinstance(value, np.ndarray) and value.ndim > 0) or (
        isinstance(value, list) and maps_of(value) is not None
    )
    return value[:kept] if rows and len(value) == step else value


def has_rows(shape: Sequence[int | str]) -> bool:
    """Return whether the first axis of a model's input, whose open extents have names, is that of the images.

    A number has none, and a vector whose length the model states has its elements along its only axis; a length of 1 is a batch.
    """
    return len(shape) > 1 or (len(shape) == 1 and (shape[0] == 1 or not isinstance(shape[0], int)))


def joined(name: str, values: list[Any], shape: Sequence[int | str], step: int) -> Any:
    """Return the results of several runs as one: rows one behind the other, and of what has no rows one for each run.

    The first axis is that of rows if the model leaves its extent open in `shape`, or says 1 or `step`, the rows of a run.

    Raises ValueError if they are sequences or optionals, which have no rows.
    """
    if len(values) == 1:
        return values[0]
    if all(isinstance(value, np.ndarray) for value in values):
        whole = isinstance(shape[0], int) and shape[0] not in (1, step) if shape else True
        return np.stack(values) if whole or not values[0].ndim else np.concatenate(values)
    if all(isinstance(value, list) and maps_of(value) is not None for value in values):
        return [each for value in values for each in value]
    raise _wrong(
        f"output {name!r} is one for each of {len(values)} runs, which have no rows in common; give what fits into one run"
    )


def given(name: str, kind: str, arrays: Mapping[str, Array]) -> tuple[Any, set[str]]:
    """Return what an input of a kind is in a file's arrays, named as by `named_arrays`, and the names that were used.

    Raises ValueError, with what is missing.
    """
    if kind == "map":
        missing = [each for each in (f"{name}.keys", f"{name}.values") if each not in arrays]
        if missing:
            raise _wrong(
                f"input {name!r} is a map: expected the arrays {name}.keys and {name}.values, got no {missing[0]}"
            )
        keys, values = arrays[f"{name}.keys"], arrays[f"{name}.values"]
        if keys.ndim != 1 or keys.shape != values.shape:
            raise _wrong(
                f"input {name!r} is a map: expected as many keys as values, got {keys.shape} and {values.shape}"
            )
        return dict(zip(keys.tolist(), values.tolist(), strict=True)), {f"{name}.keys", f"{name}.values"}
    if kind == "tensor" or kind == "strings" or (kind == "optional" and name in arrays):
        if name not in arrays:
            raise _wrong(f"input {name!r}: expected an array, got none")
        return arrays[name], {name}
    parts: list[Array] = []
    while f"{name}.{len(parts)}" in arrays:
        parts.append(arrays[f"{name}.{len(parts)}"])
    used = {f"{name}.{index}" for index in range(len(parts))}
    if f"{name}.length" in arrays:
        length = int(arrays[f"{name}.length"])
        if length != len(parts):
            raise _wrong(f"input {name!r} is a sequence: {name}.length is {length}, and there are {len(parts)} arrays")
        return parts, used | {f"{name}.length"}
    if kind.startswith("optional") and not parts:
        return None, used
    if not parts:
        raise _wrong(
            f"input {name!r} is a sequence: expected the arrays {name}.0, {name}.1 and so on, or {name}.length"
        )
    return parts, used
