"""The vendor's import name for `triune.icraft.host_backend`: the very same module, under a second name."""

import importlib
import sys

sys.modules[__name__] = importlib.import_module("triune.icraft.host_backend")
