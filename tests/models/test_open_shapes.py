"""Open extents of 0, as behind a detector that found nothing, and inputs whose number of axes is open: against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import triune

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

Array = np.ndarray[Any, Any]

W = "w = Constant <value = float[4, 2] {1, 2, 3, 4, 5, 6, 7, 8}> ()"
K = "k = Constant <value = float[3, 4, 1] {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}> ()"
LIST = "s = Constant <value = int64[{}] {{{}}}> ()"
# Each reads x, of (N, 4), and writes y.
BODIES = {
    "Relu": "y = Relu (x)",
    "Exp": "y = Exp (x)",
    "Add": "y = Add (x, x)",
    "Div by a row": f"{W} t = Transpose (w) r = ReduceSum <keepdims = 0> (t) y = Div (x, r)",
    "MatMul": f"{W} y = MatMul (x, w)",
    "Gemm": f"{W} y = Gemm <transA = 0> (x, w)",
    "MatMul of two": "t = Transpose (x) y = MatMul (x, t)",
    "an inner extent of 0": "t = Transpose (x) y = MatMul (t, x)",
    "Conv": f"{K} {LIST.format(3, '-1, 4, 1')} i = Reshape (x, s) y = Conv (i, k)",
    "Concat": "y = Concat <axis = 0> (x, x)",
    "Concat with something": f"{W} t = Transpose (w) y = Concat <axis = 0> (x, t)",
    "Transpose": "y = Transpose (x)",
    "Reshape": f"{LIST.format(2, '0, 4')} y = Reshape (x, s)",
    "Flatten": "y = Flatten <axis = 1> (x)",
    "Unsqueeze": f"{LIST.format(1, '0')} y = Unsqueeze (x, s)",
    "Slice": "b = Constant <value = int64[1] {1}> () e = Constant <value = int64[1] {3}> () y = Slice (x, b, e, b)",
    "Split": "y, z = Split <axis = 1> (x)",
    "Expand": f"{LIST.format(3, '2, 1, 4')} y = Expand (x, s)",
    "Pad": f"{LIST.format(4, '0, 1, 0, 2')} y = Pad (x, s)",
    "Tile": f"{LIST.format(2, '2, 3')} y = Tile (x, s)",
    "Cast": "y = Cast <to = 7> (x)",
    "Shape": "y = Shape (x)",
    "Where": "z = Constant <value = float {0.0}> () c = Greater (x, z) y = Where (c, x, z)",
    "Gather rows": f"{LIST.format(2, '0, 3')} t = Transpose (x) y = Gather <axis = 0> (t, s)",
    "ReduceSum of all": "y = ReduceSum <keepdims = 0> (x)",
    "ReduceSum of rows": f"{LIST.format(1, '0')} y = ReduceSum <keepdims = 0> (x, s)",
    "ReduceSum of columns": f"{LIST.format(1, '1')} y = ReduceSum (x, s)",
    "ReduceMax of columns": "y = ReduceMax <axes = [1]> (x)",
    "ReduceProd": "y = ReduceProd <axes = [0], keepdims = 0> (x)",
    "ArgMax of columns": "y = ArgMax <axis = 1> (x)",
    "Softmax": "y = Softmax <axis = 1> (x)",
    "LayerNormalization": "n = Constant <value = float[4] {1, 2, 3, 4}> () y = LayerNormalization (x, n)",
    "TopK": f"{LIST.format(1, '2')} y, z = TopK <axis = 1> (x, s)",
    "NonZero": "y = NonZero (x)",
    "CumSum": "a = Constant <value = int64 {0}> () y = CumSum (x, a)",
    "Clip": "l = Constant <value = float {-1.0}> () y = Clip (x, l)",
    "QuantizeLinear": "q = Constant <value = float {0.5}> () z = Constant <value = int8 {3}> () y = QuantizeLinear (x, q, z)",
    "there and back": (
        "q = Constant <value = float {0.5}> () z = Constant <value = int8 {3}> ()"
        " i = QuantizeLinear (x, q, z) y = DequantizeLinear (i, q, z)"
    ),
    "GatherElements": "i = Cast <to = 7> (x) y = GatherElements <axis = 1> (x, i)",
    "ScatterElements": "i = Cast <to = 7> (x) y = ScatterElements <axis = 1> (x, i, x)",
}


def model(body: str) -> bytes:
    body = body.replace(") ", ")\n")
    text = f'<ir_version: 8, opset_import: ["" : 17]>\ng (float[N, 4] x) => (float y) {{ {body} }}'
    made = onnx.parser.parse_model(text)
    # Neither type nor extents of what comes out are said.
    made.graph.output[0].ClearField("type")
    return bytes(onnx.shape_inference.infer_shapes(made).SerializeToString())


def peer(file: bytes, feeds: dict[str, Array]) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return list(onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"]).run(None, feeds))


@pytest.mark.parametrize("name", BODIES)
def test_no_rows_are_as_good_as_some(name: str) -> None:
    file = model(BODIES[name])
    session = triune.Session(file)
    # One that has run with rows, one that has not, and back.
    for rows in (0, 3, 0):
        feeds = {"x": (np.arange(4 * rows, dtype=np.float32) % 4).reshape(rows, 4)}
        (expected,) = peer(file, feeds)
        (got,) = session.run(feeds)
        assert got.shape == expected.shape, rows
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got.astype(np.float64), expected.astype(np.float64), rtol=2e-6, atol=1e-6)


def test_the_largest_of_nothing_is_below_all_and_has_no_place() -> None:
    nothing = {"x": np.ones((0, 4), np.float32)}
    (y,) = triune.Session(model("y = ReduceMax <axes = [0]> (x)")).run(None, nothing)
    np.testing.assert_array_equal(y, np.full((1, 4), -np.inf, np.float32), strict=True)
    session = triune.Session(model("y = ArgMax <axis = 0> (x)"))
    with pytest.raises(triune.errors.Error, match="ArgMax"):
        session.run(nothing)


def test_an_input_can_leave_its_number_of_axes_open() -> None:
    helper = onnx.helper
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Shape", ["r"], ["s"])],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, None)],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in (("r", 1), ("s", 7))],
    )
    file = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    session = triune.Session(file)
    assert [value.shape for value in session.inputs] == [("...",)]
    for shape in ((), (2,), (2, 3), (0,), (1, 2, 3, 4)):
        x = np.full(shape, -1, np.float32)
        r, s = session.run({"x": x})
        np.testing.assert_array_equal(r, np.zeros(shape, np.float32))
        assert tuple(s) == shape
    with pytest.raises(triune.errors.ArgumentError, match="dimensions"):
        session.run({"x": np.ones((1,) * 9, np.float32)})
