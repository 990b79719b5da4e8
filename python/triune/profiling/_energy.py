"""What work costs in energy: as much of each event as the device's description says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Energy"]

UNITS = ("J", "mJ", "µJ", "nJ", "pJ", "fJ")


def joules(femtojoules: int) -> str:
    """Return an energy in the largest unit that it is one of, with three digits."""
    at = max(0, len(UNITS) - 1 - (len(str(femtojoules)) - 1) // 3)
    value = femtojoules / 1000 ** (len(UNITS) - 1 - at)
    return f"{value:.{0 if value >= 99.95 or at == len(UNITS) - 1 else 1 if value >= 9.995 else 2}f} {UNITS[at]}"


@dataclass(frozen=True)
class Energy:
    """Energy in femtojoules (10⁻¹⁵ J), by what it goes to."""

    macs: int
    """Multiply-accumulates, of the array or of windows in the vector unit."""
    elements: int
    """Results of the vector unit, and of the array on their way through it."""
    buffers: int
    """Accesses to the array's operand buffers."""
    memories: dict[str, int]
    """Accesses to each memory, by its name."""
    idle: int
    """What a core and its part of the device draw whatever they do."""

    @property
    def total(self) -> int:
        """All of it."""
        return self.macs + self.elements + self.buffers + sum(self.memories.values()) + self.idle

    @property
    def joules(self) -> float:
        """All of it in joules."""
        return self.total * 1e-15

    def parts(self) -> dict[str, int]:
        """Return it by what it goes to: ``macs``, ``elements``, ``buffers``, the memories' names, ``idle``."""
        return {
            "macs": self.macs,
            "elements": self.elements,
            "buffers": self.buffers,
            **self.memories,
            "idle": self.idle,
        }

    def __str__(self) -> str:
        """Return it with its unit."""
        return joules(self.total)


def of_row(row: Mapping[str, Any] | None, memories: list[str]) -> Energy | None:
    """Return the energy of a row of the core's table; None where the device's description has none."""
    if row is None:
        return None
    return Energy(**{**row, "memories": dict(zip(memories, row["memories"], strict=True))})
