"""Times to load an Icraft network and its parameters, beside what the file costs by itself, as a Markdown table.

    python benches/python/bench_xir_load.py [--operators 500] [--megabytes 100]

Everything is measured in turns in one run, with medians, in processor time, so that other work on the machine counts less;
memory is what a fresh process has more of with the network than without.
"""

from __future__ import annotations

import argparse
import hashlib
import mmap
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from triune.icraft.xir import Conv2d, FloatType, Framework, Input, Layout, Network, Output, Params, ReLU, TensorType


def network(operators: int, size: int) -> Network:
    """Return a chain of convolutions and activations whose weights have `size` bytes together."""
    made = Network("large", Framework.ONNX, "1.17")
    given = Input(TensorType(FloatType.FP32(), [1, 32, 32, 64], Layout.NHWC()))
    made.addOp(given)
    value = given[0]
    convolutions = operators // 2
    side = max(1, round((size / 4 / convolutions / 64 / 64) ** 0.5))
    data = np.random.default_rng(0).standard_normal((side, side, 64, 64), np.float32)
    for _ in range(convolutions):
        before, after = (side - 1) // 2, side // 2
        weights = Params(data, "weights", Layout.HWIO())
        conv = Conv2d(value, weights, None, 1, 1, before, after, before, after, 1, 1)
        made.addOp(conv)
        relu = ReLU(conv[0])
        made.addOp(relu)
        value = relu[0]
    made.addOp(Output(value))
    return made


MEMORY = """
import mmap
from pathlib import Path
import numpy
from triune.icraft.xir import Layout, Network

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE

Layout("NHWC")
before = resident()
network = Network.CreateFromJsonFile({text!r})
network.lazyLoadParamsFromFile({raw!r})
print(resident() - before)
"""


def mapped(path: Path) -> None:
    """Map a file and let go of it."""
    with open(path, "rb") as file:
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ).close()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operators", type=int, default=500)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text, raw = Path(folder) / "large.json", Path(folder) / "large.raw"
        made = network(options.operators, options.megabytes * 1_000_000)
        made.dumpJsonToFile(str(text))
        made.dumpParamsToFile(str(raw))
        count, size = len(made.ops), raw.stat().st_size
        del made
        # The first use of the core, and the memory that Python keeps, are not counted below.
        loaded, lazily = Network.CreateFromJsonFile(str(text)), Network.CreateFromJsonFile(str(text))

        def whole() -> None:
            lazy = Network.CreateFromJsonFile(str(text))
            lazy.lazyLoadParamsFromFile(str(raw))

        ways: dict[str, Callable[[], object]] = {
            "map the file": lambda: mapped(raw),
            "read the file": raw.read_bytes,
            "read the file and compute its MD5": lambda: hashlib.md5(raw.read_bytes(), usedforsecurity=False),
            "`CreateFromJsonFile`": lambda: Network.CreateFromJsonFile(str(text)),
            "`lazyLoadParamsFromFile`": lambda: lazily.lazyLoadParamsFromFile(str(raw)),
            "both": whole,
            "`loadParamsFromFile(calc_md5=False)`": lambda: loaded.loadParamsFromFile(str(raw), False),
            "`loadParamsFromFile`": lambda: loaded.loadParamsFromFile(str(raw)),
        }
        times: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(options.rounds):
            for name, way in ways.items():
                begin = time.process_time()
                way()
                times[name].append(time.process_time() - begin)
        code = MEMORY.format(text=str(text), raw=str(raw))
        held = int(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)
        print(f"{count} operations, {text.stat().st_size / 1e6:.1f} MB of JSON, {size / 1e6:.1f} MB of parameters\n")
        print("| step | ms |\n|---|---|")
        for name, values in times.items():
            print(f"| {name} | {statistics.median(values) * 1e3:.2f} |")
        print(f"\nLoaded lazily, the network takes {held / 1e6:.1f} MB of memory.")


if __name__ == "__main__":
    main()
