"""Attention as exporters take it apart, against ONNX Runtime: which forms become one command, and that all have its values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import triune

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

Array = np.ndarray[Any, Any]

# Queries, keys and values as a projection leaves them, one head beside the other.
BESIDE = """
    heads = Constant <value = int64[4] {0, 0, HEADS, EACH}> ()
    joined = Constant <value = int64[3] {0, 0, -1}> ()
    q0 = Reshape (q, heads)
    k0 = Reshape (k, heads)
    v0 = Reshape (v, heads)
    Q = Transpose <perm = [0, 2, 1, 3]> (q0)
    V = Transpose <perm = [0, 2, 1, 3]> (v0)
"""
JOINED = """
    Y0 = Transpose <perm = [0, 2, 1, 3]> (Y)
    y = Reshape (Y0, joined)
"""
FORMS = {
    # BERT: scores divided, a mask added.
    "divided": "K = Transpose <perm = [0, 2, 3, 1]> (k0) S0 = MatMul (Q, K) S1 = Div (S0, root) S = Add (S1, mask)",
    # GPT-2 and ViT: queries multiplied.
    "queries": "K = Transpose <perm = [0, 2, 3, 1]> (k0) Q1 = Mul (Q, factor) S = MatMul (Q1, K)",
    # PyTorch's scaled_dot_product_attention: both multiplied by the root of the factor, keys turned before or behind.
    "both": "K0 = Transpose <perm = [0, 2, 3, 1]> (k0) K = Mul (half, K0) Q1 = Mul (Q, half)"
    " S0 = MatMul (Q1, K) S = Add (mask, S0)",
    "keys": "K0 = Mul (k0, half) K = Transpose <perm = [0, 2, 3, 1]> (K0) Q1 = Mul (half, Q) S = MatMul (Q1, K)",
    "negative": "K = Transpose <perm = [0, 2, 3, 1]> (k0) S0 = MatMul (Q, K) S = Mul (minus, S0)",
}


def number(name: str, value: float) -> str:
    return f"{name} = Constant <value = float {{{value!r}}}> ()\n"


def attention(form: str, heads: int, each: int, mask: str | None = None, more: str = "") -> bytes:
    """Return a file with one attention over (batch, places, heads · each)."""
    body = BESIDE + FORMS[form] + " W = Softmax <axis = -1> (S) Y = MatMul (W, V) " + JOINED
    body = body.replace("HEADS", str(heads)).replace("EACH", str(each))
    root = each**0.5
    numbers = number("root", root) + number("factor", 1 / root) + number("half", root**-0.5) + number("minus", -0.2)
    inputs = f"float[B, S, {heads * each}] q, float[B, T, {heads * each}] k, float[B, T, {heads * each}] v"
    masked = f", float[{mask}] mask" if mask else ""
    text = f'<ir_version: 9, opset_import: ["" : 17]> g ({inputs}{masked}) => (float[B, S, W] y{more}) {{ {numbers}{body} }}'
    return bytes(onnx.parser.parse_model(text).SerializeToString())


def both(file: bytes, feeds: dict[str, Array], **options: Any) -> tuple[list[Array], list[Array], str]:
    """Return our results, ONNX Runtime's, and the plan."""
    session = triune.Session(file, **options)
    session.prepare({name: array.shape for name, array in feeds.items()})
    ours = session.run(feeds)
    theirs = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"]).run(None, feeds)
    return list(ours), theirs, str(session.plan())


