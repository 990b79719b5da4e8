"""A sample of small faults, planted one by one: which do the tests notice?

``make mutants`` draws SAMPLE mutants by SEED, evenly over CRATES, and plants each in a worktree of its own under target/mutants,
so that the checkout stays as it is. It runs in up to three steps, each for what the one before let pass:

1. the tests of the crate that is changed,
2. the tests of the crates that use it,
3. with PYTHON_TOO=1, the native module built anew, and pytest.

The table at the end says per crate how many were noticed; the rest are listed, with their changes in target/mutants/report.json.
It needs cargo-mutants (``cargo install cargo-mutants``), which lists what can be changed; .cargo/mutants.toml says what is left
out, and why.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "target" / "mutants"
TREE = WORK / "tree"
# Who uses a crate, the nearest first; the Python module comes in the third step.
USERS = {
    "triune-fork": ["triune-device", "triune-runtime", "triune-remote"],
    "triune-files": ["triune-graph", "triune-runtime", "triune-icraft", "triune-remote"],
    "triune-tensor": ["triune-kernels", "triune-graph", "triune-device", "triune-runtime"],
    "triune-memory": ["triune-device", "triune-compiler", "triune-runtime"],
    "triune-kernels": ["triune-device", "triune-runtime"],
    "triune-graph": ["triune-compiler", "triune-runtime", "triune-icraft"],
    "triune-device": ["triune-compiler", "triune-runtime", "triune-remote"],
    "triune-compiler": ["triune-runtime", "triune-icraft"],
    "triune-runtime": ["triune", "triune-icraft"],
    "triune-icraft": ["triune"],
    "triune-remote": ["triune"],
    "triune-python": [],
}
SECONDS = 900
"""What building and testing may take before a mutant counts as noticed: it has made something endless."""
FAILED, UNBUILDABLE, TIMED_OUT = 100, 101, 124
"""How cargo-nextest and timeout end."""


@dataclass
class Mutant:
    """A fault: where, what, and which step noticed it."""

    package: str
    name: str
    diff: str
    noticed: str | None = None
    unbuildable: bool = False


@dataclass
class Sample:
    """What was drawn."""

    mutants: list[Mutant] = field(default_factory=list)

    def left(self) -> list[Mutant]:
        """Return those that nothing has noticed yet."""
        return [m for m in self.mutants if m.noticed is None and not m.unbuildable]


def run(*command: str, check: bool = True, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command in the worktree of the mutants."""
    return subprocess.run(command, cwd=options.pop("cwd", TREE), check=check, text=True, **options)


def draw(crates: list[str], count: int, seed: int) -> Sample:
    """Draw mutants, as many of each crate as of the others while it has them."""
    numbers = random.Random(seed)
    sample = Sample()
    for at, crate in enumerate(crates):
        listed = run("cargo", "mutants", "--list", "--json", "--package", crate, stdout=subprocess.PIPE).stdout
        found = sorted(json.loads(listed), key=lambda each: each["name"])
        share = count // len(crates) + (at < count % len(crates))
        for each in numbers.sample(found, min(share, len(found))):
            sample.mutants.append(Mutant(crate, each["name"], each["diff"]))
    return sample


def tree() -> None:
    """Put HEAD into a worktree of its own, with the artefacts of the last time."""
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, text=True, stdout=subprocess.PIPE)
    if not TREE.is_dir():
        WORK.mkdir(parents=True, exist_ok=True)
        run("git", "worktree", "prune", cwd=ROOT)
        run("git", "worktree", "add", "--quiet", "--detach", str(TREE), cwd=ROOT)
    run("git", "checkout", "--quiet", "--force", "--detach", head.stdout.strip())
    run("git", "clean", "--quiet", "-d", "--force")
    # Data that lies beside the checkout does not lie beside the worktree.
    os.environ.setdefault("TRIUNE_TEST_DATA", str(ROOT.parent / "shared"))
    os.environ["CARGO_TARGET_DIR"] = str(WORK / "build")


@contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """Have a mutant in the worktree for as long as the block runs."""
    # The second line says what is done, where patch expects the file again.
    first, _, *rest = mutant.diff.splitlines(keepends=True)
    run("patch", "--quiet", "-p0", input="".join([first, first.replace("---", "+++"), *rest]))
    try:
        yield
    finally:
        run("git", "checkout", "--quiet", "--force", ".")


