"""`axelera.runtime.op`: what is made of detectors' outputs, parts, classes and tracks, beside numbers worked out by hand."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from triune.axelera.runtime import Image, InvalidArgument, op
from triune.axelera.runtime.op._suppression import _area, _clipped, _corners
from triune.axelera.runtime.op._tracking import cheapest, overlaps

Array = npt.NDArray[Any]


def test_boxes_know_their_forms() -> None:
    box = op.BBox(0.25, 0.5, 0.75, 1.0)
    assert (box.width, box.height) == (0.5, 0.5)
    assert op.BBox.from_xywh(*box.xywh()) == op.BBox.from_ltwh(*box.ltwh()) == op.BBox(*box.xyxy()) == box
    assert box.to_pixels(100, 50) == (25, 25, 75, 49)
    assert op.BBox(-1, 0, 2, 0.3).to_pixels(10, 10) == (0, 0, 9, 3)
    inner = op.BBox(0.5, 0, 1, 0.5).in_frame_of(box)
    assert inner == op.BBox(0.5, 0.5, 0.75, 0.75)
    part = op.BBox(0, 0, 1, 1, _frame=inner)
    assert part.frame_pixels(100, 100) == inner.to_pixels(100, 100)
    assert part == op.BBox(0, 0, 1, 1)


def test_a_second_model_works_on_parts(tmp_path: Path) -> None:
    picture = np.zeros((40, 80, 3), np.uint8)
    picture[10:30, 20:60] = (10, 20, 30)

    class Boxes(op.Operator):
        """Finds a part of its input: the left half."""

        def __call__(self, tensor: Array) -> Array:
            _, rows, columns = tensor.shape
            return np.array([[0, 0, columns / 2, rows, 0.9, 3, columns / 4, rows / 2, 1]], np.float32)

    whole = op.BBox(0.25, 0.25, 0.75, 0.75)
    inside = op.seq(op.resize(width=8, height=16), op.to_tensor(), Boxes())
    pipeline = op.seq(
        op.identity,
        lambda image: [op.DetectedObject(0, 1, whole, 0.5), op.DetectedObject(1, 1, op.BBox(0, 0, 0.5, 1), 0.7)],
        op.for_each("poses", op.crop_roi(property="bbox"), inside, op.to_image_space(keypoint_cols=[6]), op.ax_pose(1)),
    )
    result = pipeline(picture)
    assert [one.score for one in result.input] == [0.5, 0.7]
    (pose,), _ = result.poses
    assert pose.bbox == op.BBox(0, 0, 0.5, 1)
    assert pose.bbox.frame_pixels(80, 40) == (20, 10, 40, 30)
    assert (pose.keypoints[0].frame_x(80), pose.keypoints[0].frame_y(40)) == (30, 20)
    part = op.seq(lambda image: [op.DetectedObject(bbox=whole)], op.for_each(op.crop_roi("bbox"), iter="found"))(
        picture
    )
    np.testing.assert_array_equal(part.results[0], picture[10:30, 20:60])
    assert part.found[0].bbox is whole
    rows = op.seq(op.resize(width=8, height=8), lambda _: [np.array([2.0, 2, 4, 4])])
    part = op.seq(rows, op.for_each(op.crop_roi(indices=(0, 1, 2, 3), format=op.CoordFormat.LTWH)))(picture)
    assert part.results[0].shape == (20, 40, 3)
    np.testing.assert_array_equal(part.results[0], picture[10:30, 20:60])
    with pytest.raises(TypeError, match="no picture is known"):
        op.crop_roi(property="bbox")(op.DetectedObject(bbox=whole))
    with op.frame_context(picture), pytest.raises(ValueError, match="ends before it begins"):
        op.crop_roi(property="bbox")(op.DetectedObject(bbox=op.BBox(0.5, 0.5, 0.4, 0.9)))


@pytest.mark.parametrize(
    ("box", "place"),
    [
        ((0.5, 0.5, 0.5, 0.9), np.s_[20:36, 40:41]),
        ((1, 0, 1, 1), np.s_[0:40, 79:80]),
        ((0, 1, 1, 1), np.s_[39:40, 0:80]),
        ((1, 1, 1, 1), np.s_[39:40, 79:80]),
        ((0, 0, 0, 0), np.s_[0:1, 0:1]),
        ((0.5, 0.5, 0.501, 0.501), np.s_[20:21, 40:41]),
    ],
)
def test_a_part_has_one_pixel_at_least(box: tuple[float, float, float, float], place: Any) -> None:
    picture = np.random.default_rng(6).integers(0, 256, (40, 80, 3), np.uint8)
    with op.frame_context(picture):
        part = op.crop_roi(property="bbox")(op.DetectedObject(bbox=op.BBox(*box)))
    np.testing.assert_array_equal(part, picture[place])


def test_a_part_by_numbers_is_one_that_is_known() -> None:
    picture = np.random.default_rng(6).integers(0, 256, (40, 80, 3), np.uint8)

    def part(row: list[float], **how: Any) -> Array:
        with op.frame_context(picture):
            op.resize(width=8, height=8)(picture)
            found: Array = op.crop_roi(**{"indices": (0, 1, 2, 3), **how})(np.array(row))
            return found

    np.testing.assert_array_equal(part([2, 2, 4, 4], format="ltwh"), picture[10:30, 20:60])
    np.testing.assert_array_equal(part([-math.inf, 0, 4, math.inf]), picture[:, :40])
    for wrong in ("ltrb", "yxyx", None):
        with pytest.raises(InvalidArgument, match=r"crop_roi: format .* is none of XYXY, XYWH, LTWH"):
            part([2, 2, 4, 4], format=wrong)
    for places in ((0, 1, 2), (0, 1, 2, 9), 3):
        with pytest.raises(InvalidArgument, match=r"crop_roi: indices .* are not four places of a row of shape \(4,\)"):
            part([2, 2, 4, 4], indices=places)
    with pytest.raises(ValueError, match="no number"):
        part([math.nan, 2, 4, 4])


def test_what_is_found_on_an_edge_is_classified() -> None:
    # What lies in the letterbox's border comes back as a box on the picture's edge.
    picture = np.random.default_rng(7).integers(0, 256, (40, 80, 3), np.uint8)
    rows = lambda _: np.array([[2, 2, 6, 8, 0.9, 1], [0, 0, 16, 3, 0.8, 0]], np.float32)  # noqa: E731
    found = op.seq(
        op.letterbox(16, 16),
        rows,
        op.to_image_space(),
        op.ax_detection(),
        op.for_each("parts", op.crop_roi(property="bbox"), op.resize(width=4, height=4), op.to_tensor()),
    )(picture)
    assert [part.shape for part in found.parts] == [(3, 4, 4)] * 2


def test_geometry_goes_back_through_several_operators() -> None:
    picture = np.zeros((60, 120, 3), np.uint8)
    with op.frame_context(picture):
        made = op.center_crop((30, 40))(op.resize(size=40)(picture))
        assert made.shape[:2] == (30, 40)
        # Resized to 80 by 40: 20 columns and 5 rows are cut off.
        rows = op.to_image_space()(np.array([[10, 5, 30, 15, 1, 0]], np.float32))
        np.testing.assert_allclose(rows[0, :4], [30 / 80, 10 / 40, 50 / 80, 20 / 40], atol=1e-6)
        turned = op.to_image_space(box_format="xywhr")(np.array([[10, 5, 8, 4, 1, 0, 0.5]], np.float32))
        np.testing.assert_allclose(turned[0, [0, 1, 2, 3, 6]], [30 / 80, 10 / 40, 0.1, 0.1, 0.5], atol=1e-6)


def test_numbers_of_pictures() -> None:
    picture = np.random.default_rng(5).integers(0, 256, (4, 5, 3), np.uint8)
    scaled = op.seq(op.toimage(), op.todtype(scale=True))(picture)
    np.testing.assert_array_equal(scaled, op.to_tensor()(picture))
    np.testing.assert_array_equal(op.to_dtype()(picture), picture.astype(np.float32))
    with pytest.raises(InvalidArgument, match="makes floats"):
        op.to_dtype(np.int8, scale=True)(picture)
    last = op.linear_scaling(scale=[127.5], shift=[-1.0], layout="HWC")(picture)
    np.testing.assert_allclose(last, picture / 127.5 - 1, atol=1e-6)
    hwc = op.normalize([1, 2, 3], [2, 4, 8], layout=op.TensorLayout.HWC)(picture.astype(np.float32))
    np.testing.assert_allclose(hwc[..., 1], (picture[..., 1].astype(float) - 2) / 4)
    stretched = op.contrast_normalize()(picture)
    assert (stretched.min(), stretched.max()) == (0, 1)
    assert not op.contrast_normalize()(np.full((2, 2), 7)).any()
    np.testing.assert_allclose(op.softmax()(np.array([[1.0, 2, 3]])).sum(), 1, rtol=1e-6)


def test_masks() -> None:
    random = np.random.default_rng(3)
    protos = random.normal(size=(1, 4, 20, 30)).astype(np.float32)
    raw = np.zeros((1, 4 + 2 + 4, 5), np.float32)
    raw[0, :4, 2] = (40, 40, 40, 40)  # centre and extents: 20 to 60, in pixels of an input of 120 by 80
    raw[0, 4:6, 2] = (0.2, 0.8)
    raw[0, 6:, 2] = (1, -0.5, 0.25, 0.75)
    decode = op.decode_segmentation("yolov8", num_classes=2, num_mask_coeffs=4, confidence_threshold=0.5)
    rows, kept = decode(raw, protos)
    np.testing.assert_array_equal(rows, [[20, 20, 60, 60, np.float32(0.8), 1, 1, -0.5, 0.25, 0.75]])
    for again in (decode((raw, protos)), decode(protos, raw)):
        np.testing.assert_array_equal(again[0], rows)
    (mask,) = op.proto_to_mask(num_mask_coeffs=4)(rows, kept)
    # The sigmoid of the weighed prototypes, cut out: a pixel of them is four by four of the input.
    weighed = np.tensordot(raw[0, 6:, 2], protos[0], 1)[5:15, 5:15]
    np.testing.assert_array_equal(mask, np.where(1 / (1 + np.exp(-weighed)) > 0.5, 255, 0))
    assert {0, 255} == set(np.unique(mask).tolist())
    (found,) = op.ax_segmentation(class_id_type=op.CocoClasses)(rows / 120, [mask])
    assert (found.class_id, found.mask is mask) == (op.CocoClasses.person, True)
    whole = op.seq(
        decode,
        op.par(op.seq(op.itemgetter(0), op.nms()), op.itemgetter(1)),
        op.par(op.seq(op.pack(), op.itemgetter(0)), op.proto_to_mask(num_mask_coeffs=4)),
        op.ax_segmentation(),
    )
    assert [one.class_id for one in whole(raw, protos)] == [1]
    with pytest.raises(InvalidArgument, match="expected two outputs"):
        decode(raw)
    with pytest.raises(InvalidArgument, match="1 boxes and 0 masks"):
        op.ax_segmentation()(rows, [])
    scores = random.normal(size=(1, 3, 4, 5))
    classes = op.seq(op.decode_semantic_segmentation(num_classes=3), op.ax_semantic_segmentation())(scores)
    np.testing.assert_array_equal(classes.classes, scores[0].argmax(0))
    np.testing.assert_array_equal(op.ax_depth_map()(scores[:, :1]).depth, scores[0, 0].astype(np.float32))
    with pytest.raises(ValueError, match="one map"):
        op.ax_depth_map()(scores)


def test_turned_boxes() -> None:
    raw = np.zeros((1, 4 + 2 + 1, 4), np.float32)
    raw[0, :, 0] = (50, 50, 40, 20, 0.9, 0.1, math.pi / 2)
    raw[0, :, 1] = (52, 50, 40, 20, 0.8, 0.1, math.pi / 2)
    raw[0, :, 2] = (50, 50, 40, 20, 0.7, 0.1, 0.0)
    rows = op.decode_obb(num_classes=2)(raw)
    assert rows.shape == (3, 7)
    kept = op.nms(iou_threshold=0.5, box_format="xywhr")(rows)
    assert kept[:, 4].tolist() == pytest.approx([0.9, 0.7]), "across each other, a third is shared"
    assert len(op.nms(iou_threshold=0.3, box_format="xywhr")(rows)) == 1
    kept[:, :4] /= 100
    upright, flat = op.ax_obb(class_id_type=op.DotaClasses)(kept)
    assert upright.class_id is op.DotaClasses.plane
    assert sorted(upright.to_corners_pixels(100, 100)) == [(40, 30), (40, 70), (60, 30), (60, 70)]
    assert [round(v, 6) for v in flat.bbox.xyxy()] == [0.3, 0.4, 0.7, 0.6]
    picture = np.zeros((100, 100), np.uint8)
    picture[30:70, 40:60] = 200
    with op.frame_context(picture):
        part = op.crop_rotated_roi()(upright)
    assert part.shape == (20, 40)
    assert (part == 200).mean() > 0.9
    random = np.random.default_rng(2)
    for _ in range(20):
        one, other = (
            np.array([*random.uniform(0, 4, 2), *random.uniform(1, 6, 2), 1, 0, random.uniform(0, 3)]) for _ in "ab"
        )
        shared = _area(_clipped(_corners(one), _corners(other)))
        points = random.uniform(-6, 12, (200_000, 2))
        inside = np.ones(len(points), bool)
        for box in (one, other):
            cos, sin = math.cos(box[6]), math.sin(box[6])
            x, y = (points - box[:2]).T
            inside &= (abs(x * cos + y * sin) < box[2] / 2) & (abs(-x * sin + y * cos) < box[3] / 2)
        assert shared == pytest.approx(inside.mean() * 18 * 18, abs=0.35)


def test_choosing() -> None:
    objects = [
        op.DetectedObject(n, n % 2, op.BBox(0.1 * n, 0, 0.1 * n + 0.05 * (n + 1), 0.2), n / 10) for n in range(4)
    ]
    assert [one.index for one in op.sort_by()(objects)] == [3, 2, 1, 0]
    assert [one.index for one in op.sort_by("area", top=2)(objects)] == [3, 2]
    near = op.sort_by(by="center_distance", descending=False, top=1)(objects)
    assert near[0].index == 3
    odd, even = op.split(class_ids=[1])(objects)
    assert ([one.index for one in odd], [one.index for one in even]) == ([1, 3], [0, 2])
    with pytest.raises(InvalidArgument, match="center_distance"):
        op.sort_by(by="name")(objects)
    values, places = op.top1()(np.array([3.0, 9, 4]))
    assert (values.tolist(), places.tolist()) == ([9], [1])
    pipeline = op.seq(op.identity(), op.seq(op.filter(min_score=0.2), name="inner"))
    pipeline.node(cls=op.filter).min_score = 0.3
    assert len(pipeline(objects)) == 1
    assert pipeline.node("inner") is pipeline.operators[1]
    with pytest.raises(KeyError, match="Nms"):
        pipeline.node(cls=op.nms)
    assert op.seq(op.constant(value=3))(8) == 3
    assert op.seq(lambda x: (x, x + 1), op.unpack(), lambda a, b: a * b)(4) == 20
    assert pipeline.batch([objects, objects]) == [[objects[3]]] * 2
    assert op.seq(lambda a, b: a - b).batch(np.array([5, 7]), [1, 2]) == [4, 5]
    for wrong, what in (
        (([1], [2, 3]), "not as many"),
        ((3,), "expected arrays or lists"),
        ((), "expected arrays or lists"),
    ):
        with pytest.raises(InvalidArgument, match=what):
            pipeline.batch(*wrong)


def test_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = {
        "a.txt": "traffic light\nStop sign, red\n\n9 lives\ntraffic light\n",
        "b.yaml": "path: x\nnames:\n  - traffic light\n  - 'Stop sign'  # a comment\n  - 9 lives\n  - traffic light\ntrain: y\n",
        "c.yaml": "names: [traffic light, Stop sign, 9 lives, traffic light]\nnc: 4\n",
        "e.txt": "{0: 'traffic light',\n 2: '9 lives', 1: \"Stop sign, red\",\n 3: 'traffic light'}\n",
        "f.json": '["traffic light", "Stop sign", "9 lives", "traffic light"]',
        "d.yml": "names:\n  0: traffic light\n  2: 9 lives\n  1: Stop sign\n  3: traffic light\n",
    }
    for name, text in written.items():
        (tmp_path / name).write_text(text)
        classes = op.load_classes(tmp_path / name)
        wanted = ["traffic_light", "stop_sign", "class_9_lives", "traffic_light_3"]
        assert [one.name for one in classes] == wanted, name
        assert [int(one) for one in classes] == [0, 1, 2, 3]
    for name, text in {"g.txt": "", "h.yaml": "nc: 3\n", "i.txt": "['a', '']"}.items():
        (tmp_path / name).write_text(text)
        with pytest.raises(InvalidArgument, match=r"names of classes|number 1 is missing or empty"):
            op.load_classes(tmp_path / name)
    assert (len(op.DotaClasses), len(op.COCO_KEYPOINT_NAMES)) == (15, 17)
    labels = tmp_path / "imagenet.txt"
    labels.write_text("\n".join(f"kind {number}, other" for number in range(1000)))
    from triune.axelera.runtime.op._classes import imagenet_classes

    monkeypatch.setenv("TRIUNE_IMAGENET_LABELS", str(labels))
    imagenet_classes.cache_clear()
    assert op.ImagenetClasses(7).name == "kind_7"
    imagenet_classes.cache_clear()
    monkeypatch.delenv("TRIUNE_IMAGENET_LABELS")
    monkeypatch.setitem(__import__("sys").modules, "torchvision.models._meta", None)
    with pytest.warns(UserWarning, match="TRIUNE_IMAGENET_LABELS"):
        assert op.ImagenetClasses(7).name == "class_7"
    imagenet_classes.cache_clear()


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 3), (2, 5), (5, 2), (6, 6)])
def test_cheapest_pairs(rows: int, columns: int) -> None:
    random = np.random.default_rng(rows * 7 + columns)
    for _ in range(30):
        cost = random.normal(size=(rows, columns))
        pairs = cheapest(cost)
        assert len(pairs) == min(rows, columns)
        short, long = sorted((rows, columns))
        square = cost if rows <= columns else cost.T
        best = min(sum(square[range(short), chosen]) for chosen in itertools.permutations(range(long), short))
        assert sum(cost[row, column] for row, column in pairs) == pytest.approx(best)


def walk(step: int, gap: range = range(0)) -> list[Any]:
    """Return two objects that cross each other's rows, one of which is not seen for a while."""
    first = op.BBox(0.05 + 0.02 * step, 0.2, 0.15 + 0.02 * step, 0.4)
    second = op.BBox(0.85 - 0.02 * step, 0.45, 0.95 - 0.02 * step, 0.7)
    found = [op.DetectedObject(0, op.CocoClasses.car, first, 0.9)] if step not in gap else []
    return [*found, op.DetectedObject(1, op.CocoClasses.bus, second, 0.8)]


