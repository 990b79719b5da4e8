"""The tool's rooms, for its tests to import."""

from __future__ import annotations

from beside import load

load(__file__, "mutant_faults")
load(__file__, "mutant_tree")
