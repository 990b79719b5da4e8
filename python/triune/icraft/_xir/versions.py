"""Which version of the format is read and written."""

from __future__ import annotations

__all__ = [
    "EMPTY_MD5",
    "FULL_VERSION",
    "MAIN_VERSION",
    "BuildTime",
    "CommitID",
    "CommitSinceTag",
    "FullVersion",
    "IsModified",
    "MainVersion",
    "MajorVersionNum",
    "MinorVersionNum",
    "PatchVersionNum",
]

MAIN_VERSION = "3.33.1"
"""The version of the vendor's tools whose published interface this module has."""

FULL_VERSION = f"{MAIN_VERSION}.0"
"""The version of the format in files that are written."""

EMPTY_MD5 = "d41d8cd98f00b204e9800998ecf8427e"
"""The digest of no bytes, which networks without parameters have."""


def MainVersion() -> str:
    """Return the version of the vendor's tools whose published interface this module has: ``3.33.1``."""
    return MAIN_VERSION


def FullVersion() -> str:
    """Return the version of the format in files that are written: ``3.33.1.0``."""
    return FULL_VERSION


def MajorVersionNum() -> int:
    """Return the first number of `MainVersion`."""
    return int(MAIN_VERSION.split(".")[0])


def MinorVersionNum() -> int:
    """Return the second number of `MainVersion`."""
    return int(MAIN_VERSION.split(".")[1])


def PatchVersionNum() -> int:
    """Return the third number of `MainVersion`."""
    return int(MAIN_VERSION.split(".")[2])


def CommitID() -> str:
    """Return an empty text: the version of Triune, `triune.__version__`, says what was built."""
    return ""


def CommitSinceTag() -> int:
    """Return 0: versions are released ones."""
    return 0


def IsModified() -> bool:
    """Return False: versions are released ones."""
    return False


def BuildTime() -> str:
    """Return an empty text: builds are reproducible, so none has a time."""
    return ""
