"""Networks in FlatBuffers form: what is written is read, an independent writer and reader agree, and what is wrong is refused."""

from __future__ import annotations

import contextlib
import json
import math
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xir_networks import document, every_form, f32, hardware, operation, small, tensor, value, weights

import triune
from triune.icraft import xir
from triune.icraft.xir import BuyiTarget, Error, Framework, Input, Network, Output, ZhugeTarget, ZhugeTarget_Chips
from triune.models import DIGITS_INT8

flatbuffers = pytest.importorskip("flatbuffers")


def read(path: Path) -> Network:
    return Network.CreateFromFlatFile(str(path))


def again(network: Network, folder: Path, validate: bool = True) -> Network:
    path = folder / "again.fb"
    network.dumpFlatToFile(str(path), True, validate)
    return read(path)


def plain(network: Network) -> Any:
    return json.loads(json.dumps(network._json()))


def same(one: Any, other: Any, where: str = "") -> None:
    """Check that two documents are the same, numbers as near as 32 bits are."""
    if isinstance(one, dict):
        assert one.keys() == other.keys(), where
        for key in one:
            same(one[key], other[key], f"{where}.{key}")
    elif isinstance(one, list):
        assert len(one) == len(other), where
        for index, (left, right) in enumerate(zip(one, other, strict=True)):
            same(left, right, f"{where}[{index}]")
    elif isinstance(one, float):
        assert math.isclose(one, other, rel_tol=1e-7), where
    else:
        assert one == other, where


def of_document(content: dict[str, Any], folder: Path) -> Network:
    path = folder / "given.json"
    path.write_text(json.dumps(content))
    return Network.CreateFromJsonFile(str(path))


def data(network: Network) -> dict[int, bytes]:
    return {params.v_id: bytes(np.asarray(params)) for params in network._params() if params.hasData()}


# ---- what is written is read


def test_every_form_of_the_format_survives(tmp_path: Path) -> None:
    content = every_form()
    del content["swap_mode"]
    network = of_document(content, tmp_path)
    found = again(network, tmp_path, validate=False)
    same(plain(network), plain(found))
    assert data(found) == {}
    # Numbers are as near as they get the first time.
    twice = again(found, tmp_path, validate=False)
    first = (tmp_path / "again.fb").read_bytes()
    twice.dumpFlatToFile(str(tmp_path / "twice.fb"), True, False)
    assert (tmp_path / "twice.fb").read_bytes() == first


@pytest.mark.parametrize("target", [BuyiTarget(), ZhugeTarget(ZhugeTarget_Chips.ZG340)])
def test_parameters_lie_in_the_same_file(tmp_path: Path, target: Any) -> None:
    for network in (small(), hardware(target)):
        found = again(network, tmp_path)
        assert found == network
        assert data(found) == data(network) != {}
        assert found.params_md5 == network.params_md5 != ""
        assert found.params_bytes == network.params_bytes > 0


@pytest.mark.parametrize("target", ["buyi", "zg330"])
def test_what_is_compiled_survives_in_every_stage(tmp_path: Path, target: str) -> None:
    triune.compile(DIGITS_INT8, target=target, format="icraft", output=tmp_path)
    networks = sorted(tmp_path.glob("*.json"))
    assert len(networks) > 3
    for path in networks:
        network = Network.CreateFromJsonFile(str(path))
        network.loadParamsFromFile(str(path.with_suffix(".raw")))
        found = again(network, tmp_path)
        same(plain(network), plain(found))
        assert data(found) == data(network)


def test_a_vendors_network_survives(tmp_path: Path, test_data: Path) -> None:
    network = Network.CreateFromJsonFile(str(test_data / "models" / "xir" / "yolov5s_plin_BY.json"))
    found = again(network, tmp_path)
    same(plain(network), plain(found))
    # Detection behind the accelerator has no table: it is there as JSON.
    assert [op.typeKey() for op in found.ops] == [op.typeKey() for op in network.ops]
    assert not any(params.hasData() for params in found._params())


