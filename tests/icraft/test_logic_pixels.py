"""`WarpAffine` and `SegPost`, pixel by pixel: arrays beside loops over the registers' numbers, on hosts and boards."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xir_networks import document, operation, tensor, value

from triune.icraft.buyibackend import BuyiBackend
from triune.icraft.host_backend import HostBackend
from triune.icraft.xir import Error, Layout, MergedAxisDistr, Network
from triune.icraft.xrt import Device, HostDevice, Session, Tensor

Array = npt.NDArray[Any]


def network(folder: Path, key: str, source: dict[str, Any], result: dict[str, Any], **attributes: Any) -> Network:
    """Return a network of one operation in logic."""
    import json

    given, made = value(1, source), value(2, result)
    op = operation(key, 1, [given], [made], compile_target="@fpgat", **attributes)
    ops = [operation("icraft::xir::Input", 0, [], [given]), op, operation("icraft::xir::Output", 2, [made], [])]
    path = folder / "logic.json"
    path.write_text(json.dumps(document(ops, ai_target="@buyit")))
    return Network.CreateFromJsonFile(str(path))


def run(net: Network, data: Array, board: bool = False) -> Array:
    backends: Any = [HostBackend]
    devices: Any = [HostDevice.Default()]
    if board:
        backends, devices = [BuyiBackend, HostBackend], [Device.Open("sim://buyi"), *devices]
    session = Session.Create(backends, net.view(0), devices)
    session.apply()
    layout = Layout(str(net.ops[0][0].tensorType().layout).strip('"').removeprefix("@layout(").removesuffix(")"))
    (result,) = session.forward([Tensor(data, layout)])
    return np.asarray(result.to(HostDevice.MemRegion())).copy()


def feature_map(data: Array) -> dict[str, Any]:
    return tensor(f"@sint({8 * data.itemsize})", list(data.shape), f"NCHWc{data.shape[4]}")


# ---- WarpAffine


def warp(folder: Path, data: Array, made: tuple[int, int], board: bool = False, **attributes: Any) -> Array:
    shape = [1, 1, *made, data.shape[4]]
    result = tensor(f"@sint({8 * data.itemsize})", shape, f"NCHWc{shape[4]}")
    return run(network(folder, "customop::WarpAffine", feature_map(data), result, **attributes), data, board)


def warp_naive(
    data: Array, made: tuple[int, int], matrix: list[list[float]], flags: int, mode: int, border: int
) -> Array:
    _, _, rows, columns, channels = data.shape

    def pixel(row: int, column: int, channel: int) -> int:
        if mode == 1:
            row, column = min(max(row, 0), rows - 1), min(max(column, 0), columns - 1)
        if not (0 <= row < rows and 0 <= column < columns):
            return border
        return int(data[0, 0, row, column, channel])

    out = np.zeros((1, 1, *made, channels), data.dtype)
    (a, b, c), (d, e, f) = ([math.trunc(x * 32768), math.trunc(y * 32768), math.trunc(z * 2)] for x, y, z in matrix)
    for j in range(made[0]):
        for i in range(made[1]):
            x, y = a * i + b * j + c * 16384, d * i + e * j + f * 16384
            for channel in range(channels):
                if flags == 0:
                    out[0, 0, j, i, channel] = pixel(
                        math.floor((y + 16384) / 32768), math.floor((x + 16384) / 32768), channel
                    )
                    continue
                column, row = math.floor(x / 32768), math.floor(y / 32768)
                right, under = x - column * 32768, y - row * 32768
                total = pixel(row, column, channel) * (32768 - right) * (32768 - under)
                total += pixel(row, column + 1, channel) * right * (32768 - under)
                total += pixel(row + 1, column, channel) * (32768 - right) * under
                total += pixel(row + 1, column + 1, channel) * right * under
                out[0, 0, j, i, channel] = total // 2**30
    return out


MATRICES = [
    [[1, 0, 0], [0, 1, 0]],
    [[0.5, 0, 0], [0, 0.5, 0]],
    [[2, 0, -3], [0, 1.5, 1.5]],
    [[0.866, -0.5, 2.25], [0.5, 0.866, -1.75]],
    [[-1, 0, 6], [0, -1, 4]],
]


@pytest.mark.parametrize("matrix", MATRICES)
@pytest.mark.parametrize(("flags", "mode", "border"), [(0, 0, 5), (0, 1, 0), (1, 0, -7), (1, 1, 0)])
@pytest.mark.parametrize("element", [np.int8, np.int16])
def test_pixels_come_from_where_the_matrix_says(
    tmp_path: Path, matrix: list[list[float]], flags: int, mode: int, border: int, element: Any
) -> None:
    limit = np.iinfo(element)
    data = np.random.default_rng(3).integers(limit.min, limit.max + 1, (1, 1, 5, 7, 4)).astype(element)
    attributes = {"M_inversed": matrix, "flags": flags, "borderMode": mode, "borderValue": border}
    found = warp(tmp_path, data, (6, 9), **attributes)
    np.testing.assert_array_equal(found, warp_naive(data, (6, 9), matrix, flags, mode, border))
    if matrix == MATRICES[0]:
        np.testing.assert_array_equal(found[0, 0, :5, :7], data[0, 0])


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.lists(st.floats(-3, 3, width=32), min_size=3, max_size=3), min_size=2, max_size=2),
    st.integers(0, 1),
    st.integers(0, 1),
)
def test_any_matrix(tmp_path_factory: pytest.TempPathFactory, matrix: list[list[float]], flags: int, mode: int) -> None:
    data = np.random.default_rng(4).integers(-128, 128, (1, 1, 3, 4, 1)).astype(np.int8)
    attributes = {"M_inversed": matrix, "flags": flags, "borderMode": mode, "borderValue": 3}
    found = warp(tmp_path_factory.mktemp("warp"), data, (4, 3), **attributes)
    np.testing.assert_array_equal(found, warp_naive(data, (4, 3), matrix, flags, mode, 3))


def test_a_board_computes_the_same(tmp_path: Path) -> None:
    data = np.random.default_rng(5).integers(-128, 128, (1, 1, 5, 7, 32)).astype(np.int8)
    attributes = {"M_inversed": MATRICES[3], "flags": 1, "borderMode": 1, "borderValue": 0}
    host, board = (warp(tmp_path, data, (5, 7), each, **attributes) for each in (False, True))
    np.testing.assert_array_equal(host, board)
    kinds = {"mode": 1, "dst_ysize": 9, "dst_xsize": 14, "align_corner": False}
    host, board = (segments(tmp_path, data, (9, 14), each, **kinds) for each in (False, True))
    np.testing.assert_array_equal(host, board)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"M_inversed": [[1, 0], [0, 1]]}, r"WarpAffine\): M_inversed has the row \[1, 0\], expected 3 numbers"),
        ({"M_inversed": None}, "M_inversed is None, expected 2 rows of 3 numbers"),
        ({"M_inversed": [[10**400, 0, 0], [0, 1, 0]]}, r"M_inversed has the row \[1000"),
        ({"M_inversed": [[1e6, 0, 0], [0, 1, 0]]}, "numbers from 65536 on do not fit the registers"),
        ({"flags": 2}, "flags is 2, expected a whole number from 0 to 1"),
        ({"borderMode": 4}, "borderMode is 4"),
        ({"borderValue": 200}, "borderValue is 200, expected a whole number from -128 to 127"),
    ],
)
def test_what_is_wrong_with_a_warp_is_named(tmp_path: Path, change: dict[str, Any], match: str) -> None:
    attributes = {"M_inversed": MATRICES[0], "flags": 1, "borderMode": 0, "borderValue": 0, **change}
    with pytest.raises(Error, match=match):
        warp(tmp_path, np.zeros((1, 1, 2, 2, 4), np.int8), (2, 2), **attributes)


# ---- SegPost


def segments(folder: Path, data: Array, made: tuple[int, int], board: bool = False, **attributes: Any) -> Array:
    result = tensor("@uint(8)", [1, *made, 4], "NHWC")
    rows, columns = data.shape[2:4]
    attributes = {"src_ysize": rows, "src_xsize": columns, **attributes}
    return run(network(folder, "customop::SegPost", feature_map(data), result, **attributes), data, board)


def segments_naive(data: Array, made: tuple[int, int], mode: int, corners: bool) -> list[list[tuple[int, int]]]:
    """Return class and value of every pixel."""
    _, blocks, rows, columns, block = data.shape

    def places(extent: int, other: int) -> list[int]:
        step = np.float32(extent - 1) / np.float32(other - 1) if corners else np.float32(extent) / np.float32(other)
        first = np.float32(0) if corners else np.float32(0.5) * (step - np.float32(1))
        return [math.trunc(float(first) * 65536) + math.trunc(float(step) * 65536) * at for at in range(other)]

    def at(row: int, column: int, channel: int) -> int:
        row, column = min(row, rows - 1), min(column, columns - 1)
        return int(data[0, channel // block, row, column, channel % block])

    out = []
    for j in range(made[0]):
        line = []
        for i in range(made[1]):
            values = []
            for channel in range(blocks * block):
                if mode == 0:
                    values.append(at(j, i, channel))
                    continue
                y = min(max(places(rows, made[0])[j], 0), (rows - 1) * 65536)
                x = min(max(places(columns, made[1])[i], 0), (columns - 1) * 65536)
                row, under, column, right = y // 65536, y % 65536, x // 65536, x % 65536
                total = at(row, column, channel) * (65536 - under) * (65536 - right)
                total += at(row, column + 1, channel) * (65536 - under) * right
                total += at(row + 1, column, channel) * under * (65536 - right)
                total += at(row + 1, column + 1, channel) * under * right
                values.append(total // 2**28)
            best = max(values)
            line.append((values.index(best), best))
        out.append(line)
    return out


def read_as_programs_do(found: Array) -> list[list[tuple[int, int]]]:
    """Return class and value: the first byte, and three with sign."""
    return [[(int(one[0]), int.from_bytes(bytes(one[1:]), "little", signed=True)) for one in line] for line in found[0]]


@pytest.mark.parametrize("element", [np.int8, np.int16])
@pytest.mark.parametrize(
    ("mode", "made", "corners"),
    [
        (0, (3, 4), False),
        (1, (3, 4), False),
        (1, (7, 9), False),
        (1, (7, 9), True),
        (1, (2, 3), False),
        (1, (2, 2), True),
    ],
)
def test_every_pixel_has_its_class_and_value(
    tmp_path: Path, mode: int, made: tuple[int, int], corners: bool, element: Any
) -> None:
    limit = np.iinfo(element)
    data = np.random.default_rng(6).integers(limit.min, limit.max + 1, (1, 2, 3, 4, 8)).astype(element)
    attributes = {"mode": mode, "dst_ysize": made[0], "dst_xsize": made[1], "align_corner": corners}
    found = segments(tmp_path, data, made, **attributes)
    assert found.dtype == np.uint8
    assert read_as_programs_do(found) == segments_naive(data, made, mode, corners)


@pytest.mark.parametrize("board", [False, True])
def test_padding_is_no_class(tmp_path: Path, board: bool) -> None:
    data = np.full((1, 2, 2, 3, 4), -5, np.int8)
    data[0, 1, :, :, 1:] = 100
    data[0, 1, 0, 1, 0] = -1
    result = tensor("@uint(8)", [1, 2, 3, 4], "NHWC")
    net = network(tmp_path, "customop::SegPost", feature_map(data), result, mode=0, src_ysize=2, src_xsize=3)
    source = net.ops[0].outputs[0].tensorType()
    source.setMergedDistrs([MergedAxisDistr([1, 4], 8).setUnvalid(5, 8)])
    found = read_as_programs_do(run(net, data, board))
    assert found == [[(0, -5), (4, -1), (0, -5)], [(0, -5)] * 3]
    source.setMergedDistrs([MergedAxisDistr([1, 4], 8, False)])
    with pytest.raises(Error, match="0 of 8 channels are valid"):
        run(net, data, board)


@pytest.mark.parametrize("mode", [0, 1])
def test_rows_are_computed_in_bands(tmp_path: Path, mode: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = np.random.default_rng(8).integers(-128, 128, (1, 2, 7, 5, 4)).astype(np.int8)
    made = (11, 6) if mode else (7, 5)
    attributes = {"mode": mode, "dst_ysize": made[0], "dst_xsize": made[1], "align_corner": False}
    whole = segments(tmp_path, data, made, **attributes)
    monkeypatch.setattr("triune.icraft._host.logic._BAND", 100)
    np.testing.assert_array_equal(segments(tmp_path, data, made, **attributes), whole)
    assert read_as_programs_do(whole) == segments_naive(data, made, mode, False)


def test_of_equal_classes_the_first_is_taken(tmp_path: Path) -> None:
    data = np.full((1, 1, 2, 2, 8), -5, np.int8)
    data[0, 0, 1, 1, 3:6] = 7
    found = read_as_programs_do(segments(tmp_path, data, (2, 2), mode=0))
    assert found == [[(0, -5), (0, -5)], [(0, -5), (3, 7)]]


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"mode": 2}, r"SegPost\): mode is 2, expected a whole number from 0 to 1"),
        ({"src_ysize": 5}, "src_ysize is 5, expected a whole number from 2 to 2"),
        ({"dst_xsize": 0}, "dst_xsize is 0"),
        ({"dst_ysize": 3}, r"expected a result \(1, 3, 2, …\) of 4 bytes a pixel"),
    ],
)
def test_what_is_wrong_with_segments_is_named(tmp_path: Path, change: dict[str, Any], match: str) -> None:
    attributes = {"mode": 1, "dst_ysize": 2, "dst_xsize": 2, "align_corner": False, **change}
    with pytest.raises(Error, match=match):
        segments(tmp_path, np.zeros((1, 1, 2, 2, 4), np.int8), (2, 2), **attributes)
