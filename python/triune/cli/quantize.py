"""``triune quantize``: a float ONNX file becomes one in QDQ form."""

from __future__ import annotations

import argparse
from pathlib import Path

from triune._kinds import ONNX, require
from triune._model_info import described
from triune.cli.calibration import (
    add_quantization_options,
    add_sample_options,
    model_inputs,
    quantization_options,
    sample_limit,
)
from triune.cli.pictures import add_image_options, add_info_options, chosen, info_of
from triune.cli.progress import Progress


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "quantize",
        help="quantize a float ONNX model",
        description="Quantize a float ONNX model with ranges from samples, check that it still answers, and write it in QDQ "
        "form. Needs the extra 'onnx'.",
    )
    parser.add_argument("model", metavar="MODEL.onnx", type=Path, help="the float model")
    add_sample_options(parser, required=True)
    parser.add_argument("-o", "--output", metavar="OUT.onnx", type=Path, required=True, help="where the model goes")
    parser.add_argument(
        "--act",
        choices=("s8", "u8", "s16"),
        default="s8",
        help="activations: 8 bits with a zero point and int8 weights, or 16 without and int16 weights (default: %(default)s)",
    )
    add_quantization_options(parser)
    add_info_options(add_image_options(parser))
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="show progress off a terminal, too, and onnxruntime's warnings"
    )
    parser.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    from triune.cli.calibration import Calibration
    from triune.quantization._quantize import quantize_file

    require(options.model, (ONNX,), "quantize")
    target: Path = options.output
    if not target.parent.is_dir():
        # Before the work, not after it.
        raise FileNotFoundError(f"{target}: there is no directory {target.parent}")
    with Progress(verbose=options.verbose) as progress:
        stored, inputs = described(options.model)
        # Of a model that cannot be read, it says why.
        found = model_inputs(options.model) if inputs is None else inputs
        pictures = chosen(options, stored, found)
        samples = Calibration(options.calibrate, found, pictures, sample_limit(options), progress)
        how = quantization_options(options)
        info = info_of(options, stored, lambda: pictures, pictures=samples.pictures)
        result = quantize_file(
            options.model,
            target,
            samples,
            progress,
            how,
            quiet=not options.verbose,
            info=info,
            input_format=options.input_format,
        )
        progress.tell(result)
    print(f"against float, {result.checked}:")
    for check in result.checks:
        print(check)
    for agreement in result.agreements:
        print(agreement)
    print(target)
    return 0
