"""``triune run``: a package on a virtual card, with the parts of its model that stay on the host, or a model on this CPU."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from triune._kinds import MODEL, PACKAGE, kind_of, require
from triune.cli.arguments import finite, nonnegative, ratio
from triune.cli.pictures import add_image_options, chosen, stored_info, unused_image_options
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

    @property
    def shapes(self) -> Mapping[str, tuple[int | str, ...]]:
        """Those of the outputs that are tensors, by name."""

    def run(self, arrays: dict[str, Any], progress: Callable[[int, int], None]) -> dict[str, Any]: ...

    def profile(self) -> object: ...

    def close(self) -> None: ...


class _OnCPU:
    """A model on this machine's CPU, as a `Pipeline` is one on a card."""

    def __init__(self, path: Path, threads: int) -> None:
        from triune import Session
        from triune.cli.data import Input

        self._session = Session(path, threads=threads)
        # Features that are missing are NaN.
        self.inputs = [
            Input.of(info.name, info.dtype, info.shape, info.kind, finite=False) for info in self._session.inputs
        ]
        self.shapes = {info.name: info.shape for info in self._session.outputs if info.kind == "tensor"}
        self._last: dict[str, Any] = {}

    def run(self, arrays: dict[str, Any], progress: Callable[[int, int], None]) -> dict[str, Any]:
        from triune._values import first_rows, joined
        from triune.cli.rows import runs

        rows = [
            (info.name, info.shape[0])
            for info, item in zip(self._session.inputs, self.inputs, strict=True)
            if item.has_rows
        ]
        # Open extents are for all rows at once, or for as many as another input has.
        fixed = next((extent for _, extent in rows if isinstance(extent, int)), None)
        steps = {
            name: extent if isinstance(extent, int) else fixed or max(len(arrays[name]), 1) for name, extent in rows
        }
        parts: dict[str, list[Any]] = {}
        step = 1
        for run in runs(arrays, self.inputs, steps):
            self._last, step = run.feed, run.step
            for info, value in zip(self._session.outputs, self._session.run(run.feed), strict=True):
                parts.setdefault(info.name, []).append(first_rows(value, run.kept, run.step))
            progress(run.done, run.of)
        return {info.name: joined(info.name, parts[info.name], info.shape, step) for info in self._session.outputs}

    def profile(self) -> object:
        return self._session.profile(self._last)

    def close(self) -> None:
        self._session.close()


def _run(options: argparse.Namespace) -> int:
    from triune._files import replaced, stream
    from triune._model_info import check_labels, labels_of
    from triune._values import numbers_of
    from triune.cli.answers import Told, check_target, is_picture
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
            if labels is not None:
                check_labels(labels, runner.shapes, "--labels")
            how = chosen(options, stored, [(item.name, item.dtype, item.shape or ()) for item in runner.inputs])
            arrays, places, named = load_all(options.input, runner.inputs, how)
            if unused := unused_image_options(options, pictures=any(is_picture(file) for file, _ in places)):
                progress.warn(unused)
            if options.draw:
                check_target(options.draw, places)
            results = runner.run(feeds(arrays, runner.inputs), lambda done, of: progress(f"image {done} of {of}"))
            profile = str(runner.profile()) if options.profile else ""
        finally:
            runner.close()
    item = runner.inputs[0] if len(runner.inputs) == 1 else None
    frame = how.frame(item.name, item.dtype, item.shape or ()) if item else None
    numbers = numbers_of(results)
    told = Told(numbers, frame, labels if labels is not None else stored.labels, how, places, options)
    if options.draw:
        told.draw(options.draw)
    # Before the first byte: what no file holds is told, and nothing is written.
    saved = _saved(results) if options.output else {}
    if to_stdout:
        _save(stream(sys.stdout.buffer), saved)
    elif options.output:
        with replaced(options.output) as file:
            # Not by keyword: a tensor may be named as an argument of numpy's is.
            _save(file, saved)
    else:
        if labels is not None:
            # Of extents that were open before.
            check_labels(labels, {name: array.shape for name, array in numbers.items()}, "--labels")
        for name, value in results.items():
            for line in _summary(name, value, named, labels, stored.labels):
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
    from triune.cli.pipeline import Pipeline

    device = int(options.device) if (options.device or "").isdigit() else options.device
    return Pipeline(path / "model.json" if path.is_dir() else path, device, options.threads)


def _saved(results: dict[str, Any]) -> dict[str, Tensor]:
    """Return the arrays of a file with all results."""
    from triune._values import named_arrays

    arrays: dict[str, Tensor] = {}
    for output, value in results.items():
        for name, array in named_arrays(output, value):
            if name in arrays:
                raise ValueError(f"output {output!r}: another output has an array {name!r} in the file already")
            arrays[name] = array
    return arrays


def _save(file: BinaryIO, results: dict[str, Tensor]) -> None:
    import zipfile

    import numpy as np

    with zipfile.ZipFile(file, "w") as archive:
        for name, array in results.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)


def _summary(
    name: str,
    value: Any,
    files: Sequence[str] = (),
    labels: Sequence[str] | None = None,
    stored: Sequence[str] = (),
) -> Iterator[str]:
    """Yield a line on the whole, and for scores of classes, (N, C) or (N, C, 1, 1), one per image with the best; so for strings
    and maps of each image.
    """
    from triune._values import summary

    yield f"{name}: {summary(value)}"
    count = 1 if isinstance(value, dict) else len(value) if getattr(value, "ndim", 1) and value is not None else 0
    index = -1
    for index, row in enumerate(islice(_rows(name, value, labels, stored), _IMAGES_SHOWN)):
        image = files[index] if len(files) == count else f"image {index}"
        yield f"  {image}: {row}"
    if index >= 0 and count > _IMAGES_SHOWN:
        yield f"  … {count - _IMAGES_SHOWN} more"


def _rows(name: str, value: Any, labels: Sequence[str] | None, stored: Sequence[str]) -> Iterator[str]:
    """Yield what is said of each image."""
    import numpy as np

    from triune._values import are_strings, maps_of

    maps = maps_of(value)
    if maps is not None:
        for entries in maps:
            numbers = all(isinstance(each, int | float) for each in entries.values())
            best = sorted(entries.items(), key=lambda entry: -entry[1]) if numbers else list(entries.items())
            more = "" if len(best) <= _CLASSES_SHOWN else f", … {len(best) - _CLASSES_SHOWN} more"
            told = (f"{_told(key)} ({_told(each)})" for key, each in best[:_CLASSES_SHOWN])
            yield f"{'best ' if numbers else ''}{', '.join(told)}{more}"
        return
    if not isinstance(value, np.ndarray) or not value.size:
        return
    if are_strings(value):
        if value.ndim and value.size == len(value):
            yield from (_told(str(each)) for each in value.reshape(-1))
        return
    if value.ndim < 2 or value.shape[1] < 2 or value[0].size != value.shape[1]:
        return
    if labels is not None and len(labels) != value.shape[1]:
        # They are those of another output.
        labels = None
    if labels is None and len(stored) == value.shape[1]:
        labels = stored
    for row in value.reshape(value.shape[:2]):
        order = (-row.astype(float)).argsort(kind="stable")[:_CLASSES_SHOWN]
        classes = (f"{number if labels is None else labels[number]} ({row[number]:.4g})" for number in order)
        yield f"best {', '.join(classes)}"


def _told(value: object) -> str:
    from triune._text import short

    return f"{value:.4g}" if isinstance(value, float) else short(repr(value))


_IMAGES_SHOWN = 10
_CLASSES_SHOWN = 5
