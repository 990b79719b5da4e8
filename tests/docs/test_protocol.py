"""What docs/serve.md says of the protocol is what the sources say: its version, and the numbers of its frames."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "crates/triune-remote/src/protocol/frame.rs"


def test_the_page_has_the_version_and_every_kind_of_frame() -> None:
    page, source = (ROOT / "docs/serve.md").read_text(), SOURCE.read_text()
    (version,) = re.findall(r"const VERSION: u16 = (\d+);", source)
    assert f"Version {version}, over TCP or TLS" in page
    body = source[source.index("pub enum Kind {") :].partition("\n}")[0]
    kinds = re.findall(r"^    (\w+) = (\d+),$", body, re.MULTILINE)
    assert len(kinds) > 20
    table = page[page.index("| kind | number | payload |") :].partition("\n\n")[0]
    assert re.findall(r"^\| (\w+) \| (\d+) \|", table, re.MULTILINE) == kinds
