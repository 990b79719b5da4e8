"""How often quantized models answer as in float: Triune's quantizer beside ONNX Runtime's static one, as a Markdown table.

    python benches/python/bench_quantization.py [--photos 500] [--calibration 104] [--models yolox ...] [--bounds 36 98%]
        [--ways] [--alone]

The models and photos are those of the test data folder (TRIUNE_TEST_DATA, or the folder `shared` beside the checkout); the
photos are cut, turned over and lit in other ways, by a seed of their own for calibration. Both quantizers see the same samples,
both models run in onnxruntime with exact products of bytes, so that the table does not depend on the machine. MobileNet's
float model is its int8 file with the rounding taken out. The detectors end in boxes and scores: their decode is added to the
graph here.

A classifier's row has the photos with the same best class, a detector's the boxes of float (score 0.3 and above) that are found
with an intersection over union of 0.9 and a score within 0.05, and those found with 0.5. Work in 8 bits is the share of the
products' multiply-accumulates. What became of boxes that are not kept is said on standard error. The exit status is 1 if
Triune's quantizer does worse than the other one.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper
from onnxruntime import quantization
from onnxruntime.quantization.shape_inference import quant_pre_process
from PIL import Image, ImageEnhance, ImageOps

import triune
from triune._detections import BoxOutputs, Detections, close_to, find_box_outputs, match, overlaps
from triune.quantization._statistics import exact_session

ROOT = Path(__file__).resolve().parents[2]
Array = npt.NDArray[Any]
Picture = Image.Image

WAYS: dict[str, dict[str, Any]] = {
    "minmax": {"method": "minmax"},
    "percentile": {"method": "percentile"},
    "entropy": {"method": "entropy"},
    "u8": {"act": "u8"},
    "s16": {"act": "s16"},
    "not equalized": {"equalize": False},
    "biases not corrected": {"bias_correction": False},
}
"""Other choices than the defaults, by what rows call them."""

SCORE = 0.3
"""Of boxes that count."""

NEAR = 0.05
"""How far a score may be off."""


@dataclass(frozen=True)
class Case:
    """A model, its photos, and how one becomes its input."""

    name: str
    make: Callable[[Path, Path], Path]
    """From the data folder and a scratch folder to the float model."""
    input: str
    prepare: Callable[[Picture], Array]
    photos: tuple[str, ...] = ()
    """Which photos; all if none is named."""


def planes(image: Picture, *, bgr: bool = False) -> Array:
    """Return an image's pixels, 0 to 255, channels in front."""
    pixels = np.asarray(image, np.float32)
    return np.ascontiguousarray((pixels[..., ::-1] if bgr else pixels).transpose(2, 0, 1)[None])


def letterbox(image: Picture, side: int = 416) -> Array:
    """Fit an image into a square from its upper left corner on, the rest grey."""
    ratio = min(side / image.height, side / image.width)
    canvas = Image.new("RGB", (side, side), (114, 114, 114))
    canvas.paste(image.resize((int(image.width * ratio), int(image.height * ratio)), Image.Resampling.BILINEAR))
    return planes(canvas, bgr=True)


def sized(width: int, height: int, scale: float, mean: float, *, bgr: bool = False) -> Callable[[Picture], Array]:
    """Return what scales an image and its pixels: (x − mean) / scale."""

    def prepare(image: Picture) -> Array:
        pixels = planes(image.resize((width, height), Image.Resampling.BILINEAR), bgr=bgr)
        return np.ascontiguousarray((pixels - np.float32(mean)) / np.float32(scale))

    return prepare


def file(name: str) -> Callable[[Path, Path], Path]:
    """Return what finds a model of the data folder."""
    return lambda data, scratch: data / "models" / "onnx" / name


