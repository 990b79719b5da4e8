"""Load, first forward and steady forward of models in MegEngine Lite's API, as a Markdown table.

    python benches/python/bench_lite.py [FILE OR FOLDER ...] [--threads 1] [--loads 4] [--processes 5]

Without arguments it takes the MegEngine models of the test data folder (TRIUNE_TEST_DATA, or the folder `shared` beside the
checkout). Each model is measured in several processes, which have nothing else: one load and forward as they come first in a
process, then some more. Inputs are set by copy before the first forward. Times are compared within the process: a load
with reading the file into fresh memory, a first forward with the steady ones behind it. The table has medians.

Where a file `<model>.npz` lies beside a model, with arrays `in:<name>` and `out:<index>`, the table has the largest difference
from these outputs, relative to the output's largest magnitude.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import triune
from triune.megenginelite import LiteNetwork

ROOT = Path(__file__).resolve().parents[2]
STEADY_SECONDS = 0.1


def timed(run: Any, *arguments: Any) -> float:
    """Return the milliseconds that one call takes."""
    start = time.perf_counter()
    run(*arguments)
    return (time.perf_counter() - start) * 1e3


def once(path: Path, threads: int) -> tuple[float, float, float]:
    """Load a model and run it; return the milliseconds of the load, the first forward, and the median of those behind it."""
    network = LiteNetwork()
    network.threads_number = threads
    load = timed(network.load, path)
    rng = np.random.default_rng(0)
    for name in network.get_all_input_name() or []:
        tensor = network.get_io_tensor(name)
        value = tensor.to_numpy()
        tensor.set_data_by_copy((rng.random(value.shape) * 2).astype(value.dtype))

    def forward() -> None:
        network.forward()
        network.wait()

    first = timed(forward)
    steady = []
    end = time.perf_counter() + STEADY_SECONDS
    while time.perf_counter() < end or len(steady) < 5:
        steady.append(timed(forward))
    return load, first, statistics.median(steady)


def difference(path: Path) -> float:
    """Return how far the outputs are from those in the file beside the model, NaN if there is none."""
    results = path.with_suffix(".npz")
    if not results.exists():
        return float("nan")
    network = LiteNetwork()
    network.load(path)
    with np.load(results) as data:
        for name in data.files:
            if name.startswith("in:"):
                network.get_io_tensor(name[3:]).set_data_by_copy(data[name])
        network.forward()
        network.wait()
        most = 0.0
        for index, name in enumerate(network.get_all_output_name() or []):
            expected = data[f"out:{index}"].astype(np.float64)
            found = network.get_io_tensor(name).to_numpy()
            most = max(most, float(np.abs(found - expected).max() / max(np.abs(expected).max(), 1e-30)))
    return most


def measure(path: Path, threads: int, loads: int) -> dict[str, float]:
    """Return the figures of one model; to be called first in a process."""
    load, first, steady = once(path, threads)
    rows = []
    reads = []
    for _ in range(loads):
        rows.append(once(path, threads))
        reads.append(timed(path.read_bytes))
    return {
        "process_load": load,
        "process_first": first / steady,
        "load": statistics.median(row[0] for row in rows),
        "load / read": statistics.median(row[0] for row in rows) / statistics.median(reads),
        "first": statistics.median(row[1] / row[2] for row in rows),
        "steady": statistics.median(row[2] for row in rows),
        "error": difference(path),
    }


def models(chosen: list[Path]) -> list[Path]:
    """Return the model files that the arguments name."""
    if not chosen:
        chosen = [Path(os.environ.get("TRIUNE_TEST_DATA") or ROOT.parent / "shared") / "models" / "mge"]
    found = [file for path in chosen for file in (sorted(path.glob("*.mge")) if path.is_dir() else [path])]
    return [file for file in found if file.exists()]


def main() -> int:
    """Print the table; a model that fails becomes a row that says why, and the exit status 1."""
    parser = argparse.ArgumentParser(description="Measure load and forward in MegEngine Lite's API.")
    parser.add_argument("models", nargs="*", type=Path, help="model files or folders of them")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--loads", type=int, default=4, help="per process, besides the first")
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(measure(arguments.models[0], arguments.threads, arguments.loads)))
        return 0

    print(f"Triune {triune.__version__}, {os.cpu_count()} CPUs, {arguments.threads} threads\n")
    print(
        "| model | MB | load ms | first in the process | load / read | first forward / steady | in the process "
        "| steady ms | error |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    failed = False
    for path in models(arguments.models):
        options = [path, "--child", f"--threads={arguments.threads}", f"--loads={arguments.loads}"]
        runs: list[dict[str, float]] = []
        for _ in range(arguments.processes):
            child = subprocess.run([sys.executable, __file__, *options], capture_output=True, text=True, check=False)
            if child.returncode:
                print(f"| {path.stem} | failed: {child.stderr.strip().splitlines()[-1]} ||||||||", flush=True)
                failed = True
                break
            runs.append(json.loads(child.stdout))
        else:
            found = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
            print(
                f"| {path.stem} | {path.stat().st_size / 1e6:.2f} | {found['load']:.2f} | {found['process_load']:.2f} "
                f"| {found['load / read']:.2f} | {found['first']:.2f} | {found['process_first']:.2f} "
                f"| {found['steady']:.4f} | {found['error']:.1e} |",
                flush=True,
            )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
