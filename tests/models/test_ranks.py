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


@pytest.mark.parametrize("target", ["zg330", "buyi"])
def test_a_board_gives_back_what_the_host_reads_under_other_extents(target: str, tmp_path: Path) -> None:
    """A convolution's sequence is a result with another scale, and read by one whose result is in reals."""
    rng = np.random.default_rng(1)
    text = """<ir_version: 9, opset_import: ["" : 19]> net (float[1, 8, 25] x) => (float[1, 16, 25] y, float[1, 4, 25] z) <
        float s = {0.02}, int8 o = {3}, float t = {0.3}, int8 p = {-7}, float u = {0.25}, int8 q = {9},
        float half = {0.5}, float f = {0.05}, int8 g = {0}
    > {
        a = QuantizeLinear(x, s, o)
        b = DequantizeLinear(a, s, o)
        c = DequantizeLinear(v, f, g)
        d = Conv(b, c)
        e = QuantizeLinear(d, t, p)
        h = DequantizeLinear(e, t, p)
        i = QuantizeLinear(h, u, q)
        y = DequantizeLinear(i, u, q)
        j = DequantizeLinear(w, f, g)
        k = Conv(h, j)
        z = Mul(k, half)
    }"""
    model = onnx.parser.parse_model(text)
    for name, extents in {"v": (16, 8, 1), "w": (4, 16, 1)}.items():
        weights = rng.integers(-100, 101, extents).astype(np.int8)
        model.graph.initializer.append(onnx.numpy_helper.from_array(weights, name))
    file = tmp_path / "net.onnx"
    file.write_bytes(model.SerializeToString())
    feeds = {"x": rng.standard_normal((1, 8, 25)).astype(np.float32)}
    found, adapted = deployed.boards(file, target, feeds, [3, 3])
    for one, other, mine in zip(found, adapted, triune.Session(file).run(feeds), strict=True):
        np.testing.assert_array_equal(one, other)
        if target == "zg330":
            np.testing.assert_allclose(one, mine, rtol=1e-5, atol=1e-4)


SLOPES = {
    "an image": ("1, 6, 5, 4", "{0.25, -0.5, 0.1, 2, 0, 0.3}", "6, 1, 1"),
    "many channels": ("1, 40, 5, 4", None, "40, 1, 1"),
    "two images": ("2, 6, 5, 4", "{0.25, -0.5, 0.1, 2, 0, 0.3}", "1, 6, 1, 1"),
    "columns": ("1, 6, 5, 4", "{0.25, -0.5, 0.1, 2}", "4"),
    "a sequence": ("1, 6, 7", "{0.25, -0.5, 0.1, 2, 0, 0.3}", "6, 1"),
    "rows": ("5, 6", "{0.25, -0.5, 0.1, 2, 0, 0.3}", "6"),
    "one for all": ("1, 6, 5, 4", "{0.25}", "1"),
}
BY_ROW = {
    "PRelu": "n = PRelu(d, row)",
    "Mul": "n = Mul(row, d)",
    "Sub": "n = Sub(row, d)",
    "Max": "n = Max(d, row)",
    "a web": "m = Mul(d, row) a = Add(m, row) n = Clip(a, low, high)",
}


@pytest.mark.parametrize("target", ["metis", "zg330", "buyi"])
@pytest.mark.parametrize("body", BY_ROW)
@pytest.mark.parametrize("name", SLOPES)
def test_functions_of_channels_equal_onnxruntime(name: str, body: str, target: str, tmp_path: Path) -> None:
    """Of one value and a constant along an axis: every bit is that of the function in reals, on every target."""
    own, values, extents = SLOPES[name]
    text = f"""<ir_version: 9, opset_import: ["" : 19]> net (float[{own}] x) => (float[{own}] y) <
        float s = {{0.02}}, int8 z = {{3}}, float t = {{0.03}}, int8 u = {{-7}}, float low = {{-0.9}}, float high = {{1.1}}
        {f", float[{extents}] row = {values}" if values else ""}
    > {{
        q = QuantizeLinear(x, s, z)
        d = DequantizeLinear(q, s, z)
        {BY_ROW[body]}
        p = QuantizeLinear(n, t, u)
        y = DequantizeLinear(p, t, u)
    }}"""
    model = onnx.parser.parse_model(text)
    rng = np.random.default_rng(3)
    if values is None:
        shape = [int(extent) for extent in extents.split(",")]
        row = rng.uniform(-1, 1, shape).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(row, "row"))
    file = tmp_path / "net.onnx"
    file.write_bytes(model.SerializeToString())
    shape = [int(extent) for extent in own.split(",")]
    feeds = {"x": rng.standard_normal(shape).astype(np.float32)}
    (theirs,) = deployed.reference(file.read_bytes(), feeds, optimized=False)
    (mine,) = triune.Session(file).run(feeds)
    np.testing.assert_array_equal(mine, theirs)
    if target == "metis":
        (found,) = deployed.card(file, feeds, ["y"])
        assert triune.compile(file, target=target, output=tmp_path / "again").report.host.operators == 0
    else:
        # Functions of columns leave an image in the network's own order.
        rank = 3 if name == "columns" and body == "PRelu" else len(shape)
        (found,), (adapted,) = deployed.boards(file, target, feeds, [rank])
        np.testing.assert_array_equal(found, adapted)
    np.testing.assert_array_equal(found, theirs)


def test_operators_of_a_board_read_their_own_operands(tmp_path: Path) -> None:
    """Two convolutions read a value that lies otherwise than either wants it, with a normalization's result made between."""
    rng = np.random.default_rng(5)
    text = """<ir_version: 9, opset_import: ["" : 19]>
    net (float[1, 17, 3, 5] x) => (float[17, 1, 1, 8] y, float[17, 3, 2, 8] z) <
        float s = {0.02}, int8 o = {3}, int64[4] extents = {17, 3, 1, 5}, float f = {0.03}, int8 g = {0}, float t = {0.1},
        float[8] row = {1, -1, 0.5, 0.25, 2, -0.5, 1.5, 0.75}, float u = {0.02}
    > {
        a = QuantizeLinear(x, s, o)
        b = DequantizeLinear(a, s, o)
        r = Reshape(b, extents)
        p = QuantizeLinear(r, s, o)
        q = DequantizeLinear(p, s, o)
        c = DequantizeLinear(v, f, g)
        d = Conv<strides = [3, 1], pads = [1, 2, 1, 1]>(q, c)
        e = QuantizeLinear(d, t, g)
        h = DequantizeLinear(e, t, g)
        n = LayerNormalization(h, row, row)
        m = QuantizeLinear(n, u, g)
        y = DequantizeLinear(m, u, g)
        j = DequantizeLinear(w, f, g)
        k = Conv<strides = [3, 1], pads = [1, 2, 2, 1]>(q, j)
        l = QuantizeLinear(k, t, g)
        z = DequantizeLinear(l, t, g)
    }"""
    model = onnx.parser.parse_model(text)
    for name, count in {"v": 1, "w": 3}.items():
        weights = rng.integers(-100, 101, (count, 3, 1, 1)).astype(np.int8)
        model.graph.initializer.append(onnx.numpy_helper.from_array(weights, name))
    file = tmp_path / "net.onnx"
    file.write_bytes(model.SerializeToString())
    feeds = {"x": rng.standard_normal((1, 17, 3, 5)).astype(np.float32)}
    for target in ("zg330", "buyi"):
        found, adapted = deployed.boards(file, target, feeds, [4, 4])
        for one, other in zip(found, adapted, strict=True):
            np.testing.assert_array_equal(one, other)
