"""Recipes of signals, losses, attention, integers, recurrence, control flow, lists and chance."""

from __future__ import annotations

from typing import Any

import numpy as np
from book import ints, recipe
from drawing import Array, Draw, Drawn, Refused, Type
from elements import spatial, windows
from onnx import TensorProto, helper


@recipe("NonMaxSuppression")
def suppression(d: Draw) -> Drawn:
    batch, classes, count = d.extent(1, 2), d.extent(1, 3), d.extent(1, 8)
    center = d.between(0, 1)
    first = d.array(Type("", TensorProto.FLOAT), (batch, count, 2), 0, 1, special=False)
    size = d.array(Type("", TensorProto.FLOAT), (batch, count, 2), 0.1, 0.6, special=False)
    boxes = np.concatenate([first, size if center else first + size], 2)
    scores = d.array(Type("", TensorProto.FLOAT), (batch, classes, count), 0, 1, special=False)
    limits = [ints(d.between(0, 4)), np.array([d.real(0, 0.9)], np.float32), np.array([d.real(0, 0.5)], np.float32)]
    given = d.between(0, 3)
    return Drawn(
        [boxes, scores, *limits[:given]], d.some(center_point_box=center) or ({"center_point_box": 1} if center else {})
    )


@recipe("DFT")
def dft(d: Draw) -> Drawn:
    rank = d.between(2, 4)
    parts = d.pick(1, 2)
    onesided = d.between(0, 1)
    inverse = 0 if onesided and parts == 1 else d.between(0, 1)
    if onesided and parts == 2 and not inverse:
        onesided = 0
    shape = (*d.shape(rank - 1, 2, 7), parts)
    axis = d.between(0, rank - 2)
    attributes: dict[str, Any] = {"onesided": onesided, "inverse": inverse}
    length = np.asarray(d.between(2, 9)).astype(d.dtype(1)) if d.maybe(0.3) else None
    x = d.tensor(0, shape, special=False)
    if d.has("axis"):
        return Drawn([x, length], {**attributes, "axis": axis}, bound=20)
    return Drawn([x, length, np.array(axis)], attributes, bound=20)


@recipe("STFT")
def stft(d: Draw) -> Drawn:
    parts = d.pick(1, 1, 2)
    frame = d.between(2, 8)
    length = frame + d.extent(0, 20)
    x = d.tensor(0, (d.extent(1, 2), length, parts), special=False)
    kind = d.pick("window", "length", "both")
    window = d.tensor(2, (frame,), 0, 1, special=False) if kind != "length" else None
    size = np.asarray(frame).astype(d.dtype(3)) if kind != "window" else None
    step = np.asarray(d.between(1, 5)).astype(d.dtype(1))
    return Drawn([x, step, window, size], {"onesided": d.between(0, 1) if parts == 1 else 0}, bound=20)


@recipe("HannWindow", "HammingWindow", "BlackmanWindow")
def window(d: Draw) -> Drawn:
    attributes = {"output_datatype": d.result().element, **d.some(periodic=d.between(0, 1))}
    return Drawn([np.asarray(d.extent(1, 12)).astype(d.dtype(0))], attributes, bound=4, steps=1)


@recipe("MelWeightMatrix")
def mel(d: Draw) -> Drawn:
    values = [np.asarray(value).astype(d.dtype(0)) for value in (d.between(1, 8), d.pick(16, 32, 64), d.pick(100, 120))]
    edges = [np.asarray(value).astype(d.dtype(3)) for value in (d.pick(0, 5), d.pick(30, 48))]
    return Drawn([*values, *edges], {"output_datatype": d.result().element}, bound=8, steps=1)


