"""What many cycles of load, run and drop leave behind, per API: resident memory, open files, threads.

``make soak`` runs 10,000 cycles of each (``CYCLES=n`` for another number, ``APIS=lite,session`` for some of them), prints the
curve and fails where something grows; ``tests/test_soak.py`` runs a short one.

Growth is judged against a linear fit over the second half of a curve: caches and pools fill up in the first. A kilobyte per
cycle is a leak of any object that a program notices; allocators' fragments come to a tenth of that.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import triune
from triune import _native
from triune.models import DIGITS_F32, DIGITS_INT8, digits_held_out

LEAK = 1024
"""Bytes per cycle by which the memory may grow: the slope of the second half."""
SLACK = 2 << 20
"""Bytes that a curve may be off by in all: what an allocator gives back late, and the pages that a test's own work takes."""
PATIENCE = 10.0
"""Seconds that what is about to end may take to do so."""

Cycle = Callable[[], object]


def _image() -> Any:
    return digits_held_out()[0][:1]


@contextmanager
def _session(folder: Path) -> Iterator[Cycle]:
    image = np.ascontiguousarray(_image().transpose(0, 3, 1, 2))

    def cycle() -> object:
        return triune.Session(DIGITS_INT8, threads=1).run({"image": image})

    yield cycle


@contextmanager
def _axelera(folder: Path) -> Iterator[Cycle]:
    from triune.axelera.runtime import Context

    package = triune.compile(DIGITS_INT8, target="metis", output=folder / "metis")

    def cycle() -> None:
        with Context() as context:
            model = context.load_model(package / "model.json")
            instance = context.device_connect().load_model_instance(model)
            inputs = [np.zeros(info.shape, np.int8) for info in model.inputs()]
            instance.run(inputs, [np.empty(info.shape, np.int8) for info in model.outputs()])

    yield cycle


@contextmanager
def _lite(folder: Path) -> Iterator[Cycle]:
    from triune.megenginelite import LiteNetwork

    image = np.ascontiguousarray(_image().transpose(0, 3, 1, 2))

    def cycle() -> None:
        network = LiteNetwork()
        network.load(DIGITS_F32)
        network.get_io_tensor("image").set_data_by_copy(image)
        network.forward()
        network.wait()
        network.get_io_tensor("logits").to_numpy()

    yield cycle


def _icraft(folder: Path, url: str) -> Cycle:
    from triune.icraft import xir
    from triune.icraft.host_backend import HostBackend
    from triune.icraft.xrt import Device, HostDevice, Session, Tensor
    from triune.icraft.zg330backend import ZG330Backend

    networks = folder / "networks"
    if not networks.is_dir():
        triune.compile(DIGITS_INT8, target="zg330", format="icraft", output=networks)
    image = _image()

    def cycle() -> None:
        network = xir.Network.CreateFromJsonFile(str(networks / "digits_int8_ZG.json"))
        network.loadParamsFromFile(str(networks / "digits_int8_ZG.raw"))
        board = Device.Open(url)
        session = Session.Create([ZG330Backend, HostBackend], network, [board, HostDevice.Default()])
        session.apply()
        (logits,) = session.forward([Tensor(image, xir.Layout("NHWC"))])
        np.array(logits)
        Device.Close(board)

    return cycle


@contextmanager
def _icraft_near(folder: Path) -> Iterator[Cycle]:
    yield _icraft(folder, "axi://zg330aiu")


@contextmanager
def _icraft_remote(folder: Path) -> Iterator[Cycle]:
    server = _native.BoardServer("zg330", "127.0.0.1:0", boards=1, threads=1)
    try:
        yield _icraft(folder, "socket://zg330aiu@{}:{}".format(*server.address))
    finally:
        server.stop()


def _use(board: _native.Board) -> None:
    """Write, copy and read on a board that goes with what is allocated on it."""
    data = np.arange(4096, dtype=np.uint8)
    here, there = board.allocate("ddr", data.size), board.allocate("ddr", data.size)
    board.write("ddr", here, data)
    board.copy("ddr", here, "ddr", there, data.size)
    board.read("ddr", there, data)
    board.close()


@contextmanager
def _board_near(folder: Path) -> Iterator[Cycle]:
    yield lambda: _use(_native.Board.local("zg330", threads=1))


