"""`triune explore`: designs equal the devices that they stand for, the front is the definition's, the page draws them."""

from __future__ import annotations

import csv
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import triune
from triune import _native
from triune.cli import main
from triune.cli.explore import sweep
from triune.models import DIGITS_INT8
from triune.profiling import Design, Exploration, explore, profile
from triune.profiling._explore import _between, _marked

SWEEP = {"array": ["8x8", "32x32", "64x64"], "ocm": ["512K", "1M"], "ddr": ["6.4G", "12.8G"]}

PROBE = """
<script>
window.addEventListener("load", () => {
  const found = {title: document.title, charts: {}};
  for (const chart of document.querySelectorAll(".chart")) {
    const all = selector => [...chart.querySelectorAll(selector)];
    found.charts[chart.id] = {
      points: all(".dots path").length, lines: all(".line path").length,
      stars: all(".note").filter(each => each.textContent === "★").length,
      legend: all(".legend button").map(each => each.textContent),
      titles: all(".title").map(each => each.textContent),
      ticks: all(".x b").map(each => each.textContent),
      plot: chart.querySelector(".panel").getBoundingClientRect().toJSON(),
    };
  }
  found.rows = document.querySelectorAll("tbody tr").length;
  found.wide = document.documentElement.scrollWidth > document.documentElement.clientWidth;
  document.head.innerHTML = "";
  document.body.innerHTML = '<pre id="probe"></pre>';
  document.getElementById("probe").textContent = JSON.stringify(found);
});
</script>
"""


@pytest.fixture(scope="module")
def found() -> Exploration:
    """Return twelve designs of the ZG330 for the digits network."""
    return explore(DIGITS_INT8, SWEEP, device="zg330")


def test_the_device_itself_is_among_its_designs(tmp_path: Path) -> None:
    package = triune.compile(DIGITS_INT8, target="metis", output=tmp_path / "digits", batch=2)
    alone = profile(package)
    for model, device in ((package, None), (package / "model.json", "metis"), (DIGITS_INT8, "metis")):
        found = explore(model, {"array": ["512x512"], "clock": [400, 800]}, device=device, batch=2)
        assert [design.clock_mhz for design in found.designs] == [400, 800]
        design = found.designs[1]
        assert (design.cycles, design.utilization) == (alone.cycles, alone.utilization)
        assert design.images_per_second == pytest.approx(2e6 / alone.microseconds)
        assert design.bottleneck == alone.bottleneck
        slow = profile(package, clock_mhz=400)
        assert found.designs[0].cycles == slow.cycles


def test_every_combination_is_there(found: Exploration) -> None:
    settings = [tuple(design.settings.values()) for design in found.designs]
    assert len(set(settings)) == len(settings) == 12
    assert settings[:3] == [("8x8", "512K", "6.4G"), ("8x8", "512K", "12.8G"), ("8x8", "1M", "6.4G")]
    for design in found.designs:
        rows, columns = map(int, design.settings["array"].split("x"))
        assert design.peak_macs_per_cycle == 4 * rows * columns
        assert design.on_chip_bytes == (1 << 19 if design.settings["ocm"] == "512K" else 1 << 20)
        assert design.external_bytes_per_second == pytest.approx(float(design.settings["ddr"][:-1]) * 1e9)
    by_ddr = {tuple(d.settings.values()): d.images_per_second for d in found.designs}
    for (array, ocm, ddr), rate in by_ddr.items():
        assert ddr == "12.8G" or by_ddr[array, ocm, "12.8G"] >= rate, "bandwidth never slows down"


COSTS = ("macs", "bytes", "bandwidth", "traffic", "area")


def drawn(rows: list[tuple[int, ...]]) -> list[Design]:
    """Return designs of a rate and four costs each."""
    return [Design({"at": str(at)}, 1, 1, row[0], 0.0, "compute", *row[1:]) for at, row in enumerate(rows)]


