"""What programs do wrong with boards: memory let go while it is in use, interrupts, deleters that raise, odd arguments."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from npu_networks import BACKENDS, compiled, expected, image, on_host, opened, session

from triune.icraft.host_backend import HostBackend
from triune.icraft.xir import InternalError, Network
from triune.icraft.xrt import BuyiDevice, Device, HostDevice, MemChunk, MemPtr, SegTable, Session, Tensor
from triune.icraft.zg330backend import SegmentType, ZG330Backend

Folders = dict[str, Path]


@pytest.fixture
def device() -> Iterator[Any]:
    made = opened("zg330")
    yield made
    Device.Close(made)


@pytest.fixture
def network(digits: Folders) -> Network:
    return compiled(digits, "zg330")


# ---- memory that is let go too early


@pytest.mark.parametrize("target", ["zg330", "buyi"])
def test_a_session_does_not_use_memory_that_was_freed(digits: Folders, target: str) -> None:
    network = compiled(digits, target)
    count = None
    index = 0
    while count is None or index < count:
        device = opened(target)
        made = session(target, network, device)
        made.apply()
        made.forward([image(network)])
        chunks = device.defaultMemRegion().memManager().getAllMemChunk()
        count = len(chunks)
        chunks[index].free()
        other = device.malloc(chunks[index].byte_size)
        pattern = np.full(other.byte_size, 0x5A, np.uint8)
        other.write(0, pattern, pattern.size)
        with pytest.raises(InternalError, match="was freed; it has to stay"):
            made.forward([image(network)])
        found = np.empty_like(pattern)
        other.read(found, 0, found.size)
        np.testing.assert_array_equal(found, pattern)
        Device.Close(device)
        index += 1
    assert count >= 5


@pytest.mark.parametrize("segment", [SegmentType.WEIGHT, SegmentType.INSTR, SegmentType.FTMP])
def test_chunks_of_the_program_have_to_be_there(device: Any, network: Network, segment: SegmentType) -> None:
    made = session("zg330", network, device)
    chunk = device.defaultMemRegion().malloc(1 << 16, alignment=4096)
    freed = device.defaultMemRegion().malloc(1 << 16, alignment=4096)
    freed.free()
    backend = ZG330Backend(made.backends[0])
    with pytest.raises(InternalError, match=f"{segment.name}.*was freed"):
        backend.userReuseSegment(freed, segment)
    backend.userReuseSegment(chunk, segment)
    chunk.free()
    with pytest.raises(InternalError, match=f"apply: {segment.name}: the memory chunk was freed"):
        made.apply()


def test_instructions_and_weights_do_not_share_bytes(device: Any, network: Network) -> None:
    made = session("zg330", network, device)
    region = device.defaultMemRegion()
    chunk = region.malloc(1 << 20, alignment=4096)
    alias = region.malloc(MemPtr(chunk.begin.addr() + 4096), 1 << 19, lambda _: None)
    ZG330Backend(made.backends[0]).userReuseSegment(chunk, SegmentType.WEIGHT)
    ZG330Backend(made.backends[0]).userReuseSegment(alias, SegmentType.INSTR)
    with pytest.raises(InternalError, match=r"INSTR, bytes .* and WEIGHT, bytes .* overlap"):
        made.apply()


def test_results_are_not_put_on_instructions_and_weights(device: Any, network: Network) -> None:
    numbers = [op.op_id for op in network.ops if op.typeKey() == "icraft::xir::HardOpNode"]
    view = network.view(numbers)
    made = Session.Create([ZG330Backend], view, [device])
    made.apply()
    given = Tensor(view.inputs()[0].tensorType()).mallocOn(HostDevice.MemRegion())
    segments = ZG330Backend(made.backends[0]).phy_segment_map
    for segment in (SegmentType.WEIGHT, SegmentType.INSTR):
        place = Tensor(view.outputs()[0].tensorType(), segments[segment].single_chunk.memChunk, 64)
        with pytest.raises(InternalError, match=f"lies on {segment.name}"):
            made.forward([given], [place])
    assert ZG330Backend(made.backends[0]).precheck()
    made.forward([given])


@pytest.mark.parametrize("closed", [False, True])
def test_tensors_whose_memory_went_are_refused(device: Any, network: Network, closed: bool) -> None:
    numbers = [op.op_id for op in network.ops if op.typeKey() == "icraft::xir::HardOpNode"]
    view = network.view(numbers)
    made = Session.Create([ZG330Backend], view, [device])
    made.apply()
    given = Tensor(view.inputs()[0].tensorType()).mallocOn(HostDevice.MemRegion())
    other = opened("zg330")
    owner = other if closed else device
    source = given.to(owner.defaultMemRegion())
    place = Tensor(view.outputs()[0].tensorType()).mallocOn(owner.defaultMemRegion())
    made.forward([source], [place])
    if closed:
        Device.Close(other)
    else:
        source.chunk().free()
        place.chunk().free()
    said = "has been closed" if closed else "the memory chunk was freed"
    with pytest.raises(InternalError, match=rf"^\[11012\] input 0 .*{said}"):
        made.forward([source])
    with pytest.raises(InternalError, match=rf"^\[11012\] output 0 .*{said}"):
        made.forward([given], [place])


# ---- interrupts


# An interrupt may also come where Python can only print it: while memory is let go.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no timers for signals")
def test_an_interrupted_run_keeps_no_other_thread_waiting(digits: Folders, network: Network) -> None:
    made = session("zg330", network)
    made.apply()
    given = image(network)
    wanted = expected(digits, "zg330", given)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    interrupted = 0
    try:
        for turn in range(300):
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-5 + (turn % 50) * 2e-5)
                made.forward([given])
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                interrupted += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert interrupted
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.extend(on_host(made.forward([given]))), daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    np.testing.assert_array_equal(results[0], wanted[0])


# ---- forks

FORKS = """
import os, signal, sys, threading, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from npu_networks import compiled, image, on_host, opened, session
from triune.icraft.xir import InternalError
from triune.icraft.xrt import Device

