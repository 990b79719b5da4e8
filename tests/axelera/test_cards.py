"""Virtual cards: which there are, how they are set, and that a sub-device has one holder on the whole machine."""

from __future__ import annotations

import os
import pwd
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import triune
from triune import _native
from triune.axelera.runtime import (
    BoardType,
    ConnectionError,
    Context,
    DeviceInUse,
    InvalidArgument,
    InvalidConfiguration,
    Pending,
)
from triune.errors import FileError
from triune.models import DIGITS_INT8

Tensor = npt.NDArray[Any]

HOLD = """
import sys
from triune.axelera.runtime import Context
connection = Context().device_connect(None, int(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def holder(count: int) -> Iterator[subprocess.Popen[str]]:
    """Hold sub-devices in another process."""
    command = [sys.executable, "-c", HOLD, str(count)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_default_is_one_pcie_card(context: Context) -> None:
    (device,) = context.list_devices()
    assert device.name == "metis-0:1:0"
    assert device.board_type is BoardType.pcie
    assert device.subdevice_count == 4
    assert device.max_memory == 4 << 30
    assert device.in_use is False
    assert device.in_use_by == ""
    assert device.firmware_version.startswith("v")


def test_cards_from_a_list(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIUNE_CARDS", "pcie,m2,alpha_pcie,sbc")
    devices = context.list_devices()
    assert [device.board_type.name for device in devices] == ["pcie", "m2", "alpha_pcie", "sbc"]
    assert len({device.name for device in devices}) == 4


def test_cards_from_a_file(context: Context, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "cards.toml"
    file.write_text("[[card]]\nname = 'metis-0:9:0'\nboard = 'm2'\nsub_devices = 2\nmax_memory = 1073741824\n")
    monkeypatch.setenv("TRIUNE_CARDS", str(file))
    (device,) = context.list_devices()
    assert (device.name, device.subdevice_count, device.max_memory) == ("metis-0:9:0", 2, 2**30)


@pytest.mark.parametrize("value", ["usb", "/there/is/no/such.toml"])
def test_wrong_description_of_cards(context: Context, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("TRIUNE_CARDS", value)
    with pytest.raises(InvalidConfiguration, match=f"TRIUNE_CARDS.*{re.escape(value)}"):
        context.list_devices()


def test_no_card_at_all(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIUNE_CARDS", "none")
    assert context.list_devices() == []
    with pytest.raises(ConnectionError, match="no device"):
        context.device_connect()
    with pytest.raises(InvalidArgument, match="no device"):
        context.device_connect(0)


def test_ways_to_name_a_device(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIUNE_CARDS", "pcie,m2")
    second = context.list_devices()[1]
    for name in (1, "metis-0:2:0", second):
        with context.device_connect(name, 4):
            assert [device.in_use for device in context.list_devices()] == [False, True]
    with context.device_connect(None, 3), context.device_connect(None, 2):
        assert [device.in_use for device in context.list_devices()] == [True, True]


@pytest.mark.parametrize("device", [1, -1, "metis-0:7:0", 1.0, True, b"metis-0:1:0"])
def test_wrong_devices(context: Context, device: object) -> None:
    with pytest.raises(InvalidArgument, match="device: "):
        context.device_connect(device)  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [0, 5, -1, "1", True])
def test_wrong_number_of_sub_devices(context: Context, count: object) -> None:
    with pytest.raises(InvalidArgument, match=f"num_sub_devices: expected .*, got {count!r}"):
        context.device_connect(None, count)  # type: ignore[arg-type]


def test_unknown_connection_properties_are_logged(context: Context, caplog: pytest.LogCaptureFixture) -> None:
    context.device_connect(speed="fast")
    assert [(record.name, "'speed'" in record.getMessage()) for record in caplog.records] == [("axelera.runtime", True)]


def test_users_have_names(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    # Services and containers often run without.
    for name in ("USER", "LOGNAME"):
        monkeypatch.delenv(name, raising=False)
    with context.device_connect():
        assert context.list_devices()[0].in_use_by == f"{pwd.getpwuid(os.getuid()).pw_name}:{os.getpid()}"


def test_sub_devices_are_exclusive_within_a_process(context: Context) -> None:
    first = context.device_connect(None, 3)
    with Context() as other:
        with pytest.raises(DeviceInUse, match=rf"1 free sub-devices, 2 wanted; in use by .*:{os.getpid()}"):
            other.device_connect(None, 2)
        last = other.device_connect()
        assert other.list_devices()[0].in_use_by.endswith(f":{os.getpid()}")
        first.release()
        other.device_connect(None, 3)
        last.release()


def test_a_second_process_gets_device_in_use(context: Context) -> None:
    with holder(3) as process:
        with pytest.raises(DeviceInUse, match=rf"in use by .*:{process.pid}"):
            context.device_connect(None, 2)
        (device,) = context.list_devices()
        assert device.in_use
        assert device.in_use_by.endswith(f":{process.pid}")
        context.device_connect().release()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_a_killed_process_leaves_nothing_locked(context: Context, how: signal.Signals) -> None:
    with holder(4) as process:
        process.send_signal(how)
        process.wait()
        assert not context.list_devices()[0].in_use
        context.device_connect(None, 4)


def test_processes_race_for_a_card_and_one_wins() -> None:
    """Each wants all four sub-devices at once; taking them one by one, all could fail."""
    code = (
        "import sys\nfrom triune.axelera import runtime as axr\n"
        "c = axr.Context(); print(flush=True); sys.stdin.readline()\n"
        "try: k = c.device_connect(None, 4); print('won', flush=True)\n"
        "except axr.DeviceInUse: print('lost', flush=True)\n"
        "sys.stdin.read()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen([sys.executable, "-c", code], **pipes) for _ in range(4)]  # type: ignore[call-overload]
    try:
        for process in processes:
            process.stdout.readline()
        for process in processes:
            process.stdin.write("\n")
            process.stdin.flush()
        assert sorted(process.stdout.readline().strip() for process in processes) == ["lost"] * 3 + ["won"]
    finally:
        for process in processes:
            process.communicate()


def test_documented_defaults(context: Context) -> None:
    configuration = context.read_device_configuration(context.list_devices()[0])
    expected = {"clock_profile": "800"}
    expected |= {f"clock_profile_core_{core}": "800" for core in range(4)}
    expected |= {f"mvm_utilisation_core_{core}": "100" for core in range(4)}
    assert configuration == expected


@pytest.fixture
def slow_cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set up two cards that settle slowly: a busy machine must not overlook the pending phase."""
    cards = tmp_path / "cards.toml"
    cards.write_text("[[card]]\nsettle_ms = 1000\n" * 2)
    monkeypatch.setenv("TRIUNE_CARDS", str(cards))


