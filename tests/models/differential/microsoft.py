"""Recipes of the operators that ONNX Runtime adds to ONNX's, and their schemas, which it has itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from book import recipe
from drawing import Array, Draw, Drawn, Recipe, Refused, Type
from elements import spatial, windows
from onnx import TensorProto

DOMAIN = "com.microsoft"
FLOAT = Type("", TensorProto.FLOAT)


class Parameter(NamedTuple):
    """An operand or result, by the names that ONNX's schemas have."""

    type_str: str


class Schema(NamedTuple):
    """What recipes ask of an operator, by the names that ONNX's schemas have."""

    name: str
    domain: str
    since_version: int
    attributes: Any
    inputs: list[Parameter]
    outputs: list[Parameter]
    type_constraints: list[Any]


class Constraint(NamedTuple):
    """The types of a parameter, by the names that ONNX's schemas have."""

    type_param_str: str
    allowed_type_strs: list[str]


def schemas() -> list[Schema]:
    """Return ONNX Runtime's own operators; types that numpy does not have are left out: none of its CPU kernels takes them."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    found = []
    for schema in state.get_all_operator_schema():
        if schema.domain != DOMAIN:
            continue
        kept = [[text for text in one.allowed_type_strs if "float8" not in text and "bfloat" not in text]
                for one in schema.type_constraints]  # fmt: skip
        constraints = [
            Constraint(one.type_param_str, texts) for one, texts in zip(schema.type_constraints, kept, strict=True)
        ]
        inputs, outputs = ([Parameter(one.typeStr) for one in several] for several in (schema.inputs, schema.outputs))
        found.append(Schema(schema.name, DOMAIN, schema.since_version, schema.attributes, inputs, outputs, constraints))
    return found


def ms(*operators: str) -> Callable[[Recipe], Recipe]:
    """Register a recipe under these operators of the domain."""
    return recipe(*(f"{DOMAIN}.{name}" for name in operators))


def reals(d: Draw, shape: tuple[int, ...] = (), low: float = 0.02, high: float = 0.2) -> Array:
    """Return float32 numbers that are like others: scales, if nothing else is said."""
    return d.array(FLOAT, shape, low, high, special=False)


def octets(d: Draw, of: Type, shape: tuple[int, ...] = (), *, weights: bool = False) -> Array:
    """Return bytes; weights with a sign in half their range, as ONNX Runtime's saturating products ask."""
    signed = of.name == "INT8"
    low, high = ((-63, 63) if weights else (-128, 127)) if signed else (0, 255)
    return d.array(of, shape, low, high, special=False)


def zero(d: Draw, of: Type, shape: tuple[int, ...] = ()) -> Array:
    """Return zero points."""
    return d.array(of, shape, -5, 9, special=False)


@ms("Gelu", "QuickGelu")
def gelu(d: Draw) -> Drawn:
    return Drawn([d.tensor(0, d.shape(d.between(0, 4)))], d.some(alpha=d.real(0.5, 2)), bound=4)


@ms("BiasGelu", "FastGelu")
def bias_gelu(d: Draw) -> Drawn:
    shape = d.shape(d.between(1, 4))
    bias = d.tensor(1, shape[-1:], special=False) if d.op == "BiasGelu" or d.maybe() else None
    return Drawn([d.tensor(0, shape, special=False), bias], bound=4)


@ms("SkipLayerNormalization", "SkipSimplifiedLayerNormalization")
def skipped(d: Draw) -> Drawn:
    batch, tokens, width = d.extent(1, 3), d.extent(1, 4), d.between(1, 8)
    skip = d.pick((batch, tokens, width), (batch, tokens, width), (1, tokens, width), (tokens, width))
    inputs: list[Any] = [d.tensor(0, (batch, tokens, width), special=False), d.tensor(1, skip, special=False)]
    inputs.append(d.tensor(2, (width,), special=False))
    for place in range(3, len(d.schema.inputs)):
        inputs.append(d.tensor(place, (width,), special=False) if d.maybe() else None)
    return Drawn(inputs, d.some(epsilon=d.pick(1e-5, 0.01)), d.pick(1, 1, 4), bound=100)


