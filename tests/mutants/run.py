"""A sample of small faults: which do the tests notice?

``make mutants`` draws SAMPLE faults by SEED, evenly over CRATES and, within each, over the kinds of change, and plants all of
them into one copy of the checkout under target/mutants/tree, where ``TRIUNE_MUTANT=17`` switches the 17th on: there is one build.
Each test is run once, to see which places it reaches; then each fault is switched on for the tests that reach it: those of Rust,
of its own crate first, and at last, where none of them fails, those of Python. A test that fails with a fault is run once more
without, twice if need be, and counts only if it passes then; one that does not is named and asked no more.

The table at the end says per crate how many were noticed; the rest are listed, as they come in target/mutants/survivors.txt too,
and all in target/mutants/report.json. left_out.toml says what is never planted, and why.

Where it is root, it runs in a mount namespace of its own, with devices that no fault can replace: that takes CAP_SYS_ADMIN.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from mutant_faults import CRATES, Fault, listed, order, rules, shares
from mutant_tree import Tree
from mutant_trials import PYTHON, RUST, Trials, in_parallel

ROOT = Path(__file__).resolve().parent.parent.parent
DEVICES = [f"/dev/{name}" for name in ("full", "null", "random", "tty", "urandom", "zero")]
"""What tests read and write that root could replace for the whole machine."""
GUARD = """
for each in %s; do
    mount --bind $each $each && mount -o remount,bind,ro $each || exit 1
done
exec "$@"
"""
BEGAN = time.monotonic()


def say(text: str) -> None:
    """Print with the time since the beginning."""
    print(f"{(time.monotonic() - BEGAN) / 60:5.1f} min  {text}", flush=True)


def is_guarded() -> bool:
    """Say whether this is within the namespace of `guarded`."""
    return set(DEVICES) <= {line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()}


def guarded(command: list[str]) -> list[str]:
    """Return a command for root in which no fault can put a file in a device's place: what is mounted on cannot be replaced."""
    inside = ["sh", "-c", GUARD % " ".join(DEVICES), "sh", *command]
    return ["unshare", "--mount", "--propagation", "private", *inside]


