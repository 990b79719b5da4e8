"""`make demo` compiles a module of its own, and what is measured or installed is never that one."""

from __future__ import annotations

import os
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from triune.cli import main
from triune.models import DIGITS_INT8

CARGO = """#!/bin/sh
echo "cargo $*" >>calls
mkdir -p "${CARGO_TARGET_DIR:-target}/demo"
echo quick >"${CARGO_TARGET_DIR:-target}/demo/libtriune_native.so"
"""
PYTHON = """#!/bin/sh
echo "python $* from ${PYTHONPATH-nowhere}" >>calls
"""
MATURIN = """#!/bin/sh
echo "maturin $*" >>calls
echo fast >python/triune/_native.abi3.so
"""


def program(file: Path, text: str) -> None:
    """Write a program."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o755)


@pytest.fixture
def checkout(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the Makefile, in which compilers only say that they were called."""
    if os.name != "posix" or any(shutil.which(name) is None for name in ("bash", "make")):
        pytest.skip("no bash or no make")
    folder = tmp_path / "checkout"
    folder.mkdir()
    for name in ("Makefile", "pyproject.toml", "Cargo.toml"):
        shutil.copy(root / name, folder)
    (folder / "crates").mkdir()
    (folder / "python" / "triune" / "cli").mkdir(parents=True)
    (folder / "python" / "triune" / "demo.py").write_text("")
    program(folder / ".venv" / "bin" / "python", PYTHON)
    program(folder / ".venv" / "bin" / "maturin", MATURIN)
    program(tmp_path / "bin" / "cargo", CARGO)
    program(tmp_path / "bin" / "uname", "#!/bin/sh\necho Linux\n")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    for name in ("CARGO_TARGET_DIR", "MAKEFLAGS", "PYTHONPATH", "VIRTUAL_ENV"):
        monkeypatch.delenv(name, raising=False)
    return folder


def make(folder: Path, *words: str) -> list[str]:
    """Return the calls of compilers and interpreters that a target makes, but for pip's."""
    (folder / "calls").write_text("")
    done = subprocess.run(["make", *words], cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return [line for line in (folder / "calls").read_text().splitlines() if " -m pip " not in line]


def test_the_demo_has_a_module_that_nothing_else_imports(checkout: Path) -> None:
    # Left by an environment that is gone: it is neither taken nor written over.
    left = checkout / "python" / "triune" / "_native.abi3.so"
    left.write_text("left")
    compiled, ran = make(checkout, "demo")
    assert compiled.startswith("cargo rustc --profile demo --package triune-python --lib")
    assert ran == "python -m triune.demo from .venv/demo"
    package = checkout / ".venv" / "demo" / "triune"
    assert sorted(file.name for file in package.iterdir()) == ["_native.abi3.so", "cli", "demo.py"]
    assert (package / "_native.abi3.so").read_text() == "quick\n"
    assert (package / "demo.py").resolve() == (checkout / "python" / "triune" / "demo.py").resolve()
    assert left.read_text() == "left"
    assert make(checkout, "demo") == [ran]


def test_the_demo_uses_the_module_that_was_built(checkout: Path) -> None:
    assert make(checkout, "build") == ["maturin develop --release --group build"]
    assert make(checkout, "demo") == ["python -m triune.demo from nowhere"]


@pytest.mark.parametrize("target", ["build", "wheel", "soak", "bench-peers", "bench-load", "test-python"])
def test_what_is_installed_tested_or_measured_is_optimised(checkout: Path, target: str) -> None:
    make(checkout, "demo")
    planned = subprocess.run(["make", "--dry-run", target], cwd=checkout, capture_output=True, text=True, timeout=60)
    assert planned.returncode == 0, planned.stderr
    assert "maturin develop --release" in planned.stdout
    assert ".venv/demo" not in planned.stdout
    assert "--profile demo" not in planned.stdout


def test_the_demo_is_compiled_quickly_and_releases_are_not(root: Path) -> None:
    profiles = tomllib.loads((root / "Cargo.toml").read_text())["profile"]
    assert profiles["demo"]["opt-level"] == 0
    assert profiles["demo"]["lto"] == "off"
    assert profiles["release"].get("opt-level", 3) == 3
    assert profiles["release"]["lto"] == "thin"


def test_a_module_that_is_not_optimised_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for optimized in (True, False):
        monkeypatch.setattr("triune._native.OPTIMIZED", optimized)
        with pytest.raises(SystemExit):
            main(["--version"])
        assert ("without optimisation" in capsys.readouterr().out) == (not optimized)
        assert main(["bench", str(DIGITS_INT8), "--seconds", "0.01"]) == 0
        assert ("without optimisation, so that times say nothing" in capsys.readouterr().err) == (not optimized)
