"""Small networks as lists of layers, which `vela_models.py` writes for TFLite and for ONNX alike.

A layer is named; its name is the tensor's in TFLite and the node's in ONNX, so that two tools' tables can be laid side by
side. Windows are padded as TFLite's `SAME` has it. The networks are those of MLPerf Tiny and of ImageNet's usual ones, as
published, without softmax, and a small detector's backbone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["conv", "depthwise", "dense", "add", "concat", "maxpool", "avgpool"]
Shape = tuple[int, int, int]


@dataclass(frozen=True)
class Layer:
    """One operator: what it reads, and the rows, columns and channels of its result."""

    name: str
    kind: Kind
    inputs: tuple[str, ...]
    shape: Shape
    kernel: tuple[int, int] = (1, 1)
    stride: int = 1
    relu: bool = False


@dataclass
class Network:
    """Layers in the order of execution, of one input."""

    name: str
    input: Shape
    layers: list[Layer] = field(default_factory=list)

    @property
    def last(self) -> str:
        """The name of what comes out of the last layer."""
        return self.layers[-1].name if self.layers else "input"

    def shape(self, name: str) -> Shape:
        """Return the shape of a layer's result, or of the input."""
        return next((layer.shape for layer in self.layers if layer.name == name), self.input)

    def flat(self, name: str) -> bool:
        """Whether a result has no rows and columns, as those of dense layers."""
        return any(layer.name == name and layer.kind == "dense" for layer in self.layers)

    def _put(
        self, kind: Kind, inputs: tuple[str, ...], shape: Shape, window: tuple[int, int], stride: int, relu: bool
    ) -> str:
        name = f"{kind}_{len(self.layers) + 1}"
        self.layers.append(Layer(name, kind, inputs, shape, window, stride, relu))
        return name

    def _window(
        self, kind: Kind, source: str, channels: int, kernel: int | tuple[int, int], stride: int, relu: bool = False
    ) -> str:
        h, w, _ = self.shape(source)
        window = (kernel, kernel) if isinstance(kernel, int) else kernel
        return self._put(kind, (source,), (-(-h // stride), -(-w // stride), channels), window, stride, relu)

    def conv(
        self,
        channels: int,
        kernel: int | tuple[int, int],
        stride: int = 1,
        *,
        relu: bool = True,
        of: str | None = None,
    ) -> str:
        """Add a convolution."""
        return self._window("conv", of or self.last, channels, kernel, stride, relu)

    def depthwise(self, kernel: int, stride: int = 1, *, of: str | None = None) -> str:
        """Add a depthwise convolution."""
        return self._window("depthwise", of or self.last, self.shape(of or self.last)[2], kernel, stride, True)

    def dense(self, channels: int, *, relu: bool = False) -> str:
        """Add a fully connected layer."""
        return self._put("dense", (self.last,), (1, 1, channels), (1, 1), 1, relu)

    def add(self, one: str, other: str, *, relu: bool = False) -> str:
        """Add a sum."""
        return self._put("add", (one, other), self.shape(one), (1, 1), 1, relu)

    def concat(self, *parts: str) -> str:
        """Join along the channels."""
        h, w, _ = self.shape(parts[0])
        return self._put("concat", parts, (h, w, sum(self.shape(part)[2] for part in parts)), (1, 1), 1, False)

    def maxpool(self, kernel: int, stride: int, *, of: str | None = None) -> str:
        """Add a maximum over windows."""
        return self._window("maxpool", of or self.last, self.shape(of or self.last)[2], kernel, stride)

    def mean(self) -> str:
        """Add the mean over all pixels."""
        h, w, c = self.shape(self.last)
        return self._put("avgpool", (self.last,), (1, 1, c), (h, w), 1, False)


def _eighths(channels: float) -> int:
    """Round as MobileNet does: to a multiple of 8, and never more than a tenth below."""
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * channels else rounded


def mobilenet_v1(alpha: float, size: int, classes: int = 1000) -> Network:
    """MobileNet (arXiv 1704.04861), table 1."""
    net = Network(f"mobilenet_v1_{alpha}_{size}", (size, size, 3))
    net.conv(int(32 * alpha), 3, 2)
    first = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)]
    for channels, stride in [*first, *[(512, 1)] * 5, (1024, 2), (1024, 1)]:
        net.depthwise(3, stride)
        net.conv(int(channels * alpha), 1)
    net.mean()
    net.dense(classes)
    return net


def mobilenet_v2(alpha: float, size: int) -> Network:
    """MobileNetV2 (arXiv 1801.04381), table 2."""
    net = Network(f"mobilenet_v2_{alpha}_{size}", (size, size, 3))
    net.conv(_eighths(32 * alpha), 3, 2)
    stages = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    for expansion, channels, count, first in stages:
        for index in range(count):
            before, stride, wanted = net.last, first if index == 0 else 1, _eighths(channels * alpha)
            if expansion > 1:
                net.conv(net.shape(before)[2] * expansion, 1)
            net.depthwise(3, stride)
            net.conv(wanted, 1, relu=False)
            if stride == 1 and net.shape(before)[2] == wanted:
                net.add(before, net.last)
    net.conv(_eighths(1280 * max(1.0, alpha)), 1)
    net.mean()
    net.dense(1000)
    return net


def _residual(net: Network, channels: int, stride: int) -> None:
    before = net.last
    net.conv(channels, 3, stride)
    ours = net.conv(channels, 3, relu=False)
    if stride > 1 or net.shape(before)[2] != channels:
        before = net.conv(channels, 1, stride, relu=False, of=before)
    net.add(ours, before, relu=True)


def resnet8() -> Network:
    """MLPerf Tiny's image classifier."""
    net = Network("resnet8_32", (32, 32, 3))
    net.conv(16, 3)
    for channels, stride in [(16, 1), (32, 2), (64, 2)]:
        _residual(net, channels, stride)
    net.mean()
    net.dense(10)
    return net


def resnet18(size: int) -> Network:
    """ResNet-18 (arXiv 1512.03385), table 1."""
    net = Network(f"resnet18_{size}", (size, size, 3))
    net.conv(64, 7, 2)
    net.maxpool(3, 2)
    for channels in [64, 128, 256, 512]:
        _residual(net, channels, 1 if channels == 64 else 2)
        _residual(net, channels, 1)
    net.mean()
    net.dense(1000)
    return net


def ds_cnn() -> Network:
    """MLPerf Tiny's keyword spotter."""
    net = Network("ds_cnn", (49, 10, 1))
    net.conv(64, (10, 4), 2)
    for _ in range(4):
        net.depthwise(3)
        net.conv(64, 1)
    net.mean()
    net.dense(12)
    return net


def autoencoder() -> Network:
    """MLPerf Tiny's detector of anomalies."""
    net = Network("autoencoder", (1, 1, 640))
    for channels in [128] * 4 + [8] + [128] * 4:
        net.dense(channels, relu=True)
    net.dense(640)
    return net


def detector(size: int) -> Network:
    """A backbone of joined halves, as YOLOv5's smallest has it, its pools, and one head."""
    net = Network(f"detector_{size}", (size, size, 3))
    net.conv(16, 6, 2)
    for channels, count in [(32, 1), (64, 2), (128, 3), (256, 1)]:
        source = net.conv(channels, 3, 2)
        aside = net.conv(channels // 2, 1)
        net.conv(channels // 2, 1, of=source)
        for _ in range(count):
            before = net.last
            net.conv(channels // 2, 1)
            net.conv(channels // 2, 3)
            net.add(before, net.last)
        net.concat(net.last, aside)
        net.conv(channels, 1)
    pools = [net.conv(128, 1)]
    pools += [net.maxpool(5, 1) for _ in range(3)]
    net.concat(*pools)
    net.conv(256, 1)
    net.conv(255, 1, relu=False)
    return net


def whole_networks() -> list[Network]:
    """The networks that are compared."""
    return [
        mobilenet_v1(0.25, 96, 2),  # MLPerf Tiny's visual wake words
        resnet8(),
        ds_cnn(),
        autoencoder(),
        mobilenet_v2(0.35, 128),
        mobilenet_v2(1.0, 224),
        mobilenet_v1(1.0, 224),
        resnet18(224),
        detector(160),
    ]


def single_layers() -> Iterator[Network]:
    """Layers one by one: kernels, channels, strides and sizes, round ones and others."""
    for size in (7, 14, 32, 56):
        for channels in (16, 64, 128):
            for kernel in (1, 3):
                yield _single(size, channels, "conv", kernel, 1, channels)
            yield _single(size, channels, "depthwise", 3, 1, channels)
    odd = [(3, 16, 3), (3, 64, 7), (8, 32, 3), (24, 40, 1), (20, 10, 3), (33, 65, 3), (256, 16, 1)]
    for channels, wanted, kernel in odd:
        yield _single(28, channels, "conv", kernel, 1, wanted)
        yield _single(28, channels, "conv", kernel, 2, wanted)
    for kernel, stride in [(3, 2), (5, 1), (5, 2), (7, 1)]:
        yield _single(28, 96, "depthwise", kernel, stride, 96)
    for kernel in (2, 3):
        yield _single(28, 64, "maxpool", kernel, 2, 64)
    for inputs, outputs in [(64, 64), (256, 256), (1024, 1000)]:
        net = Network(f"dense_{inputs}_{outputs}", (1, 1, inputs))
        net.dense(outputs)
        yield net


def _single(size: int, channels: int, kind: Kind, kernel: int, stride: int, wanted: int) -> Network:
    net = Network(f"{kind}{kernel}x{kernel}_s{stride}_{size}x{size}x{channels}_{wanted}", (size, size, channels))
    if kind == "conv":
        net.conv(wanted, kernel, stride)
    elif kind == "depthwise":
        net.depthwise(kernel, stride)
    else:
        net.maxpool(kernel, stride)
    return net