def test_a_network_computes_the_same_from_either_form(tmp_path: Path) -> None:
    from triune.icraft.host_backend import HostBackend, HostDevice
    from triune.icraft.xrt import Session, Tensor

    network = small()
    given = np.random.default_rng(3).standard_normal((1, 8, 8, 3), np.float32)
    results = []
    for one in (network, again(network, tmp_path)):
        session = Session.Create([HostBackend], one.view(0), [HostDevice.Default()])
        session.apply()
        results.append([np.asarray(out) for out in session.forward([Tensor(given, xir.Layout("NHWC"))])])
    for left, right in zip(*results, strict=True):
        np.testing.assert_array_equal(left, right)


def one_of_each() -> list[tuple[Any, str]]:
    """Return operations with attributes of every kind, and the names of those."""
    source = Input(f32(1, 4, 4, 8))[0]
    line = Input(f32(1, 8))[0]
    channels = weights(8, layout="C")
    return [
        (xir.AlignAxis(source, [xir.AlignedUnit([3], [32])]), "aligned_units"),
        (xir.Argmax(source, xir.IntImm(3), True), "dim"),
        (xir.Max(source), "dim"),
        (xir.Add(source, source, [1.5], [xir.IntImm(2)]), "alpha"),
        (xir.Pad(source, [0, 0, 1, 1], xir.Mode.REFLECTION, 0.5), "value"),
        (xir.PReLU(source, channels), "alpha"),
        (xir.LayerNorm(source, [3], 1e-5, channels, None), "gamma"),
        (xir.Roll(source, [1, 2], [1, 2]), "dims"),
        (xir.Roll(source, [3], None), "dims"),
        (xir.Reshape(source, [1, 128], xir.Layout("NC")), "layout"),
        (xir.Cast(source, f32(1, 4, 4, 8)), "target_dtype"),
        (xir.Einsum([line, line], "ij,ij->i"), "equation"),
        (xir.Hardshrink(source, 0.25), "lambda_"),
        (xir.Upsample(source, 8, 12, xir.Interpolation.BILINEAR, True), "interpolation"),
        (xir.Mean(source, [1, 2], True), "dim"),
    ]


@pytest.mark.parametrize("place", range(len(one_of_each())))
def test_every_kind_of_attribute_survives(tmp_path: Path, place: int) -> None:
    op, name = one_of_each()[place]
    network = Network("kinds", Framework.ONNX, "1")
    for before in {id(one.op()): one.op() for one in op.inputs if one.op() is not None}.values():
        network.addOp(before)
    network.addOp(op)
    found = again(network, tmp_path, validate=False)
    left, right = plain(network), plain(found)
    same(left, right)
    assert name in left["ops"][-1] or name == "lambda_"
    assert str(getattr(found.ops[-1], name)) == str(getattr(op, name))


def merged(folder: Path) -> Network:
    """Return a network with an operation that was merged from another, each with instructions of its own."""
    feature_map = lambda v_id: value(v_id, tensor("@sint(8)", [1, 1, 2, 2, 32], "NCHWc32"))  # noqa: E731
    words = lambda v_id: value(v_id, tensor("@uint(64)", [2], "*"), params=True)  # noqa: E731
    more = {"compile_target": "@buyit", "params": [], "origin_ops_id": [], "device_info": {}, "layer_count": 1}
    inner = operation("icraft::xir::HardOp", 5, [], [], **more, instr=[words(10)], sub_hard_ops=[])
    outer = operation(
        "icraft::xir::HardOp", 1, [feature_map(1)], [feature_map(2)], **more, instr=[words(9)], sub_hard_ops=[inner]
    )
    ops = [operation("icraft::xir::Input", 0, [], [feature_map(1)]), outer]
    network = of_document(document([*ops, operation("icraft::xir::Output", 2, [feature_map(2)], [])]), folder)
    network.setAITarget(BuyiTarget())
    for params in network.allParams():
        params.copyData(np.full(2, params.v_id, np.uint64))
    return network


