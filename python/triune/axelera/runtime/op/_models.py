"""Models: compiled ones on cards, and ONNX files on the CPU."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from triune import _native
from triune._arrays import model_integers, operand, reals_at_border
from triune._files import FULL, scratch
from triune.axelera.runtime._errors import InvalidArgument, vendor
from triune.axelera.runtime.objects import Context
from triune.axelera.runtime.op._operators import Array, Operator, Unpacked, array_of
from triune.axelera.runtime.scheduler import Wanted, allocation, current
from triune.errors import ArgumentError


class OnnxModel(Operator):
    """An ONNX model on the CPU."""

    def __init__(self, file: str | os.PathLike[str], provider: str | None = None, *, name: str | None = None) -> None:
        """Read the model. Raises InvalidArgument if it cannot be, and for a provider other than the CPU."""
        if provider not in (None, "cpu"):
            raise InvalidArgument(
                f"onnx_model: provider {provider!r} is not there: models run on the CPU; leave it out"
            )
        self.name, self.provider = name or None, provider
        try:
            self._session = _native.Session(Path(file))
        except _native.Error as error:
            raise vendor(error) from None

    def __call__(self, *inputs: Any) -> Any:
        """Return the output, or all outputs if there are several. An input without the batch's axis gets one."""
        names = [name for name, *_ in self._session.inputs]
        if len(inputs) != len(names):
            raise InvalidArgument(f"expected {len(names)} inputs ({', '.join(names)}), got {len(inputs)}")
        given = {}
        for (name, _, shape), value in zip(self._session.inputs, inputs, strict=True):
            given[name] = np.ascontiguousarray(_batched(array_of(value), len(shape)))
        try:
            return _outputs(self._session.run(given))
        except _native.Error as error:
            raise vendor(error) from None


_MOST_BYTES, _MOST_FILES = 1 << 33, 1000
"""An archive that holds more is no model's."""


def _extracted(archive: Path, folder: Path) -> Path:
    """Extract an archive; return the ``model.json`` in it. Raises InvalidArgument if there is none, or it is damaged."""
    try:
        with zipfile.ZipFile(archive) as opened:
            members = opened.infolist()
            if sum(one.file_size for one in members) > _MOST_BYTES or len(members) > _MOST_FILES:
                raise InvalidArgument(f"{archive}: expected {_MOST_FILES} files of {_MOST_BYTES} bytes at most")
            opened.extractall(folder)
    except InvalidArgument:
        raise
    except OSError as error:
        if error.errno in FULL:
            raise
        raise InvalidArgument(f"{archive}: not an archive that can be read: {error.strerror or error}") from None
    except Exception as error:
        # Whatever inflating or parsing a damaged one raises, or one with a password.
        raise InvalidArgument(f"{archive}: not an archive that can be read: {error}") from None
    found = sorted(folder.rglob("model.json"))
    if len(found) > 1:
        raise InvalidArgument(
            f"{archive}: expected one model, and there are {len(found)} files called model.json in it"
        )
    if not found:
        raise InvalidArgument(
            f"{archive}: there is no model.json in it, which `triune compile MODEL.onnx --target metis -o DIR` writes; those of "
            "the vendor's compiler hold machine code, which only the chip runs"
        )
    return found[0]


def _batched(array: Array, axes: int) -> Array:
    return array[None] if array.ndim == axes - 1 else array


def _outputs(results: Sequence[Array]) -> Any:
    return results[0] if len(results) == 1 else Unpacked(results)


def _typed(name: str, array: Array, dtype: str) -> Array:
    """Return an input in the model's type: reals as float32, and integers only of integers, whose values it has."""
    if np.issubdtype(dtype, np.floating):
        return array.astype(dtype, copy=False)
    if array.dtype.kind == "f":
        raise InvalidArgument(
            f"input {name!r}: expected dtype {dtype}, got {array.dtype}: the model takes integers, such as the bytes of "
            "pictures, not the reals that they stand for"
        )
    try:
        return operand(f"input {name!r}", array, np.dtype(dtype), convert=True)
    except ArgumentError as error:
        raise InvalidArgument(str(error)) from None


