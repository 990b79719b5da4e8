"""Handles: identity, casts, null handles, equality, clones, texts, tags, immediates, enumerations."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable

import numpy as np
import pytest
from xir_networks import f32, small

from triune.icraft import xir, xrt
from triune.icraft.xir import (
    Array,
    Bool,
    BuyiTarget,
    Conv2d,
    Error,
    FloatImm,
    FloatType,
    Framework,
    HostMem,
    Input,
    IntegerType,
    InternalError,
    IntImm,
    Layout,
    Map,
    Network,
    NetworkBase,
    ObjectRef,
    Operation,
    Params,
    ReLU,
    ScalarImm,
    String,
    TensorType,
    Value,
    ZhugeTarget,
    ZhugeTarget_Chips,
)


def test_a_cast_is_the_object_itself() -> None:
    network = small()
    conv = network.ops[1]
    assert Conv2d(conv) is conv
    assert Operation(conv) is conv
    assert ObjectRef(conv) is conv
    assert NetworkBase(network).same_as(Network(network))
    assert Params(conv.inputs[1]) is Value(conv.inputs[1])


def test_a_wrong_cast_is_refused_by_name() -> None:
    network = small()
    with pytest.raises(InternalError, match="icraft::xir::Conv2dNode is not a icraft::xir::ReLUNode"):
        ReLU(network.ops[1])
    with pytest.raises(InternalError, match="ValueNode is not a icraft::xir::ParamsNode"):
        Params(network.ops[0][0])
    with pytest.raises(TypeError, match="takes a name"):
        Value(network)
    assert issubclass(InternalError, Error)
    assert issubclass(Error, RuntimeError)


@pytest.mark.parametrize("kind", [Operation, Conv2d, Value, Network, TensorType, IntImm, Params])
def test_null_handles(kind: type[ObjectRef]) -> None:
    for null in (kind(), kind(ObjectRef())):
        assert type(null) is kind
        assert not null.defined()
        assert null.use_count() == 0
        assert not null.unique()
        assert str(null) == "null"
        assert null == ObjectRef()
        assert null.same_as(ObjectRef())
        assert not null.type_is(kind)
        with pytest.raises(InternalError, match="null handle"):
            null.clone()
    with pytest.raises(InternalError, match=r"null handle: Operation\.op_id"):
        _ = Operation(ObjectRef()).op_id
    assert kind.Init().defined() if hasattr(kind, "Init") else True


def test_identity_and_counts() -> None:
    value = Value(f32(1))
    # Not within the assertions, which hold references of their own.
    alone, count = value.unique(), value.use_count()
    held = [value]
    shared, more = value.unique(), value.use_count()
    del held
    again = value.unique()
    assert (alone, shared, again) == (True, False, True)
    assert more == count + 1
    other = value.clone()
    assert other == value
    assert not other.same_as(value)
    with pytest.raises(TypeError, match="unhashable"):
        hash(value)


def test_type_keys() -> None:
    network = small()
    assert network.ops[0].typeKey() == "icraft::xir::InputNode"
    assert network.ops[1].typeKey().replace("Node", "") == "icraft::xir::Conv2d"
    assert network.ops[1].type_is(Conv2d)
    assert network.ops[1].is_type(Operation)
    assert not network.ops[1].type_is(ReLU)
    made = Operation.Create("customop::ImageMakeNode", "ImageMake.dll")
    assert "customop" in made.typeKey()
    assert type(made) is Operation
    assert Operation.Create("icraft::xir::ReLU").type_is(ReLU)
    assert Operation.Create("icraft::xir::Relu").type_is(ReLU)
    assert ObjectRef.type_key == "Object"
    with pytest.raises(Error, match="empty"):
        Operation.Create("")


def test_text_is_compact_json_with_quotes() -> None:
    assert str(FloatType.FP32()) == '"@fp(32)"'
    assert "buyit" in str(BuyiTarget())
    assert str(ZhugeTarget(ZhugeTarget_Chips.ZG330)) == '"@zhuget(330)"'
    assert str(ZhugeTarget(xir.ZG30S)) == '"@zhuget(30S)"'
    assert str(String('a"b')) == '"a\\"b"'
    assert str(f32(1, 416, 416, 3)) == (
        '{"_type_key":"icraft::xir::TensorType","element_dtype":"@fp(32)","layout":"@layout(NHWC)",'
        '"merged_distrs":[],"shape":[1,416,416,3]}'
    )
    value = Value("in", f32(1), HostMem()).setId(7)
    assert str(value) == (
        '{"_type_key":"icraft::xir::Value","dtype":' + str(f32(1)) + ',"mtype":"@hostm","name":"in","tags":{},"v_id":7}'
    )
    parameters = json.loads(str(Params("w", f32(1))))
    assert parameters["_allow_no_data"] is False
    assert parameters["_type_key"] == "icraft::xir::Params"
    assert len(repr(small())) < 250


def test_attributes_and_tags_of_numpys_numbers() -> None:
    op = Operation.Create("customop::Own")
    given = {"factor": np.float32(0.5), "whole": np.int64(3), "matrix": np.eye(2, 3, dtype=np.float32)}
    op.setAttrs({**given, "rows": list(given["matrix"]), "named": {"flag": np.bool_(True)}})
    op.setTag("factor", given["factor"]).setTag("whole", given["whole"])
    rows = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    stored = json.loads(str(op))
    assert {name: stored[name] for name in op.attrs()} == {
        "factor": 0.5,
        "whole": 3,
        "matrix": rows,
        "rows": rows,
        "named": {"flag": True},
    }
    assert stored["tags"] == {"factor": 0.5, "whole": 3}
    for wrong in (object(), [{1}], np.ma.masked_equal([1, 2], 1)):
        with pytest.raises(TypeError, match=r"operation -\d+ \(customop::Own\)\.own: (give a number|a masked array)"):
            op.setAttr("own", wrong)
        with pytest.raises(TypeError, match=r"a number|a masked array"):
            op.setTag("own", wrong)


def test_equality_is_structural() -> None:
    assert small() == small()
    assert small() != small().setName("other")
    changed = small()
    changed.ops[2].setAttr("alpha", 0.5)
    assert changed != small()
    assert f32(1, 2, 3, 4) == f32(1, 2, 3, 4) != f32(1, 2, 3, 5)
    assert FloatType.FP32() != IntegerType.SInt32()
    assert (f32(1) == 3) is False
    left, right = small(), small()
    right.ops[1].inputs[1].fill(float)
    assert left != right, "data count, too"


def test_clones_share_below_their_depth() -> None:
    dtype = TensorType(IntegerType.SInt8(), [2], Layout("C"))
    shallow, deep = dtype.clone(), dtype.clone(2)
    assert shallow == deep == dtype
    assert shallow.element_dtype is dtype.element_dtype
    assert deep.element_dtype is not dtype.element_dtype
    assert shallow.setShape([3]).shape == [3]
    assert dtype.shape == [2], "lists are not shared"


def test_a_cloned_operation_is_in_no_network() -> None:
    network = small()
    conv = network.ops[1]
    copy = conv.clone()
    assert copy == conv
    assert not copy.isBoundToNetwork()
    assert copy[0] is not conv[0]
    assert copy[0].op() is copy
    assert conv[0].op() is conv
    value = conv[0].clone()
    assert not value.isBoundToOp()
    with pytest.raises(Error, match="no operation makes it"):
        value.op()


def test_a_cloned_operation_keeps_its_numbers() -> None:
    """As the vendor's has it, whose networks refuse numbers that are taken, of operations and of values."""
    network = small()
    relu = network.ops[2]
    copy = relu.clone()
    assert (copy.op_id, copy[0].v_id) == (relu.op_id, relu[0].v_id) == (2, 4)
    free = 1 + max(op.op_id for op in network.ops)
    with pytest.raises(Error, match=rf"has an operation of number 2 already; {free} is free"):
        network.insertOp(3, copy)
    with pytest.raises(Error, match=r"has a value of number 4 already; \d+ is free"):
        network.insertOp(3, copy.setId(-1))
    copy[0].setId(-1)
    network.insertOp(3, copy)
    assert copy.op_id == free
    assert copy[0].v_id > max(value.v_id for op in small().ops for value in op.outputs)
    network.validate()


