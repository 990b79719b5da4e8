"""Models and pictures that the tests of `triune.batch` share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx.parser
import pytest

SIZES = [(31, 47), (64, 64), (90, 20), (16, 12), (100, 101), (12, 16), (200, 150)]


@pytest.fixture(scope="session")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of pictures of many kinds, nested. Do not write into it."""
    image = pytest.importorskip("PIL.Image")
    folder = tmp_path_factory.mktemp("photographs")
    (folder / "b").mkdir()
    random = np.random.default_rng(5)
    for index, (height, width) in enumerate(SIZES):
        rough = image.fromarray(random.integers(0, 256, (4, 5, 3), dtype=np.uint8))
        picture = rough.resize((width, height), image.Resampling.BICUBIC)
        mode, suffix = [("RGB", "jpg"), ("RGBA", "png"), ("L", "png"), ("P", "gif"), ("CMYK", "jpg")][index % 5]
        picture.convert(mode).save(folder / ("b" if index % 2 else "") / f"{index}.{suffix}")
    (folder / "notes.txt").write_text("no picture")
    return folder


@pytest.fixture(scope="session")
def scores() -> onnx.ModelProto:
    """Return a model that takes pictures (N, 3, 12, 16) and gives five scores and a mean."""
    return onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[n, 3, 12, 16] image) => (float[n, 5] scores, float[n] mean) {'
        " flat = Flatten (image) mean = ReduceMean <axes = [1, 2, 3], keepdims = 0> (image)"
        " starts = Constant <value_ints = [0, 100]> () ends = Constant <value_ints = [9999, 105]> ()"
        " scores = Slice (flat, starts, ends) }"
    )
