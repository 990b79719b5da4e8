"""What the package promises to those who install it: few dependencies, a quick import, the files it needs."""

from __future__ import annotations

import importlib.metadata
import re
import statistics
import subprocess
import sys
import tomllib
from pathlib import Path

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
