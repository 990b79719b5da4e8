"""What clumsy programs give: it is right, or named; never another number, and never without an end."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from triune.axelera import types
from triune.axelera.runtime import (
    Context,
    Image,
    IncompatibleDevice,
    InvalidArgument,
    InvalidConfiguration,
    Model,
    TensorInfo,
    cv,
    display,
    op,
)

Tensor = npt.NDArray[Any]

NAN, INF = float("nan"), float("inf")
HUGE = 10**5000
"""A number that Python writes no digits of."""
PICTURE = np.arange(8 * 10 * 3, dtype=np.uint8).reshape(8, 10, 3)
ROW = [0.0, 0.0, 1.0, 1.0, 0.9, 0.0]


class Unshowable:
    """An object of a program's own whose text fails."""

    def __repr__(self) -> str:
        raise KeyError("no text")


@pytest.mark.parametrize(
    "value", [pytest.param(HUGE, id="huge"), np.array([1, 2]), np.array("a"), Unshowable(), 1 << 200]
)
def test_numbers_that_are_none_are_named(context: Context, model: Model, value: object) -> None:
    connection = context.device_connect()
    for call, name in (
        (lambda: context.device_connect(value), "device"),  # type: ignore[arg-type]
        (lambda: context.device_connect(None, value), "num_sub_devices"),  # type: ignore[arg-type]
        (lambda: connection.load_model_instance(model, aipu_cores=value), "aipu_cores"),  # type: ignore[arg-type]
        (lambda: connection.load_model_instance(model, double_buffer=value), "double_buffer"),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidArgument, match=f"^{name}: expected ") as caught:
            call()
        assert len(str(caught.value)) < 2000
    with pytest.raises(InvalidConfiguration, match=r"^clock_profile: expected an int or str, got"):
        context.configure_device(0, clock_profile=value)  # type: ignore[arg-type]


def test_names_of_properties_are_text(context: Context) -> None:
    with pytest.raises(InvalidConfiguration, match="unknown property"):
        context.configure_device(0, **{"\ud800": 1})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"shape": (1.7, 2)}, "expected a shape"),
        ({"shape": "12"}, "expected a shape"),
        ({"dtype": "no such"}, "expected a shape, a dtype"),
        ({"padding": [(0, 0), (0.5, 1)]}, "pairs of padding"),
        ({"scale": "1"}, "^scale: expected a number"),
        ({"scale": HUGE}, "^scale: expected a number, got a number of"),
        ({"zero_point": 1.5}, "^zero_point: expected an integer of 32 bits, got 1.5"),
        ({"zero_point": 1 << 70}, "^zero_point: expected an integer of 32 bits"),
    ],
)
def test_records_hold_what_they_say(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        TensorInfo(**{"shape": (1, 2), **fields})


def test_quantization_takes_numbers_alone() -> None:
    info, reals = TensorInfo((1, 2)), np.ones((1, 2))
    for wrong in (
        np.ma.masked_array(reals, mask=True),
        reals.astype(complex),
        reals.astype("S3"),
        reals.astype(object),
    ):
        with pytest.raises(InvalidArgument, match=r"^src: "):
            info.quantize(wrong)
    for wrong in (np.ma.masked_array(np.zeros((1, 2), np.int8), mask=True), None, "a"):
        with pytest.raises(InvalidArgument, match=r"^out: "):
            info.dequantize(wrong)  # type: ignore[arg-type]
        with pytest.raises(InvalidArgument, match=r"^out: "):
            info.depadded(wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=r"^zero_point: expected one that int8 holds, got 1000"):
        TensorInfo((1, 2), zero_point=1000).quantize(reals)


def test_results_go_to_the_beginning_of_a_buffer(
    context: Context, model: Model, frames: list[Tensor], tmp_path: Path
) -> None:
    """A descriptor that was opened to append writes behind what is there, wherever it is told to."""
    path, size = tmp_path / "buffer", model.outputs()[0].size
    path.write_bytes(bytes(size))
    instance = context.device_connect().load_model_instance(model, output_dmabuf=True)
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND)
    try:
        with pytest.raises(InvalidArgument, match=r"^outputs\[0\]: .* opened to append"):
            instance.run([frames[0]], [descriptor])
    finally:
        os.close(descriptor)
    assert path.read_bytes() == bytes(size)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int64, np.uint64, np.float16, np.float32, bool])
