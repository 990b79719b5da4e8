"""Random models of one operator, of every version and type, on Triune beside ONNX Runtime and ONNX's reference.

    python tests/models/differential/run.py [--cases 100000] [--match WORD] [--seed 0] [--jobs 2] [--list KIND ...]
    python tests/models/differential/run.py --show "Pad-19 T=float16 7"

The first prints what became of them, by cause; it ends with 1 if a difference or a crash is not explained. The second runs one
case again and shows it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable

from judging import Entry, Outcome, Refused, called, drawn, entries, judged, sample, summary
from known import explanation


def name_of(entry: Entry, turn: int) -> str:
    """Return by what a case is asked for again; its seed follows from it."""
    of = f"{entry.parameter}={entry.type.kind}({entry.type.name.lower()})" if entry.parameter else "-"
    return f"{called(entry.schema)}-{entry.schema.since_version} {of} {turn}"


def outcome(entry: Entry, turn: int, stage: Callable[[str], None] = lambda who: None) -> Outcome | None:
    """Return what became of a case, None where its seed has no model."""
    try:
        made = drawn(entry, name_of(entry, turn))
    except Refused:
        return None
    except Exception as error:
        return Outcome("crash", "recipe", f"{type(error).__name__}: {error}")
    return judged(made, stage)


def cases(match: str, turns: int, seed: int) -> list[tuple[Entry, int]]:
    """Return every version and type `turns` times, or one type of each version where `turns` is 0."""
    all_of = entries(match)
    if turns == 0:
        return [(entry, seed) for entry in sample(all_of, seed)]
    return [(entry, seed + turn) for turn in range(turns) for entry in all_of]


def work(match: str, first: int, step: int, turns: int, start: int, seed: int) -> None:
    """Run every `step`-th case from `first` on, behind the first `start`, and print lines before, within and behind each."""

    def said(what: object) -> None:
        print(json.dumps(what), flush=True)

    for index, (entry, turn) in enumerate(cases(match, turns, seed)[first::step][start:], start):
        said([index, name_of(entry, turn)])
        said(outcome(entry, turn, said))


Found = tuple[str, Outcome]
LONGEST = 120
"""Seconds that a case may take, on a machine that has other work as well."""


def supervise(match: str, job: int, jobs: int, turns: int, seed: int, found: list[Found]) -> None:
    """Keep a worker at work; a case that it dies of, or hangs in, is a crash."""
    start = 0
    while True:
        command = [
            sys.executable,
            __file__,
            "--match",
            match,
            "--seed",
            str(seed),
            "--work",
            f"{job},{jobs},{turns},{start}",
        ]
        heard, running, who = [time.monotonic()], "", ""
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as worker:
            assert worker.stdout is not None
            threading.Thread(target=watch, args=(worker, heard), daemon=True).start()
            for line in worker.stdout:
                heard[0] = time.monotonic()
                read = json.loads(line)
                if isinstance(read, str):
                    who = read
                elif read is not None and isinstance(read[0], int):
                    start, running, who = read[0] + 1, read[1], "recipe"
                else:
                    if read is not None:
                        found.append((running, Outcome(*read)))
                    running = ""
        if worker.returncode == 0:
            return
        print(f"{running or 'no case'}: {who} ended the process with {worker.returncode}", file=sys.stderr, flush=True)
        if not running:
            raise RuntimeError(f"the worker ended with {worker.returncode} before any case; try --jobs 0 to see why")
        reason = f"ended the process with {worker.returncode}, or ran for {LONGEST} s"
        found.append((running, Outcome("crash", who, reason)))


def watch(worker: subprocess.Popen[str], heard: list[float]) -> None:
    """End a worker that is silent for too long."""
    while worker.poll() is None:
        time.sleep(1)
        if time.monotonic() - heard[0] > LONGEST:
            worker.kill()


def report(found: list[Found], shown: list[str], reasons: int) -> int:
    """Print what became of the cases; return how many are not explained."""
    kinds = ("equal", "within", "differ", "refused", "alone", "none", "crash")
    print(f"{len(found)} cases\n\n| judge | " + " | ".join(kinds) + " |\n|---|" + "---|" * len(kinds))
    counts = Counter((result.judge or "nobody", result.kind) for _, result in found)
    for judge in dict.fromkeys(judge for judge, _ in sorted(counts)):
        print(f"| {judge} | " + " | ".join(str(counts[judge, kind]) for kind in kinds) + " |")
    unexplained = 0
    for kind in ("crash", "differ", "refused", "alone", "none"):
        groups: dict[str, list[str]] = defaultdict(list)
        for name, result in found:
            if result.kind == kind:
                operator = name.split("-")[0]
                # What is said of the file is not the operator's.
                operator = "any" if result.reason.startswith("not an ONNX model") else operator
                why = explanation(name, result)
                if kind in ("crash", "differ") and why is None:
                    unexplained += 1
                judge = f" [{result.judge}]" if kind in ("differ", "crash", "refused") else ""
                group = why or f"{operator}: {summary(result.reason)}{judge}"
                groups[("explained: " if why else "") + group].append(name)
        print(f"\n{kind}: {sum(map(len, groups.values()))}")
        listed = sorted(groups.items(), key=lambda item: -len(item[1]))
        for group, names in listed[: reasons if kind in ("alone", "none") else None]:
            print(f"{len(names):6} {group}   e.g. {names[0]!r}")
            if kind in shown:
                print("".join(f"         {name}\n" for name in names), end="")
    return unexplained


def show(name: str) -> None:
    """Print a case, its model and both sides' results."""
    import numpy as np
    import onnx
    from judging import by_onnxruntime, by_reference

    import triune

    operator, _, turn = name.rsplit(" ", 2)
    for entry in entries(operator.split("-")[0]):
        if name_of(entry, int(turn)) == name:
            break
    else:
        raise SystemExit(f"no case is called {name!r}")
    made = drawn(entry, name)
    np.set_printoptions(threshold=60, linewidth=150)
    print(onnx.printer.to_text(onnx.load_from_string(made.model)))
    for feeds in made.feeds:
        print({key: (value, getattr(value, "shape", "")) for key, value in feeds.items()})
    for who, peer in (("ONNX Runtime", by_onnxruntime(made)), ("reference", by_reference(made))):
        print(who, peer.results if peer.results is not None else peer.reason)
    try:
        session = triune.Session(made.model)
        print("Triune", [session.run(feeds) for feeds in made.feeds])
    except BaseException as error:
        print("Triune", type(error).__name__, error)
    print(judged(made))


