"""An ONNX model made ready for the quantizer: by onnxruntime's own passes, with types and shapes known and every node named."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from triune.quantization._model import Array, Refused, attribute, extract_outputs, names_read, tensor_names, unused
from triune.quantization._products import write_products
from triune.quantization._spelled import spell_out
from triune.quantization._statistics import session, with_outputs

__all__ = ["prepare"]

_OPSET = 13
"""The first operator set with a scale per channel."""

_ROWS_OPSET = 17
"""The first operator set with normalizations of rows."""

_ONNX = ("", "ai.onnx")
"""ONNX's own domain, as it is spelled."""

_IR_VERSION = 4
"""The first version of files whose initializers need not be inputs."""

_OF_PLACES = {"GroupNormalization", "InstanceNormalization"}

_TENSOR = re.compile(r"tensor\((\w+)\)")

_TYPES = {"float": "FLOAT", "float16": "FLOAT16", "double": "DOUBLE", "bfloat16": "BFLOAT16"} | {
    name: name.upper() for name in ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
}
"""Types of elements as onnxruntime spells them, and as onnx does."""


def prepare(source: Path, scratch: Path, outputs: Sequence[str] = (), whole: Container[str] = ()) -> Any:
    """Return the float model with constants and normalizations folded and shapes known, of an operator set that is new enough.

    `outputs` are tensors or nodes of the file to end it at; `whole` are names of nodes, or of what they make,
    that are not spelled out as others. Writes into `scratch`. Raises `Refused` for one that is too large.
    """
    import onnx
    from onnxruntime.quantization.shape_inference import quant_pre_process

    files = [scratch / name for name in ("model.onnx", "prepared.onnx")]
    model = onnx.load(source)
    kinds = {node.op_type for node in model.graph.node if node.domain in _ONNX}
    least = _ROWS_OPSET if "InstanceNormalization" in kinds else _OPSET
    if any(entry.domain in _ONNX and entry.version < least for entry in model.opset_import):
        model = onnx.version_converter.convert_version(model, least)
    _lower(model)
    _widen(model)
    if "GroupNormalization" in kinds:
        # The pass would spell it out.
        model = onnx.shape_inference.infer_shapes(model)
        _normalize_rows(model)
    if outputs:
        extract_outputs(model, outputs)
    constants = {tensor.name for tensor in model.graph.initializer}
    there = tensor_names(model.graph)
    # Files of before list constants as inputs, too, which nothing may be folded into then.
    listed = [value for value in model.graph.input if value.name in constants]
    for value in listed:
        model.graph.input.remove(value)
    if listed:
        model.ir_version = max(model.ir_version, _IR_VERSION)
    try:
        # With what other files hold: the pass would write where it is in those, from the folder of the model.
        onnx.save(model, files[0])
    except OSError:
        raise
    except Exception:
        # The writer's own exception, which is another one with every version.
        raise Refused("its weights take more than 2 GiB, which is what one file can hold") from None
    quant_pre_process(str(files[0]), str(files[1]), skip_symbolic_shape=True)
    prepared = onnx.load(files[1])
    prepared.ir_version = max(prepared.ir_version, _IR_VERSION)
    _rename_constants(prepared, there)
    _rename_products(prepared)
    _find_types(prepared)
    _fold_casts(prepared)
    _plain_gemms(prepared)
    write_products(prepared)
    _normalize_rows(prepared)
    names = {node.name for node in prepared.graph.node}
    for index, node in enumerate(prepared.graph.node):
        # Everything that is said of a node says its name.
        node.name = node.name or unused(f"{node.op_type}_{index}", names)
    spell_out(prepared, whole)
    return prepared


def _rename_products(model: Any) -> None:
    """Let products that onnxruntime's passes added a bias to have the names that they have in the file."""
    names = {node.name for node in model.graph.node}
    for node in model.graph.node:
        name = node.name.removesuffix("/MatMulAddFusion")
        if name not in names:
            names.add(name)
            node.name = name


