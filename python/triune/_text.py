"""Messages as people get them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

__all__ = ["html_table", "nearest", "short", "shortened"]


def short(text: str) -> str:
    """Return a message of less than 2 kB: long words, which are names and paths, and long texts lose their middle."""
    from triune import _native

    return _native.message(text.encode("utf-8", "backslashreplace").decode())


def shortened(arguments: Iterable[object]) -> Iterator[object]:
    """Yield an exception's arguments, of which texts are shortened where a file or a program made them long."""
    return (short(argument) if isinstance(argument, str) else argument for argument in arguments)


def nearest(name: object, names: Iterable[str], has: str) -> str:
    """Return what to say behind an unknown name: which of the `names` was likely meant, and what there `has` to choose from."""
    from difflib import get_close_matches

    known = list(names)
    close = get_close_matches(str(name), known, 1)
    meant = f"; did you mean {close[0]!r}?" if close else ""
    return f"{meant or ';'} {has} {', '.join(known)}"


def html_table(head: Sequence[str], rows: Iterable[Sequence[str]], caption: str) -> str:
    """Return a table for notebooks: all is text, nothing markup."""
    cells = "".join(f'<th scope="col">{escape(text)}</th>' for text in head)
    lines = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{cells}</tr></thead><tbody>{lines}</tbody></table>"
