"""Transformers as exporters and optimizers write them, beside ONNX Runtime and ONNX's reference in float64.

The networks are those of benches/python/bench_transformers.py, in small.
"""

from __future__ import annotations

import importlib
import logging
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import triune

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

BENCHES = next(
    (parent / "benches" / "python" for parent in Path(__file__).parents if (parent / "benches" / "python").is_dir()),
    None,
)
if BENCHES is None:
    pytest.skip("the benchmarks, whose networks these tests use, are not here", allow_module_level=True)
sys.path.insert(0, str(BENCHES))
try:
    bench = importlib.import_module("bench_transformers")
finally:
    sys.path.remove(str(BENCHES))

MODELS = {made.name: made for made in bench.models()}

LIMIT = 2e-6
"""Share of a result's largest element that two ways to compute it in float32 may be apart."""
HALF = 2e-3
"""The same where ONNX Runtime rounds to float16 behind every operator."""
STEPS = 2e-2
"""The same where reals are rounded to bytes by their range: one that lies between two steps goes either way."""


def limit(made: Any) -> float:
    """Return how far a network's results may be from ONNX Runtime's."""
    return HALF if made.dtype is np.float16 else STEPS if made.quantized else LIMIT


def model(made: Any) -> bytes:
    """Return the file of a small network; the quantizer's advice to optimize it first is not wanted."""
    logging.disable(logging.WARNING)
    try:
        return bytes(made.file(made.small))
    finally:
        logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", MODELS)
def test_results_are_those_of_onnx_runtime_and_of_float64(name: str) -> None:
    made = MODELS[name]
    file, feeds = model(made), made.inputs(made.small)
    ours = triune.Session(file, threads=1).run(feeds)
    theirs = bench.peer(file, 1).run(None, feeds)
    assert [mine.dtype for mine in ours] == [other.dtype for other in theirs]
    assert bench.apart(ours, theirs) < limit(made)
    if not made.quantized:
        with np.errstate(all="ignore"):
            truth = bench.exact(made, made.small, feeds)
        assert bench.apart(ours, truth) < limit(made)


@pytest.mark.parametrize("name", MODELS)
def test_bits_are_the_same_for_any_number_of_threads(name: str) -> None:
    made = MODELS[name]
    file, feeds = model(made), made.inputs(made.small)
    one, two = (triune.Session(file, threads=threads).run(feeds) for threads in (1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize("name", [name for name, made in MODELS.items() if made.decodes])
def test_tokens_follow_one_another(name: str) -> None:
    made = MODELS[name]
    file, feeds = model(made), made.inputs(made.small)
    session, peer = triune.Session(file, threads=1), bench.peer(file, 1)
    names = [info.name for info in session.outputs]
    ours = bench.decoded(lambda given: session.run(given), names, feeds, 6)
    theirs = bench.decoded(lambda given: peer.run(None, given), names, feeds, 6)
    lengths = [dict(zip(names, found, strict=True))["present_0_key"].shape[2] for found in ours]
    assert lengths == list(range(made.small.past + 1, made.small.past + 7))
    for mine, other in zip(ours, theirs, strict=True):
        assert bench.apart(mine, other) < limit(made)


def test_other_lengths_take_the_same_session() -> None:
    made = MODELS["BERT, operators"]
    file = model(made)
    session, peer = triune.Session(file, threads=1), bench.peer(file, 1)
    for tokens in (13, 1, 8, 13):
        feeds = made.inputs(made.small._replace(tokens=tokens))
        assert bench.apart(session.run(feeds), peer.run(None, feeds)) < LIMIT


def test_the_measure_sees_what_differs() -> None:
    one = np.array([1.0, -4.0], np.float32)
    assert bench.apart([one], [one]) == 0
    assert bench.apart([one + np.float32([0, 0.04])], [one]) == pytest.approx(0.01, rel=1e-3)
    assert bench.apart([one[:1]], [one]) == np.inf
    assert bench.apart([np.float32([np.nan, 1])], [one]) == np.inf
