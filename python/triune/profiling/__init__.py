"""What a compiled program costs on its device: per operator, in total, in memory, without running it.

`profile` deploys a package and returns a `Profile`; its methods make what people look at: a table, CSV, JSON, a trace for
Perfetto, a page with pictures. It knows no vendor, and computes no time itself: cycles come from the core's timeline.
"""

from __future__ import annotations

from triune.profiling._model import Command, FeatureMap, Memory, Operator, Profile, Segment, profile

__all__ = ["Command", "FeatureMap", "Memory", "Operator", "Profile", "Segment", "profile"]
