"""From a float ONNX file to one in QDQ form. The public name is `triune.quantize`."""

from __future__ import annotations

import logging
import os
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from triune._files import FULL, scratch, write_bytes
from triune._model_info import ModelInfo, Spared, names_of
from triune._multipliers import use_fixed_multipliers
from triune._picture_input import put_picture_input
from triune._session import Feeds
from triune.batch import Preprocess
from triune.batch._pictures import Format
from triune.errors import ArgumentError, InternalError, QuantizationWarning, UnsupportedError
from triune.quantization._agreement import Agreement, agreements
from triune.quantization._channels import Channels
from triune.quantization._check import OutputCheck, check_outputs
from triune.quantization._equalize import channels_of, curves_of, equalize_layers, note_factors
from triune.quantization._grams import Gram
from triune.quantization._groups import function_of, join_groups
from triune.quantization._layout import join_orders
from triune.quantization._mixed import Bound, Trial, mix, shown_by
from triune.quantization._model import PRODUCTS, QUANTIZED, Array, Network, Refused, read
from triune.quantization._options import QuantizationOptions, QuantizationResult
from triune.quantization._prepare import prepare
from triune.quantization._regions import ASKED, BEHIND, DECODE, VOLUME, choose
from triune.quantization._samples import Expected, Samples
from triune.quantization._shares import lost_to_rounding
from triune.quantization._statistics import HeldOut, Observer, exact_session, session, with_outputs
from triune.quantization._work import work_of
from triune.quantization._write import INTEGERS, Found, Layout, Recipe, Written, write

__all__ = ["quantize", "quantize_file"]

_FIRST = 32
"""Samples that equalization looks at."""

_NOISY = 20.0
"""dB: a tenth of what an output says is noise."""

_CHECKED = 8
"""Samples that the quantized model is compared with the float one on."""

_COUNTED = 64
"""The same, where a share of answers is asked for."""

_MIXED = "hurts most (mixed)"
"""Why an operator stays in float that a mixture spared."""

_AGREEING = 0.98
"""The share of answers that have to be those of float, or it is said."""

_MOST_LOST = 0.25
"""Of what a Softmax gives, the part that may be rounded to 0 before it is said."""

_FEW = 32
"""Samples below which ranges are guesses."""


