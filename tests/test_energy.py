"""Energy: counts of the timeline times prices of the device's description, in every form that a profile has."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

import triune
from triune import _native
from triune.models import DIGITS_INT8
from triune.profiling import Energy, Profile, explore, profile
from triune.profiling._energy import scaled


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(triune.compile(DIGITS_INT8, target="metis", output=tmp_path_factory.mktemp("energy") / "digits"))


@pytest.fixture(scope="module")
def found(package: Path) -> Profile:
    return profile(package)


def priced(found: Profile) -> Energy:
    assert found.energy is not None
    return found.energy


def test_parts_add_up(found: Profile) -> None:
    whole = priced(found)
    operators = [operator.energy for operator in found.operators]
    commands = [command.energy for command in found.commands]
    for part in ("macs", "elements", "buffers", "ddr", "l2", "l1"):
        total = whole.parts()[part]
        # Maps of a network without cascades lie in L2.
        assert (total > 0) == (part != "l1"), part
        for rows in (operators, commands):
            assert sum(each.parts()[part] for each in rows if each) == total, part
    assert whole.total == sum(whole.parts().values())
    assert whole.joules == pytest.approx(whole.total * 1e-15)


def test_memories_cost_what_passes_them(found: Profile) -> None:
    read = sum(operator.read["ddr"] + operator.written["ddr"] for operator in found.operators)
    # 1.3 nJ for eight bytes.
    assert priced(found).memories["ddr"] == read * 162_500


def test_the_table_says_joules_watts_and_what_they_go_to(found: Profile) -> None:
    lines = found.table().splitlines()
    at = next(index for index, line in enumerate(lines) if line.startswith("energy "))
    assert lines[at].startswith(f"energy       {scaled(priced(found).total, 'J')} an image on the device, ")
    assert re.search(r", \d+(\.\d+)? [mµ]?W while it runs$", lines[at])
    shares = [part.split() for part in lines[at + 1].split(",")]
    numbers = [float(share.rstrip("%")) for _, share in shares]
    assert numbers == sorted(numbers, reverse=True)
    assert sum(numbers) == pytest.approx(100, abs=0.5)


def test_files_have_it_in_femtojoules(found: Profile, tmp_path: Path) -> None:
    found.write_csv(tmp_path / "a.csv")
    found.write_json(tmp_path / "a.json")
    with (tmp_path / "a.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    whole = priced(found)
    for part, total in whole.parts().items():
        if part != "idle":
            assert sum(int(row[f"{part}_fj"]) for row in rows) == total
    content = json.loads((tmp_path / "a.json").read_text())
    assert content["energy"]["total"] == whole.total
    assert content["operators"][0]["energy"]["macs"] == found.operators[0].energy.macs  # type: ignore[union-attr]


def test_the_page_has_it_in_whole_and_by_operator(found: Profile, tmp_path: Path) -> None:
    found.write_report(tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text()
    assert str(priced(found)) in page
    values = [int(value) for value in re.findall(r"<td data-value=(\d+)>[\d.,]+</td><td class=text>", page)]
    assert values == [each.energy.total for each in found.operators if each.energy]


@pytest.fixture
def own(tmp_path: Path) -> Path:
    file = tmp_path / "mine.toml"
    file.write_text(_native.device_begin("mine"))
    return file


def without_energy(text: str) -> str:
    text, _ = text.split("[energy]")
    return "\n".join(line for line in text.splitlines() if not line.startswith("read_fj_per_byte")) + "\n"


def test_devices_without_prices_have_none(own: Path, tmp_path: Path) -> None:
    own.write_text(without_energy(own.read_text()))
    found = profile(triune.compile(DIGITS_INT8, target=own, output=tmp_path / "digits"))
    assert found.energy is None
    assert all(operator.energy is None for operator in found.operators)
    assert "energy" not in found.table()
    found.write_report(tmp_path / "a.html")
    assert "energy in nJ" not in (tmp_path / "a.html").read_text()
    found.write_csv(tmp_path / "a.csv")
    assert "_fj" not in (tmp_path / "a.csv").read_text()
    with pytest.raises(ValueError, match=r"has no energy; add \[energy\]"):
        explore(DIGITS_INT8, {"array": ["8x8", "16x16"]}, device=own, costs=("energy",))
    assert "energy" not in explore(DIGITS_INT8, {"array": ["8x8", "16x16"]}, device=own).table()


def test_idle_power_is_drawn_from_the_launch_on(own: Path, tmp_path: Path) -> None:
    own.write_text(own.read_text().replace("[energy]", "[energy]\nstatic_mw = 250"))
    found = profile(triune.compile(DIGITS_INT8, target=own, output=tmp_path / "digits"))
    # 250 mW for as long as a run takes.
    assert priced(found).idle == pytest.approx(0.25 * found.microseconds * 1e-6 * 1e15, rel=1e-6)


def test_assumed_sparsity_is_said(own: Path, tmp_path: Path) -> None:
    plain = profile(triune.compile(DIGITS_INT8, target=own, output=tmp_path / "plain"))
    assert plain.assumptions == ()
    own.write_text(own.read_text().replace("[array]", "[array]\nsparsity = [2, 4]\nweight_percent = 80"))
    sparse = profile(triune.compile(DIGITS_INT8, target=own, output=tmp_path / "sparse"))
    assert len(sparse.assumptions) == 2
    table = sparse.table()
    assert "assumed      2 of 4 weights in a row are no zeros, which is not looked at" in table
    assert "assumed      weights take 80 % of their bytes, whatever they are" in table
    assert sparse.cycles < plain.cycles
    assert sparse.macs == plain.macs


def test_constants_that_stream_are_said(tmp_path: Path, package: Path) -> None:
    """A core's share of the memory for constants is a quarter of it; a batch of four has all of it."""
    file = tmp_path / "small.toml"
    text = _native.device_begin("mine", "metis")
    # 40 kB behind what is reserved: a quarter does not hold the 13.7 kB of the digits' network.
    file.write_text(
        text.replace("bytes = 33_554_432", "bytes = 1_285_184").replace("bytes = 33554432", "bytes = 1285184")
    )
    one, four = (
        profile(triune.compile(DIGITS_INT8, target=file, output=tmp_path / f"of{batch}", batch=batch))
        for batch in (1, 4)
    )
    assert one.constants_share == ("l2", 10_000)
    assert (one.segment("constants").memory, four.segment("constants").memory) == ("ddr", "l2")
    assert (
        "they stream: l2 has 9.8 KiB for this program; a larger batch shares one copy between more cores" in one.table()
    )
    assert "they stream" not in four.table() + profile(package).table()


def test_designs_are_weighed_by_energy() -> None:
    designs = explore(DIGITS_INT8, {"array": ["64x64", "256x256"], "l1": ["1M", "4M"]}, costs=("energy",))
    assert designs.has_energy
    assert all(design.joules and design.cost("energy") == design.joules for design in designs.designs)
    assert designs.front
    assert "energy" in designs.table().splitlines()[0]


@pytest.mark.parametrize(
    ("femtojoules", "text"),
    [
        (0, "0 fJ"),
        (999, "999 fJ"),
        (1000, "1.00 pJ"),
        (12_345, "12.3 pJ"),
        (123_456, "123 pJ"),
        (1_000_000, "1.00 nJ"),
        (2_500_000_000, "2.50 µJ"),
        (7 * 10**15, "7.00 J"),
        (7 * 10**18, "7000 J"),
    ],
)
def test_units(femtojoules: int, text: str) -> None:
    assert scaled(femtojoules, "J") == text
