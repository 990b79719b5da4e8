"""Networks that share weights, or the memory of runs."""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path

import lite_models as models
import numpy as np
import pytest

from triune.megenginelite import LiteConfig, LiteNetwork


def load(path: Path) -> LiteNetwork:
    network = LiteNetwork()
    network.load(path)
    return network


def check(network: LiteNetwork, path: Path, batch: int = 1) -> None:
    """Compare a run with the core's results."""
    image = models.image(batch)
    network.get_io_tensor("data").set_data_by_copy(image)
    network.forward()
    network.wait()
    assert np.array_equal(network.get_io_tensor("prob").to_numpy(), models.expected(path, data=image)[0])


def test_weights(flexible: Path) -> None:
    source = load(flexible)
    other = LiteNetwork()
    other.enable_cpu_inplace_mode()
    other.share_weights_with(source)
    third = LiteNetwork()
    third.share_weights_with(other)
    check(source, flexible)
    check(other, flexible, 3)
    check(source, flexible, 2)
    del source
    gc.collect()
    check(other, flexible)
    check(third, flexible)


def test_misuse(classifier: Path) -> None:
    source = load(classifier)
    for share in ("share_weights_with", "share_runtime_memroy"):
        with pytest.raises(AssertionError, match="LiteNetwork"):
            getattr(LiteNetwork(), share)(3)
        with pytest.raises(RuntimeError, match="no model"):
            getattr(LiteNetwork(), share)(LiteNetwork())
        with pytest.raises(RuntimeError, match="before a model is loaded"):
            getattr(load(classifier), share)(source)
    network = LiteNetwork()
    with pytest.raises(RuntimeError, match="itself"):
        network.share_runtime_memroy(network)


def test_runtime_memory(classifier: Path, flexible: Path) -> None:
    source = load(classifier)
    other = LiteNetwork()
    other.share_runtime_memroy(source)
    other.load(flexible)
    for batch in (1, 4, 2):
        check(source, classifier)
        check(other, flexible, batch)
    del source
    gc.collect()
    check(other, flexible)


def test_both(classifier: Path) -> None:
    source = load(classifier)
    other = LiteNetwork()
    other.share_runtime_memroy(source)
    other.share_weights_with(source)
    check(other, classifier)
    check(source, classifier)


@pytest.mark.parametrize("memory", [False, True])
def test_at_the_same_time(classifier: Path, memory: bool) -> None:
    """Networks with one memory for runs take turns: a run out of turn is an error, and no result is ever wrong."""
    source = load(classifier)
    networks = [source]
    for _ in range(3):
        network = LiteNetwork()
        if memory:
            network.share_runtime_memroy(source)
        network.share_weights_with(source)
        networks.append(network)
    images = [models.image() for _ in networks]
    wrong: list[int] = []

    def work(number: int) -> None:
        network, expected = networks[number], models.expected(classifier, data=images[number])[0]
        network.get_io_tensor("data").set_data_by_copy(images[number])
        for _ in range(100):
            try:
                network.forward()
            except RuntimeError as error:
                if not memory or "another run is under way" not in str(error):
                    wrong.append(number)
                continue
            network.wait()
            if not np.array_equal(network.get_io_tensor("prob").to_numpy(), expected):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(networks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def resident() -> int:
    """Return the process's memory in MiB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") >> 20


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from Linux's /proc")
def test_weights_are_in_memory_once(tmp_path: Path) -> None:
    wide = 2048
    weights = [(f"w{i}", np.random.default_rng(i).standard_normal((wide, wide), np.float32)) for i in range(3)]
    path = models.write(
        tmp_path / "wide.onnx",
        [("MatMul", ["x", "w0"], ["y"], {}), ("MatMul", ["y", "w1"], ["z"], {}), ("MatMul", ["z", "w2"], ["out"], {})],
        [("x", "float32", [1, wide])],
        [("out", "float32", [1, wide])],
        weights,
    )
    size = 3 * wide * wide * 4 >> 20
    del weights
    source = load(path)
    source.get_io_tensor("x").set_data_by_copy(np.ones((1, wide), "float32"))
    source.forward()
    before = resident()
    others = []
    for _ in range(5):
        network = LiteNetwork(LiteConfig())
        network.share_weights_with(source)
        network.get_io_tensor("x").set_data_by_copy(np.ones((1, wide), "float32"))
        network.forward()
        others.append(network)
    assert resident() - before < size // 2, "MiB, where a copy for each would be five times the size"
    expected = source.get_io_tensor("out").to_numpy()
    assert all(np.array_equal(network.get_io_tensor("out").to_numpy(), expected) for network in others)
