"""Convolutions with few results, which are computed tap by tap, against sums of float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import triune

onnx = pytest.importorskip("onnx")

Array = npt.NDArray[Any]


def session(nodes: list[Any], x: Array, known: dict[str, Array]) -> triune.Session:
    helper = onnx.helper
    graph = helper.make_graph(
        nodes,
        "few",
        [helper.make_tensor_value_info("x", 1, x.shape)],
        [helper.make_tensor_value_info("y", 1, None)],
        [onnx.numpy_helper.from_array(value, name) for name, value in known.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    return triune.Session(model.SerializeToString())


def convolved(x: Array, w: Array, b: Array, pads: tuple[int, ...], dilations: tuple[int, int]) -> Array:
    (top, left, bottom, right), (down, across) = pads, dilations
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (top, bottom), (left, right)))
    kh, kw = w.shape[2:]
    rows, columns = padded.shape[2] - (kh - 1) * down, padded.shape[3] - (kw - 1) * across
    y = np.zeros((x.shape[0], w.shape[0], rows, columns)) + b[:, None, None]
    for i in range(kh):
        for j in range(kw):
            seen = padded[:, :, i * down : i * down + rows, j * across : j * across + columns]
            y += np.einsum("nchw,oc->nohw", seen, w[:, :, i, j].astype(np.float64))
    return y


CASES = [
    # images, channels, height, width, results, kernel, pads, dilations
    (1, 64, 20, 24, 1, (3, 3), (1, 1, 1, 1), (1, 1)),
    (2, 32, 9, 17, 3, (3, 3), (0, 0, 0, 0), (1, 1)),
    (1, 40, 12, 7, 2, (3, 5), (2, 0, 1, 4), (1, 1)),
    (1, 40, 30, 31, 4, (3, 3), (2, 2, 2, 2), (2, 2)),
    (3, 64, 1, 100, 1, (1, 7), (0, 3, 0, 3), (1, 1)),
    (1, 64, 5, 5, 2, (5, 5), (4, 4, 4, 4), (1, 1)),
    (1, 36, 2, 3, 1, (6, 6), (9, 9, 9, 9), (1, 1)),
    # More than a band's rows.
    (1, 32, 300, 70, 3, (3, 3), (1, 1, 1, 1), (1, 1)),
    # More products than channels: computed as others are.
    (1, 16, 10, 10, 4, (3, 3), (1, 1, 1, 1), (1, 1)),
]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("behind", [False, True], ids=["planes", "channels last"])
def test_few_results_are_sums_of_taps(case: tuple[Any, ...], behind: bool) -> None:
    images, channels, height, width, results, kernel, pads, dilations = case
    helper = onnx.helper
    rng = np.random.default_rng(1)
    x = rng.standard_normal((images, channels, height, width)).astype(np.float32)
    w = rng.standard_normal((results, channels, *kernel)).astype(np.float32)
    b = rng.standard_normal(results).astype(np.float32)
    known = {"w": w, "b": b}
    conv = helper.make_node(
        "Conv", ["m" if behind else "x", "w", "b"], ["c"], pads=list(pads), dilations=list(dilations)
    )
    nodes, seen = [conv, helper.make_node("Relu", ["c"], ["y"])], x
    if behind:
        mixing = rng.standard_normal((channels, channels, 1, 1)).astype(np.float32)
        known["mixing"] = mixing
        nodes = [helper.make_node("Conv", ["x", "mixing"], ["m"]), *nodes]
        (seen,) = session([helper.make_node("Conv", ["x", "mixing"], ["y"])], x, {"mixing": mixing}).run(None, {"x": x})
    expected = np.maximum(convolved(seen, w, b, pads, dilations), 0)
    run = session(nodes, x, known)
    (y,) = run.run(None, {"x": x})
    assert y.shape == expected.shape
    bound = np.abs(seen).max() * np.abs(w).sum(axis=(1, 2, 3)).max() * 2e-7
    np.testing.assert_allclose(y, expected, rtol=0, atol=bound)
    taps = kernel[0] * kernel[1] * results
    names = [command.name for command in run.plan().parts[0].commands]
    assert ("reduce" in names) == (taps <= channels)


@pytest.mark.parametrize("threads", [1, 2])
def test_bits_do_not_depend_on_threads(threads: int) -> None:
    rng = np.random.default_rng(2)
    x = rng.standard_normal((1, 32, 200, 90)).astype(np.float32)
    w = rng.standard_normal((2, 32, 3, 3)).astype(np.float32)
    node = onnx.helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    own = session([node], x, {"w": w})
    (expected,) = own.run(None, {"x": x})
    (y,) = own.clone(threads=threads).run(None, {"x": x})
    np.testing.assert_array_equal(y, expected)
