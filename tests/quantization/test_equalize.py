"""Channels that are scaled so that one range serves all: by what they hold, round functions, and what is left alone."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from quantization_networks import SIZE, Builder, network, samples

import triune
from triune.cli import main
from triune.quantization._channels import Channels, steps_of
from triune.quantization._equalize import channels_of, curves_of, equalize_layers
from triune.quantization._groups import function_of, join_groups
from triune.quantization._model import Network
from triune.quantization._statistics import session, with_outputs
from triune.quantization._write import INTEGERS


def test_equalization_changes_nothing_in_float(tmp_path: Path) -> None:
    """Branches, a sum, a joint, a pool and a depthwise convolution between; what leaves the network keeps its scale."""
    b = Builder(6)
    one = b.act(b.conv("image", 8, spread=8), "relu")
    pooled = b.node("MaxPool", one, kernel_shape=[2, 2], strides=[2, 2])
    b.channels[pooled] = 8
    left, right = b.conv(pooled, 8, spread=8), b.conv(pooled, 8, spread=8)
    total = b.node("Add", left, right)
    b.channels[total] = 8
    joint = b.node("Concat", total, left, axis=1)
    b.channels[joint] = 16
    deep = b.node(
        "Conv", b.act(b.conv(joint, 6, spread=8), "relu"), b.constant(b.random.normal(0, 1, (6, 1, 3, 3))), group=6
    )
    b.channels[deep] = 6
    path = b.save(tmp_path / "float.onnx", y=b.conv(deep, 4), left=left)
    found = network(path)
    (sample,) = samples(1)
    before = session(found.model).run(None, sample)
    names = list(channels_of(found))
    peaks = peaks_of(found, names, sample)
    factors = equalize_layers(found, held_by(found, names, sample), INTEGERS["s8"])
    # `left` is an output, and `total` is added to it: neither can be scaled.
    assert {one, pooled} <= set(factors)
    assert not {"left", total, joint} & set(factors)
    for expected, real in zip(before, session(found.model).run(None, sample), strict=True):
        np.testing.assert_allclose(real, expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max())
    after = peaks_of(found, names, sample)
    alive = peaks[one] > 0
    assert np.ptp(np.log(after[one][alive])) < np.ptp(np.log(peaks[one][alive]))


@pytest.mark.parametrize("case", ["slopes", "ranks"])
def test_what_does_not_pass_a_factor_on_is_left_alone(tmp_path: Path, case: str) -> None:
    """Slopes that are computed, and a sum whose operands have their channels along different axes."""
    b = Builder(6)
    wide = b.act(b.conv("image", 8, spread=8), "relu")
    if case == "slopes":
        mixed = b.node("PRelu", b.conv(wide, 8, spread=8), b.conv("image", 8, spread=8))
    else:
        row = b.act(b.conv("image", SIZE, spread=8), "relu")
        sequence = b.node("Reshape", row, b.constant([1, SIZE, -1], np.int64))
        narrow = b.node("Conv", sequence, b.constant(b.random.normal(0, 0.1, (SIZE, SIZE, 1))))
        pooled = b.node("GlobalAveragePool", narrow)
        deep = b.conv(wide, SIZE, spread=8)
        mixed = b.node("Add", deep, pooled)
    b.channels[mixed] = 8 if case == "slopes" else SIZE
    found = network(b.save(tmp_path / "float.onnx", y=b.conv(b.act(mixed, "relu"), 4)))
    (sample,) = samples(1)
    before = session(found.model).run(None, sample)[0]
    names = list(channels_of(found))
    assert wide in equalize_layers(found, held_by(found, names, sample), INTEGERS["s8"])
    after = session(found.model).run(None, sample)[0]
    np.testing.assert_allclose(after, before, rtol=1e-3, atol=1e-4 * np.abs(before).max())


def held_by(found: Network, names: list[str], sample: dict[str, Any]) -> dict[str, Channels]:
    """Return what tensors' channels hold with a sample."""
    held = {name: Channels() for name in names}
    for name, values in zip(names, session(with_outputs(found.model, names)).run(names, sample), strict=True):
        held[name].add(values)
    return held


def peaks_of(found: Network, names: list[str], sample: dict[str, Any]) -> dict[str, Any]:
    """Return the largest magnitude in each channel."""
    return {name: np.abs(each.values).max(axis=1) for name, each in held_by(found, names, sample).items()}


@pytest.mark.filterwarnings("ignore::triune.errors.QuantizationWarning")
def test_channels_of_nothing_do_not_outweigh_others(tmp_path: Path) -> None:
    """A function with a dead channel in front of it, and one of next to nothing, keeps its range for those that are alive."""
    quality = {}
    for alive in (True, False):
        b = Builder(4)
        weights = b.random.normal(0, 0.3, (12, 3, 3, 3))
        if not alive:
            weights[2], weights[5] = 0, weights[5] * 1e-6
        hidden = b.node("Conv", "image", b.constant(weights), pads=[1] * 4)
        b.channels[hidden] = 12
        path = b.save(tmp_path / "float.onnx", y=b.conv(b.act(hidden), 6))
        quality[alive] = triune.quantize(path, calibration=samples(8), output=tmp_path / "q.onnx").checks[0].sqnr
    assert quality[False] > quality[True] - 3


