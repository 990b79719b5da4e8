"""Forms of operators that few models have: versions' own defaults, types, ranks and borders, as the standard has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import triune

onnx = pytest.importorskip("onnx")

Array = npt.NDArray[Any]


def run(
    op: str,
    opset: int,
    *operands: Array,
    known: tuple[int, ...] = (),
    outputs: int = 1,
    dims: tuple[str | int, ...] | None = None,
    **attributes: object,
) -> list[Array]:
    """Run one operator in a version; the operands that are `known` stand in the file, the first one has the extents `dims`."""
    helper = onnx.helper
    names = [f"x{index}" for index in range(len(operands))]
    infos = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(value.dtype), list(value.shape if index or dims is None else dims)
        )
        for index, (name, value) in enumerate(zip(names, operands, strict=True))
        if index not in known
    ]
    results = [f"y{index}" for index in range(outputs)]
    graph = helper.make_graph(
        [helper.make_node(op, names, results, **attributes)],
        "one",
        infos,
        [helper.make_tensor_value_info(name, 1, None) for name in results],
        [onnx.numpy_helper.from_array(operands[index], names[index]) for index in known],
    )
    for output in graph.output:
        output.ClearField("type")
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    session = triune.Session(model.SerializeToString())
    feeds = {name: value for index, (name, value) in enumerate(zip(names, operands, strict=True)) if index not in known}
    return [np.asarray(value) for value in session.run(None, feeds)]


def test_integers_dequantize_to_the_type_that_is_asked_for() -> None:
    (y,) = run(
        "DequantizeLinear", 23, np.array([-3, 5], np.int8), np.array(0.5, np.float16), known=(1,), output_dtype=1
    )
    assert y.dtype == np.float32
    np.testing.assert_array_equal(y, np.array([-1.5, 2.5], np.float32))


def test_quotients_are_rounded_to_the_scales_type_from_opset_23_on() -> None:
    x = np.random.default_rng(3).normal(0, 20, 4000).astype(np.float16)
    scale = np.array(0.1, np.float16)
    whole = np.rint(x.astype(np.float32) / np.float32(scale))
    rounded = np.rint((x.astype(np.float32) / np.float32(scale)).astype(np.float16).astype(np.float32))
    assert (whole != rounded).any()
    zero = np.array(0, np.int8)
    for opset, expected in ((21, whole), (23, rounded)):
        (y,) = run("QuantizeLinear", opset, x, scale, zero, known=(1, 2))
        np.testing.assert_array_equal(y, np.clip(expected, -128, 127).astype(np.int8))


def test_integers_shrink_in_reals() -> None:
    (y,) = run("Shrink", 9, np.array([-3, -1, 0, 1, 3], np.int8), bias=0.9, lambd=0.5)
    np.testing.assert_array_equal(y, np.array([-2, 0, 0, 0, 2], np.int8))


def test_large_angles_keep_their_digits() -> None:
    x = np.array([1e15, 1e22, 1e30, -1e300])
    for op, function in (("Sin", np.sin), ("Cos", np.cos), ("Tan", np.tan)):
        np.testing.assert_allclose(run(op, 7, x)[0], function(x), rtol=1e-14)


def test_limits_left_out_before_opset_11_are_those_of_float32() -> None:
    x = np.array([-np.inf, -1.0, 2.0, np.inf], np.float32)
    most = np.finfo(np.float32).max
    np.testing.assert_array_equal(run("Clip", 6, x)[0], np.array([-most, -1, 2, most], np.float32))
    np.testing.assert_array_equal(run("Clip", 6, x, min=0.0)[0], np.array([0, 0, 2, most], np.float32))
    half = np.array([-1.0, 0.5, 3.0], np.float16)
    np.testing.assert_array_equal(
        run("Clip", 6, half, min=-0.3, max=1.0)[0], np.array([-0.3, 0.5, 1.0], np.float16), strict=True
    )


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
def test_an_axis_behind_the_last_one_is_refused(op: str) -> None:
    with pytest.raises(triune.errors.Error, match="axis 1"):
        run(op, 11, np.ones(3, np.float32))


@pytest.mark.parametrize("opset", [11, 18])
def test_norms_of_integers_are_cut(opset: int) -> None:
    x = np.array([[3, 4], [1, 1]], np.int32)
    axes: dict[str, Any] = {"axes": [1]} if opset < 18 else {}
    operands = (x,) if opset < 18 else (x, np.array([1]))
    known = () if opset < 18 else (1,)
    for op, expected in (("ReduceL2", [5, 1]), ("ReduceLogSum", [1, 0]), ("ReduceLogSumExp", [4, 1])):
        (y,) = run(op, opset, *operands, known=known, keepdims=0, **axes)
        np.testing.assert_array_equal(y, np.array(expected, np.int32), strict=True)


def test_windows_of_integers_are_cut() -> None:
    (y,) = run(
        "HannWindow", 17, np.array(5, np.int64), known=(0,), output_datatype=int(onnx.TensorProto.INT32), periodic=0
    )
    np.testing.assert_array_equal(y, np.array([0, 0, 1, 0, 0], np.int32), strict=True)


@pytest.mark.parametrize("mode", ["edge", "reflect"])
def test_borders_may_take_away(mode: str) -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    (y,) = run("Pad", 13, x, np.array([0, -1, 0, 2]), known=(1,), mode=mode)
    np.testing.assert_array_equal(y, np.pad(x[:, 1:], ((0, 0), (0, 2)), mode=mode))  # type: ignore[call-overload]


@pytest.mark.parametrize("shape", [(2, 3, 5), (2, 3, 4, 5), (1, 2, 3, 4, 5)])
def test_global_pools_have_any_rank(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    axes = tuple(range(2, x.ndim))
    np.testing.assert_array_equal(run("GlobalMaxPool", 1, x)[0], x.max(axes, keepdims=True))
    np.testing.assert_allclose(run("GlobalAveragePool", 1, x)[0], x.mean(axes, keepdims=True), rtol=1e-5, atol=1e-6)


def test_factors_of_a_product_are_of_its_type() -> None:
    a, b = (np.random.default_rng(seed).normal(size=(3, 4)) for seed in range(2))
    for c in (np.array([1.0, 2, 3]), np.array([[1.0], [2], [3]]), np.array(2.5)):
        (y,) = run("Gemm", 11, a, b, c, alpha=0.5, beta=2.0, transB=1)
        np.testing.assert_allclose(y, 0.5 * (a @ b.T) + 2 * c, rtol=1e-12)
    (y,) = run("Gemm", 13, a, b, known=(1,), transA=1)
    np.testing.assert_allclose(y, a.T @ b, rtol=1e-12)
    half = [operand.astype(np.float16) for operand in (a, b, np.ones(3))]
    (y,) = run("Gemm", 13, *half, alpha=0.5, beta=2.0, transB=1)
    assert y.dtype == np.float16


def test_no_infinity_asked_for_is_none_found() -> None:
    (y,) = run("IsInf", 10, np.array([np.inf, 1], np.float32), detect_negative=0, detect_positive=0)
    np.testing.assert_array_equal(y, [False, False], strict=True)


def test_statistics_may_be_of_another_type() -> None:
    x = np.random.default_rng(5).normal(size=(2, 3, 4, 4)).astype(np.float16)
    statistics = [np.array(values, np.float32) for values in ([1, 2, 3], [0, 1, 2], [0.1, 0.2, 0.3], [1, 2, 4])]
    (y,) = run("BatchNormalization", 15, x, *statistics, known=(1, 2, 3, 4), epsilon=0.5)
    scale, bias, mean, variance = (values.reshape(1, 3, 1, 1) for values in statistics)
    expected = (x.astype(np.float32) - mean) / np.sqrt(variance + 0.5) * scale + bias
    assert y.dtype == np.float16
    np.testing.assert_allclose(y.astype(np.float32), expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("known", [(), (1, 2, 3, 4)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_one_axis_is_one_channel(dtype: npt.DTypeLike, known: tuple[int, ...]) -> None:
    x = np.arange(5).astype(dtype)
    statistics = [np.array([value], dtype) for value in (2, 1, 3, 4)]
    (y,) = run("BatchNormalization", 15, x, *statistics, known=known, epsilon=0.0)
    np.testing.assert_array_equal(y, ((x - 3) + 1).astype(dtype), strict=True)
    with pytest.raises(triune.errors.ArgumentError, match=r"element per channel of 1 axes|\(1\) and"):
        run("BatchNormalization", 15, x, *[np.ones(5, dtype)] * 4, known=known)
    with pytest.raises(triune.errors.ArgumentError, match=r"element per channel of 0 axes|has no channel axis"):
        run("BatchNormalization", 15, np.array(1, dtype), *statistics, known=known)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("known", [(), (1,), (2,), (1, 2)])
def test_weights_and_biases_may_be_computed(dtype: npt.DTypeLike, known: tuple[int, ...]) -> None:
    rng = np.random.default_rng(3)
    x, w, b = (np.round(rng.normal(size=shape) * 8).astype(dtype) / 8 for shape in ((2, 4, 5, 6), (6, 2, 3, 2), (6,)))
    operands = [np.asarray(value, dtype) for value in (x, w, b)]
    (all_known,) = run("Conv", 11, *operands, known=(1, 2), group=2, strides=[2, 1], pads=[1, 0, 2, 1])
    (y,) = run("Conv", 11, *operands, known=known, group=2, strides=[2, 1], pads=[1, 0, 2, 1])
    np.testing.assert_allclose(y, all_known, rtol=1e-2 if dtype == np.float16 else 1e-5, atol=1e-5)


@pytest.mark.parametrize("known", [(), (1,), (1, 2)])
def test_convolutions_of_doubles(known: tuple[int, ...]) -> None:
    rng = np.random.default_rng(4)
    x, w, b = (np.round(rng.normal(size=shape) * 64) / 64 for shape in ((2, 4, 5, 6), (6, 2, 3, 2), (6,)))
    (y,) = run("Conv", 11, x, w, b, known=known, group=2, strides=[2, 1], pads=[1, 0, 2, 1])
    narrow = [value.astype(np.float32) for value in (x, w, b)]
    (expected,) = run("Conv", 11, *narrow, known=(1, 2), group=2, strides=[2, 1], pads=[1, 0, 2, 1])
    assert y.dtype == np.float64
    # Sums of such products are exact in both.
    np.testing.assert_array_equal(y, expected)


POOLS: dict[str, dict[str, object]] = {
    "plain": {},
    "padded": {"pads": [1, 0, 0, 1], "dilations": [1, 2]},
    "upper": {"auto_pad": "SAME_UPPER"},
    "lower": {"auto_pad": "SAME_LOWER"},
    "valid": {"auto_pad": "VALID"},
    "partial": {"ceil_mode": 1, "pads": [0, 1, 1, 0]},
}


@pytest.mark.parametrize("how", POOLS)
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "counting"])
def test_pools_of_doubles(op: str, how: str) -> None:
    x = np.round(np.random.default_rng(5).normal(size=(2, 3, 7, 8)) * 8) / 8
    x[0, 0, 0, 0] = np.nan if op == "MaxPool" else 1
    attributes = POOLS[how] | ({"count_include_pad": 1} if op == "counting" else {})
    name = "MaxPool" if op == "MaxPool" else "AveragePool"
    (y,) = run(name, 19 if name == "AveragePool" else 12, x, kernel_shape=[2, 3], strides=[2, 1], **attributes)
    (expected,) = run(
        name,
        19 if name == "AveragePool" else 12,
        x.astype(np.float32),
        kernel_shape=[2, 3],
        strides=[2, 1],
        **attributes,
    )
    assert y.dtype == np.float64
    np.testing.assert_allclose(y, expected, rtol=1e-6)


def test_pools_of_doubles_over_other_axes_and_of_no_batch() -> None:
    x = np.round(np.random.default_rng(6).normal(size=(1, 2, 4, 5, 6)) * 8) / 8
    for shape in ((1, 2, 120), (1, 2, 4, 5, 6), (0, 2, 4, 5, 6), (0, 2, 6)):
        own = x.reshape(shape) if 0 not in shape else np.zeros(shape)
        kernel = [2] * (len(shape) - 2)
        for op in ("MaxPool", "AveragePool"):
            (y,) = run(op, 12 if op == "MaxPool" else 11, own, kernel_shape=kernel)
            (expected,) = run(op, 12 if op == "MaxPool" else 11, own.astype(np.float32), kernel_shape=kernel)
            np.testing.assert_allclose(y, expected, rtol=1e-6)
            assert (y.dtype, y.shape) == (np.float64, expected.shape)


@pytest.mark.parametrize("op", ["AveragePool", "MaxPool"])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_a_window_that_would_start_in_the_padding_has_no_place(op: str, axes: int) -> None:
    x = np.arange(3.0**axes, dtype=np.float32).reshape(1, 1, *[3] * axes)
    pads = {"kernel_shape": [1] * axes, "strides": [3] * axes, "pads": [0] * axes + [1] * axes}
    (y,) = run(op, 12, x, ceil_mode=1, **pads)
    np.testing.assert_array_equal(y, x[(slice(1),) * (2 + axes)], strict=True)


STARTS = {"ReduceMax": -np.inf, "ReduceMin": np.inf, "ReduceMean": 0, "ReduceSum": 0, "ReduceProd": 1}


@pytest.mark.parametrize("known", [(1,), (0, 1)])
@pytest.mark.parametrize(
    "dtype", [np.float16, np.float32, np.float64, np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64]
)
@pytest.mark.parametrize("op", STARTS)
def test_reductions_of_nothing(op: str, dtype: npt.DTypeLike, known: tuple[int, ...]) -> None:
    """Where a reduction starts from: the type's least and most where it has no infinity."""
    (y,) = run(op, 13 if op == "ReduceSum" else 18, np.zeros((2, 0, 3), dtype), np.array([1]), known=known)
    start = STARTS[op]
    if np.issubdtype(dtype, np.integer) and np.isinf(start):
        start = np.iinfo(dtype).min if start < 0 else np.iinfo(dtype).max
    np.testing.assert_array_equal(y, np.full((2, 1, 3), start, dtype), strict=True)


