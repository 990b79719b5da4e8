"""URLs of devices: ``protocol://device[@site][?name=value&...]``. Nothing here opens anything."""

from __future__ import annotations

import dataclasses
import os
import re
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any, Final

from triune.icraft._xrt.errors import DEVICE, expect, failure

__all__ = ["DEFAULT_VARIABLE", "DEVICES", "PARAMETERS", "PROTOCOLS", "DeviceUrl", "parse"]

DEFAULT_VARIABLE: Final = "TRIUNE_ICRAFT_DEVICE"
"""The environment variable that says what the empty URL opens, ``buyi`` or ``zg330``; zg330 without it."""

PROTOCOLS: Final[Mapping[str, str]] = {
    "axi": "a simulated board in this process",
    "sim": "the same",
    "mock": "a board in this process that has memory and registers, and computes nothing",
    "socket": "a board behind a server",
}

DEVICES: Final[Mapping[str, str]] = {
    "ql100aiu": "buyi",
    "ql100ai": "buyi",
    "buyi": "buyi",
    "zg330aiu": "zg330",
    "zg330": "zg330",
    "haps-zg330": "zg330",
}
"""Names of devices in URLs, and the simulated devices that they stand for."""


def _address(text: str) -> int:
    value = int(text, 0)
    if not 0 <= value < 1 << 48:
        raise ValueError(text)
    return value


def _count(text: str) -> int:
    value = int(text)
    if not 0 <= value < 1 << 16:
        raise ValueError(text)
    return value


def _flag(text: str) -> bool:
    return {"0": False, "1": True}[text]


def _file(text: str) -> str:
    if not text:
        raise ValueError(text)
    return urllib.parse.unquote(text)


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < 1e6:
        raise ValueError(text)
    return value


PARAMETERS: Final[dict[str, dict[str, tuple[Callable[[str], Any], str]]]] = {
    protocol: {"npu": (_address, "an address such as 0x40000000"), "dma": (_address, "an address such as 0x80000000")}
    for protocol in PROTOCOLS
}
PARAMETERS["socket"] |= {
    "board": (_count, "the number of a board"),
    "share": (_flag, "0 or 1"),
    "tls": (_flag, "0 or 1"),
    "ca": (_file, "a PEM file with the certificates to trust"),
    "token_file": (_file, "a file with the server's token"),
    "insecure": (_flag, "0 or 1"),
    "timeout": (_seconds, "a time in seconds"),
    "patience": (_seconds, "a time in seconds"),
}
"""By protocol, the parameters that there are: what reads them, and what they have to be."""

_DEFAULTS: Final[Mapping[str, int]] = {"npu": 0x40000000, "dma": 0x80000000}
_FORM: Final = re.compile(r"([^:/?@]*)://([^:/?@]*)(?:@([^?]*))?(?:\?(.*))?", re.DOTALL)


@dataclasses.dataclass(frozen=True)
class DeviceUrl:
    """A URL, taken apart and checked."""

    url: str
    protocol: str
    device: str
    """The name as the URL has it."""
    target: str
    """The simulated device that the name stands for."""
    site: str
    """Host and port behind ``@``, empty without."""
    params: Mapping[str, Any]
    """Values by name; ``npu`` and ``dma`` are always there, the others where the URL has them."""


def parse(url: str) -> DeviceUrl:
    """Take a URL apart. The empty one stands for a simulated board (see `DEFAULT_VARIABLE`).

    Raises InternalError naming the protocol, device, site or parameter that is wrong, and what there is.
    """
    expect("Device.Open: url", url, str, "a URL")
    text = url or f"axi://{_default()}"

    def refused(problem: str) -> Exception:
        return failure(DEVICE, f"Device.Open({url!r}): {problem}")

    match = _FORM.fullmatch(text)
    if match is None:
        raise refused("is no URL of a device; they look like socket://zg330aiu@192.168.1.2:9981?npu=0x40000000")
    protocol, device, site, query = match.groups()
    if protocol not in PROTOCOLS:
        raise refused(f"there is no protocol {protocol!r}; there are {', '.join(PROTOCOLS)}")
    if device == "wl170":
        from triune.icraft._xrt.wl170 import WHY

        raise refused(WHY)
    if device not in DEVICES:
        raise refused(f"there is no device {device!r}; there are {', '.join(DEVICES)}")
    if protocol == "socket":
        if not site:
            raise refused("a socket needs the place of its server, as in socket://zg330aiu@192.168.1.2:9981")
    elif site is not None:
        raise refused(f"{protocol}://{device} is in this process: it lies at no place such as {site!r}")
    params: dict[str, Any] = dict(_DEFAULTS)
    known = PARAMETERS[protocol]
    seen = set()
    for part in query.split("&") if query else []:
        name, equals, value = part.partition("=")
        if name not in known:
            raise refused(f"{protocol} has no parameter {name!r}; it has {', '.join(known)}")
        if name in seen:
            raise refused(f"the parameter {name!r} is given twice")
        seen.add(name)
        read, expected = known[name]
        try:
            if not equals:
                raise ValueError(part)
            params[name] = read(value)
        except (KeyError, ValueError):
            raise refused(f"the parameter {name!r} is {value!r}; it has to be {expected}") from None
    return DeviceUrl(url, protocol, device, DEVICES[device], site or "", params)


def _default() -> str:
    name = os.environ.get(DEFAULT_VARIABLE) or "zg330"
    if name not in DEVICES:
        raise failure(
            DEVICE,
            f"Device.Open(''): {DEFAULT_VARIABLE} is {name!r}, which is no device; there are {', '.join(DEVICES)}",
        )
    return name
