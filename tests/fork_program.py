"""What `test_forks` runs: forks while other threads use an object, and says what became of the children.

Arguments: the object's name and a folder with models. Prints how many children went on with the right values, and how many were
told that they cannot and went on with a new object; everything else is an error.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import triune
from triune import _native
from triune.models import DIGITS_F32, DIGITS_INT8

FORKS = 24
"""Children of each object."""
DEADLINE = 30
"""Seconds that a child has."""
FOLDER = Path(sys.argv[2])
IMAGES = np.random.default_rng(5).random((1, 3, 192, 192), np.float32)

Use = Callable[[], Any]
"""Uses an object and returns what came of it; always the same."""


def session() -> Use:
    """Return a use of a session with threads of its own."""
    made = triune.Session(FOLDER / "classifier.onnx", threads=2)
    return lambda: made.run({"data": IMAGES})[0]


def dynamic_session() -> Use:
    """Return the same of a model with extents that depend on data."""
    made = triune.Session(FOLDER / "dynamic.onnx", threads=2)
    x = np.sin(np.arange(300_000, dtype="float32")).reshape(3, -1)
    return lambda: made.run({"x": x})[0]


def native_network() -> Use:
    """Return a use of a network with bound arrays."""
    made = _native.Session(str(FOLDER / "classifier.onnx"), threads=2)
    made.prepare([list(IMAGES.shape)])
    made.bind([IMAGES], [None])

    def use() -> Any:
        made.forward()
        return made.output(0)

    return use


def instance() -> Use:
    """Return a use of a model on a card."""
    from triune.axelera.runtime import Context

    context = Context()
    model = context.load_model(FOLDER / "card" / "model.json")
    made = context.device_connect().load_model_instance(model)
    (source,), (result,) = model.inputs(), model.outputs()
    image = np.arange(np.prod(source.shape)).reshape(source.shape).astype(np.int8)
    logits = threading.local()

    def use() -> Any:
        assert context is not None
        if not hasattr(logits, "array"):
            logits.array = np.empty(result.shape, np.int8)
        for _ in range(20):
            made.run([image], [logits.array])
        return logits.array.copy()

    return use


def near_board() -> Use:
    """Return a use of a board's memory, registers and settings."""
    return _board(_native.Board.local("zg330", threads=2))


def remote_board() -> Use:
    """Return the same of a board that another process serves."""
    import subprocess

    if not SERVERS:
        words = [
            sys.executable,
            "-m",
            "triune",
            "serve",
            "--device",
            "zg330",
            "--bind",
            "127.0.0.1:0",
            "--boards",
            "64",
        ]
        server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        SERVERS.append((server, int(server.stdout.readline().rsplit(":", 1)[1])))
    return _board(_native.Board.connect("127.0.0.1", SERVERS[0][1], "zg330"))


SERVERS: list[tuple[Any, int]] = []
"""The process that serves boards, and its port."""


def _board(made: _native.Board) -> Use:
    data = np.random.default_rng(11).integers(0, 255, 1 << 20, np.uint8)
    places = threading.local()

    def use() -> Any:
        if not hasattr(places, "start"):
            places.start = made.allocate("ddr", data.nbytes)
        found = np.empty_like(data)
        made.write("ddr", places.start, data)
        made.read("ddr", places.start, found)
        made.configure(core_hz=made.settings()["core_hz"])
        made.free("ddr", made.allocate("ddr", 64))
        return found

    return use


def icraft_session() -> Use:
    """Return a use of a session on an accelerator's board and the host."""
    from triune.icraft import xir, xrt
    from triune.icraft.host_backend import HostBackend
    from triune.icraft.zg330backend import ZG330Backend

    network = xir.Network.CreateFromJsonFile(FOLDER / "networks" / "digits_int8_ZG.json")
    network.loadParamsFromFile(FOLDER / "networks" / "digits_int8_ZG.raw")
    host = xrt.HostDevice.Default()
    made = xrt.Session.Create([ZG330Backend, HostBackend], network, [xrt.Device.Open("axi://zg330aiu"), host])
    made.apply()
    shape = network.view(0).inputs()[0].tensorType().shape
    image = xrt.Tensor(np.random.default_rng(3).random(shape, np.float32), xir.Layout("NHWC"))
    return lambda: np.array(made.forward([image])[0].to(xrt.HostDevice.MemRegion()))


def host_session() -> Use:
    """Return a use of a session on the host."""
    from triune.icraft import xir, xrt
    from triune.icraft.host_backend import HostBackend

    network = xir.Network.CreateFromJsonFile(FOLDER / "networks" / "digits_int8_adapted.json")
    network.loadParamsFromFile(FOLDER / "networks" / "digits_int8_adapted.raw")
    made = xrt.Session.Create([HostBackend], network.view(0), [xrt.HostDevice.Default()])
    made.apply()
    shape = network.view(0).inputs()[0].tensorType().shape
    image = xrt.Tensor(np.random.default_rng(3).random(shape, np.float32), xir.Layout("NHWC"))
    return lambda: np.array(made.forward([image])[0])


