"""Results into files."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from triune._files import scratch

__all__ = ["write_files"]


def write_files(*writers: tuple[Path | None, Callable[[Path], None]]) -> TextIO:
    """Write the files that have a path, - for standard output. Raises ValueError before any is written if two have the same.

    Returns where what is for people goes: standard output, or where that is taken, standard error.
    """
    asked = [(path, write) for path, write in writers if path]
    seen: set[Path] = set()
    for path, _ in asked:
        if path.resolve() in seen:
            raise ValueError(f"{path}: two results cannot go to one file")
        seen.add(path.resolve())
    for path, write in asked:
        if str(path) == "-":
            _write_output(write)
        else:
            write(path)
    return sys.stderr if any(str(path) == "-" for path, _ in asked) else sys.stdout


def _write_output(write: Callable[[Path], None]) -> None:
    if sys.platform != "win32":
        # A device is written directly, not beside and in its place.
        write(Path("/dev/stdout"))
        return
    with scratch() as folder:
        write(folder / "output")
        sys.stdout.buffer.write((folder / "output").read_bytes())