def _rename_constants(model: Any, there: set[str]) -> None:
    """Give constants that onnxruntime's passes made other names: opening a model, it makes the same ones again, and refuses it if
    it has them (`MatMulAddFusion`). `there` are the tensors of before.
    """
    graph = model.graph
    taken = tensor_names(graph)
    made = {
        tensor.name: unused(f"prepared_{tensor.name}", taken)
        for tensor in graph.initializer
        if tensor.name not in there
    }
    for value in (*graph.initializer, *graph.value_info):
        value.name = made.get(value.name, value.name)
    for node in graph.node:
        node.input[:] = [made.get(name, name) for name in node.input]


def _lower(model: Any) -> None:
    """Let a model of an operator set that onnxruntime does not know yet, as `onnx.helper` makes them, say an older one if in that
    all its operators are defined as they are in its own.
    """
    import onnx

    version = next((entry.version for entry in model.opset_import if entry.domain in _ONNX), None)
    if version is None or _is_known(version):
        return
    nodes = [
        *_all_nodes(model.graph.node),
        *(each for function in model.functions for each in _all_nodes(function.node)),
    ]
    since = [_OPSET]
    for node in nodes:
        if node.domain in _ONNX and (node.domain, node.op_type) not in {(f.domain, f.name) for f in model.functions}:
            try:
                since.append(onnx.defs.get_schema(node.op_type, version, "").since_version)
            except onnx.defs.SchemaError:
                # Whoever runs the model says that there is no such operator.
                return
    for entries in (model.opset_import, *(function.opset_import for function in model.functions)):
        for entry in entries:
            if entry.domain in _ONNX:
                entry.version = min(entry.version, max(since))


def _widen(model: Any) -> None:
    """Let a model compute on float32 where it does on float16; inputs and outputs stay what they are.

    onnxruntime does so operator by operator, and leaves float16 to what only moves values and to normalizations.
    """
    from onnx import TensorProto, helper, numpy_helper

    half, single = TensorProto.FLOAT16, TensorProto.FLOAT

    def tensor(values: Any) -> None:
        if values.data_type == half:
            values.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(values).astype(np.float32), values.name))

    graph = model.graph
    nodes = [*_all_nodes(graph.node), *(each for function in model.functions for each in _all_nodes(function.node))]
    inner = [each for node in nodes for entry in node.attribute for each in (entry.g, *entry.graphs)]
    for own in (graph, *inner):
        for each in own.initializer:
            tensor(each)
        values = [*own.value_info, *(() if own is graph else (*own.input, *own.output))]
        for value in values:
            if value.type.tensor_type.elem_type == half:
                value.type.tensor_type.elem_type = single
    for node in nodes:
        for entry in node.attribute:
            tensor(entry.t)
            if entry.name in ("dtype", "to") and entry.i == half:
                entry.i = single
    taken = tensor_names(graph)
    there = {each.name for each in graph.initializer}
    inside = [value for own in inner for value in own.output]

    def rename_reads(name: str, other: str) -> None:
        for node in nodes:
            node.input[:] = [other if each == name else each for each in node.input]
        for value in inside:
            value.name = other if value.name == name else value.name

    casts = []
    for value in graph.input:
        if value.type.tensor_type.elem_type != half:
            continue
        if value.name in there:
            value.type.tensor_type.elem_type = single
            continue
        wide = unused(f"{value.name}_wide", taken)
        rename_reads(value.name, wide)
        casts.append(helper.make_node("Cast", [value.name], [wide], to=single))
    for at, cast in enumerate(casts):
        graph.node.insert(at, cast)
    made = {name: node for node in graph.node for name in node.output}
    for value in graph.output:
        if value.type.tensor_type.elem_type == half and value.name in made:
            wide = unused(f"{value.name}_wide", taken)
            maker = made[value.name]
            maker.output[:] = [wide if name == value.name else name for name in maker.output]
            rename_reads(value.name, wide)
            graph.node.append(helper.make_node("Cast", [wide], [value.name], to=half))


