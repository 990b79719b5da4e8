"""The vendor's import name for `triune.icraft.buyibackend`: the very same module, under a second name."""

import sys

import triune.icraft.buyibackend as _module

sys.modules[__name__] = _module