@pytest.mark.usefixtures("slow_cards")
def test_documented_loop_over_two_devices(
    context: Context, package: Path, frames: list[Tensor], output: Callable[[], Tensor]
) -> None:
    device0, device1 = context.list_devices()
    polls = 0
    res0 = context.configure_device(device0, clock_profile=1000)
    res1 = context.configure_device(device1, clock_profile=1000)
    assert res0 is False
    assert res1 is False
    while not res0 or not res1:
        time.sleep(0.05)
        res0 = context.device_ready(device0)
        res1 = context.device_ready(device1)
        polls += 1
    assert polls > 1, "the pending phase must be seen"
    assert context.read_device_configuration(device1)["clock_profile_core_3"] == "1000"
    model = context.load_model(package)
    for device in (device0, device1):
        instance = context.device_connect(device).load_model_instance(model)
        instance.run([frames[0]], [output()])
        assert instance.profile().clock_mhz == 1000


@pytest.mark.parametrize("clocks", [(1000, 20), (20, 1000), (1000, 1000), (21, 999)])
def test_every_clock_in_range_runs(context: Context, package_of_two: Path, clocks: tuple[int, int]) -> None:
    """The slowest core's clock gives the time, whichever core that is."""
    context.configure_device(0, clock_profile_core_0=clocks[0], clock_profile_core_1=clocks[1])
    while not context.device_ready(0):
        time.sleep(0.02)
    profile = context.device_connect(0, 2).load_model_instance(context.load_model(package_of_two)).profile()
    assert profile.clock_mhz == min(clocks)
    assert profile.cycles > 0


@pytest.mark.parametrize("count", [0, 5])
def test_a_card_has_the_sub_devices_of_its_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    description = tmp_path / "cards.toml"
    description.write_text(f"[[card]]\nsub_devices = {count}\n")
    monkeypatch.setenv("TRIUNE_CARDS", str(description))
    with pytest.raises(InvalidConfiguration, match=f"sub_devices: expected 1 to 4, the cores of metis, got {count}"):
        Context().list_devices()


def test_a_limit_is_in_force_at_once(context: Context) -> None:
    assert context.configure_device(0, mvm_utilisation_core_1="50", clock_profile=800) is True
    assert context.read_device_configuration(0)["mvm_utilisation_core_1"] == "50"


def test_the_clock_follows_the_cores(context: Context) -> None:
    def clock() -> str:
        while not context.device_ready(0):
            pass
        return context.read_device_configuration(0)["clock_profile"]

    context.configure_device(0, clock_profile=400)
    assert clock() == "400"
    context.configure_device(0, **{f"clock_profile_core_{core}": 100 * (core + 1) for core in range(4)})
    assert clock() == "400"
    context.configure_device(0, clock_profile_core_3=200)
    assert clock() == "300"


def test_a_batch_size_reserves_sub_devices(context: Context) -> None:
    with context.device_connect(None, batch_size=4), pytest.raises(DeviceInUse):
        context.device_connect(None, batch_size=1)
    with context.device_connect(None, 2, batch_size=2):
        pass
    with pytest.raises(InvalidArgument, match="batch_size: expected 2, as num_sub_devices says, got 4"):
        context.device_connect(None, 2, batch_size=4)


