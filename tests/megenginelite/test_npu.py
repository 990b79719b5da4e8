"""Networks on simulated NPUs: the results of the host, and the times of the device."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lite_models as models
import numpy as np
import numpy.typing as npt
import pytest

from triune.megenginelite import LiteConfig, LiteDeviceType, LiteIO, LiteNetwork, LiteNetworkIO
from triune.models import DIGITS_INT8, digits_held_out


@pytest.fixture(autouse=True)
def npus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have two NPUs of different make."""
    monkeypatch.setenv("TRIUNE_LITE_DEVICES", "npu=metis,zg330")


def loaded(model: Path, number: int | None, threads: int = 1, io: LiteNetworkIO | None = None) -> LiteNetwork:
    """Return a network on NPU `number`, or the host."""
    config = LiteConfig(LiteDeviceType.LITE_CPU if number is None else LiteDeviceType.LITE_NPU)
    config.device_id = number or 0
    network = LiteNetwork(config, io)
    network.threads_number = threads
    network.load(model)
    return network


def run(network: LiteNetwork, value: npt.NDArray[Any]) -> npt.NDArray[Any]:
    network.get_io_tensor(network.get_input_name(0)).copy_from(value)
    network.forward()
    network.wait()
    return network.get_io_tensor(network.get_output_name(0)).to_numpy()


def quantized(path: Path) -> Path:
    """Write a small quantized model: ``data`` (N, 3, 16, 16) to ``prob`` (N, 8); a Softmax is not for the device."""
    rng = np.random.default_rng(11)
    scales = [
        (f"{name}_{what}", value)
        for name, scale in (("x", 0.02), ("w", 0.01), ("y", 0.05))
        for what, value in (("scale", np.float32(scale)), ("zero", np.int8(0)))
    ]
    weights = [
        *((name, np.asarray(value)) for name, value in scales),
        ("weight", rng.integers(-127, 127, (8, 3, 3, 3), dtype=np.int8)),
    ]
    nodes: list[Any] = [
        ("QuantizeLinear", ["data", "x_scale", "x_zero"], ["qx"], {}),
        ("DequantizeLinear", ["qx", "x_scale", "x_zero"], ["x"], {}),
        ("DequantizeLinear", ["weight", "w_scale", "w_zero"], ["w"], {}),
        ("Conv", ["x", "w"], ["conv"], {"pads": [1, 1, 1, 1]}),
        ("QuantizeLinear", ["conv", "y_scale", "y_zero"], ["qy"], {}),
        ("DequantizeLinear", ["qy", "y_scale", "y_zero"], ["y"], {}),
        ("GlobalAveragePool", ["y"], ["pool"], {}),
        ("Flatten", ["pool"], ["flat"], {}),
        ("Softmax", ["flat"], ["prob"], {"axis": 1}),
    ]
    return models.write(path, nodes, [("data", "float32", ["N", 3, 16, 16])], [("prob", "float32", ["N", 8])], weights)


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("threads", [1, 2])
def test_results_are_the_hosts(tmp_path: Path, number: int, threads: int) -> None:
    model = quantized(tmp_path / "quantized.onnx")
    host, npu = loaded(model, None), loaded(model, number, threads)
    for batch in (1, 3, 1):
        image = models.image(batch)
        found = run(npu, image)
        assert found.shape == (batch, 8)
        assert np.array_equal(found, run(host, image))
    assert len(np.unique(found)) > 4


@pytest.mark.parametrize("number", [0, 1])
def test_a_megengine_model(number: int, test_data: Path) -> None:
    model = test_data / "models" / "mge" / "qnet_int8.mge"
    host, npu = loaded(model, None), loaded(model, number)
    shape = host.get_io_tensor(host.get_input_name(0)).layout.shapes
    value = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
    assert np.array_equal(run(npu, value), run(host, value))
    sharing = LiteNetwork(LiteConfig(LiteDeviceType.LITE_NPU))
    sharing.share_weights_with(npu)
    assert np.array_equal(run(sharing, value), run(host, value))