@given(
    st.lists(st.tuples(*[st.integers(1, 4)] * 5), min_size=1, max_size=12),
    st.lists(st.sampled_from(COSTS), min_size=1, unique=True),
)
def test_the_front_is_the_definitions(rows: list[tuple[int, ...]], costs: list[str]) -> None:
    designs = drawn(rows)
    for one in _marked(designs, costs, 0):
        better = False
        for other in designs:
            gains = [other.images_per_second - one.images_per_second]
            gains += [one.cost(name) - other.cost(name) for name in costs]
            better |= min(gains) >= 0 and max(gains) > 0
        assert one.pareto == (not better)


@given(st.lists(st.tuples(*[st.integers(90, 110)] * 5), min_size=1, max_size=12))
def test_a_margin_leaves_nothing_out(rows: list[tuple[int, ...]]) -> None:
    """For each design that is left out there is one that costs no more and is nearly as fast, and none of those is needed."""
    costs, margin = ("area", "bandwidth"), 0.05
    marked = list(_marked(drawn(rows), costs, margin))
    front = [design for design in marked if design.pareto]

    def beats(one: Design, other: Design) -> bool:
        cheap = all(one.cost(name) <= other.cost(name) for name in costs)
        return cheap and one.images_per_second >= other.images_per_second * (1 - margin)

    assert all(design.pareto or any(beats(best, design) for best in front) for design in marked)
    for one in front:
        for other in front:
            same = (one.area, one.cost("bandwidth"), one.images_per_second)
            if same != (other.area, other.cost("bandwidth"), other.images_per_second):
                assert not (
                    beats(one, other) and (one.area, one.cost("bandwidth")) < (other.area, other.cost("bandwidth"))
                )


def test_the_front_is_a_choice(found: Exploration) -> None:
    """With each number as a cost of its own nearly all designs are the best at something; an area weighs them."""
    assert 0 < len(found.front) < len(found.designs) / 2
    rates = [design.images_per_second for design in found.front]
    assert rates == sorted(rates, reverse=True)
    fastest = max(design.images_per_second for design in found.designs)
    assert rates[0] >= 0.99 * fastest
    apart = explore(DIGITS_INT8, SWEEP, device="zg330", costs=("macs", "bytes", "bandwidth"), margin=0)
    assert len(apart.front) > len(found.front)
    for design in found.designs:
        byte, mac = design.on_chip_bytes * 8 * 0.346e-6, design.peak_macs_per_cycle * 419e-6
        assert design.area == pytest.approx(byte + mac)
        timeline = _native.Estimate.compile(DIGITS_INT8, target="zg330").timeline(list(design.settings.items()))
        totals = timeline.totals()
        assert design.traffic_bytes == totals["read"][0] + totals["written"][0]
    for costs in ((), ("area", "area"), ("money",)):
        with pytest.raises(ValueError, match="costs: expected some of area"):
            explore(DIGITS_INT8, {"array": ["8x8"]}, costs=costs)
    for margin in (-0.1, 1, float("nan")):
        with pytest.raises(ValueError, match="margin"):
            explore(DIGITS_INT8, {"array": ["8x8"]}, margin=margin)
    assert main(["explore", str(DIGITS_INT8), "--sweep", "l2=8M,16M", "--costs", "money"]) == 1


def test_other_borders_are_compiled_anew(tmp_path: Path) -> None:
    """An image is padded to as many channels as the border says."""
    estimate = _native.Estimate.compile(DIGITS_INT8, target="zg330")

    def bytes_of_input(*changes: tuple[str, str]) -> int:
        segments = estimate.timeline(changes).segments()
        return sum(segment["bytes"] for segment in segments if segment["kind"] == "input")

    few, many = bytes_of_input(("border.image_channels", "4")), bytes_of_input(("border.image_channels", "0"))
    assert few == bytes_of_input() == many * 4 / 32
    assert len(explore(DIGITS_INT8, {"border.image_channels": ["0", "4"]}, device="zg330").designs) == 2
    package = triune.compile(DIGITS_INT8, target="zg330", output=tmp_path / "digits")
    with pytest.raises(RuntimeError, match="ONNX file"):
        explore(package, {"border.channels": ["64"]})


