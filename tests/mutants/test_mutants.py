"""`make mutants` itself: what it lists, plants, switches on and sees reached, on a crate of a few lines."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from mutant_faults import HERE, Fault, Rule, listed, order, rules, shares
from mutant_tree import depends, plant

LIBRARY = """\
//! A crate to plant faults into.

const LIMIT: u32 = 3 + 4;

pub fn fits(size: u32, room: u32) -> Result<u32, String> {
    if size > room {
        return Err(format!("{size} is more than {room}"));
    }
    Ok(room - size)
}

pub fn named(code: u8) -> &'static str {
    match code {
        0 => "none",
        _ => "some",
    }
}

pub fn checked(sizes: &[u32]) -> Result<usize, String> {
    for &size in sizes {
        fits(size, LIMIT)?;
    }
    Ok(sizes.iter().filter(|size| !matches!(size, 0)).count())
}

const fn of_the_compiler(x: u32) -> u32 {
    x + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_fit() {
        assert_eq!(fits(2, 5), Ok(3));
        assert_eq!((fits(5, 5), fits(6, 5).is_err()), (Ok(0), true));
    }

    #[test]
    fn sizes_are_checked() {
        assert_eq!((checked(&[1, 0, 7]), checked(&[8]).is_err()), (Ok(2), true));
        assert_eq!(of_the_compiler(1), 2);
    }
}
"""
MANIFEST = '[package]\nname = "tiny"\nversion = "0.1.0"\nedition = "2024"\n\n[workspace]\n\n[dependencies]\n'


def fault(number: int, text: str, part: str, prefix: str, suffix: str = "", **more: str) -> Fault:
    start = text.index(part)
    return Fault("c", "f", "", "", 1, part, "", start, start + len(part), prefix, suffix, number)


@pytest.fixture(scope="module")
def crate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a crate that depends on the switch."""
    if shutil.which("cargo") is None:
        pytest.skip("cargo is not installed")
    folder = tmp_path_factory.mktemp("crates") / "tiny"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "lib.rs").write_text(LIBRARY)
    (folder / "Cargo.toml").write_bytes(depends(MANIFEST.encode()))
    shutil.copytree(HERE / "switch", folder.parent / "triune-mutant")
    return folder


@pytest.fixture(scope="module")
def found(crate: Path, root: Path) -> list[Fault]:
    """Return the faults of the crate, numbered."""
    faults = listed([crate], root / "target" / "mutants" / "lister")
    for number, each in enumerate(faults, 1):
        each.number = number
    return faults


def test_every_kind_is_listed_where_it_stands(found: list[Fault]) -> None:
    assert {each.crate for each in found} == {"tiny"}
    told = {(each.function, each.kind, each.before, each.after) for each in found}
    assert told == {
        ("fits", "body", "fn fits {…}", "return Ok(0)"),
        ("fits", "body", "fn fits {…}", "return Ok(1)"),
        ("fits", "refusal", "size > room", "false"),
        ("fits", "comparison", "size > room", "size >= room"),
        ("fits", "arithmetic", "room - size", "room + size"),
        ("named", "body", "fn named {…}", 'return ""'),
        ("named", "arm", "0", "_"),
        ("checked", "body", "fn checked {…}", "return Ok(0)"),
        ("checked", "body", "fn checked {…}", "return Ok(1)"),
        ("checked", "refusal", "fits(size, LIMIT)?;", "nothing"),
        ("checked", "swap", "fits(size, LIMIT)", "fits(LIMIT, size)"),
        ("checked", "logic", "!matches!(size, 0)", "matches!(size, 0)"),
    }


def test_faults_lie_within_each_other() -> None:
    text = "f(a + b, !c);"
    faults = [
        fault(1, text, "f(a + b, !c);", "if !@SWITCH@ { ", " }"),
        fault(2, text, "a + b", "(if @SWITCH@ { a - b } else { ", " })"),
        fault(3, text, "b", "(if @SWITCH@ { 0 } else { ", " })"),
        fault(4, text, "!c", "(if @SWITCH@ { c } else { ", " })"),
        fault(5, text, "!c", "(if @SWITCH@ { d } else { ", " })"),
        # Between the parenthesis and what begins there.
        Fault("c", "f", "", "", 1, "", "", 2, 2, "/*@SWITCH@*/", "", 6),
    ]
    planted, spans = plant(text.encode(), faults)
    on = "triune_mutant::planted"
    assert planted.decode() == (
        f"if !{on}(1) {{ f(/*{on}(6)*/(if {on}(2) {{ a - b }} else {{ a + (if {on}(3) {{ 0 }} else {{ b }}) }}), "
        f"(if {on}(4) {{ c }} else {{ (if {on}(5) {{ d }} else {{ !c }}) }})); }}"
    )
    assert {each.fault.number: planted[each.start : each.end].decode() for each in spans}[3] == (
        f"(if {on}(3) {{ 0 }} else {{ b }})"
    )


