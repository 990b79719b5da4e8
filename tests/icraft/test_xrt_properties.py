"""Properties of memory and dumps of `triune.icraft.xrt`, against models that are too simple to be wrong."""

from __future__ import annotations

import io
import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import given, settings
from hypothesis import strategies as st

from triune.icraft.xir import (
    IntegerType,
    InternalError,
    Layout,
    MergedAxisDistr,
    QuantizedScaleArray,
    QuantizedType,
    TensorType,
)
from triune.icraft.xrt import HostDevice, MemChunk, Tensor

SIZES = [7, 16, 33]
OFFSETS = st.integers(-2, 36)
ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["read", "write", "copy"]), st.integers(0, 2), st.integers(0, 2), OFFSETS, OFFSETS, OFFSETS
    ),
    max_size=30,
)


def within(size: int, offset: int, count: int) -> bool:
    return offset >= 0 and count >= 0 and offset + count <= size


@settings(deadline=None)
@given(ACTIONS, st.randoms(use_true_random=False))
def test_chunks_are_like_byte_arrays(actions: list[tuple[str, int, int, int, int, int]], random: Any) -> None:
    region = HostDevice.MemRegion()
    chunks: list[MemChunk] = [region.malloc(size) for size in SIZES]
    model = [bytearray(size) for size in SIZES]
    for kind, one, two, offset, other, count in actions:
        target, source = model[one], model[two]
        allowed = within(SIZES[one], offset, count) and (kind != "copy" or within(SIZES[two], other, count))
        data = bytes(random.randrange(256) for _ in range(max(count, 0)))
        into = bytearray(max(count, 0))
        try:
            if kind == "read":
                chunks[one].read(into, offset, count)
            elif kind == "write":
                chunks[one].write(offset, data, count)
            else:
                chunks[one].copyFrom(offset, chunks[two], other, count)
        except InternalError:
            assert not allowed
            continue
        assert allowed
        if kind == "read":
            assert into == target[offset : offset + count]
        elif kind == "write":
            target[offset : offset + count] = data
        else:
            target[offset : offset + count] = bytes(source[other : other + count])
    for chunk, expected in zip(chunks, model, strict=True):
        whole = bytearray(chunk.byte_size)
        chunk.read(whole, 0, chunk.byte_size)
        assert whole == expected


@settings(deadline=None)
@given(
    st.integers(1, 2),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 12),
    st.sampled_from([1, 2, 4, 8]),
    st.randoms(use_true_random=False),
)
def test_software_has_the_valid_channels_in_order(n: int, h: int, w: int, c: int, block: int, random: Any) -> None:
    blocks = -(-c // block)
    valid = sorted(random.sample(range(blocks * block), c))
    stored: npt.NDArray[np.int8] = np.array(
        [random.randrange(-128, 128) for _ in range(n * blocks * h * w * block)], np.int8
    ).reshape(n, blocks, h, w, block)
    scales = [random.choice([0.25, 0.5, 2.0]) for _ in range(blocks * block)]
    distr = MergedAxisDistr([1, 4])
    for channel in range(blocks * block):
        distr.append(1, channel in valid)
    element = QuantizedType(QuantizedScaleArray(scales, -1), [random.randrange(-9, 9)], IntegerType.SInt8())
    ttype = TensorType(element, list(stored.shape), Layout(f"NCHWc{block}"), [distr])
    tensor = Tensor(stored, ttype)

    expected = np.zeros((n, h, w, c), np.float32)
    whole = np.zeros((n, h, w, c), np.int8)
    for i, y, x, (place, channel) in itertools.product(range(n), range(h), range(w), enumerate(valid)):
        q = stored[i, channel // block, y, x, channel % block]
        whole[i, y, x, place] = q
        expected[i, y, x, place] = (int(q) - element.zero_points[0]) * scales[channel]
    for form, wanted in (("SQB", whole), ("SFB", expected)):
        stream = io.BytesIO()
        tensor.dump(stream, form)
        assert stream.getvalue() == wanted.tobytes()
    stream = io.BytesIO()
    tensor.dump(stream, "SFT")
    assert np.array_equal(np.array(stream.getvalue().split(), np.float32), expected.reshape(-1))
