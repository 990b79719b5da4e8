"""Float models: what the samples must be, which models the quantizer takes, and that errors are ours."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import triune
from triune import errors
from triune.cli import main
from triune.models import DIGITS_F32, DIGITS_INT8, digits_held_out

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

SCAN = np.ascontiguousarray(digits_held_out()[0][:1].transpose(0, 3, 1, 2))


@pytest.fixture(autouse=True)
def own_cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test cards of its own."""
    monkeypatch.setenv("TRIUNE_RUNTIME_DIR", str(tmp_path / "run"))


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([], "expected at least one sample, got none"),
        (3, "expected an iterable of samples, got int"),
        (
            {"image": np.zeros((2, 1, 8, 8), np.float32)},
            "expected an iterable of samples, each a dict .*, got one dict",
        ),
        ([SCAN], "sample 1: expected a dict of arrays by input name, got ndarray"),
        (SCAN, "sample 1: expected a dict of arrays by input name, got ndarray"),
        ([{"image": SCAN}, {}], "sample 2: expected the inputs image, got none"),
        ([{"image": SCAN, "x": SCAN}], "sample 1: expected the inputs image, got image, x"),
        ([{"image": [1.0]}], "sample 1: input 'image': expected a numpy array, got list"),
        ([{"image": SCAN.astype(float)}], "sample 1: input 'image': expected dtype float32, got float64"),
        ([{"image": SCAN[0]}], r"input 'image': expected shape \(N, 1, 8, 8\), got \(1, 8, 8\)"),
        ([{"image": SCAN[:0]}], "input 'image': expected no empty axis"),
        ([{"image": SCAN}, {"image": SCAN * np.float32(np.nan)}], "sample 2: input 'image': expected finite values"),
    ],
)
def test_wrong_samples(tmp_path: Path, samples: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^calibration: .*{message}"):
        triune.compile(DIGITS_F32, output=tmp_path / "out", calibration=samples)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch": -1}, "batch: expected a number of images from 1 on, got -1"),
        ({"labels": "abc"}, "labels: expected a sequence of str, one for each class, got 'abc'"),
        ({"labels": [1, 2]}, "labels: expected a sequence of str"),
    ],
)
def test_wrong_options(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.ArgumentError, match=message):
        triune.compile(DIGITS_INT8, output=tmp_path / "out", **options)
    with pytest.raises(
        errors.ArgumentError, match=r"bound: expected a number of dB, or a share of answers .*, got nan"
    ):
        triune.quantize(
            DIGITS_F32, calibration=[{"image": SCAN}], output=tmp_path / "q", mixed="float", bound=float("nan")
        )
    assert not list(tmp_path.iterdir())


def test_a_model_of_no_images(tmp_path: Path) -> None:
    model = onnx.load(DIGITS_INT8)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 0
    onnx.save(model, tmp_path / "none.onnx")
    with pytest.raises(
        errors.ArgumentError, match=r"input 'image': its shape in the model is \(0, 1, 8, 8\), which has no"
    ):
        triune.compile(tmp_path / "none.onnx", output=tmp_path / "out")


def test_values_that_overflow(tmp_path: Path) -> None:
    with pytest.raises(errors.UnsupportedError, match="becomes infinite or NaN with these samples") as raised:
        triune.compile(DIGITS_F32, output=tmp_path / "out", calibration=[{"image": SCAN * np.float32(1e38)}])
    assert str(raised.value).startswith(f"{DIGITS_F32}: ")


def test_failures_of_the_iterator_pass_through(tmp_path: Path) -> None:
    def samples() -> Iterator[dict[str, npt.NDArray[np.float32]]]:
        yield {"image": SCAN}
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        triune.compile(DIGITS_F32, output=tmp_path / "out", calibration=samples())


def test_wrong_models(tmp_path: Path) -> None:
    text = tmp_path / "text.onnx"
    text.write_text("no model")
    some = [{"image": SCAN}]
    with pytest.raises(errors.ArgumentError, match=r"text\.onnx is a text, not an ONNX model"):
        triune.compile(text, output=tmp_path / "out", calibration=some)
    with pytest.raises(errors.FileError, match=r"no\.onnx"):
        triune.compile(tmp_path / "no.onnx", output=tmp_path / "out", calibration=some)
    with pytest.raises(
        ValueError, match=r"digits_int8\.onnx: already quantized: triune\.compile and `triune compile` take it as it is"
    ):
        triune.compile(DIGITS_INT8, output=tmp_path / "out", calibration=some)
    with pytest.raises(errors.UnsupportedError, match=r"`calibration=` of triune\.compile in Python"):
        triune.compile(DIGITS_F32, output=tmp_path / "out")
    with pytest.raises(errors.FileError, match="expected a directory for the package, got a file"):
        triune.compile(DIGITS_F32, output=text, calibration=some)


