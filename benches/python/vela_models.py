"""A network of `vela_networks.py` as a TFLite file and as an ONNX model with quantizers, both of int8.

Weights are uniform random numbers, the same in both; scales are made up, as cycles depend on shapes alone. Uniform weights
are the worst case of Vela's compression of weights, which does nothing for them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import flatbuffers
import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper
from vela_networks import Layer, Network

Array = npt.NDArray[Any]
SCALE, ZERO = 0.05, -3


def same_padding(layer: Layer, source: tuple[int, int, int]) -> list[int]:
    """Return what TFLite's `SAME` puts before rows and columns, and behind them."""
    before, behind = [], []
    for extent, kernel, wanted in zip(source[:2], layer.kernel, layer.shape[:2], strict=True):
        missing = max((wanted - 1) * layer.stride + kernel - extent, 0)
        before.append(missing // 2)
        behind.append(missing - missing // 2)
    return before + behind


def weights(network: Network, layer: Layer) -> tuple[Array, Array] | None:
    """Return weights, outputs first and channels last, and the addends of the sums; none for a layer without."""
    if layer.kind not in {"conv", "depthwise", "dense"}:
        return None
    rng = np.random.default_rng(zlib.crc32(f"{network.name}/{layer.name}".encode()))
    h, w, c = network.shape(layer.inputs[0])
    shape = {"dense": (h * w * c,), "depthwise": (*layer.kernel, 1)}.get(layer.kind, (*layer.kernel, c))
    values = rng.integers(-127, 128, (layer.shape[2], *shape), dtype=np.int8)
    return values, rng.integers(-1000, 1000, layer.shape[2], dtype=np.int32)


def weight_scales(layer: Layer) -> Array:
    """Return the factor of each output's weights; dense layers have one for all."""
    return np.full(1 if layer.kind == "dense" else layer.shape[2], 0.002, np.float32)


# TFLite: the numbers are those of its schema (tensorflow/lite/schema/schema.fbs): fields of tables by their place, codes of
# operators and kinds of options.
_INT32, _INT8 = 2, 9
_OPERATORS = {"add": 0, "avgpool": 1, "concat": 2, "conv": 3, "depthwise": 4, "dense": 9, "maxpool": 17, "reshape": 22}
_OPTIONS = {"conv": 1, "depthwise": 2, "avgpool": 5, "maxpool": 5, "dense": 8, "concat": 10, "add": 11, "reshape": 17}


class _Writer:
    """Tables of FlatBuffers by the places of their fields."""

    def __init__(self) -> None:
        self.builder = flatbuffers.Builder(1 << 20)

    def table(self, *fields: tuple[int, str, Any]) -> int:
        """Write a table of fields (place, type, value); tables, vectors and strings are offsets already."""
        self.builder.StartObject(max((place for place, _, _ in fields), default=-1) + 1)
        for place, kind, value in fields:
            if kind == "Offset":
                self.builder.PrependUOffsetTRelativeSlot(place, value, 0)
            else:
                getattr(self.builder, f"Prepend{kind}Slot")(place, value, None)
        return int(self.builder.EndObject())

    def tables(self, offsets: Sequence[int]) -> int:
        """Write a vector of tables."""
        self.builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            self.builder.PrependUOffsetTRelative(offset)
        return int(self.builder.EndVector())

    def array(self, values: Any, dtype: Any) -> int:
        """Write a vector of numbers."""
        return int(self.builder.CreateNumpyVector(np.asarray(values, dtype)))

    def text(self, value: str) -> int:
        """Write a string."""
        return int(self.builder.CreateString(value))


class _TFLite:
    """The parts of a TFLite file, gathered layer by layer."""

    def __init__(self, network: Network) -> None:
        self.network, self.out = network, _Writer()
        self.buffers = [self.out.table()]
        self.tensors: list[int] = []
        self.operators: list[int] = []
        self.codes: list[str] = []
        self.places = {"input": self.tensor("input", (1, *network.input))}
        for layer in network.layers:
            self.layer(layer)

    def tensor(
        self,
        name: str,
        shape: Sequence[int],
        data: Array | None = None,
        scales: Array | None = None,
        axis: int = 0,
    ) -> int:
        """Add a tensor, whose scales lie along an axis; return its place."""
        buffer = 0
        if data is not None:
            buffer = len(self.buffers)
            self.buffers.append(
                self.out.table((0, "Offset", self.out.array(data.reshape(-1).view(np.uint8), np.uint8)))
            )
        wide = data is not None and data.dtype == np.int32
        found = np.float32([SCALE]) if scales is None else scales
        zeros = np.full(len(found), ZERO if data is None else 0, np.int64)
        quantization = self.out.table(
            (2, "Offset", self.out.array(found, np.float32)),
            (3, "Offset", self.out.array(zeros, np.int64)),
            (6, "Int32", axis),
        )
        self.tensors.append(
            self.out.table(
                (0, "Offset", self.out.array(shape, np.int32)),
                (1, "Int8", _INT32 if wide else _INT8),
                (2, "Uint32", buffer),
                (3, "Offset", self.out.text(name)),
                (4, "Offset", quantization),
            )
        )
        return len(self.tensors) - 1

    def operator(self, kind: str, inputs: list[int], outputs: list[int], options: int) -> None:
        """Add an operator with the table of its options."""
        if kind not in self.codes:
            self.codes.append(kind)
        self.operators.append(
            self.out.table(
                (0, "Uint32", self.codes.index(kind)),
                (1, "Offset", self.out.array(inputs, np.int32)),
                (2, "Offset", self.out.array(outputs, np.int32)),
                (3, "Uint8", _OPTIONS[kind]),
                (4, "Offset", options),
            )
        )

    def layer(self, layer: Layer) -> None:
        """Add a layer's tensors and its operator."""
        inputs = [self.places[name] for name in layer.inputs]
        h, w, c = self.network.shape(layer.inputs[0])
        if layer.kind == "dense" and not self.network.flat(layer.inputs[0]):
            flat = self.tensor(f"{layer.name}_in", (1, h * w * c))
            shape = self.out.array([1, h * w * c], np.int32)
            self.operator("reshape", inputs, [flat], self.out.table((0, "Offset", shape)))
            inputs = [flat]
        if found := weights(self.network, layer):
            values, addends = found
            scales = weight_scales(layer)
            axis = 0
            if layer.kind == "depthwise":  # channels last
                values, axis = np.moveaxis(values, 0, -1).reshape(1, *layer.kernel, -1), 3
            inputs.append(
                self.tensor(f"{layer.name}_weights", values.shape, np.ascontiguousarray(values), scales, axis)
            )
            inputs.append(self.tensor(f"{layer.name}_bias", addends.shape, addends, scales * np.float32(SCALE)))
        shape = (1, layer.shape[2]) if layer.kind == "dense" else (1, *layer.shape)
        self.places[layer.name] = self.tensor(layer.name, shape)
        self.operator(layer.kind, inputs, [self.places[layer.name]], self.options(layer))

    def options(self, layer: Layer) -> int:
        """Write what an operator is told besides its tensors."""
        relu = ("Int8", int(layer.relu))
        strides = [(1, "Int32", layer.stride), (2, "Int32", layer.stride)]
        # Means lie in the image as a whole.
        padding = (0, "Int8", int(layer.kind == "avgpool"))
        table: dict[str, Callable[[], int]] = {
            "conv": lambda: self.out.table(padding, *strides, (3, *relu), (4, "Int32", 1), (5, "Int32", 1)),
            "depthwise": lambda: self.out.table(
                padding, *strides, (3, "Int32", 1), (4, *relu), (5, "Int32", 1), (6, "Int32", 1)
            ),
            "dense": lambda: self.out.table((0, *relu)),
            "add": lambda: self.out.table((0, *relu)),
            "concat": lambda: self.out.table((0, "Int32", 3), (1, *relu)),
        }
        pool = (padding, *strides, (3, "Int32", layer.kernel[1]), (4, "Int32", layer.kernel[0]), (5, *relu))
        return table.get(layer.kind, lambda: self.out.table(*pool))()

    def finish(self) -> bytes:
        """Return the file."""
        out = self.out
        codes = [
            out.table((0, "Int8", _OPERATORS[kind]), (2, "Int32", 1), (3, "Int32", _OPERATORS[kind]))
            for kind in self.codes
        ]
        read = {name for layer in self.network.layers for name in layer.inputs}
        ends = [self.places[layer.name] for layer in self.network.layers if layer.name not in read]
        graph = out.table(
            (0, "Offset", out.tables(self.tensors)),
            (1, "Offset", out.array([0], np.int32)),
            (2, "Offset", out.array(ends, np.int32)),
            (3, "Offset", out.tables(self.operators)),
            (4, "Offset", out.text(self.network.name)),
        )
        model = out.table(
            (0, "Uint32", 3),
            (1, "Offset", out.tables(codes)),
            (2, "Offset", out.tables([graph])),
            (3, "Offset", out.text(self.network.name)),
            (4, "Offset", out.tables(self.buffers)),
        )
        out.builder.Finish(model, b"TFL3")
        return bytes(out.builder.Output())


def tflite(network: Network) -> bytes:
    """Return the network as a TFLite file."""
    return _TFLite(network).finish()


class _Onnx:
    """An ONNX graph of operators between quantizers."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.scale = self.constant("scale", np.float32(SCALE)), self.constant("zero", np.int8(ZERO))
        self.quantized("input", "image")
        for layer in network.layers:
            self.layer(layer)

    def constant(self, name: str, value: Any) -> str:
        """Add a constant."""
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, op: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        """Add a node named as its output."""
        self.nodes.append(helper.make_node(op, inputs, [output], output, **attributes))
        return output

    def quantized(self, name: str, value: str) -> None:
        """Round `value` to 8 bits, under a name."""
        self.node("QuantizeLinear", [value, *self.scale], f"{name}_q")
        self.node("DequantizeLinear", [f"{name}_q", *self.scale], f"{name}_dq")

    def layer(self, layer: Layer) -> None:
        """Add a layer's operator between its quantizers."""
        inputs = [f"{name}_dq" for name in layer.inputs]
        source = self.network.shape(layer.inputs[0])
        if found := weights(self.network, layer):
            values, addends = found
            values = values if layer.kind == "dense" else np.ascontiguousarray(np.moveaxis(values, -1, 1))
            scales = weight_scales(layer)
            inputs += [self.weight(f"{layer.name}_weights", values, scales, np.zeros(len(scales), np.int8))]
            inputs += [
                self.weight(f"{layer.name}_bias", addends, scales * np.float32(SCALE), np.zeros(len(scales), np.int32))
            ]
        window = {"kernel_shape": layer.kernel, "strides": [layer.stride] * 2, "pads": same_padding(layer, source)}
        match layer.kind:
            case "conv":
                made = self.node("Conv", inputs, layer.name, **window)
            case "depthwise":
                made = self.node("Conv", inputs, layer.name, group=source[2], **window)
            case "dense":
                if not self.network.flat(layer.inputs[0]):
                    inputs[0] = self.node("Flatten", inputs[:1], f"{layer.name}_in")
                made = self.node("Gemm", inputs, layer.name, transB=1)
            case "add":
                made = self.node("Add", inputs, layer.name)
            case "concat":
                made = self.node("Concat", inputs, layer.name, axis=1)
            case "maxpool":
                made = self.node("MaxPool", inputs, layer.name, **window)
            case "avgpool":
                made = self.node("GlobalAveragePool", inputs, layer.name)
        if layer.relu:
            made = self.node("Relu", [made], f"{layer.name}_relu")
        self.quantized(layer.name, made)

    def weight(self, name: str, values: Array, scales: Array, zeros: Array) -> str:
        """Add quantized weights, dequantized."""
        each = (scales, zeros) if len(scales) > 1 else (scales[0], zeros[0])
        inputs = [
            self.constant(name, values),
            self.constant(f"{name}_scale", each[0]),
            self.constant(f"{name}_zero", each[1]),
        ]
        return self.node("DequantizeLinear", inputs, f"{name}_dq", **({"axis": 0} if len(scales) > 1 else {}))

    def finish(self) -> bytes:
        """Return the model."""
        h, w, c = self.network.input
        read = {name for layer in self.network.layers for name in layer.inputs}
        ends = [layer for layer in self.network.layers if layer.name not in read]
        float32 = TensorProto.FLOAT
        outputs = [
            helper.make_tensor_value_info(
                f"{end.name}_dq",
                float32,
                [1, end.shape[2]] if end.kind == "dense" else [1, end.shape[2], *end.shape[:2]],
            )
            for end in ends
        ]
        image = helper.make_tensor_value_info("image", float32, [1, c, h, w])
        graph = helper.make_graph(self.nodes, self.network.name, [image], outputs, self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        onnx.checker.check_model(model)
        return bytes(model.SerializeToString())


def onnx_model(network: Network) -> bytes:
    """Return the network as an ONNX model."""
    return _Onnx(network).finish()
