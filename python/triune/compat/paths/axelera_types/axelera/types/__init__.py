"""The vendor's import name for `triune.axelera.types`: the very same modules, under a second name."""

import sys

import triune.axelera.types as _types

for _name in ("enums", "img"):
    sys.modules[f"{__name__}.{_name}"] = getattr(_types, _name)
sys.modules[__name__] = _types
