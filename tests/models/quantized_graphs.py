"""Random graphs that quantize and dequantize in every way that ONNX allows, with bounds for what two runtimes may differ by.

A tensor of integers has no scale: whoever quantizes and whoever dequantizes says its own. The graphs here mix these on purpose:
other parameters on the two sides, one tensor read in two ways, parameters left out or one per index of an axis, integers moved
and joined between, results that are also read.

Each tensor carries a bound of how far two correct runtimes may be apart: 0 wherever only integers move, one step behind a
QuantizeLinear of reals that were computed (the last bit of f32 decides about halves, and fused integer forms round the exact
value), and from there on what the operators make of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

Array = np.ndarray[Any, Any]
INTEGERS = (np.uint8, np.int8, np.uint8, np.int8, np.uint16, np.int16)
BYTES = (np.dtype(np.uint8), np.dtype(np.int8))


@dataclass
class Tensor:
    """A value of the graph."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    error: float = 0.0
    """How far apart two runtimes may be: in steps of integers, in reals."""
    size: float = 0.0
    """A bound for the magnitude of reals."""
    computed: bool = False
    """Whether reals were rounded on the way, so that their last bits may differ."""
    made_by: tuple[float, int, np.dtype[Any]] | None = None
    """Scale and zero point of the QuantizeLinear that made it."""


@dataclass
class Case:
    """A model with its inputs, and the bounds of its outputs."""

    model: bytes
    inputs: dict[str, Array]
    bounds: list[float]
    computed: list[bool]
    operators: list[str]


