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


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "min", "max"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int8, np.uint8, np.int32, np.int64, np.bool_])
def test_elements_put_by_index(dtype: type, reduction: str) -> None:
    if reduction != "none" and dtype is np.bool_:
        pytest.skip("no arithmetic of truth values")
    x = data(dtype, 3, 4, 5)
    narrow = np.array([[[1, -1, 0], [0, 2, 2]]], np.int32)
    feeds = {"x": x, "i": narrow, "u": data(dtype, 1, 2, 3)}
    if dtype is np.float16 and reduction != "none":
        pytest.skip("ONNX Runtime has no such kernel")
    if reduction == "none":
        # Of several for one place the last stays; ONNX leaves that open.
        feeds["i"] = np.array([[[1, -1, 0], [0, 2, 3]]], np.int32)
    compare("ScatterElements", feeds, opset=18, axis=2, reduction=reduction)
    compare("ScatterElements", {**feeds, "i": feeds["i"].astype(np.int64)}, opset=18, axis=-2, reduction=reduction)
    rows = np.array([[[1, 0], [2, -1]], [[0, 3], [1, 0] if reduction != "none" else [0, 0]]], np.int64)
    compare("ScatterND", {"x": x, "i": rows, "u": data(dtype, 2, 2, 5)}, opset=18, reduction=reduction)
    compare(
        "ScatterND",
        {"x": x, "i": np.array([[2], [0]], np.int64), "u": data(dtype, 2, 4, 5)},
        opset=18,
        reduction=reduction,
    )


def test_older_forms_of_scatter() -> None:
    feeds = {"x": data(np.float32, 3, 3), "i": np.array([[1, 0, 2]], np.int64), "u": data(np.float32, 1, 3)}
    for op, opset in (("Scatter", 9), ("Scatter", 10), ("ScatterElements", 11), ("ScatterElements", 16)):
        compare(op, feeds, opset=opset, axis=0)


@pytest.mark.parametrize(
    ("op", "indices", "updates", "reason"),
    [
        ("ScatterElements", np.array([[3, 0]], np.int64), (1, 2), "index 3 is outside of axis 0 of extent 3"),
        ("ScatterElements", np.array([[0, 0, 0, 0, 0]], np.int64), (1, 5), "indices of shape"),
        ("ScatterElements", np.array([[0, 0]], np.int64), (1, 3), "updates of shape"),
        ("ScatterND", np.array([[0, 4]], np.int64), (1,), "index 4 is outside of axis 1 of extent 4"),
        ("ScatterND", np.array([[0, 0, 0]], np.int64), (1,), "indices of shape"),
        ("ScatterND", np.array([[0]], np.int64), (1, 3), "updates of shape"),
    ],
)
@pytest.mark.parametrize("known", [False, True])
def test_elements_that_lead_nowhere_are_refused(
    op: str, indices: Array, updates: tuple[int, ...], reason: str, known: bool
) -> None:
    x, u = data(np.float32, 3, 4), data(np.float32, *updates)
    feeds = {"x": x, "u": u}
    constants = {} if not known else {"i": indices}
    helper = onnx.helper
    inputs = [*feeds.items()] if known else [("x", x), ("i", indices), ("u", u)]
    graph = helper.make_graph(
        [helper.make_node(op, ["x", "i", "u"], ["y"], name="it")],
        op,
        [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in inputs],
        [onnx.ValueInfoProto(name="y")],
        [onnx.numpy_helper.from_array(a, n) for n, a in constants.items()],
    )
    file = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString()
    with pytest.raises(triune.errors.Error, match=f"'it'.*{reason}"):
        triune.Session(file).run(dict(inputs))


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


def windows(count: int) -> list[dict[str, list[int]]]:
    """Return attributes of windows whose sides and axes all differ, on maps of 9 by 8."""
    rng = np.random.default_rng(RNG_SEED)
    found = []
    while len(found) < count:
        kernel, strides, dilations = rng.integers(1, 5, 2), rng.integers(1, 4, 2), rng.integers(1, 3, 2)
        # No padding reaches beyond the window, which pools refuse.
        pads = [int(rng.integers(0, kernel[axis % 2])) for axis in range(4)]
        if pads[:2] == pads[2:] or pads[0] == pads[1]:
            continue
        reach = (kernel - 1) * dilations + 1
        if any(size + pads[axis] + pads[axis + 2] < reach[axis] for axis, size in enumerate((9, 8))):
            continue
        sides = {"pads": pads, "strides": strides.tolist(), "dilations": dilations.tolist()}
        found.append({"kernel_shape": kernel.tolist(), **sides})
    return found


