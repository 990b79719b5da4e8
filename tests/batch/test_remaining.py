"""`triune.ray.remaining`: what a job that was stopped has yet to do."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from triune.errors import ArgumentError
from triune.ray import remaining

arrow: Any = pytest.importorskip("pyarrow")
parquet: Any = pytest.importorskip("pyarrow.parquet")

PATHS = [f"/photographs/{number}.jpg" for number in range(10)]


def write(folder: Path, name: str, paths: list[Any], column: str = "path") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    parquet.write_table(arrow.table({column: paths, "classes": [[1]] * len(paths)}), folder / name)
    return folder / name


def test_what_has_no_row_is_left(tmp_path: Path) -> None:
    assert remaining(PATHS, tmp_path / "results") == PATHS
    write(tmp_path / "results", "0.parquet", [*PATHS[2:5], None])
    write(tmp_path / "results" / "part", "1.parquet", [PATHS[9], "/photographs/../photographs/0.jpg"])
    assert remaining(map(Path, PATHS), tmp_path / "results") == [PATHS[at] for at in (1, 5, 6, 7, 8)]
    write(tmp_path / "results", "2.parquet", PATHS)
    assert remaining(PATHS, tmp_path / "results") == []


def test_relative_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "results", "0.parquet", [str(tmp_path / "a.jpg")])
    assert remaining(["a.jpg", "b.jpg"], "results") == ["b.jpg"]


def test_files_without_an_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path, "0.parquet", PATHS[:4])
    cut = write(tmp_path, "1.parquet", PATHS[4:])
    cut.write_bytes(cut.read_bytes()[:-20])
    empty = tmp_path / "2.parquet"
    empty.write_bytes(b"")
    with caplog.at_level(logging.WARNING):
        assert remaining(PATHS, tmp_path) == PATHS[4:]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["0.parquet", "1.parquet.broken", "2.parquet.broken"]
    assert "1.parquet.broken" in caplog.text
    assert remaining(PATHS, tmp_path) == PATHS[4:], "again, without them"


def test_columns(tmp_path: Path) -> None:
    write(tmp_path, "0.parquet", PATHS[:4], column="file")
    assert remaining(PATHS, tmp_path, column="file") == PATHS[4:]
    with pytest.raises(ArgumentError, match=r"0\.parquet: column: unknown 'path'.*the table has file, classes"):
        remaining(PATHS, tmp_path)
