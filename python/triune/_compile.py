"""From an ONNX file to a package: quantize it if it is a float model, then let the core compile it.

The public name is `triune.compile`.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from triune import _native
from triune._detpost import DetPost, put_detpost
from triune._files import scratch
from triune._kinds import ONNX, misread
from triune._model_info import Inputs, ModelInfo, described, names_of, spared_in
from triune._report import Compilation, CompileReport
from triune._session import Feeds
from triune._targets import target_of
from triune._text import short
from triune.errors import ArgumentError, FileError, FormatError, QuantizationWarning

if TYPE_CHECKING:
    from triune.batch import Preprocess
    from triune.batch._pictures import Format
    from triune.quantization import QuantizationOptions, QuantizationResult

__all__ = ["FORMATS", "compile", "take_bytes", "take_heads"]

FORMATS = ("package", "icraft")
"""What compilation can write."""


def compile(
    model: str | os.PathLike[str],
    *,
    target: str | os.PathLike[str] = "metis",
    output: str | os.PathLike[str],
    batch: int = 1,
    calibration: Iterable[Feeds] | None = None,
    progress: Callable[[str], None] | None = None,
    format: str = "package",
    bits: int = 8,
    quantization: QuantizationOptions | None = None,
    preprocess: Preprocess | None = None,
    labels: Sequence[str] = (),
    input_format: Format | None = None,
    imagemake: bool = False,
    detpost: DetPost | float | None = None,
    cascades: bool = False,
) -> Compilation:
    """Compile an ONNX file for a device and return the package's directory, which is `output`.

    The path has what came of it as its `report` (`triune.CompileReport`): operators and multiply-accumulates on the device and
    on the host, why each operator stayed there, what crosses between the two, and the outputs.

    `target` is a device that comes with Triune, by its name, or the path of a device file (docs/device-spec.md): a path object,
    or text with a separator or ``.toml`` at its end. The package carries the file's description, and needs the file no longer.

    `model` is an int8 network in QDQ form or, with `calibration`, a float network, which is quantized first, as
    `triune.quantize` does it (extra ``onnx``): int8 activations per tensor and int8 weights per output channel, with ranges
    from those samples, and what no Conv, Gemm or MatMul follows in float. `quantization` chooses otherwise. Some hundred samples
    like the network's real inputs do. An output that quantization spoils is told by `triune.errors.QuantizationWarning`.

    Each sample (`triune.Feeds`) is a dict with an array for every input of the model, as the float model takes it: the
    input's own dtype (float32, as a rule), its own order of axes (for images N, C, H, W), batch axis included,
    normalised, finite: ``{"image": np.zeros((1, 3, 224, 224), np.float32)}``. An iterator works, too: samples are taken
    one by one.

    `batch` images make one run, each on a core of its own. `progress` is called with a word on what comes next.

    `format` is ``package``, or for the devices buyi and zg330 ``icraft``: then `output` gets the documents of each step of
    Icraft's compiler, ``<model>_parsed.json`` to ``<model>_BY.json`` or ``<model>_ZG.json`` with a ``.raw`` beside each, for
    a batch of 1 (docs/icraft.md).

    `bits` is the width of the integers that calibration makes, activations and weights: 8, or for Icraft's documents for buyi
    16, then symmetric. A model in QDQ form has a width of its own.

    `preprocess`, which says how pictures become inputs, and `labels`, names of the classes, go into the package's
    ``model_info.json`` (default: what `model` says). A model that takes no images refuses `preprocess`. With `input_format`,
    ``rgb8``, ``bgr8``, ``gray8`` or ``yuyv``, the package takes uint8 (N, H, W, C), and `preprocess` becomes a part of its
    ``preprocess_graph.onnx``.

    With `imagemake`, which Icraft's documents for buyi can have, logic beside the accelerator makes its operand of a picture's
    bytes: from ``adapted`` on the input is uint8, and `preprocess` is in the attributes of `customop::ImageMake`. `input_format`
    says the order of its channels then. With `detpost`, Icraft's documents end with `customop::DetPost` (`DetPostZG` for zg330)
    behind a detector's last convolutions, instead of what follows these: a `triune.DetPost`, or its threshold (docs/icraft.md).

    With `cascades`, consecutive convolutions and pools of a package run band of rows by band of rows, where the near memory does
    not keep what is between them and that takes less time (docs/memory.md). Results are the same.

    Raises subclasses of `triune.errors.Error` (a `RuntimeError`): `FileError` if a file cannot be read or written or
    `output` is no directory, `ArgumentError` if `model` is no ONNX model or a damaged one, or an argument is wrong,
    `UnsupportedError` if the device cannot run the model, or it cannot be quantized. ValueError if there are no
    samples, one does not fit the model, or the model is quantized already; ImportError if calibration needs what is not
    installed. What the iterator of samples raises passes through.

    Examples:
        >>> import triune
        >>> from triune.models import DIGITS_INT8
        >>> package = triune.compile(DIGITS_INT8, target="metis", output="digits", batch=2)
        >>> package.name, (package / "model.json").exists()
        ('digits', True)
    """

    def tell(result: QuantizationResult) -> None:
        for note in (*result.notes, *result.advice):
            (progress or (lambda _: None))(note)
        for warning in result.warnings:
            # Of who called `compile`: behind this function, `build` and `compile`.
            warnings.warn(warning, QuantizationWarning, stacklevel=4)

    stored, inputs = described(Path(model))
    return build(
        model,
        target,
        output,
        batch,
        calibration,
        progress,
        quiet=True,
        format=format,
        bits=bits,
        quantization=quantization,
        tell=tell,
        info=ModelInfo(preprocess, names_of(labels)).over(stored),
        inputs=inputs,
        asked="" if preprocess is None else "preprocess",
        input_format=input_format,
        imagemake=imagemake,
        detpost=DetPost(float(detpost)) if isinstance(detpost, int | float) else detpost,
        cascades=cascades,
    )


def _cascades(banded: int) -> str:
    """Return what became of cascades, of the commands that they take more."""
    return f"cascades: {banded} commands more, for bands" if banded else "cascades: none saves time"


def build(
    model: str | os.PathLike[str],
    target: str | os.PathLike[str],
    output: str | os.PathLike[str],
    batch: int,
    calibration: Iterable[Feeds] | None,
    progress: Callable[[str], None] | None,
    *,
    quiet: bool,
    policy: str = "exact",
    on_chip_bytes: int | None = None,
    format: str = "package",
    bits: int = 8,
    quantization: QuantizationOptions | None = None,
    tell: Callable[[QuantizationResult], None] = lambda _: None,
    info: ModelInfo | None = None,
    inputs: Inputs | None = None,
    asked: str = "",
    input_format: Format | None = None,
    imagemake: bool = False,
    detpost: DetPost | None = None,
    cascades: bool = False,
) -> Compilation:
    """Do what `compile` says; unless `quiet`, onnxruntime's own warnings are shown. `tell` is told how a model was quantized.

    `inputs` are the model's, None for one that cannot be read; `asked` is as `quantize_file` has it.
    `policy` and `on_chip_bytes` choose the feature maps that stay on chip, and `cascades` how operators run, as in
    `_native.compile`.
    """
    say = progress or (lambda _: None)
    plan: dict[str, Any] = {"policy": policy, "on_chip_bytes": on_chip_bytes}
    if cascades and format == "icraft":
        raise ArgumentError(
            "cascades: Icraft's documents have each operator as a whole; they are for packages (format 'package')"
        )
    source, folder = Path(model), Compilation(output)
    target = target_of(target)
    own = _native.device_is_file(target)
    # Before any work; a name is known to be one when it is compiled for.
    name = _native.device_of(target)[0] if own else target
    if own and format == "icraft":
        raise ArgumentError(
            f"target: Icraft's documents are for buyi and zg330 as they come with Triune; {target} is a device file: leave "
            "format out, for a package"
        )
    if name == "host":
        raise ArgumentError("target: packages are for cards; on this machine's CPU, triune.Session runs the ONNX file")
    if format not in FORMATS:
        raise ArgumentError(f"format: expected one of {', '.join(FORMATS)}, got '{format}'")
    if batch < 1:
        raise ArgumentError(f"batch: expected a number of images from 1 on, got {batch}")
    if format == "icraft" and batch != 1:
        raise ArgumentError(f"batch: Icraft's networks have one image per run, got {batch}")
    said = info or ModelInfo()
    if input_format == "yuyv" and format == "icraft":
        raise ArgumentError(
            "input_format: yuyv needs rounding, of which Icraft's networks have no operator; take 'rgb8', and make that of "
            "the camera's pixels in front"
        )
    if (imagemake or detpost is not None) and format != "icraft":
        raise ArgumentError(
            f"{'imagemake' if imagemake else 'detpost'}: logic beside the accelerator is in Icraft's documents (format 'icraft')"
        )
    if imagemake and name.split("-")[0] != "buyi":
        raise ArgumentError(
            "imagemake: ImageMake is logic of buyi's boards; for zg330, input_format lets the network take bytes itself"
        )
    if bits not in (8, 16):
        raise ArgumentError(f"bits: integers have 8 or 16, got {bits}")
    buyi = name.split("-")[0] == "buyi" and not own
    if bits == 16 and (format != "icraft" or not buyi):
        raise ArgumentError(
            "bits: only buyi computes on 16-bit integers, in Icraft's documents (target 'buyi', format 'icraft')"
        )
    if bits == 16 and calibration is None:
        raise ArgumentError(
            "bits: says how wide calibration's integers are, and there are no samples to calibrate with"
        )
    ends = tuple(quantization.outputs) if quantization is not None and calibration is None else ()
    if calibration is None and quantization is not None and replace(quantization, outputs=()) != type(quantization)():
        raise ArgumentError(
            "quantization: says what calibration makes of a float model, and there are no samples to calibrate with"
        )
    try:
        taken = folder.exists() and not folder.is_dir()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise FileError(short(f"{folder}: no directory can be made there: {why}")) from None
    if taken:
        raise FileError(f"{folder}: expected a directory for the package, got a file")

    for item, _, shape in inputs or ():
        if 0 in shape:
            raise ArgumentError(
                f"input {item!r}: its shape in the model is ({', '.join(map(str, shape))}), which has no elements; export the "
                "model with a batch of 1, or an open one"
            )
    if inputs is not None and calibration is None:
        said.check(inputs, asked)
    # ImageMake takes the picture; nothing is put in front of the graph then.
    pictures, input_format = input_format, None if imagemake else input_format

    floats = None if ends else source

    def put(file: Path) -> None:
        if detpost is None:
            put_whole(file)
            return
        with scratch() as room:
            logic["det_post"] = take_heads(file, room / "heads.onnx", detpost)
            put_whole(room / "heads.onnx")

    logic: dict[str, Any] = {}

    def put_whole(file: Path) -> None:
        nonlocal said
        say("compiling")
        if imagemake:
            logic["image_make"], said = take_bytes(said, pictures)
        try:
            if format == "package":
                chosen, found = _native.compile(
                    file, target=target, output=folder, title=source, batch=batch, cascades=cascades, **plan
                )
                if cascades:
                    say(_cascades(chosen["banded"]))
            else:
                reals = floats if file != source else None
                _, found = _native.compile_documents(
                    file, target=target, output=folder, name=source.stem, float_model=reals, **plan, **logic
                )
        except FormatError as error:
            raise misread(error, source, str(source), (ONNX,)) from None
        folder.report = CompileReport.of(name, found, partial(spared_in, file))
        said.write(folder)

    if calibration is None and input_format is None and not ends:
        put(source)
        return folder
    if calibration is None:
        with scratch() as room:
            file = _end_at(source, room / "front.onnx", ends) if ends else source
            if input_format is not None:
                said = _take_pictures(file, room / "pictures.onnx", said, input_format)
                file = room / "pictures.onnx"
            put(file)
        return folder
    from triune.quantization._options import QuantizationOptions
    from triune.quantization._quantize import quantize_file

    options = quantization or QuantizationOptions()
    if bits == 16:
        options = replace(options, act="s16", fixed=True)
    elif options.act == "s16":
        raise ArgumentError("quantization: activations of 16 bits are bits=16 here (--bits 16)")
    if options.mixed == "16" and not (format == "icraft" and buyi):
        raise ArgumentError(
            "mixed: only buyi computes on 16-bit integers, in Icraft's documents; 'float' is for all devices"
        )
    with scratch() as room:
        quantized = room / "quantized.onnx"
        tell(
            quantize_file(
                source,
                quantized,
                calibration,
                say,
                options,
                quiet=quiet,
                info=said,
                asked=asked,
                input_format=input_format,
            )
        )
        said = ModelInfo.of_model(quantized)
        if options.outputs:
            floats = _end_at(source, room / "reals.onnx", options.outputs)
        put(quantized)
    return folder


def take_bytes(info: ModelInfo, format: Format | None) -> tuple[tuple[Any, ...], ModelInfo]:
    """Return what the compiler is told of pixels that `ImageMake` takes, and what the network says of pictures then."""
    from triune.batch import Preprocess

    how = info.preprocess or Preprocess()
    given = format or ("bgr8" if how.color == "bgr" else "rgb8")
    if given not in ("rgb8", "bgr8", "gray8") or (given != "gray8" and given[:3] != how.color):
        raise ArgumentError(
            f"imagemake: ImageMake keeps the order of channels, so pictures are {how.color}8 for this network, or gray8 for one "
            f"channel, got {given}"
        )
    numbers = [[float(each) for each in np.asarray(values).reshape(-1)] for values in (how.scale, how.mean, how.std)]
    taken = replace(how, scale=1.0, mean=0.0, std=1.0, format=given, size=None)
    return (*numbers, how.color == "bgr"), info._replace(preprocess=taken)


def take_heads(source: Path, target: Path, how: DetPost) -> Any:
    """Write a model that ends with a detector's heads, and return what the compiler is told of them."""
    try:
        import onnx
    except ImportError as error:
        raise ImportError(f"detpost needs the extra 'onnx': pip install 'triune[onnx]' ({error})") from None
    from triune.quantization._model import read

    model = read(source)
    onnx.load_external_data_for_model(model, str(source.parent))
    told = put_detpost(model, how)
    onnx.save(model, target)
    return told


def _end_at(source: Path, target: Path, outputs: Sequence[str]) -> Path:
    """Write a model that ends at some tensors, and return its file."""
    try:
        import onnx
    except ImportError as error:
        raise ImportError(f"outputs needs the extra 'onnx': pip install 'triune[onnx]' ({error})") from None
    from triune.quantization._model import extract_outputs, read

    model = read(source)
    onnx.load_external_data_for_model(model, str(source.parent))
    extract_outputs(model, outputs)
    onnx.save(model, target)
    return target


def _take_pictures(source: Path, target: Path, info: ModelInfo, input_format: Format | None) -> ModelInfo:
    """Write a model that takes bytes, and return what it says."""
    if input_format is None:
        return info
    try:
        import onnx
    except ImportError as error:
        raise ImportError(f"input_format needs the extra 'onnx': pip install 'triune[onnx]' ({error})") from None
    from triune._picture_input import put_picture_input
    from triune.batch import Preprocess
    from triune.quantization._model import read

    model = read(source)
    onnx.load_external_data_for_model(model, str(source.parent))
    how = put_picture_input(model, input_format, info.preprocess or Preprocess())
    onnx.save(model, target)
    return info._replace(preprocess=how)


compile.__module__ = "triune"
