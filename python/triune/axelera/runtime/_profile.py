"""What `ModelInstance.profile` returns: modelled cycles on the card, measured times on this machine."""

from __future__ import annotations

from dataclasses import dataclass

from triune._text import html_table, short

__all__ = ["HostProfile", "OperatorProfile", "Profile"]


@dataclass(frozen=True)
class OperatorProfile:
    """The modelled time of one operator."""

    name: str
    """The node's name in the model."""
    kind: str
    """The operator, such as ``Conv``."""
    start: int
    """The cycle that it starts in, counted from the launch."""
    end: int
    """The cycle that its last result is stored in."""
    cycles: int
    """`end` − `start`."""
    compute: int
    """Cycles that it keeps the array or the vector unit busy."""
    load: int
    """Cycles that its loads keep the memory ports busy."""
    store: int
    """Cycles that its stores keep the memory ports busy."""
    stall: int
    """Cycles in which nothing is computed."""
    load_stall: int
    """Those in which loads are missing."""
    launch: int
    """Cycles that starting its commands costs."""
    ideal: int
    """Cycles that the array would take if all of it worked all the time; 0 for what runs on the vector unit."""
    bound_by: str
    """What most of its time goes to: ``compute``, ``load``, ``store`` or ``launch``."""
    utilization: float
    """`ideal` over compute, stall and launch, 0 to 1."""
    macs: int
    """Multiply-accumulates."""
    bytes_read: int
    """Bytes read from any memory."""
    bytes_written: int
    """Bytes written to any memory."""


@dataclass(frozen=True)
class HostProfile:
    """Measured times of `ModelInstance.run` on this machine, in seconds."""

    calls: int
    """How many runs so far."""
    total: float
    """All together."""
    minimum: float
    """The shortest."""
    maximum: float
    """The longest."""
    last: float
    """The latest."""

    @property
    def mean(self) -> float:
        """The average in seconds: `total` / `calls`; 0.0 before the first run."""
        return self.total / self.calls if self.calls else 0.0


@dataclass(frozen=True)
class Profile:
    """What one run takes on the card, and what runs took on this machine."""

    cycles: int
    """Modelled cycles of one run."""
    clock_mhz: int
    """The clock of the instance's slowest core when it was loaded."""
    operators: list[OperatorProfile]
    """Modelled time per operator, in order; empty without ``device_profiling``."""
    host: HostProfile | None
    """Measured times; None without ``host_profiling``."""

    @property
    def microseconds(self) -> float:
        """Modelled microseconds of one run: `cycles` at `clock_mhz`; 0.0 if the clock is 0."""
        return self.cycles / self.clock_mhz if self.clock_mhz else 0.0

    def __repr__(self) -> str:
        """Return the sums."""
        known = f", {len(self.operators)} operators" if self.operators else ""
        runs = f", {self.host.calls} runs measured" if self.host else ""
        time = f"{self.cycles:,} cycles = {self.microseconds:,.1f} µs at {self.clock_mhz} MHz"
        return f"<axelera.runtime.Profile {time}{known}{runs}>"

    def _repr_html_(self) -> str:
        rows = [
            (short(row.name), row.kind, f"{row.cycles:,}", f"{row.compute:,}", f"{row.stall:,}", f"{row.macs:,}")
            for row in self.operators
        ]
        return html_table(("operator", "kind", "cycles", "compute", "stall", "MACs"), rows, repr(self)[1:-1])

    def __str__(self) -> str:
        """Return a table: an operator per line where they are known, and the sums."""
        lines = []
        if self.operators:
            lines.append(f"{'operator':<40} {'kind':<16} {'cycles':>12} {'compute':>12} {'stall':>12} {'MACs':>14}")
        for row in self.operators:
            name = row.name if len(row.name) <= 40 else "…" + row.name[-39:]
            lines.append(
                f"{name:<40} {row.kind:<16} {row.cycles:>12,} {row.compute:>12,} {row.stall:>12,} {row.macs:>14,}"
            )
        lines.append(
            f"one run: {self.cycles:,} cycles = {self.microseconds:,.1f} µs at {self.clock_mhz} MHz (modelled)"
        )
        if self.host:
            lines.append(
                f"this machine: {self.host.calls} runs, {self.host.mean * 1e6:,.1f} µs each (measured, at best "
                f"{self.host.minimum * 1e6:,.1f})"
            )
        return "\n".join(lines)
