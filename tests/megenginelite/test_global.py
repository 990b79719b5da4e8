"""`LiteGlobal`, and decryptions that programs bring."""

from __future__ import annotations

import ctypes
import os
import threading
from pathlib import Path
from typing import Any

import lite_models as models
import numpy as np
import pytest

from triune.megenginelite import (
    LiteConfig,
    LiteDecryptionFunc,
    LiteDeviceType,
    LiteGlobal,
    LiteNetwork,
    _ciphers,
    decryption_func,
    global_setting,
)

CPU, NPU = LiteDeviceType.LITE_CPU, LiteDeviceType.LITE_NPU


@pytest.fixture(autouse=True)
def own_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test settings of its own."""
    monkeypatch.setattr(_ciphers, "_functions", {})
    monkeypatch.setattr(_ciphers, "_keys", {})
    monkeypatch.setattr(global_setting, "_PAIRS", {})
    monkeypatch.setattr(global_setting, "_tensorrt_cache", None)
    monkeypatch.setattr(global_setting, "_persistent_cache", bytes(4))


def test_device_count(monkeypatch: pytest.MonkeyPatch) -> None:
    assert LiteGlobal.get_device_count(CPU) == os.cpu_count()
    assert LiteGlobal.get_device_count(LiteDeviceType.LITE_CUDA) == 1
    monkeypatch.delenv("TRIUNE_LITE_DEVICES")
    assert LiteGlobal.get_device_count(LiteDeviceType.LITE_CUDA) == 0
    assert LiteGlobal.get_device_count(LiteDeviceType.LITE_ATLAS) == 0
    assert LiteGlobal.get_device_count(LiteDeviceType.LITE_CAMBRICON) == 0
    assert LiteGlobal.get_device_count(NPU) == 1
    monkeypatch.setenv("TRIUNE_LITE_DEVICES", "cuda=4 atlas=2 npu=metis,zg330,metis")
    assert [LiteGlobal.get_device_count(kind) for kind in (1, 3, 4)] == [4, 2, 3]
    for wrong in ("cuda", "cuda=-1", "gpu=1", "atlas=999", "cuda=1,atlas=1"):
        monkeypatch.setenv("TRIUNE_LITE_DEVICES", wrong)
        with pytest.raises(RuntimeError, match="TRIUNE_LITE_DEVICES"):
            [LiteGlobal.get_device_count(kind) for kind in (1, 3)]
    with pytest.raises(RuntimeError, match="LiteDeviceType"):
        LiteGlobal.get_device_count(99)


def test_caches(tmp_path: Path) -> None:
    LiteGlobal.set_persistent_cache(str(tmp_path / "missing"), always_sync=True)
    LiteGlobal.dump_persistent_cache(tmp_path / "dumped")
    assert (tmp_path / "dumped").read_bytes() == bytes(4), "no category"
    (tmp_path / "cache").write_bytes(b"what the real library searched")
    LiteGlobal.set_persistent_cache(tmp_path / "cache")
    LiteGlobal.dump_persistent_cache(tmp_path / "dumped")
    assert (tmp_path / "dumped").read_bytes() == b"what the real library searched"
    for fail in (
        lambda: LiteGlobal.set_persistent_cache(tmp_path),
        lambda: LiteGlobal.dump_persistent_cache(tmp_path / "no" / "cache"),
    ):
        with pytest.raises(RuntimeError, match="persistent_cache"):
            fail()


def test_tensorrt_cache(tmp_path: Path) -> None:
    """The vendor's binding looks for symbols that its library does not have."""
    with pytest.raises(RuntimeError, match="set_tensorrt_cache first"):
        LiteGlobal.dump_tensorrt_cache()
    (tmp_path / "trt").write_bytes(b"engine")
    LiteGlobal.set_tensorrt_cache(str(tmp_path / "trt"))
    LiteGlobal.dump_tensorrt_cache()
    assert (tmp_path / "trt").read_bytes() == b"engine"
    LiteGlobal.set_tensorrt_cache(tmp_path / "no" / "trt")
    with pytest.raises(RuntimeError, match="dump_tensorrt_cache"):
        LiteGlobal.dump_tensorrt_cache()


