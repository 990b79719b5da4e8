"""Feature maps that no near memory keeps: what spills is told, and `triune compile --cascades` lets bands run in less time."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import triune
from triune._compile import build
from triune.errors import ArgumentError
from triune.models import DIGITS_INT8
from triune.profiling import profile


def test_bands_are_counted_and_told(root: Path, test_data: Path, tmp_path: Path) -> None:
    model = test_data / "models" / "onnx" / "yolox_nano_u8s8_qdq.onnx"
    # What the device's plan keeps in its buffer is little beside the first maps of 416 by 416.
    target = root / "examples" / "devices" / "ethos-u65-256.toml"
    told: list[str] = []
    found = {}
    for cascades in (False, True):
        package = triune.compile(
            model, target=target, output=tmp_path / str(cascades), cascades=cascades, progress=told.append
        )
        found[cascades] = profile(package)
    whole, bands = found[False], found[True]
    note = [text for text in told if text.startswith("cascades: ")]
    assert note == [f"cascades: {len(bands.commands) - len(whole.commands)} commands more, for bands"]
    assert len(bands.commands) > len(whole.commands)
    assert bands.cycles < whole.cycles
    # One row for each operator all the same, which add up to the whole.
    assert [each.name for each in bands.operators] == [each.name for each in whole.operators]
    assert bands.macs >= whole.macs
    assert sum(bands.causes.values()) == bands.cycles
    written = [
        {memory: sum(each.written[memory] for each in one.operators) for memory in ("dram", "sram")}
        for one in found.values()
    ]
    assert written[1]["dram"] < written[0]["dram"]


def test_none_is_told(tmp_path: Path) -> None:
    told: list[str] = []
    triune.compile(DIGITS_INT8, output=tmp_path / "package", cascades=True, progress=told.append)
    assert "cascades: none saves time" in told


def test_icrafts_documents_have_whole_operators(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="cascades: Icraft's documents have each operator as a whole"):
        triune.compile(DIGITS_INT8, target="zg330", format="icraft", output=tmp_path / "networks", cascades=True)


def test_what_spills_is_told(root: Path, tmp_path: Path) -> None:
    text = (root / "crates" / "triune-device" / "specs" / "metis.toml").read_text()
    # A core's share of L2 holds a feature map or two, and L1 none.
    small, count = re.subn(
        r'(name = "l2"[^\[]*?\nbytes = )[^\n]*', r"\g<1>2048", text.replace('name = "metis"', 'name = "small"')
    )
    assert count == 1
    device = tmp_path / "small.toml"
    device.write_text(re.sub(r"\nreserved = [^\n]*", "", small))
    package = tmp_path / "package"
    build(DIGITS_INT8, device, package, 1, None, None, quiet=True, on_chip_bytes=0)
    found = profile(package)
    assert found.spilled_bytes > 0
    spilled = found.segment("spilled")
    assert (spilled.memory, spilled.bytes) == ("ddr", found.spilled_bytes)
    assert [(plan.kind, plan.memory) for plan in found.plans] == [("scratch", "l2"), ("spilled", "ddr")]
    assert {each.segment for each in found.feature_maps} == {"scratch", "spilled"}
    assert "they spill: l2 has no more room for this program" in found.table()
