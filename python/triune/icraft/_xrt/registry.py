"""What backends compute operators with: the registry that programs add their own operators to.

The vendor's C++ has this registry, its Python has none; names and rules are the C++ ones.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from triune import _fork
from triune.icraft._xir.conversions import Unpicklable
from triune.icraft._xrt.errors import ORDER, TYPE, failure

if TYPE_CHECKING:
    from triune.icraft._xir.operation import Operation
    from triune.icraft._xrt.backend import Backend
    from triune.icraft._xrt.tensor import Tensor

__all__ = ["ICRAFT_ADD_OP_TO_BACKEND", "BackendOpRegistry", "FForwardOp", "FInitOp", "FOpConstraint"]

FInitOp = Callable[["Operation", "Backend"], None]
"""Called once for an operation when its backend is applied."""
FForwardOp = Callable[["Operation", "list[Tensor]", "list[Tensor]", "Backend"], "list[Tensor]"]
"""Computes an operation: operation, inputs (no parameters), wanted outputs or an empty list, backend."""
FOpConstraint = Callable[["Operation", "Backend"], bool]
"""Says whether a backend takes an operation."""


@dataclass(eq=False)
class BackendOpRegistry(Unpicklable):
    """How a backend computes one class of operators. `Register` makes one; its methods return it."""

    _backend: str
    _op: str
    _init: FInitOp | None = None
    _forward: FForwardOp | None = None
    _constraint: FOpConstraint | None = None

    @staticmethod
    def Register(backend: str | type, op: str | type, can_override: bool = False) -> BackendOpRegistry:
        """Add a class of operators to a class of backends, both given as the class or its type key.

        An operator that the backend has anyway is computed by what is registered.

        Raises InternalError if the two are registered, unless `can_override`.
        """
        key = (_key(backend), _key(op))
        with _LOCK:
            if key in _ENTRIES and not can_override:
                raise failure(ORDER, f"{key[1]} is registered for {key[0]} already; can_override replaces it")
            entry = _ENTRIES[key] = BackendOpRegistry(*key)
        return entry

    @staticmethod
    def Remove(backend: str | type, op: str | type) -> bool:
        """Take a class of operators away from a class of backends; return whether it was registered.

        Sessions that are bound keep what they found. Raises InternalError ([11010]) if an argument is neither a class nor a
        type key.
        """
        with _LOCK:
            return _ENTRIES.pop((_key(backend), _key(op)), None) is not None

    @staticmethod
    def ListNames() -> list[list[str]]:
        """Return what is registered: a list of [type key of the backend, type key of the operator], sorted, both ending in
        ``Node``."""
        with _LOCK:
            return [list(key) for key in sorted(_ENTRIES)]

    def set_init(self, f: FInitOp) -> BackendOpRegistry:
        """Set what is called once for each operation when its backend is applied, with the operation and the backend.

        Returns the entry itself. Raises InternalError ([11010]) if it cannot be called.
        """
        self._init = _callable("set_init", f)
        return self

    def set_forward(self, f: FForwardOp) -> BackendOpRegistry:
        """Set what computes an operation. Without it the backend does not support the class.

        It is called with the operation, a list of input tensors, in which parameters are left out, a list of the outputs to write
        into, or an empty one, and the backend; it returns the list of outputs.
        """
        self._forward = _callable("set_forward", f)
        return self

    def set_constraint(self, f: FOpConstraint) -> BackendOpRegistry:
        """Set what says whether the backend takes an operation; without it it takes all of the class.

        It is called with the operation and the backend, and returns a bool.
        """
        self._constraint = _callable("set_constraint", f)
        return self


_LOCK = threading.RLock()
_fork.keep_free(_LOCK)
_ENTRIES: dict[tuple[str, str], BackendOpRegistry] = {}


def ICRAFT_ADD_OP_TO_BACKEND(op_type: str | type, backend_type: str | type) -> BackendOpRegistry:
    """Register a class of operators for a class of backends, as the vendor's macro does.

    Raises InternalError if the two are registered.
    """
    return BackendOpRegistry.Register(backend_type, op_type)


def registered(backend: Backend, op: Operation) -> BackendOpRegistry | None:
    """Return what is registered for an operation, None if nothing is."""
    return _ENTRIES.get((backend.typeKey(), op.typeKey()))


def _key(name: str | type) -> str:
    key = name if isinstance(name, str) else getattr(name, "type_key", None)
    if not isinstance(key, str) or not key:
        raise failure(TYPE, f"expected a class or its type key, got {name!r}")
    return key if key.endswith("Node") else f"{key}Node"


def _callable(what: str, function: Any) -> Any:
    if not callable(function):
        raise failure(TYPE, f"{what}: expected something to call, got {type(function).__name__}")
    return function
