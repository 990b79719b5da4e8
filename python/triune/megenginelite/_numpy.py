"""numpy, loaded when something of it is first looked up: importing this package must stay quick."""

from __future__ import annotations

from typing import Any

__all__ = ["np"]


class _Lazy:
    """Stands for the module; a name that was looked up once is an ordinary attribute."""

    def __getattr__(self, name: str) -> Any:
        """Load numpy and keep what it calls `name`."""
        import numpy

        value = getattr(numpy, name)
        setattr(self, name, value)
        return value


np = _Lazy()
