"""Networks as quantizers write them, compiled for every target: the same bits on cards, boards and the host, and in ONNX Runtime.

The full count: python tests/models/test_deployable_networks.py --cases 2000
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import triune
from triune.cli.pipeline import Pipeline
from triune.icraft.buyibackend import BuyiBackend
from triune.icraft.host_backend import HostBackend
from triune.icraft.xir import Layout, Network
from triune.icraft.xrt import Device, HostDevice, Session, Tensor
from triune.icraft.zg330backend import ZG330Backend
from triune.profiling import profile

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

Array = np.ndarray[Any, Any]
CASES = 40
"""Grown networks that a run of the tests looks at."""
BOARDS: dict[str, tuple[Any, str, str]] = {
    "zg330": (ZG330Backend, "axi://zg330aiu", "ZG"),
    "buyi": (BuyiBackend, "axi://ql100aiu", "BY"),
}


def _networks() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "deployable_networks", Path(__file__).with_name("deployable_networks.py")
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


networks = _networks()


def reference(model: bytes, feeds: dict[str, Array], optimized: bool = True) -> list[Array]:
    """Return what ONNX Runtime makes of a model."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return [np.asarray(result) for result in session.run(None, feeds)]


def forward(session: Session, feeds: dict[str, Array], ranks: list[int]) -> list[Array]:
    """Return a session's results with channels in front."""
    session.apply()
    inputs = [
        Tensor(np.ascontiguousarray(x.transpose(0, 2, 3, 1)), Layout("NHWC"))
        if x.ndim == 4
        else Tensor(x, Layout("*" * (x.ndim - 1) + "C"))
        for x in feeds.values()
    ]
    results = [np.array(result.to(HostDevice.MemRegion())) for result in session.forward(inputs)]
    return [y.transpose(0, 3, 1, 2) if rank == 4 else y for y, rank in zip(results, ranks, strict=True)]


def load(folder: Path, stage: str) -> Network:
    """Return a network that `triune.compile` wrote."""
    (file,) = folder.glob(f"*_{stage}.json")
    network = Network.CreateFromJsonFile(file)
    network.loadParamsFromFile(file.with_suffix(".raw"))
    return network


def boards(file: Path, target: str, feeds: dict[str, Array], ranks: list[int]) -> tuple[list[Array], list[Array]]:
    """Return what a board gives with the host behind it, and what the host gives for the network before it has commands."""
    folder = file.with_name(f"{file.stem}_{target}")
    triune.compile(file, target=target, output=folder, format="icraft")
    backend, url, suffix = BOARDS[target]
    network = load(folder, suffix)
    devices = [Device.Open(url), HostDevice.Default()]
    mine = forward(Session.Create([backend, HostBackend], network.view(0), devices), feeds, ranks)
    host = Session.Create([HostBackend], load(folder, "adapted").view(0), [HostDevice.Default()])
    return mine, forward(host, feeds, ranks)


def card(file: Path, feeds: dict[str, Array], names: list[str]) -> list[Array]:
    """Return what a card gives with the host's parts around it."""
    folder = file.with_name(f"{file.stem}_metis")
    triune.compile(file, target="metis", output=folder)
    with Pipeline(folder / "model.json", None, 1) as pipeline:
        results = pipeline.run(feeds, lambda *_: None)
    return [results[name] for name in names]


BY_REALS = {
    "MatMul",
    "Sub",
    "LayerNormalization",
    "ReduceMean",
    "BatchNormalization",
    "Resize",
    "Tanh",
    "Erf",
    "Softmax",
}
"""Operators that ONNX Runtime computes in reals and Triune over integers: results may be a step apart."""


