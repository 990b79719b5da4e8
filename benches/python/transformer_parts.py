"""Parts of transformers as exporters and optimizers write them, of random weights; `transformer_models.py` has the networks.

A weight follows from its name, so that all forms of a network mean the same.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import helper, numpy_helper

Array = np.ndarray[Any, Any]
Feeds = dict[str, Array]
MICROSOFT = "com.microsoft"


class Sizes(NamedTuple):
    """Extents of a network."""

    layers: int
    width: int
    heads: int
    hidden: int
    """The width between the two products behind attention."""
    tokens: int
    """Tokens of a run; a side of the image for those that look at images."""
    kv_heads: int = 0
    """Heads of keys and values, where several queries share them."""
    vocabulary: int = 1000
    past: int = 0
    """Tokens that the cache has."""

    @property
    def size(self) -> int:
        """Elements of a head."""
        return self.width // self.heads


@dataclass
class Net:
    """A network under construction; methods add operators and return their results' names."""

    dtype: np.dtype[Any]
    opset: int
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, onnx.TensorProto] = field(default_factory=dict)
    inputs: list[onnx.ValueInfoProto] = field(default_factory=list)
    outputs: list[onnx.ValueInfoProto] = field(default_factory=list)
    domains: set[str] = field(default_factory=set)
    bits: int = 0
    """Bits of the weights of products, in blocks of 32; 0: reals."""

    # ---- values ----

    def input(self, name: str, shape: Sequence[int | str], dtype: Any = None) -> str:
        """Add an input; extents with names are open."""
        element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype) if dtype is not None else self.dtype)
        self.inputs.append(helper.make_tensor_value_info(name, element, shape))
        return name

    def output(self, value: str, name: str, rank: int) -> None:
        """Let a value be a result, of open extents."""
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        extents = [f"{name}_{axis}" for axis in range(rank)]
        self.outputs.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(self.dtype), extents))

    def constant(self, name: str, value: Any) -> str:
        """Add an initializer, once per name."""
        self.constants.setdefault(name, numpy_helper.from_array(np.asarray(value, order="C"), name))
        return name

    def ints(self, *values: int) -> str:
        """Add an initializer of whole numbers."""
        return self.constant("ints_" + "_".join(map(str, values)), np.array(values, np.int64))

    def number(self, value: float) -> str:
        """Add an initializer of one real."""
        return self.constant(f"number_{value!r}", np.array(value, self.dtype))

    def weight(self, name: str, *shape: int, mean: float = 0.0, deviation: float = 0.02) -> str:
        """Add an initializer of normal numbers that follow from the name, whatever the type is."""
        return self.constant(name, drawn(name, shape, mean, deviation).astype(self.dtype))

    def op(self, kind: str, *inputs: str, results: int = 1, domain: str = "", **attributes: Any) -> Any:
        """Add an operator; its result's name, or those of several."""
        names = [f"v{len(self.nodes)}_{index}" for index in range(results)]
        self.nodes.append(
            helper.make_node(kind, list(inputs), names, name=f"{kind}_{len(self.nodes)}", domain=domain, **attributes)
        )
        if domain:
            self.domains.add(domain)
        return names[0] if results == 1 else names

    def model(self) -> onnx.ModelProto:
        """Return the file."""
        graph = helper.make_graph(self.nodes, "net", self.inputs, self.outputs, list(self.constants.values()))
        imports = [helper.make_opsetid("", self.opset), *(helper.make_opsetid(domain, 1) for domain in self.domains)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10)

    # ---- parts that all have ----

    def mean(self, x: str, axis: int) -> str:
        """Add a mean over an axis that stays, as the operator set spells it."""
        if self.opset >= 18:
            return str(self.op("ReduceMean", x, self.ints(axis), keepdims=1))
        return str(self.op("ReduceMean", x, axes=[axis], keepdims=1))

    def linear(self, x: str, name: str, inputs: int, outputs: int, *, bias: bool = True) -> str:
        """Add a product with known weights, and a bias."""
        deviation = 0.9 / math.sqrt(inputs)
        if self.bits:
            y = self.few_bits(x, f"{name}.weight", inputs, outputs, deviation)
        else:
            y = self.op("MatMul", x, self.weight(f"{name}.weight", inputs, outputs, deviation=deviation))
        return str(self.op("Add", y, self.weight(f"{name}.bias", outputs))) if bias else str(y)

    def few_bits(self, x: str, name: str, inputs: int, outputs: int, deviation: float) -> str:
        """Add a product with weights of 4 bits, 32 of which share a scale; a reference has the reals that these mean."""
        levels, scales = four_bits(drawn(name, (inputs, outputs), 0.0, deviation).T)
        if self.dtype == np.float64:
            reals = (levels.astype(np.float32) - 8) * scales[..., None]
            return str(self.op("MatMul", x, self.constant(name, reals.reshape(outputs, inputs).T.astype(np.float64))))
        packed = (levels[..., 0::2] | levels[..., 1::2] << 4).astype(np.uint8)
        operands = [self.constant(f"{name}.q", packed), self.constant(f"{name}.scales", scales.reshape(-1))]
        shape: dict[str, Any] = {"K": inputs, "N": outputs, "bits": 4, "block_size": 32}
        return str(self.op("MatMulNBits", x, *operands, domain=MICROSOFT, **shape))

    def layer_norm(self, x: str, name: str, width: int, form: str, epsilon: float = 1e-5) -> str:
        """Add a normalization of the last axis, whole or in nine operators."""
        scale = self.weight(f"{name}.scale", width, mean=1.0, deviation=0.1)
        shift = self.weight(f"{name}.shift", width, deviation=0.1)
        if form != "decomposed":
            return str(self.op("LayerNormalization", x, scale, shift, axis=-1, epsilon=epsilon))
        rest = self.op("Sub", x, self.mean(x, -1))
        variance = self.mean(self.op("Pow", rest, self.number(2.0)), -1)
        deviation = self.op("Sqrt", self.op("Add", variance, self.number(epsilon)))
        return str(self.op("Add", self.op("Mul", self.op("Div", rest, deviation), scale), shift))

    def rms_norm(self, x: str, name: str, width: int, form: str, epsilon: float = 1e-6) -> str:
        """Add a normalization of the last axis that is not centered."""
        scale = self.weight(f"{name}.scale", width, mean=1.0, deviation=0.1)
        if form == "operators":
            return str(self.op("RMSNormalization", x, scale, axis=-1, epsilon=epsilon))
        if form == "microsoft":
            return str(self.op("SimplifiedLayerNormalization", x, scale, axis=-1, epsilon=epsilon, stash_type=1))
        variance = self.mean(self.op("Pow", x, self.number(2.0)), -1)
        root = self.op("Sqrt", self.op("Add", variance, self.number(epsilon)))
        return str(self.op("Mul", scale, self.op("Mul", x, self.op("Div", self.number(1.0), root))))

    def gelu(self, x: str, form: str) -> str:
        """Add x·Φ(x), whole or as exporters write it."""
        if form == "operators":
            return str(self.op("Gelu", x))
        if form == "microsoft":
            return str(self.op("Gelu", x, domain=MICROSOFT))
        y = self.op("Erf", self.op("Div", x, self.number(math.sqrt(2.0))))
        y = self.op("Mul", x, self.op("Add", y, self.number(1.0)))
        return str(self.op("Mul", y, self.number(0.5)))

    def silu(self, x: str, form: str) -> str:
        """Add x·sigmoid(x)."""
        if form == "operators" and self.opset >= 24:
            return str(self.op("Swish", x))
        return str(self.op("Mul", x, self.op("Sigmoid", x)))

    def feed_forward(self, x: str, name: str, sizes: Sizes, form: str) -> str:
        """Add two products with a Gelu between."""
        if form == "microsoft":
            y = self.linear(x, f"{name}.up", sizes.width, sizes.hidden, bias=False)
            y = self.op("BiasGelu", y, self.weight(f"{name}.up.bias", sizes.hidden), domain=MICROSOFT)
        else:
            y = self.gelu(self.linear(x, f"{name}.up", sizes.width, sizes.hidden), form)
        return self.linear(y, f"{name}.down", sizes.hidden, sizes.width)

    def heads(self, x: str, heads: int, size: int, *, from_shape: bool = False) -> str:
        """Add the way from [batch, tokens, heads · size] to [batch, heads, tokens, size]."""
        shape = self.ints(0, 0, heads, size)
        if from_shape:
            extents = self.op("Shape", x)
            first, second = (
                self.op(
                    "Unsqueeze",
                    self.op("Gather", extents, self.constant(f"at_{at}", np.int64(at)), axis=0),
                    self.ints(0),
                )
                for at in (0, 1)
            )
            shape = self.op("Concat", first, second, self.ints(heads), self.ints(size), axis=0)
        return str(self.op("Transpose", self.op("Reshape", x, shape), perm=[0, 2, 1, 3]))

    def joined(self, x: str, width: int) -> str:
        """Add the way back."""
        return str(self.op("Reshape", self.op("Transpose", x, perm=[0, 2, 1, 3]), self.ints(0, 0, width)))

    def attention(self, q: str, k: str, v: str, size: int, bias: str = "", scale: float | None = None) -> str:
        """Add products, a Softmax and products, over [batch, heads, tokens, size]."""
        scores = self.op("MatMul", q, self.op("Transpose", k, perm=[0, 1, 3, 2]))
        if scale is None:
            scores = self.op("Div", scores, self.number(math.sqrt(size)))
        if bias:
            scores = self.op("Add", scores, bias)
        return str(self.op("MatMul", self.op("Softmax", scores, axis=-1), v))

    def self_attention(self, x: str, name: str, sizes: Sizes, form: str, bias: str = "") -> str:
        """Add attention of a sequence to itself with its products; `bias` is added to scores."""
        q, k, v = (self.linear(x, f"{name}.{part}", sizes.width, sizes.width) for part in "qkv")
        if form == "operators":
            more: dict[str, Any] = {"q_num_heads": sizes.heads, "kv_num_heads": sizes.heads}
            y = self.op("Attention", q, k, v, *([bias] if bias else []), **more)
        else:
            q, k, v = (self.heads(part, sizes.heads, sizes.size, from_shape=True) for part in (q, k, v))
            y = self.joined(self.attention(q, k, v, sizes.size, bias), sizes.width)
        return self.linear(y, f"{name}.out", sizes.width, sizes.width)

    def block(self, x: str, name: str, sizes: Sizes, form: str) -> str:
        """Add a layer that normalizes before attention and before its two products."""
        y = self.self_attention(self.layer_norm(x, f"{name}.first", sizes.width, form), name, sizes, form)
        x = self.op("Add", x, y)
        y = self.feed_forward(self.layer_norm(x, f"{name}.second", sizes.width, form), name, sizes, form)
        return str(self.op("Add", x, y))


def drawn(name: str, shape: Sequence[int], mean: float, deviation: float) -> Array:
    """Return normal numbers in float32 that follow from a name."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    return np.asarray(rng.standard_normal(tuple(shape), np.float32) * np.float32(deviation) + np.float32(mean))


def four_bits(rows: Array) -> tuple[Array, Array]:
    """Return levels of 0 to 15, around 8, and the scales of blocks of 32, of each row."""
    blocks = rows.reshape(rows.shape[0], -1, 32)
    scales = (np.abs(blocks).max(-1) / 7).astype(np.float32)
    return np.clip(np.round(blocks / scales[..., None]) + 8, 0, 15).astype(np.uint8), scales


def opset_of(form: str) -> int:
    """Return the set that a form is written in: the one in which its operators came."""
    return {"decomposed": 14, "operators": 23, "microsoft": 17, "fused": 17}[form]


def numbers(seed: int) -> np.random.Generator:
    """Return the source of a network's inputs."""
    return np.random.default_rng(seed)


def tokens_of(sizes: Sizes, batch: int = 1, count: int | None = None) -> Array:
    """Return numbers of words."""
    return numbers(1).integers(0, sizes.vocabulary, (batch, count or sizes.tokens)).astype(np.int64)
