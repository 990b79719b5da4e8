"""What this module raises. Messages name the file, the operation or value, and the field that is wrong."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from triune._text import shortened

__all__ = ["Error", "InternalError", "XirWarning", "native_errors"]


class Error(RuntimeError):
    """A network, a file or a call is not as the vendor's rules have it."""

    def __init__(self, *args: object) -> None:
        """Take the message, which is shortened where a file or a program made it long."""
        super().__init__(*shortened(args))

    # Whether the message has the file and the place in it.
    _says_where = False


class InternalError(Error):
    """A handle is null, or not of the class that it was taken for; the vendor's checks raise the same."""


class XirWarning(UserWarning):
    """A file deviates in a way that does not keep it from being read, such as a digest that does not match."""


@contextlib.contextmanager
def native_errors(where: str) -> Iterator[None]:
    """Raise what the core says of `where` as `Error`."""
    from triune.errors import Error as NativeError

    try:
        yield
    except NativeError as error:
        raise Error(f"{where}: {error}" if where else str(error)) from None
