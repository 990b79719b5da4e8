"""Operators without an integer form, spelled out as those that have one: attention, and division by a length.

What makes a length is spelled as a root of a mean of squares, which is found as one normalization then, with its squares rounded
nowhere.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from triune.quantization._model import Array, attribute, drop_unread, tensor_names, unused

__all__ = ["spell_out"]

_ONNX = ("", "ai.onnx")

_AXES_OPSET = 18
"""The first operator set in which the axes of a mean are an operand."""

_LEAST = 1e-6
"""A floor of a length up to which it changes nothing but of vectors that are as short."""

_TINY = 1e-30
"""What is added to a mean of squares at least, so that nothing is divided by 0."""

_HIDDEN = -1e4
"""What is added to a score that is not to count: its share is 0 in float32."""


def spell_out(model: Any, but: Container[str] = ()) -> None:
    """Spell out what can be in a model whose types and shapes are known; not the nodes with names, or results, in `but`."""
    graph = _Graph(model)
    nodes = list(model.graph.node)
    made: dict[int, list[Any]] = {}
    for index, node in enumerate(nodes):
        if node.domain not in _ONNX or any(name in but for name in (node.name, *node.output)):
            continue
        if node.op_type == "Attention":
            spelled = _attention(graph, node)
        elif node.op_type == "LpNormalization" and attribute(node, "p", 2) == 2:
            axis = int(attribute(node, "axis", -1))
            spelled = _by_length(graph, node, _Length(node.input[0], (axis,), 0.0))
        elif node.op_type == "Div":
            found = _length_of(graph, node.input[1])
            spelled = _by_length(graph, node, found) if found and found.value == node.input[0] else []
        else:
            continue
        if spelled:
            made[index] = spelled
    if not made:
        return
    del model.graph.node[:]
    model.graph.node.extend(each for index, node in enumerate(nodes) for each in made.get(index, [node]))
    drop_unread(model.graph)


class _Graph:
    def __init__(self, model: Any) -> None:
        from onnx import numpy_helper

        self._graph = model.graph
        self._taken = tensor_names(model.graph)
        self._infos = {
            each.name: each.type.tensor_type
            for each in (*self._graph.value_info, *self._graph.input, *self._graph.output)
        }
        self.constants = {each.name: numpy_helper.to_array(each) for each in self._graph.initializer}
        self.makers = {name: node for node in self._graph.node for name in node.output}
        self.opset = max(entry.version for entry in model.opset_import if entry.domain in _ONNX)

    def dims(self, name: str) -> list[int] | None:
        """Return a tensor's extents, 0 for those that are not known, None if it is not known how many there are."""
        info = self._infos.get(name)
        return None if info is None or not info.HasField("shape") else [dim.dim_value for dim in info.shape.dim]

    def is_float(self, name: str) -> bool:
        """Return whether a tensor holds float32."""
        from onnx import TensorProto

        info = self._infos.get(name)
        return info is not None and info.elem_type == TensorProto.FLOAT

    def constant(self, values: Any, near: str) -> str:
        """Put a constant into the graph."""
        from onnx import numpy_helper

        name = unused(f"{near}_operand", self._taken)
        array = np.ascontiguousarray(values)
        self._graph.initializer.append(numpy_helper.from_array(array, name))
        self.constants[name] = array
        return name

    def tensor(self, near: str, dims: Sequence[int]) -> str:
        """Return a name for a tensor of float32 of such extents."""
        from onnx import TensorProto, helper

        name = unused(near, self._taken)
        info = helper.make_tensor_value_info(name, TensorProto.FLOAT, [extent or None for extent in dims])
        self._graph.value_info.append(info)
        self._infos[name] = info.type.tensor_type
        return name


class _Chain:
    """Nodes that are made for one."""

    def __init__(self, graph: _Graph, node: Any) -> None:
        self.graph = graph
        self.nodes: list[Any] = []
        self._node = node
        self._near = node.name or node.output[0]

    def add(
        self, kind: str, inputs: Sequence[str], dims: Sequence[int], *, last: bool = False, **attributes: Any
    ) -> str:
        """Append an operator; return its result's name."""
        from onnx import helper

        result = self._node.output[0] if last else self.graph.tensor(f"{self._near}_{kind}", dims)
        name = self._node.name if last else f"{self._near}_{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [result], name, **attributes))
        return result

    def operand(self, values: Any) -> str:
        """Put a constant into the graph."""
        return self.graph.constant(values, self._near)