def test_one_build_holds_all_and_tests_notice_each(crate: Path, found: list[Fault], tmp_path: Path) -> None:
    planted, _ = plant(LIBRARY.encode(), found)
    (crate / "src" / "lib.rs").write_bytes(planted)
    environment = {**os.environ, "CARGO_TARGET_DIR": str(tmp_path / "build")}
    command = ["cargo", "test", "--quiet", "--lib", "--no-run", "--message-format=json", "--offline"]
    output = subprocess.run(command, cwd=crate, env=environment, check=True, capture_output=True, text=True).stdout
    messages = [json.loads(line) for line in output.splitlines()]
    [program] = [message["executable"] for message in messages if message.get("executable")]

    def passes(**switch: str) -> bool:
        return subprocess.run([program], env={**os.environ, **switch}, capture_output=True).returncode == 0

    assert passes()
    marks = tmp_path / "marks"
    marks.write_bytes(bytes(len(found) + 1))
    assert passes(TRIUNE_MUTANTS_REACHED=str(marks))
    # No test calls `named`.
    unnoticed = {each.number for each in found if each.function == "named"}
    reached = {number for number, mark in enumerate(marks.read_bytes()) if mark}
    assert reached == {each.number for each in found} - unnoticed
    assert {each.number for each in found if passes(TRIUNE_MUTANT=str(each.number))} == unnoticed


def test_tests_in_python_say_what_they_reach(tmp_path: Path) -> None:
    marks, log = tmp_path / "marks", tmp_path / "log"
    marks.write_bytes(bytes(8))
    (tmp_path / "test_it.py").write_text(f"""
import pytest

def mark(at):
    with open({str(marks)!r}, "r+b") as file:
        file.seek(at)
        file.write(b"\\1")

mark(1)

@pytest.fixture(scope="module")
def shared():
    mark(2)

def test_first(shared):
    mark(3)

def test_second(shared):
    mark(4)

def test_third():
    assert False
""")
    environment = {
        **os.environ,
        "PYTHONPATH": str(HERE),
        "TRIUNE_MUTANTS_REACHED": str(marks),
        "TRIUNE_MUTANTS_TESTS": str(log),
    }
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "mutant_reach",
        "--rootdir=.",
        "test_it.py",
    ]
    assert subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True).returncode == 1
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(each["test"], each["outcome"], each["reached"]) for each in lines] == [
        ("test_it.py::test_first", "passed", [1, 2, 3]),
        ("test_it.py::test_second", "passed", [1, 2, 4]),
        ("test_it.py::test_third", "failed", [1]),
    ]


def test_samples_are_even_and_of_a_seed(found: list[Fault]) -> None:
    assert shares(["a", "b", "c"], 8) == {"a": 3, "b": 3, "c": 2}
    kinds = {each.kind for each in found}
    first = order(found, 1)
    assert {each.kind for each in first[: len(kinds)]} == kinds
    assert sorted(each.number for each in first) == [each.number for each in found]
    assert [each.number for each in first] == [each.number for each in order(found, 1)]
    assert [each.number for each in first] != [each.number for each in order(found, 2)]


def test_what_is_left_out_says_why() -> None:
    left_out = rules()
    assert all(rule.reason for rule in left_out)
    assert all(rule.file or rule.function or rule.kind or rule.before or rule.after for rule in left_out)
    one = Fault("c", "src/f.rs", "<T as fmt::Debug>::fmt", "literal", 1, "1", "2", 0, 1, "", "")
    assert any(rule.fits(one) for rule in left_out)
    assert Rule("", file="^c/src/f", before="^1$").fits(one)
    assert not Rule("", file="^c/src/f", before="^2$").fits(one)


def test_what_cannot_be_told_from_the_original_is_still_there(root: Path) -> None:
    # A fault whose place is gone is none any more.
    said = [rule for rule in rules() if rule.file.startswith("^crates") or rule.file.startswith("^triune")]
    sources: dict[str, str] = {}
    for rule in said:
        file = rule.file.strip("^$").replace("\\", "")
        if file not in sources:
            sources[file] = " ".join((root / "crates" / file).read_text().split())
        assert rule.before.startswith("^fn") or rule.before.strip("^$").replace("\\", "") in sources[file], rule