@pytest.mark.parametrize("algo", ["bytetrack", "sort", "oc-sort", "tracktrack"])
def test_tracks_keep_their_numbers(algo: str) -> None:
    tracker = op.tracker(algo=algo)
    numbers: dict[Any, set[int]] = {}
    counts = []
    for step in range(30):
        objects = walk(step, range(12, 16))
        tracks = tracker(objects)
        counts.append(len(tracks))
        for track in tracks:
            assert track.tracked is objects[track.latest_det_id]
            assert overlaps(np.array(track.bbox.xyxy()), np.array(track.tracked.bbox.xyxy()))[0, 0] > 0.6
            numbers.setdefault(track.class_id, set()).add(track.track_id)
    assert counts[5:12] == [2] * 7
    assert counts[12:16] == [1] * 4
    assert {len(seen) for seen in numbers.values()} == {1}, numbers
    assert len(numbers) == 2


@pytest.mark.parametrize("algo", ["bytetrack", "sort", "oc-sort", "tracktrack"])
def test_tracks_are_lost_and_removed(algo: str) -> None:
    tracker = op.tracker(algo=algo, return_all_states=True, track_buffer=3, max_age=3, max_time_lost=3)
    states: list[set[str]] = []
    for step in range(14):
        tracks = tracker(walk(step, range(6, 14)))
        states.append({one.state.name for one in tracks if one.class_id is op.CocoClasses.car})
        assert all(one.latest_det_id == -1 for one in tracks if one.state.name in ("lost", "removed"))
    assert states[5] == {"tracked"}
    assert states[6] == {"lost"}
    assert {"removed"} in states
    assert states[-1] == set()


