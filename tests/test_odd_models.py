"""Models with odd names and numbers: they run or are refused, never with an InternalError or a message without end."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import triune
from triune import errors
from triune.icraft import xir
from triune.megenginelite import LiteNetwork
from triune.models import DIGITS_F32, DIGITS_INT8

NAMES = [
    "n" * 10**6,
    "ü€😀" * 3000,
    "a\0b",
    "line\nbreak\r\t",
    "\u202eback",
    "{}",
    "{0!r}%s",
    "'",
    "",
    " " * 5000,
    "x y " * 2000,
]
NUMBERS = [0, -1, 1, 7, 255, 256, 300, 2**31 - 1, 2**31, -(2**31), 2**32, 2**62, -(2**63), 2**63 - 1]
LONGEST = 2000
MOST = 1 << 22
"""Elements of an input that is still fed."""


def check(error: Exception, what: str) -> None:
    """Fail unless the error is one of a model's, in some lines that can be printed."""
    assert isinstance(error, RuntimeError | ValueError | FileNotFoundError | AssertionError | MemoryError), (
        what,
        repr(error)[:300],
    )
    assert not isinstance(error, errors.InternalError), (what, str(error)[:LONGEST])
    assert "Some(" not in str(error), (what, str(error)[:LONGEST])
    assert len(str(error).encode("utf-8", "backslashreplace")) < LONGEST, (what, str(error)[:200])


def run(model: bytes) -> None:
    """Run a model on zeros, as far as its inputs' extents are some."""
    session = triune.Session(model)
    feeds = {}
    for info in session.inputs:
        shape = [extent if isinstance(extent, int) else 1 for extent in info.shape]
        if np.prod(shape, dtype=float) > MOST:
            return
        feeds[info.name] = np.zeros(shape, info.dtype)
    session.run(feeds)


def mutated(model: onnx.ModelProto, noise: random.Random) -> str:
    """Change one thing of the model and return what."""
    graph = model.graph
    node = noise.choice(graph.node)
    name, number = noise.choice(NAMES), noise.choice(NUMBERS)
    ints = [
        attribute
        for attribute in node.attribute
        if attribute.type in (onnx.AttributeProto.INT, onnx.AttributeProto.INTS)
    ]
    small = [
        one for one in graph.initializer if one.data_type in (2, 3, 6, 7) and np.prod(one.dims, dtype=float) < 4096
    ]
    match noise.randrange(8):
        case 0:
            node.name = name
            return f"node's name {name[:20]!r}"
        case 1:
            node.op_type = name
            return f"operator {name[:20]!r}"
        case 2 if node.input:
            node.input[noise.randrange(len(node.input))] = name
            return f"operand {name[:20]!r} of {node.op_type}"
        case 3 if node.output:
            node.output[noise.randrange(len(node.output))] = name
            return f"result {name[:20]!r} of {node.op_type}"
        case 4 if ints:
            attribute = noise.choice(ints)
            if attribute.type == onnx.AttributeProto.INT:
                attribute.i = number
            else:
                attribute.ints[noise.randrange(len(attribute.ints)) if attribute.ints else 0 :] = [number]
            return f"{attribute.name} = {number} of {node.op_type}"
        case 5 if node.attribute:
            noise.choice(node.attribute).name = name
            return f"attribute {name[:20]!r} of {node.op_type}"
        case 6 if small:
            tensor = noise.choice(small)
            array = onnx.numpy_helper.to_array(tensor).copy()
            array.reshape(-1)[:1] = np.array(number).astype(array.dtype)
            tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
            return f"element {number} of {tensor.name}"
        case _:
            value = noise.choice([*graph.input, *graph.output])
            if noise.random() < 0.5:
                value.name = name
                return f"border {name[:20]!r}"
            dims = value.type.tensor_type.shape.dim
            if dims:
                noise.choice(dims).dim_value = number
            return f"extent {number} of {value.name}"


def models(test_data: Path) -> Iterator[Path]:
    """Yield small models of many operators."""
    yield from (DIGITS_INT8, DIGITS_F32)
    yield from (
        path for path in sorted((test_data / "models" / "onnx").glob("*.onnx")) if path.stat().st_size < 500_000
    )


def test_odd_onnx_models(test_data: Path) -> None:
    refused = 0
    for path in models(test_data):
        noise, content = random.Random(path.name), path.read_bytes()
        for _ in range(40):
            model = onnx.load_from_string(content)
            what = f"{path.name}: {mutated(model, noise)}"
            try:
                run(model.SerializeToString())
            except Exception as error:
                check(error, what)
                refused += 1
    assert refused > 20


def changed(value: Any, noise: random.Random, chance: float) -> Any:
    """Return a document with some of its names and numbers changed."""
    match value:
        case dict():
            return {key: changed(item, noise, chance) for key, item in value.items()}
        case list():
            return [changed(item, noise, chance) for item in value]
        case str() if noise.random() < chance:
            return noise.choice(NAMES)
        case int() if not isinstance(value, bool) and noise.random() < chance:
            return noise.choice(NUMBERS)
    return value


def test_odd_xir_documents(test_data: Path, tmp_path: Path) -> None:
    files = sorted((test_data / "models" / "xir").glob("*.json"), key=lambda path: path.stat().st_size)[:2]
    assert files
    refused = 0
    for path in files:
        noise, document = random.Random(path.name), json.loads(path.read_bytes())
        odd = tmp_path / "odd.json"
        for index in range(6):
            odd.write_text(json.dumps(changed(document, noise, 0.0003)))
            for read in (triune.Session, xir.Network.CreateFromJsonFile):
                try:
                    read(odd)
                except Exception as error:
                    check(error, f"{path.name} {index}")
                    refused += 1
    assert refused > 2


@pytest.mark.parametrize("name", ["multi_io.mge", "simple_add.mge", "dyn_conv.mge"])
def test_odd_mge_models(test_data: Path, tmp_path: Path, name: str) -> None:
    content = (test_data / "models" / "mge" / name).read_bytes()
    noise, odd = random.Random(name), tmp_path / "odd.mge"
    refused = 0
    for _ in range(60):
        damaged = bytearray(content)
        for _ in range(noise.randrange(1, 4)):
            at = noise.randrange(len(damaged) - 8)
            fill = noise.choice([b"\0", b"\xff", b"\x7f", "ü".encode(), noise.randbytes(4)])
            damaged[at : at + len(fill)] = fill
        odd.write_bytes(damaged)
        for read in (lambda path: run(path.read_bytes()), LiteNetwork().load):
            try:
                read(odd)
            except Exception as error:
                check(error, name)
                refused += 1
    assert refused > 10
