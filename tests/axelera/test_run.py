"""`ModelInstance.run`: arrays, file descriptors, threads, double buffering, profiling."""

from __future__ import annotations

import fcntl
import mmap
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from triune.axelera.runtime import Context, InvalidArgument, Model, ModelInstance, TensorInfo

Tensor = npt.NDArray[Any]


@pytest.fixture
def instance(context: Context, model: Model) -> ModelInstance:
    return context.device_connect().load_model_instance(model)


def test_answers_are_right(model: Model, images: npt.NDArray[np.float32], results: list[Tensor]) -> None:
    from triune.models import digits_held_out

    labels = digits_held_out()[1][: len(images)]
    answers = [model.outputs()[0].dequantize(result).argmax() for result in results]
    assert np.mean(answers == labels) > 0.9


def test_equal_to_onnxruntime(model: Model, images: npt.NDArray[np.float32], results: list[Tensor]) -> None:
    ort = pytest.importorskip("onnxruntime")
    from triune.models import DIGITS_INT8

    session = ort.InferenceSession(DIGITS_INT8, providers=["CPUExecutionProvider"])
    logits = session.run(None, {"image": np.ascontiguousarray(images.transpose(0, 3, 1, 2))})[0]
    found = np.concatenate([model.outputs()[0].dequantize(result).reshape(1, -1) for result in results])
    assert (found.view(np.uint32) == logits.view(np.uint32)).all()


def test_returns_none(instance: ModelInstance, frames: list[Tensor], output: Callable[[], Tensor]) -> None:
    assert instance.run([frames[0]], [output()]) is None  # type: ignore[func-returns-value]


def test_tuples_are_fine(
    instance: ModelInstance, frames: list[Tensor], results: list[Tensor], output: Callable[[], Tensor]
) -> None:
    target = output()
    instance.run((frames[0],), (target,))  # type: ignore[arg-type]
    assert (target == results[0]).all()


def test_read_only_input(
    instance: ModelInstance, frames: list[Tensor], results: list[Tensor], output: Callable[[], Tensor]
) -> None:
    frames[0].flags.writeable = False
    target = output()
    instance.run([frames[0]], [target])
    assert (target == results[0]).all()


def changed(array: Tensor, how: str) -> Any:
    return {
        "float32": lambda: array.astype(np.float32),
        "uint8": lambda: array.view(np.uint8),
        "flat": lambda: array.reshape(-1),
        "reversed": lambda: array[..., ::-1],
        "fortran": lambda: np.asfortranarray(array),
        "list": lambda: array.tolist(),
        "none": lambda: None,
        "byte order": lambda: array.astype(">i2"),
        "object": lambda: array.astype(object),
        "masked": lambda: np.ma.masked_equal(array, 0),
    }[how]()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("float32", r"expected dtype int8, got float32 \(quantize and pad it first\)"),
        ("uint8", "expected dtype int8, got uint8"),
        ("flat", r"expected shape \(1, .*\), got \(\d+,\)"),
        ("reversed", "expected a C-contiguous array"),
        ("list", "expected a numpy array of int8, got list"),
        ("none", "expected a numpy array of int8, got NoneType"),
        ("byte order", "expected dtype int8, got >i2|expected dtype int8, got int16"),
        ("object", "expected dtype int8, got object"),
        ("masked", r"expected an array, got a masked one, which has elements without a value: .*filled"),
    ],
)
@pytest.mark.parametrize("side", ["inputs", "outputs"])
def test_wrong_arrays(
    instance: ModelInstance, frames: list[Tensor], output: Callable[[], Tensor], side: str, how: str, message: str
) -> None:
    arguments: dict[str, list[Any]] = {"inputs": [frames[0]], "outputs": [output()]}
    arguments[side] = [changed(arguments[side][0], how)]
    with pytest.raises(InvalidArgument, match=re.escape(f"{side}[0]: ") + f"({message})"):
        instance.run(arguments["inputs"], arguments["outputs"])


def test_fortran_order(instance: ModelInstance, frames: list[Tensor], output: Callable[[], Tensor]) -> None:
    with pytest.raises(InvalidArgument, match=r"inputs\[0\]: expected a C-contiguous array"):
        instance.run([changed(frames[0], "fortran")], [output()])


