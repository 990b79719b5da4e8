"""Strings through sessions: what moves them, what looks at their letters, and what is refused."""

from __future__ import annotations

import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import triune

onnx = pytest.importorskip("onnx")
helper, STRING, INT64, FLOAT = onnx.helper, onnx.TensorProto.STRING, onnx.TensorProto.INT64, onnx.TensorProto.FLOAT

Array = npt.NDArray[Any]
TYPES = {"f": FLOAT, "d": onnx.TensorProto.DOUBLE, "l": INT64, "?": onnx.TensorProto.BOOL, "O": STRING}


def texts(*shape: int, seed: int = 0) -> Array:
    """Return strings of which some are equal, some empty, some not ASCII."""
    draw = random.Random(seed)
    words = ["", "a", "b", "ä", "Zoë", "日本", "two words", "a" * 300]
    flat = [draw.choice(words) for _ in range(int(np.prod(shape)))]
    return np.array(flat, object).reshape(shape)


def session(
    nodes: list[Any],
    inputs: Mapping[str, Array | int],
    outputs: Mapping[str, int],
    constants: dict[str, Array] | None = None,
) -> triune.Session:
    """Return a session over nodes; an input is an array of its type and rank, or the number of its type."""
    declared = [
        helper.make_tensor_value_info(
            name,
            given if isinstance(given, int) else TYPES[given.dtype.char],
            None if isinstance(given, int) else given.shape,
        )
        for name, given in inputs.items()
    ]
    results = [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()]
    initializers = []
    for name, array in (constants or {}).items():
        if array.dtype == object:
            flat = [text.encode() for text in array.ravel()]
            initializers.append(helper.make_tensor(name, STRING, array.shape, flat))
        else:
            initializers.append(onnx.numpy_helper.from_array(array, name))
    graph = helper.make_graph(nodes, "strings", declared, results, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return triune.Session(model)


def run(
    operator: str, given: list[Array], result: int = STRING, fixed: tuple[int, ...] = (), **attributes: Any
) -> Array:
    """Run one operator; the operands in `fixed` are constants."""
    names = [f"x{index}" for index in range(len(given))]
    node = helper.make_node(operator, names, ["y"], **attributes)
    named = dict(zip(names, given, strict=True))
    constants = {name: array for index, (name, array) in enumerate(named.items()) if index in fixed}
    inputs = {name: array for name, array in named.items() if name not in constants}
    opened = session([node], dict(inputs), {"y": result}, constants)
    assert opened.outputs[0].kind == ("strings" if result == STRING else "tensor")
    (array,) = opened.run(inputs)
    return array


X, Y = texts(3, 4), texts(3, 4, seed=1)
MOVES: list[tuple[str, list[Array], Array, tuple[int, ...], dict[str, Any]]] = [
    ("Identity", [X], X, (), {}),
    ("Reshape", [X, np.array([2, 6])], X.reshape(2, 6), (1,), {}),
    ("Flatten", [texts(2, 3, 2)], texts(2, 3, 2).reshape(2, 6), (), {}),
    ("Transpose", [X], X.T, (), {}),
    ("Expand", [texts(3, 1), np.array([2, 3, 4])], np.broadcast_to(texts(3, 1), (2, 3, 4)), (1,), {}),
    ("Tile", [X, np.array([2, 3])], np.tile(X, (2, 3)), (1,), {}),
    ("Slice", [X, np.array([3]), np.array([-9]), np.array([1]), np.array([-2])], X[:, 3::-2], (1, 2, 3, 4), {}),
    ("Gather", [X, np.array([2, 0, 2])], X[[2, 0, 2]], (), {}),
    ("GatherElements", [X, np.array([[1, 1, 0, 2]])], X[[1, 1, 0, 2], range(4)][None], (), {}),
    ("GatherND", [X, np.array([[2, 1], [0, 3]])], X[[2, 0], [1, 3]], (), {}),
    ("Concat", [X, Y], np.concatenate([X, Y], 1), (), {"axis": 1}),
    ("Concat", [X, Y], np.concatenate([X, Y], 0), (1,), {"axis": 0}),
    ("Where", [np.arange(12).reshape(3, 4) % 3 > 0, X, Y], np.where(np.arange(12).reshape(3, 4) % 3 > 0, X, Y), (), {}),
    ("Unsqueeze", [X, np.array([1])], X[:, None], (1,), {}),
    ("Squeeze", [texts(3, 1)], texts(3, 1)[:, 0], (), {}),
    ("Compress", [X, np.array([True, False, True])], X[[0, 2]], (), {"axis": 0}),
    ("Pad", [X, np.array([0, 1, 1, 0])], np.pad(X, [(0, 1), (1, 0)], constant_values=""), (1,), {}),
    (
        "Pad",
        [X, np.array([0, 1, 1, 0]), np.array("z", object)],
        np.pad(X, [(0, 1), (1, 0)], constant_values="z"),
        (1,),
        {},
    ),
    (
        "OneHot",
        [np.array([1, 0]), np.array(2), np.array(["off", "on"], object)],
        np.array([["off", "on"], ["on", "off"]], object),
        (1,),
        {},
    ),
    ("ScatterND", [X, np.array([[2]]), texts(1, 4, seed=5)], np.concatenate([X[:2], texts(1, 4, seed=5)]), (), {}),
    (
        "ReverseSequence",
        [X, np.array([4, 1, 2])],
        np.stack([X[0, ::-1], X[1], X[2, [1, 0, 2, 3]]]),
        (),
        {"batch_axis": 0, "time_axis": 1},
    ),
]


@pytest.mark.parametrize(("operator", "given", "expected", "fixed", "attributes"), MOVES, ids=[row[0] for row in MOVES])
def test_strings_move_as_numpy_moves_them(
    operator: str, given: list[Array], expected: Array, fixed: tuple[int, ...], attributes: dict[str, Any]
) -> None:
    result = run(operator, given, fixed=fixed, **attributes)
    assert result.dtype == object
    assert all(type(text) is str for text in result.ravel())
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (5,), (1, 1)])
def test_any_extents_come_and_go(shape: tuple[int, ...]) -> None:
    x = texts(*shape)
    np.testing.assert_array_equal(run("Identity", [x]), x)


