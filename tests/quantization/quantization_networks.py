"""Networks as people bring them to the quantizer: backbones with random weights under the heads of known detectors.

Each ends in what makes the answer: boxes in pixels and probabilities in one tensor, a softmax over scores, the best class of
each pixel. Weights are scaled so that activations keep their size from layer to layer.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from triune.quantization._model import Network

Array = npt.NDArray[Any]

SIZE = 64
"""Pixels of an image's sides."""


class Builder:
    """A graph that grows node by node. Each method returns the name of what it makes."""

    def __init__(self, seed: int = 1) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.channels = {"image": 3}

    def constant(self, values: Any, dtype: Any = np.float32) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def node(self, kind: str, *inputs: str, name: str | None = None, outputs: int = 1, **attributes: Any) -> Any:
        name = name or f"{kind}_{len(self.nodes)}"
        made = [f"{name}:{at}" for at in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), made, name=name, **attributes))
        return made[0] if outputs == 1 else made

    def conv(
        self,
        x: str,
        channels: int,
        kernel: int = 3,
        stride: int = 1,
        *,
        spread: float = 1.0,
        gain: float = 1.0,
        bias: Array | None = None,
        name: str | None = None,
    ) -> str:
        """Convolve with random weights; `spread` is by how much output channels differ, `gain` how much larger all are."""
        before = self.channels[x]
        weights = self.random.normal(0, np.sqrt(2 / (before * kernel * kernel)), (channels, before, kernel, kernel))
        weights *= gain * spread ** self.random.uniform(-1, 1, (channels, 1, 1, 1))
        added = self.random.normal(0, 0.1, channels) if bias is None else bias
        made: str = self.node(
            "Conv",
            x,
            self.constant(weights),
            self.constant(added),
            name=name,
            strides=[stride] * 2,
            pads=[kernel // 2] * 4,
            kernel_shape=[kernel] * 2,
        )
        self.channels[made] = channels
        return made

    def act(self, x: str, kind: str = "silu") -> str:
        made: str = self.node("Mul", x, self.node("Sigmoid", x)) if kind == "silu" else self.node("Relu", x)
        self.channels[made] = self.channels[x]
        return made

    def backbone(self, kind: str = "silu") -> list[str]:
        """Return feature maps at strides of 4 and 8."""
        x = self.act(self.conv("image", 8, stride=2), kind)
        x = self.act(self.conv(x, 16, stride=2), kind)
        fine = self.act(self.conv(x, 16), kind)
        x = self.act(self.conv(fine, 24, stride=2), kind)
        side = self.act(self.conv(x, 24, 1), kind)
        joint = self.node("Concat", x, side, axis=1)
        self.channels[joint] = 48
        return [fine, self.act(self.conv(joint, 32), kind)]

    def save(self, path: Path, opset: int = 17, **outputs: str) -> Path:
        """Write a model that gives the tensors under these names."""
        for name, tensor in outputs.items():
            for node in self.nodes:
                for names in (node.input, node.output):
                    names[:] = [name if each == tensor else each for each in names]
        values = [helper.make_empty_tensor_value_info(name) for name in outputs]
        image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, SIZE, SIZE])
        graph = helper.make_graph(self.nodes, "network", [image], values, self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        model = onnx.shape_inference.infer_shapes(model, strict_mode=True)
        onnx.checker.check_model(model)
        onnx.save(model, path)
        return path


def _cells() -> list[tuple[int, Array]]:
    """Return stride and centres of the cells of either map."""
    found = []
    for stride in (4, 8):
        y, x = np.mgrid[: SIZE // stride, : SIZE // stride]
        found.append((stride, np.stack([x, y], -1).reshape(-1, 2) + 0.5))
    return found


def _rare(classes: int) -> Array:
    """Return biases with which scores are low but for a few places, as of a trained detector."""
    return np.full(classes, -4.0)


def yolox_like(path: Path) -> Path:
    """Anchor-free, coupled: offsets, objectness and classes of each map joined, then boxes in pixels; one output."""
    b = Builder(1)
    maps = []
    for fmap in b.backbone():
        place = b.conv(fmap, 4, 1)
        something = b.node("Sigmoid", b.conv(fmap, 1, 1, bias=_rare(1), gain=6))
        classes = b.node("Sigmoid", b.conv(fmap, 6, 1, bias=_rare(6), gain=6))
        joint = b.node("Concat", place, something, classes, axis=1)
        maps.append(b.node("Reshape", joint, b.constant([1, 11, -1], np.int64)))
    rows = b.node("Transpose", b.node("Concat", *maps, axis=2), perm=[0, 2, 1])
    offsets, sizes, scores = b.node("Split", rows, b.constant([2, 2, 7], np.int64), outputs=3, axis=2)
    grid = np.concatenate([centres for _, centres in _cells()])[None]
    strides = np.concatenate([np.full((len(centres), 1), stride) for stride, centres in _cells()])[None]
    places = b.node("Mul", b.node("Add", offsets, b.constant(grid)), b.constant(strides))
    extents = b.node("Mul", b.node("Exp", sizes), b.constant(strides))
    return b.save(path, output=b.node("Concat", places, extents, scores, axis=2, name="join"))


def yolov8_like(path: Path) -> Path:
    """Anchor-free, decoupled: box edges as distributions whose expectation is a fixed 1 × 1 convolution; one output."""
    b = Builder(2)
    edges, scores = [], []
    for fmap in b.backbone():
        hidden = b.act(b.conv(fmap, 32))
        edges.append(b.node("Reshape", b.conv(hidden, 64, 1, spread=2), b.constant([1, 64, -1], np.int64)))
        hidden = b.act(b.conv(fmap, 32))
        logits = b.conv(hidden, 6, 1, bias=_rare(6), gain=6)
        scores.append(b.node("Reshape", logits, b.constant([1, 6, -1], np.int64)))
    bins = b.node("Reshape", b.node("Concat", *edges, axis=2), b.constant([1, 4, 16, -1], np.int64))
    shares = b.node("Softmax", b.node("Transpose", bins, perm=[0, 2, 1, 3]), axis=1)
    weights = b.constant(np.arange(16).reshape(1, 16, 1, 1))
    distances = b.node("Conv", shares, weights, name="dfl")
    distances = b.node("Reshape", distances, b.constant([1, 4, -1], np.int64))
    before, behind = b.node("Split", distances, b.constant([2, 2], np.int64), outputs=2, axis=1)
    centres = b.constant(np.concatenate([centres for _, centres in _cells()]).T[None])
    low, high = b.node("Sub", centres, before), b.node("Add", centres, behind)
    middle = b.node("Div", b.node("Add", low, high), b.constant(2.0))
    boxes = b.node("Concat", middle, b.node("Sub", high, low), axis=1)
    strides = np.concatenate([np.full(len(centres), stride) for stride, centres in _cells()])[None, None]
    pixels = b.node("Mul", boxes, b.constant(strides))
    marks = b.node("Sigmoid", b.node("Concat", *scores, axis=2))
    return b.save(path, output=b.node("Concat", pixels, marks, axis=1, name="join"))


def ssd_like(path: Path) -> Path:
    """Anchors: a softmax over background and classes, and box offsets joined over the maps; two outputs."""
    b = Builder(3)
    places, scores = [], []
    for fmap in b.backbone("relu"):
        for found, count in ((places, 4), (scores, 5)):
            rows = b.node("Transpose", b.conv(fmap, 2 * count, spread=2), perm=[0, 2, 3, 1])
            found.append(b.node("Reshape", rows, b.constant([1, -1, count], np.int64)))
    scores_ = b.node("Softmax", b.node("Concat", *scores, axis=1), axis=2)
    offsets, sizes = b.node("Split", b.node("Concat", *places, axis=1), b.constant([2, 2], np.int64), outputs=2, axis=2)
    centres = np.concatenate([np.repeat(centres * stride, 2, 0) for stride, centres in _cells()])[None]
    extents = np.concatenate([np.full((2 * len(centres), 2), 3.0 * stride) for stride, centres in _cells()])[None]
    middle = b.node("Add", b.node("Mul", offsets, b.constant(extents * 0.1)), b.constant(centres))
    size = b.node("Mul", b.node("Exp", b.node("Mul", sizes, b.constant(0.2))), b.constant(extents))
    half = b.node("Mul", size, b.constant(0.5))
    corners = b.node("Concat", b.node("Sub", middle, half), b.node("Add", middle, half), axis=2)
    return b.save(path, scores=scores_, boxes=corners)


def segmenter(path: Path) -> Path:
    """A map of classes: two maps joined, enlarged, and the best class of each pixel; logits and classes."""
    b = Builder(4)
    fine, coarse = b.backbone("relu")
    grown = b.node("Resize", coarse, "", b.constant([1, 1, 2, 2]), mode="nearest", name="grow")
    joint = b.node("Concat", fine, grown, axis=1)
    b.channels[joint] = 48
    logits = b.conv(b.act(b.conv(joint, 24), "relu"), 5, 1, spread=2)
    large = b.node("Resize", logits, "", b.constant([1, 1, 4, 4]), mode="linear", name="enlarge")
    return b.save(path, logits=large, classes=b.node("ArgMax", large, axis=1, keepdims=0, name="best"))


def close_classifier(path: Path, classes: int = 200) -> Path:
    """Write a network whose classes have nearly the same scores: eight bits take one for another."""
    b = Builder(4)
    x = b.node("Flatten", b.node("GlobalAveragePool", b.act(b.conv("image", 16), "relu")))
    weights = b.random.normal(0, 1, (16, 1)) + 0.01 * b.random.normal(0, 1, (16, classes))
    logits = b.node("Gemm", x, b.constant(weights), b.constant(np.zeros(classes)), name="logits")
    return b.save(path, scores=logits)


def normalized(b: Builder, x: str, width: int, *, centred: bool = True, inverse: bool = False) -> str:
    """Normalize over the last axis as exporters spell it out: by mean and deviation, or by the root mean square."""
    if centred:
        x = b.node("Sub", x, b.node("ReduceMean", x, axes=[-1]))
    square = b.node("Pow", x, b.constant(2.0))
    root = b.node("Sqrt", b.node("Add", b.node("ReduceMean", square, axes=[-1]), b.constant(1e-6)))
    y = b.node("Mul", x, b.node("Reciprocal", root)) if inverse else b.node("Div", x, root)
    y = b.node("Mul", y, b.constant(b.random.uniform(0.5, 1.5, width)))
    return str(b.node("Add", y, b.constant(b.random.normal(0, 0.1, width)))) if centred else str(y)


def gelu(b: Builder, x: str, *, by_tanh: bool = False) -> str:
    """Spell out a Gelu, exactly or by a hyperbolic tangent."""
    if by_tanh:
        cube = b.node("Mul", b.node("Pow", x, b.constant(3.0)), b.constant(0.044715))
        gate = b.node("Tanh", b.node("Mul", b.node("Add", x, cube), b.constant(np.sqrt(2 / np.pi))))
        return str(b.node("Mul", b.node("Mul", b.constant(0.5), x), b.node("Add", gate, b.constant(1.0))))
    gate = b.node("Erf", b.node("Div", x, b.constant(np.sqrt(2))))
    return str(b.node("Mul", b.node("Mul", x, b.node("Add", gate, b.constant(1.0))), b.constant(0.5)))


def softmax(b: Builder, x: str) -> str:
    """Spell out a softmax over the last axis."""
    powers = b.node("Exp", b.node("Sub", x, b.node("ReduceMax", x, axes=[-1])))
    return str(b.node("Div", powers, b.node("ReduceSum", powers, b.constant([-1], np.int64), keepdims=1)))


def transformer(path: Path, *, root_mean_square: bool = False, opset: int = 13) -> Path:
    """Patches, blocks of attention and two products with normalizations before them, the mean, classes; nothing by its name.

    Some channels of what goes past the blocks are larger than the others, as in trained networks. With `root_mean_square`,
    normalizations that take no mean away, and Gelus by tanh.
    """
    b = Builder(11)
    width, heads, tokens = 48, 3, 64
    each = width // heads

    def linear(x: str, inputs: int, outputs: int, gain: float = 1.0) -> str:
        weights = b.random.normal(0, gain / np.sqrt(inputs), (inputs, outputs))
        return str(
            b.node("Add", b.node("MatMul", x, b.constant(weights)), b.constant(b.random.normal(0, 0.1, outputs)))
        )

    def split(x: str, order: list[int]) -> str:
        return str(
            b.node("Transpose", b.node("Reshape", x, b.constant([1, tokens, heads, each], np.int64)), perm=order)
        )

    def normal(x: str) -> str:
        return normalized(b, x, width, centred=not root_mean_square, inverse=root_mean_square)

    loud = np.where(np.arange(width) % 12 == 5, 8.0, 1.0).reshape(-1, 1, 1, 1)
    kernel = b.constant(b.random.normal(0, np.sqrt(1 / 192), (width, 3, 8, 8)) * loud)
    x = b.node("Conv", "image", kernel, b.constant(b.random.normal(0, 0.1, width)), strides=[8, 8], kernel_shape=[8, 8])
    x = b.node("Transpose", b.node("Reshape", x, b.constant([1, width, tokens], np.int64)), perm=[0, 2, 1])
    x = b.node("Add", x, b.constant(b.random.normal(0, 0.3, (1, tokens, width))))
    for _ in range(4):
        y = normal(x)
        q, k, v = (linear(y, width, width) for _ in range(3))
        scores = b.node("MatMul", split(q, [0, 2, 1, 3]), split(k, [0, 2, 3, 1]))
        scores = softmax(b, b.node("Div", scores, b.constant(np.sqrt(each))))
        mixed = b.node("Transpose", b.node("MatMul", scores, split(v, [0, 2, 1, 3])), perm=[0, 2, 1, 3])
        mixed = b.node("Reshape", mixed, b.constant([1, tokens, width], np.int64))
        x = b.node("Add", x, linear(mixed, width, width))
        hidden = gelu(b, linear(normal(x), width, 4 * width), by_tanh=root_mean_square)
        x = b.node("Add", x, linear(hidden, 4 * width, width))
    x = b.node("ReduceMean", normal(x), axes=[1], keepdims=0)
    return b.save(path, opset, logits=linear(x, width, 10, gain=3.0))


def samples(count: int, seed: int = 5) -> list[dict[str, Array]]:
    """Return images of smooth blobs, 0 to 1."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[:SIZE, :SIZE] / SIZE
    found = []
    for _ in range(count):
        image = np.zeros((3, SIZE, SIZE))
        for _ in range(6):
            centre, width = random.uniform(0, 1, 2), random.uniform(0.05, 0.3)
            blob = np.exp(-((x - centre[0]) ** 2 + (y - centre[1]) ** 2) / width**2)
            image += random.uniform(0, 1, (3, 1, 1)) * blob
        found.append({"image": np.clip(image, 0, 1)[None].astype(np.float32)})
    return found


DETECTORS = {"yolox": yolox_like, "yolov8": yolov8_like, "ssd": ssd_like, "segmenter": segmenter}


def network(path: Path) -> Network:
    """Return a file as the quantizer sees it, with a name for every node."""
    model = onnx.load(path)
    for index, node in enumerate(model.graph.node):
        node.name = node.name or str(index)
    return Network(model)
