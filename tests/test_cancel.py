"""Work has a bound, and can be stopped: by signals, by who lets go of what is at work, and by a server whose client has gone."""

from __future__ import annotations

import asyncio
import hashlib
import io
import itertools
import json
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from pathlib import Path

import numpy as np
import pytest
from command_words import stream
from onnx import TensorProto, helper, numpy_helper

import triune
from triune import _native
from triune.axelera.runtime import Context, IncompatibleDevice, InvalidArgument
from triune.errors import LinkError, ReleasedError, UnsupportedError
from triune.megenginelite import LiteNetwork
from triune.models import DIGITS_INT8

LONG, ABSURD = 1 << 20, 1 << 24
"""Extents whose square is hours of a `reduce` below the limit, and beyond it."""
IN_TIME = 5.0
"""Seconds that anything that was stopped may take at most, on a machine that has much else to do."""


def reduce_words(extent: int, source: int, target: int) -> bytes:
    """Return the command that sums up one byte of a segment, extent × extent times, to the beginning of another."""
    u8 = 2
    body = struct.pack("<8I", 1, 1, 1, 1, extent, extent, 0b11_0000, 0)
    body += struct.pack("<QI6Q", source << 54, u8, *[0] * 6) + struct.pack("<QI6Q", target << 54, u8, *[0] * 6)
    return struct.pack("<2I", 0x70, 2 + len(body) // 4) + body


class Job:
    """A job of one `reduce` on a board."""

    def __init__(self, board: _native.Board, extent: int) -> None:
        words = stream(reduce_words(extent, 1, 2))
        self.nbytes, self.start = len(words), board.allocate("ddr", len(words))
        board.write("ddr", self.start, words)
        self.segments = [
            ("ddr", self.start, self.nbytes, "instructions"),
            ("ddr", board.allocate("ddr", 64), 64, "input"),
            ("ddr", board.allocate("ddr", 64), 64, "output"),
        ]

    def run(self, board: _native.Board) -> _native.BoardReport:
        return board.run(self.start, self.nbytes, self.segments)


def products(extent: int, count: int) -> bytes:
    """Return a model that multiplies two matrices, and the result with the second, and so on."""
    names = ["x", *(f"y{index}" for index in range(count))]
    nodes = [helper.make_node("MatMul", [a, "w"], [b]) for a, b in itertools.pairwise(names)]
    info = {
        name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [extent, extent]) for name in ("x", "w", names[-1])
    }
    graph = helper.make_graph(nodes, "products", [info["x"], info["w"]], [info[names[-1]]])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    data: bytes = model.SerializeToString()
    return data


def convolutions(count: int) -> bytes:
    """Return a quantized model of 3 × 3 convolutions of 64 channels over 384 × 384 pixels, one behind the other."""
    constants = {
        "scale": np.float32(0.05),
        "zero": np.uint8(128),
        "small": np.float32(0.001),
        "middle": np.int8(0),
        "weights": np.random.default_rng(0).integers(-127, 128, (64, 64, 3, 3), np.int8),
    }
    shape = [1, 64, 384, 384]
    nodes = [
        helper.make_node("DequantizeLinear", ["weights", "small", "middle"], ["w"]),
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q0"]),
    ]
    for index in range(count):
        nodes += [
            helper.make_node("DequantizeLinear", [f"q{index}", "scale", "zero"], [f"d{index}"]),
            helper.make_node("Conv", [f"d{index}", "w"], [f"c{index}"], pads=[1] * 4),
            helper.make_node("QuantizeLinear", [f"c{index}", "scale", "zero"], [f"q{index + 1}"]),
        ]
    nodes.append(helper.make_node("DequantizeLinear", [f"q{count}", "scale", "zero"], ["y"]))
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy"]
    initializers = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "convolutions", infos[:1], infos[1:], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    data: bytes = model.SerializeToString()
    return data