def without_rounding(data: Path, scratch: Path) -> Path:
    """Write MobileNet with its weights as reals, and without any QuantizeLinear."""
    model = onnx.load(data / "models" / "onnx" / "mobilenetv2_int8_qdq.onnx")
    graph = model.graph
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    same: dict[str, str] = {}
    nodes, reals = [], []
    for node in graph.node:
        node.input[:] = [same.get(name, name) for name in node.input]
        if node.op_type == "DequantizeLinear" and node.input[0] in constants:
            integers, scale, zero = (constants[name].astype(np.float64) for name in node.input)
            axis = next((entry.i for entry in node.attribute if entry.name == "axis"), 1)
            along = [-1 if at == axis and scale.size > 1 else 1 for at in range(integers.ndim)]
            values = (integers - zero.reshape(along if zero.size > 1 else [1] * integers.ndim)) * scale.reshape(along)
            reals.append(numpy_helper.from_array(values.astype(np.float32), node.output[0]))
        elif node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            same[node.output[0]] = node.input[0]
        else:
            nodes.append(node)
    for node in nodes:
        node.input[:] = [same.get(name, name) for name in node.input]
    read = {name for node in nodes for name in node.input}
    kept = [tensor for tensor in graph.initializer if tensor.name in read]
    del graph.node[:], graph.initializer[:], graph.value_info[:]
    graph.node.extend(nodes)
    graph.initializer.extend([*kept, *reals])
    onnx.checker.check_model(model)
    onnx.save(model, scratch / "mobilenet_f32.onnx")
    return scratch / "mobilenet_f32.onnx"


