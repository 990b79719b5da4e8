"""Mixtures of widths: by how the outputs are in dB, by how many answers are kept, with as little work taken away as does."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from quantization_networks import SIZE, Builder, close_classifier, samples, segmenter

import triune
from triune import errors
from triune.cli import main
from triune.quantization import QuantizationOptions
from triune.quantization._agreement import Agreement, agreements
from triune.quantization._check import OutputCheck
from triune.quantization._mixed import Bound, Trial, layers_of, mix, shown_by
from triune.quantization._model import Network, Refused
from triune.quantization._work import work_of
from triune.quantization._write import Layout


def check(level: float) -> OutputCheck:
    return OutputCheck("y", level, level, level, 1.0, 0.0, 0.0, "")


def chain(path: Path) -> tuple[Network, Layout]:
    """Return four convolutions, each with its Relu, the last of few channels."""
    b, x = Builder(3), "image"
    for name, channels in (("a", 8), ("b", 32), ("c", 8), ("d", 2)):
        x = b.act(b.conv(x, channels, name=name), "relu")
    network = Network(onnx.shape_inference.infer_shapes(onnx.load(b.save(path, y=x))))
    return network, Layout(network, (), 8)


def names(network: Network, chosen: Iterable[int]) -> list[str]:
    return [network.nodes[index].name for index in chosen if network.nodes[index].op_type == "Conv"]


@pytest.mark.parametrize("bound", [Bound(30.0, of_answers=False), Bound(0.98, of_answers=True)], ids=str)
def test_what_hurts_most_for_its_work_is_spared(tmp_path: Path, bound: Bound) -> None:
    """Of layers that hurt alike the one with the least work goes first; no more go than have to."""
    network, layout = chain(tmp_path / "chain.onnx")
    work = work_of(network, {"image": np.zeros((1, 3, 16, 16), np.float32)})
    noises = {"a": 1e-3, "b": 1e-3, "c": 1e-5, "d": 1e-3}
    tried: list[list[str]] = []

    def trial(floats: Iterable[int] | None, chosen: Iterable[int]) -> Trial:
        if floats is not None:
            rest = set(range(len(network.nodes))) - set(floats)
            return Trial([check(-10 * np.log10(sum(noises[name] for name in names(network, rest))))])
        spared = names(network, chosen)
        tried.append(spared)
        good = {"d", "a"} <= set(spared)
        return Trial([check(31.0 if good else 29.0)], [Agreement("y", "best classes", 99 if good else 90, 100)])

    chosen = mix(layout, (), trial, bound, lambda _: None, whole=False, work=work)
    assert names(network, chosen) == ["d", "a"]
    assert tried == [[], ["d"], ["d", "a"]]


def test_a_mixture_that_is_not_to_be_had(tmp_path: Path) -> None:
    network, layout = chain(tmp_path / "chain.onnx")

    def trial(floats: Iterable[int] | None, chosen: Iterable[int]) -> Trial:
        share = 94 + min(2, len(names(network, chosen)))
        return Trial([check(20.0)], [Agreement("y", "best classes", share, 100)])

    with pytest.raises(
        Refused, match=r"keeps 98% of the answers; the best, with 2 layers spared, keeps 96%.*96 of 100"
    ):
        mix(layout, (), trial, Bound.of("98%"), lambda _: None, whole=False, work={})
    with pytest.raises(Refused, match=r"no mixture of widths reaches 34 dB at every output, the best has 20.0"):
        mix(layout, (), trial, Bound.of(34), lambda _: None, whole=True, work={})


def test_layers_are_products_with_what_follows(tmp_path: Path) -> None:
    network, layout = chain(tmp_path / "chain.onnx")
    kinds = [[network.nodes[index].op_type for index in layer] for layer in layers_of(layout)]
    assert kinds == [["Conv", "Relu"]] * 4


def test_work_of_products(tmp_path: Path) -> None:
    """As many multiplications as sums of products spelled out have, with the extents of a sample."""
    b = Builder(5)
    x = b.conv("image", 8, kernel=3, stride=2)
    weights = b.constant(b.random.normal(0, 1, (8, 6, 2, 2)))
    x = b.node("ConvTranspose", x, weights, strides=[2, 2])
    x = b.node("Flatten", b.node("GlobalAveragePool", x))
    x = b.node("Gemm", x, b.constant(b.random.normal(0, 1, (5, 6))), transB=1)
    model = onnx.load(b.save(tmp_path / "m.onnx", y=b.node("MatMul", x, b.constant(b.random.normal(0, 1, (5, 4))))))
    for dim in model.graph.input[0].type.tensor_type.shape.dim[2:]:
        dim.dim_param = "open"
    network = Network(model)
    found = work_of(network, {"image": np.zeros((1, 3, 16, 16), np.float32)})
    by_kind = {network.nodes[index].op_type: count for index, count in found.items()}
    assert by_kind == {
        "Conv": 8 * 8 * 8 * 3 * 3 * 3,
        "ConvTranspose": 8 * 8 * 8 * 6 * 2 * 2,
        "Gemm": 5 * 6,
        "MatMul": 5 * 4,
    }


@pytest.mark.parametrize(("mixed", "share"), [("float", 0.9), ("16", 1.0)])
def test_answers_are_kept(tmp_path: Path, mixed: str, share: float) -> None:
    """The last product, which takes one class for another, is spared; on what that rests is said."""
    model, held = close_classifier(tmp_path / "float.onnx"), samples(60)
    options: dict[str, Any] = {"calibration": held, "output": tmp_path / "q.onnx", "mixed": mixed}
    result = triune.quantize(model, **options, bound=f"{share:.0%}")
    # 90 % is what was asked for.
    assert result.warnings == ()
    (found,) = result.agreements
    assert found.what == "best classes"
    assert found.of == result.held_out == result.checked_on == 20
    assert found.share >= share
    assert result.samples == 40
    spared = result.wide or tuple(name for name, why in result.kept_float.items() if "mixed" in why)
    assert spared == ("logits",)
    work = {"float": 0, "8": 16 * 27 * SIZE * SIZE, "16": 0} | {mixed: 16 * 200}
    assert result.macs == work
    assert f"0.2% of the multiply-accumulates are not of 8 bits, for {share:.0%}" in result.notes
    doubts = [line for line in result.advice if "few to show" in line]
    assert len(doubts) == (mixed == "16")
    assert all("20 best classes are few to show 100%, as one that differs is 5.0% of them" in line for line in doubts)


def test_a_share_is_refused_where_there_is_nothing_to_count(tmp_path: Path) -> None:
    model = segmenter(tmp_path / "float.onnx")
    with pytest.raises(errors.ArgumentError, match=r"98% of the answers are to be kept, and there are none to count"):
        triune.quantize(model, calibration=samples(8), output=tmp_path / "q.onnx", mixed="98%")
    assert not (tmp_path / "q.onnx").exists()


def test_too_few_answers_are_told() -> None:
    assert shown_by(Agreement("y", "boxes of float", 50, 50), Bound.of("98%"), 20) == ""
    said = shown_by(Agreement("y", "boxes of float", 25, 25), Bound.of("98%"), 20)
    assert "25 boxes of float are few to show 98%, as one that differs is 4.0% of them" in said
    assert said.endswith("of 120 samples and more enough are held out")
    assert "of 20 samples and more some are held out" in shown_by(Agreement("y", "boxes", 9, 9), Bound.of("98%"), 0)
    assert "they show nothing" in shown_by(Agreement("y", "boxes", 0, 0), Bound.of("98%"), 20)


@pytest.mark.parametrize("probabilities", [False, True])
def test_classes_that_are_to_be_expected(probabilities: bool) -> None:
    """About the share that agrees among thousands, told by a hundred; of noise as loud whatever the margin."""
    random = np.random.default_rng(6)
    scores = random.normal(0, 1, (4000, 2)) * np.array([2.0, 1.0])
    noisy = scores + random.normal(0, 0.2, scores.shape)

    def given(values: Any) -> Any:
        powers = np.exp(values)
        return (powers / powers.sum(axis=1, keepdims=True) if probabilities else values).astype(np.float32)

    first, second = given(scores), given(noisy)
    real = float((first.argmax(axis=1) == second.argmax(axis=1)).mean())
    assert real < 0.98
    few = [
        ({"image": np.zeros((100, 3, 8, 8), np.float32)}, first[at : at + 100], second[at : at + 100])
        for at in range(0, 1000, 100)
    ]
    told = []
    for sample, mine, theirs in few:
        (found,) = agreements([sample], [{"y": mine}], [{"y": theirs}], labels=0)
        told.append(found.expected)
    assert np.mean(told) == pytest.approx(real, abs=0.01)
    # Single counts of a hundred are off by more.
    assert np.abs(np.array(told) - real).max() < 0.03
    (found,) = agreements([few[0][0]], [{"y": first[:100]}], [{"y": first[:100]}], labels=0)
    assert found.expected == 1
    assert "100.0% to be expected by how close they are" in str(found)
    sample = {"image": np.zeros((4, 3, 8, 8), np.float32)}
    (found,) = agreements([sample], [{"y": first[:4]}], [{"y": second[:4]}], labels=0)
    assert np.isnan(found.expected)
    assert "expected" not in str(found)


def test_what_is_expected_counts_for_a_share() -> None:
    trial = Trial([check(30.0)], [Agreement("y", "best classes", 34, 34, 0.96)])
    assert not Bound.of("98%").met(trial)
    assert Bound.of("95%").met(trial)
    assert Bound.of("100%").met(trial)


def test_boxes_that_are_kept() -> None:
    """Of six boxes one goes, one comes, one moves by a twentieth, one by a third, one is less sure, one a little so."""
    corners = np.arange(40, dtype=np.float32)[:, None] * 30 + np.array([0, 0, 20, 20], np.float32)
    scores = np.full((40, 2), 0.01, np.float32)
    scores[:6, 1] = (0.9, 0.9, 0.9, 0.9, 0.27, 0.9)
    places, marks = corners.copy(), scores.copy()
    marks[0, 1], marks[10, 1] = 0.1, 0.9
    places[1] += (0.5, 0, 0.5, 0)
    places[2] += (7, 0, 7, 0)
    marks[3, 1], marks[4, 1] = 0.8, 0.23
    plane = {"image": np.zeros((1, 3, 1200, 1200), np.float32)}
    sides = ([{"boxes": a[None], "scores": b[None]}] for a, b in ((corners, scores), (places, marks)))
    found = agreements([plane], *sides, labels=0, closely=True)
    assert [(each.what, each.same, each.of) for each in found] == [
        ("boxes of float", 3, 6),
        ("boxes of integers", 2, 5),
    ]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"mixed": "98"}, "mixed: expected one of None, float, 16 or a share such as 98%, got '98'"),
        ({"mixed": "101%"}, "bound: expected a number of dB, or a share of answers such as 98%"),
        ({"mixed": "float", "bound": "0%"}, "bound: expected a number of dB, or a share"),
        ({"mixed": "float", "bound": "high"}, "bound: expected a number of dB, or a share"),
        ({"mixed": "98%", "bound": 30.0}, "'98%' is a bound, and 30.0 is another"),
    ],
)
def test_bounds_that_there_are_not(given: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.ArgumentError, match=message):
        QuantizationOptions(**given)


def test_a_share_stands_for_a_bound() -> None:
    options = QuantizationOptions(mixed="98.5%")
    assert (options.mixed, options.bound) == ("float", "98.5%")
    assert str(Bound.of(options.bound)) == "98.5%"
    assert str(Bound.of(34)) == "34 dB"


def test_a_share_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = close_classifier(tmp_path / "float.onnx")
    np.savez(tmp_path / "held.npz", image=np.concatenate([each["image"] for each in samples(60)]))
    command = ["quantize", str(model), "--calibrate", str(tmp_path / "held.npz"), "-o", str(tmp_path / "q.onnx")]
    assert main([*command, "--mixed", "16", "--bound", "100%"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("against float, on 20 samples that the ranges do not come from; these come from 40:\n")
    assert "scores: 20 of 20 best classes are the same (100.0%; of others 83.2% to 100.0%, with 95 % confidence)" in out
    assert "few to show 100%" in err
    (tmp_path / "q.onnx").unlink()
    assert main([*command, "--mixed", "100%"]) == 1
    err = capsys.readouterr().err
    assert (
        "no mixture of widths keeps 100% of the answers; the best, with 1 layer spared, keeps 90% (scores: 18 of 20"
        in err
    )
    assert not (tmp_path / "q.onnx").exists()
    assert main([*command, "--mixed", "98%", "--bound", "34"]) == 1
    assert "--mixed 98% is a bound, and --bound 34.0 another: give one of them" in capsys.readouterr().err
    for given in (["--mixed", "98"], ["--mixed", "0%"], ["--mixed", "--bound", "120%"]):
        with pytest.raises(SystemExit):
            main([*command, *given])
        assert "share" in capsys.readouterr().err


def test_reports_say_who_left_an_operator_in_float(tmp_path: Path) -> None:
    """Of a file that is compiled later, too: it says so itself."""
    b = Builder(8)
    x = b.act(b.conv("image", 16, name="first"), "relu")
    for name in ("second", "third", "fourth"):
        x = b.act(b.conv(x, 16, name=name), "relu")
    model = b.save(tmp_path / "float.onnx", y=x)
    quantized = tmp_path / "q.onnx"
    triune.quantize(model, calibration=samples(24), output=quantized, mixed="float", bound=35.0, keep_float=["third"])
    stayed = {each.node: each.reason for each in triune.compile(quantized, output=tmp_path / "out").report.stayed}
    assert "as --keep-float or --float-from left it so when the model was quantized" in stayed["third"]
    spared = [node for node, reason in stayed.items() if "as --mixed spared it for a bound of 35 dB" in reason]
    assert spared
    plain = onnx.load(quantized)
    (entry,) = (each for each in plain.metadata_props if each.key == "triune.kept_float")
    entry.value = '["of another form"]'
    onnx.save(plain, quantized)
    stayed = {each.node: each.reason for each in triune.compile(quantized, output=tmp_path / "out").report.stayed}
    assert stayed.keys() >= {"third", *spared}
    assert not any("when the model was quantized" in reason for reason in stayed.values())
