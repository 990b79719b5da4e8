"""A detector's heads as results: what the logic behind an accelerator, Icraft's `DetPost`, gathers candidates from.

The convolutions that a detector ends with get the channels that the logic counts in, and their results symmetric integers; what
comes behind them is left to the caller, as the logic's rows are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from triune._text import short
from triune.errors import ArgumentError

__all__ = ["DetPost", "put_detpost"]

_UNIT_BYTES: Final = 64
_JOINING: Final = ("Gemm", "GlobalAveragePool", "GlobalMaxPool", "ReduceMean")
_QUANTIZE: Final = ("QuantizeLinear", "DequantizeLinear")


@dataclass(frozen=True)
class DetPost:
    """How Icraft's `DetPost` gathers a detector's candidates.

    Of all positions and anchors those stay whose score is larger than `threshold`: the sigmoid of the objectness, or of the
    largest class where there is none.

    Examples:
        >>> import triune
        >>> found = triune.DetPost(threshold=0.25, anchors=1)
        >>> found.threshold, found.heads
        (0.25, ())

        Of a float detector it goes to `triune.compile(..., target="buyi", format="icraft", detpost=found)`.
    """

    threshold: float = 0.1
    """0 to 1, both excluded."""
    heads: Sequence[str] = ()
    """Results of the last convolutions, level by level, in each the part with the score first; found if left out."""
    anchors: int | None = None
    """Anchors at each position (default: 3 where a level has one part, of box, objectness and classes; else 1)."""

    def __post_init__(self) -> None:
        """Check. Raises ArgumentError."""
        if not 0.0 < self.threshold < 1.0:
            raise ArgumentError(f"detpost: threshold {self.threshold}: expected a score between 0 and 1")
        if self.anchors is not None and not 1 <= self.anchors <= 256:
            raise ArgumentError(f"detpost: {self.anchors} anchors; 1 to 256 can be")


@dataclass
class _Head:
    """The convolution of a part, and the integers of its result."""

    name: str
    conv: Any
    quantizer: Any
    channels: int
    extents: tuple[int, int]


Native = tuple[float, list[int], int, list[int], int, int, tuple[int, int]]
"""What the compiler is told: threshold, its integers, anchors, units of each part, valid words, units compared, their mask."""


def put_detpost(model: Any, how: DetPost) -> Native:
    """Let a quantized `onnx.ModelProto` end with a detector's heads; it is changed in place.

    Raises ArgumentError if the heads are not found, or the logic cannot gather from such.
    """
    graph = _Graph(model)
    levels = graph.levels(how)
    parts = len(levels[0])
    width = 2 if graph.is_wide(levels[0][0]) else 1
    unit = _UNIT_BYTES // width
    anchors = how.anchors if how.anchors is not None else 3 if parts == 1 else 1
    first = levels[0]
    for level in levels:
        shape = [head.channels for head in level]
        if shape != [head.channels for head in first]:
            names = ", ".join(head.name for head in level)
            raise ArgumentError(
                short(
                    f"detpost: {names} have {shape} channels, {', '.join(head.name for head in first)} have "
                    f"{[head.channels for head in first]}: the logic has one number of anchors and classes for all levels"
                )
            )
    for head in first:
        if head.channels % anchors:
            raise ArgumentError(
                short(f"detpost: {head.name!r} has {head.channels} channels, no multiple of {anchors} anchors")
            )
    each = [head.channels // anchors for head in first]
    if parts == 1 and each[0] < 6:
        raise ArgumentError(
            short(
                f"detpost: {first[0].name!r} has {each[0]} channels for each of {anchors} anchors; a level of one part has box, "
                "objectness and classes"
            )
        )
    units = [math.ceil(count / unit) for count in each]
    compared = list(range(each[0])) if parts > 1 else [4]
    last_unit = compared[-1] // unit
    mask = (1 << 64) - 1
    for channel in compared:
        if channel // unit == last_unit:
            mask &= ~(1 << (channel % unit))
    score = math.log(how.threshold / (1.0 - how.threshold))
    thresholds, outputs = [], []
    for level in levels:
        for index, (head, count) in enumerate(zip(level, units, strict=True)):
            scale, name = graph.widen(head, anchors, count * unit)
            outputs.append((name, [1, anchors * count * unit, *head.extents]))
            if index == 0:
                thresholds.append(int(score / scale))
    graph.end(outputs, np.dtype(np.int16 if width == 2 else np.int8))
    valid = math.ceil((each[-1] - (units[-1] - 1) * unit) * width / 8)
    halves = [(mask >> shift & 0xFFFFFFFF) for shift in (0, 32)]
    signed = [half - (1 << 32) if half >= 1 << 31 else half for half in halves]
    return how.threshold, thresholds, anchors, units, valid, last_unit + 1, (signed[0], signed[1])


class _Graph:
    """A model's graph: who makes and who reads each tensor."""

    def __init__(self, model: Any) -> None:
        import onnx

        from triune.quantization._model import node_names, tensor_names

        self._model, self._graph = model, model.graph
        self._constants = {tensor.name: tensor for tensor in model.graph.initializer}
        self._producers = {name: node for node in model.graph.node for name in node.output if name}
        self._readers: dict[str, list[Any]] = {}
        for node in model.graph.node:
            for name in node.input:
                self._readers.setdefault(name, []).append(node)
        # Without the data of weights, which say nothing about shapes.
        inferred = onnx.shape_inference.infer_shapes(model)
        self._shapes = {
            value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
            for value in (*inferred.graph.value_info, *inferred.graph.output)
        }
        self._taken = tensor_names(model.graph) | node_names(model.graph)

    # ---- finding

    def levels(self, how: DetPost) -> list[list[_Head]]:
        """Return the heads by levels, the part with the score first."""
        heads = [self._head(name) for name in how.heads] if how.heads else self._found()
        levels: dict[tuple[int, int], list[_Head]] = {}
        for head in heads:
            levels.setdefault(head.extents, []).append(head)
        found = list(levels.values())
        if not how.heads:
            found = [self._ordered(level) for level in found]
        counts = {len(level) for level in found}
        if not found or len(counts) > 1 or max(counts) > 3:
            told = "; ".join(f"{rows}x{columns}: {len(level)}" for (rows, columns), level in levels.items()) or "none"
            raise ArgumentError(
                short(f"detpost: expected levels of the same 1 to 3 heads, found {told}; {self._cure()}")
            )
        return found

    def _joint(self, heads: set[str]) -> Any:
        """Return a node behind the last convolutions that makes a vector of all places; None if there is none."""
        open_names, seen = [value.name for value in self._graph.output], set[str]()
        while open_names:
            name = open_names.pop()
            node = self._producers.get(name)
            if name in seen or node is None or name in heads:
                continue
            if node.op_type in _JOINING:
                return node
            seen.add(name)
            open_names.extend(node.input)
        return None

    def _cure(self) -> str:
        """Return how to say which convolutions are heads, with those that can be."""
        heads = [name for name in self._last() if len(self._extents(name)) == 4]
        told = ", ".join(f"{name} ({'x'.join(map(str, self._extents(name)[1:]))})" for name in heads)
        return (
            "name the results of those convolutions, level by level, in each the part with the score first: --heads NAME,... "
            f"(in Python: DetPost(heads=[...])); {f'the model ends with {told}' if heads else 'it ends with none'}"
        )

    def _extents(self, name: str) -> list[int]:
        """Return a tensor's extents, as far as they are known."""
        return self._shapes.get(name, [])

    def _last(self) -> list[str]:
        """Return the results of the convolutions that nothing but what is no convolution follows, in the model's order."""
        open_names, seen, found = [value.name for value in self._graph.output], set[str](), set[str]()
        while open_names:
            name = open_names.pop()
            node = self._producers.get(name)
            if name in seen or node is None:
                continue
            seen.add(name)
            if node.op_type == "Conv" and not self._is_expectation(node):
                found.add(name)
            else:
                open_names.extend(node.input)
        return [name for node in self._graph.node for name in node.output if name in found]

    def _is_expectation(self, conv: Any) -> bool:
        """Return whether a convolution is part of the decoding of boxes that are distributions over distances (YOLOv8's DFL).

        It has one result, the sum of all channels, each times its number: the expected value of what a softmax gave.
        """
        weights = self._reals(conv.input[1])
        if weights is None or weights.shape[0] != 1 or weights.size != weights.shape[1] or weights.size < 2:
            return False
        row = weights.reshape(-1)
        step = row[-1] / (row.size - 1)
        # Quantized weights are off by half a step of theirs, of which 127 make the largest.
        return bool(step > 0 and np.abs(row - step * np.arange(row.size)).max() <= row[-1] / 127)

    def _reals(self, name: str) -> Any:
        """Return a constant, or what a constant dequantizes to; None for anything else."""
        values, node = self._array(name), self._producers.get(name)
        if values is not None or node is None or node.op_type != "DequantizeLinear":
            return values
        values, scale = self._array(node.input[0]), self._array(node.input[1])
        zero = self._array(node.input[2]) if len(node.input) > 2 and node.input[2] else np.zeros(1)
        if any(each is None for each in (values, scale, zero)) or any(each.size != 1 for each in (scale, zero)):
            return None
        return (values.astype(np.float64) - zero.reshape(())) * scale.reshape(())

    def _found(self) -> list[_Head]:
        """Return the last convolutions as heads. Raises ArgumentError if a vector is made of all places, as in a classifier."""
        last = self._last()
        joint = self._joint(set(last))
        if joint is None and last and all(self._extents(name)[2:] == [1, 1] for name in last):
            joint = self._producers[last[0]]
        if joint is not None:
            raise ArgumentError(
                short(
                    f"detpost: the model ends like a classifier: {joint.op_type} {(joint.name or joint.output[0])!r} makes one "
                    "vector of all places, and DetPost gathers a detector's boxes from places: leave detpost out, "
                    "or name a detector's last convolutions: --heads NAME,... (in Python: DetPost(heads=[...]))"
                )
            )
        return [self._head(name) for name in last]

    def _head(self, name: str) -> _Head:
        """Return a head by the name of the convolution's result, or of the same as integers or dequantized."""
        node = self._producers.get(name)
        while node is not None and node.op_type in _QUANTIZE:
            node = self._producers.get(node.input[0])
        if node is None or node.op_type != "Conv":
            raise ArgumentError(short(f"detpost: {name!r} is no convolution's result; {self._cure()}"))
        made = node.output[0]
        shape = self._shapes.get(made, [])
        if len(shape) != 4 or not all(shape[1:]):
            raise ArgumentError(short(f"detpost: {made!r} is no feature map of known rows and columns; {self._cure()}"))
        quantizers = [reader for reader in self._readers.get(made, ()) if reader.op_type == "QuantizeLinear"]
        if not quantizers:
            raise ArgumentError(
                short(
                    f"detpost: {made!r} is not quantized: the logic gathers integers; let its convolution not stay in float"
                )
            )
        group = next((each.i for each in node.attribute if each.name == "group"), 1)
        if group != 1:
            raise ArgumentError(short(f"detpost: {made!r} is made by a convolution of {group} groups"))
        return _Head(made, node, quantizers[0], shape[1], (shape[2], shape[3]))

    def _ordered(self, level: list[_Head]) -> list[_Head]:
        """Return a level's heads with the score's first: objectness, box, classes; or classes, box."""
        if len(level) == 3:
            scores = [head for head in level if head.channels == 1]
            boxes = [head for head in level if head.channels in (4, 64)]
            if len(scores) == 1 and len(boxes) == 1:
                (classes,) = (head for head in level if head not in (*scores, *boxes))
                return [scores[0], boxes[0], classes]
        elif len(level) == 2:
            boxes = [head for head in level if head.channels in (4, 64)]
            if len(boxes) == 1:
                return [*(head for head in level if head not in boxes), boxes[0]]
        elif len(level) == 1:
            return level
        told = ", ".join(f"{head.name} ({head.channels} channels)" for head in level)
        raise ArgumentError(short(f"detpost: which of {told} has the score? {self._cure()}"))

    # ---- changing

    def _array(self, name: str) -> Any:
        import onnx

        tensor = self._constants.get(name)
        return None if tensor is None else onnx.numpy_helper.to_array(tensor)

    def _put(self, like: str, values: Any) -> str:
        import onnx

        name = self._free(f"{like}_detpost")
        self._graph.initializer.append(onnx.numpy_helper.from_array(np.ascontiguousarray(values), name))
        self._constants[name] = self._graph.initializer[-1]
        return name

    def _free(self, name: str) -> str:
        from triune.quantization._model import unused

        return unused(name, self._taken)

    def is_wide(self, head: _Head) -> bool:
        """Return whether a head's integers have 16 bits."""
        zero = self._array(head.quantizer.input[2]) if len(head.quantizer.input) > 2 else None
        return zero is not None and zero.dtype.itemsize == 2

    def _range(self, head: _Head) -> tuple[float, int, int, int]:
        """Return scale, zero point, and the lowest and highest integer of a head's result."""
        found = head.quantizer.input
        scale = self._array(found[1])
        zero = self._array(found[2]) if len(found) > 2 and found[2] else np.zeros((), np.uint8)
        if scale is None or zero is None or scale.size != 1:
            raise ArgumentError(short(f"detpost: {head.name!r} has no single scale that is known before it runs"))
        limits = np.iinfo(zero.dtype)
        return float(scale.reshape(-1)[0]), int(zero.reshape(-1)[0]), int(limits.min), int(limits.max)

    def widen(self, head: _Head, anchors: int, channels: int) -> tuple[float, str]:
        """Give a head so many channels for each anchor, and symmetric integers; return their scale and name."""
        import onnx

        scale, zero, low, high = self._range(head)
        wide = self.is_wide(head)
        most = 32767 if wide else 127
        if zero or low == 0:
            # As many steps on either side of 0 as the wider side had.
            scale *= max(zero - low, high - zero) / most
        scale = float(np.float32(scale))
        conv = onnx.NodeProto()
        conv.CopyFrom(head.conv)
        conv.name, conv.output[0] = (
            self._free(f"{head.conv.name or head.name}_detpost"),
            self._free(f"{head.name}_detpost"),
        )
        conv.input[1] = self._widened(head, conv.input[1], anchors, channels, 0)
        if len(conv.input) > 2 and conv.input[2]:
            conv.input[2] = self._widened(head, conv.input[2], anchors, channels, self._bias_scale(head))
        quantizer = onnx.NodeProto()
        quantizer.CopyFrom(head.quantizer)
        del quantizer.attribute[:]
        result = self._free(f"{head.name}_heads")
        quantizer.name = self._free(f"{result}_QuantizeLinear")
        quantizer.input[:] = [
            conv.output[0],
            self._put(f"{head.name}_scale", np.float32(scale)),
            self._put(f"{head.name}_zero", np.zeros((), np.int16 if wide else np.int8)),
        ]
        quantizer.output[:] = [result]
        self._graph.node.extend([conv, quantizer])
        return scale, result

    def _bias_scale(self, head: _Head) -> float:
        """Return the scale of a convolution's operand, which padded biases have."""
        operand = self._producers.get(head.conv.input[0])
        found = self._array(operand.input[1]) if operand is not None and operand.op_type == "DequantizeLinear" else None
        return float(found.reshape(-1)[0]) if found is not None and found.size == 1 else 1.0

    def _widened(self, head: _Head, name: str, anchors: int, channels: int, scale: float) -> str:
        """Return the name of weights or biases with channels of zeros behind those of each anchor."""
        import onnx

        values = self._array(name)
        if values is not None:
            return self._put(name, _padded(values, anchors, channels, 0))
        node = self._producers.get(name)
        if node is None or node.op_type not in _QUANTIZE:
            raise ArgumentError(
                short(f"detpost: {name!r}, an operand of the convolution of {head.name!r}, is no constant")
            )
        copied = onnx.NodeProto()
        copied.CopyFrom(node)
        copied.name = self._free(f"{node.name or name}_detpost")
        for index, given in enumerate(node.input):
            if not given:
                continue
            if index == 0:
                copied.input[0] = self._widened(head, given, anchors, channels, scale)
                continue
            values = self._array(given)
            if values is None:
                raise ArgumentError(short(f"detpost: {given!r}, of the convolution of {head.name!r}, is no constant"))
            if values.size > 1:
                fill = (scale or 1.0) if index == 1 else 0
                copied.input[index] = self._put(given, _padded(values, anchors, channels, fill))
        copied.output[0] = self._free(f"{name}_detpost")
        self._graph.node.append(copied)
        return str(copied.output[0])

    def end(self, outputs: Sequence[tuple[str, list[int]]], dtype: Any) -> None:
        """Let the model end with some tensors, and drop what is not needed for them."""
        import onnx

        kind = onnx.helper.np_dtype_to_tensor_dtype(dtype)
        del self._graph.output[:]
        self._graph.output.extend(onnx.helper.make_tensor_value_info(name, kind, shape) for name, shape in outputs)
        wanted, kept = {name for name, _ in outputs}, []
        # What was added stands behind what it reads, but for weights' own conversions, which go in front.
        for node in reversed(_sorted(list(self._graph.node))):
            if wanted.intersection(node.output):
                kept.append(node)
                wanted.update(node.input)
        del self._graph.node[:]
        self._graph.node.extend(reversed(kept))
        tensors = [tensor for tensor in self._graph.initializer if tensor.name in wanted]
        copies = [onnx.TensorProto() for _ in tensors]
        for copy, tensor in zip(copies, tensors, strict=True):
            copy.CopyFrom(tensor)
        del self._graph.initializer[:]
        self._graph.initializer.extend(copies)
        del self._graph.value_info[:]


def _padded(values: Any, anchors: int, channels: int, fill: float) -> Any:
    """Return an array whose first axis has so many entries for each anchor, `fill` where there were none."""
    own = values.reshape(anchors, -1, *values.shape[1:])
    made = np.full((anchors, channels, *values.shape[1:]), fill, values.dtype)
    made[:, : own.shape[1]] = own
    return made.reshape(anchors * channels, *values.shape[1:])


def _sorted(nodes: list[Any]) -> list[Any]:
    """Return nodes in an order in which each comes behind what it reads."""
    made = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    order: list[Any] = []
    done: set[int] = set()
    for start in range(len(nodes)):
        open_nodes = [start]
        while open_nodes:
            index = open_nodes[-1]
            if index in done:
                open_nodes.pop()
                continue
            before = [made[name] for name in nodes[index].input if name in made and made[name] not in done]
            if before:
                open_nodes.extend(before)
                continue
            done.add(index)
            order.append(nodes[index])
            open_nodes.pop()
    return order
