"""What stays in float, by itself and on request, and that no output is spoiled in silence."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from quantization_networks import DETECTORS, Builder, samples, segmenter, yolov8_like, yolox_like

import triune
from triune import errors
from triune.cli import main

Make = Callable[[Path], Path]


def run(model: Path, count: int = 4) -> list[dict[str, Any]]:
    """Return a model's outputs for some images that calibration has not seen."""
    session = triune.Session(model)
    names = [info.name for info in session.outputs]
    return [dict(zip(names, session.run(sample), strict=True)) for sample in samples(count, seed=9)]


def kinds(model: Path, *, quantized: bool) -> set[str]:
    """Return the kinds of operators that read, or do not read, what a DequantizeLinear makes and make what is rounded."""
    graph = onnx.load(model).graph
    made = {name for node in graph.node if node.op_type == "DequantizeLinear" for name in node.output}
    rounded = {node.input[0] for node in graph.node if node.op_type == "QuantizeLinear"}
    own = [node for node in graph.node if not node.op_type.endswith("Linear")]
    return {node.op_type for node in own if quantized == (node.input[0] in made and node.output[0] in rounded)}


@pytest.mark.parametrize("make", DETECTORS.values(), ids=DETECTORS)
def test_the_answer_is_made_in_float(tmp_path: Path, make: Make) -> None:
    """Every channel of every output says what it says in float, and nobody is warned."""
    model = make(tmp_path / "float.onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = triune.quantize(model, calibration=samples(24), output=tmp_path / "q.onnx")
    assert [check.fault for check in result.checks] == [""] * len(result.checks)
    assert kinds(tmp_path / "q.onnx", quantized=True) >= {"Conv", "Concat"}
    for reals, found in zip(run(model), run(tmp_path / "q.onnx"), strict=True):
        for name, expected in reals.items():
            if expected.dtype.kind != "f":
                assert (expected == found[name]).mean() > 0.9
            else:
                signal, noise = np.square(expected).sum(), np.square(expected - found[name]).sum()
                assert 10 * np.log10(signal / noise) > 25


@pytest.mark.parametrize("make", [yolox_like, yolov8_like])
def test_scores_that_pixels_drown_are_told(tmp_path: Path, make: Make) -> None:
    """All in integers, the last joint has pixels and probabilities under one scale: every score is 0."""
    model = make(tmp_path / "float.onnx")
    with pytest.warns(errors.QuantizationWarning, match=r"output 'output' is spoiled: \d+ of 1[01] channels") as told:
        result = triune.quantize(model, calibration=samples(24), output=tmp_path / "q.onnx", float_from=())
    assert [str(each.message) for each in told] == list(result.warnings)
    cure = result.warnings[0].rpartition("--float-from ")[2].partition(" ")[0]
    # The cure is one.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        triune.quantize(model, calibration=samples(24), output=tmp_path / "q.onnx", float_from=[cure])


def test_compile_tells_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = yolox_like(tmp_path / "float.onnx")
    everything = triune.quantization.QuantizationOptions(float_from=())
    with pytest.warns(errors.QuantizationWarning, match="is spoiled") as told:
        triune.compile(model, output=tmp_path / "out", calibration=samples(8), quantization=everything)
    assert told[0].filename == __file__
    np.savez(tmp_path / "samples.npz", image=np.concatenate([sample["image"] for sample in samples(8)]))
    command = ["compile", str(model), "-o", str(tmp_path / "out"), "--calibrate", str(tmp_path / "samples.npz")]
    assert main(command) == 0
    assert capsys.readouterr().err == ""
    assert main([*command, "--float-from"]) == 0
    err = capsys.readouterr().err
    assert err.startswith("triune: warning: output 'output' is spoiled: ")
    assert "--float-from Sigmoid_30" in err
    assert main([*command, "-v"]) == 0
    assert "in float, as no Conv, Gemm or MatMul follows: 4 Sigmoid, 4 Concat" in capsys.readouterr().err


def test_a_package_finds_what_float_finds(tmp_path: Path) -> None:
    """The whole way: calibrated, compiled, run on a card."""
    model = yolox_like(tmp_path / "float.onnx")
    triune.compile(model, output=tmp_path / "out", calibration=samples(24))
    (sample,) = samples(1, seed=9)
    np.savez(tmp_path / "in.npz", **sample)
    command = ["run", str(tmp_path / "out"), "--input", str(tmp_path / "in.npz"), "--output", str(tmp_path / "out.npz")]
    assert main(command) == 0
    (expected,) = triune.Session(model).run(sample)
    with np.load(tmp_path / "out.npz") as found:
        scores = found["output"][..., 4:]
    assert np.abs(scores - expected[..., 4:]).max() < 0.2 * np.ptp(expected[..., 4:])
    assert np.corrcoef(scores.ravel(), expected[..., 4:].ravel())[0, 1] > 0.98


def test_a_fixed_convolution_is_decode(tmp_path: Path) -> None:
    model = yolov8_like(tmp_path / "float.onnx")
    result = triune.quantize(model, calibration=samples(8), output=tmp_path / "q.onnx")
    assert result.kept_float["dfl"] == "no Conv, Gemm or MatMul follows"
    assert "Softmax" not in kinds(tmp_path / "q.onnx", quantized=True)


def test_nodes_are_chosen_by_name(tmp_path: Path) -> None:
    model = segmenter(tmp_path / "float.onnx")

    def kept(**options: Any) -> dict[str, str]:
        return triune.quantize(model, calibration=samples(4), output=tmp_path / "q.onnx", **options).kept_float

    assert kept() == {"enlarge": "no Conv, Gemm or MatMul follows", "best": "has no integer form"}
    assert kept(float_from=()) == {"best": "has no integer form"}
    chosen = kept(float_from=["grow"])
    assert chosen["grow"] == "asked for"
    assert chosen["enlarge"] == "behind 'grow'"
    assert {"grow", "enlarge", "best"} < set(chosen)
    assert kept(keep_float=["grow"])["grow"] == "asked for"
    # A tensor stands for the node that makes it.
    assert kept(keep_float=["grow:0"])["grow"] == "asked for"
    with pytest.raises(errors.ArgumentError, match="keep_float: the model has no node or tensor 'grew'; is it 'grow'"):
        kept(keep_float=["grew"])
    with pytest.raises(errors.ArgumentError, match="float_from: expected a sequence of names, got the str 'grow'"):
        kept(float_from="grow")


def test_outputs_are_chosen_in_order(tmp_path: Path) -> None:
    model = segmenter(tmp_path / "float.onnx")
    wanted = ["best", "grow:0"]
    triune.quantize(model, calibration=samples(4), output=tmp_path / "q.onnx", outputs=wanted)
    assert [info.name for info in triune.Session(tmp_path / "q.onnx").outputs] == ["classes", "grow:0"]
    triune.quantize(model, calibration=samples(4), output=tmp_path / "q.onnx", outputs=["grow"])
    assert not {"ArgMax", "Concat"} & kinds(tmp_path / "q.onnx", quantized=False)
    with pytest.raises(errors.ArgumentError, match="outputs: the model has no tensor or node 'logit'; is it 'logits'"):
        triune.quantize(model, calibration=samples(4), output=tmp_path / "q.onnx", outputs=["logit"])
    with pytest.raises(errors.ArgumentError, match="outputs: one tensor twice"):
        triune.quantize(model, calibration=samples(4), output=tmp_path / "q.onnx", outputs=["logits", "logits"])


def test_parts_of_a_joint_keep_their_ranges(tmp_path: Path) -> None:
    """A small one and a large one are joined, and taken apart again by what follows: the small one is not lost before."""
    b = Builder(7)
    small, large = b.conv("image", 4, gain=0.01, bias=np.zeros(4)), b.conv("image", 4, gain=10.0)
    joint = b.node("Concat", small, large, axis=1, name="joint")
    b.channels[joint] = 8
    model = b.save(tmp_path / "float.onnx", y=b.conv(joint, 4))
    result = triune.quantize(model, calibration=samples(8), output=tmp_path / "q.onnx")
    reach = {name: high - low for name, (low, high) in result.ranges.items()}
    assert reach[small] < 0.05 * reach[large]
    # One that is much like the whole has its scale, and is rounded once.
    assert reach[large] == reach["joint:0"]


def test_a_network_without_products_is_quantized_whole(tmp_path: Path) -> None:
    b = Builder(8)
    pooled = b.node("MaxPool", "image", kernel_shape=[2, 2], strides=[2, 2])
    model = b.save(tmp_path / "float.onnx", y=b.node("Sigmoid", pooled))
    result = triune.quantize(model, calibration=samples(4), output=tmp_path / "q.onnx")
    assert result.kept_float == {}


def test_nothing_is_left_to_quantize(tmp_path: Path) -> None:
    b = Builder(9)
    model = b.save(tmp_path / "float.onnx", y=b.node("Exp", "image", name="exp"))
    with pytest.raises(errors.UnsupportedError, match="no operator is left that has an integer form"):
        triune.quantize(model, calibration=samples(4), output=tmp_path / "q.onnx")
    assert not (tmp_path / "q.onnx").exists()
