"""Connections for packages of any device: to the virtual cards that take them, else to one that the package brings along."""

from __future__ import annotations

from triune import _native
from triune._targets import runs_on

from ._errors import DeviceInUse, vendor
from .objects import Connection, Context

__all__ = ["connect"]


def connect(context: Context, package: _native.Package) -> Connection:
    """Reserve as many sub-devices as the package's batch has images.

    Where virtual cards are of its device, they are on the first of these that has as many free; else on a card of the
    package's own, which all packages of its device have in common.

    Raises `DeviceInUse` if too few are free, `InvalidArgument` if no card of its device has as many, `InvalidConfiguration`
    if the description of the cards is wrong."""
    count = package.batch
    try:
        cards = [card for card in _native.cards() if runs_on(package.target, card.device)]
        own = None if cards else package.card()
    except _native.Error as error:
        raise vendor(error) from None
    if own is not None:
        try:
            return Connection(context, own, own.reserve(count))
        except _native.Error as error:
            raise vendor(error) from None
    large = [card for card in cards if card.sub_devices >= count] or cards
    busy: list[str] = []
    for card in large:
        try:
            return context.device_connect(card.name, count)
        except DeviceInUse as error:
            busy.append(str(error))
    raise DeviceInUse("; ".join(busy))
