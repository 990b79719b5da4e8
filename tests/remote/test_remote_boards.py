"""Boards behind a server: the same as in this process, each client's own, gone with the connection."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_words import SIZE, Copy

from triune import _native
from triune.errors import (
    ArgumentError,
    BoardInUseError,
    Error,
    LinkError,
    ReleasedError,
    SanitizerError,
    UnsupportedError,
)

NUMBERS = ["came", "refused", "left", "lost", "panics", "connections", "boards"]
"""What a server counts."""


@pytest.fixture
def server() -> Iterator[_native.BoardServer]:
    server = _native.BoardServer("zg330", "127.0.0.1:0", boards=2, threads=1)
    yield server
    assert server.stop()


def connect(server: _native.BoardServer, **options: Any) -> _native.Board:
    return _native.Board.connect(*server.address, "zg330", **options)


def refused(wanted: type[Error], call: Callable[..., Any], *arguments: Any) -> tuple[type, str, str | None, int | None]:
    """Return what a refusal is and says."""
    with pytest.raises(wanted) as raised:
        call(*arguments)
    return type(raised.value), str(raised.value), raised.value.operand, raised.value.layer


def test_errors_mean_the_same_on_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIUNE_SANITIZE", "1")
    server = _native.BoardServer("zg330", "127.0.0.1:0", boards=1, threads=1)
    found = []
    for board in (_native.Board.local("zg330", threads=1), connect(server)):
        assert board.watched
        job = Copy(board)
        job_arguments = (job.start, job.nbytes, job.segments)
        own = [refused(SanitizerError, board.run, *job_arguments)]
        board.write("ddr", job.source, bytes(SIZE))
        second = job.nbytes - (job.nbytes - 64) // 2
        words = bytearray(4)
        board.read("ddr", job.start + second, words)
        board.write("ddr", job.start + second, b"\xee")
        own.append(refused(ArgumentError, board.run, *job_arguments))
        board.write("ddr", job.start + second, words)
        board.run(*job_arguments)
        got = bytearray(SIZE)
        board.read("ddr", job.target, got)
        board.forget([("ddr", job.target, SIZE)])
        own.append(refused(SanitizerError, board.read, "ddr", job.target, got))
        board.run(*job_arguments)
        board.read("ddr", job.target, got)
        own.append(refused(ArgumentError, board.forget, [("ocm", 0, 2 << 20)]))
        own.append(refused(ArgumentError, board.forget, [("etm", 0, 1)]))
        own.append(refused(UnsupportedError, board.allocate, "ddr", 5 << 30))
        board.close()
        found.append(own)
    near, far = found
    assert near == far
    assert [layer for _, _, _, layer in near] == [0, 1, None, None, None, None]
    assert server.stop()


def wait_until(ready: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not ready():
        assert time.monotonic() < end
        time.sleep(0.01)


def session(board: _native.Board) -> dict[str, Any]:
    """Return everything that running a program on a board shows."""
    job = Copy(board)
    data = np.random.default_rng(1).integers(0, 256, SIZE, np.uint8)
    timer, profiler = board.allocate("udma", 64), board.allocate("ddr", 256)
    board.configure(core_hz=500_000_000, timer=("udma", timer, 32), profiler=("ddr", profiler, 128))
    board.write("ddr", job.source, data)
    reports = [board.run(job.start, job.nbytes, job.segments), board.run(job.start, job.nbytes)]
    target, times, profile = np.empty_like(data), np.empty(8, np.uint64), np.empty(32, np.uint64)
    board.read("ddr", job.target, target)
    board.read("udma", timer, times)
    board.read("ddr", profiler, profile)
    assert np.array_equal(target, data)
    return {
        "what": (board.device, board.computes, board.regions, board.versions),
        "reports": [(each.layer_count, each.cycles, each.nanoseconds, each.layers) for each in reports],
        "records": (times.tolist(), profile.tolist()),
        "settings": board.settings(),
        "live": [board.live(region) for region, _, _ in board.regions],
        "registers": [board.read_register(address) for address in range(0x08, 0x1C, 4)],
    }


def test_a_program_shows_the_same_as_in_this_process(server: _native.BoardServer) -> None:
    local, remote = _native.Board.local("zg330", threads=1), connect(server)
    assert session(remote) == session(local)
    remote.close()
    with pytest.raises(ReleasedError, match="has been closed"):
        remote.settings()


def test_errors_are_the_same_as_in_this_process(server: _native.BoardServer) -> None:
    wrong: list[tuple[type[Exception], Callable[[_native.Board], object]]] = [
        (UnsupportedError, lambda board: board.allocate("ocm", 1 << 40)),
        (UnsupportedError, lambda board: board.allocate("ddr", 0)),
        (ArgumentError, lambda board: board.free("ddr", 64)),
        (ArgumentError, lambda board: board.read("ocm", 1 << 40, bytearray(4))),
        (ArgumentError, lambda board: board.write("ocm", (1 << 20) - 2, b"abcd")),
        (ArgumentError, lambda board: board.live("nosuch")),
        (ArgumentError, lambda board: board.read_register(3)),
        (ArgumentError, lambda board: board.run(0, 64, [("ddr", 3, 64, "instructions")])),
        (ArgumentError, lambda board: board.run(4096, 64, [("ddr", 4096, 64, "instructions")])),
        (ArgumentError, lambda board: board.configure(engines=(1 << 20, 1))),
        (ArgumentError, lambda board: board.reset(9)),
    ]
    local, remote = _native.Board.local("zg330", threads=1), connect(server)
    for board in (local, remote):
        board.write("ddr", 4096, b"\xff" * 64)
    for kind, call in wrong:
        said = []
        for board in (local, remote):
            with pytest.raises(kind) as error:
                call(board)
            said.append(str(error.value))
        assert said[0] == said[1]


def test_each_client_has_a_board_or_shares_one(server: _native.BoardServer) -> None:
    first, second = connect(server), connect(server, share=True)
    with pytest.raises(BoardInUseError, match="all 2 boards of the server are in use"):
        connect(server)
    with pytest.raises(BoardInUseError, match="board 0 is in use by another client"):
        connect(server, board=0, share=True)
    joined = connect(server, board=1, share=True)
    start = second.allocate("ddr", 64)
    first.write("ddr", start, b"first")
    second.write("ddr", start, b"other")
    # An answer says that what was written before has arrived.
    second.settings()
    got = bytearray(5)
    joined.read("ddr", start, got)
    assert got == b"other"
    with pytest.raises(ArgumentError, match="this client allocated nothing"):
        joined.free("ddr", start)
    assert server.statistics()["boards"] == 2
    second.close()
    wait_until(lambda: joined.live("ddr") == [])
    first.close()
    wait_until(lambda: server.statistics()["boards"] == 1)
    again = connect(server, board=0)
    again.read("ddr", start, got)
    assert got == bytes(5)


def test_a_lost_connection_is_an_error_and_a_new_one_works() -> None:
    server = _native.BoardServer("zg330", "127.0.0.1:0", threads=1)
    board = connect(server)
    assert server.stop()
    for _ in range(2):
        with pytest.raises(LinkError, match=r"zg330 at 127\.0\.0\.1:\d+: "):
            board.allocate("ddr", 64)
    with pytest.raises(ReleasedError, match="the server has been stopped"):
        server.statistics()
    with pytest.raises(LinkError, match="refused"):
        connect(server)
    again = _native.BoardServer("zg330", f"127.0.0.1:{server.address[1]}", threads=1)
    session(connect(again))
    assert again.stop()


def test_copies_release_the_interpreter(server: _native.BoardServer) -> None:
    board = connect(server)
    data = np.zeros(64 << 20, np.uint8)
    done = threading.Event()

    def copy() -> None:
        for _ in range(4):
            board.write("ddr", 4096, data)
            board.read("ddr", 4096, data)
        done.set()

    thread = threading.Thread(target=copy)
    thread.start()
    counted = 0
    while not done.is_set():
        counted += 1
        time.sleep(0.001)
    thread.join()
    assert counted > 5


def test_a_fork_does_not_disturb_its_parent(server: _native.BoardServer) -> None:
    program = "\n".join(
        (
            "import os, sys",
            "from triune import _native",
            f"board = _native.Board.connect('127.0.0.1', {server.address[1]}, 'zg330')",
            "board.write('ddr', 0, b'parent')",
            "child = os.fork()",
            "if child == 0:",
            "    try:",
            "        board.settings()",
            "        os._exit(1)",
            "    except _native.LinkError as error:",
            "        board.close()",
            "        os._exit(0 if 'forked' in str(error) else 2)",
            "assert os.waitpid(child, 0)[1] == 0",
            "got = bytearray(6)",
            "board.read('ddr', 0, got)",
            "assert got == b'parent'",
        )
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    wait_until(lambda: server.statistics()["left"] == 1)


def test_what_a_killed_client_held_is_free(server: _native.BoardServer) -> None:
    program = "\n".join(
        (
            "from triune import _native",
            f"board = _native.Board.connect('127.0.0.1', {server.address[1]}, 'zg330', share=True)",
            "start = board.allocate('ddr', 64 << 20)",
            "print('writing', flush=True)",
            "while True:",
            "    board.write('ddr', start, bytes(64 << 20))",
        )
    )
    mine = connect(server, share=True)
    kept = mine.allocate("ddr", 64)
    for _ in range(3):
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as client:
            assert client.stdout is not None
            assert client.stdout.readline() == "writing\n"
            wait_until(lambda: len(mine.live("ddr")) == 2)
            time.sleep(0.05)
            client.kill()
        wait_until(lambda: mine.live("ddr") == [(kept, 64)])
    wait_until(lambda: server.statistics()["lost"] == 3)


def test_strangers_stay_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRIUNE_TOKEN", raising=False)
    with pytest.raises(LinkError, match="can be reached from other machines"):
        _native.BoardServer("zg330", "0.0.0.0:0")
    with pytest.raises(ArgumentError, match="go together"):
        _native.BoardServer("zg330", "127.0.0.1:0", key=tmp_path / "key.pem")
    with pytest.raises(LinkError, match="key\\.pem"):
        _native.BoardServer("zg330", "127.0.0.1:0", key=tmp_path / "key.pem", certificate=tmp_path / "key.pem")
    token, short = tmp_path / "token", tmp_path / "short"
    token.write_text("sixteen bytes or more\n")
    short.write_text("few\n")
    with pytest.raises(LinkError, match=r"others can read or write this secret .*; chmod 600 .*token"):
        _native.BoardServer("zg330", "127.0.0.1:0", token_file=token)
    for path in (token, short):
        path.chmod(0o600)
    with pytest.raises(LinkError, match="short: a token has 16 to 1024 bytes, this one has 3"):
        _native.BoardServer("zg330", "127.0.0.1:0", token_file=short)
    server = _native.BoardServer("zg330", "127.0.0.1:0", token_file=token)
    with pytest.raises(LinkError, match="the server wants a token"):
        connect(server)
    connect(server, token_file=token).close()
    token.chmod(0o604)
    with pytest.raises(LinkError, match="others can read or write this secret"):
        connect(server, token_file=token)
    monkeypatch.setenv("TRIUNE_TOKEN", "another one of some length")
    with pytest.raises(LinkError, match="the token is wrong"):
        connect(server)
    monkeypatch.setenv("TRIUNE_TOKEN", "sixteen bytes or more")
    wait_until(lambda: server.statistics()["boards"] == 0)
    connect(server).close()
    assert server.stop()


def test_tls_as_documented(tmp_path: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    command = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=boards"
    command += " -keyout key.pem -out cert.pem -addext subjectAltName=DNS:boards.example,IP:127.0.0.1"
    command += " -addext basicConstraints=critical,CA:FALSE"
    subprocess.run([openssl, *command.split()], cwd=tmp_path, check=True, capture_output=True)
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    server = _native.BoardServer("zg330", "127.0.0.1:0", certificate=cert, key=key, threads=1)
    board = connect(server, ca=cert)
    assert session(board) == session(_native.Board.local("zg330", threads=1))
    with pytest.raises(LinkError, match="only one of the two uses TLS"):
        connect(server)
    with pytest.raises(LinkError, match="certificate"):
        _native.Board.connect("localhost", server.address[1], "zg330", ca=cert)
    board.close()
    assert server.stop()


def test_times_are_times(server: _native.BoardServer) -> None:
    for value in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ArgumentError, match="is no time in seconds"):
            connect(server, patience=value)
    with pytest.raises(ArgumentError, match="nosuch"):
        _native.BoardServer("nosuch", "127.0.0.1:0")
    with pytest.raises(LinkError):
        _native.BoardServer("zg330", "127.0.0.1:notaport")
    with pytest.raises(LinkError, match="in use"):
        _native.BoardServer("zg330", "{}:{}".format(*server.address))
    assert os.environ.get("TRIUNE_TOKEN") is None


def test_a_stranger_too_many_sends_the_oldest_away() -> None:
    """Whoever connects and says nothing keeps nobody else out."""
    server = _native.BoardServer("zg330", "127.0.0.1:0")

    def is_open(client: socket.socket, seconds: float) -> bool:
        client.settimeout(seconds)
        try:
            return client.recv(1) != b""
        except TimeoutError:
            return True
        except ConnectionError:
            return False

    clients = [socket.create_connection(server.address) for _ in range(32)]
    wait_until(lambda: server.statistics()["connections"] >= 32)
    assert all(is_open(client, 0.01) for client in clients)
    clients.append(socket.create_connection(server.address))
    assert not is_open(clients[0], 30.0)
    assert all(is_open(client, 0.01) for client in clients[1:])
    # Those who say who they are come in as ever.
    connect(server).close()
    for client in clients:
        client.close()
    assert server.stop()


def test_a_server_counts_who_comes_and_goes() -> None:
    server = _native.BoardServer("zg330", "127.0.0.1:0", boards=1, threads=1)

    def becomes(**wanted: int) -> bool:
        end = time.monotonic() + 20
        while server.statistics() != dict.fromkeys(NUMBERS, 0) | wanted and time.monotonic() < end:
            time.sleep(0.01)
        return server.statistics() == dict.fromkeys(NUMBERS, 0) | wanted

    assert becomes()
    first = connect(server, share=True)
    assert becomes(came=1, connections=1, boards=1)
    second = connect(server, share=True, board=0)
    assert becomes(came=2, connections=2, boards=1)
    with pytest.raises(BoardInUseError):
        connect(server)
    assert becomes(came=3, refused=1, connections=2, boards=1)
    first.close()
    assert becomes(came=3, refused=1, left=1, connections=1, boards=1)
    second.close()
    assert becomes(came=3, refused=1, left=2)
    with socket.create_connection(server.address) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n" * 8)
        assert stranger.recv(1 << 16) is not None
    assert becomes(came=4, refused=1, left=2, lost=1)
    assert server.stop()
    with pytest.raises(ReleasedError):
        server.statistics()