def test_loader_libraries(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    library = tmp_path / "lib.so"
    with pytest.raises(RuntimeError, match=r"set_loader_lib_path.*lib\.so: No such file"):
        LiteGlobal.set_loader_lib_path(str(library))
    with pytest.raises(RuntimeError, match="set_loader_lib_path"):
        LiteGlobal.set_loader_lib_path(tmp_path)
    library.touch()
    with pytest.raises(RuntimeError, match="is no shared library"):
        LiteGlobal.set_loader_lib_path(library)
    # A program that sets one runs; that nothing loads it is said.
    library.write_bytes(b"\x7fELF...")
    LiteGlobal.set_loader_lib_path(library)
    assert "not loaded" in caplog.records[-1].message


def test_free_memory() -> None:
    LiteGlobal.try_coalesce_all_free_memory()


def test_memory_pairs() -> None:
    """On the host, too, where the vendor's library has them not implemented."""
    for device in (CPU, NPU):
        LiteGlobal.register_memory_pair(ctypes.c_void_p(0x1000), ctypes.c_void_p(0x9000), 0x100, device)
    LiteGlobal.register_memory_pair(0x2000, 0x5000, 0x10, CPU)
    assert isinstance(LiteGlobal.lookup_physic_ptr(0x1000, CPU), ctypes.c_void_p)
    assert LiteGlobal.lookup_physic_ptr(0x1000, CPU).value == 0x9000
    assert LiteGlobal.lookup_physic_ptr(ctypes.c_void_p(0x10FF), NPU).value == 0x90FF
    LiteGlobal.register_memory_pair(0x1000, 0x8000, 0x100, CPU)
    assert LiteGlobal.lookup_physic_ptr(0x1001, CPU).value == 0x8001, "the last one counts"
    for missing in (0x0FFF, 0x1100):
        with pytest.raises(RuntimeError, match="no registered pair"):
            LiteGlobal.lookup_physic_ptr(missing, CPU)
    with pytest.raises(RuntimeError, match="overlaps"):
        LiteGlobal.register_memory_pair(0x0FFF, 0x7000, 2, CPU)
    with pytest.raises(RuntimeError, match="no pair"):
        LiteGlobal.clear_memory_pair(0x1000, 0x9000, CPU)
    LiteGlobal.clear_memory_pair(0x1000, 0x8000, CPU)
    with pytest.raises(RuntimeError, match="no registered pair"):
        LiteGlobal.lookup_physic_ptr(0x1000, CPU)
    assert LiteGlobal.lookup_physic_ptr(0x1000, NPU).value == 0x9000
    for wrong in (0, ctypes.c_void_p(), "x"):
        with pytest.raises(RuntimeError, match="vir_ptr"):
            LiteGlobal.register_memory_pair(wrong, 1, 1, CPU)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="length"):
        LiteGlobal.register_memory_pair(1, 1, 0, CPU)
    with pytest.raises(RuntimeError, match="backend"):
        LiteGlobal.lookup_physic_ptr(0x1000, CPU, 5)


def test_memory_pairs_in_many_threads() -> None:
    def work(number: int) -> None:
        for _ in range(50):
            LiteGlobal.register_memory_pair(0x10000 * number, 0x5000 * number, 16, CPU)
            assert LiteGlobal.lookup_physic_ptr(0x10000 * number + 3, CPU).value == 0x5000 * number + 3
            LiteGlobal.clear_memory_pair(0x10000 * number, 0x5000 * number, CPU)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# ---- decryptions that programs bring


def flipped(path: Path, key: int) -> Path:
    """Write a model with every byte changed by a key."""
    models.add(path, [2, 3])
    path.write_bytes(bytes(byte ^ key for byte in path.read_bytes()))
    return path


