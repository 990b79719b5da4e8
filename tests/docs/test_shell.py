"""The shell snippets of README and docs/ run as they stand, among files of the names that pages take for granted.

The ```sh blocks of one page share a folder, and run in order. A block after a line `<!-- not run: reason -->` is left out. What
pages call a model, photographs or a film is small here, and made once.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from page_blocks import PAGES, ROOT, snippets

import triune
from triune import _native
from triune.models import DIGITS_F32, digits_held_out

onnx_parser = pytest.importorskip("onnx.parser")
pytest.importorskip("onnxruntime")
Image = pytest.importorskip("PIL.Image")
cv2 = pytest.importorskip("cv2")
pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

SHELL = [page for page in PAGES if any(block.run for block in snippets(page.read_text(), "sh"))]

# `triune` as it is installed, but that measurements are short, and a server takes any port and ends when it has said where
# it listens.
PROGRAM = f"""#!{sys.executable}
import os, signal, subprocess, sys
command = [sys.executable, "-m", "triune", *sys.argv[1:]]
if sys.argv[1] in ("bench", "axrun"):
    command += ["--seconds", "0.1"]
if sys.argv[1] != "serve":
    os.execv(sys.executable, command)
server = subprocess.Popen([*command, "--bind", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
told = server.stdout.readline()
server.send_signal(signal.SIGINT)
server.wait(30)
print(told)
sys.exit("127.0.0.1" not in told)
"""

CLASSIFIER = """<ir_version: 8, opset_import: ["" : 17]> g (float[n, 3, 224, 224] data) => (float[n, 5] scores) {
    a = Conv <strides = [16, 16]> (data, w1, b1)
    b = Relu (a)
    c = Conv <strides = [2, 2]> (b, w2, b2)
    d = GlobalAveragePool (c)
    e = Flatten (d)
    scores = Gemm <transB = 1> (e, w3)
}"""

# Boxes as YOLOv5 gives them, of 4 cells: middle and extent in pixels, objectness, five classes.
DETECTOR = """<ir_version: 8, opset_import: ["" : 17]> g (float[1, 3, 224, 224] data) => (float[1, 196, 10] output) {
    a = Conv <strides = [16, 16]> (data, w1, b1)
    b = Relu (a)
    c = Conv (b, w4)
    d = Sigmoid (c)
    e = Mul (d, most)
    f = Reshape (e, rows)
    output = Transpose <perm = [0, 2, 1]> (f)
}"""

TOML = """
[parse]
net_name = "yolov5s"
framework = "Onnx"
inputs = [ 1, 8, 8, 1]
inputs_layout = "NHWC"
pre_method = "resize"
pre_scale = [ 255.0]
pre_mean = [ 0.0]
channel_swap = "nop"
network = "./digits.onnx"
jr_path = "./json&raw/"
[optimize]
jr_path = "./json&raw/"
json = "./json&raw/yolov5s_parsed.json"
raw = "./json&raw/yolov5s_parsed.raw"
target = "zhuge"
[quantize]
forward_mode = "image"
saturation = "kld"
forward_dir = "./scans"
forward_list = "./list.txt"
bits = 8
json = "./json&raw/yolov5s_optimized.json"
raw = "./json&raw/yolov5s_optimized.raw"
jr_path = "./json&raw/"
per = "tensor"
[adapt]
json = "./json&raw/yolov5s_quantized.json"
raw = "./json&raw/yolov5s_quantized.raw"
jr_path = "./json&raw/"
[generate]
json = "./json&raw/yolov5s_adapted.json"
raw = "./json&raw/yolov5s_adapted.raw"
jr_path = "./json&raw/"
log_path = "./logs/"
[run]
json = "./json&raw/yolov5s_ZG.json"
raw = "./json&raw/yolov5s_ZG.raw"
log_path = "./logs/"
input = "./scans/0.png"
backends = "ZG330,axi://zg330aiu;Host"
"""


def written(text: str, path: Path) -> None:
    """Write a network with weights drawn at random."""
    from onnx import numpy_helper

    model = onnx_parser.parse_model(text)
    random = np.random.default_rng(7)
    shapes = {"w1": (8, 3, 16, 16), "b1": (8,), "w2": (16, 8, 3, 3), "b2": (16,), "w3": (5, 16), "w4": (10, 8, 1, 1)}
    weights = {name: random.normal(0, 0.05, shape).astype(np.float32) for name, shape in shapes.items()}
    weights["most"] = np.array([224, 224, 100, 100, 1, 1, 1, 1, 1, 1], np.float32).reshape(1, 10, 1, 1)
    weights["rows"] = np.array([1, 10, 196], np.int64)
    read = {name for node in model.graph.node for name in node.input}
    model.graph.initializer.extend(numpy_helper.from_array(weights[name], name) for name in weights if name in read)
    path.write_bytes(model.SerializeToString())


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with everything that pages name. Do not write into it."""
    made = tmp_path_factory.mktemp("stage")
    random = np.random.default_rng(1)
    pictures = [random.integers(0, 256, (60, 80, 3), np.uint8) for _ in range(3)]
    for name in ("photographs", "photos", "images"):
        (made / name / "more").mkdir(parents=True)
        for index, pixels in enumerate(pictures):
            Image.fromarray(pixels).save(made / name / ("more" if index == 2 else "") / f"{index}.jpg")
    for name in ("image.png", "picture.png", "one.jpg"):
        Image.fromarray(pictures[0]).save(made / name)
    frames = [Image.fromarray(pixels) for pixels in pictures]
    frames[0].save(made / "film.gif", save_all=True, append_images=frames[1:])
    for name in ("street.mp4", "clip.mp4"):
        video = cv2.VideoWriter(str(made / name), cv2.VideoWriter.fourcc(*"mp4v"), 10, (80, 60))
        for pixels in pictures:
            video.write(pixels)
        video.release()
    contents = [file.read_bytes() for file in sorted((made / "photos").rglob("*.jpg"))]
    parquet.write_table(pyarrow.table({"scan": contents}), made / "scans.parquet")
    for name in ("classes.txt", "coco.txt"):
        (made / name).write_text("\n".join(f"class {number}" for number in range(5)))
    samples = random.random((2, 3, 224, 224), np.float32)
    np.savez(made / "samples.npz", data=samples)
    np.save(made / "image.npy", samples[:1])
    each = [{"data": sample[None]} for sample in samples]
    for text, name in ((CLASSIFIER, "float"), (DETECTOR, "detector")):
        written(text, made / f"{name}.onnx")
        triune.quantize(made / f"{name}.onnx", calibration=each, output=made / f"{name}_int8.onnx")
    for name in ("model", "int8", "mobilenet", "yolox"):
        shutil.copy(made / "float_int8.onnx", made / f"{name}.onnx")
    for name, source in (("model", "float"), ("package", "float"), ("classifier", "float"), ("detector", "detector")):
        triune.compile(made / f"{source}_int8.onnx", target="metis", output=made / name)
    (made / "edge.toml").write_text(_native.device_begin("edge"))
    shutil.copy(DIGITS_F32, made / "digits.onnx")
    (made / "scans").mkdir()
    for index, scan in enumerate(digits_held_out()[0][:4]):
        Image.fromarray((scan[..., 0] * 255).astype(np.uint8)).save(made / "scans" / f"{index}.png")
    (made / "list.txt").write_text("".join(f"{index}.png\n" for index in range(4)))
    (made / "yolov5s.toml").write_text(TOML)
    program = "from axelera.runtime import Context\n\nwith Context() as context:\n    print(context.list_devices())\n"
    (made / "program.py").write_text(program)
    (made / "module.py").write_text(program)
    (made / "test_program.py").write_text(
        "import megenginelite\n\ndef test_card(triune_card):\n    assert triune_card\n"
    )
    commands = {"python": "", "pytest": "-m pytest -p no:cacheprovider", "mypy": "-m mypy"}
    (made / "bin").mkdir()
    for name, words in commands.items():
        (made / "bin" / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
    (made / "bin" / "triune").write_text(PROGRAM)
    for file in (made / "bin").iterdir():
        file.chmod(0o755)
    return made


@pytest.mark.parametrize("page", SHELL, ids=lambda page: str(page.relative_to(ROOT)))
def test_shell_snippets_run(page: Path, stage: Path, tmp_path: Path) -> None:
    here = shutil.copytree(stage, tmp_path / "here")
    environment = {
        **os.environ,
        "PATH": f"{here / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT / "python"), os.environ.get("PYTHONPATH")])),
        "TRIUNE_RUNTIME_DIR": str(tmp_path / "run"),
        # What pages check imports the same, and that takes a type checker's time.
        "MYPY_CACHE_DIR": str(stage.with_name("mypy")),
    }
    if page.stem == "megenginelite":
        (here / "program.py").write_text("from megenginelite import LiteConfig\n\nprint(LiteConfig())\n")
    for block in snippets(page.read_text(), "sh"):
        if block.run:
            done = subprocess.run(
                ["bash", "-euxo", "pipefail", "-c", block.code],
                cwd=here,
                env=environment,
                capture_output=True,
                text=True,
                stdin=subprocess.DEVNULL,
            )
            assert done.returncode == 0, f"{page}:{block.line}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"


def test_most_pages_have_commands_that_run() -> None:
    assert {"README.md", "cli.md", "own-device.md", "profiling.md", "serve.md"} <= {page.name for page in SHELL}