def test_table_and_files(found: Exploration, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--csv", str(tmp_path / "out.csv"), "--json", str(tmp_path / "out.json")]
    together = ",".join(f"{key}={','.join(values)}" for key, values in SWEEP.items())
    assert main(["explore", str(DIGITS_INT8), "--device", "zg330", "--sweep", together, *options]) == 0
    table = capsys.readouterr().out
    assert table == found.table() + "\n"
    lines = table.splitlines()
    for line, design in zip(lines[1:], found.designs, strict=False):
        assert line.endswith("*") == design.pareto
        assert f"{design.images_per_second:,.1f}" in line
        assert design.bottleneck in line
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    told = json.loads((tmp_path / "out.json").read_text())
    for row, entry, design in zip(rows, told["designs"], found.designs, strict=True):
        assert entry["settings"] == design.settings == {key: row[key] for key in SWEEP}
        assert float(row["images_per_second"]) == entry["images_per_second"] == design.images_per_second
        assert (row["pareto"] == "True") == entry["pareto"] == design.pareto


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("array=16x16,32x32,ddr=6.4G", {"array": ["16x16", "32x32"], "ddr": ["6.4G"]}),
        ("queues.buffers=1, 2,4", {"queues.buffers": ["1", " 2", "4"]}),
    ],
)
def test_sweeps_are_read(text: str, values: dict[str, list[str]]) -> None:
    assert sweep([text]) == values


@pytest.mark.parametrize(
    ("around", "between"),
    [
        (("16", "32", "256"), ["64", "128"]),
        (("16x8", "32x16", "128x64"), ["64x32"]),
        (("10", "20", "50"), ["30", "40"]),
        (("1M", "2M", "4M"), []),
        (("1M", "3M", "9M"), []),
        (("0", "2", "6"), ["4"]),
    ],
)
def test_an_ellipsis_goes_on(around: tuple[str, str, str], between: list[str]) -> None:
    assert _between("key", *around) == between


def test_an_ellipsis_alone_is_around_what_the_device_has() -> None:
    found = explore(DIGITS_INT8, {"array": ["…"], "ocm": ["..."]}, device="zg330")
    arrays = list(dict.fromkeys(design.settings["array"] for design in found.designs))
    assert arrays == ["8x8", "16x16", "32x32", "64x64", "128x128"]
    assert len(found.designs) == 25


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sweep", "array"], "KEY=VALUE"),
        (["--sweep", "=1"], "no key"),
        (["--sweep", "array=8x8", "--sweep", "array=9x9"], "given twice"),
        (["--sweep", "array="], "expected values"),
        (["--sweep", "array=8"], "rows and columns"),
        (["--sweep", "colour=1"], "has no key 'colour'; there are array, clock, ddr"),
        (["--sweep", "arrai=8x8"], "has no key 'arrai'; did you mean 'array'?"),
        (["--sweep", "queus.buffers=..."], "has no key 'queus.buffers'; did you mean 'queues.buffers'?"),
        (["--sweep", "memory.okm.ports=2"], "has no key 'memory.okm.ports'; did you mean 'memory.ocm.ports'?"),
        (["--sweep", "memory[1].prts=2"], "did you mean 'memory[1].ports'?"),
        (["--sweep", "name=1"], "name: is no number"),
        (["--sweep", "ocm=1,...,4"], "two values before"),
        (["--sweep", "ocm=1M,3M,...,4M"], "does not lead"),
        (["--sweep", "ocm=1K,3M,...,4M"], "same unit"),
        (["--sweep", "clock=1,2,...,9999,cores=1,2,...,64"], "more than 10,000"),
        (["--sweep", "array=8x8", "--device", "nothing"], "nothing"),
        (["--sweep", "alignment=64", "--device", "host"], "not modelled"),
        (["--sweep", "array=8x8", "--batch", "5"], "batch of 5"),
    ],
)
def test_errors_are_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    device = [] if "--device" in arguments else ["--device", "zg330"]
    assert main(["explore", str(DIGITS_INT8), *device, *arguments]) == 1
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert message in captured.err


