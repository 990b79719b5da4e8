"""Logic beside accelerators: `ImageMake`, `DetPost` and the NMS, on hosts and boards, and in what is compiled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from beside import load
from onnx import helper, numpy_helper

import triune
from triune.batch import Preprocess
from triune.errors import ArgumentError
from triune.icraft import xir
from triune.icraft.buyibackend import OUTPUT, BuyiBackend, BuyiDevice, Segment
from triune.icraft.host_backend import HostBackend
from triune.icraft.xrt import Backend, Device, HostDevice, Session, Tensor
from triune.icraft.zg330backend import ZG330Backend
from triune.models import DIGITS_INT8

Array = npt.NDArray[Any]
SIZE = 16
CLASSES = 3


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(17)


# ---- networks


def detector(parts: int, rng: np.random.Generator, distributions: bool = False) -> onnx.ModelProto:
    """Return an int8 detector of two levels: one part with 3 anchors, or objectness, box and classes.

    With `distributions`, boxes are distributions over 16 distances, decoded as YOLOv8 does: by a softmax and a fixed convolution.
    """
    nodes, weights, outputs = [], [], []

    def put(name: str, values: Any) -> str:
        weights.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def quantized(name: str, scale: float, zero: int) -> str:
        put(f"{name}_s", np.float32(scale))
        put(f"{name}_z", np.uint8(zero))
        nodes.append(helper.make_node("QuantizeLinear", [name, f"{name}_s", f"{name}_z"], [f"{name}_q"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"{name}_q", f"{name}_s", f"{name}_z"], [f"{name}_d"]))
        return f"{name}_d"

    def conv(given: str, name: str, inner: int, outer: int, stride: int, scale: float, zero: int) -> str:
        put(f"{name}_w", rng.integers(-127, 128, (outer, inner, 1, 1), np.int8))
        put(f"{name}_ws", np.full(outer, 0.02, np.float32))
        put(f"{name}_wz", np.zeros(outer, np.int8))
        put(f"{name}_b", rng.normal(0, 1, outer).astype(np.float32))
        nodes.append(
            helper.make_node("DequantizeLinear", [f"{name}_w", f"{name}_ws", f"{name}_wz"], [f"{name}_wd"], axis=0)
        )
        nodes.append(
            helper.make_node("Conv", [given, f"{name}_wd", f"{name}_b"], [name], strides=[stride, stride], name=name)
        )
        return quantized(name, scale, zero)

    at = quantized("image", 1 / 255, 0)
    at = conv(at, "stem", 3, 24, 4, 0.05, 120)
    levels = [at, conv(at, "down", 24, 24, 2, 0.06, 130)]
    boxes = 64 if distributions else 4
    kinds = [("all", 3 * (5 + CLASSES))] if parts == 1 else [("cls", CLASSES), ("box", boxes), ("obj", 1)][:parts]
    joined = []
    for index, level in enumerate(levels):
        heads = []
        for kind, channels in kinds:
            heads.append(conv(level, f"{kind}{index}", 24, channels, 1, 0.04 + 0.01 * index, 100))
        nodes.append(helper.make_node("Concat", heads, [f"head{index}"], axis=1))
        if distributions:
            shape = put(f"rows{index}_shape", np.asarray([1, CLASSES + boxes, -1]))
            nodes.append(helper.make_node("Reshape", [f"head{index}", shape], [f"rows{index}"]))
            joined.append(f"rows{index}")
            continue
        nodes.append(helper.make_node("Sigmoid", [f"head{index}"], [f"out{index}"]))
        shape = [1, sum(channels for _, channels in kinds), SIZE >> 2 + index, SIZE >> 2 + index]
        outputs.append(helper.make_tensor_value_info(f"out{index}", onnx.TensorProto.FLOAT, shape))
    if distributions:
        count = sum((SIZE >> 2 + index) ** 2 for index in range(2))
        nodes.append(helper.make_node("Concat", joined, ["rows"], axis=2))
        nodes.append(helper.make_node("Split", ["rows", put("parts", [CLASSES, boxes])], ["classes", "sides"], axis=1))
        nodes.append(helper.make_node("Reshape", ["sides", put("sides_shape", [1, 4, 16, count])], ["bins"]))
        nodes.append(helper.make_node("Transpose", ["bins"], ["turned"], perm=[0, 2, 1, 3]))
        nodes.append(helper.make_node("Softmax", ["turned"], ["likely"], axis=1))
        likely = quantized("likely", 1 / 255, 0)
        put("dfl_w", np.rint(np.arange(16) * 127 / 15).astype(np.int8).reshape(1, 16, 1, 1))
        put("dfl_ws", np.full(1, 15 / 127, np.float32))
        put("dfl_wz", np.zeros(1, np.int8))
        nodes.append(helper.make_node("DequantizeLinear", ["dfl_w", "dfl_ws", "dfl_wz"], ["dfl_wd"], axis=0))
        nodes.append(helper.make_node("Conv", [likely, "dfl_wd"], ["dfl"], name="dfl"))
        nodes.append(
            helper.make_node("Reshape", [quantized("dfl", 0.06, 0), put("out_shape", [1, 4, count])], ["out0"])
        )
        nodes.append(helper.make_node("Sigmoid", ["classes"], ["out1"]))
        for index, channels in enumerate((4, CLASSES)):
            shape = [1, channels, count]
            outputs.append(helper.make_tensor_value_info(f"out{index}", onnx.TensorProto.FLOAT, shape))
    image = helper.make_tensor_value_info("image", onnx.TensorProto.FLOAT, [1, 3, SIZE, SIZE])
    graph = helper.make_graph(nodes, "detector", [image], outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    return model


@pytest.fixture
def model(tmp_path: Path, rng: np.random.Generator) -> Path:
    path = tmp_path / "detector.onnx"
    onnx.save(detector(3, rng), path)
    return path


def loaded(folder: Path, stage: str) -> xir.Network:
    network = xir.Network.CreateFromJsonFile(str(folder / f"detector_{stage}.json"))
    network.loadParamsFromFile(str(folder / f"detector_{stage}.raw"))
    return network


def on_host(network: xir.Network, image: Tensor) -> list[Array]:
    session = Session.Create([HostBackend], network.view(0), [HostDevice.Default()])
    session.apply()
    return [np.array(each) for each in session.forward([image])]


def on_board(network: xir.Network, device: Device) -> Session:
    kind = BuyiBackend if "ql100" in str(device) or isinstance(device, BuyiDevice) else ZG330Backend
    session = Session.Create([kind, HostBackend], network.view(0), [device, HostDevice.Default()])
    session.enableTimeProfile(True)
    session.apply()
    return session


def picture(rng: np.random.Generator) -> tuple[Array, Tensor]:
    pixels = rng.integers(0, 256, (1, SIZE, SIZE, 3), np.uint8)
    return pixels, Tensor(pixels, xir.Layout("NHWC"))


def named(network: xir.Network, kind: str) -> xir.Operation:
    return next(op for op in network.ops if op.typeKey() == f"customop::{kind}Node")


def feed(device: Device, image: Tensor) -> None:
    """Do what programs for the vendor's boards do to feed a picture."""
    _, height, width, channels = image.dtype().shape
    registers, pixels, whole = device.defaultRegRegion(), height * width, 24 // channels
    in_udma = image.to(device.getMemRegion("udma"))
    length = ((pixels - 1) // whole + 1) * 3
    last = pixels - (length - 3) // 3 * whole
    base = 0x1000C0000
    for offset, value in ((0x20, 0), (0x4, in_udma.data().addr()), (0x8, length), (0xC, last), (0x10, channels)):
        registers.write(base + offset, value, True)
    registers.write(base + 0x1C, 1, True)
    registers.write(base, 1, True)


# ---- ImageMake


def test_a_picture_of_bytes_enters_by_logic(model: Path, tmp_path: Path, rng: np.random.Generator) -> None:
    folder = tmp_path / "made"
    how = Preprocess(scale=255.0)
    made = triune.compile(model, target="buyi", format="icraft", output=folder, imagemake=True, preprocess=how)
    assert triune.compile(model, target="buyi", format="icraft", output=tmp_path / "plain") != made
    for stage in ("parsed", "optimized", "quantized"):
        network = loaded(folder, stage)
        assert network[0].outputs[0].tensorType().element_dtype.isFP32(), "the float border stays"
        assert not any("customop" in op.typeKey() for op in network.ops)
    pixels, image = picture(rng)
    reals = Tensor(np.ascontiguousarray(pixels.astype(np.float32) / 255), xir.Layout("NHWC"))
    wanted = on_host(loaded(tmp_path / "plain", "BY"), reals)
    device = Device.Open("axi://ql100aiu")
    for stage in ("adapted", "BY"):
        network = loaded(folder, stage)
        given, own = network[0], named(network, "ImageMake")
        assert str(given.outputs[0].tensorType().element_dtype) == '"@uint(8)"'
        assert (given.tags["imagemake"], own.tags["output_etm"]) == (xir.Bool(True), xir.Bool(True))
        assert (str(own.compile_target), own.outputs[0].tensorType().shape) == ('"@fpgat"', [1, 1, SIZE, SIZE, 4])
        assert [float(each) for each in own.getAttr("pre_scale_data")] == pytest.approx([1.0] * 3)
        for found, want in zip(on_host(network, image), wanted, strict=True):
            np.testing.assert_array_equal(found, want)
    session = on_board(network, device)
    for found, want in zip(session.forward([image]), wanted, strict=True):
        np.testing.assert_array_equal(np.array(found), want)
    wall, _, hard, _ = session.timeProfileResults()[own.op_id]
    assert hard == pytest.approx(SIZE * SIZE * 5.62 / (608 * 1088), rel=0.02)
    assert wall >= 0
    # Fed by the program: what `forward` is given is not looked at.
    feed(device, image)
    blank = Tensor(np.zeros_like(pixels), xir.Layout("NHWC"))
    for found, want in zip(session.forward([blank]), wanted, strict=True):
        np.testing.assert_array_equal(np.array(found), want)
    # And fed anew by `forward` the next time.
    assert not all(
        np.array_equal(np.array(found), want) for found, want in zip(session.forward([blank]), wanted, strict=True)
    )
    # Another session has set the logic up.
    other = on_board(loaded(folder, "BY"), device)
    feed(device, image)
    with pytest.raises(xir.InternalError, match=r"ImageMake\): the picture that was fed went to .*initOp"):
        session.forward([image])
    session.backends[0].initOp(own)
    feed(device, image)
    np.testing.assert_array_equal(np.array(session.forward([blank])[0]), wanted[0])
    np.testing.assert_array_equal(np.array(other.forward([image])[0]), wanted[0])


def test_a_session_of_logic_alone_writes_where_it_is_told_to(
    model: Path, tmp_path: Path, rng: np.random.Generator
) -> None:
    triune.compile(
        model, target="buyi", format="icraft", output=tmp_path, imagemake=True, preprocess=Preprocess(scale=255.0)
    )
    network, device = loaded(tmp_path, "BY"), BuyiDevice(Device.Open("axi://ql100aiu"))
    device.mmuModeSwitch(False)
    index = network.ops.index(named(network, "ImageMake"))
    pixels, image = picture(rng)
    chunk = device.malloc(SIZE * SIZE * 4)
    views = [network.view(index, index + 1), network.view(index + 1)]
    first, second = (Session.Create([BuyiBackend, HostBackend], view, [device, HostDevice.Default()]) for view in views)
    BuyiBackend(first.backends[0]).userSetSegment(chunk, OUTPUT)
    BuyiBackend(second.backends[0]).userSetSegment(chunk, Segment.INPUT)
    first.apply()
    second.apply()
    (map_of,) = first.forward([image])
    assert map_of.data().addr() == chunk.begin.addr()
    np.testing.assert_array_equal(np.array(map_of)[0, 0, :, :, :3], pixels[0])
    wanted = on_host(network, image)
    for found, want in zip(second.forward([map_of]), wanted, strict=True):
        np.testing.assert_array_equal(np.array(found), want)


def made_by_hand(**changes: Any) -> tuple[xir.Network, xir.Operation]:
    """Return a network of an `ImageMake` as the vendor's files have it."""
    network = xir.Network("by hand", xir.Framework.ONNX, "1")
    given = xir.Input(xir.TensorType(xir.IntegerType.UInt8(), [1, 2, 3, 3], xir.Layout("NHWC")))
    network.addOp(given)
    op = xir.Operation.Create("customop::ImageMake")
    op.setInputs([given[0]])
    attributes = {
        "input_bits": 8,
        "input_port": 0,
        "no_imkpad": False,
        "one_fast": False,
        "pad_size": [1, 0, 2, 0],
        "pre_mean_data": [-128.0, -128.0, -100.7],
        "pre_nop": False,
        "pre_scale_data": [1.0078740119934082, 1.0078740119934082, 2.0],
        "reg_base": 0,
        "sleep_time": 0,
    }
    shape = changes.pop("shape", [1, 1, 4, 4, 4])
    for name, value in (attributes | changes).items():
        op.setAttr(name, value)
    op.setCompileTarget(xir.FPGATarget())
    op.setOutputs([xir.Value(xir.TensorType(xir.IntegerType.SInt8(), shape, xir.Layout("NCHWc4")))])
    network.addOp(op)
    network.addOp(xir.Output(op[0]))
    return network, op


def test_attributes_are_the_vendors(rng: np.random.Generator) -> None:
    network, _ = made_by_hand()
    pixels = rng.integers(0, 256, (1, 2, 3, 3), np.uint8)
    image = Tensor(pixels, xir.Layout("NHWC"))
    # Right, left, below, above; the mean loses its fraction, the scale has ten bits.
    mean, scale = np.array([128, 128, 100]), np.array([1016, 1016, 512])
    wanted = np.zeros((1, 1, 4, 4, 4), np.int8)
    wanted[0, 0, :2, :3, :3] = np.clip((pixels[0].astype(int) - mean) * scale >> 10, -128, 127)
    (found,) = on_host(network, image)
    np.testing.assert_array_equal(found, wanted)
    session = on_board(network, Device.Open("axi://ql100aiu"))
    np.testing.assert_array_equal(np.array(session.forward([image])[0]), wanted)
    plain, _ = made_by_hand(pre_nop=True)
    np.testing.assert_array_equal(on_host(plain, image)[0][0, 0, :2, :3, :3], pixels[0].clip(0, 127).astype(np.int8))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"pad_size": [0, 0, 0]}, "pad_size .* expected 4 numbers"),
        ({"pad_size": [300, 0, 2, 0]}, "0 to 255"),
        ({"shape": [1, 1, 4, 5, 4]}, r"expected a result of .*\[1, 1, 4, 4, 4\]"),
        ({"pre_scale_data": [1.0, 0.0, 1.0]}, "divisor of 0"),
        ({"pre_scale_data": [1.0, 1e-9, 1.0]}, "fit into 16 bits"),
        ({"pre_mean_data": [float("nan")] * 3}, "expected 3 numbers"),
        ({"pre_mean_data": [10**400] * 3}, "expected 3 numbers"),
        ({"pre_scale_data": [1.0, 5e-324, 1.0]}, "fit into 16 bits"),
        ({"input_bits": 16}, "input_bits is 16"),
        ({"input_bits": "8"}, "input_bits is '8'"),
        ({"one_fast": True}, "one_fast is set"),
    ],
)
def test_wrong_attributes_are_named(changes: dict[str, Any], said: str) -> None:
    network, _ = made_by_hand(**changes)
    image = Tensor(np.zeros((1, 2, 3, 3), np.uint8), xir.Layout("NHWC"))
    with pytest.raises(xir.InternalError, match=said):
        on_host(network, image)


