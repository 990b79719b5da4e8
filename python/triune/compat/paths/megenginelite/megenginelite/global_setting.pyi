from triune.megenginelite.global_setting import *  # noqa: F403
from triune.megenginelite.global_setting import __all__ as __all__
