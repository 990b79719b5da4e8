"""Memory: what there is none of is an error and the process goes on; what a model costs to load is in proportion to its file."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import triune
from triune import _native

pytest.importorskip("resource", reason="limits of a process are POSIX's")

MODELS = """
import os, resource, sys, traceback
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
import triune

def model(nodes, shapes, constants=()):
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    outputs = [helper.make_tensor_value_info("y", TensorProto.UNDEFINED, None)]
    tensors = [numpy_helper.from_array(array, name) for name, array in dict(constants).items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors)
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()

node, f32, i64 = helper.make_node, np.float32, np.int64
"""

RUN = """
def status(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(name))

def answer(room):
    limit = status("VmSize:") + room
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    try:
        (y,) = triune.Session(data).run(feeds)
    except MemoryError as error:
        assert any(word.isdigit() for word in str(error).replace("bytes", " ").split()) or not str(error), error
        return 3
    assert y.shape == shape and y.flat[0] == first and y.flat[-1] == first, (y.shape, y.flat[0])
    return 0

# A process for each, all of which have the modules and the model from this one, that never ran anything.
for room in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        try:
            code = answer(int(room) << 20)
        except BaseException:
            traceback.print_exc()
            code = 1
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""

# Each needs some hundred megabytes in another place: feature maps, constants, weights, results, scratch.
CASES = {
    "expand": """
data = model([node("Expand", ["x", "s"], ["y"])], {"x": [1]}, {"s": np.array([1 << 26], i64)})
feeds, shape, first = {"x": np.full(1, 3, f32)}, (1 << 26,), 3
""",
    "constants": """
constants = {"c": np.ones(1 << 24, f32)}
data = model([node("Add", ["x", "c"], ["y"])], {"x": [1]}, constants)
feeds, shape, first = {"x": np.full(1, 3, f32)}, (1 << 24,), 4
""",
    "doubling": """
nodes = [node("Concat", [f"v{i}", f"v{i}"], [f"v{i + 1}"], axis=0) for i in range(16)]
nodes.append(node("Mul", ["x", "v16"], ["y"]))
data = model(nodes, {"x": [1]}, {"v0": np.ones(256, f32)})
feeds, shape, first = {"x": np.full(1, 3, f32)}, (1 << 24,), 3
""",
    "resize": """
scales = {"s": np.array([1, 1, 1500, 1500], f32)}
data = model([node("Resize", ["x", "", "s"], ["y"], mode="nearest")], {"x": [1, 1, 4, 4]}, scales)
feeds, shape, first = {"x": np.full((1, 1, 4, 4), 3, f32)}, (1, 1, 6000, 6000), 3
""",
    "weights": """
constants = {"w": np.ones((2048, 2048), f32), "b": np.ones(2048, f32)}
data = model([node("Gemm", ["x", "w", "b"], ["y"], transB=1)], {"x": [1, 2048]}, constants)
feeds, shape, first = {"x": np.ones((1, 2048), f32)}, (1, 2048), 2049
""",
    "convolution": """
constants = {"w": np.ones((512, 512, 3, 3), f32)}
data = model([node("Conv", ["x", "w"], ["y"])], {"x": [1, 512, 3, 3]}, constants)
feeds, shape, first = {"x": np.ones((1, 512, 3, 3), f32)}, (1, 512, 1, 1), 512 * 9
""",
    "product": """
data = model([node("MatMul", ["x", "z"], ["y"])], {"x": [4096, 1], "z": [1, 4096]})
feeds, shape, first = {"x": np.ones((4096, 1), f32), "z": np.ones((1, 4096), f32)}, (4096, 4096), 1
""",
    "halves": """
constants = {"c": np.ones(1 << 24, np.float16)}
nodes = [node("Cast", ["c"], ["w"], to=TensorProto.FLOAT), node("Add", ["x", "w"], ["y"])]
data = model(nodes, {"x": [1]}, constants)
feeds, shape, first = {"x": np.full(1, 3, f32)}, (1 << 24,), 4
""",
    "found": """
nodes = [node("NonZero", ["x"], ["i"]), node("Cast", ["i"], ["y"], to=TensorProto.FLOAT)]
data = model(nodes, {"x": ["n"]})
feeds, shape, first = {"x": np.eye(1, 1 << 22, dtype=f32)[0]}, (1, 1), 0
""",
}


