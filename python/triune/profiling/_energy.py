"""What work costs in energy: as much of each event as the device's description says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Energy"]

PREFIXES = ("", "m", "µ", "n", "p", "f")


def scaled(femto: int, unit: str) -> str:
    """Return an amount of femto-units with the largest prefix that leaves one or more, in three digits."""
    at = max(0, len(PREFIXES) - 1 - (len(str(femto)) - 1) // 3)
    value = femto / 1000 ** (len(PREFIXES) - 1 - at)
    digits = 0 if value >= 99.95 or at == len(PREFIXES) - 1 else 1 if value >= 9.995 else 2
    return f"{value:.{digits}f} {PREFIXES[at]}{unit}"


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
        """All of it, in femtojoules."""
        return self.macs + self.elements + self.buffers + sum(self.memories.values()) + self.idle

    @property
    def joules(self) -> float:
        """All of it in joules."""
        return self.total * 1e-15

    def parts(self) -> dict[str, int]:
        """Return it by what it goes to, in femtojoules: ``macs``, ``elements``, ``buffers``, the memories' names, ``idle``."""
        return {
            "macs": self.macs,
            "elements": self.elements,
            "buffers": self.buffers,
            **self.memories,
            "idle": self.idle,
        }

    def __str__(self) -> str:
        """Return it with its unit."""
        return scaled(self.total, "J")


def of_row(row: Mapping[str, Any] | None, memories: list[str]) -> Energy | None:
    """Return the energy of a row of the core's table; None where the device's description has none."""
    if row is None:
        return None
    return Energy(**{**row, "memories": dict(zip(memories, row["memories"], strict=True))})
