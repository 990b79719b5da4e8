"""Operators that spell out one: functions of a value, normalizations, a softmax. What is between them is never rounded.

Exporters write a LayerNormalization as nine operators, a Gelu as five. Rounded one by one, squares and variances would share
eight bits with what they come from; as one operator only its operand and its result are rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from triune.quantization._model import (
    FUNCTION,
    LIMITS,
    PRODUCTS,
    Array,
    Floats,
    Function,
    Network,
    attribute,
)
from triune.quantization._statistics import session

__all__ = ["function_of", "join_groups"]

_SMOOTH = {
    "Abs",
    "Celu",
    "Clip",
    "Cos",
    "Elu",
    "Erf",
    "Exp",
    "Gelu",
    "HardSigmoid",
    "HardSwish",
    "LeakyRelu",
    "Log",
    "Mish",
    "Neg",
    "Reciprocal",
    "Relu",
    "Selu",
    "Sigmoid",
    "Sin",
    "Softplus",
    "Sqrt",
    "Tanh",
}
"""Functions of one value."""

_ARITHMETIC = {"Add", "Div", "Max", "Min", "Mul", "Pow", "Sub"}
_POWERS = {0.5, 1.0, 2.0, 3.0}
_REDUCTIONS = {
    "GlobalAveragePool",
    "ReduceL1",
    "ReduceL2",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceSum",
    "ReduceSumSquare",
}
_SPREADING = {"Expand", "Max", "Min", "Identity"}
"""What may be between a reduction and the value that it is to be divided by, besides functions."""

_MOST = 24
"""Operators of a group."""

_DEEPEST = 4
"""Products and quotients of one another, of a normalization."""

_REACH = 20.0
_STEEPEST = 4.0
"""How far from 0 a function may be how steep: what is steeper makes more of an operand's rounding than 8 bits bear."""


def join_groups(network: Network, *, wide: bool = False) -> None:
    """Let every group of operators of a network be one operator.

    With `wide` there are integers of 16 bits: of functions, only those are joined of which a part has no integer form.
    """
    taken: set[int] = set()
    groups: list[tuple[list[int], Any]] = []
    for find in (_normalization, _Functions(wide)):
        for sink in reversed(range(len(network.nodes))):
            found = None if sink in taken else find(network, sink)
            if found is None or taken & set(found[0]):
                continue
            groups.append(found)
            taken |= set(found[0])
    network.join(groups)


# ---- what closes on one value ----


class _Growth:
    """What is between a tensor and what it is made of, one operator more at a time."""

    def __init__(self, network: Network, sink: int, may: Callable[[Any], bool]) -> None:
        self.network = network
        self.members = {sink}
        self._sink = sink
        self._may = may

    @property
    def open(self) -> list[str]:
        """The tensors that the members read and do not make, without constants."""
        network, made = self.network, {name for at in self.members for name in self.network.nodes[at].output}
        read = (name for at in sorted(self.members) for name in network.nodes[at].input if name)
        return [name for name in dict.fromkeys(read) if name not in made and not network.is_constant(name)]

    def source(self) -> str | None:
        """Return the one tensor that the members are made of, if nobody else reads what is between."""
        network, left = self.network, self.open
        if len(left) != 1 or not network.is_float(left[0]):
            return None
        inner = {name for at in self.members - {self._sink} for name in network.nodes[at].output}
        if inner & set(network.outputs) or any(set(network.readers.get(name, [])) - self.members for name in inner):
            return None
        return left[0]

    def grow(self) -> int | None:
        """Take in the last of the operators before; None if it may not be."""
        makers = [self.network.makers.get(name) for name in self.open]
        known = [maker for maker in makers if maker is not None]
        if not known or len(self.members) >= _MOST:
            return None
        last = max(known)
        if not self._may(self.network.nodes[last]):
            return None
        self.members.add(last)
        return last


def _alone(network: Network, name: str) -> int | None:
    """Return the one operator that reads a tensor."""
    readers = network.readers.get(name, [])
    return readers[0] if len(readers) == 1 and name not in network.outputs else None


def _composite(network: Network, members: set[int], source: str, kind: str) -> tuple[list[int], Any]:
    import onnx

    order = sorted(members)
    last = network.nodes[order[-1]]
    constants = (name for at in order for name in network.nodes[at].input if network.is_constant(name))
    inputs = [source, *dict.fromkeys(constants)]
    return order, onnx.helper.make_node(kind, inputs, list(last.output), last.name)