def test_cameras_ports_are_not_there() -> None:
    network, op = made_by_hand(input_port=1)
    backend = Backend.Create(BuyiBackend, network.view(0), Device.Open("axi://ql100aiu"))
    with pytest.raises(NotImplementedError, match=r"input_port 1.*cameras"):
        backend.initOp(op)


# ---- DetPost


@pytest.mark.parametrize("target", ["buyi", "zg330"])
@pytest.mark.parametrize("parts", [1, 2, 3])
def test_rows_are_those_of_the_heads(target: str, parts: int, tmp_path: Path, rng: np.random.Generator) -> None:
    path = tmp_path / "detector.onnx"
    full = detector(parts, rng)
    # Of two parts both have about as many channels: which has the score is said.
    heads = [f"{kind}{level}" for level in (0, 1) for kind in ("cls", "box")] if parts == 2 else []
    onnx.save(full, path)
    how = triune.DetPost(0.4, heads)
    triune.compile(path, target=target, format="icraft", output=tmp_path, detpost=how)
    suffix = {"buyi": "BY", "zg330": "ZG"}[target]
    pixels, _ = picture(rng)
    image = Tensor(np.ascontiguousarray(pixels.astype(np.float32) / 255), xir.Layout("NHWC"))
    adapted, network = loaded(tmp_path, "adapted"), loaded(tmp_path, suffix)
    op = named(network, "DetPost" if target == "buyi" else "DetPostZG")
    assert len(op.outputs) == 2
    assert all("@etm" in str(value.mtype) or "@chunk" in str(value.mtype) for value in op.inputs), "no host between"
    rows = on_host(adapted, image)
    for other in (on_host(network, image), None):
        if other is None:
            session = on_board(network, Device.Open("axi://ql100aiu" if target == "buyi" else "axi://zg330aiu"))
            other = [np.array(each) for each in session.forward([image])]
            assert session.timeProfileResults()[op.op_id][2] > 0
        for found, want in zip(other, rows, strict=True):
            np.testing.assert_array_equal(found, want)
    # Against the heads' own reals.
    given = {"image": np.ascontiguousarray(pixels.transpose(0, 3, 1, 2).astype(np.float32) / 255)}
    reals = triune.Session(path).run(given)
    scales = _scales(op)
    found = [_check_level(rows[level], reals[level], scales, parts, level, 0.4) for level in (0, 1)]
    assert any(found), "something is there to be found"


