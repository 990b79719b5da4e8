"""Videos and tables as sources of items."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

from triune.batch import predict
from triune.cli import main
from triune.errors import ArgumentError, FileError

SIZE = (12, 16)


def pictures(count: int) -> list[np.ndarray[Any, np.dtype[np.uint8]]]:
    """Return pictures of one color each, which codecs keep."""
    return [np.full((*SIZE, 3), (30 * at, 200 - 20 * at, 90), np.uint8) for at in range(count)]


def png(pixels: Any) -> bytes:
    image = pytest.importorskip("PIL.Image")
    buffer = io.BytesIO()
    image.fromarray(pixels).save(buffer, "png")
    return buffer.getvalue()


@pytest.fixture
def means() -> onnx.ModelProto:
    """Return a model that takes pictures (N, 3, 12, 16) and gives the mean of each channel."""
    return onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[n, 3, 12, 16] image) => (float[n, 3] means) {'
        " means = ReduceMean <axes = [2, 3], keepdims = 0> (image) }"
    )


def colors(found: Any) -> list[list[int]]:
    return [np.rint(each.outputs["means"] * 255).astype(int).tolist() for each in found]


WANTED = [[30 * at, 200 - 20 * at, 90] for at in range(6)]


def test_videos(tmp_path: Path, means: onnx.ModelProto, video: Callable[..., Path]) -> None:
    # Larger than the input: small ones suffer from the codec.
    clip = video(tmp_path / "clip.mp4", [np.repeat(np.repeat(one, 8, 0), 8, 1) for one in pictures(6)])
    found = predict(means, clip, batch=4, workers=2)
    assert found.total is None
    several = list(found)
    assert [each.source for each in several] == [f"{clip}#{at}" for at in range(6)]
    assert [each.index for each in several] == list(range(6))
    assert abs(np.array(colors(several)) - WANTED).max() <= 12
    still = tmp_path / "a.png"
    still.write_bytes(png(pictures(1)[0]))
    mixed = list(predict(means, [still, str(clip), still]))
    assert [each.source for each in mixed] == [str(still), *(f"{clip}#{at}" for at in range(6)), str(still)]
    assert abs(np.array(colors(predict(means, f"{tmp_path}/*.mp4"))) - WANTED).max() <= 12


def test_broken_videos(tmp_path: Path, means: onnx.ModelProto, video: Callable[..., Path]) -> None:
    video(tmp_path / "clip.mp4", pictures(2))
    bad, still = tmp_path / "bad.mp4", tmp_path / "a.png"
    bad.write_bytes(b"none")
    still.write_bytes(png(pictures(1)[0]))
    found = predict(means, [still, bad, still], on_error="skip")
    assert [each.index for each in found] == [0, 2]
    (failure,) = found.failures
    assert str(failure.error).startswith(f"{bad}: not a video")
    with pytest.raises(ArgumentError, match="not a video"):
        list(predict(means, bad))
    with pytest.raises(FileError):
        predict(means, tmp_path / "gone.mp4")


def test_videos_without_a_decoder(tmp_path: Path, means: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "clip.mp4").write_bytes(b"none")
    monkeypatch.setattr("importlib.util.find_spec", lambda *_: None)
    with pytest.raises(ImportError, match=r"triune\[video\]"):
        list(predict(means, tmp_path / "clip.mp4", on_error="skip"))


def table(path: Path, /, **columns: Any) -> Path:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table(columns), path, row_group_size=4)
    return path


@pytest.mark.parametrize("kind", ["bytes", "image", "path", "named"])
def test_tables_of_pictures(kind: str, tmp_path: Path, means: onnx.ModelProto) -> None:
    encoded = [png(one) for one in pictures(6)]
    names = [f"{at}.png" for at in range(6)]
    for name, data in zip(names, encoded, strict=True):
        (tmp_path / name).write_bytes(data)
    columns: dict[str, Any] = {
        "bytes": {"bytes": encoded, "path": names},
        "image": {"image": [{"bytes": data, "path": None} for data in encoded], "label": list(range(6))},
        "path": {"path": [str(tmp_path / name) for name in names], "other": encoded},
        "named": {"scan": encoded, "bytes": [b""] * 6},
    }[kind]
    file = table(tmp_path / "rows.parquet", **columns)
    found = predict(means, file, batch=4, workers=2, column="scan" if kind == "named" else None)
    assert found.total == 6
    several = list(found)
    assert colors(several) == WANTED
    wanted = {"bytes": names, "path": [f"{file}#{at}" for at in range(6)]}
    assert [each.source for each in several] == wanted.get(kind, [f"{file}#{at}" for at in range(6)])
    assert colors(predict(means, [file, file], column="scan" if kind == "named" else None)) == WANTED * 2


def test_tables_of_numbers(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[n, 3] a, int64[n, 2] b) => (float[n, 3] sums) {'
        " total = ReduceSum <keepdims = 1> (b, axis) real = Cast <to = 1> (total) sums = Add (a, real) }"
    )
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1]), "axis"))
    file = table(tmp_path / "rows.parquet", left=[[1.0, 2, 3], [4.0, 5, 6]], right=[[1, 2], [3, 4]])
    found = [each.outputs["sums"].tolist() for each in predict(model, file, column={"a": "left", "b": "right"})]
    assert found == [[4, 5, 6], [11, 12, 13]]


def test_broken_tables(tmp_path: Path, means: onnx.ModelProto) -> None:
    encoded: list[Any] = [png(one) for one in pictures(3)]
    file = table(tmp_path / "rows.parquet", image=[encoded[0], None, b"none", encoded[2]])
    found = predict(means, file, on_error="skip")
    assert colors(found) == [WANTED[0], WANTED[2]]
    assert [(each.index, each.source) for each in found.failures] == [(1, f"{file}#1"), (2, f"{file}#2")]
    assert "got none" in str(found.failures[0].error)
    bad = tmp_path / "bad.parquet"
    bad.write_bytes(b"none")
    with pytest.raises(ArgumentError, match=r"bad\.parquet: not a Parquet table"):
        list(predict(means, bad))
    with pytest.raises(ArgumentError, match="column: unknown 'imag'; did you mean 'image'"):
        list(predict(means, file, column="imag"))
    other = table(tmp_path / "other.parquet", scan=encoded)
    with pytest.raises(ArgumentError, match="column: name the one with the items; the table has scan"):
        list(predict(means, other))


def test_on_the_command_line(
    tmp_path: Path, means: onnx.ModelProto, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = tmp_path / "means.onnx"
    onnx.save(means, model)
    table(tmp_path / "rows.parquet", scan=[png(one) for one in pictures(6)])
    arguments = ["predict", str(model), "rows.parquet", "--column", "scan", "--top", "1", "-o", "out.parquet", "-v"]
    assert main(arguments) == 0
    captured = capsys.readouterr()
    assert captured.out == "out.parquet: 6 rows\n"
    assert "6 of 6" in captured.err
    parquet = pytest.importorskip("pyarrow.parquet")
    written = parquet.read_table("out.parquet").to_pydict()
    assert written["source"] == [f"rows.parquet#{at}" for at in range(6)]
    assert [best for (best,) in written["classes"]] == [int(np.argmax(row)) for row in WANTED]
