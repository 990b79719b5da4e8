"""The examples of the vendor's documentation for networks and the global settings, as they stand there.

They are parts of methods, so each runs with what it takes from its surroundings: a folder of models, and data.
"""

from __future__ import annotations

import os
import unittest
from pathlib import Path

import lite_models as models
import numpy as np
import pytest

from triune.megenginelite import *  # noqa: F403
from triune.megenginelite import (
    LiteConfig,
    LiteDeviceType,
    LiteGlobal,
    LiteIO,
    LiteIOType,
    LiteLayout,
    LiteLogLevel,
    LiteNetwork,
    LiteNetworkIO,
    _ciphers,
    decryption_func,
    get_log_level,
    set_log_level,
)

# ruff: noqa: E712, F841


class Surroundings(unittest.TestCase):
    """What the examples call ``self``."""

    source_dir: str


@pytest.fixture
def self(tmp_path: Path) -> Surroundings:
    """Return the surroundings of an example: models by the documented names."""
    surroundings = Surroundings()
    surroundings.source_dir = str(tmp_path)
    models.classifier(tmp_path / "shufflenet.mge")
    return surroundings


@pytest.fixture(autouse=True)
def own_ciphers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test its own registry."""
    monkeypatch.setattr(_ciphers, "_functions", dict(_ciphers._functions))
    monkeypatch.setattr(_ciphers, "_keys", dict(_ciphers._keys))


def test_lite_network_io() -> None:
    input_io1 = LiteIO("data1", is_host=False, io_type=LiteIOType.LITE_IO_VALUE)
    input_io2 = LiteIO(
        "data2",
        is_host=True,
        io_type=LiteIOType.LITE_IO_SHAPE,
        layout=LiteLayout([2, 4, 4]),
    )
    io = LiteNetworkIO([input_io1, input_io2])

    io.add_output("out1", is_host=False)
    io.add_output("out2", is_host=True, layout=LiteLayout([1, 1000]))

    assert len(io.inputs) == 2
    assert len(io.outputs) == 2


def test_construction(classifier: Path) -> None:
    config = LiteConfig()
    config.options.var_sanity_check_first_run = 0
    config.device_type = LiteDeviceType.LITE_CUDA

    ios = LiteNetworkIO(inputs=[LiteIO("data", False)])
    network = LiteNetwork(config=config, io=ios)

    network.load(classifier)
    assert network.get_io_tensor("data").device_type == LiteDeviceType.LITE_CUDA


def test_async_with_callback(tmp_path: Path) -> None:
    # Of some milliseconds, as the example counts meanwhile.
    model_path = str(models.classifier(tmp_path / "net.onnx", 8, 256, 64))

    count = 0
    finished = False

    def async_callback():  # type: ignore[no-untyped-def]
        nonlocal finished
        finished = True
        return 0

    config = LiteConfig()
    config.options.var_sanity_check_first_run = 0

    network = LiteNetwork(config=config)
    network.load(model_path)

    network.async_with_callback(async_callback)

    output_tensor = network.get_io_tensor(network.get_output_name(0))
    network.get_io_tensor("data").set_data_by_copy(models.image(8, 256))

    network.forward()

    while not finished:
        count += 1

    assert count > 0
    output_data = output_tensor.to_numpy()

    assert output_data.sum() == pytest.approx(8)


def test_set_finish_callback(classifier: Path) -> None:
    model_path = str(classifier)
    correct = np.zeros(())

    network = LiteNetwork()
    network.load(model_path)
    finish_checked = False

    def finish_callback(ios):  # type: ignore[no-untyped-def]
        nonlocal finish_checked
        finish_checked = True
        assert len(ios) == 1
        for key in ios:
            io = key
            data = ios[key].to_numpy().flatten()
            assert io.name == "prob"
            assert data.sum() == pytest.approx(1)
        return 0

    network.set_finish_callback(finish_callback)
    network.forward()
    network.wait()
    assert finish_checked == True


def test_register_decryption_and_key(self: Surroundings) -> None:
    @decryption_func
    def function(in_arr, key_arr, out_arr):  # type: ignore[no-untyped-def]
        if not out_arr:
            return in_arr.size
        else:
            for i in range(in_arr.size):
                out_arr[i] = in_arr[i] ^ key_arr[0] ^ key_arr[0]
            return out_arr.size

    LiteGlobal.register_decryption_and_key("just_for_test", function, [15])
    config = LiteConfig()
    config.bare_model_cryption_name = "just_for_test".encode("utf-8")  # type: ignore[assignment]  # noqa: UP012

    network = LiteNetwork(config)
    model_path = os.path.join(self.source_dir, "shufflenet.mge")
    network.load(model_path)

    assert network.get_all_input_name() == ["data"]


def test_set_log_level() -> None:
    before = get_log_level()
    try:
        for level in LiteLogLevel:
            set_log_level(level)
            assert get_log_level() == level, "the vendor's always says 0"
        set_log_level(2)
        assert get_log_level() is LiteLogLevel.WARN
    finally:
        set_log_level(before)
    assert before is LiteLogLevel.INFO
    with pytest.raises(RuntimeError, match="LiteLogLevel"):
        set_log_level(9)
