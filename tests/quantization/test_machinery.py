"""The quantizer's parts: ranges, weights, what keeps a float model's results, mixtures, and what samples have to be."""

from __future__ import annotations

import errno
import math
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import numpy_helper
from quantization_networks import SIZE, Builder, close_classifier, samples, segmenter, ssd_like, yolox_like

import triune
from triune import errors
from triune.cli import main
from triune.quantization._agreement import Agreement, agreements
from triune.quantization._check import check_outputs
from triune.quantization._grams import round_together
from triune.quantization._model import Network
from triune.quantization._quantize import few
from triune.quantization._scales import METHODS, _SquaredErrors, find_parameters, find_weight_scales, parameters_of
from triune.quantization._statistics import Distribution, HeldOut, Reservoir, session
from triune.quantization._write import FUNCTIONS, INTEGERS, Layout


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.sampled_from(sorted(INTEGERS)))
def test_zero_is_exact_and_the_range_is_covered(one: float, other: float, act: str) -> None:
    low, high = sorted((one, other))
    found = parameters_of(low, high, INTEGERS[act])
    assert found.integers.low <= found.zero_point <= found.integers.high
    assert found.round(np.zeros(1, np.float32))[0] == 0
    slack = found.scale * 1.001
    assert found.low <= min(low, 0) + slack
    assert found.high >= max(high, 0) - slack


def seen(values: Any) -> Distribution:
    found = Distribution()
    for part in np.array_split(np.asarray(values, np.float32), 7):
        found.add(part, 0)
    return found


def test_a_histogram_grows_with_what_it_sees() -> None:
    """Rising values in parts: the same share is under any limit as of the values themselves."""
    values = np.geomspace(1e-3, 100, 7000) * np.where(np.arange(7000) % 3, 1, -1)
    middles, shares = seen(values).histogram()
    assert shares.sum() == pytest.approx(1)
    for limit in (-50, -1, 1, 50):
        assert shares[middles < limit].sum() == pytest.approx((values < limit).mean(), abs=0.01)


@pytest.mark.parametrize("method", sorted({*METHODS} - {"mse"}))
def test_what_is_clipped(method: str) -> None:
    """One in a hundred thousand is a hundred times as large as the rest."""
    values = np.random.default_rng(1).normal(0, 1, 100_000)
    values[50_000] = 100
    found = find_parameters(seen(values), INTEGERS["s8"], method)
    assert (found.high > 90) == (method == "minmax")
    if method != "minmax":
        assert 2.5 < found.high < 30


def test_least_error_is_found() -> None:
    """No other range of many has less."""
    values = np.random.default_rng(2).laplace(0, 1, 20_000).astype(np.float32)
    found = find_parameters(seen(values), INTEGERS["s8"], "mse")

    def error(parameters: Any) -> float:
        return float(np.square(parameters.round(values) - values).mean())

    factors = np.linspace(0.2, 1, 9)
    ends = [(values.min() * a, values.max() * b) for a in factors for b in factors]
    tried = [parameters_of(low, high, INTEGERS["s8"]) for low, high in ends]
    assert error(found) <= min(map(error, tried)) * 1.05


def test_pixels_keep_their_lattice() -> None:
    """From −1 to 1 in 255 steps, zero lies between two: steps of the same width would round each pixel by a half."""
    pixels = (np.random.default_rng(3).integers(0, 256, 20_000) / 127.5 - 1).astype(np.float32)
    whole = parameters_of(-1, 1, INTEGERS["s8"])
    found = find_parameters(seen(pixels), INTEGERS["s8"], "mse")
    errors_ = [float(np.square(each.round(pixels) - pixels).mean()) for each in (whole, found)]
    assert errors_[1] < 0.6 * errors_[0]


def test_what_a_function_flattens_does_not_count() -> None:
    """Far below zero a SiLU is zero: the range need not reach there."""
    values = np.random.default_rng(4).normal(-40, 20, 50_000)
    plain = find_parameters(seen(values), INTEGERS["s8"], "mse")
    found = find_parameters(seen(values), INTEGERS["s8"], "mse", FUNCTIONS["SiLU"])
    assert plain.low < -60
    assert found.low > -20
    assert found.high == pytest.approx(plain.high, rel=0.3)


