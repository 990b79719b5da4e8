"""NPU programs without the board: one core in Rust under the vendors' own Python APIs.

The vendors' modules are `triune.axelera.runtime` and, for unmodified programs, the import names of `triune.compat`.
This module holds what belongs to no vendor: `compile`, which turns an ONNX file into a package for a device,
`quantize`, which turns a float model into an integer one, `compare`, which sets models beside each other,
`Session`, which runs a model on this machine's CPU, `errors`, what both raise, and `set_work_limit`, how much work a run
may be; `triune.batch` runs a model over many files. Importing it is cheap: numpy is loaded by what needs it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from triune import errors
from triune._native import __version__, set_work_limit, work_limit

if TYPE_CHECKING:
    from triune._compile import compile
    from triune._report import Compilation, CompileReport
    from triune._session import (
        Feeds,
        ModelSource,
        Run,
        Session,
    )
    from triune._session_info import Metadata, ValueInfo
    from triune._session_plan import (
        PlannedCommand,
        PlannedMap,
        PlannedOperator,
        PlannedPart,
        PlannedStrips,
        PlannedValue,
        SessionPlan,
    )
    from triune._session_profile import OperatorTime, SessionProfile
    from triune.quantization import compare, quantize

__all__ = [
    "Compilation",
    "CompileReport",
    "DetPost",
    "Feeds",
    "Metadata",
    "ModelSource",
    "OperatorTime",
    "PlannedCommand",
    "PlannedMap",
    "PlannedOperator",
    "PlannedPart",
    "PlannedStrips",
    "PlannedValue",
    "Run",
    "Session",
    "SessionPlan",
    "SessionProfile",
    "ValueInfo",
    "__version__",
    "compare",
    "compile",
    "errors",
    "quantize",
    "set_work_limit",
    "work_limit",
]


_LAZY = {
    "Compilation": "triune._report",
    "CompileReport": "triune._report",
    "DetPost": "triune._detpost",
    "Feeds": "triune._session",
    "Metadata": "triune._session_info",
    "ModelSource": "triune._session",
    "OperatorTime": "triune._session_profile",
    "PlannedCommand": "triune._session_plan",
    "PlannedMap": "triune._session_plan",
    "PlannedOperator": "triune._session_plan",
    "PlannedPart": "triune._session_plan",
    "PlannedStrips": "triune._session_plan",
    "PlannedValue": "triune._session_plan",
    "Run": "triune._session",
    "Session": "triune._session",
    "SessionPlan": "triune._session_plan",
    "SessionProfile": "triune._session_profile",
    "ValueInfo": "triune._session_info",
    "compare": "triune.quantization",
    "compile": "triune._compile",
    "quantize": "triune.quantization",
}


# Type checkers see the imports above alone: to them, with this function the module would have every name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Load a lazy name on first use."""
        if name not in _LAZY:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value: object = getattr(import_module(_LAZY[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    """List the public names, the lazy ones included."""
    return __all__
