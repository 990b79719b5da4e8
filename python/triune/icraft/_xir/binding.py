"""Calls with several forms, as the vendor's bindings have them: which form the arguments fit, by number and name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

__all__ = ["REQUIRED", "Form", "fits", "shown"]


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Any = _Required()
"""The default of a parameter without one."""

Form = Sequence[tuple[str, Any]]
"""Parameters in order, with their defaults. A name that begins with ``*`` takes all arguments that are left."""


def fits(forms: Sequence[Form], arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the arguments by name for each form that they fit, in the order of the forms."""
    for form in forms:
        found = _bound(form, arguments, keywords)
        if found is not None:
            yield found


def _bound(form: Form, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> dict[str, Any] | None:
    if form and form[0][0].startswith("*"):
        return None if keywords else {form[0][0]: arguments}
    if len(arguments) > len(form) or not keywords.keys() <= {name for name, _ in form[len(arguments) :]}:
        return None
    found = dict(zip((name for name, _ in form), arguments, strict=False)) | dict(keywords)
    for name, default in form:
        if name not in found:
            if default is REQUIRED:
                return None
            found[name] = default
    return found


def shown(name: str, forms: Sequence[Form]) -> str:
    """Return the forms of a call as text."""
    texts = []
    for form in forms:
        parts = [part if default is REQUIRED else f"{part}={_default(default)}" for part, default in form]
        texts.append(f"{name}({', '.join(parts)})")
    return " or ".join(texts)


def _default(value: Any) -> str:
    return str(value) if hasattr(value, "_json_name") else repr(value)
