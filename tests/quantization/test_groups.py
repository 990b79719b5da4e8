"""Operators that spell out one are rounded as one: functions, normalizations, softmax, attention."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from quantization_networks import Builder, gelu, normalized, samples, softmax, transformer

import triune
from triune import errors
from triune.cli.pipeline import Pipeline
from triune.quantization import _quantize
from triune.quantization._groups import join_groups
from triune.quantization._model import Network

Make = Callable[[Builder, str], str]


def rounded(model: Path) -> set[str]:
    """Return the kinds of operators whose results are rounded."""
    graph = onnx.load(model).graph
    made = {node.input[0] for node in graph.node if node.op_type == "QuantizeLinear"}
    return {node.op_type for node in graph.node if node.output[0] in made}


@pytest.mark.parametrize("opset", [13, 17])
def test_a_transformer_answers_as_in_float(tmp_path: Path, opset: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention, normalizations and Gelus one by one are noise; as what they are, they answer."""
    model = transformer(tmp_path / "float.onnx", opset=opset)
    result = triune.quantize(model, calibration=samples(32), output=tmp_path / "q.onnx")
    (check,) = result.checks
    assert check.sqnr > 24
    assert not {"Pow", "Sqrt", "Erf", "Sub", "Exp", "ReduceMax", "ReduceSum"} & rounded(tmp_path / "q.onnx")
    # Exporters' nine operators are one with an integer form, as are Softmax and Gelu.
    assert result.kept_float == {}
    with monkeypatch.context() as patched:
        patched.setattr(_quantize, "join_groups", lambda network, wide: None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", errors.QuantizationWarning)
            apart = triune.quantize(model, calibration=samples(32), output=tmp_path / "apart.onnx")
    assert {"Div", "Erf", "Exp"} <= {key.partition("_")[0] for key in apart.kept_float}
    if opset < 17:
        assert apart.checks[0].sqnr < 6


@pytest.mark.parametrize("root_mean_square", [False, True])
@pytest.mark.parametrize("target", ["metis", "zg330", "buyi"])
def test_a_transformer_runs_on_the_card(tmp_path: Path, target: str, root_mean_square: bool) -> None:
    """Whole, in one segment, with the answers of a CPU session over the quantized file."""
    model = transformer(tmp_path / "float.onnx", root_mean_square=root_mean_square)
    triune.quantize(model, calibration=samples(32), output=tmp_path / "q.onnx")
    form = "package" if target == "metis" else "icraft"
    report = triune.compile(tmp_path / "q.onnx", output=tmp_path / "out", target=target, format=form).report
    assert report.segments == 1
    assert report.stayed == ()
    if target == "metis":
        (sample,) = samples(1, seed=9)
        package = triune.compare(tmp_path / "q.onnx", tmp_path / "out", inputs=[sample])
        assert package.differences[0].outputs[0].sqnr > 30


def test_normalizations_by_the_root_mean_square(tmp_path: Path) -> None:
    """Whole: nothing in them is rounded."""
    model = transformer(tmp_path / "float.onnx", root_mean_square=True)
    result = triune.quantize(model, calibration=samples(32), output=tmp_path / "q.onnx")
    assert result.checks[0].sqnr > 26
    assert not {"Pow", "Sqrt", "Reciprocal"} & rounded(tmp_path / "q.onnx")
    assert result.kept_float == {}


def tail(b: Builder, x: str) -> str:
    """Let a product follow, so that what is before is no decode."""
    b.channels[x] = 8
    return b.conv(x, 4, 1)


def swish(b: Builder, x: str) -> str:
    return str(b.node("Mul", x, b.node("Sigmoid", x)))


def hard_swish(b: Builder, x: str) -> str:
    gate = b.node("Clip", b.node("Add", x, b.constant(3.0)), b.constant(0.0), b.constant(6.0))
    return str(b.node("Div", b.node("Mul", x, gate), b.constant(6.0)))


def mish(b: Builder, x: str) -> str:
    return str(b.node("Mul", x, b.node("Tanh", b.node("Softplus", x))))


def sigmoid(b: Builder, x: str) -> str:
    return str(b.node("Div", b.constant(1.0), b.node("Add", b.node("Exp", b.node("Neg", x)), b.constant(1.0))))


FUNCTIONS: dict[str, Make] = {
    "gelu": gelu,
    "gelu by tanh": lambda b, x: gelu(b, x, by_tanh=True),
    "swish": swish,
    "hard swish": hard_swish,
    "mish": mish,
    "sigmoid": sigmoid,
    "scale": lambda b, x: str(b.node("Div", x, b.constant(8.0))),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_rounded_once(tmp_path: Path, name: str) -> None:
    """What is between its operators is not; the card has it as one table, with the session's bits."""
    b = Builder(21)
    model = b.save(tmp_path / "float.onnx", 13, y=tail(b, FUNCTIONS[name](b, b.conv("image", 8, gain=3.0))))
    result = triune.quantize(model, calibration=samples(16), output=tmp_path / "q.onnx")
    assert result.kept_float == {}
    nodes = onnx.load(tmp_path / "q.onnx").graph.node
    # The image, the convolution, the function, the result.
    assert sum(node.op_type == "QuantizeLinear" for node in nodes) == 4
    package = triune.compile(tmp_path / "q.onnx", output=tmp_path / "out")
    assert package.report.stayed == ()
    inputs = samples(2, seed=9)
    compared = triune.compare(tmp_path / "q.onnx", tmp_path / "out", inputs=inputs)
    # onnxruntime's sums in reals may be on the other side of a tie.
    assert compared.differences[0].outputs[0].equal > 0.9999
    session = triune.Session(tmp_path / "q.onnx")
    with Pipeline(tmp_path / "out" / "model.json", None, 1) as pipeline:
        for sample in inputs:
            np.testing.assert_array_equal(pipeline.run(sample, lambda *_: None)["y"], session.run(sample)[0])


STEEP: dict[str, Make] = {
    "exp": lambda b, x: str(b.node("Exp", x)),
    "inverse": lambda b, x: str(b.node("Div", b.constant(1.0), x)),
    "root": lambda b, x: str(b.node("Sqrt", x)),
    "square": lambda b, x: str(b.node("Pow", x, b.constant(2.0))),
}


@pytest.mark.parametrize("name", STEEP)
def test_what_is_steep_stays_in_float(tmp_path: Path, name: str) -> None:
    """Eight bits of such an operand say too little of the result."""
    b = Builder(23)
    model = b.save(tmp_path / "float.onnx", 13, y=tail(b, STEEP[name](b, b.conv("image", 8))))
    network = Network(onnx.load(model))
    join_groups(network)
    assert "Function" not in {node.op_type for node in network.nodes}


def joined(b: Builder, tmp_path: Path, **outputs: str) -> list[str]:
    network = Network(onnx.load(b.save(tmp_path / "float.onnx", 13, **outputs)))
    join_groups(network)
    return [node.op_type for node in network.nodes]


def test_what_others_read_is_rounded_for_them(tmp_path: Path) -> None:
    b = Builder(24)
    x = b.conv("image", 8)
    gate = b.node("Sigmoid", x)
    assert joined(b, tmp_path, y=b.node("Mul", x, gate), z=b.node("Neg", gate))[:3] == ["Conv", "Sigmoid", "Mul"]
    b = Builder(24)
    x = b.conv("image", 8)
    gate = b.node("Sigmoid", x)
    assert joined(b, tmp_path, y=b.node("Mul", x, gate), gate=gate) == ["Conv", "Sigmoid", "Mul"]


def test_gates_and_pictures_are_no_groups(tmp_path: Path) -> None:
    """A squeeze with excitation has integer forms, and what an image is scaled by costs the host nothing."""
    b = Builder(25)
    x = b.conv("image", 8)
    gate = b.node("Sigmoid", b.node("GlobalAveragePool", x))
    assert joined(b, tmp_path, y=b.node("Mul", x, gate)) == ["Conv", "GlobalAveragePool", "Sigmoid", "Mul"]
    b = Builder(25)
    x = b.node("Div", b.node("Sub", "image", b.constant(0.5)), b.constant(0.25))
    b.channels[x] = 3
    assert joined(b, tmp_path, y=b.conv(x, 8)) == ["Sub", "Div", "Conv"]


def test_a_limit_stays_with_its_product(tmp_path: Path) -> None:
    b = Builder(26)
    x = b.node("Relu", b.conv("image", 8))
    assert joined(b, tmp_path, y=b.node("Div", x, b.constant(2.0))) == ["Conv", "Relu", "Function"]


def test_normalizations_by_what_they_are(tmp_path: Path) -> None:
    b = Builder(27)
    x = b.conv("image", 8)
    y = b.node("Div", x, b.node("ReduceL2", x, axes=[1]))
    y = b.node("Mul", y, b.constant(np.full((8, 1, 1), 10.0)))
    assert joined(b, tmp_path, y=y) == ["Conv", "Normalization"]
    b = Builder(27)
    x = b.node("Div", b.conv("image", 8), b.constant(4.0))
    assert joined(b, tmp_path, y=softmax(b, x)) == ["Conv", "Function", "Softmax"]
    b = Builder(27)
    x = b.conv("image", 8)
    assert joined(b, tmp_path, y=normalized(b, x, 64)) == ["Conv", "LayerNormalization"]
    b = Builder(27)
    x = b.conv("image", 8)
    assert joined(b, tmp_path, y=normalized(b, x, 64, inverse=True)) == ["Conv", "LayerNormalization"]
    b = Builder(27)
    x = b.conv("image", 8)
    assert joined(b, tmp_path, y=normalized(b, x, 64, centred=False)) == ["Conv", "RMSNormalization"]


def _standardized(b: Builder, x: str, form: str) -> str:
    """Write a normalization over channels and places, with a factor and an addend for each channel."""

    def mean(name: str) -> str:
        if form != "means":
            return str(b.node("ReduceMean", name, axes=[1, 2, 3]))
        return str(b.node("ReduceMean", b.node("ReduceMean", name, axes=[1]), axes=[2, 3]))

    factor, addend = (b.constant(b.random.uniform(0.5, 1.5, (8, 1, 1))) for _ in range(2))
    x = b.node("Sub", x, mean(x))
    radicand = b.node("Add", mean(b.node("Mul", x, x)), b.constant(1e-6))
    if form == "inverse power":
        y = b.node("Mul", b.node("Mul", factor, b.node("Pow", radicand, b.constant(-0.5))), x)
    elif form == "power":
        y = b.node("Div", b.node("Mul", factor, x), b.node("Pow", radicand, b.constant(0.5)))
    elif form == "factor over root":
        y = b.node("Mul", x, b.node("Div", factor, b.node("Sqrt", radicand)))
    else:
        y = b.node("Div", b.node("Mul", factor, x), b.node("Sqrt", radicand))
    return str(b.node("Add", y, addend))


@pytest.mark.parametrize("form", ["factor first", "power", "inverse power", "factor over root", "means"])
def test_normalizations_multiplied_and_divided_in_any_order(tmp_path: Path, form: str) -> None:
    """However it is written, one operator is rounded, and the device has it."""
    b = Builder(31)
    y = _standardized(b, b.conv("image", 8), form)
    assert joined(b, tmp_path, y=y) == ["Conv", "LayerNormalization"]
    b = Builder(31)
    y = tail(b, _standardized(b, b.conv("image", 8), form))
    model = b.save(tmp_path / "float.onnx", 13, y=y)
    triune.quantize(model, calibration=samples(8), output=tmp_path / "q.onnx")
    (sample,) = samples(1, seed=9)
    expected, found = (onnxruntime.InferenceSession(model).run(None, sample)[0], triune.Session(model).run(sample)[0])
    np.testing.assert_allclose(found, expected, atol=1e-4)
    compiled = triune.compile(tmp_path / "q.onnx", target="metis", output=tmp_path / "package")
    assert compiled.report.share == 1
    assert not compiled.report.stayed


def test_factors_of_what_is_not_normalized_together_are_no_part(tmp_path: Path) -> None:
    b = Builder(31)
    x = b.conv("image", 8)
    x = b.node("Sub", x, b.node("ReduceMean", x, axes=[2, 3]))
    variance = b.node("ReduceMean", b.node("Mul", x, x), axes=[2, 3])
    root = b.node("Sqrt", b.node("Add", variance, b.constant(1e-6)))
    x = b.node("Mul", b.constant(b.random.uniform(0.5, 1.5, (8, 1, 1))), x)
    assert "LayerNormalization" not in joined(b, tmp_path, y=b.node("Div", x, root))


@pytest.mark.parametrize("at", range(9))
def test_any_value_of_a_group_can_be_an_output_too(tmp_path: Path, at: int) -> None:
    """What is made in float keeps its name as an output, and is rounded for those that read integers."""
    b = Builder(27)
    x = b.conv("image", 8)
    first = len(b.nodes)
    y = tail(b, normalized(b, x, 64, inverse=True))
    model = b.save(tmp_path / "float.onnx", 13, y=y, inner=b.nodes[first + at].output[0])
    with warnings.catch_warnings():
        # Piece by piece it is noise, which is told.
        warnings.simplefilter("ignore", errors.QuantizationWarning)
        triune.quantize(model, calibration=samples(2), output=tmp_path / "q.onnx")
    (sample,) = samples(1, seed=9)
    for path in (tmp_path / "q.onnx", model):
        found = onnxruntime.InferenceSession(path).run(["y", "inner"], sample)
        own = triune.Session(path).run(sample)
        assert [each.shape for each in found] == [each.shape for each in own]


def test_a_softmax_is_written_as_one(tmp_path: Path) -> None:
    b = Builder(28)
    x = softmax(b, b.conv("image", 8, gain=4.0))
    model = b.save(tmp_path / "float.onnx", 13, y=tail(b, x))
    triune.quantize(model, calibration=samples(8), output=tmp_path / "q.onnx")
    written = [node for node in onnx.load(tmp_path / "q.onnx").graph.node if not node.op_type.endswith("Linear")]
    assert [node.op_type for node in written] == ["Conv", "Softmax", "Conv"]
    (sample,) = samples(1, seed=9)
    found = onnxruntime.InferenceSession(tmp_path / "q.onnx").run(None, sample)[0]
    expected = onnxruntime.InferenceSession(model).run(None, sample)[0]
    assert np.abs(found - expected).max() < 0.05 * np.abs(expected).max()


def test_a_group_is_chosen_by_any_of_its_names(tmp_path: Path) -> None:
    b = Builder(29)
    x = gelu(b, b.conv("image", 8))
    model = b.save(tmp_path / "float.onnx", 13, y=tail(b, x))
    inner = next(node.name for node in b.nodes if node.op_type == "Erf")
    for name in (inner, f"{inner}:0"):
        result = triune.quantize(model, calibration=samples(4), output=tmp_path / "q.onnx", keep_float=[name])
        assert {key.partition("_")[0]: why for key, why in result.kept_float.items()} == dict.fromkeys(
            ("Div", "Erf", "Add", "Mul"), "asked for"
        )
    with pytest.raises(errors.ArgumentError, match=r"is it 'Erf_\d+'"):
        triune.quantize(model, calibration=samples(4), output=tmp_path / "q.onnx", keep_float=[inner + "_"])
