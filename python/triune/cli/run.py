"""``triune run``: a package on a virtual card, with the parts of its model that stay on the host, or a model on this CPU."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from triune._kinds import MODEL, PACKAGE, kind_of, require
from triune.cli.arguments import finite, nonnegative, ratio
from triune.cli.pictures import add_image_options, chosen, stored_info
from triune.cli.progress import Progress

if TYPE_CHECKING:
    import numpy.typing as npt

    from triune.cli.data import Input

    Tensor = npt.NDArray[Any]


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "run",
        help="run a package on a virtual card, or a model on this machine's CPU",
        description="Run a package on a virtual card: what stays on the host before it, the device's program, what "
        "stays behind it; or a model on this machine's CPU. Inputs and outputs are the model's own. For folders of "
        "thousands of pictures and long videos, triune predict keeps memory small.",
    )
    parser.add_argument(
        "package",
        metavar="DIR|MODEL",
        type=Path,
        help="the package's directory, or its model.json; or an .onnx or .mge file",
    )
    parser.add_argument(
        "--input",
        metavar="FILE|FOLDER",
        type=Path,
        nargs="+",
        required=True,
        help=".npy files, images, videos, or folders of them; or .npz files with an array per input",
    )
    parser.add_argument(
        "--output",
        metavar="FILE.npz",
        type=Path,
        help="where the outputs go, - for standard output; else a line for each",
    )
    parser.add_argument(
        "--labels",
        metavar="FILE",
        type=Path,
        help="names of the classes, a line each (default: those that the model says)",
    )
    parser.add_argument(
        "--draw",
        metavar="OUT",
        type=Path,
        help="draw boxes or the best class into the images: a folder for them, or a file for one image or video",
    )
    parser.add_argument(
        "--boxes",
        metavar="OUTPUT[,OUTPUT]",
        help="the outputs with boxes and scores, if their shapes do not tell; none for no boxes",
    )
    parser.add_argument(
        "--score", metavar="X", type=finite, default=0.25, help="of boxes at least (default: %(default)s)"
    )
    parser.add_argument(
        "--iou",
        metavar="X",
        type=ratio,
        default=0.45,
        help="boxes of a class that share more are one (default: %(default)s)",
    )
    parser.add_argument("--profile", action="store_true", help="show modelled cycles per operator; times, on the CPU")
    parser.add_argument("--device", metavar="NAME|NUMBER", help="the card (default: the first that is free)")
    parser.add_argument(
        "--threads",
        metavar="N",
        type=nonnegative,
        default=1,
        help="for what runs on the host; 0 for every CPU (default: 1)",
    )
    add_image_options(parser)
    parser.add_argument("-v", "--verbose", action="store_true", help="show progress even if this is no terminal")
    parser.set_defaults(command=_run)


class _Runner(Protocol):
    """What runs: a package on a card, or a session."""

    @property
    def inputs(self) -> Sequence[Input]: ...

    def run(self, arrays: dict[str, Tensor], progress: Callable[[int, int], None]) -> dict[str, Tensor]: ...

    def profile(self) -> object: ...

    def close(self) -> None: ...


class _OnCPU:
    """A model on this machine's CPU, as a `Pipeline` is one on a card."""

    def __init__(self, path: Path, threads: int) -> None:
        from triune import Session
        from triune.cli.data import Input

        self._session = Session(path, threads=threads)
        # An open extent is the batch, in front; others are as the arrays have them.
        self.inputs = [
            Input(info.name, tuple(each if isinstance(each, int) else 1 for each in info.shape), info.dtype)
            for info in self._session.inputs
        ]
        self._last: dict[str, Tensor] = {}

    def run(self, arrays: dict[str, Tensor], progress: Callable[[int, int], None]) -> dict[str, Tensor]:
        import numpy as np

        count, fixed = len(next(iter(arrays.values()))), self._session.inputs[0].shape[0]
        step = fixed if isinstance(fixed, int) else count
        parts: dict[str, list[Tensor]] = {}
        for first in range(0, count, step):
            # A last batch that is not full repeats its last image.
            pick, kept = np.minimum(np.arange(first, first + step), count - 1), min(step, count - first)
            self._last = {name: array[pick] for name, array in arrays.items()}
            for info, array in zip(self._session.outputs, self._session.run(self._last), strict=True):
                parts.setdefault(info.name, []).append(array[:kept] if array.ndim and len(array) == step else array)
            progress(first + kept, count)
        return {
            # Of an output without axes, one of each batch.
            name: found[0] if len(found) == 1 else np.concatenate(found) if found[0].ndim else np.stack(found)
            for name, found in parts.items()
        }

    def profile(self) -> object:
        return self._session.profile(self._last)

    def close(self) -> None:
        self._session.close()


