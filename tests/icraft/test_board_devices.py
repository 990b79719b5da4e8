"""Devices that are boards: registers, clocks, engines, the MMU, records, and instructions in their memory."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from command_words import SIZE, Copy

from triune.icraft.xir import InternalError
from triune.icraft.xrt import BuyiDevice, Device, HostDevice, MemPtr, SegTable, ZG330Device


@pytest.fixture
def buyi() -> Iterator[BuyiDevice]:
    device = Device.Open("axi://ql100aiu?npu=0x40000000&dma=0x80000000")
    yield BuyiDevice(device)
    Device.Close(device)


@pytest.fixture
def zg330() -> Iterator[ZG330Device]:
    device = Device.Open("axi://zg330aiu")
    yield ZG330Device(device)
    Device.Close(device)


class Program:
    """Instructions on a device that copy an input to an output, run once as a session does it."""

    def __init__(self, device: Any) -> None:
        self.device, self.job = device, Copy(device._board)
        self.report = device._board.run(self.job.start, self.job.nbytes, self.job.segments)

    def forward(self, run: Callable[[], object]) -> bool:
        """Return whether what `run` does copies new data."""
        data = np.random.default_rng().integers(0, 256, SIZE, np.uint8)
        got = np.empty_like(data)
        self.device._board.write("ddr", self.job.source, data)
        run()
        self.device._board.read("ddr", self.job.target, got)
        return np.array_equal(got, data)

    def calculate(self) -> None:
        self.device.icoreCalc(self.job.start, self.job.nbytes)


def test_a_device_is_one_kind(buyi: BuyiDevice, zg330: ZG330Device) -> None:
    with pytest.raises(InternalError, match="BuyiDeviceNode is not a icraft::xrt::ZG330DeviceNode"):
        ZG330Device(buyi)
    with pytest.raises(InternalError, match="is not a"):
        BuyiDevice(zg330)
    with pytest.raises(InternalError, match="is not a"):
        BuyiDevice(HostDevice.Default())
    for null in (BuyiDevice(), ZG330Device()):
        assert not null.defined()
        with pytest.raises(InternalError, match="null handle"):
            null.layerCount()


def test_instructions_run_where_they_lie(buyi: BuyiDevice, zg330: ZG330Device) -> None:
    for device in (buyi, zg330):
        program = Program(device)
        assert device.layerCount() == 2
        assert program.forward(program.calculate)
        assert device.layerCount() == 4
        assert device.calcTime() == pytest.approx(program.report.nanoseconds / 1e6, rel=1e-3)
        device.reset(1)
        assert (device.layerCount(), device.calcTime()) == (0, 0.0)
        device.reset(0)
        with pytest.raises(InternalError, match="no table"):
            program.calculate()
        for wrong, error in ((-1, InternalError), (1 << 64, TypeError)):
            with pytest.raises(error, match="addr"):
                device.icoreCalc(wrong, 8)
        with pytest.raises(TypeError, match="a whole number is needed"):
            device.icoreCalc("0", 8)  # type: ignore[arg-type]


def test_damaged_instructions_are_refused(zg330: ZG330Device) -> None:
    program = Program(zg330)
    chunk = zg330.defaultMemRegion().malloc(MemPtr(program.job.start), 8, lambda begin: None)
    before = bytearray(8)
    chunk.read(before, 0, 8)
    chunk.write(0, b"\xee", 1)
    with pytest.raises(InternalError, match="no opcode"):
        program.calculate()
    chunk.write(0, before, 8)
    assert program.forward(program.calculate)


def test_registers_by_address(buyi: BuyiDevice) -> None:
    program = Program(buyi)
    registers = buyi.defaultRegRegion()
    assert registers.device() is buyi
    assert registers.read(0x0C, True) == buyi.readReg(0x0C, True) == buyi.readReg(0x4000000C) == 2
    assert registers.read(addr=0x4000000C) == 2
    assert buyi.readReg("icore", 0x4C, relative=True) == buyi.readReg("icore", 0x4004004C) == 0x464D5348
    assert buyi.readReg(byte_size=0x1C, relative=True) == int(buyi.version()["device"], 16)
    assert buyi.readReg(region_name="npu", byte_size=0x1C, relative=True) == int(buyi.version()["device"], 16)
    assert buyi.readReg(region_name="icore", addr=0x4C, relative=True) == 0x464D5348

    def by_register() -> None:
        registers.write(0x40008, program.job.start, True)
        buyi.writeReg("icore", 0x0C, program.job.nbytes, True)
        buyi.writeReg(0x40040010, 1)

    assert program.forward(by_register)
    assert buyi.layerCount() == 4
    assert buyi.readReg(0x10, True) == buyi.readReg(0x14, True) == 2
    # The engines share them: the first two have one each.
    assert [buyi.readReg(0, row, 0x14) for row in range(4)] == [1, 1, 0, 0]
    buyi.writeReg(1, 2, 0x3C, 99)
    assert buyi.readReg(cid=1, rid=2, offset=0x3C) == 99
    assert buyi.readReg(0x4, True) == 0
    buyi.writeReg(0x4, 1, True)
    assert buyi.layerCount() == 0


def test_absolute_addresses_follow_the_url() -> None:
    device = Device.Open("mock://buyi?npu=0x1000&dma=0x90000000")
    assert device.readReg(0x1000 + 0x1C) == device.readReg(0x1C, True)
    assert (
        device.readReg(0x90002000 + 0x1C) == device.readReg("mmu", 0x90002000 + 0x1C) == BuyiDevice(device).modeInfo()
    )
    with pytest.raises(
        InternalError, match="absolute address 0xfff is outside of it: absolute addresses are 0x1000 to"
    ):
        device.readReg(0xFFF)
    for address in (0x1044, 0x8FFFFFFF, 0x90000044, 0x18FFFFFFF):
        with pytest.raises(InternalError, match="no register at"):
            device.readReg(address)
    for address in (0xFFF, 0x190000000):
        with pytest.raises(InternalError, match="0x1000 to 0x8fffffff and 0x90000000 to 0x18fffffff;"):
            device.readReg(address)


def test_bursts_are_copied_by_registers(buyi: BuyiDevice) -> None:
    source, target = buyi.malloc(256), buyi.malloc(256)
    data = np.random.default_rng(2).integers(0, 256, 256, np.uint8)
    source.write(0, data, 256)
    registers, base = buyi.defaultRegRegion(), 0x100041000
    for offset, begin in ((0x18, source.begin), (0x20, target.begin)):
        registers.write(base + offset, begin.addr(), True)
        registers.write(base + offset + 4, begin.addr() + 256 - 64, True)
    registers.write(base + 0x04, 1, True)
    registers.write(base + 0x04, 0, True)
    assert registers.read(base + 0x84, True) == 0
    back = np.empty(256, np.uint8)
    target.read(back, 0, 256)
    assert np.array_equal(back, data)


@pytest.mark.parametrize(
    ("reach", "said"),
    [
        (lambda device: device.readReg(0x44, True), "no register at 0x44"),
        (
            lambda device: device.readReg("icore", 0x1C),
            "'icore': the absolute address 0x1c is outside of it: absolute addresses are 0x40040000 to 0x40040fff; "
            "relative=True takes 0x0 to 0xfff",
        ),
        (
            lambda device: device.readReg(0x1C),
            "'npu': the absolute address 0x1c is outside of it: "
            "absolute addresses are 0x40000000 to 0x7fffffff and 0x80000000 to 0x17fffffff; "
            "relative=True takes 0x0 to 0x1ffffffff",
        ),
        (lambda device: device.readReg("mmu", 0x1C), "absolute addresses are 0x80002000 to 0x80002fff;"),
        (
            lambda device: device.readReg("icore", 0x1000, True),
            "the relative address 0x1000 is outside of it: relative=True takes 0x0 to 0xfff",
        ),
        (lambda device: device.readReg("gpio", 0, True), "'gpio'.*'npu'.*'icore'.*'mmu'"),
        (lambda device: device.readReg(-4, True), "outside"),
        (lambda device: device.writeReg(0x0C, 1, True), "AWLAYER_CNT.*cannot be written"),
        (lambda device: device.writeReg(0x0, 1 << 32, True), "32 bits"),
        (lambda device: device.writeReg(0x0, -1, True), "32 bits"),
        (lambda device: device.writeReg(0, 0, 0x3C, -1), "32 bits"),
        (lambda device: device.readReg(4, 0, 0), "no engine in column 4"),
        (lambda device: device.readReg(0, 0, 0x99), "no register at 0x99"),
        (lambda device: device.readReg(500, 0, 0), "cid 500"),
        (lambda device: device.writeReg(0x1000C0000, 1, True), "ImageMake is fed a picture before it is set up"),
        (lambda device: device.writeReg(0x100000638, 1, True), "ImageMake cycles.*cannot be written"),
        (lambda device: device.setDefaultRegRegion("gpio"), "gpio"),
    ],
)
def test_wrong_registers_are_named(reach: Callable[[Device], object], said: str, buyi: BuyiDevice) -> None:
    with pytest.raises(InternalError, match=said):
        reach(buyi)


def test_the_default_region_of_registers_can_be_another(buyi: BuyiDevice) -> None:
    assert buyi.setDefaultRegRegion("mmu") is buyi
    assert buyi.readReg(0x1C, True) == 1
    assert buyi.readReg("npu", 0x100002000 + 0x1C, True) == 1


def test_clocks_and_engines_change_times(buyi: BuyiDevice) -> None:
    program = Program(buyi)
    usual = buyi.calcTime()
    assert (buyi.clkFreq(), buyi.getRowsCols()) == (860e6, (4, 4))
    buyi.setClkFreq(430e6)
    assert buyi.clkFreq() == 430e6
    assert program.forward(program.calculate)
    assert buyi.calcTime() > usual
    buyi.setEnabledMPE(2, 3)
    assert buyi.getRowsCols() == (2, 3)
    buyi.setClkFreq(clk_freq=860e6)
    buyi.setDType(16)
    assert program.forward(program.calculate)
    assert buyi.calcTime() > usual
    buyi.setDType(8)
    for wrong, said in (
        (lambda: buyi.setClkFreq(1e12), "100 to 860"),
        (lambda: buyi.setClkFreq(-1.0), "no clock"),
        (lambda: buyi.setClkFreq(float("nan")), "no clock"),
        (lambda: buyi.setEnabledMPE(5, 1), "5x1"),
        (lambda: buyi.setEnabledMPE(0, 1), "rows 0"),
        (lambda: buyi.setDType(4), "setDType: 4"),
    ):
        with pytest.raises(InternalError, match=said):
            wrong()


def test_the_mmu_moves_instructions_and_maps(buyi: BuyiDevice) -> None:
    program = Program(buyi)
    assert buyi.modeInfo() == 1
    names = ("start", "source", "target")
    places = {name: getattr(program.job, name) for name in names}
    logical = {"start": 0, "source": 1 << 16, "target": 2 << 16}
    differences = [places[name] - logical[name] for name in names]
    buyi.updateBuffer(SegTable([logical[name] for name in names], differences, 3))
    segments = [
        ("ddr", logical[name], nbytes, kind)
        for name, nbytes, kind in (("start", program.job.nbytes, "instructions"), ("source", SIZE, "input"))
    ]
    segments += [program.job.segments[2], ("ddr", logical["target"], SIZE, "output")]
    assert buyi._board is not None
    board = buyi._board
    assert program.forward(lambda: board.run(0, program.job.nbytes, segments))
    assert program.forward(lambda: buyi.icoreCalc(0, program.job.nbytes))
    buyi.mmuModeSwitch(False)
    assert buyi.modeInfo() == 0
    assert program.forward(program.calculate)
    buyi.mmuModeSwitch(is_on=True)
    buyi.updateBuffer(seg_table=SegTable([], [], 0))
    assert program.forward(program.calculate)


def test_segment_tables_are_checked() -> None:
    table = SegTable([0, 4096], [100, -4096], 2)
    assert (table.logic_bases_, table.phy_bases_, table.size) == ([0, 4096], [100, (1 << 32) - 4096], 2)
    assert table.clone() == table
    for arguments, said in (
        (([0] * 33, [0] * 33, 1), "there can be 32"),
        (([0], [0], 2), "size 2"),
        (([4, 4], [0, 0], 2), "do not ascend"),
        (([1 << 32], [0], 1), "32 bits"),
    ):
        with pytest.raises(InternalError, match=said):
            SegTable(*arguments)
    with pytest.raises(TypeError, match="logi_bases: item 0: a whole number is needed"):
        SegTable(["0"], [0], 1)  # type: ignore[list-item]


def test_timer_and_profiler_write_into_chunks(zg330: ZG330Device, capsys: pytest.CaptureFixture[str]) -> None:
    program = Program(zg330)
    timer, profiler = zg330.malloc("udma", 64), zg330.malloc(1024)
    with pytest.raises(InternalError, match="there is no timer"):
        zg330.showLayerTime(0, 1)
    zg330.configTimer(timer)
    zg330.configProfiler(chunk=profiler)
    zg330.reset(1)
    program.calculate()
    times, profile = np.zeros((4, 2), np.uint64), np.zeros((16, 8), np.uint64)
    timer.read(times, 0, 64)
    profiler.read(profile, 0, 1024)
    expected = [list(layer) for layer in program.report.layers]
    assert times.tolist() == [*expected, [0, 0], [0, 0]]
    assert profile[:2, :2].tolist() == expected
    # The first layer reads what it copies from plddr, the second writes it.
    assert profile[:2, 5:7].tolist() == [[SIZE, 0], [0, SIZE]]
    zg330.showLayerTime(0, 2)
    shown = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in shown] == ["layer 0", "layer 1"]
    assert re.search(rf"cycles {expected[1][0]} to {expected[1][1]}", shown[1])
    with pytest.raises(InternalError, match="room for 4"):
        zg330.showLayerTime(3, 2)
    with pytest.raises(InternalError, match="not on this device"):
        zg330.configTimer(HostDevice.MemRegion().malloc(64))
    # A chunk that is let go ends it.
    timer.free()
    with pytest.raises(InternalError, match="there is no timer"):
        zg330.showLayerTime(0, 1)
    program.calculate()


def test_records_keep_the_chunk_that_they_go_to(zg330: ZG330Device, capsys: pytest.CaptureFixture[str]) -> None:
    program = Program(zg330)
    zg330.configTimer(zg330.malloc(64))
    zg330.configProfiler(zg330.malloc(256))
    gc.collect()
    # Nobody else gets their memory.
    others = [zg330.malloc(64) for _ in range(8)]
    program.calculate()
    zg330.showLayerTime(0, 2)
    assert len(capsys.readouterr().out.splitlines()) == 2
    for chunk in others:
        found = bytearray(64)
        chunk.read(found, 0, 64)
        assert found == bytes(64)


def test_a_clone_is_another_handle_on_the_device(zg330: ZG330Device) -> None:
    twin = zg330.clone()
    assert type(twin) is ZG330Device
    assert twin == zg330
    assert not twin.same_as(zg330)
    twin.configTimer(zg330.malloc(64))
    zg330.setDefaultMemRegion("udma")
    assert twin.defaultMemRegion().same_as(zg330.getMemRegion("udma"))
    other = Device.Open("axi://zg330")
    assert other != zg330
    Device.Close(other)
    Device.Close(twin)
    with pytest.raises(InternalError, match="closed"):
        zg330.malloc(64)
    assert HostDevice.Default().clone(depth=2).check(0)


def test_zg330_clocks_and_tiles(zg330: ZG330Device) -> None:
    program = Program(zg330)
    usual = zg330.calcTime()
    assert [zg330.rTileCount(cid) for cid in range(2)] == [1, 0]
    assert [zg330.wTileCount(cid=cid) for cid in range(2)] == [1, 0]
    zg330.setIcoreClkFreq(500_000_000)
    program.calculate()
    assert zg330.calcTime() > usual
    zg330.setIcoreClkFreq(freq_hz=1_000_000_000)
    zg330.setDDRClkFreq(3_330_000)
    program.calculate()
    assert zg330.calcTime() > usual
    zg330.setMasterCID(0)
    for wrong, said in (
        (lambda: zg330.setIcoreClkFreq(1), "200 to 1000"),
        (lambda: zg330.setDDRClkFreq(0), "0 Hz"),
        (lambda: zg330.setDDRClkFreq(-5), "no clock"),
        (lambda: zg330.setMasterCID(2), "no column 2"),
        (lambda: zg330.rTileCount(2), "column 2"),
    ):
        with pytest.raises(InternalError, match=said):
            wrong()


def test_state_is_shown_and_checked(zg330: ZG330Device, capsys: pytest.CaptureFixture[str]) -> None:
    Program(zg330)
    zg330.showStatus(0)
    assert capsys.readouterr().out == "axi://zg330aiu: zg330, open\n"
    zg330.showStatus(1)
    shown = capsys.readouterr().out
    assert "1000 MHz, 2x2 engines" in shown
    assert "layers: 2" in shown
    assert zg330.check(0)
    assert zg330.check(level=1)
    for call in (zg330.check, zg330.reset, zg330.showStatus):
        with pytest.raises(InternalError, match="no level 2"):
            call(2)
    assert set(zg330.version()) == {"icore", "device", "simulator"}


def test_a_mock_has_memory_only() -> None:
    device = Device.Open("mock://zg330")
    chunk = device.malloc(4)
    chunk.write(0, b"abcd", 4)
    assert device.check(1)
    with pytest.raises(NotImplementedError, match="cannot forward"):
        ZG330Device(device).icoreCalc(0, 64)
    assert device.readReg(0x08, True) == 1
    with pytest.raises(InternalError, match="memory and registers only"):
        device.writeReg("icore", 0x24, 1, True)


def test_a_closed_device_says_so() -> None:
    device = Device.Open("axi://zg330aiu")
    region, registers, chunk = device.defaultMemRegion(), device.defaultRegRegion(), device.malloc(16)
    freed: list[MemPtr] = []
    wrapped = region.malloc(MemPtr(1 << 20), 16, freed.append)
    kept = region.malloc(16, False)
    Device.Close(device)
    Device.Close(device)
    assert [begin.addr() for begin in freed] == [1 << 20]
    buffer = bytearray(16)
    host = HostDevice.MemRegion().malloc(16)
    calls: list[Callable[[], object]] = [
        lambda: device.malloc(1),
        lambda: device.malloc("udma", 1),
        lambda: device.defaultMemRegion(),
        lambda: device.getRegRegion("npu"),
        lambda: device.readReg(0, True),
        lambda: device.check(0),
        lambda: device.reset(0),
        lambda: device.showStatus(0),
        lambda: device.version(),
        lambda: device.setWaitTime(5),
        lambda: ZG330Device(device).icoreCalc(0, 8),
        lambda: ZG330Device(device).layerCount(),
        lambda: ZG330Device(device).configTimer(chunk),
        lambda: region.malloc(1),
        lambda: region.malloc(MemPtr(0), 1),
        lambda: region.memManager().getMemRegionInfo(),
        lambda: registers.read(0, True),
        lambda: registers.write(0, 0, True),
        lambda: chunk.read(buffer, 0, 16),
        lambda: chunk.write(0, buffer, 16),
        lambda: kept.copyFrom(0, host, 0, 16),
        lambda: host.copyFrom(0, wrapped, 0, 16),
    ]
    for call in calls:
        with pytest.raises(InternalError, match="has been closed"):
            call()
    for each in (chunk, wrapped, kept):
        each.free()
    assert len(freed) == 1
    Device.Close(HostDevice.Default())
    with pytest.raises(InternalError, match="expected a device"):
        Device.Close(5)  # type: ignore[arg-type]


def test_a_device_that_nobody_has_is_let_go() -> None:
    device = Device.Open("sim://zg330")
    chunk = device.malloc(16)
    gone = weakref.ref(device)
    del device
    gc.collect()
    assert gone() is not None, "its memory is in use"
    del chunk
    gc.collect()
    assert gone() is None


def test_devices_that_nobody_has_do_not_add_up() -> None:
    gone: list[weakref.ref[Device]] = []
    gc.collect()
    gc.disable()
    try:
        mine = [Device.Open("sim://zg330") for _ in range(3)]
        for _ in range(40):
            device = Device.Open("axi://zg330aiu")
            device.malloc(64)
            gone.append(weakref.ref(device))
            del device
            assert sum(each() is not None for each in gone) <= 40 // 2
    finally:
        gc.enable()
    for device in mine:
        assert device.malloc(16).byte_size == 16


def test_the_interpreter_ends_with_chunks_that_live() -> None:
    program = """
from triune.icraft.xrt import *
device = Device.Open("axi://ql100aiu")
chunk = device.malloc(1 << 20)
kept = device.malloc("udma", 64)
wrapped = device.defaultMemRegion().malloc(MemPtr(1 << 24), 64, lambda begin: print("deleted", begin.addr()))
tensors = [chunk, kept, wrapped]
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr, done.stdout.split()) == (0, "", ["deleted", str(1 << 24)])


def test_threads_run_and_copy_on_one_device(zg330: ZG330Device) -> None:
    failed: list[int] = []

    def work(number: int) -> None:
        program = Program(zg330)
        for _ in range(10):
            if not program.forward(program.calculate):
                failed.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert zg330.layerCount() == 4 * 11 * 2
