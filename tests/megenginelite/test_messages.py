"""What a program is told: in the log where the vendor's library is silent, and in errors that name thing and cure."""

from __future__ import annotations

import copy
import io
import logging
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lite_models as models
import numpy as np
import pytest

from triune import _native
from triune.megenginelite import (
    LiteConfig,
    LiteDeviceType,
    LiteExtraConfig,
    LiteGlobal,
    LiteIO,
    LiteIOType,
    LiteLayout,
    LiteNetwork,
    LiteNetworkIO,
    LiteOptions,
    LiteTensor,
    LiteTensorConcat,
    TensorBatchCollector,
    get_model_io_info,
)

SIZES = {"AES_default": 32, "RC4_default": 16, "SIMPLE_FAST_RC4_default": 16}


@pytest.fixture(autouse=True)
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """Have all that is logged."""
    caplog.set_level(logging.INFO, "megenginelite")
    return caplog


def loaded(model: Path, config: LiteConfig | None = None, io: LiteNetworkIO | None = None) -> LiteNetwork:
    network = LiteNetwork(config, io)
    network.load(model)
    return network


def warnings(log: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in log.records if record.levelno >= logging.WARNING]


# ---- shared memory that means something else


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.ones((2, 3), "int32"), "int32"),
        (np.ones((3, 2), "float32"), "[3, 2] float32"),
        (np.ones(6, "int32"), "int32"),
        (np.ones((2, 3), "float32"), ""),
        (np.ones((1, 2, 1, 3), "float32"), ""),
        (np.ones(6, "float32"), ""),
        (np.ones(24, "uint8"), ""),
    ],
)
def test_shared_elements_that_are_taken_for_others(
    adder: Path, array: Any, said: str, log: pytest.LogCaptureFixture
) -> None:
    tensor = loaded(adder).get_io_tensor("a")
    for _ in range(3):
        tensor.set_data_by_share(array)
    assert tensor.layout == LiteLayout([2, 3])
    assert len(warnings(log)) == bool(said)
    if said:
        assert said in warnings(log)[0]
        assert "input 'a'" in warnings(log)[0]


def test_output_memory_of_another_type_is_refused(adder: Path) -> None:
    network = loaded(adder)
    network.get_io_tensor("c").set_data_by_share(np.zeros((2, 3, 2), "int32"))
    with pytest.raises(RuntimeError, match=r"output 'c': the model gives float32, .* is of int32"):
        network.forward()


def test_output_memory_that_is_too_small(adder: Path, log: pytest.LogCaptureFixture) -> None:
    network = loaded(adder)
    small = np.full(2, 7, "float32")
    for name in "ab":
        network.get_io_tensor(name).set_data_by_copy(np.ones((2, 3), "float32"))
    network.get_io_tensor("c").set_data_by_share(small)
    for _ in range(2):
        network.forward()
    assert network.get_io_tensor("c").to_numpy().tolist() == [[2] * 3] * 2
    assert small.tolist() == [7, 7]
    assert len(warnings(log)) == 1
    assert "has 8 bytes, the results 24" in warnings(log)[0]


# ---- open shapes


def test_open_shapes_are_told(flexible: Path, tmp_path: Path) -> None:
    network = loaded(flexible)
    tensor = network.get_io_tensor("data")
    assert tensor.layout.shapes == []
    assert network.get_model_shape("data") == [-1, 3, -1, -1]
    assert network.get_model_shape("prob") == [-1, 10]
    with pytest.raises(RuntimeError, match=r"there is no tensor 'x' in net.onnx; there are 'data', 'prob'"):
        network.get_model_shape("x")
    shape = re.escape("[-1, 3, -1, -1]")
    scalar = np.zeros(tensor.layout.shapes, "float32")
    for give in (tensor.set_data_by_copy, tensor.set_data_by_share):
        with pytest.raises(RuntimeError, match=f"without axes .*'data' is open in net.onnx: {shape}"):
            give(scalar)
    for touch in (tensor.fill_zero, network.forward):
        with pytest.raises(RuntimeError, match=shape):
            touch()
    with pytest.raises(RuntimeError, match=f"{shape}; set data, tensor.layout, or a LiteIO's layout"):
        network.get_static_memory_alloc_info(tmp_path / "none")
    assert get_model_io_info(flexible).inputs[0].config_layout.ndim == 0


