"""What is written is whole or not there, and what is read ends: every writer and every reader, with faults planted."""

from __future__ import annotations

import io
import os
import random
import re
import resource
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import triune
from triune import _files, _native
from triune.batch import Preprocess
from triune.cli import main
from triune.cli.data import Input, load
from triune.errors import ArgumentError, FileError
from triune.icraft.host_backend import HostBackend
from triune.icraft.xir import Framework, Network
from triune.icraft.xrt import HostDevice, Session
from triune.megenginelite import LiteGlobal, LiteNetwork
from triune.models import DIGITS_F32, DIGITS_INT8, digits_held_out
from triune.profiling import Workload, compose, explore, profile

Write = Callable[[Path], object]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return triune.compile(DIGITS_INT8, target="metis", output=tmp_path_factory.mktemp("files") / "digits")


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files") / "networks"
    return triune.compile(DIGITS_INT8, target="zg330", output=folder, format="icraft")


def parsed(networks: Path) -> Network:
    network = Network.CreateFromJsonFile(networks / "digits_int8_parsed.json")
    network.loadParamsFromFile(networks / "digits_int8_parsed.raw")
    return network


def lite(before: Callable[[LiteNetwork], object]) -> LiteNetwork:
    """Return a network that has run once, prepared by `before`."""
    network = LiteNetwork()
    network.load(DIGITS_F32)
    before(network)
    image = np.ascontiguousarray(digits_held_out()[0][:1].transpose(0, 3, 1, 2))
    network.get_io_tensor("image").set_data_by_copy(image)
    network.forward()
    network.wait()
    return network


def snapshot(networks: Path, path: Path) -> None:
    session = Session.Create([HostBackend], parsed(networks).view(0), [HostDevice.Default()])
    session.apply()
    session.dumpSnapshot(str(path))


def cli(*arguments: object) -> None:
    """Run the command line; what it says of an error is raised."""
    read, write = os.pipe()
    with os.fdopen(write, "w") as said, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stderr", said)
        code = main([str(each) for each in arguments])
    with os.fdopen(read) as heard:
        text = heard.read()
    if code:
        raise RuntimeError(text)


WRITERS: dict[str, Callable[[Path, Path], Write]] = {
    "profile as CSV": lambda package, _: lambda path: profile(package).write_csv(path),
    "profile as JSON": lambda package, _: lambda path: profile(package).write_json(path),
    "trace": lambda package, _: lambda path: profile(package).write_trace(path),
    "memory snapshot": lambda package, _: lambda path: profile(package).write_memory_snapshot(path),
    "composition as CSV": lambda package, _: lambda path: compose([Workload(package)]).write_csv(path),
    "composition as JSON": lambda package, _: lambda path: compose([Workload(package)]).write_json(path),
    "composition's trace": lambda package, _: lambda path: compose([Workload(package)]).write_trace(path),
    "exploration as CSV": lambda package, _: lambda path: explore(package, {"array": ["..."]}).write_csv(path),
    "exploration as JSON": lambda package, _: lambda path: explore(package, {"array": ["..."]}).write_json(path),
    "network as JSON": lambda _, networks: parsed(networks).dumpJsonToFile,
    "parameters": lambda _, networks: parsed(networks).dumpParamsToFile,
    "snapshot": lambda _, networks: lambda path: snapshot(networks, path),
    "text dump": lambda *_: lambda path: lite(lambda network: network.io_txt_dump(str(path))),
    "profile of a network": lambda *_: lambda path: lite(lambda network: network.enable_profile_performance(str(path))),
}


@pytest.fixture(params=WRITERS)
def write(request: pytest.FixtureRequest, package: Path, networks: Path) -> Write:
    """Return a function that writes a file of more than some hundred bytes."""
    return WRITERS[request.param](package, networks)


