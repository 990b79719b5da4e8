"""Networks within networks, a model's own functions, and lists of tensors: against ONNX Runtime, and refused with a reason."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import triune

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

Array = np.ndarray[Any, Any]


def model(text: str, opset: int = 17, *, functions: str = "") -> bytes:
    header = f'<ir_version: 8, opset_import: ["" : {opset}, "own" : 1]>'
    return bytes(onnx.parser.parse_model(f"{header}\n{text}\n{functions}").SerializeToString())


def reals(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).uniform(-2, 2, shape).astype(np.float32)


def truth(value: bool) -> Array:
    return np.array(value)


def whole(value: int) -> Array:
    return np.array(value, np.int64)


CHOICE = model("""
choice (bool up, float[N, 3] x) => (float[N, M] y, float[N] z) {
    w = Constant <value = float[3, 2] {1, 2, 3, 4, 5, 6}> ()
    twice = Add (x, x)
    y, z = If (up) <
        then_branch = up_branch () => (float[A, B] a, float[A] b) {
            a = MatMul (twice, w)
            one = Constant <value = int64[1] {1}> ()
            b = ReduceSum <keepdims = 0> (a, one)
        },
        else_branch = down_branch () => (float[A, B] c, float[A] d) {
            two = Constant <value = float {2.0}> ()
            c = Div (x, two)
            d = ReduceMax <keepdims = 0, axes = [1]> (twice)
        }
    >
}
""")

# The rank decides, as exporters of PyTorch write it.
SQUEEZE = model("""
squeeze (float[1, N, M] x, float[M] y) => (float[A, B] z) {
    shape = Shape (x)
    first = Constant <value = int64 {0}> ()
    extent = Gather (shape, first)
    one = Constant <value = int64 {1}> ()
    is_one = Equal (extent, one)
    s = If (is_one) <
        then_branch = g1 () => (float[P, Q] t) { axes = Constant <value = int64[1] {0}> ()
            t = Squeeze (x, axes) },
        else_branch = g2 () => (float[1, P, Q] u) { u = Identity (x) }
    >
    z = Sub (s, y)
}
""")

# Powers of a matrix until an entry is too large; what is collected is the trace of each.
POWERS = model("""
powers (int64 most, bool at_all, float[N, N] a, float limit) => (float[N, N] power, float[T, N] rows, float[T] largest) {
    power, rows, largest = Loop (most, at_all, a) <
        body = round (int64 i, bool goes, float[N, N] p) => (bool goes_on, float[N, N] next, float[N] row, float top) {
            next = MatMul (p, a)
            row = Gather <axis = 0> (next, i)
            top = ReduceMax <keepdims = 0> (next)
            goes_on = Less (top, limit)
        }
    >
}
""")

# A state that grows, and a loop within a loop that sees values two networks further out.
GROWING = model("""
growing (int64 rounds, float[N] x) => (float[M] grown, int64[T] lengths) {
    grown, lengths = Loop (rounds, , x) <
        body = outer (int64 i, bool goes, float[K] state) => (bool same, float[L] longer, int64[1] length) {
            same = Identity (goes)
            inner_rounds = Constant <value = int64 {2}> ()
            added = Loop (inner_rounds, , state) <
                body = inner (int64 j, bool go, float[P] s) => (bool on, float[P] t) {
                    on = Identity (go)
                    top = ReduceMax (x)
                    t = Add (s, top)
                }
            >
            longer = Concat <axis = 0> (added, x)
            length = Shape (longer)
        }
    >
}
""")

SCAN = model("""
scan (float[H] start, float[T, H] xs, float[H, T] ys) => (float[H] last, float[T, H] sums, float[H, T] products) {
    last, sums, products = Scan <num_scan_inputs = 2, scan_input_axes = [0, 1], scan_input_directions = [0, 1],
                                 scan_output_axes = [0, 1], scan_output_directions = [1, 0],
        body = step (float[H] state, float[H] x, float[H] y) => (float[H] next, float[H] sum, float[H] product) {
            next = Add (state, x)
            sum = Identity (next)
            product = Mul (next, y)
        }
    > (start, xs, ys)
}
""")

# As it was before version 9: an entry of a batch at a time, each as long as it says.
BATCHED = model(
    """
batched (int64[N] lengths, float[N, H] start, float[N, T, H] xs) => (float[N, H] last, float[N, T, H] sums) {
    last, sums = Scan <num_scan_inputs = 1, directions = [1],
        body = step (float[H] state, float[H] x) => (float[H] next, float[H] sum) {
            sum = Mul (x, state)
            next = Add (state, x)
        }
    > (lengths, start, xs)
}
""",
    8,
)

FUNCTIONS = model(
    """
