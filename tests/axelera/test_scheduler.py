"""`axelera.runtime.scheduler`: who has the cores that the models of pipelines run on."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from triune.axelera.runtime import Connection, Context, DeviceInUse, InvalidArgument, op, scheduler

PICTURE = np.zeros((1, 8, 8), np.float32)


@pytest.fixture(autouse=True)
def own_default() -> Any:
    """Let each test begin without cores, and leave none behind."""
    scheduler.current().close()
    yield
    scheduler.current().close()


def used() -> list[int]:
    """Return how many cores of each card somebody has."""
    with Context() as context:
        counts = []
        for device in context.list_devices():
            count = 0
            while count < device.subdevice_count:
                try:
                    context.device_connect(device, device.subdevice_count - count).release()
                    break
                except DeviceInUse:
                    count += 1
            counts.append(count)
        return counts


def test_models_get_cores_when_they_run(package: Path) -> None:
    model = op.load(package)
    assert used() == [0]
    model(PICTURE)
    assert used() == [1]
    del model
    gc.collect()
    assert used() == [0]


def test_more_models_than_cores_take_turns(package: Path) -> None:
    models = [op.load(package) for _ in range(6)]
    wanted = models[0](PICTURE)
    for model in (*models, *models):
        np.testing.assert_array_equal(model(PICTURE), wanted)
    assert used() == [4]
    models[2].release()
    models[3].release()
    assert used() == [2]
    for model in (models[0], models[5]):
        model(PICTURE)
    with pytest.raises(InvalidArgument, match="has been released"):
        models[2](PICTURE)


def test_what_others_have_is_not_taken(package: Path) -> None:
    with Context() as context:
        held = context.device_connect(num_sub_devices=4)
        with pytest.raises(DeviceInUse, match="sub-devices"):
            op.load(package)(PICTURE)
        held.release()
    op.load(package)(PICTURE)


@pytest.mark.parametrize(
    ("allocations", "cores"),
    [
        ((2,), [2]),
        ((4,), [4]),
        (("50%",), [2]),
        ((1, "100%"), [4]),
        (("10%",), [1]),
        ((3, 4), [4]),
        ((None, None), [2]),
    ],
)
def test_cores_are_given_as_told(package: Path, allocations: tuple[Any, ...], cores: list[int]) -> None:
    models = [op.load(package, core_allocation=allocation) for allocation in allocations]
    for model in models:
        model(PICTURE)
    assert used() == cores


def test_the_older_name_of_an_allocation(package: Path) -> None:
    model = op.load(package, 4)
    model(PICTURE)
    assert used() == [4]


def test_a_batch_takes_its_cores(package_of_two: Path) -> None:
    model = op.load(package_of_two, core_allocation=4)
    model(np.zeros((2, 1, 8, 8), np.float32))
    assert used() == [4]


@pytest.mark.parametrize("wrong", [0, -1, True, 1.5, "half", "0%", "101%", "%", "2"])
def test_wrong_allocations_are_named(package: Path, wrong: Any) -> None:
    with pytest.raises(InvalidArgument, match="core_allocation: expected a number of cores"):
        op.load(package, core_allocation=wrong)


def test_a_block_has_its_own_devices(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIUNE_CARDS", "pcie,pcie")
    model = op.load(package)
    for chosen, cores in (("1", [0, 1]), ("metis-0:1:0", [1, 0]), (" 1 , 0", [0, 1]), ("", [1, 0])):
        with scheduler.create(chosen) as made:
            assert scheduler.current() is made
            model(PICTURE)
            assert used() == cores
        assert used() == [0, 0]
    with scheduler.create("1"):
        pipeline = op.seq(op.load(package, core_allocation=4), op.softmax())
        pipeline(PICTURE)
        assert used() == [0, 4]
    with (
        pytest.raises(InvalidArgument, match="no device '2'; there is metis-0:1:0, metis-0:2:0"),
        scheduler.create("2"),
    ):
        pass
    with pytest.raises(InvalidArgument, match="expected a text"):
        scheduler.Scheduler(1)  # type: ignore[arg-type]


def test_a_closed_scheduler_gives_nothing(package: Path) -> None:
    with scheduler.create() as made:
        op.load(package)(PICTURE)
    made.close()
    with pytest.raises(InvalidArgument, match="has been closed"):
        made.exec_model(package, [], [])
    first = scheduler.current()
    assert scheduler.current() is first
    first.close()
    assert scheduler.current() is not first


def test_a_package_runs_by_its_path(package: Path, frames: Any, results: Any) -> None:
    (output,) = (np.zeros_like(results[0]) for _ in range(1))
    with scheduler.create() as made:
        for frame, wanted in zip(frames, results, strict=True):
            made.exec_model(str(package), [frame], [output])
            np.testing.assert_array_equal(output, wanted)
        assert used() == [1]


def test_batches_and_streams_run_on_the_schedulers_cores(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIUNE_CARDS", "pcie,pcie")
    pipeline = op.seq(op.to_tensor(), op.load(package))
    pictures = list(np.random.default_rng(0).integers(0, 256, (5, 8, 8, 1), np.uint8))
    wanted = [pipeline(picture) for picture in pictures]
    with scheduler.Scheduler("1") as made:
        np.testing.assert_array_equal(made.batch(pipeline, (pictures,)), wanted)
        assert used() == [1, 1]
        for (picture, result), given, right in zip(made.stream(pictures, pipeline), pictures, wanted, strict=True):
            assert picture is given
            assert scheduler.current() is not made, "a program's own work between pictures is not the scheduler's"
            np.testing.assert_array_equal(result, right)


def test_threads_have_a_core_each_and_wait_for_one(package: Path) -> None:
    """Six models in six threads, on four cores: whoever finds all of them at work waits."""
    models = [op.load(package) for _ in range(6)]
    wanted = models[0](PICTURE)
    failures: list[BaseException] = []

    def work(model: Any) -> None:
        try:
            for _ in range(20):
                np.testing.assert_array_equal(model(PICTURE), wanted)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(model,)) for model in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert used() == [4]


def test_a_core_at_work_is_waited_for(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = op.load(package, core_allocation=4), op.load(package)
    first(PICTURE)
    begun, go_on = threading.Event(), threading.Event()
    run = type(scheduler.current()._taken(first._wanted).instance).run
    for core in scheduler.current()._residents[first._wanted].cores:
        core.users = 0

    def slow(self: Any, inputs: Any, outputs: Any) -> None:
        begun.set()
        assert go_on.wait(60)
        run(self, inputs, outputs)

    monkeypatch.setattr("triune.axelera.runtime.ModelInstance.run", slow)
    running = threading.Thread(target=first, args=(PICTURE,))
    running.start()
    assert begun.wait(60)
    waiting = threading.Thread(target=second, args=(PICTURE,))
    waiting.start()
    waiting.join(0.05)
    assert waiting.is_alive()
    assert used() == [4]
    go_on.set()
    running.join()
    waiting.join()
    assert used() == [1]


def test_a_model_that_does_not_load_gives_its_cores_back(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise DeviceInUse("gone")

    model = op.load(package, core_allocation=2)
    with monkeypatch.context() as patch:
        patch.setattr(Connection, "load_model_instance", fail)
        with pytest.raises(DeviceInUse, match="gone"):
            model(PICTURE)
    assert used() == [0]
    model(PICTURE)
    assert used() == [2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_forked_child_goes_on(package: Path) -> None:
    program = (
        "import os, sys, numpy as np\n"
        "from triune.axelera.runtime import op\n"
        "model = op.load(sys.argv[1])\n"
        "picture = np.zeros((1, 8, 8), np.float32)\n"
        "wanted = model(picture)\n"
        "if not (child := os.fork()):\n"
        "    os._exit(0 if np.array_equal(model(picture), wanted) else 3)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), np.array_equal(model(picture), wanted))\n"
    )
    done = subprocess.run([sys.executable, "-c", program, package], capture_output=True, text=True, timeout=120)
    assert done.stdout == "0 True\n", done.stderr


def test_the_import_name() -> None:
    program = (
        "import triune.compat.axelera\n"
        "from axelera.runtime import scheduler\n"
        "import axelera.runtime.scheduler as same\n"
        "print(same is scheduler, scheduler.Scheduler.__name__)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout == "True Scheduler\n", done.stderr
