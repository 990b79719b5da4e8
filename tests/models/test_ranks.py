"""Operators over rows and sequences, where others have images: on every card as on the host."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from beside import load

import triune

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

deployed = load(__file__, "test_deployable_networks")

NORMALIZED = "n = BatchNormalization(d, gamma, beta, mean, variance)"
CORNERS = 'coordinate_transformation_mode = "align_corners"'
BODIES = {
    "normalized rows": ("5, 6", "5, 6", NORMALIZED),
    "normalized sequence": ("2, 6, 7", "2, 6, 7", NORMALIZED),
    "resized sequence": ("1, 6, 8", "1, 6, 24", 'n = Resize<mode = "linear">(d, , three)'),
    "resized sequence between corners": ("1, 6, 8", "1, 6, 24", f'n = Resize<mode = "linear", {CORNERS}>(d, , three)'),
    "pooled and resized sequence": (
        "1, 6, 8",
        "1, 6, 21",
        'r = MaxPool<kernel_shape = [2]>(d) n = Resize<mode = "linear">(r, , three)',
    ),
}


@pytest.mark.parametrize("target", ["metis", "zg330", "buyi"])
@pytest.mark.parametrize("name", BODIES)
def test_it_runs_as_on_the_host(name: str, target: str, tmp_path: Path) -> None:
    own, result, body = BODIES[name]
    rows = "{0.5, 1.5, -1, 2, 0.25, 1}"
    text = f"""<ir_version: 9, opset_import: ["" : 19]> net (float[{own}] x) => (float[{result}] y) <
        float s = {{0.02}}, int8 z = {{3}}, float[3] three = {{1, 1, 3}}, float t = {{0.03}}, int8 u = {{-7}},
        float[6] gamma = {rows}, float[6] beta = {rows}, float[6] mean = {rows},
        float[6] variance = {{1, 2, 0.5, 1, 3, 1}}
    > {{
        q = QuantizeLinear(x, s, z)
        d = DequantizeLinear(q, s, z)
        {body}
        p = QuantizeLinear(n, t, u)
        e = DequantizeLinear(p, t, u)
        g = Relu(e)
        h = QuantizeLinear(g, t, u)
        y = DequantizeLinear(h, t, u)
    }}"""
    model = onnx.parser.parse_model(text).SerializeToString()
    file = tmp_path / "net.onnx"
    file.write_bytes(model)
    shape = [int(extent) for extent in own.split(",")]
    feeds = {"x": np.random.default_rng(0).standard_normal(shape).astype(np.float32)}
    mine = triune.Session(file).run(feeds)
    (theirs,) = deployed.reference(model, feeds, optimized=False)
    assert float(np.abs(mine[0] - theirs).max()) <= 0.0301
    if target == "metis":
        found = deployed.card(file, feeds, ["y"])
        package = triune.compile(file, target=target, output=tmp_path / "again")
        if "normalized" in name:
            assert package.report.host.operators == 0
    else:
        found, adapted = deployed.boards(file, target, feeds, [len(shape)])
        np.testing.assert_array_equal(adapted[0], found[0])
    if target != "buyi":
        np.testing.assert_array_equal(found[0], mine[0])
    # A board whose factors are powers of two times integers rounds some of them.
    assert float(np.abs(found[0] - mine[0]).max()) <= 0.0301