@recipe("TfIdfVectorizer")
def tf_idf(d: Draw) -> Drawn:
    shape = d.shape(d.between(1, 2), 2, 8)
    grams = [d.between(0, 4) for _ in range(8)]
    attributes: dict[str, Any] = {
        "mode": d.pick("TF", "IDF", "TFIDF"), "min_gram_length": 1, "max_gram_length": d.between(1, 2),
        "max_skip_count": d.between(0, 3), "ngram_counts": [0, 3], "ngram_indexes": d.order(5),
    }  # fmt: skip
    if d.type(0).name == "STRING":
        attributes["pool_strings"] = ["a", "b", "xyz", "a", "b", "b", "a"]
    else:
        attributes["pool_int64s"] = [0, 1, 2, *grams[:4]]
    attributes |= d.some(weights=[0.5, 1.0, 2.0, 3.0, 4.0])
    return Drawn([d.tensor(0, shape, 0, 4, special=False)], attributes)


@recipe("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def loss(d: Draw) -> Drawn:
    classes, batch = d.between(2, 5), d.extent(1, 4)
    rest = d.shape(d.between(0, 2))
    scores = d.tensor(0, (batch, classes, *rest), special=False)
    labels = d.whole(0, classes - 1, (batch, *rest), d.dtype(1))
    weights = d.tensor(2, (classes,), 0.1, 2, special=False) if d.maybe() else None
    attributes = d.some(reduction=d.pick("none", "mean", "sum"), ignore_index=d.pick(0, 1, -1, 9))
    outputs = 2 if d.op == "SoftmaxCrossEntropyLoss" and d.maybe() else 1
    return Drawn([scores, labels, weights], attributes, outputs, bound=8)


@recipe("Attention")
def attention(d: Draw) -> Drawn:
    batch, kv_heads, size, values = d.extent(1, 2), d.between(1, 2), d.pick(2, 4), d.pick(2, 3)
    heads = kv_heads * d.pick(1, 1, 2)
    queries, keys = d.extent(1, 4), d.extent(1, 5)
    attributes = d.some(scale=d.real(0.2, 1), softcap=d.pick(0.0, 1.5), is_causal=d.between(0, 1),
                        left_window_size=d.pick(-1, 1, 2), right_window_size=d.pick(-1, 0, 1))  # fmt: skip
    if d.maybe(0.4):
        shapes = [(batch, queries, heads * size), (batch, keys, kv_heads * size), (batch, keys, kv_heads * values)]
        attributes |= {"q_num_heads": heads, "kv_num_heads": kv_heads}
    else:
        shapes = [(batch, heads, queries, size), (batch, kv_heads, keys, size), (batch, kv_heads, keys, values)]
    inputs: list[Any] = [d.tensor(place, shape, special=False) for place, shape in enumerate(shapes)]
    outputs = 1
    past = d.extent(1, 3) if d.maybe(0.3) else 0
    if d.maybe(0.4):
        full = d.pick((queries, keys + past), (1, 1, queries, keys + past), (batch, heads, queries, keys + past))
        inputs.append(d.array(d.type(3), full, -2, 2, special=False))
    else:
        inputs.append(None)
    if past:
        inputs += [d.tensor(4, (batch, kv_heads, past, size), special=False)]
        inputs += [d.tensor(5, (batch, kv_heads, past, values), special=False)]
        outputs = 3
    return Drawn(inputs, attributes, outputs, bound=8)


@recipe("RotaryEmbedding")
def rotary(d: Draw) -> Drawn:
    batch, heads, length, size = d.extent(1, 2), d.between(1, 3), d.extent(1, 4), d.pick(4, 8)
    partial = d.pick(0, 0, size // 2)
    half = (partial or size) // 2
    attributes = d.some(interleaved=d.between(0, 1))
    if partial:
        attributes["rotary_embedding_dim"] = partial
    flat = d.maybe()
    if flat:
        attributes["num_heads"] = heads
    x = d.tensor(0, (batch, length, heads * size) if flat else (batch, heads, length, size), special=False)
    if d.maybe():
        caches = [d.tensor(place, (8, half), -1, 1, special=False) for place in (1, 2)]
        return Drawn([x, *caches, d.whole(0, 7, (batch, length))], attributes, bound=3)
    return Drawn(
        [x, *(d.tensor(place, (batch, length, half), -1, 1, special=False) for place in (1, 2))], attributes, bound=3
    )


@recipe("LinearAttention")
def linear_attention(d: Draw) -> Drawn:
    batch, length, kv, size, values = d.extent(1, 2), d.extent(1, 4), d.between(1, 2), d.pick(2, 4), d.pick(2, 3)
    heads = kv * d.pick(1, 2)
    rule = d.pick("linear", "gated", "delta", "gated_delta")
    x = [d.tensor(place, (batch, length, width), -1, 1, special=False)
         for place, width in enumerate((heads * size, kv * size, kv * values))]  # fmt: skip
    state = d.array(d.type(3), (batch, kv, size, values), -1, 1, special=False) if d.maybe() else None
    decay = d.tensor(4, (batch, length, kv), -2, 0, special=False) if rule.startswith("gated") else None
    rate = d.tensor(5, (batch, length, kv), 0, 1, special=False) if rule.endswith("delta") else None
    attributes = {"q_num_heads": heads, "kv_num_heads": kv, "update_rule": rule, **d.some(scale=d.real(0.2, 1))}
    return Drawn([*x, state, decay, rate], attributes, 2, bound=20)


@recipe("CausalConvWithState")
def causal_conv(d: Draw) -> Drawn:
    batch, channels, length, size = d.extent(1, 2), d.between(1, 3), d.extent(1, 6), d.between(2, 4)
    bias = d.tensor(2, (channels,), special=False) if d.maybe() else None
    state = d.tensor(3, (batch, channels, size - 1), special=False) if d.maybe() else None
    attributes = d.some(activation=d.pick("none", "silu"))
    x = d.tensor(0, (batch, channels, length), special=False)
    return Drawn([x, d.tensor(1, (channels, 1, size), special=False), bias, state], attributes, 2, bound=6)


def levels(d: Draw, of: Type, shape: tuple[int, ...]) -> Array:
    """Return zero points: any for 8 bits, 0 for what has none."""
    if of.name in ("INT8", "UINT8", "INT4", "UINT4"):
        return d.array(of, shape, -5, 9, special=False)
    return np.zeros(shape, of.dtype)


def granularity(d: Draw, shape: tuple[int, ...], attributes: dict[str, Any]) -> tuple[int, ...]:
    """Draw for what scales are; return their shape."""
    if not shape or d.since < 13 or d.maybe(0.4):
        return ()
    axis = d.axis(len(shape))
    attributes["axis"] = axis
    if d.has("block_size") and d.maybe(0.4):
        block = d.pick(1, 2)
        if shape[axis] % block or not shape[axis]:
            raise Refused("no whole blocks")
        attributes["block_size"] = block
        each = list(shape)
        each[axis] //= block
        return tuple(each)
    return (shape[axis],)


@recipe("QuantizeLinear", "DequantizeLinear")
def quantize(d: Draw) -> Drawn:
    shape = d.shape(d.between(0, 3), 1, 4)
    attributes: dict[str, Any] = {}
    own = granularity(d, shape, attributes)
    step = d.array(d.type(1), own, 0.05, 0.4, special=False)
    if d.type(1).name == "FLOAT8E8M0":
        step = np.full(own, 0.5).astype(d.dtype(1))
    elif d.dtype(1).kind in "iu":
        step = d.array(d.type(1), own, 1, 4, special=False)
    if d.op == "QuantizeLinear":
        zero = levels(d, d.result(), own) if d.since < 21 or d.maybe(0.8) else None
        if zero is None:
            attributes["output_dtype"] = d.result().element
        return Drawn([d.tensor(0, shape, -20, 20, special=False), step, zero], attributes, bound=2)
    if d.has("output_dtype") and d.result().name != d.type(1).name:
        attributes["output_dtype"] = d.result().element
    zero = levels(d, d.type(0), own) if d.maybe(0.7) and d.type(0).name != "INT32" else None
    return Drawn([d.tensor(0, shape, -100, 100), step, zero], attributes, bound=2)


@recipe("DynamicQuantizeLinear")
def dynamic_quantize(d: Draw) -> Drawn:
    return Drawn([d.tensor(0, d.shape(d.between(1, 4)), *d.pick((-3, 3), (0.5, 3), (-3, -1)), special=False)], {}, 3)


def octets(d: Draw, place: int, shape: tuple[int, ...]) -> Array:
    """Return whole bytes; weights of 8 bits with a sign in half their range, as ONNX Runtime's saturating products ask."""
    signed = d.type(place).name == "INT8"
    return d.array(d.type(place), shape, -63 if signed else 0, 63 if signed else 255, special=False)


@recipe("QLinearMatMul")
def q_matmul(d: Draw) -> Drawn:
    m, k, n = d.extent(1, 5), d.extent(1, 9), d.extent(1, 5)
    a, b = octets(d, 0, (m, k)), octets(d, 3, (k, n))

    def scale(place: int) -> Array:
        return d.array(d.type(place), (), 0.02, 0.2, special=False)

    def zero(place: int) -> Array:
        return np.asarray(d.array(d.type(place), (), -5, 9, special=False))

    inputs: list[Any] = [a, scale(1), zero(2), b, scale(4), zero(5), scale(6), zero(7)]
    return Drawn(inputs, known=tuple(range(1, 8)), steps=1)


@recipe("MatMulInteger")
def matmul_integer(d: Draw) -> Drawn:
    m, k, n = d.extent(1, 5), d.extent(1, 9), d.extent(1, 5)
    batch = d.together(2, 1)
    a, b = octets(d, 0, (*batch[0], m, k)), octets(d, 1, (*batch[1], k, n))
    zeros = [
        d.array(d.type(place), d.pick((), (1,)), -5, 9, special=False) if d.maybe(0.7) else None for place in (2, 3)
    ]
    return Drawn([a, b, *zeros])


@recipe("ConvInteger", "QLinearConv")
def q_conv(d: Draw) -> Drawn:
    attributes, kernel, least = windows(d, 2)
    group, each, outs = d.pick(1, 1, 2), d.between(1, 3), d.between(1, 3)
    attributes |= d.some(kernel_shape=kernel)
    attributes["group"] = group
    place = 1 if d.op == "ConvInteger" else 3
    x = octets(d, 0, (d.extent(1, 2), group * each, *spatial(d, least)))
    w = octets(d, place, (group * outs, each, *kernel))
    if d.op == "ConvInteger":
        zeros = [d.array(d.type(at), (), -5, 9, special=False) if d.maybe(0.7) else None for at in (2, 3)]
        return Drawn([x, w, *zeros], attributes)
    own = d.pick((), (group * outs,))

    def scale(shape: tuple[int, ...] = ()) -> Array:
        return d.array(Type("", TensorProto.FLOAT), shape, 0.02, 0.2, special=False)

    def zero(at: int, shape: tuple[int, ...] = ()) -> Array:
        return d.array(d.type(at), shape, -5, 9, special=False)

    w_zero = zero(5) if own == () else np.full(own, int(zero(5)), d.dtype(5))
    bias = d.whole(-300, 300, (group * outs,), np.int32) if d.maybe() else None
    inputs: list[Any] = [x, scale(), zero(2), w, scale(own), w_zero, scale(), zero(7), bias]
    return Drawn(inputs, attributes, known=tuple(range(1, 9)) if bias is not None else tuple(range(1, 8)), steps=1)


GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


@recipe(*GATES)
def recurrent(d: Draw) -> Drawn:
    steps, batch, inputs, hidden = d.extent(1, 4), d.extent(1, 3), d.extent(1, 4), d.between(1, 5)
    direction = d.pick("forward", "reverse", "bidirectional")
    two = 2 if direction == "bidirectional" else 1
    rows = GATES[d.op] * hidden
    attributes: dict[str, Any] = {"hidden_size": hidden, **({"direction": direction} if direction != "forward" else {})}
    attributes |= d.some(clip=d.pick(None, 0.7), linear_before_reset=d.between(0, 1), input_forget=d.pick(None, 1))
    layout = d.between(0, 1) if d.has("layout") and d.maybe(0.2) else 0
    if layout:
        attributes["layout"] = 1
    if d.since == 1 and d.has("output_sequence"):
        attributes["output_sequence"] = 1
    if d.maybe(0.3):
        names = {"RNN": ["Relu"], "GRU": ["HardSigmoid", "Softsign"], "LSTM": ["Sigmoid", "Tanh", "Relu"]}[d.op]
        attributes["activations"] = names * two

    def turned(*shape: int) -> tuple[int, ...]:
        return (shape[1], shape[0], *shape[2:]) if layout else shape

    def real(place: int, *shape: int) -> Array:
        return d.tensor(place, shape, -1, 1, special=False)

    x = real(0, *turned(steps, batch, inputs))
    operands: list[Any] = [x, real(1, two, rows, inputs), real(2, two, rows, hidden)]
    operands.append(real(3, two, 2 * rows) if d.maybe(0.7) else None)
    operands.append(d.whole(1, max(steps, 1), (batch,), np.int32) if d.maybe(0.3) and steps else None)
    operands.append(real(5, *turned(two, batch, hidden)) if d.maybe() else None)
    if d.op == "LSTM":
        operands.append(real(6, *turned(two, batch, hidden)) if d.maybe() else None)
        operands.append(real(7, two, 3 * hidden) if d.maybe(0.3) else None)
    return Drawn(operands, attributes, d.between(1, 3 if d.op == "LSTM" else 2), bound=20)


@recipe("RandomNormal", "RandomUniform")
def random_shape(d: Draw) -> Drawn:
    attributes = {"shape": list(d.shape(d.between(1, 3))), "dtype": d.result().element, "seed": 3.0}
    return Drawn([], attributes, loose=True)


@recipe("RandomNormalLike", "RandomUniformLike", "Bernoulli")
def random_like(d: Draw) -> Drawn:
    x = d.tensor(0, d.shape(d.between(0, 3)), 0, 1, special=False)
    return Drawn([x], {"dtype": d.result().element, "seed": 3.0}, loose=True)


@recipe("Multinomial")
def multinomial(d: Draw) -> Drawn:
    attributes = {"dtype": d.result().element, "seed": 3.0, "sample_size": d.between(1, 4)}
    return Drawn([d.tensor(0, d.shape(2), -2, 0, special=False)], attributes, loose=True)


def info(name: str, of: Type, shape: Any = None) -> Any:
    """Return the declaration of a value in a network within."""
    return helper.make_tensor_value_info(name, of.element, shape)


@recipe("If")
def if_(d: Draw) -> Drawn:
    of = d.result()
    if of.kind != "tensor" or of.name in ("STRING",) or of.name.startswith("COMPLEX"):
        raise Refused("networks of tensors of numbers")
    shape = d.shape(d.between(0, 3))
    seen = d.array(of, shape)
    branches = {}
    for name in ("then_branch", "else_branch"):
        nodes = [helper.make_node("Identity", ["seen"], [f"{name}_0"])]
        if name == "else_branch":
            nodes.append(helper.make_node("Identity", [f"{name}_0"], [f"{name}_1"]))
        end = nodes[-1].output[0]
        branches[name] = helper.make_graph(nodes, name, [], [info(end, of, [None] * len(shape))])
    return Drawn([np.array(d.whole(0, 1) == 1)], branches, inside=(("seen", seen),))


@recipe("Loop")
def loop(d: Draw) -> Drawn:
    of = d.types["V"]
    if of.kind != "tensor" or of.name in ("STRING",) or of.name.startswith("COMPLEX"):
        raise Refused("networks of tensors of numbers")
    shape = d.shape(d.between(0, 2))
    state = d.array(of, shape)
    grows = d.maybe(0.3) and len(shape) > 0
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["before"], ["after"]),
            helper.make_node("Concat", ["state", "state"], ["next"], axis=0) if grows
            else helper.make_node("Identity", ["state"], ["next"]),
            helper.make_node("Identity", ["state"], ["kept"]),
        ],
        "body",
        [info("i", Type("", TensorProto.INT64), []), info("before", Type("", TensorProto.BOOL), []),
         info("state", of, None if grows else shape)],
        [info("after", Type("", TensorProto.BOOL), []), info("next", of, None if grows else shape),
         info("kept", of, None if grows else shape)],
    )  # fmt: skip
    rounds = np.array(d.between(1, 1 if grows else 4))
    return Drawn([rounds, np.array(True) if d.maybe() else None, state], {"body": body}, 2)


