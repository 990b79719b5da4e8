"""Which axis of an input is that of images is what the model's shapes say: vectors, numbers and blocks of rows have none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import triune
from triune.cli import main
from triune.cli.data import Input
from triune.cli.rows import runs

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
