"""Networks that several tests use, and documents in the vendor's grammar."""

from __future__ import annotations

from typing import Any

import numpy as np

from triune.icraft.xir import (
    Add,
    Concat,
    Conv2d,
    FloatType,
    Framework,
    HardOp,
    Input,
    IntegerType,
    Layout,
    MaxPool2d,
    Network,
    Output,
    Params,
    ReLU,
    TensorType,
)


def f32(*shape: int, layout: str | None = None) -> TensorType:
    """Return the type of a tensor of 32-bit floats, channels last."""
    layout = layout or {1: "C", 2: "NC", 3: "HWC"}.get(len(shape), "NHWC")
    return TensorType(FloatType.FP32(), list(shape), Layout(layout))


def weights(*shape: int, layout: str = "HWIO", seed: int = 0) -> Params:
    """Return parameters with random data."""
    data = np.random.default_rng(seed).standard_normal(shape, np.float32)
    return Params(data, "weights", Layout(layout))


def small() -> Network:
    """Return a network of two branches, with data."""
    network = Network("small", Framework.ONNX, "1.17")
    given = Input(f32(1, 8, 8, 3))
    network.addOp(given)
    left = Conv2d(given[0], weights(3, 3, 3, 4), weights(4, layout="C", seed=1), 1, 1, 1)
    network.addOp(left)
    relu = ReLU(left[0])
    network.addOp(relu)
    right = Conv2d(given[0], weights(1, 1, 3, 4, seed=2), None, 1, 0, 1)
    network.addOp(right)
    total = Add(relu[0], right[0])
    network.addOp(total)
    pool = MaxPool2d(total[0], 2, 2, 0, 1)
    network.addOp(pool)
    joined = Concat([pool[0], pool[0]], 3)
    network.addOp(joined)
    network.addOp(Output(joined[0], total[0]))
    return network


