"""Microseconds of single operators in Triune and in ONNX Runtime, measured in turns, as a Markdown table.

    python benches/python/bench_operators.py [--family WORD ...] [--match WORD] [--threads 1 2] [--over 1.5] [--clock cpu]

Rounds alternate between the two, who begins as well, and ONNX Runtime's threads do not spin while it waits, so that neither
has the other's load; where others use the machine, `--clock cpu` counts the process's own time instead of the wall's. The
table has the least and the median of each one's rounds; ratios are Triune's time over ONNX Runtime's, of the leasts and of
the medians. What only one of them runs has no ratio, but says who does not, and why.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import onnxruntime as ort
from operator_cases import Array, Case, cases

import triune


class Row(NamedTuple):
    """One measured case; microseconds per round."""

    case: Case
    threads: int
    ours: list[float]
    theirs: list[float]
    difference: float

    @property
    def ratio(self) -> float:
        """The least of ours over the least of theirs."""
        return min(self.ours) / min(self.theirs)

    def __str__(self) -> str:
        medians = [statistics.median(rounds) for rounds in (self.ours, self.theirs)]
        same = "equal bits" if self.difference == 0 else f"{self.difference:.0e}"
        return (
            f"| {self.case.family} | {self.case.name} | {self.threads} | {min(self.ours):,.1f} | {min(self.theirs):,.1f} "
            f"| {self.ratio:.2f} | {medians[0]:,.1f} | {medians[1]:,.1f} | {medians[0] / medians[1]:.2f} | {same} |"
        )


def peer(model: bytes, threads: int) -> ort.InferenceSession:
    """Load a model in ONNX Runtime; its threads sleep while they wait."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    for entry in ("session.intra_op.allow_spinning", "session.inter_op.allow_spinning"):
        options.add_session_config_entry(entry, "0")
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def microseconds(run: Callable[[], Any], runs: int, clock: Callable[[], float]) -> float:
    """Return the time of one run out of `runs`."""
    start = clock()
    for _ in range(runs):
        run()
    return (clock() - start) / runs * 1e6


def runs_in(run: Callable[[], Any], seconds: float, clock: Callable[[], float]) -> int:
    """Return how many runs take so long, one at least; runs a few to warm up."""
    run()
    return max(1, int(seconds * 1e6 / microseconds(run, 2, clock)))


def difference(ours: list[Any], theirs: list[Any]) -> float:
    """Return the largest absolute difference over all outputs; infinite where types or shapes differ, or only one has a NaN."""

    def of(mine: Array, other: Array) -> float:
        if mine.dtype != other.dtype or mine.shape != other.shape:
            return float("inf")
        a, b = mine.astype(np.float64), other.astype(np.float64)
        if (np.isnan(a) != np.isnan(b)).any():
            return float("inf")
        apart = (a != b) & ~np.isnan(a)
        return float(np.abs(a[apart] - b[apart]).max(initial=0))

    return max(of(np.asarray(mine), np.asarray(other)) for mine, other in zip(ours, theirs, strict=True))


def measured(case: Case, threads: int, rounds: int, seconds: float, clock: Callable[[], float]) -> Row | str:
    """Return the row of a case, or why it has none."""
    refused = {}
    try:
        other = peer(case.model, threads)
        theirs = other.run(None, dict(case.feeds))
    except Exception as error:
        refused["ONNX Runtime"] = error
    try:
        own = triune.Session(case.model, threads=threads)
        mine = own.run(case.feeds)
    except triune.errors.Error as error:
        refused["Triune"] = error
    if refused:
        reasons = "; ".join(f"{who}: {' '.join(str(error).split())[:160]}" for who, error in refused.items())
        return f"| {case.family} | {case.name} | {threads} | {reasons} |||||||"
    sides: list[tuple[list[float], Callable[[], Any], int]] = []
    for run in (lambda: own.run(case.feeds), lambda: other.run(None, case.feeds)):
        sides.append(([], run, runs_in(run, seconds, clock)))
    for turn in range(rounds):
        for times, run, runs in sides if turn % 2 == 0 else reversed(sides):
            times.append(microseconds(run, runs, clock))
    return Row(case, threads, sides[0][0], sides[1][0], difference(mine, theirs))


def main() -> int:
    """Print the table, then each family's ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", nargs="+", default=[], help="only families with one of these in their name")
    parser.add_argument("--match", default="", help="only cases with this in their name")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.03, help="length of one turn, one run at least (0.03)")
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="what times are of (wall)")
    parser.add_argument("--over", type=float, default=0.0, help="print only rows whose ratio of leasts is above this")
    arguments = parser.parse_args()
    print(f"Triune {triune.__version__}, ONNX Runtime {ort.__version__}, {os.cpu_count()} CPUs\n")
    print(
        "| family | case | threads | Triune µs | ONNX Runtime µs | ratio | Triune median | its median | ratio | difference |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    families: dict[tuple[str, int], list[float]] = {}
    for case in cases():
        if arguments.match not in case.name or not any(word in case.family for word in arguments.family or [""]):
            continue
        for threads in arguments.threads:
            row = measured(case, threads, arguments.rounds, arguments.seconds, CLOCKS[arguments.clock])
            if isinstance(row, Row):
                families.setdefault((case.family, threads), []).append(row.ratio)
            if isinstance(row, str) or row.ratio > arguments.over:
                print(row, flush=True)
    print("\n| family | threads | cases | geometric mean | worst | over 1.5 |\n|---|---|---|---|---|---|")
    for (family, threads), ratios in families.items():
        slow = sum(ratio > 1.5 for ratio in ratios)
        mean = statistics.geometric_mean(ratios)
        print(f"| {family} | {threads} | {len(ratios)} | {mean:.2f} | {max(ratios):.2f} | {slow} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