def _scales(op: xir.Operation) -> list[float]:
    found = []
    for value in op.inputs:
        ratio = value.tensorType().getNormratio()
        scale = value.tensorType().getScale()
        found.append(ratio.data[0] if ratio is not None else scale[0].origin_scale)
    return found


def _check_level(rows: Array, scores: Array, scales: list[float], parts: int, level: int, threshold: float) -> bool:
    """Compare rows with a level's sigmoids: which are there, where, and their channels."""
    assert rows.dtype == np.int8
    anchors = 3 if parts == 1 else 1
    each = scores.reshape(anchors, -1, *scores.shape[-2:])
    if parts == 1:
        key = each[:, 4]
    elif parts == 2:
        key = each[:, :CLASSES].max(1)
    else:
        key = each[:, CLASSES + 4]
    places = set()
    for row in rows[0, 0]:
        x, y, anchor = row[-6:].view("<u2")
        places.add((int(anchor), int(y), int(x)))
        assert not row[-8:-6].any()
        own = each[anchor, :, y, x]
        if parts == 1:
            blocks = [(row[: 5 + CLASSES], own, scales[level])]
        elif parts == 2:
            blocks = [
                (row[:CLASSES], own[:CLASSES], scales[2 * level]),
                (row[64:68], own[CLASSES:], scales[2 * level + 1]),
            ]
        else:
            blocks = [
                (row[:1], own[CLASSES + 4 :], scales[3 * level]),
                (row[64:68], own[CLASSES : CLASSES + 4], scales[3 * level + 1]),
                (row[128 : 128 + CLASSES], own[:CLASSES], scales[3 * level + 2]),
            ]
        for integers, reals, scale in blocks:
            np.testing.assert_allclose(1 / (1 + np.exp(-integers.astype(float) * scale)), reals, atol=0.08)
    clearly = {tuple(map(int, at)) for at in np.argwhere(key > threshold + 0.08)}
    never = {tuple(map(int, at)) for at in np.argwhere(key < threshold - 0.08)}
    assert clearly <= places
    assert not never & places
    return bool(clearly)


