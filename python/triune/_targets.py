"""What a target is: the name of a device, or the path of a device file."""

from __future__ import annotations

import os

from triune.errors import ArgumentError

__all__ = ["runs_on", "target_of"]

_BOARDS = {"metis", "metis-m2"}
"""One chip, whose boards have different memories."""


def target_of(target: str | os.PathLike[str], what: str = "target") -> str:
    """Return a target as the core takes it: a path object is a file, whatever it is called.

    Text is a file if it has a separator or ends in ``.toml``, else a name.

    Raises `ArgumentError` for anything but text and paths of text.
    """
    if isinstance(target, str):
        return target
    try:
        path = os.fspath(target)
    except TypeError:
        path = None
    if not isinstance(path, str):
        raise ArgumentError(
            f"{what}: expected a device's name or the path of a device file, got {type(target).__name__}"
        )
    return path if os.path.dirname(path) or path.endswith(".toml") else os.path.join(os.curdir, path)


def runs_on(target: str, device: str) -> bool:
    """Return whether a package for one device runs on a card with another: where both are boards of one chip, it does."""
    return target == device or {target, device} == _BOARDS
