"""Memory of devices: chunks against a row of bytes, copies between all kinds of regions, owners, bounds and threads."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis.strategies as st
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings

from triune.icraft.xir import InternalError
from triune.icraft.xrt import ADDR, Device, HostDevice, MemChunk, MemPtr, MemRegion


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    device = Device.Open("axi://ql100aiu")
    yield device
    Device.Close(device)


@pytest.fixture(scope="module")
def other() -> Iterator[Device]:
    device = Device.Open("sim://zg330")
    yield device
    Device.Close(device)


def content(chunk: MemChunk) -> bytes:
    data = bytearray(chunk.byte_size)
    chunk.read(data, 0, chunk.byte_size)
    return bytes(data)


def info(region: MemRegion) -> dict[str, int]:
    return {name: int(value) for name, value in region.memManager().getMemRegionInfo().items()}  # type: ignore[call-overload]


def test_regions_by_name(device: Device) -> None:
    assert device.getMemRegion("etm").same_as(device.getMemRegion("plddr"))
    assert device.defaultMemRegion().same_as(device.getMemRegion("plddr"))
    assert device.getMemRegion("udma").device() is device
    assert device.setDefaultMemRegion("udma") is device
    assert device.malloc(8).isOn(device.getMemRegion("udma"))
    device.setDefaultMemRegion(region_name="plddr")
    assert device.malloc(mem_region="ocm", byte_size=8).isOn(device.getMemRegion("ocm"))
    with pytest.raises(InternalError, match="'ddr4'; there are: 'plddr', 'etm', 'ocm', 'udma'"):
        device.getMemRegion("ddr4")
    with pytest.raises(InternalError, match="ddr4"):
        device.malloc("ddr4", 8)


def test_chunks_have_addresses_beyond_what_is_reserved(device: Device) -> None:
    chunk = device.defaultMemRegion().malloc(100, alignment=4096)
    assert chunk.begin.ptype() == ADDR
    assert chunk.begin.addr() % 4096 == 0
    assert chunk.begin.addr() >= 4096
    with pytest.raises(InternalError, match="The MemPtr is of ADDR type!"):
        chunk.begin.cptr()
    assert device.malloc(1).begin.addr() % 64 == 0
    manager = chunk.region.memManager()
    assert manager.getMemChunk(chunk.begin, 100) is chunk
    assert manager.getMemChunk(chunk.begin, 99) is None
    assert any(each is chunk for each in manager.getAllMemChunk())


def test_memory_is_let_go_with_its_last_handle(device: Device) -> None:
    region = device.getMemRegion("udma")
    before = info(region)
    chunk, kept = region.malloc(1000), region.malloc(1000, auto_free=False)
    assert info(region)["used_byte_size"] == before["used_byte_size"] + 2000
    clone = chunk.clone()
    begin = chunk.begin
    del chunk
    gc.collect()
    assert content(clone) == bytes(1000)
    del clone, kept
    gc.collect()
    assert info(region)["used_byte_size"] == before["used_byte_size"] + 1000
    (found,) = (each for each in region.memManager().getAllMemChunk() if each.byte_size == 1000)
    assert found.begin != begin
    found.free()
    found.free()
    assert info(region) == before


def test_memory_that_only_refers_to_itself_is_looked_for(device: Device) -> None:
    region = device.getMemRegion("ocm")
    gc.collect()
    gc.disable()
    try:
        ring: list[Any] = [region.malloc(1_500_000)]
        ring.append(ring)
        del ring
        assert info(region)["used_byte_size"] >= 1_500_000
        chunk = region.malloc(1_500_000)
    finally:
        gc.enable()
    with pytest.raises(InternalError, match="the region 'ocm' has no free range"):
        region.malloc(1_500_000)
    chunk.free()


def test_allocation_at_a_place(device: Device) -> None:
    region = device.defaultMemRegion()
    place = MemPtr(1 << 24)
    chunk = region.malloc(place, 4096)
    assert chunk.begin == place
    for begin in (place, place + 4095, place - 1):
        with pytest.raises(InternalError, match="'plddr' are not all free: something is in the way"):
            region.malloc(begin, 2)
    for begin, said in (
        (MemPtr(0), "not all in the region"),
        (MemPtr(1 << 31), "not all in the region"),
        (MemPtr((1 << 31) - 1), "not all in the region"),
        (MemPtr(bytearray(8)), "of CPTR type"),
        (MemPtr.NullPtr(), "of CPTR type"),
    ):
        with pytest.raises(InternalError, match=said):
            region.malloc(begin, 2)
    chunk.free()
    assert region.malloc(place, 4096).begin == place


def test_deleters_are_called_once_and_the_memory_is_theirs(device: Device) -> None:
    region = device.getMemRegion("ocm")
    whole = region.malloc(256)
    freed: list[int] = []
    part = region.malloc(whole.begin + 64, 64, lambda begin: freed.append(begin.addr()))
    part.write(0, b"part", 4)
    assert content(whole)[64:68] == b"part"
    begin = part.begin.addr()
    part.free()
    part.free()
    del part
    gc.collect()
    assert freed == [begin]
    dropped = region.malloc(whole.begin, 64, lambda begin: freed.append(begin.addr()))
    del dropped
    gc.collect()
    assert freed == [begin, whole.begin.addr()]
    assert content(whole)[64:68] == b"part"


@pytest.mark.parametrize(
    "reach",
    [
        lambda chunk, region: chunk.read(bytearray(99), 0, 17),
        lambda chunk, region: chunk.read(bytearray(99), -1, 4),
        lambda chunk, region: chunk.read(bytearray(3), 0, 4),
        lambda chunk, region: chunk.read(bytes(4), 0, 4),
        lambda chunk, region: chunk.write(14, b"abc", 3),
        lambda chunk, region: chunk.write(1 << 63, b"abc", 3),
        lambda chunk, region: chunk.copyFrom(10, chunk, 0, 7),
        lambda chunk, region: chunk.copyFrom(0, HostDevice.MemRegion().malloc(4), 0, 5),
        lambda chunk, region: region.malloc(-1),
        lambda chunk, region: region.malloc(4, alignment=3),
        lambda chunk, region: region.malloc(1 << 40),
        lambda chunk, region: region.malloc((1 << 64) - 1),
    ],
)
def test_nothing_outside_is_reached(reach: Callable[[MemChunk, MemRegion], object], device: Device) -> None:
    chunk = device.malloc(16)
    with pytest.raises(InternalError):
        reach(chunk, chunk.region)
    assert content(chunk) == bytes(16)


def test_freed_chunks_are_refused(device: Device) -> None:
    chunk, live = device.malloc(16), device.malloc(16)
    clone = chunk.clone()
    chunk.free()
    for call in (
        lambda: chunk.read(bytearray(1), 0, 1),
        lambda: chunk.write(0, b"a", 1),
        lambda: live.copyFrom(0, chunk, 0, 1),
        lambda: clone.copyFrom(0, live, 0, 1),
    ):
        with pytest.raises(InternalError, match="was freed"):
            call()


def test_chunks_without_bytes(device: Device) -> None:
    region = device.getMemRegion("udma")
    one, two = region.malloc(0), region.malloc(0)
    assert (one.byte_size, one.begin != two.begin) == (0, True)
    one.write(0, b"", 0)
    one.read(bytearray(), 0, 0)
    one.copyFrom(0, two, 0, 0)
    one.copyFrom(0, HostDevice.MemRegion().malloc(0), 0, 0)
    with pytest.raises(InternalError, match="bytes 0 to 1 of a memory chunk of 0"):
        one.write(0, b"a", 1)


def test_four_gibibytes(other: Device) -> None:
    region = other.defaultMemRegion()
    chunk = region.malloc(4 << 30)
    chunk.write((4 << 30) - 4, b"last", 4)
    end = bytearray(4)
    chunk.read(end, (4 << 30) - 4, 4)
    assert end == b"last"
    with pytest.raises(InternalError, match="the region 'plddr' has no free range"):
        region.malloc(1)
    chunk.write((4 << 30) - 4, bytes(4), 4)
    chunk.free()


def test_buffers_of_any_kind(device: Device) -> None:
    chunk = device.malloc(64)
    numbers = np.arange(8, dtype=np.float64).reshape(2, 4)
    chunk.write(0, numbers, 64)
    back = np.empty_like(numbers)
    chunk.read(back, 0, 64)
    assert np.array_equal(back, numbers)
    chunk.read(memoryview(back).cast("B")[8:], 0, 8)
    assert back[0, 1] == 0
    with pytest.raises(InternalError, match="without gaps"):
        chunk.write(0, numbers[:, ::2], 8)
    with pytest.raises(InternalError, match="expected a buffer"):
        chunk.write(0, 5, 1)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [1, 4096, (1 << 24) + 5])
def test_copies_between_all_kinds_of_regions(size: int, device: Device, other: Device) -> None:
    regions = [HostDevice.MemRegion(), device.defaultMemRegion(), device.getMemRegion("udma"), other.defaultMemRegion()]
    data = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    for source in regions:
        for target in regions:
            one, two = source.malloc(size), target.malloc(size + 3)
            one.write(0, data, size)
            two.copyFrom(3, one, 0, size)
            assert content(two)[3:] == data.tobytes()


def test_a_chunk_may_be_copied_onto_itself(device: Device) -> None:
    chunk = device.malloc(8)
    chunk.write(0, b"12345678", 8)
    chunk.copyFrom(2, chunk, 0, 6)
    assert content(chunk) == b"12123456"
    chunk.copyFrom(0, chunk, 2, 6)
    assert content(chunk) == b"12345656"


class Model:
    """Chunks of one region, with what they have to hold."""

    def __init__(self, region: MemRegion) -> None:
        self.region = region
        self.chunks: list[tuple[MemChunk, npt.NDArray[np.uint8]]] = []

    def step(self, draw: Callable[..., Any]) -> None:
        kinds = ["malloc", "at"] + ["free", "write", "read", "copy", "inside"] * bool(self.chunks)
        kind = draw(st.sampled_from(kinds))
        if kind == "malloc":
            size = draw(st.integers(0, 3000))
            alignment = 1 << draw(st.integers(0, 13))
            chunk = self.region.malloc(size, alignment=alignment)
            assert chunk.begin.addr() % alignment == 0
            self._add(chunk, draw)
        elif kind == "at":
            begin, size = draw(st.integers(0, 1 << 17)), draw(st.integers(1, 3000))
            taken = any(
                begin < each.begin.addr() + max(each.byte_size, 1) and each.begin.addr() < begin + size
                for each, _ in self.chunks
            )
            if taken:
                with pytest.raises(InternalError):
                    self.region.malloc(MemPtr(begin), size)
            else:
                self._add(self.region.malloc(MemPtr(begin), size), draw)
        elif kind == "free":
            index = draw(st.integers(0, len(self.chunks) - 1))
            chunk, _ = self.chunks.pop(index)
            chunk.free()
        else:
            (chunk, model), (source, original) = (draw(st.sampled_from(self.chunks)) for _ in range(2))
            if kind == "inside":
                source, original = chunk, model
            offset = draw(st.integers(0, chunk.byte_size))
            start = draw(st.integers(0, source.byte_size))
            size = draw(st.integers(0, min(chunk.byte_size - offset, source.byte_size - start)))
            if kind == "write":
                data = draw(st.binary(min_size=size, max_size=size))
                chunk.write(offset, data, size)
                model[offset : offset + size] = np.frombuffer(data, np.uint8)
            elif kind == "read":
                back = bytearray(size)
                chunk.read(back, offset, size)
                assert back == model[offset : offset + size].tobytes()
            else:
                chunk.copyFrom(offset, source, start, size)
                model[offset : offset + size] = original[start : start + size].copy()

    def _add(self, chunk: MemChunk, draw: Callable[..., Any]) -> None:
        data = np.full(chunk.byte_size, draw(st.integers(0, 255)), np.uint8)
        chunk.write(0, data, data.size)
        self.chunks.append((chunk, data))

    def check(self) -> None:
        for chunk, model in self.chunks:
            assert content(chunk) == model.tobytes()
        assert info(self.region)["used_byte_size"] == sum(max(chunk.byte_size, 1) for chunk, _ in self.chunks)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_memory_is_a_row_of_bytes(data: st.DataObject, other: Device) -> None:
    model = Model(other.getMemRegion("ocm"))
    try:
        for _ in range(data.draw(st.integers(1, 40))):
            model.step(data.draw)
        model.check()
    finally:
        for chunk, _ in model.chunks:
            chunk.free()


def test_threads_allocate_and_copy(device: Device) -> None:
    failed: list[str] = []
    region = device.getMemRegion("udma")

    def work(number: int) -> None:
        random = np.random.default_rng(number)
        try:
            for _ in range(60):
                size = int(random.integers(1, 50000))
                data = random.integers(0, 256, size, np.uint8)
                one, two = region.malloc(size), region.malloc(size)
                one.write(0, data, size)
                two.copyFrom(0, one, 0, size)
                one.free()
                if content(two) != data.tobytes():
                    failed.append("bytes")
        except InternalError as error:
            failed.append(str(error))

    before = info(region)
    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    assert failed == []
    assert info(region) == before


def test_copies_leave_the_interpreter_to_others(other: Device) -> None:
    size = 256 << 20
    data = np.zeros(size, np.uint8)
    chunk = other.malloc(size)
    chunk.write(0, data, size)
    counted, done = [0], threading.Event()

    def count() -> None:
        while not done.is_set():
            counted[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    try:
        before = counted[0]
        chunk.write(0, data, size)
        # Far more than between two switches of threads that the interpreter makes by itself.
        assert counted[0] - before > 1000
    finally:
        done.set()
        thread.join()
    chunk.free()
