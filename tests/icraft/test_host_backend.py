"""What `HostBackend` computes: floating point and quantized networks, one operation at a time and together."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from xir_networks import f32, small

from triune.icraft.host_backend import Cast, HostBackend
from triune.icraft.xir import (
    Add,
    Conv2d,
    Framework,
    Input,
    IntegerType,
    InternalError,
    Layout,
    Network,
    NormalizedQuantizedType,
    Operation,
    Output,
    Params,
    QuantizedScaleArray,
    QuantizedType,
    ReLU,
    ScalarType,
    TensorType,
    Value,
)
from triune.icraft.xir import Cast as CastOp
from triune.icraft.xrt import Backend, BackendOpRegistry, HostDevice, Session, Tensor

Array = npt.NDArray[Any]
SINT8 = IntegerType.SInt8()


def noise(*shape: int, seed: int = 0, low: float = -1, high: float = 1) -> npt.NDArray[np.float32]:
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


def session(network: Network, **options: Any) -> Session:
    made = Session.Create([HostBackend], network.view(0), [HostDevice.Default()])
    for name, value in options.items():
        getattr(HostBackend(made.backends[0]), name)(value)
    made.apply()
    return made


def run(made: Session, *inputs: Array, layout: str = "NHWC") -> list[Array]:
    tensors = [Tensor(array, Layout(layout if array.ndim == len(layout) else "*" * array.ndim)) for array in inputs]
    return [np.array(tensor) for tensor in made.forward(tensors)]


def one_by_one(made: Session) -> Session:
    """Keep operations from being computed together."""
    made.setPostCallBack(lambda _session, _op, _backend, outputs: [tensor.hasData() for tensor in outputs])
    return made


def convolved(x: Array, w: Array, stride: int, pad: int) -> Array:
    """Return the convolution of NHWC by HWIO, in the arrays' type."""
    n, height, width, _ = x.shape
    kernel = w.shape[0]
    x = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    rows, columns = (height + 2 * pad - kernel) // stride + 1, (width + 2 * pad - kernel) // stride + 1
    result = np.zeros((n, rows, columns, w.shape[3]), x.dtype)
    for i, j in itertools.product(range(kernel), range(kernel)):
        part = x[:, i : i + rows * stride : stride, j : j + columns * stride : stride][:, :rows, :columns]
        result += part @ w[i, j]
    return result


# ---- floating point


def small_by_hand(x: Array) -> list[Array]:
    network = small()
    left, right = network[1].paramsInputs(), network[3].paramsInputs()
    first = convolved(x, left[0].data(), 1, 1) + left[1].data()
    total = np.maximum(first, 0) + convolved(x, right[0].data(), 1, 0)
    pooled = total.reshape(1, 4, 2, 4, 2, 4).max((2, 4))
    return [np.concatenate([pooled, pooled], 3), total]


def test_a_network_of_floats() -> None:
    x = noise(1, 8, 8, 3)
    expected = small_by_hand(x)
    together, apart = run(session(small()), x), run(one_by_one(session(small())), x)
    for results in (together, apart):
        for result, wanted in zip(results, expected, strict=True):
            assert result.dtype == np.float32
            np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-6)
    assert all(np.array_equal(left, right) for left, right in zip(together, apart, strict=True))


