"""Sessions of `triune.icraft.xrt`: bindings, call order, runs, callbacks, logs, dumps. What operators compute is not the matter:
they are the test's own, registered for the host."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from triune.icraft.host_backend import CudaDevice, HostBackend
from triune.icraft.xir import (
    FloatType,
    Framework,
    Input,
    InternalError,
    Layout,
    Network,
    Operation,
    Output,
    TensorType,
    Value,
)
from triune.icraft.xrt import (
    ICRAFT_ADD_OP_TO_BACKEND,
    Backend,
    BackendOpRegistry,
    Device,
    HostDevice,
    Session,
    Tensor,
)

SHAPE = [1, 2, 2, 1]
TYPE = TensorType(FloatType.FP32(), SHAPE, Layout("NHWC"))


class OtherBackend(Backend):
    """A backend that computes what is registered for it and nothing else."""

    type_key = "test::OtherBackendNode"
    calls: list[str]

    def _set_up(self) -> None:
        super()._set_up()
        self.calls = []

    def _init(self) -> None:
        self.calls.append(f"init {[op.op_id for op in self.network_view.ops]}")

    def _apply(self) -> None:
        self.calls.append("apply")


def plus(op: Operation, inputs: list[Tensor], outputs: list[Tensor], backend: Backend) -> list[Tensor]:
    """Add up all inputs, and the attribute `by`."""
    total = sum((np.asarray(tensor) for tensor in inputs), np.float32(op.getAttr("by")))
    if outputs:
        outputs[0].copyData(total)
        return outputs
    return [Tensor(total, TYPE)]


@pytest.fixture(autouse=True)
def operators() -> Iterator[None]:
    """Register ``test::Plus`` for the host."""
    BackendOpRegistry.Register(HostBackend, "test::Plus").set_forward(plus)
    yield
    for backend, op in BackendOpRegistry.ListNames():
        BackendOpRegistry.Remove(backend, op)


def added(network: Network, by: float, *inputs: Value, key: str = "test::Plus") -> Operation:
    op = Operation.Create(key)
    op.setAttr("by", float(by))
    op.setInputs(inputs)
    op.setOutputs([Value(TYPE)])
    network.addOp(op)
    return op


def chain() -> Network:
    """Return Input(0) → +1 (1) → +10 (2) → +100 (3) → sum of 1 and 3 (4) → Output(5) of 4 and 2."""
    network = Network("chain", Framework.ONNX, "1.0")
    first = Input(TYPE)
    network.addOp(first)
    one = added(network, 1, first[0])
    ten = added(network, 10, one[0])
    hundred = added(network, 100, ten[0])
    both = added(network, 0, one[0], hundred[0])
    network.addOp(Output([both[0], ten[0]]))
    return network


def x(value: float = 0) -> Tensor:
    return Tensor(np.full(SHAPE, value, np.float32), Layout("NHWC"))


def first(tensors: list[Tensor]) -> list[float]:
    return [float(np.asarray(tensor).flat[0]) for tensor in tensors]


def session(network: Network | None = None) -> Session:
    made = Session.Create([HostBackend], (network or chain()).view(0), [HostDevice.Default()])
    made.apply()
    return made


# ---- running


def test_a_session_runs_its_network() -> None:
    made = session()
    assert first(made.forward([x(5)])) == [6 + 116, 16]
    assert first(made.forward([x(0)])) == [1 + 111, 11]
    assert made.totalTime() > 0
    assert made.network_view.network().name == "chain"


def test_a_network_stands_for_its_whole_view() -> None:
    made = Session.Create([HostBackend], chain(), [HostDevice.Default()])  # type: ignore[arg-type]
    made.apply()
    assert first(made.forward([x(0)])) == [112, 11]


def test_a_view_takes_what_comes_from_outside() -> None:
    network = chain()
    made = Session.Create([HostBackend], network.view([2, 3]), [HostDevice.Default()])
    made.apply()
    assert first(made.forward([x(0)])) == [10, 110]
    assert [value.v_id for value in made.network_view.inputs()] == [network[1][0].v_id]


def test_results_go_into_tensors_that_are_given() -> None:
    made = session()
    targets = [Tensor(TYPE).mallocOn(HostDevice.MemRegion()) for _ in range(2)]
    assert made.forward([x(5)], targets) is None
    assert first(targets) == [122, 16]
    inner = HostDevice()
    elsewhere = [Tensor(TYPE).mallocOn(inner.defaultMemRegion()) for _ in range(2)]
    made.forward([x(5)], elsewhere)
    assert first(elsewhere) == [122, 16]


def test_a_value_may_be_several_outputs_and_an_input_too() -> None:
    network = Network("same", Framework.ONNX, "1.0")
    given = Input(TYPE)
    network.addOp(given)
    one = added(network, 1, given[0])
    network.addOp(Output([one[0], given[0], one[0]]))
    made = session(network)
    count = len(made.network_view.outputs())
    wanted = [4, 3, 4][:count]
    assert first(made.forward([x(3)])) == wanted
    targets = [Tensor(TYPE).mallocOn(HostDevice.MemRegion()) for _ in range(count)]
    made.forward([x(3)], targets)
    assert first(targets) == wanted


def test_one_step_after_another() -> None:
    made = session()
    assert first(made.stepTo(1, [x(5)])) == [6]
    assert first(made.stepTo(3)) == [116]
    assert first(made.stepTo(3)) == [116]
    assert first(made.stepTo(2, [x(7)])) == [18]
    assert first(made.stepTo(4)) == [8 + 118]
    assert first(made.stepTo(5)) == [126, 18]
    with pytest.raises(InternalError, match="no inputs are given"):
        made.stepTo(0)
    assert first(made.stepTo(0, [x(1)])) == [1]


def test_threads_that_step_take_turns() -> None:
    made, wrong = session(), []

    def step(seed: int) -> None:
        try:
            for number in np.random.default_rng(seed).integers(1, 6, 300):
                made.stepTo(int(number), [x(5)])
        except InternalError as error:
            wrong.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=step, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert wrong == []
    assert first(made.stepTo(1, [x(5)])) == [6]


def test_a_part_of_a_session() -> None:
    made = session()
    part = made.sub(2, 4)
    assert [op.op_id for op in part.network_view.ops] == [2, 3]
    assert part.backends[0].same_as(made.backends[0])
    assert first(part.forward([x(0)])) == [10, 110]
    assert [op.op_id for op in made.sub(-2).network_view.ops] == [4, 5]
    assert [op.op_id for op in made.sub(1, -1).network_view.ops] == [1, 2, 3, 4]
    assert made.sub(3, 2).network_view.ops == []
    for wrong in ((7,), (0, 7), (-7, 2)):
        with pytest.raises(InternalError, match="of 6 operations"):
            made.sub(*wrong)


def test_sessions_run_in_threads() -> None:
    made = session()
    results: dict[int, list[float]] = {}

    def run(number: int) -> None:
        for _ in range(20):
            results[number] = first(made.forward([x(number)]))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {number: [112 + 2 * number, 11 + number] for number in range(4)}


# ---- inputs and outputs are checked before anything runs


@pytest.mark.parametrize(
    ("inputs", "text"),
    [
        ([], "expected 1 tensors, got 0"),
        ([x(), x()], "expected 1 tensors, got 2"),
        ([np.zeros(SHAPE, np.float32)], "expected a tensor, got ndarray"),
        ([Tensor()], "a null handle"),
        ([Tensor(TYPE)], "no chunk allocated"),
        (
            [Tensor(np.zeros(SHAPE, np.uint8), Layout("NHWC"))],
            r"expected fp\(32\) \(1,2,2,1\), got uint\(8\) \(1,2,2,1\)",
        ),
        ([Tensor(np.zeros([1, 2, 3, 1], np.float32), Layout("NHWC"))], r"got fp\(32\) \(1,2,3,1\)"),
        ([Tensor(np.zeros([2, 2], np.float32), Layout("HW"))], "4 axes are needed, not 2"),
    ],
)
def test_wrong_inputs_are_refused(inputs: Any, text: str) -> None:
    made = session()
    ran: list[int] = []
    made.setPreCallBack(lambda sess, op, backend, outputs: ran.append(op.op_id))
    with pytest.raises(InternalError, match=text):
        made.forward(inputs)
    if inputs != []:
        with pytest.raises(InternalError, match=text):
            made.stepTo(1, inputs)
    with pytest.raises(TypeError, match="inputs: a list is needed"):
        made.forward(x())  # type: ignore[call-overload]
    assert ran == []


@pytest.mark.parametrize(
    ("count", "shape", "text"),
    [(1, SHAPE, "outputs: expected 2"), (2, [2, 2, 2, 1], "output 0 .*expected"), (2, None, "no chunk allocated")],
)
def test_wrong_outputs_are_refused(count: int, shape: list[int] | None, text: str) -> None:
    targets = [Tensor(TYPE) if shape is None else Tensor(np.zeros(shape, np.float32), Layout("NHWC"))] * count
    with pytest.raises(InternalError, match=text):
        session().forward([x()], targets)


def test_extents_that_a_network_leaves_open_fit_any() -> None:
    network = Network("open", Framework.ONNX, "1.0")
    start = Input(TensorType(FloatType.FP32(), [-1, 2, 2, 1], Layout("NHWC")))
    network.addOp(start)
    network.addOp(Output([added(network, 1, start[0])[0]]))
    assert first(session(network).forward([x(1)])) == [2]
    with pytest.raises(InternalError, match="expected"):
        session(network).forward([Tensor(np.zeros([1, 3, 2, 1], np.float32), Layout("NHWC"))])


# ---- call order


def test_a_session_is_applied_once_and_before_it_runs() -> None:
    made = Session.Create([HostBackend], chain().view(0), [HostDevice.Default()])
    for early in (lambda: made.forward([x()]), lambda: made.stepTo(1, [x()]), lambda: made.sub(0)):
        with pytest.raises(InternalError, match=r"\[11012\].*apply"):
            early()
    made.apply()
    with pytest.raises(InternalError, match=r"\[11012\].*applied once"):
        made.apply()
    assert first(made.forward([x(0)])) == [112, 11]


def test_a_session_without_a_network_says_so() -> None:
    empty = Session.Init()
    assert empty.defined()
    with pytest.raises(InternalError, match="no network"):
        empty.apply()
    with pytest.raises(InternalError, match="no network"):
        _ = empty.network_view
    with pytest.raises(InternalError, match="null handle"):
        Session().apply()


# ---- bindings


def test_operations_are_bound_by_priority() -> None:
    ICRAFT_ADD_OP_TO_BACKEND("test::Plus", OtherBackend).set_forward(plus).set_constraint(
        lambda op, backend: op.op_id in (2, 3)
    )
    network = chain()
    devices = [HostDevice.Default(), HostDevice.Default()]
    made = Session.Create([OtherBackend, HostBackend], network.view(0), devices)
    bindings = made.backendBindings()
    assert {op_id: bindings[op_id].is_type(OtherBackend) for op_id in bindings} == {
        0: False, 1: False, 2: True, 3: True, 4: False, 5: False,
    }  # fmt: skip
    other = made.backends[0]
    assert [op.op_id for op in other.network_view.ops] == [2, 3]
    assert OtherBackend(other).calls == ["init [2, 3]"]
    made.apply()
    assert OtherBackend(other).calls == ["init [2, 3]", "apply"]
    assert first(made.forward([x(0)])) == [112, 11]

    turned = Session.CreateByOrder(network.view(0), [HostBackend.Init(), OtherBackend.Init()], devices)
    assert all(backend.is_type(HostBackend) for backend in turned.backendBindings().values())


def test_backends_keep_the_bindings_that_they_have() -> None:
    BackendOpRegistry.Register(OtherBackend, "test::Plus").set_forward(plus)
    network = chain()
    host = Backend.Create(HostBackend, network.view([0, 1, 4, 5]), HostDevice.Default())
    other = Backend.Create(OtherBackend, network.view([2, 3]), HostDevice.Default())
    made = Session.CreateWithBackends(network.view(0), [host, other])
    made.apply()
    assert [made.backendBindings()[op_id].same_as(other) for op_id in range(6)] == [
        False,
        False,
        True,
        True,
        False,
        False,
    ]
    assert first(made.forward([x(0)])) == [112, 11]
    with pytest.raises(InternalError, match=r"cannot compute operation 2 \(Plus\), operation 3 \(Plus\)"):
        Session.CreateWithBackends(network.view(0), [host])


def test_an_operation_that_several_have_is_the_first_ones_that_supports_it() -> None:
    BackendOpRegistry.Register(OtherBackend, "test::Plus").set_forward(plus)
    network = chain()
    backends = [Backend.Create(kind, network.view(0), HostDevice.Default()) for kind in (OtherBackend, HostBackend)]
    made = Session.CreateWithBackends(network.view(0), backends)
    plain = [op.op_id for op in network.ops if op.typeKey() != "test::PlusNode"]
    assert [op_id for op_id, owner in made.backendBindings().items() if owner.same_as(backends[1])] == plain
    made.apply()
    assert first(made.forward([x(0)])) == [112, 11]


def test_what_no_backend_computes_is_named() -> None:
    network = chain()
    BackendOpRegistry.Remove(HostBackend, "test::Plus")
    with pytest.raises(InternalError, match=r"HostBackend cannot compute operation 1 \(Plus\), operation 2.*Register"):
        session(network)


@pytest.mark.parametrize(
    "make",
    [
        lambda view: Session.Create([HostBackend], view, []),
        lambda view: Session.Create([], view, [HostDevice.Default()]),
        lambda view: Session.Create([HostDevice], view, [HostDevice.Default()]),
        lambda view: Session.Create([HostBackend.Init()], view, [HostDevice.Default()]),
        lambda view: Session.CreateByOrder(view, [HostBackend], [HostDevice.Default()]),
        lambda view: Session.CreateByOrder(view, [HostBackend()], [HostDevice.Default()]),
        lambda view: Session.CreateByOrder(view, [HostBackend.Init()] * 2, [HostDevice.Default()] * 2),
        lambda view: Session.Create([HostBackend], "network.json", [HostDevice.Default()]),
        lambda view: Session.Create([HostBackend], view, ["host"]),
        lambda view: Session.CreateWithBackends(view, [HostBackend.Init()]),
    ],
)
def test_a_session_is_made_of_backends_a_view_and_devices(make: Any) -> None:
    with pytest.raises(InternalError):
        make(chain().view(0))


def test_a_class_instead_of_a_list_is_named() -> None:
    single: Any = HostBackend
    with pytest.raises(TypeError, match=r"backend_types: a list is needed, not the class HostBackend"):
        Session.Create(single, chain().view(0), [HostDevice.Default()])


def test_the_host_stands_for_a_null_device() -> None:
    made = Session.Create([HostBackend], chain().view(0), [Device()])
    assert made.backends[0].device.same_as(HostDevice.Default())


def test_there_is_no_cuda_device() -> None:
    for ask in (CudaDevice, CudaDevice.Default, CudaDevice.MemRegion):
        with pytest.raises(NotImplementedError, match="no CUDA device"):
            ask()


def test_the_forward_list_can_be_run_by_hand() -> None:
    made = session()
    forwards = made.getForwards()
    assert [op.op_id for op, *_ in forwards] == list(range(6))
    op, backend, function, inputs, outputs = forwards[4]
    assert backend.same_as(made.backends[0])
    assert inputs == [op.inputs[0].v_id, op.inputs[1].v_id]
    assert outputs == [op[0].v_id]
    assert first(function(op, [x(1), x(2)], [], backend)) == [3]
    assert first(backend.forwardOp(op, [x(1), x(2)])) == [3]
    target = Tensor(TYPE).mallocOn(HostDevice.MemRegion())
    assert backend.forwardOp(op, [x(1), x(2)], [target])[0] is target
    assert first([target]) == [3]


# ---- operators of the user's own


def test_an_operator_is_registered_once() -> None:
    with pytest.raises(InternalError, match=r"test::PlusNode is registered .* already"):
        BackendOpRegistry.Register(HostBackend, "test::PlusNode")
    BackendOpRegistry.Register("icraft::xrt::HostBackend", "test::Plus", can_override=True)
    with pytest.raises(InternalError, match="cannot compute"):
        session()
    assert BackendOpRegistry.ListNames() == [["icraft::xrt::HostBackendNode", "test::PlusNode"]]
    assert BackendOpRegistry.Remove(HostBackend, "test::Plus")
    assert not BackendOpRegistry.Remove(HostBackend, "test::Plus")
    with pytest.raises(InternalError, match="something to call"):
        BackendOpRegistry.Register(HostBackend, "test::Plus").set_forward(3)  # type: ignore[arg-type]
    with pytest.raises(InternalError, match="type key"):
        BackendOpRegistry.Register(3, "test::Plus")  # type: ignore[arg-type]


def test_operators_are_prepared_when_the_session_is_applied() -> None:
    prepared: list[int] = []
    entry = BackendOpRegistry.Register(HostBackend, "test::Plus", can_override=True).set_forward(plus)
    entry.set_init(lambda op, backend: prepared.append(op.op_id))
    made = Session.Create([HostBackend], chain().view(0), [HostDevice.Default()])
    assert prepared == []
    made.apply()
    assert prepared == [1, 2, 3, 4]
    made.backends[0].initOp(made.network_view[1])
    assert prepared == [1, 2, 3, 4, 1]
    assert made.backends[0].getInitFunc(made.network_view[1]) is not None
    assert made.backends[0].getForwardFunc(made.network_view[1]) is plus


@pytest.mark.parametrize("result", [None, [], [1], "ab", 7])
def test_what_an_operator_returns_is_checked(result: Any) -> None:
    entry = BackendOpRegistry.Register(HostBackend, "test::Plus", can_override=True)
    entry.set_forward(lambda op, inputs, outputs, backend: result)
    with pytest.raises(InternalError, match=r"operation 1 \(Plus\): its forward function gave no list of 1 tensors"):
        session().forward([x()])


def test_what_an_operator_raises_comes_through() -> None:
    def fails(*_: object) -> list[Tensor]:
        raise ZeroDivisionError("mine")

    BackendOpRegistry.Register(HostBackend, "test::Plus", can_override=True).set_forward(fails)
    made = session()
    with pytest.raises(ZeroDivisionError, match="mine"):
        made.forward([x()])


def test_an_unknown_operator_is_not_supported() -> None:
    network = chain()
    backend = Backend.Create(HostBackend, network.view(0), HostDevice.Default())
    op = added(network, 0, network[0][0], key="customop::Stitch")
    assert not backend.isOpSupported(op)
    assert backend.getForwardFunc(op) is None
    for wrong in (lambda: backend.initOp(op), lambda: backend.forwardOp(op, [x()])):
        with pytest.raises(InternalError, match=r"Stitch\): HostBackend does not compute it"):
            wrong()


# ---- callbacks, logs, dumps, times


def test_callbacks_come_round_every_operation() -> None:
    made = session()
    seen: list[tuple[str, int, list[float]]] = []

    def before(sess: Session, op: Operation, backend: Backend, outputs: list[Tensor]) -> None:
        assert sess is made
        assert backend.same_as(made.backends[0])
        seen.append(("before", op.op_id, first(outputs)))

    made.setPreCallBack(before)
    made.setPostCallBack(lambda sess, op, backend, outputs: seen.append(("after", op.op_id, first(outputs))))
    made.forward([x(0)])
    assert seen[:6] == [
        ("before", 0, []), ("after", 0, [0]), ("before", 1, []), ("after", 1, [1]), ("before", 2, []), ("after", 2, [11]),
    ]  # fmt: skip
    assert len(seen) == 12
    made.setPreCallBack(None)
    made.setPostCallBack(None)
    made.forward([x(0)])
    assert len(seen) == 12
    with pytest.raises(InternalError, match="callback"):
        made.setPreCallBack(3)  # type: ignore[arg-type]


def test_what_a_callback_changes_counts() -> None:
    made = session()

    def change(sess: Session, op: Operation, backend: Backend, outputs: list[Tensor]) -> None:
        if op.op_id == 2:
            np.asarray(outputs[0])[...] = 1000

    made.setPostCallBack(change)
    assert first(made.forward([x(0)])) == [1101, 1000]


def test_io_is_logged(capsys: pytest.CaptureFixture[str]) -> None:
    made = session()
    made.setLogIO(True)
    made.forward([x(0)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[4] == "opId: 4  opType: Plus     Inputs: (1,2,2,1)(1,2,2,1)   Outputs: (1,2,2,1)"
    assert lines[6].startswith("[I] network wall: ")
    assert len(lines) == 7
    made.setLogIO(False)
    made.setLogTime(True)
    made.forward([x(0)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("opId: 1  opType: Plus     wall: ")
    assert len(lines) == 6


def test_outputs_are_dumped(tmp_path: Path) -> None:
    made = session()
    folder = tmp_path / "ftmp" / "SFB"
    made.setDumpOutputs(True, str(folder), "SFB")
    made.forward([x(3)])
    ids = sorted(value.v_id for op in made.network_view.ops for value in op.outputs)
    assert sorted(int(file.stem) for file in folder.iterdir()) == ids
    v_id = made.network_view[2][0].v_id
    assert np.fromfile(folder / f"{v_id}.ftmp", np.float32).tolist() == [14] * 4
    made.setDumpOutputs(False, "", "")
    (folder / f"{v_id}.ftmp").unlink()
    made.forward([x(3)])
    assert not (folder / f"{v_id}.ftmp").exists()
    # What is not quantized is written as reals.
    made.setDumpOutputs(True, folder, "HQT")
    made.forward([x(3)])
    assert (folder / f"{v_id}.ftmp").read_text() == "14\n" * 4
    with pytest.raises(InternalError, match="no format"):
        made.setDumpOutputs(True, str(folder), "SFX")
    made.setDumpOutputs(True, str(folder / f"{v_id}.ftmp"), "SFB")
    with pytest.raises(InternalError, match="11002"):
        made.forward([x(3)])


def test_times_are_taken_when_asked_for() -> None:
    made = Session.Create([HostBackend], chain().view(0), [HostDevice.Default()])
    made.enableTimeProfile(True)
    made.apply()
    assert made.backends[0].time_profile
    entry = BackendOpRegistry.Register(HostBackend, "test::Slow")
    assert entry is not None
    assert made.timeProfileResults() == {}
    made.forward([x()])
    made.backends[0].setTimeElapses(2, 0.25, 0.5)
    results = made.timeProfileResults()
    assert sorted(results) == list(range(6))
    assert np.array(list(results.values())).shape == (6, 4)
    wall, copies, hard, other = results[2]
    assert (copies, hard) == (0.25, 0.5)
    assert other == pytest.approx(wall - 0.75)
    assert all(wall > 0 for wall, *_ in results.values())
    assert made.totalTime() >= sum(wall for wall, *_ in results.values())
    silent = session()
    silent.forward([x()])
    assert silent.timeProfileResults() == {}


# ---- backends by themselves


def test_a_backend_is_bound_forked_and_let_go() -> None:
    network = chain()
    backend = HostBackend.Init()
    assert not backend.device.defined()
    with pytest.raises(InternalError, match=r"\[11012\].*no network"):
        _ = backend.network_view
    backend.setFakeQf(True)
    backend.init(network.view(0), HostDevice.Default())
    backend.enableTimeProfile(True)
    twin = backend.fork()
    assert not twin.same_as(backend)
    assert HostBackend(twin).getFakeQf()
    assert twin.time_profile
    assert twin.device.same_as(HostDevice.Default())
    assert [op.op_id for op in twin.network_view.ops] == list(range(6))
    assert backend.clone().is_type(HostBackend)
    backend.deinit()
    with pytest.raises(InternalError, match="no network"):
        _ = backend.network_view
    assert not backend.snapshot
    with pytest.raises(InternalError, match="null handle"):
        HostBackend().isOpSupported(network[1])


def test_handles_on_backends_are_cast() -> None:
    made = session()
    assert HostBackend(made.backends[0]).same_as(made.backends[0])
    with pytest.raises(InternalError):
        OtherBackend(made.backends[0])
    assert made.backends[0].typeKey() == "icraft::xrt::HostBackendNode"


def test_the_number_of_threads_is_the_processes() -> None:
    before = HostBackend.getThreadsNum()
    try:
        HostBackend.setThreadsNum(2)
        assert HostBackend.getThreadsNum() == 2
        for wrong in (0, -1, 1 << 20):
            with pytest.raises(InternalError, match="setThreadsNum"):
                HostBackend.setThreadsNum(wrong)
        with pytest.raises(TypeError, match="setThreadsNum"):
            HostBackend.setThreadsNum("4")  # type: ignore[arg-type]
    finally:
        HostBackend.setThreadsNum(before)
