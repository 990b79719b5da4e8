"""An ONNX model as the quantizer sees it: read, and once it is prepared, indexed by tensor.

Knows which operators there are and which of their operands are data; knows nothing of scales.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from triune._kinds import ONNX, misread
from triune._text import short
from triune.errors import ArgumentError, FileError, FormatError

__all__ = [
    "FUNCTION",
    "LIMITS",
    "MOVES",
    "PRODUCTS",
    "QUANTIZED",
    "Array",
    "ByChannel",
    "Floats",
    "Function",
    "Network",
    "Part",
    "Refused",
    "attribute",
    "drop_unread",
    "extract_outputs",
    "node_names",
    "read",
    "subgraphs",
    "tensor_names",
    "unused",
]

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Function = Callable[[Floats], Floats]
"""What is made of each of some values."""

QUANTIZED = {
    "ConvInteger",
    "DequantizeLinear",
    "DynamicQuantizeLinear",
    "MatMulInteger",
    "QLinearConv",
    "QLinearMatMul",
    "QuantizeLinear",
}
"""Operators of models that are quantized already."""

PRODUCTS = {"Conv", "ConvTranspose", "Gemm", "MatMul"}
"""What accelerators are for: sums of products, which the rest of a network is arranged around."""

LIMITS = {"Relu", "Clip"}
"""What a product or a sum does on its way out, for free."""

MOVES = {
    "DepthToSpace",
    "Expand",
    "Flatten",
    "Gather",
    "GlobalMaxPool",
    "Identity",
    "MaxPool",
    "Pad",
    "ReduceMax",
    "Reshape",
    "Resize",
    "Slice",
    "SpaceToDepth",
    "Split",
    "Squeeze",
    "Tile",
    "Transpose",
    "Unsqueeze",
}
"""What gives elements of its first operand back, so that they keep their scale; `Network.moves` knows the exceptions."""

FUNCTION = "Function"
"""What the operators of a function of one value are together."""

_COMPUTED = {
    FUNCTION,
    "Add",
    "AveragePool",
    "BatchNormalization",
    "Celu",
    "Concat",
    "Einsum",
    "Elu",
    "Gelu",
    "GlobalAveragePool",
    "HardSigmoid",
    "HardSwish",
    "LayerNormalization",
    "LeakyRelu",
    "Max",
    "Min",
    "Mish",
    "Mul",
    "PRelu",
    "RMSNormalization",
    "ReduceMean",
    "ReduceSum",
    "Selu",
    "Sigmoid",
    # What onnxruntime calls RMSNormalization in operator sets before 23, in ONNX's own domain.
    "SimplifiedLayerNormalization",
    "Softmax",
    "Softplus",
    "Sub",
    "Tanh",
}
"""What has an integer form, with a scale of its own for the result."""

_OTHER_FLOATS = ("FLOAT16", "BFLOAT16", "DOUBLE")

_MANY = {"Add", "Concat", "Einsum", "MatMul", "Max", "Min", "Mul", "Sub"}
"""What has data in all its operands; the others have it in the first one alone."""


class Refused(Exception):
    """A model that cannot be quantized, for a reason that is known."""


def read(source: Path) -> Any:
    """Return the model without its external data.

    Raises FileError if it cannot be read, FormatError if it is no ONNX model.
    """
    import onnx

    try:
        model = onnx.load(source, load_external_data=False)
    except OSError as error:
        raise FileError(f"cannot read {source}: {error.strerror or error}") from None
    except Exception as error:
        # The parser's own exception, which is another one with every version.
        raise _damaged(source, " ".join(str(error).split())) from None
    if not model.opset_import:
        raise _damaged(source, "no import of an operator set")
    return model


def _damaged(source: Path, why: str) -> FormatError:
    error = FormatError(short(f"{source}: not an ONNX model, or a damaged one: {why}"))
    error.format = "ONNX"
    return misread(error, source, str(source), (ONNX,))


def extract_outputs(model: Any, names: Sequence[str]) -> None:
    """End a model at some tensors, in their order; a node's name stands for what it makes. Drops what only the rest needed."""
    import onnx

    graph = model.graph
    made = {name: node for node in graph.node for name in node.output if name}
    by_node = {node.name: list(node.output) for node in graph.node if node.name}
    known = {value.name: value for value in (*graph.output, *graph.value_info, *graph.input)}
    wanted: list[str] = []
    for name in names:
        if name not in made and name not in by_node:
            raise ArgumentError(f"outputs: the model has no tensor or node {name!r}{_similar(name, [*made, *by_node])}")
        wanted += [name] if name in made else [output for output in by_node[name] if output]
    if len(set(wanted)) != len(wanted):
        raise ArgumentError(f"outputs: one tensor twice in {', '.join(names)}")
    try:
        inferred = onnx.shape_inference.infer_shapes(model)
        known |= {value.name: value for value in inferred.graph.value_info}
    except Exception:
        # Too large, or of operators that nobody knows: then the runtime finds the types.
        inferred = None
    values = [known.get(name) or onnx.helper.make_empty_tensor_value_info(name) for name in wanted]
    if unknown := [value.name for value in values if not value.type.HasField("tensor_type")]:
        raise ArgumentError(f"outputs: nothing says what type {unknown[0]!r} has")
    del graph.output[:]
    graph.output.extend(values)
    drop_unread(graph)


