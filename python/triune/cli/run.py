"""``triune run``: a package on a virtual card, with the parts of the model that stay on the host."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from triune.cli.arguments import positive
from triune.cli.compile import add_image_options
from triune.cli.progress import Progress

if TYPE_CHECKING:
    import numpy.typing as npt


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "run",
        help="run a package on a virtual card",
        description="Run a package on a virtual card: what stays on the host before it, the device's program, what "
        "stays behind it. Inputs and outputs are the model's own, in float.",
    )
    parser.add_argument("package", metavar="DIR", type=Path, help="the package's directory, or its model.json")
    parser.add_argument(
        "--input", metavar="FILE", type=Path, required=True, help="a .npy or image, or a .npz with an array per input"
    )
    parser.add_argument("--output", metavar="FILE.npz", type=Path, help="where the outputs go; else a line for each")
    parser.add_argument("--profile", action="store_true", help="show modelled cycles per operator")
    parser.add_argument("--device", metavar="NAME|NUMBER", help="the card (default: the first that is free)")
    parser.add_argument(
        "--threads", metavar="N", type=positive, default=1, help="for the parts on the host (default: 1)"
    )
    add_image_options(parser)
    parser.add_argument("-v", "--verbose", action="store_true", help="show progress even if this is no terminal")
    parser.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    from triune._files import replaced
    from triune.cli.data import Pixels, feeds, load
    from triune.cli.pipeline import Pipeline

    path: Path = options.package
    if options.output and not options.output.parent.is_dir():
        # Before the work, not after it.
        raise FileNotFoundError(f"{options.output}: there is no directory {options.output.parent}")
    device = int(options.device) if (options.device or "").isdigit() else options.device
    with Progress(verbose=options.verbose) as progress:
        progress("loading")
        with Pipeline(path / "model.json" if path.is_dir() else path, device, options.threads) as pipeline:
            arrays = feeds(load(options.input, pipeline.inputs, Pixels.of(options)), pipeline.inputs)
            results = pipeline.run(arrays, lambda done, of: progress(f"image {done} of {of}"))
            profile = str(pipeline.profile()) if options.profile else ""
    if options.output:
        with replaced(options.output) as file:
            # Not by keyword: a tensor may be named as an argument of numpy's is.
            _save(file, results)
    else:
        for name, array in results.items():
            for line in _summary(name, array):
                print(line)
    if profile:
        print(profile, file=sys.stderr if options.output else sys.stdout)
    return 0


def _save(file: BinaryIO, results: dict[str, npt.NDArray[Any]]) -> None:
    import zipfile

    import numpy as np

    with zipfile.ZipFile(file, "w") as archive:
        for name, array in results.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)


def _summary(name: str, array: npt.NDArray[Any]) -> Iterator[str]:
    """Yield a line on the whole, and for scores of classes, (N, C) or (N, C, 1, 1), one per image with the best."""
    if not array.size:
        yield f"{name}: {array.dtype} {array.shape} empty"
        return
    yield f"{name}: {array.dtype} {array.shape} min {array.min():g} max {array.max():g}"
    if array.ndim < 2 or array.shape[1] < 2 or array[0].size != array.shape[1]:
        return
    scores = array.reshape(array.shape[:2])
    for index, row in enumerate(scores[:_IMAGES_SHOWN]):
        best = (-row.astype(float)).argsort(kind="stable")[:_CLASSES_SHOWN]
        yield f"  image {index}: best {', '.join(f'{number} ({row[number]:.4g})' for number in best)}"
    if len(scores) > _IMAGES_SHOWN:
        yield f"  … {len(scores) - _IMAGES_SHOWN} more"


_IMAGES_SHOWN = 10
_CLASSES_SHOWN = 5
