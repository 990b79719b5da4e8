"""The native functions that read and write the strings and the RAW container of XIR documents."""

import mmap
import struct
from pathlib import Path

import numpy as np
import pytest

from triune import _native
from triune._native import ArgumentError


def test_scalars() -> None:
    kinds = {
        "@fp(32)": ("fp", 32),
        "@bf(16)": ("bf", 16),
        "@tf(32)": ("tf", 32),
        "@fpe6m9": ("fpe6m9", 16),
        "@sint(8)": ("sint", 8),
        "uint(12)": ("uint", 12),
        "@bool": ("bool", 8),
    }
    assert {text: _native.xir_parse_scalar(text) for text in kinds} == kinds


def test_layouts() -> None:
    blocked = [("N", 0), ("C", 0), ("H", 0), ("W", 0), ("c", 32)]
    assert _native.xir_parse_layout("@layout(NCHWc32)") == blocked
    assert _native.xir_parse_layout("NCHWc32") == blocked
    assert _native.xir_parse_layout("@layout(*)") == [("*", 0)]


def test_arrays_are_runs() -> None:
    text = "@exp_scales([axis=4]128/21/6.1035156e-05,2*180/16/0.002746582)"
    kind, axis, runs = _native.xir_parse_array(text)
    assert (kind, axis) == ("exp_scales", 4)
    assert runs == [(1, (128, 21, 2.0**-14)), (2, (180, 16, 180 / 65536))]
    assert _native.xir_format_array(kind, axis, runs) == text
    ratios = _native.xir_parse_array("@norm_ratios([axis=-1]18446744073709551614*0.2,0.5)")
    assert ratios == ("norm_ratios", -1, [(2**64 - 2, float(np.float32(0.2))), (1, 0.5)])
    assert _native.xir_format_array(*ratios) == "@norm_ratios([axis=-1]18446744073709551614*0.2,0.5)"
    assert _native.xir_parse_array("@scales([axis=-1])") == ("scales", -1, [])
    assert _native.xir_format_array("scales", 0, [(3, 0.1)]) == "@scales([axis=0]3*0.1)"


def test_merged_distributions() -> None:
    text = "@merged_distr([1, 4]^ZERO:{v:[0, 20), u:[20, 32)})"
    parts = ([1, 4], "ZERO", [("v", 0, 20), ("u", 20, 32)])
    assert _native.xir_parse_merged_distr(text) == parts
    assert _native.xir_format_merged_distr(*parts) == text
    assert _native.xir_parse_merged_distr("merged_distr([2, 3]:{u:[0, 7)})") == ([2, 3], None, [("u", 0, 7)])


def test_places_and_targets() -> None:
    assert _native.xir_parse_mem("@hostm") == ("hostm", [])
    assert _native.xir_parse_mem("@ocm(12)") == ("ocm", [12])
    assert _native.xir_parse_mem("@chunk(3@100)") == ("chunk", [3, 100])
    assert _native.xir_parse_target("@buyit") == ("buyit", None)
    assert _native.xir_parse_target("@zhuget(330)") == ("zhuget", "330")


def test_wrong_texts_are_named() -> None:
    with pytest.raises(ArgumentError, match=r"'@fp\(31\)' is not a number format: there is no fp of 31 bits"):
        _native.xir_parse_scalar("@fp(31)")
    with pytest.raises(ArgumentError, match="'Q' is not an axis"):
        _native.xir_parse_layout("NQ")
    with pytest.raises(ArgumentError, match="'x' is not a number"):
        _native.xir_parse_array("@scales([axis=-1]x)")
    with pytest.raises(ArgumentError, match="cannot follow what ends at 2"):
        _native.xir_parse_merged_distr("@merged_distr([1]:{v:[0, 2), u:[3, 4)})")
    with pytest.raises(ArgumentError, match="places are"):
        _native.xir_parse_mem("@moon")
    with pytest.raises(ArgumentError, match="chips are"):
        _native.xir_parse_target("@zhuget(7)")
    with pytest.raises(ArgumentError, match="counts above 0"):
        _native.xir_format_array("scales", 0, [(0, 0.1)])
    with pytest.raises(ArgumentError, match="norm_ratios has plain numbers"):
        _native.xir_format_array("norm_ratios", 0, [(1, (1, 2, 3.0))])
    with pytest.raises(ArgumentError, match="expected norm_ratios, scales or exp_scales, got x"):
        _native.xir_format_array("x", 0, [])
    with pytest.raises(ArgumentError, match="expected v or u, got w"):
        _native.xir_format_merged_distr([1], None, [("w", 0, 1)])
    with pytest.raises(ArgumentError, match="expected ZERO, NONE or None, got ONE"):
        _native.xir_format_merged_distr([1], "ONE", [])
    with pytest.raises(ArgumentError, match="cannot follow"):
        _native.xir_format_merged_distr([1], None, [("v", 1, 2)])


def raw_file() -> bytes:
    table = struct.pack("<IQIQIQ", 7, 52, 3, 56, 9, 56)
    return b"\xa5ICRAFT_RAW\xa5" + struct.pack("<I", 3) + table + bytes(range(10))


def test_raw_tables(tmp_path: Path) -> None:
    expected = [(7, 52, 4), (3, 56, 6), (9, 56, 6)]
    data = raw_file()
    assert _native.xir_raw_table(data) == expected
    assert _native.xir_raw_table(np.frombuffer(data, np.uint8)) == expected
    path = tmp_path / "net.raw"
    path.write_bytes(data)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapping:
        assert _native.xir_raw_table(mapping) == expected
    assert _native.xir_raw_table(b"") == []


def test_wrong_raw_files_are_named() -> None:
    data = raw_file()
    with pytest.raises(ArgumentError, match="does not start with"):
        _native.xir_raw_table(data[1:])
    with pytest.raises(ArgumentError, match="fewer than its header"):
        _native.xir_raw_table(data[:15])
    with pytest.raises(ArgumentError, match="its table of 3 constants does not fit 40 bytes"):
        _native.xir_raw_table(data[:40])
    with pytest.raises(ArgumentError, match="constant 3 starts at byte 56, the data lie from 52 to 54"):
        _native.xir_raw_table(data[:54])
    with pytest.raises(ArgumentError, match="contiguous"):
        _native.xir_raw_table(np.frombuffer(data, np.uint8)[::2])
