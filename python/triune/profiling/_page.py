"""What the pages of a profile, an exploration and a comparison share: one HTML file that needs nothing else, and no library."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Sequence
from html import escape
from pathlib import Path

from triune import __version__
from triune.profiling._marks import Chart, Lines

POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; form-action 'none'"
"""What browsers let the page do: run what is in it, and ask nobody for anything."""

Figure = tuple[str, str, Chart]
"""A chart with its heading and a sentence on how to read it."""


def head_cells(names: Sequence[str], text: Collection[int]) -> str:
    """Return the cells of a table's head: buttons that sort. Columns in `text` begin left; the names are escaped here."""
    return "".join(
        f'<th scope="col" aria-sort="none"{" class=text" if at in text else ""}>'
        f'<button type="button">{escape(name)}</button></th>'
        for at, name in enumerate(names)
    )


def cards(rows: Sequence[tuple[str, str, str]]) -> str:
    """Return what is told first: a name, a value, and a smaller line under it for each; they are escaped here."""
    each = (
        f"<div><dt>{escape(name)}</dt><dd>{escape(big)}<small>{escape(small)}</small></dd></div>"
        for name, big, small in rows
    )
    return f"<dl>{''.join(each)}</dl>"


def compose_page(title: str, intro: str, cards: str, figures: Sequence[Figure], hint: str, table: str) -> str:
    """Return the page. All but the figures is HTML already."""
    sections, lines = [], Lines()
    for heading, text, chart in figures:
        name = heading.lower().replace(" ", "-")
        sections.append(
            f'<section aria-labelledby="{name}-head"><h2 id="{name}-head">{escape(heading)}</h2>'
            f'<p id="{name}-text">{escape(text)}</p>{chart.html(name, heading, lines)}</section>'
        )
    style, script = ((Path(__file__).with_name("page") / f"page.{kind}").read_text("utf-8") for kind in ("css", "js"))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{title} · Triune</title>
<style>{style}</style>
</head>
<body>
<main>
<h1>{title}</h1>
<p>{intro}</p>
{cards}
{"".join(sections)}
<section aria-labelledby="table-head"><h2 id="table-head">Table</h2><p id="table-text">{hint}</p>
<div class="scroll" role="region" tabindex="0" aria-label="Rows of the table" aria-describedby="table-text">{table}</div>
</section>
<div class="tip" role="status"></div>
</main>
<footer>Triune {__version__}, {_today()}</footer>
<script type="application/json" id="lines">{lines.json()}</script>
<script>{script}</script>
</body>
</html>
"""


def _today() -> str:
    """Return the day, or that of SOURCE_DATE_EPOCH, for pages that are made again."""
    seconds = os.environ.get("SOURCE_DATE_EPOCH")
    return time.strftime("%Y-%m-%d", time.gmtime(int(seconds) if seconds and seconds.isdigit() else None))
