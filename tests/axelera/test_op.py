"""`axelera.runtime.op`: pipelines as the vendor documents them, beside numbers that are worked out by hand."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import triune
from triune.axelera.runtime import InvalidArgument, op
from triune.models import DIGITS_F32, DIGITS_INT8, digits_held_out

Array = npt.NDArray[Any]


def test_a_classifier_on_a_card_and_on_the_cpu(package: Path, tmp_path: Path) -> None:
    scans = digits_held_out()[0][:8]
    pictures = np.round(scans * 255).astype(np.uint8)
    (wanted,) = triune.Session(DIGITS_INT8).run({"image": scans.transpose(0, 3, 1, 2).copy()})
    archive = tmp_path / "digits.axm"
    with zipfile.ZipFile(archive, "w") as written:
        for file in package.parent.iterdir():
            written.write(file, f"model/{file.name}")
    for path in (package, package.parent, archive):
        model = op.load(str(path))
        pipeline = op.seq(op.to_tensor(), model, op.top_k(k=2), op.ax_classification()).optimized()
        for picture, scores, found in zip(pictures, wanted, pipeline.batch(pictures), strict=True):
            assert [one.class_id for one in found] == np.argsort(-scores, kind="stable")[:2].tolist()
            assert found[0].score >= found[1].score
            assert model(op.to_tensor()(picture)).shape == (1, 10)
        model.release()
    on_cpu = op.onnx_model(DIGITS_F32, provider="cpu")
    (reals,) = triune.Session(DIGITS_F32).run({"image": scans[:1].transpose(0, 3, 1, 2).copy()})
    np.testing.assert_array_equal(on_cpu(scans[0].transpose(2, 0, 1)), reals)


def test_models_are_read_when_they_are_named(package: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "vendor.axm", "w") as written:
        written.writestr("kernel.elf", "")
    for wrong, what in (
        ("nothing.axm", "does not exist"),
        ("pipeline.axe", r"\.axe"),
        (tmp_path / "vendor.axm", "no model.json in it"),
    ):
        with pytest.raises(InvalidArgument, match=what):
            op.load(wrong)
    model = op.load(package)
    with pytest.raises(InvalidArgument, match="expected shape"):
        model(np.zeros((1, 9, 9), np.float32))
    with pytest.raises(
        InvalidArgument, match=r"expected shape \[1, 1, 8, 8\], got \[1, 8, 8, 1\]; op\.to_tensor\(\) brings"
    ):
        model(np.zeros((1, 8, 8, 1), np.float32))
    with pytest.raises(InvalidArgument, match="expected 1 inputs"):
        model()
    model.release()
    with pytest.raises(InvalidArgument, match="has been released"):
        model(np.zeros((1, 8, 8), np.float32))
    with pytest.raises(InvalidArgument, match="provider 'cuda' is not there"):
        op.onnx_model(DIGITS_F32, provider="cuda")


def test_pictures() -> None:
    random = np.random.default_rng(0)
    picture = random.integers(0, 256, (4, 6, 3), np.uint8)
    np.testing.assert_array_equal(op.color_convert("RGB", src="BGR")(picture), picture[..., ::-1])
    np.testing.assert_array_equal(np.asarray(op.colorconvert("BGRA", "RGB")(picture))[..., 3], np.full((4, 6), 255))
    grey = op.color_convert("GRAY", src="RGB")(picture)
    np.testing.assert_allclose(grey, picture @ [0.299, 0.587, 0.114], atol=0.51)
    with pytest.raises(InvalidArgument, match="give src"):
        op.color_convert("RGB")(picture)
    # Twice as wide and high: each pixel is a quarter of one neighbour and three of the other.
    row = np.array([[0, 100, 200]], np.uint8)
    assert op.resize(width=6, height=1)(row).tolist() == [[0, 25, 75, 125, 175, 200]]
    assert op.resize(size=8, half_pixel_centers=True)(picture).shape == (8, 12, 3)
    np.testing.assert_array_equal(op.center_crop((2, 4))(picture), picture[1:3, 1:5])
    with pytest.raises(ValueError, match="5 by 5"):
        op.center_crop(5)(picture)
    boxed = op.letterbox(12, 12)(picture)
    assert boxed.shape == (12, 12, 3)
    assert (boxed[:2] == 114).all()
    assert (boxed[10:] == 114).all()
    np.testing.assert_array_equal(boxed[2:10], op.resize(width=12, height=8)(picture))
    tensor = op.to_tensor()(picture)
    np.testing.assert_array_equal(tensor, picture.transpose(2, 0, 1).astype(np.float32) / np.float32(255))
    normal = op.normalize(mean=[0.5, 0.25, 0], std=[1, 2, 4])(tensor)
    np.testing.assert_allclose(normal[1], (tensor[1] - 0.25) / 2, rtol=1e-6)


def suppressed(rows: Array, threshold: float) -> Array:
    """Return the boxes that stay, by the definition: go through them by falling score, compare with all that stayed."""
    kept: list[Array] = []
    for row in sorted(rows, key=lambda row: -row[4]):
        for other in kept:
            width = min(row[2], other[2]) - max(row[0], other[0])
            height = min(row[3], other[3]) - max(row[1], other[1])
            shared = max(width, 0) * max(height, 0)
            both = (row[2] - row[0]) * (row[3] - row[1]) + (other[2] - other[0]) * (other[3] - other[1]) - shared
            if row[5] == other[5] and shared > threshold * both:
                break
        else:
            kept.append(row)
    return np.array(kept)


def test_boxes() -> None:
    random = np.random.default_rng(1)
    raw = np.zeros((1, 7, 300), np.float32)
    raw[0, :2], raw[0, 2:4] = random.uniform(10, 90, (2, 300)), random.uniform(1, 40, (2, 300))
    raw[0, 4:] = random.uniform(0, 1, (3, 300))
    decode = op.decode_detections(algo="yolov8", num_classes=3, confidence_threshold=0.5)
    rows = decode(raw)
    best = raw[0, 4:].max(0)
    assert len(rows) == (best >= 0.5).sum()
    first = np.flatnonzero(best >= 0.5)[0]
    x, y, width, height = raw[0, :4, first]
    np.testing.assert_allclose(rows[0, :4], [x - width / 2, y - height / 2, x + width / 2, y + height / 2], rtol=1e-6)
    assert rows[0, 5] == raw[0, 4:, first].argmax()
    np.testing.assert_array_equal(decode(raw.transpose(0, 2, 1)), rows)
    kept = op.nms(iou_threshold=0.3)(rows)
    np.testing.assert_array_equal(kept, suppressed(rows, 0.3))
    assert 3 < len(kept) < len(rows)
    assert len(op.nms(max_boxes=2)(rows)) == 2
    older = np.concatenate([raw[:, :4], np.full((1, 1, 300), 0.5, np.float32), raw[:, 4:]], 1)
    assert len(op.decode_detections("yolov5", 3, 0.25)(older)) == len(rows)
    with pytest.raises(InvalidArgument, match="7 numbers for each box, got shape"):
        decode(raw[:, :6])
    with pytest.raises(InvalidArgument, match="is none of yolov5"):
        op.decode_detections("detr", 3)(raw)


def test_boxes_of_heads() -> None:
    """What a detector cut at its last convolutions gives: by loops over places, sides and bins."""
    random, classes, bins = np.random.default_rng(2), 3, 4
    strides = {8: (4, 6), 16: (2, 3)}
    sides = {
        stride: random.normal(0, 2, (1, 4 * bins, *extents)).astype(np.float32) for stride, extents in strides.items()
    }
    scores = {
        stride: random.normal(-1, 2, (1, classes, *extents)).astype(np.float32) for stride, extents in strides.items()
    }
    wanted = []
    for stride, (height, width) in strides.items():
        for y, x in np.ndindex(height, width):
            logits = scores[stride][0, :, y, x]
            score = 1 / (1 + np.exp(-logits.max()))
            if score < 0.5:
                continue
            distances = []
            for side in range(4):
                weights = np.exp(sides[stride][0, side * bins : (side + 1) * bins, y, x].astype(np.float64))
                distances.append(sum(bin * weight for bin, weight in enumerate(weights)) / weights.sum())
            left, top, right, bottom = distances
            corners = [x + 0.5 - left, y + 0.5 - top, x + 0.5 + right, y + 0.5 + bottom]
            wanted.append([*(corner * stride for corner in corners), score, logits.argmax()])
    assert 3 < len(wanted) < 30
    decode = op.decode_detections(algo="yolo11", num_classes=classes, confidence_threshold=0.5)
    rows = decode(sides[8], sides[16], scores[8], scores[16])
    np.testing.assert_allclose(rows, wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(decode(scores[16], sides[16], sides[8], scores[8]), rows)
    # A picture that was brought to the model's size says what the strides are.
    picture = np.zeros((300, 450, 3), np.uint8)
    with op.frame_context(picture):
        assert op.letterbox(96, 64)(picture).shape == (64, 96, 3)
        np.testing.assert_allclose(
            decode(sides[8], sides[16], scores[8], scores[16])[:, :4], 2 * rows[:, :4], rtol=1e-5
        )
    with pytest.raises(InvalidArgument, match=r"one output with 3 classes, or for each.*\(16, 4, 6\), \(16, 2, 3\)"):
        decode(sides[8], sides[16])
    with pytest.raises(InvalidArgument, match="expected one output for algo 'yolov5', got 2"):
        op.decode_detections("yolov5", classes)(sides[8], scores[8])
    with pytest.raises(InvalidArgument, match="expected one output for algo 'yolov5', got 0"):
        op.decode_detections("yolov5", classes)()


@pytest.mark.parametrize(("height", "width"), [(480, 640), (640, 480), (100, 333), (640, 640)])
def test_boxes_come_back_to_the_picture(height: int, width: int) -> None:
    boxes = np.array([[1, 2, width - 3, height - 4, 0.75, 0], [width / 2, 0, width, height / 3, 0.5, 2]], np.float32)
    points = np.array([[3, 4, 0.5], [width - 1, height - 1, 1]], np.float32)
    picture = np.zeros((height, width, 3), np.uint8)

    class Model(op.Operator):
        """Finds the boxes where they are in its input."""

        extra: int = 0

        def __call__(self, tensor: Array) -> Array:
            assert tensor.shape == (3, 320, 320)
            ratio = min(320 / width, 320 / height)
            left, top = (320 - round(width * ratio)) // 2, (320 - round(height * ratio)) // 2
            found = np.concatenate([boxes, points], 1)
            for place in (0, 2, 6):
                found[:, place] = found[:, place] * round(width * ratio) / width + left
                found[:, place + 1] = found[:, place + 1] * round(height * ratio) / height + top
            return found

    pipeline = op.seq(op.letterbox(320, 320), op.to_tensor(), Model(), op.to_image_space(keypoint_cols=range(6, 9, 3)))
    scale = np.array([width, height, width, height, 1, 1, width, height, 1], np.float32)
    np.testing.assert_allclose(pipeline(picture) * scale, np.concatenate([boxes, points], 1), atol=1e-3)
    objects = op.seq(pipeline, op.ax_detection(class_id_type=op.CocoClasses), op.filter(min_score=0.6))(picture)
    assert [(one.index, one.class_id, one.score) for one in objects] == [(0, op.CocoClasses.person, 0.75)]
    assert objects[0].bbox.to_pixels(width, height) == tuple(boxes[0, :4])
    assert list(objects[0].bbox) == pytest.approx(boxes[0, :4] / scale[:4], abs=1e-5)
    (pose, _) = op.seq(pipeline, op.ax_pose(num_keypoints=1))(picture)
    assert (pose.keypoints[0].frame_x(width), pose.keypoints[0].frame_y(height)) == (3, 4)
    for image, found in pipeline.stream([picture, picture]):
        assert image is picture
        assert len(found) == 2
    with op.frame_context(picture):
        boxed = op.letterbox(320, 320)(picture)
        rows = op.to_image_space()(Model()(op.to_tensor()(boxed)))
        np.testing.assert_allclose(rows[:, :4] * scale[:4], boxes[:, :4], atol=1e-3)
    with pytest.raises(InvalidArgument, match="no letterbox"):
        op.to_image_space()(boxes)


def test_branches_and_own_operators() -> None:
    class Scale(op.Operator):
        """Multiplies."""

        factor: float = 1.0
        offset: float = 0.0

        def __call__(self, x: Array) -> Array:
            return x * self.factor + self.offset

    x = np.arange(3.0)
    branched = op.seq(op.par(Scale(2), op.seq(Scale(factor=3), Scale(1, offset=1))), op.pack(), op.itemgetter(1))
    np.testing.assert_array_equal(branched(x), x * 3 + 1)
    both = op.seq(op.par(Scale(2), op.identity()))(x)
    assert isinstance(both, tuple)
    named = op.seq(op.par(Scale(2, name="left"), Scale(3, name="right")))(x)
    np.testing.assert_array_equal(named.right, x * 3)
    assert Scale(2).optimized()(x).tolist() == [0, 2, 4]
    for wrong in ({"speed": 1}, {"factor": 1, "name": "x", "other": 2}):
        with pytest.raises(TypeError, match="Scale"):
            Scale(**wrong)
    with pytest.raises(TypeError, match="missing"):
        op.letterbox(1)
    assert op.CocoClasses(79).name == "toothbrush"
    assert len(op.CocoClasses) == 80


def test_the_import_name(package: Path, tmp_path: Path) -> None:
    import subprocess

    program = tmp_path / "program.py"
    program.write_text(
        "from axelera.runtime import op\nimport axelera.runtime.op as same\nimport numpy as np, sys\nassert same is op\n"
        "print(op.seq(op.totensor(), op.load(sys.argv[1]).optimized())(np.zeros((8, 8, 1), np.uint8)).shape)\n"
    )
    command = [sys.executable, "-m", "triune", "compat", "run", str(program), str(package)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.stdout == "(1, 10)\n", done.stderr


def test_names_of_own_operators_are_kept_and_pipelines_are_not_written(tmp_path: Path) -> None:
    class Own(op.Operator):
        def __call__(self, x: Any) -> Any:
            return x

    class Other(Own):
        pass

    op.OperatorRegistry.register("test-own", Own)
    op.OperatorRegistry.register("test-own", Own)
    with pytest.raises(InvalidArgument, match="'test-own' is Own already"):
        op.OperatorRegistry.register("test-own", Other)
    with pytest.raises(TypeError, match=r"expected a class of op\.Operator"):
        op.OperatorRegistry.register("test-more", 3)
    with pytest.raises(NotImplementedError, match=r"own\.axe: \.axe files are not written"):
        op.seq(Own()).save_axe(tmp_path / "own.axe")
    assert not list(tmp_path.iterdir())
