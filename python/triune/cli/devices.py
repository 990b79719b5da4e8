"""``triune devices``: the virtual cards, a line each, in the manner of the vendor's ``axdevice``, and their clocks."""

from __future__ import annotations

import argparse
import json
import time
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from triune._text import nearest
from triune.cli.arguments import positive

if TYPE_CHECKING:
    from triune import _native


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "devices",
        help="list the virtual cards, set their clocks",
        description="List the virtual cards that TRIUNE_CARDS describes (by default one PCIe card): a list of board "
        "types such as pcie,m2, none, or a TOML file, of cards or of a device.",
    )
    parser.add_argument(
        "--set-clock", metavar="MHZ", type=positive, help="give every core this clock, and wait until it is in force"
    )
    parser.add_argument(
        "-d", "--device", metavar="DEVICE", help="a card's number or name, to list or set alone (default: all)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, with all settings")
    parser.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    from triune import _native

    cards = _chosen(list(enumerate(_native.cards())), options.device)
    if options.set_clock is not None:
        if not cards:
            raise ValueError("--set-clock: there are no devices (TRIUNE_CARDS describes none)")
        for _, card in cards:
            card.configure([("clock_profile", str(options.set_clock))])
        while not all(card.ready() for _, card in cards):
            time.sleep(0.01)
    if options.json:
        print(json.dumps([_described(number, card) for number, card in cards], indent=1))
        return 0
    for number, card in cards:
        settings = card.settings()
        users = card.users()
        memory = f" {_memory(card.max_memory)}" if card.max_memory else ""
        use = f" in use: {_cores(users)}" if users else ""
        ready = "" if card.ready() else " (pending)"
        clocks = [(core, settings[f"clock_profile_core_{core}"] + "MHz") for core in range(card.sub_devices)]
        limits = [(core, settings[f"mvm_utilisation_core_{core}"] + "%") for core in range(card.sub_devices)]
        print(
            f"Device {number}: {card.name}{memory} {card.board_type} flver={card.flashed_firmware_version} "
            f"clock={settings['clock_profile']}MHz({_cores(clocks)}){ready} mvm={_cores(limits)}{use}"
        )
    if not cards:
        print("no devices")
    return 0


def _chosen(cards: list[tuple[int, _native.Card]], wanted: str | None) -> list[tuple[int, _native.Card]]:
    """Return the card of that number or name."""
    if wanted is None:
        return cards
    chosen = [(number, card) for number, card in cards if wanted in (str(number), card.name)]
    if not chosen:
        raise ValueError(
            f"--device: unknown device {wanted!r}{nearest(wanted, [card.name for _, card in cards], 'the devices are')}"
        )
    return chosen


def _described(number: int, card: _native.Card) -> dict[str, Any]:
    return {
        "number": number,
        "name": card.name,
        "device": card.device,
        "board_type": card.board_type,
        "sub_devices": card.sub_devices,
        "max_memory": card.max_memory,
        "firmware_version": card.firmware_version,
        "flashed_firmware_version": card.flashed_firmware_version,
        "board_revision": card.board_revision,
        "ready": card.ready(),
        "settings": card.settings(),
        "users": [{"sub_device": core, "user": user} for core, user in card.users()],
    }


def _memory(size: int) -> str:
    """Return a size in the largest unit that it is a whole number of: ``16GiB``."""
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size % 2**power == 0:
            return f"{size >> power}{unit}"
    return f"{size}B"


def _cores(values: list[tuple[int, str]]) -> str:
    """Join neighbours with the same value: ``0-2:800MHz,3:400MHz``."""
    parts = []
    for value, group in groupby(values, key=itemgetter(1)):
        cores = [core for core, _ in group]
        parts.append(f"{cores[0]}-{cores[-1]}:{value}" if len(cores) > 1 else f"{cores[0]}:{value}")
    return ",".join(parts)
