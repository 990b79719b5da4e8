"""`triune.batch.Preprocess`: pictures into inputs, beside Pillow and numpy step by step."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from triune import _native, errors
from triune.batch import Preprocess
from triune.batch._pictures import Frame

Image = pytest.importorskip("PIL.Image")

FRAME = Frame("image", 3, 12, 16, "float32", False)


def written(how: Preprocess, source: Any, frame: Frame = FRAME) -> npt.NDArray[Any]:
    out = np.full(frame.shape, 77, frame.dtype)
    how.write(source, frame, out)
    return out


def by_hand(picture: Any, mean: Any = 0.0, std: Any = 1.0, scale: float = 255.0) -> npt.NDArray[np.float32]:
    values = np.asarray(picture, np.float32) / np.float32(scale)
    normal = (values - np.asarray(mean, np.float32)) / np.asarray(std, np.float32)
    return np.asarray(normal.transpose(2, 0, 1), np.float32)


def test_stretched_and_normalized(photographs: Path) -> None:
    mean, std = (0.5, 0.25, 0.125), (0.3, 0.7, 1.1)
    for file in photographs.rglob("*.*"):
        if file.suffix == ".txt":
            continue
        with Image.open(file) as opened:
            picture = opened.convert("RGB").resize((16, 12), Image.Resampling.BILINEAR)
        assert np.array_equal(written(Preprocess(mean=mean, std=std), file), by_hand(picture, mean, std))
        assert np.array_equal(written(Preprocess(scale=1.0), str(file)), by_hand(picture, scale=1.0))
        assert np.array_equal(written(Preprocess(color="bgr"), file.read_bytes()), by_hand(picture)[::-1])
        last = Frame("image", 3, 12, 16, "float32", True)
        assert np.array_equal(written(Preprocess(mean=mean), file, last), by_hand(picture, mean).transpose(1, 2, 0))


def test_sixteen_bits_are_scaled_and_more_refused(tmp_path: Path) -> None:
    deep = np.array([[0, 128, 129, 257 * 100, 65_535 - 129, 65_535]], np.uint16)
    frame = Frame("image", 1, 1, 6, "float32", False)
    for name in ("deep.png", "deep.tiff"):
        Image.fromarray(deep).save(tmp_path / name)
        for source in (tmp_path / name, Image.open(tmp_path / name)):
            assert written(Preprocess(scale=1.0), source, frame).ravel().tolist() == [0, 0, 1, 100, 254, 255]
    for dtype, words in ((np.int32, "32-bit integers"), (np.float32, "reals")):
        Image.fromarray(deep.astype(dtype)).save(tmp_path / "wide.tiff")
        with pytest.raises(
            errors.ArgumentError, match=f"{words}, which do not say what is white: save it with 8 or 16"
        ):
            written(Preprocess(), tmp_path / "wide.tiff", frame)


def test_other_types() -> None:
    picture = np.random.default_rng(1).integers(0, 256, (12, 16, 3), dtype=np.uint8)
    for dtype, offset in (("uint8", 0), ("int8", 128)):
        frame = Frame("image", 3, 12, 16, dtype, False)
        assert np.array_equal(
            written(Preprocess.default(dtype), picture, frame), picture.transpose(2, 0, 1).astype(int) - offset
        )
    # Halves go to the even neighbour.
    frame = Frame("image", 1, 1, 4, "uint8", True)
    gray = np.array([[1, 3, 5, 255]], np.uint8)
    assert written(Preprocess(scale=2.0), gray, frame).ravel().tolist() == [0, 2, 2, 128]
    with pytest.raises(errors.ArgumentError, match="pixels become 0 to 255, but input 'image' has int8"):
        Preprocess(scale=1.0).check(Frame("image", 3, 12, 16, "int8", False))


def test_the_middle_is_cut_out() -> None:
    """A picture whose middle, 0.5 of the largest, is one color, and nothing of the rest shows."""
    picture = np.zeros((100, 200, 3), np.uint8)
    # The largest of 12 x 16 is 100 x 133.3; half of it is 50 x 66.7, and filters see some pixels more.
    picture[20:80, 61:139] = 200
    assert (written(Preprocess(fit="crop", part=0.5, scale=1.0), picture) == 200).all()
    for far in (Preprocess(fit="crop", part=0.65, scale=1.0), Preprocess(part=0.5, scale=1.0)):
        assert (written(far, picture)[:, 0] != 200).all()
        assert (written(far, picture)[:, :, -1] != 200).all()
    whole = written(Preprocess(fit="crop", scale=1.0), picture)
    box = Image.fromarray(picture).resize((16, 12), Image.Resampling.BILINEAR, box=(33 + 1 / 3, 0, 166 + 2 / 3, 100))
    assert np.array_equal(whole, by_hand(box, scale=1.0))


@pytest.mark.parametrize("shape", [(100, 20), (20, 100), (12, 16), (1, 1), (13, 16), (5000, 1)])
def test_the_rest_is_filled(shape: tuple[int, int]) -> None:
    found = written(Preprocess(fit="pad", fill=9, scale=1.0), np.full((*shape, 3), 200, np.uint8))
    inside = (found == 200).all(0)
    assert ((found == 9).all(0) | inside).all()
    rows, columns = np.flatnonzero(inside.any(1)), np.flatnonzero(inside.any(0))
    assert inside[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].all()
    assert abs(rows[0] - (11 - rows[-1])) <= 1
    assert abs(columns[0] - (15 - columns[-1])) <= 1
    assert len(rows) == 12 or len(columns) == 16


def test_smaller_jpegs_are_much_the_same() -> None:
    random = np.random.default_rng(2)
    picture = Image.fromarray(random.integers(0, 256, (6, 8, 3), dtype=np.uint8)).resize(
        (1600, 1200), Image.Resampling.BICUBIC
    )
    file = io.BytesIO()
    picture.save(file, "jpeg", quality=95)
    for how in ({"fit": "crop", "part": 0.4}, {"fit": "stretch"}, {"fit": "pad"}):
        exact = written(Preprocess(scale=1.0, **how), file.getvalue())  # type: ignore[arg-type]
        quick = written(Preprocess(scale=1.0, reducing_gap=2.0, **how), file.getvalue())  # type: ignore[arg-type]
        assert not np.array_equal(exact, quick)
        assert np.abs(exact - quick).max() <= 6


def test_frames() -> None:
    assert Frame.of("x", "float32", ("N", 3, 12, 16), None) == Frame("x", 3, 12, 16, "float32", False)
    assert Frame.of("x", "uint8", (1, 12, 16, 1), None) == Frame("x", 1, 12, 16, "uint8", True)
    assert Frame.of("x", "float32", ("N", 3, "H", "W"), (5, 7)) == Frame("x", 3, 5, 7, "float32", False)
    assert Frame.of("x", "float32", ("N", "H", "W", 3), (5, 7)) == Frame("x", 3, 5, 7, "float32", True)
    for dtype, shape, size in (
        ("float32", ("N", 3, "H", "W"), None),
        ("float32", ("N", 2, 12, 16), None),
        ("float32", ("N", 3, 12), None),
        ("float64", ("N", 3, 12, 16), None),
        ("float32", ("N", 3, 12, 16), (12, 15)),
    ):
        assert Frame.of("x", dtype, shape, size) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fit": "cut"}, "fit: expected one of stretch, crop, pad, got 'cut'"),
        ({"filter": "best"}, "filter: expected one of"),
        ({"color": "cmyk"}, "color: expected one of rgb, bgr"),
        ({"part": 0.0}, "part: expected more than 0"),
        ({"part": float("nan")}, "part: expected more than 0"),
        ({"fill": 256}, "fill: expected 0 to 255"),
        ({"scale": 0.0}, "scale: expected finite numbers other than 0"),
        ({"std": (1.0, 0.0, 1.0)}, "std: expected finite numbers other than 0"),
        ({"mean": float("inf")}, "mean: expected finite numbers"),
        ({"reducing_gap": 0.5}, "reducing_gap: expected at least 1 or None"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.ArgumentError, match=message):
        Preprocess(**options)


def test_wrong_pictures(tmp_path: Path) -> None:
    (tmp_path / "x.jpg").write_bytes(b"\xff\xd8\xff\xe0 no more")
    with pytest.raises(errors.ArgumentError, match=r"x\.jpg: not an image that can be read"):
        written(Preprocess(), tmp_path / "x.jpg")
    with pytest.raises(errors.FileError, match=r"no\.jpg"):
        written(Preprocess(), tmp_path / "no.jpg")
    with pytest.raises(errors.ArgumentError, match="not an image that can be read"):
        written(Preprocess(), np.zeros((3, 3, 5), np.uint8))
    with pytest.raises(errors.ArgumentError, match="mean: expected 1 or 3 values for input 'image', got 2"):
        written(Preprocess(mean=(1.0, 2.0)), np.zeros((3, 3, 3), np.uint8))


def test_the_core_refuses_what_does_not_fit() -> None:
    picture, tables = np.zeros((2, 3, 3), np.uint8), np.zeros((3, 256), np.float32)
    out = np.zeros((3, 2, 3), np.float32)
    _native.spread_pixels(picture, tables, out)
    for arguments, message in (
        ((picture.astype(np.int8), tables, out), "picture: expected dtype uint8"),
        ((picture[0], tables, out), r"picture: expected \(H, W, C\), got 2 axes"),
        ((picture[:, ::2], tables, out), "picture: expected a C-contiguous array"),
        ((picture, tables[:2], out), r"tables: expected shape \(3, 256\)"),
        ((picture, tables.astype(np.uint8), out), "tables: expected dtype float32"),
        ((picture, tables, out[:, :1]), "out: expected shape"),
        ((picture, tables, out.astype(np.float64)), "out: expected dtype float32, got float64"),
        ((picture, tables, np.broadcast_to(out[0, 0, 0], out.shape).copy().transpose(0, 2, 1)), "out: expected"),
    ):
        with pytest.raises(errors.ArgumentError, match=message):
            _native.spread_pixels(*arguments)
