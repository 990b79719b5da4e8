"""Interpreters that end with work in flight, networks that go, and what importing costs."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref
from pathlib import Path

import lite_models as models
import numpy as np
import pytest

from triune.megenginelite import LiteLayout, LiteNetwork, LiteTensor

# What each program does before it ends; each has a network of some milliseconds that is loaded, and its input set.
ENDINGS = {
    "after an async run": "network.async_with_callback(lambda: done.append(1)); network.forward(); network.wait()",
    "during an async run": "network.async_with_callback(lambda: print('called')); network.forward()",
    "during many": "network.async_with_callback(lambda: done.append(1))\nfor _ in range(20): network.forward()",
    "in an exception": "network.async_with_callback(lambda: 1 // 0); network.forward()",
    "in a callback that runs again": "network.async_with_callback(again); network.forward()",
    "in a thread": "import threading; threading.Thread(target=lambda: [network.forward() for _ in range(20)]).start()",
    "in a daemon": (
        "import threading, time; threading.Thread(target=lambda: [network.forward() for _ in range(999)], daemon=True)"
        ".start(); time.sleep(0.02)"
    ),
    "with os._exit": "import os; network.async_with_callback(lambda: 0); network.forward(); os._exit(0)",
    "with sys.exit": "import sys; network.async_with_callback(lambda: 0); network.forward(); sys.exit(0)",
    "with globals": "import builtins; builtins.kept = network, tensor",
}

PROGRAM = """
import sys
import numpy as np
from triune.megenginelite import *
done = []
network = LiteNetwork()
network.load(sys.argv[1])
tensor = network.get_io_tensor("data")
tensor.set_data_by_copy(np.ones((4, 3, 128, 128), "float32"))
left = [5]
def again():
    left[0] -= 1
    if left[0]:
        network.forward()
"""


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a classifier of some milliseconds."""
    return models.classifier(tmp_path_factory.mktemp("slow") / "net.onnx", 4, 128, 32)


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_interpreter_ends_cleanly(slow: Path, ending: str) -> None:
    """The vendor's library aborts the process after asynchronous runs."""
    program = PROGRAM + ENDINGS[ending]
    done = subprocess.run([sys.executable, "-c", program, slow], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    if ending == "during an async run":
        assert done.stdout == "called\n", "a run under way is finished"
    if ending == "in an exception":
        assert "ZeroDivisionError" in done.stderr
    elif ending == "in a callback that runs again":
        # There is nobody left to run it again: said, not crashed.
        assert done.stderr == "" or "shutdown" in done.stderr
    else:
        assert done.stderr == ""


NATIVE = """
import sys, threading, time
import numpy as np
from triune._native import Session
network = Session(sys.argv[1], threads=2)
image = np.ones((4, 3, 128, 128), "float32")
network.bind([image], [None])
network.forward()
def forever():
    while True:
        network.forward()
threads = [threading.Thread(target=forever, daemon=True) for _ in range(3)]
for thread in threads:
    thread.start()
time.sleep(0.05)
"""


def test_the_interpreter_ends_during_native_runs(slow: Path) -> None:
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", NATIVE, slow], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


FORK = """
import os, sys
import numpy as np
from triune.megenginelite import *
network = LiteNetwork()
network.threads_number = int(sys.argv[2])
network.load(sys.argv[1])
network.get_io_tensor("data").set_data_by_copy(np.ones((4, 3, 128, 128), "float32"))
network.forward()
expected = network.get_io_tensor("prob").to_numpy()
network.get_io_tensor("prob").fill_zero()
child = os.fork()
for _ in range(5):
    network.forward()
    assert np.array_equal(network.get_io_tensor("prob").to_numpy(), expected)
if not child:
    # A child goes on with what it has, and loads anew.
    another = LiteNetwork()
    another.threads_number = int(sys.argv[2])
    another.load(sys.argv[1])
    another.get_io_tensor("data").set_data_by_copy(np.ones((4, 3, 128, 128), "float32"))
    another.forward()
    assert np.array_equal(another.get_io_tensor("prob").to_numpy(), expected)
    # Going is no less a thing to do in a child.
    del network, another
    print("child", flush=True)
    sys.exit(0)
_, status = os.waitpid(child, 0)
print("parent", os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.parametrize("threads", ["1", "2", "4"])
def test_a_forked_child_goes_on(slow: Path, threads: str) -> None:
    command = [sys.executable, "-c", FORK, slow, threads]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "child\nparent 0\n"), done.stderr


def test_a_network_goes_at_once(adder: Path) -> None:
    """Without the garbage collector: models can be large."""
    gc.collect()
    gc.disable()
    try:
        network = LiteNetwork()
        network.load(adder)
        for name in "ab":
            network.get_io_tensor(name).set_data_by_copy([1] * 6)
        network.forward()
        network.wait()
        gone = weakref.ref(network), weakref.ref(network.get_io_tensor("a")), weakref.ref(network._loaded())
        kept = network.get_io_tensor("c")
        del network
        assert [reference() for reference in gone] == [None] * 3
        assert kept.to_numpy().tolist() == [[2] * 3] * 2
    finally:
        gc.enable()


def resident() -> int:
    """Return the process's memory in KiB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") // 1024


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from Linux's /proc")
def test_ten_thousand_networks_leave_nothing(adder: Path) -> None:
    def cycle() -> None:
        network = LiteNetwork()
        network.load(adder)
        for name in "ab":
            network.get_io_tensor(name).set_data_by_copy([1] * 6)
        network.forward()
        network.wait()

    for _ in range(1000):
        cycle()
    before = resident()
    for _ in range(9000):
        cycle()
    assert resident() - before < 2048, "KiB"


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from Linux's /proc")
def test_tensors_leave_nothing() -> None:
    array = np.ones((16, 16), "float32")

    def cycle() -> None:
        tensor = LiteTensor(LiteLayout([16, 16]))
        tensor.set_data_by_copy(array)
        tensor.slice([1, 1], [3, 3]).fill_zero()
        tensor.set_data_by_share(array)
        np.asarray(tensor)
        tensor.to_numpy()

    for _ in range(1000):
        cycle()
    before = resident()
    for _ in range(20000):
        cycle()
    assert resident() - before < 1024, "KiB"


PROBE = """
import importlib, sys, time
# The processor's time: others may be at work here, too.
start = time.process_time()
importlib.import_module(sys.argv[1])
print(time.process_time() - start)
import os
from pathlib import Path
memory = Path("/proc/self/statm")
print(int(memory.read_text().split()[1]) * os.sysconf("SC_PAGESIZE") if memory.exists() else 0)
print(*sorted({name.partition(".")[0] for name in sys.modules} - sys.stdlib_module_names))
"""


def test_importing_is_cheap() -> None:
    """The vendor's package takes 0.8 s and 152 MB: eight times what numpy takes, which this one does without."""

    def probe(module: str) -> tuple[float, int, set[str]]:
        done = subprocess.run([sys.executable, "-c", PROBE, module], check=True, capture_output=True, text=True)
        took, memory, modules = done.stdout.splitlines()
        return float(took), int(memory), set(modules.split())

    found = [(probe("triune.megenginelite"), probe("numpy")) for _ in range(6)]
    own, numpy = (min(took for took, _, _ in each) for each in zip(*found, strict=True))
    assert own < numpy, (own, numpy)
    (_, memory, modules), _ = found[0]
    assert memory < 40 << 20
    assert "numpy" not in modules
