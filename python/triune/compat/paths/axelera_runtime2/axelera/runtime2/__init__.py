"""The name that the pipeline builder had before it became a part of `axelera.runtime`: the very same modules."""

import sys

import triune.axelera.runtime as _runtime

for _name in ("op", "cv", "display"):
    sys.modules[f"{__name__}.{_name}"] = getattr(_runtime, _name)
sys.modules[f"{__name__}.cv.source"] = _runtime.cv.source
sys.modules[__name__] = _runtime