def quantize(
    model: str | os.PathLike[str],
    *,
    calibration: Iterable[Feeds],
    output: str | os.PathLike[str],
    method: str = "mse",
    act: str = "s8",
    per_channel: bool = True,
    bias_correction: bool = True,
    equalize: bool = True,
    mixed: str | None = None,
    bound: float | str = 34.0,
    float_from: Sequence[str] | None = None,
    keep_float: Sequence[str] = (),
    outputs: Sequence[str] = (),
    preprocess: Preprocess | None = None,
    labels: Sequence[str] = (),
    input_format: Format | None = None,
    progress: Callable[[str], None] | None = None,
) -> QuantizationResult:
    """Quantize a float ONNX file into the file `output`, in QDQ form, and say what came of it.

    `calibration` is an iterable of samples (`triune.Feeds`) as `triune.compile` takes them, some hundred like the real
    inputs: each a dict with an array for every input, of the input's dtype and shape, batch axis included, finite.

    `act` is the type of activations: ``s8`` and ``u8`` with a zero point and int8 weights, ``s16`` without one and int16
    weights. Weights have a scale per output channel, or with `per_channel` False one; biases are int32. `method` finds the
    ranges: ``mse`` those of the least squared error, for weights too, where each counts by the power of what it is
    multiplied with; ``minmax`` the whole; ``percentile`` 99.99 % of the values; ``entropy`` those of the least divergence.
    `bias_correction` lets biases make up for what rounding weights adds on average; `equalize` first scales the channels between
    two layers so that they use their ranges alike, which helps weights with one scale.

    What no Conv, Gemm or MatMul follows stays in float: it makes the answer from the last products' results. Products with
    fixed weights, such as the expectation of distributed box edges, count as such. `float_from` names the nodes (or tensors)
    from which on all stays in float instead; an empty sequence: none. `keep_float` are single ones besides. `outputs` ends the
    model at these tensors, in this order.

    `mixed` lets the operators that hurt most, for the work they are, have 16 bits (``16``) or stay in float (``float``) until
    each output's signal to quantization noise ratio is at least `bound` dB; or, where `bound` is a share such as ``"98%"``, until
    so many answers are kept: best classes, boxes of float that are found with an intersection over union of 0.9 and a score
    within 0.05, and boxes found that float has so. ``mixed="98%"`` is short for ``mixed="float", bound="98%"``. A third of the
    samples, at most 64, is held out to count them on, and the result has what that says of others.

    `preprocess`, which says how pictures become inputs, and `labels`, names of the classes, are stored in the file (default:
    what `model` says), for `triune.Session`, `triune.batch.predict` and the command line. A model that takes no images refuses
    `preprocess`. With `input_format`, ``rgb8``, ``bgr8``, ``gray8`` or ``yuyv``, the file's input becomes uint8 (N, H, W, C),
    and `preprocess` a part of the graph; samples stay those of `model`.

    The result is checked against the float model on up to eight of the samples, which the ranges do not come from if there are
    at least 20: an output that is spoiled is told by `triune.errors.QuantizationWarning`.

    Raises ValueError if there are no samples, one does not fit the model, the model is quantized already, or `output` is the
    model; `ArgumentError` if `model` is no ONNX model, or an option or a name is wrong; `FileError` if a file cannot be read or
    written; `UnsupportedError` if the model cannot be quantized; ImportError without the extra ``onnx``. What the iterator of
    samples raises passes through. Whatever is raised, `output` is as it was.

    Examples:
        >>> import triune
        >>> from triune.models import DIGITS_F32, digits_held_out
        >>> scans = digits_held_out()[0].transpose(0, 3, 1, 2)
        >>> samples = [{"image": scan[None]} for scan in scans[:100]]
        >>> result = triune.quantize(DIGITS_F32, calibration=samples, output="digits_int8.onnx")
    """
    options = QuantizationOptions(
        method=method,
        act=act,
        per_channel=per_channel,
        bias_correction=bias_correction,
        equalize=equalize,
        mixed=mixed,
        bound=bound,
        float_from=float_from,
        keep_float=keep_float,
        outputs=outputs,
    )
    info = ModelInfo(preprocess, names_of(labels)).over(ModelInfo.of_model(Path(model)))
    result = quantize_file(
        Path(model),
        Path(output),
        calibration,
        progress or (lambda _: None),
        options,
        quiet=True,
        info=info,
        asked="" if preprocess is None else "preprocess",
        input_format=input_format,
    )
    for warning in result.warnings:
        warnings.warn(warning, QuantizationWarning, stacklevel=2)
    return result


def quantize_file(
    source: Path,
    target: Path,
    samples: Iterable[Feeds],
    say: Callable[[str], None],
    options: QuantizationOptions,
    *,
    quiet: bool,
    info: ModelInfo | None = None,
    asked: str = "",
    input_format: Format | None = None,
) -> QuantizationResult:
    """Do what `quantize` says, without issuing warnings; unless `quiet`, onnxruntime's own are shown.

    `info` is what the file is to say; None: what the source says. `asked` names what a caller says of images with it, which a
    model that takes none refuses.
    """
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
    except ImportError as error:
        raise ImportError(f"calibration needs the extra 'onnx': pip install 'triune[onnx]' ({error})") from None
    if target.exists() and source.exists() and target.samefile(source):
        raise ValueError(
            f"{target}: is the float model itself, which is needed for other integers; give the result another name"
        )
    say("preparing")
    model = read(source)
    if any(node.op_type in QUANTIZED for node in model.graph.node):
        raise ValueError(
            f"{source}: already quantized: triune.compile and `triune compile` take it as it is, without calibration= or "
            "--calibrate; other integers are made from the float model"
        )
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = {value.name: Expected.of(value) for value in model.graph.input if value.name not in constants}
    said = ModelInfo.of_model(source) if info is None else info
    said.check([(each.name, each.dtype.name, each.shape or ()) for each in inputs.values()], asked)
    checked = Samples(samples, inputs, say)
    with scratch() as folder, _hushed(quiet):
        try:
            named = {*options.keep_float, *(options.float_from or ())}
            prepared = prepare(source, folder, options.outputs, named)
            work = _Work(prepared, inputs, options, say, len(said.labels))
            work.observe(checked)
            written = work.write()
            checks = work.check(written.model)
        except (ArgumentError, MemoryError):
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.errno in FULL:
                raise
            if checked.failure is not None:
                raise checked.failure from None
            if isinstance(error, AssertionError):
                raise InternalError(f"{source}: the quantizer took something for granted: {error!r}") from error
            raise UnsupportedError(f"{source}: {_reason(error, folder)}") from error
    if input_format is not None:
        said = said._replace(preprocess=put_picture_input(written.model, input_format, said.preprocess or Preprocess()))
    said.note(written.model)
    work.spared().note(written.model)
    say("writing")
    found = _check_written(source, written.model, work.network.model)
    write_bytes(target, written.model.SerializeToString())
    return QuantizationResult(
        path=target,
        samples=work.count,
        held_out=work.held_out,
        kept_float=work.kept_float(),
        wide=tuple(work.network.nodes[index].name for index in work.wide),
        ranges={name: (found.low, found.high) for name, found in written.parameters.items()},
        checks=tuple(checks),
        checked_on=len(work.shown),
        agreements=tuple(work.agreements),
        macs=work.macs(),
        notes=(*work.notes(), *found),
        warnings=(*work.faults(checks), *work.disagreements(checks)),
        advice=(
            *few(work.count + work.held_out),
            *work.doubts(),
            *work.rounded_away(written),
            *advice_on(checks, options.mixed, work.last_product),
        ),
    )


