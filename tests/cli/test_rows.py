"""Which axis of an input is that of images is what the model's shapes say: vectors, numbers and blocks of rows have none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import triune
from triune.batch import predict
from triune.cli import main
from triune.cli.data import Input
from triune.cli.rows import runs
from triune.errors import ArgumentError

onnx = pytest.importorskip("onnx")

Array = np.ndarray[Any, Any]
LENGTH = 4 * 6 * 6


def shifted(path: Path, shape: list[int | str], *, weighed: bool = False) -> Path:
    """A convolution of a vector's numbers, or of rows', as an image; behind it the vector again, if `weighed` times another."""
    rng = np.random.default_rng(1)
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    constants = {
        "image": np.array([-1, 4, 6, 6]),
        "shape": np.array([LENGTH] if len(shape) == 1 else [-1, LENGTH]),
        "w": rng.standard_normal((4, 4, 3, 3)).astype(np.float32) / 6,
    }
    nodes = [
        helper.make_node("Reshape", ["x", "image"], ["a"]),
        helper.make_node("Conv", ["a", "w"], ["b"], pads=[1, 1, 1, 1]),
        helper.make_node("Reshape", ["b", "shape"], ["c" if weighed else "y"]),
    ]
    inputs = [helper.make_tensor_value_info("x", kind, shape)]
    if weighed:
        nodes.append(helper.make_node("Mul", ["c", "by"], ["y"]))
        inputs.append(helper.make_tensor_value_info("by", kind, [LENGTH]))
    graph = helper.make_graph(
        nodes,
        "g",
        inputs,
        [helper.make_tensor_value_info("y", kind, shape)],
        [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


@pytest.fixture
def vectors(tmp_path: Path) -> list[Array]:
    found = list(np.random.default_rng(2).standard_normal((3, LENGTH)).astype(np.float32))
    (tmp_path / "vectors").mkdir()
    for index, each in enumerate(found):
        np.save(tmp_path / "vectors" / f"{index}.npy", each)
    return found


def result(arguments: list[object], folder: Path) -> Array:
    assert main(["run", *map(str, arguments), "--output", str(folder / "out.npz")]) == 0
    with np.load(folder / "out.npz") as found:
        return np.asarray(found["y"])


def test_a_vector_is_an_input_whole(vectors: list[Array], tmp_path: Path) -> None:
    model = shifted(tmp_path / "float.onnx", [LENGTH])
    made = tmp_path / "int8.onnx"
    assert main(["quantize", str(model), "--calibrate", str(tmp_path / "vectors"), "-o", str(made)]) == 0
    package = triune.compile(made, target="metis", output=tmp_path / "package")
    np.save(tmp_path / "all.npy", np.stack(vectors))
    for file in (model, made):
        expected = [triune.Session(file).run({"x": each})[0] for each in vectors]
        one = result([file, "--input", tmp_path / "vectors" / "0.npy"], tmp_path)
        np.testing.assert_array_equal(one, expected[0])
        for several in ("vectors", "all.npy"):
            np.testing.assert_array_equal(result([file, "--input", tmp_path / several], tmp_path), np.stack(expected))
    np.testing.assert_array_equal(result([package, "--input", tmp_path / "vectors" / "0.npy"], tmp_path), expected[0])
    np.testing.assert_array_equal(result([package, "--input", tmp_path / "vectors"], tmp_path), np.stack(expected))


@pytest.mark.parametrize("shape", [(LENGTH - 1,), (2 * LENGTH,), (1, 1, LENGTH), (2, LENGTH + 1)])
def test_a_vector_of_another_length_is_refused(
    shape: tuple[int, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = shifted(tmp_path / "float.onnx", [LENGTH])
    np.save(tmp_path / "x.npy", np.random.default_rng(0).random(shape, np.float32))
    assert main(["run", str(model), "--input", str(tmp_path / "x.npy")]) == 1
    assert f"input 'x': expected shape ({LENGTH}), or (N, {LENGTH}) for N runs, got {shape}" in capsys.readouterr().err
    assert main(["quantize", str(model), "--calibrate", str(tmp_path / "x.npy"), "-o", str(tmp_path / "y.onnx")]) == 1
    assert f"input 'x': expected shape ({LENGTH})" in capsys.readouterr().err


def test_a_vector_beside_images_is_for_all_or_one_for_each(vectors: list[Array], tmp_path: Path) -> None:
    model = shifted(tmp_path / "float.onnx", [1, LENGTH], weighed=True)
    images = np.stack(vectors)
    session = triune.Session(model)
    for by in (vectors[0], np.stack(vectors[::-1])):
        each = np.broadcast_to(by, images.shape)
        expected = [session.run({"x": x[None], "by": one})[0] for x, one in zip(images, each, strict=True)]
        np.savez(tmp_path / "both.npz", x=images, by=by)
        found = result([model, "--input", tmp_path / "both.npz"], tmp_path)
        np.testing.assert_array_equal(found, np.concatenate(expected))
        made = tmp_path / "int8.onnx"
        assert main(["quantize", str(model), "--calibrate", str(tmp_path / "both.npz"), "-o", str(made)]) == 0


def test_rows_that_no_image_has_are_one_sample(vectors: list[Array], tmp_path: Path) -> None:
    model = shifted(tmp_path / "float.onnx", [3, LENGTH])
    np.save(tmp_path / "x.npy", np.concatenate([vectors, vectors]))
    made = tmp_path / "int8.onnx"
    assert main(["quantize", str(model), "--calibrate", str(tmp_path / "x.npy"), "-o", str(made)]) == 0
    np.save(tmp_path / "x.npy", np.stack(vectors)[:2])
    assert main(["quantize", str(model), "--calibrate", str(tmp_path / "x.npy"), "-o", str(made)]) == 1


X, V, S = Input("x", (2, 3)), Input("v", (4,)), Input("s", ())
FOUR, VECTOR = np.arange(12).reshape(4, 3), np.arange(4)


def test_what_each_run_takes() -> None:
    found = list(runs({"x": FOUR[:3], "v": VECTOR, "s": np.float32(5)[None].reshape(())}, [X, V, S]))
    assert [(each.kept, each.step, each.done, each.of) for each in found] == [(2, 2, 2, 3), (1, 2, 3, 3)]
    assert [each.feed["x"].tolist() for each in found] == [FOUR[:2].tolist(), FOUR[[2, 2]].tolist()]
    assert all(each.feed["v"] is VECTOR and each.feed["s"] == 5 for each in found)
    (one,) = runs({"v": VECTOR, "s": np.ones((), np.float32)}, [V, S])
    assert (one.feed["v"].tolist(), one.kept, one.of) == (VECTOR.tolist(), 1, 1)
    each = [run.feed["v"].tolist() for run in runs({"v": np.stack([VECTOR, VECTOR + 1])}, [V])]
    assert each == [VECTOR.tolist(), (VECTOR + 1).tolist()]


def test_a_number_for_each_run_is_an_array() -> None:
    """Also when it is cut out of a stack of them: what takes it looks at its dtype."""
    found = [run.feed["s"] for run in runs({"x": FOUR, "s": np.arange(2, dtype=np.float32)}, [X, S])]
    assert [(type(each), each.dtype, each.shape, float(each)) for each in found] == [
        (np.ndarray, np.float32, (), 0.0),
        (np.ndarray, np.float32, (), 1.0),
    ]


def test_numbers_calibrate(tmp_path: Path) -> None:
    """A model that takes a vector and a number, with one of each for every sample."""
    rng = np.random.default_rng(3)
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "s"], ["a"]), helper.make_node("MatMul", ["a", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", kind, [8]), helper.make_tensor_value_info("s", kind, [])],
        [helper.make_tensor_value_info("y", kind, [4])],
        [onnx.numpy_helper.from_array(rng.standard_normal((8, 4)).astype(np.float32), "w")],
    )
    model = tmp_path / "float.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), model)
    arrays = {"x": rng.standard_normal((6, 8)), "s": rng.uniform(1, 2, 6)}
    np.savez(tmp_path / "x.npz", **{name: values.astype(np.float32) for name, values in arrays.items()})
    made = tmp_path / "int8.onnx"
    assert main(["quantize", str(model), "--calibrate", str(tmp_path / "x.npz"), "-o", str(made)]) == 0
    found = result([made, "--input", tmp_path / "x.npz"], tmp_path)
    np.testing.assert_allclose(found, result([model, "--input", tmp_path / "x.npz"], tmp_path), atol=0.3)


@pytest.mark.parametrize("command", ["run", "quantize"])
def test_a_batch_of_nothing(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = shifted(tmp_path / "float.onnx", [0, LENGTH])
    np.save(tmp_path / "x.npy", np.ones((2, LENGTH), np.float32))
    samples = "--calibrate" if command == "quantize" else "--input"
    assert main([command, str(model), samples, str(tmp_path / "x.npy"), "--output", str(tmp_path / "y")]) == 1
    words = f"input 'x': its shape in the model is (0, {LENGTH}), a batch of 0, which takes none of the "
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arrays", "what", "words"),
    [
        ({"x": FOUR, "v": np.ones((3, 4))}, "images", "got 4 in 'x' of 2 a run, 3 in 'v'"),
        ({"x": FOUR[:3], "v": VECTOR}, "samples", "the same number of samples in each array, got 3 in 'x' of 2 a run"),
        ({"x": FOUR[:0], "v": VECTOR}, "images", "expected at least one of the images, got none"),
        ({"x": FOUR, "v": np.ones((0, 4))}, "images", "got 4 in 'x' of 2 a run, 0 in 'v'"),
    ],
)
def test_arrays_for_other_numbers_of_runs(arrays: dict[str, Array], what: str, words: str) -> None:
    with pytest.raises(ValueError, match="expected") as raised:
        runs(arrays, [X, V], what=what)
    assert words in str(raised.value)


def scaled(path: Path, x: list[int | str], k: list[int | str] | None = None) -> Path:
    """Write a model of x · 2, or x · k, as output y, and for an x without a batch with one in front as z."""
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    inputs = [helper.make_tensor_value_info("x", kind, x)]
    constants = []
    if k is None:
        constants.append(onnx.numpy_helper.from_array(np.float32(2), "k"))
    else:
        inputs.append(helper.make_tensor_value_info("k", kind, k))
    nodes = [helper.make_node("Mul", ["x", "k"], ["y"])]
    outputs = [helper.make_tensor_value_info("y", kind, x)]
    if not x or (len(x) == 1 and isinstance(x[0], int)):
        constants.append(onnx.numpy_helper.from_array(np.array([0]), "front"))
        nodes.append(helper.make_node("Unsqueeze", ["y", "front"], ["z"]))
        outputs.append(helper.make_tensor_value_info("z", kind, [1, *x]))
    graph = helper.make_graph(nodes, "g", inputs, outputs, constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


SHAPES: list[tuple[list[int | str], list[int | str] | None]] = [
    ([], None),
    ([5], None),
    ([1], None),
    (["N"], None),
    ([1, 5], None),
    ([3, 5], None),
    (["N", 5], None),
    (["N", "S"], None),
    ([1, 2, 5], None),
    (["N", 2, 5], None),
    (["N", 3, 4, 6], None),
    ([5], []),
    ([5], [5]),
    (["N", 5], []),
    ([1, 5], [5]),
]


@pytest.mark.parametrize("count", [0, 1, 4], ids=["as one", "one of a stack", "a stack"])
@pytest.mark.parametrize(("x", "k"), SHAPES)
def test_tables_have_the_rows_of_files_that_run(
    x: list[int | str], k: list[int | str] | None, count: int, tmp_path: Path
) -> None:
    """`predict` takes the arrays that `run` does, .npy and .npz, and has a row of its table for each image or run."""
    model = scaled(tmp_path / "model.onnx", x, k)
    random = np.random.default_rng(4)
    whole = not x or (len(x) == 1 and x != [1] and isinstance(x[0], int))
    own = [each if isinstance(each, int) else 5 for each in (x if whole else x[1:])]
    shape = own if not count else [count, *own]
    arrays = {"x": random.standard_normal(shape).astype(np.float32)}
    if k is not None:
        # The same for all.
        arrays["k"] = random.standard_normal([int(each) for each in k]).astype(np.float32)
    np.savez(tmp_path / "in.npz", **arrays)
    files = [tmp_path / "in.npz"]
    if k is None:
        np.save(tmp_path / "in.npy", arrays["x"])
        files.append(tmp_path / "in.npy")
    stack = arrays["x"] if count else arrays["x"][None]
    expected = stack * arrays.get("k", np.float32(2))
    for file in files:
        found = list(predict(model, file, outputs=["y"]))
        names = [str(file)] if count < 2 else [f"{file}#{index}" for index in range(count)]
        assert [each.source for each in found] == names
        for each, wanted in zip(found, expected, strict=True):
            np.testing.assert_array_equal(each.outputs["y"], wanted)
        if count or whole:
            # That a file holds one image without its axis is for `predict` alone.
            ran = result([model, "--input", file], tmp_path)
            np.testing.assert_array_equal(ran if count > 1 or not whole else ran.reshape(1, *own), expected)
        if whole:
            # A batch of 1 in front of what a vector gives is none of its own.
            found = list(predict(model, file, outputs=["z"]))
            np.testing.assert_array_equal([each.outputs["z"] for each in found], expected)


def test_files_of_arrays_as_programs_write_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Doubles become the model's floats, as they do for `run`; what a dtype does not hold is refused, and so are other shapes."""
    model = scaled(tmp_path / "model.onnx", ["N", 5], [])
    folder = tmp_path / "files"
    folder.mkdir()
    rows = np.arange(10.0).reshape(2, 5)
    np.savez(folder / "a.npz", x=rows, k=np.int64(3))
    np.savez(folder / "b.npz", x=rows[0], k=np.float32(2))
    command = ["predict", str(model), str(folder), "--top", "0", "--outputs", "y", "--format", "jsonl"]
    assert main(command) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["source"] for each in found] == [f"{folder}/a.npz#0", f"{folder}/a.npz#1", f"{folder}/b.npz"]
    np.testing.assert_array_equal([each["y"] for each in found], [rows[0] * 3, rows[1] * 3, rows[0] * 2])
    np.save(folder / "c.npy", rows)
    np.savez(folder / "d.npz", x=rows)
    np.savez(folder / "e.npz", x=rows, k=np.ones(3, np.float32))
    np.savez(folder / "f.npz", x=rows[:0], k=np.float32(2))
    np.savez(folder / "g.npz", x=rows * 1e300, k=np.float32(2))
    np.savez(folder / "h.npz", x=rows[:, :4], k=np.float32(2))
    (folder / "i.npz").write_bytes(b"PK no archive")
    assert main([*command, "--on-error", "skip"]) == 0
    said = capsys.readouterr()
    assert [json.loads(line)["source"] for line in said.out.splitlines()] == [each["source"] for each in found]
    for file, message in (
        ("c.npy", "expected a .npz file with the arrays x, k, got .npy"),
        ("d.npz", "expected an array for each of the inputs 'x', 'k', got 'x'"),
        ("e.npz", "expected the same number of items in each array, got 2 in 'x', 3 in 'k'"),
        ("f.npz", "expected at least one item, got none"),
        ("g.npz#1", "input 'x': expected values that float32 has, got 5e+300 (float64)"),
        ("h.npz#1", "input 'x': expected shape (5,) without the batch, got (4,)"),
        ("i.npz", "not an array file that can be read: "),
    ):
        assert f"left out {folder}/{file}: {message}" in said.err


