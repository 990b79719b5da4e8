"""Recipes of attention as ONNX Runtime's optimizers and exporters write it, and of what stands around it."""

from __future__ import annotations

from typing import Any

import numpy as np
from drawing import Array, Draw, Drawn
from microsoft import ms


def smooth(d: Draw, place: int, *shape: int) -> Array:
    """Return an operand of ordinary numbers."""
    return d.tensor(place, shape, -2, 2, special=False)


def mask_of(d: Draw, kind: str | None, batch: int, queries: int, keys: int) -> Array | None:
    """Return a mask that leaves every query a key."""
    if kind is None:
        return None
    if kind == "lengths":
        return d.whole(min(keys, 1), keys, (batch,), np.int32)
    seen = d.whole(0, 1, (batch, keys) if kind == "keys" else (batch, queries, keys), np.int32)
    seen[..., :1] = 1
    return seen


@ms("MultiHeadAttention")
def multi_head(d: Draw) -> Drawn:
    heads, each, of_values = d.between(1, 3), 2 * d.between(1, 4), 2 * d.between(1, 4)
    batch, places, past = d.extent(1, 3), d.extent(1, 5), d.extent(1, 4)
    own, before = d.maybe(), d.maybe(0.3)
    if before or own:
        of_values = each
    there = places if before or own else d.extent(1, 6)
    inputs: list[Any] = [smooth(d, 0, batch, places, heads * each), smooth(d, 1, batch, there, heads * each)]
    inputs += [smooth(d, 2, batch, there, heads * of_values)]
    inputs.append(smooth(d, 3, heads * (2 * each + of_values)) if d.maybe(0.3) else None)
    keys = there + past if before else there
    inputs.append(mask_of(d, d.pick(None, None, "lengths", "keys", "each"), batch, places, keys))
    inputs.append(smooth(d, 5, d.pick(1, batch), d.pick(1, heads), places, keys) if d.maybe(0.3) else None)
    if before:
        inputs += [smooth(d, 6, batch, heads, past, each), smooth(d, 7, batch, heads, past, each)]
    attributes = d.some(
        scale=d.real(0.1, 1), mask_filter_value=d.pick(-10000.0, -1.0), unidirectional=int(own or before)
    )
    return Drawn(inputs, attributes | {"num_heads": heads}, 3 if before else 1, bound=20)


@ms("Attention")
def attention(d: Draw) -> Drawn:
    heads, each, width = d.between(1, 3), 2 * d.between(1, 4), d.between(1, 8)
    batch, places, past = d.extent(1, 3), d.extent(1, 5), d.extent(1, 4)
    before = d.maybe(0.3)
    sizes = [heads * each, heads * each, heads * (each if before else 2 * d.between(1, 4))]
    inputs: list[Any] = [smooth(d, 0, batch, places, width), smooth(d, 1, width, sum(sizes)), smooth(d, 2, sum(sizes))]
    keys = places + past if before else places
    inputs.append(mask_of(d, d.pick(None, None, "lengths", "keys", "each"), batch, places, keys))
    inputs.append(smooth(d, 4, 2, batch, heads, past, each) if before else None)
    inputs.append(smooth(d, 5, d.pick(1, batch), d.pick(1, heads), places, keys) if d.maybe(0.3) else None)
    attributes = d.some(scale=d.real(0.1, 1), mask_filter_value=d.pick(-10000.0, -1.0), unidirectional=1)
    attributes |= {"num_heads": heads, "qkv_hidden_sizes": sizes}
    return Drawn(inputs, attributes, 2 if before else 1, known=(1, 2), bound=20)


def caches(places: int, pairs: int) -> list[Array]:
    """Return cosines and sines."""
    angles = np.outer(np.arange(places), 100.0 ** -(np.arange(pairs) / pairs))
    return [np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)]


@ms("GroupQueryAttention")
def grouped(d: Draw) -> Drawn:
    own, times, each = d.between(1, 2), d.between(1, 3), d.pick(16, 32)
    heads, kind, turns = own * times, d.pick("prompt", "token", "tokens"), d.maybe(0.7)
    batch = 1 if kind == "tokens" else d.extent(1, 3)
    places = {"prompt": d.extent(1, 6), "token": 1, "tokens": d.extent(2, 4)}[kind]
    past = 0 if kind == "prompt" else d.extent(1, 6)
    of = d.dtype(0)
    new = [smooth(d, 0, batch, places, heads * each), *(smooth(d, 1, batch, places, own * each) for _ in "kv")]
    inputs: list[Any] = [np.concatenate(new, 2), None, None] if d.maybe(0.3) else list(new)
    # Caches of other types are quantized ones.
    inputs += [smooth(d, 0, batch, own, past, each), smooth(d, 0, batch, own, past, each)]
    # Prompts and what follows them are all of one length: what is behind an image's own places is nobody's.
    total = past + places
    inputs += [np.full(batch, total - 1, np.int32), np.array(total, np.int32)]
    inputs += (
        [table.astype(of) for table in caches(24, 8 if each == 32 and d.maybe() else each // 2)]
        if turns
        else [None] * 2
    )
    ids = np.tile(np.arange(past, total), (batch, 1)) if d.maybe(0.3) and turns else None
    inputs += [ids, smooth(d, 10, d.pick(1, batch), d.pick(1, heads), places, total) if d.maybe(0.2) else None]
    inputs += [smooth(d, 11, heads)] if d.maybe(0.2) else []
    attributes = d.some(scale=d.real(0.1, 1), softcap=d.real(1, 5), local_window_size=d.between(1, 5), smooth_softmax=1,
                        rotary_interleaved=1)  # fmt: skip
    attributes |= {"num_heads": heads, "kv_num_heads": own, "do_rotary": int(turns)}
    return Drawn(inputs, attributes, 3, bound=30)


@ms("RotaryEmbedding")
def rotary(d: Draw) -> Drawn:
    heads, pairs, batch, places = d.between(1, 3), d.between(1, 4), d.extent(1, 3), d.extent(1, 5)
    part = d.maybe(0.3)
    each = 2 * pairs + (2 * d.between(1, 3) if part else 0)
    flat = part or d.maybe()
    x = smooth(d, 0, batch, places, heads * each) if flat else smooth(d, 0, batch, heads, places, each)
    at = d.whole(0, 6, (1,)) if d.maybe() else d.whole(0, 11, (batch, places))
    tables = [table.astype(d.dtype(2)) for table in caches(12, pairs)]
    attributes = {"num_heads": heads, "rotary_embedding_dim": 2 * pairs} if part else {}
    return Drawn([x, at, *tables], attributes | d.some(interleaved=1), bound=8)


@ms("EmbedLayerNormalization")
def embedded(d: Draw) -> Drawn:
    width, batch, places = d.between(1, 8), d.extent(1, 3), d.extent(1, 5)
    segments = d.maybe()
    inputs: list[Any] = [d.whole(0, 9, (batch, places), np.int32)]
    inputs.append(d.whole(0, 1, (batch, places), np.int32) if segments else None)
    inputs += [smooth(d, 2, 10, width), smooth(d, 3, 7, width), smooth(d, 4, 2, width) if segments else None]
    inputs += [smooth(d, 5, width), smooth(d, 6, width)]
    inputs.append(d.whole(0, 1, (batch, places), np.int32) if d.maybe() else None)
    inputs.append(d.whole(0, 6, (batch, places), np.int32) if d.maybe(0.3) else None)
    known = (2, 3, 4, 5, 6) if segments else (2, 3, 5, 6)
    return Drawn(inputs, d.some(epsilon=d.pick(1e-5, 0.01)), d.pick(1, 3), known=known, bound=100)
