"""ctypes' structures, closed to type checkers: to them, `ctypes.Structure` has every attribute that somebody misspells."""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["Structure"]

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, ClassVar

    class Structure:
        """What classes with fields declare besides them."""

        _fields_: ClassVar[Sequence[tuple[str, Any]]]

        def __init__(self, *values: Any, **fields: Any) -> None:
            """Set fields in order and by name."""
else:
    from ctypes import Structure
