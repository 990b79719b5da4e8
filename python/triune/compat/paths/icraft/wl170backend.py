"""The vendor's import name for `triune.icraft.wl170backend`: the very same module, under a second name."""

import sys

import triune.icraft.wl170backend as _module

sys.modules[__name__] = _module
