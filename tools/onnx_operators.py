"""Writes the list of ONNX operators that are read into docs/onnx.md; `--check` says whether it is there already."""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

from triune import _native

PAGE = Path(__file__).resolve().parent.parent / "docs" / "onnx.md"
BEGIN, END = "<!-- operators: python tools/onnx_operators.py -->\n", "<!-- end -->\n"


def page() -> str:
    """Return the page with the list as it is now."""
    read: dict[str, set[str]] = defaultdict(set)
    refused: dict[tuple[str, str], list[str]] = defaultdict(list)
    for domain, operator, since, reason in _native.onnx_versions():
        read[domain].add(operator)
        if reason is not None:
            refused[domain, operator].append(f"{since}: {reason}")
    lines = []
    for domain, operators in sorted(read.items()):
        lines.append(f"**{domain or 'ai.onnx'}** ({len(operators)}): ")
        names = []
        for operator in sorted(operators, key=str.lower):
            why = "; ".join(refused[domain, operator])
            names.append(f"{operator} [{why}]" if why else operator)
        lines[-1] += ", ".join(names) + ".\n"
    text = PAGE.read_text(encoding="utf-8")
    head, rest = text.split(BEGIN)
    _, tail = rest.split(END)
    return head + BEGIN + "\n" + "\n".join(lines) + "\n" + END + tail


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        sys.exit(0 if PAGE.read_text(encoding="utf-8") == page() else f"{PAGE.name} is stale: run {sys.argv[0]}")
    PAGE.write_text(page(), encoding="utf-8")