def test_what_trackers_do_not() -> None:
    with pytest.raises(InvalidArgument, match="bytetrack, sort, oc-sort, tracktrack"):
        op.tracker(algo="deepsort")
    for name in ("reid", "cmc_enabled", "enable_id_recovery", "use_aflink"):
        with pytest.raises(InvalidArgument, match=name):
            op.tracker(**{name: True})
    tracker = op.tracker()
    assert tracker([]) == []
    assert len(tracker(walk(0))) == 0
    assert len(tracker(walk(1))) == 2, "two pictures confirm a track that was not there in the first one"
    tracker.reset()
    assert [one.track_id for one in tracker(walk(0))] == [1, 2]


def test_pictures_keep_their_order_of_colors() -> None:
    rgb = np.random.default_rng(1).integers(0, 256, (4, 6, 3), np.uint8)
    pipeline = op.seq(op.color_convert("RGB", src="BGR"), op.to_image_tensor())
    np.testing.assert_array_equal(pipeline(Image.from_array(rgb, "RGB")), rgb.transpose(2, 0, 1))
    np.testing.assert_array_equal(pipeline(rgb), rgb[..., ::-1].transpose(2, 0, 1))
    from PIL import Image as Pillow

    np.testing.assert_array_equal(op.seq(op.color_convert("BGR"))(Pillow.fromarray(rgb)).to_numpy(), rgb[..., ::-1])
