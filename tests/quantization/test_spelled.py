"""Operators that are quantized as what they stand for: attention, and divisions by a length."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import triune
from triune.cli import main
from triune.quantization._prepare import prepare
from triune.quantization._statistics import session

TARGETS = ("metis", "zg330", "buyi")
PLACES, WIDTH = 12, 32


class Graph:
    """A model of ``x`` and further inputs, put together node by node."""

    def __init__(self, *shape: int, opset: int = 23) -> None:
        self.random = np.random.default_rng(7)
        self.inputs = {"x": shape}
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._opset = opset

    def constant(self, values: Any) -> str:
        name = f"c{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def node(self, kind: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        result = f"t{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, inputs, [result], name or f"{kind}_{result}", **attributes))
        return result

    def linear(self, x: str, inputs: int, outputs: int) -> str:
        weights = self.random.normal(0, inputs**-0.5, (inputs, outputs)).astype(np.float32)
        return self.node("MatMul", x, self.constant(weights))

    def conv(self, x: str, inputs: int, outputs: int) -> str:
        weights = self.random.normal(0, (9 * inputs) ** -0.5, (outputs, inputs, 3, 3)).astype(np.float32)
        return self.node("Conv", x, self.constant(weights), pads=[1] * 4)

    def save(self, path: Path, result: str) -> Path:
        inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in self.inputs.items()]
        outputs = [helper.make_tensor_value_info(result, TensorProto.FLOAT, None)]
        graph = helper.make_graph(self._nodes, "g", inputs, outputs, self._constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self._opset)], ir_version=10)
        onnx.save(onnx.shape_inference.infer_shapes(model), path)
        return path

    def samples(self, count: int = 24) -> list[dict[str, Any]]:
        random = np.random.default_rng(3)
        return [
            {name: random.normal(0, 1, shape).astype(np.float32) for name, shape in self.inputs.items()}
            for _ in range(count)
        ]


def whole_everywhere(tmp_path: Path, model: Path, samples: list[dict[str, Any]], sqnr: float) -> None:
    """In float nothing changes; in 8 bits little; and everything is on every card, with a session's bits."""
    expected = session(str(model)).run(None, samples[0])
    spelled = prepare(model, tmp_path)
    for real, other in zip(session(spelled).run(None, samples[0]), expected, strict=True):
        np.testing.assert_allclose(real, other, rtol=1e-4, atol=1e-5)
    result = triune.quantize(model, calibration=samples, output=tmp_path / "q.onnx", float_from=[])
    assert result.kept_float == {}
    assert result.checks[0].sqnr > sqnr
    on_cpu = triune.Session(result.path).run(samples[0])[0]
    for target in TARGETS:
        report = triune.compile(result.path, output=tmp_path / target, target=target).report
        assert (report.segments, report.stayed) == (1, ())
    np.savez(tmp_path / "x.npz", **samples[0])
    made = tmp_path / "y.npz"
    assert main(["run", str(tmp_path / "metis"), "--input", str(tmp_path / "x.npz"), "--output", str(made)]) == 0
    (on_card,) = np.load(made).values()
    np.testing.assert_array_equal(on_card, on_cpu)


ATTENTION = {
    "flat": {},
    "heads in front": {"ranks": 4},
    "causal": {"is_causal": 1},
    "fewer keys' heads": {"shared": 2},
    "a scale": {"scale": 0.1},
    "a mask of truths": {"mask": np.arange(PLACES) < 9},
    "a mask of numbers": {"mask": np.where(np.arange(PLACES) < 9, 0, -np.inf).astype(np.float32)},
    "a mask that is given": {"mask": "input"},
}


