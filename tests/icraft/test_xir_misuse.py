"""Wrong arguments: an error that names what is wrong, and a network that is as it was."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from xir_networks import f32, small

from triune.icraft.host_backend import HostBackend, HostDevice
from triune.icraft.xir import (
    Add,
    Error,
    Framework,
    Input,
    InternalError,
    IsOp,
    Layout,
    Network,
    ObjectRef,
    Operation,
    Output,
    Params,
    ReLU,
    Sigmoid,
    TensorType,
    Value,
)
from triune.icraft.xrt import Session, Tensor

NOTHING = cast(Any, None)


def state(network: Network) -> list[tuple[Operation, list[int], list[int]]]:
    return [(op, [value.v_id for value in op.inputs], [value.v_id for value in op.outputs]) for op in network.ops]


@pytest.mark.parametrize(
    ("edit", "error", "message"),
    [
        (lambda n: n.addOp(NOTHING), TypeError, "an Operation is needed, not NoneType"),
        (lambda n: n.insertOp(1, "op"), TypeError, "an Operation is needed, not str"),
        (lambda n: n.replaceOp(NOTHING, n[1]), TypeError, "an Operation is needed, not NoneType"),
        (lambda n: n.replaceOp(n[2], NOTHING), TypeError, "an Operation is needed, not NoneType"),
        (lambda n: n.replaceOpKeepUses(n[2], NOTHING), TypeError, "an Operation is needed, not NoneType"),
        (lambda n: n.replaceOpById(n[2].op_id, 5), TypeError, "an Operation is needed, not int"),
        (lambda n: n.replaceOpKeepUses(n[2], Operation(ObjectRef())), Error, "a null operation cannot be added"),
        (lambda n: n.replaceOpKeepUses(n[2], n[1]), Error, "is in it already"),
        (lambda n: n.replaceOpKeepUses(n[2], small()[1]), Error, "take it out first"),
        (lambda n: n.replaceOpKeepUses(n[2], taken(n)), Error, "has an operation of number 1 already"),
        (lambda n: n.connect(n[1][0], NOTHING), TypeError, r"to: .* is needed, not None"),
        (lambda n: n[2].setOutputs([n[2][0], NOTHING]), TypeError, "an output: a Value is needed, not NoneType"),
        (lambda n: n[2].setOutputs([n[2][0], Params(f32(1))]), Error, "parameters cannot be an output"),
        (lambda n: n[2].setId("2"), TypeError, "a whole number is needed, not '2'"),
        (lambda n: n[2].setId(2.0), TypeError, r"a whole number is needed, not 2\.0"),
        (lambda n: n[2].setId(2**70), TypeError, "does not fit 64 bits"),
        (lambda n: n[2][0].setId(2**70), TypeError, "does not fit 64 bits"),
        (lambda n: n.setName(NOTHING), TypeError, r"Network.setName\(\): name: a str is needed, not None"),
        (lambda n: n[2].setName(3), TypeError, r"Operation.setName\(\): name: a str is needed, not 3"),
        (lambda n: n[2][0].setName(3), TypeError, r"Value.setName\(\): name: a str is needed, not 3"),
        (lambda n: n.setAITarget(NOTHING), TypeError, "setAITarget: a CompileTarget is needed, not NoneType"),
        (lambda n: n[2].setCompileTarget("@hostt"), TypeError, "a CompileTarget is needed, not str"),
    ],
)
def test_an_edit_that_fails_changes_nothing(
    edit: Callable[[Network], object], error: type[Exception], message: str
) -> None:
    network = small()
    before, text = state(network), str(network)
    with pytest.raises(error, match=message):
        edit(network)
    assert state(network) == before
    assert str(network) == text
    network.validate()


def taken(network: Network) -> Operation:
    """An operation without outputs and rule whose number is another's."""
    return Operation.Create("customop::Other").setId(network[1].op_id)


def test_a_value_that_an_operation_takes_of_itself_is_not_handed_on() -> None:
    network = small()
    network.insertOp(2, Add(network[1][0], network[1][0]))
    network[2].setInput(1, network[2][0])
    gone = network[2]
    network.replaceOpKeepUses(gone, ReLU(network[1][0]))
    assert not gone.isBoundToNetwork()
    assert network[2].typeKey() == "icraft::xir::ReLUNode"


def test_extents_are_whole_numbers() -> None:
    element = f32(1).element_dtype
    with pytest.raises(TypeError, match=r"a whole number is needed, not 1\.5"):
        TensorType(element, cast(Any, [1.5, 2]), Layout("HW"))
    assert TensorType(element, cast(Any, np.array([1, 2])), Layout("HW")).shape == [1, 2]


def test_parameters_beyond_memory_are_not_filled_one_by_one() -> None:
    with pytest.raises(Error, match="it cannot be filled"):
        Params(f32(2**20, 2**20, 2**10, 2**10)).fill(float)


def test_type_keys_of_patterns_may_leave_node_out() -> None:
    network = small()
    relus = len(network.search(IsOp(ReLU)))
    assert relus
    assert len(network.search(IsOp("icraft::xir::ReLU"))) == relus
    assert len(network.search(IsOp("icraft::xir::ReLUNode"))) == relus
    assert not network.search(IsOp("icraft::xir::Re"))


def test_what_a_wrong_file_raises_is_an_error_of_the_module(tmp_path: Path) -> None:
    path = tmp_path / "n.json"
    small().dumpJsonToFile(str(path))
    document = json.loads(path.read_text())
    document["ops"][1]["op_id"] = "one"
    path.write_text(json.dumps(document))
    with pytest.raises(Error, match=r"n\.json: .*whole number") as caught:
        Network.CreateFromJsonFile(str(path))
    assert type(caught.value) is Error


def run(network: Network) -> None:
    session = Session.Create([HostBackend], network.view(0), [HostDevice.Default()])
    session.apply()
    session.forward([Tensor(np.zeros((1, 4, 4, 2), np.float32), Layout("NHWC"))])


def chain() -> Network:
    network = Network("chain", Framework.ONNX, "1")
    given = Input(f32(1, 4, 4, 2))
    first = Add(given[0], given[0])
    second = Sigmoid(first[0])
    for op in (given, first, second, Output(second[0])):
        network.addOp(op)
    return network


def test_a_cycle_is_named_when_it_runs() -> None:
    network = chain()
    network[1].setInput(1, network[2][0])
    with pytest.raises(InternalError, match=r"value 2 is made neither by an operation before"):
        run(network)


def test_a_value_that_nobody_makes_is_named_when_it_runs() -> None:
    network = chain()
    network[1].setInput(1, Value(f32(1, 4, 4, 2)).setId(7))
    with pytest.raises(InternalError, match=r"expected 2 tensors \(of values 0, 7\), got 1"):
        run(network)
