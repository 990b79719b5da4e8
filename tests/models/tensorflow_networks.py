"""Float networks as tf2onnx writes them: channels last at the border, transpositions around convolutions, normalizations and
functions spelled out on either side of these.

What of them devices compute: python tests/models/tensorflow_networks.py [NAME …]
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TO_CHANNELS, TO_LAST = [0, 3, 1, 2], [0, 2, 3, 1]


class Net:
    """A network under construction, of values that say where their channels are."""

    def __init__(self, *shape: int) -> None:
        """Begin with an image, channels last."""
        self.rng = np.random.default_rng(7)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.shape = shape
        self.channels = {"x": shape[-1]}

    def constant(self, value: Any) -> str:
        """Add an initializer."""
        self.constants.append(
            numpy_helper.from_array(np.asarray(value, order="C"), f"const_fold_opt__{len(self.constants)}")
        )
        return str(self.constants[-1].name)

    def op(self, kind: str, *inputs: str, channels: int | None = None, **attributes: Any) -> str:
        """Add an operator, whose result has the first operand's channels."""
        name = f"StatefulPartitionedCall/{kind}__{len(self.nodes)}:0"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name[:-2], **attributes))
        known = [self.channels[each] for each in inputs if each in self.channels]
        self.channels[name] = channels if channels is not None else known[0]
        return name

    def number(self, value: float) -> str:
        """Add a number."""
        return self.constant(np.float32(value))

    def reals(self, *shape: int, low: float = 0.5, high: float = 1.5) -> str:
        """Add factors or addends."""
        return self.constant(self.rng.uniform(low, high, shape).astype(np.float32))

    def front(self, x: str) -> str:
        """Add a transposition to channels in front."""
        return self.op("Transpose", x, perm=TO_CHANNELS)

    def last(self, x: str) -> str:
        """Add a transposition to channels last."""
        return self.op("Transpose", x, perm=TO_LAST)

    def conv(self, x: str, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> str:
        """Add a convolution, channels in front."""
        depth = self.channels[x] // groups
        w = self.rng.standard_normal((outputs, depth, kernel, kernel)) * (1.4 / np.sqrt(depth * kernel**2))
        given = [self.constant(w.astype(np.float32)), self.reals(outputs, low=-0.2, high=0.2)]
        pads = [kernel // 2 if stride == 1 else (kernel - stride + 1) // 2] * 4
        return self.op("Conv", x, *given, channels=outputs, group=groups, strides=[stride] * 2, pads=pads)

    def dense(self, x: str, outputs: int) -> str:
        """Add a product over the last axis, and a bias."""
        w = self.rng.standard_normal((self.channels[x], outputs)) / np.sqrt(self.channels[x])
        y = self.op("MatMul", x, self.constant(w.astype(np.float32)), channels=outputs)
        return self.op("Add", y, self.reals(outputs, low=-0.2, high=0.2))

    def row(self, channels: int, axis: int, low: float = 0.5) -> str:
        """Add an element per channel, along an axis of four or, behind all, the last."""
        return self.reals(*([channels] if axis in (-1, 3) else [1, channels, 1, 1]), low=low)

    def normalized(
        self, x: str, axis: int = -1, mean_of: str | None = None, back: Callable[[str], str] | None = None
    ) -> str:
        """Add a normalization along an axis as `tf.nn.batch_normalization` of `tf.nn.moments` is: x·f + (shift − mean·f).

        With `mean_of`, the same image in the other order, moments are made of that and brought `back`.
        """
        of = x if mean_of is None else mean_of
        along = axis if mean_of is None else {1: -1, -1: 1}[axis]
        mean = self.op("ReduceMean", of, axes=[along], keepdims=1)
        difference = self.op("Sub", of, mean)
        square = self.op("Mul", difference, difference)
        variance = self.op("ReduceMean", square, axes=[along], keepdims=1)
        inverse = self.op("Reciprocal", self.op("Sqrt", self.op("Add", variance, self.number(1e-3))))
        if back is not None:
            mean, inverse = back(mean), back(inverse)
        channels = self.channels[x]
        factor = self.op("Mul", inverse, self.row(channels, axis))
        shift = self.op("Sub", self.row(channels, axis, -0.5), self.op("Mul", mean, factor))
        return self.op("Add", self.op("Mul", x, factor), shift)

    def gelu(self, x: str, square: bool = False) -> str:
        """Add x·Φ(x): ½·x·(1 + erf(x/√2)), or by a tanh."""
        if square:
            cube = self.op("Mul", self.op("Mul", self.op("Mul", x, x), x), self.number(0.044715))
            inner = self.op("Tanh", self.op("Mul", self.op("Add", x, cube), self.number(np.sqrt(2 / np.pi))))
        else:
            inner = self.op("Erf", self.op("Mul", x, self.number(np.sqrt(0.5))))
        return self.op("Mul", self.op("Mul", x, self.number(0.5)), self.op("Add", inner, self.number(1)))

    def hard_sigmoid(self, x: str) -> str:
        """Add relu6(x + 3)/6."""
        y = self.op("Clip", self.op("Add", x, self.number(3)), self.number(0), self.number(6))
        return self.op("Mul", y, self.number(1 / 6))

    def hard_swish(self, x: str) -> str:
        """Add x·relu6(x + 3)/6."""
        return self.op("Mul", x, self.hard_sigmoid(x))

    def swish(self, x: str) -> str:
        """Add x·sigmoid(x)."""
        return self.op("Mul", x, self.op("Sigmoid", x))

    def mish(self, x: str) -> str:
        """Add x·tanh(softplus(x))."""
        return self.op("Mul", x, self.op("Tanh", self.op("Softplus", x)))

    def reshape(self, x: str, *shape: int) -> str:
        """Add other extents."""
        return self.op("Reshape", x, self.constant(np.array(shape, np.int64)))

    def mean(self, x: str, *axes: int, keep: bool = True) -> str:
        """Add a mean over axes."""
        return self.op("ReduceMean", x, axes=list(axes), keepdims=int(keep))

    def classes(self, x: str, count: int = 10) -> onnx.ModelProto:
        """Return the model that ends in a product of rows and a softmax."""
        y = self.op("Softmax", self.dense(x, count), axis=-1)
        given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)]
        results = [helper.make_tensor_value_info(y, TensorProto.FLOAT, None)]
        graph = helper.make_graph(self.nodes, "tf2onnx", given, results, self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)
        return onnx.shape_inference.infer_shapes(model)


