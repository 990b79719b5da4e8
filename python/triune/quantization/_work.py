"""How many multiply-accumulates the products of a network take, for samples of known extents."""

from __future__ import annotations

import math
from collections.abc import Mapping

from triune.quantization._model import PRODUCTS, Array, Network, attribute

__all__ = ["work_of"]


def work_of(network: Network, sample: Mapping[str, Array]) -> dict[int, int]:
    """Return the multiply-accumulates of each product, by the node's index, with inputs of a sample's extents.

    Each element of a result takes as many as there are numbers in its window, or in its row; each of a transposed
    convolution's operand as many as it is spread to. A product whose extents cannot be told beforehand is left out.
    """
    shapes = _extents(network, sample)
    found = {}
    for index, node in enumerate(network.nodes):
        if node.op_type not in PRODUCTS:
            continue
        before, weights, made = (shapes.get(name) for name in (*node.input[:2], node.output[0]))
        if node.op_type == "ConvTranspose":
            counts = before and weights and math.prod(before) * math.prod(weights[1:])
        elif node.op_type == "Conv":
            counts = made and weights and math.prod(made) * math.prod(weights[1:])
        else:
            turned = node.op_type == "Gemm" and attribute(node, "transA", 0)
            counts = made is not None and before and math.prod(made) * before[0 if turned else -1]
        if counts:
            found[index] = int(counts)
    return found


def _extents(network: Network, sample: Mapping[str, Array]) -> dict[str, tuple[int, ...]]:
    """Return the extents of all tensors of which they are known."""
    import onnx

    # Of weights only the extents count, but shapes are computed from small constants.
    copy = onnx.ModelProto()
    copy.CopyFrom(network.model)
    graph = copy.graph
    del graph.value_info[:]
    for value in graph.input:
        if value.name in sample:
            dims = value.type.tensor_type.shape.dim
            for dim, extent in zip(dims, sample[value.name].shape, strict=True):
                dim.dim_value = extent
    for value in graph.output:
        for dim in value.type.tensor_type.shape.dim:
            dim.Clear()
    try:
        graph = onnx.shape_inference.infer_shapes(copy, data_prop=True).graph
    except Exception:
        # Of what its shapes cannot be inferred as a whole, those count that the model says.
        graph = network.model.graph
    found = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for value in [*graph.input, *graph.value_info, *graph.output]:
        dims = value.type.tensor_type.shape.dim
        if value.type.tensor_type.HasField("shape") and all(dim.HasField("dim_value") for dim in dims):
            found[value.name] = tuple(dim.dim_value for dim in dims)
    return found
