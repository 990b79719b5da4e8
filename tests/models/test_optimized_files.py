"""Operators of files that ONNX Runtime's optimizer and quantizers write, each alone and in whole files, against it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import triune

sys.path.insert(0, str(Path(__file__).parent))
from test_integer_operators import (
    MICROSOFT,
    Array,
    Case,
    check,
    few_bits,
    ints,
    onnx,
    onnxruntime,
    quantized,
    reals,
    result,
    scale,
    zero,
)


def longs(*values: int) -> Array:
    return np.array(values, np.int64)


def fused(op: str, *inputs: Array, given: tuple[int, ...] = (0, 1), **attributes: Any) -> Case:
    return Case(op, MICROSOFT, list(inputs), attributes, given, tolerance=3e-6)


IMAGE, ROW = reals(2, 4, 9, 8), reals(2, 4, 9)
PRODUCTS = [
    fused("FusedMatMul", reals(2, 3, 4), reals(2, 4, 5), alpha=0.5),
    fused("FusedMatMul", reals(2, 4, 3), reals(2, 5, 4), transA=1, transB=1),
    fused("FusedMatMul", reals(2, 3, 4), reals(5, 4), given=(0,), transB=1, alpha=-2.0),
    fused("FusedMatMul", reals(3, 2, 6, 4), reals(4, 2, 6, 5), transBatchA=1, transBatchB=1),
    fused("FusedMatMul", reals(4, 2, 3), reals(5, 2, 4), transA=1, transBatchA=1, transB=1, transBatchB=1),
    fused("FusedMatMul", reals(4), reals(4, 5), transA=1),
    fused("FusedMatMul", reals(3, 4).astype(np.float64), reals(5, 4).astype(np.float64), transB=1),
    fused("TransposeMatMul", reals(4, 3), reals(4, 5), transA=1, alpha=0.25),
]
GEMMS = [
    fused("FusedGemm", reals(3, 4), reals(4, 5), *more, activation=name, alpha=0.5, **values)
    for more in ([], [reals(5)])
    for name, values in (
        ("Relu", {}),
        ("Tanh", {}),
        ("Sigmoid", {}),
        ("Softplus", {}),
        ("Softsign", {}),
        ("LeakyRelu", {"activation_alpha": 0.2}),
        ("ThresholdedRelu", {"activation_alpha": 0.3}),
        ("Elu", {"activation_alpha": 0.7}),
        ("Celu", {"activation_alpha": 1.0}),
        ("Celu", {"activation_alpha": 0.3}),
        ("Selu", {"activation_alpha": 1.5, "activation_gamma": 1.1}),
        ("HardSigmoid", {"activation_alpha": 0.3, "activation_beta": 0.4}),
        ("ScaledTanh", {"activation_alpha": 0.3, "activation_beta": 0.4}),
        ("ParametricSoftplus", {"activation_alpha": 0.3, "activation_beta": 0.4}),
    )
]
GEMMS.append(fused("FusedGemm", reals(4, 3), reals(5, 4), reals(5), activation="Relu", transA=1, transB=1, beta=2.0))
CONVOLUTIONS = [
    fused("FusedConv", IMAGE, reals(6, 4, 3, 3), reals(6), given=(0,), activation="HardSwish"),
    fused(
        "FusedConv", IMAGE, reals(6, 4, 3, 3), reals(6), reals(2, 6, 7, 6), given=(0, 3), activation="HardSwish",
        activation_params=[0.3, 0.4],
    ),
    # Of one axis, what is added has no height either.
    fused("FusedConv", ROW, reals(6, 4, 3), reals(6), reals(2, 6, 7), given=(0, 3), activation="Tanh"),
]  # fmt: skip


def channels_last(dtype: Any, weights: Any, *extents: int, **attributes: Any) -> Case:
    """Return a convolution whose channels lie last."""
    w = ints(weights, 6, extents[-1] // 2, *[3] * (len(extents) - 2), seed=2)
    w = (w // 2).astype(weights)
    operands = [*quantized(dtype, *extents), w, reals(6, low=0.001, high=0.01), np.full(6, 0, weights)]
    operands += [*result(dtype, 0.2), np.arange(-300, 300, 100, dtype=np.int32)]
    return Case("QLinearConv", MICROSOFT, operands, {"channels_last": 1, "group": 2, **attributes})


LAST = [
    channels_last(np.uint8, np.int8, 2, 7, 6, 4, pads=[1] * 4, strides=[2, 1]),
    channels_last(np.uint8, np.uint8, 2, 7, 6, 4),
    channels_last(np.int8, np.int8, 2, 9, 4, pads=[1] * 2),
    *[
        Case(
            "QLinearAveragePool", MICROSOFT, [*quantized(dtype, *extents), *result(dtype)],
            {"channels_last": 1, "kernel_shape": [2] * (len(extents) - 2), "count_include_pad": 1, **more},
        )
        for dtype in (np.uint8, np.int8)
        for extents, more in (((2, 7, 6, 5), {"pads": [1, 0, 0, 1]}), ((2, 9, 5), {}))
    ],
    *[
        Case("NhwcMaxPool", MICROSOFT, [ints(dtype, 2, 7, 6, 5)], {"kernel_shape": [3, 2], **more})
        for dtype in (np.uint8, np.int8)
        for more in ({}, {"pads": [1, 0, 1, 1], "strides": [2, 2], "ceil_mode": 1}, {"dilations": [2, 1]})
    ],
    Case("NhwcMaxPool", MICROSOFT, [ints(np.uint8, 2, 9, 5)], {"kernel_shape": [2]}),
]  # fmt: skip


def attention(weights: Any, columns: bool, *, mask: Array | None = None, past: bool = False, **more: Any) -> Case:
    """Return an attention of two heads over bytes."""
    w = (ints(weights, 8, 24) // 2).astype(weights)
    own = (24,) if columns else ()
    points = np.full(own, 3, weights)
    operands: list[Array | None] = [
        ints(np.uint8, 2, 3, 8), w, reals(24), scale(0.02), np.broadcast_to(reals(24, low=0.01, high=0.02), own or (24,))[:],
        mask, zero(120), points, reals(2, 2, 2, 4, 4) if past else None,
    ]  # fmt: skip
    if not columns:
        operands[4] = scale(0.015)
    return Case(
        "QAttention", MICROSOFT, operands, {"num_heads": 2, **more}, (0, 8) if past else (0,), 2 if past else 1,
        tolerance=3e-6,
    )  # fmt: skip


ATTENTIONS = [
    attention(np.int8, columns=False),
    attention(np.uint8, columns=True, unidirectional=1),
    attention(np.int8, columns=True, mask=np.array([[1, 1, 0], [1, 1, 1]], np.int32)),
    attention(np.int8, columns=False, past=True, unidirectional=1),
]


def table(bits: int, points: bool, dtype: Any = np.float32, block: int = 16, width: int = 48) -> Case:
    """Return rows of a table in blocks of few bits."""
    per_byte, blocks = 8 // bits, -(-width // block)
    data = ints(np.uint8, 7, width // per_byte)
    scales = reals(7, blocks, low=0.01, high=0.1).astype(dtype)
    operands: list[Array | None] = [data, np.array([[0, 6, -1], [3, 3, 2]], np.int64), scales]
    if points:
        operands.append(ints(np.uint8, 7, -(-blocks // per_byte)))
    attributes = {"block_size": block, "bits": bits, "quantize_axis": 1, "gather_axis": 0}
    return Case("GatherBlockQuantized", MICROSOFT, operands, attributes, given=(1,), tolerance=1e-7)


def in_order(bits: int, points: str) -> Case:
    """Return a product with a matrix whose columns are of groups in an order of their own."""
    case = few_bits(bits, 64, 16, points)
    operands = [*case.inputs, *[None] * (4 - len(case.inputs))]
    order = np.random.default_rng(8).permutation(np.arange(64) // 16).astype(np.int32)
    return case._replace(inputs=[*operands, order])


BLOCKS = [
    *[table(bits, points) for bits in (2, 4, 8) for points in (False, True)],
    table(4, points=True, dtype=np.float16),
    table(4, points=True, block=32),
    in_order(4, ""),
]
LINE = np.array([2, 1, 1, 3, 2, -1], np.float32)
BORROWED = [
    *[Case("Trilu", MICROSOFT, [reals(3, 4, 5), np.array(k, np.int64)], {"upper": up}) for k in (-1, 1) for up in (0, 1)],
    Case("Trilu", MICROSOFT, [reals(4, 4)]),
    *[
        Case("Pad", MICROSOFT, [reals(3, 4), pads, *more], {"mode": mode})
        for mode, more in (
            ("constant", []),
            ("constant", [np.array([3], np.float32)]),
            ("edge", []),
            ("reflect", []),
            ("wrap", []),
        )
        for pads in (longs(0, 1, 2, 0), longs(1, 1, 0, 2)[None])
    ],
    Case("Pad", MICROSOFT, [reals(3, 4), longs(0, -1, 2, 0)]),
    *[Case("GatherND", MICROSOFT, [reals(3, 4), np.array([[1, 2], [0, -1]], kind)]) for kind in (np.int32, np.int64)],
    *[
        Case("Range", MICROSOFT, [np.array(value, kind) for value in values], given=())
        for kind in (np.int16, np.int32, np.int64, np.float32, np.float64)
        for values in ((1, 6), (2, 9, 3), (5, 0, -2))
    ],
    Case("Range", MICROSOFT, [longs(0), longs(5)], given=()),
    Case("Unique", MICROSOFT, [LINE], outputs=3),
    *[Case("ExpandDims", MICROSOFT, [reals(3, 4), np.array(axis, np.int32)]) for axis in (0, 1, -1, -2, -3, [1])],
    *[
        Case("GridSample", MICROSOFT, [reals(1, 2, 4, 5), reals(1, 3, 3, 2)], attributes, (0, 1), tolerance=1e-5)
        for attributes in (
            {}, {"mode": "nearest"}, {"mode": "bicubic"}, {"align_corners": 1}, {"padding_mode": "reflection"},
            {"mode": "bilinear", "padding_mode": "border"},
        )
    ],
    *[
        Case("CDist", MICROSOFT, [reals(5, 4).astype(kind), reals(3, 4).astype(kind)], attributes, (0, 1), tolerance=1e-5)
        for kind in (np.float32, np.float64)
        for attributes in ({}, {"metric": "euclidean"}, {"metric": "sqeuclidean"})
    ],
]  # fmt: skip
EARLY = [
    Case(
        op,
        "",
        [reals(3, 5), reals(5), *more],
        {"axis": -1, "epsilon": 0.01},
        outputs=outputs,
        opset=opset,
        tolerance=3e-6,
    )
    for opset in (9, 13, 16)
    for op, more, outputs in (
        ("LayerNormalization", [reals(5, seed=1)], 1),
        ("LayerNormalization", [reals(5, seed=1)], 3),
        ("SimplifiedLayerNormalization", [], 1),
    )
]
# More products to a sum than are exact in float32, in groups, or under one window.
SUMS = [
    Case(
        "ConvInteger",
        "",
        [ints(np.uint8, 1, 12, 40), ints(np.int8, 8, 6, 128), zero(128), zero(3, np.int8)],
        {"group": 2, "pads": [64, 63]},
    ),
    Case("ConvInteger", "", [ints(np.uint8, 1, 2, 20, 20), ints(np.uint8, 3, 2, 17, 17), zero(3), zero(200)]),
    Case("ConvInteger", "", [np.full((1, 2, 400), 255, np.uint8), np.full((2, 1, 400), 255, np.uint8)], {"group": 2}),
    Case("ConvInteger", "", [np.full((1, 2, 400), 0, np.uint8), np.full((2, 1, 400), 255, np.uint8), zero(255)], {"group": 2}),
]  # fmt: skip
CASES = [
    *PRODUCTS, *GEMMS, *CONVOLUTIONS, *LAST, *ATTENTIONS, *BLOCKS, *BORROWED, *EARLY, *SUMS,
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.op)
def test_the_operator_gives_the_numbers_of_onnx_runtime(case: Case) -> None:
    check(case)


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (fused("FusedGemm", reals(3, 4), reals(4, 5), activation="Cube"), "'activation' = 'Cube'"),
        (table(4, points=False)._replace(attributes={"bits": 3}), "times 3 bits"),
        (table(4, points=False)._replace(attributes={"block_size": 16, "gather_axis": 1}), "gathered along axis 1"),
        (in_order(4, "")._replace(inputs=[*in_order(4, "").inputs[:4], np.full(64, 4, np.int32)]), "input g_idx"),
        (Case("CDist", MICROSOFT, [reals(5, 4), reals(3, 4)], {"metric": "cosine"}), "'metric' = 'cosine'"),
        (Case("ExpandDims", MICROSOFT, [reals(5), np.array(2, np.int32)]), "axis 2"),
        (
            Case("ConvInteger", "", [np.zeros((1, 2, 70000), np.uint8), np.zeros((2, 1, 70000), np.uint8)], {"group": 2}),
            "more than 65536 products",
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(case: Case, words: str) -> None:
    with pytest.raises(triune.errors.Error) as caught:
        triune.Session(case.model()).run(case.feeds())
    assert f"node 'it' ({case.op})" in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize("bits", [4, 8])
def test_zero_points_in_bytes_follow_an_order_of_groups(bits: int) -> None:
    # ONNX Runtime's CPU leaves them aside, or refuses them; in reals it has them.
    case = in_order(bits, "bytes")
    packed, scales, points, order = (np.asarray(part) for part in case.inputs[1:5])
    per_byte = 8 // bits
    digits = [
        np.stack([part >> (bits * place) & (2**bits - 1) for place in range(per_byte)], -1) for part in (packed, points)
    ]
    levels, zeros = (part.reshape(6, -1).astype(np.float32) for part in digits)
    weights = (levels - zeros[:, order]) * scales.reshape(6, -1)[:, order]
    own = triune.Session(case.model()).run(case.feeds())[0]
    np.testing.assert_allclose(own, np.asarray(case.inputs[0]) @ weights.T, rtol=0, atol=1e-4)
    if bits == 4:
        check(case._replace(inputs=[*case.inputs[:3], zeros.reshape(-1), order]))


def network(opset: int) -> onnx.ModelProto:
    """Return an attention block and a convolution, of float32, as exporters write them."""
    text = f"""
    <ir_version: 8, opset_import: ["" : {opset}]>
    network (float[b, 6, 8] x, float[b, 4, 9, 9] image) => (y, z) {{
      centre = ReduceMean <axes = [-1]> (x)
      from_centre = Sub (x, centre)
      two = Constant <value = float {{2}}> ()
      squares = Pow (from_centre, two)
      variance = ReduceMean <axes = [-1]> (squares)
      tiny = Constant <value = float {{0.00001}}> ()
      above = Add (variance, tiny)
      root = Sqrt (above)
      normal = Div (from_centre, root)
      times = Mul (normal, gamma)
      n = Add (times, beta)
      q = MatMul (n, wq)
      k = MatMul (n, wk)
      turned = Transpose <perm = [0, 2, 1]> (k)
      scores = MatMul (q, turned)
      part = Constant <value = float {{0.25}}> ()
      scaled = Mul (scores, part)
      weights = Softmax <axis = -1> (scaled)
      y = MatMul (weights, n)
      c = Conv <pads = [1, 1, 1, 1]> (image, wc, bc)
      z = Relu (c)
    }}
    """
    model = onnx.parser.parse_model(text)
    arrays = {"gamma": reals(8), "beta": reals(8, seed=1), "wq": reals(8, 8), "wk": reals(8, 8, seed=1)}
    arrays |= {"wc": reals(6, 4, 3, 3), "bc": reals(6)}
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in arrays.items())
    return model


def test_an_optimized_file_gives_the_numbers_of_onnx_runtime(tmp_path: Path) -> None:
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    peer = onnxruntime.InferenceSession(network(14).SerializeToString(), options, providers=["CPUExecutionProvider"])
    optimized = onnx.load(tmp_path / "optimized.onnx")
    assert {"LayerNormalization", "FusedMatMul", "FusedConv"} <= {node.op_type for node in optimized.graph.node}
    feeds = {"x": reals(2, 6, 8), "image": reals(2, 4, 9, 9)}
    mine = triune.Session(str(tmp_path / "optimized.onnx")).run(feeds)
    for own, other in zip(mine, peer.run(None, feeds), strict=True):
        np.testing.assert_allclose(own, other, rtol=0, atol=2e-5)


def test_means_of_bytes_know_their_type_behind_operators_over_integers() -> None:
    # Files of quantizers state no types in between.
    text = """
    <ir_version: 8, opset_import: ["" : 13, "com.microsoft" : 1]>
    network (float[1, 2, 4, 5] x) => (y) {
      s = Constant <value = float {0.05}> ()
      p = Constant <value = uint8 {128}> ()
      q = QuantizeLinear (x, s, p)
      sum = com.microsoft.QLinearAdd (q, s, p, q, s, p, s, p)
      factors = Constant <value = float[4] {1, 1, 2, 2}> ()
      wide = Resize <mode = "linear", coordinate_transformation_mode = "align_corners"> (sum, , factors)
      wider = Resize <mode = "linear"> (wide, , factors)
      y = DequantizeLinear (wider, s, p)
    }
    """
    model = onnx.parser.parse_model(text).SerializeToString()
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    peer = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    feeds = {"x": reals(1, 2, 4, 5)}
    own, other = triune.Session(model).run(feeds)[0], peer.run(None, feeds)[0]
    assert own.shape == other.shape
    np.testing.assert_allclose(own, other, rtol=0, atol=0.0501)
