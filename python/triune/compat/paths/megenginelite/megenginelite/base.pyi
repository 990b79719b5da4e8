from triune.megenginelite.base import *  # noqa: F403
from triune.megenginelite.base import __all__ as __all__
