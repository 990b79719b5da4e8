"""`triune.compare`: differences that are planted are found, the worst first; classes and boxes that are the same are counted."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import numpy_helper
from PIL import Image
from quantization_networks import Builder, samples, ssd_like, yolox_like

import triune
from triune import errors
from triune._detections import BoxOutputs, Detections, find_box_outputs, match, overlaps
from triune.cli import main
from triune.models import DIGITS_F32, DIGITS_INT8, digits_held_out
from triune.quantization._equalize import noted_factors

SCANS = np.ascontiguousarray(digits_held_out()[0][:40].transpose(0, 3, 1, 2))


@pytest.fixture(autouse=True)
def own_cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test cards of its own."""
    monkeypatch.setenv("TRIUNE_RUNTIME_DIR", str(tmp_path / "run"))


def changed(model: Path, path: Path, tensor: str, factor: float) -> Path:
    """Write a model with one constant multiplied."""
    found = onnx.load(model)
    for constant in found.graph.initializer:
        if constant.name == tensor:
            constant.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(constant) * np.float32(factor), tensor))
    onnx.save(found, path)
    return path


def test_a_model_does_not_differ_from_itself(tmp_path: Path) -> None:
    model = ssd_like(tmp_path / "float.onnx")
    found = triune.compare(model, model, inputs=samples(2))
    (difference,) = found.differences
    assert {output.equal for output in difference.outputs} == {1.0}
    assert {layer.sqnr for layer in difference.layers} == {float("inf")}
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["differences"][0]["layers"][0]["sqnr"] is None


def test_models_of_other_inputs_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = ssd_like(tmp_path / "float.onnx")
    renamed = onnx.load(model)
    for node in renamed.graph.node:
        for index, name in enumerate(node.input):
            if name == renamed.graph.input[0].name:
                node.input[index] = "other"
    renamed.graph.input[0].name = "other"
    onnx.save(renamed, tmp_path / "renamed.onnx")
    with pytest.raises(errors.ArgumentError, match=r"renamed.onnx takes 'other', and .* 'image'.*by the inputs' names"):
        triune.compare(model, tmp_path / "renamed.onnx", inputs=samples(1))
    shape = [dim.dim_value for dim in onnx.load(model).graph.input[0].type.tensor_type.shape.dim]
    of_bytes = onnx.helper.make_model(
        onnx.helper.make_graph(
            [onnx.helper.make_node("Cast", ["image"], ["y"], to=1)],
            "bytes",
            [onnx.helper.make_tensor_value_info("image", 2, shape)],
            [onnx.helper.make_tensor_value_info("y", 1, shape)],
        ),
        opset_imports=[onnx.helper.make_opsetid("", 17)],
        ir_version=8,
    )
    onnx.save(of_bytes, tmp_path / "bytes.onnx")
    with pytest.raises(
        errors.ArgumentError, match=r"bytes.onnx takes uint8 as 'image', and .* float32: .*--input-format"
    ):
        triune.compare(model, tmp_path / "bytes.onnx", inputs=samples(1))
    (tmp_path / "package").mkdir()
    assert main(["compare", str(tmp_path / "package"), str(model), "--inputs", str(tmp_path)]) != 0
    assert "is a package: the first model is an ONNX file" in capsys.readouterr().err