class Tail:
    """Nodes that are put behind a graph."""

    def __init__(self, model: Any) -> None:
        self.graph = model.graph

    def constant(self, values: Any, dtype: Any = np.float32) -> str:
        name = f"decode_constant_{len(self.graph.initializer)}"
        self.graph.initializer.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def node(self, kind: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        name = f"decode_{kind}_{len(self.graph.node)}"
        self.graph.node.append(helper.make_node(kind, inputs, [output or name], name, **attributes))
        return output or name

    def part(self, tensor: str, first: int, end: int) -> str:
        """Return some of the numbers of each box."""
        bounds = (self.constant([value], np.int64) for value in (first, end, 2))
        return self.node("Slice", tensor, *bounds)


def yolox(data: Path, scratch: Path) -> Path:
    """Write YOLOX-nano with boxes in pixels, as centre and extents, in front of its scores."""
    model = onnx.load(data / "models" / "onnx" / "yolox_nano_f32.onnx")
    model.graph.node[-1].output[0] = "raw"
    tail = Tail(model)
    corners, strides = [], []
    for stride in (8, 16, 32):
        y, x = np.mgrid[: 416 // stride, : 416 // stride]
        corners.append(np.stack([x, y], -1).reshape(-1, 2))
        strides.append(np.full((x.size, 1), stride))
    grid, stride_of = (tail.constant(np.concatenate(parts)[None]) for parts in (corners, strides))
    places = tail.node("Mul", tail.node("Add", tail.part("raw", 0, 2), grid), stride_of)
    extents = tail.node("Mul", tail.node("Exp", tail.part("raw", 2, 4)), stride_of)
    tail.node("Concat", places, extents, tail.part("raw", 4, 85), output="output", axis=2)
    onnx.checker.check_model(model)
    onnx.save(model, scratch / "yolox.onnx")
    return scratch / "yolox.onnx"


def ultraface(data: Path, scratch: Path) -> Path:
    """Write UltraFace with its boxes as corners, as parts of the image's sides."""
    model = onnx.load(data / "models" / "onnx" / "ultraface_f32.onnx")
    for node in model.graph.node:
        node.output[:] = ["offsets" if name == "boxes" else name for name in node.output]
    width, height = 320, 240
    anchors = []
    sizes = ((10, 16, 24), (32, 48), (64, 96), (128, 192, 256))
    for stride, sides in zip((8, 16, 32, 64), sizes, strict=True):
        for row in range(-(-height // stride)):
            for column in range(-(-width // stride)):
                centre = [(column + 0.5) * stride / width, (row + 0.5) * stride / height]
                anchors += [[*centre, side / width, side / height] for side in sides]
    found = np.clip(np.array(anchors), 0, 1)[None]
    tail = Tail(model)
    centres, extents = tail.constant(found[..., :2]), tail.constant(found[..., 2:])
    moved = tail.node("Mul", tail.node("Mul", tail.part("offsets", 0, 2), tail.constant(0.1)), extents)
    middle = tail.node("Add", moved, centres)
    grown = tail.node("Exp", tail.node("Mul", tail.part("offsets", 2, 4), tail.constant(0.2)))
    half = tail.node("Mul", tail.node("Mul", grown, extents), tail.constant(0.5))
    tail.node("Concat", tail.node("Sub", middle, half), tail.node("Add", middle, half), output="boxes", axis=2)
    onnx.checker.check_model(model)
    onnx.save(model, scratch / "ultraface.onnx")
    return scratch / "ultraface.onnx"


CASES = (
    Case("squeezenet", file("squeezenet_f32.onnx"), "data_0", sized(224, 224, 1, 0, bgr=True)),
    Case("mobilenet", without_rounding, "input", sized(224, 224, 127.5, 127.5)),
    Case("ultraface", ultraface, "input", sized(320, 240, 128, 127), ("1.jpg", "2.jpg", "5.jpg", "face.jpg")),
    Case("yolox", yolox, "images", letterbox),
)


def photos(data: Path, names: Sequence[str]) -> list[Picture]:
    """Return photos of the data folder, those that are named or all."""
    folder = data / "models" / "images"
    paths = [folder / name for name in names] or sorted(folder.glob("*.jpg"))
    if not paths:
        raise SystemExit(f"{folder}: no photos; TRIUNE_TEST_DATA names the folder of the test data")
    return [Image.open(path).convert("RGB") for path in paths]


def augmented(images: Sequence[Picture], count: int, seed: int) -> list[Picture]:
    """Return photos cut to half of their area or more, in other proportions, turned over and lit in other ways."""
    random = np.random.default_rng(seed)
    found = []
    for index in range(count):
        image = images[index % len(images)]
        part, shape = random.uniform(0.7, 1.0), random.uniform(0.9, 1.1)
        width = min(image.width, int(image.width * part * shape**0.5))
        height = min(image.height, int(image.height * part / shape**0.5))
        left = int(random.integers(0, image.width - width + 1))
        top = int(random.integers(0, image.height - height + 1))
        cut = image.crop((left, top, left + width, top + height))
        cut = ImageOps.mirror(cut) if random.random() < 0.5 else cut
        cut = ImageEnhance.Brightness(cut).enhance(random.uniform(0.8, 1.2))
        found.append(ImageEnhance.Contrast(cut).enhance(random.uniform(0.8, 1.2)))
    return found


def run(model: Path, samples: Sequence[dict[str, Array]]) -> list[dict[str, Array]]:
    """Return a model's outputs for each sample, from onnxruntime, the same on every machine."""
    session = exact_session(str(model))
    names = [value.name for value in session.get_outputs()]
    return [dict(zip(names, session.run(names, sample), strict=True)) for sample in samples]


def quantize_static(model: Path, target: Path, samples: Sequence[dict[str, Array]]) -> Path:
    """Quantize with ONNX Runtime's static quantizer, int8 with a scale per channel, everything that it can."""

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left = iter(samples)

        def get_next(self) -> dict[str, Array] | None:
            return next(self.left, None)

    found = onnx.load(model)
    if any(entry.domain == "" and entry.version < 13 for entry in found.opset_import):
        # Before, there was no scale per channel.
        found = onnx.version_converter.convert_version(found, 13)
    prepared = target.with_name("prepared.onnx")
    onnx.save(found, prepared)
    quant_pre_process(str(prepared), str(prepared), skip_symbolic_shape=True)
    kind = quantization.QuantType.QInt8
    quantization.quantize_static(
        str(prepared),
        str(target),
        Reader(),
        quant_format=quantization.QuantFormat.QDQ,
        activation_type=kind,
        weight_type=kind,
        per_channel=True,
    )
    return target


@dataclass(frozen=True)
class Score:
    """How well a quantized model does what the float one does."""

    same: int
    of: int
    loosely: int
    """Of a detector: boxes found at an intersection over union of 0.5, whatever their score."""
    added: int
    """Of a detector: boxes that float does not have."""

    @property
    def share(self) -> float:
        return self.same / max(1, self.of)


def score(reference: Sequence[dict[str, Array]], other: Sequence[dict[str, Array]]) -> Score:
    """Compare the outputs of two models."""
    boxes = find_box_outputs(reference[0])
    if boxes is None:
        pairs = [(next(iter(a.values())), next(iter(b.values()))) for a, b in zip(reference, other, strict=True)]
        same = sum(int(a.argmax() == b.argmax()) for a, b in pairs)
        return Score(same, len(pairs), same, 0)
    return score_boxes(reference, other, boxes)


def score_boxes(reference: Sequence[dict[str, Array]], other: Sequence[dict[str, Array]], boxes: BoxOutputs) -> Score:
    """Compare what two detectors find. What is close to the limit may be on either side of it."""

    def found(outputs: Sequence[dict[str, Array]], least: float) -> list[Detections]:
        return [boxes.detect(each, score=least)[0] for each in outputs]

    mine, theirs = found(reference, SCORE), found(other, SCORE - NEAR)
    loosely = match(zip(mine, theirs, strict=True), iou=0.5).matched
    same = sum(int(close_to(a, b, iou=0.9, scores=NEAR).sum()) for a, b in zip(mine, theirs, strict=True))
    sure, all_of_float = found(other, SCORE + NEAR), found(reference, SCORE)
    added = match(zip(sure, all_of_float, strict=True), iou=0.5)
    return Score(same, sum(map(len, mine)), loosely, added.reference - added.matched)


def missing(reference: Sequence[dict[str, Array]], other: Sequence[dict[str, Array]], boxes: BoxOutputs) -> str:
    """Say what became of float's boxes that are not kept: the score is another, the place is, or both; or there is none.

    And how many of them the network gives all the same, before of boxes that overlap the best one is taken: with scores nearly
    alike that may be another one.
    """
    errors: list[float] = []
    places: list[float] = []
    gone = both = given = 0
    for a, b in zip(reference, other, strict=True):
        mine, theirs = (boxes.detect(each, score=least)[0] for each, least in ((a, SCORE), (b, NEAR)))
        kept = close_to(mine, theirs, iou=0.9, scores=NEAR)
        every = boxes.detect(b, score=SCORE - NEAR, overlap=1)[0]
        given += int((close_to(mine, every, iou=0.9, scores=NEAR) & ~kept).sum())
        shared = overlaps(mine.boxes, theirs.boxes) * (mine.classes[:, None] == theirs.classes[None])
        for at in np.flatnonzero(~kept):
            best = int(shared[at].argmax()) if len(theirs) else 0
            if not len(theirs) or shared[at, best] < 0.5:
                gone += 1
                continue
            off = abs(float(mine.scores[at] - theirs.scores[best]))
            if off > NEAR and shared[at, best] < 0.9:
                both += 1
            elif off > NEAR:
                errors.append(off)
            else:
                places.append(float(shared[at, best]))
    said = [f"{len(errors)} with another score" + (f" (by {np.median(errors):.3f}, a median)" if errors else "")]
    said.append(f"{len(places)} in another place" + (f" (at {np.median(places):.2f}, a median)" if places else ""))
    said += [f"{both} with both", f"{gone} not found"]
    return f"not kept: {', '.join(said)}; {given} given, but not the best of those that overlap"


def data_folder() -> Path:
    """Return the folder of the test data."""
    return Path(os.environ.get("TRIUNE_TEST_DATA") or ROOT.parent / "shared")


def measure(
    case: Case,
    data: Path,
    scratch: Path,
    count: int,
    calibration: int,
    ways: dict[str, dict[str, Any]],
    *,
    alone: bool,
) -> bool:
    """Print the rows of a model, the default's and those of other ways; to standard error what was lost.

    Returns whether Triune's quantizer does at least as well as the other one, which is not asked if the ways are `alone`.
    """
    model = case.make(data, scratch)
    originals = photos(data, case.photos)
    samples = [{case.input: case.prepare(image)} for image in augmented(originals, calibration, seed=100)]
    tested = [{case.input: case.prepare(image)} for image in augmented(originals, count, seed=7)]
    reference = run(model, tested)

    boxes = find_box_outputs(reference[0])

    def row(how: str, quantized: Path, seconds: float, spared: int, work: str) -> Score:
        results = run(quantized, tested)
        found = score(reference, results)
        loosely = f"{found.loosely} | {found.added}" if boxes is not None else "|"
        numbers = (
            f"{found.same} of {found.of} | {found.share:.1%} | {loosely} | {spared or ''} | {work} | {seconds:.0f}"
        )
        print(f"| {case.name} | {how} | {numbers} |", flush=True)
        if boxes is not None:
            lost.append(f"{case.name}, {how}: {missing(reference, results, boxes)}")
        return found

    lost: list[str] = []

    best = least = 0.0
    if not alone:
        start = time.perf_counter()
        other = quantize_static(model, scratch / "theirs.onnx", samples)
        least = row("ONNX Runtime, static", other, time.perf_counter() - start, 0, "").share
        ways = {"": {}, **ways}
    for way, options in ways.items():
        start = time.perf_counter()
        try:
            result = triune.quantize(model, calibration=samples, output=scratch / "ours.onnx", **options)
        except triune.errors.UnsupportedError as error:
            lost.append(f"{case.name}, {way}: {error}")
            continue
        products = {node.name for node in onnx.load(result.path).graph.node if node.op_type in ("Conv", "Gemm")}
        spared = sum(name in products for name, why in result.kept_float.items() if "mixed" in why)
        work = f"{result.macs['8'] / max(1, sum(result.macs.values())):.1%}"
        if options.get("mixed"):
            lost.extend(f"{case.name}, {way}, by {result.checked_on} samples: {each}" for each in result.agreements)
            lost.extend(f"{case.name}, {way}: {each}" for each in result.advice)
        ours = row(f"Triune, {way}" if way else "Triune", result.path, time.perf_counter() - start, spared, work)
        best = best if way else ours.share
    print(*lost, "", sep="\n", file=sys.stderr, flush=True)
    return best >= least


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Compare quantizers by how often models answer as in float.")
    parser.add_argument("--photos", type=int, default=500)
    parser.add_argument("--calibration", type=int, default=104)
    parser.add_argument("--models", nargs="+", choices=[case.name for case in CASES], default=[c.name for c in CASES])
    parser.add_argument(
        "--bounds", nargs="*", default=[], metavar="DB|SHARE%", help="rows with mixed=float, too, for each bound"
    )
    parser.add_argument("--alone", action="store_true", help="no rows but those of --bounds and --ways")
    parser.add_argument("--ways", action="store_true", help=f"rows with {', '.join(WAYS)}, too")
    arguments = parser.parse_args()
    ways: dict[str, dict[str, Any]] = {}
    for bound in arguments.bounds:
        of_answers = bound.endswith("%")
        ways[f"mixed, {bound}{'' if of_answers else ' dB'}"] = {
            "mixed": "float",
            "bound": bound if of_answers else float(bound),
        }
    ways |= WAYS if arguments.ways else {}
    print(f"Triune {triune.__version__}, ONNX Runtime {ort.__version__}, {arguments.photos} photos\n")
    print(
        "| model | quantizer | same | share | boxes at IoU 0.5 | added | products in float | work in 8 bits | seconds |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    good = True
    for case in CASES:
        if case.name in arguments.models:
            with tempfile.TemporaryDirectory() as scratch:
                data = data_folder()
                good &= measure(
                    case, data, Path(scratch), arguments.photos, arguments.calibration, ways, alone=arguments.alone
                )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
