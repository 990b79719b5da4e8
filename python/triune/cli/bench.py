"""``triune bench``: how fast a model runs on this machine's CPU."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from triune._kinds import MODEL, require
from triune._text import nearest
from triune.cli.arguments import named_shape, nonnegative, positive, seconds
from triune.cli.peers import PEERS, Side
from triune.cli.progress import Progress

_PERCENTILES = (50, 90, 99)

_TURNS = 5
"""Each side runs so many times in turn, so that a machine that changes its clock changes it for both."""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "bench",
        help="measure a model on this machine's CPU",
        description="Measure runs of a model on this machine's CPU, on random inputs (strings are empty): images per second, "
        "and the time of a run by percentiles. Modelled time of packages is what triune profile shows.",
    )
    parser.add_argument("model", metavar="MODEL", type=Path, help="an .onnx or .mge file")
    parser.add_argument(
        "--threads",
        metavar="N",
        type=nonnegative,
        nargs="+",
        default=[1],
        help="of a run; 0 for every CPU (default: 1)",
    )
    parser.add_argument(
        "--batch", metavar="N", type=positive, nargs="+", help="of a run, where the model leaves it open (default: 1)"
    )
    parser.add_argument(
        "--shape",
        metavar="NAME=N,N,...",
        type=named_shape,
        action="append",
        default=[],
        help="an input's extents, once per input; open ones that are not given are --batch in front, else 1",
    )
    parser.add_argument("--seconds", metavar="S", type=seconds, default=2.0, help="to measure for (default: 2)")
    parser.add_argument(
        "--against",
        metavar="NAME,...",
        type=_peers,
        default=[],
        help=f"measure other runtimes in turns, without spinning threads: {', '.join(PEERS)}",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("-v", "--verbose", action="store_true", help="show progress even if this is no terminal")
    parser.set_defaults(command=_run)


def _peers(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in PEERS:
            raise argparse.ArgumentTypeError(f"unknown runtime {name!r}{nearest(name, PEERS, 'there are')}")
    return names


def _run(options: argparse.Namespace) -> int:
    from triune import Session
    from triune._native import OPTIMIZED
    from triune.cli.inspect import shapes_of

    require(options.model, MODEL, "bench")
    if not OPTIMIZED:
        print(
            "triune: compiled without optimisation, so that times say nothing; make build compiles for speed",
            file=sys.stderr,
        )
    rows: list[dict[str, Any]] = []
    with Progress(verbose=options.verbose) as progress:
        for threads in options.threads:
            session = Session(options.model, threads=threads)
            for info in session.inputs:
                if info.kind not in ("tensor", "strings"):
                    raise ValueError(
                        f"input {info.name!r} is of kind {info.kind!r}, for which there is nothing random; measure "
                        "triune.Session.run with one of your own"
                    )
            for batch in options.batch or [1]:
                progress(f"{threads} threads, batch {batch}")
                shapes = shapes_of(session.inputs, dict(options.shape), batch, exact=bool(options.batch))
                feeds = _random(session, shapes)
                sides = {"triune": Side(partial(session.run, feeds))}
                sides |= {name: PEERS[name](options.model, threads, feeds) for name in options.against}
                times = _measure({name: side.run for name, side in sides.items()}, options.seconds)
                found = [
                    {"runtime": name, "threads": threads, "batch": batch} | _summary(times[name], batch * side.batches)
                    for name, side in sides.items()
                ]
                if options.against:
                    ours, *others = (row["images_per_second"] for row in found)
                    found[0]["ratio"] = round(ours / max(others), 3)
                rows += found
    print(json.dumps(rows, indent=1) if options.json else _table(rows))
    return 0


def _random(session: Any, shapes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    import numpy as np

    random = np.random.default_rng(0)
    feeds = {}
    for info in session.inputs:
        if info.kind == "strings":
            feeds[info.name] = np.full(shapes[info.name], "", object)
            continue
        dtype, shape = np.dtype(info.dtype), shapes[info.name]
        if dtype.kind == "f":
            feeds[info.name] = random.random(shape, np.float32).astype(dtype)
        else:
            # Indices that most tables have, and pixels.
            top = {"b": 2, "u": 256}.get(dtype.kind, 2)
            feeds[info.name] = random.integers(0, top, shape).astype(dtype)
    return feeds


def _measure(runs: dict[str, Callable[[], object]], seconds: float) -> dict[str, list[float]]:
    """Return the seconds of each run of each side."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()
    for turn in range(_TURNS):
        for name in runs if turn % 2 == 0 else reversed(runs):
            end = time.perf_counter() + seconds / _TURNS
            while True:
                start = time.perf_counter()
                runs[name]()
                now = time.perf_counter()
                times[name].append(now - start)
                if now >= end:
                    break
    return times


def _summary(times: list[float], batch: int) -> dict[str, Any]:
    import numpy as np

    found = np.array(times) * 1e3
    percentiles = {f"p{each}_ms": round(float(np.percentile(found, each)), 4) for each in _PERCENTILES}
    return {
        "runs": len(times),
        "images_per_second": round(batch * len(times) / sum(times), 3),
        "mean_ms": round(float(found.mean()), 4),
        "min_ms": round(float(found.min()), 4),
        **percentiles,
        "max_ms": round(float(found.max()), 4),
    }


def _table(rows: list[dict[str, Any]]) -> str:
    names = [name for name in rows[0] if name != "ratio"] + (["ratio"] if any("ratio" in row for row in rows) else [])
    cells = [names, *([_cell(name, row.get(name, "")) for name in names] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ("  ".join(f"{cell:>{width}}" for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells)
    return "\n".join(lines)


def _cell(name: str, value: Any) -> str:
    if name == "images_per_second":
        return f"{value:,.1f}"
    return f"{value:.3f}" if isinstance(value, float) else str(value)
