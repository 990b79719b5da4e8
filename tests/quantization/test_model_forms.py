"""Float models as exporters leave them: data in other files, and names, types and operators that onnx does not know."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import triune
from triune import errors
from triune.cli import main
from triune.quantization import _prepare, _quantize
from triune.quantization._check import check_outputs
from triune.quantization._statistics import session

RANDOM = np.random.default_rng(5)
WEIGHTS = {
    "w": RANDOM.normal(0, 0.2, (64, 3, 3, 3)).astype(np.float32),
    "v": RANDOM.normal(0, 0.2, (8, 64, 1, 1)).astype(np.float32),
}
IMAGES = RANDOM.standard_normal((6, 3, 8, 8)).astype(np.float32)


def save(
    path: Path,
    nodes: list[Any],
    weights: dict[str, Any] | None = None,
    *,
    shapes: dict[str, list[int] | None] | None = None,
    outputs: tuple[str, ...] = ("y",),
    kind: int = TensorProto.FLOAT,
    opset: int = 17,
    **options: Any,
) -> Path:
    """Write a model of `nodes` from ``x`` to `outputs`, of which nothing says the shape unless `shapes` does."""
    known: dict[str, list[int] | None] = {"x": [1, 3, 8, 8], **(shapes or {})}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", kind, known["x"])],
        [helper.make_tensor_value_info(name, kind, known.get(name)) for name in outputs],
        [numpy_helper.from_array(values, name) for name, values in (WEIGHTS if weights is None else weights).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    onnx.save(model, path, **options)
    return path


def convolutions(middle: str = "c", limited: str = "r", *, names: tuple[str, ...] = ("", "", "")) -> list[Any]:
    return [
        helper.make_node("Conv", ["x", "w"], [middle], name=names[0]),
        helper.make_node("Relu", [middle], [limited], name=names[1]),
        helper.make_node("Conv", [limited, "v"], ["y"], name=names[2]),
    ]


def feeds(images: Any = IMAGES) -> list[dict[str, Any]]:
    return [{"x": image[None]} for image in images]


def quantized(model: Path, **options: Any) -> triune.QuantizationResult:
    return triune.quantize(model, calibration=feeds(), output=model.with_suffix(".q.onnx"), **options)


def run(model: Path, image: Any = IMAGES[:1]) -> Any:
    return triune.Session(model).run({"x": image})[0]


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("threshold", [0, 1024])
def test_weights_in_another_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, relative: bool, threshold: int
) -> None:
    """The same file comes of it as of a model with all inside."""
    inside = save(tmp_path / "inside.onnx", convolutions())
    (tmp_path / "apart").mkdir()
    apart = save(
        tmp_path / "apart" / "float.onnx",
        convolutions(),
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=threshold,
    )
    assert (tmp_path / "apart" / "weights.bin").exists()
    monkeypatch.chdir(tmp_path)
    quantized(inside)
    quantized(apart.relative_to(tmp_path) if relative else apart)
    assert (tmp_path / "apart" / "float.q.onnx").read_bytes() == (tmp_path / "inside.q.onnx").read_bytes()


@pytest.mark.parametrize("newest", [True, False], ids=["of the newest set", "of a set that is taken for unknown"])
def test_operator_sets_that_onnxruntime_does_not_know(
    newest: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that `onnx.helper` makes is of the newest operator set unless it says another one."""
    opset = onnx.defs.onnx_opset_version() if newest else 18
    if not newest:
        monkeypatch.setattr(_prepare, "_is_known", lambda version: version < 18)
    then = helper.make_graph(
        [helper.make_node("Relu", ["b"], ["t"])],
        "then",
        [],
        [helper.make_tensor_value_info("t", TensorProto.FLOAT, None)],
    )
    otherwise = helper.make_graph(
        [helper.make_node("Neg", ["b"], ["e"])],
        "otherwise",
        [],
        [helper.make_tensor_value_info("e", TensorProto.FLOAT, None)],
    )
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("If", ["yes"], ["c"], then_branch=then, else_branch=otherwise),
        helper.make_node("Conv", ["c", "v"], ["y"]),
    ]
    model = save(tmp_path / "model.onnx", nodes, {**WEIGHTS, "yes": np.array(True)}, opset=opset)
    result = tmp_path / "int8.onnx"
    triune.quantize(model, calibration=feeds(), output=result)
    (version,) = (entry.version for entry in onnx.load(result).opset_import if entry.domain == "")
    if newest:
        assert onnxruntime.InferenceSession(result).run(None, {"x": IMAGES[:1]})[0].shape == (1, 8, 6, 6)
    else:
        # If is of 16, the others are older.
        assert version == 16
    assert np.abs(run(result) - run(model)).max() < 0.1 * np.abs(run(model)).max()


