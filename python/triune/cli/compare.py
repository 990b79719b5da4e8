"""``triune compare``: models beside each other on the same inputs, layer by layer and output by output."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from triune._model_info import ModelInfo
from triune.batch import Preprocess
from triune.cli.arguments import finite, positive
from triune.cli.calibration import Calibration, model_inputs
from triune.cli.files import write_files
from triune.cli.pictures import add_image_options, chosen, options_of, stored_info, unused_image_options
from triune.cli.progress import Progress
from triune.errors import ArgumentError


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "compare",
        help="compare a model with its quantized and compiled forms",
        description="Run models on the same inputs, and show how each differs from those before it: tensor by tensor with the "
        "worst first, and output by output, with classes and boxes that are the same. Needs the extra 'onnx'.",
    )
    parser.add_argument("reference", metavar="A", type=Path, help="the model to compare with: an ONNX file")
    parser.add_argument("others", metavar="B", type=Path, nargs="+", help="ONNX files, or packages' directories")
    parser.add_argument(
        "--inputs",
        metavar="FOLDER|FILE",
        type=Path,
        required=True,
        help="a folder of images or arrays, a .npz, .npy or image",
    )
    parser.add_argument(
        "--limit", metavar="N", type=positive, default=50, help="samples at most (default: %(default)s)"
    )
    parser.add_argument(
        "--boxes",
        metavar="OUTPUT",
        help="the output with boxes and scores, or BOXES,SCORES, or none (default: those that look so)",
    )
    parser.add_argument("--score", metavar="X", type=finite, default=0.25, help="of boxes (default: %(default)s)")
    parser.add_argument(
        "--iou", metavar="X", type=finite, default=0.5, help="of boxes that are the same (default: %(default)s)"
    )
    parser.add_argument(
        "--layers", metavar="N", type=int, default=20, help="layers in the table at most (default: %(default)s)"
    )
    parser.add_argument("--json", metavar="FILE", type=Path, help="write all rows")
    parser.add_argument("--html", metavar="FILE", type=Path, help="write a page with all rows")
    add_image_options(parser)
    parser.add_argument("-v", "--verbose", action="store_true", help="show progress even if this is no terminal")
    parser.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    from triune.quantization import compare

    if options.reference.is_dir() or options.reference.name == "model.json":
        raise ArgumentError(
            f"{options.reference} is a package: the first model is an ONNX file, packages come behind it"
        )
    with Progress(verbose=options.verbose) as progress:
        found = model_inputs(options.reference)
        models = [options.reference, *options.others]
        stored = [stored_info(model) for model in models]
        # Where the float file says nothing, what was made of it does.
        speaker = next((at for at, each in enumerate(stored) if _speaks(each, found)), 0)
        how = chosen(options, stored[speaker], found)
        samples = Calibration(options.inputs, found, how, options.limit, progress)
        if unused := unused_image_options(options, pictures=samples.pictures):
            progress.warn(unused)
        comparison = compare(
            options.reference,
            *options.others,
            inputs=samples,
            boxes=options.boxes,
            score=options.score,
            iou=options.iou,
            progress=progress,
        )
    if samples.pictures:
        said = _of_pictures(comparison.models, stored, speaker, how)
        comparison = replace(comparison, notes=(*said, *comparison.notes))
    people = write_files((options.json, comparison.write_json), (options.html, comparison.write_html))
    print(comparison.table(max(options.layers, 0)), file=people)
    return 0


def _speaks(stored: ModelInfo, inputs: Sequence[tuple[str, str, Sequence[int | str]]]) -> bool:
    """Whether a model says how pictures become such inputs."""
    return stored.preprocess is not None and bool(inputs) and stored.preprocess.frame(*inputs[0]) is not None


def _of_pictures(names: Sequence[str], stored: Sequence[ModelInfo], speaker: int, how: Preprocess) -> Iterator[str]:
    """Say whose word on pictures was taken where it is not the first model's, and who says otherwise."""
    own = stored[speaker].preprocess
    if speaker and own is not None:
        yield f"pictures become inputs as {names[speaker]} says ({options_of(own)}), since {names[0]} does not say it"
    for name, each in zip(names, stored, strict=True):
        theirs = each.preprocess
        # How pixels lie in arrays, and how JPEGs are decoded, is not the model's.
        if theirs is not None and replace(theirs, format=how.format, reducing_gap=how.reducing_gap) != how:
            yield (
                f"{name} says that pictures become inputs by {options_of(theirs)}, and here they became so by "
                f"{options_of(how)}, for all models: its differences may be of that"
            )
