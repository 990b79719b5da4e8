"""``triune compile``: an ONNX file becomes a package."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from triune.cli.progress import Progress

if TYPE_CHECKING:
    from triune.cli.data import Input


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
    parser.add_argument("--batch", metavar="N", type=positive, default=1, help="images per run, each on its own core")
    parser.add_argument(
        "--calibrate",
        metavar="IMAGES|NPZ",
        type=Path,
        help="quantize a float model with ranges from these: a directory of images, or a .npz of samples",
    )
    add_image_options(parser)
    parser.add_argument(
        "--limit", metavar="N", type=positive, default=200, help="samples at most (default: %(default)s)"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="show progress even if this is no terminal")
    parser.set_defaults(command=_run)


def add_image_options(parser: argparse.ArgumentParser) -> None:
    """Add what images are normalised with."""
    for name, default in (("mean", 0.0), ("std", 1.0)):
        parser.add_argument(
            f"--{name}",
            metavar="X",
            type=float,
            nargs="+",
            default=[default],
            help=f"images become (x / 255 − mean) / std, per channel (default: {default})",
        )


def positive(text: str) -> int:
    """Read a number of at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected at least 1, got {number}")
    return number


def _run(options: argparse.Namespace) -> int:
    from itertools import islice

    from triune._compile import compile

    with Progress(verbose=options.verbose) as progress:
        calibration = None
        if options.calibrate:
            from triune.cli.data import samples

            found = samples(options.calibrate, _inputs(options.model), options.mean, options.std)
            calibration = islice(found, options.limit)
        package = compile(
            options.model,
            target=options.target,
            output=options.output,
            batch=options.batch,
            calibration=calibration,
            progress=progress,
        )
    print(package / "model.json")
    return 0


def _inputs(model: Path) -> list[Input]:
    from triune import _native
    from triune.cli.data import Input

    described = _native.Session(model).inputs
    # An open extent is the batch.
    return [Input(name, tuple(n if isinstance(n, int) else 1 for n in shape)) for name, _, shape in described]
