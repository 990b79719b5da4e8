"""Enumerations as the vendor's bindings have them: made of a member, a name's value or a number, and usable as one."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

from triune.icraft._xir.conversions import whole

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


class _Numbered(enum.EnumType):
    """Takes the numbers of members as other arguments are taken."""

    if not TYPE_CHECKING:

        def __call__(cls, value: Any, *arguments: Any, **keywords: Any) -> Any:
            if arguments or keywords:
                return super().__call__(value, *arguments, **keywords)
            return super().__call__(whole(value))


class VendorEnum(enum.IntEnum, metaclass=_Numbered):
    """The base: an integer that prints as class and member, and by its name in files."""

    def __str__(self) -> str:
        """Return class and member, as ``Framework.ONNX``."""
        return f"{type(self).__name__}.{self.name}"

    @property
    def _json_name(self) -> str:
        return self.name


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
