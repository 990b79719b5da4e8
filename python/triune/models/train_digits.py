"""Train the embedded digits network and export it to ONNX, in float and in int8.

Run it with ``make models`` or ``python python/triune/models/train_digits.py [FOLDER]``. It needs numpy, scikit-learn
(for the images: ``load_digits``, 1797 real 8x8 scans), onnx and onnxruntime, takes some ten seconds on one core, and
writes

- ``digits_f32.onnx``: the float network, batch ``N`` free;
- ``digits_int8.onnx``: the same in QDQ form, u8 activations, s8 weights per output channel (with s8 activations ONNX
  Runtime leaves the residual add and the convolutions before it in float);
- ``digits_heldout.npz``: the held-out images (u8, 0 to 16), labels, and ONNX Runtime's logits of the int8 network, so that
  the demo needs numpy only;
- ``digits.json``: the accuracies reached, which the tests compare with what the committed files do, and the version of
  ONNX Runtime that the logits are of.

Everything is seeded. Two machines may still round a matrix product differently, and then the files differ in the last
bits.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

SEED = 20
HELD_OUT = 0.3
EPOCHS = 60
BATCH = 64
PEAK_RATE = 4e-3
EMA_DECAY = 0.995
OPSET = 17

F32 = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]


def load_split() -> tuple[F32, Labels, F32, Labels]:
    """Return training images and labels, then held-out ones: N, 8, 8, 1 in 0 to 1, split class by class."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    digits = load_digits()
    images = (digits.images[..., None] / 16).astype(np.float32)
    train, held_out, train_labels, held_out_labels = train_test_split(
        images, digits.target, test_size=HELD_OUT, random_state=SEED, stratify=digits.target
    )
    return train, train_labels.astype(np.int64), held_out, held_out_labels.astype(np.int64)


class Parameter:
    """A trained array with its gradient, Adam moments and running average."""

    def __init__(self, value: npt.NDArray[np.floating]) -> None:
        self.value: F32 = value.astype(np.float32)
        self.grad: F32 = np.zeros_like(self.value)
        self.first = np.zeros_like(self.value)
        self.second = np.zeros_like(self.value)
        self.average = self.value.copy()

    def step(self, rate: float, count: int, decay: float) -> None:
        """Apply AdamW update number `count` (from 1) and fold the result into the running average."""
        self.first += 0.1 * (self.grad - self.first)
        self.second += 0.001 * (self.grad * self.grad - self.second)
        first = self.first / (1 - 0.9**count)
        second = self.second / (1 - 0.999**count)
        self.value -= (rate * (first / (np.sqrt(second) + 1e-8) + decay * self.value)).astype(np.float32)
        keep = min(EMA_DECAY, count / (count + 10))
        self.average = (keep * self.average + (1 - keep) * self.value).astype(np.float32)