def test_what_an_operation_was_merged_from_keeps_its_data(tmp_path: Path) -> None:
    network = merged(tmp_path)
    found = again(network, tmp_path)
    assert found == network
    assert np.asarray(found.ops[1].sub_hard_ops[0].instr[0]).tolist() == [10, 10]
    network.dumpJsonToFile(str(tmp_path / "merged.json"))
    network.dumpParamsToFile(str(tmp_path / "merged.raw"))
    other = Network.CreateFromJsonFile(str(tmp_path / "merged.json"))
    other.loadParamsFromFile(str(tmp_path / "merged.raw"))
    assert data(other) == data(found) == data(network)
    # Its numbers are taken.
    found.insertOp(2, xir.Abs(found.ops[1][0]))
    assert found.ops[2][0].v_id == 11


@pytest.mark.parametrize("number", [math.inf, -math.inf])
def test_numbers_that_json_lacks_come_back(tmp_path: Path, number: float) -> None:
    network = Network("border", Framework.ONNX, "1")
    given = Input(f32(1, 4, 4, 8))
    border = xir.Pad(given[0], [0, 0, 1, 1], xir.Mode.CONSTANT, number)
    for op in (given, border, Output(border[0])):
        network.addOp(op)
    network.dumpJsonToFile(str(tmp_path / "border.json"))
    for found in (again(network, tmp_path), Network.CreateFromJsonFile(str(tmp_path / "border.json"))):
        assert found == network
        assert found.ops[1].value.value == number


# ---- an independent writer and reader


class Flat:
    """Tables by slots, as a program that `flatc` made writes them: what is its default is left out, children come first."""

    def __init__(self) -> None:
        self.builder = flatbuffers.Builder(0)

    def text(self, text: str) -> Callable[[int], None]:
        place = self.builder.CreateString(text)
        return self.part(place)

    def part(self, place: int) -> Callable[[int], None]:
        return lambda slot: self.builder.PrependUOffsetTRelativeSlot(slot, place, 0)

    def ints(self, *values: int) -> Callable[[int], None]:
        self.builder.StartVector(8, len(values), 8)
        for one in reversed(values):
            self.builder.PrependInt64(one)
        return self.part(self.builder.EndVector())

    def octets(self, values: bytes) -> Callable[[int], None]:
        return self.part(self.builder.CreateByteVector(values))

    def parts(self, *places: int) -> Callable[[int], None]:
        self.builder.StartVector(4, len(places), 4)
        for one in reversed(places):
            self.builder.PrependUOffsetTRelative(one)
        return self.part(self.builder.EndVector())

    def int64(self, number: int) -> Callable[[int], None]:
        return lambda slot: self.builder.PrependInt64Slot(slot, number, 0)

    def uint64(self, number: int) -> Callable[[int], None]:
        return lambda slot: self.builder.PrependUint64Slot(slot, number, 0)

    def uint8(self, number: int) -> Callable[[int], None]:
        return lambda slot: self.builder.PrependUint8Slot(slot, number, 0)

    def table(self, fields: dict[int, Callable[[int], None]]) -> int:
        self.builder.StartObject(max(fields, default=-1) + 1)
        for slot, field in fields.items():
            field(slot)
        return int(self.builder.EndObject())

    # ---- classes of the schema

    def layout(self, axes: str) -> int:
        names = [self.table({0: self.text(axis)}) for axis in axes]
        return self.table({0: self.octets(bytes([2] * len(names))), 1: self.parts(*names)})

    def tensor(self, shape: list[int], axes: str) -> int:
        fp32 = self.table({0: self.int64(127), 1: self.int64(-126), 2: self.uint64(24), 3: self.uint64(32)})
        layout = self.part(self.layout(axes))
        return self.table({0: self.uint8(3), 1: self.part(fp32), 2: self.ints(*shape), 3: layout})

    def value(self, v_id: int, shape: list[int], axes: str, contents: bytes | None = None) -> int:
        dtype, base = self.part(self.tensor(shape, axes)), 0 if contents is None else 1
        mem = self.part(self.table({0: self.uint64(64)}))
        fields = {
            base: self.int64(v_id),
            base + 3: self.uint8(10),
            base + 4: dtype,
            base + 5: self.uint8(3),
            base + 6: mem,
        }
        if contents is not None:
            fields[8] = self.octets(contents)
        return self.table(fields)

    def operation(self, op_id: int, inputs: list[tuple[int, int]], outputs: list[int], **more: Any) -> int:
        """Return an operation; `attributes` come before what all have."""
        attributes: dict[int, Callable[[int], None]] = more.get("attributes", {})
        base = more.get("slots", 0)
        target = self.part(self.table({}))
        kinds, places = self.octets(bytes(kind for kind, _ in inputs)), self.parts(*(place for _, place in inputs))
        made = self.octets(bytes([2] * len(outputs))), self.parts(*outputs)
        return self.table(
            {
                **attributes,
                base: self.int64(op_id),
                base + 1: self.text(f"op{op_id}"),
                base + 2: kinds,
                base + 3: places,
                base + 4: made[0],
                base + 5: made[1],
                base + 6: self.uint8(more.get("target", 1)),
                base + 7: target,
                base + 8: self.text(more.get("tags", "{}")),
            }
        )

    def network(self, kinds: bytes, ops: list[int], **more: Any) -> bytes:
        target = self.part(self.table({0: self.text("ZG330")}))
        fields = {
            0: self.text("by hand"),
            1: self.text("ONNX"),
            3: self.text(more.get("version", "3.33.1.0")),
            8: self.octets(kinds),
            9: self.parts(*ops),
            10: self.uint8(5),
            11: target,
            5: self.uint64(more.get("size", 0)),
        }
        self.builder.Finish(self.table(fields))
        return bytes(self.builder.Output())