class Load(Operator):
    """A compiled model on a card, with what the host computes in front of it and behind.

    Arrays have the model's types: reals, or the integers that a model takes or gives itself.
    """

    def __init__(
        self,
        file: str | os.PathLike[str],
        ncores: int = 1,
        *,
        name: str | None = None,
        core_allocation: int | str | None = None,
    ) -> None:
        """Take a package's directory, its ``model.json``, or a ``.axm`` file, a ZIP archive of the directory.

        The model gets `core_allocation` cores of the current scheduler when it first runs, or that percentage of those that no
        other model was given a number of; `ncores` is an older name for it. Raises what `Context.load_model` raises.
        """
        self.name, path = name or None, Path(file)
        cores = allocation(ncores if core_allocation is None and ncores != 1 else core_allocation)
        if path.suffix.lower() == ".axe":
            raise InvalidArgument(
                f"{path}: pipelines in .axe files are not read; put the pipeline together with op.seq"
            )
        if not os.path.exists(path):
            raise InvalidArgument(
                f"{path} does not exist: expected a package's directory, its model.json or a .axm file"
            )
        with scratch() as folder:
            if os.path.isfile(path) and zipfile.is_zipfile(path):
                path = _extracted(path, folder)
            self._open(path / "model.json" if os.path.isdir(path) else path, cores)

    def _open(self, path: Path, cores: int | float | None) -> None:
        self._context = Context()
        try:
            model = self._context.load_model(path)
            self._package = model._package
            self._wanted = Wanted(model, cores)
            self._inputs, self._made = model.inputs(), model.outputs()
            before, behind = self._package.preprocess, self._package.postprocess
            try:
                self._before = _native.Session(path.parent / before) if before else None
                self._behind = _native.Session(path.parent / behind) if behind else None
            except _native.Error as error:
                raise vendor(error) from None
        except BaseException:
            self._context.release()
            raise
        made = {name for name, *_ in self._before.outputs} if self._before else set()
        given = [name for name, *_ in self._before.inputs] if self._before else []
        # The card and the host's parts between may take one tensor both.
        own = dict.fromkeys(io.name for io in self._package.inputs)
        self._names = given + [name for name in own if name not in {*made, *given}]
        # What the host takes past the card.
        past = {name: (dtype, shape) for name, dtype, shape in (self._behind.inputs if self._behind else ())}
        first = {name: (dtype, shape) for name, dtype, shape in (self._before.inputs if self._before else ())}
        results = {io.name for io in self._package.outputs}
        self._names += [name for name in past if name not in {*made, *results, *self._names}]
        self._dtypes = {name: dtype for name, (dtype, _) in past.items()}
        self._dtypes |= {io.name: io.model_dtype for io in self._package.inputs}
        self._dtypes |= {name: dtype for name, (dtype, _) in first.items()}
        self._axes = {name: len(shape) for name, (_, shape) in past.items()}
        self._axes |= {io.name: len(io.model_shape) for io in self._package.inputs}
        self._axes |= {name: len(shape) for name, (_, shape) in first.items()}

    def release(self) -> None:
        """Give back the cores; the model cannot run any more."""
        self._context.release()

    def __call__(self, *inputs: Any) -> Any:
        """Return the output, or all outputs if there are several. An input without the batch's axis gets one."""
        if len(inputs) != len(self._names):
            raise InvalidArgument(f"expected {len(self._names)} inputs ({', '.join(self._names)}), got {len(inputs)}")
        tensors = {
            name: _typed(name, _batched(array_of(value), self._axes[name]), self._dtypes[name])
            for name, value in zip(self._names, inputs, strict=True)
        }
        try:
            return self._computed(tensors)
        except _native.Error as error:
            raise vendor(error) from None

    def _computed(self, tensors: dict[str, Array]) -> Any:
        if self._before:
            tensors |= _named(self._before, tensors)
        arrays = []
        for io, info in zip(self._package.inputs, self._inputs, strict=True):
            real = tensors[io.name]
            if info.dtype == np.int8:
                real = reals_at_border(real, info.scale, info.zero_point)
            wanted, got = list(io.model_shape), list(real.shape)
            if got != wanted:
                cure = (
                    "; op.to_tensor() brings channels in front" if got == [*wanted[:1], *wanted[2:], wanted[1]] else ""
                )
                raise InvalidArgument(f"input {io.name!r}: expected shape {wanted}, got {got}{cure}")
            laid = np.moveaxis(real, 1, -1) if real.ndim == 4 else real
            arrays.append(info.quantize(np.ascontiguousarray(laid).reshape(info.unpadded_shape)))
        targets = [np.empty(info.shape, info.dtype) for info in self._made]
        current().run(self._wanted, arrays, targets)
        found = {}
        for io, info, target in zip(self._package.outputs, self._made, targets, strict=True):
            own = io.model_dtype
            made = info.dequantize(target) if own == "float32" else model_integers(info.depadded(target), own)
            found[io.name] = (np.moveaxis(made, -1, 1) if len(io.model_shape) == 4 else made).reshape(io.model_shape)
        if self._behind:
            read = {name for name, *_ in self._behind.inputs}
            final = {name: array for name, array in found.items() if name not in read}
            found = final | _named(self._behind, tensors | found)
        return _outputs(list(found.values()))


def _named(session: _native.Session, tensors: dict[str, Array]) -> dict[str, Array]:
    results = session.run({name: np.ascontiguousarray(tensors[name]) for name, *_ in session.inputs})
    return {name: array for (name, *_), array in zip(session.outputs, results, strict=True)}
