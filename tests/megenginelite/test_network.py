"""What a network does, on small ONNX models: names, shapes, callbacks, memory, and what is an error."""

from __future__ import annotations

import io
import logging
import threading
from pathlib import Path
from typing import Any

import lite_models as models
import mge_files
import numpy as np
import numpy.typing as npt
import pytest

from triune.errors import UnsupportedError
from triune.megenginelite import (
    LiteAlgoSelectStrategy,
    LiteConfig,
    LiteDataType,
    LiteDeviceType,
    LiteExtraConfig,
    LiteIO,
    LiteIOType,
    LiteLayout,
    LiteNetwork,
    LiteNetworkIO,
    LiteOptions,
    LiteTensor,
    LiteTensorPhase,
    get_model_io_info,
)

Array = npt.NDArray[Any]


def load(path: Path, config: LiteConfig | None = None, ios: LiteNetworkIO | None = None) -> LiteNetwork:
    network = LiteNetwork(config, ios)
    network.load(path)
    return network


def summed(network: LiteNetwork, a: float = 1, b: float = 2) -> Array:
    """Run the adder on constant inputs, return the output."""
    for name, value in (("a", a), ("b", b)):
        network.get_io_tensor(name).set_data_by_copy(np.full((2, 3), value, "float32"))
    network.forward()
    network.wait()
    return network.get_io_tensor("c").to_numpy()


# ---- before loading


def test_before_a_model_is_loaded(adder: Path) -> None:
    network = LiteNetwork()
    for use in (
        network.forward,
        network.wait,
        lambda: network.get_io_tensor("a"),
        lambda: network.get_discrete_tensor("a", 0),
        lambda: network.get_input_name(0),
        lambda: network.get_output_name(0),
        lambda: network.share_weights_with(LiteNetwork()),
        lambda: network.share_runtime_memroy(LiteNetwork()),
        lambda: network.share_runtime_memroy(network),
        lambda: network.io_bin_dump("x"),
        network.get_static_memory_alloc_info,
        lambda: network.dump_layout_transform_model("x"),
    ):
        with pytest.raises(RuntimeError):
            use()
    assert network.get_all_input_name() is None
    assert network.get_all_output_name() is None
    network.load(adder)
    assert summed(network).tolist() == [[3] * 3] * 2


def test_settings_and_when_they_end(adder: Path) -> None:
    network = LiteNetwork()
    assert (network.device_id, network.stream_id, network.threads_number) == (0, 0, 1)
    assert network.is_cpu_inplace_mode() is False
    network.device_id, network.stream_id, network.threads_number = 1, 2, 2
    network.threads_number = 0
    network.use_tensorrt()
    network.load(adder)
    assert (network.device_id, network.stream_id, network.threads_number) == (1, 2, 1)
    for name in ("device_id", "stream_id", "threads_number"):
        with pytest.raises(RuntimeError, match="before a model is loaded"):
            setattr(network, name, 1)
    for late in (
        network.enable_cpu_inplace_mode,
        network.use_tensorrt,
        network.enable_global_layout_transform,
        lambda: network.share_runtime_memroy(load(adder)),
        lambda: network.share_weights_with(load(adder)),
        lambda: network.extra_configure(LiteExtraConfig(False)),
    ):
        with pytest.raises(RuntimeError, match="before a model is loaded"):
            late()
    network.extra_configure(LiteExtraConfig(True))
    network.load(adder)
    assert summed(network).tolist() == [[3] * 3] * 2


@pytest.mark.parametrize("count", [-1, 10**6, "2", 1.5])
def test_a_wrong_number_of_threads(count: Any) -> None:
    """The vendor's library takes -1 for 2**64 - 1."""
    network = LiteNetwork()
    with pytest.raises(RuntimeError, match="threads_number"):
        network.threads_number = count
    assert network.threads_number == 1


