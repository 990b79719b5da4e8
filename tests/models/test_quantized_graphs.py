"""Random graphs that quantize in every way that ONNX allows, against ONNX Runtime: no value further off than the graph explains.

The full count: python tests/models/test_quantized_graphs.py --cases 100000; on cards, with --cards
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import multiprocessing
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import triune
from triune.axelera import runtime as axr

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

Array = np.ndarray[Any, Any]
SLICES, CASES = 10, 40
"""What a run of the tests looks at: slices, and cases of each."""


def _generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("quantized_graphs", Path(__file__).with_name("quantized_graphs.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


graphs = _generator()


def references(model: bytes, inputs: dict[str, Array]) -> list[list[Array]]:
    """Return what ONNX Runtime makes of the graph as it is written, and with its fusions where these apply."""
    results = []
    for level in (
        onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
        onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
    ):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = level
        options.intra_op_num_threads = 1
        options.add_session_config_entry("session.qdqisint8allowed", "1")
        try:
            session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
            results.append(session.run(None, inputs))
        except Exception as error:
            # Its fusions make invalid graphs of some valid ones; as written, all must run.
            if not results and "NOT_IMPLEMENTED" not in str(error):
                raise
    return results


def distance(mine: Array, theirs: Array, bound: float, computed: bool) -> float:
    """Return by how much the bound is exceeded at most."""
    a, b = mine.astype(np.float64), theirs.astype(np.float64)
    slack = 0.0
    if mine.dtype == np.float32:
        largest = float(np.abs(b[np.isfinite(b)]).max(initial=0.0))
        slack = 1e-6 * largest + (1e-4 * np.abs(b) + 1e-5 if computed else 0.0)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    excess = np.where(same, 0.0, np.abs(a - b) - bound * (1 + 1e-6) - slack)
    return float(excess.max(initial=0.0))


def examine(seed: int, enters: Callable[[str], None] = lambda _: None) -> str:
    """Compare one case; return what came of it, "wrong" and more for a difference that nothing explains.

    `enters` is told whose code is about to run, for who watches a process that may die there.
    """
    case = graphs.case(seed)
    if not case.bounds:
        return "empty"
    enters("ONNX Runtime")
    expected = references(case.model, case.inputs)
    if not expected:
        return "not in ONNX Runtime"
    enters("Triune")
    try:
        got = triune.Session(case.model).run(case.inputs)
    except triune.errors.Error as error:
        return f"refused: {error}"
    verdict = "equal bits"
    for index, (mine, bound) in enumerate(zip(got, case.bounds, strict=True)):
        candidates = [result[index] for result in expected]
        if any(mine.dtype != theirs.dtype or mine.shape != theirs.shape for theirs in candidates):
            return f"wrong type or shape: seed {seed}, output {index}"
        if any(np.array_equal(mine, theirs, equal_nan=True) for theirs in candidates):
            continue
        verdict = "within the bound"
        if min(distance(mine, theirs, bound, case.computed[index]) for theirs in candidates) > 0:
            return f"wrong: seed {seed}, output {index} of {case.operators}"
    return verdict


def run_on_card(package: Path, image: Array) -> dict[str, Array]:
    """Run one image as a client does: host graph, quantize and pad, card, depad and dequantize, host graph."""
    manifest = json.loads((package / "manifest.json").read_text())

    def host(graph: str | None, tensors: dict[str, Array]) -> dict[str, Array]:
        if graph is None:
            return tensors
        session = triune.Session(package / graph)
        results = session.run({name: tensors[name] for name, *_ in session.inputs})
        return {name: result for (name, *_), result in zip(session.outputs, results, strict=True)}

    with axr.Context() as context:
        model = context.load_model(package / "model.json")
        instance = context.device_connect(None, 1).load_model_instance(model)
        sources = []
        before = host(manifest["preprocess_graph"], {"x0": image})
        for info in model.inputs():
            # Several inputs may be quantized from one tensor.
            real = before[info.name]
            # Rows and columns that lower ranks do not have.
            rows = len(real) if real.ndim > 1 else 1
            last = real.transpose(0, 2, 3, 1) if real.ndim == 4 else real.reshape(rows, 1, -1, real.shape[-1])
            if info.dtype != np.int8:
                # For the host's parts between, as it is.
                sources.append(np.ascontiguousarray(last).reshape(info.shape))
                continue
            quantized = np.round(last / np.float32(info.scale)) + info.zero_point
            source = np.where(np.isnan(quantized), -128, quantized).clip(-128, 127).astype(np.int8)
            padded = np.pad(source, info.padding, constant_values=info.zero_point)
            sources.append(np.ascontiguousarray(padded))
        results = [np.zeros(info.shape, info.dtype) for info in model.outputs()]
        instance.run(sources, results)
        reals = {}
        for info, result, shape in zip(model.outputs(), results, manifest["output_shapes_original"], strict=True):
            depadded = result[tuple(slice(b, -e if e else None) for b, e in info.padding)]
            real = (depadded.astype(np.float32) - info.zero_point) * np.float32(info.scale)
            plane = real.transpose(0, 3, 1, 2) if len(shape) == 4 else real.reshape(shape)
            reals[info.name] = np.ascontiguousarray(plane)
    # The last part may read the model's inputs, past the card.
    return host(manifest["postprocess_graph"], {"x0": image} | reals)


def examine_card(seed: int, folder: Path) -> str:
    """Compare a card with the host; return what came of it."""
    case = graphs.case(seed, image=True)
    if not case.bounds:
        return "empty"
    file = folder / f"{seed}.onnx"
    file.write_bytes(case.model)
    try:
        package = Path(triune.compile(file, target="metis", output=folder / f"{seed}"))
    except triune.errors.Error:
        return "not for a card"
    try:
        session = triune.Session(file)
    except triune.errors.UnsupportedError as error:
        # Linear resizing of integers that nobody gives a meaning.
        return f"not in a session: {error}"
    expected = session.run(case.inputs)
    got = run_on_card(package, case.inputs["x0"])
    for (name, *_), host in zip(session.outputs, expected, strict=True):
        if not np.array_equal(got[name], host, equal_nan=True):
            return f"wrong: seed {seed}, output {name} of {case.operators}"
    return "equal bits"


def test_cards(tmp_path):
    verdicts = Counter(examine_card(seed, tmp_path) for seed in range(150))
    assert not [verdict for verdict in verdicts if verdict.startswith("wrong")]
    assert verdicts["equal bits"] >= 15, verdicts


@pytest.mark.parametrize("seed", [500030, 500602])
def test_integers_taken_for_other_reals(seed, tmp_path):
    """The host quantizes by one scale, and the card's operands are what another makes of these integers."""
    assert examine_card(seed, tmp_path) == "equal bits"


