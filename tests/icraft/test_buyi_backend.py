"""BUYI's backend: bits of the host, options and their rules, segments, what the structures say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from npu_networks import MOCKS, compiled, expected, image, on_host, opened, session

from triune.icraft import buyibackend, zg330backend
from triune.icraft.buyibackend import OUTPUT, BuyiBackend, BuyiDevice, Segment
from triune.icraft.xir import InternalError, Network, Operation
from triune.icraft.xrt import Backend, Device, HostDevice, Session, Tensor

HARD = "icraft::xir::HardOpNode"
Folders = dict[str, Path]


@pytest.fixture
def network(digits: Folders) -> Network:
    return compiled(digits, "buyi")


def backend(made: Session) -> Any:
    return BuyiBackend(made.backends[0])


def without_mmu() -> Any:
    device = BuyiDevice(opened("buyi"))
    device.mmuModeSwitch(False)
    return device


def hard_ops(network: Network) -> list[Operation]:
    return [op for op in network.ops if op.typeKey() == HARD]


@pytest.mark.parametrize("folders", ["digits", "convolutions"])
@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("small", [False, True])
def test_options_do_not_change_bits(folders: str, fast: bool, small: bool, request: pytest.FixtureRequest) -> None:
    folder: Folders = request.getfixturevalue(folders)
    network = compiled(folder, "buyi")
    made = session("buyi", network.view(0), without_mmu())
    if fast:
        backend(made).speedMode()
    if small:
        backend(made).compressFtmp()
    assert (backend(made).is_speedmode_, backend(made).is_compressftmp_) == (fast, small)
    made.apply()
    pixels = image(network)
    np.testing.assert_array_equal(on_host(made.forward([pixels]))[0], expected(folder, "buyi", pixels)[0])
    own = [op for op, one, *_ in made.getForwards() if isinstance(one, BuyiBackend)]
    assert (len(own) == 1) == fast


def test_the_mmu_may_be_on(network: Network, digits: Folders) -> None:
    device = BuyiDevice(opened("buyi"))
    made = session("buyi", network.view(0), device)
    own = backend(made)
    assert own.is_mmu
    chunk = device.defaultMemRegion().malloc(1 << 20, True, 4096)
    for call in (
        own.speedMode,
        own.compressFtmp,
        lambda: own.userSetSegment(chunk, Segment.FTMP),
    ):
        with pytest.raises(InternalError, match=r"11012.*mmuModeSwitch\(False\)"):
            call()
    made.apply()
    pixels = image(network)
    np.testing.assert_array_equal(on_host(made.forward([pixels]))[0], expected(digits, "buyi", pixels)[0])


def test_networks_that_are_merged_already_stay_so(network: Network) -> None:
    network.setTag("speedmode", True)
    made = session("buyi", network.view(0), without_mmu())
    with pytest.raises(InternalError, match="compiled with speedmode"):
        backend(made).compressFtmp()


def test_feature_maps_are_compressed(convolutions: Folders) -> None:
    network = compiled(convolutions, "buyi")
    device = without_mmu()
    own = backend(session("buyi", network.view(0), device))
    sizes = {}
    for small in (False, True):
        if small:
            own.compressFtmp()
        sizes[small] = own.logic_segment_map[Segment.FTMP].byte_size
        segments = own.logic_segment_map.values()
        assert own.getDeploySize() == own.getDepolySize() == sum(segment.byte_size for segment in segments)
    assert sizes[True] <= sizes[False]


def test_segments_lie_in_chunks_of_the_programs(convolutions: Folders) -> None:
    network = compiled(convolutions, "buyi")
    device = without_mmu()
    region = device.defaultMemRegion()
    both = [session("buyi", network.view(0), device) for _ in range(2)]
    sizes = {kind: segment.byte_size for kind, segment in backend(both[0]).logic_segment_map.items()}
    weights = region.malloc(sizes[Segment.WEIGHT] + 8192, True, 4096)
    maps = region.malloc(sizes[Segment.FTMP], True, 4096)
    for made in both:
        backend(made).userSetSegment(weights, Segment.WEIGHT, 8192)
        backend(made).setUserSegment(maps, Segment(Segment.FTMP))
        made.apply()
    for made in both:
        physical = backend(made).phy_segment_map
        assert physical[Segment.WEIGHT].user_used
        assert physical[Segment.WEIGHT].phy_addr == weights.begin.addr() + 8192
        assert physical[Segment.FTMP].memchunk.begin.addr() == maps.begin.addr()
        assert not physical[Segment.INSTR].user_used
        assert backend(made).precheck()
        pixels = image(network)
        np.testing.assert_array_equal(on_host(made.forward([pixels]))[0], expected(convolutions, "buyi", pixels)[0])


def test_an_output_is_the_next_input(digits: Folders) -> None:
    network = compiled(digits, "buyi")
    device = without_mmu()
    cut = next(op for op in hard_ops(network) if op.name.endswith("MaxPool2dNode"))
    ids = [op.op_id for op in network.ops]
    at = ids.index(cut.op_id) + 1
    first = session("buyi", network.view(ids[:at]), device)
    second = session("buyi", network.view(ids[at:]), device)
    need = backend(first).logic_segment_map[OUTPUT].byte_size
    assert need == backend(second).logic_segment_map[Segment.INPUT].byte_size
    chunk = device.defaultMemRegion().malloc(need + 4096, True, 4096)
    backend(first).userSetSegment(chunk, Segment(OUTPUT), 4096)
    backend(second).userSetSegment(chunk, Segment.INPUT, 4096)
    for made in (first, second):
        made.enableTimeProfile(True)
        made.apply()
    pixels = image(network)
    handed = first.forward([pixels])
    assert handed[0].data().addr() == chunk.begin.addr() + 4096
    np.testing.assert_array_equal(on_host(second.forward(handed))[0], expected(digits, "buyi", pixels)[0])
    taker = next(op for op, own, *_ in second.getForwards() if isinstance(own, BuyiBackend))
    assert second.timeProfileResults()[taker.op_id][1] == 0


def test_wrong_segments_are_refused(network: Network) -> None:
    device = without_mmu()
    own = backend(session("buyi", network.view(0), device))
    region = device.defaultMemRegion()
    need = own.logic_segment_map[Segment.WEIGHT].byte_size
    good = region.malloc(need, True, 4096)
    for chunk, offset, what in (
        (region.malloc(need - 1, True, 4096), 0, "are needed"),
        (good, 4096, "are needed"),
        (good, 32, "no multiple of 64"),
        (good, -1, "offset -1"),
        (HostDevice.MemRegion().malloc(need), 0, "not in the device's memory"),
    ):
        with pytest.raises(InternalError, match=what):
            own.userSetSegment(chunk, Segment.WEIGHT, offset)
    with pytest.raises(TypeError, match="a member of Segment is needed"):
        own.userSetSegment(good, 9)
    own.apply()
    with pytest.raises(InternalError, match=r"11012.*before apply"):
        own.userSetSegment(good, Segment.WEIGHT)


def test_structures_agree_with_memory(network: Network) -> None:
    made = session("buyi", network.view(0))
    own = backend(made)
    assert own.phy_segment_map == {}
    assert not own.is_applied_
    made.apply()
    assert own.is_applied_
    ops = {op.op_id for op in hard_ops(network)}
    info = own.forward_info
    assert set(info.hardop_map) == ops == set(info.idx_map)
    for op_id, one in info.hardop_map.items():
        assert len(one.instr_data) * 8 == one.instr_logic_size == one.instr_size
        assert one.net_hardop.op_id == op_id
        assert one.merge_from == []
        words = np.empty(len(one.instr_data), np.uint64)
        segment = own.phy_segment_map[Segment.INSTR]
        segment.memchunk.read(words, one.instr_phy_addr - segment.phy_addr, words.nbytes)
        assert words.tolist() == one.instr_data
    layers = [pair[1] for pair in info.idx_map.values()]
    assert layers == sorted(layers)
    assert {value.v_id for value in own.value_list} == {
        v_id for v_id, one in own.value_info.items() if not one.fake_from.defined()
    }
    for kind, segment in own.phy_segment_map.items():
        assert segment.segment_type is kind
        for one in segment.info_map.values():
            if not one.is_ocm:
                assert segment.phy_addr <= one.phy_addr <= segment.phy_addr + segment.byte_size - one.byte_size
            assert not one.user_used
    assert "phy_addr" in str(own.value_info[next(iter(own.value_info))])
    assert own.clone().network_view is own.network_view


def test_layers_are_counted(network: Network) -> None:
    device = opened("buyi")
    made = session("buyi", network.view(0), device)
    made.apply()
    before = device.layerCount()
    ids = [op.op_id for op in hard_ops(network)]
    (tensor,) = made.stepTo(ids[2], [image(network)])
    assert device.layerCount() - before == backend(made).forward_info.idx_map[ids[2]][1]
    assert tensor.isReady()
    device.reset(1)
    assert device.layerCount() == 0
    assert tensor.isReady()


def test_clocks_and_engines_change_times_alone(network: Network) -> None:
    device = BuyiDevice(opened("buyi"))
    made = session("buyi", network.view(0), device)
    made.enableTimeProfile(True)
    made.apply()
    pixels = image(network)

    def run() -> tuple[float, Any]:
        (found,) = on_host(made.forward([pixels]))
        times = made.timeProfileResults()
        return sum(times[op.op_id][2] for op in hard_ops(network)), found

    usual, wanted = run()
    device.setClkFreq(400e6)
    slow, same = run()
    assert slow > usual
    np.testing.assert_array_equal(same, wanted)


def test_many_take_turns_on_the_chip(convolutions: Folders) -> None:
    network = compiled(convolutions, "buyi")
    device = opened("buyi")
    made = session("buyi", network.view(0), device)
    made.apply()
    sessions = [made]
    for _ in range(4):
        twin = Session.CreateWithBackends(network.view(0), [own.fork() for own in made.backends])
        twin.apply()
        sessions.append(twin)
    for segment in (Segment.FTMP, Segment.INSTR, Segment.WEIGHT):
        assert len({backend(one).logic_segment_map[segment].byte_size for one in sessions}) == 1
    assert len({backend(one).phy_segment_map[Segment.WEIGHT].phy_addr for one in sessions}) == 1
    pixels = image(network)
    (wanted,) = expected(convolutions, "buyi", pixels)
    for one in sessions:
        assert backend(one).precheck()
        np.testing.assert_array_equal(on_host(one.forward([pixels]))[0], wanted)
    # Each operator of one after the same of another: what is on the chip between is nobody's.
    given = [image(network, seed) for seed in range(len(sessions))]
    for op in network.ops[1:]:
        outputs = [one.stepTo(op.op_id, [pixels]) for one, pixels in zip(sessions, given, strict=True)]
    for found, one in zip(outputs, given, strict=True):
        np.testing.assert_array_equal(on_host(found)[0], expected(convolutions, "buyi", one)[0])


def test_what_a_program_holds_on_the_chip_stays(convolutions: Folders) -> None:
    network = compiled(convolutions, "buyi")
    device = opened("buyi")
    first, second, third = [session("buyi", network.view(0), device) for _ in range(3)]
    first.apply()
    near = next(op for op in hard_ops(network) if backend(first).value_info[op.outputs[0].v_id].is_ocm)
    pixels = image(network)
    (kept,) = first.stepTo(near.op_id, [pixels])
    before = np.array(on_host([kept])[0])
    for other in (second, third):
        other.apply()
        other.forward([image(network, 5)])
    np.testing.assert_array_equal(on_host([kept])[0], before)
    fourth = session("buyi", network.view(0), device)
    size = backend(fourth).logic_segment_map[Segment.FTMP].byte_size
    device.mmuModeSwitch(False)
    backend(fourth).userSetSegment(device.defaultMemRegion().malloc(size), Segment.FTMP)
    fourth.apply()
    np.testing.assert_array_equal(on_host(fourth.forward([pixels]))[0], expected(convolutions, "buyi", pixels)[0])


def test_chunks_of_the_sizes_that_are_said_do(convolutions: Folders) -> None:
    # As the manual has it: `device.defaultMemRegion().malloc(size)`, of the size of the segment and no more.
    network = compiled(convolutions, "buyi")
    device = without_mmu()
    region = device.defaultMemRegion()
    region.malloc(1)
    both = [session("buyi", network.view(0), device) for _ in range(3)]
    sizes = {kind: segment.byte_size for kind, segment in backend(both[0]).logic_segment_map.items()}
    shared = {kind: region.malloc(sizes[kind]) for kind in (Segment.WEIGHT, Segment.FTMP)}
    for made in both:
        for kind, chunk in shared.items():
            backend(made).userSetSegment(chunk, kind)
        for kind in (Segment.INPUT, Segment.OUTPUT, Segment.INSTR):
            backend(made).userSetSegment(region.malloc(sizes[kind]), kind)
    for made in both:
        made.apply()
    for seed, made in enumerate(both):
        pixels = image(network, seed)
        assert {kind: segment.byte_size for kind, segment in backend(made).logic_segment_map.items()} == sizes
        np.testing.assert_array_equal(on_host(made.forward([pixels]))[0], expected(convolutions, "buyi", pixels)[0])


def test_members_are_exported() -> None:
    assert [member.name for member in Segment] == ["WEIGHT", "INSTR", "INPUT", "OUTPUT", "FTMP"]
    assert [member.name for member in zg330backend.SegmentType] == ["INPUT", "OUTPUT", "WEIGHT", "FTMP", "INSTR"]
    for name in ("INPUT", "OUTPUT", "WEIGHT", "FTMP", "INSTR"):
        assert getattr(buyibackend, name) is Segment[name]
        assert getattr(zg330backend, name) is zg330backend.SegmentType[name]
        assert {Segment[name]: 1}[Segment(getattr(buyibackend, name))] == 1
    for option in zg330backend.OcmOpt:
        assert getattr(zg330backend, option.name) is option


def test_mocks_deploy_and_do_not_run(network: Network) -> None:
    own = Backend.Create(BuyiBackend, network.view(0), Device.Open(MOCKS["buyi"]))
    own.apply()
    op = hard_ops(network)[0]
    tensor = Tensor(op.inputs[0].tensorType()).mallocOn(HostDevice.MemRegion())
    with pytest.raises(InternalError, match=r"11014.*cannot forward"):
        own.forwardOp(op, [tensor])
