"""The arguments' reader: argparse, and what was likely meant where a word is unknown.

No library takes its place: what another one adds here is the suggestion, a page of code, and each dependency of the command line
would be one of the package.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn, TextIO

from triune._text import short

__all__ = ["RED", "YELLOW", "Parser", "styled"]

RED, YELLOW = "31", "33"


def styled(text: str, style: str, stream: TextIO) -> str:
    """Return text in a color or weight where `stream` is a terminal that shows it, and NO_COLOR is not set."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not stream.isatty()
    return text if plain else f"\x1b[{style}m{text}\x1b[0m"


class Parser(argparse.ArgumentParser):
    """A parser that suggests, and in which a command knows its own options only."""

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Read the arguments; one that nobody knows is an error of the command that got it."""
        self._given = list(sys.argv[1:] if args is None else args)
        found, extras = super().parse_known_args(args, namespace)
        if extras and self._subparsers is None:
            options = [name for action in self._actions for name in action.option_strings]
            name = extras[0].partition("=")[0]
            self.error(f"unrecognized arguments: {' '.join(extras)}{_meant(name, options)}")
        return found, extras

    def _is_unknown(self, word: str) -> bool:
        """Return whether an argument looks like an option that there is not."""
        name = word.partition("=")[0]
        return (
            name.startswith("--")
            and len(name) > 2
            and not any(each.startswith(name) for each in self._option_string_actions)
        )

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        # Some versions take the mark of the options' end out of an option's own value, and leave a list of nothing.
        if action.option_strings and action.nargs is None and arg_strings == ["--"]:
            value = self._get_value(action, "--")
            self._check_value(action, value)
            return value
        return super()._get_values(action, arg_strings)

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        # As a path, nothing is the folder that one is in, which a variable that is not set never means.
        if action.type is Path and not arg_string:
            raise argparse.ArgumentError(action, "expected a path, got an empty text")
        return super()._get_value(action, arg_string)

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print; what standard output does not take is an error, as all output's is."""
        if message and file is not None and file is sys.stdout:
            file.write(message)
        else:
            super()._print_message(message, file)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            error.message = f"{error.message}{_meant(str(value), map(str, action.choices or ()))}"
            raise

    def error(self, message: str) -> NoReturn:
        """Print how the command is used and what is wrong, and exit with 2."""
        if message.startswith("the following arguments are required") and self._subparsers is None:
            # That is often an option that was misspelled.
            message += "".join(
                f"; unrecognized: {word}{_meant(word.partition('=')[0], self._option_string_actions)}"
                for word in self._given
                if self._is_unknown(word)
            )
        self.print_usage(sys.stderr)
        self.exit(2, f"{self.prog}: {styled('error', RED, sys.stderr)}: {short(message)}\n")


def _meant(word: str, words: Iterable[str]) -> str:
    close = get_close_matches(word, list(words), 1)
    return f"; did you mean {close[0]}?" if close else ""
