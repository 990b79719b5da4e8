"""Files: every form of the format, round trips, the RAW container, lazy loading, and what is wrong with a file."""

from __future__ import annotations

import gc
import hashlib
import io
import itertools
import json
import os
import struct
import threading
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xir_networks import document, every_form, f32, hardware, operation, small, tensor, value, weights

from triune.icraft.xir import (
    BuyiTarget,
    CalibratedType,
    Error,
    ExternalMem,
    FloatType,
    Framework,
    HardOp,
    Input,
    IntegerType,
    Layout,
    Network,
    Output,
    Params,
    TensorType,
    XirWarning,
    ZhugeTarget,
)
from triune.models import DIGITS_F32


def stored(network: Network, folder: Path, name: str = "net") -> tuple[Path, Path]:
    """Write a network's files."""
    paths = folder / f"{name}.json", folder / f"{name}.raw"
    network.dumpJsonToFile(paths[0])  # type: ignore[arg-type]
    network.dumpParamsToFile(paths[1])  # type: ignore[arg-type]
    return paths


def loaded(paths: tuple[Path, Path], lazy: bool = False) -> Network:
    network = Network.CreateFromJsonFile(str(paths[0]))
    (network.lazyLoadParamsFromFile if lazy else network.loadParamsFromFile)(str(paths[1]))
    return network


def written(folder: Path, content: Any) -> str:
    path = folder / "given.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


# ---- JSON


def test_every_form_is_read_and_written_back(tmp_path: Path) -> None:
    given = every_form()
    network = Network.CreateFromJsonFile(written(tmp_path, given))
    assert json.loads(str(network)) == given
    stream = io.BytesIO()
    network.dumpJson(stream)
    assert json.loads(stream.getvalue()) == given
    assert stream.getvalue().startswith(
        b'{\n    "_type_key": "icraft::xir::Network",\n    "ai_target": "@zhuget(330)",\n'
    )
    assert network.clone() == network
    assert json.loads(str(network.clone())) == given


def test_a_value_that_is_described_twice_is_one(tmp_path: Path) -> None:
    network = Network.CreateFromJsonFile(written(tmp_path, every_form()))
    custom, hard, relu = network.ops[1], network.ops[2], network.ops[3]
    assert custom.inputs[0] is network.ops[0][0]
    assert relu.inputs[0] is hard[0]
    assert hard[0].op() is hard
    assert network.getUsesNumByValueId(1) == 1
    assert isinstance(hard, HardOp)
    assert (hard.layer_count, hard.origin_ops_id, hard.device_info) == (1, [299, 300], {"io": 3})
    assert hard.instr[0].storageBytes() == 2440 * 8
    assert hard.name == "icraft::xir::Conv2dNode"
    assert hard.sub_hard_ops[0].op_id == 7
    assert custom.getAttr("pre_mean_data") == [-128.0, -128.5]
    assert custom.getAttr("nested") == {"a": [1, "b", None]}
    assert not custom.getTag("none").defined()  # type: ignore[union-attr]
    assert relu.getAttr("max_value") == float("inf")
    assert isinstance(network.getValueById(4).tensorType().element_dtype, CalibratedType)
    assert network.getValueById(1).mtype.typeKey() == "icraft::xir::OnChipMemNode"
    assert network.getValueById(2).mtype == ExternalMem(7336448)
    assert network.ai_target == ZhugeTarget()


def test_the_real_network_is_the_same_text(test_data: Path) -> None:
    path = test_data / "models" / "xir" / "yolov5s_plin_BY.json"
    if not path.exists():
        pytest.skip(f"no {path}")
    network = Network.CreateFromJsonFile(str(path))
    assert str(network) == path.read_text().strip()
    assert network.ai_target == BuyiTarget()
    assert len(network.ops) == 89
    hard = [op for op in network.ops if op.type_is(HardOp)]
    assert (len(hard), sum(HardOp(op).layer_count for op in hard)) == (85, 72)
    params = network.allParams()
    assert network.params_bytes - sum(one.storageBytes() for one in params) == 16 + 12 * len(params) == 1756
    ratio = network.ops[2][0].tensorType().element_dtype.getNormratio()
    assert ratio is not None
    assert ratio.data[0] == np.float32(0.21537238)
    network.validate()
    stream = io.BytesIO()
    network.dumpJson(stream)
    assert json.loads(stream.getvalue()) == json.loads(path.read_text()), "without data, size and digest are kept"


