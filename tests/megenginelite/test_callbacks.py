"""Callbacks: when, in which thread, how often, and where their exceptions go; and async runs."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import lite_models as models
import numpy as np
import numpy.typing as npt
import pytest

from triune.megenginelite import LiteIO, LiteNetwork, LiteTensor, start_finish_callback, wrap_async_callback

Array = npt.NDArray[Any]


def load(path: Path) -> LiteNetwork:
    network = LiteNetwork()
    network.load(path)
    return network


def summed(network: LiteNetwork, a: float = 1, b: float = 2) -> Array:
    """Run the adder on constant inputs, return the output."""
    for name, value in (("a", a), ("b", b)):
        network.get_io_tensor(name).set_data_by_copy(np.full((2, 3), value, "float32"))
    network.forward()
    network.wait()
    return network.get_io_tensor("c").to_numpy()


def test_start_and_finish(adder: Path) -> None:
    network, calls = load(adder), []

    def start(ios: dict[LiteIO, LiteTensor]) -> int:
        calls.append(("start", threading.get_ident(), sorted(io.name for io in ios)))
        next(tensor for io, tensor in ios.items() if io.name == "a").set_data_by_copy([10] * 6)
        return 0

    def finish(ios: dict[LiteIO, LiteTensor]) -> None:
        calls.append(("finish", threading.get_ident(), [tensor.to_numpy()[0, 0] for tensor in ios.values()]))

    network.set_start_callback(start_finish_callback(start))
    network.set_finish_callback(finish)
    network.get_io_tensor("a").fill_zero()
    network.get_io_tensor("b").fill_zero()
    network.forward()
    here = threading.get_ident()
    assert calls == [("start", here, ["a", "b"])], "finish is for wait"
    network.wait()
    network.wait()
    assert calls[1:] == [("finish", here, [10])], "once for a run"
    network.set_start_callback(None)
    network.set_finish_callback(None)
    network.forward()
    network.wait()
    assert len(calls) == 2


def test_exceptions_in_callbacks_come_out(adder: Path) -> None:
    """The vendor's binding prints them, and goes on."""
    network = load(adder)
    summed(network)

    def fail(*_: object) -> None:
        raise KeyError("mine")

    network.set_start_callback(fail)
    with pytest.raises(KeyError, match="mine"):
        network.forward()
    network.set_start_callback(None)
    network.set_finish_callback(fail)
    network.forward()
    with pytest.raises(KeyError, match="mine"):
        network.wait()
    network.wait()
    for wrong in (3, "x"):
        with pytest.raises(RuntimeError, match="function"):
            network.set_finish_callback(wrong)  # type: ignore[arg-type]


def test_callbacks_of_many_networks_live_side_by_side(adder: Path) -> None:
    """The vendor's binding keeps but the last one alive."""
    calls: list[tuple[str, int]] = []
    networks = [load(adder) for _ in range(5)]
    for number, network in enumerate(networks):
        network.set_start_callback(lambda ios, number=number: calls.append(("start", number)))
        network.set_finish_callback(lambda ios, number=number: calls.append(("finish", number)))
        network.async_with_callback(wrap_async_callback(lambda number=number: calls.append(("async", number))))
    for network in networks:
        summed(network)
    assert sorted(calls) == sorted((kind, number) for kind in ("start", "finish", "async") for number in range(5))


def test_async(adder: Path) -> None:
    network, done, threads = load(adder), threading.Event(), []

    def callback() -> int:
        threads.append(threading.get_ident())
        done.set()
        return 0

    network.async_with_callback(callback)
    for name in "ab":
        network.get_io_tensor(name).set_data_by_copy([4] * 6)
    network.forward()
    assert done.wait(10)
    assert network.get_io_tensor("c").to_numpy().tolist() == [[8] * 3] * 2
    network.wait()
    assert len(threads) == 1, "waiting calls no second time, as the vendor's does"
    assert threads[0] != threading.get_ident()
    for _ in range(20):
        network.forward()
    network.wait()
    assert len(threads) == 21
    network.async_with_callback(None)
    network.forward()
    network.wait()
    assert len(threads) == 21


def test_errors_in_async_mode(adder: Path, caplog: pytest.LogCaptureFixture) -> None:
    network = load(adder)
    network.async_with_callback(lambda: 1 // 0)
    network.get_io_tensor("a").set_data_by_copy(np.zeros((2, 3), "int8"))
    with pytest.raises(RuntimeError, match="int8"):
        network.forward()
    network.get_io_tensor("a").set_data_by_copy(np.zeros((2, 3), "float32"))
    network.get_io_tensor("b").fill_zero()
    network.forward()
    with pytest.raises(ZeroDivisionError):
        network.wait()
    network.wait()
    network.forward()
    with pytest.raises(ZeroDivisionError):
        network.forward()
    assert "an asynchronous forward failed" in caplog.text


def test_an_async_callback_may_run_the_network_again(adder: Path) -> None:
    network, done, left = load(adder), threading.Event(), [5]

    def callback() -> None:
        left[0] -= 1
        if left[0]:
            network.get_io_tensor("a").copy_from(network.get_io_tensor("c"))
            network.forward()
        else:
            done.set()

    network.async_with_callback(callback)
    network.get_io_tensor("a").fill_zero()
    network.get_io_tensor("b").set_data_by_copy([1] * 6)
    network.forward()
    assert done.wait(10)
    assert network.get_io_tensor("c").to_numpy()[0, 0] == 5


def test_await(classifier: Path) -> None:
    async def one(network: LiteNetwork, image: Array) -> Array:
        network.get_io_tensor("data").set_data_by_copy(image)
        await network.forward_async()
        return network.get_io_tensor("prob").to_numpy()

    async def many() -> list[Array]:
        return await asyncio.gather(*(one(load(classifier), image) for image in images))

    images = [models.image() for _ in range(4)]
    for image, found in zip(images, asyncio.run(many()), strict=True):
        assert np.array_equal(found, models.expected(classifier, data=image)[0])
    network, threads = load(classifier), []
    network.set_start_callback(lambda ios: threads.append(threading.get_ident()))
    network.set_finish_callback(lambda ios: threads.append(threading.get_ident()))
    asyncio.run(one(network, images[0]))
    assert threads == [threading.get_ident()] * 2
    network.get_io_tensor("data").set_data_by_copy(np.zeros(3, "int8"))
    with pytest.raises(RuntimeError, match="int8"):
        asyncio.run(network.forward_async())
