"""What programs say of images is stored where it fits the model, and refused of a model that takes none, or others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import triune
from triune._model_info import ModelInfo
from triune.batch import Preprocess
from triune.cli import main
from triune.errors import ArgumentError
from triune.models import DIGITS_F32, DIGITS_INT8

onnx = pytest.importorskip("onnx")

Array = npt.NDArray[Any]


def test_what_does_not_fit_is_not_stored_by_programs(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    how, words = Preprocess(mean=(1.0, 2.0)), r"^mean: expected 1 value for input 'image', got 2$"
    with pytest.raises(ArgumentError, match=words):
        triune.quantize(DIGITS_F32, calibration=iter([]), output=tmp_path / "q.onnx", preprocess=how)
    with pytest.raises(ArgumentError, match=words):
        triune.compile(DIGITS_INT8, output=tmp_path / "package", preprocess=how)
    # A size that the model does not have would never be used.
    how, words = (
        Preprocess(size=(8, 9)),
        r"^size: input 'image' is float32 \(.*8, 8\), of which \(8, 9\) is no \(H, W\)$",
    )
    with pytest.raises(ArgumentError, match=words):
        triune.compile(DIGITS_INT8, output=tmp_path / "package", preprocess=how)
    assert list(tmp_path.iterdir()) == []


def product(path: Path, *dims: int | str, inputs: int = 1) -> Path:
    """Write a model with weights for calibration whose inputs have these extents."""
    helper, kinds = onnx.helper, onnx.TensorProto
    names = [f"x{index}" for index in range(inputs)]
    nodes = [helper.make_node("MatMul", ["x0", "w"], ["y"])]
    nodes += [helper.make_node("Identity", [name], [f"y_{name}"]) for name in names[1:]]
    weights = onnx.numpy_helper.from_array(np.random.default_rng(1).normal(size=(8, 4)).astype(np.float32), "w")
    outputs = [("y", (*dims[:-1], 4)), *((f"y_{name}", dims) for name in names[1:])]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, kinds.FLOAT, dims) for name in names],
        [helper.make_tensor_value_info(name, kinds.FLOAT, shape) for name, shape in outputs],
        [weights],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize(
    ("dims", "inputs", "how", "words"),
    [
        ((1, 8), 1, Preprocess(mean=3.0), "the model takes no images: input 'x0' is float32 (1, 8)"),
        (("N", 5, 8), 1, Preprocess(), "the model takes no images: input 'x0' is float32 (N, 5, 8)"),
        ((1, 3, 8, 8), 2, Preprocess(), "the model takes no images: it has 2 inputs, which come from arrays"),
        (
            (1, 3, 8, 8),
            1,
            Preprocess(color="yuyv"),
            "the model takes no images of yuyv: input 'x0' is float32 (1, 3, 8, 8)",
        ),
    ],
)
def test_programs_store_nothing_of_images_for_models_without(
    dims: tuple[int | str, ...], inputs: int, how: Preprocess, words: str, tmp_path: Path
) -> None:
    """What the command line says of such options; before any sample is looked at, and whoever stores them."""
    pytest.importorskip("onnxruntime")
    model = product(tmp_path / "model.onnx", *dims, inputs=inputs)
    taken: list[int] = []

    def sample(index: int) -> dict[str, Array]:
        taken.append(index)
        shape = [8 if isinstance(each, str) else each for each in dims]
        random = np.random.default_rng(index)
        return {f"x{at}": random.normal(size=shape).astype(np.float32) for at in range(inputs)}

    out = tmp_path / "out"
    for store in (
        lambda: triune.quantize(model, calibration=map(sample, range(4)), output=out, preprocess=how),
        lambda: triune.compile(model, calibration=map(sample, range(4)), output=out, preprocess=how),
        lambda: triune.compile(model, output=out, preprocess=how),
    ):
        with pytest.raises(ArgumentError) as caught:
            store()
        assert str(caught.value) == f"preprocess: {words}"
    assert taken == []
    assert not out.exists()
    # What was in the file before is no word of the caller's.
    noted = onnx.load(model)
    ModelInfo(how).note(noted)
    onnx.save(noted, model)
    found = triune.quantize(model, calibration=map(sample, range(4)), output=out)
    assert taken
    assert triune.Session(found.path).preprocess == how


def test_images_of_open_extents_are_images(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    model = product(tmp_path / "model.onnx", "N", 3, "H", 8)
    samples = [{"x0": np.random.default_rng(1).normal(size=(1, 3, 4, 8)).astype(np.float32)}]
    for how in (Preprocess(mean=3.0), Preprocess(size=(6, 8))):
        found = triune.quantize(model, calibration=samples, output=tmp_path / "q.onnx", preprocess=how)
        assert triune.Session(found.path).preprocess == how


def test_a_model_is_opened_once_for_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its metadata and its inputs, whether stored options of images are checked or not."""
    opened: list[str] = []
    plain = triune._native.Session

    def counted(model: Any, **options: Any) -> Any:
        opened.append(str(model))
        return plain(model, **options)

    noted = onnx.load(DIGITS_INT8)
    ModelInfo(Preprocess(mean=0.5)).note(noted)
    model = tmp_path / "model.onnx"
    onnx.save(noted, model)
    monkeypatch.setattr(triune._native, "Session", counted)
    triune.compile(model, output=tmp_path / "a")
    assert opened == [str(model)]
    assert main(["compile", str(model), "-o", str(tmp_path / "b"), "--std", "2"]) == 0
    assert opened == [str(model)] * 2
    how = ModelInfo.of_package(tmp_path / "b").preprocess
    assert how is not None
    assert (how.mean, how.std) == (0.5, (2.0,))
