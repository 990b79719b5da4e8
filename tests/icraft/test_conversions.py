"""Every argument of the published modules takes what pybind11 takes for its type, and refuses what that refuses.

The calls are made of the published signatures: each with sample arguments, of which one is replaced by each value of a list.
https://pybind11.readthedocs.io, "Type conversions" and "Function overloading", has the rules.
"""

from __future__ import annotations

import datetime
import functools
import io
import itertools
import json
import re
from collections import deque
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, overload

import numpy as np
import pytest

from triune.icraft import buyibackend, host_backend, xir, xrt, zg330backend
from triune.icraft._xir.conversions import bound
from triune.icraft.xir import Framework, IntImm, Layout

MODULES = {
    "xir": xir,
    "xrt": xrt,
    "host_backend": host_backend,
    "zg330backend": zg330backend,
    "buyibackend": buyibackend,
}


class Index:
    """A number by its index."""

    def __index__(self) -> int:
        return 1


class Whole:
    """A number by conversion alone."""

    def __int__(self) -> int:
        return 1


class Truth:
    """What says whether it is true."""

    def __bool__(self) -> bool:
        return True


class Liar:
    """What raises instead."""

    def __bool__(self) -> bool:
        raise ValueError("no")

    __index__ = __int__ = __float__ = __bool__


class Items:
    """A sequence by its items alone."""

    def __getitem__(self, index: int) -> int:
        return [1][index]

    def __len__(self) -> int:
        return 1


NUMBERS: list[Any] = [1, True, np.int64(1), np.uint8(1), np.True_, Index(), Whole(), np.float32(1), Decimal(1)]
NO_NUMBERS: list[Any] = [1.0, np.float64(1), "1", b"1", None, [1], 1 << 64, -(1 << 64), object(), Liar(), 1j]
ACCEPTED: dict[str, list[Any]] = {
    "bool": [True, False, None, np.True_, np.False_, 1, 0, 2.5, np.float32(0), np.int64(3), 1j, Truth(), np.array([1])],
    "int": NUMBERS,
    "float": [1.5, 1, True, np.float32(0.5), np.float64(0.5), np.int64(1), Decimal("0.5"), Index()],
    "str": ["N", b"N", bytearray(b"N"), np.str_("N")],
    "list[int]": [
        [1],
        (1,),
        range(1, 2),
        np.array([1]),
        deque([1]),
        bytearray(b"\1"),
        Items(),
        *([one] for one in NUMBERS),
    ],
    "list[float]": [[1.5], (1,), np.array([1.5], np.float32), np.array([1]), range(1, 2)],
    "list[bool]": [[True], [None], (1,), np.array([True]), [np.True_]],
    "list[str]": [["N"], ("N",), [b"N"], np.array(["N"])],
}
REFUSED: dict[str, list[Any]] = {
    "bool": ["x", "", b"x", [], [1], {}, {1}, (), object(), np.array([1, 2]), Liar(), int],
    "int": NO_NUMBERS,
    "float": ["1.5", b"1", None, [1.5], object(), Liar(), 1j, Whole(), 1 << 2000],
    "str": [1, None, ["N"], Path("N"), memoryview(b"N"), object(), str],
    "list[int]": [1, None, "1", b"\1", {1: 1}, {1}, iter([1]), object(), *([one] for one in NO_NUMBERS)],
    "list[float]": [1.5, None, "1", b"1", {1.5}, ["1"], [None]],
    "list[bool]": [None, "1", b"1", {True}, ["1"], [[]]],
    "list[str]": [None, "N", b"N", [1], [None]],
}
OF_ENUMERATIONS: list[Any] = [0, "ONNX", None, np.int64(0), xir.HostMem(), xrt.PtrType.BOTH]

TENSOR = xir.TensorType(xir.FloatType.FP32(), [1, 2, 2, 1], xir.Layout("NHWC"))


BY_NAME = {"scale": xir.QuantizedScaleArray, "layout": lambda: xir.Layout("NHWC"), "merged_distrs": list}
"""What parameters are given whose type the published signatures leave out."""

SINGLE = {"Roll.shifts"}
"""Lists that a number stands for: a constructor takes one."""


