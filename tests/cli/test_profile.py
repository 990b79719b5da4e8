"""`triune profile`: the numbers add up, equal those that a run reports, and are the same in table, files and trace."""

from __future__ import annotations

import csv
import json
import tomllib
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import triune
from triune.axelera.runtime import Context
from triune.cli import main
from triune.models import DIGITS_INT8
from triune.profiling import Command, Profile, Tiling, profile
from triune.profiling._table import compact, duration, shorten, size


def test_every_cycle_has_a_cause(found: Profile) -> None:
    assert sum(found.causes.values()) == found.cycles
    assert min(found.causes.values()) >= 0
    assert found.launch + sum(o.held for o in found.operators) == found.cycles
    assert sum(o.share for o in found.operators) < 1
    assert all(0 <= o.utilization <= 1 for o in found.operators)
    assert 0 < found.utilization < 1


def test_fixed_cost_per_command(found: Profile, root: Path) -> None:
    """What is neither computing nor waiting is what the description has for each command, and for a table behind it."""
    launch = tomllib.loads((root / "crates/triune-device/specs/metis.toml").read_text())["launch"]
    plain, table = launch["command_cycles"], launch["command_cycles"] + launch["table_cycles"]
    costs = {command.control for command in found.commands}
    assert plain in costs <= {plain, table}
    assert all(command.opcode == "QConv" for command in found.commands if command.control == table)


def test_commands_add_up_to_operators(found: Profile) -> None:
    for field in ("compute", "load", "store", "stall", "macs"):
        each = sum(getattr(command, field) for command in found.commands)
        assert each == sum(getattr(operator, field) for operator in found.operators), field
    for memory in found.memories:
        for side in ("read", "written"):
            moved = sum(getattr(command, side)[memory.name] for command in found.commands)
            assert moved == sum(getattr(operator, side)[memory.name] for operator in found.operators)


def test_live_bytes_reach_the_lower_bound(found: Profile) -> None:
    """Equal to the definition at every change, and never above what the plan gives."""
    steps = found.live_bytes()
    for cycle, live in steps:
        assert live == sum(b.bytes for b in found.feature_maps if b.start <= cycle < b.end)
    for plan in found.plans:
        assert max(live for _, live in found.live_bytes(plan.kind)) == plan.lower_bound <= plan.bytes
        assert max(b.offset + b.bytes for b in plan.feature_maps) <= plan.bytes
    assert steps[-1][1] == 0
    # A feature map is born when its producer computes, not when that one's weights are loaded.
    computing = {(command.operator, command.computing[0]) for command in found.commands}
    assert {(buffer.operator, buffer.start) for buffer in found.feature_maps} <= computing


def test_feature_maps_alive_together_do_not_overlap(found: Profile) -> None:
    for index, one in enumerate(found.feature_maps):
        for other in found.feature_maps[:index]:
            together = one.start < other.end and other.start < one.end
            assert not (together and one.offset < other.offset + other.bytes and other.offset < one.offset + one.bytes)


def test_bandwidth_adds_up_to_the_bytes(found: Profile) -> None:
    for memory in found.memories:
        steps = found.bandwidth(memory.name)
        sums = [0.0, 0.0]
        for (cycle, *rates), (end, *_) in pairwise(steps):
            sums = [total + rate * (end - cycle) for total, rate in zip(sums, rates, strict=True)]
        moved = [sum(getattr(c, side)[memory.name] for c in found.commands) for side in ("read", "written")]
        assert sums == pytest.approx(moved)
        assert not steps or steps[-1][1:] == (0.0, 0.0)


def test_table_fits_100_columns(found: Profile) -> None:
    lines = found.table().splitlines()
    assert max(map(len, lines)) <= 100
    rows = lines[1 : 1 + len(found.operators)]
    for row, operator in zip(rows, found.operators, strict=True):
        assert row.endswith(operator.bottleneck)
        assert f"{operator.share:.1%}" in row
    assert f"{found.cycles:,} cycles" in lines[len(rows) + 2]


