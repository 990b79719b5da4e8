"""What stays in float, by itself and on request, and that no output is spoiled in silence."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from quantization_networks import DETECTORS, SIZE, Builder, samples, segmenter, yolov8_like, yolox_like

import triune
from triune import errors
from triune.cli import main
from triune.quantization._products import write_products

Make = Callable[[Path], Path]


def run(model: Path, count: int = 4) -> list[dict[str, Any]]:
    """Return a model's outputs for some images that calibration has not seen."""
    session = triune.Session(model)
    names = [info.name for info in session.outputs]
    return [dict(zip(names, session.run(sample), strict=True)) for sample in samples(count, seed=9)]


def on_device(package: Path, sample: dict[str, Any]) -> Any:
    """Return what a package makes of an image."""
    files = [package.with_suffix(f".{end}.npz") for end in ("in", "out")]
    np.savez(files[0], **sample)
    assert main(["run", str(package), "--input", str(files[0]), "--output", str(files[1])]) == 0
    with np.load(files[1]) as made:
        return next(iter(made.values()))


def kinds(model: Path, *, quantized: bool) -> set[str]:
    """Return the kinds of operators that read, or do not read, what a DequantizeLinear makes and make what is rounded."""
    graph = onnx.load(model).graph
    made = {name for node in graph.node if node.op_type == "DequantizeLinear" for name in node.output}
    rounded = {node.input[0] for node in graph.node if node.op_type == "QuantizeLinear"}
    own = [node for node in graph.node if not node.op_type.endswith("Linear")]
    return {node.op_type for node in own if quantized == (node.input[0] in made and node.output[0] in rounded)}