def lite_network() -> Use:
    """Return a use of a network of MegEngine Lite's."""
    made, tensor = _lite()

    def use() -> Any:
        made.forward()
        made.wait()
        return tensor.to_numpy()

    return use


def lite_async() -> Use:
    """Return the same of one that runs in a thread of its own."""
    made, tensor = _lite()
    done = threading.Event()
    made.async_with_callback(done.set)

    def use() -> Any:
        made.forward()
        made.wait()
        return tensor.to_numpy()

    return use


def _lite() -> tuple[Any, Any]:
    from triune.megenginelite import LiteNetwork

    made = LiteNetwork()
    made.threads_number = 2
    made.load(FOLDER / "classifier.onnx")
    made.get_io_tensor("data").set_data_by_copy(IMAGES)
    return made, made.get_io_tensor("prob")


def compiler() -> Use:
    """Return a use of the compiler: a package's program."""

    def use() -> Any:
        name = f"package-{os.getpid()}-{threading.get_ident()}"
        folder = triune.compile(DIGITS_INT8, target="metis", output=FOLDER / name)
        return np.frombuffer((folder / "model.json").read_bytes(), np.uint8)

    return use


def new_session() -> Use:
    """Return a use that makes everything anew."""
    return lambda: triune.Session(DIGITS_F32, threads=2).run({"image": np.ones((4, 1, 8, 8), np.float32)})[0]


OBJECTS: dict[str, tuple[Callable[[], Use], int]] = {
    # With how many threads use it meanwhile: one where results lie in the object.
    "session": (session, 2),
    "dynamic session": (dynamic_session, 2),
    "native network": (native_network, 1),
    "instance": (instance, 2),
    "near board": (near_board, 2),
    "remote board": (remote_board, 2),
    "icraft session": (icraft_session, 2),
    "host session": (host_session, 2),
    "lite network": (lite_network, 1),
    "lite network, async": (lite_async, 1),
    "compiler": (compiler, 2),
    "new sessions": (new_session, 2),
}


def refused(error: Exception) -> bool:
    """Return whether an error says clearly that the object stayed with the parent."""
    return "forked" in str(error)


def child(make: Callable[[], Use], use: Use, wanted: Any) -> int:
    """Return 0 if a child goes on, 2 if it is refused and goes on with a new object, 1 otherwise."""
    signal.alarm(DEADLINE)
    try:
        try:
            return 0 if np.array_equal(use(), wanted) else 1
        except Exception as error:
            if not refused(error):
                raise
            return 2 if np.array_equal(make()(), wanted) else 1
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        return 1


def main() -> None:
    """Fork during runs, and look at what became of parent and children."""
    make, count = OBJECTS[sys.argv[1]]
    use = make()
    wanted = use()
    start = time.perf_counter()
    use()
    took = time.perf_counter() - start
    stop, runs, wrong = threading.Event(), [0] * count, []

    def work(index: int) -> None:
        while not stop.is_set():
            if not np.array_equal(use(), wanted):
                wrong.append(index)
            runs[index] += 1

    threads = [threading.Thread(target=work, args=(index,), daemon=True) for index in range(count)]
    for thread in threads:
        thread.start()
    outcomes = {0: 0, 2: 0}
    for turn in range(FORKS):
        # Any moment of a run.
        time.sleep(took * (1 + turn / FORKS))
        pid = os.fork()
        if pid == 0:
            code = child(make, use, wanted)
            if turn % 2:
                os._exit(code)
            # Everything that was inherited is let go of.
            sys.exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert code in outcomes, f"child {turn} ended with {code}"
        outcomes[code] += 1
    # The parent goes on: every thread gets through another run.
    before = list(runs)
    deadline = time.monotonic() + DEADLINE
    while any(now < then + 2 for now, then in zip(runs, before, strict=True)):
        assert time.monotonic() < deadline, "the parent's threads do not go on"
        time.sleep(0.01)
    stop.set()
    for thread in threads:
        thread.join(DEADLINE)
        assert not thread.is_alive()
    assert not wrong
    assert np.array_equal(use(), wanted)
    print(f"{sys.argv[1]}: {FORKS} children, {outcomes[0]} went on, {outcomes[2]} were told and made a new one")


if __name__ == "__main__":
    parent = os.getpid()
    try:
        main()
    finally:
        for server, _ in SERVERS if os.getpid() == parent else ():
            server.terminate()
            server.wait()
