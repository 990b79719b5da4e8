"""Pictures in, answers out: formats of bytes, what a model says of its pictures, bytes as its input, and boxes in its outputs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import triune
from triune._answers import Answer, Reader, draw
from triune._model_info import FILE, ModelInfo
from triune._picture_input import put_picture_input
from triune.batch import Preprocess, predict
from triune.batch._pictures import Frame
from triune.cli import main
from triune.errors import ArgumentError, FileError
from triune.models import DIGITS_F32, DIGITS_INT8, digits_held_out

Image = pytest.importorskip("PIL.Image")
onnx = pytest.importorskip("onnx")

Array = npt.NDArray[Any]


@pytest.fixture(autouse=True)
def own_cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test cards of its own."""
    monkeypatch.setenv("TRIUNE_RUNTIME_DIR", str(tmp_path / "run"))


def written(how: Preprocess, source: Any, frame: Frame) -> Array:
    out = np.full(frame.shape, 77, frame.dtype)
    how.write(source, frame, out)
    return out


def one_by_one(pairs: Array) -> Array:
    """Return RGB of Y0 U Y1 V, pixel by pixel, as BT.601 has it for limited range."""
    height, width, _ = pairs.shape
    rgb = np.zeros((height, width, 3), np.uint8)
    for row in range(height):
        for column in range(width):
            first = column - column % 2
            y, u, v = (float(each) for each in (pairs[row, column, 0], pairs[row, first, 1], pairs[row, first + 1, 1]))
            bright, blue, red = (y - 16) / 219, (u - 128) / 224, (v - 128) / 224
            r = bright + 2 * (1 - 0.299) * red
            g = bright - 2 * 0.114 * (1 - 0.114) / 0.587 * blue - 2 * 0.299 * (1 - 0.299) / 0.587 * red
            b = bright + 2 * (1 - 0.114) * blue
            rgb[row, column] = np.clip(np.rint(np.array([r, g, b]) * 255), 0, 255)
    return rgb


def test_formats_of_bytes() -> None:
    random = np.random.default_rng(1)
    frame = Frame("x", 3, 6, 8, "uint8", True)
    plain = Preprocess(scale=1.0)
    rgb = random.integers(0, 256, (6, 8, 3), np.uint8)
    assert np.array_equal(written(Preprocess(scale=1.0, format="bgr8"), rgb[..., ::-1], frame), rgb)
    gray = written(Preprocess(scale=1.0, format="gray8"), rgb[..., 0], frame)
    assert np.array_equal(gray, np.repeat(rgb[..., :1], 3, axis=2))
    pairs = random.integers(0, 256, (6, 8, 2), np.uint8)
    found = written(Preprocess(scale=1.0, format="yuyv"), pairs, frame)
    assert np.abs(found.astype(int) - one_by_one(pairs)).max() <= 1
    # Of another size it is scaled as a picture of these colors is.
    small = Frame("x", 3, 3, 4, "uint8", True)
    assert np.array_equal(written(Preprocess(scale=1.0, format="yuyv"), pairs, small), written(plain, found, small))
    for format, wrong in (("bgr8", pairs), ("gray8", rgb), ("yuyv", rgb), ("yuyv", pairs[:, :7])):
        with pytest.raises(ArgumentError, match=format):
            written(Preprocess(scale=1.0, format=format), wrong, frame)  # type: ignore[arg-type]


def test_pictures_as_pairs_of_pixels() -> None:
    """There and back, where two neighbours have one color."""
    random = np.random.default_rng(2)
    rgb = np.repeat(random.integers(0, 256, (5, 4, 3), np.uint8), 2, axis=1)
    pairs = written(Preprocess(scale=1.0, color="yuyv"), rgb, Frame("x", 2, 5, 8, "uint8", True))
    assert np.abs(one_by_one(pairs).astype(int) - rgb).max() <= 4