class _Work:
    """One model on its way from float to integers."""

    def __init__(
        self,
        prepared: Any,
        inputs: dict[str, Expected],
        options: QuantizationOptions,
        say: Callable[[str], None],
        labels: int = 0,
    ) -> None:
        join_orders(prepared)
        self.network = Network(prepared)
        join_groups(self.network, wide=options.act == "s16" or options.mixed == "16")
        self.wide: list[int] = []
        self.count = self.held_out = 0
        self._options = options
        self._say = say
        self._labels = labels
        self._recipe = Recipe(options.act, options.method, options.per_channel, options.bias_correction)
        self._why = choose(self.network, options.float_from, options.keep_float)
        if len(self._why) == len(self.network.nodes):
            could = filter(self.network.has_integer_form, self.network.nodes)
            others = dict.fromkeys(filter(None, map(self.network.other_float, could)))
            if others:
                raise Refused(
                    f"it computes on {' and '.join(others)}, and integers are made of float32 alone: export the model with "
                    "float32, or convert it to that"
                )
            volumes = dict.fromkeys(
                self.network.nodes[at].op_type for at, reason in self._why.items() if reason == VOLUME
            )
            told = "".join(f"; {kind} {VOLUME}" for kind in volumes)
            raise Refused(f"no operator is left that has an integer form{told}")
        self._layout = Layout(self.network, self._why, self._recipe.bits)
        # Inputs that only fed what the model no longer holds.
        self._inputs = [name for name in self.network.inputs if name in inputs]
        self._bound = Bound.of(options.bound) if options.mixed is not None else None
        self._work: dict[int, int] = {}
        self.shown: list[dict[str, Array]] = []
        self._reference: list[dict[str, Array]] = []
        self._found = Found()
        self._grams: dict[str, Gram] = {}
        self.agreements: list[Agreement] = []
        self._factors: dict[str, Any] = {}

    def observe(self, samples: Iterable[dict[str, Array]]) -> None:
        """Find out what the tensors hold."""
        histograms = self._options.method != "minmax"
        own = ({name: sample[name] for name in self._inputs} for sample in samples)
        held = HeldOut(own, _COUNTED, of=3) if self._counts else HeldOut(own, _CHECKED)
        fed: Iterable[dict[str, Array]] = held
        if self._options.equalize:
            rest = iter(fed)
            first = list(islice(rest, _FIRST))
            self._equalize(first)
            fed = chain(first, rest)
        tensors = self._layout.tensors(every=self._options.mixed is not None)
        watched = self._layout.grams() if histograms and self._recipe.bits == 8 else {}
        self._grams = {name: gram for grams in watched.values() for name, gram in grams.items()}
        self._observer = Observer(
            self.network.model,
            tensors,
            self._layout.moments(),
            histograms=histograms,
            counts=self._layout.shares.counted,
            grams={name: list(grams.values()) for name, grams in watched.items()},
            groups=self._layout.groups() if self._recipe.method == "mse" else {},
        )
        self.count = self._observer.run(fed)
        self.held_out, self.shown = held.count, held.shown
        self._reference = self._run(session(self.network.model))
        self._work = work_of(self.network, self.shown[0])

    @property
    def _counts(self) -> bool:
        """Whether a share of answers is asked for."""
        return self._bound is not None and self._bound.of_answers

    def _equalize(self, samples: Iterable[dict[str, Array]]) -> None:
        """Let the channels between convolutions have ranges alike, by what they hold with some samples."""
        network = self.network
        # Integers of 16 bits hold all channels as they are; a scale for all rows of weights does not bear factors of rows.
        scaled = self._recipe.bits == 8 and self._recipe.per_channel
        bent = curves_of(network, self._why, partial(function_of, network)) if scaled else {}
        # The other methods know nothing of what a function makes of a range's ends.
        clips = self._recipe.method == "mse"
        names = [name for name in channels_of(network, bent) if not self._layout.is_internal(name)]
        if not names:
            return
        runner = session(with_outputs(network.model, names))
        held = {name: Channels() for name in names}
        for sample in samples:
            for name, values in zip(names, runner.run(names, sample), strict=True):
                if not np.isfinite(values).all():
                    raise OverflowError(name)
                held[name].add(values)
        self._factors = equalize_layers(network, held, INTEGERS[self._recipe.act], bent, clips=clips)

    def write(self) -> Written:
        """Return the quantized model."""
        if self._bound is not None:
            self._mix(self._bound)
        self._say("quantizing")
        return self._attempt(self._layout)

    def _attempt(self, layout: Layout) -> Written:
        seen = self._observer
        written = write(layout, seen.distributions, seen.moments, self._recipe, self._found, self._grams)
        note_factors(written.model, self._factors)
        if self._options.fixed:
            use_fixed_multipliers(written.model, written.reals, self._recipe.bits)
        return written

    def _mix(self, bound: Bound) -> None:
        """Let the operators that hurt most out until the outputs are good enough."""
        network = self.network
        wide = self._options.mixed == "16"

        def layout(chosen: Iterable[int]) -> Layout:
            kept = set(self._why) if wide else {*self._why, *chosen}
            return Layout(network, kept, self._recipe.bits, chosen if wide else ())

        def trial(floats: Iterable[int] | None, chosen: Iterable[int]) -> Trial:
            tried = layout(chosen) if floats is None else Layout(network, floats, self._recipe.bits)
            # What a layer alone costs is seen on few.
            count = len(self.shown) if floats is None else _CHECKED
            results = self._run(exact_session(self._attempt(tried).model), count)
            checks = check_outputs(self._reference[:count], results, network.outputs)
            return Trial(checks, self._agreeing(results) if floats is None and bound.of_answers else ())

        if bound.of_answers and not any(each.of for each in self._agreeing(self._reference)):
            raise ArgumentError(
                f"bound: {bound} of the answers are to be kept, and there are none to count: no output has scores of classes, or "
                f"boxes and scores of a form that is known with a box in {len(self.shown)} samples; give a bound in dB, such "
                "as 34"
            )
        chosen = mix(self._layout, self._why, trial, bound, self._say, whole=wide, work=self._work)
        if wide:
            self.wide = chosen
        else:
            self._why |= dict.fromkeys(chosen, _MIXED)
        self._layout = layout(chosen)

    def _run(self, runner: Any, count: int | None = None) -> list[dict[str, Array]]:
        names = self.network.outputs
        return [dict(zip(names, runner.run(names, sample), strict=True)) for sample in self.shown[:count]]

    def _agreeing(self, results: list[dict[str, Array]]) -> list[Agreement]:
        return agreements(self.shown, self._reference, results, self._labels, closely=self._counts)

    def check(self, model: Any) -> list[OutputCheck]:
        """Compare the quantized model with the float one."""
        self._say("checking")
        # What is counted is what was counted while layers were chosen.
        found = self._run(exact_session(model) if self._counts else session(model, optimized=False))
        self.agreements = self._agreeing(found)
        return check_outputs(self._reference, found, self.network.outputs)

    def kept_float(self) -> dict[str, str]:
        """Return why, for each operator over floats that stays in float."""
        network = self.network
        kept = ((index, network.nodes[index]) for index in sorted(self._why))
        over_floats = [index for index, node in kept if network.data(node) or network.other_float(node)]
        return {
            operator.name: self._why[index]
            for index in over_floats
            for operator in network.operators(network.nodes[index])
        }

    def spared(self) -> Spared:
        """Return which operators stay in float because they were chosen to, by their names in the file."""
        kept = self.kept_float()
        mixed = tuple(name for name, why in kept.items() if why == _MIXED)
        asked = tuple(name for name, why in kept.items() if why == ASKED or why.startswith(BEHIND))
        return Spared(mixed, str(self._bound or ""), asked)

    def notes(self) -> list[str]:
        """Say what stays in float and why."""
        reasons: dict[str, list[str]] = {}
        network = self.network
        kinds = {operator.name: operator.op_type for node in network.nodes for operator in network.operators(node)}
        for name, reason in self.kept_float().items():
            if reason != "computes on no floats":
                reasons.setdefault(reason, []).append(name)
        lines = []
        for reason, names in reasons.items():
            counts = Counter(kinds[name] for name in names).most_common()
            what = ", ".join(f"{count} {kind}" if count > 1 else kind for kind, count in counts)
            lines.append(
                f"in float, as {'it' if len(names) == 1 else 'each'} {reason}: {what}; the first is {names[0]!r}"
            )
            if reason == DECODE:
                lines[-1] = f"in float, as {reason}: {what}; from {names[0]!r} on"
        if self.wide:
            names = [self.network.nodes[index].name for index in self.wide]
            lines.append(f"of 16 bits: {', '.join(names)}")
        if self._bound is not None:
            macs = self.macs()
            spared = macs["16" if self._options.mixed == "16" else "float"] / max(1, sum(macs.values()))
            lines.append(f"{spared:.1%} of the multiply-accumulates are not of 8 bits, for {self._bound}")
        return lines

    def macs(self) -> dict[str, int]:
        """Return the multiply-accumulates of the products by what computes them."""
        found = {"float": 0, "8": 0, "16": 0}
        for index, count in self._work.items():
            width = self._layout.width(index)
            found["float" if width is None else str(width)] += count
        return found

    def doubts(self) -> list[str]:
        """Say where answers are too few to tell the share that was asked for."""
        if self._bound is None or not self._bound.of_answers:
            return []
        return [line for each in self.agreements if (line := shown_by(each, self._bound, self.held_out))]

    def rounded_away(self, written: Written) -> list[str]:
        """Say of which Softmax much is less than half a step of 8 bits, and what helps."""
        lines = []
        for index, node in enumerate(self.network.nodes):
            if node.op_type != "Softmax" or self._layout.width(index) != 8:
                continue
            name = node.output[0]
            step, seen = written.parameters[name].scale, self._observer.distributions[self._layout.root(name)]
            lost = lost_to_rounding(seen, step)
            if lost > _MOST_LOST:
                lines.append(
                    f"node {node.name!r} (Softmax): {lost:.0%} of its shares are less than half a step of 8 bits "
                    f"(1/{1 / step:.0f}) and become 0, as where attention goes to many alike; where answers are not float's, "
                    f"--keep-float {node.name} (keep_float=[{node.name!r}] in Python) keeps them, on the host"
                )
        return lines

    def faults(self, checks: Iterable[OutputCheck]) -> list[str]:
        """Say which outputs are spoiled, and what helps."""
        return [
            f"output {check.name!r} is spoiled: {check.fault}; {self._cure(check)}" for check in checks if check.fault
        ]

    def disagreements(self, checks: Iterable[OutputCheck]) -> list[str]:
        """Say which answers are not often enough those of float, and what helps; not of outputs that are spoiled.

        Where a share of answers was asked for, that is enough.
        """
        if self._counts:
            return []
        spoiled = {check.name for check in checks if check.fault}
        seen = f"{len(self.shown)} samples" + ("" if self.held_out else " that the ranges come from")
        return [
            f"output {each.output!r}: {each.same} of {each.of} {each.what} are those of float ({each.share:.1%}, on {seen}"
            f"{_others(each) if self.held_out else ''}), less than {_AGREEING:.0%}: {self._finer()}"
            for each in self.agreements
            if each.share < _AGREEING and spoiled.isdisjoint(each.output.split(","))
        ]

    def _finer(self) -> str:
        """Name what is left that makes integers finer."""
        options = self._options
        if options.mixed is not None:
            return f"a higher bound than {self._bound} spares more layers: --bound (bound= in Python)"
        mixed = "--mixed (mixed='float' in Python) lets the layers that hurt most stay in float"
        if options.act == "s16":
            return mixed
        return (
            f"{mixed}; --mixed 16 or --act s16 give 16 bits, for devices that compute on them (mixed='16', act='s16')"
        )

    def last_product(self, output: str) -> str | None:
        """Return the name of the integer product that makes an output, alone; None if there are several."""
        return _last_product(self.network, output, set(self._why))

    def _cure(self, check: OutputCheck) -> str:
        """Name the option that is likely to help with an output."""
        network, output = self.network, check.name
        behind = _decode_before(network, output, set(self._why))
        if behind is not None:
            name = network.nodes[behind].name
            return f"let what makes the answer stay in float: --float-from {name} (float_from=[{name!r}] in Python)"
        chosen = _choice_before(network, output)
        if chosen is not None and chosen.op_type == "Equal":
            pooled = [
                network.nodes[network.makers[name]].op_type == "MaxPool"
                for name in chosen.input
                if name in network.makers
            ]
            before = chosen.input[1 if pooled[:1] == [True] else 0]
            names = [before if name == output else name for name in network.outputs]
            return (
                f"of its values those stay that node {chosen.name!r} (Equal) chooses, such as the largest around, which little "
                f"turns round: --outputs {','.join(names)} (outputs={names!r} in Python) ends the model in front"
            )
        if chosen is not None:
            cut = _rows_in_place(network, chosen, output)
            names = [cut if name == output else name for name in network.outputs]
            more = f", and --outputs {','.join(names)} ends the model in front, with the rows in place" if cut else ""
            return (
                f"it is of rows in an order that node {chosen.name!r} ({chosen.op_type}) chooses, which little turns round: "
                f"`triune compare` matches boxes{more}"
            )
        last = self.last_product(output)
        if last is not None and not check.sqnr < _NOISY:
            return _apart(last)
        count = self.count + self.held_out
        more = "" if count >= _FEW else f"give more samples than {count}, or "
        return f"{more}let the layers that hurt most stay in float: --mixed (mixed='float' in Python)"


