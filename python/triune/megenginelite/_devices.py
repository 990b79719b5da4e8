"""Which devices there are: the host, simulated NPUs, and memory spaces that are simulated by holding data apart.

The environment variable ``TRIUNE_LITE_DEVICES`` configures them, such as ``cuda=2 atlas=1 npu=metis,zg330``: numbers of
devices, and for NPUs the device descriptions. There is none by default; without ``npu`` the NPUs are
the virtual cards (``TRIUNE_CARDS``). It is read as a whole, when something first asks for such a device.
"""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from typing import NoReturn

from triune.megenginelite._errors import failure
from triune.megenginelite.struct import LiteDeviceType

__all__ = ["HOSTS", "check", "count", "device_type", "npu_names"]

VARIABLE = "TRIUNE_LITE_DEVICES"
HOSTS = (LiteDeviceType.LITE_CPU, LiteDeviceType.LITE_DEVICE_DEFAULT)
"""What means the host's own memory."""

_EXAMPLES = {
    LiteDeviceType.LITE_CUDA: "cuda=1",
    LiteDeviceType.LITE_ATLAS: "atlas=1",
    LiteDeviceType.LITE_NPU: "npu=metis,zg330",
}

_MOST = 64
"""More devices of a kind are a mistake."""


def _wrong(what: str) -> NoReturn:
    raise failure(
        f"{VARIABLE}: {what}; expected items with spaces between them, each at most once: cuda=COUNT, atlas=COUNT (0 to "
        f"{_MOST}), npu=NAME,NAME,… (device descriptions; empty for none), such as 'cuda=1 atlas=0 npu=metis'"
    )


@dataclass(frozen=True)
class _Configured:
    """What the variable says."""

    counts: dict[LiteDeviceType, int]
    npus: tuple[str, ...] | None
    """None where it does not say."""


@functools.lru_cache(maxsize=4)
def _parsed(text: str) -> _Configured:
    settings: dict[str, str] = {}
    for item in text.split():
        name, equals, value = item.partition("=")
        if not equals or name not in ("cuda", "atlas", "npu"):
            _wrong(f"{item!r} is not understood")
        if name in settings:
            _wrong(f"{name} is there twice")
        settings[name] = value
    counts = {}
    for kind, name, default in ((LiteDeviceType.LITE_CUDA, "cuda", "0"), (LiteDeviceType.LITE_ATLAS, "atlas", "0")):
        number = settings.get(name, default)
        if not (number.isascii() and number.isdecimal()) or len(number) > 4 or int(number) > _MOST:
            _wrong(f"{name}={number}: {number!r} is no number from 0 to {_MOST}")
        counts[kind] = int(number)
    named = settings.get("npu")
    npus = None if named is None else tuple(named.split(",")) if named else ()
    if npus is not None and ("" in npus or len(npus) > _MOST):
        _wrong(f"npu={named}: a name is empty" if "" in npus else f"npu: {len(npus)} are more than {_MOST}")
    return _Configured(counts, npus)


def _configured() -> _Configured:
    return _parsed(os.environ.get(VARIABLE, ""))


def npu_names() -> list[str]:
    """Return the device description of each simulated NPU.

    Raises RuntimeError if the configuration is wrong.
    """
    named = _configured().npus
    if named is None:
        from triune import _native

        return [card.device for card in _native.cards()]
    return list(named)


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
    return _configured().counts[kind]


def device_type(value: int) -> LiteDeviceType:
    """Return the device type that a caller means.

    Raises RuntimeError if there is no such type.
    """
    try:
        return LiteDeviceType(value)
    except ValueError:
        raise failure(f"device_type: expected a LiteDeviceType, got {value!r}") from None


def check(kind: LiteDeviceType, number: int) -> None:
    """Raise RuntimeError unless there is a device `number` of that kind. The host takes any number."""
    if kind in HOSTS:
        return
    there = count(kind)
    if not 0 <= number < there:
        example = _EXAMPLES.get(kind)
        cure = f"; the environment variable {VARIABLE} configures them, such as {VARIABLE}={example}" if example else ""
        raise failure(f"there is no device {number} of type {kind.name}: {there} simulated{cure}")
