"""Models whose extents depend on data, through `triune.Session` and `triune._native.Session`, against ONNX Runtime."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import triune
from triune import _native, errors

ort = pytest.importorskip("onnxruntime")

Array = npt.NDArray[Any]
RNG = np.random.default_rng(20261121)
F32, I64 = TensorProto.FLOAT, TensorProto.INT64


def _write(path: Path, nodes: list[Any], inputs: list[Any], outputs: list[Any], weights: dict[str, Array]) -> Path:
    made = [helper.make_node(kind, ins, outs, **attributes) for kind, ins, outs, attributes in nodes]
    graph = helper.make_graph(
        made,
        "dynamic",
        [helper.make_tensor_value_info(*value) for value in inputs],
        [helper.make_tensor_value_info(*value) for value in outputs],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString())
    return path


@pytest.fixture(scope="module")
def positive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return what takes the positive elements of 2·x: `taken` (n, 3) by a matrix, `at` (2, n), `twice` (R, C)."""
    nodes = [
        ("Add", ["x", "x"], ["twice"], {}),
        ("Relu", ["twice"], ["relu"], {}),
        ("NonZero", ["relu"], ["at"], {}),
        ("Transpose", ["at"], ["points"], {"perm": [1, 0]}),
        ("GatherND", ["twice", "points"], ["elements"], {}),
        ("Unsqueeze", ["elements", "one"], ["column"], {}),
        ("MatMul", ["column", "w"], ["taken"], {}),
    ]
    return _write(
        tmp_path_factory.mktemp("positive") / "positive.onnx",
        nodes,
        [("x", F32, ["R", "C"])],
        [("taken", F32, ["n", 3]), ("twice", F32, ["R", "C"]), ("at", I64, [2, "n"])],
        {"one": np.array([1]), "w": RNG.standard_normal((1, 3)).astype(np.float32)},
    )


@pytest.fixture(scope="module")
def detector(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return boxes and scores of an image's cells, suppressed, and the chosen boxes, scaled: `chosen` (n, 4)."""
    rng = np.random.default_rng(5)
    nodes = [
        ("Conv", ["image", "head"], ["map"], {"strides": [4, 4]}),
        ("Reshape", ["map", "rows"], ["flat"], {}),
        ("Split", ["flat", "parts"], ["raw", "logits"], {"axis": 1}),
        ("Transpose", ["raw"], ["raw_last"], {"perm": [0, 2, 1]}),
        ("Sigmoid", ["raw_last"], ["boxes"], {}),
        ("Sigmoid", ["logits"], ["scores"], {}),
        ("NonMaxSuppression", ["boxes", "scores", "most", "overlap", "least"], ["selected"], {}),
        ("Gather", ["selected", "last"], ["which"], {"axis": 1}),
        ("Squeeze", ["boxes", "zero"], ["boxes_of_image"], {}),
        ("Gather", ["boxes_of_image", "which"], ["kept"], {"axis": 0}),
        ("Mul", ["kept", "size"], ["chosen"], {}),
    ]
    return _write(
        tmp_path_factory.mktemp("detector") / "detector.onnx",
        nodes,
        [("image", F32, [1, 3, "H", "W"])],
        [("chosen", F32, ["n", 4]), ("selected", I64, ["n", 3]), ("scores", F32, [1, 2, "cells"])],
        {
            "head": rng.standard_normal((6, 3, 4, 4)).astype(np.float32) / 4,
            "rows": np.array([1, 6, -1]),
            "parts": np.array([4, 2]),
            "most": np.array([20]),
            "overlap": np.array([0.3], np.float32),
            "least": np.array([0.4], np.float32),
            "last": np.array(2),
            "zero": np.array([0]),
            "size": np.array([416], np.float32),
        },
    )


def _expected(model: Path, feeds: dict[str, Array]) -> list[Array]:
    found: list[Array] = ort.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, feeds)
    return found


def _alike(found: list[Array], expected: list[Array]) -> None:
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.shape == theirs.shape
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def _matrix(rows: int, columns: int, share: float) -> Array:
    """Return a matrix of which about that share is positive."""
    x = np.abs(RNG.standard_normal((rows, columns), np.float32)) + 0.01
    return np.where(RNG.random((rows, columns)) < share, x, -x)


