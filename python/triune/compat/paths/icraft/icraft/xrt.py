"""The vendor's import name for `triune.icraft.xrt`: the very same module, under a second name."""

import importlib
import sys

sys.modules[__name__] = importlib.import_module("triune.icraft.xrt")
