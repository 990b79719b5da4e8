"""What became of a case: Triune's results beside ONNX Runtime's, or beside those of ONNX's reference where that has none."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
from drawing import Array, Case, Draw, Refused, Type, case, spelled
from microsoft import DOMAIN, schemas
from onnx import defs, numpy_helper
from onnx.reference import ReferenceEvaluator
from recipes import RECIPES

import triune

# ONNX Runtime refuses operator sets that are newer than its own unless it is told to read them.
os.environ.setdefault("ALLOW_RELEASED_ONNX_OPSET_ONLY", "0")

PRECISION = {
    "float32": 1e-6,
    "float64": 1e-12,
    "float16": 1e-3,
    "bfloat16": 8e-3,
    "complex64": 1e-6,
    "complex128": 1e-12,
}
Result = Any
BESIDES = range(13, 22)
"""Sets of ONNX's own operators beside those of ONNX Runtime."""


class Outcome(NamedTuple):
    """What became of a case."""

    kind: str
    """``equal`` (bits), ``within`` (the bound), ``loose`` (types and shapes, of random numbers), ``refused`` by Triune alone,
    ``none`` (nobody runs it), ``alone`` (Triune alone runs it), ``differ`` or ``crash``.
    """
    judge: str
    """Who had the results: ``ONNX Runtime``, ``reference``, or neither."""
    reason: str = ""


class Peer(NamedTuple):
    """Results of another runtime, or why it has none."""

    results: list[list[Result]] | None
    reason: str = ""


def by_onnxruntime(made: Case) -> Peer:
    """Run ONNX Runtime; nothing but its own errors is taken for a refusal."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    state = onnxruntime.capi.onnxruntime_pybind11_state
    errors = tuple(kind for kind in vars(state).values() if isinstance(kind, type) and issubclass(kind, Exception))
    try:
        session = onnxruntime.InferenceSession(made.model, options, providers=["CPUExecutionProvider"])
        return Peer([session.run(None, feeds) for feeds in made.feeds])
    except errors as error:
        return Peer(None, str(error))
    except RuntimeError as error:
        # What its bindings have no class for, as of types that numpy lacks.
        return Peer(None, str(error))


def by_reference(made: Case) -> Peer:
    """Run ONNX's reference, which is Python and ends in any error."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            evaluator = ReferenceEvaluator(onnx.load_from_string(made.model))
            return Peer([list(evaluator.run(None, dict(feeds))) for feeds in made.feeds])
    except Exception as error:
        return Peer(None, f"{type(error).__name__}: {error}")


def circumstances(made: Case, feeds: Mapping[str, Any], mine: Result, theirs: Result) -> str:
    """Return what is special about a run whose results differ, by which a reason for that is known."""
    said = ""
    graph = onnx.load_from_string(made.model).graph
    attributes = [each for node in graph.node for each in node.attribute]
    if any(each.name == "dilations" and max(each.ints, default=1) > 1 for each in attributes):
        said += ", dilated"
    if any(each.name == "auto_pad" and each.s.startswith(b"SAME") for each in attributes):
        said += ", under SAME"
    if any(each.name == "group" and each.i > 1 for each in attributes):
        said += ", in groups"
    padded = any((each.name == "pads" and any(each.ints)) or each.name == "auto_pad" for each in attributes)
    weights = [numpy_helper.to_array(each) for each in graph.initializer]
    weights += [
        feeds[name] for node in graph.node for name in node.input[1:2] if isinstance(feeds.get(name), np.ndarray)
    ]
    if padded and any(each.dtype.kind == "f" and not np.isfinite(each).all() for each in weights):
        said += ", with weights that are not finite on borders"
    known = [each.data_type for each in graph.initializer]
    if onnx.TensorProto.FLOAT16 in [*known, *(each.type.tensor_type.elem_type for each in graph.input)]:
        said += ", of float16"
    given = [array for array in feeds.values() if isinstance(array, np.ndarray)]
    if any(array.dtype.kind in "OUT" for array in given):
        said += ", of strings"
    if any(array.size == 0 for array in given):
        said += ", of nothing"
    reals = [array.astype(np.float64) for array in given if array.dtype.kind == "f"]
    if any((np.abs(array[np.isfinite(array)]) >= 1e29).any() for array in reals):
        said += ", of huge numbers"
    if (
        isinstance(theirs, np.ndarray)
        and isinstance(mine, np.ndarray)
        and mine.shape == theirs.shape
        and mine.dtype.kind in "iu"
    ):
        limits = np.iinfo(mine.dtype)
        apart = mine != theirs
        if np.isin(theirs[apart], [limits.min, limits.max]).all():
            said += ", at limits"
    return said


