"""Runs tests with a fault switched on: those that reach its place, the nearest and fastest first."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import Any

from mutant_faults import HERE, Fault
from mutant_tree import Tree

RUST, PYTHON = 120.0, 60.0
"""Seconds that the tests of a fault may take in Rust and in Python, by what they take without it."""
TIMES, MORE = 10, 30
"""A test with a fault may take so many times what it takes without, and so many seconds more; then something has no end."""
MEMORY = 12 << 30
"""Bytes of address space for each process of tests: a fault may ask for more than there is."""
GONE = 124
"""How what had to be ended counts."""


@dataclass
class Test:
    """A test that passes without a fault."""

    crate: str
    """Of a Rust test; empty for one of Python."""
    program: str
    """The path of the program, or the file."""
    name: str
    seconds: float
    reached: list[int]


def run(command: list[str], folder: Path, environment: dict[str, str], seconds: float) -> int:
    """Run tests in a group of processes of their own, and return how they ended; nothing of the group is left."""
    limited = ["/bin/sh", "-c", f'ulimit -v {MEMORY >> 10}; ulimit -c 0; exec "$@"', "sh", *command]
    no = subprocess.DEVNULL
    process = subprocess.Popen(
        limited, cwd=folder, env=environment, start_new_session=True, stdin=no, stdout=no, stderr=no
    )
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return GONE
    finally:
        end_group(process)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process and what it left behind."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class Trials:
    """What tests there are, and what each of them reaches."""

    def __init__(self, tree: Tree, jobs: int, faults: int) -> None:
        """Take a built copy with so many faults."""
        self.tree, self.jobs, self.faults = tree, jobs, faults
        self.tests: list[Test] = []
        self.reaching: dict[int, list[Test]] = defaultdict(list)
        self.left_out: list[str] = []
        self.doubted: set[str] = set()
        self.lock = threading.Lock()

    def environment(self, **more: str) -> dict[str, str]:
        """Return what every test gets, and more."""
        paths = os.pathsep.join([str(self.tree.folder / "python"), str(HERE)])
        return {**self.tree.environment, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1", **more}

    @contextmanager
    def marks(self) -> Iterator[Path]:
        """Give a file for what is reached."""
        with NamedTemporaryFile(prefix="reached-") as file:
            file.write(bytes(self.faults + 1))
            file.flush()
            yield Path(file.name)

    # What there is, without faults.

    def find_rust(self, programs: list[tuple[str, Path]]) -> None:
        """Run every Rust test once, each as a process, and keep those that pass."""
        todo = []
        for crate, program in programs:
            lists = [
                subprocess.run(
                    [str(program), "--list", "--format=terse", *only],
                    cwd=self.tree.folder / "crates" / crate,
                    env=self.environment(),
                    check=True,
                    stdout=subprocess.PIPE,
                    text=True,
                ).stdout
                for only in ([], ["--ignored"])
            ]
            names, ignored = (
                {line.removesuffix(": test") for line in each.splitlines() if ": test" in line} for each in lists
            )
            todo += [(crate, program, name) for name in sorted(names - ignored)]
        with ThreadPoolExecutor(self.jobs) as pool:
            list(pool.map(lambda each: self.find_one(*each), todo))

    def find_one(self, crate: str, program: Path, name: str) -> None:
        """Run a Rust test and note what it reaches."""
        with self.marks() as marks:
            test = Test(crate, str(program), name, 0.0, [])
            began = time.monotonic()
            code = self.run_rust(test, self.environment(TRIUNE_MUTANTS_REACHED=str(marks)), 600)
            test.seconds = time.monotonic() - began
            reached = marks.read_bytes()
        test.reached = [at for at, mark in enumerate(reached) if mark]
        with self.lock:
            if code == 0:
                self.tests.append(test)
            else:
                self.left_out.append(f"{crate} {name}")

    def run_rust(self, test: Test, environment: dict[str, str], seconds: float) -> int:
        """Run a Rust test as cargo does."""
        folder = self.tree.folder / "crates" / test.crate
        environment["CARGO_MANIFEST_DIR"] = str(folder)
        return run([test.program, "--exact", test.name], folder, environment, seconds)

    def find_python(self) -> None:
        """Run every file of Python tests once, and keep the tests that pass."""
        files = sorted((self.tree.folder / "tests").rglob("test_*.py"), key=lambda file: -file.stat().st_size)
        with ThreadPoolExecutor(self.jobs) as pool:
            list(pool.map(self.find_file, files))

    def find_file(self, file: Path) -> None:
        """Run a file of Python tests and note what each reaches."""
        name = str(file.relative_to(self.tree.folder))
        with self.marks() as marks, NamedTemporaryFile(prefix="tests-", mode="r") as log:
            environment = self.environment(TRIUNE_MUTANTS_REACHED=str(marks), TRIUNE_MUTANTS_TESTS=log.name)
            code = run([*self.pytest(), "-p", "mutant_reach", name], self.tree.folder, environment, 1800)
            lines = [json.loads(line) for line in log]
        with self.lock:
            if code not in (0, 1, 5):
                self.left_out.append(f"{name}: pytest ended with {code}")
            for line in lines:
                if line["outcome"] == "passed":
                    self.tests.append(Test("", name, line["test"], line["seconds"], line["reached"]))
                elif line["outcome"] == "failed":
                    self.left_out.append(line["test"])

    def pytest(self) -> list[str]:
        """Return how pytest is called."""
        return [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]

    # What notices a fault.

    def try_out(self, fault: Fault, python: bool) -> None:
        """Run what reaches a fault, until something notices it."""
        reaching = self.reaching[fault.number]
        rust = sorted(
            (test for test in reaching if test.crate), key=lambda each: (each.crate != fault.crate, each.seconds)
        )
        there = [test for test in reaching if not test.crate]
        fault.reached = [len(rust), len(there)]
        if not reaching:
            fault.why_not = "not reached"
            return
        spent = 0.0
        for at, test in enumerate(rust):
            if spent + test.seconds > RUST and at:
                fault.why_not = f"{at} of {len(rust)} Rust tests run"
                break
            spent += test.seconds
            if self.notices(test, fault):
                fault.noticed = f"{test.crate} {Path(test.program).name.rsplit('-', 1)[0]} {test.name}"
                return
        if python and there:
            self.try_python(fault, there)

    def notices(self, test: Test, fault: Fault) -> bool:
        """Say whether a Rust test fails with a fault, and passes without."""
        if test.name in self.doubted:
            return False
        seconds = TIMES * test.seconds + MORE
        if self.run_rust(test, self.environment(TRIUNE_MUTANT=str(fault.number)), seconds) == 0:
            return False
        if self.run_rust(test, self.environment(TRIUNE_MUTANT="0"), seconds) == 0:
            return True
        self.doubted.add(test.name)
        return False

    def try_python(self, fault: Fault, tests: list[Test]) -> None:
        """Run Python tests with a fault: one case of each function, the fastest first, then the others, as time allows."""
        seen: dict[str, int] = defaultdict(int)
        turns = []
        for test in sorted(tests, key=lambda each: each.seconds):
            function = test.name.split("[")[0]
            turns.append((seen[function], test.seconds, test))
            seen[function] += 1
        turns.sort(key=lambda each: each[:2])
        chosen: list[Test] = []
        spent = 0.0
        for _, seconds, test in turns:
            # Collecting takes time, too.
            if spent + seconds + 0.005 > PYTHON and chosen:
                break
            if test.name not in self.doubted:
                spent += seconds + 0.005
                chosen.append(test)
        if len(chosen) < len(tests):
            fault.why_not = (
                f"{fault.why_not}, " * bool(fault.why_not) + f"{len(chosen)} of {len(tests)} Python tests run"
            )
        while chosen:
            failed = self.fails(chosen, str(fault.number), TIMES * spent + 2 * MORE)
            if not failed:
                return
            if failed == [""] or not self.fails(
                [test for test in chosen if test.name in failed], "0", TIMES * spent + MORE
            ):
                fault.noticed = f"pytest {failed[0]}"
                return
            self.doubted.update(failed)
            chosen = [test for test in chosen if test.name not in failed]

    def fails(self, tests: list[Test], switch: str, seconds: float) -> list[str]:
        """Run Python tests up to the first that fails: return its name, [""] where pytest itself ended, [] if all pass."""
        with TemporaryDirectory(prefix="mutant-") as folder, NamedTemporaryFile(prefix="tests-", mode="r") as log:
            arguments = Path(folder) / "tests"
            arguments.write_text("".join(f"{test.name}\n" for test in tests))
            environment = self.environment(TRIUNE_MUTANT=switch, TRIUNE_MUTANTS_FAILED=log.name)
            command = [*self.pytest(), "-x", "-p", "mutant_failed", f"@{arguments}"]
            code = run(command, self.tree.folder, environment, seconds)
            return [] if code == 0 else (log.read().splitlines() or [""])

    def find(self, programs: list[tuple[str, Path]], python: bool, say: Callable[[str], None]) -> None:
        """Run all tests without a fault, unless nothing has changed since the last time."""
        kept = self.tree.work / "tests.json"
        digest = self.tree.digest.hexdigest() + " with Python" * python
        last: dict[str, Any] = json.loads(kept.read_text()) if kept.is_file() else {"digest": ""}
        if last["digest"] == digest:
            self.tests = [Test(**test) for test in last["tests"]]
            self.left_out = last["left_out"]
        else:
            say("running every test once without a fault")
            self.find_rust(programs)
            say(f"{len(self.tests)} Rust tests pass")
            if python:
                self.find_python()
            tests = [asdict(test) for test in self.tests]
            kept.write_text(json.dumps({"digest": digest, "tests": tests, "left_out": self.left_out}))
        say(f"{len(self.tests)} tests pass without a fault")
        for name in sorted(self.left_out):
            say(f"left out, because it fails without a fault: {name}")
        for test in self.tests:
            for fault in test.reached:
                self.reaching[fault].append(test)
