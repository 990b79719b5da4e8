"""Networks in QDQ form as quantizers write them, made of the operators that devices compute: what has to deploy everywhere.

Every value is quantized once and dequantized for its readers, weights are signed with a scale per channel, biases have the
scales of the products. Channels are odd on purpose; values have several readers, and parts of values are joined again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Value:
    """A dequantized value, with what its integers mean."""

    name: str
    shape: tuple[int, ...]
    scale: float
    zero_point: int


@dataclass
class Net:
    """A network under construction."""

    seed: int
    signed: bool = False
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    inputs: list[onnx.ValueInfoProto] = field(default_factory=list)
    feeds: dict[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Begin the numbers."""
        self.rng = np.random.default_rng(self.seed)

    @property
    def dtype(self) -> type[np.signedinteger[Any] | np.unsignedinteger[Any]]:
        """What activations are."""
        return np.int8 if self.signed else np.uint8

    def constant(self, value: Any) -> str:
        """Add an initializer."""
        self.constants.append(numpy_helper.from_array(np.asarray(value, order="C"), f"c{len(self.constants)}"))
        return self.constants[-1].name

    def node(self, kind: str, inputs: list[str], results: int = 1, **attributes: Any) -> list[str]:
        """Add an operator over reals."""
        number = len(self.nodes)
        names = [f"v{number}" if index == 0 else f"v{number}_{index}" for index in range(results)]
        self.nodes.append(helper.make_node(kind, inputs, names, name=f"{kind}{number}", **attributes))
        return names

    def quantized(
        self, real: str, shape: tuple[int, ...], scale: float, zero_point: int | None = None, like: bool = False
    ) -> Value:
        """Quantize a real value, and dequantize it: on about this scale, or exactly on it."""
        low = -128 if self.signed else 0
        point = low + int(self.rng.integers(90, 166)) if zero_point is None else zero_point
        # Not a power of two of its operands': halves, where roundings part, have tests of their own.
        scale = float(np.float32(scale if like else scale * self.rng.uniform(0.9, 1.1)))
        names = [real, self.constant(np.float32(scale)), self.constant(self.dtype(point))]
        (q,) = self.node("QuantizeLinear", names)
        (x,) = self.node("DequantizeLinear", [q, *names[1:]])
        return Value(x, shape, scale, point)

    def again(self, real: str, shape: tuple[int, ...], like: Value) -> Value:
        """Quantize what only moved, as it was before."""
        return self.quantized(real, shape, like.scale, like.zero_point, like=True)

    def input(self, *shape: int) -> Value:
        """Add an input of reals."""
        name = f"x{len(self.inputs)}"
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        self.feeds[name] = self.rng.standard_normal(shape).astype(np.float32)
        return self.quantized(name, shape, 0.025)

    # ---- products ----

    def parameters(self, x: Value, weights: tuple[int, ...], bias: bool = True) -> tuple[list[str], float]:
        """Add weights (outputs first) and a bias; also return the size of the products' sums."""
        outputs, depth = weights[0], int(np.prod(weights[1:]))
        scales = np.asarray(self.rng.uniform(0.5, 1.5, outputs) * 0.01, np.float32)
        integers = self.rng.integers(-127, 128, weights).astype(np.int8)
        zeros = np.zeros(outputs, np.int8)
        given = [self.constant(integers), self.constant(scales), self.constant(zeros)]
        names = self.node("DequantizeLinear", given, axis=0)
        size = 0.7 * float(np.sqrt(depth)) * 70 * x.scale
        if bias:
            steps = np.asarray(scales * np.float32(x.scale), np.float32)
            real = self.rng.standard_normal(outputs) * size / 3
            row = np.asarray(np.rint(real / steps), np.int32)
            names += self.node(
                "DequantizeLinear",
                [self.constant(row), self.constant(steps), self.constant(np.zeros(outputs, np.int32))],
                axis=0,
            )
        return names, size

    def conv(
        self, x: Value, outputs: int, kernel: int = 3, stride: int = 1, groups: int = 1, limit: str | None = None
    ) -> Value:
        """Add a convolution along the axes behind the channels, with unequal paddings, and maybe a limit behind it."""
        rank = len(x.shape) - 2
        names, size = self.parameters(x, (outputs, x.shape[1] // groups, *[kernel] * rank))
        before = [int(self.rng.integers(0, kernel)) for _ in range(rank)]
        behind = [int(self.rng.integers(0, kernel)) for _ in range(rank)]
        extents = [n + a + b - kernel for n, a, b in zip(x.shape[2:], before, behind, strict=True)]
        if min(extents) < 0:
            before, behind, extents = [kernel - 1] * rank, [kernel - 1] * rank, [n + kernel - 2 for n in x.shape[2:]]
        shape = (1, outputs, *(n // stride + 1 for n in extents))
        (y,) = self.node(
            "Conv",
            [x.name, *names],
            kernel_shape=[kernel] * rank,
            strides=[stride] * rank,
            pads=before + behind,
            group=groups,
        )
        if limit == "Relu":
            (y,) = self.node("Relu", [y])
            return self.quantized(y, shape, size / 100, -128 if self.signed else 0)
        if limit == "Clip":
            (y,) = self.node("Clip", [y, self.constant(np.float32(0)), self.constant(np.float32(size))])
        return self.quantized(y, shape, size / 50)

    def gemm(self, x: Value, outputs: int, bias: bool = True) -> Value:
        """Add a product of (rows, columns) with constant weights."""
        names, size = self.parameters(x, (outputs, x.shape[1]), bias)
        (y,) = self.node("Gemm", [x.name, *names], transB=1)
        return self.quantized(y, (x.shape[0], outputs), size / 50)

    # ---- what works element by element ----

    def binary(self, kind: str, a: Value, b: Value) -> Value:
        """Add a sum, difference or product of two values of one shape."""
        (y,) = self.node(kind, [a.name, b.name])
        size = a.scale + b.scale if kind in ("Add", "Sub") else a.scale * b.scale * 80
        return self.quantized(y, a.shape, size * 0.8)

    def with_constant(self, kind: str, x: Value, *shape: int, first: bool = False) -> Value:
        """Add a sum, difference or product with quantized constants that broadcast, on its right or `first`."""
        integers = self.rng.integers(0, 255, shape).astype(np.uint8)
        given = [self.constant(np.uint8(integers)), self.constant(np.float32(0.0113)), self.constant(np.uint8(120))]
        (other,) = self.node("DequantizeLinear", given)
        (y,) = self.node(kind, [other, x.name] if first else [x.name, other])
        return self.quantized(y, x.shape, x.scale * (1.2 if kind == "Mul" else 1.5))

    def extreme(self, kind: str, *parts: Value) -> Value:
        """Add the largest or the smallest of values of one shape, each with a scale of its own."""
        (y,) = self.node(kind, [part.name for part in parts])
        return self.quantized(y, parts[0].shape, max(part.scale for part in parts))

    def extreme_of(self, x: Value, kind: str, count: int) -> Value:
        """Add the largest or the smallest of a value and of functions of it."""
        parts = [x, self.with_constant("Sub", x, first=True), self.unary("Tanh", x)]
        return self.extreme(kind, *parts[:count])

    def differences(self, x: Value) -> Value:
        """Add differences: from constants, of constants from it, of a value from itself moved, and a limited one."""
        y = self.with_constant("Sub", x, x.shape[1], 1, 1)
        z = self.with_constant("Sub", x, 1, 1, 1, 1, first=True)
        joint = self.binary("Sub", y, z)
        (rest,) = self.node(
            "Sub", [self.constant(self.rng.uniform(-1, 1, (x.shape[1], 1, 1)).astype(np.float32)), x.name]
        )
        rest = self.quantized(rest, x.shape, x.scale * 1.5)
        (limited,) = self.node("Relu", [self.node("Sub", [joint.name, rest.name])[0]])
        return self.quantized(limited, x.shape, x.scale * 2)

    def unary(self, kind: str, x: Value, **attributes: Any) -> Value:
        """Add a function of one value."""
        (y,) = self.node(kind, [x.name], **attributes)
        scale = 1 / 120 if kind in ("Sigmoid", "Tanh", "HardSigmoid") else x.scale
        return self.quantized(y, x.shape, scale)

    def swish(self, x: Value) -> Value:
        """Add x · sigmoid(x), as detectors have it."""
        return self.binary("Mul", x, self.unary("Sigmoid", x))

    # ---- what moves, pools and joins ----

    def split(self, x: Value, sizes: list[int]) -> list[Value]:
        """Add a split of channels."""
        names = self.node("Split", [x.name, self.constant(np.array(sizes))], results=len(sizes), axis=1)
        parts = zip(names, sizes, strict=True)
        return [self.again(name, (1, size, *x.shape[2:]), x) for name, size in parts]

    def slice(self, x: Value, axis: int, start: int, end: int) -> Value:
        """Add a part of a value."""
        names = [self.constant(np.array([value])) for value in (start, end, axis)]
        (y,) = self.node("Slice", [x.name, *names])
        return self.again(y, (*x.shape[:axis], end - start, *x.shape[axis + 1 :]), x)

    def concat(self, parts: list[Value], same: bool = False) -> Value:
        """Join values along the channels: on a scale of their own, or on the first one's."""
        (y,) = self.node("Concat", [part.name for part in parts], axis=1)
        shape = (1, sum(part.shape[1] for part in parts), *parts[0].shape[2:])
        return self.again(y, shape, parts[0]) if same else self.quantized(y, shape, max(p.scale for p in parts) * 1.1)

    def pool(self, kind: str, x: Value, kernel: int = 2, stride: int = 2) -> Value:
        """Add a pool of rows and columns."""
        pads = [int(self.rng.integers(0, kernel)) for _ in range(4)]
        extents = [n + pads[i] + pads[2 + i] - kernel for i, n in enumerate(x.shape[2:])]
        (y,) = self.node(kind, [x.name], kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=pads)
        shape = (*x.shape[:2], *(n // stride + 1 for n in extents))
        # On the operand's scale, means of two and four are halves.
        return self.again(y, shape, x) if kind == "MaxPool" else self.quantized(y, shape, x.scale * 0.8)

    def mean(self, x: Value) -> Value:
        """Add the mean of each channel."""
        (y,) = self.node("GlobalAveragePool", [x.name])
        return self.quantized(y, (*x.shape[:2], 1, 1), x.scale * 0.7)

    def flat(self, x: Value) -> Value:
        """Add a row of all elements."""
        (y,) = self.node("Flatten", [x.name], axis=1)
        return self.again(y, (1, int(np.prod(x.shape[1:]))), x)

    def upsampled(self, x: Value) -> Value:
        """Add the nearest neighbours, twice as many."""
        scales = self.constant(np.array([1, 1, 2, 2], np.float32))
        modes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        (y,) = self.node("Resize", [x.name, "", scales], **modes)
        return self.again(y, (*x.shape[:2], 2 * x.shape[2], 2 * x.shape[3]), x)

    def blended(self, x: Value, rows: float = 2, columns: float = 1.5, coordinates: str = "half_pixel") -> Value:
        """Add what lies between neighbours."""
        shape = (*x.shape[:2], int(x.shape[2] * rows), int(x.shape[3] * columns))
        scales = self.constant(np.array([1, 1, rows, columns], np.float32))
        modes = {"mode": "linear", "coordinate_transformation_mode": coordinates}
        (y,) = self.node("Resize", [x.name, "", scales], **modes)
        return self.quantized(y, shape, x.scale)

    def on_the_host(self, x: Value) -> Value:
        """Add the larger of a value and a constant, which devices do not compute."""
        # Along several axes the constant makes no function of one value.
        (y,) = self.node("Max", [x.name, self.constant(np.full(x.shape[1:], -0.2, np.float32))])
        return self.quantized(y, x.shape, x.scale)

    def matmul(self, a: Value, b: Value) -> Value:
        """Add a product of two values, matrices of batches that are the same or of the first alone."""
        (y,) = self.node("MatMul", [a.name, b.name])
        size = 40 * a.scale * b.scale * float(np.sqrt(a.shape[-1]))
        return self.quantized(y, (*a.shape[:-1], b.shape[-1]), size)

    def softmax(self, x: Value, axis: int = -1) -> Value:
        """Add a softmax."""
        (y,) = self.node("Softmax", [x.name], axis=axis)
        return self.quantized(y, x.shape, 1 / 250, -128 if self.signed else 0)

    def moved(self, x: Value, *perm: int) -> Value:
        """Add another order of axes."""
        (y,) = self.node("Transpose", [x.name], perm=list(perm))
        return self.again(y, tuple(x.shape[axis] for axis in perm), x)

    def reshaped(self, x: Value, *shape: int) -> Value:
        """Add other extents."""
        (y,) = self.node("Reshape", [x.name, self.constant(np.array(shape))])
        return self.again(y, shape, x)

    def taken_apart(self, x: Value, rng: np.random.Generator) -> Value:
        """Add a detector's way to take channels apart, into anchors and what each of them predicts, and to decode these: on five
        axes, of which the result keeps all, three, or one.
        """
        _, c, h, w = x.shape
        anchors = int(rng.choice([n for n in range(1, c + 1) if c % n == 0]))
        y = self.moved(self.reshaped(x, 1, anchors, c // anchors, h, w), 0, 1, 3, 4, 2)
        if rng.integers(2):
            y = self.unary("Sigmoid", y)
        # What a device has no part in.
        y = self.on_the_host(y) if rng.integers(3) == 0 else y
        shape = [(), (1, anchors * h * w, c // anchors), (c * h * w,)][int(rng.integers(3))]
        return self.reshaped(y, *shape) if shape else y

    def attended(self, x: Value, heads: int = 1) -> Value:
        """Add attention of an image's positions over each other, its channels being queries, keys and values, and a product."""
        _, c, h, w = x.shape
        depth = c // heads
        tokens = self.moved(self.reshaped(x, 1, heads, depth, h * w), 0, 1, 3, 2)
        keys = self.reshaped(x, 1, heads, depth, h * w)
        weights = self.softmax(self.matmul(tokens, keys))
        mixed = self.reshaped(self.moved(self.matmul(weights, tokens), 0, 1, 3, 2), 1, c, h, w)
        return self.conv(mixed, c, 1)

    def standardized(self, x: Value, spelled_out: bool = False, axis: int = -1) -> Value:
        """Add a normalization by the operand's own statistics, with factors and addends: of the last axis, or spelled out."""
        axis %= len(x.shape)
        shape = [n if at == axis else 1 for at, n in enumerate(x.shape)]
        rows = [self.constant(self.rng.uniform(low, 1.5, x.shape[axis]).astype(np.float32)) for low in (0.5, -1.5)]
        if not spelled_out and axis == len(x.shape) - 1:
            (y,) = self.node("LayerNormalization", [x.name, *rows], axis=-1, epsilon=1e-5)
            return self.quantized(y, x.shape, 0.03)
        rows = [self.node("Reshape", [row, self.constant(np.array(shape))])[0] for row in rows]
        (mean,) = self.node("ReduceMean", [x.name], axes=[axis], keepdims=1)
        (rest,) = self.node("Sub", [x.name, mean])
        (square,) = self.node("Pow", [rest, self.constant(np.float32(2))])
        (variance,) = self.node("ReduceMean", [square], axes=[axis], keepdims=1)
        (y,) = self.node("Sqrt", [self.node("Add", [variance, self.constant(np.float32(1e-5))])[0]])
        (y,) = self.node("Div", [rest, y])
        (y,) = self.node("Add", [self.node("Mul", [y, rows[0]])[0], rows[1]])
        return self.quantized(y, x.shape, 0.03)

    def by_root_mean_square(self, x: Value, axis: int = -1, how: str = "root") -> Value:
        """Add a normalization by the root of the mean square of an axis, with factors: spelled out by a root or its inverse."""
        axis %= len(x.shape)
        shape = [n if at == axis else 1 for at, n in enumerate(x.shape)]
        factors = self.constant(self.rng.uniform(0.5, 1.5, shape).astype(np.float32))
        (square,) = self.node("Mul", [x.name, x.name])
        (mean,) = self.node("ReduceMean", [square], axes=[axis], keepdims=1)
        (root,) = self.node("Sqrt", [self.node("Add", [mean, self.constant(np.float32(1e-5))])[0]])
        if how == "inverse":
            (y,) = self.node("Mul", [x.name, self.node("Reciprocal", [root])[0]])
        else:
            (y,) = self.node("Div", [x.name, root])
        (y,) = self.node("Mul", [factors, y])
        return self.quantized(y, x.shape, 0.03)

    def standardized_inside(self, x: Value, axis: int = 1, negated: bool = False) -> Value:
        """Add the same as x·f + (shift − mean·f), maybe by the negated mean, as TensorFlow writes it."""
        shape = [n if at == axis else 1 for at, n in enumerate(x.shape)]
        rows = (self.rng.uniform(low, 1.5, shape).astype(np.float32) for low in (0.5, -1.5))
        scale, shift = (self.constant(row) for row in rows)
        (mean,) = self.node("ReduceMean", [x.name], axes=[axis], keepdims=1)
        (rest,) = self.node("Sub", [x.name, mean])
        (square,) = self.node("Mul", [rest, rest])
        (variance,) = self.node("ReduceMean", [square], axes=[axis], keepdims=1)
        (root,) = self.node("Sqrt", [self.node("Add", [variance, self.constant(np.float32(1e-5))])[0]])
        (factor,) = self.node("Mul", [self.node("Reciprocal", [root])[0], scale])
        (product,) = self.node("Mul", [x.name, factor])
        if negated:
            (taken,) = self.node("Mul", [self.node("Neg", [mean])[0], factor])
            (moved,) = self.node("Add", [taken, shift])
        else:
            (moved,) = self.node("Sub", [shift, self.node("Mul", [mean, factor])[0]])
        return self.quantized(self.node("Add", [product, moved])[0], x.shape, 0.03)

    def normalized(self, x: Value, limit: bool = False) -> Value:
        """Add a normalization by known statistics, and maybe a Relu, behind what cannot take it in."""
        rows = [self.rng.uniform(low, 1.5, x.shape[1]).astype(np.float32) for low in (-1.5, -0.5, -0.5, 0.5)]
        (y,) = self.node("BatchNormalization", [x.name, *(self.constant(row) for row in rows)])
        if limit:
            (y,) = self.node("Relu", [y])
        return self.quantized(y, x.shape, x.scale * 1.3)

    def transposed(self, x: Value, outputs: int, kernel: int = 2, stride: int = 2, groups: int = 1) -> Value:
        """Add a transposed convolution, its weights with a scale per output channel."""
        scales = np.asarray(self.rng.uniform(0.5, 1.5, outputs // groups) * 0.01, np.float32)
        shape = (x.shape[1], outputs // groups, kernel, kernel)
        integers = self.rng.integers(-127, 128, shape).astype(np.int8)
        given = [self.constant(integers), self.constant(scales), self.constant(np.zeros(outputs // groups, np.int8))]
        (weights,) = self.node("DequantizeLinear", given, axis=1)
        pads = [int(self.rng.integers(0, kernel)) for _ in range(4)]
        extents = [(n - 1) * stride + kernel - pads[i] - pads[2 + i] for i, n in enumerate(x.shape[2:])]
        if min(extents) < 1:
            pads, extents = [0] * 4, [(n - 1) * stride + kernel for n in x.shape[2:]]
        window = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": pads, "group": groups}
        (y,) = self.node("ConvTranspose", [x.name, weights], **window)
        size = 0.7 * float(np.sqrt(x.shape[1] // groups * kernel)) * 70 * x.scale
        return self.quantized(y, (1, outputs, *extents), size / 50)

    def gelu(self, x: Value) -> Value:
        """Add x·Φ(x), spelled out over reals."""
        (y,) = self.node("Erf", self.node("Div", [x.name, self.constant(np.float32(np.sqrt(2)))]))
        (y,) = self.node("Mul", [x.name, self.node("Add", [y, self.constant(np.float32(1))])[0]])
        (y,) = self.node("Mul", [y, self.constant(np.float32(0.5))])
        return self.quantized(y, x.shape, x.scale)

    def mish(self, x: Value) -> Value:
        """Add x·tanh(softplus(x)) over reals."""
        (y,) = self.node("Mul", [x.name, self.node("Tanh", self.node("Softplus", [x.name]))[0]])
        return self.quantized(y, x.shape, x.scale)

    def shuffled(self, x: Value, factor: int = 2) -> Value:
        """Add a pixel shuffle, spelled out."""
        _, c, h, w = x.shape
        extents = [1, c // factor**2, factor, factor, h, w]
        (y,) = self.node("Reshape", [x.name, self.constant(np.array(extents))])
        (y,) = self.node("Transpose", [y], perm=[0, 1, 4, 2, 5, 3])
        shape = (1, c // factor**2, h * factor, w * factor)
        (y,) = self.node("Reshape", [y, self.constant(np.array(shape))])
        return self.again(y, shape, x)

    def model(self, *outputs: Value) -> bytes:
        """Return the model that gives these values."""
        results = [helper.make_tensor_value_info(value.name, TensorProto.FLOAT, value.shape) for value in outputs]
        graph = helper.make_graph(self.nodes, "net", self.inputs, results, self.constants)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return bytes(made.SerializeToString())


UNARY = ("Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid", "Relu", "Abs", "HardSwish")


def grown(seed: int, steps: int | None = None) -> tuple[bytes, dict[str, Array]]:
    """Return a random network and its inputs: images first, then maybe rows."""
    net = Net(seed, signed=bool(seed % 3 == 0))
    rng = net.rng
    size = [int(rng.integers(3, 12)) for _ in range(2)]
    values = [net.input(1, int(rng.integers(1, 9)), *size)]
    read: set[str] = set()

    def pick(test: Any = lambda _: True) -> Value | None:
        found = [value for value in values if len(value.shape) == 4 and test(value)]
        return found[int(rng.integers(len(found)))] if found else None

    def take(*taken: Value) -> None:
        read.update(value.name for value in taken)

    for _ in range(steps or int(rng.integers(2, 12))):
        x = pick()
        assert x is not None
        channels = int(rng.integers(1, 41))
        kind = int(rng.integers(20))
        made: list[Value] = []
        others = [v for v in values if v.shape == x.shape]
        other = others[int(rng.integers(len(others)))]
        beside = [v for v in values if v.shape[2:] == x.shape[2:] and len(v.shape) == 4]
        if kind in (0, 1):
            limit = (None, "Relu", "Clip")[int(rng.integers(3))]
            made = [net.conv(x, channels, int(rng.integers(1, 4)), int(rng.integers(1, 3)), limit=limit)]
        elif kind == 2:
            made = [net.conv(x, x.shape[1], 3, groups=x.shape[1])]
        elif kind in (3, 4) and x.shape[1] > 1:
            cut = sorted({int(rng.integers(1, x.shape[1])) for _ in range(int(rng.integers(1, 3)))})
            sizes = list(np.diff([0, *cut, x.shape[1]]))
            made = net.split(x, [int(size) for size in sizes])
        elif kind in (5, 6):
            parts = [x, *(beside[int(rng.integers(len(beside)))] for _ in range(int(rng.integers(1, 3))))]
            if sum(part.shape[1] for part in parts) <= 120:
                made, x = [net.concat(parts, same=bool(rng.integers(2)))], parts[0]
                take(*parts)
        elif kind == 7:
            made = [net.binary(("Add", "Mul", "Sub")[int(rng.integers(3))], x, other)]
            take(other)
        elif kind == 8:
            spread = ((), (x.shape[1], 1, 1), (1, 1, 1, 1))[int(rng.integers(3))]
            which, first = ("Add", "Mul", "Sub")[int(rng.integers(3))], bool(rng.integers(2))
            made = [net.with_constant(which, x, *spread, first=first)]
        elif kind == 9:
            made = [net.unary(UNARY[int(rng.integers(len(UNARY)))], x) if rng.integers(2) else net.swish(x)]
        elif kind == 10:
            pool = ("MaxPool", "AveragePool")[int(rng.integers(2))]
            if min(x.shape[2:]) > 1:
                made = [
                    net.pool(pool, x, int(rng.integers(2, 4)) if min(x.shape[2:]) > 2 else 2, int(rng.integers(1, 3)))
                ]
        elif kind == 11 and max(x.shape[2:]) < 20:
            made = [net.upsampled(x)]
        elif kind == 12:
            axis = int(rng.integers(1, 4))
            if x.shape[axis] > 1:
                start = int(rng.integers(0, x.shape[axis] - 1))
                made = [net.slice(x, axis, start, int(rng.integers(start + 1, x.shape[axis] + 1)))]
        elif kind == 13:
            if x.shape[1] % 4 == 0 and rng.integers(2):
                made = [net.shuffled(x)]
            elif rng.integers(2):
                made = [net.mean(x)]
            else:
                made = [net.gemm(net.flat(x), channels, bool(rng.integers(2)))]
        elif kind == 14 and x.shape[2] * x.shape[3] <= 150:
            made = [net.attended(x, 2 if x.shape[1] % 2 == 0 else 1)]
        elif kind == 15:
            form, along = int(rng.integers(6)), int(rng.integers(1, 4))
            if form < 2:
                made = [net.standardized(x, form == 1, along)]
            elif form < 4:
                made = [net.standardized_inside(x, along, form == 3)]
            else:
                made = [net.by_root_mean_square(x, along, "inverse" if form == 5 else "root")]
        elif kind == 16:
            made = [net.normalized(x, bool(rng.integers(2)))]
        elif kind == 17 and max(x.shape[2:]) < 20:
            made = [net.transposed(x, channels, int(rng.integers(1, 4)), int(rng.integers(1, 3)))]
        elif kind == 18 and max(x.shape[2:]) < 20:
            made = [
                net.blended(
                    x, 2, 1.5 if x.shape[3] % 2 == 0 else 2, ("half_pixel", "align_corners")[int(rng.integers(2))]
                )
            ]
        elif kind == 19:
            made = [net.mish(x) if rng.integers(2) else net.softmax(x, int(rng.integers(1, 4)))]
        if made:
            take(x)
            values += made
    # Something has to be a product, or there is nothing to deploy.
    last = pick()
    assert last is not None
    take(last)
    values.append(net.conv(last, int(rng.integers(1, 12)), 1))
    # Of a generator of its own, so that the networks before stay what they are.
    if seed % 4 == 1:
        apart = np.random.default_rng([seed, 5])
        take(values[-1])
        values.append(net.taken_apart(values[-1], apart))
    if seed % 4 == 3:
        apart = np.random.default_rng([seed, 7])
        take(values[-1])
        largest = net.extreme_of(values[-1], ("Max", "Min")[int(apart.integers(2))], int(apart.integers(2, 4)))
        values.append(net.conv(largest, int(apart.integers(1, 40)), 1))
    outputs = [value for value in values if value.name not in read]
    return net.model(*outputs), net.feeds
