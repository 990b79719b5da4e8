"""Enumerations as the vendor's bindings have them: made of a member, a name's value or a number, and usable as one."""

from __future__ import annotations

import enum
from typing import Self

__all__ = [
    "DistrUnvalidValue",
    "Framework",
    "Interpolation",
    "Mode",
    "PaddingMode",
    "ResizeInterpolation",
    "RoundingMode",
    "VendorEnum",
    "ZhugeTarget_Chips",
]


class VendorEnum(enum.IntEnum):
    """The base: an integer that prints as class and member, and by its name in files."""

    def __str__(self) -> str:
        """Return class and member, as ``Framework.ONNX``."""
        return f"{type(self).__name__}.{self.name}"

    @property
    def _json_name(self) -> str:
        return self.name

    @classmethod
    def _given(cls, value: int) -> Self:
        """Return the member that an argument is, or has the number of.

        Raises ValueError if there is none, and for another enumeration's member, whose number means something else.
        """
        if isinstance(value, VendorEnum) and not isinstance(value, cls):
            raise ValueError(f"{value!r} is no {cls.__name__}")
        return cls(value)


class Framework(VendorEnum):
    """Where a network comes from."""

    PYTORCH = 0
    CAFFE = 1
    TENSORFLOW = 2
    DARKNET = 3
    ONNX = 4


class PaddingMode(VendorEnum):
    """What a convolution sees outside of its input."""

    ZEROS = 0
    REFLECT = 1
    REPLICATE = 2
    CIRCULAR = 3


class Mode(VendorEnum):
    """What `Pad` puts around its input."""

    CONSTANT = 0
    REFLECTION = 1
    REPLICATION = 2
    SYMMETRIC = 3


class Interpolation(VendorEnum):
    """How `Upsample` computes what lies between."""

    NEAREST = 0
    BILINEAR = 1
    BICUBIC = 2


class ResizeInterpolation(VendorEnum):
    """How `Resize` computes what lies between."""

    INTER_NEAREST = 0
    INTER_LINEAR = 1


class RoundingMode(VendorEnum):
    """What a division does with its remainder."""

    NONE = 0
    TRUNC = 1
    FLOOR = 2


class DistrUnvalidValue(VendorEnum):
    """What padding channels hold."""

    ZERO = 0
    NONE = 1


class ZhugeTarget_Chips(VendorEnum):
    """Chips with a Zhuge accelerator."""

    ZG330 = 0
    ZG340 = 1
    ZG30S = 2
