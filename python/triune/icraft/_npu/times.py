"""Whose time is told: this machine's or the board's."""

from __future__ import annotations

import os
from typing import Final

__all__ = ["modelled"]

VARIABLE: Final = "TRIUNE_MODELLED_TIME"


def modelled() -> bool:
    """Return whether operations on an accelerator are said to last as long as on a board."""
    return os.environ.get(VARIABLE, "").strip() not in ("", "0")
