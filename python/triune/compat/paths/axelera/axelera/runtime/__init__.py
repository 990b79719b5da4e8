"""The vendor's import name for `triune.axelera.runtime`: the very same modules, under a second name.

There is no file ``axelera/__init__.py`` beside this folder, so that `axelera` stays a namespace and the vendor's other
packages stay importable.
"""

import sys

import triune.axelera.runtime as _runtime

for _name in ("objects", "axruntime", "op", "cv", "display", "scheduler"):
    sys.modules[f"{__name__}.{_name}"] = getattr(_runtime, _name)
sys.modules[f"{__name__}.cv.source"] = _runtime.cv.source
sys.modules[__name__] = _runtime
