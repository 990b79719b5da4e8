"""What continuous integration makes of skipped tests: parts are installed where that can be done, and what is there is used."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

MAKEFILE = """.PHONY: lint-rust lint-python environments test docs site fuzz
lint-rust lint-python environments docs site fuzz:
\t@true
test:
\t@echo '{says}'
\t@echo '=== 2 passed, 1 skipped in 1s ==='
\t@{end}
"""
SKIP = "SKIPPED [1] tests/x.py:9: no harpsichord: none is installed"


@pytest.fixture
def checkout(root: Path, tmp_path: Path) -> Path:
    """Return a folder with `.ci`, whose tests need one part that no machine has, and a folder for programs."""
    if os.name != "posix" or any(shutil.which(name) is None for name in ("bash", "make")):
        pytest.skip("no bash or no make")
    folder = tmp_path / "checkout"
    shutil.copytree(root / ".ci", folder / ".ci")
    (folder / ".ci" / "parts").write_text(
        "# words\nmusic | clavichord harpsichord | harpsichord-tools | no harpsichord:\n"
    )
    (tmp_path / "bin").mkdir()
    return folder


def run(folder: Path, says: str, end: str = "true") -> tuple[int, str]:
    """Return the status and the output of `.ci/run` over a `make test` that says something."""
    (folder / "Makefile").write_text(MAKEFILE.format(says=says, end=end))
    path = f"{folder.parent / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [folder / ".ci" / "run"], capture_output=True, text=True, timeout=60, env=os.environ | {"PATH": path}
    )
    return done.returncode, done.stdout


def program(folder: Path, name: str, text: str) -> None:
    """Put a program on the path of `run`."""
    file = folder.parent / "bin" / name
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


def machine(folder: Path, installs: bool) -> None:
    """Make a machine whose package manager has the part, or lacks it."""
    bin_ = folder.parent / "bin"
    program(folder, "id", "echo 0")
    if installs:
        there = f'case "$*" in *harpsichord-tools) cp /bin/true {bin_}/harpsichord;; esac'
        program(folder, "apt-get", f'echo "$@" >>{bin_}/calls; {there}')
    else:
        program(folder, "apt-get", f'echo "$@" >>{bin_}/calls; case "$*" in install*) exit 100;; esac')


def test_a_part_that_is_there_has_to_be_used(checkout: Path) -> None:
    program(checkout, "harpsichord", "true")
    status, text = run(checkout, SKIP)
    assert status == 1
    assert "== there, and yet skipped for want of: music\n== failed" in text
    status, text = run(checkout, "SKIPPED [1] tests/x.py:9: another reason")
    assert (status, text.splitlines()[-1]) == (0, "== passed")


def test_what_can_be_installed_is(checkout: Path) -> None:
    machine(checkout, installs=True)
    status, text = run(checkout, "...")
    assert (status, text.splitlines()[-1]) == (0, "== passed")
    calls = (checkout.parent / "bin" / "calls").read_text().splitlines()
    assert calls[0].startswith("update")
    assert calls[1].startswith("install")
    assert calls[1].endswith(" harpsichord-tools")
    # It is there now, and nobody uses it.
    status, text = run(checkout, SKIP)
    assert status == 1
    assert "installing" not in text


def test_a_part_that_cannot_be_had_fails_nothing(checkout: Path) -> None:
    machine(checkout, installs=False)
    status, text = run(checkout, SKIP)
    assert status == 0
    assert "== not installed: harpsichord-tools" in text
    assert SKIP in text.partition("== skipped")[2]


def test_a_failure_is_one(checkout: Path) -> None:
    program(checkout, "harpsichord", "true")
    status, text = run(checkout, "...", end="false")
    assert (status, text.splitlines()[-1]) == (1, "== failed")


def test_the_parts_say_what_the_tests_say(root: Path) -> None:
    """The words by which a test is known to miss a part are those of the tests."""
    rows = [line.split("|") for line in (root / ".ci" / "parts").read_text().splitlines() if not line.startswith("#")]
    assert [len(row) for row in rows] == [4] * len(rows)
    tests = "\n".join(file.read_text() for file in (root / "tests").rglob("*.py") if file.name != "test_ci.py")
    for name, _, package, words in (map(str.strip, row) for row in rows):
        assert package
        # A shell's name is put in.
        assert words in tests or words.replace(name, "{name}") in tests