@pytest.mark.parametrize("op", ["GlobalAveragePool", "GlobalMaxPool"])
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (2, 3, 7), (0, 3, 4, 5)])
def test_global_pools_of_doubles(op: str, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(8).normal(size=shape)
    (y,) = run(op, 1, x)
    axes = tuple(range(2, len(shape)))
    expected = x.mean(axes, keepdims=True) if op == "GlobalAveragePool" else x.max(axes, keepdims=True)
    assert y.dtype == np.float64
    np.testing.assert_allclose(y, expected, rtol=1e-14)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_normalization_of_images_without_rows(dtype: npt.DTypeLike) -> None:
    x = np.zeros((2, 3, 0, 4), dtype)
    (y,) = run("BatchNormalization", 15, x, *[np.ones(3, dtype)] * 4, known=(1, 2, 3, 4))
    np.testing.assert_array_equal(y, x, strict=True)


@pytest.mark.parametrize("alpha", [1.0, 2.0])
def test_products_of_doubles_by_what_folds_to_a_constant(alpha: float) -> None:
    helper, array = onnx.helper, onnx.numpy_helper.from_array
    x, w, c = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4).T.copy(), np.arange(4.0)[None]
    nodes = [
        helper.make_node("Transpose", ["w"], ["t"], perm=[1, 0]),
        helper.make_node("Gemm", ["x", "t", "c"], ["y"], alpha=alpha),
    ]
    graph = helper.make_graph(
        nodes,
        "one",
        [helper.make_tensor_value_info("x", 11, [2, 3])],
        [helper.make_tensor_value_info("y", 11, None)],
        [array(w, "w"), array(c, "c")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    (y,) = triune.Session(model.SerializeToString()).run(None, {"x": x})
    np.testing.assert_array_equal(y, alpha * (x @ w.T) + c)


def test_strings_that_double_and_double_are_refused() -> None:
    text = "\n".join(f"t{index + 1} = StringConcat(t{index}, t{index})" for index in range(40))
    model = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 21]> g (string[N] s) => (string[N] y) {{ t0 = Identity(s)\n{text}\n'
        "y = StringConcat(s, t40) }"
    )
    with pytest.raises(triune.errors.Error, match=r"StringConcat.*a string of 33554432 bytes; 16777216 are the most"):
        triune.Session(model.SerializeToString()).run({"s": np.array(["x" * 8])})


def test_windows_and_grids_over_no_images() -> None:
    images = np.zeros((0, 2, 6, 6), np.float32)
    assert run("LpPool", 11, images, kernel_shape=[2, 2])[0].shape == (0, 2, 5, 5)
    assert run("GridSample", 20, images, np.zeros((0, 3, 4, 2), np.float32))[0].shape == (0, 2, 3, 4)
    weights = np.ones((2, 3, 2, 2), np.float32)
    assert run("ConvTranspose", 11, images, weights, known=(1,))[0].shape == (0, 3, 7, 7)


def test_zeros_quantize_by_a_scale_of_one() -> None:
    y, scale, zero_point = run("DynamicQuantizeLinear", 11, np.zeros((2, 3), np.float32), outputs=3)
    assert (float(scale), int(zero_point)) == (1.0, 0)
    np.testing.assert_array_equal(y, np.zeros((2, 3), np.uint8))


@pytest.mark.parametrize(("opset", "seen"), [(23, 6), (24, 1)])
def test_masks_of_one_key(opset: int, seen: int) -> None:
    """Since opset 24 a short mask says nothing of the keys behind it, and these are not seen; before, one key's is everyone's."""
    rng = np.random.default_rng(7)
    q, k, v = (rng.normal(size=(1, 2, extent, 8)).astype(np.float32) for extent in (4, 6, 6))
    (y,) = run("Attention", opset, q, k, v, np.array([True]))
    weights = np.exp(q @ k[:, :, :seen].swapaxes(2, 3) / np.sqrt(np.float32(8)))
    expected = weights / weights.sum(-1, keepdims=True) @ v[:, :, :seen]
    np.testing.assert_allclose(y, expected, rtol=1e-5)


@pytest.mark.parametrize("known", [(), (1, 2, 3, 4)])
def test_doubles_are_normalized(known: tuple[int, ...]) -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    scale, bias, mean, variance = np.array([[1, 2, 3], [0, 1, -1], [4, 5, 6], [1, 4, 9]], float)
    (y,) = run("BatchNormalization", 15, x, scale, bias, mean, variance, known=known, epsilon=0.0)
    deviation = np.sqrt(variance)[:, None]
    np.testing.assert_array_equal(y, (x - mean[:, None]) / deviation * scale[:, None] + bias[:, None], strict=True)


@pytest.mark.parametrize(("rows", "columns"), [((3,), (3, 4)), ((2, 3), (3,)), ((3,), (3,)), ((3,), (2, 3, 4))])
@pytest.mark.parametrize("constant", [False, True])
def test_products_of_quantized_vectors(rows: tuple[int, ...], columns: tuple[int, ...], constant: bool) -> None:
    helper, array = onnx.helper, onnx.numpy_helper.from_array
    x = (np.arange(np.prod(rows)) * 7 + 1).astype(np.uint8).reshape(rows)
    w = (np.arange(np.prod(columns)) * 3 - 9).astype(np.int8).reshape(columns)
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s", "z"], ["a"]),
        helper.make_node("DequantizeLinear", ["w", "s"], ["b"]),
        helper.make_node("MatMul", ["a", "b"], ["sum"]),
        helper.make_node("QuantizeLinear", ["sum", "t", "z"], ["y"]),
    ]
    known = {"s": np.float32(0.5), "t": np.float32(4), "z": np.uint8(3)} | ({"w": w} if constant else {})
    inputs = [helper.make_tensor_value_info("x", 2, rows), helper.make_tensor_value_info("w", 3, columns)]
    graph = helper.make_graph(
        nodes,
        "one",
        inputs[: 1 if constant else 2],
        [helper.make_tensor_value_info("y", 2, None)],
        [array(np.asarray(value), name) for name, value in known.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    (y,) = triune.Session(model.SerializeToString()).run(None, {"x": x} if constant else {"x": x, "w": w})
    expected = np.matmul(x.astype(np.float64) - 3, w.astype(np.float64)) / 16
    np.testing.assert_array_equal(y, np.clip(np.rint(expected) + 3, 0, 255).astype(np.uint8), strict=True)


def test_a_question_mark_names_no_extent() -> None:
    x = np.ones((1, 3, 4, 6), np.float32)
    (y,) = run("Relu", 14, x, dims=(1, 3, "?", "?"))
    np.testing.assert_array_equal(y, x)


def test_extents_that_are_named_alike_need_not_agree() -> None:
    x = np.ones((1, 3, 4, 6), np.float32)
    (y,) = run("Relu", 14, x, dims=(1, 3, "N", "N"))
    np.testing.assert_array_equal(y, x)


def test_a_mask_of_early_dropout_is_zeros() -> None:
    x = np.array([1.0, 2.0], np.float32)
    for opset, dtype in ((7, np.float32), (10, np.bool_)):
        y, mask = run("Dropout", opset, x, outputs=2)
        np.testing.assert_array_equal(y, x)
        np.testing.assert_array_equal(mask, np.zeros(2, dtype), strict=True)


def test_a_share_of_itself_alone_is_one_in_bytes_too() -> None:
    helper, numpy_helper = onnx.helper, onnx.numpy_helper
    x = np.arange(6, dtype=np.uint8).reshape(2, 1, 3)
    constants = {"s": np.float32(0.03), "z": np.uint8(99), "t": np.float32(0.0039), "u": np.uint8(7)}
    graph = helper.make_graph(
        [
            helper.make_node("DequantizeLinear", ["x", "s", "z"], ["real"]),
            helper.make_node("Softmax", ["real"], ["shares"], axis=1),
            helper.make_node("QuantizeLinear", ["shares", "t", "u"], ["y"]),
        ],
        "shares",
        [helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, x.shape)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.UINT8, x.shape)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (y,) = triune.Session(model.SerializeToString()).run(None, {"x": x})
    np.testing.assert_array_equal(y, np.full(x.shape, 255, np.uint8))


def test_a_transposed_first_matrix_may_have_factors() -> None:
    a, b = (np.random.default_rng(seed).normal(size=(3, 4)).astype(np.float32) for seed in range(2))
    (y,) = run("Gemm", 11, a, b, np.ones(4, np.float32), alpha=0.25, beta=0.5, transA=1)
    np.testing.assert_allclose(y, 0.25 * (a.T @ b) + 0.5, rtol=1e-5)


def session_of(nodes: list[Any], x: Array, constants: dict[str, Array]) -> Array:
    """Run nodes from `x` to `y` with these constants."""
    helper = onnx.helper
    dtype = helper.np_dtype_to_tensor_dtype(x.dtype)
    graph = helper.make_graph(
        nodes,
        "some",
        [helper.make_tensor_value_info("x", dtype, x.shape)],
        [helper.make_tensor_value_info("y", 1, None)],
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    graph.output[0].ClearField("type")
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    (y,) = triune.Session(model.SerializeToString()).run(None, {"x": x})
    return np.asarray(y)


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("how", ["DequantizeLinear", "Identity"])
@pytest.mark.parametrize("padded", [False, True])
def test_weights_that_are_made_tell_how_many_axes_a_window_has(axes: int, how: str, padded: bool) -> None:
    node = onnx.helper.make_node
    x = np.random.default_rng(axes).normal(size=(1, 2, *[5] * axes)).astype(np.float32)
    weights = np.arange(4 * 2**axes).reshape(2, 2, *[2] * axes).astype(np.int8)
    constants: dict[str, Array] = {"w0": weights, "s": np.array(0.5, np.float32)}
    operands = ["w0", "s"]
    if how == "Identity":
        constants, operands = {"w0": weights.astype(np.float32) * np.float32(0.5)}, ["w0"]
    maker = node(how, operands, ["w"])
    pads = {"pads": [*range(1, axes + 1), *[0] * axes]} if padded else {}
    said = session_of([maker, node("Conv", ["x", "w"], ["y"], kernel_shape=[2] * axes, **pads)], x, constants)
    found = session_of([maker, node("Conv", ["x", "w"], ["y"], **pads)], x, constants)
    np.testing.assert_array_equal(found, said)
    assert said.shape == (1, 2, *[4 + (axis + 1) * padded for axis in range(axes)])


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("op", ["GlobalAveragePool", "GlobalMaxPool"])
def test_quantized_global_pools_have_any_rank(axes: int, op: str) -> None:
    node = onnx.helper.make_node
    x = np.random.default_rng(axes).integers(0, 255, (2, 3, *[3] * axes)).astype(np.uint8)
    scale, zero, to = np.array(0.0625, np.float32), np.array(111, np.uint8), np.array(0.05, np.float32)
    nodes = [
        node("DequantizeLinear", ["x", "s", "z"], ["real"]),
        node(op, ["real"], ["pooled"]),
        node("QuantizeLinear", ["pooled", "t", "z"], ["y"]),
    ]
    y = session_of(nodes, x, {"s": scale, "z": zero, "t": to})
    reals = (x.astype(np.float64) - 111) * 0.0625
    over = tuple(range(2, 2 + axes))
    pooled = reals.mean(over, keepdims=True) if op == "GlobalAveragePool" else reals.max(over, keepdims=True)
    assert y.dtype == np.uint8
    assert np.abs(y.astype(int) - np.clip(np.rint(pooled / 0.05) + 111, 0, 255)).max() <= 1


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize(("kernel", "stride"), [(3, 2), (3, 3), (4, 3)])
def test_a_window_hangs_over_by_less_than_a_step(kind: str, kernel: int, stride: int) -> None:
    """With `ceil_mode`, over a map that is smaller than the window."""
    runtime = pytest.importorskip("onnxruntime")
    node = onnx.helper.make_node(kind, ["x"], ["y"], kernel_shape=[kernel] * 2, strides=[stride] * 2, ceil_mode=1)
    info = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", [1, 2, 2, 2]), ("y", None))
    ]
    graph = onnx.helper.make_graph([node], "g", info[:1], info[1:])
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 19)], ir_version=8
    ).SerializeToString()
    x = np.random.default_rng(3).normal(size=(1, 2, 2, 2)).astype(np.float32)
    (expected,) = runtime.InferenceSession(model).run(None, {"x": x})
    (found,) = triune.Session(model).run({"x": x})
    assert found.shape == expected.shape == (1, 2, 1, 1)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("weights", [(0, 2, 3, 3), (4, 0, 3, 3), (4, 0, 3), (3, 0, 2, 2, 2)])
