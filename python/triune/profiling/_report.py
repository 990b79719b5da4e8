"""One HTML page that needs nothing else: totals, pictures, and the table of operators."""

from __future__ import annotations

from collections.abc import Sequence
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
:root { color: #1f2933; background: #f5f7fa; font: 15px/1.5 system-ui, sans-serif; }
body { margin: 0 auto; max-width: 1240px; padding: 24px 20px 48px; }
h1 { font-size: 26px; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 19px; margin: 0 0 4px; }
p { margin: 0 0 8px; color: #52606d; max-width: 100ch; }
section { background: #fff; border: 1px solid #e4e7eb; border-radius: 8px; margin-top: 20px; padding: 18px 20px; }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(148px, 1fr)); gap: 12px; margin: 20px 0 0; }
dl div { background: #fff; border: 1px solid #e4e7eb; border-radius: 8px; padding: 12px 16px; }
dt { color: #52606d; font-size: 13px; }
dd { margin: 0; font-size: 19px; font-weight: 600; font-variant-numeric: tabular-nums; }
dd small { display: block; color: #52606d; font-size: 13px; font-weight: 400; }
.scroll { overflow: auto; max-height: 640px; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; width: 100%; }
th { background: #fff; border-bottom: 2px solid #cbd2d9; cursor: pointer; padding: 5px 7px; position: sticky;
     text-align: right; top: 0; vertical-align: bottom; }
td { border-bottom: 1px solid #e4e7eb; padding: 3px 7px; text-align: right; white-space: nowrap; }
th.text, td.text { text-align: left; }
tbody tr:hover { background: #f0f4f8; }
footer { color: #7b8794; font-size: 13px; margin-top: 20px; }
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
for (const head of document.querySelectorAll("th")) {
  head.addEventListener("click", () => {
    const body = head.closest("table").tBodies[0], at = head.cellIndex;
    const down = head.dataset.down = head.dataset.down === "1" ? "0" : "1";
    const key = row => row.cells[at].dataset.value ?? row.cells[at].textContent;
    const order = (a, b) => isNaN(key(a)) ? key(a).localeCompare(key(b)) : key(a) - key(b);
    const rows = [...body.rows].sort((a, b) => down === "1" && !isNaN(key(a)) ? order(b, a) : order(a, b));
    body.append(...rows);
  });
}
"""


def write_report(profile: Profile, path: Path) -> None:
    """Write the page. Raises ImportError if plotly is not installed."""
    check_extra()
    from triune.profiling._charts import figures

    title = f"{escape(profile.name)} on {escape(profile.device)}"
    batch = f" A run is {profile.batch} images, each on a core of its own." if profile.batch > 1 else ""
    intro = f"""Modelled cost of one image on one core at {profile.clock_mhz} MHz.{batch} Nothing was run: cycles come from shapes
and the device's description."""
    hint = "Cycles count from the launch; bytes are read + written. Click a heading to sort."
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

    sections = []
    for heading, text, figure in figures:
        name = heading.lower().replace(" ", "-")
        config = LOCAL | {"responsive": True, "toImageButtonOptions": {"filename": f"triune-{name}"}}
        picture = figure.to_html(full_html=False, include_plotlyjs=False, div_id=name, config=config)
        sections.append(f"<section><h2>{heading}</h2><p>{escape(text)}</p>{picture}</section>")
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
<h1>{title}</h1>
<p>{intro}</p>
{cards}
{"".join(sections)}
<section><h2>Table</h2><p>{hint}</p>
<div class="scroll">{table}</div></section>
<footer>Triune {__version__}</footer>
<script>{SORT}</script>
</body>
</html>
"""


def _cards(profile: Profile) -> str:
    constants, plans = profile.segment("constants"), profile.plans
    causes = sorted(profile.causes.items(), key=lambda item: -item[1])[:2]
    most = ", ".join(f"{cause} {cycles / profile.cycles:.0%}" for cause, cycles in causes)
    cards = [
        ("Time", f"{profile.microseconds:,.1f} µs", f"{profile.cycles:,} cycles"),
        ("Goes to", most.partition(", ")[0], most.partition(", ")[2]),
        ("Work", f"{compact(profile.macs)} MACs", f"{compact(profile.macs_per_second)} MACs/s"),
        ("Utilization", f"{profile.utilization:.1%}", f"bound by {profile.bottleneck}"),
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
    head = [
        "operator",
        "kind",
        "bound by",
        "start",
        "end",
        "compute",
        "load",
        "store",
        "stall",
        "of it load",
        "control",
    ]
    head += [f"{name} bytes" for name in memories] + ["MACs", "share", "utilization"]
    text = {0, 1, 2}
    heads = (f"<th{' class=text' if at in text else ''}>{escape(name)}</th>" for at, name in enumerate(head))
    rows = []
    for operator in profile.operators:
        numbers = [operator.start, operator.end, operator.compute, operator.load, operator.store, operator.stall]
        numbers += [
            operator.load_stall,
            operator.control,
            *(operator.read[name] + operator.written[name] for name in memories),
            operator.macs,
        ]
        cells = [
            f"<td class=text>{escape(value)}</td>" for value in (operator.name, operator.kind, operator.bottleneck)
        ]
        cells += [f"<td data-value={number}>{number:,}</td>" for number in numbers]
        cells += [f"<td data-value={part:.6f}>{part:.1%}</td>" for part in (operator.share, operator.utilization)]
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table><thead><tr>{''.join(heads)}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
