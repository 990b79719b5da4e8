"""ZG330's backend: bits of the host, options, structures that agree with memory, what is refused and why."""

from __future__ import annotations

import gc
import itertools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from npu_networks import MOCKS, compiled, expected, image, on_host, opened, session

from triune.icraft.host_backend import HostBackend
from triune.icraft.xir import InternalError, Network, Operation, Value
from triune.icraft.xrt import Backend, BackendOpRegistry, Device, HostDevice, MemPtr, Session, Tensor
from triune.icraft.zg330backend import OcmOpt, SegmentType, ZG330Backend

HARD = "icraft::xir::HardOpNode"
Folders = dict[str, Path]


@pytest.fixture
def network(digits: Folders) -> Network:
    return compiled(digits, "zg330")


def backend(made: Session) -> Any:
    return ZG330Backend(made.backends[0])


def applied(made: Session) -> Session:
    made.apply()
    return made


def hard_ops(network: Network) -> list[Operation]:
    return [op for op in network.ops if op.typeKey() == HARD]


def border(network: Network) -> tuple[int, int]:
    """Return the numbers of the value that the accelerator reads first and of the one that it makes last."""
    ops = hard_ops(network)
    return ops[0].inputs[0].v_id, ops[-1].outputs[0].v_id


# ---- bits


@pytest.mark.parametrize("folders", ["digits", "convolutions"])
@pytest.mark.parametrize("option", list(OcmOpt))
@pytest.mark.parametrize("alone", [False, True], ids=["merged", "alone"])
@pytest.mark.parametrize("reuse", [True, False], ids=["reuse", "apart"])
def test_options_do_not_change_bits(
    folders: str, option: OcmOpt, alone: bool, reuse: bool, request: pytest.FixtureRequest
) -> None:
    folder: Folders = request.getfixturevalue(folders)
    network = compiled(folder, "zg330")
    made = session("zg330", network.view(0))
    if alone:
        backend(made).disableMergeHardOp()
    if not reuse:
        backend(made).disableEtmOptimize()
    backend(made).ocmOptimize(option)
    made.apply()
    for seed in (1, 2):
        given = image(network, seed)
        for got, wanted in zip(on_host(made.forward([given])), expected(folder, "zg330", given), strict=True):
            np.testing.assert_array_equal(got, wanted)


def test_options_differ_in_memory_and_time(convolutions: Folders) -> None:
    network = compiled(convolutions, "zg330")
    given = image(network)
    hard: dict[OcmOpt, float] = {}
    ftmp: dict[OcmOpt, int] = {}
    for option in OcmOpt:
        made = session("zg330", network.view(0))
        backend(made).ocmOptimize(option)
        made.enableTimeProfile(True)
        made.apply()
        made.forward([given])
        (merged,) = [op for op, own, *_ in made.getForwards() if isinstance(own, ZG330Backend)]
        hard[option] = made.timeProfileResults()[merged.op_id][2]
        ftmp[option] = backend(made).logic_segment_map[SegmentType.FTMP].byte_size
        chosen = backend(made).ocmopt
        if option == OcmOpt.BEST_SCORE:
            assert chosen in (OcmOpt.OPTION1, OcmOpt.OPTION2, OcmOpt.OPTION3)
        else:
            assert chosen is option
    assert hard[OcmOpt.BEST_SCORE] < hard[OcmOpt.NONE]
    assert hard[OcmOpt.BEST_SCORE] == min(hard.values())
    assert ftmp[OcmOpt.BEST_SCORE] < ftmp[OcmOpt.NONE]
    apart = session("zg330", network.view(0))
    backend(apart).ocmOptimize(OcmOpt.NONE)
    backend(apart).disableEtmOptimize()
    assert backend(apart).logic_segment_map[SegmentType.FTMP].byte_size > 2 * ftmp[OcmOpt.NONE]