def test_inplace_mode(adder: Path) -> None:
    network = LiteNetwork()
    network.enable_cpu_inplace_mode()
    assert network.is_cpu_inplace_mode()
    assert network.device_id == -1
    network.threads_number = 2
    assert network.device_id == -1025
    with pytest.raises(RuntimeError, match="inplace"):
        network.async_with_callback(lambda: 0)
    network.load(adder)
    assert summed(network)[0, 0] == 3
    network = LiteNetwork()
    network.async_with_callback(lambda: 0)
    with pytest.raises(RuntimeError, match="inplace"):
        network.enable_cpu_inplace_mode()
    with pytest.raises(RuntimeError, match="LITE_CPU"):
        LiteNetwork(LiteConfig(LiteDeviceType.LITE_CUDA)).enable_cpu_inplace_mode()


# ---- structures


def test_options_and_config_are_the_vendors() -> None:
    options = LiteOptions()
    away = {name: getattr(options, name) for name, _ in LiteOptions._fields_ if getattr(options, name)}
    assert away == {"var_sanity_check_first_run": 1, "graph_opt_level": 2, "async_exec_level": 1}
    assert "enable_nchw44" not in repr(options)
    assert "'var_sanity_check_first_run': True" in repr(options)
    options.const_shape = True
    config = LiteConfig(option=options)
    assert config.options.const_shape == 1
    assert (config.device_type, config.device_id, config.has_compression) == (LiteDeviceType.LITE_CPU, 0, 0)
    assert config.bare_model_cryption_name == ""
    for name in ("AES_default", b"AES_default"):
        config.bare_model_cryption_name = name
        assert config.bare_model_cryption_name == "AES_default"
    with pytest.raises(AssertionError):
        config.bare_model_cryption_name = 3  # type: ignore[assignment]
    assert config.discrete_input_name == b""
    assert "AES_default" in repr(config)
    assert "True" in repr(LiteExtraConfig(True))


def test_network_io() -> None:
    first, second = LiteIO("data1", is_host=False), LiteIO(b"data2", True, LiteIOType.LITE_IO_SHAPE, LiteLayout([2, 4]))
    ios = LiteNetworkIO([first])
    ios.add_input(second)
    ios.add_input("data3", False)
    ios.add_output(LiteIO("out1"))
    assert ios.inputs[0] is first
    assert ios.inputs[1].config_layout.shapes == [2, 4]
    assert [io.name for io in ios.inputs] == ["data1", "data2", "data3"]
    c_ios = ios._create_network_io()
    assert (c_ios.input_size, c_ios.output_size) == (3, 1)
    assert c_ios.inputs[2].name == "data3"
    assert c_ios.outputs[0].is_host == 1
    listed = LiteNetworkIO([["data1", True], ["data2", False, LiteIOType.LITE_IO_SHAPE]], [["out1"]])
    assert [len(listed.inputs), len(listed.outputs)] == [2, 1]
    with pytest.raises(AssertionError):
        LiteNetworkIO(["data1"])  # type: ignore[list-item]
    first.name = "other"
    first.name = b"another"
    assert first.name == "another"
    assert hash(first) == hash("another")
    assert "'another'" in repr(ios)
    assert "'config'" in repr(LiteNetwork())


# ---- loading


def test_from_path_string_and_file(adder: Path) -> None:
    for file in (adder, str(adder), adder.open("rb"), io.BytesIO(adder.read_bytes())):
        network = LiteNetwork()
        network.load(file)
        assert summed(network)[1, 2] == 3
        if not isinstance(file, Path | str):
            file.close()


def test_what_cannot_be_loaded(tmp_path: Path) -> None:
    network = LiteNetwork()
    with pytest.raises(FileNotFoundError):
        network.load(tmp_path / "nothing.mge")
    with pytest.raises(AssertionError, match="binary file"):
        network.load(3)  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match="'rb'"):
        network.load(io.StringIO("text"))  # type: ignore[arg-type]
    for content in (b"", b"garbage" * 99):
        (tmp_path / "bad").write_bytes(content)
        with pytest.raises(RuntimeError):
            network.load(tmp_path / "bad")
    double = models.write(
        tmp_path / "double.onnx",
        [("Neg", ["x"], ["y"], {})],
        [("x", "float64", [2])],
        [("y", "float64", [2])],
    )
    with pytest.raises(RuntimeError, match=r"float64|Neg"):
        network.load(double)
    assert network.get_all_input_name() is None


