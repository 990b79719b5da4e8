"""`axelera.runtime.axruntime`: the records of the C API, strings as bytes.

The vendor's own tests build devices from it: ``DeviceInfo(raw)`` of the package wraps ``axruntime.DeviceInfo``.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

__all__ = ["BoardType", "DeviceInfo"]


class BoardType(enum.IntEnum):
    """The form of a board, by its name in the C API; the numbers are those of `axelera.runtime.BoardType`."""

    ALPHA_PCIE = 0
    ALPHA_M2 = 1
    OMEGA_PCIE = 2
    OMEGA_M2 = 3
    OMEGA_DEVBOARD = 4
    OMEGA_SBC = 5
    UNKNOWN = 6


@dataclass
class DeviceInfo:
    """A device as the C API lists it."""

    name: bytes = b""
    subdevice_count: int = 0
    max_memory: int = 0
    in_use: int = 0
    in_use_by: bytes = b""
    board_type: BoardType = BoardType.UNKNOWN
    firmware_version: bytes = b""
    board_revision: int = 0
    flashed_firmware_version: bytes = b""
    board_controller_firmware_version: bytes = b""
    board_controller_board_type: bytes = b""
