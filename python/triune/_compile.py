"""From an ONNX file to a package: quantize it if it is a float model, then let the core compile it.

The public name is `triune.compile`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from triune import _native

__all__ = ["compile"]

Feeds = Mapping[str, npt.NDArray[Any]]
"""One sample: an array per input, batch included, by the input's name."""


def compile(
    model: str | os.PathLike[str],
    *,
    target: str = "metis",
    output: str | os.PathLike[str],
    batch: int = 1,
    calibration: Iterable[Feeds] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Path:
    """Compile an ONNX file for a device and return the package's directory, which is `output`.

    `model` is an int8 network in QDQ form or, with `calibration`, a float network: then onnxruntime (extra ``onnx``)
    first quantizes it, activations per tensor and weights per output channel, with ranges from those samples. `batch`
    images make one run, each on a core of its own. `progress` is called with a word on what comes next.

    Raises a subclass of `RuntimeError` if a file cannot be read or written, the model is damaged, or the device cannot
    run it; ImportError if calibration needs what is not installed; ValueError if it has no samples.
    """
    say = progress or (lambda _: None)
    folder = Path(output)
    if calibration is None:
        say("compiling")
        _native.compile(model, target=target, output=folder, batch=batch)
        return folder
    with tempfile.TemporaryDirectory(prefix="triune-") as scratch:
        quantized = Path(scratch) / "quantized.onnx"
        _quantize(Path(model), quantized, calibration, say)
        say("compiling")
        _native.compile(quantized, target=target, output=folder, batch=batch)
    return folder


def _quantize(model: Path, output: Path, samples: Iterable[Feeds], say: Callable[[str], None]) -> None:
    try:
        from onnxruntime import quantization
        from onnxruntime.quantization.shape_inference import quant_pre_process
    except ImportError as error:
        raise ImportError(f"calibration needs the extra 'onnx': pip install 'triune[onnx]' ({error})") from None

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
        """Hands the samples out one by one."""

        def __init__(self, samples: Iterable[Feeds]) -> None:
            self.samples: Iterator[Feeds] = iter(samples)
            self.count = 0

        def get_next(self) -> dict[str, npt.NDArray[Any]] | None:
            sample = next(self.samples, None)
            if sample is None:
                return None
            self.count += 1
            say(f"calibrating: sample {self.count}")
            return {name: np.asarray(array) for name, array in sample.items()}

    prepared = output.with_name("prepared.onnx")
    say("preparing")
    quant_pre_process(str(model), str(prepared), skip_symbolic_shape=True)
    reader = Reader(samples)
    try:
        quantization.quantize_static(
            str(prepared),
            str(output),
            reader,
            quant_format=quantization.QuantFormat.QDQ,
            activation_type=quantization.QuantType.QInt8,
            weight_type=quantization.QuantType.QInt8,
            per_channel=True,
        )
    except ValueError as error:
        if reader.count == 0:
            raise ValueError("calibration: expected at least one sample, got none") from None
        raise ValueError(f"calibration: {error}") from error
