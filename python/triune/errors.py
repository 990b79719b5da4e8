"""What `triune.compile` and `triune.Session` raise: all subclasses of `Error`, which is a `RuntimeError`.

Each message names what is wrong, what was expected and what came. The vendors' modules have exceptions of their own.

- `ArgumentError`: an argument, or the content of a file that one names, is wrong.
- `FileError`: a file cannot be read or written.
- `UnsupportedError`: the model needs what the device, or Triune, does not have.
- `ForeignError`: a package that another compiler wrote, which only its chip can run.
- `InUseError`, `SettingError`, `PendingError`, `ReleasedError`: about virtual cards; the vendors' modules turn them into
  their own.
- `SanitizerError`: the device-memory sanitizer, which the environment variable `TRIUNE_SANITIZE=1` turns on, found a fault.
- `LinkError`: a board behind a connection cannot be reached.
- `InternalError`: the core broke its own rules: please report it.
"""

from triune._native import (
    ArgumentError,
    Error,
    FileError,
    ForeignError,
    InternalError,
    InUseError,
    LinkError,
    PendingError,
    ReleasedError,
    SanitizerError,
    SettingError,
    UnsupportedError,
)

__all__ = [
    "ArgumentError",
    "Error",
    "FileError",
    "ForeignError",
    "InUseError",
    "InternalError",
    "LinkError",
    "PendingError",
    "ReleasedError",
    "SanitizerError",
    "SettingError",
    "UnsupportedError",
]
