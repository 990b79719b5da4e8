"""ONNX's conformance suite: what passes goes on to pass, nothing is wrong, nothing crashes."""

from __future__ import annotations

from collections import Counter

import pytest
from beside import load

onnx = pytest.importorskip("onnx")

suite = load(__file__, "onnx_suite")

# Cases in which the elements that differ are nearer to the true ones (computed in f64) here than in the suite: half floats keep
# the precision of f32 between operators, and parts that are 0 have no rounding of a fast transform.
CLOSER_TO_THE_TRUTH = {
    "test_attention_4d_causal_fp16_cpu",
    "test_attention_4d_causal_fp16_expanded_cpu",
    "test_dft_inverse_cpu",
    "test_dft_inverse_opset19_cpu",
}
# Cases that want the numbers of the reference's generator, which every runtime has its own of.
RANDOM = {
    f"test_bernoulli{case}_cpu" for case in ("", "_double", "_seed", "_expanded", "_double_expanded", "_seed_expanded")
}
# Cases that pass of the suite of onnx 1.23.
PASSES = {
    "NodeModel": 1849,
    "RealModel": 9,
    "SimpleModel": 21,
    "PyTorchConvertedModel": 82,
    "PyTorchOperatorModel": 35,
}


def test_what_passes_goes_on_to_pass_and_nothing_is_wrong() -> None:
    outcomes = list(suite.outcomes())
    assert [outcome for outcome in outcomes if outcome.kind == "crash"] == []
    assert {outcome.case for outcome in outcomes if outcome.kind == "wrong"} <= CLOSER_TO_THE_TRUTH | RANDOM
    if onnx.__version__.startswith("1.23."):
        passes = Counter(outcome.category for outcome in outcomes if outcome.kind == "pass")
        assert all(passes[category] >= count for category, count in PASSES.items()), passes


def test_the_backend_is_what_onnx_says() -> None:
    import numpy as np

    import triune
    from triune.onnx import backend

    assert backend.supports_device("CPU")
    assert not backend.supports_device("CUDA")
    a, b = np.array([1, 2], np.float32), np.array([3, 5], np.float32)
    node = onnx.helper.make_node("Add", ["a", "b"], ["sum"])
    (result,) = backend.run_node(node, [a, b])
    np.testing.assert_array_equal(result, a + b)
    info = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph([node], "g", [info("a", 1, ["n"]), info("b", 1, ["n"])], [info("sum", 1, ["n"])])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    prepared = backend.prepare(model, threads=2)
    results = prepared.run({"b": b, "a": a})
    np.testing.assert_array_equal(results["sum"], a + b)
    np.testing.assert_array_equal(backend.run_model(model, [a, b])[0], a + b)
    for wrong in (lambda: backend.prepare(model, "CUDA"), lambda: backend.prepare(model, "CPU", speed=9)):
        with pytest.raises(triune.errors.ArgumentError):
            wrong()
    with pytest.raises(triune.errors.ArgumentError, match="got 3"):
        prepared.run([a, b, a])


def test_the_backend_says_which_value_is_not_one_of_a_nodes_operands() -> None:
    import numpy as np

    import triune
    from triune.onnx import backend

    add, x = onnx.helper.make_node("Add", ["a", "b"], ["sum"]), np.ones(2, np.float32)
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Abs (x) }'
    )
    for values, message in (
        ([x], r"a value for each of \['a', 'b'\], got 1"),
        ([x, x, x], "got 3"),
        ({"a": x}, "input 'b': expected a value, got none"),
        ({"a": x, "b": x, "z": x}, r"input 'z': the node reads \['a', 'b'\]"),
        (None, "got NoneType"),
        ("ab", "got str"),
        ([x, np.array(["2020"], "M8[s]")], r"input 'b': ONNX has no type for dtype datetime64\[s\]"),
    ):
        with pytest.raises(triune.errors.ArgumentError, match=message):
            backend.run_node(add, values)
    with pytest.raises(triune.errors.ArgumentError, match=r"expected an onnx\.ModelProto, got str"):
        backend.prepare("model.onnx")  # type: ignore[arg-type]
    with pytest.raises(triune.errors.ArgumentError, match="got int"):
        backend.prepare(model).run(3)  # type: ignore[arg-type]


def test_a_number_is_an_operand_without_axes() -> None:
    import numpy as np

    from triune.onnx import backend

    clip = onnx.helper.make_node("Clip", ["x", "", "most"], ["y"])
    (result,) = backend.run_node(clip, [np.array([1, 5], np.float32), np.float32(2.5)])
    assert result.tolist() == [1.0, 2.5]
