"""Backends of accelerators that programs make and set up themselves, and then put into sessions, as the manual's examples do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from npu_networks import BACKENDS, SUFFIXES, compiled, expected, image, on_host, opened

from triune.icraft import buyibackend, zg330backend
from triune.icraft.host_backend import HostBackend
from triune.icraft.xir import InternalError, Network
from triune.icraft.xrt import Backend, Device, HostDevice, Session, Tensor
from triune.icraft.zg330backend import SegmentType

Folders = dict[str, Path]
SHARED = {"zg330": ("WEIGHT", "INSTR", "FTMP"), "buyi": ("WEIGHT", "FTMP")}


def ready(target: str) -> Any:
    """Return a board whose backends take memory of the program's."""
    device = opened(target)
    if target == "buyi":
        device.mmuModeSwitch(False)
    return device


def give(target: str, backends: list[Any], device: Any) -> dict[Any, int]:
    """Let backends of one network share segments; return where these lie."""
    kinds = zg330backend.SegmentType if target == "zg330" else buyibackend.Segment
    places = {}
    for name in SHARED[target]:
        kind = kinds[name]
        size = max(backends[0].logic_segment_map[kind].byte_size, 1)
        chunk = device.defaultMemRegion().malloc(size, True, 4096)
        for backend in backends:
            if target == "zg330":
                backend.userReuseSegment(chunk, kind)
            else:
                backend.userSetSegment(chunk, kind)
        places[kind] = chunk.begin.addr()
    return places


@pytest.mark.parametrize("target", ["zg330", "buyi"])
@pytest.mark.parametrize("how", ["by order", "as bound"])
def test_shared_segments_stay_shared_in_sessions(digits: Folders, target: str, how: str) -> None:
    network, device = compiled(digits, target), ready(target)
    backends = [Backend.Create(BACKENDS[target], network.view(0), device) for _ in range(2)]
    places = give(target, backends, device)
    given = image(network)
    for backend in backends:
        if how == "by order":
            devices = [device, HostDevice.Default()]
            made = Session.CreateByOrder(network.view(0), [backend, HostBackend.Init()], devices)
        else:
            host = Backend.Create(HostBackend, network.view(0), HostDevice.Default())
            made = Session.CreateWithBackends(network.view(0), [backend, host])
        made.apply()
        assert np.array_equal(on_host(made.forward([given])), expected(digits, target, given))
    for backend in backends:
        segments = backend.phy_segment_map
        assert {kind: segments[kind].phy_addr for kind in places} == places


def test_a_connected_value_stays_connected_in_a_session(digits: Folders) -> None:
    network, device = compiled(digits, "zg330"), opened("zg330")
    backend: Any = Backend.Create(zg330backend.ZG330Backend, network.view(0), device)
    last = [op for op in network.ops if op.typeKey() == "icraft::xir::HardOpNode"][-1].outputs[0]
    chunk = device.defaultMemRegion().malloc(last.storageBytes(), True, 4096)
    backend.userConnectNetwork(chunk, last.v_id)
    made = Session.CreateByOrder(network.view(0), [backend, HostBackend.Init()], [device, HostDevice.Default()])
    made.apply()
    assert backend.forward_info.value_map[last.v_id].phy_addr == chunk.begin.addr()


def test_chunks_are_not_taken_along_to_other_operations_or_devices(digits: Folders) -> None:
    network, device = compiled(digits, "zg330"), opened("zg330")
    backend: Any = Backend.Create(zg330backend.ZG330Backend, network.view(0), device)
    give("zg330", [backend], device)
    # All operations of the accelerator's but the last.
    own = [op.op_id for op in network.ops if op.typeKey() == "icraft::xir::HardOpNode"][:-1]
    for view, where in ((network.view(own), device), (network.view(0), opened("zg330"))):
        with pytest.raises(InternalError, match="for other operations or another device; deinit lets go of them"):
            backend.init(view, where)
    backend.init(network.view(0), device)
    backend.deinit()
    backend.init(network.view(own), device)
    backend.apply()
    assert not backend.phy_segment_map[SegmentType.WEIGHT].single_chunk.user_used


