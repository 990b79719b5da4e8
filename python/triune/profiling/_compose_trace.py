"""Chrome trace JSON of several programs on one device: a track per core and direction of the link, and counters.

Counters change at whole nanoseconds, and come from the runs that ended: when those are done, nothing is left.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path

from triune.profiling._compose import Composition, Run
from triune.profiling._model import Span
from triune.profiling._trace import PROCESS, Event, names, write_events

LINK = ("link in", "link out")


def write_trace(composition: Composition, path: Path) -> None:
    """Write the trace."""
    about = {"device": composition.device, "nanoseconds": composition.nanoseconds}
    tracks = [*(f"core {core}" for core in range(len(composition.core_busy))), *LINK]
    named = names(composition.device, enumerate(tracks, 1))
    write_events(path, about, itertools.chain(named, _slices(composition), _counters(composition)))


def _slices(composition: Composition) -> Iterator[Event]:
    link = len(composition.core_busy) + 1
    for number, run in enumerate(composition.runs):
        instance = composition.instances[run.instance]
        places = [(core + 1, run.compute) for core in instance.cores]
        for thread, (start, end) in [*places, (link, run.input), (link + 1, run.output)]:
            if end == start:
                continue
            yield {
                "ph": "X",
                "pid": PROCESS,
                "tid": thread,
                "name": instance.name,
                "cat": "core" if thread < link else "link",
                "ts": start / 1000,
                "dur": (end - start) / 1000,
                "args": {"run": number, "start_ns": start, "end_ns": end, "queued_ns": run.queued},
            }


def _counters(composition: Composition) -> Iterator[Event]:
    runs, instances = composition.runs, composition.instances

    def counter(name: str, series: str, steps: Iterable[tuple[int, float]]) -> Iterator[Event]:
        for time, value in steps:
            yield {"ph": "C", "pid": PROCESS, "name": name, "ts": time / 1000, "args": {series: value}}

    cores = ((run.compute, len(instances[run.instance].cores)) for run in runs)
    yield from counter("cores at work", "cores", _sums(_there_and_gone(cores)))
    waiting = ((span, 1) for run in runs for span in _waiting(run))
    yield from counter("runs waiting", "runs", _sums(_there_and_gone(waiting)))
    sides = (
        [(run.input, instances[run.instance].input_bytes) for run in runs],
        [(run.output, instances[run.instance].output_bytes) for run in runs],
    )
    for name, moved in zip(LINK, sides, strict=True):
        yield from counter(f"{name} GB/s", "rate", _rates(moved))
    done: dict[str, list[tuple[int, int]]] = {instance.program: [] for instance in instances}
    for run in runs:
        instance = instances[run.instance]
        done[instance.program].append((run.output[1], instance.images))
    for program, images in done.items():
        yield from counter(f"images done: {program}", "images", _sums(images))


def _waiting(run: Run) -> list[Span]:
    """Return when a run has been called and is neither on the link nor on its cores: with the host, or in a queue."""
    return [(run.queued, run.input[0]), (run.input[1], run.compute[0]), (run.compute[1], run.output[0])]


def _there_and_gone(spans: Iterable[tuple[Span, int]]) -> Iterator[tuple[int, int]]:
    for (start, end), count in spans:
        yield start, count
        yield end, -count


def _sums(changes: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return what changes add up to, from 0 on, at every time that it becomes something else."""
    by_time: dict[int, int] = {0: 0}
    for time, change in changes:
        by_time[time] = by_time.get(time, 0) + change
    found = [(0, by_time.pop(0))]
    for time in sorted(by_time):
        if by_time[time]:
            found.append((time, found[-1][1] + by_time[time]))
    return found


def _rates(moved: Iterable[tuple[Span, int | None]]) -> list[tuple[int, float]]:
    """Return the rate of transfers that follow each other in bytes per nanosecond; nothing if their bytes are not known."""
    found: dict[int, float] = {}
    for (start, end), size in sorted(moved, key=lambda each: each[0]):
        if size is not None and end > start:
            found[start] = round(size / (end - start), 6)
            found[end] = 0
    return sorted(({0: 0.0} | found).items()) if found else []
