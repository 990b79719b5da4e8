"""What a session's plan does on this machine. The public names are those of `triune`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

from triune._text import html_table, short

__all__ = [
    "PlannedCommand",
    "PlannedMap",
    "PlannedOperator",
    "PlannedPart",
    "PlannedStrips",
    "PlannedValue",
    "SessionPlan",
    "plan_of",
]

Place = Literal["workspace", "output", "strip"]


class PlannedValue(NamedTuple):
    """A result of a planned operator."""

    name: str
    """Its name in the model, or that which planning gave it."""
    dtype: str
    """The element type by numpy's name."""
    shape: tuple[int, ...]
    """Its extents, in the model's order of axes."""


class PlannedMap(NamedTuple):
    """A feature map's place in the workspace, and when it is its own."""

    offset: int
    """First byte."""
    bytes: int
    """Size."""
    first: int
    """Number of the first command that touches it."""
    last: int
    """Number of the last one."""


class PlannedStrips(NamedTuple):
    """Commands that run strip by strip: all of them on some rows before the next rows' turn, with the same results.

    A strip is a task of one thread. Runs that are profiled, and those under the sanitizer, run command by command.
    """

    first: int
    """Number of the first command."""
    last: int
    """Number of the last one."""
    rows: int
    """Rows that all of them are cut in."""
    each: int
    """Rows of a strip; the last one may have less."""

    @property
    def strips(self) -> int:
        """How many strips there are."""
        return -(-self.rows // self.each)


@dataclass(frozen=True)
class PlannedCommand:
    """A command: one call of a kernel, which threads may share, and where its output lies."""

    number: int
    """Its position in the part's commands."""
    name: str
    """Such as ``qconv``; docs/command-set.md says what each computes."""
    method: str | None
    """How a convolution is computed: ``direct`` (a matrix product whose rows are read where they lie), ``gather`` (one whose
    rows are gathered first), ``rows`` (one whose windows are read from rows of the map that are copied first), ``planes``
    (one whose rows are neighbours in each plane of a picture), ``depthwise``, ``winograd`` or ``plain``. None of other commands
    and of convolutions of 16-bit integers."""
    place: Place
    """``workspace``; ``output``: in the caller's array, unless it is off a boundary of 8 bytes or read by a later command, or the
    sanitizer is on; ``strip``: in the scratch of the thread that computes a strip, for as long as that takes."""
    offset: int | None
    """The output's first byte in the workspace; None where it does not lie there."""
    output: str | None
    """The output that it is, or is a part of: the model's, or the stage's; None where it is none."""
    bytes: int
    """From its first element to its last: what lies between a part of a map and the next is counted."""
    first: int | None
    """Number of the first command that touches the feature map that it lies in; None outside of the workspace."""
    last: int | None
    """Number of the last one."""


@dataclass(frozen=True)
class PlannedOperator:
    """An operator as it runs, with those that are fused into it."""

    name: str
    """The node's name in the model; ``outputs`` for copies of what lies elsewhere to outputs."""
    kind: str
    """The operator, such as ``Conv``."""
    made_of: tuple[tuple[str, str], ...]
    """Name and operator of the model's own that end with it, in the model's order: all between its results and the values
    before them that other planned operators read or make. What is computed of constants and extents alone is left out. Empty
    where its result is no value of the model's, as within a composite operator."""
    part_of: tuple[str, str] | None
    """Name and operator of the model's composite operator that it is a part of; None if there is none, or it has no commands."""
    inputs: tuple[str, ...]
    """Names of its operands, without constants."""
    outputs: tuple[PlannedValue, ...]
    """Its results, of which types and extents are known."""
    commands: tuple[PlannedCommand, ...]
    """In order. None where it only changes how its operand is seen, or others compute it, as those that make a Concat's
    parts, or a sum that reads a product."""


@dataclass(frozen=True)
class PlannedPart:
    """A program, and what the host runs behind it."""

    map_bytes: int
    """Bytes of the workspace that feature maps take, at places that those alive at one time do not share."""
    lower_bound: int
    """What no plan can do without: the most bytes of feature maps that are alive at one time, at least."""
    border_bytes: int
    """Bytes of inputs and outputs."""
    constant_bytes: int
    """Bytes of biases, factors, tables and the like."""
    scratch_bytes: int
    """Bytes that kernels work in beside the feature maps, all threads together; the session's parts share them."""
    operators: tuple[PlannedOperator, ...]
    """In the order of execution."""
    maps: tuple[PlannedMap, ...]
    """The feature maps; those of results with place ``strip``, too, whose bytes are used where runs are profiled."""
    strips: tuple[PlannedStrips, ...]
    """The commands that run strip by strip. All others compute all of their output, the whole batch, before the next one
    begins."""
    hosted: tuple[tuple[str, str], ...]
    """Name and operator of what the host runs behind the program, as extents of what follows depend on it."""

    @property
    def commands(self) -> tuple[PlannedCommand, ...]:
        """The commands of all operators, in order."""
        return tuple(command for operator in self.operators for command in operator.commands)

    @property
    def alive(self) -> tuple[int, ...]:
        """Bytes of feature maps that are alive at each command."""
        live = [0] * len(self.commands)
        for each in self.maps:
            for command in range(each.first, min(each.last + 1, len(live))):
                live[command] += each.bytes
        return tuple(live)


@dataclass(frozen=True)
class SessionPlan:
    """What a session does for inputs of some shapes, by `Session.plan`. Text of it is a table."""

    isa: str
    """The instruction set that kernels use at most, by the name that ``TRIUNE_ISA`` takes."""
    threads: int
    """Threads that share the work of a command, where it has enough, the caller's included."""
    workspace_bytes: int
    """Bytes of the memory that all plans of the session share: feature maps, and room for inputs and outputs that cannot be
    used where they are."""
    weight_bytes: int
    """Bytes of weights, as the model has them; 0 for those that are only made to be packed."""
    packed_bytes: int
    """Bytes of weights in the order of the kernels (float32, and integers of 8 bits), once for all plans of the session and
    its clones."""
    table_bytes: int
    """Bytes of large constants that commands read as they are, such as embeddings."""
    parts: tuple[PlannedPart, ...]
    """One program; of a model with extents that depend on data a part for each stage, as it ran last, without operators where
    it has not run yet. Networks within networks (If, Loop, Scan) are `PlannedPart.hosted`."""

    def to_dict(self) -> dict[str, Any]:
        """Return dicts, lists, texts and numbers: what ``triune inspect --plan --json`` prints, with the bytes that are
        `alive` at each command of a part."""
        found = asdict(self)
        for part, own in zip(found["parts"], self.parts, strict=True):
            part["maps"] = [each._asdict() for each in own.maps]
            part["strips"] = [{**each._asdict(), "strips": each.strips} for each in own.strips]
            part["alive"] = list(own.alive)
            part["hosted"] = _named(own.hosted)
            for operator, of in zip(part["operators"], own.operators, strict=True):
                operator["outputs"] = [value._asdict() for value in of.outputs]
                operator["made_of"] = _named(of.made_of)
                operator["part_of"] = _named([of.part_of])[0] if of.part_of else None
        return found

    def __str__(self) -> str:
        """Return a table: a line per command, then strips and memory."""
        lines = []
        for number, part in enumerate(self.parts):
            if len(self.parts) > 1:
                lines.append(f"stage {number}" if part.operators else f"stage {number}: nothing compiled yet")
            if part.operators:
                rows = [_HEAD, *_rows(part)]
                widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD) - 1)]
                lines += [_line(row, widths) for row in rows]
                lines += ["", *(_strips(each) for each in part.strips), *_memory(part)]
            lines += [f"{'on the host':<12} {kind} {short(name)}" for name, kind in part.hosted]
            lines.append("")
        return "\n".join([*lines, *self._totals()])

    def _totals(self) -> Iterator[str]:
        from triune.profiling._table import size

        yield f"{'workspace':<12} {size(self.workspace_bytes)}, shared by all plans of the session"
        weights = f"{size(self.weight_bytes)} in the model, {size(self.packed_bytes)} packed for the kernels"
        yield f"{'weights':<12} {weights}{f', {size(self.table_bytes)} in tables' if self.table_bytes else ''}"
        count = "1 thread" if self.threads == 1 else f"{self.threads} threads at most"
        yield f"{'computed by':<12} {count}, by kernels for {self.isa} at most"

    def __repr__(self) -> str:
        """Return how many commands and bytes there are."""
        commands = sum(len(part.commands) for part in self.parts)
        return f"<triune.SessionPlan {commands} commands, {self.workspace_bytes} bytes, {self.threads} threads>"

    def _repr_html_(self) -> str:
        rows = [row for part in self.parts for row in _rows(part)]
        return html_table(_HEAD, rows, repr(self))


