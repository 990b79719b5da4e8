"""What a session's operators took on this machine. The public names are those of `triune`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from triune._text import html_table, short

__all__ = ["OperatorTime", "SessionProfile"]


class OperatorTime(NamedTuple):
    """What an operator took in a profiled run."""

    name: str
    """The node's name in the model."""
    kind: str
    """The operator, such as ``Conv``."""
    seconds: float
    """Wall time, the mean of the profiled runs."""


@dataclass(frozen=True)
class SessionProfile:
    """Wall times of a session's operators on this machine, by `Session.profile`. Text of it is a table."""

    operators: tuple[OperatorTime, ...]
    """In the order of execution. What was fused into others, or only changes how an operand is seen, is left out."""
    runs: int
    """How many runs the means are of."""

    @property
    def seconds(self) -> float:
        """What a run takes, all operators together: the sum of their mean wall times, in seconds, without what lies between
        them."""
        return sum(each.seconds for each in self.operators)

    def kinds(self) -> dict[str, float]:
        """Return the seconds of each kind of operator (``Conv``, …), most first. Their sum is `seconds`."""
        sums: dict[str, float] = {}
        for each in self.operators:
            sums[each.kind] = sums.get(each.kind, 0.0) + each.seconds
        return dict(sorted(sums.items(), key=lambda item: -item[1]))

    def __str__(self) -> str:
        """Return a table: a line per operator, then one per kind."""
        lines = [f"{'ms':>10} {'share':>6}  operator"]
        lines += [self._line(each.seconds, f"{each.kind} {short(each.name)}") for each in self.operators]
        lines += ["", *(self._line(seconds, kind) for kind, seconds in self.kinds().items())]
        return "\n".join([*lines, self._line(self.seconds, f"all, mean of {self.runs} runs")])

    def _line(self, seconds: float, text: str) -> str:
        return f"{seconds * 1e3:10.4f} {seconds / (self.seconds or 1):6.1%}  {text}"

    def __repr__(self) -> str:
        """Return operators, runs and time."""
        return f"<triune.SessionProfile {len(self.operators)} operators, {self.runs} runs: {self.seconds * 1e3:.3f} ms>"

    def _repr_html_(self) -> str:
        rows = [(f"{each.seconds * 1e3:.4f}", each.kind, short(each.name)) for each in self.operators]
        return html_table(("ms", "operator", "name"), rows, repr(self))
