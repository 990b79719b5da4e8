"""`triune report`: one page that needs nothing else, looked at in a real browser where there is one."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import triune
from triune.cli import main
from triune.profiling import profile
from triune.profiling._timeline import _digest

CHARTS = ["timeline", "roofline", "memory-map-of-l2", "operators"]

# Looks at the page as drawn, then leaves only what it found.
PROBE = """
<script>
window.addEventListener("load", () => {
  const found = {charts: {}, title: document.title, height: document.documentElement.scrollHeight};
  const box = element => { const r = element.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom]; };
  for (const chart of document.querySelectorAll(".chart")) {
    const all = selector => [...chart.querySelectorAll(selector)];
    const things = {};
    all(".title, .legend li, .tools, .note").forEach((each, at) => things[each.textContent + at] = box(each));
    all(".panel b").filter(each => each.checkVisibility())
      .forEach((each, at) => things["tick " + at + " " + each.textContent] = box(each));
    found.charts[chart.id] = {
      things, frame: box(chart), bars: all(".bars path").length, dots: all(".dots path").length,
      lines: all(".line path").length, steps: all(".steps [data-t]").length,
      legend: all(".legend button").map(each => each.textContent), titles: all(".title").map(each => each.textContent),
      plots: all(".panel").map(box), texts: all("[data-t]").map(said),
      says: all(".panel").map(each => each.ariaLabel),
      notes: all(".note").map(each => each.textContent), levels: all(".level").map(box),
      points: all(".dots path").map(box), rates: all(".steps [data-t]").map(each => [box(each), said(each)]),
      marks: all(".bars path").map(each => [box(each), getComputedStyle(each).fill]),
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
});
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
    assert not re.search(r"https?://|fetch\(|XMLHttpRequest|WebSocket|sendBeacon|\beval\(|innerHTML", page)


def test_the_page_is_small(page: str, test_data: Path, tmp_path: Path) -> None:
    assert len(page.encode()) < 80_000
    model = test_data / "models" / "onnx" / "yolox_nano_u8s8_qdq.onnx"
    package = triune.compile(model, target="zg330", output=tmp_path / "yolox")
    profile(package).write_report(tmp_path / "out.html")
    assert (tmp_path / "out.html").stat().st_size < 400_000


def test_the_table_has_every_operator(page: str, digits: Path) -> None:
    for operator in profile(digits).operators:
        assert f'<th scope="row" class=text>{operator.name}</th>' in page
        assert f"<td data-value={operator.macs}>{operator.macs:,}</td>" in page


@pytest.mark.parametrize("width", [1440, 1000])
def test_in_a_browser(browse: Callable[..., Any], page: str, digits: Path, width: int) -> None:
    found = look(browse, page, width)
    profiled = profile(digits)
    charts = found["charts"]
    assert list(charts) == CHARTS
    assert found["title"] == "digits on metis · Triune"
    assert not found["wide"], "no scrolling sideways"
    for name, chart in charts.items():
        for left, top, right, bottom in chart["plots"]:
            assert right - left > width / 2, name
            assert bottom - top > 100, name
        assert len(chart["things"]) > 10, name
        assert overlaps(chart["things"]) == [], name
        assert outside(chart) == [], name
        assert all(says.endswith(".") for says in chart["says"]), name
        assert all(text and "\n" in text for text in chart["texts"]), name
    assert charts["timeline"]["titles"] == ["queue", "port, % of rate", "cycles since the launch, 800 per µs"]
    # Every command computes and stores, all load, and there is the launch.
    assert charts["timeline"]["bars"] == 3 * len(profiled.commands) + 1
    rates = [step for memory in profiled.memories for step in profiled.bandwidth(memory.name)]
    assert charts["timeline"]["steps"] == sum(read + written > 0 for _, read, written in rates) > 10
    assert {"launch", "Conv", "l2 port"} <= set(charts["timeline"]["legend"])
    products = [o for o in profiled.operators if o.macs]
    moved = sum(bool(o.read[m.name] + o.written[m.name]) for o in products for m in profiled.memories)
    assert charts["roofline"]["dots"] == moved
    # Nothing passes L1: one for each of the other two memories, and the peak.
    assert charts["roofline"]["lines"] == 2
    assert charts["roofline"]["titles"] == ["GMACs/s", "MACs per byte moved"]
    assert charts["memory-map-of-l2"]["bars"] == len(profiled.feature_maps)
    assert {"live bytes", "lower bound 2.0 KiB"} <= set(charts["memory-map-of-l2"]["legend"])
    assert charts["memory-map-of-l2"]["titles"] == ["address in l2", "cycles since the launch, 800 per µs"]
    parts = [getattr(o, cause) for o in profiled.operators for cause in ("compute", "stall", "control")]
    assert charts["operators"]["bars"] == len([part for part in parts if part])
    assert charts["operators"]["legend"] == ["compute", "stall", "control"]
    assert found["sorted"] == sorted(found["sorted"], reverse=True)
    assert sorted(found["operators"]) == sorted(o.name for o in profiled.operators)


def test_bars_are_as_long_as_the_numbers_say(browse: Callable[..., Any], page: str, digits: Path) -> None:
    profiled = profile(digits)
    chart = look(browse, page, 1440)["charts"]["memory-map-of-l2"]
    ((left, top, right, bottom),) = chart["plots"]
    inner, bounds = left + 1, profiled.plans[0].bytes * 1.08
    found = sorted([(a - inner, bottom - 1 - d, c - a, d - b) for (a, b, c, d), _ in chart["marks"]])
    across, up = (right - inner) / profiled.cycles, (bottom - 1 - top) / bounds
    wanted = sorted(
        (each.start * across, each.offset * up, (each.end - each.start) * across, each.bytes * up)
        for each in profiled.feature_maps
    )
    # The edges count, and boxes of elements are whole pixels in places.
    for box, other in zip(found, wanted, strict=True):
        assert box == pytest.approx(other, abs=2.5)


def test_points_lie_where_the_numbers_say(browse: Callable[..., Any], page: str, digits: Path) -> None:
    """Both axes of the roofline are logarithms: ticks say where values lie, and points lie between them."""
    profiled = profile(digits)
    charts = look(browse, page, 1440)["charts"]
    chart = charts["roofline"]
    assert chart["notes"] == ["26.2T MACs/s, the core's peak"]
    ((*_, bottom),) = chart["plots"]
    ticks = {}
    for name, (a, b, c, d) in chart["things"].items():
        if name.startswith("tick"):
            # Below the plot they are of the x axis, and centred on their values.
            under = b > bottom - 1
            ticks[under, float(name.split()[-1])] = (a + c) / 2 if under else (b + d) / 2
    scale = {}
    for under in (True, False):
        (low, at), *_, (high, to) = sorted((value, place) for (axis, value), place in ticks.items() if axis == under)
        scale[under] = (at, (to - at) / np.log10(high / low), low)

    def place(under: bool, value: float) -> float:
        at, each, low = scale[under]
        return float(at + each * np.log10(value / low))

    wanted = sorted(
        (
            place(True, o.macs / (o.read[m.name] + o.written[m.name])),
            place(False, o.macs / o.held * profiled.clock_mhz / 1000),
        )
        for o in profiled.operators
        for m in profiled.memories
        if o.macs and o.read[m.name] + o.written[m.name]
    )
    found = sorted(((a + c) / 2, (b + d) / 2) for a, b, c, d in chart["points"])
    assert np.abs(np.array(found) - wanted).max() < 2
    # A hundred per cent is at its tick, and so is what says it of itself.
    timeline = charts["timeline"]
    ((_, level, _, _),) = timeline["levels"]
    tick = next(box for name, box in timeline["things"].items() if name.endswith(" 100"))
    assert level == pytest.approx((tick[1] + tick[3]) / 2, abs=1.5)
    ground = timeline["plots"][1][3] - 1
    shares = [(box[1], int(said.split()[-5])) for box, said in timeline["rates"]]
    assert max(share for _, share in shares) == 100
    assert any(10 < share < 90 for _, share in shares)
    (l2,) = (memory for memory in profiled.memories if memory.name == "l2")
    rate = max(read + written for _, read, written in profiled.bandwidth("l2"))
    fastest = f"{rate:.1f} bytes per cycle, {rate * profiled.clock_mhz / 1000:.2f} GB/s, {100 * rate / l2.bytes_per_cycle:.0f} %"
    assert any(said.startswith("l2 port\n") and fastest in said for _, said in timeline["rates"])
    most: dict[int, float] = {}
    for at, share in shares:
        most[share] = max(most.get(share, at), at)
    # A step's box begins where the one before it was, if that was higher: the least high one is the step's own, where one comes
    # from below.
    beyond = {share: ground - at - (ground - level) * share / 100 for share, at in most.items()}
    assert min(beyond.values()) > -2.5
    assert sum(abs(each) < 2.5 for each in beyond.values()) > 0.7 * len(beyond)


def outside(chart: dict[str, Any]) -> list[str]:
    """Return which texts are cut off by the chart's frame."""
    left, top, right, bottom = chart["frame"]
    return [
        thing
        for thing, (a, b, c, d) in chart["things"].items()
        if a < left - 1 or c > right + 1 or b < top - 1 or d > bottom + 1
    ]


@pytest.mark.parametrize("dark", [False, True])
def test_a_screenshot_shows_the_bars(browse: Callable[..., Any], photograph: Any, page: str, dark: bool) -> None:
    """Each bar that is wide enough has its colour in the middle, on a ground that is light or dark."""
    found = json.loads(browse(page.replace("</body>", f"{PROBE}</body>"), 1440, dark)[0])
    shot = photograph(page, 1440, found["height"], dark)
    assert shot.shape == (found["height"], 1440, 3)
    assert (shot[:8].mean() < 60) == dark
    seen = set()
    for name, chart in found["charts"].items():
        for (left, top, right, bottom), fill in chart["marks"]:
            # Lines cross the maps.
            if right - left < 6 or bottom - top < 6 or name.startswith("memory"):
                continue
            color = [int(part) for part in re.findall(r"\d+", fill)]
            got = shot[int((top + bottom) / 2), int((left + right) / 2)].astype(int)
            assert np.abs(got - color).max() <= 2, (name, fill, got)
            seen.add((name, fill))
    assert len(seen) >= 5
    # Nothing of it is there when the page's style is not.
    plain = photograph(page.replace("<style>", "<style media=print>"), 1440, found["height"], dark)
    assert (np.abs(plain.astype(int) - shot).max(2) > 20).mean() > 0.05


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
        assert all(right - left > 200 for left, _, right, _ in chart["plots"]), name
        # Little is left free beside it.
        assert chart["frame"][2] - chart["frame"][0] > 340, name
        assert overlaps(chart["things"]) == [], name
        assert outside(chart) == [], name


# What a reader does: points, presses keys and buttons, drags.
USE = """
<script>
window.addEventListener("load", () => {
  const found = {}, chart = document.getElementById("timeline"), [queues, ports] = chart.querySelectorAll(".panel");
  const tip = document.querySelector(".tip");
  const box = (chart = queues) => chart.querySelector("svg").getAttribute("viewBox").split(" ").map(Number);
  const ticks = () => [...ports.querySelectorAll(".x b")].map(each => each.textContent);
  const key = (key, panel = queues) => panel.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true}));
  const point = (type, x, y, panel = queues) => {
    const frame = panel.getBoundingClientRect();
    panel.dispatchEvent(new PointerEvent(type, {clientX: frame.left + x, clientY: frame.top + y, pointerId: 1, bubbles: true}));
  };
  queues.setPointerCapture = () => {};
  queues.focus();
  found.focused = document.activeElement === queues;
  found.home = [box(), ticks()];
  const press = each => { key(each); return tip.textContent; };
  found.keys = ["ArrowRight", "ArrowRight", "ArrowLeft", "End", "ArrowRight", "Home"].map(press);
  key("+");
  found.near = [box(), ticks(), tip.textContent];
  key("End");
  found.panned = [box(), tip.textContent];
  key("0");
  found.back = [box(), ticks()];
  key("Escape");
  found.silent = tip.textContent;
  const bar = queues.querySelector("g[data-name=launch] path").getBoundingClientRect(), frame = queues.getBoundingClientRect();
  point("pointermove", (bar.left + bar.right) / 2 - frame.left, (bar.top + bar.bottom) / 2 - frame.top);
  found.pointed = [tip.textContent, document.querySelectorAll(".on").length, tip.getBoundingClientRect().toJSON()];
  point("pointerleave", 0, 0);
  found.left = tip.textContent;
  point("pointerdown", 100, 20); point("pointermove", 300, 20);
  found.chosen = queues.querySelector(".chosen").style.width;
  point("pointerup", 300, 20);
  found.dragged = [box(), queues.clientWidth, queues.querySelectorAll(".chosen").length];
  queues.dispatchEvent(new MouseEvent("dblclick"));
  found.again = box();
  const [more, less, all] = chart.querySelectorAll("[data-zoom]");
  more.click(); more.click(); found.closer = box(); less.click(); found.wider = box(); all.click(); found.all = box();
  for (let at = 0; at < 40; at++) more.click();
  found.closest = [box(), ticks()];
  for (let at = 0; at < 40; at++) less.click();
  found.widest = box();
  const conv = [...chart.querySelectorAll(".legend button")].find(each => each.textContent === "Conv");
  const shown = () => [...queues.querySelectorAll("g[data-name=Conv] path")].filter(each => each.getClientRects().length).length;
  found.shown = [shown()];
  conv.click(); found.shown.push(shown(), conv.ariaPressed);
  all.click(); found.hidden = [];
  for (let at = 0; at < 8; at++) { key("ArrowRight"); found.hidden.push(tip.textContent); }
  conv.click(); found.shown.push(shown(), conv.ariaPressed);
  const map = document.getElementById("memory-map-of-l2"), views = [...map.querySelectorAll("[data-view]")];
  const labels = () => [...map.querySelectorAll(".y:not([hidden]) b")].map(each => each.textContent);
  found.views = [[labels(), box(map)[3], views.map(each => each.ariaPressed)]];
  views[0].click(); found.views.push([labels(), box(map)[3], views.map(each => each.ariaPressed)]);
  document.head.innerHTML = "";
  document.body.innerHTML = '<pre id="probe"></pre>';
  document.getElementById("probe").textContent = JSON.stringify(found);
});
</script>
"""


def test_charts_answer(browse: Callable[..., Any], page: str, digits: Path) -> None:
    profiled = profile(digits)
    text, console = browse(page.replace("</body>", f"{USE}</body>"), 1280)
    assert console == []
    found = json.loads(text)
    low, _, width, _ = found["home"][0]
    assert found["focused"]
    first, second, again, last, end, begin = found["keys"]
    assert (first, second, begin, end) == (again, second, first, last)
    assert len({first, second, last}) == 3
    assert first == f"launch\n{profiled.launch:,} cycles"
    box, ticks, told = found["near"]
    assert (box[2], told) == (width / 2, first)
    assert ticks != found["home"][1]
    assert all(low <= int(tick.replace(",", "")) <= box[0] + box[2] for tick in ticks)
    box, told = found["panned"]
    assert (box[2], told) == (width / 2, last)
    assert box[0] + box[2] == profiled.cycles
    assert found["back"][0] == found["again"] == found["all"] == found["home"][0]
    assert found["silent"] == found["left"] == ""
    told, marked, place = found["pointed"]
    assert (told, marked) == (first, 1)
    assert place["left"] >= 0
    assert place["width"] > 50
    box, pixels, left = found["dragged"]
    assert left == 0
    assert found["chosen"] == "200px"
    assert box[2] == pytest.approx(width * 200 / pixels, rel=0.02)
    assert box[0] == pytest.approx(low + width * 100 / pixels, rel=0.05)
    assert (found["closer"][2], found["wider"][2]) == (width / 4, width / 2)
    assert found["closest"][0][2] == pytest.approx(profiled.cycles / 5000)
    assert len(set(found["closest"][1])) == len(found["closest"][1]) >= 2
    assert (found["widest"][0], found["widest"][2]) == (0, profiled.cycles)
    all_, none, off, back, on = found["shown"]
    assert (all_, none, off, back, on) == (all_, 0, "false", all_, "true")
    assert all_ > 5
    assert not any("(Conv)" in text for text in found["hidden"])
    (near, low_height, pressed), (far, high_height, other) = found["views"]
    assert "2.0 KiB" in near
    assert any(label.endswith("MiB") for label in far)
    assert high_height / low_height == pytest.approx(profiled.plans[0].capacity / profiled.plans[0].bytes, rel=1e-3)
    assert (pressed, other) == (["false", "true"], ["true", "false"])


@pytest.mark.parametrize("dark", [False, True])
def test_accessible(audit: Callable[..., Any], page: str, dark: bool) -> None:
    found = audit(page, dark)
    assert found["broken"] == []
    assert {"color-contrast", "landmark-unique", "th-has-data-cells", "button-name"} <= set(found["passed"])
    red, *_ = map(int, re.findall(r"\d+", found["dark"]))
    assert (red < 80) == dark
    # The audit finds what is wrong.
    worse = page.replace('<html lang="en">', "<html>").replace("<main>", '<main><img src="data:,">')
    assert {"html-has-lang", "image-alt"} <= {rule for rule, *_ in audit(worse, dark)["broken"]}


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


def test_the_page_says_what_it_leaves_out(digits: Path, tmp_path: Path) -> None:
    def page(**changes: Any) -> str:
        replace(profile(digits), **changes).write_report(tmp_path / "out.html")
        return (tmp_path / "out.html").read_text(encoding="utf-8")

    for text, changes in (
        ("The commands are estimates from shapes", {"estimated": True}),
        ("In a run the device waits for the host 3 times, whose time is no part of this", {"waits": 3}),
        ("the device waits for the host once,", {"waits": 1}),
        (
            "<dt>On the host besides</dt><dd>4 operators<small>70 MACs, not in this time",
            {"host_operators": 4, "host_macs": 70},
        ),
    ):
        assert text in page(**changes)
        assert text not in page()


def test_names_are_no_markup(browse: Callable[..., Any], edited: Callable[..., Path], tmp_path: Path) -> None:
    hostile = "<!--<script></script><script>document.title='owned'</script><b>&amp;"

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
