"""What wrong models, data and paths give in each API: the class of the exception, what it names, and the words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import triune
from triune import errors
from triune.axelera.runtime import Context, InvalidArgument
from triune.icraft import xir
from triune.megenginelite import LiteNetwork
from triune.models import DIGITS_F32, DIGITS_INT8

F32, I64, I8 = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT8
LINE = np.arange(3, dtype=np.float32)
IMAGE = np.zeros((1, 1, 4, 4), np.float32)


class Case(NamedTuple):
    """A model of one node, what it is run on, and what has to come of it."""

    op: str
    attributes: dict[str, Any]
    feeds: dict[str, npt.NDArray[Any]]
    constants: dict[str, npt.NDArray[Any]]
    kind: type[errors.Error]
    words: str
    operand: str | None = None


WINDOW = {"w": np.ones((1, 1, 2, 2), np.float32)}
HALF = {"s": np.float32(0.5), "z": np.array(200, np.uint8)}
PICK = {"x": LINE, "i": np.array([0, 3])}
CASES: dict[str, Case] = {
    "index at run time": Case(
        "Gather", {}, PICK, {}, errors.ArgumentError, "indices: index 3 is outside of axis 0 of extent 3", "indices"
    ),
    "index from the back": Case(
        "Gather",
        {},
        {"x": LINE, "i": np.array([0, -4])},
        {},
        errors.ArgumentError,
        "index -4 is outside of axis 0",
        "indices",
    ),
    "index of an inner axis": Case(
        "Gather",
        {"axis": 1},
        {"x": np.zeros((9, 3), np.float32), "i": np.array([1, 5])},
        {},
        errors.ArgumentError,
        "index 5 is outside of axis 1 of extent 3",
        "indices",
    ),
    "index that is known": Case(
        "Gather",
        {},
        {"x": LINE},
        {"i": np.array([3])},
        errors.ArgumentError,
        "index 3 is outside of axis 0 of extent 3",
    ),
    "index of an element": Case(
        "GatherElements",
        {"axis": 1},
        {"x": np.zeros((2, 3), np.float32), "i": np.array([[0, 1], [2, -4]])},
        {},
        errors.ArgumentError,
        "index -4 is outside of axis 1 of extent 3",
        "indices",
    ),
    "coordinates": Case(
        "GatherND",
        {},
        {"x": np.zeros((2, 3), np.float32), "i": np.array([[0, 1], [1, 7]])},
        {},
        errors.ArgumentError,
        "index 7 is outside of axis 1 of extent 3",
        "indices",
    ),
    "window beyond the input": Case(
        "MaxPool",
        {"kernel_shape": [9, 9]},
        {"x": IMAGE},
        {},
        errors.ArgumentError,
        "a window of 9 .* does not fit 4 elements",
    ),
    "dilated window": Case(
        "Conv",
        {"dilations": [9, 9]},
        {"x": IMAGE},
        WINDOW,
        errors.ArgumentError,
        "a window of 2 with dilation 9 does not fit",
    ),
    "other window than the weights": Case(
        "Conv", {"kernel_shape": [3, 5]}, {"x": IMAGE}, WINDOW, errors.ArgumentError, r"do not have the window \[3, 5\]"
    ),
    "stride of nothing": Case(
        "Conv", {"strides": [0, 1]}, {"x": IMAGE}, WINDOW, errors.UnsupportedError, "'strides' does not have 2 positive"
    ),
    "extent beyond 32 bits": Case(
        "Conv",
        {"strides": [1 << 40, 1]},
        {"x": IMAGE},
        WINDOW,
        errors.UnsupportedError,
        "1099511627776 exceeds 32 bits",
    ),
    "zero point of another type": Case(
        "DequantizeLinear",
        {},
        {"x": np.zeros(3, np.int8)},
        HALF,
        errors.ArgumentError,
        "values of type int8 and a zero point of uint8",
    ),
    "axis": Case("Softmax", {"axis": 9}, {"x": LINE}, {}, errors.ArgumentError, "axis 9 is not one of 1 dimensions"),
    "pads": Case(
        "Pad",
        {},
        {"x": LINE},
        {"p": np.array([-5, 0])},
        errors.ArgumentError,
        r"pads \[-5, 0\] and axes \[\] do not fit",
    ),
}


def one_node(case: Case) -> bytes:
    """Return the case's model: one node called `pick`, whose result is added to itself, so that it is computed."""
    names = [*case.feeds, *case.constants]
    types = {name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in case.feeds.items()}
    graph = helper.make_graph(
        [
            helper.make_node(case.op, names, ["r"], name="pick", **case.attributes),
            helper.make_node("Add", ["r", "r"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info(name, types[name], array.shape) for name, array in case.feeds.items()],
        [helper.make_tensor_value_info("y", F32, None)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in case.constants.items()],
    )
    return bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    )


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_session_names_the_node_and_the_operand(case: Case) -> None:
    with pytest.raises(errors.Error, match=rf"^node 'pick' \({case.op}\): .*{case.words}") as raised:
        triune.Session(one_node(case)).run(case.feeds)
    assert type(raised.value) is case.kind
    assert (raised.value.node, raised.value.operand) == ("pick", case.operand)


def test_a_session_goes_on_behind_a_wrong_index() -> None:
    session = triune.Session(one_node(CASES["index at run time"]))
    with pytest.raises(errors.ArgumentError):
        session.run(PICK)
    assert session.run({**PICK, "i": np.array([2, -3])})[0].tolist() == [4, 0]


def test_clamps_whose_limits_cross_give_the_upper_one() -> None:
    clamp = Case(
        "Clip", {}, {"x": LINE}, {"lo": np.array(3, np.float32), "hi": np.array(1, np.float32)}, errors.Error, ""
    )
    assert triune.Session(one_node(clamp)).run(clamp.feeds)[0].tolist() == [2, 2, 2]


def test_lite_names_the_node_and_the_operand(tmp_path: Path) -> None:
    path = tmp_path / "pick.onnx"
    case = CASES["index at run time"]
    path.write_bytes(one_node(case))
    network = LiteNetwork()
    network.load(str(path))
    network.get_io_tensor("x").set_data_by_copy(case.feeds["x"])
    network.get_io_tensor("i").set_data_by_copy(case.feeds["i"].astype(np.int64))

    def forward() -> None:
        network.forward()
        network.wait()

    with pytest.raises(RuntimeError, match=r"node 'pick' \(Gather\): indices: index 3 is outside of axis 0"):
        forward()


def test_kinds_are_told_without_words(tmp_path: Path) -> None:
    damaged = DIGITS_INT8.read_bytes()[:200]
    with pytest.raises(errors.FormatError) as malformed:
        triune.Session(damaged)
    assert malformed.value.format == "ONNX"
    with pytest.raises(errors.NotQuantizedError):
        triune.compile(DIGITS_F32, target="metis", output=tmp_path / "package")
    with pytest.raises(errors.FileError):
        triune.Session(tmp_path / "nothing.onnx")
    with pytest.raises(errors.ArgumentError) as wrong:
        triune.Session(DIGITS_INT8).run({"image": np.zeros((1, 2, 8, 8), np.float32)})
    assert wrong.value.operand == "input 'image'"
    assert errors.Error.node is None


PATHS: dict[str, Callable[[Any], object]] = {
    "Session": triune.Session,
    "compile": lambda path: triune.compile(path, target="metis", output="nowhere"),
    "compile to": lambda path: triune.compile(DIGITS_INT8, target="metis", output=path),
    "LiteNetwork.load": lambda path: LiteNetwork().load(path),
    "Context.load_model": lambda path: Context().load_model(path),
    "CreateFromJsonFile": xir.Network.CreateFromJsonFile,
}


@pytest.mark.parametrize("path", ["x" * 10**6, "/a" * 10**6, "a b " * 10**5, "na\0me", "ü\n\u202e" * 300], ids=len)
@pytest.mark.parametrize("call", PATHS.values(), ids=PATHS.keys())
def test_what_is_no_path_gives_a_short_message(call: Callable[[Any], object], path: str) -> None:
    with pytest.raises((errors.FileError, xir.Error, InvalidArgument, RuntimeError, FileNotFoundError)) as raised:
        call(path)
    assert not isinstance(raised.value, errors.InternalError)
    assert len(str(raised.value).encode()) < 2000
    if isinstance(raised.value, OSError):
        assert len(path) < 1000


@pytest.mark.parametrize("call", [PATHS["LiteNetwork.load"], PATHS["Context.load_model"], PATHS["CreateFromJsonFile"]])
def test_a_model_instead_of_a_path_gives_a_short_message(call: Callable[[Any], object]) -> None:
    with pytest.raises(Exception) as raised:  # noqa: PT011 - vendors differ in the class
        call(DIGITS_INT8.read_bytes())
    assert len(str(raised.value).encode()) < 2000


def test_long_names_are_shown_by_their_ends() -> None:
    model = onnx.load(DIGITS_INT8)
    name = "first" + "n" * 10**5 + "last"
    node = next(node for node in model.graph.node if node.op_type == "Conv")
    node.name = name
    node.attribute.append(helper.make_attribute("auto_pad", "SIDEWAYS"))
    with pytest.raises(
        errors.UnsupportedError, match=r"node 'firstn+…\(100009 characters\)…n+last' \(Conv\): .*auto_pad"
    ) as raised:
        triune.Session(model.SerializeToString())
    assert raised.value.node == name
    assert len(str(raised.value)) < 600
