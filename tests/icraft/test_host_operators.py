"""Every operator of Icraft's that the host computes, made by its constructor and compared with numpy's formula."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from triune.icraft import xir
from triune.icraft._host.custom import CUSTOM
from triune.icraft.host_backend import HostBackend
from triune.icraft.xrt import Backend, HostDevice, Tensor

Array = npt.NDArray[Any]
Make = Callable[..., xir.Operation]
Formula = Callable[..., Any]


def noise(*shape: int, seed: int = 0, low: float = -2, high: float = 2) -> Array:
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


def params(array: Array, layout: str) -> xir.Params:
    return xir.Params(array, "", xir.Layout(layout))


def computed(make: Make, arrays: Sequence[Array], layouts: Sequence[str]) -> list[Tensor]:
    """Return what the host computes for an operator of some inputs, its types those that the operator infers."""
    network = xir.Network("one", xir.Framework.PYTORCH, "1.0")
    tensors = [Tensor(array, xir.Layout(layout)) for array, layout in zip(arrays, layouts, strict=True)]
    given = xir.Input(*(tensor.dtype() for tensor in tensors))
    network.addOp(given)
    op = make(*given.outputs)
    network.addOp(op)
    backend = Backend.Create(HostBackend, network.view(0), HostDevice.Default())
    by_number = {value.v_id: tensor for value, tensor in zip(given.outputs, tensors, strict=True)}
    results: list[Tensor] = backend.forwardOp(op, [by_number[value.v_id] for value in op.nonParamsInputs()])
    for result, value in zip(results, op.outputs, strict=True):
        assert result.dtype() == value.tensorType()
    return results


def check(
    make: Make, formula: Formula, *arrays: Array, layouts: Sequence[str] = ("NHWC",), tolerance: float = 2e-5
) -> None:
    wanted = formula(*arrays)
    results = computed(make, arrays, layouts)
    for result, expected in zip(results, wanted if isinstance(wanted, list) else [wanted], strict=True):
        found = np.asarray(result)
        assert found.shape == expected.shape
        if expected.dtype.kind == "f":
            np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
        else:
            assert np.array_equal(found, expected)


# ---- one operand


def _erf(x: Array) -> Array:
    return np.vectorize(math.erf)(x.astype(np.float64)).astype(np.float32)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _softplus(x: Array) -> Array:
    return np.log1p(np.exp(x))


UNARY: dict[str, tuple[Make, Formula]] = {
    "ATan": (xir.ATan, np.arctan),
    "ASinh": (xir.ASinh, np.arcsinh),
    "Abs": (xir.Abs, np.abs),
    "Copy": (xir.Copy, lambda x: x),
    "Cos": (xir.Cos, np.cos),
    "Cosh": (xir.Cosh, np.cosh),
    "ELU": (lambda v: xir.ELU(v, 0.7), lambda x: np.where(x > 0, x, 0.7 * np.expm1(x))),
    "GELU": (xir.GELU, lambda x: 0.5 * x * (1 + _erf(x / np.sqrt(2)))),
    "Hardshrink": (lambda v: xir.Hardshrink(v, 0.8), lambda x: np.where(np.abs(x) > 0.8, x, 0)),
    "Hardsigmoid": (lambda v: xir.Hardsigmoid(v, 0.3, 0.4), lambda x: np.clip(0.3 * x + 0.4, 0, 1)),
    "Hardswish": (xir.Hardswish, lambda x: x * np.clip(x + 3, 0, 6) / 6),
    "Hardtanh": (lambda v: xir.Hardtanh(v, -0.5, 1.5), lambda x: np.clip(x, -0.5, 1.5)),
    "LogSigmoid": (xir.LogSigmoid, lambda x: -_softplus(-x)),
    "Mish": (xir.Mish, lambda x: x * np.tanh(_softplus(x))),
    "Neg": (xir.Neg, np.negative),
    "ReLU": (xir.ReLU, lambda x: np.maximum(x, 0)),
    "LeakyReLU": (lambda v: xir.ReLU(v, 0.1), lambda x: np.where(x > 0, x, x * np.float32(0.1))),
    "ReLU6": (lambda v: xir.ReLU(v, 0.0, 1.5), lambda x: np.clip(x, 0, 1.5)),
    "SiLU": (xir.SiLU, lambda x: x * _sigmoid(x)),
    "Sigmoid": (xir.Sigmoid, _sigmoid),
    "Sin": (xir.Sin, np.sin),
    "Sinh": (xir.Sinh, np.sinh),
    "Softplus": (lambda v: xir.Softplus(v, 2.0, 20.0), lambda x: _softplus(2 * x) / 2),
    "Softshrink": (lambda v: xir.Softshrink(v, 0.6), lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.6, 0)),
    "Softsign": (xir.Softsign, lambda x: x / (1 + np.abs(x))),
    "Tan": (xir.Tan, np.tan),
    "Tanh": (xir.Tanh, np.tanh),
    "Tanhshrink": (xir.Tanhshrink, lambda x: x - np.tanh(x)),
    "ClampScalar": (lambda v: xir.ClampScalar(v, -0.25, 1.0), lambda x: np.clip(x, -0.25, 1)),
    "DivideScalar": (lambda v: xir.DivideScalar(v, 4.0), lambda x: x / 4),
}

POSITIVE: dict[str, tuple[Make, Formula, float, float]] = {
    "ACos": (xir.ACos, np.arccos, -1, 1),
    "ACosh": (xir.ACosh, np.arccosh, 1.1, 4),
    "ASin": (xir.ASin, np.arcsin, -1, 1),
    "ATanh": (xir.ATanh, np.arctanh, -0.9, 0.9),
    "Log": (xir.Log, np.log, 0.1, 4),
    "Sqrt": (xir.Sqrt, np.sqrt, 0, 4),
}


@pytest.mark.parametrize("name", UNARY)
def test_functions(name: str) -> None:
    make, formula = UNARY[name]
    x = noise(1, 3, 4, 5)
    check(make, lambda x: formula(x.astype(np.float64)).astype(np.float32), x)


@pytest.mark.parametrize("name", POSITIVE)
def test_functions_with_a_domain(name: str) -> None:
    make, formula, low, high = POSITIVE[name]
    x = noise(1, 3, 4, 5, low=low, high=high)
    check(make, lambda x: formula(x.astype(np.float64)).astype(np.float32), x)


def test_prelu_has_a_slope_per_channel() -> None:
    slope = noise(5, seed=1)
    check(lambda v: xir.PReLU(v, params(slope, "C")), lambda x: np.where(x > 0, x, x * slope), noise(1, 3, 4, 5))


# ---- two operands

BINARY: dict[str, tuple[Make, Formula]] = {
    "Add": (xir.Add, np.add),
    "Multiply": (xir.Multiply, np.multiply),
    "Div": (xir.Div, np.divide),
    "Maximum": (xir.Maximum, np.maximum),
    "Minimum": (xir.Minimum, np.minimum),
    "Equal": (xir.Equal, np.equal),
    "NotEqual": (xir.NotEqual, np.not_equal),
    "Greater": (xir.Greater, np.greater),
    "GreaterEqual": (xir.GreaterEqual, np.greater_equal),
    "Less": (xir.Less, np.less),
    "LessEqual": (xir.LessEqual, np.less_equal),
}


@pytest.mark.parametrize("name", BINARY)
def test_two_operands(name: str) -> None:
    make, formula = BINARY[name]
    x, y = noise(1, 3, 4, 5), noise(1, 3, 4, 5, seed=1, low=0.5)
    y[0, 0] = x[0, 0] + 0
    check(make, formula, x, y, layouts=["NHWC", "NHWC"])


def test_add_weighs_its_operands() -> None:
    x, y = noise(1, 3, 4, 5), noise(1, 3, 4, 5, seed=1)
    make = lambda a, b: xir.Add(a, b, [2.0], [-0.5])  # noqa: E731
    check(make, lambda x, y: 2 * x - np.float32(0.5) * y, x, y, layouts=["NHWC", "NHWC"])


def test_where_chooses() -> None:
    x, y = noise(1, 3, 4, 5), noise(1, 3, 4, 5, seed=1)
    condition = noise(1, 3, 4, 5, seed=2) > 0
    check(xir.Where, lambda x, y, c: np.where(c, x, y), x, y, condition, layouts=["NHWC", "NHWC", "NHWC"])


@pytest.mark.parametrize("bias", [False, True])
def test_matmul(bias: bool) -> None:
    k, b = noise(6, 7, seed=1), noise(7, seed=2)
    check(
        lambda v: xir.Matmul(v, params(k, "IO"), params(b, "C") if bias else None),
        lambda x: x @ k + (b if bias else 0),
        noise(1, 5, 6),
        layouts=["**C"],
    )
    check(
        lambda a, b: xir.Matmul(a, b, None), np.matmul, noise(2, 5, 6), noise(2, 6, 4, seed=1), layouts=["***", "***"]
    )


# ---- windows


def windows(x: Array, kernel: Sequence[int], stride: Sequence[int], pads: Sequence[int], fill: float) -> Array:
    """Return, for NHWC and pads (top, bottom, left, right), N, rows, columns, window rows, window columns, C."""
    x = np.pad(x, ((0, 0), (pads[0], pads[1]), (pads[2], pads[3]), (0, 0)), constant_values=fill)
    view = np.lib.stride_tricks.sliding_window_view(x, tuple(kernel), (1, 2))
    return view[:, :: stride[0], :: stride[1]].transpose(0, 1, 2, 4, 5, 3)


def convolved(
    x: Array,
    w: Array,
    stride: Sequence[int] = (1, 1),
    pads: Sequence[int] = (0, 0, 0, 0),
    groups: int = 1,
    dilation: Sequence[int] = (1, 1),
) -> Array:
    spread = np.zeros(((w.shape[0] - 1) * dilation[0] + 1, (w.shape[1] - 1) * dilation[1] + 1, *w.shape[2:]), w.dtype)
    spread[:: dilation[0], :: dilation[1]] = w
    parts = []
    for g in range(groups):
        part = x[..., g * x.shape[3] // groups : (g + 1) * x.shape[3] // groups]
        kernel = spread[..., g * w.shape[3] // groups : (g + 1) * w.shape[3] // groups]
        parts.append(np.einsum("nyxijc,ijco->nyxo", windows(part, kernel.shape[:2], stride, pads, 0), kernel))
    return np.concatenate(parts, -1)


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize(("stride", "dilation"), [((1, 1), (1, 1)), ((2, 1), (1, 1)), ((1, 1), (2, 3))])
def test_conv2d(groups: int, stride: tuple[int, int], dilation: tuple[int, int]) -> None:
    w, b = noise(3, 2, 4 // groups, 8, seed=1), noise(8, seed=2)
    pads = (1, 2, 0, 1)
    check(
        lambda v: xir.Conv2d(
            v, params(w, "HWIO"), params(b, "C"), stride[1], stride[0], *pads, dilation[1], dilation[0], groups
        ),
        lambda x: convolved(x, w, stride, pads, groups, dilation) + b,
        noise(1, 9, 8, 4),
        tolerance=1e-4,
    )


def test_conv2d_in_other_layouts() -> None:
    w = noise(3, 3, 4, 6, seed=1)
    x = noise(1, 5, 6, 4)
    check(
        lambda v: xir.Conv2d(v, params(np.ascontiguousarray(w.transpose(3, 2, 0, 1)), "OIHW"), None, 1, 1, 1),
        lambda x: convolved(x.transpose(0, 2, 3, 1), w, pads=(1, 1, 1, 1)).transpose(0, 3, 1, 2),
        np.ascontiguousarray(x.transpose(0, 3, 1, 2)),
        layouts=["NCHW"],
        tolerance=1e-4,
    )


def test_conv1d() -> None:
    w = noise(3, 4, 6, seed=1)
    check(
        lambda v: xir.Conv1d(v, params(w, "WIO"), None, 2, 1, 0, 1),
        lambda x: convolved(x[:, np.newaxis], w[np.newaxis], (1, 2), (0, 0, 1, 0))[:, 0],
        noise(1, 9, 4),
        layouts=["NWC"],
        tolerance=1e-4,
    )


def transposed(x: Array, w: Array, stride: int, pad: int, output_pad: int) -> Array:
    """Return the transposed convolution of NHWC by HWIO (I: channels of the input)."""
    n, height, width, _ = x.shape
    kernel = w.shape[0]
    rows = (height - 1) * stride + kernel + output_pad
    columns = (width - 1) * stride + kernel + output_pad
    result = np.zeros((n, rows, columns, w.shape[3]), np.float32)
    for y, z in itertools.product(range(height), range(width)):
        result[:, y * stride : y * stride + kernel, z * stride : z * stride + kernel] += np.einsum(
            "nc,ijco->nijo", x[:, y, z], w
        )
    return result[:, pad : rows - pad or None, pad : columns - pad or None]


@pytest.mark.parametrize(("stride", "pad", "output_pad"), [(2, 1, 1), (2, 0, 0), (1, 1, 0)])
def test_transposed_convolution(stride: int, pad: int, output_pad: int) -> None:
    w, b = noise(3, 3, 4, 5, seed=1), noise(5, seed=2)
    check(
        lambda v: xir.ConvTranspose2d(
            v, params(w, "HWIO"), params(b, "C"), stride, stride, pad, pad, pad, pad, 1, 1, output_pad, output_pad
        ),
        lambda x: transposed(x, w, stride, pad, output_pad) + b,
        noise(1, 4, 5, 4),
        tolerance=1e-4,
    )


@pytest.mark.parametrize("groups", [2, 6])
def test_transposed_convolution_in_groups(groups: int) -> None:
    w, inner = noise(3, 3, 6 // groups, 12, seed=1), 12 // groups
    parts = [slice(part * 6 // groups, (part + 1) * 6 // groups) for part in range(groups)]

    def formula(x: Array) -> Array:
        made = [
            transposed(x[..., part], w[..., number * inner : (number + 1) * inner], 2, 1, 1)
            for number, part in enumerate(parts)
        ]
        return np.concatenate(made, -1)

    check(
        lambda v: xir.ConvTranspose2d(v, params(w, "HWIO"), None, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, groups),
        formula,
        noise(1, 4, 5, 6),
        tolerance=1e-4,
    )


def test_transposed_convolution_of_rows() -> None:
    w = noise(3, 4, 6, seed=1)

    def formula(x: Array) -> Array:
        result = np.zeros((1, 19, 6), np.float32)
        for at in range(9):
            result[:, 2 * at : 2 * at + 3] += np.einsum("nc,jco->njo", x[:, at], w)
        return result[:, 1:-1]

    check(
        lambda v: xir.ConvTranspose1d(v, params(w, "WIO"), None, 2, 1, 1, 1, 0),
        formula,
        noise(1, 9, 4),
        layouts=["NWC"],
        tolerance=1e-4,
    )


@pytest.mark.parametrize(("mode", "name"), [(xir.PaddingMode.REFLECT, "reflect"), (xir.PaddingMode.REPLICATE, "edge")])
def test_convolution_beyond_a_border_that_repeats(mode: xir.PaddingMode, name: Any) -> None:
    w = noise(3, 3, 4, 5, seed=1)
    check(
        lambda v: xir.Conv2d(v, params(w, "HWIO"), None, 1, 1, 1, 1, 1, 1, 1, 1, 1, mode),
        lambda x: convolved(np.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)], mode=name), w),
        noise(1, 5, 6, 4),
        tolerance=1e-4,
    )


@pytest.mark.parametrize(("mode", "name"), [(xir.Mode.REFLECTION, "reflect"), (xir.Mode.REPLICATION, "edge")])
def test_borders_repeat_what_lies_beside_them(mode: xir.Mode, name: Any) -> None:
    check(
        lambda v: xir.Pad(v, [0, 0, 3, 1, 2, 4], mode),
        lambda x: np.pad(x, [(0, 0), (2, 4), (3, 1), (0, 0)], mode=name),
        noise(2, 5, 6, 3),
    )
    check(
        lambda v: xir.Pad(v, [2, 0], mode),
        lambda x: np.pad(x, [(0, 0), (2, 0)], mode=name),
        noise(3, 4),
        layouts=["**"],
    )


def test_max_pool() -> None:
    check(
        lambda v: xir.MaxPool2d(v, 2, 3, 1, 2, 1, 1, 0, 1, 1, 1),
        lambda x: windows(x, (3, 2), (2, 1), (1, 1, 0, 1), -np.inf).max((3, 4)),
        noise(1, 7, 6, 5),
    )


@pytest.mark.parametrize("count_include_pad", [False, True])
def test_average_pool(count_include_pad: bool) -> None:
    def formula(x: Array) -> Array:
        total = windows(x, (3, 3), (2, 2), (1, 1, 1, 1), 0).sum((3, 4))
        inside = windows(np.ones_like(x), (3, 3), (2, 2), (1, 1, 1, 1), 0).sum((3, 4))
        return total / (9 if count_include_pad else inside)

    check(lambda v: xir.AvgPool2d(v, 3, 3, 2, 2, 1, 1, 1, 1, count_include_pad), formula, noise(1, 7, 9, 5))


def test_average_pool_with_a_divisor() -> None:
    check(
        lambda v: xir.AvgPool2d(v, 2, 2, 2, 2, 0, 0, 0, 0, False, 3),
        lambda x: windows(x, (2, 2), (2, 2), (0, 0, 0, 0), 0).sum((3, 4)) / 3,
        noise(1, 6, 4, 5),
    )


def test_pools_along_one_axis() -> None:
    check(
        lambda v: xir.MaxPool1d(v, 3, 2, 1, 0, 1),
        lambda x: windows(x[:, np.newaxis], (1, 3), (1, 2), (0, 0, 1, 0), -np.inf).max((3, 4))[:, 0],
        noise(1, 8, 5),
        layouts=["NWC"],
    )
    check(
        lambda v: xir.AvgPool1d(v, 2, 2, 0, 0),
        lambda x: x.reshape(1, 4, 2, 5).mean(2),
        noise(1, 8, 5),
        layouts=["NWC"],
    )


# ---- reductions, normalization

AXES: list[tuple[int, ...]] = [(3,), (1, 2), (0, 1, 2, 3)]


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("name", ["Mean", "Sum"])
def test_sums(name: str, axes: tuple[int, ...], keepdim: bool) -> None:
    formula = {"Mean": np.mean, "Sum": np.sum}[name]
    check(
        lambda v: getattr(xir, name)(v, list(axes), keepdim),
        lambda x: formula(x, axis=axes, keepdims=keepdim),
        noise(2, 3, 4, 5),
    )


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("axis", [1, 3])
def test_extremes(axis: int, keepdim: bool) -> None:
    x = noise(2, 3, 4, 5)
    for name, formula in (("Argmax", np.argmax), ("Argmin", np.argmin)):
        results = computed(lambda v, name=name: getattr(xir, name)(v, axis, keepdim), [x], ["NHWC"])
        assert np.array_equal(np.asarray(results[0]), formula(x, axis=axis, keepdims=keepdim))
    for name, best in (("Max", np.max), ("Min", np.min)):
        results = computed(lambda v, name=name: getattr(xir, name)(v, axis, keepdim), [x], ["NHWC"])
        assert np.array_equal(np.asarray(results[0]), best(x, axis=axis, keepdims=keepdim))


@pytest.mark.parametrize("axis", [-1, 1])
def test_softmax(axis: int) -> None:
    def formula(x: Array) -> Array:
        powers = np.exp(x - x.max(axis, keepdims=True))
        return powers / powers.sum(axis, keepdims=True)

    check(lambda v: xir.Softmax(v, axis), formula, noise(2, 3, 4, 5))
    check(lambda v: xir.LogSoftmax(v, axis), lambda x: np.log(formula(x)), noise(2, 3, 4, 5))


def test_batch_norm() -> None:
    variance, mean = noise(5, seed=1, low=0.5), noise(5, seed=2)
    check(
        lambda v: xir.BatchNorm2d(v, params(variance, "C"), params(mean, "C")),
        lambda x: x * variance + mean,
        noise(1, 3, 4, 5),
    )


def test_layer_norm() -> None:
    gamma, beta = noise(5, seed=1), noise(5, seed=2)

    def formula(x: Array) -> Array:
        centred = x - x.mean(-1, keepdims=True)
        return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + np.float32(1e-5)) * gamma + beta

    check(
        lambda v: xir.LayerNorm(v, [3], 1e-5, params(gamma, "C"), params(beta, "C")),
        formula,
        noise(1, 3, 4, 5),
        tolerance=1e-4,
    )


def test_instance_norm() -> None:
    gamma, beta = noise(5, seed=1), noise(5, seed=2)

    def formula(x: Array) -> Array:
        centred = x - x.mean((1, 2), keepdims=True)
        return centred / np.sqrt((centred**2).mean((1, 2), keepdims=True) + np.float32(1e-5)) * gamma + beta

    check(
        lambda v: xir.InstanceNorm2d(v, 1e-5, params(gamma, "C"), params(beta, "C")),
        formula,
        noise(1, 3, 4, 5),
        tolerance=1e-4,
    )


def test_normalize() -> None:
    check(
        lambda v: xir.Normalize(v, [3], 2.0, 1e-12),
        lambda x: x / np.sqrt((x**2).sum(-1, keepdims=True)),
        noise(1, 3, 4, 5),
    )


# ---- movement

MOVEMENT: dict[str, tuple[Make, Formula]] = {
    "Reshape": (lambda v: xir.Reshape(v, [1, 12, 5], xir.Layout("N*C")), lambda x: x.reshape(1, 12, 5)),
    "Transpose": (lambda v: xir.Transpose(v, [0, 3, 1, 2], xir.Layout("NCHW")), lambda x: x.transpose(0, 3, 1, 2)),
    "Slice": (lambda v: xir.Slice(v, [0, 1, 0, 0], [1, 3, 4, 5], [1, 1, 2, 3]), lambda x: x[:, 1:3, ::2, ::3]),
    "Concat": (lambda v: xir.Concat([v, v], 3), lambda x: np.concatenate([x, x], 3)),
    "Expand": (lambda v: xir.Expand(v, [2, 3, 4, 5]), lambda x: np.broadcast_to(x, (2, 3, 4, 5))),
    "Roll": (lambda v: xir.Roll(v, [1, -2], [1, 3]), lambda x: np.roll(x, (1, -2), (1, 3))),
    "Squeeze": (lambda v: xir.Squeeze(v, [0]), lambda x: x.squeeze(0)),
    "SwapOrder": (lambda v: xir.SwapOrder(v, [4, 2, 0, 1, 3], 3), lambda x: x[..., [4, 2, 0, 1, 3]]),
    "Stack": (lambda v: xir.Stack([v, v], 1), lambda x: np.stack([x, x], 1)),
    "Split": (lambda v: xir.Split(v, [1, 2], 1), lambda x: [x[:, :1], x[:, 1:]]),
    "Unstack": (lambda v: xir.Unstack(v, 1), lambda x: [x[:, i] for i in range(3)]),
}


@pytest.mark.parametrize("dtype", ["f4", "i1", "u1"])
@pytest.mark.parametrize("name", MOVEMENT)
def test_movement(name: str, dtype: str) -> None:
    make, formula = MOVEMENT[name]
    check(make, formula, (noise(1, 3, 4, 5, low=0) * 60).astype(dtype))


def test_pad() -> None:
    x = noise(1, 3, 4, 5)
    pads = ((0, 0), (1, 2), (0, 1), (0, 0))
    # The last axis first, as PyTorch has it.
    flat = [edge for pair in reversed(pads) for edge in pair]
    check(lambda v: xir.Pad(v, flat, xir.Mode.CONSTANT, 1.5), lambda x: np.pad(x, pads, constant_values=1.5), x)
    check(lambda v: xir.Pad(v, flat[:6]), lambda x: np.pad(x, pads), x)


def test_shuffles() -> None:
    def channels(x: Array) -> Array:
        n, h, w, c = x.shape
        return x.reshape(n, h, w, 2, c // 2).swapaxes(3, 4).reshape(x.shape)

    def pixels(x: Array) -> Array:
        n, h, w, c = x.shape
        return x.reshape(n, h, w, c // 4, 2, 2).transpose(0, 1, 4, 2, 5, 3).reshape(n, h * 2, w * 2, c // 4)

    check(lambda v: xir.ChannelShuffle(v, 2), channels, noise(1, 3, 4, 8))
    check(lambda v: xir.PixelShuffle(v, 2), pixels, noise(1, 3, 4, 8))


def test_upsampling() -> None:
    x = noise(1, 3, 4, 5)
    check(lambda v: xir.Upsample(v, 6, 8, xir.Interpolation.NEAREST), lambda x: x.repeat(2, 1).repeat(2, 2), x)

    def linear(x: Array) -> Array:
        for axis, new in ((1, 6), (2, 8)):
            old = x.shape[axis]
            place = np.clip((np.arange(new) + 0.5) * old / new - 0.5, 0, old - 1)
            low = np.floor(place).astype(int)
            high = np.minimum(low + 1, old - 1)
            share = (place - low).astype(np.float32).reshape([-1 if i == axis else 1 for i in range(4)])
            x = x.take(low, axis) * (1 - share) + x.take(high, axis) * share
        return x

    check(lambda v: xir.Upsample(v, 6, 8, xir.Interpolation.BILINEAR), linear, x, tolerance=1e-4)
    check(lambda v: xir.Resize(v, [6, 8], xir.ResizeInterpolation.INTER_LINEAR), linear, x, tolerance=1e-4)


def test_channels_are_aligned_and_pruned() -> None:
    x = noise(1, 3, 4, 5)
    (aligned,) = computed(lambda v: xir.AlignAxis(v, [xir.AlignedUnit(3, 8)]), [x], ["NHWC"])
    assert np.asarray(aligned).shape == (1, 3, 4, 8)
    assert np.array_equal(np.asarray(aligned)[..., :5], x)
    assert not np.asarray(aligned)[..., 5:].any()


# ---- what is described, and not computed


def _volume(v: xir.Value) -> dict[str, Callable[[], xir.Operation]]:
    w = params(noise(2, 2, 2, 3, 4), "DHWIO")
    return {
        "Conv3d": lambda: xir.Conv3d(v, w, None, 1, 0, 1),
        "ConvTranspose3d": lambda: xir.ConvTranspose3d(v, w, None, 1, 0, 1, 0),
        "MaxPool3d": lambda: xir.MaxPool3d(v, 2, 2, 0, 1),
        "AvgPool3d": lambda: xir.AvgPool3d(v, 2, 2, 0),
    }


@pytest.mark.parametrize("name", ["Conv3d", "ConvTranspose3d", "MaxPool3d", "AvgPool3d"])
def test_volumes_are_not_computed(name: str) -> None:
    with pytest.raises(NotImplementedError, match=rf"operation 1 \({name}\): .*there is no such operator here"):
        computed(lambda v: _volume(v)[name](), [noise(1, 4, 4, 4, 3)], ["NDHWC"])


def test_other_operators_that_are_not_computed() -> None:
    w = params(noise(3, 3, 4, 6), "HWIO")
    circular = xir.PaddingMode.CIRCULAR
    with pytest.raises(NotImplementedError, match=r"padding_mode CIRCULAR"):
        computed(lambda v: xir.Conv2d(v, w, None, 1, 1, 1, 1, 1, 1, 1, 1, 1, circular), [noise(1, 9, 9, 4)], ["NHWC"])
    with pytest.raises(NotImplementedError, match=r"cubic"):
        computed(lambda v: xir.Upsample(v, 8, 8, xir.Interpolation.BICUBIC, False), [noise(1, 4, 4, 4)], ["NHWC"])
    with pytest.raises(NotImplementedError, match=r"Einsum"):
        computed(lambda v: xir.Einsum([v, v], "ij,ij->i"), [noise(3, 4)], ["**"])
    with pytest.raises(NotImplementedError, match=r"mirrors the edge"):
        computed(lambda v: xir.Pad(v, [1, 1], xir.Mode.SYMMETRIC), [noise(3, 4)], ["**"])


def test_operators_of_ones_own_are_those_of_the_documentation(root: Path) -> None:
    # The core compares its list with the same sentence.
    text = (root / "docs" / "icraft.md").read_text(encoding="utf-8")
    _, _, rest = text.partition("\n`customop::` ")
    names = re.findall(r"`(\w+)`", rest.split(".\n")[0])
    assert names
    assert {f"customop::{name}Node" for name in names} == CUSTOM
