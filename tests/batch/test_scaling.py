"""Scaled pictures have Pillow's bits, whoever scales them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from triune import _native, errors
from triune.batch import Preprocess, _scaling
from triune.batch._pictures import Frame
from triune.batch._scaling import Scaling, pass_order

Image = pytest.importorskip("PIL.Image")

FILTERS = ("box", "bilinear", "hamming", "bicubic", "lanczos")
IDENTITY = np.tile(np.arange(256, dtype=np.uint8), (3, 1))

Pixels = npt.NDArray[np.uint8]
Box = tuple[float, float, float, float]


def by_pillow(picture: Any, size: tuple[int, int], how: str, box: Box) -> Pixels:
    scaled = picture.resize(size, getattr(Image.Resampling, how.upper()), box=box)
    return np.asarray(scaled, np.uint8).reshape(size[1], size[0], -1)


def scaled(picture: Any, size: tuple[int, int], how: str, box: Box, channels: int) -> Pixels:
    out = np.full((size[1], size[0], channels), 77, np.uint8)
    Scaling(how, box, size, IDENTITY[:channels], last=True, reverse=False).write(picture, out)
    return out


def noise(random: np.random.Generator, *shape: int) -> Pixels:
    """Bytes, or black and white, which filters overshoot with."""
    pixels = random.integers(0, 256, shape, dtype=np.uint8)
    return pixels if random.integers(2) else np.where(pixels < 128, 0, 255).astype(np.uint8)


@pytest.fixture
def never_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing be scaled by Pillow."""
    pass_order()

    def refuse(*_: object) -> None:
        raise AssertionError("Pillow was asked")

    monkeypatch.setattr(_scaling, "_resized", refuse)


def check(pixels: Pixels, size: tuple[int, int], how: str, box: Box) -> None:
    """Compare all ways that bytes come in."""
    channels = min(pixels.shape[2], 3)
    picture = Image.fromarray(pixels[..., 0] if channels == 1 else np.ascontiguousarray(pixels[..., :3]))
    expected = by_pillow(picture, size, how, box)
    case = f"{pixels.shape} {size} {how} {box}"
    assert np.array_equal(scaled(pixels, size, how, box, channels), expected), case
    # A copy has memory of its own, which is read where it lies.
    for source in (picture, picture.copy()):
        assert np.array_equal(scaled(source, size, how, box, channels), expected), case


@pytest.mark.usefixtures("never_pillow")
@pytest.mark.parametrize("how", FILTERS)
def test_any_size_and_box(how: str) -> None:
    random = np.random.default_rng(FILTERS.index(how))
    for number in range(150):
        width, height = (int(random.choice([1, 2, 3, *random.integers(1, 150, 4)])) for _ in range(2))
        size = tuple(int(random.choice([1, 2, *random.integers(1, 200, 4)])) for _ in range(2))
        left, right = sorted(random.uniform(0, width, 2))
        top, bottom = sorted(random.uniform(0, height, 2))
        box = [
            (0, 0, width, height),
            (left, top, right, bottom),
            (0, top, width, height),
            (int(left), 0, width, bottom),
        ]
        check(noise(random, height, width, int(random.choice([1, 3, 4]))), size, how, box[number % 4])  # type: ignore[arg-type]


@pytest.mark.usefixtures("never_pillow")
@pytest.mark.parametrize("how", FILTERS)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    ("extents", "size"),
    [
        ((1, 1), (1, 1)),
        ((1, 1), (224, 224)),
        ((224, 224), (224, 224)),
        ((224, 300), (224, 224)),
        ((300, 224), (224, 224)),
        ((3000, 5), (1, 1)),
        ((5, 480), (2, 3)),
        ((1999, 1501), (3, 2)),
        ((640, 480), (224, 224)),
        ((480, 854), (224, 224)),
        ((16, 9), (900, 700)),
    ],
)
def test_reductions_and_enlargements(how: str, channels: int, extents: tuple[int, int], size: tuple[int, int]) -> None:
    pixels = noise(np.random.default_rng(5), extents[1], extents[0], channels)
    check(pixels, size, how, (0, 0, *extents))


