"""Snapshots of sessions: written on a mock, run on a board, without the files that the network came from; damage is found."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from npu_networks import BACKENDS, MOCKS, compiled, expected, image, on_host, opened, session

from triune.icraft.buyibackend import BuyiBackend
from triune.icraft.host_backend import HostBackend
from triune.icraft.xir import InternalError
from triune.icraft.xrt import Device, HostDevice, Session
from triune.icraft.zg330backend import OcmOpt, ZG330Backend

Folders = dict[str, Path]
HEAD = 96


@pytest.fixture(scope="module")
def snapshot(digits: Folders, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("snapshot") / "digits.snapshot"
    made = session("zg330", compiled(digits, "zg330").view(0), Device.Open(MOCKS["zg330"]))
    made.apply()
    made.dumpSnapshot(path)
    return path


def restored(path: Path, target: str = "zg330", device: Any = None) -> Session:
    device = opened(target) if device is None else device
    return Session.CreateWithSnapshot(path, [BACKENDS[target], HostBackend], [device, HostDevice.Default()])


@pytest.mark.parametrize("target", ["zg330", "buyi"])
def test_a_snapshot_of_a_mock_runs_on_a_board(target: str, digits: Folders, tmp_path: Path) -> None:
    folder = tmp_path / "network"
    shutil.copytree(digits[target], folder)
    network = compiled({target: folder}, target)
    path = tmp_path / "session.snapshot"
    made = session(target, network.view(0), Device.Open(MOCKS[target]))
    made.apply()
    made.dumpSnapshot(str(path))
    shutil.rmtree(folder)
    del made, network
    again = restored(path, target)
    assert [backend.snapshot for backend in again.backends] == [True, True]
    pixels = image(compiled(digits, target))
    np.testing.assert_array_equal(on_host(again.forward([pixels]))[0], expected(digits, target, pixels)[0])
    assert BACKENDS[target](again.backends[0]).precheck()
    with pytest.raises(InternalError, match="11012"):
        again.apply()
    # A mock's snapshot is one on a mock again.
    restored(path, target, Device.Open(MOCKS[target])).dumpSnapshot(str(tmp_path / "again.snapshot"))
    assert (tmp_path / "again.snapshot").read_bytes() == path.read_bytes()


def test_options_and_parts_are_kept(digits: Folders, tmp_path: Path) -> None:
    network = compiled(digits, "zg330")
    made = session("zg330", network.view(1, 9))
    own: Any = made.backends[0]
    own.disableMergeHardOp()
    own.disableEtmOptimize()
    own.ocmOptimize(OcmOpt.NONE)
    made.dumpSnapshot(str(tmp_path / "part.snapshot"))
    again = restored(tmp_path / "part.snapshot")
    twin = ZG330Backend(again.backends[0])
    assert (twin.is_mergeHardop, twin.is_etmOptimize, twin.ocmopt) == (False, False, OcmOpt.NONE)
    assert [op.op_id for op in again.network_view.ops] == [op.op_id for op in network.view(1, 9).ops]
    assert {op_id: type(backend) for op_id, backend in again.backendBindings().items()} == {
        op_id: type(backend) for op_id, backend in made.backendBindings().items()
    }


def test_parameters_are_mapped(snapshot: Path) -> None:
    again = restored(snapshot)
    params = [params for op in again.network_view.ops for params in op.paramsAttrs(True)]
    assert params
    assert all(one.isLazyLoaded() for one in params)


def test_other_backends_are_refused(snapshot: Path) -> None:
    for kinds, devices in (
        ([HostBackend, ZG330Backend], [HostDevice.Default(), opened("zg330")]),
        ([BuyiBackend, HostBackend], [opened("buyi"), HostDevice.Default()]),
        ([ZG330Backend], [opened("zg330")]),
    ):
        with pytest.raises(InternalError, match="of the backends ZG330Backend, HostBackend"):
            Session.CreateWithSnapshot(str(snapshot), kinds, devices)
    with pytest.raises(InternalError, match="each backend has one"):
        Session.CreateWithSnapshot(str(snapshot), [ZG330Backend, HostBackend], [opened("zg330")])
    with pytest.raises(InternalError, match="11014"):
        restored(snapshot, "zg330", opened("buyi"))


def test_what_is_no_snapshot_is_named(snapshot: Path, tmp_path: Path) -> None:
    good = snapshot.read_bytes()
    path = tmp_path / "other"
    with pytest.raises(InternalError, match=r"11002.*No such file"):
        restored(path)
    version = good[:16] + struct.pack("<I", 2) + good[20:]
    for data, what in (
        (b"", "0 bytes are no snapshot"),
        (good[:50], "50 bytes are no snapshot"),
        (b"x" * 5000, "no snapshot of a session"),
        (version, "version 2; version 1 can be read"),
        (good[:-1], "cut off"),
        (good[: HEAD + 10], "cut off"),
        (good + b"1", "longer than it was"),
    ):
        path.write_bytes(data)
        with pytest.raises(InternalError, match=f"11011.*{what}"):
            restored(path)
    with pytest.raises(InternalError, match="11002"):
        restored(snapshot).dumpSnapshot(str(tmp_path / "none" / "file"))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_every_flipped_bit_is_found(snapshot: Path, tmp_path: Path, place: float, bit: int) -> None:
    data = bytearray(snapshot.read_bytes())
    # Half of the places are in the head.
    at = int(place * 2 * HEAD) if place < 0.5 else int((place * 2 - 1) * len(data))
    data[at] ^= 1 << bit
    (tmp_path / "damaged").write_bytes(data)
    with pytest.raises(InternalError, match="11011"):
        restored(tmp_path / "damaged")
