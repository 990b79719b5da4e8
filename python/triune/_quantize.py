"""Float models become int8 or int16 ones in QDQ form: onnxruntime's quantizer, with every sample checked before it sees one."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from triune._multipliers import use_fixed_multipliers
from triune._session import Feeds
from triune.errors import ArgumentError, FileError, UnsupportedError

__all__ = ["quantize"]

_QUANTIZED = {
    "ConvInteger",
    "DequantizeLinear",
    "DynamicQuantizeLinear",
    "MatMulInteger",
    "QLinearConv",
    "QLinearMatMul",
    "QuantizeLinear",
}
"""Operators of models that are quantized already."""

_OPSET = 13
"""The first operator set with a scale per channel."""

_IR_VERSION = 4
"""The first version of files whose initializers need not be inputs."""


def quantize(
    source: Path,
    scratch: Path,
    samples: Iterable[Feeds],
    say: Callable[[str], None],
    *,
    quiet: bool,
    bits: int = 8,
    fixed: bool = False,
) -> Path:
    """Quantize the ONNX file `source` with ranges from `samples` into a file in the folder `scratch`; return its path.

    Activations and weights get `bits` bits: 8, or 16 without zero points. `fixed` is for devices with multipliers m·2⁻ⁿ.

    Raises as `triune.compile` documents it.
    """
    try:
        import onnx
        from onnxruntime import quantization
        from onnxruntime.quantization.shape_inference import quant_pre_process
    except ImportError as error:
        raise ImportError(f"calibration needs the extra 'onnx': pip install 'triune[onnx]' ({error})") from None

    say("preparing")
    model = _read(source)
    if any(node.op_type in _QUANTIZED for node in model.graph.node):
        raise ValueError(
            f"{source}: already quantized; leave out calibration= (in Python) or --calibrate (on the command line)"
        )
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = {value.name: _Expected(value) for value in model.graph.input if value.name not in constants}

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
        """Hands the samples out one by one, and remembers how it failed."""

        def __init__(self) -> None:
            self.checked = _checked(samples, inputs, say)
            self.failure: BaseException | None = None

        def get_next(self) -> dict[str, npt.NDArray[Any]] | None:
            try:
                return next(self.checked, None)
            except BaseException as error:
                self.failure = error
                raise

    files = [scratch / name for name in ("model.onnx", "prepared.onnx", "quantized.onnx")]
    reader = Reader()
    kind = quantization.QuantType.QInt16 if bits == 16 else quantization.QuantType.QInt8
    with _hushed(quiet):
        try:
            old = any(entry.domain in ("", "ai.onnx") and entry.version < _OPSET for entry in model.opset_import)
            if old:
                onnx.save(onnx.version_converter.convert_version(onnx.load(source), _OPSET), files[0])
            quant_pre_process(str(files[0] if old else source), str(files[1]), skip_symbolic_shape=True)
            prepared = onnx.load(files[1])
            # Files of before lack what lists initializers, which the converter to 16-bit operators misses.
            old = prepared.ir_version < _IR_VERSION
            prepared.ir_version = max(prepared.ir_version, _IR_VERSION)
            if _flatten_biases(prepared) or old:
                onnx.save(prepared, files[1])
            quantization.quantize_static(
                str(files[1]),
                str(files[2]),
                reader,
                quant_format=quantization.QuantFormat.QDQ,
                activation_type=kind,
                weight_type=kind,
                per_channel=True,
                extra_options={"ActivationSymmetric": bits == 16},
            )
            if fixed:
                use_fixed_multipliers(files[2], files[1], bits)
        except Exception as error:
            if reader.failure is not None:
                raise reader.failure from None
            raise UnsupportedError(f"{source}: {_reason(error, scratch)}") from error
    return files[2]


def _read(source: Path) -> Any:
    """Return the model without its external data."""
    import onnx

    try:
        model = onnx.load(source, load_external_data=False)
    except OSError as error:
        raise FileError(f"cannot read {source}: {error.strerror or error}") from None
    except Exception as error:
        # The parser's own exception, which is another one with every version.
        raise ArgumentError(f"{source}: not an ONNX model, or a damaged one ({' '.join(str(error).split())})") from None
    if not model.opset_import:
        raise ArgumentError(f"{source}: not an ONNX model, or a damaged one: no import of an operator set")
    return model


class _Expected:
    """What an input takes."""

    def __init__(self, value: Any) -> None:
        import onnx

        tensor = value.type.tensor_type
        self.name: str = value.name
        self.dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type))
        # None: the model says nothing of the rank.
        self.shape: list[int | str] | None = None
        if tensor.HasField("shape"):
            self.shape = [dim.dim_value or dim.dim_param or "?" for dim in tensor.shape.dim]

    def check(self, where: str, array: object) -> npt.NDArray[Any]:
        """Return `array` if it fits, else raise ValueError."""
        where = f"{where}: input {self.name!r}"
        if not isinstance(array, np.ndarray):
            raise ValueError(f"{where}: expected a numpy array, got {type(array).__name__}")
        if array.dtype != self.dtype:
            raise ValueError(f"{where}: expected dtype {self.dtype}, got {array.dtype}")
        if self.shape is not None and (
            array.ndim != len(self.shape)
            or any(isinstance(n, int) and n != m for n, m in zip(self.shape, array.shape, strict=True))
        ):
            raise ValueError(f"{where}: expected shape ({', '.join(map(str, self.shape))}), got {array.shape}")
        if array.size == 0:
            raise ValueError(f"{where}: expected no empty axis, got shape {array.shape}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"{where}: expected finite values, got NaN or infinity")
        return array


def _checked(
    samples: Iterable[Feeds], inputs: Mapping[str, _Expected], say: Callable[[str], None]
) -> Iterator[dict[str, npt.NDArray[Any]]]:
    """Yield the samples, each checked against the model's inputs."""
    if not isinstance(samples, Iterable):
        raise ValueError(f"calibration: expected an iterable of samples, got {type(samples).__name__}")
    if isinstance(samples, Mapping):
        raise ValueError(
            "calibration: expected an iterable of samples, each a dict of arrays by input name, got one dict"
        )
    count = 0
    for count, sample in enumerate(samples, 1):
        say(f"calibrating: sample {count}")
        where = f"calibration: sample {count}"
        if not isinstance(sample, Mapping):
            raise ValueError(f"{where}: expected a dict of arrays by input name, got {type(sample).__name__}")
        if set(sample) != set(inputs):
            raise ValueError(
                f"{where}: expected the inputs {', '.join(inputs)}, got {', '.join(map(str, sample)) or 'none'}"
            )
        yield {name: expected.check(where, sample[name]) for name, expected in inputs.items()}
    if count == 0:
        raise ValueError("calibration: expected at least one sample, got none")