def test_members_of_other_enumerations_are_refused(digits: Folders) -> None:
    # Their numbers mean something else: `WEIGHT` of one module is `INPUT` of the other.
    device = ready("buyi")
    backend: Any = Backend.Create(buyibackend.BuyiBackend, compiled(digits, "buyi").view(0), device)
    chunk = device.malloc(1 << 20)
    for wrong in (zg330backend.WEIGHT, int(buyibackend.WEIGHT)):
        with pytest.raises(TypeError, match="a member of Segment is needed"):
            backend.userSetSegment(chunk, wrong)
    backend.userSetSegment(chunk, buyibackend.WEIGHT)
    assert buyibackend.Segment(buyibackend.WEIGHT) is buyibackend.Segment.WEIGHT
    device = opened("zg330")
    backend = Backend.Create(zg330backend.ZG330Backend, compiled(digits, "zg330").view(0), device)
    with pytest.raises(TypeError, match="a member of SegmentType is needed"):
        backend.userReuseSegment(device.malloc(1 << 20), buyibackend.FTMP)
    with pytest.raises(TypeError, match="a member of OcmOpt is needed"):
        backend.ocmOptimize(zg330backend.SegmentType.WEIGHT)


@pytest.mark.parametrize("target", ["zg330", "buyi"])
def test_parameters_that_were_not_loaded_are_asked_for(digits: Folders, target: str) -> None:
    (path,) = digits[target].glob(f"*_{SUFFIXES[target]}.json")
    network, devices = Network.CreateFromJsonFile(path), [opened(target), HostDevice.Default()]
    with pytest.raises(
        InternalError, match=r"\[11012\] network 'digits_int8': parameters have no data: loadParamsFromFile"
    ):
        Session.Create([BACKENDS[target], HostBackend], network.view(0), devices)
    network.lazyLoadParamsFromFile(path.with_suffix(".raw"))
    Session.Create([BACKENDS[target], HostBackend], network.view(0), devices).apply()


def test_a_structure_that_is_not_there_says_which(digits: Folders) -> None:
    device = opened("zg330")
    backend: Any = Backend.Create(zg330backend.ZG330Backend, compiled(digits, "zg330").view(0), device)
    backend.apply()
    missing = backend.phy_segment_map[SegmentType.INPUT].single_chunk
    assert not missing.defined()
    with pytest.raises(InternalError, match=r"null handle: MemChunkInfo\.user_used has no object"):
        _ = missing.user_used


@pytest.mark.parametrize("target", ["zg330", "buyi"])
def test_structures_show_themselves(digits: Folders, target: str) -> None:
    backend: Any = Backend.Create(BACKENDS[target], compiled(digits, target).view(0), opened(target))
    backend.apply()
    for several in (backend.logic_segment_map, backend.phy_segment_map, backend.forward_info.hardop_map):
        assert "bytes" in repr(several)
    operation = next(iter(backend.forward_info.hardop_map.values()))
    assert f'"instr_data":"{operation.instr_size} bytes"' in str(operation)


def test_a_backend_without_operations_of_its_own_says_so(digits: Folders) -> None:
    network = compiled(digits, "zg330")
    backend: Any = Backend.Create(zg330backend.ZG330Backend, network.view(0, 2), opened("zg330"))
    backend.apply()
    assert backend.precheck()
    for ask in (backend.log, lambda: backend.value_info, lambda: backend.phy_segment_map):
        with pytest.raises(InternalError, match="no operations of network 'digits_int8' for the accelerator"):
            ask()
    unbound = zg330backend.ZG330Backend.Init()
    for ask in (unbound.log, lambda: unbound.logic_segment_map):
        with pytest.raises(InternalError, match="has no network yet: init"):
            ask()


