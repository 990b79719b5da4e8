"""Results into files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

__all__ = ["write_files"]


def write_files(*writers: tuple[Path | None, Callable[[Path], None]]) -> None:
    """Write the files that have a path. Raises ValueError, before any is written, if two have the same one."""
    asked = [(path, write) for path, write in writers if path]
    seen: set[Path] = set()
    for path, _ in asked:
        if path.resolve() in seen:
            raise ValueError(f"{path}: two results cannot go to one file")
        seen.add(path.resolve())
    for path, write in asked:
        write(path)
