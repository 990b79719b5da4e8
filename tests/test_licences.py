"""What is built in may be: the licences and sources that deny.toml allows, of everything in Cargo.lock."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest


def allowed(expression: str, licences: set[str]) -> bool:
    """Say whether an SPDX expression leaves a choice of these licences; AND binds stronger than OR, a slash is an OR."""
    tokens = re.findall(r"\(|\)|[\w.+-]+(?: WITH [\w.-]+)?", expression.replace("/", " OR "))

    def alternatives() -> bool:
        value = both()
        while tokens and tokens[0] == "OR":
            tokens.pop(0)
            value = both() or value
        return value

    def both() -> bool:
        value = one()
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            value = one() and value
        return value

    def one() -> bool:
        token = tokens.pop(0)
        if token != "(":
            return token in licences
        value = alternatives()
        assert tokens.pop(0) == ")"
        return value

    value = alternatives()
    assert not tokens, f"{expression!r} goes on with {tokens}"
    return value


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("MIT", True),
        ("GPL-3.0", False),
        ("GPL-3.0 OR MIT", True),
        ("GPL-3.0 AND MIT", False),
        ("(MIT OR GPL-3.0) AND MIT", True),
        ("MIT OR MIT AND GPL-3.0", True),
        ("Apache-2.0 WITH LLVM-exception", False),
        ("Unlicense/MIT", True),
    ],
)
def test_expressions_are_read(expression: str, expected: bool) -> None:
    assert allowed(expression, {"MIT"}) is expected


def test_what_is_built_in_is_allowed(root: Path) -> None:
    cargo = shutil.which("cargo")
    if cargo is None:
        pytest.skip("cargo is not installed")
    command = [cargo, "metadata", "--format-version=1", "--all-features", "--locked"]
    packages = json.loads(subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout)[
        "packages"
    ]
    rules = tomllib.loads((root / "deny.toml").read_text())
    licences, banned = set(rules["licenses"]["allow"]), {entry["name"] for entry in rules["bans"]["deny"]}
    registry = "registry+https://github.com/rust-lang/crates.io-index"
    wrong = [
        f"{package['name']} {package['version']}: {package['license']}, from {package['source']}"
        for package in packages
        if not allowed(package["license"] or "none", licences)
        or package["name"] in banned
        or package["source"] not in (None, registry)
    ]
    assert wrong == []