KERNEL = np.arange(12, dtype=np.float32).tobytes()


def by_hand(**more: Any) -> bytes:
    """Return a network of one convolution."""
    flat = Flat()
    image = lambda: flat.value(1, [1, 2, 2, 3], "NHWC")  # noqa: E731 -- told again at each use, as writers do
    kernel, result = flat.value(2, [1, 1, 3, 4], "HWIO", KERNEL), lambda: flat.value(3, [1, 2, 2, 4], "NHWC")
    scales = flat.table({0: flat.int64(-1)})
    attributes = {
        0: flat.int64(1),
        1: flat.int64(1),
        6: flat.int64(1),
        7: flat.int64(1),
        8: flat.int64(1),
        9: flat.text("ZEROS"),
        10: flat.uint8(2),
        11: flat.part(scales),
    }
    bias = flat.table({})
    conv = flat.operation(
        8, [(2, image()), (1, kernel), (0, bias)], [result()], attributes=attributes, slots=12, tags='{"a": 1}'
    )
    ops = [flat.operation(7, [], [image()]), conv, flat.operation(9, [(2, result())], [])]
    return flat.network(bytes([1, 25, 2]), ops, **more)


def test_what_another_program_writes_is_read(tmp_path: Path) -> None:
    path = tmp_path / "by hand.fb"
    path.write_bytes(by_hand())
    network = read(path)
    assert (network.name, network.framework_kind, network.icraft_xir_version) == ("by hand", Framework.ONNX, "3.33.1.0")
    assert network.ai_target == ZhugeTarget(ZhugeTarget_Chips.ZG330)
    assert [op.typeKey() for op in network.ops] == [
        f"icraft::xir::{kind}Node" for kind in ("Input", "Conv2d", "Output")
    ]
    conv = network.ops[1]
    assert (conv.op_id, conv.name, conv.groups, conv.pad_top, conv.padding_mode) == (
        8,
        "op8",
        1,
        0,
        xir.PaddingMode.ZEROS,
    )
    assert str(conv.getTag("a")) == "1"
    assert [one.defined() for one in conv.inputs] == [True, True, False]
    assert str(conv.inputs[0].mtype) == '"@etm(64)"'
    assert conv.inputs[0].same_as(network.ops[0][0])
    assert np.asarray(conv.inputs[1]).tobytes() == KERNEL
    network.validate()
    image = lambda: value(1, tensor("@fp(32)", [1, 2, 2, 3], "NHWC"), "@etm(64)")  # noqa: E731
    kernel = value(2, tensor("@fp(32)", [1, 1, 3, 4], "HWIO"), "@etm(64)", params=True)
    result = value(3, tensor("@fp(32)", [1, 2, 2, 4], "NHWC"), "@etm(64)")
    whole = {"stride_width": 1, "stride_height": 1, "dilation_width": 1, "dilation_height": 1, "groups": 1}
    pads = dict.fromkeys(("pad_top", "pad_bottom", "pad_left", "pad_right"), 0)
    others = {"padding_mode": "ZEROS", "cut_scale": "@scales([axis=-1])"}
    inputs = [image(), kernel, None]
    conv_json = operation("icraft::xir::Conv2d", 8, inputs, [result], **whole, **pads, **others)
    expected = document(
        [
            {**operation("icraft::xir::Input", 7, [], [image()]), "name": "op7"},
            {**conv_json, "name": "op8", "tags": {"a": 1}},
            {**operation("icraft::xir::Output", 9, [result], []), "name": "op9"},
        ],
        name="by hand",
        framework_kind="ONNX",
        framework_version="",
        icraft_version="",
        params_md5="",
    )
    assert plain(network) == expected


