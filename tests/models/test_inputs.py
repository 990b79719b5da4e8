"""Inputs that a model has constants for: given, or left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import triune

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

Array = np.ndarray[Any, Any]


def floats(*values: float) -> Array:
    return np.array(values, np.float32)


def file(text: str) -> bytes:
    return bytes(onnx.parser.parse_model(text).SerializeToString())


def model() -> bytes:
    made = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[N] x, float[2] by = {2, 3}, float[1] more = {10}) => (float[K] y) {
            product = Mul (x, by)
            y = Add (product, more)
        }""")
    made.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "M"
    return bytes(made.SerializeToString())


@pytest.mark.parametrize("names", [(), ("by",), ("more",), ("by", "more")])
def test_constants_stand_for_inputs_that_are_left_out(names: tuple[str, ...]) -> None:
    session = triune.Session(model())
    assert [info.name for info in session.inputs] == ["x"]
    assert [(info.name, info.shape) for info in session.defaults] == [("by", ("M",)), ("more", (1,))]
    theirs = onnxruntime.InferenceSession(model(), providers=["CPUExecutionProvider"])
    other = {"by": floats(5, 7), "more": floats(-1)}
    for x in (floats(1, 2), floats(4, 8)):
        feeds = {"x": x, **{name: other[name] for name in names}}
        np.testing.assert_array_equal(session.run(feeds)[0], theirs.run(None, feeds)[0])
        np.testing.assert_array_equal(session.run({"x": x})[0], theirs.run(None, {"x": x})[0])


def test_what_is_given_may_have_other_extents_where_they_are_open() -> None:
    session = triune.Session(model())
    x = floats(1, 2, 3)
    np.testing.assert_array_equal(session.run({"x": x, "by": floats(1, 2, 3)})[0], x * x + 10)
    with pytest.raises(triune.errors.ArgumentError, match=r"input 'more': expected shape \(1\)"):
        session.run({"x": x, "by": x, "more": x})
    with pytest.raises(triune.errors.ArgumentError, match="unknown input 'less'; the model has x"):
        session.run({"x": x, "less": x})


def test_constants_that_make_operators_what_they_are_stay() -> None:
    session = triune.Session(
        file("""
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[N] x, bool on, float[1] by = {2}) => (float[N] y) {
            y = If (on) <
                then_branch = yes () => (float[N] a) { a = Mul (x, by) },
                else_branch = no () => (float[N] b) { b = Identity (x) }
            >
        }""")
    )
    feeds = {"x": floats(1, 2), "on": np.array(True)}
    np.testing.assert_array_equal(session.run(feeds)[0], floats(2, 4))
    with pytest.raises(triune.errors.Error, match="'by' has a constant of the file, which made operators"):
        session.run({**feeds, "by": floats(5)})


def test_a_model_of_another_domain_alone_names_what_it_lacks() -> None:
    helper = onnx.helper
    node = helper.make_node("Crusher", ["x"], ["y"], domain="org.example", threshold=0.5)
    info = [helper.make_tensor_value_info(name, 1, [2]) for name in "xy"]
    graph = helper.make_graph([node], "g", info[:1], info[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("org.example", 3)])
    with pytest.raises(triune.errors.UnsupportedError, match=r"\(Crusher\): operator of domain 'org.example'"):
        triune.Session(model.SerializeToString())