def test_models_that_have_no_items(tmp_path: Path) -> None:
    """What has no batch in common is refused, with what takes it."""
    for x, k, options, message in (
        ([5], None, {"batch": 2}, r"^batch: expected 1, as input x float32 \(5\) has no axis of items, got 2$"),
        (
            [3, 5],
            [5],
            {},
            r"input k float32 \(5\) is one for all 3 items of a run; call triune\.Session\.run for each$",
        ),
        ([3, 5], [1, 5], {}, r"^model: its inputs x float32 \(3, 5\), k float32 \(1, 5\) have no batch in common$"),
        (
            [0, 5],
            None,
            {},
            r"have a batch of 0, which takes no items; export the model with a batch of 1, or an open one$",
        ),
    ):
        with pytest.raises(ArgumentError, match=message):
            predict(scaled(tmp_path / "model.onnx", list(x), k and list(k)), [], **options)


def test_images_need_extents(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A model that leaves them open takes arrays of any, but no image: it was scaled to one pixel."""
    image = pytest.importorskip("PIL.Image")
    pytest.importorskip("onnxruntime")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    weights = np.random.default_rng(0).normal(size=(4, 3, 3, 3)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])],
        "g",
        [helper.make_tensor_value_info("x", kind, ["N", 3, "H", "W"])],
        [helper.make_tensor_value_info("y", kind, ["N", 4, "H", "W"])],
        [onnx.numpy_helper.from_array(weights, "w")],
    )
    model, fixed, picture = (str(tmp_path / name) for name in ("model.onnx", "fixed.onnx", "picture.png"))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), model)
    pixels = np.random.default_rng(1).integers(0, 255, (6, 8, 3), np.uint8)
    image.fromarray(pixels).save(picture)
    for command in (
        ["run", model, "--input", picture],
        ["quantize", model, "--calibrate", picture, "-o", str(tmp_path / "out")],
        ["compile", model, "--calibrate", picture, "-o", str(tmp_path / "out")],
        ["compare", model, model, "--inputs", picture],
        ["predict", model, picture],
    ):
        assert main(command) == 1, command
        error = capsys.readouterr().err
        assert "input 'x': the model leaves open how large an image is (" in error, command
        assert "triune convert MODEL.onnx FIXED.onnx --shape x=N,N,N,N" in error, command
    assert not (tmp_path / "out").exists()
    # As the cure says.
    assert main(["convert", model, fixed, "--shape", "x=1,3,6,8"]) == 0
    x = np.ascontiguousarray((pixels / np.float32(255)).transpose(2, 0, 1)[None], np.float32)
    np.save(tmp_path / "x.npy", x)
    wanted = triune.Session(model).run({"x": x})[0]
    for arguments in ([fixed, "--input", picture], [fixed, "--input", tmp_path / "x.npy"]):
        np.testing.assert_array_equal(result(arguments, tmp_path), wanted)
    # Arrays are as large as they are.
    np.testing.assert_array_equal(result([model, "--input", tmp_path / "x.npy"], tmp_path), wanted)
    capsys.readouterr()
    np.save(tmp_path / "x.npy", x[:, :2])
    assert main(["run", model, "--input", str(tmp_path / "x.npy")]) == 1
    assert "input 'x': expected shape (N, 3, H, W), got (1, 2, 6, 8)" in capsys.readouterr().err