@pytest.mark.parametrize("threads", [1, 2])
def test_sessions(positive: Path, detector: Path, threads: int) -> None:
    session = triune.Session(positive, threads=threads)
    for rows, columns, share in ((4, 5, 0.5), (4, 5, 0.5), (4, 5, 0), (4, 5, 1), (1, 7, 0.3), (4, 5, 0.5)):
        x = _matrix(rows, columns, share)
        found = session.run({"x": x})
        _alike(found, _expected(positive, {"x": x}))
        assert found[0].shape == ((x > 0).sum(), 3)
    session = triune.Session(detector, threads=threads)
    counts = set()
    for size in (16, 32, 32, 48):
        image = RNG.standard_normal((1, 3, size, size), np.float32)
        found = session.run({"image": image})
        _alike(found, _expected(detector, {"image": image}))
        counts.add(len(found[0]))
    assert len(counts) > 1


def test_networks(positive: Path) -> None:
    network = _native.Session(positive)
    assert network.prepare([(4, 5)]) == [None, [4, 5], None]
    assert network.planned[1] == [("taken", "float32", None), ("twice", "float32", [4, 5]), ("at", "int64", None)]
    x, twice = np.zeros((4, 5), np.float32), np.zeros((4, 5), np.float32)
    with pytest.raises(errors.ArgumentError, match="'taken': expected None, as its shape depends on data"):
        network.bind([x], [np.zeros((3, 3), np.float32), twice, None])
    network.bind([x], [None, twice, None])
    with pytest.raises(errors.ArgumentError, match="no result"):
        network.output(0)
    for share in (0.5, 0.1, 0.0, 1.0, 0.5):
        x[:] = _matrix(4, 5, share)
        network.forward()
        _alike([network.output(0), twice, network.output(2)], _expected(positive, {"x": x}))
        assert network.planned[1][0] == ("taken", "float32", [(x > 0).sum(), 3])
    with pytest.raises(errors.ArgumentError, match="without an array bound"):
        network.output(1)
    assert network.prepare([(2, 2)]) == [None, [2, 2], None]
    with pytest.raises(errors.ArgumentError, match="bind"):
        network.forward()


def test_compiled_stages_are_kept(positive: Path) -> None:
    network = _native.Session(positive)
    x = np.zeros((1, 64), np.float32)
    network.prepare([x.shape])
    network.bind([x], [None, None, None])
    for count in range(65):
        x[:] = np.where(np.arange(64) < count, 1, -1)
        network.forward()
        assert network.output(0).shape == (count, 3)
        assert network.plans == count + 1


def test_extents_by_elements_of_an_input(tmp_path: Path) -> None:
    """Operands of the same shapes, whose elements decide: each is another program."""
    nodes = [("Slice", ["x", "start", "end"], ["part"], {}), ("Expand", ["part", "extents"], ["y"], {})]
    inputs = [("x", F32, [8]), ("end", I64, [1]), ("extents", I64, [2])]
    outputs = [("part", F32, ["p"]), ("y", F32, ["r", "c"])]
    model = _write(tmp_path / "slice.onnx", nodes, inputs, outputs, {"start": np.array([1])})
    feeds: dict[str, Array] = {
        "x": np.arange(8, dtype=np.float32),
        "end": np.zeros(1, int),
        "extents": np.zeros(2, int),
    }
    network, session = _native.Session(model), triune.Session(model)
    assert network.planned[1] == [("part", "float32", None), ("y", "float32", None)]
    network.bind(list(feeds.values()), [None, None])
    for end, rows in ((5, 1), (3, 1), (3, 4), (5, 1), (-1, 2), (99, 3)):
        feeds["end"][0], feeds["extents"][:] = end, (rows, 1)
        expected = _expected(model, feeds)
        network.forward()
        _alike([network.output(0), network.output(1)], expected)
        _alike(session.run(feeds), expected)
    for wrong in ((1 << 60, 1), (1 << 40, 1), (-1, 1), (2, 3)):
        feeds["extents"][:] = wrong
        with pytest.raises(errors.Error):
            network.forward()
        with pytest.raises(errors.Error):
            session.run(feeds)
    feeds["extents"][:] = 1
    network.forward()
    assert network.output(0).shape == (7,)


