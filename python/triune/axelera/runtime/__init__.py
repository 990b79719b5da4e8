"""`axelera.runtime`: Metis cards, as the vendor documents them, run on virtual ones.

Names, signatures, defaults and exceptions are the vendor's. What Triune adds to them, each marked as such in its
documentation, is `TensorInfo.quantize` and `dequantize`, `ModelInstance.profile`, and `with` for every object. The
exceptions `ConnectionError` and `NotImplemented` have the names of Python's builtins: after
``from axelera.runtime import *`` those names mean these classes.
"""

from triune.axelera.runtime._errors import (
    ConnectionError,
    DeviceInUse,
    IncompatibleDevice,
    InternalError,
    InvalidArgument,
    InvalidConfiguration,
    NotImplemented,
    Pending,
    UnknownError,
)
from triune.axelera.runtime._images import ColorFormat, Image
from triune.axelera.runtime._profile import HostProfile, OperatorProfile, Profile
from triune.axelera.runtime._types import BoardType, DeviceInfo, TensorInfo
from triune.axelera.runtime.objects import Connection, Context, Model, ModelInstance, Object

from . import axruntime, cv, display, objects, op, scheduler

__version__ = "1.2.5"
"""The vendor's release whose interface this is; programs ask for it, and for the distribution's, to choose files."""

__all__ = [
    "BoardType",
    "ColorFormat",
    "Connection",
    "ConnectionError",
    "Context",
    "DeviceInUse",
    "DeviceInfo",
    "HostProfile",
    "Image",
    "IncompatibleDevice",
    "InternalError",
    "InvalidArgument",
    "InvalidConfiguration",
    "Model",
    "ModelInstance",
    "NotImplemented",
    "Object",
    "OperatorProfile",
    "Pending",
    "Profile",
    "TensorInfo",
    "UnknownError",
    "axruntime",
    "cv",
    "display",
    "objects",
    "op",
    "scheduler",
]