own_functions (float[N, 4] x, float[4] scale) => (float[N, 4] y, float[N, 4] z) {
    y = own.scaled_gelu <slope = 0.5> (x, scale)
    z = own.scaled_gelu (x)
}
""",
    functions="""
<domain: "own", opset_import: ["" : 17, "own" : 1]>
leaky <slope> (x) => (y) { y = LeakyRelu <alpha : float = @slope> (x) }
<domain: "own", opset_import: ["" : 17, "own" : 1]>
scaled_gelu <slope : float = 0.25> (x, scale) => (y) {
    l = own.leaky <slope : float = @slope> (x)
    y = Sum (l, x)
}
""",
)

SEQUENCES = model("""
sequences (float[N, 6] x, int64 at) => (float[A, B] picked, int64 length, float[P, Q] joined, float[R, S, T] stacked) {
    two = Constant <value = int64 {2}> ()
    parts = SplitToSequence <axis = 1> (x, two)
    picked = SequenceAt (parts, at)
    longer = SequenceInsert (parts, picked)
    length = SequenceLength (longer)
    joined = ConcatFromSequence <axis = -1> (longer)
    made = SequenceConstruct (picked, picked)
    stacked = ConcatFromSequence <axis = 1, new_axis = 1> (made)
}
""")

CASES = {
    "the first network": (CHOICE, {"up": truth(True), "x": reals(4, 3)}),
    "the second network": (CHOICE, {"up": truth(False), "x": reals(4, 3)}),
    "an extent decides": (SQUEEZE, {"x": reals(1, 3, 5), "y": reals(5)}),
    "until the condition fails": (
        POWERS,
        {"most": whole(9), "at_all": truth(True), "a": reals(3, 3), "limit": np.array(7, np.float32)},
    ),
    "all rounds": (
        POWERS,
        {"most": whole(3), "at_all": truth(True), "a": reals(4, 4), "limit": np.array(1e30, np.float32)},
    ),
    "no round": (POWERS, {"most": whole(0), "at_all": truth(True), "a": reals(3, 3), "limit": np.array(1, np.float32)}),
    "not at all": (
        POWERS,
        {"most": whole(4), "at_all": truth(False), "a": reals(3, 3), "limit": np.array(1, np.float32)},
    ),
    "a state that grows": (GROWING, {"rounds": whole(4), "x": reals(3)}),
    "along axes": (SCAN, {"start": reals(3), "xs": reals(5, 3), "ys": reals(3, 5)}),
    "a batch": (BATCHED, {"lengths": np.array([4, 4], np.int64), "start": reals(2, 3), "xs": reals(2, 4, 3)}),
    "a batch of other lengths": (
        BATCHED,
        {"lengths": np.array([3, 1, 5], np.int64), "start": reals(3, 2), "xs": reals(3, 5, 2)},
    ),
    "own functions": (FUNCTIONS, {"x": reals(2, 4), "scale": reals(4)}),
    "lists": (SEQUENCES, {"x": reals(2, 6), "at": whole(-1)}),
}


def peer(file: bytes, feeds: dict[str, Array]) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    return list(session.run(None, feeds))


@pytest.mark.parametrize("case", CASES)
def test_results_are_those_of_onnx_runtime(case: str) -> None:
    file, feeds = CASES[case]
    session = triune.Session(file)
    for _ in range(2):
        results = session.run(feeds)
        for name, ours, theirs in zip(
            [output[0] for output in session.outputs], results, peer(file, feeds), strict=True
        ):
            assert ours.dtype == theirs.dtype, name
            np.testing.assert_allclose(ours, theirs, rtol=2e-6, atol=2e-6, err_msg=name)


def test_one_session_takes_every_branch_and_shape() -> None:
    session = triune.Session(CHOICE)
    for rows in (1, 4, 2):
        for up in (True, False):
            feeds = {"up": truth(up), "x": reals(rows, 3)}
            for ours, theirs in zip(session.run(feeds), peer(CHOICE, feeds), strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=2e-6)


def test_a_condition_is_one_truth_value() -> None:
    text = """
    g (bool[K] c, float[2] x) => (float[2] y) {
        y = If (c) < then_branch = t () => (float[2] a) { a = Neg (x) }, else_branch = e () => (float[2] b) { b = Abs (x) } >
    }
    """
    session = triune.Session(model(text))
    np.testing.assert_array_equal(session.run({"c": np.array([True]), "x": np.ones(2, np.float32)})[0], [-1, -1])
    with pytest.raises(triune.errors.Error, match=r"If.*condition.*\[2\].*not one bool"):
        session.run({"c": np.array([True, False]), "x": np.ones(2, np.float32)})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("y = If (c) < then_branch = t () => (float[2] a) { a = Neg (x) } >", "'else_branch' is missing"),
        (
            "y = If (c) < then_branch = t (float[2] q) => (float[2] a) { a = Neg (q) },"
            " else_branch = e () => (float[2] b) { b = Abs (x) } >",
            "'then_branch' has 1 inputs, not 0",
        ),
        (
            "y = If (c) < then_branch = t () => (float[2] a) { a = Neg (x) },"
            " else_branch = e () => (float[2] b) { b = Abs (nowhere) } >",
            "nowhere",
        ),
        (
            "y = Loop (, c, x) < body = r (int64 i, bool g, float[2] s) => (float[2] t) { t = Neg (s) } >",
            "'body' has 1 outputs, not 2",
        ),
        (
            "y = Scan <num_scan_inputs = 2, body = r (float[2] s) => (float[2] t) { t = Neg (s) }> (x)",
            "num_scan_inputs",
        ),
        (
            "y = Scan <num_scan_inputs = 1, scan_input_axes = [0, 1], body = r (float s) => (float t) { t = Neg (s) }> (x)",
            "'scan_input_axes' has 2 elements, not 1",
        ),
    ],
)
def test_networks_that_do_not_fit_are_refused(text: str, reason: str) -> None:
    with pytest.raises(triune.errors.Error, match=reason):
        triune.Session(model(f"g (bool c, float[2] x) => (float[2] y) {{ {text} }}"))


def test_positions_outside_of_a_list_are_refused() -> None:
    session = triune.Session(SEQUENCES)
    with pytest.raises(triune.errors.Error, match=r"SequenceAt.*position 3 in a list of 3"):
        session.run({"x": reals(2, 6), "at": whole(3)})


def test_rounds_that_give_other_extents_cannot_be_collected() -> None:
    text = """
    g (int64 n, float[K] x) => (float[L] last, float[T, P] all) {
        last, all = Loop (n, , x) < body = r (int64 i, bool g, float[A] s) => (bool h, float[B] t, float[C] u) {
            h = Identity (g)
            t = Concat <axis = 0> (s, x)
            u = Identity (t)
        } >
    }
    """
    session = triune.Session(model(text))
    with pytest.raises(triune.errors.Error, match=r"Loop.*'u'.*\(4\).*\(6\).*not alike"):
        session.run({"n": whole(2), "x": reals(2)})


def test_a_loop_without_end_can_be_limited() -> None:
    text = """
    g (bool c, float[2] x) => (float[2] y) {
        y = Loop (, c, x) < body = r (int64 i, bool g, float[2] s) => (bool h, float[2] t) {
            h = Identity (g)
            t = Neg (s)
        } >
    }
    """
    program = f"""
