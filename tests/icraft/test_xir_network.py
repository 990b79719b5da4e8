"""Networks: building them, views, editing, rules."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from xir_networks import f32, hardware, small, weights

from triune.icraft.xir import (
    Add,
    BuyiTarget,
    Concat,
    Conv2d,
    Copy,
    Error,
    FloatType,
    Framework,
    HostTarget,
    Input,
    Layout,
    MaxPool2d,
    Network,
    NetworkView,
    Operation,
    Output,
    PaddingMode,
    Params,
    ReLU,
    Sigmoid,
    TensorType,
    Value,
    ZhugeTarget,
    ZhugeTarget_Chips,
)


def numbers(network: Network | NetworkView) -> list[int]:
    return [op.op_id for op in network.ops]


def v_ids(values: list[Value]) -> list[int]:
    return [value.v_id for value in values]


# ---- building


def test_numbers_are_given_as_documented() -> None:
    """Input and output 0, the convolution's weights 1, its output 2, and so on: the vendor's first example."""
    network = Network("whatever", Framework.PYTORCH, "v1.9")
    given = Input(f32(1, 416, 416, 3))
    network.addOp(given)
    conv = Conv2d(given[0], Params(TensorType(FloatType.FP32(), [3, 3, 3, 16], Layout.HWIO())), None, 1, 1, 1)
    assert conv.op_id == -1
    assert conv.inputs[1].v_id < 0
    network.addOp(conv)
    relu = ReLU(conv[0])
    network.addOp(relu)
    pool = MaxPool2d(relu[0], 3, 2, 1, 1)
    network.addOp(pool)
    network.addOp(Output(pool[0]))
    assert numbers(network) == [0, 1, 2, 3, 4]
    assert [v_ids(op.inputs) for op in network.ops] == [[], [0, 1], [2], [3], [4]]
    assert pool[0].tensorType().shape == [1, 208, 208, 16]
    assert (v_ids(network.inputs()), v_ids(network.outputs())) == ([0], [4])
    assert network.ai_target == BuyiTarget()
    network.validate()


def test_questions() -> None:
    network = small()
    conv = network.ops[1]
    assert network[1] is network.getOpById(1) is conv
    assert network[-1].typeKey() == "icraft::xir::OutputNode"
    assert network.getOpsById([2, 1]) == [network.ops[2], conv]
    assert network.getOpIndexById(3) == 3
    assert (network.getPreOpById(1), network.getNextOpById(1)) == (network.ops[0], network.ops[2])
    assert (conv.preOp(), conv.nextOp()) == (network.ops[0], network.ops[2])
    assert network.getValueById(conv.inputs[1].v_id) is conv.inputs[1]
    assert network.getValuesById([0])[0] is network.inputs()[0]
    given, total, pool = network.inputs()[0], network.ops[4], network.ops[5]
    assert [op.op_id for op in given.getUsesOp()] == [1, 3]
    assert (given.getUsesNum(), network.getUsesNumByValueId(given.v_id)) == (2, 2)
    assert network.getUsesOpByValueId(pool[0].v_id) == [network.ops[6]], "each operation once"
    assert network.getUsesInfo(pool[0]) == [(network.ops[6], {0, 1})]
    assert total.producers() == [network.ops[2], network.ops[3]]
    assert total.consumers() == [pool, network.ops[7]]
    assert network.getProducersByOpId(7, True) == [total, network.ops[6]]
    assert network.getProducersByOpId(7, False) == [network.ops[6], total]
    assert network.getConsumersByOpId(0, sorted=True) == [conv, network.ops[3]]
    assert conv.paramsInputs() == conv.inputs[1:]
    assert conv.nonParamsInputs() == [given]
    assert (conv[0].op(), conv[0].index(), conv[0].network()) == (conv, 0, network)
    assert conv.inputs[1].network() is network
    assert (conv[0].isParams(), conv.inputs[1].isParams()) == (False, True)
    assert given.isBoundToOp()
    assert ReLU(network.ops[2]).isActivate()
    assert not conv.isActivate()


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda n: n.getOpById(99), "network 'small' has no operation of number 99"),
        (lambda n: n.getValueById(99), "no value of number 99"),
        (lambda n: n[8], "8 operations, none at place 8"),
        (lambda n: n.getPreOpById(0), "the first"),
        (lambda n: n.getNextOpById(7), "the last"),
        (lambda n: n.ops[1][1], r"operation 1 \(icraft::xir::Conv2d\) has 1 outputs, none is number 1"),
        (lambda n: n.ops[1].getInputIndex(99), "value 99 is none of its inputs"),
        (lambda n: n.view(0, 9), "place 9 is out of range"),
        (lambda n: n.view([1, 99]), "no operation of number 99"),
        (lambda n: n.viewByOpId(0, 99), "no operation of number 99"),
        (lambda n: n.viewExcept([99]), "no operation of number 99"),
        (lambda n: n.view([small().ops[1]]), "is not of network 'small'"),
        (lambda n: n.ops[0].setId(1), "number 1 already"),
        (lambda n: n.inputs()[0].setId(1), "value of number 1 already"),
        (lambda n: ReLU(n.ops[1][0]).network(), "in no network"),
        (lambda n: n.ops[1].setInput(3, n.inputs()[0]), "3 inputs, none is number 3"),
        (lambda n: n.ops[1].getAttr("x"), "no attribute 'x'; it has cut_scale, dilation_height"),
    ],
)
def test_what_is_not_there(ask: Callable[[Network], object], message: str) -> None:
    with pytest.raises(Error, match=message):
        ask(small())


def taken(network: Network) -> Operation:
    return Copy(network.inputs()[0]).setOutputs([Value(f32(1)).setId(0)])


@pytest.mark.parametrize(
    ("add", "message"),
    [
        (lambda n: n.addOp(Input(f32(1))), "an Input, which is only ever the first"),
        (lambda n: n.addOp(Operation()), "a null operation"),
        (lambda n: n.addOp(small().ops[2]), "is in network 'small', take it out first"),
        (lambda n: n.addOp(n.ops[2]), "it already"),
        (lambda n: n.addOp(ReLU(n.ops[1][0]).setId(1)), "number 1 already"),
        (lambda n: n.addOp(ReLU.Init()), "has no inputs"),
        (
            lambda n: n.addOp(Operation.Create("a::B").addInput(n.inputs()[0]).setOutputs([Value(f32(1)).setId(0)])),
            "number 0 already",
        ),
        (lambda n: Network("e", Framework.ONNX, "").addOp(ReLU(n.inputs()[0])), "the first operation is an Input"),
        (lambda n: n.insertOp(9, ReLU(n.inputs()[0])), "none can be inserted at 9"),
        (lambda n: n.insertOpById(99, ReLU(n.inputs()[0])), "no operation of number 99"),
    ],
)
def test_what_cannot_be_added(add: Callable[[Network], object], message: str) -> None:
    network = small()
    with pytest.raises(Error, match=message):
        add(network)
    assert network == small(), "nothing changed"


def test_an_operation_without_a_rule_gets_its_outputs_from_the_program() -> None:
    network = small()
    custom = Operation.Create("customop::Own").addInput(network.inputs()[0])
    with pytest.raises(Error, match="no rule for its outputs"):
        custom.inferResults()
    assert [value.tensorType() for value in custom.inferResults([f32(2), f32(3)])] == [f32(2), f32(3)]
    assert custom.inferResults([f32(9)])[0].tensorType() == f32(2), "there already"
    first = custom[0]
    custom.inferResults([f32(9)], True)
    assert custom[0] is first
    assert first.tensorType() == f32(9)
    network.insertOp(1, custom)
    custom.setAttr("threshold", 0.5)
    custom.setAttrs({"sizes": [1, 2]})
    assert custom.attrs() == {"threshold": 0.5, "sizes": [1, 2]}
    assert custom.hasAttr("sizes", [1, 2])
    assert not custom.hasAttr("sizes", [2, 1])


def test_attributes() -> None:
    conv = Conv2d(small().ops[1])
    assert conv.getAttr("stride_width") == conv.stride_width == 1
    conv.stride_width = 2
    conv.setAttr("padding_mode", PaddingMode.REFLECT)
    assert conv.hasAttr("stride_width", 2)
    assert not conv.hasAttr("stride_width", "x")
    assert not conv.hasAttr("nothing")
    assert conv.padding_mode.name == "REFLECT"
    with pytest.raises(Error, match="has no attribute 'nothing'"):
        conv.setAttr("nothing", 1)
    with pytest.raises(TypeError, match=r"Conv2d\)\.stride_width: a whole number is needed, not 1.5"):
        conv.stride_width = 1.5  # type: ignore[assignment]
    conv.stride_width = 0
    with pytest.raises(Error, match="stride_width: 0 is below 1"):
        conv.checkBound()
    with pytest.raises(Error, match="attribute 'alpha' is null"):
        Operation.Create("icraft::xir::PReLU").checkNull()
    assert Operation.Create("icraft::xir::LayerNorm").checkNull() is None  # type: ignore[func-returns-value]


def test_the_index_grows_with_the_network() -> None:
    """What is known of a network that grew is what is known of one that was looked at only when it was done."""
    grown, late = small(), small()
    for network in (grown, late):
        for _ in range(5):
            if network is grown:
                assert network.getUsesNumByValueId(network.ops[1][0].v_id) >= 1
            network.addOp(Add(network.ops[1][0], weights(1, 1, 1, 4, layout="NHWC")))
    assert grown == late
    for op in late.ops:
        assert grown.getOpIndexById(op.op_id) == late.getOpIndexById(op.op_id)
        for value in (*op.inputs, *op.outputs):
            assert [user.op_id for user in grown.getUsesOpByValueId(value.v_id)] == [
                user.op_id for user in late.getUsesOpByValueId(value.v_id)
            ]
    assert late.getUsesNumByValueId(late.ops[1][0].v_id) == 6


# ---- views


def test_views_are_in_the_networks_order() -> None:
    network = small()
    assert numbers(network.view(0)) == numbers(network)
    assert numbers(network.view(1, 4)) == [1, 2, 3]
    assert numbers(network.view(-3)) == [5, 6, 7]
    assert numbers(network.view(-3, -1)) == [5, 6]
    assert numbers(network.view([4, 1])) == [1, 4]
    assert numbers(network.view([network.ops[4], network.ops[1]])) == [1, 4]
    assert numbers(network.view(lambda op: op.type_is(Conv2d))) == [1, 3]
    assert numbers(network.viewByOpId(2, 4)) == [2, 3, 4]
    assert numbers(network.viewExcept([0, 7])) == [1, 2, 3, 4, 5, 6]
    assert numbers(network.view(2, 2)) == []
    assert numbers(network.view(3, 1)) == []
    assert numbers(network.view(1, 6).view(1, 3)) == [2, 3]
    assert network.view(1, 6).view(1).network() is network
    assert numbers(network.view(op_ids=[1])) == [1]
    assert numbers(network.view(start_index=1, end_index=2)) == [1]
    with pytest.raises(TypeError, match=r"takes .op_ids: Sequence.int.. or"):
        network.view(x=1)


def test_inputs_and_outputs_of_views() -> None:
    network = small()
    given, relu, right, total, pool, joined = (network.ops[place][0].v_id for place in (0, 2, 3, 4, 5, 6))
    whole = network.view(0)
    assert (v_ids(whole.inputs()), v_ids(whole.outputs())) == ([given], [joined, total])
    inner = network.view(1, 7)
    assert v_ids(inner.inputs()) == [given], "once, though two take it"
    assert v_ids(inner.outputs()) == [joined, total], "as the network has them, not in execution order"
    assert v_ids(network.view(1, 4).outputs()) == [relu, right]
    assert v_ids(network.view(4, 6).outputs()) == [total, pool]
    assert v_ids(network.view(4, 5).inputs()) == [relu, right]
    empty = network.view(2, 2)
    assert (empty.inputs(), empty.outputs()) == ([], [])
    inner.setOutputsOrderByValueIds([total, joined])
    assert v_ids(inner.outputs()) == [total, joined]
    with pytest.raises(Error, match="no order of them"):
        inner.setOutputsOrderByValueIds([total])
    assert inner.ai_target == network.ai_target
    assert inner.getValueById(given).v_id == given
    with pytest.raises(Error, match="the view has no operation of number 0"):
        inner.getOpById(0)
    with pytest.raises(Error, match="of no network"):
        NetworkView.Init().network()


def test_what_nobody_takes_is_no_output_of_a_finished_network() -> None:
    network = small()
    network.insertOp(2, Copy(network.ops[1][0]))
    spare = network.ops[2][0].v_id
    assert spare not in v_ids(network.view(0).outputs())
    assert spare not in v_ids(network.view(1, 4).outputs())
    network.removeOpById(7)
    assert spare in v_ids(network.view(1, 4).outputs())
    assert v_ids(network.view(0).outputs()) == [spare, network.ops[-1][0].v_id]


def test_a_view_becomes_a_network_of_its_own() -> None:
    network = small()
    part = network.view(4, 6).toNetwork()
    assert [op.typeKey().rpartition("::")[2] for op in part.ops] == [
        "InputNode",
        "AddNode",
        "MaxPool2dNode",
        "OutputNode",
    ]
    assert v_ids(part.inputs()) == v_ids(network.view(4, 6).inputs())
    assert v_ids(part.outputs()) == v_ids(network.view(4, 6).outputs())
    part.validate()
    part.ops[1].setName("changed")
    part.removeOpById(part.ops[2].op_id)
    assert network == small()
    whole = network.view(0).toNetwork()
    assert whole == network
    assert whole.ops[1].inputs[1].hasData()
    assert numbers(network.view(1, 1).toNetwork()) == [0, 1]
    changed = network.view(0)
    network.removeOpById(6)
    assert len(changed.ops) == 8, "a view keeps what it has"


# ---- editing


def test_inserting_and_removing() -> None:
    network = small()
    network.insertOp(2, Copy(network.ops[1][0]))
    assert numbers(network) == [0, 1, 8, 2, 3, 4, 5, 6, 7]
    network.insertOpById(8, Copy(network.ops[1][0]))
    assert numbers(network)[2:4] == [9, 8]
    network.removeOpById(8).removeOp(lambda op: op.type_is(Copy))
    assert network == small()
    gone = network.ops[2]
    network.removeOpsById([2])
    assert not gone.isBoundToNetwork()
    assert network.ops[3].inputs[0] is gone[0]
    with pytest.raises(Error, match="no operation before it makes its input 0, value"):
        network.validate()


def test_replacing() -> None:
    network = small()
    relu, total = network.ops[2], network.ops[4]
    fresh = Sigmoid(network.ops[1][0])
    network.replaceOp(relu, fresh)
    assert network.ops[2] is fresh
    assert total.inputs[0] is relu[0], "connections are as they were"
    network = small()
    relu, total = network.ops[2], network.ops[4]
    fresh = Sigmoid.Init()
    network.replaceOpKeepUses(relu, fresh)
    assert total.inputs[0] is fresh[0]
    assert fresh.inputs == relu.inputs
    network.validate()
    network.replaceOpById(fresh.op_id, relu)
    assert numbers(network) == [0, 1, 2, 3, 4, 5, 6, 7]
    network = small()
    adopted = Operation.Create("customop::Own")
    values = network.ops[4].outputs
    network.replaceOpByIdKeepUses(4, adopted)
    assert adopted.outputs == values, "without a rule the outputs become its own"
    assert values[0].op() is adopted
    network.validate()
    with pytest.raises(Error, match="has 0 outputs, output 0 is taken"):
        network.replaceOpKeepUses(adopted, Output(network.inputs()[0]))
    wrong = ReLU(network.inputs()[0]).setId(1)
    with pytest.raises(Error, match="number 1 already"):
        network.replaceOpById(adopted.op_id, wrong)
    assert network.ops[4] is adopted
    network.validate()
    with pytest.raises(Error, match="is not of network"):
        network.replaceOp(small().ops[1], ReLU(network.inputs()[0]))


def test_the_first_operation_can_be_replaced() -> None:
    network = small()
    network.replaceOpKeepUses(network.ops[0], Input(f32(1, 8, 8, 3)))
    network.validate()


def test_connecting() -> None:
    network = small()
    given, joined = network.inputs()[0], network.ops[6]
    network.connect(network.ops[4][0], joined, 1)
    network.connect(given, joined)
    assert v_ids(joined.inputs) == [network.ops[5][0].v_id, network.ops[4][0].v_id, given.v_id]
    network.connect(network.ops[5][0], [(joined, {1, 2})])
    assert len(set(v_ids(joined.inputs))) == 1
    with pytest.raises(Error, match="3 inputs, none is number 7"):
        network.connect(given, joined, 7)
    with pytest.raises(Error, match="is not of network"):
        network.connect(given, ReLU(given))
    assert network.getUsesNumByValueId(network.ops[5][0].v_id) == 1


def test_inputs_of_operations() -> None:
    network = small()
    given, joined = network.inputs()[0], network.ops[6]
    pool = network.ops[5][0]
    assert joined.getInputIndex(pool) == joined.getInputIndex(pool.v_id) == {0, 1}
    joined.insertInput(1, given)
    assert joined.getInputIndex(given) == {1}
    joined.replaceInput(pool, network.ops[4][0])
    assert joined.getInputIndex(network.ops[4][0]) == {0, 2}
    joined.removeInputById(given.v_id)
    assert len(joined.inputs) == 2
    assert joined.clearInputs().inputs == []
    joined.setInputs([pool]).addInput(weights(1, 4, 4, 4, layout="NHWC"))
    fresh = joined.inputs[1]
    assert fresh.v_id >= 0, "numbered as it comes in"
    assert network.getValueById(fresh.v_id) is fresh
    with pytest.raises(Error, match="put in at 9"):
        joined.insertInput(9, given)


def test_numbers_can_be_set() -> None:
    network = small()
    network.ops[1].setId(100).setName("stem")
    network.ops[1][0].setId(200).setName("features")
    assert network.getOpById(100).name == "stem"
    assert network.getValueById(200).name == "features"
    network.addOp(Copy(network.ops[1][0]))
    assert (network.ops[-1].op_id, network.ops[-1][0].v_id) == (101, 201)
    for wrong in (lambda: network.ops[1].setId(-1), lambda: network.ops[1][0].setId(-5)):
        with pytest.raises(Error, match="starts at 0"):
            wrong()


def test_outputs_move() -> None:
    network = small()
    relu, copy = network.ops[2], Copy(network.ops[1][0])
    value = relu[0]
    copy.setOutputs([value])
    assert value.op() is copy
    assert relu.outputs == []
    fresh = Value(f32(1, 8, 8, 4))
    copy.setOutput(0, fresh)
    assert not value.isBoundToOp()
    with pytest.raises(Error, match="parameters cannot be an output"):
        copy.setOutputs([weights(1, layout="C")])


# ---- rules


def cut(network: Network) -> None:
    network.removeOpById(7)


def swapped(network: Network) -> None:
    network.removeOpById(1)
    relu = network.ops[1]
    assert relu.type_is(ReLU)


def rank(network: Network) -> None:
    network.ops[4][0].tensorType().setShape([1, 2])


def stride(network: Network) -> None:
    network.ops[5].setAttr("stride_width", 0)


def null(network: Network) -> None:
    network.ops[6]._inputs[0] = Value()


def twice(network: Network) -> None:
    network.ops[4][0]._v_id = network.ops[3][0]._v_id


@pytest.mark.parametrize(
    ("breaks", "message"),
    [
        (cut, "the last operation is not an Output"),
        (swapped, "ReLU.*no operation before it makes its input 0"),
        (rank, r"Add.*layout NHWC has 4 axes, but shape \[1, 2\] has 2$"),
        (stride, "stride_width: 0 is below 1"),
        (null, "Concat.*null handle"),
        (twice, "is of two values|no operation before it"),
    ],
)
def test_rules(breaks: Callable[[Network], None], message: str) -> None:
    network = small()
    network.validate()
    breaks(network)
    with pytest.raises(Error, match=message):
        network.validate()


def test_hardware_operations_are_for_the_networks_accelerator() -> None:
    for target in (BuyiTarget(), ZhugeTarget(ZhugeTarget_Chips.ZG330)):
        network = hardware(target)
        network.validate()
        network.ops[1].setCompileTarget(HostTarget())
        with pytest.raises(Error, match=r'HardOp.*it is for "@hostt", the network for "@'):
            network.validate()
    with pytest.raises(Error, match='for "@buyit", the network for "@zhuget'):
        hardware(BuyiTarget()).setAITarget(ZhugeTarget()).validate()  # type: ignore[attr-defined]


def test_where_operations_stand_for_values() -> None:
    network = small()
    total = Add(network.ops[2], network.ops[3])
    assert v_ids(total.inputs) == v_ids(network.ops[4].inputs)
    with pytest.raises(TypeError, match="has 0 outputs: say which one"):
        Concat([network.ops[7]], 0)
    with pytest.raises(TypeError, match="a Value is needed, not int"):
        Add(network.ops[2], 3)  # type: ignore[call-overload]
