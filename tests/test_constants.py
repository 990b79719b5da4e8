"""What a model computes of constants alone: once, when it is opened."""

import numpy as np
import onnx.parser
import pytest
from onnx import numpy_helper

import triune
from triune import errors

RANDOM = np.random.default_rng(5)


def model(text: str, **constants: np.ndarray) -> bytes:
    """Return a model in ONNX's text form, with these initializers."""
    parsed = onnx.parser.parse_model('<ir_version: 9, opset_import: ["" : 19]> ' + text)
    parsed.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in constants.items())
    return parsed.SerializeToString()


def reals(*shape: int) -> np.ndarray:
    """Return normal numbers."""
    return RANDOM.standard_normal(shape).astype(np.float32)


def operators(session: triune.Session) -> list[str]:
    """Return the kinds of operators that a run has."""
    return [operator.kind for part in session.plan().parts for operator in part.operators]


def test_products_of_weights_are_made_once() -> None:
    """An adapter of low rank beside a matrix: one product is left."""
    weights, down, up, x = reals(96, 96), reals(96, 4), reals(4, 96), reals(2, 96)
    session = triune.Session(
        model(
            "adapted (float[2,96] x) => (float[2,96] y) <float[96,96] w, float[96,4] a, float[4,96] b>"
            " { p = MatMul(a, b) q = Add(w, p) y = MatMul(x, q) }",
            w=weights,
            a=down,
            b=up,
        )
    )
    assert len(operators(session)) == 1
    np.testing.assert_allclose(session.run(None, {"x": x})[0], x @ (weights + down @ up), rtol=1e-4, atol=1e-4)


def test_weights_over_their_norm() -> None:
    """PyTorch's weight_norm: the convolution's weights are constant."""
    raw, gain, x = reals(32, 16, 3, 3), reals(32, 1, 1, 1), reals(1, 16, 10, 10)
    session = triune.Session(
        model(
            "normed (float[1,16,10,10] x) => (float[1,32,8,8] y) <float[32,16,3,3] v, float[32,1,1,1] g>"
            " { axes = Constant<value_ints=[1,2,3]>() n = ReduceL2(v, axes) q = Div(v, n) w = Mul(q, g) y = Conv(x, w) }",
            v=raw,
            g=gain,
        )
    )
    assert "Div" not in operators(session)
    weights = (raw / np.sqrt(np.square(raw).sum(axis=(1, 2, 3), keepdims=True)) * gain).astype(np.float32)
    text = "plain (float[1,16,10,10] x) => (float[1,32,8,8] y) <float[32,16,3,3] w> { y = Conv(x, w) }"
    plain = triune.Session(model(text, w=weights))
    np.testing.assert_allclose(session.run(None, {"x": x})[0], plain.run(None, {"x": x})[0], rtol=1e-4, atol=1e-5)


def test_constants_that_can_be_fed_stay_inputs() -> None:
    """An initializer that is an input, too, decides in each run."""
    text = "fed (float[2,96] x, float[96,96] w) => (float[2,96] y) { q = Sigmoid(w) y = MatMul(x, q) }"
    content = model(text, w=np.zeros((96, 96), np.float32))
    x = np.ones((2, 96), np.float32)
    session = triune.Session(content)
    assert session.run(None, {"x": x})[0][0, 0] == pytest.approx(48)
    assert session.run(None, {"x": x, "w": np.full((96, 96), 1e4, np.float32)})[0][0, 0] == pytest.approx(96)


def test_little_that_becomes_much_is_left_to_the_run() -> None:
    """A number that is repeated over a GiB is not made when the model is opened, even if little comes of it."""
    session = triune.Session(
        model(
            "much (float[1] x) => (float[1] y) { shape = Constant<value_ints=[16384,16384]>() z = ConstantOfShape(shape)"
            " e = Exp(z) n = ReduceMax<keepdims=0>(e) y = Add(x, n) }"
        )
    )
    assert "Exp" in operators(session)


def test_what_cannot_be_computed_is_said_by_the_run() -> None:
    """A product that does not fit says so with its name, as without constants."""
    text = (
        "wrong (float[2] x) => (float[2] y) <float[96,96] a, float[95,96] b>"
        " { p = MatMul(a, b) s = ReduceSum<keepdims=0>(p) y = Add(x, s) }"
    )
    with pytest.raises(errors.ArgumentError, match="MatMul"):
        triune.Session(model(text, a=reals(96, 96), b=reals(95, 96))).run(None, {"x": np.zeros(2, np.float32)})
