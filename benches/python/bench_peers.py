"""Images per second of Triune, ONNX Runtime and, where it is installed, OpenVINO on the same models, as a Markdown table.

    python benches/python/bench_peers.py [FILE OR FOLDER ...] [--threads 1 2] [--batch 1 8] [--least]

All are measured in turns, with as many threads, none of which spins; the ratio is Triune's rate over that of the fastest
other. Without arguments it takes the embedded network and the models of the test data folder (TRIUNE_TEST_DATA, or the folder
`shared` beside the checkout). Each row warms the runtimes up and then lets them take turns for several rounds, so that
a machine that changes its clock changes it for all. A model whose batch is fixed gets the rows of that batch only.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

import triune
from triune.cli.peers import PEERS, Side
from triune.models import DIGITS_F32, DIGITS_INT8

PEER_NAMES = list(PEERS) if importlib.util.find_spec("openvino") else ["onnxruntime"]
ROOT = Path(__file__).resolve().parents[2]
Feeds = dict[str, npt.NDArray[Any]]
NUMPY = {"tensor(float)": np.float32, "tensor(uint8)": np.uint8, "tensor(int8)": np.int8, "tensor(int64)": np.int64}


@dataclass(frozen=True)
class Row:
    """One line of the table; rates are images per second, one per round."""

    model: str
    threads: int
    batch: int
    ours: list[float]
    theirs: list[list[float]]
    difference: float

    def __str__(self) -> str:
        best = [max(rates) for rates in zip(*self.theirs, strict=True)]
        ratios = [mine / peer for mine, peer in zip(self.ours, best, strict=True)]
        rates = " | ".join(f"{statistics.median(rates):,.1f}" for rates in (self.ours, *self.theirs))
        same = "equal bits" if self.difference == 0 else f"{self.difference:.1e}"
        return (
            f"| {self.model} | {self.threads} | {self.batch} | {rates} "
            f"| {statistics.median(ratios):.2f} | {min(ratios):.2f} | {same} |"
        )


def feeds(session: ort.InferenceSession, batch: int) -> Feeds | None:
    """Return seeded random inputs of that batch size, or None when the model's batch is another one."""
    rng = np.random.default_rng(0)
    found: Feeds = {}
    for value in session.get_inputs():
        first, *rest = value.shape
        if isinstance(first, int) and first != batch:
            return None
        if not all(isinstance(extent, int) for extent in rest):
            return None
        array = rng.random((batch, *rest), dtype=np.float32)
        dtype = NUMPY[value.type]
        found[value.name] = array if dtype is np.float32 else (array * 100).astype(dtype)
    return found


def rate(run: Callable[[], object], images: int, seconds: float, least: bool) -> float:
    """Return images per second of `run`, called for `seconds` at least: of all calls, or of the fastest."""
    run()
    calls, fastest = 0, float("inf")
    start = before = time.perf_counter()
    while (elapsed := before - start) < seconds:
        run()
        calls += 1
        after = time.perf_counter()
        fastest, before = min(fastest, after - before), after
    return images / fastest if least else calls * images / elapsed


def described(path: Path) -> ort.InferenceSession:
    """Load a model for what it says of its inputs."""
    options = ort.SessionOptions()
    options.log_severity_level = 3
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def difference(ours: list[npt.NDArray[Any]], theirs: list[npt.NDArray[Any]]) -> float:
    """Return the largest absolute difference over all outputs."""
    pairs = zip(ours, theirs, strict=True)
    return max(float(np.abs(a.astype(np.float64) - b.astype(np.float64)).max(initial=0)) for a, b in pairs)


def rows(path: Path, arguments: argparse.Namespace) -> Iterator[Row]:
    """Measure one model with every number of threads and every batch size that it takes."""
    inputs = described(path)
    for threads in arguments.threads:
        mine = triune.Session(path, threads=threads)
        for batch in arguments.batch:
            data = feeds(inputs, batch)
            if data is None:
                continue
            sides = [Side(partial(mine.run, data)), *(PEERS[name](path, threads, data) for name in PEER_NAMES)]
            apart = difference(sides[0].run(), sides[1].run())
            rates: list[list[float]] = [[] for _ in sides]
            for turn in range(arguments.rounds):
                order = list(zip(rates, sides, strict=True))
                for own, side in order if turn % 2 == 0 else reversed(order):
                    own.append(rate(side.run, batch * side.batches, arguments.seconds, arguments.least))
            yield Row(path.stem, threads, batch, rates[0], rates[1:], apart)


def models(chosen: list[Path]) -> list[Path]:
    """Return the ONNX files that the arguments name."""
    if not chosen:
        data = Path(os.environ.get("TRIUNE_TEST_DATA") or ROOT.parent / "shared")
        chosen = [DIGITS_INT8, DIGITS_F32, data / "models" / "onnx"]
    return [
        file for path in chosen for file in (sorted(path.glob("*.onnx")) if path.is_dir() else [path]) if file.exists()
    ]


def main() -> int:
    """Print the table; a model that fails becomes a row that says why, and the exit status 1."""
    parser = argparse.ArgumentParser(description="Compare images per second with other runtimes.")
    parser.add_argument("models", nargs="*", type=Path, help="ONNX files or folders of them")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--batch", nargs="+", type=int, default=[1, 8])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.4, help="length of one turn")
    parser.add_argument("--least", action="store_true", help="rates of the fastest call: for machines that others use")
    arguments = parser.parse_args()

    print(f"Triune {triune.__version__}, ONNX Runtime {ort.__version__}, {os.cpu_count()} CPUs\n")
    names = " | ".join(f"{name} /s" for name in ("Triune", *PEER_NAMES))
    print(f"| model | threads | batch | {names} | ratio | worst round | max difference |")
    print("|" + "---|" * (7 + len(PEER_NAMES)))
    failed = False
    for path in models(arguments.models):
        try:
            for row in rows(path, arguments):
                print(row, flush=True)
        except Exception as error:
            print(f"| {path.stem} | failed: {error} |||||||", flush=True)
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