def test_equality_sizes_and_splits() -> None:
    same = run("Equal", [X, texts(1, 4, seed=1)], onnx.TensorProto.BOOL)
    np.testing.assert_array_equal(same, texts(1, 4, seed=1) == X)
    assert same.any()
    assert not same.all()
    np.testing.assert_array_equal(run("Shape", [X], INT64), [3, 4])
    assert run("Size", [X], INT64) == 12
    node = helper.make_node("Split", ["x"], ["a", "b"], axis=1, num_outputs=2)
    a, b = session([node], {"x": X}, {"a": STRING, "b": STRING}).run({"x": X})
    np.testing.assert_array_equal(np.concatenate([a, b], 1), X)


def test_every_form_of_strings_comes_in() -> None:
    node = helper.make_node("Identity", ["x"], ["y"])
    opened = session([node], {"x": STRING}, {"y": STRING})
    (info,) = opened.inputs
    assert (info.name, info.dtype, info.shape, info.kind) == ("x", "object", ("...",), "strings")
    words = ["a", "ä", "", "日本"]
    for given in (words, np.array(words), np.array(words, object), np.char.encode(words, "utf-8"), tuple(words)):
        assert list(opened.run({"x": given})[0]) == words
    assert list(opened.run({"x": np.array(words)[::-2]})[0]) == words[::-2]
    assert opened.run({"x": "one"})[0].shape == ()
    assert list(pickle.loads(pickle.dumps(opened)).run({"x": words})[0]) == words
    for wrong, expected in (
        (np.zeros(3, np.float32), "numpy array of strings"),
        (np.array(["a", 1], object), "got int in element 1"),
        (np.array([b"\xff"], object), "UTF-8"),
        (np.array(["\ud800"], object), "half a pair"),
        (5, "array of strings"),
        (None, "array of strings"),
    ):
        with pytest.raises(triune.errors.ArgumentError, match=expected):
            opened.run({"x": wrong})
    with pytest.raises(triune.errors.ArgumentError, match="strings"):
        opened.run({"x": words}, out=[np.empty(4, object)])
    # What a run has added is gone with the next.
    for round_ in range(50):
        assert list(opened.run({"x": [f"{round_}", "same"]})[0]) == [f"{round_}", "same"]


def test_joining_is_python_s() -> None:
    for a, b in (
        (X, Y),
        (X, texts(4, seed=2)),
        (texts(3, 1), texts(1, 4)),
        (texts(0, 4), texts(4)),
        (texts(), texts(2)),
    ):
        joined = run("StringConcat", [a, b])
        expected = np.char.add(a.astype(np.str_), b.astype(np.str_)) if a.size else np.empty((0, 4))
        np.testing.assert_array_equal(joined, expected)
    with pytest.raises(triune.errors.ArgumentError, match="do not fit"):
        run("StringConcat", [texts(2), texts(3)])


