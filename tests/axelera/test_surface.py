"""The names, signatures, defaults and classes of the vendor's documentation."""

from __future__ import annotations

import copy
import enum
import inspect
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from triune.axelera import runtime as axr

EXCEPTIONS = [
    "ConnectionError",
    "DeviceInUse",
    "IncompatibleDevice",
    "InternalError",
    "InvalidArgument",
    "InvalidConfiguration",
    "NotImplemented",
    "Pending",
    "UnknownError",
]
CLASSES = ["Object", "Context", "Connection", "Model", "ModelInstance", "BoardType", "DeviceInfo", "TensorInfo"]


def test_every_documented_name_is_public() -> None:
    assert set(EXCEPTIONS + CLASSES) <= set(axr.__all__)
    assert sorted(axr.__all__) == sorted(set(axr.__all__))


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_exceptions_are_runtime_errors(name: str) -> None:
    assert issubclass(getattr(axr, name), RuntimeError)
    assert getattr(axr, name).__name__ == name
    assert getattr(axr, name).__module__ == "triune.axelera.runtime", "what tracebacks say"
    copy = pickle.loads(pickle.dumps(getattr(axr, name)("why")))
    assert (type(copy), copy.args) == (getattr(axr, name), ("why",))


def test_tracebacks_hold_no_helpers(tmp_path: Path) -> None:
    """An error of the core ends in the method that the program called."""
    (tmp_path / "model.json").write_text("no JSON")
    with axr.Context() as context, pytest.raises(axr.InvalidArgument) as raised:
        context.load_model(tmp_path / "model.json")
    assert [entry.name for entry in raised.traceback] == ["test_tracebacks_hold_no_helpers", "load_model"]
    assert raised.value.__cause__ is None


@pytest.mark.parametrize("name", ["Context", "Connection", "Model", "ModelInstance"])
def test_objects(name: str) -> None:
    assert issubclass(getattr(axr, name), axr.Object)
    assert isinstance(inspect.getattr_static(getattr(axr, name), "context"), property)


def test_object_is_abstract() -> None:
    with pytest.raises(TypeError, match="abstract"):
        axr.Object(None)


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (axr.Context.configure_device, ["device", "**kwargs"]),
        (axr.Context.device_connect, ["device=None", "num_sub_devices=1", "**kwargs"]),
        (axr.Context.device_ready, ["device"]),
        (axr.Context.list_devices, []),
        (axr.Context.load_model, ["path"]),
        (axr.Context.read_device_configuration, ["device"]),
        (axr.Context.release, []),
        (axr.Connection.load_model_instance, ["model", "**kwargs"]),
        (axr.Model.inputs, []),
        (axr.Model.outputs, []),
        (axr.ModelInstance.run, ["inputs", "outputs"]),
    ],
)
def test_signatures(method: Any, expected: list[str]) -> None:
    found = []
    for parameter in list(inspect.signature(method).parameters.values())[1:]:
        text = "**" + parameter.name if parameter.kind is parameter.VAR_KEYWORD else parameter.name
        found.append(text if parameter.default is parameter.empty else f"{text}={parameter.default}")
    assert found == expected


def test_board_types() -> None:
    assert issubclass(axr.BoardType, enum.Enum)
    names = ["alpha_pcie", "alpha_m2", "pcie", "m2", "devboard", "sbc", "unknown"]
    assert [(kind.name, kind.value) for kind in axr.BoardType] == list(zip(names, range(7), strict=True))


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        ("ALPHA_PCIE", "alpha_pcie"),
        ("ALPHA_M2", "alpha_m2"),
        ("OMEGA_PCIE", "pcie"),
        ("OMEGA_M2", "m2"),
        ("OMEGA_DEVBOARD", "devboard"),
        ("OMEGA_SBC", "sbc"),
    ],
)
def test_device_info_wraps_the_c_record(raw: str, name: str) -> None:
    board = axr.axruntime.BoardType[raw]
    info = axr.DeviceInfo(axr.axruntime.DeviceInfo(b"metis-0:3:0", 4, 0, 0, b"", board, b"v1.1.0", 2))
    assert info.name == "metis-0:3:0"
    assert info.board_type is axr.BoardType[name]
    assert (info.subdevice_count, info.max_memory, info.in_use, info.in_use_by) == (4, 0, False, "")
    assert (info.firmware_version, info.board_revision) == ("v1.1.0", 2)
    assert info.flashed_firmware_version == ""
    assert info.board_controller_firmware_version == info.board_controller_board_type == ""


def test_objects_module_has_the_objects() -> None:
    for name in ("Context", "Connection", "Model", "ModelInstance"):
        assert getattr(axr.objects, name) is getattr(axr, name)


def test_tensor_info_fields_and_defaults() -> None:
    info = axr.TensorInfo((1, 2, 3, 4))
    assert list(inspect.signature(axr.TensorInfo).parameters) == [
        "shape",
        "dtype",
        "name",
        "padding",
        "scale",
        "zero_point",
    ]
    assert info.shape == (1, 2, 3, 4)
    assert info.dtype == np.int8
    assert (info.name, info.scale, info.zero_point) == ("", 1.0, 0)
    assert info.padding == [(0, 0)] * 4


def test_objects_are_of_their_process(package: Path) -> None:
    with axr.Context() as context:
        instance = context.device_connect().load_model_instance(context.load_model(package))
        for made in (copy.copy, copy.deepcopy, pickle.dumps):
            for each in (context, instance):
                with pytest.raises(TypeError, match=f"{type(each).__name__} cannot be pickled or copied.*each process"):
                    made(each)