# ---- lengths ----


@dataclass(frozen=True)
class _Length:
    """The root of a sum of squares along axes, which are kept."""

    value: str
    axes: tuple[int, ...]
    floor: float
    """How short it is at least, or what is added to it."""


def _length_of(graph: _Graph, name: str) -> _Length | None:
    """Return what a tensor is the length of, with a floor under it; None if it is none."""
    floor = 0.0
    while True:
        node = graph.makers.get(name)
        if node is None or node.domain not in _ONNX:
            return None
        if node.op_type in ("Expand", "Identity"):
            name = node.input[0]
            continue
        if node.op_type not in ("Add", "Clip", "Max") or floor:
            break
        number, name = _floor(graph, node)
        if number is None:
            return None
        floor = number
    if node.op_type == "ReduceL2":
        axes = _axes(graph, node)
        return None if axes is None else _Length(node.input[0], axes, floor)
    if node.op_type != "Sqrt":
        return None
    total = graph.makers.get(node.input[0])
    if total is not None and total.op_type == "Add" and not floor:
        number, inner = _floor(graph, total)
        if number is None:
            return None
        floor, total = float(np.sqrt(number)), graph.makers.get(inner)
    if total is None or total.op_type not in ("ReduceSum", "ReduceSumSquare"):
        return None
    axes, value = _axes(graph, total), total.input[0]
    if total.op_type == "ReduceSum":
        squares = graph.makers.get(value)
        if squares is None:
            return None
        twice = squares.op_type == "Mul" and squares.input[0] == squares.input[1]
        power = squares.op_type == "Pow" and _number(graph, squares.input[1]) == 2
        if not (twice or power):
            return None
        value = squares.input[0]
    return None if axes is None else _Length(value, axes, floor)


def _floor(graph: _Graph, node: Any) -> tuple[float | None, str]:
    """Return the number under a value, or added to it, and the value; no number if it is not one that matters little."""
    if node.op_type == "Clip":
        least = _number(graph, node.input[1]) if len(node.input) > 1 and node.input[1] else attribute(node, "min", None)
        has_most = (len(node.input) > 2 and node.input[2]) or attribute(node, "max", None) is not None
        return (None if has_most else _small(least)), node.input[0]
    if len(node.input) != 2:
        return None, ""
    for own, other in (node.input, reversed(node.input)):
        number = _small(_number(graph, other))
        if number is not None:
            return number, own
    return None, ""


def _small(number: float | None) -> float | None:
    return number if number is not None and 0 <= number <= _LEAST else None


def _number(graph: _Graph, name: str) -> float | None:
    values = graph.constants.get(name)
    return float(values.reshape(-1)[0]) if values is not None and values.size == 1 else None


def _axes(graph: _Graph, node: Any) -> tuple[int, ...] | None:
    """Return the axes of a reduction that keeps them."""
    if not attribute(node, "keepdims", 1):
        return None
    given: Any = attribute(node, "axes", None)
    if given is None and len(node.input) > 1 and node.input[1]:
        given = graph.constants.get(node.input[1])
    return None if given is None else tuple(int(axis) for axis in np.asarray(given).reshape(-1))


def _by_length(graph: _Graph, node: Any, length: _Length) -> list[Any]:
    """Return a division by a length as one by a root of a mean, times a number; nothing where it is not known of how many."""
    dims = graph.dims(length.value)
    # What is put under a length, or what it is expanded to, may have more elements than the value.
    if dims is None or not graph.is_float(length.value) or graph.dims(node.output[0]) != dims:
        return []
    axes = sorted({axis % len(dims) for axis in length.axes})
    count = int(np.prod([dims[axis] for axis in axes]))
    if not axes or count == 0:
        return []
    kept = [1 if axis in axes else extent for axis, extent in enumerate(dims)]
    chain = _Chain(graph, node)
    squares = chain.add("Mul", [length.value, length.value], dims)
    listed: dict[str, Any] = {"axes": axes} if graph.opset < _AXES_OPSET else {}
    operands = [squares] if listed else [squares, chain.operand(np.array(axes, np.int64))]
    mean = chain.add("ReduceMean", operands, kept, keepdims=1, **listed)
    more = chain.add("Add", [mean, chain.operand(np.float32(max(length.floor**2 / count, _TINY)))], kept)
    root = chain.add("Sqrt", [more], kept)
    normal = chain.add("Div", [length.value, root], dims)
    chain.add("Mul", [normal, chain.operand(np.float32(count**-0.5))], dims, last=True)
    return chain.nodes