def test_outputs_that_onnx_refuses(tmp_path: Path) -> None:
    """Nothing says the shape of a loop's result, and one output stands twice: both are so in the float model, too."""
    values = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Conv", ["s", "u"], ["t"], pads=[1] * 4)],
        "body",
        [values("i", TensorProto.INT64, []), values("go", TensorProto.BOOL, []), values("s", TensorProto.FLOAT, None)],
        [values("on", TensorProto.BOOL, []), values("t", TensorProto.FLOAT, None)],
    )
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1] * 4),
        helper.make_node("Loop", ["n", "", "a"], ["l"], body=body),
        helper.make_node("Conv", ["l", "u"], ["y"], pads=[1] * 4),
    ]
    weights = {
        "w": WEIGHTS["w"][:8],
        "u": RANDOM.normal(0, 0.1, (8, 8, 3, 3)).astype(np.float32),
        "n": np.array(3, np.int64),
    }
    loop = save(tmp_path / "loop.onnx", nodes, weights)
    twice = save(tmp_path / "twice.onnx", convolutions(), outputs=("y", "y"))
    for model in (loop, twice):
        result = quantized(model)
        assert "onnx's checker refuses the model, as it does the float one (Field 'shape' of" in result.notes[-1]
        reals, found = run(model), run(result.path)
        assert found.shape == reals.shape
        assert check_outputs([{"y": reals}], [{"y": found}], ["y"])[0].sqnr > 20


def test_what_quantization_spoils_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault that the float model has not is one of ours; one beside the float model's is found by onnxruntime."""
    write = _quantize.write

    def broken(*arguments: Any) -> Any:
        written = write(*arguments)
        written.model.graph.node.add(op_type="Relu", name="more", input=["nowhere"], output=["there"])
        return written

    monkeypatch.setattr(_quantize._Work, "check", lambda *_: [])
    monkeypatch.setattr(_quantize, "write", broken)
    with pytest.raises(errors.InternalError, match=r"what became of it is no valid model: .*nowhere"):
        quantized(save(tmp_path / "good.onnx", convolutions()))
    with pytest.raises(errors.UnsupportedError, match=r"onnxruntime cannot load what became of it: .*nowhere"):
        quantized(save(tmp_path / "twice.onnx", convolutions(), outputs=("y", "y")))
    assert not list(tmp_path.glob("*.q.onnx"))


@pytest.mark.parametrize(
    ("kind", "opset"), [("RMSNormalization", 23), ("SimplifiedLayerNormalization", 17), ("LayerNormalization", 17)]
)
def test_normalizations_are_integer_operators(tmp_path: Path, kind: str, opset: int) -> None:
    """Also what onnxruntime has in onnx's domain without telling it: all is one segment of the card, with a session's bits."""
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["p"]),
        helper.make_node(kind, ["p", "s"], ["n"], axis=-1, epsilon=1e-5),
        helper.make_node("MatMul", ["n", "b"], ["y"]),
    ]
    weights = {name: RANDOM.normal(0, 0.1, (32, 32)).astype(np.float32) for name in "ab"}
    weights["s"] = RANDOM.uniform(0.5, 1.5, 32).astype(np.float32)
    model = save(tmp_path / "float.onnx", nodes, weights, shapes={"x": [1, 16, 32], "y": [1, 16, 32]}, opset=opset)
    samples = RANDOM.standard_normal((8, 16, 32)).astype(np.float32)
    result = triune.quantize(model, calibration=feeds(samples), output=tmp_path / "q.onnx")
    assert result.kept_float == {}
    assert result.checks[0].sqnr > 28
    assert kind in {node.op_type for node in onnx.load(result.path).graph.node}
    report = triune.compile(result.path, output=tmp_path / "package", target="metis").report
    assert (report.segments, report.stayed) == (1, ())
    np.savez(tmp_path / "x.npz", x=samples)
    for program in (result.path, tmp_path / "package"):
        assert main(["run", str(program), "--input", str(tmp_path / "x.npz"), "--output", f"{program}.npz"]) == 0
    on_card, on_cpu = (np.load(f"{program}.npz")["y"] for program in (tmp_path / "package", result.path))
    np.testing.assert_array_equal(on_card, on_cpu)