def test_looking_on_changes_nothing_and_computes_nothing_again() -> None:
    x = noise(1, 8, 8, 3)
    plain = session(small())
    wanted = run(plain, x)
    told: list[tuple[int, list[list[int]]]] = []
    watched = session(small())
    watched.setPreCallBack(lambda _session, op, _backend, _none: told.append((op.op_id, [])))
    watched.setPostCallBack(
        lambda _session, op, _backend, outputs: told.append((op.op_id, [one.dtype().shape for one in outputs]))
    )
    watched.enableTimeProfile(True)
    for result, expected in zip(run(watched, x), wanted, strict=True):
        np.testing.assert_array_equal(result, expected)
    ops = small().ops
    assert [op_id for op_id, _ in told] == [op.op_id for op in ops for _ in range(2)]
    assert {op_id: shapes for op_id, shapes in told if shapes} == {
        op.op_id: [value.tensorType().shape for value in op.outputs] for op in ops if op.outputs
    } | {7: [value.tensorType().shape for value in ops[-1].inputs]}
    # One plan for all: nothing was compiled to run by itself.
    assert [len(family) for family in HostBackend(watched.backends[0])._plans] == [6]
    walls = watched.timeProfileResults()
    assert sorted(walls) == [op.op_id for op in ops]
    assert 0 < sum(wall for wall, *_ in walls.values()) <= watched.totalTime()


def test_callbacks_may_keep_read_and_write_values() -> None:
    x = noise(1, 8, 8, 3)
    stepped = session(small())
    inputs = [Tensor(x, Layout("NHWC"))]
    wanted = {op.op_id: [np.array(one) for one in stepped.stepTo(op.op_id, inputs)] for op in small().ops}
    kept: dict[int, list[Tensor]] = {}
    keeping = session(small())
    keeping.setPostCallBack(lambda _session, op, _backend, outputs: kept.update({op.op_id: outputs}))
    run(keeping, x)
    x[...] = 0
    for op_id, tensors in kept.items():
        for tensor, expected in zip(tensors, wanted[op_id], strict=True):
            assert type(tensor) is Tensor
            np.testing.assert_array_equal(np.asarray(tensor), expected)
    x = noise(1, 8, 8, 3)

    def writing(at: int, tell: str) -> Callable[..., None]:
        before: list[Tensor] = []

        def call(_session: Any, op: Any, _backend: Any, outputs: list[Tensor]) -> None:
            # Written is after the operation, or before the next one.
            if tell == "setPreCallBack" and op.op_id == at + 1 and before:
                np.asarray(before[0])[...] = 0.25
            if op.op_id == at and outputs:
                before[:] = outputs
                if tell == "setPostCallBack":
                    np.asarray(outputs[0])[...] = 0.25

        return call

    for at in range(1, 7):
        for tell in ("setPostCallBack", "setPreCallBack"):
            together, apart = session(small()), session(small())
            HostBackend(apart.backends[0])._merges = lambda op: False  # type: ignore[method-assign]
            apart._arrange(list(apart._steps))
            found = []
            for made in (together, apart):
                call = writing(at, tell)
                made.setPostCallBack(call)
                if tell == "setPreCallBack":
                    made.setPreCallBack(call)
                found.append(run(made, x))
            for left, right in zip(*found, strict=True):
                np.testing.assert_array_equal(left, right)


def test_every_step_has_its_result() -> None:
    made = session(small())
    x = noise(1, 8, 8, 3)
    relu = np.asarray(made.stepTo(2, [Tensor(x, Layout("NHWC"))])[0])
    weights = small()[1].paramsInputs()
    np.testing.assert_allclose(
        relu, np.maximum(convolved(x, weights[0].data(), 1, 1) + weights[1].data(), 0), atol=1e-5
    )
    assert np.array_equal(np.asarray(made.stepTo(7)[1]), run(made, x)[1])


def test_results_are_the_same_for_any_number_of_threads() -> None:
    x = noise(1, 8, 8, 3)
    before = HostBackend.getThreadsNum()
    try:
        results = []
        made = session(small())
        for count in (1, 2, 4):
            HostBackend.setThreadsNum(count)
            results.append([array.tobytes() for array in run(made, x)])
        assert results[0] == results[1] == results[2]
    finally:
        HostBackend.setThreadsNum(before)


def test_results_are_written_in_place() -> None:
    made, x = session(small()), noise(1, 8, 8, 3)
    targets = [Tensor(value.tensorType()).mallocOn(HostDevice.MemRegion()) for value in made.network_view.outputs()]
    views = [np.asarray(target) for target in targets]
    made.forward([Tensor(x, Layout("NHWC"))], targets)
    assert all(np.array_equal(view, result) for view, result in zip(views, run(made, x), strict=True))