def alone(model: bytes, feeds: dict[str, Array], results: dict[str, Array]) -> list[str]:
    """Return the operators that make something else of their operands than ONNX Runtime, by more than a step, and the `results`
    that are others where every value is a result.

    What follows a step may be many: a normalization of what is nearly the same everywhere, or a product with its own transpose.
    """
    whole = onnx.shape_inference.infer_shapes(onnx.load_from_string(model))
    graph = whole.graph
    steps = steps_of(graph)
    typed = {each.name: each for each in [*graph.input, *graph.value_info, *graph.output]}
    makers = {name: node for node in graph.node for name in node.output}
    constants = {each.name for each in graph.initializer}
    values = [name for name in steps if makers[name].input[0] not in constants]
    outputs = [typed[name] for name in values]

    def made(nodes: list[Any], inputs: list[Any], results: list[Any]) -> bytes:
        read = {name for node in nodes for name in node.input}
        kept = [each for each in graph.initializer if each.name in read]
        part = onnx.helper.make_graph(nodes, "part", inputs, results, kept)
        text = onnx.helper.make_model(part, opset_imports=whole.opset_import, ir_version=whole.ir_version)
        return bytes(text.SerializeToString())

    mine = dict(zip(values, triune.Session(made(list(graph.node), list(graph.input), outputs)).run(feeds), strict=True))
    # The model's own inputs are reals.
    known = feeds | mine
    found = [
        f"'{name}' differs where every value is a result"
        for name, result in results.items()
        if not np.array_equal(result, mine[name])
    ]
    for name in values:
        wanted, open_, operands = set(), [name], set()
        while open_:
            one = open_.pop()
            if (one in known and one != name) or one in constants or not one:
                operands |= {one} & known.keys()
            elif id(makers[one]) not in wanted:
                wanted.add(id(makers[one]))
                open_ += makers[one].input
        nodes = [node for node in graph.node if id(node) in wanted]
        part = made(nodes, [typed[each] for each in sorted(operands)], [typed[name]])
        (other,) = reference(part, {each: known[each] for each in operands}, optimized=False)
        most = float(np.abs(mine[name].astype(np.float64) - other).max() / steps[name])
        if most > 1.01:
            kinds = ", ".join(node.op_type for node in nodes if "Quantize" not in node.op_type)
            found.append(f"ONNX Runtime: '{name}' ({kinds}) differs by {most:.1f} steps from what its operands give")
    return found


def steps_of(graph: Any) -> dict[str, float]:
    """Return the scale of each value that is dequantized by one."""
    known = {each.name: onnx.numpy_helper.to_array(each) for each in graph.initializer}
    return {
        node.output[0]: float(known[node.input[1]])
        for node in graph.node
        if node.op_type == "DequantizeLinear" and known[node.input[1]].ndim == 0
    }


def differences(model: bytes, feeds: dict[str, Array], folder: Path, targets: tuple[str, ...]) -> list[str]:
    """Return what of a network is not as it is on the host, or cannot be deployed."""
    file = folder / "net.onnx"
    file.write_bytes(model)
    session = triune.Session(file)
    expected = session.run(feeds)
    names = [name for name, *_ in session.outputs]
    ranks = [y.ndim for y in expected]

    def differs(what: str, got: list[Array], wanted: list[Array]) -> list[str]:
        pairs = zip(names, got, wanted, strict=True)
        return [f"{what}: '{name}' differs" for name, a, b in pairs if a.shape != b.shape or not np.array_equal(a, b)]

    found = []
    # Its fused products add integers of a bias whatever their scale; as it is written, the graph's reals count.
    if differs("", expected, reference(model, feeds)):
        written = reference(model, feeds, optimized=False)
        by_reals = any(node.op_type in BY_REALS for node in onnx.load_from_string(model).graph.node)
        found += (
            alone(model, feeds, dict(zip(names, expected, strict=True)))
            if by_reals
            else differs("ONNX Runtime", expected, written)
        )
    for target in targets:
        try:
            if target == "metis":
                found += differs(target, card(file, feeds, names), expected)
                continue
            mine, host = boards(file, target, feeds, ranks)
            found += differs(f"{target} and its host", mine, host)
            # Other targets than BUYI, whose factors are m·2⁻ⁿ, compute as ONNX does.
            found += differs(target, mine, expected) if target == "zg330" else []
        except Exception as error:
            found.append(f"{target}: {type(error).__name__}: {error}")
        except BaseException as error:
            if type(error).__name__ != "PanicException":
                raise
            found.append(f"{target}: {error}")
    return found


