"""Patterns, searches, rewriting, passes."""

from __future__ import annotations

from typing import Any

import pytest
from xir_networks import f32, small

from triune.icraft.xir import (
    ICRAFT_REGISTER_PASS,
    PATTERN_REQUIRE,
    Add,
    Anycards,
    AttrPattern,
    BuyiTarget,
    Concat,
    Conv2d,
    Copy,
    Error,
    HostTarget,
    IsOp,
    IsOptionalOp,
    MaxPool2d,
    Network,
    NetworkPass,
    Operation,
    OpPattern,
    OptionalOpPattern,
    OrPattern,
    Output,
    Pass,
    PassContext,
    PassInfo,
    Pattern,
    ReLU,
    SequentialPass,
    Sigmoid,
    SiLU,
    String,
    ValuePattern,
    Wildcard,
)


def found(network: Network, pattern: Pattern) -> list[int]:
    """Return where the matches of a pattern start."""
    roots = []
    for match in network.search(pattern):
        assert match
        roots.append(max(op.op_id for op in match.values()))
    return roots


def test_types_of_operations() -> None:
    network = small()
    assert found(network, IsOp(Conv2d)) == [1, 3]
    assert found(network, IsOp("icraft::xir::Conv2dNode")) == [1, 3]
    assert found(network, IsOp([Conv2d, Add])) == [1, 3, 4]
    assert found(network, OpPattern(["icraft::xir::AddNode"])) == [4]
    assert found(network, IsOp()) == list(range(8))
    assert found(network, IsOp(SiLU)) == []
    assert network.searchOnce(IsOp(SiLU)) == {}
    pattern = IsOp(Conv2d)
    assert network.searchOnce(pattern) == {pattern: network.ops[1]}
    assert pattern.op_type == ["icraft::xir::Conv2dNode"]


def test_inputs() -> None:
    network = small()
    conv = IsOp(Conv2d, Wildcard(), Wildcard(), Wildcard())
    assert found(network, conv) == [1], "with a bias"
    assert found(network, IsOp(Conv2d, Wildcard(), Anycards())) == [1, 3]
    assert found(network, IsOp(Conv2d, [Anycards(), Wildcard()])) == [1, 3]
    assert found(network, IsOp(Conv2d)(Wildcard())) == []
    relu = IsOp(ReLU, conv[0])
    total = IsOp(Add, relu[0], IsOp(Conv2d)[0])
    match = network.searchOnce(total)
    assert {op.op_id for op in match.values()} == {4, 2, 1, 3}
    assert (match[conv], match[relu], match[total]) == (network.ops[1], network.ops[2], network.ops[4])
    assert found(network, IsOp(Add, IsOp(Conv2d)[0], IsOp(ReLU)[0])) == [], "in order"
    assert found(network, IsOp(Add, IsOp(ReLU)[1], Wildcard())) == [], "another output"
    assert found(network, IsOp(Add, IsOp(ReLU), Wildcard())) == [4], "any output"
    assert [type(pattern) for pattern in total.inputs] == [ValuePattern, ValuePattern]


def test_a_pattern_stands_for_one_operation() -> None:
    network = small()
    pool = IsOp(MaxPool2d)
    assert found(network, IsOp(Concat, pool[0], pool[0])) == [6]
    network.connect(network.ops[4][0], network.ops[6], 1)
    assert found(network, IsOp(Concat, pool[0], pool[0])) == []
    assert found(network, IsOp(Concat, pool[0], IsOp(Add)[0])) == [6]


