"""`axelera.runtime.cv` and `display`: pictures in, pictures out."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image as Pillow

from triune.axelera.runtime import Image, InvalidArgument, cv, display, op

Array = npt.NDArray[np.uint8]


def pictures(count: int = 3) -> list[Array]:
    return [np.full((24, 32, 3), (40 * number, 90, 200 - 40 * number), np.uint8) for number in range(count)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "pictures"
    made.mkdir()
    for number, pixels in enumerate(pictures()):
        Pillow.fromarray(pixels).save(made / f"{number}.png")
    (made / "notes.txt").write_text("none of them")
    return made


def test_files_and_folders(folder: Path) -> None:
    with cv.create_source(str(folder)) as source:
        assert isinstance(source, cv.Source)
        assert (source.fps, source.frame_count) == (0, 3)
        found = list(source)
    for image, pixels, number in zip(found, pictures(), range(3), strict=True):
        assert isinstance(image, Image)
        assert (image.color_format.name, image.source) == ("RGB", str(folder / f"{number}.png"))
        np.testing.assert_array_equal(image.to_numpy(), pixels)
    (alone,) = cv.create_source(folder / "1.png")
    np.testing.assert_array_equal(alone, pictures()[1])
    shapes = [result.shape for _, result in op.seq(op.letterbox(8, 8), op.to_tensor()).stream(str(folder))]
    assert shapes == [(3, 8, 8)] * 3


def test_what_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "bad.png").write_text("none")
    (tmp_path / "empty").mkdir()
    heard: list[Any] = []
    for name, what in (("none.png", "no such file"), ("empty", "no pictures")):
        with pytest.raises(InvalidArgument, match=what):
            cv.create_source(tmp_path / name, event_callback=lambda *event: heard.append(event))
    with pytest.raises(InvalidArgument, match=r"bad\.png"):
        list(cv.create_source(tmp_path / "bad.png", lambda *event: heard.append(event)))
    assert [code for code, _ in heard] == [-1] * 3
    with pytest.raises(ValueError, match="none of ffmpeg, opencv"):
        cv.create_source(tmp_path, backend="gst")  # type: ignore[arg-type]


def test_videos(tmp_path: Path, video: Callable[..., Path]) -> None:
    file = video(tmp_path / "clip.mp4", pictures(5))
    for backend in ("ffmpeg", "opencv"):
        if backend == "opencv" and find_spec("cv2") is None:
            continue
        with cv.create_source(file, backend=backend) as source:
            assert (source.frame_count, source.fps) == (5, pytest.approx(10))
            images = list(source)
        assert len(images) == 5
        times = [image.presentation_timestamp for image in images]
        assert times == pytest.approx([0, 100_000, 200_000, 300_000, 400_000], abs=2000)
        for image, pixels in zip(images, pictures(5), strict=True):
            assert abs(image.to_numpy().astype(int) - pixels).max() < 24, "the codec may blur"
        source.close()
    (tmp_path / "bad.mp4").write_bytes(b"none")
    with pytest.raises(InvalidArgument, match="not a video"):
        cv.create_source(tmp_path / "bad.mp4")
    with pytest.raises(InvalidArgument, match="no such file"):
        cv.create_source(tmp_path / "gone.mp4")


def test_without_decoders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *rest: None)
    with pytest.raises(ImportError, match=r"triune\[video\]"):
        cv.create_source(tmp_path / "clip.mp4")


FOUND: dict[str, Any] = {
    "box": [op.DetectedObject(0, op.CocoClasses.car, op.BBox(0.25, 0.25, 0.75, 0.75), 0.5)],
    "pose": [
        op.PoseObject(0, [op.Keypoint(0.5, 0.5, 0.9), op.Keypoint(0.1, 0.1, 0.2)], op.BBox(0.2, 0.2, 0.8, 0.8), 1, 0)
    ],
    "mask": [op.SegmentedObject(0, 1, np.full((4, 4), 255, np.uint8), op.BBox(0.25, 0.25, 0.75, 0.75), 0.5)],
    "turned": [op.OrientedObject(0, 2, 0.5, 0.5, 0.4, 0.2, 0.6, 0.9)],
    "track": op.Tracker("sort")([op.DetectedObject(0, 1, op.BBox(0.25, 0.25, 0.75, 0.75), 0.5)]),
    "classes": [op.Classification(op.CocoClasses.dog, 0.75)],
    "depth": op.DepthMap(np.arange(12, dtype=np.float32).reshape(3, 4)),
    "map": op.SemanticMap(np.eye(3, dtype=np.int64)),
    "nested": (([op.DetectedObject(0, 3, op.BBox(0, 0, 0.5, 0.5), 0.5)], []), None),
}


@pytest.mark.parametrize("kind", FOUND)
def test_drawing(kind: str) -> None:
    before = np.full((60, 80, 3), 100, np.uint8)
    after = display.draw(Image.from_array(before, "RGB"), FOUND[kind])
    assert after.shape == before.shape
    changed = (after != before).any(-1)
    assert changed.any()
    assert (before == 100).all(), "the picture itself stays as it is"
    if kind in ("depth", "map"):
        assert changed.mean() > 0.9
    if kind == "mask":
        assert changed[20:40, 25:55].all()
        assert not changed[46:, 62:].any()
    if kind == "box":
        # The frame: a quarter of the extents from each edge.
        assert changed[15:45, 20].all()
        assert changed[15, 20:60].all()
        assert not changed[47:].any()


@pytest.mark.parametrize(
    ("box", "rows", "columns"),
    [
        (op.BBox(0, 0, 1, 1), slice(0, 6), slice(0, 8)),
        (op.BBox(-1, -1, 2, 2), slice(0, 6), slice(0, 8)),
        (op.BBox(0.5, 0.5, 1, 1), slice(3, 6), slice(4, 8)),
        (op.BBox(0, 0, 0.5, 0.5), slice(0, 3), slice(0, 4)),
        (op.BBox(0, 0, 1, 1, _frame=op.BBox(0.25, 0.5, 1, 1)), slice(3, 6), slice(2, 8)),
        (op.BBox(0.5, 0, 0.5, 1), slice(0, 0), slice(0, 0)),
    ],
)
def test_a_mask_colors_all_of_its_box(box: op.BBox, rows: slice, columns: slice) -> None:
    canvas = display.Draw(np.full((6, 8, 3), 100, np.uint8))
    canvas.segmentation_mask(np.full((4, 4), 255, np.uint8), box, (255, 0, 0))
    expected = np.zeros((6, 8), bool)
    expected[rows, columns] = True
    np.testing.assert_array_equal((canvas.pixels != 100).any(-1), expected)


def test_drawing_leaves_others_alone() -> None:
    before = np.full((20, 20, 3), 100, np.uint8)
    for nothing in ([], None, 3, np.zeros((2, 6))):
        np.testing.assert_array_equal(display.draw(before, nothing), before)
    with pytest.raises(TypeError, match="NoneType"):
        display.draw(None, [])
    assert len({display.track_color(number) for number in range(50)}) == 50


def test_windows(tmp_path: Path) -> None:
    bgr = np.full((60, 80, 3), (200, 0, 0), np.uint8)
    logo = tmp_path / "logo.png"
    Pillow.new("RGB", (8, 8), (0, 255, 0)).save(logo)
    with display.App(renderer="none") as app:
        window = app.create_window("title", (80, 60))
        window.options(0, title="above")
        window(bgr, FOUND["box"])
        assert window.picture is not None
        assert window.picture[59, 0].tolist() == [0, 0, 200], "an array is BGR"
        first = window.picture.copy()
        layer = window.text("2%, 50%", "one\ntwo", anchor_x="left", anchor_y="top", font_size=12)
        same = window.text("2%, 60%", "three", existing=layer)
        assert same is layer
        picture = window.image("100%, 100%", logo, scale=0.5, anchor_x="right", anchor_y="bottom")
        window(bgr, None)
        assert (window.picture != first).any()
        assert window.picture[59, 79].tolist() == [0, 255, 0]
        layer.hide()
        picture.hide()
        layer["text"] = "never"
        window(bgr, FOUND["box"])
        np.testing.assert_array_equal(window.picture, first)
        window.text("here, there", "x")
        with pytest.raises(InvalidArgument, match="20px, 10%"):
            window(bgr)
        window.wait_for_close()
        assert window.is_closed
        window(bgr)
        assert window.shown == 3
        seen: list[int] = []
        app.start_thread(seen.append, (1,), name="work")
        app.run()
        app.start_thread(lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            app.run()
    with pytest.raises(InvalidArgument, match="auto, opencv, console, none"):
        display.App(renderer="vulkan")


def test_the_console(capsys: pytest.CaptureFixture[str]) -> None:
    with display.App(renderer="console") as app:
        app.create_window("title")(np.zeros((40, 80, 3), np.uint8), [])
    written = capsys.readouterr().out
    assert written.count("▀") == 80 * 20
    assert display.App().renderer == "none", "nobody looks at a pipe"


def test_a_program_as_the_vendors_examples_are(folder: Path, package: Path) -> None:
    """A window, a source, a pipeline, results by name: what each of the vendor's examples does."""
    with display.App(renderer="none") as visualizer:
        vis = visualizer.create_window("digits", (800, 500))
        pipeline = op.seq(
            op.color_convert("GRAY"),
            op.resize(width=8, height=8),
            op.to_tensor(),
            op.load(str(package)),
            op.softmax(),
            op.ax_classification(),
            op.top_k(k=2),
        ).optimized()
        label = None
        with cv.create_source(str(folder), backend="ffmpeg") as source:
            for img, best in pipeline.stream(source, max_in_flight=2):
                if vis.is_closed:
                    break
                lines = [f"{rank}. {c.class_id} {c.score * 100:.1f}%" for rank, c in enumerate(best, 1)]
                label = vis.text(
                    "2%, 8%", "\n".join(lines), anchor_x="left", anchor_y="top", font_size=8, existing=label
                )
                vis(img, None)
        assert (vis.shown, len(best)) == (3, 2)
        assert best[0].score >= best[1].score > 0
        vis.wait_for_close()