def test_another_program_reads_what_is_written(tmp_path: Path) -> None:
    from flatbuffers import number_types
    from flatbuffers.table import Table

    network = small()
    path = tmp_path / "small.fb"
    network.dumpFlatToFile(str(path))
    file = bytearray(path.read_bytes())

    def field(table: Any, slot: int) -> int:
        offset = table.Offset(4 + 2 * slot)
        assert offset, f"slot {slot} is left out"
        return int(offset + table.Pos)

    def child(table: Any, slot: int) -> Any:
        return Table(file, table.Indirect(field(table, slot)))

    def text(table: Any, slot: int) -> str:
        found: bytes = table.String(field(table, slot))
        return found.decode()

    def integer(table: Any, slot: int) -> int:
        return int(table.Get(number_types.Int64Flags, field(table, slot)))

    def octet(table: Any, slot: int) -> int:
        return int(table.Get(number_types.Uint8Flags, field(table, slot)))

    def unions(table: Any, slot: int) -> list[tuple[int, Any]]:
        kinds, places = (table.Vector(table.Offset(4 + 2 * each)) for each in (slot, slot + 1))
        count = table.VectorLen(table.Offset(4 + 2 * slot))
        return [(file[kinds + one], Table(file, table.Indirect(places + 4 * one))) for one in range(count)]

    root = Table(file, int.from_bytes(file[:4], "little"))
    assert (text(root, 0), text(root, 1), text(root, 2)) == ("small", "ONNX", "1.17")
    assert text(root, 6) == network.params_md5
    ops = unions(root, 8)
    assert [kind for kind, _ in ops] == [1, 25, 76, 25, 6, 60, 23, 2]
    conv = ops[1][1]
    assert [integer(conv, slot) for slot in range(9)] == [1, 1, 1, 1, 1, 1, 1, 1, 1]
    assert text(conv, 9) == "ZEROS"
    assert octet(conv, 10) == 2
    assert integer(conv, 12) == network.ops[1].op_id
    (_, image), (params, kernel), (_, bias) = unions(conv, 14)
    assert params == 1
    assert integer(kernel, 1) == network.ops[1].inputs[1].v_id
    start, count = kernel.Vector(kernel.Offset(20)), kernel.VectorLen(kernel.Offset(20))
    assert start % 4096 == 0
    assert file[start : start + count] == bytes(np.asarray(network.ops[1].inputs[1]))
    assert octet(kernel, 4) == 10
    dtype = child(kernel, 5)
    assert octet(dtype, 0) == 3
    assert [integer(child(dtype, 1), slot) for slot in range(4)] == [127, -126, 24, 32]
    layout = child(dtype, 3)
    assert [(kind, text(axis, 0)) for kind, axis in unions(layout, 0)] == [(2, "H"), (2, "W"), (2, "I"), (2, "O")]
    # What is used twice is there once.
    assert unions(ops[3][1], 14)[0][1].Pos == image.Pos
    assert child(bias, 5).Pos != dtype.Pos
    assert root.Get(number_types.Uint64Flags, field(root, 5)) == network.params_bytes


# ---- what is wrong with a file


def refused(content: bytes, folder: Path, match: str) -> None:
    path = folder / "wrong.fb"
    path.write_bytes(content)
    with pytest.raises(Error, match=match):
        read(path)