def _apart(last: str) -> str:
    """Say what helps where an offset or another channel takes the steps of 8 bits; `last` is the product in front."""
    return (
        "what is small beside an offset, or beside another channel, is less than a step of 8 bits: let its last product stay in "
        f"float: --keep-float {last} (keep_float=[{last!r}] in Python)"
    )


def _others(found: Agreement) -> str:
    """Say what an agreement on some samples means for others."""
    least, most = found.limits
    return f"; of others {least:.1%} to {most:.1%}, with 95 % confidence"


def few(count: int) -> tuple[str, ...]:
    """Say that there were few samples, if there were."""
    if count >= _FEW:
        return ()
    return (
        f"{count} sample{'s are' if count > 1 else ' is'} few: what they do not show is clipped or rounded away, and boxes and "
        "classes can go with it; some hundred like the real inputs are better",
    )


def _least(check: OutputCheck) -> float:
    """Return the least of an output's ratios, but for those of single channels."""
    return min(check.sqnr, check.varied_sqnr) if not np.isnan(check.varied_sqnr) else check.sqnr


def advice_on(
    checks: Iterable[OutputCheck], mixed: str | None, last_product: Callable[[str], str | None]
) -> tuple[str, ...]:
    """Say which outputs are noisy, or channels of them, without being spoiled, and what helps; layers were let out already if
    `mixed` says how. `last_product` names the integer product that makes an output.
    """
    lines = []
    for check in checks:
        if check.fault:
            continue
        last = last_product(check.name) if check.faint and not check.sqnr < _NOISY else None
        if last is not None:
            lines.append(f"output {check.name!r}: {check.faint}; {_apart(last)}")
        elif mixed is None and _least(check) < _NOISY:
            lines.append(
                f"output {check.name!r} has {_least(check):.1f} dB of signal to noise: best classes that are close, and "
                "boxes whose score is near a limit, change; --mixed (mixed='float' in Python) lets the layers that hurt "
                "most stay in float"
            )
    return tuple(lines)