def _operand(network: Network, name: str, *kinds: str) -> Any:
    """Return the operator that makes a tensor if it is of these kinds."""
    maker = network.makers.get(name)
    node = None if maker is None else network.nodes[maker]
    return node if node is not None and node.op_type in kinds else None


def _scalar(network: Network, name: str) -> float | None:
    values = network.constant(name)
    return float(values.reshape(-1)[0]) if values is not None and values.size == 1 else None


# ---- normalizations ----


def _normalization(network: Network, sink: int) -> tuple[list[int], Any] | None:
    """Return what divides a value by a reduction of itself, with factors and addends behind it."""
    node = network.nodes[sink]
    if any(map(network.is_constant, node.input)):
        return None
    if node.op_type in ("Add", "Sub"):
        return _scaled_inside(network, sink)
    if node.op_type not in ("Div", "Mul"):
        return None

    def may(node: Any) -> bool:
        return node.domain in ("", "ai.onnx") and node.op_type in _SMOOTH | _ARITHMETIC | _REDUCTIONS | _SPREADING

    growth = _Growth(network, sink, may)
    best: tuple[set[int], str] | None = None
    kind, fresh = "", {sink}
    while not kind and (taken := growth.grow()) is not None:
        fresh.add(taken)
        source = growth.source()
        if source is None:
            continue
        kinds = {network.nodes[at].op_type for at in fresh if not network.has_integer_form(network.nodes[at])}
        if best is None and not _divides(network, growth.members):
            return None
        kind = _known(network, node, source)
        if not kinds and not kind:
            break
        best, fresh = (set(growth.members), source), set()
    if best is None:
        return None
    members, source = best
    if kind == "Softmax":
        return _softmax(network, node, members, source)
    # A factor, and an addend.
    result = node.output[0]
    rows = [axes for _, axes in _over_deviation(network, node)]
    for follows in ("Mul", "Add"):
        reader = _alone(network, result)
        if reader is not None and network.nodes[reader].op_type == follows:
            behind = network.nodes[reader]
            constants = [name for name in behind.input if network.is_constant(name)]
            if rows and not all(_is_along(network, name, result, rows[0]) for name in constants):
                # Of what is not normalized together each has its own: that is an operator behind.
                break
            if constants:
                members.add(reader)
                result = behind.output[0]
    return _composite(network, members, source, kind or "Normalization")


def _scaled_inside(network: Network, sink: int) -> tuple[list[int], Any] | None:
    """Return the group that ends in x·f + (shift − mean·f) with f = scale/√(variance + ε): how TensorFlow normalizes."""
    node = network.nodes[sink]
    orders = [tuple(node.input), tuple(reversed(node.input))] if node.op_type == "Add" else [tuple(node.input)]
    for product, rest in orders:
        first = _operand(network, product, "Mul")
        taken = rest if node.op_type == "Sub" else _taken_off(network, rest)
        second = None if first is None or taken is None else _operand(network, taken, "Mul")
        if second is None:
            continue
        for x, factor in (tuple(first.input), tuple(reversed(first.input))):
            if factor not in second.input:
                continue
            middle = second.input[1 - list(second.input).index(factor)]
            # What is taken off is no negated mean: that would add it.
            negated = _operand(network, middle, "Neg") if node.op_type == "Add" else None
            axes = _deviation_axes(network, _unscaled(network, factor), x)
            if axes is None or not _is_mean(network, middle if negated is None else negated.input[0], x, axes):
                continue
            growth = _Growth(network, sink, lambda _: True)
            while growth.source() != x:
                if growth.grow() is None:
                    return None
            return _composite(network, growth.members, x, "LayerNormalization")
    return None


def _taken_off(network: Network, name: str) -> str | None:
    """Return the product in shift − product or (−mean)·f + shift."""
    node = _operand(network, name, "Sub", "Add", "Mul")
    if node is None:
        return None

    def negated(product: str) -> bool:
        inner = _operand(network, product, "Mul")
        return inner is not None and any(_operand(network, each, "Neg") is not None for each in inner.input)

    if node.op_type == "Mul":
        return name if negated(name) else None
    constant = [network.is_constant(each) for each in node.input]
    if sum(constant) != 1 or (node.op_type == "Sub" and not constant[0]):
        return None
    product = str(node.input[constant.index(False)])
    return product if negated(product) == (node.op_type == "Add") else None


def _unscaled(network: Network, name: str) -> str:
    """Return what is times a constant in a tensor, if that is so."""
    node = _operand(network, name, "Mul")
    rest = [] if node is None else [each for each in node.input if not network.is_constant(each)]
    return str(rest[0]) if len(rest) == 1 else name


