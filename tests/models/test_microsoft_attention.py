"""Attention as ONNX Runtime's optimizers and exporters write it, against ONNX Runtime: operands, masks and caches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

import triune

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

Array = np.ndarray[Any, Any]
BATCH, HEADS, EACH = 2, 4, 32
WIDTH = HEADS * EACH


def reals(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([*shape, seed]).uniform(-2, 2, shape).astype(np.float32)


def model(
    op: str, inputs: list[Array | None], outputs: int, attributes: Mapping[str, Any], known: tuple[int, ...]
) -> bytes:
    """Return a file of one node, of whose operands those in `known` lie in the file."""
    helper = onnx.helper
    names = ["" if array is None else f"x{index}" for index, array in enumerate(inputs)]
    results = [f"y{index}" for index in range(outputs)]
    arrays = [(index, array) for index, array in enumerate(inputs) if array is not None]
    graph = helper.make_graph(
        [helper.make_node(op, names, results, name="it", domain="com.microsoft", **attributes)],
        "attention",
        [
            helper.make_tensor_value_info(f"x{index}", helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for index, array in arrays
            if index not in known
        ],
        [onnx.ValueInfoProto(name=name) for name in results],
        [onnx.numpy_helper.from_array(array, f"x{index}") for index, array in arrays if index in known],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return bytes(helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString())


def run(
    op: str, inputs: list[Array | None], outputs: int = 1, known: tuple[int, ...] = (), **attributes: Any
) -> tuple[list[Array], list[Array]]:
    """Return our results and ONNX Runtime's."""
    file = model(op, inputs, outputs, attributes, known)
    feeds = {f"x{index}": array for index, array in enumerate(inputs) if array is not None and index not in known}
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    theirs = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"]).run(None, feeds)
    return list(triune.Session(file).run(feeds)), theirs


def check(ours: list[Array], theirs: list[Array]) -> None:
    assert len(ours) == len(theirs)
    for own, other in zip(ours, theirs, strict=True):
        assert (own.shape, own.dtype) == (other.shape, other.dtype)
        np.testing.assert_allclose(own.astype(np.float64), other.astype(np.float64), rtol=1e-5, atol=1e-5)


# ---- MultiHeadAttention ----

S, T, P = 5, 7, 3
QUERY, KEY, VALUE = reals(BATCH, S, WIDTH), reals(BATCH, T, WIDTH, seed=1), reals(BATCH, T, HEADS * 6, seed=2)
OWN_KEY, OWN_VALUE = reals(BATCH, S, WIDTH, seed=3), reals(BATCH, S, WIDTH, seed=4)
PAST = [reals(BATCH, HEADS, P, EACH, seed=seed) for seed in (5, 6)]
LENGTHS = np.array([4, 7], np.int32)
SEEN = (np.arange(T) < LENGTHS[:, None]).astype(np.int32)


def multi_head() -> Iterator[tuple[str, list[Array | None], int, dict[str, Any]]]:
    yield "apart", [QUERY, KEY, VALUE], 1, {}
    yield "scaled", [QUERY, KEY, VALUE], 1, {"scale": 0.3}
    yield "biases", [QUERY, KEY, VALUE, reals(2 * WIDTH + HEADS * 6)], 1, {}
    yield "lengths", [QUERY, KEY, VALUE, None, LENGTHS], 1, {}
    yield "keys seen", [QUERY, KEY, VALUE, None, SEEN], 1, {}
    yield "hidden by less", [QUERY, KEY, VALUE, None, SEEN], 1, {"mask_filter_value": -3.0}
    each = np.random.default_rng(0).integers(0, 2, (BATCH, S, T)).astype(np.int32)
    yield "keys of each query", [QUERY, KEY, VALUE, None, each], 1, {}
    yield "added", [QUERY, KEY, VALUE, None, None, reals(1, HEADS, S, T)], 1, {}
    yield "added to all", [QUERY, KEY, VALUE, None, SEEN, reals(BATCH, 1, S, T)], 1, {}
    yield "causal", [QUERY, OWN_KEY, OWN_VALUE], 1, {"unidirectional": 1}
    yield "past", [QUERY, OWN_KEY, OWN_VALUE, None, None, None, *PAST], 3, {}
    yield "past, causal", [QUERY, OWN_KEY, OWN_VALUE, None, None, None, *PAST], 3, {"unidirectional": 1}
    seen = np.ones((BATCH, S + P), np.int32)
    seen[0, :2] = 0
    yield "past, seen", [QUERY, OWN_KEY, OWN_VALUE, None, seen, None, *PAST], 3, {"unidirectional": 1}
    by_head = [reals(BATCH, HEADS, T, EACH, seed=seed) for seed in (7, 8)]
    yield "of another network", [QUERY, *by_head], 1, {}
    yield "present alone", [QUERY, OWN_KEY, OWN_VALUE], 3, {}


