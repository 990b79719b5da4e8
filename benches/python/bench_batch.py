"""Photographs per second through `triune.batch` and through pipelines over ONNX Runtime, in turns, as a Markdown table.

    python benches/python/bench_batch.py [MODEL.onnx ...] [--photographs FOLDER] [--count 500] [--rounds 3] [--parts]

Both sides do the same work from the file to the five best classes: decode, cut out the middle 224 of 256, normalize, infer. The
peer's pipelines are written by hand, without ONNX Runtime's spinning threads, in the two ways that make sense: threads that
each take a photograph from the file to the result with a session of one thread, and a pool that decodes ahead of a session
that uses all CPUs; and where OpenVINO is installed, the first way over that, too. The fastest one counts. With --parts, the CPU
time of each part of the way is printed instead, the least of --rounds goes at each photograph. Ratios are of photographs per
second, and of the least CPU time of a round, which says more where others use the machine. The photographs are crops and mirror
images of those in the test data folder (TRIUNE_TEST_DATA, or the folder `shared` beside the checkout), written as JPEGs to a
temporary folder before.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort
from PIL import Image

import triune
from triune.batch import Preprocess, predict

ROOT = Path(__file__).resolve().parents[2]
MODELS = ("mobilenetv2_int8_qdq.onnx", "squeezenet_u8s8_qdq.onnx")
CPUS = len(os.sched_getaffinity(0))
SCALE = (np.float32(1) / np.float32(255) / np.float32([0.229, 0.224, 0.225])).reshape(3, 1, 1)
SHIFT = (np.float32([0.485, 0.456, 0.406]) / np.float32([0.229, 0.224, 0.225])).reshape(3, 1, 1)

OPENVINO = importlib.util.find_spec("openvino") is not None

Best = list[int]


def photographs(sources: Path, folder: Path, count: int) -> list[Path]:
    """Write crops of the photographs of a folder, of most of their sizes, half of them mirrored."""
    random = np.random.default_rng(0)
    originals = [Image.open(file).convert("RGB") for file in sorted(sources.glob("*.jpg"))]
    files = []
    for index in range(count):
        original = originals[index % len(originals)]
        share = random.uniform(0.8, 1.0)
        width, height = (int(side * share) for side in original.size)
        left, top = int(random.integers(original.width - width + 1)), int(random.integers(original.height - height + 1))
        crop = original.crop((left, top, left + width, top + height))
        if index % 2:
            crop = crop.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        files.append(folder / f"{index:05}.jpg")
        crop.save(files[-1], quality=90)
    return files


def peer_input(file: Path, gap: float | None) -> npt.NDArray[np.float32]:
    """Return the input for a photograph, by Pillow and numpy."""
    with Image.open(file) as picture:
        side = min(picture.size) * 0.875
        if gap is not None:
            factor = 224 * gap / side
            picture.draft("RGB", tuple(int(np.ceil(extent * factor)) for extent in picture.size))
        width, height = picture.size
        side = min(width, height) * 0.875
        box = ((width - side) / 2, (height - side) / 2, (width + side) / 2, (height + side) / 2)
        pixels = picture.convert("RGB").resize((224, 224), Image.Resampling.BILINEAR, box=box)
    values = np.asarray(pixels).transpose(2, 0, 1).astype(np.float32, order="C")
    values *= SCALE
    values -= SHIFT
    return values[None]


def peer_session(model: Path, threads: int) -> ort.InferenceSession:
    """Load a model in ONNX Runtime, whose threads sleep where there is nothing to do."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def best(scores: npt.NDArray[Any]) -> Best:
    """Return the five best classes."""
    # Stable, as int8 networks give ties.
    return [int(each) for each in np.argsort(-scores, kind="stable")[:5]]


def whole(model: Path, gap: float | None) -> Callable[[list[Path]], list[Best]]:
    """Return a pipeline whose threads each take a photograph from the file to the result."""
    session = peer_session(model, 1)
    name = session.get_inputs()[0].name

    def one(file: Path) -> Best:
        return best(session.run(None, {name: peer_input(file, gap)})[0].reshape(-1))

    def run(files: list[Path]) -> list[Best]:
        with ThreadPoolExecutor(CPUS) as pool:
            return list(pool.map(one, files))

    return run


def ahead(model: Path, gap: float | None) -> Callable[[list[Path]], list[Best]]:
    """Return a pipeline with a pool that decodes ahead of one session on all CPUs."""
    session = peer_session(model, CPUS)
    name = session.get_inputs()[0].name

    def run(files: list[Path]) -> list[Best]:
        with ThreadPoolExecutor(CPUS) as pool:
            inputs = pool.map(lambda file: peer_input(file, gap), files)
            return [best(session.run(None, {name: each})[0].reshape(-1)) for each in inputs]

    return run


def over_openvino(model: Path, gap: float | None) -> Callable[[list[Path]], list[Best]]:
    """Return the first way over OpenVINO: a stream and a request for each thread."""
    import openvino

    options = {"NUM_STREAMS": CPUS, "INFERENCE_NUM_THREADS": CPUS, "INFERENCE_PRECISION_HINT": "f32"}
    compiled = openvino.Core().compile_model(model, "CPU", options)
    requests = threading.local()

    def one(file: Path) -> Best:
        if not hasattr(requests, "own"):
            requests.own = compiled.create_infer_request()
        return best(requests.own.infer({0: peer_input(file, gap)})[0].reshape(-1))

    def run(files: list[Path]) -> list[Best]:
        with ThreadPoolExecutor(CPUS) as pool:
            return list(pool.map(one, files))

    return run


