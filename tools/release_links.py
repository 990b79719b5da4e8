"""What a registry shows of README.md and pyproject.toml, with addresses: a release's page has no folder around it.

The release's workflow calls it before it builds, as only the forge knows where the repository is and under which tag:
`python tools/release_links.py https://forge.example/owner/triune v0.2.0`.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_LINK = re.compile(r"\]\((?![a-z]+:|#)(?P<target>[^)\s]+)\)")
_BEFORE = "[project.optional-dependencies]\n"


def absolute(text: str, repository: str, tag: str) -> str:
    """Return a page with links to where its files are in a repository at a tag."""
    return _LINK.sub(lambda match: f"]({repository}/blob/{tag}/{match['target']})", text)


def with_urls(project: str, repository: str, tag: str) -> str:
    """Return a project's description with the addresses that a registry lists. Raises ValueError if it has some."""
    if "[project.urls]" in project or project.count(_BEFORE) != 1:
        raise ValueError("pyproject.toml: expected no [project.urls], and [project.optional-dependencies] once")
    urls = {
        "Repository": repository,
        "Documentation": f"{repository}/blob/{tag}/docs/index.md",
        "Changelog": f"{repository}/blob/{tag}/CHANGELOG.md",
    }
    table = "".join(f'{name} = "{url}"\n' for name, url in urls.items())
    return project.replace(_BEFORE, f"[project.urls]\n{table}\n{_BEFORE}")


def main(root: Path, repository: str, tag: str) -> None:
    """Rewrite the two files of a checkout."""
    for name, change in (("README.md", absolute), ("pyproject.toml", with_urls)):
        path = root / name
        path.write_text(change(path.read_text("utf-8"), repository, tag), "utf-8", newline="\n")


if __name__ == "__main__":
    main(ROOT, *sys.argv[1:])
