"""Encrypted and packed models, of the vendor's own making where there is test data, of Triune's otherwise."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

import lite_models as models
import mge_files
import numpy as np
import pytest

from triune import _native
from triune.megenginelite import (
    LiteConfig,
    LiteDataType,
    LiteDeviceType,
    LiteExtraConfig,
    LiteGlobal,
    LiteIO,
    LiteIOType,
    LiteLayout,
    LiteNetwork,
    LiteNetworkIO,
    _ciphers,
    get_model_io_info,
)

CIPHERS = ["AES_default", "RC4_default", "SIMPLE_FAST_RC4_default"]


@pytest.fixture(autouse=True)
def own_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test the default keys."""
    monkeypatch.setattr(_ciphers, "_functions", {})
    monkeypatch.setattr(_ciphers, "_keys", {})


def network(cipher: str = "") -> LiteNetwork:
    config = LiteConfig()
    config.bare_model_cryption_name = cipher
    return LiteNetwork(config)


def check(loaded: LiteNetwork, plain: Path) -> None:
    """Compare with the core's results for the plain model."""
    image = models.image()
    loaded.get_io_tensor("data").set_data_by_copy(image)
    loaded.forward()
    loaded.wait()
    assert np.array_equal(loaded.get_io_tensor("prob").to_numpy(), models.expected(plain, data=image)[0])


# ---- encrypted


def test_encrypted(classifier: Path, tmp_path: Path) -> None:
    """The other two ciphers leave bytes behind a file, which MegEngine's models allow and ONNX does not."""
    cipher = "AES_default"
    file = tmp_path / "secret"
    file.write_bytes(_native.encrypt(cipher, classifier.read_bytes()))
    loaded = network(cipher)
    loaded.load(file)
    check(loaded, classifier)
    size = 32
    LiteGlobal.update_decryption_key(cipher, [7] * size)
    with pytest.raises(RuntimeError):
        network(cipher).load(file)
    file.write_bytes(_native.encrypt(cipher, classifier.read_bytes(), bytes([7] * size)))
    loaded = network(cipher)
    loaded.load(file)
    check(loaded, classifier)
    with pytest.raises(RuntimeError):
        network().load(file)


def test_what_is_no_model_may_be_encrypted(classifier: Path, tmp_path: Path) -> None:
    secret = tmp_path / "net.mge"
    secret.write_bytes(_native.encrypt("AES_default", classifier.read_bytes()))
    with secret.open("rb") as opened:
        for file in (secret, opened):
            with pytest.raises(RuntimeError, match=r"invalid model format.*bare_model_cryption_name"):
                network().load(file)
    (tmp_path / "net.onnx").write_bytes(b"?" * 99)
    with pytest.raises(RuntimeError, match=r"net\.onnx: not an ONNX model, or a damaged one") as raised:
        network().load(tmp_path / "net.onnx")
    assert "encrypted" not in str(raised.value)


@pytest.mark.parametrize("cipher", CIPHERS)
@pytest.mark.parametrize("content", [b"", b"x", b"x" * 23, b"x" * 24, b"x" * 999])
def test_what_no_cipher_wrote(tmp_path: Path, cipher: str, content: bytes) -> None:
    (tmp_path / "bad").write_bytes(content)
    with pytest.raises(RuntimeError):
        network(cipher).load(tmp_path / "bad")


def test_update_decryption_key_as_documented(classifier: Path, tmp_path: Path) -> None:
    """The example of the documentation: it changes the key to a wrong one, and back."""
    (tmp_path / "shufflenet_crypt_aes.mge").write_bytes(_native.encrypt("AES_default", classifier.read_bytes()))
    import os
    import unittest

    self: Any = unittest.TestCase()
    self.source_dir = str(tmp_path)

    wrong_key = [0] * 32
    LiteGlobal.update_decryption_key("AES_default", wrong_key)

    with self.assertRaises(RuntimeError):  # noqa: PT027
        config = LiteConfig()
        config.bare_model_cryption_name = "AES_default".encode("utf-8")  # type: ignore[assignment]  # noqa: UP012
        network = LiteNetwork(config)
        model_path = os.path.join(self.source_dir, "shufflenet_crypt_aes.mge")
        network.load(model_path)

    right_key = [i for i in range(32)]  # noqa: C416
    LiteGlobal.update_decryption_key("AES_default", right_key)

    config = LiteConfig()
    config.bare_model_cryption_name = "AES_default".encode("utf-8")  # type: ignore[assignment]  # noqa: UP012
    network = LiteNetwork(config)
    model_path = os.path.join(self.source_dir, "shufflenet_crypt_aes.mge")
    network.load(model_path)

    check(network, classifier)


# ---- packed

