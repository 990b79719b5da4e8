"""Networks of few operators between quantizers: a board gives what the host gives for the network, and the model does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from beside import load as load_beside

import triune
from triune import errors
from triune.icraft.host_backend import HostBackend
from triune.icraft.xir import Layout, Network
from triune.icraft.xrt import HostDevice, Session, Tensor

onnx = pytest.importorskip("onnx")
npu = load_beside(__file__, "npu_networks")

Array = npt.NDArray[Any]
# A step of the input's quantizer is exact in binary, so that fixed-point factors are what scales are.
HEAD = "a=QuantizeLinear(x,sx,zx) b=DequantizeLinear(a,sx,zx)"
TAIL = "q=QuantizeLinear(c,sy,zy) y=DequantizeLinear(q,sy,zy)"


def write(
    folder: Path,
    body: str,
    shape: tuple[int, ...],
    scales: tuple[float, float] = (0.25, 0.25),
    zeros: tuple[Any, Any] = (np.int8(0), np.int8(0)),
    **constants: Any,
) -> Path:
    """Write a model of the float operators `body`, from `b` to `c`, between quantizers."""
    symbols = ",".join("MNPQ"[: len(shape)])
    text = f"""<ir_version: 9, opset_import: ["" : 20]>
    net (float[{",".join(map(str, shape))}] x) => (float[{symbols}] y) {{ {HEAD} {body} {TAIL} }}"""
    model = onnx.parser.parse_model(text)
    given = {"sx": np.float32(scales[0]), "zx": zeros[0], "sy": np.float32(scales[1]), "zy": zeros[1], **constants}
    model.graph.initializer.extend(onnx.numpy_helper.from_array(np.asarray(one), name) for name, one in given.items())
    onnx.save(model, folder / "net.onnx")
    return folder / "net.onnx"


def weights(name: str, array: Array, scale: float = 0.02) -> tuple[str, dict[str, Any]]:
    """Return the node that makes a quantized matrix's reals, and its constants."""
    constants = {f"{name}q": array.astype(np.int8), f"{name}s": np.float32(scale)}
    return f"{name}=DequantizeLinear({name}q,{name}s)", constants


def forward(session: Session, network: Network, x: Array) -> Array:
    """Return what a session makes of an input in the model's order of axes, in that order."""
    session.apply()
    last = "NHWC" in str(network.view(0).inputs()[0].tensorType().layout)
    if last:
        given = Tensor(np.ascontiguousarray(x.transpose(0, 2, 3, 1)), Layout("NHWC"))
    else:
        given = Tensor(np.ascontiguousarray(x), Layout("*" * (x.ndim - 1) + "C"))
    (result,) = session.forward([given])
    made = np.array(result.to(HostDevice.MemRegion()))
    return made.transpose(0, 3, 1, 2) if "NHWC" in str(result.dtype().layout) else made


def on_both(file: Path, target: str, x: Array) -> tuple[Array, Array]:
    """Return what a board and what the host gives."""
    folder = file.parent / target
    triune.compile(file, target=target, output=folder, format="icraft")
    compiled, adapted = npu.load(folder, npu.SUFFIXES[target]), npu.load(folder, "adapted")
    board = forward(npu.session(target, compiled.view(0)), compiled, x)
    host = Session.Create([HostBackend], adapted.view(0), [HostDevice.Default()])
    return board, forward(host, adapted, x)


def check(file: Path, target: str, shape: tuple[int, ...], *, exact: bool = True, size: float = 5.0) -> None:
    """Compare what a board, the host and a session of the model give."""
    session = triune.Session(file)
    for seed in range(3):
        x = (np.random.default_rng(seed).standard_normal(shape) * size).astype(np.float32)
        board, host = on_both(file, target, x)
        np.testing.assert_array_equal(board, host)
        if exact:
            (expected,) = session.run({"x": x})
            np.testing.assert_array_equal(board, expected)