def test_an_error_midway_leaves_nothing_behind(tmp_path: Path) -> None:
    # Four positive elements make a square, any other number is refused when the second stage is made.
    nodes = [
        ("NonZero", ["x"], ["at"], {}),
        ("Reshape", ["at", "square"], ["y"], {}),
    ]
    weights = {"square": np.array([2, 2])}
    model = _write(tmp_path / "square.onnx", nodes, [("x", F32, ["N"])], [("y", I64, [2, 2])], weights)
    x = np.ones(4, np.float32)
    network = _native.Session(model)
    network.prepare([x.shape])
    network.bind([x], [None])
    session = triune.Session(model)
    for _ in range(3):
        x[:] = 1
        network.forward()
        assert network.output(0).tolist() == [[0, 1], [2, 3]]
        assert session.run({"x": x})[0].tolist() == [[0, 1], [2, 3]]
        x[0] = 0
        with pytest.raises(errors.Error, match="Reshape"):
            network.forward()
        with pytest.raises(errors.ArgumentError, match="no result"):
            network.output(0)
        with pytest.raises(errors.Error, match="Reshape"):
            session.run({"x": x})


def test_shapes_that_do_not_fit_are_refused_at_once(detector: Path) -> None:
    network = _native.Session(detector)
    for shape in ((1, 4, 16, 16), (1, 3, 16), (2, 3, 16, 16)):
        with pytest.raises(errors.ArgumentError):
            network.prepare([shape])
    assert network.prepare([(1, 3, 16, 16)])[2] == [1, 2, 16]


def test_networks_that_share(positive: Path) -> None:
    first = _native.Session(positive)
    second = _native.Session(sharing_weights=first, sharing_scratch=first)
    for network, shape in ((first, (3, 4)), (second, (8, 9)), (first, (5, 5))):
        x = _matrix(*shape, 0.4)
        network.prepare([shape])
        network.bind([x], [None, None, None])
        network.forward()
        _alike([network.output(index) for index in range(3)], _expected(positive, {"x": x}))


def test_threads_take_turns(detector: Path) -> None:
    session, networks = (
        triune.Session(detector, threads=2),
        [_native.Session(detector), _native.Session(detector, threads=2)],
    )
    images = [RNG.standard_normal((1, 3, size, size), np.float32) for size in (16, 24, 32)]
    expected = [_expected(detector, {"image": image}) for image in images]
    failed: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(20):
                image, wanted = images[(number + turn) % 3], expected[(number + turn) % 3]
                _alike(session.run({"image": image}), wanted)
                if number < len(networks):
                    network = networks[number]
                    network.prepare([image.shape])
                    network.bind([image], [None, None, None])
                    network.forward()
                    _alike([network.output(index) for index in range(3)], wanted)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def test_looking_inside(detector: Path) -> None:
    image = RNG.standard_normal((1, 3, 32, 32), np.float32)
    network = _native.Session(detector)
    network.prepare([image.shape])
    network.bind([image], [None, None, None])
    before = len(network.memory_plan()["operators"])
    network.profile(True)
    network.forward()
    expected = _expected(detector, {"image": image})
    traced = {name: value for name, _, _, value in network.trace()}
    _alike([traced[name] for name in ("chosen", "selected", "scores")], expected)
    assert traced["boxes"].shape == (1, 64, 4)
    kinds = [kind for _, kind, _ in network.operator_times()]
    assert kinds.index("NonMaxSuppression") > kinds.index("Conv")
    assert any("Gather" in kind for kind in kinds[kinds.index("NonMaxSuppression") :])
    plan = network.memory_plan()
    assert len(plan["operators"]) > before
    assert plan["bytes"] >= max(offset + size for offset, size, _, _ in plan["buffers"])
    assert network.timeline() is None


def test_fusion_does_not_matter(detector: Path) -> None:
    image = RNG.standard_normal((1, 3, 32, 32), np.float32)
    network = _native.Session(detector, fusion=False)
    network.prepare([image.shape])
    network.bind([image], [None, None, None])
    network.forward()
    _alike([network.output(index) for index in range(3)], _expected(detector, {"image": image}))


@pytest.mark.parametrize("rows", [2, "n"])
def test_outputs_that_the_file_gives_no_type_have_that_of_what_makes_them(rows: int | str) -> None:
    graph = helper.make_graph(
        [helper.make_node("ArgMax", ["x"], ["place"], axis=1)],
        "untyped",
        [helper.make_tensor_value_info("x", F32, [rows, 3])],
        [helper.make_empty_tensor_value_info("place")],
    )
    session = triune.Session(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9))
    (output,) = session.outputs
    assert output.dtype == "int64"
    assert output.shape == ((2, 1) if rows == 2 else ("...",))
    (made,) = session.run(None, {"x": np.eye(2, 3, dtype=np.float32)})
    assert made.dtype == output.dtype
    assert made.tolist() == [[0], [1]]
