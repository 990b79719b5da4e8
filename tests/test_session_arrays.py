"""What `triune.Session.run` takes besides arrays that fit, which outputs it gives, and where it writes them."""

from __future__ import annotations

import array
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx.parser
import pytest

import triune
from triune import errors

TWO = onnx.parser.parse_model(
    '<ir_version: 8, opset_import: ["" : 17]> g (float[n, 2] x, int8[2] k) => (float[n, 2] sum, float[n, 2] twice) '
    "{ c = Cast <to = 1> (k) sum = Add (x, c) twice = Add (x, x) }"
)
STAGED = onnx.parser.parse_model(
    '<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (int64[1, m] found, float[4] twice) '
    "{ found = NonZero (x) twice = Add (x, x) }"
)
X: npt.NDArray[np.float32] = np.array([[1, 2], [3, 4.5], [-5, 6]], np.float32)
K = np.array([7, -8], np.int8)


@pytest.fixture
def session() -> triune.Session:
    return triune.Session(TWO)


class OnlyDLPack:
    """What another library's tensor shows of itself."""

    def __init__(self, values: npt.NDArray[Any]) -> None:
        self._values = values

    def __dlpack__(self, **options: Any) -> Any:
        return self._values.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._values.__dlpack_device__()


class OnAGPU(OnlyDLPack):
    def __dlpack__(self, **options: Any) -> Any:
        raise BufferError("device memory\nand more")


class OnlyInterface:
    def __init__(self, values: npt.NDArray[Any]) -> None:
        self._values = values
        self.__array_interface__ = values.__array_interface__


def test_outputs_by_name(session: triune.Session) -> None:
    feeds = {"x": X, "k": K}
    total, twice = session.run(feeds)
    assert np.array_equal(total, X + K)
    assert np.array_equal(twice, X + X)
    for names, expected in ((None, [total, twice]), (["twice"], [twice]), (("twice", "sum"), [twice, total]), ([], [])):
        found = session.run(names, feeds)
        assert len(found) == len(expected)
        assert all(map(np.array_equal, found, expected))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["twise"], "unknown output 'twise'; did you mean 'twice'. the model has sum, twice"),
        ("twice", "outputs: expected a list of names or None, got 'twice'"),
        ([3], "unknown output 3; the model has"),
    ],
)
def test_wrong_outputs(session: triune.Session, names: Any, message: str) -> None:
    with pytest.raises(errors.ArgumentError, match=message):
        session.run(names, {"x": X, "k": K})


@pytest.mark.parametrize(
    "x",
    [
        np.asfortranarray(X),
        np.repeat(X, 2, axis=1)[:, ::2],
        X.astype(">f4"),
        X.tolist(),
        memoryview(X),
        OnlyDLPack(X),
        OnlyInterface(X),
        [list(row) for row in X],
    ],
    ids=lambda x: type(x).__name__,
)
def test_whatever_holds_the_numbers(session: triune.Session, x: Any) -> None:
    for k in (K, K.tolist(), array.array("b", K.tolist()), memoryview(K)):
        (total,) = session.run(["sum"], {"x": x, "k": k})
        assert np.array_equal(total, X + K)


def test_bytes_are_numbers_of_eight_bits() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (uint8[3] x) => (int32[3] y) { y = Cast <to = 6> (x) }'
    )
    for content in (b"\x01\xff\x03", bytearray(b"\x01\xff\x03")):
        assert triune.Session(model).run({"x": content})[0].tolist() == [1, 255, 3]


def test_a_number_for_an_input_without_axes() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float x) => (float y) { y = Add (x, x) }'
    )
    for number in (1.5, np.float32(1.5), np.array(1.5, np.float32)):
        (found,) = triune.Session(model).run({"x": number})
        assert found.shape == ()
        assert found == 3


