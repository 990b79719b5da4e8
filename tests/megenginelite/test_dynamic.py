"""Networks with outputs whose shapes depend on data: without axes until a run, then as the run gave them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lite_models as models
import numpy as np
import numpy.typing as npt
import pytest

from triune.megenginelite import (
    LiteConfig,
    LiteDeviceType,
    LiteIO,
    LiteIOType,
    LiteNetwork,
    LiteNetworkIO,
    get_model_io_info,
)


@pytest.fixture(scope="module")
def positive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return what gives 2·x (`twice`), and where it is positive (`at`), one place a row; N by 4."""
    nodes: list[Any] = [
        ("Add", ["x", "x"], ["twice"], {}),
        ("Relu", ["twice"], ["relu"], {}),
        ("NonZero", ["relu"], ["axes"], {}),
        ("Transpose", ["axes"], ["places"], {"perm": [1, 0]}),
        ("Cast", ["places"], ["at"], {"to": models.TYPES["int32"]}),
    ]
    path = tmp_path_factory.mktemp("positive") / "net.onnx"
    return models.write(
        path, nodes, [("x", "float32", [3, 4])], [("twice", "float32", [3, 4]), ("at", "int32", ["n", 2])]
    )


def loaded(model: Path, config: LiteConfig | None = None, io: LiteNetworkIO | None = None) -> LiteNetwork:
    network = LiteNetwork(config, io)
    network.load(model)
    return network


def run(network: LiteNetwork, x: npt.NDArray[np.float32]) -> npt.NDArray[np.int32]:
    network.get_io_tensor("x").set_data_by_copy(x)
    network.forward()
    network.wait()
    found: npt.NDArray[np.int32] = network.get_io_tensor("at").to_numpy()
    return found


def inputs() -> list[npt.NDArray[np.float32]]:
    x = models.RNG.standard_normal((3, 4), np.float32)
    return [x, -x, np.abs(x) + 1, -np.abs(x), x]


@pytest.mark.parametrize("threads", [1, 2])
def test_layouts_come_with_the_run(positive: Path, threads: int) -> None:
    network = LiteNetwork()
    network.threads_number = threads
    network.load(positive)
    at, twice = network.get_io_tensor("at"), network.get_io_tensor("twice")
    assert at.layout.ndim == 0
    assert twice.layout.shapes == [3, 4]
    assert get_model_io_info(positive).outputs[1].config_layout.ndim == 0
    for x in inputs():
        expected = np.argwhere(x > 0)
        assert np.array_equal(run(network, x), expected.reshape(-1, 2))
        assert at.layout.shapes == [len(expected), 2]
        assert network.get_io_tensor("at") is at
        assert np.array_equal(twice.to_numpy(), 2 * x)


def test_only_the_shape(positive: Path) -> None:
    io = LiteNetworkIO(outputs=[LiteIO("at", io_type=LiteIOType.LITE_IO_SHAPE)])
    network = loaded(positive, io=io)
    for x in inputs():
        run(network, x)
        assert network.get_io_tensor("at").layout.shapes == [(x > 0).sum(), 2]


def test_callbacks_see_the_shape(positive: Path) -> None:
    network = loaded(positive)
    seen = []
    network.set_finish_callback(lambda ios: seen.append({io.name: t.layout.shapes for io, t in ios.items()}["at"]))
    given = inputs()
    for x in given:
        run(network, x)
    assert seen == [[(x > 0).sum(), 2] for x in given]


def test_shared_memory_and_weights(positive: Path) -> None:
    first, second = loaded(positive), LiteNetwork()
    second.share_runtime_memroy(first)
    second.share_weights_with(first)
    for x in inputs():
        for network in (first, second):
            assert np.array_equal(run(network, x), np.argwhere(x > 0))


def test_the_programs_memory(positive: Path) -> None:
    """A result goes into memory that the program gave as long as there is room."""
    network = loaded(positive)
    room = np.full((12, 2), -1, np.int32)
    x = np.ones((3, 4), np.float32)
    x[0] = -1
    network.get_io_tensor("at").set_data_by_share(room)
    assert np.array_equal(run(network, x), np.argwhere(x > 0))
    assert np.array_equal(room.reshape(-1)[:16].reshape(8, 2), np.argwhere(x > 0))
    config = LiteConfig()
    config.options.force_output_use_user_specified_memory = 1
    strict = loaded(positive, config)
    strict.get_io_tensor("twice").set_data_by_share(np.zeros((3, 4), np.float32))
    strict.get_io_tensor("at").set_data_by_share(room)
    assert np.array_equal(run(strict, x), np.argwhere(x > 0))
    small = loaded(positive, config)
    small.get_io_tensor("twice").set_data_by_share(np.zeros((3, 4), np.float32))
    small.get_io_tensor("at").set_data_by_share(np.zeros((1, 2), np.int32))
    with pytest.raises(RuntimeError, match=r"force_output_use_user_specified_memory: output 'at' .* 64 bytes"):
        run(small, x)


def test_dumps_and_profiles(positive: Path, tmp_path: Path) -> None:
    network, x = loaded(positive), inputs()[0]
    network.enable_profile_performance(tmp_path / "profile.json")
    network.io_txt_dump(tmp_path / "io.txt")
    run(network, x)
    kinds = [
        operator["type"]
        for operator in json.loads((tmp_path / "profile.json").read_text())["graph_exec"]["operator"].values()
    ]
    assert "NonZero" in kinds
    assert f"name=places layout={{{(x > 0).sum()}(2),2(1)" in (tmp_path / "io.txt").read_text()
    network.get_static_memory_alloc_info(tmp_path / "memory")
    assert json.loads((tmp_path / "memory" / "memory.json").read_text())["peak_memory_size"] >= 48


def test_on_an_npu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first stage runs on the device, what follows on the host."""
    monkeypatch.setenv("TRIUNE_LITE_DEVICES", "npu=metis")
    weight = models.RNG.integers(-100, 100, (8, 3, 3, 3), dtype=np.int8)
    scales = [("scale", np.array(0.02, np.float32)), ("zero", np.array(0, np.int8))]
    nodes: list[Any] = [
        ("QuantizeLinear", ["x", "scale", "zero"], ["q"], {}),
        ("DequantizeLinear", ["q", "scale", "zero"], ["r"], {}),
        ("DequantizeLinear", ["weight", "scale", "zero"], ["w"], {}),
        ("Conv", ["r", "w"], ["conv"], {}),
        ("QuantizeLinear", ["conv", "scale", "zero"], ["qc"], {}),
        ("DequantizeLinear", ["qc", "scale", "zero"], ["rc"], {}),
        ("Relu", ["rc"], ["relu"], {}),
        ("NonZero", ["relu"], ["axes"], {}),
        ("Transpose", ["axes"], ["places"], {"perm": [1, 0]}),
        ("Cast", ["places"], ["at"], {"to": models.TYPES["int32"]}),
    ]
    weights = [*scales, ("weight", weight)]
    model = models.write(
        tmp_path / "net.onnx", nodes, [("x", "float32", [1, 3, 8, 8])], [("at", "int32", ["n", 4])], weights
    )
    host, npu = loaded(model), loaded(model, LiteConfig(LiteDeviceType.LITE_NPU))
    counts = set()
    for _ in range(4):
        x = models.RNG.standard_normal((1, 3, 8, 8), np.float32)
        found = run(npu, x)
        assert np.array_equal(found, run(host, x))
        counts.add(len(found))
    assert len(counts) > 1
    timeline = npu._loaded().native.timeline()
    assert timeline is not None
    assert timeline.cycles > 0
