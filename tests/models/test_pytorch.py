"""Models that PyTorch exports, by both of its exporters, beside PyTorch itself. Skipped where torch is not installed."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import triune

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
onnx = pytest.importorskip("onnx")

pytestmark = pytest.mark.filterwarnings("ignore")
EXPORTERS = ["torchscript", "dynamo"]


class Pictures(torch.nn.Module):  # type: ignore[misc,name-defined]
    """A small network of what networks of pictures have: a block with a shortcut, a transposed convolution, two heads."""

    def __init__(self) -> None:
        super().__init__()
        nn = torch.nn
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.SiLU())
        self.block = nn.Sequential(
            nn.Conv2d(8, 8, 3, 1, 1, groups=8), nn.BatchNorm2d(8), nn.Hardswish(), nn.Conv2d(8, 8, 1)
        )
        self.up = nn.ConvTranspose2d(8, 4, 2, 2)
        self.head = nn.Linear(8, 10)

    def forward(self, x: Any) -> Any:
        x = self.stem(x)
        x = torch.relu(x + self.block(x))
        mask = torch.sigmoid(self.up(torch.nn.functional.interpolate(x, scale_factor=2.0, mode="bilinear")))
        return self.head(torch.nn.functional.adaptive_avg_pool2d(x, 1).flatten(1)), mask


class Words(torch.nn.Module):  # type: ignore[misc,name-defined]
    """Two layers of a transformer over word numbers, with a mask."""

    def __init__(self) -> None:
        super().__init__()
        nn = torch.nn
        self.table = nn.Embedding(50, 16)
        self.query, self.norm = nn.Linear(16, 48), nn.LayerNorm(16)
        self.wide, self.back = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, words: Any, mask: Any) -> Any:
        x = self.table(words)
        q, k, v = (part.unflatten(2, (4, 4)).transpose(1, 2) for part in self.query(x).split(16, 2))
        bias = torch.where(mask[:, None, None, :], 0.0, -1e9)
        x = x + torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias).transpose(1, 2).flatten(2)
        return self.norm(x + self.back(torch.nn.functional.gelu(self.wide(x))))


class Steps(torch.nn.Module):  # type: ignore[misc,name-defined]
    """A recurrent layer of both directions and one of the other kind."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.LSTM(5, 6, bidirectional=True, batch_first=True)
        self.second = torch.nn.GRU(12, 4, batch_first=True)

    def forward(self, x: Any) -> Any:
        return self.second(self.first(x)[0])


def pictures(images: int, side: int) -> tuple[Any, ...]:
    return (torch.rand(images, 3, side, side),)


def words(sentences: int, length: int) -> tuple[Any, ...]:
    mask = torch.ones(sentences, length, dtype=torch.bool)
    mask[:, -1] = False
    return torch.randint(0, 50, (sentences, length)), mask


def steps(batch: int, length: int) -> tuple[Any, ...]:
    return (torch.rand(batch, length, 5),)


Sizes = Callable[[int, int], tuple[Any, ...]]
OPEN = {
    "pictures": {"x": {0: "images"}},
    "words": {"words": {0: "n", 1: "t"}, "mask": {0: "n", 1: "t"}},
    "steps": {"x": {0: "n"}},
}
MODELS: dict[str, tuple[type[Any], Sizes, list[tuple[int, int]]]] = {
    "pictures": (Pictures, pictures, [(2, 16), (3, 16)]),
    "words": (Words, words, [(2, 7), (3, 4)]),
    "steps": (Steps, steps, [(2, 6), (3, 6)]),
}


def exported(kind: str, exporter: str) -> tuple[Any, bytes]:
    """Return a network and its file."""
    torch.manual_seed(4)
    network = MODELS[kind][0]().eval()
    for buffer in network.buffers():
        # Statistics of batches that are not those of a network that never saw one.
        if buffer.dtype == torch.float32:
            buffer.uniform_(0.5, 1.5)
    example = MODELS[kind][1](*MODELS[kind][2][0])
    axes = OPEN[kind]
    if exporter == "dynamo":
        pytest.importorskip("onnxscript", reason="the exporter of torch 2 needs onnxscript")
        shapes = {name: {axis: torch.export.Dim(word) for axis, word in open_.items()} for name, open_ in axes.items()}
        program = torch.onnx.export(network, example, dynamo=True, dynamic_shapes=shapes, verbose=False)
        return network, program.model_proto.SerializeToString()
    file = io.BytesIO()
    torch.onnx.export(network, example, file, input_names=[*axes], dynamic_axes=axes, opset_version=17, dynamo=False)
    return network, file.getvalue()


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("kind", MODELS)
def test_exported_models_say_what_torch_says(kind: str, exporter: str) -> None:
    network, file = exported(kind, exporter)
    session = triune.Session(file)
    for size in MODELS[kind][2]:
        given = MODELS[kind][1](*size)
        with torch.no_grad():
            wanted = network(*given)
        feeds = {info.name: value.numpy() for info, value in zip(session.inputs, given, strict=True)}
        wanted = [wanted] if isinstance(wanted, torch.Tensor) else [*wanted]
        for mine, theirs in zip(session.run(feeds), wanted, strict=True):
            np.testing.assert_allclose(mine, theirs.numpy(), rtol=1e-5, atol=1e-5)


def test_tensors_of_torch_are_taken_as_they_are() -> None:
    network, file = exported("pictures", "torchscript")
    (images,) = pictures(2, 16)
    session = triune.Session(file)
    ours = session.run({"x": images})[0]
    with torch.no_grad():
        theirs = network(images)[0]
    # And what comes out becomes a tensor without a copy.
    np.testing.assert_allclose(torch.from_numpy(ours).numpy(), theirs.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_exported_models_are_quantized_and_compiled(exporter: str, tmp_path: Path) -> None:
    network, file = exported("pictures", exporter)
    (tmp_path / "float.onnx").write_bytes(file)
    name = triune.Session(file).inputs[0].name
    samples = [{name: pictures(1, 16)[0].numpy()} for _ in range(20)]
    result = triune.quantize(tmp_path / "float.onnx", calibration=samples, output=tmp_path / "int8.onnx")
    assert all(check.cosine > 0.99 for check in result.checks)
    images = pictures(1, 16)[0]
    with torch.no_grad():
        wanted = network(images)[0].numpy()
    (got, _) = triune.Session(tmp_path / "int8.onnx").run({name: images.numpy()})
    assert np.abs(got - wanted).max() < 0.1 * np.abs(wanted).max()
    triune.compile(tmp_path / "float.onnx", calibration=samples, output=tmp_path / "package")
    assert any((tmp_path / "package").iterdir())


def test_the_page_runs(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxscript", reason="the exporter of torch 2 needs onnxscript")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", (root / "docs" / "pytorch.md").read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 3
    namespace: dict[str, Any] = {}
    for block in blocks:
        exec(block, namespace)