def own(model: Path, gap: float | None) -> Callable[[list[Path]], list[Best]]:
    """Return what this is about."""
    session = triune.Session(model)
    how = Preprocess.imagenet(reducing_gap=gap)

    def run(files: list[Path]) -> list[Best]:
        return [[top.number for top in each.top] for each in predict(session, files, preprocess=how, top_k=5)]

    return run


def rows(model: Path, files: list[Path], rounds: int) -> Iterator[str]:
    """Measure one model with and without smaller JPEGs."""
    for gap in (None, 2.0):
        pipelines = [own(model, gap), whole(model, gap), ahead(model, gap)]
        if OPENVINO:
            pipelines.append(over_openvino(model, gap))
        for pipeline in pipelines:
            pipeline(files[:20])
        rates: list[list[float]] = [[] for _ in pipelines]
        busy: list[list[float]] = [[] for _ in pipelines]
        found: list[list[Best]] = [[] for _ in pipelines]
        for turn in range(rounds):
            order = list(range(len(pipelines)))
            for index in order if turn % 2 == 0 else reversed(order):
                start, began = time.perf_counter(), time.process_time()
                found[index] = pipelines[index](files)
                rates[index].append(len(files) / (time.perf_counter() - start))
                busy[index].append(time.process_time() - began)
        mine, *peers = (statistics.median(each) for each in rates)
        ratios = [first / max(others) for first, *others in zip(*rates, strict=True)]
        work = [min(each) for each in busy]
        same = np.mean([a[0] == b[0] for a, b in zip(found[0], found[1], strict=True)])
        told = " | ".join(f"{rate:.0f}" for rate in peers)
        yield (
            f"| {model.stem} | {'all' if gap is None else f'{gap:g} ×'} | {mine:.0f} | {told} "
            f"| {statistics.median(ratios):.2f} | {min(ratios):.2f} | {min(work[1:]) / work[0]:.2f} | {same:.1%} |"
        )


def parts(models: list[Path], files: list[Path], rounds: int) -> Iterator[str]:
    """Measure each part of the way from a file to its classes, in one thread: CPU milliseconds of a photograph."""

    def least(work: Callable[[Any], object], items: list[Any]) -> float:
        times = np.full(len(items), np.inf)
        for _ in range(rounds):
            for index, item in enumerate(items):
                began = time.process_time_ns()
                work(item)
                times[index] = min(times[index], time.process_time_ns() - began)
        return float(times.mean()) / 1e6

    def decoded(file: Path) -> Image.Image:
        with Image.open(file) as picture:
            return picture.convert("RGB")

    def scaled(picture: Image.Image) -> Image.Image:
        side = min(picture.size) * 0.875
        left, top = (picture.width - side) / 2, (picture.height - side) / 2
        return picture.resize((224, 224), Image.Resampling.BILINEAR, box=(left, top, left + side, top + side))

    how = Preprocess.imagenet()
    frame = how.frame("", "float32", (1, 3, 224, 224))
    room = np.empty((3, 224, 224), np.float32)
    assert frame is not None
    yield f"| decoding (Pillow, both) | {least(decoded, files):.2f} |"
    pictures = [decoded(file) for file in files]
    yield f"| scaling (Pillow) | {least(scaled, pictures):.2f} |"
    yield f"| scaling and numbers, Triune | {least(lambda picture: how.fill_in(picture, frame, room), pictures):.2f} |"
    yield f"| file to input, peer | {least(lambda file: peer_input(file, None), files):.2f} |"
    yield f"| file to input, Triune | {least(lambda file: how.fill_in(file, frame, room), files):.2f} |"
    image = peer_input(files[0], None)
    for model in models:
        session, peer = triune.Session(model), peer_session(model, 1)
        name = peer.get_inputs()[0].name
        yield f"| {model.stem}, Triune | {least(lambda _, run=session.run, of=name: run(None, {of: image}), files):.2f} |"
        yield f"| {model.stem}, ONNX Runtime | {least(lambda _, run=peer.run, of=name: run(None, {of: image}), files):.2f} |"
        if OPENVINO:
            import openvino

            options = {"NUM_STREAMS": 1, "INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"}
            request = openvino.Core().compile_model(model, "CPU", options).create_infer_request()
            yield f"| {model.stem}, OpenVINO | {least(lambda _, run=request.infer: run({0: image}), files):.2f} |"


def main() -> int:
    """Print the table."""
    data = Path(os.environ.get("TRIUNE_TEST_DATA") or ROOT.parent / "shared") / "models"
    parser = argparse.ArgumentParser(description="Compare photographs per second with pipelines over ONNX Runtime.")
    parser.add_argument("models", nargs="*", type=Path, help="ONNX classifiers of photographs, 224 x 224")
    parser.add_argument("--photographs", type=Path, default=data / "images", help="JPEGs to make others of")
    parser.add_argument("--count", type=int, default=500, help="how many photographs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--parts", action="store_true", help="CPU time of each part instead")
    arguments = parser.parse_args()
    print(f"Triune {triune.__version__}, ONNX Runtime {ort.__version__}, {CPUS} CPUs, {arguments.count} photographs\n")
    models = arguments.models or [data / "onnx" / name for name in MODELS]
    with tempfile.TemporaryDirectory() as folder:
        files = photographs(arguments.photographs, Path(folder), arguments.count)
        if arguments.parts:
            print("| part | CPU ms |\n|---|---|")
            for row in parts(models, files, arguments.rounds):
                print(row, flush=True)
            return 0
        more = " OpenVINO, whole /s |" if OPENVINO else ""
        print(
            f"| model | pixels | Triune /s | peer, whole /s | peer, ahead /s |{more} ratio | worst round | by CPU time "
            "| same class |"
        )
        print("|" + "---|" * (10 if OPENVINO else 9))
        for model in models:
            for row in rows(model, files, arguments.rounds):
                print(row, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