_HEAD = ("at", "command", "how", "bytes", "place", "alive", "operator: result")


def _named(pairs: Any) -> list[dict[str, str]]:
    return [{"name": name, "kind": kind} for name, kind in pairs]


def _rows(part: PlannedPart) -> Iterator[tuple[str, ...]]:
    from triune.profiling._table import size

    for operator in part.operators:
        text = _text(operator)
        if not operator.commands:
            yield ("", "", "", "", "", "", text)
        for command in operator.commands:
            alive = "" if command.first is None else f"{command.first}–{command.last}"
            place = f"+{command.offset}" if command.place == "workspace" else command.output or command.place
            yield (
                str(command.number),
                command.name,
                command.method or "",
                size(command.bytes),
                place,
                alive,
                text if command is operator.commands[0] else "…",
            )


def _text(operator: PlannedOperator) -> str:
    results = ", ".join(f"{value.dtype} ({', '.join(map(str, value.shape))})" for value in operator.outputs)
    kinds = [kind for _, kind in operator.made_of]
    fused = f" = {' + '.join(kinds)}" if kinds not in ([], [operator.kind]) else ""
    part = f" in {operator.part_of[1]} {operator.part_of[0]}" if operator.part_of else ""
    return short(f"{operator.kind} {operator.name}: {results}{fused}{part}")


