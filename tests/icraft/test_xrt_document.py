"""Everything that the vendor's document on `xrt` names is there, with the parameters that it names.

`documents/xrt.txt` lists it. What the members do, the other files test.
"""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from beside import load

from triune.icraft import xrt
from triune.icraft._xir.objects import ObjectRef

HERE = Path(__file__).parent
signatures = load(__file__, "signatures")


def listed() -> list[tuple[str, str]]:
    """Return class and form of every line; a class of its own has no form."""
    rows, owner = [], ""
    for line in (HERE / "documents" / "xrt.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("  "):
            rows.append((owner, line.strip()))
        elif line and not line.startswith("#"):
            owner = line
            rows.append((owner, ""))
    return rows


def refusal(owner: str, form: str) -> str:
    """Return what is missing of a member, empty if nothing is."""
    kind = getattr(xrt, owner, None)
    if not inspect.isclass(kind):
        return f"there is no class {owner}"
    words = form.split()
    if not words:
        return "" if owner in xrt.__all__ else f"{owner} is not exported"
    if words[0] == "property":
        if owner == "PtrType":
            return "" if all(hasattr(member, words[1]) for member in kind) else f"{owner} has no {words[1]}"
        found = inspect.getattr_static(kind, words[1], None)
        return "" if isinstance(found, property) else f"{owner}.{words[1]} is no property"
    static = words[0] == "static"
    name, parameters = words[static], words[static + 1 :]
    if name in ("__init__", "()"):
        if parameters in ([], ["arg0"]):
            return "" if callable(kind) else f"{owner} cannot be made"
        name = "__init__"
    elif not callable(getattr(kind, name, None)):
        return f"there is no {owner}.{name}"
    if static != isinstance(inspect.getattr_static(kind, name), staticmethod | classmethod):
        return f"{owner}.{name} is {'not ' * static}static"
    if owner == "PtrType":
        return "" if parameters == ["value"] and kind(1) is kind.ADDR else f"{owner} is made of a value"
    texts = [f"{name[:-1]}: x = 0" if name.endswith("?") else f"{name}: x" for name in parameters]
    text = f"{'static ' * static}({', '.join(['self'] * (not static) + texts)}) -> x"
    found = signatures.refusal(xrt, owner, name, text)
    return f"{owner}.{name}: {found}" if found else ""


@pytest.mark.parametrize(("owner", "form"), listed())
def test_a_member_of_the_document_is_there(owner: str, form: str) -> None:
    assert refusal(owner, form) == ""


def test_what_is_missing_is_found() -> None:
    assert len(listed()) > 190
    for owner, form in (
        ("Nothing", ""),
        ("Device", "static Connect url"),
        ("Device", "check levels"),
        ("Device", "static check level"),
        ("Device", "property version"),
        ("MemChunk", "read dest src_offset"),
        ("ZG330Device", "rTileCount"),
    ):
        assert refusal(owner, form) != "", form


@pytest.mark.parametrize("owner", [owner for owner, form in listed() if form == "__init__"])
def test_classes_without_arguments_are_null_handles(owner: str) -> None:
    handle: ObjectRef = getattr(xrt, owner)()
    assert isinstance(handle, ObjectRef)
    assert not handle.defined()