def rust_tests(tested: list[str]) -> subprocess.CompletedProcess[str]:
    """Run the tests of crates in the worktree as it is."""
    packages = [option for crate in tested for option in ("--package", crate)]
    # A crate without tests of its own has noticed nothing.
    command = ["timeout", str(SECONDS), "cargo", "nextest", "run", "--no-tests=pass", *packages]
    return run(*command, check=False, capture_output=True)


def test_in_rust(mutants: list[Mutant], tested: list[str]) -> None:
    """Run the tests of crates with each of several mutants, once they pass without."""
    if (ended := rust_tests(tested)).returncode:
        sys.exit(f"the tests of {', '.join(tested)} fail without a mutant: {ended.stdout}{ended.stderr}")
    for mutant in mutants:
        with planted(mutant):
            ended = rust_tests(tested)
        if ended.returncode in (FAILED, TIMED_OUT):
            mutant.noticed = ", ".join(tested)
        elif ended.returncode == UNBUILDABLE:
            mutant.unbuildable = True
        elif ended.returncode:
            sys.exit(f"{mutant.name}: the tests ended with {ended.returncode}: {ended.stderr}")
        print(
            f"{mutant.noticed or ('unbuildable' if mutant.unbuildable else 'not noticed')}: {mutant.name}", flush=True
        )


def test_in_python(mutant: Mutant) -> None:
    """Build the native module with a mutant, and run pytest."""
    with planted(mutant):
        venv = ROOT / ".venv"
        environment = {**os.environ, "VIRTUAL_ENV": str(venv)}
        run(str(venv / "bin" / "maturin"), "develop", "--quiet", env=environment)
        tests = run(str(venv / "bin" / "python"), "-m", "pytest", "-x", "-q", check=False, stdout=subprocess.DEVNULL)
        if tests.returncode:
            mutant.noticed = "pytest"


def tell(sample: Sample, crates: list[str], least: int) -> int:
    """Print what was noticed, and what was not."""
    (WORK / "report.json").write_text(json.dumps([vars(mutant) for mutant in sample.mutants], indent=1))
    rows: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for mutant in sample.mutants:
        if not mutant.unbuildable:
            rows[mutant.package][0] += mutant.noticed is not None
            rows[mutant.package][1] += 1
    print()
    for crate in crates:
        print(f"{crate:16} {rows[crate][0]:3} of {rows[crate][1]:3} noticed")
    noticed, total = (sum(row[at] for row in rows.values()) for at in (0, 1))
    print(f"{'all':16} {noticed:3} of {total:3} noticed")
    for mutant in sample.left():
        print(f"not noticed: {mutant.name}")
    return int(noticed * 100 < least * total)


def main() -> int:
    """Draw, plant, test, tell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sample", type=int, default=24, help="how many mutants (24)")
    parser.add_argument("--seed", type=int, default=1, help="which ones (1)")
    parser.add_argument("--crates", default=" ".join(USERS), help="of which crates, with spaces between (all)")
    parser.add_argument("--least", type=int, default=90, help="per cent that must be noticed (90)")
    parser.add_argument("--python", action="store_true", help="run pytest on what the Rust tests let pass")
    parser.add_argument("--list", action="store_true", help="draw, and print what was drawn")
    options = parser.parse_args()
    crates = options.crates.split()
    tree()
    sample = draw(crates, options.sample, options.seed)
    if options.list:
        print("\n".join(mutant.name for mutant in sample.mutants))
        return 0
    for crate in crates:
        for tested in ([crate], USERS[crate]):
            left = [mutant for mutant in sample.left() if mutant.package == crate]
            if left and tested:
                test_in_rust(left, tested)
    if options.python:
        try:
            for mutant in sample.left():
                test_in_python(mutant)
        finally:
            # The next build of the checkout's own module must not find that of a mutant.
            (ROOT / ".venv" / ".native").unlink(missing_ok=True)
    return tell(sample, crates, options.least)


if __name__ == "__main__":
    sys.exit(main())
