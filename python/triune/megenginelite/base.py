"""Version and log level, as the vendor's module `base` has them."""

from __future__ import annotations

import logging

from triune.megenginelite._errors import failure
from triune.megenginelite.struct import LiteLogLevel

__all__ = ["get_log_level", "set_log_level", "version"]

version = "1.13.0"
"""The version of the vendor's API that this package has. Triune's own is `triune.__version__`."""

LOG = logging.getLogger("megenginelite")
LOG.setLevel(logging.INFO)

_LEVELS = {
    LiteLogLevel.DEBUG: logging.DEBUG,
    LiteLogLevel.INFO: logging.INFO,
    LiteLogLevel.WARN: logging.WARNING,
    LiteLogLevel.ERROR: logging.ERROR,
}


def set_log_level(level: LiteLogLevel | int) -> None:
    """Set what the logger ``megenginelite`` lets through: INFO unless this is called.

    A program that has configured no logging at all gets the messages on stderr from now on, as the vendor's library
    writes them.

    Raises RuntimeError if `level` is no `LiteLogLevel`.
    """
    try:
        wanted = LiteLogLevel(level)
    except ValueError:
        raise failure(f"set_log_level: expected a LiteLogLevel (0 to 3), got {level!r}") from None
    LOG.setLevel(_LEVELS[wanted])
    if not LOG.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
        LOG.addHandler(handler)


def get_log_level() -> LiteLogLevel:
    """Return the level that messages are logged from, INFO at first: that of `set_log_level`, or of the logger."""
    level = LOG.getEffectiveLevel()
    for ours, theirs in _LEVELS.items():
        if level <= theirs:
            return ours
    return LiteLogLevel.ERROR