@pytest.mark.parametrize("shape", [[1, 8, 6, 5], [1, 8, 40]])
@pytest.mark.parametrize(
    ("kind", "opset"), [("instance", 13), ("instance", 17), ("group", 18), ("group", 21), ("plain", 17)]
)
def test_normalizations_over_places_are_integer_operators(
    tmp_path: Path, kind: str, opset: int, shape: list[int]
) -> None:
    """As style transfer and diffusion have them: what is computed is the same, all of it on the card."""
    parameters = {"s": RANDOM.uniform(0.5, 1.5, 8).astype(np.float32), "t": RANDOM.normal(0, 0.3, 8).astype(np.float32)}
    if kind == "plain":
        parameters = {"s": np.ones(8, np.float32), "t": np.zeros(8, np.float32)}
    attributes: dict[str, Any] = {"epsilon": 1e-4}
    if kind == "group":
        attributes["num_groups"] = 2
        if opset < 21:
            parameters = {name: values[:2] for name, values in parameters.items()}
    operator = "GroupNormalization" if kind == "group" else "InstanceNormalization"
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["p"]),
        helper.make_node(operator, ["p", "s", "t"], ["n"], name="normal", **attributes),
        helper.make_node("Conv", ["n", "b"], ["y"]),
    ]
    places = [1] * (len(shape) - 2)
    weights = parameters | {name: RANDOM.normal(0, 0.4, (8, 8, *places)).astype(np.float32) for name in "ab"}
    model = save(tmp_path / "float.onnx", nodes, weights, shapes={"x": shape, "y": shape}, opset=opset)
    samples = RANDOM.standard_normal((8, *shape[1:])).astype(np.float32)
    samples *= RANDOM.uniform(0.5, 2, (8, 8, *places)).astype(np.float32)
    result = triune.quantize(model, calibration=feeds(samples), output=tmp_path / "q.onnx")
    assert result.kept_float == {}
    assert result.checks[0].sqnr > 25
    report = triune.compile(result.path, output=tmp_path / "package", target="metis").report
    assert (report.segments, report.stayed) == (1, ())
    prepared = _prepare.prepare(model, tmp_path)
    (wanted,), (found,) = (session(each).run(["y"], {"x": samples[:1]}) for each in (onnx.load(model), prepared))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4)


