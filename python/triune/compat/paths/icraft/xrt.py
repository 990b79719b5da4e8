"""The vendor's import name for `triune.icraft.xrt`: the very same module, under a second name."""

import sys

import triune.icraft.xrt as _module

sys.modules[__name__] = _module