TARGETS = ("metis", "zg330", "buyi")


def channels_taken_apart(kind: str, channels: int) -> tuple[bytes, dict[str, Array]]:
    """Parts that begin within a block of channels."""
    net = networks.Net(channels)
    a, b = net.split(net.conv(net.input(1, 3, 9, 7), 2 * channels), [channels, channels])
    return net.model(net.conv(net.binary(kind, a, b), channels)), net.feeds


def largest_rows() -> tuple[bytes, dict[str, Array]]:
    """The largest of rows that are no image, and the smallest of what is left of them and others."""
    net = networks.Net(13)
    x = net.input(1, 10, 24)
    y = net.extreme("Min", net.extreme("Max", x, net.unary("Tanh", x)), net.with_constant("Sub", x, 24))
    return net.model(net.standardized(y)), net.feeds


def joined_inputs(kind: str, *shape: int) -> tuple[bytes, dict[str, Array]]:
    """Inputs joined along channels that fill no block, and a scalar."""
    net = networks.Net(1)
    x = net.input(1, 3, 8, 6)
    joint = net.concat([x, x], same=True)
    return net.model(net.conv(net.with_constant(kind, joint, *shape), 8, 1)), net.feeds


def along_one_axis() -> tuple[bytes, dict[str, Array]]:
    """Windows that run over one axis."""
    net = networks.Net(2)
    x = net.conv(net.input(1, 3, 64), 16, 3, limit="Relu")
    return net.model(net.conv(x, 8, 3, groups=2)), net.feeds


def shuffled_at_the_border() -> tuple[bytes, dict[str, Array]]:
    """An image that is made of channels last."""
    net = networks.Net(3)
    return net.model(net.shuffled(net.conv(net.input(1, 3, 5, 7), 12))), net.feeds


def rows() -> tuple[bytes, dict[str, Array]]:
    """Several rows without an image."""
    net = networks.Net(4)
    return net.model(net.gemm(net.gemm(net.input(3, 70), 33), 5)), net.feeds


def rows_of_the_host() -> tuple[bytes, dict[str, Array]]:
    """What the host makes of rows before a device sees them."""
    net = networks.Net(5)
    net.inputs.append(onnx.helper.make_tensor_value_info("x0", onnx.TensorProto.FLOAT, (2, 48)))
    net.feeds["x0"] = net.rng.standard_normal((2, 48)).astype(np.float32)
    (y,) = net.node("Softmax", ["x0"], axis=1)
    return net.model(net.gemm(net.quantized(y, (2, 48), 0.001), 40)), net.feeds


def shared_bias() -> tuple[bytes, dict[str, Array]]:
    """Two products with one bias, on the scale of the first, and an output in between."""
    net = networks.Net(6)
    x = net.input(1, 32)
    first = net.gemm(x, 24)
    second = net.gemm(x, 24)
    products = [node for node in net.nodes if node.op_type == "Gemm"]
    products[1].input[2] = products[0].input[2]
    return net.model(second, net.gemm(first, 7), first), net.feeds


def in_turns() -> tuple[bytes, dict[str, Array]]:
    """Operators of the host between those of a device, two times, with a way around them."""
    net = networks.Net(7)
    first = net.conv(net.input(1, 3, 13, 16), 24, 3, limit="Relu")
    second = net.conv(net.on_the_host(first), 20, 3)
    third = net.conv(net.on_the_host(second), 20, 3)
    joint = net.concat([second, third]) if second.shape[2:] == third.shape[2:] else third
    return net.model(net.conv(joint, 9, 3), first), net.feeds


def turns_from_the_host() -> tuple[bytes, dict[str, Array]]:
    """A device's second input, which the host has from the beginning, is read behind what it makes in between."""
    net = networks.Net(8, signed=True)
    x, y = net.input(1, 5, 12, 14), net.input(1, 16, 12, 14)
    first = net.conv(x, 16, 1)
    halves = net.split(net.on_the_host(first), [7, 9])
    sums = net.binary("Add", net.concat(halves, same=True), y)
    return net.model(net.conv(sums, 40, 3), net.unary("Sigmoid", halves[1])), net.feeds


