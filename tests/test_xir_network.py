"""XIR documents as models: files that a session opens, and bytes with their constants beside them."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import triune
from triune import errors
from triune._native import Session
from triune.icraft import xir


def tensor(element: Any, layout: str, shape: list[int]) -> dict[str, Any]:
    """Return a tensor type as JSON."""
    key = "icraft::xir::TensorType"
    return {
        "_type_key": key,
        "element_dtype": element,
        "layout": f"@layout({layout})",
        "merged_distrs": [],
        "shape": shape,
    }


def quantized(scale: float, storage: str = "@sint(8)") -> dict[str, Any]:
    """Return a quantized element type with one scale."""
    scales = f"@scales([axis=-1]{scale})"
    key = "icraft::xir::QuantizedType"
    return {
        "_type_key": key,
        "expressed_dtype": "@fp(32)",
        "scale": scales,
        "storage_dtype": storage,
        "zero_points": [],
    }


def value(v_id: int, dtype: Any, *, constant: bool = False) -> dict[str, Any]:
    """Return a value, or a constant."""
    kind = "icraft::xir::Params" if constant else "icraft::xir::Value"
    found = {"_type_key": kind, "dtype": dtype, "mtype": "@hostm", "name": "", "tags": {}, "v_id": v_id}
    return found | ({"_allow_no_data": False} if constant else {})


def operation(op_id: int, kind: str, inputs: list[Any], outputs: list[Any], **attributes: Any) -> dict[str, Any]:
    """Return an operation on the host."""
    key = f"icraft::xir::{kind}"
    fixed = {"_type_key": key, "compile_target": "@hostt", "name": "", "op_id": op_id, "tags": {}}
    return fixed | {"inputs": inputs, "outputs": outputs} | attributes


@pytest.fixture
def model() -> tuple[dict[str, Any], np.ndarray[Any, Any]]:
    """Return a product of 8-bit values and its weights."""
    x = value(0, tensor(quantized(0.5), "NC", [1, 3]))
    w = value(1, tensor(quantized(0.25), "IO", [3, 2]), constant=True)
    y = value(2, tensor(quantized(2.0), "NC", [1, 2]))
    ops = [operation(0, "Input", [], [x]), operation(1, "Matmul", [x, w, None], [y]), operation(2, "Output", [y], [])]
    document = {
        "_type_key": "icraft::xir::Network",
        "framework_kind": "ONNX",
        "framework_version": "1",
        "icraft_version": "v3.33.1",
        "icraft_xir_version": "3.33.1.0",
        "name": "small",
        "ops": ops,
        "params_bytes": 34,
        "params_md5": "",
        "tags": {},
    }
    return document, np.array([[1, -2], [30, 4], [-5, 60]], np.int8)


def expected(x: np.ndarray[Any, Any], weights: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return what the product gives."""
    steps = x.astype(np.int32) @ weights.astype(np.int32)
    return np.clip(np.rint(steps * np.float32(0.5 * 0.25 / 2.0)), -128, 127).astype(np.int8)


def forward(network: Session, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the only output."""
    network.bind([x], [None])
    network.forward()
    return network.output(0)


def test_bytes_take_their_constants(model: tuple[dict[str, Any], np.ndarray[Any, Any]]) -> None:
    document, weights = model
    x = np.array([[100, -7, 12]], np.int8)
    data = json.dumps(document).encode()
    for params in ({1: weights.tobytes()}, {1: weights.view(np.uint8).ravel()}):
        network = Session(data, params=params)
        assert network.planned[0] == [("v0", "int8", [1, 3])]
        assert network.planned[1] == [("v2", "int8", [1, 2])]
        np.testing.assert_array_equal(forward(network, x), expected(x, weights))


def test_reals_are_kept_on_demand(model: tuple[dict[str, Any], np.ndarray[Any, Any]]) -> None:
    document, weights = model
    network = Session(json.dumps(document).encode(), params={1: weights.tobytes()}, fake_qf=True)
    assert network.planned[0] == [("v0", "float32", [1, 3])]
    x = np.array([[1000.0, 0.1, 7.25]], np.float32)
    np.testing.assert_allclose(forward(network, x), x @ (weights * np.float32(0.25)), rtol=1e-6)


def test_files_are_opened_with_what_lies_beside_them(
    model: tuple[dict[str, Any], np.ndarray[Any, Any]], tmp_path: Path
) -> None:
    document, weights = model
    raw = b"\xa5ICRAFT_RAW\xa5" + struct.pack("<IIQ", 1, 1, 28) + weights.tobytes()
    document["params_md5"] = hashlib.md5(raw, usedforsecurity=False).hexdigest()
    (tmp_path / "small.json").write_text(json.dumps(document))
    with pytest.raises(errors.Error, match=r"small\.raw"):
        triune.Session(tmp_path / "small.json")
    (tmp_path / "small.raw").write_bytes(raw)
    x = np.array([[100, -7, 12]], np.int8)
    (result,) = triune.Session(tmp_path / "small.json").run({"v0": x})
    np.testing.assert_array_equal(result, expected(x, weights))
    (tmp_path / "small.raw").write_bytes(raw[:-1])
    with pytest.raises(errors.ArgumentError, match=r"small\.raw.*it has 33 bytes, params_bytes says 34"):
        triune.Session(tmp_path / "small.json")


def test_wrong_constants_are_named(model: tuple[dict[str, Any], np.ndarray[Any, Any]]) -> None:
    document, weights = model
    data = json.dumps(document).encode()
    with pytest.raises(errors.ArgumentError, match="constant 1 has no data"):
        Session(data)
    with pytest.raises(errors.ArgumentError, match="constant 1 is given 5 bytes"):
        Session(data, params={1: bytes(5)})
    with pytest.raises(errors.ArgumentError, match="no operation has a constant 7"):
        Session(data, params={7: weights.tobytes()})
    with pytest.raises(errors.ArgumentError, match="expected the bytes of an XIR document"):
        Session("small.json", params={})
    document["ops"][1]["_type_key"] = "icraft::xir::HardOp"
    with pytest.raises(errors.UnsupportedError, match="triune compile"):
        Session(json.dumps(document).encode(), params={1: weights.tobytes()})


def test_lists_that_say_they_are_endless_are_refused() -> None:
    network = xir.Network("long", xir.Framework.ONNX, "1")
    network.addOp(xir.Input(xir.TensorType(xir.FloatType.FP32(), [1, 2], xir.Layout("NC"))))
    with pytest.raises(MemoryError, match=f"a list of {2**40} items"):
        network.view(0).getValuesById(range(2**40))  # type: ignore[arg-type]