def test_wrong_numbers(instance: ModelInstance, frames: list[Tensor], output: Callable[[], Tensor]) -> None:
    with pytest.raises(InvalidArgument, match=r"inputs: expected 1 \(image\), got 2"):
        instance.run(frames[:2], [output()])
    with pytest.raises(InvalidArgument, match=r"outputs: expected 1 \(logits\), got 0"):
        instance.run(frames[:1], [])
    with pytest.raises(InvalidArgument, match="inputs: expected a list of arrays, got ndarray"):
        instance.run(frames[0], [output()])  # type: ignore[arg-type]


def test_read_only_output(instance: ModelInstance, frames: list[Tensor], output: Callable[[], Tensor]) -> None:
    target = output()
    target.flags.writeable = False
    with pytest.raises(InvalidArgument, match=r"outputs\[0\]: expected a writeable array"):
        instance.run([frames[0]], [target])


def test_an_array_for_two_things(context: Context, model: Model) -> None:
    """An output that overlaps an input would be read half new."""
    info, result = model.inputs()[0], model.outputs()[0]
    memory = np.zeros(max(info.size, result.size), np.int8)
    source = memory[: info.size].reshape(info.shape)
    target = memory[: result.size].reshape(result.shape)
    instance = context.device_connect().load_model_instance(model)
    with pytest.raises(InvalidArgument, match=r"outputs\[0\]: expected an array that nobody else uses"):
        instance.run([source], [target])


def test_a_descriptor_for_two_things(context: Context, model: Model, frames: list[Tensor]) -> None:
    info, result = model.inputs()[0], model.outputs()[0]
    instance = context.device_connect().load_model_instance(model, input_dmabuf=True, output_dmabuf=True)
    fd = os.memfd_create("buffer")
    same = os.dup(fd)
    other = os.memfd_create("other")
    try:
        for each in (fd, other):
            os.ftruncate(each, max(info.size, result.size))
        os.pwrite(fd, frames[0].tobytes(), 0)
        before = os.pread(fd, info.size, 0)
        for target in (fd, same):
            with pytest.raises(
                InvalidArgument, match=r"outputs\[0\]: expected a descriptor of a buffer that nobody else uses"
            ):
                instance.run([fd], [target])
        assert os.pread(fd, info.size, 0) == before
        instance.run([fd], [other])
    finally:
        for each in (fd, same, other):
            os.close(each)


def test_a_failed_run_changes_nothing(
    instance: ModelInstance, frames: list[Tensor], results: list[Tensor], output: Callable[[], Tensor]
) -> None:
    target = output()
    with pytest.raises(InvalidArgument):
        instance.run([frames[0][..., ::-1]], [target])
    assert (target == 77).all()
    instance.run([frames[0]], [target])
    assert (target == results[0]).all()


def test_batch(context: Context, package_of_two: Path, images: npt.NDArray[np.float32], results: list[Tensor]) -> None:
    model = context.load_model(package_of_two)
    info = model.inputs()[0]
    instance = context.device_connect(None, 2).load_model_instance(model, num_sub_devices=2, aipu_cores=2)
    target = np.zeros(model.outputs()[0].shape, np.int8)
    for first in range(0, len(images), 2):
        instance.run([info.quantize(images[first : first + 2])], [target])
        assert (target == np.concatenate(results[first : first + 2])).all()


# Threads


def test_threads_with_an_instance_each(
    context: Context, model: Model, frames: list[Tensor], results: list[Tensor], output: Callable[[], Tensor]
) -> None:
    instances = [context.device_connect().load_model_instance(model) for _ in range(4)]
    wrong: list[int] = []

    def work(number: int) -> None:
        target = output()
        for turn in range(200):
            index = (turn * 7 + number) % len(frames)
            instances[number].run([frames[index]], [target])
            if (target != results[index]).any():
                wrong.append(index)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_threads_on_one_instance_take_turns(
    instance: ModelInstance, frames: list[Tensor], results: list[Tensor], output: Callable[[], Tensor]
) -> None:
    wrong: list[int] = []

    def work(number: int) -> None:
        target = output()
        for turn in range(200):
            index = (turn * 5 + number) % len(frames)
            instance.run([frames[index]], [target])
            if (target != results[index]).any():
                wrong.append(index)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_two_threads_cannot_write_one_array(context: Context, model: Model, frames: list[Tensor]) -> None:
    """A second run into an array that is being written is refused, or comes after the first: never both at once."""
    instances = [context.device_connect().load_model_instance(model) for _ in range(2)]
    target = np.zeros(model.outputs()[0].shape, np.int8)
    refused: list[str] = []

    def work(instance: ModelInstance) -> None:
        for _ in range(500):
            try:
                instance.run([frames[0]], [target])
            except InvalidArgument as error:
                refused.append(str(error))

    threads = [threading.Thread(target=work, args=(instance,)) for instance in instances]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all("outputs[0]: expected an array that nobody else uses" in text for text in refused)


