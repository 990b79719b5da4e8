"""What operators between stages refuse of values that only a run knows: the error names the operator and what of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import triune

onnx = pytest.importorskip("onnx")

Array = np.ndarray[Any, Any]


def session(text: str) -> triune.Session:
    return triune.Session(
        onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 18]>\n{text}').SerializeToString()
    )


def reals(*shape: int) -> Array:
    return np.ones(shape, np.float32)


def whole(*values: int) -> Array:
    return np.array(values[0] if len(values) == 1 else values, np.int64)


SEQUENCES: list[tuple[str, dict[str, Any], str]] = [
    (
        "(seq(float[N]) x, int64[K] at) => (float[M] y) { y = SequenceAt (x, at) }",
        {"x": [reals(2)], "at": whole(0, 0)},
        r"SequenceAt.*operand 1 is not one position",
    ),
    (
        "(seq(float[N]) x, int64 at) => (float[M] y) { y = SequenceAt (x, at) }",
        {"x": [reals(2)], "at": whole(1)},
        r"SequenceAt.*position 1 in a list of 1",
    ),
    (
        "(seq(float[N]) x, int64 at) => (float[M] y) { y = SequenceAt (x, at) }",
        {"x": [reals(2)], "at": whole(-2)},
        r"SequenceAt.*position -2 in a list of 1",
    ),
    (
        "(seq(float[N]) x) => (seq(float[N]) y) { y = SequenceErase (x) }",
        {"x": []},
        r"SequenceErase.*the list is empty",
    ),
    (
        "(seq(float[N]) x, int64 at) => (seq(float[N]) y) { y = SequenceErase (x, at) }",
        {"x": [reals(2)], "at": whole(1)},
        r"SequenceErase.*position 1 in a list of 1",
    ),
    (
        "(seq(float[N]) x, float[M] more, int64 at) => (seq(float[N]) y) { y = SequenceInsert (x, more, at) }",
        {"x": [reals(2)], "more": reals(1), "at": whole(2)},
        r"SequenceInsert.*position 2 in a list of 1",
    ),
    (
        "(seq(float[N, M]) x) => (float[A, B] y) { y = ConcatFromSequence <axis = 0> (x) }",
        {"x": [reals(2, 3), reals(2, 4)]},
        r"ConcatFromSequence.*\(2, 3\).*\(2, 4\) are not alike",
    ),
    (
        "(seq(float[N, M]) x) => (float[A, B] y) { y = ConcatFromSequence <axis = 2> (x) }",
        {"x": [reals(2, 3), reals(2, 3)]},
        r"ConcatFromSequence.*axis 2 is not one of 2 dimensions",
    ),
    (
        "(seq(float[N, M]) x) => (float[A, B] y) { y = ConcatFromSequence <axis = -3> (x) }",
        {"x": [reals(2, 3), reals(2, 3)]},
        r"ConcatFromSequence.*axis -3 is not one of 2 dimensions",
    ),
    (
        "(float[N, M] x, int64[K] parts) => (seq(float[A, B]) y) { y = SplitToSequence <axis = 1> (x, parts) }",
        {"x": reals(2, 3), "parts": whole(1, 1)},
        r"SplitToSequence.*parts \[1, 1\] of an extent of 3",
    ),
    (
        "(float[N, M] x, int64[K] parts) => (seq(float[A, B]) y) { y = SplitToSequence <axis = 1> (x, parts) }",
        {"x": reals(2, 3), "parts": whole(4, -1)},
        r"SplitToSequence.*a part of a negative extent",
    ),
    (
        "(float[N, M] x, int64 parts) => (seq(float[A, B]) y) { y = SplitToSequence <axis = 1> (x, parts) }",
        {"x": reals(2, 3), "parts": whole(0)},
        r"SplitToSequence.*parts of extent 0",
    ),
    (
        "(float[N, M] x, int64 parts) => (seq(float[A, B]) y) { y = SplitToSequence <axis = 2> (x, parts) }",
        {"x": reals(2, 3), "parts": whole(1)},
        r"SplitToSequence.*axis 2 is not one of 2 dimensions",
    ),
    (
        "(optional(float[N]) x) => (float[M] y) { y = OptionalGetElement (x) }",
        {"x": None},
        r"OptionalGetElement.*the optional is empty",
    ),
]

BODY = "body = b (int64 i, bool on, float[N] s) => (bool next, float[N] t) { next = Identity (on) t = Add (s, s) }"

CONTROL: list[tuple[str, dict[str, Any], str]] = [
    (
        f"(int64[K] rounds, bool on, float[N] x) => (float[M] y) {{ y = Loop (rounds, on, x) <{BODY}> }}",
        {"rounds": whole(1, 1), "on": np.array(True), "x": reals(2)},
        r"Loop.*the number of rounds is not one int64",
    ),
    (
        f"(int64 rounds, bool[K] on, float[N] x) => (float[M] y) {{ y = Loop (rounds, on, x) <{BODY}> }}",
        {"rounds": whole(1), "on": np.array([True, True]), "x": reals(2)},
        r"Loop.*the condition is bool \[2\], not one bool",
    ),
    (
        """(float[N] s, float[A, B] x, float[C, D] z) => (float[M] y) {
        y = Scan <num_scan_inputs = 2, body = b (float[K] own, float[P] p, float[Q] q) => (float[K] next) {
            next = Add (own, own)
        }> (s, x, z)
    }""",
        {"s": reals(2), "x": reals(3, 2), "z": reals(4, 2)},
        r"Scan.*operands of 3 and 4 positions",
    ),
    (
        """(float[N] s, float[A, B] x) => (float[M] y) {
        y = Scan <num_scan_inputs = 1, scan_input_axes = [2], body = b (float[K] own, float[P] p) => (float[K] next) {
            next = Add (own, own)
        }> (s, x)
    }""",
        {"s": reals(2), "x": reals(3, 2)},
        r"Scan.*axis 2 is not one of 2 dimensions",
    ),
]


@pytest.mark.parametrize(("text", "inputs", "words"), SEQUENCES + CONTROL)
def test_what_a_run_brings_is_refused(text: str, inputs: dict[str, Any], words: str) -> None:
    made = session(f"g {text}")
    with pytest.raises(triune.errors.ArgumentError, match=words):
        made.run(inputs)
    # Nothing is left behind: the same is refused in the same words again.
    with pytest.raises(triune.errors.ArgumentError, match=words):
        made.run(inputs)


def test_parts_of_one_extent_and_a_rest() -> None:
    made = session(
        """g (float[N, M] x, int64 parts) => (seq(float[A, B]) y) { y = SplitToSequence <axis = 1> (x, parts) }"""
    )
    x = np.arange(14, dtype=np.float32).reshape(2, 7)
    for extent, widths in ((1, [1] * 7), (2, [2, 2, 2, 1]), (7, [7]), (8, [7]), (3, [3, 3, 1])):
        (parts,) = made.run({"x": x, "parts": whole(extent)})
        assert [part.shape[1] for part in parts] == widths
        np.testing.assert_array_equal(np.concatenate(parts, axis=1), x)
