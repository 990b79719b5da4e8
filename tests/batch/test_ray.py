"""`triune.ray.Predictor`, by itself and on a local cluster of two workers."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import triune
from triune import errors
from triune.batch import Preprocess, predict
from triune.models import DIGITS_INT8, digits_held_out
from triune.ray import Predictor

HOW = Preprocess(mean=(0.5, 0.25, 0.125))


def rows(folder: Path) -> dict[str, Any]:
    files = sorted(str(file) for file in folder.rglob("*.*") if file.suffix != ".txt")
    contents = np.empty(len(files), object)
    for index, file in enumerate(files):
        contents[index] = Path(file).read_bytes()
    return {"bytes": contents, "path": np.array(files, object), "more": np.arange(len(files))}


def test_results_are_those_of_predict(photographs: Path, scores: onnx.ModelProto) -> None:
    expected = list(predict(scores, photographs, preprocess=HOW, top_k=2))
    batch = rows(photographs)
    for columns, column in ((batch, None), ({"path": batch["path"]}, None), ({"x": batch["bytes"]}, "x")):
        found = Predictor(scores, column=column, preprocess=HOW, threads=1)(columns)
        assert found["scores"].shape == (len(expected), 5)
        assert np.array_equal(found["scores"], [each.outputs["scores"] for each in expected])
        assert np.array_equal(found["mean"], [each.outputs["mean"] for each in expected])
        assert set(found) == {"scores", "mean"} | (set(columns) - {"bytes", "x"})
    found = Predictor(scores, preprocess=HOW, top_k=2, labels=list("abcde"), outputs=["scores"], threads=1)(batch)
    assert found["classes"].tolist() == [[top.number for top in each.top] for each in expected]
    assert found["labels"].tolist() == [["abcde"[top.number] for top in each.top] for each in expected]
    assert found["more"].tolist() == list(range(len(expected)))


def test_rows_that_cannot_be_used(photographs: Path, scores: onnx.ModelProto, caplog: pytest.LogCaptureFixture) -> None:
    batch = rows(photographs)
    batch["bytes"][2] = b"no picture"
    name = batch["path"][2]
    with pytest.raises(errors.ArgumentError, match="not an image that can be read") as raised:
        Predictor(scores, threads=1)(batch)
    assert str(raised.value).startswith(name)
    with caplog.at_level(logging.WARNING):
        found = Predictor(scores, on_error="skip", threads=1)(batch)
    assert found["more"].tolist() == [0, 1, *range(3, len(batch["path"]))]
    assert len(found["mean"]) == len(found["more"])
    assert name in caplog.text
    batch["bytes"][:] = b"none"
    assert len(Predictor(scores, on_error="skip", threads=1)(batch)["mean"]) == 0


def test_several_inputs() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[n, 2] x, float[n, 2] y) => (float[n, 2] z) { z = Sub (x, y) }'
    )
    a, b = np.random.default_rng(1).normal(size=(2, 9, 2)).astype(np.float32)
    found = Predictor(model, column={"x": "b", "y": "a"}, threads=1)({"a": a, "b": b, "c": a})
    assert np.array_equal(found["z"], b - a)
    assert set(found) == {"c", "z"}


def test_wrong_columns(scores: onnx.ModelProto) -> None:
    images = np.zeros((2, 12, 16, 3), np.uint8)
    for columns, column, message in (
        ({"imaje": images}, None, "column: name the one with the items; the dataset has imaje"),
        ({"image": images}, "imaje", "column: unknown 'imaje'; did you mean 'image'. the dataset has image"),
        ({"image": images, "mean": np.zeros(2)}, None, "outputs: the dataset has a column 'mean' already"),
    ):
        with pytest.raises(errors.ArgumentError, match=message):
            Predictor(scores, column=column, threads=1)(columns)
    with pytest.raises(errors.ArgumentError, match="on_error: expected raise or skip"):
        Predictor(scores, on_error="keep", threads=1)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Return Ray with a local cluster of two CPUs, or skip."""
    ray = pytest.importorskip("ray", reason="ray is not installed")
    pytest.importorskip("ray.data", reason="ray[data] is not installed")
    with pytest.MonkeyPatch.context() as patch:
        # Workers import what is in this process, also where it is not installed.
        patch.setenv(
            "PYTHONPATH", os.pathsep.join([str(Path(triune.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
        )
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        ray.init(
            num_cpus=2,
            include_dashboard=False,
            object_store_memory=200 << 20,
            log_to_driver=False,
            logging_level="error",
        )
        ray.data.DataContext.get_current().enable_progress_bars = False
        yield ray
        ray.shutdown()


pytestmark = pytest.mark.filterwarnings("ignore")


def dataset(ray: Any, count: int, blocks: int) -> Any:
    scans = np.ascontiguousarray(digits_held_out()[0][:count].transpose(0, 3, 1, 2))
    return ray.data.from_items(
        [{"scan": scan, "index": index} for index, scan in enumerate(scans)], override_num_blocks=blocks
    )


def results(table: Any) -> list[tuple[int, int]]:
    return sorted((row["index"], int(row["classes"][0])) for row in table.take_all())


def test_on_a_cluster(cluster: Any, tmp_path: Path) -> None:
    count = 64
    expected = [
        (each.index, each.top[0].number)
        for each in predict(DIGITS_INT8, digits_held_out()[0][:count].transpose(0, 3, 1, 2), top_k=1)
    ]
    table = dataset(cluster, count, 8).map_batches(
        Predictor,
        fn_constructor_kwargs={"model": str(DIGITS_INT8), "column": "scan", "top_k": 1},
        compute=cluster.data.ActorPoolStrategy(size=2),
        num_cpus=1,
        batch_size=5,
    )
    table.write_parquet(str(tmp_path / "results"))
    assert results(cluster.data.read_parquet(str(tmp_path / "results"))) == expected


def test_a_worker_that_dies_loses_and_doubles_nothing(cluster: Any, tmp_path: Path) -> None:
    count, marker = 64, tmp_path / "died"

    def fragile(scan: Any) -> Any:
        # Once, in the middle of a batch of the first worker that comes here.
        if scan.sum() > 0 and not marker.exists():
            marker.touch()
            os._exit(1)
        return scan

    table = dataset(cluster, count, 8).map_batches(
        Predictor,
        fn_constructor_kwargs={"model": DIGITS_INT8.read_bytes(), "column": "scan", "top_k": 1, "preprocess": fragile},
        compute=cluster.data.ActorPoolStrategy(size=2),
        num_cpus=1,
        batch_size=5,
    )
    found = results(table)
    assert marker.exists()
    assert [index for index, _ in found] == list(range(count))


def test_threads_are_the_cpus_that_ray_reserves(cluster: Any) -> None:
    class Counting(Predictor):
        def __call__(self, batch: Any) -> Any:
            return super().__call__(batch) | {"threads": np.full(len(batch["index"]), self._plan._threads)}

    for cpus in (1, 2):
        table = dataset(cluster, 4, 1).map_batches(
            Counting,
            fn_constructor_kwargs={"model": str(DIGITS_INT8), "column": "scan"},
            compute=cluster.data.ActorPoolStrategy(size=1),
            num_cpus=cpus,
        )
        assert {row["threads"] for row in table.take_all()} == {cpus}
