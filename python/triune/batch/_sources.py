"""Where items come from: folders and files, and what is in files that hold many, videos and tables."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any

from triune._arrays import array_of_file, arrays_of_file, shapes_of_file
from triune._files import UnreadableItem
from triune._text import nearest
from triune._video import SUFFIXES as VIDEOS
from triune._video import Video, is_video
from triune.batch._pictures import SUFFIXES
from triune.errors import ArgumentError, Error, FileError

__all__ = ["ARRAYS", "COLUMNS", "Broken", "ItemsIn", "Row", "files_of", "items_of"]

COLUMNS = ("bytes", "image", "path")
"""Where tables have their items if nobody says: what Hugging Face's, and Ray's readers call them."""

_ROWS = 64
"""Rows of a table that are in memory at a time."""

_TABLE = ".parquet"

ARRAYS = frozenset({".npy", ".npz"})
"""Endings of files of arrays."""

ItemsIn = Callable[[Mapping[str, tuple[int, ...]]], tuple[int, set[str]] | None]
"""From the shapes of a file's arrays to the number of items in it, and the names of the arrays that have a row for each.

None for a file that is an item. Raises ArgumentError where arrays have different numbers."""


class Broken:
    """An item that cannot be had, in its place."""

    def __init__(self, error: Exception) -> None:
        """Take what is wrong."""
        self.error = error


class Row:
    """An item of a file's arrays: by name, or of a .npy file the one."""

    def __init__(self, value: Any) -> None:
        """Take it."""
        self.value = value


def items_of(
    source: Any, pictures: bool, column: str | Mapping[str, str] | None, items_in: ItemsIn | None = None
) -> tuple[Iterator[tuple[str, Any]], int | None]:
    """Return names and items of a source, and how many there are, if that is known.

    Without `items_in`, files of arrays are items.
    """
    if isinstance(source, str | os.PathLike):
        files = files_of(os.fsdecode(source), pictures)
        return _each(files, column, items_in), _count(files, items_in)
    if isinstance(source, bytes | Mapping) or not isinstance(source, Iterable):
        raise ArgumentError(
            f"source: expected a folder, file, pattern, array or iterable of items, got {type(source).__name__}; "
            "a single item goes into a list"
        )
    total: int | None = len(source) if isinstance(source, Sized) else None
    if isinstance(source, Sequence) and all(isinstance(item, str | os.PathLike) for item in source):
        total = _count([os.fsdecode(item) for item in source], items_in)
    return _each(source, column, items_in), total


def _ending(path: str | os.PathLike[str]) -> str:
    return os.path.splitext(os.fsdecode(path))[1].lower()


def _holds_many(item: str | os.PathLike[str]) -> bool:
    return is_video(item) or _ending(item) == _TABLE


def _stack(item: str | os.PathLike[str], items_in: ItemsIn | None) -> tuple[int, set[str]] | None:
    """Return what `items_in` says of a file of arrays, None of others. Raises ArgumentError as it does."""
    if items_in is None or _ending(item) not in ARRAYS:
        return None
    shapes = shapes_of_file(item)
    return None if shapes is None else items_in(shapes)


def _each(
    source: Iterable[Any], column: str | Mapping[str, str] | None, items_in: ItemsIn | None
) -> Iterator[tuple[str, Any]]:
    """Yield the items, and of a file that holds many all of them."""
    for index, item in enumerate(source):
        if not isinstance(item, str | os.PathLike):
            yield str(index), item
            continue
        name = os.fsdecode(item)
        try:
            stack = _stack(item, items_in)
            if stack is not None:
                yield from _of_stack(name, *stack)
                continue
            if not _holds_many(item):
                yield name, item
                continue
            yield from _frames(name) if is_video(item) else _rows(name, column)
        except Error as error:
            # In its place: what was read before it stays, and what comes behind goes on, if bad items are skipped.
            yield name, Broken(error)


def _of_stack(file: str, count: int, stacked: set[str]) -> Iterator[tuple[str, Any]]:
    """Yield the items of arrays with a row for each."""
    archive = _ending(file) == ".npz"
    arrays = arrays_of_file(file) if archive else {"": array_of_file(file)}
    for number in range(count):
        # Arrays of a number, too, not numbers.
        rows: dict[str, Any] = {
            name: array[number, ...] if name in stacked else array for name, array in arrays.items()
        }
        yield f"{file}#{number}", Row(rows if archive else rows[""])