def drawn(tree: Tree, crates: list[str], count: int, seed: int) -> tuple[list[Fault], int]:
    """Plant a sample of faults that compile; the copy may hold some more. Return it, and the highest number in the copy."""
    leave_out = rules()
    ordered: dict[str, list[Fault]] = {crate: [] for crate in crates}
    for fault in listed([tree.root / "crates" / crate for crate in crates], tree.work / "lister"):
        if not any(rule.fits(fault) for rule in leave_out):
            ordered[fault.crate].append(fault)
    say(f"{sum(map(len, ordered.values()))} faults can be planted")
    for crate in crates:
        ordered[crate] = order(ordered[crate], seed)
    share = shares(crates, count)
    # Some do not compile, so there are more than asked for.
    taken = {crate: share[crate] + share[crate] // 3 + 2 * (share[crate] > 0) for crate in crates}
    good: list[Fault] = []
    number = 0
    fresh = [fault for crate in crates for fault in ordered[crate][: taken[crate]]]
    while fresh:
        for fault in fresh:
            number += 1
            fault.number = number
        good = tree.compiles(good + fresh, say)
        fresh = []
        for crate in crates:
            short = share[crate] - sum(fault.crate == crate for fault in good)
            if short > 0:
                fresh += ordered[crate][taken[crate] : taken[crate] + 2 * short]
                taken[crate] += 2 * short
    by_place = {id(fault): at for crate in crates for at, fault in enumerate(ordered[crate])}
    sample = []
    for crate in crates:
        of_crate = sorted((fault for fault in good if fault.crate == crate), key=lambda each: by_place[id(each)])
        sample += of_crate[: share[crate]]
    return sample, number


def tell(sample: list[Fault], crates: list[str]) -> int:
    """Print what was noticed; return how many in a hundred."""
    rows: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    kinds: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for fault in sample:
        column = 2 if fault.noticed is None else int(fault.noticed.startswith("pytest "))
        for row in (rows[fault.crate], rows["all"], kinds[fault.kind]):
            row[column] += 1
    for table, names in ((rows, [*crates, "all"]), (kinds, sorted(kinds))):
        print()
        print(f"{'':16} {'Rust':>5} {'Python':>7} {'no test':>8} {'of':>5}")
        for name in names:
            by_rust, by_python, not_noticed = table[name]
            print(f"{name:16} {by_rust:5} {by_python:7} {not_noticed:8} {sum(table[name]):5}")
    by_rust, by_python, _ = rows["all"]
    print(f"\nnoticed: {by_rust + by_python} of {len(sample)}. Not noticed:")
    for fault in sample:
        if fault.noticed is None:
            print(told(fault))
    return 100 * (by_rust + by_python) // max(len(sample), 1)


def told(fault: Fault) -> str:
    """Return the line of a fault that nothing noticed."""
    rust, python = fault.reached
    reached = f"reached by {rust} Rust and {python} Python tests" if rust or python else "not reached"
    return f"{fault.number:4} {fault.name} ({', '.join(filter(None, [reached, fault.why_not]))})"


def main() -> int:
    """Draw, plant, build, test, tell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sample", type=int, default=100, help="how many faults (100)")
    parser.add_argument("--seed", type=int, default=1, help="which ones (1)")
    parser.add_argument("--crates", default=" ".join(CRATES), help="of which crates, with spaces between (all)")
    parser.add_argument("--least", type=int, default=90, help="per cent that must be noticed (90)")
    parser.add_argument("--no-python", action="store_true", help="leave pytest out")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="tests at a time (as there are processors)"
    )
    parser.add_argument("--list", action="store_true", help="draw, and print what was drawn")
    options = parser.parse_args()
    if os.geteuid() == 0 and not is_guarded():
        again = guarded([sys.executable, *sys.argv])
        os.execvp(again[0], again)
    # As Ctrl-C does: what runs is ended, too. A shell's background ignores Ctrl-C, which tests of Ctrl-C would inherit.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    crates = options.crates.split()
    if unknown := set(crates) - set(CRATES):
        parser.error(f"no faults are drawn of {', '.join(sorted(unknown))}: there are {' '.join(CRATES)}")
    work = ROOT / "target" / "mutants"
    tree = Tree(ROOT, work)
    sample, planted = drawn(tree, crates, options.sample, options.seed)
    if options.list:
        print("\n".join(f"{fault.number:4} {fault.name}" for fault in sample))
        return 0
    say(f"building with {len(sample)} faults")
    programs = tree.make()
    trials = Trials(tree, options.jobs, planted)
    survivors = work / "survivors.txt"
    lock = threading.Lock()

    def each(names: str, left: list[Fault], attempt: Callable[[Fault], None]) -> None:
        survivors.write_text(f"of {len(left)} faults, not noticed by {names} tests:\n")

        def one(fault: Fault) -> None:
            attempt(fault)
            with lock:
                say(f"{fault.noticed or 'NOT NOTICED'}: {fault.number} {fault.name}")
                if fault.noticed is None:
                    with survivors.open("a") as file:
                        file.write(told(fault) + "\n")

        in_parallel(options.jobs, one, left)
        (work / "report.json").write_text(json.dumps([vars(fault) for fault in sample], indent=1))

    trials.find("Rust", lambda: trials.find_rust(programs), say)
    say(f"switching faults on; each may take {RUST:.0f} s of Rust tests")
    each("Rust", sample, trials.try_rust)
    if not options.no_python:
        trials.find("Python", trials.find_python, say)
        left = [fault for fault in sample if fault.noticed is None]
        say(f"switching on what is left, {len(left)} faults; each may take {PYTHON:.0f} s of Python tests")
        each("Rust and Python", left, trials.try_python)
    for name in sorted(trials.doubted):
        say(f"left out on the way, because it came to fail without a fault: {name}")
    return int(tell(sample, crates) < options.least)


if __name__ == "__main__":
    sys.exit(main())
