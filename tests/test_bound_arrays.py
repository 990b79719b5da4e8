"""`triune._native.Session`: arrays bound once, read and written in place by every run."""

from __future__ import annotations

import math
import os
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import triune
from triune import errors
from triune._native import Session
from triune.models import DIGITS_INT8, digits_held_out

Array = npt.NDArray[np.float32]


@pytest.fixture
def images() -> Array:
    """Return some scans, NCHW."""
    return np.ascontiguousarray(digits_held_out()[0][:7].transpose(0, 3, 1, 2))


def _expected(images: Array) -> Array:
    (result,) = triune.Session(DIGITS_INT8).run({"image": images})
    return result


def _prepared(count: int) -> Session:
    session = Session(DIGITS_INT8)
    assert session.prepare([(count, 1, 8, 8)]) == [[count, 10]]
    return session


def test_open_extents_wait_for_prepare() -> None:
    session = Session(DIGITS_INT8.read_bytes())
    assert session.planned[0] == [("image", "float32", None)]
    assert session.planned[1] == [("logits", "float32", None)]
    with pytest.raises(errors.ArgumentError, match="call prepare first"):
        session.bind([np.zeros((1, 1, 8, 8), np.float32)], [None])
    assert session.prepare([(2, 1, 8, 8)]) == [[2, 10]]
    assert session.planned[0] == [("image", "float32", [2, 1, 8, 8])]
    assert session.planned[1] == [("logits", "float32", [2, 10])]


def test_reads_and_writes_in_place(images: Array) -> None:
    session = _prepared(3)
    source, result = images[:3].copy(), np.zeros((3, 10), np.float32)
    session.bind([source], [result])
    for start in (0, 3, 4):
        source[:] = images[start : start + 3]
        session.forward()
        assert np.array_equal(result, _expected(source))


def test_results_without_an_array(images: Array) -> None:
    session = _prepared(7)
    session.bind([images], [None])
    with pytest.raises(errors.ArgumentError, match="'logits': no result"):
        session.output(0)
    session.forward()
    first = session.output(0)
    assert np.array_equal(first, _expected(images))
    images[:] = 0
    session.forward()
    assert not np.array_equal(first, session.output(0))
    with pytest.raises(errors.ArgumentError, match="index: expected less than 1, got 1"):
        session.output(1)
    result = np.zeros((7, 10), np.float32)
    session.bind([images], [result])
    session.forward()
    with pytest.raises(errors.ArgumentError, match="no result"):
        session.output(0)


def test_another_plan_lets_arrays_go(images: Array) -> None:
    session = _prepared(7)
    session.bind([images], [None])
    session.prepare([(2, 1, 8, 8)])
    with pytest.raises(errors.ArgumentError, match="no arrays are bound"):
        session.forward()
    with pytest.raises(errors.ArgumentError, match=r"'image': expected shape \(2, 1, 8, 8\), got \(7, 1, 8, 8\)"):
        session.bind([images], [None])
    session.bind([images[:2]], [None])
    session.forward()
    assert np.array_equal(session.output(0), _expected(images[:2]))


@pytest.mark.parametrize(
    ("shapes", "text"),
    [
        ([], "shapes: expected 1, got 0"),
        ([(1,) * 9], "at most"),
        ([(1, 2, 8, 8)], "image"),
        ([(1, 1, 8)], "image"),
    ],
)
def test_shapes_that_do_not_fit(shapes: Any, text: str) -> None:
    session = _prepared(1)
    with pytest.raises(errors.ArgumentError, match=text):
        session.prepare(shapes)
    # What was planned stays.
    assert session.planned[1] == [("logits", "float32", [1, 10])]


def test_arrays_that_do_not_fit(images: Array) -> None:
    session = _prepared(7)
    result = np.zeros((7, 10), np.float32)
    locked = result.copy()
    locked.flags.writeable = False
    cases: list[tuple[list[Any], list[Any], str]] = [
        ([], [None], "inputs: expected 1 arrays, got 0"),
        ([images], [], "outputs: expected 1 arrays, got 0"),
        ([images.astype(np.float64)], [None], "dtype float32"),
        ([images.tolist()], [None], "numpy array"),
        ([images[:, :, ::2]], [None], "shape"),
        ([images], [np.zeros((10, 7), np.float32).T], "C-contiguous"),
        ([images], [locked], "read-only"),
    ]
    for inputs, outputs, text in cases:
        with pytest.raises(errors.ArgumentError, match=text):
            session.bind(inputs, outputs)