def apart(mine: Result, theirs: Result, made: Case) -> tuple[str, str]:
    """Return ``equal``, ``within`` or ``differ``, and what differs."""
    if made.op == "Optional" and isinstance(theirs, list) and len(theirs) == 1 and not isinstance(mine, list):
        # The reference's optionals are lists of one.
        theirs = theirs[0]
    if isinstance(theirs, list):
        if not isinstance(mine, list) or len(mine) != len(theirs):
            return "differ", "another number of tensors in a list"
        kinds = [apart(own, other, made) for own, other in zip(mine, theirs, strict=True)]
        worst = [pair for pair in kinds if pair[0] == "differ"] or [pair for pair in kinds if pair[0] == "within"]
        return worst[0] if worst else ("equal", "")
    if theirs is None or mine is None:
        return ("equal", "") if mine is theirs else ("differ", "something against nothing")
    a, b = np.asarray(mine), np.asarray(theirs)
    if a.dtype != b.dtype and {a.dtype.kind, b.dtype.kind} - set("OUT"):
        return "differ", f"type {a.dtype} instead of {b.dtype}"
    if a.shape != b.shape:
        return "differ", f"rank {a.ndim} instead of {b.ndim}" if a.ndim != b.ndim else "other extents"
    if made.drawn.loose:
        return "equal", ""
    if a.dtype.kind == "V":
        # Types of ml_dtypes; what they hold is a real or a small whole number.
        a, b = a.astype(np.float32), b.astype(np.float32)
    if a.dtype.kind not in "fc":
        if a.dtype.kind in "OUT" or not made.drawn.steps:
            return ("equal", "") if np.array_equal(a, b) else ("differ", "other values")
        steps = np.abs(a.astype(np.int64) - b.astype(np.int64)).max(initial=0)
        return (
            ("equal", "")
            if steps == 0
            else ("within" if steps <= made.drawn.steps else "differ", f"{steps} steps apart")
        )
    if a.tobytes() == b.tobytes():
        return "equal", ""
    with np.errstate(all="ignore"):
        if (np.isnan(a) != np.isnan(b)).any():
            return "differ", "NaN on one side"
        infinite = np.isinf(a) | np.isinf(b)
        if (a[infinite] != b[infinite]).any():
            return "differ", "infinity on one side"
        plain = np.isfinite(a) & np.isfinite(b)
        wide: Any = np.complex128 if a.dtype.kind == "c" else np.float64
        x, y = a[plain].astype(wide), b[plain].astype(wide)
        precision = max((PRECISION.get(of.name.lower().replace("double", "float64"), PRECISION["float32"])
                         for of in precise(made)), default=1e-6)  # fmt: skip
        precision = max(precision, PRECISION.get(str(a.dtype), 1e-6))
        limit = made.drawn.bound * precision * (np.abs(y) + min(max(1.0, float(np.abs(y).max(initial=0))), 1e3))
        if (np.abs(x - y) <= limit).all():
            return "within", ""
        return "differ", "other values"


def precise(made: Case) -> Iterator[Type]:
    """Yield the types of reals that a case computes on."""
    for of in made.types.values():
        if of.name in ("FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE"):
            yield Type(of.kind, of.element)._replace()


def judged(made: Case, stage: Callable[[str], None] = lambda who: None) -> Outcome:
    """Run a case everywhere and say how it went; `stage` is told who is about to run."""
    stage("Triune")
    try:
        session = triune.Session(made.model)
        mine: list[list[Result]] | None = [session.run(feeds) for feeds in made.feeds]
        refusal = ""
    except triune.errors.Error as error:
        mine, refusal = None, str(error)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return Outcome("crash", "", f"{type(error).__name__}: {error}")
    stage("ONNX Runtime")
    peer, judge = by_onnxruntime(made), "ONNX Runtime"
    stage("reference")
    if mine is None:
        if peer.results is not None:
            return Outcome("refused", judge, refusal)
        return Outcome("refused", "reference", refusal) if by_reference(made).results else Outcome("none", "", refusal)
    if peer.results is not None:
        kind, reason = compared(mine, peer.results, made)
        if kind != "differ":
            return Outcome(kind, judge, reason)
        second = by_reference(made)
        if second.results is not None and compared(mine, second.results, made)[0] != "differ":
            return Outcome("differ", judge, f"{reason}; as the reference")
        return Outcome("differ", judge, reason)
    peer, judge = by_reference(made), "reference"
    if peer.results is None:
        return Outcome("alone", "", peer.reason)
    kind, reason = compared(mine, peer.results, made)
    return Outcome(kind, judge, reason)