def main() -> int:
    """Run what the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=20_000, help="about so many (20000); 0: one type of each version")
    parser.add_argument("--match", default="", help="only operators with this in their name")
    parser.add_argument("--seed", type=int, default=0, help="the number of the first round over all versions and types")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2); 0: this one")
    parser.add_argument("--list", nargs="+", default=[], help="kinds whose cases are named one by one")
    parser.add_argument("--reasons", type=int, default=40, help="so many of the reasons why nobody judges (40)")
    parser.add_argument("--show", help="a case by name")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.show:
        show(options.show)
        return 0
    if options.work:
        first, step, turns, start = map(int, options.work.split(","))
        work(options.match, first, step, turns, start, options.seed)
        return 0
    began = time.perf_counter()
    all_of = entries(options.match)
    if not all_of:
        parser.error(f"--match: no operator has {options.match!r} in its name")
    turns = round(options.cases / len(all_of))
    found: list[Found] = []
    if options.jobs == 0:
        for entry, turn in cases(options.match, turns, options.seed):
            result = outcome(entry, turn)
            if result is not None:
                found.append((name_of(entry, turn), result))
    else:
        threads = [
            threading.Thread(target=supervise, args=(options.match, job, options.jobs, turns, options.seed, found))
            for job in range(options.jobs)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    unexplained = report(found, options.list, options.reasons)
    print(f"\n{unexplained} not explained; {time.perf_counter() - began:.0f} s")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