@pytest.mark.parametrize("biased", [False, True])
def test_convolutions_without_weights(weights: tuple[int, ...], biased: bool) -> None:
    """Of no output channels there is nothing; the sum of no input channels is the bias."""
    shape = (2, weights[1], *[6] * (len(weights) - 2))
    constants = [onnx.numpy_helper.from_array(np.zeros(weights, np.float32), "w")]
    bias = np.arange(weights[0], dtype=np.float32)
    constants += [onnx.numpy_helper.from_array(bias, "b")] if biased else []
    node = onnx.helper.make_node(
        "Conv", ["x", *[each.name for each in constants]], ["y"], pads=[1] * (2 * len(shape[2:]))
    )
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    graph = onnx.helper.make_graph([node], "g", [x], [y], constants)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    (found,) = triune.Session(model.SerializeToString()).run({"x": np.zeros(shape, np.float32)})
    extents = [6 + 2 - kernel + 1 for kernel in weights[2:]]
    expected = np.zeros((2, weights[0], *extents), np.float32)
    if biased:
        expected += bias.reshape(1, -1, *[1] * len(extents))
    assert found.shape == expected.shape
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("images", [1, 2])
def test_transposed_convolution_of_single_channels(images: int) -> None:
    """Each channel by itself, with overlaps, a cut border and a bias: as the sum of what every element adds."""
    rng = np.random.default_rng(images)
    x, weights, bias = (rng.normal(size=shape).astype(np.float32) for shape in ((images, 5, 4, 6), (5, 1, 3, 4), (5,)))
    attributes = {"group": 5, "strides": [2, 3], "pads": [1, 0, 0, 2]}
    (y,) = run("ConvTranspose", 11, x, weights, bias, known=(1, 2), **attributes)
    whole = np.zeros((images, 5, 3 * 2 + 3, 5 * 3 + 4))
    for row, column in np.ndindex(4, 6):
        whole[:, :, 2 * row :, 3 * column :][:, :, :3, :4] += x[:, :, row, column, None, None] * weights[:, 0]
    np.testing.assert_allclose(y, whole[:, :, 1:, :-2] + bias[:, None, None], rtol=1e-5, atol=1e-5)


