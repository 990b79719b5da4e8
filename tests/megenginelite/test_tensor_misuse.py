"""Tensors after calls that raise, with arrays of odd kinds, and as copies of each other."""

from __future__ import annotations

import copy
import ctypes
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from triune.megenginelite import LiteLayout, LiteNetwork, LiteTensor, LiteTensorConcat


def filled() -> LiteTensor:
    tensor = LiteTensor(LiteLayout([4], "float32"))
    tensor.set_data_by_copy(np.arange(4, dtype="float32"))
    return tensor


def read_only(count: int) -> LiteTensor:
    tensor = LiteTensor()
    array = np.arange(count, dtype="float32")
    array.flags.writeable = False
    tensor.set_data_by_share(array)
    return tensor


OTHER = LiteLayout([2], "float32")
FAILING: dict[str, tuple[Callable[[], LiteTensor], Callable[[LiteTensor], Any]]] = {
    "share with another length": (filled, lambda t: t.set_data_by_share(np.ones(4, "float32"), length=99)),
    "share with another length and layout": (
        filled,
        lambda t: t.set_data_by_share(np.ones(4, "float32"), length=16, layout=OTHER),
    ),
    "share of too little": (
        filled,
        lambda t: t.set_data_by_share(np.ones(1, "float32"), layout=LiteLayout([2], "float32")),
    ),
    "copy of a type that there is not": (filled, lambda t: t.set_data_by_copy(np.zeros((2, 2)), layout=OTHER)),
    "copy of a long list": (filled, lambda t: t.set_data_by_copy([1.0] * 5, layout=OTHER)),
    "copy of a list of text": (filled, lambda t: t.set_data_by_copy(["a"], layout=OTHER)),
    "copy of a list of lists": (
        filled,
        lambda t: t.set_data_by_copy([[1.0], [2.0]], layout=LiteLayout([2], "float16")),
    ),
    "copy from an address of unknown length": (
        filled,
        lambda t: t.set_data_by_copy(ctypes.c_void_p(64), data_length=9, layout=OTHER),
    ),
    "copy into what is read-only": (
        lambda: read_only(4),
        lambda t: t.set_data_by_copy(np.zeros((1, 2), "float32")),
    ),
    "copy_from into what is read-only": (
        lambda: read_only(4),
        lambda t: t.copy_from(np.zeros((1, 2), "float32")),
    ),
}


@pytest.mark.parametrize("name", FAILING)
def test_a_call_that_raises_changes_nothing(name: str) -> None:
    make, call = FAILING[name]
    tensor = make()
    memory = tensor.get_data_by_share()
    with pytest.raises((AssertionError, RuntimeError, KeyError, TypeError)):
        call(tensor)
    assert tensor.layout == LiteLayout([4], "float32")
    assert np.shares_memory(tensor.get_data_by_share(), memory)
    assert tensor.to_numpy().tolist() == [0, 1, 2, 3]


def test_an_empty_layout_lets_go_of_memory() -> None:
    tensor = LiteTensor()
    shared = np.ones(8, "float32")
    tensor.set_data_by_share(shared)
    tensor.layout = LiteLayout()
    tensor.layout = LiteLayout([4], "float32")
    assert not np.shares_memory(tensor.get_data_by_share(), shared)
    tensor.layout = LiteLayout([2], "float32")
    assert not np.shares_memory(tensor.get_data_by_share(), shared)
    tensor.fill_zero()
    assert shared.all()


def test_what_becomes_of_an_array_is_no_concern_of_the_tensor() -> None:
    shapes: Any
    for share in ("set_data_by_share", "share_memory_with"):
        for layout in (LiteLayout(), LiteLayout([2, 3], "int8")):
            tensor, array = LiteTensor(layout), np.zeros((2, 3), "int8")
            getattr(tensor, share)(array)
            array.shape = (6,)
            array.flags.writeable = False
            shapes = tensor.layout.shapes, tensor.to_numpy().shape
            assert shapes == ([2, 3], (2, 3))
            tensor.set_data_by_copy([1, 2])
            assert array[:2].tolist() == [1, 2]


def test_an_array_that_was_resized_is_not_read(adder: Path) -> None:
    network = LiteNetwork()
    network.load(adder)
    array = np.ones((2, 3), "float32")
    network.get_io_tensor("a").set_data_by_share(array)
    network.forward()
    array.resize((2000, 3000), refcheck=False)
    with pytest.raises(RuntimeError, match="resized"):
        network.forward()


def test_subclasses_of_arrays_are_arrays(tmp_path: Path) -> None:
    matrix = np.ones((2, 3), "float32").view(np.matrix)
    mapped = np.memmap(tmp_path / "map", "float32", "w+", shape=(2, 3))
    mapped[:] = 1
    for array in (matrix, mapped):
        shared, copied, taken = LiteTensor(), LiteTensor(), LiteTensor()
        shared.set_data_by_share(array)
        copied.set_data_by_copy(array)
        taken.share_memory_with(array)
        for tensor in (shared, copied, taken):
            assert type(tensor.get_data_by_share()) is np.ndarray
            assert tensor.slice([0], [1]).layout.shapes == [1, 3]
            assert tensor.to_numpy().tolist() == [[1] * 3] * 2
        assert np.shares_memory(shared.get_data_by_share(), array)