def test_attributes_targets_uses_types_and_constraints() -> None:
    network = small()
    assert found(network, IsOp(Conv2d).hasAttr("pad_top", 1)) == [1]
    assert found(network, IsOp().hasAttr("pad_top")) == [1, 3, 5]
    assert found(network, IsOp().hasAttr("pad_top").hasAttr("pool_width", 2)) == [5]
    assert found(network, IsOp(Conv2d).hasAttr("padding_mode", "ZEROS")) == [1, 3]
    network.ops[3].setCompileTarget(BuyiTarget())
    assert found(network, IsOp(Conv2d).onTarget(BuyiTarget)) == [3]
    assert found(network, IsOp(Conv2d).onTarget(HostTarget.type_key)) == [1]
    given = Wildcard().hasUses(2)
    assert found(network, IsOp(Conv2d, given, Anycards())) == [1, 3]
    assert found(network, IsOp(ReLU, Wildcard().hasUses(2))) == []
    assert found(network, IsOp(MaxPool2d, Wildcard().hasDtype(f32(1, 8, 8, 4)))) == [5]
    assert found(network, IsOp(MaxPool2d, Wildcard().hasDtype(f32(1, 8, 8, 5)))) == []
    assert found(network, IsOp(Add, IsOp(ReLU)[0].hasUses(1), Anycards())) == [4]
    assert found(network, IsOp(Conv2d).setConstraint(lambda op: PATTERN_REQUIRE(len(op.inputs) == 3))) == [1]
    pattern = IsOp(Conv2d).hasAttr("pad_top", 1).onTarget(BuyiTarget)
    assert (pattern.attrs[0].key, pattern.attrs[0].value, pattern.target_type) == ("pad_top", 1, BuyiTarget.type_key)
    assert pattern.cfunc is None
    value = ValuePattern(pattern, 1, 2, f32(3))
    assert (value.op_pattern, value.index, value.uses, value.dtype) == (pattern, 1, 2, f32(3))
    assert (Wildcard().isWildcard(), ValuePattern(Anycards()).isAnycards(), value.isWildcard()) == (True, True, False)
    assert not Wildcard().op_pattern.defined()
    assert not Wildcard().dtype.defined()
    assert AttrPattern("x", 3).value == 3


def test_one_or_the_other() -> None:
    network = small()
    either = IsOp(ReLU) | IsOp(MaxPool2d)
    assert isinstance(either, OrPattern)
    assert found(network, either) == [2, 5]
    assert found(network, either | IsOp(Add)) == [2, 4, 5]
    assert found(network, IsOp(SiLU) | either) == [2, 5]
    assert (either.left, either.right) == (either.left, either.right)
    assert found(network, IsOp(Add, IsOp(SiLU) | IsOp(ReLU), Wildcard())) == [4]


def test_optional_operations() -> None:
    network = small()
    conv = IsOp(Conv2d)
    relu = IsOptionalOp(ReLU, conv[0])
    assert isinstance(relu, OptionalOpPattern)
    total = IsOp(Add, relu[0], Wildcard())
    assert network.searchOnce(total) == {total: network.ops[4], relu: network.ops[2], conv: network.ops[1]}
    network.connect(network.ops[1][0], network.ops[4], 0)
    assert network.searchOnce(total) == {total: network.ops[4], conv: network.ops[1]}
    network.connect(network.inputs()[0], network.ops[4], 0)
    assert network.searchOnce(total) == {}
    anything = IsOp(Add, IsOptionalOp(SiLU)[0], Wildcard())
    assert network.searchOnce(anything) == {anything: network.ops[4]}


def test_what_is_no_pattern() -> None:
    network = small()
    for wrong in (Wildcard(), Anycards()):
        with pytest.raises(Error, match="a search starts from an operation's pattern"):
            network.search(wrong)
    with pytest.raises(Error, match="null pattern"):
        network.search(OpPattern())
    with pytest.raises(TypeError, match="an input's pattern"):
        IsOp(Conv2d, 3)
    with pytest.raises(TypeError, match="op_type: Sequence"):
        OpPattern("icraft::xir::AddNode")
    with pytest.raises(TypeError, match="not iterable"):
        list(IsOp(Conv2d))


