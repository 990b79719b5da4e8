"""The examples of the vendor's documents that are about networks, with what the documents show as their results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xir_networks import hardware, tensor, value

from triune.icraft import xir
from triune.icraft.xir import (
    Conv2d,
    FloatType,
    Framework,
    Input,
    Layout,
    MaxPool2d,
    Network,
    Output,
    Params,
    ReLU,
    TensorType,
    ZhugeTarget,
)


def whatever(filled: bool = False) -> Network:
    """Return the network of the first example; the document's input has as many channels as its weights."""
    network = Network("whatever", Framework.PYTORCH, "v1.9")

    input_type = TensorType(FloatType.FP32(), [1, 416, 416, 3], Layout.NHWC())
    input = Input(input_type)
    network.addOp(input)

    weight_type = TensorType(FloatType.FP32(), [3, 3, 3, 16], Layout.HWIO())
    weight = Params(weight_type)
    if filled:
        weight.fill(float)
    conv2d = Conv2d(input[0], weight, None, 1, 1, 1)
    network.addOp(conv2d)

    relu = ReLU(conv2d[0])
    network.addOp(relu)

    max_pool2d = MaxPool2d(relu[0], 3, 2, 1, 1)
    network.addOp(max_pool2d)

    output = Output(max_pool2d[0])
    network.addOp(output)
    return network


def shown(number: int, shape: list[int]) -> dict[str, Any]:
    return value(number, tensor("@fp(32)", shape, "NHWC"))


def test_the_first_network() -> None:
    network = json.loads(str(whatever()))
    assert network["framework_kind"] == "PYTORCH"
    assert network["params_bytes"] == 0
    assert network["params_md5"] == "d41d8cd98f00b204e9800998ecf8427e"
    assert network["ops"][1] == {
        "_type_key": "icraft::xir::Conv2d",
        "compile_target": "@hostt",
        "cut_scale": "@scales([axis=-1])",
        "dilation_height": 1,
        "dilation_width": 1,
        "groups": 1,
        "inputs": [
            shown(0, [1, 416, 416, 3]),
            value(1, tensor("@fp(32)", [3, 3, 3, 16], "HWIO"), params=True),
        ],
        "name": "",
        "op_id": 1,
        "outputs": [shown(2, [1, 416, 416, 16])],
        "pad_bottom": 1,
        "pad_left": 1,
        "pad_right": 1,
        "pad_top": 1,
        "padding_mode": "ZEROS",
        "stride_height": 1,
        "stride_width": 1,
        "tags": {},
    }
    assert network["ops"][2] == {
        "_type_key": "icraft::xir::ReLU",
        "alpha": 0.0,
        "compile_target": "@hostt",
        "inputs": [shown(2, [1, 416, 416, 16])],
        "max_value": "inf",
        "name": "",
        "op_id": 2,
        "outputs": [shown(3, [1, 416, 416, 16])],
        "tags": {},
        "threshold": 0.0,
    }
    assert network["ops"][3] == {
        "_type_key": "icraft::xir::MaxPool2d",
        "compile_target": "@hostt",
        "dilation_height": 1,
        "dilation_width": 1,
        "inputs": [shown(3, [1, 416, 416, 16])],
        "name": "",
        "op_id": 3,
        "outputs": [shown(4, [1, 208, 208, 16])],
        "pad_bottom": 1,
        "pad_left": 1,
        "pad_right": 1,
        "pad_top": 1,
        "pool_height": 3,
        "pool_width": 3,
        "stride_height": 2,
        "stride_width": 2,
        "tags": {},
    }
    assert network["ops"][4]["inputs"] == [shown(4, [1, 208, 208, 16])]
    assert [op["op_id"] for op in network["ops"]] == [0, 1, 2, 3, 4]


def test_it_is_stored_and_loaded_both_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    network = whatever(filled=True)
    weight = network.getOpById(1).inputs[1]

    network.dumpJsonToFile("./whatever.json")
    network.dumpParamsToFile("./whatever.raw")

    net = Network.CreateFromJsonFile("./whatever.json")
    net.loadParamsFromFile("./whatever.raw")
    lazy = Network.CreateFromJsonFile("./whatever.json")
    lazy.lazyLoadParamsFromFile("./whatever.raw")

    for one in (net, lazy):
        loaded_conv2d = one.getOpById(1)
        loaded_weight = Params(loaded_conv2d.inputs[1])
        assert np.array_equal(loaded_weight, Params(weight))
        assert loaded_weight.data().ravel()[:3].tolist() == [0.0, 1.0, 2.0]
        assert one == network


def test_the_lines_that_every_program_begins_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    hardware(ZhugeTarget()).dumpJsonToFile("./yolov5s_ZG.json")
    made = hardware(ZhugeTarget())
    made.dumpParamsToFile("./yolov5s_ZG.raw")

    network = xir.Network.CreateFromJsonFile("./yolov5s_ZG.json")
    network.loadParamsFromFile("./yolov5s_ZG.raw")

    view = network.view(0)
    assert [op.op_id for op in view.ops] == [0, 1, 2]
    inputs = view.inputs()
    assert inputs[0].tensorType().shape == [1, 1, 4, 4, 32]
    # What programs ask of the operations that they meet.
    for op in network.ops:
        if "InputNode" in op.typeKey():
            channels = op.outputs[0].tensorType().shape[-1]
        if "HardOp" in op.typeKey():
            assert "zhuget" in str(op.compile_target)
            assert str(op.outputs[0].tensorType().element_dtype) == '"@sint(8)"'
    assert channels == 32
    assert [str(op.compile_target) for op in network.ops] == ['"@hostt"', '"@zhuget(330)"', '"@hostt"']
