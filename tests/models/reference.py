"""Real networks, their inputs, and what ONNX Runtime makes of them: the reference of the comparison tests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from PIL import Image

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Network:
    """A model file and how an image becomes its input."""

    file: str
    size: tuple[int, int]
    """Rows and columns of the input."""
    images: tuple[str, ...]
    scale: float = 1.0
    shift: float = 0.0
    bgr: bool = False
    grey: bool = False
    batches: tuple[int, ...] = (1,)
    """Batch sizes to run; more than one only where the model leaves the batch open."""

    def batch(self, folder: Path, images: int) -> Array:
        """Return (images, channels, rows, columns) in float32, made of the network's images in turn."""
        names = [self.images[index % len(self.images)] for index in range(images)]
        return np.stack([self._load(folder / name) for name in names])

    def _load(self, path: Path) -> Array:
        rows, columns = self.size
        with Image.open(path) as file:
            pixels = np.asarray(file.convert("L" if self.grey else "RGB").resize((columns, rows)), np.float32)
        pixels = pixels[None] if self.grey else pixels.transpose(2, 0, 1)
        if self.bgr:
            pixels = pixels[::-1]
        return np.ascontiguousarray((pixels + np.float32(self.shift)) * np.float32(self.scale))


PHOTOS = ("goldfish.jpg", "wolves.jpg", "daisy.jpg")
FACES = ("1.jpg", "2.jpg", "5.jpg")

INTEGER = [
    Network("mlperftiny_resnet8_int8_qdq.onnx", (32, 32), PHOTOS, batches=(1, 3)),
    Network("mobilenetv2_int8_qdq.onnx", (224, 224), PHOTOS, 1 / 127.5, -127.5, batches=(1, 2)),
    Network("squeezenet_u8s8_qdq.onnx", (224, 224), PHOTOS, bgr=True, batches=(1, 3)),
    Network("ultraface_u8s8_qdq.onnx", (240, 320), FACES, 1 / 128, -127.0),
    Network("ultraface_s8s8_qdq.onnx", (240, 320), FACES, 1 / 128, -127.0),
    Network("yolox_nano_u8s8_qdq.onnx", (416, 416), ("yolox_dog.jpg", "pets.jpg"), bgr=True, batches=(1, 2)),
]
FLOAT = [
    Network("mnist8_f32.onnx", (28, 28), ("daisy.jpg",), 1 / 255, grey=True),
    Network("squeezenet_f32.onnx", (224, 224), PHOTOS, bgr=True, batches=(1, 2)),
    Network("ultraface_f32.onnx", (240, 320), FACES, 1 / 128, -127.0),
    Network("yolox_nano_f32.onnx", (416, 416), ("yolox_dog.jpg",), bgr=True),
]


def reference_model(path: Path) -> bytes:
    """Return the model without activations that the quantization behind them makes void.

    A Relu or Clip whose limits coincide with what the following QuantizeLinear saturates to changes no result, but
    keeps ONNX Runtime from running the convolution before it on integers when activations are int8.
    """
    model = onnx.load(path)
    graph = model.graph
    constants = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    void = {}
    for node in graph.node:
        if node.op_type not in ("Relu", "Clip"):
            continue
        low = 0.0 if node.op_type == "Relu" else float(constants[node.input[1]])
        high = np.inf if node.op_type == "Relu" else float(constants[node.input[2]])
        quantizers = [reader for reader in readers[node.output[0]] if reader.op_type == "QuantizeLinear"]
        if len(quantizers) != len(readers[node.output[0]]):
            continue
        for quantizer in quantizers:
            scale, zero = (constants[name] for name in quantizer.input[1:3])
            limits = np.iinfo(zero.dtype)
            lowest, highest = (np.float32(limit - int(zero)) * scale for limit in (limits.min, limits.max))
            # Half a step above the highest value still rounds to it.
            if lowest >= low and highest <= high + scale / 2:
                void[node.output[0]] = node.input[0]
    kept = [node for node in graph.node if node.output[0] not in void]
    for node in kept:
        for index, name in enumerate(node.input):
            node.input[index] = void.get(name, name)
    del graph.node[:]
    graph.node.extend(kept)
    return bytes(model.SerializeToString())


def run_reference(model: bytes, inputs: Array) -> list[Array]:
    """Run ONNX Runtime on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    # Without it int8 activations are shifted to uint8, and what that separates stays in float.
    options.add_session_config_entry("session.qdqisint8allowed", "1")
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return [np.asarray(output) for output in session.run(None, {session.get_inputs()[0].name: inputs})]