def test_backtracking_finds_a_match_that_comes_late() -> None:
    network = small()
    joined = network.ops[6]
    joined.setInputs([network.ops[5][0], network.ops[4][0], network.ops[3][0], network.ops[4][0]])
    add = IsOp(Add)
    assert network.searchOnce(IsOp(Concat, Anycards(), add[0], Anycards()))[add] is network.ops[4]
    assert network.searchOnce(IsOp(Concat, Anycards(), add[0], IsOp(Conv2d)[0], add[0]))
    assert not network.searchOnce(IsOp(Concat, Anycards(), add[0], IsOp(MaxPool2d)[0], Anycards()))


def test_backtracking_goes_into_the_operations_before() -> None:
    network = small()
    first, second = network.ops[1], network.ops[3]
    joined = Concat([first[0], second[0]], 3)
    network.insertOp(4, joined)
    both = Operation.Create("customop::Both").setInputs([joined[0], second[0]])
    network.insertOp(5, both)
    conv = IsOp(Conv2d)
    pattern = IsOp("customop::BothNode", IsOp(Concat, Anycards(), conv[0], Anycards())[0], conv[0])
    assert network.searchOnce(pattern)[conv] is second, "the first that is tried is the first convolution"


# ---- rewriting


def test_every_match_is_rewritten() -> None:
    network = small()
    for _ in range(3):
        network.insertOp(3, Copy(network.ops[2][0]))
    conv = IsOp(Conv2d)
    calls = []

    def to_sigmoid(net: Network, match: dict[OpPattern, Operation]) -> None:
        calls.append(match[conv].op_id)
        net.replaceOpKeepUses(match[conv], Sigmoid(match[conv].inputs[0]))

    # The types differ: what matters here is that none is left.
    network.rewrite(conv, to_sigmoid)
    assert calls == [1, 3]
    assert network.search(conv) == []


def test_a_rewriting_that_changes_nothing_ends() -> None:
    network = small()
    calls: list[int] = []
    network.rewrite(IsOp(Conv2d), lambda net, match: calls.extend(op.op_id for op in match.values()), 5)
    assert calls == [1] * 5, "from the start each time"
    calls.clear()

    def on(net: Network, match: dict[OpPattern, Operation]) -> None:
        calls.extend(op.op_id for op in match.values())
        net.rewriter().Continue()

    network.rewrite(IsOp(Conv2d), on)
    assert calls == [1, 3]
    calls.clear()

    def stop(net: Network, match: dict[OpPattern, Operation]) -> None:
        on(net, match)
        net.rewriter().Break()

    network.rewrite(IsOp(Conv2d), stop)
    assert calls == [1]


def test_going_on_behind_what_was_inserted() -> None:
    network = small()
    seen = []

    def double(net: Network, match: dict[OpPattern, Operation]) -> None:
        (conv,) = match.values()
        seen.append(conv.op_id)
        net.insertOp(net.getOpIndexById(conv.op_id), Copy(conv.inputs[0]))
        net.rewriter().Continue()

    network.rewrite(IsOp(Conv2d), double)
    assert seen == [1, 3]
    network.validate()


def test_a_group_becomes_one_operation() -> None:
    network = small()
    conv = IsOp(Conv2d)
    relu = IsOp(ReLU, conv[0])
    match = network.searchOnce(relu)
    value = match[relu][0]
    fused = Operation.Create("customop::ConvReLU")
    network.replaceGroup(match, fused)
    assert fused.outputs == [value], "what others took is its own"
    assert value.v_id == 3 + 1
    assert [v.v_id for v in fused.inputs] == [v.v_id for v in small().ops[1].inputs]
    assert [op.op_id for op in network.ops] == [0, 8, 3, 4, 5, 6, 7]
    network.validate()
    network = small()
    match = network.searchOnce(relu)
    silu = SiLU(match[conv][0])
    silu.setInputs([match[conv].inputs[0]])
    network.replaceGroup(match, silu)
    assert network.getOpById(4).inputs[0] is silu[0]
    network.validate()
    network = small()
    match = network.searchOnce(IsOp(Add, IsOp(ReLU)[0], IsOp(Conv2d)[0]))
    with pytest.raises(Error, match="has 2 outputs, 1 of the group are taken"):
        network.replaceGroup(match, Operation.Create("a::B").setOutputs([Copy(v)[0] for v in network.ops[6].inputs]))
    with pytest.raises(Error, match="no operations"):
        network.replaceGroup({}, silu)
    assert network == small()