def test_shapes_of_megengine_models(test_data: Path) -> None:
    """They have extents to start with, all of which may change; those of outputs are not in the file."""
    network = loaded(test_data / "models" / "mge" / "multi_io.mge")
    for name, axes in (("a", 2), ("sum2", 2), ("dot", 2), ("arg", 1)):
        assert network.get_model_shape(name) == [-1] * axes
        assert len(network.get_io_tensor(name).layout.shapes) == axes


def test_shapes_of_scalars(tmp_path: Path) -> None:
    path = models.write(
        tmp_path / "net.onnx", [("Abs", ["x"], ["y"], {})], [("x", "float32", [])], [("y", "float32", [])]
    )
    network = loaded(path)
    for name in ("x", "y"):
        assert network.get_model_shape(name) == network.get_io_tensor(name).layout.shapes == [1]


def test_memory_is_planned_for_the_layouts_that_are_set(flexible: Path, tmp_path: Path) -> None:
    configured = loaded(flexible, io=LiteNetworkIO([LiteIO("data", layout=LiteLayout([2, 3, 16, 16]))]))
    by_tensor = loaded(flexible)
    by_tensor.get_io_tensor("data").layout = [2, 3, 16, 16]
    image = models.image(2)
    for number, network in enumerate((configured, by_tensor)):
        folder = tmp_path / str(number)
        network.get_static_memory_alloc_info(folder)
        network.get_io_tensor("data").set_data_by_copy(image)
        network.forward()
        network.get_static_memory_alloc_info(tmp_path / "after")
        assert (folder / "memory.json").read_text() == (tmp_path / "after" / "memory.json").read_text()
        before = network.get_io_tensor("prob").to_numpy()
        # Plans for another layout, while arrays are bound; the next run is as ever.
        network.get_io_tensor("data").layout = [1, 3, 16, 16]
        network.get_static_memory_alloc_info(folder)
        network.get_io_tensor("data").set_data_by_copy(image)
        network.forward()
        assert np.array_equal(network.get_io_tensor("prob").to_numpy(), before)


# ---- files and keys


@pytest.mark.parametrize("cipher", SIZES)
def test_wrong_keys_are_named(classifier: Path, tmp_path: Path, cipher: str) -> None:
    model = classifier.read_bytes()
    key = bytes(SIZES[cipher])
    encrypted = _native.encrypt(cipher, model, key)
    packed = _native.pack_model("x", encrypted, model_decryption=cipher)
    info = _native.encrypt(cipher, b'{"name": "x"}', key)
    sealed = _native.pack_model("x", model, info=info, info_decryption=cipher)
    for content, name in ((packed, "packed model 'x'"), (sealed, "packed model 'x'"), (encrypted, "net.enc")):
        file = tmp_path / "net.enc"
        file.write_bytes(content)
        config = LiteConfig()
        if content is encrypted:
            config.bare_model_cryption_name = cipher
        with pytest.raises(RuntimeError) as error:
            loaded(file, config)
        for word in (name, cipher, "key"):
            assert word in str(error.value)


@pytest.mark.parametrize("cipher", SIZES)
def test_plain_models_are_not_decrypted(classifier: Path, tmp_path: Path, cipher: str) -> None:
    for content, said in (
        (b"\1\0\0\0\2\0\0\0mgv2" + bytes(9), "plain MegEngine model"),
        (b"x" * 9, "may not be encrypted"),
    ):
        (tmp_path / "net.mge").write_bytes(content)
        config = LiteConfig()
        config.bare_model_cryption_name = cipher
        with pytest.raises(RuntimeError, match=f"net.mge: {cipher}.*{said}"):
            loaded(tmp_path / "net.mge", config)