def test_an_output_whose_extents_depend_on_values_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = []
    for name, limit in (("first", 0.5), ("second", 0.6)):
        model = onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["" : 20]>
            net (float[8] x) => (float[8] y, int64[1,N] places) <float limit = {{{limit}}}> {{
                y = Neg(x) large = Greater(x, limit) places = NonZero(large) }}""")
        files.append(str(tmp_path / f"{name}.onnx"))
        onnx.save(model, files[-1])
    np.savez(tmp_path / "x.npz", x=np.linspace(0, 1, 8, dtype=np.float32)[None])
    assert main(["compare", *files, "--inputs", str(tmp_path / "x.npz")]) == 0
    printed = capsys.readouterr().out
    assert "output 'places' has the shape (1, 3), in" in printed
    (difference,) = triune.compare(*files, inputs=[{"x": np.linspace(0, 1, 8, dtype=np.float32)}]).differences
    assert [output.name for output in difference.outputs] == ["y"]


def test_the_layer_that_was_spoiled_is_the_worst(tmp_path: Path) -> None:
    """What is before it does not differ, what follows differs less, as the rest of the network goes another way as well."""
    b = Builder(3)
    one = b.conv("image", 4, name="one")
    two = b.conv(one, 4, name="two")
    away = b.node("Add", two, b.conv(one, 4, gain=20, name="three"), name="sum")
    b.channels[away] = 4
    model = b.save(tmp_path / "float.onnx", y=b.conv(away, 2, name="last"))
    weights = next(node.input[1] for node in onnx.load(model).graph.node if node.name == "two")
    other = changed(model, tmp_path / "other.onnx", weights, 1.5)
    (difference,) = triune.compare(model, other, inputs=samples(2)).differences
    assert difference.layers[0].name == two
    assert difference.layers[0].kind == "Conv"
    levels = {layer.name: layer.sqnr for layer in difference.layers}
    assert levels[one] == float("inf")
    assert levels[two] < levels[away] < float("inf")
    # The weights by 1.5, the bias not: half the signal, about 6 dB.
    assert levels[two] == pytest.approx(6, abs=1)


def test_float_quantized_and_compiled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    calibration = [{"image": scan[None]} for scan in SCANS]
    triune.quantize(DIGITS_F32, calibration=calibration, output=tmp_path / "int8.onnx")
    triune.compile(tmp_path / "int8.onnx", output=tmp_path / "package")
    np.save(tmp_path / "scans.npy", SCANS)
    models = [str(DIGITS_F32), str(tmp_path / "int8.onnx"), str(tmp_path / "package")]
    files = ["--json", str(tmp_path / "out.json")]
    assert main(["compare", *models, "--inputs", str(tmp_path / "scans.npy"), *files, "--layers", "3"]) == 0
    out = capsys.readouterr().out
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["samples"] == 40
    pairs = [(each["reference"], each["other"]) for each in found["differences"]]
    assert pairs == [("digits_f32.onnx", "int8.onnx"), ("digits_f32.onnx", "package"), ("int8.onnx", "package")]
    for difference in found["differences"]:
        (logits,) = difference["outputs"]
        assert logits["top1"] >= 0.95
        assert f"{difference['other']} against {difference['reference']}" in out
    # A package shows no tensors.
    inside = [len(difference["layers"]) for difference in found["differences"]]
    assert inside[0] > 4
    assert inside[1:] == [0, 0]
    assert "layers, the worst first (3 of" in out


def test_channels_that_were_scaled_are_compared_on_their_scale(tmp_path: Path) -> None:
    """Equalized or not, a tensor inside is as near to the float one."""
    b = Builder(4)
    x = b.act(b.conv("image", 8, spread=20), "relu")
    model = b.save(tmp_path / "float.onnx", y=b.conv(b.act(b.conv(x, 8), "relu"), 4))
    triune.quantize(model, calibration=samples(8), output=tmp_path / "q.onnx")
    triune.quantize(model, calibration=samples(8), output=tmp_path / "plain.onnx", equalize=False)
    factors = noted_factors(onnx.load(tmp_path / "q.onnx"))
    assert np.ptp(factors[x]) > 0.5
    assert noted_factors(onnx.load(tmp_path / "plain.onnx")) == {}
    found = triune.compare(model, tmp_path / "q.onnx", tmp_path / "plain.onnx", inputs=samples(2))
    for difference in found.differences:
        assert next(layer.sqnr for layer in difference.layers if layer.name == x) > 25


def test_boxes_are_matched(tmp_path: Path) -> None:
    model = yolox_like(tmp_path / "float.onnx")
    triune.quantize(model, calibration=samples(24), output=tmp_path / "q.onnx")
    found = triune.compare(model, tmp_path / "q.onnx", inputs=samples(4, seed=9), boxes="output", score=0.002)
    (difference,) = found.differences
    assert difference.detections is not None
    assert difference.detections.reference > 10
    assert difference.detections.matched > 0.8 * difference.detections.reference
    assert "boxes of at least 0.002 (output): " in str(found)
    spoiled = triune.compare(model, spoil(tmp_path, model), inputs=samples(4, seed=9), boxes="output", score=0.002)
    assert spoiled.differences[0].detections == match([]).__class__(difference.detections.reference, 0, 0, 1.0, 0.0)


def undecoded(path: Path, rows: npt.NDArray[np.float32]) -> Path:
    """Write a detector of pictures of 64 × 64 that always gives such rows."""
    nodes = [
        onnx.helper.make_node("ReduceMin", ["image"], ["least"], keepdims=0),
        onnx.helper.make_node("Mul", ["least", "nothing"], ["zero"]),
        onnx.helper.make_node("Add", ["zero", "rows"], ["output"]),
    ]
    graph = onnx.helper.make_graph(
        nodes,
        "undecoded",
        [onnx.helper.make_tensor_value_info("image", 1, [1, 3, 64, 64])],
        [onnx.helper.make_tensor_value_info("output", 1, rows.shape)],
        [numpy_helper.from_array(np.float32(0), "nothing"), numpy_helper.from_array(rows, "rows")],
    )
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_the_missing_decode_of_boxes_is_made_up_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Boxes are counted as `triune run` counts them, not as the offsets that they are made of."""
    random = np.random.default_rng(3)
    # 64 cells of 8, 16 of 16 and 4 of 32 pixels: offsets, logarithms of extents, objectness, three classes.
    rows = random.normal(0, 0.3, (1, 84, 8)).astype(np.float32)
    rows[..., 4:] = random.uniform(0, 0.3, (1, 84, 4))
    # Two cells far from each other, and one beside the first whose box is nearly the same.
    rows[0, [9, 10, 60], 2:] = [0.1, 0.1, 0.9, 0.9, 0.1, 0.1]
    rows[0, [9, 10], :2] = [[1, 0], [0, 0]]
    model = undecoded(tmp_path / "float.onnx", rows)
    other = undecoded(tmp_path / "other.onnx", rows + np.float32(0.01))
    pictures: list[dict[str, Any]] = [{"image": np.zeros((1, 3, 64, 64), np.float32)}] * 2
    found = triune.compare(model, other, inputs=pictures)
    assert found.differences[0].detections is not None
    assert (found.differences[0].detections.reference, found.differences[0].detections.matched) == (4, 4)
    assert found.notes == (
        "boxes are of offsets in cells of 8, 16 and 32 pixels, objectness and 3 classes in 'output', as YOLOX without its decode",
    )
    Image.new("RGB", (64, 64)).save(tmp_path / "one.png")
    assert main(["run", str(model), "--input", str(tmp_path / "one.png")]) == 0
    assert "one.png: 2 found" in capsys.readouterr().out.replace("image 0", "one.png")
    # Of cells that are none of YOLOX's nobody knows the boxes.
    odd = undecoded(tmp_path / "odd.onnx", rows[:, :80])
    found = triune.compare(odd, odd, inputs=pictures)
    assert found.differences[0].detections is None
    assert found.notes[0].startswith("no boxes: 'output' has extents below 0")