def test_an_output_has_memory_of_its_own() -> None:
    session = _prepared(1)
    memory = np.zeros(100, np.float32)
    source = memory[:64].reshape(1, 1, 8, 8)
    with pytest.raises(errors.ArgumentError, match="'logits': expected memory of its own"):
        session.bind([source], [memory[60:70].reshape(1, 10)])
    session.bind([source], [memory[64:74].reshape(1, 10)])
    session.forward()
    assert memory[64:74].any()
    # Right before it is beside it, too.
    logits, memory[10:74] = memory[64:74].copy(), memory[:64].copy()
    session.bind([memory[10:74].reshape(1, 1, 8, 8)], [memory[:10].reshape(1, 10)])
    session.forward()
    assert np.array_equal(memory[:10], logits)
    for start in (1, 10):
        with pytest.raises(errors.ArgumentError, match="'logits': expected memory of its own"):
            session.bind([memory[10:74].reshape(1, 1, 8, 8)], [memory[start : start + 10].reshape(1, 10)])


def test_a_run_by_name_leaves_what_is_bound(images: Array) -> None:
    session = _prepared(3)
    result = np.zeros((3, 10), np.float32)
    session.bind([images[:3]], [result])
    (logits,) = session.run({"image": images})
    assert np.array_equal(logits, _expected(images))
    assert session.planned[0] == [("image", "float32", [3, 1, 8, 8])]
    assert not result.any()
    session.forward()
    assert np.array_equal(result, logits[:3])


def test_a_resized_array_is_refused() -> None:
    session = _prepared(1)
    source, result = np.zeros((1, 1, 8, 8), np.float32), np.zeros((1, 10), np.float32)
    session.bind([source], [result])
    session.forward()
    result.resize((1 << 20, 10), refcheck=False)
    with pytest.raises(errors.ArgumentError, match="'logits': the array was resized"):
        session.forward()


def test_bound_arrays_stay_alive_and_are_let_go() -> None:
    session = _prepared(1)
    source, result = np.ones((1, 1, 8, 8), np.float32), np.zeros((1, 10), np.float32)
    counts = sys.getrefcount(source), sys.getrefcount(result)
    session.bind([source], [result])
    assert (sys.getrefcount(source), sys.getrefcount(result)) == (counts[0] + 1, counts[1] + 1)
    session.forward()
    session.prepare([(1, 1, 8, 8)])
    assert (sys.getrefcount(source), sys.getrefcount(result)) == counts


def test_two_threads_on_one_session(images: Array) -> None:
    session = _prepared(7)
    session.bind([images], [None])
    expected = _expected(images)
    wrong: list[str] = []

    def work() -> None:
        for _ in range(200):
            session.forward()
            if not np.array_equal(session.output(0), expected):
                wrong.append("a torn result")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def _float_model(tmp_path: Path) -> Path:
    """Return a float convolution of a megabyte of weights over images of any size."""
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    noise = np.random.default_rng(1).standard_normal((256, 128, 3, 3)).astype(np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    float32 = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [node],
        "float",
        [helper.make_tensor_value_info("x", float32, [1, 128, "H", "W"])],
        [helper.make_tensor_value_info("y", float32, [1, 256, "H", "W"])],
        [onnx.numpy_helper.from_array(noise, "w")],
    )
    path = tmp_path / "float.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


def test_shapes_and_sessions_share_packed_weights(tmp_path: Path) -> None:
    session = Session(_float_model(tmp_path))
    assert session.weight_bytes == 0
    session.prepare([(1, 128, 4, 4)])
    packed = session.weight_bytes
    assert packed >= 256 * 128 * 9 * 4
    session.prepare([(1, 128, 9, 7)])
    assert session.weight_bytes == packed
    assert session.plans == 2
    other = Session(sharing_weights=session)
    other.prepare([(1, 128, 4, 4)])
    assert other.weight_bytes == packed
    x = np.random.default_rng(2).standard_normal((1, 128, 9, 7)).astype(np.float32)
    sessions, results = [session, other], []
    del session
    while sessions:
        # The first one goes, its weights stay.
        each = sessions.pop(0)
        each.prepare([x.shape])
        each.bind([x], [None])
        each.forward()
        results.append(each.output(0))
    assert np.array_equal(*results)
    assert other.weight_bytes == packed


