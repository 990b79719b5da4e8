"""Forked processes: a child has the thread that forked and no other, and every lock as it was.

The core's locks stand a fork, and `_native.Turn` is one for front ends. Here is what they need besides: tables that are never
found half changed, and word of a fork for those who have threads of their own.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol

__all__ = ["keep_free", "watch"]


class _Watched(Protocol):
    def _forked(self) -> None:
        """Called in the child, before anything else there."""


class _Lock(Protocol):
    def acquire(self) -> bool: ...

    def release(self) -> None: ...


_WATCHED: weakref.WeakValueDictionary[int, _Watched] = weakref.WeakValueDictionary()


def watch(watched: _Watched) -> None:
    """Call `_forked` of an object in every child that has it. The object may go at any time."""
    _WATCHED[id(watched)] = watched


def keep_free(lock: _Lock) -> None:
    """Let no fork happen while another thread holds a lock, one that a thread may take twice and that is never held for long."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_child=lock.release, after_in_parent=lock.release)


def _after() -> None:
    for watched in list(_WATCHED.values()):
        watched._forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after)
