"""Small float networks of the families that users bring, as ONNX files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class Builder:
    """Nodes and constants of a graph, one behind the other."""

    def __init__(self, seed: int, opset: int = 17) -> None:
        self.rng = np.random.default_rng(seed)
        self.opset = opset
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []

    def input(self, name: str, shape: Sequence[int]) -> str:
        from onnx import TensorProto, helper

        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape)))
        return name

    def constant(self, values: Any, dtype: Any = np.float32) -> str:
        from onnx import numpy_helper

        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def random(self, *shape: int, scale: float | None = None) -> str:
        fan = int(np.prod(shape[1:])) if len(shape) > 1 else 1
        return self.constant(self.rng.normal(0, scale if scale is not None else fan**-0.5, shape))

    def node(self, kind: str, inputs: Sequence[str], results: int = 1, **attributes: Any) -> Any:
        from onnx import helper

        at = len(self.nodes)
        names = [f"{kind.lower()}{at}" + (f"_{index}" if results > 1 else "") for index in range(results)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=f"{kind}_{at}", **attributes))
        return names[0] if results == 1 else names

    def save(self, path: Path, *outputs: str) -> Path:
        import onnx
        from onnx import TensorProto, helper

        results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        graph = helper.make_graph(self.nodes, path.stem, self.inputs, results, self.constants)
        imports = [helper.make_opsetid("", self.opset)]
        model = helper.make_model(graph, opset_imports=imports, ir_version=8)
        onnx.save(onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True), path)
        return path

    # ---- layers ----

    def conv(
        self, x: str, inner: int, outer: int, kernel: int = 3, *, stride: int = 1, groups: int = 1, bias: bool = True
    ) -> str:
        operands = [x, self.random(outer, inner // groups, kernel, kernel)]
        if bias:
            operands.append(self.random(outer, scale=0.1))
        pads = [kernel // 2] * 4 if stride < kernel else [0] * 4
        return str(
            self.node("Conv", operands, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=pads, group=groups)
        )

    def norm(self, x: str, channels: int) -> str:
        r = self.rng
        rows = [
            r.uniform(0.5, 1.5, channels),
            r.normal(0, 0.1, channels),
            r.normal(0, 0.1, channels),
            r.uniform(0.5, 1.5, channels),
        ]
        return str(self.node("BatchNormalization", [x, *map(self.constant, rows)]))

    def linear(self, x: str, inner: int, outer: int, *, bias: bool = True) -> str:
        y = self.node("MatMul", [x, self.constant(self.rng.normal(0, inner**-0.5, (inner, outer)))])
        return str(self.node("Add", [self.random(outer, scale=0.1), y])) if bias else str(y)

    def scalar(self, value: float) -> str:
        return self.constant(value)

    def binary(self, kind: str, a: str, b: str | float) -> str:
        return str(self.node(kind, [a, b if isinstance(b, str) else self.scalar(b)]))

    def ints(self, *values: int) -> str:
        return self.constant(values, np.int64)

    def reshape(self, x: str, *shape: int) -> str:
        return str(self.node("Reshape", [x, self.ints(*shape)]))

    def transpose(self, x: str, *perm: int) -> str:
        return str(self.node("Transpose", [x], perm=list(perm)))

    def mean(self, x: str, axes: Sequence[int], keep: bool = True) -> str:
        return str(self.node("ReduceMean", [x], axes=list(axes), keepdims=int(keep)))

    def layer_norm(self, x: str, width: int, spelling: str = "torch") -> str:
        scale, shift = self.constant(self.rng.uniform(0.5, 1.5, width)), self.random(width, scale=0.1)
        if spelling == "fused":
            return str(self.node("LayerNormalization", [x, scale, shift], axis=-1, epsilon=1e-6))
        if spelling == "tensorflow":
            middle = self.mean(x, [-1])
            squared = self.node("Sub", [x, middle])
            spread = self.mean(self.node("Mul", [squared, squared]), [-1])
            root = self.node("Reciprocal", [self.node("Sqrt", [self.binary("Add", spread, 1e-6)])])
            factor = self.node("Mul", [root, scale])
            taken = self.node("Sub", [shift, self.node("Mul", [middle, factor])])
            return str(self.node("Add", [self.node("Mul", [x, factor]), taken]))
        centred = self.node("Sub", [x, self.mean(x, [-1])])
        spread = self.mean(self.binary("Pow", centred, 2.0), [-1])
        root = self.node("Sqrt", [self.binary("Add", spread, 1e-6)])
        return str(self.node("Add", [self.node("Mul", [self.node("Div", [centred, root]), scale]), shift]))

    def gelu(self, x: str, spelling: str = "torch") -> str:
        if spelling == "tanh":
            cubed = self.binary("Mul", self.binary("Pow", x, 3.0), 0.044715)
            inner = self.binary("Mul", self.node("Add", [x, cubed]), 0.7978845608)
            return str(
                self.node("Mul", [self.binary("Mul", x, 0.5), self.binary("Add", self.node("Tanh", [inner]), 1.0)])
            )
        if spelling == "tensorflow":
            erf = self.binary("Add", self.node("Erf", [self.binary("Mul", x, 0.70710678)]), 1.0)
            return str(self.node("Mul", [self.binary("Mul", x, 0.5), erf]))
        erf = self.binary("Add", self.node("Erf", [self.binary("Div", x, 1.4142135)]), 1.0)
        return self.binary("Mul", self.node("Mul", [x, erf]), 0.5)

    def silu(self, x: str) -> str:
        return str(self.node("Mul", [x, self.node("Sigmoid", [x])]))

    def attention(self, x: str, tokens: int, width: int, heads: int, *, batch: int = 1, bias: str | None = None) -> str:
        own = width // heads
        qkv = self.reshape(self.linear(x, width, 3 * width), batch, tokens, 3, heads, own)
        qkv = self.transpose(qkv, 2, 0, 3, 1, 4)
        q, k, v = (self.node("Gather", [qkv, self.constant(index, np.int64)], axis=0) for index in range(3))
        scores = self.node("MatMul", [self.binary("Mul", q, own**-0.5), self.transpose(k, 0, 1, 3, 2)])
        if bias is not None:
            scores = self.node("Add", [scores, bias])
        weights = self.node("Softmax", [scores], axis=-1)
        mixed = self.transpose(self.node("MatMul", [weights, v]), 0, 2, 1, 3)
        return self.linear(self.reshape(mixed, batch, tokens, width), width, width)

    def block(self, x: str, tokens: int, width: int, heads: int, *, norm: str = "torch", gelu: str = "torch") -> str:
        x = self.node("Add", [x, self.attention(self.layer_norm(x, width, norm), tokens, width, heads)])
        inner = self.gelu(self.linear(self.layer_norm(x, width, norm), width, 2 * width), gelu)
        return str(self.node("Add", [x, self.linear(inner, 2 * width, width)]))


def vit(path: Path, *, norm: str = "torch", gelu: str = "torch", opset: int = 17) -> Path:
    """Write a vision transformer: patches, a class token, positions, two blocks, a head."""
    b = Builder(1, opset)
    width, side = 32, 4
    x = b.input("x", (1, 3, 16, 16))
    patches = b.conv(x, 3, width, 4, stride=4)
    if norm == "tensorflow":
        # Channels last, as tf2onnx has them.
        patches = b.reshape(b.transpose(patches, 0, 2, 3, 1), 1, side * side, width)
    else:
        patches = b.transpose(b.reshape(patches, 1, width, side * side), 0, 2, 1)
    tokens = side * side
    patches = b.node("Concat", [b.random(1, 1, width, scale=0.5), patches], axis=1)
    tokens += 1
    x = b.node("Add", [patches, b.random(1, tokens, width, scale=0.2)])
    for _ in range(2):
        x = b.block(x, tokens, width, 4, norm=norm, gelu=gelu)
    x = b.layer_norm(x, width, norm)
    first = b.node("Gather", [x, b.constant(0, np.int64)], axis=1)
    y = b.node("Gemm", [first, b.random(10, width), b.random(10, scale=0.1)], transB=1)
    return b.save(path, y)


def unet(path: Path) -> Path:
    """Write an encoder and a decoder with transposed convolutions of kernel 3, stride 2."""
    b = Builder(2)
    x = b.input("x", (1, 3, 32, 32))

    def twice(x: str, inner: int, outer: int) -> str:
        x = b.node("Relu", [b.norm(b.conv(x, inner, outer, bias=False), outer)])
        return str(b.node("Relu", [b.norm(b.conv(x, outer, outer, bias=False), outer)]))

    first = twice(x, 3, 16)
    second = twice(b.node("MaxPool", [first], kernel_shape=[2, 2], strides=[2, 2]), 16, 24)
    low = twice(b.node("MaxPool", [second], kernel_shape=[2, 2], strides=[2, 2]), 24, 32)

    def up(x: str, inner: int, outer: int) -> str:
        operands = [
            x,
            b.constant(b.rng.normal(0, (inner * 9 / 4) ** -0.5, (inner, outer, 3, 3))),
            b.random(outer, scale=0.1),
        ]
        return str(
            b.node("ConvTranspose", operands, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4, output_padding=[1, 1])
        )

    x = twice(b.node("Concat", [up(low, 32, 24), second], axis=1), 48, 24)
    x = twice(b.node("Concat", [up(x, 24, 16), first], axis=1), 32, 16)
    return b.save(path, b.conv(x, 16, 4, 1))


def swin(path: Path) -> Path:
    """Write windows of attention, with shifted windows and a table of positions."""
    b = Builder(3)
    width, side, window, heads = 32, 8, 4, 2
    x = b.input("x", (1, 3, 32, 32))
    x = b.transpose(b.reshape(b.conv(x, 3, width, 4, stride=4), 1, width, side * side), 0, 2, 1)
    x = b.layer_norm(x, width)
    count = (side // window) ** 2
    for shift in (0, window // 2):
        own = b.reshape(b.layer_norm(x, width), 1, side, side, width)
        if shift:
            for axis in (1, 2):
                front = b.node("Slice", [own, b.ints(shift), b.ints(2**31), b.ints(axis)])
                back = b.node("Slice", [own, b.ints(0), b.ints(shift), b.ints(axis)])
                own = b.node("Concat", [front, back], axis=axis)
        own = b.reshape(own, 1, side // window, window, side // window, window, width)
        own = b.reshape(b.transpose(own, 0, 1, 3, 2, 4, 5), count, window * window, width)
        bias = b.random(1, heads, window * window, window * window, scale=0.2)
        own = b.attention(own, window * window, width, heads, batch=count, bias=bias)
        own = b.reshape(own, 1, side // window, side // window, window, window, width)
        own = b.reshape(b.transpose(own, 0, 1, 3, 2, 4, 5), 1, side, side, width)
        if shift:
            for axis in (1, 2):
                front = b.node("Slice", [own, b.ints(-shift), b.ints(2**31), b.ints(axis)])
                back = b.node("Slice", [own, b.ints(0), b.ints(-shift), b.ints(axis)])
                own = b.node("Concat", [front, back], axis=axis)
        x = b.node("Add", [x, b.reshape(own, 1, side * side, width)])
        inner = b.gelu(b.linear(b.layer_norm(x, width), width, 2 * width))
        x = b.node("Add", [x, b.linear(inner, 2 * width, width)])
    # Patches are merged: four neighbours become one.
    x = b.reshape(x, 1, side, side, width)
    parts = []
    for row, column in ((0, 0), (1, 0), (0, 1), (1, 1)):
        part = b.node("Slice", [x, b.ints(row), b.ints(2**31), b.ints(1), b.ints(2)])
        parts.append(b.node("Slice", [part, b.ints(column), b.ints(2**31), b.ints(2), b.ints(2)]))
    x = b.reshape(b.node("Concat", parts, axis=-1), 1, side * side // 4, 4 * width)
    x = b.linear(b.layer_norm(x, 4 * width), 4 * width, 2 * width, bias=False)
    pooled = b.mean(b.layer_norm(x, 2 * width), [1], keep=False)
    return b.save(path, b.node("Gemm", [pooled, b.random(10, 2 * width), b.random(10, scale=0.1)], transB=1))


def mobilevit(path: Path) -> Path:
    """Write convolutions round a transformer over unfolded patches."""
    b = Builder(4)
    x = b.input("x", (1, 3, 32, 32))
    x = b.silu(b.norm(b.conv(x, 3, 16, stride=2, bias=False), 16))
    skip = x
    x = b.silu(b.norm(b.conv(x, 16, 16, bias=False), 16))
    x = b.conv(x, 16, 32, 1, bias=False)
    side, width = 16, 32
    half = side // 2
    x = b.reshape(x, width * half, 2, half, 2)
    x = b.reshape(b.transpose(x, 0, 2, 1, 3), 1, width, half * half, 4)
    x = b.reshape(b.transpose(x, 0, 3, 2, 1), 4, half * half, width)
    own = b.layer_norm(x, width)
    x = b.node("Add", [x, b.attention(own, half * half, width, 2, batch=4)])
    inner = b.silu(b.linear(b.layer_norm(x, width), width, 2 * width))
    x = b.node("Add", [x, b.linear(inner, 2 * width, width)])
    x = b.layer_norm(x, width)
    x = b.transpose(b.reshape(x, 1, 4, half * half, width), 0, 3, 2, 1)
    x = b.transpose(b.reshape(x, width * half, half, 2, 2), 0, 2, 1, 3)
    x = b.reshape(x, 1, width, side, side)
    x = b.silu(b.norm(b.conv(x, width, 16, 1, bias=False), 16))
    x = b.silu(b.norm(b.conv(b.node("Concat", [skip, x], axis=1), 32, 16, bias=False), 16))
    pooled = b.node("Flatten", [b.node("GlobalAveragePool", [x])])
    return b.save(path, b.node("Gemm", [pooled, b.random(10, 16), b.random(10, scale=0.1)], transB=1))


def convnext(path: Path) -> Path:
    """Write depthwise convolutions, normalizations over channels last, and factors per channel."""
    b = Builder(5)
    width = 24
    x = b.input("x", (1, 3, 32, 32))
    x = b.conv(x, 3, width, 4, stride=4)
    x = b.transpose(b.layer_norm(b.transpose(x, 0, 2, 3, 1), width), 0, 3, 1, 2)
    for _ in range(2):
        own = b.transpose(b.conv(x, width, width, 7, groups=width), 0, 2, 3, 1)
        own = b.gelu(b.linear(b.layer_norm(own, width), width, 2 * width))
        own = b.linear(own, 2 * width, width)
        own = b.node("Mul", [b.constant(b.rng.uniform(0.2, 1, width)), own])
        x = b.node("Add", [x, b.transpose(own, 0, 3, 1, 2)])
    # Downsampling with a normalization by hand over axis 1.
    middle = b.mean(x, [1])
    centred = b.node("Sub", [x, middle])
    root = b.node("Sqrt", [b.binary("Add", b.mean(b.binary("Pow", centred, 2.0), [1]), 1e-6)])
    scale, shift = b.constant(b.rng.uniform(0.5, 1.5, (width, 1, 1))), b.random(width, 1, 1, scale=0.1)
    x = b.node("Add", [b.node("Mul", [scale, b.node("Div", [centred, root])]), shift])
    x = b.conv(x, width, 2 * width, 2, stride=2)
    pooled = b.mean(x, [-2, -1], keep=False)
    pooled = b.layer_norm(pooled, 2 * width)
    return b.save(path, b.node("Gemm", [pooled, b.random(10, 2 * width), b.random(10, scale=0.1)], transB=1))


def segformer(path: Path) -> Path:
    """Write overlapping patches, attention with fewer keys, a depthwise convolution in the middle of an MLP, upsampling."""
    b = Builder(6)
    width, side = 32, 8
    x = b.input("x", (1, 3, 32, 32))
    x = b.conv(x, 3, width, 7, stride=4)
    x = b.layer_norm(b.transpose(b.reshape(x, 1, width, side * side), 0, 2, 1), width)

    def image(x: str, channels: int) -> str:
        return b.reshape(b.transpose(x, 0, 2, 1), 1, channels, side, side)

    own = b.layer_norm(x, width)
    heads, head = 2, width // 2
    q = b.transpose(b.reshape(b.linear(own, width, width), 1, side * side, heads, head), 0, 2, 1, 3)
    less = b.conv(image(own, width), width, width, 2, stride=2)
    less = b.layer_norm(b.transpose(b.reshape(less, 1, width, side * side // 4), 0, 2, 1), width)
    k = b.transpose(b.reshape(b.linear(less, width, width), 1, side * side // 4, heads, head), 0, 2, 3, 1)
    v = b.transpose(b.reshape(b.linear(less, width, width), 1, side * side // 4, heads, head), 0, 2, 1, 3)
    scores = b.binary("Div", b.node("MatMul", [q, k]), head**0.5)
    mixed = b.transpose(b.node("MatMul", [b.node("Softmax", [scores], axis=-1), v]), 0, 2, 1, 3)
    x = b.node("Add", [x, b.linear(b.reshape(mixed, 1, side * side, width), width, width)])
    own = b.linear(b.layer_norm(x, width), width, 2 * width)
    own = b.conv(image(own, 2 * width), 2 * width, 2 * width, groups=2 * width)
    own = b.gelu(b.transpose(b.reshape(own, 1, 2 * width, side * side), 0, 2, 1))
    x = image(b.layer_norm(b.node("Add", [x, b.linear(own, 2 * width, width)]), width), width)
    scales = b.constant([1, 1, 2, 2])
    x = b.node("Resize", [x, "", scales], mode="linear", coordinate_transformation_mode="half_pixel")
    x = b.node("Relu", [b.norm(b.conv(x, width, 16, 1, bias=False), 16)])
    return b.save(path, b.conv(x, 16, 5, 1))


def fsrcnn(path: Path) -> Path:
    """Write super resolution whose last layer is a transposed convolution of kernel 9, stride 3."""
    b = Builder(7)
    x = b.input("x", (1, 1, 12, 14))

    def prelu(x: str, channels: int) -> str:
        return str(b.node("PRelu", [x, b.constant(b.rng.uniform(0.1, 0.3, (channels, 1, 1)))]))

    x = prelu(b.conv(x, 1, 24, 5), 24)
    x = prelu(b.conv(x, 24, 12, 1), 12)
    x = prelu(b.conv(x, 12, 12), 12)
    x = prelu(b.conv(x, 12, 24, 1), 24)
    operands = [x, b.constant(b.rng.normal(0, 0.1, (24, 1, 9, 9))), b.constant([0.1])]
    y = b.node("ConvTranspose", operands, kernel_shape=[9, 9], strides=[3, 3], pads=[4] * 4, output_padding=[2, 2])
    return b.save(path, y)


def efficientnet(path: Path) -> Path:
    """Write inverted residuals with squeeze and excitation, and SiLU."""
    b = Builder(8)
    x = b.input("x", (1, 3, 32, 32))
    x = b.silu(b.norm(b.conv(x, 3, 16, stride=2, bias=False), 16))
    for _ in range(2):
        own = b.silu(b.norm(b.conv(x, 16, 48, 1, bias=False), 48))
        own = b.silu(b.norm(b.conv(own, 48, 48, groups=48, bias=False), 48))
        squeezed = b.mean(own, [2, 3])
        squeezed = b.silu(b.conv(squeezed, 48, 8, 1))
        gate = b.node("Sigmoid", [b.conv(squeezed, 8, 48, 1)])
        own = b.norm(b.conv(b.node("Mul", [own, gate]), 48, 16, 1, bias=False), 16)
        x = b.node("Add", [x, own])
    pooled = b.node("Flatten", [b.node("GlobalAveragePool", [x])])
    return b.save(path, b.node("Gemm", [pooled, b.random(10, 16), b.random(10, scale=0.1)], transB=1))


def detr(path: Path) -> Path:
    """Write a detector's head: queries that attend to an image's features."""
    b = Builder(9)
    width, side, count = 32, 4, 6
    x = b.input("x", (1, 3, 16, 16))
    x = b.node("Relu", [b.norm(b.conv(x, 3, 16, stride=2, bias=False), 16)])
    x = b.conv(b.node("Relu", [b.norm(b.conv(x, 16, 24, stride=2, bias=False), 24)]), 24, width, 1)
    x = b.transpose(b.reshape(x, 1, width, side * side), 0, 2, 1)
    placed = b.node("Add", [x, b.random(1, side * side, width, scale=0.2)])
    x = b.layer_norm(b.node("Add", [x, b.attention(placed, side * side, width, 2)]), width)
    queries = b.random(1, count, width, scale=0.5)
    heads, own = 2, width // 2
    q = b.transpose(b.reshape(b.linear(queries, width, width), 1, count, heads, own), 0, 2, 1, 3)
    k = b.transpose(b.reshape(b.linear(x, width, width), 1, side * side, heads, own), 0, 2, 3, 1)
    v = b.transpose(b.reshape(b.linear(x, width, width), 1, side * side, heads, own), 0, 2, 1, 3)
    scores = b.binary("Mul", b.node("MatMul", [q, k]), own**-0.5)
    mixed = b.transpose(b.node("MatMul", [b.node("Softmax", [scores], axis=-1), v]), 0, 2, 1, 3)
    y = b.layer_norm(b.node("Add", [queries, b.linear(b.reshape(mixed, 1, count, width), width, width)]), width)
    inner = b.node("Relu", [b.linear(y, width, 2 * width)])
    y = b.layer_norm(b.node("Add", [y, b.linear(inner, 2 * width, width)]), width)
    classes = b.linear(y, width, 5)
    boxes = b.node("Relu", [b.linear(y, width, width)])
    boxes = b.node("Sigmoid", [b.linear(boxes, width, 4)])
    return b.save(path, classes, boxes)


def speech(path: Path) -> Path:
    """Write commands out of features: convolutions over one axis."""
    b = Builder(10)
    x = b.input("x", (1, 40, 64))

    def conv(x: str, inner: int, outer: int, kernel: int, *, stride: int = 1, groups: int = 1) -> str:
        operands = [x, b.random(outer, inner // groups, kernel), b.random(outer, scale=0.1)]
        pads = [kernel // 2] * 2
        return str(b.node("Conv", operands, kernel_shape=[kernel], strides=[stride], pads=pads, group=groups))

    x = b.node("Relu", [b.norm(conv(x, 40, 32, 5, stride=2), 32)])
    own = b.node("Relu", [conv(x, 32, 32, 9, groups=32)])
    x = b.node("Relu", [b.node("Add", [x, b.norm(conv(own, 32, 32, 1), 32)])])
    x = b.node("MaxPool", [x], kernel_shape=[2], strides=[2])
    x = b.node("Relu", [b.norm(conv(x, 32, 48, 3), 48)])
    pooled = b.node("Flatten", [b.node("GlobalAveragePool", [x])])
    return b.save(path, b.node("Gemm", [pooled, b.random(12, 48), b.random(12, scale=0.1)], transB=1))


def transposed(
    path: Path,
    kernel: Sequence[int] = (3, 3),
    stride: Sequence[int] = (2, 2),
    pads: Sequence[int] = (1, 1, 1, 1),
    more: Sequence[int] = (0, 0),
    groups: int = 1,
    dilation: Sequence[int] = (1, 1),
) -> Path:
    """Write a convolution, a transposed one, and a convolution."""
    b = Builder(11)
    axes = len(kernel)
    x = b.input("x", (1, 4, *(7, 6)[:axes]))
    weights = b.constant(b.rng.normal(0, 0.2, (8, 12 // groups, *kernel)))
    first = b.node("Conv", [x, b.random(8, 4, *[3] * axes)], pads=[1] * 2 * axes)
    x = b.node("Relu", [first])
    attributes: dict[str, Any] = {"output_padding": list(more)} if any(more) else {}
    x = b.node(
        "ConvTranspose",
        [x, weights, b.random(12, scale=0.1)],
        kernel_shape=list(kernel),
        strides=list(stride),
        pads=list(pads),
        group=groups,
        dilations=list(dilation),
        **attributes,
    )
    return b.save(path, b.node("Conv", [x, b.random(4, 12, *[1] * axes)]))


FAMILIES: dict[str, Callable[[Path], Path]] = {
    "unet": unet,
    "vit": vit,
    "swin": swin,
    "mobilevit": mobilevit,
    "convnext": convnext,
    "segformer": segformer,
    "fsrcnn": fsrcnn,
    "efficientnet": efficientnet,
    "detr": detr,
    "speech": speech,
}