@pytest.mark.usefixtures("never_pillow")
def test_boxes_of_whole_pixels_are_cut_out() -> None:
    pixels = noise(np.random.default_rng(6), 40, 50, 3)
    for how in FILTERS:
        check(pixels, (20, 10), how, (7, 9, 27, 19))
        assert np.array_equal(scaled(pixels, (20, 10), how, (7, 9, 27, 19), 3), pixels[9:19, 7:27])


def test_what_the_order_is_found_to_be() -> None:
    """Which order a version has, and that one with other bits is asked itself."""
    import PIL

    major = int(PIL.__version__.split(".")[0])
    assert pass_order() == ("by extents" if major >= 13 else "columns first")


def test_a_pillow_of_other_bits_is_asked_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    picture = Image.fromarray(noise(np.random.default_rng(7), 30, 40, 3))
    box = (1.5, 2.0, 33.0, 30.0)
    original = Image.Image.resize

    def brighter(self: Any, *args: Any, **kwargs: Any) -> Any:
        return original(self, *args, **kwargs).point(lambda byte: min(byte + 1, 255))

    monkeypatch.setattr(Image.Image, "resize", brighter)
    pass_order.cache_clear()
    try:
        assert pass_order() is None
        expected = by_pillow(picture, (11, 13), "bicubic", box)
        assert np.array_equal(scaled(picture, (11, 13), "bicubic", box, 3), expected)
    finally:
        monkeypatch.undo()
        pass_order.cache_clear()
    assert not np.array_equal(scaled(picture, (11, 13), "bicubic", box, 3), expected)


def test_pictures_whose_memory_is_not_theirs(tmp_path: Path) -> None:
    """Rows upside down in a mapped file, in a buffer of somebody else's, with gaps, and in several pieces."""
    random = np.random.default_rng(8)
    gray = Image.fromarray(noise(random, 31, 33, 1)[..., 0])
    gray.save(tmp_path / "gray.bmp")
    with Image.open(tmp_path / "gray.bmp") as mapped:
        upside_down = scaled(mapped, (9, 7), "bilinear", (0, 0, 33, 31), 1)
    assert np.array_equal(upside_down, by_pillow(gray, (9, 7), "bilinear", (0, 0, 33, 31)))

    rows = bytearray(noise(random, 31, 40).tobytes())
    wide = Image.frombuffer("L", (33, 31), rows, "raw", "L", 40, 1)
    expected = by_pillow(wide, (9, 7), "bilinear", (0, 0, 33, 31))
    assert np.array_equal(scaled(wide, (9, 7), "bilinear", (0, 0, 33, 31), 1), expected)

    Image.core.set_alignment(64)
    try:
        padded = Image.fromarray(noise(random, 31, 33, 3))
        expected = by_pillow(padded, (9, 7), "lanczos", (0, 0, 33, 31))
        assert np.array_equal(scaled(padded, (9, 7), "lanczos", (0, 0, 33, 31), 3), expected)
    finally:
        Image.core.set_alignment(1)

    large = Image.fromarray(noise(random, 2200, 2100, 3))
    if hasattr(large, "__arrow_c_array__"):
        with pytest.raises(ValueError, match=r"blocks|contiguous"):
            large.__arrow_c_array__()
    expected = by_pillow(large, (224, 224), "bilinear", (0, 0, *large.size))
    assert np.array_equal(scaled(large, (224, 224), "bilinear", (0, 0, *large.size), 3), expected)


def test_what_pillow_refuses_it_refuses_in_its_words() -> None:
    picture = Image.new("RGB", (20, 10))
    for box, said in (
        ((-1.0, 0.0, 20.0, 10.0), "offset can't be negative"),
        ((0.0, 0.0, 20.5, 10.0), "can't exceed original image"),
        ((12.0, 0.0, 4.0, 10.0), "can't be empty"),
    ):
        for scale in (by_pillow, lambda *given: scaled(*given, 3)):
            with pytest.raises(ValueError, match=said):
                scale(picture, (5, 5), "bilinear", box)


def test_nearest_is_pillows() -> None:
    pixels = noise(np.random.default_rng(9), 33, 21, 3)
    for source in (pixels, Image.fromarray(pixels)):
        found = scaled(source, (10, 50), "nearest", (0.5, 1, 20.5, 33), 3)
        assert np.array_equal(found, by_pillow(Image.fromarray(pixels), (10, 50), "nearest", (0.5, 1, 20.5, 33)))