@pytest.mark.parametrize(
    ("inputs", "outputs", "attributes"), [case[1:] for case in multi_head()], ids=[case[0] for case in multi_head()]
)
def test_multi_head_attention(inputs: list[Array | None], outputs: int, attributes: dict[str, Any]) -> None:
    check(*run("MultiHeadAttention", inputs, outputs, num_heads=HEADS, **attributes))


# ---- Attention ----

X, WEIGHTS, BIAS = reals(BATCH, S, 12), reals(12, 3 * WIDTH), reals(3 * WIDTH)


def attentions() -> Iterator[tuple[str, list[Array | None], int, dict[str, Any]]]:
    yield "plain", [X, WEIGHTS, BIAS], 1, {}
    yield "without a bias", [X, WEIGHTS], 1, {}
    yield "causal", [X, WEIGHTS, BIAS], 1, {"unidirectional": 1}
    yield (
        "other widths",
        [X, reals(12, 2 * WIDTH + 8), reals(2 * WIDTH + 8)],
        1,
        {"qkv_hidden_sizes": [WIDTH, WIDTH, 8]},
    )
    yield "ends", [X, WEIGHTS, BIAS, np.array([3, 5], np.int32)], 1, {}
    yield "ends and beginnings", [X, WEIGHTS, BIAS, np.array([4, 5, 1, 0], np.int32)], 1, {}
    seen = np.array([[1, 1, 0, 1, 1], [1, 1, 1, 1, 0]], np.int32)
    yield "seen", [X, WEIGHTS, BIAS, seen], 1, {"scale": 0.25}
    yield "each", [X, WEIGHTS, BIAS, np.tril(np.ones((BATCH, S, S), np.int32))], 1, {}
    yield "past", [X, WEIGHTS, BIAS, None, reals(2, BATCH, HEADS, P, EACH)], 2, {"unidirectional": 1}
    yield "past, seen", [X, WEIGHTS, BIAS, np.ones((BATCH, S + P), np.int32), reals(2, BATCH, HEADS, P, EACH)], 2, {}
    yield "added", [X, WEIGHTS, BIAS, None, None, reals(BATCH, HEADS, S, S)], 1, {}


@pytest.mark.parametrize(
    ("inputs", "outputs", "attributes"), [case[1:] for case in attentions()], ids=[case[0] for case in attentions()]
)
def test_attention(inputs: list[Array | None], outputs: int, attributes: dict[str, Any]) -> None:
    check(*run("Attention", inputs, outputs, (1, 2), num_heads=HEADS, **attributes))


# ---- GroupQueryAttention ----

SHARED = 2


def turning(places: int = 40, pairs: int = EACH // 2) -> list[Array]:
    angles = np.outer(np.arange(places), 10000.0 ** -(np.arange(pairs) / pairs))
    return [np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)]


def step(
    batch: int, places: int, past: int, lengths: list[int], *, room: int | None = None, together: bool = False
) -> list[Array | None]:
    """Return a step's operands: `places` new ones behind `past`, in a cache with `room`."""
    room = past if room is None else room
    wide, narrow = HEADS * EACH, SHARED * EACH
    new: list[Array | None] = [
        reals(batch, places, wide),
        reals(batch, places, narrow, seed=1),
        reals(batch, places, narrow, seed=2),
    ]
    if together:
        new = [np.concatenate([array for array in new if array is not None], 2), None, None]
    cache = [reals(batch, SHARED, room, EACH, seed=seed) for seed in (3, 4)]
    return [*new, *cache, np.array(lengths, np.int32) - 1, np.array(max(lengths), np.int32)]


