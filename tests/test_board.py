"""Boards of the native module: memory, registers, settings, runs; what is wrong gets an error and never a crash."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest
from command_words import SIZE, Copy

from triune import _native
from triune.errors import ArgumentError, ReleasedError, UnsupportedError


@pytest.fixture
def board() -> Iterator[_native.Board]:
    board = _native.Board.local("zg330", threads=1)
    yield board
    board.close()


def test_it_says_what_it_is(board: _native.Board) -> None:
    assert (board.device, board.computes) == ("zg330", True)
    assert board.regions == [("ddr", 4 << 30, 0), ("ocm", 1 << 20, 0), ("udma", 256 << 20, 0)]
    assert {"icore", "device", "simulator"} <= set(board.versions)
    with pytest.raises(ArgumentError, match="nosuch"):
        _native.Board.local("nosuch")


def test_buffers_of_any_kind(board: _native.Board) -> None:
    start = board.allocate("udma", 64)
    board.write("udma", start, np.arange(8, dtype=np.float64))
    doubles = np.empty((2, 4))
    board.read("udma", start, doubles)
    assert np.array_equal(doubles.ravel(), np.arange(8))
    for made in (b"abcd", bytearray(b"abcd"), memoryview(b"abcd"), np.frombuffer(b"abcd", np.int8)):
        board.write("udma", start, made)
        got = bytearray(4)
        board.read("udma", start, got)
        assert got == b"abcd"
    board.write("udma", start, b"")
    board.read("udma", start, bytearray())
    with pytest.raises(ArgumentError, match="read-only"):
        board.read("udma", start, b"abcd")
    with pytest.raises((TypeError, ValueError, BufferError)):
        board.write("udma", start, 5)  # type: ignore[arg-type]


def test_memory_is_allocated_and_freed(board: _native.Board) -> None:
    first = board.allocate("ddr", 100, 4096)
    assert first % 4096 == 0
    board.allocate_at("ddr", 1 << 20, 64)
    assert board.live("ddr") == [(first, 100), (1 << 20, 64)]
    with pytest.raises(UnsupportedError, match="ddr"):
        board.allocate_at("ddr", (1 << 20) + 32, 64)
    with pytest.raises(UnsupportedError, match="no free range"):
        board.allocate("ddr", 5 << 30)
    assert board.free("ddr", first) == 100
    with pytest.raises(ArgumentError, match="nothing is allocated"):
        board.free("ddr", first)
    with pytest.raises(ArgumentError, match="etm"):
        board.allocate("etm", 4)
    with pytest.raises(ArgumentError, match="leave the region"):
        board.read("ocm", (1 << 20) - 1, bytearray(2))
    with pytest.raises((OverflowError, TypeError)):
        board.allocate("ddr", -1)


def test_copies_stay_on_the_board(board: _native.Board) -> None:
    board.write("ddr", 0, bytes(range(64)))
    board.copy("ddr", 0, "ocm", 128, 64)
    board.copy("ocm", 128, "ocm", 130, 62)
    got = bytearray(64)
    board.read("ocm", 128, got)
    assert got == bytes([0, 1, *range(62)])


def test_runs(board: _native.Board) -> None:
    job = Copy(board)
    data = np.random.default_rng(1).integers(0, 256, SIZE, np.uint8)
    board.write("ddr", job.source, data)
    report = board.run(job.start, job.nbytes, job.segments)
    got = np.empty(SIZE, np.uint8)
    board.read("ddr", job.target, got)
    assert np.array_equal(got, data)
    assert (report.layer_count, len(report.layers)) == (2, 2)
    assert report.layers[-1][1] == report.cycles
    assert report.nanoseconds == report.cycles  # at 1 GHz
    # The same again, by register.
    board.write("ddr", job.target, bytes(SIZE))
    board.write_register(0x40018, job.start)
    board.write_register(0x40020, job.nbytes)
    board.write_register(0x40024, 1)
    board.read("ddr", job.target, got)
    assert np.array_equal(got, data)
    assert board.read_register(0x0C) == 4
    board.reset(1)
    assert board.read_register(0x0C) == 0
    with pytest.raises(ArgumentError, match="0x44"):
        board.read_register(0x44)


def test_what_cannot_run_is_named(board: _native.Board) -> None:
    job = Copy(board)
    with pytest.raises(ArgumentError, match="no table"):
        board.run(job.start, job.nbytes)
    with pytest.raises(ArgumentError, match="is no kind of a segment"):
        board.run(job.start, job.nbytes, [("ddr", 0, 64, "far")])
    board.write("ddr", job.start, b"\xee")
    with pytest.raises(ArgumentError, match="opcode"):
        board.run(job.start, job.nbytes, job.segments)
    mock = _native.Board.local("zg330", computes=False)
    with pytest.raises(ArgumentError, match="memory and registers only"):
        mock.run(0, 64, job.segments)


def test_settings_are_set_one_by_one(board: _native.Board) -> None:
    job = Copy(board)
    usual = board.run(job.start, job.nbytes, job.segments)
    opened = board.settings()
    assert opened["core_hz"] == 1_000_000_000
    board.configure(core_hz=500_000_000, bits=16)
    assert board.settings() == {**opened, "core_hz": 500_000_000, "bits": 16}
    board.configure(bits=8, engines=(1, 2))
    assert board.settings() == {**opened, "core_hz": 500_000_000, "engines": (1, 2)}
    assert board.run(job.start, job.nbytes).nanoseconds > usual.nanoseconds
    with pytest.raises(ArgumentError, match="3x1"):
        board.configure(core_hz=1_000_000_000, engines=(3, 1))
    assert board.settings()["core_hz"] == 500_000_000
    with pytest.raises(ArgumentError, match="12 bits"):
        board.configure(bits=12)
    chunk = board.allocate("udma", 64)
    board.configure(timer=("udma", chunk, 64))
    assert board.settings()["timer"] == ("udma", chunk, 64)
    board.reset(1)
    report = board.run(job.start, job.nbytes)
    times = np.zeros(8, np.uint64)
    board.read("udma", chunk, times)
    assert times[:4].tolist() == [cycle for layer in report.layers for cycle in layer]
    board.configure(timer=("udma", 0, 0))
    assert board.settings()["timer"] is None


def test_a_closed_board_says_so() -> None:
    board = _native.Board.local("buyi")
    board.close()
    board.close()
    for call in (lambda: board.device, lambda: board.allocate("ddr", 1), lambda: board.run(0, 0), board.settings):
        with pytest.raises(ReleasedError, match="closed"):
            call()


def test_threads_take_turns(board: _native.Board) -> None:
    failed: list[int] = []

    def work(number: int) -> None:
        job = Copy(board)
        random = np.random.default_rng(number)
        for _ in range(10):
            data, got = random.integers(0, 256, SIZE, np.uint8), np.empty(SIZE, np.uint8)
            board.write("ddr", job.source, data)
            board.run(job.start, job.nbytes, job.segments)
            board.read("ddr", job.target, got)
            if not np.array_equal(got, data):
                failed.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert board.read_register(0x0C) == 4 * 10 * 2
