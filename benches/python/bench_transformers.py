"""Transformers in Triune and in ONNX Runtime: values, time, memory, and decoding with a cache that grows, as Markdown tables.

    python benches/python/bench_transformers.py [--match WORD ...] [--threads 1 2] [--clock wall] [--small]

Differences are shares of the largest element of each result; those from float64 are both sides' to the same network in primitive
operators, computed by ONNX's reference. Rounds alternate between the two, whose threads sleep while they wait; times are the
least of all rounds. `--clock cpu` counts the processor time of all threads, for machines that others use. Memory is the most that
a process of its own has while it opens a file and runs it twice, beyond what it has before; the time to the first result, opening
included, is that process's, too. Where a network decodes, the last column has the milliseconds of a token when each run has the
caches of the one before, so that every run has other extents.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from transformer_models import Model, models
from transformer_parts import Array, Feeds, Sizes

import triune

CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}


class Erf(OpRun):
    """The error function in float64; the reference's own is float32's."""

    def _run(self, x: Array) -> tuple[Array]:
        return (np.asarray(np.frompyfunc(math.erf, 1, 1)(x), x.dtype),)


def peer(model: bytes | str, threads: int) -> ort.InferenceSession:
    """Open a model in ONNX Runtime; its threads sleep while they wait."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    for entry in ("session.intra_op.allow_spinning", "session.inter_op.allow_spinning"):
        options.add_session_config_entry(entry, "0")
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def exact(made: Model, sizes: Sizes, feeds: Feeds) -> list[Array]:
    """Return the results in float64."""
    wide = {name: array.astype(np.float64) if array.dtype.kind == "f" else array for name, array in feeds.items()}
    evaluator = ReferenceEvaluator(onnx.load_from_string(made.reference(sizes)), new_ops=[Erf])
    return [np.asarray(value) for value in evaluator.run(None, wide)]


def apart(ours: list[Array], theirs: list[Array]) -> float:
    """Return the largest difference, as a share of the largest element of its result; infinite where shapes or types differ."""
    worst = 0.0
    for mine, other in zip(ours, theirs, strict=True):
        if mine.shape != other.shape:
            return math.inf
        a, b = mine.astype(np.float64), other.astype(np.float64)
        if not np.isfinite(a).all():
            return math.inf
        worst = max(worst, float(np.abs(a - b).max(initial=0)) / max(float(np.abs(b).max(initial=0)), 1e-30))
    return worst


def leasts(sides: list[Callable[[], Any]], clock: Callable[[], float], rounds: int, seconds: float) -> list[float]:
    """Return the least milliseconds of a run of each side, who take turns."""
    counts, found = [], [math.inf] * len(sides)
    for run in sides:
        run()
        start = time.perf_counter()
        run()
        counts.append(max(1, int(seconds / (time.perf_counter() - start))))
    for turn in range(rounds):
        order = range(len(sides)) if turn % 2 == 0 else reversed(range(len(sides)))
        for side in order:
            for _ in range(counts[side]):
                start = clock()
                sides[side]()
                found[side] = min(found[side], (clock() - start) * 1000)
    return found


def decoded(run: Callable[[Feeds], list[Array]], names: list[str], feeds: Feeds, count: int) -> list[list[Array]]:
    """Return the results of so many runs, each of which takes the caches of the one before."""
    results = []
    for _ in range(count):
        found = run(feeds)
        results.append(found)
        given = dict(zip(names, found, strict=True))
        feeds = {name: given.get(name.replace("past", "present"), array) for name, array in feeds.items()}
    return results


ALONE = """
import json, sys, time
import numpy as np

def peak():
    # Not getrusage, which has the most of the process that this one was forked from.
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024

who, path, inputs, threads = sys.argv[1:]
feeds = dict(np.load(inputs))
if who == "triune":
    import triune
else:
    import onnxruntime
before = peak()
began = time.process_time()
if who == "triune":
    session = triune.Session(path, threads=int(threads))
    run = lambda: session.run(feeds)
else:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(threads)
    options.log_severity_level = 4
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    run = lambda: session.run(None, feeds)
run()
first = time.process_time() - began
run()
print(json.dumps([peak() - before, first * 1000]))
"""