@dataclass
class Generator:
    """Grows one graph."""

    rng: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)
    read: set[str] = field(default_factory=set)
    bytes_only: bool = False

    def chance(self, probability: float) -> bool:
        """Return True in that share of cases."""
        return bool(self.rng.random() < probability)

    def pick(self, items: Any) -> Any:
        """Return one of several."""
        return items[int(self.rng.integers(len(items)))]

    def constant(self, value: Array) -> str:
        """Add an initializer."""
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def add(self, op: str, inputs: list[str], result: Tensor, outputs: int = 1, **attributes: Any) -> Tensor:
        """Add a node whose first result is `result`."""
        names = [result.name, *(f"{result.name}_{index}" for index in range(1, outputs))]
        self.nodes.append(helper.make_node(op, inputs, names, name=f"n_{result.name}", **attributes))
        self.read.update(inputs)
        self.tensors.append(result)
        return result

    def new(self, like: Tensor, **changes: Any) -> Tensor:
        """Return a tensor with another name."""
        fields = {**like.__dict__, "made_by": None, **changes, "name": f"t{len(self.nodes)}"}
        return Tensor(**fields)

    # ---- quantizers ----

    def parameters(self, dtype: np.dtype[Any], channels: int | None) -> tuple[Array, Array | None]:
        """Return scale and zero point; None for one that is left out."""
        shape = () if channels is None else (channels,)
        wide = 1 if dtype in BYTES else 1 / 64
        scale = np.asarray(np.exp(self.rng.uniform(np.log(0.01), np.log(0.3), shape)) * wide, np.float32)
        if self.chance(0.3):
            # Powers of two make halves.
            scale = np.asarray(2.0 ** np.round(np.log2(scale)), np.float32)
        if self.chance(0.2):
            return scale, None
        info = np.iinfo(dtype)
        near_middle = (info.min + info.max + 1) // 2 + self.rng.integers(-40, 41, shape)
        points = near_middle if self.chance(0.8) else self.rng.integers(info.min, info.max, shape, endpoint=True)
        return scale, np.asarray(points, dtype)

    def quantize(self, x: Tensor) -> Tensor:
        """Add a QuantizeLinear with parameters of its own, or with those of another."""
        dtype = np.dtype(self.pick(INTEGERS[:4] if self.bytes_only else INTEGERS))
        axis = int(self.rng.integers(len(x.shape))) if self.chance(0.1) and x.shape else None
        scale, point = self.parameters(dtype, None if axis is None else x.shape[axis])
        return self.quantize_with(x, dtype, scale, point, axis)

    def quantize_with(
        self, x: Tensor, dtype: np.dtype[Any], scale: Array, point: Array | None, axis: int | None
    ) -> Tensor:
        """Add a QuantizeLinear."""
        inputs = [x.name, self.constant(scale)]
        attributes: dict[str, Any] = {} if axis is None else {"axis": axis}
        if point is not None:
            inputs.append(self.constant(point))
        elif dtype != np.uint8:
            attributes["output_dtype"] = helper.np_dtype_to_tensor_dtype(dtype)
        steps = x.error / float(scale.min())
        error = np.floor(steps) + 1 if steps > 0 or x.computed else 0.0
        result = self.new(x, dtype=dtype, error=float(error), computed=False, size=0.0)
        if axis is None:
            result.made_by = (float(scale), 0 if point is None else int(point), dtype)
        return self.add("QuantizeLinear", inputs, result, **attributes)

    def dequantize(self, x: Tensor) -> Tensor:
        """Add a DequantizeLinear: with the parameters of who made the integers, or with others."""
        axis = None
        if x.dtype == np.int32:
            scale, point = self.parameters(np.dtype(np.int8), None)[0], None
        elif x.made_by is not None and self.chance(0.6):
            scale, point = np.float32(x.made_by[0]), np.asarray(x.made_by[1], x.dtype)
            scale = np.asarray(scale)
            if int(point) == 0 and self.chance(0.5):
                point = None
        else:
            axis = int(self.rng.integers(len(x.shape))) if self.chance(0.1) and x.shape else None
            scale, point = self.parameters(x.dtype, None if axis is None else x.shape[axis])
        inputs = [x.name, self.constant(scale)] + ([] if point is None else [self.constant(point)])
        info = np.iinfo(x.dtype)
        points = np.zeros(1) if point is None else np.asarray(point, np.float64)
        reach = max(np.abs(info.min - points).max(), np.abs(info.max - points).max())
        reach = min(float(reach), 1e4) * float(scale.max())
        result = self.new(x, dtype=np.dtype(np.float32), error=x.error * float(scale.max()), size=reach, computed=False)
        return self.add("DequantizeLinear", inputs, result, **({} if axis is None else {"axis": axis}))

    # ---- movement, of integers and of reals ----

    def move(self, x: Tensor) -> Tensor | None:
        """Add an operator that moves elements."""
        rank = len(x.shape)
        kinds = ["Reshape", "Transpose", "Slice", "Gather", "Split", "Identity", "Unsqueeze", "Concat", "Concat"]
        # ONNX Runtime has these for no integers of 16 bits.
        if x.dtype in BYTES or x.dtype == np.float32:
            kinds += ["Pad", "Pad"] + (["MaxPool", "Resize", "LinearResize", "MaxPool"] if rank == 4 else [])
        kind = self.pick(kinds)
        if kind == "Reshape":
            shape = (int(np.prod(x.shape)),) if self.chance(0.3) else (x.shape[0], int(np.prod(x.shape[1:])))
            if self.chance(0.3):
                # As detectors take channels apart: more axes than images have.
                parts = [n for n in range(1, x.shape[-1] + 1) if x.shape[-1] % n == 0]
                part = int(self.pick(parts))
                shape = (*x.shape[:-1], x.shape[-1] // part, part, *[1] * int(self.rng.integers(2)))
                if len(shape) > 6:
                    return None
            return self.add(kind, [x.name, self.constant(np.array(shape))], self.new(x, shape=shape))
        if kind == "Transpose":
            perm = [int(axis) for axis in self.rng.permutation(rank)]
            return self.add(kind, [x.name], self.new(x, shape=tuple(x.shape[axis] for axis in perm)), perm=perm)
        if kind == "Slice":
            axis = int(self.rng.integers(rank))
            start = int(self.rng.integers(x.shape[axis]))
            shape = (*x.shape[:axis], x.shape[axis] - start, *x.shape[axis + 1 :])
            names = [self.constant(np.array([value])) for value in (start, 1 << 30, axis)]
            return self.add(kind, [x.name, *names], self.new(x, shape=shape))
        if kind == "Gather":
            axis = int(self.rng.integers(rank))
            indices = self.rng.integers(0, x.shape[axis], int(self.rng.integers(1, 4)))
            shape = (*x.shape[:axis], len(indices), *x.shape[axis + 1 :])
            return self.add(kind, [x.name, self.constant(indices)], self.new(x, shape=shape), axis=axis)
        if kind == "Split":
            axis = int(self.rng.integers(rank))
            if x.shape[axis] < 2:
                return None
            sizes = np.array([1, x.shape[axis] - 1])
            shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
            first = self.add(kind, [x.name, self.constant(sizes)], self.new(x, shape=shape), outputs=2, axis=axis)
            rest = (*x.shape[:axis], x.shape[axis] - 1, *x.shape[axis + 1 :])
            self.tensors.append(Tensor(**{**first.__dict__, "name": f"{first.name}_1", "shape": rest}))
            return first
        if kind == "Identity":
            return self.add(kind, [x.name], self.new(x))
        if kind == "Unsqueeze":
            return (
                self.add(kind, [x.name, self.constant(np.array([0]))], self.new(x, shape=(1, *x.shape)))
                if rank < 6
                else None
            )
        if kind == "Concat":
            others = [t for t in self.tensors if t.dtype == x.dtype and t.shape == x.shape]
            parts = [x, *(self.pick(others) for _ in range(int(self.rng.integers(1, 3))))]
            axis = int(self.rng.integers(rank))
            shape = (*x.shape[:axis], x.shape[axis] * len(parts), *x.shape[axis + 1 :])
            result = self.new(x, shape=shape, error=max(p.error for p in parts), size=max(p.size for p in parts))
            result.computed = any(p.computed for p in parts)
            return self.add(kind, [p.name for p in parts], result, axis=axis)
        if kind == "Pad":
            pads = self.rng.integers(0, 2, 2 * rank)
            shape = tuple(int(n + pads[axis] + pads[rank + axis]) for axis, n in enumerate(x.shape))
            inputs = [x.name, self.constant(pads)]
            if self.chance(0.4):
                value = self.rng.integers(0, 100) if x.dtype != np.float32 else self.rng.uniform(-1, 1)
                inputs.append(self.constant(np.array(value, x.dtype)))
            return self.add(kind, inputs, self.new(x, shape=shape, size=max(x.size, 1.0)))
        if kind == "Resize":
            scales = np.array([1, 1, *self.rng.integers(1, 3, 2)], np.float32)
            shape = tuple(int(n * s) for n, s in zip(x.shape, scales, strict=True))
            attributes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
            return self.add(kind, [x.name, "", self.constant(scales)], self.new(x, shape=shape), **attributes)
        if kind == "LinearResize":
            return self.resize_linearly(x)
        pads = [int(self.rng.integers(2))] * 4
        rows, columns = (n + 2 * pads[0] - 1 for n in x.shape[2:])
        if rows < 1 or columns < 1:
            return None
        return self.add(
            kind, [x.name], self.new(x, shape=(*x.shape[:2], rows, columns)), kernel_shape=[2, 2], pads=pads
        )

    def resize_linearly(self, x: Tensor) -> Tensor:
        """Add a Resize between neighbours, by scales or to sizes; up and down."""
        scales = np.array([1, 1, *(self.pick([0.5, 1.0, 1.5, 2.0, 3.0]) for _ in range(2))], np.float32)
        shape = tuple(max(int(np.floor(n * s)), 1) for n, s in zip(x.shape, scales, strict=True))
        by_size = self.chance(0.4) or any(n * s < 1 for n, s in zip(x.shape, scales, strict=True))
        coordinates = self.pick(["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"])
        # Corners of what a factor makes, 4.5 of 3 elements: ONNX's reference takes the 4.5, ONNX Runtime the 4.
        met = all(float(n * s).is_integer() for n, s in zip(x.shape, scales, strict=True))
        by_size = by_size or (coordinates == "align_corners" and not met)
        extents = [self.constant(np.array(shape))] if by_size else [self.constant(scales)]
        attributes = {"mode": "linear", "coordinate_transformation_mode": coordinates}
        # Integers between two others are a step apart where one runtime cuts and the other rounds.
        result = self.new(x, shape=shape, error=x.error + (x.dtype != np.float32), computed=x.dtype == np.float32)
        return self.add("Resize", [x.name, *([""] * (1 + by_size)), *extents], result, **attributes)

    # ---- computation, of reals ----

    def compute(self, x: Tensor) -> Tensor | None:
        """Add an operator that computes on reals."""
        kinds = ["Unary", "Unary", "Binary", "Binary", "Clip", "Where", "ArgMax", "ReduceMax"]
        kinds += {
            2: ["Gemm", "MatMul", "MatMulOfTwo"] * 2,
            4: ["Conv"] * 3 + ["AveragePool", "GlobalAveragePool", "MatMulOfTwo"],
        }.get(len(x.shape), [])
        kind = self.pick(kinds)
        if kind == "MatMulOfTwo":
            return self.multiply(x)
        if kind == "Unary":
            op = self.pick(["Relu", "Sigmoid", "Tanh", "LeakyRelu", "Abs", "Neg", "HardSigmoid"])
            exact = op in ("Relu", "Abs", "Neg")
            size = x.size if op in ("Relu", "Abs", "Neg", "LeakyRelu") else 1.0
            return self.add(op, [x.name], self.new(x, size=size, computed=x.computed or not exact))
        if kind == "Clip":
            limits = [
                self.constant(np.array(limit, np.float32)) for limit in (self.pick([0.0, -1.5]), self.pick([6.0, 2.5]))
            ]
            return self.add(kind, [x.name, *limits], self.new(x, size=6.0))
        if kind in ("Binary", "Where"):
            others = [t for t in self.tensors if t.dtype == np.float32 and t.shape == x.shape]
            y = self.pick(others)
            if kind == "Where":
                mask = self.constant(self.rng.random(x.shape) < 0.5)
                result = self.new(x, error=max(x.error, y.error), size=max(x.size, y.size))
                result.computed = x.computed or y.computed
                return self.add(kind, [mask, x.name, y.name], result)
            op = self.pick(["Add", "Add", "Mul", "Sub", "Min", "Max"])
            exact = op in ("Min", "Max")
            error, size = x.error + y.error, x.size + y.size
            if op == "Mul":
                error, size = x.error * y.size + y.error * x.size + x.error * y.error, x.size * y.size
            return self.add(op, [x.name, y.name], self.new(x, error=error, size=size, computed=x.computed or not exact))
        if kind == "ArgMax":
            # Behind something that may differ, another element may be the largest.
            if x.error > 0 or x.computed:
                return None
            axis = int(self.rng.integers(len(x.shape)))
            shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
            return self.add(kind, [x.name], self.new(x, shape=shape, dtype=np.dtype(np.int64)), axis=axis)
        if kind == "ReduceMax":
            axis = int(self.rng.integers(len(x.shape)))
            shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
            return self.add(kind, [x.name, self.constant(np.array([axis]))], self.new(x, shape=shape))
        if kind == "AveragePool":
            if min(x.shape[2:]) < 2:
                return None
            shape = (*x.shape[:2], x.shape[2] - 1, x.shape[3] - 1)
            return self.add(kind, [x.name], self.new(x, shape=shape, computed=True), kernel_shape=[2, 2])
        if kind == "GlobalAveragePool":
            return self.add(kind, [x.name], self.new(x, shape=(*x.shape[:2], 1, 1), computed=True))
        return self.product(kind, x)

    def weights(self, shape: tuple[int, ...], axis: int) -> tuple[str, float, Array]:
        """Add dequantized weights; return their name, a bound for a sum of their magnitudes, and their scales."""
        channels = shape[axis]
        unsigned = self.chance(0.3)
        scale = np.asarray(self.rng.uniform(0.002, 0.02, channels if self.chance(0.4) else ()), np.float32)
        point = self.pick([128, 128, 120]) if unsigned else self.pick([0, 0, 0, 3])
        dtype = np.uint8 if unsigned else np.int8
        info = np.iinfo(dtype)
        integers = self.rng.integers(info.min, info.max, shape, endpoint=True).astype(dtype)
        inputs = [self.constant(integers), self.constant(scale)]
        if point or self.chance(0.5):
            inputs.append(self.constant(np.full(scale.shape, point, dtype)))
        name = f"w{len(self.nodes)}"
        attributes = {"axis": axis} if scale.shape else {}
        self.nodes.append(helper.make_node("DequantizeLinear", inputs, [name], name=f"n_{name}", **attributes))
        bound = np.abs(integers.astype(np.float64) - point).sum() / channels * float(scale.max()) * 2
        return name, float(bound), scale

    def product(self, kind: str, x: Tensor) -> Tensor | None:
        """Add a convolution or matrix product with constant weights and perhaps a bias."""
        channels = int(self.rng.integers(1, 5))
        if kind == "Conv":
            size = 2 if min(x.shape[2:]) >= 2 and self.chance(0.6) else 1
            pads = [int(self.rng.integers(size))] * 4
            shape = (x.shape[0], channels, *(n + 2 * pads[0] - size + 1 for n in x.shape[2:]))
            name, sum_of_weights, scale = self.weights((channels, x.shape[1], size, size), 0)
            attributes: dict[str, Any] = {"kernel_shape": [size, size], "pads": pads}
        else:
            shape = (x.shape[0], channels)
            transposed = kind == "Gemm" and self.chance(0.5)
            extents = (channels, x.shape[1]) if transposed else (x.shape[1], channels)
            name, sum_of_weights, scale = self.weights(extents, 0 if transposed else 1)
            attributes = {"transB": int(transposed)} if kind == "Gemm" else {}
        inputs = [x.name, name]
        if kind != "MatMul" and self.chance(0.5):
            bias = self.rng.integers(-2000, 2000, channels).astype(np.int32)
            maker = next((t for t in self.nodes if t.output[0] == x.name and t.op_type == "DequantizeLinear"), None)
            own = next((c for c in self.constants if maker is not None and c.name == maker.input[1]), None)
            own_scale = numpy_helper.to_array(own) if own is not None else np.float32(0.05)
            if own_scale.ndim == 0 and self.chance(0.7):
                # The scale of the products, or another one.
                factor = own_scale * scale if self.chance(0.8) else np.asarray(0.001, np.float32)
                inputs.append(f"b{len(self.nodes)}")
                names = [self.constant(bias), self.constant(np.asarray(factor, np.float32))]
                axis = {"axis": 0} if np.ndim(factor) else {}
                self.nodes.append(
                    helper.make_node("DequantizeLinear", names, [inputs[-1]], name=f"n_{inputs[-1]}", **axis)
                )
            else:
                reals = (bias * 0.001).astype(np.float32)
                columns = kind == "Gemm" and self.chance(0.5)
                if columns:
                    reals = self.rng.uniform(-2, 2, self.pick([(shape[0], 1), shape, (1, channels)])).astype(np.float32)
                inputs.append(self.constant(reals))
        result = self.new(
            x, shape=shape, error=x.error * sum_of_weights, size=x.size * sum_of_weights + 20, computed=True
        )
        return self.add(kind, inputs, result, **attributes)

    def multiply(self, x: Tensor) -> Tensor:
        """Add a matrix product of two tensors that are both computed: of rows with rows, or of columns with columns."""

        def fits(y: Tensor, axis: int) -> bool:
            matrices = y.dtype == np.float32 and len(y.shape) == len(x.shape)
            return matrices and y.shape[:-2] == x.shape[:-2] and y.shape[axis] == x.shape[axis]

        axis = self.pick([-1, -2])
        y = self.pick([t for t in self.tensors if fits(t, axis)])
        rank = len(x.shape)
        turned = x if axis == -2 else y
        perm = [*range(rank - 2), rank - 1, rank - 2]
        across = self.new(turned, shape=tuple(turned.shape[a] for a in perm))
        self.add("Transpose", [turned.name], across, perm=perm)
        a, b = (across, y) if axis == -2 else (x, across)
        depth = a.shape[-1]
        error = depth * (a.error * b.size + b.error * a.size + a.error * b.error)
        shape = (*a.shape[:-1], b.shape[-1])
        result = self.new(a, shape=shape, error=error, size=depth * a.size * b.size, computed=True)
        return self.add("MatMul", [a.name, b.name], result)

    # ---- the whole ----

    def case(self, image: bool) -> Case:
        """Return a graph of some steps from one or two inputs; from an image to reals if `image`, as cards take them."""
        self.bytes_only = image
        inputs: dict[str, Array] = {}
        kinds = [np.float32, np.float32, np.uint8, np.int8, np.int32, np.int16, np.uint16]
        for number in range(1 if image else int(self.rng.integers(1, 3))):
            shape = tuple(int(n) for n in self.rng.integers(1, 5, 4 if image else self.pick([2, 4, 4])))
            shape = (1, *shape[1:]) if image else shape
            dtype = np.dtype(np.float32 if image else self.pick(kinds))
            if dtype == np.float32:
                value = self.rng.normal(0, self.pick([1.0, 4.0]), shape).astype(np.float32)
                value = np.round(value * 8) / np.float32(8) if self.chance(0.4) else value
            else:
                reach = np.iinfo(dtype) if dtype != np.int32 else np.iinfo(np.int16)
                value = self.rng.integers(reach.min, reach.max, shape, endpoint=True).astype(dtype)
            name = f"x{number}"
            inputs[name] = np.asarray(value, dtype)
            self.tensors.append(Tensor(name, shape, dtype, size=20.0))
        steps = int(self.rng.integers(6, 14) if image else self.rng.integers(3, 11))
        for _ in range(4 * steps):
            if len(self.nodes) >= steps:
                break
            recent = self.tensors[-1:] if image else self.tensors[-4:]
            x = self.pick(recent) if self.chance(0.7) else self.pick(self.tensors)
            if int(np.prod(x.shape)) > 2048 or x.dtype == np.int64:
                continue
            if x.dtype == np.int32:
                self.dequantize(x)
            elif x.dtype == np.float32:
                # Cards compute between a DequantizeLinear and a QuantizeLinear.
                often = 0.4 if not image else 0.8 if x.computed or x.name in inputs else 0.1
                (self.quantize if self.chance(often) else self.compute if self.chance(0.7) else self.move)(x)
            else:
                (self.dequantize if self.chance(0.8 if image else 0.6) else self.move)(x)
        if image:
            for x in [t for t in self.tensors if t.dtype in BYTES and t.name not in self.read]:
                self.dequantize(x)
        made = [t for t in self.tensors if t.name not in inputs and (not image or t.dtype == np.float32)]
        outputs = [t for t in made if t.name not in self.read or self.chance(0.05 if image else 0.15)]
        graph = helper.make_graph(
            self.nodes,
            "case",
            [
                helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
                for n, v in inputs.items()
            ],
            [helper.make_tensor_value_info(t.name, helper.np_dtype_to_tensor_dtype(t.dtype), t.shape) for t in outputs],
            self.constants,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
        operators = [node.op_type for node in self.nodes]
        bounds, computed = [t.error for t in outputs], [t.computed for t in outputs]
        return Case(model.SerializeToString(), inputs, bounds, computed, operators)


def case(seed: int, image: bool = False) -> Case:
    """Return the case with this number."""
    return Generator(np.random.default_rng(seed)).case(image)
