"""What the tests of quantization share: the networks beside them, importable by name."""

from __future__ import annotations

from beside import load

load(__file__, "quantization_networks")