def test_long_names_are_cut(edited: Callable[..., Path]) -> None:
    def rename(model: dict[str, Any]) -> None:
        for number, operator in enumerate(model["operators"]):
            operator["name"] = "/very/deep/network/" * 10 + str(number)
            operator["kind"] = "Convolution" * 10

    lines = profile(edited(rename)).table().splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[1].startswith("…")
    assert lines[1].split()[0].endswith("0")


def test_equals_what_a_run_reports(digits: Path) -> None:
    with Context() as context:
        model = context.load_model(digits / "model.json")
        instance = context.device_connect(None, 2).load_model_instance(model, device_profiling=True)
        told = instance.profile()
    found = profile(digits / "model.json")
    assert (found.cycles, found.clock_mhz, found.batch) == (told.cycles, told.clock_mhz, 2)
    for one, other in zip(found.operators, told.operators, strict=True):
        for field in ("name", "kind", "start", "end", "compute", "load", "store", "stall", "macs"):
            assert getattr(one, field) == getattr(other, field)
        assert sum(one.read.values()) == other.bytes_read


def test_a_slower_clock_changes_the_ratio_to_ddr(digits: Path) -> None:
    fast, slow = profile(digits), profile(digits, clock_mhz=400)
    assert slow.cycles < fast.cycles
    assert slow.microseconds > fast.microseconds
    assert slow.memory("ddr").bytes_per_cycle == 2 * fast.memory("ddr").bytes_per_cycle
    assert slow.memory("l1").bytes_per_cycle == fast.memory("l1").bytes_per_cycle


@pytest.mark.parametrize(
    ("look_up", "said"),
    [
        (lambda found: found.memory("x"), r"name: expected one of ddr, l2, l1, got 'x'"),
        (lambda found: found.bandwidth("x"), r"memory: expected one of ddr, l2, l1, got 'x'"),
        (lambda found: found.segment("spilled"), r"kind: expected one of instructions, constants, .*, got 'spilled'"),
        (lambda found: found.live_bytes("x"), r"segment: expected one of scratch, resident, spilled, got 'x'"),
        (lambda found: found.time(1, "s"), r"unit: expected one of cycles, us, ms, got 's'"),
    ],
)
def test_unknown_names_are_told_what_there_is(look_up: Callable[[Profile], object], said: str, digits: Path) -> None:
    with pytest.raises(ValueError, match=said):
        look_up(profile(digits))


def test_where_the_parts_lie(digits: Path) -> None:
    found = profile(digits)
    places = {(segment.kind, segment.memory) for segment in found.segments}
    feature_maps = {("scratch", "l2"), ("resident", "l1")}
    expected = {("instructions", "ddr"), ("constants", "l2"), ("input", "ddr"), ("output", "ddr")}
    assert places == expected | feature_maps
    assert found.segment("constants").bytes == (digits / "constants.bin").stat().st_size
    assert found.segment("scratch").bytes == found.scratch_bytes > 0
    near = found.residency
    assert near is not None
    # Metis' L1 keeps bands of cascades alone: maps move between the array and L2, in whole blocks of channels, and nowhere else.
    assert (found.segment("resident").bytes, near.peak, near.value, near.gap) == (0, 0, 0, 0.0)
    assert all(o.read["l1"] == o.written["l1"] == 0 for o in found.operators)
    assert sum(o.written["l2"] for o in found.operators) > 0


def test_what_stays_on_the_chip_moves_nowhere_else(tmp_path: Path) -> None:
    triune.compile(DIGITS_INT8, target="zg330", output=tmp_path)
    found = profile(tmp_path)
    near = found.residency
    assert near is not None
    assert found.segment("scratch").bytes == found.scratch_bytes == 0
    assert found.segment("resident").bytes == near.peak + -near.peak % 64
    assert (near.policy, near.gap) == ("exact", 0.0)
    memory = found.segment("resident").memory
    assert sum(o.read[memory] + o.written[memory] for o in found.operators) >= near.value == near.bound > 0


