"""Files, by the core's rules: what is written is whole or not there, what is read is a plain file with an end.

`replaced` writes beside a file and takes its place at the end. Links are written through and modes stay, as with `cp`; devices
and pipes are written directly. A full disk, an error or a kill on the way leaves what was there.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

from triune import _native
from triune._native import DATA_LIMIT, MODEL_LIMIT, TEXT_LIMIT
from triune.errors import ArgumentError, FileError

__all__ = [
    "DATA_LIMIT",
    "FULL",
    "MODEL_LIMIT",
    "TEXT_LIMIT",
    "append",
    "folder_lock",
    "open_input",
    "opened",
    "read",
    "read_at",
    "read_text",
    "replaced",
    "replaced_text",
    "scratch",
    "stream",
    "write_bytes",
    "write_text",
]

_Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]


class UnreadableItem(ArgumentError):
    """What cannot be taken from a source, by an error whose text names the item."""


@contextmanager
def replaced(path: _Path, *, sync: bool = True) -> Iterator[BinaryIO]:
    """Give a file to write, which takes the place of the one at `path` when all is written.

    Without `sync` it is not waited for the disk, so that the file is whole unless the power goes: for what is written often and
    worth little.

    Raises FileError if it cannot be written.
    """
    output = _native.OutputFile(os.fsdecode(path))
    try:
        descriptor = output.descriptor()
        with (
            _errors("write", path),
            open(path if descriptor is None else _numbered(descriptor, os.O_WRONLY), "wb") as file,
        ):
            yield stream(file)
        output.commit(sync=sync)
    finally:
        output.discard()


def stream(file: BinaryIO) -> BinaryIO:
    """Return what writes an open file in one direction, unless it is a plain one."""
    return file if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else cast(BinaryIO, _Stream(file))


class _Stream(io.RawIOBase):
    """A device or a pipe to write, in one direction: devices let one seek, and are at 0 wherever that was."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._file.fileno()

    def write(self, data: Any) -> int:
        # The file has a buffer, and takes everything.
        return self._file.write(data)

    def flush(self) -> None:
        super().flush()
        if not self._file.closed:
            self._file.flush()


@contextmanager
def replaced_text(path: _Path) -> Iterator[TextIO]:
    """As `replaced`, for text in UTF-8, whose line ends stay as they are."""
    with replaced(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
        yield text
        # Who opened the file closes it.
        text.detach()


def write_bytes(path: _Path, data: bytes, *, sync: bool = True) -> None:
    """Write a file as `replaced` does."""
    with replaced(path, sync=sync) as file:
        file.write(data)


def write_text(path: _Path, text: str) -> None:
    """Write a file in UTF-8 as `replaced` does."""
    write_bytes(path, text.encode())


@contextmanager
def folder_lock(folder: _Path, *, to_write: bool) -> Iterator[None]:
    """Hold a folder's lock, which the core takes while files that belong together get their names: readers keep writers out,
    writers both.

    A file system without locks stops nobody, nor does who holds one for longer than such files take.
    """
    try:
        import fcntl
    except ImportError:
        # Windows has none for folders.
        yield
        return
    descriptor = os.open(folder or ".", os.O_RDONLY)
    try:
        end = time.monotonic() + _LOCKED
        while True:
            try:
                fcntl.flock(descriptor, (fcntl.LOCK_EX if to_write else fcntl.LOCK_SH) | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() < end:
                    time.sleep(0.002)
                    continue
            except OSError:
                pass
            break
        yield
    finally:
        os.close(descriptor)


_LOCKED = 10.0
"""Seconds that a lock is waited for."""


def append(path: _Path, data: bytes) -> None:
    """Put data behind what a file holds: all of it, or nothing. Raises FileError if it cannot be written."""
    _native.append_to_file(os.fsdecode(path), data)


def read(path: _Path, limit: int) -> bytes:
    """Return the bytes of a plain file of at most `limit` bytes. Raises FileError if it is another or cannot be read."""
    return _native.read_file(os.fsdecode(path), limit)


def read_text(path: _Path, limit: int = TEXT_LIMIT) -> str:
    """Return the text of a plain file of at most `limit` bytes in UTF-8, without a byte order mark.

    Raises FileError if it is another file, cannot be read, or is no text.
    """
    data = read(path, limit)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # The decoder counts from behind a mark.
        at = error.start + len(data) - len(error.object)
        raise FileError(
            f"cannot read {os.fsdecode(path)}: it is no text in UTF-8: byte {at} is {data[at]:#04x}"
        ) from None


@contextmanager
def opened(path: _Path, limit: int = DATA_LIMIT) -> Iterator[BinaryIO]:
    """Give a plain file of at most `limit` bytes to read. Raises FileError if it is another or cannot be read."""
    with open(open_input(path, limit), "rb") as file, _errors("read", path):
        yield file


def open_input(path: _Path, limit: int) -> int:
    """Return a new descriptor of a plain file of at most `limit` bytes. Raises FileError if it is another or cannot be read."""
    return _numbered(_native.open_input(os.fsdecode(path), limit), os.O_RDONLY)


def _numbered(descriptor: int, flags: int) -> int:
    """Return the descriptor of an open file of the core's, which on Windows gives its handle."""
    if sys.platform == "win32":
        import msvcrt

        return msvcrt.open_osfhandle(descriptor, flags)
    return descriptor


def read_at(descriptor: int, buffer: memoryview, offset: int) -> int:
    """Read from `offset` of a file into a buffer, and return how many bytes: 0 at the end, and else as many as come at once."""
    if hasattr(os, "preadv"):
        return os.preadv(descriptor, [buffer], offset)
    with _SEEKING:
        os.lseek(descriptor, offset, os.SEEK_SET)
        data = os.read(descriptor, min(len(buffer), _AT_ONCE))
    buffer[: len(data)] = data
    return len(data)


_SEEKING = threading.Lock()
"""Where there is one place in a file for all who read it, as on Windows, one reads at a time."""

_AT_ONCE = 16 << 20


@contextmanager
def _errors(what: str, path: _Path) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        # Nothing failed: who reads has seen enough.
        raise
    except OSError as error:
        if error.filename is not None or error.errno is None:
            # About another file, or a library's own.
            raise
        raise FileError(f"cannot {what} {os.fsdecode(path)}: {error.strerror or error}") from None


@contextmanager
def scratch() -> Iterator[Path]:
    """Make a folder that is gone with the block. Raises FileError if it is full, which names the cure."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="triune-") as folder:
        try:
            yield Path(folder)
        except OSError as error:
            if error.errno in FULL:
                raise FileError(
                    f"cannot write to {tempfile.gettempdir()}: {error.strerror}; the variable TMPDIR names another folder"
                ) from None
            raise


FULL = (errno.ENOSPC, errno.EDQUOT)
"""The system's numbers for a disk without room, for all or for this user."""
