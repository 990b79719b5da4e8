"""The vendor's import name for `triune.megenginelite`: the very same modules, under a second name."""

import sys

import triune.megenginelite as _package
from triune.megenginelite import base, global_setting, network, struct, tensor, utils

for _module in (base, global_setting, network, struct, tensor, utils):
    sys.modules[f"{__name__}.{_module.__name__.rpartition('.')[2]}"] = _module
sys.modules[__name__] = _package