@pytest.mark.parametrize("case", CASES)
def test_a_process_without_memory_gets_an_error_and_goes_on(case: str) -> None:
    rooms = (48, 96, 144, 224, 320, 448, 768, 4096)
    command = [sys.executable, "-c", MODELS + CASES[case] + RUN, *map(str, rooms)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr[-2000:]
    codes = [int(code) for code in result.stdout.split()]
    assert len(codes) == len(rooms)
    assert set(codes) <= {0, 3}, (codes, result.stderr[-2000:])
    assert codes[-1] == 0, codes
    assert 3 in codes, codes


class Liar(Sequence[Any]):
    """A sequence that says that it is long."""

    def __len__(self) -> int:
        return 2**62

    def __getitem__(self, index: Any) -> Any:
        raise IndexError(index)


@pytest.mark.parametrize("many", [range(2**45), Liar()], ids=["range", "liar"])
def test_lists_that_no_memory_holds_are_refused(many: Any) -> None:
    array = np.zeros((1, 2), np.float32)
    calls: Sequence[Callable[[], object]] = (
        lambda: _native.xir_format_array("scales", 0, many),
        lambda: _native.xir_format_merged_distr(many, None, []),
        lambda: _native.quantize_pad(array, many, 1.0, 0, "int8"),
        lambda: _native.pack_model("a", b"", info=many),
        lambda: _native.compose(many, horizon=1),
    )
    for call in calls:
        with pytest.raises(MemoryError):
            call()


def test_texts_are_no_lists() -> None:
    with pytest.raises(TypeError, match="list"):
        _native.xir_format_merged_distr("12", None, [])  # type: ignore[arg-type]


LOAD = """
def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM:"))

small = model([node("Relu", ["x"], ["y"])], {"x": [1]})
triune.Session(small).run({"x": np.ones(1, f32)})
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")
before = peak()
session = triune.Session(data)
print(len(data), peak() - before)
(y,) = session.run({"x": np.full(1, 2, f32)})
assert y.flat[0] == first and y.flat[-1] == first, y
"""

# A file of half a megabyte, or of a kilobyte, with values in it that would take hundreds of megabytes.
FOLDED = {
    "products": """
nodes = [node("Mul", ["w", "w"], [f"v{i}"]) for i in range(3000)]
nodes += [node("Add", ["x" if i == 0 else f"s{i}", f"v{i}"], ["y" if i == 2999 else f"s{i + 1}"]) for i in range(3000)]
data, first = model(nodes, {"x": [1]}, {"w": np.ones(1 << 16, f32)}), 3002
""",
    "doubling": """
nodes = [node("Concat", [f"v{i}", f"v{i}"], [f"v{i + 1}"], axis=0) for i in range(18)]
nodes += [node("ReduceMax", ["v18"], ["m"], keepdims=0), node("Mul", ["x", "m"], ["y"])]
data, first = model(nodes, {"x": [1]}, {"v0": np.ones(256, f32)}), 2
""",
    "a chain": """
nodes = [node("Mul", [f"v{i}", f"v{i}"], [f"v{i + 1}"]) for i in range(2000)]
nodes.append(node("Add", ["x", "v2000"], ["y"]))
data, first = model(nodes, {"x": [1]}, {"v0": np.ones(1 << 16, f32)}), 3
""",
}


@pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="Linux says how much memory a process had at most"
)
@pytest.mark.parametrize("case", FOLDED)
def test_loading_takes_memory_in_proportion_to_the_file(case: str) -> None:
    program = MODELS + FOLDED[case] + LOAD
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr[-2000:]
    size, taken = map(int, result.stdout.split())
    assert taken <= 4 * size + (64 << 20), f"{taken} bytes for a file of {size}"


def test_arrays_that_no_memory_holds_are_refused() -> None:
    array = np.zeros((1, 2), np.float32)
    with pytest.raises(MemoryError):
        _native.quantize_pad(array, [(0, 1 << 30), (0, 1 << 20)], 1.0, 0, "int8")


FILES = """
import os, resource, sys, tempfile
from pathlib import Path
from triune import _native

size = 64 << 20
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "large"
    path.write_bytes(bytes(size))
    for room in range(16, 160, 16):
        with open("/proc/self/status") as file:
            used = next(int(line.split()[1]) << 10 for line in file if line.startswith("VmSize:"))
        resource.setrlimit(resource.RLIMIT_AS, (used + (room << 20), -1))
        try:
            found = "all" if len(_native.read_file(str(path), 1 << 30)) == size else "short"
        except MemoryError:
            found = "none"
        print(found)
"""


def test_a_file_that_no_memory_holds_twice_is_refused() -> None:
    done = subprocess.run([sys.executable, "-c", FILES], capture_output=True, text=True, check=True)
    found = done.stdout.split()
    assert (found[0], found[-1]) == ("none", "all"), found
    assert found == sorted(found, reverse=True), found


def test_a_number_is_not_written_out_for_a_long_axis() -> None:
    """A constant that is the same for every channel: of an axis that no memory holds, there are none."""
    program = """
import sys, triune
try:
    triune.Session(sys.stdin.buffer.read())
except (MemoryError, triune.errors.UnsupportedError):
    print("refused")
"""
    shape = [1, 1 << 40, 3, 5]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Mul", ["m", "c"], ["y"]),
    ]
    tensors = {"w": np.ones((5, 2), np.float32), "c": np.ones(1, np.float32)}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [*shape[:3], 2])],
        [numpy_helper.from_array(array, name) for name, array in tensors.items()],
    )
    data = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9).SerializeToString()
    done = subprocess.run([sys.executable, "-c", program], input=data, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, b"refused\n"), done.stderr


def test_lists_that_operators_lay_out_have_a_bound() -> None:
    """Random numbers, ranges, windows: a file that asks for them is as small as ever."""
    shape = [1 << 24]
    names = [f"y{index}" for index in range(5)]
    nodes = [helper.make_node("RandomNormal", [], [name], shape=shape, seed=1.0) for name in names]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in names]
    graph = helper.make_graph(nodes, "g", [], outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(triune.errors.UnsupportedError, match="lay out have more than 67108864 elements"):
        triune.Session(model.SerializeToString())
