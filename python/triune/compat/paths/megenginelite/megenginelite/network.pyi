from triune.megenginelite.network import *  # noqa: F403
from triune.megenginelite.network import __all__ as __all__