def test_the_largest_of_any_dtype(dtype: npt.DTypeLike) -> None:
    kind = np.dtype(dtype).kind
    least = 0 if kind in "bf" else np.iinfo(dtype).min  # type: ignore[arg-type]
    array = np.array([least, 1, 0, 1], dtype)
    for largest, order in ((True, [1, 3]), (False, [0, 2])):
        values, places = op.top_k(k=2, largest=largest)(array)
        assert places.tolist() == order
        assert values.tolist() == array[order].tolist()


def test_what_has_no_number_comes_last() -> None:
    objects = [op.DetectedObject(index, 0, None, score) for index, score in enumerate((0.5, NAN, 0.9, 0.7))]
    for descending, order in ((True, [2, 3, 0, 1]), (False, [0, 3, 2, 1])):
        assert [one.index for one in op.sort_by(descending=descending)(objects)] == order
    classes = [op.Classification(0, NAN), op.Classification(1, 0.6), op.Classification(2, 0.7)]
    assert [one.class_id for one in op.top_k(k=3)(classes)] == [2, 1, 0]


@pytest.mark.parametrize("dtype", [np.uint32, np.int64, np.float64])
def test_wide_numbers_keep_their_digits(dtype: npt.DTypeLike) -> None:
    value = np.array(2**32 - 1, dtype)
    np.testing.assert_array_equal(op.resize(width=2, height=3)(np.full((5, 4), value)), np.full((3, 2), value))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: op.top_k(k=-1)(np.arange(3)), "top_k: expected k of 0 or more"),
        (lambda: op.top_k(k=1)(np.array(["a"])), "top_k: expected an array of numbers"),
        (lambda: op.sort_by(top=-1)([]), "sort_by: expected top of 0 or more"),
        (lambda: op.sort_by()([op.DetectedObject()]), "sort_by: object 0 has nothing to order it by"),
        (lambda: op.center_crop(0)(PICTURE), "center_crop: size: expected a whole number of pixels"),
        (lambda: op.center_crop((4, -1))(PICTURE), "center_crop: width: "),
        (lambda: op.resize(width=2.5, height=2)(PICTURE), "resize: width: "),
        (lambda: op.resize(size=True)(PICTURE), "resize: size: "),
        (lambda: op.letterbox(0, 8)(PICTURE), "letterbox: width: "),
        (lambda: op.letterbox(8, 8, (300, 0, 0))(PICTURE), "fill_color: expected whole numbers from 0 to 255"),
        (lambda: op.letterbox(8, 8, 0.5)(PICTURE), "fill_color: expected whole numbers"),
        (lambda: op.letterbox(8, 8, (1, 2))(PICTURE), "fill_color: expected a number or one for each of 3 channels"),
        (lambda: op.letterbox(8, 8)(np.ma.masked_array(PICTURE, mask=True)), "letterbox: a masked array"),
        (lambda: op.to_tensor()(PICTURE.astype(complex)), "expected an array of numbers"),
        (lambda: op.to_dtype(np.uint8)(np.array([300.0])), "to_dtype: uint8 holds 0 to 255"),
        (lambda: op.to_dtype(np.uint8)(np.array([NAN])), "to_dtype: uint8 holds 0 to 255"),
        (lambda: op.to_dtype(np.int8)(np.array([200], np.uint8)), "to_dtype: int8 holds -128 to 127"),
        (lambda: op.to_dtype("no such")(PICTURE), "to_dtype: 'no such' is no dtype"),
        (lambda: op.to_dtype(np.float32, True)(np.ones(3, np.uint16)), "scale=True takes uint8, int16 and floats"),
        (lambda: op.normalize([0.5] * 3, [0.5])(np.zeros((1, 4, 5))), "normalize: mean: 3 numbers for the channels"),
        (lambda: op.normalize([0.5], [0.0])(np.zeros((3, 4, 5))), "normalize: std: expected numbers other than 0"),
        (lambda: op.normalize([NAN], [1.0])(np.zeros((3, 4, 5))), "normalize: mean: expected finite numbers"),
        (lambda: op.normalize([0.5], [1.0], "CWH")(np.zeros((3, 4, 5))), "normalize: mean: layout 'CWH' is none of"),
        (lambda: op.linear_scaling([0.0])(np.zeros((3, 4, 5))), "linear_scaling: scale: expected numbers other than 0"),
        (lambda: op.contrast_normalize()(np.array([[1.0, NAN]])), "contrast_normalize: expected finite numbers"),
        (lambda: op.contrast_normalize()(np.zeros((0, 3))), "contrast_normalize: expected finite numbers"),
        (lambda: op.decode_detections("yolov8", 1)(np.zeros((2, 5, 7))), "the output for one picture, got 2 of them"),
        (lambda: op.decode_detections(None, 1)(np.zeros((5, 7))), "algo None is none of"),
        (lambda: op.decode_segmentation("yolov8", 1)(np.zeros((1, 37, 9)), np.zeros((2, 32, 4, 4))), "32 prototypes"),
        (lambda: op.proto_to_mask(2.0, 2)(np.ones((1, 8)), np.ones((2, 4, 4))), "mask_threshold of 0 to 1"),
        (lambda: op.proto_to_mask(0.5, 2)(np.full((1, 8), NAN), np.ones((2, 4, 4))), "corners are finite"),
        (lambda: op.proto_to_mask(0.5, 3)(np.ones((1, 8)), np.ones((3, 4, 4))), "rows of at least 9 numbers"),
        (lambda: op.nms()(np.zeros((4, 4))), "nms: expected rows of at least 5 numbers"),
        (lambda: op.nms(box_format="xywhr")(np.zeros((4, 6))), "nms: expected rows of at least 7 numbers"),
        (lambda: op.nms(iou_threshold=NAN)([ROW]), "nms: expected iou_threshold and max_boxes of 0 or more"),
        (lambda: op.nms(max_boxes=-1)([ROW]), "nms: expected iou_threshold and max_boxes of 0 or more"),
        (lambda: op.ax_detection()(np.array([[*ROW[:5], NAN]])), "the number of a class, got nan"),
        (lambda: op.ax_pose()(np.zeros((1, 9))), "ax_pose: expected rows of at least 57 numbers"),
        (lambda: op.ax_semantic_segmentation()(np.array([[0.5, 1], [1, 2]])), "the numbers of classes"),
    ],
)
def test_operators_name_what_they_do_not_take(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        call()


def test_as_many_boxes_as_were_asked_for() -> None:
    boxes = np.array([[at, 0, at + 1, 1, 0.9, 0] for at in (0, 5, 10)], np.float32)
    for count in range(4):
        assert len(op.nms(max_boxes=count)(boxes)) == count
    assert op.nms()([]).shape == (0, 5)


@pytest.mark.parametrize("algo", ["bytetrack", "sort", "oc-sort", "tracktrack"])
@pytest.mark.parametrize("wrong", [NAN, INF, 1e300])
def test_a_tracker_refuses_what_is_nowhere(algo: str, wrong: float) -> None:
    tracker = op.tracker(algo=algo)
    right = op.DetectedObject(0, 0, op.BBox(0.1, 0.1, 0.2, 0.3), 0.9)
    with pytest.raises(InvalidArgument, match="tracker: object 1: expected a box"):
        tracker([right, op.DetectedObject(1, 0, op.BBox(0.5, wrong, 0.6, 0.9), 0.9)])
    for _ in range(4):
        found = tracker([right])
    assert [np.isfinite(one.bbox.xyxy()).all() for one in found] == [True]


def test_places_without_a_number_are_nowhere() -> None:
    assert op.BBox(-INF, 0, INF, 0.5).to_pixels(10, 10) == (0, 0, 9, 5)
    with pytest.raises(ValueError, match="nowhere in a picture"):
        op.BBox(0, NAN, 1, 1).to_pixels(10, 10)


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("c.txt", "a\na_2\na\n", ["a", "a_2", "a_2_2"]),
        ("c.txt", "mro\nname\nvalue\n\n", ["class_mro", "class_name", "class_value"]),
        ("c.yaml", "names:\n  0: a\n  2: c\n", "names: number 1 is missing"),
        ("c.yaml", "names: {0: a, 2: c}\n", "names: number 1 is missing"),
        ("c.yaml", "names: {1: b, 0: a,}\n", ["a", "b"]),
        ("c.yaml", "names: ['a, as in b', \"c d\", e]\n", ["a", "c_d", "e"]),
        ("c.yaml", f"names:\n  {'9' * 5000}: a\n", "expected names of classes"),
    ],
)
def test_classes_keep_their_numbers(tmp_path: Path, name: str, text: str, wanted: list[str] | str) -> None:
    file = tmp_path / name
    file.write_text(text)
    if isinstance(wanted, str):
        with pytest.raises(InvalidArgument, match=wanted):
            op.load_classes(file)
        return
    assert [(one.name, one.value) for one in op.load_classes(file)] == [(each, at) for at, each in enumerate(wanted)]


