"""Command words made by hand (docs/command-set.md), for tests of what runs them."""

from __future__ import annotations

import struct

END = struct.pack("<2I", 0, 2)


def copy_bytes(source: int, target: int, nbytes: int) -> bytes:
    """Return the command that copies bytes from the beginning of one segment to that of another."""
    strides = (0, 0, 0, 0, 0, 1)
    body = struct.pack("<7I", 1, 1, 1, 1, 1, 1, nbytes)
    body += struct.pack("<7Q", source << 56, *strides) + struct.pack("<7Q", target << 56, *strides)
    return struct.pack("<2I", 1, 2 + len(body) // 4) + body


def stream(*commands: bytes) -> bytes:
    """Return a stream of commands with its end, in whole units of 8 bytes."""
    words = b"".join(commands) + END
    return words + bytes(-len(words) % 8)
