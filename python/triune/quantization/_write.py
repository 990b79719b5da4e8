"""A float model with QuantizeLinear and DequantizeLinear round its integer operators.

Every tensor that an integer operator makes or reads has one scale; what only moves elements keeps the scale of what it reads,
and each part of a Concat its own. A Relu or Clip behind a product or a sum is part of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from triune.quantization._grams import Gram, gram_of
from triune.quantization._model import LIMITS, PRODUCTS, Array, ByChannel, Function, Network, tensor_names, unused
from triune.quantization._scales import Integers, Parameters, find_parameters, parameters_of
from triune.quantization._shares import FAR, Shares
from triune.quantization._statistics import Distribution, Moments
from triune.quantization._weights import QuantizedWeights, quantize_weights

__all__ = ["INTEGERS", "Found", "Layout", "Recipe", "Written", "write"]

INTEGERS = {
    "s8": Integers(-128, 127, False, np.int8),
    "u8": Integers(0, 255, False, np.uint8),
    "s16": Integers(-32767, 32767, True, np.int16),
}
"""The types of activations."""

_ALIKE = 0.5
"""Parts of a Concat whose ranges are at least this much of the whole's share its scale."""

FUNCTIONS: dict[str, Function] = {
    "Gelu": lambda x: x / (1 + np.exp(-1.702 * np.clip(x, -40, 40))),
    "HardSigmoid": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
    "HardSwish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "Mish": lambda x: x * np.tanh(np.log1p(np.exp(np.clip(x, -40, 40)))),
    "SiLU": lambda x: x / (1 + np.exp(-np.clip(x, -40, 40))),
    "Sigmoid": lambda x: 1 / (1 + np.exp(-np.clip(x, -40, 40))),
    "Softplus": lambda x: np.logaddexp(0, x),
    "Tanh": np.tanh,
}
"""Functions that are flat somewhere, near enough to weigh errors by."""

_ONE_INTERNAL = PRODUCTS | {"Add", "Mul", "Sub"}
"""What takes a Relu or Clip behind it into itself."""


@dataclass(frozen=True)
class Recipe:
    """How integers are made."""

    act: str = "s8"
    method: str = "mse"
    per_channel: bool = True
    bias_correction: bool = True

    @property
    def bits(self) -> int:
        """The width of most integers."""
        return 16 if self.act == "s16" else 8