def _before(network: Network, output: str, goes_on: Callable[[int], bool]) -> Iterator[int]:
    """Yield the nodes that lead to an output, each once, and what leads to those of which `goes_on` says so."""
    left, seen = [output], set[int]()
    while left:
        maker = network.makers.get(left.pop())
        if maker is None or maker in seen:
            continue
        seen.add(maker)
        yield maker
        if goes_on(maker):
            left += [name for name in network.nodes[maker].input if name]


def _choice_before(network: Network, output: str) -> Any:
    """Return the first node in the graph that chooses rows by their scores, or places, on the way to an output; None if there is
    none.
    """
    kinds = {"Equal", "NonMaxSuppression", "TopK"}
    found = [at for at in _before(network, output, lambda _: True) if network.nodes[at].op_type in kinds]
    return network.nodes[min(found)] if found else None


def _rows_in_place(network: Network, chosen: Any, output: str) -> str:
    """Return the tensor whose rows come to an output in an order that a node chose; nothing if products follow the choice."""
    places, behind = set(chosen.output[1:] if chosen.op_type == "TopK" else chosen.output), set[str]()
    data = ""
    for node in network.nodes:
        if node.op_type in {"Gather", "GatherElements", "GatherND"} and node.input[1] in places:
            behind.update(node.output)
            data = data or node.input[0]
        elif behind.intersection(node.input):
            behind.update(node.output)
            if node.op_type in PRODUCTS:
                return ""
        elif places.intersection(node.input):
            places.update(node.output)
    # What is chosen, or where from, may be the answer itself.
    return data if output in behind else chosen.input[0] if output in places | {*chosen.output} else ""


