"""Transpositions within what spells out one operator: exporters from channels last, and optimizers, leave a value's mean in one
order of axes and what it is taken off in the other. Here all of it comes into one, so that it is found.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from triune.quantization._model import names_read, tensor_names, unused

__all__ = ["join_orders"]

_ELEMENTWISE = {
    "Abs",
    "Add",
    "Div",
    "Erf",
    "Exp",
    "HardSigmoid",
    "Identity",
    "Mul",
    "Neg",
    "Pow",
    "Reciprocal",
    "Relu",
    "Sigmoid",
    "Softplus",
    "Sqrt",
    "Sub",
    "Tanh",
}
_REDUCTIONS = {"ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "ReduceSumSquare"}
"""With the axes kept."""


@dataclass(frozen=True)
class _Order:
    """A value in two orders of axes: axis `perm[i]` of `source` is axis i of `target`."""

    source: str
    target: str
    perm: tuple[int, ...]


def join_orders(model: Any) -> None:
    """Compute what is made of a value, and then transposed, of that value transposed, where there is such a value already."""
    if not any(node.op_type == "Transpose" for node in model.graph.node):
        return
    orders = _Orders(model)
    orders.merge()
    while any(orders.join(order) for order in orders.found()):
        pass
    orders.finish()


class _Orders:
    def __init__(self, model: Any) -> None:
        graph = model.graph
        self._graph = graph
        self._nodes: list[Any] = list(graph.node)
        self._constants = {tensor.name: tensor for tensor in graph.initializer}
        self._infos = {info.name: info for info in (*graph.value_info, *graph.input, *graph.output)}
        self._results = {value.name for value in graph.output}
        self._taken = tensor_names(graph)
        self._readers: dict[str, list[Any]] = {}
        for node in self._nodes:
            for name in dict.fromkeys(names_read(node)):
                self._readers.setdefault(name, []).append(node)

    def found(self) -> list[_Order]:
        """Return the values that there are in two orders."""
        found = []
        for node in self._nodes:
            perm = _perm(node)
            if perm is not None and len(perm) > 2:
                back = tuple(perm.index(axis) for axis in range(len(perm)))
                found += [_Order(node.input[0], node.output[0], perm), _Order(node.output[0], node.input[0], back)]
        return found

    def merge(self) -> None:
        """Let one transposition of a value in one way be there."""
        known: dict[tuple[str, tuple[int, ...]], str] = {}
        for node in list(self._nodes):
            perm = _perm(node)
            if perm is None:
                continue
            first = known.setdefault((node.input[0], perm), node.output[0])
            if first != node.output[0] and node.output[0] not in self._results:
                self._drop(node, first)

    def join(self, order: _Order) -> bool:
        """Move what ends in transpositions into the other order. Return whether there was anything."""
        region = self._region(order)
        made = {node.output[0] for node in region}
        ends = [node for name in made for node in self._readers.get(name, []) if _perm(node) == order.perm]
        if not ends:
            return False
        for node in region:
            for at, name in enumerate(node.input):
                if name == order.source:
                    node.input[at] = order.target
                    self._readers[name] = [each for each in self._readers[name] if each is not node]
                    self._reads(node, order.target)
                elif name in self._constants and not (node.op_type in _REDUCTIONS and at == 1):
                    node.input[at] = self._moved(name, order.perm)
            if node.op_type in _REDUCTIONS:
                self._turn_axes(node, order.perm)
            info = self._infos.get(node.output[0])
            if info is not None:
                dims = [type(dim).FromString(dim.SerializeToString()) for dim in info.type.tensor_type.shape.dim]
                for dim, axis in zip(info.type.tensor_type.shape.dim, order.perm, strict=False):
                    dim.CopyFrom(dims[axis])
        for node in ends:
            self._drop(node, node.input[0])
        return True

    def finish(self) -> None:
        """Write the nodes back, each behind what it reads."""
        makers = {name: at for at, node in enumerate(self._nodes) for name in node.output}
        wanted = [{makers[name] for name in names_read(node) if name in makers} for node in self._nodes]
        readers: dict[int, list[int]] = {}
        for at, before in enumerate(wanted):
            for each in before:
                readers.setdefault(each, []).append(at)
        ready = [at for at, before in enumerate(wanted) if not before]
        ordered = []
        while ready:
            at = heapq.heappop(ready)
            ordered.append(self._nodes[at])
            for reader in readers.get(at, []):
                wanted[reader].discard(at)
                if not wanted[reader]:
                    heapq.heappush(ready, reader)
        nodes = [type(node).FromString(node.SerializeToString()) for node in ordered]
        del self._graph.node[:]
        self._graph.node.extend(nodes)

    def _region(self, order: _Order) -> list[Any]:
        """Return what is made of the source alone, and read by itself and by transpositions into the target's order."""
        rank, made, region = len(order.perm), {order.source}, []
        open_ = list(self._readers.get(order.source, []))
        while open_:
            node = open_.pop()
            if self._takes(node, made, rank) and node.output[0] not in made:
                region.append(node)
                made.add(node.output[0])
                open_ += self._readers.get(node.output[0], [])
        while True:
            made = {order.source} | {node.output[0] for node in region}
            kept = [node for node in region if self._takes(node, made, rank) and self._stays(node, region, order.perm)]
            if len(kept) == len(region):
                return region
            region = kept

    def _takes(self, node: Any, made: set[str], rank: int) -> bool:
        if node.domain not in ("", "ai.onnx") or len(node.output) != 1:
            return False
        if node.op_type in _REDUCTIONS:
            return node.input[0] in made and self._rank(node.input[0]) == rank and self._axes(node) is not None
        if node.op_type not in _ELEMENTWISE or self._rank(node.output[0]) != rank:
            return False
        data = [name for name in node.input if name not in self._constants]
        constants = [name for name in node.input if name in self._constants]
        whole = all(len(self._constants[name].dims) <= rank for name in constants)
        return whole and bool(data) and all(name in made for name in data)

    def _stays(self, node: Any, region: Sequence[Any], perm: tuple[int, ...]) -> bool:
        name = node.output[0]
        readers = self._readers.get(name, [])
        return name not in self._results and all(
            any(reader is each for each in region) or (_perm(reader) == perm and reader.output[0] not in self._results)
            for reader in readers
        )

    def _rank(self, name: str) -> int | None:
        info = self._infos.get(name)
        known = info is not None and info.type.tensor_type.HasField("shape")
        return len(info.type.tensor_type.shape.dim) if info is not None and known else None

    def _axes(self, node: Any) -> list[int] | None:
        """Return the axes of a reduction that keeps them."""
        from onnx import helper, numpy_helper

        given = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
        if not given.get("keepdims", 1) or given.get("noop_with_empty_axes", 0):
            return None
        if len(node.input) > 1 and node.input[1]:
            tensor = self._constants.get(node.input[1])
            return None if tensor is None else [int(axis) for axis in numpy_helper.to_array(tensor).reshape(-1)]
        return list(given["axes"]) if "axes" in given else None

    def _turn_axes(self, node: Any, perm: tuple[int, ...]) -> None:
        from onnx import helper

        axes = self._axes(node)
        assert axes is not None
        turned = sorted(perm.index(axis % len(perm)) for axis in axes)
        if len(node.input) > 1 and node.input[1]:
            node.input[1] = self._add(node.input[1], np.array(turned, np.int64))
            return
        for attribute in node.attribute:
            if attribute.name == "axes":
                attribute.CopyFrom(helper.make_attribute("axes", turned))

    def _moved(self, name: str, perm: tuple[int, ...]) -> str:
        """Return the name of a constant in the other order."""
        from onnx import numpy_helper

        values = numpy_helper.to_array(self._constants[name])
        if values.size == 1:
            return name
        return self._add(name, values.reshape((1,) * (len(perm) - values.ndim) + values.shape).transpose(perm))

    def _add(self, name: str, values: Any) -> str:
        from onnx import numpy_helper

        fresh = unused(f"{name}:moved", self._taken)
        tensor = numpy_helper.from_array(np.ascontiguousarray(values), fresh)
        self._graph.initializer.append(tensor)
        self._constants[fresh] = tensor
        return fresh

    def _reads(self, node: Any, name: str) -> None:
        readers = self._readers.setdefault(name, [])
        if not any(node is each for each in readers):
            readers.append(node)

    def _drop(self, node: Any, instead: str) -> None:
        """Take a transposition away, whose readers read something else."""
        name = node.output[0]
        for reader in self._readers.pop(name, []):
            for at, own in enumerate(reader.input):
                if own == name:
                    reader.input[at] = instead
            self._reads(reader, instead)
        self._nodes = [each for each in self._nodes if each is not node]
        self._readers[node.input[0]] = [each for each in self._readers.get(node.input[0], []) if each is not node]


def _perm(node: Any) -> tuple[int, ...] | None:
    """Return the order that a transposition makes."""
    if node.op_type != "Transpose" or node.domain not in ("", "ai.onnx"):
        return None
    return next((tuple(attribute.ints) for attribute in node.attribute if attribute.name == "perm"), None)