@contextmanager
def _board_remote(folder: Path) -> Iterator[Cycle]:
    server = _native.BoardServer("zg330", "127.0.0.1:0", boards=1, threads=1)
    try:
        yield lambda: _use(_native.Board.connect(*server.address, "zg330"))
    finally:
        server.stop()


APIS = {
    "session": _session,
    "axelera": _axelera,
    "lite": _lite,
    "icraft": _icraft_near,
    "icraft-remote": _icraft_remote,
    "board": _board_near,
    "board-remote": _board_remote,
}


@dataclass(frozen=True)
class Sample:
    """What the process has after so many cycles."""

    cycles: int
    resident: int
    files: int
    threads: int

    @classmethod
    def now(cls, cycles: int, before: Sample | None = None) -> Sample:
        """Look at this process, without what only waits to be collected.

        What has more files or threads than `before` is looked at again: a server sees a moment later that a client has gone, and
        a thread that ends is counted until it has.
        """
        gc.collect()
        deadline = time.monotonic() + PATIENCE
        sample = cls._look(cycles)
        while (
            before and (sample.files > before.files or sample.threads > before.threads) and time.monotonic() < deadline
        ):
            time.sleep(0.01)
            sample = cls._look(cycles)
        return sample

    @classmethod
    def _look(cls, cycles: int) -> Sample:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        files = len(os.listdir("/proc/self/fd"))
        threads = len(os.listdir("/proc/self/task"))
        return cls(cycles, pages * os.sysconf("SC_PAGE_SIZE"), files, threads)


@dataclass
class Curve:
    """Samples of one API's cycles."""

    name: str
    samples: list[Sample] = field(default_factory=list)

    def settled(self) -> list[Sample]:
        """Return the second half, when pools and caches are full."""
        return self.samples[len(self.samples) // 2 :]

    def slope(self) -> float:
        """Return the bytes per cycle by which the memory grows in the second half."""
        settled = self.settled()
        cycles, bytes_ = [s.cycles for s in settled], [s.resident for s in settled]
        return float(np.polyfit(cycles, bytes_, 1)[0])

    def complaints(self) -> list[str]:
        """Return what grew, in words."""
        settled, found = self.settled(), []
        span = settled[-1].cycles - settled[0].cycles
        grown = self.slope() * span
        if grown > LEAK * span + SLACK:
            found.append(f"{self.name}: {self.slope():.0f} bytes per cycle stay, {LEAK} may")
        for what in ("files", "threads"):
            first, last = getattr(settled[0], what), getattr(settled[-1], what)
            if last > first:
                found.append(f"{self.name}: {first} {what} became {last} in {span} cycles")
        return found


def soak(name: str, cycles: int, every: int, tell: Callable[[Sample], object] = lambda _: None) -> Curve:
    """Run an API's cycles, with a sample each `every`."""
    curve, half = Curve(name), (cycles // every + 1) // 2
    with tempfile.TemporaryDirectory() as folder, APIS[name](Path(folder)) as cycle:
        for done in range(cycles + 1):
            if done % every == 0:
                sample = Sample.now(done, curve.samples[half] if len(curve.samples) > half else None)
                curve.samples.append(sample)
                tell(sample)
            if done < cycles:
                cycle()
    return curve


def main() -> int:
    """Soak the chosen APIs, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--cycles", type=int, default=10_000, help="cycles per API (10000)")
    parser.add_argument("--apis", default=",".join(APIS), help="which APIs, with commas between")
    options = parser.parse_args()
    every = max(options.cycles // 10, 1)
    complaints: list[str] = []
    os.environ.setdefault("TRIUNE_RUNTIME_DIR", tempfile.mkdtemp())
    for name in options.apis.split(","):
        print(f"{name}: cycles, resident MiB, files, threads (in Python: {threading.active_count()})", flush=True)
        curve = soak(
            name,
            options.cycles,
            every,
            lambda s: print(f"  {s.cycles:6} {s.resident / 2**20:8.1f} {s.files:4} {s.threads:4}", flush=True),
        )
        print(f"  {curve.slope():+.1f} bytes per cycle", flush=True)
        complaints += curve.complaints()
    print("\n".join(complaints) or "nothing grows")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