def tensor(element: Any, shape: list[int], layout: str, merged: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the JSON of a tensor's type."""
    return {
        "_type_key": "icraft::xir::TensorType",
        "element_dtype": element,
        "layout": f"@layout({layout})",
        "merged_distrs": list(merged),
        "shape": shape,
    }


def value(number: int, dtype: dict[str, Any], mtype: str = "@hostm", **more: Any) -> dict[str, Any]:
    """Return the JSON of a value; with ``params=True`` of parameters."""
    params = more.pop("params", False)
    return {
        **({"_allow_no_data": False} if params else {}),
        "_type_key": f"icraft::xir::{'Params' if params else 'Value'}",
        "dtype": dtype,
        "mtype": mtype,
        "name": "",
        "tags": {},
        "v_id": number,
        **more,
    }


def operation(key: str, number: int, inputs: list[Any], outputs: list[Any], **more: Any) -> dict[str, Any]:
    """Return the JSON of an operation."""
    return {
        "_type_key": key,
        "compile_target": "@hostt",
        "inputs": inputs,
        "name": "",
        "op_id": number,
        "outputs": outputs,
        "tags": {},
        **more,
    }


def document(ops: list[Any], **more: Any) -> dict[str, Any]:
    """Return the JSON of a network."""
    return {
        "_type_key": "icraft::xir::Network",
        "ai_target": "@zhuget(330)",
        "framework_kind": "PYTORCH",
        "framework_version": "1.9",
        "icraft_version": "v3.33.1",
        "icraft_xir_version": "3.33.1.0",
        "name": "grammar",
        "ops": ops,
        "params_bytes": 0,
        "params_md5": "d41d8cd98f00b204e9800998ecf8427e",
        "tags": {},
        **more,
    }


NORMALIZED = {
    "_type_key": "icraft::xir::NormalizedQuantizedType",
    "expressed_dtype": "@fp(32)",
    "normratio": "@norm_ratios([axis=-1]32*0.21537238)",
    "scale": "@exp_scales([axis=-1]32*1/0/1)",
    "storage_dtype": "@sint(8)",
    "zero_points": [],
}


def every_form() -> dict[str, Any]:
    """Return a document with every string form of the format."""
    padded = ("@merged_distr([1, 4]^ZERO:{v:[0, 16), u:[16, 32)})",)
    old = ("@merged_distr([3]:{u:[0, 1), v:[1, 3)})",)
    none = ("@merged_distr([0]^NONE:{v:[0, 3)})",)
    scales = {
        "_type_key": "icraft::xir::QuantizedType",
        "expressed_dtype": "@fp(32)",
        "scale": "@scales([axis=-1]3*2.007629)",
        "storage_dtype": "@sint(8)",
        "zero_points": [-128, 0, 127],
    }
    shifts = {**scales, "scale": "@exp_scales([axis=4]128/15/0.00390625,2*138/16/0.002105713)", "zero_points": []}
    calibrated = {
        "_type_key": "icraft::xir::CalibratedType",
        "expressed_dtype": "@fp(32)",
        "max": [4.8],
        "min": [-3.6],
        "sat": [4.7],
        "storage_dtype": "@bf(16)",
    }
    normalized = {
        "_type_key": "icraft::xir::NormalizedType",
        "expressed_dtype": "@fp(32)",
        "normratio": "@norm_ratios([axis=0]1.1,2.2,3.3)",
        "storage_dtype": "@sint(16)",
    }
    types = [
        tensor("@uint(8)", [1, 4, 4, 3], "NHWC", old),
        tensor(NORMALIZED, [1, 1, 4, 4, 32], "NCHWc32", padded),
        tensor(scales, [3], "C", none),
        tensor(shifts, [1, 1, 3, 3, 3, 32], "OIHWo3i32"),
        tensor(calibrated, [1, 2, 2, 2], "****"),
        tensor(normalized, [2, 3], "N*"),
        *(tensor(f"@{kind}", [2], "*") for kind in ("fp(16)", "fp(64)", "tf(32)", "fpe6m9(16)", "sint(4)", "bool")),
    ]
    places = ["@hostm", "@ocm(64)", "@etm(7336448)", "@chunk(15@9)"]
    values = [value(number, dtype, places[number % 4], name=f"v{number}") for number, dtype in enumerate(types)]
    word = value(100, tensor("@uint(64)", [2440], "*"), "@chunk(121@0)", params=True, name="455_instr")
    empty = value(101, tensor("@uint(64)", [0], "*"), params=True, _allow_no_data=True)
    inner = operation("icraft::xir::HardOp", 7, [], [], device_info={}, instr=[empty], layer_count=0, name="")
    hard = operation(
        "icraft::xir::HardOp",
        2,
        [values[1]],
        [values[2]],
        compile_target="@zhuget(330)",
        device_info={"io": 3},
        instr=[word],
        layer_count=1,
        name="icraft::xir::Conv2dNode",
        origin_ops_id=[299, 300],
        params=[],
        sub_hard_ops=[{**inner, "origin_ops_id": [], "params": [], "sub_hard_ops": []}],
    )
    relu = operation("icraft::xir::ReLU", 3, [values[2]], [values[3]], alpha=0.1, max_value="inf", threshold=0.0)
    custom = operation(
        "customop::ImageMake",
        1,
        [values[0]],
        [values[1]],
        compile_target="@fpgat",
        pre_mean_data=[-128.0, -128.5],
        no_imkpad=True,
        nested={"a": [1, "b", None]},
        tags={"input_etm": False, "ReadState": [0, 2], "note": {"x": 1.5, "y": "z"}, "none": None},
    )
    other = operation("icraft::xir::Gather", 4, [values[3]], values[4:], compile_target="@customt", axis=1)
    first = operation("icraft::xir::Input", 0, [], [values[0]])
    last = operation("icraft::xir::Output", 5, values[4:], [])
    size = 16 + 12 * 2 + 2440 * 8
    return document([first, custom, hard, relu, other, last], params_bytes=size, params_md5="", swap_mode="a new key")


def hardware(target: Any, layout: str = "NCHWc32") -> Network:
    """Return a network of one hardware operation, with 8 instruction words."""
    network = Network("hard", Framework.PYTORCH, "1.9", target)
    given = Input(TensorType(IntegerType.SInt8(), [1, 1, 4, 4, 32], Layout(layout)))
    network.addOp(given)
    words = Params(np.arange(8, dtype=np.uint64), "1_instr")
    hard = HardOp([given[0]], [words], [weights(2, 2, layout="**")], [5, 6], {"layer": 1}, 1)
    hard.setName("icraft::xir::Conv2dNode").setCompileTarget(target)
    hard.inferResults([given[0].tensorType()])
    network.addOp(hard)
    network.addOp(Output(hard[0]))
    return network
