"""Any ONNX files: do they load, how far are the results from ONNX Runtime's, how long does a run take, as a Markdown table.

    python benches/python/bench_models.py FOLDER_OR_FILE ... [--threads 1 2] [--shapes shapes.json] [--clock cpu]

Inputs are random, of seed 0. Open axes get 1 if they are the first, 224 for images, 64 otherwise; `shapes.json` says otherwise by
file name and input, with extents or a number: `{"vad.onnx": {"input": [1, 512], "sr": 16000}}`. Rounds alternate between the
two, whose threads sleep while they wait; times are the least of all rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from bench_operators import CLOCKS, microseconds, peer, runs_in

import triune

DTYPES = {
    "tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64, "tensor(int64)": np.int64,
    "tensor(int32)": np.int32, "tensor(uint8)": np.uint8, "tensor(int8)": np.int8, "tensor(bool)": np.bool_,
}  # fmt: skip


def feeds(session: ort.InferenceSession, given: dict[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """Return inputs by name; whole numbers are small, so that they can be places in a table."""
    rng = np.random.default_rng(0)
    found = {}
    for value in session.get_inputs():
        dtype = DTYPES[value.type]
        chosen = given.get(value.name)
        if isinstance(chosen, int | float):
            found[value.name] = np.full(
                [extent if isinstance(extent, int) else 1 for extent in value.shape], chosen, dtype
            )
            continue
        image = len(value.shape) == 4
        shape = chosen or [
            extent if isinstance(extent, int) and extent > 0 else 1 if axis == 0 else 224 if image else 64
            for axis, extent in enumerate(value.shape)
        ]
        real = np.issubdtype(dtype, np.floating)
        array = (
            rng.uniform(-1, 1, shape) if real else np.ones(shape) if dtype is np.bool_ else rng.integers(0, 20, shape)
        )
        found[value.name] = np.asarray(array).astype(dtype)
    return found


def apart(ours: list[Any], theirs: list[Any]) -> str:
    """Return the largest difference over all outputs, and its share of the largest element."""
    worst, share = 0.0, 0.0
    for mine, other in zip(ours, theirs, strict=True):
        a, b = np.asarray(mine), np.asarray(other)
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{a.dtype} {a.shape} for {b.dtype} {b.shape}"
        if a.size == 0 or np.array_equal(a, b, equal_nan=a.dtype.kind == "f"):
            continue
        x, y = a.astype(np.float64), b.astype(np.float64)
        difference = float(np.nanmax(np.abs(x - y)))
        worst = max(worst, difference)
        share = max(share, difference / max(float(np.nanmax(np.abs(y))), 1e-30))
    return f"{worst:.1e} ({share:.0e} of the largest)" if worst else "equal bits"


def row(
    path: Path, threads: int, given: dict[str, Any], rounds: int, seconds: float, clock: Callable[[], float]
) -> str:
    """Measure one model."""
    other = peer(str(path), threads)
    data = feeds(other, given)
    theirs = other.run(None, data)
    try:
        own = triune.Session(path, threads=threads)
        ours = own.run(data)
    except triune.errors.Error as error:
        return f"| {path.parent.name}/{path.name} | {threads} | refused: {' '.join(str(error).split())[:150]} | | | |"
    runs = (lambda: own.run(data), lambda: other.run(None, data))
    sides = [(run, runs_in(run, seconds, clock)) for run in runs]
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(rounds):
        for side in (0, 1) if turn % 2 == 0 else (1, 0):
            times[side].append(microseconds(*sides[side], clock))
    mine, peers = min(times[0]), min(times[1])
    name = f"{path.parent.name}/{path.name}"
    return (
        f"| {name} | {threads} | {mine / 1000:.3f} | {peers / 1000:.3f} | {mine / peers:.2f} | {apart(ours, theirs)} |"
    )


def main() -> int:
    """Print the table; 1 if a model could not be compared."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path, help="ONNX files, or folders of them at any depth")
    parser.add_argument("--threads", nargs="+", type=int, default=[1])
    parser.add_argument("--shapes", type=Path, help="a JSON file of extents and numbers by file and input")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.1, help="length of one turn, one run at least (0.1)")
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="cpu: the process's own time")
    arguments = parser.parse_args()
    given = json.loads(arguments.shapes.read_text()) if arguments.shapes else {}
    print(f"Triune {triune.__version__}, ONNX Runtime {ort.__version__}, {os.cpu_count()} CPUs\n")
    print("| model | threads | Triune ms | ONNX Runtime ms | ratio | largest difference |\n|---|---|---|---|---|---|")
    failed = False
    for path in arguments.models:
        for file in sorted(path.rglob("*.onnx")) if path.is_dir() else [path]:
            for threads in arguments.threads:
                try:
                    shapes, clock = given.get(file.name, {}), CLOCKS[arguments.clock]
                    line = row(file, threads, shapes, arguments.rounds, arguments.seconds, clock)
                except Exception as error:
                    line = f"| {file.parent.name}/{file.name} | {threads} | failed: {' '.join(str(error).split())[:150]} | | | |"
                failed |= "refused: " in line or "failed: " in line
                print(line, flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