def test_packages_stay_on_their_device(digits: Path) -> None:
    with pytest.raises(ValueError, match="compiled for metis"):
        explore(digits, {"clock": [400]}, device="zg330")
    with pytest.raises(ValueError, match="batches of 2"):
        explore(digits, {"clock": [400]}, batch=4)
    with pytest.raises(ValueError, match="at least one key"):
        explore(digits, {})


@pytest.mark.parametrize("width", [1280, 1000])
def test_in_a_browser(browse: Callable[..., Any], found: Exploration, tmp_path: Path, width: int) -> None:
    found.write_report(tmp_path / "out.html")
    page = (tmp_path / "out.html").read_text(encoding="utf-8")
    own = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r"""(src|href)\s*=(?!\s*["']?data:)""", own)
    text, console = browse(page.replace("</body>", f"{PROBE}</body>"), width)
    assert console == []
    seen = json.loads(text)
    assert seen["title"] == "digits_int8 on 12 designs of zg330 · Triune"
    assert not seen["wide"]
    assert seen["rows"] == 12
    assert list(seen["charts"]) == ["throughput", "area", "bandwidth"]
    throughput, *costs = seen["charts"].values()
    assert throughput["points"] == 12
    # A line per setting of the other parameters.
    assert throughput["lines"] == 4
    assert throughput["titles"] == ["images per second", "array"]
    assert throughput["ticks"] == ["8x8", "32x32", "64x64"]
    assert "ocm 512K, ddr 6.4G" in throughput["legend"]
    stars = sum(design.pareto for design in found.designs)
    assert [(cost["points"], cost["stars"]) for cost in costs] == [(12, stars)] * 2
    assert [cost["titles"][-1] for cost in costs] == [
        "a proxy for the area of array and on-chip memories, mm² of 45 nm",
        "bandwidth of the memory outside, GB/s",
    ]
    assert costs[1]["ticks"] == ["6.4", "12.8"]
    for chart in (throughput, *costs):
        assert chart["plot"]["width"] > width / 2
        assert chart["plot"]["height"] > 100


@pytest.mark.parametrize("dark", [False, True])
def test_accessible(audit: Callable[..., Any], found: Exploration, tmp_path: Path, dark: bool) -> None:
    found.write_report(tmp_path / "out.html")
    assert audit((tmp_path / "out.html").read_text(encoding="utf-8"), dark)["broken"] == []


def test_a_chart_for_every_cost(tmp_path: Path) -> None:
    costs = ("macs", "bytes", "bandwidth", "traffic")
    found = explore(DIGITS_INT8, {"array": ["8x8", "32x32"]}, device="zg330", costs=costs)
    found.write_report(tmp_path / "out.html")
    page = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert re.findall(r'class="chart" id="([^"]*)"', page) == ["throughput", *costs]
    assert "MB per image</div>" in page


def test_from_the_command_line(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert main(["explore", str(DIGITS_INT8), "--sweep", "l2=8M,16M", "-o", str(page)]) == 0
    assert ">Throughput</h2>" in page.read_text(encoding="utf-8")


def test_a_hundred_designs_of_a_real_network_take_as_long_as_each(test_data: Path) -> None:
    model = test_data / "models" / "onnx" / "yolox_nano_u8s8_qdq.onnx"

    def seconds(points: dict[str, list[Any]], designs: int) -> float:
        start = time.perf_counter()
        assert len(explore(model, points, device="zg330").designs) == designs
        return time.perf_counter() - start

    one = seconds({"queues.buffers": [1]}, 1)
    hundred = seconds({"array": ["..."], "ocm": ["..."], "queues.buffers": [1, 2, 3, 4]}, 100)
    assert hundred < 200 * one
