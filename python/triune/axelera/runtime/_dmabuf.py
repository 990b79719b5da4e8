"""Buffers behind file descriptors: dma-buf heaps, memfd, or any other file that can be mapped.

The caller owns the descriptor and may close it after a run. What nobody can shorten is mapped: dma-bufs, and memfds that are
sealed against it. The mapping is kept for the next run with the same buffer, which is recognised by its inode, as descriptor
numbers are used again. All else is read before a run and written behind it: a mapping that is shortened meanwhile ends the
process.
"""

from __future__ import annotations

import errno
import math
import mmap
import operator
import os
import sys
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from triune._files import read_at

from ._arguments import whole_number
from ._errors import InvalidArgument
from ._types import TensorInfo

if sys.platform != "win32":
    import fcntl

# linux/dma-buf.h: _IOW('b', 0, struct { __u64 flags; })
_SYNC = 0x40086200
_READ, _WRITE, _END = 1, 2, 4
# linux/fcntl.h
_GET_SEALS = 1034
_SEAL_SHRINK = 2

_KEPT = 32
"""Mappings kept per instance: some ring of buffers for every input and output."""

Tensor = npt.NDArray[Any]


class Buffers:
    """The descriptors of one model instance as arrays. Not for several threads at once."""

    def __init__(self) -> None:
        """Start with nothing mapped."""
        self._maps: dict[tuple[int, int, int, bool], mmap.mmap] = {}
        self._copies: list[tuple[str, int, Tensor]] = []

    def tensor(self, name: str, fd: object, info: TensorInfo, *, write: bool) -> Tensor:
        """Return the buffer behind `fd` as an array of the tensor's type and shape; `put_back` ends its use.

        Raises `InvalidArgument` if `fd` is no descriptor, cannot be mapped or is smaller than the tensor.
        """
        number = None if isinstance(fd, bool) else whole_number(fd)
        if number is None:
            raise InvalidArgument(f"{name}: expected a dma-buf file descriptor, got {type(fd).__name__}")
        try:
            status = os.fstat(number)
        except (OSError, OverflowError) as error:
            raise InvalidArgument(f"{name}: expected an open file descriptor, got {number} ({error})") from None
        if status.st_size < info.size:
            raise InvalidArgument(
                f"{name}: expected a buffer of at least {info.size} bytes for tensor {info.name!r}, got descriptor "
                f"{number} of {status.st_size} bytes"
            )
        if not _keeps_its_size(number):
            return self._copy(name, number, info, write=write)
        key = (status.st_dev, status.st_ino, status.st_size, write)
        # Taken out and put in last: a signal handler may clear the mappings between any two steps.
        mapped = self._maps.pop(key, None)
        if mapped is None:
            mapped = self._map(name, number, status.st_size, write=write)
        self._maps[key] = mapped
        for oldest in list(self._maps)[:-_KEPT]:
            self._maps.pop(oldest, None)
        count = math.prod(info.shape)
        return np.frombuffer(mapped, info.dtype, count).reshape(info.shape)

    def _copy(self, name: str, fd: int, info: TensorInfo, *, write: bool) -> Tensor:
        array = np.empty(info.shape, info.dtype)
        view, filled = array.reshape(-1).view(np.uint8).data, 0
        try:
            flags = fcntl.fcntl(fd, fcntl.F_GETFL) if write else 0
            if write and flags & os.O_ACCMODE != os.O_RDWR:
                raise OSError(errno.EACCES, os.strerror(errno.EACCES))
            if flags & os.O_APPEND:
                # The system writes behind what there is then, wherever it is told to.
                raise OSError(errno.EINVAL, "it was opened to append, and results go to its beginning")
            # Outputs, too: a run need not write them.
            while filled < len(view):
                count = read_at(fd, view[filled:], filled)
                if not count:
                    raise OSError(errno.EIO, f"it was shortened to {filled} bytes")
                filled += count
        except OSError as error:
            raise _unusable(name, fd, error, write=write) from None
        if write:
            self._copies.append((name, fd, array))
        return array

    def put_back(self, *, ran: bool = True) -> None:
        """Write what a run that went well put into arrays that are copies.

        Raises `InvalidArgument` if a descriptor can no longer be written.
        """
        copies, self._copies = self._copies, []
        for name, fd, array in copies if ran else []:
            view, written = array.reshape(-1).view(np.uint8).data, 0
            try:
                while written < len(view):
                    written += os.pwrite(fd, view[written:], written)
            except OSError as error:
                raise _unusable(name, fd, error, write=True) from None

    @staticmethod
    def _map(name: str, fd: int, size: int, *, write: bool) -> mmap.mmap:
        protection = mmap.PROT_READ | (mmap.PROT_WRITE if write else 0)
        try:
            return mmap.mmap(fd, size, mmap.MAP_SHARED, protection)
        except (OSError, ValueError) as error:
            raise _unusable(name, fd, error, write=write) from None

    def clear(self) -> None:
        """Let go of every mapping; arrays that still use one keep it alive."""
        self._maps.clear()


def identity(fd: SupportsIndex) -> tuple[int, int]:
    """Return what tells the buffer behind a descriptor from others."""
    status = os.fstat(operator.index(fd))
    return status.st_dev, status.st_ino


def _unusable(name: str, fd: int, error: Exception, *, write: bool) -> InvalidArgument:
    mode = "read and written" if write else "read"
    return InvalidArgument(f"{name}: descriptor {fd} cannot be {mode} ({error})")


def _keeps_its_size(fd: int) -> bool:
    """Return whether nobody can shorten the file."""
    try:
        return bool(fcntl.fcntl(fd, _GET_SEALS) & _SEAL_SHRINK)
    except OSError:
        # No memfd. A dma-buf has one size for life, and is what knows this request.
        try:
            for flags in (_READ, _READ | _END):
                fcntl.ioctl(fd, _SYNC, flags.to_bytes(8, "little"))
        except OSError:
            return False
        return True


def sync(fds: list[int], *, write: bool, end: bool) -> None:
    """Tell the exporters of dma-bufs that the CPU starts or ends its access; other files need no such thing."""
    flags = (_WRITE if write else _READ) | (_END if end else 0)
    for fd in fds:
        try:
            fcntl.ioctl(fd, _SYNC, flags.to_bytes(8, "little"))
        except OSError:
            # Not a dma-buf, and so coherent.
            continue
