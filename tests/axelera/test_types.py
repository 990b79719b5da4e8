"""`axelera.types`: what the vendor's public programs and tests ask of it."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pillow

import triune
from triune.axelera import types
from triune.axelera.runtime.display import draw

Task = types.TaskCategory


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("Classification", [Task.Classification]),
        ("objectdetection", [Task.ObjectDetection]),
        ("ObjectDetection | KeypointDetection", [Task.ObjectDetection, Task.KeypointDetection]),
        (["Classification", " InstanceSegmentation"], [Task.Classification, Task.InstanceSegmentation]),
        (Task.SemanticSegmentation | Task.ImageEnhancement, [Task.SemanticSegmentation, Task.ImageEnhancement]),
    ],
)
def test_tasks(given: Any, wanted: list[types.TaskCategory]) -> None:
    found = Task.parse(given)
    assert (set(found), len(found)) == (set(wanted), len(wanted))
    assert types.ModelInfo("m", given, [3, 8, 8]).task_category == found


def test_names_are_checked() -> None:
    with pytest.raises(ValueError, match="Unknown TaskCategory Clasification, valid options are Classification Object"):
        Task.parse("Clasification")
    with pytest.raises(TypeError, match=r"Invalid type for TaskCategory `int`, use str or list\[str\]"):
        Task.parse(1)
    assert types.ColorFormat.parse("bgr") is types.ColorFormat.BGR
    with pytest.raises(ValueError, match="Unknown ColorFormat RGBX, valid options are RGB BGR RGBA BGRA GRAY"):
        types.ColorFormat.parse("RGBX")
    with pytest.raises(TypeError, match="Invalid type for ColorFormat `int`, use str"):
        types.ColorFormat.parse(1)
    assert types.BoxFormat.parse("xywhr").name == "XYWHR"


@pytest.mark.parametrize(
    ("shape", "layout", "extents"),
    [
        ((1, 3, 10, 16), "nchw", (16, 10, 3)),
        ([1, 10, 16, 3], "nhwc", (16, 10, 3)),
        ((3, 10, 16, 1), "chwn", (16, 10, 3)),
        ((3, 10, 16), "nchw", (16, 10, 3)),
        ((10, 16, 3), "nhwc", (16, 10, 3)),
        ((3, 10, 16), "chwn", (16, 10, 3)),
    ],
)
def test_shapes_of_inputs(shape: Any, layout: str, extents: tuple[int, ...]) -> None:
    info = types.ModelInfo("n", "classification", shape, input_tensor_layout=layout)
    assert (info.input_width, info.input_height, info.input_channel) == extents


def test_records_of_models() -> None:
    for wrong in ([1], [1, 2], [1, 2, 3, 4, 5]):
        with pytest.raises(ValueError, match="Invalid input tensor shape"):
            types.ModelInfo("n", "classification", wrong)
    with pytest.raises(ValueError, match="not known"):
        _ = types.ModelInfo("n", "LanguageModel", None, None, None).input_width
    info = types.ModelInfo("s", "Classification", [3, 10, 15], "rgb", "nchw", labels=["a"])
    text = json.loads(info.to_json())
    assert list(text)[:5] == [
        "name",
        "task_category",
        "input_tensor_shape",
        "input_color_format",
        "input_tensor_layout",
    ]
    assert (text["task_category"], text["input_color_format"], text["extra_kwargs"]) == ("Classification", "RGB", {})
    assert "manifest" not in text
    assert len(text) == 19
    again = types.ModelInfo.from_json(info.to_json())
    assert (again, again.input_tensor_shape) == (info, [1, 3, 10, 15])
    with pytest.raises(ValueError, match="unknown"):
        types.ModelInfo.from_json('{"nam": "x"}')
    with pytest.raises(triune.errors.FileError, match="/dev/zero"):
        types.ModelInfo.from_json(Path("/dev/zero"))


def test_manifests(package: Path) -> None:
    manifest = types.Manifest("path", quantize_params=((0.007, 0),), dequantize_params=((0.084, 59), (0.14, -8)))
    assert (manifest.quantized_model_file, manifest.is_compiled()) == ("path", False)
    assert types.Manifest(**json.loads(json.dumps(manifest.__dict__))).dequantize_params == [[0.084, 59], [0.14, -8]]
    assert types.Manifest.__dataclass_fields__["manifest_version"].default
    written = json.loads((package.parent / "manifest.json").read_text())
    read = types.Manifest(**written)
    assert read.manifest_version in ("1.0", types.Manifest("x").manifest_version)
    assert (types.Manifest(**written | {"input_names": ["image"]}).input_names, types.Manifest("x").input_names) == (
        ["image"],
        (),
    )
    assert (read.is_compiled(), read.input_tensor_layout, len(read.n_padded_ch_inputs[0])) == (True, "NHWC", 8)
    assert read.input_shapes[0][-1] >= read.input_shapes_original[0][1]


def test_pictures() -> None:
    rgb = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    picture = types.Image.fromarray(rgb, types.ColorFormat.BGR)
    assert (picture.size, picture.pitch, picture.pixel_stride, picture.has_pil) == ((4, 2), 12, 3, False)
    assert picture.asarray() is rgb
    np.testing.assert_array_equal(picture.asarray("RGB"), rgb[..., ::-1])
    np.testing.assert_array_equal(np.asarray(picture.aspil()), rgb[..., ::-1])
    assert types.Image.fromarray(np.zeros((2, 3, 4), np.uint8)).color_format is types.ColorFormat.RGBA
    assert types.img.fromany(rgb[..., :1], "BGR").color_format is types.ColorFormat.GRAY
    pil = types.Image.fromany(Pillow.fromarray(rgb))
    assert (pil.color_format.name, pil.has_pil, pil.size) == ("RGB", True, (4, 2))
    np.testing.assert_array_equal(pil.asarray("GRAY"), np.rint(rgb @ [0.299, 0.587, 0.114]))
    assert types.Image.fromany(picture) is picture
    with pytest.raises(TypeError, match="NoneType"):
        types.Image.fromany(None)
    with pytest.raises(NotImplementedError, match="GStreamer"):
        types.Image.fromgst(object())
    with picture.as_ndarray_view() as view, pytest.raises(ValueError, match="read-only"):
        view[0] = 0
    with picture.as_c_void_p() as pointer:
        assert bytes((ctypes.c_ubyte * 24).from_address(pointer.value or 0)) == rgb.tobytes()


@pytest.mark.parametrize(
    ("pixels", "said"),
    [
        (
            np.zeros((2, 4, 3), np.float32),
            r"float32 in shape \(2, 4, 3\): expected uint8.*\* 255\)\.round\(\)\.astype\('uint8'\)",
        ),
        (
            np.zeros((2, 4, 4), np.uint16),
            r"uint16 in shape \(2, 4, 4\): expected uint8.*, such as pixels\.astype\('uint8'\)",
        ),
        (np.zeros((2, 4), np.int64), r"int64 in shape \(2, 4\): expected uint8"),
    ],
)
def test_pillow_takes_uint8(pixels: np.ndarray[Any, Any], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        types.Image.fromarray(pixels).aspil()
    with pytest.raises(TypeError, match=said):
        draw(pixels, [])


def test_pillow_takes_up_to_four_channels() -> None:
    with pytest.raises(TypeError, match=r"uint8 in shape \(2, 4, 5\): expected uint8 of 1, 3 or 4 channels$"):
        types.Image.fromarray(np.zeros((2, 4, 5), np.uint8)).aspil()


# Y, U and V of white, black, and the primaries in limited range, as ITU-R BT.601 has them.
YUV = {
    (235, 128, 128): (255, 255, 255),
    (16, 128, 128): (0, 0, 0),
    (81, 90, 240): (255, 0, 0),
    (41, 240, 110): (0, 0, 255),
}


@pytest.mark.parametrize("name", ["I420", "NV12", "NV16", "YUY2"])
def test_shared_colors(name: str) -> None:
    from triune.axelera.runtime import Image

    for (y, u, v), color in YUV.items():
        light, first, second = (np.full((4, 6), value, np.uint8) for value in (y, u, v))
        pairs = np.stack([first, second], -1)[:, ::2].reshape(4, 6)
        planes = {
            "I420": np.concatenate([light, first[::2, ::2].reshape(1, 6), second[::2, ::2].reshape(1, 6)]),
            "NV12": np.concatenate([light, pairs[::2]]),
            "NV16": np.concatenate([light, pairs]),
            "YUY2": np.stack([light, pairs], -1),
        }
        picture = Image.from_array(planes[name], name)
        assert picture.shape == (4, 6, 3)
        assert abs(picture.convert("rgb").to_numpy().astype(int) - color).max() <= 2, (name, color)
        assert picture.is_convert_available("GRAY")
        assert not picture.is_convert_available("NV12" if name != "NV12" else "I420")
    packed = Image.from_array(np.zeros((2, 2, 3), np.uint8))
    assert packed.color_format.name == "PACKED"
    with pytest.raises(ValueError, match="cannot convert PACKED to RGB"):
        packed.convert("RGB")
    with pytest.raises(ValueError, match="no color format"):
        Image.from_array(np.zeros((2, 2, 5), np.uint8))
    with pytest.raises(ValueError, match="multiples of 3"):
        Image.from_array(np.zeros((4, 4), np.uint8), "NV12")


def test_a_programs_own_classes() -> None:
    class Sample(types.BaseEvalSample):
        data = 3

    class Measure(types.Evaluator):
        def __init__(self) -> None:
            self.right: list[bool] = []

        def process_meta(self, meta: Any) -> None:
            self.right.append(bool(meta))

        def collect_metrics(self) -> types.EvalResult:
            result = types.EvalResult(["top-1", "count"], {"top-1": ["average"]}, "top-1", "average")
            result.set_metric_result("top-1", sum(self.right) / len(self.right), "average", is_percentage=True)
            result.set_metric_result("count", len(self.right))
            return result

    class Data(types.DataAdapter):
        def reformat_for_validation(self, batched_data: Any) -> list[types.FrameInput]:
            return [types.FrameInput.from_image(one, "BGR", Sample(), img_id="x") for one in batched_data]

        def evaluator(self, *_: Any, **__: Any) -> types.Evaluator:
            return Measure()

    class Net(types.ONNXModel):
        def init_model_deploy(self, model_info: Any, dataset_config: Any, **kwargs: Any) -> None:
            self.onnx_model = model_info

    data = Data({"data_dir_name": "x"}, None)
    (frame,) = data.reformat_for_validation([np.zeros((2, 2, 3), np.uint8)])
    assert frame.img is not None
    assert frame.ground_truth is not None
    assert (frame.img.color_format.name, frame.ground_truth.data, frame.stream_id) == ("BGR", 3, 0)
    assert data.reformat_for_calibration(5) == 5
    with pytest.raises(NotImplementedError, match="create_validation_data_loader"):
        data.create_validation_data_loader("root", "val")
    measure = data.evaluator()
    for right in (True, False, True, True):
        measure.process_meta(right)
    result = measure.collect_metrics()
    assert list(result) == [("top-1", "average", 0.75), ("count", "", 4)]
    assert (result.key_metric, result["top-1"], result.percentages) == (0.75, {"average": 0.75}, {("top-1", "average")})
    with pytest.raises(ValueError, match="'mAP' is none of top-1"):
        result.set_metric_result("mAP", 1)
    with pytest.raises(ValueError, match="'sum' of 'top-1' is none of average"):
        result.set_metric_result("top-1", 1, "sum")
    Net().init_model_deploy(1, 2)
    with pytest.raises(TypeError, match="abstract"):
        types.Model()  # type: ignore[abstract]


def run(folder: Path, code: str, *, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    program = folder / "program.py"
    program.write_text(code)
    import os

    environment = {**os.environ, "PYTHONPATH": str(path) if path else ""}
    command = [sys.executable, "-m", "triune", "compat", "run", str(program)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)


def test_the_import_names(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        "from axelera import types\nfrom axelera.types import Image, img, enums\nfrom axelera.runtime import op, cv, display\n"
        "from axelera.runtime.cv import source\nfrom axelera.runtime2 import op as older\nimport axelera.runtime as rt\n"
        "import triune.axelera.types as ours, subprocess, sys\n"
        "assert types is ours and img.Image is Image and enums.ColorFormat is types.ColorFormat and older is op\n"
        "assert rt.Image is source.Image and rt.cv is cv and rt.display is display\n"
        "subprocess.run([sys.executable, '-c', 'import axelera.types as t; print(t.__name__)'], check=True)\n",
    )
    assert (done.stdout, done.stderr) == ("triune.axelera.types\n", "")


def test_siblings_that_are_installed_win(tmp_path: Path) -> None:
    site = tmp_path / "site" / "axelera" / "types"
    site.mkdir(parents=True)
    (site / "__init__.py").write_text("real = True\n")
    child = "subprocess.run([sys.executable, '-c', 'import axelera.types as t; print(t.real)'], check=True)\n"
    code = (
        "import subprocess, sys\nimport axelera.types, axelera.runtime\nprint(axelera.types.real, flush=True)\n" + child
    )
    done = run(tmp_path, code, path=tmp_path / "site")
    assert (done.stdout, done.stderr) == ("True\nTrue\n", "")