def _all_nodes(nodes: Iterable[Any]) -> Iterator[Any]:
    """Yield nodes, and those of the graphs in them."""
    for node in nodes:
        yield node
        for each in node.attribute:
            for graph in (each.g, *each.graphs):
                yield from _all_nodes(graph.node)


@lru_cache
def _is_known(version: int) -> bool:
    """Say whether onnxruntime has the quantizers of an operator set."""
    from onnx import TensorProto, helper

    values = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1]),
        helper.make_tensor_value_info("s", TensorProto.FLOAT, []),
    ]
    result = helper.make_tensor_value_info("y", TensorProto.UINT8, [1])
    graph = helper.make_graph([helper.make_node("QuantizeLinear", ["x", "s"], ["y"])], "known", values, [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=8)
    try:
        session(model, optimized=False)
    except Exception:
        # onnxruntime's own exceptions, which are many.
        return False
    return True


def _find_types(model: Any) -> None:
    """Note what onnxruntime knows of the tensors that onnx knows nothing of: operators of the former's own make them."""
    import onnx

    graph = model.graph
    known = {value.name for value in (*graph.value_info, *graph.input, *graph.output)}
    unknown = {name: node for node in graph.node for name in node.output if name and name not in known}
    if not unknown:
        return
    try:
        found = session(with_outputs(model, unknown), optimized=False).get_outputs()
    except Exception:
        # Whoever runs the model says why it cannot be.
        return
    for value in found:
        kind = _TENSOR.fullmatch(value.type)
        if value.name in unknown and kind is not None and kind[1] in _TYPES:
            # What it says of a number, it says of a tensor of any rank, too.
            shape = [extent if isinstance(extent, int) else None for extent in value.shape] or None
            dtype = onnx.TensorProto.DataType.Value(_TYPES[kind[1]])
            graph.value_info.append(onnx.helper.make_tensor_value_info(value.name, dtype, shape))


def _fold_casts(model: Any) -> None:
    """Make float32 of constants that are cast to it, as onnxruntime does with all that it has no float16 kernel for."""
    import onnx

    graph = model.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    for node in list(graph.node):
        if node.op_type != "Cast" or attribute(node, "to", 0) != onnx.TensorProto.FLOAT:
            continue
        tensor = constants.get(node.input[0])
        if tensor is None or node.output[0] in {value.name for value in graph.output}:
            continue
        values = onnx.numpy_helper.to_array(tensor).astype(np.float32)
        graph.initializer.append(onnx.numpy_helper.from_array(values, node.output[0]))
        graph.node.remove(node)
    read = {name for node in graph.node for name in names_read(node)} | {value.name for value in graph.output}
    for tensor in [tensor for tensor in graph.initializer if tensor.name not in read]:
        graph.initializer.remove(tensor)


def _plain_gemms(model: Any) -> None:
    """Give each Gemm with constant weights a factor of 1, and its bias, if that is constant and one number per channel, one."""
    from onnx import numpy_helper

    graph = model.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    taken = tensor_names(graph)
    readers: dict[str, int] = {}
    for node in graph.node:
        for name in node.input:
            readers[name] = readers.get(name, 0) + 1

    def put(node: Any, operand: int, values: Array) -> None:
        """Give the node a constant of its own if others read the one it has."""
        tensor = constants[node.input[operand]]
        name = tensor.name
        if readers[name] > 1:
            readers[name] -= 1
            name = unused(f"{name}_of_{node.output[0]}", taken)
            node.input[operand] = name
            readers[name] = 1
            tensor = graph.initializer.add()
        constants[name] = tensor
        tensor.CopyFrom(numpy_helper.from_array(values, name))
        for infos in (graph.value_info, graph.input):
            for info in [info for info in infos if info.name == name]:
                infos.remove(info)

    for node in graph.node:
        if node.op_type != "Gemm" or node.input[1] not in constants:
            continue
        alpha, beta = attribute(node, "alpha", 1.0), attribute(node, "beta", 1.0)
        weight = numpy_helper.to_array(constants[node.input[1]])
        channels = weight.shape[0 if attribute(node, "transB", 0) else 1]
        if alpha != 1:
            put(node, 1, weight * np.asarray(alpha, weight.dtype))
        made = {"alpha"}
        if len(node.input) > 2 and node.input[2] in constants:
            values = numpy_helper.to_array(constants[node.input[2]])
            if values.size in (1, channels) and values.shape[-1:] in ((), (1,), (channels,)):
                if values.shape != (channels,) or beta != 1:
                    flat = np.broadcast_to(values.reshape(-1), channels) * np.asarray(beta, values.dtype)
                    put(node, 2, np.ascontiguousarray(flat))
                made.add("beta")
        for entry in [entry for entry in node.attribute if entry.name in made]:
            node.attribute.remove(entry)


def _normalize_rows(model: Any) -> None:
    """Write normalizations of channels, or groups of them, over all places as ones of rows, which have an integer form."""
    from onnx import numpy_helper

    graph = model.graph
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    infos = {value.name: value.type.tensor_type for value in (*graph.value_info, *graph.input, *graph.output)}
    taken = tensor_names(graph)
    nodes: list[Any] = []
    for node in graph.node:
        of_places = node.op_type in _OF_PLACES and node.domain in _ONNX
        known = infos.get(node.input[0]) if of_places else None
        scale, bias = (constants.get(name) for name in node.input[1:3]) if of_places else (None, None)
        dims = [] if known is None else [dim.dim_value for dim in known.shape.dim]
        if known is None or scale is None or bias is None or len(dims) < 3 or not all(dims[1:]):
            nodes.append(node)
        else:
            nodes += _by_rows(graph, node, (known.elem_type, dims), scale, bias, taken)
    del graph.node[:]
    graph.node.extend(nodes)


def _by_rows(
    graph: Any, node: Any, known: tuple[int, list[int]], scale: Array, bias: Array, taken: set[str]
) -> list[Any]:
    """Return the nodes that a normalization over places becomes; their constants and types go into the graph."""
    from onnx import helper, numpy_helper

    (kind, dims), epsilon = known, attribute(node, "epsilon", 1e-5)
    channels = dims[1]
    groups = attribute(node, "num_groups", channels)
    rows = [dims[0], groups, int(np.prod(dims[1:])) // groups]
    ones = np.ones(rows[2], helper.tensor_dtype_to_np_dtype(kind))
    there, back = (np.array([0, *shape[1:]]) for shape in (rows, dims))
    steps: list[tuple[str, Array, list[int], dict[str, Any]]] = [
        ("LayerNormalization", ones, rows, {"axis": -1, "epsilon": epsilon, "name": node.name})
    ]
    if dims != rows:
        steps = [("Reshape", there, rows, {}), *steps, ("Reshape", back, dims, {})]
    for operator, values, idle in (("Mul", scale, 1), ("Add", bias, 0)):
        if (values != idle).any():
            each = np.repeat(values, channels // len(values)).reshape(-1, *[1] * (len(dims) - 2))
            steps.append((operator, each, dims, {}))
    made: list[Any] = []
    value = node.input[0]
    for operator, values, shape, attributes in steps:
        constant = unused(f"{node.output[0]}_{operator}_operand", taken)
        graph.initializer.append(numpy_helper.from_array(values, constant))
        if len(made) == len(steps) - 1:
            result = node.output[0]
        else:
            result = unused(f"{node.output[0]}_{operator}", taken)
            graph.value_info.append(helper.make_tensor_value_info(result, kind, [dim or None for dim in shape]))
        made.append(helper.make_node(operator, [value, constant], [result], **attributes))
        value = result
    return made