def drop_unread(graph: Any) -> None:
    """Take away the nodes and constants of a graph of which none of its outputs is made."""
    needed = {value.name for value in graph.output}
    for node in reversed(graph.node):
        if needed & set(node.output):
            needed |= set(node.input) | _captured(node)
    for node in [node for node in graph.node if not needed & set(node.output)]:
        graph.node.remove(node)
    for tensor in [tensor for tensor in graph.initializer if tensor.name not in needed]:
        graph.initializer.remove(tensor)


def unused(name: str, taken: set[str]) -> str:
    """Return a name like this one that is not taken, and take it."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def names_read(node: Any) -> list[str]:
    """Return what a node and its subgraphs read of what is around them."""
    return [name for name in [*node.input, *sorted(_captured(node))] if name]


def subgraphs(node: Any) -> list[Any]:
    """Return the graphs that a node has among its attributes."""
    return [graph for entry in node.attribute for graph in [*entry.graphs, *([entry.g] if entry.HasField("g") else [])]]


def _captured(node: Any) -> set[str]:
    """Return what a node's subgraphs may take from around them."""
    names: set[str] = set()
    for graph in subgraphs(node):
        for inner in graph.node:
            names |= set(inner.input) | _captured(inner)
        names |= {value.name for value in graph.output}
    return names


def tensor_names(graph: Any) -> set[str]:
    """Return the names of a graph's tensors, and of those of its subgraphs; also of those whose type alone it states."""
    lists = (graph.input, graph.output, graph.initializer, graph.value_info)
    found = {value.name for values in lists for value in values}
    found |= {tensor.values.name for tensor in graph.sparse_initializer}
    for node in graph.node:
        found |= {*node.input, *node.output}
        for inner in subgraphs(node):
            found |= tensor_names(inner)
    return found


def node_names(graph: Any) -> set[str]:
    """Return the names of a graph's nodes, and of those of its subgraphs."""
    found = {node.name for node in graph.node}
    for node in graph.node:
        for inner in subgraphs(node):
            found |= node_names(inner)
    return found


def _similar(name: str, names: Iterable[str]) -> str:
    found = get_close_matches(name, names, 1)
    return f"; is it {found[0]!r}?" if found else ""


def attribute(node: Any, name: str, default: Any) -> Any:
    """Return an attribute of a node, or what it is when it is left out."""
    import onnx

    for entry in node.attribute:
        if entry.name == name:
            value = onnx.helper.get_attribute_value(entry)
            return value.decode() if isinstance(value, bytes) else value
    return default


@dataclass(frozen=True)
class Part:
    """Some channels of a tensor."""

    channels: npt.NDArray[np.intp]
    function: Function
    """What alone reads them."""
    weight: float
    """How much their mean squared error counts."""


@dataclass(frozen=True)
class ByChannel:
    """A tensor of whose channels a function makes different things."""

    parts: tuple[Part, ...]


