"""The vendors' import names, for programs that must not be changed. Nothing here is on the path unless it is asked for.

`import triune.compat.axelera` makes `axelera.runtime` importable, `import triune.compat.megenginelite` `megenginelite`.
``python -m triune compat run program.py`` does both and runs the program.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

__all__ = ["install"]

_PATHS = Path(__file__).parent / "paths"


def install(vendor: str, module: str, *, force: bool = False, environment: bool = False) -> None:
    """Make the import name `module` mean Triune's front end for `vendor`; doing so again is harmless.

    The name is found through a directory added to `sys.path`, so that other packages of a vendor's namespace stay
    importable. With `environment`, child processes that run Python find it, too.

    Raises ImportError if the vendor's own package is there, unless `force` puts Triune's in front of it.
    """
    folder = str(_PATHS / vendor)
    if folder not in sys.path:
        found = _origin(module)
        if found is not None and not force:
            raise ImportError(
                f"{module} of the vendor is installed ({found}); Triune does not replace it silently. Uninstall it, "
                f"or ask for it: triune.compat.install({vendor!r}, {module!r}, force=True), or --force on the command line",
                name=module,
            )
        for loaded in [name for name in sys.modules if name == module or name.startswith(module + ".")]:
            del sys.modules[loaded]
        sys.path.insert(0 if found else len(sys.path), folder)
        importlib.invalidate_caches()
    if environment:
        paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        if folder not in paths:
            os.environ["PYTHONPATH"] = os.pathsep.join(path for path in (folder, *paths) if path)


def _origin(module: str) -> str | None:
    """Return where `module` would come from, or None if there is none."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    return None if spec is None else spec.origin or "a namespace package"