class Layout:
    """Which operators are integer ones, of which width, and which tensors share a scale."""

    def __init__(self, network: Network, floats: Iterable[int], bits: int, wide: Iterable[int] = ()) -> None:
        """`floats` stay in float, `wide` have 16 bits, the others `bits`."""
        self.network = network
        self.floats = set(floats)
        self.wide = set(wide)
        self.bits = bits
        self.shares = Shares(network)
        self._widths: dict[int, int] = {}
        self._roots: dict[str, str] = {}
        # In the order of the graph, which is that of the data.
        for index, node in enumerate(network.nodes):
            if index in self.floats:
                continue
            maker = network.makers.get(node.input[0])
            inherits = network.moves(node) or node.op_type in LIMITS
            if inherits and maker in self._widths:
                self._widths[index] = self._widths[maker]
            else:
                self._widths[index] = 16 if index in self.wide else bits
            if network.moves(node) and not self.is_internal(node.input[0]):
                for name in node.output:
                    self._roots[name] = self.root(node.input[0])

    def width(self, index: int) -> int | None:
        """Return the width of a node's integers, None if it stays in float."""
        return self._widths.get(index)

    def made_with(self, name: str) -> int | None:
        """Return the width of the integers that a tensor is made as."""
        maker = self.network.makers.get(name)
        return None if maker is None else self.width(maker)

    def root(self, name: str) -> str:
        """Return the tensor whose scale this one has."""
        return self._roots.get(name, name)

    def is_internal(self, name: str) -> bool:
        """Return whether a tensor is between a product or a sum and its limit alone, and is never rounded."""
        network = self.network
        maker, readers = network.makers.get(name), network.readers.get(name, [])
        if maker is None or len(readers) != 1 or name in network.outputs:
            return False
        both = maker not in self.floats and readers[0] not in self.floats
        return both and network.nodes[maker].op_type in _ONE_INTERNAL and network.nodes[readers[0]].op_type in LIMITS

    def activations(self, index: int) -> list[int]:
        """Return which operands of an integer operator are quantized as activations."""
        node = self.network.nodes[index]
        found = self.network.data(node)
        if node.op_type in PRODUCTS and self.network.weights(node) is not None:
            found = [at for at in found if at != 1]
        return found

    def tensors(self, *, every: bool = False) -> list[str]:
        """Return the tensors whose ranges are wanted: one for each scale, without constants.

        With `every`, those that other layouts with fewer integer operators may want, too.
        """
        names: dict[str, None] = {}
        for index in self._widths:
            node = self.network.nodes[index]
            for name in [*(node.input[at] for at in self.activations(index)), *filter(None, node.output)]:
                if not self.network.is_constant(name) and (every or not self.is_internal(name)):
                    names[name if every else self.root(name)] = None
        return list(names)

    def products(self) -> list[int]:
        """Return the integer products with constant weights."""
        nodes = self.network.nodes
        return [index for index in self._widths if self.network.weights(nodes[index]) is not None]

    def moments(self) -> dict[str, int]:
        """Return the tensors that products read, with the axis of their channels."""
        nodes = self.network.nodes
        return {nodes[index].input[0]: -1 if nodes[index].op_type == "MatMul" else 1 for index in self.products()}

    def grams(self) -> dict[str, dict[str, Gram]]:
        """Return what is to see the operands that products round their weights by: by the operand, by the result."""
        found: dict[str, dict[str, Gram]] = {}
        for index in self.products():
            node = self.network.nodes[index]
            gram = gram_of(self.network, node)
            if gram is not None:
                found.setdefault(node.input[0], {})[node.output[0]] = gram
        return found

    def groups(self) -> dict[str, list[npt.NDArray[np.intp]]]:
        """Return the tensors of whose channels a function makes different things, in groups of those it treats alike."""
        return {name: [part.channels for part in each.parts] for name, each in self.network.by_channel.items()}

    def function(self, name: str) -> Function | ByChannel | None:
        """Return the function that alone reads a tensor, if there is one."""
        network = self.network
        if name in network.by_channel:
            return network.by_channel[name]
        readers = [network.nodes[index] for index in network.readers.get(name, [])]
        if not readers or name in network.outputs:
            return None
        first = readers[0]
        if len(readers) == 1:
            return network.functions.get((name, first.output[0]), FUNCTIONS.get(first.op_type))
        # x · sigmoid(x), in two operators that both read x.
        gates = [reader for reader in readers if reader.op_type == "Sigmoid"]
        products = [reader for reader in readers if reader.op_type == "Mul"]
        if len(readers) == 2 and len(gates) == len(products) == 1:
            gate, product = gates[0], products[0]
            alone = network.readers.get(gate.output[0], []) == [network.makers[product.output[0]]]
            if alone and gate.output[0] not in network.outputs and {*product.input} == {name, gate.output[0]}:
                return FUNCTIONS["SiLU"]
        return None

    def kept_whole(self) -> set[str]:
        """Return the tensors of which nothing may be clipped: those that leave the integer part, and those that are summed up.

        What is rare there is what is looked for; and in a sum, errors of rounding cancel, while what was clipped is missing.
        """
        network = self.network
        found: set[str] = set()
        for name in {*network.makers, *network.inputs}:
            readers = network.readers.get(name, [])
            summed = any(network.nodes[reader].op_type == "ReduceSum" for reader in readers)
            if name in network.outputs or summed or any(reader in self.floats for reader in readers):
                found.add(self.root(name))
        return found


@dataclass
class Found:
    """What is found once for all layouts: searches take their time."""

    parameters: dict[tuple[str, int, str], Parameters] = field(default_factory=dict)
    weights: dict[tuple[str, int, float], QuantizedWeights] = field(default_factory=dict)


@dataclass
class Written:
    """A quantized model, and what its weights were."""

    model: Any
    parameters: dict[str, Parameters] = field(default_factory=dict)
    """Of each quantized tensor, by the float tensor's name; where it has two, the one that it is made with."""
    reals: dict[str, Array] = field(default_factory=dict)
    """What each constant of integers was before rounding, by its name."""