def sample(module: Any, name: str, kind: str) -> Any:
    """Return an argument of a published type."""
    if kind == "..." and name in BY_NAME:
        return BY_NAME[name]()
    kind = kind.replace("xir.", "").replace("xrt.", "")
    kind = kind.removesuffix(" | None")
    if kind.startswith("dict["):
        return {}
    if kind.startswith("typing.Callable"):
        return lambda *given: 1
    if kind.startswith("list[") and kind not in ACCEPTED:
        return [sample(module, name, kind[5:-1])]
    if " | " in kind:
        return sample(module, name, kind.split(" | ")[0])
    made = {
        "Value": lambda: xir.Value(TENSOR),
        "Params": lambda: xir.Params(np.ones(1, np.float32)),
        "TensorType": lambda: TENSOR,
        "ScalarType": xir.IntegerType.SInt8,
        "DataType": lambda: TENSOR,
        "Layout": lambda: xir.Layout("NHWC"),
        "Operation": lambda: xir.Operation.Create("customop::X"),
        "MemType": xir.HostMem,
        "CompileTarget": xir.HostTarget,
        "ScalarImm": lambda: xir.IntImm(1),
        "IntImm": lambda: xir.IntImm(1),
        "String": lambda: xir.String("x"),
        "ObjectRef": lambda: xir.IntImm(1),
        "NetworkView": lambda: xir.Network("n", xir.Framework.ONNX, "1").view([]),
        "QuantizedScale": lambda: xir.ExpQuantizedScale(1, 1, 1.0),
        "MemPtr": lambda: xrt.MemPtr(bytearray(1)),
        "MemRegion": xrt.HostMemRegion,
        "MemChunk": lambda: xrt.HostMemRegion().malloc(1),
        "Device": xrt.HostDevice.Default,
        "Tensor": lambda: xrt.Tensor(TENSOR),
        "HostBackend": host_backend.HostBackend.Init,
        "typing_extensions.Buffer": lambda: bytearray(1),
        "io.BytesIO": io.BytesIO,
        "datetime.timedelta": datetime.timedelta,
        "dict[str, int]": dict,
        "type": lambda: xir.Add,
        "int": lambda: 1,
        "float": lambda: 1.5,
        "bool": lambda: True,
        "str": lambda: "N",
        "list[int]": lambda: [1],
        "list[float]": lambda: [1.5],
        "list[bool]": lambda: [True],
        "list[str]": lambda: ["N"],
        "...": lambda: None,
    }
    if kind in made:
        return made[kind]()
    there = getattr(module, kind, None) or getattr(xir, kind)
    if hasattr(there, "__members__"):
        return next(iter(there))
    return there.Init() if hasattr(there, "Init") else there()


def typed(text: str) -> list[tuple[str, str]]:
    """Return the parameters of a published signature with their types, in order."""
    inside = text[text.index("(") + 1 : text.rindex(") ->")]
    parts, depth, part = [], 0, ""
    for character in inside + ",":
        depth += (character in "[(") - (character in "])")
        if character == "," and depth == 0:
            parts.append(part.strip())
            part = ""
        else:
            part += character
    found = []
    for part in filter(None, parts):
        name, _, rest = part.partition(":")
        if not name.startswith(("self", "*", "/")):
            found.append((name, rest.partition("=")[0].strip()))
    return found


def calls(api: dict[str, Any]) -> Iterator[tuple[str, str, list[str]]]:
    """Yield class (`-` is none), name and signatures of all that takes something."""
    for name, texts in api.get("functions", {}).items():
        yield "-", name, texts
    for owner, found in api["classes"].items():
        for name, texts in found.get("members", {}).items():
            setters = [text for text in texts if text.startswith("setter")]
            yield owner, name, setters or texts


def target(module: Any, owner: str, name: str, text: str) -> Any:
    """Return what to call with the parameters of a signature."""
    if owner == "-":
        return getattr(module, name)
    kind = getattr(module, owner)
    if name == "__init__":
        return kind
    if text.startswith("static"):
        return getattr(kind, name)
    try:
        thing = kind.Init()
    except (AttributeError, NotImplementedError):
        thing = kind._null() if issubclass(kind, xir.ObjectRef) else next(iter(kind))
    if text.startswith("setter"):
        return lambda value: setattr(thing, name, value)
    return getattr(thing, name)


def outcome(function: Callable[[], Any], arguments: list[Any], place: int, value: Any) -> str:
    """Return what a call with a value in one place ends with: `refused` is a TypeError."""
    try:
        function()(*arguments[:place], value, *arguments[place + 1 :])
    except TypeError as error:
        return f"refused: {error}"
    except Exception:
        return "an error"
    return "done"