def replace_instructions(package: Path, extent: int) -> None:
    """Make a package's program one `reduce`, and mend the digest."""
    path = package.parent / "instructions.bin"
    path.write_bytes(stream(reduce_words(extent, 4, 5)).ljust(path.stat().st_size, b"\0"))
    model = json.loads(package.read_text())

    def mend(node: object) -> None:
        if isinstance(node, dict):
            if node.get("file") == "instructions.bin":
                node["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
            for value in node.values():
                mend(value)
        elif isinstance(node, list):
            for value in node:
                mend(value)

    mend(model)
    package.write_text(json.dumps(model))


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the model.json of a network for a card that nobody else uses."""
    monkeypatch.setenv("TRIUNE_RUNTIME_DIR", str(tmp_path / "run"))
    return triune.compile(DIGITS_INT8, target="metis", output=tmp_path / "digits") / "model.json"


@pytest.fixture
def server() -> Iterator[_native.BoardServer]:
    server = _native.BoardServer("zg330", "127.0.0.1:0", boards=1, threads=1, connections=3)
    yield server
    assert server.stop()


def wait_until(ready: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not ready():
        assert time.monotonic() < end
        time.sleep(0.01)


# ---- the limit


def test_absurd_commands_are_refused_by_name(package: Path) -> None:
    names = rf"command 0 \(reduce\) takes {ABSURD**2} operations.*may take 10000000000000.*TRIUNE_WORK_LIMIT"
    board = _native.Board.local("zg330", threads=1)
    with pytest.raises(UnsupportedError, match=names):
        Job(board, ABSURD).run(board)
    replace_instructions(package, ABSURD)
    with Context() as context:
        model = context.load_model(package)
        with pytest.raises(IncompatibleDevice, match=names):
            context.device_connect().load_model_instance(model)


def test_servers_refuse_what_is_absurd(server: _native.BoardServer) -> None:
    board = _native.Board.connect(*server.address, "zg330")
    with pytest.raises(UnsupportedError, match=r"command 0 \(reduce\).*TRIUNE_WORK_LIMIT"):
        Job(board, ABSURD).run(board)
    assert Job(board, 3).run(board).layer_count == 1


def test_models_on_the_host_are_refused_and_the_limit_can_be_set() -> None:
    program = """
import os, re, sys
import triune
from triune.megenginelite import LiteNetwork
from triune.errors import UnsupportedError
model = sys.stdin.buffer.read()
def refused(make):
    try:
        make()
    except (UnsupportedError, RuntimeError) as error:
        assert "fmatmul" in str(error) and "TRIUNE_WORK_LIMIT" in str(error), error
        return True
    return False
def lite():
    import io
    LiteNetwork().load(io.BytesIO(model))
assert triune.work_limit() == 1000
assert refused(lambda: triune.Session(model)) and refused(lite)
# What is recommended is enough for all of it.
try:
    triune.Session(model)
except UnsupportedError as error:
    triune.set_work_limit(int(re.search(r"TRIUNE_WORK_LIMIT=(\\d+)", str(error))[1]))
assert not refused(lambda: triune.Session(model))
triune.set_work_limit(10**7)
assert triune.work_limit() == 10**7
assert not refused(lambda: triune.Session(model)) and not refused(lite)
triune.set_work_limit(None)
assert triune.work_limit() is None
"""
    ended = subprocess.run(
        [sys.executable, "-c", program],
        input=products(64, 3),
        capture_output=True,
        env={**os.environ, "TRIUNE_WORK_LIMIT": "1000"},
        timeout=60,
    )
    assert (ended.returncode, ended.stderr.decode()) == (0, "")


def test_limits_that_are_none() -> None:
    for none in (0, -1, 2**64, 2**70):
        with pytest.raises(triune.errors.ArgumentError, match=rf"from 1 to 2\*\*64 - 1 or None, got {none}$"):
            triune.set_work_limit(none)
    program = "import triune; triune.work_limit()"
    environment = {**os.environ, "TRIUNE_WORK_LIMIT": "much"}
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, timeout=60)
    assert "TRIUNE_WORK_LIMIT=much is no limit" in ended.stderr


# ---- signals

SESSION = """
import sys, signal, numpy as np, triune
from test_cancel import products
session = triune.Session(products(2048, 400), threads={threads})
x = np.zeros((2048, 2048), np.float32)
def work():
    session.run({{"x": x, "w": x}})
def after():
    small = triune.Session(products(64, 1))
    ones = np.ones((64, 64), np.float32)
    assert (small.run({{"x": ones, "w": ones}})[0] == 64).all()
"""

LITE = """
import sys, io, numpy as np
from triune.megenginelite import LiteNetwork
from test_cancel import products
network = LiteNetwork()
network.load(io.BytesIO(products(2048, 400)))
def work():
    network.forward()
    network.wait()
def after():
    network.load(io.BytesIO(products(64, 1)))
    for name in "xw":
        network.get_io_tensor(name).set_data_by_copy(np.ones((64, 64), np.float32))
    network.forward()
    network.wait()
    assert (network.get_io_tensor("y0").to_numpy() == 64).all()
"""

ASYNCHRONOUS = LITE.replace("network.load", "network.async_with_callback(lambda: None)\nnetwork.load", 1)
"""The same where another thread computes, and `wait` is what a signal interrupts."""

AXELERA = """
import sys, numpy as np
from pathlib import Path
from triune.axelera.runtime import Context
from test_cancel import LONG, replace_instructions
import triune
from triune.models import DIGITS_INT8
package = triune.compile(DIGITS_INT8, target="metis", output=Path({folder!r}) / "digits") / "model.json"
replace_instructions(package, LONG)
context = Context()
model = context.load_model(package)
instance = context.device_connect().load_model_instance(model)
source, result = (np.zeros(info.shape, np.int8) for info in (*model.inputs(), *model.outputs()))
def work():
    instance.run([source], [result])
def after():
    instance.release()
    replace_instructions(package, 3)
    source[...] = 1
    model = context.load_model(package)
    context.device_connect().load_model_instance(model).run([source], [result])
    assert result.ravel()[0] == 9
"""

BOARD = """
from command_words import SIZE, Copy
from test_cancel import LONG, Job
from triune import _native
board = _native.Board.{board}
job = Job(board, LONG)
def work():
    job.run(board)
def after():
    copy = Copy(board)
    board.write("ddr", copy.source, bytes(range(256)) * (SIZE // 256))
    board.run(copy.start, copy.nbytes, copy.segments)
    got = bytearray(SIZE)
    board.read("ddr", copy.target, got)
    assert got == bytes(range(256)) * (SIZE // 256)
"""

ICRAFT = """
from test_cancel import LONG, reduce_words
from command_words import stream
from triune.icraft.xrt import Device
device = Device.Open({url!r})
board = device._board
words = [stream(reduce_words(extent, 1, 2)) for extent in (3, LONG)]
first, second = map(len, words)
start = board.allocate("ddr", first + second)
board.write("ddr", start, b"".join(words))
places = [("ddr", board.allocate("ddr", 64), 64, kind) for kind in ("input", "output")]
board.run(start, first, [("ddr", start, first + second, "instructions"), *places])
def work():
    device.icoreCalc(start + first, second)
def after():
    device.icoreCalc(start, first)
    assert device.layerCount() == 2
"""

FORWARD = """
import pathlib, numpy as np
import triune
from test_cancel import convolutions
from triune.icraft.host_backend import HostBackend
from triune.icraft.xir import Layout, Network
from triune.icraft.xrt import Device, HostDevice, Session, Tensor
from triune.icraft.zg330backend import ZG330Backend
def sessions(count):
    folder = pathlib.Path({folder!r}) / str(count)
    folder.mkdir(parents=True)
    (folder / "deep.onnx").write_bytes(convolutions(count))
    triune.compile(folder / "deep.onnx", target="zg330", output=folder, format="icraft")
    network = Network.CreateFromJsonFile(folder / "deep_ZG.json")
    network.loadParamsFromFile(folder / "deep_ZG.raw")
    session = Session.Create([ZG330Backend, HostBackend], network.view(0), [device, HostDevice.Default()])
    session.apply()
    return session
device = Device.Open({url!r})
short, deep = sessions(1), sessions(200)
image = Tensor(np.ones((1, 384, 384, 64), np.float32), Layout("NHWC"))
first = np.array(short.forward([image])[0])
def work():
    for output in deep.forward([image]):
        output.waitForReady(3600 * 1000)
def after():
    assert (np.array(short.forward([image])[0]) == first).all()
"""
"""A network's whole forward, which lasts for some seconds."""

MAIN = """
import time
class Alarm(Exception):
    pass
calls = []
def returns(number, frame):
    calls.append(number)
def raises(number, frame):
    raise Alarm
import signal
signal.signal(signal.SIGUSR1, returns)
signal.signal(signal.SIGUSR2, raises)
for expected in (KeyboardInterrupt, Alarm):
    print("ready", flush=True)
    try:
        work()
    except expected:
        pass
    else:
        raise AssertionError("it came to an end")
    print("stopped", len(calls), flush=True)
after()
print("done", flush=True)
"""


class Child:
    """A program that works for long, in a process of its own."""

    def __init__(self, program: str) -> None:
        path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
        self.process = subprocess.Popen(
            [sys.executable, "-c", program],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def works(self) -> None:
        """Wait until it has been at work for a moment: a signal that comes before would prove nothing."""
        before = self.used()
        end = time.monotonic() + 1
        while time.monotonic() < end and self.used() < before + 10:
            time.sleep(0.01)

    def used(self) -> int:
        """Return the clock's ticks that it has computed."""
        return sum(int(field) for field in Path(f"/proc/{self.process.pid}/stat").read_text().split()[13:15])

    def check(self) -> None:
        """Stop it twice, by Ctrl-C and by a handler that raises; in between, one that does not raise lets it go on."""
        try:
            for number in (signal.SIGINT, signal.SIGUSR2):
                assert self.line() == "ready", self.process.communicate(timeout=60)[1]
                self.works()
                self.process.send_signal(signal.SIGUSR1)
                time.sleep(0.2)
                assert self.process.poll() is None
                start = time.monotonic()
                self.process.send_signal(number)
                stopped = self.line()
                assert time.monotonic() - start < IN_TIME
                assert stopped == f"stopped {1 if number == signal.SIGINT else 2}", self.process.communicate(
                    timeout=60
                )[1]
            assert self.line() == "done", self.process.communicate(timeout=60)[1]
            assert self.process.wait(60) == 0
        finally:
            self.process.kill()
            self.process.communicate()


@pytest.mark.parametrize("threads", [1, 3])
def test_sessions_stop_by_signals(threads: int) -> None:
    Child(SESSION.format(threads=threads) + MAIN).check()


def test_networks_of_megengine_lite_stop_by_signals() -> None:
    Child(LITE + MAIN).check()
    Child(ASYNCHRONOUS + MAIN).check()


def test_a_signal_that_comes_before_the_first_work_is_not_lost() -> None:
    program = """
import signal, threading
import numpy as np
import triune._native
from test_cancel import products
asked = threading.main_thread
def interrupted(*_):
    threading.main_thread = asked
    raise KeyboardInterrupt
# As if the signal came while it is found out which thread is the main one.
threading.main_thread = interrupted
model = products(2048, 400)
try:
    triune.Session(model)
except KeyboardInterrupt:
    print("stopped")
session, x = triune.Session(model), np.zeros((2048, 2048), np.float32)
# Nor does one while numpy's interface is looked for, which is known since.
np.lib.NumpyVersion = interrupted
signal.signal(signal.SIGALRM, interrupted)
signal.setitimer(signal.ITIMER_REAL, 0.3)
try:
    session.run({"x": x, "w": x})
except KeyboardInterrupt:
    print("stopped again")
"""
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, timeout=60)
    assert (ended.stdout.split("\n"), ended.stderr) == (["stopped", "stopped again", ""], "")


def test_runs_stop_with_their_task() -> None:
    network = LiteNetwork()
    network.load(io.BytesIO(products(2048, 400)))

    async def run_out_of_time() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(network.forward_async(), 0.3)

    start = time.monotonic()
    asyncio.run(run_out_of_time())
    assert time.monotonic() - start < IN_TIME
    network.load(io.BytesIO(products(64, 1)))
    for name in "xw":
        network.get_io_tensor(name).set_data_by_copy(np.ones((64, 64), np.float32))
    asyncio.run(network.forward_async())
    assert (network.get_io_tensor("y0").to_numpy() == 64).all()


def test_instances_stop_by_signals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIUNE_RUNTIME_DIR", str(tmp_path / "run"))
    Child(AXELERA.format(folder=str(tmp_path)) + MAIN).check()


def test_boards_stop_by_signals() -> None:
    Child(BOARD.format(board="local('zg330', threads=2)") + MAIN).check()


def test_devices_stop_by_signals(server: _native.BoardServer, tmp_path: Path) -> None:
    Child(FORWARD.format(url="axi://zg330aiu", folder=str(tmp_path / "near")) + MAIN).check()
    Child(ICRAFT.format(url="axi://zg330aiu") + MAIN).check()
    host, port = server.address
    url = f"socket://zg330aiu@{host}:{port}"
    Child(ICRAFT.format(url=url) + MAIN).check()
    Child(FORWARD.format(url=url, folder=str(tmp_path / "far")) + MAIN).check()


SERVER = """
from triune import _native
server = _native.BoardServer("zg330", "127.0.0.1:0", boards=1, threads=1)
print(*server.address, flush=True)
server.wait()
"""


def test_waits_for_a_server_that_stands_still_stop_by_signals() -> None:
    serving = Child(SERVER)
    try:
        host, port = serving.line().split()
        waiting = Child(BOARD.format(board=f"connect({host!r}, {port}, 'zg330')") + MAIN)
        try:
            for number in (signal.SIGINT, signal.SIGUSR2):
                assert waiting.line() == "ready"
                time.sleep(0.3)
                serving.process.send_signal(signal.SIGSTOP)
                start = time.monotonic()
                waiting.process.send_signal(number)
                assert waiting.line() == "stopped 0"
                assert time.monotonic() - start < IN_TIME
                serving.process.send_signal(signal.SIGCONT)
            # The connection is as it was, and the job has made room.
            assert waiting.line() == "done", waiting.process.communicate(timeout=60)[1]
        finally:
            waiting.process.kill()
            waiting.process.communicate()
    finally:
        serving.process.kill()
        serving.process.communicate()


# ---- other threads


def long_run() -> tuple[triune.Session, dict[str, np.ndarray]]:
    """Return a session, and feeds that it would take minutes for."""
    x = np.zeros((2048, 2048), np.float32)
    return triune.Session(products(2048, 400)), {"x": x, "w": x}


def test_closing_a_session_stops_its_runs() -> None:
    session, feeds = long_run()
    started = time.monotonic()
    run = session.run_async(feeds)
    failed: list[BaseException] = []

    def other() -> None:
        try:
            session.run(feeds)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=other)
    thread.start()
    wait_until(run.running)
    time.sleep(0.2)
    session.close()
    with pytest.raises(ReleasedError, match="the run was stopped"):
        run.result(60)
    thread.join(60)
    assert [str(error) for error in failed] == ["the run was stopped"]
    assert time.monotonic() - started < 60


def test_cancelling_a_run_stops_it_alone() -> None:
    session, feeds = long_run()
    first, second = session.run_async(feeds), session.run_async(feeds)
    wait_until(first.running)
    time.sleep(0.2)
    started = time.monotonic()
    assert first.cancel()
    with pytest.raises(CancelledError):
        first.result(60)
    assert time.monotonic() - started < IN_TIME
    assert first.cancelled()
    assert not first.cancel()
    # The next one takes its turn.
    wait_until(second.running)
    assert not second.done()

    async def awaited() -> None:
        await second

    assert second.cancel()
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(awaited())
    small = {name: np.ones((2048, 2048), np.float32) for name in ("x", "w")}
    run = session.run_async(small)

    async def given_up() -> None:
        await asyncio.wait_for(asyncio.wrap_future(run), 0.2)

    with pytest.raises(TimeoutError):
        asyncio.run(given_up())
    wait_until(run.done)
    assert run.cancelled()


def test_an_interrupt_ends_programs_that_wait_for_a_run() -> None:
    program = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
import test_cancel
session, feeds = test_cancel.long_run()
run = session.run_async(feeds)
print("ready", flush=True)
run.result()
"""
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    time.sleep(0.3)
    started = time.monotonic()
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=60)
    assert time.monotonic() - started < IN_TIME
    assert said.splitlines()[-1] == "KeyboardInterrupt"


def test_loading_stops_by_signals() -> None:
    # Each function calls the one before it twice: a kilobyte becomes 131,072 operators, which takes seconds.
    opsets, functions = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)], []
    for depth in range(17):
        inner = ["Neg", "Relu"] if depth == 0 else [f"f{depth - 1}"] * 2
        domain = "own" if depth else ""
        pairs = zip(inner, ["a", "c"], ["c", "b"], strict=True)
        nodes = [helper.make_node(kind, [source], [made], domain=domain) for kind, source, made in pairs]
        functions.append(helper.make_function("own", f"f{depth}", ["a"], ["b"], nodes, opsets))
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("f16", ["x"], ["y"], domain="own")], "g", info[:1], info[1:])
    model = helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=10)
    data = model.SerializeToString()
    told: list[float] = []

    def interrupt() -> None:
        told.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    threading.Timer(0.2, interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        triune.Session(data)
    assert time.monotonic() - told[0] < IN_TIME


@pytest.mark.parametrize("operator", ["NonZero", "Unique"])
def test_operators_between_stages_stop_by_signals(operator: str) -> None:
    node = helper.make_node(operator, ["x"], ["y"])
    info = [helper.make_tensor_value_info("x", TensorProto.BOOL, [1, 1 << 28])]
    graph = helper.make_graph([node], "g", info, [helper.make_tensor_value_info("y", 0, None)])
    if operator == "Unique":
        graph.input[0].type.tensor_type.elem_type = TensorProto.INT32
        graph.input[0].type.tensor_type.shape.dim[1].dim_value = 1 << 24
    graph.output[0].type.tensor_type.elem_type = TensorProto.INT32 if operator == "Unique" else TensorProto.INT64
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = triune.Session(model.SerializeToString())
    x = np.ones((1, 1 << 28), bool) if operator == "NonZero" else np.arange(1 << 24, dtype=np.int32)[None, ::-1].copy()
    threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        session.run({"x": x})
    assert time.monotonic() - started < IN_TIME


def test_closing_a_board_stops_its_job() -> None:
    board = _native.Board.local("zg330", threads=2)
    job, found = Job(board, LONG), []

    def work() -> None:
        try:
            job.run(board)
        except ReleasedError as error:
            found.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    time.sleep(0.1)
    board.close()
    thread.join(60)
    assert found == ["the board has been closed"]


def test_releasing_an_instance_stops_its_run(package: Path) -> None:
    replace_instructions(package, LONG)
    with Context() as context:
        model = context.load_model(package)
        instance = context.device_connect().load_model_instance(model)
        arrays = [np.zeros(info.shape, np.int8) for info in (*model.inputs(), *model.outputs())]
        found: list[str] = []

        def work() -> None:
            try:
                instance.run(arrays[:1], arrays[1:])
            except InvalidArgument as error:
                found.append(str(error))

        thread = threading.Thread(target=work)
        thread.start()
        time.sleep(0.1)
        start = time.monotonic()
        instance.release()
        assert time.monotonic() - start < IN_TIME
        thread.join(60)
        assert len(found) == 1
        assert "released" in found[0]


def test_a_forked_child_is_not_stopped_with_its_parent() -> None:
    program = """
import os, signal, threading, time
from command_words import SIZE, Copy
from test_cancel import LONG, Job
from triune import _native
board, other = _native.Board.local("zg330", threads=1), _native.Board.local("zg330", threads=1)
job, copy = Job(board, LONG), Copy(other)
def stopped():
    try:
        job.run(board)
    except _native.ReleasedError:
        pass
thread = threading.Thread(target=stopped)
thread.start()
time.sleep(0.1)
child = os.fork()
if child == 0:
    time.sleep(0.2)
    other.run(copy.start, copy.nbytes, copy.segments)
    os._exit(7)
board.close()
thread.join()
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
print("done", flush=True)
"""
    child = Child(program)
    output, errors = child.process.communicate(timeout=60)
    assert output == "done\n", errors


# ---- clients that go


CLIENT = """
from test_cancel import LONG, Job
from triune import _native
board = _native.Board.connect({host!r}, {port}, "zg330", share={share})
job = Job(board, LONG)
print("ready", flush=True)
job.run(board)
"""


@pytest.mark.parametrize("share", [False, True])
def test_clients_that_go_leave_nothing_running(server: _native.BoardServer, share: bool) -> None:
    host, port = server.address
    stays = _native.Board.connect(host, port, "zg330", share=True) if share else None
    for _ in range(3):
        client = Child(CLIENT.format(host=host, port=port, share=share))
        assert client.line() == "ready"
        wait_until(lambda: server.statistics()["boards"] == 1)
        time.sleep(0.2)
        client.process.kill()
        client.process.communicate()
        wait_until(lambda: server.statistics()["connections"] == int(share))
        assert server.statistics()["boards"] == int(share)
    board = stays or _native.Board.connect(host, port, "zg330")
    assert Job(board, 3).run(board).layer_count == 1
    board.close()
    with pytest.raises((ReleasedError, LinkError)):
        board.settings()


def test_a_client_that_waits_for_its_own_job_is_missed_when_it_goes(server: _native.BoardServer) -> None:
    program = (
        CLIENT.replace("job.run(board)", "")
        + """
import threading
threading.Thread(target=lambda: job.run(board), daemon=True).start()
threading.Event().wait(0.3)
# What the job writes is read when it is done.
board.read("ddr", job.segments[2][1], bytearray(8))
"""
    )
    host, port = server.address
    client = Child(program.format(host=host, port=port, share=False))
    assert client.line() == "ready"
    time.sleep(1)
    client.process.kill()
    client.process.communicate()
    wait_until(lambda: server.statistics()["connections"] == 0)
