"""Docstrings of what is used most have an example that runs."""

from __future__ import annotations

import ast
import builtins
import doctest
import importlib
import importlib.util
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# By the import names that programs use.
MOST_USED = (
    "triune.Session",
    "triune.Session.run",
    "triune.Session.run_async",
    "triune.Session.prepare",
    "triune.Session.clone",
    "triune.Session.profile",
    "triune.Session.feeds",
    "triune.compile",
    "triune.quantize",
    "triune.compare",
    "triune.DetPost",
    "triune.models.digits_held_out",
    "triune.batch.predict",
    "triune.batch.Predictions.write",
    "triune.batch.Predictions.to_arrow",
    "triune.batch.Preprocess",
    "triune.batch.Preprocess.imagenet",
    "triune.profiling.profile",
    "triune.profiling.explore",
    "triune.profiling.compose",
    "triune.profiling.on_cores",
    "triune.axelera.runtime.Context",
    "triune.axelera.runtime.Context.load_model",
    "triune.axelera.runtime.Context.list_devices",
    "triune.axelera.runtime.Context.device_connect",
    "triune.axelera.runtime.Connection.load_model_instance",
    "triune.axelera.runtime.ModelInstance.run",
    "triune.axelera.runtime.ModelInstance.profile",
    "triune.icraft.xir.Network",
    "triune.icraft.xir.Network.CreateFromJsonFile",
    "triune.icraft.xir.TensorType",
    "triune.icraft.xir.Layout",
    "triune.icraft.xrt.Device.Open",
    "triune.icraft.xrt.Session.Create",
    "triune.icraft.xrt.Session.forward",
    "triune.icraft.xrt.Tensor",
    "triune.megenginelite.LiteNetwork",
    "triune.megenginelite.LiteNetwork.load",
    "triune.megenginelite.LiteNetwork.forward",
    "triune.megenginelite.LiteTensor",
)

PARTS = {
    "triune.quantize": "onnxruntime",
    "triune.compare": "onnxruntime",
    "triune.batch.Predictions.to_arrow": "pyarrow",
}
"""What some need besides: not every machine has it."""


def named(name: str) -> Any:
    """Return a function or class by its dotted name."""
    words = name.split(".")
    for count in range(len(words), 0, -1):
        if importlib.util.find_spec(words[0]) and (module := _module(".".join(words[:count]))) is not None:
            found: Any = module
            for word in words[count:]:
                found = getattr(found, word)
            return found
    raise AssertionError(name)


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


@pytest.mark.parametrize("name", MOST_USED)
def test_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name in PARTS:
        pytest.importorskip(PARTS[name])
    # Of the class itself, not of what it comes from.
    text = named(name).__doc__
    assert text
    example = doctest.DocTestParser().get_doctest(inspect.cleandoc(text), {}, name, None, 0)
    assert example.examples
    monkeypatch.chdir(tmp_path)
    said: list[str] = []
    result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, out=said.append)
    assert result.failed == 0, "".join(said)


def test_thirty_are_used_most() -> None:
    assert len(set(MOST_USED)) == len(MOST_USED) >= 30


EXCEPTION = re.compile(r"\b[A-Z]\w*(?:Error|Exception|Interrupt|Iteration)\b|\bNotSupported\b|\bInvalidArgument\b")
OTHERS = {"CancelledError"} | set(vars(builtins))
"""Those that are not Triune's."""


def docstrings(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the docstrings of a file with what they are of."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and (
            text := ast.get_docstring(node)
        ):
            yield node.name, text


def test_exceptions_that_docstrings_name_exist(root: Path) -> None:
    trees = {path: ast.parse(path.read_text()) for path in sorted((root / "python/triune").rglob("*.py"))}
    made = {node.name for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    native = set(re.findall(r"class (\w+)\(", (root / "python/triune/_native.pyi").read_text()))
    found = [
        f"{path.relative_to(root)}: {name}: {exception}"
        for path, tree in trees.items()
        for name, text in docstrings(tree)
        for exception in EXCEPTION.findall(text)
        if exception not in made | native | OTHERS
    ]
    assert not found, "\n".join(found)
