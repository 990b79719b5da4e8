"""Every published member of `xir` that is claimed is there; names, stubs and operators agree with their tables."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import triune
from triune.icraft import xir
from triune.icraft._xir.enums import VendorEnum
from triune.icraft._xir.operation import OPERATORS


def _load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


coverage = _load(Path(__file__).with_name("coverage.py"))
signatures = _load(Path(__file__).with_name("signatures.py"))
stubs = _load(Path(__file__).parents[2] / "tools/operator_stubs.py")


@pytest.mark.parametrize("name", coverage.MODULES)
def test_every_claimed_member_is_there(name: str) -> None:
    module = importlib.import_module(f"triune.icraft.{name}")
    members = coverage.claimed(name)
    assert len(members) > 10
    assert [pair for pair in members if not coverage.is_there(module, *pair)] == []


def test_the_question_can_be_answered_with_no() -> None:
    for owner, member in [
        ("Nothing", ""),
        ("-", "Nothing()"),
        ("Conv2d", "nothing"),
        ("Conv2d", "typeKey="),
        ("Value", "name="),
        ("Framework", "NOTHING"),
    ]:
        assert not coverage.is_there(xir, owner, member)


@pytest.mark.parametrize("name", coverage.MODULES)
def test_the_claims_are_the_published_interface(name: str, test_data: Path) -> None:
    path = test_data / "spec" / "icraft_api.json"
    if not path.exists():
        pytest.skip(f"no {path}")
    members = list(coverage.described(json.loads(path.read_text())[name]))
    assert [pair for pair in members if not coverage.is_left_out(name, *pair)] == coverage.claimed(name)
    assert coverage.main([str(path)]) == 0


@pytest.mark.parametrize("name", coverage.MODULES)
def test_published_parameters_are_accepted(name: str, test_data: Path) -> None:
    path = test_data / "spec" / "icraft_api.json"
    if not path.exists():
        pytest.skip(f"no {path}")
    module = importlib.import_module(f"triune.icraft.{name}")
    calls = [
        call
        for call in signatures.methods(json.loads(path.read_text())[name])
        if not coverage.is_left_out(name, *call[:2])
    ]
    assert len(calls) > 10
    refused = {".".join(call[:2]): why for call in calls if (why := signatures.refusal(module, *call))}
    assert refused == {}


def test_a_call_can_be_refused() -> None:
    assert signatures.refusal(xir, "Value", "setId", "(self, other: int) -> Value")
    assert signatures.refusal(xir, "Conv2d", "__init__", "(self, input: Value, other: Value) -> None")
    assert signatures.refusal(xir, "Layout", "Default", "static (size: int, more: int) -> Layout")


def test_names_are_exported_once_and_are_all_there() -> None:
    assert sorted(set(xir.__all__)) == sorted(xir.__all__)
    assert [name for name in xir.__all__ if not hasattr(xir, name)] == []
    namespace: dict[str, Any] = {}
    exec("from triune.icraft.xir import *", namespace)
    assert set(xir.__all__) <= set(namespace)
    assert namespace["NONE"] is xir.RoundingMode.NONE
    former = {
        "Maxpool": "MaxPool2d",
        "Avgpool": "AvgPool2d",
        "Batchnorm": "BatchNorm2d",
        "Relu": "ReLU",
        "Silu": "SiLU",
    }
    former |= {"Prelu": "PReLU", "Elu": "ELU", "Gelu": "GELU", "Layernorm": "LayerNorm"}
    former |= {f"Conv{count}dTranspose": f"ConvTranspose{count}d" for count in (1, 2, 3)}
    assert all(getattr(xir, old) is getattr(xir, new) for old, new in former.items())


@pytest.mark.parametrize(("path", "text"), stubs.stubs().items(), ids=lambda given: getattr(given, "name", None))
def test_the_stubs_are_those_of_the_tables(path: Path, text: str) -> None:
    assert ast.dump(ast.parse(path.read_text())) == ast.dump(ast.parse(text)), "run tools/operator_stubs.py"


@pytest.mark.parametrize("key", OPERATORS)
def test_operators_describe_themselves(key: str) -> None:
    operator: Any = OPERATORS[key]
    assert operator.__doc__
    assert operator.__module__ == "triune.icraft.xir"
    assert getattr(xir, operator.__name__) is operator
    assert inspect.signature(operator)
    empty = operator.Init()
    assert empty.defined()
    assert empty.typeKey() == operator.type_key == f"icraft::xir::{operator.__name__}Node"
    for name, attribute in operator._table.items():
        assert getattr(empty, name) == empty.getAttr(name) == attribute.initial()
        said = inspect.getattr_static(operator, name).__doc__
        assert said == attribute.doc
        assert f"{name} ({attribute.kind.shown}): {said}" in operator.__doc__
        default = attribute.default
        if isinstance(default, bool | int | float | VendorEnum):
            assert f" {getattr(default, 'name', default)} unless it is given" in said
        for bound, word, beyond in ((attribute.low, "least", -1), (attribute.high, "most", 1)):
            if bound is not None:
                assert f" at {word} {bound}" in said
                empty.setAttr(name, bound + beyond)
                with pytest.raises(xir.Error, match=f"{name}: {bound + beyond} is "):
                    empty.checkBound()
                empty.setAttr(name, attribute.initial())


def test_importing_loads_neither_numpy_nor_the_native_module() -> None:
    code = "import sys, triune.icraft.xir\nprint('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_the_package_says_that_it_has_types() -> None:
    assert Path(triune.__file__).with_name("py.typed").exists()