@pytest.mark.filterwarnings("ignore::triune.errors.QuantizationWarning")
@pytest.mark.parametrize("case", ATTENTION)
def test_attention_is_whole_on_cards(tmp_path: Path, case: str) -> None:
    """As PyTorch's exporter writes it: one operator for products, Softmax and what hides scores."""
    options = dict(ATTENTION[case])
    heads, flat = 4, options.pop("ranks", 3) == 3
    shared, mask = options.pop("shared", heads), options.pop("mask", None)
    g = Graph(1, PLACES, WIDTH)
    q, k, v = (g.linear("x", WIDTH, WIDTH * own // heads) for own in (heads, shared, shared))
    if flat:
        options |= {"q_num_heads": heads, "kv_num_heads": shared}
    else:
        split = g.constant(np.array([0, 0, heads, WIDTH // heads]))
        q, k, v = (g.node("Transpose", g.node("Reshape", each, split), perm=[0, 2, 1, 3]) for each in (q, k, v))
    operands = [q, k, v]
    if isinstance(mask, str):
        g.inputs["mask"] = (PLACES, PLACES)
        operands.append("mask")
    elif mask is not None:
        operands.append(g.constant(np.broadcast_to(mask, (PLACES, PLACES))))
    made = g.node("Attention", *operands, **options)
    if not flat:
        made = g.node("Transpose", made, perm=[0, 2, 1, 3])
        made = g.node("Reshape", made, g.constant(np.array([0, 0, WIDTH])))
    model = g.save(tmp_path / "float.onnx", g.linear(made, WIDTH, 8))
    # Masks that are random numbers take steps from scores.
    whole_everywhere(tmp_path, model, g.samples(), 17 if case == "a mask that is given" else 22)


@pytest.mark.filterwarnings("ignore::triune.errors.QuantizationWarning")
def test_attention_that_is_more_stays_whole(tmp_path: Path) -> None:
    """With capped scores, or named as what is to stay in float, it is the operator that it was."""
    for number, (options, kept) in enumerate([({"softcap": 5.0}, ()), ({}, ("attention",)), ({}, ())]):
        g = Graph(1, PLACES, WIDTH)
        parts = [g.linear("x", WIDTH, WIDTH) for _ in range(3)]
        made = g.node("Attention", *parts, name="attention", q_num_heads=4, kv_num_heads=4, **options)
        model = g.save(tmp_path / f"{number}.onnx", g.linear(made, WIDTH, 8))
        result = triune.quantize(model, calibration=g.samples(), output=tmp_path / f"{number}_q.onnx", keep_float=kept)
        kinds = {node.op_type for node in onnx.load(result.path).graph.node}
        assert ("Attention" in kinds) == ("attention" in result.kept_float) == (number < 2)


@pytest.mark.filterwarnings("ignore::triune.errors.QuantizationWarning")
def test_what_branches_read_is_still_there(tmp_path: Path) -> None:
    """Nodes and constants that only a branch of an If reads are kept beside what is spelled out."""
    g = Graph(1, PLACES, WIDTH)
    outer, number = g.node("Tanh", "x"), g.constant(np.full(WIDTH, 2, np.float32))
    result = [helper.make_tensor_value_info("t", TensorProto.FLOAT, None)]
    branches = [
        helper.make_graph([helper.make_node(kind, [outer, number], ["t"], f"in_{kind}")], kind, [], result)
        for kind in ("Add", "Mul")
    ]
    normal = g.node("LpNormalization", g.linear("x", WIDTH, WIDTH), axis=-1, p=2)
    chosen = g.node("If", g.constant(np.array(True)), then_branch=branches[0], else_branch=branches[1])
    model = g.save(tmp_path / "float.onnx", g.node("Add", g.linear(normal, WIDTH, WIDTH), chosen))
    sample = g.samples(1)[0]
    expected = session(str(model)).run(None, sample)[0]
    np.testing.assert_allclose(session(prepare(model, tmp_path)).run(None, sample)[0], expected, rtol=1e-4, atol=1e-5)
    assert triune.quantize(model, calibration=g.samples(), output=tmp_path / "q.onnx").checks[0].sqnr > 25


def by_operator(g: Graph, x: str, axis: int) -> str:
    return g.node("LpNormalization", x, axis=axis, p=2)


def by_pytorch(g: Graph, x: str, axis: int) -> str:
    length = g.node("ReduceL2", x, g.constant(np.array([axis])), keepdims=1)
    floor = g.node("Clip", length, g.constant(np.float32(1e-12)))
    return g.node("Div", x, g.node("Expand", floor, g.node("Shape", x)))


def by_sums(g: Graph, x: str, axis: int) -> str:
    total = g.node("ReduceSum", g.node("Mul", x, x), g.constant(np.array([axis])), keepdims=1)
    return g.node("Div", x, g.node("Add", g.node("Sqrt", total), g.constant(np.float32(1e-10))))


def by_powers(g: Graph, x: str, axis: int) -> str:
    total = g.node("ReduceSum", g.node("Pow", x, g.constant(np.float32(2))), g.constant(np.array([axis])), keepdims=1)
    return g.node("Div", x, g.node("Sqrt", g.node("Add", total, g.constant(np.float32(1e-7)))))


@pytest.mark.filterwarnings("ignore::triune.errors.QuantizationWarning")
@pytest.mark.parametrize("axis", [1, -1])
@pytest.mark.parametrize("way", [by_operator, by_pytorch, by_sums, by_powers])
def test_divisions_by_a_length_are_whole_on_cards(tmp_path: Path, way: Any, axis: int) -> None:
    """Of channels, as descriptors have them, and of rows, as attention by cosines has them."""
    if axis == 1:
        g = Graph(1, 3, 10, 10, opset=18)
        model = g.save(tmp_path / "float.onnx", g.conv(way(g, g.conv("x", 3, 16), axis), 16, 8))
    else:
        g = Graph(1, PLACES, WIDTH, opset=18)
        model = g.save(tmp_path / "float.onnx", g.linear(way(g, g.linear("x", WIDTH, 24), axis), 24, 8))
    whole_everywhere(tmp_path, model, g.samples(), 25)
    zeros = {name: np.zeros(shape, np.float32) for name, shape in g.inputs.items()}
    assert np.isfinite(triune.Session(tmp_path / "q.onnx").run(zeros)[0]).all()


def test_divisions_by_something_else_stay(tmp_path: Path) -> None:
    """By another value's length, one with a high floor, one whose axes are gone, and one of more axes than the value."""
    for kind in ("other", "floor", "flat", "wider"):
        g = Graph(1, 3, 10, 10, opset=18)
        x, y = g.conv("x", 3, 16), g.conv("x", 3, 16)
        length = g.node(
            "ReduceL2", y if kind == "other" else x, g.constant(np.array([1])), keepdims=int(kind != "flat")
        )
        if kind == "floor":
            length = g.node("Clip", length, g.constant(np.float32(0.5)))
        if kind == "wider":
            length = g.node("Max", g.constant(np.full((1, 1, 1, 1, 1), 1e-9, np.float32)), length)
        model = g.save(tmp_path / f"{kind}.onnx", g.node("Div", x, length))
        kinds = {node.op_type for node in prepare(model, tmp_path).graph.node}
        assert "ReduceL2" in kinds, kind
        assert "ReduceMean" not in kinds, kind
