"""``triune compile``: an ONNX file becomes a package, or Icraft's documents."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from triune._kinds import ONNX, require
from triune._model_info import Inputs, described
from triune.batch import Preprocess
from triune.cli.arguments import byte_count, positive
from triune.cli.calibration import (
    add_quantization_options,
    add_sample_options,
    model_inputs,
    quantization_options,
    refuse_without_samples,
    sample_limit,
)
from triune.cli.pictures import add_image_options, add_info_options, chosen, info_of
from triune.cli.progress import Progress
from triune.errors import ArgumentError

if TYPE_CHECKING:
    from triune.quantization import QuantizationResult

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
    parser.add_argument(
        "--target",
        metavar="NAME|FILE.toml",
        default="metis",
        help="the device, or the file that describes one, such as ./mine.toml (default: %(default)s)",
    )
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
        "--cascades",
        action="store_true",
        help="run consecutive convolutions and pools band by band, where the memory on chip does not keep what is between them "
        "and that takes less time",
    )
    add_sample_options(parser, required=False)
    parser.add_argument(
        "--bits",
        type=int,
        choices=(8, 16),
        default=8,
        help="the width of calibration's integers; 16 for buyi with --format icraft (default: %(default)s)",
    )
    logic = parser.add_argument_group(
        "logic of Icraft's boards", "Operators beside the accelerator, with --format icraft; docs/icraft.md."
    )
    logic.add_argument(
        "--imagemake",
        action="store_true",
        help="for buyi: ImageMake makes the accelerator's operand of a picture's bytes, by the image options; --input-format "
        "says the order of channels",
    )
    logic.add_argument(
        "--detpost",
        metavar="SCORE",
        type=float,
        nargs="?",
        const=0.1,
        help="end with a detector's last convolutions, and gather candidates above a score with DetPost (default: 0.1)",
    )
    logic.add_argument(
        "--heads",
        metavar="NAME,...",
        type=lambda text: tuple(filter(None, text.split(","))),
        default=(),
        help="with --detpost: results of those convolutions, level by level, in each the part with the score first (default: "
        "found)",
    )
    logic.add_argument(
        "--anchors",
        metavar="N",
        type=int,
        help="with --detpost: anchors at each position (default: 3 for levels of one part, else 1)",
    )
    add_info_options(add_image_options(parser))
    add_quantization_options(parser)
    parser.add_argument(
        "--json", action="store_true", help="print what runs where as JSON instead of a table, and no path"
    )
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="show progress off a terminal, too, and the quantizer's warnings"
    )
    parser.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    from triune._compile import build
    from triune._detpost import DetPost

    if options.detpost is None and (options.heads or options.anchors is not None):
        raise ArgumentError("--heads and --anchors say what --detpost gathers from")
    if options.calibrate is None:
        refuse_without_samples(options)
    detpost = None if options.detpost is None else DetPost(options.detpost, options.heads, options.anchors)
    require(options.model, (ONNX,), "compile")
    stored, found = described(options.model)
    with Progress(verbose=options.verbose) as progress:
        calibration = None

        def inputs() -> Inputs:
            # Of a model that cannot be read, it says why.
            return model_inputs(options.model) if found is None else found

        def how() -> Preprocess:
            return chosen(options, stored, inputs())

        def tell(result: QuantizationResult) -> None:
            progress.tell(result)
            progress.note(f"against float, {result.checked}:")
            for each in (*result.checks, *result.agreements):
                progress.note(str(each))

        if options.calibrate:
            from triune.cli.calibration import Calibration

            calibration = Calibration(options.calibrate, inputs(), how(), sample_limit(options), progress)
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
            cascades=options.cascades,
            format=options.format,
            bits=options.bits,
            quantization=quantization_options(options),
            tell=tell,
            info=info_of(options, stored, how, pictures=calibration is not None and calibration.pictures),
            inputs=found,
            input_format=options.input_format,
            imagemake=options.imagemake,
            detpost=detpost,
        )
        if options.format == "package":
            progress.note(_residency(package / "model.json"))
        report = package.report
        if report.warning:
            progress.warn(report.warning)
        if report.mixing:
            progress.warn(report.mixing)
    if options.json:
        print(report.json())
        return 0
    if options.format == "package":
        print(package / "model.json")
    else:
        suffix = "BY" if options.target.startswith("buyi") else "ZG"
        print(package / f"{options.model.stem}_{suffix}.json")
    print(f"\n{report}", end="")
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