def test_the_bottleneck_is_what_most_cycles_go_to(found: Profile) -> None:
    """As the definition says, command by command, operator by operator, and in total."""
    rates = {memory.name: memory.bytes_per_cycle for memory in found.memories}

    def expected(rows: list[Command]) -> set[str]:
        sums = [
            ("compute", sum(row.compute for row in rows)),
            ("load", sum(row.load_stall for row in rows)),
            ("store", sum(row.stall - row.load_stall for row in rows)),
            ("control", sum(row.control for row in rows)),
        ]
        cause = max(sums, key=lambda item: item[1])[0]
        side = {"load": "read", "store": "written"}.get(cause)
        if side is None:
            return {cause}
        busy = {name: sum(getattr(row, side)[name] for row in rows) / rate for name, rate in rates.items()}
        most = max(busy.values())
        return {f"{name} {cause}" for name, cycles in busy.items() if cycles == most} if most else {cause}

    for one in found.commands:
        assert one.bottleneck in expected([one])
    own = {name: [c for c in found.commands if c.operator == name] for name in {c.operator for c in found.commands}}
    for operator in found.operators:
        if len({row.kind for row in own[operator.name]}) == 1:
            assert operator.bottleneck in expected(own[operator.name])
    assert found.bottleneck in expected(list(found.commands))


def test_the_array_is_never_faster_than_ideal(found: Profile) -> None:
    for operator in found.operators:
        assert 0 <= operator.load_stall <= operator.stall
        assert 0 <= operator.ideal <= operator.compute
        assert operator.utilization == (operator.ideal / operator.held)
        assert operator.array_utilization == (operator.ideal / operator.compute if operator.compute else 0)
        assert bool(operator.ideal) == bool(sum(operator.sram))
    assert found.utilization == pytest.approx(sum(o.ideal for o in found.operators) / found.cycles)
    rounded = len(found.operators) / found.cycles
    assert found.utilization == pytest.approx(
        sum(o.macs for o in found.operators if o.ideal) / found.cycles / found.peak_macs_per_cycle, abs=rounded
    )


def test_units(found: Profile, capsys: pytest.CaptureFixture[str], digits: Path) -> None:
    assert found.time(found.cycles, "cycles") == found.cycles
    assert found.microseconds == found.cycles / found.clock_mhz == 1000 * found.milliseconds
    with pytest.raises(ValueError, match="one of cycles, us, ms"):
        found.time(1, "s")
    for unit in ("us", "ms"):
        lines = found.table(unit=unit).splitlines()
        assert max(map(len, lines)) <= 100
        first = found.operators[0]
        assert f" {duration(found.time(first.end, unit), unit)} " in lines[1]
    assert main(["profile", str(digits), "--unit", "us"]) == 0
    assert capsys.readouterr().out == profile(digits).table(unit="us") + "\n"


def convolution(channels: int) -> bytes:
    """Return a quantized convolution of 3x3 over 24x24 pixels."""
    weights = np.random.default_rng(5).integers(-128, 128, (channels, channels, 3, 3), np.int8)
    constants = {"w": weights, "s": np.float32(0.1), "z": np.int8(0)}
    image = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, channels, 24, 24]) for name in ("image", "result")
    ]
    nodes = [
        helper.make_node("QuantizeLinear", ["image", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["x"]),
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["f"]),
        helper.make_node("Conv", ["x", "f"], ["c"], name="wide", pads=[1] * 4),
        helper.make_node("QuantizeLinear", ["c", "s", "z"], ["r"]),
        helper.make_node("DequantizeLinear", ["r", "s", "z"], ["result"]),
    ]
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "one", image[:1], image[1:], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return bytes(model.SerializeToString())