@ms("FusedConv")
def fused_conv(d: Draw) -> Drawn:
    attributes, kernel, least = windows(d, 2)
    group, each, outs = d.pick(1, 1, 2), d.between(1, 3), d.between(1, 3)
    attributes |= {"group": group, "kernel_shape": kernel}
    kind = d.pick("Relu", "Tanh", "Sigmoid", "LeakyRelu", "Clip", "HardSigmoid", "HardSwish")
    parameters = {"LeakyRelu": [0.1], "Clip": [-1.0, 2.0], "HardSigmoid": [0.2, 0.5]}
    attributes["activation"] = kind
    if kind in parameters:
        attributes["activation_params"] = parameters[kind]
    x = d.tensor(0, (d.extent(1, 2), group * each, *spatial(d, least)), special=False)
    w = d.tensor(1, (group * outs, each, *kernel), special=False)
    return Drawn([x, w, d.tensor(2, (group * outs,), special=False) if d.maybe() else None], attributes, bound=6)


@ms("MatMulNBits")
def few_bits(d: Draw) -> Drawn:
    bits, block = d.pick(4, 4, 8), d.pick(16, 32, 64)
    k, n = d.between(1, 3 * block), d.between(1, 5)
    blocks = -(-k // block)
    byte = Type("", TensorProto.UINT8)
    weights = d.array(byte, (n, blocks, block * bits // 8), 0, 255, special=False)
    scales = d.array(d.type(2), (n * blocks,), 0.02, 0.2, special=False)
    points: Any = None
    if d.maybe():
        own = d.type(3)
        packed = own.name == "UINT8"
        count = n * -(-blocks * bits // 8) if packed else n * blocks
        points = d.array(own, (count,), 0, 255 if packed else 12, special=False)
    bias = d.tensor(5, (n,), special=False) if d.maybe(0.3) else None
    # ONNX Runtime leaves zero points in bytes aside, and has no eight bits, where there is an order of groups.
    order = None
    if bits == 4 and (points is None or points.dtype.kind == "f") and d.maybe(0.3):
        order = d.whole(0, blocks - 1, (k,), np.int32)
    attributes = {"K": k, "N": n, "bits": bits, "block_size": block}
    # The other runtime computes on reals at that level, too, where zero points are reals or there is an order of groups.
    if order is None and (points is None or points.dtype.kind == "u") and d.maybe(0.4):
        attributes["accuracy_level"] = 4
    x = d.tensor(0, (*d.shape(d.between(0, 2), 1, 3), d.extent(1, 4), k), special=False)
    known = (1, 2, *([3] if points is not None else []), *([4] if order is not None else []))
    return Drawn([x, weights, scales, points, order, bias], attributes, known=known, bound=20)


@ms("QuantizeLinear", "DequantizeLinear")
def quantize(d: Draw) -> Drawn:
    shape = d.shape(d.between(1, 3), 1, 4)
    attributes: dict[str, Any] = {}
    own: tuple[int, ...] = ()
    if d.maybe():
        axis = d.axis(len(shape), 1)
        attributes["axis"], own = axis, (shape[axis],)
    down = d.op == "QuantizeLinear"
    of = d.result() if down else d.type(0)
    if of.name not in ("INT8", "UINT8", "INT16", "UINT16", "INT32"):
        raise Refused("few bits come in pairs")
    step = d.array(d.type(1), own, 0.02, 0.5, special=False)
    point = zero(d, of, own) if of.name != "INT32" and (down or d.maybe(0.7)) else None
    if down:
        return Drawn([d.tensor(0, shape, -20, 20, special=False), step, point], attributes)
    return Drawn([d.tensor(0, shape, -100, 100), step, point], attributes, bound=2)


def factors(d: Draw, n: int) -> tuple[int, ...]:
    """Return the shape of scales: one, or one for each column."""
    return d.pick((), (1,), (n,))


@ms("Inverse")
def inverse(d: Draw) -> Drawn:
    side = d.between(1, 4)
    x = d.tensor(0, (*d.shape(d.between(0, 2)), side, side), -1, 1, special=False)
    # Far from a matrix that has none.
    return Drawn([(x + np.eye(side) * 2 * side).astype(x.dtype)], bound=10)


@ms("DynamicQuantizeMatMul", "MatMulIntegerToFloat")
def to_reals(d: Draw) -> Drawn:
    m, k, n = d.extent(1, 5), d.between(1, 9), d.extent(1, 5)
    outer = d.shape(d.between(0, 1))
    own = factors(d, n)
    if d.op == "DynamicQuantizeMatMul":
        x = d.tensor(0, (*outer, m, k), special=False)
        b, point = octets(d, d.type(1), (k, n), weights=True), zero(d, d.type(1), own) if d.maybe() else None
        bias = reals(d, (n,), -2, 2) if d.maybe() else None
        # A step of a byte of x that rounds the other way moves a sum of k products of up to 63.
        return Drawn([x, b, reals(d, own), point, bias], bound=20)
    x, b = octets(d, d.type(0), (*outer, m, k)), octets(d, d.type(1), (k, n), weights=True)
    points = [zero(d, d.type(0)) if d.maybe() else None, zero(d, d.type(1), own) if d.maybe() else None]
    bias = d.array(d.type(6), (n,), -2, 2, special=False) if d.maybe() else None
    steps = [d.array(d.type(place), shape, 0.02, 0.2, special=False) for place, shape in ((2, ()), (3, own))]
    return Drawn([x, b, *steps, *points, bias], bound=8)


@ms("QGemm")
def q_gemm(d: Draw) -> Drawn:
    m, k, n = d.extent(1, 5), d.between(1, 9), d.extent(1, 5)
    attributes = d.some(transA=d.between(0, 1), transB=d.between(0, 1), alpha=float(d.pick(0.5, 1, 2)))
    a = octets(d, d.type(0), (k, m) if attributes.get("transA") else (m, k))
    b = octets(d, d.type(3), (n, k) if attributes.get("transB") else (k, n), weights=True)
    own = factors(d, n)
    c = d.whole(-300, 300, d.pick((n,), (1, n)), np.int32) if d.maybe() else None
    ends: list[Any] = []
    if d.result().name != "FLOAT":
        ends = [reals(d, (), 0.2, 2), zero(d, d.result())]
    inputs: list[Any] = [a, reals(d), zero(d, d.type(0)), b, reals(d, own), zero(d, d.type(3), own), c, *ends]
    return Drawn(
        inputs, attributes, known=tuple(place for place in range(1, len(inputs)) if inputs[place] is not None), steps=1
    )


@ms("QLinearAdd", "QLinearMul")
def q_binary(d: Draw) -> Drawn:
    a, b = d.together(2)
    of = d.type(0)
    operands = [part for shape in (a, b) for part in (octets(d, of, shape), reals(d), zero(d, of))]
    return Drawn([*operands, reals(d, (), 0.02, 0.4), zero(d, of)], known=(1, 2, 4, 5, 6, 7))


@ms("QLinearWhere")
def q_where(d: Draw) -> Drawn:
    which, a, b = d.together(3)
    of = d.type(1)
    operands = [part for shape in (a, b) for part in (octets(d, of, shape), reals(d), zero(d, of))]
    inputs: list[Any] = [d.array(Type("", TensorProto.BOOL), which), *operands, reals(d), zero(d, of)]
    return Drawn(inputs, known=(2, 3, 5, 6, 7, 8))


@ms("QLinearConcat")
def q_concat(d: Draw) -> Drawn:
    rank = d.between(1, 4)
    axis, shape, of = d.axis(rank, 1), list(d.shape(rank)), d.result()
    inputs: list[Any] = [reals(d), zero(d, of)]
    for _ in range(d.between(1, 3)):
        shape[axis] = d.extent()
        inputs += [octets(d, of, tuple(shape)), reals(d), zero(d, of)]
    known = tuple(place for place in range(len(inputs)) if place % 3 != 2)
    return Drawn(inputs, {"axis": axis}, known=known)


@ms("QLinearLeakyRelu", "QLinearSigmoid")
def q_function(d: Draw) -> Drawn:
    of = d.type(0)
    inputs: list[Any] = [
        octets(d, of, d.shape(d.between(0, 4))),
        reals(d),
        zero(d, of),
        reals(d, (), 0.004, 0.1),
        zero(d, of),
    ]
    return Drawn(inputs, d.some(alpha=d.real(0.01, 0.5)), known=(1, 2, 3, 4))


@ms("QLinearSoftmax")
def q_softmax(d: Draw) -> Drawn:
    rank = d.between(1, 4)
    of = d.type(0)
    attributes = {"opset": d.pick(12, 13), "axis": d.axis(rank, 1)}
    inputs: list[Any] = [octets(d, of, d.shape(rank)), reals(d), zero(d, of), np.array(1 / 256, np.float32),
              np.array(-128 if of.name == "INT8" else 0, of.dtype)]  # fmt: skip
    return Drawn(inputs, attributes, known=(1, 2, 3, 4))


@ms("QLinearAveragePool", "QLinearGlobalAveragePool")
def q_pool(d: Draw) -> Drawn:
    attributes, kernel, least = windows(d, 2, dilations=False)
    last = d.between(0, 1)
    size = spatial(d, least)
    batch, channels = d.extent(1, 2), d.extent(1, 4)
    if d.op == "QLinearAveragePool":
        attributes |= {"kernel_shape": kernel, **d.some(ceil_mode=d.between(0, 1), count_include_pad=d.between(0, 1))}
    else:
        attributes = {}
    attributes["channels_last"] = last
    of = d.type(0)
    x = octets(d, of, (batch, *size, channels) if last else (batch, channels, *size))
    return Drawn([x, reals(d), zero(d, of), reals(d), zero(d, of)], attributes, known=(1, 2, 3, 4))


@ms("QLinearConv")
def q_conv(d: Draw) -> Drawn:
    attributes, kernel, least = windows(d, 2)
    group, each, outs = d.pick(1, 1, 2), d.between(1, 3), d.between(1, 3)
    last = d.between(0, 1)
    attributes |= {"group": group, "kernel_shape": kernel, "channels_last": last}
    batch, size = d.extent(1, 2), spatial(d, least)
    x = octets(d, d.type(0), (batch, *size, group * each) if last else (batch, group * each, *size))
    w = octets(d, d.type(3), (group * outs, each, *kernel), weights=True)
    own = d.pick((), (group * outs,))
    point = zero(d, d.type(5))
    bias = d.whole(-300, 300, (group * outs,), np.int32) if d.maybe() else None
    inputs: list[Any] = [x, reals(d), zero(d, d.type(2)), w, reals(d, own), np.full(own, int(point), d.dtype(5)),
                         reals(d, (), 0.2, 1), zero(d, d.type(7)), bias]  # fmt: skip
    return Drawn(inputs, attributes, known=tuple(range(1, 9 if bias is not None else 8)))


@ms("DynamicQuantizeLSTM")
def lstm(d: Draw) -> Drawn:
    steps, batch, inputs, hidden = d.between(1, 4), d.extent(1, 3), d.between(1, 6), d.between(1, 6)
    direction = d.pick("forward", "reverse", "bidirectional")
    two = 2 if direction == "bidirectional" else 1
    of = d.type(1)
    weights = [octets(d, of, (two, size, 4 * hidden), weights=True) for size in (inputs, hidden)]
    steps_of = [reals(d, (two,), 0.005, 0.02) for _ in range(2)]
    points = [np.zeros((two,), of.dtype) if of.name == "INT8" else np.full((two,), 128, of.dtype) for _ in range(2)]
    x = reals(d, (steps, batch, inputs), -1, 1)
    bias = reals(d, (two, 8 * hidden), -1, 1) if d.maybe() else None
    lengths = d.whole(1, steps, (batch,), np.int32) if d.maybe(0.3) else None
    states = [reals(d, (two, batch, hidden), -1, 1) if d.maybe() else None for _ in range(2)]
    attributes = {"hidden_size": hidden, "direction": direction}
    operands: list[Any] = [x, *weights, bias, lengths, *states, None, steps_of[0], points[0], steps_of[1], points[1]]
    # A byte of inputs and states in each step.
    return Drawn(operands, attributes, 3, known=(1, 2, 8, 9, 10, 11), bound=3e4)


@ms("FusedGemm")
def fused_gemm(d: Draw) -> Drawn:
    m, k, n = d.extent(1, 5), d.between(1, 9), d.extent(1, 5)
    attributes: dict[str, Any] = d.some(
        transA=d.between(0, 1), transB=d.between(0, 1), alpha=d.real(0.5, 2), beta=d.real(0.5, 2)
    )
    one, both = ["alpha"], ["alpha", "beta"]
    parts = dict.fromkeys(("LeakyRelu", "Elu", "Celu", "ThresholdedRelu"), one) | {"Selu": ["alpha", "gamma"]}
    parts |= dict.fromkeys(("HardSigmoid", "ScaledTanh", "ParametricSoftplus"), both)
    kind = d.pick("Relu", "Tanh", "Sigmoid", "Softplus", "Softsign", *parts)
    attributes |= {"activation": kind} | {f"activation_{part}": d.real(0.2, 1) for part in parts.get(kind, [])}
    a = d.tensor(0, (k, m) if attributes.get("transA") else (m, k), special=False)
    b = d.tensor(1, (n, k) if attributes.get("transB") else (k, n), special=False)
    return Drawn(
        [a, b, d.tensor(2, d.pick((n,), (1, n), (m, n)), special=False) if d.maybe() else None], attributes, bound=20
    )


@ms("FusedMatMul", "TransposeMatMul")
def fused_matmul(d: Draw) -> Drawn:
    m, k, n, outer = d.extent(1, 5), d.between(1, 9), d.extent(1, 5), d.shape(d.between(0, 2), 1, 3)
    attributes: dict[str, Any] = d.some(transA=d.between(0, 1), transB=d.between(0, 1), alpha=d.real(0.5, 2))
    if d.op == "FusedMatMul" and outer:
        attributes |= d.some(transBatchA=d.between(0, 1), transBatchB=d.between(0, 1))
    operands = []
    for place, side, (rows, columns) in ((0, "A", (m, k)), (1, "B", (k, n))):
        if attributes.get(f"trans{side}"):
            rows, columns = columns, rows
        around = attributes.get(f"transBatch{side}")
        operands.append(d.tensor(place, (rows, *outer, columns) if around else (*outer, rows, columns), special=False))
    return Drawn([*operands], attributes, bound=20)


@ms("NhwcMaxPool")
def nhwc_max_pool(d: Draw) -> Drawn:
    attributes, kernel, least = windows(d, 2)
    attributes |= {"kernel_shape": kernel, **d.some(ceil_mode=d.between(0, 1))}
    return Drawn([octets(d, d.type(0), (d.extent(1, 2), *spatial(d, least), d.extent(1, 4)))], attributes)


@ms("QAttention")
def q_attention(d: Draw) -> Drawn:
    heads, each, width, batch, places = (
        d.between(1, 3),
        d.between(1, 4),
        d.between(1, 8),
        d.extent(1, 3),
        d.extent(1, 5),
    )
    count = 3 * heads * each
    x, w = octets(d, d.type(0), (batch, places, width)), octets(d, d.type(1), (width, count), weights=True)
    own = d.pick((), (count,))
    steps = [reals(d, (), 0.002, 0.02), reals(d, own, 0.002, 0.02)]
    points = [zero(d, d.type(0)) if d.maybe() else None, zero(d, d.type(1), own) if d.maybe() else None]
    attributes = d.some(unidirectional=d.between(0, 1)) | {"num_heads": heads}
    known = (1, *(place + 6 for place in (0, 1) if points[place] is not None))
    return Drawn([x, w, reals(d, (count,), -1, 1), *steps, None, *points], attributes, known=known, bound=40)


@ms("GatherBlockQuantized")
def gather_blocks(d: Draw) -> Drawn:
    of = d.type(0)
    if of.name != "UINT8":
        raise Refused("few bits come in pairs")
    bits, block, rows = d.pick(2, 4, 4, 8), d.pick(16, 32), d.between(1, 5)
    per_byte = 8 // bits
    width = d.between(1, 40)
    blocks = -(-width * per_byte // block)
    scales = d.array(d.type(2), (rows, blocks), 0.02, 0.2, special=False)
    points = octets(d, of, (rows, -(-blocks // per_byte))) if d.maybe() else None
    chosen = d.whole(-rows, rows - 1, d.shape(d.between(0, 2)), d.dtype(1))
    attributes = {"bits": bits, "block_size": block, "quantize_axis": d.pick(1, -1)}
    return Drawn([octets(d, of, (rows, width)), np.asarray(chosen), scales, points], attributes, bound=4)


@ms("Trilu")
def trilu(d: Draw) -> Drawn:
    k = np.array(d.between(-5, 5)) if d.maybe(0.7) else None
    return Drawn([d.tensor(0, d.shape(d.between(2, 4), 1)), k], d.some(upper=d.between(0, 1)))


@ms("Pad")
def pad(d: Draw) -> Drawn:
    rank = d.between(1, 4)
    mode = d.pick("constant", "edge", "reflect")
    pads = np.array([d.between(0, 2) for _ in range(2 * rank)], np.int64)
    value = d.tensor(2, d.pick((), (1,)), special=False) if mode == "constant" and d.maybe() else None
    pads = pads[None] if d.maybe(0.3) else pads
    return Drawn([d.tensor(0, d.shape(rank, 3, 6)), pads, value], {"mode": mode}, known=(1,))


@ms("GatherND")
def gather_nd(d: Draw) -> Drawn:
    shape, outer = d.shape(d.between(1, 4), 2, 4), d.shape(d.between(0, 2))
    depth = d.between(1, len(shape))
    parts = [np.asarray(d.whole(-shape[at], shape[at] - 1, outer, d.dtype(1))) for at in range(depth)]
    return Drawn([d.tensor(0, shape), np.stack(parts, -1)])


@ms("Range")
def ranges(d: Draw) -> Drawn:
    values = [d.whole(0, 9), d.whole(0, 20), *([d.pick(1, 2, -1, -3)] if d.maybe(0.7) else [])]
    return Drawn([np.asarray(value).astype(d.dtype(0)) for value in values], bound=2)


@ms("Unique")
def unique(d: Draw) -> Drawn:
    if d.type(0).name == "STRING":
        raise Refused("strings")
    return Drawn([np.round(d.tensor(0, d.shape(1), special=False))], outputs=3)


@ms("ExpandDims")
def expand_dims(d: Draw) -> Drawn:
    rank = d.between(0, 3)
    return Drawn([d.tensor(0, d.shape(rank)), np.array(d.between(-rank - 1, max(rank - 1, 0)), np.int32)], known=(1,))


@ms("GridSample")
def grid_sample(d: Draw) -> Drawn:
    attributes = d.some(mode=d.pick("bilinear", "nearest", "bicubic"), align_corners=d.between(0, 1),
                        padding_mode=d.pick("zeros", "border", "reflection"))  # fmt: skip
    batch = d.extent(1, 2)
    x = d.tensor(0, (batch, d.extent(1, 3), *d.shape(2, 2, 6)), special=False)
    return Drawn([x, d.tensor(1, (batch, *d.shape(2, 1, 4), 2), -1.3, 1.3, special=False)], attributes, bound=40)


@ms("CDist")
def cdist(d: Draw) -> Drawn:
    k = d.between(1, 6)
    operands = [d.tensor(place, (d.extent(1, 5), k), special=False) for place in (0, 1)]
    return Drawn([*operands], d.some(metric="sqeuclidean"), bound=60)