TARGETS = sorted(npu.URLS)
WITHOUT_CONSTANTS = {
    "MaxPool": "c=MaxPool<kernel_shape=[2,2]>(b)",
    "AveragePool": "c=AveragePool<kernel_shape=[2,2]>(b)",
    "Reshape": "c=Reshape(b,to)",
    "Transpose": "c=Transpose<perm=[0,1,3,2]>(b)",
    "GlobalAveragePool": "c=GlobalAveragePool(b)",
    "Concat": "c=Concat<axis=1>(b,b)",
    "Slice": "c=Slice(b,one,three,two)",
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", sorted(WITHOUT_CONSTANTS))
def test_networks_without_constants(kind: str, target: str, tmp_path: Path) -> None:
    shape = (1, 16, 4, 4)
    lists = {"to": [1, 16, 2, 8], "one": [1], "two": [2], "three": [3]}
    constants = {name: np.array(one, np.int64) for name, one in lists.items()}
    file = write(tmp_path, WITHOUT_CONSTANTS[kind], shape, **constants)
    check(file, target, shape)


@pytest.mark.parametrize("target", TARGETS)
def test_one_byte(target: str, tmp_path: Path) -> None:
    file = write(tmp_path, "c=Transpose<perm=[0,2,1]>(b)", (1, 1, 1))
    x = np.float32([[[0.5]]])
    for found in on_both(file, target, x):
        np.testing.assert_array_equal(found, x)


MATRIX = np.random.default_rng(0).integers(-9, 9, (3, 4))
BEHIND = {
    "Conv and Gelu": "g=Conv(f,w) c=Gelu(g)",
    "MatMul and Add": "g=MatMul(f,m) c=Add(g,bias)",
    "Pad": 'c=Pad<mode="wrap">(f,pads)',
    "a product behind it": "g=Conv(f,w) h=Gelu(g) i=QuantizeLinear(h,sy,zy) j=DequantizeLinear(i,sy,zy) c=Conv(j,v)",
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("behind", sorted(BEHIND))
@pytest.mark.parametrize("middle", [(1.0, np.int8(5)), (0.1875, np.int8(-100))], ids=["coarse", "saturates"])
def test_quantizers_behind_reorderings(behind: str, middle: tuple[float, Any], target: str, tmp_path: Path) -> None:
    shape = (2, 4, 4, 4)
    reordered = "m0=Transpose<perm=[0,3,2,1]>(b) e=QuantizeLinear(m0,sm,zm) f=DequantizeLinear(e,sm,zm) "
    nodes, constants = [], dict[str, Any]()
    given = {"w": MATRIX.reshape(3, 4, 1, 1), "m": MATRIX.T, "v": np.full((3, 3, 1, 1), 40)}
    for name, array in given.items():
        if f",{name})" in BEHIND[behind]:
            node, own = weights(name, array)
            nodes.append(node)
            constants |= own
    constants |= {"sm": np.float32(middle[0]), "zm": middle[1], "bias": np.float32([0.1, 0.2, 0.3])}
    constants["pads"] = np.array([0, 0, 1, 0, 0, 1, 0, 0], np.int64)
    file = write(tmp_path, " ".join([*nodes, reordered, BEHIND[behind]]), shape, (0.25, 0.2), **constants)
    check(file, target, shape, exact=target == "zg330" or "product" not in behind)


SUMS = {
    "Mul": "m=Mul(b,b) c=Relu(m)",
    "Add": "m=Add(b,b) c=Relu(m)",
    "Sub": "k=DequantizeLinear(kq,ks) m=Sub(b,k) c=Relu(m)",
    "Clip": "k=DequantizeLinear(kq,ks) m=Add(b,k) c=Clip(m,low,high)",
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("zero", [-128, -20])
@pytest.mark.parametrize("kind", sorted(SUMS))
def test_limits_behind_sums(kind: str, zero: int, target: str, tmp_path: Path) -> None:
    shape = (1, 33, 9, 4)
    constants = {"kq": np.int8(77), "ks": np.float32(0.0023), "low": np.float32(0), "high": np.float32(6)}
    scales = (0.0025100675, 0.00048828125 if kind == "Mul" else 0.0017439362)
    file = write(tmp_path, SUMS[kind], shape, scales, (np.int8(20), np.int8(zero)), **constants)
    check(file, target, shape, exact=target == "zg330", size=0.3)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["ReduceMean", "ReduceMax", "ReduceMin", "ReduceSum"])
@pytest.mark.parametrize("axes", [[0, 2, 3], [3], [1], [1, 3], [0, 1, 2, 3], [2]], ids=str)
@pytest.mark.parametrize("keep", [0, 1])
def test_reductions(axes: list[int], kind: str, keep: int, target: str, tmp_path: Path) -> None:
    shape = (2, 33, 2, 4)
    if not keep and len(axes) == 4:
        pytest.skip("a scalar has no axis to be quantized along")
    # An operator that the accelerator has in any case in front.
    body = f"h=Neg(b) i=QuantizeLinear(h,sx,zx) j=DequantizeLinear(i,sx,zx) c={kind}<keepdims={keep}>(j,axes)"
    rank = len(shape) if keep else len(shape) - len(axes)
    scales = (0.25, 4.0 if kind == "ReduceSum" else 0.25)
    file = write(tmp_path, body, shape, scales, axes=np.array(axes, np.int64))
    model = onnx.load(file)
    del model.graph.output[0].type.tensor_type.shape.dim[rank:]
    onnx.save(model, file)
    check(file, target, shape, exact=target == "zg330")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("rows", [16, 17, 32])
def test_products_of_one_column(rows: int, target: str, tmp_path: Path) -> None:
    shape = (1, rows, 1, 7)
    node, constants = weights("w", np.array([[5], [41], [-6], [44], [0], [55], [127]]), 2.0**-7)
    file = write(tmp_path, f"{node} c=MatMul(b,w)", shape, (2.0**-6, 2.0**-5), **constants)
    check(file, target, shape, size=1.0)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("product", ["MatMul(e,v)", "MatMul(v,e)"])
@pytest.mark.parametrize("shape", [(2, 3, 7, 7), (3, 7, 7), (7, 7)])
def test_products_with_a_vector(shape: tuple[int, ...], product: str, target: str, tmp_path: Path) -> None:
    """Behind one with a matrix, which the device computes."""
    node, constants = weights("w", np.random.default_rng(3).integers(-127, 128, (7, 7)), 2.0**-7)
    constants["v"] = np.arange(7, dtype=np.float32)
    body = f"{node} d=MatMul(b,w) p=QuantizeLinear(d,sx,zx) e=DequantizeLinear(p,sx,zx) c={product}"
    model = onnx.load(write(tmp_path, body, shape, (2.0**-6, 2.0**-5), **constants))
    del model.graph.output[0].type.tensor_type.shape.dim[-1]
    onnx.save(model, tmp_path / "net.onnx")
    check(tmp_path / "net.onnx", target, shape, exact=False, size=1.0)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("start", [5, 3, -1])
def test_slices_that_run_backwards(start: int, target: str, tmp_path: Path) -> None:
    shape = (1, 8, 1, 1)
    lists = {"starts": [start], "ends": [-(2**40)], "axes": [1], "steps": [-1]}
    constants = {name: np.array(one, np.int64) for name, one in lists.items()}
    check(write(tmp_path, "c=Slice(b,starts,ends,axes,steps)", shape, **constants), target, shape)


def test_means_without_a_factor(tmp_path: Path) -> None:
    """No multiplier of buyi's has a mean's quotient of scales: the node is named when the model is compiled."""
    file = write(tmp_path, "c=GlobalAveragePool(b)", (1, 5, 7, 8), (0.0077, 5.2e-8))
    model = onnx.load(file)
    next(node for node in model.graph.node if node.op_type == "GlobalAveragePool").name = "all"
    onnx.save(model, file)
    with pytest.raises(
        errors.UnsupportedError, match=r"node 'all' \(GlobalAveragePool\): a multiplier of .* at most 255"
    ):
        triune.compile(file, target="buyi", output=tmp_path / "buyi", format="icraft")
    check(file, "zg330", (1, 5, 7, 8))


def test_sixteen_bits_without_a_product(tmp_path: Path) -> None:
    """The model is quantized: what is said is why the accelerator runs none of it."""
    file = write(
        tmp_path,
        "c=RMSNormalization<axis=-1>(b,row)",
        (1, 3, 9, 8),
        (1e-3, 1e-3),
        (np.int16(0), np.int16(0)),
        row=np.ones(8, np.float32),
    )
    model = onnx.load(file)
    model.opset_import[0].version = 23
    onnx.save(model, file)
    with pytest.raises(
        errors.Error,
        match=r"quantized to 16 bits, and the device runs none of its operators: node .* \(RMSNormalization\): ",
    ):
        triune.compile(file, target="buyi", output=tmp_path / "buyi", format="icraft")