def _deviation_axes(network: Network, inverse: str, source: str) -> list[int] | None:
    """Return the axes whose deviation of `source`, and a number, `inverse` is 1 over."""
    radicand = _over_root(network, inverse)
    found = None if radicand is None else _spread_of(network, radicand)
    return found[1] if found is not None and _centred(network, found[0], found[1]) == source else None


def _divides(network: Network, members: set[int]) -> bool:
    kinds = {network.nodes[at].op_type for at in members}
    inverse = kinds & {"Div", "Reciprocal", "Pow"}
    return bool(kinds & _REDUCTIONS) and bool(inverse)


def _known(network: Network, node: Any, source: str) -> str:
    """Return the operator that a normalization of `source` is, if it has a name and an integer form."""
    deviations = _over_deviation(network, node)
    if any(_centred(network, *found) == source for found in deviations):
        return "LayerNormalization"
    # A difference from the mean is on its way to the other.
    if any(found[0] == source and _beside(found[1]) and _centred(network, *found) is None for found in deviations):
        return "RMSNormalization"
    if node.op_type == "Div" and _softmax_axis(network, node, source) is not None:
        return "Softmax"
    return ""


def _axes(network: Network, node: Any) -> list[int] | None:
    """Return the axes that a reduction is over, from the first on, if they stay."""
    rank = network.rank(node.input[0])
    if rank is None:
        return None
    if node.op_type == "GlobalAveragePool":
        return list(range(2, rank))
    axes = attribute(node, "axes", None)
    if axes is None and len(node.input) > 1 and node.input[1]:
        values = network.constant(node.input[1])
        axes = None if values is None else values.reshape(-1)
    if axes is None or not attribute(node, "keepdims", 1):
        return None
    return sorted(int(axis) % rank for axis in axes)


def _means(network: Network, name: str) -> Iterator[tuple[str, list[int]]]:
    """Yield what a tensor is the mean of, and over which axes: at once, and one mean behind the other, the longest last."""
    gone: list[int] = []
    while (node := _operand(network, name, "ReduceMean", "GlobalAveragePool")) is not None:
        axes = _axes(network, node)
        if axes is None or set(axes) & set(gone):
            return
        name, gone = node.input[0], sorted([*gone, *axes])
        yield name, gone


def _is_mean(network: Network, name: str, source: str, axes: list[int]) -> bool:
    """Return whether a tensor is the mean of `source` over these axes."""
    return (source, axes) in _means(network, _same_extents(network, name))


def _same_extents(network: Network, name: str) -> str:
    """Return what a tensor is a copy of."""
    while (node := _operand(network, name, "Reshape", "Identity")) is not None:
        before, after = network.shape(node.input[0]), network.shape(name)
        if before is None or before != after:
            break
        name = node.input[0]
    return name


def _spread_of(network: Network, radicand: str) -> tuple[str, list[int]] | None:
    """Return the difference whose squares' mean, and a number, a tensor is, and the mean's axes."""
    total = _operand(network, radicand, "Add")
    variances = [] if total is None else [name for name in total.input if not network.is_constant(name)]
    means = list(_means(network, _same_extents(network, variances[0]))) if len(variances) == 1 else []
    spread = means[-1] if means else None
    square = None if spread is None else _operand(network, spread[0], "Mul", "Pow")
    if spread is None or square is None:
        return None
    if square.op_type == "Mul" and square.input[0] != square.input[1]:
        return None
    if square.op_type == "Pow" and _scalar(network, square.input[1]) != 2:
        return None
    return square.input[0], spread[1]


def _centred(network: Network, difference: str, axes: list[int]) -> str | None:
    """Return what a difference is, less its mean over axes that lie side by side."""
    centred = _operand(network, difference, "Sub")
    if centred is None or not _beside(axes) or not _is_mean(network, centred.input[1], centred.input[0], axes):
        return None
    return str(centred.input[0])


def _is_along(network: Network, constant: str, name: str, axes: list[int]) -> bool:
    """Return whether a constant differs along these axes of a tensor alone."""
    values, rank = network.constant(constant), network.rank(name)
    if values is None or rank is None:
        return True
    missing = rank - values.ndim
    return all(extent == 1 or axis + missing in axes for axis, extent in enumerate(values.shape))


def _beside(axes: list[int]) -> bool:
    return axes == list(range(axes[0], axes[0] + len(axes)))


