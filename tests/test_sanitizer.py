"""`TRIUNE_SANITIZE`: real networks are clean, a damaged program is named, and off means off."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import triune
from triune import errors
from triune.axelera.runtime import Context, InternalError
from triune.models import DIGITS_INT8, digits_held_out

VARIABLE = "TRIUNE_SANITIZE"
HOST_MODELS = [
    "mlperftiny_resnet8_int8_qdq",
    "mnist8_f32",
    "mobilenetv2_int8_qdq",
    "squeezenet_f32",
    "squeezenet_u8s8_qdq",
    "yolox_nano_f32",
]


@pytest.fixture(autouse=True)
def own_cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test cards of its own."""
    monkeypatch.setenv("TRIUNE_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Return the model.json of the digits network for a card."""
    return triune.compile(DIGITS_INT8, target="metis", output=tmp_path / "digits") / "model.json"


def damage(package: Path) -> None:
    """Swap the first two commands, so that the first map is read before it is written; mend the digest."""
    model = json.loads(package.read_text())
    entries = [entry for entry in _payloads(model) if entry["file"] == "instructions.bin"]
    assert len(entries) == 1
    path = package.parent / "instructions.bin"
    words = np.frombuffer(path.read_bytes(), np.uint32)
    # A header is the opcode and the command's length in words.
    first = int(words[1])
    second = first + int(words[first + 1])
    path.write_bytes(np.concatenate([words[first:second], words[:first], words[second:]]).tobytes())
    entries[0]["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    package.write_text(json.dumps(model))


def _payloads(node: object) -> list[dict[str, object]]:
    if isinstance(node, dict):
        own = [node] if "sha256" in node else []
        return own + [found for value in node.values() for found in _payloads(value)]
    if isinstance(node, list):
        return [found for value in node for found in _payloads(value)]
    return []


def run(package: Path) -> np.ndarray:
    """Run the package on a card, on one image."""
    with Context() as context:
        model = context.load_model(package)
        instance = context.device_connect().load_model_instance(model)
        inputs, outputs = model.inputs(), model.outputs()
        output = np.zeros(outputs[0].shape, outputs[0].dtype)
        instance.run([np.ones(info.shape, info.dtype) for info in inputs], [output])
        return output


def test_a_damaged_program_is_named(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = run(package)
    damage(package)
    assert (run(package) != good).any(), "without the sanitizer it shows as wrong numbers"
    monkeypatch.setenv(VARIABLE, "1")
    with pytest.raises(InternalError) as raised:
        run(package)
    cause = raised.value.__cause__
    assert cause is None or isinstance(cause, errors.SanitizerError)
    for part in [
        "read of never-written bytes",
        "command 0 (qconv), operand input,",
        "feature maps of the program",
    ]:
        assert part in str(raised.value)


def test_logged_faults_stop_nothing(package: Path, tmp_path: Path) -> None:
    damage(package)
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import test_sanitizer, pathlib; "
    code += f"test_sanitizer.run(pathlib.Path({str(package)!r}))"
    for mode in ["0", "log"]:
        environment = {VARIABLE: mode, "TRIUNE_RUNTIME_DIR": str(tmp_path / "run")}
        result = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True, env=environment
        )
        found = [line for line in result.stderr.splitlines() if "never-written" in line]
        assert bool(found) == (mode == "log"), result.stderr
        assert all(line.startswith("triune sanitizer: device metis") for line in found)


def test_clean_on_cards_and_nothing_left(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = run(package)
    monkeypatch.setenv(VARIABLE, "1")
    assert (run(package) == good).all()


def test_sessions_are_clean(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    image = np.ascontiguousarray(digits_held_out()[0][:2].transpose(0, 3, 1, 2))
    plain = triune.Session(DIGITS_INT8).run({"image": image})
    monkeypatch.setenv(VARIABLE, "report")
    watched = triune.Session(DIGITS_INT8)
    for _ in range(2):
        assert all((a == b).all() for a, b in zip(watched.run({"image": image}), plain, strict=True))
    del watched
    assert capfd.readouterr().err == "", "no fault and no leak"


@pytest.mark.parametrize("name", HOST_MODELS)
def test_real_networks_are_clean(name: str, test_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "1")
    session = triune.Session(test_data / f"models/onnx/{name}.onnx")
    random = np.random.default_rng(0)
    feeds = {}
    for info in session.inputs:
        shape = [extent if isinstance(extent, int) else 1 for extent in info.shape]
        feeds[info.name] = random.standard_normal(shape).astype(info.dtype)
    session.run(feeds)
    session.run(feeds)


def test_unknown_modes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "yes")
    image = np.zeros((1, 1, 8, 8), np.float32)
    with pytest.raises(errors.ArgumentError, match="TRIUNE_SANITIZE=yes is no mode of the sanitizer"):
        triune.Session(DIGITS_INT8).run({"image": image})