INFO: dict[str, Any] = {
    "name": "net",
    "valid": True,
    "version": "1.13.0",
    "has_compression": False,
    "backend": "MGE",
    "device": {
        "type": "CPU",
        "device_id": 2,
        "number_threads": 3,
        "enable_inplace_model": False,
        "use_tensorrt": True,
    },
    "options": {"const_shape": True, "weight_preprocess": 1, "graph_opt_level": 1},
    "IO": {
        "inputs": [
            {
                "name": "data",
                "is_host": True,
                "io_type": "value",
                "dtype": "float32",
                "shape": {"dim0": 1, "dim1": 3, "dim2": 16, "dim3": 16},
            }
        ],
        "outputs": [{"name": "prob", "is_host": True, "io_type": "value"}],
    },
    "extra_info": "anything",
}


def packed(path: Path, model: Path, info: Any = INFO, cipher: str = "NONE", info_cipher: str = "NONE") -> Path:
    """Write a packed model."""
    content, text = model.read_bytes(), info if isinstance(info, bytes) else json.dumps(info).encode()
    if cipher != "NONE":
        content = _native.encrypt(cipher, content)
    if info_cipher != "NONE":
        text = _native.encrypt(info_cipher, text)
    path.write_bytes(
        _native.pack_model(
            "net", content, info=text, info_decryption=info_cipher, model_decryption=cipher, binary_cache=b"cache"
        )
    )
    return path


@pytest.mark.parametrize("cipher", ["NONE", "AES_default"])
@pytest.mark.parametrize("info_cipher", ["NONE", *CIPHERS])
def test_packed(classifier: Path, tmp_path: Path, cipher: str, info_cipher: str) -> None:
    loaded = network()
    loaded.load(packed(tmp_path / "net.lite", classifier, INFO, cipher, info_cipher))
    check(loaded, classifier)
    assert (loaded.device_id, loaded.threads_number) == (2, 3)
    assert {"const_shape", "weight_preprocess", "graph_opt_level", "use_tensorrt"} == set(loaded.effective_options)
    with open(tmp_path / "net.lite", "rb") as file:
        network().load(file)
    found = get_model_io_info(tmp_path / "net.lite")
    assert found.outputs[0].config_layout == LiteLayout([1, 10])


def test_the_configuration_can_be_left_out(classifier: Path, tmp_path: Path) -> None:
    loaded = network()
    loaded.extra_configure(LiteExtraConfig(True))
    loaded.load(packed(tmp_path / "net.lite", classifier))
    check(loaded, classifier)
    assert (loaded.device_id, loaded.threads_number, loaded.effective_options) == (0, 1, {})


def test_the_configuration_sets_layouts_and_places(flexible: Path, tmp_path: Path) -> None:
    device = {"device": {"type": "CUDA"}}
    io = {"name": "data", "is_host": False, "shape": {"dim0": 4, "dim1": 3, "dim2": 8, "dim3": 8}}
    loaded = network()
    loaded.load(packed(tmp_path / "net.lite", flexible, {"name": "net"} | device | {"IO": {"inputs": [io]}}))
    data = loaded.get_io_tensor("data")
    assert data.device_type == LiteDeviceType.LITE_CUDA
    assert data.layout == LiteLayout([4, 3, 8, 8], LiteDataType.LITE_FLOAT)
    loaded = network()
    loaded.load(packed(tmp_path / "net.lite", flexible, {"name": "net", "valid": False} | device))
    assert loaded.get_io_tensor("data").device_type == LiteDeviceType.LITE_CPU


def test_a_packed_model_overrides_the_program_item_by_item(flexible: Path, tmp_path: Path) -> None:
    shape = {"dim0": 4, "dim1": 3, "dim2": 8, "dim3": 8}
    io = {"inputs": [{"name": "data", "shape": shape}], "outputs": [{"name": "prob", "io_type": "value"}]}
    model = packed(tmp_path / "net.lite", flexible, {"name": "net", "IO": io})
    asked = LiteNetworkIO(
        [LiteIO("data", False, layout=LiteLayout([1, 3, 8, 8]))], [LiteIO("prob", False, LiteIOType.LITE_IO_SHAPE)]
    )
    loaded = LiteNetwork(LiteConfig(LiteDeviceType.LITE_CUDA), asked)
    loaded.load(model)
    data, prob = loaded.get_io_tensor("data"), loaded.get_io_tensor("prob")
    assert data.layout.shapes == [4, 3, 8, 8]
    assert data.device_type == prob.device_type == LiteDeviceType.LITE_CUDA, "what the model does not say stays"
    image = models.image(4, 8)
    data.copy_from(image)
    loaded.forward()
    loaded.wait()
    assert np.array_equal(prob.to_numpy(), models.expected(flexible, data=image)[0])
    own = LiteNetwork(LiteConfig(LiteDeviceType.LITE_CUDA), asked)
    own.extra_configure(LiteExtraConfig(True))
    own.load(model)
    assert own.get_io_tensor("data").layout.shapes == [1, 3, 8, 8]