def reals(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([*shape, seed]).normal(size=shape).astype(np.float32)


def operands(batch: int, queries: int, keys: int, width: int) -> dict[str, Array]:
    return {
        "q": reals(batch, queries, width),
        "k": reals(batch, keys, width, seed=1),
        "v": reals(batch, keys, width, seed=2),
    }


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("form", FORMS)
def test_forms_are_one_command(form: str, threads: int) -> None:
    masked = "mask" in FORMS[form]
    for heads, each, batch, queries, keys in [
        (1, 8, 1, 8, 8),
        (3, 16, 2, 33, 20),
        (4, 64, 1, 50, 77),
        (16, 64, 2, 17, 9),
    ]:
        feeds = operands(batch, queries, keys, heads * each)
        if masked:
            feeds["mask"] = reals(batch, 1, 1, keys, seed=3) * 4
        ours, theirs, plan = both(
            attention(form, heads, each, "B, 1, 1, T" if masked else None), feeds, threads=threads
        )
        np.testing.assert_allclose(ours[0], theirs[0], rtol=2e-6, atol=2e-6)
        assert plan.count("fattention") == 1, plan
        assert not any(word in plan for word in ("fmatmul", "fsoftmax", " copy ", "fbinary")), plan


@pytest.mark.parametrize(
    ("extents", "shape"),
    [
        ("S, T", (12, 10)),
        ("1, 1, S, T", (1, 1, 12, 10)),
        ("B, 1, S, T", (2, 1, 12, 10)),
        ("1, 3, S, T", (1, 3, 12, 10)),
        ("B, 3, S, T", (2, 3, 12, 10)),
        ("B, 3, S, 1", (2, 3, 12, 1)),
        ("1, 3, 1, 1", (1, 3, 1, 1)),
        ("1", (1,)),
    ],
)
def test_what_is_added_may_be_repeated(extents: str, shape: tuple[int, ...]) -> None:
    feeds = operands(2, 12, 10, 24) | {"mask": reals(*shape, seed=3)}
    ours, theirs, plan = both(attention("divided", 3, 8, extents), feeds)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=2e-6, atol=2e-6)
    assert "fattention" in plan


def test_profiles_call_it_attention() -> None:
    feeds = operands(1, 12, 9, 24)
    profile = triune.Session(attention("queries", 3, 8)).profile(feeds)
    assert set(profile.kinds()) == {"Attention"}


def test_hidden_keys_count_for_nothing() -> None:
    feeds = operands(1, 16, 16, 32)
    feeds["mask"] = np.triu(np.full((16, 16), -np.inf, np.float32), 1)
    feeds["k"][0, 12:] *= 1e4
    ours, theirs, plan = both(attention("divided", 4, 8, "S, T"), feeds)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=2e-6, atol=2e-6)
    assert "fattention" in plan
    # A query that sees no key has no values: 0/0.
    feeds["mask"][5] = -np.inf
    ours, theirs, _ = both(attention("divided", 4, 8, "S, T"), feeds)
    np.testing.assert_array_equal(np.isnan(ours[0]), np.isnan(theirs[0]))


def test_scores_and_weights_that_somebody_reads_are_there() -> None:
    feeds = operands(1, 12, 9, 24)
    for result in ("S", "W"):
        file = attention("queries", 3, 8, more=f", float[B, H, S, T] {result}")
        ours, theirs, plan = both(file, feeds)
        for own, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(own, other, rtol=2e-6, atol=2e-6)
        assert "fattention" not in plan


def test_factors_at_the_end_of_their_range() -> None:
    """All scores are 0, however large the factor."""
    for factor in (3e38, 1e-45, 0.0):
        body = "s = MatMul (q, k) S = Mul (s, f) w = Softmax <axis = -1> (S) y = MatMul (w, v)"
        text = f"g (float[8, 4] q, float[4, 9] k, float[9, 5] v) => (float[8, 5] y) {{ {number('f', factor)} {body} }}"
        file = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 17]> {text}').SerializeToString()
        feeds = {"q": np.zeros((8, 4), np.float32), "k": reals(4, 9), "v": reals(9, 5)}
        ours, theirs, plan = both(file, feeds)
        np.testing.assert_allclose(ours[0], theirs[0], rtol=2e-6, atol=2e-6)
        assert "fattention" in plan


def test_few_queries_read_keys_where_they_are() -> None:
    ours, theirs, plan = both(attention("queries", 2, 16), operands(2, 3, 40, 32))
    np.testing.assert_allclose(ours[0], theirs[0], rtol=2e-6, atol=2e-6)
    assert "fattention" not in plan


