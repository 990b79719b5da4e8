"""Random choices for models of one operator, by a seed, and the models that they become.

A recipe asks a `Draw` for everything: what gives a model its form (ranks, axes, attributes), extents, and values. These are three
streams of their own, so that a recipe that is asked again for the same form with other extents gives another run of the same
model, if its axes are open.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import helper, numpy_helper

Array = np.ndarray[Any, Any]
Schema = Any


class Type(NamedTuple):
    """What a parameter of a schema stands for."""

    kind: str
    """``tensor``, ``seq`` or ``optional``, or two of them, as in ``optional(seq``."""
    element: int
    """ONNX's number of the element type."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type in numpy; that of `ml_dtypes` where numpy has none."""
        return np.dtype(helper.tensor_dtype_to_np_dtype(self.element))

    @property
    def name(self) -> str:
        """The element type in ONNX's spelling, in capitals."""
        return str(onnx.TensorProto.DataType.Name(self.element))


SPELLED = {"float": "FLOAT", "float16": "FLOAT16", "double": "DOUBLE"}
# Types that numpy does not have: they come into a model and out of it through Cast.
BEYOND_NUMPY = {
    getattr(onnx.TensorProto, name)
    for name in (
        "BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "FLOAT8E8M0", "FLOAT4E2M1", "INT4",
        "UINT4", "INT2", "UINT2",
    )
    if hasattr(onnx.TensorProto, name)
}  # fmt: skip
INTEGERS = {"INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64", "INT4", "UINT4", "INT2", "UINT2"}
NARROW = {"INT4": (-8, 7), "UINT4": (0, 15), "INT2": (-2, 1), "UINT2": (0, 3)}


def spelled(text: str) -> Type:
    """Return the type that a schema spells ``seq(tensor(float))``."""
    parts = re.split(r"[()]+", text.rstrip(")"))
    element = SPELLED.get(parts[-1], parts[-1].upper())
    return Type("(".join(parts[:-1]), onnx.TensorProto.DataType.Value(element))


class Refused(Exception):
    """A draw that has no model: the recipe says why."""


@dataclass
class Drawn:
    """What a recipe makes: operands in order (None: left out, a list: a sequence), and the node's attributes."""

    inputs: list[Array | list[Array] | None]
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    known: tuple[int, ...] = ()
    """Operands that have to be in the file."""
    fed: tuple[int, ...] = ()
    """Operands that must not be in the file."""
    bound: float = 1.0
    """How many times the element type's precision, of the largest element, results may be apart."""
    steps: int = 0
    """How far integers may be apart: those of which a rounding decides."""
    loose: bool = False
    """Whether values are an implementation's own (random numbers): only types and shapes are compared."""
    inside: tuple[tuple[str, Array], ...] = ()
    """Values of the outer network that attributes' networks see by name."""


class Draw:
    """The choices of one case."""

    def __init__(self, schema: Schema, types: Mapping[str, Type], seed: str, turn: int = 0) -> None:
        """Take the schema of one version, a type for each of its parameters, and which run of the model this is."""
        self.schema, self.types = schema, types
        self._form = random.Random(f"{seed} form")
        self._extents = random.Random(f"{seed} extents {turn}")
        self._values = np.random.default_rng([ord(letter) for letter in f"{seed} values {turn}"])
        self.empty = self._form.random() < 0.07
        self.nature = self._form.choices(("plain", "whole", "special", "extreme"), (6, 2, 1, 1))[0]

    @property
    def op(self) -> str:
        """The operator."""
        return str(self.schema.name)

    @property
    def since(self) -> int:
        """The version of the operator: the set that it came with."""
        return int(self.schema.since_version)

    def pick(self, *options: Any) -> Any:
        """Return one of them, as part of the form."""
        return self._form.choice(options)

    def maybe(self, chance: float = 0.5) -> bool:
        """Return whether, as part of the form."""
        return self._form.random() < chance

    def between(self, low: int, high: int) -> int:
        """Return a whole number from low to high, as part of the form."""
        return self._form.randint(low, high)

    def real(self, low: float, high: float) -> float:
        """Return a number that float32 has exactly, as part of the form."""
        return float(np.float32(self._form.uniform(low, high)))

    def order(self, count: int) -> list[int]:
        """Return 0 to count - 1 in some order, as part of the form."""
        return self._form.sample(range(count), count)

    def extent(self, low: int = 1, high: int = 5) -> int:
        """Return an extent; 0 at times, in cases that have it."""
        if self.empty and low <= 1 and self._extents.random() < 0.3:
            return 0
        return self._extents.randint(low, high)

    def shape(self, rank: int, low: int = 1, high: int = 5) -> tuple[int, ...]:
        """Return extents."""
        return tuple(self.extent(low, high) for _ in range(rank))

    def axis(self, rank: int, negative: int = 11) -> int:
        """Return an axis, below 0 at times from the set `negative` on."""
        at = self.between(0, rank - 1)
        return at - rank if self.maybe(0.4) and self.since >= negative else at

    def axes(self, rank: int, least: int = 0, negative: int = 11) -> list[int]:
        """Return some of the axes, in any order."""
        count = self.between(least, rank)
        return [at - rank if self.since >= negative and self.maybe(0.3) else at for at in self.order(rank)[:count]]

    def has(self, attribute: str) -> bool:
        """Return whether this version has the attribute."""
        return attribute in self.schema.attributes

    def some(self, **attributes: Any) -> dict[str, Any]:
        """Return some of the attributes: none that this version lacks, none that are None."""
        return {
            name: value
            for name, value in attributes.items()
            if self.maybe(0.6) and self.has(name) and value is not None
        }

    def type(self, place: int) -> Type:
        """Return the type of an operand; the last operand's behind it."""
        spelling = self.schema.inputs[min(place, len(self.schema.inputs) - 1)].type_str
        return self.types.get(spelling) or spelled(spelling)

    def result(self, place: int = 0) -> Type:
        """Return the type of a result."""
        spelling = self.schema.outputs[place].type_str
        return self.types.get(spelling) or spelled(spelling)

    def dtype(self, place: int) -> np.dtype[Any]:
        """Return the element type of an operand in numpy."""
        return self.type(place).dtype

    def tensor(
        self,
        place: int,
        shape: Sequence[int] = (),
        low: float = -3,
        high: float = 3,
        *,
        special: bool = True,
        nonzero: bool = False,
    ) -> Array:
        """Return an operand: uniform, at times whole numbers and halves, at times with the values that are not like others."""
        return self.array(self.type(place), shape, low, high, special=special, nonzero=nonzero)

    def array(
        self,
        of: Type,
        shape: Sequence[int] = (),
        low: float = -3,
        high: float = 3,
        *,
        special: bool = True,
        nonzero: bool = False,
    ) -> Array:
        """Return an array of this type."""
        shape, rng = tuple(shape), self._values
        nature = self.nature if special else "plain"
        if of.name == "BOOL":
            return np.asarray(rng.integers(0, 2, shape), bool)
        if of.name == "STRING":
            words = np.array(["", "a", "b", "Ünï", "a b", "xyz"], object)
            return np.asarray(words[rng.integers(0, len(words), shape)], object)
        if of.name.startswith("COMPLEX"):
            return np.asarray(rng.uniform(low, high, shape) + 1j * rng.uniform(low, high, shape), of.dtype)
        if of.name in INTEGERS:
            least, most = NARROW[of.name] if of.name in NARROW else (np.iinfo(of.dtype).min, np.iinfo(of.dtype).max)
            first, last = max(int(low), least), min(int(high), most)
            if nature == "extreme" and not nonzero and low <= -3:
                numbers = [least, most, 0, 1, most - 1][: 5 if most > 3 else 3]
                return np.asarray(rng.choice(np.array(numbers, object), shape)).astype(of.dtype)
            values = rng.integers(first, last + 1, shape)
            if nonzero:
                values = np.where(values == 0, 1, values)
            return np.asarray(values).astype(of.dtype)
        values = np.asarray(rng.uniform(low, high, shape))
        if nature == "whole":
            values = np.asarray(np.clip(np.round(values * 2) / 2, low, high))
        elif nature in ("special", "extreme") and values.size:
            odd = (
                [np.nan, np.inf, -np.inf, -0.0, 0.0]
                if nature == "special"
                else [1e30, -1e30, 1e-30, 1e-42, -0.0, 300.0]
            )
            spots = rng.random(shape) < 0.3
            values = np.where(spots, rng.choice(odd, shape), values)
        if nonzero:
            values = np.where(values == 0, 1, values)
        with np.errstate(all="ignore"):
            return np.asarray(values).astype(of.dtype)

    def whole(self, low: int, high: int, shape: Sequence[int] = (), dtype: Any = np.int64) -> Array:
        """Return whole numbers from low to high."""
        return np.asarray(self._values.integers(low, high + 1, tuple(shape)), dtype)

    def shuffled(self, count: int) -> Array:
        """Return 0 to count - 1 in some order, as values."""
        return np.asarray(self._values.permutation(count), np.int64)

    def together(self, count: int, rank: int = 4) -> list[tuple[int, ...]]:
        """Return shapes that broadcast to one another; that of the result is one of them at least in parts."""
        full = self.shape(self.between(0, rank))
        found = []
        for _ in range(count):
            start = self.pick(0, 0, 0, *range(len(full) + 1))
            ones = [self.maybe(0.2) for _ in full]
            found.append(tuple(1 if one else extent for one, extent in zip(ones, full, strict=True))[start:])
        return found


def attribute_key(value: Any) -> Any:
    """Return something by which two attributes can be told apart."""
    if isinstance(value, np.ndarray):
        return (value.shape, value.tobytes())
    return value.SerializeToString() if hasattr(value, "SerializeToString") else value


@dataclass
class Case:
    """A model and its runs."""

    op: str
    since: int
    opset: int
    types: Mapping[str, Type]
    seed: str
    model: bytes
    feeds: list[dict[str, Array | list[Array]]]
    drawn: Drawn
    way: str
    """How extents are declared: ``fixed``, ``open`` (by name) or ``silent`` (not even the rank)."""

    @property
    def title(self) -> str:
        """What a report calls it."""
        types = ",".join(f"{name}={of.kind}({of.name.lower()})" for name, of in self.types.items())
        return f"{self.op}-{self.since} [{types}] seed {self.seed}"


def declared(name: str, value: Array | list[Array], of: Type, way: str) -> onnx.ValueInfoProto:
    """Return an input's declaration."""
    if isinstance(value, list):
        inner = helper.make_tensor_type_proto(of.element, None)
        return helper.make_value_info(name, helper.make_sequence_type_proto(inner))
    shape: Any = value.shape
    if way != "fixed":
        shape = None if way == "silent" else [f"{name}_{axis}" for axis in range(value.ndim)]
    return helper.make_tensor_value_info(name, of.element, shape)


def element_of(array: Array) -> int:
    """Return ONNX's number of an array's type."""
    if array.dtype == object:
        return int(onnx.TensorProto.STRING)
    return int(helper.np_dtype_to_tensor_dtype(array.dtype))


def built(drawn: Drawn, op: str, opset: int, way: str, known: set[int], domain: str = "") -> bytes:
    """Return the file of a case; what numpy has no type for is fed as float32 and converted, both ways."""
    nodes, inputs, initializers, names = [], [], [], []
    named = [(f"x{place}", value) for place, value in enumerate(drawn.inputs)] + [*drawn.inside]
    for place, (name, value) in enumerate(named):
        if value is None:
            names.append("")
            continue
        if place < len(drawn.inputs):
            names.append(name)
        of = Type("", element_of(value[0] if isinstance(value, list) else value))
        if place in known and not isinstance(value, list):
            initializers.append(numpy_helper.from_array(value, name))
        elif of.element in BEYOND_NUMPY and not isinstance(value, list):
            inputs.append(declared(f"{name}_f", value, Type("", onnx.TensorProto.FLOAT), way))
            nodes.append(helper.make_node("Cast", [f"{name}_f"], [name], to=of.element))
        else:
            inputs.append(declared(name, value, of, way))
    results = [f"y{index}" for index in range(drawn.outputs)]
    node = helper.make_node(op, names, results, name="it", domain=domain)
    for name, value in drawn.attributes.items():
        # An empty list does not tell of what.
        kind = onnx.AttributeProto.INTS if isinstance(value, list) and not value else None
        node.attribute.append(helper.make_attribute(name, value, attr_type=kind))
    nodes.append(node)
    imports = [helper.make_opsetid("", opset), *([helper.make_opsetid(domain, 1)] if domain else [])]

    def model(outputs: Iterable[onnx.ValueInfoProto]) -> onnx.ModelProto:
        graph = helper.make_graph(nodes, "case", inputs, outputs, initializers)
        return helper.make_model(graph, opset_imports=imports, ir_version=10)

    plain = model([onnx.ValueInfoProto(name=name) for name in results])
    try:
        inferred = onnx.shape_inference.infer_shapes(plain)
    except Exception:
        return bytes(plain.SerializeToString())
    ends = []
    for value in inferred.graph.output:
        element = value.type.tensor_type.elem_type
        if element in BEYOND_NUMPY:
            nodes.append(helper.make_node("Cast", [value.name], [f"{value.name}_f"], to=onnx.TensorProto.FLOAT))
            ends.append(onnx.ValueInfoProto(name=f"{value.name}_f"))
        else:
            kept = onnx.ValueInfoProto(name=value.name)
            # The type, without extents: a runtime finds these by itself.
            if element:
                kept.type.tensor_type.elem_type = element
            elif value.type.WhichOneof("value"):
                kept.type.CopyFrom(value.type)
            ends.append(kept)
    return bytes(model(ends).SerializeToString())


def fed(drawn: Drawn, known: set[int]) -> dict[str, Array | list[Array]]:
    """Return what a run is given."""
    found: dict[str, Array | list[Array]] = {}
    named = [(f"x{place}", value) for place, value in enumerate(drawn.inputs)] + [*drawn.inside]
    for place, (name, value) in enumerate(named):
        if value is None or place in known:
            continue
        if not isinstance(value, list) and element_of(value) in BEYOND_NUMPY:
            found[f"{name}_f"] = value.astype(np.float32)
        else:
            found[name] = value
    return found


Recipe = Callable[[Draw], Drawn]


def case(recipe: Recipe, schema: Schema, types: Mapping[str, Type], opsets: range, seed: str) -> Case:
    """Return the case of a seed: the same for the same seed. Raises `Refused` if its choices have no model."""
    form = random.Random(f"{seed} frame")
    drawn = recipe(Draw(schema, types, seed))
    way = form.choices(("fixed", "open", "silent"), (5, 4, 1))[0]
    places = range(len(drawn.inputs) + len(drawn.inside))
    known = {place for place in places if place not in drawn.fed and form.random() < (0.3 if place else 0.05)}
    known |= set(drawn.known)
    known -= {place for place, value in enumerate(drawn.inputs) if isinstance(value, list)}
    opset = form.choice(opsets)
    model = built(drawn, schema.name, opset, way, known, schema.domain)
    feeds = [fed(drawn, known)]
    turns = 0 if way == "fixed" else form.choice((0, 1, 2))
    for turn in range(1, turns + 1):
        other = recipe(Draw(schema, types, seed, turn))
        if fits(drawn, other, known):
            feeds.append(fed(other, known))
    return Case(schema.name, schema.since_version, opset, types, seed, model, feeds, drawn, way)


def fits(one: Drawn, other: Drawn, known: set[int]) -> bool:
    """Return whether the other's operands can be given to the one's model: same attributes, ranks and operands in the file."""

    def form(drawn: Drawn) -> Any:
        ranks = [getattr(value, "ndim", type(value)) for value in drawn.inputs]
        return ranks, {name: attribute_key(value) for name, value in drawn.attributes.items()}, drawn.outputs

    def same(place: int) -> bool:
        a, b = one.inputs[place], other.inputs[place]
        if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
            return a is b
        return a.shape == b.shape and (a.dtype.kind == "f" or bool(np.array_equal(a, b)))

    return form(one) == form(other) and not one.inside and all(same(place) for place in known)
