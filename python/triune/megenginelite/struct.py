"""The enumerations, with the vendor's names and values."""

from __future__ import annotations

from ctypes import Structure
from enum import IntEnum

__all__ = [
    "LiteAlgoSelectStrategy",
    "LiteBackend",
    "LiteDataType",
    "LiteDeviceType",
    "LiteIOType",
    "LiteLogLevel",
    "LiteTensorPhase",
    "Structure",
]


class LiteBackend(IntEnum):
    """The inference back end. There is one."""

    LITE_DEFAULT = 0


class LiteDeviceType(IntEnum):
    """Where a tensor lies, or a network runs.

    `LITE_CPU` is the host, the others are simulated memory spaces. The documentation gives
    `LITE_DEVICE_DEFAULT` the value 5, the vendor's last package 7: both are accepted, and `LITE_CAMBRICON`, which has 5
    there, has a value of its own.
    """

    LITE_CPU = 0
    LITE_CUDA = 1
    LITE_ATLAS = 3
    LITE_NPU = 4
    LITE_DEVICE_DEFAULT = 5
    LITE_CAMBRICON = 6

    @classmethod
    def _missing_(cls, value: object) -> LiteDeviceType | None:
        return cls.LITE_DEVICE_DEFAULT if value == 7 else None


class LiteDataType(IntEnum):
    """The element type of a tensor. `LITE_INT64` is Triune's: ONNX models have such inputs and outputs."""

    LITE_FLOAT = 0
    LITE_HALF = 1
    LITE_INT = 2
    LITE_INT16 = 3
    LITE_INT8 = 4
    LITE_UINT8 = 5
    LITE_UINT16 = 6
    LITE_INT64 = 8


class LiteTensorPhase(IntEnum):
    """Which of a network's tensors a name means: any, an input, an output."""

    LITE_IO = 0
    LITE_INPUT = 1
    LITE_OUTPUT = 2


class LiteIOType(IntEnum):
    """Whether an input or output is wanted with its values, or for its shape alone."""

    LITE_IO_VALUE = 0
    LITE_IO_SHAPE = 1


class LiteAlgoSelectStrategy(IntEnum):
    """How the vendor's library chooses among the algorithms of an operator. The flags can be combined."""

    LITE_ALGO_HEURISTIC = 1
    LITE_ALGO_PROFILE = 2
    LITE_ALGO_REPRODUCIBLE = 4
    LITE_ALGO_OPTIMIZED = 8


class LiteLogLevel(IntEnum):
    """What is logged, from everything to errors alone."""

    DEBUG = 0
    INFO = 1
    WARN = 2
    ERROR = 3