def _line(row: tuple[str, ...], widths: list[int]) -> str:
    right = (0, 3, 4)
    cells = [
        text.rjust(width) if column in right else text.ljust(width)
        for column, (text, width) in enumerate(zip(row[:-1], widths, strict=True))
    ]
    return "  ".join([*cells, row[-1]])


def _strips(strips: PlannedStrips) -> str:
    commands = f"commands {strips.first} to {strips.last}"
    return f"{'strips':<12} {commands} in {strips.strips} strips of {strips.each} rows of {strips.rows}"


def _memory(part: PlannedPart) -> Iterator[str]:
    from triune.profiling._table import size

    alive = part.alive
    peak = max(alive, default=0)
    where = f", most of them alive at command {alive.index(peak)}: {size(peak)}" if peak else ""
    total = size(sum(each.bytes for each in part.maps))
    yield f"{'feature maps':<12} {size(part.map_bytes)} for {len(part.maps)} of {total} in all{where}"
    yield f"{'border':<12} {size(part.border_bytes)} of inputs and outputs"
    yield f"{'constants':<12} {size(part.constant_bytes)} of biases, factors and tables"
    yield f"{'scratch':<12} {size(part.scratch_bytes)} for kernels"


def plan_of(native: Mapping[str, Any]) -> SessionPlan:
    """Return the plan that the core tells of."""
    return SessionPlan(**{**native, "parts": tuple(_part(part) for part in native["parts"])})


def _part(native: Mapping[str, Any]) -> PlannedPart:
    maps = tuple(PlannedMap(offset, size, first, end - 1) for offset, size, first, end in native["maps"])
    operators, number = [], 0
    for operator in native["operators"]:
        values = tuple(PlannedValue(name, dtype, tuple(shape)) for name, dtype, shape in operator["outputs"])
        commands = []
        for name, method, place, at, size in operator["commands"]:
            offset = at if place == "workspace" else None
            output = native["output_names"][at] if place == "output" else None
            own = next((each for each in maps if offset is not None and _holds(each, offset, number)), None)
            first, last = (None, None) if own is None else (own.first, own.last)
            commands.append(PlannedCommand(number, name, method, place, offset, output, size, first, last))
            number += 1
        operators.append(
            PlannedOperator(
                operator["name"],
                operator["kind"],
                tuple(operator["made_of"]),
                operator["part_of"],
                tuple(operator["inputs"]),
                values,
                tuple(commands),
            )
        )
    strips = tuple(PlannedStrips(first, end - 1, rows, each) for first, end, rows, each in native["strips"])
    hosted = tuple(native["hosted"])
    sizes = {
        key: native[key] for key in ("map_bytes", "lower_bound", "border_bytes", "constant_bytes", "scratch_bytes")
    }
    return PlannedPart(operators=tuple(operators), maps=maps, strips=strips, hosted=hosted, **sizes)


def _holds(own: PlannedMap, offset: int, command: int) -> bool:
    return own.offset <= offset < own.offset + own.bytes and own.first <= command <= own.last
