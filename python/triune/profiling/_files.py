"""The profile for programs: CSV and JSON, every number exact."""

from __future__ import annotations

import csv
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from triune._files import replaced_text, write_text
from triune.profiling._model import Operator, Profile

NUMBERS = ("start", "end", "held", "compute", "load", "store", "stall", "load_stall", "control", "ideal", "macs")
TILES = ("tiles", "buffered", "reread")
BUFFERS = ("sram_inputs", "sram_weights", "sram_results")


def write_csv(profile: Profile, path: Path) -> None:
    """Write a line per operator, with a header."""
    memories = [memory.name for memory in profile.memories]
    sides = [f"{name}_{side}" for name in memories for side in ("read", "written")]
    with replaced_text(path) as file:
        writer = csv.writer(file)
        shares = ("share", "utilization", "array_utilization")
        energies = [f"{part}_fj" for part in profile.energy.parts()] if profile.energy else []
        columns = [*NUMBERS, *BUFFERS, *sides, *TILES, "tiling", *shares, "bottleneck", *energies]
        writer.writerow(["name", "kind", *columns])
        for operator in profile.operators:
            moved = [side[name] for name in memories for side in (operator.read, operator.written)]
            numbers = [getattr(operator, name) for name in NUMBERS]
            tiles = [*(getattr(operator, name) for name in TILES), str(operator.tiling)]
            row = [operator.name, operator.kind, *numbers, *operator.sram, *moved, *tiles]
            spent = operator.energy.parts().values() if operator.energy else ()
            writer.writerow([*row, *(getattr(operator, name) for name in shares), operator.bottleneck, *spent])


def write_json(profile: Profile, path: Path) -> None:
    """Write totals, operators, memories and the memory plan."""
    content = {
        "schema": "triune-profile",
        "schema_version": 2,
        "name": profile.name,
        "device": profile.device,
        "clock_mhz": profile.clock_mhz,
        "batch": profile.batch,
        "cycles": profile.cycles,
        "microseconds": profile.microseconds,
        "milliseconds": profile.milliseconds,
        "causes": profile.causes,
        "macs": profile.macs,
        "macs_per_second": profile.macs_per_second,
        "peak_macs_per_cycle": profile.peak_macs_per_cycle,
        "utilization": profile.utilization,
        "bottleneck": profile.bottleneck,
        "estimated": profile.estimated,
        "assumptions": profile.assumptions,
        "host": {"operators": profile.host_operators, "macs": profile.host_macs, "waits": profile.waits},
        "buffer_bytes": profile.buffer_bytes,
        "energy": asdict(profile.energy) | {"total": profile.energy.total} if profile.energy else None,
        "memories": [asdict(memory) for memory in profile.memories],
        "segments": [asdict(segment) for segment in profile.segments],
        "memory_plan": {
            "parts": [
                {"segment": plan.kind, "memory": plan.memory, "peak": plan.bytes, "lower_bound": plan.lower_bound}
                for plan in profile.plans
            ],
            "residency": asdict(profile.residency) if profile.residency else None,
            "feature_maps": [asdict(buffer) for buffer in profile.feature_maps],
        },
        "operators": [_operator(operator) for operator in profile.operators],
    }
    write_text(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def _operator(operator: Operator) -> dict[str, Any]:
    return asdict(operator) | {"held": operator.held}