def only_moved() -> tuple[bytes, dict[str, Array]]:
    """A result that is the input, moved twice: what it means stands at the model's input alone."""
    net = networks.Net(9)
    x = net.pool("MaxPool", net.input(1, 3, 9, 8))
    return net.model(net.conv(x, 5), net.pool("MaxPool", x)), net.feeds


def normalized_behind_a_shuffle() -> tuple[bytes, dict[str, Array]]:
    """Return a normalization that leaves the network behind a pixel shuffle: as an image, like what it reads."""
    net = networks.Net(1)
    return net.model(net.standardized(net.shuffled(net.input(1, 4, 2, 2)))), net.feeds


def summed_behind_a_shuffle() -> tuple[bytes, dict[str, Array]]:
    """A result that lies row-major on the accelerator and is an image at the border."""
    net = networks.Net(10)
    shuffled = net.shuffled(net.conv(net.input(1, 3, 5, 7), 12))
    return net.model(net.with_constant("Add", shuffled, 1, 1, 1)), net.feeds


def image_through(name: str, *arguments: Any, channels: int = 24) -> tuple[bytes, dict[str, Array]]:
    """One operator between convolutions."""
    net = networks.Net(11)
    x = getattr(net, name)(net.conv(net.input(1, 3, 6, 7), channels, 3), *arguments)
    return net.model(net.conv(x, 9, 1)), net.feeds


def tokens() -> tuple[bytes, dict[str, Array]]:
    """A transformer's block over rows that are no image."""
    net = networks.Net(12)
    x = net.input(1, 10, 24)
    y = net.standardized(x)
    q, k = net.moved(net.reshaped(y, 1, 10, 3, 8), 0, 2, 1, 3), net.moved(net.reshaped(y, 1, 10, 3, 8), 0, 2, 3, 1)
    mixed = net.moved(net.matmul(net.softmax(net.matmul(q, k)), q), 0, 2, 1, 3)
    x = net.binary("Add", x, net.reshaped(mixed, 1, 10, 24))
    return net.model(net.mish(net.standardized(x))), net.feeds


CASES_BY_NAME = {
    "attention": lambda: image_through("attended", 2),
    "attention of one head": lambda: image_through("attended", channels=23),
    "tokens": tokens,
    "normalized rows": lambda: image_through("standardized"),
    "normalized channels": lambda: image_through("standardized", True, 1),
    "normalized columns, spelled out": lambda: image_through("standardized", True, 2),
    "normalized channels, factors inside": lambda: image_through("standardized_inside"),
    "normalized rows, the mean negated": lambda: image_through("standardized_inside", 2, True),
    "by the mean square": lambda: image_through("by_root_mean_square"),
    "by the mean square of channels": lambda: image_through("by_root_mean_square", 1, "inverse", channels=23),
    "by the mean square of rows": lambda: image_through("by_root_mean_square", 2, channels=33),
    "differences": lambda: image_through("differences"),
    "differences of odd channels": lambda: image_through("differences", channels=19),
    "statistics of training": lambda: image_through("normalized"),
    "statistics of training, limited": lambda: image_through("normalized", True, channels=33),
    "transposed": lambda: image_through("transposed", 20),
    "transposed, overlapping": lambda: image_through("transposed", 7, 3, 2),
    "transposed in groups": lambda: image_through("transposed", 12, 3, 2, 4),
    "blended": lambda: image_through("blended", 2, 3),
    "blended between corners": lambda: image_through("blended", 3, 2, "align_corners", channels=19),
    "softmax over channels": lambda: image_through("softmax", 1, channels=40),
    "softmax over rows": lambda: image_through("softmax", 2),
    "mish": lambda: image_through("mish"),
    "Mul of halves of 16": lambda: channels_taken_apart("Mul", 8),
    "Mul of halves of 64": lambda: channels_taken_apart("Mul", 32),
    "Add of halves of 16": lambda: channels_taken_apart("Add", 8),
    "Max of halves of 16": lambda: channels_taken_apart("Max", 8),
    "Min of halves of 46": lambda: channels_taken_apart("Min", 23),
    "largest of three": lambda: image_through("extreme_of", "Max", 3),
    "smallest of three": lambda: image_through("extreme_of", "Min", 3, channels=19),
    "largest of rows": largest_rows,
    "Add of halves of 46": lambda: channels_taken_apart("Add", 23),
    "Mul of joined inputs by a scalar": lambda: joined_inputs("Mul"),
    "Add of a scalar to joined inputs": lambda: joined_inputs("Add"),
    "Mul of joined inputs by a row": lambda: joined_inputs("Mul", 6, 1, 1),
    "Conv along one axis": along_one_axis,
    "pixel shuffle at the border": shuffled_at_the_border,
    "a shared bias": shared_bias,
    "only moved": only_moved,
    "summed behind a shuffle": summed_behind_a_shuffle,
    "normalized behind a shuffle": normalized_behind_a_shuffle,
    "in turns": in_turns,
    "turns from the host": turns_from_the_host,
    "rows": rows,
    "rows of the host": rows_of_the_host,
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", CASES_BY_NAME)
def test_small_networks(name: str, target: str, tmp_path: Path) -> None:
    model, feeds = CASES_BY_NAME[name]()
    assert differences(model, feeds, tmp_path, (target,)) == []


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["Max of halves of 16", "smallest of three", "largest of rows"])
def test_extremes_have_a_form_over_integers(name: str, target: str, tmp_path: Path) -> None:
    file = tmp_path / "net.onnx"
    file.write_bytes(CASES_BY_NAME[name]()[0])
    assert triune.compile(file, target=target, output=tmp_path / "package").report.host.operators == 0


