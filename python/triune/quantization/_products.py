"""Products as devices have them: a matrix for a vector, what is added behind if it or the weights are computed, one product for
what an Einsum with constant weights says.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from triune.quantization._model import Array, attribute, names_read, tensor_names, unused

__all__ = ["write_products"]

_ONNX = ("", "ai.onnx")

_CONVOLUTIONS = ("Conv", "ConvTranspose")

_MOVES = ("Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze")

_FAR = -1000.0
"""What a place of scores holds at most that is to have no share."""

Dims = list[int | None]


def write_products(model: Any) -> None:
    """Write products with a constant vector as ones with a matrix of one column, those with constants on the left, with
    a matrix per head for one value, or by an Einsum with constant weights as a Conv of points or a MatMul, and a Gemm of two
    values as a MatMul. A bias that is computed, that comes to weights that are, or that is not one number per channel is
    added behind. A choice between scores and a number far below, for a Softmax, is a sum.
    """
    writer = _Writer(model.graph)
    nodes = list(model.graph.node)
    for node in nodes:
        writer.write(node)
    writer.finish()


class _Writer:
    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self._constants = {tensor.name: tensor for tensor in graph.initializer}
        values = (*graph.value_info, *graph.input, *graph.output)
        self._infos = {value.name: value.type.tensor_type for value in values}
        self._taken = tensor_names(graph)
        self._outputs = {value.name for value in graph.output}
        self._readers: dict[str, list[Any]] = {}
        for node in graph.node:
            for name in names_read(node):
                self._readers.setdefault(name, []).append(node)
        self.nodes: list[Any] = []

    def write(self, node: Any) -> None:
        """Add a node, or those that take its place."""
        dims = self._dims(node.output[0]) if node.output and node.domain in _ONNX else None
        weights = self._constants.get(node.input[1]) if len(node.input) > 1 else None
        if node.domain not in _ONNX:
            self.nodes.append(node)
        elif node.op_type == "Gemm":
            self._gemm(node, weights is not None)
        elif node.op_type in _CONVOLUTIONS and not self._is_plain(node):
            rank = len(weights.dims) if weights is not None else len(dims or ())
            if rank:
                self._bias_behind(node, dims or [None] * rank)
            else:
                self.nodes.append(node)
        elif dims and node.op_type == "MatMul" and weights is not None and len(weights.dims) == 1:
            node.input[1] = self.put(self._array(node.input[1])[:, None], f"{weights.name}_column")
            self._behind(node, [*dims, 1], "Squeeze", self.put(np.array([-1]), f"{node.output[0]}_axes"))
        elif node.op_type == "Where" and self._hides_scores(node):
            self._hiding(node)
        elif not dims or not (self._einsum(node) if node.op_type == "Einsum" else self._matrices(node)):
            self.nodes.append(node)

    def _hides_scores(self, node: Any) -> bool:
        """Say whether a Where puts a number far below in the place of some values that only become a Softmax's shares."""
        far = [each for each in node.input[1:] if each in self._constants]
        if len(far) != 1:
            return False
        number = self._array(far[0])
        if number.dtype != np.float32 or number.size != 1 or not number.item() <= _FAR:
            return False
        left = [node.output[0]]
        while left:
            name = left.pop()
            readers = self._readers.get(name, [])
            if name in self._outputs or not readers:
                return False
            for reader in readers:
                if reader.op_type in _MOVES and reader.domain in _ONNX and reader.input[0] == name:
                    left.append(reader.output[0])
                elif reader.op_type != "Softmax":
                    return False
        return True

    def _hiding(self, node: Any) -> None:
        """Add the sum of scores and a mask, of 0 and a number far below."""
        condition, result = node.input[0], node.output[0]
        at = 1 if node.input[1] in self._constants else 2
        scores, far = node.input[3 - at], self._array(node.input[at]).reshape(())
        choice = [far, np.zeros_like(far)] if at == 1 else [np.zeros_like(far), far]
        if condition in self._constants:
            mask = self.put(np.where(self._array(condition), *choice), f"{result}_mask")
        else:
            mask = self.value(f"{result}_mask", self._dims(condition) or [])
            numbers = [self.put(each, f"{result}_choice") for each in choice]
            self.nodes.append(_node("Where", [condition, *numbers], mask))
        self.nodes.append(_node("Add", [scores, mask], result, node.name))

    def _is_plain(self, node: Any) -> bool:
        """Say whether a product has no bias, or one of constants beside constant weights, one number per channel."""
        name = node.input[2] if len(node.input) > 2 else ""
        constant = name in self._constants and len(self._constants[name].dims) == 1
        return name == "" or (constant and node.input[1] in self._constants)

    def _bias_behind(self, node: Any, dims: Dims) -> None:
        """Add a convolution without its bias, and the bias behind it."""
        bias, ones = node.input[2], [1] * (len(dims) - 2)
        del node.input[2]
        if bias in self._constants:
            addend = self.put(self._array(bias).reshape(-1, *ones), f"{node.output[0]}_addend")
        else:
            shape = self.put(np.array([-1, *ones], np.int64), f"{node.output[0]}_bias_shape")
            addend = self.value(f"{node.output[0]}_bias", [None, *ones])
            self.nodes.append(_node("Reshape", [bias, shape], addend))
        self._behind(node, dims, "Add", addend)

    def _gemm(self, node: Any, constant: bool) -> None:
        """Add a Gemm of constant weights with a bias per channel as it is, and any other in its parts."""
        turned, plain = attribute(node, "transA", 0), self._is_plain(node)
        if constant and plain and not turned:
            self.nodes.append(node)
            return
        result = node.output[0]
        dims = self._dims(result) or [None, None]
        addend = node.input[2] if len(node.input) > 2 and not (constant and plain) else ""
        factors = {entry.name: entry.f for entry in node.attribute if entry.name in ("alpha", "beta")}
        for name in ("transA", *(("alpha", "beta") if addend or not constant else ())):
            for entry in [entry for entry in node.attribute if entry.name == name]:
                node.attribute.remove(entry)
        if turned:
            node.input[0] = self._turned(node.input[0], f"{result}_left")
        if addend:
            addend = self._scaled(addend, factors.get("beta", 1.0), f"{result}_addend")
        if addend or not constant:
            del node.input[2:]
        if not constant:
            if attribute(node, "transB", 0):
                node.input[1] = self._turned(node.input[1], f"{result}_right")
            del node.attribute[:]
            node.op_type = "MatMul"
            if factors.get("alpha", 1.0) != 1.0:
                self._behind(node, dims, "Mul", self.put(np.array(factors["alpha"], np.float32), f"{result}_factor"))
                node = self.nodes.pop()
        if addend:
            self._behind(node, dims, "Add", addend)
        else:
            self.nodes.append(node)

    def _turned(self, name: str, stem: str) -> str:
        turned = self.value(stem, [None, None])
        self.nodes.append(_node("Transpose", [name], turned, perm=[1, 0]))
        return turned

    def _scaled(self, name: str, factor: float, stem: str) -> str:
        if factor == 1.0:
            return name
        if name in self._constants:
            values = self._array(name)
            return self.put(values * np.asarray(factor, values.dtype), stem)
        scaled = self.value(stem, self._dims(name) or [None, None])
        self.nodes.append(_node("Mul", [name, self.put(np.array(factor, np.float32), f"{stem}_factor")], scaled))
        return scaled

    def finish(self) -> None:
        """Write the nodes back, without constants that nobody reads any more."""
        graph = self._graph
        del graph.node[:]
        graph.node.extend(self.nodes)
        read = {name for node in self.nodes for name in names_read(node)} | {value.name for value in graph.output}
        for tensor in [tensor for tensor in graph.initializer if tensor.name not in read]:
            graph.initializer.remove(tensor)

    def _dims(self, name: str) -> Dims | None:
        known = self._infos.get(name)
        if known is None or not known.HasField("shape"):
            return None
        return [dim.dim_value or None for dim in known.shape.dim]

    def _array(self, name: str) -> Array:
        from onnx import numpy_helper

        found: Array = numpy_helper.to_array(self._constants[name])
        return found

    def put(self, values: Array, name: str) -> str:
        """Add a constant; return its name."""
        from onnx import numpy_helper

        name = unused(name, self._taken)
        self._graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def _behind(self, node: Any, dims: Dims, operator: str, operand: str) -> None:
        """Add a node whose result has these extents, and an operator between that and who reads it."""
        result = node.output[0]
        node.output[0] = self.value(result, dims)
        self.nodes.append(node)
        self.nodes.append(_node(operator, [node.output[0], operand], result))

    def value(self, stem: str, dims: Dims) -> str:
        """Name a value of these extents."""
        from onnx import TensorProto, helper

        name = unused(f"{stem}_product", self._taken)
        self._graph.value_info.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, dims))
        return name

    def _einsum(self, node: Any) -> bool:
        """Add what an Einsum of a value and constant weights is, if it is one product."""
        terms, _, out = str(attribute(node, "equation", "")).replace(" ", "").partition("->")
        labels = terms.split(",")
        known = [name in self._constants for name in node.input]
        if sorted(known) != [False, True] or not out or len(labels) != 2 or "." in terms:
            return False
        at = known.index(True)
        return self._contraction(node, node.input[1 - at], labels[1 - at], self._array(node.input[at]), labels[at], out)

    def _matrices(self, node: Any) -> bool:
        """Add what a MatMul is whose constants are on the left, or have a matrix per head for one value."""
        known = [name in self._constants for name in node.input]
        if node.op_type != "MatMul" or sorted(known) != [False, True]:
            return False
        at = known.index(True)
        dims, weights = self._dims(node.input[1 - at]), self._array(node.input[at])
        if not dims or len(dims) < 2 or weights.ndim == 0 or max(len(dims), weights.ndim) > 10:
            return False
        outer = max(len(dims), weights.ndim) - 2
        values = [0] * (outer + 2 - len(dims)) + dims[:-2]
        matrices = [0] * (outer + 2 - max(weights.ndim, 2)) + list(weights.shape[:-2])
        x = w = out = ""
        extents: list[int] = []
        for label, extent, many in zip("ABCDEFGH", values, matrices, strict=False):
            out += label
            if extent == 1 and many > 1:
                # The value's axis of 1 is summed over, with one of 1 that the weights get.
                x, w, extents = x + label.lower(), w + label.lower() + label, [*extents, 1, many]
                continue
            x += label if extent != 0 else ""
            if many > 1 or extent == 0:
                w, extents = w + label, [*extents, many]
        if at == 1 and (not extents or (set(w) <= set(x) and len(dims) == weights.ndim == 3)):
            return False
        sides, result = (("kn", "k" if weights.ndim == 1 else "mk"), "n" if weights.ndim == 1 else "mn")
        if at == 1:
            sides, result = ("mk", "kn"), "mn"
        weights = weights.reshape(*extents, *weights.shape[-2:])
        return self._contraction(node, node.input[1 - at], x + sides[0], weights, w + sides[1], out + result)

    def _contraction(self, node: Any, source: str, x: str, weights: Array, w: str, out: str) -> bool:
        """Add what a sum of products of a value and constant weights is, each axis under its label, if it is one product."""
        dims = self._dims(source)
        once = all(len(set(each)) == len(each) for each in (x, w, out))
        summed = [label for label in x if label in w and label not in out]
        rows = [label for label in x if label not in w]
        columns = [label for label in out if label in w and label not in x]
        shared = [label for label in out if label in w and label in x]
        closed = set(out) == {*rows, *columns, *shared} and set(w) == {*summed, *columns, *shared}
        if (
            not once
            or not closed
            or not summed
            or not rows
            or dims is None
            or weights.dtype != np.float32
            or not weights.size
        ):
            return False
        size: dict[str, int | None] = dict(zip(x, dims, strict=True)) | dict(zip(w, weights.shape, strict=True))
        if shared and sum(size[label] is None for label in rows) > 1:
            return False
        spelled = _Spelled(self, node, size)
        if not shared and len(columns) == 1 and len(x) > 2 and summed == [x[1]] and out == f"{x[0]}{columns[0]}{x[2:]}":
            points = _ordered(weights, w, [*columns, *summed]).reshape(size[columns[0]] or 1, -1, *[1] * (len(x) - 2))
            spelled.product("Conv", source, points, list(out), kernel_shape=[1] * (len(x) - 2))
            return spelled.finish()
        matrix = _ordered(weights, w, [*shared, *summed, *columns])
        many = [int(np.prod([size[label] or 1 for label in each])) for each in (summed, columns)]
        matrix = matrix.reshape(*[size[label] or 1 for label in shared], *many)
        value = spelled.order(source, list(x), [*shared, *rows, *summed])
        if len(summed) > 1 or (shared and len(rows) > 1):
            value = spelled.join(value, shared, rows, many[0])
        joined = [*shared, *(["rows"] if shared else rows), "columns"]
        size |= {"rows": None, "columns": many[1]}
        if shared and all(size[label] is not None for label in rows):
            size["rows"] = int(np.prod([size[label] or 1 for label in rows]))
        value = spelled.product("MatMul", value, matrix, joined)
        found = [*shared, *rows, *columns]
        if len(columns) != 1 or (shared and len(rows) > 1):
            value = spelled.part(value, found, keep=0 if shared else len(rows))
        spelled.order(value, found, list(out))
        return spelled.finish()


