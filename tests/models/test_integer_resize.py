"""A Resize of bytes between the quantizer that makes them and the dequantizer that reads them, in files that state no types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from beside import load

import triune

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
helper = onnx.helper

Array = np.ndarray[Any, Any]
deployed = load(__file__, "test_deployable_networks")
WAYS = {
    "linear": {"mode": "linear", "coordinate_transformation_mode": "half_pixel"},
    "linear, asymmetric": {"mode": "linear", "coordinate_transformation_mode": "asymmetric"},
    "linear between corners": {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
    "nearest": {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    "nearest of halves": {"mode": "nearest", "coordinate_transformation_mode": "half_pixel"},
}


def network(way: str, between: bool, signed: bool, moved: bool = False) -> tuple[bytes, dict[str, Array]]:
    """Return a Resize of bytes in front of a convolution, or between two."""
    net = deployed.networks.Net(3, signed=signed)
    x = net.input(1, 5, 6, 7)
    if between:
        x = net.conv(x, 9, 3)
    # The integers that the last DequantizeLinear reads.
    reader = net.nodes[-1]
    (q, *parameters) = reader.input
    scales = net.constant(np.asarray([1, 1, 2, 2], np.float32))
    net.nodes.pop()
    if moved:
        (q,) = net.node("MaxPool", [q], kernel_shape=[1, 1])
    (q,) = net.node("Resize", [q, "", scales], **WAYS[way])
    (real,) = net.node("DequantizeLinear", [q, *parameters])
    shape = (1, x.shape[1], 2 * x.shape[2], 2 * x.shape[3])
    x = deployed.networks.Value(real, shape, x.scale, x.zero_point)
    model = onnx.load_from_string(net.model(net.conv(x, 6, 3)))
    del model.graph.value_info[:]
    return model.SerializeToString(), net.feeds


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("between", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_it_runs_as_on_the_host(way: str, between: bool, signed: bool, tmp_path: Path) -> None:
    model, feeds = network(way, between, signed)
    file = tmp_path / "net.onnx"
    file.write_bytes(model)
    (mine,) = triune.Session(file).run(feeds)
    (theirs,) = deployed.reference(model, feeds, optimized=False)
    step = list(deployed.steps_of(onnx.load_from_string(model).graph).values())[-1]
    # A mean that is an integer in one order of additions lies just below it in another.
    assert float(np.abs(mine - theirs).max()) <= 1.01 * step
    assert (mine == theirs).mean() > (0.9 if "linear" in way else 0.999)
    package = triune.compile(file, target="metis", output=tmp_path / "metis")
    assert package.report.device.operators > 0
    names = [name for name, *_ in triune.Session(file).outputs]
    assert all(np.array_equal(a, b) for a, b in zip(deployed.card(file, feeds, names), [mine], strict=True))
    if "linear" in way:
        # Integers whose means are cut off have no operator among the vendor's: that is said, with what to do.
        for target in deployed.BOARDS:
            with pytest.raises(
                triune.errors.UnsupportedError, match=r"\(Resize\): it computes on integers, .*--format package"
            ):
                triune.compile(file, target=target, output=tmp_path / target, format="icraft")
    else:
        assert deployed.differences(model, feeds, tmp_path, ("zg330", "buyi")) == []


def test_what_moves_bytes_tells_their_type() -> None:
    model, feeds = network("linear", False, False, moved=True)
    (mine,), (theirs,) = triune.Session(model).run(feeds), deployed.reference(model, feeds, optimized=False)
    assert (mine == theirs).mean() > 0.9
