"""`triune._native.Network`: arrays bound once, read and written in place by every run."""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import triune
from triune import errors
from triune._native import Network
from triune.models import DIGITS_INT8, digits_held_out

Array = npt.NDArray[np.float32]


@pytest.fixture
def images() -> Array:
    """Return some scans, NCHW."""
    return np.ascontiguousarray(digits_held_out()[0][:7].transpose(0, 3, 1, 2))


def _expected(images: Array) -> Array:
    (result,) = triune.Session(DIGITS_INT8).run({"image": images})
    return result


def _prepared(count: int) -> Network:
    network = Network(DIGITS_INT8)
    assert network.prepare([(count, 1, 8, 8)]) == [[count, 10]]
    return network


def test_open_extents_wait_for_prepare() -> None:
    network = Network(DIGITS_INT8.read_bytes())
    assert network.inputs == [("image", "float32", None)]
    assert network.outputs == [("logits", "float32", None)]
    with pytest.raises(errors.ArgumentError, match="call prepare first"):
        network.bind([np.zeros((1, 1, 8, 8), np.float32)], [None])
    assert network.prepare([(2, 1, 8, 8)]) == [[2, 10]]
    assert network.inputs == [("image", "float32", [2, 1, 8, 8])]
    assert network.outputs == [("logits", "float32", [2, 10])]


def test_reads_and_writes_in_place(images: Array) -> None:
    network = _prepared(3)
    source, result = images[:3].copy(), np.zeros((3, 10), np.float32)
    network.bind([source], [result])
    for start in (0, 3, 4):
        source[:] = images[start : start + 3]
        network.forward()
        assert np.array_equal(result, _expected(source))


def test_results_without_an_array(images: Array) -> None:
    network = _prepared(7)
    network.bind([images], [None])
    with pytest.raises(errors.ArgumentError, match="'logits': no result"):
        network.output(0)
    network.forward()
    first = network.output(0)
    assert np.array_equal(first, _expected(images))
    images[:] = 0
    network.forward()
    assert not np.array_equal(first, network.output(0))
    with pytest.raises(errors.ArgumentError, match="index: expected less than 1, got 1"):
        network.output(1)
    result = np.zeros((7, 10), np.float32)
    network.bind([images], [result])
    network.forward()
    with pytest.raises(errors.ArgumentError, match="no result"):
        network.output(0)


def test_another_plan_lets_arrays_go(images: Array) -> None:
    network = _prepared(7)
    network.bind([images], [None])
    network.prepare([(2, 1, 8, 8)])
    with pytest.raises(errors.ArgumentError, match="no arrays are bound"):
        network.forward()
    with pytest.raises(errors.ArgumentError, match=r"'image': expected shape \(2, 1, 8, 8\), got \(7, 1, 8, 8\)"):
        network.bind([images], [None])
    network.bind([images[:2]], [None])
    network.forward()
    assert np.array_equal(network.output(0), _expected(images[:2]))


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
    network = _prepared(1)
    with pytest.raises(errors.ArgumentError, match=text):
        network.prepare(shapes)
    # What was planned stays.
    assert network.outputs == [("logits", "float32", [1, 10])]


def test_arrays_that_do_not_fit(images: Array) -> None:
    network = _prepared(7)
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
            network.bind(inputs, outputs)


def test_an_output_has_memory_of_its_own() -> None:
    network = _prepared(1)
    memory = np.zeros(100, np.float32)
    source = memory[:64].reshape(1, 1, 8, 8)
    with pytest.raises(errors.ArgumentError, match="'logits': expected memory of its own"):
        network.bind([source], [memory[60:70].reshape(1, 10)])
    network.bind([source], [memory[64:74].reshape(1, 10)])
    network.forward()
    assert memory[64:74].any()


def test_a_resized_array_is_refused() -> None:
    network = _prepared(1)
    source, result = np.zeros((1, 1, 8, 8), np.float32), np.zeros((1, 10), np.float32)
    network.bind([source], [result])
    network.forward()
    result.resize((1 << 20, 10), refcheck=False)
    with pytest.raises(errors.ArgumentError, match="'logits': the array was resized"):
        network.forward()


def test_bound_arrays_stay_alive_and_are_let_go() -> None:
    network = _prepared(1)
    source, result = np.ones((1, 1, 8, 8), np.float32), np.zeros((1, 10), np.float32)
    counts = sys.getrefcount(source), sys.getrefcount(result)
    network.bind([source], [result])
    assert (sys.getrefcount(source), sys.getrefcount(result)) == (counts[0] + 1, counts[1] + 1)
    network.forward()
    network.prepare([(1, 1, 8, 8)])
    assert (sys.getrefcount(source), sys.getrefcount(result)) == counts


def test_two_threads_on_one_network(images: Array) -> None:
    network = _prepared(7)
    network.bind([images], [None])
    expected = _expected(images)
    wrong: list[str] = []

    def work() -> None:
        for _ in range(200):
            network.forward()
            if not np.array_equal(network.output(0), expected):
                wrong.append("a torn result")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
