"""From JSON to objects. The way back is each object's ``_json``.

A value that is written several times, as files do, becomes one object; a second description that differs is an error.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from types import TracebackType
from typing import Any

from triune._kinds import ICRAFT, JSON, UNKNOWN, kind_of_bytes
from triune.icraft._xir.arrays import NormratioArray, scale_array
from triune.icraft._xir.attributes import kinds
from triune.icraft._xir.distribution import MergedAxisDistr
from triune.icraft._xir.enums import Framework, ZhugeTarget_Chips
from triune.icraft._xir.errors import Error, native_errors
from triune.icraft._xir.immediates import Bool, FloatImm, IntImm, ScalarImm
from triune.icraft._xir.layout import Layout
from triune.icraft._xir.network import Network
from triune.icraft._xir.objects import ObjectRef, from_plain
from triune.icraft._xir.operation import OPERATORS, Operation
from triune.icraft._xir.operators import AlignedUnit
from triune.icraft._xir.places import (
    BuyiTarget,
    ChunkMem,
    CompileTarget,
    CustomTarget,
    ExternalMem,
    FPGATarget,
    HostMem,
    HostTarget,
    MemType,
    OnChipMem,
    WolongTarget,
    ZhugeTarget,
)
from triune.icraft._xir.scalars import ScalarType, scalar_type
from triune.icraft._xir.types import (
    BaseQuantizedType,
    CalibratedType,
    NormalizedQuantizedType,
    NormalizedType,
    QuantizedType,
    TensorType,
)
from triune.icraft._xir.values import Params, Value

__all__ = ["Reader", "network_of"]

_NETWORK_KEYS = frozenset(
    (
        "_type_key",
        "ai_target",
        "framework_kind",
        "framework_version",
        "icraft_version",
        "icraft_xir_version",
        "name",
        "ops",
        "params_bytes",
        "params_md5",
        "tags",
    )
)
_OPERATION_KEYS = frozenset(("_type_key", "compile_target", "inputs", "name", "op_id", "outputs", "tags"))
_MEMS: dict[str, Callable[..., MemType]] = {"hostm": HostMem, "ocm": OnChipMem, "etm": ExternalMem, "chunk": ChunkMem}
_TARGETS: dict[str, Callable[[], CompileTarget]] = {
    "hostt": HostTarget,
    "fpgat": FPGATarget,
    "customt": CustomTarget,
    "buyit": BuyiTarget,
    "wolongt": WolongTarget,
}
# 3.x: the format of these; a later one may say things that nobody here understands.
_NEWEST_MAJOR = 3


def network_of(text: str | bytes, where: str) -> Network:
    """Return the network of a JSON text. Raises Error, which begins with `where`, if it is none."""
    try:
        document = json.loads(text, parse_constant=_no_number)
    except RecursionError:
        raise Error(f"{where}: it is nested too deeply to be a network") from None
    except ValueError as error:
        kind = kind_of_bytes(text[:4096].encode(errors="replace") if isinstance(text, str) else text[:4096])
        if kind not in (ICRAFT, JSON, UNKNOWN):
            raise Error(
                f"{where}: expected a network in JSON, got {kind.what}: {kind.cure.format(path=where)}"
            ) from None
        raise Error(f"{where}: it is not JSON: {error}") from None
    reader = Reader(where)
    try:
        return reader.network(document)
    except RecursionError:
        raise Error(f"{where}: it is nested too deeply to be a network") from None


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON; the format writes it as a string")


class Reader:
    """Reads one document."""

    def __init__(self, where: str) -> None:
        """Begin; `where` is what messages begin with."""
        self._path: list[Any] = [where]
        self._values: dict[int, tuple[Value, Any]] = {}

    # ---- messages

    def _at(self, *what: object) -> _At:
        """Name what is read, for messages."""
        return _At(self._path, what)

    def _dictionary(self, document: Any) -> dict[str, Any]:
        if not isinstance(document, dict):
            raise Error(f"an object is needed, not {_short(document)}")
        return document

    def _list(self, document: Any) -> list[Any]:
        if not isinstance(document, list):
            raise Error(f"a list is needed, not {_short(document)}")
        return document

    def _field(self, document: dict[str, Any], key: str, kind: type, default: Any = None) -> Any:
        value = document.get(key, default)
        if value is None:
            raise Error(f"{key} is missing")
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise Error(f"{key}: {_short(value)} is no {_KINDS[kind]}")
        return value

    # ---- the network

    def network(self, document: Any) -> Network:
        """Return a network. Raises Error if the document is none."""
        with self._at("the network"):
            document = self._dictionary(document)
            key = document.get("_type_key")
            if key != "icraft::xir::Network":
                raise Error(f"_type_key is {_short(key)}, not 'icraft::xir::Network'")
            network = Network.Init()
            version = self._field(document, "icraft_xir_version", str, network._icraft_xir_version)
            self._check_version(version)
            network._icraft_xir_version = version
            network._icraft_version = self._field(document, "icraft_version", str, "")
            network._framework_version = self._field(document, "framework_version", str, "")
            kind = self._field(document, "framework_kind", str, "PYTORCH")
            network._framework_kind = Framework.__members__.get(kind, kind)
            network._name = self._field(document, "name", str, "")
            network._params_bytes = self._field(document, "params_bytes", int, 0)
            if network._params_bytes < 0:
                raise Error(f"params_bytes: {network._params_bytes} is no size")
            network._params_md5 = self._field(document, "params_md5", str, "")
            network._says_target = "ai_target" in document
            if network._says_target:
                network._ai_target = self.target(document["ai_target"])
            network._tags = self.tags(document.get("tags", {}))
            network._extra = {name: value for name, value in document.items() if name not in _NETWORK_KEYS}
            ops = self._list(document.get("ops"))
        made = []
        numbers: set[int] = set()
        for place, one in enumerate(ops):
            op = self.operation(one, place)
            if op._op_id in numbers:
                raise Error(f"{self._path[0]}: operation {op._op_id} is there twice")
            numbers.add(op._op_id)
            made.append(op)
        network._take(made)
        return network

    def _check_version(self, version: str) -> None:
        major = version.lstrip("v").split(".")[0]
        if not major.isdigit() or int(major) > _NEWEST_MAJOR:
            raise Error(f"icraft_xir_version {version!r} is not known; up to {_NEWEST_MAJOR}.x can be read")

    def tags(self, document: Any) -> dict[str, ObjectRef]:
        """Return tags."""
        return {key: from_plain(value) for key, value in self._dictionary(document).items()}

    # ---- operations

    def operation(self, document: Any, place: int | None = None) -> Operation:
        """Return an operation, its values bound to it. Raises Error if the document is none."""
        with self._at("operation", *(() if place is None else (f"at place {place}",))):
            document = self._dictionary(document)
            key = self._field(document, "_type_key", str)
            number = self._field(document, "op_id", int)
        with self._at(f"operation {number} ({key})"):
            op = Operation.Create(key)
            if type(op) is not Operation and key != op._json_key():
                # A former name: read as what it is called now.
                key = op._json_key()
            op._op_id = number
            op._name = self._field(document, "name", str, "")
            op._compile_target = self.target(document.get("compile_target", "@hostt"))
            op._tags = self.tags(document.get("tags", {}))
            for index, one in enumerate(self._list(document.get("inputs"))):
                with self._at(f"input {index}"):
                    op._inputs.append(Value._null() if one is None else self.value(one))
            outputs = []
            for index, one in enumerate(self._list(document.get("outputs"))):
                with self._at(f"output {index}"):
                    value = self.value(one)
                    if value._op is not None or isinstance(value, Params):
                        raise Error(f"value {value.v_id} is something else's already")
                    outputs.append(value)
            op._bind_outputs(outputs)
            self._attributes(op, document)
        return op

    def _attributes(self, op: Operation, document: dict[str, Any]) -> None:
        for name, given in document.items():
            if name in _OPERATION_KEYS:
                continue
            with self._at(f"attribute {name}"):
                if name == "lambda" and "lambda_" in op._table:
                    name = "lambda_"
                attribute = op._table.get(name)
                op._attributes[name] = self.anything(given) if attribute is None else attribute.kind.read(given, self)

    def anything(self, document: Any) -> Any:
        """Return the value of an attribute of which nothing is known; texts stay texts."""
        if isinstance(document, list):
            return [self.anything(one) for one in document]
        if not isinstance(document, dict):
            return document
        key = document.get("_type_key")
        if key in ("icraft::xir::Value", "icraft::xir::Params"):
            return self.value(document)
        if key == "icraft::xir::TensorType":
            return self.tensor_type(document)
        if key in _ELEMENTS:
            return self.element(document)
        if key in _IMMEDIATES:
            return self.immediate(document)
        if key in OPERATORS:
            return self.operation(document)
        return {name: self.anything(value) for name, value in document.items()}

    # ---- values

    def value(self, document: Any) -> Value:
        """Return a value, the same one each time it is described. Raises Error if descriptions differ."""
        document = self._dictionary(document)
        number = self._field(document, "v_id", int)
        known = self._values.get(number)
        if known is not None:
            value, before = known
            if before is not document and before != document:
                differ = sorted(key for key in before.keys() | document.keys() if before.get(key) != document.get(key))
                raise Error(f"value {number} is described in two ways: {', '.join(differ)} differ")
            return value
        if not -(1 << 63) <= number < 1 << 63:
            raise Error(f"v_id {number} does not fit 64 bits")
        key = self._field(document, "_type_key", str)
        if key not in ("icraft::xir::Value", "icraft::xir::Params"):
            raise Error(f"value {number}: _type_key is {key!r}")
        value = (Params if key.endswith("Params") else Value).Init()
        with self._at(f"value {number}"):
            value._v_id = number
            value._name = self._field(document, "name", str, "")
            value._tags = self.tags(document.get("tags", {}))
            value._mtype = self.mem(document.get("mtype", "@hostm"))
            with self._at("dtype"):
                value._dtype = self.tensor_type(document.get("dtype"))
            if isinstance(value, Params):
                value._allow_no_data = self._field(document, "_allow_no_data", bool, False)
        self._values[number] = (value, document)
        return value

    def immediate(self, document: Any) -> ScalarImm:
        """Return a number with a type of its own."""
        document = self._dictionary(document)
        kind = _IMMEDIATES.get(document.get("_type_key"))
        if kind is None:
            raise Error(f"{_short(document)} is no number")
        if kind is Bool:
            return Bool(self._field(document, "value", bool))
        value = document.get("value")
        value = float(value) if isinstance(value, str) else value
        dtype = self.element(document.get("dtype"))
        made: ScalarImm = kind(value, dtype, self.mem(document.get("mtype", "@hostm")))
        return made

    def aligned_unit(self, document: Any) -> AlignedUnit:
        """Return axes and multiples."""
        document = self._dictionary(document)
        return AlignedUnit(self._list(document.get("index")), self._list(document.get("unit")))

    # ---- types and places

    def mem(self, text: Any) -> MemType:
        """Return where something lies."""
        from triune._native import xir_parse_mem

        with self._at("mtype"), native_errors(""):
            kind, numbers = xir_parse_mem(_text(text))
            return _MEMS[kind](*numbers)

    def target(self, text: Any) -> CompileTarget:
        """Return what runs something."""
        from triune._native import xir_parse_target

        with self._at("target"), native_errors(""):
            kind, chip = xir_parse_target(_text(text))
            return ZhugeTarget(ZhugeTarget_Chips[f"ZG{chip}"]) if kind == "zhuget" else _TARGETS[kind]()

    def tensor_type(self, document: Any) -> TensorType:
        """Return a tensor's type."""
        document = self._dictionary(document)
        key = document.get("_type_key")
        if key != "icraft::xir::TensorType":
            raise Error(f"_type_key is {_short(key)}, not 'icraft::xir::TensorType'")
        element = self.element(document.get("element_dtype"))
        shape = self._list(document.get("shape"))
        if not all(isinstance(extent, int) and not isinstance(extent, bool) for extent in shape):
            raise Error(f"shape: {_short(shape)} are no whole numbers")
        made = TensorType._of(element, shape, Layout._read(_text(document.get("layout"))))
        texts = self._list(document.get("merged_distrs", []))
        made._merged_distrs = [MergedAxisDistr._read(_text(text)) for text in texts]
        return made

    def element(self, document: Any) -> ScalarType:
        """Return the type of an element."""
        if not isinstance(document, dict):
            return scalar_type(_text(document))
        key = document.get("_type_key")
        if key not in _ELEMENTS:
            raise Error(f"element_dtype: _type_key {_short(key)} is none of {', '.join(_ELEMENTS)}")
        made: ScalarType = _ELEMENTS[key].Init()
        assert isinstance(made, BaseQuantizedType)
        made._storage_dtype = scalar_type(_text(document.get("storage_dtype")))
        made._expressed_dtype = scalar_type(_text(document.get("expressed_dtype", "@fp(32)")))
        if isinstance(made, NormalizedType | NormalizedQuantizedType):
            made._normratio = NormratioArray._read(_text(document.get("normratio")))
        if isinstance(made, QuantizedType):
            made._scale = scale_array(_text(document.get("scale")))
            made._zero_points = self._points(document.get("zero_points", []))
        elif isinstance(made, NormalizedType):
            if "zero_points" in document:
                made._zero_points_of_file = self._points(document["zero_points"])
        elif isinstance(made, CalibratedType):
            made._min, made._max, made._sat = (self._reals(document, name) for name in ("min", "max", "sat"))
        return made

    def _points(self, document: Any) -> list[int]:
        points = self._list(document)
        if not all(isinstance(one, int) and not isinstance(one, bool) for one in points):
            raise Error(f"zero_points: {_short(points)} are no whole numbers")
        return points

    def _reals(self, document: dict[str, Any], key: str) -> list[float]:
        numbers: list[float] = kinds.reals.read(self._list(document.get(key, [])), self)
        return numbers


class _At:
    """What is being read, while it is: errors get to know."""

    def __init__(self, path: list[Any], what: tuple[object, ...]) -> None:
        self._path, self._what = path, what

    def __enter__(self) -> None:
        self._path.append(self._what)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        where, *inner = self._path
        self._path.pop()
        if isinstance(error, Error | TypeError | ValueError) and not (isinstance(error, Error) and error._says_where):
            places = ", ".join(" ".join(map(str, what)) for what in inner)
            located = Error(f"{where}: {places}: {error}")
            located._says_where = True
            raise located from None


_KINDS = {str: "string", int: "whole number", bool: "truth value"}
_ELEMENTS: dict[Any, Any] = {
    f"icraft::xir::{kind.__name__}": kind
    for kind in (CalibratedType, NormalizedType, QuantizedType, NormalizedQuantizedType)
}
_IMMEDIATES: dict[Any, Any] = {f"icraft::xir::{kind.__name__}": kind for kind in (IntImm, FloatImm, Bool)}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise Error(f"a string is needed, not {_short(value)}")
    return value


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
