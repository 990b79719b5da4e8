"""One HTML page that needs nothing else: totals, pictures, and the table of operators."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from triune import __version__
from triune._files import write_text
from triune.profiling._model import Profile
from triune.profiling._table import compact, size

if TYPE_CHECKING:
    import plotly.graph_objects as go

STYLE = """
:root { --ink: #1f2933; --soft: #52606d; --ground: #f5f7fa; --sheet: #fff; --line: #e4e7eb; --strong: #cbd2d9; --hover: #f0f4f8;
        color-scheme: light dark; color: var(--ink); background: var(--ground); font: 15px/1.5 system-ui, sans-serif; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e7eb; --soft: #a9b4c0; --ground: #12181f; --sheet: #1c242d; --line: #35404b;
          --strong: #52606d; --hover: #26303a; }
}
body { margin: 0 auto; max-width: 1240px; padding: 24px 20px 48px; }
h1 { font-size: 26px; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 19px; margin: 0 0 4px; }
p { margin: 0 0 8px; color: var(--soft); max-width: 100ch; overflow-wrap: anywhere; }
section { background: var(--sheet); border: 1px solid var(--line); border-radius: 8px; margin-top: 20px; padding: 18px 20px; }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(148px, 1fr)); gap: 12px; margin: 20px 0 0; }
dl div { background: var(--sheet); border: 1px solid var(--line); border-radius: 8px; padding: 12px 16px; }
dt { color: var(--soft); font-size: 13px; }
dd { margin: 0; font-size: 19px; font-weight: 600; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
dd small { display: block; color: var(--soft); font-size: 13px; font-weight: 400; }
.scroll { overflow: auto; max-height: 640px; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; width: 100%; }
caption { color: var(--soft); padding: 0 0 8px; text-align: left; }
thead th { background: var(--sheet); border-bottom: 2px solid var(--strong); padding: 0; position: sticky;
           text-align: right; top: 0; vertical-align: bottom; }
th button { background: none; border: 0; color: inherit; cursor: pointer; font: inherit; font-weight: 600; padding: 5px 7px;
            text-align: inherit; width: 100%; }
th button:focus-visible, .scroll:focus-visible { outline: 2px solid #2f6fb7; outline-offset: -2px; }
th[aria-sort=ascending] button::after { content: " ▲"; }
th[aria-sort=descending] button::after { content: " ▼"; }
td, tbody th { border-bottom: 1px solid var(--line); padding: 3px 7px; text-align: right; white-space: nowrap; }
tbody th { font-weight: inherit; }
th.text, td.text { text-align: left; }
tbody tr:hover { background: var(--hover); }
footer { color: var(--soft); font-size: 13px; margin-top: 20px; }
@media (max-width: 599px) {
  body { padding: 16px 10px 32px; }
  section { padding: 12px 10px; }
  .modebar-container { display: none; }
}
"""

POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; form-action 'none'"
)
"""What browsers let the page do: run what is in it, and ask nobody for anything."""

LOCAL: dict[str, object] = {
    "displaylogo": False,
    "showSendToCloud": False,
    "plotlyServerURL": "",
}
"""What keeps plotly from offering to send a chart elsewhere: the page is the reader's alone."""

SORT = """
for (const head of document.querySelectorAll("thead th")) {
  head.addEventListener("click", () => {
    const table = head.closest("table"), body = table.tBodies[0], at = head.cellIndex;
    const key = row => row.cells[at].dataset.value ?? row.cells[at].textContent;
    const numbers = [...body.rows].every(row => !isNaN(key(row)));
    const was = head.getAttribute("aria-sort");
    const down = was === "none" ? numbers : was === "ascending";
    for (const each of table.tHead.rows[0].cells) each.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const order = (a, b) => isNaN(key(a)) || isNaN(key(b)) ? key(a).localeCompare(key(b)) : key(a) - key(b);
    body.append(...[...body.rows].sort((a, b) => down ? order(b, a) : order(a, b)));
  });
}
"""

LOOKS = """
const dark = matchMedia("(prefers-color-scheme: dark)"), narrow = matchMedia("(max-width: 599px)");
function paint() {
  const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  for (const chart of document.querySelectorAll(".js-plotly-plot")) {
    const change = {"font.color": css("--ink"), "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)",
                    "modebar.bgcolor": "rgba(0,0,0,0)", "modebar.color": css("--soft"), "modebar.activecolor": css("--ink")};
    for (const axis of Object.keys(chart.layout).filter(name => /^[xy]axis/.test(name))) {
      change[axis + ".gridcolor"] = change[axis + ".tickcolor"] = css("--line");
    }
    if (narrow.matches) Object.assign(change, {"font.size": 10, "margin.l": 8, "margin.r": 8});
    (chart.layout.updatemenus ?? []).forEach((menu, at) => Object.assign(change,
      {[`updatemenus[${at}].font.color`]: "#1f2933", [`updatemenus[${at}].bgcolor`]: "#f5f7fa"}));
    // Lines of the text's color change with it.
    chart.dataset.ink ??= chart.data.flatMap((each, at) => each.line?.color === "INK" ? [at] : []).join();
    Plotly.relayout(chart, change);
    if (chart.dataset.ink) Plotly.restyle(chart, {"line.color": css("--ink")}, chart.dataset.ink.split(",").map(Number));
  }
}
addEventListener("load", paint);
dark.addEventListener("change", paint);
narrow.addEventListener("change", paint);
"""


def head_cells(names: Sequence[str], text: Collection[int]) -> str:
    """Return the cells of a table's head: buttons that sort. Columns in `text` begin left; the names are escaped here."""
    return "".join(
        f'<th scope="col" aria-sort="none"{" class=text" if at in text else ""}>'
        f'<button type="button">{escape(name)}</button></th>'
        for at, name in enumerate(names)
    )


def write_report(profile: Profile, path: Path) -> None:
    """Write the page. Raises ImportError if plotly is not installed."""
    check_extra()
    from triune.profiling._charts import figures

    title = f"{escape(profile.name)} on {escape(profile.device)}"
    batch = f" A run is {profile.batch} images, each on a core of its own." if profile.batch > 1 else ""
    model = f" The model's fingerprint (SHA-256) is <code>{profile.digest[:16]}</code>." if profile.digest else ""
    intro = f"""Modelled cost of one image on one core of {escape(profile.device)} at {profile.clock_mhz} MHz.{batch} Nothing was
run: cycles come from shapes and the device's description.{model} Utilization is how much of the array's peak the
multiply-accumulates come to; what a model is bound by is where most cycles go. Bound by compute at a low utilization means that
products keep the array busy without filling it."""
    hint = "Cycles count from the launch; bytes are read + written. A heading sorts by its column."
    page = compose_page(title, intro, _cards(profile), figures(profile), hint, _table(profile))
    write_text(path, page)


def check_extra() -> None:
    """Raise the ImportError that tells what to install if plotly is not."""
    try:
        import plotly.offline  # noqa: F401
    except ImportError as error:
        raise ImportError(f"the report needs the extra 'report': pip install 'triune[report]' ({error})") from None


def compose_page(
    title: str, intro: str, cards: str, figures: Sequence[tuple[str, str, go.Figure]], hint: str, table: str
) -> str:
    """Return a page that needs nothing else. All but the figures' headings and texts is HTML already."""
    from plotly.offline import get_plotlyjs

    from triune.profiling._charts import INK

    sections = []
    for heading, text, figure in figures:
        name = heading.lower().replace(" ", "-")
        config = LOCAL | {"responsive": True, "toImageButtonOptions": {"filename": f"triune-{name}"}}
        picture = figure.to_html(full_html=False, include_plotlyjs=False, div_id=name, config=config)
        sections.append(
            f'<section aria-labelledby="{name}-head"><h2 id="{name}-head">{heading}</h2><p id="{name}-text">{escape(text)}</p>'
            f'<div role="figure" aria-labelledby="{name}-head" aria-describedby="{name}-text">{picture}</div></section>'
        )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{title} · Triune</title>
<style>{STYLE}</style>
<script>{get_plotlyjs()}</script>
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
</main>
<footer>Triune {__version__}, {_today()}</footer>
<script>{SORT}{LOOKS.replace("INK", INK)}</script>
</body>
</html>
"""


def _today() -> str:
    """Return the day, or that of SOURCE_DATE_EPOCH, for pages that are made again."""
    seconds = os.environ.get("SOURCE_DATE_EPOCH")
    return time.strftime("%Y-%m-%d", time.gmtime(int(seconds) if seconds and seconds.isdigit() else None))


def _cards(profile: Profile) -> str:
    constants, plans = profile.segment("constants"), profile.plans
    causes = sorted(profile.causes.items(), key=lambda item: -item[1])[:2]
    most = ", ".join(f"{cause} {cycles / profile.cycles:.0%}" for cause, cycles in causes)
    cards = [
        ("Time", f"{profile.microseconds:,.1f} µs", f"{profile.cycles:,} cycles"),
        (
            "Images a second",
            f"{1e6 * profile.batch / profile.microseconds:,.0f}" if profile.microseconds else "–",
            f"on {profile.batch} cores, one run after the other"
            if profile.batch > 1
            else "on one core, one after the other",
        ),
        ("Goes to", most.partition(", ")[0], most.partition(", ")[2]),
        ("Work", f"{compact(profile.macs)} MACs", f"{compact(profile.macs_per_second)} MACs/s"),
        ("Utilization", f"{profile.utilization:.1%}", f"of the array's peak; bound by {profile.bottleneck}"),
        (
            "Feature maps",
            " + ".join(size(plan.bytes) for plan in plans),
            "in " + " and ".join(plan.memory for plan in plans),
        ),
        ("Constants", size(constants.bytes), f"in {constants.memory}"),
    ]
    if profile.host_operators:
        host = f"{profile.host_operators} operators, {compact(profile.host_macs or 0)} MACs"
        cards.append(("On the host besides", host, "not in this time"))
    each = (
        f"<div><dt>{name}</dt><dd>{escape(big)}<small>{escape(small)}</small></dd></div>" for name, big, small in cards
    )
    return f"<dl>{''.join(each)}</dl>"


def _table(profile: Profile) -> str:
    memories = [memory.name for memory in profile.memories]
    # What is asked first comes first: a small screen shows the left.
    head = [
        "operator",
        "kind",
        "bound by",
        "share",
        "utilization",
        "compute",
        "stall",
        "of it load",
        "control",
        "load",
        "store",
    ]
    head += [f"{name} bytes" for name in memories] + ["MACs", "start", "end"]
    rows = []
    for operator in profile.operators:
        numbers = [
            operator.compute,
            operator.stall,
            operator.load_stall,
            operator.control,
            operator.load,
            operator.store,
        ]
        numbers += [operator.read[name] + operator.written[name] for name in memories]
        numbers += [operator.macs, operator.start, operator.end]
        cells = [f'<th scope="row" class=text>{escape(operator.name)}</th>']
        cells += [f"<td class=text>{escape(value)}</td>" for value in (operator.kind, operator.bottleneck)]
        cells += [f"<td data-value={part:.6f}>{part:.1%}</td>" for part in (operator.share, operator.utilization)]
        cells += [f"<td data-value={number}>{number:,}</td>" for number in numbers]
        rows.append(f"<tr>{''.join(cells)}</tr>")
    caption = f"<caption>{len(profile.operators)} operators; cycles of one core</caption>"
    heads = head_cells(head, {0, 1, 2})
    return f"<table>{caption}<thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