@pytest.mark.parametrize("act", ["s8", "u8"])
@pytest.mark.parametrize("curves", [None, 1, 3])
def test_errors_of_many_ranges_are_those_of_each(act: str, curves: int | None) -> None:
    """Bit for bit, whether they are computed together, again, or one by one as they are defined."""
    distribution, integers = seen(np.random.default_rng(5).normal(0.3, 1, 5000)), INTEGERS[act]

    def function(values: Any) -> Any:
        bent = FUNCTIONS["SiLU"](values)
        return bent if curves == 1 else np.stack([np.tanh(values) * (at + 1) for at in range(3)])

    def error(low: float, high: float) -> float:
        found = parameters_of(low, high, integers)
        middles, shares = distribution.histogram()
        steps = np.clip(np.rint(middles / found.scale) + found.zero_point, integers.low, integers.high)
        wanted, results = middles, (steps - found.zero_point) * found.scale
        if curves is not None:
            wanted, results = function(wanted), function(results)
        return float(((wanted - results) ** 2 * shares).sum())

    ranges = [(-3.0 * part, 4.0 * other) for part in (1, 0.5, 0.1, 0) for other in (1, 0.7, 0.02, 0)]
    errors_of = _SquaredErrors(distribution, integers, None if curves is None else function)
    expected = [error(low, high) for low, high in ranges]
    assert errors_of(ranges) == expected
    assert [errors_of([each])[0] for each in reversed(ranges)] == expected[::-1]
    assert len(set(expected)) > 8


def test_weights_that_meet_large_inputs_count_most() -> None:
    random = np.random.default_rng(5)
    weights = random.normal(0, 1, (4, 64))
    weights[:, 0] = 20
    silent = np.ones(64)
    silent[0] = 1e-9
    kept, clipped = (find_weight_scales(weights, power, 8, search=True) for power in (np.ones(64), silent))
    assert (clipped < 0.8 * kept).all()
    assert find_weight_scales(np.zeros((2, 3)), None, 8, search=True).tolist() == [1, 1]


@pytest.mark.filterwarnings("ignore::triune.errors.QuantizationWarning")
def test_samples_are_left_as_they_are(tmp_path: Path) -> None:
    """Of few samples the check is on those that were observed: a product that reads the input does not change them."""
    b = Builder(5)
    flat = b.node("Reshape", "image", b.constant([1, 3 * SIZE * SIZE], np.int64))
    path = b.save(
        tmp_path / "float.onnx", y=b.node("MatMul", flat, b.constant(b.random.normal(0, 0.1, (3 * SIZE**2, 8))))
    )
    result = triune.quantize(path, calibration=samples(4), output=tmp_path / "q.onnx")
    assert result.checks[0].sqnr > 30


def test_bias_correction_keeps_means(tmp_path: Path) -> None:
    """With one coarse scale for all weights, the mean of each channel moves, and moves less when the bias makes up for it."""
    b = Builder(9)
    model = b.save(tmp_path / "float.onnx", y=b.conv(b.act(b.conv("image", 8), "relu"), 8, spread=3))

    def off(**options: Any) -> float:
        result = triune.quantize(
            model, calibration=samples(16), output=tmp_path / "q.onnx", per_channel=False, method="minmax", **options
        )
        reals = [triune.Session(path).run(sample)[0] for path in (model, result.path) for sample in samples(8, seed=8)]
        means = [np.mean(part, axis=(0, 1, 3, 4)) for part in (reals[:8], reals[8:])]
        return float(np.abs(means[0] - means[1]).max())

    assert off() < 0.5 * off(bias_correction=False)


