"""The fenced blocks of Markdown pages, for the tests that run them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PAGES", "ROOT", "Snippet", "snippets"]

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("**/*.md"))]
MARKER = re.compile(r"<!-- not run: (?P<reason>.+) -->")


@dataclass(frozen=True)
class Snippet:
    """One fenced block: the line its code starts on (from 1), the code, whether to run it."""

    line: int
    code: str
    run: bool


def snippets(text: str, wanted: str = "python") -> list[Snippet]:
    """Return the blocks of a page in one language, in order. A fence that is never closed is an error."""
    found: list[Snippet] = []
    fence: str | None = None
    body: list[str] = []
    start = 0
    marked = False
    for number, line in enumerate(text.splitlines(), 1):
        if fence is None:
            if opening := re.fullmatch(r"(`{3,})(\S*).*", line):
                fence, language = opening.groups()
                body, start = [], number + 1
            elif line.strip():
                marked = MARKER.fullmatch(line.strip()) is not None
        elif line == fence:
            if language == wanted:
                found.append(Snippet(start, "\n".join(body) + "\n", not marked))
            fence, marked = None, False
        else:
            body.append(line)
    if fence is not None:
        raise ValueError(f"the fence before line {start} is never closed")
    return found
