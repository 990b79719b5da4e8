"""`triune report`: one page that needs nothing else, looked at in a real browser where there is one."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import sys
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

import pytest

from triune.cli import main
from triune.profiling import profile
from triune.profiling._model import _digest

pytest.importorskip("plotly", reason="needs the extra 'report'")

CHARTS = ["timeline", "roofline", "memory-map-of-l1", "operators"]

# Looks at the page as drawn, then leaves only what it found.
PROBE = """
<script>
window.addEventListener("load", () => setTimeout(() => {
  const found = {charts: {}, title: document.title};
  const box = element => { const r = element.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom]; };
  for (const chart of document.querySelectorAll(".js-plotly-plot")) {
    const all = selector => [...chart.querySelectorAll(selector)];
    const things = {};
    all(".xtitle, .ytitle, .x2title, .y2title, .legend, .updatemenu-container, .modebar-container, .annotation")
      .forEach((each, at) => things[each.getAttribute("class") + at] = box(each));
    all(".xtick text, .x2tick text, .ytick text, .y2tick text")
      .forEach((each, at) => things["tick " + at + " " + each.textContent] = box(each));
    things.plot = box(chart.querySelector(".nsewdrag"));
    found.charts[chart.id] = {
      things, frame: box(chart), bars: all(".barlayer .point").length, lines: all(".scatterlayer .js-line").length,
      points: all(".scatterlayer .point").length, legend: all(".legendtext").map(each => each.textContent),
      buttons: all(".modebar-btn").map(each => each.dataset.title), links: all("a[href]").map(each => each.href),
      titles: all(".xtitle, .ytitle, .x2title, .y2title").map(each => each.textContent),
    };
  }
  const heads = [...document.querySelectorAll("th")], column = name => heads.findIndex(each => each.textContent === name);
  heads[column("share")].click();
  const cells = name => [...document.querySelectorAll("tbody tr")].map(row => row.cells[column(name)].textContent);
  found.sorted = cells("share").map(parseFloat);
  found.operators = cells("operator");
  found.wide = document.documentElement.scrollWidth > document.documentElement.clientWidth;
  document.head.innerHTML = "";
  document.body.innerHTML = '<pre id="probe"></pre>';
  document.getElementById("probe").textContent = JSON.stringify(found);
}, 2000));
</script>
"""


@pytest.fixture(scope="module")
def page(digits: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the report of the digits network."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    assert main(["report", str(digits), "-o", str(path)]) == 0
    return path.read_text(encoding="utf-8")


def look(browse: Callable[[str, int], tuple[str, list[str]]], page: str, width: int) -> dict[str, Any]:
    """Open a page; it must say nothing on the console."""
    text, console = browse(page.replace("</body>", f"{PROBE}</body>"), width)
    assert console == []
    found: dict[str, Any] = json.loads(text)
    return found


def overlaps(things: dict[str, list[float]]) -> list[tuple[str, str]]:
    """Return which texts lie on others."""

    def apart(a: list[float], b: list[float]) -> bool:
        return a[2] <= b[0] + 1 or b[2] <= a[0] + 1 or a[3] <= b[1] + 1 or b[3] <= a[1] + 1

    names = [name for name, (left, top, right, bottom) in things.items() if right > left and bottom > top]
    return [(a, b) for at, a in enumerate(names) for b in names[:at] if not apart(things[a], things[b])]


def test_says_where_it_is(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(digits / "model.json"), "--clock", "400", "-o", str(tmp_path / "out.html")]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'out.html'}\n"
    assert "400 MHz" in (tmp_path / "out.html").read_text(encoding="utf-8")


def test_the_page_needs_nothing_else(page: str) -> None:
    own = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r"""(src|href)\s*=(?!\s*["']?data:)""", own)
    assert "@import" not in own
    assert "url(" not in own


def test_nothing_leaves_the_page(page: str) -> None:
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    allowed = dict(part.split(" ", 1) for part in policy[1].split("; "))
    assert allowed["default-src"] == "'none'"
    assert not any("http" in sources or "*" in sources for sources in allowed.values())
    configs = re.findall(r"""\{"(?:displaylogo|responsive|showLink)[^{}]*(?:\{[^{}]*\})?[^{}]*\}""", page)
    assert len(configs) == len(CHARTS)
    for config in map(json.loads, configs):
        assert (config["displaylogo"], config["showSendToCloud"]) == (False, False)
        # Nothing is on that is off by default, either.
        assert not any(config.get(name) for name in ("plotlyServerURL", "showLink", "showEditInChartStudio"))
    # Outside of the library: names of formats, which nobody fetches.
    own = re.sub(r"<script>/\*.*?</script>", "", page, count=1, flags=re.DOTALL)
    assert len(own) < len(page) / 2, "the library was taken out"
    assert set(re.findall(r"https?://[^\s\"'<>\\\\]+", own)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/XML/1998/namespace",
    }


def test_the_table_has_every_operator(page: str, digits: Path) -> None:
    for operator in profile(digits).operators:
        assert f'<th scope="row" class=text>{operator.name}</th>' in page
        assert f"<td data-value={operator.macs}>{operator.macs:,}</td>" in page


@pytest.mark.parametrize("width", [1280, 1000])
def test_in_a_browser(browse: Callable[..., Any], page: str, digits: Path, width: int) -> None:
    found = look(browse, page, width)
    profiled = profile(digits)
    charts = found["charts"]
    assert list(charts) == CHARTS
    assert found["title"] == "digits on metis · Triune"
    assert not found["wide"], "no scrolling sideways"
    for name, chart in charts.items():
        assert {"Download plot as a PNG", "Zoom"} <= set(chart["buttons"]), name
        assert not [
            title for title in chart["buttons"] if re.search("share|cloud|send|studio|plotly", title, re.IGNORECASE)
        ]
        assert chart["links"] == [], name
        left, top, right, bottom = chart["things"].pop("plot")
        assert right - left > width / 2, name
        assert bottom - top > 100, name
        assert len(chart["things"]) > 10, name
        assert overlaps(chart["things"]) == [], name
        frame = chart["frame"]
        for thing, (left, top, right, bottom) in chart["things"].items():
            assert left >= frame[0] - 1, (name, thing)
            assert right <= frame[2] + 1, (name, thing)
            assert top >= frame[1] - 1, (name, thing)
            assert bottom <= frame[3] + 1, (name, thing)
    assert charts["timeline"]["titles"] == ["cycles since the launch, 800 per µs", "queue", "port, % of rate"]
    # Every command computes and stores, all load, and there is the launch.
    assert charts["timeline"]["bars"] == 3 * len(profiled.commands) + 1
    assert {"launch", "Conv", "l2 port"} <= set(charts["timeline"]["legend"])
    products = [o for o in profiled.operators if o.macs]
    moved = sum(bool(o.read[m.name] + o.written[m.name]) for o in products for m in profiled.memories)
    assert charts["roofline"]["points"] == moved
    assert charts["roofline"]["lines"] == 3
    assert charts["roofline"]["titles"] == ["MACs per byte moved", "GMACs/s"]
    assert charts["memory-map-of-l1"]["bars"] == len(profiled.feature_maps)
    assert {"live bytes", "lower bound 2.0 KiB", "capacity 3.5 MiB"} <= set(charts["memory-map-of-l1"]["legend"])
    assert charts["memory-map-of-l1"]["titles"] == ["cycles since the launch, 800 per µs", "address in l1"]
    assert charts["operators"]["bars"] == 3 * len(profiled.operators)
    assert charts["operators"]["legend"] == ["compute", "stall", "control"]
    assert found["sorted"] == sorted(found["sorted"], reverse=True)
    assert sorted(found["operators"]) == sorted(o.name for o in profiled.operators)


def test_on_a_telephone(browse: Callable[..., Any], page: str) -> None:
    inner = page.replace("</body>", f"{PROBE}</body>")
    before, behind = "document.body.innerHTML = '<pre id=\"probe\"></pre>';", 'document.getElementById("probe")'
    assert before in inner
    inner = inner.replace(before, before.replace("document", "const outer = parent.document; outer", 1))
    inner = inner.replace(behind, behind.replace("document", "outer"))
    frame = f'<body><iframe style="border:0;width:390px;height:1600px" srcdoc="{escape(inner)}"></iframe></body>'
    text, console = browse(frame, 800)
    assert console == []
    found = json.loads(text)
    assert not found["wide"], "nothing but the table scrolls sideways"
    for name, chart in found["charts"].items():
        left, _, right, _ = chart["things"].pop("plot")
        assert right - left > 150, name
        for thing, (begin, _, end, _) in chart["things"].items():
            if "modebar" not in thing:
                assert begin >= chart["frame"][0] - 1, (name, thing)
                assert end <= chart["frame"][2] + 1, (name, thing)


AUDIT = """
<script>
window.addEventListener("load", () => setTimeout(async () => {
  const audit = await axe.run(document, {resultTypes: ["violations"]});
  const found = {
    broken: audit.violations.map(each => [each.id, each.impact, each.nodes.length, each.nodes[0].html.slice(0, 200)]),
    passed: audit.passes.map(each => each.id), dark: getComputedStyle(document.body.parentElement).backgroundColor,
  };
  document.head.innerHTML = "";
  document.body.innerHTML = '<pre id="probe"></pre>';
  document.getElementById("probe").textContent = JSON.stringify(found);
}, 2000));
</script>
"""


@pytest.fixture(scope="module")
def axe() -> str:
    """Return axe-core, which looks for what keeps people out of pages, or skip."""
    for name in ("axe_playwright_python", "axe_core_python"):
        found = importlib.util.find_spec(name)
        if found is not None and found.origin is not None:
            return (Path(found.origin).parent / "axe.min.js").read_text(encoding="utf-8")
    pytest.skip("no axe-core: axe-playwright-python is not installed")


@pytest.mark.parametrize("dark", [False, True])
def test_accessible(browse: Callable[..., Any], page: str, axe: str, dark: bool) -> None:
    with_axe = page.replace("</body>", f"<script>{axe}</script>{AUDIT}</body>")
    text, console = browse(with_axe, 1440, dark)
    assert console == []
    found = json.loads(text)
    assert found["broken"] == []
    assert {"color-contrast", "landmark-unique", "th-has-data-cells"} <= set(found["passed"])
    red, *_ = map(int, re.findall(r"\d+", found["dark"]))
    assert (red < 80) == dark
    # The audit finds what is wrong.
    worse = with_axe.replace('<html lang="en">', "<html>").replace("<main>", '<main><img src="data:,">')
    broken = {rule for rule, *_ in json.loads(browse(worse, 1440, dark)[0])["broken"]}
    assert {"html-has-lang", "image-alt"} <= broken


def test_the_table_says_how_it_is_sorted(browse: Callable[..., Any], page: str) -> None:
    probe = """<script>
window.addEventListener("load", () => {
  const heads = [...document.querySelectorAll("thead th")], share = heads.find(each => each.textContent === "share");
  const name = heads[0], state = () => heads.map(each => each.getAttribute("aria-sort")), found = [state()];
  for (const each of [share, share, name]) { each.querySelector("button").click(); found.push(state()); }
  document.body.innerHTML = '<pre id="probe"></pre>';
  document.getElementById("probe").textContent = JSON.stringify(found);
});</script>"""
    text, _ = browse(page.replace("</body>", f"{probe}</body>"), 1280)
    before, first, second, third = json.loads(text)
    assert set(before) == {"none"}
    assert [state.index(name) for state, name in ((first, "descending"), (second, "ascending"))] == [3, 3]
    assert third[0] == "ascending"
    assert [len(set(state) - {"none"}) for state in (first, second, third)] == [1, 1, 1]


def test_the_page_says_what_it_is_of(page: str, digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profiled = profile(digits)
    assert len(profiled.digest) == 64
    assert f"<code>{profiled.digest[:16]}</code>" in page
    assert f"{1e6 * 2 / profiled.microseconds:,.0f}<small>on 2 cores" in page
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    profiled.write_report(tmp_path / "out.html")
    assert ", 1970-01-02</footer>" in (tmp_path / "out.html").read_text(encoding="utf-8")
    copy = shutil.copytree(digits, tmp_path / "copy")
    assert profile(copy).digest == profiled.digest
    with (copy / "constants.bin").open("ab") as changed:
        changed.write(b"x")
    assert _digest(copy / "model.json") != profiled.digest


def test_names_are_no_markup(browse: Callable[..., Any], edited: Callable[..., Path], tmp_path: Path) -> None:
    hostile = "</script><script>document.title='owned'</script><b>&amp;"

    def rename(model: dict[str, Any]) -> None:
        for number, operator in enumerate(model["operators"]):
            operator["name"], operator["kind"] = f"{hostile}{number}", hostile

    profile(edited(rename)).write_report(tmp_path / "out.html")
    found = look(browse, (tmp_path / "out.html").read_text(encoding="utf-8"), 1280)
    assert found["title"] == "edited on metis · Triune"
    assert sorted(found["operators"])[0] == f"{hostile}0"
    assert hostile in found["charts"]["timeline"]["legend"]


def test_without_a_memory_plan(browse: Callable[..., Any], edited: Callable[..., Path], tmp_path: Path) -> None:
    profile(edited(lambda model: model.pop("feature_maps"))).write_report(tmp_path / "out.html")
    text = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert "compile the model again" in text
    assert list(look(browse, text, 1280)["charts"]) == CHARTS


def test_the_browser_tells_of_errors(browse: Callable[..., Any]) -> None:
    """What the other tests rely on: a console line for an error, and text that lies on text is found."""
    text, console = browse('<script>throw new Error("planted")</script><pre id="probe">&lt;x&gt;</pre>', 800)
    assert text == "<x>"
    assert len(console) == 1
    assert "planted" in console[0]
    assert overlaps({"a": [0, 0, 10, 10], "b": [5, 5, 15, 15], "c": [20, 0, 30, 10]}) == [("b", "a")]


def test_without_the_extra(
    digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "plotly"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "plotly", None)
    assert main(["report", str(digits), "-o", str(tmp_path / "out.html")]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "pip install 'triune[report]'" in captured.err
    assert not (tmp_path / "out.html").exists()