@pytest.mark.parametrize(
    ("name", "value", "converts", "message"),
    [
        (
            "x",
            X.astype(np.float64),
            True,
            r"input 'x': expected dtype float32, got float64 \(convert=True converts it\)",
        ),
        ("x", X.astype(np.int64), True, "expected dtype float32, got int64"),
        ("x", X.astype(np.float16), True, "expected dtype float32, got float16"),
        ("k", K.astype(np.int64), True, "input 'k': expected dtype int8, got int64"),
        ("k", np.array([1, 128]), False, r"input 'k': expected values that int8 has, got 128 \(int64\)"),
        ("k", np.array([1, -129]), False, "got -129"),
        ("k", np.array([1, 200], np.uint8), False, "got 200"),
        ("k", [1, 300], False, "got 300"),
        ("k", [1, 2.5], False, r"expected values that int8 has, got 2.5 \(float64\)"),
        ("k", np.array([1.0, 2.0]), True, "expected dtype int8, got float64"),
        ("k", np.array([1.0, 128.0]), False, r"expected values that int8 has, got 128.0 \(float64\)"),
        ("k", np.array([1.0, np.nan]), False, r"expected values that int8 has, got nan \(float64\)"),
        ("k", np.array([-np.inf, 1.0], np.float32), False, r"expected values that int8 has, got -inf \(float32\)"),
        ("x", np.full((1, 2), 2**25 + 1), False, r"expected values that float32 has, got 33554433 \(int64\)"),
        (
            "x",
            np.full((1, 2), 2**64 - 1, np.uint64),
            False,
            "expected values that float32 has, got 18446744073709551615",
        ),
        ("x", np.full((1, 2), 2**63, np.uint64), True, "expected dtype float32, got uint64"),
        ("x", np.full((1, 2), 1e39), False, r"expected values that float32 has, got 1e\+39"),
        ("x", np.full((1, 2), 1j), False, "expected dtype float32, got complex128"),
        ("x", None, False, "input 'x': expected an array, got none"),
        ("x", "text", False, "expected an array of numbers, got dtype <U4"),
        ("x", object(), False, "expected an array of numbers, got object"),
        ("x", [[1.0], [2.0, 3.0]], False, "input 'x': list gives no array in the host's memory"),
        ("x", OnAGPU(X), False, "input 'x': OnAGPU gives no array in the host's memory: device memory$"),
    ],
)
def test_conversion_keeps_every_value(
    session: triune.Session, name: str, value: Any, converts: bool, message: str
) -> None:
    feeds = {"x": X, "k": K, name: value}
    hints = isinstance(value, np.ndarray) and (value.dtype.kind in "iu" or (converts and name == "x"))
    without = "convert=True" if hints else "."
    with pytest.raises(errors.ArgumentError, match=without):
        session.run(feeds)
    if converts:
        assert np.array_equal(
            session.run(feeds, convert=True)[0], X + value if name == "k" else value.astype(np.float32) + K
        )
    else:
        with pytest.raises(errors.ArgumentError, match=message):
            session.run(feeds, convert=True)


def test_extents_beyond_memory_are_refused(session: triune.Session) -> None:
    for extent in (1 << 63, 1 << 70):
        with pytest.raises(errors.ArgumentError, match="input 'x': expected extents of 0 or more that memory can have"):
            session.prepare({"x": (1, extent)})


def test_half_a_pair_is_no_name(session: triune.Session) -> None:
    with pytest.raises(errors.ArgumentError, match=r"unknown input '\\ud800'; the model has x, k"):
        session.run({"\ud800": X})


def test_infinities_and_nan_are_kept(session: triune.Session) -> None:
    odd = np.array([[np.inf, np.nan], [-np.inf, 1e-60]])
    (twice,) = session.run(["twice"], {"x": odd, "k": K}, convert=True)
    assert np.array_equal(twice, odd.astype(np.float32) * 2, equal_nan=True)


def test_results_in_given_arrays(session: triune.Session) -> None:
    feeds = {"x": X, "k": K}
    expected = session.run(feeds)
    total, twice = np.empty_like(X), np.empty_like(X)
    for names, out, given in (
        (None, [total, twice], [total, twice]),
        (None, {"twice": twice}, [None, twice]),
        (["twice", "sum"], [None, total], [None, total]),
        (["sum"], {"sum": total}, [total]),
    ):
        total[:], twice[:] = 77, 77
        results = session.run(names, feeds, out=out)
        order = [0, 1] if names is None else [["sum", "twice"].index(name) for name in names]
        for result, mine, place in zip(results, given, order, strict=True):
            assert mine is None or result is mine
            assert np.array_equal(result, expected[place])


def test_large_results_begin_at_a_cache_line() -> None:
    """Their memory is an array's own: it grows and shrinks, outlives the session, and what is made elsewhere is numpy's."""
    session = triune.Session(TWO)
    x = np.arange(8192, dtype=np.float32).reshape(-1, 2)
    results = [session.run({"x": x, "k": np.zeros(2, np.int8)})[1] for _ in range(4)]
    del session
    for result in results[1:]:
        assert result.ctypes.data % 64 == 0
        assert result.flags.owndata
        np.testing.assert_array_equal(result, 2 * x)
    grown = results.pop()
    grown.resize((6000, 2), refcheck=False)
    np.testing.assert_array_equal(grown[:4096], 2 * x)
    assert not grown[4096:].any()
    grown.resize((3, 2), refcheck=False)
    np.testing.assert_array_equal(grown, 2 * x[:3])