def _over_deviation(network: Network, node: Any) -> list[tuple[str, list[int]]]:
    """Return what `node` divides by the root of the mean of its own squares, and a number, and that mean's axes; it may multiply
    it by a constant, before or behind.
    """
    product, both = node.output[0], []
    for radicand in _quotient(network, product)[1]:
        found = _spread_of(network, radicand)
        factors, radicands = ([], []) if found is None else _quotient(network, product, found[0])
        if found is None or radicands != [radicand]:
            continue
        constants = [name for name in factors if network.is_constant(name)]
        # Of what is not normalized together each has its own: that is no part of the operator.
        whole = len(constants) < 2 and all(_is_along(network, name, product, found[1]) for name in constants)
        if whole and [name for name in factors if name not in constants] == [found[0]]:
            both.append(found)
    return both


def _quotient(network: Network, name: str, whole: str = "", depth: int = _DEEPEST) -> tuple[list[str], list[str]]:
    """Return what a tensor is a product of, and what of the roots are that it is divided by.

    `whole` is a factor, whatever it is made of.
    """
    radicand = _over_root(network, name)
    if radicand is not None:
        return [], [radicand]
    node = _operand(network, name, "Mul", "Div") if depth and name != whole else None
    under = _under_root(network, node.input[1]) if node is not None and node.op_type == "Div" else None
    if node is None or (node.op_type == "Div" and under is None):
        return [name], []
    factors: list[str] = []
    radicands = [] if under is None else [under]
    for factor in node.input[:1] if under is not None else node.input:
        found = _quotient(network, factor, whole, depth - 1)
        factors += found[0]
        radicands += found[1]
    return factors, radicands


def _over_root(network: Network, name: str) -> str | None:
    """Return what a tensor is the inverse of the root of."""
    node = _operand(network, name, "Reciprocal", "Div", "Pow")
    if node is None:
        return None
    if node.op_type == "Pow":
        power = _scalar(network, node.input[1])
        return str(node.input[0]) if power == -0.5 else _under_root(network, node.input[0]) if power == -1 else None
    if node.op_type == "Div" and _scalar(network, node.input[0]) != 1:
        return None
    return _under_root(network, node.input[-1])


def _under_root(network: Network, name: str) -> str | None:
    """Return what a tensor is the root of."""
    node = _operand(network, name, "Sqrt", "Pow")
    if node is None or (node.op_type == "Pow" and _scalar(network, node.input[1]) != 0.5):
        return None
    return str(node.input[0])


def _softmax_axis(network: Network, node: Any, source: str) -> int | None:
    """Return the axis along which `node` is a softmax of `source`."""
    powers, total = node.input
    exp, added = _operand(network, powers, "Exp"), _operand(network, total, "ReduceSum")
    axes = None if added is None or added.input[0] != powers else _axes(network, added)
    if exp is None or axes is None or len(axes) != 1:
        return None
    if exp.input[0] == source:
        # Whoever makes it may have taken the largest off, which then is a part of it.
        shifted = _operand(network, source, "Sub")
        largest = None if shifted is None else _operand(network, shifted.input[1], "ReduceMax")
        return None if largest is not None and largest.input[0] == shifted.input[0] else axes[0]
    shifted = _operand(network, exp.input[0], "Sub")
    largest = None if shifted is None else _operand(network, shifted.input[1], "ReduceMax")
    if shifted is None or largest is None or shifted.input[0] != source or largest.input[0] != source:
        return None
    return axes[0] if _axes(network, largest) == axes else None


def _softmax(network: Network, node: Any, members: set[int], source: str) -> tuple[list[int], Any]:
    """Return the operator itself, which every version that is quantized has."""
    import onnx

    made = onnx.helper.make_node("Softmax", [source], list(node.output), node.name)
    axis = _softmax_axis(network, node, source)
    assert axis is not None
    made.attribute.append(onnx.helper.make_attribute("axis", axis))
    return sorted(members), made


# ---- functions ----


