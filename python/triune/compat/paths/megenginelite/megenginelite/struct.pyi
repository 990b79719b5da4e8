from triune.megenginelite.struct import *  # noqa: F403
from triune.megenginelite.struct import __all__ as __all__
