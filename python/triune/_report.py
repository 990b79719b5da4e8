"""What a compilation came to: operators and work per side, why operators stayed on the host, what crosses, what comes out.

The public names are `triune.Compilation` and `triune.CompileReport`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import PosixPath
from typing import TYPE_CHECKING

from triune.errors import FileError

if TYPE_CHECKING:
    from triune import _native
    from triune._model_info import Spared
    from triune.axelera.runtime import Connection, Context

__all__ = ["Compilation", "CompileReport"]

ENOUGH = 0.95
"""The device's share of the multiply-accumulates below which compilation warns."""


@dataclass(frozen=True)
class Side:
    """Operators on one side, as they run: after folding and fusion, quantizers apart."""

    operators: int
    macs: int
    """Their multiply-accumulates with weights or between matrices, per image."""


@dataclass(frozen=True)
class Stayed:
    """An operator that stayed on the host."""

    node: str
    """Its name in the model."""
    op: str
    macs: int
    reason: str


@dataclass(frozen=True)
class Crossing:
    """A tensor that crosses between host and device in a run."""

    name: str
    to_device: bool
    segment: int
    """Which of the device's segments takes it, or gave it last; from 0."""
    bytes: int
    """Of its integers without padding, per image."""


@dataclass(frozen=True)
class Output:
    """What the model gives."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    """In the model's order of axes, of one image."""
    integers: str | None
    """The dtype of the integers that it is dequantized from; None where the host computes it in reals."""
    scale: float | None
    zero_point: int | None


_REALS = "it computes on float32"
"""How the reason of an operator begins that is not quantized."""


def _with_choices(stayed: Sequence[Stayed], spared: Callable[[], Spared]) -> tuple[Stayed, ...]:
    """Give operators that are in float because somebody chose so that as their reason."""
    if not any(each.reason.startswith(_REALS) for each in stayed):
        return tuple(stayed)
    chosen = spared()
    return tuple(
        replace(each, reason=_REALS + why)
        if each.reason.startswith(_REALS) and (why := chosen.why(each.node))
        else each
        for each in stayed
    )


