"""The demonstration behind `make demo`: the embedded digits network on a virtual Metis card.

Run it with ``python -m triune.demo``. It compiles the int8 network for the card, runs the held-out scans through the
vendor's API with an instance per sub-device, each in its own thread, and prints what came out. It needs numpy only;
with onnxruntime installed that runs the same images, else the outputs that it gave when the model was made are compared.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import triune
from triune._native import OPTIMIZED
from triune.axelera.runtime import Context, ModelInstance, TensorInfo
from triune.models import DIGITS_INT8, digits_held_out, digits_reference

INSTANCES = 4
SECONDS = 1.0
"""How long the throughput is measured."""

Tensor = npt.NDArray[Any]


def quantize_and_pad(info: TensorInfo, images: npt.NDArray[np.float32]) -> Tensor:
    """Turn float images (the unpadded shape) into the card's input: the vendor's documented lines."""
    quant = np.round((images / info.scale) + info.zero_point).clip(-128, 127).astype(np.int8)
    return np.ascontiguousarray(np.pad(quant, info.padding, constant_values=info.zero_point))


def depad_and_dequantize(info: TensorInfo, output: Tensor) -> npt.NDArray[np.float32]:
    """Turn the card's output into floats of the unpadded shape: the vendor's documented lines."""
    depadded = output[tuple(slice(b, -e if e else None) for b, e in info.padding)]
    real: npt.NDArray[np.float32] = (depadded.astype(np.float32) - info.zero_point) * np.float32(info.scale)
    return real


def run_all(instances: Sequence[ModelInstance], inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
    """Run every batch once: instance i takes every n-th batch from i on, in a thread of its own."""

    def work(first: int) -> None:
        for index in range(first, len(inputs), len(instances)):
            instances[first].run([inputs[index]], [outputs[index]])

    with ThreadPoolExecutor(len(instances)) as threads:
        for job in [threads.submit(work, first) for first in range(len(instances))]:
            job.result()


def throughput(instances: Sequence[ModelInstance], inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> float:
    """Return batches per second of `run`, over `SECONDS` at least."""
    passes = 0
    start = time.perf_counter()
    while (elapsed := time.perf_counter() - start) < SECONDS:
        run_all(instances, inputs, outputs)
        passes += 1
    return passes * len(inputs) / elapsed


@dataclass(frozen=True)
class Reference:
    """ONNX Runtime's logits for the same images (N, 10 float32), and how they came here."""

    logits: npt.NDArray[np.float32]
    source: str


def reference(images: npt.NDArray[np.float32]) -> Reference:
    """Run the same file in ONNX Runtime, or return what it gave when the model was made where it is not installed."""
    if importlib.util.find_spec("onnxruntime") is None:
        logits, version = digits_reference()
        return Reference(logits, f"{version}'s (recorded with the model)")
    import onnxruntime as ort

    options = ort.SessionOptions()
    # Without it, sums of two products end at 16 bits on machines without VNNI.
    options.add_session_config_entry("session.x64quantprecision", "1")
    session = ort.InferenceSession(DIGITS_INT8, options, providers=["CPUExecutionProvider"])
    nchw = np.ascontiguousarray(images.transpose(0, 3, 1, 2))
    return Reference(np.asarray(session.run(None, {"image": nchw})[0]), f"{ort.__version__}'s")


def line(label: str, text: str) -> None:
    """Print one line of the report."""
    print(f"  {label:<13} {text}", flush=True)


def main() -> int:
    """Compile, run, report. Returns 0 if every int8 output was right, 1 otherwise."""
    images, labels = digits_held_out()
    print("Triune: handwritten digits on a virtual Metis card\n")

    with tempfile.TemporaryDirectory(prefix="triune-demo-") as folder, Context() as context:
        start = time.perf_counter()
        package = triune.compile(DIGITS_INT8, target="metis", output=Path(folder) / "digits")
        line("compiled", f"{DIGITS_INT8.name} for metis in {1000 * (time.perf_counter() - start):.0f} ms")

        device = context.list_devices()[0]
        clock = context.read_device_configuration(device)["clock_profile_core_0"]
        line("card", f"{device.name} ({device.board_type.name}), {device.subdevice_count} sub-devices at {clock} MHz")

        model = context.load_model(package / "model.json")
        (source,), (result,) = model.inputs(), model.outputs()
        batch = source.shape[0]
        instances = [
            context.device_connect(device, batch).load_model_instance(model, num_sub_devices=batch, aipu_cores=batch)
            for _ in range(INSTANCES // batch)
        ]

        whole = np.concatenate([images, images[: -len(images) % batch]])
        inputs = [quantize_and_pad(source, chunk) for chunk in np.split(whole, len(whole) // batch)]
        outputs = [np.empty(result.shape, np.int8) for _ in inputs]
        run_all(instances, inputs, outputs)
        logits = np.concatenate([depad_and_dequantize(result, output).reshape(batch, -1) for output in outputs])
        logits = logits[: len(images)]

        right = int((logits.argmax(1) == labels).sum())
        line("accuracy", f"{100 * right / len(images):.2f} %: {right} of {len(images)} held-out scans")

        rate = throughput(instances, inputs, outputs) * batch
        line("this machine", f"{rate:,.0f} images/s, {len(instances)} instances in threads, {os.cpu_count()} CPUs")
        if not OPTIMIZED:
            line("", "by a module compiled for the demo, without optimisation; make build makes a fast one")

        profile = instances[0].profile()
        micros = profile.microseconds / batch
        line("the card", f"{profile.cycles:,} cycles a run = {micros:.1f} µs an image on one core (modelled)")

    peer = reference(images)
    equal = int((logits.view(np.uint32) == peer.logits.view(np.uint32)).all(1).sum())
    line("reference", f"int8 outputs equal ONNX Runtime {peer.source} bit for bit: {equal} of {len(images)}")
    return 0 if equal == len(images) else 1


if __name__ == "__main__":
    sys.exit(main())
