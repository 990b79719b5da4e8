"""Operators at the extents that deployed networks have, by family: what `bench_operators.py` measures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import onnx

Array = npt.NDArray[Any]
MICROSOFT = "com.microsoft"


class Case(NamedTuple):
    """A model of one node, or of one of networks within, and what a run of it is given."""

    family: str
    name: str
    model: bytes
    feeds: Mapping[str, Array]


def reals(*shape: int, low: float = -2, high: float = 2, dtype: Any = np.float32) -> Array:
    """Return uniform numbers, the same for the same shape."""
    rng = np.random.default_rng(sum(shape) + len(shape))
    return np.asarray(rng.uniform(low, high, shape)).astype(dtype)


def whole(*shape: int, low: int = 0, high: int = 256, dtype: Any = np.int64) -> Array:
    """Return uniform whole numbers from `low` on and below `high`."""
    return np.random.default_rng(sum(shape)).integers(low, high, shape).astype(dtype)


def ints(*values: int) -> Array:
    """Return them as int64."""
    return np.array(values, np.int64)


def scalar(value: float, dtype: Any = np.float32) -> Array:
    """Return an array without axes."""
    return np.array(value, dtype)


def extents(arrays: Sequence[Array | None]) -> str:
    """Return the first two operands' shapes for the table."""
    given = [array for array in arrays if array is not None]
    return " ".join("×".join(map(str, array.shape)) or "1" for array in given[:2])


