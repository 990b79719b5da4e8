"""Operators over integers with scales of their own, and those that ONNX Runtime adds, against ONNX Runtime alone.

Where ONNX Runtime's arithmetic is that of integers the results are its bits; each case says otherwise by its tolerance: steps
of the result for integers, a share of the largest element for reals.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest

import triune

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

Array = np.ndarray[Any, Any]
MICROSOFT = "com.microsoft"


def reals(*shape: int, low: float = -2, high: float = 2, seed: int = 0) -> Array:
    return np.random.default_rng(sum(shape) + seed).uniform(low, high, shape).astype(np.float32)


def ints(dtype: Any, *shape: int, seed: int = 0) -> Array:
    info = np.iinfo(dtype)
    return np.random.default_rng(sum(shape) + seed).integers(info.min, info.max + 1, shape).astype(dtype)


def scale(value: float) -> Array:
    return np.array(value, np.float32)


def zero(value: int, dtype: Any = np.uint8) -> Array:
    return np.array(value, dtype)


class Case(NamedTuple):
    """One node: operands in order, of which the first `given` that are there are fed; the others are known."""

    op: str
    domain: str
    inputs: list[Array | None]
    attributes: Mapping[str, Any] = MappingProxyType({})
    given: tuple[int, ...] = (0,)
    outputs: int = 1
    tolerance: float = 0
    opset: int = 17
    types: tuple[int, ...] = ()

    def model(self) -> bytes:
        """Return the file."""
        helper = onnx.helper
        arrays = [(f"x{index}", array) for index, array in enumerate(self.inputs) if array is not None]
        fed = {f"x{index}" for index in self.given}
        results = [f"y{index}" for index in range(self.outputs)]
        names = ["" if array is None else f"x{index}" for index, array in enumerate(self.inputs)]
        graph = helper.make_graph(
            [helper.make_node(self.op, names, results, name="it", domain=self.domain, **self.attributes)],
            "case",
            [
                helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
                for name, array in arrays
                if name in fed
            ],
            [onnx.ValueInfoProto(name=name) for name in results],
            [onnx.numpy_helper.from_array(array, name) for name, array in arrays if name not in fed],
        )
        imports = [helper.make_opsetid("", self.opset), helper.make_opsetid(MICROSOFT, 1)]
        return bytes(helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString())

    def feeds(self) -> dict[str, Array]:
        """Return what a run is given."""
        return {f"x{index}": array for index in self.given if (array := self.inputs[index]) is not None}


def check(case: Case) -> None:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    peer = onnxruntime.InferenceSession(case.model(), options, providers=["CPUExecutionProvider"])
    theirs = peer.run(None, case.feeds())
    mine = [np.asarray(result) for result in triune.Session(case.model()).run(case.feeds())]
    assert len(mine) == len(theirs)
    for own, other in zip(mine, theirs, strict=True):
        assert own.dtype == other.dtype
        assert own.shape == other.shape
        bound = case.tolerance
        if other.dtype.kind == "f":
            bound *= max(1.0, float(np.abs(other).max(initial=0)))
        np.testing.assert_allclose(own.astype(np.float64), other.astype(np.float64), rtol=0, atol=bound)


def quantized(
    dtype: Any, *shape: int, seed: int = 0, step: float = 0.05, start: int | None = None
) -> list[Array | None]:
    """Return integers, their scale and their zero point."""
    middle = 3 if np.dtype(dtype).kind == "i" else 131
    return [ints(dtype, *shape, seed=seed), scale(step), zero(middle if start is None else start, dtype)]


def result(dtype: Any, step: float = 0.07, start: int | None = None) -> list[Array | None]:
    """Return the scale and the zero point of a result."""
    middle = -5 if np.dtype(dtype).kind == "i" else 120
    return [scale(step), zero(middle if start is None else start, dtype)]


def of_both(op: str, *shape: int, attributes: Mapping[str, Any] = MappingProxyType({}), **more: Any) -> list[Case]:
    """Return an operator of one operand, over both types of bytes."""
    return [
        Case(op, MICROSOFT, quantized(dtype, *shape) + result(dtype), attributes, **more)
        for dtype in (np.uint8, np.int8)
    ]


ELEMENTWISE = [
    *[
        Case(
            op,
            MICROSOFT,
            quantized(dtype, 3, 4, 5) + quantized(dtype, *other, seed=1, step=0.03) + result(dtype),
            given=(0, 3),
        )
        for op in ("QLinearAdd", "QLinearMul")
        for dtype in (np.uint8, np.int8)
        for other in ((3, 4, 5), (5,), (4, 1))
    ],
    *of_both("QLinearSigmoid", 4, 70),
    *of_both("QLinearLeakyRelu", 4, 70, attributes={"alpha": 0.3}),
    *of_both("QLinearGlobalAveragePool", 2, 5, 6, 7),
    *of_both("QLinearGlobalAveragePool", 2, 6, 7, 5, attributes={"channels_last": 1}),
    *of_both(
        "QLinearAveragePool", 2, 5, 6, 7, attributes={"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}
    ),
    *of_both("QLinearAveragePool", 2, 5, 9, attributes={"kernel_shape": [3]}),
]
SOFTMAX = [
    Case(
        "QLinearSoftmax",
        MICROSOFT,
        [*quantized(dtype, 3, 20), scale(1 / 256), zero(low, dtype)],
        {"axis": axis, "opset": opset},
    )
    for dtype, low in ((np.uint8, 0), (np.int8, -128))
    for axis, opset in ((1, 12), (-1, 13))
]
MOVEMENT = [
    Case(
        "QLinearConcat",
        MICROSOFT,
        result(dtype) + quantized(dtype, 2, 3, 4) + quantized(dtype, 2, 5, 4, step=0.02, start=7),
        {"axis": 1},
        given=(2, 5),
    )
    for dtype in (np.uint8, np.int8)
]


def convolution(
    dtype: Any, weights: Any, channels: bool, *, kernel: tuple[int, ...] = (3, 3), bias: bool = True
) -> Case:
    """Return a convolution of two groups."""
    outputs = 6
    w = ints(weights, outputs, 2, *kernel, seed=2)
    if weights is np.int8:
        w = (w // 2).astype(np.int8)
    shape = (outputs,) if channels else ()
    w_scale = np.random.default_rng(3).uniform(0.001, 0.01, shape).astype(np.float32)
    w_zero = np.zeros(shape, weights) if weights is np.int8 else np.full(shape, 128, weights)
    extents = (2, 4, 9, 8)[: 2 + len(kernel)]
    operands = [*quantized(dtype, *extents), w, w_scale, w_zero, *result(dtype, 0.2)]
    if bias:
        operands.append(np.arange(-300, 300, 100, dtype=np.int32))
    return Case("QLinearConv", "", operands, {"group": 2, "pads": [1] * (2 * len(kernel))}, opset=10)


CONVOLUTIONS = [
    convolution(np.uint8, np.int8, channels=True),
    convolution(np.uint8, np.int8, channels=False, bias=False),
    convolution(np.uint8, np.uint8, channels=False),
    convolution(np.int8, np.int8, channels=True),
    convolution(np.uint8, np.int8, channels=True, kernel=(3,)),
]
CONVOLUTIONS += [
    Case(
        "ConvInteger",
        "",
        [ints(np.uint8, 2, 40, 6, 7), ints(np.uint8, 5, 40, 3, 3), zero(3), zero(200)],
        {"pads": [1] * 4},
    ),
    Case("ConvInteger", "", [ints(np.uint8, 2, 6, 6, 7), ints(np.uint8, 6, 1, 3, 2), zero(3), zero(200)], {"group": 6}),
    Case("ConvInteger", "", [ints(np.uint8, 2, 3, 9), ints(np.uint8, 4, 3, 3)], {"strides": [2]}),
]
A, B = ints(np.uint8, 5, 700), ints(np.uint8, 700, 6, seed=1)
SIGNED = ints(np.int8, 700, 6, seed=2)
COLUMNS = np.random.default_rng(4).uniform(0.001, 0.01, 6).astype(np.float32)
PRODUCTS = [
    Case("MatMulInteger", "", [A, B, zero(7), zero(200)], given=(0, 1)),
    Case("MatMulInteger", "", [A, SIGNED, zero(255)]),
    Case("MatMulInteger", "", [np.full((2, 900), 255, np.uint8), np.full((900, 3), 255, np.uint8)], given=(0, 1)),
    Case("MatMulInteger", "", [ints(np.uint8, 2, 3, 4, 300), ints(np.int8, 3, 300, 5), zero(3), zero(-4, np.int8)]),
    Case(
        "MatMulIntegerToFloat",
        MICROSOFT,
        [A, SIGNED, scale(0.02), COLUMNS, zero(130), np.zeros(6, np.int8), reals(6)],
        tolerance=1e-6,
    ),
    Case("MatMulIntegerToFloat", MICROSOFT, [A, B, scale(0.02), scale(0.01), zero(130), zero(120)], tolerance=1e-6),
    Case(
        "DynamicQuantizeMatMul",
        MICROSOFT,
        [reals(5, 700), SIGNED, COLUMNS, np.zeros(6, np.int8), reals(6)],
        tolerance=1e-6,
    ),
    Case("DynamicQuantizeMatMul", MICROSOFT, [reals(2, 5, 700), B, scale(0.01), zero(120)], tolerance=1e-6),
    *[
        Case(
            "QGemm",
            MICROSOFT,
            [*quantized(np.uint8, 5, 40), ints(np.int8, *shape), *parameters, *more],
            {"transB": trans},
        )
        for trans, shape in ((0, (40, 6)), (1, (6, 40)))
        for parameters in ([scale(0.01), zero(0, np.int8)], [COLUMNS, np.zeros(6, np.int8)])
        for more in (
            [np.arange(-300, 300, 100, dtype=np.int32), *result(np.uint8, 2.0)],
            [None, *result(np.uint8, 2.0)],
        )
    ],
]
X = reals(2, 4, 9, 8)
FLOATS = [
    Case("Gelu", MICROSOFT, [reals(7, 9)]),
    Case("FastGelu", MICROSOFT, [reals(7, 9)]),
    Case("FastGelu", MICROSOFT, [reals(7, 9), reals(9)]),
    Case("BiasGelu", MICROSOFT, [reals(7, 9), reals(9)]),
    Case("QuickGelu", MICROSOFT, [reals(7, 9)], {"alpha": 1.5}),
    *[
        Case(
            "FusedConv",
            MICROSOFT,
            [X, reals(6, 2, 3, 3), reals(6)],
            {"group": 2, "activation": name} | ({"activation_params": values} if values else {}),
        )
        for name, values in (
            ("Relu", []),
            ("Tanh", []),
            ("Sigmoid", []),
            ("LeakyRelu", [0.2]),
            ("Clip", [-1.0, 0.5]),
            ("HardSigmoid", [0.3, 0.4]),
        )
    ],
    Case("FusedConv", MICROSOFT, [X, reals(6, 4, 3, 3), None, reals(2, 6, 7, 6)], {"activation": "Relu"}, given=(0, 3)),
    Case(
        "SkipLayerNormalization",
        MICROSOFT,
        [reals(2, 3, 8), reals(2, 3, 8, seed=1), reals(8), reals(8), reals(8)],
        {"epsilon": 0.01},
        (0, 1),
        4,
    ),
    Case("SkipLayerNormalization", MICROSOFT, [reals(2, 3, 8), reals(2, 3, 8, seed=1), reals(8)], given=(0, 1)),
    Case(
        "SkipSimplifiedLayerNormalization",
        MICROSOFT,
        [reals(2, 3, 8), reals(2, 3, 8, seed=1), reals(8), reals(8)],
        {"epsilon": 0.01},
        (0, 1),
    ),
]
FLOATS = [case._replace(tolerance=3e-6) for case in FLOATS]


def few_bits(bits: int, columns: int, block: int, points: str, *, bias: bool = False, level: int = 0) -> Case:
    """Return a product with a matrix in blocks of few bits."""
    rows, blocks = 6, -(-columns // block)
    packed = ints(np.uint8, rows, blocks, block * bits // 8)
    scales = np.random.default_rng(5).uniform(0.01, 0.1, rows * blocks).astype(np.float32)
    operands: list[Array | None] = [reals(3, columns), packed, scales]
    if points == "bytes":
        operands.append(ints(np.uint8, rows * -(-blocks * bits // 8)))
    elif bias:
        operands += [None]
    if bias:
        operands += [None, reals(rows)]
    attributes = {"N": rows, "K": columns, "bits": bits, "block_size": block, "accuracy_level": level}
    return Case("MatMulNBits", MICROSOFT, operands, attributes, tolerance=3e-6)


FEW_BITS = [
    few_bits(4, 64, 16, ""),
    few_bits(4, 96, 32, "bytes"),
    few_bits(4, 80, 32, "bytes", bias=True),
    few_bits(8, 64, 32, "bytes"),
    # Rows become bytes, in either runtime.
    few_bits(4, 64, 16, "", level=4),
    few_bits(4, 300, 128, "bytes", bias=True, level=4),
    few_bits(8, 100, 32, "bytes", level=4),
    # Of a row no more than 256 elements have one factor; with two bits rows stay real in blocks that are short or long.
    few_bits(4, 700, 512, "bytes", level=4),
    few_bits(2, 64, 16, "", level=4),
    few_bits(2, 96, 32, "", level=4),
]


def blocked(op: str, dtype: Any, axis: int, points: bool) -> Case:
    """Return a quantizer or dequantizer with parameters of blocks of four."""
    shape = [4, 8, 12]
    own = list(shape)
    own[axis] //= 4
    first = reals(*shape, low=-20, high=20) if op == "QuantizeLinear" else ints(dtype, *shape)
    scales = reals(*own, low=0.05, high=0.3)
    operands: list[Array | None] = [first, scales, *([ints(dtype, *own)] if points else [])]
    attributes = {"axis": axis, "block_size": 4}
    if op == "QuantizeLinear" and not points:
        attributes["output_dtype"] = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return Case(op, "", operands, attributes, opset=21)


BLOCKED = [
    blocked(op, dtype, axis, points)
    for op in ("QuantizeLinear", "DequantizeLinear")
    for dtype in (np.uint8, np.int8, np.int16)
    for axis in (0, 1, -1)
    for points in (False, True)
]
ALL = ELEMENTWISE + SOFTMAX + MOVEMENT + CONVOLUTIONS + PRODUCTS + FLOATS + FEW_BITS + BLOCKED


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.op)
def test_operators_are_those_of_onnxruntime(case: Case) -> None:
    check(case)


def test_weights_of_an_lstm_in_bytes() -> None:
    # ONNX Runtime quantizes inputs and states as well, anew in every step; here they stay reals. That is nearer to what the
    # weights stand for, and differs by what a state of 255 steps cannot tell apart, times the weights.
    rng = np.random.default_rng(6)
    steps, batch, width, hidden = 6, 2, 16, 12
    weights = [ints(np.int8, 1, rows, 4 * hidden) for rows in (width, hidden)]
    parameters: list[Array | None] = [np.array([0.002], np.float32), np.array([0], np.int8)]
    operands: list[Array | None] = [
        reals(steps, batch, width, low=-1, high=1),
        *weights,
        rng.uniform(-1, 1, (1, 8 * hidden)).astype(np.float32),
        None,
        None,
        None,
        None,
        *parameters,
        *parameters,
    ]
    case = Case("DynamicQuantizeLSTM", MICROSOFT, operands, {"hidden_size": hidden}, outputs=3, tolerance=0.02)
    check(case)


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (
            few_bits(4, 64, 16, "")._replace(attributes={"N": 6, "K": 64, "bits": 3, "block_size": 16}),
            "16 times 3 bits",
        ),
        (few_bits(4, 64, 16, "")._replace(attributes={"K": 64, "block_size": 16}), "attribute 'N' is missing"),
        (few_bits(4, 64, 16, "")._replace(attributes={"N": 7, "K": 64, "block_size": 16}), "not 7 rows of 32 bytes"),
        (few_bits(4, 64, 16, "")._replace(given=(0, 1)), "input B is not"),
        (few_bits(4, 64, 16, "")._replace(attributes={"N": 2**40, "K": 2**40, "block_size": 16}), "more elements"),
        (Case("FusedConv", MICROSOFT, [X, reals(6, 4, 3, 3)], {"activation": "Cube"}), "'activation' = 'Cube'"),
        (
            Case("QLinearConcat", MICROSOFT, [*result(np.uint8), *quantized(np.uint8, 2), zero(1)], {"axis": 0}),
            "a scale and a zero point",
        ),
        (
            Case("DequantizeLinear", "", [ints(np.int8, 4, 6), reals(4, 3)], {"axis": 1, "block_size": 4}, opset=21),
            "blocks of 4",
        ),
    ],
)
def test_what_does_not_fit_is_named(case: Case, words: str) -> None:
    with pytest.raises(triune.errors.Error) as caught:
        triune.Session(case.model()).run(case.feeds())
    assert f"node 'it' ({case.op})" in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("name", "at", "shape", "words"),
    [
        ("an extra block", 1, (6, 4, 16), "input B is uint8 (6, 4, 16), not 6 rows of 48 bytes"),
        ("wider blocks", 1, (6, 3, 32), "input B is uint8 (6, 3, 32), not 6 rows of 48 bytes"),
        ("turned around", 1, (16, 3, 6), "input B is uint8 (16, 3, 6), not 6 rows of 48 bytes"),
        ("scales turned around", 2, (3, 6), "input scales is float32 (3, 6), not 6 rows of 3 reals"),
        ("more zero points", 3, (6, 3), "input zero_points is uint8 (6, 3), not 6 rows of 2 bytes"),
    ],
)
def test_matrices_in_blocks_have_their_layout(name: str, at: int, shape: tuple[int, ...], words: str) -> None:
    case = few_bits(4, 80, 32, "bytes")
    operands = list(case.inputs)
    operands[at] = reals(*shape) if at == 2 else ints(np.uint8, *shape)
    with pytest.raises(triune.errors.UnsupportedError) as raised:
        triune.Session(case._replace(inputs=operands).model())
    assert words in str(raised.value), name