def test_a_full_folder_for_temporary_files_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = ssd_like(tmp_path / "float.onnx")

    def fail(*arguments: Any, **options: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("onnx.save", fail)
    for work in (
        lambda: triune.quantize(model, calibration=samples(2), output=tmp_path / "q.onnx"),
        lambda: triune.compile(model, target="metis", output=tmp_path / "p", input_format="rgb8"),
    ):
        with pytest.raises(errors.FileError, match=r"cannot write to .*: No space left on device; the variable TMPDIR"):
            work()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["float.onnx"]


@pytest.mark.parametrize("act", ["s8", "u8", "s16"])
@pytest.mark.parametrize("per_channel", [True, False])
def test_kinds_of_integers(tmp_path: Path, act: str, per_channel: bool) -> None:
    model = ssd_like(tmp_path / "float.onnx")
    result = triune.quantize(
        model, calibration=samples(8), output=tmp_path / "q.onnx", act=act, per_channel=per_channel
    )
    least = {"s8": 20, "u8": 20, "s16": 60}[act]
    assert min(check.sqnr for check in result.checks) > least
    graph = onnx.load(tmp_path / "q.onnx").graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    kinds = {constants[node.input[2]].data_type for node in graph.node if node.op_type == "QuantizeLinear"}
    assert kinds == {{"s8": onnx.TensorProto.INT8, "u8": onnx.TensorProto.UINT8, "s16": onnx.TensorProto.INT16}[act]}
    made = [node.input[0] for node in graph.node if node.op_type == "DequantizeLinear"]
    weights = [constants[name] for name in made if name in constants]
    of_weights = {tensor.data_type for tensor in weights if len(tensor.dims) == 4}
    assert of_weights == {onnx.TensorProto.INT16 if act == "s16" else onnx.TensorProto.INT8}
    # Both runtimes take it for the same network.
    (sample,) = samples(1, seed=9)
    for mine, theirs in zip(
        triune.Session(result.path).run(sample), session(str(result.path)).run(None, sample), strict=True
    ):
        np.testing.assert_allclose(mine, theirs, atol=0.05 * np.abs(theirs).max())


def transformer_like(path: Path) -> Path:
    """Open extents, weights that two layers share, attention, a Gemm with factors, a transposed convolution in groups."""
    b = Builder(11)

    def random(*shape: int) -> str:
        return b.constant(b.random.normal(0, 0.3, shape))

    weights, bias = random(3, 3, 3, 3), random(3)
    x = b.node("Relu", b.node("Conv", "image", weights, bias, pads=[1] * 4))
    x = b.node("Conv", x, weights, bias, pads=[1] * 4)
    x = b.node("HardSwish", b.node("ConvTranspose", x, random(3, 1, 2, 2), group=3, strides=[2, 2]))
    rows = b.node("Reshape", b.node("Conv", x, random(8, 3, 1, 1)), b.constant([1, 8, -1], np.int64))
    rows = b.node("Transpose", rows, perm=[0, 2, 1])
    rows = b.node("LayerNormalization", rows, b.constant(np.ones(8)), b.constant(np.zeros(8)), axis=-1)
    query, key = b.node("MatMul", rows, random(8, 8)), b.node("MatMul", rows, random(8, 8))
    shares = b.node("Softmax", b.node("MatMul", query, b.node("Transpose", key, perm=[0, 2, 1])), axis=-1)
    rows = b.node("Add", b.node("MatMul", shares, rows), rows)
    pooled = b.node("ReduceMean", rows, axes=[1], keepdims=0)
    path = b.save(path, y=b.node("Gemm", pooled, random(8, 5), random(1, 5), alpha=0.5, beta=2.0))
    model = onnx.load(path)
    for axis, name in ((2, "H"), (3, "W")):
        model.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = name
    del model.graph.value_info[:]
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("options", [{}, {"act": "u8"}, {"act": "s16"}, {"method": "entropy"}, {"per_channel": False}])
def test_samples_of_several_sizes(tmp_path: Path, options: dict[str, Any]) -> None:
    model = transformer_like(tmp_path / "float.onnx")
    random = np.random.default_rng(12)
    several = [{"image": random.normal(0, 1, (1, 3, 6 + 2 * (at % 3), 8)).astype(np.float32)} for at in range(12)]
    result = triune.quantize(model, calibration=several, output=tmp_path / "q.onnx", **options)
    assert result.kept_float == {}
    for sample in several[:3]:
        (expected,), (found,) = (triune.Session(path).run(sample) for path in (model, result.path))
        np.testing.assert_allclose(found, expected, atol=0.05 * np.abs(expected).max())


@pytest.mark.parametrize("mixed", ["float", "16"])
def test_a_mixture_meets_its_bound(tmp_path: Path, mixed: str) -> None:
    """One layer with weights that 8 bits cannot hold is found and spared, the others are not."""
    b = Builder(8)
    x = b.act(b.conv("image", 8, name="first"), "relu")
    bad = b.conv(x, 8, name="bad")
    weights = next(tensor for tensor in b.constants if tensor.name == b.nodes[-1].input[1])
    values = numpy_helper.to_array(weights).copy()
    # In each row a weight that meets nothing, and hides the others.
    values[:, 7] = 0
    values[:, 7, 1, 1] = 300
    weights.CopyFrom(numpy_helper.from_array(values, weights.name))
    first = next(tensor for tensor in b.constants if tensor.name == b.nodes[0].input[1])
    dead = numpy_helper.to_array(first).copy()
    dead[7] = 0
    first.CopyFrom(numpy_helper.from_array(dead, first.name))
    model = b.save(tmp_path / "float.onnx", y=b.conv(b.act(bad, "relu"), 4, name="last"))
    options: dict[str, Any] = {
        "calibration": samples(8),
        "output": tmp_path / "q.onnx",
        "method": "minmax",
        "equalize": False,
    }
    with pytest.warns(
        errors.QuantizationWarning, match=r"ratio is \d\.\d dB; give more samples than 8, or let .* --mixed"
    ):
        triune.quantize(model, **options)
    bound = 15.0
    found = triune.quantize(model, **options, mixed=mixed, bound=bound)
    assert found.checks[0].sqnr >= bound - 0.5
    spared = found.wide if mixed == "16" else tuple(name for name, why in found.kept_float.items() if "mixed" in why)
    assert "bad" in spared
    assert "first" not in spared
    with pytest.raises(errors.UnsupportedError, match=r"no mixture of widths reaches 900 dB.*lower --bound"):
        triune.quantize(model, **options, mixed=mixed, bound=900)


@pytest.mark.parametrize("opens", [True, False], ids=["exactly", "as it stands"])
def test_a_mixture_is_the_same_on_every_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opens: bool) -> None:
    """What is tried is multiplied exactly: without VNNI, onnxruntime's sums of two products of bytes end at 16 bits otherwise.

    Where onnxruntime does not open a model so, its graph stands as it is.
    """
    import onnxruntime

    plain = onnxruntime.InferenceSession
    asked: list[str] = []

    def recorded(model: bytes, options: Any, **named: Any) -> Any:
        kinds = {node.op_type for node in onnx.load_from_string(model).graph.node}
        stands = options.graph_optimization_level == onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        try:
            exact = options.get_session_config_entry("session.x64quantprecision") == "1"
        except RuntimeError:
            exact = False
        if exact and not opens:
            raise RuntimeError("Attempt to replace the existing tensor")
        if "QuantizeLinear" in kinds:
            asked.append("exact" if exact else "as it stands" if stands else "neither")
        return plain(model, options, **named)

    monkeypatch.setattr(onnxruntime, "InferenceSession", recorded)
    model = segmenter(tmp_path / "float.onnx")
    triune.quantize(model, calibration=samples(8), output=tmp_path / "q.onnx", mixed="float", bound=12)
    assert len(asked) > 1
    # The last is the check of what is written.
    assert set(asked[:-1]) == {"exact" if opens else "as it stands"}