def test_merged_operations_are_one_with_a_new_number(network: Network, capsys: pytest.CaptureFixture[str]) -> None:
    made = session("zg330", network.view(0))
    plain = [op.op_id for op, *_ in made.getForwards()]
    assert plain == [op.op_id for op in network.ops]
    made.setLogIO(True)
    made.enableTimeProfile(True)
    made.apply()
    ops = [op for op, *_ in made.getForwards()]
    (merged,) = [op for op in ops if op.op_id not in plain]
    assert merged.op_id > max(plain)
    info = backend(made).forward_info.hardop_map[merged.op_id]
    assert info.merge_from == [op.op_id for op in hard_ops(network)]
    assert info.sync_idx == (0, sum(int(op.getAttr("layer_count")) for op in hard_ops(network)))
    made.forward([image(network)])
    lines = capsys.readouterr().out.splitlines()
    assert any(f"opId: {merged.op_id}  opType: HardOp(Merged)" in line for line in lines)
    assert lines[-1].startswith("[I] network wall: ")
    times = made.timeProfileResults()
    assert set(times) == {op.op_id for op in ops}
    wall, copies, hard, other = times[merged.op_id]
    assert hard > 0.035  # The launch alone.
    assert copies > 0
    assert wall == pytest.approx(copies + hard + other)
    alone = session("zg330", network.view(0))
    backend(alone).disableMergeHardOp()
    alone.enableTimeProfile(True)
    alone.apply()
    alone.forward([image(network)])
    each = alone.timeProfileResults()
    # Every launch costs its time, and what needs no command costs nothing.
    assert sum(each[op.op_id][2] for op in hard_ops(network)) > hard + 0.03
    for op in hard_ops(network):
        assert (each[op.op_id][2] == 0) == (op.getAttr("layer_count") == 0)


# ---- memory


def test_structures_agree_with_memory(convolutions: Folders) -> None:
    network = compiled(convolutions, "zg330")
    device = opened("zg330")
    made = session("zg330", network.view(0), device)
    own = backend(made)
    assert not own.is_applied
    assert own.phy_segment_map == {}
    logic = own.logic_segment_map
    assert set(logic) == set(SegmentType)
    ranges = sorted((segment.logic_addr, segment.logic_addr + segment.byte_size) for segment in logic.values())
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(ranges))
    assert all(start % 4096 == 0 for start, _ in ranges)
    made.apply()
    assert own.is_applied
    assert own.is_applied_
    physical = own.phy_segment_map
    for kind in (SegmentType.WEIGHT, SegmentType.INSTR, SegmentType.FTMP):
        chunk = physical[kind].single_chunk
        assert not chunk.user_used
        assert chunk.memChunk.begin.addr() == physical[kind].phy_addr
        assert chunk.memChunk.byte_size >= physical[kind].byte_size == logic[kind].byte_size
    taker, maker = border(network)
    assert taker in physical[SegmentType.INPUT].multi_chunk
    assert maker in physical[SegmentType.OUTPUT].multi_chunk
    values = own.value_info
    assert set(values) == set(own.forward_info.value_map)
    assert {op_id for op_id, info in own.forward_info.hardop_map.items() if not info.merge_from} == {
        op.op_id for op in hard_ops(network)
    }
    for v_id, info in values.items():
        assert info.value.v_id == v_id
        assert info.byte_size == info.value.storageBytes()
        assert info.real == (not info.fake_from.defined())
        assert v_id in [value.v_id for value in values[info.fake_from.v_id].real_to] if not info.real else True
        assert info.segment in (SegmentType.INPUT, SegmentType.OUTPUT, SegmentType.FTMP)
    assert any(not info.real for info in values.values())
    assert any(info.is_ocm for info in values.values())
    # The addresses are the real ones: the result of a run is there.
    given = image(network)
    made.forward([given])
    info = values[maker]
    there = np.empty(info.byte_size, np.uint8)
    chunk = device.defaultMemRegion()
    physical[SegmentType.OUTPUT].multi_chunk[maker].memChunk.read(there, 0, info.byte_size)
    assert chunk.memManager().getMemChunk(physical[SegmentType.OUTPUT].multi_chunk[maker].memChunk.begin, there.size)
    stepped = applied(session("zg330", network.view(0)))
    last = hard_ops(network)[-1]
    np.testing.assert_array_equal(on_host(stepped.stepTo(last.op_id, [given]))[0].reshape(-1).view(np.uint8), there)


def test_precheck_finds_a_flipped_byte(network: Network, capsys: pytest.CaptureFixture[str]) -> None:
    made = applied(session("zg330", network.view(0)))
    own = backend(made)
    assert own.precheck()
    for kind, name, place in ((SegmentType.WEIGHT, "weights", 7), (SegmentType.INSTR, "instr", 12)):
        op_id, info = list(own.forward_info.hardop_map.items())[1]
        first = getattr(info, f"{name}_logic_addr") - own.logic_segment_map[kind].logic_addr + place
        chunk = own.phy_segment_map[kind].single_chunk.memChunk
        byte = np.empty(1, np.uint8)
        chunk.read(byte, first, 1)
        chunk.write(first, byte ^ 0x10, 1)
        assert not own.precheck()
        said = capsys.readouterr().out
        assert f"segment {kind.name}, operation {op_id}, byte {first} (address {chunk.begin.addr() + first:#x})" in said
        chunk.write(first, byte, 1)
        assert own.precheck()


