"""Small detectors with what follows their heads inside, and other networks of more than four axes, in floats.

Built as exporters of YOLOv3, v5 and v7 write them: predictions are a convolution's channels taken apart into anchors and what
each of them predicts, an axis of its own each, so that tensors have five axes between the convolutions and the boxes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]
ANCHORS = np.asarray([[10, 13, 16, 30, 33, 23], [30, 61, 62, 45, 59, 119], [116, 90, 156, 198, 373, 326]], np.float32)


@dataclass
class Net:
    """A float network under construction; values are pairs of a name and a shape."""

    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)

    def constant(self, value: Any) -> str:
        """Add an initializer."""
        self.constants.append(numpy_helper.from_array(np.asarray(value, order="C"), f"c{len(self.constants)}"))
        return self.constants[-1].name

    def node(self, kind: str, *inputs: str, results: int = 1, **attributes: Any) -> Any:
        """Add an operator."""
        number = len(self.nodes)
        names = [f"t{number}" if index == 0 else f"t{number}_{index}" for index in range(results)]
        self.nodes.append(helper.make_node(kind, inputs, names, name=f"{kind}{number}", **attributes))
        return names[0] if results == 1 else names

    def conv(self, x: str, channels: int, outputs: int, kernel: int = 3, stride: int = 1, groups: int = 1) -> str:
        """Add a convolution without a limit."""
        depth = channels // groups * kernel * kernel
        weights = self.rng.standard_normal((outputs, channels // groups, kernel, kernel)) / np.sqrt(depth)
        bias = self.rng.standard_normal(outputs) / 4
        parameters = [self.constant(np.asarray(each, np.float32)) for each in (weights, bias)]
        return self.node(
            "Conv",
            x,
            *parameters,
            kernel_shape=[kernel] * 2,
            pads=[kernel // 2] * 4,
            strides=[stride] * 2,
            group=groups,
        )

    def silu(self, x: str) -> str:
        """Add x·sigmoid(x)."""
        return self.node("Mul", x, self.node("Sigmoid", x))

    def reshape(self, x: str, *shape: int) -> str:
        """Add a reshape."""
        return self.node("Reshape", x, self.constant(np.asarray(shape, np.int64)))

    def model(self, size: tuple[int, ...], *outputs: str, opset: int = 13) -> onnx.ModelProto:
        """Close the network, whose input is `x` of this size."""
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, size)
        ends = [onnx.ValueInfoProto(name=name) for name in outputs]
        for end in ends:
            end.type.tensor_type.elem_type = TensorProto.FLOAT
        graph = helper.make_graph(self.nodes, "net", [x], ends, self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
        onnx.checker.check_model(inferred)
        return inferred


def _grid(rows: int, columns: int, offset: float) -> Array:
    y, x = np.mgrid[:rows, :columns].astype(np.float32)
    return np.stack([x, y], -1)[None, None] + np.float32(offset)


def _decoded(net: Net, x: str, scale: int, rows: int, columns: int, classes: int, anchors: int, style: str) -> str:
    width, stride = 5 + classes, float(8 * 2**scale)
    x = net.reshape(x, 1, anchors, width, rows, columns)
    x = net.node("Transpose", x, perm=[0, 1, 3, 4, 2])
    boxes = ANCHORS[scale].reshape(1, -1, 1, 1, 2)[:, :anchors]
    number = lambda value: net.constant(np.float32(value))  # noqa: E731
    if style == "v3":
        # Darknet's: centres are sigmoids, extents exponentials.
        xy, wh, rest = net.node("Split", x, net.constant(np.asarray([2, 2, width - 4])), results=3, axis=4)
        xy = net.node(
            "Mul", net.node("Add", net.node("Sigmoid", xy), net.constant(_grid(rows, columns, 0))), number(stride)
        )
        wh = net.node("Mul", net.node("Exp", wh), net.constant(boxes))
        x = net.node("Concat", xy, wh, net.node("Sigmoid", rest), axis=4)
    elif style == "v7":
        # Slices of one sigmoid, and powers.
        x = net.node("Sigmoid", x)
        bounds = [(0, 2), (2, 4), (4, width)]
        ends = [[net.constant(np.asarray([each])) for each in (*bound, 4, 1)] for bound in bounds]
        xy, wh, rest = (net.node("Slice", x, *end) for end in ends)
        xy = net.node("Mul", xy, number(2 * stride))
        xy = net.node("Add", xy, net.constant(stride * _grid(rows, columns, -0.5)))
        wh = net.node("Mul", net.node("Pow", wh, number(2)), net.constant(4 * boxes))
        x = net.node("Concat", xy, wh, rest, axis=4)
    else:
        x = net.node("Sigmoid", x)
        xy, wh, rest = net.node("Split", x, net.constant(np.asarray([2, 2, width - 4])), results=3, axis=4)
        xy = net.node("Add", net.node("Mul", xy, number(2)), net.constant(_grid(rows, columns, -0.5)))
        xy = net.node("Mul", xy, number(stride))
        wh = net.node("Pow", net.node("Mul", wh, number(2)), number(2))
        x = net.node("Concat", xy, net.node("Mul", wh, net.constant(boxes)), rest, axis=4)
    return net.reshape(x, 1, -1, width)


def detector(
    style: str = "v5", heads: int = 3, classes: int = 3, anchors: int = 3, size: int = 64, deep: int = 16
) -> onnx.ModelProto:
    """A backbone with a pyramid of heads on strides of 8, 16 and 32, decoded and joined."""
    net = Net()
    x, channels, found = "x", 3, []
    for step in range(2 + heads):
        x, channels = net.silu(net.conv(x, channels, deep, 3, 2)), deep
        if step >= 2:
            raw = net.conv(x, channels, anchors * (5 + classes), 1)
            extent = size // 2 ** (step + 1)
            found.append(_decoded(net, raw, step - 2, extent, extent, classes, anchors, style))
    joint = net.node("Concat", *found, axis=1) if heads > 1 else found[0]
    return net.model((1, 3, size, size), joint)


def shuffled(groups: int = 4, channels: int = 24, ends: bool = False) -> onnx.ModelProto:
    """ShuffleNet's blocks: channels in groups, shuffled by a tensor of five axes; with `ends` the shuffle is a result."""
    net = Net()
    x = net.node("Relu", net.conv("x", 3, channels, 3, 2))
    for _ in range(2):
        x = net.node("Relu", net.conv(x, channels, channels, 1, groups=groups))
        x = net.reshape(x, 1, groups, channels // groups, 8, 8)
        x = net.node("Transpose", x, perm=[0, 2, 1, 3, 4])
        taken = x
        x = net.reshape(x, 1, channels, 8, 8)
        x = net.conv(x, channels, channels, 3, groups=channels)
    return net.model((1, 3, 16, 16), *([taken] if ends else []), x)


def of_rank(rank: int) -> onnx.ModelProto:
    """A network that gives and takes tensors of this many axes."""
    net = Net()
    shapes = {1: (24 * 36,), 5: (1, 4, 6, 6, 6), 6: (1, 2, 2, 6, 6, 6)}
    x = net.node("Relu", net.conv(net.reshape("x", 1, 24, 6, 6), 24, 24))
    x = net.reshape(x, *shapes[rank])
    # What no device computes, in between; either side is worth a stage.
    y = net.node("Max", x, net.constant(np.float32(0.25)))
    y = net.reshape(y, 1, 24, 6, 6)
    return net.model(shapes[rank], net.conv(y, 24, 24), x)