def test_of_none_there_is_an_empty_tensor(model: Path, tmp_path: Path, rng: np.random.Generator) -> None:
    triune.compile(model, target="buyi", format="icraft", output=tmp_path, detpost=0.99)
    _, image = picture(rng)
    image = Tensor(np.zeros((1, SIZE, SIZE, 3), np.float32), xir.Layout("NHWC"))
    network = loaded(tmp_path, "BY")
    op = named(network, "DetPost")
    op.setAttr("data_thr", [127, 127])
    session = on_board(network, Device.Open("axi://ql100aiu"))
    assert [np.array(each).shape for each in session.forward([image])] == [(1, 1, 0, 144)] * 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda op: op.setAttr("layer_en", 2), "layer_en is 2"),
        (lambda op: op.setAttr("chn_1st", 0), "chn_1st is 0"),
        (lambda op: op.setAttr("chn_1st", 2), r"operand 0: expected \[1, 4,"),
        (lambda op: op.setAttr("data_thr", [1]), "data_thr .* expected 2 numbers"),
        (lambda op: op.setAttr("data_thr", [1, 1 << 31]), "data_thr is .* 32 bits with sign"),
        (lambda op: op.setAttr("cmp_chn", 9), "cmp_chn is 9"),
        (lambda op: op.setAttr("valid_chn", 9), "valid_chn is 9"),
        (lambda op: op.setAttr("anchor_num", -1), "anchor_num is -1"),
    ],
)
def test_wrong_candidates_are_named(change: Any, said: str, model: Path, tmp_path: Path) -> None:
    triune.compile(model, target="buyi", format="icraft", output=tmp_path, detpost=0.5)
    image = Tensor(np.zeros((1, SIZE, SIZE, 3), np.float32), xir.Layout("NHWC"))
    network = loaded(tmp_path, "BY")
    change(named(network, "DetPost"))
    with pytest.raises(xir.InternalError, match=said):
        on_host(network, image)
    with pytest.raises(xir.InternalError, match=said):
        on_board(network, Device.Open("axi://ql100aiu")).forward([image])