def test_uses_except_a_match() -> None:
    network = small()
    given = network.inputs()[0]
    pattern = IsOp(Conv2d).hasAttr("pad_top", 1)
    match = network.searchOnce(pattern)
    assert network.getUsesInfo(given) == [(network.ops[1], {0}), (network.ops[3], {0})]
    assert network.getUsesInfoExceptMatch(given, match) == [(network.ops[3], {0})]


# ---- passes


def named(name: str, done: list[str], **info: Any) -> NetworkPass:
    def run(network: Network, context: PassContext) -> Network:
        done.append(name)
        return network

    return NetworkPass(run, name, **info)


def test_passes() -> None:
    done: list[str] = []
    network = small()
    low, high = named("low", done), named("high", done, opt_level=3)
    both = SequentialPass([low, high], "both")
    assert both(network) is network
    assert done == ["low", "high"]
    assert (both.passes, both.pass_info.name, high.pass_info.opt_level) == ([low, high], "both", 3)
    done.clear()
    with PassContext(2) as context:
        assert PassContext.Current() is context
        both(network)
        with PassContext(9, disabled_passes=[String("low")]):
            both(network)
        assert PassContext.Current() is context
    assert done == ["low", "high"]
    assert low.setName("other").setOptLevel(7).setRequiredPasses(["x"]).pass_info.required_passes == ["x"]
    assert low.setPassInfo(PassInfo("info", 1)).pass_info.name == "info"
    assert NetworkPass(lambda n, c: n, PassInfo("given")).pass_info.name == "given"


def test_contexts() -> None:
    context = PassContext(1, ["a"], [], {"key": 3})
    context.requirePass("b").disablePass("c").setConfig("other", [1])
    assert (context.top_level, context.required_passes, context.disabled_passes) == (1, ["a", "b"], ["c"])
    assert context.getConfig("key") == 3
    assert context.getConfig("none") is None
    assert context.getConfig("none", String("x")) == "x"
    assert set(context.config) == {"key", "other"}
    context.removeRequiredPass("a").removeDisabledPass("c")
    assert (context.required_passes, context.disabled_passes) == (["b"], [])
    assert context.isPassEnabled(PassInfo("c", 1))
    assert not context.isPassEnabled(PassInfo("c", 2))
    assert PassContext.Init().isPassEnabled(PassInfo("x", 1 << 40))


def test_registered_passes() -> None:
    done: list[str] = []

    @ICRAFT_REGISTER_PASS
    def tests_made() -> Pass:
        return named("tests-made", done, required_passes=["tests_function"])

    @ICRAFT_REGISTER_PASS
    def tests_function(network: Network, context: PassContext) -> Network:
        done.append("tests_function")
        return network

    assert tests_made is not None
    Pass.Create("tests-made")(small())
    assert done == ["tests_function", "tests-made"]
    with pytest.raises(Error, match="there is no pass 'tests-none'; registered are: "):
        Pass.Create("tests-none")
    with pytest.raises(NotImplementedError, match=r"passes of compiled libraries \(x\.so\)"):
        Pass.Create("tests-made", "x.so")
    with pytest.raises(Error, match="returned a int, not a pass"):
        ICRAFT_REGISTER_PASS(lambda: 3)


def test_output_is_replaced_in_a_rewriting() -> None:
    network = small()
    last = IsOp(Output)
    network.rewrite(
        last,
        lambda net, match: (net.replaceOp(match[last], Output(net.ops[1][0])), net.rewriter().Break()),
    )
    assert [value.v_id for value in network.outputs()] == [network.ops[1][0].v_id]
    network.validate()