@recipe("Scan")
def scan(d: Draw) -> Drawn:
    of = d.types["V"]
    if of.kind != "tensor" or of.name in ("STRING",) or of.name.startswith("COMPLEX"):
        raise Refused("networks of tensors of numbers")
    inner, steps = d.shape(d.between(0, 2)), d.extent(1, 4)
    state, parts = d.array(of, inner), d.array(of, (steps, *inner))
    body = helper.make_graph(
        [helper.make_node("Identity", ["part"], ["next"]), helper.make_node("Identity", ["state"], ["seen"])],
        "body",
        [info("state", of, inner), info("part", of, inner)],
        [info("next", of, inner), info("seen", of, inner)],
    )
    attributes: dict[str, Any] = {"num_scan_inputs": 1, "body": body}
    if d.since == 8:
        return Drawn([None, state[None], parts[None]], attributes, 2)
    attributes |= d.some(scan_input_directions=[d.between(0, 1)], scan_output_directions=[d.between(0, 1)])
    return Drawn([state, parts], attributes, 2)


def items(d: Draw, of: Type, count: int, rank: int) -> list[Array]:
    """Return the tensors of a list."""
    return [d.array(of, d.shape(rank)) for _ in range(count)]


def place(d: Draw, count: int, at: int) -> Array:
    """Return a place in a list, from its end at times."""
    return np.array(d.between(-count, count - 1), d.dtype(at))


