"""The shape of the house: which crate may use which, what each may depend on, and how long a file gets."""

from __future__ import annotations

import ast
import json
import re
import runpy
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

# What each crate may use of the others (ARCHITECTURE.md). A crate that does not exist yet has no edges to check.
MAY_USE: dict[str, set[str]] = {
    "triune-fork": set(),
    "triune-cancel": {"triune-fork"},
    "triune-tensor": set(),
    "triune-memory": set(),
    "triune-files": set(),
    "triune-kernels": {"triune-fork", "triune-cancel", "triune-tensor"},
    "triune-graph": {"triune-cancel", "triune-tensor", "triune-files"},
    "triune-device": {"triune-fork", "triune-tensor", "triune-memory", "triune-kernels"},
    "triune-compiler": {"triune-tensor", "triune-memory", "triune-kernels", "triune-graph", "triune-device"},
    "triune-runtime": {
        "triune-fork",
        "triune-tensor",
        "triune-files",
        "triune-memory",
        "triune-kernels",
        "triune-graph",
        "triune-device",
        "triune-compiler",
    },
    "triune-icraft": {
        "triune-fork",
        "triune-tensor",
        "triune-files",
        "triune-memory",
        "triune-kernels",
        "triune-graph",
        "triune-device",
        "triune-compiler",
        "triune-runtime",
    },
    "triune-remote": {"triune-fork", "triune-files", "triune-device"},
    # The façade gives its users everything below it.
    "triune": {
        "triune-fork",
        "triune-tensor",
        "triune-files",
        "triune-kernels",
        "triune-graph",
        "triune-device",
        "triune-compiler",
        "triune-runtime",
        "triune-icraft",
        "triune-remote",
    },
    "triune-python": {"triune"},
    "triune-capi": {"triune"},
}
# Never published: they may look at everything.
UNPUBLISHED = {"triune-testing", "triune-benches"}
# Only these may contain unsafe code.
UNSAFE = {"triune-fork", "triune-cancel", "triune-kernels", "triune-device", "triune-python", "triune-capi"}
# The only crate that may know Python.
PYTHON = {"triune-python"}
LONGEST_FILE = 800
# Crates from elsewhere that a program builds with the facade, which asks for no feature.
MOST_CRATES = 30
# They run a C compiler, or bring a C library.
FOREIGN = {"cc", "cmake", "bindgen", "pkg-config"}


@pytest.fixture(scope="module")
def packages(root: Path) -> dict[str, dict[str, Any]]:
    """Return the workspace members as `cargo metadata` describes them."""
    cargo = shutil.which("cargo")
    if cargo is None:
        pytest.skip("cargo is not installed")
    command = [cargo, "metadata", "--no-deps", "--format-version=1", "--offline"]
    output = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    return {package["name"]: package for package in json.loads(output)["packages"]}


def test_every_crate_is_on_the_map(packages: dict[str, dict[str, Any]]) -> None:
    assert set(packages) <= set(MAY_USE) | UNPUBLISHED


def test_edges_are_those_of_the_map(packages: dict[str, dict[str, Any]]) -> None:
    wrong = []
    for name, allowed in MAY_USE.items():
        for dependency in packages.get(name, {}).get("dependencies", []):
            used = dependency["name"]
            # A test may use the naive references, and nothing else that its crate may not.
            fine = allowed | (UNPUBLISHED if dependency["kind"] == "dev" else set())
            if used.startswith("triune") and used not in fine:
                wrong.append(f"{name} -> {used} ({dependency['kind'] or 'normal'})")
    assert wrong == []


def test_mutants_are_drawn_of_every_crate() -> None:
    crates = runpy.run_path(str(Path(__file__).parent / "mutants" / "mutant_faults.py"))["CRATES"]
    # The facade has nothing of its own that could be changed.
    assert set(crates) == set(MAY_USE) - {"triune"}


def test_one_crate_knows_python(packages: dict[str, dict[str, Any]]) -> None:
    for name, package in packages.items():
        used = {dependency["name"] for dependency in package["dependencies"]}
        assert name in PYTHON or not used & {"pyo3", "numpy"}, name