@dataclass(frozen=True)
class CompileReport:
    """What runs where, why, and what crosses."""

    target: str
    device: Side
    host: Side
    segments: int
    """How often the device begins in a run; between its segments the host computes."""
    share: float
    """The device's share of the multiply-accumulates, 0 to 1."""
    stayed: tuple[Stayed, ...]
    crossings: tuple[Crossing, ...]
    outputs: tuple[Output, ...]
    together: tuple[str, str] | None = None
    """A node that takes images of a batch together, and its operator; None if there is none, or the batch is fixed."""

    @classmethod
    def of(cls, target: str, found: _native.CompileReport, spared: Callable[[], Spared]) -> CompileReport:
        """Return what the core found: its tuples as `Side`, `Stayed`, `Crossing` and `Output`. `target` is the device's name.

        `spared` returns what quantization was told to leave in float, which is why it is; it is asked where anything is.
        """
        none = (None, None, None)
        return cls(
            target=target,
            device=Side(*found.device),
            host=Side(*found.host),
            segments=found.segments,
            share=found.share,
            stayed=_with_choices([Stayed(*each) for each in found.stayed], spared),
            crossings=tuple(Crossing(*each) for each in found.crossings),
            outputs=tuple(
                Output(name, dtype, tuple(shape), *(quant or none)) for name, dtype, shape, quant in found.outputs
            ),
            together=found.together,
        )

    @property
    def warning(self) -> str | None:
        """What to say where less than 95 % of the multiply-accumulates are on the device; None elsewhere.

        It names the reason that keeps most of them on the host: the first of `reasons`.
        """
        if self.share >= ENOUGH:
            return None
        reason = self.reasons()[0]
        return (
            f"{1 - self.share:.1%} of the multiply-accumulates stay on the host, most of them because of "
            f"{reason[0]}: {reason[1]}"
        )

    @property
    def mixing(self) -> str | None:
        """What to say of a model that takes images of a batch together: a program computes each alone. None of others."""
        if self.together is None:
            return None
        node, operator = self.together
        return (
            f"node {node!r} ({operator}) takes the images of a batch together, and a program computes each alone, as the model "
            "does with a batch of one; to have them together, fix the batch in the file"
        )

    def reasons(self) -> list[tuple[str, str, int, int]]:
        """Return why operators stayed on the host: operator, reason, how many of them and their multiply-accumulates per
        image.

        One tuple for each pair of operator and reason, the most multiply-accumulates first, then the most operators; empty if
        all are on the device.
        """
        found: dict[tuple[str, str], tuple[int, int]] = {}
        for each in self.stayed:
            count, macs = found.get((each.op, each.reason), (0, 0))
            found[each.op, each.reason] = (count + 1, macs + each.macs)
        listed = [(op, reason, count, macs) for (op, reason), (count, macs) in found.items()]
        return sorted(listed, key=lambda row: (-row[3], -row[2]))

    def json(self) -> str:
        """Return all of it as JSON, indented by 2: an object with the fields of this class, those of lists as objects of
        theirs."""
        return json.dumps(asdict(self), indent=2)

    def table(self) -> str:
        """Return it as text for people: sides, reasons, crossings with their bytes per image, outputs with scale and zero
        point.

        Parts are separated by a blank line; that of the reasons is left out if no operator stayed on the host, and so is what
        `mixing` says.
        """
        from triune.profiling._table import compact, size

        total = self.device.macs + self.host.macs
        sides = [
            (name, str(side.operators), compact(side.macs), f"{side.macs / total:.1%}" if total else "")
            for name, side in ((self.target, self.device), ("host", self.host))
        ]
        parts = [_columns(("side", "operators", "MACs", "share"), sides)]
        if self.stayed:
            rows = [(op, str(count), compact(macs), reason) for op, reason, count, macs in self.reasons()]
            parts.append(_columns(("on the host", "count", "MACs", "reason"), rows))
        crossed = sum(each.bytes for each in self.crossings)
        into = sum(each.to_device for each in self.crossings)
        begins = "1 segment" if self.segments == 1 else f"{self.segments} segments with the host between"
        parts.append(
            f"{begins}; {into} tensors to the device and {len(self.crossings) - into} back cross per image, {size(crossed)}\n"
        )
        outputs = [
            (
                each.name,
                each.dtype,
                "x".join(str(extent) for extent in each.shape),
                "" if each.scale is None else f"{each.integers}, scale {each.scale:.6g}, zero point {each.zero_point}",
            )
            for each in self.outputs
        ]
        parts.append(_columns(("output", "dtype", "shape", "integers"), outputs))
        if self.mixing:
            parts.append(f"{self.mixing}\n")
        return "\n".join(parts)

    def __str__(self) -> str:
        """Return the table."""
        return self.table()


def _columns(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return rows under a head: the first column and the last begin left, those between end right."""
    lines = [tuple(head), *(tuple(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    last = len(head) - 1

    def cell(column: int, text: str) -> str:
        return text if column == last else text.ljust(widths[column]) if column == 0 else text.rjust(widths[column])

    return "".join("  ".join(cell(column, text) for column, text in enumerate(line)).rstrip() + "\n" for line in lines)


class Compilation(PosixPath):
    """The directory that a compilation wrote, and what it came to."""

    report: CompileReport
    """What runs where; only of the directory itself, not of paths that are made of it."""

    def connect(self, context: Context) -> Connection:
        """Reserve sub-devices of a virtual card of the device that the package was compiled for, whichever that is: as many
        as its batch.

        `context` is a `triune.axelera.runtime.Context`, which ends the connection with itself. Where `TRIUNE_CARDS` describes
        cards of the device, or of the vendor's other board with the same chip, it is one of these; else one that the package
        brings along, with settings that all packages of its device have in common.

        Raises subclasses of `triune.axelera.runtime.Error`: `DeviceInUse` if too few sub-devices are free.
        `triune.errors.FileError` or `ArgumentError` if no package can be read there, as of Icraft's documents, whose boards
        `triune.icraft.xrt.Device.Open` opens.

        Examples:
            >>> import triune
            >>> from triune.axelera.runtime import Context
            >>> from triune.models import DIGITS_INT8
            >>> package = triune.compile(DIGITS_INT8, target="zg330", output="digits")
            >>> with Context() as context:
            ...     model = context.load_model(package / "model.json")
            ...     instance = package.connect(context).load_model_instance(model)
        """
        from triune import _native
        from triune.axelera.runtime._bring import connect

        path = self / "model.json"
        if not path.exists() and self.is_dir():
            raise FileError(
                f"{self}: there is no model.json, and cards take packages; boards for Icraft's networks are opened by "
                "triune.icraft.xrt.Device.Open"
            )
        return connect(context, _native.Package(path))