class Network:
    """A prepared model with its nodes by what they make and read.

    Nodes are known by their number in the graph, tensors by their name.
    """

    def __init__(self, model: Any) -> None:
        from onnx import TensorProto, numpy_helper

        graph = model.graph
        self.model = model
        self.functions: dict[tuple[str, str], Function] = {}
        """What a group of operators makes of values, by its operand and its result."""
        self.by_channel: dict[str, ByChannel] = {}
        """What a function makes of a tensor's channels that have factors of their own."""
        self.runners: dict[bytes, Any] = {}
        """Sessions on what groups do, by their models."""
        self._to_array = numpy_helper.to_array
        self._groups: dict[str, list[Any]] = {}
        self._inside: dict[str, str] = {}
        self.nodes: list[Any] = list(graph.node)
        self._tensors = {tensor.name: tensor for tensor in graph.initializer}
        self.inputs = [value.name for value in graph.input if value.name not in self._tensors]
        self.outputs = [value.name for value in graph.output]
        self._index()
        infos = [*graph.value_info, *graph.input, *graph.output]
        types = {info.name: info.type.tensor_type.elem_type for info in infos if info.type.HasField("tensor_type")}
        types |= {tensor.name: tensor.data_type for tensor in graph.initializer}
        self._floats = {name for name, dtype in types.items() if dtype == TensorProto.FLOAT}
        others = {TensorProto.DataType.Value(name): name.lower() for name in _OTHER_FLOATS}
        self._other_floats = {name: others[dtype] for name, dtype in types.items() if dtype in others}
        self._shapes = {
            info.name: tuple(dim.dim_param or dim.dim_value for dim in info.type.tensor_type.shape.dim)
            for info in infos
            if info.type.tensor_type.HasField("shape")
        }

    def _index(self) -> None:
        self.makers = {name: index for index, node in enumerate(self.nodes) for name in node.output if name}
        self.readers: dict[str, list[int]] = {}
        for index, node in enumerate(self.nodes):
            for name in dict.fromkeys(names_read(node)):
                self.readers.setdefault(name, []).append(index)

    def join(self, groups: Iterable[tuple[Sequence[int], Any]]) -> None:
        """Let each of these groups of nodes be one node, at the place of its last. The model stays as it is."""
        last: dict[int, Any] = {}
        gone: set[int] = set()
        for order, node in groups:
            members = [self.nodes[at] for at in order]
            # An operator that there is stands for itself.
            self._groups[node.output[0]] = [node] if node.op_type == "Softmax" else members
            for member in members:
                self._inside |= dict.fromkeys([member.name, *filter(None, member.output)], node.output[0])
            last[order[-1]] = node
            gone |= set(order)
        self.nodes = [
            last.get(index, node) for index, node in enumerate(self.nodes) if index in last or index not in gone
        ]
        self._index()

    def enclose(self, rows: Mapping[int, tuple[Array, Array]]) -> None:
        """Multiply the channels of nodes' operands by a row each, and those of their results by another, inside of the nodes."""
        graph = self.model.graph
        taken, taken_nodes = tensor_names(graph), node_names(graph)
        for index, (before, after) in rows.items():
            self.nodes[index] = self._enclosed(self.nodes[index], before, after, taken, taken_nodes)
        self._index()
        written = [operator for each in self.nodes for operator in self.operators(each)]
        del graph.node[:]
        graph.node.extend(written)

    def _enclosed(self, node: Any, before: Array, after: Array, taken: set[str], taken_nodes: set[str]) -> Any:
        from onnx import TensorProto, helper, numpy_helper

        source, result = node.input[0], node.output[0]
        inner = [unused(f"{source}_unscaled", taken), unused(f"{result}_unscaled", taken)]
        rank = self.rank(source) or 4
        factors = []
        for name, row in ((source, before), (result, after)):
            factors.append(unused(f"{name}_factors", taken))
            shaped = np.asarray(row, np.float32).reshape(-1, *[1] * (rank - 2))
            tensor = numpy_helper.from_array(shaped, factors[-1])
            self.model.graph.initializer.append(tensor)
            self._tensors[tensor.name] = self.model.graph.initializer[-1]
        names = [unused(f"{node.name}_{where}", taken_nodes) for where in ("unscaled", "scaled")]
        members = [helper.make_node("Mul", [source, factors[0]], [inner[0]], names[0])]
        renamed = {source: inner[0], result: inner[1]}
        for member in self.operators(node):
            own = type(member)()
            own.CopyFrom(member)
            for side in (own.input, own.output):
                side[:] = [renamed.get(name, name) for name in side]
            members.append(own)
        members.append(helper.make_node("Mul", [inner[1], factors[1]], [result], names[1]))
        self._floats |= {*inner, *factors}
        for name, outer in zip(inner, (source, result), strict=True):
            if outer in self._shapes:
                self._shapes[name] = self._shapes[outer]
                shape = [extent or None for extent in self._shapes[outer]]
                self.model.graph.value_info.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        self._groups[result] = members
        for member in members:
            self._inside |= dict.fromkeys([member.name, *member.output], result)
        return helper.make_node(FUNCTION, [*node.input, *factors], [result], node.name)

    def operators(self, node: Any) -> list[Any]:
        """Return the operators that a node is in the file: itself, or those of a group."""
        return self._groups.get(node.output[0], [node]) if node.output else [node]

    def is_constant(self, name: str) -> bool:
        """Return whether a tensor is one of the file's."""
        return name in self._tensors

    def constant(self, name: str) -> Array | None:
        """Return a constant's values."""
        tensor = self._tensors.get(name)
        return None if tensor is None else self._to_array(tensor)

    def put(self, name: str, values: Array) -> None:
        """Give a constant other values."""
        from onnx import numpy_helper

        self._tensors[name].CopyFrom(numpy_helper.from_array(np.ascontiguousarray(values), name))

    def rank(self, name: str) -> int | None:
        """Return how many axes a tensor has, if that is known."""
        shape = self._shapes.get(name)
        return None if shape is None else len(shape)

    def shape(self, name: str) -> tuple[int | str, ...] | None:
        """Return a tensor's extents, or the names of those that are open, if all are known."""
        shape = self._shapes.get(name)
        return shape if shape is not None and all(shape) else None

    def is_float(self, name: str) -> bool:
        """Return whether a tensor holds float32."""
        return name in self._floats

    def other_float(self, node: Any) -> str:
        """Return the type of floats other than float32 that a node computes on; empty if it does not."""
        return next(
            (self._other_floats[name] for name in [*node.input, *node.output] if name in self._other_floats), ""
        )

    def data(self, node: Any) -> list[int]:
        """Return which operands of a node are data: not shapes, indices, limits or weights that belong to it."""
        correlates = node.op_type == "Conv" and not self.is_constant(node.input[1])
        many = correlates or node.op_type in _MANY or not self.has_integer_form(node)
        operands = range(len(node.input)) if many else range(min(1, len(node.input)))
        return [at for at in operands if node.input[at] and self.is_float(node.input[at])]

    def moves(self, node: Any) -> bool:
        """Return whether the results are elements of the first operand."""
        kind = node.op_type
        if kind == "Resize":
            return bool(attribute(node, "mode", "nearest") == "nearest")
        if kind == "Pad" and attribute(node, "mode", "constant") == "constant" and len(node.input) > 2:
            # Zero is in every range; another fill is a value of its own.
            fill = self.constant(node.input[2]) if node.input[2] else np.zeros(1)
            return fill is not None and not fill.any()
        return kind in MOVES

    def has_integer_form(self, node: Any) -> bool:
        """Return whether accelerators have this operator over integers at all."""
        kind = node.op_type
        if kind == "PRelu" and not self._has_row(node.input[1]):
            return False
        if kind in ("Max", "Min") and not self._are_alike(node.input):
            return False
        if kind == "Einsum" and (len(node.input) != 2 or any(map(self.is_constant, node.input))):
            # It is a product of two that are computed.
            return False
        return node.domain in ("", "ai.onnx") and (kind in PRODUCTS | LIMITS | MOVES | _COMPUTED)

    def _are_alike(self, names: Sequence[str]) -> bool:
        """Return whether these are several tensors of one shape, none of them constant."""
        shapes = {self.shape(name) for name in names}
        return len(names) > 1 and len(shapes) == 1 and None not in shapes and not any(map(self.is_constant, names))

    def _has_row(self, name: str) -> bool:
        """Return whether a tensor is a constant of one element, or of elements along one axis."""
        tensor = self._tensors.get(name)
        return tensor is not None and sum(extent != 1 for extent in tensor.dims) <= 1

    def weights(self, node: Any) -> Array | None:
        """Return the constant weights of a product."""
        return self.constant(node.input[1]) if node.op_type in PRODUCTS and len(node.input) > 1 else None

    def find(self, name: str, option: str) -> list[int]:
        """Return the nodes that a name stands for, which is a node's or that of a tensor that it makes.

        Raises ArgumentError if there is none.
        """
        named = [index for index, node in enumerate(self.nodes) if node.name == name]
        if named:
            return named
        name = self._inside.get(name, name)
        if name in self.makers:
            return [self.makers[name]]
        names = [node.name for node in self.nodes] + [*self.makers, *self._inside]
        raise ArgumentError(f"{option}: the model has no node or tensor {name!r}{_similar(name, names)}")
