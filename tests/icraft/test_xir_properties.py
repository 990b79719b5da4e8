"""Random networks, types and files: what is written reads back equal, and broken files are errors."""

from __future__ import annotations

import io
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xir_networks import every_form, small

from triune.icraft import xir
from triune.icraft._xir.codec import network_of
from triune.icraft.xir import (
    BoolType,
    BuyiTarget,
    CalibratedType,
    ChunkMem,
    Error,
    ExpQuantizedScaleArray,
    ExternalMem,
    FloatType,
    Framework,
    HardOp,
    HostMem,
    Input,
    IntegerType,
    Layout,
    MergedAxisDistr,
    Network,
    NormalizedQuantizedType,
    NormalizedType,
    OnChipMem,
    Operation,
    Output,
    Params,
    QuantizedScaleArray,
    QuantizedType,
    TensorType,
    Value,
    ZhugeTarget,
)

settings.register_profile("xir", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("xir")

# Equal numbers have one text: no negative zero.
floats = st.floats(width=32, allow_nan=False, allow_infinity=False).map(lambda value: value + 0.0)
scalars = st.one_of(
    st.sampled_from(
        [FloatType.FP16, FloatType.FP32, FloatType.FP64, FloatType.BF16, FloatType.TF32, FloatType.FPE6M9, BoolType]
    ).map(lambda make: make()),
    st.builds(IntegerType, st.booleans(), st.integers(1, 64)),
)
repeated = st.lists(st.tuples(floats, st.integers(1, 40)), min_size=1, max_size=4).map(
    lambda runs: [value for value, count in runs for _ in range(count)]
)
axes = st.integers(-4, 4)
plain_scales = st.builds(QuantizedScaleArray, repeated, axes)
shifts = st.lists(st.tuples(st.integers(0, 255), st.integers(0, 40), floats), max_size=9).flatmap(
    lambda all: axes.map(lambda axis: ExpQuantizedScaleArray(*([one[at] for one in all] for at in range(3)), axis))
)
scales = st.one_of(plain_scales, shifts)
points = st.lists(st.integers(-128, 255), max_size=3)
elements = st.one_of(
    scalars,
    st.builds(CalibratedType, floats, floats, floats, scalars),
    st.builds(NormalizedType, repeated, scalars),
    st.builds(QuantizedType, scales, points, scalars),
    st.builds(NormalizedQuantizedType, repeated, scales, scalars),
)
places = st.one_of(
    st.just(HostMem()),
    st.builds(OnChipMem, st.integers(0, 2**64 - 1)),
    st.builds(ExternalMem, st.integers(0, 2**40)),
    st.builds(ChunkMem, st.integers(0, 2**16 - 1), st.integers(0, 2**40)),
)


@st.composite
def tensors(draw: st.DrawFn) -> TensorType:
    shape = draw(st.lists(st.integers(0, 5), min_size=1, max_size=5))
    letters = draw(st.lists(st.sampled_from("NHWDCIOL*"), min_size=len(shape), max_size=len(shape)))
    kind = TensorType(draw(elements), shape, Layout("".join(letters)))
    if draw(st.booleans()):
        distribution = kind.createAddMergedDistr([draw(st.integers(0, len(shape) - 1))])
        end = draw(st.integers(0, distribution.totalNum()))
        distribution.setUnvalid(draw(st.integers(0, end)), end)
    return kind


names = st.text(max_size=8)
tags = st.dictionaries(
    names,
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), floats, names),
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(names, inner, max_size=3)),
        max_leaves=5,
    ),
    max_size=3,
)


@st.composite
def params(draw: st.DrawFn) -> Params:
    made = Params(draw(names), draw(tensors()), draw(places))
    made.copyData(draw(st.binary(min_size=made.storageBytes(), max_size=made.storageBytes())))
    return made


@st.composite
def networks(draw: st.DrawFn) -> Network:
    """Return a network of custom and hardware operations, whose types can be anything."""
    target = draw(st.sampled_from([BuyiTarget(), ZhugeTarget()]))
    network = Network(draw(names), draw(st.sampled_from(list(Framework))), draw(names), target)
    network.addOp(Input(*draw(st.lists(tensors(), min_size=1, max_size=3))))
    values: list[Value] = list(network.ops[0].outputs)
    for _ in range(draw(st.integers(0, 4))):
        inputs = draw(st.lists(st.sampled_from(values), min_size=1, max_size=3))
        if draw(st.booleans()):
            op = Operation.Create(f"customop::{draw(st.sampled_from(['A', 'B']))}").setInputs(inputs)
            op.setAttrs(
                {
                    "text": draw(names),
                    "numbers": draw(st.lists(floats, max_size=3)),
                    "weights": draw(params()),
                    "kind": draw(tensors()),
                    "nothing": None,
                }
            )
        else:
            instr = draw(st.lists(params(), max_size=2))
            op = HardOp(inputs, instr, draw(st.lists(params(), max_size=2)), draw(points), {draw(names): 3}, 2)
            op.setCompileTarget(target)
        op.setName(draw(names))
        for key, tag in draw(tags).items():
            op.setTag(key, tag)
        op.inferResults(draw(st.lists(tensors(), min_size=1, max_size=2)))
        network.addOp(op)
        for value in op.outputs:
            value.setMType(draw(places)).setName(draw(names))
        values += op.outputs
    network.addOp(Output(draw(st.lists(st.sampled_from(values), min_size=1, max_size=3))))
    for key, tag in draw(tags).items():
        network.setTag(key, tag)
    return network