def _last_product(network: Network, output: str, floats: set[int]) -> str | None:
    """Return the name of the integer product that makes an output, alone; None if there are several."""

    def is_product(index: int) -> bool:
        return network.nodes[index].op_type in PRODUCTS

    makers = _before(network, output, lambda index: not is_product(index))
    found = {network.nodes[index].name for index in makers if is_product(index) and index not in floats}
    return found.pop() if len(found) == 1 else None


def _decode_before(network: Network, output: str, floats: set[int]) -> int | None:
    """Return the first integer operator, on the way to an output, behind the last products with trained weights."""
    free = choose(network)
    makers = [index for index in _before(network, output, free.__contains__) if free.get(index) == DECODE]
    found = [index for index in makers if index not in floats and network.nodes[index].op_type not in PRODUCTS]
    return min(found, default=None)


def _check_written(source: Path, model: Any, floats: Any) -> tuple[str, ...]:
    """Check a model before it is written; return what is to be said of it.

    What onnx has against the float model, too, is no fault of quantization: an output without a shape, an operator that only
    onnxruntime knows. Then onnxruntime says whether the rest is right.
    """
    fault = _fault(model)
    if not fault:
        return ()
    if not _fault(floats):
        raise InternalError(f"{source}: what became of it is no valid model: {fault}")
    try:
        session(model, optimized=False)
    except Exception as error:
        raise UnsupportedError(f"{source}: onnxruntime cannot load what became of it: {_text(error)}") from None
    return (f"onnx's checker refuses the model, as it does the float one ({fault}); onnxruntime loads both",)


