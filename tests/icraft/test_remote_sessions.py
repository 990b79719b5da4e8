"""Sessions on boards behind a server: the bits, times and memory of those in this process."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from npu_networks import URLS, compiled, expected, image, on_host, session

from triune import _native
from triune.icraft.xir import InternalError
from triune.icraft.xrt import Device

Folders = dict[str, Path]
HARD = "icraft::xir::HardOpNode"
NAMES = {"zg330": "zg330aiu", "buyi": "ql100aiu"}


@pytest.fixture(params=["zg330", "buyi"])
def target(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def server(target: str) -> Iterator[_native.BoardServer]:
    server = _native.BoardServer(target, "127.0.0.1:0", boards=2)
    yield server
    server.stop()


def url(target: str, server: _native.BoardServer) -> str:
    return "socket://{}@{}:{}?npu=0x40000000&dma=0x80000000".format(NAMES[target], *server.address)


def memory(device: Any) -> list[tuple[str, int, bytes]]:
    """Return everything that is allocated on a device's board, and what it holds."""
    found = []
    for region in ("ddr", "ocm", "udma"):
        for start, size in device._board.live(region):
            data = bytearray(size)
            device._board.read(region, start, data)
            found.append((region, start, bytes(data)))
    return found


def test_a_session_shows_the_same_as_in_this_process(digits: Folders, target: str, server: _native.BoardServer) -> None:
    network = compiled(digits, target)
    devices: list[Any] = [Device.Open(URLS[target]), Device.Open(url(target, server))]
    shown = []
    for device in devices:
        made = session(target, network.view(0), device)
        made.enableTimeProfile(True)
        made.apply()
        outputs = []
        for seed in (1, 2):
            given = image(network, seed)
            outputs.append(on_host(made.forward([given])))
            for got, wanted in zip(outputs[-1], expected(digits, target, given), strict=True):
                np.testing.assert_array_equal(got, wanted)
        # The host's share is measured on its own clock, and different each time.
        times = made.timeProfileResults()
        hard = {op.op_id: times[op.op_id][2] for op, *_ in made.getForwards() if op.typeKey() == HARD}
        assert any(hard.values())
        shown.append(
            (
                [output.tobytes() for each in outputs for output in each],
                hard,
                memory(device),
                device.layerCount(),
                device.calcTime(),
                device._board.settings(),
            )
        )
    assert shown[0] == shown[1]
    for device in devices:
        Device.Close(device)


def test_a_session_whose_board_is_lost_says_so_and_a_new_one_runs(
    digits: Folders, target: str, server: _native.BoardServer
) -> None:
    network = compiled(digits, target)
    given = image(network, 1)
    device = Device.Open(url(target, server))
    made = session(target, network.view(0), device)
    made.apply()
    wanted = on_host(made.forward([given]))
    place = "{}:{}".format(*server.address)
    server.stop()
    with pytest.raises(InternalError, match=f"{target} at {place}: "):
        on_host(made.forward([given]))
    del made
    Device.Close(device)
    again = _native.BoardServer(target, place)
    device = Device.Open(url(target, again))
    made = session(target, network.view(0), device)
    made.apply()
    for got, before in zip(on_host(made.forward([given])), wanted, strict=True):
        np.testing.assert_array_equal(got, before)
    Device.Close(device)
    assert again.stop()


def test_boards_that_only_refer_to_themselves_are_looked_for(target: str, server: _native.BoardServer) -> None:
    gc.collect()
    gc.disable()
    try:
        for _ in range(4):
            ring: list[Any] = [Device.Open(url(target, server))]
            ring.append(ring)
            del ring
    finally:
        gc.enable()
    kept = [Device.Open(url(target, server)) for _ in range(2)]
    with pytest.raises(InternalError, match="in use"):
        Device.Open(url(target, server))
    for device in kept:
        Device.Close(device)


def test_nothing_of_a_lost_board_answers(target: str, server: _native.BoardServer) -> None:
    device = Device.Open(url(target, server))
    assert device.version()
    server.stop()
    with pytest.raises(InternalError):
        device.version()
    Device.Close(device)
