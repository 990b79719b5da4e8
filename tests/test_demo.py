"""`make demo` works, and what it says is true."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPORT = json.loads((Path(__file__).parents[1] / "python" / "triune" / "models" / "digits.json").read_text())


@pytest.fixture(scope="module")
def output() -> str:
    """Return what the demo prints; it ends with 0 only if every output was right."""
    command = [sys.executable, "-W", "error", "-m", "triune.demo"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stderr == ""
    return result.stdout


def test_accuracy_is_that_of_the_model(output: str) -> None:
    found = re.search(r"accuracy +([\d.]+) %: (\d+) of (\d+)", output)
    assert found is not None
    assert int(found[3]) == REPORT["held_out_images"]
    assert int(found[2]) / int(found[3]) == pytest.approx(REPORT["int8_accuracy"], abs=1e-4)


def test_every_output_equals_onnx_runtime(output: str) -> None:
    assert f"bit for bit: {REPORT['held_out_images']} of {REPORT['held_out_images']}\n" in output
    if importlib.util.find_spec("onnxruntime") is not None:
        assert "recorded" not in output


def test_without_onnx_runtime_the_recorded_outputs_are_compared() -> None:
    hidden = "import importlib.util as u; f = u.find_spec; u.find_spec = lambda n, *a: None if n == 'onnxruntime' else f(n, *a)"
    code = f"{hidden}; import triune.demo; raise SystemExit(triune.demo.main())"
    result = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr
    count = REPORT["held_out_images"]
    assert f"{REPORT['onnxruntime']}'s (recorded with the model) bit for bit: {count} of {count}\n" in result.stdout


def test_time_on_the_card_is_plausible(output: str) -> None:
    found = re.search(r"the card +([\d,]+) cycles a run = ([\d.]+) µs", output)
    assert found is not None
    # 0.36 million multiply-accumulates: more than no time, less than a millisecond.
    assert 0 < float(found[2]) < 1000
    assert int(found[1].replace(",", "")) > 100


def test_report_fits_a_terminal(output: str) -> None:
    assert len(output.splitlines()) <= 12
    assert max(map(len, output.splitlines())) <= 100
