"""Models beside each other on the same inputs: layer by layer, output by output. The public name is `triune.compare`.

A model is an ONNX file, float or quantized, or a package. Of ONNX files every tensor can be seen: onnxruntime runs them as they
stand, without its optimizations, so that what is compared is the model and not what a runtime made of it.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from triune._detections import Detections, Matches, match
from triune._detector import SUPPRESSED_OVERLAP, Detector
from triune._files import write_text
from triune._model_info import ModelInfo
from triune._session import Feeds
from triune._text import short
from triune._values import as_array, keys_of
from triune.batch._pictures import Frame
from triune.errors import ArgumentError
from triune.quantization._agreement import scores_classes
from triune.quantization._equalize import noted_factors
from triune.quantization._model import Array, read
from triune.quantization._statistics import EXACT, session, with_outputs

__all__ = ["Comparison", "Difference", "LayerDifference", "OutputDifference", "compare"]

_ROUNDING = 1e-4
"""Differences of two optimization levels, as part of the largest value, that are the order of adding and no more.

A step of 8 bits is at least 4e-3 of it."""


@dataclass(frozen=True)
class LayerDifference:
    """How a tensor inside of one model differs from the one of the same name in another."""

    name: str
    """The tensor."""
    kind: str
    """The operator that makes it."""
    sqnr: float
    """Signal to noise in dB; infinite if nothing differs."""
    cosine: float
    """Cosine of the angle between the two."""
    max_error: float
    """The largest absolute difference."""


@dataclass(frozen=True)
class OutputDifference:
    """How an output of one model differs from another's."""

    name: str
    sqnr: float
    cosine: float
    max_error: float
    equal: float
    """The share of values that are the same to the bit."""
    top1: float | None
    """For scores of classes, the share of images with the same best one."""
    strings: bool = False
    """Whether it is of strings, of which `equal` alone says something: the other numbers are NaN."""


@dataclass(frozen=True)
class Difference:
    """How one model differs from another one."""

    reference: str
    other: str
    outputs: tuple[OutputDifference, ...]
    layers: tuple[LayerDifference, ...]
    """The tensors that both have, the worst first; none of packages, which do not show what is inside."""
    detections: Matches | None
    """Of detectors: boxes that both find."""


