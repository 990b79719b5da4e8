"""One line that says what long work is at: on a terminal, or on request."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from triune.cli.parser import YELLOW, styled

if TYPE_CHECKING:
    from triune.quantization import QuantizationResult


class Progress:
    """A line on standard error, rewritten on a terminal; elsewhere a line per step, and only if `verbose`."""

    def __init__(self, *, verbose: bool) -> None:
        """Say nothing yet."""
        self._terminal = sys.stderr.isatty()
        self._verbose = verbose
        self._start = time.perf_counter()
        self._width = 0

    def __call__(self, text: str) -> None:
        """Say what comes next."""
        if not (self._terminal or self._verbose):
            return
        line = f"[{time.perf_counter() - self._start:6.1f} s] {text}"
        if self._terminal and not self._verbose:
            print(f"\r{line:<{self._width}}", end="", file=sys.stderr, flush=True)
            self._width = len(line)
        else:
            print(line, file=sys.stderr, flush=True)

    def note(self, text: str) -> None:
        """Say what stays on the screen, to those who watch."""
        if self._terminal or self._verbose:
            self._wipe()
            print(text, file=sys.stderr, flush=True)

    def warn(self, text: str) -> None:
        """Say what everybody has to know."""
        self._wipe()
        print(f"triune: {styled('warning', YELLOW, sys.stderr)}: {text}", file=sys.stderr, flush=True)

    def tell(self, result: QuantizationResult) -> None:
        """Say what quantization left in float, what it spoiled, and what it made noisy, or may have."""
        for note in result.notes:
            self.note(note)
        for warning in (*result.warnings, *result.advice):
            self.warn(warning)

    def _wipe(self) -> None:
        if self._width:
            print(f"\r{'':<{self._width}}\r", end="", file=sys.stderr, flush=True)
            self._width = 0

    def __enter__(self) -> Self:
        """Return the line itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Wipe the line."""
        self._wipe()
