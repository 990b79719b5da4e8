"""`triune compare --html`: the page draws every tensor, and keeps nobody out."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import triune
from triune.cli import main
from triune.models import DIGITS_F32, DIGITS_INT8, digits_held_out

pytest.importorskip("onnx", reason="needs the extra 'onnx'")

PROBE = """
<script>
window.addEventListener("load", () => {
  const chart = document.getElementById("tensors"), panel = chart.querySelector(".panel"), tip = document.querySelector(".tip");
  panel.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight", bubbles: true}));
  const found = {
    dots: chart.querySelectorAll(".dots path").length,
    titles: [...chart.querySelectorAll(".title")].map(each => each.textContent),
    first: tip.textContent, legend: [...chart.querySelectorAll(".legend button")].map(each => each.textContent),
    wide: document.documentElement.scrollWidth > document.documentElement.clientWidth,
  };
  document.body.innerHTML = '<pre id="probe"></pre>';
  document.getElementById("probe").textContent = JSON.stringify(found);
});
</script>
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the comparison of the digits networks."""
    folder = tmp_path_factory.mktemp("compare")
    np.save(folder / "scans.npy", digits_held_out()[0][:8].transpose(0, 3, 1, 2).astype(np.float32))
    command = ["compare", str(DIGITS_F32), str(DIGITS_INT8), "--inputs", str(folder / "scans.npy")]
    assert main([*command, "--html", str(folder / "out.html")]) == 0
    return (folder / "out.html").read_text(encoding="utf-8")


def test_in_a_browser(browse: Callable[..., Any], page: str) -> None:
    scans = digits_held_out()[0][:8].transpose(0, 3, 1, 2).astype(np.float32)
    samples = [{"image": scan[None]} for scan in scans]
    (difference,) = triune.compare(DIGITS_F32, DIGITS_INT8, inputs=samples).differences
    text, console = browse(page.replace("</body>", f"{PROBE}</body>"), 1280)
    assert console == []
    found = json.loads(text)
    assert not found["wide"]
    assert found["dots"] == len(difference.layers) > 3
    assert found["titles"] == ["signal to noise in dB", "tensors, the worst first"]
    assert found["legend"] == ["digits_int8.onnx against digits_f32.onnx"]
    worst = min(difference.layers, key=lambda layer: layer.sqnr)
    assert found["first"].startswith(f"{worst.name} ({worst.kind})\n{worst.sqnr:.1f} dB")
    assert f"{worst.name} at {worst.sqnr:.1f} dB" in page


@pytest.mark.parametrize("dark", [False, True])
def test_accessible(audit: Callable[..., Any], page: str, dark: bool) -> None:
    assert audit(page, dark)["broken"] == []
