"""The programs of `examples/` run as they stand, and the pytest plugin gives each test a card of its own."""

from __future__ import annotations

import csv
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import triune
from triune.models import DIGITS_INT8, digits_held_out

pytest_plugins = ["pytester"]

PROGRAMS = ("classify", "batch", "axelera_card", "icraft_board", "megengine_lite")
WITH_A_DETECTOR = ("detect_video", "icraft_logic")
WITH_RAY = "ray_cluster"
WITH_A_SERVER = "inference_server"


def run(root: Path, here: Path, name: str, *arguments: str) -> str:
    """Run an example in a folder of its own; return what it prints."""
    command = [sys.executable, "-W", "error", str(root / "examples" / f"{name}.py"), *arguments]
    environment = {**os.environ, "TRIUNE_RUNTIME_DIR": str(here / "run")}
    done = subprocess.run(command, capture_output=True, text=True, cwd=here, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(root: Path, tmp_path: Path, name: str) -> None:
    out = run(root, tmp_path, name)
    digits = digits_held_out()[1]
    assert (f"it is a {digits[0]}, and was a {digits[0]}" in out) or (
        name == "batch" and f"of {len(digits)} right" in out
    )


def test_all_programs_are_tested(root: Path) -> None:
    programs = (*PROGRAMS, *WITH_A_DETECTOR, WITH_RAY, WITH_A_SERVER)
    assert sorted(file.stem for file in (root / "examples").glob("*.py")) == sorted(programs)
    page = (root / "examples" / "README.md").read_text()
    assert all(f"({name}.py)" in page for name in programs)


def test_an_inference_server(root: Path, tmp_path: Path) -> None:
    """It is asked over HTTP, as its page says, and answers what a session does."""
    pytest.importorskip("mlserver")
    here = tmp_path / "serving"
    here.mkdir()
    digit = digits_held_out()[1][0]
    environment = {**os.environ, "TRIUNE_THREADS": "1", "MLSERVER_HOST": "127.0.0.1", "MLSERVER_METRICS_PORT": "0"}
    command = [sys.executable, str(root / "examples" / "inference_server.py")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=here, env=environment, check=True)
    assert done.stdout == f"it is a {digit}, and was a {digit}\n"
    for file in (root / "examples" / "inference_server.py", DIGITS_INT8):
        shutil.copy(file, here)
    settings = {"name": "digits", "implementation": "inference_server.Runtime"}
    (here / "model-settings.json").write_text(json.dumps({**settings, "parameters": {"uri": DIGITS_INT8.name}}))
    ports = {f"MLSERVER_{name}_PORT": str(free_port()) for name in ("HTTP", "GRPC", "METRICS")}
    ports["MLSERVER_PARALLEL_WORKERS"] = "0"
    command = [str(Path(sys.executable).with_name("mlserver")), "start", "."]
    server = subprocess.Popen(command, cwd=here, env={**environment, **ports})
    place = f"http://127.0.0.1:{ports['MLSERVER_HTTP_PORT']}/v2/models/digits"
    try:
        found = ask(place, wait=60)
        assert found["inputs"] == [{"name": "image", "datatype": "FP32", "shape": [-1, 1, 8, 8]}]
        image = digits_held_out()[0][:2].transpose(0, 3, 1, 2)
        given = {"name": "image", "datatype": "FP32", "shape": list(image.shape), "data": image.ravel().tolist()}
        (output,) = ask(f"{place}/infer", {"inputs": [given]})["outputs"]
        (expected,) = triune.Session(DIGITS_INT8).run(None, {"image": image})
        assert (output["name"], output["shape"]) == ("logits", [2, 10])
        assert output["data"] == expected.ravel().tolist()
        with pytest.raises(urllib.error.HTTPError) as refused:
            ask(f"{place}/infer", {"inputs": [{**given, "name": "picture"}]})
        assert (refused.value.code, "unknown input 'picture'" in refused.value.read().decode()) == (400, True)
    finally:
        server.terminate()
        server.wait(30)


def free_port() -> int:
    """Return a port that nobody listens at just now."""
    with socket.socket() as at:
        at.bind(("127.0.0.1", 0))
        return int(at.getsockname()[1])


def ask(place: str, request: object = None, wait: float = 0) -> Any:
    """Return what a server answers, which may take that many seconds to begin to listen."""
    data = None if request is None else json.dumps(request).encode()
    asked = urllib.request.Request(place, data, {"Content-Type": "application/json"})
    end = time.monotonic() + wait
    while True:
        try:
            with urllib.request.urlopen(asked, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code != 404 or time.monotonic() > end:
                raise
        except urllib.error.URLError:
            if time.monotonic() > end:
                raise
        time.sleep(0.2)


def test_a_detector_with_logic(root: Path, tmp_path: Path, test_data: Path) -> None:
    pytest.importorskip("PIL.Image")
    onnx = pytest.importorskip("onnx")
    from triune.batch import Preprocess

    assert onnx
    model = test_data / "models" / "onnx" / "yolox_nano_u8s8_qdq.onnx"
    how = Preprocess(scale=1.0, color="bgr")
    options = {"target": "buyi", "format": "icraft", "output": tmp_path, "imagemake": True, "detpost": 0.3}
    triune.compile(model, preprocess=how, **options)
    picture = test_data / "models" / "images" / "yolox_dog.jpg"
    out = run(root, tmp_path, "icraft_logic", "yolox_nano_u8s8_qdq_BY.json", str(picture))
    # The truck, which this network takes for a car.
    assert "class 2, score 0." in out
    assert "customop::ImageMakeNode: 1.470 ms of the logic" in out


def test_a_video(root: Path, tmp_path: Path, test_data: Path) -> None:
    cv2 = pytest.importorskip("cv2")
    picture = cv2.imread(str(test_data / "models" / "images" / "yolox_dog.jpg"))
    height, width = picture.shape[:2]
    video = cv2.VideoWriter(str(tmp_path / "dog.mp4"), cv2.VideoWriter.fourcc(*"mp4v"), 10, (width, height))
    for _ in range(3):
        video.write(picture)
    video.release()
    model = test_data / "models" / "onnx" / "yolox_nano_f32.onnx"
    out = run(root, tmp_path, "detect_video", str(model), "dog.mp4", "found.mp4")
    # A dog, a bicycle and a car, in each picture.
    assert sorted(out.splitlines()) == sorted(f"class {number}: 3 times" for number in (1, 2, 16))
    drawn = cv2.VideoCapture(str(tmp_path / "found.mp4"))
    assert int(drawn.get(cv2.CAP_PROP_FRAME_COUNT)) == 3
    shown = drawn.read()[1].astype(int)
    # A frame round the dog's left side, in green.
    assert shown.shape == picture.shape
    assert (shown[300:500, 128:140, 1] - shown[300:500, 128:140, 2]).max(1).min() > 60


def test_a_cluster(root: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="ray is not installed")
    command = [sys.executable, str(root / "examples" / f"{WITH_RAY}.py")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "537 of 540 right" in done.stdout


def test_programs_on_models_of_ones_own(root: Path, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    (tmp_path / "folder").mkdir()
    for index, scan in enumerate(digits_held_out()[0][:5]):
        # ImageNet's mean and deviation have three channels.
        picture = image.fromarray((scan[..., 0] * 255).astype(np.uint8)).convert("RGB")
        picture.save(tmp_path / "folder" / f"{index}.png")
    onnx_parser = pytest.importorskip("onnx.parser")
    model = onnx_parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[n, 3, 6, 7] x) => (float[n, 126] y) { y = Flatten (x) }'
    )
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    out = run(root, tmp_path, "classify", "model.onnx", "folder/0.png")
    assert out.count("class ") == 5
    assert run(root, tmp_path, "batch", "model.onnx", "folder", "t.csv") == "5 rows, 0 files left out\n"
    assert len(list(csv.DictReader((tmp_path / "t.csv").read_text().splitlines()))) == 5


def run_pytest(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """Run pytest in a process of its own, with the plugin whether or not the installed package names it."""
    return pytester.runpytest_subprocess("-p", "triune.pytest_plugin", "-p", "no:cacheprovider", *arguments)


def test_continuous_integration(root: Path, pytester: pytest.Pytester) -> None:
    pytester.copy_example(str(root / "examples" / "ci" / "test_on_a_card.py"))
    run_pytest(pytester, "--strict-markers").assert_outcomes(passed=2)


def test_each_test_has_a_card_of_its_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from triune.models import DIGITS_INT8

        @pytest.mark.parametrize("turn", range(2))
        def test_alone(triune_card, turn):
            instances = [triune_card.load(DIGITS_INT8) for _ in range(4)]
            (device,) = triune_card.context.list_devices()
            assert device.in_use
            with pytest.raises(Exception, match="sub-device"):
                triune_card.load(DIGITS_INT8)

        def test_batches(triune_card):
            model, instance = triune_card.load(DIGITS_INT8, batch=3)
            assert model.inputs()[0].shape[0] == 3

        def test_cards_are_free_again(triune_card):
            (device,) = triune_card.context.list_devices()
            assert not device.in_use
        """
    )
    run_pytest(pytester).assert_outcomes(passed=4)


def test_vendors_programs_unchanged(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import subprocess, sys
        import megenginelite, xir
        from axelera.runtime import Context

        def test_names(triune_card):
            import triune.axelera.runtime
            assert Context is triune.axelera.runtime.Context
            subprocess.run([sys.executable, "-c", "import xrt, axelera.runtime"], check=True)
        """
    )
    run_pytest(pytester, "--triune-compat").assert_outcomes(passed=1)
    run_pytest(pytester).assert_outcomes(errors=1)


def test_nothing_is_loaded_before_it_is_asked_for() -> None:
    program = (
        "import sys, triune.pytest_plugin; print([m for m in ('numpy', 'triune.axelera.runtime') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"


def test_a_program_of_batches_takes_eight_lines(root: Path) -> None:
    """The how-to says so."""
    page = (root / "docs" / "batch.md").read_text()
    block = page.split("```python\n", 1)[1].split("```", 1)[0]
    assert len([line for line in block.splitlines() if line.strip()]) <= 8
    assert DIGITS_INT8.exists()
