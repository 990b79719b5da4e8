"""The command line: ``triune compile``, ``quantize``, ``compare``, ``convert``, ``inspect``, ``run``, ``predict``, ``bench``,
``profile``, ``report``, ``explore``, ``device``, ``devices``, ``serve``, ``compat run``, ``completion``.

Exit codes: 0 done, 1 the work failed (one line on standard error says why), 2 the arguments are wrong, 130 interrupted.
"""

from __future__ import annotations

import os
import sys

# More is imported where an interrupt meanwhile is caught.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

__all__ = ["main"]


COMMANDS = (
    "compile",
    "quantize",
    "compare",
    "convert",
    "inspect",
    "icraft",
    "run",
    "predict",
    "bench",
    "axrun",
    "profile",
    "report",
    "explore",
    "device",
    "devices",
    "serve",
    "compat",
    "completion",
)
"""The commands in the order of the help, each a module of this package."""


def _parser(command: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of all commands, or of one alone: what the others import takes longer than many a command."""
    from importlib import import_module

    from triune import __version__
    from triune._native import OPTIMIZED
    from triune.cli.parser import Parser

    note = "" if OPTIMIZED else " (compiled without optimisation)"
    parser = Parser(prog="triune", description="Run NPU programs without the board.")
    parser.add_argument("--version", action="version", version=f"triune {__version__}{note}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name in (command,) if command in COMMANDS else COMMANDS:
        import_module(f"triune.cli.{name}").add(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code. `arguments` are those behind the program's name."""
    # The decoder in OpenCV writes to standard error what it thinks of damage, in front of the error that says it; only this
    # program's own process may be told not to.
    os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")
    try:
        _write_any_text()
        try:
            given = sys.argv[1:] if arguments is None else arguments
            options = _parser(given[0] if given else None).parse_args(given)
        except SystemExit:
            if sys.stdout is not None:
                sys.stdout.flush()
            raise
        # Nothing of what is printed would be seen, and nobody told.
        if sys.stdout is None:
            raise OSError("standard output is closed")
        code: int = options.command(options)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has seen enough; what is left must not fail at exit.
        _drop_output()
        return 0
    except KeyboardInterrupt:
        return 130
    except (RuntimeError, OSError, ValueError, ImportError, MemoryError) as error:
        from triune.cli.parser import RED, styled

        if _is_interrupt(error):
            return 130
        text = _text(error)
        if type(error) is OSError and error.filename is None and error.strerror and sys.stdout is not None:
            # Errors of files have names, or are the core's.
            text = f"cannot write to standard output: {error.strerror}"
            _drop_output()
        print(f"triune: {styled('error', RED, sys.stderr)}: {text}", file=sys.stderr)
        return 1
    return code


def _write_any_text() -> None:
    """Let streams of another encoding than UTF-8 have escapes for the letters that they lack."""
    for stream in (sys.stdout, sys.stderr):
        # What takes a stream's place, as in tests, may take all text.
        encoding = (getattr(stream, "encoding", None) or "utf-8").lower().replace("-", "")
        if encoding != "utf8" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _is_interrupt(error: BaseException) -> bool:
    """Return whether an interrupt is behind an error: modules in C that are loaded just then say that they cannot be."""
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        if isinstance(found, KeyboardInterrupt):
            return True
        seen.add(id(found))
        found = found.__cause__ or found.__context__
    return False


def _drop_output() -> None:
    """Let nothing that is left to be written fail at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _text(error: Exception) -> str:
    """Return the error in one line; the system's own with the file first."""
    from triune._text import short

    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return short(f"{error.filename}: {error.strerror}")
    if isinstance(error, UnicodeEncodeError):
        return short(f"{error.object!r} has bytes that are no text: choose another name")
    if isinstance(error, MemoryError):
        # Python's own has no text.
        return short(f"out of memory: {error}".rstrip(": "))
    return short(" ".join(str(error).split()))