@pytest.mark.parametrize("target", ["host", "zg330"])
def test_operands_are_waited_for(digits: Folders, target: str) -> None:
    network = compiled(digits, "zg330")
    own = HostDevice()
    own.setWaitTime(20)
    # The first operation on the host, or on the board, reads what comes from outside.
    first = next(
        op for op in network.ops if op.typeKey() == f"icraft::xir::{'Cast' if target == 'host' else 'HardOp'}Node"
    )
    kind, device = (HostBackend, HostDevice.Default()) if target == "host" else (BACKENDS[target], opened(target))
    made = Session.Create([kind], network.view([first.op_id]), [device])
    made.apply()
    dtype = first.inputs[0].tensorType()
    chunk = own.defaultMemRegion().malloc(first.inputs[0].storageBytes())
    with pytest.raises(InternalError, match=r"\[11015\] Tensor.forward: .* is not ready after 20 ms"):
        made.forward([Tensor(dtype, chunk, 0, lambda device: False)])
    asked: list[object] = []
    made.forward([Tensor(dtype, chunk, 0, lambda device: bool(asked.append(device)) or len(asked) > 2)])
    assert len(asked) == 3


def test_logs_have_times_of_both_backends_without_a_profile(
    digits: Folders, capsys: pytest.CaptureFixture[str]
) -> None:
    network, device = compiled(digits, "zg330"), opened("zg330")
    made = Session.Create([BACKENDS["zg330"], HostBackend], network.view(0), [device, HostDevice.Default()])
    made.setLogTime(True)
    made.apply()
    made.forward([image(network)])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    times = {words[3]: float(words[words.index("hard:") + 1]) for words in lines}
    copied = [words[3] for words in lines if float(words[words.index("memcpy:") + 1]) > 0]
    assert times["HardOp(Merged)"] == pytest.approx(device.calcTime(), abs=1e-4)
    # What the host computes is no hardware's.
    assert times["Cast"] == 0
    # What goes to the board, and what the last conversion reads there; between operators of the host nothing is copied.
    assert copied == ["HardOp(Merged)", "Cast"]
    assert made.timeProfileResults() == {}


@pytest.mark.parametrize("target", ["zg330", "buyi"])
def test_sessions_are_bound_and_applied_without_a_board_as_in_the_manual(digits: Folders, target: str) -> None:
    """Section 1.1 of the vendor's XRT manual: a host and a null device for an accelerator's backend and the host's."""
    network, backend = compiled(digits, target), BACKENDS[target]
    hard = [op.op_id for op in network.ops if op.typeKey() == "icraft::xir::HardOpNode"]
    rest = [op.op_id for op in network.ops if op.op_id not in hard]
    bound = Session.Create([backend, HostBackend], network.view(0), [HostDevice.Default(), Device()])
    ordered = Session.CreateByOrder(
        network.view(0), [backend.Init(), HostBackend.Init()], [HostDevice.Default(), Device()]
    )
    host = Backend.Create(HostBackend, network.view(rest), HostDevice.Default())
    board = Backend.Create(backend, network.view(hard), Device())
    made = Session.CreateWithBackends(network.view(0), [host, board])
    with_board = Session.Create([backend, HostBackend], network.view(0), [opened(target), HostDevice.Default()])
    with_board.apply()
    for session in (bound, ordered, made):
        session.apply()
        bindings = session.backendBindings()
        assert all(bindings[op_id].is_type(backend) for op_id in hard)
        assert bindings[rest[0]].is_type(HostBackend)
        own = next(one for one in session.backends if one.is_type(backend))
        # What is deployed is what a board would have.
        segments = {kind: segment.byte_size for kind, segment in own.logic_segment_map.items()}
        assert segments == {
            kind: segment.byte_size for kind, segment in with_board.backends[0].logic_segment_map.items()
        }
        with pytest.raises(InternalError, match=r"11014.*was given no board.*Device.Open\('axi://"):
            session.forward([image(network)])


@pytest.mark.parametrize("target", ["zg330", "buyi"])
def test_a_board_of_another_kind_is_no_stand_in(digits: Folders, target: str) -> None:
    network, other = compiled(digits, target), opened("buyi" if target == "zg330" else "zg330")
    with pytest.raises(InternalError, match=r"11014.*computes on devices of"):
        Session.Create([BACKENDS[target], HostBackend], network.view(0), [other, HostDevice.Default()])
    with pytest.raises(InternalError, match=r"11014.*HostBackend computes on the host"):
        Session.Create([BACKENDS[target], HostBackend], network.view(0), [HostDevice.Default(), opened(target)])