@pytest.mark.parametrize("delimiter", [None, "", ",", ", ", "aa"])
@pytest.mark.parametrize("most", [None, 0, 1, 2])
def test_splitting_is_python_s(delimiter: str | None, most: int | None) -> None:
    x = np.array(["a,b, c", "", "  a  b c ", "aaaaa", ",", "a,,b"], object)
    attributes: dict[str, Any] = {} if delimiter is None else {"delimiter": delimiter}
    if most is not None:
        attributes["maxsplit"] = most
    node = helper.make_node("StringSplit", ["x"], ["y", "n"], **attributes)
    y, counts = session([node], {"x": x}, {"y": STRING, "n": INT64}).run({"x": x})
    parts = [text.split(delimiter or None, -1 if most is None else most) for text in x]
    if not delimiter:
        # Python's last part keeps the white space behind it, when it is not cut any further, too.
        assert [len(part) for part in parts] == list(counts)
    np.testing.assert_array_equal(counts, [len(part) for part in parts])
    widest = max(map(len, parts))
    np.testing.assert_array_equal(y, [part + [""] * (widest - len(part)) for part in parts])


def test_normalizing_takes_words_away_then_changes_letters() -> None:
    x = np.array(["Monday", "monday", "Tuesday", "ÄRGER", ""], object)
    stop: dict[str, Any] = {"stopwords": ["monday", "ärger"]}
    assert list(run("StringNormalizer", [x], **stop)) == ["Tuesday", ""]
    assert list(run("StringNormalizer", [x], is_case_sensitive=1, **stop)) == ["Monday", "Tuesday", "ÄRGER", ""]
    upper = run("StringNormalizer", [x], case_change_action="UPPER", is_case_sensitive=1, **stop)
    assert list(upper) == ["MONDAY", "TUESDAY", "ÄRGER", ""]
    assert list(run("StringNormalizer", [x], case_change_action="LOWER")) == [
        "monday",
        "monday",
        "tuesday",
        "ärger",
        "",
    ]
    assert run("StringNormalizer", [x[None, :2]], **stop).tolist() == [[""]]
    assert run("StringNormalizer", [x[:2]], **stop).tolist() == [""]
    with pytest.raises(triune.errors.ArgumentError, match="one axis is expected"):
        run("StringNormalizer", [texts(2, 2)])


def test_numbers_become_strings_and_strings_numbers() -> None:
    reals = np.array([0.1, 1e-7, 1e20, 123456789, np.nan, np.inf, -np.inf, -0.0, 100000], np.float32)
    spelled = run("Cast", [reals], to=STRING)
    assert list(spelled) == ["0.1", "1e-07", "1e+20", "1.2345679e+08", "NaN", "INF", "-INF", "-0", "100000"]
    back = run("Cast", [spelled], FLOAT, to=FLOAT)
    np.testing.assert_array_equal(back, np.array([0.1, 1e-7, 1e20, 1.2345679e8, *reals[4:]], np.float32))
    integers = np.array([-(2**63), 2**63 - 1, 0])
    np.testing.assert_array_equal(run("Cast", [run("Cast", [integers], to=STRING)], INT64, to=INT64), integers)
    assert list(run("Cast", [np.array([True, False])], to=STRING)) == ["1", "0"]
    like = run("CastLike", [np.array(["3", " -4 "], object), np.zeros(1)], onnx.TensorProto.DOUBLE)
    np.testing.assert_array_equal(like, [3, -4])
    np.testing.assert_array_equal(run("CastLike", [np.array([7]), X]), ["7"])
    np.testing.assert_array_equal(run("Cast", [X], to=STRING), X)
    with pytest.raises(triune.errors.ArgumentError, match="element 1, '1x', does not say a number of int64"):
        run("Cast", [np.array(["1", "1x"], object)], INT64, to=INT64)
    with pytest.raises(triune.errors.UnsupportedError, match="bool"):
        run("Cast", [X], onnx.TensorProto.BOOL, to=onnx.TensorProto.BOOL)


