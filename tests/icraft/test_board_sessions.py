"""What a device shows of a session's run: layers, times, records; its instructions run again where they lie."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from npu_networks import BACKENDS, compiled, expected, image, on_host, opened, session

from triune.icraft.buyibackend import Segment
from triune.icraft.xrt import BuyiDevice, Device, SegTable, ZG330Device
from triune.icraft.zg330backend import SegmentType

Folders = dict[str, Path]
KINDS: dict[str, Any] = {"zg330": SegmentType, "buyi": Segment}


@pytest.mark.parametrize("target", ["zg330", "buyi"])
def test_a_run_shows_on_the_device_and_can_be_repeated_there(digits: Folders, target: str) -> None:
    network = compiled(digits, target)
    device = opened(target)
    made = session(target, network.view(0), device)
    made.enableTimeProfile(True)
    made.apply()
    given = image(network, 3)
    made.forward([given])
    ops = [op for op, own, *_ in made.getForwards() if isinstance(own, BACKENDS[target])]
    layers = sum(int(op.getAttr("layer_count")) for op in network.ops if op.hasAttr("layer_count"))
    assert device.layerCount() == layers
    times = [made.timeProfileResults()[op.op_id][2] for op in ops]
    last = next(hard for hard in reversed(times) if hard > 0)
    assert device.calcTime() == pytest.approx(last, rel=1e-3)
    assert device.readReg(0x10, True) > 0
    assert device.readReg(0x14, True) > device.readReg(0x10, True)

    own = BACKENDS[target](made.backends[0])
    physical = own.phy_segment_map
    places = KINDS[target]
    instructions = physical[places.INSTR]
    output = physical[places.OUTPUT]
    chunk = output.memchunk if target == "buyi" else output.multi_chunk[ops[-1].outputs[0].v_id].memChunk
    result = bytearray(chunk.byte_size)
    chunk.read(result, 0, chunk.byte_size)
    chunk.write(0, bytes(chunk.byte_size), chunk.byte_size)
    device.icoreCalc(instructions.phy_addr, instructions.byte_size)
    again = bytearray(chunk.byte_size)
    chunk.read(again, 0, chunk.byte_size)
    assert again == result != bytes(chunk.byte_size)
    # All at once: one launch for what took one each, unless they were merged.
    assert device.layerCount() == 2 * layers
    assert device.calcTime() <= sum(times) * 1.001
    device.reset(1)
    assert device.layerCount() == 0
    (answer,) = on_host(made.forward([given]))
    np.testing.assert_array_equal(answer, expected(digits, target, given)[0])
    Device.Close(device)


def test_the_mmu_turns_a_networks_logical_addresses_into_its_physical_ones(digits: Folders) -> None:
    network = compiled(digits, "buyi")
    device = BuyiDevice(opened("buyi"))
    made = session("buyi", network.view(0), device)
    made.apply()
    given = image(network, 5)
    made.forward([given])
    own: Any = BACKENDS["buyi"](made.backends[0])
    logical, physical = own.logic_segment_map, own.phy_segment_map
    there = {kind: segment for kind, segment in logical.items() if segment.byte_size and kind in physical}
    order = sorted(there, key=lambda kind: there[kind].logic_addr)
    table = SegTable(
        [there[kind].logic_addr for kind in order],
        [physical[kind].phy_addr - there[kind].logic_addr for kind in order],
        len(order),
    )

    def linear(address: int) -> int:
        for kind in order:
            within = address - physical[kind].phy_addr
            if 0 <= within < max(there[kind].byte_size, 4096):
                return int(there[kind].logic_addr + within)
        raise AssertionError(hex(address))

    segments = [
        (region, linear(base) if region == "ddr" and size else base, size, kind)
        for region, base, size, kind in own._placement.native.segments
    ]
    output = physical[Segment.OUTPUT].memchunk
    result, again = bytearray(output.byte_size), bytearray(output.byte_size)
    output.read(result, 0, len(result))
    output.write(0, bytes(len(result)), len(result))
    instructions = there[Segment.INSTR]
    device.updateBuffer(table)
    device._board.run(instructions.logic_addr, instructions.byte_size, segments)
    output.read(again, 0, len(again))
    assert again == result != bytes(len(result))
    # Without its table, a session's physical addresses are what they are.
    device.updateBuffer(SegTable([], [], 0))
    np.testing.assert_array_equal(on_host(made.forward([given]))[0], expected(digits, "buyi", given)[0])


def test_clocks_and_engines_show_in_profiles(digits: Folders) -> None:
    network = compiled(digits, "buyi")
    device = BuyiDevice(opened("buyi"))
    made = session("buyi", network.view(0), device)
    made.enableTimeProfile(True)
    made.apply()
    given = image(network)
    ops = [op.op_id for op, own, *_ in made.getForwards() if isinstance(own, BACKENDS["buyi"])]

    def hard() -> tuple[float, bytes]:
        results = on_host(made.forward([given]))
        times = made.timeProfileResults()
        return sum(times[op_id][2] for op_id in ops), results[0].tobytes()

    usual, bits = hard()
    device.setClkFreq(100e6)
    slow, same = hard()
    assert (slow > 2 * usual, same) == (True, bits)
    device.reset(0)
    assert hard() == (usual, bits)


def test_records_of_a_network_layer_by_layer(digits: Folders) -> None:
    network = compiled(digits, "zg330")
    device = ZG330Device(opened("zg330"))
    made = session("zg330", network.view(0), device)
    made.apply()
    layers = sum(int(op.getAttr("layer_count")) for op in network.ops if op.hasAttr("layer_count"))
    timer, profiler = device.malloc("udma", 16 * layers), device.malloc("udma", 64 * layers)
    device.configTimer(timer)
    device.configProfiler(profiler)
    made.forward([image(network)])
    times, profile = np.empty((layers, 2), np.uint64), np.empty((layers, 8), np.uint64)
    timer.read(times, 0, times.nbytes)
    profiler.read(profile, 0, profile.nbytes)
    assert (times[:, 0] <= times[:, 1]).all()
    assert (np.diff(times[:, 1].astype(np.int64)) >= 0).all()
    assert times[-1, 1] == device.readReg(0x18, True)
    assert np.array_equal(profile[:, :2], times)
    assert profile[:, 7].sum() > 100_000, "multiply-accumulates"
    assert profile[:, 5].sum() >= 4096 * (device.readReg(0x14, True) - 4 * layers)
    Device.Close(device)


@pytest.mark.parametrize(("target", "merge"), [("zg330", True), ("zg330", False), ("buyi", True), ("buyi", False)])
def test_times_are_the_boards_if_asked_for(
    digits: Folders,
    target: str,
    merge: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    network = compiled(digits, target)
    device = opened(target)
    made = session(target, network.view(0), device)
    own = BACKENDS[target](made.backends[0])
    if target == "zg330" and not merge:
        own.disableMergeHardOp()
    if target == "buyi" and merge:
        BuyiDevice(device).mmuModeSwitch(False)
        own.speedMode()
    made.enableTimeProfile(True)
    made.setLogTime(True)
    made.setLogIO(True)
    made.apply()
    given = image(network, 3)
    ops = [op for op, by, *_ in made.getForwards() if isinstance(by, BACKENDS[target])]

    monkeypatch.delenv("TRIUNE_MODELLED_TIME", raising=False)
    (usual,) = on_host(made.forward([given]))
    measured = made.timeProfileResults()
    capsys.readouterr()

    monkeypatch.setenv("TRIUNE_MODELLED_TIME", "1")
    (answer,) = on_host(made.forward([given]))
    np.testing.assert_array_equal(answer, usual)
    told = made.timeProfileResults()
    assert set(told) == set(measured)
    for op in ops:
        wall, copies, hard, other = told[op.op_id]
        board = measured[op.op_id][2]
        assert hard + other == pytest.approx(board)
        assert wall == pytest.approx(copies + hard + other)
        if board:
            assert other == pytest.approx(0.035, rel=0.2)
    busy = [op.op_id for op in ops if told[op.op_id][2] > 0]
    assert device.calcTime() == pytest.approx(told[busy[-1]][2] + told[busy[-1]][3], rel=1e-3)
    assert made.totalTime() >= sum(wall for wall, *_ in told.values())
    lines = capsys.readouterr().out.splitlines()
    wall = told[busy[-1]][0]
    assert any(f"opId: {busy[-1]} " in line and f"wall: {wall:.4f} ms" in line for line in lines)
    assert lines[-1] == f"[I] network wall: {made.totalTime():.4f} ms"

    # One after the other, merged operations are the board's, too.
    made.stepTo(network.ops[-1].op_id, [given])
    stepped = made.timeProfileResults()
    assert made.totalTime() >= sum(wall for wall, *_ in stepped.values())
    assert all(stepped[op_id][3] == pytest.approx(0.035, rel=0.2) for op_id in stepped if stepped[op_id][2] > 0)

    monkeypatch.delenv("TRIUNE_MODELLED_TIME")
    made.forward([given])
    again = made.timeProfileResults()
    assert [again[op.op_id][2] for op in ops] == pytest.approx([measured[op.op_id][2] for op in ops])
    Device.Close(device)
