"""Chunks of a program's own that are to hold segments: what is asked of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from triune.icraft._xrt.errors import DEVICE, ORDER, RANGE, expect, failure
from triune.icraft._xrt.memory import MemChunk

if TYPE_CHECKING:
    from triune.icraft._npu.port import Port

__all__ = ["BURST", "PAGE", "address", "check_chunk"]

PAGE = 4096
"""Bytes; chunks for ZG330's segments begin at multiples."""
BURST = 64
"""Bytes; chunks for BUYI's segments begin at multiples, as all chunks of its memory do."""


def address(chunk: MemChunk) -> int:
    """Return the address of a chunk's first byte in its region."""
    return int(chunk.begin.addr())


def check_chunk(what: str, chunk: object, port: Port, need: int, offset: int = 0, steps: int = PAGE) -> MemChunk:
    """Return a chunk that can hold `need` bytes from `offset` on.

    Raises InternalError if it is none, lies elsewhere, does not begin at a multiple of `steps` bytes, or is too small.
    """
    expect(what, chunk, MemChunk, "a memory chunk")
    assert isinstance(chunk, MemChunk)
    if chunk._gone:
        # Closing a device frees all of its memory.
        chunk._chunk_region._check_open(what)
        raise failure(ORDER, f"{what}: the memory chunk was freed")
    if not chunk.isOn(port.far_region):
        raise failure(DEVICE, f"{what}: the memory chunk is not in the device's memory ({port.url})")
    if (address(chunk) + offset) % steps:
        raise failure(
            RANGE, f"{what}: the memory chunk begins at {address(chunk) + offset:#x}, which is no multiple of {steps}"
        )
    if chunk.byte_size < offset + need:
        raise failure(
            RANGE, f"{what}: {need} bytes are needed from byte {offset} on, the memory chunk has {chunk.byte_size}"
        )
    return chunk