def patches(x: F32, size: int) -> F32:
    """Return the size x size neighbourhoods of each pixel (same padding) as rows: N·H·W, size·size·C."""
    n, h, w, c = x.shape
    if size == 1:
        return x.reshape(-1, c)
    edge = size // 2
    padded = np.pad(x, ((0, 0), (edge, edge), (edge, edge), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (size, size), axis=(1, 2))
    return np.ascontiguousarray(windows.transpose(0, 1, 2, 4, 5, 3)).reshape(n * h * w, size * size * c)


class ConvNorm:
    """A stride 1 convolution without bias, then batch normalisation over its output channels."""

    def __init__(self, rng: np.random.Generator, size: int, inputs: int, outputs: int) -> None:
        self.size = size
        fan_in = size * size * inputs
        self.weight = Parameter(rng.normal(0, np.sqrt(2 / fan_in), (size, size, inputs, outputs)))
        self.gamma = Parameter(np.ones(outputs))
        self.beta = Parameter(np.zeros(outputs))

    def parameters(self) -> list[Parameter]:
        return [self.weight, self.gamma, self.beta]

    def forward(self, x: F32) -> F32:
        """Normalise with the batch's own statistics, and keep what the backward pass needs."""
        self.shape = x.shape
        self.columns = patches(x, self.size)
        y = self.columns @ self.weight.value.reshape(-1, self.gamma.value.size)
        self.inverse = 1 / np.sqrt(y.var(0) + 1e-5)
        self.normal = (y - y.mean(0)) * self.inverse
        scaled: F32 = self.normal * self.gamma.value + self.beta.value
        return scaled.reshape(*x.shape[:3], -1)

    def backward(self, dy: F32) -> F32:
        rows = dy.reshape(-1, self.gamma.value.size)
        self.gamma.grad = (rows * self.normal).sum(0)
        self.beta.grad = rows.sum(0)
        scaled = rows * self.gamma.value
        centred = scaled - scaled.mean(0) - self.normal * (scaled * self.normal).mean(0)
        d = centred * self.inverse
        self.weight.grad = (self.columns.T @ d).reshape(self.weight.value.shape)
        # The gradient of the input is a convolution with the weights turned by 180 degrees and transposed.
        turned = self.weight.value[::-1, ::-1].transpose(0, 1, 3, 2).reshape(-1, self.shape[3])
        return (patches(d.reshape(*self.shape[:3], -1), self.size) @ turned).reshape(self.shape)

    def folded(self, x: F32) -> tuple[F32, F32, F32]:
        """Fold the normalisation into the averaged weights, with the statistics of `x` (the whole training set).

        Returns weights (size, size, inputs, outputs), bias (outputs) and the layer's output for `x`.
        """
        y = patches(x, self.size) @ self.weight.average.reshape(-1, self.gamma.value.size)
        scale = self.gamma.average / np.sqrt(y.var(0) + 1e-5)
        bias = (self.beta.average - y.mean(0) * scale).astype(np.float32)
        out = (y * scale + bias).reshape(*x.shape[:3], -1)
        return (self.weight.average * scale).astype(np.float32), bias, out.astype(np.float32)


def pool(x: F32) -> F32:
    """Return the 2x2 maximum."""
    n, h, w, c = x.shape
    largest: F32 = x.reshape(n, h // 2, 2, w // 2, 2, c).max((2, 4))
    return largest


class Digits:
    """conv 3x3, conv 3x3 with a residual add, 2x2 maximum, conv 3x3, conv 1x1, global average, linear."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.stem = ConvNorm(rng, 3, 1, 16)
        self.block = ConvNorm(rng, 3, 16, 16)
        self.wide = ConvNorm(rng, 3, 16, 48)
        self.mix = ConvNorm(rng, 1, 48, 48)
        self.weight = Parameter(rng.normal(0, 0.1, (48, 10)))
        self.bias = Parameter(np.zeros(10))
        convs = (self.stem, self.block, self.wide, self.mix)
        self.parameters = [p for conv in convs for p in conv.parameters()] + [self.weight, self.bias]

    def train_step(self, x: F32, labels: Labels) -> float:
        """Set every gradient for one batch and return its loss (cross entropy, labels smoothed by 0.05)."""
        stem = np.maximum(self.stem.forward(x), 0)
        block = np.maximum(self.block.forward(stem) + stem, 0)
        pooled = pool(block)
        wide = np.maximum(self.wide.forward(pooled), 0)
        mix = np.maximum(self.mix.forward(wide), 0)
        mean = mix.mean((1, 2))
        logits = mean @ self.weight.value + self.bias.value

        exp = np.exp(logits - logits.max(1, keepdims=True))
        probability = exp / exp.sum(1, keepdims=True)
        target = np.full_like(probability, 0.05 / 10)
        target[np.arange(len(labels)), labels] += 0.95
        d = (probability - target) / np.float32(len(labels))

        self.weight.grad, self.bias.grad = mean.T @ d, d.sum(0)
        d = d @ self.weight.value.T
        spread = np.broadcast_to(d[:, None, None] / np.float32(mix[0, ..., 0].size), mix.shape)
        d = self.wide.backward(self.mix.backward(spread * (mix > 0)) * (wide > 0))
        winner = block == pooled.repeat(2, 1).repeat(2, 2)
        d = d.repeat(2, 1).repeat(2, 2) * winner * (block > 0)
        self.stem.backward((self.block.backward(d) + d) * (stem > 0))
        return float(-(target * np.log(probability + 1e-9)).sum(1).mean())

    def folded(self, x: F32) -> dict[str, F32]:
        """Return the weights of the network without normalisation layers, by ONNX initializer name."""
        stem_weight, stem_bias, y = self.stem.folded(x)
        stem = np.maximum(y, 0)
        block_weight, block_bias, y = self.block.folded(stem)
        wide_weight, wide_bias, y = self.wide.folded(pool(np.maximum(y + stem, 0)))
        mix_weight, mix_bias, _ = self.mix.folded(np.maximum(y, 0))
        named = {
            "stem.weight": stem_weight.transpose(3, 2, 0, 1),
            "stem.bias": stem_bias,
            "block.weight": block_weight.transpose(3, 2, 0, 1),
            "block.bias": block_bias,
            "wide.weight": wide_weight.transpose(3, 2, 0, 1),
            "wide.bias": wide_bias,
            "mix.weight": mix_weight.transpose(3, 2, 0, 1),
            "mix.bias": mix_bias,
            "head.weight": self.weight.average.T,
            "head.bias": self.bias.average,
        }
        return {name: np.ascontiguousarray(value) for name, value in named.items()}


def augmented(rng: np.random.Generator, x: F32) -> F32:
    """Move each image by up to a pixel in both directions (bilinear), turn its contrast a little, add noise."""
    padded = np.pad(x, ((0, 0), (2, 2), (2, 2), (0, 0)))
    shift = rng.uniform(-1, 1, (len(x), 2))
    whole = np.floor(shift).astype(int)
    part = (shift - whole).astype(np.float32)[:, :, None, None, None]
    which = np.arange(len(x))[:, None, None]
    rows = 2 + whole[:, 0, None, None] + np.arange(8)[None, :, None]
    columns = 2 + whole[:, 1, None, None] + np.arange(8)[None, None, :]
    top = padded[which, rows, columns] * (1 - part[:, 1]) + padded[which, rows, columns + 1] * part[:, 1]
    low = padded[which, rows + 1, columns] * (1 - part[:, 1]) + padded[which, rows + 1, columns + 1] * part[:, 1]
    moved = top * (1 - part[:, 0]) + low * part[:, 0]
    contrast = rng.uniform(0.8, 1.1, (len(x), 1, 1, 1)).astype(np.float32)
    noise = rng.normal(0, 0.03, x.shape).astype(np.float32)
    changed: F32 = np.clip(moved * contrast + noise, 0, 1).astype(np.float32)
    return changed


def train(images: F32, labels: Labels) -> dict[str, F32]:
    """Train from scratch and return the folded weights."""
    rng = np.random.default_rng(SEED)
    network = Digits(rng)
    steps = EPOCHS * (len(images) // BATCH)
    count = 0
    for epoch in range(EPOCHS):
        order = rng.permutation(len(images))
        loss = 0.0
        for start in range(0, len(images) - BATCH + 1, BATCH):
            batch = order[start : start + BATCH]
            loss += network.train_step(augmented(rng, images[batch]), labels[batch])
            count += 1
            # One cycle: a tenth of the steps up, a cosine down to zero.
            warm = min(1.0, count / (0.1 * steps))
            rate = PEAK_RATE * warm * 0.5 * (1 + np.cos(np.pi * count / steps))
            for parameter in network.parameters:
                parameter.step(rate, count, 0.01 if parameter.value.ndim > 1 else 0.0)
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1:3}  loss {loss / (len(images) // BATCH):.4f}", flush=True)
    return network.folded(images)


def export_f32(weights: dict[str, F32], path: Path) -> None:
    """Write the float network: input `image` N, 1, 8, 8 in 0 to 1, output `logits` N, 10."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    same: dict[str, Any] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    nodes = [
        helper.make_node("Conv", ["image", "stem.weight", "stem.bias"], ["stem"], name="stem", **same),
        helper.make_node("Relu", ["stem"], ["stem.out"], "stem.relu"),
        helper.make_node("Conv", ["stem.out", "block.weight", "block.bias"], ["block"], name="block", **same),
        helper.make_node("Add", ["block", "stem.out"], ["block.sum"], "block.add"),
        helper.make_node("Relu", ["block.sum"], ["block.out"], "block.relu"),
        helper.make_node("MaxPool", ["block.out"], ["pooled"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["pooled", "wide.weight", "wide.bias"], ["wide"], name="wide", **same),
        helper.make_node("Relu", ["wide"], ["wide.out"], "wide.relu"),
        helper.make_node("Conv", ["wide.out", "mix.weight", "mix.bias"], ["mix"], "mix", kernel_shape=[1, 1]),
        helper.make_node("Relu", ["mix"], ["mix.out"], "mix.relu"),
        helper.make_node("GlobalAveragePool", ["mix.out"], ["mean"], "mean"),
        helper.make_node("Flatten", ["mean"], ["features"], "flatten"),
        helper.make_node("Gemm", ["features", "head.weight", "head.bias"], ["logits"], "head", transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 1, 8, 8])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", 10])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model = helper.make_model(
        graph, producer_name="triune", opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8
    )
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, str(path))