def test_boards_have_memory(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIUNE_CARDS", "pcie,m2")
    assert [device.max_memory for device in context.list_devices()] == [4 << 30, 1 << 30]


@pytest.mark.parametrize("target", ["metis", "metis-m2"])
def test_packages_for_one_board_run_on_the_others(
    context: Context, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, target: str
) -> None:
    monkeypatch.setenv("TRIUNE_CARDS", "pcie,m2,alpha_m2")
    model = context.load_model(triune.compile(DIGITS_INT8, target=target, output=tmp_path) / "model.json")
    cycles = [context.device_connect(card).load_model_instance(model).profile().cycles for card in range(3)]
    assert cycles[1] == cycles[2] > cycles[0], "a module's memory is slower"


def test_properties_of_old_programs(context: Context) -> None:
    assert context.configure_device(0, ddr_size=0x80000000, device_firmware="1") is True
    configuration = context.read_device_configuration(0)
    assert (configuration["ddr_size"], configuration["device_firmware"]) == ("2147483648", "1")


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"clock": 800}, 'unknown property "clock"; valid are clock_profile, clock_profile_core_0-3'),
        ({"clock_profile_core_4": 800}, "unknown property"),
        ({"clock_profile": 1001}, "clock_profile: expected an integer from 20 to 1000"),
        ({"clock_profile_core_0": "fast"}, 'clock_profile_core_0: .* got "fast"'),
        ({"mvm_utilisation_core_3": 0}, "mvm_utilisation_core_3: expected an integer from 1 to 100"),
        ({"clock_profile": 1.5}, "clock_profile: expected an int or str, got 1.5"),
        ({"clock_profile": True}, "clock_profile: expected an int or str, got True"),
        ({"device_firmware": "\ud800"}, r"device_firmware: expected a short printable text, got '\\ud800'"),
        ({"ddr_size": -1}, "ddr_size: expected a positive number"),
    ],
)
def test_wrong_properties(context: Context, properties: dict[str, int], message: str) -> None:
    before = context.read_device_configuration(0)
    with pytest.raises(InvalidConfiguration, match=message):
        context.configure_device(0, mvm_utilisation_core_0=7, **properties)
    assert context.read_device_configuration(0) == before


@pytest.mark.usefixtures("slow_cards")
def test_loading_while_pending(package: Path) -> None:
    context = Context()
    model = context.load_model(package)
    connection = context.device_connect()
    assert context.configure_device(0, clock_profile=400) is False
    with pytest.raises(Pending, match="device_ready"):
        connection.load_model_instance(model)
    while not context.device_ready(0):
        time.sleep(0.02)
    profile = connection.load_model_instance(model).profile()
    assert profile.clock_mhz == 400
    assert profile.microseconds == pytest.approx(profile.cycles / 400)
    context.release()


def test_other_processes_see_the_configuration(context: Context) -> None:
    context.configure_device(0, clock_profile_core_2=600)
    code = (
        "from triune.axelera.runtime import Context\n"
        "print(Context().read_device_configuration(0)['clock_profile_core_2'])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "600\n"


@pytest.mark.parametrize("described", [None, "none", "zg330"])
@pytest.mark.parametrize("target", ["metis", "metis-m2", "zg330", "buyi", "mine"])
def test_a_package_connects_to_a_card_of_its_device(
    context: Context, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, target: str, described: str | None
) -> None:
    (tmp_path / "zg330.toml").write_text(_native.device_of("zg330")[1])
    mine = tmp_path / "mine.toml"
    mine.write_text(_native.device_begin("mine", "metis"))
    if described is not None:
        monkeypatch.setenv("TRIUNE_CARDS", "none" if described == "none" else str(tmp_path / "zg330.toml"))
    package = triune.compile(DIGITS_INT8, target=mine if target == "mine" else target, output=tmp_path / "package")
    model = context.load_model(package / "model.json")
    with package.connect(context) as connection:
        board = {"metis-m2": "metis", "mine": f"{connection._card.device}-"}.get(target, target)
        assert connection._card.name.startswith(board)
        instance = connection.load_model_instance(model)
        source, result = model.inputs()[0], model.outputs()[0]
        found = np.empty(result.shape, np.int8)
        instance.run([np.zeros(source.shape, np.int8)], [found])
        assert found.any()
    # What was held is free again; a path that was made of it is no package.
    package.connect(context).release()
    with pytest.raises(FileError):
        type(package)(tmp_path / "elsewhere").connect(context)


def test_a_package_takes_the_first_of_its_cards_that_is_free(
    context: Context, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TRIUNE_CARDS", "pcie,m2")
    package = triune.compile(DIGITS_INT8, target="metis", output=tmp_path / "package", batch=3)
    with package.connect(context) as first, package.connect(context) as second:
        assert [first._card.name, second._card.name] == ["metis-0:1:0", "metis-0:2:0"]
        with pytest.raises(DeviceInUse, match=r"metis-0:1:0.*metis-0:2:0"):
            package.connect(context)


def test_cards_take_no_documents_of_icraft(context: Context, tmp_path: Path) -> None:
    documents = triune.compile(DIGITS_INT8, target="zg330", format="icraft", output=tmp_path / "documents")
    with pytest.raises(FileError, match=r"xrt\.Device\.Open"):
        documents.connect(context)