def test_files_of_before_3_7_do_not_say_their_target(tmp_path: Path) -> None:
    given = every_form()
    del given["ai_target"]
    network = Network.CreateFromJsonFile(written(tmp_path, given))
    assert network.ai_target == BuyiTarget()
    assert json.loads(str(network)) == given


def test_former_names_are_read(tmp_path: Path) -> None:
    kind = tensor("@fp(32)", [1, 4, 4, 2], "NHWC")
    ops = [
        operation("icraft::xir::Input", 0, [], [value(0, kind)]),
        operation("icraft::xir::Relu", 1, [value(0, kind)], [value(1, kind)], alpha=0),
        operation("icraft::xir::Output", 2, [value(1, kind)], []),
    ]
    network = Network.CreateFromJsonFile(written(tmp_path, document(ops)))
    assert network.ops[1].typeKey() == "icraft::xir::ReLUNode"
    assert network.ops[1].getAttr("alpha") == 0.0
    assert network.ops[1].getAttr("max_value") == float("inf"), "an attribute that a file lacks has its default"


HOSTILE: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "no object": (lambda d: [d], r"given\.json: the network: an object is needed"),
    "no network": (lambda d: {**d, "_type_key": "icraft::xir::Value"}, "_type_key is 'icraft::xir::Value'"),
    "a later version": (lambda d: {**d, "icraft_xir_version": "4.0.1"}, "icraft_xir_version '4.0.1' is not known"),
    "no version": (lambda d: {**d, "icraft_xir_version": "x"}, "icraft_xir_version 'x' is not known"),
    "no operations": (lambda d: {**d, "ops": {}}, r"a list is needed, not \{\}"),
    "target": (lambda d: {**d, "ai_target": "@nothingt"}, "target: .*nothingt"),
    "size": (lambda d: {**d, "params_bytes": -1}, "params_bytes: -1 is no size"),
    "size's type": (lambda d: {**d, "params_bytes": "1"}, "params_bytes: '1' is no whole number"),
    "operation": (lambda d: {**d, "ops": [3]}, "operation at place 0: an object is needed, not 3"),
    "no number": (lambda d: {**d, "ops": [{**d["ops"][0], "op_id": None}]}, "op_id is missing"),
    "a number twice": (
        lambda d: {**d, "ops": [d["ops"][0], {**d["ops"][1], "op_id": 0}]},
        "operation 0 is there twice",
    ),
    "inputs": (
        lambda d: {**d, "ops": [{**d["ops"][0], "inputs": 1}]},
        r"operation 0 \(icraft::xir::Input\): a list is needed",
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_is_wrong_with_a_network(tmp_path: Path, case: str) -> None:
    change, message = HOSTILE[case]
    with pytest.raises(Error, match=message):
        Network.CreateFromJsonFile(written(tmp_path, change(every_form())))


def in_relu(**changes: Any) -> dict[str, Any]:
    """Return a document whose ReLU, or its output, has some other members."""
    kind = {**tensor("@fp(32)", [1, 4, 4, 2], "NHWC"), **changes.pop("dtype", {})}
    made = {**value(1, kind), **changes.pop("value", {})}
    given = value(0, tensor("@fp(32)", [1, 4, 4, 2], "NHWC"))
    return document(
        [
            operation("icraft::xir::Input", 0, [], [given]),
            {**operation("icraft::xir::ReLU", 5, [given], [made]), **changes},
        ]
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dtype": {"layout": "@layout(NHQC)"}}, r"operation 5 \(icraft::xir::ReLU\), output 0, value 1, dtype: .*Q"),
        ({"dtype": {"layout": 3}}, "dtype: a string is needed, not 3"),
        ({"dtype": {"shape": [1.5]}}, r"shape: \[1.5\] are no whole numbers"),
        ({"dtype": {"shape": [True]}}, "are no whole numbers"),
        ({"dtype": {"shape": [1 << 70]}}, "does not fit 64 bits"),
        ({"dtype": {"element_dtype": "@fp(33)"}}, "fp of 33"),
        ({"dtype": {"element_dtype": {"_type_key": "icraft::xir::Odd"}}}, "_type_key 'icraft::xir::Odd' is none of"),
        ({"dtype": {"element_dtype": {"_type_key": "icraft::xir::QuantizedType"}}}, "a string is needed, not None"),
        ({"dtype": {"merged_distrs": ["@merged_distr([1]:{v:[5, 2)})"]}}, "dtype: "),
        ({"dtype": {"_type_key": "x"}}, "_type_key is 'x'"),
        ({"value": {"mtype": "@ocm(-4)"}}, "mtype: "),
        ({"value": {"mtype": "@chunk(70000@0)"}}, "mtype: "),
        ({"value": {"v_id": "7"}}, "v_id: '7' is no whole number"),
        ({"value": {"v_id": 1 << 64}}, "does not fit 64 bits"),
        ({"value": {"_type_key": "icraft::xir::Other"}}, "value 1: _type_key is 'icraft::xir::Other'"),
        ({"value": {"tags": []}}, r"an object is needed, not \[\]"),
        ({"value": {"v_id": 0}}, "value 0 is described in two ways|value 0 is something else's already"),
        ({"value": {"v_id": 0, "name": "other"}}, "value 0 is described in two ways: name differ"),
        ({"inputs": [3]}, "input 0: an object is needed, not 3"),
        ({"alpha": "much"}, "attribute alpha: a number is needed, not 'much'"),
        ({"alpha": [1]}, "attribute alpha: "),
        ({"alpha": 10**400}, "attribute alpha: a number is beyond what a float can hold"),
        ({"compile_target": "@zhuget(999)"}, "target: "),
    ],
)
def test_what_is_wrong_with_an_operation(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(Error, match=message) as caught:
        Network.CreateFromJsonFile(written(tmp_path, in_relu(**changes)))
    assert str(caught.value).startswith(f"{tmp_path}/given.json: operation 5 (icraft::xir::ReLU), ")


@pytest.mark.parametrize(
    "text", ["", "{", "[" * 200000, '{"a":' * 200000, "NaN", '{"_type_key": NaN}', '"\\ud800"', "{}\0"]
)
def test_what_is_no_json(tmp_path: Path, text: str) -> None:
    with pytest.raises(Error, match=r"given\.json: "):
        Network.CreateFromJsonFile(written(tmp_path, text))


def test_what_is_no_utf8(tmp_path: Path) -> None:
    path = tmp_path / "given.json"
    path.write_bytes(b'{"a": "\xff\xfe\xfd"}')
    with pytest.raises(Error, match=r"expected a network in JSON, got an ONNX model: triune run"):
        Network.CreateFromJsonFile(str(DIGITS_F32))
    with pytest.raises(Error, match=r"given\.json: it is not JSON"):
        Network.CreateFromJsonFile(str(path))


def test_files_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    with pytest.raises(Error, match=r"cannot read .*none\.json: No such file"):
        Network.CreateFromJsonFile(str(tmp_path / "none.json"))
    network = small()
    for load in (network.loadParamsFromFile, network.lazyLoadParamsFromFile):
        with pytest.raises(Error, match=r"cannot read .*none\.raw: No such file"):
            load(str(tmp_path / "none.raw"))
        with pytest.raises(Error, match="it is a folder, not a plain file"):
            load(str(tmp_path))
    for dump in (network.dumpJsonToFile, network.dumpParamsToFile):
        with pytest.raises(Error, match=r"cannot write .*nowhere/x: there is no folder .*nowhere"):
            dump(str(tmp_path / "nowhere" / "x"))


def test_an_attribute_whose_name_is_none_in_python_has_the_vendors_in_files(tmp_path: Path) -> None:
    given, made = value(1, tensor("@fp(32)", [1, 4], "NC")), value(2, tensor("@fp(32)", [1, 4], "NC"))
    ends = operation("icraft::xir::Input", 0, [], [given]), operation("icraft::xir::Output", 2, [made], [])
    for key in ("lambda", "lambda_"):
        shrink = operation("icraft::xir::Hardshrink", 1, [given], [made], **{key: 0.25})
        network = Network.CreateFromJsonFile(written(tmp_path, document([ends[0], shrink, ends[1]])))
        assert network.ops[1].lambda_ == 0.25
        network.dumpJsonToFile(str(tmp_path / "again.json"))
        found = json.loads((tmp_path / "again.json").read_text())["ops"][1]
        assert found["lambda"] == 0.25
        assert "lambda_" not in found


def test_only_valid_networks_are_written_unless_asked(tmp_path: Path) -> None:
    network = small()
    network.removeOpById(7)
    path = tmp_path / "x.json"
    path.write_text("before")
    with pytest.raises(Error, match="last operation is not an Output"):
        network.dumpJsonToFile(str(path))
    assert path.read_text() == "before"
    network.dumpJsonToFile(str(path), validate=False)
    for params in network.allParams():
        params.clearData()
    assert Network.CreateFromJsonFile(str(path)) == network
    assert os.listdir(tmp_path) == ["x.json"]
    assert path.stat().st_mode & 0o777 == 0o666 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


# ---- RAW


@pytest.mark.parametrize("lazy", [False, True])
def test_round_trip(tmp_path: Path, lazy: bool) -> None:
    network = small()
    network.setTag("bgr_order", True)
    paths = stored(network, tmp_path)
    again = loaded(paths, lazy)
    assert again == network
    assert (again.params_bytes, again.params_md5) == (network.params_bytes, network.params_md5)
    assert again.params_bytes == paths[1].stat().st_size
    assert str(again) == str(network)
    twice = stored(again, tmp_path, "again")
    assert [path.read_bytes() for path in twice] == [path.read_bytes() for path in paths]
    params = again.allParams()
    assert [one.isLazyLoaded() for one in params] == [lazy] * 3
    params[0].load()
    assert not params[0].isLazyLoaded()
    assert params[0] == network.allParams()[0]
    params[1].setLazy(True)
    assert params[1].isLazyLoaded()


def test_the_container_is_as_documented(tmp_path: Path) -> None:
    network = Network("one", Framework.ONNX, "")
    given = Input(f32(1))
    network.addOp(given)
    data = np.array([1.5, -2.0], np.float32)
    empty = Params(np.zeros(0, np.uint64))
    network.addOp(HardOp([given[0]], [empty], [Params(data)], [], {}).setCompileTarget(BuyiTarget()))
    network.ops[1].inferResults(f32(1))
    network.addOp(Output(network.ops[1][0]))
    stream = io.BytesIO()
    network.dumpParams(stream)
    raw = stream.getvalue()
    assert raw[:12] == b"\xa5ICRAFT_RAW\xa5"
    first, second = (params.v_id for params in network.allParams())
    assert struct.unpack("<IIQIQ", raw[12:40]) == (2, first, 40, second, 40)
    assert raw[40:] == data.tobytes()
    stream = io.BytesIO()
    network.dumpJson(stream)
    assert network.params_bytes == len(raw)
    fresh = Network.CreateFromJsonFile(written(tmp_path, stream.getvalue().decode()))
    fresh.loadParams(io.BytesIO(raw))
    assert fresh == network
    assert fresh.allParams()[0].data().shape == (0,)


@pytest.mark.parametrize("lazy", [False, True])
def test_parameters_keep_the_order_of_their_file(tmp_path: Path, lazy: bool) -> None:
    network = hardware(BuyiTarget())
    paths = stored(network, tmp_path)
    raw = paths[1].read_bytes()
    (count,) = struct.unpack_from("<I", raw, 12)
    numbers, begins = zip(*struct.iter_unpack("<IQ", raw[16 : 16 + 12 * count]), strict=True)
    data = [raw[begin:end] for begin, end in itertools.pairwise((*begins, len(raw)))]
    other, begin = raw[:16], begins[0]
    for number, piece in zip(reversed(numbers), reversed(data), strict=True):
        other, begin = other + struct.pack("<IQ", number, begin), begin + len(piece)
    other += b"".join(reversed(data))
    assert other != raw
    text = json.loads(paths[0].read_text())
    text["params_md5"] = hashlib.md5(other).hexdigest()
    paths[0].write_text(json.dumps(text, indent=4, sort_keys=True))
    paths[1].write_bytes(other)
    again = stored(loaded(paths, lazy), tmp_path, "again")
    assert again[1].read_bytes() == other
    assert json.loads(again[0].read_text()) == text


def test_a_network_without_parameters(tmp_path: Path) -> None:
    network = Network("none", Framework.ONNX, "")
    network.addOp(Input(f32(1)))
    network.addOp(Output(network.ops[0][0]))
    paths = stored(network, tmp_path)
    assert paths[1].read_bytes() == b""
    assert (network.params_bytes, network.params_md5) == (0, "d41d8cd98f00b204e9800998ecf8427e")
    assert loaded(paths) == loaded(paths, True) == network


def test_parameters_are_stored_once_and_may_be_left_out(tmp_path: Path) -> None:
    network = small()
    joined = network.ops[6]
    shared = network.ops[1].inputs[1]
    joined.addInput(shared)
    absent = Params("absent", f32(3)).setAllowNoData(True)
    joined.addInput(absent)
    paths = stored(network, tmp_path)
    again = loaded(paths)
    assert again == network
    assert not again.getValueById(absent.v_id).hasData()  # type: ignore[attr-defined]
    assert len(network.allParams()) == 4
    missing = Params("missing", f32(3))
    joined.addInput(missing)
    for dump in (lambda: network.dumpParams(io.BytesIO()), lambda: network.dumpJson(io.BytesIO())):
        with pytest.raises(Error, match=rf"parameters {missing.v_id} \(missing\) has no data to write"):
            dump()


def test_a_wrong_digest_is_a_warning(tmp_path: Path) -> None:
    paths = stored(small(), tmp_path)
    document = json.loads(paths[0].read_text())
    paths[0].write_text(json.dumps({**document, "params_md5": "0" * 32}))
    network = Network.CreateFromJsonFile(str(paths[0]))
    with pytest.warns(XirWarning, match="its MD5 is"):
        network.loadParamsFromFile(str(paths[1]))
    network.loadParamsFromFile(str(paths[1]), calc_md5=False)
    network.lazyLoadParamsFromFile(str(paths[1]))
    with pytest.warns(XirWarning, match=r"net\.raw: its MD5 is"):
        network.allParams()[0].data()
    network.allParams()[1].data()
    network.lazyLoadParamsFromFile(str(paths[1]), calc_md5=False)
    network.allParams()[0].data()
    with open(paths[1], "rb") as stream, pytest.warns(XirWarning, match="the stream"):
        network.loadParams(stream)


def test_digests_can_be_left_out(tmp_path: Path) -> None:
    network = small()
    network.dumpJsonToFile(str(tmp_path / "x.json"), calc_md5=False)
    network.dumpParamsToFile(str(tmp_path / "x.raw"))
    assert network.params_md5 == ""
    assert loaded((tmp_path / "x.json", tmp_path / "x.raw")) == network


BROKEN: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "cut": (lambda raw: raw[:-1], "params_bytes"),
    "longer": (lambda raw: raw + b"\0", "params_bytes"),
    "empty": (lambda raw: b"", "0 bytes, network 'small' says params_bytes"),
    "magic": (lambda raw: b"\0" + raw[1:], r"net\.raw: "),
    "count": (lambda raw: raw[:12] + b"\xff\xff\xff\xff" + raw[16:], r"net\.raw: "),
    "fewer": (lambda raw: raw[:12] + struct.pack("<I", 1) + raw[16:], r"net\.raw: "),
    "offset": (lambda raw: raw[:20] + struct.pack("<Q", 1 << 63) + raw[28:], r"net\.raw: "),
    "backwards": (lambda raw: raw[:20] + struct.pack("<Q", 0) + raw[28:], r"net\.raw: "),
    "another": (lambda raw: raw[:16] + struct.pack("<I", 77) + raw[20:], r"parameters 1 .* is not in it"),
    "twice": (lambda raw: raw[:28] + raw[16:20] + raw[32:], r"net\.raw: "),
    "shared": (lambda raw: raw[:32] + raw[20:28] + raw[40:], r"parameters 1 \(weights\) has 448 bytes in it"),
    "moved": (
        lambda raw: raw[:32] + struct.pack("<Q", struct.unpack("<Q", raw[32:40])[0] + 4) + raw[40:],
        r"parameters 1 \(weights\) has 436 bytes in it, its type .* takes 432",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
@pytest.mark.parametrize("lazy", [False, True])
def test_what_is_wrong_with_parameters(tmp_path: Path, case: str, lazy: bool) -> None:
    change, message = BROKEN[case]
    paths = stored(small(), tmp_path)
    paths[1].write_bytes(change(paths[1].read_bytes()))
    network = Network.CreateFromJsonFile(str(paths[0]))
    with pytest.raises(Error, match=message):
        (network.lazyLoadParamsFromFile if lazy else network.loadParamsFromFile)(str(paths[1]))
    assert not any(params.hasData() for params in network.allParams()), "nothing is half loaded"


def test_parameters_of_another_network(tmp_path: Path) -> None:
    paths = stored(small(), tmp_path)
    other = small()
    other.ops[1].removeInputById(other.ops[1].inputs[2].v_id)
    other.dumpJson(io.BytesIO())
    other._params_bytes = paths[1].stat().st_size
    with pytest.raises(Error, match=r"it has parameters that network 'small' has not: \[2\]"):
        other.loadParamsFromFile(str(paths[1]), False)


@pytest.mark.parametrize("lazy", [False, True])
def test_bytes_that_nobody_has(tmp_path: Path, lazy: bool) -> None:
    network = Network("empty", Framework.ONNX, "")
    network.addOp(Input(f32(1)))
    empty = Params(np.zeros(0, np.uint64))
    network.addOp(HardOp([network.ops[0][0]], empty, [], [], {}))
    path = tmp_path / "x.raw"
    path.write_bytes(b"\xa5ICRAFT_RAW\xa5" + struct.pack("<IIQ", 1, empty.v_id, 28) + bytes(8))
    network._params_bytes = 36
    with pytest.raises(Error, match=r"36 bytes, the table and the parameters of network 'empty' are 28"):
        (network.lazyLoadParamsFromFile if lazy else network.loadParamsFromFile)(str(path), False)


def test_a_file_that_is_still_needed_can_be_written_over(tmp_path: Path) -> None:
    network = small()
    paths = stored(network, tmp_path)
    again = loaded(paths, lazy=True)
    again.ops[3].removeInputById(again.ops[3].inputs[1].v_id)
    again.ops[3].addInput(weights(1, 1, 3, 4, seed=9))
    stored(again, tmp_path)
    assert loaded(paths) == again
    assert loaded(paths).ops[1] == network.ops[1]


def test_a_file_that_was_cut_is_an_error(tmp_path: Path) -> None:
    paths = stored(small(), tmp_path)
    network = loaded(paths, lazy=True)
    had = network.allParams()[1].data()
    before = had.copy()
    os.truncate(paths[1], 60)
    with pytest.raises(Error, match=r"net\.raw: it was cut to 60 bytes after it was loaded"):
        network.allParams()[0].data()
    assert (had == before).all(), "what was read stays, though it lay behind the end"
    assert network.allParams()[1].data() is not None, "and is not read again"


def test_a_file_that_was_changed_is_an_error(tmp_path: Path) -> None:
    paths = stored(small(), tmp_path)
    network = loaded(paths, lazy=True)
    with open(paths[1], "r+b") as file:
        file.seek(-1, io.SEEK_END)
        file.write(b"\x55")
    os.utime(paths[1], ns=(0, 0))
    with pytest.raises(Error, match=r"net\.raw: it was changed after it was loaded"):
        network.allParams()[0].data()


def test_data_that_nobody_has_are_let_go(tmp_path: Path) -> None:
    network = loaded(stored(small(), tmp_path), lazy=True)
    params = network.allParams()[0]
    data = params.data()
    assert np.shares_memory(params.data(), data), "read once while somebody has them"
    seen = weakref.ref(data.base if data.base is not None else data)
    del data
    gc.collect()
    assert seen() is None
    assert params.isLazyLoaded()


def test_data_outlive_their_network(tmp_path: Path) -> None:
    paths = stored(small(), tmp_path)
    data = loaded(paths, lazy=True).allParams()[0].data()
    expected = small().allParams()[0].data()
    gc.collect()
    assert np.array_equal(data, expected)
    with pytest.raises(ValueError, match="read-only"):
        data[0] = 1


def test_threads_that_touch_data_at_once_check_them_once(tmp_path: Path) -> None:
    paths = stored(small(), tmp_path)
    paths[0].write_text(json.dumps({**json.loads(paths[0].read_text()), "params_md5": "0" * 32}))
    network = loaded(paths, lazy=True)
    start = threading.Barrier(4)

    def touch() -> None:
        start.wait()
        network.allParams()[0].data()

    threads = [threading.Thread(target=touch) for _ in range(4)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [warning.category for warning in caught] == [XirWarning]


def test_loading_lazily_does_not_read_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a file with a hole of 8 GB the table is read, and later what is asked for."""
    network = Network("large", Framework.ONNX, "")
    network.addOp(Input(f32(1)))
    size = 1 << 33
    large = Params("large", TensorType(f32(1).element_dtype, [size // 4], Layout("*")))
    network.addOp(HardOp([network.ops[0][0]], large, [], [], {}).setCompileTarget(BuyiTarget()))
    network.ops[1].inferResults(f32(1))
    little = Params("little", f32(4))
    network.addOp(HardOp([network.ops[1][0]], little, [], [], {}).setCompileTarget(BuyiTarget()))
    network.ops[2].inferResults(f32(1))
    network.addOp(Output(network.ops[2][0]))
    path = tmp_path / "large.raw"
    with open(path, "wb") as file:
        file.write(b"\xa5ICRAFT_RAW\xa5" + struct.pack("<IIQIQ", 2, large.v_id, 40, little.v_id, 40 + size))
        file.truncate(40 + size)
        file.seek(0, io.SEEK_END)
        file.write(np.arange(4, dtype=np.float32).tobytes())
    network._params_bytes = 56 + size
    read = 0
    preadv = os.preadv

    def counted(*arguments: Any) -> int:
        nonlocal read
        count = preadv(*arguments)
        read += count
        return count

    monkeypatch.setattr(os, "preadv", counted)
    network.lazyLoadParamsFromFile(str(path), calc_md5=False)
    assert read < 100
    assert little.data().tolist() == [0, 1, 2, 3]
    assert read < 200


# ---- parameters by themselves


def test_parameters_of_buffers() -> None:
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    params = Params(array, "p", Layout("NC"), ExternalMem(64))
    assert params.tensorType().shape == [2, 3]
    assert params.tensorType().element_dtype.isSInt16()
    assert (params.name, params.mtype, params.storageBytes(), params.storageBits()) == ("p", ExternalMem(64), 12, 96)
    array[0, 0] = 99
    assert np.asarray(params)[0, 0] == 0, "copied"
    assert np.array_equal(np.array(params, np.float32), params.data().astype(np.float32))
    assert Params(b"abc").tensorType() == TensorType(IntegerType.UInt8(), [3], Layout("*"))
    assert Params(np.float32([1, 2])[::-1]).data().tolist() == [2.0, 1.0]
    assert Params(memoryview(b"abc")).data().tolist() == [97, 98, 99]
    with pytest.raises(Error, match="no type of networks is like numpy's complex64"):
        Params(np.zeros(1, np.complex64))
    with pytest.raises(Error, match="like numpy's >f4"):
        Params(np.zeros(1, ">f4"))
    with pytest.raises(TypeError, match="name: a str is needed"):
        Params(3.5, 4)  # type: ignore[call-overload]
    copy = params.clone()
    assert copy == params
    assert not params.clearData().hasData()
    assert copy != params
    with pytest.raises(Error, match="were not loaded"):
        params.data()


def test_numbers_that_json_has_not_are_strings(tmp_path: Path) -> None:
    given = every_form()
    given["swap_mode"] = {"high": "inf"}
    given["ops"][1]["pre_mean_data"] = ["inf", "nan"]
    text = json.dumps(given).replace('"high": "inf"', '"high": 1e999')
    network = Network.CreateFromJsonFile(written(tmp_path, text))
    assert json.loads(str(network)) == given


def test_names_that_are_no_text(tmp_path: Path) -> None:
    text = json.dumps(every_form()).replace('"name": "grammar"', '"name": "\\ud800"')
    network = Network.CreateFromJsonFile(written(tmp_path, text))
    with pytest.raises(Error, match="a name or tag is no text"):
        network.dumpJson(io.BytesIO())


def test_bfloat16_is_rounded_to_even() -> None:
    numbers = [1.0, -2.5, 1.00390625, 1.01171875, 3.39e38, float("inf"), float("nan"), 0.0]
    params = Params(TensorType(FloatType.BF16(), [len(numbers)], Layout("*"))).fill(numbers.__getitem__)
    bits = [0x3F80, 0xC020, 0x3F80, 0x3F82, 0x7F7F, 0x7F80, 0x7FC0, 0]
    assert params.data().tolist() == bits
    assert params.storageBytes() == 2 * len(numbers)
    with pytest.raises(Error, match=r"numbers of fpe6m9\(16\) are not made here"):
        Params(TensorType(FloatType.FPE6M9(), [1], Layout("*"))).fill(float)


def test_parameters_that_are_filled() -> None:
    params = Params(f32(2, 3)).fill(float)
    assert params.data().tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    params.copyData(np.zeros(6, np.float32))
    assert params.data().sum() == 0
    with pytest.raises(Error, match=r"4 bytes given, its type .* takes 24"):
        params.copyData(b"1234")
    small_type = TensorType(f32(1).element_dtype, [-1], Layout("*"))
    with pytest.raises(Error, match="not known yet"):
        Params(small_type).fill(float)


def test_hardware_networks_round_trip(tmp_path: Path) -> None:
    for target in (BuyiTarget(), ZhugeTarget()):
        network = hardware(target)
        again = loaded(stored(network, tmp_path))
        assert again == network
        hard = HardOp(again.ops[1])
        assert hard.instr[0].data().tolist() == list(range(8))
        assert hard.paramsAttrs() == [*hard.instr, *hard.params]
        assert hard.getAttr("device_info") == {"layer": 1}