# ---- NMS, by its registers as programs use it


def test_boxes_that_overlap_go(rng: np.random.Generator) -> None:
    device = Device.Open("axi://ql100aiu")
    corners = rng.integers(0, 60, (40, 2))
    sides = rng.integers(10, 40, (40, 2))
    boxes = np.concatenate([corners, corners + sides, rng.integers(0, 2, (40, 1))], 1).astype(np.int16)
    chunk = device.getMemRegion("udma").malloc(1 << 20)
    chunk.write(0, boxes.tobytes(), boxes.nbytes)
    base, registers = 0x100001C00, device.defaultRegRegion()
    assert registers.read(base + 0x8, True) == 0x23110200
    address, groups = chunk.begin.addr(), -(-40 // 16)
    for offset, value in (
        (0x14, 1),
        (0x14, 0),
        (0x1C, address),
        (0x20, address),
        (0x24, address + groups * 160 - 8),
        (0x28, address),
        (0x2C, groups),
        (0x30, 0),
        (0x34, int(0.4 * 2**15)),
        (0x38, 1),
        (0x0, 1),
    ):
        registers.write(base + offset, value, True)
    assert registers.read(base + 0x4, True) == 1
    mask = np.zeros(5, np.uint8)
    chunk.read(mask, 0, 5)
    kept: list[int] = []
    for index, box in enumerate(boxes.astype(float)):
        overlaps = False
        for other in boxes[kept].astype(float):
            width, height = np.minimum(box[2:4], other[2:4]) - np.maximum(box[:2], other[:2])
            common = max(width, 0) * max(height, 0)
            union = np.prod(box[2:4] - box[:2]) + np.prod(other[2:4] - other[:2]) - common
            overlaps |= bool(box[4] == other[4] and common / union > int(0.4 * 2**15) / 2**15)
        if not overlaps:
            kept.append(index)
    bits = np.unpackbits(mask, bitorder="little")
    assert np.flatnonzero(bits).tolist() == kept


# ---- what is refused


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"target": "zg330", "imagemake": True}, "imagemake: ImageMake is logic of buyi's boards"),
        ({"imagemake": True, "format": "package", "target": "metis"}, r"imagemake: logic .*\(format 'icraft'\)"),
        ({"detpost": 0.5, "format": "package", "target": "metis"}, r"detpost: logic .*\(format 'icraft'\)"),
        ({"imagemake": True, "input_format": "bgr8"}, "keeps the order of channels"),
        ({"imagemake": True, "preprocess": Preprocess(scale=1e-4)}, "16 bits for the integer"),
        ({"imagemake": True, "preprocess": Preprocess(scale=1.0, mean=40.5)}, "steps from rounded ones|16 bits"),
        ({"detpost": triune.DetPost(0.5, ["stem"], 6)}, "4 channels for each of 6 anchors"),
        ({"detpost": triune.DetPost(0.5, ["missing"])}, "'missing' is no convolution's result"),
        ({"detpost": triune.DetPost(0.5, ["obj0", "box0", "cls1"])}, "levels of the same 1 to 3 heads"),
        ({"detpost": triune.DetPost(0.5, anchors=2)}, "no multiple of 2 anchors"),
    ],
)
def test_what_logic_cannot_do_is_said(options: dict[str, Any], said: str, model: Path, tmp_path: Path) -> None:
    arguments = {"target": "buyi", "format": "icraft", "output": tmp_path / "made"} | options
    with pytest.raises(ArgumentError, match=said):
        triune.compile(model, **arguments)


