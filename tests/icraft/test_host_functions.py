"""The functions of `triune.icraft.host_backend`: pictures, files of raw elements, decoders."""

from __future__ import annotations

import builtins
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from triune.icraft.host_backend import DecodeWithDecoder, Ftmp2Tensor, Image2Tensor
from triune.icraft.xir import FloatType, IntegerType, InternalError, Layout, ScalarType, TensorType, Value
from triune.icraft.xrt import Tensor

UINT8 = IntegerType.UInt8()


def picture(height: int, width: int, channels: int) -> npt.NDArray[np.uint8]:
    i, j, k = np.indices((height, width, channels))
    return ((i * i * 37 + j * 91 + k * 57 + i * j * 13) % 256).astype(np.uint8)


def saved(folder: Path, pixels: npt.NDArray[np.uint8]) -> str:
    path = folder / "picture.png"
    Image.fromarray(pixels.squeeze(-1) if pixels.shape[2] == 1 else pixels).save(path)
    return str(path)


def value(element: ScalarType, shape: list[int], layout: str = "NHWC") -> Value:
    return Value(TensorType(element, shape, Layout(layout)))


# ---- pictures


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_a_picture_keeps_its_pixels(tmp_path: Path, channels: int) -> None:
    pixels = picture(5, 7, channels)
    for arguments in ((), (-1, -1), (5, 7), (5, -1)):
        tensor = Image2Tensor(saved(tmp_path, pixels), *arguments)
        assert tensor.dtype() == TensorType(UINT8, [1, 5, 7, channels], Layout("NHWC"))
        assert np.array_equal(np.asarray(tensor)[0], pixels)