@pytest.mark.parametrize("axis", [None, 0])
@pytest.mark.parametrize("is_sorted", [0, 1])
def test_different_strings_are_found(axis: int | None, is_sorted: int) -> None:
    x = texts(40, seed=3)
    attributes: dict[str, Any] = {"sorted": is_sorted} | ({} if axis is None else {"axis": axis})
    names = ["y", "first", "which", "count"]
    node = helper.make_node("Unique", ["x"], names, **attributes)
    opened = session([node], {"x": x}, {"y": STRING, "first": INT64, "which": INT64, "count": INT64})
    y, first, which, count = opened.run({"x": x})
    expected = sorted(set(x)) if is_sorted else list(dict.fromkeys(x))
    assert list(y) == expected
    np.testing.assert_array_equal(first, [list(x).index(text) for text in expected])
    np.testing.assert_array_equal(y[which], x)
    np.testing.assert_array_equal(count, [(x == text).sum() for text in expected])


def test_sequences_of_words_are_counted() -> None:
    x = np.array([["a", "b", "a", "ä"], ["b", "a", "b", "a"]], object)
    attributes: dict[str, Any] = {
        "mode": "TF",
        "min_gram_length": 1,
        "max_gram_length": 2,
        "max_skip_count": 0,
        "ngram_counts": [0, 2],
        "ngram_indexes": [0, 1, 2],
        "pool_strings": ["a", "nowhere", "b", "a"],
    }
    np.testing.assert_array_equal(run("TfIdfVectorizer", [x], FLOAT, **attributes), [[2, 0, 1], [2, 0, 2]])
    del attributes["pool_strings"]
    with pytest.raises(triune.errors.UnsupportedError, match="pool_strings"):
        run("TfIdfVectorizer", [x], FLOAT, **attributes)


