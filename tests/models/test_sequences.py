"""Models that take and give lists of tensors, and values that may be missing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import triune

onnx = pytest.importorskip("onnx")

Array = np.ndarray[Any, Any]


def session(text: str) -> triune.Session:
    return triune.Session(onnx.parser.parse_model(text).SerializeToString())


def floats(*values: float) -> Array:
    return np.array(values, np.float32)


def same(mine: list[Array], theirs: list[Array]) -> None:
    assert isinstance(mine, list)
    assert len(mine) == len(theirs)
    for a, b in zip(mine, theirs, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def test_lists_come_and_go() -> None:
    made = session("""
        <ir_version: 10, opset_import: ["" : 18]>
        g (seq(float[N]) x, float[M] more, int64 at) => (seq(float[K]) y, seq(float[N]) same, int64 count, float[L] whole) {
            y = SequenceInsert (x, more, at)
            same = Identity (x)
            count = SequenceLength (y)
            whole = ConcatFromSequence <axis = 0> (y)
        }""")
    assert [(info.name, info.kind) for info in made.inputs] == [("x", "sequence"), ("more", "tensor"), ("at", "tensor")]
    assert [info.kind for info in made.outputs] == ["sequence", "sequence", "tensor", "tensor"]
    assert "x float32 sequence" in repr(made)
    given = [floats(1, 2), floats(), floats(3)]
    y, kept, count, whole = made.run({"x": given, "more": floats(7), "at": np.array(-1)})
    same(y, [floats(1, 2), floats(), floats(7), floats(3)])
    same(kept, given)
    assert count == 4
    np.testing.assert_array_equal(whole, floats(1, 2, 7, 3))
    # What is given is copied: no later run sees a change.
    given[0][0] = 9
    assert kept[0][0] == 1
    (y, kept, _, _) = made.run({"x": [], "more": floats(7), "at": np.array(0)})
    same(y, [floats(7)])
    same(kept, [])


def test_a_network_for_each_element() -> None:
    made = session("""
        <ir_version: 10, opset_import: ["" : 18]>
        g (seq(float[N]) x, seq(float[N]) y, float[1] by) => (seq(float[N]) sums, seq(int64[1]) sizes) {
            sums, sizes = SequenceMap (x, y, by) <
                body = each (float[N] a, float[N] b, float[1] c) => (float[N] sum, int64[1] size) {
                    scaled = Mul (b, by)
                    sum0 = Add (a, scaled)
                    sum = Sub (sum0, c)
                    size = Shape (a)
                }
            >
        }""")
    x, y = [floats(1, 2), floats(3)], [floats(10, 20), floats(30)]
    sums, sizes = made.run({"x": x, "y": y, "by": floats(2)})
    same(sums, [floats(19, 40), floats(61)])
    same(sizes, [np.array([2]), np.array([1])])
    with pytest.raises(triune.errors.Error, match=r"\(SequenceMap\): operand 1 has 1 elements, not 2"):
        made.run({"x": x, "y": y[:1], "by": floats(2)})


def test_what_may_be_missing() -> None:
    made = session("""
        <ir_version: 10, opset_import: ["" : 18]>
        g (optional(float[N]) x, optional(seq(float[N])) xs) => (bool there, bool list, optional(float[N]) same) {
            there = OptionalHasElement (x)
            list = OptionalHasElement (xs)
            same = Identity (x)
        }""")
    assert [info.kind for info in made.inputs] == ["optional", "optional sequence"]
    assert [bool(value) for value in made.run({"x": None, "xs": None})[:2]] == [False, False]
    there, listed, value = made.run({"x": floats(1), "xs": [floats(2)]})
    assert there
    assert listed
    np.testing.assert_array_equal(value, floats(1))
    assert made.run({"x": None, "xs": []})[2] is None


def test_loops_carry_lists() -> None:
    made = session("""
        <ir_version: 10, opset_import: ["" : 18]>
        g (int64 rounds, bool on, seq(float[N]) start) => (seq(float[N]) end) {
            end = Loop (rounds, on, start) <
                body = round (int64 i, bool goes, seq(float[N]) state) => (bool same, seq(float[N]) next) {
                    same = Identity (goes)
                    number = Cast <to = 1> (i)
                    axes = Constant <value_ints = [0]> ()
                    list = Unsqueeze (number, axes)
                    next = SequenceInsert (state, list)
                }
            >
        }""")
    (end,) = made.run({"rounds": np.array(3), "on": np.array(True), "start": [floats(9)]})
    same(end, [floats(9), floats(0), floats(1), floats(2)])
    (end,) = made.run({"rounds": np.array(0), "on": np.array(True), "start": []})
    same(end, [])


WRONG: list[tuple[object, str]] = [
    (floats(1), "input 'x': expected a list of arrays of float32, got ndarray"),
    (None, "input 'x': expected a list of arrays of float32, got NoneType"),
    ([floats(1), np.zeros(1)], r"input 'x'\[1\]: expected dtype float32, got float64"),
]


@pytest.mark.parametrize(("value", "words"), WRONG)
def test_what_is_no_list_of_such_tensors_is_refused(value: Any, words: str) -> None:
    made = session("""
        <ir_version: 10, opset_import: ["" : 18]>
        g (seq(float[N]) x) => (seq(float[N]) y) { y = Identity (x) }""")
    with pytest.raises(triune.errors.ArgumentError, match=words):
        made.run({"x": value})


def test_networks_within_networks_may_be_many() -> None:
    helper = onnx.helper
    info = [helper.make_tensor_value_info("y", 1, ["n"])]
    inner = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "inner", [], info)
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "other", [], info)
    for depth in range(20):
        names = [f"{name}{depth}" for name in ("shape", "first", "is")]
        nodes = [
            helper.make_node("Shape", ["x"], names[:1]),
            helper.make_node("ReduceSum", names[:1], names[1:2], keepdims=0),
            helper.make_node("Equal", [names[1], "two"], names[2:]),
            helper.make_node("If", names[2:], ["y"], then_branch=inner, else_branch=other),
        ]
        inner = helper.make_graph(nodes, f"depth{depth}", [], info)
    x = helper.make_tensor_value_info("x", 1, ["n"])
    two = onnx.numpy_helper.from_array(np.array(2), "two")
    graph = helper.make_graph(inner.node, "g", [x], info, [two])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    made = triune.Session(model.SerializeToString())
    np.testing.assert_array_equal(made.run({"x": floats(-1, 2)})[0], floats(0, 2))
    np.testing.assert_array_equal(made.run({"x": floats(-1, 2, 3)})[0], floats(1, -2, -3))