@pytest.mark.parametrize("part", range(4))
def test_grown_networks(part: int, tmp_path: Path) -> None:
    for seed in range(part, CASES, 4):
        folder = tmp_path / str(seed)
        folder.mkdir()
        assert differences(*networks.grown(seed), folder, TARGETS) == [], f"seed {seed}"


@pytest.mark.parametrize(("target", "format"), [("metis", "package"), ("zg330", "icraft"), ("buyi", "icraft")])
def test_devices_and_hosts_take_turns(target: str, format: str, tmp_path: Path) -> None:
    model, _ = in_turns()
    (tmp_path / "net.onnx").write_bytes(model)
    folder = triune.compile(tmp_path / "net.onnx", target=target, output=tmp_path / "out", format=format)
    report = folder.report
    assert (report.segments, report.share, report.warning) == (3, 1.0, None)
    assert {(each.op, each.macs) for each in report.stayed} == {("Max", 0)}
    assert [each.segment for each in report.crossings] == sorted(each.segment for each in report.crossings)
    assert "3 segments with the host between" in str(report)
    if format == "package":
        package = triune._native.Package(folder / "model.json")
        assert package.between == ["between_graph_0.onnx", "between_graph_1.onnx"]
        assert len(package.inputs) == 1
        # A stage begins when all before it is done, and pays for its launch.
        commands = package.timeline().commands()
        for wait in json.loads((folder / "model.json").read_text())["waits"]:
            at = wait["commands"]
            done = max(command["end"] for command in commands[:at])
            assert min(command["start"] for command in commands[at:]) >= done + package.timeline().launch_cycles
        # What runs where is in the profile, and no time of the host's.
        found = profile(folder)
        assert (found.host_operators, found.host_macs, found.waits) == (2, 0, 2)
        assert "host         2 more operators with 0 MACs (0.0%); the device waits for it 2 times" in found.table()


def main() -> None:
    """Compare as many networks as asked for."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    arguments = parser.parse_args()
    verdicts: Counter[str] = Counter()
    for seed in range(arguments.first, arguments.first + arguments.cases):
        with tempfile.TemporaryDirectory() as folder:
            found = differences(*networks.grown(seed), Path(folder), TARGETS)
        verdicts["wrong" if found else "equal bits"] += 1
        for what in found:
            print(f"seed {seed}: {what}", flush=True)
    print(dict(verdicts))
    sys.exit(verdicts["wrong"] > 0)


if __name__ == "__main__":
    main()