def test_rows_that_a_choice_puts_in_order(tmp_path: Path) -> None:
    """Noise turns their order round, which is no fault of a layer: what is in front of the choice is to be looked at."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["c", "v"], ["d"]),
        helper.make_node("Reshape", ["d", "rows"], ["scores"]),
        helper.make_node("TopK", ["scores", "most"], ["best", "places"], name="choice"),
        helper.make_node("Cast", ["places"], ["y"], to=TensorProto.FLOAT),
    ]
    shapes: dict[str, list[int] | None] = {"y": [1, 100]}
    weights = WEIGHTS | {"rows": np.array([1, -1]), "most": np.array([100])}
    model = save(tmp_path / "float.onnx", nodes, weights, shapes=shapes)
    with pytest.warns(
        errors.QuantizationWarning, match=r"order that node 'choice' \(TopK\) chooses.*--outputs scores ends"
    ):
        triune.quantize(model, calibration=feeds(IMAGES), output=tmp_path / "q.onnx")


@pytest.mark.parametrize("decoder", [False, True])
def test_rows_that_are_fetched_in_an_order(decoder: bool, tmp_path: Path) -> None:
    """What is fetched is to be looked at, not what chooses; not if products follow, whose network that would be the end of."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["c", "v"], ["d"]),
        helper.make_node("Reshape", ["d", "rows"], ["row"]),
        helper.make_node("ReduceMax", ["row"], ["scores"], axes=[2], keepdims=0),
        helper.make_node("TopK", ["scores", "most"], ["best", "places"], name="choice"),
        helper.make_node("Squeeze", ["places", "first"], ["one"]),
        helper.make_node("Gather", ["row", "one"], ["fetched"], axis=1),
        helper.make_node("MatMul", ["fetched", "m"], ["y"])
        if decoder
        else helper.make_node("Identity", ["fetched"], ["y"]),
    ]
    shapes: dict[str, list[int] | None] = {"y": [1, 100, 4]}
    weights = WEIGHTS | {"rows": np.array([1, -1, 4]), "most": np.array([100]), "first": np.array([0])}
    weights["m"] = RANDOM.normal(0, 1, (4, 4)).astype(np.float32)
    model = save(tmp_path / "float.onnx", nodes, weights, shapes=shapes)
    with pytest.warns(errors.QuantizationWarning, match="order that node 'choice'") as told:
        triune.quantize(model, calibration=feeds(IMAGES), output=tmp_path / "q.onnx")
    text = str(told[0].message)
    assert ("--outputs row ends" in text) != decoder
    assert "--outputs scores" not in text


