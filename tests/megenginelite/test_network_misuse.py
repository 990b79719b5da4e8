"""Networks between threads, signals, models and files that change at the wrong time."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Any

import lite_models as models
import numpy as np
import pytest

from triune import _native
from triune.megenginelite import LiteConfig, LiteNetwork


def load(path: Path) -> LiteNetwork:
    network = LiteNetwork()
    network.load(path)
    return network


def packed(path: Path, model: Path, info: dict[str, Any]) -> Path:
    import json

    text = json.dumps({"name": "net"} | info).encode()
    path.write_bytes(_native.pack_model("net", model.read_bytes(), info=text))
    return path


class Interrupted(Exception):
    pass


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no timers")
@pytest.mark.parametrize("fails", [False, True])
def test_an_interrupted_wait_can_be_done_again(adder: Path, fails: bool) -> None:
    def interrupt(*_: Any) -> None:
        raise Interrupted

    network = load(adder)
    go, done = threading.Event(), []

    def callback() -> None:
        go.wait(30)
        done.append(1)
        if fails:
            raise ValueError("mine")

    network.async_with_callback(callback)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        network.forward()
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Interrupted):
            network.wait()
    finally:
        signal.signal(signal.SIGALRM, before)
    threading.Timer(0.1, go.set).start()
    if fails:
        with pytest.raises(ValueError, match="mine"):
            network.wait()
    else:
        network.wait()
    assert done == [1]
    network.wait()


def test_all_who_wait_wait(adder: Path) -> None:
    network = load(adder)
    go, done, seen = threading.Event(), [], []
    network.async_with_callback(lambda: (go.wait(30), done.append(1)))
    network.forward()

    def wait() -> None:
        network.wait()
        seen.append(list(done))

    threads = [threading.Thread(target=wait) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(0.05)
    assert seen == []
    go.set()
    for thread in threads:
        thread.join()
    assert seen == [[1]] * 3


def test_forwards_of_many_threads_queue(adder: Path) -> None:
    network = load(adder)
    done: list[int] = []
    network.async_with_callback(lambda: done.append(1))
    threads = [threading.Thread(target=lambda: [network.forward() for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    network.wait()
    assert len(done) == 200


def test_a_start_callback_may_load_another_model(classifier: Path, adder: Path) -> None:
    network = load(adder)

    def change(_: Any) -> None:
        network.set_start_callback(None)
        network.load(classifier)

    network.set_start_callback(change)
    network.forward()
    for _ in range(2):
        image = models.image()
        network.get_io_tensor("data").set_data_by_copy(image)
        network.forward()
        network.wait()
        found = network.get_io_tensor("prob").to_numpy()
        assert np.array_equal(found, models.expected(classifier, data=image)[0])


def test_a_load_that_fails_changes_nothing(adder: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged"
    damaged.write_bytes(b"junk" * 100)
    device = {"device": {"type": "CUDA", "number_threads": 7}}
    halfway = tmp_path / "halfway.lite"
    halfway.write_bytes(_native.pack_model("net", b"junk", info=b'{"name": "net", "device": {"number_threads": 9}}'))
    good = packed(tmp_path / "net.lite", adder, device)
    network = load(good)
    found = network.model_bytes
    assert found is not None
    for file in (damaged, halfway):
        with file.open("rb") as opened, pytest.raises(RuntimeError):
            network.load(opened)
        assert network.model_bytes is found
        assert network.threads_number == 7
        assert network.get_io_tensor("a").is_pinned_host
        network.forward()


def test_what_a_packed_model_configures_goes_with_it(adder: Path, tmp_path: Path) -> None:
    info = {"device": {"type": "CUDA", "number_threads": 7, "enable_inplace_model": 1}, "options": {"const_shape": 1}}
    network = LiteNetwork()
    network.threads_number = 3
    network.load(packed(tmp_path / "net.lite", adder, info))
    assert (network.threads_number, network.is_cpu_inplace_mode()) == (7, True)
    assert "const_shape" in network.effective_options
    network.load(adder)
    assert (network.threads_number, network.is_cpu_inplace_mode()) == (3, False)
    assert not network.get_io_tensor("a").is_pinned_host
    assert "const_shape" not in network.effective_options
    with LiteNetwork() as other:
        other.load(packed(tmp_path / "net.lite", adder, info))
    assert (other.threads_number, other.is_cpu_inplace_mode()) == (1, False)


@pytest.mark.parametrize("count", [-5, 1025, 2**31 - 1])
def test_a_packed_model_has_no_more_threads_than_a_program(adder: Path, tmp_path: Path, count: int) -> None:
    file = packed(tmp_path / "net.lite", adder, {"device": {"number_threads": count}})
    with pytest.raises(RuntimeError, match=r"packed model 'net': number_threads: expected 0 \(leave it\) to 1024"):
        load(file)


SHAPE = {"dim0": 2, "dim1": 3}


@pytest.mark.parametrize(
    ("kind", "item"),
    [
        ("inputs", {"name": "a", "dtype": "int8", "shape": SHAPE}),
        ("inputs", {"name": "a", "dtype": "float32", "shape": SHAPE | {"dim2": 1}}),
        ("outputs", {"name": "c", "dtype": "int32", "shape": SHAPE}),
        ("outputs", {"name": "c", "dtype": "float32", "shape": {"dim0": 6}}),
    ],
)
def test_a_packed_model_must_be_what_it_states(adder: Path, tmp_path: Path, kind: str, item: dict[str, Any]) -> None:
    file = packed(tmp_path / "net.lite", adder, {"IO": {kind: [item]}})
    with pytest.raises(
        RuntimeError, match=rf"its information has {kind[:-1]} '{item['name']}' as .*the model as \[2, 3\]"
    ):
        load(file)


def test_a_packed_model_may_state_what_is_so(adder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    inputs = [{"name": "a", "dtype": "float32", "shape": SHAPE}, {"name": "b"}]
    outputs = [{"name": "c", "dtype": "float32", "shape": SHAPE}]
    load(packed(tmp_path / "net.lite", adder, {"IO": {"inputs": inputs, "outputs": outputs}}))
    assert caplog.text == ""
    outputs[0]["shape"] = {"dim0": 3, "dim1": 2}
    load(packed(tmp_path / "net.lite", adder, {"IO": {"inputs": inputs, "outputs": outputs}}))
    assert "output 'c' as [3, 2], the model as [2, 3]" in caplog.text


def test_the_model_is_written_as_it_was_loaded(adder: Path, classifier: Path, tmp_path: Path) -> None:
    model, written = tmp_path / "net.onnx", tmp_path / "written.onnx"
    model.write_bytes(adder.read_bytes())
    network = LiteNetwork(LiteConfig())
    network.enable_global_layout_transform()
    network.load(model)
    model.write_bytes(classifier.read_bytes())
    network.dump_layout_transform_model(written)
    assert written.read_bytes() == adder.read_bytes()
    model.unlink()
    network.dump_layout_transform_model(written)
    assert written.read_bytes() == adder.read_bytes()


def test_a_shared_model_is_written_if_its_file_is_still_the_one(adder: Path, classifier: Path, tmp_path: Path) -> None:
    model, written = tmp_path / "net.onnx", tmp_path / "written.onnx"
    model.write_bytes(adder.read_bytes())
    source, network = load(model), LiteNetwork()
    network.enable_global_layout_transform()
    network.share_weights_with(source)
    network.dump_layout_transform_model(written)
    assert written.read_bytes() == adder.read_bytes()
    model.write_bytes(classifier.read_bytes())
    with pytest.raises(RuntimeError, match="has changed since"):
        network.dump_layout_transform_model(written)
    model.unlink()
    with pytest.raises(RuntimeError, match="No such file"):
        network.dump_layout_transform_model(written)
