"""More networks from their papers as float graphs, of families that no test was written around: what devices compute of them.

The table of all of them: python tests/models/fresh_networks.py [NAME …] [--calibrated]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    import whole_networks as whole
else:
    from beside import load

    whole = load(__file__, "whole_networks")

Float = whole.Float


def excite(n: Any, x: str, divisor: int = 4, gate: str = "HardSigmoid") -> str:
    """Weigh channels by what all of an image says."""
    channels = n.channels[x]
    y = n.op("GlobalAveragePool", x)
    y = n.conv(n.conv(y, max(8, channels // divisor), act="relu"), channels)
    return str(n.op("Mul", x, n.op(gate, y)))


def pool(n: Any, x: str, kind: str = "MaxPool", kernel: int = 3, stride: int = 2, pad: int = 1) -> str:
    more = {"count_include_pad": 0} if kind == "AveragePool" else {}
    return str(n.op(kind, x, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4, **more))


def concat(n: Any, *parts: str, axis: int = 1) -> str:
    return str(n.op("Concat", *parts, axis=axis, channels=sum(n.channels[part] for part in parts)))


def classify(n: Any, x: str, classes: int = 10) -> Any:
    return n.model(n.conv(n.op("GlobalAveragePool", x), classes))


def lcnet(size: int = 64) -> Any:
    """PP-LCNet: depthwise convolutions of 3 and 5, hard swishes, two gates of channels at the end."""
    n = Float(1, 3, size, size)
    x = n.conv("x", 16, 3, 2, act="hswish")
    for kernel, channels, stride, gated in (
        (3, 32, 1, 0),
        (3, 64, 2, 0),
        (3, 64, 1, 0),
        (5, 128, 2, 0),
        (5, 128, 1, 1),
    ):
        x = n.conv(x, n.channels[x], kernel, stride, n.channels[x], act="hswish")
        x = excite(n, x) if gated else x
        x = n.conv(x, channels, act="hswish")
    x = n.conv(n.op("GlobalAveragePool", x), 256, act="hswish")
    return n.model(n.conv(x, 10))


def ghostnet(size: int = 64) -> Any:
    """GhostNet: half of the channels made of the other half by cheap filters."""
    n = Float(1, 3, size, size)

    def ghost(x: str, channels: int, act: str) -> str:
        first = n.conv(x, channels // 2, act=act)
        return concat(n, first, n.conv(first, channels // 2, 3, 1, channels // 2, act=act))

    x = n.conv("x", 16, 3, 2, act="relu")
    for hidden, channels, stride, gated in (
        (16, 16, 1, 0),
        (48, 24, 2, 0),
        (72, 24, 1, 0),
        (72, 40, 2, 1),
        (120, 40, 1, 1),
    ):
        y = ghost(x, hidden, "relu")
        if stride == 2:
            y = n.conv(y, hidden, 3, 2, hidden)
        y = excite(n, y) if gated else y
        y = ghost(y, channels, "")
        if stride == 2 or n.channels[x] != channels:
            x = n.conv(n.conv(x, n.channels[x], 3, stride, n.channels[x]), channels)
        x = n.op("Add", y, x)
    return classify(n, n.conv(x, 120, act="relu"))


def shuffle(n: Any, x: str, side: int) -> str:
    channels = n.channels[x]
    y = n.op("Transpose", n.reshape(x, 1, 2, channels // 2, side, side), perm=[0, 2, 1, 3, 4])
    return str(n.reshape(y, 1, channels, side, side))


def shufflenet(n: Any, x: str, side: int, widths: tuple[int, ...]) -> list[str]:
    """Add stages of ShuffleNetV2 and return their maps."""
    maps = []
    for channels in widths:
        half, side = channels // 2, side // 2
        left = n.conv(n.conv(x, n.channels[x], 3, 2, n.channels[x]), half, act="relu")
        right = n.conv(n.conv(n.conv(x, half, act="relu"), half, 3, 2, half), half, act="relu")
        x = shuffle(n, concat(n, left, right), side)
        for _ in range(2):
            left, right = n.op("Split", x, results=2, axis=1, channels=half)
            right = n.conv(n.conv(n.conv(right, half, act="relu"), half, 3, 1, half), half, act="relu")
            x = shuffle(n, concat(n, left, right), side)
        maps.append(x)
    return maps


def shufflenet_v2(size: int = 64) -> Any:
    n = Float(1, 3, size, size)
    x = pool(n, n.conv("x", 24, 3, 2, act="relu"))
    return classify(n, n.conv(shufflenet(n, x, size // 4, (116, 232))[-1], 256, act="relu"))


def nanodet(size: int = 64) -> Any:
    """NanoDet: ShuffleNetV2, a path up and down by sums, heads of depthwise convolutions whose maps are joined."""
    n = Float(1, 3, size, size)
    x = pool(n, n.conv("x", 24, 3, 2, act="leaky"))
    levels = [n.conv(x, 96) for x in shufflenet(n, x, size // 4, (116, 232))]
    up = n.op("Add", levels[0], n.resize(levels[1], "linear", coordinates="half_pixel"))
    down = n.op("Add", levels[1], n.resize(up, "linear", 0.5, coordinates="half_pixel"))
    rows = []
    for index, x in enumerate((up, down)):
        for _ in range(2):
            x = n.conv(n.conv(x, 96, 5, 1, 96, act="leaky"), 96, act="leaky")
        rows.append(n.reshape(n.conv(x, 80 + 32), 1, 112, (size >> (3 + index)) ** 2))
    return n.model(n.op("Transpose", n.op("Concat", *rows, axis=2), perm=[0, 2, 1]))


def attend(
    n: Any, q: str, k: str, v: str, tokens: tuple[int, int], width: int, heads: int, batch: int = 1, mask: Any = None
) -> str:
    """Add attention of `batch` groups of tokens; `mask` is added to the scores."""
    each = width // heads

    def apart(x: str, count: int, perm: list[int]) -> str:
        return str(n.op("Transpose", n.reshape(x, batch, count, heads, each), perm=perm))

    scores = n.op("MatMul", apart(q, tokens[0], [0, 2, 1, 3]), apart(k, tokens[1], [0, 2, 3, 1]))
    scores = n.op("Mul", scores, n.constant(np.float32(each**-0.5)))
    if mask is not None:
        scores = n.op("Add", scores, n.constant(mask.astype(np.float32)))
    y = n.op("MatMul", n.op("Softmax", scores, axis=-1), apart(v, tokens[1], [0, 2, 1, 3]))
    return str(n.reshape(n.op("Transpose", y, perm=[0, 2, 1, 3]), batch, tokens[0], width))


def normal(n: Any, x: str, width: int) -> str:
    return str(n.op("LayerNormalization", x, n.reals(width), n.reals(width), axis=-1, epsilon=1e-5))


def block(
    n: Any, x: str, tokens: int, width: int, heads: int, act: str = "gelu", batch: int = 1, mask: Any = None
) -> str:
    """Add a block of a transformer with normalizations first."""
    y = normal(n, x, width)
    y = attend(n, *(n.linear(y, width, width) for _ in range(3)), (tokens, tokens), width, heads, batch, mask)
    x = n.op("Add", x, n.linear(y, width, width))
    y = n.act(n.linear(normal(n, x, width), width, 2 * width), act)
    return str(n.op("Add", x, n.linear(y, 2 * width, width)))


def mobilevit(size: int = 64) -> Any:
    """MobileViT: patches of 2 × 2 unfolded, attended to position by position, folded and joined with what was before."""
    n = Float(1, 3, size, size)
    x = n.conv("x", 16, 3, 2, act="silu")
    x = n.conv(n.conv(n.conv(x, 64, act="silu"), 64, 3, 2, 64, act="silu"), 32)
    side, width = size // 4, 48
    y = n.conv(n.conv(x, 32, 3, act="silu"), width)
    half = side // 2
    y = n.op("Transpose", n.reshape(y, width * half, 2, half, 2), perm=[0, 2, 1, 3])
    y = n.op("Transpose", n.reshape(y, 1, width, half * half, 4), perm=[0, 3, 2, 1])
    y = n.reshape(y, 4, half * half, width)
    for _ in range(2):
        y = block(n, y, half * half, width, 4, "silu", batch=4)
    y = n.op("Transpose", n.reshape(normal(n, y, width), 1, 4, half * half, width), perm=[0, 3, 2, 1])
    y = n.op("Transpose", n.reshape(y, width * half, half, 2, 2), perm=[0, 2, 1, 3])
    y = n.reshape(y, 1, width, side, side)
    n.channels[y] = width
    y = n.conv(concat(n, x, n.conv(y, 32, act="silu")), 32, 3, act="silu")
    return classify(n, n.conv(y, 128, act="silu"))


def convnext(size: int = 64) -> Any:
    """ConvNeXt: depthwise convolutions of 7, normalization of channels between transpositions, a factor per channel."""
    n = Float(1, 3, size, size)
    x = n.op(
        "Conv",
        "x",
        n.constant(n.rng.standard_normal((32, 3, 4, 4)).astype(np.float32)),
        n.reals(32),
        kernel_shape=[4, 4],
        strides=[4, 4],
        channels=32,
    )

    def over_channels(x: str) -> str:
        """Normalize (N, C, H, W) over C as it is spelled out there."""
        channels = n.channels[x]
        y = n.op("Sub", x, n.op("ReduceMean", x, axes=[1], part="inner"), part="inner")
        square = n.op("Pow", y, n.constant(np.float32(2)), part="inner")
        root = n.op(
            "Add", n.op("ReduceMean", square, axes=[1], part="inner"), n.constant(np.float32(1e-6)), part="inner"
        )
        y = n.op("Div", y, n.op("Sqrt", root, part="inner"), part="inner")
        y = n.op("Mul", n.reals(channels, 1, 1), y, part="inner", channels=channels)
        return str(n.op("Add", y, n.reals(channels, 1, 1), part="last", channels=channels))

    x = over_channels(x)
    for channels in (32, 64):
        if n.channels[x] != channels:
            x = n.op(
                "Conv",
                over_channels(x),
                n.constant(n.rng.standard_normal((channels, n.channels[x], 2, 2)).astype(np.float32)),
                n.reals(channels),
                kernel_shape=[2, 2],
                strides=[2, 2],
                channels=channels,
            )
        for _ in range(2):
            y = n.op("Transpose", n.conv(x, channels, 7, 1, channels), perm=[0, 2, 3, 1])
            y = n.act(n.linear(normal(n, y, channels), channels, 4 * channels), "gelu")
            y = n.op("Mul", n.linear(y, 4 * channels, channels), n.reals(channels))
            y = n.op("Transpose", y, perm=[0, 3, 1, 2])
            x = n.op("Add", x, y, channels=channels)
    y = n.op("ReduceMean", x, axes=[-2, -1], keepdims=1)
    y = n.reshape(y, 1, 64)
    return n.model(n.linear(normal(n, y, 64), 64, 10))


def bifpn(size: int = 64) -> Any:
    """EfficientDet: weighted sums of maps up and down twice, heads that share weights."""
    n = Float(1, 3, size, size)
    levels = []
    x = n.conv("x", 16, 3, 2, act="silu")
    for channels in (24, 40, 80):
        y = n.conv(n.conv(x, 4 * n.channels[x], act="silu"), 4 * n.channels[x], 3, 2, 4 * n.channels[x], act="silu")
        x = n.conv(excite(n, y, gate="Sigmoid"), channels)
        levels.append(n.conv(x, 64))

    def fused(*parts: str) -> str:
        """Weigh by constants, sum, and filter by depth and point."""
        terms = [n.op("Mul", part, n.constant(np.float32(1 / len(parts)))) for part in parts]
        y = terms[0]
        for term in terms[1:]:
            y = n.op("Add", y, term)
        return str(n.conv(n.conv(n.act(y, "silu"), 64, 3, 1, 64), 64))

    for _ in range(2):
        up = [levels[2]]
        for level in (levels[1], levels[0]):
            up.insert(0, fused(level, n.resize(up[0])))
        down = [up[0]]
        for index in (1, 2):
            extra = [up[1]] if index == 1 else []
            down.append(fused(levels[index], *extra, pool(n, down[-1])))
        levels = down
    outputs = []
    for channels in (36, 81):
        for x in levels:
            y = n.conv(n.conv(n.conv(x, 64, 3, 1, 64), 64, act="silu"), channels, 3)
            outputs.append(n.reshape(n.op("Transpose", y, perm=[0, 2, 3, 1]), 1, -1, channels // 9))
    return n.model(n.op("Concat", *outputs[:3], axis=1), n.op("Concat", *outputs[3:], axis=1))


def yolov6(size: int = 64) -> Any:
    """YOLOv6: plain convolutions of 3, enlargements by transposed ones, decoupled heads."""
    n = Float(1, 3, size, size)
    x = n.conv(n.conv("x", 16, 3, 2, act="relu"), 32, 3, 2, act="relu")
    maps = []
    for channels in (64, 128, 256):
        x = n.conv(n.conv(x, channels, 3, 2, act="relu"), channels, 3, act="relu")
        maps.append(x)
    x = n.conv(x, 64, act="relu")
    first = x
    for index in (1, 0):
        up = n.op(
            "ConvTranspose",
            x,
            n.constant(n.rng.standard_normal((64, 64, 2, 2)).astype(np.float32)),
            n.reals(64),
            kernel_shape=[2, 2],
            strides=[2, 2],
            channels=64,
        )
        x = n.conv(n.conv(concat(n, up, n.conv(maps[index], 64, act="relu")), 64, 3, act="relu"), 64, act="relu")
        maps[index] = x
    levels = [maps[0]]
    levels.append(n.conv(concat(n, n.conv(levels[0], 64, 3, 2, act="relu"), maps[1]), 64, 3, act="relu"))
    levels.append(n.conv(concat(n, n.conv(levels[1], 64, 3, 2, act="relu"), first), 64, 3, act="relu"))
    rows = []
    for index, x in enumerate(levels):
        x = n.conv(x, 64, act="silu")
        scores = n.op("Sigmoid", n.conv(n.conv(x, 64, 3, act="silu"), 80))
        boxes = n.conv(n.conv(x, 64, 3, act="silu"), 4)
        rows.append(n.reshape(concat(n, boxes, scores), 1, 84, (size >> (3 + index)) ** 2))
    return n.model(n.op("Transpose", n.op("Concat", *rows, axis=2), perm=[0, 2, 1]))


def detr(size: int = 64) -> Any:
    """DETR: an encoder with positions added to queries and keys, a decoder whose queries are learned, normalizations last."""
    n = Float(1, 3, size, size)
    x = n.conv(n.conv(n.conv("x", 32, 3, 2, act="relu"), 64, 3, 2, act="relu"), 64, 3, 2, act="relu")
    tokens, width, asked = (size // 8) ** 2, 64, 20
    x = n.op("Transpose", n.reshape(n.conv(x, width), 1, width, tokens), perm=[0, 2, 1])
    place = n.reals(1, tokens, width)

    def ahead(x: str, y: str) -> str:
        return normal(n, n.op("Add", x, y), width)

    def forward(x: str) -> str:
        y = n.op("Relu", n.linear(x, width, 2 * width))
        return ahead(x, n.linear(y, 2 * width, width))

    for _ in range(2):
        where = n.op("Add", x, place)
        y = attend(
            n,
            n.linear(where, width, width),
            n.linear(where, width, width),
            n.linear(x, width, width),
            (tokens, tokens),
            width,
            4,
        )
        x = forward(ahead(x, n.linear(y, width, width)))
    queries = n.reals(1, asked, width)
    # The first look at oneself is of constants, which tools fold.
    y = n.reals(1, asked, width)
    for _ in range(2):
        keys = n.op("Add", x, place)
        q = n.linear(n.op("Add", y, queries), width, width)
        z = attend(n, q, n.linear(keys, width, width), n.linear(x, width, width), (asked, tokens), width, 4)
        y = forward(ahead(y, n.linear(z, width, width)))
        q = n.op("Add", y, queries)
        z = attend(
            n, n.linear(q, width, width), n.linear(q, width, width), n.linear(y, width, width), (asked, asked), width, 4
        )
        y = ahead(y, n.linear(z, width, width))
    boxes = n.op("Sigmoid", n.linear(n.op("Relu", n.linear(y, width, width)), width, 4))
    return n.model(n.linear(y, width, 11), boxes)


def hrnet(size: int = 64) -> Any:
    """HRNet: branches of three sizes, each made of sums of all others'."""
    n = Float(1, 3, size, size)
    x = n.conv(n.conv("x", 32, 3, 2, act="relu"), 32, 3, 2, act="relu")
    branches = [n.conv(x, 16, 3, act="relu"), n.conv(x, 32, 3, 2, act="relu")]
    branches.append(n.conv(branches[1], 64, 3, 2, act="relu"))
    for _ in range(2):
        branches = [
            n.op("Relu", n.op("Add", x, n.conv(n.conv(x, n.channels[x], 3, act="relu"), n.channels[x], 3)))
            for x in branches
        ]
        joined = []
        for to in range(3):
            total = branches[to]
            for source in range(3):
                y = branches[source]
                if source > to:
                    y = n.resize(n.conv(y, 16 << to), factor=2 ** (source - to))
                for step in range(source, to):
                    y = n.conv(y, 16 << (step + 1), 3, 2, act="relu" if step + 1 < to else "")
                total = total if source == to else n.op("Add", total, y)
            joined.append(n.op("Relu", total))
        branches = joined
    parts = [branches[0], *(n.resize(x, "linear", 2 << index, "half_pixel") for index, x in enumerate(branches[1:]))]
    return n.model(n.conv(n.conv(concat(n, *parts), 64, act="relu"), 17))


