"""What `triune.compile` and `triune.Session` raise: all subclasses of `Error`, which is a `RuntimeError`.

Each message names what is wrong, what was expected and what came. Programs need not read it: the class says what kind of
error it is, `node` and `operand` name what of a model it is about, `layer` has the number of the one of a board's job, or they
are None. The vendors' modules have exceptions of their own.

- `ArgumentError`: an argument, or the content of a file that one names, is wrong.
  - `FormatError`: bytes are no model of the format that they were read as, which its `format` names, or a damaged one.
  - `KeyMismatchError`: encrypted bytes do not decrypt with the key.
- `FileError`: a file cannot be read or written.
- `UnsupportedError`: the model needs what the device, or Triune, does not have.
  - `NotQuantizedError`: the model computes in floats, and the device on integers alone.
- `ForeignError`: a package that another compiler wrote, which only its chip can run.
- `InUseError`, `SettingError`, `PendingError`, `ReleasedError`: about virtual cards; the vendors' modules turn them into
  their own.
- `SanitizerError`: the device-memory sanitizer, which the environment variable `TRIUNE_SANITIZE=1` turns on, found a fault.
- `ForkedError`: this is a forked child, and a thread that is not in it was at work with the object when it was forked. A new one
  works.
- `LinkError`: a board behind a connection cannot be reached.
  - `BoardInUseError`: it can be reached, but others have it.
- `InternalError`: the core broke its own rules: please report it.

`QuantizationWarning` is no error but a `UserWarning`: a model was quantized, and an output of it is spoiled, or gives
other answers than float more often than two in a hundred.
"""

from triune._native import (
    ArgumentError,
    BoardInUseError,
    Error,
    FileError,
    ForeignError,
    ForkedError,
    FormatError,
    InternalError,
    InUseError,
    KeyMismatchError,
    LinkError,
    NotQuantizedError,
    PendingError,
    ReleasedError,
    SanitizerError,
    SettingError,
    UnsupportedError,
)
from triune._text import shortened

__all__ = [
    "ArgumentError",
    "BoardInUseError",
    "Error",
    "FileError",
    "ForeignError",
    "ForkedError",
    "FormatError",
    "InUseError",
    "InternalError",
    "KeyMismatchError",
    "LinkError",
    "NotQuantizedError",
    "PendingError",
    "QuantizationWarning",
    "ReleasedError",
    "SanitizerError",
    "SettingError",
    "UnsupportedError",
]


def _short_message(self: Error, *args: object) -> None:
    """Take the message, which is shortened where a file or a program made it long."""
    RuntimeError.__init__(self, *shortened(args))


# The core cuts what it says itself; what Python says of an argument has the argument in it, of whatever length.
Error.__init__ = _short_message  # type: ignore[method-assign, assignment]


class QuantizationWarning(UserWarning):
    """Quantization spoiled an output of a model: it says which, how, and what helps."""