# What OpenCV 5.0 gives for cv2.resize(picture(*source), (width, height), interpolation=cv2.INTER_LINEAR).
RESIZED: list[tuple[tuple[int, int, int], tuple[int, int], list[int]]] = [
    ((3, 5, 1), (7, 4), [
        11, 125, 79, 97, 17, 133, 89, 109, 33, 156, 119, 146, 50, 180, 150, 184, 85, 125, 171, 157, 119, 71, 192, 130,
        131, 53, 199, 121,
    ]),
    ((6, 4, 3), (2, 3), [54, 111, 168, 193, 122, 179, 118, 133, 190, 104, 118, 175, 167, 96, 153, 229, 73, 130]),
    ((4, 6, 1), (2, 3), [67, 134, 137, 110, 165, 156]),
    ((5, 5, 1), (3, 9), [
        12, 44, 97, 150, 203, 114, 53, 106, 137, 148, 102, 24, 61, 126, 191, 228, 150, 104, 79, 125, 202, 165, 100, 177,
        226, 161, 122,
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("source", "size", "expected"), RESIZED)
def test_a_picture_is_resized_as_opencv_does(
    tmp_path: Path, source: tuple[int, int, int], size: tuple[int, int], expected: list[int]
) -> None:
    tensor = Image2Tensor(saved(tmp_path, picture(*source)), *size)
    assert tensor.dtype().shape == [1, *size, source[2]]
    assert np.asarray(tensor).reshape(-1).tolist() == expected


def test_one_extent_can_be_kept(tmp_path: Path) -> None:
    path = saved(tmp_path, picture(4, 6, 3))
    assert Image2Tensor(path, 8, -1).dtype().shape == [1, 8, 6, 3]
    assert Image2Tensor(path, -1, 3).dtype().shape == [1, 4, 3, 3]
    for wrong in (0, -2, 1 << 17):
        with pytest.raises(InternalError, match="Image2Tensor: width"):
            Image2Tensor(path, -1, wrong)
    with pytest.raises(TypeError, match="width: a whole number is needed"):
        Image2Tensor(path, -1, 1.5)  # type: ignore[call-overload]


def test_a_value_says_what_a_picture_becomes(tmp_path: Path) -> None:
    pixels = picture(4, 6, 3)
    path = saved(tmp_path, pixels)
    blue_first = Image2Tensor(path, value(UINT8, [1, 4, 6, 3]), True)
    assert np.array_equal(np.asarray(blue_first)[0], pixels[..., ::-1])
    assert np.array_equal(np.asarray(Image2Tensor(path, value(UINT8, [1, 4, 6, 3])))[0], pixels[..., ::-1])
    red_first = Image2Tensor(path, value(FloatType.FP32(), [1, 3, 4, 6], "NCHW"), bgr_order=False)
    assert np.array_equal(np.asarray(red_first)[0], pixels.transpose(2, 0, 1).astype(np.float32))
    assert red_first.dtype().layout.toString() == "NCHW"
    assert np.asarray(Image2Tensor(path, value(UINT8, [1, 2, 3, 3]), False)).shape == (1, 2, 3, 3)
    assert np.asarray(Image2Tensor(path, value(UINT8, [1, -1, -1, -1]), False)).shape == (1, 4, 6, 3)
    assert np.asarray(Image2Tensor(path, value(UINT8, [1, 4, 6, 1]), False)).shape == (1, 4, 6, 1)
    assert np.asarray(Image2Tensor(path, value(UINT8, [1, 4, 6, 4]), True))[..., 3].min() == 255


@pytest.mark.parametrize(
    ("element", "shape", "layout"),
    [
        (UINT8, [2, 4, 6, 3], "NHWC"),
        (UINT8, [4, 6, 3], "HWC"),
        (UINT8, [1, 4, 6, 2], "NHWC"),
        (UINT8, [1, 1, 4, 6, 4], "NCHWc4"),
        (IntegerType.SInt8(), [1, 4, 6, 3], "NHWC"),
        (FloatType.BF16(), [1, 4, 6, 3], "NHWC"),
    ],
)
def test_what_is_no_picture_is_refused(tmp_path: Path, element: ScalarType, shape: list[int], layout: str) -> None:
    with pytest.raises(InternalError, match="Image2Tensor: "):
        Image2Tensor(saved(tmp_path, picture(4, 6, 3)), value(element, shape, layout), True)


def test_files_that_are_no_pictures(tmp_path: Path) -> None:
    with pytest.raises(InternalError, match=r"\[11002\] .*there is no file"):
        Image2Tensor(tmp_path / "nothing.png")
    (tmp_path / "text.png").write_text("no picture")
    with pytest.raises(InternalError, match=r"\[11011\] .*no picture that Pillow knows"):
        Image2Tensor(tmp_path / "text.png")
    cut = tmp_path / "cut.png"
    cut.write_bytes(Path(saved(tmp_path, picture(64, 64, 3))).read_bytes()[:400])
    with pytest.raises(InternalError, match=r"\[11011\] .*cut\.png"):
        Image2Tensor(cut)


def test_pictures_of_other_kinds_are_converted(tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    for mode, channels in (("1", 1), ("P", 3), ("LA", 4), ("CMYK", 3), ("L", 1)):
        path = tmp_path / ("picture.tif" if mode == "CMYK" else "picture.png")
        Image.fromarray(picture(4, 6, 3)).convert("L" if mode == "LA" else "RGB").convert(mode).save(path)
        assert Image2Tensor(path).dtype().shape == [1, 4, 6, channels]


def test_without_pillow_the_cure_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name == "PIL":
            raise ImportError("no PIL", name="PIL")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ImportError, match=r"pip install 'triune\[images\]'"):
        Image2Tensor(tmp_path / "picture.png")


# ---- raw elements


def test_a_file_of_raw_elements_is_read(tmp_path: Path) -> None:
    path = tmp_path / "7.ftmp"
    path.write_bytes(np.arange(6, dtype=np.int16).tobytes())
    of = value(IntegerType.SInt16(), [1, 1, 2, 3])
    tensor = Ftmp2Tensor(path, of)
    assert tensor.dtype() == of.tensorType()
    assert np.asarray(tensor).reshape(-1).tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(("count", "expected"), [(2, [0, 1, 0]), (5, [0, 1, 2])])
def test_a_file_of_another_size_gives_a_warning(tmp_path: Path, count: int, expected: list[int]) -> None:
    path = tmp_path / "7.ftmp"
    path.write_bytes(np.arange(count, dtype=np.int32).tobytes())
    with pytest.warns(UserWarning, match=rf"has {4 * count} bytes, value .* takes 12"):
        tensor = Ftmp2Tensor(path, value(IntegerType.SInt32(), [3], "*"))
    assert np.asarray(tensor).tolist() == expected


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    of = value(UINT8, [3], "*")
    with pytest.raises(InternalError, match=r"\[11002\]"):
        Ftmp2Tensor(tmp_path / "none.ftmp", of)
    with pytest.raises(InternalError, match=r"\[11011\]"):
        Ftmp2Tensor(tmp_path, of)


def test_what_is_dumped_is_read_again(tmp_path: Path) -> None:
    tensor = Tensor(np.arange(12, dtype=np.float32).reshape(1, 2, 2, 3), Layout("NHWC"))
    with open(tmp_path / "1.ftmp", "wb") as file:
        tensor.dump(file, "SFB")
    back = Ftmp2Tensor(tmp_path / "1.ftmp", Value(tensor.dtype()))
    assert np.array_equal(np.asarray(back), np.asarray(tensor))


# ---- decoders


def test_a_decoder_that_cannot_be_loaded(tmp_path: Path) -> None:
    library = tmp_path / "decoder.so"
    with pytest.raises(InternalError, match=r"\[11011\] .*decoder\.so cannot be loaded"):
        DecodeWithDecoder(library, "file.bin", [])
    library.write_bytes(b"no library")
    with pytest.raises(InternalError, match="cannot be loaded"):
        DecodeWithDecoder(library, "file.bin", [])


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler to make a library with")
@pytest.mark.parametrize("function", ["GetCustomDecoder", "something_else"])
def test_a_decoder_is_a_library_of_another_language(tmp_path: Path, function: str) -> None:
    (tmp_path / "decoder.c").write_text(f"void *{function}(void) {{ return 0; }}\n")
    library = tmp_path / "decoder.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "decoder.c"], check=True)
    if function == "GetCustomDecoder":
        with pytest.raises(NotImplementedError, match=r"C\+\+ CustomDecoder.*for file\.bin"):
            DecodeWithDecoder(library, "file.bin", [])
    else:
        with pytest.raises(InternalError, match="no function GetCustomDecoder"):
            DecodeWithDecoder(library, "file.bin", [])