def renamed(model: bytes, names: dict[str, str]) -> bytes:
    """Return the model with other names for its tensors."""
    proto = onnx.load_from_string(model)
    of = {**{name: name for node in proto.graph.node for name in (*node.input, *node.output)}, **names}
    for node in proto.graph.node:
        node.input[:] = [of[name] for name in node.input]
        node.output[:] = [of[name] for name in node.output]
    for value in proto.graph.output:
        value.name = of[value.name]
    return proto.SerializeToString()


def test_cards_take_no_name_for_where_a_value_came_from(tmp_path):
    """A model may own `x` and `x#1`, which are two tensors, not one and a piece of it."""
    compared = 0
    for seed in range(150):
        case = graphs.case(seed, image=True)
        if not case.bounds:
            continue
        made = [name for node in onnx.load_from_string(case.model).graph.node for name in node.output]
        names = {name: f"x#{number}" if number else "x" for number, name in enumerate(made)}
        for number, model in enumerate([case.model, renamed(case.model, names)]):
            (tmp_path / f"{seed}_{number}.onnx").write_bytes(model)
        plain, other = (tmp_path / f"{seed}_{number}.onnx" for number in range(2))
        try:
            packages = [
                Path(triune.compile(file, target="metis", output=file.with_suffix(""))) for file in (plain, other)
            ]
        except triune.errors.Error:
            continue
        image = case.inputs["x0"]
        results = [run_on_card(package, image) for package in packages]
        for (name, *_), host in zip(triune.Session(plain).outputs, triune.Session(plain).run(case.inputs), strict=True):
            assert np.array_equal(results[0][name], host, equal_nan=True)
            assert np.array_equal(results[1][names[name]], host, equal_nan=True), f"seed {seed}: {names[name]}"
        compared += 1
    assert compared >= 15