def test_other_threads_go_on(instance: ModelInstance, frames: list[Tensor], output: Callable[[], Tensor]) -> None:
    """While one thread does nothing but run, another gets its turns: `run` lets go of the interpreter."""
    runs = 0

    def work() -> None:
        nonlocal runs
        target = output()
        while runs < 1000:
            instance.run([frames[0]], [target])
            runs += 1

    thread = threading.Thread(target=work)
    thread.start()
    turns = 0
    while thread.is_alive():
        turns += 1
    thread.join()
    assert turns > runs


# Double buffering


def test_results_come_two_calls_late(
    context: Context, model: Model, frames: list[Tensor], results: list[Tensor], output: Callable[[], Tensor]
) -> None:
    instance = context.device_connect().load_model_instance(model, double_buffer=True)
    for call, frame in enumerate(frames):
        target = output()
        source = frame.copy()
        instance.run([source], [target])
        # What happens to the input after its call must not matter.
        source.fill(-1)
        if call < 2:
            assert (target == 77).all()
        else:
            assert (target == results[call - 2]).all()


def test_instances_delay_by_themselves(
    context: Context, model: Model, frames: list[Tensor], results: list[Tensor], output: Callable[[], Tensor]
) -> None:
    """Frames go round the instances, as the vendor's example does: the first 2 × N results are dropped."""
    instances = [context.device_connect().load_model_instance(model, double_buffer=1) for _ in range(3)]
    found = []
    zeros = [np.zeros_like(frames[0])] * 6
    for number, frame in enumerate(frames + zeros):
        target = output()
        instances[number % 3].run([frame], [target])
        found.append(target)
    assert all((a == b).all() for a, b in zip(found[6:], results, strict=True))


def test_a_failed_run_delays_nothing(
    context: Context, model: Model, frames: list[Tensor], results: list[Tensor], output: Callable[[], Tensor]
) -> None:
    instance = context.device_connect().load_model_instance(model, double_buffer=True)
    found = []
    for frame in frames:
        target = output()
        with pytest.raises(InvalidArgument):
            instance.run([frame], [])
        instance.run([frame], [target])
        found.append(target)
    assert all((a == b).all() for a, b in zip(found[2:], results, strict=False))


# File descriptors