@pytest.mark.parametrize("target", ["buyi", "zg330"])
def test_a_classifier_has_no_boxes(target: str, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"ends like a classifier: Gemm .* leave detpost out") as raised:
        triune.compile(DIGITS_INT8, target=target, format="icraft", output=tmp_path / "made", detpost=0.4)
    assert "anchors" not in str(raised.value)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("kind", ["GlobalAveragePool", "AveragePool"])
def test_a_classifier_of_convolutions_has_no_boxes(kind: str, tmp_path: Path) -> None:
    net = load(str(Path(__file__).parents[1] / "models" / "here"), "deployable_networks").Net(3)
    x = net.conv(net.input(1, 3, 8, 8), 8, 3)
    x = net.conv(net.mean(x) if kind == "GlobalAveragePool" else net.pool(kind, x, 8, 8), 10, 1)
    file = tmp_path / "net.onnx"
    file.write_bytes(net.model(x))
    with pytest.raises(ArgumentError, match=r"ends like a classifier: Conv .* leave detpost out"):
        triune.compile(file, target="buyi", format="icraft", output=tmp_path / "made", detpost=0.4)


def test_a_fixed_convolution_behind_the_heads_is_none_of_them(tmp_path: Path, rng: np.random.Generator) -> None:
    """YOLOv8's: the expected distance of a distribution is a 1x1 convolution, too."""
    path = tmp_path / "detector.onnx"
    made = detector(2, rng, distributions=True)
    onnx.save(made, path)
    triune.compile(path, target="buyi", format="icraft", output=tmp_path / "found", detpost=0.4)
    named_heads = triune.DetPost(0.4, ["cls0", "box0", "cls1", "box1"])
    triune.compile(path, target="buyi", format="icraft", output=tmp_path / "named", detpost=named_heads)
    found, given = (loaded(tmp_path / each, "adapted") for each in ("found", "named"))
    pixels, _ = picture(rng)
    image = Tensor(np.ascontiguousarray(pixels.astype(np.float32) / 255), xir.Layout("NHWC"))
    for mine, other in zip(on_host(found, image), on_host(given, image), strict=True):
        np.testing.assert_array_equal(mine, other)
    # The same with weights that are no distances is a convolution like others: no head, and the cure says which can be.
    (weights,) = (each for each in made.graph.initializer if each.name == "dfl_w")
    weights.CopyFrom(numpy_helper.from_array(rng.integers(-127, 128, (1, 16, 1, 1), np.int8), "dfl_w"))
    onnx.save(made, path)
    with pytest.raises(ArgumentError) as caught:
        triune.compile(path, target="buyi", format="icraft", output=tmp_path / "other", detpost=0.4)
    assert "--heads NAME,..." in str(caught.value)
    for name in ("cls0 (3x4x4)", "box0 (64x4x4)", "cls1 (3x2x2)", "box1 (64x2x2)"):
        assert name in str(caught.value)