def alone(who: str, path: Path, inputs: Path) -> list[float]:
    """Return the megabytes that a file takes and the milliseconds to its first result, in a process of its own."""
    command = [sys.executable, "-c", ALONE, who, str(path), str(inputs), "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [float(value) for value in json.loads(done.stdout)]


def values_row(made: Model, sizes: Sizes, file: bytes, feeds: Feeds) -> str:
    """Compare values, memory and the time to the first result."""
    theirs = [np.asarray(value) for value in peer(file, 1).run(None, feeds)]
    try:
        ours = [np.asarray(value) for value in triune.Session(file, threads=1).run(feeds)]
    except triune.errors.Error as error:
        return f"| {made.name} | refused: {' '.join(str(error).split())[:160]} | | | | |"
    truth = exact(made, sizes, feeds)
    with tempfile.TemporaryDirectory() as folder:
        path, inputs = Path(folder, "model.onnx"), Path(folder, "inputs.npz")
        path.write_bytes(file)
        np.savez(inputs, **dict[str, Any](feeds))
        mine, other = (alone(who, path, inputs) for who in ("triune", "onnxruntime"))
    return (
        f"| {made.name} | {apart(ours, theirs):.1e} | {apart(ours, truth):.1e}, {apart(theirs, truth):.1e} "
        f"| {len(file) / 2**20:.0f} | {mine[0]:.0f}, {other[0]:.0f} | {mine[1]:,.0f}, {other[1]:,.0f} |"
    )


def time_row(made: Model, file: bytes, feeds: Feeds, threads: int, options: argparse.Namespace) -> str:
    """Compare times; of decoders also those of tokens that follow one another."""
    clock = CLOCKS[options.clock]
    other = peer(file, threads)
    try:
        own = triune.Session(file, threads=threads)
        own.run(feeds)
    except triune.errors.Error:
        return f"| {made.name} | {threads} | refused | | | |"
    mine, theirs = leasts(
        [lambda: own.run(feeds), lambda: other.run(None, feeds)], clock, options.rounds, options.seconds
    )
    tokens = ""
    if made.decodes:
        names, found, results = [info.name for info in own.outputs], [], []
        for run in (lambda feeds: own.run(feeds), lambda feeds: other.run(None, feeds)):
            start = clock()
            results.append(decoded(run, names, feeds, options.tokens))
            found.append((clock() - start) * 1000 / options.tokens)
        worst = max(apart(one, two) for one, two in zip(*results, strict=True))
        tokens = f"{found[0]:.1f}, {found[1]:.1f} ({found[0] / found[1]:.2f}), apart {worst:.0e}"
    return f"| {made.name} | {threads} | {mine:.2f} | {theirs:.2f} | {mine / theirs:.2f} | {tokens} |"


def main() -> int:
    """Print both tables; 1 if a network was refused."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--match", nargs="+", default=[""], help="only networks with one of these in their name")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.2, help="length of one turn, one run at least (0.2)")
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="what is counted (wall)")
    parser.add_argument(
        "--tokens", type=int, default=16, help="runs that follow one another where a network decodes (16)"
    )
    parser.add_argument("--small", action="store_true", help="the sizes that tests have")
    parser.add_argument("--only", choices=("values", "times"), help="one of the tables")
    options = parser.parse_args()
    print(
        f"Triune {triune.__version__}, ONNX Runtime {ort.__version__}, {os.cpu_count()} CPUs; Triune's figure first\n"
    )
    chosen = [made for made in models() if any(word in made.name for word in options.match)]
    refused = False
    if options.only != "times":
        print(
            "| network | difference | from float64 | file MB | memory MB | first result, CPU ms |\n|---|---|---|---|---|---|"
        )
        for made in chosen:
            sizes = made.small if options.small else made.sizes
            line = values_row(made, sizes, made.file(sizes), made.inputs(sizes))
            refused |= "refused: " in line
            print(line, flush=True)
    if options.only != "values":
        print(
            f"\n| network | threads | Triune ms ({options.clock}) | ONNX Runtime ms | ratio | a token, ms, and the ratio |"
        )
        print("|---|---|---|---|---|---|")
        for made in chosen:
            sizes = made.small if options.small else made.sizes
            file, feeds = made.file(sizes), made.inputs(sizes)
            for threads in options.threads:
                print(time_row(made, file, feeds, threads, options), flush=True)
    return int(refused)


if __name__ == "__main__":
    sys.exit(main())
