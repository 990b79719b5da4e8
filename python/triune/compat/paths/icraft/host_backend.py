"""The vendor's import name for `triune.icraft.host_backend`: the very same module, under a second name."""

import sys

import triune.icraft.host_backend as _module

sys.modules[__name__] = _module
