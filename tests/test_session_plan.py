"""`triune.Session.plan` and `triune inspect --plan`: what they say is what a run does."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import triune
from triune import errors
from triune.cli import main
from triune.models import DIGITS_INT8

SHAPE = {"image": (8, 1, 8, 8)}


def _onnx(nodes: list[tuple[str, list[str], list[str]]], shape: list[Any], outputs: list[str], kind: int = 1) -> bytes:
    """Return a model of float operators, of which the input is x."""
    helper = pytest.importorskip("onnx").helper
    made = [helper.make_node(op, inputs, results, name=f"{op}_{results[0]}") for op, inputs, results in nodes]
    results = [helper.make_tensor_value_info(name, kind, None) for name in outputs]
    graph = helper.make_graph(made, "g", [helper.make_tensor_value_info("x", 1, shape)], results)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    content: bytes = model.SerializeToString()
    return content


def test_it_is_what_runs() -> None:
    session = triune.Session(DIGITS_INT8, threads=2)
    plan = session.plan(SHAPE)
    (part,) = plan.parts
    assert (plan.threads, part.strips, part.hosted) == (2, (), ())
    with_commands = [(each.name, each.kind) for each in part.operators if each.commands]
    timed = session.profile({"image": np.zeros(SHAPE["image"], np.float32)}, runs=1).operators
    assert with_commands == [(each.name, each.kind) for each in timed]
    assert [command.number for command in part.commands] == list(range(len(part.commands)))
    # What the model has, and nothing twice but what is computed twice.
    stem, block = (operator for operator in part.operators if operator.name in ("stem", "block"))
    assert [kind for _, kind in stem.made_of] == ["DequantizeLinear", "Conv", "QuantizeLinear"]
    assert [kind for _, kind in block.made_of].count("Add") == 1
    assert {name for each in part.operators for name, _ in each.made_of} >= {"stem", "block", "wide", "mix", "head"}
    assert stem.outputs[0][1:] == ("uint8", (8, 16, 8, 8))
    assert stem.commands[0].bytes == 8 * 16 * 8 * 8
    assert part.commands[-1].output == "logits"
    assert part.commands[-1].offset is None


def test_memory_is_what_is_planned() -> None:
    session = triune.Session(DIGITS_INT8)
    plan = session.plan(SHAPE)
    (part,) = plan.parts
    native = session._native.memory_plan()
    assert [(each.offset, each.bytes, each.first, each.last + 1) for each in part.maps] == native["buffers"]
    assert (part.map_bytes, part.lower_bound) == (native["bytes"], native["lower_bound"])
    assert max(part.alive) <= part.map_bytes
    assert max(part.alive) == part.lower_bound
    assert part.border_bytes == 8 * 64 * 4 + 8 * 10 * 4
    assert plan.workspace_bytes >= part.map_bytes + part.border_bytes
    assert plan.packed_bytes > plan.weight_bytes > 0
    for command in part.commands:
        if command.place == "workspace":
            assert command.first is not None
            assert command.last is not None
            assert command.first <= command.number < command.last
            assert command.offset is not None
            assert command.offset + command.bytes <= part.map_bytes
        else:
            assert command.first is command.last is None


def test_a_larger_batch_takes_more() -> None:
    session = triune.Session(DIGITS_INT8)
    few, many = session.plan(SHAPE), session.plan({"image": (16, 1, 8, 8)})
    assert many.parts[0].map_bytes > few.parts[0].map_bytes
    assert many.packed_bytes == few.packed_bytes
    assert session.plan() == many
    assert session.plan(SHAPE).parts == few.parts


def test_strips() -> None:
    nodes = [("Exp", ["x"], ["e"]), ("Neg", ["e"], ["m"]), ("Add", ["m", "e"], ["y"])]
    session = triune.Session(_onnx(nodes, ["n", 256], ["y"]))
    (part,) = session.plan({"x": (4096, 256)}).parts
    (strips,) = part.strips
    assert (strips.first, strips.last) == (0, 2)
    assert (strips.strips - 1) * strips.each < strips.rows <= strips.strips * strips.each
    assert [(command.place, command.output) for command in part.commands] == [
        ("strip", None),
        ("strip", None),
        ("output", "y"),
    ]
    # What the whole cache has room for is not cut.
    assert session.plan({"x": (2, 256)}).parts[0].strips == ()


def test_stages() -> None:
    nodes = [("Abs", ["x"], ["a"]), ("NonZero", ["a"], ["i"]), ("Neg", ["i"], ["y"])]
    session = triune.Session(_onnx(nodes, ["n"], ["y"], kind=7))
    first, second = session.plan({"x": (5,)}).parts
    assert [each.kind for each in first.operators] == ["Abs"]
    assert first.hosted == (("NonZero_i", "NonZero"),)
    assert second.operators == ()
    assert "stage 1: nothing compiled yet" in str(session.plan())
    session.run({"x": np.array([0, 1, 0, 2, 3], np.float32)})
    second = session.plan().parts[1]
    assert [(each.kind, each.outputs[0].shape) for each in second.operators] == [("Neg", (1, 3))]


def test_views_and_composites() -> None:
    nodes = [("Relu", ["x"], ["r"]), ("Flatten", ["r"], ["f"]), ("Softplus", ["f"], ["s"]), ("Identity", ["s"], ["y"])]
    (part,) = triune.Session(_onnx(nodes, [2, 3, 4], ["y"])).plan().parts
    flat = next(each for each in part.operators if any(kind == "Flatten" for _, kind in each.made_of))
    assert flat.commands == ()
    assert flat.outputs[0].shape == (2, 12)
    covered = [kind for each in part.operators for _, kind in each.made_of]
    assert [kind for kind in covered if kind != "Identity"] == ["Relu", "Flatten", "Softplus"]


@pytest.mark.parametrize("isa", ["scalar", "avx2"])
def test_the_instruction_set_is_that_of_the_environment(isa: str) -> None:
    code = (
        "import json, triune; from triune.models import DIGITS_INT8\n"
        "plan = triune.Session(DIGITS_INT8).plan({'image': (1, 1, 8, 8)})\n"
        "print(json.dumps([plan.isa, [c.method for c in plan.parts[0].commands if c.name == 'qconv']]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "TRIUNE_ISA": isa}, capture_output=True, text=True, check=True
    )
    found, methods = json.loads(done.stdout)
    if found != isa:
        pytest.skip(f"this machine has no {isa}")
    assert all(method == "plain" for method in methods) == (isa == "scalar")


def test_objects() -> None:
    plan = triune.Session(DIGITS_INT8).plan(SHAPE)
    assert pickle.loads(pickle.dumps(plan)) == plan
    assert isinstance(plan, triune.SessionPlan)
    with pytest.raises(AttributeError):
        plan.threads = 3  # type: ignore[misc]
    told = json.loads(json.dumps(plan.to_dict()))
    (part,) = told["parts"]
    assert part["operators"][1]["made_of"][1] == {"name": "stem", "kind": "Conv"}
    assert part["operators"][1]["outputs"][0]["shape"] == [8, 16, 8, 8]
    assert part["alive"] == list(plan.parts[0].alive)
    assert set(part["maps"][0]) == {"offset", "bytes", "first", "last"}
    assert repr(plan).startswith(f"<triune.SessionPlan {len(plan.parts[0].commands)} commands")
    assert plan._repr_html_().count("<tr>") == len(str(plan).split("\n\n")[0].splitlines())


def test_what_ran_last_is_shown_where_nothing_was_prepared() -> None:
    session = triune.Session(DIGITS_INT8)
    for images in (3, 5):
        session.run(None, {"image": np.zeros((images, 1, 8, 8), np.float32)})
        assert session.plan().parts[0].operators[1].outputs[0].shape == (images, 16, 8, 8)
    session.prepare(SHAPE)
    session.run(None, {"image": np.zeros((2, 1, 8, 8), np.float32)})
    assert session.plan().parts[0].operators[1].outputs[0].shape == (8, 16, 8, 8)


def test_refusals() -> None:
    session = triune.Session(DIGITS_INT8)
    with pytest.raises(errors.ArgumentError, match="shapes are not known; call prepare first"):
        session.plan()
    with pytest.raises(errors.ArgumentError, match="did you mean 'image'"):
        session.plan({**SHAPE, "imag": (1, 1, 8, 8)})
    session.close()
    with pytest.raises(errors.ReleasedError):
        session.plan(SHAPE)


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ask = ["inspect", str(DIGITS_INT8), "--plan", "--threads", "2", "--shape", "image=8,1,8,8"]
    assert main(ask) == 0
    out = capsys.readouterr().out
    assert str(triune.Session(DIGITS_INT8, threads=2).plan(SHAPE)) in out
    assert "Conv stem: uint8 (8, 16, 8, 8) = DequantizeLinear + Conv + QuantizeLinear" in out
    assert "2 threads at most" in out
    assert main([*ask, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["plan"] == json.loads(json.dumps(triune.Session(DIGITS_INT8, threads=2).plan(SHAPE).to_dict()))
    assert found["operators"]["Conv"] == 4
    package = triune.compile(DIGITS_INT8, target="metis", output=tmp_path / "package")
    for arguments, words in (
        ([str(package), "--plan"], f"triune profile {package} shows its commands"),
        ([str(DIGITS_INT8), "--threads", "2"], "--threads: belongs to --plan"),
    ):
        assert main(["inspect", *arguments]) == 1
        assert words in capsys.readouterr().err
    assert main(["inspect", str(DIGITS_INT8), "--json"]) == 0
    assert "plan" not in json.loads(capsys.readouterr().out)