def write(
    layout: Layout,
    distributions: Mapping[str, Distribution],
    moments: Mapping[str, Moments],
    recipe: Recipe,
    found: Found | None = None,
    grams: Mapping[str, Gram] | None = None,
) -> Written:
    """Return the model of `layout` in QDQ form, with ranges from `distributions`.

    `found` is what was found for other layouts of the same network with the same recipe; `grams` says by results' names what
    products' weights are rounded by.
    """
    return _Writer(layout, distributions, moments, recipe, found if found is not None else Found(), grams or {}).run()


class _Writer:
    def __init__(
        self,
        layout: Layout,
        distributions: Mapping[str, Distribution],
        moments: Mapping[str, Moments],
        recipe: Recipe,
        found: Found,
        grams: Mapping[str, Gram],
    ) -> None:
        import onnx

        self._layout = layout
        self._network = layout.network
        self._distributions = distributions
        self._moments = moments
        self._recipe = recipe
        self._whole = layout.kept_whole()
        self._found = found
        self._grams = grams
        self._constants: dict[tuple[str, int], str] = {}
        self._joins: dict[str, str] = {}
        self._taken = tensor_names(self._network.model.graph)
        self._taken_nodes = {node.name for node in self._network.model.graph.node}
        self._own: dict[str, str] = {}
        self._nodes: list[Any] = []
        self._initializers: dict[str, Any] = {}
        model = onnx.ModelProto()
        model.CopyFrom(self._network.model)
        self._written = Written(model)
        imports = {entry.domain: entry.version for entry in model.opset_import}
        self._wide_domain = "" if max(imports.get("", 0), imports.get("ai.onnx", 0)) >= 21 else "com.microsoft"
        self._used_domain = False

    def run(self) -> Written:
        """Write everything."""
        import onnx

        network, layout = self._network, self._layout
        self._join_parts()
        for name in network.inputs:
            self._quantize_made(name)
        for index, node in enumerate(network.nodes):
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            width = layout.width(index)
            if width is None:
                for at, name in enumerate(node.input):
                    made = layout.made_with(name)
                    if made is not None and name not in network.outputs and not layout.is_internal(name):
                        copy.input[at] = self._real_name(name, made)
            else:
                self._integer_operands(index, copy, width)
                for at, name in enumerate(node.output):
                    copy.output[at] = self._made_name(name)
            self._nodes += self._operators(node, copy)
            for name in node.output:
                self._quantize_made(name)
        model = self._written.model
        del model.graph.node[:]
        model.graph.node.extend(self._nodes)
        read = {name for node in self._nodes for name in node.input} | set(network.outputs)
        read |= {name for name, readers in network.readers.items() if any(r in layout.floats for r in readers)}
        for tensor in [tensor for tensor in model.graph.initializer if tensor.name not in read]:
            model.graph.initializer.remove(tensor)
        model.graph.initializer.extend(self._initializers.values())
        if self._used_domain and all(entry.domain != "com.microsoft" for entry in model.opset_import):
            model.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
        model.producer_name = "triune"
        return self._written

    def _operators(self, node: Any, copy: Any) -> list[Any]:
        """Return the operators that a node stands for, with the operands and the result that its copy has."""
        import onnx

        members = self._network.operators(node)
        if len(members) == 1 and members[0] is node:
            return [copy]
        renamed = dict(zip([*node.input, *node.output], [*copy.input, *copy.output], strict=True))
        found = []
        for member in members:
            own = onnx.NodeProto()
            own.CopyFrom(member)
            for names in (own.input, own.output):
                names[:] = [renamed.get(name, name) for name in names]
            found.append(own)
        return found

    def _join_parts(self) -> None:
        """Give parts of a Concat its scale where theirs would be much the same: rounding twice is worse than once.

        A part of another range keeps its own up to the Concat, and so does one that others read.
        """
        network, layout = self._network, self._layout
        # From the last to the first, so that a Concat that is a part itself has its own joined already.
        for index in reversed(range(len(network.nodes))):
            node, width = network.nodes[index], layout.width(index)
            if node.op_type != "Concat" or width is None:
                continue
            whole = self._parameters(node.output[0], width)
            for name in dict.fromkeys(node.input):
                root, only = layout.root(name), network.readers[name] == [index]
                alone = root == name and only and name not in network.outputs and layout.made_with(name) == width
                if not alone or network.moves(network.nodes[network.makers[name]]):
                    continue
                part = self._parameters(name, width)
                if _ALIKE * (whole.high - whole.low) <= part.high - part.low:
                    self._joins[name] = self._joins.get(node.output[0], layout.root(node.output[0]))

    def _integer_operands(self, index: int, copy: Any, width: int) -> None:
        node, network, layout = self._network.nodes[index], self._network, self._layout
        for at in layout.activations(index):
            name = node.input[at]
            if network.is_constant(name):
                copy.input[at] = self._constant(name, width)
            elif not layout.is_internal(name):
                copy.input[at] = self._real_name(name, width)
        if network.weights(node) is not None:
            self._put_weights(node, copy, width)

    def _made_name(self, name: str) -> str:
        """Return what a tensor is called before it is rounded: an output that is made as integers is so behind rounding."""
        rounded = name in self._network.outputs and self._layout.made_with(name) is not None
        return self._name(f"{name}_real") if rounded else name

    def _real_name(self, name: str, width: int) -> str:
        """Return what a tensor is called when it has been rounded to integers of this width."""
        made = self._layout.made_with(name)
        if name in self._network.outputs and made == width:
            return name
        return self._name(f"{name}_dequantized{self._suffix(width)}")

    def _name(self, name: str) -> str:
        """Return what a tensor of the writer's is called: always the same, and as no tensor of the model is."""
        if name not in self._own:
            self._own[name] = unused(name, self._taken)
        return self._own[name]

    def _suffix(self, width: int) -> str:
        """Return what tells names of the fewer integers from those of most."""
        return "" if width == self._layout.bits else str(width)

    def _quantize_made(self, name: str) -> None:
        """Round a tensor behind what makes it, once for each width that it is read with."""
        layout, network = self._layout, self._network
        if not name or layout.is_internal(name):
            return
        made = layout.made_with(name)
        widths = dict.fromkeys([made] if made is not None else [])
        for reader in network.readers.get(name, []):
            width = layout.width(reader)
            if width is not None and any(network.nodes[reader].input[at] == name for at in layout.activations(reader)):
                widths[width] = None
        for width in widths:
            source = self._made_name(name) if made in (width, None) else self._real_name(name, made)
            self._pair(name, source, self._real_name(name, width), width)
            if width == made or name not in self._written.parameters:
                self._written.parameters[name] = self._parameters(name, width)

    def _pair(self, name: str, source: str, result: str, width: int) -> None:
        """Put a QuantizeLinear and a DequantizeLinear in between."""
        found = self._parameters(name, width)
        suffix = self._suffix(width)
        integers = self._name(f"{name}_quantized{suffix}")
        root = self._joins.get(self._layout.root(name), self._layout.root(name))
        scale = self._put(f"{root}_scale{suffix}", np.asarray(found.scale, np.float32))
        zero = self._put(f"{root}_zero_point{suffix}", np.asarray(found.zero_point, found.integers.dtype))
        self._add("QuantizeLinear", [source, scale, zero], integers, width)
        self._add("DequantizeLinear", [integers, scale, zero], result, width)

    def _add(self, kind: str, inputs: list[str], output: str, width: int, **attributes: Any) -> None:
        import onnx

        domain = self._wide_domain if width == 16 else ""
        self._used_domain |= domain != ""
        name = unused(f"{output}_{kind}", self._taken_nodes)
        self._nodes.append(onnx.helper.make_node(kind, inputs, [output], name, domain=domain, **attributes))

    def _integers(self, width: int) -> Integers:
        return INTEGERS["s16" if width == 16 else self._recipe.act]

    def _parameters(self, name: str, width: int) -> Parameters:
        root = self._joins.get(self._layout.root(name), self._layout.root(name))
        method = "minmax" if root in self._whole else self._recipe.method
        known, key = self._found.parameters, (root, width, method)
        if key not in known:
            seen, floor = self._distributions[root], self._floor(root)
            if seen.low < floor:
                known[key] = parameters_of(floor, seen.high, self._integers(width))
            else:
                known[key] = find_parameters(seen, self._integers(width), method, self._layout.function(root))
        return known[key]

    def _floor(self, name: str) -> float:
        """Return the number below which a mask is as good as any other below it; −∞ for other tensors."""
        spans = []
        for other in self._layout.shares.addends.get(name, []):
            values = self._network.constant(other)
            if values is not None:
                spans.append(float(values.max(initial=0)) - float(values.min(initial=0)))
                continue
            held = self._distributions.get(self._layout.root(other))
            if held is None or not np.isfinite(held.low):
                return -np.inf
            spans.append(held.high - held.low)
        return -(max(spans) + FAR) if spans else -np.inf

    def _put(self, name: str, values: Array, real: Array | None = None) -> str:
        from onnx import numpy_helper

        name = self._name(name)
        if name not in self._initializers:
            self._initializers[name] = numpy_helper.from_array(np.ascontiguousarray(values).reshape(values.shape), name)
            if real is not None:
                self._written.reals[name] = real
        return name

    def _constant(self, name: str, width: int) -> str:
        """Round a constant operand as activations are."""
        if (name, width) not in self._constants:
            values = self._network.constant(name)
            assert values is not None
            integers = self._integers(width)
            low, high = max(float(values.min(initial=0)), self._floor(name)), float(values.max(initial=0))
            found = parameters_of(low, high, integers)
            steps = np.rint(values.astype(np.float64) / found.scale) + found.zero_point
            suffix = self._suffix(width)
            rounded = np.clip(steps, integers.low, integers.high).astype(integers.dtype)
            operands = [
                self._put(f"{name}_quantized{suffix}", rounded),
                self._put(f"{name}_scale{suffix}", np.asarray(found.scale, np.float32)),
                self._put(f"{name}_zero_point{suffix}", np.asarray(found.zero_point, integers.dtype)),
            ]
            self._constants[name, width] = self._name(f"{name}_dequantized{suffix}")
            self._add("DequantizeLinear", operands, self._constants[name, width], width)
        return self._constants[name, width]

    def _put_weights(self, node: Any, copy: Any, width: int) -> None:
        """Round a product's weights and bias."""
        operand = self._parameters(node.input[0], width)
        key = (node.output[0], width, operand.scale)
        if key not in self._found.weights:
            self._found.weights[key] = quantize_weights(
                self._network,
                node,
                operand.scale,
                self._moments.get(node.input[0]),
                self._grams.get(node.output[0]),
                bits=width,
                per_channel=self._recipe.per_channel,
                search=self._recipe.method != "minmax",
                correct=self._recipe.bias_correction,
            )
        found = self._found.weights[key]
        # Weights that several products share have scales for each.
        shared = len(self._network.readers[node.input[1]]) > 1
        name = self._name(f"{node.input[1]}_of_{node.output[0]}") if shared else node.input[1]
        copy.input[1] = self._dequantized(name, found.values, found.scales, found.axis, width, found.real)
        if found.bias is not None:
            named = len(node.input) > 2 and node.input[2]
            bias = node.input[2] if named else self._name(f"{node.output[0]}_bias")
            if len(self._network.readers.get(bias, [])) > 1:
                bias = self._name(f"{bias}_of_{node.output[0]}")
            made = self._dequantized(bias, found.bias, found.bias_scales, 0, 8, found.real_bias)
            while len(copy.input) < 3:
                copy.input.append("")
            copy.input[2] = made

    def _dequantized(self, name: str, values: Array, scales: Array, axis: int, width: int, real: Array | None) -> str:
        """Put integer constants behind a DequantizeLinear, and return its result's name."""
        one = scales.size == 1
        if one:
            scales = scales.reshape(())
        zeros = np.zeros(scales.shape, values.dtype)
        operands = [
            self._put(f"{name}_quantized", values, real),
            self._put(f"{name}_scale", scales),
            self._put(f"{name}_zero_point", zeros),
        ]
        result = self._name(f"{name}_dequantized")
        self._add("DequantizeLinear", operands, result, width, **({} if one else {"axis": axis}))
        return result