class Batches:
    """The calibration images, in the form that onnxruntime.quantization asks for."""

    def __init__(self, images: F32) -> None:
        self.rest: Iterator[F32] = iter(np.array_split(images.transpose(0, 3, 1, 2), 10))

    def get_next(self) -> dict[str, F32] | None:
        batch = next(self.rest, None)
        return None if batch is None else {"image": np.ascontiguousarray(batch)}


def export_int8(source: Path, calibration: F32, path: Path) -> None:
    """Quantize `source` and check that ONNX Runtime runs the result in integers from end to end."""
    import onnx
    import onnxruntime as ort
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    with tempfile.TemporaryDirectory() as folder:
        prepared = Path(folder) / "prepared.onnx"
        quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
        quantize_static(
            str(prepared),
            str(path),
            Batches(calibration),
            quant_format=QuantFormat.QDQ,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            per_channel=True,
        )
        options = ort.SessionOptions()
        options.optimized_model_filepath = str(Path(folder) / "optimized.onnx")
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        ran = [node.op_type for node in onnx.load(options.optimized_model_filepath).graph.node]
    integer = [op for op in ran if op not in ("QuantizeLinear", "DequantizeLinear")]
    if ran.count("QuantizeLinear") != 1 or ran.count("DequantizeLinear") != 1:
        raise SystemExit(f"not one integer core: {ran}")
    print("integer core:", ", ".join(integer))