def test_an_embedder_builds_few_crates_and_nothing_in_c(root: Path) -> None:
    cargo = shutil.which("cargo")
    if cargo is None:
        pytest.skip("cargo is not installed")
    command = [cargo, "tree", "--offline", "--package=triune", "--no-default-features", "--edges=normal,build"]
    output = subprocess.run(
        [*command, "--prefix=none", "--no-dedupe"], cwd=root, check=True, capture_output=True, text=True
    ).stdout
    built = {tuple(line.split()[:2]) for line in output.splitlines()}
    names = {name for name, _ in built}
    assert "triune-kernels" in names
    foreign = {crate for crate in built if not crate[0].startswith("triune")}
    assert 0 < len(foreign) <= MOST_CRATES, sorted(foreign)
    assert not names & FOREIGN


def test_whatever_the_facade_offers_has_an_example_that_runs(root: Path) -> None:
    text = (root / "crates" / "triune" / "src" / "lib.rs").read_text()
    items = re.findall(r"^((?:///.*\n)*)(?:#\[.*\]\n)*pub (?:use|fn|mod|struct|enum|trait) (.*)$", text, re.MULTILINE)
    assert len(items) > 25
    for docs, name in items:
        # One name each, so that none is without.
        assert "{" not in name or not name.startswith("triune_"), name
        # What follows the fence would say that it is not run.
        assert re.search(r"^/// ```$", docs, re.MULTILINE), name
    assert not re.search(r"```(?:no_run|ignore|text)", text)


def test_versions_come_from_the_workspace(packages: dict[str, dict[str, Any]]) -> None:
    for field in ("version", "edition", "rust_version", "license"):
        assert len({package[field] for package in packages.values()}) == 1, field


def test_every_crate_takes_the_workspace_lints(packages: dict[str, dict[str, Any]]) -> None:
    for name, package in packages.items():
        assert "[lints]\nworkspace = true" in Path(package["manifest_path"]).read_text(), name


def test_unsafe_is_forbidden_elsewhere(packages: dict[str, dict[str, Any]]) -> None:
    for name, package in packages.items():
        if name in UNSAFE | UNPUBLISHED:
            continue
        library = Path(package["manifest_path"]).parent / "src" / "lib.rs"
        assert "#![forbid(unsafe_code)]" in library.read_text(), name


def test_files_stay_short(root: Path) -> None:
    sources = [path for folder in ("crates", "python", "tests", "benches") for path in (root / folder).rglob("*.*")]
    long = {
        str(path.relative_to(root)): lines
        for path in sources
        if path.suffix in (".rs", ".py", ".pyi") and (lines := len(path.read_text().splitlines())) > LONGEST_FILE
    }
    assert long == {}


def test_sources_say_what_they_are_for(root: Path) -> None:
    silent = [path for path in (root / "crates").glob("*/src/**/*.rs") if not path.read_text().startswith("//!")]
    silent += [path for path in (root / "python").rglob("*.py") if not ast.get_docstring(ast.parse(path.read_text()))]
    assert [str(path.relative_to(root)) for path in silent] == []


def test_front_ends_do_not_know_each_other(root: Path) -> None:
    package = root / "python" / "triune"
    vendors = {"icraft", "axelera", "megenginelite"}
    for vendor in vendors:
        for path in (package / vendor).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom):
                    names = [f"{node.module or ''}.{alias.name}" for alias in node.names]
                for name in names:
                    known = set(name.split(".")) & (vendors - {vendor})
                    assert not known, f"{path.relative_to(root)} imports {name}"