def bisenet(size: int = 64) -> Any:
    """BiSeNetV2: details and semantics apart, each weighed by gates of the other."""
    n = Float(1, 3, size, size)
    detail = "x"
    for channels, stride in ((32, 2), (32, 1), (64, 2), (64, 1), (64, 2)):
        detail = n.conv(detail, channels, 3, stride, act="relu")
    stem = n.conv("x", 16, 3, 2, act="relu")
    left = n.conv(n.conv(stem, 8, act="relu"), 16, 3, 2, act="relu")
    x = n.conv(concat(n, left, pool(n, stem)), 16, 3, act="relu")
    for channels in (32, 64):
        y = n.conv(
            n.conv(n.conv(x, n.channels[x], 3, act="relu"), 6 * n.channels[x], 3, 2, n.channels[x]),
            6 * n.channels[x],
            3,
            1,
            6 * n.channels[x],
            act="relu",
        )
        short = n.conv(n.conv(x, n.channels[x], 3, 2, n.channels[x]), channels)
        x = n.op("Relu", n.op("Add", n.conv(y, channels), short))
    # What all of the image says, added everywhere.
    x = n.conv(n.op("Add", n.conv(n.op("GlobalAveragePool", x), 64, act="relu"), x), 64, 3, act="relu")
    keep = n.conv(n.conv(detail, 64, 3, 1, 64), 64)
    less = pool(n, n.conv(detail, 64, 3, 2), "AveragePool", stride=1)
    more = n.op("Sigmoid", n.resize(n.conv(x, 64, 3), "linear", coordinates="half_pixel"))
    gate = n.op("Sigmoid", n.conv(n.conv(x, 64, 3, 1, 64), 64))
    fine, coarse = n.op("Mul", keep, more), n.op("Mul", less, gate)
    x = n.conv(n.op("Add", fine, n.resize(coarse, "linear", coordinates="half_pixel")), 64, 3, act="relu")
    return n.model(n.resize(n.conv(x, 19), "linear", 8, "half_pixel"))