def logits_of(path: Path, images: F32) -> F32:
    """Return what ONNX Runtime makes of images (N, 8, 8, 1): N, 10 float32."""
    import onnxruntime as ort

    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (logits,) = session.run(["logits"], {"image": np.ascontiguousarray(images.transpose(0, 3, 1, 2))})
    return np.asarray(logits, np.float32)


def accuracy(logits: F32, labels: Labels) -> float:
    """Return the share of right answers."""
    return round(float((logits.argmax(1) == labels).mean()), 5)


def main() -> None:
    """Train, export, measure."""
    parser = argparse.ArgumentParser(description="Train and export the embedded digits network.")
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).parent, help="where the files go")
    folder: Path = parser.parse_args().folder
    images, labels, held_out, held_out_labels = load_split()

    export_f32(train(images, labels), folder / "digits_f32.onnx")
    export_int8(folder / "digits_f32.onnx", images, folder / "digits_int8.onnx")
    real, integer = (logits_of(folder / f"digits_{name}.onnx", held_out) for name in ("f32", "int8"))
    np.savez_compressed(
        folder / "digits_heldout.npz",
        images=np.rint(held_out[..., 0] * 16).astype(np.uint8),
        labels=held_out_labels.astype(np.uint8),
        logits=integer,
    )
    report = {
        "training_images": len(images),
        "held_out_images": len(held_out),
        "f32_accuracy": accuracy(real, held_out_labels),
        "int8_accuracy": accuracy(integer, held_out_labels),
        "onnxruntime": importlib.metadata.version("onnxruntime"),
    }
    (folder / "digits.json").write_text(json.dumps(report, indent=2) + "\n")
    size = sum(path.stat().st_size for path in folder.glob("digits_*.onnx"))
    print(json.dumps(report), f"{size / 1000:.1f} kB of ONNX")


if __name__ == "__main__":
    main()