def test_other_files_are_told_what_they_are(tmp_path: Path) -> None:
    with pytest.raises(Error, match=r"cannot read .*none\.fb: No such file"):
        read(tmp_path / "none.fb")
    refused(b"", tmp_path, r"wrong\.fb: expected a network in FlatBuffers form, got")
    refused(json.dumps(every_form()).encode(), tmp_path, "it is a network in JSON: CreateFromJsonFile reads it")
    refused(DIGITS_INT8.read_bytes(), tmp_path, "expected a network in FlatBuffers form, got an ONNX model")
    refused(
        b"\xa5ICRAFT_RAW\xa5" + bytes(8),
        tmp_path,
        r"got a file of an Icraft network's parameters: the \.json file beside",
    )
    refused(b"\x10\0\0\0" + bytes(200), tmp_path, r"FlatBuffers file: ")
    flat = Flat()
    flat.builder.Finish(flat.table({0: flat.text("another schema's")}))
    refused(bytes(flat.builder.Output()), tmp_path, "it has no icraft_xir_version: no network of Icraft is in it")
    refused(by_hand(version="4.0"), tmp_path, 'icraft_xir_version "4.0" is not known; up to 3')


def networks_of(ops: Callable[[Flat], tuple[bytes, list[int]]]) -> bytes:
    flat = Flat()
    return flat.network(*ops(flat))


