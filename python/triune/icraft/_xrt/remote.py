"""From a URL to a board behind a server (docs/serve.md)."""

from __future__ import annotations

import re
from typing import Final

from triune import _native
from triune.icraft._xrt.errors import DEVICE, failure
from triune.icraft._xrt.url import DeviceUrl

__all__ = ["connect"]

_PORT: Final = 9981
_PLACE: Final = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^:\[\]/]+)(?::([0-9]{1,5}))?")
_PASSED: Final = ("board", "share", "token_file", "ca", "insecure", "timeout", "patience")


def connect(parts: DeviceUrl) -> _native.Board:
    """Return the board that a ``socket`` URL asks for.

    Raises InternalError if the place is none or parameters contradict each other, LinkError if there is no connection.
    """
    match = _PLACE.fullmatch(parts.site)
    port = int((match and match[2]) or _PORT)
    if match is None or not 0 < port < 1 << 16:
        raise failure(DEVICE, f"Device.Open({parts.url!r}): {parts.site!r} is no place such as 192.168.1.2:9981")
    params = parts.params
    if "tls" in params and params["tls"] != ("ca" in params):
        raise failure(
            DEVICE,
            f"Device.Open({parts.url!r}): tls=1 goes with ca=FILE, the certificates to trust; without TLS there are none",
        )
    passed = {name: params[name] for name in _PASSED if name in params}
    return _native.Board.connect(match[1], port, parts.target, **passed)