def test_model_or_session_to_share_with() -> None:
    session = _prepared(1)
    with pytest.raises(errors.ArgumentError, match="expected a path or bytes, or a session"):
        Session()
    for model in (None, DIGITS_INT8):
        assert Session(model, sharing_weights=session).planned[1] == [("logits", "float32", None)]


def test_sessions_that_share_scratch(images: Array) -> None:
    first = _prepared(1)
    second = Session(DIGITS_INT8, sharing_scratch=first)
    second.prepare([(7, 1, 8, 8)])
    assert first.scratch_bytes == second.scratch_bytes
    first.bind([images[:1]], [None])
    second.bind([images], [None])
    for session in (first, second, first):
        session.forward()
    # A result is the session's own: the other's runs do not touch it.
    assert np.array_equal(first.output(0), _expected(images[:1]))
    assert np.array_equal(second.output(0), _expected(images))


def test_running_at_once_in_shared_scratch_is_an_error(tmp_path: Path) -> None:
    path = _float_model(tmp_path)
    first = Session(path)
    sessions = [first, Session(path, sharing_scratch=first)]
    x = np.random.default_rng(3).standard_normal((1, 128, 40, 40)).astype(np.float32)
    for session in sessions:
        session.prepare([x.shape])
        session.bind([x], [None])
        session.forward()
    expected = first.output(0)
    refused: list[errors.InUseError] = []

    def work(session: Session) -> None:
        for _ in range(30):
            try:
                session.forward()
            except errors.InUseError as error:
                refused.append(error)
            else:
                assert np.array_equal(session.output(0), expected)

    threads = [threading.Thread(target=work, args=(session,)) for session in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert refused
    assert "another run is under way" in str(refused[0])


def test_plans_of_many_extents_are_kept(images: Array) -> None:
    session = Session(DIGITS_INT8)
    for count in range(1, 101):
        session.prepare([(count, 1, 8, 8)])
    assert session.plans == 100
    session.prepare([(7, 1, 8, 8)])
    session.bind([images], [None])
    session.forward()
    assert np.array_equal(session.output(0), _expected(images))


def test_trace_has_every_value(images: Array) -> None:
    onnx = pytest.importorskip("onnx")
    session = _prepared(7)
    session.bind([images], [None])
    session.forward()
    values = {name: (kind, operands, array) for name, kind, operands, array in session.trace()}
    nodes = onnx.load(DIGITS_INT8).graph.node
    assert list(values) == ["image", *(output for node in nodes for output in node.output)]
    kind, operands, array = values["image"]
    assert (kind, operands) == ("Input", [])
    assert np.array_equal(array, images)
    for node in nodes:
        assert values[node.output[0]][:2] == (node.op_type, list(node.input))
    # Single operators and fused ones round alike up to a step of the last quantization.
    assert np.abs(values["logits"][2] - session.output(0)).max() < 0.5
    session.prepare([(1, 1, 8, 8)])
    with pytest.raises(errors.ArgumentError, match="no arrays are bound"):
        session.trace()


def test_trace_of_a_float_network_is_exact(tmp_path: Path) -> None:
    session = Session(_float_model(tmp_path))
    x = np.random.default_rng(4).standard_normal((1, 128, 5, 5)).astype(np.float32)
    session.prepare([x.shape])
    session.bind([x], [None])
    session.forward()
    (_, source), (name, result) = ((name, array) for name, _, _, array in session.trace())
    assert name == "y"
    assert np.array_equal(source, x)
    assert np.array_equal(result, session.output(0))


def test_traces_of_other_data_and_shapes() -> None:
    """What a trace keeps for the next one is programs, not results."""
    session, rng = Session(DIGITS_INT8), np.random.default_rng(5)
    for count in (2, 2, 5, 2):
        images = rng.random((count, 1, 8, 8), np.float32)
        traces = []
        for traced in (session, Session(DIGITS_INT8)):
            traced.prepare([images.shape])
            traced.bind([images], [None])
            traces.append(traced.trace())
        for (name, *_, found), (_, *_, expected) in zip(*traces, strict=True):
            assert np.array_equal(found, expected), name


def test_outline(images: Array) -> None:
    session = Session(DIGITS_INT8)
    with pytest.raises(errors.ArgumentError, match="prepare first"):
        session.outline()
    for count in (7, 3):
        session.prepare([(count, 1, 8, 8)])
        nodes, values = session.outline()
        assert values["image"] == ("float32", [count, 1, 8, 8], False)
        assert values["logits"][1] == [count, 10]
        made = {"image", *(name for name, (_, _, constant) in values.items() if constant)}
        for _, _, operands, results, _ in nodes:
            assert made.issuperset(operands), "operands are made before they are read"
            made.update(results)
        assert made == set(values)
        convolutions = [node for node in nodes if node[1] == "Conv"]
        assert convolutions
        for _, _, operands, (result, *_), operations in convolutions:
            assert operations == 2 * math.prod(values[result][1]) * math.prod(values[operands[1]][1][1:])
    session.bind([images[:3].copy()], [None])
    session.profile(True)
    session.forward()
    names = {name for name, *_ in nodes}
    assert {name for name, _, _ in session.operator_times()} <= names | {"outputs"}


def test_operator_times(images: Array) -> None:
    session = _prepared(7)
    session.bind([images], [None])
    session.forward()
    assert session.operator_times() == []
    session.profile(True)
    assert session.operator_times() == []
    session.forward()
    times = session.operator_times()
    assert [(name, kind) for name, kind, _ in times] == [each[:2] for each in session.memory_plan()["operators"]]
    assert all(0 <= seconds < 10 for _, _, seconds in times)
    assert sum(seconds for _, _, seconds in times) > 0
    assert np.array_equal(session.output(0), _expected(images))
    session.profile(False)
    session.forward()
    assert session.operator_times() == []


def test_memory_plan(images: Array) -> None:
    session = Session(DIGITS_INT8)
    with pytest.raises(errors.ArgumentError, match="call prepare first"):
        session.memory_plan()
    session.prepare([(7, 1, 8, 8)])
    plan = session.memory_plan()
    assert plan["inputs"] == [("image", images.nbytes)]
    assert plan["outputs"] == [("logits", 280)]
    assert plan["weights"] > 0
    commands = plan["operators"][-1][3]
    for index, (offset, size, first, last) in enumerate(plan["buffers"]):
        assert offset + size <= plan["bytes"]
        assert 0 <= first < last <= commands
        for other_offset, other_size, other_first, other_last in plan["buffers"][:index]:
            apart = offset + size <= other_offset or other_offset + other_size <= offset
            assert apart or last <= other_first or other_last <= first
    assert plan["lower_bound"] <= plan["bytes"] <= session.scratch_bytes


def test_without_fusion(images: Array) -> None:
    plain = Session(DIGITS_INT8, fusion=False)
    plain.prepare([images.shape])
    plain.bind([images], [None])
    plain.forward()
    assert np.abs(plain.output(0) - _expected(images)).max() < 0.5
    fused = _prepared(7)
    assert len(plain.memory_plan()["operators"]) > len(fused.memory_plan()["operators"])


MGE = Path(os.environ.get("TRIUNE_TEST_DATA", Path(__file__).parents[2] / "shared")) / "models" / "mge"


@pytest.mark.skipif(not MGE.is_dir(), reason="no MegEngine models; set TRIUNE_TEST_DATA")
def test_megengine_models_have_default_shapes() -> None:
    session = Session(MGE / "simple_add.mge")
    shapes = {name: shape for name, _, shape in session.planned[0]}
    with np.load(MGE / "simple_add.npz") as data:
        arrays = {name: np.ascontiguousarray(data[f"in:{name}"]) for name in shapes}
        expected = data["out:0"]
    assert {name: list(array.shape) for name, array in arrays.items()} == shapes
    session.bind(list(arrays.values()), [None])
    session.forward()
    assert np.allclose(session.output(0), expected)


@pytest.mark.parametrize("device", ["metis", "zg330", "host"])
def test_a_device_gives_the_results_of_the_host(images: Array, device: str) -> None:
    session = Session(DIGITS_INT8, device=device)
    session.prepare([images.shape])
    session.bind([images], [None])
    session.forward()
    assert np.array_equal(session.output(0), _expected(images))
    timeline = session.timeline()
    assert (timeline is None) == (device == "host")
    if timeline is not None:
        assert timeline.device == device
        assert timeline.cycles > 0


def test_devices_that_do_not_fit(tmp_path: Path) -> None:
    with pytest.raises(errors.ArgumentError, match="nothing"):
        Session(DIGITS_INT8, device="nothing")
    session = Session(_float_model(tmp_path), device="metis")
    with pytest.raises(errors.NotQuantizedError, match="no 8-bit operators"):
        session.prepare([(1, 128, 4, 4)])
