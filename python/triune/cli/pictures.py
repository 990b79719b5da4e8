"""How pictures become inputs, on the command line: what a model says of it, and options that say otherwise."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from triune._kinds import ONNX, PACKAGE, kind_of
from triune._model_info import Inputs, ModelInfo, check_images, labels_of
from triune.batch import Preprocess
from triune.batch._pictures import FORMATS, Fit
from triune.cli.arguments import finite, nonzero, ratio
from triune.errors import ArgumentError

__all__ = [
    "add_image_options",
    "add_info_options",
    "chosen",
    "info_of",
    "options_of",
    "stored_info",
    "unused_image_options",
]

_FITS: dict[str, Fit] = {"stretch": "stretch", "letterbox": "pad", "center-crop": "crop", "pad": "pad", "crop": "crop"}

_OPTIONS = ("color", "scale", "mean", "std", "resize", "part", "fill", "corner")


def add_image_options(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add how images become numbers. Returns their group."""
    images = parser.add_argument_group(
        "image files",
        "Pixels of 0 to 255 become (x / scale − mean) / std. What is not given is as the model says, if it was quantized or "
        "compiled with such options.",
    )
    images.add_argument("--color", choices=("rgb", "bgr"), help="order of the channels (default: rgb)")
    images.add_argument("--scale", metavar="X", type=nonzero, help="1 keeps 0 to 255 (default: 255, for 0 to 1)")
    per = "one for all channels, or one per channel in the order of --color"
    images.add_argument("--mean", metavar="X", type=finite, nargs="+", help=f"{per} (default: 0)")
    images.add_argument("--std", metavar="X", type=nonzero, nargs="+", help=f"{per} (default: 1)")
    images.add_argument(
        "--resize",
        "--fit",
        dest="resize",
        choices=tuple(_FITS),
        help="how other proportions fit: stretch, letterbox (or pad), center-crop (or crop) (default: stretch)",
    )
    images.add_argument(
        "--part", metavar="X", type=ratio, help="with --resize center-crop: how much of the middle (default: 1)"
    )
    images.add_argument(
        "--fill", metavar="X", type=int, help="with --resize letterbox: the pixels around the picture (default: 0)"
    )
    images.add_argument(
        "--corner",
        action=argparse.BooleanOptionalAction,
        help="with --resize letterbox: the picture lies in the upper left corner (default: in the middle)",
    )
    images.add_argument(
        "--imagenet",
        action="store_true",
        help="as networks trained on ImageNet take pictures: the middle 224 of 256, its mean and deviation; other options "
        "change one thing of that",
    )
    return images


def add_info_options(images: argparse._ArgumentGroup) -> None:
    """Add what is stored in a model, and what its input becomes."""
    images.add_argument(
        "--input-format",
        choices=FORMATS,
        help="let the model take bytes, uint8 (N, H, W, C), of this format: the image options become a part of it",
    )
    images.add_argument(
        "--labels", metavar="FILE", type=Path, help="names of the classes, a line each, to be stored in the model"
    )


_FOR_FITS: dict[str, Fit] = {"part": "crop", "fill": "pad", "corner": "pad"}
"""Options that are for one way to fit pictures alone."""


def stored_info(path: Path) -> ModelInfo:
    """Return what a model or package says of its pictures and classes. Raises ArgumentError if that is damaged."""
    kind = kind_of(path)
    if kind is PACKAGE:
        return ModelInfo.of_package(path if path.is_dir() else path.parent)
    return ModelInfo.of_model(path) if kind is ONNX else ModelInfo()


def _given(options: argparse.Namespace) -> dict[str, Any]:
    found = {name: value for name in _OPTIONS if (value := getattr(options, name, None)) is not None}
    for name in ("mean", "std"):
        if name in found:
            found[name] = tuple(found[name])
    if "resize" in found:
        found["fit"] = _FITS[found.pop("resize")]
    return found


def _given_options(options: argparse.Namespace) -> str:
    """Return the image options that are given, as they are spelled."""
    given = [f"--{name}" for name in _OPTIONS if getattr(options, name, None) is not None]
    return ", ".join((["--imagenet"] if _imagenet(options) else []) + given)


def _imagenet(options: argparse.Namespace) -> bool:
    return bool(getattr(options, "imagenet", False))


def unused_image_options(options: argparse.Namespace, *, pictures: bool) -> str:
    """Return a warning where image options are given, and no `pictures` are; else nothing."""
    given = _given_options(options)
    return f"{given}: not used; arrays are inputs already, and there are no images" if given and not pictures else ""


def chosen(options: argparse.Namespace, stored: ModelInfo, inputs: Inputs) -> Preprocess:
    """Return how images become inputs: as the options say, else as the model does, else as is usual for its type.

    Raises ArgumentError where there are such options for a model that takes no images, or one changes nothing.
    """
    if given := _given_options(options):
        check_images(given, inputs, stored.preprocess)
    usual = Preprocess.default(inputs[0][1]) if inputs else Preprocess()
    how = replace(Preprocess.imagenet() if _imagenet(options) else stored.preprocess or usual, **_given(options))
    for name, fit in _FOR_FITS.items():
        if getattr(options, name, None) and how.fit != fit:
            word, wanted = (next(word for word, each in _FITS.items() if each == found) for found in (how.fit, fit))
            raise ArgumentError(f"--{name}: changes nothing with --resize {word}; it is for --resize {wanted}")
    return how


def options_of(how: Preprocess) -> str:
    """Return the options that say how images become inputs, for people: those that change something, or how it is without any."""
    said = []
    plain = Preprocess()
    for option in _OPTIONS:
        name = "fit" if option == "resize" else option
        value = getattr(how, name)
        if value == getattr(plain, name):
            continue
        numbers = value if isinstance(value, tuple) else (value,)
        text = " ".join(f"{each:g}" if isinstance(each, int | float) else each for each in numbers)
        if option == "resize":
            text = next(word for word, fit in _FITS.items() if fit == value)
        said.append(f"--{option}" + ("" if value is True else f" {text}"))
    return " ".join(said) or "--scale 255"


def info_of(
    options: argparse.Namespace, stored: ModelInfo, how: Callable[[], Preprocess], *, pictures: bool
) -> ModelInfo:
    """Return what a model is to say: how images become inputs, if options or `pictures` say so, else what it said before.

    `how` is as `chosen` has it. `pictures`: it was calibrated with some.
    """
    says = bool(_given_options(options)) or pictures or options.input_format is not None
    labels = labels_of(options.labels) if options.labels is not None else stored.labels
    return ModelInfo(how() if says else stored.preprocess, labels)
