"""ONNX's interface to runtimes, `onnx.backend`, for Triune on this machine's CPU.

Its functions are `prepare`, `run_model`, `run_node` and `supports_device`.

It needs the onnx package. ONNX's conformance suite runs on it:

    onnx.backend.test.BackendTest(triune.onnx.backend.Backend, __name__)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx.backend.base import Backend as _Backend
from onnx.backend.base import BackendRep, namedtupledict

from triune._session import Session
from triune.errors import ArgumentError

__all__ = ["Backend", "Prepared", "prepare", "run_model", "run_node", "supports_device"]

Value = npt.NDArray[Any] | list[npt.NDArray[Any]] | dict[Any, Any] | np.generic | float | None
"""A tensor, a sequence, a map, a number, which is a tensor without axes, or an optional without content."""
Inputs = Sequence[Value] | Mapping[str, Value] | npt.NDArray[Any]
"""A value per input of the model in the model's order or by name, or the only one."""


class Prepared(BackendRep):
    """A model that is ready to run."""

    def __init__(self, session: Session) -> None:
        """Hold the session."""
        self._session = session
        self._results = namedtupledict("Outputs", [output.name for output in session.outputs])

    def run(self, inputs: Inputs, **kwargs: Any) -> tuple[npt.NDArray[Any], ...]:
        """Compute every output; return them as a tuple that is indexed by place, and by name, too: arrays of the outputs'
        dtypes and shapes.

        Raises what `triune.Session.run` raises, and `triune.errors.ArgumentError` if there are more arrays than inputs.
        """
        if kwargs:
            raise ArgumentError(f"run: no option is called {next(iter(kwargs))!r}")
        names = [info.name for info in (*self._session.inputs, *self._session.defaults)]
        inputs = _listed(inputs)
        if not isinstance(inputs, Mapping):
            if len(inputs) > len(names):
                raise ArgumentError(f"inputs: expected an array for each of {names}, got {len(inputs)}")
            inputs = dict(zip(names, inputs, strict=False))
        feeds = {name: _value(value) for name, value in inputs.items()}
        return self._results(*self._session.run(feeds))


def _listed(inputs: Inputs) -> Sequence[Value] | Mapping[str, Value]:
    """Return values in order or by name. Raises ArgumentError for what is neither."""
    if isinstance(inputs, np.ndarray):
        return [inputs]
    if isinstance(inputs, str | bytes) or not isinstance(inputs, Sequence | Mapping):
        raise ArgumentError(
            f"inputs: expected a list of arrays, a dict by name, or an array, got {type(inputs).__name__}"
        )
    return inputs


def _by_name(node: onnx.NodeProto, inputs: Inputs) -> dict[str, Value]:
    """Return a node's operands by their names. Raises ArgumentError where they are others than it reads."""
    given = [name for name in node.input if name]
    inputs = _listed(inputs)
    if isinstance(inputs, Mapping):
        if others := sorted(set(given) ^ set(inputs)):
            what = "expected a value, got none" if others[0] in given else f"the node reads {given}"
            raise ArgumentError(f"run_node: input {others[0]!r}: {what}")
        named = dict(inputs)
    elif len(inputs) == len(given):
        named = dict(zip(given, inputs, strict=True))
    else:
        raise ArgumentError(f"run_node: inputs: expected a value for each of {given}, got {len(inputs)}")
    numbers = (bool, int, float, np.generic)
    return {name: np.asarray(value) if isinstance(value, numbers) else value for name, value in named.items()}


def _value(value: Value) -> Value:
    if value is None or isinstance(value, dict):
        return value
    if isinstance(value, list):
        return [np.asarray(array, order="C") for array in value]
    # Numbers by themselves are arrays without axes.
    return np.asarray(value, order="C")