class Buffer:
    """A memfd that stands for a dma-buf: page-rounded, as a heap's are."""

    def __init__(self, info: TensorInfo, size: int | None = None) -> None:
        self.info = info
        self.fd = os.memfd_create("buffer")
        os.truncate(self.fd, -(-info.size // 4096) * 4096 if size is None else size)

    def fill(self, array: Tensor) -> None:
        os.pwrite(self.fd, array.tobytes(), 0)

    def read(self) -> Tensor:
        return np.frombuffer(os.pread(self.fd, self.info.size, 0), self.info.dtype).reshape(self.info.shape)


@pytest.fixture
def buffers(model: Model) -> Iterator[tuple[Buffer, Buffer]]:
    pair = Buffer(model.inputs()[0]), Buffer(model.outputs()[0])
    yield pair
    for buffer in pair:
        os.close(buffer.fd)


def test_descriptors_both_ways(
    context: Context, model: Model, frames: list[Tensor], results: list[Tensor], buffers: tuple[Buffer, Buffer]
) -> None:
    source, target = buffers
    instance = context.device_connect().load_model_instance(model, input_dmabuf=True, output_dmabuf=True)
    for frame, result in zip(frames, results, strict=True):
        source.fill(frame)
        instance.run([source.fd], [target.fd])
        assert (target.read() == result).all()


def test_sides_are_independent(
    context: Context,
    model: Model,
    frames: list[Tensor],
    results: list[Tensor],
    buffers: tuple[Buffer, Buffer],
    output: Callable[[], Tensor],
) -> None:
    source, target = buffers
    source.fill(frames[0])
    array = output()
    context.device_connect().load_model_instance(model, input_dmabuf=1).run([source.fd], [array])
    assert (array == results[0]).all()
    context.device_connect().load_model_instance(model, output_dmabuf=1).run([frames[1]], [target.fd])
    assert (target.read() == results[1]).all()


def test_double_buffer_with_descriptors(
    context: Context, model: Model, frames: list[Tensor], results: list[Tensor], buffers: tuple[Buffer, Buffer]
) -> None:
    source, target = buffers
    instance = context.device_connect().load_model_instance(model, input_dmabuf=1, output_dmabuf=1, double_buffer=1)
    for call, frame in enumerate(frames):
        source.fill(frame)
        instance.run([source.fd], [target.fd])
        if call >= 2:
            assert (target.read() == results[call - 2]).all()


def test_a_descriptor_number_used_again_is_another_buffer(
    context: Context, model: Model, frames: list[Tensor], results: list[Tensor], output: Callable[[], Tensor]
) -> None:
    instance = context.device_connect().load_model_instance(model, input_dmabuf=True)
    numbers = set()
    for frame, result in zip(frames, results, strict=True):
        source = Buffer(model.inputs()[0])
        source.fill(frame)
        array = output()
        instance.run([source.fd], [array])
        assert (array == result).all()
        numbers.add(source.fd)
        os.close(source.fd)
    assert len(numbers) == 1, "the test must use one number again and again"


def test_a_plain_file_is_a_buffer_too(
    context: Context,
    model: Model,
    frames: list[Tensor],
    results: list[Tensor],
    output: Callable[[], Tensor],
    tmp_path: Path,
) -> None:
    (tmp_path / "frame").write_bytes(frames[0].tobytes())
    array = output()
    with open(tmp_path / "frame", "rb") as file:
        context.device_connect().load_model_instance(model, input_dmabuf=True).run([file.fileno()], [array])
    assert (array == results[0]).all()


def test_too_small(context: Context, model: Model, output: Callable[[], Tensor]) -> None:
    info = model.inputs()[0]
    source = Buffer(info, info.size - 1)
    instance = context.device_connect().load_model_instance(model, input_dmabuf=True)
    with pytest.raises(InvalidArgument, match=rf"inputs\[0\]: expected a buffer of at least {info.size} bytes"):
        instance.run([source.fd], [output()])
    os.close(source.fd)


def test_a_buffer_that_shrank(context: Context, model: Model, output: Callable[[], Tensor]) -> None:
    """Touching pages beyond the end would kill the process."""
    source = Buffer(model.inputs()[0])
    instance = context.device_connect().load_model_instance(model, input_dmabuf=True)
    instance.run([source.fd], [output()])
    os.truncate(source.fd, 0)
    with pytest.raises(InvalidArgument, match="of 0 bytes"):
        instance.run([source.fd], [output()])
    os.close(source.fd)


def test_what_cannot_shrink_is_mapped(
    context: Context, model: Model, frames: list[Tensor], results: list[Tensor], output: Callable[[], Tensor]
) -> None:
    instance = context.device_connect().load_model_instance(model, input_dmabuf=True)
    fd = os.memfd_create("buffer", os.MFD_ALLOW_SEALING)
    os.write(fd, frames[0].tobytes())
    array = output()
    for sealed in (False, True):
        if sealed:
            add_seals, seal_shrink = 1033, 2
            fcntl.fcntl(fd, add_seals, seal_shrink)
        array[:] = 0
        instance.run([fd], [array])
        assert (array == results[0]).all()
        assert len(instance._inputs.buffers._maps) == sealed
    os.close(fd)


def test_buffers_that_shrink_while_they_are_used(package: Path) -> None:
    """A mapping of them would end the process."""
    program = f"""
import os, threading
from triune.axelera.runtime import Context, InvalidArgument
model = (context := Context()).load_model({str(package)!r})
instance = context.device_connect().load_model_instance(model, input_dmabuf=1, output_dmabuf=1)
sizes = [info.size for info in (*model.inputs(), *model.outputs())]
fds = [os.memfd_create("buffer") for _ in sizes]
done = threading.Event()
def shrink():
    while not done.is_set():
        for fd, size in zip(fds, sizes):
            os.truncate(fd, 0)
            os.truncate(fd, size)
thread = threading.Thread(target=shrink)
thread.start()
runs = refused = 0
while runs < 200 or refused < 20:
    try:
        instance.run(fds[:1], fds[1:])
        runs += 1
    except InvalidArgument:
        refused += 1
done.set()
thread.join()
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_arrays_cannot_be_resized_while_they_are_used(package: Path) -> None:
    """`resize(refcheck=False)` moves an array whoever uses it; during a run it must not."""
    program = f"""
import sys
import threading
import time
import numpy as np
from triune.axelera.runtime import Context
sys.setswitchinterval(1e-5)  # the threads meet within a run, not once in many
model = (context := Context()).load_model({str(package)!r})
instance = context.device_connect().load_model_instance(model)
source, result = (np.zeros(info.shape, np.int8) for info in (*model.inputs(), *model.outputs()))
shapes = source.shape, result.shape
done = threading.Event()
kept = moved = 0
def resize():
    global kept, moved
    while not done.is_set():
        for array, shape in zip((source, result), shapes):
            try:
                array.resize((1 << 20,), refcheck=False)
                array.resize(shape, refcheck=False)
                moved += 1
            except ValueError:
                kept += 1
thread = threading.Thread(target=resize)
thread.start()
while kept < 5 or moved < 5:
    try:
        instance.run([source], [result])
    except Exception as error:
        assert "expected shape" in str(error), error
done.set()
thread.join()
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_no_descriptors(
    context: Context, model: Model, frames: list[Tensor], output: Callable[[], Tensor], tmp_path: Path
) -> None:
    instance = context.device_connect().load_model_instance(model, input_dmabuf=True)
    reader, writer = os.pipe()
    wrong: list[tuple[Any, str]] = [
        (99999, "expected an open file descriptor, got 99999"),
        (-1, "expected an open file descriptor, got -1"),
        (1 << 40, "expected an open file descriptor"),
        (reader, "expected a buffer of at least"),
        (frames[0], "expected a dma-buf file descriptor, got ndarray"),
        ("3", "expected a dma-buf file descriptor, got str"),
        (True, "expected a dma-buf file descriptor, got bool"),
    ]
    for fd, message in wrong:
        with pytest.raises(InvalidArgument, match=rf"inputs\[0\]: {message}"):
            instance.run([fd], [output()])
    with pytest.raises(InvalidArgument, match="inputs: expected 1 file descriptors, got 0"):
        instance.run([], [output()])
    with pytest.raises(InvalidArgument, match="inputs: expected a list of file descriptors, got int"):
        instance.run(3, [output()])  # type: ignore[arg-type]
    os.close(reader)
    os.close(writer)


def test_an_output_must_be_writeable(context: Context, model: Model, frames: list[Tensor], tmp_path: Path) -> None:
    (tmp_path / "result").write_bytes(bytes(4096))
    instance = context.device_connect().load_model_instance(model, output_dmabuf=True)
    with (
        open(tmp_path / "result", "rb") as file,
        pytest.raises(InvalidArgument, match=r"outputs\[0\]: descriptor \d+ cannot be read and written"),
    ):
        instance.run([frames[0]], [file.fileno()])


def test_descriptors_for_a_model_that_takes_arrays(instance: ModelInstance, buffers: tuple[Buffer, Buffer]) -> None:
    with pytest.raises(InvalidArgument, match=r"inputs\[0\]: expected a numpy array of int8, got int"):
        instance.run([buffers[0].fd], [buffers[1].fd])


# Profiling


def test_cycles_are_always_there(instance: ModelInstance) -> None:
    profile = instance.profile()
    assert profile.cycles > 0
    assert profile.clock_mhz == 800
    assert profile.operators == []
    assert str(profile).startswith("one run: "), "no heading without a table"
    assert profile.host is None


def test_device_profiling(context: Context, model: Model, frames: list[Tensor], output: Callable[[], Tensor]) -> None:
    instance = context.device_connect().load_model_instance(model, device_profiling=1)
    before = instance.profile()
    assert {row.kind for row in before.operators} >= {"Conv", "Gemm"}
    assert all(row.end - row.start == row.cycles for row in before.operators)
    assert max(row.end for row in before.operators) <= before.cycles
    assert sum(row.macs for row in before.operators) > 100_000
    instance.run([frames[0]], [output()])
    assert instance.profile() == before, "time is modelled from shapes: running changes nothing"
    assert "Conv" in str(before)


def test_profiles_show_themselves(context: Context, model: Model) -> None:
    with context.device_connect() as connection:
        profile = connection.load_model_instance(model, device_profiling=True).profile()
    assert repr(profile) == (
        f"<axelera.runtime.Profile {profile.cycles:,} cycles = {profile.microseconds:,.1f} µs at 800 MHz, "
        f"{len(profile.operators)} operators>"
    )
    page = profile._repr_html_()
    assert page.count("<tr>") == len(profile.operators) + 1
    assert f"<td>{profile.operators[0].cycles:,}</td>" in page


def test_host_profiling(context: Context, model: Model, frames: list[Tensor], output: Callable[[], Tensor]) -> None:
    instance = context.device_connect().load_model_instance(model, host_profiling=True)
    host = instance.profile().host
    assert host is not None
    assert (host.calls, host.mean) == (0, 0.0)
    for _ in range(5):
        instance.run([frames[0]], [output()])
    host = instance.profile().host
    assert host is not None
    assert host.calls == 5
    assert 0 < host.minimum <= host.mean <= host.maximum < 10
    assert host.minimum <= host.last <= host.maximum


def test_a_program_may_end_with_threads_in_run(package: Path) -> None:
    program = f"""
import threading, time
import numpy as np
from triune.axelera.runtime import Context
model = (context := Context()).load_model({str(package)!r})
instance = context.device_connect().load_model_instance(model)
def work():
    source, result = (np.zeros(info.shape, np.int8) for info in (*model.inputs(), *model.outputs()))
    while True:
        instance.run([source], [result])
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.1)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_signal_handler_may_release(package: Path) -> None:
    program = f"""
import os, signal
from triune.axelera.runtime import Context, InvalidArgument
model = (context := Context()).load_model({str(package)!r})
connection = context.device_connect()
def buffer(size):
    fd = os.memfd_create("buffer")
    os.ftruncate(fd, size)
    return fd
source, result = buffer(model.inputs()[0].size), buffer(model.outputs()[0].size)
signal.signal(signal.SIGALRM, lambda *_: instance.release())
for attempt in range(200):
    instance = connection.load_model_instance(model, input_dmabuf=1, output_dmabuf=1)
    signal.setitimer(signal.ITIMER_REAL, 0.0003 + attempt % 50 * 1e-5)
    try:
        while True:
            instance.run([source], [result])
    except InvalidArgument:
        pass
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("descriptors", [False, True])
def test_paced_outputs_appear_when_the_card_would_give_them(
    context: Context,
    model: Model,
    frames: list[Tensor],
    results: list[Tensor],
    monkeypatch: pytest.MonkeyPatch,
    double: bool,
    descriptors: bool,
) -> None:
    # A thousandth of the card's speed: its microseconds are milliseconds.
    monkeypatch.setenv("TRIUNE_REALTIME", "0.001")
    made = context.device_connect().load_model_instance(model, double_buffer=double, output_dmabuf=descriptors)
    info = model.outputs()[0]
    filled, early, done = np.full(info.shape, 99, info.dtype), [], threading.Event()
    output: Any = filled
    if descriptors:
        output = os.memfd_create("output")
        os.write(output, filled.tobytes())
        filled = np.frombuffer(mmap.mmap(output, filled.nbytes), info.dtype).reshape(info.shape)

    def watch() -> None:
        while not done.wait(0.0005):
            early.append(filled.copy())

    for turn in range(4):
        before = filled.copy()
        early.clear()
        done.clear()
        watching = threading.Thread(target=watch)
        watching.start()
        start = time.perf_counter()
        made.run([frames[turn]], [output])
        took = time.perf_counter() - start
        done.set()
        watching.join()
        wanted = results[turn - 2 * double] if turn >= 2 * double else before
        np.testing.assert_array_equal(filled, wanted)
        # The last look may have been taken while this thread was on its way out of the run.
        assert all(np.array_equal(look, before) for look in early[:-2])
        assert double or took > 0.005
    if descriptors:
        os.close(output)


def test_paced_runs_refuse_what_others_do(
    context: Context, model: Model, frames: list[Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIUNE_REALTIME", "1000")
    made = context.device_connect().load_model_instance(model)
    info = model.outputs()[0]
    good = np.zeros(info.shape, info.dtype)
    wide = np.zeros((*info.shape[:-1], info.shape[-1] * 2), info.dtype)[..., ::2]
    frozen = good.copy()
    frozen.flags.writeable = False
    for wrong in ([wide], [frozen], [good[..., 1:]], [], [good, good], None, [None]):
        with pytest.raises(InvalidArgument):
            made.run([frames[0]], wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument):
        made.run([frames[0]], [frames[0]])