def test_an_operation_may_write_onto_its_own_input() -> None:
    network = Network("loop", Framework.ONNX, "1.0")
    given = Input(f32(1, 4, 4, 2))
    network.addOp(given)
    total = Add(given[0], given[0])
    network.addOp(total)
    network.addOp(Output(total[0]))
    made = session(network)
    tensor = Tensor(noise(1, 4, 4, 2), Layout("NHWC"))
    before = np.array(tensor)
    made.backends[0].forwardOp(network[1], [tensor, tensor], [tensor])
    assert np.array_equal(np.asarray(tensor), before * 2)


def test_sessions_in_threads_have_their_own_numbers() -> None:
    inputs = [noise(1, 8, 8, 3, seed=seed) for seed in range(4)]
    expected = [run(session(small()), x) for x in inputs]
    shared = session(small())
    sessions = [session(small()), session(small()), shared, shared]
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(10):
            found = run(sessions[number], inputs[number])
            if not all(np.array_equal(a, b) for a, b in zip(found, expected[number], strict=True)):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_fork_computes_the_same() -> None:
    network, x = small(), noise(1, 8, 8, 3)
    backend = Backend.Create(HostBackend, network.view(0), HostDevice.Default())
    tensor = Tensor(x, Layout("NHWC"))
    first = backend.forwardOp(network[1], [tensor])
    second = backend.fork().forwardOp(network[1], [tensor])
    assert np.array_equal(np.asarray(first[0]), np.asarray(second[0]))


def test_extents_that_are_open_are_planned_for_as_they_come() -> None:
    network = Network("open", Framework.ONNX, "1.0")
    given = Input(f32(-1, 4, 4, 2))
    network.addOp(given)
    relu = ReLU(given[0])
    network.addOp(relu)
    total = Add(relu[0], given[0])
    network.addOp(total)
    network.addOp(Output(total[0]))
    made = session(network)
    for count in (1, 3, 2, 1, 5, 6, 7):
        x = noise(count, 4, 4, 2, seed=count)
        (result,) = made.forward([Tensor(x, Layout("NHWC"))])
        assert result.dtype().shape == [count, 4, 4, 2]
        assert np.array_equal(np.asarray(result), np.maximum(x, 0) + x)


def test_a_network_that_changes_is_planned_anew() -> None:
    network = Network("edit", Framework.ONNX, "1.0")
    given = Input(f32(1, 2, 2, 1))
    network.addOp(given)
    relu = ReLU(given[0])
    network.addOp(relu)
    network.addOp(Output(relu[0]))
    backend = Backend.Create(HostBackend, network.view(0), HostDevice.Default())
    tensor = Tensor(np.array([-2.0, -1.0, 1.0, 2.0], np.float32).reshape(1, 2, 2, 1), Layout("NHWC"))
    assert np.asarray(backend.forwardOp(relu, [tensor])[0]).reshape(-1).tolist() == [0, 0, 1, 2]
    relu.setAttr("alpha", 0.5)
    assert np.asarray(backend.forwardOp(relu, [tensor])[0]).reshape(-1).tolist() == [-1, -0.5, 1, 2]


# ---- quantized


def quantized(scales: float | list[float], zero_points: list[int] | None = None, axis: int = -1) -> QuantizedType:
    every = [scales] if isinstance(scales, float) else scales
    return QuantizedType(QuantizedScaleArray(every, axis), zero_points or [], SINT8)


def retyped(op: Operation, element: ScalarType) -> Operation:
    """Let an operation make elements of a type."""
    op.inferResults()
    value = op[0]
    value.setDType(value.tensorType().clone().setElementDtype(element))
    return op