def test_logs_say_where_things_are(network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = session("zg330", network.view(0))
    with pytest.raises(InternalError, match="11012"):
        backend(made).log()
    made.apply()
    backend(made).log()
    (path,) = (tmp_path / ".icraft/logs").iterdir()
    text = path.read_text()
    for v_id in backend(made).value_info:
        assert f"\n{v_id} " in text
    assert f"{backend(made).phy_segment_map[SegmentType.WEIGHT].phy_addr:#x}" in text


# ---- sharing


def two(network: Network, device: Any) -> tuple[Session, Session]:
    return session("zg330", network.view(0), device), session("zg330", network.view(0), device)


def test_instances_of_a_network_share_segments(convolutions: Folders) -> None:
    network = compiled(convolutions, "zg330")
    device = opened("zg330")
    both = two(network, device)
    region = device.defaultMemRegion()
    chunks = {}
    for made in both:
        backend(made).ocmOptimize(OcmOpt.NONE)
    for kind in (SegmentType.WEIGHT, SegmentType.INSTR, SegmentType.FTMP):
        chunks[kind] = region.malloc(backend(both[0]).logic_segment_map[kind].byte_size, True, 4096)
        for made in both:
            backend(made).userReuseSegment(chunks[kind], kind)
    used = region.memManager().getMemRegionInfo()["used_byte_size"]
    for made in both:
        made.apply()
    more = region.memManager().getMemRegionInfo()["used_byte_size"]
    sizes = [backend(both[0]).logic_segment_map[kind].byte_size for kind in (SegmentType.INPUT, SegmentType.OUTPUT)]
    assert int(str(more)) - int(str(used)) < 2 * (sum(sizes) + 4096)
    for kind, chunk in chunks.items():
        for made in both:
            info = backend(made).phy_segment_map[kind].single_chunk
            assert info.user_used
            assert info.memChunk.begin.addr() == chunk.begin.addr()
    for seed in (1, 2):
        given = image(network, seed)
        wanted = expected(convolutions, "zg330", given)
        for made in both:
            np.testing.assert_array_equal(on_host(made.forward([given]))[0], wanted[0])


@pytest.mark.parametrize("late", [False, True])
def test_chunks_of_the_sizes_that_are_said_do_unmerged(convolutions: Folders, late: bool) -> None:
    # 2.3.1 of the manual with 2.3.3, before the sizes are asked for or behind.
    network = compiled(convolutions, "zg330")
    device = opened("zg330")
    both = [*two(network, device), session("zg330", network.view(0), device)]
    for made in both if not late else []:
        backend(made).disableMergeHardOp()
    sizes = {kind: segment.byte_size for kind, segment in backend(both[0]).logic_segment_map.items()}
    for kind in (SegmentType.INSTR, SegmentType.WEIGHT, SegmentType.FTMP):
        chunk = device.defaultMemRegion().malloc(sizes[kind], True, 4096)
        for made in both:
            backend(made).userReuseSegment(chunk, kind)
    for made in both if late else []:
        backend(made).disableMergeHardOp()
    for made in both:
        made.apply()
    for seed, made in enumerate(both):
        pixels = image(network, seed)
        np.testing.assert_array_equal(on_host(made.forward([pixels]))[0], expected(convolutions, "zg330", pixels)[0])
        assert {kind: segment.byte_size for kind, segment in backend(made).logic_segment_map.items()} == sizes


def test_what_cannot_be_shared_is_refused(network: Network, convolutions: Folders) -> None:
    device = opened("zg330")
    made, other = two(network, device)
    own = backend(made)
    region = device.defaultMemRegion()
    size = own.logic_segment_map[SegmentType.WEIGHT].byte_size
    good = region.malloc(size, True, 4096)
    small = region.malloc(size - 1, True, 4096)
    shifted = region.malloc(MemPtr((1 << 30) + 64), size)
    host = HostDevice.MemRegion().malloc(size)
    elsewhere = opened("zg330").defaultMemRegion().malloc(size, True, 4096)
    for chunk, what in ((small, "has"), (shifted, "multiple of 4096"), (host, "device"), (elsewhere, "device")):
        with pytest.raises(InternalError, match=what):
            own.userReuseSegment(chunk, SegmentType.WEIGHT)
    for kind in (SegmentType.INPUT, SegmentType.OUTPUT):
        with pytest.raises(InternalError, match="userConnectNetwork"):
            own.userReuseSegment(good, kind)
    with pytest.raises(InternalError, match="memory chunk"):
        own.userReuseSegment(None, SegmentType.WEIGHT)
    own.userReuseSegment(good, SegmentType.WEIGHT)
    with pytest.raises(InternalError, match="for WEIGHT already"):
        backend(other).userReuseSegment(good, SegmentType.FTMP)
    big = compiled(convolutions, "zg330")
    first, second = session("zg330", big.view(0), device), session("zg330", network.view(0), device)
    wide = region.malloc(4 << 20, True, 4096)
    backend(first).userReuseSegment(wide, SegmentType.WEIGHT)
    with pytest.raises(InternalError, match="different networks can share FTMP only"):
        backend(second).userReuseSegment(wide, SegmentType.WEIGHT)
    maps = region.malloc(4 << 20, True, 4096)
    for one in (first, second):
        backend(one).userReuseSegment(maps, SegmentType.FTMP)
        one.apply()
    made.apply()
    for call in (
        lambda: own.userReuseSegment(good, SegmentType.WEIGHT),
        lambda: own.userConnectNetwork(good, border(network)[0]),
        own.disableMergeHardOp,
        own.disableEtmOptimize,
        lambda: own.ocmOptimize(OcmOpt.NONE),
    ):
        with pytest.raises(InternalError, match=r"11012.*before apply"):
            call()


def test_chunks_can_be_used_again(network: Network, convolutions: Folders) -> None:
    device = opened("zg330")
    chunk = device.defaultMemRegion().malloc(4 << 20, True, 4096)
    for kind in (SegmentType.WEIGHT, SegmentType.FTMP):
        for one in (network, compiled(convolutions, "zg330")):
            made = session("zg330", one.view(0), device)
            backend(made).userReuseSegment(chunk, kind)
            made.apply()
            assert backend(made).precheck()
            made.forward([image(one)])
            del made
            gc.collect()


def test_other_options_need_other_instructions(convolutions: Folders) -> None:
    network = compiled(convolutions, "zg330")
    device = opened("zg330")
    made, other = two(network, device)
    backend(made).ocmOptimize(OcmOpt.NONE)
    backend(other).ocmOptimize(OcmOpt.NONE)
    backend(other).disableEtmOptimize()
    size = backend(made).logic_segment_map[SegmentType.INSTR].byte_size
    chunk = device.defaultMemRegion().malloc(size, True, 4096)
    for one in (made, other):
        backend(one).userReuseSegment(chunk, SegmentType.INSTR)
    made.apply()
    with pytest.raises(InternalError, match="other options"):
        other.apply()


def parts(network: Network) -> tuple[list[int], list[int], int]:
    """Return the operations of a network in two halves, and the value between them."""
    ops = hard_ops(network)
    cut = next(op for op in ops if op.name.endswith("MaxPool2dNode"))
    ids = [op.op_id for op in network.ops]
    at = ids.index(cut.op_id) + 1
    return ids[:at], ids[at:], cut.outputs[0].v_id


@pytest.mark.parametrize("connected", [True, False])
def test_a_network_reads_what_another_made_in_place(digits: Folders, connected: bool) -> None:
    network = compiled(digits, "zg330")
    device = opened("zg330")
    front, back, between = parts(network)
    first = session("zg330", network.view(front), device)
    second = session("zg330", network.view(back), device)
    chunk = device.defaultMemRegion().malloc(network.getValueById(between).storageBytes(), True, 4096)
    if connected:
        backend(first).userConnectNetwork(chunk, between)
        backend(second).userConnectNetwork(chunk, between)
    for made in (first, second):
        made.enableTimeProfile(True)
        made.apply()
    given = image(network)
    (handed,) = first.forward([given])
    assert handed.isReady()
    assert (handed.data().addr() == chunk.begin.addr()) == connected
    np.testing.assert_array_equal(on_host(second.forward([handed]))[0], expected(digits, "zg330", given)[0])
    (merged,) = [op for op, own, *_ in second.getForwards() if isinstance(own, ZG330Backend)]
    copies = second.timeProfileResults()[merged.op_id][1]
    assert (copies == 0) == connected
    if connected:
        info = backend(second).phy_segment_map[SegmentType.INPUT].multi_chunk[between]
        assert info.user_used
        assert info.memChunk.begin.addr() == chunk.begin.addr()


def test_connections_are_checked(network: Network) -> None:
    device = opened("zg330")
    made = session("zg330", network.view(0), device)
    taker, _ = border(network)
    region = device.defaultMemRegion()
    inner = hard_ops(network)[0].outputs[0].v_id
    with pytest.raises(InternalError, match=f"value {inner} is no input or output"):
        backend(made).userConnectNetwork(region.malloc(1 << 20, True, 4096), inner)
    with pytest.raises(InternalError, match="bytes are needed"):
        backend(made).userConnectNetwork(region.malloc(1, True, 4096), taker)


# ---- sessions


def test_outputs_are_made_where_they_are_wanted(network: Network, digits: Folders) -> None:
    device = opened("zg330")
    ids = [op.op_id for op in network.ops if op.typeKey() == HARD]
    whole = applied(session("zg330", network.view(0), device))
    made = session("zg330", network.view(ids), device)
    made.enableTimeProfile(True)
    made.apply()
    given = whole.stepTo(network.ops[network.getOpIndexById(ids[0]) - 1].op_id, [image(network)])
    (wanted,) = on_host(made.forward(given))
    (merged,) = [op for op, *_ in made.getForwards()]
    value = merged.outputs[0]
    for region in (device.defaultMemRegion(), HostDevice.MemRegion(), device.getMemRegion("udma")):
        places = [Tensor(value.tensorType()).mallocOn(region) for _ in range(2)]
        for place in places:
            assert made.forward(given, [place]) is None
        for place in places:
            np.testing.assert_array_equal(on_host([place])[0], wanted)
    with pytest.raises(InternalError, match="expected"):
        made.forward(given, [Tensor(given[0].dtype()).mallocOn(device.defaultMemRegion())])


@pytest.mark.parametrize("others", ["plddr", "udma"])
def test_results_in_one_memory_go_to_places_of_their_own(digits: Folders, others: str) -> None:
    network = compiled(digits, "zg330")
    ids = [op.op_id for op in network.ops if op.typeKey() == HARD]
    # An operation without commands: its result is its operand's bytes.
    values = [network.ops[network.getOpIndexById(op_id)].outputs[0] for op_id in ids[-3:]]
    network.ops[-1].setInputs([*network.ops[-1].inputs, *values[:2]])
    view, device = network.view(ids), opened("zg330")
    assert [value.v_id for value in view.outputs()] == [value.v_id for value in values]
    given = applied(session("zg330", network.view(0), device)).stepTo(
        network.ops[network.getOpIndexById(ids[0]) - 1].op_id, [image(network)]
    )
    made = applied(session("zg330", view, device))
    wanted = on_host(made.forward(given))
    regions = [device.getMemRegion(name) for name in ("plddr", others, others)]
    places = [Tensor(value.tensorType()).mallocOn(region) for value, region in zip(values, regions, strict=True)]
    made.forward(given, places)
    for got, own in zip(on_host(places), wanted, strict=True):
        np.testing.assert_array_equal(got, own)


@pytest.mark.parametrize("connected", [True, False])
def test_a_result_takes_the_place_of_its_operand(digits: Folders, connected: bool) -> None:
    network = compiled(digits, "zg330")
    device = opened("zg330")
    conv = hard_ops(network)[1]
    taken, given = conv.inputs[0], conv.outputs[0]
    assert taken.tensorType().shape == given.tensorType().shape
    start = applied(session("zg330", network.view(0))).stepTo(hard_ops(network)[0].op_id, [image(network)])
    made = session("zg330", network.view([conv.op_id]), device)
    ring = device.defaultMemRegion().malloc(taken.storageBytes(), True, 4096)
    if connected:
        backend(made).userConnectNetwork(ring, taken.v_id)
    made.apply()
    wanted, start_bytes = on_host(start), np.asarray(start[0])
    for _ in range(3):
        wanted = on_host(made.forward([Tensor(wanted[0], taken.tensorType())]))
    turning = Tensor(taken.tensorType(), ring)
    turning.copyData(start_bytes)
    for _ in range(3):
        made.forward([turning], [turning])
    np.testing.assert_array_equal(np.asarray(turning), wanted[0])


def test_parts_of_joints_are_brought_to_their_chunks(convolutions: Folders) -> None:
    network = compiled(convolutions, "zg330")
    device = opened("zg330")
    whole = session("zg330", network.view(0), device)
    shared = next(info for info in backend(whole).value_info.values() if not info.real)
    v_id = shared.value.v_id
    ids = [op.op_id for op in network.ops]
    at = ids.index(network.getValueById(v_id).op().op_id) + 1
    first, second = session("zg330", network.view(ids[:at]), device), session("zg330", network.view(ids[at:]), device)
    region = device.defaultMemRegion()
    chunk = region.malloc(network.getValueById(v_id).storageBytes(), True, 4096)
    for made in (first, second):
        backend(made).userConnectNetwork(chunk, v_id)
        made.apply()
    kinds = (SegmentType.OUTPUT, SegmentType.INPUT, SegmentType.OUTPUT)
    infos = [
        backend(made).phy_segment_map[kind].multi_chunk.get(v_id) for made in (first, second) for kind in kinds[:2]
    ]
    staged = [info for info in infos if info is not None and info.staged_chunk]
    assert staged
    assert all(info.memChunk.begin.addr() == chunk.begin.addr() for info in infos if info is not None)
    given = image(network)
    handed = first.forward([given])
    numbers = [value.v_id for value in first.network_view.outputs()]
    assert handed[numbers.index(v_id)].data().addr() == chunk.begin.addr()
    order = [value.v_id for value in second.network_view.inputs()]
    results = second.forward([handed[numbers.index(number)] for number in order])
    np.testing.assert_array_equal(on_host(results)[0], expected(convolutions, "zg330", given)[0])


def test_closed_devices_are_named(network: Network) -> None:
    device = opened("zg330")
    made = applied(session("zg330", network.view(0), device))
    Device.Close(device)
    with pytest.raises(InternalError, match=r"1101[24]"):
        made.forward([image(network)])


def test_steps_and_parts(network: Network, digits: Folders) -> None:
    given = image(network)
    made = applied(session("zg330", network.view(0)))
    ops = hard_ops(network)
    between = made.stepTo(ops[2].op_id, [given])
    assert between[0].dtype().shape == ops[2].outputs[0].tensorType().shape
    end = made.stepTo(network.ops[-1].op_id)
    np.testing.assert_array_equal(on_host(end)[0], expected(digits, "zg330", given)[0])
    at = network.getOpIndexById(ops[3].op_id)
    front, back = made.sub(0, at), made.sub(at)
    assert front.backends[0] is made.backends[0]
    handed = front.forward([given])
    np.testing.assert_array_equal(on_host(back.forward(handed))[0], expected(digits, "zg330", given)[0])
    assert [op.op_id for op, *_ in made.sub(-1).getForwards()] == [network.ops[-1].op_id]
    numbers = {
        op.op_id for part in (made, front, back) for op, own, *_ in part.getForwards() if own is made.backends[0]
    }
    assert len(numbers) == 3


def test_everything_can_be_dumped(digits: Folders, tmp_path: Path) -> None:
    network = compiled(digits, "zg330")
    given = image(network)
    made = session("zg330", network.view(0))
    backend(made).disableMergeHardOp()
    made.setDumpOutputs(True, str(tmp_path / "device"), "HQB")
    made.apply()
    assert any(info.is_ocm for info in backend(made).value_info.values())
    made.forward([given])
    host = Session.Create([HostBackend], network.view(0), [HostDevice.Default()])
    host.setDumpOutputs(True, str(tmp_path / "host"), "HQB")
    host.apply()
    host.forward([given])
    names = {path.name for path in (tmp_path / "host").iterdir()}
    assert names == {path.name for path in (tmp_path / "device").iterdir()}
    for name in names:
        assert (tmp_path / "device" / name).read_bytes() == (tmp_path / "host" / name).read_bytes(), name


def test_threads_run_forks_of_a_backend(digits: Folders) -> None:
    network = compiled(digits, "zg330")
    made = applied(session("zg330", network.view(0)))
    sessions = [made]
    for _ in range(2):
        twins = [own.fork() for own in made.backends]
        twin = Session.CreateWithBackends(network.view(0), twins)
        twin.apply()
        sessions.append(twin)
    places = {backend(one).phy_segment_map[SegmentType.WEIGHT].phy_addr for one in sessions}
    assert len(places) == 1
    assert len({backend(one).phy_segment_map[SegmentType.INPUT].phy_addr for one in sessions}) == 3
    wanted = {seed: expected(digits, "zg330", image(network, seed))[0] for seed in range(6)}
    wrong: list[int] = []

    def work(one: Session, seeds: range) -> None:
        for seed in [*seeds] * 4:
            if not np.array_equal(on_host(one.forward([image(network, seed)]))[0], wanted[seed]):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(one, range(index, 6, 3))) for index, one in enumerate(sessions)]
    # One session is used by two threads.
    threads.append(threading.Thread(target=work, args=(made, range(6))))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_networks_share_a_device(digits: Folders, convolutions: Folders) -> None:
    device = opened("zg330")
    jobs = []
    for folder in (digits, convolutions):
        network = compiled(folder, "zg330")
        given = image(network)
        for alone in (False, True, False):
            made = session("zg330", network.view(0), device)
            if alone:
                backend(made).disableMergeHardOp()
            made.apply()
            jobs.append((made, given, expected(folder, "zg330", given)[0]))
    # Those that merge lie in the same bytes on the chip, those that do not in what is left.
    assert any(info.is_ocm for made, *_ in jobs[3:4] for info in backend(made).value_info.values())
    wrong: list[int] = []

    def work(number: int) -> None:
        made, given, wanted = jobs[number]
        last = made.network_view.ops[-1].op_id
        for turn in range(6):
            results = made.stepTo(last, [given]) if turn % 3 == 2 else made.forward([given])
            if not np.array_equal(on_host(results)[0], wanted):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def halved(op: Operation, inputs: list[Tensor], outputs: list[Tensor], own: Backend) -> list[Tensor]:
    return [Tensor(np.asarray(inputs[0]) // 2, op.outputs[0].tensorType())]


def test_operators_of_the_users_own_run_between(digits: Folders) -> None:
    network = compiled(digits, "zg330")
    front, _, between = parts(network)
    value = network.getValueById(between)
    half = Operation.Create("customop::Half")
    half.setInputs([value])
    half.setOutputs([Value(value.tensorType(), value.mtype)])
    taker = network.getUsesOpByValueId(between)[0]
    network.insertOp(len(front), half)
    taker.setInput(0, half[0])
    BackendOpRegistry.Register(HostBackend, "customop::Half").set_forward(halved)
    try:
        given = image(network)
        made = applied(session("zg330", network.view(0)))
        assert sum(isinstance(own, ZG330Backend) for _, own, *_ in made.getForwards()) == 2
        host = Session.Create([HostBackend], network.view(0), [HostDevice.Default()])
        host.apply()
        np.testing.assert_array_equal(on_host(made.forward([given]))[0], on_host(host.forward([given]))[0])
    finally:
        BackendOpRegistry.Remove(HostBackend, "customop::Half")


def test_callbacks_see_the_merged_operation(network: Network) -> None:
    seen: list[tuple[int, str]] = []
    made = session("zg330", network.view(0))
    made.setPostCallBack(lambda _, op, own, tensors: seen.append((op.op_id, type(own).__name__)))
    made.apply()
    made.forward([image(network)])
    assert seen == [(op.op_id, type(own).__name__) for op, own, *_ in made.getForwards()]


# ---- what is refused


def test_mocks_deploy_and_do_not_run(network: Network) -> None:
    made = applied(session("zg330", network.view(0), Device.Open(MOCKS["zg330"])))
    assert backend(made).precheck()
    with pytest.raises(InternalError, match="memory only and cannot forward"):
        made.forward([image(network)])


def test_networks_of_the_vendors_compiler_deploy_and_do_not_run(test_data: Path) -> None:
    network = Network.CreateFromJsonFile(test_data / "models/xir/yolov5s_plin_BY.json")
    ids = [op.op_id for op in network.ops if op.typeKey() == HARD]
    from triune.icraft.buyibackend import BuyiBackend, Segment

    own = Backend.Create(BuyiBackend, network.view(ids), opened("buyi"))
    sizes = {kind.name: segment.byte_size for kind, segment in own.logic_segment_map.items()}
    assert sizes["WEIGHT"] > 7_000_000
    assert sizes["INSTR"] > 700_000
    with pytest.raises(InternalError, match="loadParamsFromFile"):
        own.apply()
    rng = np.random.default_rng(5)
    for op in network.ops:
        for params in (*op.paramsInputs(), *op.paramsAttrs(True)):
            if not params.hasData():
                params.copyData(rng.integers(0, 256, params.storageBytes(), np.uint8))
    own = Backend.Create(BuyiBackend, network.view(ids), opened("buyi"))
    own.apply()
    assert own.precheck()
    assert own.phy_segment_map[Segment.WEIGHT].memchunk.byte_size >= sizes["WEIGHT"]
    first = network.getOpById(ids[0])
    tensors = [Tensor(value.tensorType()).mallocOn(HostDevice.MemRegion()) for value in first.inputs]
    with pytest.raises(NotImplementedError, match="triune compile"):
        own.forwardOp(first, tensors)


@pytest.mark.parametrize("url", ["axi://ql100aiu", "mock://ql100ai"])
def test_sessions_of_networks_of_the_vendors_compiler_deploy(test_data: Path, url: str) -> None:
    from triune.icraft.buyibackend import BuyiBackend

    network = Network.CreateFromJsonFile(test_data / "models/xir/yolov5s_plin_BY.json")
    rng = np.random.default_rng(5)
    for op in network.ops:
        for params in (*op.paramsInputs(), *op.paramsAttrs(True)):
            if not params.hasData():
                params.copyData(rng.integers(0, 256, params.storageBytes(), np.uint8))
    made = Session.Create([BuyiBackend, HostBackend], network.view(0), [Device.Open(url), HostDevice.Default()])
    bound = {op.typeKey(): type(made.backendBindings()[op.op_id]) for op in network.ops}
    assert bound["customop::ImageMakeNode"] is bound["customop::DetPostNode"] is BuyiBackend
    made.apply()
    (value,) = made.network_view.inputs()
    dtype = value.tensorType()
    image = Tensor(dtype).mallocOn(HostDevice.MemRegion())
    # The logic's operations run on a board; then come instructions.
    with pytest.raises(InternalError, match=r"HardOp.*machine code.*triune compile|295 \(ImageMake\): .*memory only"):
        made.forward([image])
    # Without the logic's operations, the instructions are what cannot be run.
    inner = made.sub(2, -2)
    given = [Tensor(one.tensorType()).mallocOn(HostDevice.MemRegion()) for one in inner.network_view.inputs()]
    with pytest.raises(InternalError, match=r"machine code.*triune compile|memory only"):
        inner.forward(given)


@pytest.mark.parametrize("folders", ["digits", "convolutions"])
def test_instructions_of_another_compiler_are_uploaded_and_not_run(
    folders: str, request: pytest.FixtureRequest
) -> None:
    # Without its note, a network's instructions are nobody's that is known.
    network = compiled(request.getfixturevalue(folders), "zg330")
    instructions = {op.op_id: np.asarray(op.instr[0]).reshape(-1).view(np.uint8) for op in hard_ops(network)}
    network.removeTag("triune")
    device = opened("zg330")
    made = applied(session("zg330", network.view(0), device))
    own = backend(made)
    assert own.precheck()
    chunk = own.phy_segment_map[SegmentType.INSTR].single_chunk.memChunk
    for op_id, words in instructions.items():
        info = own.forward_info.hardop_map[op_id]
        there = np.empty(words.size, np.uint8)
        chunk.read(there, info.instr_phy_addr - chunk.begin.addr(), there.size)
        np.testing.assert_array_equal(there, words)
    assert set(own.value_info) >= set(border(network))
    with pytest.raises(NotImplementedError, match=r"triune compile MODEL\.onnx --target zg330"):
        made.forward([image(network)])


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda own, op: own.forwardOp(op, []), "inputs"),
        (lambda own, op: own.forwardOp(op, [Tensor(op.outputs[0].tensorType())]), "no chunk"),
    ],
)
def test_wrong_calls_are_named(network: Network, call: Callable[[Any, Operation], object], what: str) -> None:
    own = Backend.Create(ZG330Backend, network.view(0), opened("zg330"))
    with pytest.raises(TypeError, match="a member of OcmOpt is needed"):
        own.ocmOptimize(7)
    own.apply()
    with pytest.raises(InternalError, match=what):
        call(own, hard_ops(network)[0])


def test_devices_and_operations_have_to_fit(network: Network, digits: Folders) -> None:
    with pytest.raises(InternalError, match="11014"):
        Backend.Create(ZG330Backend, network.view(0), opened("buyi"))
    other = compiled(digits, "buyi")
    with pytest.raises(InternalError, match="cannot compute"):
        Session.Create([ZG330Backend], other.view(0), [opened("zg330")])
    with pytest.raises(InternalError, match="apply"):
        Backend.Create(ZG330Backend, network.view(0), opened("zg330")).forwardOp(
            hard_ops(network)[0], [Tensor(hard_ops(network)[0].inputs[0].tensorType())]
        )
    assert not ZG330Backend().defined()
    with pytest.raises(InternalError, match="cast is refused"):
        ZG330Backend(HostBackend.Init())