def u2net(size: int = 64) -> Any:
    """U²-Net: nested paths down and up, dilated at the bottom, a map from each level."""
    n = Float(1, 3, size, size)

    def wide(x: str, outputs: int, dilation: int = 1) -> str:
        weights = n.constant(n.rng.standard_normal((outputs, n.channels[x], 3, 3)).astype(np.float32))
        window = {"kernel_shape": [3] * 2, "pads": [dilation] * 4, "dilations": [dilation] * 2}
        return str(
            n.op(
                "Relu", n.op("Conv", x, weights, n.constant(np.zeros(outputs, np.float32)), channels=outputs, **window)
            )
        )

    def nested(x: str, hidden: int, outputs: int, depth: int) -> str:
        whole = wide(x, outputs)
        down = [wide(whole, hidden)]
        for _ in range(depth - 2):
            down.append(wide(pool(n, down[-1], kernel=2, pad=0), hidden))
        y = wide(down[-1], hidden, 2)
        for index in reversed(range(len(down))):
            y = wide(concat(n, y, down[index]), hidden if index else outputs)
            y = n.resize(y, "linear", coordinates="half_pixel") if index else y
        return str(n.op("Add", y, whole))

    first = nested("x", 8, 16, 4)
    second = nested(pool(n, first, kernel=2, pad=0), 8, 32, 3)
    bottom = nested(pool(n, second, kernel=2, pad=0), 16, 32, 2)
    up = nested(concat(n, n.resize(bottom, "linear", coordinates="half_pixel"), second), 8, 32, 3)
    last = nested(concat(n, n.resize(up, "linear", coordinates="half_pixel"), first), 8, 16, 4)
    sides = [n.conv(last, 1, 3)]
    sides += [n.resize(n.conv(x, 1, 3), "linear", factor, "half_pixel") for x, factor in ((up, 2), (bottom, 4))]
    return n.model(n.op("Sigmoid", n.conv(concat(n, *sides), 1)))


