"""``triune serve`` in a process of its own, with clients that open its URL."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from command_words import Copy

from triune.icraft.xir import InternalError
from triune.icraft.xrt import BuyiDevice, Device, ZG330Device


class Served:
    """A server's process."""

    def __init__(self, device: str, *options: str) -> None:
        command = [sys.executable, "-m", "triune", "serve", "--device", device, "--bind", "127.0.0.1:0", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline()
        place = re.search(r"at (127\.0\.0\.1:\d+)$", self.line.strip())
        assert place, self.process.communicate()
        self.place = place[1]

    def end(self, number: int = signal.SIGINT) -> tuple[int, str]:
        """Return the exit code and what standard error has."""
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=30)
        return self.process.returncode, said


@pytest.fixture
def served() -> Iterator[Served]:
    served = Served("zg330", "--boards", "2", "-v", "--threads", "1")
    yield served
    if served.process.poll() is None:
        served.end()
    else:
        served.process.communicate()


def test_it_says_where_it_is_and_stops_when_told() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        served = Served("buyi", "-v")
        assert served.line == f"1 board of buyi at {served.place}\n"
        device = Device.Open(f"socket://ql100aiu@{served.place}?npu=0x40000000&dma=0x80000000")
        assert isinstance(device, BuyiDevice)
        code, said = served.end(number)
        assert code == 0
        assert "connection 1: has board 0" in said
        # What is lost can be closed.
        with pytest.raises(InternalError, match="buyi at"):
            device.defaultMemRegion().malloc(64)
        Device.Close(device)


def test_a_device_behind_a_socket_is_one(served: Served) -> None:
    local, remote = Device.Open("axi://zg330"), Device.Open(f"socket://zg330aiu@{served.place}")
    shown = []
    for device in (local, remote):
        assert isinstance(device, ZG330Device)
        region = device.getMemRegion("plddr")
        data = np.random.default_rng(2).integers(0, 256, 3_000_000, np.uint8)
        chunk, copy = region.malloc(data.size), device.getMemRegion("udma").malloc(data.size)
        chunk.write(0, data, data.size)
        copy.copyFrom(0, chunk, 0, data.size)
        back = np.empty_like(data)
        copy.read(back, 0, data.size)
        assert np.array_equal(back, data)
        assert device.check(1)
        job = Copy(device._board)
        report = device._board.run(job.start, job.nbytes, job.segments)
        device.icoreCalc(job.start, job.nbytes)
        shown.append(
            (
                chunk.begin.addr(),
                report.layers,
                device.layerCount(),
                device.calcTime(),
                device.version(),
                device._board.live("ddr"),
            )
        )
        chunk.free()
    assert shown[0] == shown[1]
    Device.Close(remote)
    Device.Close(local)


def test_a_server_that_is_killed_is_a_lost_connection(served: Served) -> None:
    device = Device.Open(f"socket://zg330aiu@{served.place}?patience=5")
    chunk = device.defaultMemRegion().malloc(1 << 20)
    served.process.kill()
    served.process.wait(timeout=30)
    with pytest.raises(InternalError, match=f"zg330 at {served.place}: "):
        chunk.read(np.empty(1 << 20, np.uint8), 0, 1 << 20)
    chunk.free()
    Device.Close(device)
    with pytest.raises(InternalError, match="refused"):
        Device.Open(f"socket://zg330aiu@{served.place}")


def test_boards_are_taken_and_given_back(served: Served) -> None:
    url = f"socket://zg330@{served.place}"
    first, second = Device.Open(url), Device.Open(url + "?board=1&share=1")
    with pytest.raises(InternalError, match="all 2 boards of the server are in use by other clients"):
        Device.Open(url)
    third = Device.Open(url + "?share=1")
    for device in (first, second, third):
        Device.Close(device)
    again = Device.Open(url + "?board=0&timeout=5&patience=5")
    Device.Close(again)


def test_what_is_wrong_with_a_socket_url_is_named(served: Served, tmp_path: Path) -> None:
    for url, said in (
        ("socket://zg330@127.0.0.1:99999", "is no place"),
        ("socket://zg330@127.0.0.1:x", "is no place"),
        ("socket://zg330@::1", "is no place"),
        (f"socket://zg330@{served.place}?clock=5", "no parameter 'clock'; it has npu, dma, board"),
        (f"socket://zg330@{served.place}?share=yes", "'share' is 'yes'; it has to be 0 or 1"),
        (f"socket://zg330@{served.place}?board=-1", "'board' is '-1'"),
        (f"socket://zg330@{served.place}?timeout=0", "'timeout' is '0'"),
        (f"socket://zg330@{served.place}?tls=1", "tls=1 goes with ca=FILE"),
        (f"socket://zg330@{served.place}?ca={tmp_path}/no%20such.pem", "no such.pem"),
        (f"socket://zg330@{served.place}?token_file={tmp_path}/none", "none"),
        (f"socket://zg330@{served.place}?board=7", "there is no board 7"),
        (f"socket://ql100aiu@{served.place}", "has boards of zg330, not of 'buyi'"),
        ("socket://zg330@127.0.0.1:1", "refused"),
    ):
        with pytest.raises(InternalError, match=re.escape(said)):
            Device.Open(url)


def test_wrong_arguments_are_one_line() -> None:
    for arguments, said in (
        (["--device", "nosuch"], "nosuch"),
        (["--device", "zg330", "--bind", "0.0.0.0:0"], "needs a token, and a certificate with its key"),
        (["--device", "zg330", "--bind", "127.0.0.1:0", "--boards", "0"], "--boards 0: there can be 1 to 65535"),
        (["--device", "zg330", "--bind", "::1:5"], "[::1]:9981"),
        (["--device", "zg330", "--bind", "localhost:http"], "expected HOST:PORT"),
        (["--device", "zg330", "--bind", ":5"], "expected HOST:PORT"),
        (["--device", "zg330", "--bind", "0.0.0.0"], "0.0.0.0:9981"),
        (["--device", "zg330", "--bind", "127.0.0.1:0", "--boards", "-1"], "--boards -1"),
        (["--device", "zg330", "--bind", "127.0.0.1:0", "--cert", "a"], "go together"),
    ):
        command = [sys.executable, "-m", "triune", "serve", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 1
        assert re.fullmatch(rf"triune: error: .*{re.escape(said)}.*\n", done.stderr)
