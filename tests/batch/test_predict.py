"""`triune.batch.predict`: the same results as one by one, in order, whatever is wrong with some."""

from __future__ import annotations

import logging
import multiprocessing
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx.parser
import pytest

import triune
from triune import errors
from triune.batch import Preprocess, Top, predict
from triune.models import DIGITS_INT8, digits_held_out

HOW = Preprocess(mean=(0.5, 0.25, 0.125), std=(0.3, 0.7, 1.1))


def inputs(count: int, seed: int = 3) -> npt.NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=(count, 3, 12, 16)).astype(np.float32)


@pytest.mark.parametrize(("batch", "workers"), [(None, None), (1, 1), (3, 2), (7, 3), (50, 1)])
def test_results_are_those_of_one_by_one(batch: int | None, workers: int | None) -> None:
    images, classes = digits_held_out()
    images = np.ascontiguousarray(images[:50].transpose(0, 3, 1, 2))
    (expected,) = triune.Session(DIGITS_INT8).run({"image": images})
    found = list(predict(DIGITS_INT8, images, batch=batch, workers=workers, top_k=3))
    assert [each.index for each in found] == list(range(50))
    for each, row in zip(found, expected, strict=True):
        assert np.array_equal(each.outputs["logits"], row)
        best = sorted(range(10), key=lambda index: (-row[index], index))[:3]
        assert each.top == tuple(Top(index, float(row[index]), "") for index in best)
    assert np.mean([each.top[0].number == right for each, right in zip(found, classes[:50], strict=True)]) > 0.8


def test_pictures(photographs: Path, scores: onnx.ModelProto) -> None:
    image = pytest.importorskip("PIL.Image")
    session = triune.Session(scores)
    files = sorted(str(file) for file in photographs.rglob("*.*") if file.suffix != ".txt")
    pictures = []
    for file in files:
        with image.open(file) as opened:
            pictures.append(opened.convert("RGB").resize((16, 12), image.Resampling.BILINEAR))
    values = [np.asarray(picture, np.float32) / np.float32(255) for picture in pictures]
    normal = [(value - np.float32([0.5, 0.25, 0.125])) / np.float32([0.3, 0.7, 1.1]) for value in values]
    expected = session.run({"image": np.stack(normal).transpose(0, 3, 1, 2)})
    sources: list[Any] = [
        photographs,
        str(photographs),
        f"{photographs}/**/*.*g*",
        files,
        map(Path, files),
        (Path(file).read_bytes() for file in files),
        pictures,
        [np.asarray(picture) for picture in pictures],
        np.stack([np.asarray(picture) for picture in pictures]),
    ]
    for number, source in enumerate(sources):
        found = list(predict(session, source, preprocess=HOW, batch=3, workers=2))
        named = files if number < 5 else [str(index) for index in range(len(files))]
        assert [each.source for each in found] == named, number
        assert np.array_equal([each.outputs["scores"] for each in found], expected[0]), number
        assert np.array_equal([each.outputs["mean"] for each in found], expected[1]), number
    assert [each.source for each in predict(session, files[2], preprocess=HOW)] == files[2:3]


def test_arrays_and_files_of_arrays(tmp_path: Path, scores: onnx.ModelProto) -> None:
    values = inputs(5)
    expected = triune.Session(scores).run({"image": values})[1]
    for index, value in enumerate(values):
        np.save(tmp_path / f"{index}.npy", value)
    for source in (values, list(values), iter(values), tmp_path, [{"image": value} for value in values]):
        found = predict(scores, source, outputs=["mean"], batch=2)
        assert [each.outputs for each in found] == [{"mean": value} for value in expected]


def test_own_function_and_several_inputs() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[n, 2] x, float[n] y) => (float[n, 2] z) '
        "{ axes = Constant <value_ints = [1]> () wide = Unsqueeze (y, axes) z = Add (x, wide) }"
    )
    seen = set()

    def prepare(number: int) -> dict[str, Any]:
        seen.add(threading.current_thread().name)
        return {"x": np.full(2, number, np.float32), "y": np.float32(number)}

    found = list(predict(model, range(10), preprocess=prepare, batch=4, workers=2))
    assert [each.outputs["z"].tolist() for each in found] == [[2.0 * number] * 2 for number in range(10)]
    assert seen
    assert all(name.startswith("triune-batch") for name in seen)
    with pytest.raises(errors.ArgumentError, match="0: expected an array for each of the inputs 'x', 'y', got 'x'"):
        next(predict(model, [np.zeros(2, np.float32)]))