@pytest.mark.parametrize("cipher", ["", "AES_default"])
def test_empty_files(tmp_path: Path, cipher: str) -> None:
    (tmp_path / "net.mge").write_bytes(b"")
    config = LiteConfig()
    config.bare_model_cryption_name = cipher
    with pytest.raises(RuntimeError, match=r"invalid model format: net.mge is empty"):
        loaded(tmp_path / "net.mge", config)
    with pytest.raises(RuntimeError, match="invalid model format: the model is empty"):
        LiteNetwork(config).load(io.BytesIO())


# ---- configuration


def test_fields_that_are_not_there() -> None:
    config = LiteConfig()
    with pytest.raises(AttributeError, match="LiteOptions has no field 'graph_opt_lvl'; did you mean graph_opt_level"):
        config.options.graph_opt_lvl = 1  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="LiteConfig has no field 'device'; did you mean device_id"):
        config.device = 1  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="LiteIO has no field 'zzz'; there are config_layout"):
        LiteIO("a").zzz = 1  # type: ignore[attr-defined]
    config.options.enable_chwn4 = 1

    class Mine(LiteConfig):
        """With a field of its own."""

    mine = Mine()
    mine.note = "kept"  # type: ignore[attr-defined]
    assert mine.note == "kept"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "most"), [("jit_level", 2), ("comp_node_seq_record_level", 2), ("graph_opt_level", 3)]
)
def test_levels_have_a_range(adder: Path, name: str, most: int) -> None:
    config = LiteConfig()
    for level in range(most + 1):
        setattr(config.options, name, level)
        loaded(adder, config)
    for level in (-1, most + 1):
        setattr(config.options, name, level)
        with pytest.raises(RuntimeError, match=f"{name}: expected a level from 0 to {most}, got {level}"):
            loaded(adder, config)


def test_threads_in_inplace_mode(adder: Path, log: pytest.LogCaptureFixture) -> None:
    network = LiteNetwork()
    network.threads_number = 2
    network.enable_cpu_inplace_mode()
    network.load(adder)
    assert any("threads_number=2 has no effect" in said for said in warnings(log))


def test_names_that_the_model_does_not_have(adder: Path, log: pytest.LogCaptureFixture) -> None:
    loaded(adder, io=LiteNetworkIO([LiteIO("x")], [LiteIO("y")]))
    first, second = warnings(log)
    assert "add.onnx has no input 'x'" in first
    assert first.endswith("there are 'a', 'b'")
    assert "output 'y'" in second
    assert second.endswith("there are 'c'")


def test_values_of_an_output_that_is_wanted_for_its_shape(adder: Path, log: pytest.LogCaptureFixture) -> None:
    network = loaded(adder, io=LiteNetworkIO(outputs=[LiteIO("c", io_type=LiteIOType.LITE_IO_SHAPE)]))
    for name in "ab":
        network.get_io_tensor(name).set_data_by_copy(np.ones((2, 3), "float32"))
    network.forward()
    assert not warnings(log)
    for _ in range(2):
        assert not network.get_io_tensor("c").to_numpy().any()
    assert len(warnings(log)) == 1
    assert "output 'c' is LITE_IO_SHAPE: only its layout is set" in warnings(log)[0]


def test_tensors_of_an_earlier_load(adder: Path, log: pytest.LogCaptureFixture) -> None:
    network = loaded(adder)
    old = network.get_io_tensor("a")
    network.load(adder)
    network.get_io_tensor("a").fill_zero()
    assert not warnings(log)
    for _ in range(2):
        old.set_data_by_copy(np.ones((2, 3), "float32"))
    assert len(warnings(log)) == 1
    assert "no network reads it any more" in warnings(log)[0]


