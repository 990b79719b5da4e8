"""What a float network's tensors hold when it sees the samples: range, distribution, and moments per channel.

One pass over the samples, which may be an iterator; memory does not grow with their number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from triune.quantization._grams import Gram
from triune.quantization._model import Array

__all__ = [
    "BINS",
    "EXACT",
    "Distribution",
    "HeldOut",
    "Moments",
    "Observer",
    "Reservoir",
    "exact_session",
    "session",
    "with_outputs",
]

BINS = 8192
"""Bins of a histogram, from −R to R."""

EXACT = "session.x64quantprecision"
"""The option with which onnxruntime's sums of products of bytes do not end at 16 bits on machines without VNNI."""

_SEEN = 1 << 14
"""Values that go into a histogram from one tensor of one sample; more say no more."""


class Distribution:
    """Range and histogram of a tensor's values over all samples, and of groups of its channels, where there are any."""

    def __init__(self, groups: Sequence[npt.NDArray[np.intp]] = ()) -> None:
        self._groups = groups
        self.parts = [Distribution() for _ in groups]
        self.low = np.inf
        self.high = -np.inf
        self.reach = 0.0
        """R: the histogram is of −R to R."""
        self.counts: npt.NDArray[np.int64] = np.zeros(BINS, np.int64)

    def add(self, values: Array, offset: int | None) -> None:
        """Take the values of another sample; `offset` chooses which go into the histogram, None: none."""
        for channels, part in zip(self._groups, self.parts, strict=True):
            part.add(values[:, channels], offset)
        flat = values.reshape(-1)
        self.low = min(self.low, float(flat.min()))
        self.high = max(self.high, float(flat.max()))
        most = max(-self.low, self.high)
        if offset is None or most == 0 or not np.isfinite(most):
            return
        if self.reach == 0:
            self.reach = most
        while self.reach < most:
            # Twice as far with the same number of bins: two become one, in the middle half.
            pairs = self.counts.reshape(-1, 2).sum(1)
            self.counts = np.zeros(BINS, np.int64)
            self.counts[BINS // 4 : BINS // 4 + len(pairs)] = pairs
            self.reach *= 2
        step = -(-flat.size // _SEEN)
        places = (flat[offset % step :: step] + self.reach) * (BINS / (2 * self.reach))
        self.counts += np.bincount(np.clip(places.astype(np.int32), 0, BINS - 1), minlength=BINS)

    def histogram(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return the middles of the bins that hold values, and how many of all values each holds."""
        held = np.flatnonzero(self.counts)
        middles = (held + 0.5) * (2 * self.reach / BINS) - self.reach
        return np.clip(middles, self.low, self.high), self.counts[held] / max(1, self.counts.sum())


@dataclass
class Moments:
    """Mean and mean square of each channel of a product's operand."""

    axis: int
    count: int = 0
    sums: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    squares: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

    def add(self, values: Array) -> None:
        """Take the values of another sample."""
        axis = self.axis % values.ndim
        others = tuple(at for at in range(values.ndim) if at != axis)
        sums = values.sum(axis=others, dtype=np.float64)
        flat = np.moveaxis(values, axis, 0).reshape(len(sums), -1)
        squares = np.einsum("ij,ij->i", flat, flat, dtype=np.float64)
        self.sums = sums if not self.count else self.sums + sums
        self.squares = squares if not self.count else self.squares + squares
        self.count += values.size // len(sums)

    @property
    def mean(self) -> npt.NDArray[np.float64]:
        """The mean per channel."""
        return self.sums / max(1, self.count)

    @property
    def power(self) -> npt.NDArray[np.float64]:
        """The mean square per channel."""
        return self.squares / max(1, self.count)


class Reservoir:
    """Some of the samples, each as likely as the others, however many there are."""

    def __init__(self, most: int) -> None:
        self.samples: list[dict[str, Array]] = []
        self._most = most
        self._seen = 0
        self._random = np.random.default_rng(0)

    def add(self, sample: dict[str, Array]) -> dict[str, Array] | None:
        """Take a sample, or not. Returns the one that is left out: this one, or one that makes room; None while there is room."""
        self._seen += 1
        at = len(self.samples) if self._seen <= self._most else int(self._random.integers(self._seen))
        if at >= self._most:
            return sample
        left = self.samples[at] if at < len(self.samples) else None
        self.samples[at : at + 1] = [{name: np.array(array) for name, array in sample.items()}]
        return left


class HeldOut:
    """Samples but for some, chosen by chance, that show how well the rest serves: one `of` so many, and `most` at most.

    Of fewer than `ENOUGH` none can be spared.
    """

    ENOUGH = 20

    def __init__(self, samples: Iterable[dict[str, Array]], most: int, of: int = 5) -> None:
        self._samples = samples
        self._kept = Reservoir(most)
        self._of = of
        self.count = 0
        """How many are held out; 0 before the end."""

    @property
    def shown(self) -> list[dict[str, Array]]:
        """Those that are held out, behind the end; if there are none, some of all."""
        return self._kept.samples[: self.count or None]

    def __iter__(self) -> Iterator[dict[str, Array]]:
        """Yield the rest."""
        seen = 0
        for sample in self._samples:
            seen += 1
            left = self._kept.add(sample)
            if left is not None:
                yield left
        kept = self._kept.samples
        self.count = min(len(kept), seen // self._of) if seen >= self.ENOUGH else 0
        yield from kept[self.count :]


class Observer:
    """Runs a float model and watches some of its tensors."""

    def __init__(
        self,
        model: Any,
        tensors: Iterable[str],
        moments: Mapping[str, int],
        *,
        histograms: bool,
        counts: Callable[[str, Array], Array] = lambda _, values: values,
        grams: Mapping[str, list[Gram]] | None = None,
        groups: Mapping[str, Sequence[npt.NDArray[np.intp]]] | None = None,
    ) -> None:
        """Watch the ranges of `tensors`, and the channels of those in `moments` along their axes.

        `counts` makes of a tensor's name and its values what its range has to hold. `grams` see operands, by their names.
        `groups` are channels that are looked at by themselves, too.
        """
        self.distributions = {name: Distribution((groups or {}).get(name, ())) for name in tensors}
        self.moments = {name: Moments(axis) for name, axis in moments.items()}
        self._names = list(dict.fromkeys([*self.distributions, *self.moments]))
        inputs = {value.name for value in model.graph.input}
        self._made = [name for name in self._names if name not in inputs]
        self._session = session(with_outputs(model, self._made))
        self._histograms = histograms
        self._counts = counts
        self._grams = grams or {}

    def run(self, samples: Iterable[dict[str, Array]]) -> int:
        """Run every sample. Returns how many there were.

        Raises OverflowError, with the tensor's name, if one becomes infinite or NaN.
        """
        random = np.random.default_rng(0)
        count = 0
        for sample in samples:
            count += 1
            results = self._session.run(self._made, sample) if self._made else []
            values = dict(zip(self._made, results, strict=True)) | sample
            for name in self._names:
                array = values[name]
                if array.size == 0:
                    continue
                if name in self.distributions:
                    seen = self.distributions[name]
                    seen.add(self._counts(name, array), int(random.integers(1 << 30)) if self._histograms else None)
                    if not np.isfinite([seen.low, seen.high]).all():
                        raise OverflowError(name)
                if name in self.moments:
                    self.moments[name].add(array)
                for gram in self._grams.get(name, ()):
                    gram.add(array)
        return count


def with_outputs(model: Any, names: Iterable[str]) -> Any:
    """Return a copy of a model that gives these tensors, too."""
    import onnx

    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    infos = {value.name: value for value in copy.graph.value_info}
    there = {value.name for value in copy.graph.output}
    for name in names:
        if name not in there:
            copy.graph.output.append(infos.get(name) or onnx.helper.make_empty_tensor_value_info(name))
    return copy


def session(model: Any, *, optimized: bool = True, entries: Mapping[str, str] | None = None) -> Any:
    """Return an onnxruntime session on a model; its graph as it stands unless `optimized`. `entries` are of its configuration."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # What it raises says it all.
    options.log_severity_level = 4
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    for key, value in (entries or {}).items():
        options.add_session_config_entry(key, value)
    content = model if isinstance(model, bytes | str) else model.SerializeToString()
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def exact_session(model: Any) -> Any:
    """Return an onnxruntime session on an optimized model that multiplies bytes alike on every machine.

    Sums of two products end at 16 bits without VNNI otherwise. Where onnxruntime does not open the model so, which happens, its
    graph stands as it is, in reals between the roundings.
    """
    try:
        return session(model, entries={EXACT: "1"})
    except Exception:
        return session(model, optimized=False)
