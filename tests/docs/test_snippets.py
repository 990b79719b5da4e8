"""The Python snippets of README and docs/ run as they stand.

The ```python blocks of one file share a namespace and a fresh working directory, and run in order, so that later blocks
may use what earlier ones made. A block after a line `<!-- not run: reason -->` is only compiled.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from page_blocks import PAGES, ROOT, Snippet, snippets


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_snippets_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for snippet in snippets(page.read_text()):
        # Padded, so that a traceback names the line of the page.
        code = compile("\n" * (snippet.line - 1) + snippet.code, str(page), "exec")
        if snippet.run:
            exec(code, namespace)


def test_readme_has_a_snippet() -> None:
    assert any(snippet.run for snippet in snippets((ROOT / "README.md").read_text()))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    targets = [target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", prose) if "://" not in target]
    assert [target for target in targets if target and not (page.parent / target).exists()] == []


def test_reader_finds_blocks_and_marker() -> None:
    page = "a\n```python\nx = 1\n```\n<!-- not run: needs a camera -->\n\n```python\ny\n```\n"
    page += "```sh\nls\n```\n```python\nz\n```\n"
    assert snippets(page) == [Snippet(3, "x = 1\n", True), Snippet(8, "y\n", False), Snippet(14, "z\n", True)]


def test_reader_refuses_an_open_fence() -> None:
    with pytest.raises(ValueError, match="line 2 is never closed"):
        snippets("```python\nx\n")


def test_rust_on_the_first_page_is_what_the_crate_tests() -> None:
    blocks = re.findall(r"^```rust\n.*?^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    tested = (ROOT / "crates/triune/README.md").read_text()
    assert [block for block in blocks if block not in tested] == []