def dense(path: Path, bias: npt.NDArray[np.float32], opset: int = 17) -> Path:
    """Write a float model with one dense layer."""
    weights = np.random.default_rng(1).normal(0, 1, (6, 4)).astype(np.float32)
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Gemm", ["x", "w", "b"], ["y"], name="dense")],
        "dense",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 6])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 4])],
        [onnx.numpy_helper.from_array(array, name) for name, array in (("w", weights), ("b", bias))],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=8)
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("shape", [(4,), (1, 4), (1,), (1, 1), ()])
@pytest.mark.parametrize("opset", [9, 13, 17])
def test_bias_shapes_and_old_operator_sets(tmp_path: Path, shape: tuple[int, ...], opset: int) -> None:
    """The quantizer itself takes neither a bias of two axes nor what was before a scale per channel."""
    random = np.random.default_rng(2)
    model = dense(tmp_path / "dense.onnx", random.normal(0, 1, shape).astype(np.float32), opset)
    samples = [{"x": random.normal(0, 1, (1, 6)).astype(np.float32)} for _ in range(20)]
    package = triune.compile(model, output=tmp_path / "out", calibration=samples)
    np.save(tmp_path / "x.npy", samples[0]["x"])
    out = tmp_path / "y.npz"
    assert main(["run", str(package), "--input", str(tmp_path / "x.npy"), "--output", str(out)]) == 0
    (expected,) = triune.Session(model).run(samples[0])
    with np.load(out) as found:
        assert np.abs(found["y"] - expected).max() < 0.1


