"""Milliseconds of LSTM, GRU and RNN in Triune and in ONNX Runtime, measured in turns, as a Markdown table.

    python benches/python/bench_recurrent.py [--threads 1 2] [--seconds 1]

Rounds alternate between the two, so that a machine that changes its clock changes it for both, and ONNX Runtime's threads do
not spin while it waits; the ratio is the median of the rounds' ratios, Triune's time over ONNX Runtime's.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import onnx
from bench_operators import peer

import triune

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
ROUNDS = 15


class Shape(NamedTuple):
    """What a node runs over."""

    op: str
    steps: int
    batch: int
    inputs: int
    hidden: int
    direction: str = "forward"


SHAPES = [
    Shape("LSTM", 100, 1, 64, 128),
    Shape("LSTM", 100, 1, 64, 128, "bidirectional"),
    Shape("LSTM", 50, 8, 256, 256),
    Shape("LSTM", 25, 32, 128, 256),
    Shape("LSTM", 30, 1, 512, 512),
    Shape("GRU", 100, 1, 64, 128),
    Shape("GRU", 50, 8, 256, 256, "bidirectional"),
    Shape("RNN", 100, 1, 64, 128),
    Shape("RNN", 50, 8, 256, 256),
]


def model(shape: Shape) -> bytes:
    """Return a file with one node whose weights are known."""
    rng = np.random.default_rng(1)
    directions = 2 if shape.direction == "bidirectional" else 1
    rows = GATES[shape.op] * shape.hidden

    def weights(name: str, *dims: int) -> onnx.TensorProto:
        values = rng.uniform(-1, 1, dims) / np.sqrt(shape.hidden)
        return onnx.numpy_helper.from_array(values.astype(np.float32), name)

    helper = onnx.helper
    node = helper.make_node(shape.op, list("XWRB"), ["Y", "Y_h"], hidden_size=shape.hidden, direction=shape.direction)
    graph = helper.make_graph(
        [node],
        shape.op,
        [helper.make_tensor_value_info("X", 1, [shape.steps, shape.batch, shape.inputs])],
        [helper.make_tensor_value_info(name, 1, None) for name in ("Y", "Y_h")],
        [
            weights("W", directions, rows, shape.inputs),
            weights("R", directions, rows, shape.hidden),
            weights("B", directions, 2 * rows),
        ],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(made.SerializeToString())


def milliseconds(run: Callable[[], Any], seconds: float) -> float:
    """Return the time of one run, over as many as fit."""
    runs, start = 0, time.perf_counter()
    while (spent := time.perf_counter() - start) < seconds:
        run()
        runs += 1
    return spent / runs * 1000


def row(shape: Shape, threads: int, seconds: float) -> str:
    """Measure one line of the table."""
    file = model(shape)
    other = peer(file, threads)
    own = triune.Session(file, threads=threads)
    rng = np.random.default_rng(2)
    feeds = {"X": rng.uniform(-1, 1, (shape.steps, shape.batch, shape.inputs)).astype(np.float32)}
    pairs = zip(own.run(feeds), other.run(None, feeds), strict=True)
    difference = max(float(np.abs(np.asarray(mine) - theirs).max()) for mine, theirs in pairs)
    ours, theirs = [], []
    for _ in range(ROUNDS):
        ours.append(milliseconds(lambda: own.run(feeds), seconds / ROUNDS))
        theirs.append(milliseconds(lambda: other.run(None, feeds), seconds / ROUNDS))
    ratio = statistics.median(mine / its for mine, its in zip(ours, theirs, strict=True))
    name = f"{shape.op} T={shape.steps} B={shape.batch} I={shape.inputs} H={shape.hidden} {shape.direction}"
    mine, its = statistics.median(ours), statistics.median(theirs)
    return f"| {name} | {threads} | {mine:.3f} | {its:.3f} | {ratio:.2f} | {difference:.1e} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--seconds", type=float, default=1.0, help="per row and runtime")
    arguments = parser.parse_args()
    print("| node | threads | Triune ms | ONNX Runtime ms | ratio | largest difference |")
    print("|---|---|---|---|---|---|")
    for shape in SHAPES:
        for threads in arguments.threads:
            print(row(shape, threads, arguments.seconds), flush=True)


if __name__ == "__main__":
    main()