def values(module: Any, kind: str) -> tuple[list[Any], list[Any]]:
    """Return what a published type takes, and what it refuses; nothing if it is none of those that are converted."""
    if kind.endswith(" | None"):
        accepted, refused = values(module, kind.removesuffix(" | None"))
        return accepted and [*accepted, None], [value for value in refused if value is not None]
    if kind in ACCEPTED:
        return ACCEPTED[kind], REFUSED[kind]
    there = getattr(module, kind, None)
    if hasattr(there, "__members__"):
        return list(there), OF_ENUMERATIONS
    return [], []


# A method that Python calls for operators gives way to the other side instead of refusing, and equality to identity.
SPECIAL = re.compile(r"__(eq|ne|and|or|sub|add|getstate|setstate)__")


@pytest.mark.parametrize("name", MODULES)
def test_arguments_are_taken_as_pybind11_does(
    name: str, test_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = test_data / "spec" / "icraft_api.json"
    if not path.exists():
        pytest.skip(f"no {path}")
    monkeypatch.chdir(tmp_path)
    module = MODULES[name]
    checked, wrong = 0, []
    for owner, method, texts in calls(json.loads(path.read_text())[name]):
        if SPECIAL.fullmatch(method):
            continue
        overloads = [typed(text) for text in texts]
        for text, parameters in zip(texts, overloads, strict=True):
            for place, (called, kind) in enumerate(parameters):
                accepted, refused = values(module, kind)
                if called.lower().endswith("path"):
                    # Paths are taken, too.
                    refused = [value for value in refused if not isinstance(value, Path)]
                if method in ("readReg", "writeReg") and called == "cid":
                    # Or a region's name, as the form of every device has it.
                    refused = [value for value in refused if not isinstance(value, str | bytes)]
                if f"{owner}.{method}" in SINGLE:
                    refused = [value for value in refused if value != 1]
                if not accepted:
                    continue
                others = [
                    given
                    for given in overloads
                    if given is not parameters and len(given) > place and given[place][1] != kind
                ]
                arguments = [sample(module, *parameter) for parameter in parameters]
                call = functools.partial(target, module, owner, method, text)
                ends = functools.partial(outcome, call, arguments, place)
                what = f"{owner}.{method}{text} [{place}]"

                if ends(arguments[place]).startswith("refused"):
                    wrong.append(f"{what}: sample: {ends(arguments[place])}")
                    continue
                for value in accepted:
                    checked += 1
                    found = ends(value)
                    if found.startswith("refused"):
                        wrong.append(f"{what}: {value!r}: {found}")
                for value in refused if not others else [object()]:
                    checked += 1
                    found = ends(value)
                    if not found.startswith("refused"):
                        wrong.append(f"{what}: {value!r} was taken: {found}")
    assert wrong == []
    assert checked > 20


def test_parts_are_of_their_classes() -> None:
    image = xir.TensorType(xir.FloatType.FP32(), [1, 2], xir.Layout("NC"))
    value, number = xir.Input(image)[0], xir.IntImm(3)
    quantized = xir.QuantizedType(xir.QuantizedScaleArray([0.5]), xir.IntegerType.SInt8(), xir.FloatType.FP32())
    for refused in (
        lambda: value.setMType(value),
        lambda: value.setDType(xir.HostMem()),
        lambda: number.setMType(image),
        lambda: number.setDType("@fp(32)"),
        lambda: xir.IntImm(3, xir.Layout("N")),
        lambda: image.setElementDtype(image),
        lambda: image.setLayout(number),
        lambda: xir.TensorType(xir.FloatType.FP32(), [1], number),
        lambda: quantized.setScale(value),
        lambda: image.setScale([0.5]),
    ):
        with pytest.raises(TypeError, match=r"is needed, not"):
            refused()
    assert image.setLayout("HW").layout == xir.Layout("HW")
    assert str(value.mtype) == '"@hostm"'


@pytest.mark.parametrize(
    ("value", "expected"), [(None, False), (np.True_, True), (0, False), (2.5, True), (Truth(), True)]
)
def test_a_truth_value_is_made_of_what_has_one(value: Any, expected: bool) -> None:
    assert xir.Bool(value).value is expected
    assert type(xir.Sum(xir.Value(TENSOR), 1, value).keepdim) is bool


def test_a_tag_that_is_not_there_is_false() -> None:
    network = xir.Network("n", xir.Framework.ONNX, "1")
    assert not xir.Bool(network.getTag("speedmode")).__bool__()
    network.setTag("speedmode", True)
    assert xir.Bool(network.getTag("speedmode")).__bool__()
    for wrong in ("true", [], {}, np.array([1, 2]), Liar()):
        with pytest.raises(TypeError):
            xir.Bool(wrong)


def test_what_is_kept_is_pythons_own() -> None:
    transposed = xir.Transpose(xir.Value(TENSOR), np.array([0, 2, 1, 3]))
    assert transposed.dims == [0, 2, 1, 3]
    assert {type(one) for one in transposed.dims} == {int}
    assert type(xir.Value(TENSOR).setName(b"\xc3\xa4").name) is str
    assert xir.Value(TENSOR).setName(b"\xc3\xa4").name == "\u00e4"


def test_the_first_form_that_needs_no_conversion_wins() -> None:
    network = xir.Network("n", xir.Framework.ONNX, "1")
    assert network.view(0).ops == network.view([]).ops == network.view(start_index=0, end_index=0).ops == []
    assert isinstance(xir.ScalarImm(np.int64(3)), xir.IntImm)
    assert isinstance(xir.ScalarImm(np.float64(3)), xir.FloatImm)


def test_places_go_by_the_names_of_published_signatures() -> None:
    assert xir.Bool(arg0=None) == xir.Bool(False)
    assert xir.IntImm(arg0=xir.IntImm(3)) == 3
    assert xir.Operation(arg0=xir.Operation.Create("customop::X")).typeKey() == "customop::XNode"
    value = xir.Value(TENSOR)
    cut = xir.Slice(arg0=value, arg1=[0, 0, 0, 0], arg2=[1, 1, 1, 1], arg3=[1, 1, 1, 1])
    assert (cut.begin, cut.end) == ([0, 0, 0, 0], [1, 1, 1, 1])
    assert cut.hasAttr(arg0="begin", arg1=[0, 0, 0, 0])
    tensor = xrt.Tensor(np.zeros((1, 2, 2, 1), np.float32), xir.Layout("NHWC"))
    tensor.write(arg0=0, arg1=np.ones(1, np.float32), arg2=4)
    assert np.asarray(tensor)[0, 0, 0, 0] == 1
    with pytest.raises(TypeError):
        xir.Bool(arg1=True)


Taken = list[tuple[type, Any]]


def taken(*arguments: Any) -> Taken:
    """Return what arguments became: their types and values."""
    return [(type(one), list(one) if isinstance(one, np.ndarray) else one) for one in arguments]


def one_form(number: int, flag: bool = False, items: list[int] | None = None, any_of: float | str = "") -> Taken:
    """Take one of everything."""
    return taken(number, flag, items, any_of)


@overload
def forms(first: bool, second: str = ...) -> Taken: ...
@overload
def forms(first: int, second: list[int] = ...) -> Taken: ...
@overload
def forms(first: Framework, second: IntImm | None = ...) -> Taken: ...
@overload
def forms(first: list[str], second: Layout | float = ...) -> Taken: ...
@overload
def forms(first: Layout, second: Callable[..., Any] = ...) -> Taken: ...
def forms(*arguments: Any) -> Taken:
    """Take several forms, whose types have no name in common."""
    return taken(*arguments)


def test_what_types_decide_once_is_as_values_say() -> None:
    # The second call with the same types goes by what was found at the first; a new function has found nothing yet.
    firsts: list[Any] = [
        True,
        1,
        1 << 63,
        1 << 64,
        1.5,
        None,
        "N",
        b"N",
        [1],
        [True],
        ["N"],
        (1,),
        [1 << 64],
        np.int8(1),
    ]
    firsts += [np.True_, np.array([1]), Index(), Truth(), Items(), {}, Framework.ONNX, xir.IntImm(1), Layout("N"), len]
    seconds = [(), *((one,) for one in firsts)]
    for function in (one_form, forms):
        planned: Any = bound(function)
        for _ in range(2):
            for first, rest in itertools.product(firsts, seconds):
                ends = []
                for way in (bound(function), planned):
                    try:
                        ends.append(way(first, *rest))
                    except TypeError as error:
                        ends.append(str(error))
                assert ends[0] == ends[1], (function, first, rest)
    third: Any = bound(one_form)
    for items in ([], [1], (1, 2), [True], [1.0], ["1"], [1 << 64], [1 << 63], [np.int64(3)], [1, None], None, "1"):
        for last in (1, 1.5, "x", True, None, [1], np.float32(1), b"x"):
            for _ in range(2):
                try:
                    found = third(1, False, items, last)
                except TypeError as error:
                    found = str(error)
                fresh: Any = bound(one_form)
                try:
                    expected = fresh(1, False, items, last)
                except TypeError as error:
                    expected = str(error)
                assert found == expected, (items, last)