network = compiled({"zg330": Path(sys.argv[1])}, "zg330")
device, given = opened("zg330"), image(network)
made = session("zg330", network, device)
made.apply()
wanted = on_host(made.forward([given]))[0]

def work():
    while True:
        made.forward([given])

def same(session):
    return bool((on_host(session.forward([given]))[0] == wanted).all())

def child():
    try:
        return 0 if same(made) else 1
    except InternalError as error:
        if "a run of another thread was under way when this process was forked" not in str(error):
            raise
    new = session("zg330", network)
    new.apply()
    Device.Close(device)
    return 2 if same(new) else 1

for busy in (False, True):
    if busy:
        for _ in range(2):
            threading.Thread(target=work, daemon=True).start()
    for turn in range(20 if busy else 2):
        time.sleep(turn * 0.001)
        pid = os.fork()
        if pid == 0:
            signal.alarm(30)
            sys.exit(child())
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert code in ((0, 2) if busy else (0,)), code
assert same(made)
print("done")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_child_goes_on_or_is_told_why_not(digits: Folders) -> None:
    command = [sys.executable, "-c", FORKS, str(digits["zg330"]), str(Path(__file__).parent)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


# ---- deleters


def test_closing_calls_every_deleter_whatever_they_raise() -> None:
    device = opened("zg330")
    called: list[int] = []

    def refuse(pointer: MemPtr) -> None:
        called.append(pointer.addr())
        raise ValueError("no")

    places = [0x1000, 0x2000, 0x3000]
    chunks = [device.defaultMemRegion().malloc(MemPtr(place), 64, refuse) for place in places]
    with pytest.raises(ValueError, match="no"):
        Device.Close(device)
    assert called == places
    with pytest.raises(InternalError, match="has been closed"):
        device.version()
    Device.Close(device)
    del chunks
    assert called == places


# ---- arguments


def test_offsets_and_sizes_are_whole_numbers(device: Any) -> None:
    chunk = device.malloc(4096)
    for offset, size in ((1.5, 1), (0.0, 1), (0, 1.0), (None, 1), ("a", 1), (1 << 64, 1)):
        with pytest.raises(TypeError, match=r"src_offset|byte_size"):
            chunk.read(bytearray(8), offset, size)
        with pytest.raises(TypeError, match=r"dest_offset|byte_size"):
            chunk.write(offset, bytes(8), size)
        with pytest.raises(TypeError, match=r"dest_offset|byte_size"):
            chunk.copyFrom(offset, chunk, 0, size)
    # Narrow integers of numpy's do not overflow.
    chunk.write(np.uint8(200), bytes(range(200)), np.uint8(200))
    found = bytearray(200)
    chunk.read(found, np.uint8(200), np.uint8(200))
    assert found == bytes(range(200))
    chunk.copyFrom(np.uint8(100), chunk, np.uint8(200), np.uint8(100))
    with pytest.raises(InternalError, match="src_chunk: expected a memory chunk, got NoneType"):
        chunk.copyFrom(0, None, 0, 1)
    assert device.defaultMemRegion().malloc(64, alignment=np.int64(4096)).begin.addr() % 4096 == 0


def test_tensors_name_wrong_arguments(device: Any) -> None:
    region = device.defaultMemRegion()
    tensor = Tensor(np.zeros((1, 2, 4, 3), np.float32)).to(region)
    for wrong in (
        lambda: tensor.setData(region.malloc(200), 1.5),
        lambda: tensor.read(bytearray(8), None, 1),
        lambda: tensor.write(0, bytes(8), 1.0),
    ):
        with pytest.raises(TypeError, match="a whole number is needed"):
            wrong()
    for call, said in (
        (lambda: tensor.setData(None), "chunk: expected a memory chunk"),
        (lambda: tensor.setDType(None), "dtype: expected a type"),
        (lambda: tensor.mallocOn(None), "mregion: expected a memory region"),
        (lambda: tensor.to(None), "mregion: expected a memory region"),
        (lambda: tensor.copyFrom(0, None, 0, 1), "src_tensor: expected a tensor"),
        (lambda: device.setWaitTime(1 << 63), "milliseconds"),
    ):
        with pytest.raises(InternalError, match=said):
            call()
    assert np.array(tensor).shape == (1, 2, 4, 3)
    device.setWaitTime(np.int64(5))


def test_what_is_in_the_way_is_said_by_the_names_of_regions(device: Any) -> None:
    region = device.defaultMemRegion()
    chunk = region.malloc(MemPtr(0x10000), 100)
    with pytest.raises(InternalError, match="bytes 0x10050 to 0x10060 of the region 'plddr' are not all free"):
        region.malloc(MemPtr(0x10050), 16)
    chunk.free()


def test_the_mmu_names_wrong_arguments() -> None:
    device = BuyiDevice(opened("buyi"))
    for bases in ((0, [0]), ([0], None)):
        with pytest.raises(TypeError, match="bases: a list is needed"):
            SegTable(*bases)
    with pytest.raises(TypeError, match="is_on: True or False is needed, not 'on'"):
        device.mmuModeSwitch("on")
    assert device.modeInfo() == 1
    Device.Close(device)


def test_pointers_to_host_memory_stay_in_64_bits() -> None:
    pointer = MemPtr(np.zeros(8, np.uint8))
    assert (pointer + 4) - pointer == 4
    for by in ((1 << 64) - 1, -(1 << 63)):
        with pytest.raises(InternalError, match="is no address"):
            pointer + by


def test_sessions_name_wrong_arguments(device: Any, network: Network) -> None:
    made = session("zg330", network, device)
    made.apply()
    for index in (None, 1.5, "x"):
        with pytest.raises(TypeError, match="start_index: a whole number is needed"):
            made.sub(index)  # type: ignore[call-overload]
    with pytest.raises(InternalError, match="there are no backends to compute"):
        Session.Create([], network.view(0), [])
    with pytest.raises(TypeError, match="backend_types: a list is needed, not None"):
        Session.Create(None, network.view(0), [])
    with pytest.raises(TypeError, match="filePath: a path is needed, not None"):
        made.dumpSnapshot(None)
    tensor = Tensor(image(network).dtype(), device.malloc(4096), 0, lambda _: False)
    for arguments in ((5,), (None,), (datetime.timedelta(0), 5)):
        with pytest.raises(InternalError, match=r"expected a datetime\.timedelta"):
            tensor.waitForReady(*arguments)
    assert isinstance(tensor.chunk(), MemChunk)


# ---- snapshots


def test_a_snapshot_with_a_wrong_description_says_so(device: Any, network: Network, tmp_path: Path) -> None:
    path = tmp_path / "made.snapshot"
    session("zg330", network, device).dumpSnapshot(str(path))
    content = path.read_bytes()
    start, size = (int.from_bytes(content[at : at + 8], "little") for at in (32, 40))
    description = json.loads(content[start : start + size])
    last = max(description["ops"])
    for key, value in (
        ("ops", [1 << 70]),
        ("ops", [-1]),
        ("ops", [float("inf")]),
        ("backends", [{**description["backends"][0], "ops": [1 << 70]}, description["backends"][1]]),
        ("backends", [{**description["backends"][0], "ops": ["x"]}, description["backends"][1]]),
        ("backends", [{**description["backends"][0], "ops": {"a": last}}, description["backends"][1]]),
        ("backends", [{**description["backends"][0], "ops": 5}, description["backends"][1]]),
        ("backends", [{"class": description["backends"][0]["class"], "options": {}}, description["backends"][1]]),
    ):
        text = json.dumps({**description, key: value}, separators=(",", ":")).encode()
        assert len(text) <= size
        changed = bytearray(content)
        changed[start : start + size] = text.ljust(size)
        changed[64:96] = hashlib.sha256(changed[:64] + changed[96:]).digest()
        path.write_bytes(changed)
        with pytest.raises(InternalError, match=r"\[11011\].*the description is not that of a session"):
            Session.CreateWithSnapshot(str(path), [BACKENDS["zg330"], HostBackend], [device, HostDevice.Default()])
    with pytest.raises(TypeError, match="backends: a list is needed, not None"):
        Session.CreateWithSnapshot(str(path), None, [])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="filePath: a path is needed, not None"):
        Session.CreateWithSnapshot(None, [], [])  # type: ignore[arg-type]
