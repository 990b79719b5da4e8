"""The vendor's import name for `triune.icraft.xir`: the very same module, under a second name."""

import sys

import triune.icraft.xir as _module

sys.modules[__name__] = _module
