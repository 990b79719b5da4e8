"""Command words made by hand (docs/command-set.md), for tests of what runs them."""

from __future__ import annotations

import struct

from triune import _native

SIZE = 4096
"""Bytes that `Copy` copies."""

END = struct.pack("<2I", 0, 2)


def copy_bytes(source: int, target: int, nbytes: int) -> bytes:
    """Return the command that copies bytes from the beginning of one segment to that of another."""
    strides = (0, 0, 0, 0, 0, 1)
    body = struct.pack("<7I", 1, 1, 1, 1, 1, 1, nbytes)
    body += struct.pack("<7Q", source << 54, *strides) + struct.pack("<7Q", target << 54, *strides)
    return struct.pack("<2I", 1, 2 + len(body) // 4) + body


def stream(*commands: bytes) -> bytes:
    """Return a stream of commands with its end, in whole units of 8 bytes."""
    words = b"".join(commands) + END
    return words + bytes(-len(words) % 8)


class Copy:
    """Two layers that copy an input to an output by way of memory on the chip, placed on a board."""

    def __init__(self, board: _native.Board) -> None:
        words = stream(copy_bytes(1, 2, SIZE)) + bytes(64) + stream(copy_bytes(2, 3, SIZE))
        self.nbytes = len(words)
        self.start = board.allocate("ddr", self.nbytes)
        board.write("ddr", self.start, words)
        self.source, self.target = board.allocate("ddr", SIZE), board.allocate("ddr", SIZE)
        self.segments = [
            ("ddr", self.start, self.nbytes, "instructions"),
            ("ddr", self.source, SIZE, "input"),
            ("ocm", board.allocate("ocm", SIZE), SIZE, "resident"),
            ("ddr", self.target, SIZE, "output"),
        ]
