"""The tool's rooms, for its tests to import."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path


def _importable(name: str) -> None:
    """Let tests import a module beside them: test folders are no packages here."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


_importable("mutant_faults")
_importable("mutant_tree")