def test_a_cloned_network_is_its_own() -> None:
    network = small()
    copy = network.clone()
    assert copy == network
    copy.removeOpById(copy.ops[2].op_id)
    copy.ops[1].inputs[1].tensorType().setShape([1, 1, 12, 4])
    assert network == small()
    assert all(op.network() is network for op in network.ops)
    assert copy.ops[1].inputs[2] == network.ops[1].inputs[2]


def test_tags() -> None:
    network = small()
    network.setTag("speedmode", Bool(True)).setTag("rows", 4).setTag("scale", 0.5).setTag("who", "me")
    network.setTag("list", [1, "a", None]).setTag("map", {"k": [False]})
    assert Bool(network.getTag("speedmode"))
    assert IntImm(network.getTag("rows")).value == 4
    assert network.getTag("scale") == 0.5
    assert network.getTag("who") == "me"
    assert network.getTag("nothing") is None
    assert set(network.tags) == {"speedmode", "rows", "scale", "who", "list", "map"}
    listed, mapped = network.getTag("list"), network.getTag("map")
    assert isinstance(listed, Array)
    assert isinstance(mapped, Map)
    assert (len(listed), listed[0] == 1, str(listed)) == (3, True, '[1,"a",null]')
    assert (list(mapped.keys()), "k" in mapped, str(mapped["k"])) == (["k"], True, "[false]")
    assert network.removeTag("rows")
    assert not network.removeTag("rows")
    assert json.loads(str(network))["tags"]["map"] == {"k": [False]}
    with pytest.raises(TypeError, match="set cannot be an object"):
        network.setTag("bad", {1})
    operation = network.ops[0].setTag("imagemake", True)
    assert str(operation.getTag("imagemake")) == "true"


