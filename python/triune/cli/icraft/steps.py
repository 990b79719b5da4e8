"""The compiler's steps: each writes its document of one compilation of the model."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from triune._files import DATA_LIMIT, opened, read, read_text, scratch
from triune.cli.icraft.configuration import STEPS, Configuration
from triune.errors import ArgumentError, FileError

__all__ = ["write_step"]

_METHODS = {"kld": "entropy", "ems": "mse", "null": "minmax", "none": "minmax", "": "minmax"}
"""The vendor's ways to find ranges, to those of `triune.quantize`."""


def write_step(configuration: Configuration, step: str, progress: Callable[[str], None]) -> Path:
    """Write the document and the parameters of a step; return the document.

    Raises ArgumentError if the step before was not run, or its document is not what this made.
    """
    configuration.section(step)
    # What is wrong with the accelerator is so at the first step.
    _, place = configuration.target, configuration.place(step)
    with _documents(configuration, step, progress) as folder:
        earlier = STEPS[: STEPS.index(step)][-1:]
        for before in earlier:
            there = configuration.place(before)
            if not there.exists():
                raise ArgumentError(
                    f"{there}: there is no such file; `triune icraft {before} {configuration.file}` writes it"
                )
            if _digest(there) != _digest(folder / there.name):
                raise ArgumentError(
                    f"{there}: it is not what `triune icraft {before}` makes of {configuration.model}: Triune's steps start "
                    f"from the model; run `triune icraft {before} {configuration.file}` again, or change the model"
                )
        place.parent.mkdir(parents=True, exist_ok=True)
        for file in (place, place.with_suffix(".raw")):
            shutil.copyfile(folder / file.name, file)
        quantized = folder / _kept(configuration)
        if step == "quantize" and quantized.exists():
            shutil.copyfile(quantized, place.parent / quantized.name)
    return place


def _kept(configuration: Configuration) -> str:
    return f"{configuration.name}_quantized.onnx"


def _digest(path: Path) -> str:
    return hashlib.sha256(read(path, DATA_LIMIT)).hexdigest()


@contextmanager
def _documents(configuration: Configuration, step: str, progress: Callable[[str], None]) -> Iterator[Path]:
    """Yield a folder with the documents of all steps, and the quantized model."""
    from triune import _native
    from triune._compile import take_bytes, take_heads
    from triune._model_info import ModelInfo
    from triune.quantization._quantize import quantize_file

    with scratch() as folder:
        source = _as_onnx(configuration, folder)
        made = folder / _kept(configuration)
        kept = configuration.place("quantize").parent / made.name if "quantize" in configuration.sections else None

        def build(quantized: Path) -> None:
            progress("compiling")
            image_make, detpost = configuration.logic
            logic: dict[str, Any] = {}
            if image_make:
                logic["image_make"], _ = take_bytes(ModelInfo(configuration.pixels, ()), None)
            heads = quantized
            if detpost is not None:
                heads = folder / f"{configuration.name}_heads.onnx"
                logic["det_post"] = take_heads(quantized, heads, detpost)
            _native.compile_documents(
                heads,
                target=configuration.target,
                output=folder,
                name=configuration.name,
                float_model=source if heads != source else None,
                **logic,
            )

        if _is_quantized(source):
            build(source)
        else:
            if step in ("adapt", "generate"):
                if kept is None or not kept.exists():
                    raise ArgumentError(
                        f"{kept or made.name}: there is no quantized model; `triune icraft quantize {configuration.file}` "
                        "writes it"
                    )
                shutil.copyfile(kept, made)
            elif step == "quantize":
                result = quantize_file(
                    source,
                    made,
                    _samples(configuration, source, folder, progress),
                    progress,
                    _how(configuration),
                    quiet=True,
                )
                for note in (*result.notes, *map(str, result.warnings)):
                    progress(note)
            else:
                # Reals do not depend on the ranges: any sample does.
                from triune.quantization import QuantizationOptions

                plain = QuantizationOptions(method="minmax", bias_correction=False, equalize=False)
                quantize_file(source, made, [_blank(source)], progress, plain, quiet=True)
            build(made)
        yield folder


def _is_quantized(source: Path) -> bool:
    import onnx

    model = onnx.load(source, load_external_data=False)
    return any(node.op_type == "DequantizeLinear" for node in model.graph.node)


def _blank(source: Path) -> dict[str, Any]:
    import numpy as np

    from triune.cli.calibration import model_inputs

    random = np.random.default_rng(0)
    return {
        name: random.random([n if isinstance(n, int) else 1 for n in shape]).astype(dtype)
        for name, dtype, shape in model_inputs(source)
    }


