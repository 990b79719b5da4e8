"""How a case of each operator is drawn: all recipes, and what has none."""

from __future__ import annotations

import attention  # noqa: F401 (its recipes enter the book)
import elements  # noqa: F401
import microsoft  # noqa: F401
import networks  # noqa: F401
import places  # noqa: F401
from book import DOMAINS_NOT_DRAWN, NOT_DRAWN, RECIPES

__all__ = ["DOMAINS_NOT_DRAWN", "NOT_DRAWN", "RECIPES"]