def test_options_that_there_are_not(tmp_path: Path) -> None:
    model = segmenter(tmp_path / "float.onnx")
    some: dict[str, Any] = {"calibration": samples(1), "output": tmp_path / "q.onnx"}
    with pytest.raises(
        errors.ArgumentError, match="method: expected one of mse, minmax, percentile, entropy, got 'max'"
    ):
        triune.quantize(model, **some, method="max")
    with pytest.raises(errors.ArgumentError, match="act: expected one of s8, u8, s16, got 's4'"):
        triune.quantize(model, **some, act="s4")
    with pytest.raises(errors.ArgumentError, match="mixed: with act 's16'"):
        triune.quantize(model, **some, act="s16", mixed="16")
    from triune.quantization import QuantizationOptions

    for options, message in (
        (QuantizationOptions(act="s16"), "bits=16"),
        (QuantizationOptions(mixed="16"), "only buyi"),
    ):
        with pytest.raises(errors.ArgumentError, match=message):
            triune.compile(model, calibration=samples(1), output=tmp_path / "out", quantization=options)


def test_checks_see_what_is_wrong() -> None:
    random = np.random.default_rng(9)
    reals = [
        {"y": random.normal(0, 1, (1, 3, 8, 8)).astype(np.float32), "k": random.integers(0, 9, (1, 50))}
        for _ in range(4)
    ]

    def faults(change: Any) -> list[str]:
        other = [{name: change(name, values) for name, values in each.items()} for each in reals]
        return [check.fault for check in check_outputs(reals, other, ["y", "k"])]

    assert faults(lambda name, values: values) == ["", ""]
    assert faults(lambda name, values: values * 0)[0].startswith("every value is 0, where float has -")
    assert faults(lambda name, values: values + 3 * random.normal(0, 1, values.shape))[0].startswith(
        "its signal to noise"
    )
    assert faults(lambda name, values: np.where(values > 5, values, values[..., ::-1]))[1] != ""
    infinite = faults(lambda name, values: values + np.float32(np.inf) if name == "y" else values)
    assert infinite[0] == "it has values that are infinite or NaN"

    def one_channel(name: str, values: Any) -> Any:
        values = values.copy()
        values[:, 1] = 0 if name == "y" else values[:, 1]
        return values

    assert faults(one_channel)[0].startswith("1 of 3 channels say the same everywhere: channel 1 is 0")