def spoil(tmp_path: Path, model: Path) -> Path:
    """Quantize a detector with its decode."""
    with pytest.warns(errors.QuantizationWarning):
        triune.quantize(model, calibration=samples(24), output=tmp_path / "spoiled.onnx", float_from=())
    return tmp_path / "spoiled.onnx"


def test_wrong_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = ssd_like(tmp_path / "float.onnx")
    scans: list[dict[str, Any]] = [{"image": scan[None]} for scan in SCANS]
    with pytest.raises(errors.ArgumentError, match="expected two or more, got 1"):
        triune.compare(model, inputs=samples(1))
    with pytest.raises(ValueError, match="expected at least one sample, got none"):
        triune.compare(model, model, inputs=[])
    with pytest.raises(
        errors.ArgumentError, match="boxes: expected one or two of the outputs scores, boxes, got 'box'"
    ):
        triune.compare(model, model, inputs=samples(1), boxes="box")
    with pytest.raises(errors.FileError, match=r"no\.onnx"):
        triune.compare(model, tmp_path / "no.onnx", inputs=samples(1))
    renamed = onnx.load(DIGITS_F32)
    for names in [renamed.graph.output[0], *(node for node in renamed.graph.node if "logits" in node.output)]:
        if isinstance(names, onnx.ValueInfoProto):
            names.name = "other"
        else:
            names.output[0] = "other"
    onnx.save(renamed, tmp_path / "renamed.onnx")
    with pytest.raises(errors.ArgumentError, match=r"has the outputs other, and .* logits: none in common"):
        triune.compare(DIGITS_F32, tmp_path / "renamed.onnx", inputs=scans)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ImportError, match=r"pip install 'triune\[onnx\]'"):
        triune.compare(DIGITS_F32, DIGITS_INT8, inputs=scans)