def test_results_in_another_kind_of_memory(session: triune.Session) -> None:
    memory = bytearray(X.nbytes)
    view = memoryview(memory).cast("f", X.shape)
    session.run(["sum"], {"x": X, "k": K}, out=[view])
    assert np.array_equal(np.frombuffer(memory, np.float32).reshape(X.shape), X + K)


def test_results_whose_extents_depend_on_data() -> None:
    session = triune.Session(STAGED)
    x = np.array([0, 1, 0, 2], np.float32)
    found, twice = np.empty((1, 2), np.int64), np.empty(4, np.float32)
    results = session.run({"x": x}, out=[found, twice])
    assert results[0] is found
    assert found.tolist() == [[1, 3]]
    assert np.array_equal(twice, x * 2)
    with pytest.raises(errors.ArgumentError, match=r"out for 'found': expected shape \(1, 3\), got \(1, 2\)"):
        session.run({"x": [*x[1:2], *x[1:]]}, out={"found": found}, convert=True)


def read_only() -> npt.NDArray[np.float32]:
    result = np.empty_like(X)
    result.flags.writeable = False
    return result


def misaligned(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the same elements one byte beyond where they belong, as in a file that is looked into."""
    moved = np.frombuffer(bytearray(1 + array.nbytes), np.uint8)[1:].view(array.dtype).reshape(array.shape)
    moved[...] = array
    assert moved.flags.c_contiguous
    assert not moved.flags.aligned
    return moved


def test_arrays_that_begin_within_an_element(session: triune.Session) -> None:
    expected = session.run({"x": X, "k": K})
    for results in (
        session.run({"x": misaligned(X), "k": K}),
        session.run({"x": misaligned(X.astype(np.float64)), "k": K}, convert=True),
        session.run({"x": misaligned(X.astype(">f4")), "k": K}),
    ):
        assert all(np.array_equal(a, b) for a, b in zip(results, expected, strict=True))
    with pytest.raises(errors.ArgumentError, match="out for 'sum': expected an array that is aligned to its elements"):
        session.run({"x": X, "k": K}, out=[misaligned(expected[0]), None])


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ([None], "out: expected 2 arrays, one per result, or a dict by name, got 1"),
        (np.empty(2), "out: expected 2 arrays, one per result, or a dict by name, got ndarray"),
        ({"tvice": None}, "unknown output 'tvice'; did you mean 'twice'"),
        ([np.empty((3, 2)), None], "out for 'sum': expected dtype float32, got float64"),
        ([None, np.empty((2, 2), np.float32)], r"out for 'twice': expected shape \(3, 2\), got \(2, 2\)"),
        ([np.empty((2, 3), np.float32).T, None], "out for 'sum': expected a C-contiguous array"),
        ([[[0.0]], None], "out for 'sum': expected an array to write to, got list"),
        ([read_only(), None], "out for 'sum': expected a writeable array"),
        ([b"12345678", None], "out for 'sum': expected an array to write to, got bytes"),
    ],
)
def test_wrong_out(session: triune.Session, out: Any, message: str) -> None:
    with pytest.raises(errors.ArgumentError, match=message):
        session.run({"x": X, "k": K}, out=out)


def test_out_shares_no_memory(session: triune.Session) -> None:
    x = X.copy()
    with pytest.raises(errors.ArgumentError, match="expected an array that nobody else uses"):
        session.run({"x": x, "k": K}, out=[x, None])
    one = np.empty_like(X)
    with pytest.raises(errors.ArgumentError, match="expected an array that nobody else uses"):
        session.run({"x": x, "k": K}, out=[one, one])
    with pytest.raises(
        errors.ArgumentError, match="out: expected arrays of outputs that are asked for, got one for 'sum'"
    ):
        session.run(["twice"], {"x": x, "k": K}, out={"sum": one})


def test_arrays_in_lists_and_optional_ones_have_eight_axes_at_most() -> None:
    deep = np.zeros((1,) * 9, np.float32)
    for kind, given in (("seq(float)", [X, deep]), ("optional(float)", deep)):
        model = onnx.parser.parse_model(
            f'<ir_version: 8, opset_import: ["" : 18]> g ({kind} x) => ({kind} y) {{ y = Identity (x) }}'
        )
        with pytest.raises(errors.ArgumentError, match=r"x.*8 dimensions at most.* 9"):
            triune.Session(model).run({"x": given})
        triune.Session(model).run({"x": [deep[0]] if isinstance(given, list) else deep[0]})


def test_masked_arrays_are_refused(session: triune.Session) -> None:
    masked = np.ma.masked_less(X, 0)
    with pytest.raises(errors.ArgumentError, match=r"x.*a masked array .*filled"):
        session.run({"x": masked, "k": K})
    with pytest.raises(errors.ArgumentError, match="a masked array"):
        session.run({"x": X, "k": K}, out={"sum": np.ma.zeros((3, 2), np.float32)})
