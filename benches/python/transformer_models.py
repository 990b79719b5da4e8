"""Transformers as exporters and optimizers write them: what `bench_transformers.py` measures and tests compare.

Forms: `decomposed` has primitive operators alone, `operators` those that ONNX has for the parts, `microsoft` ONNX Runtime's for
normalizations and functions, `fused` its attention as well. A decomposed one of float64 is the reference of all.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from transformer_parts import MICROSOFT, Feeds, Net, Sizes, drawn, numbers, opset_of, tokens_of

# ---- encoders of text ----


def bert(sizes: Sizes, form: str, dtype: Any = np.float32, bits: int = 0) -> Net:
    """BERT: normalizations behind attention and behind products, a mask of tokens."""
    net = Net(np.dtype(dtype), opset_of(form), bits=bits)
    shape = ("batch", "tokens")
    words, kinds, mask = (
        net.input(name, shape, np.int64) for name in ("input_ids", "token_type_ids", "attention_mask")
    )
    tables = {
        "words": (sizes.vocabulary, sizes.width), "kinds": (2, sizes.width), "places": (512, sizes.width),
    }  # fmt: skip
    tables_of = {name: net.weight(f"embeddings.{name}", *extents, deviation=0.5) for name, extents in tables.items()}
    if form == "fused":
        scale = net.weight("embeddings.norm.scale", sizes.width, mean=1.0, deviation=0.1)
        shift = net.weight("embeddings.norm.shift", sizes.width, deviation=0.1)
        narrow = [net.op("Cast", value, to=TensorProto.INT32) for value in (words, kinds, mask)]
        operands = [*narrow[:2], tables_of["words"], tables_of["places"], tables_of["kinds"], scale, shift, narrow[2]]
        x, keys = net.op("EmbedLayerNormalization", *operands, results=2, domain=MICROSOFT, epsilon=1e-5)
    else:
        x = net.op("Add", net.op("Gather", tables_of["words"], words), net.op("Gather", tables_of["kinds"], kinds))
        length = net.op("Gather", net.op("Shape", words), net.constant("at_1", np.int64(1)), axis=0)
        all_places = net.constant("places", np.arange(512, dtype=np.int64)[None])
        places = net.op("Slice", all_places, net.ints(0), net.op("Unsqueeze", length, net.ints(0)), net.ints(1))
        x = net.op("Add", x, net.op("Gather", tables_of["places"], places))
        x = net.layer_norm(x, "embeddings.norm", sizes.width, form)
        keys = ""
    # -10,000 where a token is not to be seen; float16 has that, too.
    seen = net.op("Cast", net.op("Unsqueeze", mask, net.ints(1, 2)), to=helper.np_dtype_to_tensor_dtype(net.dtype))
    bias = net.op("Mul", net.op("Sub", net.number(1.0), seen), net.number(-10000.0))
    if form == "operators":
        # ONNX Runtime's wants its mask in full.
        batch, length = whole(net, extent(net, words, 0)), whole(net, extent(net, words, 1))
        bias = net.op("Expand", bias, net.op("Concat", batch, net.ints(1), length, length, axis=0))
    for layer in range(sizes.layers):
        name = f"layer{layer}"
        fused = form == "fused"
        y = packed_attention(net, x, name, sizes, keys) if fused else net.self_attention(x, name, sizes, form, bias)
        x = normalized_sum(net, x, y, f"{name}.first", sizes.width, form)
        y = net.feed_forward(x, name, sizes, "microsoft" if form == "fused" else form)
        x = normalized_sum(net, x, y, f"{name}.second", sizes.width, form)
    first = net.op("Gather", x, net.constant("at_0", np.int64(0)), axis=1)
    net.output(net.op("Tanh", net.linear(first, "pooler", sizes.width, sizes.width)), "pooled", 2)
    net.output(x, "hidden", 3)
    return net


def packed_attention(net: Net, x: str, name: str, sizes: Sizes, keys: str) -> str:
    """Add ONNX Runtime's attention, which has the products of queries, keys and values in itself."""
    width = sizes.width
    parts = [drawn(f"{name}.{part}.weight", (width, width), 0.0, 0.9 / math.sqrt(width)) for part in "qkv"]
    weights = net.constant(f"{name}.qkv.weight", np.concatenate(parts, 1).astype(net.dtype))
    biases = [drawn(f"{name}.{part}.bias", (width,), 0.0, 0.02) for part in "qkv"]
    bias = net.constant(f"{name}.qkv.bias", np.concatenate(biases).astype(net.dtype))
    y = net.op("Attention", x, weights, bias, keys, domain=MICROSOFT, num_heads=sizes.heads)
    return net.linear(y, f"{name}.out", width, width)


