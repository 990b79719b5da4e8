"""Every member of the vendor's documentation and of its published package is there, with the same parameters."""

from __future__ import annotations

import ctypes
import enum
import importlib
import inspect
from typing import Any

import pytest

import triune.megenginelite as lite

# Module, class (none for a function of the module), member, parameters as the vendor has them. `property` and `property=`
# (one that can be set) stand for no parameters. `LiteNetwork.load` calls its parameter `path` in the documentation and
# `file` in the package: the package's name is what programs can pass by keyword.
CPU, CUDA = "LiteDeviceType.LITE_CPU", "LiteDeviceType.LITE_CUDA"
SURFACE = """
base - set_log_level(level)
base - get_log_level()
global_setting - decryption_func(func)
global_setting LiteGlobal register_decryption_and_key(decryption_name, decryption_func, key)
global_setting LiteGlobal update_decryption_key(decryption_name, key)
global_setting LiteGlobal set_loader_lib_path(path)
global_setting LiteGlobal set_persistent_cache(path, always_sync=False)
global_setting LiteGlobal set_tensorrt_cache(path)
global_setting LiteGlobal dump_persistent_cache(path)
global_setting LiteGlobal dump_tensorrt_cache()
global_setting LiteGlobal get_device_count(device_type)
global_setting LiteGlobal try_coalesce_all_free_memory()
global_setting LiteGlobal register_memory_pair(vir_ptr, phy_ptr, length, device, backend=LiteBackend.LITE_DEFAULT)
global_setting LiteGlobal clear_memory_pair(vir_ptr, phy_ptr, device, backend=LiteBackend.LITE_DEFAULT)
global_setting LiteGlobal lookup_physic_ptr(vir_ptr, device, backend=LiteBackend.LITE_DEFAULT)
network LiteOptions __init__()
network LiteOptions __repr__()
network LiteConfig __init__(device_type=LiteDeviceType.LITE_CPU, option=None)
network LiteConfig bare_model_cryption_name property=
network LiteConfig __repr__()
network LiteExtraConfig __init__(disable_model_config=False)
network LiteExtraConfig __repr__()
network LiteIO __init__(name, is_host=True, io_type=LiteIOType.LITE_IO_VALUE, layout=None)
network LiteIO name property=
network LiteIO __repr__()
network LiteIO __hash__()
network LiteNetworkIO __init__(inputs=None, outputs=None)
network LiteNetworkIO add_input(obj, is_host=True, io_type=LiteIOType.LITE_IO_VALUE, layout=None)
network LiteNetworkIO add_output(obj, is_host=True, io_type=LiteIOType.LITE_IO_VALUE, layout=None)
network LiteNetworkIO _create_network_io()
network LiteNetworkIO __repr__()
network LiteNetwork __init__(config=None, io=None)
network LiteNetwork __repr__()
network LiteNetwork load(file)
network LiteNetwork forward()
network LiteNetwork wait()
network LiteNetwork is_cpu_inplace_mode()
network LiteNetwork enable_cpu_inplace_mode()
network LiteNetwork use_tensorrt()
network LiteNetwork device_id property=
network LiteNetwork stream_id property=
network LiteNetwork threads_number property=
network LiteNetwork get_io_tensor(name, phase=LiteTensorPhase.LITE_IO)
network LiteNetwork get_discrete_tensor(name, n_idx, phase=LiteTensorPhase.LITE_INPUT)
network LiteNetwork get_input_name(index)
network LiteNetwork get_output_name(index)
network LiteNetwork get_all_input_name()
network LiteNetwork get_all_output_name()
network LiteNetwork extra_configure(extra_config)
network LiteNetwork share_weights_with(src_network)
network LiteNetwork share_runtime_memroy(src_network)
network LiteNetwork async_with_callback(async_callback)
network LiteNetwork set_start_callback(start_callback)
network LiteNetwork set_finish_callback(finish_callback)
network LiteNetwork enable_profile_performance(profile_file)
network LiteNetwork set_network_algo_workspace_limit(size_limit)
network LiteNetwork set_network_algo_policy(policy, shared_batch_size=0, binary_equal_between_batch=False)
network LiteNetwork io_txt_dump(txt_file)
network LiteNetwork io_bin_dump(bin_dir)
network LiteNetwork get_static_memory_alloc_info(log_dir='logs/test')
network LiteNetwork enable_global_layout_transform()
network LiteNetwork dump_layout_transform_model(model_file)
network - wrap_async_callback(func)
network - start_finish_callback(func)
network - get_model_io_info(model_path, config=None)
tensor LiteLayout __init__(shape=None, dtype=None)
tensor LiteLayout dtype property
tensor LiteLayout shapes property=
tensor LiteLayout __repr__()
tensor LiteTensor __init__(layout=None, device_type=CPU, device_id=0, is_pinned_host=False, shapes=None, dtype=None, @)
tensor LiteTensor fill_zero()
tensor LiteTensor share_memory_with(src_tensor)
tensor LiteTensor layout property=
tensor LiteTensor is_pinned_host property
tensor LiteTensor device_type property
tensor LiteTensor device_id property
tensor LiteTensor is_continue property
tensor LiteTensor nbytes property
tensor LiteTensor update()
tensor LiteTensor copy_from(src_tensor)
tensor LiteTensor reshape(shape)
tensor LiteTensor slice(start, end, step=None)
tensor LiteTensor get_ctypes_memory()
tensor LiteTensor set_data_by_share(data, length=0, layout=None)
tensor LiteTensor set_data_by_copy(data, data_length=0, layout=None)
tensor LiteTensor get_data_by_share()
tensor LiteTensor to_numpy()
tensor LiteTensor __repr__()
tensor - LiteTensorConcat(tensors, dim, device_type=LiteDeviceType.LITE_DEVICE_DEFAULT, device_id=-1)
tensor - lite_dtype_2_numpy(dtype)
utils TensorBatchCollector __init__(shape, dtype=LiteDataType.LITE_INT8, device_type=CUDA, device_id=0, is_pinned_host=False, +)
utils TensorBatchCollector collect_id(array, batch_id)
utils TensorBatchCollector _collect_with_id(array, batch_id)
utils TensorBatchCollector collect(array)
utils TensorBatchCollector collect_by_ctypes(data, length)
utils TensorBatchCollector free(indexes)
utils TensorBatchCollector get_tensor_at(idx)
utils TensorBatchCollector get()
utils TensorBatchCollector to_numpy()
"""
LONG = {"@": "physic_construct=True", "+": "tensor=None"}
MEMBERS = [line.split(maxsplit=2) for line in SURFACE.split("\n") if line]