import numpy as np, triune
session = triune.Session({model(text)!r})
try:
    session.run({{"c": np.array(True), "x": np.ones(2, np.float32)}})
except triune.errors.Error as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"TRIUNE_WORK_LIMIT": "20000000"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Loop" in done.stdout
    assert "have run 200 times" in done.stdout


def test_functions_that_call_each_other_end() -> None:
    functions = "".join(
        f"""
<domain: "own", opset_import: ["" : 17, "own" : 1]>
f{i} (x) => (y) {{ a = own.f{i + 1} (x)
    y = own.f{i + 1} (a) }}"""
        for i in range(29)
    )
    functions += """
<domain: "own", opset_import: ["" : 17, "own" : 1]>
f29 (x) => (y) { y = Neg (x) }"""
    file = model("g (float[2] x) => (float[2] y) { y = own.f0 (x) }", functions=functions)
    with pytest.raises(triune.errors.Error, match="own functions are more than 262144 nodes"):
        triune.Session(file)
    endless = """
<domain: "own", opset_import: ["" : 17, "own" : 1]>
f (x) => (y) { y = own.f (x) }"""
    with pytest.raises(triune.errors.Error, match="more than 32 functions within each other"):
        triune.Session(model("g (float[2] x) => (float[2] y) { y = own.f (x) }", functions=endless))