def test_the_outputs_that_a_refusal_names_are_a_cure_for_float_models_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    random = np.random.default_rng(5)
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 13]>
        best (float[1,8,16] x) => (float[1,8,4] y) {
            p = MatMul(x, w) s = Relu(p) k = Constant<value_ints = [4]>() v, i = TopK(s, k) y = MatMul(v, u) }""")
    for name, shape in (("w", (16, 16)), ("u", (4, 4))):
        weights = random.standard_normal(shape).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(weights, name))
    onnx.save(model, tmp_path / "best.onnx")
    np.savez(tmp_path / "x.npz", x=random.standard_normal((20, 8, 16)).astype(np.float32))
    options = ["--calibrate", str(tmp_path / "x.npz"), "--target", "zg330", "--format", "icraft"]
    compiling = ["compile", str(tmp_path / "best.onnx"), *options, "-o", str(tmp_path / "out")]
    assert main(compiling) == 1
    (end,) = re.findall(r"--outputs (\w+)", capsys.readouterr().err)
    assert main([*compiling, "--outputs", end]) == 0


def test_a_bias_for_each_image_is_added_behind(tmp_path: Path) -> None:
    """A batch of 2 with a bias of its own for each image."""
    bias = np.array([[1, 2, 3, 4], [-4, -3, -2, -1]], np.float32)
    model = onnx.load(dense(tmp_path / "dense.onnx", bias))
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = 2
    onnx.save(model, tmp_path / "dense.onnx")
    random = np.random.default_rng(4)
    samples = [{"x": random.uniform(-1, 1, (2, 6)).astype(np.float32)} for _ in range(20)]
    package = triune.compile(tmp_path / "dense.onnx", output=tmp_path / "out", calibration=samples)
    assert package.report.share == 1
    np.save(tmp_path / "x.npy", samples[0]["x"])
    assert main(["run", str(package), "--input", str(tmp_path / "x.npy"), "--output", str(tmp_path / "y.npz")]) == 0
    (expected,) = triune.Session(tmp_path / "dense.onnx").run(samples[0])
    with np.load(tmp_path / "y.npz") as found:
        assert np.abs(found["y"] - expected).max() < 0.1


def test_a_real_float_model_of_an_old_operator_set(test_data: Path, tmp_path: Path) -> None:
    model = test_data / "models" / "onnx" / "mnist8_f32.onnx"
    random = np.random.default_rng(3)
    samples = [{"Input3": random.uniform(0, 255, (1, 1, 28, 28)).astype(np.float32)} for _ in range(20)]
    package = triune.compile(model, output=tmp_path / "out", calibration=samples)
    np.save(tmp_path / "x.npy", samples[0]["Input3"])
    out = tmp_path / "y.npz"
    assert main(["run", str(package), "--input", str(tmp_path / "x.npy"), "--output", str(out)]) == 0
    (expected,) = triune.Session(model).run(samples[0])
    with np.load(out) as found:
        assert np.abs(found["Plus214_Output_0"] - expected).max() < 0.05 * np.abs(expected).max()


def test_silence_is_left_as_it_was(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    root = logging.getLogger()
    before = list(root.filters)
    triune.compile(DIGITS_F32, output=tmp_path / "out", calibration=[{"image": SCAN}])
    assert [record for record in caplog.records if "onnxruntime" in record.pathname and record.levelno > 20] == []
    assert root.filters == before


@pytest.mark.parametrize(
    ("make", "arguments", "message"),
    [
        ("empty", [], "calibration: expected images or arrays (.npy, .npz), got none"),
        ("text", [], "calibration/x.png: not an image that can be read"),
        ("image", ["--mean", "1", "2"], "--mean: expected 1 value for input 'image', got 2"),
        ("no", [], "calibration: there is no such file"),
        ("npy", [], r"sample 1: input 'image': expected shape (N, 1, 8, 8), got (1, 3)"),
        ("flat", [], "expected shape (N, 1, 8, 8), got (1, 8, 8); a file's samples lie along its first axis"),
        ("image", ["--part", "0.5"], "--part: changes nothing with --resize stretch; it is for --resize center-crop"),
        ("image", ["--resize", "crop", "--fill", "9"], "--fill: changes nothing with --resize center-crop; it is for"),
        ("image", ["--corner"], "--corner: changes nothing with --resize stretch; it is for --resize letterbox"),
    ],
)
def test_errors_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], make: str, arguments: list[str], message: str
) -> None:
    source = tmp_path / "calibration"
    if make in ("empty", "text", "image"):
        source.mkdir()
    if make == "text":
        (source / "x.png").write_text("no image")
    if make == "image":
        pytest.importorskip("PIL.Image").new("L", (8, 8)).save(source / "x.png")
    if make == "npy":
        source = tmp_path / "calibration.npy"
        np.save(source, np.zeros((2, 3), np.float32))
    if make == "flat":
        source = tmp_path / "calibration.npy"
        np.save(source, SCAN[0])
    command = ["compile", str(DIGITS_F32), "-o", str(tmp_path / "out"), "--calibrate", str(source), *arguments]
    assert main(command) == 1
    err = capsys.readouterr().err
    assert err.startswith("triune: error: ")
    assert err.count("\n") == 1
    assert message in err
    assert "triune-" not in err.replace(str(tmp_path), ""), "no names of temporary files"


@pytest.mark.parametrize(
    "given",
    [
        ["--limit", "5"],
        ["--method", "mse"],
        ["--no-per-channel"],
        ["--equalize"],
        ["--bias-correction"],
        ["--mixed"],
        ["--bound", "20"],
        ["--float-from"],
        ["--keep-float", "x"],
    ],
)
def test_what_is_for_samples_wants_samples(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], given: list[str]
) -> None:
    """An option that changes nothing is not passed over."""
    assert main(["compile", str(DIGITS_INT8), "-o", str(tmp_path / "out"), *given]) == 1
    said = f"{given[0]} is for samples, and there are none to calibrate with: give --calibrate, too"
    assert capsys.readouterr().err == f"triune: error: {said}\n"
    assert not (tmp_path / "out").exists()


def test_what_figures_are_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "scans.npy", digits_held_out()[0][:60].transpose(0, 3, 1, 2))
    command = ["quantize", str(DIGITS_F32), "-o", str(tmp_path / "q.onnx"), "--calibrate", str(tmp_path / "scans.npy")]
    assert main(command) == 0
    out, err = capsys.readouterr()
    assert out.startswith("against float, on 8 samples that the ranges do not come from; these come from 52:\nlogits: ")
    assert err == ""
    assert main([*command, "--limit", "10"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(
        "against float, on 8 of the 10 samples that the ranges come from, which flatters; of 20 and more,"
    )
    assert err.startswith("triune: warning: 10 samples are few: ")


def test_the_float_model_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also by another name of it; a file of before that is something else may be."""
    model, link, other = (tmp_path / name for name in ("float.onnx", "link.onnx", "other.onnx"))
    model.write_bytes(DIGITS_F32.read_bytes())
    link.symlink_to(model)
    other.write_bytes(b"old")
    np.save(tmp_path / "scans.npy", SCAN)
    command = ["quantize", str(model), "--calibrate", str(tmp_path / "scans.npy"), "-o"]
    for target in (model, link):
        assert main([*command, str(target)]) == 1
        assert f"{target}: is the float model itself" in capsys.readouterr().err
        assert model.read_bytes() == DIGITS_F32.read_bytes()
    assert main([*command, str(other)]) == 0


def test_calibration_without_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ImportError, match=r"pip install 'triune\[onnx\]'"):
        triune.compile(DIGITS_F32, output=tmp_path / "out", calibration=[{"image": SCAN}])
