"""Buffers behind file descriptors: dma-buf heaps, memfd, or any other file that can be mapped.

The caller owns the descriptor and may close it after a run. A mapping is kept for the next run with the same buffer,
which is recognised by its inode, as descriptor numbers are used again.
"""

from __future__ import annotations

import fcntl
import math
import mmap
import operator
import os
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from ._errors import InvalidArgument
from ._types import TensorInfo

# linux/dma-buf.h: _IOW('b', 0, struct { __u64 flags; })
_SYNC = 0x40086200
_READ, _WRITE, _END = 1, 2, 4

_KEPT = 32
"""Mappings kept per instance: some ring of buffers for every input and output."""

Tensor = npt.NDArray[Any]


class Buffers:
    """The mapped descriptors of one model instance. Not for several threads at once."""

    def __init__(self) -> None:
        """Start with nothing mapped."""
        self._maps: dict[tuple[int, int, int, bool], mmap.mmap] = {}

    def tensor(self, name: str, fd: object, info: TensorInfo, *, write: bool) -> Tensor:
        """Return the buffer behind `fd` as an array of the tensor's type and shape.

        Raises `InvalidArgument` if `fd` is no descriptor, cannot be mapped or is smaller than the tensor.
        """
        if isinstance(fd, bool | np.ndarray) or not isinstance(fd, SupportsIndex):
            raise InvalidArgument(f"{name}: expected a dma-buf file descriptor, got {type(fd).__name__}")
        number = operator.index(fd)
        try:
            status = os.fstat(number)
        except (OSError, OverflowError) as error:
            raise InvalidArgument(f"{name}: expected an open file descriptor, got {number} ({error})") from None
        if status.st_size < info.size:
            raise InvalidArgument(
                f"{name}: expected a buffer of at least {info.size} bytes for tensor {info.name!r}, got descriptor "
                f"{number} of {status.st_size} bytes"
            )
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

    @staticmethod
    def _map(name: str, fd: int, size: int, *, write: bool) -> mmap.mmap:
        protection = mmap.PROT_READ | (mmap.PROT_WRITE if write else 0)
        try:
            return mmap.mmap(fd, size, mmap.MAP_SHARED, protection)
        except (OSError, ValueError) as error:
            mode = "read and written" if write else "read"
            raise InvalidArgument(f"{name}: descriptor {fd} cannot be mapped to be {mode} ({error})") from None

    def clear(self) -> None:
        """Let go of every mapping; arrays that still use one keep it alive."""
        self._maps.clear()


def sync(fds: list[int], *, write: bool, end: bool) -> None:
    """Tell the exporters of dma-bufs that the CPU starts or ends its access; other files need no such thing."""
    flags = (_WRITE if write else _READ) | (_END if end else 0)
    for fd in fds:
        try:
            fcntl.ioctl(fd, _SYNC, flags.to_bytes(8, "little"))
        except OSError:
            # Not a dma-buf, and so coherent.
            continue