@pytest.mark.parametrize(
    ("ops", "match"),
    [
        (
            lambda f: (bytes([106]), [f.operation(1, [], [])]),
            "there is no class 106 of operators; the last is 105, Where",
        ),
        (lambda f: (bytes([1, 1]), [f.operation(1, [], [])]), "ops: a vector of unions has 2 classes and 1 tables"),
        (lambda f: (bytes([0]), [f.operation(1, [], [])]), "operation at index 0 is none"),
        (lambda f: (bytes([2] * 2), [f.operation(1, [], []) for _ in "ab"]), "two operations have op_id 1"),
        (
            lambda f: (bytes([2]), [f.operation(1, [(3, f.value(1, [1], "C"))], [])]),
            r"operation 1 \(Output\): inputs\[0\]: there is no class 3 of values",
        ),
        (
            lambda f: (bytes([2]), [f.operation(1, [(2, f.value(5, [1], "C")), (2, f.value(5, [2], "C"))], [])]),
            r"inputs\[1\]: value 5: it was described before in another way",
        ),
        (
            lambda f: (
                bytes([2]),
                [f.operation(1, [(1, f.value(5, [1], "C", b"abcd")), (1, f.value(5, [1], "C", b"abce"))], [])],
            ),
            "value 5: it was described before with other data",
        ),
        (
            lambda f: (bytes([2]), [f.operation(1, [(1, f.value(5, [2], "C", b"abcd"))], [])]),
            "it has 4 bytes, its type has 8",
        ),
        (lambda f: (bytes([2]), [f.operation(1, [(2, f.value(5, [-5], "C"))], [])]), "shape has the extent -5"),
        (
            lambda f: (bytes([2]), [f.operation(1, [(2, f.value(5, [1], "Q"))], [])]),
            "dtype: layout: .*'Q' is not an axis",
        ),
        (lambda f: (bytes([2]), [f.operation(1, [], [], target=9)]), "compile_target: there is no class 9 of targets"),
        (
            lambda f: (bytes([2]), [f.operation(1, [], [], tags="{")]),
            r"operation 1 \(Output\): tags: its text is no JSON",
        ),
        (lambda f: (bytes([2]), [f.operation(1, [], [], tags="[1]")]), "tags: its text is no JSON object"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, ops: Any, match: str) -> None:
    refused(networks_of(ops), tmp_path, match)


def test_data_may_be_repeated(tmp_path: Path) -> None:
    flat = Flat()
    op = flat.operation(1, [(1, flat.value(5, [1], "C", b"abcd")) for _ in range(3)], [])
    path = tmp_path / "repeated.fb"
    path.write_bytes(flat.network(bytes([2]), [op]))
    network = read(path)
    assert data(network) == {5: b"abcd"}
    assert len({id(one) for one in network.ops[0].inputs}) == 1


def test_operations_inside_of_each_other_have_an_end(tmp_path: Path) -> None:
    def nested(levels: int) -> bytes:
        flat = Flat()
        op = flat.operation(0, [], [], slots=6)
        for level in range(levels):
            op = flat.operation(level + 1, [], [], slots=6, attributes={5: flat.parts(op)})
        return flat.network(bytes([42]), [op])

    refused(nested(20_000), tmp_path, "operations lie inside of each other more than 32 deep")
    path = tmp_path / "few.fb"
    path.write_bytes(nested(2))
    assert len(read(path).ops[0].sub_hard_ops[0].sub_hard_ops) == 1


def test_a_file_that_multiplies_itself_is_refused(tmp_path: Path) -> None:
    flat = Flat()
    one = flat.value(5, [1], "C")
    inputs = flat.octets(bytes([2] * 4000)), flat.parts(*[one] * 4000)
    base = {2: inputs[0], 3: inputs[1]}
    places = [flat.table({0: flat.int64(number), **base}) for number in range(4000)]
    refused(flat.network(bytes([2] * 4000), places), tmp_path, "refer to each other so often")


def test_cut_and_changed_files_are_errors_or_other_networks(tmp_path: Path) -> None:
    content = by_hand()
    path = tmp_path / "changed.fb"

    def load(changed: bytes) -> bool:
        path.write_bytes(changed)
        try:
            network = read(path)
        except Error:
            return False
        with contextlib.suppress(Error):
            network.dumpFlatToFile(str(path), True, False)
        return True

    assert load(content)
    assert not any(load(content[:length]) for length in range(0, len(content) - 8, 7))
    random = np.random.default_rng(5)
    for _ in range(1500):
        changed = bytearray(content)
        for place in random.integers(0, len(content), random.integers(1, 4)):
            changed[place] = random.choice([0, 1, 2, 0x7F, 0x80, 0xFF, random.integers(256)])
        load(bytes(changed))


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_are_an_error(content: bytes) -> None:
    from triune import _native

    with pytest.raises(_native.Error):
        _native.xir_read_flat(content)


# ---- what the form cannot hold


def test_what_has_no_field_is_refused(tmp_path: Path) -> None:
    network = of_document(every_form(), tmp_path)
    path = tmp_path / "kept.fb"
    path.write_bytes(b"before")
    with pytest.raises(Error, match="FlatBuffers file: the network has 'swap_mode', for which there is no field"):
        network.dumpFlatToFile(str(path), True, False)
    source = Input(f32(1, 4))
    added = Network("added", Framework.ONNX, "1")
    added.addOp(source)
    relu = xir.ReLU(source[0])
    added.addOp(relu)
    added.addOp(Output(relu[0]))
    relu._attributes["knee"] = 3
    with pytest.raises(
        Error, match=r"operation 1 \(icraft::xir::ReLU\): its class has no attribute 'knee' in this form"
    ):
        added.dumpFlatToFile(str(path))
    network = small()
    network.removeOpById(7)
    with pytest.raises(Error, match="last operation is not an Output"):
        network.dumpFlatToFile(str(path))
    with pytest.raises(Error, match=r"cannot write .*nowhere/x\.fb: there is no folder"):
        small().dumpFlatToFile(str(tmp_path / "nowhere" / "x.fb"))
    assert path.read_bytes() == b"before"


LITTLE_MEMORY = """
import resource, sys
from xir_networks import small
from triune.icraft.xir import MergedAxisDistr

network = small()
for type_ in [value.tensorType() for op in network.ops for value in op.outputs]:
    type_.setShape([1 << 24, *list(type_.shape)[1:]])
    type_.setMergedDistrs([MergedAxisDistr([0], 1 << 24)])
with open("/proc/self/status") as file:
    used = next(int(line.split()[1]) << 10 for line in file if line.startswith("VmSize:"))
resource.setrlimit(resource.RLIMIT_AS, (used + (200 << 20), -1))
try:
    network.dumpFlatToFile(sys.argv[1])
except MemoryError as error:
    print(error)
"""


def test_masks_that_no_memory_holds_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "network.fb"
    command = [sys.executable, "-c", LITTLE_MEMORY, str(path)]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.match(r"\d+ bytes of memory are needed", done.stdout)
    assert not path.exists()