def node(
    family: str,
    op: str,
    *operands: Array | None,
    known: Sequence[int] = (),
    outputs: int = 1,
    version: int = 21,
    domain: str = "",
    title: str = "",
    **attributes: Any,
) -> Case:
    """Return a case of one node; the operands at the places `known` are in the file, the others fed."""
    helper = onnx.helper
    names = ["" if array is None else f"x{index}" for index, array in enumerate(operands)]
    given = [(name, array) for name, array in zip(names, operands, strict=True) if array is not None]
    fixed = {f"x{index}" for index in known}
    results = [f"y{index}" for index in range(outputs)]
    graph = helper.make_graph(
        [helper.make_node(op, names, results, domain=domain, **attributes)],
        op,
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in given
            if name not in fixed
        ],
        [onnx.ValueInfoProto(name=name) for name in results],
        [onnx.numpy_helper.from_array(array, name) for name, array in given if name in fixed],
    )
    imports = [helper.make_opsetid("", version), helper.make_opsetid(MICROSOFT, 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    first = next(array for _, array in given)
    kind = "" if first.dtype == np.float32 else f"{first.dtype} "
    return Case(
        family,
        " ".join(part for part in (op, title, kind + extents(operands)) if part),
        model.SerializeToString(),
        {name: array for name, array in given if name not in fixed},
    )


def text(family: str, name: str, body: str, **feeds: Array) -> Case:
    """Return a case of a network in ONNX's text form, opset 18."""
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]>\n{body}')
    return Case(family, name, model.SerializeToString(), feeds)


def normalizations() -> Iterator[Case]:
    """Layers over means and squares."""
    case = partial(node, "normalization")
    tokens, wide = reals(1, 128, 768), reals(768)
    yield case("LayerNormalization", tokens, wide, wide, known=(1, 2), axis=-1)
    yield case("LayerNormalization", reals(8, 197, 384), reals(384), reals(384), known=(1, 2), axis=-1)
    yield case("LayerNormalization", reals(1, 1, 768), wide, wide, known=(1, 2), axis=-1)
    yield case("SkipLayerNormalization", tokens, tokens, wide, wide, known=(2, 3), domain=MICROSOFT)
    yield case("RMSNormalization", reals(1, 128, 2048), reals(2048), known=(1,), version=23)
    yield case("InstanceNormalization", reals(1, 32, 128, 128), reals(32), reals(32), known=(1, 2))
    yield case("GroupNormalization", reals(1, 64, 56, 56), reals(64), reals(64), known=(1, 2), num_groups=32)
    yield case("BatchNormalization", reals(1, 64, 56, 56), *[reals(64, low=0.5)] * 4, known=(1, 2, 3, 4))
    yield case("LRN", reals(1, 96, 27, 27), size=5)
    yield case("MeanVarianceNormalization", reals(1, 3, 224, 224))
    yield case("LpNormalization", reals(256, 512), axis=-1, p=2)


def convolutions() -> Iterator[Case]:
    """Transposed convolutions, and plain ones in other than two dimensions."""
    case = partial(node, "convolution", known=(1, 2))
    two = {"strides": [2, 2]}
    yield case("ConvTranspose", reals(1, 64, 80, 80), reals(64, 64, 2, 2), reals(64), **two)
    yield case("ConvTranspose", reals(1, 128, 32, 32), reals(128, 64, 4, 4), reals(64), pads=[1] * 4, **two)
    yield case("ConvTranspose", reals(1, 24, 160, 160), reals(24, 1, 2, 2), reals(1), **two)
    yield case("ConvTranspose", reals(1, 256, 200), reals(256, 128, 16), reals(128), strides=[8], pads=[4, 4])
    yield case("ConvTranspose", reals(1, 16, 16, 16, 16), reals(16, 8, 2, 2, 2), reals(8), strides=[2, 2, 2])
    yield case("ConvTranspose", reals(1, 32, 64, 64), reals(32, 1, 4, 4), reals(32), group=32, pads=[1] * 4, **two)
    yield case("Conv", reals(1, 128, 400), reals(128, 128, 3), reals(128), pads=[1, 1])
    yield case("Conv", reals(1, 256, 400), reals(256, 1, 31), reals(256), pads=[15, 15], group=256)
    for channels, groups in ((64, 32), (128, 32), (256, 32), (96, 96)):
        weights = reals(channels, channels // groups, 3, 3)
        yield case("Conv", reals(1, channels, 56, 56), weights, reals(channels), pads=[1] * 4, group=groups)
    for channels, results, side in ((48, 96, 3), (16, 64, 5)):
        weights = reals(results, 1, side, side)
        pads = [side // 2] * 4
        yield case("Conv", reals(1, channels, 56, 56), weights, reals(results), pads=pads, group=channels)
    yield case("Conv", reals(1, 8, 16, 32, 32), reals(16, 8, 3, 3, 3), reals(16), pads=[1] * 6)
    yield case("Conv", reals(1, 32, 56, 56), reals(32, 32, 3, 3), reals(32), pads=[2] * 4, dilations=[2, 2])
    yield case(
        "Conv", reals(1, 32, 56, 56), reals(32, 32, 3, 3), reals(32), known=(), title="weights fed", pads=[1] * 4
    )


def activations() -> Iterator[Case]:
    """Functions of one tensor."""
    case = partial(node, "activation")
    x = reals(1, 128, 3072)
    for op in ("Relu", "LeakyRelu", "Elu", "Selu", "Celu", "ThresholdedRelu", "Sigmoid", "HardSigmoid", "Tanh"):
        yield case(op, x)
    for op in ("Softplus", "Softsign", "Erf", "Exp", "Sin", "Mish", "HardSwish", "Round", "Floor"):
        yield case(op, x)
    for op in ("Log", "Sqrt", "Reciprocal"):
        yield case(op, np.abs(x) + np.float32(0.1))
    yield case("Swish", x, version=24)
    yield case("Gelu", x)
    yield case("Gelu", x, title="tanh", approximate="tanh")
    yield case("FastGelu", x, domain=MICROSOFT)
    yield case("QuickGelu", x, domain=MICROSOFT)
    yield case("BiasGelu", x, reals(3072), known=(1,), domain=MICROSOFT)
    yield case("PRelu", reals(1, 64, 80, 80), reals(64, 1, 1), known=(1,))
    yield case("Softmax", reals(12, 128, 128), axis=-1)
    yield case("Softmax", reals(1, 21, 128, 128), axis=1)
    yield case("LogSoftmax", reals(40, 6625), axis=-1)
    yield case("Clip", x, scalar(0), scalar(1), known=(1, 2))


def arithmetic() -> Iterator[Case]:
    """Functions of two tensors, and conversions."""
    case = partial(node, "arithmetic")
    x, y = reals(1, 64, 80, 80), reals(1, 64, 80, 80, low=0.5, high=3)
    for op in ("Add", "Mul", "Div", "Min"):
        yield case(op, x, y)
    yield case("Add", x, reals(64, 1, 1))
    yield case("Mul", x, reals(1, 1, 80, 1))
    yield case("Pow", y, scalar(2), known=(1,))
    yield case("Pow", y, x)
    yield case("Greater", x, y)
    yield case("Where", x > 0, x, y)
    yield case("Mod", x, y, fmod=1)
    numbers, others = whole(1, 200_000, high=1000), whole(1, 200_000, low=1, high=60)
    for op in ("Add", "Mul", "Div", "Mod"):
        yield case(op, numbers, others)
    yield case("Equal", numbers, others)
    yield case("And", x > 0, y > 1)
    yield case("Not", x > 0)
    yield case("BitwiseAnd", whole(200_000, dtype=np.int32), whole(200_000, dtype=np.int32))
    yield case("BitShift", whole(200_000, dtype=np.uint32), whole(200_000, high=9, dtype=np.uint32), direction="LEFT")
    yield case("Cast", x, title="to float16", to=10)
    yield case("Cast", x.astype(np.float16), title="to float32", to=1)
    yield case("Cast", x, title="to int64", to=7)
    yield case("Cast", x, title="to bool", to=9)
    yield case("Cast", whole(1, 3, 320, 320, dtype=np.uint8), title="to float32", to=1)
    yield case("IsNaN", x)


def reductions() -> Iterator[Case]:
    """Sums and extremes over axes."""
    case = partial(node, "reduction", known=(1,))
    for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceL2", "ReduceProd", "ReduceLogSumExp"):
        yield case(op, reals(1, 128, 768), ints(-1), title="last")
    yield case("ReduceMean", reals(1, 256, 28, 28), ints(2, 3), title="space")
    for op in ("ReduceMean", "ReduceMax"):
        yield case(op, reals(1, 2048, 7, 7), ints(2, 3), title="space")
    for op in ("ReduceSum", "ReduceMax"):
        yield case(op, reals(1, 64, 56, 56), ints(-1), title="short rows")
    yield case("ReduceSum", reals(1, 256, 28, 28), ints(1), title="channels")
    yield case("ReduceMax", reals(1, 128, 768), ints(1), title="tokens")
    yield case("ReduceMax", reals(1500, 20, 32), ints(1), title="middle")
    yield case("ReduceSum", reals(8, 3, 4096), ints(1), title="middle")
    yield case("ReduceSum", whole(512, 1000), ints(0), title="first")
    yield case("ArgMax", reals(40, 6625), axis=-1)
    yield case("ArgMax", reals(1, 21, 128, 128), axis=1)
    yield case("ArgMax", reals(1, 64, 400, 8), axis=-1)


def indices() -> Iterator[Case]:
    """Elements by index."""
    case = partial(node, "index")
    table, words = reals(30_522, 256), whole(1, 128, high=30_000)
    yield case("Gather", table, words, known=(0,))
    yield case("Gather", reals(1, 12, 128, 64), ints(0), known=(1,), axis=2)
    yield case("Gather", reals(1, 12, 128, 64), whole(32, high=64), axis=3)
    yield case("GatherElements", reals(64, 4096), whole(64, 512, high=4096), axis=1)
    yield case("GatherND", reals(1, 8400, 85), np.stack([np.zeros(1000, np.int64), whole(1000, high=8400)], 1))
    spots = np.stack([np.zeros(500, np.int64), whole(500, high=2048)], 1)
    yield case("ScatterND", reals(1, 2048, 64), spots, reals(500, 64))
    yield case("ScatterND", reals(1, 2048, 64), spots, reals(500, 64), title="add", reduction="add")
    yield case("ScatterElements", reals(64, 1024), whole(64, 256, high=1024), reals(64, 256), axis=1)
    yield case("ScatterElements", reals(64, 1024), whole(64, 256, high=1024), reals(64, 256), axis=1, reduction="add")
    yield case("OneHot", whole(1, 512, high=1000), ints(1000), reals(2), known=(1, 2), axis=-1)
    yield case("Compress", reals(8400, 85), reals(8400) > 1.8, axis=0)
    yield case("ReverseSequence", reals(100, 8, 256), whole(8, low=1, high=100))
    pools = {"ngram_counts": [0, 20], "ngram_indexes": [*range(40)], "pool_int64s": [*range(20), *range(40)]}
    grams = {"min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 0}
    yield case("TfIdfVectorizer", whole(64, 200, high=50, dtype=np.int32), mode="TF", **grams, **pools)


def orders() -> Iterator[Case]:
    """Orders, running sums, and what data decide."""
    case = partial(node, "order")
    yield case("TopK", reals(1, 8400), ints(100), known=(1,), outputs=2)
    yield case("TopK", reals(128, 1000), ints(5), known=(1,), outputs=2)
    yield case("TopK", reals(1, 64, 400), ints(20), known=(1,), outputs=2, axis=1)
    yield case("CumSum", reals(1, 128, 768), scalar(1, np.int64), known=(1,))
    yield case("CumSum", reals(512, 512), scalar(-1, np.int64), known=(1,))
    yield case("CumSum", whole(1, 4096), scalar(1, np.int64), known=(1,))
    yield case("Unique", whole(10_000, high=500), outputs=4)
    yield case("Unique", np.round(reals(2000, 4)), outputs=1, axis=0)
    yield case("NonZero", reals(1, 256, 256) > 1.5)
    yield case("NonZero", np.maximum(reals(1, 256, 256), 0))
    corners = reals(1, 2000, 2, low=0, high=500)
    boxes = np.concatenate([corners, corners + reals(1, 2000, 2, low=10, high=60)], 2)
    limits = [ints(100), scalar(0.5), scalar(0.3)]
    yield case("NonMaxSuppression", boxes, reals(1, 8, 2000, low=0, high=1), *limits, known=(2, 3, 4))
    yield case("Trilu", reals(1, 512, 512))


def layouts() -> Iterator[Case]:
    """Elements elsewhere."""
    case = partial(node, "layout")
    yield case("Transpose", reals(1, 128, 12, 64), perm=[0, 2, 1, 3])
    yield case("Transpose", reals(1, 12, 128, 64), title="last two", perm=[0, 1, 3, 2])
    yield case("Transpose", reals(1, 64, 80, 80), title="to NHWC", perm=[0, 2, 3, 1])
    yield case("Transpose", whole(1, 320, 320, 3, dtype=np.uint8), title="to NCHW", perm=[0, 3, 1, 2])
    yield case("Concat", reals(1, 64, 80, 80), reals(1, 64, 80, 80), axis=1)
    yield case("Concat", reals(1, 128, 64), reals(1, 128, 64), axis=2)
    yield case("Split", reals(1, 128, 2304), outputs=3, axis=2, num_outputs=3)
    yield case(
        "Slice", reals(1, 3, 640, 640), *[ints(*v) for v in ((0, 1), (640, 640), (2, 3), (2, 2))], known=(1, 2, 3, 4)
    )
    yield case("Slice", reals(1, 256, 300), ints(-1), ints(-1000), ints(2), ints(-1), known=(1, 2, 3, 4))
    for mode in ("constant", "reflect", "edge"):
        yield case("Pad", reals(1, 64, 80, 80), ints(0, 0, 1, 1, 0, 0, 1, 1), known=(1,), title=mode, mode=mode)
    yield case(
        "Pad", reals(1, 64, 80, 80), ints(0, 0, 1, 1, 0, 0, 1, 1), known=(1,), version=19, title="wrap", mode="wrap"
    )
    yield case("Expand", reals(1, 1, 128, 64), ints(1, 16, 128, 64), known=(1,))
    yield case("Tile", reals(1, 64, 64), ints(4, 2, 3), known=(1,))
    yield case("DepthToSpace", reals(1, 256, 40, 40), blocksize=2)
    yield case("DepthToSpace", reals(1, 48, 80, 80), title="CRD", blocksize=4, mode="CRD")
    for channels, side in ((3, 320), (64, 56)):
        yield case("SpaceToDepth", reals(1, channels, side, side), blocksize=2)


def products() -> Iterator[Case]:
    """Products by letters, and of matrices."""
    case = partial(node, "product")
    heads = reals(1, 12, 128, 64)
    yield case("Einsum", heads, heads, title="bhid,bhjd->bhij", equation="bhid,bhjd->bhij")
    yield case("Einsum", reals(8, 128, 64), reals(8, 64, 128), title="bij,bjk->bik", equation="bij,bjk->bik")
    yield case("Einsum", reals(25, 14, 14, 64), reals(14, 14, 64), title="bhwc,hkc->bhwk", equation="bhwc,hkc->bhwk")
    yield case("Einsum", reals(1, 128, 12, 64), reals(12, 64, 768), title="bshd,hde->bse", equation="bshd,hde->bse")
    yield case("MatMul", heads, heads.transpose(0, 1, 3, 2).copy())
    yield case("MatMul", reals(1, 128, 768), reals(768, 768), known=(1,))
    yield case("MatMul", reals(1, 1, 768), reals(768, 3072), known=(1,))
    yield case("Gemm", reals(1, 2048), reals(1000, 2048), reals(1000), known=(1, 2), transB=1)
    yield case("Gemm", reals(64, 256), reals(256, 256), reals(256), title="fed")
    yield case("Det", reals(16, 64, 64))


def sizes() -> Iterator[Case]:
    """Images in other sizes."""
    case = partial(node, "resize", known=(2,), version=19)
    x, by = reals(1, 64, 40, 40), np.array([1, 1, 2, 2], np.float32)
    yield case(
        "Resize", x, None, by, title="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"
    )
    yield case("Resize", x, None, by, title="linear", mode="linear")
    yield case(
        "Resize", x, None, by, title="linear corners", mode="linear", coordinate_transformation_mode="align_corners"
    )
    yield case("Resize", x, None, by, title="cubic", mode="cubic")
    down = np.array([1, 1, 0.35, 0.35], np.float32)
    image = reals(1, 3, 480, 640)
    yield case("Resize", image, None, down, title="linear down", mode="linear")
    yield case("Resize", image, None, down, title="linear antialias", mode="linear", antialias=1)
    yield case("Resize", image, None, down, title="cubic antialias", mode="cubic", antialias=1)
    octets = whole(1, 3, 240, 320, dtype=np.uint8)
    yield case("Resize", octets, None, by, title="linear", mode="linear")
    yield text(
        "resize",
        "Resize of 8 bits linear",
        """quantized (uint8[1, 32, 64, 64] x) => (uint8[1, 32, 128, 128] y)
        <float s = {0.02}, uint8 z = {128}, float[4] by = {1, 1, 2, 2}> {
            reals = DequantizeLinear(x, s, z)
            larger = Resize <mode = "linear"> (reals, , by)
            y = QuantizeLinear(larger, s, z)
        }""",
        x=whole(1, 32, 64, 64, dtype=np.uint8),
    )
    last = np.array([1, 1.5, 1.5, 1], np.float32)
    yield case("Resize", reals(1, 120, 160, 3), None, last, title="linear NHWC", mode="linear")
    yield case(
        "Resize",
        reals(1, 16, 16, 16, 16),
        None,
        np.array([1, 1, 2, 2, 2], np.float32),
        title="linear 3-D",
        mode="linear",
    )
    yield node("resize", "Upsample", x, by, known=(1,), version=9, mode="nearest")


def samples() -> Iterator[Case]:
    """Values between pixels."""
    case = partial(node, "sampling", version=20)
    x, grid = reals(1, 32, 64, 64), reals(1, 64, 64, 2, low=-1.1, high=1.1)
    for mode in ("linear", "nearest", "cubic"):
        yield case("GridSample", x, grid, title=mode, mode=mode)
    yield case("GridSample", x, grid, title="reflection", padding_mode="reflection")
    yield case("GridSample", reals(1, 8, 16, 16, 16), reals(1, 16, 16, 16, 3, low=-1, high=1), title="3-D")
    yield case("AffineGrid", reals(1, 2, 3), ints(1, 3, 128, 128), known=(1,))
    corners = reals(100, 2, low=0, high=400)
    rois = np.concatenate([corners, corners + reals(100, 2, low=20, high=300)], 1)
    square = {"output_height": 7, "output_width": 7, "spatial_scale": 1 / 16}
    yield case("RoiAlign", reals(1, 64, 50, 50), rois, whole(100, high=1), sampling_ratio=2, **square)
    yield case(
        "RoiAlign", reals(1, 64, 50, 50), rois, whole(100, high=1), title="max", mode="max", sampling_ratio=2, **square
    )
    offsets = reals(1, 18, 32, 32)
    yield case("DeformConv", reals(1, 64, 32, 32), reals(64, 64, 3, 3), offsets, known=(1,), pads=[1] * 4)
    yield case("Col2Im", reals(1, 64 * 9, 1024), ints(32, 32), ints(3, 3), known=(1, 2), pads=[1] * 4)


def pools() -> Iterator[Case]:
    """Windows without weights."""
    case = partial(node, "pool", version=21)
    image = reals(1, 64, 112, 112)
    yield case("MaxPool", image, title="3/2", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    yield case("MaxPool", image, title="2/2", kernel_shape=[2, 2], strides=[2, 2])
    yield case("MaxPool", reals(1, 128, 20, 20), title="5/1", kernel_shape=[5, 5], pads=[2] * 4)
    yield case("MaxPool", reals(1, 256, 20, 20), title="13/1", kernel_shape=[13, 13], pads=[6] * 4)
    yield case("MaxPool", reals(1, 3, 128, 128), title="11/1", kernel_shape=[11, 11], pads=[5] * 4)
    yield case("MaxPool", image, title="places", outputs=2, kernel_shape=[2, 2], strides=[2, 2])
    yield case("MaxPool", reals(1, 128, 400), title="1-D", kernel_shape=[2], strides=[2])
    yield case("MaxPool", reals(1, 16, 32, 32, 32), title="3-D", kernel_shape=[2] * 3, strides=[2] * 3)
    yield case("AveragePool", reals(1, 192, 28, 28), title="3/1", kernel_shape=[3, 3], pads=[1] * 4)
    yield case("AveragePool", image, title="2/2", kernel_shape=[2, 2], strides=[2, 2])
    yield case("AveragePool", reals(1, 16, 32, 32, 32), title="3-D", kernel_shape=[2] * 3, strides=[2] * 3)
    yield case("LpPool", image, title="2/2", kernel_shape=[2, 2], strides=[2, 2])
    yield case("GlobalAveragePool", reals(1, 512, 14, 14))
    yield case("GlobalMaxPool", reals(1, 512, 14, 14))
    yield case(
        "MaxUnpool",
        reals(1, 16, 64, 64),
        whole(1, 16, 64, 64, high=16 * 128 * 128),
        kernel_shape=[2, 2],
        strides=[2, 2],
    )


def signals() -> Iterator[Case]:
    """Spectra."""
    case = partial(node, "signal")
    yield case("DFT", reals(1, 1024, 1), version=20, onesided=1)
    yield case("DFT", reals(64, 400, 1), version=20)
    yield case(
        "DFT", reals(16, 512, 2), scalar(512, np.int64), scalar(1, np.int64), known=(1, 2), version=20, inverse=1
    )
    yield case("STFT", reals(1, 16_000, 1), scalar(160, np.int64), reals(400, low=0), known=(1, 2), onesided=1)
    yield case("STFT", reals(1, 16_000, 1), scalar(160, np.int64), reals(512, low=0), known=(1, 2), onesided=1)


def attentions() -> Iterator[Case]:
    """What transformers are fused into."""
    case = partial(node, "attention", version=23)
    heads = reals(1, 12, 128, 64)
    yield case("Attention", heads, heads, heads)
    yield case("Attention", heads, heads, heads, title="causal", is_causal=1)
    yield case("Attention", reals(1, 32, 1, 64), reals(1, 8, 256, 64), reals(1, 8, 256, 64), title="one token")
    packed = reals(1, 197, 384)
    yield case("Attention", packed, packed, packed, q_num_heads=6, kv_num_heads=6)
    past = reals(1, 8, 255, 64)
    yield case("Attention", reals(1, 32, 1, 64), *[reals(1, 8, 1, 64)] * 2, None, past, past, title="cache", outputs=3)
    angles = reals(128, 32)
    places = ints(*range(128)).reshape(1, 128)
    yield case("RotaryEmbedding", heads, angles, angles, places, known=(1, 2, 3))
    yield case("RotaryEmbedding", heads, angles, angles, places, known=(1, 2, 3), title="interleaved", interleaved=1)
    for rows in (1, 32):
        for bits in (4, 8):
            width = 32 * bits // 8
            operands = [reals(rows, 2048), whole(2048, 64, width, dtype=np.uint8), reals(2048 * 64)]
            blocks = {"K": 2048, "N": 2048, "bits": bits, "block_size": 32}
            for level in (0, 4):
                known = {"known": (1, 2), "domain": MICROSOFT, "title": f"{bits} bits, level {level}"}
                yield case("MatMulNBits", *operands, **known, accuracy_level=level, **blocks)


def quantized() -> Iterator[Case]:
    """Integers with scales."""
    case = partial(node, "quantized", domain=MICROSOFT)
    plain = partial(case, domain="")
    x = whole(1, 64, 56, 56, dtype=np.uint8)
    step, middle, low = scalar(0.05), scalar(128, np.uint8), scalar(0, np.int8)
    filters = whole(64, 64, 3, 3, low=-127, high=128, dtype=np.int8)
    own = [step, middle]
    scales = reals(64, low=0.001, high=0.01)
    yield plain("QLinearConv", x, *own, filters, scales, np.zeros(64, np.int8), *own, known=range(1, 8), pads=[1] * 4)
    tokens, matrix = whole(128, 768, dtype=np.uint8), whole(768, 768, low=-127, high=128, dtype=np.int8)
    yield plain("QLinearMatMul", tokens, *own, matrix, step, low, *own, known=range(1, 8))
    yield plain("MatMulInteger", tokens, matrix, known=(1,))
    yield plain("ConvInteger", x, filters.view(np.uint8), known=(1,), pads=[1] * 4)
    yield plain("DynamicQuantizeLinear", reals(128, 768), outputs=3)
    yield plain("QuantizeLinear", reals(1, 64, 56, 56), *own, known=(1, 2))
    yield plain("DequantizeLinear", x, *own, known=(1, 2))
    by_channel = [scales, np.full(64, 3, np.uint8)]
    yield plain("QuantizeLinear", reals(1, 64, 56, 56), *by_channel, known=(1, 2), title="by channel", axis=1)
    yield plain("DequantizeLinear", x, *by_channel, known=(1, 2), title="by channel", axis=1)
    wide = [step, scalar(1000, np.uint16)]
    yield plain("QuantizeLinear", reals(1, 64, 56, 56), *wide, known=(1, 2), version=21, title="to uint16")
    yield plain("DequantizeLinear", whole(1, 64, 56, 56, dtype=np.uint16), *wide, known=(1, 2), version=21)
    yield case("DynamicQuantizeMatMul", reals(128, 768), matrix, step, known=(1, 2))
    yield case("MatMulIntegerToFloat", tokens, matrix, step, step, known=(1, 2, 3))
    yield case("QGemm", whole(64, 512, dtype=np.uint8), *own, whole(512, 1000, low=-127, high=128, dtype=np.int8), step, low,
               None, *own, known=range(1, 9))  # fmt: skip
    yield case("QGemm", whole(64, 512, dtype=np.uint8), *own, whole(512, 1000, low=-127, high=128, dtype=np.int8), step, low,
               known=range(1, 6), title="reals")  # fmt: skip
    for op in ("QLinearAdd", "QLinearMul"):
        yield case(op, x, *own, x, *own, *own, known=(1, 2, 4, 5, 6, 7))
    for op in ("QLinearSigmoid", "QLinearLeakyRelu"):
        yield case(op, x, *own, *own, known=(1, 2, 3, 4))
    yield case("QLinearGlobalAveragePool", x, *own, *own, known=(1, 2, 3, 4))
    yield case("QLinearAveragePool", x, *own, *own, known=(1, 2, 3, 4), kernel_shape=[2, 2], strides=[2, 2])
    yield case("QLinearConcat", *own, x, *own, x, *own, known=(0, 1, 3, 4, 6, 7), axis=1)
    yield case("QLinearSoftmax", whole(128, 1000, dtype=np.uint8), *own, scalar(1 / 256), scalar(0, np.uint8),
               known=(1, 2, 3, 4), axis=-1, opset=13)  # fmt: skip


def recurrences() -> Iterator[Case]:
    """Step after step (`bench_recurrent.py` has more of them)."""
    for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        for steps, batch, inputs, hidden in ((100, 1, 64, 128), (50, 8, 256, 256)):
            weights = [reals(1, gates * hidden, width, low=-0.1, high=0.1) for width in (inputs, hidden)]
            yield node("recurrent", op, reals(steps, batch, inputs), *weights, reals(1, 2 * gates * hidden), known=(1, 2, 3),
                       outputs=2, hidden_size=hidden)  # fmt: skip


def types() -> Iterator[Case]:
    """The same operators on float64 and float16."""
    for dtype, family in ((np.float64, "float64"), (np.float16, "float16")):
        case, of = partial(node, family), partial(reals, dtype=dtype)
        yield case("MatMul", of(1, 128, 768), of(768, 768), known=(1,))
        yield case("Conv", of(1, 32, 56, 56), of(32, 32, 3, 3), of(32), known=(1, 2), pads=[1] * 4)
        yield case("Gemm", of(1, 512), of(1000, 512), of(1000), known=(1, 2), transB=1)
        yield case("Add", of(1, 64, 80, 80), of(64, 1, 1))
        yield case("Mul", of(1, 64, 80, 80), of(1, 64, 80, 80))
        yield case("Relu", of(1, 64, 80, 80))
        yield case("Sigmoid", of(1, 64, 80, 80))
        yield case("Exp", of(1, 64, 80, 80))
        yield case("Softmax", of(12, 128, 128), axis=-1)
        yield case("LayerNormalization", of(1, 128, 768), of(768), of(768), known=(1, 2), axis=-1)
        yield case("ReduceMean", of(1, 128, 768), ints(-1), known=(1,))
        yield case("MaxPool", of(1, 64, 56, 56), kernel_shape=[2, 2], strides=[2, 2])
        yield case("Transpose", of(1, 128, 12, 64), perm=[0, 2, 1, 3])
        yield case("Gather", of(10_000, 256), whole(1, 128, high=10_000), known=(0,))


LOOP = """
counting (int64 rounds, float[64] x) => (float[64] y) {
    goes = Constant <value = bool {1}> ()
    y = Loop (rounds, goes, x) <body = round (int64 i, bool before, float[64] state) => (bool after, float[64] next) {
        after = Identity (before)
        half = Constant <value = float {0.5}> ()
        scaled = Mul (state, half)
        next = Add (scaled, x)
    }>
}
"""
SCAN = """
walking (float[1,64] h, float[100,1,64] x, float[64,64] w) => (float[1,64] last, float[100,1,64] all) {
    last, all = Scan <num_scan_inputs = 1, body = step (float[1,64] state, float[1,64] part)
                      => (float[1,64] next, float[1,64] seen) {
        turned = MatMul (state, w)
        sum = Add (turned, part)
        next = Tanh (sum)
        seen = Identity (next)
    }> (h, x)
}
"""
CHOICE = """
choosing (bool which, float[1,64,40,40] x) => (float[1,64,40,40] y) {
    y = If (which) <then_branch = yes () => (float[1,64,40,40] a) { a = Relu (x) },
                    else_branch = no () => (float[1,64,40,40] b) { b = Sigmoid (x) }>
}
"""


def flows() -> Iterator[Case]:
    """Networks within networks."""
    yield text("control flow", "Loop of 100 rounds, 64", LOOP, rounds=scalar(100, np.int64), x=reals(64))
    yield text("control flow", "Scan of 100 steps, 1×64", SCAN, h=reals(1, 64), x=reals(100, 1, 64),
               w=reals(64, 64, low=-0.1, high=0.1))  # fmt: skip
    for which in (True, False):
        yield text("control flow", f"If {which} 1×64×40×40", CHOICE, which=np.array(which), x=reals(1, 64, 40, 40))


PICTURE = """
prepared (uint8[224,224,3] x, float[3,1,1] mean, float[3,1,1] deviation) => (float[3,224,224] y) {
    real = Cast <to = 1> (x)
    planes = Transpose <perm = [2, 0, 1]> (real)
    centred = Sub (planes, mean)
    y = Div (centred, deviation)
}
"""
TURNED = """
turned (float[1,96,56,56] x, float[1,56,56,96] z) => (float[1,56,56,96] y) {
    turned = Transpose <perm = [0, 2, 3, 1]> (x)
    y = Add (turned, z)
}
"""
PEAKS = """
peaks (float[1,20,64,64] x) => (float[1,20,64,64] y) {
    around = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x)
    same = Equal (around, x)
    mask = Cast <to = 1> (same)
    y = Mul (mask, x)
}
"""
MIXED = """
mixed (float[1,32,32,32] x) => (float[1,32,32,32] y) {
    around = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x)
    y = Sub (around, x)
}
"""
UNSHUFFLED = """
unshuffled (float[1,8,8,2,16,2,16,2] x) => (float[1,8,2,2,2,8,16,16] y) { y = Transpose <perm = [0, 1, 3, 5, 7, 2, 4, 6]> (x) }
"""
GROWING = """
growing (float[1,64] x) => (float[N,64] y) {
    rounds = Constant <value_int = 100> ()
    go = Constant <value = bool {1}> ()
    y = Loop (rounds, go, x) <body = step (int64 i, bool c, float[M,64] all) => (bool on, float[K,64] more) {
        on = Identity (c)
        more = Concat <axis = 0> (all, x)
    }>
}
"""


def chains() -> Iterator[Case]:
    """A few operators one after the other, as they are around networks and within them."""
    case = partial(text, "chain")
    means, deviations = reals(3, 1, 1), reals(3, 1, 1, low=0.5)
    picture = whole(224, 224, 3, dtype=np.uint8)
    yield case("a picture's bytes to normalized planes", PICTURE, x=picture, mean=means, deviation=deviations)
    yield case("a transposed operand 1×96×56×56", TURNED, x=reals(1, 96, 56, 56), z=reals(1, 56, 56, 96))
    yield case("peaks of a heat map 1×20×64×64", PEAKS, x=reals(1, 20, 64, 64))
    yield case("an average less its middle 1×32×32×32", MIXED, x=reals(1, 32, 32, 32))
    yield case("a volume's patches 8×16×32×32", UNSHUFFLED, x=reals(1, 8, 8, 2, 16, 2, 16, 2))
    yield case("a list that grows for 100 rounds", GROWING, x=reals(1, 64))


def cases() -> Iterator[Case]:
    """Return every case, family by family."""
    for family in (normalizations, convolutions, activations, arithmetic, reductions, indices, orders, layouts, products, sizes,
                   samples, pools, signals, attentions, quantized, recurrences, types, flows, chains):  # fmt: skip
        yield from family()