def normalized_sum(net: Net, x: str, y: str, name: str, width: int, form: str) -> str:
    """Add the normalization of a sum."""
    if form in ("microsoft", "fused"):
        scale = net.weight(f"{name}.scale", width, mean=1.0, deviation=0.1)
        shift = net.weight(f"{name}.shift", width, deviation=0.1)
        return str(net.op("SkipLayerNormalization", x, y, scale, shift, domain=MICROSOFT, epsilon=1e-5))
    return net.layer_norm(net.op("Add", x, y), name, width, form)


def bert_feeds(sizes: Sizes, step: int = 0) -> Feeds:
    """Return a text whose last eighth is not to be seen."""
    words = tokens_of(sizes)
    mask = np.ones_like(words)
    mask[:, sizes.tokens - sizes.tokens // 8 :] = 0
    kinds = np.zeros_like(words)
    kinds[:, sizes.tokens // 2 :] = 1
    return {"input_ids": words, "token_type_ids": kinds, "attention_mask": mask}


def t5(sizes: Sizes, form: str, dtype: Any = np.float32, bits: int = 0) -> Net:
    """T5's encoder: scores without a factor, plus what a table has for how far two tokens are apart."""
    net = Net(np.dtype(dtype), opset_of(form), bits=bits)
    words = net.input("input_ids", ("batch", "tokens"), np.int64)
    x = net.op("Gather", net.weight("words", sizes.vocabulary, sizes.width, deviation=1.0), words)
    length = net.op("Gather", net.op("Shape", words), net.constant("at_1", np.int64(1)), axis=0)
    zero, one = (net.constant(f"at_{at}", np.int64(at)) for at in (0, 1))
    places = net.op("Range", zero, length, one)
    apart = net.op("Sub", net.op("Unsqueeze", places, net.ints(0)), net.op("Unsqueeze", places, net.ints(1)))
    bias = net.op("Gather", net.weight("distances", 32, sizes.heads, deviation=0.5), buckets(net, apart))
    bias = net.op("Unsqueeze", net.op("Transpose", bias, perm=[2, 0, 1]), net.ints(0))
    for layer in range(sizes.layers):
        name = f"layer{layer}"
        y = net.rms_norm(x, f"{name}.first", sizes.width, form)
        # Scores have no factor, so the weights of queries do.
        q, k, v = (net.linear(y, f"{name}.{part}", sizes.width, sizes.width, bias=False) for part in "qkv")
        if form == "operators":
            more: dict[str, Any] = {"q_num_heads": sizes.heads, "kv_num_heads": sizes.heads, "scale": 1.0}
            y = net.op("Attention", q, k, v, bias, **more)
        else:
            q, k, v = (net.heads(part, sizes.heads, sizes.size) for part in (q, k, v))
            y = net.joined(net.attention(q, k, v, sizes.size, bias, 1.0), sizes.width)
        x = net.op("Add", x, net.linear(y, f"{name}.out", sizes.width, sizes.width, bias=False))
        y = net.rms_norm(x, f"{name}.second", sizes.width, form)
        y = net.op("Relu", net.linear(y, f"{name}.up", sizes.width, sizes.hidden, bias=False))
        x = net.op("Add", x, net.linear(y, f"{name}.down", sizes.hidden, sizes.width, bias=False))
    net.output(net.rms_norm(x, "last", sizes.width, form), "hidden", 3)
    return net


def buckets(net: Net, apart: str) -> str:
    """Add T5's classes of distances: 16 for either side, one by one at first, then by logarithms up to 128."""
    half, exact, far = 16, 8, 128
    positive = net.op("Greater", apart, net.constant("at_0", np.int64(0)))
    side = net.op("Mul", net.op("Cast", positive, to=TensorProto.INT64), net.constant("half", np.int64(half)))
    size = net.op("Abs", apart)
    near = net.op("Less", size, net.constant("exact", np.int64(exact)))
    # In float32 as exporters have it, in every form: which class a distance has must not depend on the type.
    reals = net.op("Cast", size, to=TensorProto.FLOAT)
    share = net.op("Log", net.op("Div", reals, net.constant("exact_real", np.float32(exact))))
    share = net.op("Div", share, net.constant("logs", np.float32(math.log(far / exact))))
    more = net.op("Cast", net.op("Mul", share, net.constant("rest", np.float32(half - exact))), to=TensorProto.INT64)
    more = net.op("Add", more, net.constant("exact", np.int64(exact)))
    more = net.op("Min", more, net.constant("most", np.int64(half - 1)))
    return str(net.op("Add", side, net.op("Where", near, size, more)))


def t5_feeds(sizes: Sizes, step: int = 0) -> Feeds:
    """Return a text."""
    return {"input_ids": tokens_of(sizes)}


# ---- encoders of images and sound ----


def vit(sizes: Sizes, form: str, dtype: Any = np.float32, bits: int = 0) -> Net:
    """ViT: patches of 16 × 16, a token for the class, places, layers, one product."""
    net = Net(np.dtype(dtype), opset_of(form), bits=bits)
    image = net.input("image", ("batch", 3, sizes.tokens, sizes.tokens))
    width, count = sizes.width, (sizes.tokens // 16) ** 2
    patch = net.weight("patch.weight", width, 3, 16, 16, deviation=1 / math.sqrt(3 * 256))
    x = net.op("Conv", image, patch, net.weight("patch.bias", width), kernel_shape=[16, 16], strides=[16, 16])
    x = net.op("Transpose", net.op("Reshape", x, net.ints(0, width, count)), perm=[0, 2, 1])
    batch = net.op("Unsqueeze", net.op("Gather", net.op("Shape", x), net.constant("at_0", np.int64(0))), net.ints(0))
    token = net.op(
        "Expand", net.weight("class", 1, 1, width), net.op("Concat", batch, net.ints(1), net.ints(width), axis=0)
    )
    x = net.op("Add", net.op("Concat", token, x, axis=1), net.weight("places", 1, count + 1, width, deviation=0.3))
    for layer in range(sizes.layers):
        name = f"layer{layer}"
        y = net.layer_norm(x, f"{name}.first", width, form)
        qkv = net.op(
            "Reshape", net.linear(y, f"{name}.qkv", width, 3 * width), net.ints(0, -1, 3, sizes.heads, sizes.size)
        )
        qkv = net.op("Transpose", qkv, perm=[2, 0, 3, 1, 4])
        q, k, v = (net.op("Gather", qkv, net.constant(f"at_{at}", np.int64(at)), axis=0) for at in range(3))
        y = net.op("Attention", q, k, v) if form == "operators" else net.attention(q, k, v, sizes.size)
        x = net.op("Add", x, net.linear(net.joined(y, width), f"{name}.out", width, width))
        y = net.feed_forward(net.layer_norm(x, f"{name}.second", width, form), name, sizes, form)
        x = net.op("Add", x, y)
    first = net.op("Gather", net.layer_norm(x, "last", width, form), net.constant("at_0", np.int64(0)), axis=1)
    net.output(net.linear(first, "classes", width, sizes.vocabulary), "logits", 2)
    return net


def image_feeds(sizes: Sizes, step: int = 0) -> Feeds:
    """Return an image of numbers around zero."""
    return {"image": numbers(2).standard_normal((1, 3, sizes.tokens, sizes.tokens)).astype(np.float32)}


def whisper_encoder(sizes: Sizes, form: str, dtype: Any = np.float32, bits: int = 0) -> Net:
    """Whisper's encoder: two convolutions over time, places, layers."""
    net = Net(np.dtype(dtype), opset_of(form), bits=bits)
    x, width = net.input("mel", ("batch", 80, 2 * sizes.tokens)), sizes.width
    for index, (inputs, stride) in enumerate(((80, 1), (width, 2))):
        weights = net.weight(f"conv{index}.weight", width, inputs, 3, deviation=1 / math.sqrt(3 * inputs))
        window: dict[str, Any] = {"kernel_shape": [3], "pads": [1, 1], "strides": [stride]}
        x = net.gelu(net.op("Conv", x, weights, net.weight(f"conv{index}.bias", width), **window), form)
    x = net.op("Transpose", x, perm=[0, 2, 1])
    x = net.op("Add", x, net.weight("places", sizes.tokens, width, deviation=0.3))
    for layer in range(sizes.layers):
        x = net.block(x, f"layer{layer}", sizes, form)
    net.output(net.layer_norm(x, "last", width, form), "hidden", 3)
    return net


def mel_feeds(sizes: Sizes, step: int = 0) -> Feeds:
    """Return a spectrum of numbers around zero."""
    return {"mel": numbers(3).standard_normal((1, 80, 2 * sizes.tokens)).astype(np.float32)}


# ---- windows ----


def swin(sizes: Sizes, form: str, dtype: Any = np.float32, bits: int = 0) -> Net:
    """Swin: attention within windows of 7 × 7, every other layer's windows shifted, two stages with a merging between."""
    net = Net(np.dtype(dtype), opset_of(form), bits=bits)
    image = net.input("image", ("batch", 3, sizes.tokens, sizes.tokens))
    width, side, heads = sizes.width, sizes.tokens // 4, sizes.heads
    patch = net.weight("patch.weight", width, 3, 4, 4, deviation=1 / math.sqrt(48))
    x = net.op("Conv", image, patch, net.weight("patch.bias", width), kernel_shape=[4, 4], strides=[4, 4])
    x = net.op("Transpose", net.op("Reshape", x, net.ints(0, width, side * side)), perm=[0, 2, 1])
    x = net.layer_norm(x, "patch.norm", width, form)
    for stage in range(2):
        own = sizes._replace(width=width, heads=heads, hidden=4 * width)
        for layer in range(sizes.layers):
            x = swin_layer(net, x, f"stage{stage}.layer{layer}", own, side, 3 * (layer % 2), form)
        if stage == 0:
            x = merged(net, x, width, side, form)
            width, side, heads = 2 * width, side // 2, 2 * heads
    x = net.op("Squeeze", net.mean(net.layer_norm(x, "last", width, form), 1), net.ints(1))
    net.output(net.linear(x, "classes", width, sizes.vocabulary), "logits", 2)
    return net


def rolled(net: Net, x: str, by: int) -> str:
    """Add a rotation of both sides of [batch, side, side, width], as exporters write it."""
    for axis in (1, 2):
        end = net.op("Slice", x, net.ints(by), net.ints(2**62), net.ints(axis))
        start = net.op("Slice", x, net.ints(0), net.ints(by), net.ints(axis))
        x = net.op("Concat", end, start, axis=axis)
    return x


def swin_layer(net: Net, x: str, name: str, sizes: Sizes, side: int, shift: int, form: str) -> str:
    """Add a layer whose windows are shifted by so many places."""
    width, heads, size, window = sizes.width, sizes.heads, sizes.size, 7
    across, places = side // window, window * window
    y = net.op("Reshape", net.layer_norm(x, f"{name}.first", width, form), net.ints(-1, side, side, width))
    y = rolled(net, y, shift) if shift else y
    y = net.op("Reshape", y, net.ints(-1, across, window, across, window, width))
    y = net.op("Reshape", net.op("Transpose", y, perm=[0, 1, 3, 2, 4, 5]), net.ints(-1, places, width))
    qkv = net.op("Reshape", net.linear(y, f"{name}.qkv", width, 3 * width), net.ints(-1, places, 3, heads, size))
    q, k, v = net.op("Split", net.op("Transpose", qkv, perm=[2, 0, 3, 1, 4]), net.ints(1, 1, 1), results=3, axis=0)
    q, k, v = (net.op("Squeeze", part, net.ints(0)) for part in (q, k, v))
    table = net.weight(f"{name}.distances", (2 * window - 1) ** 2, heads, deviation=0.5)
    rows, columns = np.divmod(np.arange(places), window)
    apart = (rows[:, None] - rows + window - 1) * (2 * window - 1) + columns[:, None] - columns + window - 1
    bias = net.op("Gather", table, net.constant("window_places", apart.reshape(-1)))
    bias = net.op("Transpose", net.op("Reshape", bias, net.ints(places, places, heads)), perm=[2, 0, 1])
    bias = net.op("Unsqueeze", bias, net.ints(0))
    if not shift:
        whole_one = form == "operators"
        y = net.op("Attention", q, k, v, bias) if whole_one else net.attention(q, k, v, size, bias)
    else:
        q = net.op("Mul", q, net.number(1 / math.sqrt(size)))
        scores = net.op("Add", net.op("MatMul", q, net.op("Transpose", k, perm=[0, 1, 3, 2])), bias)
        # What was rolled in from the other side is not to be seen.
        strip = np.repeat([0, 1, 2], [side - window, window - shift, shift])
        regions = (strip[:, None] * 3 + strip).reshape(across, window, across, window).transpose(0, 2, 1, 3)
        regions = regions.reshape(across * across, 1, places)
        hidden = np.where(regions.transpose(0, 2, 1) == regions, 0.0, -100.0)[None, :, None]
        mask = net.constant(f"mask_{side}", hidden.astype(net.dtype))
        scores = net.op("Reshape", scores, net.ints(-1, across * across, heads, places, places))
        scores = net.op("Reshape", net.op("Add", scores, mask), net.ints(-1, heads, places, places))
        y = net.op("MatMul", net.op("Softmax", scores, axis=-1), v)
    y = net.linear(net.joined(y, width), f"{name}.out", width, width)
    y = net.op("Reshape", y, net.ints(-1, across, across, window, window, width))
    y = net.op("Reshape", net.op("Transpose", y, perm=[0, 1, 3, 2, 4, 5]), net.ints(-1, side, side, width))
    y = rolled(net, y, -shift) if shift else y
    x = net.op("Add", x, net.op("Reshape", y, net.ints(-1, side * side, width)))
    return str(net.op("Add", x, net.feed_forward(net.layer_norm(x, f"{name}.second", width, form), name, sizes, form)))


def merged(net: Net, x: str, width: int, side: int, form: str) -> str:
    """Add the joining of 2 × 2 places into one of twice the width."""
    x = net.op("Reshape", x, net.ints(-1, side, side, width))
    parts = []
    for row, column in ((0, 0), (1, 0), (0, 1), (1, 1)):
        part = net.op("Slice", x, net.ints(row), net.ints(2**62), net.ints(1), net.ints(2))
        parts.append(net.op("Slice", part, net.ints(column), net.ints(2**62), net.ints(2), net.ints(2)))
    x = net.op("Reshape", net.op("Concat", *parts, axis=-1), net.ints(-1, side * side // 4, 4 * width))
    x = net.layer_norm(x, "merge.norm", 4 * width, form)
    return net.linear(x, "merge", 4 * width, 2 * width, bias=False)


def mobilevit(sizes: Sizes, form: str, dtype: Any = np.float32, bits: int = 0) -> Net:
    """MobileViT: convolutions down to an eighth, then attention among the same places of all patches of 2 × 2."""
    net = Net(np.dtype(dtype), opset_of(form), bits=bits)
    x, channels, width = net.input("image", ("batch", 3, sizes.tokens, sizes.tokens)), 3, sizes.width

    def conv(x: str, name: str, inputs: int, outputs: int, kernel: int = 1, stride: int = 1, group: int = 1) -> str:
        weights = net.weight(f"{name}.weight", outputs, inputs // group, kernel, kernel,
                             deviation=1.4 / math.sqrt(inputs // group * kernel * kernel))  # fmt: skip
        window: dict[str, Any] = {
            "kernel_shape": [kernel] * 2,
            "pads": [kernel // 2] * 4,
            "strides": [stride] * 2,
            "group": group,
        }
        return str(net.op("Conv", x, weights, net.weight(f"{name}.bias", outputs), **window))

    for index, outputs in enumerate((16, 48, 96)):
        inner = 4 * channels
        x = net.silu(conv(x, f"stem{index}.wide", channels, inner), form)
        x = net.silu(conv(x, f"stem{index}.deep", inner, inner, 3, 2, inner), form)
        x = conv(x, f"stem{index}.narrow", inner, outputs)
        channels = outputs
    side = sizes.tokens // 8
    y = conv(net.silu(conv(x, "near", channels, channels, 3), form), "wide", channels, width)
    half = side // 2
    y = net.op("Reshape", y, net.ints(-1, half, 2, half, 2))
    # [batch · width, half, 2, half, 2] -> [batch · 4, patches, width]
    y = net.op("Reshape", net.op("Transpose", y, perm=[0, 1, 3, 2, 4]), net.ints(-1, width, half * half, 4))
    y = net.op("Reshape", net.op("Transpose", y, perm=[0, 3, 2, 1]), net.ints(-1, half * half, width))
    for layer in range(sizes.layers):
        name = f"layer{layer}"
        z = net.self_attention(net.layer_norm(y, f"{name}.first", width, form), name, sizes, form)
        y = net.op("Add", y, z)
        z = net.silu(
            net.linear(net.layer_norm(y, f"{name}.second", width, form), f"{name}.up", width, sizes.hidden), form
        )
        y = net.op("Add", y, net.linear(z, f"{name}.down", sizes.hidden, width))
    y = net.op("Reshape", net.layer_norm(y, "last", width, form), net.ints(-1, 4, half * half, width))
    y = net.op("Reshape", net.op("Transpose", y, perm=[0, 3, 2, 1]), net.ints(-1, half, half, 2, 2))
    y = net.op("Reshape", net.op("Transpose", y, perm=[0, 1, 3, 2, 4]), net.ints(-1, width, side, side))
    y = net.silu(conv(y, "back", width, channels), form)
    y = net.silu(conv(net.op("Concat", x, y, axis=1), "joined", 2 * channels, channels, 3), form)
    y = net.op("Flatten", net.op("GlobalAveragePool", y))
    net.output(net.linear(y, "classes", channels, sizes.vocabulary), "logits", 2)
    return net


# ---- decoders ----


def whole(net: Net, *values: str) -> str:
    """Add an extent as a list of one, of a number or a sum of two."""
    value = values[0] if len(values) == 1 else net.op("Add", *values)
    return str(net.op("Unsqueeze", value, net.ints(0)))


def extent(net: Net, x: str, axis: int) -> str:
    """Add an extent of a value as a number."""
    return str(net.op("Gather", net.op("Shape", x), net.constant(f"at_{axis}", np.int64(axis)), axis=0))


def causal(net: Net, past: str, tokens: str) -> str:
    """Add the mask of tokens behind a cache: the lowest number where one comes later."""
    zero, one = (net.constant(f"at_{at}", np.int64(at)) for at in (0, 1))
    total = net.op("Add", past, tokens)
    rows = net.op("Unsqueeze", net.op("Range", past, total, one), net.ints(1))
    columns = net.op("Unsqueeze", net.op("Range", zero, total, one), net.ints(0))
    seen = net.op("LessOrEqual", columns, rows)
    least = -65504.0 if net.dtype == np.float16 else float(np.finfo(np.float32).min)
    mask = net.op("Where", seen, net.number(0.0), net.number(least))
    return str(net.op("Unsqueeze", mask, net.ints(0, 1)))


def llama(sizes: Sizes, form: str, dtype: Any = np.float32, bits: int = 0) -> Net:
    """LLaMA: rotated queries and keys, heads that share keys, a cache that grows, SwiGLU."""
    net = Net(np.dtype(dtype), opset_of(form), bits=bits)
    width, size, shared = sizes.width, sizes.size, sizes.kv_heads * sizes.size
    words = net.input("input_ids", ("batch", "tokens"), np.int64)
    cache = ("batch", sizes.kv_heads, "past", size)
    pasts = [[net.input(f"past_{layer}_{part}", cache) for part in ("key", "value")] for layer in range(sizes.layers)]
    angles = np.outer(np.arange(2048), 10000.0 ** (-np.arange(0, size, 2) / size))
    tables = [
        net.constant(name, function(angles).astype(net.dtype)) for name, function in (("cos", np.cos), ("sin", np.sin))
    ]
    past, tokens = extent(net, pasts[0][0], 2), extent(net, words, 1)
    one = net.constant("at_1", np.int64(1))
    places = net.op("Unsqueeze", net.op("Range", past, net.op("Add", past, tokens), one), net.ints(0))
    mask = causal(net, past, tokens) if form != "fused" else ""
    total = net.op("Cast", net.op("Add", past, tokens), to=TensorProto.INT32) if form == "fused" else ""
    keys = net.op("Unsqueeze", net.op("Sub", total, net.constant("one", np.int32(1))), net.ints(0)) if total else ""
    x = net.op("Gather", net.weight("words", sizes.vocabulary, width, deviation=1.0), words)
    for layer, (past_key, past_value) in enumerate(pasts):
        name = f"layer{layer}"
        y = net.rms_norm(x, f"{name}.first", width, "microsoft" if form == "fused" else form)
        q = net.linear(y, f"{name}.q", width, width, bias=False)
        k, v = (net.linear(y, f"{name}.{part}", width, shared, bias=False) for part in "kv")
        if form == "fused":
            more: dict[str, Any] = {"num_heads": sizes.heads, "kv_num_heads": sizes.kv_heads, "do_rotary": 1}
            operands = [q, k, v, past_key, past_value, keys, total, *tables]
            y, key, value = net.op("GroupQueryAttention", *operands, results=3, domain=MICROSOFT, **more)
        else:
            q, k, v = (net.heads(q, sizes.heads, size), *(net.heads(part, sizes.kv_heads, size) for part in (k, v)))
            q, k = (rotated(net, part, tables, places, size, form) for part in (q, k))
            if form == "operators":
                y, key, value = net.op("Attention", q, k, v, mask, past_key, past_value, results=3)
            else:
                key, value = net.op("Concat", past_key, k, axis=2), net.op("Concat", past_value, v, axis=2)
                wide_key, wide_value = (repeated(net, part, sizes) for part in (key, value))
                y = net.attention(q, wide_key, wide_value, size, mask)
            y = net.joined(y, width)
        net.output(key, f"present_{layer}_key", 4)
        net.output(value, f"present_{layer}_value", 4)
        y = net.linear(y, f"{name}.out", width, width, bias=False)
        if form == "fused":
            scale = net.weight(f"{name}.second.scale", width, mean=1.0, deviation=0.1)
            y, _, _, x = skipped(net, x, y, scale)
        else:
            x = net.op("Add", x, y)
            y = net.rms_norm(x, f"{name}.second", width, form)
        gate = net.silu(net.linear(y, f"{name}.gate", width, sizes.hidden, bias=False), form)
        y = net.op("Mul", gate, net.linear(y, f"{name}.up", width, sizes.hidden, bias=False))
        x = net.op("Add", x, net.linear(y, f"{name}.down", sizes.hidden, width, bias=False))
    x = net.rms_norm(x, "last", width, "microsoft" if form == "fused" else form)
    net.output(net.linear(x, "logits", width, sizes.vocabulary, bias=False), "logits", 3)
    return net


def skipped(net: Net, x: str, y: str, scale: str) -> list[str]:
    """Add ONNX Runtime's normalization of a sum, which gives the sum as well."""
    names = [f"v{len(net.nodes)}_{index}" for index in (0, 3)]
    net.nodes.append(helper.make_node("SkipSimplifiedLayerNormalization", [x, y, scale], [names[0], "", "", names[1]],
                                      domain=MICROSOFT, epsilon=1e-6))  # fmt: skip
    net.domains.add(MICROSOFT)
    return [names[0], "", "", names[1]]


def rotated(net: Net, x: str, tables: list[str], places: str, size: int, form: str) -> str:
    """Add the rotation of heads by their places, whole or in eight operators."""
    if form == "operators":
        return str(net.op("RotaryEmbedding", x, *tables, places))
    half = size // 2
    cos, sin = (net.op("Unsqueeze", net.op("Gather", table, places), net.ints(1)) for table in tables)
    cos, sin = (net.op("Concat", part, part, axis=-1) for part in (cos, sin))
    first = net.op("Slice", x, net.ints(0), net.ints(half), net.ints(3))
    second = net.op("Slice", x, net.ints(half), net.ints(2**62), net.ints(3))
    turned = net.op("Concat", net.op("Neg", second), first, axis=-1)
    return str(net.op("Add", net.op("Mul", x, cos), net.op("Mul", turned, sin)))


def repeated(net: Net, x: str, sizes: Sizes) -> str:
    """Add copies of keys or values for all heads that share them."""
    times = sizes.heads // sizes.kv_heads
    batch, length = whole(net, extent(net, x, 0)), whole(net, extent(net, x, 2))
    full = net.op("Concat", batch, net.ints(sizes.kv_heads, times), length, net.ints(sizes.size), axis=0)
    flat = net.op("Concat", batch, net.ints(sizes.heads), length, net.ints(sizes.size), axis=0)
    return str(net.op("Reshape", net.op("Expand", net.op("Unsqueeze", x, net.ints(2)), full), flat))


def llama_feeds(sizes: Sizes, step: int = 0) -> Feeds:
    """Return the tokens of a step behind a cache of random numbers."""
    cache = (1, sizes.kv_heads, sizes.past + step, sizes.size)
    rng = numbers(4)
    found: Feeds = {"input_ids": tokens_of(sizes)}
    for layer in range(sizes.layers):
        for part in ("key", "value"):
            found[f"past_{layer}_{part}"] = rng.standard_normal(cache, np.float32)
    return found


def whisper_decoder(sizes: Sizes, form: str, dtype: Any = np.float32, bits: int = 0) -> Net:
    """Whisper's decoder: a cache of its own that grows, and keys and values of 1,500 places of sound that stay."""
    net = Net(np.dtype(dtype), opset_of(form), bits=bits)
    width, heads, size = sizes.width, sizes.heads, sizes.size
    words = net.input("input_ids", ("batch", "tokens"), np.int64)
    cache, sound = ("batch", heads, "past", size), ("batch", heads, "sound", size)
    pasts = [[net.input(f"past_{layer}_{part}", cache) for part in ("key", "value")] for layer in range(sizes.layers)]
    sounds = [[net.input(f"sound_{layer}_{part}", sound) for part in ("key", "value")] for layer in range(sizes.layers)]
    past, tokens = extent(net, pasts[0][0], 2), extent(net, words, 1)
    mask = causal(net, past, tokens)
    table = net.weight("places", 448, width, deviation=0.3)
    places = net.op("Slice", table, whole(net, past), whole(net, past, tokens), net.ints(0))
    x = net.op("Add", net.op("Gather", net.weight("words", sizes.vocabulary, width, deviation=1.0), words), places)
    for layer in range(sizes.layers):
        name = f"layer{layer}"
        y = net.layer_norm(x, f"{name}.own", width, form)
        q, k, v = (
            net.heads(net.linear(y, f"{name}.{part}", width, width, bias=part != "k"), heads, size) for part in "qkv"
        )
        if form == "operators":
            y, key, value = net.op("Attention", q, k, v, mask, *pasts[layer], results=3)
        else:
            key, value = (net.op("Concat", old, new, axis=2) for old, new in zip(pasts[layer], (k, v), strict=True))
            y = net.attention(q, key, value, size, mask)
        net.output(key, f"present_{layer}_key", 4)
        net.output(value, f"present_{layer}_value", 4)
        x = net.op("Add", x, net.linear(net.joined(y, width), f"{name}.out", width, width))
        y = net.layer_norm(x, f"{name}.cross", width, form)
        q = net.heads(net.linear(y, f"{name}.cross.q", width, width), heads, size)
        key, value = sounds[layer]
        y = net.op("Attention", q, key, value) if form == "operators" else net.attention(q, key, value, size)
        x = net.op("Add", x, net.linear(net.joined(y, width), f"{name}.cross.out", width, width))
        x = net.op("Add", x, net.feed_forward(net.layer_norm(x, f"{name}.second", width, form), name, sizes, form))
    x = net.layer_norm(x, "last", width, form)
    net.output(net.linear(x, "logits", width, sizes.vocabulary, bias=False), "logits", 3)
    return net


def whisper_feeds(sizes: Sizes, step: int = 0) -> Feeds:
    """Return the tokens of a step behind a cache of random numbers, with 1,500 places of sound, or 15 in small."""
    rng = numbers(5)
    found: Feeds = {"input_ids": tokens_of(sizes)}
    for name, length in (("past", sizes.past + step), ("sound", 1500 if sizes.width > 64 else 15)):
        for layer in range(sizes.layers):
            for part in ("key", "value"):
                found[f"{name}_{layer}_{part}"] = rng.standard_normal((1, sizes.heads, length, sizes.size), np.float32)
    return found


# ---- all of them ----


def quantized(model: onnx.ModelProto) -> bytes:
    """Return what ONNX Runtime's dynamic quantizer makes of a model: products of bytes, by each run's own ranges."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "quantized.onnx")
        quantize_dynamic(model, path, weight_type=QuantType.QInt8)
        return path.read_bytes()


class Model(NamedTuple):
    """A network in one form."""

    name: str
    net: Callable[..., Net]
    feeds: Callable[[Sizes, int], Feeds]
    sizes: Sizes
    small: Sizes
    form: str
    dtype: Any = np.float32
    bits: int = 0
    quantized: bool = False
    """Whether ONNX Runtime's dynamic quantizer is let loose on it."""
    decodes: bool = False
    """Whether runs follow one another, each with a longer cache."""

    def file(self, sizes: Sizes) -> bytes:
        """Return the model."""
        made = self.net(sizes, self.form, self.dtype, self.bits).model()
        return quantized(made) if self.quantized else bytes(made.SerializeToString())

    def reference(self, sizes: Sizes) -> bytes:
        """Return what the model means, in primitive operators over float64."""
        return bytes(self.net(sizes, "decomposed", np.float64, self.bits).model().SerializeToString())

    def inputs(self, sizes: Sizes, step: int = 0) -> Feeds:
        """Return the inputs of a run, in the model's type."""
        feeds = self.feeds(sizes, step)
        return {name: array.astype(self.dtype) if array.dtype == np.float32 else array for name, array in feeds.items()}


def models() -> list[Model]:
    """Return every network in every form that it has."""
    text = (Sizes(4, 768, 12, 3072, 128, vocabulary=8000), Sizes(2, 64, 4, 96, 13, vocabulary=50))
    five = (Sizes(4, 512, 8, 2048, 256, vocabulary=8000), Sizes(2, 64, 4, 96, 21, vocabulary=50))
    image = (Sizes(4, 768, 12, 3072, 224), Sizes(2, 64, 4, 96, 48, vocabulary=10))
    windows = (Sizes(2, 96, 3, 384, 224), Sizes(2, 32, 2, 64, 112, vocabulary=10))
    mobile = (Sizes(2, 144, 4, 288, 256), Sizes(1, 32, 4, 64, 32, vocabulary=10))
    sound = (Sizes(2, 384, 6, 1536, 1500), Sizes(1, 64, 4, 96, 30))
    token = Sizes(4, 1024, 16, 2816, 1, kv_heads=4, vocabulary=8000, past=128)
    small = Sizes(2, 64, 4, 96, 1, kv_heads=2, vocabulary=50, past=5)
    said = (Sizes(4, 384, 6, 1536, 1, vocabulary=20000, past=64), Sizes(2, 64, 4, 96, 1, vocabulary=50, past=5))
    found = []
    for form in ("decomposed", "operators", "microsoft", "fused"):
        found.append(Model(f"BERT, {form}", bert, bert_feeds, *text, form))
    for name, net, feeds, sizes in (("ViT", vit, image_feeds, image), ("Swin", swin, image_feeds, windows),
                                    ("MobileViT", mobilevit, image_feeds, mobile), ("T5", t5, t5_feeds, five),
                                    ("Whisper's encoder", whisper_encoder, mel_feeds, sound)):  # fmt: skip
        for form in ("decomposed", "operators"):
            found.append(Model(f"{name}, {form}", net, feeds, *sizes, form))
    for form in ("decomposed", "operators", "fused"):
        found.append(Model(f"LLaMA, a token, {form}", llama, llama_feeds, token, small, form, decodes=True))
        prompt = (token._replace(tokens=64, past=0), small._replace(tokens=9, past=0))
        found.append(Model(f"LLaMA, 64 tokens, {form}", llama, llama_feeds, *prompt, form))
    for form in ("decomposed", "operators"):
        found.append(
            Model(f"Whisper's decoder, a token, {form}", whisper_decoder, whisper_feeds, *said, form, decodes=True)
        )
    found.append(Model("BERT, quantized", bert, bert_feeds, *text, "decomposed", quantized=True))
    found.append(Model("BERT, float16", bert, bert_feeds, *text, "decomposed", dtype=np.float16))
    found.append(
        Model("LLaMA, a token, float16", llama, llama_feeds, token, small, "operators", dtype=np.float16, decodes=True)
    )
    found.append(
        Model("LLaMA, a token, quantized", llama, llama_feeds, token, small, "decomposed", quantized=True, decodes=True)
    )
    found.append(Model("BERT, 4 bits", bert, bert_feeds, *text, "decomposed", bits=4))
    for form in ("operators", "fused"):
        found.append(
            Model(f"LLaMA, a token, 4 bits, {form}", llama, llama_feeds, token, small, form, bits=4, decodes=True)
        )
    return found