def test_fed_weights_give_the_bits_of_known_ones() -> None:
    rng = np.random.default_rng(3)
    x, weights = rng.normal(size=(2, 6, 7, 9)).astype(np.float32), rng.normal(size=(4, 3, 3, 2)).astype(np.float32)
    attributes = {"group": 2, "strides": [2, 1], "pads": [1, 0, 2, 1], "dilations": [1, 2]}
    (fed,) = run("Conv", 11, x, weights, **attributes)
    (known,) = run("Conv", 11, x, weights, known=(1,), **attributes)
    np.testing.assert_array_equal(fed, known)


def test_inputs_extents_that_are_named_alike_need_not_agree() -> None:
    helper = onnx.helper
    infos = [helper.make_tensor_value_info(name, 1, ["N", 2]) for name in "ab"]
    graph = helper.make_graph(
        [helper.make_node("Concat", ["a", "b"], ["y"], axis=0)],
        "joint",
        infos,
        [helper.make_tensor_value_info("y", 1, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]).SerializeToString()
    a, b = np.ones((3, 2), np.float32), np.zeros((1, 2), np.float32)
    (y,) = triune.Session(model).run(None, {"a": a, "b": b})
    np.testing.assert_array_equal(y, np.concatenate([a, b]))


@pytest.mark.parametrize("op", ["Add", "Mul", "Sub", "Conv", "MatMul", "Gemm"])
def test_scales_whose_quotient_no_float_holds_stay_in_reals(op: str) -> None:
    helper, array = onnx.helper, onnx.numpy_helper.from_array
    shape, other = ((1, 2, 3, 3), (2, 2, 1, 1)) if op == "Conv" else ((2, 2), (2, 2))
    x, w = np.arange(np.prod(shape), dtype=np.int8).reshape(shape), np.full(other, -1, np.int8)
    known = {"w": w, "s": np.float32(1e30), "t": np.float32(1e-30), "z": np.int8(0)}
    graph = helper.make_graph(
        [
            helper.make_node("DequantizeLinear", ["x", "s", "z"], ["xr"]),
            helper.make_node("DequantizeLinear", ["w", "s" if op in ("Add", "Sub") else "t", "z"], ["wr"]),
            helper.make_node(op, ["xr", "wr"], ["yr"]),
            helper.make_node("QuantizeLinear", ["yr", "t", "z"], ["y"]),
        ],
        "far",
        [helper.make_tensor_value_info("x", 3, shape)],
        [helper.make_tensor_value_info("y", 3, None)],
        [array(np.asarray(value), name) for name, value in known.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    (y,) = triune.Session(model.SerializeToString()).run(None, {"x": x})
    # Every result is far beyond the bytes' range, or 0.
    assert set(np.unique(y)) <= {-128, 0, 127}
    assert y.any()


@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMax", "ReduceMean", "ReduceProd", "ReduceLogSumExp", "ReduceL1"])
def test_axes_that_stay_and_go_may_take_turns(op: str) -> None:
    x = np.linspace(0.5, 1.5, 2**4 * 3**4, dtype=np.float32).reshape((2, 3) * 4)
    axes = (0, 2, 4, 6)
    functions: dict[str, Any] = {
        "ReduceSum": np.sum, "ReduceMax": np.max, "ReduceMean": np.mean, "ReduceProd": np.prod,
        "ReduceLogSumExp": lambda x, axes: np.log(np.exp(x).sum(axes)), "ReduceL1": lambda x, axes: np.abs(x).sum(axes),
    }  # fmt: skip
    (y,) = run(op, 18, x, np.array(axes), known=(1,), keepdims=0)
    np.testing.assert_allclose(y, functions[op](x.astype(np.float64), axes), rtol=2e-6)
    (y,) = run("ArgMax", 13, x, axis=3, keepdims=0)
    np.testing.assert_array_equal(y, np.argmax(x, 3))


def test_nothing_comes_of_no_images() -> None:
    x, offsets, weights = (np.zeros(shape, np.float32) for shape in ((0, 4, 8, 8), (0, 18, 8, 8), (6, 4, 3, 3)))
    (y,) = run("DeformConv", 19, x, weights, offsets, known=(1,), pads=[1, 1, 1, 1])
    assert y.shape == (0, 6, 8, 8)
    (y,) = run("AffineGrid", 20, np.zeros((0, 2, 3), np.float32), np.array([0, 3, 4, 5]))
    assert y.shape == (0, 4, 5, 2)


def test_more_dimensions_than_tensors_have_are_told() -> None:
    with pytest.raises(triune.errors.Error, match="has 9 dimensions; tensors have 8 at most"):
        run("Unsqueeze", 13, np.zeros((1,) * 8, np.float32), np.array([0]), known=(1,))


def test_a_version_of_tomorrow_is_told_from_a_damaged_file() -> None:
    helper = onnx.helper
    info = helper.make_tensor_value_info("x", 1, [1])
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])], "new", [info], [helper.make_tensor_value_info("y", 1, None)]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 999)]).SerializeToString()
    with pytest.raises(triune.errors.UnsupportedError, match="operator set 999, and 1 to"):
        triune.Session(model)