def test_tiles_fit_the_buffers(tmp_path: Path, root: Path) -> None:
    """Smaller buffers: more tiles, and bytes that are read again where nothing else helps."""
    template = (root / "crates/triune-device/specs/template.toml").read_text()
    assert "buffers = 2 " in template
    (tmp_path / "wide.onnx").write_bytes(convolution(96))
    found = []
    for room in (4096, 1_048_576, None):
        text = template.replace("bytes = 262_144", "bytes = 4_096")
        if room:
            text = text.replace("buffers = 2 ", f"buffer_bytes = {room}\nbuffers = 2 ")
        (tmp_path / "device.toml").write_text(text)
        package = triune.compile(
            tmp_path / "wide.onnx", target=tmp_path / "device.toml", output=tmp_path / f"wide-{room}"
        )
        found.append(profile(package))
    small, large, endless = found
    assert small.cycles > large.cycles
    assert small.buffer_bytes is not None
    assert small.buffer_bytes <= 8192 < 1_048_576 <= (large.buffer_bytes or 0)
    assert endless.buffer_bytes is None
    assert {operator.tiling.order for operator in endless.operators} == {"even"}
    assert sum(operator.reread for operator in endless.operators) == 0
    assert sum(operator.tiles for operator in small.operators) > len(small.operators)
    assert sum(operator.reread for operator in small.operators) > 0
    for command in (*small.commands, *large.commands):
        assert command.tiles == command.tiling.tiles
        assert 1 <= command.tiling.depth <= 2
    for command in large.commands:
        assert 0 < command.buffered <= (large.buffer_bytes or 0)
    lines = small.table().splitlines()
    (start,) = (at for at, line in enumerate(lines) if line.startswith("buffers "))
    assert "read again" in lines[start]
    most = max(small.operators, key=lambda operator: operator.reread)
    assert str(most.tiling) in lines[start + 1]
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize(
    ("tiling", "words"),
    [
        (("even", 1, 1, 1, 0, 1), "one tile"),
        (("even", 3, 1, 1, 0, 2), "3 equal tiles"),
        (("panels", 1, 4, 1, 0, 2), "4 panels of weights, the map stays"),
        (("panels", 5, 1, 1, 0, 2), "5 bands of rows, the weights stay"),
        (("bands", 5, 1, 1, 0, 2), "5 bands of rows, weights pass each"),
        (("bands", 5, 1, 1, 1, 2), "5 bands of rows, the weights stay"),
        (("panels", 5, 4, 1, 0, 2), "4 panels of weights, 5 bands of rows pass each"),
        (("panels", 5, 4, 1, 2, 2), "4 panels of weights, 5 bands of rows pass each, 2 of 5 stay"),
        (("bands", 5, 4, 2, 3, 2), "5 bands of rows, 4 panels of weights in 2 pieces pass each, 3 of 8 stay"),
        (("bands", 5, 4, 1, 4, 2), "5 bands of rows, 4 panels of weights, all weights stay"),
    ],
)
def test_tilings_in_words(tiling: tuple[str, int, int, int, int, int], words: str) -> None:
    assert str(Tiling(*tiling)) == words