def convnext(where: str = "last", act: str = "gelu") -> onnx.ModelProto:
    """ConvNeXt of Keras: depthwise convolutions in front, everything else last, or what transpositions were moved past."""
    n = Net(1, 64, 64, 3)
    x = n.conv(n.front("x"), 32, 4, 4)
    width = 32
    for block in range(3):
        if block == 2:
            x = n.conv(x, 64, 2, 2)
            width = 64
        y = n.conv(x, width, 7, groups=width)
        if where == "last":
            y = n.normalized(n.last(y))
        elif where == "front":
            y = n.last(n.normalized(y, 1))
        elif where == "moments last":
            y = n.last(n.normalized(y, 1, mean_of=n.last(y), back=n.front))
        else:
            y = n.normalized(n.last(y), -1, mean_of=y, back=n.last)
        y = n.dense(y, 4 * width)
        y = {"gelu": n.gelu, "tanh": lambda x: n.gelu(x, True), "mish": n.mish, "hswish": n.hard_swish}[act](y)
        y = n.op("Mul", n.dense(y, width), n.reals(width))
        x = n.op("Add", x, n.front(y))
    y = n.mean(n.last(x), 1, 2, keep=False)
    return n.classes(n.normalized(y))


def mobilenet_v3(last: bool = False) -> onnx.ModelProto:
    """MobileNetV3 of Keras, its functions where tf2onnx leaves them: in front, or on what was transposed."""
    n = Net(1, 64, 64, 3)

    def act(x: str) -> str:
        return n.front(n.hard_swish(n.last(x))) if last else n.hard_swish(x)

    x = n.op("Sub", n.op("Mul", "x", n.number(1 / 127.5)), n.number(1))
    x = act(n.conv(n.front(x), 16, 3, 2))
    for hidden, channels, stride, gated in ((16, 16, 2, 1), (72, 24, 2, 0), (88, 24, 1, 0), (96, 40, 2, 1)):
        y = act(n.conv(x, hidden))
        y = act(n.conv(y, hidden, 3, stride, hidden))
        if gated:
            squeezed = n.front(n.mean(n.last(y), 1, 2)) if last else n.mean(y, 2, 3)
            gate = n.conv(n.op("Relu", n.conv(squeezed, max(8, hidden // 4))), hidden)
            gate = n.front(n.hard_sigmoid(n.last(gate))) if last else n.hard_sigmoid(gate)
            y = n.front(n.op("Mul", n.last(y), n.last(gate))) if last else n.op("Mul", y, gate)
        y = n.conv(y, channels)
        x = n.op("Add", x, y) if stride == 1 and n.channels[x] == channels else y
    x = act(n.conv(x, 96))
    x = n.mean(n.last(x), 1, 2) if last else n.last(n.mean(x, 2, 3))
    return n.classes(n.reshape(n.hard_swish(n.dense(x, 64)), 1, 64))


def efficientnet(last: bool = False) -> onnx.ModelProto:
    """EfficientNet of Keras: swishes and gates; the picture is scaled and shifted per channel inside."""
    n = Net(1, 64, 64, 3)

    def act(x: str) -> str:
        return n.front(n.swish(n.last(x))) if last else n.swish(x)

    x = n.op("Mul", n.op("Sub", n.op("Mul", "x", n.number(1 / 255)), n.reals(3)), n.reals(3))
    x = act(n.conv(n.front(x), 16, 3, 2))
    for hidden, channels, kernel, stride in ((16, 16, 3, 1), (96, 24, 3, 2), (144, 24, 3, 1), (144, 40, 5, 2)):
        y = act(n.conv(x, hidden)) if hidden != n.channels[x] else x
        y = act(n.conv(y, hidden, kernel, stride, hidden))
        squeezed = n.front(n.reshape(n.mean(n.last(y), 1, 2, keep=False), 1, 1, 1, hidden))
        gate = n.op("Sigmoid", n.conv(n.swish(n.conv(squeezed, max(4, hidden // 16))), hidden))
        y = n.front(n.op("Mul", n.last(y), n.last(gate))) if last else n.op("Mul", y, gate)
        y = n.conv(y, channels)
        x = n.op("Add", x, y) if stride == 1 and n.channels[x] == channels else y
    x = act(n.conv(x, 128))
    return n.classes(n.mean(n.last(x), 1, 2, keep=False))


def vit(norm: str = "last") -> onnx.ModelProto:
    """A vision transformer of Keras: patches by a convolution, transposed into tokens."""
    n = Net(1, 48, 48, 3)
    width, heads, tokens = 48, 3, 36
    depth = width // heads
    x = n.reshape(n.last(n.conv(n.front("x"), width, 8, 8)), 1, tokens, width)
    x = n.op("Add", x, n.reals(tokens, width, low=-0.5, high=0.5))

    def normal(x: str) -> str:
        if norm == "last":
            return n.normalized(x)
        if norm == "root":
            square = n.mean(n.op("Mul", x, x), -1)
            y = n.op("Mul", x, n.op("Reciprocal", n.op("Sqrt", n.op("Add", square, n.number(1e-6)))))
            return n.op("Mul", y, n.reals(width))
        difference = n.op("Sub", x, n.mean(x, -1))
        variance = n.mean(n.op("Mul", difference, difference), -1)
        y = n.op("Div", difference, n.op("Sqrt", n.op("Add", variance, n.number(1e-6))))
        return n.op("Add", n.op("Mul", y, n.reals(width)), n.reals(width))

    for _ in range(2):
        y = normal(x)

        def part(y: str, *perm: int) -> str:
            return n.op("Transpose", n.reshape(n.dense(y, width), 1, tokens, heads, depth), perm=list(perm))

        q = n.op("Mul", part(y, 0, 2, 1, 3), n.number(depth**-0.5))
        scores = n.op("MatMul", q, part(y, 0, 2, 3, 1))
        y = n.op("MatMul", n.op("Softmax", scores, axis=-1), part(y, 0, 2, 1, 3))
        y = n.reshape(n.op("Transpose", y, perm=[0, 2, 1, 3]), 1, tokens, width)
        n.channels[y] = width
        x = n.op("Add", x, n.dense(y, width))
        x = n.op("Add", x, n.dense(n.gelu(n.dense(normal(x), 2 * width)), width))
    return n.classes(n.mean(normal(x), 1, keep=False))


NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {
    "ConvNeXt": convnext,
    "ConvNeXt, normalized in front": lambda: convnext("front"),
    "ConvNeXt, moments last": lambda: convnext("moments last"),
    "ConvNeXt, moments in front": lambda: convnext("moments in front"),
    "ConvNeXt, Gelu by Tanh": lambda: convnext(act="tanh"),
    "ConvNeXt, Mish": lambda: convnext(act="mish"),
    "ConvNeXt, HardSwish": lambda: convnext("front", act="hswish"),
    "MobileNetV3": mobilenet_v3,
    "MobileNetV3, functions last": lambda: mobilenet_v3(True),
    "EfficientNet": efficientnet,
    "EfficientNet, functions last": lambda: efficientnet(True),
    "ViT": vit,
    "ViT, normalized by division": lambda: vit("division"),
    "ViT, by the mean square": lambda: vit("root"),
}


def samples(model: onnx.ModelProto, count: int) -> list[dict[str, np.ndarray[Any, Any]]]:
    """Return inputs of noise."""
    rng = np.random.default_rng(1)
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    return [{"x": rng.uniform(-1, 1, shape).astype(np.float32)} for _ in range(count)]


def main(names: Sequence[str], targets: Sequence[str]) -> None:
    """Print what devices compute."""
    import triune

    for name, make in NETWORKS.items():
        if names and name not in names:
            continue
        model = make()
        with tempfile.TemporaryDirectory() as folder:
            file, made = Path(folder) / "float.onnx", Path(folder) / "int8.onnx"
            onnx.save(model, file)
            result = triune.quantize(file, calibration=samples(model, 8), output=made)
            found = {
                target: triune.compile(made, target=target, output=Path(folder) / target).report for target in targets
            }
        level = min(check.sqnr or 0 for check in result.checks)
        shares = " ".join(f"{target} {report.share:.2%}" for target, report in found.items())
        stayed = {(each.op, each.reason) for report in found.values() for each in report.stayed}
        segments = {report.segments for report in found.values()}
        print(f"{name}: {shares}; {level:.1f} dB; segments {segments}")
        for op, reason in sorted(stayed):
            print(f"    {op}: {reason}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--targets", nargs="+", default=["metis", "buyi"])
    arguments = parser.parse_args()
    main(arguments.names, arguments.targets)
