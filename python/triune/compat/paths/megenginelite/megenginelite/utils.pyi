from triune.megenginelite.utils import *  # noqa: F403
from triune.megenginelite.utils import __all__ as __all__