def test_files(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = {kind: tmp_path / f"out.{kind}" for kind in ("csv", "json", "trace")}
    options = [text for kind, path in paths.items() for text in (f"--{kind}", str(path))]
    assert main(["profile", str(digits), "--clock", "700", *options]) == 0
    found = profile(digits, clock_mhz=700)
    captured = capsys.readouterr()
    assert captured.out == found.table() + "\n"
    assert captured.err == ""
    with paths["csv"].open(newline="") as file:
        rows = list(csv.DictReader(file))
    told = json.loads(paths["json"].read_text())
    assert (told["cycles"], told["clock_mhz"], told["batch"]) == (found.cycles, 700, 2)
    (part,) = told["memory_plan"]["parts"]
    assert (part["memory"], part["lower_bound"]) == ("l2", found.plans[0].lower_bound)
    assert told["memory_plan"]["residency"]["policy"] == "exact"
    assert len(told["memory_plan"]["feature_maps"]) == len(found.feature_maps) > 0
    for row, entry, operator in zip(rows, told["operators"], found.operators, strict=True):
        assert row["name"] == entry["name"] == operator.name
        assert row["bottleneck"] == entry["bottleneck"] == operator.bottleneck
        assert int(row["held"]) == entry["held"] == operator.held
        assert int(row["l2_read"]) == entry["read"]["l2"] == operator.read["l2"]
        assert float(row["share"]) == entry["share"] == operator.share
        assert int(row["tiles"]) == entry["tiles"] == operator.tiles
        assert int(row["buffered"]) == entry["buffered"] == operator.buffered
        assert int(row["reread"]) == entry["reread"] == operator.reread
        assert row["tiling"] == str(operator.tiling)
        assert Tiling(**entry["tiling"]) == operator.tiling
    assert json.loads(paths["trace"].read_text())["otherData"]["cycles"] == found.cycles


def test_a_package_of_before_the_plan_was_kept(edited: Callable[..., Path], digits: Path, tmp_path: Path) -> None:
    found = profile(edited(lambda model: model.pop("feature_maps")))
    assert found.feature_maps == ()
    assert found.operators == profile(digits).operators
    found.write_trace(tmp_path / "trace.json")
    found.write_json(tmp_path / "out.json")
    assert json.loads((tmp_path / "out.json").read_text())["memory_plan"]["parts"][0]["peak"] == found.plans[0].bytes
    assert "live feature maps" not in (tmp_path / "trace.json").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{tmp}"], "model.json"),
        (["{digits}", "--clock", "9999"], "9999 MHz"),
        (["{digits}", "--csv", "{tmp}/no/out.csv"], "out.csv"),
        (["{host}"], "'host' is not modelled"),
    ],
)
@pytest.mark.parametrize("verb", ["profile", "report"])
def test_errors_are_one_line(
    digits: Path,
    edited: Callable[..., Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    verb: str,
    arguments: list[str],
    message: str,
) -> None:
    if verb == "report":
        if "--csv" in arguments:
            arguments, message = ["{digits}", "-o", "{tmp}/no/out.html"], "out.html"
        else:
            arguments = [*arguments, "-o", "{tmp}/out.html"]
    host = edited(lambda model: model.update(target="host", batch=1))
    names = {"tmp": tmp_path, "digits": digits, "host": host}
    assert main([verb, *(argument.format(**names) for argument in arguments)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("triune: error: ")
    assert captured.err.count("\n") == 1
    assert message in captured.err


@pytest.mark.parametrize("arguments", [["profile"], ["profile", "x", "--clock", "0"], ["report", "x"]])
def test_wrong_arguments(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        main(arguments)
    assert exited.value.code == 2
    assert "usage: triune" in capsys.readouterr().err


@given(st.floats(0, 1e12))
def test_durations_are_short_and_close(number: float) -> None:
    text = duration(number, "us")
    assert len(text) <= 5
    if number < 999:
        assert float(text) == pytest.approx(number, rel=0.006, abs=0.0006)


@given(st.integers(0, 10**17))
def test_compact_numbers_are_short_and_close(number: int) -> None:
    text = compact(number)
    assert len(text) <= 5
    unit = text[-1] if text[-1].isalpha() else ""
    value = float(text.removesuffix(unit)) * 1000 ** " kMGTP".index(unit or " ")
    assert value == number if number < 100_000 else value == pytest.approx(number, rel=0.006)


def test_sizes_and_names() -> None:
    assert [size(n) for n in (0, 1023, 1024, 3 << 20, 5 << 30)] == ["0 B", "1023 B", "1.0 KiB", "3.0 MiB", "5.0 GiB"]
    assert [shorten("abcdef", n) for n in (7, 6, 5, 2)] == ["abcdef", "abcdef", "…cdef", "…f"]
    assert np.all([len(shorten("abcdef", n)) == n for n in range(2, 6)])


def test_profiles_show_themselves_in_short(digits: Path) -> None:
    profiled = profile(digits)
    assert len(repr(profiled)) < 200
    assert f"{profiled.cycles:,} cycles" in repr(profiled)
    page = profiled._repr_html_()
    assert page.count("<tr>") == len(profiled.operators) + 1
    assert page.count('<th scope="col">') == 6
    hostile = replace(profiled, name="<b>x</b>")
    assert "<b>" not in hostile._repr_html_()