@recipe("SequenceConstruct", "SequenceEmpty", "SequenceAt", "SequenceInsert", "SequenceErase", "SequenceLength",
        "ConcatFromSequence", "SplitToSequence")  # fmt: skip
def sequences(d: Draw) -> Drawn:
    if d.op == "SequenceEmpty":
        return Drawn([], {"dtype": d.result().element})
    if d.op == "SequenceConstruct":
        return Drawn([d.tensor(0, d.shape(d.between(0, 3))) for _ in range(d.between(1, 3))])
    count, rank = d.between(1, 3), d.between(1, 3)
    if d.op == "SplitToSequence":
        axis = d.axis(rank)
        shape = list(d.shape(rank))
        sizes = [d.extent() for _ in range(count)]
        shape[axis] = sum(sizes)
        operand = np.array(sizes, d.dtype(1)) if d.maybe() else np.array(2, d.dtype(1)) if d.maybe() else None
        return Drawn([d.tensor(0, shape), operand], {"axis": axis, **d.some(keepdims=d.between(0, 1))})
    values = items(d, d.type(0), count, rank)
    if d.op == "SequenceLength":
        return Drawn([values])
    if d.op == "SequenceInsert":
        where = place(d, count, 2) if d.maybe() else None
        return Drawn([values, d.array(d.type(0), d.shape(rank)), where])
    if d.op == "ConcatFromSequence":
        new = d.between(0, 1)
        shape = d.shape(rank)
        return Drawn(
            [[d.array(d.type(0), shape) for _ in range(count)]], {"axis": d.axis(rank + new), **d.some(new_axis=new)}
        )
    where = place(d, count, 1) if d.op == "SequenceAt" or d.maybe() else None
    return Drawn([values, where])


@recipe("SequenceMap")
def sequence_map(d: Draw) -> Drawn:
    of = d.type(0)
    body = helper.make_graph(
        [helper.make_node("Identity", ["part"], ["same"])], "body", [info("part", of)], [info("same", of)]
    )
    return Drawn([items(d, of, d.between(1, 3), 2)], {"body": body})


@recipe("Optional", "OptionalGetElement", "OptionalHasElement")
def optionals(d: Draw) -> Drawn:
    of = d.type(0)
    if of.kind == "tensor":
        return Drawn([d.array(of, d.shape(d.between(0, 3)))])
    if of.kind == "seq":
        return Drawn([items(d, of, d.between(1, 3), 2)])
    raise Refused("optionals as a model's inputs")