@decryption_func
def flip(in_arr: Any, key_arr: Any, out_arr: Any) -> int:
    """Undo `flipped`."""
    if not out_arr:
        return int(in_arr.size)
    np.bitwise_xor(in_arr, key_arr[0], out=out_arr)
    return int(out_arr.size)


def encrypted(name: str) -> LiteNetwork:
    config = LiteConfig()
    config.bare_model_cryption_name = name
    return LiteNetwork(config)


def test_register_and_update(tmp_path: Path) -> None:
    model = flipped(tmp_path / "model", 15)
    with pytest.raises(RuntimeError, match="there is no decryption 'mine'"):
        encrypted("mine").load(model)
    LiteGlobal.register_decryption_and_key("mine", flip, [14])
    with pytest.raises(RuntimeError):
        encrypted("mine").load(model)
    LiteGlobal.update_decryption_key("mine", [])
    with pytest.raises(RuntimeError):
        encrypted("mine").load(model)
    LiteGlobal.update_decryption_key("mine", b"\x0f")
    network = encrypted("mine")
    network.load(model)
    assert network.get_all_output_name() == ["c"]
    with model.open("rb") as file:
        encrypted("mine").load(file)
    for name in ("mine", "AES_default"):
        with pytest.raises(RuntimeError, match="already"):
            LiteGlobal.register_decryption_and_key(name, flip, [1])
    with pytest.raises(RuntimeError, match="there is no decryption 'other'"):
        LiteGlobal.update_decryption_key("other", [1])
    for key in ([256], [-1], ["x"], 3):
        with pytest.raises(RuntimeError, match="key"):
            LiteGlobal.update_decryption_key("mine", key)  # type: ignore[arg-type]
    for name, size in (("AES_default", 32), ("RC4_default", 16), ("SIMPLE_FAST_RC4_default", 16)):
        with pytest.raises(RuntimeError, match=f"{size} bytes"):
            LiteGlobal.update_decryption_key(name, [1])
    for function in (None, 3):
        with pytest.raises(RuntimeError, match="function"):
            LiteGlobal.register_decryption_and_key("another", function, [1])  # type: ignore[arg-type]
        with pytest.raises(RuntimeError, match="function"):
            decryption_func(function)  # type: ignore[arg-type]


def test_a_decryption_in_c(tmp_path: Path) -> None:
    model = flipped(tmp_path / "model", 15)

    @LiteDecryptionFunc
    def function(data: Any, size: int, key: Any, key_size: int, out: Any) -> int:
        if out:
            source, target = (ctypes.cast(p, ctypes.POINTER(ctypes.c_uint8)) for p in (data, out))
            for i in range(size):
                target[i] = source[i] ^ key[0]
        return size

    LiteGlobal.register_decryption_and_key("in_c", function, [15])
    network = encrypted("in_c")
    network.load(model)
    assert network.get_all_output_name() == ["c"]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (lambda *_: None, "size of the result"),
        (lambda *_: -1, "size from 0"),
        (lambda *_: 2**60, "size from 0"),
        (lambda in_arr, key, out: in_arr.size if out is None else in_arr.size + 1, "size from 0"),
        (lambda *_: 0, "."),
    ],
)
def test_decryptions_that_are_wrong(tmp_path: Path, answer: Any, error: str) -> None:
    LiteGlobal.register_decryption_and_key("wrong", answer, [1])
    with pytest.raises(RuntimeError, match=error):
        encrypted("wrong").load(flipped(tmp_path / "model", 1))


def test_exceptions_of_a_decryption_come_out(tmp_path: Path) -> None:
    def fail(*_: Any) -> int:
        raise KeyError("mine")

    LiteGlobal.register_decryption_and_key("failing", fail, [1])
    with pytest.raises(KeyError, match="mine"):
        encrypted("failing").load(flipped(tmp_path / "model", 1))
