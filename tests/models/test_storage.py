"""Types that are stored and converted but not computed on, and reals of 16 bits that are computed on in 32."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import triune

onnx = pytest.importorskip("onnx")
ml_dtypes = pytest.importorskip("ml_dtypes")

Array = np.ndarray[Any, Any]
T = onnx.TensorProto
EIGHT = {
    T.FLOAT8E4M3FN: ml_dtypes.float8_e4m3fn,
    T.FLOAT8E4M3FNUZ: ml_dtypes.float8_e4m3fnuz,
    T.FLOAT8E5M2: ml_dtypes.float8_e5m2,
    T.FLOAT8E5M2FNUZ: ml_dtypes.float8_e5m2fnuz,
}
REALS = {**EIGHT, T.FLOAT4E2M1: ml_dtypes.float4_e2m1fn, T.BFLOAT16: ml_dtypes.bfloat16}
INTEGERS = {T.UINT4: ml_dtypes.uint4, T.INT4: ml_dtypes.int4, T.UINT2: ml_dtypes.uint2, T.INT2: ml_dtypes.int2}
RANGES = {T.UINT4: (0, 15), T.INT4: (-8, 7), T.UINT2: (0, 3), T.INT2: (-2, 1)}
POWERS = {T.FLOAT8E8M0: ml_dtypes.float8_e8m0fnu}
ALL = {**REALS, **INTEGERS, **POWERS}


def session(nodes: list[Any], inputs: dict[str, Array], outputs: list[str], constants: dict[str, Array]) -> Any:
    helper = onnx.helper
    info = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), ["n", *x.shape[1:]])
        for name, x in inputs.items()
    ]
    initializers = [onnx.numpy_helper.from_array(x, name) for name, x in constants.items()]
    results = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph(nodes, "g", info, results, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=11)
    return triune.Session(onnx.shape_inference.infer_shapes(model).SerializeToString())


def run(nodes: list[Any], inputs: dict[str, Array], outputs: list[str], **constants: Array) -> list[Array]:
    return list(session(nodes, inputs, outputs, constants).run(inputs))


def node(op: str, inputs: list[str], output: str, **attributes: Any) -> Any:
    return onnx.helper.make_node(op, inputs, [output], name="it", **attributes)


def bits(dtype: int) -> int:
    if dtype in (T.UINT2, T.INT2):
        return 2
    if dtype in (T.UINT4, T.INT4, T.FLOAT4E2M1):
        return 4
    return 16 if dtype == T.BFLOAT16 else 8


def samples() -> Array:
    rng = np.random.default_rng(5)
    wide = rng.normal(size=3000) * 10.0 ** rng.uniform(-9, 9, 3000)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 448, 464, 464.1, 57344, 61440, 3e38])
    # Ties between neighbours, and what lies beside them.
    steps = np.arange(-600, 600) / 64
    return np.concatenate([wide, special, steps, steps * (1 + 1e-6)]).astype(np.float32)


def same(mine: Array, theirs: Array) -> None:
    assert mine.dtype == theirs.dtype
    a, b = mine.astype(np.float64), theirs.astype(np.float64)
    np.testing.assert_array_equal(a, b)
    numbers = ~np.isnan(b)
    np.testing.assert_array_equal(np.signbit(a)[numbers], np.signbit(b)[numbers])


@pytest.mark.parametrize("to", REALS)
@pytest.mark.parametrize("source", [np.float32, np.float16, np.float64])
@pytest.mark.filterwarnings("ignore")
def test_reals_become_those_that_are_nearest(to: int, source: Any) -> None:
    x = samples().astype(source)
    (mine,) = run([node("Cast", ["x"], "y", to=to, saturate=0)], {"x": x}, ["y"])
    same(mine, x.astype(REALS[to]))


@pytest.mark.parametrize("to", EIGHT)
@pytest.mark.filterwarnings("ignore")
def test_reals_beyond_the_largest_one_become_that(to: int) -> None:
    x = samples()
    (mine,) = run([node("Cast", ["x"], "y", to=to)], {"x": x}, ["y"])
    same(mine, onnx.numpy_helper.saturate_cast(x, np.dtype(EIGHT[to])))


@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize("mode", ["up", "down", "nearest"])
@pytest.mark.filterwarnings("ignore")
def test_powers_of_two(mode: str, saturate: int) -> None:
    x = np.concatenate([np.abs(samples()), np.float32([2.0**127, 1.7e38, 3e38, 1.5, 2.0**-126, 2.0**-127])])
    attributes = {"to": T.FLOAT8E8M0, "round_mode": mode, "saturate": saturate}
    (mine,) = run([node("Cast", ["x"], "y", **attributes)], {"x": x}, ["y"])
    theirs = onnx.numpy_helper.to_float8e8m0(x, bool(saturate), mode)
    # Where the reference's exponent runs over, it says no number, too.
    np.testing.assert_array_equal(mine.view(np.uint8), theirs.view(np.uint8))


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("to", [T.FLOAT, T.FLOAT16, T.DOUBLE, T.BFLOAT16, T.INT32, T.INT8])
@pytest.mark.filterwarnings("ignore")
def test_every_pattern_stands_for_what_it_should(dtype: int, to: int) -> None:
    patterns = np.arange(2 ** bits(dtype))
    x = patterns.astype(np.uint16 if dtype == T.BFLOAT16 else np.uint8).view(ALL[dtype])
    if to in (T.INT32, T.INT8):
        real = x.astype(np.float32)
        x = x[np.isfinite(real) & (np.abs(real) < 120)]
    (mine,) = run([node("Cast", ["x"], "y", to=to)], {"x": x}, ["y"])
    same(mine, x.astype(np.float32).astype(onnx.helper.tensor_dtype_to_np_dtype(to)))


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("source", [np.float32, np.int32, np.uint8, np.int64])
def test_integers_become_those_of_fewer_bits(dtype: int, source: Any) -> None:
    low, high = RANGES[dtype]
    x = np.arange(max(low, 0) if source == np.uint8 else low, high + 1).astype(source)
    (mine,) = run([node("Cast", ["x"], "y", to=dtype)], {"x": x}, ["y"])
    same(mine, x.astype(INTEGERS[dtype]))


@pytest.mark.parametrize("dtype", ALL)
def test_elements_are_moved_as_they_are(dtype: int) -> None:
    raw = np.random.default_rng(3).integers(0, 2 ** bits(dtype), (5, 3, 7))
    x = raw.astype(np.uint16 if dtype == T.BFLOAT16 else np.uint8).view(ALL[dtype])
    nodes = [
        node("Transpose", ["x"], "turned", perm=[1, 2, 0]),
        node("Reshape", ["turned", "shape"], "flat"),
        node("Concat", ["flat", "more"], "joined", axis=0),
        node("Slice", ["joined", "starts", "ends", "axes", "steps"], "part"),
        node("Gather", ["part", "at"], "y", axis=1),
    ]
    ints = {name: np.array(values) for name, values in
            {"shape": [-1, 7], "starts": [1], "ends": [17], "axes": [0], "steps": [3], "at": [6, 0, 2]}.items()}  # fmt: skip
    more = x[0, :2]
    (mine,) = run(nodes, {"x": x}, ["y"], more=more, **ints)
    turned = x.transpose(1, 2, 0).reshape(-1, 7)
    theirs = np.concatenate([turned, more])[1:17:3][:, [6, 0, 2]]
    assert mine.dtype == theirs.dtype
    bytes_of = np.uint16 if dtype == T.BFLOAT16 else np.uint8
    np.testing.assert_array_equal(mine.view(bytes_of), np.ascontiguousarray(theirs).view(bytes_of))


@pytest.mark.parametrize("dtype", [*EIGHT, T.FLOAT4E2M1, *INTEGERS])
@pytest.mark.parametrize("block", [0, 2])
@pytest.mark.filterwarnings("ignore")
def test_quantizers(dtype: int, block: int) -> None:
    rng = np.random.default_rng(dtype)
    x = rng.normal(size=(6, 5)).astype(np.float32) * 9
    scale = rng.uniform(0.1, 3, (3, 5) if block else (5,)).astype(np.float32)
    low, high = RANGES.get(dtype, (0, 0))
    zero = rng.integers(low, high + 1, scale.shape).astype(np.int8).astype(ALL[dtype])
    attributes = {"axis": 0 if block else 1, **({"block_size": 2} if block else {})}
    nodes = [
        node("QuantizeLinear", ["x", "scale", "zero"], "q", **attributes),
        node("DequantizeLinear", ["q", "scale", "zero"], "y", **attributes),
    ]
    q, y = run(nodes, {"x": x}, ["q", "y"], scale=scale, zero=zero)
    spread = scale.repeat(2, axis=0) if block else scale
    zeros = (zero.repeat(2, axis=0) if block else zero).astype(np.float32)
    if dtype in INTEGERS:
        theirs = np.clip(np.rint(x / spread) + zeros, low, high).astype(ALL[dtype])
    else:
        theirs = onnx.numpy_helper.saturate_cast(x / spread, np.dtype(ALL[dtype]))
    same(q, theirs)
    np.testing.assert_array_equal(y, (q.astype(np.float32) - zeros) * spread)


@pytest.mark.parametrize("dtype", [T.INT4, T.UINT4, T.INT8, T.UINT8, T.INT2])
@pytest.mark.parametrize(("columns", "with_zeros"), [(256, True), (301, False)])
@pytest.mark.filterwarnings("ignore")
def test_matrices_in_blocks_are_multiplied_as_they_are_stored(dtype: int, columns: int, with_zeros: bool) -> None:
    """Large ones: sums of reals in order, whatever else reads the matrix."""
    rng = np.random.default_rng(dtype + columns)
    depth, block = 280, 32
    types = {**ALL, T.INT8: np.int8, T.UINT8: np.uint8}
    low, high = {**RANGES, T.INT8: (-128, 127), T.UINT8: (0, 255)}[dtype]
    matrix = rng.integers(low, high + 1, (depth, columns)).astype(types[dtype])
    scale = rng.uniform(0.01, 0.1, (-(-depth // block), columns)).astype(np.float32)
    zero = rng.integers(low, high + 1, scale.shape).astype(types[dtype])
    operands = ["matrix", "scale", *(["zero"] if with_zeros else [])]
    nodes = [
        node("DequantizeLinear", operands, "reals", axis=0, block_size=block),
        node("MatMul", ["x", "reals"], "y"),
        node("ReduceMax", ["reals", "axes"], "most", keepdims=0),
    ]
    spread = np.repeat(scale, block, axis=0)[:depth]
    zeros = np.repeat(zero.astype(np.float32), block, axis=0)[:depth] if with_zeros else np.float32(0)
    reals = (matrix.astype(np.float32) - zeros) * spread
    known = {"matrix": matrix, "scale": scale, **({"zero": zero} if with_zeros else {}), "axes": np.array([0])}
    for rows in (1, 3):
        x = rng.normal(size=(2, rows, depth)).astype(np.float32)
        y, most = run(nodes, {"x": x}, ["y", "most"], **known)
        np.testing.assert_array_equal(most, reals.max(axis=0))
        wide = x.astype(np.float64) @ reals.astype(np.float64)
        assert np.abs(y - wide).max() <= 2e-6 * np.abs(wide).max()


def test_reals_of_16_bits_are_rounded_behind_every_operator() -> None:
    rng = np.random.default_rng(8)
    a, b = (rng.normal(size=(50, 9)).astype(ml_dtypes.bfloat16) for _ in range(2))
    nodes = [node("Mul", ["a", "b"], "product"), node("Add", ["product", "a"], "sum"), node("Exp", ["sum"], "y")]
    (mine,) = run(nodes, {"a": a, "b": b}, ["y"])
    total = (a * b + a).astype(np.float32)
    theirs = np.exp(total).astype(ml_dtypes.bfloat16)
    assert mine.dtype == theirs.dtype
    # One unit in the last place where f32's exponential lies on a tie.
    np.testing.assert_allclose(mine.astype(np.float32), theirs.astype(np.float32), rtol=2**-8)
    assert (mine == theirs).mean() > 0.99


def test_patterns_are_taken_where_a_type_has_no_name() -> None:
    x = np.arange(16, dtype=np.uint8)
    made = session([node("Cast", ["x"], "y", to=T.FLOAT)], {"x": x.view(ml_dtypes.uint4)}, ["y"], {})
    assert made.inputs[0].dtype == "uint4"
    np.testing.assert_array_equal(made.run({"x": x})[0], np.arange(16, dtype=np.float32))
    with pytest.raises(triune.errors.ArgumentError, match="dtype uint4"):
        made.run({"x": x.astype(np.int8)})


def test_results_are_patterns_without_the_extension(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.array([1.5, -2, 0], np.float32)
    made = session([node("Cast", ["x"], "y", to=T.BFLOAT16)], {"x": x}, ["y"], {})
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    (mine,) = made.run({"x": x})
    assert mine.dtype == np.uint16
    assert mine.tolist() == [0x3FC0, 0xC000, 0]


def test_nothing_computes_on_what_is_only_stored() -> None:
    x = np.arange(4, dtype=np.uint8).view(ml_dtypes.uint4)
    with pytest.raises(triune.errors.Error, match=r"node 'it' \(Relu\).*uint4.*cast it first"):
        run([node("Relu", ["x"], "y")], {"x": x}, ["y"])