def test_outputs_whose_extents_depend_on_data() -> None:
    """Other numbers of boxes are no fault, none where there were some is; samples of two sizes are compared as they are."""
    boxes = [{"y": np.ones((count, 4), np.float32)} for count in (3, 5)]
    fewer = [{"y": np.ones((2, 4), np.float32)}] * 2
    none = [{"y": np.ones((0, 4), np.float32)}] * 2
    assert [check_outputs(boxes, other, ["y"])[0].fault for other in (boxes, fewer)] == ["", ""]
    assert check_outputs(boxes, none, ["y"])[0].fault == "it is empty, where float has values"
    assert check_outputs(boxes, boxes, ["y"])[0].sqnr == float("inf")
    places, other = ([{"y": np.arange(count)}] for count in (4, 3))
    said = [str(check_outputs(*pair, ["y"])[0]) for pair in ((places, other), (boxes, none), (places, places))]
    assert said == [
        "y: it has another shape than in float with some of the samples",
        "y: it is empty, where float has values",
        "y: 100.0% of the values are the same",
    ]
    nothing = [{"y": np.zeros((2, 0), np.int64)}]
    assert str(check_outputs(nothing, nothing, ["y"])[0]) == "y: 100.0% of the values are the same"


def test_every_sample_is_as_likely_to_be_kept() -> None:
    reservoir = Reservoir(10)
    for index in range(1000):
        reservoir.add({"x": np.array([index])})
    kept = sorted(int(sample["x"][0]) for sample in reservoir.samples)
    assert len(set(kept)) == 10
    assert kept[0] < 500 < kept[-1]


def test_what_a_reservoir_leaves_out() -> None:
    reservoir = Reservoir(3)
    left = [reservoir.add({"x": np.array([index])}) for index in range(50)]
    assert left[:3] == [None] * 3
    seen = [int(sample["x"][0]) for sample in (*filter(None, left), *reservoir.samples)]
    assert sorted(seen) == list(range(50))


@pytest.mark.parametrize(("count", "held"), [(1, 0), (7, 0), (19, 0), (20, 4), (26, 5), (40, 8), (300, 8)])
def test_some_samples_are_held_out(count: int, held: int) -> None:
    """Each is either for the ranges or held out; of a few, all are for the ranges, and some are shown, too."""
    all_ = HeldOut(({"x": np.array([index])} for index in range(count)), 8)
    rest = [int(sample["x"][0]) for sample in all_]
    shown = [int(sample["x"][0]) for sample in all_.shown]
    assert all_.count == held
    assert len(rest) == count - held
    assert len(shown) == (held or min(count, 8))
    assert sorted({*rest, *shown}) == list(range(count))
    assert not held or not set(rest) & set(shown)