# The last are not the vendor's: see LiteDeviceType and LiteDataType.
ENUMS: dict[str, dict[str, int]] = {
    "LiteBackend": {"LITE_DEFAULT": 0},
    "LiteDeviceType": {
        "LITE_CPU": 0,
        "LITE_CUDA": 1,
        "LITE_ATLAS": 3,
        "LITE_NPU": 4,
        "LITE_DEVICE_DEFAULT": 5,
        "LITE_CAMBRICON": 6,
    },
    "LiteDataType": {
        "LITE_FLOAT": 0,
        "LITE_HALF": 1,
        "LITE_INT": 2,
        "LITE_INT16": 3,
        "LITE_INT8": 4,
        "LITE_UINT8": 5,
        "LITE_UINT16": 6,
        "LITE_INT64": 8,
    },
    "LiteTensorPhase": {"LITE_IO": 0, "LITE_INPUT": 1, "LITE_OUTPUT": 2},
    "LiteIOType": {"LITE_IO_VALUE": 0, "LITE_IO_SHAPE": 1},
    "LiteAlgoSelectStrategy": {
        "LITE_ALGO_HEURISTIC": 1,
        "LITE_ALGO_PROFILE": 2,
        "LITE_ALGO_REPRODUCIBLE": 4,
        "LITE_ALGO_OPTIMIZED": 8,
    },
    "LiteLogLevel": {"DEBUG": 0, "INFO": 1, "WARN": 2, "ERROR": 3},
}

FIELDS = {
    "LiteLayout": "_shapes ndim data_type",
    "LiteOptions": (
        "weight_preprocess fuse_preprocess fake_next_exec var_sanity_check_first_run const_shape force_dynamic_alloc "
        "force_output_dynamic_alloc force_output_use_user_specified_memory no_profiling_on_shape_change jit_level "
        "comp_node_seq_record_level graph_opt_level async_exec_level enable_nchw44 enable_nchw44_dot enable_nchw88 "
        "enable_nhwcd4 enable_nchw4 enable_nchw32 enable_nchw64"
    ),
    "LiteConfig": (
        "has_compression device_id device_type backend _bare_model_cryption_name options auto_optimize_inference "
        "discrete_input_name"
    ),
    "LiteExtraConfig": "disable_configure_by_model_info",
    "LiteIO": "_name is_host io_type config_layout",
}