def _flatten_biases(model: Any) -> bool:
    """Give each constant bias of a Gemm the shape (N,), as the quantizer takes no other; True if one had another.

    Raises `_Refused` for a bias that is not one number per output channel.
    """
    from onnx import numpy_helper

    graph = model.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    changed = False
    for node in graph.node:
        if node.op_type != "Gemm" or len(node.input) < 3 or not {node.input[1], node.input[2]} <= set(constants):
            continue
        weight, bias = constants[node.input[1]], constants[node.input[2]]
        transposed = any(attribute.name == "transB" and attribute.i for attribute in node.attribute)
        channels = weight.dims[0 if transposed else 1]
        if list(bias.dims) == [channels]:
            continue
        values = numpy_helper.to_array(bias)
        shared = any(other is not node and bias.name in other.input for other in graph.node)
        if values.size not in (1, channels) or values.shape[-1:] not in ((), (1,), (channels,)) or shared:
            raise _Refused(
                f"node {node.name!r} (Gemm): its bias has the shape {values.shape}, not one number for each of "
                f"{channels} channels"
            )
        flat = np.ascontiguousarray(np.broadcast_to(values.reshape(-1), channels))
        bias.CopyFrom(numpy_helper.from_array(flat, bias.name))
        for infos in (graph.value_info, graph.input):
            for info in [info for info in infos if info.name == bias.name]:
                infos.remove(info)
        changed = True
    return changed


class _Refused(Exception):
    """A model that the quantizer would fail on for a reason that is known."""


def _reason(error: Exception, scratch: Path) -> str:
    """Say in a line why the quantizer failed, without names of temporary files."""
    text = " ".join(str(error).split()).replace(f"{scratch}/", "")
    text = re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ", "", text)
    if isinstance(error, _Refused):
        return f"it cannot be quantized: {text}"
    if isinstance(error, AssertionError) and "scale" in text:
        text = "a tensor becomes infinite or NaN with these samples"
    return f"onnxruntime cannot quantize it: {text or type(error).__name__}"


@contextmanager
def _hushed(quiet: bool) -> Iterator[None]:
    """Hold back what onnxruntime says on its way, which nobody can act on; its errors are raised all the same."""
    if not quiet:
        yield
        return
    import onnxruntime

    def theirs(record: logging.LogRecord) -> bool:
        return "onnxruntime" not in record.pathname

    root = logging.getLogger()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        root.addFilter(theirs)
        onnxruntime.set_default_logger_severity(4)
        try:
            yield
        finally:
            # Its default, as there is no way to ask what it was.
            onnxruntime.set_default_logger_severity(2)
            root.removeFilter(theirs)