@dataclass(frozen=True)
class Comparison:
    """What `triune.compare` found."""

    models: tuple[str, ...]
    samples: int
    differences: tuple[Difference, ...]
    """Of each pair, the first model's first."""
    boxes: str | None
    """Which outputs were taken for boxes and scores."""
    score: float
    iou: float
    notes: tuple[str, ...] = field(default=())
    """What has to be known of the numbers: how they came about, and what is a runtime's doing and not the model's."""

    def table(self, layers: int = 20) -> str:
        """Return all as text, of each pair at most `layers` layers."""
        lines = [f"{self.samples} samples"]
        for difference in self.differences:
            lines += ["", f"{difference.other} against {difference.reference}", *_output_lines(difference.outputs)]
            if difference.detections is not None:
                lines.append(f"  {self._boxes(difference.detections)}")
            if difference.layers and layers > 0:
                shown = difference.layers[:layers]
                more = f" ({len(shown)} of {len(difference.layers)})" if len(shown) < len(difference.layers) else ""
                lines += [f"  layers, the worst first{more}", *_layer_lines(shown)]
        return "\n".join([*lines, *([""] if self.notes else []), *(f"note: {note}" for note in self.notes)])

    def __str__(self) -> str:
        """Return the table."""
        return self.table()

    def _boxes(self, found: Matches) -> str:
        """Say how many boxes are the same."""
        return (
            f"boxes of at least {self.score:g} ({self.boxes}): {found.matched} of {found.reference} matched at IoU "
            f"{self.iou:g}, {found.other - found.matched} others; IoU {found.least_iou:.3f} at least, scores within "
            f"{found.most_score_error:.3f}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return all as plain data for JSON; a ratio that is infinite, or undefined, is None."""
        plain: dict[str, Any] = _plain(asdict(self))
        return plain

    def write_json(self, path: str | os.PathLike[str]) -> None:
        """Write all as JSON. Raises FileError if the file cannot be written."""
        write_text(path, json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n")

    def write_html(self, path: str | os.PathLike[str]) -> None:
        """Write a page that needs nothing else. Raises FileError if the file cannot be written."""
        from triune.quantization._compare_page import write_page

        write_page(self, Path(path))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _output_lines(outputs: Sequence[OutputDifference]) -> list[str]:
    width = max([len("output"), *(len(output.name) for output in outputs)])
    lines = [f"  {'output':<{width}}  {'SQNR dB':>8}  {'cosine':>8}  {'max error':>10}  {'equal':>7}  top-1"]
    for output in outputs:
        best = "" if output.top1 is None else f"{output.top1:.1%}"
        numbers = f"{output.sqnr:>8.1f}  {output.cosine:>8.5f}  {output.max_error:>10.4g}  {output.equal:>7.1%}  {best}"
        if output.strings:
            numbers = f"{'-':>8}  {'-':>8}  {'-':>10}  {output.equal:>7.1%}"
        lines.append(f"  {output.name:<{width}}  {numbers}".rstrip())
    return lines


def _told(keys: list[Any] | None) -> str:
    return "none" if keys is None else short(str(keys))


def _layer_lines(layers: Sequence[LayerDifference]) -> list[str]:
    width = max(len("tensor"), *(len(layer.name) for layer in layers))
    kind = max(len("made by"), *(len(layer.kind) for layer in layers))
    lines = [f"    {'tensor':<{width}}  {'made by':<{kind}}  {'SQNR dB':>8}  {'cosine':>8}  {'max error':>10}"]
    for layer in layers:
        numbers = f"{layer.sqnr:>8.1f}  {layer.cosine:>8.5f}  {layer.max_error:>10.4g}"
        lines.append(f"    {layer.name:<{width}}  {layer.kind:<{kind}}  {numbers}")
    return lines


def compare(
    *models: str | os.PathLike[str],
    inputs: Iterable[Feeds],
    boxes: str | None = None,
    score: float = 0.25,
    iou: float = 0.5,
    progress: Callable[[str], None] | None = None,
) -> Comparison:
    """Run two or more models on the same inputs, and say how each differs from those before it.

    A model is an ONNX file or a package's directory: typically the float model, the quantized one and what was compiled.
    `inputs` are samples (`triune.Feeds`) as `triune.compile` takes them: a dict per sample with an array for every input,
    of its dtype and shape, batch axis included.

    Outputs are compared by name. Scores of classes, (N, C) or (N, C, 1, 1), are compared by the best class. Outputs that look
    like boxes with scores are compared by the boxes of at least `score` that match in class with an intersection over union
    of `iou`; `boxes` says which they are: the name of one output with four numbers and scores for each box, or ``boxes,scores``
    for two, or ``none``. Tensors inside are compared where two ONNX files have one of the same name.

    Where onnxruntime gives other results at its default optimization level than with none, `notes` says by how much.

    Raises ValueError if there are no inputs, `ArgumentError` if there are fewer than two models, one is no such model, or they
    have no output in common; `FileError`; ImportError without the extra ``onnx``. What the iterator of inputs raises passes
    through.

    Examples:
        >>> import triune
        >>> from triune.models import DIGITS_F32, DIGITS_INT8, digits_held_out
        >>> scans = digits_held_out()[0].transpose(0, 3, 1, 2)
        >>> print(triune.compare(DIGITS_F32, DIGITS_INT8, inputs=[{"image": scan[None]} for scan in scans[:20]]))
        20 samples
        ...
    """
    if len(models) < 2:
        raise ArgumentError(f"models: expected two or more, got {len(models)}")
    try:
        import onnxruntime  # noqa: F401
    except ImportError as error:
        raise ImportError(f"comparing needs the extra 'onnx': pip install 'triune[onnx]' ({error})") from None
    say = progress or (lambda _: None)
    paths = [Path(model) for model in models]
    names = _labels(paths)
    opened: list[_Package | _Onnx] = []
    try:
        for path in paths:
            say(f"opening {path.name}")
            package = path / "model.json" if path.is_dir() else path
            opened.append(_Package(package) if package.suffix == ".json" else _Onnx(path))
        return _Comparing(names, opened, boxes, score, iou).run(inputs, say)
    finally:
        for model in opened:
            model.close()


def _labels(paths: Sequence[Path]) -> list[str]:
    """Return the shortest ends of paths that tell them apart."""
    for count in range(1, max(len(path.parts) for path in paths) + 1):
        names = ["/".join(path.parts[-count:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [f"{path} ({number})" for number, path in enumerate(paths, 1)]


class _Model(Protocol):
    outputs: list[str]

    def run(self, sample: dict[str, Array], tensors: Sequence[str]) -> dict[str, Array]:
        """Return the outputs and some tensors."""
        ...


def _fed(model: Path, inputs: Mapping[str, str], sample: dict[str, Array]) -> dict[str, Array]:
    """Return what a model is fed of a sample, which has the first model's inputs.

    Raises: `ArgumentError` where the model has inputs of other names or element types.
    """
    if missing := [name for name in inputs if name not in sample]:
        theirs, ours = (short(", ".join(map(repr, names))) for names in (missing, sample))
        raise ArgumentError(
            f"{model} takes {theirs}, and the model that it is compared with {ours}: models on the same inputs are "
            "compared, by the inputs' names"
        )
    for name, dtype in inputs.items():
        given = getattr(sample[name], "dtype", None)
        if given is not None and given.kind not in "OUST" and given.name != dtype:
            raise ArgumentError(
                f"{model} takes {dtype} as {name!r}, and the model that it is compared with {given}: a model of "
                "pictures' bytes (--input-format) is compared with others of bytes, its own ONNX file first"
            )
    return {name: sample[name] for name in inputs}


def _element_type(text: str) -> str:
    """Return numpy's name of what onnxruntime calls ``tensor(float)``."""
    name = text.removeprefix("tensor(").removesuffix(")")
    return {"float": "float32", "double": "float64", "string": "object", "bfloat16": "float32"}.get(name, name)


def _info(path: Path, model: Any) -> ModelInfo:
    try:
        return ModelInfo.of_properties({entry.key: entry.value for entry in model.metadata_props})
    except ArgumentError as error:
        raise ArgumentError(f"{path}: {error}") from None


class _Onnx:
    """An ONNX file in onnxruntime, as it stands."""

    def __init__(self, path: Path) -> None:
        import onnx

        read(path)
        try:
            self.model = onnx.load(path)
        except Exception as error:
            raise ArgumentError(f"{path}: its external data cannot be read ({error})") from None
        graph = self.model.graph
        self.path = path
        self.info = _info(self.path, self.model)
        self.outputs = [value.name for value in graph.output]
        self.factors = noted_factors(self.model)
        self.kinds = {name: node.op_type for node in graph.node for name in node.output if name}
        # A tensor that is rounded is what comes out of that.
        rounded = {node.input[0]: node.output[0] for node in graph.node if node.op_type == "QuantizeLinear"}
        real = {node.input[0]: node.output[0] for node in graph.node if node.op_type == "DequantizeLinear"}
        self.tensors = {name: real.get(rounded.get(name, ""), name) for name in self.kinds}
        self._session: Any = None
        self._asked: tuple[str, ...] | None = None
        self._optimized: dict[bool, Any] = {}

    def run(self, sample: dict[str, Array], tensors: Sequence[str]) -> dict[str, Array]:
        """Return the outputs, and the tensors as the rest of the model sees them, on their original scale."""
        wanted = tuple(dict.fromkeys([*self.outputs, *(self.tensors[name] for name in tensors)]))
        if wanted != self._asked:
            self._session = session(with_outputs(self.model, wanted), optimized=False)
            self._asked = wanted
        inputs = {value.name: _element_type(value.type) for value in self._session.get_inputs()}
        fed = _fed(self.path, inputs, sample)
        made = dict(zip(wanted, self._session.run(list(wanted), fed), strict=True))
        found = {name: made[name] for name in self.outputs}
        for name in tensors:
            values = made[self.tensors[name]]
            by = self.factors.get(name)
            found[name] = values if by is None else values / by.reshape(1, -1, *[1] * (values.ndim - 2))
        return found

    def run_optimized(self, sample: dict[str, Array], *, exact: bool = False) -> dict[str, Array]:
        """Return the outputs at onnxruntime's default optimization level, sums `exact` where they otherwise may not be.

        With such sums there are none where onnxruntime does not open the model so, which happens.
        """
        if exact not in self._optimized:
            try:
                self._optimized[exact] = session(str(self.path), entries={EXACT: "1"} if exact else {})
            except Exception:
                if not exact:
                    raise
                self._optimized[exact] = None
        opened = self._optimized[exact]
        if opened is None:
            return {}
        fed = {value.name: sample[value.name] for value in opened.get_inputs()}
        return dict(zip(self.outputs, opened.run(self.outputs, fed), strict=True))

    def close(self) -> None:
        """Nothing is held."""


class _Package:
    """A package on a virtual card."""

    def __init__(self, path: Path) -> None:
        from triune.cli.pipeline import Pipeline

        self._path = path
        self.info = ModelInfo.of_package(path.parent)
        self._pipeline = Pipeline(path, None, 1)
        self.outputs: list[str] = []

    def run(self, sample: dict[str, Array], tensors: Sequence[str]) -> dict[str, Array]:
        """Return the outputs; a package shows no tensors."""
        assert not tensors
        fed = _fed(self._path, {item.name: str(item.dtype) for item in self._pipeline.inputs}, sample)
        found = self._pipeline.run(fed, lambda done, of: None)
        self.outputs = list(found)
        return found

    def close(self) -> None:
        """Free the card."""
        self._pipeline.close()


@dataclass
class _Sums:
    """What of two tensors is carried from sample to sample."""

    signal: float = 0.0
    other: float = 0.0
    product: float = 0.0
    noise: float = 0.0
    most: float = 0.0
    equal: int = 0
    count: int = 0
    strings: bool = False

    def add(self, reference: Array, other: Array) -> None:
        self.equal += int((reference == other).sum())
        self.count += reference.size
        if reference.dtype == object or other.dtype == object:
            self.strings = True
            self.signal = self.other = self.most = math.nan
            return
        a, b = reference.reshape(-1).astype(np.float64), other.reshape(-1).astype(np.float64)
        apart = a - b
        self.signal += float(a @ a)
        self.other += float(b @ b)
        self.product += float(a @ b)
        self.noise += float(apart @ apart)
        self.most = max(self.most, float(np.abs(apart).max(initial=0)))

    @property
    def sqnr(self) -> float:
        if self.strings:
            return math.nan
        if self.noise == 0:
            return math.inf
        return 10 * math.log10(self.signal / self.noise) if self.signal > 0 else -math.inf

    @property
    def cosine(self) -> float:
        if self.strings:
            return math.nan
        length = math.sqrt(self.signal * self.other)
        return self.product / length if length > 0 else float(self.signal == self.other)


@dataclass
class _Level:
    """What a runtime's optimizations change in an output."""

    default: _Sums = field(default_factory=_Sums)
    exact: _Sums = field(default_factory=_Sums)
    """The same where sums are exact."""
    largest: float = 0.0
    """The output's largest value."""
    opens: bool = True
    """Whether there is a session with exact sums."""

    @property
    def is_noted(self) -> bool:
        """Whether it is more than rounding."""
        return self.default.most > _ROUNDING * self.largest


@dataclass
class _Pair:
    """Two models, and what is summed up of them."""

    first: int
    second: int
    tensors: list[str]
    layers: dict[str, _Sums]
    outputs: dict[str, _Sums] = field(default_factory=dict)
    best: dict[str, list[float]] = field(default_factory=dict)
    found: list[tuple[Detections, Detections]] = field(default_factory=list)
    apart: dict[str, str] = field(default_factory=dict)
    """Outputs that had unequal shapes once, and which."""


class _Comparing:
    def __init__(
        self, names: list[str], models: Sequence[_Package | _Onnx], boxes: str | None, score: float, iou: float
    ) -> None:
        self._names = names
        self._models = models
        self._spec = boxes
        self._score = score
        self._iou = iou
        self._detector: Detector | None = None
        self._pairs = []
        for first, second in combinations(range(len(models)), 2):
            a, b = models[first], models[second]
            shared: list[str] = []
            if isinstance(a, _Onnx) and isinstance(b, _Onnx):
                shared = [name for name in a.tensors if name in b.tensors]
            self._pairs.append(_Pair(first, second, shared, {name: _Sums() for name in shared}))
        self._levels: dict[tuple[int, str], _Level] = {}

    def run(self, inputs: Iterable[Feeds], say: Callable[[str], None]) -> Comparison:
        count = 0
        for count, sample in enumerate(inputs, 1):
            say(f"comparing: sample {count}")
            fed = dict(sample)
            results = []
            for index, model in enumerate(self._models):
                asked = {name for pair in self._pairs if index in (pair.first, pair.second) for name in pair.tensors}
                results.append(model.run(fed, sorted(asked)))
            if count == 1:
                self._detector = self._detector_of(fed, self._own(0, results))
            for pair in self._pairs:
                self._add(pair, fed, results)
            for index, model in enumerate(self._models):
                if isinstance(model, _Onnx):
                    self._add_levels(index, model, fed, self._own(index, results))
        if not count:
            raise ValueError("inputs: expected at least one sample, got none")
        detector = self._detector
        described = ", ".join(detector.names) if detector is not None and self._detects else None
        return Comparison(
            models=tuple(self._names),
            samples=count,
            differences=tuple(map(self._difference, self._pairs)),
            boxes=described,
            score=self._score,
            iou=self._iou,
            notes=tuple(self._notes()),
        )

    def _detector_of(self, sample: Mapping[str, Any], outputs: Mapping[str, Array]) -> Detector | None:
        """Return what detects with the first model's outputs; None if that is not wanted."""
        if self._spec == "none":
            return None
        frame = None
        if len(sample) == 1:
            ((name, value),) = sample.items()
            array = np.asarray(value)
            frame = Frame.of(name, array.dtype.name, array.shape, None)
        labels = next((model.info.labels for model in self._models if model.info.labels), ())
        return Detector(outputs, frame, len(labels), self._spec)

    def _own(self, index: int, results: Sequence[Mapping[str, Any]]) -> dict[str, Array]:
        own = {}
        for name in self._models[index].outputs:
            try:
                own[name] = as_array(results[index][name])
            except ValueError as error:
                raise ArgumentError(f"{self._names[index]}: output {name!r}: {error}") from None
        return own

    def _add(self, pair: _Pair, sample: Mapping[str, Any], results: Sequence[Mapping[str, Any]]) -> None:
        mine, theirs = self._own(pair.first, results), self._own(pair.second, results)
        shared = [name for name in mine if name in theirs]
        if not shared:
            raise ArgumentError(
                f"{self._names[pair.second]}: has the outputs {', '.join(theirs)}, and {self._names[pair.first]} "
                f"{', '.join(mine)}: none in common"
            )
        for name in shared:
            keys = [keys_of(results[index][name]) for index in (pair.first, pair.second)]
            if keys[0] != keys[1]:
                raise ArgumentError(
                    f"{self._names[pair.second]}: output {name!r} has the keys {_told(keys[1])}, in {self._names[pair.first]} "
                    f"{_told(keys[0])}"
                )
            if mine[name].shape != theirs[name].shape:
                apart = (
                    f"{self._names[pair.second]}: output {name!r} has the shape {theirs[name].shape}, in "
                    f"{self._names[pair.first]} {mine[name].shape}"
                )
                if len(shared) == 1:
                    raise ArgumentError(apart)
                pair.apart.setdefault(name, f"{apart}, with one sample at least: it is not compared")
                pair.outputs.pop(name, None)
                pair.best.pop(name, None)
            if name in pair.apart:
                continue
            pair.outputs.setdefault(name, _Sums()).add(mine[name], theirs[name])
            if scores_classes(mine[name], sample):
                rows = [values.reshape(values.shape[:2]).argmax(axis=1) for values in (mine[name], theirs[name])]
                pair.best.setdefault(name, []).append(float((rows[0] == rows[1]).mean()))
        for name in pair.tensors:
            a, b = results[pair.first][name], results[pair.second][name]
            if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
                continue
            if a.shape == b.shape and a.dtype.kind == b.dtype.kind == "f":
                pair.layers[name].add(a, b)
        detector = self._detector
        if detector is not None and detector.detects and set(detector.names) <= set(shared):
            for row in range(detector.pictures(mine)):
                one, other = (
                    detector.detect(outputs, row, score=self._score, overlap=SUPPRESSED_OVERLAP)
                    for outputs in (mine, theirs)
                )
                pair.found.append((one, other))

    @property
    def _detects(self) -> bool:
        return self._detector is not None and self._detector.detects

    def _add_levels(self, index: int, model: _Onnx, sample: dict[str, Array], own: Mapping[str, Array]) -> None:
        """Add what optimizations change in a model's outputs, and where that is much, what they change with exact sums."""
        optimized = {name: as_array(values) for name, values in model.run_optimized(sample).items()}
        changed = {}
        for name, other in optimized.items():
            if other.shape != own[name].shape or other.dtype == object:
                # Where extents depend on data, or there is no size of a difference, the pair's lines tell.
                continue
            level = self._levels.setdefault((index, name), _Level())
            level.default.add(own[name], other)
            level.largest = max(level.largest, float(np.abs(own[name].astype(np.float64)).max(initial=0)))
            changed[name] = level
        # Where both are the same but for the order of adding, exact sums would be, too.
        noted = any(level.is_noted for level in changed.values())
        found = model.run_optimized(sample, exact=True) if noted else optimized
        exact = {name: as_array(values) for name, values in found.items()}
        for name, level in changed.items():
            level.opens &= name in exact
            if name in exact and exact[name].shape == own[name].shape:
                level.exact.add(own[name], exact[name])

    def _difference(self, pair: _Pair) -> Difference:
        outputs = []
        for name, sums in pair.outputs.items():
            best = pair.best.get(name)
            top1 = None if best is None else sum(best) / len(best)
            equal = sums.equal / max(1, sums.count)
            outputs.append(OutputDifference(name, sums.sqnr, sums.cosine, sums.most, equal, top1, sums.strings))
        reference = self._models[pair.first]
        kinds = reference.kinds if isinstance(reference, _Onnx) else {}
        layers = [
            LayerDifference(name, kinds[name], sums.sqnr, sums.cosine, sums.most)
            for name, sums in pair.layers.items()
            if sums.count
        ]
        layers.sort(key=lambda layer: layer.sqnr)
        return Difference(
            reference=self._names[pair.first],
            other=self._names[pair.second],
            outputs=tuple(outputs),
            layers=tuple(layers),
            detections=match(pair.found, iou=self._iou) if self._detects and pair.outputs else None,
        )

    def _notes(self) -> Iterable[str]:
        """Say what outputs were taken for, where that is more than their names say, and what a runtime changes."""
        detector = self._detector
        if detector is not None and (detector.decodes or detector.undecoded):
            yield f"boxes are of {detector.said}" if detector.decodes else detector.said
        for pair in self._pairs:
            yield from pair.apart.values()
        yield from self._changed()

    def _changed(self) -> Iterable[str]:
        """Say where a runtime's optimizations change results by more than the order of adding does."""
        for (index, name), level in self._levels.items():
            if not level.is_noted:
                continue
            told = (
                f"{self._names[index]}: at its default optimization level, onnxruntime changes output {name!r} by up to "
                f"{_size(level.default)} from what it gives without optimizations, which is compared here"
            )
            cause = "on x86-64 without VNNI, sums of two products of bytes end at 16 bits there (docs/numerics.md)"
            if level.opens and level.exact.noise <= level.default.noise / 4:
                rest = f"by up to {_size(level.exact)}" if level.exact.noise else "by nothing"
                yield f"{told}. With the session option {EXACT}=1 it changes it {rest}: {cause} without it"
            elif level.opens:
                yield f"{told}; a difference of that size from onnxruntime is its own"
            else:
                yield (
                    f"{told}; a difference of that size from onnxruntime is its own. It may be that {cause}; the option "
                    f"{EXACT}=1, which would show it, makes of this model one that onnxruntime does not open"
                )


def _size(sums: _Sums) -> str:
    return f"{sums.most:.4g} ({sums.sqnr:.1f} dB)"