def test_pipes_are_no_pictures(tmp_path: Path) -> None:
    """Their writer may never come, and a decoder that waits for it hears no signal."""
    for name in ("f.png", "f.mp4"):
        os.mkfifo(tmp_path / name)
        with pytest.raises(InvalidArgument, match="cannot read"):
            list(cv.create_source(tmp_path / name))
    with display.App("none") as app, pytest.raises(InvalidArgument, match="it is a pipe"):
        app.create_window("w").image("0, 0", tmp_path / "f.png")
    for call in (cv.create_source, op.load):
        with pytest.raises(InvalidArgument) as caught:
            call("x" * 5000)
        assert len(str(caught.value)) < 2000


def test_damaged_archives_are_named(package: Path, tmp_path: Path) -> None:
    archive, whole = tmp_path / "model.axm", io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as opened:
        for file in sorted(package.parent.iterdir()):
            opened.write(file, file.name)
    good, rng = whole.getvalue(), np.random.default_rng(0)
    images = np.zeros((1, 1, 8, 8), np.float32)
    archive.write_bytes(good)
    model = op.load(archive)
    wanted = model(images)
    model.release()
    refused: list[str] = []
    for _ in range(200):
        bad, at = bytearray(good), int(rng.integers(len(good)))
        if rng.random() < 0.5:
            bad[at] ^= 1 << int(rng.integers(8))
        else:
            del bad[at : at + int(rng.integers(1, 50))]
        archive.write_bytes(bad)
        try:
            model = op.load(archive)
        except (InvalidArgument, IncompatibleDevice) as error:
            refused.append(str(error))
            continue
        np.testing.assert_array_equal(model(images), wanted)
        model.release()
    assert len(refused) > 100
    assert max(map(len, refused)) < 2000


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a/model.json", "b/model.json"], "expected one model, and there are 2"),
        (["x" * 300], "not an archive that can be read: File name too long"),
        ([f"file {number}" for number in range(1001)], "expected 1000 files"),
    ],
)
def test_archives_hold_one_model(tmp_path: Path, names: list[str], message: str) -> None:
    archive = tmp_path / "model.axm"
    with zipfile.ZipFile(archive, "w") as opened:
        for name in names:
            opened.writestr(name, "{}")
    with pytest.raises(InvalidArgument, match=message):
        op.load(archive)