def test_constants_that_onnxruntime_makes_again(tmp_path: Path) -> None:
    """Its passes make products of sums of a text network twice, with constants of the same names."""
    sizes = {"q": (8, 8), "k": (8, 8), "v": (8, 8), "o": (8, 8), "up": (8, 16), "down": (16, 8)}
    weights = {name: RANDOM.normal(0, 0.4, size).astype(np.float32) for name, size in sizes.items()}
    weights |= {f"{name}_bias": RANDOM.normal(0, 0.1, size[1]).astype(np.float32) for name, size in sizes.items()}
    weights |= {"ones": np.ones(8, np.float32), "root": np.array(2, np.float32)}
    weights |= {"split": np.array([1, 6, 2, 4]), "joined": np.array([1, 6, 8])}

    def linear(x: str, name: str) -> list[Any]:
        product = helper.make_node("MatMul", [x, name], [f"{name}_product"])
        return [product, helper.make_node("Add", [f"{name}_bias", f"{name}_product"], [f"{name}_out"])]

    nodes = [helper.make_node("LayerNormalization", ["x", "ones"], ["normal"])]
    for name, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        nodes += linear("normal", name)
        nodes.append(helper.make_node("Reshape", [f"{name}_out", "split"], [f"{name}_split"]))
        nodes.append(helper.make_node("Transpose", [f"{name}_split"], [f"{name}_heads"], perm=order))
    nodes += [
        helper.make_node("MatMul", ["q_heads", "k_heads"], ["products"]),
        helper.make_node("Div", ["products", "root"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["shares"]),
        helper.make_node("MatMul", ["shares", "v_heads"], ["mixed"]),
        helper.make_node("Transpose", ["mixed"], ["rows"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["rows", "joined"], ["whole"]),
        *linear("whole", "o"),
        helper.make_node("Add", ["o_out", "normal"], ["sum"]),
        helper.make_node("LayerNormalization", ["sum", "ones"], ["normal2"]),
        *linear("normal2", "up"),
        helper.make_node("Relu", ["up_out"], ["positive"]),
        *linear("positive", "down"),
        helper.make_node("Identity", ["down_out"], ["y"]),
    ]
    model = save(tmp_path / "float.onnx", nodes, weights, shapes={"x": [1, 6, 8]})
    samples = [{"x": RANDOM.standard_normal((1, 6, 8)).astype(np.float32)} for _ in range(8)]
    result = triune.quantize(model, calibration=samples, output=tmp_path / "int8.onnx")
    assert result.checks[0].sqnr > 20
    onnxruntime.InferenceSession(result.path.read_bytes())


def test_what_follows_an_operator_of_onnxruntime_is_quantized(tmp_path: Path) -> None:
    """The types behind an operator of another domain are known as well."""
    nodes = convolutions()
    nodes[1] = helper.make_node("QuickGelu", ["c"], ["r"], domain="com.microsoft")
    model = save(tmp_path / "float.onnx", nodes)
    loaded = onnx.load(model)
    loaded.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    onnx.save(loaded, model)
    result = quantized(model)
    assert list(result.kept_float.values()) == ["has no integer form"]
    assert sum(node.op_type == "QuantizeLinear" for node in onnx.load(result.path).graph.node) >= 3


@pytest.mark.parametrize("options", [{}, {"act": "s16"}, {"mixed": "16", "bound": 45.0}])
def test_names_like_those_of_the_quantizer(tmp_path: Path, options: dict[str, Any]) -> None:
    """Inputs and outputs keep theirs, and the numbers are those of the model with other names."""
    names = ("x_quantized", "x_DequantizeLinear_Output")
    nodes = ("x_quantized_QuantizeLinear", "y_DequantizeLinear", "x_dequantized_DequantizeLinear")
    plain = save(tmp_path / "plain.onnx", convolutions())
    odd = save(tmp_path / "odd.onnx", convolutions(*names, names=nodes))
    shared = {"w": WEIGHTS["w"], "x_scale": WEIGHTS["v"]}
    convs = convolutions("w_quantized", "y_bias")
    convs[-1].input[1] = "x_scale"
    other = save(tmp_path / "other.onnx", convs, shared)
    expected = run(quantized(plain, **options).path)
    for model in (odd, other):
        found = quantized(model, **options).path
        session = onnxruntime.InferenceSession(found, providers=["CPUExecutionProvider"])
        assert [value.name for value in (*session.get_inputs(), *session.get_outputs())] == ["x", "y"]
        np.testing.assert_array_equal(run(found), expected)


def test_names_that_unnamed_operators_would_get(tmp_path: Path) -> None:
    """An operator without a name gets one that no other has."""
    model = save(tmp_path / "float.onnx", convolutions(names=("Conv_2", "", "")))
    assert not quantized(model).checks[0].fault


def test_floats_of_other_types(tmp_path: Path) -> None:
    """Of float16 becomes float32, and inputs and outputs stay; of double nobody makes anything, and that is said."""
    halves = {name: values.astype(np.float16) for name, values in WEIGHTS.items()}
    model = save(tmp_path / "half.onnx", convolutions(), halves, kind=TensorProto.FLOAT16)
    images = IMAGES.astype(np.float16)
    result = triune.quantize(model, calibration=feeds(images), output=tmp_path / "q.onnx")
    assert result.checks[0].sqnr > 30
    found = run(result.path, images[:1])
    assert found.dtype == np.float16
    assert check_outputs([{"y": run(model, images[:1])}], [{"y": found}], ["y"])[0].sqnr > 30
    report = triune.compile(result.path, output=tmp_path / "package", target="metis").report
    assert report.segments == 1
    doubles = {name: values.astype(np.float64) for name, values in WEIGHTS.items()}
    model = save(tmp_path / "double.onnx", convolutions(), doubles, kind=TensorProto.DOUBLE)
    with pytest.raises(errors.UnsupportedError, match=r"it computes on double, .* convert it to that"):
        triune.quantize(model, calibration=feeds(IMAGES.astype(np.float64)), output=tmp_path / "q.onnx")


@pytest.mark.parametrize("opset", [13, 17])
def test_what_moves_halves_and_normalizes_them_is_on_the_card(tmp_path: Path, opset: int) -> None:
    """onnxruntime has kernels on float16 for these, and none for products: its own casts would be all over the network."""
    nodes = [
        helper.make_node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16),
        helper.make_node("MatMul", ["h", "a"], ["p"]),
        helper.make_node("Transpose", ["p"], ["t"], perm=[0, 2, 1]),
        helper.make_node("Reshape", ["t", "shape"], ["r"]),
        helper.make_node("LayerNormalization" if opset > 13 else "Relu", ["r", "s"] if opset > 13 else ["r"], ["n"]),
        helper.make_node("Constant", [], ["half"], value=numpy_helper.from_array(np.array(0.5, np.float16))),
        helper.make_node("Mul", ["n", "half"], ["m"]),
        helper.make_node("MatMul", ["m", "b"], ["y"]),
    ]
    weights = {name: RANDOM.normal(0, 0.3, (16, 16)).astype(np.float16) for name in "ab"}
    weights |= {"s": np.ones(16, np.float16), "shape": np.array([1, 16, 16])}
    model = save(tmp_path / "half.onnx", nodes, weights, shapes={"x": [1, 16, 16]}, opset=opset)
    loaded = onnx.load(model)
    loaded.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    loaded.graph.value_info.append(helper.make_tensor_value_info("n", TensorProto.FLOAT16, [1, 16, 16]))
    onnx.save(loaded, model)
    samples = RANDOM.standard_normal((8, 16, 16)).astype(np.float32)
    result = triune.quantize(model, calibration=feeds(samples), output=tmp_path / "q.onnx")
    assert result.checks[0].sqnr > 28
    report = triune.compile(result.path, output=tmp_path / "package", target="metis").report
    assert report.segments == 1
    assert {operator.op for operator in report.stayed} <= {"Cast"}
    wanted, found = (
        onnxruntime.InferenceSession(each).run(["y"], {"x": samples[:1]})[0] for each in (model, result.path)
    )
    assert found.dtype == wanted.dtype == np.float16
    assert check_outputs([{"y": wanted}], [{"y": found}], ["y"])[0].sqnr > 28


def test_what_stays_in_float_for_its_type(tmp_path: Path) -> None:
    """A part on doubles is no reason to refuse the rest, and is told."""
    nodes = [
        *convolutions()[:2],
        helper.make_node("Conv", ["r", "v"], ["e"]),
        helper.make_node("Cast", ["e"], ["d"], to=TensorProto.DOUBLE),
        helper.make_node("Sigmoid", ["d"], ["g"], name="gate"),
        helper.make_node("Cast", ["g"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Conv", ["f", "u"], ["y"]),
    ]
    weights = {**WEIGHTS, "u": RANDOM.normal(0, 0.2, (4, 8, 1, 1)).astype(np.float32)}
    result = quantized(save(tmp_path / "float.onnx", nodes, weights))
    assert result.kept_float["gate"] == "computes on double, not float32"
    assert len(result.kept_float) == 3


def test_what_onnxruntime_says_is_not_said_twice(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Neither its logger's tracebacks nor its own lines come before the error, which has the reason; loggers are as before."""
    twins = save(tmp_path / "twins.onnx", convolutions(names=("a", "a", "b")))
    table = {"t": RANDOM.standard_normal((20, 8)).astype(np.float32), "g": np.eye(8, dtype=np.float32)}
    nodes = [
        helper.make_node("Cast", ["x"], ["i"], to=TensorProto.INT64),
        helper.make_node("Gather", ["t", "i"], ["e"]),
        helper.make_node("MatMul", ["e", "g"], ["y"]),
    ]
    outside = save(tmp_path / "outside.onnx", nodes, table, shapes={"x": [1, 5]})
    np.savez(tmp_path / "images.npz", x=IMAGES)
    np.savez(tmp_path / "indices.npz", x=np.arange(30, dtype=np.float32).reshape(6, 5))
    level = logging.getLogger("onnxruntime").level
    for model, samples, reason in (
        (twins, "images.npz", "two nodes with same node name (a)"),
        (outside, "indices.npz", "indices element out of data bounds"),
    ):
        assert main(["quantize", str(model), "--calibrate", str(tmp_path / samples), "-o", os.devnull]) == 1
        (line,) = capfd.readouterr().err.splitlines()
        assert line.startswith(f"triune: error: {model}: onnxruntime cannot quantize it: ")
        assert reason in line
    assert caplog.records == []
    assert logging.getLogger("onnxruntime").level == level