def compared(mine: list[list[Result]], theirs: list[list[Result]], made: Case) -> tuple[str, str]:
    """Compare all runs."""
    worst = ("equal", "")
    for turn, (ours, others) in enumerate(zip(mine, theirs, strict=True)):
        if len(ours) != len(others):
            return "differ", "another number of results"
        for index, (own, other) in enumerate(zip(ours, others, strict=True)):
            kind, reason = apart(own, other, made)
            if kind == "differ":
                where = (f", result {index}" if index else "") + (", run again" if turn else "")
                return kind, reason + where + circumstances(made, made.feeds[turn], own, other)
            worst = (kind, reason) if kind == "within" else worst
    return worst


def summary(reason: str) -> str:
    """Return a reason without what differs from one case to the next."""
    reason = re.sub(r"node '[^']*'", "node", reason.split("\n")[0])
    reason = re.sub(r"\b(float|bfloat|uint|int)\d+\w*", r"\1…", reason)
    reason = re.sub(r"'[^']*'", "'…'", reason)
    reason = re.sub(r"-?\d+(\.\d+)?(e[+-]?\d+)?", "#", reason)
    reason = re.sub(r"\((#?,? ?)*\)|\[(#?,? ?)*\]|#(×#)+", "#", reason)
    return reason[:160]


class Entry(NamedTuple):
    """A version of an operator with a type that one of its parameters can have."""

    schema: Any
    parameter: str
    type: Type
    opsets: range


def called(schema: Any) -> str:
    """Return an operator's name, behind its domain unless that is ONNX's own."""
    return f"{schema.domain}.{schema.name}" if schema.domain else str(schema.name)


def entries(match: str = "") -> list[Entry]:
    """Return every operator, version, parameter and type that has a recipe; operators whose name has `match` in it."""
    history: dict[str, list[Any]] = {}
    every: list[Any] = [*defs.get_all_schemas_with_history(), *schemas()]
    for schema in every:
        if called(schema) in RECIPES and match in called(schema) and schema.domain in ("", DOMAIN):
            history.setdefault(called(schema), []).append(schema)
    found = []
    newest = defs.onnx_opset_version()
    for versions in history.values():
        versions.sort(key=lambda schema: schema.since_version)
        ends = [schema.since_version for schema in versions[1:]] + [newest + 1]
        for schema, end in zip(versions, ends, strict=True):
            opsets = range(schema.since_version, end) if not schema.domain else BESIDES
            pairs = [
                (one.type_param_str, spelled(text)) for one in schema.type_constraints for text in one.allowed_type_strs
            ]
            found += [Entry(schema, name, of, opsets) for name, of in pairs] or [Entry(schema, "", Type("", 0), opsets)]
    return found


def sample(of: list[Entry], seed: int) -> list[Entry]:
    """Return one type for each version of each operator."""
    versions: dict[tuple[str, int], list[Entry]] = {}
    for entry in of:
        versions.setdefault((called(entry.schema), entry.schema.since_version), []).append(entry)
    return [types[(seed * 7) % len(types)] for types in versions.values()]


def drawn(entry: Entry, seed: str) -> Case:
    """Return the case of an entry and a seed. Raises `Refused` where it has no model."""
    choice = Draw(entry.schema, {}, f"{seed} types")
    types = {one.type_param_str: choice.pick(*sorted(one.allowed_type_strs)) for one in entry.schema.type_constraints}
    chosen = {name: spelled(text) for name, text in types.items()}
    # One type for all that can be of it, more often than not: most operators take no mixtures.
    if choice.maybe(0.7):
        for one in entry.schema.type_constraints:
            same = [text for text in one.allowed_type_strs if spelled(text).element == entry.type.element]
            if same:
                chosen[one.type_param_str] = spelled(same[0])
    if entry.parameter:
        chosen[entry.parameter] = entry.type
    lists(chosen)
    return case(RECIPES[called(entry.schema)], entry.schema, chosen, entry.opsets, seed)


def lists(types: dict[str, Type]) -> None:
    """Give a list's tensors the type of those that go in or come out."""
    if "S" in types and "T" in types and types["S"].element:
        types["T"] = Type(types["T"].kind, types["S"].element)
    if "V" in types and "O" in types:
        inner = types["O"].kind.removeprefix("optional").lstrip("(") or "tensor"
        types["V"] = Type(inner, types["O"].element)


__all__ = ["Array", "Entry", "Outcome", "Refused", "called", "drawn", "entries", "judged", "sample", "summary"]
