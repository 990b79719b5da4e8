"""Whether functions accept the parameters that published signatures have, by name or, where those have none, by place."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any


def parameters(text: str) -> list[tuple[str, bool]]:
    """Return the parameters of a published signature, each with whether it has a default; `self` and ``*args`` are left out."""
    inside = text[text.index("(") + 1 : text.rindex(") ->")]
    parts, depth, part = [], 0, ""
    for character in inside + ",":
        depth += (character in "[(") - (character in "])")
        if character == "," and depth == 0:
            parts.append(part.strip())
            part = ""
        else:
            part += character
    found = []
    for part in filter(None, parts):
        name, _, rest = part.partition(":")
        if not name.startswith(("self", "*", "/")):
            found.append((name.partition("=")[0].strip(), "=" in rest))
    return found


def methods(api: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield class (`-` is none), name and signature of all that can be called."""
    for name, texts in api.get("functions", {}).items():
        for text in texts:
            yield "-", name, text
    for owner, found in api["classes"].items():
        for name, texts in found.get("members", {}).items():
            # What Python itself calls has no names for its parameters.
            special = name.startswith("__") and name not in ("__init__", "__call__")
            for text in texts:
                if not special and not text.startswith(("property", "setter")):
                    yield owner, name, text


def refusal(module: Any, owner: str, name: str, text: str) -> str:
    """Return why a call as published would be refused, empty if it would not."""
    place = module if owner == "-" else getattr(module, owner)
    names = parameters(text)
    if name == "__init__":
        if names in ([], [("arg0", False)]):
            return ""
        forms = getattr(place, "_forms", ())
        if forms:
            listed = [[parameter.rstrip("?*") for parameter, _ in form] for form in forms]
            given = [parameter for parameter, _ in names]
            fits = any(re.fullmatch(r"arg\d", given[0]) and len(form) >= len(given) for form in listed)
            return "" if fits or given in listed else f"forms are {listed}"
        function, skip = place.__init__, True
        others = getattr(place, "_other_names", {})
        names = [(others.get(parameter, parameter), default) for parameter, default in names]
    else:
        function = getattr(place, name)
        skip = owner != "-" and inspect.isfunction(function) and not text.startswith("static")
    signature = inspect.signature(function)
    if skip:
        signature = signature.replace(parameters=list(signature.parameters.values())[1:])
    for chosen in (names, [pair for pair in names if not pair[1]]):
        unnamed = [None for parameter, _ in chosen if re.fullmatch(r"arg\d", parameter)]
        named = {parameter: None for parameter, _ in chosen if not re.fullmatch(r"arg\d", parameter)}
        try:
            signature.bind(*unnamed, **named)
        except TypeError as error:
            return str(error)
    return ""