def test_a_packed_model_of_a_younger_library(
    classifier: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for version, warned in (("1.12.4", False), ("1.13.0", False), ("1.13.1", True), ("2.0.0", True)):
        caplog.clear()
        loaded = network()
        loaded.load(packed(tmp_path / "net.lite", classifier, {"name": "net", "version": version}))
        check(loaded, classifier)
        assert any(version in record.message for record in caplog.records) == warned


@pytest.mark.parametrize(
    ("info", "message"),
    [
        ({"name": "net", "version": "one"}, "version"),
        ({"name": "net", "version": 1}, "version"),
        ({"name": "other"}, "other"),
        ({}, "None"),
        (b"no JSON", "JSON"),
        (b"[" * 100000, "JSON"),
        (b"{" * 100000, "JSON"),
        ({"name": "net", "device": 3}, "device"),
        ({"name": "net", "device": {"type": "TPU"}}, "TPU"),
        ({"name": "net", "device": {"type": "ATLAS"}}, "LITE_ATLAS"),
        ({"name": "net", "device": {"number_threads": "many"}}, "number_threads"),
        ({"name": "net", "device": {"number_threads": 2**40}}, "number_threads"),
        ({"name": "net", "options": {"const_shape": []}}, "const_shape"),
        ({"name": "net", "options": []}, "options"),
        ({"name": "net", "IO": {"inputs": 3}}, "inputs"),
        ({"name": "net", "IO": {"inputs": [3]}}, "without a name"),
        ({"name": "net", "IO": {"inputs": [{"name": "data", "io_type": "both"}]}}, "data"),
        ({"name": "net", "IO": {"inputs": [{"name": "data", "io_type": []}]}}, "data"),
        ({"name": "net", "IO": {"inputs": [{"name": "data", "shape": {"dim1": 3}}]}}, "layout of 'data'"),
        ({"name": "net", "IO": {"inputs": [{"name": "data", "shape": {"dim0": -3}}]}}, "layout of 'data'"),
        (
            {"name": "net", "IO": {"inputs": [{"name": "data", "dtype": "float65", "shape": {"dim0": 3}}]}},
            "layout of 'data'",
        ),
    ],
)
def test_configurations_that_are_wrong(classifier: Path, tmp_path: Path, info: Any, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        network().load(packed(tmp_path / "net.lite", classifier, info))


def test_packed_models_that_are_damaged(classifier: Path, tmp_path: Path) -> None:
    content = packed(tmp_path / "net.lite", classifier).read_bytes()
    for damaged in (content[:12], content[:40], content[: len(content) // 2], content[:12] + b"\xff" * 50):
        (tmp_path / "bad").write_bytes(damaged)
        with pytest.raises(RuntimeError):
            network().load(tmp_path / "bad")


def test_a_cipher_that_is_missing(classifier: Path, tmp_path: Path) -> None:
    model = _native.pack_model("net", classifier.read_bytes(), info=b'{"name": "net"}', model_decryption="mine")
    (tmp_path / "net.lite").write_bytes(model)
    with pytest.raises(RuntimeError, match="there is no decryption 'mine'"):
        network().load(tmp_path / "net.lite")


# ---- the vendor's own files


@pytest.fixture
def real(test_data: Path) -> Path:
    """Return the folder of models that the vendor's library wrote, or skip."""
    folder = test_data / "models" / "mge"
    if not folder.is_dir():
        pytest.skip(f"no test data: there is no folder {folder}")
    return folder


def check_real(loaded: LiteNetwork, results: Path, *, exact: bool = False) -> None:
    """Compare with what the vendor's library computed."""
    with np.load(results) as data:
        for name in data.files:
            if name.startswith("in:"):
                loaded.get_io_tensor(name[3:]).set_data_by_copy(data[name])
        for _ in range(2):
            loaded.forward()
            loaded.wait()
        for index, name in enumerate(loaded.get_all_output_name() or ()):
            expected, found = data[f"out:{index}"], loaded.get_io_tensor(name).to_numpy()
            assert found.shape == expected.shape
            assert found.dtype == expected.dtype
            if exact or expected.dtype.kind in "iu":
                assert np.array_equal(found, expected)
            else:
                assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()


REAL = [
    "dyn_conv",
    "mnist_b1",
    "multi_io",
    "qnet_int8",
    "qnet_int8_opt",
    "qnet_int8_v1",
    "resnet18_w16_64",
    "resnet18_w16_64_opt",
    "resnet18_w16_64_v1",
    "simple_add",
    "test_discrete_input",
    "yoloxish",
    "yoloxish_opt",
]


@pytest.mark.parametrize("name", REAL)
def test_real_models(real: Path, name: str) -> None:
    loaded = network()
    loaded.load(real / f"{name}.mge")
    check_real(loaded, real / f"{name}.npz")


def test_real_input_names(real: Path) -> None:
    """In the order of the vendor's library, on which programs rely."""
    for name, expected in (
        ("simple_add", ["b", "a"]),
        ("multi_io", ["a", "b"]),
        ("test_discrete_input", ["roi", "data"]),
    ):
        loaded = network()
        loaded.load(real / f"{name}.mge")
        assert loaded.get_all_input_name() == expected


@pytest.mark.parametrize(("file", "cipher"), [("aes", 0), ("rc4", 1), ("sfrc4", 2)])
def test_real_encrypted_models(real: Path, file: str, cipher: int) -> None:
    loaded = network(CIPHERS[cipher])
    loaded.load(real / "encrypted" / f"qnet_int8_{file}.mge")
    check_real(loaded, real / "qnet_int8.npz")


@pytest.mark.parametrize("file", ["packed", "packed_rc4"])
@pytest.mark.parametrize("leave_out", [False, True])
def test_real_packed_models(real: Path, file: str, leave_out: bool, caplog: pytest.LogCaptureFixture) -> None:
    loaded = network()
    loaded.extra_configure(LiteExtraConfig(leave_out))
    with caplog.at_level(logging.WARNING, "megenginelite"):
        loaded.load(real / "encrypted" / f"qnet_int8_{file}.lite")
    check_real(loaded, real / "qnet_int8.npz")


def test_a_real_model_that_is_not_compressed(real: Path) -> None:
    config = LiteConfig()
    config.has_compression = 1
    loaded = LiteNetwork(config)
    with pytest.raises(RuntimeError, match="compress"):
        loaded.load(real / "mnist_b1.mge")


def test_real_shapes_that_change(real: Path) -> None:
    loaded = network()
    loaded.load(real / "dyn_conv.mge")
    data = loaded.get_io_tensor("data")
    output = loaded.get_io_tensor(loaded.get_output_name(0))
    with np.load(real / "dyn_conv_shapes.npz") as pairs:
        for index in (0, 1, 2, 1, 0):
            data.set_data_by_copy(pairs[f"in{index}"])
            loaded.forward()
            loaded.wait()
            expected = pairs[f"out{index}"]
            assert np.abs(output.to_numpy() - expected).max() <= 1e-5 * np.abs(expected).max()
    data.set_data_by_copy(np.zeros((1, 4, 32, 32), "float32"))
    with pytest.raises(RuntimeError, match=r"'data' \[1, 4, 32, 32\]"):
        loaded.forward()


def test_real_discrete_input(real: Path) -> None:
    config = LiteConfig()
    config.discrete_input_name = b"data"
    loaded = LiteNetwork(config)
    loaded.load(real / "test_discrete_input.mge")
    with np.load(real / "test_discrete_input.npz") as data:
        for number, image in enumerate(data["in:data"]):
            loaded.get_discrete_tensor("data", number).set_data_by_copy(np.ascontiguousarray(image[None]))
        loaded.get_io_tensor("roi").set_data_by_copy(data["in:roi"])
        loaded.forward()
        loaded.wait()
        found, expected = loaded.get_io_tensor(loaded.get_output_name(0)).to_numpy(), data["out:0"]
    assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()


def resident() -> int:
    """Return the process's memory in MiB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") >> 20


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from Linux's /proc")
@pytest.mark.parametrize("pad", [8190, 500_000])
def test_a_small_file_takes_little_memory_to_load(tmp_path: Path, pad: int) -> None:
    """Whatever extents it has: a GiB comes with a run only, and 4 TB are refused."""
    file = mge_files.File()
    x, weights = file.input("x", [1, 1, 4, 4]), file.constant(np.ones((1, 1, 1, 1), np.float32))
    (y,) = file.add("Convolution", [x, weights], param=(3, {1: pad, 2: pad}))
    file.write(tmp_path / "net.mge", {"y": y})
    before, loaded = resident(), network()
    if pad < 10_000:
        loaded.load(tmp_path / "net.mge")
        assert loaded.get_io_tensor("y").layout.shapes == [1, 1, 2 * pad + 4, 2 * pad + 4]
    else:
        with pytest.raises(MemoryError, match=r"\d bytes of memory are needed"):
            loaded.load(tmp_path / "net.mge")
    assert resident() - before < 256
