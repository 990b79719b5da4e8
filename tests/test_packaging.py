"""What the package promises to those who install it: few dependencies, a quick import, the files it needs."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import shutil
import statistics
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import triune

# A fresh interpreter reports how long the import took, beside one of the standard library's own, and what it pulled in.
PROBE = """
import sys, time
before = set(sys.modules)
start = time.perf_counter()
import triune
took = time.perf_counter() - start
loaded = set(sys.modules)
start = time.perf_counter()
import asyncio
print(took / (time.perf_counter() - start))
print(*sorted({name.partition(".")[0] for name in loaded - before} - sys.stdlib_module_names))
"""


def probe() -> tuple[float, set[str]]:
    """Import triune in a fresh interpreter: how many times as long as `asyncio` it takes, third-party modules loaded."""
    result = subprocess.run([sys.executable, "-c", PROBE], check=True, capture_output=True, text=True)
    took, modules = result.stdout.splitlines()
    return float(took), set(modules.split())


def test_import_is_quick() -> None:
    probe()
    assert statistics.median(probe()[0] for _ in range(5)) < 2


def test_import_does_not_load_numpy() -> None:
    assert probe()[1] == {"triune"}


def test_numpy_is_the_only_runtime_dependency() -> None:
    requirements = importlib.metadata.requires("triune") or []
    plain = [re.match(r"[\w.-]+", line).group() for line in requirements if "extra ==" not in line]  # type: ignore[union-attr]
    assert plain == ["numpy"]


def test_versions_agree(root: Path) -> None:
    workspace = tomllib.loads((root / "Cargo.toml").read_text())["workspace"]["package"]
    assert triune.__version__ == workspace["version"] == importlib.metadata.version("triune")


def test_minimum_python_is_the_one_the_module_is_built_for(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text())
    cargo = tomllib.loads((root / "Cargo.toml").read_text())
    minor = int(project["project"]["requires-python"].removeprefix(">=3."))
    assert f"abi3-py3{minor}" in cargo["workspace"]["dependencies"]["pyo3"]["features"]
    assert project["tool"]["ruff"]["target-version"] == f"py3{minor}"
    assert project["tool"]["mypy"]["python_version"] == f"3.{minor}"


def test_the_conda_recipe_asks_for_what_the_wheel_does(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    recipe = (root / "conda" / "recipe.yaml").read_text()
    assert f'version: "{triune.__version__}"' in recipe
    assert f"python {project['requires-python'].removeprefix('>=')}.*" in recipe
    needed = [
        *project["dependencies"],
        *(each for name in ("images", "onnx", "arrow") for each in project["optional-dependencies"][name]),
    ]
    assert [each for each in needed if f"- {each.replace('>=', ' >=')}\n" not in recipe] == []


def test_package_is_typed() -> None:
    package = Path(triune.__file__).parent
    assert (package / "py.typed").is_file()
    assert (package / "_native.pyi").is_file()


def test_axelera_stays_a_namespace(root: Path) -> None:
    """The vendor ships siblings of axelera.runtime: a file axelera/__init__.py of ours would hide them."""
    compat = root / "python" / "triune" / "compat"
    assert not list(compat.glob("**/axelera/__init__.py"))
    assert not (root / "python" / "axelera").exists()


def test_what_a_registry_shows_has_addresses(root: Path, tmp_path: Path) -> None:
    for name in ("README.md", "pyproject.toml"):
        shutil.copy(root / name, tmp_path)
    spec = importlib.util.spec_from_file_location("release_links", root / "tools" / "release_links.py")
    assert spec is not None
    assert spec.loader is not None
    links = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(links)
    links.main(tmp_path, "https://forge.example/owner/triune", "v1.2.3")
    before, after = (re.findall(r"\]\(([^)]+)\)", (at / "README.md").read_text()) for at in (root, tmp_path))
    assert len(before) == len(after) > 20
    for old, new in zip(before, after, strict=True):
        place = f"https://forge.example/owner/triune/blob/v1.2.3/{old}"
        assert new == (old if old.startswith("https://") else place)
    project = tomllib.loads((tmp_path / "pyproject.toml").read_text())["project"]
    assert project["urls"]["Changelog"] == "https://forge.example/owner/triune/blob/v1.2.3/CHANGELOG.md"
    del project["urls"]
    assert project == tomllib.loads((root / "pyproject.toml").read_text())["project"]
    with pytest.raises(ValueError, match="expected no"):
        links.main(tmp_path, "https://forge.example/owner/triune", "v1.2.3")


def test_the_release_has_a_wheel_for_every_system(root: Path) -> None:
    """The classifiers promise no more than what is built and tried."""
    release = (root / ".github" / "workflows" / "release.yml").read_text()
    built, tried = release.split("\n  tried:")
    targets = set(re.findall(r"(?:x86_64|aarch64)-[a-z0-9-]+", built))
    assert targets == set(re.findall(r"(?:x86_64|aarch64)-[a-z0-9-]+", tried.split("\n  pypi:")[0]))
    systems = {"Linux": "linux", "MacOS": "apple", "Windows": "windows"}
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    promised = {each.rpartition(" :: ")[2] for each in project["classifiers"] if each.startswith("Operating System")}
    assert promised == {name for name, part in systems.items() if any(part in target for target in targets)}