def test_data_errors_behind_a_card_name_node_and_operand(tmp_path):
    """What a card computes is an index into 3 elements: 2 is one, 5 is none."""
    helper = onnx.helper
    nodes = [
        helper.make_node("QuantizeLinear", ["x0", "scale", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["r"]),
        helper.make_node("Conv", ["r", "w"], ["c"], kernel_shape=[1, 1]),
        helper.make_node("QuantizeLinear", ["c", "scale", "zero"], ["q2"]),
        helper.make_node("DequantizeLinear", ["q2", "scale", "zero"], ["r2"]),
        helper.make_node("Cast", ["r2"], ["index"], to=onnx.TensorProto.INT64),
        helper.make_node("Gather", ["table", "index"], ["y"], name="pick"),
    ]
    weights = helper.make_node("DequantizeLinear", ["w8", "w_scale", "w_zero"], ["w"])
    constants = {
        "scale": np.float32(0.5),
        "zero": np.int8(0),
        "w8": np.ones((1, 1, 1, 1), np.int8),
        "w_scale": np.float32(1.0),
        "w_zero": np.int8(0),
        "table": np.array([10, 20, 30], np.float32),
    }
    graph = helper.make_graph(
        [weights, *nodes],
        "pick",
        [helper.make_tensor_value_info("x0", onnx.TensorProto.FLOAT, (1, 1, 2, 2))],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, (1, 1, 2, 2))],
        [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    file = tmp_path / "pick.onnx"
    file.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]).SerializeToString())
    package = Path(triune.compile(file, target="metis", output=tmp_path / "pick"))
    right = np.array([[[[0, 1], [2, -1]]]], np.float32)
    assert run_on_card(package, right)["y"].tolist() == [[[[10, 20], [30, 30]]]]
    for wrong in (5, -4):
        with pytest.raises(triune.errors.ArgumentError) as raised:
            run_on_card(package, np.full((1, 1, 2, 2), wrong, np.float32))
        assert f"index {wrong} is outside of axis 0 of extent 3" in str(raised.value)
        assert (raised.value.node, raised.value.operand) == ("pick", "indices")
    assert run_on_card(package, right)["y"].tolist() == [[[[10, 20], [30, 30]]]]


@pytest.mark.parametrize("part", range(SLICES))
def test_slice(part):
    verdicts = Counter(examine(seed) for seed in range(part * CASES, (part + 1) * CASES))
    assert not [verdict for verdict in verdicts if verdict.startswith("wrong")]
    # What is compared must not dwindle unseen.
    assert verdicts["equal bits"] >= CASES * 0.6, verdicts


def examine_range(seeds: range, cards: bool, results: Connection) -> None:
    """Examine cases one after another; send whose code runs, and what came of each."""
    for seed in seeds:
        if cards:
            with tempfile.TemporaryDirectory() as folder:
                verdict = examine_card(seed, Path(folder))
        else:
            verdict = examine(seed, lambda who: results.send((who, None)))
        results.send(("Triune", verdict))


def examine_apart(seeds: range, cards: bool) -> Iterator[tuple[int, str]]:
    """Examine cases in a process apart, and go on behind a case that ends it: ONNX Runtime itself does at a few."""
    context = multiprocessing.get_context("spawn")
    while seeds:
        mine, theirs = context.Pipe(duplex=False)
        process = context.Process(target=examine_range, args=(seeds, cards, theirs))
        process.start()
        theirs.close()
        who = "Triune"
        try:
            while seeds:
                who, verdict = mine.recv()
                if verdict is not None:
                    yield seeds[0], verdict
                    seeds = seeds[1:]
        except EOFError:
            process.join()
            how = f"{who} ends the process with {process.exitcode}"
            yield seeds[0], how if who == "ONNX Runtime" else f"wrong: {how}"
            seeds = seeds[1:]
        process.join()


def main() -> None:
    """Compare as many cases as asked for."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--cards", action="store_true", help="compare a virtual card with the host instead")
    arguments = parser.parse_args()
    verdicts: Counter[str] = Counter()
    for seed, verdict in examine_apart(range(arguments.first, arguments.first + arguments.cases), arguments.cards):
        if verdict.startswith("wrong"):
            print(f"{verdict} (seed {seed})", flush=True)
            verdict = "wrong"
        elif " ends " in verdict:
            print(f"{verdict} (seed {seed})", flush=True)
        verdicts[re.sub(r"node '\w+'", "a node", verdict)] += 1
    for verdict, count in verdicts.most_common():
        print(f"{count:8} {verdict}")
    sys.exit(verdicts["wrong"] > 0)


if __name__ == "__main__":
    main()
