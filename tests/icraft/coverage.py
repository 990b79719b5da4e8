"""Which members of the vendor's published modules are there.

``python tests/icraft/coverage.py icraft_api.json`` prints members present and total, per module, and what is left out and why;
with ``--write`` it notes the members that are claimed in `surface/`, one file per module, which the tests hold on to.
"""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SURFACE = Path(__file__).parent / "surface"

MODULES = ["xir", "xrt", "host_backend", "zg330backend", "buyibackend"]
"""Modules of which everything is claimed that `LEFT_OUT` does not name."""

_PICKLED = "enumerations are Python's own, which are copied and stored by value"

LEFT_OUT: dict[str, dict[str, str]] = {
    "xir": {"*.__setstate__": _PICKLED},
    "xrt": {"*.__setstate__": _PICKLED},
    "host_backend": {},
    "zg330backend": {"*.__setstate__": _PICKLED},
    "buyibackend": {"*.__setstate__": _PICKLED},
}
"""Members that are not there, as class.member or *.member, and why."""


def described(api: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield class and member of a module's description; `-` is no class. Members end in `()`, `=` (can be set), or nothing."""
    for name in api.get("functions", {}):
        yield "-", f"{name}()"
    for name, found in api["classes"].items():
        yield name, ""
        for value in found.get("values", {}):
            yield name, value
        for member, texts in found.get("members", {}).items():
            if any(text.startswith("property") for text in texts):
                yield name, member + ("=" if any(text.startswith("setter") for text in texts) else "")
            else:
                yield name, f"{member}()"


def is_left_out(module: str, owner: str, member: str) -> bool:
    """Return whether a member is named in `LEFT_OUT`."""
    bare = member.rstrip("()=")
    return bool({f"{owner}.{bare}", f"*.{bare}", f"{owner}.*"} & LEFT_OUT.get(module, {}).keys())


def is_there(module: Any, owner: str, member: str) -> bool:
    """Return whether a module has a member, of the kind that is described."""
    if owner == "-":
        return callable(getattr(module, member[:-2], None))
    place = getattr(module, owner, None)
    if place is None or not member:
        return place is not None
    bare = member.rstrip("()=")
    missing = object()
    found = inspect.getattr_static(place, bare, missing)
    if found is missing:
        # What a metaclass or a class's type has, such as the members of enumerations.
        return hasattr(place, bare)
    if member.endswith("()"):
        return callable(getattr(place, bare))
    if member.endswith("="):
        return isinstance(found, property) and found.fset is not None
    return True


def claimed(module: str) -> list[tuple[str, str]]:
    """Return the members that are claimed of a module."""
    found = []
    for line in (SURFACE / f"{module}.txt").read_text().splitlines():
        owner, _, members = line.partition(":")
        found += [(owner, member) for member in (members.split() if owner == "-" else ["", *members.split()])]
    return found


def write(module: str, members: list[tuple[str, str]]) -> None:
    """Note the members that are claimed of a module."""
    owners: dict[str, list[str]] = {}
    for owner, member in members:
        owners.setdefault(owner, []).append(member)
    SURFACE.mkdir(exist_ok=True)
    lines = [f"{owner}: {' '.join(filter(None, found))}".rstrip() for owner, found in owners.items()]
    (SURFACE / f"{module}.txt").write_text("\n".join(lines) + "\n")


def main(arguments: list[str]) -> int:
    """Print the table; return how many claimed members are missing."""
    path = next(argument for argument in arguments if not argument.startswith("--"))
    wrong = 0
    for name, api in json.loads(Path(path).read_text()).items():
        members = list(described(api))
        module = importlib.import_module(f"triune.icraft.{name}")
        there = {(owner, member) for owner, member in members if is_there(module, owner, member)}
        print(f"{name:14} {len(there):5} of {len(members):5}")
        for reason, why in LEFT_OUT.get(name, {}).items():
            print(f"    left out: {reason}: {why}")
        unexplained = [pair for pair in members if pair not in there and not is_left_out(name, *pair)]
        for owner, member in unexplained:
            print(f"    missing: {owner}.{member}")
        wrong += len(unexplained) if name in MODULES else 0
        if "--write" in arguments and name in MODULES:
            write(name, [pair for pair in members if not is_left_out(name, *pair)])
    return wrong


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