def test_steps_have_one_zero_point_between_them() -> None:
    """Of each row as much is lost as of the others, beside what it is, whatever its size; and zeros want nothing."""
    rows = np.random.default_rng(3).normal(1, 1, (5, 4000)) * np.array([[1e-6], [1.0], [-3.0], [50.0], [0.0]])
    rows[2] *= -1
    ones = np.ones(5)
    steps = steps_of(rows, INTEGERS["s8"], ones, ones, clips=True)
    assert steps[4] == 0
    np.testing.assert_allclose(steps[:4] / np.abs(rows[:4]).mean(axis=1), steps[1] / np.abs(rows[1]).mean(), rtol=0.2)
    whole = steps_of(rows, INTEGERS["s8"], ones, ones, clips=False)
    # Nothing is clipped: 255 steps hold every row, of which some need all but one.
    assert (np.ptp(rows[:4], axis=1) <= 255.0001 * whole[:4]).all()
    assert (np.ptp(rows[:4], axis=1) > 200 * whole[:4]).all()
    rare = np.concatenate([np.full(4000, 0.5), -np.full(4000, 0.5), [1000.0]])[None] * np.linspace(0.9, 1, 8001)
    rounded, clipped = (steps_of(rare, INTEGERS["s8"], ones[:1], ones[:1], clips=each) for each in (False, True))
    assert rounded > 0.99 * 1000 / 255
    assert clipped <= rounded


def bent_network(b: Builder, kind: str) -> str:
    """Return what convolutions make, with bent functions, a sum and a depthwise convolution between them.

    Channels differ a hundredfold, and those that read them take as much of each.
    """
    apart = 10.0 ** b.random.uniform(-1, 1, 12)

    def bent(x: str) -> str:
        made: str = b.act(x) if kind == "SiLU" else b.node(kind, x)
        b.channels[made] = b.channels[x]
        return made

    def conv(x: str, before: Any, after: Any, kernel: int = 3) -> str:
        weights = b.random.normal(0, np.sqrt(2 / (len(before) * kernel**2)), (len(after), len(before), kernel, kernel))
        weights *= after.reshape(-1, 1, 1, 1) / before.reshape(1, -1, 1, 1)
        made: str = b.node("Conv", x, b.constant(weights), pads=[kernel // 2] * 4)
        b.channels[made] = len(after)
        return made

    stem = bent(conv("image", np.ones(3), apart))
    total = b.node("Add", stem, bent(conv(stem, apart, apart)))
    weights = b.random.normal(0, 0.4, (12, 1, 3, 3)) * (b.random.permutation(apart) / apart).reshape(-1, 1, 1, 1)
    deep = b.node("Conv", total, b.constant(weights), group=12, pads=[1] * 4, name="deep")
    b.channels[deep] = 12
    return conv(bent(deep), np.ones(12), np.ones(6), 1)


@pytest.mark.filterwarnings("ignore::triune.errors.QuantizationWarning")
@pytest.mark.parametrize(("kind", "gained"), [("SiLU", 15), ("HardSwish", 15), ("Tanh", 1.5), ("Softplus", 8)])
def test_equalization_puts_factors_round_bent_functions(tmp_path: Path, kind: str, gained: float) -> None:
    """In float nothing changes; of 8 bits each channel has more; whole on every card, with a session's bits."""
    b = Builder(8)
    path = b.save(tmp_path / "float.onnx", opset=22, y=bent_network(b, kind))
    calibration, (sample,) = samples(24), samples(1, seed=9)
    found = network(path)
    before = session(found.model).run(None, sample)[0]
    join_groups(found)
    curves = curves_of(found, (), partial(function_of, found))
    names = list(channels_of(found, curves))
    factors = equalize_layers(found, held_by(found, names, sample), INTEGERS["s8"], curves)
    assert {*curves} <= {*factors}
    if kind == "SiLU":
        # Channels that reach farther below 0 are turned round.
        assert any((each < 0).any() and (each > 0).any() for each in factors.values())
    after = session(found.model).run(None, sample)[0]
    np.testing.assert_allclose(after, before, rtol=1e-3, atol=1e-4 * np.abs(before).max())
    checks = {}
    for equalize in (False, True):
        result = triune.quantize(path, calibration=calibration, output=tmp_path / f"{equalize}.onnx", equalize=equalize)
        assert result.kept_float == {}
        checks[equalize] = result.checks[0].sqnr
    assert checks[True] > checks[False] + gained
    on_cpu = triune.Session(tmp_path / "True.onnx").run(sample)[0]
    for target in ("metis", "zg330", "buyi"):
        report = triune.compile(tmp_path / "True.onnx", output=tmp_path / target, target=target).report
        assert (report.segments, report.stayed) == (1, ())
    np.savez(tmp_path / "x.npz", **sample)
    assert (
        main(["run", str(tmp_path / "metis"), "--input", str(tmp_path / "x.npz"), "--output", str(tmp_path / "y.npz")])
        == 0
    )
    np.testing.assert_array_equal(np.load(tmp_path / "y.npz")["y"], on_cpu)


def test_channels_that_are_alike_keep_one_table(tmp_path: Path) -> None:
    """No factors where they gain nothing."""
    b = Builder(8)
    turned = b.random.normal(0, 0.4, (1, 3, 3, 3))
    weights = np.concatenate([turned, -turned, turned[..., ::-1], -turned[..., ::-1]])
    hidden = b.node("Conv", "image", b.constant(weights), pads=[1] * 4)
    b.channels[hidden] = 4
    even = b.node("Tanh", hidden)
    b.channels[even] = 4
    shared = b.conv(even, 8, spread=12)
    path = b.save(tmp_path / "float.onnx", y=b.node("Sub", shared, b.node("Tanh", b.conv(shared, 8))))
    result = triune.quantize(path, calibration=samples(8), output=tmp_path / "q.onnx")
    assert not [node.name for node in onnx.load(result.path).graph.node if node.name.endswith("scaled")]
