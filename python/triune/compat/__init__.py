"""The vendors' import names, for programs that must not be changed. Nothing here is on the path unless it is asked for.

`import triune.compat.axelera` makes `axelera.runtime` importable, and `axelera.types` where the vendor's own is not installed;
`import triune.compat.megenginelite` `megenginelite`; `import triune.compat.icraft` `icraft.xir` and `xir`, and so for `xrt`,
`host_backend`, `zg330backend`, `buyibackend` (`buyi_backend`) and `wl170backend`, whose backend says why it is not there.
``python -m triune compat run program.py`` does all of it and runs the program.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["ICRAFT", "install"]

ICRAFT = ("icraft.xir", "xir")
"""Names that are looked for before those of `triune.icraft` are made importable; its other modules come with them."""

_PATHS = Path(__file__).parent / "paths"

_SIBLINGS = {"axelera": ("axelera.types", "axelera.runtime2")}
"""What a vendor ships beside it, each in a folder of its own: the vendor's wins, silently, where it is installed."""


def install(vendor: str, module: str | Sequence[str], *, force: bool = False, environment: bool = False) -> None:
    """Make the import name `module`, or several, mean Triune's front end for `vendor`; doing so again is harmless.

    Names are found through directories added to `sys.path`, so that other packages of a vendor's namespace stay
    importable; those of them that Triune has, too, come along if the vendor's are not
    installed. With `environment`, child processes that run Python find it, too.

    Raises ImportError if the vendor's own package is there, unless `force` puts Triune's in front of it.
    """
    folder = str(_PATHS / vendor)
    if folder not in sys.path:
        modules = (module,) if isinstance(module, str) else tuple(module)
        installed = {name: found for name in modules if (found := _origin(name)) is not None}
        for name, found in installed.items():
            if not force:
                raise ImportError(
                    f"{name} of the vendor is installed ({found}); Triune does not replace it silently. Uninstall it, "
                    f"or ask for it: triune.compat.install({vendor!r}, {module!r}, force=True), or --force on the command line",
                    name=name,
                )
        for loaded in list(sys.modules):
            if any(loaded == name or loaded.startswith(f"{name}.") for name in modules):
                del sys.modules[loaded]
        for parent in {name.partition(".")[0] for name in installed}:
            # A package that is no namespace would go on to look for modules where it came from.
            if getattr(sys.modules.get(parent), "__file__", None):
                del sys.modules[parent]
        sys.path.insert(0 if installed else len(sys.path), folder)
        importlib.invalidate_caches()
    added = [folder]
    for sibling in _SIBLINGS.get(vendor, ()):
        beside = str(_PATHS / sibling.replace(".", "_"))
        if beside not in sys.path and _origin(sibling) is None:
            sys.path.append(beside)
            importlib.invalidate_caches()
        added += [beside] if beside in sys.path else []
    if environment:
        paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        new = [path for path in added if path not in paths]
        os.environ["PYTHONPATH"] = os.pathsep.join(path for path in (*new, *paths) if path)


def _origin(module: str) -> str | None:
    """Return where `module` would come from, or None if there is none."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    return None if spec is None else spec.origin or "a namespace package"
