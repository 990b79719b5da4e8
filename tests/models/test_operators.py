"""Single ONNX operators on the host against ONNX Runtime: every element type and opset variant that both have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import triune

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

Array = np.ndarray[Any, Any]
FLOATS = (np.float32, np.float16)
RNG_SEED = 20


def model(
    op: str, inputs: dict[str, Array], opset: int, outputs: int, constants: dict[str, Array], **attributes: Any
) -> bytes:
    """Return a model of one node; constants are initializers, in the order in which they are given."""
    helper = onnx.helper
    names = [*inputs, *constants]
    node = helper.make_node(op, names, [f"y{index}" for index in range(outputs)], **attributes)
    graph = helper.make_graph(
        [node],
        op,
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for name, x in inputs.items()
        ],
        [onnx.ValueInfoProto(name=f"y{index}") for index in range(outputs)],
        [onnx.numpy_helper.from_array(x, name) for name, x in constants.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    inferred = onnx.shape_inference.infer_shapes(made)
    return bytes(inferred.SerializeToString())


def compare(
    op: str,
    inputs: dict[str, Array],
    opset: int = 17,
    outputs: int = 1,
    constants: dict[str, Array] | None = None,
    tolerance: float = 2e-6,
    **attributes: Any,
) -> None:
    file = model(op, inputs, opset, outputs, constants or {}, **attributes)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        reference = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        pytest.skip("ONNX Runtime has no such kernel")
    expected = reference.run(None, inputs)
    got = triune.Session(file).run(inputs)
    assert len(got) == len(expected)
    for mine, theirs in zip(got, expected, strict=True):
        assert mine.dtype == theirs.dtype
        assert mine.shape == theirs.shape
        if mine.dtype.kind == "f":
            bound = 2e-3 if mine.dtype == np.float16 else tolerance
            np.testing.assert_allclose(mine.astype(np.float64), theirs.astype(np.float64), rtol=bound, atol=bound)
        else:
            np.testing.assert_array_equal(mine, theirs)


def data(dtype: Any, *shape: int, low: float = -4, high: float = 4) -> Array:
    rng = np.random.default_rng(RNG_SEED + sum(shape))
    if np.dtype(dtype).kind == "f":
        return rng.uniform(low, high, shape).astype(dtype)
    if np.dtype(dtype) == bool:
        return rng.integers(0, 2, shape).astype(bool)
    first = max(int(low), np.iinfo(dtype).min)
    return rng.integers(first, int(high) + 1, shape).astype(dtype)


REDUCTIONS = [
    "ReduceSum",
    "ReduceMean",
    "ReduceMax",
    "ReduceMin",
    "ReduceProd",
    "ReduceSumSquare",
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
]


@pytest.mark.parametrize("op", REDUCTIONS)
@pytest.mark.parametrize("axes", [None, [0], [-1], [1, 2], [0, 3], [2, 3]])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_reductions(op: str, axes: list[int] | None, keepdims: int) -> None:
    x = data(np.float32, 2, 3, 4, 5, low=0.25, high=1.5)
    attributes: dict[str, Any] = {"keepdims": keepdims}
    if axes is not None:
        attributes["axes"] = axes
    if op != "ReduceSum":
        compare(op, {"x": x}, opset=11, **attributes)
    operand = {} if axes is None else {"axes": np.array(axes, np.int64)}
    compare(op, {"x": x}, opset=18, constants=operand, keepdims=keepdims)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float64])
@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceMean"])
def test_reductions_of_other_types(op: str, dtype: Any) -> None:
    compare(op, {"x": data(dtype, 3, 4, 5)}, opset=18, constants={"axes": np.array([1], np.int64)})


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_positions(op: str, last: int, axis: int) -> None:
    x = np.round(data(np.float32, 3, 7, 5, low=-2, high=2))
    compare(op, {"x": x}, axis=axis, select_last_index=last)
    compare(op, {"x": x.astype(np.int32)}, axis=axis, select_last_index=last, keepdims=0)


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int32])
def test_first_elements_in_order(largest: int, axis: int, dtype: Any) -> None:
    x = np.round(data(dtype, 6, 9))
    k = {"k": np.array([4], np.int64)}
    compare("TopK", {"x": x}, outputs=2, constants=k, axis=axis, largest=largest)


UNARY = {
    "Abs": (-4, 4),
    "Acos": (-1, 1),
    "Acosh": (1, 5),
    "Asin": (-1, 1),
    "Asinh": (-4, 4),
    "Atan": (-4, 4),
    "Atanh": (-0.95, 0.95),
    "Ceil": (-4, 4),
    "Cos": (-40, 40),
    "Cosh": (-4, 4),
    "Erf": (-4, 4),
    "Exp": (-4, 4),
    "Floor": (-4, 4),
    "Log": (0.1, 4),
    "Neg": (-4, 4),
    "Reciprocal": (0.5, 4),
    "Round": (-4, 4),
    "Sign": (-4, 4),
    "Sin": (-40, 40),
    "Sinh": (-4, 4),
    "Sqrt": (0, 4),
    "Tan": (-1.2, 1.2),
}


@pytest.mark.parametrize("op", UNARY)
@pytest.mark.parametrize("dtype", FLOATS)
def test_functions_of_one_operand(op: str, dtype: Any) -> None:
    low, high = UNARY[op]
    compare(op, {"x": data(dtype, 3, 5, 7, low=low, high=high)}, tolerance=4e-6)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
@pytest.mark.parametrize("op", ["Abs", "Neg", "Sign"])
def test_functions_of_one_integer(op: str, dtype: Any) -> None:
    compare(op, {"x": data(dtype, 3, 5)})


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div", "Min", "Max", "Mod", "Pow"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64, np.int32, np.int64, np.uint8, np.int8])
def test_functions_of_two_operands(op: str, dtype: Any) -> None:
    kind = np.dtype(dtype).kind
    attributes = {"fmod": 1} if op == "Mod" and kind == "f" else {}
    if op == "Pow" and dtype not in (np.float32, np.int32, np.int64):
        pytest.skip("one of the two has no such power")
    a = data(dtype, 2, 3, 4, low=0.5 if op == "Pow" else -4)
    b = data(dtype, 3, 1, low=1, high=3)
    compare(op, {"a": a, "b": b}, tolerance=4e-6, **attributes)


@pytest.mark.parametrize("op", ["Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int64, np.float64])
def test_questions(op: str, dtype: Any) -> None:
    compare(op, {"a": np.round(data(dtype, 4, 5)), "b": np.round(data(dtype, 5))})


@pytest.mark.parametrize("op", ["And", "Or", "Xor"])
def test_logic(op: str) -> None:
    compare(op, {"a": data(bool, 4, 5), "b": data(bool, 5)})


def test_truths_of_numbers() -> None:
    compare("Not", {"x": data(bool, 4, 5)})
    x = np.array([0.0, np.nan, np.inf, -np.inf, 1.0], np.float32)
    compare("IsNaN", {"x": x})
    compare("IsInf", {"x": x})
    compare("IsInf", {"x": x}, detect_negative=0)
    compare("IsInf", {"x": x}, detect_positive=0)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.uint8, np.int32])
def test_choices_and_indices(dtype: Any) -> None:
    x = data(dtype, 3, 4, 5)
    compare("Where", {"c": data(bool, 4, 1), "a": x, "b": data(dtype, 5)})
    compare("Gather", {"x": x, "i": np.array([[1, -1], [0, 3]], np.int64)}, axis=1)
    compare("GatherElements", {"x": x, "i": np.array([[[1, -1], [0, 2]]], np.int32)}, axis=2)
    compare("GatherND", {"x": x, "i": np.array([[1, -1], [0, 3]], np.int64)})
    compare("GatherND", {"x": x, "i": np.array([[1], [0], [3]], np.int64)}, batch_dims=1)


CASTS = [
    np.float32,
    np.float16,
    np.float64,
    np.int8,
    np.uint8,
    np.int16,
    np.uint16,
    np.int32,
    np.uint32,
    np.int64,
    bool,
]


@pytest.mark.parametrize("source", CASTS)
@pytest.mark.parametrize("target", CASTS)
def test_conversions(source: Any, target: Any) -> None:
    # Within every type's range: beyond it the result is the implementation's.
    x = data(source, 3, 5, low=0, high=100)
    compare("Cast", {"x": x}, to=onnx.helper.np_dtype_to_tensor_dtype(np.dtype(target)))


def test_other_functions() -> None:
    x = data(np.float32, 2, 3, 4)
    compare("PRelu", {"x": x, "slope": data(np.float32, 3, 1)})
    compare("Gelu", {"x": x}, opset=20)
    shift = {"a": data(np.uint8, 6, low=0, high=9), "b": data(np.uint8, 6, low=0, high=9)}
    compare("BitShift", shift, direction="LEFT")
    compare("BitShift", shift, direction="RIGHT")
