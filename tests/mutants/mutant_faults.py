"""Which faults there are, which are never planted, and which make a sample."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import tomllib
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
CRATES = [
    "triune-fork",
    "triune-cancel",
    "triune-files",
    "triune-tensor",
    "triune-memory",
    "triune-kernels",
    "triune-graph",
    "triune-device",
    "triune-compiler",
    "triune-runtime",
    "triune-icraft",
    "triune-remote",
    "triune-python",
    "triune-capi",
]


@dataclass
class Fault:
    """A small change of a crate: where, what, and who noticed it."""

    crate: str
    file: str
    """From the crate's folder."""
    function: str
    kind: str
    line: int
    before: str
    after: str
    start: int
    """Of the bytes between prefix and suffix, as end."""
    end: int
    prefix: str
    suffix: str
    number: int = 0
    """By which it is switched on, from 1."""
    noticed: str | None = None
    """By which test."""
    reached: list[int] = field(default_factory=lambda: [0, 0])
    """By how many tests in Rust, and in Python."""
    why_not: str = ""
    """What there is to say of one that nothing noticed."""

    @property
    def name(self) -> str:
        """What a report says of it."""
        return f"{self.crate}/{self.file}:{self.line} {self.function}: {self.kind}: {self.before} -> {self.after}"


@dataclass(frozen=True)
class Rule:
    """What is left out, and why: every part that is given fits."""

    reason: str
    file: str = ""
    function: str = ""
    kind: str = ""
    before: str = ""
    after: str = ""

    def fits(self, fault: Fault) -> bool:
        """Say whether it leaves a fault out."""
        return all(
            re.search(pattern, text)
            for pattern, text in (
                (self.file, f"{fault.crate}/{fault.file}"),
                (self.function, fault.function),
                (self.kind, fault.kind),
                (self.before, fault.before),
                (self.after, fault.after),
            )
        )


def rules(file: Path = HERE / "left_out.toml") -> list[Rule]:
    """Read what is left out."""
    said: dict[str, list[dict[str, str]]] = tomllib.loads(file.read_text())
    same = [
        # There a text means itself.
        Rule(**{name: text if name == "reason" else f"^{re.escape(text)}$" for name, text in each.items()})
        for each in said.get("same", [])
    ]
    return [Rule(**each) for each in said.get("never", [])] + same


def listed(folders: list[Path], build: Path) -> list[Fault]:
    """List all faults of crates, those too that are left out."""
    # Its own build has nothing to do with the flags of what is tested.
    environment = {**os.environ, "CARGO_TARGET_DIR": str(build)}
    manifest = str(HERE / "lister" / "Cargo.toml")
    subprocess.run(["cargo", "build", "--quiet", "--manifest-path", manifest], env=environment, check=True)
    program = [str(build / "debug" / "triune-mutants"), *map(str, folders)]
    output = subprocess.run(program, check=True, stdout=subprocess.PIPE, text=True).stdout
    found: list[dict[str, Any]] = json.loads(output)
    return [Fault(crate=Path(each.pop("folder")).name, **each) for each in found]


def order(faults: list[Fault], seed: int) -> list[Fault]:
    """Put the faults of a crate into the order in which a sample takes them: one of each kind, then the next of each."""
    numbers = random.Random(seed)
    kinds = defaultdict(list)
    for fault in sorted(faults, key=lambda each: (each.file, each.start, each.end, each.kind, each.after)):
        kinds[fault.kind].append(fault)
    for of_kind in kinds.values():
        numbers.shuffle(of_kind)
    queues = sorted(kinds.items())
    numbers.shuffle(queues)
    ordered = []
    while any(queue for _, queue in queues):
        ordered += [queue.pop() for _, queue in queues if queue]
    return ordered


def shares(crates: list[str], count: int) -> dict[str, int]:
    """Say how many each crate gives: as many as the others."""
    return {crate: count // len(crates) + (at < count % len(crates)) for at, crate in enumerate(crates)}