@pytest.mark.usefixtures("never_pillow")
@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8"])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("fit", ["stretch", "crop", "pad"])
def test_into_every_kind_of_input(dtype: str, last: bool, fit: Any) -> None:
    """Through tables, in either order of channels, beside numpy."""
    random = np.random.default_rng(10)
    pixels = noise(random, 61, 95, 3)
    frame = Frame("image", 3, 24, 30, dtype, last)
    usual = Preprocess.default(dtype)
    for color in ("rgb", "bgr"):
        how = Preprocess(fit=fit, part=0.8, fill=9, scale=usual.scale, mean=usual.mean, color=color, filter="bicubic")
        whole = np.full((24, 30, 3), 9, np.uint8)
        size, box, (left, top) = (30, 24), how._box((95, 61), (30, 24)), (0, 0)
        if fit == "pad":
            size, (left, top) = how._inner((95, 61), (30, 24))
        whole[top : top + size[1], left : left + size[0]] = by_pillow(Image.fromarray(pixels), size, "bicubic", box)
        ordered = whole[..., ::-1] if color == "bgr" else whole
        values = (ordered.astype(np.float32) / np.float32(usual.scale) - np.float32(usual.mean)).astype(dtype)
        for source in (pixels, Image.fromarray(pixels), Image.fromarray(pixels).convert("RGBA")):
            out = np.full(frame.shape, 77, dtype)
            how.write(source, frame, out)
            assert np.array_equal(out, values if last else values.transpose(2, 0, 1)), color


@pytest.mark.usefixtures("never_pillow")
def test_many_threads() -> None:
    random = np.random.default_rng(11)
    pictures = [Image.fromarray(noise(random, 90 + number, 120, 3)) for number in range(40)]
    expected = [by_pillow(picture, (31, 37), "lanczos", (0, 0, *picture.size)) for picture in pictures]

    def one(picture: Any) -> Pixels:
        return scaled(picture, (31, 37), "lanczos", (0, 0, *picture.size), 3)

    with ThreadPoolExecutor(8) as pool:
        for found, wanted in zip(pool.map(one, pictures), expected, strict=True):
            assert np.array_equal(found, wanted)


def test_what_does_not_fit_is_refused() -> None:
    pixels = np.zeros((6, 8, 3), np.uint8)
    out = np.zeros((3, 4, 5), np.float32)
    tables = np.zeros((3, 256), np.float32)
    good = [pixels, (6, 8), (0, 0, 8, 6), (4, 5), "box", tables, out]
    _native.scale_pixels(*good)  # type: ignore[arg-type]
    exported = Image.new("RGB", (8, 6)).__arrow_c_array__()
    for index, value, said in (
        (0, pixels[:5], "picture: expected .6, 8, C., got .5, 8, 3."),
        (0, pixels.astype(np.int8), "picture: expected"),
        (0, np.zeros((6, 8, 2), np.uint8), "pixels have 1, 3 or 4 bytes"),
        (0, Image.new("RGB", (8, 5)).__arrow_c_array__(), "memory is not laid out"),
        (0, Image.new("L", (8, 6)).__arrow_c_array__(), "a channel that the picture does not have"),
        (0, Image.new("F", (8, 6)).__arrow_c_array__(), "memory is not laid out"),
        (2, (0, 0, 8, 7), "part is not inside"),
        (2, (float("nan"), 0, 8, 6), "part is not inside"),
        (3, (0, 5), "1 to 2³¹ − 1 rows"),
        (3, (5, 5), "result is not inside"),
        (4, "nearest", "filter: expected one of box, bilinear, hamming, bicubic, lanczos, got nearest"),
        (5, tables[:2], "tables: expected"),
        (6, out[0], "out: expected three axes"),
        (6, out.astype(np.float64), "out: expected"),
    ):
        wrong = list(good)
        wrong[index] = value
        with pytest.raises(errors.ArgumentError, match=said):
            _native.scale_pixels(*wrong)  # type: ignore[arg-type]
    with pytest.raises(errors.ArgumentError, match="result is not inside"):
        _native.scale_pixels(*good, origin=(0, 1))  # type: ignore[arg-type]
    # In the other order, these are no capsules of theirs.
    with pytest.raises(ValueError, match="PyCapsule"):
        _native.scale_pixels(exported[::-1], *good[1:])  # type: ignore[arg-type]
