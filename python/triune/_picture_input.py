"""Pictures as a model's input: uint8 (N, H, W, C) and what makes the network's own input of it, in front of the graph.

The operators are those of the formula that `triune.batch.Preprocess` states, in float32 and its order. A compiler leaves them to
the host, in front of the device's part.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from triune._text import short
from triune.batch._pictures import _TO_RGB, _YUYV_OFFSETS, Format, Preprocess
from triune.errors import ArgumentError

__all__ = ["put_picture_input"]

_CHANNELS = {"rgb8": 3, "bgr8": 3, "gray8": 1, "yuyv": 2}


def put_picture_input(model: Any, format: Format, how: Preprocess) -> Preprocess:
    """Let an `onnx.ModelProto` with one input of pictures take bytes in `format`; it is changed in place.

    The input keeps its name and becomes uint8 (N, H, W, C), C being 3, 1 for ``gray8`` and 2 for ``yuyv``. `how` says how pixels
    become the numbers that the network takes. Returns how pictures become the new input.

    Raises ArgumentError if the model takes no pictures, or not such ones.
    """
    import onnx

    from triune.quantization._model import node_names, tensor_names, unused

    graph = model.graph
    constants = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in constants]
    where = "input format"
    if len(inputs) != 1:
        raise ArgumentError(f"{where}: expected a model with one input, got {len(inputs)}")
    value = inputs[0]
    name, tensor = value.name, value.type.tensor_type
    shape = [dim.dim_value or dim.dim_param or "N" for dim in tensor.shape.dim]
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)).name
    frame = how.frame(name, dtype, shape)
    if frame is None or dtype != "float32":
        told = f"{dtype} ({', '.join(map(str, shape))})"
        raise ArgumentError(
            short(
                f"{where}: expected float32 (N, C, H, W) or (N, H, W, C) with 1 or 3 channels, got input {name!r}: {told}"
            )
        )
    if format == "yuyv" and frame.width % 2:
        raise ArgumentError(f"{where}: yuyv has pairs of pixels, and input {name!r} is {frame.width} wide")
    if frame.channels == 1 and format != "gray8":
        raise ArgumentError(f"{where}: input {name!r} has one channel, which is gray8, got {format}")
    how.check(frame)
    # Subgraphs see what is around them, so that their names are taken, too.
    taken, called = tensor_names(graph), node_names(graph)
    real = unused(f"{name}_real", taken)
    for node in graph.node:
        _rename(node, name, real)
    for output in graph.output:
        if output.name == name:
            raise ArgumentError(f"{where}: input {name!r} is an output, too")
    nodes: list[Any] = []

    def put(kind: str, *operands: str, **attributes: Any) -> str:
        made = unused(f"{real}_{len(nodes)}", taken)
        label = unused(f"{made}_{kind}", called)
        nodes.append(onnx.helper.make_node(kind, operands, [made], label, **attributes))
        return made

    def constant(values: Any, dtype: Any = np.float32) -> str:
        made = unused(f"{real}_constant_{len(graph.initializer)}", taken)
        graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(values, dtype), made))
        return made

    last = put("Cast", name, to=onnx.TensorProto.FLOAT)
    if format == "yuyv":
        pairs = put("Reshape", last, constant([-1, frame.height, frame.width // 2, 4], np.int64))
        six = put("MatMul", put("Sub", pairs, constant(_YUYV_OFFSETS)), constant(_TO_RGB))
        limited = put("Clip", put("Round", six), constant(0), constant(255))
        last = put("Reshape", limited, constant([-1, frame.height, frame.width, 3], np.int64))
    if format == "gray8" and frame.channels == 3:
        last = put("Concat", last, last, last, axis=3)
    elif frame.channels == 3 and (format == "bgr8") != (how.color == "bgr"):
        last = put("Gather", last, constant([2, 1, 0], np.int64), axis=3)
    for kind, numbers, void in (("Div", how.scale, 1.0), ("Sub", how.mean, 0.0), ("Div", how.std, 1.0)):
        values = np.asarray(numbers, np.float32).reshape(-1)
        if (values != void).any():
            last = put(kind, last, constant(values))
    if not frame.last:
        last = put("Transpose", last, perm=[0, 3, 1, 2])
    nodes[-1].output[0] = real
    own = list(graph.node)
    del graph.node[:]
    graph.node.extend([*nodes, *own])
    dims = [shape[0], frame.height, frame.width, _CHANNELS[format]]
    value.CopyFrom(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.UINT8, dims))
    for info in [info for info in graph.value_info if info.name == name]:
        graph.value_info.remove(info)
    color: Literal["rgb", "bgr", "yuyv"] = "bgr" if format == "bgr8" else "yuyv" if format == "yuyv" else "rgb"
    return replace(how, scale=1.0, mean=0.0, std=1.0, color=color, format=format, size=None)


def _rename(node: Any, name: str, other: str) -> None:
    """Let a node, and its subgraphs, read another tensor."""
    from triune.quantization._model import subgraphs

    for at, each in enumerate(node.input):
        if each == name:
            node.input[at] = other
    for graph in subgraphs(node):
        if name in {value.name for value in graph.input}:
            continue
        for inner in graph.node:
            _rename(inner, name, other)