@pytest.mark.parametrize(
    "how",
    [
        Preprocess(),
        Preprocess(fit="pad", fill=114, corner=True, scale=1.0, color="bgr"),
        Preprocess.imagenet(format="yuyv", reducing_gap=2.0, size=(3, 4)),
    ],
)
def test_a_preprocess_goes_through_json(how: Preprocess) -> None:
    assert Preprocess.from_dict(json.loads(json.dumps(how.to_dict()))) == how


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "expected an object, got list"),
        ({"sclae": 1}, "unknown 'sclae'"),
        ({"fit": "cut"}, "fit: expected one of stretch, crop, pad, got 'cut'"),
        ({"scale": "1"}, "scale: got '1'"),
        ({"mean": [1, "2"]}, "mean: got"),
        ({"corner": 1}, "corner: got 1"),
        ({"std": 0}, "std: expected finite numbers other than 0"),
        ({"size": [3]}, "size: got"),
    ],
)
def test_a_damaged_preprocess(values: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        Preprocess.from_dict(values)


@pytest.mark.parametrize(
    "how",
    [Preprocess(), Preprocess(fit="pad"), Preprocess(fit="pad", corner=True), Preprocess(fit="crop", part=0.8)],
)
@pytest.mark.parametrize("size", [(200, 120), (90, 160), (64, 64)])
def test_places_in_pictures(how: Preprocess, size: tuple[int, int]) -> None:
    """A bright field lies where `place` says, as far as pixels tell."""
    pixels = np.zeros((size[1], size[0], 3), np.uint8)
    left, top, right, bottom = (
        int(each * part) for each, part in zip((*size, *size), (0.4, 0.3, 0.6, 0.7), strict=True)
    )
    pixels[top:bottom, left:right] = 255
    frame = Frame("x", 3, 48, 80, "float32", False)
    found = np.argwhere(written(how, pixels, frame)[0] > 0.5)
    fx, fy, ox, oy = how.place(size, (frame.width, frame.height))
    first, last = found.min(0), found.max(0) + 1
    box = (first[1] * fx + ox, first[0] * fy + oy, last[1] * fx + ox, last[0] * fy + oy)
    # What is cut off cannot be seen.
    seen = np.clip((left, top, right, bottom), [ox, oy] * 2, [ox + 80 * fx, oy + 48 * fy] * 2)
    assert np.allclose(box, seen, atol=1.5 * max(fx, fy) + 1)


def network(channels: int = 3, *, last: bool = False) -> Any:
    """Return a model that gives its pictures back."""
    dims = ["N", 4, 6, channels] if last else ["N", channels, 4, 6]
    values = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, dims) for name in ("x", "y")]
    node = onnx.helper.make_node("Identity", ["x"], ["y"])
    graph = onnx.helper.make_graph([node], "same", values[:1], values[1:])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("color", ["rgb", "bgr"])
@pytest.mark.parametrize("format", ["rgb8", "bgr8", "gray8", "yuyv"])
def test_bytes_as_input(format: Any, color: Any, last: bool) -> None:
    """The graph in front computes what `Preprocess` does, to the bit."""
    model = network(last=last)
    how = Preprocess(scale=200.0, mean=(0.1, 0.2, 0.3), std=(0.5, 0.6, 0.7), color=color)
    new = put_picture_input(model, format, how)
    onnx.checker.check_model(model)
    session = triune.Session(model)
    channels = {"gray8": 1, "yuyv": 2}.get(format, 3)
    assert session.inputs == [("x", "uint8", ("N", 4, 6, channels))]
    pixels = np.random.default_rng(3).integers(0, 256, (2, 4, 6, channels), np.uint8)
    (found,) = session.run({"x": pixels})
    frame = Frame("x", 3, 4, 6, "float32", last)
    reads = Preprocess(scale=200.0, mean=how.mean, std=how.std, color=color, format=format)
    for image, result in zip(pixels, found, strict=True):
        assert np.array_equal(result, written(reads, image, frame))
    # Bytes of that format go in as they are, and files by way of `new`.
    assert np.array_equal(next(predict(session, list(pixels), preprocess=new)).outputs["y"], found[0])
    rgb = np.repeat(np.random.default_rng(4).integers(60, 200, (4, 3, 3), np.uint8), 2, axis=1)
    (seen,) = session.run(session.feeds(Image.fromarray(rgb), preprocess=new))
    if format in ("rgb8", "bgr8"):
        assert np.array_equal(seen[0], written(how, rgb, frame))
    elif format == "yuyv":
        assert np.abs(seen[0] - written(how, rgb, frame)).max() < 0.05


