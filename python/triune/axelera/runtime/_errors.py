"""The vendor's exceptions, and which of the core's errors becomes which."""

from __future__ import annotations

from triune import _native
from triune._text import shortened

__all__ = [
    "ConnectionError",
    "DeviceInUse",
    "IncompatibleDevice",
    "InternalError",
    "InvalidArgument",
    "InvalidConfiguration",
    "NotImplemented",
    "Pending",
    "UnknownError",
]


class _Error(RuntimeError):
    def __init__(self, *args: object) -> None:
        """Take the message, which is shortened where a file or a program made it long."""
        super().__init__(*shortened(args))


class ConnectionError(_Error):
    """There is no device to connect to, or it cannot be reached."""


class DeviceInUse(_Error):
    """Others, in this process or another, have reserved the sub-devices."""


class IncompatibleDevice(_Error):
    """The model needs what the device does not have."""


class InternalError(_Error):
    """The runtime broke its own rules."""


class InvalidArgument(_Error):
    """An argument is wrong, or the object has been released."""


class InvalidConfiguration(_Error):
    """A configuration property is unknown, or its value is out of range."""


class NotImplemented(_Error):
    """The runtime does not do this."""


class Pending(_Error):
    """A changed configuration is not in force yet: poll `Context.device_ready`."""


class UnknownError(_Error):
    """Anything else."""


_VENDOR: dict[type[_native.Error], type[RuntimeError]] = {
    _native.ArgumentError: InvalidArgument,
    _native.FileError: InvalidArgument,
    _native.ForeignError: IncompatibleDevice,
    _native.UnsupportedError: IncompatibleDevice,
    _native.InUseError: DeviceInUse,
    _native.SettingError: InvalidConfiguration,
    _native.PendingError: Pending,
    _native.ReleasedError: InvalidArgument,
    _native.SanitizerError: InternalError,
    _native.InternalError: InternalError,
}


def vendor(error: _native.Error) -> RuntimeError:
    """Return the vendor's exception for one of the core's."""
    kinds = (_VENDOR[kind] for kind in type(error).__mro__ if kind in _VENDOR)
    return next(kinds, UnknownError)(str(error))


# Where programs find them, and so what tracebacks and pickles say.
for _name in __all__:
    globals()[_name].__module__ = "triune.axelera.runtime"