def grouped() -> Iterator[tuple[str, list[Array | None], dict[str, Any]]]:
    turn = {"do_rotary": 1}
    yield "a prompt", step(1, 6, 0, [6]), {}
    yield "a prompt in one", step(1, 6, 0, [6], together=True), {}
    yield "a prompt, turned", [*step(1, 6, 0, [6]), *turning()], turn
    yield "a prompt, turned beside", [*step(1, 6, 0, [6]), *turning()], {**turn, "rotary_interleaved": 1}
    yield "a prompt, turned in part", [*step(1, 6, 0, [6]), *turning(pairs=8)], turn
    yield "prompts", [*step(2, 6, 0, [6, 6]), *turning()], turn
    yield "a token", [*step(1, 1, 9, [10]), *turning()], turn
    yield "a token in one", [*step(1, 1, 9, [10], together=True), *turning()], turn
    yield "some tokens", [*step(1, 3, 9, [12]), *turning()], turn
    yield "tokens", [*step(2, 1, 9, [10, 10]), *turning()], turn
    yield "tokens of other lengths", [*step(3, 1, 9, [4, 10, 1]), *turning()], turn
    yield "a cache with room", [*step(1, 1, 9, [10], room=16), *turning()], turn
    yield "a prompt in a cache", [*step(1, 6, 0, [6], room=16), *turning()], turn
    yield "caches with room", [*step(2, 1, 9, [10, 5], room=16), *turning()], turn
    yield "a window", [*step(1, 1, 9, [10]), *turning()], {**turn, "local_window_size": 4}
    yield "a prompt's window", [*step(1, 9, 0, [9]), *turning()], {**turn, "local_window_size": 3}
    yield "windows", [*step(2, 1, 9, [10, 3]), *turning()], {**turn, "local_window_size": 4}
    yield "limits", [*step(1, 6, 0, [6]), *turning()], {**turn, "softcap": 1.5, "scale": 0.4}
    yield "smooth", step(1, 6, 0, [6]), {"smooth_softmax": 1}
    yield "places", [*step(1, 1, 9, [10]), *turning(), np.array([[7]], np.int64)], turn
    yield "places of a prompt", [*step(1, 4, 0, [4]), *turning(), np.arange(4, dtype=np.int64)[None]], turn
    yield "added", [*step(1, 4, 0, [4]), None, None, None, reals(1, HEADS, 4, 4)], {}
    yield "added to tokens", [*step(2, 1, 5, [6, 6]), None, None, None, reals(2, 1, 1, 6)], {}
    yield "sinks", [*step(1, 4, 0, [4]), None, None, None, None, reals(HEADS)], {}
    yield (
        "as many heads",
        [
            *(reals(1, 3, WIDTH, seed=seed) for seed in (0, 1, 2)),
            *(reals(1, HEADS, 2, EACH, seed=seed) for seed in (3, 4)),
            np.array([4], np.int32),
            np.array(5, np.int32),
        ],
        {"kv_num_heads": HEADS},
    )


@pytest.mark.parametrize(
    ("inputs", "attributes"), [case[1:] for case in grouped()], ids=[case[0] for case in grouped()]
)
def test_group_query_attention(inputs: list[Array | None], attributes: dict[str, Any]) -> None:
    lengths, total = inputs[5], inputs[6]
    assert lengths is not None
    assert total is not None
    attributes = {"kv_num_heads": SHARED, **attributes}
    ours, theirs = run("GroupQueryAttention", inputs, 3, (), num_heads=HEADS, **attributes)
    known, _ = run("GroupQueryAttention", inputs, 3, (6,), num_heads=HEADS, **attributes)
    # What lies behind an image's own places is nobody's.
    for results in (ours, theirs, known):
        for cache in results[1:]:
            for image, length in enumerate(lengths + 1):
                cache[image, :, length:] = 0
    check(ours, theirs)
    check(known, theirs)


def own(op: str, inputs: list[Array | None], outputs: int = 1, **attributes: Any) -> list[Array]:
    """Return our results of what ONNX Runtime's CPU does not run."""
    file = model(op, inputs, outputs, attributes, ())
    return list(
        triune.Session(file).run({f"x{index}": array for index, array in enumerate(inputs) if array is not None})
    )


def test_operands_in_one() -> None:
    heads = [array.reshape(BATCH, S, HEADS, 1, EACH) for array in (QUERY, OWN_KEY, OWN_VALUE)]
    apart = own("MultiHeadAttention", [QUERY, OWN_KEY, OWN_VALUE], num_heads=HEADS)
    for inputs in [[np.concatenate(heads, 3)], [QUERY, np.concatenate(heads[1:], 3)]]:
        np.testing.assert_array_equal(own("MultiHeadAttention", list(inputs), num_heads=HEADS), apart)