@contextmanager
def small_disk(size: int) -> Iterator[None]:
    """Let files have no more bytes. Python ignores the signal that comes with it."""
    assert signal.getsignal(signal.SIGXFSZ) == signal.SIG_IGN
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_leaves_what_was_there(write: Write, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with small_disk(100), pytest.raises(RuntimeError, match=r"cannot write .*file: File too large"):
        write(path)
    # A text dump is a log: it begins anew, and a run is in it as a whole or not.
    assert path.read_bytes() in (b"old", b"")
    assert os.listdir(tmp_path) == ["file"]


def test_links_and_modes_stay(write: Write, tmp_path: Path) -> None:
    real, link = tmp_path / "deep" / "real", tmp_path / "link"
    real.parent.mkdir()
    real.write_text("old")
    real.chmod(0o600)
    link.symlink_to("deep/real")
    write(link)
    assert link.is_symlink()
    assert real.stat().st_size > 100
    assert stat.S_IMODE(real.stat().st_mode) == 0o600
    assert os.listdir(real.parent) == ["real"]


def test_devices_are_written_directly(write: Write) -> None:
    write(Path("/dev/null"))
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    with pytest.raises(RuntimeError, match="cannot write /dev/full: No space left on device"):
        write(Path("/dev/full"))


def test_what_is_written_directly_is_the_callers_to_open(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        for direct in (Path("/dev/null"), tmp_path / "pipe"):
            assert _native.OutputFile(direct).descriptor() is None
    finally:
        os.close(reader)
    path = tmp_path / "file"
    output = _native.OutputFile(path)
    descriptor = output.descriptor()
    assert descriptor is not None
    os.write(descriptor, b"new")
    os.close(descriptor)
    assert not path.exists()
    output.commit(sync=False)
    assert path.read_bytes() == b"new"
    with pytest.raises(ArgumentError, match="has been put in its place"):
        output.descriptor()
    output.discard()
    assert path.read_bytes() == b"new"
    given_up = _native.OutputFile(path)
    given_up.discard()
    given_up.commit()
    assert path.read_bytes() == b"new"
    assert sorted(os.listdir(tmp_path)) == ["file", "pipe"]


def test_new_files_have_the_masks_mode(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        _files.write_text(tmp_path / "file", "new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


def test_an_error_on_the_way_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def fail(file: Any, half: str | bytes) -> None:
        file.write(half)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), _files.replaced(path) as file:
        fail(file, b"half")
    with pytest.raises(ZeroDivisionError), _files.replaced_text(path) as text:
        fail(text, "half")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_converted_model_is_whole(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link.mge"
    real.write_text("old")
    link.symlink_to(real)
    with small_disk(100), pytest.raises(FileError, match=r"cannot write .*link\.mge: File too large"):
        _native.convert(DIGITS_F32, link)
    assert real.read_text() == "old"
    _native.convert(DIGITS_F32, link)
    assert link.is_symlink()
    assert real.stat().st_size > 1000
    assert sorted(os.listdir(tmp_path)) == ["link.mge", "real"]


def test_results_of_a_run_are_whole(package: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "image.npy", digits_held_out()[0][:1].transpose(0, 3, 1, 2))
    real = tmp_path / "real"
    real.write_text("old")
    arguments = ["run", package, "--input", tmp_path / "image.npy", "--output", real]
    with small_disk(100), pytest.raises(RuntimeError, match=r"cannot write .*real: File too large"):
        cli(*arguments)
    assert real.read_text() == "old"
    cli(*arguments)
    assert np.load(real)
    assert sorted(os.listdir(tmp_path)) == ["image.npy", "real"]


def test_results_of_a_run_go_to_devices_and_pipes(tmp_path: Path) -> None:
    np.save(tmp_path / "image.npy", digits_held_out()[0][:1].transpose(0, 3, 1, 2))
    arguments = ["run", DIGITS_INT8, "--input", tmp_path / "image.npy", "--output"]
    # Which says that it can be read from anywhere, and that it is at its begin whatever was written.
    cli(*arguments, "/dev/null")
    with pytest.raises(RuntimeError, match="cannot write /dev/full: No space left on device"):
        cli(*arguments, "/dev/full")
    cli(*arguments, tmp_path / "file.npz")
    done = subprocess.run(
        [sys.executable, "-m", "triune", *map(str, arguments), "/dev/stdout"], stdout=subprocess.PIPE, check=True
    )
    with np.load(io.BytesIO(done.stdout)) as piped, np.load(tmp_path / "file.npz") as whole:
        assert piped.files == whole.files
        assert all(np.array_equal(piped[name], whole[name]) for name in whole.files)


def test_standard_output_is_a_file_too(package: Path) -> None:
    program = f"from triune.profiling import profile; profile({str(package)!r}).write_csv('/dev/stdout')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("name,kind,start")
    with subprocess.Popen(
        [sys.executable, "-m", "triune", "profile", package, "--csv", "/dev/stdout"], stdout=subprocess.PIPE
    ) as one:
        assert one.stdout is not None
        one.stdout.close()
    assert one.returncode == 0, "who reads has seen enough"


# ---- several files of a folder


FORMATS: dict[str, dict[str, Any]] = {"package": {"target": "metis"}, "icraft": {"target": "zg330", "format": "icraft"}}

# Compiles a model into a folder for ever, and says so.
COMPILER = """
import sys, triune
while True:
    triune.compile(sys.argv[2], output=sys.argv[1], **{options})
    print("compiled", flush=True)
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return two models of one name with other weights."""
    import onnx
    from onnx import numpy_helper

    found = []
    for number in range(2):
        model = onnx.load(DIGITS_INT8)
        for tensor in model.graph.initializer:
            values = numpy_helper.to_array(tensor)
            if values.dtype == np.int8 and values.size > 100:
                tensor.CopyFrom(numpy_helper.from_array(np.roll(values, number), tensor.name))
        path = tmp_path_factory.mktemp("model") / "digits.onnx"
        path.write_bytes(model.SerializeToString())
        found.append(path)
    return found


def content(folder: Path) -> dict[str, bytes]:
    """Return the bytes of each file that is no part of one, as the core's readers find them."""
    names = [name for name in os.listdir(folder) if not name.startswith(".")]
    return {name: _files.read(folder / name, 1 << 30) for name in names}


@pytest.mark.parametrize("form", FORMATS)
def test_kills_leave_whole_folders(form: str, models: list[Path], tmp_path: Path) -> None:
    program = COMPILER.format(options=FORMATS[form])
    expected = []
    for number, model in enumerate(models):
        triune.compile(model, output=tmp_path / str(number), **FORMATS[form])
        expected.append(content(tmp_path / str(number)))
    assert expected[0] != expected[1]
    folder = tmp_path / "folder"
    chance = random.Random(7)
    for _ in range(8):
        both = []
        for model in models:
            arguments = [sys.executable, "-c", program, str(folder), str(model)]
            both.append(subprocess.Popen(arguments, stdout=subprocess.PIPE))
        for one in both:
            assert one.stdout is not None
            assert one.stdout.readline() == b"compiled\n"
        time.sleep(chance.random() / 50)
        for one in both:
            one.kill()
            one.wait()
            assert one.stdout is not None
            one.stdout.close()
        assert content(folder) in expected
    triune.compile(models[0], output=folder, **FORMATS[form])
    assert sorted(os.listdir(folder)) == sorted(expected[0]), "what killed ones left is gone"
    assert content(folder) == expected[0]


@pytest.mark.parametrize("form", FORMATS)
def test_a_full_disk_leaves_the_folder(form: str, models: list[Path], tmp_path: Path) -> None:
    options = FORMATS[form]
    folder = tmp_path / "folder"
    triune.compile(models[0], output=folder, **options)
    (folder / "notes").write_text("mine")
    before = content(folder)
    with small_disk(1500), pytest.raises(FileError, match=r"cannot write .*folder/.*: File too large"):
        triune.compile(models[1], output=folder, **options)
    assert content(folder) == before
    assert sorted(os.listdir(folder)) == sorted(before)
    with small_disk(1500), pytest.raises(FileError):
        triune.compile(models[1], output=tmp_path / "new", **options)
    assert not (tmp_path / "new").exists()


def test_links_in_a_package_stay(models: list[Path], tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    triune.compile(models[0], output=folder)
    (folder / "constants.bin").rename(tmp_path / "elsewhere")
    (folder / "constants.bin").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "link").symlink_to(folder)
    triune.compile(models[1], output=tmp_path / "link")
    assert (folder / "constants.bin").is_symlink()
    assert (tmp_path / "link").is_symlink()
    _native.Package(tmp_path / "link" / "model.json")


# ---- reading

READERS: dict[str, Callable[[Path, Path], object]] = {
    "model": lambda path, _: triune.Session(path),
    "model to compile": lambda path, folder: triune.compile(path, output=folder),
    "model of a network": lambda path, _: LiteNetwork().load(path),
    "package": lambda path, _: _native.Package(path),
    "network": lambda path, _: Network.CreateFromJsonFile(path),
    "parameters": lambda path, _: Network("n", Framework.ONNX, "").loadParamsFromFile(path),
    "parameters, lazily": lambda path, _: Network("n", Framework.ONNX, "").lazyLoadParamsFromFile(path),
    "snapshot": lambda path, _: Session.CreateWithSnapshot(str(path), [HostBackend], [HostDevice.Default()]),
    "fast-run cache": lambda path, _: LiteGlobal.set_persistent_cache(path),
    "loader": lambda path, _: LiteGlobal.set_loader_lib_path(path),
    "token": lambda path, _: _native.BoardServer("zg330", "127.0.0.1:0", token_file=path),
    "certificates": lambda path, _: _native.BoardServer("zg330", "127.0.0.1:0", certificate=path, key=path),
}


@pytest.mark.parametrize("reader", READERS)
def test_what_does_not_end_is_refused(reader: str, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path, what in ((Path("/dev/zero"), "a device"), (pipe, "a pipe")):
        with pytest.raises(RuntimeError, match=f"cannot read {path}: it is {what}, not a plain file"):
            READERS[reader](path, tmp_path / "folder")


def test_arrays_and_cards_that_do_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = Preprocess(scale=1.0)
    for name in ("x.npy", "x.npz", "x.png"):
        os.mkfifo(tmp_path / name)
        with pytest.raises(FileError, match="it is a pipe, not a plain file"):
            load(tmp_path / name, [Input("x", (1, 3, 4, 4))], pixels)
    os.mkfifo(tmp_path / "cards.toml")
    monkeypatch.setenv("TRIUNE_CARDS", str(tmp_path / "cards.toml"))
    with pytest.raises(RuntimeError, match="it is a pipe, not a plain file"):
        _native.cards()


def test_files_of_proc_say_no_size() -> None:
    assert b"Name:" in _files.read("/proc/self/status", 1 << 20)
    with pytest.raises(FileError, match="it goes on, more than the 10"):
        _files.read("/proc/self/status", 10)


def test_parameters_that_shrink_end_no_process(networks: Path, tmp_path: Path) -> None:
    """A mapped file that is cut ends the process that touches what is gone."""
    for name in ("json", "raw"):
        (tmp_path / f"net.{name}").write_bytes((networks / f"digits_int8_parsed.{name}").read_bytes())
    program = f"""
import os
from triune.icraft.xir import Error, Network
network = Network.CreateFromJsonFile({str(tmp_path / "net.json")!r})
network.lazyLoadParamsFromFile({str(tmp_path / "net.raw")!r})
had = network.allParams()[0].data()
os.truncate({str(tmp_path / "net.raw")!r}, 0)
print(int((had == had).all()))
for params in network.allParams()[1:]:
    try:
        params.data()
    except Error as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    first, *others = done.stdout.splitlines()
    assert first == "1"
    assert others
    assert all("it was cut to 0 bytes after it was loaded" in line for line in others)


# ---- arrays in use


def session() -> tuple[npt.NDArray[Any], Callable[[], object]]:
    image = np.ascontiguousarray(digits_held_out()[0][:1].transpose(0, 3, 1, 2))
    opened = triune.Session(DIGITS_F32)
    return image, lambda: opened.run({"image": image})


def bound() -> tuple[npt.NDArray[Any], Callable[[], object]]:
    image = np.ascontiguousarray(digits_held_out()[0][:1].transpose(0, 3, 1, 2))
    network = LiteNetwork()
    network.load(DIGITS_F32)
    network.get_io_tensor("image").set_data_by_share(image)

    def run() -> None:
        network.forward()
        network.wait()

    return image, run


@pytest.mark.parametrize("made", [session, bound])
def test_arrays_cannot_be_resized_during_a_run(
    made: Callable[[], tuple[npt.NDArray[Any], Callable[[], object]]],
) -> None:
    image, run = made()
    shape = image.shape
    run()
    done = threading.Event()
    kept = moved = 0

    def resize() -> None:
        nonlocal kept, moved
        while not done.is_set():
            try:
                image.resize((1 << 20,), refcheck=False)
                image.resize(shape, refcheck=False)
                moved += 1
            except ValueError:
                kept += 1

    thread = threading.Thread(target=resize)
    thread.start()
    runs = 0
    try:
        while kept < 20 or runs < 200:
            runs += 1
            try:
                run()
            except RuntimeError as error:
                # Between two runs it may have been.
                assert re.search("expected shape|extent|was resized", str(error))  # noqa: PT017
    finally:
        done.set()
        thread.join()