def test_checks_are_on_samples_that_ranges_do_not_come_from(tmp_path: Path) -> None:
    """One in a row of equal samples is ten times as bright: where it is held out, it is clipped, and the check shows it."""
    model = segmenter(tmp_path / "float.onnx")
    (one,) = samples(1)
    bright = {"image": one["image"] * 10}
    peaks, levels = [], []
    for at in range(20):
        rows = [bright if index == at else one for index in range(20)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", errors.QuantizationWarning)
            result = triune.quantize(model, calibration=rows, output=tmp_path / "q.onnx", method="minmax")
        assert (result.samples, result.held_out) == (16, 4)
        assert result.checked == "on 4 samples that the ranges do not come from; these come from 16"
        peaks.append(result.ranges["image"][1])
        levels.append(min(check.sqnr for check in result.checks))
    high = [peak > 2 * min(peaks) for peak in peaks]
    assert high.count(False) == 4
    assert max(level for level, seen in zip(levels, high, strict=True) if not seen) < 20


def test_few_samples_are_told(tmp_path: Path) -> None:
    assert few(32) == ()
    assert few(1)[0].startswith("1 sample is few: ")
    result = triune.quantize(segmenter(tmp_path / "float.onnx"), calibration=samples(3), output=tmp_path / "q.onnx")
    assert result.advice[0].startswith("3 samples are few: ")
    assert result.held_out == 0
    assert result.checked.startswith("on 3 of the 3 samples that the ranges come from, which flatters; ")


def test_sixteen_bits_leave_room() -> None:
    for method in METHODS:
        values = np.random.default_rng(1).normal(0, 1, 10_000)
        found = find_parameters(seen(values), INTEGERS["s16"], method)
        assert found.high >= 2 * np.quantile(np.abs(values), 0.999), method


def test_samples_that_are_one_value_everywhere(tmp_path: Path) -> None:
    model = segmenter(tmp_path / "float.onnx")
    grey = [{"image": np.full((1, 3, SIZE, SIZE), 0.5, np.float32)}] * 3
    with pytest.raises(ValueError, match=r"input 'image': every sample has the value 0\.5 everywhere"):
        triune.quantize(model, calibration=grey, output=tmp_path / "q.onnx")
    assert not (tmp_path / "q.onnx").exists()
    triune.quantize(model, calibration=[*grey, *samples(2)], output=tmp_path / "q.onnx")


def test_files_that_cannot_serve_are_named_before_the_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A broken image, one of one colour, an array of another size and one with NaN among good ones; nothing is written."""
    pillow = pytest.importorskip("PIL.Image")
    model = segmenter(tmp_path / "float.onnx")
    folder = tmp_path / "calibration"
    folder.mkdir()
    random = np.random.default_rng(10)
    for index in range(6):
        pillow.fromarray(random.integers(0, 256, (20, 30, 3), np.uint8)).save(folder / f"good{index}.png")
    good = {path.name for path in folder.iterdir()}
    (folder / "broken.jpg").write_bytes((folder / "good0.png").read_bytes()[:200])
    pillow.new("RGB", (30, 20), (7, 7, 7)).save(folder / "grey.png")
    np.save(folder / "small.npy", random.random((2, 3, 8, 8), np.float32))
    nan = samples(3)[1]["image"].copy()
    nan[0, 0, 0, 0] = np.nan
    np.savez(folder / "nan.npz", image=np.concatenate([samples(1)[0]["image"], nan]))
    output = tmp_path / "q.onnx"
    output.write_text("as it was")
    command = ["quantize", str(model), "--calibrate", str(folder), "-o", str(output), "-v"]
    assert main(command) == 1
    err = capsys.readouterr().err
    assert "calibrating" not in err
    (line,) = [line for line in err.splitlines() if line.startswith("triune: error: ")]
    for name, why in {
        "broken.jpg": "not an image that can be read",
        "grey.png": "input 'image': the value 0.027451 everywhere",
        "small.npy": "sample 1: input 'image': expected shape (1, 3, 64, 64), got (1, 3, 8, 8)",
        "nan.npz": "sample 2: input 'image': expected finite values, got NaN or infinity",
    }.items():
        assert f"{name}: {why}" in line
    assert not any(name in line for name in good)
    assert output.read_text() == "as it was"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["calibration", "float.onnx", "q.onnx"]
    for name in ("broken.jpg", "grey.png", "small.npy", "nan.npz"):
        (folder / name).unlink()
    assert main(command) == 0
    assert capsys.readouterr().out.endswith(f"{output}\n")
    assert triune.Session(output).outputs


def test_a_failure_on_the_way_leaves_the_file(tmp_path: Path) -> None:
    model = yolox_like(tmp_path / "float.onnx")
    (tmp_path / "q.onnx").write_text("as it was")

    def broken() -> Any:
        yield samples(1)[0]
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        triune.quantize(model, calibration=broken(), output=tmp_path / "q.onnx")
    assert (tmp_path / "q.onnx").read_text() == "as it was"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["float.onnx", "q.onnx"]
    with pytest.raises(errors.FileError, match="cannot write"):
        triune.quantize(model, calibration=samples(2), output=tmp_path / "no" / "q.onnx")


@pytest.mark.parametrize(("groups", "padding"), [(1, {"pads": [1, 0, 1, 2]}), (2, {"auto_pad": "SAME_LOWER"})])
def test_weights_are_rounded_by_what_they_read_together(groups: int, padding: dict[str, Any]) -> None:
    """The mean products of a convolution's inputs tell the power of its results, and rounding by them leaves less error."""
    random = np.random.default_rng(3)
    weights = random.normal(0, 1, (8, 8 // groups, 3, 2)).astype(np.float32)
    node = onnx.helper.make_node("Conv", ["x", "w"], ["y"], group=groups, strides=[2, 1], dilations=[1, 1], **padding)
    values = [onnx.helper.make_empty_tensor_value_info(name) for name in "xy"]
    values[0] = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 8, 5, 6])
    graph = onnx.helper.make_graph([node], "g", values[:1], values[1:], [numpy_helper.from_array(weights, "w")])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    together = random.normal(0, 1, (8, 8))
    inputs = [
        np.einsum("ij,njhw->nihw", together, random.normal(2, 1, (1, 8, 5, 6))).astype(np.float32) for _ in range(40)
    ]
    (found,) = Layout(Network(model), (), 8).grams().values()
    gram = found["y"]
    for number, each in enumerate(inputs):
        assert (gram.mean(centred=False) is None) == (number < 32), "few samples fit nothing else"
        gram.add(each)
    runner = session(model)
    results = np.concatenate([runner.run(None, {"x": each})[0] for each in inputs])
    rows = weights.reshape(8, -1).astype(np.float64)

    def power(rows: Any, gram: Any) -> Any:
        return np.array([row @ gram[at * groups // 8] @ row for at, row in enumerate(rows)])

    whole, centred = gram.mean(centred=False), gram.mean(centred=True)
    np.testing.assert_allclose(power(rows, whole), np.square(results).mean((0, 2, 3)), rtol=1e-4)
    np.testing.assert_allclose(power(rows, centred), results.var((0, 2, 3)), rtol=1e-4)
    scales = np.abs(rows).max(axis=1) / 20
    integers = round_together(rows, scales, whole, 20)
    assert np.abs(integers).max() <= 20
    np.testing.assert_array_equal(integers, np.rint(integers))
    errors = [rows - each * scales[:, None] for each in (integers, np.rint(rows / scales[:, None]))]
    better, nearest = (power(each, whole).sum() for each in errors)
    assert better < 0.7 * nearest


def test_inputs_that_say_nothing_of_each_other() -> None:
    """Of zeros, and of one value everywhere: weights as they would be rounded alone."""
    rows = np.random.default_rng(0).normal(0, 1, (4, 6))
    scales = np.full(4, 0.05)
    for gram in (np.zeros((1, 6, 6)), np.eye(6)[None] * 1e-20, np.eye(6)[None] * 1e20):
        np.testing.assert_array_equal(round_together(rows, scales, gram, 127), np.rint(rows / scales[:, None]))


def test_other_answers_are_told_with_what_helps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, held = close_classifier(tmp_path / "float.onnx"), samples(40)
    with pytest.warns(
        errors.QuantizationWarning, match=r"^output 'scores': \d of 8 best classes are those of float"
    ) as told:
        result = triune.quantize(model, calibration=held, output=tmp_path / "q.onnx")
    assert result.warnings == tuple(str(each.message) for each in told)
    (text,) = result.warnings
    assert "on 8 samples; of others " in text
    assert "with 95 % confidence), less than 98%: --mixed" in text
    assert "--act s16" in text
    with pytest.warns(errors.QuantizationWarning, match="best classes are those of float") as told:
        triune.compile(model, calibration=held, output=tmp_path / "package")
    assert told[0].filename == __file__
    np.savez(tmp_path / "held.npz", image=np.concatenate([each["image"] for each in held]))
    for command in (["quantize", "-o", str(tmp_path / "q2.onnx")], ["compile", "-o", str(tmp_path / "other")]):
        assert main([*command, str(model), "--calibrate", str(tmp_path / "held.npz")]) == 0
        assert "less than 98%: --mixed" in capsys.readouterr().err
    fine = triune.quantize(model, calibration=held, output=tmp_path / "q.onnx", act="s16")
    assert fine.warnings == ()


def test_answers_that_agree() -> None:
    one, other = np.eye(5, dtype=np.float32)[None, 2], np.eye(5, dtype=np.float32)[None, 3]
    plane = {"image": np.zeros((1, 3, 8, 8), np.float32)}

    def found(reference: list[Any], values: list[Any]) -> list[tuple[int, int]]:
        rows = [[{"y": each} for each in side] for side in (reference, values)]
        return [(each.same, each.of) for each in agreements([plane] * len(reference), *rows, labels=0)]

    assert found([one, one], [one, other]) == [(1, 2)]
    # An image, and numbers that are no scores.
    assert found([np.zeros((1, 3, 4, 4), np.float32)], [np.ones((1, 3, 4, 4), np.float32)]) == []
    assert found([np.zeros((1, 5), np.int64)], [np.ones((1, 5), np.int64)]) == []


@pytest.mark.parametrize("of", [1, 8, 300])
def test_what_some_answers_say_of_all(of: int) -> None:
    """At the limits of the share, so many or more, or so many or fewer, come in one case of forty."""

    def chance(counts: range, share: float) -> float:
        return sum(math.comb(of, count) * share**count * (1 - share) ** (of - count) for count in counts)

    for same in sorted({0, of // 3, of - 1, of}):
        low, high = Agreement("y", "best classes", same, of).limits
        assert 0 <= low <= same / of <= high <= 1
        assert low == 0 if same == 0 else chance(range(same, of + 1), low) == pytest.approx(0.025)
        assert high == 1 if same == of else chance(range(same + 1), high) == pytest.approx(0.025)
    assert Agreement("y", "boxes", 0, 0).limits == (0, 1)


def test_boxes_that_agree() -> None:
    """Corners and three classes for each of 40 boxes; one that goes, one that comes, one in another place."""
    corners = np.arange(40, dtype=np.float32)[:, None] * 10 + np.array([0, 0, 8, 8], np.float32)
    scores = np.full((40, 3), 0.01, np.float32)
    scores[:6, 1] = 0.9
    places, marks = corners.copy(), scores.copy()
    marks[0, 1], marks[10, 1] = 0.1, 0.9
    places[1] += 6
    plane = {"image": np.zeros((1, 3, 400, 400), np.float32)}
    sides = ([{"boxes": a[None], "scores": b[None]}] for a, b in ((corners, scores), (places, marks)))
    (boxes,) = agreements([plane], *sides, labels=0)
    assert (boxes.output, boxes.what) == ("boxes,scores", "boxes")
    # Four of six are the same; two of float have no match, and two of the other.
    assert (boxes.same, boxes.of) == (4, 8)
