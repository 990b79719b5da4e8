"""A copy of the checkout with faults in it, all of them in one build, each to be switched on."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mutant_faults import CRATES, HERE, Fault

SWITCH = "@SWITCH@"


@dataclass
class Span:
    """Where a fault lies in a file of the copy."""

    fault: Fault
    start: int
    end: int


def plant(text: bytes, faults: list[Fault]) -> tuple[bytes, list[Span]]:
    """Return a file with faults in it, and where they went.

    Faults lie apart or within each other. At one place, what ends comes before what is put between, and that before what begins.
    """
    pieces: list[tuple[tuple[int, int, int, int], bytes, Fault, bool]] = []
    for at, fault in enumerate(faults):
        call = f"triune_mutant::planted({fault.number})"
        prefix, suffix = (each.replace(SWITCH, call).encode() for each in (fault.prefix, fault.suffix))
        length = fault.end - fault.start
        if length == 0:
            pieces.append(((fault.start, 1, 0, at), prefix + suffix, fault, True))
            continue
        # The longer begins first and ends last; of two that are as long, the first is the outer.
        pieces.append(((fault.start, 2, -length, at), prefix, fault, True))
        pieces.append(((fault.end, 0, length, -at), suffix, fault, False))
    planted = bytearray()
    spans: dict[int, Span] = {}
    done = 0
    for (where, *_), piece, fault, begins in sorted(pieces, key=lambda each: each[0]):
        planted += text[done:where]
        done = where
        if begins:
            spans[fault.number] = Span(fault, len(planted), len(planted) + len(piece))
        planted += piece
        spans[fault.number].end = len(planted)
    return bytes(planted + text[done:]), list(spans.values())


class Tree:
    """The copy."""

    def __init__(self, root: Path, work: Path) -> None:
        """Make a copy of `root` under `work`; what is there of the last time stays where it is the same."""
        self.root, self.work = root, work
        self.folder, self.build = work / "tree", work / "build"
        self.environment = {**os.environ, "CARGO_TARGET_DIR": str(self.build)}
        # Data that lies beside the checkout does not lie beside the copy.
        self.environment.setdefault("TRIUNE_TEST_DATA", str(root.parent / "shared"))
        self.spans: dict[str, list[Span]] = {}
        self.digest = hashlib.sha256()

    def write(self, file: str, content: bytes, mode: int) -> None:
        """Write a file of the copy, unless it is so already: cargo looks at the time."""
        path = self.folder / file
        self.digest.update(f"{file} {len(content)} ".encode() + content)
        if path.is_file() and path.read_bytes() == content:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(mode)

    def copy(self, faults: list[Fault]) -> None:
        """Bring the copy to where the checkout is, with these faults."""
        by_file = defaultdict(list)
        for fault in faults:
            by_file[f"crates/{fault.crate}/{fault.file}"].append(fault)
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        files = subprocess.run(command, cwd=self.root, check=True, stdout=subprocess.PIPE, text=True).stdout.split("\0")
        kept = set()
        self.spans = {}
        self.digest = hashlib.sha256()
        for file in filter(None, files):
            source = self.root / file
            # What is deleted in the checkout is still in git's list; this tool's own tests test no product.
            if not source.is_file() or file.startswith("tests/mutants/"):
                continue
            content = source.read_bytes()
            if file in by_file:
                content, self.spans[file] = plant(content, by_file[file])
            elif file == "Cargo.toml":
                # Arithmetic that cannot end well is what some faults are.
                lints = b'[workspace.lints.rust]\narithmetic_overflow = "allow"\nunconditional_panic = "allow"\n'
                content = content.replace(b"[workspace.lints.rust]\n", lints)
            elif file.startswith("crates/") and file.endswith("/Cargo.toml") and file.split("/")[1] in CRATES:
                content = depends(content)
            self.write(file, content, source.stat().st_mode)
            kept.add(file)
        for file in ("Cargo.toml", "src/lib.rs"):
            content = (HERE / "switch" / file).read_bytes()
            # Here it is one of the workspace.
            self.write(f"crates/triune-mutant/{file}", content.replace(b"[workspace]\n\n", b""), 0o644)
            kept.add(f"crates/triune-mutant/{file}")
        for path in [*(self.folder / "crates").rglob("*"), *(self.folder / "tests").rglob("*.py")]:
            if path.is_file() and str(path.relative_to(self.folder)) not in kept:
                path.unlink()

    def cargo(self, *arguments: str) -> Iterator[dict[str, Any]]:
        """Run cargo in the copy, and yield what it says; sys.exit where it cannot say."""
        command = ["cargo", *arguments, "--offline", "--keep-going", "--message-format=json"]
        process = subprocess.run(command, cwd=self.folder, env=self.environment, capture_output=True, text=True)
        messages = [json.loads(line) for line in process.stdout.splitlines() if line.startswith("{")]
        if process.returncode and not any(is_error(message) for message in messages):
            sys.exit(f"{' '.join(command)} ended with {process.returncode}:\n{process.stderr}")
        yield from messages

    def blamed(self, error: dict[str, Any]) -> list[Fault]:
        """Say which faults an error of the compiler is about."""
        told = [error, *error.get("children", [])]
        first = [span for each in told for span in each["spans"] if span["is_primary"]]
        rest = [span for each in told for span in each["spans"] if not span["is_primary"]]
        for spans in (first, rest):
            for span in spans:
                inner = [
                    each
                    for each in self.spans.get(span["file_name"], [])
                    if each.start <= span["byte_start"] and span["byte_end"] <= each.end
                ]
                if inner:
                    return [min(inner, key=lambda each: each.end - each.start).fault]
        # The place itself is whole, but not what it lies in: then it is the nearest.
        for span in first + rest:
            beside = self.spans.get(span["file_name"], [])
            if beside:
                return [min(beside, key=lambda each: abs(each.start - span["byte_start"])).fault]
        return []

    def compiles(self, faults: list[Fault], say: Callable[[str], None]) -> list[Fault]:
        """Return those of the faults that compile, having left the others out of the copy; what did not the last time neither."""
        kept = self.work / "uncompilable.json"
        known: list[str] = json.loads(kept.read_text()) if kept.is_file() else []
        faults = [fault for fault in faults if f"{fault.start} {fault.name}" not in known]
        while True:
            self.copy(faults)
            errors = [message["message"] for message in self.cargo("check") if is_error(message)]
            if not errors:
                return faults
            wrong: dict[int, Fault] = {}
            for error in errors:
                if error["spans"]:
                    wrong |= {fault.number: fault for fault in self.blamed(error)}
            if not wrong:
                sys.exit("the copy does not compile:\n" + "\n".join(error["rendered"] for error in errors))
            say(f"{len(wrong)} of {len(faults)} do not compile")
            known += [f"{fault.start} {fault.name}" for fault in wrong.values()]
            kept.write_text(json.dumps(known, indent=1))
            faults = [fault for fault in faults if fault.number not in wrong]

    def make(self) -> list[tuple[str, Path]]:
        """Build the copy: return the crate and the path of every program of tests, and put the native module into its place."""
        programs, native = [], None
        for message in self.cargo("build", "--lib", "--bins", "--tests"):
            if is_error(message):
                sys.exit(message["message"]["rendered"])
            if message["reason"] != "compiler-artifact":
                continue
            if message["executable"] and message["profile"]["test"]:
                programs.append((Path(message["manifest_path"]).parent.name, Path(message["executable"])))
            native = next((file for file in message["filenames"] if file.endswith("libtriune_native.so")), native)
        if native is None:
            sys.exit("cargo built no native module")
        shutil.copy2(native, self.folder / "python" / "triune" / "_native.abi3.so")
        return sorted(programs)


def is_error(message: dict[str, Any]) -> bool:
    """Say whether a message of cargo is an error of the compiler."""
    return message["reason"] == "compiler-message" and str(message["message"]["level"]).startswith("error")


def depends(manifest: bytes) -> bytes:
    """Return a crate's manifest with the switch among what it depends on."""
    line = b'triune-mutant = { path = "../triune-mutant" }\n'
    section = b"\n[dependencies]\n"
    return manifest.replace(section, section + line) if section in manifest else manifest + section + line