OTHERS = {
    "base": "version",
    "global_setting": "LiteDecryptionFunc",
    "network": "LiteAsyncCallback LiteStartCallback LiteFinishCallback",
    "tensor": "MAX_DIM ctype_to_lite_dtypes",
}


def shown(function: Any, method: bool) -> str:
    """Return the parameters as the table has them."""
    found = []
    for parameter in list(inspect.signature(function).parameters.values())[method:]:
        default = parameter.default
        text = str(default) if not isinstance(default, enum.Enum) else f"{type(default).__name__}.{default.name}"
        if isinstance(default, str):
            text = repr(default)
        found.append(parameter.name if default is parameter.empty else f"{parameter.name}={text}")
    return f"({', '.join(found)})"


@pytest.mark.parametrize(("module", "owner", "member"), MEMBERS, ids=lambda text: text.partition("(")[0])
def test_member(module: str, owner: str, member: str) -> None:
    place: Any = importlib.import_module(f"triune.megenginelite.{module}")
    if owner != "-":
        place = getattr(place, owner)
        assert getattr(lite, owner) is place, "the package has what its modules have"
    name, _, kind = member.partition(" ") if " property" in member else member.partition("(")
    found = inspect.getattr_static(place, name)
    if kind.startswith("property"):
        assert isinstance(found, property)
        assert (found.fset is not None) == kind.endswith("=")
        return
    static = isinstance(found, staticmethod)
    assert static == (owner == "LiteGlobal")
    expected = kind.replace("=CPU", f"={CPU}").replace("=CUDA", f"={CUDA}")
    for short, text in LONG.items():
        expected = expected.replace(short, text)
    assert shown(getattr(place, name), owner != "-" and not static) == f"({expected}"
    if owner == "-":
        assert getattr(lite, name) is found


@pytest.mark.parametrize("name", ENUMS)
def test_enumeration(name: str) -> None:
    found = getattr(lite, name)
    assert issubclass(found, enum.IntEnum)
    assert found.__module__ == "triune.megenginelite.struct"
    assert {member.name: member.value for member in found} == ENUMS[name]


@pytest.mark.parametrize("name", FIELDS)
def test_structure(name: str) -> None:
    found = getattr(lite, name)
    assert issubclass(found, ctypes.Structure)
    assert [field for field, _ in found._fields_] == FIELDS[name].split()


@pytest.mark.parametrize("module", OTHERS)
def test_other_names(module: str) -> None:
    for name in OTHERS[module].split():
        assert getattr(importlib.import_module(f"triune.megenginelite.{module}"), name) is getattr(lite, name)


def test_attributes() -> None:
    network, tensor = lite.LiteNetwork(), lite.LiteTensor()
    assert isinstance(network.config, lite.LiteConfig)
    assert isinstance(network.network_io, lite.LiteNetworkIO)
    assert network.model_bytes is None
    assert ctypes.sizeof(tensor.np_array_type) == 4
    assert lite.MAX_DIM == 7
    assert lite.__version__ == lite.version == lite.base.version


def test_every_name_is_exported_once() -> None:
    assert sorted(set(lite.__all__)) == sorted(lite.__all__)
    namespace: dict[str, Any] = {}
    exec("from triune.megenginelite import *", namespace)
    assert set(lite.__all__) <= set(namespace)
    # The vendor's modules have everything of ctypes, which programs take from there.
    assert namespace["c_int"] is ctypes.c_int
    assert {"POINTER", "Structure", "byref", "cast", "memmove", "sizeof", "c_void_p"} <= set(namespace)


def test_config_env(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_MODULE_LOADING", raising=False)
    monkeypatch.setenv("ALREADY_CONFIG_CUDA_LOADING_MODE", "1")
    lite.config_env()
    import os

    assert "CUDA_MODULE_LOADING" not in os.environ
    monkeypatch.delenv("ALREADY_CONFIG_CUDA_LOADING_MODE")
    lite.config_env()
    assert os.environ["CUDA_MODULE_LOADING"] == "LAZY"
    assert "ALREADY_CONFIG_CUDA_LOADING_MODE" in os.environ