def test_masked_arrays_are_refused() -> None:
    array = np.ma.masked_equal(np.arange(4, dtype="float32"), 2)
    for name in ("set_data_by_share", "set_data_by_copy", "share_memory_with", "copy_from"):
        tensor = filled()
        with pytest.raises(RuntimeError, match=rf"{name}: a masked array .*filled"):
            getattr(tensor, name)(array)
        assert tensor.to_numpy().tolist() == [0, 1, 2, 3]
    with pytest.raises(RuntimeError, match="masked"):
        LiteTensorConcat([array, array], 0)


@pytest.mark.parametrize(
    ("dtype", "numbers", "become", "said"),
    [
        ("int8", [1, 300], [1, 44], r"element 1, 300, .*int8 and becomes 44, as in C \(1 of 2"),
        ("uint8", [-1, 256], [255, 0], r"element 0, -1, .*becomes 255.*2 of 2"),
        ("int32", [1 << 70], [0], r"element 0, 1180591620717411303424, .*int32 and becomes 0"),
        ("float16", [1e6, -np.inf], [np.inf, -np.inf], r"element 0, 1000000\.0, .*float16 and becomes inf.*1 of 2"),
        ("float32", [1e300], [np.inf], "element 0, 1e\\+300, .*float32 and becomes inf"),
        ("int8", [True, -128, np.int64(5)], [1, -128, 5], None),
        ("float16", [0.1, np.nan], [np.float16(0.1), np.nan], None),
    ],
)
def test_a_list_changes_its_numbers_aloud(
    dtype: str, numbers: list[Any], become: list[Any], said: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    tensor = LiteTensor(LiteLayout([len(numbers)], dtype))
    tensor.set_data_by_copy(numbers)
    np.testing.assert_array_equal(tensor.to_numpy(), np.array(become, dtype))
    told = "\n".join(record.getMessage() for record in caplog.records)
    assert told == "" if said is None else re.search(said, told)


@pytest.mark.parametrize(("dtype", "numbers"), [("float16", ["1.5"]), ("float16", [[1.0]]), ("float32", [10**400])])
def test_a_list_of_no_numbers_is_refused(dtype: str, numbers: list[Any]) -> None:
    with pytest.raises(TypeError, match=f"set_data_by_copy: a list of numbers for a tensor of {dtype}"):
        LiteTensor(LiteLayout([1], dtype)).set_data_by_copy(numbers)


def overlapping() -> list[Any]:
    strided = np.lib.stride_tricks.as_strided
    return [
        strided(np.zeros(3, "float32"), (2, 3), (0, 4)),
        strided(np.zeros(4, "float32"), (2, 3), (4, 4)),
        strided(np.zeros(4, "float32"), (2, 3), (2, 8)),
    ]


def test_elements_in_one_place_are_only_for_reading(adder: Path) -> None:
    network = LiteNetwork()
    network.load(adder)
    network.get_io_tensor("a").set_data_by_copy(np.ones((2, 3), "float32"))
    network.get_io_tensor("b").set_data_by_copy(np.ones((2, 3), "float32"))
    for array in overlapping()[:2]:
        before = array.copy()
        output = network.get_io_tensor("c")
        output.share_memory_with(array)
        for write in (network.forward, output.fill_zero, lambda o=output, b=before: o.copy_from(b)):
            with pytest.raises(RuntimeError, match="several elements are in one place"):
                write()
        assert np.array_equal(array, before)
        # As an input it is as good as any.
        source = network.get_io_tensor("a")
        array[:] = 3
        source.share_memory_with(array)
        output.share_memory_with(np.zeros((3, 2), "float32").T)
        network.forward()
        assert output.to_numpy().tolist() == [[4] * 3] * 2
    tensor = LiteTensor()
    tensor.share_memory_with(overlapping()[2])
    with pytest.raises(RuntimeError, match="several elements are in one place"):
        tensor.fill_zero()


COPIES: dict[str, Callable[[LiteTensor], LiteTensor]] = {
    "pickle": lambda tensor: pickle.loads(pickle.dumps(tensor)),
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("how", COPIES)
def test_copies_have_memory_of_their_own_kind(how: str, adder: Path) -> None:
    network = LiteNetwork()
    network.load(adder)
    network.get_io_tensor("a").set_data_by_copy(np.arange(6, dtype="float32").reshape(2, 3))
    whole = LiteTensor(LiteLayout([5, 7], "int8"))
    whole.set_data_by_copy(list(range(35)))
    shared = LiteTensor()
    shared.set_data_by_share(np.arange(33, dtype="int8")[1:])
    # Several, as one may be aligned by chance.
    for tensor in (network.get_io_tensor("a"), whole, whole.slice([1, 1], [3, 4]), shared, LiteTensor()):
        layout, expected = copy.deepcopy(tensor.layout), tensor.to_numpy()
        for found in [COPIES[how](tensor) for _ in range(4)]:
            assert found.layout == layout
            assert found.to_numpy().tolist() == expected.tolist()
            assert found._binding is None
            if layout.ndim:
                assert found.get_ctypes_memory().value % 64 == 0
                assert found.is_continue
                assert not np.shares_memory(found.get_data_by_share(), tensor.get_data_by_share())


def test_a_shallow_copy_shares(adder: Path) -> None:
    network = LiteNetwork()
    network.load(adder)
    tensor = network.get_io_tensor("a")
    found = copy.copy(tensor)
    found.set_data_by_copy([1.0] * 6)
    assert tensor.to_numpy().tolist() == [[1] * 3] * 2
    found.layout = [3, 2]
    assert (tensor.layout.shapes, found.layout.shapes) == ([2, 3], [3, 2])
