"""What a session of Icraft's costs on the host, beside `triune.Session` on the ONNX file that the network was compiled from.

    .venv/bin/python benches/python/bench_xrt_host.py MODEL.onnx …

The quantized stage for ZG330, in turns: operations computed together, as `forward` does unless somebody looks on, and one by
one, as with a callback. One thread each; medians of rounds, and their ratios.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import triune
from triune.icraft.host_backend import HostBackend
from triune.icraft.xir import Layout, Network
from triune.icraft.xrt import HostDevice, Session, Tensor


def session(folder: Path, name: str, *, one_by_one: bool) -> Session:
    network = Network.CreateFromJsonFile(str(folder / f"{name}_quantized.json"))
    network.lazyLoadParamsFromFile(str(folder / f"{name}_quantized.raw"))
    made = Session.Create([HostBackend], network.view(0), [HostDevice.Default()])
    if one_by_one:
        made.setPostCallBack(lambda *_: None)
    made.apply()
    return made


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure(model: Path, rounds: int) -> None:
    reference = triune.Session(model, threads=1)
    (given,) = reference.inputs
    shape = [extent if isinstance(extent, int) else 1 for extent in given.shape]
    image = np.random.default_rng(0).uniform(0, 255, shape).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        triune.compile(model, target="zg330", output=folder, format="icraft")
        together = session(Path(folder), model.stem, one_by_one=False)
        apart = session(Path(folder), model.stem, one_by_one=True)
        inputs = [Tensor(np.ascontiguousarray(image.transpose(0, 2, 3, 1)), Layout("NHWC"))]
        for one, other in zip(together.forward(inputs), apart.forward(inputs), strict=True):
            assert np.array_equal(np.asarray(one), np.asarray(other))
        ways: list[Callable[[], object]] = [
            lambda: reference.run({given.name: image}),
            lambda: together.forward(inputs),
            lambda: apart.forward(inputs),
        ]
        taken = [[seconds(way) for way in ways] for _ in range(rounds + 2)][2:]
    medians = [statistics.median(column) * 1e3 for column in zip(*taken, strict=True)]
    ratios = [f"{median / medians[0]:.2f}" for median in medians[1:]]
    print(
        f"| {model.stem} | {medians[0]:.2f} | {medians[1]:.2f} ({ratios[0]}) | {medians[2]:.2f} ({ratios[1]}) |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path, help="quantized ONNX files with images for inputs")
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    HostBackend.setThreadsNum(1)
    print("| model | `triune.Session`, ms | together, ms (ratio) | one by one, ms (ratio) |\n|---|---|---|---|")
    for model in arguments.models:
        measure(model, arguments.rounds)


if __name__ == "__main__":
    main()