def test_a_failed_load_leaves_the_model_before(adder: Path, tmp_path: Path) -> None:
    network = load(adder)
    (tmp_path / "bad").write_bytes(b"bad")
    with pytest.raises(RuntimeError):
        network.load(tmp_path / "bad")
    assert summed(network)[0, 0] == 3


def test_names_and_tensors(adder: Path) -> None:
    network = load(adder)
    assert sorted(network.get_all_input_name() or ()) == ["a", "b"]
    assert [network.get_input_name(i) for i in range(2)] == network.get_all_input_name()
    assert network.get_all_output_name() == [network.get_output_name(0)] == ["c"]
    for wrong in (-1, 2):
        with pytest.raises(RuntimeError, match="there is no input"):
            network.get_input_name(wrong)
    with pytest.raises(RuntimeError, match="there is no output 1"):
        network.get_output_name(1)
    tensor = network.get_io_tensor("a")
    assert tensor is network.get_io_tensor(b"a", LiteTensorPhase.LITE_INPUT)
    assert network.get_io_tensor("c").layout == LiteLayout([2, 3]), "known before the first run"
    for name, phase in (("a", LiteTensorPhase.LITE_OUTPUT), ("c", LiteTensorPhase.LITE_INPUT), ("x", 0)):
        with pytest.raises(RuntimeError, match="there is no tensor"):
            network.get_io_tensor(name, phase)


def test_io_info(classifier: Path, flexible: Path) -> None:
    found = get_model_io_info(classifier)
    assert [io.name for io in (*found.inputs, *found.outputs)] == ["data", "prob"]
    assert found.inputs[0].config_layout == LiteLayout([1, 3, 16, 16])
    assert found.outputs[0].config_layout == LiteLayout([1, 10])
    assert get_model_io_info(flexible).inputs[0].config_layout.ndim == 0


# ---- running


def test_results_are_the_cores(classifier: Path) -> None:
    network, image = load(classifier), models.image()
    data, prob = network.get_io_tensor("data"), network.get_io_tensor("prob")
    (expected,) = models.expected(classifier, data=image)
    data.set_data_by_copy(image)
    network.forward()
    network.wait()
    assert np.array_equal(prob.to_numpy(), expected)
    # Shared memory is read again by every run, and the output's memory written again.
    data.set_data_by_share(image)
    shared = prob.get_data_by_share()
    for _ in range(3):
        image[:] = models.image()
        network.forward()
        network.wait()
        assert np.array_equal(shared, models.expected(classifier, data=image)[0])


def test_shapes_may_change(flexible: Path) -> None:
    network = load(flexible)
    data, prob = network.get_io_tensor("data"), network.get_io_tensor("prob")
    assert prob.layout.ndim == 0
    with pytest.raises(RuntimeError, match="'data' is open"):
        network.forward()
    for batch, size in ((1, 16), (3, 8), (3, 8), (2, 17), (1, 16)):
        image = models.image(batch, size)
        data.set_data_by_copy(image)
        network.forward()
        network.wait()
        assert prob.layout.shapes == [batch, 10]
        assert np.array_equal(prob.to_numpy(), models.expected(flexible, data=image)[0])


def test_a_wrong_input_is_an_error_before_anything_runs(classifier: Path) -> None:
    network, image = load(classifier), models.image()
    data = network.get_io_tensor("data")
    for wrong, message in (
        (image.astype("float16"), "'data'.*float32.*float16"),
        (np.zeros((1, 4, 16, 16), "float32"), "data"),
        (np.zeros((3, 16, 16), "float32"), "data"),
    ):
        data.set_data_by_copy(wrong)
        for _ in range(2):
            with pytest.raises(RuntimeError, match=message):
                network.forward()
    data.set_data_by_copy(image)
    network.forward()
    assert np.array_equal(network.get_io_tensor("prob").to_numpy(), models.expected(classifier, data=image)[0])