def test_immediates() -> None:
    assert type(ScalarImm(3)) is IntImm
    assert type(ScalarImm(3.0)) is FloatImm
    assert type(ScalarImm(True)) is Bool
    assert ScalarImm(IntImm(3)) == 3
    assert str(IntImm(3)) == "3"
    assert str(FloatImm(3.14, xir.ExternalMem(5678))) == "3.14"
    assert FloatImm(3.14, xir.ExternalMem(5678)).mtype == xir.ExternalMem(5678)
    assert IntImm(3).scalarType().isSInt64()
    assert IntImm(3, IntegerType.SInt8()).storageBits() == 8
    assert json.loads(str(IntImm(3, IntegerType.SInt8())))["dtype"] == "@sint(8)"
    assert range(5)[IntImm(2)] == 2
    assert float(FloatImm(2.5)) == 2.5
    assert Bool(True) & False == Bool(False)
    assert (False | Bool(True)).value is True
    assert Bool(True).__not__() == False  # noqa: E712 - its own comparison
    assert not Bool(False)
    with pytest.raises(TypeError):
        IntImm(2.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"int \| ObjectRef is needed, not 'x'"):
        IntImm("x")  # type: ignore[arg-type]
    for number, shown in ((1 << 64, str(1 << 64)), (-(1 << 63) - 1, str(-(1 << 63) - 1)), (1 << 20000, "0x1000")):
        with pytest.raises(TypeError, match=rf"{shown}.* does not fit 64 bits"):
            IntImm(number)
    with pytest.raises(TypeError, match=r"float \| ObjectRef is needed, not 0x1000"):
        FloatImm(1 << 20000)
    assert String("ab") == "ab"
    assert {String("k"): 1}["k"] == 1  # type: ignore[index]
    assert String().empty()


def test_enumerations() -> None:
    assert Framework(2) is Framework.TENSORFLOW is xir.TENSORFLOW
    assert Framework(Framework.ONNX) is Framework.ONNX
    assert (int(xir.ONNX), xir.ONNX.name, xir.ONNX.value, str(xir.ONNX)) == (4, "ONNX", 4, "Framework.ONNX")
    assert [1, 2, 3][xir.Interpolation.BILINEAR] == 2
    assert repr(xir.ZEROS) == "<PaddingMode.ZEROS: 0>"
    assert pickle.loads(pickle.dumps(xir.FLOOR)) is xir.RoundingMode.FLOOR
    assert hash(xir.ZG330) == hash(ZhugeTarget_Chips.ZG330)
    assert set(ZhugeTarget_Chips.__members__) == {"ZG330", "ZG340", "ZG30S"}
    assert xir.NONE is xir.RoundingMode.NONE
    assert xir.ZERO is xir.DistrUnvalidValue.ZERO
    with pytest.raises(ValueError, match="7"):
        Framework(7)


def test_versions() -> None:
    parts = (xir.MajorVersionNum(), xir.MinorVersionNum(), xir.PatchVersionNum())
    assert xir.MainVersion() == ".".join(map(str, parts))
    assert xir.FullVersion().startswith(xir.MainVersion())
    assert isinstance(xir.CommitID(), str)
    assert isinstance(xir.BuildTime(), str)
    assert xir.CommitSinceTag() == 0
    assert xir.IsModified() is False


def test_places() -> None:
    assert str(xir.OnChipMem(1234)) == '"@ocm(1234)"'
    assert str(xir.ChunkMem(1234, 100)) == '"@chunk(1234@100)"'
    assert xir.ExternalMem(1).setAddr(5).addr == 5
    assert xir.ChunkMem(1, 2).setAddr(3, 4).offset == 4
    assert HostMem() == HostMem.Init()
    assert HostMem() != xir.OnChipMem.Init()
    with pytest.raises(TypeError):
        xir.ExternalMem(1 << 64)
    for wrong in (lambda: xir.OnChipMem(-1), lambda: xir.ChunkMem(1 << 16, 0)):
        with pytest.raises(Error):
            wrong()


def test_input_accepts_a_list() -> None:
    both = Input([f32(1), f32(2)])
    assert [value.index() for value in both.outputs] == [0, 1]
    assert both[-1].tensorType().shape == [2]
    with pytest.raises(TypeError, match="TensorType"):
        Input(3)


@pytest.mark.parametrize(
    "make",
    [
        lambda: xir.Network("n", Framework.ONNX, "1"),
        lambda: xir.Operation.Create("customop::X"),
        lambda: IntImm(1),
        lambda: String("x"),
        lambda: xir.Layout(),
        lambda: xir.IsOp("icraft::xir::Add"),
        lambda: FloatType.FP32().semantics(),
        lambda: xir.NetworkRewriter(),
        lambda: xrt.HostDevice.Default(),
        lambda: xrt.MemPtr(1),
    ],
)
def test_objects_are_not_pickled(make: Callable[[], object]) -> None:
    # As those of pybind11's modules are not; launchers look for the message's beginning.
    thing = make()
    for whole in (thing, [thing]):
        for copying in (pickle.dumps, copy.deepcopy):
            with pytest.raises(TypeError, match=rf"^cannot pickle '{type(thing).__name__}' object"):
                copying(whole)
    with pytest.raises(TypeError, match="cannot pickle"):
        copy.copy(thing)
    assert pickle.loads(pickle.dumps(type(thing))) is type(thing)