def test_constants_networks_within_and_functions_have_strings() -> None:
    yes = helper.make_graph(
        [helper.make_node("StringConcat", ["x", "suffix"], ["then"])],
        "yes",
        [],
        [helper.make_tensor_value_info("then", STRING, None)],
    )
    no = helper.make_graph(
        [helper.make_node("Constant", [], ["else"], value_strings=["nö", "x"])],
        "no",
        [],
        [helper.make_tensor_value_info("else", STRING, None)],
    )
    nodes = [
        helper.make_node("Constant", [], ["suffix"], value_string="!"),
        helper.make_node("If", ["condition"], ["y"], then_branch=yes, else_branch=no),
        helper.make_node("Equal", ["y", "other"], ["z"]),
    ]
    given = {"x": np.array(["a", "nö"], object), "condition": np.array(True)}
    opened = session(
        nodes, dict(given), {"y": STRING, "z": onnx.TensorProto.BOOL}, {"other": np.array(["nö", "nö!"], object)}
    )
    y, z = opened.run(given)
    assert (list(y), list(z)) == (["a!", "nö!"], [False, True])
    y, z = opened.run(given | {"condition": np.array(False)})
    assert (list(y), list(z)) == (["nö", "x"], [True, False])
    join = helper.make_function(
        "own",
        "Twice",
        ["a"],
        ["b"],
        [helper.make_node("StringConcat", ["a", "a"], ["b"])],
        [helper.make_opsetid("", 21)],
    )
    infos = [helper.make_tensor_value_info(name, STRING, ["n"]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Twice", ["x"], ["y"], domain="own")], "g", infos[:1], infos[1:])
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    model = helper.make_model(graph, opset_imports=imports, functions=[join], ir_version=10)
    assert list(triune.Session(model).run({"x": ["ab", ""]})[0]) == ["abab", ""]


def test_an_input_s_own_strings_may_be_left_out() -> None:
    node = helper.make_node("Identity", ["x"], ["y"])
    opened = session([node], {"x": STRING}, {"y": STRING}, {"x": np.array(["own"], object)})
    assert [info.kind for info in opened.defaults] == ["strings"]
    assert opened.run({})[0].tolist() == ["own"]
    assert opened.run({"x": ["other", "own"]})[0].tolist() == ["other", "own"]


def _axis(operator: str) -> dict[str, Any]:
    return {"axis": 0} if operator == "Concat" else {}


def test_numbers_of_strings_are_never_calculated_with() -> None:
    two = {"x": X, "y": Y}
    for operator, inputs, result in (
        ("Add", ["x", "y"], STRING),
        ("Less", ["x", "y"], onnx.TensorProto.BOOL),
        ("ReduceMax", ["x"], STRING),
        ("Sign", ["x"], STRING),
        ("Max", ["x", "y"], STRING),
        ("NonZero", ["x"], INT64),
        ("SequenceConstruct", ["x", "y"], STRING),
        ("TopK", ["x", "k"], STRING),
    ):
        node = helper.make_node(operator, inputs, ["z", "i"] if operator == "TopK" else ["z"])
        with pytest.raises(triune.errors.UnsupportedError, match="strings"):
            session([node], two | {"k": np.array([1])}, {"z": result})
    for operator, given, match in (
        ("Concat", [X, np.zeros((3, 4), np.int64)], "input 1 is of numbers"),
        ("Gather", [np.zeros(3), X], "input 0 is of numbers"),
        ("Where", [X, X, Y], "input 0 is of strings"),
        ("Equal", [X, np.zeros((3, 4), np.int64)], "input 1 is of numbers"),
        ("StringConcat", [X, np.zeros(4, np.int64)], "input 1 is of numbers"),
        ("StringSplit", [np.zeros(4, np.int64)], "input 0 is of numbers"),
    ):
        with pytest.raises(triune.errors.UnsupportedError, match=match):
            run(operator, given, fixed=(), **_axis(operator))
    with pytest.raises(triune.errors.UnsupportedError, match="reduction"):
        run("ScatterND", [X, np.array([[2]]), texts(1, 4)], reduction="max")
    # What the file says of results is true or refused.
    with pytest.raises(triune.errors.UnsupportedError, match="has 'y' as numbers, but the operator makes strings"):
        run("Identity", [X], INT64)
    with pytest.raises(triune.errors.UnsupportedError, match="has 'y' as strings, but the operator makes numbers"):
        run("Identity", [np.zeros(3, np.int64)])


def test_only_sessions_run_strings(tmp_path: Any) -> None:
    infos = [helper.make_tensor_value_info(name, STRING, [2]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", infos[:1], infos[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    path = tmp_path / "strings.onnx"
    onnx.save(model, path)
    with pytest.raises(triune.errors.Error, match="strings"):
        triune.compile(path, output=tmp_path / "package")
    sequence = helper.make_sequence_type_proto(helper.make_tensor_type_proto(STRING, [2]))
    graph.input[0].type.CopyFrom(sequence)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    with pytest.raises(triune.errors.ArgumentError, match="sequence of strings"):
        triune.Session(model)


DOUBLING = """
import resource, sys
import onnx
import triune

helper, STRING = onnx.helper, onnx.TensorProto.STRING
nodes = [helper.make_node("StringConcat", [f"x{i}", f"x{i}"], [f"x{i + 1}"]) for i in range(64)]
infos = [helper.make_tensor_value_info(name, STRING, [1]) for name in ("x0", "x64")]
graph = helper.make_graph(nodes, "g", infos[:1], infos[1:])
opened = triune.Session(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))
with open("/proc/self/status") as file:
    used = next(int(line.split()[1]) << 10 for line in file if line.startswith("VmSize:"))
resource.setrlimit(resource.RLIMIT_AS, (used + (4 << 20), -1))
try:
    opened.run({"x0": ["ab"]})
except MemoryError as error:
    assert opened.run({"x0": [""]})[0].tolist() == [""]
    sys.exit(3)
"""


def test_words_that_double_end_in_an_error() -> None:
    pytest.importorskip("resource", reason="limits of a process are POSIX's")
    done = subprocess.run([sys.executable, "-c", DOUBLING], capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr


def test_damaged_files_are_refused() -> None:
    node = helper.make_node("Identity", ["x"], ["y"])
    for flat, shape in (([b"a"], [2]), ([b"a", b"b"], [1]), ([b"\xff"], [1])):
        tensor = onnx.TensorProto(name="x", data_type=STRING, dims=shape, string_data=flat)
        graph = helper.make_graph([node], "g", [], [helper.make_tensor_value_info("y", STRING, None)], [tensor])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
        with pytest.raises(triune.errors.ArgumentError, match="initializer 'x'"):
            triune.Session(model.SerializeToString())
    assert run("Identity", [np.array([["a\0b"]], object)])[0, 0] == "a\0b"


def test_splitting_stops_by_signals() -> None:
    node = helper.make_node("StringSplit", ["x"], ["y", "n"], delimiter=",")
    opened = session([node], {"x": np.array([""], object)}, {"n": INT64})
    threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        opened.run({"x": np.array(["," * 100_000_000], object)})
    assert time.monotonic() - started < 5
    assert opened.run({"x": np.array(["a,b"], object)})[0].tolist() == [2]
