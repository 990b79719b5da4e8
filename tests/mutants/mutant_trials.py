"""Runs tests with a fault switched on: those that reach its place, the nearest and fastest first."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
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
AGAIN = 2
"""How often a test that fails with a fault may be run without: other work on the machine can fail one."""
MEMORY = 8 << 30
"""Bytes that a process of tests may have: a fault may take more than there is. (Address space is reserved in plenty.)"""
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


RUNNING: set[subprocess.Popen[bytes]] = set()
"""What is to be ended where all of it ends."""
ENDED = threading.Event()
"""That nothing more is begun."""


def in_parallel(jobs: int, call: Callable[[Any], None], items: Iterable[Any]) -> None:
    """Call for every item, so many at a time; where one fails or the user has had enough, nothing is left running."""
    with ThreadPoolExecutor(jobs) as pool:
        calls = [pool.submit(call, item) for item in items]
        try:
            for each in calls:
                each.result()
        except BaseException:
            ENDED.set()
            pool.shutdown(wait=False, cancel_futures=True)
            for process in list(RUNNING):
                end_group(process)
            raise


def run(command: list[str], folder: Path, environment: dict[str, str], seconds: float) -> int:
    """Run tests in a group of processes of their own, and return how they ended; nothing of the group is left."""
    if ENDED.is_set():
        raise InterruptedError
    # Should memory run out all the same, then for these.
    humble = ["/bin/sh", "-c", 'ulimit -c 0; echo 1000 >/proc/self/oom_score_adj; exec "$@"', "sh", *command]
    no = subprocess.DEVNULL
    process = subprocess.Popen(
        humble, cwd=folder, env=environment, start_new_session=True, stdin=no, stdout=no, stderr=no
    )
    RUNNING.add(process)
    ends = time.monotonic() + seconds
    try:
        while time.monotonic() < ends and resident(process.pid) < MEMORY:
            with suppress(subprocess.TimeoutExpired):
                return process.wait(0.25)
        return GONE
    finally:
        end_group(process)
        RUNNING.discard(process)


def resident(process: int) -> int:
    """Return how many bytes of memory a process has."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (FileNotFoundError, ProcessLookupError, IndexError):
        return 0


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
        """Tests that failed with a fault and then without one, too, so that nothing they say counts any more."""
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
            # A test may start a process that is somebody else.
            Path(file.name).chmod(0o666)
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
        in_parallel(self.jobs, lambda each: self.find_one(*each), todo)

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
        in_parallel(self.jobs, self.find_file, files)

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

    def find(self, name: str, search: Callable[[], None], say: Callable[[str], None]) -> None:
        """Run all tests of a language without a fault, unless nothing has changed since the last time."""
        kept = self.tree.work / f"tests-{name}.json"
        # How they are run makes a difference, too.
        digest = self.tree.digest.hexdigest() + hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
        last: dict[str, Any] = json.loads(kept.read_text()) if kept.is_file() else {"digest": ""}
        if last["digest"] == digest:
            self.tests = [Test(**test) for test in last["tests"]]
            self.left_out = last["left_out"]
        else:
            say(f"running every {name} test once without a fault")
            self.tests, self.left_out = [], []
            search()
            tests = [asdict(test) for test in self.tests]
            kept.write_text(json.dumps({"digest": digest, "tests": tests, "left_out": self.left_out}))
        say(f"{len(self.tests)} {name} tests pass without a fault")
        for test in sorted(self.left_out):
            say(f"left out, because it fails without a fault: {test}")
        self.reaching = defaultdict(list)
        for each in self.tests:
            for fault in each.reached:
                self.reaching[fault].append(each)

    # What notices a fault.

    def try_rust(self, fault: Fault) -> None:
        """Run the Rust tests that reach a fault, until one notices it: its own crate's first, and the fastest of these."""
        tests = sorted(self.reaching[fault.number], key=lambda each: (each.crate != fault.crate, each.seconds))
        fault.reached[0] = len(tests)
        spent = 0.0
        for at, test in enumerate(tests):
            if spent + test.seconds > RUST and at:
                fault.why_not = f"{at} of {len(tests)} Rust tests run"
                return
            spent += test.seconds
            if self.notices(test, fault):
                fault.noticed = f"{test.crate} {Path(test.program).name.rsplit('-', 1)[0]} {test.name}"
                return

    def notices(self, test: Test, fault: Fault) -> bool:
        """Say whether a Rust test fails with a fault, and passes without."""
        if test.name in self.doubted:
            return False
        seconds = TIMES * test.seconds + MORE
        if self.run_rust(test, self.environment(TRIUNE_MUTANT=str(fault.number)), seconds) == 0:
            return False
        if any(self.run_rust(test, self.environment(TRIUNE_MUTANT="0"), seconds) == 0 for _ in range(AGAIN)):
            return True
        self.doubted.add(test.name)
        return False

    def try_python(self, fault: Fault) -> None:
        """Run the Python tests that reach a fault: one case of each function, the fastest first, then more, as time allows."""
        tests = self.reaching[fault.number]
        fault.reached[1] = len(tests)
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
            # Where pytest itself came to no end, any of them may be why.
            suspects = [test for test in chosen if test.name in failed] or chosen
            if any(not self.fails(suspects, "0", TIMES * spent + MORE) for _ in range(AGAIN)):
                fault.noticed = f"pytest {failed[0] or 'came to no end'}"
                return
            if suspects is chosen:
                fault.why_not = "pytest came to no end without the fault, too"
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