# ---- attention ----


def _attention(graph: _Graph, node: Any) -> list[Any]:
    """Return attention as its products, Softmax and what is between; nothing where there is more to it than these."""
    inputs = [*node.input, *[""] * (7 - len(node.input))]
    others = any(inputs[4:]) or any(node.output[1:]) or attribute(node, "softcap", 0.0)
    shapes = [graph.dims(name) for name in inputs[:3]]
    if others or not all(map(graph.is_float, inputs[:3])) or any(dims is None for dims in shapes):
        return []
    q, k, v = (dims or [] for dims in shapes)
    heads, shared = int(attribute(node, "q_num_heads", 0)), int(attribute(node, "kv_num_heads", 0))
    flat = len(q) == 3
    if not flat:
        heads, shared = q[1], k[1]
    if not heads or not shared or heads % shared or {len(q), len(k), len(v)} != {3 if flat else 4}:
        return []
    places, keys = q[-2], k[-2]
    widths = [each[-1] // (own if flat else 1) for each, own in ((q, heads), (k, shared), (v, shared))]
    if not all([places, keys, *widths]):
        return []
    chain = _Chain(graph, node)
    hidden = _hidden(chain, inputs[3], (places, keys), causal=bool(attribute(node, "is_causal", 0)))
    if hidden is None:
        return []
    split = [q[0], heads, places, widths[0]], [k[0], shared, keys, widths[1]], [v[0], shared, keys, widths[2]]
    values = [_headed(chain, name, dims, flat=flat) for name, dims in zip(inputs[:3], split, strict=True)]
    if shared < heads:
        alike = chain.operand(np.repeat(np.arange(shared), heads // shared))
        for at in (1, 2):
            extents = [split[at][0], heads, *split[at][2:]]
            values[at] = chain.add("Gather", [values[at], alike], extents, axis=1)
    turned = chain.add("Transpose", [values[1]], [k[0], heads, widths[1], keys], perm=[0, 1, 3, 2])
    extents = [q[0], heads, places, keys]
    scores = chain.add("MatMul", [values[0], turned], extents)
    scale = attribute(node, "scale", None) or widths[0] ** -0.5
    scores = chain.add("Mul", [scores, chain.operand(np.float32(scale))], extents)
    for name in hidden:
        scores = chain.add("Add", [scores, name], extents)
    shares = chain.add("Softmax", [scores], extents, axis=-1)
    made = [q[0], heads, places, widths[2]]
    if not flat:
        chain.add("MatMul", [shares, values[2]], made, last=True)
        return chain.nodes
    result = chain.add("MatMul", [shares, values[2]], made)
    result = chain.add("Transpose", [result], [q[0], places, heads, widths[2]], perm=[0, 2, 1, 3])
    shape = chain.operand(np.array([0, 0, heads * widths[2]], np.int64))
    chain.add("Reshape", [result, shape], [q[0], places, heads * widths[2]], last=True)
    return chain.nodes


def _headed(chain: _Chain, name: str, dims: Sequence[int], *, flat: bool) -> str:
    """Return an operand as image, head, place, element."""
    if not flat:
        return name
    image, heads, places, width = dims
    shape = chain.operand(np.array([0, 0, heads, width], np.int64))
    split = chain.add("Reshape", [name, shape], [image, places, heads, width])
    return chain.add("Transpose", [split], dims, perm=[0, 2, 1, 3])


def _hidden(chain: _Chain, mask: str, extents: tuple[int, int], *, causal: bool) -> list[str] | None:
    """Return what is added to scores; None where that is not known."""
    found: list[str] = []
    constant: Array | None = None
    if causal:
        constant = np.where(np.tri(*extents, dtype=bool), 0, _HIDDEN)
    if mask:
        values = chain.graph.constants.get(mask)
        if values is None and not chain.graph.is_float(mask):
            return None
        if values is None:
            found.append(mask)
        else:
            added = np.where(values, 0, _HIDDEN) if values.dtype == np.bool_ else np.maximum(values, _HIDDEN)
            if added.shape[-1:] != extents[1:]:
                return None
            constant = added if constant is None else np.maximum(added + constant, _HIDDEN)
    if constant is not None:
        found.append(chain.operand(constant.astype(np.float32)))
    return found