X_SCALE, X_ZERO, Y_SCALE, Y_ZERO = np.float32(0.02), 5, np.float32(0.05), -7
W_SCALES = np.array([0.01, 0.02, 0.005, 0.04], np.float32)


def quantized_network() -> Network:
    """Return a convolution and an addition of 8 bits between floats."""
    network = Network("quantized", Framework.ONNX, "1.0")
    given = Input(f32(1, 6, 6, 3))
    network.addOp(given)
    element = quantized(float(X_SCALE), [X_ZERO])
    cast = CastOp(given[0], TensorType(element, [1, 6, 6, 3], Layout("NHWC")))
    network.addOp(cast)
    data = np.random.default_rng(1).integers(-127, 128, (3, 3, 3, 4)).astype(np.int8)
    weights = Params("weights", TensorType(quantized(W_SCALES.tolist(), axis=3), [3, 3, 3, 4], Layout("HWIO")))
    weights.copyData(data)
    conv = retyped(Conv2d(cast[0], weights, None, 1, 1, 1), quantized(float(Y_SCALE), [Y_ZERO]))
    network.addOp(conv)
    total = retyped(Add(conv[0], conv[0]), quantized(0.1))
    network.addOp(total)
    back = CastOp(total[0], f32(1, 6, 6, 4))
    network.addOp(back)
    network.addOp(Output(back[0], conv[0]))
    return network


def rounded(reals: Array, zero: int = 0) -> npt.NDArray[np.int8]:
    return np.clip(np.rint(reals) + zero, -128, 127).astype(np.int8)


def quantized_by_hand(x: Array) -> list[Array]:
    weights = quantized_network()[2].paramsInputs()[0].data().astype(np.int32)
    stored = rounded(x / X_SCALE, X_ZERO)
    sums = convolved(stored.astype(np.int32) - X_ZERO, weights, 1, 1)
    factor = (X_SCALE * W_SCALES) / Y_SCALE
    conv = rounded(sums.astype(np.float32) * factor, Y_ZERO)
    ratio = Y_SCALE / np.float32(0.1)
    halves = (conv.astype(np.int32) - Y_ZERO).astype(np.float32) * ratio
    total = rounded(halves + halves)
    return [total.astype(np.float32) * np.float32(0.1), conv]


def test_a_quantized_network_has_the_bits_of_the_formula() -> None:
    x = noise(1, 6, 6, 3, low=-3, high=3)
    expected = quantized_by_hand(x)
    for made in (session(quantized_network()), one_by_one(session(quantized_network()))):
        real, stored = run(made, x)
        assert stored.dtype == np.int8
        assert np.array_equal(stored, expected[1])
        assert np.array_equal(real, expected[0])
    assert len(np.unique(expected[1])) > 50


def test_fake_quantization_keeps_the_reals() -> None:
    x = noise(1, 6, 6, 3)
    weights = quantized_network()[2].paramsInputs()[0].data().astype(np.float32) * W_SCALES
    conv = convolved(x, weights, 1, 1)
    for made in (
        session(quantized_network(), setFakeQf=True),
        one_by_one(session(quantized_network(), setFakeQf=True)),
    ):
        real, kept = made.forward([Tensor(x, Layout("NHWC"))])
        assert kept.dtype().element_dtype.isFP32()
        np.testing.assert_allclose(np.asarray(kept), conv, atol=1e-5)
        np.testing.assert_allclose(np.asarray(real), 2 * conv, atol=1e-5)
        targets = [Tensor(value.tensorType()).mallocOn(HostDevice.MemRegion()) for value in made.network_view.outputs()]
        with pytest.raises(InternalError, match="fakeQf"):
            made.forward([Tensor(x, Layout("NHWC"))], targets)