@pytest.mark.parametrize("window", windows(24), ids=str)
def test_windows_whose_sides_differ(window: dict[str, list[int]]) -> None:
    x = data(np.float32, 2, 4, 9, 8)
    for group in (1, 2, 4):
        weights = {"w": data(np.float32, 8, 4 // group, *window["kernel_shape"]), "b": data(np.float32, 8)}
        compare("Conv", {"x": x}, constants=weights, tolerance=2e-5, group=group, **window)
    for ceil in (0, 1):
        compare("MaxPool", {"x": x}, opset=12, ceil_mode=ceil, **window)
        for counted in (0, 1):
            plain = {**window, "dilations": [1, 1]}
            del plain["dilations"]
            compare("AveragePool", {"x": x}, opset=13, ceil_mode=ceil, count_include_pad=counted, **plain)


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
def test_pads_whose_sides_differ(mode: str) -> None:
    x = data(np.float32, 2, 3, 5, 4)
    for pads in ([0, 1, 2, 3, 1, 0, 3, 2], [0, 0, 4, 1, 0, 0, 0, 3], [1, 2, 0, 0, 0, 1, 1, 2]):
        if mode == "constant" or pads[0] + pads[4] + pads[1] + pads[5] == 1:
            compare("Pad", {"x": x}, constants={"p": np.array(pads, np.int64)}, mode=mode)
        else:
            inner = [0, 0, *pads[2:4], 0, 0, *pads[6:]]
            compare("Pad", {"x": x}, constants={"p": np.array(inner, np.int64)}, mode=mode)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("zero", [0, 3, 100])
def test_halves_of_a_step(dtype: Any, zero: int) -> None:
    """Reals that lie exactly between two integers, and next to there, for scales with and without an exact reciprocal."""
    for scale in (0.5, 0.1, 0.3, 1 / 255, 0.007):
        steps = np.arange(-300, 300, dtype=np.float32) / 2
        between = steps * np.float32(scale)
        x = np.concatenate([between, np.nextafter(between, np.inf), np.nextafter(between, -np.inf)])
        constants = {"s": np.array(scale, np.float32), "z": np.array(zero, dtype)}
        compare("QuantizeLinear", {"x": x.astype(np.float32)}, constants=constants)


@pytest.mark.parametrize("nearest", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
@pytest.mark.parametrize("mode", ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"])
def test_nearest_of_two_that_are_as_near(nearest: str, mode: str) -> None:
    x = data(np.float32, 1, 2, 4, 6)
    for sizes in ([1, 2, 2, 3], [1, 2, 8, 12], [1, 2, 6, 9], [1, 2, 1, 4]):
        constants = {"r": np.array([], np.float32), "s": np.array([], np.float32), "z": np.array(sizes, np.int64)}
        attributes = {"mode": "nearest", "nearest_mode": nearest, "coordinate_transformation_mode": mode}
        compare("Resize", {"x": x}, constants=constants, **attributes)


@pytest.mark.parametrize("largest", [0, 1])
def test_equal_elements_keep_their_order(largest: int) -> None:
    x = np.array([[2, 2, 1, 3, 3, 1, 2], [5, 5, 5, 5, 5, 5, 5]], np.float32)
    for k in (1, 3, 7):
        compare("TopK", {"x": x}, outputs=2, constants={"k": np.array([k], np.int64)}, largest=largest)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.int64])
def test_different_elements(dtype: type) -> None:
    x = np.round(data(dtype, 4, 5)).astype(dtype)
    for chosen in ({}, {"axis": 0}, {"axis": -1}):
        for ordered in (0, 1):
            repeated = np.concatenate([x, x[:2], x[:, ::-1][1:]]) if chosen.get("axis") == 0 else x
            compare("Unique", {"x": repeated}, opset=11, outputs=4, sorted=ordered, **chosen)
    many = np.random.default_rng(3).integers(0, 50, 20_000).astype(dtype)
    compare("Unique", {"x": many}, opset=11, outputs=4, sorted=1)


def test_elements_where_a_list_of_truths_holds() -> None:
    x, truths = data(np.float32, 3, 4), np.array([True, False, True])
    compare("Compress", {"x": x, "c": truths}, opset=11, axis=0)
    compare("Compress", {"x": x, "c": truths[:2]}, opset=11, axis=-1)
    compare("Compress", {"x": x, "c": np.array([False, True, True, False, True])}, opset=9)
    compare("Compress", {"x": x, "c": np.zeros(3, bool)}, opset=11, axis=0)


def test_pools_that_are_taken_back() -> None:
    x = data(np.float32, 1, 2, 2, 2)
    places = np.array([[[[5, 7], [13, 15]], [[16 + 0, 16 + 2], [16 + 8, 16 + 10]]]], np.int64)
    attributes = {"kernel_shape": [2, 2], "strides": [2, 2]}
    compare("MaxUnpool", {"x": x, "i": places}, opset=11, **attributes)
    larger = {"s": np.array([1, 2, 5, 6], np.int64)}
    # ONNX Runtime counts positions in what is asked for; the standard, as its suite has it, in what the pool had.
    feeds = {"x": x, "i": places}
    (got,) = triune.Session(model("MaxUnpool", feeds, 11, 1, larger, **attributes)).run(feeds)
    (own,) = triune.Session(model("MaxUnpool", feeds, 11, 1, {}, **attributes)).run(feeds)
    np.testing.assert_array_equal(got, np.pad(own, ((0, 0), (0, 0), (0, 1), (0, 2))))