class _Spelled:
    """The nodes that an Einsum becomes: the last of them makes its result."""

    def __init__(self, writer: _Writer, node: Any, size: dict[str, int | None]) -> None:
        self._writer = writer
        self._node = node
        self._size = size

    def order(self, name: str, labels: list[str], wanted: list[str]) -> str:
        """Bring axes into another order."""
        if labels == wanted:
            return name
        return self._add("Transpose", [name], wanted, perm=[labels.index(label) for label in wanted])

    def join(self, name: str, shared: Sequence[str], rows: Sequence[str], many: int) -> str:
        """Let the axes that are summed over be one, and beside shared ones the rows, too."""
        kept = [self._size[label] or 1 for label in shared] if shared else [0] * len(rows)
        extents = [*kept, *([-1] if shared else []), many]
        shape = np.array(extents, np.int64)
        self._size |= {"summed": many, "joined": None}
        labels = [*shared, *(["joined"] if shared else rows), "summed"]
        return self._add("Reshape", [name, self._writer.put(shape, f"{self._node.output[0]}_shape")], labels)

    def part(self, name: str, labels: list[str], keep: int) -> str:
        """Let every label have an axis of its own; the first `keep` have one already."""
        extents = [0] * keep + [self._size[label] or -1 for label in labels[keep:]]
        shape = np.array(extents, np.int64)
        return self._add("Reshape", [name, self._writer.put(shape, f"{self._node.output[0]}_shape")], labels)

    def product(self, operator: str, name: str, weights: Array, labels: list[str], **attributes: Any) -> str:
        """Multiply by constant weights, under the name of the Einsum."""
        constant = self._writer.put(weights, f"{self._node.output[0]}_weights")
        return self._add(operator, [name, constant], labels, name=self._node.name, **attributes)

    def finish(self) -> bool:
        """Let the last node make the Einsum's result."""
        self._writer.nodes[-1].output[0] = self._node.output[0]
        return True

    def _add(self, operator: str, inputs: list[str], labels: Iterable[str], name: str = "", **attributes: Any) -> str:
        writer, result = self._writer, self._node.output[0]
        made = writer.value(result, [self._size[label] for label in labels])
        writer.nodes.append(_node(operator, inputs, made, name, **attributes))
        return made


def _ordered(weights: Array, labels: str, wanted: Sequence[str]) -> Array:
    return weights.transpose([labels.index(label) for label in wanted])


def _node(operator: str, inputs: list[str], result: str, name: str = "", **attributes: Any) -> Any:
    from onnx import helper

    return helper.make_node(operator, inputs, [result], name, **attributes)