def test_fake_quantization_takes_what_is_stored() -> None:
    network = quantized_network()
    backend = Backend.Create(HostBackend, network.view(0), HostDevice.Default())
    backend.setFakeQf(True)
    stored = np.random.default_rng(0).integers(-128, 128, (1, 6, 6, 3)).astype(np.int8)
    (result,) = backend.forwardOp(network[2], [Tensor(stored, Layout("NHWC"))])
    weights = network[2].paramsInputs()[0].data().astype(np.float32) * W_SCALES
    reals = (stored.astype(np.float32) - X_ZERO) * X_SCALE
    np.testing.assert_allclose(np.asarray(result), convolved(reals, weights, 1, 1), rtol=1e-4, atol=1e-5)


# ---- casts


def test_a_cast_quantizes_and_back() -> None:
    backend = HostBackend.Init()
    real, stored = f32(1, 2, 3, 5), TensorType(quantized(0.1, [3]), [1, 2, 3, 5], Layout("NHWC"))
    x = noise(1, 2, 3, 5, low=-20, high=20)
    tensor = Cast(Tensor(x, Layout("NHWC")), real, stored, backend)
    wanted = rounded(x / np.float32(0.1), 3)
    assert np.array_equal(np.asarray(tensor), wanted)
    assert tensor.dtype() == stored
    back = Cast(tensor, stored, real, backend)
    assert np.array_equal(np.asarray(back), (wanted.astype(np.float32) - 3) * np.float32(0.1))
    with pytest.raises(InternalError, match=r"Cast: input: expected sint\(8\)"):
        Cast(Tensor(x, Layout("NHWC")), stored, real, backend)
    with pytest.raises(InternalError, match="a null handle"):
        Cast(Tensor(x, Layout("NHWC")), real, stored, HostBackend())


def test_a_cast_changes_the_layout() -> None:
    x = np.random.default_rng(0).integers(-128, 128, (1, 3, 4, 40)).astype(np.int8)
    ratio = [0.25]
    element = NormalizedQuantizedType(ratio, QuantizedScaleArray([1.0]), SINT8)
    blocked = TensorType(element, [1, 2, 3, 4, 32], Layout("NCHWc32"))
    distr = blocked.createAddMergedDistr([1, 4])
    distr.setUnvalid(40, 64)
    flat = TensorType(element, [1, 3, 4, 40], Layout("NHWC"))
    backend = HostBackend.Init()
    tensor = Cast(Tensor(x, flat), flat, blocked, backend)
    assert np.asarray(tensor).shape == (1, 2, 3, 4, 32)
    whole = np.asarray(tensor).transpose(0, 2, 3, 1, 4).reshape(1, 3, 4, 64)
    assert np.array_equal(whole[..., :40], x)
    assert not whole[..., 40:].any()
    assert np.array_equal(np.asarray(Cast(tensor, blocked, flat, backend)), x)


# ---- what goes wrong


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda x: x[0], "expected .* axes are needed"),
        (lambda x: x.astype(np.float64), r"expected fp\(32\) .*, got fp\(64\)"),
        (lambda x: x[:, 1:], r"got fp\(32\) \(1,7,8,3\)"),
    ],
)
def test_an_operation_refuses_what_does_not_fit(change: Callable[[Array], Array], text: str) -> None:
    network = small()
    backend = Backend.Create(HostBackend, network.view(0), HostDevice.Default())
    x = np.ascontiguousarray(change(noise(1, 8, 8, 3)))
    with pytest.raises(InternalError, match=rf"operation 1 \(Conv2d\): input 0: .*{text}|{text}"):
        backend.forwardOp(network[1], [Tensor(x, Layout("*" * x.ndim))])
    with pytest.raises(InternalError, match="expected 1 inputs"):
        backend.forwardOp(network[1], [])
    target = Tensor(np.zeros((1, 8, 8, 3), np.float32), Layout("NHWC"))
    with pytest.raises(InternalError, match="output 0"):
        backend.forwardOp(network[1], [Tensor(noise(1, 8, 8, 3), Layout("NHWC"))], [target])


