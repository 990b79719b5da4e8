"""Networks that several tests use."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

# What makes the networks, for the tests to import: test folders are no packages here.
_SPEC = importlib.util.spec_from_file_location("xir_networks", Path(__file__).with_name("xir_networks.py"))
assert _SPEC is not None
assert _SPEC.loader is not None
_networks = sys.modules["xir_networks"] = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(_networks)
