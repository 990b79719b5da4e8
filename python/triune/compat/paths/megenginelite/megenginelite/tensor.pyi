from triune.megenginelite.tensor import *  # noqa: F403
from triune.megenginelite.tensor import __all__ as __all__