def test_records_and_pictures_say_what_is_wrong() -> None:
    for call in (types.Image.frompil, Image.from_pil, types.Image.fromany):
        with pytest.raises(TypeError, match="expected"):
            call(io.TextIOWrapper(io.BytesIO()))
    for parse in (types.ColorFormat.parse, types.TaskCategory.parse, types.TensorLayout.parse):
        with pytest.raises(ValueError, match="Unknown") as caught:
            parse("x" * 100_000)
        assert len(str(caught.value)) < 2000


def test_maps_are_drawn_whatever_is_in_them() -> None:
    picture = np.zeros((4, 6, 3), np.uint8)
    # As many colors as there are classes, not as their numbers are high.
    drawn = display.draw(picture, op.SemanticMap(np.array([[2**40, 0, -1]])))
    assert len({tuple(pixel) for pixel in drawn[0].tolist()}) == 3
    known = display.draw(picture, op.DepthMap(np.array([[0, 1, 2]], np.float32)))
    odd = display.draw(picture, op.DepthMap(np.array([[NAN, 1, 2, INF]], np.float32)[:, [1, 1, 2]]))
    assert (odd[:, 4:] == known[:, 4:]).all()
    holed = display.draw(picture, op.DepthMap(np.array([[1, NAN, 2]], np.float32)))
    assert (holed[:, 2:4] == known[:, :2]).all()
    for empty in (op.DepthMap(), op.SemanticMap()):
        assert (display.draw(picture, empty) == picture).all()
    with pytest.raises(ValueError, match="masked array"):
        Image.from_array(np.ma.masked_array(picture, mask=True))


@pytest.mark.parametrize("position", ["", "20px", "nan%, 1px", "1e400px, 0", "1, 2, 3"])
def test_layers_lie_in_the_picture(position: str) -> None:
    with display.App("none") as app:
        window = app.create_window("w")
        window.text(position, "text")
        with pytest.raises(InvalidArgument, match="position"):
            window(PICTURE)


@pytest.mark.parametrize("size", [-1, NAN, 10**6, "large"])
def test_letters_fit_a_screen(size: object) -> None:
    with display.App("none") as app:
        window = app.create_window("w")
        window.text("0, 0", "text", font_size=size)
        with pytest.raises(InvalidArgument, match="font_size: expected 1 to"):
            window(PICTURE)
