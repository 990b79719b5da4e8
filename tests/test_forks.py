"""Forked children: each goes on, or is told why not; none hangs, none disturbs its parent."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import triune
from triune.models import DIGITS_INT8

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")

PROGRAM = Path(__file__).with_name("fork_program.py")
NEVER_REFUSED = ("compiler", "new sessions")
"""What has nothing that a thread could hold beyond its run."""


def _write(
    path: Path, nodes: list[onnx.NodeProto], x: list[int | str], y: list[int | str], **weights: np.ndarray
) -> None:
    graph = helper.make_graph(
        nodes,
        "forked",
        [helper.make_tensor_value_info(nodes[0].input[0], TensorProto.FLOAT, x)],
        [helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, y)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with models, of runs of some milliseconds."""
    made = tmp_path_factory.mktemp("forks")
    rng = np.random.default_rng(1)
    _write(
        made / "classifier.onnx",
        [
            helper.make_node("Conv", ["data", "w"], ["conv"], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["conv"], ["relu"]),
            helper.make_node("Conv", ["relu", "v"], ["more"], pads=[1, 1, 1, 1], strides=[2, 2]),
            helper.make_node("GlobalAveragePool", ["more"], ["prob"]),
        ],
        [1, 3, 192, 192],
        [1, 16, 1, 1],
        w=rng.standard_normal((16, 3, 3, 3)).astype(np.float32),
        v=rng.standard_normal((16, 16, 3, 3)).astype(np.float32),
    )
    _write(
        made / "dynamic.onnx",
        [
            helper.make_node("Relu", ["x"], ["relu"]),
            helper.make_node("NonZero", ["relu"], ["at"]),
            helper.make_node("Transpose", ["at"], ["points"], perm=[1, 0]),
            helper.make_node("GatherND", ["x", "points"], ["taken"]),
        ],
        ["R", "C"],
        ["n"],
    )
    triune.compile(DIGITS_INT8, target="metis", output=made / "card")
    triune.compile(DIGITS_INT8, target="zg330", format="icraft", output=made / "networks")
    return made


@pytest.mark.parametrize(
    "name",
    [
        "session",
        "dynamic session",
        "native network",
        "instance",
        "near board",
        "remote board",
        "icraft session",
        "host session",
        "lite network",
        "lite network, async",
        "compiler",
        "new sessions",
    ],
)
def test_children_of_runs_under_way(folder: Path, name: str) -> None:
    done = subprocess.run([sys.executable, PROGRAM, name, folder], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    print(done.stdout)
    if name in NEVER_REFUSED:
        assert "0 were told" in done.stdout


POOLS = """
import multiprocessing, sys, threading
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
import numpy as np
import triune

folder = Path(sys.argv[1])
images = np.ones((1, 3, 192, 192), "float32")
quiet, busy = (triune.Session(folder / "classifier.onnx", threads=2) for _ in range(2))
(wanted,) = quiet.run({"data": images})

def run(which):
    session = {"quiet": quiet, "busy": busy}[which]
    try:
        return session.run({"data": images})[0]
    except triune.errors.ForkedError:
        return triune.Session(folder / "classifier.onnx", threads=2).run({"data": images})[0]

def forever():
    while True:
        busy.run({"data": images})

if __name__ == "__main__":
    for _ in range(2):
        threading.Thread(target=forever, daemon=True).start()
    context = multiprocessing.get_context("fork")
    names = ["quiet", "busy"] * 10
    with context.Pool(4) as pool:
        assert all(np.array_equal(found, wanted) for found in pool.map(run, names))
    with ProcessPoolExecutor(4, mp_context=context) as pool:
        assert all(np.array_equal(found, wanted) for found in pool.map(run, names))
    assert np.array_equal(quiet.run({"data": images})[0], wanted)
    print("done")
"""


def test_pools_of_forked_processes(folder: Path, tmp_path: Path) -> None:
    program = tmp_path / "pools.py"
    program.write_text(POOLS)
    done = subprocess.run([sys.executable, program, folder], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


RESERVED = """
import os, signal, sys
import triune
from triune import _native

(card,) = _native.cards()
def forked(work):
    pid = os.fork()
    if not pid:
        signal.alarm(30)
        work()
        sys.exit(0)
    return pid
def join(pid):
    assert os.waitpid(pid, 0)[1] == 0

# What a child lets go of stays the parent's.
held = card.reserve(card.sub_devices)
def drop():
    global held
    held.release()
    held = None
    try:
        card.reserve(1)
    except triune.errors.InUseError:
        return
    raise AssertionError("the parent's reservation is gone")
join(forked(drop))
assert len(card.users()) == card.sub_devices

# What the parent lets go of is free, children or not.
there, here = os.pipe()
def wait():
    os.close(here)
    os.read(there, 1)
child = forked(wait)
held.release()
card.reserve(card.sub_devices).release()
os.write(here, b"x")
join(child)
print("done")
"""


def test_reservations_are_the_parents() -> None:
    done = subprocess.run([sys.executable, "-c", RESERVED], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


SERVED = """
import os, signal, sys
import triune
from triune import _native

server = _native.BoardServer("zg330", "127.0.0.1:0")
board = _native.Board.connect(*server.address, "zg330")
start = board.allocate("ddr", 64)
for _ in range(5):
    pid = os.fork()
    if not pid:
        signal.alarm(30)
        assert server.statistics()["boards"] == 0
        for use in (server.wait, lambda: board.settings()):
            try:
                use()
            except triune.errors.Error as error:
                assert "forked" in str(error), error
            else:
                raise AssertionError("a server, or a connection, in two processes")
        assert server.stop()
        board.close()
        sys.exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    board.write("ddr", start, b"x" * 64)
    assert server.statistics()["boards"] == 1
board.close()
assert server.stop()
print("done")
"""


def test_servers_and_connections_are_the_parents() -> None:
    done = subprocess.run([sys.executable, "-c", SERVED], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


ASYNCHRONOUS = """
import os, signal, sys, threading
import numpy as np
import triune
from triune.models import DIGITS_INT8

class Slow(dict):
    def items(self):
        begun.set()
        gate.wait()
        return super().items()

begun, gate = threading.Event(), threading.Event()
session, feeds = triune.Session(DIGITS_INT8), {"image": np.zeros((1, 1, 8, 8), np.float32)}
done = session.run_async(feeds)
done.result()
runs = [session.run_async(Slow(feeds)) for _ in range(3)]
runs.append(session.run_async(feeds))
begun.wait()
waiting = threading.Thread(target=runs[0].result)
waiting.start()
pid = os.fork()
if not pid:
    signal.alarm(30)
    for run in runs:
        try:
            run.result()
        except triune.errors.ForkedError as error:
            assert "start another one here" in str(error), error
        else:
            raise AssertionError("a run of the parent's")
    (mine,) = session.run_async(feeds).result()
    os._exit(0 if (mine == done.result()[0]).all() else 1)
status = os.waitpid(pid, 0)[1]
gate.set()
assert all((run.result()[0] == done.result()[0]).all() for run in runs)
waiting.join()
print("done", status)
"""


def test_runs_that_others_wait_for_are_the_parents() -> None:
    done = subprocess.run([sys.executable, "-c", ASYNCHRONOUS], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done 0\n", "")
