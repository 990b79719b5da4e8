"""``triune compile``: an ONNX file becomes a package, or Icraft's documents."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING

from triune.cli.progress import Progress

if TYPE_CHECKING:
    from triune.cli.data import Input

POLICIES = ("none", "option1", "option2", "option3", "best_score", "exact")
"""How feature maps that stay on chip can be chosen; docs/memory.md says what each does."""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "compile",
        help="compile an ONNX model for a device",
        description="Compile an ONNX model for a device. Float models need --calibrate.",
    )
    parser.add_argument("model", metavar="MODEL.onnx", type=Path, help="the model: int8 in QDQ form, or float")
    parser.add_argument("--target", default="metis", help="the device (default: %(default)s)")
    parser.add_argument("-o", "--output", metavar="DIR", type=Path, required=True, help="where the package goes")
    parser.add_argument(
        "--format",
        choices=("package", "icraft"),
        default="package",
        help="a package, or for buyi and zg330 the documents of each step of Icraft's compiler (default: %(default)s)",
    )
    parser.add_argument(
        "--batch", metavar="N", type=positive, default=1, help="images per run, each on its own core (default: 1)"
    )
    parser.add_argument(
        "--residency",
        metavar="POLICY",
        choices=POLICIES,
        default="exact",
        help=f"how feature maps that stay on chip are chosen: {', '.join(POLICIES)} (default: %(default)s)",
    )
    parser.add_argument(
        "--on-chip",
        metavar="BYTES",
        type=byte_count,
        help="what they may take of the memory on chip, as 512K or 524288 (default: all of it)",
    )
    parser.add_argument(
        "--calibrate",
        metavar="IMAGES|NPZ",
        type=Path,
        help="quantize a float model with ranges from these: a directory of images, or a .npz of samples",
    )
    parser.add_argument(
        "--bits",
        type=int,
        choices=(8, 16),
        default=8,
        help="the width of calibration's integers; 16 for buyi with --format icraft (default: %(default)s)",
    )
    add_image_options(parser)
    parser.add_argument(
        "--limit", metavar="N", type=positive, default=200, help="samples at most (default: %(default)s)"
    )
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="show progress off a terminal, too, and the quantizer's warnings"
    )
    parser.set_defaults(command=_run)


def add_image_options(parser: argparse.ArgumentParser) -> None:
    """Add how images become numbers."""
    images = parser.add_argument_group("image files", "Pixels of 0 to 255 become (x / scale − mean) / std.")
    images.add_argument(
        "--color", choices=("rgb", "bgr"), default="rgb", help="order of the channels (default: %(default)s)"
    )
    images.add_argument(
        "--scale", metavar="X", type=nonzero, default=255.0, help="1 keeps 0 to 255 (default: 255, for 0 to 1)"
    )
    per = "one for all channels, or one per channel in the order of --color"
    images.add_argument("--mean", metavar="X", type=finite, nargs="+", default=[0.0], help=f"{per} (default: 0)")
    images.add_argument("--std", metavar="X", type=nonzero, nargs="+", default=[1.0], help=f"{per} (default: 1)")


def finite(text: str) -> float:
    """Read a finite number."""
    number = float(text)
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"expected a finite number, got {text}")
    return number


def nonzero(text: str) -> float:
    """Read a finite number other than 0."""
    number = finite(text)
    if number == 0:
        raise argparse.ArgumentTypeError("expected a number other than 0, got 0")
    return number


def positive(text: str) -> int:
    """Read a whole number of at least 1 that 63 bits hold."""
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a whole number, got '{text}'") from None
    if not 1 <= number < 1 << 63:
        raise argparse.ArgumentTypeError(f"expected 1 to {(1 << 63) - 1}, got {number}")
    return number


def byte_count(text: str) -> int:
    """Read a number of bytes of at least 1; K, M, G and T at its end stand for powers of 1024, as in `triune explore`."""
    power = "KMGT".find(text[-1:].upper()) + 1 if text else 0
    number = positive(text[:-1] if power else text) << 10 * power
    if number >= 1 << 63:
        raise argparse.ArgumentTypeError(f"expected fewer than 2^63 bytes, got {text}")
    return number


def _run(options: argparse.Namespace) -> int:
    from itertools import islice

    from triune._compile import build

    with Progress(verbose=options.verbose) as progress:
        calibration = None
        if options.calibrate:
            from triune.cli.data import Pixels, samples

            found = samples(options.calibrate, _inputs(options.model), Pixels.of(options))
            calibration = islice(found, options.limit)
        package = build(
            options.model,
            options.target,
            options.output,
            options.batch,
            calibration,
            progress,
            quiet=not options.verbose,
            policy=options.residency,
            on_chip_bytes=options.on_chip,
            format=options.format,
            bits=options.bits,
        )
        if options.format == "package":
            progress.note(_residency(package / "model.json"))
    if options.format == "package":
        print(package / "model.json")
    else:
        suffix = "BY" if options.target.startswith("buyi") else "ZG"
        print(package / f"{options.model.stem}_{suffix}.json")
    return 0


def _residency(model: Path) -> str:
    from triune import _native
    from triune.profiling._table import size

    found = _native.Package(model).residency()
    if not found:
        return "feature maps: the device has one memory for them"
    return (
        f"feature maps: policy {found['policy']} keeps {size(found['peak'])} of {size(found['capacity'])} on chip and avoids "
        f"{size(found['value'])} of traffic, {found['gap']:.1%} from the optimum of {size(found['bound'])}"
    )


def _inputs(model: Path) -> list[Input]:
    from triune import _native
    from triune.cli.data import Input

    described = _native.Session(model).inputs
    # An open extent is the batch.
    return [
        Input(name, tuple(n if isinstance(n, int) else 1 for n in shape), dtype) for name, dtype, shape in described
    ]
