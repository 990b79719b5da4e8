"""Ownership: release in any order, twice, by context manager, by garbage collection."""

from __future__ import annotations

import gc
import itertools
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy.typing as npt
import pytest

from triune.axelera.runtime import Context, InvalidArgument, Model, ModelInstance, Object

Tensor = npt.NDArray[Any]

ORDERS = list(itertools.permutations(["context", "connection", "model", "instance"]))


def family(package: Path) -> dict[str, Object]:
    context = Context()
    connection = context.device_connect(None, 4)
    model = context.load_model(package)
    return {
        "context": context,
        "connection": connection,
        "model": model,
        "instance": connection.load_model_instance(model),
    }


@pytest.mark.parametrize("order", ORDERS)
def test_release_in_any_order(package: Path, order: tuple[str, ...]) -> None:
    objects = family(package)
    for name in order * 2:
        objects[name].release()
    with Context() as context:
        context.device_connect(None, 4)


@pytest.mark.parametrize("order", ORDERS)
def test_collection_in_any_order(package: Path, order: tuple[str, ...]) -> None:
    objects = family(package)
    watched = [weakref.ref(each) for each in objects.values()]
    gc.disable()
    try:
        for name in order:
            del objects[name]
    finally:
        gc.enable()
    # No cycles: everything goes when its last reference does.
    assert all(each() is None for each in watched)
    with Context() as context:
        context.device_connect(None, 4)


def test_children_keep_parents_alive(
    package: Path, frames: list[Tensor], results: list[Tensor], output: Callable[[], Tensor]
) -> None:
    context = Context()
    instance = context.device_connect().load_model_instance(context.load_model(package))
    watched = weakref.ref(context)
    del context
    gc.collect()
    target = output()
    instance.run([frames[0]], [target])
    assert (target == results[0]).all()
    assert instance.context is watched()


def test_every_object_knows_its_context(package: Path) -> None:
    objects = family(package)
    assert all(each.context is objects["context"] for each in objects.values())
    objects["context"].release()


def test_release_takes_the_children(
    context: Context, model: Model, frames: list[Tensor], output: Callable[[], Tensor]
) -> None:
    connection = context.device_connect()
    instance = connection.load_model_instance(model)
    connection.release()
    with pytest.raises(InvalidArgument, match=r"<ModelInstance of .* has been released"):
        instance.run([frames[0]], [output()])


def test_a_released_model_leaves_its_instances(
    context: Context, model: Model, frames: list[Tensor], results: list[Tensor], output: Callable[[], Tensor]
) -> None:
    instance = context.device_connect().load_model_instance(model)
    model.release()
    target = output()
    instance.run([frames[0]], [target])
    assert (target == results[0]).all()


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda o: o["context"].list_devices(), "<Context> has been released"),
        (lambda o: o["context"].configure_device(0), "<Context> has been released"),
        (lambda o: o["context"].device_ready(0), "<Context> has been released"),
        (lambda o: o["context"].read_device_configuration(0), "<Context> has been released"),
        (lambda o: o["context"].device_connect(), "<Context> has been released"),
        (lambda o: o["context"].load_model("x"), "<Context> has been released"),
        (lambda o: o["connection"].load_model_instance(o["model"]), "<Connection to metis-0:1:0.* has been released"),
        (lambda o: o["model"].inputs(), "<Model '.*model.json'> has been released"),
        (lambda o: o["model"].outputs(), "<Model .* has been released"),
        (lambda o: o["model"].properties, "<Model .* has been released"),
        (lambda o: o["instance"].run([], []), "<ModelInstance .* has been released"),
        (lambda o: o["instance"].profile(), "<ModelInstance .* has been released"),
    ],
)
def test_use_after_release(package: Path, use: Callable[[dict[str, Any]], object], message: str) -> None:
    objects = family(package)
    objects["context"].release()
    with pytest.raises(InvalidArgument, match=message):
        use(objects)


def test_with_releases(package: Path, frames: list[Tensor], output: Callable[[], Tensor]) -> None:
    def fail() -> None:
        nonlocal instance
        with Context() as context:
            connection = context.device_connect(None, 4)
            instance = connection.load_model_instance(context.load_model(package))
            raise ZeroDivisionError

    instance: ModelInstance | None = None
    with pytest.raises(ZeroDivisionError):
        fail()
    assert instance is not None
    with pytest.raises(InvalidArgument, match="released"):
        instance.run([frames[0]], [output()])
    with Context() as context:
        context.device_connect(None, 4)


def test_release_during_runs_waits_for_them(
    context: Context, model: Model, frames: list[Tensor], results: list[Tensor], output: Callable[[], Tensor]
) -> None:
    instance = context.device_connect().load_model_instance(model)
    wrong: list[str] = []
    done: list[str] = []

    def work() -> None:
        while True:
            target = output()
            try:
                instance.run([frames[1]], [target])
            except InvalidArgument as error:
                done.append(str(error))
                return
            if (target != results[1]).any():
                wrong.append("wrong data")

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    context.release()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(done) == 3
    assert all("released" in text for text in done)
