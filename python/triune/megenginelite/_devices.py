"""Which devices there are: the host, simulated NPUs, and memory spaces that are simulated by holding data apart.

The environment variable ``TRIUNE_LITE_DEVICES`` configures them, such as ``cuda=2 atlas=1 npu=metis,zg330``: numbers of
devices, and for NPUs the device descriptions. One CUDA device and no ATLAS is the default; without ``npu`` the NPUs are
the virtual cards (``TRIUNE_CARDS``).
"""

from __future__ import annotations

import os
from typing import NoReturn

from triune.megenginelite.struct import LiteDeviceType

__all__ = ["HOSTS", "check", "count", "device_type", "npu_names"]

VARIABLE = "TRIUNE_LITE_DEVICES"
HOSTS = (LiteDeviceType.LITE_CPU, LiteDeviceType.LITE_DEVICE_DEFAULT)
"""What means the host's own memory."""

_MOST = 64
"""More devices of a kind are a mistake."""


def _wrong(what: str) -> NoReturn:
    raise RuntimeError(f"{VARIABLE}: {what}; expected such as 'cuda=1 atlas=0 npu=metis'")


def _settings() -> dict[str, str]:
    settings = {"cuda": "1", "atlas": "0"}
    for item in os.environ.get(VARIABLE, "").split():
        name, equals, value = item.partition("=")
        if not equals or name not in ("cuda", "atlas", "npu"):
            _wrong(f"{item!r} is not understood")
        settings[name] = value
    return settings


def npu_names() -> list[str]:
    """Return the device description of each simulated NPU.

    Raises RuntimeError if the configuration is wrong.
    """
    named = _settings().get("npu")
    if named is None:
        from triune import _native

        return [card.device for card in _native.cards()]
    return [name for name in named.split(",") if name]


def count(kind: LiteDeviceType) -> int:
    """Return how many devices of a kind there are; of the host, its CPUs.

    Raises RuntimeError if the configuration is wrong.
    """
    if kind in HOSTS:
        return os.cpu_count() or 1
    if kind == LiteDeviceType.LITE_NPU:
        return len(npu_names())
    if kind == LiteDeviceType.LITE_CAMBRICON:
        return 0
    text = _settings()["cuda" if kind == LiteDeviceType.LITE_CUDA else "atlas"]
    if not text.isdecimal() or int(text) > _MOST:
        _wrong(f"{text!r} is no number from 0 to {_MOST}")
    return int(text)


def device_type(value: int) -> LiteDeviceType:
    """Return the device type that a caller means.

    Raises RuntimeError if there is no such type.
    """
    try:
        return LiteDeviceType(value)
    except ValueError:
        raise RuntimeError(f"device_type: expected a LiteDeviceType, got {value!r}") from None


def check(kind: LiteDeviceType, number: int) -> None:
    """Raise RuntimeError unless there is a device `number` of that kind. The host takes any number."""
    if kind in HOSTS:
        return
    there = count(kind)
    if not 0 <= number < there:
        raise RuntimeError(
            f"there is no device {number} of type {kind.name}: {there} simulated; the environment variable {VARIABLE} "
            "configures them"
        )