def test_a_session_runs_other_extents() -> None:
    file = attention("both", 2, 16, "B, 1, 1, T")
    session = triune.Session(file)
    reference = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    for batch, queries, keys in [(1, 1, 1), (2, 30, 30), (1, 7, 90), (1, 8, 1), (3, 64, 5)]:
        feeds = operands(batch, queries, keys, 32) | {"mask": reals(batch, 1, 1, keys, seed=3)}
        np.testing.assert_allclose(session.run(feeds)[0], reference.run(None, feeds)[0], rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("lead", [(), (5,), (2, 3), (2, 3, 2), (2, 1, 3, 2)])
@pytest.mark.parametrize("shared", [False, True])
def test_heads_lie_along_any_axes(lead: tuple[int, ...], shared: bool) -> None:
    """Of ranks 2 to 6, with keys and values of their own or one for all."""
    own = (1,) * len(lead) if shared else lead
    text = "(float[{q}] q, float[{k}] k, float[{v}] v, float[{b}] b) => (float[{y}] y)"
    shapes = {
        "q": (*lead, 10, 6),
        "k": (*own, 6, 11),
        "v": (*own, 11, 5),
        "b": (*lead[-1:], 10, 11),
        "y": (*lead, 10, 5),
    }
    heads = text.format(**{name: ", ".join(map(str, shape)) for name, shape in shapes.items()})
    body = "s = MatMul (q, k) t = Add (s, b) w = Softmax <axis = -1> (t) y = MatMul (w, v)"
    file = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 17]> g {heads} {{ {body} }}'
    ).SerializeToString()
    feeds = {name: reals(*shapes[name], seed=index) for index, name in enumerate("qkvb")}
    ours, theirs, plan = both(file, feeds)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=2e-6, atol=2e-6)
    assert "fattention" in plan


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("masked", [False, True])
def test_heads_that_share_keys_are_read_where_they_are(threads: int, masked: bool) -> None:
    """As ONNX's Attention has them: rows of one product become heads again, whose keys repeat."""
    for batch, heads, own, places, keys in [(1, 8, 2, 20, 30), (2, 6, 3, 9, 9), (3, 4, 1, 17, 64)]:
        helper = onnx.helper
        extents = {"q": (batch, heads, places, 16), "k": (batch, own, keys, 16), "v": (batch, own, keys, 24)}
        extents |= {"mask": (heads, places, keys)} if masked else {}
        inputs = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name, shape in extents.items()]
        graph = helper.make_graph(
            [helper.make_node("Attention", list(extents), ["y"])], "g", inputs, [onnx.ValueInfoProto(name="y")]
        )
        imports = [helper.make_opsetid("", 23)]
        file = helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString()
        feeds = {name: reals(*shape, seed=index) for index, (name, shape) in enumerate(extents.items())}
        ours, theirs, plan = both(file, feeds, threads=threads)
        np.testing.assert_allclose(ours[0], theirs[0], rtol=2e-6, atol=2e-6)
        assert plan.count("fattention") == 1, plan
        assert "fmatmul" not in plan, plan


TAIL = "w = Softmax <axis = -1> (s) y = MatMul (w, v)"
HEADS = "float[2, 8, 4] q, float[2, 4, 9] k, float[2, 9, 5] v"
BESIDES = {
    "queries twice": (HEADS, "a = Mul (q, c) b = Mul (a, d) s = MatMul (b, k)"),
    "keys twice": (HEADS, "a = Mul (k, c) b = Mul (a, d) s = MatMul (q, b)"),
    "queries by a number that is fed": (HEADS + ", float x", "a = Mul (q, x) b = Mul (a, c) s = MatMul (b, k)"),
    "a mask that is made": (
        HEADS + ", float[2, 8, 9] m",
        "p = MatMul (q, k) r = Mul (p, c) n = Mul (m, d) s = Add (r, n)",
    ),
    "a mask in front": (HEADS + ", float[2, 8, 9] m", "p = MatMul (q, k) n = Mul (m, d) s = Add (n, p)"),
    "one key": (
        "float[2, 8, 4] q, float[4, 2, 1] K, float[2, 1, 5] v",
        "k = Transpose <perm = [1, 0, 2]> (K) s = MatMul (q, k)",
    ),
    "one element": (
        "float[2, 8, 1] q, float[9, 2, 1] K, float[2, 9, 5] v",
        "k = Transpose <perm = [1, 2, 0]> (K) s = MatMul (q, k)",
    ),
    "another's result as a mask": (
        "float[8, 4] q, float[4, 9] k, float[9, 9] u, float[8, 4] r, float[4, 9] l, float[9, 5] v",
        "s0 = MatMul (q, k) w0 = Softmax <axis = -1> (s0) m = MatMul (w0, u) p = MatMul (r, l) s = Add (m, p)",
    ),
    "another's result as scores": (
        "float[8, 4] q, float[4, 9] k, float[9, 9] u, float[9, 5] v",
        "s0 = MatMul (q, k) w0 = Softmax <axis = -1> (s0) m = MatMul (w0, u) s = Mul (m, c)",
    ),
}