def test_an_input_that_was_never_set(adder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The vendor's library computes with whatever is there."""
    network = load(adder)
    network.get_io_tensor("a").set_data_by_copy([1] * 6)
    for _ in range(2):
        network.forward()
    assert network.get_io_tensor("c").to_numpy().tolist() == [[1] * 3] * 2
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == [
        "add.onnx: input 'b' was never set: it is zero"
    ]


def test_memory_of_many_kinds(adder: Path) -> None:
    network = load(adder)
    a, b, c = (network.get_io_tensor(name) for name in "abc")
    wide = LiteTensor(LiteLayout([2, 6]))
    wide.set_data_by_copy(np.arange(12, dtype="float32").reshape(2, 6))
    a.share_memory_with(wide.slice([0, 1], [2, 4]))
    b.share_memory_with(np.ones((2, 3), "float32"))
    target = LiteTensor(LiteLayout([2, 6]))
    c.share_memory_with(target.slice([0, 0], [2, 6], [1, 2]))
    for offset in (0, 100):
        wide.copy_from(np.arange(12, dtype="float32").reshape(2, 6) + offset)
        network.forward()
        expected = wide.to_numpy()[:, 1:4] + 1
        assert np.array_equal(target.to_numpy()[:, ::2], expected)
        assert not target.to_numpy()[:, 1::2].any(), "gaps are left alone"
    # In place: the output's memory is an input's.
    c.share_memory_with(b)
    for count in (1, 2):
        network.forward()
        assert np.array_equal(b.to_numpy(), 1 + count * (wide.to_numpy()[:, 1:4]))
    # Bytes at an odd address.
    raw = np.zeros(25, "uint8")
    raw[1:] = np.frombuffer(np.full(6, 4, "float32").tobytes(), "uint8")
    odd = LiteTensor()
    odd.set_data_by_share(raw.ctypes.data + 1, 24, LiteLayout([2, 3]))
    a.share_memory_with(odd)
    b.set_data_by_share(np.ones((2, 3), "float32"))
    network.forward()
    assert c.to_numpy().tolist() == [[5] * 3] * 2


def test_output_memory_that_is_read_only(adder: Path) -> None:
    network = load(adder)
    array = np.zeros((2, 3), "float32")
    array.flags.writeable = False
    network.get_io_tensor("c").set_data_by_share(array)
    with pytest.raises(RuntimeError, match="read-only"):
        network.forward()


def test_other_types(tmp_path: Path) -> None:
    """Scalars, int64 and truth values, which MegEngine's models do not have."""
    path = models.write(
        tmp_path / "types.onnx",
        [("Cast", ["x"], ["y"], {"to": models.TYPES["float32"]})],
        [("x", "int64", [2])],
        [("y", "float32", [2])],
    )
    try:
        network = load(path)
    except UnsupportedError as error:
        pytest.skip(str(error))
    assert network.get_io_tensor("x").layout == LiteLayout([2], LiteDataType.LITE_INT64)
    network.get_io_tensor("x").set_data_by_copy(np.array([3, 2**40]))
    network.forward()
    assert network.get_io_tensor("y").to_numpy().tolist() == [3, 2**40]


@pytest.mark.parametrize(
    ("configured", "listed"),
    [
        ([], ["p", "q", "r"]),
        (["r"], ["r", "p", "q"]),
        (["r", "q"], ["r", "q", "p"]),
        (["q", "nobody", "p", "q"], ["q", "p", "r"]),
    ],
)
def test_outputs_that_are_configured_come_first(tmp_path: Path, configured: list[str], listed: list[str]) -> None:
    nodes = [("Neg", ["x"], ["p"], {}), ("Relu", ["x"], ["q"], {}), ("Add", ["x", "x"], ["r"], {})]
    outputs: list[models.Value] = [(name, "float32", [4]) for name in ("p", "q", "r")]
    ios = LiteNetworkIO()
    for name in configured:
        ios.add_output(name)
    network = load(models.write(tmp_path / "net.onnx", nodes, [("x", "float32", [4])], outputs), ios=ios)
    seen: list[list[str]] = []
    network.set_finish_callback(lambda found: seen.append([io.name for io in found]))
    x = np.array([-2, -1, 1, 2], np.float32)
    network.get_io_tensor("x").set_data_by_copy(x)
    network.forward()
    network.wait()
    assert network.get_all_output_name() == listed
    assert [network.get_output_name(index) for index in range(3)] == listed
    assert seen == [listed]
    for name, wanted in (("p", -x), ("q", np.maximum(x, 0)), ("r", x + x)):
        assert np.array_equal(network.get_io_tensor(name).to_numpy(), wanted)


# ---- configuration of inputs and outputs


def test_io_layouts(flexible: Path, caplog: pytest.LogCaptureFixture) -> None:
    ios = LiteNetworkIO([LiteIO("data", layout=LiteLayout([2, 3, 8, 8])), LiteIO("nobody")])
    network = load(flexible, None, ios)
    assert network.get_io_tensor("data").layout.shapes == [2, 3, 8, 8]
    assert "nobody" in caplog.text
    network.get_io_tensor("data").fill_zero()
    network.forward()
    assert network.get_io_tensor("prob").layout.shapes == [2, 10]


def test_an_output_wanted_for_its_shape(flexible: Path) -> None:
    ios = LiteNetworkIO()
    ios.add_output("prob", io_type=LiteIOType.LITE_IO_SHAPE)
    network = load(flexible, None, ios)
    network.get_io_tensor("data").set_data_by_copy(models.image(2))
    network.forward()
    assert network.get_io_tensor("prob").layout.shapes == [2, 10]
    assert not network.get_io_tensor("prob").to_numpy().any()


@pytest.mark.parametrize("is_host", [True, False])
def test_on_cuda(classifier: Path, is_host: bool) -> None:
    ios = LiteNetworkIO([LiteIO("data", is_host)], [LiteIO("prob", is_host)])
    network = load(classifier, LiteConfig(LiteDeviceType.LITE_CUDA), ios)
    data, prob = network.get_io_tensor("data"), network.get_io_tensor("prob")
    place = LiteDeviceType.LITE_CPU if is_host else LiteDeviceType.LITE_CUDA
    assert data.device_type == prob.device_type == place
    image = models.image()
    data.set_data_by_copy(image)
    network.forward()
    network.wait()
    assert np.array_equal(prob.to_numpy(), models.expected(classifier, data=image)[0])


def test_tensors_say_the_device(classifier: Path) -> None:
    config = LiteConfig()
    config.device_id = 1
    network = load(classifier, config)
    assert network.device_id == 1
    assert [network.get_io_tensor(name).device_id for name in ("data", "prob")] == [1, 1]


def test_an_output_that_was_dumped_twice_is_listed_once(tmp_path: Path) -> None:
    file = mge_files.File()
    given = file.input("x", [2, 3])
    (double,) = file.add("Elemwise", [given, given], param=(17, {0: 16}))
    (again,) = file.add("Elemwise", [double, given], param=(17, {0: 16}))
    path = file.write(tmp_path / "twice.mge", {"double": double, "again": again}, [double, double, again])
    network = load(path)
    assert network.get_all_output_name() == ["double", "again"]
    assert [network.get_output_name(index) for index in range(2)] == ["double", "again"]
    image = np.arange(6, dtype=np.float32).reshape(2, 3)
    network.get_io_tensor("x").set_data_by_copy(image)
    network.forward()
    network.wait()
    assert np.array_equal(network.get_io_tensor("double").to_numpy(), 2 * image)
    assert np.array_equal(network.get_io_tensor("again").to_numpy(), 3 * image)


def test_devices_that_are_not_there(classifier: Path) -> None:
    for kind, number in ((LiteDeviceType.LITE_ATLAS, 0), (LiteDeviceType.LITE_CUDA, 3)):
        config = LiteConfig(kind)
        config.device_id = number
        with pytest.raises(RuntimeError, match="there is no device"):
            load(classifier, config)
    config.device_type = 77
    with pytest.raises(RuntimeError, match="LiteDeviceType"):
        LiteNetwork(config)
    assert load(classifier, LiteConfig(LiteDeviceType.LITE_DEVICE_DEFAULT)).device_id == 0


def test_without_optimization(classifier: Path) -> None:
    config = LiteConfig()
    config.options.graph_opt_level = 0
    network, image = load(classifier, config), models.image()
    network.get_io_tensor("data").set_data_by_copy(image)
    network.forward()
    found = network.get_io_tensor("prob").to_numpy()
    assert np.allclose(found, models.expected(classifier, data=image)[0], rtol=1e-5)
    assert "graph_opt_level" in network.effective_options


def test_discrete_inputs(flexible: Path) -> None:
    config = LiteConfig()
    config.discrete_input_name = b"data"
    network = load(flexible, config, LiteNetworkIO([LiteIO("data", layout=LiteLayout([3, 3, 16, 16]))]))
    images = models.image(3)
    for number in range(3):
        tensor = network.get_discrete_tensor("data", number)
        assert tensor.layout.shapes == [1, 3, 16, 16]
        tensor.set_data_by_share(images[number : number + 1])
    for _ in range(2):
        network.forward()
        expected = models.expected(flexible, data=images)[0]
        assert np.array_equal(network.get_io_tensor("prob").to_numpy(), expected)
        images[:] = models.image(3)
    for wrong in (-1, 3):
        with pytest.raises(RuntimeError, match="has 3 discrete tensors"):
            network.get_discrete_tensor("data", wrong)
    with pytest.raises(RuntimeError, match="no discrete input"):
        network.get_discrete_tensor("prob", 0)
    tensor.set_data_by_copy(np.zeros((1, 3, 8, 8), "float32"))
    with pytest.raises(RuntimeError, match="sample 2"):
        network.forward()
    config.discrete_input_name = b"nobody"
    with pytest.raises(RuntimeError, match="nobody"):
        load(flexible, config)
    config.discrete_input_name = b"data"
    with pytest.raises(RuntimeError, match="open"):
        load(flexible, config)
    whole = load(flexible, config, LiteNetworkIO([LiteIO("data", layout=LiteLayout([3, 3, 16, 16]))]))
    whole.get_io_tensor("data").set_data_by_copy(images)
    whole.forward()
    assert np.array_equal(whole.get_io_tensor("prob").to_numpy(), models.expected(flexible, data=images)[0])


# ---- options


def test_const_shape(flexible: Path) -> None:
    config = LiteConfig()
    config.options.const_shape = 1
    network = load(flexible, config)
    data = network.get_io_tensor("data")
    data.set_data_by_copy(models.image(1))
    network.forward()
    data.set_data_by_copy(models.image(2))
    with pytest.raises(RuntimeError, match=r"const_shape.*'data' from"):
        network.forward()


@pytest.mark.parametrize("level", [1, 2])
def test_record_levels(flexible: Path, level: int) -> None:
    config = LiteConfig()
    config.options.comp_node_seq_record_level = level
    network = load(flexible, config)
    data = network.get_io_tensor("data")
    for image in (models.image(1), models.image(1)):
        data.set_data_by_copy(image)
        network.forward()
        assert np.array_equal(network.get_io_tensor("prob").to_numpy(), models.expected(flexible, data=image)[0])
    data.set_data_by_copy(models.image(2))
    if level == 1:
        network.forward()
    else:
        with pytest.raises(RuntimeError, match="comp_node_seq_record_level=2"):
            network.forward()


def test_fake_next_exec(adder: Path) -> None:
    config = LiteConfig()
    config.options.fake_next_exec = 1
    network = load(adder, config)
    assert not summed(network).any()
    assert network.config.options.fake_next_exec == 0
    assert summed(network).all()


def test_force_output_use_user_specified_memory(adder: Path) -> None:
    config = LiteConfig()
    config.options.force_output_use_user_specified_memory = True
    network = load(adder, config)
    with pytest.raises(RuntimeError, match="set_data_by_share"):
        summed(network)
    array = np.zeros((2, 3), "float32")
    network.get_io_tensor("c").set_data_by_share(array)
    summed(network)
    assert array.tolist() == [[3] * 3] * 2
    network.get_io_tensor("c").set_data_by_share(np.zeros(2, "float32"))
    with pytest.raises(RuntimeError, match="24 bytes"):
        network.forward()
    with pytest.raises(RuntimeError, match="exclude each other"):
        network.async_with_callback(lambda: 0)


def test_output_memory_of_the_programs(adder: Path) -> None:
    network = load(adder)
    array = np.zeros((2, 3), "float32")
    network.get_io_tensor("c").set_data_by_share(array)
    summed(network)
    assert array.tolist() == [[3] * 3] * 2


def test_force_output_dynamic_alloc(adder: Path) -> None:
    config = LiteConfig()
    config.options.force_output_dynamic_alloc = 1
    network = load(adder, config)
    summed(network, 1)
    before = network.get_io_tensor("c").get_data_by_share()
    summed(network, 5)
    assert before[0, 0] == 3, "each run has memory of its own"
    assert network.get_io_tensor("c").to_numpy()[0, 0] == 7


def test_options_without_effect_are_visible(adder: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = LiteConfig()
    for name, _ in LiteOptions._fields_:
        if name.startswith(("enable_", "weight", "fuse", "force_dynamic", "no_prof", "jit", "graph", "async_exec")):
            setattr(config.options, name, {"graph_opt_level": 0, "jit_level": 2}.get(name, 3))
    config.auto_optimize_inference = 1
    network = LiteNetwork(config)
    network.use_tensorrt()
    network.stream_id = 3
    network.enable_global_layout_transform()
    with caplog.at_level(logging.INFO, "megenginelite"):
        network.load(adder)
    assert summed(network)[0, 0] == 3
    network.set_network_algo_policy(
        LiteAlgoSelectStrategy.LITE_ALGO_PROFILE | LiteAlgoSelectStrategy.LITE_ALGO_OPTIMIZED
    )
    network.set_network_algo_workspace_limit(10000)
    assert summed(network)[0, 0] == 3
    found = network.effective_options
    for name in (
        "enable_nchw44",
        "jit_level",
        "graph_opt_level",
        "stream_id",
        "use_tensorrt",
        "auto_optimize_inference",
    ):
        assert ": " in found[name]
        assert f"{name}=" in caplog.text
    assert "no effect" in found["set_network_algo_workspace_limit"]
    assert load(adder).effective_options == {}
    for wrong in (0, 16, "x"):
        with pytest.raises(RuntimeError, match="policy"):
            network.set_network_algo_policy(wrong)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="shared_batch_size"):
        network.set_network_algo_policy(1, -1)
    with pytest.raises(RuntimeError, match="size_limit"):
        network.set_network_algo_workspace_limit(-1)


def test_the_configuration_is_read_when_the_network_is_made(adder: Path) -> None:
    config = LiteConfig()
    network = LiteNetwork(config)
    config.bare_model_cryption_name = "AES_default"
    config.device_type = LiteDeviceType.LITE_ATLAS
    network.load(adder)
    assert summed(network)[0, 0] == 3


def test_layout_transform_model(adder: Path, tmp_path: Path) -> None:
    network = LiteNetwork()
    network.enable_global_layout_transform()
    network.load(adder)
    network.dump_layout_transform_model(tmp_path / "model")
    assert summed(load(tmp_path / "model"))[0, 0] == 3
    with pytest.raises(RuntimeError, match="enable_global_layout_transform"):
        load(adder).dump_layout_transform_model(tmp_path / "model")
    with pytest.raises(RuntimeError, match="dump_layout_transform_model"):
        network.dump_layout_transform_model(tmp_path / "no" / "model")


# ---- life


def test_a_network_is_a_context_manager(adder: Path) -> None:
    with load(adder) as network:
        tensor = network.get_io_tensor("c")
        summed(network)
    with pytest.raises(RuntimeError, match="no model"):
        network.forward()
    assert tensor.to_numpy()[0, 0] == 3, "a tensor outlives its network"
    network.load(adder)
    assert summed(network)[0, 0] == 3


def test_many_networks_in_many_threads(classifier: Path) -> None:
    images = [models.image() for _ in range(4)]
    expected = [models.expected(classifier, data=image)[0] for image in images]
    wrong: list[int] = []

    def work(number: int) -> None:
        network = load(classifier)
        data, prob = network.get_io_tensor("data"), network.get_io_tensor("prob")
        for _ in range(50):
            data.set_data_by_copy(images[number])
            network.forward()
            network.wait()
            if not np.array_equal(prob.to_numpy(), expected[number]):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