def test_an_operator_that_is_not_there_says_so_when_it_is_run() -> None:
    network = Network("new", Framework.ONNX, "1.0")
    given = Input(f32(1, 4, 4, 2))
    network.addOp(given)
    relu = ReLU(given[0])
    network.addOp(relu)
    unknown = Operation.Create("icraft::xir::Unheard")
    unknown.setInputs([relu[0]])
    unknown.setOutputs([Value(f32(1, 4, 4, 2))])
    network.addOp(unknown)
    network.addOp(Output(unknown[0]))
    made = session(network)
    x = Tensor(noise(1, 4, 4, 2), Layout("NHWC"))
    assert np.asarray(made.stepTo(1, [x])[0]).min() == 0
    with pytest.raises(NotImplementedError, match=r"operation 2 \(Unheard\): .*no such operator"):
        made.forward([x])
    with pytest.raises(InternalError, match="Unheard"):
        made.stepTo(2)


def test_parameters_without_data_are_named() -> None:
    network = Network("empty", Framework.ONNX, "1.0")
    given = Input(f32(1, 4, 4, 2))
    network.addOp(given)
    conv = Conv2d(given[0], Params("w", f32(3, 3, 2, 4, layout="HWIO")), None, 1, 1, 1)
    network.addOp(conv)
    network.addOp(Output(conv[0]))
    with pytest.raises(InternalError, match=r"operation 1 \(Conv2d\)"):
        session(network).forward([Tensor(noise(1, 4, 4, 2), Layout("NHWC"))])


def test_own_operators_run_beside_the_hosts() -> None:
    x = noise(1, 8, 8, 3)

    def doubled(op: Operation, inputs: list[Tensor], outputs: list[Tensor], backend: Backend) -> list[Tensor]:
        return [Tensor(2 * np.maximum(np.asarray(inputs[0]), 0), inputs[0].dtype())]

    plain = run(session(small()), x)
    BackendOpRegistry.Register(HostBackend, ReLU).set_forward(doubled)
    try:
        own = run(session(small()), x)
    finally:
        BackendOpRegistry.Remove(HostBackend, ReLU)
    assert not np.allclose(own[1], plain[1])
    weights = small()[1].paramsInputs()
    relu = np.maximum(convolved(x, weights[0].data(), 1, 1) + weights[1].data(), 0)
    np.testing.assert_allclose(own[1] - plain[1], relu, atol=1e-5)


def test_times_are_those_of_the_parts() -> None:
    made = Session.Create([HostBackend], small().view(0), [HostDevice.Default()])
    made.enableTimeProfile(True)
    made.apply()
    run(made, noise(1, 8, 8, 3))
    results = made.timeProfileResults()
    assert sorted(results) == list(range(8))
    for op_id in range(1, 7):
        wall, copies, hard, other = results[op_id]
        # The host is no hardware of the vendor's, as boards' logs have it.
        assert hard == 0
        assert 0 <= copies <= wall
        assert other == pytest.approx(wall - copies - hard)


def test_what_the_vendor_compiled_is_not_run(test_data: Path) -> None:
    network = Network.CreateFromJsonFile(str(test_data / "models" / "xir" / "yolov5s_plin_BY.json"))
    # Its logic is known, its instructions are not.
    made = session(network)
    (value,) = made.network_view.inputs()
    with pytest.raises(NotImplementedError, match=r"HardOp.*triune compile"):
        made.forward([Tensor(value.tensorType()).mallocOn(HostDevice.MemRegion())])
    hard = [op.op_id for op in network.ops if op.typeKey() == "icraft::xir::HardOpNode"][:3]
    view = network.view(hard)
    made = Session.Create([HostBackend], view, [HostDevice.Default()])
    made.apply()
    inputs = [Tensor(value.tensorType()).mallocOn(HostDevice.MemRegion()) for value in view.inputs()]
    with pytest.raises(NotImplementedError, match=rf"operation {hard[0]} \(HardOp .*triune compile"):
        made.forward(inputs)