def test_external_data_of_a_model_in_memory_is_told_where_from() -> None:
    helper = onnx.helper
    info = helper.make_tensor_value_info("x", 1, [1])
    weights = onnx.numpy_helper.from_array(np.ones(1, np.float32), "w")
    weights.ClearField("raw_data")
    weights.data_location = onnx.TensorProto.EXTERNAL
    weights.external_data.add(key="location", value="weights.bin")
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        "far",
        [info],
        [helper.make_tensor_value_info("y", 1, None)],
        [weights],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]).SerializeToString()
    with pytest.raises(triune.errors.FormatError, match=r"'weights.bin' lies beside the model's file.*external_data="):
        triune.Session(model)


@pytest.mark.parametrize(
    "dtype", [np.float32, np.float64, np.float16, np.uint8, np.int16, np.int32, np.int64, np.bool_]
)
def test_one_result_along_an_axis_is_the_same_for_every_type(dtype: Any) -> None:
    x = np.array([1, 0, 0]).astype(dtype).reshape(1, 1, 1, 3)
    scales = np.array([1, 1, 1, 0.5], np.float32)
    (y,) = run(
        "Resize", 19, x, np.zeros(0, np.float32), scales, known=(1, 2), mode="nearest", nearest_mode="ceil",
        coordinate_transformation_mode="pytorch_half_pixel",
    )  # fmt: skip
    np.testing.assert_array_equal(y, x[..., :1])


@pytest.mark.parametrize("shape", [(1, 1, 7), (1, 1, 1, 7), (1, 7)])
def test_what_shrinks_before_opset_11_takes_the_element_behind(shape: tuple[int, ...]) -> None:
    x = np.arange(7, dtype=np.float32).reshape(shape)
    scales = np.ones(len(shape), np.float32)
    for scale, expected in ((0.5, [0, 2, 4]), (0.6, [0, 2, 4, 5]), (0.3, [0, 4])):
        scales[-1] = scale
        (y,) = run("Resize", 10, x, scales, known=(1,), mode="nearest")
        np.testing.assert_array_equal(y.ravel(), np.array(expected, np.float32))


def test_what_grows_and_shrinks_before_opset_11_is_refused() -> None:
    x = np.zeros((1, 1, 4, 4), np.float32)
    with pytest.raises(triune.errors.UnsupportedError, match="shrinking before opset 11"):
        run("Resize", 10, x, np.array([1, 1, 2, 0.5], np.float32), known=(1,), mode="nearest")