def _type_of(name: str, value: Value) -> Any:
    """Return the type that a model says of an input. Raises ArgumentError where the value does not show it."""
    helper = onnx.helper
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "OSUT":
            return helper.make_tensor_type_proto(onnx.TensorProto.STRING, value.shape)
        try:
            number = helper.np_dtype_to_tensor_dtype(value.dtype)
        except ValueError as error:
            raise ArgumentError(f"run_node: input {name!r}: ONNX has no type for dtype {value.dtype}") from error
        return helper.make_tensor_type_proto(number, value.shape)
    if isinstance(value, list) and value:
        element = _type_of(name, np.asarray(value[0]))
        element.tensor_type.ClearField("shape")
        return helper.make_sequence_type_proto(element)
    if isinstance(value, dict) and value:
        key, content = next(iter(value.items()))
        kinds = {str: onnx.TensorProto.STRING, int: onnx.TensorProto.INT64, float: onnx.TensorProto.FLOAT}
        if type(key) in (str, int) and type(content) in kinds:
            return helper.make_map_type_proto(kinds[type(key)], helper.make_tensor_type_proto(kinds[type(content)], []))
    raise ArgumentError(
        f"run_node: input {name!r}: expected an array, a list of arrays or a dict of str or int to str, int or float, with "
        "elements; run optionals and what is empty as a model, which says their types"
    )


def _newest(node: onnx.NodeProto) -> int:
    """Return the newest version of a node's operator that is not deprecated; 1 for one that the onnx package does not know."""
    schemas = onnx.defs.get_all_schemas_with_history()
    versions = [
        schema.since_version
        for schema in schemas
        if (schema.domain, schema.name) == (node.domain, node.op_type) and not schema.deprecated
    ]
    return max(versions, default=1)


class Backend(_Backend):
    """The four functions of this module as the class that ONNX's suite takes."""

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Return whether models run on a device by this name: ``CPU``, and its first one if numbered."""
        return device in {"CPU", "CPU:0"}

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> Prepared:
        """Read a model; `threads` is the one option, as for `triune.Session`.

        Raises what `triune.Session` raises, and `triune.errors.ArgumentError` for another device or option.
        """
        if not isinstance(model, onnx.ModelProto):
            raise ArgumentError(
                f"model: expected an onnx.ModelProto, got {type(model).__name__}; triune.Session takes files"
            )
        if not cls.supports_device(device):
            raise ArgumentError(f"device: expected 'CPU', got {device!r}")
        threads = kwargs.pop("threads", 1)
        if kwargs:
            raise ArgumentError(f"prepare: no option is called {next(iter(kwargs))!r}")
        return Prepared(Session(model.SerializeToString(), threads=threads))

    @classmethod
    def run_model(
        cls, model: onnx.ModelProto, inputs: Inputs, device: str = "CPU", **kwargs: Any
    ) -> tuple[npt.NDArray[Any], ...]:
        """Read a model and run it once; outputs are in the model's order. Raises what `prepare` and `triune.Session.run`
        raise."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Inputs,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype[Any], tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[npt.NDArray[Any], ...]:
        """Run one operator on arrays, sequences of them and maps, in the newest operator set of ONNX's own unless `opset_version`
        says which; one of another domain in its newest version that is not deprecated.

        Types and extents of the results follow from the operator: `outputs_info` is not needed. Raises
        `triune.errors.ArgumentError` for values that are not one for each operand, for optionals without content, and sequences
        and maps without elements: their types show in a model only.
        """
        del outputs_info
        opset = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        values = _by_name(node, inputs)
        helper = onnx.helper
        feeds = [helper.make_value_info(name, _type_of(name, value)) for name, value in values.items()]
        results = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        graph = helper.make_graph([node], "node", feeds, results)
        imports = [helper.make_opsetid("", opset)]
        if node.domain not in ("", "ai.onnx"):
            imports.append(helper.make_opsetid(node.domain, _newest(node)))
        model = helper.make_model(graph, opset_imports=imports)
        return cls.run_model(onnx.shape_inference.infer_shapes(model), values, device, **kwargs)


prepare = Backend.prepare
run_model = Backend.run_model
run_node = Backend.run_node
supports_device = Backend.supports_device
