"""Calibration samples from files: every file is looked at before the work starts, and those that cannot serve are named."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from triune.batch import Preprocess
from triune.cli.arguments import finite, positive
from triune.cli.data import IMAGES, Input, Tensor, files_below, load
from triune.cli.rows import runs
from triune.errors import ArgumentError, FileError
from triune.quantization import QuantizationOptions
from triune.quantization._mixed import Bound
from triune.quantization._samples import Expected, uniform
from triune.quantization._scales import METHODS

__all__ = [
    "Calibration",
    "add_quantization_options",
    "add_sample_options",
    "model_inputs",
    "quantization_options",
    "refuse_without_samples",
    "sample_limit",
]

_DEFAULTS = QuantizationOptions()

_ARRAYS = {".npy", ".npz"}

_LIMIT = 200

_NAMED = 5
"""Files that cannot serve are named one by one up to this number."""


def add_sample_options(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """Add where samples come from."""
    parser.add_argument(
        "--calibrate",
        metavar="FOLDER|FILE",
        type=Path,
        required=required,
        help="quantize a float model with ranges from these samples: a folder of images or arrays, a .npz, .npy or image",
    )
    parser.add_argument(
        "--limit", metavar="N", type=positive, default=argparse.SUPPRESS, help=f"samples at most (default: {_LIMIT})"
    )


def add_quantization_options(parser: argparse.ArgumentParser) -> None:
    """Add how a float model is quantized; what is not given is not there."""
    how = parser.add_argument_group("quantization", "What calibration makes of a float model; docs/quantization.md.")
    how.add_argument(
        "--method",
        choices=METHODS,
        default=argparse.SUPPRESS,
        help="how ranges are found: least squared error, the whole, 99.99 %% of the values, least divergence "
        f"(default: {_DEFAULTS.method})",
    )
    how.add_argument(
        "--per-channel",
        action=argparse.BooleanOptionalAction,
        default=argparse.SUPPRESS,
        help="a scale for the weights of each output channel, or one for all (default: one for each)",
    )
    how.add_argument(
        "--bias-correction",
        action=argparse.BooleanOptionalAction,
        default=argparse.SUPPRESS,
        help="let biases make up for what rounding weights adds on average (default: yes)",
    )
    how.add_argument(
        "--equalize",
        action=argparse.BooleanOptionalAction,
        default=argparse.SUPPRESS,
        help="scale channels between convolutions so that they use their ranges alike (default: yes)",
    )
    how.add_argument(
        "--mixed",
        nargs="?",
        const="float",
        type=_mixed,
        metavar="float|16|SHARE",
        default=argparse.SUPPRESS,
        help="let the layers that hurt most stay in float (default), or have 16 bits, until --bound is met; 98%% is short for "
        "--mixed float --bound 98%%",
    )
    how.add_argument(
        "--bound",
        metavar="DB|SHARE",
        type=_bound,
        default=argparse.SUPPRESS,
        help="with --mixed: signal to quantization noise of each output in dB, or as 98%% the share of answers that are kept, "
        f"counted on a third of the samples (default: {_DEFAULTS.bound})",
    )
    how.add_argument(
        "--float-from",
        metavar="NODE",
        nargs="*",
        default=argparse.SUPPRESS,
        help="stay in float from these nodes or tensors on; without a name: nowhere (default: what no Conv, Gemm or MatMul "
        "follows)",
    )
    how.add_argument(
        "--keep-float", metavar="NODE", nargs="+", default=argparse.SUPPRESS, help="let these stay in float, too"
    )
    how.add_argument(
        "--outputs",
        metavar="NAME,...",
        type=lambda text: tuple(text.split(",")),
        default=argparse.SUPPRESS,
        help="end the model at these tensors, in this order",
    )


def _mixed(text: str) -> str:
    """Read what is to be spared how, or a share of answers, which stays as it is spelled."""
    if text in ("float", "16"):
        return text
    if text.endswith("%"):
        return str(_bound(text))
    raise argparse.ArgumentTypeError(f"expected float, 16 or a share such as 98%, got {text}")


def _bound(text: str) -> float | str:
    """Read a number of dB, or a share of answers, which stays as it is spelled."""
    if not text.endswith("%"):
        return finite(text)
    try:
        Bound.of(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a share over 0% and of at most 100%, got {text}") from None
    return text


def quantization_options(options: argparse.Namespace, **others: Any) -> QuantizationOptions:
    """Take them from the command line."""
    names = [field.name for field in fields(QuantizationOptions) if hasattr(options, field.name)]
    given = {name: getattr(options, name) for name in names} | others
    if "bound" in given and not given.get("mixed"):
        raise ArgumentError("--bound says how far --mixed goes: give --mixed, too")
    if "bound" in given and given["mixed"].endswith("%"):
        raise ArgumentError(
            f"--mixed {given['mixed']} is a bound, and --bound {given['bound']} another: give one of them"
        )
    return QuantizationOptions(**given)


def sample_limit(options: argparse.Namespace) -> int:
    """Return how many samples are taken at most."""
    return int(getattr(options, "limit", _LIMIT))


def refuse_without_samples(options: argparse.Namespace) -> None:
    """Raise ArgumentError if an option says how samples serve, and there are none."""
    names = ["limit", *(field.name for field in fields(QuantizationOptions) if field.name != "outputs")]
    for name in names:
        if not hasattr(options, name):
            continue
        flag = name.replace("_", "-")
        spelled = f"--no-{flag}" if getattr(options, name) is False else f"--{flag}"
        raise ArgumentError(f"{spelled} is for samples, and there are none to calibrate with: give --calibrate, too")


def model_inputs(model: Path) -> list[tuple[str, str, list[int | str]]]:
    """Return name, dtype and shape of each input of an ONNX file."""
    from triune import _native

    return _native.Session(model).inputs


class Calibration:
    """The samples of `--calibrate`, for a model with such inputs. Each time it is gone through, the files are read again."""

    def __init__(
        self,
        path: Path,
        inputs: Sequence[tuple[str, str, Sequence[int | str]]],
        how: Preprocess,
        limit: int,
        say: Callable[[str], None],
    ) -> None:
        """Look at every file that is going to be used.

        Raises ValueError, which names them, if some hold no samples for the model.
        """
        self._inputs = [Input.of(*each) for each in inputs]
        self._expected = [Expected(name, np.dtype(dtype), tuple(shape)) for name, dtype, shape in inputs]
        self._how = how
        self._limit = limit
        self._files = _files(path)
        faults: list[str] = []
        count = 0
        for number, file in enumerate(self._files, 1):
            if count >= limit:
                break
            say(f"looking at the samples: file {number} of {len(self._files)}")
            try:
                for index, sample in enumerate(islice(self._of(file), limit - count), 1):
                    count += 1
                    self._check(sample, "" if file.suffix.lower() in IMAGES else f"sample {index}: ")
            except (ValueError, FileError) as error:
                text = str(error)
                faults.append(text if str(file) in text else f"{file}: {text}")
                # What is wrong with the options is so with every file.
                if text.startswith("--"):
                    raise
        if faults:
            more = f"; and {len(faults) - _NAMED} more files" if len(faults) > _NAMED else ""
            raise ValueError("; ".join(faults[:_NAMED]) + more)
        self.count = count
        self.pictures = any(file.suffix.lower() in IMAGES for file in self._files)
        """Whether there are images among the files."""

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        """Yield the samples, each with a batch of one."""
        return islice((sample for file in self._files for sample in self._of(file)), self._limit)

    def _of(self, file: Path) -> Iterator[dict[str, Tensor]]:
        arrays = load(file, self._inputs, self._how)
        try:
            return (run.feed for run in runs(arrays, self._inputs, what="samples"))
        except ValueError as error:
            raise ValueError(f"{file}: {error}") from None

    def _check(self, sample: dict[str, Tensor], where: str) -> None:
        for expected in self._expected:
            try:
                expected.check(where, sample[expected.name])
            except ValueError as error:
                if expected.shape is not None and sample[expected.name].ndim == len(expected.shape) - 1:
                    raise ValueError(f"{error}; a file's samples lie along its first axis") from None
                raise
        found = uniform(sample)
        if found is not None:
            value: Any = found[1]
            raise ValueError(f"{where}input {found[0]!r}: the value {value:g} everywhere says nothing of the ranges")


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return files_below(path, IMAGES | _ARRAYS, "images or arrays (.npy, .npz)")