def osnet(size: int = 64) -> Any:
    """OSNet: streams of one to four light convolutions, each through the same gate, summed."""
    n = Float(1, 3, size, size)
    x = pool(n, n.conv("x", 32, 7, 2, act="relu"))
    for channels in (64, 96):
        y = n.conv(x, channels // 4, act="relu")
        total = ""
        for count in range(1, 5):
            stream = y
            for _ in range(count):
                stream = n.conv(n.conv(stream, channels // 4), channels // 4, 3, 1, channels // 4, act="relu")
            stream = excite(n, stream, gate="Sigmoid")
            total = n.op("Add", total, stream) if total else stream
        short = n.conv(x, channels)
        x = n.op("Relu", n.op("Add", n.conv(total, channels), short))
        x = pool(n, n.conv(x, channels, act="relu"), "AveragePool", 2, 2, 0)
    return n.model(n.linear(n.op("Flatten", n.op("GlobalAveragePool", x)), 96, 128))


def crepe(samples: int = 1024) -> Any:
    """CREPE: convolutions of one axis with long filters, pooled by two."""
    n = Float(1, 1, samples)
    x, before = "x", 1
    for channels, kernel, stride in ((32, 64, 4), (16, 32, 1), (16, 32, 1), (32, 32, 1)):
        weights = n.constant(n.rng.standard_normal((channels, before, kernel)).astype(np.float32))
        pads = [(kernel - 1) // 2, kernel - 1 - (kernel - 1) // 2]
        x = n.op("Conv", x, weights, n.reals(channels), kernel_shape=[kernel], strides=[stride], pads=pads)
        x = n.op("MaxPool", n.op("Relu", x), kernel_shape=[2], strides=[2])
        before = channels
    length = samples // 64
    x = n.op("Transpose", x, perm=[0, 2, 1])
    return n.model(n.op("Sigmoid", n.linear(n.reshape(x, 1, length * 32), length * 32, 360)))


def mixer(size: int = 64) -> Any:
    """MLP-Mixer: products over tokens, then over channels."""
    n = Float(1, 3, size, size)
    tokens, width = (size // 8) ** 2, 64
    x = n.op(
        "Conv",
        "x",
        n.constant(n.rng.standard_normal((width, 3, 8, 8)).astype(np.float32)),
        n.reals(width),
        kernel_shape=[8, 8],
        strides=[8, 8],
    )
    x = n.op("Transpose", n.reshape(x, 1, width, tokens), perm=[0, 2, 1])
    for _ in range(3):
        y = n.op("Transpose", normal(n, x, width), perm=[0, 2, 1])
        y = n.linear(n.act(n.linear(y, tokens, 32), "gelu"), 32, tokens)
        x = n.op("Add", x, n.op("Transpose", y, perm=[0, 2, 1]))
        y = n.linear(n.act(n.linear(normal(n, x, width), width, 4 * width), "gelu"), 4 * width, width)
        x = n.op("Add", x, y)
    x = n.op("ReduceMean", normal(n, x, width), axes=[1], keepdims=0)
    return n.model(n.linear(x, width, 10))


def swin(size: int = 64) -> Any:
    """Swin: attention within windows, then within shifted ones with a mask; patches merged by two."""
    n = Float(1, 3, size, size)
    width, side, window = 32, size // 4, 4
    x = n.op(
        "Conv",
        "x",
        n.constant(n.rng.standard_normal((width, 3, 4, 4)).astype(np.float32)),
        n.reals(width),
        kernel_shape=[4, 4],
        strides=[4, 4],
    )
    x = n.op("Transpose", n.reshape(x, 1, width, side * side), perm=[0, 2, 1])

    def rolled(x: str, by: int) -> str:
        for axis in (1, 2):
            ends = [n.constant(np.array([value])) for value in (by, 1 << 30, 0, by, axis)]
            later = n.op("Slice", x, ends[0], ends[1], ends[4])
            x = n.op("Concat", later, n.op("Slice", x, ends[2], ends[3], ends[4]), axis=axis)
        return x

    for _ in range(2):
        count, inside = (side // window) ** 2, window * window
        for shift in (0, window // 2):
            y = n.reshape(normal(n, x, width), 1, side, side, width)
            y = rolled(y, shift) if shift else y
            y = n.reshape(y, 1, side // window, window, side // window, window, width)
            y = n.reshape(n.op("Transpose", y, perm=[0, 1, 3, 2, 4, 5]), count, inside, width)
            mask = n.rng.standard_normal((1, 4, inside, inside))
            if shift:
                zone = (np.arange(side) >= side - window).astype(int) + (np.arange(side) >= side - shift)
                zones = (3 * zone[:, None] + zone[None]).reshape(side // window, window, side // window, window)
                zones = zones.transpose(0, 2, 1, 3).reshape(count, inside)
                mask = mask + np.where(zones[:, None, :] == zones[:, :, None], 0.0, -100.0)[:, None]
            y = attend(n, *(n.linear(y, width, width) for _ in range(3)), (inside, inside), width, 4, count, mask)
            y = n.reshape(n.linear(y, width, width), 1, side // window, side // window, window, window, width)
            y = n.reshape(n.op("Transpose", y, perm=[0, 1, 3, 2, 4, 5]), 1, side, side, width)
            y = rolled(y, side - shift) if shift else y
            x = n.op("Add", x, n.reshape(y, 1, side * side, width))
            y = n.act(n.linear(normal(n, x, width), width, 4 * width), "gelu")
            x = n.op("Add", x, n.linear(y, 4 * width, width))
        y = n.reshape(x, 1, side, side, width)
        quarters = []
        for column in (0, 1):
            for row in (0, 1):
                ends = [n.constant(np.array(value)) for value in ([row, column], [side, side], [1, 2], [2, 2])]
                quarters.append(n.op("Slice", y, *ends))
        side //= 2
        y = n.reshape(n.op("Concat", *quarters, axis=3), 1, side * side, 4 * width)
        x = n.linear(normal(n, y, 4 * width), 4 * width, 2 * width)
        width *= 2
    x = n.op("ReduceMean", normal(n, x, width), axes=[1], keepdims=0)
    return n.model(n.linear(x, width, 10))


FRESH: dict[str, Callable[[], Any]] = {
    "bifpn": bifpn,
    "bisenetv2": bisenet,
    "convnext": convnext,
    "crepe": crepe,
    "detr": detr,
    "ghostnet": ghostnet,
    "hrnet": hrnet,
    "mlp-mixer": mixer,
    "mobilevit": mobilevit,
    "nanodet": nanodet,
    "osnet": osnet,
    "pp-lcnet": lcnet,
    "shufflenetv2": shufflenet_v2,
    "swin": swin,
    "u2net": u2net,
    "yolov6": yolov6,
}


def calibrated(model: Any, folder: Path) -> Path:
    """Return what `triune.quantize` makes of a network."""
    import triune

    onnx.save(model, folder / "float.onnx")
    shape = [each.dim_value for each in model.graph.input[0].type.tensor_type.shape.dim]
    rng = np.random.default_rng(2)
    samples = [{"x": rng.standard_normal(shape).astype(np.float32)} for _ in range(4)]
    return Path(
        triune.quantize(folder / "float.onnx", calibration=samples, output=folder / "net.onnx", float_from=()).path
    )


def main() -> None:
    """Print each network's share of multiply-accumulates on each target, and what stayed and why."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument(
        "--calibrated", action="store_true", help="quantized by triune.quantize, in random numbers' ranges"
    )
    arguments = parser.parse_args()
    for name, make in FRESH.items():
        if arguments.names and name not in arguments.names:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            file = Path(scratch) / "net.onnx"
            if arguments.calibrated:
                file = calibrated(make(), Path(scratch))
            else:
                onnx.save(whole.in_qdq_form(make()), file)
            for target in whole.FORMATS:
                try:
                    report = whole.measured(file, target, Path(scratch) / target)
                except Exception as error:
                    print(f"{name:14} {target:6} {type(error).__name__}: {str(error)[:200]}", flush=True)
                    continue
                print(f"{name:14} {target:6} {100 * report.share:6.2f} % ({report.segments})", flush=True)
                for each in report.stayed:
                    print(f"    {each.op} '{each.node}': {each.reason}", flush=True)


if __name__ == "__main__":
    main()
