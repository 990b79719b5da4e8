"""LSTM, GRU and RNN against ONNX Runtime, in every attribute and with operands in every combination.

The oracle is ONNX Runtime, and nothing else is fallen back to. Where it has no such form (sequences before steps), the model
is compared with the same one in the other layout, which it has been compared with.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import triune

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

Array = np.ndarray[Any, Any]

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
FUNCTIONS = {"RNN": 1, "GRU": 2, "LSTM": 3}
OPSETS = {"RNN": (7, 14, 22), "GRU": (7, 14, 22), "LSTM": (7, 14, 22)}
# With what each takes of the lists of parameters.
ACTIVATIONS = {
    "Relu": "",
    "Tanh": "",
    "Sigmoid": "",
    "Softsign": "",
    "Softplus": "",
    "Elu": "a",
    "LeakyRelu": "a",
    "ThresholdedRelu": "a",
    "Affine": "ab",
    "ScaledTanh": "ab",
    "HardSigmoid": "ab",
}


class Case(NamedTuple):
    """One node: its operands by name, those in `constants` known beforehand, and extents that are left open."""

    op: str
    opset: int
    operands: dict[str, Array | None]
    attributes: dict[str, Any]
    outputs: tuple[str, ...]
    constants: frozenset[str] = frozenset("WRBP")
    open_extents: bool = False

    def model(self) -> bytes:
        """Return the file."""
        helper = onnx.helper
        given = {name: array for name, array in self.operands.items() if array is not None}
        names = [name if name in given else "" for name in self.operands]
        graph = helper.make_graph(
            [helper.make_node(self.op, names, list(self.outputs), name="it", **self.attributes)],
            "case",
            [
                helper.make_tensor_value_info(
                    name, helper.np_dtype_to_tensor_dtype(array.dtype), self._extents(name, array)
                )
                for name, array in given.items()
                if name not in self.constants
            ],
            [onnx.ValueInfoProto(name=name) for name in self.outputs if name],
            [onnx.numpy_helper.from_array(array, name) for name, array in given.items() if name in self.constants],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        return bytes(onnx.shape_inference.infer_shapes(model).SerializeToString())

    def _extents(self, name: str, array: Array) -> list[Any]:
        extents: list[Any] = list(array.shape)
        if self.open_extents:
            for axis in {"X": (0, 1), "sequence_lens": (0,), "initial_h": (1,), "initial_c": (1,)}.get(name, ()):
                extents[axis] = f"{'TB'[axis] if name == 'X' else 'B'}"
        return extents

    def feeds(self) -> dict[str, Array]:
        """Return what a run is given."""
        return {name: x for name, x in self.operands.items() if x is not None and name not in self.constants}


def expected(case: Case) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(case.model(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, case.feeds()))


def agree(mine: list[Array], theirs: list[Array], tolerance: float = 1e-5) -> None:
    """Check that results differ by no more than a share of the largest: functions without bounds make large states."""
    assert len(mine) == len(theirs)
    for own, other in zip(mine, theirs, strict=True):
        assert own.dtype == other.dtype
        assert own.shape == other.shape
        a, b = own.astype(np.float64), other.astype(np.float64)
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * max(1.0, float(np.abs(b).max(initial=0))))


def check(case: Case) -> None:
    agree([np.asarray(result) for result in triune.Session(case.model()).run(case.feeds())], expected(case))


def operands(
    rng: np.random.Generator, op: str, extents: tuple[int, int, int, int], directions: int, with_: str
) -> dict[str, Array | None]:
    """Return the operands of a node; `with_` has the initials of those that may be left out."""
    steps, batch, width, hidden = extents
    gates = GATES[op] * hidden

    def reals(*shape: int) -> Array:
        return rng.uniform(-1, 1, shape).astype(np.float32)

    # Small enough that states stay small under functions without bounds, too: an error in one would grow from step to step.
    scale = np.float32(0.4 / np.sqrt(hidden))
    found: dict[str, Array | None] = {
        "X": reals(steps, batch, width),
        "W": reals(directions, gates, width) * np.float32(1 / np.sqrt(width)),
        "R": reals(directions, gates, hidden) * scale,
        "B": reals(directions, 2 * gates) if "B" in with_ else None,
        "sequence_lens": rng.integers(1, steps + 1, batch).astype(np.int32) if "s" in with_ else None,
        "initial_h": reals(directions, batch, hidden) if "h" in with_ else None,
    }
    if op == "LSTM":
        found["initial_c"] = reals(directions, batch, hidden) if "c" in with_ else None
        found["P"] = reals(directions, 3 * hidden) if "P" in with_ else None
    return found


def random_case(seed: int) -> Case:
    """Return a case that follows from its number."""
    rng = np.random.default_rng(seed)
    op = str(rng.choice(list(GATES)))
    direction = str(rng.choice(["forward", "reverse", "bidirectional"]))
    directions = 2 if direction == "bidirectional" else 1
    extents = (
        int(rng.integers(1, 8)),
        int(rng.choice([1, 2, 3, 5, 17])),
        int(rng.integers(1, 12)),
        int(rng.choice([1, 2, 7, 16, 33])),
    )
    hidden = extents[3]
    with_ = "".join(letter for letter in "BshcP" if rng.random() < 0.5)
    attributes: dict[str, Any] = {"hidden_size": hidden}
    if rng.random() < 0.8:
        attributes["direction"] = direction
    elif directions == 2 or direction == "reverse":
        directions = 1
    if rng.random() < 0.4:
        names = [str(name) for name in rng.choice(list(ACTIVATIONS), FUNCTIONS[op] * directions)]
        attributes["activations"] = names
        takes = "".join(ACTIVATIONS[name] for name in names)
        # Those without a default of the operator's own have to be given: ONNX Runtime takes 0 for them.
        needed = any(name in ("Affine", "ScaledTanh", "ThresholdedRelu") for name in names)
        # ONNX Runtime wants all parameters or none.
        if takes.count("a") and (needed or rng.random() < 0.7):
            attributes["activation_alpha"] = [float(x) for x in rng.uniform(0.1, 0.6, takes.count("a"))]
            if takes.count("b"):
                attributes["activation_beta"] = [float(x) for x in rng.uniform(0.1, 0.6, takes.count("b"))]
    if rng.random() < 0.3:
        attributes["clip"] = float(rng.uniform(0.2, 1.5))
    if op == "GRU" and rng.random() < 0.5:
        attributes["linear_before_reset"] = 1
    if op == "LSTM" and rng.random() < 0.3:
        attributes["input_forget"] = 1
    results: tuple[str, ...] = ("Y", "Y_h", "Y_c") if op == "LSTM" else ("Y", "Y_h")
    wanted = tuple(name if rng.random() < 0.7 else "" for name in results)
    if not any(wanted):
        wanted = results
    while not wanted[-1]:
        wanted = wanted[:-1]
    constants = frozenset("WRBP") if rng.random() < 0.7 else frozenset(rng.choice(list("WRBP"), 2))
    opset = int(rng.choice(OPSETS[op]))
    return Case(op, opset, operands(rng, op, extents, directions, with_), attributes, wanted, constants)


@pytest.mark.parametrize("seed", range(300))
def test_random_nodes_are_those_of_onnxruntime(seed: int) -> None:
    check(random_case(seed))


def case_of(op: str, extents: tuple[int, int, int, int], with_: str = "", **attributes: Any) -> Case:
    """Return a case with one direction, or those of its attributes."""
    rng = np.random.default_rng(sum(extents))
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    outputs = ("Y", "Y_h", "Y_c") if op == "LSTM" else ("Y", "Y_h")
    attributes = {"hidden_size": extents[3]} | attributes
    return Case(op, 22, operands(rng, op, extents, directions, with_), attributes, outputs)


@pytest.mark.parametrize("op", list(GATES))
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_sequences_before_steps_are_the_same_sequences(op: str, direction: str) -> None:
    # ONNX Runtime refuses this layout: the judge is the other one, which it judges itself.
    case = case_of(op, (4, 3, 5, 6), "Bshc", direction=direction)
    check(case)
    turned = dict(case.operands)
    for name in ("X", "initial_h", "initial_c"):
        if (array := turned.get(name)) is not None:
            turned[name] = np.ascontiguousarray(array.swapaxes(0, 1))
    other = case._replace(operands=turned, attributes=case.attributes | {"layout": 1})
    y, *states = (np.asarray(result) for result in triune.Session(other.model()).run(other.feeds()))
    theirs = expected(case)
    agree([y.transpose(1, 2, 0, 3), *(state.swapaxes(0, 1) for state in states)], theirs)


@pytest.mark.parametrize("op", list(GATES))
@pytest.mark.parametrize("threads", [1, 2])
def test_one_session_takes_sequences_of_any_number_and_length(op: str, threads: int) -> None:
    shapes = [(5, 3), (1, 1), (9, 20), (5, 3), (2, 7)]
    cases = [case_of(op, (*shape, 6, 40), "Bsh", direction="bidirectional") for shape in shapes]
    fixed = {name: cases[0].operands[name] for name in "WRB"}
    cases = [case._replace(operands=case.operands | fixed, open_extents=True) for case in cases]
    session = triune.Session(cases[0].model(), threads=threads)
    for case in cases:
        agree([np.asarray(result) for result in session.run(case.feeds())], expected(case))


def test_large_cells_are_those_of_onnxruntime() -> None:
    for op, extents in (("LSTM", (7, 1, 40, 300)), ("GRU", (5, 2, 24, 520)), ("LSTM", (3, 33, 64, 128))):
        case = case_of(op, extents, "B", direction="bidirectional")
        sessions = [triune.Session(case.model(), threads=threads) for threads in (1, 2)]
        one, two = ([np.asarray(result) for result in session.run(case.feeds())] for session in sessions)
        agree(one, expected(case))
        for a, b in zip(one, two, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("op", list(GATES))
def test_no_steps_leave_the_states(op: str) -> None:
    for with_ in ("", "hc"):
        case = case_of(op, (0, 3, 4, 5), with_)
        y, *states = (np.asarray(result) for result in triune.Session(case.model()).run(case.feeds()))
        assert y.shape == (0, 1, 3, 5)
        for state, name in zip(states, ("initial_h", "initial_c"), strict=False):
            given = case.operands[name]
            np.testing.assert_array_equal(state, np.zeros((1, 3, 5)) if given is None else given)


@pytest.mark.parametrize("op", list(GATES))
def test_no_sequences_give_nothing(op: str) -> None:
    case = case_of(op, (4, 0, 3, 5), "B")
    shapes = [np.asarray(result).shape for result in triune.Session(case.model()).run(case.feeds())]
    assert shapes == [(4, 1, 0, 5), *[(1, 0, 5)] * (len(case.outputs) - 1)]


@pytest.mark.parametrize("op", list(GATES))
def test_half_precision_computes_in_single(op: str) -> None:
    case = case_of(op, (4, 2, 5, 6), "Bhc")
    halves = {
        name: array.astype(np.float16) if array is not None and array.dtype == np.float32 else array
        for name, array in case.operands.items()
    }
    half = case._replace(operands=halves)
    widened = {
        name: array.astype(np.float32) if array is not None and array.dtype == np.float16 else array
        for name, array in halves.items()
    }
    # ONNX Runtime has none over float16: it judges what the halves stand for.
    theirs = [result.astype(np.float16) for result in expected(case._replace(operands=widened))]
    agree([np.asarray(result) for result in triune.Session(half.model()).run(half.feeds())], theirs, 1e-3)


WRONG: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"hidden_size": 0}, {}, "attribute 'hidden_size' = 0"),
    ({"hidden_size": -3}, {}, "attribute 'hidden_size' = -3"),
    ({"hidden_size": 2**62}, {}, "so there are no units"),
    ({"hidden_size": 7}, {}, "input W has shape (1, 24, 5)"),
    ({"direction": "sideways"}, {}, "attribute 'direction' = 'sideways'"),
    ({"direction": "bidirectional"}, {}, "input W has shape (1, 24, 5) of type float32, but [2, 24, 5]"),
    ({"activations": ["Tanh"]}, {}, "attribute 'activations' has 1 names, not 3"),
    ({"activations": ["Sigmoid", "Tan", "Tanh"]}, {}, "attribute 'activations' has 'Tan'"),
    ({"activations": "Tanh"}, {}, "attribute 'activations' is not a list of strings"),
    ({"clip": -1.0}, {}, "attribute 'clip' = -1"),
    ({"clip": float("nan")}, {}, "attribute 'clip' = NaN"),
    ({"layout": 2}, {}, "attribute 'layout' = 2"),
    ({"linear_before_reset": 1}, {}, "attribute 'linear_before_reset' is not supported"),
    ({}, {"X": np.zeros((4, 5), np.float32)}, "input X has shape (4, 5), but 3 dimensions"),
    ({}, {"W": np.zeros((1, 18, 5), np.float32)}, "input W has shape (1, 18, 5)"),
    ({}, {"R": np.zeros((1, 24, 5), np.float32)}, "input R has shape (1, 24, 5)"),
    ({}, {"B": np.zeros((1, 24), np.float32)}, "input B has shape (1, 24)"),
    ({}, {"P": np.zeros((1, 24), np.float32)}, "input P has shape (1, 24)"),
    ({}, {"initial_h": np.zeros((3, 1, 6), np.float32)}, "input initial_h has shape (3, 1, 6)"),
    ({}, {"initial_c": np.zeros((1, 3, 6), np.float64)}, "input initial_c has shape (1, 3, 6) of type float64"),
    ({}, {"sequence_lens": np.zeros(2, np.int32)}, "input sequence_lens has shape (2)"),
]


@pytest.mark.parametrize(("attributes", "changed", "words"), WRONG, ids=[words for *_, words in WRONG])
def test_what_does_not_fit_is_named(attributes: dict[str, Any], changed: dict[str, Any], words: str) -> None:
    case = case_of("LSTM", (4, 3, 5, 6), "BshcP")
    case = case._replace(attributes=case.attributes | attributes, operands=case.operands | changed)
    helper = onnx.helper
    given = {name: array for name, array in case.operands.items() if array is not None}
    node = helper.make_node("LSTM", list(case.operands), list(case.outputs), name="it", **case.attributes)
    graph = helper.make_graph(
        [node],
        "case",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in given.items()
        ],
        [onnx.ValueInfoProto(name=name) for name in case.outputs],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=8)
    with pytest.raises(triune.errors.Error) as caught:
        triune.Session(model.SerializeToString()).run(given)
    assert "node 'it' (LSTM)" in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("length", [-1, 5, 2**31 - 1])
def test_lengths_beyond_the_steps_are_named(known: bool, length: int) -> None:
    case = case_of("GRU", (4, 3, 5, 6), "s")
    lengths = np.array([1, length, 4], np.int32)
    constants = case.constants | ({"sequence_lens"} if known else set())
    case = case._replace(operands=case.operands | {"sequence_lens": lengths}, constants=frozenset(constants))
    with pytest.raises(triune.errors.Error) as caught:
        triune.Session(case.model()).run(case.feeds())
    assert str(caught.value).startswith("node 'it' (GRU)")
    assert f"lengths: {length} is not within 0 and 4" in str(caught.value)