# What names an operator in sources, by kind: those that are made of others, and those that have a command already.
COMPOSITES = {
    "CausalConvWithState": r"causal_conv|CausalConvWithState",
    "CenterCropPad": r"center_crop_pad|CenterCropPad",
    "GridSample": r"grid_sample|GridSample",
}
ON_COMMANDS = {
    "GatherND": r"gather_nd|Gather(Nd|ND)\b",
    "GatherElements": r"gather_elements|GatherElements",
    "TopK": r"top_k|TopK",
}
# Those that have a kernel of their own.
WITH_KERNELS = {
    "Weigh": r"\bWeigh(Spec)?\b",
    "Running": r"\bRunning(Spec)?\b",
    "Recurrence": r"\bRecurrence(Spec)?\b",
}
# The list that has a line per operator.
LISTS = {"crates/triune-graph/src/ops/mod.rs"}
# Where an operator with a kernel is looked for, each in one file: its rule, its lowering, its command, its step, its kernel;
# and what the engines have to do, if that is more than so many operations per result.
ROOMS = [
    r"crates/triune-graph/src/ops/(?!mod)\w+\.rs",
    r"crates/triune-compiler/src/lower/(?!mod)\w+\.rs",
    r"crates/triune-device/src/command/set/(?!mod)\w+\.rs",
    r"crates/triune-device/src/exec/steps/(?!mod)\w+\.rs",
    r"crates/triune-kernels/src/(?!lib)\w+\.rs",
]
AT_MOST = {*LISTS, "crates/triune-kernels/src/lib.rs", "crates/triune-device/src/timing/work.rs"}


def files_with(root: Path, pattern: str) -> set[str]:
    """Return the sources that name something, but for tests' own operators and the second names of others."""
    words = re.compile(pattern, re.MULTILINE)
    sources = [path for path in root.glob("crates/*/src/**/*.rs") if "triune-testing" not in path.parts]
    sources = [path for path in sources if path.name != "borrowed.rs"]
    return {str(path.relative_to(root)) for path in sources if words.search(path.read_text())}


@pytest.mark.parametrize("operator", COMPOSITES)
def test_a_composite_operator_is_one_entry_in_one_file(root: Path, operator: str) -> None:
    files = files_with(root, COMPOSITES[operator])
    assert len(files) == 1, sorted(files)
    assert all(file.startswith("crates/triune-graph/src/format/onnx/ops/") for file in files)


@pytest.mark.parametrize("operator", ON_COMMANDS)
def test_an_operator_on_a_command_is_its_rule_its_lowering_and_its_entries(root: Path, operator: str) -> None:
    files = files_with(root, ON_COMMANDS[operator])
    assert files >= LISTS
    # Formats have an entry each, and functions may be made of the operator.
    entries = files_with(root, f'^    "{operator}": \\[')
    others = {file for file in files - LISTS if "/src/format/" not in file}
    rules = {file for file in others if file.startswith("crates/triune-graph/src/ops/")}
    lowerings = {file for file in others if file.startswith("crates/triune-compiler/src/lower/")}
    assert len(entries) == len(rules) == len(lowerings) == 1
    assert others == rules | lowerings, sorted(others)


@pytest.mark.parametrize("operator", WITH_KERNELS)
def test_an_operator_with_a_kernel_touches_eight_files(root: Path, operator: str) -> None:
    found = files_with(root, WITH_KERNELS[operator])
    # Formats have an entry each, and composite operators may be made of it.
    files = {file for file in found if "/src/format/" not in file and "/src/functions/" not in file}
    each = [{file for file in files if re.fullmatch(room, file)} for room in ROOMS]
    assert [len(room) for room in each] == [1] * len(ROOMS), each
    assert set.union(*each) | LISTS <= files <= set.union(*each) | AT_MOST, sorted(files)
    assert len(files) <= 8


# Functions whose last bits a C library decides. `triune_tensor::function::math` has our own.
C_LIBRARY = re.compile(
    r"\.(exp|exp2|exp_m1|ln|ln_1p|log|log2|log10|powf|cbrt|hypot|sin|cos|sin_cos|tan|asin|acos|atan|atan2|sinh|cosh|tanh"
    r"|asinh|acosh|atanh)\("
)


def test_no_number_comes_from_a_c_library(root: Path) -> None:
    found = []
    for path in root.glob("crates/*/src/**/*.rs"):
        if UNPUBLISHED & set(path.parts) or path.name == "tests.rs":
            continue
        code = path.read_text().partition("mod tests {")[0]
        found += [
            f"{path.relative_to(root)}: {line.strip()}"
            for line in code.splitlines()
            if C_LIBRARY.search(line) and not line.lstrip().startswith("//")
        ]
    assert found == []