class _Functions:
    """Finds functions of one value and of numbers."""

    def __init__(self, wide: bool) -> None:
        self._wide = wide

    def __call__(self, network: Network, sink: int) -> tuple[list[int], Any] | None:
        """Return the largest group that ends with `sink`."""
        node = network.nodes[sink]
        if not self._is_step(network, node) or not network.is_float(node.output[0]):
            return None
        growth = _Growth(network, sink, lambda node: self._is_step(network, node))
        best: tuple[set[int], str] | None = None
        while True:
            source = growth.source()
            if source is not None and self._serves(network, growth.members, source):
                best = set(growth.members), source
            if growth.grow() is None:
                break
        if best is None or source in network.inputs:
            # What is done to an input costs the host nothing, and need not be rounded twice.
            return None
        members, source = best
        found = _composite(network, members, source, FUNCTION)
        evaluate = _evaluator(network, [network.nodes[at] for at in found[0]], found[1])
        linear = all(_is_linear(network, network.nodes[at]) for at in members)
        if not linear and not _is_gentle(evaluate):
            return None
        if not linear:
            network.functions[source, found[1].output[0]] = evaluate
        return found

    def _serves(self, network: Network, members: set[int], source: str) -> bool:
        """Return whether a group is better than its operators one by one."""
        nodes = [network.nodes[at] for at in sorted(members)]
        maker = network.makers.get(source)
        limited = nodes[0].op_type in LIMITS and nodes[0].input[0] == source
        if limited and maker is not None and network.nodes[maker].op_type in PRODUCTS | {"Add", "Mul", "Sub"}:
            # That is a part of what is before.
            return False
        if any(not network.has_integer_form(node) for node in nodes):
            return True
        return not self._wide and len(nodes) > 1

    @staticmethod
    def _is_step(network: Network, node: Any) -> bool:
        if node.domain not in ("", "ai.onnx"):
            return False
        if node.op_type in _SMOOTH:
            return all(_scalar(network, name) is not None for name in list(node.input)[1:] if name)
        if node.op_type not in _ARITHMETIC:
            return False
        constants = [values for values in map(network.constant, node.input) if values is not None]
        result = network.rank(node.output[0])
        if any(values.size != 1 or (result is not None and values.ndim > result) for values in constants):
            return False
        if node.op_type == "Pow":
            return _scalar(network, node.input[1]) in _POWERS
        return True


def _is_linear(network: Network, node: Any) -> bool:
    """Return whether an operator only scales and shifts, which loses nothing."""
    if node.op_type == "Div":
        return network.is_constant(node.input[1])
    numbers = any(map(network.is_constant, node.input))
    return node.op_type == "Neg" or (node.op_type in ("Add", "Mul", "Sub") and numbers)


def function_of(network: Network, index: int) -> Function | None:
    """Return what a node makes of any values, if it is a function of one that is not linear."""
    node = network.nodes[index]
    if node.op_type == FUNCTION:
        return network.functions.get((node.input[0], node.output[0]))
    operands = [name for name in node.input[1:] if name]
    if node.op_type not in _SMOOTH or any(_scalar(network, name) is None for name in operands):
        return None
    return _evaluator(network, [node], node)


def _evaluator(network: Network, nodes: list[Any], composite: Any) -> Function:
    """Return what a group makes of any values."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    # Networks repeat their functions: by names of their own all of a kind are one model.
    names: dict[str, str] = {"": ""}

    def own(name: str) -> str:
        return names.setdefault(name, f"t{len(names)}")

    source, result = own(composite.input[0]), own(composite.output[0])
    steps = [onnx.NodeProto() for _ in nodes]
    for step, node in zip(steps, nodes, strict=True):
        step.CopyFrom(node)
        step.name = step.doc_string = ""
        step.input[:], step.output[:] = map(own, node.input), map(own, node.output)
    constants = [
        numpy_helper.from_array(np.asarray(network.constant(name)).reshape(()), own(name))
        for name in composite.input[1:]
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in (source, result)]
    graph = helper.make_graph(steps, "function", ends[:1], ends[1:], constants)
    versions = [entry for entry in network.model.opset_import if entry.domain in ("", "ai.onnx")]
    model = helper.make_model(graph, opset_imports=versions, ir_version=network.model.ir_version)
    content, runners = model.SerializeToString(deterministic=True), network.runners

    def evaluate(values: Floats) -> Floats:
        if content not in runners:
            runners[content] = session(content)
        flat: Array = np.ascontiguousarray(values, np.float32).reshape(-1)
        with np.errstate(all="ignore"):
            found = runners[content].run([result], {source: flat})[0]
        return np.where(np.isfinite(found), found, flat).reshape(values.shape).astype(np.float64)

    return evaluate


def _is_gentle(evaluate: Function) -> bool:
    """Return whether a function makes little of small differences."""
    places = np.linspace(-_REACH, _REACH, 4001)
    results = evaluate(places)
    return bool((np.abs(np.diff(results)) <= _STEEPEST * np.diff(places) + 1e-4).all())
