"""Which operators become integer ones, and which stay in float, and why.

A network ends in products (Conv, Gemm, MatMul) and what turns their results into an answer: pixels from offsets, scores from
logits, both in one tensor. That part costs next to nothing and loses most in few bits, so it stays in float unless it is asked
for otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from triune.quantization._model import LIMITS, PRODUCTS, Network, attribute

__all__ = ["ASKED", "BEHIND", "DECODE", "VOLUME", "choose"]

DECODE = "no Conv, Gemm or MatMul follows"
"""The reason of what turns results into an answer."""

_WINDOWS = {"AveragePool", "Conv", "ConvTranspose", "GlobalAveragePool", "GlobalMaxPool", "MaxPool"}

VOLUME = "has windows over three axes, and no device has those"

_MOST_AXES = 4
"""Of an image: those of images, channels, rows and columns."""

ASKED = "asked for"
BEHIND = "behind "
"""Before the name of a node that was asked for."""

_NO_FORM = "has no integer form"

_READ_BY_HOST = "is read only by what has no integer form"

_LIGHT = {"Add", "Concat", "Identity", "Mul", "Reshape", "Slice", "Split", "Squeeze", "Sub", "Transpose", "Unsqueeze"}
"""What costs the host next to nothing, and is done behind a product anyway."""

_FEW = 4096
"""Weights at most that may be ones that nobody trained."""


def choose(network: Network, float_from: Sequence[str] | None = None, keep_float: Sequence[str] = ()) -> dict[int, str]:
    """Return, for each node that stays in float, why.

    `float_from` names the nodes that begin what stays in float, with all that follows them; None: what no product follows.
    `keep_float` names single ones.

    Raises ArgumentError if the network has no such node.
    """
    why: dict[int, str] = {}
    for index, node in enumerate(network.nodes):
        reason = _impossible(network, node)
        if reason:
            why[index] = reason
    for name in keep_float:
        for index in network.find(name, "keep_float"):
            why.setdefault(index, ASKED)
    if float_from is None:
        followed = _followed(network, why)
        for index, node in enumerate(network.nodes):
            if index not in followed and not _ends_a_product(network, node, why, followed):
                why.setdefault(index, DECODE)
    else:
        for name in float_from:
            begin = network.find(name, "float_from")
            for index in _behind(network, begin):
                why.setdefault(index, ASKED if index in begin else f"{BEHIND}{name!r}")
    for index in reversed(range(len(network.nodes))):
        if index not in why and network.nodes[index].op_type in _LIGHT and _is_read_by_the_host(network, index, why):
            why[index] = _READ_BY_HOST
    if VOLUME in why.values():
        for index in _beside_volumes(network, why):
            why[index] = "is between such, with no Conv, Gemm or MatMul over integers beside it"
    return why


def _is_read_by_the_host(network: Network, index: int, why: dict[int, str]) -> bool:
    """Return whether what a node makes is read by operators alone that have no integer form, or by such as it."""
    made = [name for name in network.nodes[index].output if name]
    readers = [reader for name in made for reader in network.readers.get(name, ())]
    hosts = {_NO_FORM, _READ_BY_HOST}
    return (
        bool(readers) and not set(made) & set(network.outputs) and all(why.get(reader) in hosts for reader in readers)
    )


def _beside_volumes(network: Network, why: dict[int, str]) -> list[int]:
    """Return what would be integer operators without a product among them, next to windows over three axes."""
    found: list[int] = []
    seen = set(why)
    for start in range(len(network.nodes)):
        joined, left, volumes = [], [start], False
        while left:
            index = left.pop()
            volumes = volumes or why.get(index) == VOLUME
            if index in seen:
                continue
            seen.add(index)
            joined.append(index)
            node = network.nodes[index]
            left += [network.makers[name] for name in node.input if name in network.makers]
            left += [reader for name in node.output for reader in network.readers.get(name, ())]
        if volumes and not any(network.nodes[index].op_type in PRODUCTS for index in joined):
            found += joined
    return found


def _impossible(network: Network, node: Any) -> str:
    if not network.has_integer_form(node):
        return _NO_FORM
    if node.op_type == "Resize" and (attribute(node, "mode", "nearest") == "cubic" or attribute(node, "antialias", 0)):
        how = "smooths (antialias)" if attribute(node, "antialias", 0) else "interpolates by cubes"
        return f"{how}, of which no device has a form over integers"
    operands = [node.input[at] for at in network.data(node)]
    floats = bool(operands) and all(network.is_float(name) for name in node.output if name)
    if not floats or all(map(network.is_constant, operands)):
        other = network.other_float(node)
        return f"computes on {other}, not float32" if other else "computes on no floats"
    if node.op_type in _WINDOWS and (network.rank(node.input[0]) or 0) > _MOST_AXES:
        return VOLUME
    if node.op_type == "ConvTranspose" and not network.is_constant(node.input[1]):
        return "has weights that are not constant"
    biased = node.op_type in ("Conv", "ConvTranspose", "Gemm") and len(node.input) > 2 and node.input[2]
    if biased and not all(map(network.is_constant, node.input[1:3])):
        # What was not added behind, as nobody knows how many axes it has.
        return "has a bias that is not constant, or that comes to weights that are not"
    if node.op_type == "Gemm" and (attribute(node, "transA", 0) or not network.is_constant(node.input[1])):
        return _NO_FORM
    return ""


def _followed(network: Network, why: dict[int, str]) -> set[int]:
    """Return the products and all that leads to one."""
    kinds = PRODUCTS | {"Einsum"}
    products = [index for index, node in enumerate(network.nodes) if node.op_type in kinds and index not in why]
    trained = [index for index in products if not _is_fixed(network, network.nodes[index])]
    found: set[int] = set()
    # A network of fixed filters alone is what it is, and so is one without any.
    begin = trained or products or [index for index in range(len(network.nodes)) if index not in why]
    left = list(begin)
    while left:
        index = left.pop()
        if index in found:
            continue
        found.add(index)
        node = network.nodes[index]
        made = [node.input[at] for at in network.data(node)]
        left += [network.makers[name] for name in made if name in network.makers]
    return found


def _is_fixed(network: Network, node: Any) -> bool:
    """Return whether a product's weights are a formula's: few, and halves of whole numbers.

    Such are the expectation over a softmax (0, 1, 2, …) and the matrix from centres and extents to corners.
    """
    weights = network.weights(node)
    if weights is None or weights.size > _FEW:
        return False
    doubled = weights.astype(np.float64) * 2
    return bool(np.array_equal(doubled, np.rint(doubled))) and bool(doubled.any())


def _ends_a_product(network: Network, node: Any, why: dict[int, str], followed: set[int]) -> bool:
    """Return whether a node only limits what the product before it makes, which accelerators do on the way out, or takes the
    column off that a product with a vector has.
    """
    kinds = LIMITS | {"Squeeze"}
    if node.op_type not in kinds or len(network.readers[node.input[0]]) > 1 or node.input[0] in network.outputs:
        return False
    maker = network.makers.get(node.input[0])
    return maker is not None and maker in followed and maker not in why and network.nodes[maker].op_type in PRODUCTS


def _behind(network: Network, begin: Iterable[int]) -> set[int]:
    """Return nodes and all that read what they make."""
    found: set[int] = set()
    left = list(begin)
    while left:
        index = left.pop()
        if index in found:
            continue
        found.add(index)
        for name in network.nodes[index].output:
            left += network.readers.get(name, [])
    return found