def test_thresholds_are_scores() -> None:
    for wrong in (0.0, 1.0, float("nan")):
        with pytest.raises(ArgumentError, match="expected a score between 0 and 1"):
            triune.DetPost(wrong)
    with pytest.raises(ArgumentError, match="0 anchors"):
        triune.DetPost(anchors=0)


@pytest.mark.filterwarnings("ignore::triune.errors.QuantizationWarning")
def test_a_float_model_is_calibrated_first(test_data: Path, tmp_path: Path, rng: np.random.Generator) -> None:
    model = test_data / "models/onnx/yolox_nano_f32.onnx"
    # Two samples of noise spoil it, which is said and does not matter here.
    samples = [{"images": rng.integers(0, 256, (1, 3, 416, 416)).astype(np.float32)} for _ in range(2)]
    made = triune.compile(
        model,
        target="buyi",
        format="icraft",
        output=tmp_path,
        calibration=samples,
        preprocess=Preprocess(scale=1.0),
        imagemake=True,
        detpost=0.1,
    )
    network = xir.Network.CreateFromJsonFile(str(made / "yolox_nano_f32_BY.json"))
    op = named(network, "DetPost")
    assert [plain for name in ("chn_1st", "chn_2nd", "chn_3rd") for plain in [int(op.getAttr(name))]] == [1, 1, 2]
    assert int(named(network, "ImageMake").getAttr("input_bits")) == 8