@pytest.mark.parametrize("inside", [False, True], ids=["beside it", "in a subgraph"])
def test_names_of_the_model_stay_its_own(inside: bool) -> None:
    """A model whose tensors and nodes are called as what is put in front of it: all stay, and it computes the same."""
    helper, kinds = onnx.helper, onnx.TensorProto
    how = Preprocess(scale=200.0, mean=(0.1, 0.2, 0.3), std=(0.5, 0.6, 0.7), color="bgr")

    plain = network()
    put_picture_input(plain, "yuyv", how)
    made = [name for node in plain.graph.node for name in node.output if name != "y"]
    made += [tensor.name for tensor in plain.graph.initializer]
    called = [node.name for node in plain.graph.node if node.name]
    assert len(made) > 12
    assert len(called) > 8

    def chain(source: str, result: str) -> list[Any]:
        """Return nodes that hand a value on under each of the names."""
        names = [source, *made, result]
        labels = [*called, *(f"more{index}" for index in range(len(names) - 1 - len(called)))]
        return [
            helper.make_node("Identity", [a], [b], label) for a, b, label in zip(names, names[1:], labels, strict=False)
        ]

    def value(name: str, kind: int = kinds.FLOAT, dims: Any = ("N", 3, 4, 6)) -> Any:
        return helper.make_tensor_value_info(name, kind, dims)

    nodes = chain("x", "y")
    initializers = []
    if inside:
        branches = [
            helper.make_graph(chain("x", name), name, [], [value(name)])
            if name == "then"
            else helper.make_graph([helper.make_node("Neg", ["x"], [name])], name, [], [value(name)])
            for name in ("then", "else")
        ]
        initializers.append(helper.make_tensor("yes", kinds.BOOL, [], [True]))
        nodes = [helper.make_node("If", ["yes"], ["y"], then_branch=branches[0], else_branch=branches[1])]
    graph = helper.make_graph(nodes, "g", [value("x")], [value("y")], initializers)
    # The names of types count, too, as of a tensor that is there no more.
    graph.value_info.append(value("x_real_", kinds.INT64, [7]))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)

    put_picture_input(model, "yuyv", how)
    onnx.checker.check_model(model, full_check=True)
    own = model.graph
    if inside:
        (own,) = (entry.g for entry in model.graph.node[-1].attribute if entry.name == "then_branch")
    assert set(made) <= {name for node in own.node for name in node.output}
    everywhere = [*model.graph.node, *(own.node if inside else ())]
    outputs = [name for node in everywhere for name in node.output] + [t.name for t in model.graph.initializer]
    labels = [node.name for node in everywhere if node.name]
    assert len(set(outputs)) == len(outputs)
    assert len(set(labels)) == len(labels)
    pixels = np.random.default_rng(3).integers(0, 256, (2, 4, 6, 2), np.uint8)
    wanted = triune.Session(plain).run({"x": pixels})[0]
    assert np.array_equal(triune.Session(model).run({"x": pixels})[0], wanted)
    ort = pytest.importorskip("onnxruntime")
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, {"x": pixels})[0], wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("model", "format", "message"),
    [
        (network(1), "rgb8", "has one channel, which is gray8, got rgb8"),
        (network(2), "rgb8", r"expected float32 \(N, C, H, W\)"),
    ],
)
def test_models_that_take_no_such_bytes(model: Any, format: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        put_picture_input(model, format, Preprocess())


@pytest.fixture
def scans(tmp_path: Path) -> Path:
    folder = tmp_path / "scans"
    folder.mkdir()
    for index, scan in enumerate(digits_held_out()[0][:24]):
        Image.fromarray(np.uint8(scan[..., 0] * 255)).save(folder / f"{index:02}.png")
    return folder


@pytest.fixture
def names(tmp_path: Path) -> Path:
    (tmp_path / "names.txt").write_text("".join(f"digit {number}\n" for number in range(10)) + "\n")
    return tmp_path / "names.txt"


def test_what_is_stored_is_used(tmp_path: Path, scans: Path, names: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    model, package = tmp_path / "q.onnx", tmp_path / "package"
    options = ["--mean", "0.1", "--std", "1.5", "--resize", "letterbox", "--fill", "9", "--labels", str(names)]
    assert main(["quantize", str(DIGITS_F32), "--calibrate", str(scans), "-o", str(model), *options]) == 0
    session = triune.Session(model)
    assert session.preprocess == Preprocess("pad", fill=9, mean=(0.1,), std=(1.5,))
    assert session.labels == tuple(f"digit {number}" for number in range(10))
    files = sorted(scans.iterdir())
    (logits,) = session.run(session.feeds(*files))
    frame = Frame("image", 1, 8, 8, "float32", False)
    assert np.array_equal(session.feeds(files[0])["image"][0], written(session.preprocess, files[0], frame))
    assert [each.top[0].label for each in predict(session, scans, top_k=1)] == [f"digit {n}" for n in logits.argmax(1)]
    # And so does the package that is made of it, on a card.
    assert main(["compile", str(model), "-o", str(package)]) == 0
    assert json.loads((package / FILE).read_text())["labels"] == list(session.labels)
    assert ModelInfo.of_package(package) == session.info
    capsys.readouterr()
    said = []
    for path in (model, package):
        assert main(["run", str(path), "--input", str(scans)]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]
    assert f"00.png: best digit {logits[0].argmax()} (" in said[0]
    # An option says otherwise.
    assert main(["run", str(model), "--input", str(scans), "--mean", "0.5"]) == 0
    assert capsys.readouterr().out != said[0]
    # A package of a model that says nothing has no such file any more.
    assert main(["compile", str(DIGITS_INT8), "-o", str(package)]) == 0
    assert not (package / FILE).exists()


@pytest.mark.parametrize("command", ["quantize", "calibrate", "compile"])
def test_what_does_not_fit_is_not_stored(
    tmp_path: Path, scans: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two means for one channel are refused before any work, whoever stores them; one is enough for arrays, too."""
    pytest.importorskip("onnxruntime")
    np.save(tmp_path / "x.npy", np.random.default_rng(6).random((4, 1, 8, 8), np.float32))
    words = {
        "quantize": ["quantize", str(DIGITS_F32), "--calibrate", str(tmp_path / "x.npy")],
        "calibrate": ["compile", str(DIGITS_F32), "--calibrate", str(tmp_path / "x.npy")],
        "compile": ["compile", str(DIGITS_INT8)],
    }[command]
    out = tmp_path / "out"
    assert main([*words, "-o", str(out), "--mean", "1", "2", "-v"]) == 1
    (*before, line) = capsys.readouterr().err.splitlines()
    assert line == "triune: error: mean: expected 1 value for input 'image', got 2"
    assert not any("calibrating" in each or "compiling" in each for each in before)
    assert not out.exists()
    assert main([*words, "-o", str(out), "--mean", "1"]) == 0


def test_bytes_are_stored_as_they_were_taken(tmp_path: Path) -> None:
    """Pictures are whole numbers for a network of bytes unless it is said otherwise, also in what it says itself then."""
    pytest.importorskip("onnxruntime")
    helper, kinds = onnx.helper, onnx.TensorProto
    random = np.random.default_rng(7)
    (tmp_path / "pictures").mkdir()
    for index in range(4):
        Image.fromarray(random.integers(0, 256, (8, 8, 3), np.uint8)).save(tmp_path / "pictures" / f"{index}.png")
    weights = onnx.numpy_helper.from_array(random.normal(0, 0.1, (4, 3, 3, 3)).astype(np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("Cast", ["x"], ["f"], to=kinds.FLOAT), helper.make_node("Conv", ["f", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", kinds.UINT8, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", kinds.FLOAT, [1, 4, 6, 6])],
        [weights],
    )
    model, made = tmp_path / "float.onnx", tmp_path / "int8.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), model)
    for options, scale in (([], 1.0), (["--resize", "letterbox"], 1.0), (["--scale", "2"], 2.0)):
        command = ["quantize", str(model), "--calibrate", str(tmp_path / "pictures"), "-o", str(made), *options]
        assert main(command) == 0
        preprocess = triune.Session(made).preprocess
        assert preprocess is not None
        assert preprocess.scale == scale


def test_compare_goes_by_who_says_it(tmp_path: Path, scans: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A float file says nothing of pictures, and what was made of it does."""
    pytest.importorskip("onnxruntime")
    model, package = tmp_path / "q.onnx", tmp_path / "package"
    options = ["--mean", "0.3", "--std", "0.5"]
    assert main(["quantize", str(DIGITS_F32), "--calibrate", str(scans), "-o", str(model), *options]) == 0
    assert main(["compile", str(model), "-o", str(package)]) == 0
    capsys.readouterr()

    def compared(*arguments: str) -> tuple[list[dict[str, Any]], list[str]]:
        out = tmp_path / "out.json"
        assert main(["compare", *arguments, "--inputs", str(scans), "--json", str(out)]) == 0
        found = json.loads(out.read_text())
        return [each["outputs"] for each in found["differences"]], found["notes"]

    for other in (model, package):
        wanted, _ = compared(str(DIGITS_F32), str(other), *options)
        found, notes = compared(str(DIGITS_F32), str(other))
        assert found == wanted
        name = DIGITS_F32.name
        assert (
            notes[0]
            == f"pictures become inputs as {other.name} says (--mean 0.3 --std 0.5), since {name} does not say it"
        )
    # What the first one says counts, and who says otherwise is told.
    (tmp_path / "b").mkdir()
    assert main(["quantize", str(DIGITS_F32), "--calibrate", str(scans), "-o", str(tmp_path / "b" / "other.onnx")]) == 0
    _, notes = compared(str(model), str(tmp_path / "b" / "other.onnx"))
    assert notes[0].startswith("other.onnx says that pictures become inputs by --scale 255, and here")
    assert "by --mean 0.3 --std 0.5, for all models" in notes[0]
    # Arrays are inputs already.
    np.save(tmp_path / "in.npy", np.zeros((1, 1, 8, 8), np.float32) + np.arange(8, dtype=np.float32))
    capsys.readouterr()
    assert main(["compare", str(DIGITS_F32), str(model), "--inputs", str(tmp_path / "in.npy")]) == 0
    assert "pictures become" not in capsys.readouterr().out


def test_image_options_without_images(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A model of arrays does not take them, and where only arrays come they are not used: both are told."""
    helper = onnx.helper
    rows = tmp_path / "rows.npy"
    np.save(rows, np.arange(80, dtype=np.float32).reshape(2, 40))

    def model(*names: str) -> Path:
        values = [helper.make_tensor_value_info(name, 1, ["N", 40]) for name in names]
        made = [helper.make_tensor_value_info(f"{name}_y", 1, ["N", 40]) for name in names]
        nodes = [helper.make_node("Sigmoid", [name], [f"{name}_y"]) for name in names]
        graph = helper.make_graph(nodes, "arrays", values, made)
        path = tmp_path / f"{len(names)}.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
        return path

    one, out = str(model("x")), str(tmp_path / "out")
    options = ["--mean", "3", "--resize", "letterbox"]
    for command in (
        ["quantize", one, "--calibrate", str(rows), "-o", out],
        ["compile", one, "--calibrate", str(rows), "-o", out],
        ["compile", one, "-o", out],
        ["run", one, "--input", str(rows)],
        ["predict", one, str(rows)],
        ["compare", one, one, "--inputs", str(rows)],
    ):
        assert main([*command, *options]) == 1, command
        error = capsys.readouterr().err
        assert "--mean, --resize: the model takes no images: input 'x' is float32 (" in error, command
        assert not Path(out).exists()
    assert main(["run", one, "--input", str(rows)]) == 0
    assert main(["run", str(model("x", "y")), "--input", str(rows), "--corner"]) == 1
    assert "--corner: the model takes no images: it has 2 inputs, which come from arrays" in capsys.readouterr().err
    # A model of images takes arrays as they are.
    np.save(rows, np.zeros((1, 1, 8, 8), np.float32))
    assert main(["run", str(DIGITS_F32), "--input", str(rows), "--mean", "3"]) == 0
    assert "--mean: not used; arrays are inputs already" in capsys.readouterr().err


def test_bytes_on_a_card(tmp_path: Path, scans: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Compiled from integers and from floats, the package takes uint8 and gives what the model does."""
    pytest.importorskip("onnxruntime")
    package = triune.compile(DIGITS_INT8, output=tmp_path / "package", input_format="gray8", labels=list("0123456789"))
    files = sorted(scans.iterdir())
    session = triune.Session(DIGITS_INT8)
    expected = session.run(session.feeds(*files))[0]
    out = tmp_path / "out.npz"
    assert main(["run", str(package), "--input", str(scans), "--output", str(out)]) == 0
    with np.load(out) as found:
        assert np.array_equal(found["logits"], expected)
    before = triune.Session(package / "preprocess_graph.onnx")
    assert before.inputs == [("image", "uint8", (1, 8, 8, 1))]
    quantized = tmp_path / "q.onnx"
    command = ["--calibrate", str(scans), "--input-format", "gray8"]
    assert main(["quantize", str(DIGITS_F32), "-o", str(quantized), *command]) == 0
    assert main(["compile", str(DIGITS_F32), "-o", str(tmp_path / "second"), *command]) == 0
    capsys.readouterr()
    said = []
    for path in (quantized, tmp_path / "second"):
        assert main(["run", str(path), "--input", str(scans)]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]
    assert main(["run", str(quantized), "--input", str(scans), "--mean", "9"]) == 1
    assert "--scale: pixels become -9 to 246, but input 'image' has uint8" in capsys.readouterr().err


def test_icraft_rounds_no_pixels(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"yuyv needs rounding.*take 'rgb8'"):
        triune.compile(DIGITS_INT8, target="zg330", format="icraft", output=tmp_path / "out", input_format="yuyv")
    assert not (tmp_path / "out").exists()


def test_icraft_says_what_the_model_says(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    names = list("0123456789")
    triune.compile(DIGITS_INT8, target="zg330", format="icraft", output=folder, input_format="gray8", labels=names)
    said = json.loads((folder / FILE).read_text())
    assert said["labels"] == names
    assert said["preprocess"]["format"] == "gray8"


def test_damaged_information(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    package = triune.compile(DIGITS_INT8, output=tmp_path / "package", labels=["a"])
    np.save(tmp_path / "x.npy", np.zeros((1, 1, 8, 8), np.float32))
    for text, message in (
        ("{", "compile the model again"),
        ("[]", "expected an object, got list"),
        ('{"labels": [1]}', "labels: expected a list of texts"),
        ('{"preprocess": {"x": 1}}', "unknown 'x'"),
    ):
        (package / FILE).write_text(text)
        assert main(["run", str(package), "--input", str(tmp_path / "x.npy")]) == 1
        err = capsys.readouterr().err
        assert message in err
        assert FILE in err
    model = onnx.load(DIGITS_INT8)
    model.metadata_props.add(key="triune.labels", value="[")
    with pytest.raises(ArgumentError, match=r"metadata 'triune\.labels': not JSON"):
        _ = triune.Session(model).labels


FRAME = Frame("x", 3, 64, 96, "float32", False)
PLAIN = Preprocess()


def boxes_at(count: int = 60, classes: int = 3) -> tuple[Array, Array]:
    """Return corners and scores of which three are something, two of them nearly the same."""
    random = np.random.default_rng(5)
    corners = np.sort(random.uniform(0, 60, (count, 2, 2)), axis=1).reshape(count, 4)
    corners[:3] = [[10, 12, 40, 50], [11, 12, 41, 50], [50, 8, 90, 30]]
    corners[:, 2:] += 1
    scores = random.uniform(0, 0.1, (count, classes))
    scores[0, 1], scores[1, 1], scores[2, 2] = 0.9, 0.8, 0.7
    return corners, scores


def centred(corners: Array) -> Array:
    return np.concatenate([(corners[:, :2] + corners[:, 2:]) / 2, corners[:, 2:] - corners[:, :2]], axis=1)


def as_yolov5() -> dict[str, Array]:
    corners, scores = boxes_at()
    sure = np.full((len(scores), 1), 0.5)
    return {"out": np.concatenate([centred(corners), sure, scores], axis=1)[None].astype(np.float32)}


def as_yolov8() -> dict[str, Array]:
    corners, scores = boxes_at()
    return {"out": np.concatenate([centred(corners), scores], axis=1).T[None].astype(np.float32)}


def as_ssd() -> dict[str, Array]:
    corners, scores = boxes_at()
    logits = np.concatenate([np.full((len(scores), 1), 0.5), scores], axis=1)
    logits[:, 0] = 1 - scores.sum(1)
    sides = np.array([96, 64, 96, 64])
    return {"scores": logits[None].astype(np.float32), "boxes": (corners / sides)[None].astype(np.float32)}


def as_suppressed() -> dict[str, Array]:
    corners, scores = boxes_at(9)
    rows = np.concatenate([corners, scores.max(1)[:, None], scores.argmax(1)[:, None]], axis=1)
    return {"out": rows[[0, 2, *range(3, 9)]][None].astype(np.float32)}


def as_yolox() -> dict[str, Array]:
    """Cells of strides 8, 16 and 32, offsets and logarithms in them."""
    corners, scores = boxes_at(8 * 12 + 4 * 6 + 2 * 3)
    rows, index = [], 0
    for stride in (8, 16, 32):
        for y in range(64 // stride):
            for x in range(96 // stride):
                cx, cy, width, height = centred(corners[index : index + 1])[0]
                place = [cx / stride - x, cy / stride - y, np.log(width / stride), np.log(height / stride)]
                rows.append([*place, 0.5, *scores[index]])
                index += 1
    return {"out": np.array(rows, np.float32)[None]}


@pytest.mark.parametrize(
    ("outputs", "share", "said"),
    [
        (as_yolov5(), 0.5, "objectness and 3 classes in 'out', as of YOLOv5 and YOLOX"),
        (as_yolov8(), 1.0, "box and 3 classes in 'out', as of YOLOv8"),
        (as_ssd(), 1.0, "scores in 'scores', the first class being background"),
        (as_suppressed(), 1.0, "left, top, right, bottom, score and class in 'out'"),
        (as_yolox(), 0.5, "as YOLOX without its decode"),
    ],
)
@pytest.mark.parametrize("labels", [(), ("a", "b", "c")])
def test_detectors_are_told_by_shape(
    outputs: dict[str, Array], share: float, said: str, labels: tuple[str, ...]
) -> None:
    reader = Reader(outputs, FRAME, labels)
    assert said in reader.said
    found = reader.read(outputs, 0, (192, 64), PLAIN)
    assert [each.number for each in found] == [1, 2]
    assert [each.name for each in found] == (["b", "c"] if labels else ["1", "2"])
    assert np.allclose([each.score for each in found], [0.9 * share, 0.7 * share], atol=1e-3)
    # The picture is twice as wide as the input.
    assert np.allclose([each.box for each in found], [[20, 12, 82, 51], [100, 8, 182, 31]], atol=1e-2)


def test_what_is_no_answer_is_said() -> None:
    corners, _ = boxes_at()
    offsets = {"boxes": (corners[None] * 0 - 0.5).astype(np.float32), "scores": as_ssd()["scores"]}
    offsets["boxes"][..., 2] -= 1
    reader = Reader(offsets, FRAME, ())
    assert not reader.known
    assert "'boxes' has extents below 0" in reader.said
    strange = Reader({"map": np.zeros((1, 3, 9, 9), np.float32)}, FRAME, ())
    assert not strange.known
    assert "--boxes" in strange.said
    with pytest.raises(ArgumentError, match="labels: expected 3, one per class of 'out', got 5"):
        Reader(as_yolov8(), FRAME, tuple("abcde"))
    with pytest.raises(ArgumentError, match="boxes: expected one or two of the outputs out"):
        Reader(as_yolov8(), FRAME, (), boxes="no")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("logits", r"expected 'logits' to have an axis of boxes and one of what each has, got shape \(1, 1000\)"),
        ("map", r"expected 'map' to have an axis of boxes"),
        ("boxes", r"expected four numbers and scores for each box in 'boxes', got shape \(1, 30, 4\)"),
        (
            "scores,boxes",
            r"expected four numbers for each box in 'scores', and scores in 'boxes', got shapes \(1, 30, 3\) and",
        ),
        ("boxes,others", r"got shapes \(1, 30, 4\) and \(1, 20, 3\)"),
    ],
)
def test_outputs_that_hold_no_boxes(spec: str, message: str) -> None:
    shapes = {"logits": (1, 1000), "map": (1, 3, 9, 9), "boxes": (1, 30, 4), "scores": (1, 30, 3), "others": (1, 20, 3)}
    with pytest.raises(ArgumentError, match=f"boxes: .*{message}"):
        Reader({name: np.ones(shape, np.float32) for name, shape in shapes.items()}, FRAME, (), boxes=spec)


def test_boxes_after_suppression_by_name() -> None:
    """What the output is called does not make classes of the last two columns."""
    rows = np.array([[[10, 10, 50, 40, 0.9, 2], [5, 5, 20, 20, 0.7, 0]]], np.float32)
    reader = Reader({"out": rows}, FRAME, (), boxes="out")
    assert reader.said == "boxes: left, top, right, bottom, score and class in 'out'"


def test_drawings() -> None:
    picture = Image.new("RGB", (60, 40))
    found = draw(picture, [Answer(1, "cat", 0.5, (10.0, 20.0, 50.0, 35.0)), Answer(2, "", 0.1, (9.0, 9.0, 9.0, 9.0))])
    assert found.size == picture.size
    pixels = np.asarray(found)
    assert pixels[35, 30].any()
    assert pixels[30, 10].any()
    assert not pixels[33, 30].any()
    assert not np.asarray(picture).any()


def test_drawing_on_the_command_line(
    tmp_path: Path, scans: Path, names: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "drawn"
    command = ["run", str(DIGITS_INT8), "--labels", str(names)]
    assert main([*command, "--input", str(scans), "--draw", str(out)]) == 0
    assert sorted(file.name for file in out.iterdir()) == sorted(file.name for file in scans.iterdir())
    assert main([*command, "--input", str(scans / "00.png"), "--draw", str(tmp_path / "one.jpg")]) == 0
    with Image.open(tmp_path / "one.jpg") as picture:
        assert (picture.format, picture.size) == ("JPEG", (8, 8))
    frames = [Image.open(file) for file in sorted(scans.iterdir())[:3]]
    frames[0].save(tmp_path / "film.gif", save_all=True, append_images=frames[1:])
    capsys.readouterr()
    assert main([*command, "--input", str(tmp_path / "film.gif"), "--draw", str(tmp_path / "film")]) == 0
    assert len(list((tmp_path / "film").iterdir())) == 3
    assert capsys.readouterr().out.count(": best digit ") == 3
    np.save(tmp_path / "x.npy", np.zeros((1, 1, 8, 8), np.float32))
    (tmp_path / "film.mp4").write_bytes(b"film")
    for arguments, message in (
        (["--input", str(tmp_path / "x.npy"), "--draw", str(out)], "--draw: expected images or videos as --input"),
        (["--input", str(scans), "--draw", str(tmp_path / "no" / "out")], "there is no directory"),
        (["--input", str(tmp_path / "film.mp4")], "film.mp4: not a video that can be read"),
        (
            ["--input", str(scans), "--draw", str(tmp_path / "two.png")],
            "--draw: two.png is a picture's name, for one picture as --input, and there are",
        ),
    ):
        assert main([*command, *arguments]) == 1
        assert message in capsys.readouterr().err
    assert not (tmp_path / "two.png").exists()
    # A folder that is there is one, whatever it is called.
    (tmp_path / "two.png").mkdir()
    assert main([*command, "--input", str(scans), "--draw", str(tmp_path / "two.png")]) == 0
    assert sorted(file.name for file in (tmp_path / "two.png").iterdir()) == sorted(
        file.name for file in scans.iterdir()
    )


def test_a_broken_video_is_one_line(tmp_path: Path) -> None:
    """Its decoder says nothing in front, in a process of its own."""
    pytest.importorskip("cv2")
    (tmp_path / "film.mp4").write_bytes(b"film")
    command = [sys.executable, "-m", "triune", "run", str(DIGITS_INT8), "--input", str(tmp_path / "film.mp4")]
    (line,) = subprocess.run(command, capture_output=True, text=True).stderr.splitlines()
    assert line.startswith(f"triune: error: {tmp_path / 'film.mp4'}: not a video that can be read: ")


def test_names_of_classes_are_text(
    tmp_path: Path, scans: Path, names: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """UTF-8, with or without a mark in front; anything else is named, by every command that takes such a file."""
    text = names.read_text()
    marked, other = tmp_path / "marked.txt", tmp_path / "other.txt"
    marked.write_bytes(text.encode("utf-8-sig"))
    other.write_bytes("one\nstühle\n".encode("latin-1"))
    image = str(scans / "00.png")
    assert main(["run", str(DIGITS_INT8), "--labels", str(names), "--input", image]) == 0
    expected = capsys.readouterr().out
    assert main(["run", str(DIGITS_INT8), "--labels", str(marked), "--input", image]) == 0
    assert capsys.readouterr().out == expected
    commands = (["run", str(DIGITS_INT8), "--input", image], ["predict", str(DIGITS_INT8), image])
    for command in commands:
        assert main([*command, "--labels", str(other)]) == 1
        assert "other.txt: line 2: byte 0xfc is no text in UTF-8" in capsys.readouterr().err


def test_videos_on_the_command_line(
    video: Any, scans: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every picture of a video is an input, alone and in a folder; what is drawn into them is a video again, or pictures."""
    big = [Image.open(file).convert("RGB").resize((64, 48)) for file in sorted(scans.iterdir())[:5]]
    films = tmp_path / "films"
    films.mkdir()
    film = video(films / "film.mp4", [np.asarray(picture) for picture in big])
    from triune._video import Video

    with Video(film) as opened:
        frames = [frame.pixels for frame in opened]
    for number, pixels in enumerate(frames):
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
    command = ["run", str(DIGITS_INT8), "--input"]
    assert main([*command, *(str(tmp_path / f"{n}.png") for n in range(5)), "--output", str(tmp_path / "a.npz")]) == 0
    assert main([*command, str(film), "--output", str(tmp_path / "b.npz")]) == 0
    assert main([*command, str(films), str(tmp_path / "0.png"), "--output", str(tmp_path / "c.npz")]) == 0
    pictures, of_film, both = (np.load(tmp_path / f"{name}.npz")["logits"] for name in "abc")
    assert np.array_equal(of_film, pictures)
    assert np.array_equal(both, np.concatenate([pictures, pictures[:1]]))
    # As a video, whose pictures are those of the first with something in the corner; and as pictures.
    assert main([*command, str(film), "--draw", str(tmp_path / "drawn.mp4")]) == 0
    with Video(tmp_path / "drawn.mp4") as opened:
        assert opened.fps == pytest.approx(10)
        drawn = [frame.pixels.astype(int) for frame in opened]
    assert [pixels.shape for pixels in drawn] == [(48, 64, 3)] * 5
    for before, after in zip(frames, drawn, strict=True):
        apart = np.abs(after - before).mean(2)
        assert apart[:12, :24].mean() > 40
        assert apart[24:, 32:].mean() < 20
    assert main([*command, str(film), "--draw", str(tmp_path / "pictures")]) == 0
    assert len(list((tmp_path / "pictures").iterdir())) == 5
    capsys.readouterr()
    for arguments, message in (
        ([str(films), str(tmp_path / "0.png"), "--draw", str(tmp_path / "two.mp4")], "one video as --input"),
        ([str(tmp_path / "0.png"), "--draw", str(tmp_path / "two.mp4")], "one video as --input"),
    ):
        assert main([*command, *arguments]) == 1
        assert message in capsys.readouterr().err
        assert not (tmp_path / "two.mp4").exists()
    monkeypatch.setattr("triune.cli.data.MOST", 3 * 8 * 8 * 4)
    assert main([*command, str(film)]) == 1
    assert "film.mp4: more than 3 pictures" in capsys.readouterr().err
    assert main([*command, str(tmp_path / "0.png")]) == 0


def test_a_video_is_written_whole_or_not_at_all(video: Any, tmp_path: Path) -> None:
    from triune._video import Video, VideoWriter

    video(tmp_path / "skip_without_a_decoder.mp4", [np.zeros((8, 8, 3), np.uint8)])
    pixels = np.full((33, 47, 3), (200, 40, 90), np.uint8)
    for ending in (".mp4", ".avi"):
        with VideoWriter(tmp_path / f"a{ending}", 30000 / 1001) as film:
            for _ in range(3):
                film.write(pixels)
        with Video(tmp_path / f"a{ending}") as opened:
            assert opened.fps == pytest.approx(30000 / 1001, rel=1e-3)
            frames = [frame.pixels for frame in opened]
        # Even extents, the last row and column being doubled.
        assert [frame.shape for frame in frames] == [(34, 48, 3)] * 3
        assert np.abs(frames[1].astype(int) - pixels[0, 0]).max() < 12

    def fails() -> None:
        with VideoWriter(tmp_path / "b.mp4", 25) as film:
            film.write(pixels)
            raise KeyError("planted")

    with pytest.raises(KeyError, match="planted"):
        fails()
    with pytest.raises(FileError, match=r"b\.mp4: the video cannot be written: there are no pictures"):
        VideoWriter(tmp_path / "b.mp4", 25).__exit__(None)
    assert sorted(file.name for file in tmp_path.iterdir() if file.stem in "ab") == ["a.avi", "a.mp4"]


def test_a_real_detector(test_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A dog, a bicycle and a car are where they are in the picture."""
    folder = test_data / "models"
    names = ["thing"] * 80
    names[16], names[1], names[2] = "dog", "bicycle", "car"
    (tmp_path / "coco.txt").write_text("\n".join(names))
    options = ["--scale", "1", "--color", "bgr", "--resize", "letterbox", "--corner", "--fill", "114", "--score", "0.5"]
    command = ["run", str(folder / "onnx" / "yolox_nano_f32.onnx"), "--input", str(folder / "images" / "yolox_dog.jpg")]
    assert main([*command, *options, "--labels", str(tmp_path / "coco.txt"), "--draw", str(tmp_path / "dog.png")]) == 0
    said = [line.split(" (")[0].strip() for line in capsys.readouterr().out.splitlines() if ") at " in line]
    assert said == ["dog", "car", "bicycle"]
    assert (tmp_path / "dog.png").exists()