def test_a_table_of_all_masks() -> None:
    past, table = reals(2, BATCH, HEADS, P, EACH), np.tril(np.ones((BATCH, 1, 16, 16), np.int32))
    operands: list[Array | None] = [X, WEIGHTS, BIAS]
    each = np.ascontiguousarray(table[:, 0, P : P + S, : P + S])
    expected = own("Attention", [*operands, each, past], 2, num_heads=HEADS)
    for found, other in zip(own("Attention", [*operands, table, past], 2, num_heads=HEADS), expected, strict=True):
        np.testing.assert_array_equal(found, other)


def test_norms_of_heads() -> None:
    weights = [reals(EACH, seed=seed) + 3 for seed in (7, 8)]
    inputs = [*step(1, 4, 0, [4]), *turning()]
    attributes = {"num_heads": HEADS, "kv_num_heads": SHARED, "do_rotary": 1}
    found = own("GroupQueryAttention", [*inputs, *[None] * 5, *weights], 3, **attributes, q_norm_epsilon=0.5)
    for index, (scale, epsilon) in enumerate(zip(weights, (0.5, 1e-6), strict=True)):
        array = inputs[index]
        assert array is not None
        x = array.reshape(1, 4, -1, EACH).astype(np.float64)
        normed = x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon) * scale
        inputs[index] = normed.astype(np.float32).reshape(array.shape)
    check(found, run("GroupQueryAttention", inputs, 3, **attributes)[1])


def decoder() -> bytes:
    """Return a layer whose cache grows, as exporters of language models write it: lengths come of the mask's extents."""
    helper, names = onnx.helper, ["query", "key", "value", "past_key", "past_value"]
    kinds = dict.fromkeys(names, onnx.TensorProto.FLOAT) | {"mask": onnx.TensorProto.INT64}
    shapes = {
        "query": ["b", "s", WIDTH],
        "key": ["b", "s", SHARED * EACH],
        "value": ["b", "s", SHARED * EACH],
        "past_key": ["b", SHARED, "p", EACH],
        "past_value": ["b", SHARED, "p", EACH],
        "mask": ["b", "t"],
    }
    one, axis = np.array([1], np.int64), np.array(1, np.int64)
    nodes = [
        helper.make_node("ReduceSum", ["mask", "one"], ["count"], keepdims=0),
        helper.make_node("Sub", ["count", "one"], ["less"]),
        helper.make_node("Cast", ["less"], ["lengths"], to=onnx.TensorProto.INT32),
        helper.make_node("Shape", ["mask"], ["extents"]),
        helper.make_node("Gather", ["extents", "axis"], ["all"]),
        helper.make_node("Cast", ["all"], ["total"], to=onnx.TensorProto.INT32),
        helper.make_node(
            "GroupQueryAttention",
            [*names, "lengths", "total", "cos", "sin"],
            ["y", "present_key", "present_value"],
            domain="com.microsoft",
            num_heads=HEADS,
            kv_num_heads=SHARED,
            do_rotary=1,
        ),
    ]
    graph = helper.make_graph(
        nodes,
        "decoder",
        [helper.make_tensor_value_info(name, kinds[name], shapes[name]) for name in [*names, "mask"]],
        [onnx.ValueInfoProto(name=name) for name in ("y", "present_key", "present_value")],
        [
            onnx.numpy_helper.from_array(array, name)
            for name, array in zip(("cos", "sin", "one", "axis"), [*turning(), one, axis], strict=True)
        ],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return bytes(helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString())


@pytest.mark.parametrize("batch", [1, 2])
def test_a_cache_that_grows(batch: int) -> None:
    file = decoder()
    sessions = [triune.Session(file), onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])]
    caches = [[np.zeros((batch, SHARED, 0, EACH), np.float32)] * 2] * 2
    known = 0
    for turn, places in enumerate([5, 1, 1, 1]):
        known += places
        new = {
            name: reals(batch, places, width, seed=turn)
            for name, width in (("query", WIDTH), ("key", SHARED * EACH), ("value", SHARED * EACH))
        }
        found = []
        for index, (session, cache) in enumerate(zip(sessions, caches, strict=True)):
            past = dict(zip(("past_key", "past_value"), cache, strict=True))
            y, *present = session.run(None, {**new, **past, "mask": np.ones((batch, known), np.int64)})
            found.append(y)
            caches = [present if own == index else other for own, other in enumerate(caches)]
        check([found[0], *caches[0]], [found[1], *caches[1]])


