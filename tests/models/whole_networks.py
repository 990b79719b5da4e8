"""Networks from their papers as float graphs, put in QDQ form as quantizers write it: how much of them devices compute.

The table of all of them: python tests/models/whole_networks.py [--folder TOPOLOGIES]
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
from onnx import TensorProto, helper, numpy_helper

import triune

Array = np.ndarray[Any, Any]
FORMATS = {"metis": "package", "zg330": "icraft", "buyi": "icraft"}
"""Every target, with the form that it is compiled to."""

SAME = ("MaxPool", "Reshape", "Transpose", "Split", "Slice", "Squeeze", "Unsqueeze", "Flatten", "DepthToSpace")
"""Operators whose results mean what their operands mean."""
FIXED = {"Sigmoid": 1 / 256, "Softmax": 1 / 256, "HardSigmoid": 1 / 256}


class Float:
    """A float network under construction; every method adds an operator and returns its result's name."""

    def __init__(self, *shape: int) -> None:
        """Begin with an input of this shape."""
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.shape = shape
        self.channels = {"x": shape[1]}
        self.rng = np.random.default_rng(0)

    def constant(self, value: Any) -> str:
        """Add an initializer."""
        self.constants.append(numpy_helper.from_array(np.asarray(value, order="C"), f"c{len(self.constants)}"))
        return self.constants[-1].name

    def reals(self, *shape: int) -> str:
        """Add an initializer of reals around one."""
        return self.constant(self.rng.uniform(0.5, 1.5, shape).astype(np.float32))

    def op(
        self,
        kind: str,
        *inputs: str,
        results: int = 1,
        channels: int | None = None,
        part: str = "",
        **attributes: Any,
    ) -> Any:
        """Add an operator over reals; `part` of what tools quantize as one: "inner", or the "last" one."""
        number = len(self.nodes)
        names = [f"v{number}" if index == 0 else f"v{number}_{index}" for index in range(results)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=f"{part}{kind}{number}", **attributes))
        for name in names:
            self.channels[name] = self.channels.get(inputs[0], 0) if channels is None else channels
        return names[0] if results == 1 else names

    def conv(self, x: str, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1, act: str = "") -> str:
        """Add a convolution with padding on all sides, and maybe a function behind it."""
        weights = self.constant(
            self.rng.standard_normal((outputs, self.channels[x] // groups, kernel, kernel)).astype(np.float32)
        )
        bias = self.constant(np.zeros(outputs, np.float32))
        window = {"kernel_shape": [kernel] * 2, "pads": [kernel // 2] * 4, "strides": [stride] * 2, "group": groups}
        return self.act(str(self.op("Conv", x, weights, bias, channels=outputs, **window)), act)

    def act(self, x: str, kind: str) -> str:
        """Add a function by its name in the papers."""
        if kind == "silu":
            return str(self.op("Mul", x, self.op("Sigmoid", x)))
        if kind == "gelu":
            y = self.op("Div", x, self.constant(np.float32(np.sqrt(2))), part="inner")
            y = self.op("Add", self.op("Erf", y, part="inner"), self.constant(np.float32(1)), part="inner")
            y = self.op("Mul", x, y, part="inner")
            return str(self.op("Mul", y, self.constant(np.float32(0.5)), part="last"))
        if kind == "mish":
            y = self.op("Tanh", self.op("Softplus", x, part="inner"), part="inner")
            return str(self.op("Mul", x, y, part="last"))
        return str(self.op({"relu": "Relu", "hswish": "HardSwish", "leaky": "LeakyRelu"}[kind], x)) if kind else x

    def linear(self, x: str, inputs: int, outputs: int) -> str:
        """Add a product of tokens with constant weights, and a bias."""
        weights = self.constant(self.rng.standard_normal((inputs, outputs)).astype(np.float32))
        y = self.op("MatMul", x, weights)
        return str(self.op("Add", y, self.reals(outputs)))

    def reshape(self, x: str, *shape: int) -> str:
        """Add another shape of the same elements."""
        return str(self.op("Reshape", x, self.constant(np.array(shape))))

    def resize(self, x: str, mode: str = "nearest", factor: float = 2, coordinates: str = "asymmetric") -> str:
        """Add a resampling."""
        scales = self.constant(np.array([1, 1, factor, factor], np.float32))
        more = {"nearest_mode": "floor"} if mode == "nearest" else {}
        return str(self.op("Resize", x, "", scales, mode=mode, coordinate_transformation_mode=coordinates, **more))

    def model(self, *outputs: str) -> onnx.ModelProto:
        """Return the model that gives these values."""
        graph = helper.make_graph(
            self.nodes,
            "net",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)],
            [helper.make_empty_tensor_value_info(name) for name in outputs],
            self.constants,
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return onnx.shape_inference.infer_shapes(made, strict_mode=True)


# ---- blocks of detectors ----


def bottleneck(n: Float, x: str, channels: int, add: bool = True, act: str = "silu") -> str:
    """Two convolutions and a way around them."""
    y = n.conv(n.conv(x, channels, 3, act=act), channels, 3, act=act)
    return str(n.op("Add", x, y)) if add and n.channels[x] == channels else y


def c2f(n: Float, x: str, channels: int, count: int = 1) -> str:
    """YOLOv8's block: a split, bottlenecks one behind the other, all joined."""
    half = channels // 2
    y = n.conv(x, channels, act="silu")
    sizes = n.constant(np.array([half, half]))
    parts = n.op("Split", y, sizes, results=2, channels=half, axis=1)
    for _ in range(count):
        parts.append(bottleneck(n, parts[-1], half))
    return n.conv(n.op("Concat", *parts, axis=1, channels=half * len(parts)), channels, act="silu")


def sppf(n: Float, x: str, channels: int) -> str:
    """Three pools one behind the other, joined."""
    y = n.conv(x, channels // 2, act="silu")
    parts = [y]
    for _ in range(3):
        parts.append(n.op("MaxPool", parts[-1], kernel_shape=[5, 5], pads=[2] * 4, strides=[1, 1]))
    return n.conv(n.op("Concat", *parts, axis=1, channels=2 * channels), channels, act="silu")


def attention(n: Float, x: str, channels: int, size: int, heads: int = 2) -> str:
    """YOLOv10's and 11's attention over positions."""
    depth = channels // heads
    key = depth // 2
    qkv = n.reshape(n.conv(x, channels + 2 * key * heads), 1, heads, depth + 2 * key, size * size)
    sizes = n.constant(np.array([key, key, depth]))
    q, k, v = n.op("Split", qkv, sizes, results=3, axis=2)
    scores = n.op("MatMul", n.op("Transpose", q, perm=[0, 1, 3, 2]), k)
    scores = n.op("Mul", scores, n.constant(np.float32(key**-0.5)))
    weights = n.op("Transpose", n.op("Softmax", scores, axis=-1), perm=[0, 1, 3, 2])
    mixed = n.reshape(n.op("MatMul", v, weights), 1, channels, size, size)
    n.channels[mixed] = channels
    place = n.reshape(v, 1, channels, size, size)
    n.channels[place] = channels
    y = n.op("Add", mixed, n.conv(place, channels, 3, groups=channels))
    return n.conv(y, channels)


def c2psa(n: Float, x: str, channels: int, size: int) -> str:
    """YOLO11's block of attention and two products, both with ways around them."""
    half = channels // 2
    y = n.conv(x, channels, act="silu")
    a, b = n.op("Split", y, n.constant(np.array([half, half])), results=2, channels=half, axis=1)
    b = n.op("Add", b, attention(n, b, half, size))
    b = n.op("Add", b, n.conv(n.conv(b, 2 * half, act="silu"), half))
    return n.conv(n.op("Concat", a, b, axis=1, channels=channels), channels, act="silu")


def pyramid(n: Float, levels: list[str], widths: list[int], mode: str = "nearest") -> list[str]:
    """Down the levels and up again, as YOLOv8 has it."""
    p3, p4, p5 = levels
    joined = n.op("Concat", n.resize(p5, mode), p4, axis=1, channels=widths[2] + widths[1])
    m4 = c2f(n, joined, widths[1])
    joined = n.op("Concat", n.resize(m4, mode), p3, axis=1, channels=widths[1] + widths[0])
    m3 = c2f(n, joined, widths[0])
    joined = n.op("Concat", n.conv(m3, widths[0], 3, 2, act="silu"), m4, axis=1, channels=widths[0] + widths[1])
    m4 = c2f(n, joined, widths[1])
    joined = n.op("Concat", n.conv(m4, widths[1], 3, 2, act="silu"), p5, axis=1, channels=widths[1] + widths[2])
    return [m3, m4, c2f(n, joined, widths[2])]


def detector(version: int, size: int = 64, task: str = "detect") -> onnx.ModelProto:
    """A small detector of YOLO's version 5, 8, 10 or 11, with its decode; `task` adds masks or key points."""
    n = Float(1, 3, size, size)
    act = "silu"
    widths = [32, 64, 128]
    x = n.conv(n.conv("x", 16, 3, 2, act=act), 32, 3, 2, act=act)
    levels = []
    for width in widths:
        x = c2f(n, n.conv(x, width, 3, 2, act=act), width)
        levels.append(x)
    levels[2] = sppf(n, levels[2], widths[2])
    if version >= 10:
        levels[2] = c2psa(n, levels[2], widths[2], size // 32)
    rows, more = [], []
    total = 0
    for level, (x, stride) in enumerate(zip(pyramid(n, levels, widths), (8, 16, 32), strict=True)):
        side = size // stride
        total += side * side
        if version == 5:
            y = n.reshape(n.conv(x, 3 * 85), 1, 3, 85, side, side)
            y = n.op("Sigmoid", n.op("Transpose", y, perm=[0, 1, 3, 4, 2]))
            rows.append(n.reshape(y, 1, 3 * side * side, 85))
            continue
        box = n.conv(n.conv(n.conv(x, 32, 3, act=act), 32, 3, act=act), 64)
        depthwise = n.conv(x, widths[level], 3, groups=widths[level], act=act) if version >= 11 else x
        score = n.conv(n.conv(n.conv(depthwise, 32, 3 if version < 11 else 1, act=act), 32, 3, act=act), 80)
        joined = n.op("Concat", box, score, axis=1, channels=144)
        rows.append(n.reshape(joined, 1, 144, side * side))
        if task != "detect":
            own = n.conv(n.conv(x, 32, 3, act=act), 32)
            more.append(n.reshape(own, 1, 32, side * side))
    if version == 5:
        return n.model(n.op("Concat", *rows, axis=1))
    joined = n.op("Concat", *rows, axis=2)
    boxes, scores = n.op("Split", joined, n.constant(np.array([64, 80])), results=2, axis=1)
    # Distances as means over 16 bins, by a fixed 1×1 convolution.
    bins = n.op("Transpose", n.reshape(boxes, 1, 4, 16, total), perm=[0, 2, 1, 3])
    bins = n.op("Softmax", bins, axis=1)
    weights = n.constant(np.arange(16, dtype=np.float32).reshape(1, 16, 1, 1))
    places = n.reshape(n.op("Conv", bins, weights, kernel_shape=[1, 1]), 1, 4, total)
    outputs = [n.op("Concat", places, n.op("Sigmoid", scores), axis=1)]
    if task != "detect":
        outputs.append(n.op("Concat", *more, axis=2))
    if task == "segment":
        proto = n.conv(levels[0], 32, 3, act=act)
        weights = n.constant(n.rng.standard_normal((32, 32, 2, 2)).astype(np.float32))
        proto = n.op("ConvTranspose", proto, weights, n.reals(32), kernel_shape=[2, 2], strides=[2, 2])
        outputs.append(n.conv(proto, 32, act=act))
    return n.model(*outputs)


# ---- transformers ----


def vision_transformer(size: int = 64, width: int = 96, depth: int = 12, act: str = "gelu") -> onnx.ModelProto:
    """Patches, blocks of attention and two products with normalizations before them, one class."""
    n = Float(1, 3, size, size)
    heads, side = 3, size // 16
    tokens = side * side
    weights = n.constant(n.rng.standard_normal((width, 3, 16, 16)).astype(np.float32))
    x = n.op("Conv", "x", weights, n.reals(width), kernel_shape=[16, 16], strides=[16, 16])
    x = n.op("Transpose", n.reshape(x, 1, width, tokens), perm=[0, 2, 1])
    x = n.op("Add", x, n.reals(1, tokens, width))

    def normalized(x: str) -> str:
        return str(n.op("LayerNormalization", x, n.reals(width), n.reals(width), axis=-1, epsilon=1e-6))

    for _ in range(depth):
        qkv = n.reshape(n.linear(normalized(x), width, 3 * width), 1, tokens, 3, heads, width // heads)
        qkv = n.op("Transpose", qkv, perm=[2, 0, 3, 1, 4])
        q, k, v = (n.op("Squeeze", part, n.constant(np.array([0]))) for part in n.op("Split", qkv, results=3, axis=0))
        q = n.op("Mul", q, n.constant(np.float32((width // heads) ** -0.5)))
        scores = n.op("Softmax", n.op("MatMul", q, n.op("Transpose", k, perm=[0, 1, 3, 2])), axis=-1)
        mixed = n.op("Transpose", n.op("MatMul", scores, v), perm=[0, 2, 1, 3])
        x = n.op("Add", x, n.linear(n.reshape(mixed, 1, tokens, width), width, width))
        hidden = n.act(n.linear(normalized(x), width, 4 * width), act)
        x = n.op("Add", x, n.linear(hidden, 4 * width, width))
    x = n.op("ReduceMean", normalized(x), axes=[1], keepdims=0)
    return n.model(n.linear(x, width, 10))


# ---- images to images ----


def nafnet(size: int = 32, width: int = 16) -> onnx.ModelProto:
    """Blocks of normalization over channels, simple gates and channel attention; down and up by pixel shuffles."""
    n = Float(1, 3, size, size)

    def normalized(x: str) -> str:
        c = n.channels[x]
        mean = n.op("ReduceMean", x, part="inner", axes=[1], keepdims=1)
        rest = n.op("Sub", x, mean, part="inner")
        square = n.op("Pow", rest, n.constant(np.float32(2)), part="inner")
        variance = n.op("ReduceMean", square, part="inner", axes=[1], keepdims=1)
        variance = n.op("Add", variance, n.constant(np.float32(1e-6)), part="inner")
        y = n.op("Div", rest, n.op("Sqrt", variance, part="inner"), part="inner")
        y = n.op("Mul", y, n.reals(1, c, 1, 1), part="inner")
        return str(n.op("Add", y, n.reals(1, c, 1, 1), part="last"))

    def gate(x: str) -> str:
        half = n.channels[x] // 2
        a, b = n.op("Split", x, n.constant(np.array([half, half])), results=2, channels=half, axis=1)
        return str(n.op("Mul", a, b))

    def block(x: str) -> str:
        c = n.channels[x]
        y = gate(n.conv(n.conv(normalized(x), 2 * c), 2 * c, 3, groups=2 * c))
        y = n.conv(n.op("Mul", y, n.conv(n.op("GlobalAveragePool", y), c)), c)
        x = n.op("Add", x, n.op("Mul", y, n.reals(1, c, 1, 1)))
        y = n.conv(gate(n.conv(normalized(x), 2 * c)), c)
        return str(n.op("Add", x, n.op("Mul", y, n.reals(1, c, 1, 1))))

    x, skips = n.conv("x", width, 3), []
    for _ in range(2):
        x = block(x)
        skips.append(x)
        c = n.channels[x]
        weights = n.constant(n.rng.standard_normal((2 * c, c, 2, 2)).astype(np.float32))
        x = n.op("Conv", x, weights, n.reals(2 * c), kernel_shape=[2, 2], strides=[2, 2], channels=2 * c)
    x = block(x)
    for skip in reversed(skips):
        c = n.channels[x]
        x = n.op("DepthToSpace", n.conv(x, 2 * c), blocksize=2, mode="CRD", channels=c // 2)
        x = block(n.op("Add", x, skip))
    return n.model(n.op("Add", n.conv(x, 3, 3), "x"))


def rfdn(size: int = 32, width: int = 48) -> onnx.ModelProto:
    """Residual feature distillation with enhanced spatial attention, whose maps are blended back to size."""
    n = Float(1, 3, size, size)

    def attended(x: str) -> str:
        c = n.channels[x] // 4
        first = n.conv(x, c)
        y = n.conv(first, c, 3, 2)
        pooled = n.op("MaxPool", y, kernel_shape=[7, 7], strides=[3, 3])
        y = n.conv(n.conv(n.conv(pooled, c, 3, act="relu"), c, 3, act="relu"), c, 3)
        sizes = n.constant(np.array([1, c, size, size]))
        y = n.op("Resize", y, "", "", sizes, mode="linear", coordinate_transformation_mode="half_pixel")
        y = n.conv(n.op("Add", y, n.conv(first, c)), n.channels[x])
        return str(n.op("Mul", x, n.op("Sigmoid", y)))

    def block(x: str) -> str:
        parts, rest = [], x
        for _ in range(3):
            parts.append(n.conv(rest, width // 2, act="leaky"))
            rest = n.act(n.op("Add", n.conv(rest, width, 3), rest), "leaky")
        parts.append(n.conv(rest, width // 2, 3, act="leaky"))
        joined = n.op("Concat", *parts, axis=1, channels=2 * width)
        return attended(n.conv(joined, width))

    first = n.conv("x", width, 3)
    maps, x = [], first
    for _ in range(4):
        x = block(x)
        maps.append(x)
    x = n.conv(n.op("Concat", *maps, axis=1, channels=4 * width), width, act="leaky")
    x = n.op("Add", n.conv(x, width, 3), first)
    return n.model(n.op("DepthToSpace", n.conv(x, 12, 3), blocksize=2, mode="CRD"))


def unet(size: int = 64, up: str = "transposed") -> onnx.ModelProto:
    """Two convolutions per level, down by pools and up by transposed convolutions or blending."""
    n = Float(1, 3, size, size)

    def double(x: str, channels: int) -> str:
        return n.conv(n.conv(x, channels, 3, act="relu"), channels, 3, act="relu")

    x, skips = double("x", 16), []
    for channels in (32, 64, 128):
        skips.append(x)
        x = double(n.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]), channels)
    for channels, skip in zip((64, 32, 16), reversed(skips), strict=True):
        if up == "transposed":
            weights = n.constant(n.rng.standard_normal((2 * channels, channels, 2, 2)).astype(np.float32))
            window = {"kernel_shape": [2, 2], "strides": [2, 2]}
            x = n.op("ConvTranspose", x, weights, n.reals(channels), channels=channels, **window)
        else:
            x = n.resize(x, "linear", 2, up)
        joined = n.op("Concat", skip, x, axis=1, channels=channels + n.channels[x])
        x = double(joined, channels)
    return n.model(n.conv(x, 2))


# ---- classifiers and their kin ----


def densenet(size: int = 64) -> onnx.ModelProto:
    """Normalizations before convolutions, which nothing can take in."""
    n = Float(1, 3, size, size)

    def normalized(x: str) -> str:
        c = n.channels[x]
        rows = [n.reals(c), n.reals(c), n.reals(c), n.reals(c)]
        return str(n.op("Relu", n.op("BatchNormalization", x, *rows)))

    x = n.op("MaxPool", n.conv("x", 32, 7, 2, act="relu"), kernel_shape=[2, 2], strides=[2, 2])
    for layers in (3, 4, 3):
        parts = [x]
        for _ in range(layers):
            total = sum(n.channels[part] for part in parts)
            joined = parts[0] if len(parts) == 1 else n.op("Concat", *parts, axis=1, channels=total)
            y = n.conv(normalized(joined), 64)
            parts.append(n.conv(normalized(y), 16, 3))
        total = sum(n.channels[part] for part in parts)
        x = n.conv(normalized(n.op("Concat", *parts, axis=1, channels=total)), total // 2)
        x = n.op("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
    c = n.channels[x]
    x = n.reshape(n.op("GlobalAveragePool", normalized(x)), 1, c)
    return n.model(n.op("Gemm", x, n.constant(n.rng.standard_normal((c, 10)).astype(np.float32)), n.reals(10)))


def efficientnet(size: int = 64, act: str = "silu", mean: str = "GlobalAveragePool") -> onnx.ModelProto:
    """Inverted bottlenecks with squeeze and excitation."""
    n = Float(1, 3, size, size)
    x = n.conv("x", 16, 3, 2, act=act)
    for channels, stride in ((16, 1), (24, 2), (24, 1), (40, 2)):
        inner = 4 * n.channels[x]
        y = n.conv(n.conv(x, inner, act=act), inner, 5, stride, groups=inner, act=act)
        few = n.op(mean, y) if mean == "GlobalAveragePool" else n.op(mean, y, axes=[2, 3], keepdims=1)
        gate = "HardSigmoid" if act == "hswish" else "Sigmoid"
        y = n.conv(n.op("Mul", y, n.op(gate, n.conv(n.conv(few, 8, act=act), inner))), channels)
        x = n.op("Add", x, y) if stride == 1 and n.channels[x] == channels else y
    x = n.op("ReduceMean", n.conv(x, 160, act=act), axes=[2, 3], keepdims=0)
    return n.model(n.op("Gemm", x, n.constant(n.rng.standard_normal((160, 10)).astype(np.float32)), n.reals(10)))


def lanes(height: int = 64, width: int = 160) -> onnx.ModelProto:
    """Ultra fast lane detection: a backbone, and all rows' cells from one product."""
    n = Float(1, 3, height, width)
    x = n.op("MaxPool", n.conv("x", 16, 7, 2, act="relu"), kernel_shape=[2, 2], strides=[2, 2])
    for channels in (32, 64, 128):
        x = bottleneck(n, n.conv(x, channels, 3, 2, act="relu"), channels, act="relu")
    x = n.reshape(n.conv(x, 8), 1, 8 * height // 32 * width // 32)
    count = 8 * height // 32 * width // 32
    for inputs, outputs in ((count, 512), (512, 51 * 9 * 2)):
        weights = n.constant(n.rng.standard_normal((inputs, outputs)).astype(np.float32))
        x = n.op("Gemm", x, weights, n.reals(outputs))
        x = n.op("Relu", x) if outputs == 512 else x
    return n.model(n.reshape(x, 1, 51, 9, 2))


def faces(size: int = 64) -> onnx.ModelProto:
    """RetinaFace: depthwise convolutions, nearest neighbours in the pyramid, three heads, their rows joined."""
    n = Float(1, 3, size, size)
    x, levels = n.conv("x", 8, 3, 2, act="leaky"), []
    for channels in (16, 32, 64, 128):
        c = n.channels[x]
        x = n.conv(n.conv(x, c, 3, 2, groups=c, act="leaky"), channels, act="leaky")
        levels.append(n.conv(x, 32, act="leaky"))
    levels = levels[1:]
    for index in (1, 0):
        low = levels[index + 1]
        side = size // (8 << index)
        sizes = n.constant(np.array([1, 32, side, side]))
        more = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        levels[index] = n.conv(
            n.op("Add", levels[index], n.op("Resize", low, "", "", sizes, **more)), 32, 3, act="leaky"
        )
    outputs = []
    for count in (2, 4, 10):
        rows = []
        for index, x in enumerate(levels):
            side = size // (8 << index)
            y = n.op("Transpose", n.conv(x, 2 * count), perm=[0, 2, 3, 1])
            rows.append(n.reshape(y, 1, 2 * side * side, count))
        outputs.append(n.op("Concat", *rows, axis=1))
    outputs[0] = n.op("Softmax", outputs[0], axis=-1)
    return n.model(*outputs)


NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {
    "yolov5": lambda: detector(5),
    "yolov8": lambda: detector(8),
    "yolov8-seg": lambda: detector(8, task="segment"),
    "yolov8-pose": lambda: detector(8, task="pose"),
    "yolov10": lambda: detector(10),
    "yolo11": lambda: detector(11),
    "yolo11-seg": lambda: detector(11, task="segment"),
    "vit": vision_transformer,
    "nafnet": nafnet,
    "rfdn": rfdn,
    "unet": unet,
    "unet-half-pixel": lambda: unet(up="half_pixel"),
    "unet-align-corners": lambda: unet(up="align_corners"),
    "unet-asymmetric": lambda: unet(up="asymmetric"),
    "densenet": densenet,
    "efficientnet": efficientnet,
    "efficientnet-mean": lambda: efficientnet(mean="ReduceMean"),
    "mobilenetv3": lambda: efficientnet(act="hswish"),
    "mish": lambda: efficientnet(act="mish"),
    "ufld": lanes,
    "retinaface": faces,
}


# ---- QDQ ----


def in_qdq_form(model: onnx.ModelProto, signed: bool = False) -> onnx.ModelProto:
    """Return a float model with quantizers round every operator, as tools that calibrate write them.

    Scales are made up, but for functions of fixed range and operators that only move; weights are int8 with a scale per
    output channel, biases int32 on the scales of their products. What a Relu or Clip follows is quantized behind it.
    """
    graph = model.graph
    rng = np.random.default_rng(1)
    low = -128 if signed else 0
    storage = np.int8 if signed else np.uint8
    constants = {init.name: numpy_helper.to_array(init) for init in graph.initializer}
    for node in graph.node:
        if node.op_type == "ConstantOfShape":
            shape = constants[node.input[0]]
            constants[node.output[0]] = rng.standard_normal(tuple(shape)).astype(np.float32) ** 2 + np.float32(0.1)
        if node.op_type == "Constant":
            constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
    nodes = [node for node in graph.node if node.op_type not in ("ConstantOfShape", "Constant")]
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in nodes:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    made: list[onnx.NodeProto] = []
    kept: dict[str, Array] = {}
    meaning: dict[str, tuple[np.float32, int]] = {}
    given = {output.name for output in graph.output}

    def put(name: str, value: Array) -> str:
        kept[name] = value
        return name

    def quantize(name: str, scale: Any, zero: int) -> None:
        own = [put(f"{name}:s", np.float32(scale)), put(f"{name}:z", storage(zero))]
        made.append(helper.make_node("QuantizeLinear", [name, *own], [f"{name}:q"], name=f"{name}:Q"))
        made.append(helper.make_node("DequantizeLinear", [f"{name}:q", *own], [f"{name}:dq"], name=f"{name}:DQ"))
        meaning[name] = (np.float32(scale), zero)

    def integers(name: str, value: Array, axis: int | None) -> str:
        other = tuple(i for i in range(value.ndim) if i != axis)
        scale = np.maximum(np.abs(value).max(other if axis is not None else None), 1e-6) / 127
        shaped = scale.reshape([-1 if i == axis else 1 for i in range(value.ndim)]) if axis is not None else scale
        own = np.clip(np.rint(value / shaped), -127, 127).astype(np.int8)
        names = [
            put(f"{name}:q", own),
            put(f"{name}:s", np.asarray(scale, np.float32)),
            put(f"{name}:z", np.zeros(np.shape(scale), np.int8)),
        ]
        more = {"axis": axis} if axis is not None else {}
        made.append(helper.make_node("DequantizeLinear", names, [f"{name}:dq"], name=f"{name}:DQ", **more))
        return f"{name}:dq"

    def limited(name: str) -> bool:
        own = readers.get(name, [])
        return len(own) == 1 and own[0].op_type in ("Relu", "Clip") and name not in given

    for entry in graph.input:
        quantize(entry.name, 0.02, low + 128)
    known: dict[str, str] = {}
    for node in nodes:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        products = node.op_type in ("Conv", "ConvTranspose", "Gemm")
        whole = not node.name.startswith(("inner", "last"))
        for index, name in enumerate(node.input):
            if name in constants:
                value = constants[name]
                if products and index == 2:
                    weight = kept[f"{copy.input[1][:-3]}:s"]
                    step = np.asarray(meaning[node.input[0]][0] * weight, np.float32)
                    row = np.rint(value / step).astype(np.int32)
                    names = [put(f"{name}:q", row), put(f"{name}:s", step)]
                    names.append(put(f"{name}:z", np.zeros(step.shape, np.int32)))
                    made.append(helper.make_node("DequantizeLinear", names, [f"{name}:dq"], axis=0, name=f"{name}:DQ"))
                    copy.input[index] = f"{name}:dq"
                elif value.dtype == np.float32 and (
                    products or (whole and node.op_type in ("MatMul", "Add", "Mul", "Div"))
                ):
                    axis = None
                    if node.op_type == "Conv":
                        axis = 0
                    elif node.op_type == "ConvTranspose" and index == 1:
                        axis = 1
                    if name not in known:
                        known[name] = integers(name, value, axis)
                    copy.input[index] = known[name]
                else:
                    put(name, value)
            elif name in meaning:
                copy.input[index] = f"{name}:dq"
        made.append(copy)
        for output in node.output:
            if limited(output) or node.name.startswith("inner"):
                continue
            source = node.input[0]
            if source in meaning and node.op_type in (*SAME, "Resize"):
                quantize(output, *meaning[source])
            elif node.op_type in FIXED:
                quantize(output, FIXED[node.op_type], low)
            else:
                quantize(output, rng.uniform(0.02, 0.06), low if node.op_type == "Relu" else low + 120)
    results = []
    for output in graph.output:
        entry = onnx.ValueInfoProto()
        entry.CopyFrom(output)
        entry.name = f"{output.name}:dq"
        results.append(entry)
    initializers = [numpy_helper.from_array(value, name) for name, value in kept.items()]
    quantized = helper.make_graph(made, "net", list(graph.input), results, initializers)
    return helper.make_model(quantized, opset_imports=list(model.opset_import), ir_version=8)


def measured(file: Path, target: str, folder: Path) -> Any:
    """Return what a compilation says of where operators run."""
    return triune.compile(file, target=target, output=folder, format=FORMATS[target]).report


def main() -> None:
    """Print each network's share of multiply-accumulates on each target, and why the rest stayed."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--folder", type=Path, action="append", default=[], help="float topologies to look at as well")
    parser.add_argument("--targets", default=",".join(FORMATS))
    parser.add_argument("--why", action="store_true", help="list the reasons for what stays")
    arguments = parser.parse_args()
    models: dict[str, Callable[[], onnx.ModelProto]] = dict(NETWORKS)
    for folder in arguments.folder:
        models |= {file.stem: (lambda file=file: onnx.load(file)) for file in sorted(folder.glob("*.onnx"))}
    for name, make in models.items():
        if arguments.names and name not in arguments.names:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            file = Path(scratch) / "net.onnx"
            onnx.save(in_qdq_form(make()), file)
            line, why = [f"{name:32}"], []
            for target in arguments.targets.split(","):
                try:
                    report = measured(file, target, Path(scratch) / target)
                    line.append(f"{target} {100 * report.share:6.2f} % ({report.segments})")
                    why += [f"    {target}: {each.op} '{each.node}': {each.reason}" for each in report.stayed]
                except Exception as error:
                    line.append(f"{target} {type(error).__name__}: {str(error)[:160]}")
            print("  ".join(line), flush=True)
            if arguments.why:
                print("\n".join(why), flush=True)


if __name__ == "__main__":
    sys.exit(main())