def _as_onnx(configuration: Configuration, folder: Path) -> Path:
    """Return the model as an ONNX file. Traced PyTorch files are exported, where torch is installed."""
    source = configuration.model
    if not source.exists():
        raise FileError(f"{source}: there is no such file ([parse] network of {configuration.file})")
    if source.suffix.lower() == ".onnx":
        return source
    try:
        import torch  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        raise ImportError(
            f"{source}: a PyTorch model: install torch, with which traced files are exported to ONNX here, or put "
            f"{source.with_suffix('.onnx').name} beside it (torch.onnx.export)"
        ) from None
    shapes = configuration.section("parse").get("inputs", [])
    shapes = shapes if shapes and isinstance(shapes[0], list) else [shapes]
    images = [_channels_first(shape, configuration.text("parse", "inputs_layout", "NHWC")) for shape in shapes]
    try:
        module = torch.jit.load(str(source), map_location="cpu").eval()
    except RuntimeError as error:
        raise ArgumentError(
            f"{source}: no traced model (torch.jit.trace(...).save): {str(error).splitlines()[0]:.120}"
        ) from None
    target = folder / f"{source.stem}.onnx"
    given = tuple(torch.zeros(shape) for shape in images)
    torch.onnx.export(module, given, str(target), opset_version=17, dynamo=False)
    return target


def _channels_first(shape: Sequence[int], layout: str) -> list[int]:
    if len(shape) == 4 and layout.upper().startswith("NHWC"):
        return [shape[0], shape[3], shape[1], shape[2]]
    return list(shape)


def _how(configuration: Configuration) -> Any:
    """Return how a model is quantized, by the keys of [quantize]. Raises ArgumentError for what Triune has not."""
    from triune.quantization import QuantizationOptions

    section, target = configuration.section("quantize"), configuration.target
    saturation = str(section.get("saturation", "null")).lower()
    if saturation not in _METHODS:
        raise ArgumentError(
            f"{configuration.file}: [quantize] saturation: expected kld, ems or null, got {saturation!r}"
        )
    per = str(section.get("per", "tensor")).lower()
    if per not in ("tensor", "channel"):
        raise ArgumentError(f"{configuration.file}: [quantize] per: expected tensor or channel, got {per!r}")
    bits = section.get("bits", 8)
    dtype = str(section.get("qdtype", f"int{bits}")).lower()
    if dtype not in ("int8", "int16"):
        raise ArgumentError(
            f"{configuration.file}: [quantize] qdtype {dtype!r}: Triune's accelerators compute on int8, buyi on int16 as well"
        )
    if dtype == "int16" and target != "buyi":
        raise ArgumentError(f"{configuration.file}: [quantize] 16 bits are buyi's; zg330 has 8")
    mixed = str(section.get("mix_precision", "") or "").lower()
    if mixed not in ("", "auto", "false", "none", "null"):
        raise ArgumentError(
            f"{configuration.file}: [quantize] mix_precision {mixed!r}: expected auto; Triune finds by itself which operators "
            "need more than 8 bits"
        )
    fixed = target == "buyi"
    return QuantizationOptions(
        method=_METHODS[saturation],
        act="s16" if dtype == "int16" else "s8",
        # Integers of 16 bits have a scale for each channel.
        per_channel=per == "channel" or dtype == "int16",
        mixed=None if mixed != "auto" or dtype == "int16" else "16" if fixed else "float",
        fixed=dtype == "int16",
    )


def _samples(configuration: Configuration, source: Path, folder: Path, progress: Callable[[str], None]) -> Any:
    """Return the samples that [quantize] names: the files of `forward_list` in `forward_dir`, or all of that."""
    import numpy as np

    from triune.cli.calibration import Calibration, model_inputs

    where = Path(configuration.text("quantize", "forward_dir"))
    listed = configuration.section("quantize").get("forward_list")
    if not where.is_dir():
        raise FileError(f"{where}: there is no such folder ([quantize] forward_dir of {configuration.file})")
    if listed:
        lines = read_text(listed).splitlines()
        names = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    else:
        names = sorted(file.name for file in where.iterdir() if file.is_file())
    inputs = model_inputs(source)
    chosen = folder / "samples"
    chosen.mkdir()
    for number, name in enumerate(names):
        files = [where / part.strip() for part in name.split(";") if part.strip()]
        missing = [file for file in files if not file.exists()]
        if missing:
            raise FileError(f"{missing[0]}: there is no such file ([quantize] forward_list of {configuration.file})")
        own = chosen / f"{number:08}"
        if len(files) == 1 and files[0].suffix.lower() != ".ftmp":
            own.with_suffix(files[0].suffix).symlink_to(files[0].resolve())
            continue
        if len(files) != len(inputs):
            raise ArgumentError(f"{name}: {len(files)} files for the model's {len(inputs)} inputs")
        layout = configuration.text("parse", "inputs_layout", "NHWC")
        arrays = {
            one: _raw(file, [n if isinstance(n, int) else 1 for n in shape], dtype, layout)
            for file, (one, dtype, shape) in zip(files, inputs, strict=True)
        }
        np.savez(own.with_suffix(".npz"), **arrays)
    return Calibration(chosen, inputs, configuration.pixels, len(names), progress)


def _raw(file: Path, shape: Sequence[int], dtype: str, layout: str) -> Any:
    """Return the elements of a .ftmp file, which has images channels last, as a model takes them."""
    import numpy as np

    with opened(file) as raw:
        data = np.fromfile(raw, np.dtype(dtype))
    if data.size != np.prod(shape):
        raise ArgumentError(f"{file}: {data.size} elements of {dtype}, the model's input has {list(shape)}")
    if len(shape) == 4 and layout.upper().startswith("NHWC"):
        return data.reshape(shape[0], shape[2], shape[3], shape[1]).transpose(0, 3, 1, 2)
    return data.reshape(shape)