# ---- RotaryEmbedding, EmbedLayerNormalization ----


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("places", ["first", "each"])
@pytest.mark.parametrize("form", ["flat", "by head", "in part"])
def test_rotary_embedding(form: str, places: str, interleaved: int) -> None:
    x = reals(BATCH, HEADS, S, EACH) if form == "by head" else reals(BATCH, S, WIDTH)
    at = np.array([3]) if places == "first" else np.array([[4, 0, 1, 7, 2], [0, 1, 2, 3, 4]])
    attributes = {"num_heads": HEADS, "rotary_embedding_dim": 4} if form == "in part" else {}
    caches = turning(pairs=2 if form == "in part" else EACH // 2)
    check(*run("RotaryEmbedding", [x, at.astype(np.int64), *caches], interleaved=interleaved, **attributes))


@pytest.mark.parametrize("given", ["all", "without segments", "with places"])
def test_embed_layer_normalization(given: str) -> None:
    rng = np.random.default_rng(0)
    words, segments = rng.integers(0, 30, (BATCH, S)).astype(np.int32), rng.integers(0, 2, (BATCH, S)).astype(np.int32)
    tables: list[Array | None] = [reals(30, 16), reals(10, 16), reals(2, 16), reals(16), reals(16, seed=1)]
    inputs: list[Array | None] = [words, segments, *tables, np.array([[1, 1, 1, 0, 0], [1] * 5], np.int32)]
    if given == "without segments":
        inputs[1] = inputs[4] = None
    if given == "with places":
        inputs.append(rng.integers(0, 10, (BATCH, S)).astype(np.int32))
    check(*run("EmbedLayerNormalization", inputs, 3, (2, 3, 4, 5, 6), epsilon=1e-6))


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "words"),
    [
        ("MultiHeadAttention", [QUERY, KEY, VALUE], {}, "attribute 'num_heads' is not positive"),
        ("MultiHeadAttention", [QUERY, KEY, VALUE], {"num_heads": 5}, "in 5 heads"),
        ("MultiHeadAttention", [QUERY], {"num_heads": HEADS}, "in one with keys and values"),
        ("MultiHeadAttention", [QUERY, KEY, VALUE, reals(7)], {"num_heads": HEADS}, "operand (7) in parts of"),
        ("MultiHeadAttention", [QUERY, KEY, VALUE, None, np.ones(8, np.int32)], {"num_heads": HEADS}, "a mask of (8)"),
        ("MultiHeadAttention", [QUERY, KEY, VALUE, None, None, None, PAST[0]], {"num_heads": HEADS}, "come together"),
        ("Attention", [X, WEIGHTS, BIAS], {"num_heads": HEADS, "do_rotary": 1}, "'do_rotary'"),
        (
            "Attention",
            [X, WEIGHTS, BIAS],
            {"num_heads": HEADS, "qkv_hidden_sizes": [3, 4]},
            "'qkv_hidden_sizes' = [3, 4]",
        ),
        ("GroupQueryAttention", step(1, 6, 0, [6]), {"num_heads": 3, "kv_num_heads": 2}, "3 heads of queries for 2"),
        (
            "GroupQueryAttention",
            step(1, 6, 0, [4]),
            {"num_heads": HEADS, "kv_num_heads": SHARED},
            "less than the 6 places",
        ),
        ("GroupQueryAttention", step(1, 1, 2, [9]), {"num_heads": HEADS, "kv_num_heads": SHARED}, "a past of 2 places"),
        (
            "GroupQueryAttention",
            step(1, 6, 0, [6]),
            {"num_heads": HEADS, "kv_num_heads": SHARED, "do_rotary": 1},
            "input 7 is missing",
        ),
        (
            "GroupQueryAttention",
            step(1, 6, 0, [6]),
            {"num_heads": HEADS, "kv_num_heads": SHARED, "k_quant_type": "PER_TENSOR"},
            "'k_quant_type'",
        ),
        ("RotaryEmbedding", [X, np.array([0], np.int64), *turning()], {"scale": 2.0}, "'scale' other than 1"),
        (
            "EmbedLayerNormalization",
            [QUERY.astype(np.int32), None, *[reals(4, 4)] * 2, None, reals(4), reals(4)],
            {},
            "words (2, 5, 128)",
        ),
    ],
)
def test_what_does_not_fit_is_named(
    op: str, inputs: list[Array | None], attributes: dict[str, Any], words: str
) -> None:
    file = model(op, inputs, 1, attributes, ())
    feeds = {f"x{index}": array for index, array in enumerate(inputs) if array is not None}
    with pytest.raises(triune.errors.Error) as caught:
        triune.Session(file).run(feeds)
    assert words in str(caught.value), str(caught.value)
    assert f"node 'it' ({op})" in str(caught.value)