def _run(options: argparse.Namespace) -> int:
    from triune._files import replaced, stream
    from triune._model_info import labels_of
    from triune.cli.answers import Told
    from triune.cli.data import feeds, load_all

    path: Path = options.package
    require(path, (PACKAGE, *MODEL), "run")
    to_stdout = str(options.output) == "-"
    if options.output and not to_stdout and not options.output.parent.is_dir():
        # Before the work, not after it.
        raise FileNotFoundError(f"{options.output}: there is no directory {options.output.parent}")
    if options.draw and not options.draw.parent.is_dir():
        raise FileNotFoundError(f"{options.draw}: there is no directory {options.draw.parent}")
    stored = stored_info(path)
    labels = labels_of(options.labels) if options.labels else None
    with Progress(verbose=options.verbose) as progress:
        progress("loading")
        runner = _runner(path, options)
        try:
            how = chosen(options, stored, [(item.name, item.dtype, item.shape) for item in runner.inputs])
            arrays, places, named = load_all(options.input, runner.inputs, how)
            results = runner.run(feeds(arrays, runner.inputs), lambda done, of: progress(f"image {done} of {of}"))
            profile = str(runner.profile()) if options.profile else ""
        finally:
            runner.close()
    item = runner.inputs[0] if len(runner.inputs) == 1 else None
    frame = how.frame(item.name, item.dtype, item.shape) if item else None
    told = Told(results, frame, labels if labels is not None else stored.labels, how, places, options)
    if options.draw:
        told.draw(options.draw)
    if to_stdout:
        _save(stream(sys.stdout.buffer), results)
    elif options.output:
        with replaced(options.output) as file:
            # Not by keyword: a tensor may be named as an argument of numpy's is.
            _save(file, results)
    else:
        for name, array in results.items():
            for line in _summary(name, array, named, labels, stored.labels):
                print(line)
        for line in told.lines(named):
            print(line)
    if profile:
        print(profile, file=sys.stderr if options.output else sys.stdout)
    return 0


def _runner(path: Path, options: argparse.Namespace) -> _Runner:
    if kind_of(path) is not PACKAGE:
        if options.device is not None:
            raise ValueError(f"--device is for packages; triune compile {path} -o DIR makes one of the model")
        return _OnCPU(path, options.threads)
    from triune import _native
    from triune.cli.pipeline import Pipeline

    package = _native.Package(path / "model.json" if path.is_dir() else path)
    target = package.target
    cards = sorted({card.device for card in _native.cards()})
    # A package with a device of one's own brings its card along.
    if cards and target not in cards and package.device is None:
        raise ValueError(
            f"{path} is a package for {target}, and there are virtual cards of {', '.join(cards)} only: triune profile, report "
            f"and explore show what it costs; to run it, compile its model with --target {target} --format icraft, docs/icraft.md"
        )
    device = int(options.device) if (options.device or "").isdigit() else options.device
    return Pipeline(path / "model.json" if path.is_dir() else path, device, options.threads)


def _save(file: BinaryIO, results: dict[str, Tensor]) -> None:
    import zipfile

    import numpy as np

    with zipfile.ZipFile(file, "w") as archive:
        for name, array in results.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)


def _summary(
    name: str,
    array: Tensor,
    files: Sequence[str] = (),
    labels: Sequence[str] | None = None,
    stored: Sequence[str] = (),
) -> Iterator[str]:
    """Yield a line on the whole, and for scores of classes, (N, C) or (N, C, 1, 1), one per image with the best."""
    if not array.size:
        yield f"{name}: {array.dtype} {array.shape} empty"
        return
    yield f"{name}: {array.dtype} {array.shape} min {array.min():g} max {array.max():g}"
    if array.ndim < 2 or array.shape[1] < 2 or array[0].size != array.shape[1]:
        return
    if labels is not None and len(labels) != array.shape[1]:
        raise ValueError(f"--labels: expected {array.shape[1]} lines, one per class of {name!r}, got {len(labels)}")
    if labels is None and len(stored) == array.shape[1]:
        labels = stored
    scores = array.reshape(array.shape[:2])
    for index, row in enumerate(scores[:_IMAGES_SHOWN]):
        best = (-row.astype(float)).argsort(kind="stable")[:_CLASSES_SHOWN]
        classes = (f"{number if labels is None else labels[number]} ({row[number]:.4g})" for number in best)
        image = files[index] if len(files) == len(scores) else f"image {index}"
        yield f"  {image}: best {', '.join(classes)}"
    if len(scores) > _IMAGES_SHOWN:
        yield f"  … {len(scores) - _IMAGES_SHOWN} more"


_IMAGES_SHOWN = 10
_CLASSES_SHOWN = 5
