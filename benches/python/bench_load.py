"""Measure what a node costs when a model is loaded and run for the first time, by the number of nodes.

    .venv/bin/python benches/python/bench_load.py [--family relu …] [--nodes 1000 300000] [--rounds 7] [--peer]

Every load is the second of its own process: the first, of one node, brings the code into memory. Of several processes the fastest
counts. With ``--peer``, ONNX Runtime loads the smaller models, too, in processes of its own, without its graph optimisations.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx

NODES = [1_000, 10_000, 100_000, 300_000]
PEER_NODES = 10_000
FUNCTIONS = ["Relu", "Abs", "Neg", "Sigmoid", "Exp", "Floor"]

CHILD = """
import sys, time
import numpy as np
tiny, path, count, peer = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "peer"
x = np.zeros((1, 4), np.float32)
def load(file):
    if not peer:
        import triune
        return triune.Session(open(file, "rb").read()).run({"x": x})
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    return ort.InferenceSession(file, options, providers=["CPUExecutionProvider"]).run(None, {"x": x})
load(tiny)
start = time.perf_counter()
load(path)
print((time.perf_counter() - start) / count)
"""


def _relu(count: int) -> list[onnx.NodeProto]:
    from onnx import helper

    return [helper.make_node("Relu", [_link(i, count)], [_link(i + 1, count)]) for i in range(count)]


def _functions(count: int) -> list[onnx.NodeProto]:
    from onnx import helper

    kinds = [FUNCTIONS[i % len(FUNCTIONS)] for i in range(count)]
    return [
        helper.make_node(kind, [_link(i, count)], [_link(i + 1, count)], name=f"blocks.{i}.{kind}")
        for i, kind in enumerate(kinds)
    ]


def _residual(count: int) -> list[onnx.NodeProto]:
    from onnx import helper

    half = count // 2
    nodes = []
    for i in range(half):
        nodes.append(helper.make_node("Sigmoid", [_link(i, half)], [f"r{i}"]))
        nodes.append(helper.make_node("Add", [f"r{i}", _link(i, half)], [_link(i + 1, half)]))
    return nodes


def _link(index: int, count: int) -> str:
    return "x" if index == 0 else "y" if index == count else f"v{index}"


FAMILIES = {"relu": _relu, "functions": _functions, "residual": _residual}


def _write(path: Path, nodes: list[onnx.NodeProto]) -> None:
    import onnx
    from onnx import helper

    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 4]) for name in "xy"]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())


def _seconds(tiny: Path, path: Path, count: int, which: str) -> float:
    command = [sys.executable, "-c", CHILD, str(tiny), str(path), str(count), which]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    """Print a line per family and number of nodes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--family", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--nodes", nargs="+", type=int, default=NODES, metavar="N")
    parser.add_argument("--rounds", type=int, default=7, metavar="N", help="processes per model (7)")
    parser.add_argument("--peer", action="store_true", help=f"ONNX Runtime, too, up to {PEER_NODES:,} nodes")
    options = parser.parse_args()
    print(f"{'model':>10} {'nodes':>8} {'µs/node':>8} {'of least':>8} {'ONNX Runtime':>13}")
    with tempfile.TemporaryDirectory() as folder:
        tiny = Path(folder) / "tiny.onnx"
        _write(tiny, _relu(1))
        for family in options.family:
            counts = sorted(options.nodes)
            paths = {count: Path(folder) / f"{family}{count}.onnx" for count in counts}
            for count, path in paths.items():
                _write(path, FAMILIES[family](count))
            least = dict.fromkeys(counts, float("inf"))
            peer = dict.fromkeys([count for count in counts if options.peer and count <= PEER_NODES], float("inf"))
            # By turns, so that a slow minute of the machine's is everybody's.
            for _ in range(options.rounds):
                for count in counts:
                    least[count] = min(least[count], _seconds(tiny, paths[count], count, "own"))
                for count in peer:
                    peer[count] = min(peer[count], _seconds(tiny, paths[count], count, "peer"))
            for count in counts:
                theirs = f"{1e6 * peer[count]:13.2f}" if count in peer else f"{'':13}"
                share = least[count] / least[counts[0]]
                print(f"{family:>10} {count:8} {1e6 * least[count]:8.2f} {share:8.2f} {theirs}", flush=True)


if __name__ == "__main__":
    main()