@pytest.mark.parametrize("make", DETECTORS.values(), ids=DETECTORS)
def test_the_answer_is_made_in_float(tmp_path: Path, make: Make) -> None:
    """Every channel of every output says what it says in float, and nobody is told that one is spoiled."""
    model = make(tmp_path / "float.onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "output .* are those of float")
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
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("triune: warning: 8 samples are few: ")
    assert main([*command, "--float-from"]) == 0
    err = capsys.readouterr().err
    assert err.startswith("triune: warning: output 'output' is spoiled: ")
    assert "--float-from Sigmoid_30" in err
    assert main([*command, "-v"]) == 0
    err = capsys.readouterr().err
    assert "in float, as no Conv, Gemm or MatMul follows: 4 Sigmoid, 4 Concat" in err
    assert "against float, on 8 of the 8 samples that the ranges come from, which flatters; " in err


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


def volumes(path: Path, *, head: bool = True) -> Path:
    """Write a network of windows over three axes, with a classifier behind them or without."""
    random = np.random.default_rng(3)
    weights = [random.normal(0, 0.3, shape).astype(np.float32) for shape in ((4, 1, 3, 3, 3), (6, 4, 3, 3, 3), (6, 5))]
    nodes = [
        helper.make_node("Conv", ["image", "w0"], ["a"], "first", pads=[1] * 6),
        helper.make_node("Relu", ["a"], ["b"], "limit"),
        helper.make_node("MaxPool", ["b"], ["c"], "pool", kernel_shape=[2] * 3, strides=[2] * 3),
        helper.make_node("Conv", ["c", "w1"], ["d"], "second", pads=[1] * 6),
    ]
    if head:
        nodes += [
            helper.make_node("GlobalAveragePool", ["d"], ["e"], "mean"),
            helper.make_node("Flatten", ["e"], ["f"], "flat"),
            helper.make_node("Gemm", ["f", "w2"], ["y"], "head"),
        ]
    graph = helper.make_graph(
        nodes,
        "volumes",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 4, 6, 8])],
        [helper.make_empty_tensor_value_info("y" if head else "d")],
        [numpy_helper.from_array(values, f"w{at}") for at, values in enumerate(weights)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(onnx.shape_inference.infer_shapes(model, strict_mode=True), path)
    return path


def boxes_of_numbers(count: int) -> list[dict[str, Any]]:
    random = np.random.default_rng(4)
    return [{"image": random.normal(0, 1, (1, 1, 4, 6, 8)).astype(np.float32)} for _ in range(count)]


def test_windows_over_three_axes_stay_in_float(tmp_path: Path) -> None:
    result = triune.quantize(volumes(tmp_path / "f.onnx"), calibration=boxes_of_numbers(4), output=tmp_path / "q.onnx")
    lacking = "has windows over three axes, and no device has those"
    assert {name for name, reason in result.kept_float.items() if reason == lacking} == {
        "first",
        "second",
        "pool",
        "mean",
    }
    assert result.kept_float["limit"].startswith("is between such")
    assert "head" not in result.kept_float
    assert any(f"each {lacking}: 2 Conv" in note for note in result.notes)


def test_a_network_of_volumes_alone_is_refused(tmp_path: Path) -> None:
    model = volumes(tmp_path / "f.onnx", head=False)
    with pytest.raises(errors.UnsupportedError, match="has an integer form; Conv has windows over three axes"):
        triune.quantize(model, calibration=boxes_of_numbers(4), output=tmp_path / "q.onnx")
    assert not (tmp_path / "q.onnx").exists()


@pytest.mark.parametrize(("options", "reason"), [({"mode": "cubic"}, "by cubes"), ({"antialias": 1}, "antialias")])
def test_a_resize_without_an_integer_form_is_told(tmp_path: Path, options: dict[str, Any], reason: str) -> None:
    b = Builder(4)
    scales = b.constant([1, 1, 0.5, 0.5])
    y = b.node("Resize", b.conv("image", 4), "", scales, name="resize", **({"mode": "linear"} | options))
    b.channels[y] = 4
    model = b.save(tmp_path / "float.onnx", opset=18, y=b.conv(y, 4))
    result = triune.quantize(model, calibration=samples(4), output=tmp_path / "q.onnx")
    assert reason in result.kept_float["resize"]


@pytest.mark.parametrize("kind", ["Max", "Min"])
def test_extremes_become_integers(tmp_path: Path, kind: str) -> None:
    """Of several values as of one and a number: all of the network is on the device."""
    b = Builder(5)
    wide, narrow = b.conv("image", 4), b.conv("image", 4, gain=0.2)
    y = b.node(kind, wide, b.node("Relu", narrow), b.node("Tanh", wide))
    z = b.node(kind, y, b.constant(0.1))
    b.channels[z] = 4
    model = b.save(tmp_path / "float.onnx", y=b.conv(z, 4))
    result = triune.quantize(model, calibration=samples(8), output=tmp_path / "q.onnx")
    assert result.kept_float == {}
    assert result.checks[0].sqnr > 25
    for target in ("metis", "zg330", "buyi"):
        assert triune.compile(result.path, target=target, output=tmp_path / target).report.host.operators == 0


def test_a_maximum_over_places_keeps_its_scale(tmp_path: Path) -> None:
    b = Builder(6)
    top = b.node("ReduceMax", b.conv("image", 4), axes=[2, 3], keepdims=0)
    model = b.save(tmp_path / "float.onnx", y=b.node("Gemm", top, b.constant(b.random.normal(0, 1, (4, 4)))))
    result = triune.quantize(model, calibration=samples(8), output=tmp_path / "q.onnx")
    assert result.kept_float == {}
    assert result.ranges[top] == result.ranges[b.nodes[0].output[0]]


def test_peaks_that_turn_round_are_told_with_what_is_in_front(tmp_path: Path) -> None:
    """As key point detectors have it: a value stays where it is the largest around, and a hair decides."""
    b = Builder(7)
    heat = b.node("Sigmoid", b.conv(b.act(b.conv("image", 8), "relu"), 2), name="heat")
    largest = b.node("MaxPool", heat, kernel_shape=[3, 3], pads=[1] * 4)
    peaks = b.node("Mul", heat, b.node("Cast", b.node("Equal", largest, heat, name="same"), to=TensorProto.FLOAT))
    model = b.save(tmp_path / "float.onnx", peaks=peaks, other=b.conv("image", 3))
    with pytest.warns(errors.QuantizationWarning, match=r"node 'same' .* --outputs heat:0,other"):
        triune.quantize(model, calibration=samples(24), output=tmp_path / "q.onnx")


def test_what_a_maximum_alone_reads_has_the_range_of_its_results(tmp_path: Path) -> None:
    """By all places, the least error clips the largest, which are what is left."""
    found = []
    for reads in (1, 2):
        b = Builder(8)
        x = b.conv("image", 8)
        top = b.node("ReduceMax", x, axes=[2, 3], keepdims=0)
        y = b.node("Gemm", top, b.constant(b.random.normal(0, 1, (8, 4))))
        more = {"z": b.conv(x, 2)} if reads == 2 else {}
        model = b.save(tmp_path / "float.onnx", y=y, **more)
        result = triune.quantize(model, calibration=samples(24), output=tmp_path / "q.onnx")
        found.append((result.ranges[x], result.checks[0].sqnr))
    (alone, level), (shared, _) = found
    assert alone[1] > shared[1]
    assert alone[0] > shared[0]
    assert level > 30


@pytest.mark.parametrize(("axes", "shape"), [([1, 2, 3], (4, 1, 1)), ([2, 3], (4, 1, 1)), ([3], (1, 1, SIZE))])
def test_normalizations_with_factors_of_channels(tmp_path: Path, axes: list[int], shape: tuple[int, ...]) -> None:
    """Over all that there is, as in speech separators, and over places, spelled out: nothing stays on the host."""
    b = Builder(9)
    x = b.conv("image", 4)
    d = b.node("Sub", x, b.node("ReduceMean", x, axes=axes))
    root = b.node("Sqrt", b.node("Add", b.node("ReduceMean", b.node("Mul", d, d), axes=axes), b.constant(1e-5)))
    y = b.node("Mul", b.node("Div", d, root), b.constant(np.exp(b.random.normal(0, 0.2, shape))))
    y = b.node("Add", y, b.constant(b.random.normal(0, 0.2, shape)))
    b.channels[y] = 4
    model = b.save(tmp_path / "float.onnx", y=b.conv(y, 4))
    result = triune.quantize(model, calibration=samples(24), output=tmp_path / "q.onnx")
    assert result.checks[0].sqnr > 25
    package = triune.compile(result.path, output=tmp_path / "package")
    assert package.report.host.operators == 0


def _correlated(b: Builder, form: str) -> str:
    """Return what a network makes by convolutions whose weights it computes."""
    x = b.act(b.conv("image", 8, spread=4), "relu")
    if form == "dynamic":
        # The mean of the image mixes experts.
        share = b.node("Sigmoid", b.node("Flatten", b.node("GlobalAveragePool", x)))
        mixed = b.node("MatMul", share, b.constant(b.random.normal(0, 0.2, (8, 6 * 8 * 9))))
        weights = b.node("Reshape", mixed, b.constant([6, 8, 3, 3], np.int64))
        bias = b.constant(b.random.normal(0, 0.5, 6))
        y = b.node("Conv", x, weights, bias, name="match", pads=[1] * 4, strides=[2, 2])
        y, channels = b.node("Relu", y), 6
    elif form == "template":
        template = b.conv("image", 8, stride=4)
        y, channels = b.node("Conv", x, template, name="match"), 1
    else:
        kernel = b.node("MaxPool", b.conv("image", 8), kernel_shape=[4, 4], strides=[4, 4])
        shape = b.constant([8, 1, SIZE // 4, SIZE // 4], np.int64)
        y, channels = b.node("Conv", x, b.node("Reshape", kernel, shape), name="match", group=8), 8
    b.channels[y] = channels
    return str(y)


@pytest.mark.parametrize("form", ["dynamic", "template", "by channels"])
def test_a_convolution_with_computed_weights_is_a_product(tmp_path: Path, form: str) -> None:
    """As trackers and mixtures of experts have it: integers on the device, those that onnxruntime makes of them."""
    b = Builder(10)
    model = b.save(tmp_path / "float.onnx", y=b.conv(_correlated(b, form), 4))
    result = triune.quantize(model, calibration=samples(8), output=tmp_path / "q.onnx")
    assert not result.kept_float
    assert result.checks[0].sqnr > 25
    (sample,) = samples(1, seed=9)
    expected = onnxruntime.InferenceSession(result.path).run(None, sample)[0]
    np.testing.assert_array_equal(triune.Session(result.path).run(sample)[0], expected)
    for target in ("metis", "zg330"):
        package = triune.compile(result.path, target=target, output=tmp_path / target)
        assert package.report.host.operators == 0
        np.testing.assert_array_equal(on_device(tmp_path / target, sample), expected)
    triune.compile(result.path, target="zg330", format="icraft", output=tmp_path / "icraft")


def test_a_convolution_with_computed_weights_that_stays_in_float_is_one_operator(tmp_path: Path) -> None:
    b = Builder(10)
    model = b.save(tmp_path / "float.onnx", y=b.conv(_correlated(b, "by channels"), 4))
    result = triune.quantize(model, calibration=samples(8), output=tmp_path / "q.onnx", act="u8", float_from=["match"])
    assert result.kept_float["match"] == "asked for"
    stayed = triune.compile(result.path, target="metis", output=tmp_path / "package").report.stayed
    assert [operator.op for operator in stayed if operator.node == "match"] == ["Conv"]
    assert all("match" not in operator.node or operator.node == "match" for operator in stayed)
    with pytest.raises(errors.UnsupportedError, match=r"'match'.*computed.*--outputs.*--format package"):
        triune.compile(result.path, target="zg330", format="icraft", output=tmp_path / "icraft")


@pytest.mark.parametrize("head", ["GlobalAveragePool", "GlobalMaxPool", "ReduceMean"])
def test_pools_over_all_of_a_sequence(tmp_path: Path, head: str) -> None:
    """The classifier behind is on the device, too."""
    b = Builder(12)
    x = b.node("Reshape", b.conv("image", 8), b.constant([0, 8, -1], np.int64))
    y = b.node(head, x, **({"axes": [2]} if head == "ReduceMean" else {}))
    y = b.node("Gemm", b.node("Flatten", y), b.constant(b.random.normal(0, 1, (8, 4))))
    result = triune.quantize(b.save(tmp_path / "float.onnx", y=y), calibration=samples(8), output=tmp_path / "q.onnx")
    (sample,) = samples(1, seed=9)
    expected = onnxruntime.InferenceSession(result.path).run(None, sample)[0]
    np.testing.assert_array_equal(triune.Session(result.path).run(sample)[0], expected)
    assert triune.compile(result.path, output=tmp_path / "package").report.host.operators == 0


@pytest.mark.parametrize("axes", [[1], [2, 3], [3]])
def test_a_sum_over_axes_is_an_integer_operator(tmp_path: Path, axes: list[int]) -> None:
    """As split attention has it in the middle of a network."""
    b = Builder(14)
    y = b.node("ReduceSum", b.conv("image", 8), b.constant(axes, np.int64), keepdims=1)
    y = b.node("Mul", y, b.conv("image", 8))
    b.channels[y] = 8
    model = b.save(tmp_path / "float.onnx", y=b.conv(y, 4))
    result = triune.quantize(model, calibration=samples(8), output=tmp_path / "q.onnx")
    assert not result.kept_float
    assert result.checks[0].sqnr > 20
    assert triune.compile(result.path, output=tmp_path / "package").report.host.operators == 0
    (sample,) = samples(1, seed=9)
    np.testing.assert_array_equal(on_device(tmp_path / "package", sample), triune.Session(result.path).run(sample)[0])


EINSUMS = {
    "btc,cd->btd": ["MatMul"],
    "cd,btc->btd": ["MatMul"],
    "btgi,gih->btgh": ["Transpose", "Reshape", "MatMul", "Reshape", "Transpose"],
    "btgi,gih->gbth": ["Transpose", "Reshape", "MatMul", "Reshape"],
    "btghi,gihj->bthgj": ["Transpose", "Reshape", "MatMul", "Reshape", "Transpose"],
    "bchw,oc->bohw": ["Conv"],
    "bct,oc->bot": ["Conv"],
    "btc,chd->bthd": ["MatMul", "Reshape"],
    "bthd,hdc->btc": ["Reshape", "MatMul"],
    "btc,c->bt": ["MatMul", "Reshape"],
    "btc,dc->bdt": ["MatMul", "Transpose"],
    "btc,c->btc": ["Einsum"],
    "btc,dc->btdc": ["Einsum"],
    "btt,tc->bc": ["Einsum"],
}


@pytest.mark.parametrize("equation", EINSUMS)
@pytest.mark.parametrize("batch", [2, "n"])
def test_an_einsum_with_constant_weights_is_a_product(equation: str, batch: int | str) -> None:
    random, extents = np.random.default_rng(3), dict(zip("bcdghijotw", (2, 8, 6, 3, 4, 5, 7, 9, 10, 11), strict=True))
    terms, _, result = equation.partition("->")
    labels = terms.split(",")
    which = 0 if equation.startswith("cd") else 1
    arrays = [random.standard_normal([extents[label] for label in each], np.float32) for each in labels]
    names = ["w", "x"] if which == 0 else ["x", "w"]

    def info(name: str, each: str) -> Any:
        shape = [batch if label == "b" else extents[label] for label in each]
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    graph = helper.make_graph(
        [helper.make_node("Einsum", names, ["y"], "e", equation=equation)],
        "net",
        [info("x", labels[1 - which])],
        [info("y", result)],
        [numpy_helper.from_array(arrays[which], "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    feeds = {"x": arrays[1 - which]}
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)
    write_products(model)
    onnx.checker.check_model(model, full_check=True)
    assert [node.op_type for node in model.graph.node] == EINSUMS[equation]
    (found,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_grouped_weights_of_an_einsum_are_on_the_device(tmp_path: Path) -> None:
    """As speech enhancers have their linear layers."""
    b = Builder(15)
    x = b.node("Transpose", b.act(b.conv("image", 8), "relu"), perm=[0, 2, 3, 1])
    x = b.node("Reshape", x, b.constant([1, SIZE, SIZE * 4, 2], np.int64))
    y = b.node("Einsum", x, b.constant(b.random.normal(0, 1, (SIZE * 4, 2, 3))), equation="btgi,gih->btgh")
    result = triune.quantize(b.save(tmp_path / "float.onnx", y=y), calibration=samples(8), output=tmp_path / "q.onnx")
    assert triune.compile(result.path, output=tmp_path / "package").report.share == 1
    (sample,) = samples(1, seed=9)
    expected = onnxruntime.InferenceSession(result.path).run(None, sample)[0]
    np.testing.assert_array_equal(triune.Session(result.path).run(sample)[0], expected)


def test_a_product_with_a_trained_vector_is_one_with_a_column(tmp_path: Path) -> None:
    b = Builder(13)
    x = b.node("Transpose", b.act(b.conv("image", 8), "relu"), perm=[0, 2, 3, 1])
    y = b.node("MatMul", x, b.constant(b.random.normal(0, 1, 8).astype(np.float32)))
    result = triune.quantize(b.save(tmp_path / "float.onnx", y=y), calibration=samples(8), output=tmp_path / "q.onnx")
    assert not result.kept_float
    (sample,) = samples(1, seed=9)
    expected = onnxruntime.InferenceSession(result.path).run(None, sample)[0]
    found = triune.Session(result.path).run(sample)[0]
    assert expected.shape == (1, SIZE, SIZE)
    np.testing.assert_array_equal(found, expected)
    assert triune.compile(result.path, output=tmp_path / "package").report.share == 1


# What is multiplied by constants on the left, or by a matrix per head: shapes, and what the product is written as.
MATRICES: dict[str, tuple[tuple[int, ...], tuple[int, ...], bool, list[str]]] = {
    "nodes of a graph": ((2, 7, 6), (7, 7), True, ["Conv"]),
    "a matrix": ((7, 6), (5, 7), True, ["Transpose", "MatMul", "Transpose"]),
    "frames of a graph": ((2, 3, 7, 6), (5, 7), True, ["Transpose", "MatMul", "Transpose"]),
    "a graph per head": ((2, 3, 7, 6), (3, 5, 7), True, ["Transpose", "Reshape", "MatMul", "Reshape", "Transpose"]),
    "graphs of one value": ((1, 7, 6), (3, 5, 7), True, ["Transpose", "Reshape", "MatMul", "Reshape", "Transpose"]),
    "a row": ((2, 7, 6), (7,), True, ["Transpose", "MatMul", "Reshape"]),
    "heads": ((1, 9, 8), (4, 8, 5), False, ["Transpose", "Reshape", "MatMul", "Reshape", "Transpose"]),
    "heads of images": ((2, 1, 9, 8), (4, 8, 5), False, ["Transpose", "Reshape", "MatMul", "Reshape", "Transpose"]),
    "heads of a matrix": ((9, 8), (4, 8, 5), False, ["MatMul", "Reshape", "Transpose"]),
    "heads of heads": ((1, 4, 9, 8), (4, 8, 5), False, ["Transpose", "Reshape", "MatMul", "Reshape", "Transpose"]),
    "as devices have it": ((4, 9, 8), (4, 8, 5), False, ["MatMul"]),
}


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("open_batch", [False, True])
def test_constants_of_a_product_come_to_the_right(name: str, open_batch: bool, tmp_path: Path) -> None:
    shape, weights, left, written = MATRICES[name]
    random = np.random.default_rng(5)
    x, w = (random.standard_normal(each, np.float32) for each in (shape, weights))
    expected = np.matmul(w, x) if left else np.matmul(x, w)
    kinds = ["n" if open_batch and axis == 0 and extent == 2 else extent for axis, extent in enumerate(shape)]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["w", "x"] if left else ["x", "w"], ["y"], "p")],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, kinds)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * expected.ndim)],
        [numpy_helper.from_array(w, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    write_products(model)
    onnx.checker.check_model(model, full_check=True)
    assert [node.op_type for node in model.graph.node] == written
    (found,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)

    samples = [{"x": random.standard_normal(shape, np.float32)} for _ in range(8)]
    onnx.save(helper.make_model(graph, opset_imports=model.opset_import, ir_version=8), tmp_path / "float.onnx")
    result = triune.quantize(tmp_path / "float.onnx", calibration=samples, output=tmp_path / "q.onnx")
    assert "p" not in result.kept_float
    assert triune.compile(result.path, output=tmp_path / "package").report.share == 1
    (quantized,) = onnxruntime.InferenceSession(result.path).run(None, {"x": x})
    np.testing.assert_array_equal(triune.Session(result.path).run({"x": x})[0], quantized)


COMPUTED_BIASES = {
    "a product and what it is of": "x = Relu(a) p = MatMul(x, w) y = Add(p, x)",
    "two products": "p = MatMul(a, w) r = MatMul(b, v) y = Add(p, r)",
    "a function": "p = MatMul(a, w) r = MatMul(b, v) s = Sigmoid(r) y = Add(p, s)",
    "an input": "y = Gemm<alpha = 0.5, beta = 2.0>(a, u, b)",
    "places": "p = MatMul(a, w) y = Add(p, places)",
    "turned": "t = Transpose<perm = [1, 0]>(a) s = Relu(t) y = Gemm<transA = 1>(s, w, line)",
    "two values": "p = Relu(a) r = MatMul(a, w) y = Gemm<transB = 1, alpha = 0.5>(p, r)",
    "of a convolution": """i = Reshape(a, image) r = MatMul(b, six) m = ReduceMean<axes = [0], keepdims = 0>(r)
        y = Conv<pads = [1, 1, 1, 1]>(i, filters, m)""",
    "of one that enlarges": """i = Reshape(a, image) r = MatMul(b, six) m = ReduceMean<axes = [0], keepdims = 0>(r)
        y = ConvTranspose<strides = [2, 2]>(i, turned, m)""",
}


@pytest.mark.parametrize("form", COMPUTED_BIASES)
def test_what_is_computed_and_added_to_a_product_is_no_constant(tmp_path: Path, form: str) -> None:
    random = np.random.default_rng(3)
    shapes = {"w": (32, 32), "v": (24, 32), "u": (32, 24), "six": (24, 6), "filters": (6, 2, 3, 3)}
    shapes |= {"turned": (2, 6, 2, 2), "places": (4, 32), "line": (1, 32)}
    weights = {name: random.standard_normal(shape).astype(np.float32) / 4 for name, shape in shapes.items()}
    other = "float[4,24] b" if "b" in COMPUTED_BIASES[form].replace("beta", "") else ""
    feeds = ", ".join(filter(None, ("float[4,32] a", other)))
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 13]>
        sums ({feeds}) => (float[?,?] z) {{ {COMPUTED_BIASES[form]} z = Relu(y) }}""")
    if "onv" in form or "enlarges" in form:
        del model.graph.output[0].type.tensor_type.shape.dim[:]
        model.graph.output[0].type.tensor_type.shape.dim.extend([onnx.TensorShapeProto.Dimension()] * 4)
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    model.graph.initializer.append(numpy_helper.from_array(np.array([1, 2, 8, 8]), "image"))
    onnx.save(model, tmp_path / "float.onnx")
    names = [value.name for value in model.graph.input]

    def sample() -> dict[str, np.ndarray]:
        extents = {"a": (4, 32), "b": (4, 24)}
        return {name: random.standard_normal(extents[name], np.float32) for name in names}

    result = triune.quantize(
        tmp_path / "float.onnx", calibration=[sample() for _ in range(40)], output=tmp_path / "q.onnx"
    )
    assert result.checks[0].sqnr > 18
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.qdqisint8allowed", "1")
    theirs = onnxruntime.InferenceSession(result.path, options)
    feed = sample()
    (found,) = triune.Session(result.path).run(feed)
    np.testing.assert_allclose(found, theirs.run(None, feed)[0], rtol=0, atol=1e-6)
    for name in names:
        assert np.any(triune.Session(result.path).run({**feed, name: sample()[name]})[0] != found), name
    assert triune.compile(result.path, output=tmp_path / "package").report.share == 1


def test_an_einsum_of_two_values_is_a_product(tmp_path: Path) -> None:
    """Masks by queries and pixels, at the end of a network: integers, as the same by MatMul."""
    random = np.random.default_rng(7)
    weights = {
        name: random.standard_normal(shape).astype(np.float32) / 4
        for name, shape in (("w", (16, 16)), ("v", (16, 8, 1, 1)))
    }
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 17]>
        masks (float[1,6,16] q, float[1,8,12,12] x) => (float[1,6,12,12] y) {
            a = MatMul(q, w) b = Conv(x, v) y = Einsum<equation = "bqc,bchw->bqhw">(a, b) }""")
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    onnx.save(model, tmp_path / "masks.onnx")
    feeds = [
        {"q": random.standard_normal((1, 6, 16), np.float32), "x": random.standard_normal((1, 8, 12, 12), np.float32)}
        for _ in range(32)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = triune.quantize(tmp_path / "masks.onnx", calibration=feeds, output=tmp_path / "q.onnx")
    assert not result.kept_float
    compiled = triune.compile(tmp_path / "q.onnx", target="metis", output=tmp_path / "package")
    assert compiled.report.share == 1
