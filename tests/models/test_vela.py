"""Ethos-U55 and U65 by the device files of `examples/devices`, beside the reports of Arm's Vela.

`vela_reports.csv` is what Vela said (its first line says which version, and of what memories);
`benches/python/compare_vela.py --layers --write FILE` makes it again. What is compared, and why they differ:
docs/timing-model.md, "Beside Vela".
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from triune.cli import main

pytest.importorskip("onnx")
pytest.importorskip("flatbuffers")

BENCHES = next(
    (parent / "benches" / "python" for parent in Path(__file__).parents if (parent / "benches" / "python").is_dir()),
    None,
)
if BENCHES is None:
    pytest.skip("the benchmarks, whose networks these tests use, are not here", allow_module_level=True)
sys.path.insert(0, str(BENCHES))
try:
    vela_networks, vela_models, vela_reports, compare_vela = map(
        importlib.import_module, ("vela_networks", "vela_models", "vela_reports", "compare_vela")
    )
finally:
    sys.path.remove(str(BENCHES))

WHOLE = vela_networks.whole_networks()
SINGLE = list(vela_networks.single_layers())

BOUNDS = {
    "ethos-u55-128": (0.14, 0.12, 0.08, 0.09),
    "ethos-u55-256": (0.21, 0.16, 0.14, 0.07),
    "ethos-u65-256": (0.18, 0.14, 0.19, 0.21),
    "ethos-u65-512": (0.21, 0.15, 0.23, 0.25),
}
"""How far cycles are apart, the array's and then all: by the median layer, and by the mean of the networks' sums."""

INNER = {"ethos-u65-256": 0.16, "ethos-u65-512": 0.15}
"""The mean of the networks' sums without their first layers, whose inputs Vela reads from DRAM a burst for each pixel."""


@pytest.fixture(scope="module")
def reports() -> dict[Any, Any]:
    """Return what Vela said."""
    found: dict[Any, Any] = vela_reports.read(Path(__file__).with_name("vela_reports.csv"))
    return found


@pytest.fixture(scope="module", params=sorted(BOUNDS))
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def found(device: str, reports: dict[Any, Any]) -> dict[str, list[Any]]:
    """Return the comparison of each network."""
    return {network.name: compare_vela.rows(device, network, reports) for network in WHOLE + SINGLE}


def test_a_device_file_per_bound() -> None:
    assert set(compare_vela.DEVICES) == set(BOUNDS)


def test_conformance(device: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["device", "check", str(compare_vela.DEVICES[device]), "--conformance"]) == 0
    assert "FAILED" not in capsys.readouterr().out


def test_every_figure_has_its_source(device: str) -> None:
    lines = compare_vela.DEVICES[device].read_text().splitlines()
    figures = [line for line in lines if " = " in line and not line.startswith(("#", "name", "description"))]
    assert len(figures) > 25
    assert [line for line in figures if not any(word in line for word in ("ARM", "INI", "VELA", "inferred"))] == []


def test_both_compile_the_same_networks(found: dict[str, list[Any]]) -> None:
    """Multiply-accumulates are equal, layer by layer, but for what Vela counts and Triune does not: windows of pools."""
    counted = 0
    for rows in found.values():
        for row in rows:
            if row.layers[0].startswith(("conv", "depthwise", "dense")):
                assert row.ours.macs == row.theirs.macs, (row.network, row.layers)
                counted += 1
    assert counted > 250


def test_every_layer_is_compared(device: str, found: dict[str, list[Any]], reports: dict[Any, Any]) -> None:
    compared = {(row.network, layer) for rows in found.values() for row in rows for layer in row.layers}
    assert compared == {(network.name, layer.name) for network in WHOLE + SINGLE for layer in network.layers}
    assert {key[1:] for key in reports if key[0] == device} <= compared


def test_errors_stay_within_their_bounds(device: str, found: dict[str, list[Any]]) -> None:
    whole = [found[network.name] for network in WHOLE]
    reached = []
    for kind in ("array", "time"):
        every = [getattr(row, kind) for rows in found.values() for row in rows]
        reached += [compare_vela.errors(every).median, compare_vela.mean_total(whole, kind)]
    assert all(error <= bound for error, bound in zip(reached, BOUNDS[device], strict=True)), reached
    assert all(error > bound - 0.05 for error, bound in zip(reached, BOUNDS[device], strict=True)), (
        f"better than the bounds by more than 5 %: state it here and in docs/timing-model.md, {reached}"
    )


@pytest.mark.parametrize("device", sorted(INNER), scope="module")
def test_first_layers_are_most_of_the_difference(device: str, found: dict[str, list[Any]]) -> None:
    inner = compare_vela.mean_total([found[network.name][1:] for network in WHOLE], "time")
    assert inner <= INNER[device]


def test_order_of_layers(found: dict[str, list[Any]]) -> None:
    """Which layers are slow is what a profile is read for."""
    every = [row.time for rows in found.values() for row in rows]
    assert compare_vela.errors(every).rank > 0.9


def test_ranks() -> None:
    assert compare_vela.rank_correlation([(1, 10), (2, 20), (3, 25)]) == pytest.approx(1)
    assert compare_vela.rank_correlation([(1, 3), (2, 2), (3, 1)]) == pytest.approx(-1)
    # Equal values share a rank: 1.5, 1.5, 3 against 1, 2, 3.
    assert compare_vela.rank_correlation([(1, 1), (1, 2), (5, 3)]) == pytest.approx(0.8660254)


def test_a_table_is_what_was_written(tmp_path: Path, reports: dict[Any, Any]) -> None:
    vela_reports.write(tmp_path / "again.csv", reports, "5.2.0")
    assert (tmp_path / "again.csv").read_text() == Path(__file__).with_name("vela_reports.csv").read_text()


def test_vela_is_absent(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["compare_vela.py", "--vela", "/nowhere/vela"])
    assert compare_vela.main() == 2
    assert "pip install ethos-u-vela" in capsys.readouterr().err