def test_a_profile_has_the_devices_times(tmp_path: Path) -> None:
    network, file = loaded(quantized(tmp_path / "quantized.onnx"), 1), tmp_path / "profile.json"
    image = models.image()
    run(network, image)
    network.enable_profile_performance(file)
    run(network, image)
    found = json.loads(file.read_text())
    operators, profiler = found["graph_exec"]["operator"], found["profiler"]
    assert "notes" not in found
    # The host is not busy while the device works; what only changes how an operand is seen takes no time.
    assert set(profiler["host"]) < set(profiler["device"]) < set(operators)
    on_npu = [number for number in profiler["device"] if "npu1:0" in profiler["device"][number]]
    assert not set(on_npu) & set(profiler["host"])
    assert any("Conv" in operators[number]["type"] for number in on_npu)
    timeline = network._loaded().native.timeline()
    assert timeline is not None
    assert timeline.device == "zg330"
    kinds = [operators[number]["type"] for number in profiler["device"] if number not in on_npu]
    assert kinds[0] == "QuantizeLinear"
    assert kinds[-1] == "Softmax"
    # What the host does comes before and behind.
    numbers = list(profiler["device"])
    first, last = numbers.index(on_npu[0]), numbers.index(on_npu[-1])
    assert numbers[first : last + 1] == on_npu
    assert first > 0
    assert last < len(numbers) - 1
    ends = [times["end"] for number in numbers for times in profiler["device"][number].values()]
    launched = ends[first - 1]
    assert ends[last + 1] > ends[last] - 1e-9
    for number, row in zip(on_npu, timeline.operators(), strict=True):
        times = profiler["device"][number]["npu1:0"]
        assert operators[number]["name"] == row["name"]
        assert times["end"] - times["start"] == pytest.approx(row["cycles"] / timeline.clock_mhz / 1e6)
        assert times["start"] == pytest.approx(launched + row["start"] / timeline.clock_mhz / 1e6)
        for result in operators[number]["output"]:
            assert found["graph_exec"]["var"][result]["comp_node"] == "npu1:0"


def test_tensors_on_the_device(tmp_path: Path) -> None:
    model = quantized(tmp_path / "quantized.onnx")
    io = LiteNetworkIO([LiteIO("data", is_host=False)], [LiteIO("prob", is_host=False)])
    host, npu = loaded(model, None), loaded(model, 0, io=io)
    image = models.image()
    assert np.array_equal(run(npu, image), run(host, image))
    assert npu.get_io_tensor("data").device_type == LiteDeviceType.LITE_NPU


def test_what_an_npu_does_not_do(classifier: Path) -> None:
    with pytest.raises(RuntimeError, match="no 8-bit operators"):
        loaded(classifier, 0)
    with pytest.raises(
        RuntimeError, match=r"there is no device 2 of type LITE_NPU: .*such as TRIUNE_LITE_DEVICES=npu="
    ):
        loaded(DIGITS_INT8, 2)


def test_an_unknown_description(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIUNE_LITE_DEVICES", "npu=nothing")
    with pytest.raises(RuntimeError, match="nothing"):
        loaded(DIGITS_INT8, 0)


def test_the_embedded_network() -> None:
    images, labels = digits_held_out()
    images = np.ascontiguousarray(images.transpose(0, 3, 1, 2))[:32]
    scores = run(loaded(DIGITS_INT8, 0), images)
    assert np.array_equal(scores, run(loaded(DIGITS_INT8, None), images))
    assert (scores.argmax(1) == labels[:32]).mean() > 0.9


@pytest.mark.parametrize("number", [0, 1])
def test_the_memory_plan_is_the_devices(number: int, tmp_path: Path) -> None:
    """The numbers are those of the core's feature maps; inputs and outputs are the network's."""
    network = loaded(DIGITS_INT8, number)
    network.get_io_tensor("image").layout = [2, 1, 8, 8]
    network.get_static_memory_alloc_info(tmp_path)
    found = json.loads((tmp_path / "memory.json").read_text())
    timeline = network._loaded().native.timeline()
    assert timeline is not None
    segments = {segment["kind"]: segment["bytes"] for segment in timeline.segments()}
    near = timeline.residency()
    assert near is not None
    assert found["peak_memory_size"] == segments.get("resident", 0) + segments["scratch"]
    assert found["peak_memory_size"] == max(chunk["addr_end"] for chunk in found["chunks"]) > 0
    assert found["lower_bound"] == near["lower_bound"] + timeline.scratch_lower_bound > 0
    assert found["weights"] == segments["constants"]
    assert found["inputs"] == {"image": 2 * 64 * 4}
    assert found["outputs"] == {"logits": 2 * 10 * 4}
    assert found["device"]["name"] == timeline.device == ["metis", "zg330"][number]
    assert found["device"]["near_bytes"] == segments.get("resident", 0)
    assert found["device"]["segments"] == timeline.segments()
    assert found["host_operators"] == ["image_QuantizeLinear", "logits_DequantizeLinear"]
    for index, one in enumerate(found["chunks"]):
        for other in found["chunks"][:index]:
            apart = one["addr_end"] <= other["addr_begin"] or other["addr_end"] <= one["addr_begin"]
            assert apart or one["time_end"] <= other["time_begin"] or other["time_end"] <= one["time_begin"]
    chunks = json.loads((tmp_path / "StaticMemoryInfo.json").read_text())["chunk"].values()
    weights = [chunk for chunk in chunks if chunk["type"] == "weight_mem"]
    assert [int(chunk["logic_addr_end"]) for chunk in weights] == [found["peak_memory_size"] + found["weights"]]
    on_host = loaded(DIGITS_INT8, None)
    on_host.get_io_tensor("image").layout = [2, 1, 8, 8]
    on_host.get_static_memory_alloc_info(tmp_path)
    assert "device" not in json.loads((tmp_path / "memory.json").read_text())