def test_open_extents() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[n, m] x) => (float[n, m] y, int64[2, k] found) '
        "{ y = Add (x, x) found = NonZero (x) }"
    )
    rows = [np.arange(size, dtype=np.float32) for size in (3, 5, 1)]
    found = list(predict(model, rows))
    for each, row in zip(found, rows, strict=True):
        assert np.array_equal(each.outputs["y"], row * 2)
        assert np.array_equal(each.outputs["found"], np.nonzero(row[None]))
    with pytest.raises(
        errors.ArgumentError, match=r"batch: expected 1 for inputs with open extents, x float32 \(n, m\), got 2"
    ):
        predict(model, rows, batch=2)
    size = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[n, 3, h, w] x) => (float[n] y) '
        "{ y = ReduceMean <axes = [1, 2, 3], keepdims = 0> (x) }"
    )
    picture = np.full((9, 9, 3), 51, np.uint8)
    assert [float(each.outputs["y"]) for each in predict(size, [picture] * 3, preprocess=Preprocess(size=(4, 5)))] == [
        pytest.approx(0.2)
    ] * 3
    with pytest.raises(errors.ArgumentError, match=r"give Preprocess\.size where H and W are open"):
        predict(size, [picture], preprocess=Preprocess())


def test_a_batch_that_the_model_fixes() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[3, 2] x) => (float[3, 2] y, float[2] sum) '
        "{ y = Add (x, x) sum = ReduceSum <keepdims = 0> (x, zero) }".replace(
            "sum = ReduceSum <keepdims = 0> (x, zero)",
            "zero = Constant <value_ints = [0]> () sum = ReduceSum <keepdims = 0> (x, zero)",
        )
    )
    rows = np.arange(10, dtype=np.float32).reshape(5, 2)
    assert np.array_equal([each.outputs["y"] for each in predict(model, rows, outputs=["y"])], rows * 2)
    with pytest.raises(errors.ArgumentError, match=r"output 'sum': expected a batch of 3 in front, got shape \(2,\)"):
        next(predict(model, rows))
    with pytest.raises(errors.ArgumentError, match="batch: expected 3, which the model fixes, got 2"):
        predict(model, rows, batch=2)


def test_ties_and_what_is_no_number() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[n, 5] x) => (float[n, 5] y, uint8[n, 5, 1, 1] z) '
        "{ y = Add (x, zero) c = Cast <to = 2> (x) axes = Constant <value_ints = [2, 3]> () z = Unsqueeze (c, axes) "
        "zero = Constant <value = float {0}> () }"
    )
    row = np.array([2, np.nan, 7, 7, 2], np.float32)
    (found,) = predict(model, [row], top_k=9, outputs=["y"], labels=list("abcde"))
    assert [(top.number, top.label) for top in found.top] == [(2, "c"), (3, "d"), (0, "a"), (4, "e"), (1, "b")]
    (found,) = predict(model, [np.array([2, 1, 200, 200, 2], np.float32)], top_k=3, outputs=["z", "y"])
    assert [top.number for top in found.top] == [2, 3, 0]
    assert list(found.outputs) == ["z", "y"]


def test_labels_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("\n".join(f"digit {number}" for number in range(10)))
    images = digits_held_out()[0][:2].transpose(0, 3, 1, 2)
    for each in predict(DIGITS_INT8, images, top_k=1, labels=tmp_path / "labels.txt"):
        assert each.top[0].label == f"digit {each.top[0].number}"
    with pytest.raises(errors.ArgumentError, match="labels: expected 10, one per class, got 2"):
        # Before the first of them.
        predict(DIGITS_INT8, images, top_k=1, labels=["a", "b"])


def test_bad_items(
    photographs: Path, tmp_path: Path, scores: onnx.ModelProto, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "bad.jpg").write_bytes(b"nothing")
    good = [str(file) for file in sorted(photographs.rglob("*.png"))]
    files = [good[0], str(tmp_path / "bad.jpg"), good[1], str(tmp_path / "no.png"), good[0]]
    expected = [each.outputs["mean"] for each in predict(scores, [good[0], good[1], good[0]])]
    for batch in (1, 2, 5):
        with (
            predict(scores, files, batch=batch, on_error="skip", workers=2) as predictions,
            caplog.at_level(logging.WARNING),
        ):
            caplog.clear()
            found = list(predictions)
        assert [each.index for each in found] == [0, 2, 4]
        assert [each.outputs["mean"] for each in found] == expected
        assert [(each.index, each.source) for each in predictions.failures] == [(1, files[1]), (3, files[3])]
        assert "not an image" in str(predictions.failures[0].error)
        assert isinstance(predictions.failures[1].error, errors.FileError)
        assert len(caplog.records) == 2
        assert predictions.done == 5
        predictions = predict(scores, files, batch=batch)
        assert next(predictions).index == 0
        with pytest.raises(
            errors.ArgumentError, match=r"bad\.jpg: not an image that can be read: no picture of a kind"
        ):
            next(predictions)
        with pytest.raises(StopIteration):
            next(predictions)


