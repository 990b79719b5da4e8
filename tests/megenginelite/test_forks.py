"""Forked children: of networks at rest, and of runs under way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import lite_models as models
import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")

PROGRAM = '''
import asyncio, os, sys, threading, time
import numpy as np
from triune.megenginelite import *
from triune.megenginelite.utils import TensorBatchCollector

def ready(threads=1):
    network = LiteNetwork()
    network.threads_number = threads
    network.load(sys.argv[1])
    network.get_io_tensor("data").set_data_by_copy(np.ones((4, 3, 128, 128), "float32"))
    return network

def check(network):
    tensor = network.get_io_tensor("prob")
    if tensor.nbytes:
        tensor.fill_zero()
    network.forward()
    network.wait()
    assert np.array_equal(tensor.to_numpy(), expected)

def refused(*calls):
    for call in calls:
        try:
            call()
        except RuntimeError as error:
            assert "was forked" in str(error), error
        else:
            raise AssertionError("not refused")

def child(work):
    pid = os.fork()
    if not pid:
        try:
            work()
        except BaseException:
            import traceback
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    return pid

def join(pid):
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0

# What is looked up once in a process is looked up by a thread that is not in the child.
FIRST = """
import os, sys, threading
import numpy as np
from triune.megenginelite import *
def run():
    network = LiteNetwork()
    network.load(sys.argv[1])
    network.get_io_tensor("data").set_data_by_copy(np.ones((4, 3, 128, 128), "float32"))
    network.forward()
    return network
thread = threading.Thread(target=run)
thread.start()
pid = os.fork()
if not pid:
    run()
    os._exit(0)
thread.join()
_, status = os.waitpid(pid, 0)
sys.exit(os.waitstatus_to_exitcode(status))
"""

network = ready()
network.forward()
expected = network.get_io_tensor("prob").to_numpy()
'''

CASES = {
    # The network's own thread is not in the child.
    "at rest, async": """
network.async_with_callback(lambda: None)
check(network)
join(child(lambda: check(network)))
check(network)
""",
    "at rest, awaited": """
def run():
    asyncio.run(network.forward_async())
    assert np.array_equal(network.get_io_tensor("prob").to_numpy(), expected)
run()
join(child(run))
run()
""",
    "in its callback": """
pids = []
network.async_with_callback(lambda: pids.append(child(lambda: (network.async_with_callback(None), check(network)))))
check(network)
join(pids[0])
""",
    "during a callback": """
go, there = threading.Event(), threading.Event()
network.async_with_callback(lambda: (there.set(), go.wait(30)))
network.forward()
there.wait()
def again():
    go.set()
    check(network)
pid = child(again)
go.set()
join(pid)
network.wait()
""",
    "during async runs": """
# Of some hundred milliseconds, so that a fork falls into it.
many = np.ones((400, 3, 128, 128), "float32")
def anew():
    refused(network.forward, network.wait, lambda: network.get_io_tensor("data"))
    network.async_with_callback(None)
    network.load(sys.argv[1])
    network.get_io_tensor("data").set_data_by_copy(np.ones((4, 3, 128, 128), "float32"))
    check(network)
    check(ready(2))
network.async_with_callback(lambda: None)
network.get_io_tensor("data").set_data_by_share(many)
for _ in range(8):
    network.forward()
    pid = child(anew)
    network.wait()
    join(pid)
""",
    "during runs of a thread": """
# Of some hundred milliseconds, so that a fork falls into it.
many = np.ones((400, 3, 128, 128), "float32")
network.get_io_tensor("data").set_data_by_share(many)
def anew():
    refused(network.forward, network.wait, lambda: network.get_io_tensor("data"))
    network.load(sys.argv[1])
    network.get_io_tensor("data").set_data_by_copy(np.ones((4, 3, 128, 128), "float32"))
    check(network)
    check(ready(2))
for _ in range(8):
    thread = threading.Thread(target=network.forward)
    thread.start()
    time.sleep(0.05)
    assert thread.is_alive()
    pid = child(anew)
    thread.join()
    join(pid)
""",
    "just behind runs of a pool": """
network = ready(4)
for _ in range(300):
    network.forward()
    join(child(network.forward))
""",
    "with threads at their first look at numpy": """
import subprocess
for _ in range(20):
    subprocess.run([sys.executable, "-c", FIRST, sys.argv[1]], check=True, timeout=60)
""",
    "during loads, dropped": """
stop = False
def forever():
    while not stop:
        ready(2)
        network.load(sys.argv[1])
thread = threading.Thread(target=forever, daemon=True)
thread.start()
collector = TensorBatchCollector([64, 4])
def anew():
    global network
    network = None
    check(ready(2))
    assert collector.collect(np.zeros(4, "int8")) == 0
for _ in range(20):
    join(child(anew))
stop = True
thread.join()
""",
}


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a classifier of some milliseconds, for any number of images."""
    return models.classifier(tmp_path_factory.mktemp("slow") / "net.onnx", "N", 128, 32)


@pytest.mark.parametrize("case", CASES)
def test_a_child(slow: Path, case: str) -> None:
    command = [sys.executable, "-c", PROGRAM + CASES[case], slow]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
