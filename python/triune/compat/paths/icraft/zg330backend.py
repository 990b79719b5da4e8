"""The vendor's import name for `triune.icraft.zg330backend`: the very same module, under a second name."""

import sys

import triune.icraft.zg330backend as _module

sys.modules[__name__] = _module
