"""What the site adds to docs/: the pages of the root, with links that fit where they stand there.

mkdocs calls it (`hooks` in mkdocs.yml).
"""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("ARCHITECTURE.md", "BENCHMARKS.md", "CHANGELOG.md", "CONTRIBUTING.md")
_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]*)\]\((?P<target>[^)#\s]+)(?P<anchor>#[^)]*)?\)")


def moved(text: str) -> str:
    """Return a page of the root with links as from docs/; what the site does not have becomes plain text."""

    def link(match: re.Match[str]) -> str:
        target, anchor = match["target"], match["anchor"] or ""
        if re.match(r"[a-z]+:", target):
            return match[0]
        if target in PAGES:
            return f"[{match['text']}]({target}{anchor})"
        if target.startswith("docs/") and target.endswith(".md"):
            return f"[{match['text']}]({target.removeprefix('docs/')}{anchor})"
        return match["text"]

    return _LINK.sub(link, text)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages."""
    for name in PAGES:
        files.append(File.generated(config, name, content=moved((ROOT / name).read_text())))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Links out of docs/ to a page of the root lead to its place on the site."""
    for name in PAGES:
        markdown = markdown.replace(f"](../{name}", f"]({name}")
    return markdown