def test_what_optimizations_change_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A runtime whose optimizations change an output is told; one that only adds in another order is not."""
    from triune.quantization import _compare

    model = ssd_like(tmp_path / "float.onnx")
    assert triune.compare(model, model, inputs=samples(1)).notes == ()
    real = _compare._Onnx.run_optimized

    def changed(by: float, *, exactly: float | None) -> tuple[str, ...]:
        """Return the notes of one model where optimizations change boxes, and with exact sums `exactly` so; None: no session."""

        def off(self: Any, sample: dict[str, Any], *, exact: bool = False) -> dict[str, Any]:
            if exact and exactly is None:
                return {}
            found = real(self, sample)
            return found | {"boxes": found["boxes"] + np.float32((exactly or 0) if exact else by)}

        monkeypatch.setattr(_compare._Onnx, "run_optimized", off)
        notes = triune.compare(model, model, inputs=samples(1)).notes
        assert all(f"float.onnx ({number}): at its" in note for number, note in enumerate(notes, 1))
        return notes

    first, second = changed(0.5, exactly=0.5)
    assert "at its default optimization level, onnxruntime changes output 'boxes' by up to 0.5 (" in first
    assert first.endswith("a difference of that size from onnxruntime is its own")
    assert first.replace("(1)", "(2)") == second
    # What the option of exact sums cures is told with it, and where that says more.
    cured, _ = changed(0.5, exactly=0.0)
    assert "by up to 0.5 (" in cured
    assert "With the session option session.x64quantprecision=1 it changes it by " in cured
    assert "on x86-64 without VNNI" in cured
    assert "docs/numerics.md" in cured
    assert (
        "With the session option session.x64quantprecision=1 it changes it by up to 0.02"
        in changed(0.5, exactly=0.02)[0]
    )
    (unknown, _) = changed(0.5, exactly=None)
    assert (
        "session.x64quantprecision=1, which would show it, makes of this model one that onnxruntime does not" in unknown
    )
    # Boxes are of up to some pixels: a hundred-thousandth of that is the order of adding.
    largest = float(np.abs(real(_compare._Onnx(model), samples(1)[0])["boxes"]).max())
    assert changed(5e-5 * largest, exactly=5e-5 * largest) == ()
    assert len(changed(5e-4 * largest, exactly=0.0)) == 2


def test_a_model_that_no_session_with_exact_sums_opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from triune.quantization import _compare

    real = _compare.session

    def picky(model: Any, *, optimized: bool = True, entries: Mapping[str, str] | None = None) -> Any:
        if entries:
            raise RuntimeError("Attempt to replace the existing tensor")
        return real(model, optimized=optimized)

    monkeypatch.setattr(_compare, "session", picky)
    model = _compare._Onnx(ssd_like(tmp_path / "float.onnx"))
    assert model.run_optimized(samples(1)[0], exact=True) == {}
    assert set(model.run_optimized(samples(1)[0])) == {"boxes", "scores"}


def test_a_table_without_layers(tmp_path: Path) -> None:
    model = ssd_like(tmp_path / "float.onnx")
    found = triune.compare(model, model, inputs=samples(1))
    assert "layers, the" not in found.table(0)
    assert "layers, the worst first (1 of" in found.table(1)


@pytest.mark.skipif(sys.platform == "win32", reason="paths in the page")
def test_the_page_has_every_tensor(tmp_path: Path) -> None:
    model = ssd_like(tmp_path / "a<b>.onnx")
    triune.quantize(model, calibration=samples(4), output=tmp_path / "q.onnx")
    np.save(tmp_path / "in.npy", samples(1)[0]["image"])
    command = ["compare", str(model), str(tmp_path / "q.onnx"), "--inputs", str(tmp_path / "in.npy")]
    assert main([*command, "--html", str(tmp_path / "out.html")]) == 0
    page = (tmp_path / "out.html").read_text(encoding="utf-8")
    (difference,) = triune.compare(model, tmp_path / "q.onnx", inputs=samples(1)).differences
    for layer in difference.layers:
        assert f"<td class=text>{layer.name}</td>" in page
    assert "a&lt;b&gt;.onnx" in page
    assert "a<b>" not in page


def test_which_outputs_are_boxes() -> None:
    random = np.random.default_rng(1)
    boxes, logits = random.uniform(0, 100, (1, 60, 4)), random.uniform(0, 1, (1, 60, 3))
    shares = logits / logits.sum(axis=2, keepdims=True)
    found = find_box_outputs({"s": shares, "b": boxes})
    assert found == BoxOutputs("b", "s", None, False, True)
    assert find_box_outputs({"s": logits, "b": boxes}) == BoxOutputs("b", "s", None, False, False)
    joint = np.concatenate([boxes, logits], axis=2)
    assert find_box_outputs({"y": joint}) == BoxOutputs("y", "y", None, False, False)
    assert find_box_outputs({"y": joint.transpose(0, 2, 1)}) == BoxOutputs("y", "y", None, False, False)
    assert find_box_outputs({"y": joint}, "none") is None
    # Logits, maps and scores of classes are none.
    assert find_box_outputs({"y": np.concatenate([boxes, logits * 9], axis=2)}) is None
    assert find_box_outputs({"y": random.uniform(0, 1, (1, 10))}) is None
    # A text's characters, place by place.
    characters = random.uniform(0, 1, (1, 8, 37))
    assert find_box_outputs({"y": characters / characters.sum(axis=2, keepdims=True)}) is None


def test_detection() -> None:
    """The best of two that overlap in a class, corners of centres, scores under the limit left out."""
    rows = np.array(
        [
            [50, 50, 20, 20, 0.9, 0.1],
            [51, 50, 20, 20, 0.8, 0.1],
            [51, 50, 20, 20, 0.1, 0.7],
            [10, 10, 4, 4, 0.2, 0.1],
        ]
    )[None].repeat(2, axis=1)
    (found,) = BoxOutputs("y", "y").detect({"y": rows}, score=0.5)
    assert found.scores.tolist() == [0.9, 0.7]
    assert found.classes.tolist() == [0, 1]
    assert found.boxes[0].tolist() == [40, 40, 60, 60]
    weighed = BoxOutputs("y", "y", objectness=True).detect({"y": rows}, score=0.05)[0]
    assert weighed.scores.tolist() == [pytest.approx(0.09)]
    corners = rows.copy()
    corners[..., 2:4] += corners[..., :2]
    assert BoxOutputs("y", "y").detect({"y": corners}, score=0.85)[0].boxes.tolist() == [[50, 50, 70, 70]]


def detections(boxes: list[list[float]], scores: list[float], classes: list[int]) -> Detections:
    return Detections(np.array(boxes, float).reshape(-1, 4), np.array(scores), np.array(classes, np.int64))


def test_matching_counts_each_box_once() -> None:
    one = detections([[0, 0, 10, 10], [1, 0, 11, 10], [50, 50, 60, 60]], [0.9, 0.8, 0.7], [0, 0, 0])
    other = detections([[0, 0, 10, 10], [50, 50, 60, 60]], [0.85, 0.6], [0, 1])
    found = match([(one, other)])
    assert (found.reference, found.other, found.matched) == (3, 2, 1)
    assert (found.least_iou, round(found.most_score_error, 6)) == (1.0, 0.05)
    assert not found.same
    assert match([(one, one)]).same


@given(st.lists(st.floats(-50, 50), min_size=8, max_size=8))
def test_overlap_is_symmetric_and_at_most_one(numbers: list[float]) -> None:
    a, b = (np.array([numbers[:4]]), np.array([numbers[4:]]))
    for boxes in (a, b):
        boxes[:, 2:] = boxes[:, :2] + np.abs(boxes[:, 2:])
    forth, back = overlaps(a, b)[0, 0], overlaps(b, a)[0, 0]
    assert forth == pytest.approx(back)
    assert 0 <= forth <= 1 + 1e-12