def test_the_log_names_the_model(adder: Path, log: pytest.LogCaptureFixture) -> None:
    config = LiteConfig()
    config.options.jit_level = 1
    loaded(adder, config).forward()
    assert "add.onnx: input 'a' was never set: it is zero" in warnings(log)
    assert any(record.getMessage().startswith("add.onnx: jit_level=1: no effect") for record in log.records)


# ---- devices


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cuda", "'cuda' is not understood"),
        ("cuda=1 gpu=2", "'gpu=2' is not understood"),
        ("cuda=1 cuda=2", "cuda is there twice"),
        ("atlas=65", "'65' is no number from 0 to 64"),
        ("atlas=-1", "'-1' is no number"),
        ("cuda=²", "'²' is no number"),
        ("npu=metis,", "a name is empty"),
    ],
)
def test_the_devices_variable_is_read_as_a_whole(text: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever kind of device is asked for, an error anywhere is told."""
    monkeypatch.setenv("TRIUNE_LITE_DEVICES", text)
    for kind in (LiteDeviceType.LITE_CUDA, LiteDeviceType.LITE_ATLAS, LiteDeviceType.LITE_NPU):
        with pytest.raises(RuntimeError, match=f"TRIUNE_LITE_DEVICES: .*{re.escape(said)}.*npu=NAME,NAME"):
            LiteGlobal.get_device_count(kind)
    assert LiteGlobal.get_device_count(LiteDeviceType.LITE_CPU) > 0


def test_float_models_on_an_npu(classifier: Path, flexible: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIUNE_LITE_DEVICES", "npu=metis")
    said = "LITE_NPU: net.onnx has no 8-bit operators .*LITE_CPU"
    with pytest.raises(RuntimeError, match=said):
        loaded(classifier, LiteConfig(LiteDeviceType.LITE_NPU))
    network = loaded(flexible, LiteConfig(LiteDeviceType.LITE_NPU))
    network.get_io_tensor("data").set_data_by_copy(models.image())
    with pytest.raises(RuntimeError, match=said):
        network.forward()


# ---- arguments


@pytest.mark.parametrize(
    ("call", "kind", "said"),
    [
        (lambda: setattr(LiteConfig(), "device_id", "0"), TypeError, "LiteConfig.device_id"),
        (lambda: setattr(LiteOptions(), "jit_level", 1.5), TypeError, "LiteOptions.jit_level"),
        (lambda: setattr(LiteConfig(), "discrete_input_name", "data"), TypeError, "LiteConfig.discrete_input_name"),
        (lambda: LiteConfig("cpu"), TypeError, "LiteConfig.device_type"),  # type: ignore[arg-type]
        (lambda: LiteConfig(0, {}), TypeError, "LiteConfig.options"),  # type: ignore[arg-type]
        (lambda: LiteExtraConfig("x"), TypeError, "disable_configure_by_model_info"),  # type: ignore[arg-type]
        (lambda: LiteIO("a", layout=[1, 2]), TypeError, "LiteIO.config_layout"),  # type: ignore[arg-type]
        (lambda: LiteNetworkIO(5), TypeError, "LiteNetworkIO: inputs"),  # type: ignore[arg-type]
        (lambda: LiteNetworkIO(outputs=[["a", 1, 2, 3, 4]]), TypeError, "arguments of a LiteIO"),
        (lambda: LiteNetwork({}), AssertionError, "config: expected a LiteConfig, got dict"),  # type: ignore[arg-type]
        (lambda: LiteNetwork(io=[1]), AssertionError, "io: expected a LiteNetworkIO, got list"),  # type: ignore[arg-type]
        (lambda: LiteTensor(device_type=1, device_id="x"), TypeError, "device_id"),  # type: ignore[arg-type]
        (lambda: LiteTensor(LiteLayout([2])).slice(0, 1), TypeError, "slice: start"),  # type: ignore[arg-type]
        (lambda: LiteTensor(LiteLayout([2])).slice([0], ["x"]), TypeError, "slice: end"),  # type: ignore[list-item]
        (lambda: LiteTensor(LiteLayout([2])).set_data_by_copy(["x"]), TypeError, "set_data_by_copy: .* float32"),
        (lambda: LiteTensorConcat(5, 0), TypeError, "LiteTensorConcat: tensors"),  # type: ignore[arg-type]
        (lambda: LiteTensorConcat([LiteTensor(LiteLayout([2]))], "x"), TypeError, "dim"),  # type: ignore[arg-type]
        (lambda: TensorBatchCollector(5), TypeError, "TensorBatchCollector: shape"),  # type: ignore[arg-type]
        (lambda: TensorBatchCollector([2, 2]).free(0), TypeError, "free: indexes"),  # type: ignore[arg-type]
        (lambda: TensorBatchCollector([2, 2]).get_tensor_at("x"), TypeError, "number of a batch"),  # type: ignore[arg-type]
        (lambda: LiteGlobal.set_loader_lib_path(5), TypeError, "set_loader_lib_path"),  # type: ignore[arg-type]
        (lambda: LiteGlobal.set_persistent_cache(None), TypeError, "set_persistent_cache"),  # type: ignore[arg-type]
        (lambda: LiteGlobal.register_memory_pair(1, 1, "x", 0), TypeError, "length"),  # type: ignore[arg-type]
    ],
)
def test_arguments_are_named(call: Callable[[], Any], kind: type[Exception], said: str) -> None:
    with pytest.raises(kind, match=said):
        call()


def test_arguments_of_a_network_are_named(adder: Path) -> None:
    network = loaded(adder)
    wrong: Any = "x"
    with pytest.raises(TypeError, match="get_input_name: index"):
        network.get_input_name(wrong)
    with pytest.raises(TypeError, match="get_output_name: index"):
        network.get_output_name(wrong)
    with pytest.raises(RuntimeError, match="phase: expected a LiteTensorPhase, got 'x'"):
        network.get_io_tensor("a", wrong)
    wrong = 5
    for call in (network.enable_profile_performance, network.io_txt_dump, network.get_static_memory_alloc_info):
        with pytest.raises(TypeError, match=f"{call.__name__}: expected a path, got int"):
            call(wrong)


def test_a_finish_callback_is_called_once_for_the_runs_before_a_wait(adder: Path) -> None:
    network = loaded(adder)
    seen: list[int] = []
    network.set_finish_callback(lambda ios: seen.append(len(ios)))
    network.forward()
    network.forward()
    assert not seen
    for _ in range(2):
        network.wait()
    assert seen == [1]


# ---- what is no model, no name, no layout


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    network = LiteNetwork()
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(RuntimeError, match="not a plain file"):
            network.load(path)
    with pytest.raises(RuntimeError, match="null byte"):
        network.load("net\0.mge")
    with pytest.raises(RuntimeError, match="/proc/self/mem"):
        network.load("/proc/self/mem")
    with pytest.raises(FileNotFoundError):
        network.load(tmp_path / "none")


def test_names_that_are_no_text(adder: Path, tmp_path: Path) -> None:
    for name in ("\ud800", b"\xff"):
        with pytest.raises(RuntimeError, match="is no name"):
            LiteIO(name)
    network = loaded(adder)
    for call in (network.get_io_tensor, network.get_model_shape):
        with pytest.raises(RuntimeError, match="there is no tensor"):
            call(b"\xff")
    with pytest.raises(RuntimeError, match="is no discrete input"):
        network.get_discrete_tensor(b"\xff", 0)
    info = b'{"name": "x", "IO": {"inputs": [{"name": "\\ud800"}]}}'
    (tmp_path / "net.lite").write_bytes(_native.pack_model("x", adder.read_bytes(), info=info))
    with pytest.raises(RuntimeError, match="is no name"):
        loaded(tmp_path / "net.lite")


def test_structures_show_what_is_none_of_theirs() -> None:
    layout = LiteLayout([1])
    layout.data_type = 77
    assert "'data_type': 77" in repr(layout)
    with pytest.raises(RuntimeError, match="77 is no LiteDataType"):
        _ = layout.dtype
    config, wish = LiteConfig(77), LiteIO("a", io_type=77)
    assert "'device_type': 77" in repr(config)
    assert "'io_type': 77" in repr(wish)
    assert "LITE_CPU" in repr(LiteConfig())
    assert "LITE_DEVICE_DEFAULT" in repr(LiteConfig(7))


def test_configurations_are_copied_and_pickled() -> None:
    config = LiteConfig(LiteDeviceType.LITE_NPU)
    config.options.jit_level = 1
    config.bare_model_cryption_name = "AES_default"
    wish = LiteIO("data", False, LiteIOType.LITE_IO_SHAPE, LiteLayout([1, 2], "int8"))
    for made in (copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))):
        for value in (config, config.options, wish, LiteExtraConfig(True), LiteNetworkIO([wish])):
            assert repr(made(value)) == repr(value)
    apart = copy.deepcopy(config)
    apart.options.jit_level = 2
    assert config.options.jit_level == 1


def test_tensors_that_change_during_a_run(adder: Path) -> None:
    network = loaded(adder)
    room = LiteTensor(LiteLayout([2, 6]))
    output = network.get_io_tensor("c")
    output.share_memory_with(room.slice([0, 0], [2, 6], [1, 2]))
    network._begin()
    output.share_memory_with(np.zeros((3, 3), "float32"))
    with pytest.raises(RuntimeError, match="'c': its tensor got another layout"):
        network._compute()
    network.get_io_tensor("c").share_memory_with(np.zeros((2, 3), "float32"))
    network.forward()


def test_an_async_forward_while_the_interpreter_ends(adder: Path) -> None:
    program = (
        "import atexit, sys\nfrom triune.megenginelite import *\nnetwork = LiteNetwork()\nnetwork.load(sys.argv[1])\n"
        "network.async_with_callback(lambda: 0)\n"
        "def late():\n"
        "    try:\n        network.forward()\n"
        "    except RuntimeError as error:\n        print(error)\n"
        "    network.async_with_callback(None)\n    network.forward()\n    print('computed')\n"
        "atexit.register(late)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(adder)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "an asynchronous forward cannot start" in done.stdout
    assert done.stdout.endswith("computed\n")


def test_configurations_refuse_what_their_fields_do_not_hold():
    """A number is no address of a text, and one of more than 32 bits is not its low half."""
    config = LiteConfig()
    for value in [7, 2**70, True]:
        with pytest.raises(TypeError, match="discrete_input_name: expected bytes"):
            config.discrete_input_name = value
    with pytest.raises(TypeError, match="first NUL"):
        config.discrete_input_name = b"im\0x"
    for name in ["device_id", "has_compression", "device_type"]:
        for value in [2**31, 2**32 + 1, -(2**31) - 1, 10**5000]:
            with pytest.raises(TypeError, match=f"LiteConfig.{name}: an int of 32 bits"):
                setattr(config, name, value)
    with pytest.raises(TypeError, match="32 bits"):
        LiteConfig(2**32 + 1)
    with pytest.raises(TypeError, match="first NUL"):
        LiteIO("im\0x")
    with pytest.raises(AttributeError) as unknown:
        setattr(LiteOptions(), "a" * 100_000, 1)
    assert len(str(unknown.value)) < 2048
    assert (config.discrete_input_name, config.device_id) == (b"", 0)
    config.discrete_input_name = b"image"
    config.device_id = 2**31 - 1
    assert (config.discrete_input_name, config.device_id) == (b"image", 2**31 - 1)


def test_networks_are_of_their_process() -> None:
    for made in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="LiteNetwork cannot be pickled or copied: load the model in each process"):
            made(LiteNetwork())
