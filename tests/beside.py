"""Modules that lie beside tests, for tests to import: test folders are no packages here."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

__all__ = ["load"]


def load(file: str, name: str) -> Any:
    """Load the module `name` that lies beside a file, and let everybody import it by its name."""
    spec = importlib.util.spec_from_file_location(name, Path(file).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