def _count(files: Sequence[str], items_in: ItemsIn | None) -> int | None:
    """Return how many items there are in files: None if a video or a table will tell at its end only."""
    total = 0
    for file in files:
        if not _holds_many(file):
            try:
                stack = _stack(file, items_in)
            except Error:
                stack = None
            total += 1 if stack is None else stack[0]
        elif is_video(file):
            return None
        else:
            try:
                total += _table(file).metadata.num_rows
            except (Error, OSError):
                return None
    return total


def _frames(file: str) -> Iterator[tuple[str, Any]]:
    """Yield the pictures of a video, as Pillow's: what `Preprocess.format` says is how arrays lie."""
    try:
        from PIL import Image
    except ImportError:
        raise ImportError("images need the extra 'images': pip install 'triune[images]'") from None
    with Video(file) as video:
        for frame in video:
            yield f"{file}#{frame.number}", Image.fromarray(frame.pixels)


def _table(file: str) -> Any:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise ImportError("tables of Parquet need the extra 'arrow': pip install 'triune[arrow]'") from None
    if not os.path.exists(file):
        raise FileError(f"{file}: there is no such file")
    try:
        return parquet.ParquetFile(file)
    except (ArrowException, OSError) as error:
        raise UnreadableItem(f"{file}: not a Parquet table that can be read: {error}") from None


def _rows(file: str, column: str | Mapping[str, str] | None) -> Iterator[tuple[str, Any]]:
    """Yield a table's rows: named by the column `path` if there is one that is none of the items, else by their number."""
    table = _table(file)
    there = table.schema_arrow.names
    chosen = column if column is not None else next((name for name in COLUMNS if name in there), None)
    wanted = list(chosen.values()) if isinstance(chosen, Mapping) else [chosen]
    for name in wanted:
        if name not in there:
            asked = "column: name the one with the items" if name is None else f"column: unknown {name!r}"
            raise UnreadableItem(f"{file}: {asked}{nearest(name or '', there, 'the table has')}")
    named = ["path"] if "path" in there and "path" not in wanted else []
    number = 0
    for batch in table.iter_batches(batch_size=_ROWS, columns=[*wanted, *named]):
        for row in batch.to_pylist():
            name = str(row["path"]) if named and row["path"] is not None else f"{file}#{number}"
            if isinstance(chosen, Mapping):
                yield name, {into: row[each] for into, each in chosen.items()}
            else:
                yield name, _item(row[chosen], name)
            number += 1


def _item(value: Any, name: str) -> Any:
    """Return what a cell holds: bytes, a path, numbers; or bytes and a path together, as Hugging Face has pictures."""
    if isinstance(value, Mapping):
        value = value.get("bytes") or value.get("path")
    if value is None:
        return Broken(ArgumentError("expected bytes, a path or numbers in the row, got none"))
    return value


def files_of(source: str, pictures: bool = True) -> list[str]:
    """Return the files of a folder, those that match a pattern, or the file itself. Raises FileError if there are none."""
    suffixes = ARRAYS | SUFFIXES if pictures else ARRAYS
    if os.path.isdir(source):
        found = sorted(
            os.path.join(folder, name)
            for folder, _, names in os.walk(source)
            for name in names
            if os.path.splitext(name)[1].lower() in suffixes
        )
        if not found:
            raise FileError(
                f"{source}: expected files with the endings {', '.join(sorted(suffixes))} in the folder, got none; "
                f"name tables ({_TABLE}) and videos ({', '.join(sorted(VIDEOS))}) themselves, or by a pattern"
            )
        return found
    if os.path.exists(source):
        return [source]
    found = sorted(filter(os.path.isfile, glob.iglob(source, recursive=True))) if glob.has_magic(source) else []
    if not found:
        what = "no file matches the pattern" if glob.has_magic(source) else "there is no such file or folder"
        raise FileError(f"{source}: {what}")
    return found