def written(network: Network) -> tuple[bytes, bytes]:
    text, raw = io.BytesIO(), io.BytesIO()
    network.dumpJson(text)
    network.dumpParams(raw)
    return text.getvalue(), raw.getvalue()


@given(networks())
@settings(max_examples=150)
def test_networks_round_trip(network: Network) -> None:
    text, raw = written(network)
    again = network_of(text, "x")
    again.loadParams(io.BytesIO(raw))
    assert again == network
    assert written(again) == (text, raw)
    assert str(again) == str(network)
    assert network.clone() == network
    assert network.view(0).toNetwork() == network
    again.validate()


@given(tensors(), tensors())
def test_equality_is_that_of_the_text(left: TensorType, right: TensorType) -> None:
    assert (left == right) == (str(left) == str(right))
    assert left.clone(9) == left


@given(repeated, axes)
def test_ratios_are_what_they_were(values: list[float], axis: int) -> None:
    array = xir.NormratioArray(values, axis)
    again = xir.NormratioArray._read(json.loads(str(array)))
    assert again == array
    assert np.array_equal(np.float32(again.data), np.float32(values))
    assert [array[index] for index in range(len(values))] == array.data


@given(st.integers(0, 60), st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60), st.booleans()), max_size=8))
def test_distributions_are_masks(count: int, marks: list[tuple[int, int, bool]]) -> None:
    distribution = MergedAxisDistr([0], count)
    mask = [True] * count
    for start, end, valid in marks:
        if start <= end <= count:
            (distribution.setValid if valid else distribution.setUnvalid)(start, end)
            mask[start:end] = [valid] * (end - start)
    assert distribution.valid_mask == mask
    assert distribution.totalValidNum() == sum(mask)
    assert [distribution.isValid(index) for index in range(count)] == mask
    covered = [value for start, end, value in distribution.allSections() for _ in range(end - start)]
    assert covered == mask
    if count:
        assert MergedAxisDistr._read(json.loads(str(distribution))) == distribution


def _mutated(draw: Any, document: Any) -> Any:
    """Return a document with one part replaced, taken out or doubled."""
    document = json.loads(json.dumps(document))
    holder, places = document, []
    while isinstance(holder, dict | list) and holder:
        key = draw(st.sampled_from(sorted(holder) if isinstance(holder, dict) else range(len(holder))))
        places.append((holder, key))
        holder = holder[key]
        if draw(st.integers(0, 3)) == 0:
            break
    parent, key = places[-1]
    other = draw(
        st.sampled_from([None, True, -1, 1 << 65, 1.5, "", "@", "@fp(", "x" * 40, [], {}, [[]], {"_type_key": "a"}])
    )
    if draw(st.booleans()) and isinstance(parent, dict):
        del parent[key]
    else:
        parent[key] = other
    return document


@given(st.data())
@settings(max_examples=400)
def test_broken_documents_are_errors(data: st.DataObject) -> None:
    document = _mutated(data.draw, every_form())
    try:
        network = network_of(json.dumps(document), "x.json")
    except Error as error:
        message = str(error)
    else:
        message = ""
    if message:
        assert message.startswith("x.json: ")
        return
    # What can be read can be looked at and written.
    json.loads(str(network))
    assert network.clone() == network
    try:
        network.validate()
    except Error:
        return


@given(st.data())
@settings(max_examples=200)
def test_broken_containers_are_errors(data: st.DataObject) -> None:
    network = small()
    text, raw = written(network)
    broken = bytearray(raw)
    for _ in range(data.draw(st.integers(1, 4))):
        # Mostly in the header and the table.
        place = data.draw(st.integers(0, 51) | st.integers(0, len(raw) - 1))
        broken[place] = data.draw(st.integers(0, 255))
    again = network_of(text, "x")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            again.loadParams(io.BytesIO(bytes(broken)))
        except Error:
            assert not any(one.hasData() for one in again.allParams())
            return
    for one in again.allParams():
        assert one.data().nbytes == one.storageBytes()


@pytest.mark.parametrize("lazy", [False, True])
def test_an_empty_file_is_no_container(tmp_path: Path, lazy: bool) -> None:
    (tmp_path / "x.raw").write_bytes(b"")
    network = small()
    network.dumpJson(io.BytesIO())
    with pytest.raises(Error, match="0 bytes"):
        (network.lazyLoadParamsFromFile if lazy else network.loadParamsFromFile)(str(tmp_path / "x.raw"))