def _fault(model: Any) -> str:
    import onnx

    try:
        onnx.checker.check_model(model)
    except onnx.checker.ValidationError as error:
        return _text(error).removesuffix(".")
    return ""


def _text(error: Exception) -> str:
    """Return what onnx or onnxruntime says, in a line."""
    text = " ".join(str(error).split()).partition(" ==> Context: ")[0]
    return re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ", "", text)


def _reason(error: Exception, scratch: Path) -> str:
    """Say in a line why the quantizer failed, without names of temporary files."""
    text = _text(error).replace(f"{scratch}/", "")
    if isinstance(error, Refused):
        return f"it cannot be quantized: {text}"
    if isinstance(error, OverflowError):
        return f"it cannot be quantized: a tensor, {text!r}, becomes infinite or NaN with these samples"
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

    # Some of its modules have loggers of their own, the others use the root.
    root, own = logging.getLogger(), logging.getLogger("onnxruntime")
    level = own.level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        root.addFilter(theirs)
        own.setLevel(logging.CRITICAL + 1)
        onnxruntime.set_default_logger_severity(4)
        try:
            yield
        finally:
            # Its default, as there is no way to ask what it was.
            onnxruntime.set_default_logger_severity(2)
            own.setLevel(level)
            root.removeFilter(theirs)