@pytest.mark.parametrize("case", BESIDES)
def test_what_stands_beside_is_left_alone(case: str) -> None:
    inputs, body = BESIDES[case]
    numbers = number("c", 0.5) + number("d", 2.0)
    text = f'<ir_version: 9, opset_import: ["" : 17]> g ({inputs}) => (float[Y, Z] y) {{ {numbers} {body} {TAIL} }}'
    model = onnx.parser.parse_model(text)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    feeds = {
        given.name: reals(*(each.dim_value for each in given.type.tensor_type.shape.dim), seed=index)
        for index, given in enumerate(model.graph.input)
    }
    ours, theirs, plan = both(model.SerializeToString(), feeds)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=2e-6, atol=2e-6)
    assert "fattention" in plan


@pytest.mark.parametrize("function", ["Tanh", "Relu", "Sigmoid", "Neg"])
def test_functions_of_sums_of_nothing(function: str) -> None:
    text = f"p = MatMul (q, k) y = {function} (p)"
    text = f'<ir_version: 9, opset_import: ["" : 17]> g (float[2, 9, 0] q, float[2, 0, 5] k) => (float[2, 9, 5] y) {{ {text} }}'
    feeds = {"q": reals(2, 9, 0), "k": reals(2, 0, 5)}
    ours, theirs, _ = both(onnx.parser.parse_model(text).SerializeToString(), feeds)
    np.testing.assert_array_equal(ours[0], theirs[0])


@pytest.mark.parametrize(
    "form", ["y = Gemm (x, w, c)", "p = Gemm (x, w, c) y = Relu (p)", "y = Gemm (x, w)", "y = MatMul (x, w)"]
)
@pytest.mark.parametrize(("depth", "columns"), [(0, 5), (4, 0), (0, 0)])
def test_layers_of_nothing(form: str, depth: int, columns: int) -> None:
    added = [-1.5 + index for index in range(columns)]
    text = (
        f"g (float[3, {depth}] x) => (float[3, {columns}] y) <float[{depth}, {columns}] w = {{}}, "
        f"float[{columns}] c = {{{', '.join(map(str, added))}}}> {{ {form} }}"
    )
    file = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 17]> {text}').SerializeToString()
    ours, theirs, _ = both(file, {"x": reals(3, depth)})
    np.testing.assert_array_equal(ours[0], theirs[0])


def test_products_without_columns() -> None:
    text = "g (float[2, 9, 6] x) => (float[2, 9, 0] y) <float[6, 0] w = {}> { y = MatMul (x, w) }"
    text = f'<ir_version: 9, opset_import: ["" : 17]> {text}'
    ours, theirs, _ = both(onnx.parser.parse_model(text).SerializeToString(), {"x": reals(2, 9, 6)})
    np.testing.assert_array_equal(ours[0], theirs[0])


def test_axes_that_do_not_follow_each_other() -> None:
    """Three axes of heads, turned: queries and results are brought together first."""
    text = """<ir_version: 9, opset_import: ["" : 17]> g (float[3, 2, 10, 4, 8] q, float[2, 3, 4, 8, 9] k, float[2, 4, 9, 3, 8] v)
    => (float[4, 3, 2, 10, 8] y) {
        Q = Transpose <perm = [1, 0, 3, 2, 4]> (q)
        V = Transpose <perm = [0, 3, 1, 2, 4]> (v)
        s = MatMul (Q, k) w = Softmax <axis = -1> (s) Y = MatMul (w, V)
        y = Transpose <perm = [2, 1, 0, 3, 4]> (Y)
    }"""
    file = onnx.parser.parse_model(text).SerializeToString()
    feeds = {"q": reals(3, 2, 10, 4, 8), "k": reals(2, 3, 4, 8, 9, seed=1), "v": reals(2, 4, 9, 3, 8, seed=2)}
    ours, theirs, plan = both(file, feeds)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=2e-6, atol=2e-6)
    assert "fattention" in plan