def test_items_that_do_not_fit_are_named(scores: onnx.ModelProto) -> None:
    for item, message in (
        (np.zeros((3, 12, 16)), "1: input 'image': expected dtype float32, got float64"),
        (
            np.zeros((3, 12, 15), np.float32),
            r"1: input 'image': expected shape \(3, 12, 16\) without the batch, got \(3, 12, 15\)",
        ),
        (object(), "1: "),
        ({"picture": 3}, "1: expected an array for each of the inputs 'image', got 'picture'"),
    ):
        predictions = predict(scores, [np.zeros((3, 12, 16), np.float32), item], batch=1)
        next(predictions)
        with pytest.raises(errors.ArgumentError, match=message):
            next(predictions)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 0}, "workers: expected a number of at least 1, got 0"),
        ({"batch": True}, "batch: expected a number of at least 1, got True"),
        ({"top_k": 0}, "top_k: expected a number of at least 1, got 0"),
        ({"on_error": "ignore"}, "on_error: expected raise or skip"),
        ({"outputs": ["meen"]}, "outputs: unknown 'meen'; did you mean 'mean'"),
        ({"labels": ["a"]}, "labels: expected top_k beside them"),
        ({"preprocess": Preprocess(mean=(1.0, 2.0))}, "mean: expected 1 or 3 values"),
        ({"preprocess": Preprocess(size=(5, 5))}, "preprocess: no picture fits the model's inputs"),
    ],
)
def test_wrong_options(scores: onnx.ModelProto, options: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.ArgumentError, match=message):
        predict(scores, [], **options)


def test_wrong_sources(tmp_path: Path, scores: onnx.ModelProto) -> None:
    for source, kind, message in (
        (tmp_path, errors.FileError, "expected files with the endings"),
        (tmp_path / "no", errors.FileError, "there is no such file or folder"),
        (tmp_path / "*.jpg", errors.FileError, "no file matches the pattern"),
        (b"bytes", errors.ArgumentError, "source: expected a folder, file, pattern"),
        (3, errors.ArgumentError, "source: expected a folder, file, pattern, array or iterable of items, got int"),
        ({}, errors.ArgumentError, "a single item goes into a list"),
    ):
        with pytest.raises(kind, match=message):
            predict(scores, source)  # type: ignore[arg-type]
    assert list(predict(scores, [])) == []


def test_memory_is_bounded(scores: onnx.ModelProto) -> None:
    """A source is read a few batches ahead of who iterates, not more."""
    read = 0

    def endless() -> Iterator[npt.NDArray[np.float32]]:
        nonlocal read
        while True:
            read += 1
            yield np.zeros((3, 12, 16), np.float32)

    with predict(scores, endless(), batch=2, workers=2) as predictions:
        for taken in range(1, 40):
            next(predictions)
            assert read <= taken + 2 * (2 * 2 + 1)
    assert list(predictions) == []


def test_progress(scores: onnx.ModelProto) -> None:
    told: list[tuple[int, int | None]] = []
    list(predict(scores, inputs(7), batch=3, progress=lambda done, total: told.append((done, total))))
    assert told == [(3, 7), (6, 7), (7, 7)]
    told.clear()
    list(predict(scores, iter(inputs(2)), batch=3, progress=lambda done, total: told.append((done, total))))
    assert told == [(2, None)]


def test_what_a_source_raises(scores: onnx.ModelProto) -> None:
    def broken() -> Iterator[npt.NDArray[np.float32]]:
        yield np.zeros((3, 12, 16), np.float32)
        raise KeyError("own")

    with pytest.raises(KeyError, match="own"):
        list(predict(scores, broken()))


def test_preprocessing_overlaps() -> None:
    """Four workers preprocess at the same time: none goes on before all are there."""
    together = threading.Barrier(4)

    def meet(value: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        together.wait(60)
        return value

    images = np.ascontiguousarray(digits_held_out()[0][:16].transpose(0, 3, 1, 2))
    assert len(list(predict(DIGITS_INT8, images, batch=1, workers=4, preprocess=meet))) == 16


def test_a_forked_child_is_told(scores: onnx.ModelProto) -> None:
    predictions = predict(scores, inputs(40), batch=1, workers=1)
    next(predictions)
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def child() -> None:
        try:
            for _ in range(40):
                next(predictions)
        except errors.ForkedError as error:
            sender.send(str(error))

    process = context.Process(target=child)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    assert receiver.poll(60)
    assert "call predict again" in receiver.recv()
    process.join(60)
    assert len(list(predictions)) == 39
