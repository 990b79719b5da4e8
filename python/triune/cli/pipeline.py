"""A whole model: the ONNX graphs on the host around a program on a virtual card."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from triune import _native
from triune._arrays import model_integers, reals_at_border
from triune._values import first_rows, joined
from triune.axelera.runtime import Context, Profile, TensorInfo, _manifest
from triune.axelera.runtime._bring import connect
from triune.cli.data import Input
from triune.cli.rows import runs
from triune.errors import FileError

Tensor = npt.NDArray[Any]


class Pipeline:
    """A package, loaded onto a card. Tensors are the model's own, of its types: channels in front, any number of images."""

    def __init__(self, path: Path, device: int | str | None, threads: int) -> None:
        """Load the package whose `model.json` is at `path` onto a device (None: the first that is free)."""
        self._context = Context()
        try:
            if not (path.parent / _manifest.FILE).exists():
                raise FileError(
                    f"{path.parent}: there is no {_manifest.FILE}, which says how tensors are padded and quantized; compile the "
                    "model again"
                )
            model = self._context.load_model(path)
            self._package = _native.Package(path)
            self._infos = (model.inputs(), model.outputs())
            if device is None:
                connection = connect(self._context, self._package)
            else:
                connection = self._context.device_connect(device, self._package.batch)
            self._instance = connection.load_model_instance(model, device_profiling=True)
            folder = path.parent
            before, behind = self._package.preprocess, self._package.postprocess
            self._before = _native.Session(folder / before, threads=threads) if before else None
            self._behind = _native.Session(folder / behind, threads=threads) if behind else None
        except BaseException:
            self._context.release()
            raise
        made = {name for name, *_ in self._before.outputs} if self._before else set()
        inputs = (
            [Input(name, _shape(shape), dtype) for name, dtype, shape in self._before.inputs] if self._before else []
        )
        known = made | {item.name for item in inputs}
        # What the host takes past the card.
        results = {io.name for io in self._package.outputs}
        past = {name: (_shape(shape), dtype) for name, dtype, shape in (self._behind.inputs if self._behind else ())}
        # The card and the host's parts between may take one tensor both.
        own = {io.name: io for io in self._package.inputs if io.name not in known}
        inputs += [Input(io.name, tuple(io.model_shape), io.model_dtype) for io in own.values()]
        known |= results | {item.name for item in inputs}
        inputs += [Input(name, *found) for name, found in past.items() if name not in known]
        self.inputs = inputs
        """What the model takes."""
        # One run takes as many along the first axis as the model has there: rows, where they are no images.
        self._steps = {item.name: max(self._package.batch, item.step) for item in inputs if item.has_rows}
        self._shapes: dict[str, tuple[int | str, ...]] = {
            io.name: tuple(io.model_shape) for io in self._package.outputs if io.name not in past
        }
        self._shapes |= {name: tuple(shape) for name, _, shape in (self._behind.outputs if self._behind else ())}

    @property
    def shapes(self) -> Mapping[str, tuple[int | str, ...]]:
        """Those of the model's outputs, by name."""
        return self._shapes

    def run(self, arrays: dict[str, Tensor], progress: Callable[[int, int], None]) -> dict[str, Any]:
        """Run every image, a batch at a time; `progress` is called with images done and to do."""
        parts: dict[str, list[Any]] = {}
        step = 1
        for run in runs(arrays, self.inputs, self._steps):
            step = run.step
            for name, value in self._run_batch(run.feed).items():
                parts.setdefault(name, []).append(first_rows(value, run.kept, run.step))
            progress(run.done, run.of)
        return {name: joined(name, found, self._shapes[name], step) for name, found in parts.items()}

    def _run_batch(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        if self._before:
            tensors |= _session(self._before, tensors)
        sources = [
            _to_device(tensors[io.name], info) for io, info in zip(self._package.inputs, self._infos[0], strict=True)
        ]
        targets = [np.empty(info.shape, info.dtype) for info in self._infos[1]]
        self._instance.run(sources, targets)
        found = {
            io.name: _from_device(target, info, tuple(io.model_shape), io.model_dtype)
            for io, info, target in zip(self._package.outputs, self._infos[1], targets, strict=True)
        }
        if self._behind is None:
            return found
        # A result of the device that the host does not go on with is one of the model's own.
        read = {name for name, *_ in self._behind.inputs}
        final = {name: array for name, array in found.items() if name not in read}
        return final | _session(self._behind, tensors | found)

    def profile(self) -> Profile:
        """Return the modelled time of the device's part."""
        return self._instance.profile()

    def close(self) -> None:
        """Free the card."""
        self._context.release()

    def __enter__(self) -> Self:
        """Return the pipeline itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Free the card."""
        self.close()


def _shape(extents: list[int | str]) -> tuple[int, ...]:
    # An open extent is the batch, which is checked by nobody.
    return tuple(extent if isinstance(extent, int) else 1 for extent in extents)


def _session(session: _native.Session, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    wanted = [name for name, *_ in session.inputs]
    missing = [name for name in wanted if name not in tensors]
    if missing:
        raise ValueError(f"the host's part of the model reads {', '.join(missing)}, which nothing before it makes")
    results = session.run({name: np.ascontiguousarray(tensors[name]) for name in wanted})
    return {name: array for (name, *_), array in zip(session.outputs, results, strict=True)}


def _to_device(real: Tensor, info: TensorInfo) -> Tensor:
    """Lay out and quantize as ONNX `QuantizeLinear` does: the zero point is added after rounding."""
    if info.dtype != np.int8:
        # For the host's parts between, as it is.
        laid = np.moveaxis(real, 1, -1) if real.ndim == 4 else real
        return np.ascontiguousarray(laid, info.dtype).reshape(info.shape)
    real = reals_at_border(real, info.scale, info.zero_point)
    laid = np.moveaxis(real, 1, -1) if real.ndim == 4 else real
    limits = np.iinfo(info.dtype)
    steps = np.rint(laid.astype(np.float32) / np.float32(info.scale)) + np.float32(info.zero_point)
    quantized = steps.clip(limits.min, limits.max).astype(info.dtype).reshape(info.unpadded_shape)
    return np.ascontiguousarray(np.pad(quantized, info.padding, constant_values=info.zero_point))


def _from_device(buffer: Tensor, info: TensorInfo, shape: tuple[int, ...], dtype: str) -> Tensor:
    """Return reals, or the integers of a model that gives these."""
    found = info.dequantize(buffer) if dtype == "float32" else model_integers(info.depadded(buffer), dtype)
    return (np.moveaxis(found, -1, 1) if len(shape) == 4 else found).reshape(shape)
