"""What a compiled program costs on its device: per operator, in total, in memory, without running it.

`profile` returns what one image of a package costs on its device, `compose` what several programs on one device do to each
other, `on_cores` what images cost that several cores work on together, `explore` what a program costs on devices that
differ in some numbers; `activity` what really ran on the virtual cards.
What they return makes what people look at: a table, CSV, JSON, a trace for Perfetto, a page with pictures. It knows no vendor,
and computes no time itself: cycles come from the core's timeline.
"""

from __future__ import annotations

from triune.profiling._compose import Composition, InstanceTimes, Run, Workload, activity, compose
from triune.profiling._cores import CoreTask, Exchange, HostLink, OnCores, on_cores
from triune.profiling._energy import Energy
from triune.profiling._explore import Design, Exploration, explore
from triune.profiling._model import (
    Command,
    FeatureMap,
    Memory,
    Operator,
    Profile,
    Segment,
    TileTimes,
    Tiling,
)
from triune.profiling._timeline import profile

__all__ = [
    "Command",
    "Composition",
    "CoreTask",
    "Design",
    "Energy",
    "Exchange",
    "Exploration",
    "FeatureMap",
    "HostLink",
    "InstanceTimes",
    "Memory",
    "OnCores",
    "Operator",
    "Profile",
    "Run",
    "Segment",
    "TileTimes",
    "Tiling",
    "Workload",
    "activity",
    "compose",
    "explore",
    "on_cores",
    "profile",
]
