"""Docstrings of what is used most have an example that runs."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import inspect
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
