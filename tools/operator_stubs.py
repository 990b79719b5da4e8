"""Writes the stubs of the operators, whose classes are made of tables at run time, where type checkers cannot see them.

Run it after a change to the tables: ``python tools/operator_stubs.py``, then ``make format``. A test asks whether that
was done.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

from triune.icraft._xir import operators
from triune.icraft._xir.binding import REQUIRED
from triune.icraft._xir.operation import Operation

FOLDER = Path(operators.__file__).parent
FAMILIES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")

HEAD = "# Written by tools/operator_stubs.py from the tables of {}.py: change those.\n"
IMPORTS = {
    "collections.abc": ("Sequence",),
    "typing": ("overload",),
    "triune.icraft._xir.arrays": ("QuantizedScaleArray",),
    "triune.icraft._xir.enums": ("Interpolation", "Mode", "PaddingMode", "ResizeInterpolation", "RoundingMode"),
    "triune.icraft._xir.immediates": ("IntImm", "ScalarImm"),
    "triune.icraft._xir.layout": ("Layout",),
    "triune.icraft._xir.objects": ("Concrete", "ObjectRef"),
    "triune.icraft._xir.operation": ("Operation",),
    "triune.icraft._xir.operators._typed.network": ("AlignedUnit",),
    "triune.icraft._xir.types": ("TensorType",),
    "triune.icraft._xir.values": ("Params", "Value"),
}
ALIGNED_UNIT = """
class AlignedUnit(Concrete):
    @overload
    def __init__(self, index: list[int] | int, unit: list[int] | int) -> None: ...
    @overload
    def __init__(self, index: ObjectRef = ..., unit: None = None) -> None: ...
    @property
    def index(self) -> list[int]: ...
    @property
    def unit(self) -> list[int]: ..."""

SLOTS = {"?": "Value | None", "*": "Sequence[Value]"}
FIRST = {"Input": "*dtypes: TensorType | Sequence[TensorType]", "Output": "*values: Value | Sequence[Value]"}
CAST = "arg0: ObjectRef = ..., /"


def parameters(operator: Any, text: str, form: Any) -> str:
    """Return one form's parameters with their types."""
    slots = {slot.rstrip("?*"): SLOTS.get(slot[-1], "Value") for slot in operator._slots}
    aliases = dict(word.split("=") for word in text.replace("/", " ").split() if "=" in word)
    shown = []
    for name, default in form:
        bare = name.rstrip("?*")
        if bare in slots:
            kind = slots[bare]
        else:
            attribute = operator._table.get(aliases.get(bare, bare))
            # A name that stands for several attributes: all of them are whole numbers.
            kind = "int" if attribute is None else attribute.kind.accepted or attribute.kind.shown
        shown.append(f"{bare}: {kind}" + ("" if default is REQUIRED else " = ..."))
    return ", ".join(shown)


def constructors(operator: Any) -> list[str]:
    """Return the forms of a constructor."""
    pairs = zip(operator._texts, operator._forms, strict=True)
    forms = [FIRST.get(operator.__name__) or parameters(operator, *pair) for pair in pairs]
    if forms == ["input: Value"]:
        return ["input: ObjectRef = ..."]
    # The cast's form accepts the input alone, too.
    return [*dict.fromkeys(form for form in forms if form != "input: Value"), CAST]


def stub(family: str) -> str:
    """Return the text of a family's stub."""
    module = importlib.import_module(f"triune.icraft._xir.operators.{family}")
    lines = []
    for name in module.__all__:
        operator = getattr(module, name)
        if not issubclass(operator, Operation):
            lines += [ALIGNED_UNIT]
            continue
        lines += ["", f"class {name}(Operation):"]
        lines += [f"    {attribute.name}: {attribute.kind.shown}" for attribute in operator._table.values()]
        made = constructors(operator)
        for form in made:
            lines += ["    @overload"] if len(made) > 1 else []
            lines += [f"    def __init__(self, {form}) -> None: ..."]
    body = "\n".join(lines)
    used = {
        place: [name for name in names if re.search(rf"\b{name}\b", body) and f"class {name}(" not in body]
        for place, names in IMPORTS.items()
    }
    head = HEAD.format(family)
    blocks: tuple[list[str], list[str]] = ([], [])
    for place, names in used.items():
        if names:
            blocks[place.startswith("triune")].append(f"from {place} import {', '.join(names)}")
    imports = "\n\n".join("\n".join(block) for block in blocks if block)
    return f"{head}{imports}\n{body}\n"


def package() -> str:
    """Return the text of the stub that puts the families together."""
    head = "# Written by tools/operator_stubs.py: the families' stubs put together.\n"
    return head + "".join(
        f"from triune.icraft._xir.operators._typed.{family} import *  # noqa: F403\n" for family in FAMILIES
    )


def stubs() -> dict[Path, str]:
    """Return all stubs by place."""
    made = {FOLDER / "_typed" / f"{family}.pyi": stub(family) for family in FAMILIES}
    return {**made, FOLDER / "__init__.pyi": package()}


if __name__ == "__main__":
    for path, text in stubs().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        print(path)
